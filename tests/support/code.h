/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_CODE_H
#define FERRY_TESTS_CODE_H

/* Members of a ferry_kernel_source that has one code: CUDA source, or an array with a CUDA image.
 * The code is valid as long as the block that contains the initializer. */

#include <ferry/kernel.h>

#define CODE_OF(...)      .codes = (const ferry_kernel_code[]){{__VA_ARGS__}}, .code_count = 1
#define CUDA_SOURCE(text) CODE_OF(.kind = FERRY_CODE_CUDA, .code = (text))
#define CUDA_IMAGE(image)                                                                          \
    CODE_OF(.kind = FERRY_CODE_CUDA_IMAGE, .code = (image), .bytes = sizeof(image))

#endif
