/* SPDX-License-Identifier: MIT */
#ifndef HILLSHADE_KERNEL_H
#define HILLSHADE_KERNEL_H

#include <ferry/ferry.h>
#include <ferry/float.h>

/** Position of the sun, and scales, for a grid whose first row is the northern edge. */
struct hillshade_light {
    float azimuth;     /**< of the sun, radians, clockwise from north */
    float altitude;    /**< of the sun above the horizon, radians */
    float scale_east;  /**< heights to slope: height factor / (8 * cell width) */
    float scale_north; /**< height factor / (8 * cell height) */
};

#define HILLSHADE_PARAMETER_COUNT 8

/**
 * Returns the kernel's description, with CUDA source for CUDA devices and a host function for others.
 * It fills `parameters` and points to it.
 */
ferry_kernel_source hillshade_kernel_source(ferry_parameter parameters[HILLSHADE_PARAMETER_COUNT]);

/** Queues the shading of `height` into `shade`: rows * columns grey values from 0 to 255. */
ferry_status hillshade_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_float_buffer height,
                              ferry_float_buffer shade, size_t rows, size_t columns, struct hillshade_light light);

#endif
