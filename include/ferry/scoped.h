/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPED_H
#define FERRY_SCOPED_H

#include <ferry/export.h>

/**
 * Declares a variable whose block ends with `function(&variable)`, on every way out of the block.
 * For gcc and clang.
 *
 * @code
 * FERRY_SCOPED(ferry_context_destroy) ferry_context *context = NULL;
 * FERRY_SCOPED(ferry_float_destroy) ferry_float_buffer heights = {0};
 * FERRY_SCOPED(ferry_lease_destroy) ferry_lease *lease = NULL;
 * FERRY_SCOPED(ferry_scope_abandon) ferry_scope scope = {0};
 * @endcode
 *
 * The variable must be initialized where it is declared. Variables end in the reverse order of
 * their declarations, so declare a context before its buffers, and a buffer before its scopes.
 *
 * `function` is any function that takes the address of such a variable: the functions of Ferry
 * whose names end in `_destroy`, ferry_scope_close() and ferry_scope_abandon(). All of them have no
 * effect on a variable that is empty or was closed before. ferry_scope_abandon() suits a write
 * scope: a block that ends early publishes nothing, and one that ends well calls
 * ferry_scope_close() before it returns. The status of the function is lost.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_SCOPED(function) __attribute__((cleanup(function)))
#endif

#endif
