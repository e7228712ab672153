/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_BENCH_RESULTS_H
#define FERRY_CLI_BENCH_RESULTS_H

/*
 * What ferry bench measures: copies of many sizes, allocations, conversions and scopes, each beside
 * what a program without Ferry would call. A measurement that the machine does not have is 0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <ferry/ferry.h>

#include "cli/bench_by_hand.h"

enum bench_direction { BENCH_UP, BENCH_DOWN, BENCH_DIRECTIONS };
/* Who copies, and from or to which host memory. */
enum bench_means { HAND_PAGEABLE, HAND_PINNED, FERRY_PAGEABLE, FERRY_PINNED, BENCH_MEANS };

enum { LINK_SIZES_MAX = 9, POOL_SIZES_MAX = 4, CONVERSIONS = 3, HITS = 3, QUANTILES = 101 };

struct link_result {
    size_t bytes;                               /* of one copy */
    double rate[BENCH_DIRECTIONS][BENCH_MEANS]; /* GB/s */
};

/* One kind of allocator at one size. Nanoseconds of one free and one allocation. */
struct latency {
    size_t count;
    double quantile[QUANTILES]; /* [i]: i % of all took at most this */
    double p999;
    double batch; /* of one pair among many that are timed together, without the clock */
};

struct pool_result {
    size_t bytes;
    struct latency hand, ferry;
};

struct pair_result {
    const char *name;
    double hand, ferry;
};

struct bench_results {
    const char *kind, *device; /* of place 1; they belong to the context */
    char processor[128];
    long cores;
    bool quick;
    double seconds,
        clock_ns; /* clock_ns: what reading the clock twice costs; it is part of each latency */
    size_t link_count, pool_count;
    struct link_result link[LINK_SIZES_MAX];
    struct pool_result pool[POOL_SIZES_MAX];
    struct pair_result conversions[CONVERSIONS]; /* GB/s, bytes read and written */
    struct pair_result hits[HITS];               /* ns of opening and closing a scope */
};

/* A bar on standard error, where that is a terminal. */
struct progress {
    bool shown;
    int done, total;
};

/* What every measurement uses. */
struct bench_run {
    ferry_context *context;
    struct by_hand by_hand;
    struct progress progress;
    struct bench_results *results;
};

/* Shows that the next of `total` steps begins. */
void progress_step(struct progress *progress, const char *what);

/* Each fills its part of the results; false after a message on standard error. The steps are those
 * that progress_step() is called for. */
bool bench_link(struct bench_run *run);
bool bench_pool(struct bench_run *run);
bool bench_calls(struct bench_run *run);
int bench_link_steps(bool quick);
int bench_pool_steps(bool quick);
int bench_calls_steps(void);

/* Writes a `struct bench_results` as JSON, which cli/report reads. */
void bench_report(FILE *file, const void *what);

#endif
