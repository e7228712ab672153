/* SPDX-License-Identifier: MIT */
/* Instantiates every pair of kernels.cuh in one image. */
#include "src/convert/kernels.cuh"

#include "src/convert/convert_pairs.h"
