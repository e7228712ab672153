/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_KERNELS_H
#define FERRYI_CONVERT_KERNELS_H

/*
 * Conversion loops between number types, for arrays in host memory. Each instruction set has one
 * table of loops, with one entry for each pair of types. All tables produce the same bits, except
 * for NaNs. If a pair is not supported, the member `nearest` of its table entry is NULL.
 */

#include <stddef.h>

#include <ferry/element.h>

enum ferryi_number {
    ferryi_number_float,
    ferryi_number_double,
    ferryi_number_half,
    ferryi_number_bfloat16,
    ferryi_number_int8,
    ferryi_number_int16,
    ferryi_number_int,
    ferryi_number_int64,
    ferryi_number_byte,
    ferryi_number_uint16,
    ferryi_number_uint32,
    ferryi_number_uint64,
    ferryi_number_bool8, /* `bool` alone is a macro in C */
    ferryi_number_complex_float,
    ferryi_number_complex_double,
    ferryi_number_count
};

/* Converts `count` elements. The arrays need not be aligned. The target may be the same array as
 * the source, unless the target's elements are wider than the source's. */
typedef void ferryi_convert_loop(void *target, const void *source, size_t count);
/* Returns the index of the first element that the policy FERRY_CONVERT_CHECK refuses, or `count` if
 * the policy accepts all elements. */
typedef size_t ferryi_convert_search(const void *source, size_t count);

struct ferryi_convert_kernel {
    ferryi_convert_loop *nearest;
    ferryi_convert_loop *toward_zero;
    ferryi_convert_search *first_unfit; /* NULL: every element fits */
};

typedef const struct ferryi_convert_kernel ferryi_convert_table[ferryi_number_count]
                                                               [ferryi_number_count];

/* Runs on all processors of the architecture. */
extern ferryi_convert_table ferryi_convert_table_baseline;
extern ferryi_convert_table ferryi_convert_table_avx2; /* AVX2 and F16C; only on x86-64 */
/* AVX2, F16C, and AVX-512 F, DQ, BW and VL; only on x86-64. */
extern ferryi_convert_table ferryi_convert_table_avx512;

/* An instruction set that this processor supports, and its table of conversion loops. */
struct ferryi_convert_set {
    const char *name; /* as used in FERRY_CONVERT_WITH */
    ferryi_convert_table *table;
};

/* Returns the instruction sets that this processor supports, in order from the baseline to the
 * best. An entry with a NULL table ends the list. FERRY_CONVERT_WITH does not affect the list. */
const struct ferryi_convert_set *ferryi_convert_sets(void);

/* Returns the number type of an element type, or ferryi_number_count if the element type is not a
 * number. */
enum ferryi_number ferryi_convert_number(const ferry_element *element);

/* Returns the table of the best conversion loops for this processor. The environment variable
 * FERRY_CONVERT_WITH can limit the instruction set. */
ferryi_convert_table *ferryi_convert_table_here(void);

/* Returns this processor's conversion loops for a pair of element types, or NULL if the pair is not
 * supported. */
const struct ferryi_convert_kernel *ferryi_convert_kernel(const ferry_element *from,
                                                          const ferry_element *to);

/* Runs `loop` on the array. If the array is large, the stores bypass the caches. */
void ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes,
                          const void *source, size_t source_bytes, size_t count);

#endif
