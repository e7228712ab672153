/* SPDX-License-Identifier: MIT */
/*
 * Sync points, streams and events: the uses of one copy of two bytes, by the host and on streams that work when they like.
 *
 *   record_event, event_after    src/stream/timeline.c         ferryi_timeline_record_event(), event_after(): the ring, under the timeline's mutex
 *   sync_point_wait              src/stream/timeline.c         ferryi_sync_point_wait(): a stream waits (seen) or the host does (done)
 *   is_done, is_ordered          src/stream/timeline.h         ferryi_sync_point_is_done(), ferryi_sync_point_is_ordered()
 *   sync_point                   src/stream/timeline.h         ferryi_timeline_sync_point(); timeline.c: ferryi_timeline_sync_point_since()
 *   note_joined                  src/stream/timeline.c         note_joined(): streams without a number, such as per-thread ones
 *   retire, recycle              src/stream/timeline_end.c     ferryi_timeline_retire()
 *                                src/stream/timeline.c         is_free(), timeline_set_up()
 *   order                        src/store/store_order.c  ferryi_store_order()
 *   note                         src/store/store_order.c  ferryi_store_note_read(), ferryi_store_note_write(); access.c: ferryi_access_note_use()
 *   claim                        src/store/claim.c        ferryi_claim_conflict(); the rest of it is protocol.pml's
 *
 * Timelines 1 and 2 are the user's streams, 3 is the join timeline, 4 a stream without a number; 0 is the host. A use queued on a
 * stream runs when the device likes;
 * event number n of a timeline happens when its record is reached. Checked: a use runs only after all earlier uses that it conflicts with (no stale
 * read, no lost write, across streams, recycled numbers and per-thread streams), and all that was queued runs in the end (an invalid end
 * state otherwise). Each BREAK_... must make one of these fail.
 *
 * Smaller searches: WHOLE, uses of both bytes only; WRITES, writes on streams only. PER_THREAD: stream 4 instead of 2. RETIRE: stream 2 is
 * destroyed once and its number handed out again.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 2
#endif

#define TIMELINES 5
#define RING  2
#define USES  (THREADS * OPERATIONS)

#define USE    1
#define RECORD 2
#define WAIT   3
chan queue[TIMELINES] = [14] of { byte, byte, byte };

/* timelines */
byte tick[TIMELINES], used[TIMELINES], done[TIMELINES], next_slot[TIMELINES], generation[TIMELINES];
byte seen[25];           /* seen[timeline * TIMELINES + number] */
bit retired[TIMELINES], mutex[TIMELINES];
byte number_of[10];      /* timeline * RING + slot: what the library knows */
byte recorded[10];       /* what the driver's event was last recorded as */
byte seen_at[30];        /* (timeline * RING + slot) * 3 + number - 1: what the timeline had seen when the event was recorded */
byte happened[TIMELINES];    /* the device's side: events reached */

/* the copy */
byte written_timeline, written_tick; /* timeline 0: nothing pending */
byte readers;

/* claims, one a thread */
bit open[THREADS], writes[THREADS];
byte bytes[THREADS], timeline_of[THREADS];
bit destroyed;  /* the user has no stream 2 now */
byte starting; /* threads between claim and use on timeline 2; the user destroys no stream under them */

/* what was used in which order */
byte uses, use_bytes[USES];
bit use_writes[USES], ran[USES];
byte running;

#define is_done(n, t) (n == 0 || done[n] > t)
#ifdef BREAK_SEEN
#define is_seen(l, n, t) (seen[l * TIMELINES + n] >= t)
#else
#define is_seen(l, n, t) (seen[l * TIMELINES + n] > t)
#endif
#define is_ordered(l, n, t) (is_done(n, t) || ((l) > 0 && (l) < 4 && ((l) == n || is_seen(l, n, t))))
#define last_tick(n) (used[n] - 1)
#define is_reader_ordered(l, n) (!((readers >> n) & 1) || used[n] == 0 || is_ordered(l, n, last_tick(n)))
#define readers_are_ordered(l) (is_reader_ordered(l, 1) && is_reader_ordered(l, 2) && is_reader_ordered(l, 3))

inline raise(place, floor) {
    if :: place < floor -> place = floor :: else fi
}

/* Every earlier use that conflicts has run. */
inline run_use(n) {
    for (u : 0 .. USES - 1) {
        assert(u >= n || ran[u] || (use_bytes[u] & use_bytes[n]) == 0 || (!use_writes[u] && !use_writes[n]))
    }
    u = 0;
    ran[n] = 1
}

/*
 * Records are reached, and waits are over, as soon as that can be: only uses take their time. Others can then run earlier than they
 * might, never later, and it is running too early that is looked for.
 */
inline push_record(l, k) {
    if :: empty(queue[l]) -> happened[l] = k :: nempty(queue[l]) -> queue[l]!RECORD, k, 0 fi
}
inline push_wait(l, n, k) {
    if :: empty(queue[l]) && happened[n] >= k :: nempty(queue[l]) || happened[n] < k ->
        assert(nfull(queue[l])); /* no stream waits repeatedly for the same */
        queue[l]!WAIT, n, k
    fi
}

