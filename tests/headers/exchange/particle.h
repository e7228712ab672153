/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_PARTICLE_H
#define FERRY_TEST_PARTICLE_H

#include <stddef.h>

struct particle {
    float mass, at[2];
};

static inline void
particle_from_float(struct particle *target, const float *source, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target[i].mass = source[i];
        target[i].at[0] = target[i].at[1] = 0;
    }
}

#endif
