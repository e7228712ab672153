/* SPDX-License-Identifier: MIT */
/*
 * Plays random calls on a few buffers, and compares map, bytes and transfers with a model after
 * each.
 */
#include "tests/buffer/support.h"

#include <stdio.h>

#include "src/base/sanitizer.h"
#include "src/buffer/buffer.h"
#include "tests/support/copies.h"

/*
 * Makes random sequences of calls on Ferry and on a simple model. For each element, the model
 * stores the value and the set of places that hold this value. After every call, Ferry and the
 * model must agree on the state, the replicas and the current places of each buffer. Ferry must not
 * copy more bytes to and from devices than the model.
 *
 * A second test gives the device less memory than the buffers need, so that Ferry evicts replicas.
 * If a replica is missing that was not pinned, and the pool has counted an eviction, the model
 * evicts the same replica.
 *
 * The environment variables FERRY_TEST_SEED and FERRY_TEST_OPERATIONS set the seed and the number
 * of calls. A failing check prints both.
 */

#define BUFFERS      3
#define MANY_BUFFERS 16 /* number of buffers in the test with little device memory */
#define PINNABLE     3
/* Limit of device memory in the test with little memory. It is enough for all pinned buffers, two
 * more buffers of one call, and the new memory of one resize. */
#define SHORT_BYTES (100 << 10)
/* Largest number of elements in a buffer. A copy of such a buffer takes several chunks of the
 * staging ring, which the test makes small. */
#define ROOM       4096
#define VIEWS      3
#define PENDING    4
#define BIT(place) (1u << (place))

struct cell {
    int32_t value;
    /* Set of places that hold the value. An element that was never written has the value zero. */
    uint16_t places;
    bool written;
    bool known; /* whether the value is specified; an abandoned write makes it unspecified */
};

struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

struct model {
    ferry_buffer *handle;
    size_t count;
    uint32_t exists;
    unsigned pins[16];
    struct view views[VIEWS];
    struct cell cells[ROOM];
};

/* An asynchronous call that the test has not waited for yet, and the memory that this call may
 * still use. */
struct pending {
    ferry_event *event;
    int32_t *memory;
    int32_t *expected; /* expected result of ferry_buffer_copy_to(); NULL for other calls */
    bool *known;
    size_t count;
};

struct history {
    fixture f;
    struct model models[MANY_BUFFERS];
    size_t buffers;     /* number of `models` in use */
    bool is_short;      /* whether device memory is short */
    uint64_t evictions; /* number of evictions that the model has repeated */
    struct pending pending[PENDING];
    size_t pending_count;
    uint64_t crossed; /* bytes that the model moved */
    uint64_t seed, first_seed;
    size_t operation;
    const char *name;
    bool done;
    int32_t next_value;
    int32_t scratch[ROOM];
};

/* A range of a buffer, and the handle through which a call uses the range. */
struct target {
    struct model *model;
    ferry_buffer *handle;
    size_t offset, count; /* as passed to the call */
    size_t begin, end;    /* in the base */
    size_t handle_begin, handle_end;
};

static size_t
below(struct history *h, size_t limit)
{
    return random_below(&h->seed, limit);
}

/* -- the model --------------------------------------------------------------------------------- */

static void
model_bring(struct history *h, struct model *m, size_t begin, size_t end, int place)
{
    if (begin == end)
        return;
    m->exists |= BIT(place);
    for (size_t i = begin; i < end; i++) {
        if (m->cells[i].written && !(m->cells[i].places & BIT(place)))
            h->crossed += sizeof(int32_t);
        m->cells[i].places |= (uint16_t)BIT(place);
    }
}

static void
model_take(struct model *m, size_t begin, size_t end, int place)
{
    for (size_t i = begin; i < end; i++) {
        m->cells[i].places = (uint16_t)BIT(place);
        m->cells[i].written = true;
    }
    if (begin < end)
        m->exists |= BIT(place);
}

/* Returns the set of places that hold every written element of the range, or all places if no
 * element is written. */
static uint32_t
model_current(const struct model *m, size_t begin, size_t end, bool *out_written)
{
    uint32_t all = UINT32_MAX;
    bool written = false;
    for (size_t i = begin; i < end; i++) {
        written = written || m->cells[i].written;
        all &= m->cells[i].written ? m->cells[i].places : UINT32_MAX;
    }
    if (out_written)
        *out_written = written;
    return all;
}

