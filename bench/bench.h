/* SPDX-License-Identifier: MIT */
#ifndef BENCH_H
#define BENCH_H

/*
 * What the benchmark programs share: time, medians, a device to run on, and the report. A report
 * prints a table for people and writes the same numbers as records with --json FILE, the
 * environment first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ferry/ferry.h>

/* -- time -------------------------------------------------------------------------------------- */

double bench_now_ns(void);
/** Of `count` >= 1 samples, which it sorts. */
double bench_median(double *samples, size_t count);
/** The round whose ratio of `ours` to `theirs` is the median of `count` >= 1. What the machine does
 * to both in a round is in neither's favour. */
size_t bench_middle_round(const double *ours, const double *theirs, size_t count);

/* -- the command line and the device ----------------------------------------------------------- */

struct bench_options {
    const char *json; /**< or NULL */
    bool quick; /**< --quick: as little as shows that the program works; its numbers mean nothing */
};

/** Parse --json FILE and --quick; false after a message on stderr. */
bool bench_parse(int argc, char **argv, struct bench_options *out);

/**
 * A context on FERRY_DEVICE; where that is not set, on the best CUDA device, else on an emulated
 * one with `emulated_bytes` of memory, where copies are real. NULL after a message on stderr.
 */
ferry_context *bench_context(size_t emulated_bytes);

/** Writes the processor's name as the kernel reports it, or "unknown". */
void bench_processor(char *name, size_t name_bytes);

/** Say on stderr that `what` failed, and why; returns false. */
bool bench_failed(const char *what);

/* -- the report -------------------------------------------------------------------------------- */

enum bench_goal_kind { BENCH_NO_GOAL, BENCH_AT_MOST, BENCH_AT_LEAST, BENCH_EXACTLY };

/** For the ratio where there is a peer, else for the value. */
struct bench_goal {
    enum bench_goal_kind kind;
    double limit;
};

struct bench_record {
    const char *case_name, *metric, *unit; /**< borrowed during bench_report_add() */
    double value;
    const char *peer; /**< or NULL */
    double peer_value;
    struct bench_goal goal;
};

struct bench_report {
    const char *bench;
    FILE *json; /**< or NULL */
};

/** Begin: opens the file and writes the environment record, with the device at place 1 of
 * `context`. */
bool bench_report_open(struct bench_report *report, const char *bench,
                       const struct bench_options *options, ferry_context *context);
void bench_report_add(struct bench_report *report, const struct bench_record *record);
/** Calls of the device, counted and not timed, between two looks at the statistics; the goal is
 * that there are none. */
void bench_report_device_calls(struct bench_report *report, const char *case_name,
                               const ferry_transfer_stats *before,
                               const ferry_transfer_stats *after);
/** End the file; false after a message on stderr when it could not be written. */
bool bench_report_close(struct bench_report *report);

/** What a program measures; false after a message on stderr. */
typedef bool bench_run(ferry_context *context, struct bench_report *report, bool quick);
/** All of a main: the command line, a device as of bench_context(), the report called `name`, and
 * `run` in between. @return the exit status */
int bench_main(int argc, char **argv, const char *name, size_t emulated_bytes, bench_run *run);

#endif
