/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CONVERT_COPY_H
#define BENCH_CONVERT_COPY_H

#include "bench.h"

/**
 * Copies that convert on the way to a device, against the upload of what there is and a conversion
 * afterwards, in the same rounds: over emulated links as fast as real ones, or on a CUDA device
 * where FERRY_DEVICE names one.
 */
bool bench_convert_copy(struct bench_report *report, bool quick);

#endif
