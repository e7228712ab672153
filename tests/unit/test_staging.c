/* SPDX-License-Identifier: MIT */
/* Tests transfers of pageable memory on emulated devices: staging rings, copy loops, helper
 * threads, and memory that is page-locked after its allocation. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/sanitizer.h"
#include "src/transfer/batch.h"
#include "src/transfer/run.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

struct rig {
    ferryi_device *heads[2];
    ferryi_order order;
    struct ferryi_log log;
    ferryi_engine *engine;
    ferryi_timeline *in, *out;
    atomic_bool staged; /* whether the last transfer was staged */
};

static void
on_trace(const ferry_trace *trace, void *user)
{
    atomic_store(&((struct rig *)user)->staged, trace->staged);
}

static void
rig_open(struct rig *r, struct ferryi_engine_config config)
{
    memset(r, 0, sizeof(*r));
    struct ferryi_device_config device = {.emulated_memory_bytes = 512 * MIB};
    assert_int_equal(ferryi_emulated_kind.open(0, &device, &r->heads[1]), FERRY_OK);
    assert_int_equal(ferryi_order_init(&r->order, &r->log), FERRY_OK);
    config.devices = r->heads;
    config.count = 1;
    config.order = &r->order;
    config.log = &r->log;
    config.trace = on_trace;
    config.trace_user = r;
    assert_int_equal(ferryi_engine_create(&config, &r->engine), FERRY_OK);
    assert_int_equal(ferryi_engine_timeline(r->engine, 1, 0, &r->in), FERRY_OK);
    assert_int_equal(ferryi_engine_timeline(r->engine, 0, 1, &r->out), FERRY_OK);
}

static void
rig_close(struct rig *r)
{
    ferryi_engine_destroy(&r->engine);
    ferryi_order_clear(&r->order);
    r->heads[1]->ops->close(r->heads[1]);
}

static char *
device_memory(struct rig *r, size_t bytes)
{
    void *memory;
    assert_int_equal(FERRYI_CALL(r->heads[1], memory_alloc, FERRY_MEMORY_DEVICE, bytes, &memory),
                     FERRY_OK);
    return memory;
}

static void
device_free(struct rig *r, char *memory)
{
    assert_int_equal(ferryi_device_synchronize(r->heads[1]), FERRY_OK);
    assert_int_equal(FERRYI_CALL(r->heads[1], memory_free, FERRY_MEMORY_DEVICE, memory), FERRY_OK);
}

static ferry_status
upload(struct rig *r, char *device, const char *host, size_t bytes, struct ferryi_transfer_job *job)
{
    struct ferryi_memory to = {.place = 1, .pointer = device},
                         from = {.place = 0, .pointer = (void *)(uintptr_t)host};
    return ferryi_engine_copy(r->engine, to, from, bytes, r->in,
                              job ? job : &(struct ferryi_transfer_job){0});
}

static ferry_status
download(struct rig *r, char *host, const char *device, size_t bytes,
         struct ferryi_transfer_job *job)
{
    struct ferryi_memory to = {.place = 0, .pointer = host},
                         from = {.place = 1, .pointer = (void *)(uintptr_t)device};
    assert_int_equal(ferryi_device_synchronize(r->heads[1]), FERRY_OK);
    return ferryi_engine_copy(r->engine, to, from, bytes, r->out,
                              job ? job : &(struct ferryi_transfer_job){0});
}

static char *
allocate(size_t bytes)
{
    char *memory = malloc(bytes);
    assert_non_null(memory);
    return memory;
}

static void
scribble(char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (char)((i * 2654435761u >> 9) + i / 4093);
}

static ferry_transfer_stats
stats(struct rig *r)
{
    ferry_transfer_stats s;
    ferryi_engine_stats(r->engine, &s);
    return s;
}

static struct ferryi_staging_stats
staging_stats(struct rig *r)
{
    struct ferryi_staging_stats s;
    ferryi_engine_staging_stats(r->engine, &s);
    return s;
}

