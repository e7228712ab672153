/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_WORK_H
#define FERRY_TEST_BUFFER_WORK_H

/*
 * Asynchronous work for the tests of ordering: fills and copies that a device performs on a stream
 * between the opening and the closing of a scope, and real kernels that run on every device. The
 * library does not count the fills and copies.
 */

#include "tests/buffer/support.h"

/* Queue a fill or a copy of the device on memory that scopes returned. */
void queue_fill(fixture *f, ferry_stream *stream, void *target, int value, size_t count);
void queue_copy(fixture *f, ferry_stream *stream, void *target, const void *source, size_t count);

void *open_on(ferry_buffer *buffer, ferry_stream *stream, ferry_access access, size_t offset,
              size_t count, ferry_scope *scope);

/* Queue a fill inside one scope, and a copy inside two scopes. */
void fill_on(fixture *f, ferry_buffer *buffer, ferry_stream *stream, size_t offset, size_t count,
             int value);
void copy_on(fixture *f, ferry_stream *stream, ferry_buffer *target, size_t to,
             ferry_buffer *source, size_t from, size_t count);

/* Kernels of ints: fill(out, value), add(inout, value), copy(out, in). Only one `work` may be open
 * at a time. */
typedef struct work {
    ferry_kernel *fill, *add, *copy;
    ferryi_device *device; /* owns the pinned memory that the kernels read; NULL: none is needed */
} work;

/* Returns the PTX of the kernels. */
const char *work_image(void);

void work_open(fixture *f, work *w);
void work_close(work *w);
/* Sets how long each kernel sleeps before it writes. */
void work_delay(unsigned microseconds);
/* Returns the number of kernels that have run. */
unsigned work_done(void);
/* Opens or closes the gate: kernels block while it is closed. It is open at first. Close it only
 * where kernels run on threads of the device. */
void work_gate(bool open);
ferry_status launch_fill(work *w, ferry_stream *stream, ferry_buffer *out, size_t offset,
                         size_t count, int value);
ferry_status launch_add(work *w, ferry_stream *stream, ferry_buffer *inout, size_t offset,
                        size_t count, int value);
ferry_status launch_copy(work *w, ferry_stream *stream, ferry_buffer *out, size_t to,
                         ferry_buffer *in, size_t from, size_t count);

/* Whether the device of place 1 performs work only when waited for, and whether it performs work on
 * separate threads. */
bool is_lazy(fixture *f);
bool runs_apart(fixture *f);

ferry_stream *make_stream(fixture *f, int place);
/* Creates more streams at place 1 than there are stream numbers: the last streams have none. */
enum { STREAM_CROWD = 70 };
void make_crowd(fixture *f, ferry_stream **streams);
void destroy_crowd(ferry_stream **streams);
/* Destroys the streams in the order of the arguments: DESTROY_STREAMS(&a, &b). */
#define DESTROY_STREAMS(...) destroy_streams((ferry_stream **const[]){__VA_ARGS__, NULL})
void destroy_streams(ferry_stream **const *streams);
uint64_t device_calls(fixture *f);
void expect_ints(ferry_buffer *buffer, const int *expected, size_t offset, size_t count);

/* Returns the seed of a random test, which is FERRY_TEST_SEED or else `seed`. Failing checks print
 * it. */
uint64_t start_random(uint64_t seed);

#endif
