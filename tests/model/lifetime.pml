/* SPDX-License-Identifier: MIT */
/*
 * The life of a store and of its block: handles and views, scopes that outlive them, work in flight, eviction, and the next buffer that gets
 * the block.
 *
 *   retain, release        src/store/store_references.c  ferryi_store_retain(), ferryi_store_release()
 *   open, close            src/store/claim.c  try_claim(); access.c: ferryi_access_close(), its `last`
 *   free_store             src/store/store.c  ferryi_store_free(), release_copies(); store_copy.c: ferryi_store_give_back()
 *   list                   src/context.c       the context's list of stores, under its mutex
 *   ender                  src/context.c       take_store(); store_references.c: ferryi_store_retain_living()
 *   evictor                src/buffer/evict.c  find(), consider(), write_back_and_drop()
 *   give, take             src/pool            ferryi_pool_give() with a sync point, ferryi_pool_take() ordering the timeline after it
 *
 * Several threads have a handle each on one store, the first one the owner's and the others views of it; each
 * opens a scope, queues work on the device, and destroys its handle before or after it closes. With END the
 * context ends meanwhile. Checked: the store is freed once, and neither touched afterwards nor kept for ever; work
 * never runs in a block that another buffer has; the block comes back (an invalid end state otherwise).
 * Each BREAK_... must make one of these fail.
 */

#ifndef THREADS
#define THREADS 2
#endif

byte references = 1, claims, drops; /* drops: claims of the evictor */
bit doomed, freed, listed = 1, store_mutex;
bit has_block, had_block;        /* the store has a copy on the device; the block was given back */
byte in_flight;                  /* work queued on the block that has not run */
byte noted;                      /* of it, what the copy's sync points know of */
bit pending;                     /* given back, its sync point not done */
bit cached;                      /* in the pool, for whoever asks */
bit others;                      /* another buffer works in it */
byte running;

/* Whoever looks at the store. */
#define touch() assert(!freed)

inline give_back() {
    assert(has_block);
    has_block = 0; had_block = 1;
#ifdef BREAK_PENDING
    cached = 1
#else
    if :: noted > 0 -> pending = 1 :: else -> cached = 1 fi
#endif
}

/* It is over: out of the list, the copies' blocks to the pool with their sync points, and away. */
inline free_store() {
#ifndef BREAK_UNLIST
    atomic { store_mutex == 0 -> touch(); listed = 0 }
#endif
    d_step { touch(); if :: has_block -> give_back() :: else fi }
    d_step { assert(!freed); freed = 1 }
}

/* Under the lock: no claim and no handle is left. */
#define is_over (claims + drops == 0 && doomed)

inline close_claim(count) {
    atomic {
        touch();
        count--;
#ifdef BREAK_LAST
        last = 0
#else
        last = is_over
#endif
    }
    if
    :: last -> d_step { doomed = 0; last = 0 } free_store()
    :: else
    fi
}

inline release() {
    atomic {
        touch();
        references--;
        if :: references == 0 -> doomed = 1 :: else fi;
#ifdef BREAK_DOOMED
        last = references == 0
#else
        last = references == 0 && claims + drops == 0
#endif
    }
    if
    :: last -> d_step { doomed = 0; last = 0 } free_store()
    :: else
    fi
}

/* Its handle is made before the thread starts: a view of the owner's, or the owner's. */
proctype thread() {
    bit last;
    bool closed;
    /* open: the claim, then memory, which the claim protects */
    d_step { touch(); claims++ }
    atomic { drops == 0 -> touch(); if :: !has_block && !had_block -> has_block = 1 :: else fi }
    if
    :: has_block -> in_flight++;
        if
        :: release();
            /* close: the use is noted, then the claim goes */
            d_step { touch(); noted++ }
            close_claim(claims)
        :: d_step { touch(); noted++ }
            close_claim(claims);
            release()
        fi
    :: else -> /* evicted for good, in this model */
        close_claim(claims);
        release()
    fi;
    running--
}

/* Wants the block. */
proctype evictor() {
    bit last, found;
    atomic { store_mutex == 0 -> store_mutex = 1 }
    if
    :: listed ->
        atomic {
            touch();
            if
#ifdef BREAK_EVICT_REFERENCES
            :: claims == 0 && has_block -> drops = 1; found = 1
#else
            :: references > 0 && claims == 0 && has_block -> drops = 1; found = 1
#endif
            :: else
            fi
        }
    :: else
    fi;
    store_mutex = 0;
    if
    :: found ->
        skip; /* writing back */
        d_step {
            touch();
#ifdef BREAK_EVICT_TWICE
            cached = 1
#else
            give_back()
#endif
        }
        close_claim(drops)
    :: else
    fi;
    running--
}

#ifdef END
inline look() { touch(); living = references > 0 || claims + drops > 0 }
inline count_in() {
    touch();
    if :: living -> references++ :: else fi;
#ifndef BREAK_END_DOOMED
    if :: living -> doomed = 0 :: else fi
#endif
}

/* The end of the context takes what is listed. What another thread is freeing leaves the list: for that it waits. */
proctype ender() {
    bit last, living;
    do
    :: atomic { store_mutex == 0 -> store_mutex = 1 }
        if
        :: !listed -> store_mutex = 0; break
        :: else ->
#ifdef BREAK_END_LOOK
            d_step { look() } d_step { count_in() }
#else
            d_step { look(); count_in() }
#endif
            if
            :: living -> listed = 0; store_mutex = 0; release(); break
            :: else -> store_mutex = 0; !listed
            fi
        fi
    od;
    running--
}
#endif

/* Work runs when it likes; a sync point is done when it has. */
proctype device() {
end:
    do
    :: atomic { in_flight > 0 -> assert(!others); in_flight--; if :: noted > 0 -> noted-- :: else fi }
    od
}

/* The pool, and the buffer that takes the block next. */
proctype other() {
    if
    :: atomic { pending && in_flight == 0 -> pending = 0; cached = 1 } /* the sync point's event is done */
#ifdef BREAK_TAKE
    :: atomic { pending -> pending = 0; cached = 1 }
#endif
    :: cached
    fi;
    d_step { cached = 0; others = 1; assert(!has_block) }
}

init {
    atomic {
        byte t;
        for (t : 1 .. THREADS) {
            if
            :: t > 1 ->
#ifndef BREAK_VIEW
                references++
#else
                skip
#endif
            :: else
            fi
        }
        t = 0;
        running = THREADS + 1;
#ifdef END
        running++;
        run ender();
#endif
        for (t : 1 .. THREADS) { run thread() }
        run evictor();
        run device();
        run other()
    }
    running == 0;
    in_flight == 0;
    assert(freed && references == 0 && claims == 0 && drops == 0);
    /* The other buffer has got it, when there was one. */
    others || !had_block
}
