/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"
#include "src/base/machine.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool
ferryi_grow(void *items_address, size_t *room, size_t needed, size_t item_bytes)
{
    size_t bytes, target = ferryi_max_size(needed, 2 * *room);
    if (needed <= *room)
        return true;
    void *items;
    memcpy(&items, items_address, sizeof(items));
    items = ferryi_mul_size(target, item_bytes, &bytes) ? realloc(items, bytes) : NULL;
    if (!items)
        return false;
    memcpy(items_address, &items, sizeof(items));
    *room = target;
    return true;
}

uint64_t
ferryi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void
ferryi_sleep_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void
ferryi_yield(void)
{
    sched_yield();
}

size_t
ferryi_physical_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    size_t bytes;
    if (pages <= 0 || !ferryi_mul_size((size_t)pages, ferryi_page_bytes(), &bytes))
        return (size_t)1 << 30;
    return bytes;
}

size_t
ferryi_page_bytes(void)
{
    static atomic_long known; /* sysconf() takes as long as some of the loops that call this */
    long bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == 0) {
        bytes = sysconf(_SC_PAGESIZE);
        bytes = bytes > 0 ? bytes : 4096;
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return (size_t)bytes;
}

const char *
ferryi_getenv(const char *name)
{
    return secure_getenv(name);
}

uint64_t
ferryi_page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

uint64_t
ferryi_thread_id(void)
{
    static _Thread_local uint64_t id;
    if (id == 0)
        id = (uint64_t)syscall(SYS_gettid);
    return id;
}

/* Returns the CPU quota of this process as a number of processors, or 0 if there is no quota. The
 * quota is read only once. */
static unsigned
quota(void)
{
    static _Atomic unsigned known; /* the quota plus 1; 0: not read yet */
    unsigned value = atomic_load_explicit(&known, memory_order_relaxed);
    if (value == 0) {
        value = 1 + ferryi_machine_quota("");
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return value - 1;
}

unsigned
ferryi_processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                             : (int)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = quota(), processors = count > 1 ? (unsigned)count : 1;
    return most > 0 && most < processors ? most : processors;
}

uint64_t
ferryi_process_id(void)
{
    return (uint64_t)getpid();
}

/* This constant is from <linux/mman.h>, which some C libraries lack. */
enum { MADVISE_POPULATE_WRITE = 23 };

void
ferryi_populate(void *memory, size_t bytes)
{
    size_t page = ferryi_page_bytes();
    uintptr_t begin = (uintptr_t)memory & ~(uintptr_t)(page - 1);
    size_t length = (uintptr_t)memory + bytes - begin;
    (void)madvise((void *)begin, (length + page - 1) & ~(page - 1), MADVISE_POPULATE_WRITE);
}

void
ferryi_set_inherited(void *memory, size_t bytes, bool inherited)
{
    size_t page = ferryi_page_bytes();
    uintptr_t begin = ((uintptr_t)memory + page - 1) & ~(uintptr_t)(page - 1),
              end = ((uintptr_t)memory + bytes) & ~(uintptr_t)(page - 1);
    if (begin < end)
        (void)madvise((void *)begin, end - begin, inherited ? MADV_DOFORK : MADV_DONTFORK);
}

bool
ferryi_is_writable(const void *memory, size_t bytes)
{
    uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    char *line = NULL, *at;
    size_t room = 0;
    bool writable = true;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && getline(&line, &room, file) > 0) {
        uintptr_t from = strtoull(line, &at, 16), to = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
        if (from < end && begin < to && strncmp(at, " r-", 3) == 0)
            writable = false;
    }
    if (file)
        fclose(file);
    free(line);
    return writable;
}

/* These constants are from <linux/membarrier.h>, which some C libraries lack. */
enum { MEMBARRIER_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER_EXPEDITED = 1 << 4 };

bool
ferryi_fence_all_prepare(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_REGISTER_EXPEDITED, 0, 0) == 0;
}

/* Duration in nanoseconds of the sleep with which ferryi_fence_all() replaces memory fences in the
 * other threads. A processor delays a store, or executes a load early, for a much shorter time. A
 * thread that is descheduled during the sleep executes a fence in the kernel. */
enum { FENCE_NS = 1000000 };

void
ferryi_fence_all(void)
{
    /* The system call can fail although ferryi_fence_all_prepare() succeeded, because a sandbox may
     * have forbidden it since then. */
    if (syscall(SYS_membarrier, MEMBARRIER_EXPEDITED, 0, 0) != 0)
        ferryi_sleep_ns(FENCE_NS);
}
