/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_ELEMENT_H
#define FERRYI_ELEMENT_H

/*
 * The elements of this process: one copy of each description, by content. What is kept beyond a
 * call points at these copies, so that a library that is closed with dlclose leaves nothing
 * dangling. There are few of them, and they are never freed: handles of destroyed contexts still
 * name their element.
 */

#include <ferry/element.h>

#include "src/base/base.h"

/*
 * The library's own copy of a description, made at its first use. Equal content gives the same
 * pointer for the life of the process; name, C type (the name where it is NULL) and field names are
 * those that came first. A struct that had no CUDA declaration gets the first one that comes. Cheap
 * when the element is known: it is hashed, and no lock is taken.
 *
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, no name, malformed, or `identity` is not
 *         that of the content); FERRY_ERROR_OUT_OF_MEMORY. `*out` is written only on FERRY_OK.
 *         Threads: any.
 */
ferry_status ferryi_element_intern(const ferry_element *element, const ferry_element **out);

/* Returns what a message appends to the second of two names where two different elements share one
 * name; else "". */
const char *ferryi_element_namesake(const ferry_element *a, const ferry_element *b);

/* The CUDA declaration of an interned struct, or NULL. It may come later than the element, so read
 * it only with this. The string lives as long as the process. Threads: any. */
const char *ferryi_element_cuda_declaration(const ferry_element *interned);

#endif
