/* SPDX-License-Identifier: MIT */
/* Tests the engine that moves bytes between places: sizes, chunks, directions, fills and counts. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "rig.h"
#include "src/base/sanitizer.h"
#include "src/transfer/batch.h"
#include "src/transfer/host_side.h"
#include "src/transfer/run.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

/* Number of threads that fill and drain chunks of the staging ring, including the calling thread.
 * This suite also runs with a number above 1. */
static unsigned staging_threads = 1;

/* A transfer engine over two rigs. A rig is a simulated device that performs queued work only when
 * a caller waits. */
struct bench {
    rig *devices[3];
    ferryi_device *heads[3];
    ferryi_order order;
    struct ferryi_log log;
    ferryi_engine *engine;
    ferry_trace trace;
    int traces;
};

static void
on_trace(const ferry_trace *trace, void *user)
{
    struct bench *b = user;
    b->trace = *trace;
    b->traces++;
}

static void
bench_open(struct bench *b, size_t chunk_bytes, size_t chunk_count)
{
    memset(b, 0, sizeof(*b));
    for (int place = 1; place <= 2; place++) {
        b->devices[place] = rig_open(place - 1);
        b->heads[place] = &b->devices[place]->head;
    }
    assert_int_equal(ferryi_order_init(&b->order, &b->log), FERRY_OK);
    struct ferryi_engine_config config = {.devices = b->heads,
                                          .count = 2,
                                          .order = &b->order,
                                          .log = &b->log,
                                          .chunk_bytes = chunk_bytes,
                                          .chunk_count = chunk_count,
                                          .threads = staging_threads,
                                          .trace = on_trace,
                                          .trace_user = b};
    assert_int_equal(ferryi_engine_create(&config, &b->engine), FERRY_OK);
}

static void
bench_close(struct bench *b)
{
    ferryi_engine_destroy(&b->engine);
    assert_null(b->engine);
    ferryi_order_clear(&b->order);
    rig_close(b->devices[1]);
    rig_close(b->devices[2]);
}

static char *
device_memory(struct bench *b, int place, size_t bytes)
{
    void *memory;
    assert_int_equal(
        FERRYI_CALL(b->heads[place], memory_alloc, FERRY_MEMORY_DEVICE, bytes, &memory), FERRY_OK);
    return memory;
}

/* Waits for all queued work, which may use the memory, and then frees the device memory. */
static void
device_free(struct bench *b, int place, char *memory)
{
    for (int other = 1; other <= 2; other++)
        assert_int_equal(ferryi_device_synchronize(b->heads[other]), FERRY_OK);
    assert_int_equal(FERRYI_CALL(b->heads[place], memory_free, FERRY_MEMORY_DEVICE, memory),
                     FERRY_OK);
}

static struct ferryi_memory
at(int place, const void *pointer)
{
    return (struct ferryi_memory){.place = place, .pointer = (void *)(uintptr_t)pointer};
}

static struct ferryi_memory
pinned(const void *pointer)
{
    return (struct ferryi_memory){
        .place = 0, .pointer = (void *)(uintptr_t)pointer, .pinned = true};
}

static ferryi_timeline *
timeline_for(struct bench *b, int target, int source)
{
    ferryi_timeline *timeline;
    assert_int_equal(ferryi_engine_timeline(b->engine, target, source, &timeline), FERRY_OK);
    return timeline;
}

/* Waits until the device at the place has performed its queued work. */
static void
finish(struct bench *b, int place)
{
    assert_int_equal(ferryi_device_synchronize(b->heads[place]), FERRY_OK);
}

static ferry_status
copy(struct bench *b, struct ferryi_memory target, struct ferryi_memory source, size_t bytes,
     struct ferryi_transfer_job *job)
{
    return ferryi_engine_copy(b->engine, target, source, bytes,
                              timeline_for(b, target.place, source.place),
                              job ? job : &(struct ferryi_transfer_job){0});
}

static unsigned char
pattern_at(size_t i, unsigned seed)
{
    return (unsigned char)((i * 2654435761u >> 7) + i / 4093 + seed);
}

static void
scribble(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = pattern_at(i, seed);
}

static void *
allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

static ferry_transfer_stats
stats(struct bench *b)
{
    ferry_transfer_stats s;
    ferryi_engine_stats(b->engine, &s);
    return s;
}

/* -- round trips ------------------------------------------------------------------------------- */

static void
round_trip(struct bench *b, char *device, const char *source, char *back, size_t bytes)
{
    memset(back, 0xAA, bytes + 1);
    assert_int_equal(copy(b, at(1, device), at(0, source), bytes, NULL), FERRY_OK);
    /* The upload and the download use different streams. The transfer engine does not order them,
     * so the test waits for the upload. */
    finish(b, 1);
    assert_int_equal(copy(b, at(0, back), at(1, device), bytes, NULL), FERRY_OK);
    assert_memory_equal(back, source, bytes);
    assert_int_equal((unsigned char)back[bytes], 0xAA);
}

static void
test_every_size_arrives(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 3);
    size_t most = 64 * KIB + 3;
    char *device = device_memory(&b, 1, most + 8), *source = allocate(most + 8),
         *back = allocate(most + 9);
    scribble(source, most + 8, 1);
    for (size_t bytes = 0; bytes <= most; bytes += bytes < 300 ? 1 : bytes < most - 1000 ? 331 : 7)
        round_trip(&b, device + bytes % 3, source + bytes % 7, back + bytes % 5, bytes);
    round_trip(&b, device, source, back, 4 * KIB - 1);
    round_trip(&b, device, source, back, 4 * KIB);
    round_trip(&b, device, source, back, 4 * KIB + 1);
    round_trip(&b, device, source + 1, back, 12 * KIB + 1);
    round_trip(&b, device, source, back, most);
    device_free(&b, 1, device);
    free(source);
    free(back);
    bench_close(&b);
}

static void
test_many_chunks_with_any_chunk_size(void **state)
{
    (void)state;
    size_t bytes = (FERRYI_SANITIZED_MALLOC ? 20 : 100) * MIB - 3;
    char *source = allocate(bytes + 1), *back = allocate(bytes + 1);
    scribble(source, bytes + 1, 5);
    for (size_t chunk = 4 * KIB; chunk <= 64 * MIB; chunk *= 16) {
        struct bench b;
        bench_open(&b, chunk, 4);
        char *device = device_memory(&b, 1, bytes);
        round_trip(&b, device, source + 1, back, bytes);
        device_free(&b, 1, device);
        bench_close(&b);
    }
    struct bench b;
    bench_open(&b, 64 * MIB, 2);
    char *device = device_memory(&b, 1, bytes);
    round_trip(&b, device, source + 1, back, bytes);
    device_free(&b, 1, device);
    bench_close(&b);
    free(source);
    free(back);
}

static void
test_an_upload_returns_when_its_source_may_be_reused(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    size_t bytes = 30 * KIB;
    char *device = device_memory(&b, 1, bytes), *source = allocate(bytes), *same = allocate(bytes);
    scribble(source, bytes, 2);
    memcpy(same, source, bytes);
    assert_int_equal(copy(&b, at(1, device), at(0, source), bytes, NULL), FERRY_OK);
    memset(source, 0, bytes);
    finish(&b, 1);
    assert_memory_equal(device, same, bytes);
    device_free(&b, 1, device);
    free(source);
    free(same);
    bench_close(&b);
}

/* -- which way --------------------------------------------------------------------------------- */

