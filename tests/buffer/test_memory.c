/* SPDX-License-Identifier: MIT */
/* Tests kinds of memory of a buffer: pinned, pageable and managed. */
#include "src/buffer/buffer.h"
#include "src/pool/housekeeper.h"
#include "src/pool/slab.h"
#include "src/store/claim.h"
#include "tests/buffer/support.h"

#include "tests/support/heap.h"

/* Tests pinned and managed buffers, reports about memory, and the process-wide context that
 * libraries share. */

#define COUNT 5000
#define BYTES (COUNT * sizeof(int32_t))

static uint64_t
capabilities_of(fixture *f)
{
    ferry_place_info info;
    OK(ferry_context_get_place_info(f->context, 1, &info));
    return info.capabilities;
}

static ferry_buffer *
make_in(fixture *f, ferry_memory_kind memory)
{
    ferry_buffer *buffer;
    ferry_buffer_options options = {.memory = memory, .name = "memory"};
    OK(ferry_buffer_create(f->context, INT, COUNT, &options, &buffer));
    return buffer;
}

/* Uses a buffer at several places, and checks its states and bytes. They must be the same for every
 * kind of memory. */
static void
use_everywhere(fixture *f, ferry_buffer *b)
{
    STATE(b, UNINITIALIZED);
    write_counting(f, b, 0, 0, FERRY_REST, 10);
    STATE(b, HOST_ONLY);
    expect_counting(f, b, 1, 0, FERRY_REST, 10);
    STATE(b, SYNCHRONIZED);
    add_to(f, b, 1, 100, 50, 1);
    STATE(b, DEVICE_DIRTY);
    expect_counting(f, b, 0, 0, 100, 10);
    expect_counting(f, b, 0, 100, 50, 11);
    expect_counting(f, b, 0, 150, FERRY_REST, 10);
    STATE(b, SYNCHRONIZED);
    add_to(f, b, 0, 0, 10, 5);
    STATE(b, HOST_DIRTY);
    expect_counting(f, b, f->places, 0, 10, 15);
}

/* `is_pinned` is true if and only if the memory is page-locked, for buffers of every size. If no
 * driver can lock pages, `is_pinned` is false. */
static void
test_pinned_is_said_honestly(void **state)
{
    fixture *f = *state;
    bool can_pin = capabilities_of(f) & FERRY_CAN_PIN;
    static const size_t counts[] = {1, 63, 1000, 70000, 300001};
    for (size_t i = 0; i < LENGTH(counts); i++) {
        ferry_buffer *pinned, *pageable;
        OK(ferry_buffer_create(f->context, INT, counts[i],
                               &(ferry_buffer_options){.memory = FERRY_MEMORY_PINNED}, &pinned));
        OK(ferry_buffer_create(f->context, INT, counts[i],
                               &(ferry_buffer_options){.memory = FERRY_MEMORY_PAGEABLE},
                               &pageable));
        assert_false(ferry_buffer_is_page_locked(pinned));
        touch(f, pinned, 0, FERRY_OVERWRITE, 0, FERRY_REST);
        touch(f, pageable, 0, FERRY_OVERWRITE, 0, FERRY_REST);
        assert_int_equal(ferry_buffer_is_page_locked(pinned), can_pin);
        assert_int_equal(take_snapshot(pinned).info.page_locked, can_pin);
        assert_false(ferry_buffer_is_page_locked(pageable));
        ferry_buffer_destroy(&pinned);
        ferry_buffer_destroy(&pageable);
    }
}

static void
test_pinned_buffers_behave_as_others_do(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_in(f, FERRY_MEMORY_PINNED);
    use_everywhere(f, b);
    ferry_buffer_destroy(&b);
}

/* Pinned memory is copied directly by the device. Pageable memory is copied through the staging
 * ring. */
