/* SPDX-License-Identifier: MIT */
/* Tests the order of blocks and streams: a block is used again only behind its last use. */
#include "tests/unit/pool_backend.h"

#include "src/pool/magazine.h"
#include "src/stream/stream.h"
#include "tests/support/copy_slots.h"
#include "tests/support/lazy.h"

/* -- a device whose queued work completes only when the test requests it ----------------------- */

struct crank_stream {
    struct crank_stream *next; /* an event points to its stream and may outlive it, so order_close()
                                  frees all streams */
    uint64_t queued, done;     /* counts of operations: queued, and completed */
    bool capturing;
};

struct crank_event {
    struct crank_stream *stream;
    uint64_t position;
};

struct crank {
    ferryi_device base;
    struct ferryi_device_ops ops;
    struct {
        struct crank_stream *stream, *behind;
        uint64_t position;
    } waits[64]; /* waits of streams for events */
    struct crank_stream *streams;
    size_t wait_count, host_waits, records;
    bool refuses_waits, refuses_host_waits;
    unsigned finish_after; /* number of queries after which all queued work completes; 0: it never
                              completes */
};

static ferry_status
crank_stream_create(ferryi_device *device, void **out)
{
    struct crank *crank = (struct crank *)device;
    struct crank_stream *stream = calloc(1, sizeof(*stream));
    assert_non_null(stream);
    stream->next = crank->streams;
    *out = crank->streams = stream;
    return FERRY_OK;
}

static ferry_status
crank_stream_destroy(ferryi_device *device, void *stream)
{
    (void)device, (void)stream;
    return FERRY_OK;
}

static ferry_status
crank_stream_is_capturing(ferryi_device *device, void *stream, bool *out)
{
    (void)device;
    *out = ((struct crank_stream *)stream)->capturing;
    return FERRY_OK;
}

static ferry_status
crank_event_create(ferryi_device *device, bool timed, void **out)
{
    (void)timed;
    (void)device;
    *out = calloc(1, sizeof(struct crank_event));
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
crank_event_destroy(ferryi_device *device, void *event)
{
    (void)device;
    free(event);
    return FERRY_OK;
}

static ferry_status
crank_event_record(ferryi_device *device, void *event_handle, void *stream_handle)
{
    struct crank *crank = (struct crank *)device;
    struct crank_stream *stream = stream_handle;
    crank->records++;
    *(struct crank_event *)event_handle = (struct crank_event){stream, stream->queued};
    return FERRY_OK;
}

static ferry_status
crank_event_query(ferryi_device *device, void *event_handle, bool *out)
{
    struct crank *crank = (struct crank *)device;
    struct crank_event *event = event_handle;
    bool done = !event->stream || event->stream->done >= event->position;
    if (!done && crank->finish_after > 0 && --crank->finish_after == 0)
        event->stream->done = event->position;
    *out = !event->stream || event->stream->done >= event->position;
    return FERRY_OK;
}

static ferry_status
crank_event_synchronize(ferryi_device *device, void *event_handle)
{
    struct crank_event *event = event_handle;
    ((struct crank *)device)->host_waits++;
    if (((struct crank *)device)->refuses_host_waits)
        return ferryi_fail(FERRY_ERROR_DEVICE, "event_synchronize: refused");
    if (event->stream && event->stream->done < event->position)
        event->stream->done = event->position;
    return FERRY_OK;
}

static ferry_status
crank_stream_wait(ferryi_device *device, void *stream, void *event_handle)
{
    struct crank *crank = (struct crank *)device;
    struct crank_event *event = event_handle;
    if (crank->refuses_waits)
        return ferryi_fail(FERRY_ERROR_DEVICE, "stream_wait: refused");
    crank->waits[crank->wait_count].stream = stream;
    crank->waits[crank->wait_count].behind = event->stream;
    crank->waits[crank->wait_count++].position = event->position;
    return FERRY_OK;
}

struct order_fixture {
    struct fixture fixture;
    struct crank crank;
    ferryi_order order;
    struct crank_stream *streams[3];
    ferryi_timeline *timelines[3];
};

enum { A, B, C };

static void
order_open(struct order_fixture *f, size_t limit_bytes)
{
    memset(f, 0, sizeof(*f));
    f->crank.ops = ferryi_unsupported_ops;
    f->crank.ops.stream_create = crank_stream_create;
    f->crank.ops.stream_destroy = crank_stream_destroy;
    f->crank.ops.stream_is_capturing = crank_stream_is_capturing;
    f->crank.ops.stream_wait = crank_stream_wait;
    f->crank.ops.event_create = crank_event_create;
    f->crank.ops.event_destroy = crank_event_destroy;
    f->crank.ops.event_record = crank_event_record;
    f->crank.ops.event_query = crank_event_query;
    f->crank.ops.event_synchronize = crank_event_synchronize;
    f->crank.base.ops = &f->crank.ops;
    f->crank.base.kind = "crank";
    f->crank.base.capabilities = FERRY_CAN_CAPTURE;
    assert_int_equal(ferryi_order_init(&f->order, NULL), FERRY_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(
            ferryi_timeline_open(&f->order, &f->crank.base, 1, NULL, false, &f->timelines[i]),
            FERRY_OK);
        f->streams[i] = f->timelines[i]->native;
    }
    fixture_open(&f->fixture, FERRY_MEMORY_DEVICE, limit_bytes, &f->order);
}

static void
order_close(struct order_fixture *f)
{
    fixture_close(&f->fixture);
    ferryi_order_clear(&f->order);
    while (f->crank.streams) {
        struct crank_stream *stream = f->crank.streams;
        f->crank.streams = stream->next;
        free(stream);
    }
}

static ferry_block *
take_on(struct order_fixture *f, size_t bytes, ferryi_timeline *timeline)
{
    ferry_block *block = NULL;
    void *pointer;
    assert_int_equal(ferryi_pool_take(f->fixture.pool, bytes, 256, timeline, &block, &pointer),
                     FERRY_OK);
    assert_ptr_equal(pointer, block->pointer);
    return block;
}

/* Queues work on the stream with the index `timeline`, and returns the sync point of the work. */
static ferryi_sync_point
work_on(struct order_fixture *f, int timeline)
{
    ferryi_sync_point point;
    f->streams[timeline]->queued++;
    assert_int_equal(ferryi_timeline_note(f->timelines[timeline], ferryi_thread_id(), &point),
                     FERRY_OK);
    return point;
}

static void
finish(struct order_fixture *f, int timeline)
{
    f->streams[timeline]->done = f->streams[timeline]->queued;
}

#define LARGE (3 * MIB) /* a block of this size is a device allocation and not part of a slab */

/* Returns a block that was freed while queued work of stream A still uses its memory. */
static ferry_block *
leave_pending(struct order_fixture *f)
{
    ferry_block *block = take_on(f, LARGE, f->timelines[A]);
    ferryi_pool_give(block, work_on(f, A));
    return block;
}

/* -- which block a take gets ------------------------------------------------------------------- */

static void
test_another_timeline_waits_for_the_last_use(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = leave_pending(&f);
    assert_int_equal(f.crank.records, 0); /* a release makes no call */

    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), block);
    assert_int_equal(f.crank.wait_count, 1);
    assert_ptr_equal(f.crank.waits[0].stream, f.streams[B]);
    assert_ptr_equal(f.crank.waits[0].behind, f.streams[A]);
    assert_int_equal(f.crank.waits[0].position, 1);
    assert_int_equal(f.crank.host_waits, 0);
    assert_int_equal(counters(&f.fixture).waits, 1);
    assert_int_equal(statistics(&f.fixture).hits, 1);
    ferryi_pool_give(block, work_on(&f, B));
    order_close(&f);
}

