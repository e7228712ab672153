/* SPDX-License-Identifier: MIT */
/*
 * Scopes that share a claim, each with a last use on another stream; and a copy of a scope that is closed when the store serves
 * another buffer.
 *
 *   close        src/buffer/scope.c   close_how(), is_shared(); access.c: ferryi_access_note_use()
 *   close_copy   src/buffer/scope.c   find_claim()
 *   recycle      src/buffer/store.c   begin(), retire(): last_id
 *
 * Checked: who comes when the claim is gone, and waits for the uses that are noted, finds no work running; and a copy ends no other scope. Each BREAK_... must make one of these fail.
 */

byte shares = 3, noted, running;
bit claimed = 1, pending[2];

byte next_id, open_id, copy_id;
bit second_life;

inline note(i) { noted = noted | (1 << i) }

/* A use on stream i, and the close of share i on it. */
proctype user(byte i) {
    bit last;
    pending[i] = 1;
    d_step { assert(claimed); last = shares == (1 << i) }
    if
    :: !last ->
#if !defined(BREAK_NOTE) && !defined(BREAK_NOTE_LATE)
        d_step { assert(claimed); note(i) }
#endif
        d_step { last = shares == (1 << i); if :: !last -> shares = shares & ~(1 << i) :: else fi }
#ifdef BREAK_NOTE_LATE
        if :: !last -> note(i) :: else fi
#endif
    :: else
    fi;
    if
    :: last -> d_step { note(i) } d_step { shares = 0; claimed = 0 }
    :: else
    fi;
    running--
}

proctype device() {
end:
    do
    :: d_step { pending[0] -> pending[0] = 0 }
    :: d_step { pending[1] -> pending[1] = 0 }
    od
}

/* Another use of the range. */
proctype next() {
    claimed == 0;
    !(noted & 1) || !pending[0];
    !(noted & 2) || !pending[1];
    assert(!pending[0] && !pending[1]);
    running--
}

/* One buffer after the other in the same store. */
proctype owner() {
    d_step { next_id++; open_id = next_id; copy_id = open_id }
    open_id = 0;
    d_step {
#ifdef BREAK_RECYCLE
        next_id = 0;
#endif
        second_life = 1
    }
    d_step { next_id++; open_id = next_id }
    assert(open_id == next_id);
    skip;
    assert(open_id == next_id);
    open_id = 0;
    running--
}

proctype copy() {
    second_life == 1;
    d_step { if :: open_id == copy_id -> open_id = 0 :: else fi }
    running--
}

init {
    atomic {
        running = 5;
        run user(0); run user(1); run next(); run device(); run owner(); run copy()
    }
    running == 0
}
