/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPENCV_H
#define BENCH_OPENCV_H

/* Lets C programs call OpenCV's convertTo() on one thread, to compare its speed with that of Ferry.
 */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Converts `count` elements with OpenCV. `to` and `from` are names of Ferry's element types. If
 * OpenCV lacks one of these types, the function converts nothing and returns false.
 */
bool bench_opencv_convert(const char *to, void *target, const char *from, const void *source,
                          size_t count);

#ifdef __cplusplus
}
#endif

#endif
