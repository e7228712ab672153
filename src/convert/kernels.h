/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_KERNELS_H
#define FERRYI_CONVERT_KERNELS_H

/*
 * Conversion loops between number types, for arrays in host memory. Each instruction set has one
 * table of loops. All tables produce the same bits, except for NaNs. If a pair of types is not
 * supported, the member `nearest` of its table entry is NULL.
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
 * the source if the target's elements are not wider. */
typedef void ferryi_convert_loop(void *target, const void *source, size_t count);
/* Returns the index of the first element that CHECK refuses, or `count` if CHECK accepts all
 * elements. */
typedef size_t ferryi_convert_search(const void *source, size_t count);

struct ferryi_convert_kernel {
    ferryi_convert_loop *nearest;
    ferryi_convert_loop *toward_zero;
    ferryi_convert_search *first_unfit; /* NULL: every element fits */
};

typedef const struct ferryi_convert_kernel ferryi_convert_table[ferryi_number_count]
                                                               [ferryi_number_count];

extern ferryi_convert_table
    ferryi_convert_table_baseline;                     /* for all processors of the architecture */
extern ferryi_convert_table ferryi_convert_table_avx2; /* AVX2 and F16C; only on x86-64 */
extern ferryi_convert_table ferryi_convert_table_avx512; /* the AVX2 set and, in addition, AVX-512
                                                            F, DQ, BW and VL; only on x86-64 */

/* A supported instruction set and its table. */
struct ferryi_convert_set {
    const char *name; /* as used in FERRY_CONVERT_WITH */
    ferryi_convert_table *table;
};

/* Returns the instruction sets that this processor supports, in order from the baseline to the
 * best. An entry with a NULL table ends the list. FERRY_CONVERT_WITH does not affect the list. */
const struct ferryi_convert_set *ferryi_convert_sets(void);

/* Returns the number type of an element, or ferryi_number_count if it is not a number. */
enum ferryi_number ferryi_convert_number(const ferry_element *element);

/* Returns the table of the best loops for this processor, limited by FERRY_CONVERT_WITH. */
ferryi_convert_table *ferryi_convert_table_here(void);

/* Returns the loops for a pair of elements on this processor, or NULL if the pair is not supported.
 */
const struct ferryi_convert_kernel *ferryi_convert_kernel(const ferry_element *from,
                                                          const ferry_element *to);

/* Runs `loop` on the array. If the array is large, the stores bypass the caches. */
void ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes,
                          const void *source, size_t source_bytes, size_t count);

#endif
