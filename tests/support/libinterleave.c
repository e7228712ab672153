/* SPDX-License-Identifier: MIT */
/* The preloaded library of the interleaver, which delays threads to provoke races. See
 * interleave.h. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

void interleave_start(uint64_t seed, const void *base);
void interleave_point(const void *site);

/* -- the choice -------------------------------------------------------------------------------- */

/* How often and how long threads are delayed. The seed selects one of four settings. */
struct manner {
    /* Of `yields` + 1 points that a thread passes, it yields at one on average. Of `sleeps` + 1
     * points, it sleeps at one. Both sums are powers of two. */
    uint64_t yields, sleeps;
    uint32_t longest_ns;
    uint32_t hot; /* of `hot` + 1 points, one is hot on average; the sum is a power of two */
};

static const struct manner manners[] = {
    {15, 255, 20000, 15}, {63, 1023, 100000, 31}, {7, 4095, 1000000, 63}, {255, 511, 50000, 7}};

static _Atomic uint64_t running_seed;
static _Atomic uint64_t threads;
static _Atomic uintptr_t program; /* an address in the program */

static _Thread_local uint64_t state, state_seed;
static _Thread_local bool inside;

static uint64_t
mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int (*real_nanosleep)(const struct timespec *, struct timespec *);
static int (*real_yield)(void);

static void
pause_for(uint64_t ns)
{
    struct timespec time = {0, (long)ns};
    real_nanosleep(&time, NULL);
}

/* Returns whether this seed makes the point hot. Threads sleep more often at a hot point: in one of
 * 32 passes, for 20 to 320 microseconds. */
static bool
is_hot(const struct manner *manner, uint64_t seed, const void *site)
{
    return (mix(seed ^ (uint64_t)((uintptr_t)site -
                                  atomic_load_explicit(&program, memory_order_relaxed))) &
            manner->hot) == 0;
}

static void
choose(uint64_t seed, const void *site)
{
    const struct manner *manner = &manners[mix(seed) % 4];
    if (state_seed != seed) {
        state_seed = seed;
        state = mix(seed + atomic_fetch_add(&threads, 1));
    }
    uint64_t word = mix(state += UINT64_C(0x9e3779b97f4a7c15));
    if (site && (word >> 40 & 31) == 0 && is_hot(manner, seed, site))
        pause_for(20000 + (word >> 8) % 300000);
    else if ((word & manner->sleeps) == 0)
        pause_for((word >> 16) % manner->longest_ns);
    else if ((word >> 16 & manner->yields) == 0)
        real_yield();
}

static void
pass(const void *site)
{
    uint64_t seed = atomic_load_explicit(&running_seed, memory_order_relaxed);
    if (seed == 0 || inside)
        return;
    int error = errno;
    inside = true;
    choose(seed, site);
    inside = false;
    errno = error;
}

void
interleave_point(const void *site)
{
    pass(site ? site : __builtin_return_address(0));
}

/* -- the C library ----------------------------------------------------------------------------- */

static int (*real_lock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_signal)(pthread_cond_t *);
static int (*real_broadcast)(pthread_cond_t *);

static void
find(void *out, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(out, &symbol, sizeof(symbol));
}

/* Finds the functions of the C library that this library wraps, before a second thread exists. If
 * a wrapper runs before this constructor, the wrapper calls this function itself. */
__attribute__((constructor)) static void
find_all(void)
{
    if (real_yield)
        return;
    find(&real_lock, "pthread_mutex_lock");
    find(&real_unlock, "pthread_mutex_unlock");
    find(&real_signal, "pthread_cond_signal");
    find(&real_broadcast, "pthread_cond_broadcast");
    find(&real_nanosleep, "nanosleep");
    find(&real_yield, "sched_yield");
}

void
interleave_start(uint64_t seed, const void *base)
{
    find_all();
    atomic_store(&program, (uintptr_t)base);
    atomic_store(&threads, 0);
    atomic_store(&running_seed, seed);
}

int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!real_lock)
        find_all();
    pass(NULL);
    return real_lock(mutex);
}

int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!real_unlock)
        find_all();
    int result = real_unlock(mutex);
    pass(NULL);
    return result;
}

int
pthread_cond_signal(pthread_cond_t *cond)
{
    if (!real_signal)
        find_all();
    pass(NULL);
    return real_signal(cond);
}

int
pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!real_broadcast)
        find_all();
    pass(NULL);
    return real_broadcast(cond);
}

int
sched_yield(void)
{
    if (!real_yield)
        find_all();
    pass(NULL);
    return real_yield();
}

int
nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!real_nanosleep)
        find_all();
    pass(NULL);
    return real_nanosleep(time, left);
}
