/* SPDX-License-Identifier: MIT */
#ifndef BENCH_H
#define BENCH_H

/*
 * The common part of the benchmark programs: reading the time, medians, the choice of a device, and
 * the report. The report is printed as a table. With --json FILE the same numbers are also written
 * to a file as records. The first record describes the environment.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ferry/ferry.h>

/* -- time -------------------------------------------------------------------------------------- */

double bench_now_ns(void);
/* Returns the processor time of all threads of the process. */
double bench_processor_ns(void);
/* Sorts `samples`, and returns their median. `count` must be at least 1. */
double bench_median(double *samples, size_t count);
/**
 * Returns the index of the round with the median ratio of `ours` to `theirs`. `count` must be at
 * least 1. A disturbance that slows both measurements of a round does not change the ratio.
 */
size_t bench_middle_round(const double *ours, const double *theirs, size_t count);

/* -- the command line and the device ----------------------------------------------------------- */

struct bench_options {
    const char *json; /**< or NULL */
    bool quick; /**< whether --quick was given: a short run, which shows only that the program works
                 */
};

/**
 * Parses --json FILE and --quick. On wrong arguments prints a message on stderr and returns false.
 */
bool bench_parse(int argc, char **argv, struct bench_options *out);

/**
 * Returns a context on the device that FERRY_DEVICE names. If this variable is not set, uses the
 * best CUDA device. If there is no CUDA device, uses an emulated device with `emulated_bytes` bytes
 * of memory. The emulated device really copies the bytes. On failure prints a message on stderr and
 * returns NULL.
 */
ferry_context *bench_context(size_t emulated_bytes);

/* Writes the processor's name, family and model, as the Linux kernel reports them, to `name`.
 * Writes "unknown" if the kernel does not report a name. */
void bench_processor(char *name, size_t name_bytes);

/* Prints on stderr that `what` failed and why. Returns false. */
bool bench_failed(const char *what);

/* -- the report -------------------------------------------------------------------------------- */

enum bench_goal_kind { BENCH_NO_GOAL, BENCH_AT_MOST, BENCH_AT_LEAST, BENCH_EXACTLY };

/* A goal of a benchmark. It limits the ratio of the measured value to the value of the peer, with
 * which the benchmark compares Ferry. If there is no peer, the goal limits the measured value. */
struct bench_goal {
    enum bench_goal_kind kind;
    double limit;
};

struct bench_record {
    const char *case_name, *metric,
        *unit; /**< the strings need to be valid only during bench_report_add() */
    double value;
    const char *peer; /**< or NULL */
    double peer_value;
    struct bench_goal goal;
};

struct bench_report {
    const char *bench;
    FILE *json; /**< or NULL */
};

/**
 * Opens the report's file, and writes the record that describes the environment. The record
 * includes the device at place 1 of `context`.
 */
bool bench_report_open(struct bench_report *report, const char *bench,
                       const struct bench_options *options, ferry_context *context);
void bench_report_add(struct bench_report *report, const struct bench_record *record);
/* Reports the number of device calls between two readings of the statistics, `before` and `after`.
 * The goal is 0. */
void bench_report_device_calls(struct bench_report *report, const char *case_name,
                               const ferry_transfer_stats *before,
                               const ferry_transfer_stats *after);
/**
 * Completes and closes the report. If its file cannot be written, prints a message on stderr and
 * returns false.
 */
bool bench_report_close(struct bench_report *report);

/* The function of a benchmark program that makes its measurements. On failure it prints a message
 * on stderr and returns false. */
typedef bool bench_run(ferry_context *context, struct bench_report *report, bool quick);
/**
 * Does the whole work of main(): parses the command line, opens a device with bench_context(), and
 * calls `run` with a report called `name`. @return the exit status
 */
int bench_main(int argc, char **argv, const char *name, size_t emulated_bytes, bench_run *run);

#endif
