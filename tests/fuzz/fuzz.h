/* SPDX-License-Identifier: MIT */
#ifndef FERRY_FUZZ_H
#define FERRY_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* What libFuzzer calls, and corpus.c: any bytes at all. Whatever they are, nothing may crash, leak
 * or be wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
