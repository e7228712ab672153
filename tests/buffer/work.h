/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_WORK_H
#define FERRY_TEST_BUFFER_WORK_H

/*
 * Asynchronous work for the tests of ordering: fills, copies and kernels that run on every device.
 * Fills and copies are queued on a stream of the device while a scope is open. Ferry's statistics
 * do not count them.
 */

#include "tests/buffer/support.h"

/* queue_fill() queues a fill of memory that a scope returned. queue_copy() queues a copy from the
 * memory of one scope to the memory of another. */
void queue_fill(fixture *f, ferry_stream *stream, void *target, int value, size_t count);
void queue_copy(fixture *f, ferry_stream *stream, void *target, const void *source, size_t count);

void *open_on(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset,
              size_t count, ferry_scope *scope);

/* fill_on() opens a scope, queues a fill in it, and closes the scope. copy_on() opens two scopes,
 * queues a copy between them, and closes both. */
void fill_on(fixture *f, ferry_buffer *buffer, ferry_stream *stream, size_t offset, size_t count,
             int value);
void copy_on(fixture *f, ferry_stream *stream, ferry_buffer *target, size_t to,
             ferry_buffer *source, size_t from, size_t count);

/* The kernels fill(out, value), add(inout, value) and copy(out, in), for ints. Only one `work` may
 * be open at a time. */
typedef struct work {
    ferry_kernel *fill, *add, *copy;
    /* device that owns the pinned memory that the kernels read; NULL if they read no pinned
     * memory */
    ferryi_device *device;
} work;

/* Returns the PTX of the kernels. */
const char *work_image(void);

void work_open(fixture *f, work *w);
void work_close(work *w);
/* Sets how long each kernel sleeps before it writes. */
void work_delay(unsigned microseconds);
/* Returns the number of kernels that have run. */
unsigned work_done(void);
/* work_gate(false) makes all kernels block until work_gate(true) is called. At first, kernels do
 * not block. A test must not make kernels block unless they run on threads of the device, because
 * the test would hang. */
void work_gate(bool open);

/* close_gate() makes all kernels block until open_gate() is called. If that takes more than 5 s, a
 * thread lets the kernels go on, and open_gate() fails the test. So a test that wrongly waits for
 * these kernels fails and does not hang. */
struct watchdog {
    pthread_t thread;
    atomic_bool finished, late;
};

void close_gate(struct watchdog *dog);
void open_gate(struct watchdog *dog);
ferry_status launch_fill(work *w, ferry_stream *stream, ferry_buffer *out, size_t offset,
                         size_t count, int value);
ferry_status launch_add(work *w, ferry_stream *stream, ferry_buffer *inout, size_t offset,
                        size_t count, int value);
ferry_status launch_copy(work *w, ferry_stream *stream, ferry_buffer *out, size_t to,
                         ferry_buffer *in, size_t from, size_t count);

/* is_lazy() returns whether the device at place 1 works only when a call waits for the work.
 * runs_apart() returns whether that device works on separate threads. */
bool is_lazy(fixture *f);
bool runs_apart(fixture *f);

ferry_stream *make_stream(fixture *f, int place);
/* make_crowd() creates STREAM_CROWD streams at place 1. A context has only 62 stream numbers, so
 * the last of these streams have none. */
enum { STREAM_CROWD = 70 };
void make_crowd(fixture *f, ferry_stream **streams);
void destroy_crowd(ferry_stream **streams);
/* Destroys the streams in the order of the arguments: DESTROY_STREAMS(&a, &b). */
#define DESTROY_STREAMS(...) destroy_streams((ferry_stream **const[]){__VA_ARGS__, NULL})
void destroy_streams(ferry_stream **const *streams);
uint64_t device_calls(fixture *f);
void expect_ints(ferry_buffer *buffer, const int *expected, size_t offset, size_t count);

/* Returns the seed of a random test: FERRY_TEST_SEED if that is set, otherwise `seed`. Failing
 * checks print the seed. */
uint64_t start_random(uint64_t seed);

#endif
