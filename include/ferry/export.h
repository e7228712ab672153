/* SPDX-License-Identifier: MIT */
#ifndef FERRY_EXPORT_H
#define FERRY_EXPORT_H

/**
 * @file
 * Macros that hide differences between compilers and languages, for the headers of the library and
 * for generated ones.
 */

/**
 * FERRY_API marks the functions that the library exports, and FERRY_NODISCARD those whose result
 * must not be ignored. FERRY_PRINTF lets the compiler check a format and its arguments.
 */
#if defined(__GNUC__) || defined(__clang__)
#ifdef FERRY_BUILDING_LIBRARY /*                                                                   \
                               * checked runs use the section to tell functions of the library     \
                               * from those of the program                                         \
                               */
#define FERRY_API __attribute__((visibility("default"), section("ferry_api")))
#else
#define FERRY_API __attribute__((visibility("default")))
#endif
#define FERRY_NODISCARD         __attribute__((warn_unused_result))
#define FERRY_PRINTF(at, first) __attribute__((__format__(__printf__, at, first)))
#else
#define FERRY_API
#define FERRY_NODISCARD
#define FERRY_PRINTF(at, first)
#endif

/**
 * Marks an inline function of a generated header. It is inlined at every level of optimization, so
 * that debuggers and checked runs report the program's line that calls it.
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

/** These give the declarations of a header C linkage in C++. */
#ifdef __cplusplus
#define FERRY_BEGIN_DECLS extern "C" {
#define FERRY_END_DECLS   }
#else
#define FERRY_BEGIN_DECLS
#define FERRY_END_DECLS
#endif

/**
 * Makes the compiler assume that code which it cannot see may write `*pointer` here. Otherwise gcc
 * may warn that a variable is uninitialized, although the program checks the status before it reads
 * it.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_MAY_WRITE(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")
#else
#define FERRY_MAY_WRITE(pointer) ((void)0)
#endif

/** Casts a pointer, in C++ by a static_cast, because compilers may warn about a C-style one. */
#ifdef __cplusplus
#define FERRY_CAST(type, value) static_cast<type>(value)
#else
#define FERRY_CAST(type, value) ((type)(value))
#endif

/** The null pointer. C++ compilers may warn about NULL. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_NULL nullptr
#else
#define FERRY_NULL NULL
#endif

/**
 * Converts the address of a typed handle, such as ferry_float_buffer, into the address of its only
 * member, the untyped handle. NULL stays NULL.
 */
#define FERRY_RAW(handle) FERRY_CAST(ferry_buffer **, FERRY_CAST(void *, handle))

/**
 * FERRY_STATIC_ASSERT stops the compilation with `message` if `condition` is 0, and FERRY_ALIGNOF
 * is the alignment of a type in bytes, in C99, C11 and C++.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_STATIC_ASSERT(condition, message) static_assert(condition, message)
#define FERRY_ALIGNOF(type)                     alignof(type)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FERRY_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#define FERRY_ALIGNOF(type)                     _Alignof(type)
#else
#define FERRY_STATIC_ASSERT_NAME(line) ferry_static_assert_##line
/*
 * C99 and C++98 have no static assertions. These macros declare an array, whose size is -1 if the
 * condition is false, which the compiler rejects. Assertions of two headers in the same line
 * declare the same array of size 1, which is allowed.
 */
#ifdef __cplusplus
#define FERRY_STATIC_ASSERT_AT(condition, line)                                                    \
    extern "C" char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#else
#define FERRY_STATIC_ASSERT_AT(condition, line)                                                    \
    extern char FERRY_STATIC_ASSERT_NAME(line)[(condition) ? 1 : -1]
#endif
#define FERRY_STATIC_ASSERT(condition, message) FERRY_STATIC_ASSERT_AT(condition, __LINE__)
#define FERRY_ALIGNOF(type)                     __alignof__(type)
#endif

/**
 * Specializes ferry::element_of, by which <ferry/ferry.hpp> finds the description of a C++ type.
 * Does nothing in C, and in C++ before C++11.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FERRY_CPP_ELEMENT(type, element)                                                           \
    extern "C++" {                                                                                 \
    namespace ferry                                                                                \
    {                                                                                              \
    template <> struct element_of<type> {                                                          \
        static const ferry_element *get() noexcept                                                 \
        {                                                                                          \
            return element();                                                                      \
        }                                                                                          \
    };                                                                                             \
    }                                                                                              \
    }
#else
#define FERRY_CPP_ELEMENT(type, element)
#endif

/**
 * Version of the generated code. It increases only when this library can no longer work with
 * headers of an older ferry-gen, which then fail to compile.
 */
#define FERRY_GEN_ABI 3

#endif
