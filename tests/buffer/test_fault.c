/* SPDX-License-Identifier: MIT */
/* Runs scenarios, each of which makes a few calls on two buffers. Makes each device call and each
 * allocation of a scenario fail once. After the failure, no data may be lost or wrong, nothing may
 * leak, and a second attempt must succeed. */
#include "src/store/place_pool.h"
#include "tests/buffer/files.h"
#include "tests/buffer/work.h"

#include <stdio.h>

#include <ferry/float_convert.h>
#include <ferry/int_convert.h>

#include "src/base/sanitizer.h"
#include "src/buffer/buffer.h"
#include "src/pool/slab.h"
#include "tests/support/copies.h"
#include "tests/support/exchange.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"
#include "tests/support/short_memory.h"

/* COUNT integers fill two staging chunks of 4 KiB and a part of a third chunk. */
enum { COUNT = 2500, HALF = COUNT / 2, MORE = 4000 };

/* Sanitized builds take at least ten times as long, so they make only every 7th or 29th call of a
 * scenario fail. */
enum { EVERY = FERRYI_THREAD_SANITIZER ? 29 : FERRYI_SANITIZED_MALLOC ? 7 : 1 };

/* The places where a buffer is current when a scenario begins. */
enum start { AT_HOST, AT_DEVICE, AT_BOTH, IN_PARTS, STARTS };

/* The kinds of memory that a buffer's host replica can have. */
enum memory { PAGEABLE, PINNED, SCRUBBED };

static const char *const memory_names[] = {"pageable", "pinned", "scrubbed"};

struct world {
    fixture f;
    work w;
    ferry_stream *stream;
    ferry_buffer *a, *b;
    size_t count;                  /* of `a` */
    int old_a[MORE], old_b[COUNT]; /* contents before the scenario */
    int new_a[MORE], new_b[COUNT]; /* contents after success */
    int memory[COUNT];
    enum start start;
    bool loses_device; /* whether the injected failure is the loss of the device */
    const char *name;
};

struct scenario {
    const char *name;
    ferry_status (*run)(struct world *world);
    /* Changes new_a and new_b to the contents that are expected after the call. When the function
     * is called, they equal the old contents. NULL: the call changes neither buffer. */
    void (*expect)(struct world *world);
    bool by_chunks; /* whether a failure may leave some elements old and others new */
};

/* -- what fails -------------------------------------------------------------------------------- */

/* `memory_fails`: whether the test makes an allocation of the C library fail instead of a device
 * call. `memory_ends`: whether every allocation after the injected failure fails, too. */
static bool memory_fails, memory_ends;

/* A hook that makes every allocation fail, beginning with the device call number `*user`, which is
 * the call that fails. The library then has no memory to store why the call failed. */
static ferry_status
end_memory(const char *slot, void *user)
{
    (void)slot;
    if (fault_calls() + 1 == *(uint64_t *)user)
        short_memory_arm_for_good(1);
    return FERRY_OK;
}

static void
arm(uint64_t nth)
{
    static uint64_t wanted;
    wanted = nth;
    if (memory_fails && memory_ends)
        short_memory_arm_for_good(nth);
    else if (memory_fails)
        short_memory_arm(nth);
    else
        fault_arm(nth);
    if (memory_ends && !memory_fails)
        fault_hook(end_memory, &wanted);
}

static void
disarm_both(void)
{
    fault_hook(NULL, NULL);
    short_memory_disarm();
    fault_disarm();
}

static bool
has_tripped(void)
{
    return memory_fails ? short_memory_tripped() : fault_tripped();
}

/* -- the world --------------------------------------------------------------------------------- */

static unsigned logged_errors;

static void
count_log(ferry_log_level level, const char *message, void *user)
{
    (void)message, (void)user;
    logged_errors += level == FERRY_LOG_ERROR;
}

static void
put_at_start(struct world *world, ferry_buffer *buffer, const int *values)
{
    OK(ferry_buffer_copy_from(buffer, INT, 0, COUNT, values, NULL));
    if (world->start == AT_DEVICE)
        OK(launch_add(&world->w, world->stream, buffer, 0, COUNT, 0));
    else if (world->start == AT_BOTH)
        OK(ferry_buffer_sync_to(buffer, 0, FERRY_REST, 1, NULL));
    else if (world->start == IN_PARTS)
        OK(launch_add(&world->w, world->stream, buffer, COUNT / 3, COUNT / 3, 0));
}

static void
world_open(struct world *world, enum start start, enum memory memory)
{
    ferry_context_options options = {
        .devices = "fault", .log = count_log, .tuning = "staging.chunk=4K staging.chunks=2"};
    /* In two of the four starting states of a scenario, helper threads fill and drain the staging
     * ring. */
    if (start == AT_DEVICE || start == IN_PARTS)
        options.tuning = "staging.chunk=4K staging.chunks=6 staging.threads=3";
    ferry_buffer_options buffer = {.name = "subject",
                                   .memory = memory == PINNED ? FERRY_MEMORY_PINNED
                                                              : FERRY_MEMORY_DEFAULT,
                                   .scrub = memory == SCRUBBED};
    memset(world, 0, sizeof(*world));
    world->start = start;
    world->count = COUNT;
    OK(ferry_context_create(&options, &world->f.context));
    world->f.places = 1;
    world->f.stream = ferry_context_stream(world->f.context, 1);
    work_open(&world->f, &world->w);
    OK(ferry_stream_create(world->f.context, 1, &world->stream));
    for (int i = 0; i < COUNT; i++) {
        world->old_a[i] = world->new_a[i] = 1000 + i;
        world->old_b[i] = world->new_b[i] = 500000 + i;
        world->memory[i] = 9000000 + i;
    }
    OK(ferry_buffer_create(world->f.context, INT, COUNT, &buffer, &world->a));
    OK(ferry_buffer_create(world->f.context, INT, COUNT, &buffer, &world->b));
    put_at_start(world, world->a, world->old_a);
    put_at_start(world, world->b, world->old_b);
}

/* Waits until the emulated device has done its work. An injected failure may have made an earlier
 * wait return too soon, while the device continued to work. */
static void
settle(struct world *world)
{
    OK(ferryi_device_synchronize(device_of(&world->f, 1)));
}

static void
world_close(struct world *world)
{
    ferry_buffer_destroy(&world->a);
    ferry_buffer_destroy(&world->b);
    ferry_stream_destroy(&world->stream);
    work_close(&world->w);
    ferry_context_destroy(&world->f.context);
    if (fault_live() != 0)
        fail_msg("%s: %d things were not given back", world->name, (int)fault_live());
}

static void
expect_old_or_new(struct world *world, ferry_buffer *buffer, const int *old, const int *new,
                  bool may_be_old, bool may_be_new)
{
    int values[MORE];
    size_t count = ferry_buffer_count(buffer);
    OK(ferry_buffer_copy_to(buffer, INT, 0, count, values, NULL));
    for (size_t i = 0; i < count; i++)
        if (!(may_be_old && values[i] == old[i]) && !(may_be_new && values[i] == new[i]))
            fail_msg("%s: element %zu is %d, neither %d nor %d as may be", world->name, i,
                     values[i], old[i], new[i]);
}

/* Checks that a call has left behind no claim and no reserved entry of the valid map. Such an entry
 * would stay until the buffer is destroyed. */
static void
check_quiet(struct world *world, ferry_buffer *buffer)
{
    ferryi_store_lock(buffer->store);
    size_t claims = buffer->store->claim_count, reservations = buffer->store->map.reserved;
    ferryi_store_unlock(buffer->store);
    if (claims != 0 || reservations != 0)
        fail_msg("%s: %zu claims and %zu reservations are left", world->name, claims, reservations);
}

