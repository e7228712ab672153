/* SPDX-License-Identifier: MIT */
#ifndef BENCH_SLEEPER_H
#define BENCH_SLEEPER_H

/*
 * A thread that only sleeps during a measurement. The C library skips atomics in a process with one
 * thread, so a benchmark starts this second thread. A program that uses a device has several
 * threads.
 */

#include <pthread.h>
#include <stdbool.h>

struct bench_sleeper {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool end;
};

/* Starts the sleeping thread. If the thread cannot be created, prints a message on stderr and
 * returns false. */
bool bench_sleeper_start(struct bench_sleeper *sleeper);
/** Wakes the sleeping thread, and waits until it has ended. */
void bench_sleeper_stop(struct bench_sleeper *sleeper);

#endif
