/* SPDX-License-Identifier: MIT */
#ifndef FERRY_ELEMENT_H
#define FERRY_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/** What an element is made of. Values are final. */
typedef enum ferry_kind {
    FERRY_KIND_FLOAT = 1,  /**< IEEE-754 binary, `bits` wide */
    FERRY_KIND_BFLOAT = 2, /**< 8 exponent bits */
    FERRY_KIND_INT = 3,    /**< two's complement */
    FERRY_KIND_UINT = 4,
    FERRY_KIND_BOOL = 5,    /**< one byte, 0 or 1 */
    FERRY_KIND_COMPLEX = 6, /**< two floats of bits / 2 each: real, imaginary */
    FERRY_KIND_STRUCT = 7
} ferry_kind;

/** One field of a struct element. */
typedef struct ferry_field {
    const char *name;  /**< member designator, such as "x" or "inner.x" */
    ferry_kind kind;   /**< a scalar kind */
    uint32_t bits;     /**< of one scalar */
    size_t offset;     /**< bytes from the start of the struct */
    size_t count;      /**< 1, or the length of an array member */
} ferry_field;

/**
 * The description of an element type. ferry-gen writes one per type; a program may write its own.
 *
 * Elements are compared by content, never by address or name: scalars are equal when kind and bits are,
 * structs when size, alignment and every field's kind, bits, offset and count are. So two libraries that
 * both describe uint16_t exchange buffers. The library copies what it keeps at first use; the description
 * and its strings need to live only during the call they are passed to.
 */
typedef struct ferry_element {
    const char *name;             /**< as messages say it, with the prefix where there is one: "float", "mylib_vec3" */
    const char *c_type;           /**< as written in C, such as "struct mylib_vec3" */
    uint64_t identity;            /**< ferry_element_identity() of this content; ferry-gen computes it */
    size_t bytes;                 /**< sizeof */
    size_t align;                 /**< a power of two that divides `bytes` */
    ferry_kind kind;
    uint32_t bits;                /**< of a scalar: 8 * bytes; 0 for a struct */
    const ferry_field *fields;    /**< structs only, by ascending offset */
    size_t field_count;
    const char *cuda_declaration; /**< put before kernel source that uses the struct; NULL for scalars */
} ferry_element;

/**
 * The 64-bit hash by which elements are told apart: FNV-1a over the little-endian 64-bit words kind, bits,
 * bytes and align, followed for structs by kind, bits, offset and count of each field in order.
 * (FNV-1a, 64 bit: offset basis 14695981039346656037, prime 1099511628211; Fowler, Noll, Vo.)
 *
 * @return the hash; 0 when `element` is NULL or malformed (sizes, alignment, kinds, fields out of bounds).
 * Threads: any.
 */
FERRY_API uint64_t ferry_element_identity(const ferry_element *element);

/** True when both describe the same content; false when either is NULL or malformed. Threads: any. */
FERRY_API bool ferry_element_equal(const ferry_element *a, const ferry_element *b);

/** The element of size_t arguments of kernels: an unsigned integer as wide as size_t. Threads: any. */
FERRY_API const ferry_element *ferry_size_element(void);

FERRY_END_DECLS

#endif
