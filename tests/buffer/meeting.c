/* SPDX-License-Identifier: MIT */
#include "tests/buffer/meeting.h"

#include "tests/support/lazy.h"

static fixture *
open_over(const ferryi_device_kind *kind, size_t limit)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fault_wrap(kind);
    fixture_open(f, &(ferry_context_options){.devices = "fault", .device_bytes_limit = limit});
    return f;
}

int
tight_setup(void **state)
{
    *state = open_over(&ferryi_emulated_kind, LIMIT);
    return 0;
}

int
roomy_setup(void **state)
{
    *state = open_over(&ferryi_emulated_kind, 0);
    return 0;
}

int
lazy_setup(void **state)
{
    *state = open_over(&lazy_kind, 0);
    return 0;
}

int
meeting_teardown(void **state)
{
    fault_hook(NULL, NULL);
    short_memory_disarm();
    fixture_teardown(state);
    assert_int_equal(fault_live(), 0);
    fault_wrap(&ferryi_emulated_kind);
    return 0;
}

static struct {
    const char *slot;
    void (*run)(void *user);
    void *user;
    bool came;
} visit;

static ferry_status
come_once(const char *slot, void *user)
{
    (void)user;
    if (strcmp(slot, visit.slot) == 0) {
        fault_hook(NULL, NULL);
        visit.came = true;
        visit.run(visit.user);
    }
    return FERRY_OK;
}

void
meet_in(const char *slot, void (*run)(void *user), void *user)
{
    visit.slot = slot;
    visit.run = run;
    visit.user = user;
    visit.came = false;
    fault_hook(come_once, NULL);
}

#ifdef FERRYI_INTERLEAVES
static _Thread_local bool meets_here; /* whether this thread called meet_at_point() */

static void
come_to_point(const void *site)
{
    (void)site;
    if (!meets_here)
        return;
    atomic_store(&ferryi_interleave, NULL);
    meets_here = false;
    visit.came = true;
    visit.run(visit.user);
}
#endif

void
meet_at_point(void (*run)(void *user), void *user)
{
#ifdef FERRYI_INTERLEAVES
    visit.run = run;
    visit.user = user;
    visit.came = false;
    meets_here = true;
    atomic_store(&ferryi_interleave, come_to_point);
#else
    (void)run, (void)user;
#endif
}

void
meet_nowhere(void)
{
#ifdef FERRYI_INTERLEAVES
    atomic_store(&ferryi_interleave, NULL);
    meets_here = false;
#endif
}

void
need_points(void)
{
#ifndef FERRYI_INTERLEAVES
    skip();
#endif
}

bool
have_met(void)
{
    return visit.came;
}

ferry_buffer *
make_dirty(fixture *f, size_t blocks)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, blocks * (BLOCK / 4) - 1024,
                           &(ferry_buffer_options){.name = "dirty"}, &buffer));
    write_counting(f, buffer, 1, 0, FERRY_REST, 3);
    return buffer;
}

ferry_pool *
device_pool(fixture *f)
{
    ferry_pool *pool;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    return pool;
}