static void
check_content(struct world *world, const struct scenario *scenario, ferry_status status)
{
    bool old = status != FERRY_OK, new = status == FERRY_OK || scenario->by_chunks;
    expect_old_or_new(world, world->a, world->old_a, world->new_a, old, new);
    expect_old_or_new(world, world->b, world->old_b, world->new_b, old, new);
    /* The content read at the device is the same. */
    OK(ferry_buffer_sync_to(world->a, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_evict(world->a, 0));
    expect_old_or_new(world, world->a, world->old_a, world->new_a, old, new);
    check_quiet(world, world->a);
    check_quiet(world, world->b);
}

/* -- scenarios --------------------------------------------------------------------------------- */

static ferry_status
scope_at(struct world *world, int place, ferry_access access, int add)
{
    ferry_scope scope;
    void *memory;
    ferry_status status =
        place == 0 ? ferry_buffer_open_host(world->a, INT, access, 100, 2000, &scope, &memory)
                   : ferry_buffer_open_device(world->a, INT, access, 100, 2000, world->stream,
                                              &scope, &memory);
    if (status != FERRY_OK)
        return status;
    for (int i = 0; i < 2000 && add; i++)
        ((int *)memory)[i] = 1100 + i + add;
    return ferry_scope_close(&scope);
}

static ferry_status
run_read_host(struct world *world)
{
    return scope_at(world, 0, FERRY_READ, 0);
}
static ferry_status
run_update_host(struct world *world)
{
    return scope_at(world, 0, FERRY_UPDATE, 7);
}
static ferry_status
run_overwrite_host(struct world *world)
{
    return scope_at(world, 0, FERRY_OVERWRITE, 7);
}
static ferry_status
run_read_device(struct world *world)
{
    return scope_at(world, 1, FERRY_READ, 0);
}
static ferry_status
run_update_device(struct world *world)
{
    return scope_at(world, 1, FERRY_UPDATE, 0);
}

static ferry_status
fill_open(struct world *world, ferry_stream *stream, void *memory, int value)
{
    ferryi_device *device = device_of(&world->f, 1);
    return device->ops->fill(device, memory, (uint32_t)value, sizeof(int), HALF,
                             ferry_stream_native(stream));
}

/* Two streams write one half each. The scope of the first stream was ordered before the second
 * stream wrote, and is closed last. */
static ferry_status
run_two_writers(struct world *world)
{
    ferry_stream *other;
    ferry_scope scopes[2];
    void *halves[2];
    ferry_status status = ferry_stream_create(world->f.context, 1, &other);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_open_device(world->a, INT, FERRY_UPDATE, 0, HALF, world->stream,
                                      &scopes[0], &halves[0]);
    if (status == FERRY_OK) {
        status = ferry_buffer_open_device(world->a, INT, FERRY_UPDATE, HALF, HALF, other,
                                          &scopes[1], &halves[1]);
        if (status == FERRY_OK) {
            status = fill_open(world, other, halves[1], 8);
            ferry_status closed = ferry_scope_close(&scopes[1]);
            status = status == FERRY_OK ? closed : status;
        }
        if (status == FERRY_OK)
            status = fill_open(world, world->stream, halves[0], 7);
        ferry_status closed = ferry_scope_close(&scopes[0]);
        status = status == FERRY_OK ? closed : status;
    }
    /* Reads at once, because the check after the scenario waits for the whole device first. */
    int values[COUNT];
    if (has_tripped() && !world->loses_device)
        disarm_both();
    if (status == FERRY_OK)
        status = ferry_buffer_copy_to(world->a, INT, 0, COUNT, values, NULL);
    for (int i = 0; i < COUNT && status == FERRY_OK; i++)
        if (values[i] != (i < HALF ? 7 : 8))
            fail_msg("%s: element %d is %d", world->name, i, values[i]);
    ferry_stream_destroy(&other);
    return status;
}

static void
expect_two_writers(struct world *world)
{
    for (int i = 0; i < 2 * HALF; i++)
        world->new_a[i] = i < HALF ? 7 : 8;
}

static ferry_status
lease_at(struct world *world, int place, ferry_access access, int add)
{
    ferry_lease *lease;
    void *memory;
    ferry_lease_options options = {
        .access = access, .place = place, .offset = 100, .count = 2000, .label = "holder"};
    ferry_status status = ferry_lease_open(world->a, INT, &options, &lease, &memory);
    if (status != FERRY_OK)
        return status;
    for (int i = 0; i < 2000 && add; i++)
        ((int *)memory)[i] = 1100 + i + add;
    status = ferry_lease_close(lease);
    ferry_lease_destroy(&lease);
    return status;
}

static ferry_status
run_lease_read(struct world *world)
{
    return lease_at(world, 0, FERRY_READ, 0);
}
static ferry_status
run_lease_update(struct world *world)
{
    return lease_at(world, 0, FERRY_UPDATE, 7);
}
static ferry_status
run_lease_device(struct world *world)
{
    return lease_at(world, 1, FERRY_UPDATE, 0);
}

static ferry_status
run_unordered(struct world *world)
{
    ferry_scope scope;
    void *memory;
    ferry_status status = ferry_buffer_open_device(world->a, INT, FERRY_UPDATE, 100, 2000,
                                                   world->stream, &scope, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_scope_wait(&scope);
    ferry_status closed = ferry_scope_close_unordered(&scope);
    if (status == FERRY_OK && closed == FERRY_OK)
        status = ferry_buffer_sync_to(world->a, 0, FERRY_REST, 0, NULL);
    return status == FERRY_OK ? closed : status;
}

static void
expect_host_write(struct world *world)
{
    for (int i = 100; i < 2100; i++)
        world->new_a[i] = world->old_a[i] + 7;
}

static ferry_status
run_open_all(struct world *world)
{
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(world->a, INT, 0, FERRY_REST), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(world->b, INT, 5, 700), FERRY_READ)};
    ferry_scope scopes[2];
    ferry_status status = ferry_scope_open_all(arguments, 2, 1, world->stream, scopes, NULL);
    for (int i = 0; i < 2 && status == FERRY_OK; i++)
        status = ferry_scope_close(&scopes[i]);
    return status;
}

static ferry_status
run_sync_host(struct world *world)
{
    return ferry_buffer_sync_to(world->a, 0, FERRY_REST, 0, NULL);
}
static ferry_status
run_sync_device(struct world *world)
{
    return ferry_buffer_sync_to(world->a, 0, FERRY_REST, 1, NULL);
}
static ferry_status
run_evict_host(struct world *world)
{
    return ferry_buffer_evict(world->a, 0);
}
static ferry_status
run_evict_device(struct world *world)
{
    return ferry_buffer_evict(world->a, 1);
}
static ferry_status
run_invalidate(struct world *world)
{
    return ferry_buffer_invalidate(world->a, 10, 2000, 1);
}
static ferry_status
run_copy_from(struct world *world)
{
    return ferry_buffer_copy_from(world->a, INT, 0, COUNT, world->memory, NULL);
}
static ferry_status
run_copy(struct world *world)
{
    return ferry_buffer_copy(world->a, INT, 100, world->b, 200, 2000, NULL);
}

static ferry_status
run_copy_to(struct world *world)
{
    int values[COUNT];
    ferry_status status = ferry_buffer_copy_to(world->a, INT, 0, COUNT, values, NULL);
    if (status == FERRY_OK)
        assert_memory_equal(values, world->old_a, sizeof(values));
    return status;
}

/* Paths of two files. Scenarios that load from a file use `memory_file`, which has the content of
 * `memory`. Scenarios that store to a file use `stored_file`. */
static const char *memory_file, *stored_file;

static ferry_status
run_load_device(struct world *world)
{
    write_file(memory_file, world->memory, sizeof(world->memory));
    return ferry_buffer_load(world->a, INT, 0, COUNT, memory_file, 0,
                             &(ferry_copy_options){.stream = world->stream});
}

static ferry_status
run_load(struct world *world)
{
    write_file(memory_file, world->memory, sizeof(world->memory));
    return ferry_buffer_load(world->a, INT, 0, COUNT, memory_file, 0, NULL);
}

static ferry_status
run_store(struct world *world)
{
    ferry_status status = ferry_buffer_store(world->a, INT, 0, COUNT, stored_file, 0, NULL);
    if (status == FERRY_OK)
        disarm_both(), expect_file(stored_file, world->old_a, sizeof(world->old_a[0]) * COUNT);
    return status;
}

