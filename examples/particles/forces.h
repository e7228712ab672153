/* SPDX-License-Identifier: MIT */
#ifndef FORCES_H
#define FORCES_H

#include <ferry/ferry.h>

#include "point_buffer.h"

enum { FORCES_PARAMETER_COUNT = 4 };

/* Particles in a cube of side^3 boxes, each with the same number of them. */
struct boxes {
    size_t side, each;
};

/* Fills `parameters`, and returns a description of the kernel, which points to them. */
ferry_kernel_source forces_kernel_source(ferry_parameter parameters[FORCES_PARAMETER_COUNT]);

/* Computes what acts on each particle by those in the same box and in the boxes around it. */
ferry_status forces_launch(ferry_kernel *kernel, const struct boxes *boxes, ferry_stream *stream, particles_point_buffer particles,
                           particles_point_buffer forces);

#endif
