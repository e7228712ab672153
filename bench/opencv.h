/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPENCV_H
#define BENCH_OPENCV_H

/* OpenCV's convertTo() as a peer, on one thread. It is C++, and so stands behind this door. */

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Types by the names of Ferry's elements. False, and nothing done, for one that OpenCV does not
 * have. */
bool bench_opencv_convert(const char *to, void *target, const char *from, const void *source,
                          size_t count);

#ifdef __cplusplus
}
#endif

#endif
