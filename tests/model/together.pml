/* SPDX-License-Identifier: MIT */
/*
 * Scopes together: a write that is closed or abandoned, a list of two ranges that is opened on top of it, all or none, an eviction of the
 * other copy, and unwritten zeros. Two bytes at two places; claims are waited for as protocol.pml has it.
 *
 *   join, forget, commit   src/map/coherence.c      ferryi_coherence_change()
 *   bring                  src/move/bring.c   ferryi_bring_run(); claim_rely.c: ferryi_claim_uncovered()
 *   rely, hold             src/store/claim_rely.c   ferryi_claim_rely(), ferryi_claim_end_relied(); access.c: ferryi_access_prepare(), open_scope()
 *   abandon                src/buffer/scope.c   close_how(); claim_rely.c: ferryi_claim_relying()
 *   drop                   src/buffer/place.c   drop(); claim.c: takes_last_old_value()
 *
 * Byte 0 was written by the host, or not at all, and then perhaps read at the host. Thread `writer` writes it at the device. Thread `opener` opens
 * both bytes on the same stream, and may fail: byte 1 is BUSY under a scope of `host`, or the device refuses. Thread `dropper` evicts
 * the host's copy of byte 0. Checked: what a scope reads is what it must be; and in the end every place that the map names has the
 * value, which is the old one where a write was abandoned that no successful call relied on. Each BREAK_... must make one of these fail.
 */

#define READ      1
#define UPDATE    2
#define OVERWRITE 3

/* Values in memory; ANY: none is promised. */
#define NONE 0
#define ZERO 1
#define OLD  2
#define NEW  3
#define ANY  4

/* state of a claim */
#define FREE    0
#define CALL    1
#define HELD    2
#define RELYING 3

#define HOST   1 /* bits of a set */
#define DEVICE 2

byte map[2];
bit zeros[2];              /* what the set's places hold is unwritten */
byte at_host[2], at_device[2];
byte expected[2];
byte writer_state, opener_state, busy_state; /* of byte 0: writer, opener. Of byte 1: host; the opener has both */
bit second;                /* the opener has claimed byte 1 */
bit seen;                  /* the write counts: FERRYI_CLAIM_SEEN */
bit dropping;
bit started;
byte running;

inline join(b, place) {
#ifndef BREAK_ZEROS
    if :: map[b] == 0 -> zeros[b] = 1 :: else fi;
#endif
    map[b] = map[b] | place
}
inline forget(b, place) {
    if
    :: zeros[b] || map[b] != place -> map[b] = map[b] & ~place
    :: else
    fi;
    if :: map[b] == 0 -> zeros[b] = 0 :: else fi
}
inline commit(b, place) {
    map[b] = place;
    zeros[b] = 0;
    expected[b] = NEW
}
/* To the device, without the lock: the claim protects the byte. */
inline bring(b) {
    if
    :: map[b] & DEVICE
    :: else ->
        if
        :: map[b] == 0 || zeros[b] -> at_device[b] = ZERO
        :: else -> at_device[b] = at_host[b]
        fi;
        join(b, DEVICE)
    fi
}
#define is_good(b, value) (expected[b] == ANY || value == expected[b])

proctype writer() {
    byte access;
    bit keeps; /* an abandon finds the old value elsewhere, or zeros are made anew */
    atomic {
        !dropping ->
        if :: access = UPDATE :: access = OVERWRITE fi;
        writer_state = CALL
    }
    atomic {
        if :: access == UPDATE -> bring(0) :: else fi;
        keeps = map[0] == 0 || zeros[0] || (map[0] & HOST);
        writer_state = HELD;
        at_device[0] = NEW;
        started = 1
    }
    if
    :: atomic {
            if :: !seen -> commit(0, DEVICE) :: else fi;
            writer_state = FREE
        }
    :: atomic {
#ifdef BREAK_ABANDON
            true ->
#else
            opener_state != RELYING ->
#endif
            forget(0, DEVICE);
            if :: expected[0] != NEW && !keeps -> expected[0] = ANY :: else fi;
            writer_state = FREE
        }
    fi;
    running--
}

