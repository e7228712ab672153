/* SPDX-License-Identifier: MIT */
/*
 * Runs random sequences of calls in which host functions fail after their launch has returned. By
 * then, other calls may already read or write the same bytes. The test checks exactly which bytes
 * are lost. A byte is lost if a failed launch wrote it and no later call replaced it. A byte that a
 * launch computed from lost bytes is lost, too.
 */
#include <unistd.h>

#include "tests/buffer/work.h"

enum { LENGTH_MAX = 48, BUFFERS = 3, STREAMS = 3, STEPS = 60, HISTORIES = 150 };

struct subject {
    ferry_buffer *buffer;
    size_t count;
    int values[LENGTH_MAX];
    bool lost[LENGTH_MAX];
};

struct range {
    struct subject *subject;
    size_t offset, count;
};

struct world {
    fixture *f;
    work w;
    ferry_kernel *failing[2]; /* one kernel for UPDATE, one for OVERWRITE */
    ferry_stream *streams[STREAMS];
    struct subject subjects[BUFFERS];
    uint64_t seed;
    int next; /* next value to write; it differs from all current values */
    unsigned losses;
};

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    size_t count;
    int *array = ferry_call_array(call, INT, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        array[i] = -1;
    if (count % 3 == 0)
        usleep(100);
    ferry_call_fail(call, "this one fails late");
    return FERRY_ERROR_CANCELLED;
}

static bool
chance(struct world *world, size_t of)
{
    return random_below(&world->seed, of) == 0;
}

static ferry_stream *
any_stream(struct world *world)
{
    return world->streams[random_below(&world->seed, STREAMS)];
}

static struct range
any_range(struct world *world)
{
    struct subject *subject = &world->subjects[random_below(&world->seed, BUFFERS)];
    if (chance(world, 3))
        return (struct range){subject, 0, subject->count};
    size_t offset = random_below(&world->seed, subject->count);
    return (struct range){subject, offset, 1 + random_below(&world->seed, subject->count - offset)};
}

/* Returns a random range of a buffer other than that of `range`. Shortens the longer of the two
 * ranges, so that both have the same length. */
static struct range
range_beside(struct world *world, struct range *range)
{
    struct range other;
    do
        other = any_range(world);
    while (other.subject == range->subject);
    other.count = range->count = other.count < range->count ? other.count : range->count;
    return other;
}

static bool
any_lost(struct range r)
{
    for (size_t i = r.offset; i < r.offset + r.count; i++)
        if (r.subject->lost[i])
            return true;
    return false;
}

static void
set(struct range r, int value, bool lost)
{
    for (size_t i = r.offset; i < r.offset + r.count; i++) {
        r.subject->values[i] = value;
        r.subject->lost[i] = lost;
    }
}

/* Returns whether a launch was refused. A launch that reads lost bytes is refused if the loss is
 * already known. If it is not refused, the bytes that it writes are lost, too. */
static bool
was_refused(struct world *world, ferry_status status, bool input_lost)
{
    if (status != FERRY_OK) {
        assert_true(input_lost);
        assert_int_equal(status, FERRY_ERROR_CANCELLED);
        return true;
    }
    world->losses += input_lost;
    return false;
}

/* -- steps ------------------------------------------------------------------------------------- */

static void
launch_failing(struct world *world)
{
    struct range r = any_range(world);
    size_t overwrites = random_below(&world->seed, 2);
    ferry_argument argument = ferry_buffer_argument(r.subject->buffer, INT, r.offset, r.count);
    ferry_status status = ferry_kernel_launch(world->failing[overwrites], ferry_grid_for(1, 0),
                                              any_stream(world), &argument, 1);
    if (was_refused(world, status, !overwrites && any_lost(r)))
        return;
    world->losses++;
    set(r, -1, true);
}

static void
launch_well(struct world *world)
{
    struct range r = any_range(world), source = range_beside(world, &r);
    switch (random_below(&world->seed, 3)) {
    case 0:
        OK(launch_fill(&world->w, any_stream(world), r.subject->buffer, r.offset, r.count,
                       ++world->next));
        set(r, world->next, false);
        break;
    case 1: {
        bool lost = any_lost(r);
        if (was_refused(world,
                        launch_add(&world->w, any_stream(world), r.subject->buffer, r.offset,
                                   r.count, 1000),
                        lost))
            break;
        for (size_t i = r.offset; i < r.offset + r.count; i++)
            r.subject->values[i] += 1000;
        if (lost)
            set(r, -1, true);
        break;
    }
    default: {
        bool lost = any_lost(source);
        ferry_status status = launch_copy(&world->w, any_stream(world), r.subject->buffer, r.offset,
                                          source.subject->buffer, source.offset, r.count);
        if (was_refused(world, status, lost))
            break;
        set(r, -1, lost);
        memcpy(&r.subject->values[r.offset], &source.subject->values[source.offset],
               r.count * sizeof(int));
        break;
    }
    }
}

static void
write_otherwise(struct world *world)
{
    struct range r = any_range(world);
    int value = ++world->next, values[LENGTH_MAX];
    for (size_t i = 0; i < r.count; i++)
        values[i] = value;
    switch (random_below(&world->seed, 4)) {
    case 0:
        fill_on(world->f, r.subject->buffer, any_stream(world), r.offset, r.count, value);
        break;
    case 1:
        OK(ferry_buffer_copy_from(r.subject->buffer, INT, r.offset, r.count, values, NULL));
        break;
    case 2:
        OK(ferry_buffer_fill(r.subject->buffer, INT, r.offset, r.count, &value, NULL));
        break;
    default:
        OK(ferry_buffer_discard(r.subject->buffer, r.offset, r.count));
        value = 0;
    }
    set(r, value, false);
}