static void
round_trip(struct rig *r, char *device, const char *source, char *back, size_t bytes)
{
    memset(back, 0, bytes);
    assert_int_equal(upload(r, device, source, bytes, NULL), FERRY_OK);
    assert_int_equal(download(r, back, device, bytes, NULL), FERRY_OK);
    assert_true(memcmp(back, source, bytes) == 0);
}

static unsigned
threads_of_process(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/task");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* -- helpers ----------------------------------------------------------------------------------- */

/* Copies lists of many pieces of irregular sizes through rings of several sizes, with and without
 * helper threads. Between the pieces there are gaps, which must stay as they were. */
static void
test_lists_of_pieces_arrive_with_any_number_of_helpers(void **state)
{
    (void)state;
    enum { PIECES = 2000 };
    static struct ferryi_piece up[PIECES], down[PIECES];
    static const size_t chunks[] = {4 * KIB, 64 * KIB, 8 * MIB};
    const size_t room = 16 * MIB;
    char *source = allocate(room), *back = allocate(room), *expected = allocate(room);
    scribble(source, room);
    for (size_t i = 0; i < 3; i++) {
        for (unsigned threads = 1; threads <= 4; threads += threads) {
            struct rig r;
            rig_open(&r, (struct ferryi_engine_config){
                             .chunk_bytes = chunks[i], .chunk_count = 8, .threads = threads});
            char *device = device_memory(&r, room);
            size_t at = 0, bytes = 0;
            memset(back, 0, room);
            memset(expected, 0, room);
            for (size_t k = 0; k < PIECES; k++) {
                const size_t size = k % 100 == 7 ? 30000 : 1 + k * 37 % 9000;
                up[k] = (struct ferryi_piece){
                    .target = device + at, .source = source + at, .bytes = size, .target_place = 1};
                down[k] = (struct ferryi_piece){
                    .target = back + at, .source = device + at, .bytes = size, .source_place = 1};
                memcpy(expected + at, source + at, size);
                at += size + 3;
                bytes += size;
            }
            assert_true(at < room);
            struct ferryi_transfer_job job = {0};
            assert_int_equal(ferryi_engine_copy_pieces(r.engine, up, PIECES, FERRYI_LAYOUT_ANY,
                                                       NULL, r.in, &job),
                             FERRY_OK);
            assert_int_equal(job.done, bytes);
            assert_int_equal(ferryi_device_synchronize(r.heads[1]), FERRY_OK);
            job = (struct ferryi_transfer_job){0};
            assert_int_equal(ferryi_engine_copy_pieces(r.engine, down, PIECES, FERRYI_LAYOUT_ANY,
                                                       NULL, r.out, &job),
                             FERRY_OK);
            assert_int_equal(job.done, bytes);
            assert_true(memcmp(back, expected, room) == 0);
            struct ferryi_staging_stats s = staging_stats(&r);
            assert_int_equal(s.copied_bytes, 2 * bytes);
            if (threads == 1)
                assert_int_equal(s.helper_chunks, 0);
            else if (chunks[i] == 4 * KIB)
                assert_true(s.helper_chunks > 0);
            device_free(&r, device);
            rig_close(&r);
        }
    }
    free(source);
    free(back);
    free(expected);
}

static void
test_many_chunks_arrive_with_any_chunk_and_any_number_of_helpers(void **state)
{
    (void)state;
    static const size_t chunks[] = {4 * KIB, 256 * KIB, 5 * MIB / 2 + 1, 64 * MIB};
    size_t bytes = (FERRYI_SANITIZED_MALLOC ? 20 : 100) * MIB - 3;
    char *source = allocate(bytes + 1), *back = allocate(bytes + 2);
    scribble(source, bytes + 1);
    for (size_t i = 0; i < 4; i++) {
        for (unsigned threads = 1; threads <= 4; threads += threads) {
            struct rig r;
            rig_open(&r, (struct ferryi_engine_config){
                             .chunk_bytes = chunks[i], .chunk_count = 4, .threads = threads});
            char *device = device_memory(&r, bytes);
            round_trip(&r, device, source + 1, back + 1, bytes);
            struct ferryi_staging_stats s = staging_stats(&r);
            uint64_t each = (bytes + chunks[i] - 1) / chunks[i];
            assert_int_equal(s.staging_chunks, 2 * each);
            assert_int_equal(stats(&r).staged.bytes, 2 * bytes);
            assert_int_equal(s.copied_bytes, 2 * bytes);
            if (threads == 1)
                assert_int_equal(s.helper_chunks, 0);
            else if (each > 1000)
                assert_true(s.helper_chunks > 0);
            device_free(&r, device);
            rig_close(&r);
        }
    }
    free(source);
    free(back);
}

/* Checks that the helper threads start with the first large transfer and end with the transfer
 * engine. */
static void
test_helpers_come_with_the_first_large_transfer(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, (struct ferryi_engine_config){0});
    size_t bytes = 8 * MIB;
    char *device = device_memory(&r, bytes), *source = allocate(bytes), *back = allocate(bytes);
    scribble(source, bytes);
    for (size_t part = 1; part <= 2 * MIB; part *= 4)
        round_trip(&r, device, source, back, part);
    assert_int_equal(r.engine->helpers.process, 0);
    unsigned before = threads_of_process();
    round_trip(&r, device, source, back, bytes);
    /* The calling thread and the thread of the emulated device need one processor each. Helper
     * threads may use the other processors. */
    unsigned processors = ferryi_processors(), wanted = processors > 2 ? processors - 2 : 0;
    assert_int_equal(threads_of_process() - before, wanted < 3 ? wanted : 3);
    device_free(&r, device);
    rig_close(&r);
    free(source);
    free(back);
}