static uint32_t
known_places(struct history *h)
{
    return (2u << h->f.places) - 1;
}

static int
lowest(uint32_t places)
{
    int place = 0;
    while (!(places >> place & 1))
        place++;
    return place;
}

static int
model_home(struct history *h, const struct model *m, size_t begin, size_t end)
{
    bool written;
    uint32_t current = model_current(m, begin, end, &written) & known_places(h);
    return written && current ? lowest(current) : 0;
}

static int
model_meeting_place(struct history *h, const struct target *to, const struct target *from)
{
    bool written;
    uint32_t good = model_current(from->model, from->begin, from->end, NULL) & known_places(h);
    uint32_t there = model_current(to->model, to->begin, to->end, &written);
    if (written && (good & there))
        good &= there;
    return good ? lowest(good) : 0;
}

static ferry_state
model_state(const struct model *m, size_t begin, size_t end)
{
    bool written = false, host_lacks = false, device_lacks = false;
    for (size_t i = begin; i < end; i++) {
        uint32_t places = m->cells[i].written ? m->cells[i].places : 0;
        written = written || places;
        host_lacks = host_lacks || (places && !(places & 1));
        device_lacks = device_lacks || (places && !(places & ~1u));
    }
    if (!written)
        return FERRY_STATE_UNINITIALIZED;
    if (!(m->exists & ~1u))
        return FERRY_STATE_HOST_ONLY;
    if (!(m->exists & 1))
        return FERRY_STATE_DEVICE_ONLY;
    if (host_lacks && device_lacks)
        return FERRY_STATE_MIXED;
    return device_lacks ? FERRY_STATE_HOST_DIRTY
           : host_lacks ? FERRY_STATE_DEVICE_DIRTY
                        : FERRY_STATE_SYNCHRONIZED;
}

/* Removes `place` from the places that hold the range in the model. Bytes that only this place held
 * are first copied to a different place. */
static void
model_forget(struct history *h, struct model *m, size_t begin, size_t end, int place)
{
    int fallback = 0;
    if (place == 0)
        for (fallback = 1; fallback < h->f.places && !(m->exists & BIT(fallback));)
            fallback++;
    if (place == 0 && !(m->exists & BIT(fallback)))
        fallback = 1;
    for (size_t i = begin; i < end; i++) {
        if (m->cells[i].written && m->cells[i].places == BIT(place))
            model_bring(h, m, i, i + 1, fallback);
        m->cells[i].places &= (uint16_t)~BIT(place);
    }
}

static void
model_set(struct model *m, size_t begin, const int32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        m->cells[begin + i].value = values[i];
        m->cells[begin + i].known = true;
    }
}

/* -- comparing --------------------------------------------------------------------------------- */

static void
expect_values(struct history *h, const struct model *m, size_t begin, const int32_t *values,
              size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (m->cells[begin + i].known && m->cells[begin + i].value != values[i])
            fail_msg("%s: element %zu is %d instead of %d (places %x)", h->name, begin + i,
                     values[i], m->cells[begin + i].value, m->cells[begin + i].places);
}

static void
expect_view(struct history *h, const struct model *m, ferry_buffer *handle, size_t begin,
            size_t count)
{
    ferry_state state = model_state(m, begin, begin + count);
    ferry_buffer_info info = info_of(handle);
    if (info.state != state)
        fail_msg("%s: state %s instead of %s", h->name, ferry_state_name(info.state),
                 ferry_state_name(state));
    if (info.places_with_copy != m->exists)
        fail_msg("%s: copies at %x instead of %x", h->name, info.places_with_copy, m->exists);
    uint32_t current = model_current(m, begin, begin + count, NULL);
    for (int place = 0; place <= h->f.places; place++)
        if (ferry_buffer_is_current(handle, place) != (current >> place & 1))
            fail_msg("%s: current at %d is %d", h->name, place,
                     ferry_buffer_is_current(handle, place));
    assert_int_equal(info.count, count);
    assert_int_equal(info.scopes, 0);
}

static void
drain(struct history *h)
{
    for (size_t i = 0; i < h->pending_count; i++) {
        struct pending *p = &h->pending[i];
        OK(ferry_event_synchronize(p->event));
        ferry_event_destroy(&p->event);
        for (size_t k = 0; p->expected && k < p->count; k++)
            if (p->known[k] && p->memory[k] != p->expected[k])
                fail_msg("copy_to_async: element %zu is %d instead of %d", k, p->memory[k],
                         p->expected[k]);
        free(p->memory);
        free(p->expected);
        free(p->known);
    }
    h->pending_count = 0;
}