static void
test_the_same_timeline_reuses_without_a_call(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    for (int i = 0; i < 100; i++)
        ferryi_pool_give(take_on(&f, LARGE, f.timelines[A]), work_on(&f, A));
    assert_int_equal(f.fixture.backend.allocations, 1);
    assert_int_equal(f.crank.wait_count + f.crank.records + f.crank.host_waits, 0);
    order_close(&f);
}

#ifdef FERRYI_DEBUG_CHECKS
/* Checks that a freed block stays accessible while queued kernels use the block, even if a memory
 * checker is attached. */
static void
test_a_tool_lets_queued_work_go_on(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = take_on(&f, LARGE, f.timelines[A]);
    bool listens = block->slab->heap != NULL;
    assert_int_equal(block->has_region, listens);
    ferryi_pool_give(block, work_on(&f, A));
    assert_int_equal(block->has_region, listens);
    finish(&f, A);
    assert_ptr_equal(take_on(&f, LARGE, f.timelines[A]), block);
    ferryi_pool_give(block, 0);
    order_close(&f);
}

/* A tool refuses the end of a slab before that of its blocks. */
static void
test_a_tool_forgets_the_blocks_of_a_trimmed_slab(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[3];
    order_open(&f, 0);
    for (size_t i = 0; i < 3; i++)
        blocks[i] = take_on(&f, 4096, f.timelines[A]);
    for (size_t i = 0; i < 3; i++)
        ferryi_pool_give(blocks[i], work_on(&f, A));
    finish(&f, A);
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.frees, 1);
    order_close(&f);
}
#endif

/* Frees four blocks that work of stream A uses, and allocates all of them on stream B. Stream B
 * must wait for stream A only once. */
static void
test_a_wait_covers_all_earlier_uses(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[4];
    order_open(&f, 0);
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take_on(&f, LARGE, f.timelines[A]);
    for (size_t i = 0; i < 4; i++)
        ferryi_pool_give(blocks[i], work_on(&f, A));
    for (size_t i = 0; i < 4; i++)
        blocks[i] = take_on(&f, LARGE, f.timelines[B]);
    assert_int_equal(f.crank.wait_count, 1);
    assert_int_equal(f.fixture.backend.allocations, 4);
    for (size_t i = 0; i < 4; i++)
        ferryi_pool_give(blocks[i], 0);
    order_close(&f);
}

/* When memory was short, a request got a block that is larger than those of its size class. Work
 * uses all of it, and the first part goes to a smaller request of the same stream. Stream B must
 * wait for the rest. */
static void
test_the_rest_of_a_block_is_in_use_too(void **state)
{
    (void)state;
    const size_t left = 68 * KIB, class_bytes = 64 * KIB;
    struct order_fixture f;
    ferry_block *blocks[4];
    order_open(&f, 256 * KIB);
    ferryi_pool_give(take_on(&f, 256 * KIB, NULL), 0);
    blocks[0] = take_on(&f, 176 * KIB, NULL);
    blocks[1] = take_on(&f, 12 * KIB, NULL);
    blocks[2] = take_on(&f, left, f.timelines[A]);
    assert_int_equal(blocks[2]->bytes, left);
    ferryi_pool_give(blocks[2], work_on(&f, A));
    blocks[2] = take_on(&f, class_bytes, f.timelines[A]);
    assert_int_equal(f.crank.wait_count, 0);
    blocks[3] = take_on(&f, left - class_bytes, f.timelines[B]);
    assert_ptr_equal(blocks[2]->after, blocks[3]);
    assert_int_equal(f.crank.wait_count, 1);
    for (size_t i = 0; i < 4; i++)
        ferryi_pool_give(blocks[i], 0);
    order_close(&f);
}