#define relied_on (writer_state == HELD && !seen)

inline commit_relied() {
    if :: relied_on -> map[0] = DEVICE; zeros[0] = 0; seen = 1 :: else fi
}

proctype opener() {
    byte access;
    bit covered;
    started == 1;
    atomic {
        !dropping && writer_state != CALL ->
        if :: access = READ :: access = UPDATE fi;
        opener_state = CALL;
#ifdef BREAK_COMMIT
        commit_relied()
#endif
    }
    if
    :: atomic { busy_state == HELD -> goto fail } /* BUSY */
    :: atomic { busy_state == FREE -> second = 1 }
    fi;
    d_step {
        covered = relied_on;
        if :: covered -> opener_state = RELYING :: else fi
    }
#ifdef BREAK_COVER
    d_step { bring(0) }
#else
    d_step { if :: !covered -> bring(0) :: else fi }
#endif
    if
    :: goto fail /* no memory, or a move fails */
    :: d_step { bring(1) }
    fi;
    d_step {
        if :: relied_on -> expected[0] = NEW :: else fi;
        commit_relied();
        opener_state = HELD;
        assert(is_good(0, at_device[0]));
        assert(is_good(1, at_device[1]))
    }
    atomic {
        if
        :: access == UPDATE ->
            at_device[0] = NEW; at_device[1] = NEW;
            commit(0, DEVICE);
            commit(1, DEVICE)
        :: else
        fi
    }
fail:
    atomic { second = 0; opener_state = FREE; covered = 0; access = 0 }
    running--
}

/* A scope of the host on byte 1. */
proctype host() {
    atomic {
        !second ->
        if :: !(map[1] & HOST) -> at_host[1] = at_device[1]; join(1, HOST) :: else fi;
        assert(is_good(1, at_host[1]));
        busy_state = HELD;
        at_host[1] = NEW
    }
    atomic { commit(1, HOST); busy_state = FREE }
    running--
}

/* The map has one step here; in the library the claim keeps others off from the first look on. */
proctype dropper() {
    atomic {
        writer_state != CALL && (opener_state == FREE || opener_state == HELD) -> dropping = 1;
        if
        :: !(map[0] & HOST)
#ifndef BREAK_DROP
        :: (map[0] & HOST) && !zeros[0] && writer_state == HELD && !seen /* BUSY */
#endif
        :: (map[0] & HOST) && !zeros[0] && writer_state == HELD && map[0] == HOST /* it cannot be moved: BUSY */
#ifdef BREAK_DROP
        :: (map[0] & HOST) && (zeros[0] || writer_state != HELD || map[0] != HOST) ->
#else
        :: (map[0] & HOST) && (zeros[0] || writer_state != HELD || seen) ->
#endif
            if :: map[0] == HOST && !zeros[0] -> bring(0) :: else fi;
            forget(0, HOST);
            at_host[0] = NONE
        fi;
        dropping = 0
    }
    running--
}

init {
    atomic {
        if
        :: map[0] = HOST; at_host[0] = OLD; expected[0] = OLD
        :: expected[0] = ZERO
        :: expected[0] = ZERO; at_host[0] = ZERO; join(0, HOST)
        fi;
        map[1] = HOST; at_host[1] = OLD; expected[1] = OLD;
        running = 4;
        run writer(); run opener(); run host(); run dropper()
    }
    running == 0;
    d_step {
        byte b;
        for (b : 0 .. 1) {
            assert(!(map[b] & HOST) || is_good(b, at_host[b]));
            assert(!(map[b] & DEVICE) || is_good(b, at_device[b]));
            assert(map[b] || expected[b] == ZERO);
            /* What is unwritten stays so. */
            assert(expected[b] != ZERO || map[b] == 0 || zeros[b])
        }
    }
}
