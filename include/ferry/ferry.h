/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * Includes every header of the C interface that programs need, except those of single element
 * types.
 *
 * The typed functions of one element are in a header of its name: <ferry/float.h>, double.h,
 * half.h, bfloat16.h, int8.h, int16.h, int.h, int64.h, byte.h, uint16.h, uint32.h, uint64.h,
 * bool.h, complex_float.h, complex_double.h. A second header of each, such as
 * <ferry/float_convert.h>, converts from and to other elements.
 *
 * Words of all headers:
 * - A place is the host or a device of the context, as a number: 0 is the host, 1 to N the devices.
 * - A replica is the memory of a buffer at one place.
 * - Bytes are current at a place if its replica has their newest value, otherwise they are stale.
 * - A scope is an open access to a range of a buffer: READ, UPDATE (read and write) or OVERWRITE.
 * - Pinned memory is page-locked host memory. The staging ring is a ring of pinned chunks, through
 *   which pageable memory is copied to and from devices.
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
