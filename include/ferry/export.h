/* SPDX-License-Identifier: MIT */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

/**
 * @file
 * Compiler attributes of the public headers: what is exported, and what may not be ignored.
 */

#if defined(__GNUC__) || defined(__clang__)
#ifdef FERRY_BUILDING_LIBRARY /* the library tells its callers from itself by this section */
#define FERRY_API __attribute__((visibility("default"), section("ferry_api")))
#else
#define FERRY_API __attribute__((visibility("default")))
#endif
#define FERRY_NODISCARD __attribute__((warn_unused_result))
#define FERRY_PRINTF(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define FERRY_API
#define FERRY_NODISCARD
#define FERRY_PRINTF(at, first)
#endif

/**
 * Functions of generated headers. They are copied into their callers at every level of optimization, so that a debugger
 * and the call sites of checked runs show the program's own lines, and no library exports them.
 */
#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#define FERRY_INLINE inline __attribute__((always_inline, artificial, visibility("hidden")))
#elif defined(__cplusplus)
#define FERRY_INLINE inline
#elif defined(__GNUC__) || defined(__clang__)
#define FERRY_INLINE static inline __attribute__((always_inline, artificial))
#else
#define FERRY_INLINE static inline
#endif

#ifdef __cplusplus
#define FERRY_BEGIN_DECLS extern "C" {
#define FERRY_END_DECLS }
#else
#define FERRY_BEGIN_DECLS
#define FERRY_END_DECLS
#endif

/**
 * For generated code: makes the compiler assume that `*pointer` is written here, as it does after a
 * call to a function that it cannot see. Without it, gcc warns that the pointer may be uninitialized
 * in a program that checks the status in another function.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_MAY_WRITE(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")
#else
#define FERRY_MAY_WRITE(pointer) ((void)0)
#endif

/** For generated code: a cast of a pointer, without the warning for casts of C in C++. */
#ifdef __cplusplus
#define FERRY_CAST(type, value) static_cast<type>(value)
#else
#define FERRY_CAST(type, value) ((type)(value))
#endif

/** For generated code: the address of a handle's only member, and NULL for NULL, without a branch. */
#define FERRY_RAW(handle) FERRY_CAST(ferry_buffer **, FERRY_CAST(void *, handle))

/** For generated code: a compile-time check and the alignment of a type, in C99, C11 and C++. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_STATIC_ASSERT(condition, message) static_assert(condition, message)
#define FERRY_ALIGNOF(type) alignof(type)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FERRY_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#define FERRY_ALIGNOF(type) _Alignof(type)
#else
#define FERRY_STATIC_ASSERT_NAME(line) ferry_static_assert_##line
/* A declaration may be repeated, where a type may not: the same line of several headers asserts something too. */
#ifdef __cplusplus
#define FERRY_STATIC_ASSERT_AT(condition, line) extern "C" char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#else
#define FERRY_STATIC_ASSERT_AT(condition, line) extern char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#endif
#define FERRY_STATIC_ASSERT(condition, message) FERRY_STATIC_ASSERT_AT(condition, __LINE__)
#define FERRY_ALIGNOF(type) __alignof__(type)
#endif

/** Rises only when generated code and the core no longer fit each other. */
#define FERRY_GEN_ABI 2

#endif
