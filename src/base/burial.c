/* SPDX-License-Identifier: MIT */
#include "src/base/fork.h"
#include "src/base/guarded.h"

#include <string.h>

#define BURIED 1024

FERRYI_MUTEX_CLASS(ferryi_burial_mutex);

static struct {
    struct ferryi_burial_mutex mutex;
    unsigned next FERRYI_GUARDED_BY(ferryi_burial_mutex);
    struct {
        void *header;
        void (*release)(void *header);
    } graves[BURIED] FERRYI_GUARDED_BY(ferryi_burial_mutex);
} yard = {.mutex = FERRYI_MUTEX_INITIALIZER};
static struct ferryi_fork_part burying = {.mutex = FERRYI_SYSTEM_MUTEX(&yard.mutex)};
FERRYI_AT_FORK_UNDER(burying, 3)

void
ferryi_bury(void *header, void (*release)(void *header))
{
    ferryi_mutex_lock(&yard.mutex);
    unsigned at = yard.next++ % BURIED;
    void *oldest = yard.graves[at].header;
    void (*release_oldest)(void *header) = yard.graves[at].release;
    yard.graves[at].header = header;
    yard.graves[at].release = release;
    ferryi_mutex_unlock(&yard.mutex);
    if (oldest)
        release_oldest(oldest);
}

bool
ferryi_is_debug_run(void)
{
    const char *wanted = ferryi_getenv("FERRY_DEBUG");
#ifdef FERRYI_DEBUG_CHECKS
    return !wanted || strcmp(wanted, "0") != 0;
#else
    return wanted && *wanted && strcmp(wanted, "0") != 0;
#endif
}
