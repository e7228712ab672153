/* SPDX-License-Identifier: MIT */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

/**
 * @file
 * Compiler attributes of the public headers: exported functions, and results that must not be
 * ignored.
 */

/**
 * FERRY_API marks the functions that the library exports, and FERRY_NODISCARD those whose result
 * must not be ignored. FERRY_PRINTF lets the compiler check a format and its arguments.
 */
#if defined(__GNUC__) || defined(__clang__)
#ifdef FERRY_BUILDING_LIBRARY /* the library finds its functions by this section */
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
 * Marks functions of generated headers. The compiler inlines them into their callers at every level
 * of optimization, so debuggers and the call sites of checked runs show the lines of the program.
 * No library exports these functions.
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

/** These stand around the declarations of a header, and give them C linkage in C++. */
#ifdef __cplusplus
#define FERRY_BEGIN_DECLS extern "C" {
#define FERRY_END_DECLS }
#else
#define FERRY_BEGIN_DECLS
#define FERRY_END_DECLS
#endif

/**
 * For generated code: makes the compiler assume that `*pointer` may be written here, as by a
 * function in another file. Without this macro gcc may warn that a variable of the program is
 * uninitialized, when the program checks the status in another function.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_MAY_WRITE(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")
#else
#define FERRY_MAY_WRITE(pointer) ((void)0)
#endif

/**
 * For generated code: casts a pointer. C++ compilers do not warn about it as they may about a cast
 * in C style.
 */
#ifdef __cplusplus
#define FERRY_CAST(type, value) static_cast<type>(value)
#else
#define FERRY_CAST(type, value) ((type)(value))
#endif

/**
 * For generated code: converts a pointer to a typed handle into a pointer to its only member, the
 * untyped handle. NULL stays NULL.
 */
#define FERRY_RAW(handle) FERRY_CAST(ferry_buffer **, FERRY_CAST(void *, handle))

/**
 * For generated code: a check at compile time, and the alignment of a type. Both work in C99, C11
 * and C++.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_STATIC_ASSERT(condition, message) static_assert(condition, message)
#define FERRY_ALIGNOF(type) alignof(type)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FERRY_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#define FERRY_ALIGNOF(type) _Alignof(type)
#else
#define FERRY_STATIC_ASSERT_NAME(line) ferry_static_assert_##line
/*
 * C99 has no static assertion. Instead, an array is declared, whose size is negative if the
 * condition is false. The name contains only the line number: two headers may repeat a declaration,
 * but not a type.
 */
#ifdef __cplusplus
#define FERRY_STATIC_ASSERT_AT(condition, line) extern "C" char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#else
#define FERRY_STATIC_ASSERT_AT(condition, line) extern char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#endif
#define FERRY_STATIC_ASSERT(condition, message) FERRY_STATIC_ASSERT_AT(condition, __LINE__)
#define FERRY_ALIGNOF(type) __alignof__(type)
#endif

/**
 * For generated code: lets <ferry/ferry.hpp> find an element by its C++ type. In C and in C++
 * before C++11 the macro declares nothing.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_CPP_ELEMENT(type, element)                                                                              \
    extern "C++" {                                                                                                    \
    namespace ferry                                                                                                   \
    {                                                                                                                 \
    template <> struct element_of<type> {                                                                             \
        static const ferry_element *                                                                                  \
        get() noexcept                                                                                                \
        {                                                                                                             \
            return element();                                                                                         \
        }                                                                                                             \
    };                                                                                                                \
    }                                                                                                                 \
    }
#else
#define FERRY_CPP_ELEMENT(type, element)
#endif

/**
 * Version of the generated code. It increases only when code that an older release of ferry-gen
 * generated does not work with this library.
 */
#define FERRY_GEN_ABI 2

#endif
