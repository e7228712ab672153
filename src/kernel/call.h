/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALL_H
#define FERRYI_CALL_H

/* A kernel launch, as the kernel's host function sees it. The launch creates and owns this struct,
 * which is valid until the host function returns. */

#include <ferry/kernel.h>

#include "src/base/base.h"

#define FERRYI_CALL_TEXT_BYTES 512

struct ferryi_call_argument {
    const ferry_element
        *element;  /* the interned element type; NULL for a struct without an element type */
    void *pointer; /* address of the array's first element, or address of the value */
    size_t count;  /* number of elements of an array */
    size_t bytes;  /* size of a value */
    bool is_value;
    /* set in checked runs alone (call_check.h) */
    ferry_access access; /* how the launch uses an array of a buffer; 0 for others */
    const char *name;    /* name of the parameter, or NULL */
};

struct ferryi_call_check;

struct ferry_call {
    ferry_grid grid;
    struct ferryi_host_threads *threads; /* the host threads of the context */
    const struct ferryi_call_argument *arguments;
    size_t count;
    struct ferryi_call_check *check; /* NULL except in checked runs (call_check.h) */
    char *text; /* buffer of FERRYI_CALL_TEXT_BYTES bytes; contains "" until the host function calls
                   ferry_call_fail(), which writes its message to this buffer */
};

/* Returns whether two element types are the same. At least one of them is interned, so it suffices
 * to compare their identities. */
static inline bool
ferryi_same_element(const ferry_element *a, const ferry_element *b)
{
    return a == b || (a && b && a->identity == b->identity);
}

#endif
