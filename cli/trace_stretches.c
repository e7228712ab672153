/* SPDX-License-Identifier: MIT */
#include "cli/trace_stretches.h"

#include <stdlib.h>
#include <string.h>

/* The last one that begins at or before `at`. */
static size_t
find(const struct stretches *stretches, uint64_t at)
{
    size_t low = 0, high = stretches->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (stretches->items[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* `*out` begins at `at`. */
static bool
split(struct stretches *stretches, uint64_t at, size_t *out)
{
    if (stretches->count + 1 >= stretches->room) {
        size_t room = stretches->room ? 2 * stretches->room : 8;
        struct stretch *larger = realloc(stretches->items, room * sizeof(*larger));
        if (!larger)
            return false;
        stretches->items = larger;
        stretches->room = room;
    }
    if (stretches->count == 0)
        stretches->items[stretches->count++] = (struct stretch){0};
    size_t index = find(stretches, at);
    if (stretches->items[index].begin < at) {
        memmove(&stretches->items[index + 1], &stretches->items[index],
                (stretches->count - index) * sizeof(*stretches->items));
        stretches->items[++index].begin = at;
        stretches->count++;
    }
    *out = index;
    return true;
}

bool
stretches_of(struct stretches *stretches, uint64_t begin, uint64_t end, size_t *out_first,
             size_t *out_count)
{
    size_t last;
    if (!split(stretches, begin, out_first) || !split(stretches, end, &last))
        return false;
    *out_count = last - *out_first;
    return true;
}

uint64_t
stretch_end(const struct stretches *stretches, size_t index)
{
    return index + 1 < stretches->count ? stretches->items[index + 1].begin : UINT64_MAX;
}