static void
test_pinned_memory_goes_straight_in_one_call(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    size_t bytes = 100 * KIB;
    char *device = device_memory(&b, 1, bytes), *host = allocate(bytes), *back = allocate(bytes);
    scribble(host, bytes, 3);
    rig_pin(b.devices[1], host, bytes);
    rig_pin(b.devices[1], back, bytes);
    ferryi_timeline *in = timeline_for(&b, 1, 0), *out = timeline_for(&b, 0, 1);
    assert_ptr_not_equal(in, out);
    uint64_t calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, device), pinned(host), bytes, in,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(b.heads[1]->calls - calls, 1);
    finish(&b, 1);
    assert_int_equal(ferryi_engine_copy(b.engine, pinned(back), at(1, device), bytes, out,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    finish(&b, 1);
    assert_memory_equal(back, host, bytes);
    ferry_transfer_stats s = stats(&b);
    assert_int_equal(s.direct.copies, 2);
    assert_int_equal(s.direct.bytes, 2 * bytes);
    assert_int_equal(s.staged.copies, 0);
    device_free(&b, 1, device);
    bench_close(&b);
    free(host);
    free(back);
}

static void
test_a_small_pageable_copy_is_short(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 64 * KIB, 4);
    char *device = device_memory(&b, 1, 4096), host[4096] = {0};
    ferryi_timeline *in = timeline_for(&b, 1, 0), *out = timeline_for(&b, 0, 1);
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, device), at(0, host), 4096, in,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(ferryi_engine_copy(b.engine, at(0, host), at(1, device), 4096, out,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    finish(&b, 1);
    /* A download makes two calls: a copy and a wait. An upload makes only one call, because its
     * event is recorded later, when a caller needs it. */
    uint64_t calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_copy(b.engine, at(0, host), at(1, device), 4096, out,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(b.heads[1]->calls - calls, 2);
    calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, device), at(0, host), 4096, in,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(b.heads[1]->calls - calls, 1);
    device_free(&b, 1, device);
    bench_close(&b);
}

/* Uploads through a staging ring of eight chunks faster than the device copies. Checks that the
 * caller waits only once for each half of the ring. */
static void
test_a_full_ring_is_waited_for_by_halves(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 8);
    char *device = device_memory(&b, 1, 4 * KIB), host[4 * KIB] = {0};
    ferryi_timeline *in = timeline_for(&b, 1, 0);
    uint64_t calls = 0;
    for (int i = 0; i < 64; i++) {
        /* After 40 transfers the engine has created all chunks and events. */
        if (i == 40)
            calls = b.heads[1]->calls;
        assert_int_equal(ferryi_engine_copy(b.engine, at(1, device), at(0, host), sizeof(host), in,
                                            &(struct ferryi_transfer_job){0}),
                         FERRY_OK);
        assert_int_equal(ferryi_timeline_flush(in), FERRY_OK);
    }
    /* Each of the 24 uploads makes a copy and records an event. Every fourth upload also waits. */
    assert_int_equal(b.heads[1]->calls - calls, 24 + 24 + 6);
    device_free(&b, 1, device);
    bench_close(&b);
}

