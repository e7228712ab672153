/* SPDX-License-Identifier: MIT */
#ifndef FERRY_ELEMENT_H
#define FERRY_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/** Kind of an element or of a struct's field. A value never changes its meaning. */
typedef enum ferry_kind {
    FERRY_KIND_FLOAT = 1,  /**< IEEE-754 binary floating point, `bits` wide */
    FERRY_KIND_BFLOAT = 2, /**< floating point with 8 exponent bits */
    FERRY_KIND_INT = 3,    /**< two's complement integer */
    FERRY_KIND_UINT = 4,   /**< unsigned integer */
    FERRY_KIND_BOOL = 5,    /**< one byte, 0 or 1 */
    FERRY_KIND_COMPLEX = 6, /**< two floats of bits / 2 each: real part, imaginary part */
    FERRY_KIND_STRUCT = 7   /**< described by its fields */
} ferry_kind;

/** One field of a struct element. */
typedef struct ferry_field {
    const char *name;  /**< member designator, such as "x" or "inner.x" */
    ferry_kind kind;   /**< a scalar kind */
    uint32_t bits;     /**< size of one scalar */
    size_t offset;     /**< bytes from the start of the struct */
    size_t count;      /**< 1, or the length of an array member */
    uint64_t reserved[2];
} ferry_field;

/**
 * Describes an element type. ferry-gen writes one per type; a program may write its own.
 *
 * Elements are compared by content, never by address or name. Scalars are equal when kind and bits
 * are equal. Structs are equal when size, alignment, and every field's kind, bits, offset and count
 * are equal. Two libraries that both describe uint16_t can therefore exchange buffers.
 *
 * The library copies the description when it first uses it. The caller may free the description and
 * its strings when that call returns.
 */
typedef struct ferry_element {
    const char *name;             /**< name in messages, with its prefix: "float", "mylib_vec3" */
    const char *c_type;           /**< type in C, such as "struct mylib_vec3" */
    uint64_t identity;            /**< ferry_element_identity() of this content */
    size_t bytes;                 /**< sizeof */
    size_t align;                 /**< a power of two that divides `bytes` */
    ferry_kind kind;              /**< a scalar kind, or FERRY_KIND_STRUCT */
    uint32_t bits;                /**< 8 * bytes for a scalar; 0 for a struct */
    const ferry_field *fields;    /**< structs only, by ascending offset */
    size_t field_count;           /**< length of `fields` */
    const char *cuda_declaration; /**< inserted before kernel source that uses the struct; NULL for
                                       scalars, or when the struct is not declared to CUDA */
    uint64_t reserved[4];
} ferry_element;

/**
 * Returns the 64-bit hash that identifies an element's content.
 *
 * The hash is 64-bit FNV-1a over little-endian 64-bit words: kind, bits, bytes and align, and for
 * structs then kind, bits, offset and count of each field in order. (Fowler, Noll, Vo: offset basis
 * 14695981039346656037, prime 1099511628211.)
 *
 * @return the hash; 0 when `element` is NULL, or has an invalid size, alignment, kind or field.
 * Threads: any.
 */
FERRY_API uint64_t ferry_element_identity(const ferry_element *element);

/**
 * Compares two elements by content.
 * @return true when they are equal; false when either is NULL or invalid. Threads: any.
 */
FERRY_API bool ferry_element_equal(const ferry_element *a, const ferry_element *b);

/**
 * Returns the element of a kernel's size_t parameters: an unsigned integer as wide as size_t.
 * @return static data of the library, never NULL. Threads: any.
 */
FERRY_API const ferry_element *ferry_size_element(void);

FERRY_END_DECLS

#if defined(__cplusplus) && __cplusplus >= 201103L
namespace ferry
{
/**
 * The element of a C++ type. Generated headers specialize it; `get()` returns the description. A
 * program that writes a description by hand may specialize it for its own type.
 */
template <class T> struct element_of;
} // namespace ferry
#endif

#endif
