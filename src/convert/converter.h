/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_DEVICE_H
#define FERRYI_CONVERT_DEVICE_H

/*
 * Converts arrays in a device's memory on that device. The results are bitwise equal to those of
 * src/convert/kernels.h.
 *
 * A CUDA device uses the image that nvcc compiled when the library was built. If the library has no
 * image, or none for this device, each pair of number types is compiled when it is first needed.
 * The function that compiles is an argument of ferryi_converter_create(). If the host can access
 * the device's memory, the host's conversion loops run in stream order. All other devices cannot
 * convert.
 *
 * Each device has one converter, which is created and destroyed with the context. Any thread may
 * call its functions. The converter holds its mutex while it compiles and loads code, which makes
 * driver calls. The thread holds no other mutex during these calls.
 */

#include <ferry/conversion.h>

#include "src/base/base.h"
#include "src/device/device.h"

typedef struct ferryi_converter ferryi_converter;

/* Compiles CUDA source to an image for a device. The caller frees the image. `refused` is the
 * number of images that the driver has refused: 0, or 1 if the image of the default compiler was
 * refused. If it is 1, the function must use a second compiler. Returns FERRY_ERROR_UNSUPPORTED if
 * there is no such compiler. */
typedef ferry_status ferryi_convert_compiler(const char *name, const char *text,
                                             const struct ferryi_device_properties *properties,
                                             unsigned refused, const struct ferryi_log *log,
                                             void **out_image, size_t *out_bytes);

/* Creates a converter. `compile` may be NULL, in which case the converter cannot compile. `log`
 * must outlive the converter. */
ferry_status ferryi_converter_create(ferryi_device *device, const struct ferryi_log *log,
                                     ferryi_convert_compiler *compile, ferryi_converter **out);
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

/* The CUDA source text of the conversion kernels, and their precompiled image.
 * ferryi_convert_line() returns the source line that instantiates the kernels for one pair of
 * types, or NULL if the pair does not exist. Tests also use these declarations. */
extern const unsigned char ferryi_convert_text[], ferryi_convert_image[];
extern const size_t ferryi_convert_text_bytes, ferryi_convert_image_bytes;
const char *ferryi_convert_line(const ferry_element *from, const ferry_element *to);

#endif
