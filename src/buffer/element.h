/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ELEMENT_H
#define FERRYI_ELEMENT_H

/*
 * The elements of this process: one copy of each distinct description. Objects that outlive a call
 * point at these copies, so that dlclose() of the program's library leaves no dangling pointer.
 * There are few of them and they are never freed, because handles of destroyed contexts still name
 * their element.
 */

#include <ferry/element.h>

#include "src/base/base.h"

/*
 * Returns the library's own copy of a description, made at its first use. Equal content returns the
 * same pointer for the life of the process. Name, C type (the name where it is NULL) and field
 * names are those of the first description; a struct without a CUDA declaration takes the first one
 * that is passed later. A known element is found by its hash, without a lock.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, malformed, or `identity` does not
 * match the content); FERRY_ERROR_OUT_OF_MEMORY. `*out` is written only on FERRY_OK. Threads: any.
 */
ferry_status ferryi_element_intern(const ferry_element *element, const ferry_element **out);

/* Returns a suffix for the second of two names in a message, where two different elements have the
 * same name; otherwise "". */
const char *ferryi_element_namesake(const ferry_element *a, const ferry_element *b);

/* Returns the CUDA declaration of an interned struct, or NULL. It may be set later than the
 * element, so read it only with this function. The string lives as long as the process. Threads:
 * any. */
const char *ferryi_element_cuda_declaration(const ferry_element *interned);

#endif
