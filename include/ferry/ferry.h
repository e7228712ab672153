/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * The whole core: contexts, streams, untyped buffers, kernels, pools.
 *
 * Each typed buffer has a header of the same name: <ferry/float.h>, double.h, half.h, bfloat16.h,
 * int8.h, int16.h, int.h, int64.h, byte.h, uint16.h, uint32.h, uint64.h, bool.h, complex_float.h,
 * complex_double.h. Conversions from and to each of them are in a second one, such as
 * <ferry/float_convert.h>.
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
