/* SPDX-License-Identifier: MIT */
#ifndef FERRY_ELEMENT_H
#define FERRY_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * Kind of an element, or of one field of a struct element. The meaning of a value never changes.
 */
typedef enum ferry_kind {
    FERRY_KIND_FLOAT = 1,   /**< IEEE-754 binary floating point */
    FERRY_KIND_BFLOAT = 2,  /**< bfloat16: floating point with 8 bits of exponent and 7 bits of
                                 fraction */
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
    ferry_kind kind;  /**< kind of the member, or of its items if it is an array; never
                           FERRY_KIND_STRUCT */
    uint32_t bits;    /**< width in bits of the member, or of one item if it is an array */
    size_t offset;    /**< bytes from the start of the struct */
    size_t count;     /**< 1, or the length of an array member */
    uint64_t reserved[2];
} ferry_field;

/**
 * Describes an element type. The generator ferry-gen writes one description for each type. A
 * program may also write its own.
 *
 * The library compares element types by their descriptions, never by address or name. Two scalar
 * types are equal when their kinds and bits are equal. Two struct types are equal when their sizes
 * and alignments are equal, and each field has the same kind, bits, offset and count in both. Two
 * libraries that both describe uint16_t can therefore exchange buffers.
 *
 * A function that needs a description after it has returned keeps a copy. The caller may therefore
 * free the description and its strings as soon as the call has returned.
 */
typedef struct ferry_element {
    const char *name;             /**< name in messages, such as "float", or with a library's prefix
                                       "mylib_vec3" */
    const char *c_type;           /**< name of the C type, such as "struct mylib_vec3" */
    uint64_t identity;            /**< result of ferry_element_identity() for this description */
    size_t bytes;                 /**< size of the C type, as sizeof returns it */
    size_t align;                 /**< alignment of the C type in bytes: a power of two that divides
                                       `bytes` */
    ferry_kind kind;              /**< kind of the scalar; FERRY_KIND_STRUCT for a struct */
    uint32_t bits;                /**< 8 * bytes for a scalar; 0 for a struct */
    const ferry_field *fields;    /**< fields of a struct, by ascending offset; NULL for a scalar */
    size_t field_count;           /**< length of `fields` */
    const char *cuda_declaration; /**< declaration of the struct in CUDA C++. Ferry puts it before
                                       the source of a kernel that uses the struct. NULL for a
                                       scalar, and for a struct that no kernel uses */
    const char *opencl_declaration; /**< declaration of the struct in OpenCL C, as above; NULL where
                                         there is none. No device uses it yet */
    uint64_t reserved[4];
} ferry_element;

/**
 * Returns a 64-bit hash of an element's description. Equal descriptions have equal hashes.
 *
 * The hash is 64-bit FNV-1a (Fowler, Noll, Vo), with the offset basis 14695981039346656037 and the
 * prime 1099511628211. Its input is a sequence of little-endian 64-bit words: kind, bits, bytes and
 * align of the element. For a struct, the kind, bits, offset and count of each field follow, in the
 * order of the fields.
 *
 * @return the hash; 0 when `element` is NULL, or when its size, alignment, kind or a field is
 *         invalid.
 * Threads: any.
 */
FERRY_API uint64_t ferry_element_identity(const ferry_element *element);

/**
 * Compares two element types by their descriptions; the comment of ferry_element lists which
 * members count.
 * @return true when they are equal; false when they differ, or when one is NULL or invalid.
 * Threads: any.
 */
FERRY_API bool ferry_element_equal(const ferry_element *a, const ferry_element *b);

/**
 * Returns the description of size_t: an unsigned integer of that width. Kernel parameters of type
 * size_t have this element type.
 * @return static data of the library, never NULL.
 * Threads: any.
 */
FERRY_API const ferry_element *ferry_size_element(void);

FERRY_END_DECLS

#if defined(__cplusplus) && __cplusplus >= 201103L
namespace ferry
{
/**
 * Maps a C++ type to its description: `element_of<T>::get()` returns it. Generated headers
 * specialize this template. A program that writes a description by hand may specialize the template
 * for its own type.
 */
template <class T> struct element_of;
} // namespace ferry
#endif

#endif
