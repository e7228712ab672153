/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BASE_H
#define FERRYI_BASE_H

/*
 * What every layer stands on: failing with a message, logging, sizes that do not wrap, time,
 * threads and shared libraries. Knows nothing above it. All that is particular to Linux is in
 * src/base.
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/status.h>

#include "src/base/lock_class.h"

/* Hit paths are inlined whole, and what they leave to others stays out of their way. Builds that
 * count coverage count each once. */
#ifdef FERRYI_COUNTED
#define FERRYI_INLINE static inline
#else
#define FERRYI_INLINE static inline __attribute__((always_inline))
#endif
#define FERRYI_COLD __attribute__((noinline, cold))

/* A thread-local variable that one load reaches. glibc keeps a few bytes of room for such variables
 * of libraries that are loaded late; musl refuses to load such a library. */
#ifdef __GLIBC__
#define FERRYI_FAST_TLS __attribute__((tls_model("initial-exec"), visibility("hidden")))
#else
#define FERRYI_FAST_TLS __attribute__((visibility("hidden")))
#endif

/* -- failing (status.c) ------------------------------------------------------------------------ */

/*
 * Set this thread's message, and give `status`, which the compiler thus knows is no FERRY_OK.
 * Messages say what was being done, to what, with how much, why.
 */
static inline ferry_status
ferryi_same(ferry_status status)
{
    return status;
}

#define ferryi_fail(status, ...) (ferryi_explain(__VA_ARGS__), ferryi_same(status))
void ferryi_explain(const char *format, ...) FERRY_PRINTF(1, 2);
void ferryi_explainv(const char *format, va_list arguments);
/* Put "prefix: " before this thread's message; gives `status` unchanged. */
#define ferryi_fail_in(status, ...) (ferryi_explain_in(__VA_ARGS__), ferryi_same(status))
void ferryi_explain_in(const char *format, ...) FERRY_PRINTF(1, 2);
/* Set the index that ferry_error_index() answers; ferryi_fail() resets it. Call it after
 * ferryi_fail(). */
void ferryi_fail_index(size_t index);
/* The message of an asynchronous failure, kept until a caller asks for it: a heap copy of
 * ferry_last_error(), or NULL. */
char *ferryi_last_error_copy(void);

/* What the thread's last failure said, kept on the stack while a callback of the program runs. */
#define FERRYI_MESSAGE_BYTES 4096
struct ferryi_kept_error {
    size_t index;
    char message[FERRYI_MESSAGE_BYTES];
};
void ferryi_last_error_keep(struct ferryi_kept_error *out);
/* Puts it back where another message took its place. */
void ferryi_last_error_restore(const struct ferryi_kept_error *kept);

/* -- logging (log.c) --------------------------------------------------------------------------- */

struct ferryi_log {
    ferry_log_callback *callback; /* NULL: silent */
    void *user;
};