static void
test_counts_are_exact_by_direction_and_path(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    char *one = device_memory(&b, 1, 20000), *two = device_memory(&b, 2, 20000), host[20000],
         other[20000];
    memset(host, 7, sizeof(host));
    rig_pin(b.devices[1], other, sizeof(other));
    assert_int_equal(copy(&b, at(1, one), at(0, host), 10001, NULL), FERRY_OK);
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, one), pinned(other), 33,
                                        timeline_for(&b, 1, 0), &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(copy(&b, at(0, host), at(1, one), 17, NULL), FERRY_OK);
    assert_int_equal(copy(&b, at(1, one + 10000), at(1, one), 5000, NULL), FERRY_OK);
    assert_int_equal(copy(&b, at(2, two), at(1, one), 6000, NULL), FERRY_OK);
    assert_int_equal(copy(&b, at(0, other), at(0, host), 900, NULL), FERRY_OK);
    assert_int_equal(ferryi_engine_fill(b.engine, at(1, one), 400, "ab", 2, timeline_for(&b, 1, 1),
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(ferryi_engine_fill(b.engine, at(1, one), 401 * 3, "abc", 3,
                                        timeline_for(&b, 1, 1), &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(copy(&b, at(1, one), at(0, host), 0, NULL), FERRY_OK);
    ferry_transfer_stats s = stats(&b);
    assert_int_equal(s.upload.copies, 2);
    assert_int_equal(s.upload.bytes, 10034);
    assert_int_equal(s.download.copies, 1);
    assert_int_equal(s.download.bytes, 17);
    assert_int_equal(s.device.copies, 1);
    assert_int_equal(s.device.bytes, 5000);
    assert_int_equal(s.peer.copies, 1);
    assert_int_equal(s.peer.bytes, 6000);
    assert_int_equal(s.host.copies, 1);
    assert_int_equal(s.host.bytes, 900);
    assert_int_equal(s.fill.copies, 2);
    assert_int_equal(s.fill.bytes, 400 + 401 * 3);
    assert_int_equal(s.direct.copies, 1);
    assert_int_equal(s.direct.bytes, 33);
    assert_int_equal(s.staged.copies, 2);
    assert_int_equal(s.staged.bytes, 10018);
    assert_int_equal(b.traces, 8);
    device_free(&b, 1, one);
    device_free(&b, 2, two);
    bench_close(&b);
}

static void
test_each_transfer_is_reported_once(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    char *one = device_memory(&b, 1, 20000), host[20000] = {0};
    struct ferryi_transfer_job job = {
        .buffer = "heights", .reason = "copy_from", .foreign_source = true};
    assert_int_equal(copy(&b, at(1, one), at(0, host), 20000, &job), FERRY_OK);
    assert_int_equal(b.traces, 1);
    assert_string_equal(b.trace.buffer, "heights");
    assert_string_equal(b.trace.reason, "copy_from");
    assert_int_equal(b.trace.bytes, 20000);
    assert_int_equal(b.trace.source_place, -1);
    assert_int_equal(b.trace.target_place, 1);
    assert_int_equal(b.trace.direction, FERRY_DIRECTION_UPLOAD);
    assert_true(b.trace.staged);
    job = (struct ferryi_transfer_job){.reason = "fill"};
    assert_int_equal(
        ferryi_engine_fill(b.engine, at(1, one), 20000, "x", 1, timeline_for(&b, 1, 1), &job),
        FERRY_OK);
    assert_int_equal(b.traces, 2);
    assert_string_equal(b.trace.buffer, "");
    assert_int_equal(b.trace.source_place, -1);
    assert_int_equal(b.trace.direction, FERRY_DIRECTION_FILL);
    assert_false(b.trace.staged);
    device_free(&b, 1, one);
    bench_close(&b);
}

static void
test_host_copies_may_overlap(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    char memory[20000], expected[20000];
    ferry_copy_options options = {.chunk_bytes = 100};
    struct ferryi_transfer_job job = {.options = &options};
    for (int shift = -5; shift <= 5; shift += 10) {
        scribble(memory, sizeof(memory), 4);
        memcpy(expected, memory, sizeof(memory));
        memmove(expected + 10 + shift, expected + 10, 19000);
        assert_int_equal(copy(&b, at(0, memory + 10 + shift), at(0, memory + 10), 19000, &job),
                         FERRY_OK);
        assert_memory_equal(memory, expected, sizeof(memory));
    }
    bench_close(&b);
}

static void
test_coherent_places_are_host_memory(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    b.devices[1]->head.capabilities |= FERRYI_DEVICE_COHERENT;
    char source[5000], target[5000] = {0};
    scribble(source, sizeof(source), 1);
    assert_null(timeline_for(&b, 1, 0));
    assert_int_equal(copy(&b, at(1, target), at(0, source), 5000, NULL), FERRY_OK);
    assert_memory_equal(target, source, 5000);
    assert_int_equal(stats(&b).host.bytes, 5000);
    /* A coherent device uses host memory. So a copy from it to a different device counts as an
     * upload. */
    char *two = device_memory(&b, 2, 5000);
    assert_int_equal(copy(&b, at(2, two), at(1, target), 5000, NULL), FERRY_OK);
    finish(&b, 2);
    assert_memory_equal(two, source, 5000);
    assert_int_equal(stats(&b).upload.bytes, 5000);
    device_free(&b, 2, two);
    bench_close(&b);
}

/* -- peers ------------------------------------------------------------------------------------- */

/* Queues a copy between two devices while an upload still writes its source. The copy's stream
 * waits for the upload, so the copy must read the new bytes. */
static void
peer_copy(bool reaches, size_t bytes)
{
    struct bench b;
    bench_open(&b, 4 * KIB, 3);
    b.devices[1]->no_peers = b.devices[2]->no_peers = !reaches;
    char *one = device_memory(&b, 1, bytes), *two = device_memory(&b, 2, bytes),
         *host = allocate(bytes);
    scribble(host, bytes, 9);
    rig_pin(b.devices[1], host, bytes);
    ferryi_timeline *in = timeline_for(&b, 1, 0), *timeline = timeline_for(&b, 2, 1);
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, one), pinned(host), bytes, in,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    void *event;
    assert_int_equal(FERRYI_CALL(b.heads[1], event_create, false, &event), FERRY_OK);
    assert_int_equal(FERRYI_CALL(b.heads[1], event_record, event, in->native), FERRY_OK);
    assert_int_equal(FERRYI_CALL(b.heads[2], stream_wait, timeline->native, event), FERRY_OK);
    assert_int_equal(FERRYI_CALL(b.heads[1], event_destroy, event), FERRY_OK);
    assert_int_equal(ferryi_engine_reachable(b.engine, 2), 1u << 1);
    assert_int_equal(ferryi_engine_copy(b.engine, at(2, two), at(1, one), bytes, timeline,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(ferryi_engine_reachable(b.engine, 2), reaches ? 1u << 1 : 0);
    assert_int_equal(b.trace.staged, !reaches);
    assert_int_equal(b.trace.direction, FERRY_DIRECTION_PEER);
    assert_int_equal(FERRYI_CALL(b.heads[2], stream_synchronize, timeline->native), FERRY_OK);
    assert_memory_equal(two, host, bytes);
    assert_int_equal(stats(&b).peer.copies, 1);
    assert_int_equal(stats(&b).peer.bytes, bytes);
    assert_int_equal(stats(&b).staged.copies, 0);
    device_free(&b, 1, one);
    device_free(&b, 2, two);
    bench_close(&b);
    free(host);
}

static void
test_peers_copy_directly_or_through_the_host(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 100 * KIB; bytes = bytes * 5 + 3) {
        peer_copy(true, bytes);
        peer_copy(false, bytes);
    }
}

static void
test_what_can_be_reached(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 3);
    assert_int_equal(ferryi_engine_reachable(b.engine, 0), 6);
    assert_int_equal(ferryi_engine_reachable(b.engine, 1), 4);
    assert_int_equal(ferryi_engine_reachable(b.engine, 2), 2);
    bench_close(&b);
}

/* -- fills ------------------------------------------------------------------------------------- */

static void
check_fill(struct bench *b, int place, char *memory, size_t offset, size_t count,
           const void *element, size_t element_bytes)
{
    size_t bytes = count * element_bytes;
    memset(memory, 0xCC, offset + bytes + 16);
    ferryi_timeline *timeline = place ? timeline_for(b, place, place) : NULL;
    assert_int_equal(ferryi_engine_fill(b->engine, at(place, memory + offset), bytes, element,
                                        element_bytes, timeline, &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    if (place)
        finish(b, place);
    for (size_t i = 0; i < offset; i++)
        assert_int_equal((unsigned char)memory[i], 0xCC);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(memory + offset + i * element_bytes, element, element_bytes);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal((unsigned char)memory[offset + bytes + i], 0xCC);
}

static void
test_fills_of_every_element_size(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    size_t room = 24 * 5000 + 64;
    char *memory[2] = {allocate(room), device_memory(&b, 1, room)};
    static const size_t counts[] = {0, 1, 2, 3, 169, 170, 171, 1000, 4999};
    for (int place = 0; place < 2; place++) {
        for (size_t element_bytes = 1; element_bytes <= 24; element_bytes++) {
            unsigned char element[24], zero[24] = {0}, twos[24], fours[24];
            scribble(element, element_bytes, 77);
            for (size_t i = 0; i < 24; i++) {
                twos[i] = (unsigned char)(i % 2 + 1);
                fours[i] = (unsigned char)(i % 4 + 1);
            }
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                check_fill(&b, place, memory[place], i % 4, counts[i], element, element_bytes);
                check_fill(&b, place, memory[place], 0, counts[i], zero, element_bytes);
                check_fill(&b, place, memory[place], 0, counts[i], twos, element_bytes);
                check_fill(&b, place, memory[place], i % 3, counts[i], fours, element_bytes);
            }
        }
    }
    free(memory[0]);
    device_free(&b, 1, memory[1]);
    bench_close(&b);
}

static void
test_an_element_larger_than_a_chunk_fills_too(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    size_t element_bytes = 10001;
    char *element = allocate(element_bytes), *device = device_memory(&b, 1, 7 * element_bytes + 32);
    scribble(element, element_bytes, 3);
    check_fill(&b, 1, device, 1, 7, element, element_bytes);
    free(element);
    device_free(&b, 1, device);
    bench_close(&b);
}

static void
test_repeating_elements_need_one_call(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    char *device = device_memory(&b, 1, 64 * KIB);
    ferryi_timeline *timeline = timeline_for(&b, 1, 1);
    double zero = 0;
    uint64_t calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_fill(b.engine, at(1, device), 64 * KIB, &zero, 8, timeline,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(b.heads[1]->calls - calls, 1);
    /* The device cannot fill with elements of 8 bytes. The engine copies the filled part
     * repeatedly, and each copy doubles this part, so the fill needs few calls. */
    double value = 1.5e-3;
    calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_fill(b.engine, at(1, device), 64 * KIB, &value, 8, timeline,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_in_range(b.heads[1]->calls - calls, 2, 12);
    device_free(&b, 1, device);
    bench_close(&b);
}

/* -- NUMA nodes -------------------------------------------------------------------------------- */

static int policies[2]; /* [0]: NUMA policy during the latest allocation of pinned memory; [1]:
                           first node of this policy, or -1 if it has none */

static ferry_status
note_policy(ferryi_device *device, ferry_memory_kind kind, size_t bytes, void **out)
{
    unsigned long nodes[16] = {0};
    int policy = -1;
    if (kind == FERRY_MEMORY_PINNED &&
        syscall(SYS_get_mempolicy, &policy, nodes, sizeof(nodes) * 8, NULL, 0) == 0) {
        policies[0] = policy;
        policies[1] = nodes[0] ? __builtin_ctzl(nodes[0]) : -1;
    }
    (void)device;
    *out = malloc(bytes);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
free_noted(ferryi_device *device, ferry_memory_kind kind, void *memory)
{
    (void)device, (void)kind;
    free(memory);
    return FERRY_OK;
}

static int
policy_now(void)
{
    int policy = -1;
    return syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0 ? policy : -1;
}

/* Lets a staging ring allocate a chunk for a device near `node`, and records the NUMA policy during
 * this allocation. */
static void
note_chunk(int node)
{
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    struct ferryi_device_ops ops = *b.heads[1]->ops;
    const struct ferryi_device_ops *before = b.heads[1]->ops;
    ops.memory_alloc = note_policy;
    ops.memory_free = free_noted;
    b.heads[1]->ops = &ops;
    struct ferryi_ring ring;
    struct ferryi_chunk *chunk;
    ferryi_ring_init(&ring, b.heads[1], &b.order, 4 * KIB, 2, node);
    assert_int_equal(ferryi_ring_take(&ring, true, &chunk), FERRY_OK);
    ferryi_ring_give(&ring, chunk);
    ferryi_ring_clear(&ring);
    b.heads[1]->ops = before;
    bench_close(&b);
}

enum { POLICY_DEFAULT, POLICY_PREFERRED, POLICY_BIND }; /* of set_mempolicy(2) */

static void
test_chunks_prefer_the_node_of_their_device(void **state)
{
    unsigned long first = 1;
    (void)state;
    if (policy_now() != POLICY_DEFAULT ||
        syscall(SYS_set_mempolicy, POLICY_BIND, &first, sizeof(first) * 8) != 0)
        skip();
    /* If the program has set a NUMA policy, the engine must not replace it. */
    note_chunk(0);
    assert_int_equal(policies[0], POLICY_BIND);
    assert_int_equal(policy_now(), POLICY_BIND);
    assert_int_equal(syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0ul), 0);
    note_chunk(0);
    assert_int_equal(policies[0], POLICY_PREFERRED);
    assert_int_equal(policies[1], 0);
    assert_int_equal(policy_now(), POLICY_DEFAULT);
    /* For these nodes, the engine must not set a policy: unknown node, node that this machine
     * lacks, and number above every possible node. */
    static const int others[] = {-1, 1000, 100000};
    for (size_t i = 0; i < 3; i++) {
        note_chunk(others[i]);
        assert_int_equal(policies[0], POLICY_DEFAULT);
        assert_int_equal(policy_now(), POLICY_DEFAULT);
    }
}

static void
test_a_node_for_helpers_is_near_to_all_devices(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    assert_int_equal(ferryi_engine_common_node(b.heads, 0), -1);
    assert_int_equal(ferryi_engine_common_node(b.heads, 2), -1);
    b.heads[1]->host_node = 4;
    assert_int_equal(ferryi_engine_common_node(b.heads, 1), 3);
    assert_int_equal(ferryi_engine_common_node(b.heads, 2), -1);
    b.heads[2]->host_node = 4;
    assert_int_equal(ferryi_engine_common_node(b.heads, 2), 3);
    b.heads[2]->host_node = 1;
    assert_int_equal(ferryi_engine_common_node(b.heads, 2), -1);
    bench_close(&b);
}

/* -- progress and cancelling ------------------------------------------------------------------- */

struct watch {
    size_t calls, stop_at, last, total;
    bool backwards;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct watch *w = user;
    w->backwards |= done < w->last;
    w->last = done;
    w->total = total;
    return ++w->calls != w->stop_at;
}

/* Kinds of transfers. For *_TAKEN, the device copies pageable memory directly. For *_REFUSED, the
 * device also does so, but refuses one byte in the middle. */
enum way {
    UP,
    DOWN,
    UP_PINNED,
    DOWN_PINNED,
    INSIDE,
    PEER,
    PEER_STAGED,
    HOST,
    FILL4,
    FILL3,
    UP_TAKEN,
    DOWN_TAKEN,
    UP_REFUSED,
    DOWN_REFUSED,
    WAYS
};

/* A transfer from the memory `from` to the memory `to`. `expected` has the bytes that the test
 * stored in `from`. */
struct trip {
    struct bench b;
    enum way way;
    size_t bytes;
    char *from, *to, *expected;
    int from_place, to_place;
};

/* Returns a factor for the lengths of transfers. Short transfers of pageable memory are always
 * staged, so a test of direct copies needs long transfers. */
static size_t
scale(enum way way)
{
    return way < UP_TAKEN ? 1 : 10;
}

static void
trip_open(struct trip *t, enum way way, size_t bytes)
{
    static const int from[WAYS] = {0, 1, 0, 1, 1, 1, 1, 0, -1, -1, 0, 1, 0, 1},
                     to[WAYS] = {1, 0, 1, 0, 1, 2, 2, 0, 1, 1, 1, 0, 1, 0};
    memset(t, 0, sizeof(*t));
    /* Helper threads use at most half of the staging ring, so a ring with helpers needs more
     * chunks. */
    bench_open(&t->b, 4 * KIB, staging_threads > 1 ? 8 : 3);
    t->way = way;
    t->bytes = bytes;
    t->from_place = from[way];
    t->to_place = to[way];
    t->expected = allocate(bytes);
    scribble(t->expected, bytes, way);
    if (way == FILL4 || way == FILL3)
        for (size_t i = 0; i < bytes; i++)
            t->expected[i] = "abcd"[i % (way == FILL4 ? 4 : 3)];
    t->from = t->from_place > 0 ? device_memory(&t->b, t->from_place, bytes) : allocate(bytes);
    t->to = t->to_place > 0 ? device_memory(&t->b, t->to_place, bytes) : allocate(bytes);
    memcpy(t->from, t->expected, bytes);
    memset(t->to, 0xCC, bytes);
    if (way == UP_PINNED)
        rig_pin(t->b.devices[1], t->from, bytes);
    if (way == DOWN_PINNED)
        rig_pin(t->b.devices[1], t->to, bytes);
    t->b.devices[2]->no_peers = way == PEER_STAGED;
    if (way >= UP_TAKEN)
        t->b.heads[1]->capabilities |= FERRYI_DEVICE_TAKES_PAGEABLE;
    if (way >= UP_REFUSED) {
        t->b.devices[1]->refused = (way == UP_REFUSED ? t->from : t->to) + bytes / 2;
        t->b.devices[1]->refused_bytes = 1;
    }
}

static void
trip_finish(struct trip *t)
{
    finish(&t->b, 1);
    finish(&t->b, 2);
}

static void
trip_close(struct trip *t)
{
    trip_finish(t);
    if (t->from_place > 0)
        device_free(&t->b, t->from_place, t->from);
    else
        free(t->from);
    if (t->to_place > 0)
        device_free(&t->b, t->to_place, t->to);
    else
        free(t->to);
    free(t->expected);
    bench_close(&t->b);
}

static ferry_status
trip_go(struct trip *t, struct ferryi_transfer_job *job)
{
    struct ferryi_transfer_job none = {0};
    bool fill = t->way == FILL4 || t->way == FILL3;
    struct ferryi_memory target = at(t->to_place, t->to), source = at(t->from_place, t->from);
    target.pinned = t->way == DOWN_PINNED;
    source.pinned = t->way == UP_PINNED;
    ferryi_timeline *timeline;
    ferry_status status = ferryi_engine_timeline(t->b.engine, t->to_place,
                                                 fill ? t->to_place : t->from_place, &timeline);
    if (status != FERRY_OK)
        return status;
    if (fill)
        return ferryi_engine_fill(t->b.engine, target, t->bytes, "abcd", t->way == FILL4 ? 4 : 3,
                                  timeline, job ? job : &none);
    return ferryi_engine_copy(t->b.engine, target, source, t->bytes, timeline, job ? job : &none);
}

/* Checks that the first `done` bytes are copied and that the other bytes are unchanged. In a
 * download with helper threads, some of the other bytes may also be copied. */
static void
assert_prefix(const struct trip *t, size_t done)
{
    assert_memory_equal(t->to, t->expected, done);
    if ((t->way == DOWN || t->way == DOWN_REFUSED) && staging_threads > 1) {
        for (size_t i = done; i < t->bytes; i++)
            assert_true(t->to[i] == t->expected[i] || (unsigned char)t->to[i] == 0xCC);
        return;
    }
    for (size_t i = done; i < t->bytes; i++)
        assert_int_equal((unsigned char)t->to[i], 0xCC);
}

static void
test_progress_is_monotonic_and_ends_at_the_total(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct trip t;
        trip_open(&t, way, 30012 * scale(way));
        struct watch w = {0};
        ferry_copy_options options = {
            .chunk_bytes = 6000 * scale(way), .keep_going = keep_going, .user = &w};
        struct ferryi_transfer_job job = {.options = &options};
        assert_int_equal(trip_go(&t, &job), FERRY_OK);
        assert_false(w.backwards);
        assert_int_equal(w.last, t.bytes);
        assert_int_equal(w.total, t.bytes);
        assert_int_equal(job.done, t.bytes);
        assert_in_range(w.calls, 4, 9);
        trip_finish(&t);
        assert_prefix(&t, t.bytes);
        trip_close(&t);
    }
}

static void
test_cancel_at_each_chunk(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        for (size_t stop = 1;; stop++) {
            struct trip t;
            trip_open(&t, way, 30012 * scale(way));
            struct watch w = {.stop_at = stop};
            ferry_copy_options options = {
                .chunk_bytes = 3000 * scale(way), .keep_going = keep_going, .user = &w};
            struct ferryi_transfer_job job = {.options = &options};
            ferry_status status = trip_go(&t, &job);
            bool all = job.done == t.bytes;
            assert_int_equal(status, all ? FERRY_OK : FERRY_ERROR_CANCELLED);
            if (!all) {
                char text[64];
                snprintf(text, sizeof(text), "%zu of %zu bytes arrived", job.done, t.bytes);
                assert_non_null(strstr(ferry_last_error(), text));
            }
            trip_finish(&t);
            assert_prefix(&t, job.done);
            assert_int_equal(t.b.trace.bytes, job.done);
            /* After the cancelled transfer, the engine must still be usable. */
            memset(t.to, 0xCC, t.bytes);
            assert_int_equal(trip_go(&t, NULL), FERRY_OK);
            trip_finish(&t);
            assert_prefix(&t, t.bytes);
            trip_close(&t);
            if (all)
                break;
        }
    }
}

static void
test_a_flag_cancels_too(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct trip t;
        trip_open(&t, way, 30012 * scale(way));
        atomic_bool flag = true;
        struct ferryi_transfer_job job = {.cancelled = &flag, .done = 100, .total = 40000};
        assert_int_equal(trip_go(&t, &job), FERRY_ERROR_CANCELLED);
        assert_non_null(strstr(ferry_last_error(), "100 of 40000 bytes arrived"));
        trip_finish(&t);
        assert_prefix(&t, 0);
        assert_int_equal(t.b.traces, 0);
        flag = false;
        assert_int_equal(trip_go(&t, &job), FERRY_OK);
        trip_close(&t);
    }
}

/* Runs a job of several transfers. Its progress callback keep_going must get a count over all
 * transfers, and must be able to cancel a transfer after the first. */
static void
test_progress_over_several_transfers(void **state)
{
    (void)state;
    struct trip t;
    trip_open(&t, UP, 10000);
    struct watch w = {.stop_at = 4};
    ferry_copy_options options = {.chunk_bytes = 3500, .keep_going = keep_going, .user = &w};
    struct ferryi_transfer_job job = {.options = &options, .total = 30000};
    /* Each transfer has 10000 bytes, and the engine calls keep_going after each 3500 of them: at
     * 3500 and 7000 in the first transfer, and at 13500 and 17000 in the second. The last of these
     * calls cancels. */
    assert_int_equal(trip_go(&t, &job), FERRY_OK);
    assert_int_equal(w.calls, 2);
    assert_int_equal(w.last, 7000);
    assert_int_equal(w.total, 30000);
    assert_int_equal(trip_go(&t, &job), FERRY_ERROR_CANCELLED);
    assert_int_equal(w.last, job.done);
    assert_int_equal(job.done, 17000);
    char text[64];
    snprintf(text, sizeof(text), "%zu of 30000 bytes arrived", job.done);
    assert_non_null(strstr(ferry_last_error(), text));
    job.done = 20000;
    assert_int_equal(trip_go(&t, &job), FERRY_OK);
    assert_int_equal(w.last, 30000);
    assert_false(w.backwards);
    trip_close(&t);
}

struct nested {
    struct trip *trip;
    char *device;
    int runs;
};

static bool
copy_inside(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    struct nested *n = user;
    char back[9000] = {0};
    assert_int_equal(copy(&n->trip->b, at(0, back), at(1, n->device), sizeof(back), NULL),
                     FERRY_OK);
    assert_int_equal(copy(&n->trip->b, at(1, n->device), at(0, back), sizeof(back), NULL),
                     FERRY_OK);
    n->runs++;
    return true;
}

/* Checks that the progress callback keep_going can make a copy. During the callback, the engine
 * must not hold a lock or all chunks of the staging ring. */
static void
test_keep_going_may_copy(void **state)
{
    (void)state;
    static const enum way ways[] = {UP, DOWN, PEER_STAGED};
    for (size_t i = 0; i < 3; i++) {
        struct trip t;
        trip_open(&t, ways[i], 50000);
        struct nested n = {.trip = &t, .device = device_memory(&t.b, 1, 9000)};
        ferry_copy_options options = {.keep_going = copy_inside, .user = &n};
        struct ferryi_transfer_job job = {.options = &options};
        assert_int_equal(trip_go(&t, &job), FERRY_OK);
        assert_int_equal(n.runs, 13);
        trip_finish(&t);
        assert_prefix(&t, t.bytes);
        device_free(&t.b, 1, n.device);
        trip_close(&t);
    }
}

/* -- the chunks of uploads --------------------------------------------------------------------- */

/* Checks that a transfer of pageable memory is divided into parts of `expected` bytes. If
 * `ring_chunk` or `part` is 0, the engine chooses the size of the chunks or of the parts. */
static void
assert_parts(unsigned threads, size_t ring_chunk, size_t part, size_t bytes, bool down,
             size_t expected)
{
    const unsigned before = staging_threads;
    struct bench b;
    staging_threads = threads;
    bench_open(&b, ring_chunk, 0);
    b.engine->config.part_bytes = part;
    staging_threads = before;
    char *device = device_memory(&b, 1, bytes), *host = allocate(bytes);
    scribble(down ? device : host, bytes, 6);
    const struct rig_stream *stream =
        (down ? timeline_for(&b, 0, 1) : timeline_for(&b, 1, 0))->native;
    assert_int_equal(down ? copy(&b, at(0, host), at(1, device), bytes, NULL)
                          : copy(&b, at(1, device), at(0, host), bytes, NULL),
                     FERRY_OK);
    finish(&b, 1);
    assert_memory_equal(device, host, bytes);
    size_t left = bytes;
    for (size_t i = 0; left > 0; i++) {
        assert_true(i < stream->count);
        assert_int_equal(stream->operations[i].bytes, left < expected ? left : expected);
        left -= stream->operations[i].bytes;
    }
    device_free(&b, 1, device);
    free(host);
    bench_close(&b);
}

/* Checks into which parts transfers are divided. Short transfers have two parts, unless these would
 * be very short. From 1 MiB on, all parts have the same size, and long ones have a longer one. */
static void
test_transfers_are_divided_into_equal_parts(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        assert_parts(threads, 0, 0, 64 * KIB, false, 64 * KIB);
        assert_parts(threads, 0, 0, 128 * KIB, false, 64 * KIB);
        assert_parts(threads, 0, 0, 32 * KIB, true, 32 * KIB);
        assert_parts(threads, 0, 0, 64 * KIB, true, 32 * KIB);
        for (int down = 0; down < 2; down++) {
            assert_parts(threads, 0, 0, 512 * KIB, down, 256 * KIB);
            assert_parts(threads, 0, 0, MIB, down, 256 * KIB);
            assert_parts(threads, 0, 0, 4 * MIB + 1, down, 256 * KIB);
            assert_parts(threads, 0, 0, 16 * MIB, down, 256 * KIB);
        }
    }
    assert_parts(4, 0, 0, 256 * MIB, false, 512 * KIB);
    /* a configured chunk, and configured parts, which are whole pages and fit into a chunk */
    assert_parts(4, 512 * KIB, 0, 16 * MIB, false, 512 * KIB);
    assert_parts(4, 0, 128 * KIB, 16 * MIB, true, 128 * KIB);
    assert_parts(4, 0, 128 * KIB + 1, 16 * MIB, false, 132 * KIB);
    assert_parts(4, 0, 5 * MIB, 16 * MIB, false, 512 * KIB);
    assert_parts(4, 64 * KIB, 16 * KIB, 2 * MIB, false, 16 * KIB);
    assert_parts(4, 0, 16 * KIB, 128 * KIB, false, 64 * KIB); /* parts are for long transfers */
}

/* -- devices that take pageable memory --------------------------------------------------------- */

/* Checks direct copies of a device that accepts pageable memory. The call must wait for its copy,
 * because the device accesses the memory only when the stream reaches the copy. */
static void
test_pageable_memory_goes_straight_and_is_waited_for(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    b.heads[1]->capabilities |= FERRYI_DEVICE_TAKES_PAGEABLE;
    size_t bytes = MIB + 5;
    char *device = device_memory(&b, 1, bytes), *source = allocate(bytes), *same = allocate(bytes);
    scribble(source, bytes, 4);
    memcpy(same, source, bytes);
    ferryi_timeline *in = timeline_for(&b, 1, 0);
    uint64_t calls = b.heads[1]->calls;
    assert_int_equal(ferryi_engine_copy(b.engine, at(1, device), at(0, source), bytes, in,
                                        &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    assert_int_equal(b.heads[1]->calls - calls, 2); /* the copy and the wait */
    assert_false(b.trace.staged);
    memset(source, 0, bytes);
    finish(&b, 1);
    assert_memory_equal(device, same, bytes);
    assert_int_equal(copy(&b, at(0, source), at(1, device), bytes, NULL), FERRY_OK);
    assert_memory_equal(source, same, bytes);
    assert_false(b.trace.staged);
    assert_int_equal(stats(&b).direct.bytes, 2 * bytes);
    assert_int_equal(b.devices[1]->live_allocations, 1); /* the ring has no chunk */

    /* A short upload is staged, so the call need not wait for the device. */
    assert_int_equal(copy(&b, at(1, device), at(0, source), FERRYI_STAGED_MOST, NULL), FERRY_OK);
    assert_true(b.trace.staged);
    assert_int_equal(stats(&b).staged.bytes, FERRYI_STAGED_MOST);
    device_free(&b, 1, device);
    free(source);
    free(same);
    bench_close(&b);
}

/* Checks that no queued copy of the stream reads this memory. */
static void
assert_unread(const struct rig_stream *stream, const char *memory, size_t bytes)
{
    for (size_t i = stream->performed; i < stream->count; i++) {
        const struct rig_operation *operation = &stream->operations[i];
        if (operation->what == RIG_COPY)
            assert_true(operation->source >= memory + bytes ||
                        operation->source + operation->bytes <= memory);
    }
}

/* Lets the device refuse a range of pageable memory, for example because only a part of it is
 * page-locked. The engine must stage the rest and report no failure. */
static void
test_what_a_device_does_not_take_is_staged(void **state)
{
    (void)state;
    for (enum way way = UP_REFUSED; way <= DOWN_REFUSED; way++) {
        for (size_t part = 0; part <= 1; part++) {
            struct trip t;
            trip_open(&t, way, MIB);
            struct watch w = {0};
            ferry_copy_options options = {
                .chunk_bytes = 128 * KIB, .keep_going = keep_going, .user = &w};
            struct ferryi_transfer_job job = {.options = part ? &options : NULL};
            ferryi_fail(FERRY_OK, "%s", "as before");
            assert_int_equal(trip_go(&t, &job), FERRY_OK);
            assert_string_equal(ferry_last_error(), "as before");
            assert_true(t.b.trace.staged);
            if (way == UP_REFUSED) {
                assert_unread(timeline_for(&t.b, 1, 0)->native, t.from, t.bytes);
                memset(t.from, 0, t.bytes);
            }
            trip_finish(&t);
            assert_prefix(&t, t.bytes);
            /* The refused byte is in the middle of the memory. If `part` is 1, the engine copies in
             * chunks and must stage only the second half. If `part` is 0, it must stage all of the
             * memory. */
            assert_int_equal(t.b.engine->chunks * 4 * KIB, part ? MIB / 2 : MIB);
            trip_close(&t);
        }
    }
}

#define PIECES 5

/* Copies PIECES ranges of `bytes` bytes in one direction, with gaps between the ranges. Returns
 * whether the engine staged them. */
static bool
pieces_trip(bool up, size_t bytes, size_t refused, bool watched)
{
    size_t step = bytes + 64;
    struct bench bench, *b = &bench;
    /* A new ring has unused chunks, so the engine need not wait for a chunk. */
    bench_open(b, 256 * KIB, 3);
    b->heads[1]->capabilities |= FERRYI_DEVICE_TAKES_PAGEABLE;
    char *device = device_memory(b, 1, PIECES * step), *host = allocate(PIECES * step),
         *from = up ? host : device, *to = up ? device : host, *same = allocate(PIECES * step);
    struct ferryi_piece pieces[PIECES];
    scribble(same, PIECES * step, up);
    memcpy(from, same, PIECES * step);
    memset(to, 0xCC, PIECES * step);
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct ferryi_piece){.target = to + i * step,
                                          .source = from + i * step,
                                          .bytes = bytes,
                                          .target_place = up,
                                          .source_place = !up};
    b->devices[1]->refused = refused < PIECES ? host + refused * step : NULL;
    b->devices[1]->refused_bytes = refused < PIECES;
    struct watch w = {0};
    ferry_copy_options options = {.chunk_bytes = 2 * bytes, .keep_going = keep_going, .user = &w};
    struct ferryi_transfer_job job = {.options = watched ? &options : NULL};
    assert_int_equal(ferryi_engine_copy_pieces(b->engine, pieces, PIECES, FERRYI_LAYOUT_ANY, NULL,
                                               timeline_for(b, up, !up), &job),
                     FERRY_OK);
    assert_int_equal(job.done, PIECES * bytes);
    if (up) {
        assert_unread(timeline_for(b, 1, 0)->native, host, PIECES * step);
        memset(host, 0, PIECES * step);
    }
    finish(b, 1);
    for (size_t i = 0; i < PIECES * step; i++)
        assert_int_equal((unsigned char)to[i], i % step < bytes ? (unsigned char)same[i] : 0xCC);
    device_free(b, 1, device);
    free(host);
    free(same);
    bench_close(b);
    return b->trace.staged;
}

static void
test_pieces_go_straight_too(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        for (int watched = 0; watched < 2; watched++) {
            assert_false(pieces_trip(up, 100 * KIB, PIECES, watched));
            assert_true(pieces_trip(up, 10 * KIB, PIECES, watched));
            for (size_t refused = 0; refused < PIECES; refused++)
                assert_true(pieces_trip(up, 100 * KIB, refused, watched));
        }
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Makes the n-th call of one device fail, for every n. Checks that the bytes that are reported as
 * done have arrived, and that the engine is still usable. */
static void
fail_each_call(enum way way, int place)
{
    for (int nth = 0;; nth++) {
        struct trip t;
        trip_open(&t, way, 30012 * scale(way));
        struct ferryi_transfer_job job = {0};
        rig *device = t.b.devices[place];
        rig_fail(device, nth);
        ferry_status status = trip_go(&t, &job);
        bool tripped = device->tripped;
        rig_fail(device, -1);
        if (!tripped)
            assert_int_equal(status, FERRY_OK);
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_DEVICE);
            assert_non_null(strstr(ferry_last_error(), "told to fail"));
            /* The bytes that are reported as done must have arrived when the call returns. */
            assert_memory_equal(t.to, t.expected, job.done);
            char text[64];
            snprintf(text, sizeof(text), "%zu of which arrived", job.done);
            if (job.done > 0)
                assert_non_null(strstr(ferry_last_error(), text));
        } else {
            trip_finish(&t);
            assert_prefix(&t, t.bytes);
        }
        assert_int_equal(t.b.trace.bytes, job.done);
        memset(t.to, 0xCC, t.bytes);
        assert_int_equal(trip_go(&t, NULL), FERRY_OK);
        trip_finish(&t);
        assert_prefix(&t, t.bytes);
        trip_close(&t);
        if (!tripped)
            break;
    }
}

static void
test_whatever_call_fails(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        fail_each_call(way, 1);
        fail_each_call(way, 2);
    }
}

