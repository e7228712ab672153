/* SPDX-License-Identifier: MIT */
#ifndef FERRY_ELEMENT_H
#define FERRY_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/** Kind of an element or of a struct's field. The meaning of a value never changes. */
typedef enum ferry_kind {
    FERRY_KIND_FLOAT = 1,  /**< IEEE-754 binary floating point, `bits` wide */
    FERRY_KIND_BFLOAT = 2, /**< floating point with 8 exponent bits */
    FERRY_KIND_INT = 3,    /**< two's complement integer */
    FERRY_KIND_UINT = 4,   /**< unsigned integer */
    FERRY_KIND_BOOL = 5,    /**< one byte, 0 or 1 */
    FERRY_KIND_COMPLEX = 6, /**< two floats of bits / 2 each: real part, imaginary part */
    FERRY_KIND_STRUCT = 7   /**< a struct, whose fields are described one by one */
} ferry_kind;

/** One field of a struct element. */
typedef struct ferry_field {
    const char *name;  /**< the member in C, such as "x" or "inner.x" */
    ferry_kind kind;   /**< the kind of the member's scalars, never FERRY_KIND_STRUCT */
    uint32_t bits;     /**< bits of one scalar of the member */
    size_t offset;     /**< bytes from the start of the struct */
    size_t count;      /**< 1, or the length of an array member */
    uint64_t reserved[2];
} ferry_field;

/**
 * Describes an element type. The generator ferry-gen writes one for each type; a program may write
 * its own.
 *
 * Elements are compared by what they describe, never by address or name. Scalars are equal when
 * kind and bits are equal. Structs are equal when size, alignment, and every field's kind, bits,
 * offset and count are equal. Two libraries that both describe uint16_t can therefore exchange
 * buffers.
 *
 * A function that needs a description after it has returned keeps a copy. The caller may therefore
 * free the description and its strings when the call has returned.
 */
typedef struct ferry_element {
    const char *name;             /**< name in messages, with its prefix: "float", "mylib_vec3" */
    const char *c_type;           /**< type in C, such as "struct mylib_vec3" */
    uint64_t identity;            /**< result of ferry_element_identity() for this description */
    size_t bytes;                 /**< size of the C type, as sizeof returns it */
    size_t align;                 /**< a power of two that divides `bytes` */
    ferry_kind kind;              /**< kind of a scalar, or FERRY_KIND_STRUCT */
    uint32_t bits;                /**< 8 * bytes for a scalar; 0 for a struct */
    const ferry_field *fields;    /**< fields of a struct, by ascending offset; NULL for a scalar */
    size_t field_count;           /**< length of `fields` */
    const char *cuda_declaration; /**< declaration of the struct in CUDA C++, which is compiled
                                       before kernel source that uses the struct; NULL for scalars,
                                       or when kernels do not use it */
    uint64_t reserved[4];
} ferry_element;

/**
 * Returns a 64-bit hash of an element's description. Elements that are equal have the same hash.
 *
 * The hash is 64-bit FNV-1a over little-endian 64-bit words: kind, bits, bytes and align, and for a
 * struct also the kind, bits, offset and count of each field in order. (Fowler, Noll, Vo: offset
 * basis 14695981039346656037, prime 1099511628211.)
 *
 * @return the hash; 0 when `element` is NULL, or has an invalid size, alignment, kind or field.
 * Threads: any.
 */
FERRY_API uint64_t ferry_element_identity(const ferry_element *element);

/**
 * Compares two elements by what they describe, as ferry_element explains.
 * @return true when they are equal; false when either is NULL or invalid. Threads: any.
 */
FERRY_API bool ferry_element_equal(const ferry_element *a, const ferry_element *b);

/**
 * Returns the element for size_t: an unsigned integer as wide as size_t. Kernel parameters of type
 * size_t use it.
 * @return static data of the library, never NULL. Threads: any.
 */
FERRY_API const ferry_element *ferry_size_element(void);

FERRY_END_DECLS

#if defined(__cplusplus) && __cplusplus >= 201103L
namespace ferry
{
/**
 * Finds the element of a C++ type: `element_of<T>::get()` returns its description. Generated
 * headers specialize this template. A program that writes a description by hand may specialize it
 * for its own type.
 */
template <class T> struct element_of;
} // namespace ferry
#endif

#endif
