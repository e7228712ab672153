/* SPDX-License-Identifier: MIT */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdint.h>

struct test_sample {
    int32_t id;
    float v[3];
};

enum test_color { TEST_RED, TEST_BLUE };

#endif
