/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * Includes every header of the C interface that programs need, except the headers of single element
 * types.
 *
 * Each element type has a header with typed functions: <ferry/float.h>, and in the same folder
 * double.h, half.h, bfloat16.h, int8.h, int16.h, int.h, int64.h, byte.h, uint16.h, uint32.h,
 * uint64.h, bool.h, complex_float.h and complex_double.h. Each has a second header, such as
 * <ferry/float_convert.h>, with conversions from and to other types.
 *
 * These words have the same meaning in all headers:
 * - A place is the host or a device of the context. Place 0 is the host, and places 1 to N are the
 *   devices.
 * - A replica is the memory of a buffer at one place.
 * - Bytes of a replica are current if they have the newest value of the buffer's bytes. Otherwise
 *   they are stale.
 * - A scope is an open access to a range of a buffer: READ, UPDATE (read and write) or OVERWRITE.
 * - Pinned memory is page-locked host memory. The staging ring is a ring of pinned chunks, through
 *   which Ferry copies pageable memory to and from devices.
 */

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/conversion.h>
#include <ferry/copy.h>
#include <ferry/element.h>
#include <ferry/exchange.h>
#include <ferry/file.h>
#include <ferry/kernel.h>
#include <ferry/lease.h>
#include <ferry/number.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/scoped.h>
#include <ferry/status.h>
#include <ferry/stream.h>
#include <ferry/version.h>

#endif
