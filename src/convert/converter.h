/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_DEVICE_H
#define FERRYI_CONVERT_DEVICE_H

/*
 * Conversions by a device of arrays in its own memory, with the results of src/convert/kernels.h to
 * the bit.
 *
 * A device that runs code takes it from the image that nvcc made with the library; where there is
 * none, or none for this device, from a compiler that is handed in, pair by pair at first need. A
 * device whose memory the host can reach runs the host's loops, in stream order. Any other cannot
 * convert.
 *
 * A converter is one device's, made and destroyed with the context. Its functions may be called
 * from any thread. Its mutex is held while code is compiled and loaded, which calls the driver;
 * nothing else is locked meanwhile.
 */

#include <ferry/conversion.h>

#include "src/base/base.h"
#include "src/device/device.h"

typedef struct ferryi_converter ferryi_converter;

/* Make an image for a device out of CUDA source; the caller frees it. `refused` is 1 when the
 * driver refused the image that the first compiler made. UNSUPPORTED where there is no compiler, or
 * no other. */
typedef ferry_status ferryi_convert_compiler(const char *name, const char *text,
                                             const struct ferryi_device_properties *properties,
                                             unsigned refused, const struct ferryi_log *log,
                                             void **out_image, size_t *out_bytes);

/* `compile` may be NULL; `log` outlives the converter. */
ferry_status ferryi_converter_create(ferryi_device *device, const struct ferryi_log *log,
                                     ferryi_convert_compiler *compile, ferryi_converter **out);
/* All its work is done, and the device is still open. NULL is harmless. */
void ferryi_converter_destroy(ferryi_converter **converter);

/* True when the device converts this pair: its code is loaded now. What cannot be loaded is logged,
 * once where it never can. NULL cannot. */
bool ferryi_converter_can(ferryi_converter *converter, const ferry_element *from,
                          const ferry_element *to);

/* Queue the conversion of `count` elements in device memory, aligned as elements are. The arrays do
 * not overlap. CHECK is SATURATE here. */
ferry_status ferryi_converter_run(ferryi_converter *converter, const ferry_conversion *conversion,
                                  ferry_convert_policy policy, void *target, const void *source,
                                  size_t count, void *stream);

/* Queue a search for what CHECK refuses: `*first`, a uint64_t in device memory that holds
 * UINT64_MAX, becomes the lowest index, if there is one. */
ferry_status ferryi_converter_search(ferryi_converter *converter,
                                     const ferry_conversion *conversion, const void *source,
                                     size_t count, uint64_t *first, void *stream);

/* The text that pairs are compiled from, and the line that makes it those of one pair; NULL where
 * there is none. For tests, too. */
extern const unsigned char ferryi_convert_text[], ferryi_convert_image[];
extern const size_t ferryi_convert_text_bytes, ferryi_convert_image_bytes;
const char *ferryi_convert_line(const ferry_element *from, const ferry_element *to);

#endif
