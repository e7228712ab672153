/* SPDX-License-Identifier: MIT */
#ifndef FERRY_FUZZ_H
#define FERRY_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs the fuzz target on one input. libFuzzer or corpus.c calls it with arbitrary bytes. No input
 * may cause a crash, a leak or a wrong result. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
