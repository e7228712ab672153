/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_BUFFER_SUPPORT_H
#define FERRY_TEST_BUFFER_SUPPORT_H

/*
 * Fixture and helpers for the tests of buffers. A fixture opens one context per test on the devices
 * that FERRY_DEVICE names. Copies made by the device imitate kernels that access its memory. Other
 * helpers check how many bytes were transferred.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/bfloat16.h>
#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/complex_double.h>
#include <ferry/complex_float.h>
#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/float.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/int8.h>
#include <ferry/uint16.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

#include "src/stream/shell.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

typedef struct fixture {
    ferry_context *context;
    int places;    /* devices; their places are 1..places */
    bool coherent; /* whether the devices share the host's memory */
    /* Whether the device copies long pageable memory directly, without the staging ring. */
    bool takes_pageable;
    bool registers;       /* whether the device page-locks memory of the program */
    ferry_stream *stream; /* the default stream of place 1 */
    /* Number of logged errors that the test has not checked yet; teardown fails unless it is 0. */
    unsigned errors;
    char message[512]; /* the last error message */
    size_t traces;
    ferry_trace trace; /* copy of the last reported transfer, including its strings */
    char trace_buffer[64], trace_reason[64];
    unsigned char *pinned; /* memory for device copies; reused only after all work is done */
    size_t pinned_used;
    uint64_t seed;
} fixture;

/* These functions set up and tear down one test, whose state is a fixture. Teardown checks that no
 * memory, handle or unexpected error is left behind. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Opens a fixture with the given options. fixture_open() itself sets `devices` and the
 * callbacks. */
void fixture_open(fixture *f, const ferry_context_options *options);
void fixture_close(fixture *f);
/* Sets the other members of a fixture whose context the test itself has created. */
void fixture_begin(fixture *f);
/* Waits for all work and frees the fixture's pinned memory. This is the first half of
 * fixture_close(), for tests that destroy the context themselves. */
void fixture_finish(fixture *f);
/* Returns the number of the context's buffers, without spare stores. */
size_t living_stores(ferry_context *context);
/* A log callback that adds to an atomic_int, `user`, how often a separate thread has ended a
 * context. */
void count_end(ferry_log_level level, const char *message, void *user);
/* A visit of buffers that destroys the context at `user`, which a separate thread then ends. */
bool destroy_context(const ferry_buffer_info *info, void *user);
/* Checks that an error message containing `part` was logged. Clears the message, so that the
 * teardown of the test does not fail. */
void fixture_expect_log(fixture *f, const char *part);

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

/* -- statuses ---------------------------------------------------------------------------------- */

void support_check(ferry_status expected, ferry_status got, const char *call, const char *file,
                   int line);
/* The seed of a random test. If it is not 0, failing checks print it. */
extern uint64_t support_seed;
/* Sets the thread's error message to a text that no call of the library writes. */
void support_clear_error(void);

