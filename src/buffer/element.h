/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ELEMENT_H
#define FERRYI_ELEMENT_H

/*
 * Interned elements: the process keeps one copy of each distinct element description. Objects that
 * outlive a call point to this copy instead of the caller's description. So they stay valid when
 * dlclose() unloads the library that contains the caller's description. The copies are few. They
 * are never freed, because handles of destroyed contexts still point to them.
 */

#include <ferry/element.h>

#include "src/base/base.h"

/*
 * Returns the library's own copy of a description. The copy is made when the description is first
 * used. Descriptions with equal content have the same copy for the life of the process.
 *
 * The copy keeps the name, the C type and the field names of the description that was passed first.
 * If the C type is NULL, the name is used instead. If the copy of a struct has no declaration in
 * CUDA or OpenCL, it takes the first one that a later call passes. A known element is found by its
 * hash, without a lock.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, malformed, or `identity` does not
 * match the content); FERRY_ERROR_OUT_OF_MEMORY. `*out` is written only on FERRY_OK. Threads: any.
 */
ferry_status ferryi_element_intern(const ferry_element *element, const ferry_element **out);

/* Returns text that a message appends to the name of `b`, if `a` and `b` are different elements
 * with the same name. Otherwise returns "". */
const char *ferryi_element_namesake(const ferry_element *a, const ferry_element *b);

/* Return the CUDA and the OpenCL declaration of an interned struct, or NULL. A declaration may be
 * set after the struct was interned, so it must be read only with these functions. The string is
 * valid until the process ends. Threads: any. */
const char *ferryi_element_cuda_declaration(const ferry_element *interned);
const char *ferryi_element_opencl_declaration(const ferry_element *interned);

#endif
