/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CONVERT_COPY_H
#define BENCH_CONVERT_COPY_H

#include "bench.h"

/**
 * Measures copies to a device that convert the elements on the way. In the same rounds the
 * unconverted array is uploaded and then converted on the device, for comparison. The measurement
 * uses emulated links with the bandwidths of real ones. If FERRY_DEVICE names a CUDA device, the
 * measurement uses that device instead of an emulated one.
 */
bool bench_convert_copy(struct bench_report *report, bool quick);

#endif
