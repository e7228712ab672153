/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PTX_H
#define FERRYI_PTX_H

/* What PTX, the assembly text that NVRTC makes, says of the entry points of its kernels. */

#include "src/device/device.h"

/*
 * Reads the parameters of the entry point `name`, at most `most` of them. Sets the bytes of each, 0
 * for one of a type that this reader does not know. The number is FERRYI_PARAMETERS_UNKNOWN if the
 * text is not PTX, because the options of the compiler choose another form of code, or if no list
 * of parameters follows the name.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (there is no such entry point).
 */
ferry_status ferryi_ptx_read(const char *ptx, const char *name, size_t most, size_t *out_bytes,
                             size_t *out_count);

#endif