static void
test_the_path_follows_the_memory(void **state)
{
    fixture *f = *state;
    if (f->coherent)
        return;
    ferry_buffer *pinned = make_in(f, FERRY_MEMORY_PINNED),
                 *pageable = make_in(f, FERRY_MEMORY_DEFAULT);
    for (int i = 0; i < 2; i++) {
        ferry_buffer *b = i ? pageable : pinned;
        write_counting(f, b, 0, 0, FERRY_REST, 1);
        ferry_transfer_stats before = moved(f);
        OK(ferry_buffer_sync_to(b, 0, FERRY_REST, 1, NULL));
        ferry_transfer_stats after = moved(f);
        assert_int_equal(after.direct.bytes - before.direct.bytes, i ? 0 : BYTES);
        assert_int_equal(after.staged.bytes - before.staged.bytes, i ? BYTES : 0);
    }
    ferry_buffer_destroy(&pinned);
    ferry_buffer_destroy(&pageable);
}

/* Returns how many driver calls a device scope makes that uploads `count` numbers from the begin
 * and from the middle of a buffer, or only from its begin. */
static uint64_t
calls_of_uploads(fixture *f, ferry_memory_kind kind, size_t count, bool of_middle)
{
    enum { WHOLE = 65536 };
    ferry_buffer *b;
    uint64_t calls = 0;
    OK(ferry_buffer_create(f->context, INT, WHOLE, &(ferry_buffer_options){.memory = kind}, &b));
    for (int round = 0; round < 3; round++) { /* the first one allocates */
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        touch(f, b, 0, FERRY_UPDATE, 0, count);
        if (of_middle)
            touch(f, b, 0, FERRY_UPDATE, WHOLE / 2, count);
        const uint64_t before = moved(f).device_calls;
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        calls = moved(f).device_calls - before;
    }
    ferry_buffer_destroy(&b);
    return calls;
}

/* One short upload from pinned memory is queued on the stream that uses the bytes. Any other upload
 * is queued on a stream of the library, and the stream that uses the bytes waits for it. */
static void
test_short_uploads_need_no_event(void **state)
{
    fixture *f = *state;
    enum { SHORT = 16384 }; /* 64 KiB */
    if (f->coherent)
        return;
    const uint64_t least = calls_of_uploads(f, FERRY_MEMORY_PINNED, 1, false);
    assert_int_equal(calls_of_uploads(f, FERRY_MEMORY_PINNED, SHORT, false), least);
    assert_true(calls_of_uploads(f, FERRY_MEMORY_PINNED, SHORT + 1, false) > least);
    assert_true(calls_of_uploads(f, FERRY_MEMORY_PINNED, 1, true) > least);
    assert_true(calls_of_uploads(f, FERRY_MEMORY_DEFAULT, SHORT, false) > least);
}

/* A host write waits for transfers that still read the host replica. So a pinned source is not
 * overwritten during its upload. */
static void
test_a_pinned_source_is_not_overwritten_under_its_upload(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_in(f, FERRY_MEMORY_PINNED);
    for (int round = 0; round < 20; round++) {
        write_counting(f, b, 0, 0, FERRY_REST, round);
        ferry_scope scope;
        void *device = open_at(f, b, 1, FERRY_READ, 0, FERRY_REST, &scope);
        assert_non_null(device);
        OK(ferry_scope_close(&scope));
        /* The device must get the values of this round of the loop, although the host overwrites
         * its replica right after the upload was queued. */
        write_counting(f, b, 0, 0, 1, -1);
        expect_counting(f, b, 1, 1, FERRY_REST, round);
    }
    ferry_buffer_destroy(&b);
}

/* A managed buffer has the same pointer at host and device. If the device cannot manage memory,
 * creating such a buffer fails with FERRY_ERROR_UNSUPPORTED. */
