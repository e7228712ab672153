/* SPDX-License-Identifier: MIT */
#include "opencv.h"

#include <cstring>

#include <opencv2/core.hpp>

static int
depth_of(const char *name)
{
    static const struct {
        const char *name;
        int depth;
    } depths[] = {{"byte", CV_8U}, {"int8", CV_8S},   {"uint16", CV_16U}, {"int16", CV_16S},
                  {"int", CV_32S}, {"float", CV_32F}, {"double", CV_64F}};
    for (const auto &one : depths)
        if (std::strcmp(one.name, name) == 0)
            return one.depth;
    return -1;
}

bool
bench_opencv_convert(const char *to, void *target, const char *from, const void *source,
                     size_t count)
{
    static const bool alone = (cv::setNumThreads(1), true);
    int to_depth = depth_of(to), from_depth = depth_of(from);
    if (!alone || to_depth < 0 || from_depth < 0)
        return false;
    cv::Mat in(1, static_cast<int>(count), CV_MAKETYPE(from_depth, 1), const_cast<void *>(source));
    cv::Mat out(1, static_cast<int>(count), CV_MAKETYPE(to_depth, 1),
                target); /* never reallocated */
    in.convertTo(out, to_depth);
    return true;
}
