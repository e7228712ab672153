/* SPDX-License-Identifier: MIT */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

/*
 * Support for test cases that all ranks of a job run together. A case fails if it fails on at least
 * one rank. Rank 0 prints TAP, and each rank prints its own failures.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/ferry.h>
#include <ferry/int.h>
#include <ferry/mpi.h>

/* The common state of all cases of one rank. */
struct ranks {
    ferry_context *context;
    ferry_mpi *mpi; /* with two chunks of CHUNK_BYTES */
    int rank, size;
    ferry_stream *device; /* place 1 */
    bool separate;        /* whether device memory is separate from host memory */
};

#define CHUNK_BYTES 4096
#define CHUNK_INTS  (CHUNK_BYTES / sizeof(int))

struct rank_case {
    const char *name;
    void (*run)(struct ranks *ranks);
};

/* Prints a failure of the current test case and counts it. */
void ranks_fail(const char *file, int line, const char *text);
#define CHECK(condition) ((condition) ? (void)0 : ranks_fail(__FILE__, __LINE__, #condition))
#define CHECK_OK(call)   ranks_check_status((call), FERRY_OK, __FILE__, __LINE__, #call)
/* Checks that `call` returns `status`, and that its error message contains `what`. */
#define CHECK_FAILS(call, status, what)                                                            \
    ranks_check_failure((call), (status), (what), __FILE__, __LINE__, #call)
void ranks_check_status(ferry_status got, ferry_status expected, const char *file, int line,
                        const char *text);
void ranks_check_failure(ferry_status got, ferry_status expected, const char *what,
                         const char *file, int line, const char *text);

/* Initializes MPI, runs test cases, and finalizes MPI. The arguments name the cases to run; without
 * arguments all cases run. Returns the exit status of the program. */
int ranks_main(int argc, char **argv, const struct rank_case *cases, size_t count);
/* Marks the present case as skipped. All ranks must call this function. */
void ranks_skip(const char *reason);
/* Returns whether the device is a GPU. The memory of other devices is host memory, so every MPI
 * takes pointers to it. */
bool ranks_on_gpu(void);

/* Returns a buffer with the values `first`, `first` + 1 and so on. The buffer is current only on
 * the device if `on_device` is true, and only on the host if it is false. */
ferry_int_buffer ranks_numbers(struct ranks *ranks, size_t count, int first, bool on_device);
/* Checks that the `count` elements of the buffer from index `offset` have the values `first`,
 * `first` + `step` and so on. */
void ranks_check_numbers(ferry_int_buffer buffer, size_t offset, size_t count, int first, int step);
ferry_mpi_range ranks_range(ferry_int_buffer buffer, size_t offset, size_t count);

/* ranks_up() returns how many bytes were copied to the device, and ranks_down() how many were
 * copied to the host. Both count from the last call of ranks_reset(). */
void ranks_reset(struct ranks *ranks);
uint64_t ranks_up(struct ranks *ranks);
uint64_t ranks_down(struct ranks *ranks);
/* Returns how many bytes are copied from the device to the host if `count` elements on the device
 * are sent in chunks. Returns 0 if host and device share memory. */
uint64_t ranks_cost(const struct ranks *ranks, size_t count);

#endif