static void
test_managed_buffers_have_one_copy(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    ferry_buffer_options options = {.memory = FERRY_MEMORY_MANAGED};
    if (!(capabilities_of(f) & FERRY_CAN_MANAGE)) {
        FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_create(f->context, INT, COUNT, &options, &b));
        return;
    }
    b = make_in(f, FERRY_MEMORY_MANAGED);
    ferry_transfer_stats before = moved(f);
    ferry_scope scope;
    void *host = open_at(f, b, 0, FERRY_OVERWRITE, 0, FERRY_REST, &scope);
    for (size_t i = 0; i < COUNT; i++)
        ((int32_t *)host)[i] = (int32_t)i;
    OK(ferry_scope_close(&scope));
    void *device = open_at(f, b, 1, FERRY_READ, 0, FERRY_REST, &scope);
    OK(ferry_scope_close(&scope));
    assert_ptr_equal(host, device);
    ferry_transfer_stats after = moved(f);
    assert_int_equal(crossing(&after), crossing(&before));
    STATE(b, SYNCHRONIZED);
    ferry_buffer_destroy(&b);
}

static void
test_managed_buffers_behave_as_others_do(void **state)
{
    fixture *f = *state;
    if (!(capabilities_of(f) & FERRY_CAN_MANAGE))
        return;
    ferry_buffer *b = make_in(f, FERRY_MEMORY_MANAGED);
    use_everywhere(f, b);
    ferry_buffer_destroy(&b);
}

/* Managed memory can be prefetched to the device or to the host. Advice (read-mostly, preferred
 * location, accessed-by) can be set and unset for the host and for any device. */
static void
test_managed_memory_takes_advice_and_prefetch(void **state)
{
    fixture *f = *state;
    ferry_buffer *plain = make_in(f, FERRY_MEMORY_DEFAULT);
    FAILS(FERRY_ERROR_UNSUPPORTED,
          ferry_buffer_advise(plain, 0, FERRY_REST, 1, FERRY_ADVISE_READ_MOSTLY));
    ferry_buffer_destroy(&plain);
    if (!(capabilities_of(f) & FERRY_CAN_MANAGE_CONCURRENTLY))
        return;
    ferry_buffer *b = make_in(f, FERRY_MEMORY_MANAGED);
    write_counting(f, b, 0, 0, FERRY_REST, 2);
    for (int place = 0; place <= f->places; place++) {
        for (int advice = FERRY_ADVISE_READ_MOSTLY; advice <= FERRY_ADVISE_UNSET_ACCESSED_BY;
             advice++)
            OK(ferry_buffer_advise(b, 0, FERRY_REST, place, (ferry_advice)advice));
        OK(ferry_buffer_prefetch(b, 0, FERRY_REST, place, NULL));
        expect_counting(f, b, place, 0, FERRY_REST, 2);
    }
    OK(ferry_buffer_wait_idle(b, 0));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_advise(b, 0, FERRY_REST, 1, (ferry_advice)7));
    ferry_buffer_destroy(&b);
}

/* At every place, `free` + `used` = `total` in ferry_memory_info. The numbers change with
 * allocations. */
static void
test_memory_info_adds_up(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        ferry_memory_info before, during, after;
        ferry_buffer *b = make_ints(f, 1 << 20);
        OK(ferry_context_get_memory_info(f->context, place, &before));
        OK(ferry_buffer_reserve(b, place));
        OK(ferry_context_get_memory_info(f->context, place, &during));
        ferry_buffer_destroy(&b);
        OK(ferry_context_get_memory_info(f->context, place, &after));
        assert_int_equal(before.free + before.used, before.total);
        assert_int_equal(during.free + during.used, during.total);
        assert_int_equal(after.free + after.used, after.total);
        assert_true(during.live >= before.live + ((size_t)4 << 20));
        assert_true(during.used >= during.live);
        assert_int_equal(after.live, before.live);
        assert_true(after.cached >= before.cached);
    }
}

/* The first call of ferry_context_shared() creates a process-wide context that counts its owners.
 * All callers get the same context, and the context ends with its last owner. */
