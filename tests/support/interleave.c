/* SPDX-License-Identifier: MIT */
/* The part of the interleaver that is linked into test programs. The interleaver delays threads at
 * certain points of Ferry's code, in order to provoke races. This part finds the preloaded
 * libinterleave.so and makes Ferry call it at these points. */
#include "tests/support/interleave.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/interleave.h"
#include "src/base/sanitizer.h"

typedef void start_function(uint64_t seed, const void *base);

/* The interleaver identifies a point of the code by its distance from the function interleave().
 * The address of the point differs between runs, and the distance does not. */
#define FERRY_TEST_CODE ((const void *)(uintptr_t)&interleave)

static start_function *
find_start(void)
{
    start_function *start;
    void *symbol = dlsym(RTLD_DEFAULT, "interleave_start");
    memcpy(&start, &symbol, sizeof(start));
    return start;
}

bool
interleave_is_there(void)
{
    return find_start() != NULL;
}

bool
interleave(uint64_t seed)
{
    start_function *start = find_start();
    if (!start)
        return false;
#ifdef FERRYI_INTERLEAVES
    void *symbol = seed ? dlsym(RTLD_DEFAULT, "interleave_point") : NULL;
    void (*point)(const void *);
    memcpy(&point, &symbol, sizeof(point));
    atomic_store(&ferryi_interleave, point);
#endif
    start(seed, FERRY_TEST_CODE);
    return true;
}

/* Returns whether the program may preload libinterleave.so. It must not do so if a sanitizer
 * replaces functions of the C library, or if LD_PRELOAD is set, as under Valgrind. */
static bool
may_preload(void)
{
    const char *wish = getenv("FERRY_TEST_INTERLEAVE"), *preload = getenv("LD_PRELOAD");
    return !FERRYI_SANITIZED_MALLOC && !(wish && strcmp(wish, "no") == 0) && !(preload && *preload);
}

void
interleave_preload(char **argv)
{
    if (interleave_is_there() || !may_preload())
        return;
    setenv("LD_PRELOAD", FERRY_TEST_INTERLEAVE_LIBRARY, 1);
    execv("/proc/self/exe", argv);
    unsetenv("LD_PRELOAD");
}