static ferry_status
add_seven(const ferry_file_chunk *chunk, void *user)
{
    struct world *world = user;
    return launch_add(&world->w, chunk->stream, chunk->buffer, 0, chunk->count, 7);
}

static ferry_status
run_stream_file(struct world *world)
{
    const ferry_file_pipeline_options options = {.input = memory_file,
                                                 .output = stored_file,
                                                 .element = INT,
                                                 .work = add_seven,
                                                 .user = world,
                                                 .stream = world->stream,
                                                 .chunk_bytes = 4096};
    write_file(memory_file, world->memory, sizeof(world->memory));
    ferry_status status = ferry_file_pipeline(world->f.context, &options);
    if (status == FERRY_OK)
        disarm_both(), expect_integers(stored_file, 0, COUNT, world->memory[0] + 7);
    return status;
}

/* Source or target of conversions on the device. A conversion may follow an upload, precede a
 * download, or run between two buffers. */
static uint8_t narrow[COUNT];

static ferry_status
run_convert_from(struct world *world)
{
    for (int i = 0; i < COUNT; i++)
        narrow[i] = (uint8_t)(i * 7);
    return ferry_int_copy_from_byte((ferry_int_buffer){world->a}, 0, COUNT, narrow,
                                    FERRY_CONVERT_SATURATE, NULL);
}

static void
expect_convert_from(struct world *world)
{
    for (int i = 0; i < COUNT; i++)
        world->new_a[i] = (uint8_t)(i * 7);
}

static ferry_status
run_convert_to(struct world *world)
{
    int16_t values[COUNT];
    ferry_status status = ferry_int_copy_to_int16((ferry_int_buffer){world->a}, 0, COUNT, values,
                                                  FERRY_CONVERT_CHECK, NULL);
    for (int i = 0; i < COUNT && status == FERRY_OK; i++)
        assert_int_equal(values[i], world->old_a[i]);
    return status;
}

static ferry_status
run_convert(struct world *world)
{
    ferry_float_buffer middle = {0};
    ferry_status status = ferry_float_create(world->f.context, COUNT, NULL, &middle);
    if (status == FERRY_OK)
        status = ferry_float_convert_from_int(middle, 0, (ferry_int_buffer){world->b}, 0, COUNT,
                                              FERRY_CONVERT_SATURATE, NULL);
    if (status == FERRY_OK)
        status = ferry_int_convert_from_float((ferry_int_buffer){world->a}, 100, middle, 200, 2000,
                                              FERRY_CONVERT_CHECK, NULL);
    ferry_float_destroy(&middle);
    return status;
}

static ferry_status
run_fill(struct world *world)
{
    int value = 77;
    return ferry_buffer_fill(world->a, INT, 50, 2000, &value, NULL);
}

static void
expect_fill(struct world *world)
{
    for (int i = 50; i < 2050; i++)
        world->new_a[i] = 77;
}

static void
expect_copy_from(struct world *world)
{
    memcpy(world->new_a, world->memory, sizeof(world->memory));
}

static void
expect_copy(struct world *world)
{
    memcpy(&world->new_a[100], &world->old_b[200], 2000 * sizeof(int));
}

static ferry_status
finish(ferry_status status, ferry_event **event)
{
    if (status == FERRY_OK)
        status = ferry_event_synchronize(*event);
    if (*event)
        ferry_event_destroy(event);
    return status;
}

static ferry_status
run_copy_from_async(struct world *world)
{
    ferry_event *event = NULL;
    ferry_status status = ferry_buffer_copy_from_async(world->a, INT, 0, COUNT, world->memory,
                                                       ON(world->stream), &event);
    return finish(status, &event);
}

static ferry_status
run_copy_async(struct world *world)
{
    ferry_event *event = NULL;
    ferry_status status =
        ferry_buffer_copy_async(world->a, INT, 100, world->b, 200, 2000, ON(world->stream), &event);
    return finish(status, &event);
}

static ferry_status
run_fill_async(struct world *world)
{
    ferry_event *event = NULL;
    int value = 77;
    ferry_status status =
        ferry_buffer_fill_async(world->a, INT, 50, 2000, &value, ON(world->stream), &event);
    return finish(status, &event);
}

/* Checks the value of an element that a scenario has read. The value may be new, because a failed
 * first attempt may have written it. */
static void
check_got(const struct world *world, int got, int index)
{
    if (got != world->old_a[index] && got != world->new_a[index])
        fail_msg("%s: element %d was read as %d", world->name, index, got);
}

/* Submits a batch of copies to, from and between the buffers. The batch has two levels, and the
 * second level writes ranges that the first one reads. */
static ferry_status
run_batch_as(struct world *world, bool async)
{
    int got[COUNT];
    ferry_event *event = NULL;
    copy_list *batch = NULL;
    ferry_status status;
    FERRY_TRY(status, fail, copy_list_create(&batch));
    for (size_t at = 0; at < COUNT; at += 25) {
        FERRY_TRY(status, fail, copy_list_to(batch, world->a, INT, at, got + at, 25));
        FERRY_TRY(status, fail, copy_list_from(batch, world->a, INT, at, world->memory + at, 7));
        FERRY_TRY(status, fail, copy_list_copy(batch, world->a, INT, at + 8, world->b, at, 15));
    }
    if (async) {
        status = copy_list_submit_async(batch, ON(world->stream), &event);
        status = finish(status, &event);
    } else {
        status = copy_list_submit(batch, NULL);
    }
    for (int i = 0; i < COUNT && status == FERRY_OK; i++)
        check_got(world, got[i], i);
fail:
    copy_list_destroy(&batch);
    return status;
}

static ferry_status
run_batch(struct world *world)
{
    return run_batch_as(world, false);
}
static ferry_status
run_batch_async(struct world *world)
{
    return run_batch_as(world, true);
}

static void
expect_batch(struct world *world)
{
    for (int at = 0; at < COUNT; at += 25) {
        memcpy(&world->new_a[at], &world->memory[at], 7 * sizeof(int));
        memcpy(&world->new_a[at + 8], &world->old_b[at], 15 * sizeof(int));
    }
}

static ferry_status
run_rows(struct world *world)
{
    int got[1000];
    ferry_status status = copy_rows_to(world->a, INT, 0, 50, got, 20, 20, 50, NULL);
    for (int i = 0; i < 1000 && status == FERRY_OK; i++)
        check_got(world, got[i], i / 20 * 50 + i % 20);
    if (status == FERRY_OK)
        status = copy_rows_from(world->a, INT, 0, 50, world->memory, 40, 20, 50, NULL);
    if (status == FERRY_OK)
        status = copy_rows(world->a, INT, 25, 50, world->b, 3, 49, 20, 50, NULL);
    return status;
}

static void
expect_rows(struct world *world)
{
    for (int row = 0; row < 50; row++) {
        memcpy(&world->new_a[50 * row], &world->memory[40 * row], 20 * sizeof(int));
        memcpy(&world->new_a[50 * row + 25], &world->old_b[49 * row + 3], 20 * sizeof(int));
    }
}

static ferry_status
run_launch(struct world *world)
{
    return launch_copy(&world->w, world->stream, world->a, 100, world->b, 200, 2000);
}

/* Records a copy and an addition, and launches them. */
static ferry_status
run_graph(struct world *world)
{
    ferry_stream *stream = NULL;
    ferry_graph *graph = NULL;
    const ferry_graph_options options = {.name = "step"};
    ferry_status status = ferry_stream_create(world->f.context, 1, &stream);
    if (status == FERRY_OK)
        status = ferry_graph_begin(stream, &options, &graph);
    if (status == FERRY_OK)
        status = launch_copy(&world->w, stream, world->a, 100, world->b, 200, 2000);
    if (status == FERRY_OK)
        status = ferry_buffer_copy(world->a, INT, 2200, world->b, 10, 50,
                                   &(ferry_copy_options){.stream = stream});
    if (status == FERRY_OK)
        status = ferry_graph_end(graph);
    if (status == FERRY_OK)
        status = ferry_graph_launch(graph, world->stream);
    ferry_graph_destroy(&graph);
    ferry_stream_destroy(&stream);
    return status;
}