void ferryi_log(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
    FERRY_PRINTF(3, 4);

/* -- sizes (inline) ---------------------------------------------------------------------------- */

static inline bool
ferryi_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool
ferryi_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Round up to a multiple of `align`, a power of two; false when it does not fit. */
static inline bool
ferryi_round_up(size_t value, size_t align, size_t *out)
{
    size_t padded;
    if (!ferryi_add_size(value, align - 1, &padded))
        return false;
    *out = padded & ~(align - 1);
    return true;
}

static inline bool
ferryi_is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static inline size_t
ferryi_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t
ferryi_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* -- time and the machine (system.c) ----------------------------------------------------------- */

uint64_t ferryi_now_ns(void); /* monotonic */
/* Between two results of ferryi_now_ns(); negative where the second is earlier. */
static inline double
ferryi_seconds_between(uint64_t begin_ns, uint64_t end_ns)
{
    return (double)(int64_t)(end_ns - begin_ns) / 1e9;
}
void ferryi_sleep_ns(uint64_t ns);
void ferryi_yield(void);
size_t
ferryi_physical_memory(void); /* bytes; at least 1 GiB, also when the system does not report it */
size_t ferryi_page_bytes(void);
const char *ferryi_getenv(const char *name); /* NULL in a set-uid program */
uint64_t ferryi_thread_id(void);             /* never 0, never reused while the thread lives */
unsigned ferryi_processors(
    void); /* that this thread may run on, and no more than its group may use; at least 1 */
uint64_t ferryi_process_id(void);  /* another one in the child of a fork */
uint64_t ferryi_page_faults(void); /* of this thread, so far, that read nothing from a disk */
/* Give the pages memory of their own now, leaving what they hold; nothing where the system cannot
 * be asked. */
void ferryi_populate(void *memory, size_t bytes);
/* May the process write the memory? True also where the system does not say. */
bool ferryi_is_writable(const void *memory, size_t bytes);
/* Whether the child of a fork has the whole pages of the memory. */
void ferryi_set_inherited(void *memory, size_t bytes, bool inherited);

/* -- threads (thread.c) ------------------------------------------------------------------------ */

typedef pthread_cond_t ferryi_cond; /* waits on the monotonic clock */
typedef pthread_t ferryi_thread;

/*
 * Mutexes belong to a class (lock_class.h): `mutex` points to a struct that FERRYI_MUTEX_CLASS
 * declared. A brief one is held for some instructions at a time by threads that run at once, so a
 * thread that finds it taken spins for a while before it sleeps.
 */
#define FERRYI_MUTEX_INITIALIZER                                                                   \
    {                                                                                              \
        {                                                                                          \
            PTHREAD_MUTEX_INITIALIZER                                                              \
        }                                                                                          \
    }
/* The class of mutexes of tests, which the analysis does not look at. */
FERRYI_MUTEX_CLASS(ferryi_plain_mutex);
typedef struct ferryi_plain_mutex ferryi_mutex;
#define FERRYI_SYSTEM_MUTEX(mutex)     (&(mutex)->held.system)
#define ferryi_mutex_init(mutex)       ferryi_system_mutex_init(FERRYI_SYSTEM_MUTEX(mutex))
#define ferryi_mutex_init_brief(mutex) ferryi_system_mutex_init_brief(FERRYI_SYSTEM_MUTEX(mutex))
#define ferryi_mutex_destroy(mutex)    ferryi_system_mutex_destroy(FERRYI_SYSTEM_MUTEX(mutex))
#define ferryi_mutex_lock(mutex)                                                                   \
    ferryi_class_lock(FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex))
#define ferryi_mutex_try_lock(mutex)                                                               \
    ferryi_class_try_lock(FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex))
#define ferryi_mutex_unlock(mutex)                                                                 \
    ferryi_class_unlock(FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex))
/* Both generate no code: the mutex is held where the analysis cannot see that; or no other thread
 * has the object yet, or any more. */
#define ferryi_mutex_is_held(mutex)     ferryi_lock_is_held(FERRYI_CLASS_OF(mutex))
#define ferryi_mutex_is_needless(mutex) ferryi_lock_is_needless(FERRYI_CLASS_OF(mutex))
#define ferryi_cond_wait(cond, mutex)                                                              \
    ferryi_class_wait(cond, FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex))
/* Until `deadline_ns` of ferryi_now_ns(); false when it passed. */
#define ferryi_cond_wait_until(cond, mutex, deadline_ns)                                           \
    ferryi_class_wait_until(cond, FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex), deadline_ns)
void ferryi_cond_init(ferryi_cond *cond);
void ferryi_cond_destroy(ferryi_cond *cond);
void ferryi_cond_signal(ferryi_cond *cond);
void ferryi_cond_broadcast(ferryi_cond *cond);

