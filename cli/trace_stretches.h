/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_TRACE_STRETCHES_H
#define FERRY_CLI_TRACE_STRETCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What became of each byte of a buffer: a partition of all offsets into stretches whose bytes had
 * the same fate.
 */

struct stretch {
    uint64_t begin;
    uint64_t crossings; /* between the host and devices, one way and the other in turn */
    size_t fetch; /* 1 + the index of the fetch that brought the bytes and that nothing has read
                     yet; 0: none */
    const char *place; /* where that fetch brought them */
    char last;         /* of the last crossing: 'u' to a device, 'd' to the host; 0: none */
};

struct stretches {
    struct stretch *items; /* the first begins at 0, and the last one has no end */
    size_t count, room;
};

/* The stretches of [begin, end), begin < end, of which none reaches beyond it: from `*out_first`,
 * the next `*out_count`. False: no memory. */
bool stretches_of(struct stretches *stretches, uint64_t begin, uint64_t end, size_t *out_first,
                  size_t *out_count);
uint64_t stretch_end(const struct stretches *stretches, size_t index);

#endif
