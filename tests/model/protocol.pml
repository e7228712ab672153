/* SPDX-License-Identifier: MIT */
/*
 * Claims, map and moves of one store of two bytes, at the host (place 0) and one device (place 1): who may use what when, what is moved
 * before, and what counts after. Time on the device is left out (order.pml): what is queued is done.
 *
 *   lock, unlock, wake, park   src/store/store.h  ferryi_store_lock(); store_lock.c: ferryi_store_unlock_waking(), ferryi_store_unlock_and_park()
 *   try_claim, conflict        src/store/claim.c       try_claim(), ferryi_claim_conflict(); claim_rely.c: ferryi_claim_rely(), ferryi_claim_end_relied()
 *   open_hit                   src/buffer/scope.c       open_hit(); scope_hit.h: ferryi_scope_open_current(), ferryi_scope_open_locked()
 *   prepare, bring             src/buffer/access.c      prepare_one(); bring.c: ferryi_bring_run(); move.c: ferryi_move_run(); access.c: open_scope()
 *   close                      src/buffer/access.c      ferryi_access_close(); scope_hit.h: ferryi_scope_close_read(), ferryi_scope_close_write()
 *   evict                      src/buffer/evict.c       consider(), write_back_and_drop(), forget()
 *   map                        src/map/coherence.c          ferryi_coherence_change(); by byte, what ./dev prove proves of windows
 *
 * A copy's byte is good when it has the newest value. Checked: whoever reads through an open scope sees good bytes when it opens
 * and when it closes (no stale read, mutual exclusion); every byte that the map gives to a place is good there and in the end every byte
 * can be read (no lost write); bytes are moved only from and to memory that is there (no use after free); no process waits for ever (an
 * invalid end state). Each BREAK_... takes one transition's care away, and must make one of these fail.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 2
#endif
#ifndef EVICTIONS
#define EVICTIONS 1
#endif

#define SLOTS (THREADS + 1)

/* access */
#define READ      1
#define UPDATE    2
#define OVERWRITE 3
#define DROP      4
/* state of a claim */
#define FREE    0
#define CALL    1
#define HELD    2
#define RELYING 3

#define writes(access)       (access != READ)
#define has(set, place)      ((set >> (place)) & 1)
#define in(bytes, b)         ((bytes >> (b)) & 1)
#define place_of(timeline)       (timeline > 0 -> 1 : 0) /* timeline 0 is the host, 1 and 2 are streams of the device */

bit waiters;
bit parked[THREADS];

byte access_of[SLOTS], state_of[SLOTS], bytes_of[SLOTS], timeline_of[SLOTS];
bit seen_of[SLOTS];    /* FERRYI_CLAIM_SEEN */
byte kept_of[SLOTS];   /* bytes of a write that the other place had as well */
bit overrun_of[SLOTS]; /* a later scope of the same stream writes: what this one reads it has read before */

byte map[2];   /* by byte: the set of places */
bit there[2];  /* by place: the copy has memory */
byte good[2];  /* by place: the bytes that have the newest value */
byte written;  /* bytes that some write has been committed to */
byte running;

/*
 * What happens under the spin bit touches nothing else that changes, so a section under one hold of it is one step (atomic, d_step). Only
 * where the lock is broken do others come in between.
 */
inline wake() {
#ifdef BREAK_WAKE
    skip
#else
    if
    :: waiters ->
        waiters = 0;
        for (w : 0 .. THREADS - 1) { parked[w] = 0 }
        w = 0
    :: else
    fi
#endif
}

/* -- the map, under the lock -- */

inline holds(place, bytes, answer) {
    answer = (!in(bytes, 0) || has(map[0], place)) && (!in(bytes, 1) || has(map[1], place))
}
/* The bytes that the other place has. */
#define elsewhere(place) ((has(map[0], 1 - place) -> 1 : 0) | (has(map[1], 1 - place) -> 2 : 0))

