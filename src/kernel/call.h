/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CALL_H
#define FERRYI_CALL_H

/* What a host body sees of its launch. Made and owned by the launch; valid during the body. */

#include <ferry/kernel.h>

#include "src/base/base.h"

#define FERRYI_CALL_TEXT_BYTES 512

struct ferryi_call_argument {
    const ferry_element *element; /* interned; NULL for a plain struct */
    void *pointer;                /* of the array's first element, or of the value */
    size_t count;                 /* elements of an array */
    size_t bytes;                 /* of a value */
    bool is_value;
};

struct ferry_call {
    ferry_grid grid;
    const struct ferryi_call_argument *arguments;
    size_t count;
    char *text; /* FERRYI_CALL_TEXT_BYTES for ferry_call_fail(); "" at first */
};

/* Elements that the library interned, or compares with an interned one, are distinguished by their
 * identity. */
static inline bool
ferryi_same_element(const ferry_element *a, const ferry_element *b)
{
    return a == b || (a && b && a->identity == b->identity);
}

#endif