static void
expect_graph(struct world *world)
{
    expect_copy(world);
    memcpy(&world->new_a[2200], &world->old_b[10], 50 * sizeof(int));
}

static ferry_status
run_launch_in_place(struct world *world)
{
    return launch_add(&world->w, world->stream, world->a, 0, COUNT, 5);
}

static void
expect_add(struct world *world)
{
    for (int i = 0; i < COUNT; i++)
        world->new_a[i] = world->old_a[i] + 5;
}

static ferry_status
resize_to(struct world *world, size_t count)
{
    ferry_status status = ferry_buffer_resize(world->a, count);
    size_t is = ferry_buffer_count(world->a);
    assert_int_equal(is, status == FERRY_OK ? count : COUNT);
    return status;
}

/* Copies a range to a higher, overlapping range of the same buffer. The copy must read bytes before
 * it overwrites them. */
static ferry_status
run_copy_within(struct world *world)
{
    return ferry_buffer_copy(world->a, INT, 300, world->a, 100, 2000, NULL);
}

static ferry_status
run_batch_within(struct world *world)
{
    copy_list *batch = NULL;
    ferry_status status;
    FERRY_TRY(status, fail, copy_list_create(&batch));
    FERRY_TRY(status, fail, copy_list_copy(batch, world->a, INT, 300, world->b, 0, 200));
    FERRY_TRY(status, fail, copy_list_copy(batch, world->b, INT, 300, world->b, 100, 2000));
    status = copy_list_submit(batch, NULL);
fail:
    copy_list_destroy(&batch);
    return status;
}

static void
expect_batch_within(struct world *world)
{
    memcpy(&world->new_a[300], world->old_b, 200 * sizeof(int));
    memcpy(&world->new_b[300], &world->old_b[100], 2000 * sizeof(int));
}

static void
expect_copy_within(struct world *world)
{
    memcpy(&world->new_a[300], &world->old_a[100], 2000 * sizeof(int));
}

/* Runs a conversion on the host that checks all values before it writes any. */
static ferry_status
negate(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    for (size_t i = 0; i < count && target; i++)
        ((float *)target)[i] = (float)-((const int *)source)[i];
    return FERRY_OK;
}

static ferry_status
run_convert_checked(struct world *world)
{
    const ferry_conversion own = {.from = INT, .to = FLOAT, .convert = negate};
    float values[COUNT];
    ferry_status status =
        copy_to_converted(world->a, &own, 0, COUNT, values, FERRY_CONVERT_CHECK, NULL);
    for (int i = 0; i < COUNT && status == FERRY_OK; i++)
        assert_int_equal((int)values[i], -world->old_a[i]);
    return status;
}

static ferry_status
run_grow(struct world *world)
{
    return resize_to(world, MORE);
}
static ferry_status
run_shrink(struct world *world)
{
    return resize_to(world, 1000);
}

static void
count_release(void *memory, void *user)
{
    (void)memory;
    ++*(int *)user;
}

static ferry_status
run_wrap_host(struct world *world)
{
    int memory[COUNT], releases = 0;
    ferry_buffer *wrapped;
    const ferry_wrap_options options = {.on_release = count_release, .user = &releases};
    memcpy(memory, world->memory, sizeof(memory));
    ferry_status status =
        ferry_buffer_wrap_host(world->f.context, INT, COUNT, memory, &options, &wrapped);
    assert_int_equal(releases, 0);
    if (status != FERRY_OK)
        return status;
    status = launch_add(&world->w, world->stream, wrapped, 0, COUNT, 1);
    bool added = status == FERRY_OK;
    if (status == FERRY_OK)
        status = ferry_buffer_unwrap(&wrapped, NULL);
    /* If ferry_buffer_unwrap() fails, the buffer is still a wrap. A second call must then succeed.
     */
    if (memory_ends)
        disarm_both();
    if (wrapped && ferry_buffer_unwrap(&wrapped, NULL) != FERRY_OK)
        fail_msg("%s: unwrap again: %s", world->name, ferry_last_error());
    assert_int_equal(releases, 1);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(memory[i], world->memory[i] + added);
    return status;
}

