/* SPDX-License-Identifier: MIT */
/* Random histories over many streams, checked against plain arrays. */
#include "tests/buffer/work.h"

enum { BUFFERS = 5, LENGTH_MAX = 600, STREAMS_MAX = 90, PENDING = 6 };

struct subject {
    ferry_buffer *buffer;
    size_t count;
    int expected[LENGTH_MAX];
};

/* A copy in flight, with memory that stays until its event is done. */
struct pending {
    ferry_event *event;
    int values[LENGTH_MAX];
};

struct world {
    fixture *f;
    work w;
    uint64_t seed;
    struct subject subjects[BUFFERS];
    ferry_stream *streams[STREAMS_MAX];
    size_t stream_count;
    struct pending pending[PENDING];
    size_t next_pending;
    int next_value;
};

static size_t
below(struct world *world, size_t limit)
{
    return random_below(&world->seed, limit);
}

static ferry_stream *
any_stream(struct world *world)
{
    return world->streams[below(world, world->stream_count)];
}

static struct subject *
any_subject(struct world *world)
{
    return &world->subjects[below(world, BUFFERS)];
}

/* A range that is not empty. */
static void
any_range(struct world *world, size_t length, size_t *out_begin, size_t *out_count)
{
    if (below(world, 4) == 0) {
        *out_begin = 0;
        *out_count = length;
        return;
    }
    *out_begin = below(world, length);
    *out_count = 1 + below(world, length - *out_begin);
}

static void
set_expected(struct subject *subject, size_t begin, size_t count, int value)
{
    for (size_t i = begin; i < begin + count; i++)
        subject->expected[i] = value;
}

static void
make_subject(struct world *world, struct subject *subject)
{
    ferry_buffer_options options = {.memory = !world->f->coherent && below(world, 2) ? FERRY_MEMORY_PINNED : FERRY_MEMORY_DEFAULT};
    subject->count = 1 + below(world, LENGTH_MAX);
    OK(ferry_buffer_create(world->f->context, INT, subject->count, &options, &subject->buffer));
    memset(subject->expected, 0, sizeof(subject->expected));
}

static void
finish(struct pending *pending)
{
    if (pending->event)
        OK(ferry_event_synchronize(pending->event));
    ferry_event_destroy(&pending->event);
}

/* -- what may happen ------------------------------------------------------------------------------- */

static void
step_fill(struct world *world)
{
    struct subject *x = any_subject(world);
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    int value = world->next_value++;
    if (below(world, 2)) {
        fill_on(world->f, x->buffer, any_stream(world), begin, count, value);
    } else {
        ferry_buffer *view;
        OK(ferry_buffer_view(x->buffer, INT, begin, count, &view));
        OK(launch_fill(&world->w, any_stream(world), view, 0, count, value));
        ferry_buffer_destroy(&view);
    }
    set_expected(x, begin, count, value);
}

static void
step_add(struct world *world)
{
    struct subject *x = any_subject(world);
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    OK(launch_add(&world->w, any_stream(world), x->buffer, begin, count, 3));
    for (size_t i = begin; i < begin + count; i++)
        x->expected[i] += 3;
}

static void
step_copy(struct world *world)
{
    struct subject *x = any_subject(world), *y = any_subject(world);
    size_t from, to, count;
    any_range(world, x->count, &from, &count);
    to = below(world, y->count);
    count = count < y->count - to ? count : y->count - to;
    bool overlaps = x == y && from < to + count && to < from + count;
    switch (overlaps ? 0 : below(world, 3)) {
    case 0: OK(ferry_buffer_copy(y->buffer, INT, to, x->buffer, from, count)); break;
    case 1: copy_on(world->f, any_stream(world), y->buffer, to, x->buffer, from, count); break;
    default: OK(launch_copy(&world->w, any_stream(world), y->buffer, to, x->buffer, from, count)); break;
    }
    memmove(&y->expected[to], &x->expected[from], count * sizeof(int));
}