static void
test_the_shared_context_is_one(void **state)
{
    (void)state;
    ferry_context *first, *second, *again;
    OK(ferry_context_shared(&first));
    OK(ferry_context_shared(&second));
    assert_ptr_equal(first, second);
    ferry_buffer *b;
    OK(ferry_buffer_create(first, INT, COUNT, &(ferry_buffer_options){.name = "common"}, &b));
    ferry_context_destroy(&first);
    assert_null(first);

    /* One library finds, by its name, a buffer that a different library created. */
    ferry_buffer *found;
    OK(ferry_context_find(second, "common", &found));
    assert_ptr_equal(found, b);
    ferry_buffer_destroy(&b);
    assert_int_equal(ferry_buffer_count(found), COUNT);
    ferry_buffer_destroy(&found);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_context_find(second, "common", &found));
    ferry_context_destroy(&second);

    OK(ferry_context_shared(&again));
    ferry_context_destroy(&again);
}

static ferry_status
nothing(const ferry_call *call, void *user)
{
    (void)call;
    (void)user;
    return FERRY_OK;
}

/* A search for a name returns the newest buffer with that name. It returns neither views nor base
 * buffers that only views keep alive. */
static void
test_names_find_the_youngest(void **state)
{
    fixture *f = *state;
    ferry_buffer *old, *young, *view, *found;
    ferry_buffer_options options = {.name = "twin"};
    OK(ferry_buffer_create(f->context, INT, 1, &options, &old));
    OK(ferry_buffer_create(f->context, INT, 2, &options, &young));
    OK(ferry_context_find(f->context, "twin", &found));
    assert_ptr_equal(found, young);
    ferry_buffer_destroy(&found);
    OK(ferry_buffer_view(young, INT, 0, 1, &view));
    ferry_buffer_destroy(&young);
    OK(ferry_context_find(f->context, "twin", &found));
    assert_ptr_equal(found, old);
    ferry_buffer_destroy(&found);
    ferry_buffer_destroy(&view);
    ferry_buffer_destroy(&old);
}

/* Streams, events and kernels that outlive their context can only be destroyed. All other calls on
 * them fail with FERRY_ERROR_INVALID_STATE. */
static void
test_streams_that_outlive_their_context(void **state)
{
    (void)state;
    ferry_context *context;
    ferry_stream *stream;
    ferry_event *event, *other;
    ferry_kernel *kernel;
    bool done;
    ferry_parameter parameter = {.element = INT, .access = FERRY_READ};
    ferry_kernel_source source = {.name = "nothing",
                                  .host_function = nothing,
                                  .parameters = &parameter,
                                  .parameter_count = 1};
    OK(ferry_context_create(NULL, &context));
    OK(ferry_stream_create(context, 1, &stream));
    OK(ferry_stream_record(stream, 0, &event));
    OK(ferry_kernel_create(context, &source, &kernel));
    ferry_context_destroy(&context);

    FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_flush(stream));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_synchronize(stream));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_record(stream, 0, &other));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_stream_wait_event(stream, event));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_event_synchronize(event));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_event_query(event, &done));
    FAILS(FERRY_ERROR_INVALID_STATE,
          ferry_kernel_launch(kernel, ferry_grid_for(1, 1), NULL, NULL, 0));
    assert_null(ferry_stream_native(stream));
    assert_int_equal(ferry_stream_place(stream), -1);
    ferry_kernel_destroy(&kernel);
    ferry_event_destroy(&event);
    ferry_stream_destroy(&stream);
    assert_null(stream);
}

/* A buffer that was created and never used takes few heap bytes, even with the overhead of
 * malloc(). */
static void
test_an_idle_buffer_is_small(void **state)
{
#if HEAP_IS_COUNTED
    enum { BUFFERS = 100000 };
    fixture *f = *state;
    static ferry_buffer *buffers[BUFFERS];
    size_t before = heap_bytes();
    for (size_t i = 0; i < BUFFERS; i++)
        buffers[i] = make_ints(f, COUNT);
    size_t bytes = (heap_bytes() - before) / BUFFERS;
    print_message("an idle buffer is %zu bytes\n", bytes);
    assert_in_range(bytes, 1, 256 + (size_t)(f->places - 1) * 48);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&buffers[i]);
#else
    (void)state;
    skip();
#endif
}

/* The table of the range locks of a buffer has room for 4 at first. Locking 4 ranges at once does
 * not enlarge it, and locking one more does. */