/* The bytes that only `place` has. */
inline only_there(place, answer) {
    answer = (map[0] == (1 << place) -> 1 : 0) | (map[1] == (1 << place) -> 2 : 0)
}
inline commit_read(place, bytes) {
    if :: in(bytes, 0) -> map[0] = map[0] | (1 << place) :: else fi;
    if :: in(bytes, 1) -> map[1] = map[1] | (1 << place) :: else fi
}
inline commit_write(place, bytes) {
    if :: in(bytes, 0) -> map[0] = 1 << place :: else fi;
    if :: in(bytes, 1) -> map[1] = 1 << place :: else fi;
    /* What was written is the newest value from now on, and no other copy has it. */
    written = written | bytes;
    good[place] = good[place] | bytes;
    good[1 - place] = good[1 - place] & ~bytes
}
inline forget(place, bytes) {
#ifdef BREAK_FORGET
    skip
#else
    if :: in(bytes, 0) && map[0] != (1 << place) -> map[0] = map[0] & ~(1 << place) :: else fi;
    if :: in(bytes, 1) && map[1] != (1 << place) -> map[1] = map[1] & ~(1 << place) :: else fi
#endif
}

/* -- claims, under the lock -- */

#define NONE 0
#define WAIT 1
#define BUSY 2

inline conflict(access, bytes, timeline, is_hit, worst) {
    worst = NONE;
    for (s : 0 .. SLOTS - 1) {
        if
        :: state_of[s] == FREE || (bytes_of[s] & bytes) == 0
        :: else ->
            if
            :: access == DROP && state_of[s] == HELD ->
#ifndef BREAK_EVICT_HELD
                if :: place_of(timeline_of[s]) == 1 -> worst = BUSY :: else fi
#else
                skip
#endif
            :: else ->
                if
                :: !writes(access_of[s]) && !writes(access) ->
                    if
                    :: state_of[s] != HELD && place_of(timeline_of[s]) == place_of(timeline) && !is_hit && worst < WAIT -> worst = WAIT
                    :: else
                    fi
                :: else ->
                    if
#ifdef BREAK_WAIT
                    :: state_of[s] != HELD
#else
                    :: state_of[s] != HELD && worst < WAIT -> worst = WAIT
#endif
                    :: state_of[s] == HELD && (timeline == 0 || timeline_of[s] != timeline) ->
#ifndef BREAK_CONFLICT
                        worst = BUSY
#else
                        skip
#endif
                    :: else
                    fi
                fi
            fi
        fi
    }
    s = 0
}

/* What open writes of the same stream cover is not moved; they are not abandoned before it is known what comes of this one. */
inline rely(slot, bytes, timeline) {
    covered = 0;
    for (s : 0 .. SLOTS - 1) {
        if
        :: timeline > 0 && state_of[s] == HELD && timeline_of[s] == timeline && writes(access_of[s]) && !seen_of[s] -> covered = covered | (bytes_of[s] & bytes)
        :: else
        fi
    }
    s = 0;
    if :: covered -> state_of[slot] = RELYING :: else fi
}
inline is_relied_on(bytes, timeline, answer) {
    answer = 0;
    for (s : 0 .. SLOTS - 1) {
        if :: state_of[s] == RELYING && timeline_of[s] == timeline && (bytes_of[s] & bytes) -> answer = 1 :: else fi
    }
    s = 0
}

/* Earlier writes of the same stream count from now on; what this one writes comes after what those read. */
inline commit_same_stream(access, bytes, timeline) {
    if
    :: timeline > 0 ->
        for (s : 0 .. SLOTS - 1) {
            if
            :: state_of[s] == HELD && timeline_of[s] == timeline && (bytes_of[s] & bytes) ->
                if
                :: writes(access_of[s]) && !seen_of[s] ->
#ifndef BREAK_SAME_STREAM
                    commit_write(1, bytes_of[s]);
                    seen_of[s] = 1
#else
                    skip
#endif
                :: else
                fi;
                if :: writes(access) -> overrun_of[s] = 1 :: else fi
            :: else
            fi
        }
        s = 0
    :: else
    fi
}

inline take_slot(access, bytes, timeline, state) {
    slot = 0;
    do :: state_of[slot] == FREE -> break :: else -> slot++ od;
    access_of[slot] = access; bytes_of[slot] = bytes; timeline_of[slot] = timeline; state_of[slot] = state
}
inline remove_claim(slot) {
    access_of[slot] = 0; bytes_of[slot] = 0; timeline_of[slot] = 0; state_of[slot] = FREE; seen_of[slot] = 0; overrun_of[slot] = 0; kept_of[slot] = 0
}

