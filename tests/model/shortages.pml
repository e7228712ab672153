/* SPDX-License-Identifier: MIT */
/*
 * Threads that are short of memory at the same time. Each holds the bytes of its call while it evicts, and while its on_shortage
 * callback wants the bytes of another thread.
 *
 *   take, release             src/store/claim.c      try_claim(), ferryi_claim_outlast(); store_lock.c: ferryi_store_unlock_and_park()
 *   STILL, in_callback, behind  src/base/blocked.c   is_blocked(), and the list of threads
 *   take_in_callback          src/store/claim.c      wait_for_call(), ferryi_claim_outlast()
 *   evict                     src/buffer/evict.c      consider(): a buffer in use is passed over
 *   short                     src/pool/shortage.c     ferryi_pool_overcome_shortage(), ask_program()
 *
 * A thread holds the range of its number, or both ranges, which it takes in their order. A third range may have
 * memory, for whoever evicts it first. Checked: no thread waits for ever (an invalid end state otherwise); a call in a callback is
 * refused only if the call in its way is blocked; and with two threads each gets memory, BUSY, or the bytes that it wanted. Each
 * BREAK_... must make one of these fail.
 */

#ifndef THREADS
#define THREADS 2
#endif
#define NONE 255

byte owner[3] = NONE;
bit memory[3];
byte room;                    /* memory that was evicted, and is there to take */
bit in_callback[THREADS], awake[THREADS];
byte behind[THREADS] = NONE;  /* the thread for whose call this one waits */

#ifdef BREAK_CALLBACK
#define INSIDE(x) 0
#else
#define INSIDE(x) in_callback[x]
#endif
#define BEHIND_ONE(x) (behind[x] != NONE && INSIDE(behind[x]))
#define BEHIND_TWO(x) (behind[x] != NONE && BEHIND_ONE(behind[x]))
/* Inside a callback, or behind a call that is, also across one other. */
#define STILL(x)      (INSIDE(x) || BEHIND_ONE(x) || BEHIND_TWO(x))
#ifdef BREAK_EAGER
#define REFUSED(x)    1
#else
#define REFUSED(x)    STILL(x)
#endif

inline release(r) {
    d_step {
        assert(owner[r] == me);
        owner[r] = NONE;
        for (each : 0 .. THREADS - 1) { awake[each] = 1 }
    }
}

/* The claim that is in the way is seen under the lock of the buffer, together with the epoch. The wait is noted later. */
inline sleep_behind(until) {
#ifndef BREAK_BEHIND
    behind[me] = seen;
#endif
    until;
    behind[me] = NONE
}

inline take(r) {
    do
    :: atomic { owner[r] == NONE -> owner[r] = me; break }
    :: atomic { owner[r] != NONE -> seen = owner[r]; awake[me] = 0 }
        sleep_behind(awake[me])
    od
}

/* The list is asked without the lock of the buffer, and again after a moment. */
inline take_in_callback(r) {
    do
    :: atomic { owner[r] == NONE -> owner[r] = me; got = 1; break }
    :: atomic { owner[r] != NONE -> seen = owner[r]; awake[me] = 0 }
        if
        :: atomic { REFUSED(seen) -> assert(STILL(seen)); busy = 1; break }
        :: else
        fi;
#ifdef BREAK_LOOK
        sleep_behind(awake[me])
#else
        sleep_behind((awake[me] || STILL(seen)))
#endif
    od
}

inline drop(r) { d_step { if :: memory[r] -> memory[r] = 0; room++ :: else fi } }

/* One step of the pool: what no call uses. */
inline evict(r) {
#ifdef BREAK_EVICT
    if
    :: owner[r] != me -> take(r); drop(r); release(r)
    :: else
    fi
#else
    if
    :: atomic { owner[r] == NONE -> owner[r] = me } drop(r); release(r)
    :: else
    fi
#endif
}

inline use_room() { d_step { if :: !has && room > 0 -> room--; has = 1 :: else fi } }

proctype thread(byte me; bit both) {
    byte seen, each, mine = me % 2, wanted = 1 - me % 2;
    bit has, got, busy;
    if
    :: both -> take(0); take(1)
    :: else -> take(mine)
    fi;
    use_room();
    if
    :: !has -> evict(2); evict(wanted); use_room()
    :: else
    fi;
    if
    :: !has ->
        in_callback[me] = 1;
        take_in_callback(wanted);
        if
        :: got -> drop(wanted); release(wanted)
        :: else
        fi;
        in_callback[me] = 0;
        use_room()
    :: else
    fi;
#if THREADS == 2
    assert(has || busy || got);
#endif
    d_step { if :: has -> memory[mine] = 1 :: else fi }
    release(mine);
    if
    :: both -> release(wanted)
    :: else
    fi
}

init {
    atomic {
        byte t;
        if :: memory[2] = 1 :: memory[2] = 0 fi;
        for (t : 0 .. THREADS - 1) {
            if
            :: run thread(t, 0)
            :: run thread(t, 1)
            fi
        }
    }
}
