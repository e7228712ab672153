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

#ifdef __cplusplus
#define FERRY_BEGIN_DECLS extern "C" {
#define FERRY_END_DECLS }
#else
#define FERRY_BEGIN_DECLS
#define FERRY_END_DECLS
#endif

/** For generated code: a compile-time check and the alignment of a type, in C99, C11 and C++. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_STATIC_ASSERT(condition, message) static_assert(condition, message)
#define FERRY_ALIGNOF(type) alignof(type)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FERRY_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#define FERRY_ALIGNOF(type) _Alignof(type)
#else
#define FERRY_STATIC_ASSERT_NAME(line) ferry_static_assert_##line
#define FERRY_STATIC_ASSERT_AT(condition, line) typedef char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#define FERRY_STATIC_ASSERT(condition, message) FERRY_STATIC_ASSERT_AT(condition, __LINE__)
#define FERRY_ALIGNOF(type) __alignof__(type)
#endif

/** Rises only when generated code and the core no longer fit each other. */
#define FERRY_GEN_ABI 1

#endif
