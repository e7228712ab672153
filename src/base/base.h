/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BASE_H
#define FERRYI_BASE_H

/*
 * Services for every layer: errors with a message, logging, overflow-checked sizes, time, threads
 * and shared libraries. This layer depends on no other layer. All code that is specific to Linux is
 * in src/base.
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/status.h>

#include "src/base/lock_class.h"

/*
 * FERRYI_INLINE marks functions that are always inlined. They are on fast paths, which run when no
 * data must be moved. FERRYI_COLD marks functions that are never inlined.
 *
 * In builds that measure coverage, FERRYI_INLINE does not force inlining. All calls of a function
 * then run the same code, so its coverage is counted in one place.
 */
#ifdef FERRYI_COUNTED
#define FERRYI_INLINE static inline
#else
#define FERRYI_INLINE static inline __attribute__((always_inline))
#endif
#define FERRYI_COLD __attribute__((noinline, cold))

/* Marks a thread-local variable that must be fast to access. With glibc, the variable uses the
 * initial-exec TLS model, so that no function is called to find its address. This also works in a
 * library that dlopen() loads, because glibc reserves a few bytes for such variables. musl's
 * dlopen() refuses libraries that have them, so with musl the macro does not select a TLS model. */
#ifdef __GLIBC__
#define FERRYI_FAST_TLS __attribute__((tls_model("initial-exec"), visibility("hidden")))
#else
#define FERRYI_FAST_TLS __attribute__((visibility("hidden")))
#endif

/* -- failing (status.c) ------------------------------------------------------------------------ */

/*
 * ferryi_fail() sets this thread's error message and returns `status`. A message states what was
 * attempted, on which object, with which sizes, and why it failed.
 *
 * ferryi_same() returns its argument. ferryi_fail() returns `status` through this inlined function,
 * so that the compiler sees a constant that is not FERRY_OK.
 */
static inline ferry_status
ferryi_same(ferry_status status)
{
    return status;
}

#define ferryi_fail(status, ...) (ferryi_explain(__VA_ARGS__), ferryi_same(status))
void ferryi_explain(const char *format, ...) FERRY_PRINTF(1, 2);
void ferryi_explainv(const char *format, va_list arguments);
/* Formats a prefix, and puts it with ": " in front of this thread's current error message. Returns
 * `status`. */
#define ferryi_fail_in(status, ...) (ferryi_explain_in(__VA_ARGS__), ferryi_same(status))
void ferryi_explain_in(const char *format, ...) FERRY_PRINTF(1, 2);
/* Evaluates `call`. If the result is not FERRY_OK, the function that uses the macro returns this
 * result. The macro must not be used where a function must clean up before it returns. */
#define FERRYI_OR_RETURN(call) FERRY_CHECK(call)
/* Returns how many error messages this thread has set so far. Two equal results mean that no
 * message was set in between. */
uint64_t ferryi_error_count(void);
/* Sets the index that ferry_error_index() returns. Must be called after ferryi_fail(), because
 * ferryi_fail() clears the index. */
void ferryi_fail_index(size_t index);
/* Marks this thread's newest failure: another thread's resize has moved the end of the range that a
 * call was about to lock. Must be called after ferryi_explain(), because each new failure removes
 * the mark. The mark exists because every status may also come from a callback of the program.
 * Returns FERRY_ERROR_OUT_OF_RANGE. */
ferry_status ferryi_fail_resized(void);
/* Returns whether this thread's newest failure has the mark of ferryi_fail_resized(). */
bool ferryi_last_error_is_resized(void);
/* Marks this thread's newest failure as one that a callback of the program returned. Its status
 * says nothing about a device: a conversion function may return DEVICE_LOST. */
void ferryi_fail_of_program(void);
/* Returns whether this thread's newest failure has the mark of ferryi_fail_of_program(). */
bool ferryi_last_error_is_of_program(void);
/* Returns a heap copy of ferry_last_error(), or NULL when memory is short. An asynchronous call
 * that fails keeps its message in such a copy until the program queries the call. */
char *ferryi_last_error_copy(void);

/* A saved copy of a thread's last error. For example, the library saves the error on the stack
 * while a callback of the program runs, because the callback may replace the error. */
#define FERRYI_MESSAGE_BYTES 4096
struct ferryi_kept_error {
    size_t index;
    char message[FERRYI_MESSAGE_BYTES];
};
void ferryi_last_error_keep(struct ferryi_kept_error *out);
/* Restores the saved error if the thread's last error has changed since the error was saved. */
void ferryi_last_error_restore(const struct ferryi_kept_error *kept);
/* Declares a variable that saves the thread's last error, and restores it where the block ends. */
#define FERRYI_KEEP_ERROR(name)                                                                    \
    __attribute__((cleanup(ferryi_last_error_restore))) struct ferryi_kept_error name;             \
    ferryi_last_error_keep(&name)

