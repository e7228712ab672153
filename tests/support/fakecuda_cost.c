/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver. It makes each driver call take a
 * given time. The environment variable FAKECUDA_COST names a file with these times. The script
 * replay.py writes this file from a log of real driver calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/fakecuda_internal.h"

static unsigned long cost_ns[FAKE_ENTRY_COUNT];

/* Sets the time that the driver function `name` takes. Ignores functions that fakecuda does not
 * have. */
static void
set_cost(const char *name, unsigned long ns)
{
    for (int i = 0; i < FAKE_ENTRY_COUNT; i++)
        if (strcmp(fake_name((enum fake_entry)i), name) == 0)
            cost_ns[i] = ns;
}

static void
read_costs(void)
{
    char name[64];
    unsigned long ns;
    const char *path = getenv("FAKECUDA_COST");
    FILE *file = path && path[0] ? fopen(path, "re") : NULL;
    if (path && path[0] && !file)
        perror(path);
    while (file && fscanf(file, "%63s %lu", name, &ns) == 2)
        set_cost(name, ns);
    if (file)
        fclose(file);
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Spins for as long as the driver function `entry` takes. The caller must not hold the lock of
 * fakecuda. */
void
fake_cost_spin(enum fake_entry entry)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_costs);
    if (cost_ns[entry] == 0)
        return;
    uint64_t end = now_ns() + cost_ns[entry];
    while (now_ns() < end)
        continue;
}
