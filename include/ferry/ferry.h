/* SPDX-License-Identifier: MIT */
#ifndef FERRY_H
#define FERRY_H

/**
 * @file
 * The whole core: contexts, streams, untyped buffers, kernels, pools. The typed buffers are one header each:
 * <ferry/float.h>, <ferry/int.h>, <ferry/double.h>, <ferry/byte.h>; conversions between them <ferry/convert.h>.
 */

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/conversion.h>
#include <ferry/element.h>
#include <ferry/kernel.h>
#include <ferry/pool.h>
#include <ferry/scope.h>
#include <ferry/status.h>
#include <ferry/stream.h>
#include <ferry/version.h>

#endif
