/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * The whole core: contexts, streams, untyped buffers, kernels, pools. The typed buffers are one header each:
 * <ferry/float.h>, double.h, half.h, bfloat16.h, int8.h, int16.h, int.h, int64.h, byte.h, uint16.h, uint32.h, uint64.h,
 * bool.h, complex_float.h, complex_double.h; conversions between them <ferry/convert.h>.
 */

#include <ferry/batch.h>
#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/conversion.h>
#include <ferry/element.h>
#include <ferry/file.h>
#include <ferry/kernel.h>
#include <ferry/number.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>
#include <ferry/version.h>

#endif