/* The scope is the user's: no other one may conflict, and what it reads is the newest. */
inline held(slot) {
    state_of[slot] = HELD;
    for (s : 0 .. SLOTS - 1) {
        assert(s == slot || state_of[s] != HELD || (bytes_of[s] & bytes_of[slot]) == 0 ||
               (!writes(access_of[s]) && !writes(access_of[slot])) || (timeline_of[s] > 0 && timeline_of[s] == timeline_of[slot]))
    }
    s = 0;
    assert(there[place_of(timeline_of[slot])]);
    assert(access_of[slot] == OVERWRITE || (good[place_of(timeline_of[slot])] & bytes_of[slot]) == bytes_of[slot]);
    /* From now on it may be half written. */
    if
    :: writes(access_of[slot]) ->
        kept_of[slot] = bytes_of[slot] & elsewhere(place_of(timeline_of[slot]));
#ifdef BREAK_COMMIT_EARLY
        commit_write(place_of(timeline_of[slot]), bytes_of[slot]);
#endif
        good[place_of(timeline_of[slot])] = good[place_of(timeline_of[slot])] & ~bytes_of[slot]
    :: else
    fi
}

/* -- moving, without the lock; the claim protects the bytes -- */

inline bring_byte(b, place) {
    if
    :: !in(todo, b)
    :: else ->
        if
        :: from[b] == 0 -> good[place] = good[place] | (1 << b) /* zeros, where nothing was ever written */
        :: else ->
            assert(there[from[b] - 1] && there[place]);
#ifndef BREAK_MOVE
            if
            :: in(good[from[b] - 1], b) -> good[place] = good[place] | (1 << b)
            :: else -> good[place] = good[place] & ~(1 << b)
            fi
#else
            skip
#endif
        fi;
        todo = todo & ~(1 << b);
        from[b] = 0
    fi
}

/* from[b]: 0 for zeros, else 1 + the place. */
inline plan(place, bytes) {
    todo = (in(bytes, 0) && !has(map[0], place) -> 1 : 0) | (in(bytes, 1) && !has(map[1], place) -> 2 : 0);
    from[0] = (map[0] == 0 || !in(todo, 0) -> 0 : 2 - place);
    from[1] = (map[1] == 0 || !in(todo, 1) -> 0 : 2 - place)
}

inline reserve(place) {
    if :: !there[place] -> there[place] = 1; good[place] = 0 :: else fi
}

/* Plan under the lock, move without it, let the place join under the lock. */
inline bring(place, bytes) {
    d_step {
        reserve(place);
        plan(place, bytes);
#ifdef BREAK_DELTA
        old[0] = map[0]; old[1] = map[1];
#endif
#ifdef BREAK_JOIN_EARLY
        commit_read(place, bytes)
#endif
    }
    if :: in(todo, 0) -> d_step { bring_byte(0, place) } :: else fi;
    if :: in(todo, 1) -> d_step { bring_byte(1, place) } :: else fi;
#ifndef BREAK_JOIN_EARLY
    d_step {
#ifdef BREAK_DELTA
        map[0] = old[0]; map[1] = old[1];
#endif
        commit_read(place, bytes)
    }
#endif
}

/* -- threads -- */

