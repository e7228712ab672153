/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * Includes every header of the C interface that programs need, except those of single element
 * types. docs/concepts.md and docs/glossary.md explain the words of all headers, such as place,
 * replica and scope. Members that are called `reserved` must be 0.
 *
 * Each element type has a header with typed functions: <ferry/float.h>, and in the same folder
 * double.h, half.h, bfloat16.h, int8.h, int16.h, int.h, int64.h, byte.h, uint16.h, uint32.h,
 * uint64.h, bool.h, complex_float.h and complex_double.h. Each has a second header, such as
 * <ferry/float_convert.h>, with conversions from and to other types.
 */

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/conversion.h>
#include <ferry/copy.h>
#include <ferry/element.h>
#include <ferry/exchange.h>
#include <ferry/file.h>
#include <ferry/graph.h>
#include <ferry/kernel.h>
#include <ferry/lease.h>
#include <ferry/number.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/scoped.h>
#include <ferry/share.h>
#include <ferry/status.h>
#include <ferry/stream.h>
#include <ferry/version.h>

#endif