static void
test_blocks_already_ordered_are_preferred(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *a = take_on(&f, LARGE, f.timelines[A]), *b = take_on(&f, LARGE, f.timelines[B]),
                *more[20];
    for (size_t i = 0; i < 20; i++)
        more[i] = take_on(&f, LARGE, f.timelines[A]);
    ferryi_pool_give(a, work_on(&f, A));
    for (size_t i = 0; i < 20; i++)
        ferryi_pool_give(more[i], work_on(&f, A));
    ferryi_pool_give(b, work_on(&f, B));
    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), b); /* found among many blocks of A */
    /* The test frees block b without new work on it. So the last use of b is still the earlier work
     * of stream B, and an allocation on stream A must prefer a block that stream A used. */
    ferryi_pool_give(b, 0);
    ferry_block *again = take_on(&f, LARGE, f.timelines[A]); /* a block of A */
    assert_ptr_not_equal(again, b);
    assert_int_equal(f.crank.wait_count, 0);
    ferryi_pool_give(again, 0);
    ferryi_pool_give(take_on(&f, 300, f.timelines[A]), work_on(&f, A));
    /* Work of stream A still uses the freed block. An allocation on stream B must therefore use
     * memory of the slab that was never used, so that stream B need not wait. */
    ferryi_pool_give(take_on(&f, 300, f.timelines[B]), work_on(&f, B));
    assert_int_equal(f.crank.wait_count, 0);
    order_close(&f);
}

/* Nine older blocks of a bin have pending work of stream A, and the newest block has pending work
 * of stream B. An allocation examines only eight blocks from each end of the bin. So an allocation
 * on stream B finds its block only if it also searches from the end with the newest blocks. */
static void
test_the_newest_pending_blocks_are_tried(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *older[9];
    order_open(&f, 0);
    for (size_t i = 0; i < 9; i++)
        older[i] = take_on(&f, LARGE, f.timelines[A]);
    ferry_block *newest = take_on(&f, LARGE, f.timelines[B]);
    for (size_t i = 0; i < 9; i++)
        ferryi_pool_give(older[i], work_on(&f, A));
    ferryi_pool_give(newest, work_on(&f, B));
    ferryi_mutex_lock(&f.fixture.pool->mutex);
    ferryi_magazines_empty(f.fixture.pool);
    ferryi_mutex_unlock(&f.fixture.pool->mutex);

    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), newest);
    assert_int_equal(f.crank.wait_count, 0);
    ferryi_pool_give(newest, 0);
    order_close(&f);
}

static void
test_the_host_takes_only_what_is_done(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = leave_pending(&f);
    ferry_block *other = take_on(&f, LARGE, NULL);
    assert_ptr_not_equal(other, block);
    assert_int_equal(idle_blocks(&f.fixture).pending, 1);
    assert_int_equal(statistics(&f.fixture).pending_bytes, LARGE);

    /* The queued work on the block has completed, but the pool has not noticed this. The pool must
     * query the device before it allocates new memory. */
    finish(&f, A);
    assert_ptr_equal(take_on(&f, LARGE, NULL), block);
    assert_int_equal(f.fixture.backend.allocations, 2);
    assert_int_equal(f.crank.host_waits, 0);
    ferryi_pool_give(block, 0);
    ferryi_pool_give(other, 0);
    order_close(&f);
}

/* -- blocks that are allocated and freed while earlier work on them is still queued ------------ */

/* Checks that an allocation for the host looks at only eight blocks that queued work uses. The work
 * of the ninth and newest block has completed, but the pool does not find that out and allocates
 * new memory. */
static void
test_the_host_looks_at_few_pending_blocks(void **state)
{
    (void)state;
    enum { LOOK = 8 };
    struct order_fixture f;
    ferry_block *blocks[LOOK + 1];
    order_open(&f, 0);
    for (int i = 0; i <= LOOK; i++)
        blocks[i] = take_on(&f, LARGE, f.timelines[i < LOOK ? A : B]);
    for (int i = 0; i <= LOOK; i++)
        ferryi_pool_give(blocks[i], work_on(&f, i < LOOK ? A : B));
    idle_blocks(&f.fixture); /* empties the magazines */
    finish(&f, B);
    ferryi_pool_give(take_on(&f, LARGE, NULL), 0);
    assert_int_equal(f.fixture.backend.allocations, LOOK + 2);
    finish(&f, A);
    order_close(&f);
}

static void
test_an_unused_block_keeps_its_earlier_use(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = leave_pending(&f);
    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), block);
    ferryi_pool_give(block, 0);
    ferry_block *other = take_on(&f, LARGE, NULL);
    assert_ptr_not_equal(other, block); /* stream A may still write to the block */
    finish(&f, A);
    assert_ptr_equal(take_on(&f, LARGE, NULL), block);
    ferryi_pool_give(block, 0);
    ferryi_pool_give(other, 0);
    order_close(&f);
}

static void
test_a_third_timeline_does_not_hide_an_earlier_use(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = leave_pending(&f);
    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), block);
    ferryi_pool_give(block, work_on(&f, C));

    finish(&f, C);
    bool c_only = ferryi_sync_point_is_ordered(&f.order, f.timelines[C], block->point);
    assert_false(c_only); /* the work of stream C did not wait for that of stream A */
    take_on(&f, LARGE, f.timelines[C]);
    bool waits_for_a = false;
    for (size_t i = 0; i < f.crank.wait_count; i++)
        waits_for_a |=
            f.crank.waits[i].behind == f.streams[A] && f.crank.waits[i].stream != f.streams[B];
    assert_true(waits_for_a);
    ferryi_pool_give(block, 0);
    order_close(&f);
}

