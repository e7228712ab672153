/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ELEMENT_H
#define FERRYI_ELEMENT_H

/*
 * The elements of this process: one copy of each distinct description. Objects that outlive a call
 * point to these copies, so that dlclose() of the program's library leaves no dangling pointer. The
 * copies are few and are never freed, because handles of destroyed contexts still point to them.
 */

#include <ferry/element.h>

#include "src/base/base.h"

/*
 * Returns the library's own copy of a description, which is made when the description is first
 * used. Equal content returns the same pointer for the life of the process. The copy has the name,
 * C type and field names of the first description; if the C type is NULL, the name is used instead.
 * If a struct has no CUDA declaration, it takes the first one that is passed later. A known element
 * is found by its hash, without a lock.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, malformed, or `identity` does not
 * match the content); FERRY_ERROR_OUT_OF_MEMORY. `*out` is written only on FERRY_OK. Threads: any.
 */
ferry_status ferryi_element_intern(const ferry_element *element, const ferry_element **out);

/* If two different elements have the same name, returns a suffix for the second name in a message;
 * otherwise "". */
const char *ferryi_element_namesake(const ferry_element *a, const ferry_element *b);

/* Returns the CUDA declaration of an interned struct, or NULL. The declaration may be set later
 * than the element, so it must be read only with this function. The string lives as long as the
 * process. Threads: any. */
const char *ferryi_element_cuda_declaration(const ferry_element *interned);

#endif
