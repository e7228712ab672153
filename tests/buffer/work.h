/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_WORK_H
#define FERRY_TEST_BUFFER_WORK_H

/*
 * Asynchronous work for the tests of ordering: fills and copies that a device performs on a stream
 * between the opening and the closing of scopes, as kernels do, and kernels proper that run on
 * every device. None of it counts as a call of the library.
 */

#include "tests/buffer/support.h"

/* The device's own fill and copy, on memory that scopes gave out. */
void queue_fill(fixture *f, ferry_stream *stream, void *target, int value, size_t count);
void queue_copy(fixture *f, ferry_stream *stream, void *target, const void *source, size_t count);

void *open_on(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset,
              size_t count, ferry_scope *scope);

/* One scope around one fill, and two around one copy. */
void fill_on(fixture *f, ferry_buffer *buffer, ferry_stream *stream, size_t offset, size_t count,
             int value);
void copy_on(fixture *f, ferry_stream *stream, ferry_buffer *target, size_t to,
             ferry_buffer *source, size_t from, size_t count);

/* Kernels of ints: fill(out, value), add(inout, value), copy(out, in). One work is open at a time.
 */
typedef struct work {
    ferry_kernel *fill, *add, *copy;
    ferryi_device *device; /* holds the pinned memory that they read; NULL: none is needed */
} work;

/* Their PTX. */
const char *work_image(void);

void work_open(fixture *f, work *w);
void work_close(work *w);
/* Each kernel's body sleeps so long before it writes. */
void work_delay(unsigned microseconds);
/* Host functions that have run. */
unsigned work_done(void);
/* Host functions block until the gate is open, as it is at first. Only where they run on threads of
 * the device. */
void work_gate(bool open);
ferry_status launch_fill(work *w, ferry_stream *stream, ferry_buffer *out, size_t offset,
                         size_t count, int value);
ferry_status launch_add(work *w, ferry_stream *stream, ferry_buffer *inout, size_t offset,
                        size_t count, int value);
ferry_status launch_copy(work *w, ferry_stream *stream, ferry_buffer *out, size_t to,
                         ferry_buffer *in, size_t from, size_t count);

/* What the device of place 1 is: performs work only when waited for; performs it on its own
 * threads. */
bool is_lazy(fixture *f);
bool runs_apart(fixture *f);

ferry_stream *make_stream(fixture *f, int place);
/* More streams of place 1 than have numbers: the last have none. */
enum { STREAM_CROWD = 70 };
void make_crowd(fixture *f, ferry_stream **streams);
void destroy_crowd(ferry_stream **streams);
/* Destroys each, in this order: DESTROY_STREAMS(&a, &b). */
#define DESTROY_STREAMS(...) destroy_streams((ferry_stream **const[]){__VA_ARGS__, NULL})
void destroy_streams(ferry_stream **const *streams);
uint64_t device_calls(fixture *f);
void expect_ints(ferry_buffer *buffer, const int *expected, size_t offset, size_t count);

/* The seed of a random test: FERRY_TEST_SEED or this one. Failing checks print it. */
uint64_t start_random(uint64_t seed);

#endif