/* Exports a lease in every format, at the host or at the device. */
static ferry_status
export_at(struct world *world, int place)
{
    struct DLManagedTensorVersioned *versioned = NULL;
    struct DLManagedTensor *legacy = NULL;
    struct ArrowDeviceArray array = {0};
    struct ArrowSchema schema = {0};
    ferry_lease *lease;
    void *memory;
    ferry_lease_options options = {
        .access = FERRY_UPDATE, .place = place, .stream = place ? world->stream : NULL};
    ferry_status status = ferry_lease_open(world->a, INT, &options, &lease, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_lease_export_dlpack(lease, NULL, &versioned);
    if (status == FERRY_OK)
        status = ferry_lease_export_dlpack_legacy(lease, NULL, &legacy);
    ferry_lease_destroy(&lease);
    assert_true((versioned && legacy) == (status == FERRY_OK));
    if (versioned)
        versioned->deleter(versioned);
    if (legacy)
        legacy->deleter(legacy);
    if (status != FERRY_OK)
        return status;
    options.access = FERRY_READ;
    status = ferry_lease_open(world->a, INT, &options, &lease, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_lease_export_arrow(lease, &array, &schema);
    ferry_lease_destroy(&lease);
    assert_true((array.array.release != NULL) == (status == FERRY_OK) &&
                (schema.release != NULL) == (status == FERRY_OK));
    if (status == FERRY_OK) {
        array.array.release(&array.array);
        schema.release(&schema);
    }
    return status;
}

static ferry_status
run_export_host(struct world *world)
{
    return export_at(world, 0);
}
static ferry_status
run_export_device(struct world *world)
{
    return export_at(world, 1);
}

/* Number of calls to the deleters of imported memory. The deleters only count, because the
 * producers in this file allocate nothing. */
static int deletions;

static void
delete_versioned(struct DLManagedTensorVersioned *self)
{
    (void)self;
    deletions++;
}

static void
delete_legacy(struct DLManagedTensor *self)
{
    (void)self;
    deletions++;
}

static void
release_arrow(struct ArrowArray *self)
{
    self->release = NULL;
    deletions++;
}

enum import_kind { VERSIONED, LEGACY, ARROW, IMPORT_KINDS };

static ferry_status
import_as(struct world *world, enum import_kind kind, int32_t device, void *memory, void *event,
          const ferry_import_options *options, ferry_buffer **out)
{
    static int64_t count = COUNT;
    static const void *buffers[2];
    static struct DLManagedTensorVersioned versioned;
    static struct DLManagedTensor legacy;
    static struct ArrowDeviceArray array;
    static void *events[1];
    const struct ferryi_dl_tensor tensor = {.data = memory,
                                            .device = {device, 0},
                                            .rank = 1,
                                            .dtype = {FERRYI_DL_INT, 32, 1},
                                            .shape = &count};
    versioned = (struct DLManagedTensorVersioned){
        .version = {1, 0}, .deleter = delete_versioned, .dl_tensor = tensor};
    legacy = (struct DLManagedTensor){.deleter = delete_legacy, .dl_tensor = tensor};
    buffers[1] = memory;
    events[0] = event;
    array = (struct ArrowDeviceArray){
        .array = {.length = COUNT, .n_buffers = 2, .buffers = buffers, .release = release_arrow},
        .device_type = device,
        .device_id = device == FERRYI_DL_CPU ? -1 : 0,
        .sync_event = event ? events : NULL};
    if (kind == VERSIONED)
        return ferry_buffer_import_dlpack(world->f.context, &versioned, options, out);
    if (kind == LEGACY)
        return ferry_buffer_import_dlpack_legacy(world->f.context, &legacy, options, out);
    return ferry_buffer_import_arrow(world->f.context, &array, &exchange_int_schema, options, out);
}

/* Imports memory from each kind of producer. If an import fails, the producer keeps the memory.
 * Otherwise the library calls the deleter exactly once, even if a later call fails. */
static ferry_status
import_each(struct world *world, int32_t device, void *memory, void *event,
            const ferry_import_options *options)
{
    ferry_status status = FERRY_OK;
    for (int kind = VERSIONED; kind < IMPORT_KINDS && status == FERRY_OK; kind++) {
        ferry_buffer *twin = NULL;
        deletions = 0;
        status = import_as(world, (enum import_kind)kind, device, memory, event, options, &twin);
        if (deletions != 0 || (twin != NULL) != (status == FERRY_OK))
            fail_msg("%s: import %d gave %s and %d deletions", world->name, kind,
                     ferry_status_name(status), deletions);
        if (status != FERRY_OK)
            return status;
        status = ferry_buffer_copy(world->a, INT, 0, twin, 0, COUNT, NULL);
        ferry_buffer_destroy(&twin);
        if (deletions != 1)
            fail_msg("%s: import %d was deleted %d times", world->name, kind, deletions);
    }
    return status;
}

static ferry_status
run_import_host(struct world *world)
{
    const ferry_import_options options = {.name = "theirs", .ready_on = world->stream};
    return import_each(world, FERRYI_DL_CPU, world->memory, NULL, &options);
}

/* Imports device memory that is ready when the work queued on the producer's stream completes. Runs
 * only on CUDA devices, because the exchange formats define no device type for other devices. */
static ferry_status
run_import_device(struct world *world)
{
    ferryi_device *device = device_of(&world->f, 1);
    const ferry_import_options options = {.ready_on = world->stream, .release_on = world->stream};
    const ferry_language language = device->properties.language;
    ferry_buffer *source;
    ferry_scope scope;
    void *event, *memory;
    ferry_status status =
        ferry_buffer_create_from(world->f.context, INT, COUNT, world->memory, NULL, &source);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_open_device(source, INT, FERRY_READ, 0, FERRY_REST, world->stream, &scope,
                                      &memory);
    if (status == FERRY_OK) {
        status = device->ops->event_create(device, false, &event);
        if (status == FERRY_OK) {
            device->properties.language = FERRY_LANGUAGE_CUDA; /* which DLPack's type says */
            status = device->ops->event_record(device, event, ferry_stream_native(world->stream));
            if (status == FERRY_OK)
                status = import_each(world, FERRYI_DL_CUDA, memory, event, &options);
            device->properties.language = language;
            (void)device->ops->event_destroy(device, event);
        }
        ferry_status closed = ferry_scope_close(&scope);
        status = status == FERRY_OK ? closed : status;
    }
    ferry_buffer_destroy(&source);
    return status;
}

static void
expect_import(struct world *world)
{
    memcpy(world->new_a, world->memory, sizeof(world->memory));
}

static ferry_status
run_streams(struct world *world)
{
    ferry_stream *stream;
    ferry_event *event = NULL, *begin = NULL, *end = NULL;
    double seconds;
    bool done;
    ferry_status status = ferry_stream_create(world->f.context, 1, &stream);
    if (status != FERRY_OK)
        return status;
    status = ferry_stream_record(world->stream, 0, &event);
    if (status == FERRY_OK)
        status = ferry_stream_wait_event(stream, event);
    if (status == FERRY_OK)
        status = ferry_stream_flush(stream);
    if (status == FERRY_OK)
        status = ferry_event_query(event, &done);
    if (status == FERRY_OK)
        status = ferry_event_synchronize(event);
    if (status == FERRY_OK)
        status = ferry_stream_record(stream, FERRY_EVENT_TIMED, &begin);
    if (status == FERRY_OK)
        status = ferry_stream_record(stream, FERRY_EVENT_TIMED, &end);
    if (status == FERRY_OK)
        status = ferry_event_elapsed(begin, end, &seconds);
    if (status == FERRY_OK)
        status = ferry_stream_synchronize(stream);
    ferry_event_destroy(&end);
    ferry_event_destroy(&begin);
    ferry_event_destroy(&event);
    ferry_stream_destroy(&stream);
    return status;
}

static ferry_status
run_mark(struct world *world)
{
    void *memory;
    ferry_status status = ferry_buffer_sync_to(world->a, 0, FERRY_REST, 1, NULL);
    if (status == FERRY_OK)
        status = ferry_buffer_hold(world->a, 1, &memory);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_mark_dirty(world->a, 0, FERRY_REST, 1, world->stream);
    ferry_status unpinned = ferry_buffer_release(world->a, 1);
    return status != FERRY_OK ? status : unpinned;
}

static ferry_status
run_life(struct world *world)
{
    ferry_buffer *buffer, *other;
    ferry_status status =
        ferry_buffer_create_from(world->f.context, INT, COUNT, world->memory, NULL, &buffer);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_create(world->f.context, INT, COUNT,
                                 &(ferry_buffer_options){.memory = FERRY_MEMORY_PINNED}, &other);
    if (status == FERRY_OK) {
        status = launch_copy(&world->w, world->stream, other, 0, buffer, 0, COUNT);
        /* Destroys the buffer while queued work still uses it. */
        ferry_buffer_destroy(&other);
    }
    ferry_buffer_destroy(&buffer);
    return status;
}

/* Writes to a new buffer for the first time, and grows a buffer that has never been used. */
static ferry_status
run_first_uses(struct world *world)
{
    ferry_buffer *buffer;
    ferry_scope scope;
    void *memory;
    for (int i = 0; i < 2; i++) {
        ferry_status status = ferry_buffer_create(world->f.context, INT, COUNT, NULL, &buffer);
        if (status == FERRY_OK)
            status =
                ferry_buffer_open_host(buffer, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory);
        else
            return status;
        if (status == FERRY_OK)
            status = ferry_scope_close(&scope);
        ferry_buffer_destroy(&buffer);
        if (status != FERRY_OK)
            return status;
    }
    ferry_status status = ferry_buffer_create(world->f.context, INT, COUNT,
                                              &(ferry_buffer_options){.name = "new"}, &buffer);
    if (status != FERRY_OK)
        return status;
    status = ferry_buffer_resize(buffer, MORE);
    assert_int_equal(ferry_buffer_count(buffer), status == FERRY_OK ? MORE : COUNT);
    ferry_buffer_destroy(&buffer);
    return status;
}

static bool
see(const ferry_buffer_info *info, void *user)
{
    *(size_t *)user += info->count;
    return true;
}

static ferry_status
run_walk(struct world *world)
{
    size_t count = 0;
    ferry_status status = ferry_context_for_each_buffer(world->f.context, see, &count);
    if (status == FERRY_OK)
        assert_int_equal(count, 2 * COUNT);
    else
        assert_int_equal(count, 0);
    return status;
}

static const struct scenario scenarios[] = {
    {"read at the host", run_read_host, NULL, false},
    {"update at the host", run_update_host, expect_host_write, false},
    {"overwrite at the host", run_overwrite_host, expect_host_write, false},
    {"read at the device", run_read_device, NULL, false},
    {"update at the device", run_update_device, NULL, false},
    {"open several", run_open_all, NULL, false},
    {"two writers", run_two_writers, expect_two_writers, true},
    {"lease to read", run_lease_read, NULL, false},
    {"lease to update", run_lease_update, expect_host_write, false},
    {"lease at the device", run_lease_device, NULL, false},
    {"end without an order", run_unordered, NULL, false},
    {"export at the host", run_export_host, NULL, false},
    {"export at the device", run_export_device, NULL, false},
    {"import memory of the host", run_import_host, expect_import, true},
    {"import memory of the device", run_import_device, expect_import, true},
    {"sync to the host", run_sync_host, NULL, false},
    {"sync to the device", run_sync_device, NULL, false},
    {"evict from the host", run_evict_host, NULL, false},
    {"evict from the device", run_evict_device, NULL, false},
    {"invalidate", run_invalidate, NULL, false},
    {"copy from memory", run_copy_from, expect_copy_from, true},
    {"copy to memory", run_copy_to, NULL, false},
    {"load at the device", run_load_device, expect_copy_from, true},
    {"load", run_load, expect_copy_from, true},
    {"store", run_store, NULL, false},
    {"stream a file", run_stream_file, NULL, false},
    {"copy a buffer", run_copy, expect_copy, true},
    {"convert from memory", run_convert_from, expect_convert_from, true},
    {"convert to memory", run_convert_to, NULL, false},
    {"convert a buffer", run_convert, expect_copy, false},
    {"fill", run_fill, expect_fill, true},
    {"copy from memory, asynchronous", run_copy_from_async, expect_copy_from, true},
    {"copy a buffer, asynchronous", run_copy_async, expect_copy, true},
    {"fill, asynchronous", run_fill_async, expect_fill, true},
    {"batch", run_batch, expect_batch, true},
    {"batch, asynchronous", run_batch_async, expect_batch, true},
    {"rows", run_rows, expect_rows, true},
    {"launch", run_launch, expect_copy, false},
    {"launch in place", run_launch_in_place, expect_add, false},
    {"graph", run_graph, expect_graph, false},
    {"grow", run_grow, NULL, false},
    {"shrink", run_shrink, NULL, false},
    {"wrap and unwrap host memory", run_wrap_host, NULL, false},
    {"streams and events", run_streams, NULL, false},
    {"mark", run_mark, NULL, false},
    {"create and destroy", run_life, NULL, false},
    {"create, use and grow", run_first_uses, NULL, false},
    {"copy within a buffer", run_copy_within, expect_copy_within, true},
    {"batch within a buffer", run_batch_within, expect_batch_within, true},
    {"convert to memory, checked by the host", run_convert_checked, NULL, false},
    {"walk", run_walk, NULL, false},
};

/* -- failing once ------------------------------------------------------------------------------ */

static void
check_failure(struct world *world, ferry_status status, ferry_status injected)
{
    /* A lost device also fails all later calls, so the message may name any of these calls. */
    const char *slot = memory_fails                          ? "memory"
                       : injected == FERRY_ERROR_DEVICE_LOST ? "fault injected"
                                                             : fault_tripped_slot();
    if (status == FERRY_OK)
        return; /* the library recovered from the injected failure */
    if (memory_ends && status == FERRY_ERROR_OUT_OF_MEMORY)
        return;
    if (status != injected)
        fail_msg("%s: %s instead of %s: %s", world->name, ferry_status_name(status),
                 ferry_status_name(injected), ferry_last_error());
    /* If all allocations fail, a thread of the library may have no memory for its message. The
     * message is then not checked. */
    if (!memory_ends && !strstr(ferry_last_error(), slot))
        fail_msg("%s: \"%s\" does not name %s", world->name, ferry_last_error(), slot);
}

/* Returns whether the scenario clears memory for a launch. The clearing is queued before the
 * launch, so it cannot be undone if the launch is refused. */
static bool
clears_before_launch(const struct scenario *scenario, enum memory memory)
{
    return memory == SCRUBBED && (scenario->run == run_launch || scenario->run == run_graph);
}

/* Returns whether the scenario is skipped for this starting state. File pipelines use separate
 * buffers, so one starting state is enough for them. If all later allocations fail as well, the
 * test tries only the state IN_PARTS. */
static bool
is_left_out(const struct scenario *scenario, int start)
{
    return scenario->run == run_stream_file ? start != AT_HOST : memory_ends && start != IN_PARTS;
}

/* Returns whether the scenario reads what it writes. If its first attempt fails after it has
 * written a part, a second attempt has a different result. */
static bool
reads_what_it_writes(const struct scenario *scenario)
{
    return scenario->run == run_copy_within || scenario->run == run_batch_within;
}

/* Runs the scenario and makes its nth device call or allocation fail. Returns false if the scenario
 * makes fewer than n of them. */
static bool
fail_once(const struct scenario *scenario, enum start start, enum memory memory,
          ferry_status injected, uint64_t nth)
{
    static struct world world;
    static char name[200];
    disarm_both();
    int64_t live = short_memory_live();
    world_open(&world, start, memory);
    snprintf(name, sizeof(name), "%s, start %d, %s, %s %d, %s", scenario->name, start,
             memory_names[memory], memory_fails ? "allocation" : "call", (int)nth,
             ferry_status_name(injected));
    world.name = name;
    world.loses_device = injected == FERRY_ERROR_DEVICE_LOST;
    if (scenario->expect)
        scenario->expect(&world);
    fault_status(injected);
    ferryi_fail(FERRY_ERROR_IO, "nothing");
    arm(nth);
    ferry_status status = scenario->run(&world);
    bool tripped = has_tripped();
    disarm_both();
    if (!tripped && status != FERRY_OK)
        fail_msg("%s: %s", name, ferry_last_error());
    if (tripped)
        check_failure(&world, status, injected);
    check_content(&world, scenario, status);
    if (status != FERRY_OK) {
        /* The failed call may have written some bytes, or made them current at a different place.
         * So the test restores the contents and places of both buffers. */
        if (reads_what_it_writes(scenario)) {
            put_at_start(&world, world.a, world.old_a);
            put_at_start(&world, world.b, world.old_b);
        }
        status = scenario->run(&world);
        if (status != FERRY_OK)
            fail_msg("%s: the second try: %s", name, ferry_last_error());
        check_content(&world, scenario, status);
    }
    world_close(&world);
    /* Whether this is the second run of a scenario. Memory that remains after the first run is no
     * leak, because the library may keep it for the whole process. Memory that remains after the
     * second run is a leak. */
    static bool again;
    if (memory_fails && nth != UINT64_MAX && short_memory_live() > live && !again) {
        again = true;
        fail_once(scenario, start, memory, injected, nth);
        again = false;
    } else if (memory_fails && nth != UINT64_MAX && short_memory_live() > live)
        fail_msg("%s: %d allocations were not freed", name, (int)(short_memory_live() - live));
    return tripped;
}

static void
fail_every_call(ferry_status injected, const ferryi_device_kind *kind, enum memory first,
                enum memory last)
{
    fault_wrap(kind);
    uint64_t survived = 0;
    for (size_t i = 0; i < LENGTH(scenarios); i++)
        for (int start = 0; start < STARTS; start++)
            for (int memory = (int)first; memory <= (int)last; memory++) {
                if (clears_before_launch(&scenarios[i], (enum memory)memory) ||
                    is_left_out(&scenarios[i], start))
                    continue;
                for (uint64_t nth = 1; fail_once(&scenarios[i], (enum start)start,
                                                 (enum memory)memory, injected, nth);
                     nth += EVERY)
                    survived++;
            }
    printf("# %s of %s: %llu failures survived\n", ferry_status_name(injected),
           memory_fails ? "malloc()" : "the device", (unsigned long long)survived);
}

static void
test_every_call_fails(void **state)
{
    (void)state;
    fail_every_call(FERRY_ERROR_DEVICE, &ferryi_emulated_kind, PINNED, PINNED);
}

static void
test_every_call_fails_lazily(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip(); /* a lazy device has no threads to check */
    fail_every_call(FERRY_ERROR_DEVICE, &lazy_kind, PAGEABLE, SCRUBBED);
}

static void
test_memory_is_short(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    fail_every_call(FERRY_ERROR_OUT_OF_MEMORY, &lazy_kind, PAGEABLE, PAGEABLE);
}

/* If one allocation of the C library fails, the call fails or succeeds without that memory, and
 * leaks nothing. The thread sanitizer skips this test, because it is ten times as slow there and
 * finds nothing more. */
static void
test_every_allocation_fails(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    memory_fails = true;
    /* Switches checked runs off, because they free memory later, which would look like a leak. */
    setenv("FERRY_DEBUG", "0", 1);
    fault_wrap(&lazy_kind);
    /* First runs all scenarios without a failure, so that all allocations that happen once per
     * process are done. */
    for (size_t i = 0; i < LENGTH(scenarios); i++)
        for (int start = 0; start < STARTS; start++) {
            fail_once(&scenarios[i], (enum start)start, PAGEABLE, FERRY_ERROR_OUT_OF_MEMORY,
                      UINT64_MAX);
            fail_once(&scenarios[i], (enum start)start, PINNED, FERRY_ERROR_OUT_OF_MEMORY,
                      UINT64_MAX);
        }
    /* This test makes thousands of contexts. It uses lazy devices, which have no threads and run
     * work when the host waits for it. So the test takes a quarter of the time. */
    fail_every_call(FERRY_ERROR_OUT_OF_MEMORY, &lazy_kind, PAGEABLE, PINNED);
}

/* If every allocation from the nth one on fails, the library has no memory to handle the first
 * failure. It still must not lose data. */
static void
test_memory_ends(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    memory_fails = memory_ends = true;
    setenv("FERRY_DEBUG", "0", 1);
    fault_wrap(&ferryi_emulated_kind);
    fail_every_call(FERRY_ERROR_OUT_OF_MEMORY, &ferryi_emulated_kind, PAGEABLE, PAGEABLE);
}

static void
test_every_call_fails_without_memory(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    memory_ends = true;
    /* On lazy devices, work that nothing waits for never runs. */
    fail_every_call(FERRY_ERROR_DEVICE, &lazy_kind, PINNED, PINNED);
}

static void
test_contexts_that_fail_to_open(void **state)
{
    (void)state;
    static const ferry_status statuses[] = {FERRY_ERROR_DEVICE, FERRY_ERROR_OUT_OF_MEMORY,
                                            FERRY_ERROR_DEVICE_LOST};
    for (size_t i = 0; i < LENGTH(statuses); i++) {
        bool tripped = true;
        fault_status(statuses[i]);
        for (uint64_t nth = 1; tripped; nth += EVERY) {
            ferry_context *context = NULL;
            ferry_context_options options = {.devices = "fault:2", .log = count_log};
            fault_arm(nth);
            ferry_status status = ferry_context_create(&options, &context);
            tripped = fault_tripped();
            if (tripped && status != FERRY_OK) {
                assert_int_equal(status, statuses[i]);
                assert_non_null(strstr(ferry_last_error(), fault_tripped_slot()));
                assert_null(context);
            }
            ferry_context_destroy(&context);
            fault_disarm();
            assert_int_equal(fault_live(), 0);
        }
    }
}

/* A context can be destroyed even if a device call fails during the destroy. Nothing leaks. */
static void
test_contexts_that_fail_to_close(void **state)
{
    static struct world world;
    (void)state;
    bool tripped = true;
    fault_status(FERRY_ERROR_DEVICE);
    for (uint64_t nth = 1; tripped; nth += EVERY) {
        world_open(&world, AT_BOTH, PINNED);
        world.name = "close";
        OK(launch_copy(&world.w, world.stream, world.a, 0, world.b, 0, COUNT));
        settle(&world);
        fault_arm(nth);
        world_close(&world);
        tripped = fault_tripped();
        fault_disarm();
    }
}

/* Destroying a wrap either copies newer bytes back to the wrapped memory, or reports that this copy
 * failed. */
static void
test_wraps_that_fail_to_come_back(void **state)
{
    static struct world world;
    (void)state;
    bool tripped = true;
    fault_status(FERRY_ERROR_DEVICE);
    for (uint64_t nth = 1; tripped; nth += EVERY) {
        int memory[COUNT];
        ferry_buffer *wrapped;
        world_open(&world, AT_HOST, PAGEABLE);
        world.name = "destroy a wrap";
        memcpy(memory, world.memory, sizeof(memory));
        OK(ferry_buffer_wrap_host(world.f.context, INT, COUNT, memory, NULL, &wrapped));
        OK(launch_add(&world.w, world.stream, wrapped, 0, COUNT, 1));
        logged_errors = 0;
        fault_arm(nth);
        ferry_buffer_destroy(&wrapped);
        tripped = fault_tripped();
        fault_disarm();
        assert_null(wrapped);
        settle(&world);
        for (int i = 0; i < COUNT && logged_errors == 0; i++)
            assert_int_equal(memory[i], world.memory[i] + 1);
        assert_true(tripped || logged_errors == 0);
        world_close(&world);
    }
}

static ferry_status
refuse_events(const char *slot, void *user)
{
    (void)user;
    return strncmp(slot, "event_create", 12) == 0 || strncmp(slot, "event_record", 12) == 0
               ? ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s: no memory", slot)
               : FERRY_OK;
}

static void
note_work_done(void *memory, void *user)
{
    (void)memory;
    *(unsigned *)user = work_done();
}

/* Memory that is not the pool's is given up only after queued work that uses it has ended, even if
 * no event can be recorded to wait for. */
static void
test_memory_stays_for_work_without_events(void **state)
{
    (void)state;
    fault_status(FERRY_ERROR_OUT_OF_MEMORY);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        static struct world world;
        int memory[COUNT] = {0};
        unsigned done = 0;
        ferry_buffer *buffer;
        const ferry_buffer_options shared = {.memory = FERRY_MEMORY_SHARED, .place = 1};
        const ferry_wrap_options wrapped = {.on_release = note_work_done, .user = &done};
        fault_wrap(is_shared ? &ferryi_emulated_kind : &ferryi_host_kind);
        world_open(&world, AT_HOST, PAGEABLE);
        if (is_shared)
            OK(ferry_buffer_create(world.f.context, INT, COUNT, &shared, &buffer));
        else
            OK(ferry_buffer_wrap_host(world.f.context, INT, COUNT, memory, &wrapped, &buffer));
        const unsigned before = work_done();
        work_delay(20000);
        OK(launch_fill(&world.w, world.stream, buffer, 0, COUNT, 1));
        fault_hook(refuse_events, NULL);
        ferry_buffer_destroy(&buffer);
        fault_hook(NULL, NULL);
        assert_int_equal(is_shared ? work_done() : done, before + 1);
        work_delay(0);
        settle(&world);
        world_close(&world);
    }
}

/* If the device refuses to free memory, the trace still counts that memory as allocated. */
static void
test_refused_frees_in_a_trace(void **state)
{
    (void)state;
    const char *path = path_of("refused.json");
    ferry_context *context;
    ferry_pool *pool;
    ferry_block *block;
    char text[16384] = "";
    fault_wrap(&ferryi_emulated_kind);
    fault_status(FERRY_ERROR_DEVICE);
    OK(ferry_context_create(
        &(ferry_context_options){.devices = "fault", .log = count_log, .trace_file = path},
        &context));
    OK(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_allocate(pool, 4096, NULL, &block));
    OK(ferry_block_free(&block, NULL));
    _Atomic uint64_t *traced =
        &context->backends[FERRYI_MEMORY_KINDS + FERRY_MEMORY_DEVICE].traced_bytes;
    uint64_t before = *traced;
    assert_true(before > 0);
    fault_include_releases(true);
    fault_arm(1);
    (void)ferry_pool_trim(pool, 0);
    bool tripped = fault_tripped();
    fault_disarm();
    fault_include_releases(false);
    assert_true(tripped);
    assert_int_equal(*traced, before);
    OK(ferry_pool_trim(pool, 0));
    ferry_context_destroy(&context);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    const char *refused = strstr(text, "\"shrink refused\""), *shrunk = strstr(text, "\"shrink\"");
    assert_true(refused && shrunk && refused < shrunk);
}

/* -- the device is lost ------------------------------------------------------------------------ */

/* The lazy device runs host functions even after its loss, in memory that may be idle by then. */
static void
allow_idle_memory(struct world *world)
{
    ferry_pool *pool;
    OK(ferry_context_pool(world->f.context, 1, FERRY_MEMORY_DEVICE, &pool));
    ferryi_mutex_is_needless(&pool->mutex);
    FERRYI_EACH_SLAB (pool, slab)
        ferryi_memory_checker_remove_slab(pool, slab);
}

/* Checks that each read either returns the right bytes or reports the lost device. */
static void
check_never_wrong(struct world *world, ferry_buffer *buffer, const int *old, const int *new)
{
    for (size_t at = 0; at < ferry_buffer_count(buffer); at += 100) {
        int values[100];
        ferry_status status = ferry_buffer_copy_to(buffer, INT, at, 100, values, NULL);
        if (status == FERRY_ERROR_DEVICE_LOST) {
            assert_true(strlen(ferry_last_error()) > 10);
            continue;
        }
        OK(status);
        for (size_t i = 0; i < 100; i++)
            if (values[i] != old[at + i] && values[i] != new[at + i])
                fail_msg("%s: element %zu is %d, neither %d nor %d", world->name, at + i, values[i],
                         old[at + i], new[at + i]);
    }
}

static bool
lose_at(const struct scenario *scenario, enum start start, enum memory memory, uint64_t nth)
{
    static struct world world;
    static char name[200];
    disarm_both();
    world_open(&world, start, memory);
    snprintf(name, sizeof(name), "%s, start %d, %s, lost at call %d", scenario->name, start,
             memory_names[memory], (int)nth);
    world.name = name;
    world.loses_device = true;
    if (scenario->expect)
        scenario->expect(&world);
    fault_status(FERRY_ERROR_DEVICE_LOST);
    arm(nth);
    ferry_status status = scenario->run(&world);
    bool tripped = fault_tripped();
    fault_hook(NULL, NULL);
    short_memory_disarm();
    if (tripped) {
        check_failure(&world, status, FERRY_ERROR_DEVICE_LOST);
        check_never_wrong(&world, world.a, world.old_a, world.new_a);
        check_never_wrong(&world, world.b, world.old_b, world.new_b);
        /* Bytes at the host survive the loss of the device. Bytes that are written at the host
         * after the loss can be read. */
        if (start == AT_HOST || start == AT_BOTH)
            expect_old_or_new(&world, world.b, world.old_b, world.new_b, true, true);
        ferry_scope scope;
        void *bytes;
        status = ferry_buffer_open_host(world.b, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &bytes);
        if (status != FERRY_OK)
            fail_msg("%s: overwrite at the host: %s", name, ferry_last_error());
        memcpy(bytes, world.memory, sizeof(world.memory));
        OK(ferry_scope_close(&scope));
        expect_old_or_new(&world, world.b, world.memory, world.memory, true, true);
        /* The same holds for bytes that a copy writes at the host. */
        if (ferry_buffer_is_current(world.a, 0) && !ferry_buffer_is_current(world.a, 1)) {
            status = ferry_buffer_copy_from(world.a, INT, 0, COUNT, world.memory, NULL);
            if (status != FERRY_OK)
                fail_msg("%s: copy to the host: %s", name, ferry_last_error());
            expect_old_or_new(&world, world.a, world.memory, world.memory, true, true);
        }
    }
    fault_disarm();
    /* Makes the device drop its queued work, because the memory that this work uses may already
     * have been reused. */
    lazy_lose(true);
    allow_idle_memory(&world);
    settle(&world);
    lazy_lose(false);
    fault_arm(1);
    world_close(&world);
    fault_disarm();
    return tripped;
}

static void
lose_every_call(void)
{
    /* A lost device executes nothing. Only lazy devices can imitate a lost device, because they
     * execute work only when a call waits for it. */
    fault_wrap(&lazy_kind);
    for (size_t i = 0; i < LENGTH(scenarios); i++)
        for (int start = 0; start < STARTS; start++)
            for (int memory = PAGEABLE; memory <= PINNED; memory++) {
                if (scenarios[i].run == run_wrap_host || scenarios[i].run == run_grow ||
                    scenarios[i].run == run_shrink)
                    continue; /* these scenarios need a working device for their checks */
                if (is_left_out(&scenarios[i], start))
                    continue;
                for (uint64_t nth = 1;
                     lose_at(&scenarios[i], (enum start)start, (enum memory)memory, nth);
                     nth += EVERY)
                    ;
            }
}

static void
test_the_device_is_lost(void **state)
{
    (void)state;
    lose_every_call();
}

/* A lost device is reported even if no memory is left to store the reason for the loss. */
static void
test_the_device_is_lost_without_memory(void **state)
{
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip();
    memory_ends = true;
    lose_every_call();
}

/* -- host functions that fail ------------------------------------------------------------------ */

static ferry_status
failing_body(const ferry_call *call, void *user)
{
    (void)user;
    ferry_call_fail(call, "the body does not like it");
    return FERRY_ERROR_CANCELLED;
}

static void
check_text(ferry_status expected, ferry_status status)
{
    assert_int_equal(status, expected);
    if (!strstr(ferry_last_error(), "the body does not like it"))
        fail_msg("\"%s\" does not say why", ferry_last_error());
}

static void
check_failing_body(struct world *world)
{
    ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    ferry_kernel_source source = {.name = "failing",
                                  .host_function = failing_body,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    ferry_argument argument = ferry_buffer_argument(world->a, INT, 100, 200);
    ferry_kernel *kernel;
    int values[COUNT];
    OK(ferry_kernel_create(world->f.context, &source, &kernel));
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 0), world->stream, &argument, 1));
    ferry_kernel_destroy(&kernel);
    check_text(FERRY_ERROR_CANCELLED, ferry_stream_synchronize(world->stream));
    /* The failure was reported once. The next synchronization of the stream succeeds. */
    OK(ferry_stream_synchronize(world->stream));

    /* Calls that need bytes written by the failed kernel report its failure. Other calls
     * succeed. */
    check_text(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(world->a, INT, 0, COUNT, values, NULL));
    check_text(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(world->a, INT, 299, 1, values, NULL));
    check_text(FERRY_ERROR_CANCELLED, ferry_buffer_sync_to(world->a, 0, FERRY_REST, 0, NULL));
    OK(ferry_buffer_copy_to(world->a, INT, 0, 100, values, NULL));
    assert_memory_equal(values, world->old_a, 100 * sizeof(int));
    OK(ferry_buffer_copy_to(world->a, INT, 300, COUNT - 300, values, NULL));
    assert_memory_equal(values, &world->old_a[300], (COUNT - 300) * sizeof(int));

    /* The lost bytes can be read again after they were overwritten. */
    OK(launch_copy(&world->w, world->stream, world->a, 100, world->b, 0, 200));
    OK(ferry_buffer_copy_to(world->a, INT, 100, 200, values, NULL));
    assert_memory_equal(values, world->old_b, 200 * sizeof(int));
}