static void
copy_between(struct world *world)
{
    struct range r = any_range(world), source = range_beside(world, &r);
    ferry_status status = ferry_buffer_copy(r.subject->buffer, INT, r.offset,
                                            source.subject->buffer, source.offset, r.count, NULL);
    assert_int_equal(status, any_lost(source) ? FERRY_ERROR_CANCELLED : FERRY_OK);
    if (status != FERRY_OK)
        return;
    set(r, 0, false);
    memcpy(&r.subject->values[r.offset], &source.subject->values[source.offset],
           r.count * sizeof(int));
}

static void
expect_range(struct range r)
{
    int values[LENGTH_MAX];
    ferry_status status =
        ferry_buffer_copy_to(r.subject->buffer, INT, r.offset, r.count, values, NULL);
    assert_int_equal(status, any_lost(r) ? FERRY_ERROR_CANCELLED : FERRY_OK);
    if (status != FERRY_OK) {
        assert_non_null(strstr(ferry_last_error(), "this one fails late"));
        return;
    }
    for (size_t i = 0; i < r.count; i++)
        assert_int_equal(values[i], r.subject->values[r.offset + i]);
}

/* Either makes a random range current at a random place, or evicts the buffer's replica there. */
static void
move_about(struct world *world)
{
    struct range r = any_range(world);
    int place = (int)random_below(&world->seed, (size_t)world->f->places + 1);
    ferry_status status =
        chance(world, 2) ? ferry_buffer_evict(r.subject->buffer, place)
                         : ferry_buffer_sync_to(r.subject->buffer, r.offset, r.count, place, NULL);
    if (status != FERRY_OK)
        assert_int_equal(status, FERRY_ERROR_CANCELLED);
}

static void
change_length(struct world *world)
{
    struct subject *subject = &world->subjects[random_below(&world->seed, BUFFERS)];
    size_t old = subject->count, count = 1 + random_below(&world->seed, LENGTH_MAX);
    OK(ferry_buffer_resize(subject->buffer, count));
    subject->count = count;
    if (count > old)
        set((struct range){subject, old, count - old}, 0, false);
}

static void
renew(struct world *world, struct subject *subject)
{
    ferry_buffer_destroy(&subject->buffer);
    subject->count = 1 + random_below(&world->seed, LENGTH_MAX);
    ferry_buffer_options options = {.memory = chance(world, 4) ? FERRY_MEMORY_PINNED
                                                               : FERRY_MEMORY_DEFAULT};
    OK(ferry_buffer_create(world->f->context, INT, subject->count, &options, &subject->buffer));
    set((struct range){subject, 0, subject->count}, 0, false);
}

static void
wait_for(ferry_stream *stream)
{
    ferry_status status = ferry_stream_synchronize(stream);
    if (status != FERRY_OK)
        assert_int_equal(status, FERRY_ERROR_CANCELLED);
}

static void
step(struct world *world)
{
    size_t choice = random_below(&world->seed, 40);
    if (choice < 8)
        launch_failing(world);
    else if (choice < 20)
        launch_well(world);
    else if (choice < 29)
        write_otherwise(world);
    else if (choice < 31)
        copy_between(world);
    else if (choice < 33)
        expect_range(any_range(world));
    else if (choice < 35)
        move_about(world);
    else if (choice < 37)
        change_length(world);
    else if (choice < 38)
        renew(world, &world->subjects[random_below(&world->seed, BUFFERS)]);
    else
        wait_for(any_stream(world));
}

/* -- histories --------------------------------------------------------------------------------- */

static void
make_failing(struct world *world)
{
    static const ferry_access accesses[] = {FERRY_UPDATE, FERRY_OVERWRITE};
    for (size_t i = 0; i < LENGTH(accesses); i++) {
        ferry_parameter parameter = {.element = INT, .access = accesses[i]};
        ferry_kernel_source source = {.name = "failing",
                                      .host_function = failing_body,
                                      .parameters = &parameter,
                                      .parameter_count = 1};
        OK(ferry_kernel_create(world->f->context, &source, &world->failing[i]));
    }
}

static void
play(struct world *world)
{
    for (size_t i = 0; i < BUFFERS; i++)
        renew(world, &world->subjects[i]);
    for (int i = 0; i < STEPS; i++)
        step(world);
    for (size_t i = 0; i < BUFFERS; i++)
        for (size_t at = 0; at < world->subjects[i].count; at++)
            expect_range((struct range){&world->subjects[i], at, 1});
    for (size_t i = 0; i < STREAMS; i++)
        wait_for(world->streams[i]);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&world->subjects[i].buffer);
}

static void
test_what_is_lost(void **state)
{
    struct world world = {.f = *state};
    if (!(device_of(world.f, 1)->capabilities & FERRY_CAN_RUN_HOST_FUNCTION))
        skip();
    work_open(world.f, &world.w);
    make_failing(&world);
    for (int i = 0; i < STREAMS; i++)
        world.streams[i] = make_stream(world.f, 1 + i % world.f->places);
    uint64_t first = start_random(1000);
    for (uint64_t i = 0; i < HISTORIES; i++) {
        world.seed = support_seed = first + i;
        play(&world);
    }
    support_seed = 0;
    assert_true(world.losses > HISTORIES);
    DESTROY_STREAMS(&world.streams[0], &world.streams[1], &world.streams[2]);
    ferry_kernel_destroy(&world.failing[0]);
    ferry_kernel_destroy(&world.failing[1]);
    work_close(&world.w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_lost),
    };
    return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