static void
test_a_table_of_locks_is_enlarged_when_full(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_ints(f, COUNT);
    for (uint32_t count = 4; count <= 5; count++) {
        struct ferryi_access locks[5];
        for (size_t i = 0; i < count; i++)
            locks[i] = ferryi_access_of(b->store, (struct ferryi_range){8 * i, 8 * i + 4},
                                        FERRY_READ, FERRYI_PLACE_NONE, "test");
        OK(ferryi_access_claim(locks, count));
        assert_int_equal(b->store->claim_capacity, count == 4 ? 4 : 8);
        for (size_t i = 0; i < count; i++)
            ferryi_claim_drop(&locks[i]);
    }
    ferry_buffer_destroy(&b);
}

static void
use_every_way(fixture *f, ferry_buffer *buffer)
{
    void *memory;
    touch(f, buffer, 1, FERRY_UPDATE, 0, FERRY_REST);
    OK(ferry_buffer_prefetch(buffer, 0, FERRY_REST, 0, NULL));
    touch(f, buffer, 1, FERRY_UPDATE, 0, FERRY_REST);
    touch(f, buffer, 0, FERRY_UPDATE, 0, FERRY_REST);
    OK(ferry_buffer_hold(buffer, 0, &memory));
    OK(ferry_buffer_release(buffer, 0));
}

/* A buffer that has all its replicas needs no more memory when it is used. In particular, nothing
 * is remembered of what only a checked run reports. */
static void
test_a_used_buffer_does_not_grow(void **state)
{
    enum { BUFFERS = 500 };
    fixture *f = *state;
    ferry_buffer *buffers[BUFFERS];
    const bool driver_allocates = strcmp(device_of(f, 1)->kind, "opencl") == 0;
    if (!HEAP_IS_COUNTED || f->context->debug || driver_allocates)
        skip();
    for (size_t i = 0; i < BUFFERS; i++) {
        buffers[i] = make_ints(f, COUNT);
        for (int place = f->places; place >= 0; place--)
            touch(f, buffers[i], place, FERRY_OVERWRITE, 0, FERRY_REST);
    }
    for (size_t i = 0; i < 5; i++) /* makes what the context needs for its first transfers */
        use_every_way(f, buffers[i]);
    const size_t before = heap_bytes();
    for (size_t i = 0; i < BUFFERS; i++)
        use_every_way(f, buffers[i]);
    const size_t after = heap_bytes();
    if (after > before + BUFFERS * 64)
        fail_msg("a buffer grew by %zu bytes", (after - before) / BUFFERS);
    for (size_t i = 0; i < BUFFERS; i++)
        ferry_buffer_destroy(&buffers[i]);
}

/* A new buffer may reuse the memory of a destroyed buffer. It must have none of the old buffer's
 * properties or bytes. */
static void
test_memory_of_a_buffer_is_used_again(void **state)
{
    fixture *f = *state;
    ferry_buffer_options named = {.name = "named", .scrub = true, .align = 4096};
    ferry_buffer *b;
    for (int i = 0; i < 100; i++) {
        OK(ferry_buffer_create(f->context, INT, COUNT, i % 3 == 0 ? &named : NULL, &b));
        STATE(b, UNINITIALIZED);
        ferry_buffer_info info = info_of(b);
        assert_string_equal(info.name, i % 3 == 0 ? "named" : "");
        assert_int_equal(info.scopes, 0);
        assert_int_equal(info.places_with_copy, 0);
        if (i % 4 == 0)
            expect_constant(f, b, i % 2, 0, COUNT, 0);
        for (int cut = 0; cut < i % 5; cut++)
            add_to(f, b, cut % 2, (size_t)cut * 100, 50, 1);
        write_counting(f, b, i % 2, 0, COUNT, i);
        expect_counting(f, b, 1 - i % 2, 0, COUNT, i);
        ferry_buffer_destroy(&b);
    }
}

/* ferry_memory_info follows the limit that ferry_pool_configure() sets, and half of what it says is
 * free can be allocated. The statistics of the pool state the same limit. */
