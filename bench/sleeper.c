/* SPDX-License-Identifier: MIT */
#include "sleeper.h"

#include <stdio.h>

static void *
sleep_until_the_end(void *argument)
{
    struct bench_sleeper *sleeper = argument;
    pthread_mutex_lock(&sleeper->mutex);
    while (!sleeper->end)
        pthread_cond_wait(&sleeper->wake, &sleeper->mutex);
    pthread_mutex_unlock(&sleeper->mutex);
    return NULL;
}

bool
bench_sleeper_start(struct bench_sleeper *sleeper)
{
    *sleeper = (struct bench_sleeper){.mutex = PTHREAD_MUTEX_INITIALIZER,
                                      .wake = PTHREAD_COND_INITIALIZER};
    if (pthread_create(&sleeper->thread, NULL, sleep_until_the_end, sleeper) == 0)
        return true;
    fputs("bench: cannot start a thread\n", stderr);
    return false;
}

void
bench_sleeper_stop(struct bench_sleeper *sleeper)
{
    pthread_mutex_lock(&sleeper->mutex);
    sleeper->end = true;
    pthread_cond_signal(&sleeper->wake);
    pthread_mutex_unlock(&sleeper->mutex);
    pthread_join(sleeper->thread, NULL);
}