/* Checks that the buffer's valid map agrees with the model for every element. Each lookup locks the
 * buffer, because a prefetch may still be changing the map. */
static void
expect_map(struct history *h, const struct model *m)
{
    ferryi_store *store = m->handle->store;
    assert_int_equal(ferry_buffer_bytes(m->handle), m->count * sizeof(int32_t));
    for (size_t i = 0; i < m->count;) {
        ferryi_store_lock(store);
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, i * sizeof(int32_t));
        ferryi_store_unlock(store);
        for (; i * sizeof(int32_t) < segment.end; i++)
            if ((m->cells[i].places |
                 (m->cells[i].places && !m->cells[i].written ? FERRYI_ZEROS : 0)) != segment.places)
                fail_msg("%s: element %zu is current at %x instead of %x", h->name, i,
                         segment.places, m->cells[i].places);
    }
}

static void
expect_model(struct history *h)
{
    for (size_t b = 0; b < h->buffers; b++) {
        const struct model *m = &h->models[b];
        expect_map(h, m);
        expect_view(h, m, m->handle, 0, m->count);
        for (size_t v = 0; v < VIEWS; v++)
            if (m->views[v].handle)
                expect_view(h, m, m->views[v].handle, m->views[v].offset, m->views[v].count);
    }
    ferry_transfer_stats stats = moved(&h->f);
    uint64_t most = h->f.coherent ? 0 : h->crossed;
    if (crossing(&stats) > most)
        fail_msg("%s: %llu bytes crossed instead of %llu", h->name,
                 (unsigned long long)crossing(&stats), (unsigned long long)most);
    /* Sets the model's number of copied bytes to the real number. Otherwise, after an operation
     * that copied fewer bytes than the model, a later operation could copy too many unnoticed. */
    h->crossed = crossing(&stats);
}

/* -- choosing ---------------------------------------------------------------------------------- */

static void
choose_range(struct history *h, struct target *t)
{
    size_t room = t->handle_end - t->handle_begin;
    t->offset = below(h, room + 1);
    t->count = below(h, room - t->offset + 1);
    size_t small = below(h, 64);
    if (below(h, 3) == 0 && t->count > small)
        t->count = small;
    if (below(h, 8) == 0)
        t->offset = 0, t->count = room;
    t->begin = t->handle_begin + t->offset;
    t->end = t->begin + t->count;
    if (t->offset + t->count == room && below(h, 2) == 0)
        t->count = FERRY_REST;
}

static struct target
choose(struct history *h)
{
    struct model *m = &h->models[below(h, h->buffers)];
    struct target t = {.model = m, .handle = m->handle, .handle_begin = 0, .handle_end = m->count};
    const struct view *view = &m->views[below(h, VIEWS)];
    if (view->handle && below(h, 3) == 0) {
        t.handle = view->handle;
        t.handle_begin = view->offset;
        t.handle_end = view->offset + view->count;
    }
    choose_range(h, &t);
    return t;
}

static int
choose_place(struct history *h)
{
    return (int)below(h, (size_t)h->f.places + 1);
}

static const int32_t *
fresh_values(struct history *h, size_t count)
{
    for (size_t i = 0; i < count; i++)
        h->scratch[i] = h->next_value++;
    return h->scratch;
}

/* -- operations -------------------------------------------------------------------------------- */

static void
do_read(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    size_t count = t.end - t.begin;
    ferry_scope scope;
    model_bring(h, t.model, t.begin, t.end, place);
    void *memory = open_at(&h->f, t.handle, place, FERRY_READ, t.offset, t.count, &scope);
    place_read(&h->f, place, h->scratch, memory, count * sizeof(int32_t));
    OK(ferry_scope_close(&scope));
    expect_values(h, t.model, t.begin, h->scratch, count);
}

static void
do_overwrite(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    size_t count = t.end - t.begin;
    ferry_scope scope;
    void *memory = open_at(&h->f, t.handle, place, FERRY_OVERWRITE, t.offset, t.count, &scope);
    const int32_t *values = fresh_values(h, count);
    place_write(&h->f, place, memory, values, count * sizeof(int32_t));
    OK(ferry_scope_close(&scope));
    model_take(t.model, t.begin, t.end, place);
    model_set(t.model, t.begin, values, count);
}

