/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CODE_H
#define FERRYI_CODE_H

/*
 * The codes of a kernel, each in one language or for one target: their form, copies of those that
 * the devices of a context may run, and the choice of one for a device.
 */

#include <ferry/context.h>
#include <ferry/kernel.h>

#include "src/device/device.h"

/* Copies of the codes of a kernel whose language the devices of its context take. */
struct ferryi_codes {
    ferry_kernel_code *list; /* in the order in which they are tried: images, then the source. The
                                texts end with a NUL, and their member `bytes` is 0 */
    size_t count;
    unsigned kinds; /* bits 1 << ferry_code_kind of all codes that the program passed */
};

/* Returns whether a compiler must still translate the code, which then takes flags and options. */
bool ferryi_code_is_compiled(const ferry_kernel_code *code);

/* Returns the text of a code that is a text, and its length without a final NUL. */
const char *ferryi_code_text(const ferry_kernel_code *code, size_t *out_length);

/* Checks the form of all codes of a description, of whatever language.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT, with the number of the code in the message. */
ferry_status ferryi_codes_check(const ferry_kernel_source *source);

/* Copies the codes of a language from a description of good form. `parameters` has the interned
 * element types. Whatever the status, the caller passes `out` to ferryi_codes_free(). */
ferry_status ferryi_codes_copy(const ferry_kernel_source *source, ferry_language language,
                               const ferry_parameter *parameters, struct ferryi_codes *out);
void ferryi_codes_free(struct ferryi_codes *codes);

/* Returns the first code that a device may run, of all (`after` is NULL) or of those that follow
 * `after`. Returns NULL if there is none. */
const ferry_kernel_code *ferryi_codes_next(const struct ferryi_codes *codes,
                                           const ferryi_device *device,
                                           const ferry_kernel_code *after);

/* Returns the failure of a launch on a device that runs neither a code of the kernel nor its host
 * function. */
ferry_status ferryi_codes_refuse(const struct ferryi_codes *codes, bool host_function,
                                 const ferryi_device *device, const char *place);

#endif
