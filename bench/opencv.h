/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPENCV_H
#define BENCH_OPENCV_H

/* OpenCV's convertTo() on one thread, as a peer that C programs can call. */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Converts `count` elements with OpenCV. `to` and `from` are names of Ferry's elements. If OpenCV
 * lacks one of the types, converts nothing and returns false.
 */
bool bench_opencv_convert(const char *to, void *target, const char *from, const void *source,
                          size_t count);

#ifdef __cplusplus
}
#endif

#endif
