/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_VECTOR_H
#define FERRYI_CONVERT_VECTOR_H

/*
 * The steps of scalar.h on many elements at once: load and widen, convert to another working type,
 * saturate and store. A group is four or eight vectors. vector_avx512.h, vector_avx2.h or
 * vector_sse2.h defines the vector type and the operations on one vector. The steps rely on two
 * properties: conversion instructions return INT32_MIN for values out of range, and packing
 * saturates.
 */

#define STEP static inline __attribute__((always_inline, unused))

#if defined(__AVX512BW__)
#include "src/convert/vector_avx512.h"
#elif defined(__AVX2__)
#include "src/convert/vector_avx2.h"
#else
#include "src/convert/vector_sse2.h"
#endif

enum { VECTOR_LANES = sizeof(vector_i32) / sizeof(int32_t), LANES = 4 * VECTOR_LANES };

typedef struct { vector_i32 a, b, c, d; } lanes_i32;
typedef struct { vector_f32 a, b, c, d; } lanes_f32;
typedef struct { vector_f64 a, b, c, d, e, f, g, h; } lanes_f64;

#define EACH(step, x) {step((x).a), step((x).b), step((x).c), step((x).d)}
#define PAIRWISE(step, x) {step((x).a, (x).b), step((x).c, (x).d), step((x).e, (x).f), step((x).g, (x).h)}
#define HALVES(low, high, v) low(v), high(v)
#define SPLIT(low, high, x)                                                                                           \
    {HALVES(low, high, (x).a), HALVES(low, high, (x).b), HALVES(low, high, (x).c), HALVES(low, high, (x).d)}

/* -- load and widen ---------------------------------------------------------------------------- */