/* -- failing waits ----------------------------------------------------------------------------- */

static void
test_a_wait_that_fails_loses_nothing(void **state)
{
    (void)state;
    struct order_fixture f;
    void *pointer;
    order_open(&f, 0);
    ferry_block *block = take_on(&f, LARGE, f.timelines[A]), *none = NULL;
    ferryi_pool_give(block, work_on(&f, A));
    f.crank.refuses_waits = true;
    assert_int_equal(ferryi_pool_take(f.fixture.pool, LARGE, 256, f.timelines[B], &none, &pointer),
                     FERRY_ERROR_DEVICE);
    assert_null(none);
    assert_non_null(strstr(ferry_last_error(), "stream_wait: refused"));
    assert_agrees(&f.fixture);
    assert_int_equal(idle_blocks(&f.fixture).pending, 1);
    f.crank.refuses_waits = false;
    assert_ptr_equal(take_on(&f, LARGE, f.timelines[B]), block);
    ferryi_pool_give(block, 0);
    order_close(&f);
}

static void
test_a_stream_being_captured_is_not_disturbed(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *block = leave_pending(&f);
    f.streams[A]->capturing = true;
    ferry_block *other = take_on(&f, LARGE, f.timelines[B]);
    assert_ptr_not_equal(other, block);
    assert_int_equal(f.crank.records, 0);
    ferryi_pool_give(other, 0);
    f.streams[A]->capturing = false;
    order_close(&f);
}

/* -- trim and shortage ------------------------------------------------------------------------- */

/* Handles stay mapped while queued work uses them, and two idle blocks that share a handle are
 * merged before it is unmapped. */
static void
test_handles_that_queued_work_uses_stay(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[4];
    backend_handle_bytes = 2 * MIB;
    order_open(&f, 0);
    backend_handle_bytes = 0;
    for (int i = 0; i < 4; i++)
        blocks[i] = take_on(&f, 3 * MIB, f.timelines[A]);
    ferryi_pool_give(blocks[0], 0);
    for (int i = 1; i < 4; i++)
        ferryi_pool_give(blocks[i], work_on(&f, A));
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.bytes, 10 * MIB);
    assert_agrees(&f.fixture);
    finish(&f, A);
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.bytes, 0);
    order_close(&f);
}

static void
test_trim_leaves_what_queued_work_uses(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[3];
    order_open(&f, 0);
    for (int i = 0; i < 3; i++)
        blocks[i] = take_on(&f, LARGE, f.timelines[A]);
    ferryi_pool_give(blocks[0], work_on(&f, A));
    assert_int_equal(ferryi_timeline_flush(f.timelines[A]), FERRY_OK);
    ferryi_pool_give(blocks[1], work_on(&f, A));
    ferryi_pool_give(blocks[2], work_on(&f, B));
    ferry_block *small = take_on(&f, 100, f.timelines[A]);
    ferryi_pool_give(small, work_on(&f, A));

    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.frees, 0);
    assert_int_equal(idle_blocks(&f.fixture).pending, 4);
    f.streams[A]->done = 1; /* the work of blocks[0] */
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.frees, 1);
    finish(&f, B);
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.frees, 2);
    finish(&f, A);
    assert_int_equal(ferry_pool_trim(f.fixture.pool, 0), FERRY_OK);
    assert_int_equal(f.fixture.backend.count, 0);
    assert_int_equal(f.crank.host_waits, 0);
    order_close(&f);
}

/* A block's work has completed, but the pool has not noticed this. The pool must query the device
 * before it trims at the end of a period, and before it grows beyond its high-water mark. */
static void
test_a_policy_sees_what_is_complete(void **state)
{
    (void)state;
    static const ferry_pool_options policies[] = {{.trim_period_ms = 1}, {.high_water_bytes = MIB}};
    for (size_t i = 0; i < 2; i++) {
        struct order_fixture f;
        order_open(&f, 0);
        assert_int_equal(ferry_pool_configure(f.fixture.pool, &policies[i]), FERRY_OK);
        leave_pending(&f);
        idle_blocks(&f.fixture); /* empties the magazines */
        finish(&f, A);
        ferryi_sleep_ns(3 * 1000 * 1000);
        ferry_block *other = take_on(&f, 4 * LARGE, f.timelines[B]);
        assert_int_equal(f.fixture.backend.frees, 1);
        ferryi_pool_give(other, 0);
        order_close(&f);
    }
}

static void
test_shortage_waits_for_own_pending_memory(void **state)
{
    (void)state;
    struct order_fixture f;
    void *pointer;
    order_open(&f, 8 * MIB);
    ferry_block *a = take_on(&f, LARGE, f.timelines[A]), *b = take_on(&f, LARGE, f.timelines[B]),
                *none = NULL;
    ferryi_pool_give(a, work_on(&f, A));
    f.crank.finish_after = 20; /* the take queries repeatedly */
    ferry_block *big = take_on(&f, 4 * MIB, f.timelines[C]);
    assert_int_equal(f.crank.finish_after, 0);
    assert_int_equal(f.fixture.backend.frees, 1);
    assert_int_equal(ferryi_pool_take(f.fixture.pool, 4 * MIB, 256, NULL, &none, &pointer),
                     FERRY_ERROR_OUT_OF_MEMORY);
    ferryi_pool_give(big, work_on(&f, C));
    f.crank.finish_after = 20;
    assert_ptr_equal(take_on(&f, 4 * MIB, NULL),
                     big); /* the pool waits for queued work instead of allocating memory */
    assert_int_equal(f.crank.finish_after, 0);
    assert_int_equal(f.crank.host_waits, 0); /* such a wait has no time limit */
    assert_int_equal(f.fixture.backend.allocations, 3);
    struct ferryi_pool_counters all = counters(&f.fixture);
    assert_int_equal(all.shortages, 3);
    ferryi_pool_give(big, 0);
    ferryi_pool_give(b, 0);
    order_close(&f);
}

