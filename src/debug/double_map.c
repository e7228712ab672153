/* SPDX-License-Identifier: MIT */
#include "src/base/fork.h"
#include "src/debug/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A block of memory that can be mapped a second time, for checked runs. All allocations are in one
 * anonymous file, each at a different offset, so that the process needs only one file descriptor.
 */

struct allocation {
    struct allocation *next;
    char *memory;
    size_t bytes;
    off_t offset;
};

FERRYI_MUTEX_CLASS(ferryi_shared_mutex);

static struct {
    struct ferryi_shared_mutex mutex;
    int file FERRYI_GUARDED_BY(ferryi_shared_mutex); /* 0: not created yet; -1: creation failed */
    off_t end FERRYI_GUARDED_BY(ferryi_shared_mutex);
    struct allocation *allocations FERRYI_GUARDED_BY(ferryi_shared_mutex);
} shared = {.mutex = FERRYI_MUTEX_INITIALIZER};

/* Called after a fork. The child closes the inherited file, and creates a new file at its first
 * allocation. If the child used the inherited file, its allocations could overlap those of its
 * parent and its siblings. Memory that the parent allocated stays mapped in the child. */
static void
forget_file(bool in_child)
{
    ferryi_mutex_is_held(&shared.mutex);
    if (!in_child)
        return;
    if (shared.file > 0)
        close(shared.file);
    shared.file = 0;
    shared.end = 0;
    shared.allocations = NULL;
}

static struct ferryi_fork_part sharing = {.mutex = FERRYI_SYSTEM_MUTEX(&shared.mutex),
                                          .after = forget_file};
FERRYI_AT_FORK_UNDER(sharing, 1)

/* Extends the file by `bytes`. */
FERRYI_REQUIRES(ferryi_shared_mutex)
static bool
extend(size_t bytes)
{
    if (shared.file == 0) {
        int file = memfd_create("ferry checked memory", MFD_CLOEXEC);
        shared.file = file > 0 ? file : -1;
    }
    return shared.file > 0 && ftruncate(shared.file, shared.end + (off_t)bytes) == 0;
}

ferry_status
ferryi_double_map_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    size_t page = ferryi_page_bytes(), rounded;
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    void *memory = MAP_FAILED;
    errno = ENOMEM; /* unless a call of the system fails for another reason */

    ferryi_mutex_lock(&shared.mutex);
    if (allocation && ferryi_round_up(bytes, page, &rounded) && extend(rounded))
        memory = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, shared.file, shared.end);
    if (memory != MAP_FAILED) {
        *allocation = (struct allocation){
            .next = shared.allocations, .memory = memory, .bytes = rounded, .offset = shared.end};
        shared.allocations = allocation;
        shared.end += (off_t)rounded;
    }
    int error = errno;
    ferryi_mutex_unlock(&shared.mutex);

    if (memory == MAP_FAILED) {
        free(allocation);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "allocate %zu bytes of host memory for a checked run: %s (or "
                           "vm.max_map_count is reached)",
                           bytes, strerror(error));
    }
    *out = memory;
    return FERRY_OK;
}

/* Finds the allocation that contains `memory`. Returns the address of the list's pointer to this
 * allocation. If there is no such allocation, returns the address of the NULL pointer at the end of
 * the list. */
FERRYI_REQUIRES(ferryi_shared_mutex)
static struct allocation **
find(const char *memory)
{
    struct allocation **at = &shared.allocations;
    while (*at && !(memory >= (*at)->memory && memory < (*at)->memory + (*at)->bytes))
        at = &(*at)->next;
    return at;
}

ferry_status
ferryi_double_map_free(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    ferryi_mutex_lock(&shared.mutex);
    struct allocation **at = find(memory), *gone = *at;
    if (gone) {
        *at = gone->next;
        munmap(gone->memory, gone->bytes);
        /* Frees the memory of the allocation's part of the file, but keeps the file's size. */
        (void)fallocate(shared.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, gone->offset,
                        (off_t)gone->bytes);
    }
    ferryi_mutex_unlock(&shared.mutex);
    free(gone);
    return FERRY_OK;
}

/* Reserves `bytes` bytes of inaccessible addresses, with one inaccessible page before and one after
 * them. Returns the first address after the page before, aligned to `align`. Returns NULL if the
 * system has no addresses left. */
static char *
reserve(size_t bytes, size_t align)
{
    size_t page = ferryi_page_bytes(), wanted = bytes + 2 * page, slack = align > page ? align : 0;
    char *room =
        mmap(NULL, wanted + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t gap = slack ? (size_t)(-(uintptr_t)(room + page) & (align - 1)) : 0;
    if (gap > 0)
        munmap(room, gap);
    if (slack > gap)
        munmap(room + gap + wanted, slack - gap);
    return room + gap + page;
}

void *
ferryi_alias_make(const void *memory, size_t bytes, size_t align)
{
    char *alias = NULL;
    ferryi_mutex_lock(&shared.mutex);
    const struct allocation *of = *find(memory);
    if (of)
        alias = reserve(bytes, align);
    if (alias && mmap(alias, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, shared.file,
                      of->offset + ((const char *)memory - of->memory)) == MAP_FAILED) {
        ferryi_alias_free(alias, bytes);
        alias = NULL;
    }
    ferryi_mutex_unlock(&shared.mutex);
    return alias;
}

bool
ferryi_alias_protect(void *alias, size_t bytes, enum ferryi_protection protection)
{
    static const int flags[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    return mprotect(alias, bytes, flags[protection]) == 0;
}

void
ferryi_alias_void(void *alias, size_t bytes)
{
    if (mmap(alias, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        (void)ferryi_alias_protect(alias, bytes, FERRYI_PROTECT_NONE);
}

void
ferryi_alias_free(void *alias, size_t bytes)
{
    size_t page = ferryi_page_bytes();
    munmap((char *)alias - page, bytes + 2 * page);
}