/* Checks the number of helper threads. It must rise with the bandwidth of the link to the device,
 * and must be lower on a machine with few processors. */
static void
test_helpers_follow_the_link(void **state)
{
    (void)state;
    const uint64_t slow = 15753846153, half = 31507692307, fast = 63015384615,
                   joined = 450000000000;
    assert_int_equal(ferryi_staging_helpers_of(0, 64), 3);
    assert_int_equal(ferryi_staging_helpers_of(slow, 64), 3);
    assert_int_equal(ferryi_staging_helpers_of(half, 64), 3);
    assert_int_equal(ferryi_staging_helpers_of(fast, 64), 7);
    assert_int_equal(ferryi_staging_helpers_of(joined, 64), 7);
    assert_int_equal(ferryi_staging_helpers_of(fast, 16), 7);
    assert_int_equal(ferryi_staging_helpers_of(fast, 12), 5);
    assert_int_equal(ferryi_staging_helpers_of(fast, 4), 3);
    assert_int_equal(ferryi_staging_helpers_of(fast, 1), 3);
}

struct watch {
    size_t last, stop_at, calls;
    pthread_t thread;
    bool wrong;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct watch *w = user;
    w->wrong =
        w->wrong || done <= w->last || done > total || !pthread_equal(w->thread, pthread_self());
    w->last = done;
    return ++w->calls != w->stop_at;
}

/* Checks that progress callbacks run on the caller's thread, with increasing byte counts. Bytes
 * that are reported as done must have arrived. All other bytes must have either their old or their
 * new value. */
