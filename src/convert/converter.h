/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_DEVICE_H
#define FERRYI_CONVERT_DEVICE_H

/*
 * Converts arrays in a device's memory on that device. The results are bitwise equal to those of
 * src/convert/kernels.h.
 *
 * A device that loads code runs the kernels of its language, if the library has them. It uses the
 * image that was compiled when the library was built. If the library has no image, or none for this
 * device, the device compiles each pair of number types when it is first needed. On other devices
 * whose memory the host can access, the host's conversion loops run in stream order. All other
 * devices cannot convert.
 *
 * Each device has one converter, which is created and destroyed with the context. Any thread may
 * call its functions. The converter holds its mutex while it compiles and loads code, which makes
 * driver calls. The thread holds no other mutex during these calls.
 */

#include <ferry/conversion.h>

#include "src/base/base.h"
#include "src/device/device.h"

typedef struct ferryi_converter ferryi_converter;

/* Creates a converter. `log` must outlive the converter. */
ferry_status ferryi_converter_create(ferryi_device *device, const struct ferryi_log *log,
                                     ferryi_converter **out);
/* Destroys a converter. All work that it has queued must be complete, and its device must not be
 * closed yet. `*converter` may be NULL. */
void ferryi_converter_destroy(ferryi_converter **converter);

/* Returns whether the device can convert elements of the type `from` to the type `to`. Loads the
 * code for this pair if necessary. A failure to load the code is logged. A permanent failure is
 * logged only once. Returns false if `converter` is NULL. */
bool ferryi_converter_can(ferryi_converter *converter, const ferry_element *from,
                          const ferry_element *to);

/* Queues the conversion of `count` elements in device memory. Both arrays must be aligned to their
 * element size and must not overlap. The policy FERRY_CONVERT_CHECK converts as
 * FERRY_CONVERT_SATURATE does. */
ferry_status ferryi_converter_run(ferryi_converter *converter, const ferry_conversion *conversion,
                                  ferry_convert_policy policy, void *target, const void *source,
                                  size_t count, void *stream);

/* Queues a search for elements that the policy FERRY_CONVERT_CHECK refuses. `first` points to a
 * uint64_t in device memory, which must contain UINT64_MAX. If there is such an element, the search
 * writes the lowest index to *first. */
ferry_status ferryi_converter_search(ferryi_converter *converter,
                                     const ferry_conversion *conversion, const void *source,
                                     size_t count, uint64_t *first, void *stream);

/* The CUDA source text of the conversion kernels, their precompiled image, and the OpenCL C text.
 * ferryi_convert_line() returns the source line that instantiates the kernels for one pair of
 * types, or NULL if the pair does not exist. Tests also use these declarations. */
extern const unsigned char ferryi_convert_text[], ferryi_convert_image[], ferryi_convert_opencl[];
extern const size_t ferryi_convert_text_bytes, ferryi_convert_image_bytes,
    ferryi_convert_opencl_bytes;
const char *ferryi_convert_line(const ferry_element *from, const ferry_element *to);

#endif
