/* SPDX-License-Identifier: MIT */
#include "src/base/fork.h"
#include "src/debug/debug.h"

#include <string.h>

#define QUARANTINED 1024

FERRYI_MUTEX_CLASS(ferryi_quarantine_mutex);

static struct {
    struct ferryi_quarantine_mutex mutex;
    unsigned next FERRYI_GUARDED_BY(ferryi_quarantine_mutex);
    struct {
        void *header;
        void (*release)(void *header);
    } headers[QUARANTINED] FERRYI_GUARDED_BY(ferryi_quarantine_mutex);
} quarantine = {.mutex = FERRYI_MUTEX_INITIALIZER};
static struct ferryi_fork_part quarantining = {.mutex = FERRYI_SYSTEM_MUTEX(&quarantine.mutex)};
FERRYI_AT_FORK_UNDER(quarantining, 3)

void
ferryi_quarantine_add(void *header, void (*release)(void *header))
{
    ferryi_mutex_lock(&quarantine.mutex);
    unsigned at = quarantine.next++ % QUARANTINED;
    void *oldest = quarantine.headers[at].header;
    void (*release_oldest)(void *header) = quarantine.headers[at].release;
    quarantine.headers[at].header = header;
    quarantine.headers[at].release = release;
    ferryi_mutex_unlock(&quarantine.mutex);
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
