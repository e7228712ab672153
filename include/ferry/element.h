/* SPDX-License-Identifier: MIT */
#ifndef FERRY_ELEMENT_H
#define FERRY_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/** Kind of an element, or of a field of a struct. The meaning of a value never changes. */
typedef enum ferry_kind {
    FERRY_KIND_FLOAT = 1,   /**< IEEE-754 binary floating point */
    FERRY_KIND_BFLOAT = 2,  /**< bfloat16: 8 bits of exponent, 7 bits of fraction */
    FERRY_KIND_INT = 3,     /**< two's complement integer */
    FERRY_KIND_UINT = 4,    /**< unsigned integer */
    FERRY_KIND_BOOL = 5,    /**< one byte, 0 or 1 */
    FERRY_KIND_COMPLEX = 6, /**< two floating-point numbers of bits / 2 bits each: the real part,
                                 then the imaginary part */
    FERRY_KIND_STRUCT = 7   /**< a struct; the description lists its fields */
} ferry_kind;

/** One field of a struct element. */
typedef struct ferry_field {
    const char *name; /**< name of the member in C, such as "x" or "inner.x" */
    ferry_kind kind;  /**< kind of the member, or of an item of an array; never FERRY_KIND_STRUCT */
    uint32_t bits;    /**< width in bits of the member, or of an item of an array */
    size_t offset;    /**< in bytes from the start of the struct */
    size_t count;     /**< 1, or the length of an array member */
    uint64_t reserved[2];
} ferry_field;

/**
 * Describes an element type. The generator ferry-gen writes descriptions; a program may also write
 * its own. A function that keeps a description copies it, so the caller may free it with its
 * strings after the call.
 *
 * Element types are compared by their descriptions, never by address or name. Two scalar types are
 * equal when their kinds and bits are. Two struct types are equal when their sizes and alignments
 * are, and the kind, bits, offset and count of each field.
 */
typedef struct ferry_element {
    const char *name;             /**< name in messages, such as "float" or "mylib_vec3" */
    const char *c_type;           /**< the C type, such as "struct mylib_vec3" */
    uint64_t identity;            /**< ferry_element_identity() of this description */
    size_t bytes;                 /**< sizeof the C type */
    size_t align;                 /**< alignment in bytes: a power of two that divides `bytes` */
    ferry_kind kind;              /**< FERRY_KIND_STRUCT for a struct */
    uint32_t bits;                /**< 8 * bytes for a scalar; 0 for a struct */
    const ferry_field *fields;    /**< of a struct, by ascending offset; NULL for a scalar */
    size_t field_count;           /**< length of `fields` */
    const char *cuda_declaration; /**< declaration of a struct in CUDA C++, which Ferry puts before
                                       the source of kernels that use it, or NULL */
    const char *opencl_declaration; /**< the same in OpenCL C, or NULL */
    uint64_t reserved[4];
} ferry_element;

/**
 * Returns a 64-bit hash of an element's description. Equal descriptions have equal hashes.
 *
 * It is the 64-bit FNV-1a (Fowler, Noll, Vo), with the offset basis 14695981039346656037 and the
 * prime 1099511628211, of little-endian 64-bit words: kind, bits, bytes and align of the element,
 * and then the kind, bits, offset and count of each field of a struct, in their order.
 *
 * @return the hash; 0 when `element` is NULL, or its size, alignment, kind or a field is invalid.
 * Threads: any.
 */
FERRY_API uint64_t ferry_element_identity(const ferry_element *element);

/**
 * Compares two element types as described at ferry_element. Returns false also when one is NULL or
 * invalid. Threads: any.
 */
FERRY_API bool ferry_element_equal(const ferry_element *a, const ferry_element *b);

/**
 * Returns the library's description of size_t, an unsigned integer of that width, which kernel
 * parameters of type size_t have; never NULL. Threads: any.
 */
FERRY_API const ferry_element *ferry_size_element(void);

FERRY_END_DECLS

#if defined(__cplusplus) && __cplusplus >= 201103L
namespace ferry
{
/**
 * `element_of<T>::get()` returns the description of a C++ type. Generated headers specialize this
 * template; a program that writes a description by hand may do so for its own type.
 */
template <class T> struct element_of;
} // namespace ferry
#endif

#endif