static void
test_out_of_pinned_memory(void **state)
{
    (void)state;
    struct trip t;
    trip_open(&t, UP, 30012);
    rig *device = t.b.devices[1];
    /* If the engine cannot allocate the first chunk of the staging ring, the transfer must fail. */
    device->fail_slot = "memory_alloc";
    rig_fail(device, 0);
    device->fail_with = FERRY_ERROR_OUT_OF_MEMORY;
    assert_int_equal(trip_go(&t, NULL), FERRY_ERROR_OUT_OF_MEMORY);
    assert_prefix(&t, 0);
    /* If the engine cannot allocate the second chunk, the transfer must use only the first chunk.
     */
    rig_fail(device, 1);
    device->fail_with = FERRY_ERROR_OUT_OF_MEMORY;
    assert_int_equal(trip_go(&t, NULL), FERRY_OK);
    assert_true(device->tripped);
    trip_finish(&t);
    assert_prefix(&t, t.bytes);
    device->fail_slot = NULL;
    rig_fail(device, -1);
    trip_close(&t);
}

/* -- transforms -------------------------------------------------------------------------------- */

static ferry_status
widen(void *target, const void *source, size_t count, const void *user)
{
    int add = *(const int *)user;
    for (size_t i = 0; i < count; i++)
        ((double *)target)[i] = ((const float *)source)[i] + add;
    return FERRY_OK;
}

