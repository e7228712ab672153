/* SPDX-License-Identifier: MIT */
/*
 * A copy of a scope that is closed when the store serves another buffer.
 *
 *   close_copy   src/buffer/scope.c   find_claim(), take_claim()
 *   recycle      src/store/store.c   reuse(), unlist(): next_id, last_id
 *
 * Checked: a copy ends no other scope. BREAK_RECYCLE must make this fail.
 */

byte next_id, open_id, copy_id, running;
bit second_life;

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
        running = 2;
        run owner(); run copy()
    }
    running == 0
}