static void
test_failing_pending_calls(void **state)
{
    static struct world world;
    static const ferryi_device_kind *const kinds[] = {&ferryi_emulated_kind, &lazy_kind,
                                                      &ferryi_host_kind};
    (void)state;
    for (size_t i = 0; i < LENGTH(kinds); i++)
        for (int start = 0; start < STARTS; start++) {
            fault_wrap(kinds[i]);
            world_open(&world, (enum start)start, PAGEABLE);
            world.name = kinds[i]->name;
            check_failing_body(&world);
            world_close(&world);
        }
}

static int
disarm(void **state)
{
    (void)state;
    disarm_both();
    memory_fails = memory_ends = false;
    fault_wrap(&ferryi_emulated_kind);
    return 0;
}

static int
open_files(void **state)
{
    int result = files_setup(state);
    memory_file = path_of("memory");
    stored_file = path_of("stored");
    return result;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_refused_frees_in_a_trace, disarm),
        cmocka_unit_test_teardown(test_contexts_that_fail_to_open, disarm),
        cmocka_unit_test_teardown(test_every_call_fails, disarm),
        cmocka_unit_test_teardown(test_every_call_fails_lazily, disarm),
        cmocka_unit_test_teardown(test_memory_is_short, disarm),
        cmocka_unit_test_teardown(test_every_allocation_fails, disarm),
        cmocka_unit_test_teardown(test_memory_ends, disarm),
        cmocka_unit_test_teardown(test_every_call_fails_without_memory, disarm),
        cmocka_unit_test_teardown(test_contexts_that_fail_to_close, disarm),
        cmocka_unit_test_teardown(test_wraps_that_fail_to_come_back, disarm),
        cmocka_unit_test_teardown(test_memory_stays_for_work_without_events, disarm),
        cmocka_unit_test_teardown(test_the_device_is_lost, disarm),
        cmocka_unit_test_teardown(test_the_device_is_lost_without_memory, disarm),
        cmocka_unit_test_teardown(test_failing_pending_calls, disarm),
    };
    lazy_register();
    fault_register();
    return cmocka_run_group_tests(tests, open_files, files_teardown);
}
