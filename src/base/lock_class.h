/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_LOCK_CLASS_H
#define FERRYI_LOCK_CLASS_H

/*
 * Locks that the compiler checks. clang's thread safety analysis proves two facts at compile time.
 * A guarded member is read and written only while its lock is held. A function is called only with
 * the locks that it requires. For gcc the macros are empty. In builds with clang, Meson enables the
 * analysis and makes its findings errors.
 *
 * The unit of the analysis is the class of locks, as in the Linux kernel's lockdep: all mutexes of
 * pools are one class, all mutexes of streams are another. FERRYI_MUTEX_CLASS declares a class and
 * the type of its mutexes. ferryi_mutex_lock() and the other macros of base.h take the class from
 * the type of their argument. The analysis cannot distinguish the locks of two pools. The reason is
 * that in C, clang 14 resolves the names in a member's attribute outside the struct, so the
 * attribute cannot name a member of the same struct.
 *
 *     FERRYI_MUTEX_CLASS(ferryi_queue_mutex);
 *     struct queue {
 *         struct ferryi_queue_mutex mutex;
 *         size_t count FERRYI_GUARDED_BY(ferryi_queue_mutex);
 *     };
 *     FERRYI_REQUIRES(ferryi_queue_mutex)
 *     static void grow(struct queue *queue);
 *
 * In C and with clang 14, the analysis has these limits:
 * - It does not know which lock of a class is held. ThreadSanitizer and the tests that make random
 *   calls find a wrong lock.
 * - It does not check an access through the address of a guarded member: `&queue->count`, or an
 *   array that decays to a pointer. A function that returns or takes such an address therefore
 *   requires the class.
 * - It does not check the memory to which a pointer points, such as the members of a list.
 * - It does not accept a lock that is taken on one branch only. All branches that lead to a
 *   statement must hold the same classes.
 * - It does not accept two locks of one class at the same time. It reports that the second lock is
 *   taken twice.
 * Attributes precede the function, since gcc refuses attributes after the parameter list of a
 * definition. The attributes of a declaration also apply to the definition.
 *
 * A message reads `reading variable 'count' requires holding ferryi_queue_mutex 'ferryi_any.held'`:
 * the class is the word before the quoted name.
 */

#include <pthread.h>

#if defined(__clang__) && defined(__has_attribute)
#if __has_attribute(acquire_capability)
#define FERRYI_ANALYSED(attribute) __attribute__((attribute))
#endif
#endif
#ifndef FERRYI_ANALYSED
#define FERRYI_ANALYSED(attribute)
#endif

/* Common type of all lock classes, for functions that take a lock of any class. */
struct FERRYI_ANALYSED(capability("lock")) ferryi_lock_class {
    char none;
};

/* Represents every lock of every class in the attributes of the analysis. The attributes cast this
 * array to the struct type of a lock class. Its memory is never accessed. */
extern char ferryi_any[];

/* Declares a class of mutexes, and `struct name`, the type of these mutexes. */
#define FERRYI_MUTEX_CLASS(name)                                                                   \
    struct name {                                                                                  \
        struct FERRYI_ANALYSED(capability(#name)) {                                                \
            pthread_mutex_t system;                                                                \
        } held;                                                                                    \
    }

/* Declares a class of locks that are not mutexes, such as a lock bit in an integer or a lock of a
 * byte range. The declared struct only names the class: no object of this type exists. */
#define FERRYI_LOCK_CLASS(name)                                                                    \
    struct name {                                                                                  \
        struct FERRYI_ANALYSED(capability(#name)) {                                                \
            char none;                                                                             \
        } held;                                                                                    \
    }

#define FERRYI_ANY(name) ((struct name *)ferryi_any)->held

/* Attribute of a member of a struct, or of a whole anonymous struct. The lock of class `name` must
 * be held whenever the member is read or written. */
#define FERRYI_GUARDED_BY(name) FERRYI_ANALYSED(guarded_by(FERRYI_ANY(name)))

/*
 * Attributes of functions, where `name` is a lock class.
 *
 * - FERRYI_REQUIRES: the caller holds the lock before and after the call.
 * - FERRYI_ACQUIRES: the function takes the lock.
 * - FERRYI_TRY_ACQUIRES: the function takes the lock if it returns `result`.
 * - FERRYI_RELEASES: the caller holds the lock before the call, and the function releases the lock.
 */
#define FERRYI_REQUIRES(name) FERRYI_ANALYSED(requires_capability(FERRYI_ANY(name)))
#define FERRYI_ACQUIRES(name) FERRYI_ANALYSED(acquire_capability(FERRYI_ANY(name)))
#define FERRYI_TRY_ACQUIRES(result, name)                                                          \
    FERRYI_ANALYSED(try_acquire_capability(result, FERRYI_ANY(name)))
#define FERRYI_RELEASES(name) FERRYI_ANALYSED(release_capability(FERRYI_ANY(name)))

/* Attribute that exempts a function's body from clang's thread safety analysis. A comment at each
 * use of the attribute states the reason. tests/lint counts the uses. */
#define FERRYI_NOT_ANALYSED FERRYI_ANALYSED(no_thread_safety_analysis)

/* These macros return a lock class, as an argument for the functions below. FERRYI_CLASS_OF returns
 * the class of the mutex to which its argument points. FERRYI_CLASS returns the class with the
 * given name. */
#define FERRYI_CLASS_OF(mutex)                                                                     \
    ((const struct ferryi_lock_class *)&((__typeof__(mutex))ferryi_any)->held)
#define FERRYI_CLASS(name) FERRYI_CLASS_OF((struct name *)0)

/*
 * These functions inform clang's thread safety analysis about a lock of the class `kind`. They
 * generate no code.
 *
 * - ferryi_lock_is_taken() states that this thread has just taken the lock.
 * - ferryi_lock_is_released() states that this thread is about to release the lock.
 * - ferryi_lock_is_held() states that this thread holds the lock, although the analysis cannot see
 *   that.
 *
 * The code of ferryi_lock_is_taken() and ferryi_lock_is_released() is not analysed, because they
 * take and release nothing.
 */
static inline void ferryi_lock_is_taken(const struct ferryi_lock_class *kind)
    FERRYI_ANALYSED(acquire_capability(*kind));
FERRYI_NOT_ANALYSED
static inline void
ferryi_lock_is_taken(const struct ferryi_lock_class *kind)
{
    (void)kind;
}

static inline void ferryi_lock_is_released(const struct ferryi_lock_class *kind)
    FERRYI_ANALYSED(release_capability(*kind));
FERRYI_NOT_ANALYSED
static inline void
ferryi_lock_is_released(const struct ferryi_lock_class *kind)
{
    (void)kind;
}

static inline void ferryi_lock_is_held(const struct ferryi_lock_class *kind)
    FERRYI_ANALYSED(assert_capability(*kind));
static inline void
ferryi_lock_is_held(const struct ferryi_lock_class *kind)
{
    (void)kind;
}

/* Makes clang's thread safety analysis accept accesses to an object without its lock. The caller
 * guarantees that no other thread can access the object, because the object is new or about to be
 * freed. */
static inline void ferryi_lock_is_needless(const struct ferryi_lock_class *kind)
    FERRYI_ANALYSED(assert_capability(*kind));
static inline void
ferryi_lock_is_needless(const struct ferryi_lock_class *kind)
{
    (void)kind;
}

#endif