static void
test_progress_and_cancel_with_helpers(void **state)
{
    (void)state;
    size_t bytes = 3 * MIB + 17, chunk = 64 * KIB;
    char *source = allocate(bytes), *back = allocate(bytes);
    scribble(source, bytes);
    struct rig r;
    rig_open(&r,
             (struct ferryi_engine_config){.chunk_bytes = chunk, .chunk_count = 8, .threads = 4});
    char *device = device_memory(&r, bytes);
    for (size_t stop = 0; stop < 60; stop += 7) {
        struct watch up = {.thread = pthread_self(), .stop_at = stop}, down = up;
        ferry_copy_options options = {.keep_going = keep_going, .user = &up};
        struct ferryi_transfer_job job = {.options = &options};
        /* Waits for the device, because a cancelled download leaves queued copies into the staging
         * ring. */
        assert_int_equal(ferryi_device_synchronize(r.heads[1]), FERRY_OK);
        memset(device, 0, bytes);
        ferry_status status = upload(&r, device, source, bytes, &job);
        assert_false(up.wrong);
        assert_int_equal(status, up.last < bytes ? FERRY_ERROR_CANCELLED : FERRY_OK);
        if (status != FERRY_OK) {
            char text[64];
            snprintf(text, sizeof(text), "%zu of %zu bytes arrived", up.last, bytes);
            assert_non_null(strstr(ferry_last_error(), text));
        }
        assert_int_equal(ferryi_device_synchronize(r.heads[1]), FERRY_OK);
        assert_true(memcmp(device, source, up.last) == 0);
        for (size_t i = up.last; i < bytes; i++)
            assert_int_equal(device[i], 0);

        assert_int_equal(upload(&r, device, source, bytes, NULL), FERRY_OK);
        options.user = &down;
        job = (struct ferryi_transfer_job){.options = &options};
        memset(back, 0, bytes);
        status = download(&r, back, device, bytes, &job);
        assert_false(down.wrong);
        assert_int_equal(status, down.last < bytes ? FERRY_ERROR_CANCELLED : FERRY_OK);
        assert_true(memcmp(back, source, down.last) == 0);
        /* After the call has returned, the library must not write to the caller's memory. */
        char *later = allocate(bytes);
        memcpy(later, back, bytes);
        ferryi_sleep_ns(2000000);
        assert_true(memcmp(later, back, bytes) == 0);
        free(later);
        for (size_t i = down.last; i < bytes; i++)
            assert_true(back[i] == 0 || back[i] == source[i]);
    }
    device_free(&r, device);
    rig_close(&r);
    free(source);
    free(back);
}

struct nest {
    struct rig *r;
    char *device, *memory;
    size_t bytes;
    bool ok;
};

static bool
copy_inside(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    struct nest *n = user;
    n->ok = n->ok && upload(n->r, n->device + n->bytes, n->memory, n->bytes, NULL) == FERRY_OK &&
            download(n->r, n->memory, n->device + n->bytes, n->bytes, NULL) == FERRY_OK;
    return true;
}

static void
watched_trips(void *opaque)
{
    struct nest *n = opaque;
    ferry_copy_options options = {.keep_going = copy_inside, .user = n};
    char *memory = malloc(n->bytes);
    for (int i = 0; i < 3 && n->ok && memory; i++) {
        struct ferryi_transfer_job job = {.options = &options, .total = 2 * n->bytes};
        n->ok = upload(n->r, n->device, memory, n->bytes, &job) == FERRY_OK &&
                download(n->r, memory, n->device, n->bytes, &job) == FERRY_OK;
    }
    free(memory);
}

/* Several threads copy through one short staging ring. Their progress callbacks also copy through
 * it, while the outer transfers hold chunks of the ring. Checks that no copy waits forever. */
static void
test_callbacks_that_copy_do_not_starve(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct rig r;
    rig_open(&r,
             (struct ferryi_engine_config){.chunk_bytes = 4 * KIB, .chunk_count = 2, .threads = 3});
    struct nest nests[THREADS];
    ferryi_thread threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        nests[i] = (struct nest){.r = &r, .bytes = 20 * KIB, .ok = true};
        nests[i].device = device_memory(&r, 40 * KIB);
        nests[i].memory = calloc(1, 20 * KIB);
        assert_int_equal(ferryi_thread_start(&threads[i], "watched", watched_trips, &nests[i]),
                         FERRY_OK);
    }
    for (int i = 0; i < THREADS; i++)
        ferryi_thread_join(threads[i]);
    for (int i = 0; i < THREADS; i++) {
        assert_true(nests[i].ok);
        device_free(&r, nests[i].device);
        free(nests[i].memory);
    }
    rig_close(&r);
}

/* -- loops and rings --------------------------------------------------------------------------- */