/* What the macros above call. The analysis sees nothing in the mutexes of the system. */
void ferryi_system_mutex_init(pthread_mutex_t *mutex);
void ferryi_system_mutex_init_brief(pthread_mutex_t *mutex);
void ferryi_system_mutex_destroy(pthread_mutex_t *mutex);
void ferryi_system_mutex_lock(pthread_mutex_t *mutex);
bool ferryi_system_mutex_try_lock(pthread_mutex_t *mutex);
void ferryi_system_mutex_unlock(pthread_mutex_t *mutex);
void ferryi_system_cond_wait(ferryi_cond *cond, pthread_mutex_t *mutex);
bool ferryi_system_cond_wait_until(ferryi_cond *cond, pthread_mutex_t *mutex, uint64_t deadline_ns);

static inline void ferryi_class_lock(const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
    FERRYI_ANALYSED(acquire_capability(*kind));
static inline void
ferryi_class_lock(const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
{
    ferryi_system_mutex_lock(mutex);
    ferryi_lock_is_taken(kind);
}

static inline bool ferryi_class_try_lock(const struct ferryi_lock_class *kind,
                                         pthread_mutex_t *mutex)
    FERRYI_ANALYSED(try_acquire_capability(true, *kind));
static inline bool
ferryi_class_try_lock(const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
{
    (void)kind;
    return ferryi_system_mutex_try_lock(mutex);
}

static inline void ferryi_class_unlock(const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
    FERRYI_ANALYSED(release_capability(*kind));
static inline void
ferryi_class_unlock(const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
{
    ferryi_lock_is_released(kind);
    ferryi_system_mutex_unlock(mutex);
}

static inline void ferryi_class_wait(ferryi_cond *cond, const struct ferryi_lock_class *kind,
                                     pthread_mutex_t *mutex)
    FERRYI_ANALYSED(requires_capability(*kind));
static inline void
ferryi_class_wait(ferryi_cond *cond, const struct ferryi_lock_class *kind, pthread_mutex_t *mutex)
{
    (void)kind;
    ferryi_system_cond_wait(cond, mutex);
}

static inline bool ferryi_class_wait_until(ferryi_cond *cond, const struct ferryi_lock_class *kind,
                                           pthread_mutex_t *mutex, uint64_t deadline_ns)
    FERRYI_ANALYSED(requires_capability(*kind));
static inline bool
ferryi_class_wait_until(ferryi_cond *cond, const struct ferryi_lock_class *kind,
                        pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    (void)kind;
    return ferryi_system_cond_wait_until(cond, mutex, deadline_ns);
}

/*
 * A wait that is expected to be short looks for a while before it sleeps, since waking up takes
 * longer than that, and costs whoever wakes it a system call: end = ferryi_spin_end(); while (!come
 * && ferryi_spin(end)); where there is one processor only, not at all. After the first moment
 * others may have the processor, among them the one that is waited for.
 */
uint64_t ferryi_spin_end(void);
bool ferryi_spin(uint64_t end); /* false when it has been long enough */
/* Threads block all signals: the program's handlers run on its own threads. */
ferry_status ferryi_thread_start(ferryi_thread *out, const char *name, void (*run)(void *),
                                 void *argument);
void ferryi_thread_join(ferryi_thread thread);
void ferryi_thread_detach(ferryi_thread thread);
/*
 * A full fence in every running thread of the process, from this one: pairs with a compiler fence
 * in code that runs often. False from prepare, which must come first: the system has none, and both
 * sides need fences of their own. A sandbox that forbids the system call later makes each fence a
 * sleep of a millisecond.
 */
bool ferryi_fence_all_prepare(void);
void ferryi_fence_all(void);

/* -- shared libraries (library.c) -------------------------------------------------------------- */

/* NULL when absent; the reason is then in `reason` (may be NULL). Never closed: drivers do not
 * survive it. */
void *ferryi_library_open(const char *name, char *reason, size_t reason_bytes);
void *ferryi_library_symbol(void *library, const char *name);
/* Identifies the version of the library that holds an address of code: the size of its file, and
 * when that was written. Zeros when the file cannot be found. */
void ferryi_library_mark(const void *address, uint64_t out[3]);
/* "function+0x12 (library)" of an address of code, so far as the loader knows them. */
void ferryi_address_describe(const void *address, char *text, size_t text_bytes);

#endif