/* -- logging (log.c) --------------------------------------------------------------------------- */

struct ferryi_log {
    ferry_log_callback *callback; /* NULL: nothing is logged */
    void *user;
};

/* Returns whether a text has a control character, such as a newline. */
bool ferryi_text_has_control(const char *text);
/* Replaces each control character of a text by a space. */
void ferryi_text_make_line(char *text);
/* Appends formatted text to `text` as snprintf() does, and adds the untruncated length to
 * `*length`. */
void ferryi_text_append(char *text, size_t bytes, size_t *length, const char *format, ...)
    FERRY_PRINTF(4, 5);
void ferryi_log(const struct ferryi_log *log, ferry_log_level level, const char *format, ...)
    FERRY_PRINTF(3, 4);

/* Logs a warning or an error about a setting that the user chose, such as an environment variable.
 * If the program has no log callback, writes it to stderr, because the user may not have written
 * the program. `log` may be NULL. */
void ferryi_log_setting(const struct ferryi_log *log, ferry_log_level level, const char *format,
                        ...) FERRY_PRINTF(3, 4);

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

/* Rounds up to a multiple of `align`, a power of two. Returns false when the result overflows. */
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

/* Returns whether two ranges of bytes, neither of which is empty, have a byte in common. */
static inline bool
ferryi_overlap(size_t begin, size_t end, size_t other_begin, size_t other_end)
{
    return begin < other_end && other_begin < end;
}

/* Returns a negative number, 0, or a positive number if `a` is lower than, equal to, or higher than
 * `b`, as a comparison for qsort() does. */
static inline int
ferryi_compare(uintptr_t a, uintptr_t b)
{
    return (a > b) - (a < b);
}

/* -- lists (inline) ---------------------------------------------------------------------------- */

/*
 * Macros for a doubly linked list. Each item has two members, whose names are the macro arguments
 * `next` and `link`. The member `next` points to the next item. The member `link` contains the
 * address of the pointer that points to the item. So an item can be removed without a search.
 */
#define FERRYI_LIST_ADD(head, item, next, link)                                                    \
    do {                                                                                           \
        (item)->next = *(head);                                                                    \
        (item)->link = (head);                                                                     \
        if ((item)->next)                                                                          \
            (item)->next->link = &(item)->next;                                                    \
        *(head) = (item);                                                                          \
    } while (0)
#define FERRYI_LIST_REMOVE(item, next, link)                                                       \
    do {                                                                                           \
        *(item)->link = (item)->next;                                                              \
        if ((item)->next)                                                                          \
            (item)->next->link = (item)->link;                                                     \
    } while (0)

/* -- memory (system.c) ------------------------------------------------------------------------- */

/* Enlarges an array on the heap if its capacity `*room` is less than `needed` items. The new
 * capacity is at least twice the old one. `items_address` is the address of the pointer to the
 * array. Returns false, and leaves the array unchanged, if memory is short. */
bool ferryi_grow(void *items_address, size_t *room, size_t needed, size_t item_bytes);

/* -- time and the machine (system.c) ----------------------------------------------------------- */

uint64_t ferryi_now_ns(void); /* on the monotonic clock */
/* Returns the seconds from one result of ferryi_now_ns() to another. The number is negative if
 * `end_ns` is the earlier one. */
static inline double
ferryi_seconds_between(uint64_t begin_ns, uint64_t end_ns)
{
    return (double)(int64_t)(end_ns - begin_ns) / 1e9;
}
void ferryi_sleep_ns(uint64_t ns);
void ferryi_yield(void);
size_t
ferryi_physical_memory(void); /* physical memory in bytes; 1 GiB if the system does not report it */
size_t ferryi_page_bytes(void);
const char *ferryi_getenv(const char *name); /* NULL in a set-uid program */
/* Returns the kernel's id of the calling thread. It is never 0, and unique among the living
 * threads. */
uint64_t ferryi_thread_id(void);
unsigned ferryi_processors(void);  /* number of processors that this thread may run on, limited by
                                      the quota of its control group; at least 1 */
uint64_t ferryi_process_id(void);  /* differs in the child of a fork */
uint64_t ferryi_page_faults(void); /* minor page faults of this thread so far */
/* Allocates the physical pages of a memory range now, without changing their contents. Does nothing
 * if the system does not support this. */
void ferryi_populate(void *memory, size_t bytes);
/* Returns whether the process may write the memory. Also returns true if the system does not report
 * how the memory is protected. */
bool ferryi_is_writable(const void *memory, size_t bytes);
/* Sets whether a child process inherits the pages that lie completely inside the memory. */
void ferryi_set_inherited(void *memory, size_t bytes, bool inherited);

