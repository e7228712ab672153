/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ELEMENT_H
#define FERRYI_ELEMENT_H

/*
 * Interned elements: the process has one copy of each distinct description. Objects that outlive a
 * call point to these copies, so that dlclose() of the program's library leaves no dangling
 * pointer. The copies are few, and are never freed because handles of destroyed contexts still
 * point to them.
 */

#include <ferry/element.h>

#include "src/base/base.h"

/*
 * Returns the library's own copy of a description. The copy is made when the description is first
 * used. Descriptions with equal content have the same copy for the life of the process.
 *
 * The copy has the name, the C type and the field names of the first description. If the C type is
 * NULL, the name is used instead. A struct without a CUDA declaration takes the first declaration
 * that is passed later. A known element is found by its hash, without a lock.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, malformed, or `identity` does not
 * match the content); FERRY_ERROR_OUT_OF_MEMORY. `*out` is written only on FERRY_OK. Threads: any.
 */
ferry_status ferryi_element_intern(const ferry_element *element, const ferry_element **out);

/* Returns a suffix for the name of `b` in a message, if `a` and `b` are different elements with the
 * same name. Otherwise returns "". */
const char *ferryi_element_namesake(const ferry_element *a, const ferry_element *b);

/* Returns the CUDA declaration of an interned struct, or NULL. The declaration may be set later
 * than the element, so it must be read only with this function. The string is valid until the
 * process ends. Threads: any. */
const char *ferryi_element_cuda_declaration(const ferry_element *interned);

#endif
