/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_BUFFER_CONVERT_H
#define FERRYI_BUFFER_CONVERT_H

/* Running a conversion on host memory: by its own function, or by the loops of src/convert. */

#include <ferry/conversion.h>

/* FERRY_ERROR_INVALID_ARGUMENT where `conversion` cannot run; `what` begins the sentence. */
ferry_status ferryi_conversion_check(const ferry_conversion *conversion, const char *what);

/* As ferry_convert_function says; everything about the arguments was checked before. */
ferry_status ferryi_conversion_apply(const ferry_conversion *conversion, void *target, const void *source, size_t count,
                                     ferry_convert_policy policy);

#endif