/* Copies `count` elements, which a transform converts on the way. */
static ferry_status
copy_transformed(struct bench *b, struct ferryi_memory target, struct ferryi_memory source,
                 size_t count, const struct ferryi_transform *transform, ferryi_timeline *timeline,
                 struct ferryi_transfer_job *job)
{
    const bool down = target.place == 0 && source.place != 0;
    const size_t unit = down ? transform->source_bytes : transform->target_bytes;
    const struct ferryi_piece piece = {.target = target.pointer,
                                       .source = source.pointer,
                                       .bytes = count * unit,
                                       .unit = (uint32_t)unit,
                                       .target_place = (uint8_t)target.place,
                                       .source_place = (uint8_t)source.place};
    const struct ferryi_host_side host_side = {.transform = transform};
    return ferryi_engine_copy_pieces(b->engine, &piece, 1, FERRYI_LAYOUT_ANY, &host_side, timeline,
                                     job);
}

static void
test_elements_are_transformed_on_the_way(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 3);
    size_t count = 10007;
    int add = 3;
    struct ferryi_transform transform = {
        .run = widen, .source_bytes = 4, .target_bytes = 8, .user = &add};
    float *from = allocate(count * 4);
    double *host = allocate(count * 8), *up = (double *)device_memory(&b, 1, count * 8);
    float *down = (float *)device_memory(&b, 1, count * 4);
    for (size_t i = 0; i < count; i++)
        from[i] = down[i] = (float)i;
    struct ferryi_transfer_job job = {0};
    assert_int_equal(copy_transformed(&b, at(1, up), at(0, from), count, &transform,
                                      timeline_for(&b, 1, 0), &job),
                     FERRY_OK);
    finish(&b, 1);
    for (size_t i = 0; i < count; i++)
        assert_true(up[i] == (double)i + 3);
    assert_int_equal(job.done, count * 8);
    assert_int_equal(stats(&b).upload.bytes, count * 8);
    assert_int_equal(copy_transformed(&b, at(0, host), at(1, down), count, &transform,
                                      timeline_for(&b, 0, 1), &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(host[i] == (double)i + 3);
    assert_int_equal(stats(&b).download.bytes, count * 4);
    memset(host, 0, count * 8);
    assert_int_equal(copy_transformed(&b, at(0, host), at(0, from), count, &transform, NULL,
                                      &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(host[i] == (double)i + 3);
    transform.target_bytes = 5000;
    assert_int_equal(copy_transformed(&b, at(1, up), at(0, from), 1, &transform,
                                      timeline_for(&b, 1, 0), &(struct ferryi_transfer_job){0}),
                     FERRY_ERROR_UNSUPPORTED);
    free(from);
    free(host);
    device_free(&b, 1, (char *)up);
    device_free(&b, 1, (char *)down);
    bench_close(&b);
}

struct widening {
    uint64_t caller;    /* the thread that starts the transfer */
    bool wait;          /* whether the caller waits until another thread has transformed elements */
    atomic_bool others; /* whether another thread has transformed elements */
};

static ferry_status
widen_by_any_thread(void *target, const void *source, size_t count, const void *user)
{
    struct widening *widening = (void *)(uintptr_t)user;
    const int add = 3;
    if (ferryi_thread_id() != widening->caller)
        atomic_store(&widening->others, true);
    while (widening->wait && !atomic_load(&widening->others))
        sched_yield();
    return widen(target, source, count, &add);
}

/* Checks that helper threads transform elements only if the transform allows it. */
static void
test_helpers_transform_elements(void **state)
{
    (void)state;
    const size_t count = 1000003;
    float *from = allocate(count * 4);
    for (size_t i = 0; i < count; i++)
        from[i] = (float)i;
    for (int allowed = 0; allowed < 2; allowed++) {
        struct bench b;
        staging_threads = 4;
        bench_open(&b, 4 * KIB, 16);
        staging_threads = 1;
        struct widening widening = {.caller = ferryi_thread_id(), .wait = allowed};
        const struct ferryi_transform transform = {.run = widen_by_any_thread,
                                                   .source_bytes = 4,
                                                   .target_bytes = 8,
                                                   .by_helpers = allowed,
                                                   .user = &widening};
        double *up = (double *)device_memory(&b, 1, count * 8);
        assert_int_equal(copy_transformed(&b, at(1, up), at(0, from), count, &transform,
                                          timeline_for(&b, 1, 0), &(struct ferryi_transfer_job){0}),
                         FERRY_OK);
        finish(&b, 1);
        for (size_t i = 0; i < count; i++)
            assert_true(up[i] == (double)i + 3);
        assert_int_equal(atomic_load(&widening.others), allowed);
        device_free(&b, 1, (char *)up);
        bench_close(&b);
    }
    free(from);
}

/* -- threads ----------------------------------------------------------------------------------- */

struct worker {
    struct bench *b;
    char *device;
    unsigned seed;
    bool ok;
};

static void
round_trips(void *user)
{
    struct worker *w = user;
    size_t bytes = 40000;
    char *source = malloc(bytes), *back = malloc(bytes);
    ferryi_timeline *in, *out;
    w->ok = source && back && ferryi_engine_timeline(w->b->engine, 1, 0, &in) == FERRY_OK &&
            ferryi_engine_timeline(w->b->engine, 0, 1, &out) == FERRY_OK;
    for (unsigned round = 0; w->ok && round < 20; round++) {
        scribble(source, bytes, w->seed + round);
        w->ok = ferryi_engine_copy(w->b->engine, at(1, w->device), at(0, source), bytes, in,
                                   &(struct ferryi_transfer_job){0}) == FERRY_OK &&
                FERRYI_CALL(w->b->heads[1], stream_synchronize, in->native) == FERRY_OK &&
                ferryi_engine_copy(w->b->engine, at(0, back), at(1, w->device), bytes, out,
                                   &(struct ferryi_transfer_job){0}) == FERRY_OK &&
                memcmp(source, back, bytes) == 0;
    }
    free(source);
    free(back);
}

static void
no_trace(const ferry_trace *trace, void *user)
{
    (void)trace, (void)user;
}

static void
test_threads_share_a_ring(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4 * KIB, 2);
    ferryi_engine_destroy(&b.engine);
    struct ferryi_engine_config config = {.devices = b.heads,
                                          .count = 2,
                                          .order = &b.order,
                                          .log = &b.log,
                                          .chunk_bytes = 4 * KIB,
                                          .chunk_count = 2,
                                          .threads = staging_threads,
                                          .trace = no_trace};
    assert_int_equal(ferryi_engine_create(&config, &b.engine), FERRY_OK);
    struct worker workers[4];
    ferryi_thread threads[4];
    for (unsigned i = 0; i < 4; i++) {
        workers[i] =
            (struct worker){.b = &b, .device = device_memory(&b, 1, 40000), .seed = i * 50};
        assert_int_equal(ferryi_thread_start(&threads[i], "trips", round_trips, &workers[i]),
                         FERRY_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        ferryi_thread_join(threads[i]);
        assert_true(workers[i].ok);
        device_free(&b, 1, workers[i].device);
    }
    ferry_transfer_stats s = stats(&b);
    assert_int_equal(s.upload.copies, 80);
    assert_int_equal(s.download.bytes, 80 * 40000);
    bench_close(&b);
}

/* Checks transfers that run at the same time on emulated devices, which have a thread for each
 * stream. */
static void
test_emulated_devices(void **state)
{
    (void)state;
    struct bench b = {0};
    struct ferryi_device_config device_config = {0};
    for (int place = 1; place <= 2; place++)
        assert_int_equal(ferryi_emulated_kind.open(place - 1, &device_config, &b.heads[place]),
                         FERRY_OK);
    assert_int_equal(ferryi_order_init(&b.order, &b.log), FERRY_OK);
    struct ferryi_engine_config config = {.devices = b.heads,
                                          .count = 2,
                                          .order = &b.order,
                                          .log = &b.log,
                                          .chunk_bytes = 4 * KIB,
                                          .chunk_count = 3,
                                          .threads = staging_threads,
                                          .trace = on_trace,
                                          .trace_user = &b};
    assert_int_equal(ferryi_engine_create(&config, &b.engine), FERRY_OK);
    size_t bytes = 3 * MIB + 5;
    char *one = device_memory(&b, 1, bytes), *two = device_memory(&b, 2, bytes),
         *source = allocate(bytes);
    char *back = allocate(bytes + 1);
    scribble(source, bytes, 8);
    for (size_t part = 1; part <= bytes; part = part * 7 + 3)
        round_trip(&b, one, source, back, part);
    round_trip(&b, one, source, back, bytes);
    assert_int_equal(copy(&b, at(2, two), at(1, one), bytes, NULL), FERRY_OK);
    finish(&b, 2);
    assert_false(b.trace.staged);
    assert_int_equal(copy(&b, at(0, back), at(2, two), bytes, NULL), FERRY_OK);
    assert_memory_equal(back, source, bytes);
    assert_int_equal(ferryi_engine_fill(b.engine, at(1, one), 999 * 7, "seven..", 7,
                                        timeline_for(&b, 1, 1), &(struct ferryi_transfer_job){0}),
                     FERRY_OK);
    finish(&b, 1);
    assert_int_equal(copy(&b, at(0, back), at(1, one), 999 * 7, NULL), FERRY_OK);
    for (size_t i = 0; i < 999; i++)
        assert_memory_equal(back + i * 7, "seven..", 7);
    free(source);
    free(back);
    device_free(&b, 1, one);
    device_free(&b, 2, two);
    ferryi_engine_destroy(&b.engine);
    ferryi_order_clear(&b.order);
    for (int place = 1; place <= 2; place++)
        b.heads[place]->ops->close(b.heads[place]);
}

int
main(void)
{
    if (getenv("FERRY_TEST_THREADS"))
        staging_threads = (unsigned)atoi(getenv("FERRY_TEST_THREADS"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_arrives),
        cmocka_unit_test(test_many_chunks_with_any_chunk_size),
        cmocka_unit_test(test_an_upload_returns_when_its_source_may_be_reused),
        cmocka_unit_test(test_pinned_memory_goes_straight_in_one_call),
        cmocka_unit_test(test_a_small_pageable_copy_is_short),
        cmocka_unit_test(test_a_full_ring_is_waited_for_by_halves),
        cmocka_unit_test(test_counts_are_exact_by_direction_and_path),
        cmocka_unit_test(test_each_transfer_is_reported_once),
        cmocka_unit_test(test_host_copies_may_overlap),
        cmocka_unit_test(test_coherent_places_are_host_memory),
        cmocka_unit_test(test_peers_copy_directly_or_through_the_host),
        cmocka_unit_test(test_what_can_be_reached),
        cmocka_unit_test(test_fills_of_every_element_size),
        cmocka_unit_test(test_an_element_larger_than_a_chunk_fills_too),
        cmocka_unit_test(test_repeating_elements_need_one_call),
        cmocka_unit_test(test_chunks_prefer_the_node_of_their_device),
        cmocka_unit_test(test_a_node_for_helpers_is_near_to_all_devices),
        cmocka_unit_test(test_progress_is_monotonic_and_ends_at_the_total),
        cmocka_unit_test(test_cancel_at_each_chunk),
        cmocka_unit_test(test_a_flag_cancels_too),
        cmocka_unit_test(test_progress_over_several_transfers),
        cmocka_unit_test(test_keep_going_may_copy),
        cmocka_unit_test(test_transfers_are_divided_into_equal_parts),
        cmocka_unit_test(test_pageable_memory_goes_straight_and_is_waited_for),
        cmocka_unit_test(test_what_a_device_does_not_take_is_staged),
        cmocka_unit_test(test_pieces_go_straight_too),
        cmocka_unit_test(test_whatever_call_fails),
        cmocka_unit_test(test_out_of_pinned_memory),
        cmocka_unit_test(test_elements_are_transformed_on_the_way),
        cmocka_unit_test(test_helpers_transform_elements),
        cmocka_unit_test(test_threads_share_a_ring),
        cmocka_unit_test(test_emulated_devices),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