static void
step_host(struct world *world)
{
    struct subject *x = any_subject(world);
    ferry_access access = (ferry_access)(FERRY_READ + below(world, 3));
    size_t begin, count;
    ferry_scope scope;
    void *memory;
    any_range(world, x->count, &begin, &count);
    OK(ferry_buffer_open_host(x->buffer, INT, access, begin, count, &scope, &memory));
    int *values = memory;
    for (size_t i = 0; i < count; i++) {
        if (access != FERRY_OVERWRITE && values[i] != x->expected[begin + i]) {
            print_error("seed %llu\n", (unsigned long long)support_seed);
            fail_msg("element %zu is %d instead of %d", begin + i, values[i], x->expected[begin + i]);
        }
        if (access != FERRY_READ)
            values[i] = x->expected[begin + i] = world->next_value;
    }
    world->next_value++;
    OK(ferry_scope_close(&scope));
}

static void
step_call(struct world *world)
{
    struct subject *x = any_subject(world);
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    int value = world->next_value++;
    if (below(world, 2)) {
        OK(ferry_buffer_fill(x->buffer, INT, begin, count, &value));
    } else {
        int values[LENGTH_MAX];
        for (size_t i = 0; i < count; i++)
            values[i] = value;
        OK(ferry_buffer_copy_from(x->buffer, INT, begin, values, count));
    }
    set_expected(x, begin, count, value);
}

static void
step_async(struct world *world)
{
    struct subject *x = any_subject(world);
    struct pending *pending = &world->pending[world->next_pending++ % PENDING];
    ferry_stream *stream = below(world, 3) ? any_stream(world) : NULL;
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    finish(pending);
    int value = world->next_value++;
    for (size_t i = 0; i < count; i++)
        pending->values[i] = value;
    if (below(world, 2))
        OK(ferry_buffer_copy_from_async(x->buffer, INT, begin, pending->values, count, stream, &pending->event));
    else
        OK(ferry_buffer_fill_async(x->buffer, INT, begin, count, &value, stream, &pending->event));
    set_expected(x, begin, count, value);
}

static void
step_place(struct world *world)
{
    struct subject *x = any_subject(world);
    int place = (int)below(world, (size_t)world->f->places + 1);
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    switch (below(world, 6)) {
    case 0: OK(ferry_buffer_sync_to(x->buffer, begin, count, place)); break;
    case 1: OK(ferry_buffer_evict(x->buffer, place)); break;
    case 2: OK(ferry_buffer_invalidate(x->buffer, begin, count, place)); break;
    case 3: OK(ferry_buffer_prefetch(x->buffer, place, NULL)); break;
    case 4: OK(ferry_buffer_wait_idle(x->buffer, place)); break;
    default:
        OK(ferry_buffer_discard(x->buffer, begin, count));
        set_expected(x, begin, count, 0);
        break;
    }
}

static void
step_stream(struct world *world)
{
    ferry_stream **stream = &world->streams[below(world, world->stream_count)];
    int place = ferry_stream_place(*stream);
    switch (below(world, 3)) {
    case 0: OK(ferry_stream_synchronize(*stream)); break;
    case 1: OK(ferry_stream_flush(*stream)); break;
    default:
        ferry_stream_destroy(stream);
        *stream = make_stream(world->f, place);
        break;
    }
}

static void
step_buffer(struct world *world)
{
    struct subject *x = any_subject(world);
    if (below(world, 2)) {
        ferry_buffer_destroy(&x->buffer);
        make_subject(world, x);
        return;
    }
    size_t count = 1 + below(world, LENGTH_MAX);
    OK(ferry_buffer_resize(x->buffer, count));
    if (count > x->count)
        set_expected(x, x->count, count - x->count, 0);
    x->count = count;
}

