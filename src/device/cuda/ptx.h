/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PTX_H
#define FERRYI_PTX_H

/* What PTX, the assembly text that NVRTC makes, says of the entry points of its kernels. */

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns the text that follows the name of the entry point `name`; NULL if there is none. Then
 * `other` is the name of an entry point that there is, or "" if there is none whose name fits.
 */
const char *ferryi_ptx_entry(const char *ptx, const char *name, char *other, size_t other_size);

/*
 * Reads the parameters of an entry point, at most `most` of them. Sets the bytes of each, 0 for one
 * of a type that this reader does not know. Returns false if no list of parameters follows.
 */
bool ferryi_ptx_parameters(const char *entry, size_t most, size_t *bytes, size_t *out_count);

#endif
