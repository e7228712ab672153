/* SPDX-License-Identifier: MIT */
#include "src/stream/captures.h"

#include "src/base/fork.h"

#define POLL_NS 20000u

/* Numbers of the captures of all contexts that Ferry has begun, and of the threads that hold
 * captures off. Each side raises its number before it looks at the other one. */
static atomic_int captures, holds;
static atomic_bool exits;

/* The captures and the holds of the parent are not there in the child of a fork. */
static void
forget(bool in_child)
{
    if (!in_child)
        return;
    atomic_store(&captures, 0);
    atomic_store(&holds, 0);
}

static struct ferryi_fork_part counts = {.after = forget};
FERRYI_AT_FORK(counts)

ferry_status
ferryi_capture_begin(ferryi_device *device, void *stream)
{
    for (;;) {
        atomic_fetch_add(&captures, 1);
        if (atomic_load(&holds) == 0)
            break;
        /* A capture that waits is none for the threads that hold captures off. */
        atomic_fetch_sub(&captures, 1);
        ferryi_sleep_ns(POLL_NS);
    }
    ferry_status status = FERRYI_CALL(device, capture_begin, stream);
    if (status != FERRY_OK)
        atomic_fetch_sub(&captures, 1);
    return status;
}

ferry_status
ferryi_capture_end(ferryi_device *device, void *stream, void **out_graph)
{
    ferry_status status = FERRYI_CALL(device, capture_end, stream, out_graph);
    atomic_fetch_sub(&captures, 1);
    return status;
}

bool
ferryi_captures_try_hold_off(void)
{
    atomic_fetch_add(&holds, 1);
    if (atomic_load(&captures) == 0)
        return true;
    atomic_fetch_sub(&holds, 1);
    return false;
}

void
ferryi_captures_hold_off(void)
{
    while (!ferryi_captures_try_hold_off()) {
        if (atomic_load(&exits)) {
            atomic_fetch_add(&holds, 1);
            return;
        }
        ferryi_sleep_ns(POLL_NS);
    }
}

void
ferryi_captures_release(void)
{
    atomic_fetch_sub(&holds, 1);
}

void
ferryi_captures_exit(void)
{
    atomic_store(&exits, true);
}