/* Opened on one stream, last used on another. */
static void
step_close_on(struct world *world)
{
    struct subject *x = any_subject(world);
    ferry_stream *a = any_stream(world), *b = any_stream(world);
    ferry_scope scope;
    ferry_event *event;
    size_t begin, count;
    any_range(world, x->count, &begin, &count);
    if (ferry_stream_place(a) != ferry_stream_place(b))
        return;
    int value = world->next_value++;
    char *memory = open_on(x->buffer, a, FERRY_OVERWRITE, begin, count, &scope);
    queue_fill(world->f, a, memory, -1, count);
    OK(ferry_stream_record(a, &event));
    OK(ferry_stream_wait_event(b, event));
    ferry_event_destroy(&event);
    queue_fill(world->f, b, memory, value, count);
    OK(ferry_scope_close_on(&scope, b));
    set_expected(x, begin, count, value);
}

/* Two scopes of one stream in one buffer, the second relying on the first. */
static void
step_nested(struct world *world)
{
    struct subject *x = any_subject(world);
    ferry_stream *a = any_stream(world);
    ferry_scope outer, inner;
    size_t half = x->count / 2;
    if (half == 0)
        return;
    int value = world->next_value++;
    char *memory = open_on(x->buffer, a, FERRY_UPDATE, 0, x->count, &outer);
    queue_fill(world->f, a, memory, value, half);
    char *first = open_on(x->buffer, a, FERRY_READ, 0, half, &inner);
    queue_copy(world->f, a, memory + half * sizeof(int), first, half);
    OK(ferry_scope_close(below(world, 2) ? &inner : &outer));
    OK(ferry_scope_close(&inner));
    OK(ferry_scope_close(&outer));
    set_expected(x, 0, 2 * half, value);
}

static void (*const steps[])(struct world *) = {step_fill,  step_fill,  step_add,    step_copy,   step_copy,     step_host, step_host,
                                                step_call,  step_async, step_place,  step_place,  step_stream,   step_buffer,
                                                step_close_on, step_nested};

/* Prefetches have no event: what is queued last on the helper thread is done last. */
static void
drain_helper(fixture *f)
{
    ferry_buffer *last = make_ints(f, 1);
    ferry_event *event;
    int zero = 0;
    OK(ferry_buffer_fill_async(last, INT, 0, 1, &zero, NULL, &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&last);
}

/* The helper thread tells transfers too. */
static void
no_trace(const ferry_trace *trace, void *user)
{
    (void)trace, (void)user;
}

static void
run_history(uint64_t seed, size_t stream_count, int step_count)
{
    static struct world world;
    static fixture f;
    memset(&world, 0, sizeof(world));
    fixture_open(&f, &(ferry_context_options){.trace = no_trace});
    world.f = &f;
    world.seed = start_random(seed);
    world.stream_count = stream_count;
    work_open(&f, &world.w);
    for (size_t i = 0; i < stream_count; i++)
        world.streams[i] = make_stream(&f, 1 + (int)(i % (size_t)f.places));
    for (int i = 0; i < BUFFERS; i++)
        make_subject(&world, &world.subjects[i]);
    for (int i = 0; i < step_count; i++)
        steps[below(&world, LENGTH(steps))](&world);
    for (int i = 0; i < BUFFERS; i++) {
        expect_ints(world.subjects[i].buffer, world.subjects[i].expected, 0, world.subjects[i].count);
        ferry_buffer_destroy(&world.subjects[i].buffer);
    }
    for (int i = 0; i < PENDING; i++)
        finish(&world.pending[i]);
    drain_helper(&f);
    for (size_t i = 0; i < stream_count; i++)
        ferry_stream_destroy(&world.streams[i]);
    work_close(&world.w);
    fixture_close(&f);
    support_seed = 0;
}

static void
test_three_streams(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        run_history(seed, 3, 400);
}

static void
test_many_streams(void **state)
{
    (void)state;
    for (uint64_t seed = 101; seed <= 104; seed++)
        run_history(seed, STREAMS_MAX, 400);
}

static void
test_long_history(void **state)
{
    (void)state;
    run_history(201, 8, 4000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_streams),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_long_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
