/* SPDX-License-Identifier: MIT */
#ifndef BENCH_SLEEPER_H
#define BENCH_SLEEPER_H

/*
 * A thread that does nothing but sleep while others are measured: a C library skips atomics in a
 * process with one thread, and a program that has a device has several.
 */

#include <pthread.h>
#include <stdbool.h>

struct bench_sleeper {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool end;
};

/** False after a message on stderr when there is no thread. */
bool bench_sleeper_start(struct bench_sleeper *sleeper);
/** Wakes it, and waits for its end. */
void bench_sleeper_stop(struct bench_sleeper *sleeper);

#endif