static void
test_memory_info_knows_the_limit_of_the_pool(void **state)
{
    fixture *f = *state;
    enum { MIB = 1 << 20 };
    for (int place = 0; place <= f->places; place++) {
        ferry_memory_info info;
        ferry_pool *pool;
        ferry_pool_stats stats;
        ferry_block *block;
        ferry_context *context;
        OK(ferry_context_create(NULL, &context));
        OK(ferry_context_pool(context, place, FERRY_MEMORY_DEFAULT, &pool));
        for (size_t limit = 10 * MIB; limit <= 20 * MIB; limit += 10 * MIB) {
            const ferry_pool_options options = {.limit_bytes = limit, .wait_ms = 1};
            OK(ferry_pool_configure(pool, &options));
            OK(ferry_context_get_memory_info(context, place, &info));
            assert_int_equal(info.total, limit);
            assert_int_equal(info.free, limit);
            OK(ferry_pool_allocate(pool, info.free / 2, NULL, &block));
            OK(ferry_context_get_memory_info(context, place, &info));
            assert_int_equal(info.total, limit);
            assert_int_equal(info.free + info.used, info.total);
            assert_true(info.used >= limit / 2 && info.used < limit);
            OK(ferry_pool_get_stats(pool, &stats));
            assert_int_equal(stats.limit_bytes, limit);
            assert_int_equal(info.used, stats.reserved_bytes);
            OK(ferry_block_free(&block, NULL));
            OK(ferry_pool_trim(pool, 0));
        }
        ferry_context_destroy(&context);
    }
}

/* If a limit applies at a place, `free` in ferry_memory_info is the number of bytes that can still
 * be allocated under this limit. Memory that does not count towards the limit, for example memory
 * of a different context, does not reduce `free`. */
static void
test_memory_info_of_a_limit_counts_what_it_limits(void **state)
{
    fixture *f = *state;
    enum { MIB = 1 << 20 };
    if (f->coherent)
        skip(); /* the device has no separate memory */
    for (int place = 0; place <= f->places; place++) {
        ferry_context *limited;
        ferry_memory_info info;
        ferry_pool *others, *own;
        ferry_block *taken, *block;
        const ferry_context_options options = {.device_bytes_limit = 64 * MIB,
                                               .host_bytes_limit = 64 * MIB};
        OK(ferry_context_create(&options, &limited));
        if (place == 0)
            OK(ferry_context_pool(limited, 0, FERRY_MEMORY_PINNED, &others));
        else
            OK(ferry_context_pool(f->context, place, FERRY_MEMORY_DEVICE, &others));
        OK(ferry_context_pool(limited, place, FERRY_MEMORY_DEFAULT, &own));
        OK(ferry_pool_allocate(others, 100 * MIB, NULL, &taken));
        OK(ferry_context_get_memory_info(limited, place, &info));
        assert_int_equal(info.total, 64 * MIB);
        assert_int_equal(info.free, 64 * MIB);
        OK(ferry_pool_allocate(own, 32 * MIB - 64, NULL,
                               &block)); /* leaves room for what a memory checker needs */
        OK(ferry_context_get_memory_info(limited, place, &info));
        assert_int_equal(info.free, 32 * MIB);
        assert_int_equal(info.used, 32 * MIB);
        OK(ferry_block_free(&block, NULL));
        OK(ferry_block_free(&taken, NULL));
        ferry_context_destroy(&limited);
    }
}

static void
count_warnings(ferry_log_level level, const char *message, void *user)
{
    *(int *)user +=
        level == FERRY_LOG_WARNING && strstr(message, "device_bytes_limit 65536 has no effect");
}

/* The option `device_bytes_limit` has no effect on the device "host". A context that sets this
 * option, but has no other device, logs a warning. */
