/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CONVERT_COPY_H
#define BENCH_CONVERT_COPY_H

#include "bench.h"

/**
 * Measures copies that convert on the way to a device. In the same rounds the peer uploads the
 * unconverted array and converts it on the device. Runs over emulated links with the bandwidths of
 * real ones, or on a CUDA device if FERRY_DEVICE names one.
 */
bool bench_convert_copy(struct bench_report *report, bool quick);

#endif