/* -- threads (thread.c) ------------------------------------------------------------------------ */

typedef pthread_cond_t ferryi_cond; /* waits on the monotonic clock */
typedef pthread_t ferryi_thread;

/*
 * Every mutex belongs to a lock class (lock_class.h). The argument `mutex` of the macros below
 * points to a struct that FERRYI_MUTEX_CLASS declared.
 *
 * A brief mutex is a mutex that is held for only a few instructions at a time. A thread that finds
 * a brief mutex locked spins for a while before it sleeps.
 */
#define FERRYI_MUTEX_INITIALIZER                                                                   \
    {                                                                                              \
        {                                                                                          \
            PTHREAD_MUTEX_INITIALIZER                                                              \
        }                                                                                          \
    }
/* Lock class of the mutexes that only tests use. clang's thread safety analysis does not check this
 * class. */
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
/*
 * These macros inform clang's thread safety analysis and generate no code.
 *
 * - ferryi_mutex_is_held() states that this thread holds the mutex, although the analysis cannot
 *   see that.
 * - ferryi_mutex_is_needless() states that the mutex need not be held. The object that it protects
 *   is new or about to be freed, so no other thread can access this object.
 */
#define ferryi_mutex_is_held(mutex)     ferryi_lock_is_held(FERRYI_CLASS_OF(mutex))
#define ferryi_mutex_is_needless(mutex) ferryi_lock_is_needless(FERRYI_CLASS_OF(mutex))
#define ferryi_cond_wait(cond, mutex)                                                              \
    ferryi_class_wait(cond, FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex))
/* Waits until the condition is signalled or ferryi_now_ns() reaches `deadline_ns`. Returns false if
 * the deadline has passed. */
#define ferryi_cond_wait_until(cond, mutex, deadline_ns)                                           \
    ferryi_class_wait_until(cond, FERRYI_CLASS_OF(mutex), FERRYI_SYSTEM_MUTEX(mutex), deadline_ns)
void ferryi_cond_init(ferryi_cond *cond);
void ferryi_cond_destroy(ferryi_cond *cond);
void ferryi_cond_signal(ferryi_cond *cond);
void ferryi_cond_broadcast(ferryi_cond *cond);

/* Functions on plain pthread mutexes, for the mutex macros of this file. clang's thread safety
 * analysis does not check plain pthread mutexes. */
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
 * Returns the time at which ferryi_spin() must stop spinning. A thread spins if it expects a short
 * wait. Sleeping would be slower: the thread wakes late, and the thread that wakes it pays for a
 * system call.
 *
 * Usage: end = ferryi_spin_end(); while (!condition && ferryi_spin(end));
 *
 * On a machine with one processor, ferryi_spin() does not spin. After the first few microseconds,
 * ferryi_spin() also yields the processor, because the awaited thread may need it.
 */
uint64_t ferryi_spin_end(void);
/* Spins for a moment. Returns false when the time `end` is reached. */
bool ferryi_spin(uint64_t end);
/* Starts a thread that blocks all signals, so that the program's signal handlers run only on the
 * program's threads. */
ferry_status ferryi_thread_start(ferryi_thread *out, const char *name, void (*run)(void *),
                                 void *argument);
void ferryi_thread_join(ferryi_thread thread);
void ferryi_thread_detach(ferryi_thread thread);
/*
 * ferryi_fence_all() executes a full memory fence in every running thread of the process. It serves
 * pairs of code paths that synchronize with each other by full fences. The frequent path uses a
 * compiler fence instead, and the rare path calls ferryi_fence_all().
 *
 * ferryi_fence_all_prepare() must be called first. If it returns false, the system does not support
 * such fences. Then both paths need full fences.
 *
 * If a sandbox forbids the system call later, ferryi_fence_all() sleeps for a millisecond instead.
 */
bool ferryi_fence_all_prepare(void);
void ferryi_fence_all(void);

/* -- shared libraries (library.c) -------------------------------------------------------------- */

/* Opens a library. If the library cannot be opened, returns NULL and writes the reason to `reason`,
 * which may be NULL. Libraries are never closed, because drivers do not support being unloaded. */
void *ferryi_library_open(const char *name, char *reason, size_t reason_bytes);
void *ferryi_library_symbol(void *library, const char *name);
/* Finds the library that contains a code address. Writes numbers to `out` that identify the
 * library, such as the size and the modification time of its file. Writes zeros if the file cannot
 * be found. */
void ferryi_library_mark(const void *address, uint64_t out[3]);
/* Describes a code address as "function+0x12 (library)". Omits the function if the loader does not
 * know it. Writes only the address if the loader does not know the library. */
void ferryi_address_describe(const void *address, char *text, size_t text_bytes);

#endif
