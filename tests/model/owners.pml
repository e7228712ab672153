/* SPDX-License-Identifier: MIT */
/*
 * The owners of a context and the shares of a lease, whose last ones go on any threads: who ends the context, once, and what the end still finds.
 *
 *   give_back, end            src/context.c         give_back(), end_elsewhere()
 *   try_own                   src/stream/shell.c    ferryi_shell_try_own()
 *   take_store, kill          src/context.c         take_store(), report_and_kill_stores(), context_end()
 *   release, free_store       src/store/store_references.c ferryi_store_release(); store.c: ferryi_store_free(), retire()
 *   drop_share, end_lease     src/buffer/lease.c    ferry_lease_destroy(), end()
 *   open_late                 src/buffer/lease.c    ferry_lease_open() in a callback of the end
 *
 * A program has a handle on a buffer and owns its context; a lease of the buffer has two shares. One goes on a thread of the program, the other
 * one inside a call on a thread of the context, which the end waits for. The program gives its handle and its ownership back in any order, and
 * a callback of the end opens another lease. Checked: the memory of the lease is there as long as a share is; the context ends once, after
 * the last owner and after whoever gives blocks back to its pools, and reports no buffer whose handle has gone; nothing touches the store, the lease or the context's shell after they were freed; all are freed, and nothing waits for ever (an invalid end state otherwise). Each
 * BREAK_... must make one of these fail.
 */

byte owners = 2;          /* the program and the lease */
byte shell = 2;           /* the context itself, and the store */
bit pools = 1, ended, shell_freed;
byte ends;                /* that have begun */
byte references = 2;      /* of the store: the handle and the lease */
bit listed = 1, killed, freed, handle = 1;
byte shares = 2;
bit lease_freed, late;
byte calls = 1;           /* on the context's thread */
byte running;

#define touch_shell() assert(!shell_freed)
#define touch_store() assert(!freed)
#define touch_lease() assert(!lease_freed)

inline release_shell() {
    atomic { touch_shell(); shell--; if :: shell == 0 -> shell_freed = 1 :: else fi }
}

/* The blocks go to the pools, then the store leaves the list, and is gone. What was killed has no blocks. */
inline free_store() {
    if :: !killed -> assert(pools) :: else fi;
    d_step { listed = 0; assert(!freed); freed = 1 }
    release_shell()
}

inline release() {
    atomic { touch_store(); references--; over = references == 0 }
    if :: over -> free_store() :: else fi
}

/* Whoever gives the last ownership back ends the context, which then has no owner again. */
inline give_back() {
#ifdef BREAK_TWICE
    seen = owners;
    atomic { touch_shell(); owners = seen - 1; over = seen == 1 }
#else
    atomic { touch_shell(); assert(owners > 0); owners--; over = owners == 0 }
#endif
}

/* In a callback of the end, on the store that the end is about to kill, while its handle lives: the lease is attached, then refused. */
inline open_late() {
    if
    :: atomic { references > 1 -> touch_store(); references++ }
        atomic {
#ifdef BREAK_TRY
            owners++; late = 1
#else
            if :: owners > 0 -> owners++; late = 1 :: else fi
#endif
        }
#ifndef BREAK_UNDO
        if :: !late -> release() :: else fi
#endif
    :: skip
    fi
}

inline end_context() {
    d_step { assert(ends == 0); ends++ }
#ifndef BREAK_WAIT
    calls == 0; /* the context's threads are joined */
#endif
    /* Stores that others are freeing are waited for; of the others each is retained, and killed. */
    do
#ifdef BREAK_GOING
    :: atomic { listed && references == 0 -> listed = 0 }
#endif
    :: atomic {
            listed && references > 0 -> touch_store(); listed = 0;
            assert(handle); /* it is reported as alive */
#ifndef BREAK_RETAIN
            references++
#endif
        }
        open_late();
        d_step { touch_store(); killed = 1; assert(pools) }
#ifndef BREAK_RETAIN
        release()
#endif
    :: atomic { !listed -> break }
    od;
    pools = 0;
    d_step { assert(calls == 0); ended = 1 }
    release_shell()
}

proctype ender() {
    bit over;
    end_context();
    running--
}

inline end_elsewhere() {
    atomic { running++; run ender() }
}

/* The last share: the use ends and the store goes, then the lease's ownership of the context. */
inline end_lease() {
#ifdef BREAK_ORDER
    give_back();
    if :: over -> end_elsewhere() :: else fi;
    release();
#else
    release();
    give_back();
    if
    :: over ->
#ifdef BREAK_JOIN
        end_context()
#else
        end_elsewhere()
#endif
    :: else
    fi;
#endif
    d_step { touch_lease(); lease_freed = 1 }
}

inline drop_share() {
    assert(pools && !ended && !freed); /* the holder uses the memory until here */
    touch_lease();
#ifdef BREAK_SHARES
    seen = shares;
    atomic { shares = seen - 1; over = seen == 1 }
#else
    /* Whoever is the only owner needs no exchange. */
    if
    :: atomic { shares == 1 -> over = 1 }
    :: atomic { shares > 1 -> over = 0 };
        atomic { shares--; over = shares == 0 }
    fi;
#endif
    if :: over -> end_lease() :: else fi
}

/* A thread of the program, and one of the context inside a call. */
proctype holder() {
    bit over;
    byte seen;
    drop_share();
    running--
}

proctype worker() {
    bit over;
    byte seen;
    drop_share();
    calls--;
    running--
}

proctype program() {
    bit over;
    byte seen, left = 2;
    do
    :: handle -> release(); handle = 0; left--
    :: left > 0 && (left == 2 || !handle) -> /* the ownership, before the handle or after it */
        give_back();
        left--;
        if :: over -> end_context() :: else fi;
        if :: handle -> release(); handle = 0; left-- :: else fi
    :: left == 0 -> break
    od;
    running--
}

init {
    atomic { running = 3; run holder(); run worker(); run program() }
    running == 0;
    assert(ends == 1 && ended && owners == 0 && shell_freed && freed && lease_freed && !late)
}