/* Opens a random range with the access FERRY_UPDATE, and writes only a part of the range. */
static void
do_update(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    size_t skip = below(h, t.end - t.begin + 1), count = below(h, t.end - t.begin - skip + 1);
    ferry_scope scope;
    model_bring(h, t.model, t.begin, t.end, place);
    char *memory = open_at(&h->f, t.handle, place, FERRY_UPDATE, t.offset, t.count, &scope);
    const int32_t *values = fresh_values(h, count);
    if (count > 0)
        place_write(&h->f, place, memory + skip * sizeof(int32_t), values, count * sizeof(int32_t));
    OK(ferry_scope_close(&scope));
    model_take(t.model, t.begin, t.end, place);
    model_set(t.model, t.begin + skip, values, count);
}

static void
model_leave(struct cell *cell, int place, bool scribbled)
{
    if (cell->written && cell->places == BIT(place))
        cell->known = cell->known && !scribbled;
    else
        cell->places &= (uint16_t)~BIT(place);
}

static void
do_abandon(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    bool update = below(h, 2);
    size_t count = t.end - t.begin;
    ferry_scope scope;
    if (update)
        model_bring(h, t.model, t.begin, t.end, place);
    else if (count > 0)
        t.model->exists |= BIT(place);
    void *memory = open_at(&h->f, t.handle, place, update ? FERRY_UPDATE : FERRY_OVERWRITE,
                           t.offset, t.count, &scope);
    /* On a coherent device, the host and the device share the memory of a buffer. The test writes
     * nothing in this case, because an abandoned write would be visible at all places. */
    bool scribbles = !h->f.coherent && count > 0 && below(h, 2);
    memset(h->scratch, 0xEE, count * sizeof(int32_t));
    if (scribbles)
        place_write(&h->f, place, memory, h->scratch, count * sizeof(int32_t));
    OK(ferry_scope_abandon(&scope));
    /* On a coherent device, all places share the memory of a buffer. So abandoning a write affects
     * the bytes at all places. */
    for (size_t i = t.begin; i < t.end; i++) {
        model_leave(&t.model->cells[i], place, scribbles);
        for (int other = 0; h->f.coherent && other <= h->f.places; other++)
            model_leave(&t.model->cells[i], other, scribbles);
    }
}

/* Opens a second scope that overlaps the first scope. The second open must be refused if at least
 * one of the two scopes writes. */
static void
do_conflict(struct history *h)
{
    struct target t = choose(h);
    if (t.begin == t.end)
        return;
    ferry_access first = (ferry_access)(1 + below(h, 3)), second = (ferry_access)(1 + below(h, 3));
    ferry_scope scope, other;
    void *memory;
    model_bring(h, t.model, t.begin, t.end, 0);
    OK(ferry_buffer_sync_to(t.handle, t.offset, t.count, 0, NULL));
    open_at(&h->f, t.handle, 0, first, t.offset, t.count, &scope);
    size_t at = t.offset + below(h, t.end - t.begin);
    if (first != FERRY_READ || second != FERRY_READ)
        FAILS(FERRY_ERROR_BUSY,
              ferry_buffer_open_host(t.handle, INT, second, at, 1, &other, &memory));
    OK(ferry_scope_close(&scope));
    if (first != FERRY_READ)
        model_take(t.model, t.begin, t.end, 0);
}

static void
do_copy_from(struct history *h)
{
    struct target t = choose(h);
    size_t count = t.end - t.begin;
    int place = model_home(h, t.model, t.begin, t.end);
    const int32_t *values = fresh_values(h, count);
    OK(ferry_buffer_copy_from(t.handle, INT, t.offset, t.count, values, NULL));
    if (place != 0)
        h->crossed += count * sizeof(int32_t);
    model_take(t.model, t.begin, t.end, place);
    model_set(t.model, t.begin, values, count);
}

/* Adds the bytes that ferry_buffer_copy_to() copies to the host to the model's number of copied
 * bytes. An asynchronous call may also copy elements that were never written. */
static void
model_copy_to(struct history *h, const struct target *t, bool is_async)
{
    for (size_t i = t->begin; i < t->end; i++)
        if ((t->model->cells[i].written || is_async) && !(t->model->cells[i].places & 1))
            h->crossed += sizeof(int32_t);
}