static void
test_shortage_waits_no_longer_than_it_may(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *none = NULL;
    void *pointer;
    order_open(&f, 8 * MIB);
    f.fixture.pool->wait_ns = 30 * 1000 * 1000;
    ferry_block *stuck = take_on(&f, 6 * MIB, f.timelines[A]);
    ferryi_pool_give(stuck, work_on(&f, A));
    uint64_t begun = ferryi_now_ns();
    assert_int_equal(ferryi_pool_take(f.fixture.pool, 4 * MIB, 256, NULL, &none, &pointer),
                     FERRY_ERROR_OUT_OF_MEMORY);
    uint64_t waited = ferryi_now_ns() - begun;
    assert_true(waited >= 30 * 1000 * 1000 && waited < UINT64_C(5) * 1000 * 1000 * 1000);
    assert_int_equal(f.crank.host_waits, 0);
    finish(&f, A);
    ferryi_pool_give(take_on(&f, 4 * MIB, NULL), 0);
    order_close(&f);
}

/* Blocks whose owner can free them when memory is short. Each call of evict_pending() frees one of
 * these blocks, while queued work still uses it. */
struct evicted {
    struct order_fixture *f;
    ferry_block *blocks[4];
    size_t count;
};

static size_t
evict_pending(void *user, ferry_pool *pool, size_t needed, bool dirty_too, uint64_t *wait_ns)
{
    struct evicted *evicted = user;
    (void)pool, (void)needed, (void)dirty_too, (void)wait_ns;
    if (evicted->count == 0)
        return 0;
    ferry_block *block = evicted->blocks[--evicted->count];
    size_t bytes = block->bytes;
    ferryi_pool_give(block, work_on(evicted->f, A));
    return bytes;
}

/* Checks that all waits of one allocation share one time limit. The allocation waits once before
 * its first eviction and once after it. The second wait ends at the limit. */
