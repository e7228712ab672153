/* SPDX-License-Identifier: MIT */
/*
 * A graph that is launched again and again with the address that it recorded, beside a scope at the host, an eviction, the next buffer that
 * gets the block, the end of the buffer's handle, and the end of the graph.
 *
 *   record                 src/buffer/recording.c   ferryi_recording_prepare(); lease_hold.c: ferryi_lease_hold()
 *   launch                 src/kernel/graph.c       ferry_graph_launch(); access.c: ferryi_access_open(), ferryi_access_close_all()
 *   device                 src/kernel/graph.c       do_work(); host_call.c: run_body(), call_end()
 *   host                   src/buffer/access.c      ferryi_access_prepare()
 *   evictor                src/buffer/evict.c       is_ours_to_give(), write_back_and_drop()
 *   destroy                src/kernel/graph.c       ferry_graph_destroy(), wait_for_launches(), let_go()
 *
 * The recorded work adds 1 to the buffer. Each launch claims the buffer, brings a newer value of the host to the block, and queues the work,
 * which runs later at the recorded address. With LOST, the device is lost and the wait of destroy fails. Checked: work never runs in a
 * block that another buffer has, nor after its memory was freed; whoever reads gets the value of all launches and writes before; no
 * one waits for ever (an invalid end state otherwise). Each BREAK_... must make one of these fail.
 */

#ifndef LAUNCHES
#define LAUNCHES 2
#endif

#define HOST   1
#define DEVICE 2

bit claim;                     /* the lock of the buffer's range */
byte map = HOST;               /* where the value is current */
byte at_host, at_device, expected;
byte pins, references;         /* of the replica; of the store: its handle, and the graph's lease */
bit moved;                     /* the store has another block than the recorded one */
bit others;                    /* another buffer has the recorded block */
bit given_back;                /* the recorded block is in the pool, behind its uses */
byte queued, noted;            /* work that has not run; of it, what the uses of the replica know */
byte owners;                   /* of the graph's struct: the handle, and each queued call */
bit work_freed, store_freed;
byte launchers, users;         /* threads that use the graph; the handle of the buffer */

inline lock()   { atomic { claim == 0 -> assert(!store_freed); claim = 1 } }
inline unlock() { claim = 0 }

inline give_block() {
    if
    :: !moved && !given_back && !others -> given_back = 1
    :: else
    fi
}

inline release_store() {
    d_step {
        references--;
        if
        :: references == 0 -> assert(!store_freed); store_freed = 1; give_block()
        :: else
        fi
    }
}

inline let_go() {
    d_step {
        owners--;
        if :: owners == 0 -> work_freed = 1 :: else fi
    }
}

/* -- the graph -- */

proctype launcher() {
    byte i;
    for (i : 1 .. LAUNCHES) {
        lock();
        /* Bring: a replica without a block gets one, and stale bytes come behind the uses of it. */
        if
        :: !(map & DEVICE) ->
#ifndef BREAK_BRING
            noted == 0 -> at_device = at_host; map = map | DEVICE
#else
            map = map | DEVICE
#endif
        :: else
        fi;
        d_step {
#ifndef BREAK_OWNER
            owners++;
#endif
            queued++
        }
        /* Close: the write is committed, and the use is noted. */
        d_step {
            map = DEVICE; expected++;
#ifndef BREAK_NOTE
            noted++
#endif
        }
        unlock()
    }
    launchers--
}

/* Runs the queued work. A note that comes after the work has run is of a use that is done. */
proctype device() {
end:
    do
    :: d_step {
        queued > 0 ->
        assert(!others && !moved);
        assert(!work_freed);
        at_device++; queued--
       };
#ifndef BREAK_OWNER
       let_go();
#endif
    od
}

/* An event behind the work is done: the uses that it covers are over. */
proctype events() {
end:
    do
    :: d_step { noted > queued -> noted = queued }
    od
}

proctype destroyer() {
    launchers == 0;
#ifndef BREAK_WAIT
    if
    :: queued == 0
#ifdef LOST
    :: true /* the wait fails */
#endif
    fi;
#endif
    let_go();
#ifndef BREAK_PIN
    pins--;
#endif
#ifndef BREAK_REFERENCE
    release_store()
#endif
}

/* -- the others -- */

proctype host() {
    lock();
    noted == 0;
    if
    :: !(map & HOST) -> at_host = at_device; map = map | HOST
    :: else
    fi;
    assert(at_host == expected);
    d_step { at_host = 10; expected = 10; map = HOST };
    unlock();
    lock();
    noted == 0;
    if
    :: !(map & HOST) -> at_host = at_device; map = map | HOST
    :: else
    fi;
    assert(at_host == expected);
    unlock();
    users--
}

proctype owner() {
    users == 0;
    release_store()
}

/* Takes the replica's block, if nothing holds it. */
proctype evictor() {
    if
    :: atomic { claim == 0 && pins == 0 && !store_freed && !moved && !given_back -> claim = 1 };
       noted == 0;
       if
       :: map == DEVICE -> at_host = at_device
       :: else
       fi;
       d_step { map = HOST; give_block(); moved = 1 };
       unlock()
    :: true
    fi
}

/* The pool gives the block to another buffer when its uses are done. */
proctype pool() {
end:
    do
    :: d_step { given_back && noted == 0 -> given_back = 0; others = 1 }
    od
}

init {
    d_step {
        references = 1; owners = 1; launchers = 1; users = 1;
#ifndef BREAK_PIN
        pins = 1;
#endif
#ifndef BREAK_REFERENCE
        references++
#endif
    }
    atomic {
        run launcher(); run device(); run events(); run destroyer();
        run host(); run owner(); run evictor(); run pool()
    }
}