static void
do_copy_to(struct history *h)
{
    struct target t = choose(h);
    model_copy_to(h, &t, false);
    OK(ferry_buffer_copy_to(t.handle, INT, t.offset, t.count, h->scratch, NULL));
    expect_values(h, t.model, t.begin, h->scratch, t.end - t.begin);
}

/* Chooses two ranges of equal length, in one buffer or in two buffers. */
static bool
choose_pair(struct history *h, struct target *to, struct target *from)
{
    *to = choose(h);
    *from = choose(h);
    size_t count = to->end - to->begin < from->end - from->begin ? to->end - to->begin
                                                                 : from->end - from->begin;
    to->count = from->count = count;
    to->end = to->begin + count;
    from->end = from->begin + count;
    return count > 0;
}

/* The target is written at `place`. The source stays as it was. */
static void
model_copy_at(struct history *h, const struct target *to, const struct target *from, int place)
{
    static struct cell values[ROOM];
    size_t count = to->end - to->begin;
    memcpy(values, &from->model->cells[from->begin], count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        if (values[i].written && !(values[i].places & BIT(place)))
            h->crossed += sizeof(int32_t);
    model_take(to->model, to->begin, to->end, place);
    for (size_t i = 0; i < count; i++) {
        to->model->cells[to->begin + i].value = values[i].value;
        to->model->cells[to->begin + i].known = values[i].known;
    }
}

static bool
overlap(const struct target *a, const struct target *b)
{
    return a->model == b->model && a->begin < b->end && b->begin < a->end;
}

static void
do_copy(struct history *h)
{
    struct target to, from;
    bool any = choose_pair(h, &to, &from);
    OK(ferry_buffer_copy(to.handle, INT, to.offset, from.handle, from.offset, to.count, NULL));
    if (any && !(overlap(&to, &from) && to.begin == from.begin))
        model_copy_at(h, &to, &from, model_meeting_place(h, &to, &from));
}

static void
do_fill(struct history *h)
{
    struct target t = choose(h);
    int place = model_home(h, t.model, t.begin, t.end);
    int32_t value = h->next_value++;
    OK(ferry_buffer_fill(t.handle, INT, t.offset, t.count, &value, NULL));
    model_take(t.model, t.begin, t.end, place);
    for (size_t i = t.begin; i < t.end; i++)
        model_set(t.model, i, &value, 1);
}

static void
do_sync(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    model_bring(h, t.model, t.begin, t.end, place);
    OK(ferry_buffer_sync_to(t.handle, t.offset, t.count, place, NULL));
}

static void
do_prefetch(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    model_bring(h, t.model, t.handle_begin, t.handle_end, place);
    OK(ferry_buffer_prefetch(t.handle, 0, FERRY_REST, place,
                             place ? stream_of(&h->f, place) : h->f.stream));
    touch(&h->f, t.handle, place, FERRY_READ, 0, FERRY_REST);
}

static bool
may_mark(const struct target *t, int place)
{
    for (size_t i = t->begin; i < t->end; i++)
        if (t->model->cells[i].written && !(t->model->cells[i].places & BIT(place)))
            return false;
    return t->model->exists >> place & 1;
}

/* Writes through the pointer of a pinned replica without a scope, and then marks the bytes
 * dirty. */
static void
do_mark(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    size_t count = t.end - t.begin;
    ferry_stream *written_on = place ? stream_of(&h->f, place) : NULL;
    void *memory;
    if (count == 0)
        return;
    if (!may_mark(&t, place)) {
        FAILS(FERRY_ERROR_CONFLICT,
              ferry_buffer_mark_dirty(t.handle, t.offset, t.count, place, written_on));
        return;
    }
    OK(ferry_buffer_hold(t.handle, place, &memory));
    OK(ferry_buffer_wait_idle(t.handle, place));
    const int32_t *values = fresh_values(h, count);
    place_write(&h->f, place, (int32_t *)memory + t.offset, values, count * sizeof(int32_t));
    OK(ferry_buffer_mark_dirty(t.handle, t.offset, t.count, place, written_on));
    OK(ferry_buffer_release(t.handle, place));
    model_take(t.model, t.begin, t.end, place);
    model_set(t.model, t.begin, values, count);
}

static void
do_invalidate(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    OK(ferry_buffer_invalidate(t.handle, t.offset, t.count, place));
    if (!(t.model->exists & BIT(place)) || t.begin == t.end)
        return;
    model_forget(h, t.model, t.begin, t.end, place);
    if (t.begin == 0 && t.end == t.model->count && t.model->pins[place] == 0)
        t.model->exists &= ~BIT(place);
}

static void
do_discard(struct history *h)
{
    struct target t = choose(h);
    static const int32_t zero = 0;
    OK(ferry_buffer_discard(t.handle, t.offset, t.count));
    for (size_t i = t.begin; i < t.end; i++) {
        model_set(t.model, i, &zero, 1);
        t.model->cells[i].places = 0;
        t.model->cells[i].written = false;
    }
}

static void
do_evict(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    if (t.model->pins[place] > 0) {
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(t.handle, place));
        return;
    }
    OK(ferry_buffer_evict(t.handle, place));
    if ((t.model->exists & BIT(place)) && t.model->count > 0) {
        model_forget(h, t.model, 0, t.model->count, place);
        t.model->exists &= ~BIT(place);
    }
}