static void
test_all_waits_share_one_budget(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *none = NULL;
    void *pointer;
    order_open(&f, 10 * MIB);
    struct evicted evicted = {.f = &f, .count = 4};
    f.fixture.pool->wait_ns = 20 * 1000 * 1000;
    f.fixture.pool->config.holders.evict = evict_pending;
    f.fixture.pool->config.holders.user = &evicted;
    for (size_t i = 0; i < 4; i++)
        evicted.blocks[i] = take_on(&f, 2 * MIB, f.timelines[A]);
    ferryi_pool_give(take_on(&f, 2 * MIB, f.timelines[A]), work_on(&f, A));
    uint64_t begun = ferryi_now_ns();
    assert_int_equal(ferryi_pool_take(f.fixture.pool, 4 * MIB, 256, NULL, &none, &pointer),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_true(ferryi_now_ns() - begun >= 20 * 1000 * 1000);
    assert_int_equal(evicted.count, 0);
    assert_int_equal(counters(&f.fixture).waits, 2);
    finish(&f, A);
    order_close(&f);
}

static void
test_a_take_may_be_reported_never_to_wait(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *none = NULL;
    void *pointer;
    order_open(&f, 8 * MIB);
    assert_int_equal(
        ferry_pool_configure(f.fixture.pool, &(ferry_pool_options){.wait_ms = FERRY_WAIT_NEVER}),
        FERRY_OK);
    ferryi_pool_give(take_on(&f, 6 * MIB, f.timelines[A]), work_on(&f, A));
    f.crank.finish_after = 1000; /* far more queries than an allocation makes without waiting */
    assert_int_equal(ferryi_pool_take(f.fixture.pool, 4 * MIB, 256, NULL, &none, &pointer),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_true(f.crank.finish_after > 900);
    assert_int_equal(counters(&f.fixture).waits, 0);

    /* A wait with the longest possible time limit ends when the queued work completes. */
    assert_int_equal(ferry_pool_configure(f.fixture.pool,
                                          &(ferry_pool_options){.wait_ms = FERRY_WAIT_NEVER - 1}),
                     FERRY_OK);
    f.crank.finish_after = 50;
    ferryi_pool_give(take_on(&f, 4 * MIB, NULL), 0);
    order_close(&f);
}

/* Checks that the pool merges adjacent idle blocks when memory is short. Queued work that used
 * these blocks has completed, but the pool has not noticed this. */
static void
test_shortage_merges_neighbours(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[8];
    order_open(&f, 2 * MIB);
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take_on(&f, 256 * KIB, f.timelines[A]);
    for (size_t i = 0; i < 4; i++)
        ferryi_pool_give(blocks[i], work_on(&f, A));
    finish(&f, A);
    ferry_block *whole = take_on(&f, MIB, NULL);
    assert_ptr_equal(whole->pointer, blocks[4] ? (char *)blocks[4]->pointer - MIB : NULL);
    struct ferryi_pool_counters all = counters(&f.fixture);
    assert_int_equal(all.shortages, 1);
    ferryi_pool_give(whole, 0);
    for (size_t i = 4; i < 8; i++)
        ferryi_pool_give(blocks[i], 0);
    order_close(&f);
}

/* Checks that the pool never merges blocks that queued work still uses. A merged block could be
 * allocated on a different stream while that work still uses its memory. */
static void
test_pending_neighbours_stay_apart(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_block *blocks[8], *none = NULL;
    void *pointer;
    order_open(&f, 2 * MIB);
    f.fixture.pool->wait_ns = 1000 * 1000;
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take_on(&f, 256 * KIB, f.timelines[A]);
    for (size_t i = 0; i < 8; i++)
        ferryi_pool_give(blocks[i], work_on(&f, A));
    assert_int_equal(ferryi_pool_take(f.fixture.pool, MIB, 256, f.timelines[B], &none, &pointer),
                     FERRY_ERROR_OUT_OF_MEMORY);
    finish(&f, A);
    ferryi_pool_give(take_on(&f, MIB, f.timelines[B]), 0);
    order_close(&f);
}

static void
set_draining(struct order_fixture *f, struct ferryi_slab *slab, bool draining)
{
    ferryi_mutex_lock(&f->fixture.pool->mutex);
    ferryi_slab_set_draining(f->fixture.pool, slab, draining);
    ferryi_mutex_unlock(&f->fixture.pool->mutex);
}

/* Frees a block that queued work still uses, and marks its slab as one that a compaction is
 * emptying. An allocation must not reuse the block. */
static void
test_a_draining_slab_is_not_taken_from(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    ferry_block *a = take_on(&f, 256 * KIB, f.timelines[A]),
                *held = take_on(&f, 256 * KIB, f.timelines[A]);
    ferryi_pool_give(a, work_on(&f, A));
    statistics(&f.fixture); /* moves the blocks out of the magazines */
    set_draining(&f, a->slab, true);
    ferry_block *other = take_on(&f, 256 * KIB, f.timelines[A]);
    assert_ptr_not_equal(other->slab, a->slab);
    set_draining(&f, a->slab, false);
    assert_ptr_equal(take_on(&f, 256 * KIB, f.timelines[A]), a);
    ferryi_pool_give(a, work_on(&f, A));
    ferryi_pool_give(other, 0);
    ferryi_pool_give(held, 0);
    order_close(&f);
}

/* Returns a block whose release can use the fast path: the calling thread has a magazine for it. */
static ferry_block *
take_with_magazine(struct order_fixture *f)
{
    ferryi_pool_give(take_on(f, LARGE, f->timelines[A]), 0);
    return take_on(f, LARGE, f->timelines[A]);
}

/* Frees a block with a stream whose timeline has no number, because all numbers are taken. The
 * pool cannot record a use on such a timeline. Checks that a timeline with a number waits for the
 * stream, so that the use can be recorded there. */
static void
test_a_stream_without_a_number_is_joined(void **state)
{
    (void)state;
    struct order_fixture f;
    ferryi_timeline *timeline;
    order_open(&f, 0);
    do
        assert_int_equal(ferryi_timeline_open(&f.order, &f.crank.base, 1, NULL, false, &timeline),
                         FERRY_OK);
    while (ferryi_timeline_is_numbered(timeline));
    struct crank_stream *native = timeline->native;
    struct ferry_stream stream = {.timeline = timeline};
    ferry_block *block = take_with_magazine(&f);
    native->queued++;
    assert_int_equal(ferry_block_free(&block, &stream), FERRY_OK);
    assert_int_equal(f.crank.wait_count, 1);
    assert_ptr_equal(f.crank.waits[0].behind, native);
    native->done = native->queued;
    order_close(&f);
}

/* Allocates and frees on a stream while the test holds the mutex of the pool. A call that locks the
 * mutex would deadlock. */
static void
test_a_hit_on_a_stream_takes_no_lock(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    struct ferry_stream stream = {.timeline = f.timelines[A]};
    ferry_block *block = take_with_magazine(&f);
    if (f.fixture.pool->has_checker) { /* threads have no magazines then */
        ferryi_pool_give(block, 0);
        order_close(&f);
        skip();
    }
    ferryi_mutex_lock(&f.fixture.pool->mutex);
    for (int n = 0; n < 3; n++) {
        assert_int_equal(ferry_block_free(&block, &stream), FERRY_OK);
        assert_int_equal(ferry_pool_allocate(f.fixture.pool, LARGE, &stream, &block), FERRY_OK);
    }
    ferryi_mutex_unlock(&f.fixture.pool->mutex);
    ferryi_pool_give(block, 0);
    order_close(&f);
}

/* Frees a block with a stream that was destroyed meanwhile. The stream had no queued work, so the
 * block must be idle. */
static void
test_a_retired_stream_uses_nothing(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    struct ferry_stream stream = {.timeline = f.timelines[A]};
    ferry_block *block = take_with_magazine(&f);
    ferryi_timeline_retire(f.timelines[A]);
    assert_int_equal(ferry_block_free(&block, &stream), FERRY_OK);
    assert_int_equal(idle_blocks(&f.fixture).pending, 0);
    order_close(&f);
}

/* -- compaction and the end of a pool ---------------------------------------------------------- */

/* Queued work uses one block of the slab that the compaction empties, and a large block. Checks
 * that the compaction waits for the work in the slab, and not for the other work. */
static void
test_a_compaction_waits_for_the_slabs_it_empties(void **state)
{
    (void)state;
    struct order_fixture f;
    ferry_pool_compaction compaction;
    order_open(&f, 0);
    leave_pending(&f);
    assert_int_equal(ferry_pool_compact(f.fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 0);
    assert_int_equal(counters(&f.fixture).waits, 0);

    ferryi_pool_give(take_on(&f, 256 * KIB, f.timelines[B]), work_on(&f, B));
    f.crank.finish_after = 20; /* the work of stream B is queried before it has completed */
    assert_int_equal(ferry_pool_compact(f.fixture.pool, &compaction), FERRY_OK);
    assert_int_equal(compaction.freed_slabs, 1);
    assert_true(counters(&f.fixture).waits > 0);
    finish(&f, A);
    order_close(&f);
}

/* Checks that the end of a pool waits for each stream once, and reports a wait that fails. */
static void
test_the_end_of_a_pool_waits_for_each_stream(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    for (int i = 0; i < 2; i++)
        leave_pending(&f);
    ferryi_pool_give(take_on(&f, 100, f.timelines[B]), work_on(&f, B));
    f.crank.refuses_host_waits = true;
    ferryi_pool_finish(f.fixture.pool);
    assert_int_equal(f.crank.host_waits, 2);
    assert_non_null(strstr(f.fixture.logged, "wait for idle memory of test memory"));
    assert_non_null(strstr(f.fixture.logged, "event_synchronize: refused"));

    f.crank.refuses_host_waits = false;
    f.fixture.logged[0] = 0;
    ferryi_pool_finish(f.fixture.pool);
    assert_string_equal(f.fixture.logged, "");
    assert_int_equal(idle_blocks(&f.fixture).pending, 0);
    order_close(&f);
}

/* -- public calls with streams ----------------------------------------------------------------- */

static void
test_streams_order_takes_and_gives(void **state)
{
    (void)state;
    struct order_fixture f;
    order_open(&f, 0);
    struct ferry_stream a = {.timeline = f.timelines[A]}, b = {.timeline = f.timelines[B]};
    ferry_block *block, *given;
    assert_int_equal(ferry_pool_allocate(f.fixture.pool, LARGE, &a, &block), FERRY_OK);
    given = block;
    f.streams[A]->queued++;
    assert_int_equal(ferry_block_free(&given, &a), FERRY_OK);
    assert_null(given);
    assert_int_equal(ferry_pool_allocate(f.fixture.pool, LARGE, NULL, &given), FERRY_OK);
    assert_ptr_not_equal(given, block);
    ferry_block *again;
    assert_int_equal(ferry_pool_allocate(f.fixture.pool, LARGE, &b, &again), FERRY_OK);
    assert_ptr_equal(again, block);
    assert_int_equal(f.crank.wait_count, 1);
    give(given);
    give(again);
    order_close(&f);
}

/* -- the lazy device, which runs work only when a call waits for the work ---------------------- */

struct lazy_fixture {
    ferryi_device *device;
    ferryi_order order;
    ferry_pool *pool;
    ferryi_timeline *timelines[2];
    unsigned char *sources[2], *target; /* all in pinned memory */
};

static ferry_status
lazy_alloc(void *user, size_t bytes, void **out)
{
    return FERRYI_CALL((ferryi_device *)user, memory_alloc, FERRY_MEMORY_DEVICE, bytes, out);
}

static ferry_status
lazy_free(void *user, void *memory, size_t bytes)
{
    (void)bytes;
    return FERRYI_CALL((ferryi_device *)user, memory_free, FERRY_MEMORY_DEVICE, memory);
}

static void
lazy_pinned(struct lazy_fixture *f, unsigned char **out, int value)
{
    void *memory;
    assert_int_equal(FERRYI_CALL(f->device, memory_alloc, FERRY_MEMORY_PINNED, LARGE, &memory),
                     FERRY_OK);
    memset(memory, value, LARGE);
    *out = memory;
}

static void
lazy_open(struct lazy_fixture *f)
{
    struct ferryi_device_config device_config = {.emulated_memory_bytes = 64 * MIB};
    memset(f, 0, sizeof(*f));
    assert_int_equal(lazy_kind.open(0, &device_config, &f->device), FERRY_OK);
    assert_int_equal(ferryi_order_init(&f->order, NULL), FERRY_OK);
    struct ferryi_pool_config config = {
        .backend = {.alloc = lazy_alloc, .free = lazy_free, .user = f->device},
        .order = &f->order,
        .place = 1,
        .kind = FERRY_MEMORY_DEVICE,
    };
    assert_int_equal(ferryi_pool_create(&config, &f->pool), FERRY_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            ferryi_timeline_open(&f->order, f->device, 1, NULL, false, &f->timelines[i]), FERRY_OK);
        lazy_pinned(f, &f->sources[i], 0x11 * (i + 1));
    }
    lazy_pinned(f, &f->target, 0);
}

static void
lazy_close(struct lazy_fixture *f)
{
    assert_int_equal(ferryi_device_synchronize(f->device), FERRY_OK);
    ferryi_pool_destroy(&f->pool);
    assert_int_equal(FERRYI_CALL(f->device, memory_free, FERRY_MEMORY_PINNED, f->sources[0]),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(f->device, memory_free, FERRY_MEMORY_PINNED, f->sources[1]),
                     FERRY_OK);
    assert_int_equal(FERRYI_CALL(f->device, memory_free, FERRY_MEMORY_PINNED, f->target), FERRY_OK);
    ferryi_order_clear(&f->order);
    f->device->ops->close(f->device);
}

/* Allocates a block, queues work of the first stream on it, and frees the block. Returns the sync
 * point of that work. */
static ferryi_sync_point
lazy_use(struct lazy_fixture *f)
{
    ferry_block *block;
    void *pointer;
    assert_int_equal(ferryi_pool_take(f->pool, LARGE, 256, f->timelines[0], &block, &pointer),
                     FERRY_OK);
    assert_int_equal(
        FERRYI_CALL(f->device, copy_upload, pointer, f->sources[0], LARGE, f->timelines[0]->native),
        FERRY_OK);
    ferryi_sync_point point = ferryi_timeline_sync_point(f->timelines[0]);
    ferryi_pool_give(block, point);
    return point;
}

/* Two streams copy into the same block in turn. Checks that the copy of the first stream runs
 * first, even if the test waits for the second stream first. In the end the block must contain the
 * bytes of the second stream. */
static void
test_lazy_work_of_the_last_holder_comes_first(void **state)
{
    (void)state;
    struct lazy_fixture f;
    ferry_block *blocks[2];
    void *pointers[2];
    lazy_open(&f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            ferryi_pool_take(f.pool, LARGE, 256, f.timelines[i], &blocks[i], &pointers[i]),
            FERRY_OK);
        assert_int_equal(FERRYI_CALL(f.device, copy_upload, pointers[i], f.sources[i], LARGE,
                                     f.timelines[i]->native),
                         FERRY_OK);
        if (i == 0)
            ferryi_pool_give(blocks[0], ferryi_timeline_sync_point(f.timelines[0]));
    }
    assert_ptr_equal(pointers[0], pointers[1]);
    assert_int_equal(FERRYI_CALL(f.device, stream_synchronize, f.timelines[1]->native), FERRY_OK);
    assert_int_equal(FERRYI_CALL(f.device, stream_synchronize, f.timelines[0]->native), FERRY_OK);
    assert_int_equal(
        FERRYI_CALL(f.device, copy_download, f.target, pointers[1], LARGE, f.timelines[1]->native),
        FERRY_OK);
    assert_int_equal(FERRYI_CALL(f.device, stream_synchronize, f.timelines[1]->native), FERRY_OK);
    assert_int_equal(f.target[0], 0x22);
    assert_int_equal(f.target[LARGE - 1], 0x22);
    ferryi_pool_give(blocks[1], ferryi_timeline_sync_point(f.timelines[1]));
    lazy_close(&f);
}

/* Checks that the pool does not free device memory while queued work needs it. The lazy device runs
 * work only during a wait, and the work fails if its memory was freed. */
static void
test_lazy_work_keeps_its_memory(void **state)
{
    (void)state;
    struct lazy_fixture f;
    lazy_open(&f);
    lazy_use(&f);
    assert_int_equal(ferry_pool_trim(f.pool, 0), FERRY_OK);
    assert_int_equal(FERRYI_CALL(f.device, stream_synchronize, f.timelines[0]->native), FERRY_OK);
    assert_int_equal(ferry_pool_trim(f.pool, 0), FERRY_OK);
    lazy_close(&f);
}

/* Checks that ferryi_pool_finish() waits for queued work that uses the pool's memory. */
static void
test_lazy_work_ends_before_its_pool(void **state)
{
    (void)state;
    struct lazy_fixture f;
    lazy_open(&f);
    ferryi_sync_point point = lazy_use(&f);
    assert_false(ferryi_sync_point_is_done(&f.order, point));
    ferryi_pool_finish(f.pool);
    assert_true(ferryi_sync_point_is_done(&f.order, point));
    lazy_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_timeline_waits_for_the_last_use),
        cmocka_unit_test(test_the_same_timeline_reuses_without_a_call),
#ifdef FERRYI_DEBUG_CHECKS
        cmocka_unit_test(test_a_tool_lets_queued_work_go_on),
        cmocka_unit_test(test_a_tool_forgets_the_blocks_of_a_trimmed_slab),
#endif
        cmocka_unit_test(test_a_wait_covers_all_earlier_uses),
        cmocka_unit_test(test_the_rest_of_a_block_is_in_use_too),
        cmocka_unit_test(test_blocks_already_ordered_are_preferred),
        cmocka_unit_test(test_the_newest_pending_blocks_are_tried),
        cmocka_unit_test(test_the_host_takes_only_what_is_done),
        cmocka_unit_test(test_the_host_looks_at_few_pending_blocks),
        cmocka_unit_test(test_an_unused_block_keeps_its_earlier_use),
        cmocka_unit_test(test_a_third_timeline_does_not_hide_an_earlier_use),
        cmocka_unit_test(test_a_wait_that_fails_loses_nothing),
        cmocka_unit_test(test_a_stream_being_captured_is_not_disturbed),
        cmocka_unit_test(test_handles_that_queued_work_uses_stay),
        cmocka_unit_test(test_trim_leaves_what_queued_work_uses),
        cmocka_unit_test(test_a_policy_sees_what_is_complete),
        cmocka_unit_test(test_shortage_waits_for_own_pending_memory),
        cmocka_unit_test(test_shortage_waits_no_longer_than_it_may),
        cmocka_unit_test(test_all_waits_share_one_budget),
        cmocka_unit_test(test_a_take_may_be_reported_never_to_wait),
        cmocka_unit_test(test_shortage_merges_neighbours),
        cmocka_unit_test(test_pending_neighbours_stay_apart),
        cmocka_unit_test(test_a_draining_slab_is_not_taken_from),
        cmocka_unit_test(test_a_stream_without_a_number_is_joined),
        cmocka_unit_test(test_a_hit_on_a_stream_takes_no_lock),
        cmocka_unit_test(test_a_retired_stream_uses_nothing),
        cmocka_unit_test(test_a_compaction_waits_for_the_slabs_it_empties),
        cmocka_unit_test(test_the_end_of_a_pool_waits_for_each_stream),
        cmocka_unit_test(test_streams_order_takes_and_gives),
        cmocka_unit_test(test_lazy_work_of_the_last_holder_comes_first),
        cmocka_unit_test(test_lazy_work_keeps_its_memory),
        cmocka_unit_test(test_lazy_work_ends_before_its_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
