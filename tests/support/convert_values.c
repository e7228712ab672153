/* SPDX-License-Identifier: MIT */
#include "tests/support/convert_values.h"

#include <string.h>

#include <ferry/bfloat16.h>
#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/complex_double.h>
#include <ferry/complex_float.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/int8.h>
#include <ferry/uint16.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

const struct convert_number convert_numbers[ferryi_number_count] = {
#define NUMBER(id, type) [ferryi_number_##id] = {#id, ferry_##type##_element}
    NUMBER(float, float),
    NUMBER(double, double),
    NUMBER(half, half),
    NUMBER(bfloat16, bfloat16),
    NUMBER(int8, int8),
    NUMBER(int16, int16),
    NUMBER(int, int),
    NUMBER(int64, int64),
    NUMBER(byte, byte),
    NUMBER(uint16, uint16),
    NUMBER(uint32, uint32),
    NUMBER(uint64, uint64),
    [ferryi_number_bool8] = {"bool8", ferry_bool_element},
    NUMBER(complex_float, complex_float),
    NUMBER(complex_double, complex_double),
};

static uint64_t
next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Returns the bits of a random float or integer near a special value. Special values are limits,
 * halves, subnormals, infinities and NaNs. */
static uint64_t
near_an_edge(uint64_t *state)
{
    static const uint64_t edges[] = {
        0,
        0x3f000000,
        0x3fc00000,
        0x437f8000,
        0x477ff000,
        0x38800000,
        0x4f000000,
        0x4f800000,
        0x5f000000,
        0x5f800000,
        0x7f7fffff,
        0x7f800000,
        0x7fc00000,
        0x7f7f8000,
        0x33000000,
        0x3fe0000000000000,
        0x3ff8000000000000,
        0x406ff00000000000,
        0x40effff000000000,
        0x41dfffffffc00000,
        0x41efffffffe00000,
        0x43e0000000000000,
        0x43f0000000000000,
        0x47efffffe0000000,
        0x47effffff0000000,
        0x3690000000000000,
        0x36a0000000000000,
        0x3e60000000000000,
        0x40effe0000000000,
        0x7fefffffffffffff,
        0x7ff0000000000000,
        0x7ff8000000000000,
        255,
        127,
        65535,
        65504,
        65519,
        65520,
        0x7fffffff,
        0xffffffff,
        16777217,
        0x7fffffffffffffff,
    };
    const size_t count = sizeof(edges) / sizeof(edges[0]);
    uint64_t random = next(state);
    uint64_t value = edges[random % count] + (random >> 8 & 7) - 3;
    switch (random >> 16 & 3) {
    case 0:
        return value;
    case 1:
        return value | UINT64_C(1) << 63;
    case 2:
        return value | UINT64_C(1) << 31;
    default:
        return 0 - value;
    }
}

size_t
convert_values_fill(const ferry_element *element, void *memory, size_t capacity)
{
    uint64_t state = 88172645463325252u;
    unsigned char *out = memory;
    size_t count = element->bytes <= 2 ? (size_t)1 << (8 * element->bytes) : capacity;
    for (size_t i = 0; i < count * element->bytes / (element->bytes < 8 ? element->bytes : 8);
         i++) {
        uint64_t bits = element->bytes <= 2 ? i : i % 3 == 0 ? near_an_edge(&state) : next(&state);
        size_t width = element->bytes < 8 ? element->bytes : 8;
        memcpy(out + i * width, &bits, width);
        if (element->kind == FERRY_KIND_COMPLEX && element->bytes == 8) {
            uint32_t real = (uint32_t)near_an_edge(&state);
            memcpy(out + i * width, &real, sizeof(real));
        }
    }
    return count;
}

bool
convert_values_same(const ferry_element *to, const unsigned char *a, const unsigned char *b)
{
    if (memcmp(a, b, to->bytes) == 0)
        return true;
    uint64_t x = 0, y = 0, infinity;
    size_t bits = to->kind == FERRY_KIND_COMPLEX ? to->bits / 2 : to->bits;
    bool equal = true;
    if (to->kind != FERRY_KIND_FLOAT && to->kind != FERRY_KIND_BFLOAT &&
        to->kind != FERRY_KIND_COMPLEX)
        return false;
    infinity = to->kind == FERRY_KIND_BFLOAT ? 0x7f80
               : bits == 16                  ? 0x7c00
               : bits == 32                  ? 0x7f800000
                                             : UINT64_C(0x7ff) << 52;
    for (size_t at = 0; at < to->bytes; at += bits / 8) {
        memcpy(&x, a + at, bits / 8);
        memcpy(&y, b + at, bits / 8);
        uint64_t magnitude = (UINT64_C(1) << (bits - 1)) - 1;
        equal = equal && (x == y || ((x & magnitude) > infinity && (y & magnitude) > infinity));
    }
    return equal;
}