static void
do_reserve(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    OK(ferry_buffer_reserve(t.handle, place));
    t.model->exists |= BIT(place);
}

static bool
may_resize(const struct model *m)
{
    for (size_t i = 0; i < 16; i++)
        if (m->pins[i] > 0)
            return false;
    for (size_t v = 0; v < VIEWS; v++)
        if (m->views[v].handle)
            return false;
    return true;
}

static void
do_resize(struct history *h)
{
    struct target t = choose(h);
    struct model *m = t.model;
    size_t count = below(h, 6) == 0 ? below(h, ROOM)
                   : h->is_short    ? ROOM - below(h, 300) - 1
                                    : below(h, 300);
    if (!may_resize(m)) {
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(m->handle, count));
        return;
    }
    OK(ferry_buffer_resize(m->handle, count));
    if (count > m->count) {
        /* Determines which replicas the resize keeps. A place that holds none of the old elements
         * loses its replica. */
        uint32_t kept = 0;
        for (size_t i = 0; i < m->count; i++)
            kept |= m->cells[i].places;
        m->exists &= kept;
    }
    for (size_t i = m->count; i < count; i++)
        m->cells[i] = (struct cell){.known = true};
    m->count = count;
}

static void
do_view(struct history *h)
{
    struct target t = choose(h);
    struct view *view = &t.model->views[below(h, VIEWS)];
    if (view->handle) {
        ferry_buffer_destroy(&view->handle);
        return;
    }
    OK(ferry_buffer_view(t.handle, INT, t.offset, t.count, &view->handle));
    view->offset = t.begin;
    view->count = t.end - t.begin;
}

static void
do_pin(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    void *first, *second;
    if (h->is_short && t.model >= &h->models[PINNABLE])
        return;
    if (t.model->pins[place] > 0 || below(h, 3) > 0) {
        while (t.model->pins[place] > 0) {
            OK(ferry_buffer_release(t.handle, place));
            t.model->pins[place]--;
        }
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_release(t.handle, place));
        return;
    }
    OK(ferry_buffer_hold(t.handle, place, &first));
    OK(ferry_buffer_hold(t.handle, place, &second));
    assert_ptr_equal(first, second);
    t.model->exists |= BIT(place);
    t.model->pins[place] = 2;
}

/* Compacts the pools. Replicas move to other memory, but no value changes. */
static void
do_compact(struct history *h)
{
    for (int place = 1; place <= h->f.places; place++) {
        ferry_pool *pool;
        OK(ferry_context_pool(h->f.context, place, FERRY_MEMORY_DEFAULT, &pool));
        OK(ferry_pool_compact(pool, NULL));
    }
}

/* -- asynchronous ones ------------------------------------------------------------------------- */

static struct pending *
new_pending(struct history *h, size_t count)
{
    /* If device memory is short, waits for queued calls, because replicas that they use cannot be
     * evicted. */
    if (h->pending_count == PENDING || h->is_short)
        drain(h);
    struct pending *p = &h->pending[h->pending_count];
    memset(p, 0, sizeof(*p));
    p->memory = malloc(count * sizeof(int32_t) + 1);
    assert_non_null(p->memory);
    p->count = count;
    return p;
}