/* With the timeline's mutex. The tick rises before the driver records; `slot` is where. */
inline record_event(l) {
    d_step {
        slot = next_slot[l];
        number_of[l * RING + slot] = 0;
        seen_at[(l * RING + slot) * 3] = seen[l * TIMELINES + 1];
        seen_at[(l * RING + slot) * 3 + 1] = seen[l * TIMELINES + 2];
        seen_at[(l * RING + slot) * 3 + 2] = seen[l * TIMELINES + 3];
        k = tick[l] + 1;
#ifdef BREAK_TICK
        push_record(l, k);
        recorded[l * RING + slot] = k
#else
        tick[l] = k
#endif
    }
    d_step {
#ifdef BREAK_TICK
        tick[l] = k;
#else
        push_record(l, k);
        recorded[l * RING + slot] = k;
#endif
        number_of[l * RING + slot] = k;
        next_slot[l] = (slot + 1) % RING;
        k = 0
    }
}

/* What the timeline's event stands for beside its own timeline. */
inline read_seen_at(l) {
#ifdef BREAK_COVER
    s1 = seen[l * TIMELINES + 1]; s2 = seen[l * TIMELINES + 2]; s3 = seen[l * TIMELINES + 3]
#else
    s1 = seen_at[(l * RING + slot) * 3]; s2 = seen_at[(l * RING + slot) * 3 + 1]; s3 = seen_at[(l * RING + slot) * 3 + 2]
#endif
}

/* The oldest event of timeline l that covers tick t: its slot, and its number now. */
inline event_after(l, t) {
    atomic {
        mutex[l] == 0 ->
        if
        :: number_of[l * RING] > t || number_of[l * RING + 1] > t ->
            slot = (number_of[l * RING] > t && (number_of[l * RING + 1] <= t || number_of[l * RING] < number_of[l * RING + 1]) -> 0 : 1)
        :: else ->
            if
            :: retired[l] -> slot = (number_of[l * RING] > number_of[l * RING + 1] -> 0 : 1)
            :: else -> mutex[l] = 1
            fi
        fi;
        number = (mutex[l] -> 0 : number_of[l * RING + slot]);
        if :: number > 0 -> read_seen_at(l) :: else fi;
#ifndef BREAK_CLOSING
        /* The closing event covers also what was noted while it was being recorded. */
        if :: number > 0 && number <= t -> number = t + 1 :: else fi
#endif
    }
    if
    :: number == 0 ->
        record_event(l);
        atomic { number = number_of[l * RING + slot]; read_seen_at(l); mutex[l] = 0 }
    :: else
    fi
}

/* Later work of timeline l waits for sync point (n, t). The event may have been recorded again, later, when the wait is queued. */
inline sync_point_wait(l, n, t) {
    if
    :: is_ordered(l, n, t)
    :: else ->
        event_after(n, t);
        if
        :: l > 0 ->
            d_step {
#ifndef BREAK_WAIT
                push_wait(l, n, recorded[n * RING + slot]);
#endif
                if
                :: l < 4 ->
                    raise(seen[l * TIMELINES + n], number);
                    raise(seen[l * TIMELINES + 1], s1); raise(seen[l * TIMELINES + 2], s2); raise(seen[l * TIMELINES + 3], s3)
                :: else
                fi
            }
        :: else ->
#ifndef BREAK_HOST
            happened[n] >= recorded[n * RING + slot];
#endif
            d_step { raise(done[n], number); raise(done[1], s1); raise(done[2], s2); raise(done[3], s3) }
        fi;
        atomic { slot = 0; number = 0; s1 = 0; s2 = 0; s3 = 0 }
    fi
}

/* Under the store's lock: a use of the timeline until now. `t` is set. */
inline sync_point(l, since, t) {
    if
    :: retired[l] -> raise(used[l], tick[l]); t = tick[l] - 1
    :: else -> t = tick[l]; raise(used[l], t + 1)
    fi
}