/* Checks transfers with each copy loop that an option can select. All bytes must arrive, and the
 * selected loop must be used for every ring and size. */
static void
test_the_loop_that_was_asked_for(void **state)
{
    (void)state;
    size_t bytes = 3 * MIB;
    char *source = allocate(bytes), *back = allocate(bytes);
    scribble(source, bytes);
    for (enum ferryi_copy_loop loop = FERRYI_COPY_LIBC; loop < FERRYI_COPY_LOOPS; loop++) {
        struct rig r;
        rig_open(&r, (struct ferryi_engine_config){.copy = loop});
        char *device = device_memory(&r, bytes);
        round_trip(&r, device, source, back, bytes);
        for (int up = 0; up < 2; up++)
            for (size_t part = 1; part <= 64 * MIB; part *= 64)
                assert_int_equal(ferryi_staging_loop(r.engine, 1, up, part), loop);
        device_free(&r, device);
        rig_close(&r);
    }
    free(source);
    free(back);
}

/* Checks how the staging ring and the copy loop are chosen if no option selects them. The choice
 * may depend only on the size and the processor, so that equal transfers take equal time. */
static void
test_choices_are_fixed(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, (struct ferryi_engine_config){0});
    /* The small ring is used for all sizes: copies of an emulated device need no driver call, so
     * larger chunks would not be faster. */
    for (size_t bytes = 1; bytes <= 1024 * MIB; bytes *= 2) {
        struct ferryi_run run = {.engine = r.engine,
                                 .direction = FERRY_DIRECTION_UPLOAD,
                                 .target_place = 1,
                                 .bytes = bytes};
        const struct ferryi_staging how = ferryi_staging_choose(&run);
        assert_ptr_equal(how.ring, &r.engine->ports[1].ring);
        assert_int_equal(how.part, how.ring->chunk_bytes);
    }
    static const struct {
        enum ferryi_copy_loop visible[2], engine, long_upload; /* visible: download, upload */
    } expected[] = {
        [FERRYI_PROCESSOR_OTHER] = {{FERRYI_COPY_LIBC, FERRYI_COPY_LIBC},
                                    FERRYI_COPY_LIBC,
                                    FERRYI_COPY_LIBC},
        [FERRYI_PROCESSOR_INTEL] = {{FERRYI_COPY_STREAM, FERRYI_COPY_PREFETCH},
                                    FERRYI_COPY_STREAM,
                                    FERRYI_COPY_PREFETCH},
        [FERRYI_PROCESSOR_AMD_19H] = {{FERRYI_COPY_STREAM, FERRYI_COPY_STREAM},
                                      FERRYI_COPY_STREAM,
                                      FERRYI_COPY_STREAM},
        [FERRYI_PROCESSOR_AMD_1AH] = {{FERRYI_COPY_STREAM, FERRYI_COPY_LIBC},
                                      FERRYI_COPY_STREAM,
                                      FERRYI_COPY_STREAM},
    };
    const enum ferryi_processor processor = ferryi_copy_processor();
    for (int up = 0; up < 2; up++) {
        assert_int_equal(ferryi_staging_loop(r.engine, 1, up, 256 * KIB - 1), FERRYI_COPY_LIBC);
        for (size_t bytes = 256 * KIB; bytes <= 1024 * MIB; bytes *= 2)
            assert_int_equal(ferryi_staging_loop(r.engine, 1, up, bytes),
                             expected[processor].visible[up]);
    }
    /* Now the test device copies the chunks of the ring itself. For uploads of 128 MiB and more,
     * the choice of the copy loop depends on the processor. */
    r.engine->devices[1]->capabilities &= ~(uint64_t)FERRYI_DEVICE_HOST_VISIBLE;
    for (int up = 0; up < 2; up++)
        for (size_t bytes = 256 * KIB; bytes < 128 * MIB; bytes *= 2)
            assert_int_equal(ferryi_staging_loop(r.engine, 1, up, bytes),
                             expected[processor].engine);
    assert_int_equal(ferryi_staging_loop(r.engine, 1, true, 128 * MIB),
                     expected[processor].long_upload);
    r.engine->devices[1]->capabilities |= FERRYI_DEVICE_HOST_VISIBLE;
    rig_close(&r);
}