#define OK(call) support_check(FERRY_OK, (call), #call, __FILE__, __LINE__)
/* Checks that the call fails with this status and sets an error message. */
#define FAILS(status, call)                                                                        \
    (support_clear_error(), support_check((status), (call), #call, __FILE__, __LINE__))

#define STATE(buffer, name) assert_string_equal(ferry_state_name(ferry_buffer_state(buffer)), #name)

/* -- buffers of int ---------------------------------------------------------------------------- */

#define INT    ferry_int_element()
#define FLOAT  ferry_float_element()
#define DOUBLE ferry_double_element()
#define BYTE   ferry_byte_element()

ferry_buffer_info info_of(ferry_buffer *buffer);
ferry_buffer *make_ints(fixture *f, size_t count);
/* Creates a buffer whose element i is i + `first`, written at the host. */
ferry_buffer *make_counting(fixture *f, size_t count, int first);
/* Creates 3 * `left_count` buffers of `count` elements and writes them at place 1. Then destroys
 * all but every third buffer, and returns the remaining ones in `left`. Element j of left[i] is 3 *
 * i + j. */
void make_sparse(fixture *f, size_t count, ferry_buffer **left, size_t left_count);
/* Destroys the buffers in the order of the arguments: DESTROY_BUFFERS(&x, &y). */
#define DESTROY_BUFFERS(...) destroy_buffers((ferry_buffer **const[]){__VA_ARGS__, NULL})
void destroy_buffers(ferry_buffer **const *buffers);

/* Opens a scope and returns its pointer. The scope is at the host if `place` is 0, otherwise on the
 * default stream of that place. */
void *open_at(fixture *f, ferry_buffer *buffer, int place, ferry_access access, size_t offset,
              size_t count, ferry_scope *scope);
/* Marks the bytes as initialized for the memory sanitizer, which did not see who wrote them. */
void mark_initialized(void *memory, size_t bytes);
/* Opens a scope and closes it at once. This transfers bytes and changes the valid map just as a
 * real use would. */
void touch(fixture *f, ferry_buffer *buffer, int place, ferry_access access, size_t offset,
           size_t count);
/* Waits until the flag is set, or for 5 s. Does not call ferryi_sleep_ns(), whose calls some tests
 * count. */
void wait_until(const atomic_bool *set);

/* Opens an OVERWRITE scope on a range of the buffer at the place, and sets each element i in the
 * range to i + `first`. */
void write_counting(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count,
                    int first);
/* Opens an UPDATE scope on a range of the buffer at the place, and adds `amount` to each element in
 * the range. */
void add_to(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int amount);
/* Both functions read a range of the buffer through a READ scope at the place. expect_counting()
 * checks that element i is i + `first`. expect_constant() checks that every element equals
 * `value`. */
void expect_counting(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count,
                     int first);
void expect_constant(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count,
                     int value);

/* -- access to device memory, in the order of the place's default stream ----------------------- */

void device_write(fixture *f, int place, void *target, const void *source, size_t bytes);
void device_read(fixture *f, int place, void *target, const void *source, size_t bytes);
/* place_write() and place_read() copy to and from the memory of any place. At the host they call
 * memcpy(), elsewhere device_write() and device_read(). */
void place_write(fixture *f, int place, void *target, const void *source, size_t bytes);
void place_read(fixture *f, int place, void *target, const void *source, size_t bytes);
void *device_alloc(fixture *f, int place, size_t bytes);
void device_free(fixture *f, int place, void *memory);
ferryi_device *device_of(fixture *f, int place);
ferry_stream *stream_of(fixture *f, int place);

/* -- what moved -------------------------------------------------------------------------------- */

ferry_transfer_stats moved(fixture *f);
/* Returns the counters of staged transfers. */
struct ferryi_staging_stats staging_of(fixture *f);
/*
 * Checks that exactly `upload` bytes were copied to devices and `download` bytes from devices since
 * `before`. On devices that share the host's memory, it checks that no bytes were copied.
 */
void expect_moved(fixture *f, const ferry_transfer_stats *before, uint64_t upload,
                  uint64_t download);
/* Checks that exactly `upload` copies to devices and `download` copies from devices were made since
 * `before`. All chunks of a staged copy count as one copy. */
void expect_copies(fixture *f, const ferry_transfer_stats *before, uint64_t upload,
                   uint64_t download);
uint64_t crossing(const ferry_transfer_stats *stats);

/* -- sameness ---------------------------------------------------------------------------------- */

/* The state of a buffer that a failed call must not change. */
typedef struct snapshot {
    ferry_buffer_info info;
    char text[256];
} snapshot;

snapshot take_snapshot(ferry_buffer *buffer);
void expect_unchanged(ferry_buffer *buffer, const snapshot *before);

/* Returns 64 random bits. The same seed always produces the same sequence. */
uint64_t random_next(uint64_t *seed);
size_t random_below(uint64_t *seed, size_t limit);

#endif