static void
do_copy_from_async(struct history *h)
{
    struct target t = choose(h);
    size_t count = t.end - t.begin;
    int place = choose_place(h);
    /* If the call has no stream, the valid map determines at which place the call writes. */
    if (place == 0) {
        drain(h);
        place = model_home(h, t.model, t.begin, t.end);
    }
    struct pending *p = new_pending(h, count);
    memcpy(p->memory, fresh_values(h, count), count * sizeof(int32_t));
    OK(ferry_buffer_copy_from_async(t.handle, INT, t.offset, t.count, p->memory,
                                    ON(place ? stream_of(&h->f, place) : NULL), &p->event));
    h->pending_count++;
    if (place != 0)
        h->crossed += count * sizeof(int32_t);
    model_take(t.model, t.begin, t.end, place);
    model_set(t.model, t.begin, p->memory, count);
}

static void
do_copy_to_async(struct history *h)
{
    drain(h);
    struct target t = choose(h);
    size_t count = t.end - t.begin;
    struct pending *p = new_pending(h, count);
    p->expected = malloc(count * sizeof(int32_t) + 1);
    p->known = malloc(count * sizeof(bool) + 1);
    assert_true(p->expected && p->known);
    for (size_t i = 0; i < count; i++) {
        p->expected[i] = t.model->cells[t.begin + i].value;
        p->known[i] = t.model->cells[t.begin + i].known;
    }
    model_copy_to(h, &t, true);
    OK(ferry_buffer_copy_to_async(t.handle, INT, t.offset, t.count, p->memory, ON(NULL),
                                  &p->event));
    h->pending_count++;
}

static void
do_copy_async(struct history *h)
{
    struct target to, from;
    int place = choose_place(h);
    bool any = choose_pair(h, &to, &from);
    if (place == 0) {
        drain(h);
        place = model_meeting_place(h, &to, &from);
    }
    struct pending *p = new_pending(h, 0);
    OK(ferry_buffer_copy_async(to.handle, INT, to.offset, from.handle, from.offset, to.count,
                               ON(place ? stream_of(&h->f, place) : NULL), &p->event));
    h->pending_count++;
    if (any && !(overlap(&to, &from) && to.begin == from.begin))
        model_copy_at(h, &to, &from, place);
}

static void
do_fill_async(struct history *h)
{
    struct target t = choose(h);
    int place = choose_place(h);
    if (place == 0) {
        drain(h);
        place = model_home(h, t.model, t.begin, t.end);
    }
    struct pending *p = new_pending(h, 0);
    int32_t value = h->next_value++;
    OK(ferry_buffer_fill_async(t.handle, INT, t.offset, t.count, &value,
                               ON(place ? stream_of(&h->f, place) : NULL), &p->event));
    h->pending_count++;
    model_take(t.model, t.begin, t.end, place);
    for (size_t i = t.begin; i < t.end; i++)
        model_set(t.model, i, &value, 1);
}

/* -- evictions --------------------------------------------------------------------------------- */

static uint64_t
counted_evictions(struct history *h)
{
    uint64_t count = 0;
    for (int place = 0; place <= h->f.places; place++) {
        ferry_pool *pool;
        ferry_pool_stats stats;
        OK(ferry_context_pool(h->f.context, place, FERRY_MEMORY_DEFAULT, &pool));
        OK(ferry_pool_get_stats(pool, &stats));
        count += place == 0 || !h->f.coherent ? stats.evictions : 0;
    }
    return count;
}

/* Removes from the model the replicas that Ferry has evicted. Checks that none of these replicas
 * was pinned. Also checks that the pool has counted exactly these evictions. */
static void
take_over_evictions(struct history *h)
{
    for (size_t b = 0; b < h->buffers; b++) {
        struct model *m = &h->models[b];
        ferry_buffer_info info = info_of(m->handle);
        for (int place = 1; place <= h->f.places; place++) {
            if (!(m->exists & ~info.places_with_copy & BIT(place)))
                continue;
            assert_int_equal(m->pins[place], 0);
            model_forget(h, m, 0, m->count, place);
            m->exists &= ~BIT(place);
            h->evictions++;
        }
    }
    assert_int_equal(h->evictions, counted_evictions(h));
}

/* -- running ----------------------------------------------------------------------------------- */

struct operation {
    const char *name;
    void (*run)(struct history *h);
    unsigned weight;
    bool beside; /* whether the operation may run while asynchronous calls are pending */
};