/* -- registered memory ------------------------------------------------------------------------- */

static void
test_registered_memory_goes_straight_across_pieces(void **state)
{
    (void)state;
    size_t page = ferryi_page_bytes(), bytes = 40 * page + 100;
    struct rig r;
    rig_open(&r, (struct ferryi_engine_config){.pinned_bytes_limit = 64 * MIB,
                                               .pin_piece_bytes = 2 * page});
    struct ferryi_pins *pins = ferryi_engine_pins(r.engine);
    char *device = device_memory(&r, bytes), *memory = allocate(bytes + page),
         *back = allocate(bytes);
    char *host = memory + 24; /* not aligned to pages, like memory from malloc() */
    scribble(host, bytes);
    assert_int_equal(ferryi_pins_add(pins, host, bytes), FERRY_OK);
    for (size_t offset = 0; offset < bytes; offset += 3 * page / 2 + 1) {
        for (size_t part = 1; part <= bytes - offset; part = part * 5 + 1000) {
            memset(device, 0, bytes);
            assert_int_equal(upload(&r, device, host + offset, part, NULL), FERRY_OK);
            assert_int_equal(r.staged, part <= FERRYI_STAGED_MOST);
            assert_memory_equal(device, host + offset, part); /* the bytes have arrived */
            memset(back, 0, bytes);
            assert_int_equal(download(&r, back, device, part, NULL), FERRY_OK);
            assert_true(r.staged);
            assert_memory_equal(back, host + offset, part);
        }
    }
    memcpy(device, host, bytes);
    assert_int_equal(download(&r, host + 1, device, bytes - 1, NULL), FERRY_OK);
    assert_false(r.staged);
    assert_memory_equal(host + 1, device, bytes - 1);
    /* These copies begin before the registered memory, or end behind it. So they must be staged. */
    assert_int_equal(upload(&r, device, host - 1, bytes, NULL), FERRY_OK);
    assert_true(r.staged);
    assert_int_equal(upload(&r, device, host + 1, bytes, NULL), FERRY_OK);
    assert_true(r.staged);
    assert_int_equal(ferryi_pins_remove(pins, host), FERRY_OK);
    assert_int_equal(upload(&r, device, host, bytes, NULL), FERRY_OK);
    assert_true(r.staged);
    device_free(&r, device);
    rig_close(&r);
    free(memory);
    free(back);
}

