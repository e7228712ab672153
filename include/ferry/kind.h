/* SPDX-License-Identifier: MIT */
#ifndef FERRY_KIND_H
#define FERRY_KIND_H

/**
 * @file
 * Macros for generated code that check at compile time whether a C type can hold values of a
 * ferry_kind.
 *
 * FERRY_TYPE_HOLDS(type, kind) is a constant expression: 1 if `type` can hold such values, and 0 if
 * the compiler knows that it cannot. FERRY_FIELD_HOLDS(type, field, kind) does the same for a field
 * of the struct `type`, or for the elements of a field that is an array.
 *
 * The macros use _Generic in C, or in C99 the extension of gcc and clang, and <type_traits> in
 * C++11. They are 1 with any other compiler, and in these cases:
 * - The type is not arithmetic, such as a struct of the program for halves or complex numbers, or
 *   it is _Float16.
 * - The type is a 16-bit unsigned integer that holds the bits of a FERRY_KIND_FLOAT or
 *   FERRY_KIND_BFLOAT.
 * - In C, the field is const, or is an array of more than two dimensions.
 */

#include <limits.h>

#include <ferry/element.h>

/**
 * Sets of ferry_kind values that a C type can hold, with one bit for each kind. Generated headers
 * check the sizes of types separately.
 */
#define FERRYI_HOLDS_FLOAT   (1u << FERRY_KIND_FLOAT)
#define FERRYI_HOLDS_INT     (1u << FERRY_KIND_INT)
#define FERRYI_HOLDS_UINT    (1u << FERRY_KIND_UINT)
#define FERRYI_HOLDS_SHORT   (FERRYI_HOLDS_UINT | FERRYI_HOLDS_FLOAT | 1u << FERRY_KIND_BFLOAT)
#define FERRYI_HOLDS_BOOL    (1u << FERRY_KIND_BOOL)
#define FERRYI_HOLDS_COMPLEX (1u << FERRY_KIND_COMPLEX)
#define FERRYI_HOLDS_ANY     UINT_MAX

#if defined(__cplusplus) && __cplusplus >= 201103L

#include <type_traits>

template <typename type> struct ferryi_kinds_of {
    typedef typename std::remove_cv<typename std::remove_all_extents<type>::type>::type element;
    static const unsigned int any_integer =
        FERRYI_HOLDS_INT | FERRYI_HOLDS_UINT | FERRYI_HOLDS_BOOL;
    static const unsigned int sign =
        std::is_signed<element>::value ? FERRYI_HOLDS_INT : FERRYI_HOLDS_UINT;
    static const unsigned int short_integer =
        std::is_signed<element>::value ? FERRYI_HOLDS_INT : FERRYI_HOLDS_SHORT;
    static const unsigned int integer = sizeof(element) == 1   ? sign | FERRYI_HOLDS_BOOL
                                        : sizeof(element) == 2 ? short_integer
                                                               : sign;
    static const bool is_any_integer =
        std::is_enum<element>::value || std::is_same<element, char>::value;
    static const unsigned int value = is_any_integer                           ? any_integer
                                      : std::is_same<element, bool>::value     ? FERRYI_HOLDS_BOOL
                                      : std::is_integral<element>::value       ? integer
                                      : std::is_floating_point<element>::value ? FERRYI_HOLDS_FLOAT
                                                                               : FERRYI_HOLDS_ANY;
};

/** For generated code: true when a C type, or a field of a struct, can hold values of a kind. */
#define FERRY_TYPE_HOLDS(type, kind) ((ferryi_kinds_of<type>::value >> (kind)&1u) != 0)
#define FERRY_FIELD_HOLDS(type, field, kind)                                                       \
    ((ferryi_kinds_of<decltype(((type *)0)->field)>::value >> (kind)&1u) != 0)

#elif !defined(__cplusplus) &&                                                                     \
    (__STDC_VERSION__ >= 201112L || defined(__GNUC__) || defined(__clang__))

#ifdef __GNUC__
#define FERRYI_GENERIC __extension__ _Generic
#else
#define FERRYI_GENERIC _Generic
#endif

/*
 * Each entry also lists a pointer to an array of unknown length. It matches a pointer to an array
 * of any length, because C treats these two pointer types as compatible.
 */
#define FERRYI_ONE(type, kinds)  type * : kinds, type(*)[] : kinds
#define FERRYI_ROWS(type, kinds) type(*)[] : kinds
#define FERRYI_KINDS_BY(entry, pointer)                                                            \
    FERRYI_GENERIC(                                                                                \
        (pointer), entry(float, FERRYI_HOLDS_FLOAT), entry(double, FERRYI_HOLDS_FLOAT),            \
        entry(long double, FERRYI_HOLDS_FLOAT),                                                    \
        entry(signed char, FERRYI_HOLDS_INT | FERRYI_HOLDS_BOOL), entry(short, FERRYI_HOLDS_INT),  \
        entry(int, FERRYI_HOLDS_INT), entry(long, FERRYI_HOLDS_INT),                               \
        entry(long long, FERRYI_HOLDS_INT),                                                        \
        entry(unsigned char, FERRYI_HOLDS_UINT | FERRYI_HOLDS_BOOL),                               \
        entry(char, FERRYI_HOLDS_INT | FERRYI_HOLDS_UINT | FERRYI_HOLDS_BOOL),                     \
        entry(unsigned short, FERRYI_HOLDS_SHORT), entry(unsigned int, FERRYI_HOLDS_UINT),         \
        entry(unsigned long, FERRYI_HOLDS_UINT), entry(unsigned long long, FERRYI_HOLDS_UINT),     \
        entry(_Bool, FERRYI_HOLDS_BOOL), entry(float _Complex, FERRYI_HOLDS_COMPLEX),              \
        entry(double _Complex, FERRYI_HOLDS_COMPLEX), default                                      \
        : FERRYI_HOLDS_ANY)

#define FERRY_TYPE_HOLDS(type, kind) ((FERRYI_KINDS_BY(FERRYI_ONE, (type *)0) >> (kind)&1u) != 0)
/* If the field is a two-dimensional array, its name decays to a pointer to its first row. */
#define FERRY_FIELD_HOLDS(type, field, kind)                                                       \
    ((FERRYI_KINDS_BY(FERRYI_ONE, &((type *)0)->field) &                                           \
      FERRYI_KINDS_BY(FERRYI_ROWS, ((type *)0)->field)) >>                                         \
     (kind)&1u)

#else

#define FERRY_TYPE_HOLDS(type, kind)         1
#define FERRY_FIELD_HOLDS(type, field, kind) 1

#endif

#endif