proctype thread(byte me) {
    byte left = OPERATIONS, access, bytes, timeline, slot, todo, from[2], old[2], answer, covered, s, w;
    bit hit;
    do
    :: left > 0 ->
        atomic {
            left--;
            select(access : READ .. OVERWRITE);
            select(bytes : 1 .. 3);
            select(timeline : 0 .. 2)
        }
claim:
        atomic {
            holds(place_of(timeline), bytes, hit);
            hit = there[place_of(timeline)] && (hit || access == OVERWRITE);
            conflict(access, bytes, timeline, hit, answer);
#ifdef BREAK_LOCK
        }
        atomic { /* others come between looking and taking */
#endif
            if
            :: answer == BUSY -> goto next
            :: answer == WAIT -> waiters = 1; parked[me] = 1; goto park
            :: else
            fi;
            take_slot(access, bytes, timeline, CALL);
            /* open_hit(): nothing to prepare, all under one hold of the lock */
            if
            :: hit -> commit_same_stream(access, bytes, timeline); held(slot); goto use
            :: else
            fi
        }
        d_step { rely(slot, bytes, timeline) }
        if
        :: access != OVERWRITE && (bytes & ~covered) -> bring(place_of(timeline), (bytes & ~covered))
        :: else -> d_step { reserve(place_of(timeline)) }
        fi;
        if
        :: d_step { commit_same_stream(access, bytes, timeline); held(slot); wake() }
        :: d_step { remove_claim(slot); wake() } /* something failed: nothing relies on it */
            goto next
        fi;
use:
        atomic {
            is_relied_on(bytes, timeline, answer);
            if
            :: access != READ -> /* close */
#ifndef BREAK_COMMIT
                commit_write(place_of(timeline), bytes)
#endif
            :: access != READ && !seen_of[slot] && !answer -> /* abandon: half of it may be written */
                forget(place_of(timeline), bytes);
                assert((kept_of[slot] & elsewhere(place_of(timeline)) & good[1 - place_of(timeline)]) == kept_of[slot]);
                /* Bytes that no other place has keep their present value. */
                good[place_of(timeline)] = good[place_of(timeline)] |
                    (bytes & ((map[0] == (1 << place_of(timeline)) -> 1 : 0) | (map[1] == (1 << place_of(timeline)) -> 2 : 0)))
            :: access == READ ->
                assert(overrun_of[slot] || (good[place_of(timeline)] & bytes) == bytes);
                assert(there[place_of(timeline)])
            fi;
            remove_claim(slot);
            wake()
        }
next:
        atomic { access = 0; bytes = 0; timeline = 0; slot = 0; answer = 0; covered = 0; hit = 0 }
    :: else -> break
    od;
    running--;
    goto end;
park:
    parked[me] == 0;
    goto claim;
end:
    skip
}

/* The device's copy is wanted back. Tries only. */
proctype evictor() {
    byte left = EVICTIONS, slot, todo, from[2], old[2], answer, only, s, w;
    do
    :: left > 0 ->
        atomic {
            left--;
            conflict(DROP, 3, 1, 0, answer);
            for (s : 0 .. SLOTS - 1) {
#ifndef BREAK_EVICT_WRITES
                if :: state_of[s] != FREE && writes(access_of[s]) -> answer = BUSY :: else fi
#else
                skip
#endif
            }
            s = 0;
            only_there(1, only);
#ifdef BREAK_EVICT_ONLY
            only = 0;
#endif
            if
            :: !there[1] || answer != NONE -> goto next
            :: there[1] && answer == NONE && !only -> forget(1, 3); there[1] = 0; good[1] = 0; goto next
            :: there[1] && answer == NONE && only
            fi;
#ifndef BREAK_EVICT_CLAIM
            take_slot(DROP, 3, 1, CALL)
#endif
        }
        bring(0, only);
        d_step {
            only_there(1, only);
#ifdef BREAK_EVICT_CLAIM
            only = 0;
#endif
            if
            :: only == 0 -> forget(1, 3); there[1] = 0; good[1] = 0
            :: else
            fi;
#ifndef BREAK_EVICT_CLAIM
            remove_claim(slot);
#endif
            wake()
        }
next:
        atomic { slot = 0; answer = 0; only = 0 }
    :: else -> break
    od;
    running--
}

init {
    atomic {
        byte t;
        running = THREADS + (EVICTIONS > 0 -> 1 : 0);
        for (t : 0 .. THREADS - 1) { run thread(t) }
        t = 0;
        if :: EVICTIONS > 0 -> run evictor() :: else fi
    }
    running == 0;
    /* What the map says is true of every byte, and nothing is open. */
    d_step {
        byte i;
        for (i : 0 .. SLOTS - 1) { assert(state_of[i] == FREE) }
        assert(!has(map[0], 0) || in(good[0], 0));
        assert(!has(map[0], 1) || in(good[1], 0));
        assert(!has(map[1], 0) || in(good[0], 1));
        assert(!has(map[1], 1) || in(good[1], 1));
        for (i : 0 .. 1) {
            assert(map[i] != 0 || !in(written, i));
            assert(there[0] || !has(map[i], 0));
            assert(there[1] || !has(map[i], 1))
        }
    }
}