static void
test_a_limit_without_effect_is_logged(void **state)
{
    fixture *f = *state;
    int warnings = 0;
    ferry_context *limited;
    OK(ferry_context_create(&(ferry_context_options){.device_bytes_limit = 65536,
                                                     .log = count_warnings,
                                                     .log_user = &warnings},
                            &limited));
    assert_int_equal(warnings, f->coherent);
    ferry_context_destroy(&limited);
    OK(ferry_context_create(&(ferry_context_options){.log = count_warnings, .log_user = &warnings},
                            &limited));
    assert_int_equal(warnings, f->coherent);
    ferry_context_destroy(&limited);
}

static uint64_t
device_frees(ferry_pool *pool)
{
    ferry_pool_stats stats;
    struct ferryi_pool_counters counters;
    OK(ferry_pool_get_stats(pool, &stats));
    ferryi_pool_get_counters(pool, &counters);
    return counters.device_frees;
}

/* A trim frees pool memory that has been idle for at least `trim_age_ms`, and runs once in each
 * `trim_period_ms`. Calls that wait for the device must never trim, even if a trim is due. */
static void
test_waits_never_trim(void **state)
{
    fixture *f = *state;
    ferry_pool *pool;
    ferry_block *blocks[4], *block;
    ferry_event *event;
    ferry_buffer *b = make_in(f, FERRY_MEMORY_DEFAULT);
    touch(f, b, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    ferryi_housekeeper_stop(f->context->housekeeper); /* its thread would trim beside the calls */
    OK(ferry_pool_configure(pool, &(ferry_pool_options){.trim_period_ms = 1, .trim_age_ms = 1}));
    for (size_t i = 0; i < LENGTH(blocks); i++)
        OK(ferry_pool_allocate(pool, (size_t)3 << 20, f->stream, &blocks[i]));
    /* Reads the counter before the blocks are freed. On a slow machine, a call of
     * ferry_block_free() may already trim the pool. The last check of this test includes such
     * trims. */
    uint64_t before = device_frees(pool);
    for (size_t i = 0; i < LENGTH(blocks); i++)
        OK(ferry_block_free(&blocks[i], f->stream));
    ferryi_sleep_ns(20 * 1000 * 1000);

    uint64_t frees = device_frees(pool);
    for (int round = 0; round < 300; round++) {
        bool done;
        OK(ferry_stream_record(f->stream, 0, &event));
        OK(ferry_stream_wait_event(f->stream, event));
        OK(ferry_stream_flush(f->stream));
        OK(ferry_event_query(event, &done));
        OK(ferry_event_synchronize(event));
        OK(ferry_stream_synchronize(f->stream));
        OK(ferry_buffer_wait_idle(b, 1));
        ferry_event_destroy(&event);
    }
    assert_int_equal(device_frees(pool), frees);
    OK(ferry_pool_allocate(pool, (size_t)40 << 20, f->stream,
                           &block)); /* trims, as the period is over; a range grows instead */
    assert_true(pool->range || device_frees(pool) >= before + LENGTH(blocks));
    OK(ferry_block_free(&block, f->stream));
    OK(ferry_pool_configure(pool, NULL));
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pinned_is_said_honestly),
        TEST(test_pinned_buffers_behave_as_others_do),
        TEST(test_the_path_follows_the_memory),
        TEST(test_short_uploads_need_no_event),
        TEST(test_a_pinned_source_is_not_overwritten_under_its_upload),
        TEST(test_managed_buffers_have_one_copy),
        TEST(test_managed_buffers_behave_as_others_do),
        TEST(test_managed_memory_takes_advice_and_prefetch),
        TEST(test_memory_info_adds_up),
        TEST(test_a_limit_without_effect_is_logged),
        TEST(test_memory_info_knows_the_limit_of_the_pool),
        TEST(test_memory_info_of_a_limit_counts_what_it_limits),
        TEST(test_the_shared_context_is_one),
        TEST(test_names_find_the_youngest),
        TEST(test_an_idle_buffer_is_small),
        TEST(test_a_table_of_locks_is_enlarged_when_full),
        TEST(test_a_used_buffer_does_not_grow),
        TEST(test_memory_of_a_buffer_is_used_again),
        TEST(test_streams_that_outlive_their_context),
        TEST(test_waits_never_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
