/* SPDX-License-Identifier: MIT */
#ifndef BENCH_CONVERT_COPY_H
#define BENCH_CONVERT_COPY_H

#include "bench.h"

/**
 * Measures copies that convert the elements on the way to a device. In the same rounds the peer
 * uploads the unconverted array and converts it on the device. The measurement uses emulated links
 * with the bandwidths of real ones. If FERRY_DEVICE names a CUDA device, it uses that device
 * instead.
 */
bool bench_convert_copy(struct bench_report *report, bool quick);

#endif