proctype thread(byte me) {
    byte left = OPERATIONS, l, since, wl, wt, rs, r, t, slot, number, k, u, s1, s2, s3;
    do
    :: left > 0 ->
        atomic {
            left--;
#ifdef WRITES
            select(l : 1 .. 2);
#else
            select(l : 0 .. 2);
#endif
#ifdef PER_THREAD
            if :: l == 2 -> l = 4 :: else fi; /* another stream in each thread, but the second thread has it as its first */
#endif
#ifdef WRITES
            writes[me] = 1;
#else
            if :: writes[me] = 0 :: writes[me] = 1 fi;
#endif
#ifdef WHOLE
            bytes[me] = 3
#else
            if :: bytes[me] = 1 :: bytes[me] = 2 :: bytes[me] = 3 fi
#endif
        }
        /* claim */
        atomic {
            if
            :: l == 2 && destroyed -> goto next
            :: else
            fi;
            for (u : 0 .. THREADS - 1) {
                if
                :: open[u] && (bytes[u] & bytes[me]) && (writes[u] || writes[me]) && (l == 0 || timeline_of[u] != l) -> r = 1
                :: else
                fi
            }
            u = 0;
            if
            :: r -> r = 0; goto next
            :: else
            fi;
            open[me] = 1;
            timeline_of[me] = l;
            since = generation[l];
            if :: l == 2 -> starting++ :: else fi;
            /* order */
            wl = written_timeline; wt = written_tick;
#ifndef BREAK_READERS
            rs = (writes[me] -> readers : 0)
#endif
        }
        sync_point_wait(l, wl, wt);
        r = 1;
        do
        :: r < 4 ->
            if
            :: (rs >> r) & 1 -> t = last_tick(r); sync_point_wait(l, r, t)
            :: else
            fi;
            r++
        :: else -> break
        od;
        /* the use */
        atomic {
            wl = 0; wt = 0; rs = 0; t = 0; r = 0;
            if
            :: l == 0 -> /* the host waited: these uses are over for everybody */
                if :: is_done(written_timeline, written_tick) -> written_timeline = 0; written_tick = 0 :: else fi;
                if :: readers_are_ordered(0) -> readers = 0 :: else fi
            :: else
            fi;
            use_bytes[uses] = bytes[me];
            use_writes[uses] = writes[me];
            uses++;
            if
            :: l == 0 -> run_use((uses - 1))
            :: else -> queue[l]!USE, uses - 1, 0
            fi;
            if :: l == 2 -> starting-- :: else fi
        }
        /* note: streams without a number are joined into timeline 3 at once */
        r = l;
        if
        :: l == 4 ->
            atomic { mutex[4] == 0 -> mutex[4] = 1 }
            record_event(4);
            atomic {
#ifndef BREAK_JOIN
                push_wait(3, 4, recorded[4 * RING + slot]);
#endif
                slot = 0;
                mutex[4] = 0;
                r = 3
            }
        :: else
        fi;
noting:
        atomic {
            if
            :: r == 0 || since != generation[l] -> goto close /* handed out again: the closing event was waited for */
            :: else
            fi;
            if
            :: !writes[me] -> sync_point(r, since, t); readers = readers | (1 << r); goto close
#ifdef BREAK_REPLACE
            :: writes[me] ->
#else
            :: writes[me] && is_ordered(r, written_timeline, written_tick) ->
#endif
#ifndef BREAK_NOTE
                sync_point(r, since, t);
                written_timeline = r; written_tick = t;
#endif
#ifdef BREAK_CLEAR
                readers = 0;
#else
                if :: readers_are_ordered(r) -> readers = 0 :: else fi;
#endif
                goto close
            :: else -> wl = written_timeline; wt = written_tick
            fi
        }
        sync_point_wait(r, wl, wt);
        goto noting;
close:
        atomic { open[me] = 0; wl = 0; wt = 0; t = 0; r = 0 }
next:
        atomic { l = 0; since = 0; bytes[me] = 0; writes[me] = 0; timeline_of[me] = 0 }
    :: else -> break
    od;
    running--
}

/* The device: each stream in order, streams in any order. */
proctype device(byte l) {
    byte n, k, u;
end:
    do
    :: atomic {
        if
        :: queue[l]?[USE, _, _] -> queue[l]?USE, n, k; run_use(n)
        :: queue[l]?[WAIT, _, _] -> queue[l]?<WAIT, n, k>;
           happened[n] >= k;
           queue[l]?WAIT, n, k
        fi;
        do
        :: queue[l]?[RECORD, _, _] -> queue[l]?RECORD, n, k; happened[l] = n
        :: else -> break
        od;
        n = 0; k = 0
    }
    od
}

#ifdef RETIRE
/* Stream 2 is destroyed, and its number handed out again. */
proctype user() {
    byte slot, k;
    atomic { starting == 0 && mutex[2] == 0 -> mutex[2] = 1; destroyed = 1 }
    record_event(2);
    atomic { slot = 0; retired[2] = 1; mutex[2] = 0 }
    atomic {
#ifndef BREAK_RECYCLE
        happened[2] >= tick[2];
#endif
#ifndef BREAK_LIFE
        tick[2]++;
#endif
        done[2] = tick[2];
        generation[2]++;
        /* To keep them would be right as well: what the former life waited for has happened. */
        seen[2 * TIMELINES + 1] = 0; seen[2 * TIMELINES + 3] = 0;
        retired[2] = 0;
        destroyed = 0
    }
    running--
}
#endif

init {
    atomic {
        byte i;
        running = THREADS;
        for (i : 1 .. TIMELINES - 1) { run device(i) }
        for (i : 0 .. THREADS - 1) { run thread(i) }
#ifdef RETIRE
        running++;
        run user()
#endif
    }
    running == 0;
    /* All of it runs in the end. */
    empty(queue[1]) && empty(queue[2]) && empty(queue[3]) && empty(queue[4]);
    assert(!mutex[1] && !mutex[2] && !mutex[3] && !mutex[4])
}