static void
test_ranges_that_cannot_be_registered_or_not_be_let_go(void **state)
{
    (void)state;
    size_t page = ferryi_page_bytes();
    struct rig r;
    rig_open(&r, (struct ferryi_engine_config){.pinned_bytes_limit = 4 * page});
    struct ferryi_pins *pins = ferryi_engine_pins(r.engine);
    char *memory = aligned_alloc(page, 16 * page);
    assert_non_null(memory);
    assert_int_equal(ferryi_pins_add(pins, memory + 4 * page, 4 * page), FERRY_OK);
    assert_int_equal(ferryi_pins_add(pins, memory + 4 * page, 4 * page), FERRY_ERROR_CONFLICT);
    assert_int_equal(ferryi_pins_add(pins, memory, 5 * page), FERRY_ERROR_CONFLICT);
    assert_int_equal(ferryi_pins_add(pins, memory + 7 * page, 2 * page), FERRY_ERROR_CONFLICT);
    assert_int_equal(ferryi_pins_add(pins, memory + 5 * page, page), FERRY_ERROR_CONFLICT);
    assert_int_equal(ferryi_pins_add(pins, memory + 8 * page, page), FERRY_OK);
    assert_int_equal(ferryi_pins_remove(pins, memory + 5 * page), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferryi_pins_remove(pins, memory), FERRY_ERROR_INVALID_ARGUMENT);
    struct ferryi_pin *pin = ferryi_pins_hold(pins, memory + 5 * page, page);
    assert_non_null(pin);
    assert_null(ferryi_pins_hold(pins, memory + 7 * page, 2 * page));
    assert_int_equal(ferryi_pins_remove(pins, memory + 4 * page), FERRY_ERROR_BUSY);
    ferryi_pins_release(pins, pin);
    assert_int_equal(ferryi_pins_remove(pins, memory + 4 * page), FERRY_OK);
    /* Both the program and the library register ranges. ferryi_pins_remove_own() must remove only
     * ranges of the library, and ferryi_pins_remove() only ranges of the program. */
    ferryi_pins_remove_own(pins, memory + 8 * page, page);
    assert_true(ferryi_pins_holds(pins, memory + 8 * page, page));
    assert_int_equal(ferryi_pins_add_own(pins, memory, 3 * page), FERRY_OK);
    assert_int_equal(ferryi_pins_add_own(pins, memory, 3 * page), FERRY_OK);
    assert_int_equal(ferryi_pins_remove(pins, memory), FERRY_ERROR_INVALID_ARGUMENT);
    /* The limit on page-locked bytes must apply only to ranges that Ferry registered. */
    assert_int_equal(ferryi_pins_add_own(pins, memory + 10 * page, 2 * page),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ferryi_pins_add_own(pins, memory + 10 * page, page), FERRY_OK);
    assert_int_equal(pins->own_bytes, 4 * page);
    /* The pinned pool uses one page of the limit, so the library must remove one of the two ranges
     * that it registered. It must not remove the range that is in use. */
    pin = ferryi_pins_hold(pins, memory, page);
    ferryi_pins_pool_takes(pins, page);
    assert_true(ferryi_pins_holds(pins, memory, page));
    assert_false(ferryi_pins_holds(pins, memory + 10 * page, page));
    ferryi_pins_pool_takes(pins, page);
    assert_true(ferryi_pins_holds(pins, memory, page));
    ferryi_pins_release(pins, pin);
    ferryi_pins_pool_takes(pins, 1);
    assert_false(ferryi_pins_holds(pins, memory, page));
    ferryi_pins_pool_gave(pins, 2 * page + 1);
    assert_int_equal(pins->own_bytes + pins->pool_bytes, 0);
    /* ferryi_pins_remove_own() must remove exactly the ranges that begin in the given memory. */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ferryi_pins_add_own(pins, memory + i * page, page), FERRY_OK);
    ferryi_pins_remove_own(pins, memory + page, 2 * page);
    assert_true(ferryi_pins_holds(pins, memory, page) &&
                ferryi_pins_holds(pins, memory + 3 * page, page));
    assert_false(ferryi_pins_holds(pins, memory + page, 1) ||
                 ferryi_pins_holds(pins, memory + 2 * page, 1));
    /* The destruction of the engine must unregister the ranges that are left. */
    rig_close(&r);
    struct ferryi_device_config config = {0};
    ferryi_device *device;
    assert_int_equal(ferryi_emulated_kind.open(0, &config, &device), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, host_register, memory, 16 * page), FERRY_OK);
    assert_int_equal(FERRYI_CALL(device, host_unregister, memory), FERRY_OK);
    device->ops->close(device);
    free(memory);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_pieces_arrive_with_any_number_of_helpers),
        cmocka_unit_test(test_many_chunks_arrive_with_any_chunk_and_any_number_of_helpers),
        cmocka_unit_test(test_helpers_come_with_the_first_large_transfer),
        cmocka_unit_test(test_helpers_follow_the_link),
        cmocka_unit_test(test_progress_and_cancel_with_helpers),
        cmocka_unit_test(test_callbacks_that_copy_do_not_starve),
        cmocka_unit_test(test_the_loop_that_was_asked_for),
        cmocka_unit_test(test_choices_are_fixed),
        cmocka_unit_test(test_registered_memory_goes_straight_across_pieces),
        cmocka_unit_test(test_ranges_that_cannot_be_registered_or_not_be_let_go),
    };
    return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
