/* SPDX-License-Identifier: MIT */
/* Instantiates the kernels of kernels.cuh for every pair of number types, in one image. */
#include "src/convert/kernels.cuh"

#include "src/convert/convert_pairs.h"
