/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_KERNELS_H
#define FERRYI_CONVERT_KERNELS_H

/*
 * The loops of conversions between numbers, for arrays in host memory. There is one table for each
 * set of instructions; all give the same bits, except those of NaNs. A pair that is not there has
 * no `nearest`.
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

/* Memory need not be aligned. The target may be the source itself where its elements are no wider.
 */
typedef void ferryi_convert_loop(void *target, const void *source, size_t count);
/* The index of the first element that CHECK refuses, or `count`. */
typedef size_t ferryi_convert_search(const void *source, size_t count);

struct ferryi_convert_kernel {
    ferryi_convert_loop *nearest;
    ferryi_convert_loop *toward_zero;
    ferryi_convert_search *first_unfit; /* NULL: every element fits */
};

typedef const struct ferryi_convert_kernel ferryi_convert_table[ferryi_number_count]
                                                               [ferryi_number_count];

extern ferryi_convert_table
    ferryi_convert_table_baseline; /* what every processor of the architecture has */
extern ferryi_convert_table ferryi_convert_table_avx2; /* AVX2 and F16C; only on x86-64 */
extern ferryi_convert_table
    ferryi_convert_table_avx512; /* F, DQ, BW and VL besides; only on x86-64 */

/* A set of instructions that this processor has. */
struct ferryi_convert_set {
    const char *name; /* as FERRY_CONVERT_WITH calls it */
    ferryi_convert_table *table;
};

/* From what every processor of the architecture has to the best, which FERRY_CONVERT_WITH does not
 * change; ends with a NULL. */
const struct ferryi_convert_set *ferryi_convert_sets(void);

/* The number an element is, or ferryi_number_count. */
enum ferryi_number ferryi_convert_number(const ferry_element *element);

/* The best loops for this processor, or the best of those that the environment leaves it. */
ferryi_convert_table *ferryi_convert_table_here(void);

/* The loops for this pair on this processor; NULL where it is none of numbers. */
const struct ferryi_convert_kernel *ferryi_convert_kernel(const ferry_element *from,
                                                          const ferry_element *to);

/* Run `loop`; stores of large arrays go past the cache. */
void ferryi_convert_array(ferryi_convert_loop *loop, void *target, size_t target_bytes,
                          const void *source, size_t source_bytes, size_t count);

#endif
