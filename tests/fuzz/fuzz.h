/* SPDX-License-Identifier: MIT */
#ifndef FERRY_FUZZ_H
#define FERRY_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Runs the fuzz target on one input of arbitrary bytes. libFuzzer or corpus.c calls this function.
 * No input may cause a crash, a leak or a wrong result. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
