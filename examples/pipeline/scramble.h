/* SPDX-License-Identifier: MIT */
#ifndef SCRAMBLE_H
#define SCRAMBLE_H

#include <stdint.h>

#include <ferry/ferry.h>

/* The kernel of the pipeline. It mixes every number with its position in the file, so that all differ. */

enum { SCRAMBLE_PARAMETER_COUNT = 3 };

/** Returns the result of the kernel for one number. */
uint32_t scramble(uint32_t number, uint64_t index);

/** Returns the kernel's description, which points into `parameters`. */
ferry_kernel_source scramble_kernel_source(ferry_parameter parameters[SCRAMBLE_PARAMETER_COUNT]);

/** Queues the kernel for one chunk of a file of uint32_t. */
ferry_status scramble_launch(ferry_kernel *kernel, const ferry_file_chunk *chunk);

#endif
