/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPENCV_H
#define BENCH_OPENCV_H

/* OpenCV's convertTo() on one thread, as a peer. This header gives C programs access to it. */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Converts `count` elements. Types are named as Ferry's elements. Returns false, without
 * converting, if OpenCV does not have one of the types. */
bool bench_opencv_convert(const char *to, void *target, const char *from, const void *source,
                          size_t count);

#ifdef __cplusplus
}
#endif

#endif