#define LOAD(type, number)                                                                                            \
    STEP lanes_##type lanes_load_##number(const void *source)                                                         \
    {                                                                                                                 \
        const char *in = source;                                                                                      \
        const size_t step = VECTOR_LANES * sizeof(number_##number);                                                   \
        return (lanes_##type){load_##number(in), load_##number(in + step), load_##number(in + 2 * step),              \
                              load_##number(in + 3 * step)};                                                          \
    }

LOAD(i32, int8)
LOAD(i32, byte)
LOAD(i32, int16)
LOAD(i32, uint16)
LOAD(i32, int)
LOAD(f32, half)
LOAD(f32, bfloat16)
LOAD(f32, float)

STEP lanes_f64
lanes_load_double(const void *source)
{
    const char *in = source;
    const size_t step = sizeof(vector_f64);
    return (lanes_f64){load_double(in), load_double(in + step), load_double(in + 2 * step), load_double(in + 3 * step),
                       load_double(in + 4 * step), load_double(in + 5 * step), load_double(in + 6 * step),
                       load_double(in + 7 * step)};
}

/* -- cross over -------------------------------------------------------------------------------- */

STEP lanes_i32 lanes_keep(lanes_i32 x) { return x; }
STEP lanes_i32 lanes_i32_of_f32(lanes_f32 x) { return (lanes_i32)EACH(i32_of_f32, x); }
STEP lanes_i32 lanes_small_of_f32(lanes_f32 x) { return (lanes_i32)EACH(small_of_f32, x); }
STEP lanes_i32 lanes_unsigned_of_f32(lanes_f32 x) { return (lanes_i32)EACH(unsigned_of_f32, x); }
STEP lanes_f32 lanes_f32_of_i32(lanes_i32 x) { return (lanes_f32)EACH(f32_of_i32, x); }
STEP lanes_i32 lanes_i32_of_f64(lanes_f64 x) { return (lanes_i32)PAIRWISE(i32_of_f64, x); }
STEP lanes_i32 lanes_unsigned_of_f64(lanes_f64 x) { return (lanes_i32)PAIRWISE(unsigned_of_f64, x); }
STEP lanes_f32 lanes_f32_of_f64(lanes_f64 x) { return (lanes_f32)PAIRWISE(f32_of_f64, x); }
STEP lanes_f32 lanes_odd_of_f64(lanes_f64 x) { return (lanes_f32)PAIRWISE(odd_of_f64, x); }
STEP lanes_f64 lanes_f64_of_i32(lanes_i32 x) { return (lanes_f64)SPLIT(low_f64_of_i32, high_f64_of_i32, x); }
STEP lanes_f64 lanes_f64_of_f32(lanes_f32 x) { return (lanes_f64)SPLIT(low_f64_of_f32, high_f64_of_f32, x); }

/* Conversions of groups of vectors, with names like the <working>_to_<target> functions of
 * scalar.h. An int is converted to half through binary32, which represents every int in the range
 * of half exactly. */
#define i32_lanes_to_int8 lanes_keep
#define i32_lanes_to_byte lanes_keep
#define i32_lanes_to_int16 lanes_keep
#define i32_lanes_to_uint16 lanes_keep
#define i32_lanes_to_int lanes_keep
#define i32_lanes_to_half lanes_f32_of_i32
#define i32_lanes_to_bfloat16(x) lanes_odd_of_f64(lanes_f64_of_i32(x))
#define i32_lanes_to_float lanes_f32_of_i32
#define i32_lanes_to_double lanes_f64_of_i32
#define f32_lanes_to_int8 lanes_small_of_f32
#define f32_lanes_to_byte lanes_unsigned_of_f32
#define f32_lanes_to_int16 lanes_small_of_f32
#define f32_lanes_to_uint16 lanes_unsigned_of_f32
#define f32_lanes_to_int lanes_i32_of_f32
#define f32_lanes_to_half
#define f32_lanes_to_bfloat16
#define f32_lanes_to_float
#define f32_lanes_to_double lanes_f64_of_f32
#define f64_lanes_to_int8 lanes_i32_of_f64
#define f64_lanes_to_byte lanes_unsigned_of_f64
#define f64_lanes_to_int16 lanes_i32_of_f64
#define f64_lanes_to_uint16 lanes_unsigned_of_f64
#define f64_lanes_to_int lanes_i32_of_f64
#define f64_lanes_to_half lanes_odd_of_f64
#define f64_lanes_to_bfloat16 lanes_odd_of_f64
#define f64_lanes_to_float lanes_f32_of_f64
#define f64_lanes_to_double

/* -- saturate and store ------------------------------------------------------------------------ */

#define STORE_32_BITS(number, type, store)                                                                            \
    STEP void lanes_store_##number(void *target, lanes_##type x)                                                      \
    {                                                                                                                 \
        char *out = target;                                                                                           \
        store(out, x.a);                                                                                              \
        store(out + sizeof(x.a), x.b);                                                                                \
        store(out + 2 * sizeof(x.a), x.c);                                                                            \
        store(out + 3 * sizeof(x.a), x.d);                                                                            \
    }
#define STORE_16_BITS(number, type, pack)                                                                             \
    STEP void lanes_store_##number(void *target, lanes_##type x)                                                      \
    {                                                                                                                 \
        store_int(target, pack(x.a, x.b));                                                                            \
        store_int((char *)target + sizeof(x.a), pack(x.c, x.d));                                                      \
    }
#define STORE_8_BITS(number, pack)                                                                                    \
    STEP void lanes_store_##number(void *target, lanes_i32 x) { store_int(target, pack(x.a, x.b, x.c, x.d)); }

STORE_32_BITS(int, i32, store_int)
STORE_32_BITS(float, f32, store_float)
STORE_16_BITS(int16, i32, pack_int16)
STORE_16_BITS(uint16, i32, pack_uint16)
STORE_16_BITS(half, f32, pack_half)
STORE_16_BITS(bfloat16, f32, pack_bfloat16)
STORE_8_BITS(int8, pack_int8)
STORE_8_BITS(byte, pack_byte)

STEP void
lanes_store_double(void *target, lanes_f64 x)
{
    char *out = target;
    const size_t step = sizeof(vector_f64);
    store_double(out, x.a);
    store_double(out + step, x.b);
    store_double(out + 2 * step, x.c);
    store_double(out + 3 * step, x.d);
    store_double(out + 4 * step, x.e);
    store_double(out + 5 * step, x.f);
    store_double(out + 6 * step, x.g);
    store_double(out + 7 * step, x.h);
}

#endif
