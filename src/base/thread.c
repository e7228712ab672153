/* SPDX-License-Identifier: MIT */
#include "src/base/base.h"
#include "src/base/interleave.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef FERRYI_INTERLEAVES
_Atomic(void (*)(const void *site)) ferryi_interleave;
#endif

_Alignas(max_align_t) char ferryi_any[1];

/* Asserts that a pthread function succeeded. According to POSIX, the functions whose results are
 * passed here fail only if they are misused. */
static void
must(int result)
{
    assert(result == 0);
    (void)result;
}

void
ferryi_system_mutex_init(pthread_mutex_t *mutex)
{
    must(pthread_mutex_init(mutex, NULL));
}

void
ferryi_system_mutex_init_brief(pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
    pthread_mutexattr_t attributes;
    must(pthread_mutexattr_init(&attributes));
    must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP));
    must(pthread_mutex_init(mutex, &attributes));
    must(pthread_mutexattr_destroy(&attributes));
#else
    ferryi_system_mutex_init(mutex);
#endif
}

void
ferryi_system_mutex_destroy(pthread_mutex_t *mutex)
{
    must(pthread_mutex_destroy(mutex));
}

void
ferryi_system_mutex_lock(pthread_mutex_t *mutex)
{
    FERRYI_INTERLEAVE_AT(__builtin_return_address(0));
    must(pthread_mutex_lock(mutex));
}

bool
ferryi_system_mutex_try_lock(pthread_mutex_t *mutex)
{
    int result = pthread_mutex_trylock(mutex);
    assert(result == 0 || result == EBUSY);
    return result == 0;
}

void
ferryi_system_mutex_unlock(pthread_mutex_t *mutex)
{
    must(pthread_mutex_unlock(mutex));
    FERRYI_INTERLEAVE_AT(__builtin_return_address(0));
}

void
ferryi_cond_init(ferryi_cond *cond)
{
    pthread_condattr_t attributes;
    must(pthread_condattr_init(&attributes));
    must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    must(pthread_cond_init(cond, &attributes));
    must(pthread_condattr_destroy(&attributes));
}

void
ferryi_cond_destroy(ferryi_cond *cond)
{
    must(pthread_cond_destroy(cond));
}

void
ferryi_cond_signal(ferryi_cond *cond)
{
    must(pthread_cond_signal(cond));
}

void
ferryi_cond_broadcast(ferryi_cond *cond)
{
    must(pthread_cond_broadcast(cond));
}

void
ferryi_system_cond_wait(ferryi_cond *cond, pthread_mutex_t *mutex)
{
    must(pthread_cond_wait(cond, mutex));
}

bool
ferryi_system_cond_wait_until(ferryi_cond *cond, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                .tv_nsec = (long)(deadline_ns % 1000000000u)};
    int result = pthread_cond_timedwait(cond, mutex, &deadline);
    assert(result == 0 || result == ETIMEDOUT);
    return result == 0;
}

/* Maximum duration of spinning in nanoseconds. Waking a thread in a virtual machine takes about as
 * long. A thread that spins in vain and then sleeps therefore loses at most about as much time as
 * the wake-up takes. */
#define SPIN_NS 50000
/* Time in nanoseconds after which a spinning thread also yields the processor, because the thread
 * for which it waits may need the processor. */
#define SPIN_ALONE_NS 5000
/* Number of pause instructions that a spinning thread executes between two readings of the clock.
 */
#define SPIN_PAUSES 4

static void
pause_processor(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

uint64_t
ferryi_spin_end(void)
{
    static _Atomic unsigned processors;
    unsigned count = atomic_load_explicit(&processors, memory_order_relaxed);
    if (count == 0)
        atomic_store_explicit(&processors, count = ferryi_processors(), memory_order_relaxed);
    return count > 1 ? ferryi_now_ns() + SPIN_NS : 0;
}

bool
ferryi_spin(uint64_t end)
{
    for (int i = 0; i < SPIN_PAUSES && end; i++)
        pause_processor();
    uint64_t now = end ? ferryi_now_ns() : 0;
    if (end && now + SPIN_NS > end + SPIN_ALONE_NS)
        ferryi_yield();
    return now < end;
}

struct start {
    char name[16];
    void (*run)(void *);
    void *argument;
};

static void *
thread_main(void *opaque)
{
    struct start start = *(struct start *)opaque;
    free(opaque);
    pthread_setname_np(pthread_self(), start.name);
    start.run(start.argument);
    return NULL;
}

ferry_status
ferryi_thread_start(ferryi_thread *out, const char *name, void (*run)(void *), void *argument)
{
    struct start *start = calloc(1, sizeof(*start));
    if (!start)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "start thread %s: no memory for %zu bytes",
                           name, sizeof(*start));
    strncpy(start->name, name, sizeof(start->name) - 1);
    start->run = run;
    start->argument = argument;

    /* A new thread inherits the signal mask, so all signals are blocked while the thread is
     * created. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = pthread_create(out, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (result != 0) {
        free(start);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "start thread %s: pthread_create: %s", name,
                           strerror(result));
    }
    return FERRY_OK;
}

void
ferryi_thread_join(ferryi_thread thread)
{
    must(pthread_join(thread, NULL));
}

void
ferryi_thread_detach(ferryi_thread thread)
{
    must(pthread_detach(thread));
}