static const struct operation operations[] = {
    {"read", do_read, 16, true},
    {"overwrite", do_overwrite, 12, true},
    {"update", do_update, 14, true},
    {"abandon", do_abandon, 4, false},
    {"conflict", do_conflict, 2, false},
    {"copy_from", do_copy_from, 5, false},
    {"copy_to", do_copy_to, 5, false},
    {"copy", do_copy, 7, false},
    {"fill", do_fill, 4, false},
    {"sync_to", do_sync, 4, false},
    {"prefetch", do_prefetch, 2, false},
    {"mark_dirty", do_mark, 4, false},
    {"invalidate", do_invalidate, 4, false},
    {"discard", do_discard, 2, false},
    {"evict", do_evict, 3, false},
    {"reserve", do_reserve, 1, false},
    {"resize", do_resize, 4, false},
    {"view", do_view, 4, false},
    {"pin", do_pin, 4, false},
    {"compact", do_compact, 1, true},
    {"copy_from_async", do_copy_from_async, 4, true},
    {"copy_to_async", do_copy_to_async, 2, true},
    {"copy_async", do_copy_async, 4, true},
    {"fill_async", do_fill_async, 3, true},
};

static const struct operation *
choose_operation(struct history *h)
{
    size_t total = 0;
    for (size_t i = 0; i < LENGTH(operations); i++)
        total += operations[i].weight;
    size_t at = below(h, total);
    const struct operation *operation = operations;
    for (; at >= operation->weight; operation++)
        at -= operation->weight;
    return operation;
}

static uint64_t
number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void
open_buffers(struct history *h)
{
    for (size_t b = 0; b < h->buffers; b++) {
        struct model *m = &h->models[b];
        m->count = b == 0 || h->is_short ? ROOM - 100 : below(h, 400);
        for (size_t i = 0; i < m->count; i++)
            m->cells[i].known = true;
        m->handle = make_ints(&h->f, m->count);
    }
}

static void
close_buffers(struct history *h)
{
    for (size_t b = 0; b < h->buffers; b++) {
        struct model *m = &h->models[b];
        OK(ferry_buffer_copy_to(m->handle, INT, 0, m->count, h->scratch, NULL));
        expect_values(h, m, 0, h->scratch, m->count);
        for (size_t v = 0; v < VIEWS; v++)
            ferry_buffer_destroy(&m->views[v].handle);
        ferry_buffer_destroy(&m->handle);
    }
}

/* Makes random calls and compares Ferry with the model after each of them. No write may be lost,
 * and no read may return stale bytes. The result must be the same for every kind of device. */
static void
test_random_histories_agree_with_the_model(void **state)
{
    struct history *h = *state;
    size_t count = (size_t)number_from(
        "FERRY_TEST_OPERATIONS", (h->is_short ? 5000 : 20000) / (FERRYI_THREAD_SANITIZER ? 4 : 1));
    open_buffers(h);
    for (h->operation = 0; h->operation < count; h->operation++) {
        const struct operation *operation = choose_operation(h);
        h->name = operation->name;
        if (!operation->beside)
            drain(h);
        operation->run(h);
        if (h->is_short)
            drain(h), take_over_evictions(h);
        if (h->pending_count == 0)
            expect_model(h);
    }
    drain(h);
    expect_model(h);
    close_buffers(h);
    h->done = true;
}

/* Runs the random calls with less device memory than their buffers need, so replicas are evicted.
 * The results must be the same as with enough memory. */
static void
test_random_histories_in_little_memory(void **state)
{
    struct history *h = *state;
    test_random_histories_agree_with_the_model(state);
    assert_true(h->f.coherent || h->evictions > 50);
}

static int
open_history(void **state, bool is_short)
{
    struct history *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    h->is_short = is_short;
    h->buffers = is_short ? MANY_BUFFERS : BUFFERS;
    fixture_open(&h->f, &(ferry_context_options){.tuning = "staging.chunk=4K",
                                                 .device_bytes_limit = is_short ? SHORT_BYTES : 0});
    h->first_seed = h->seed = number_from("FERRY_TEST_SEED", 20250101);
    *state = h;
    return 0;
}

static int
setup(void **state)
{
    return open_history(state, false);
}

static int
setup_short(void **state)
{
    return open_history(state, true);
}

static int
teardown(void **state)
{
    struct history *h = *state;
    if (h->done)
        fixture_close(&h->f);
    else
        print_error("in operation %zu, %s, of the history with FERRY_TEST_SEED=%llu\n",
                    h->operation, h->name ? h->name : "none", (unsigned long long)h->first_seed);
    free(h);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_histories_agree_with_the_model, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_random_histories_in_little_memory, setup_short,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
