/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPED_H
#define FERRY_SCOPED_H

#include <ferry/export.h>

/**
 * Declares a variable that is cleaned up by itself: `function(&variable)` is called when the block
 * of the variable ends, also by return, break or goto. Only gcc and clang have this macro.
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
 * `function` is any function that takes the address of such a variable. In Ferry these are
 * ferry_scope_close(), ferry_scope_abandon() and the functions whose names end in `_destroy`. They
 * have no effect on a variable that is empty or was closed before. Use ferry_scope_abandon() for a
 * write scope, and call ferry_scope_close() where the block succeeds: a block that ends early
 * because of an error then gives up what it wrote. The status that `function` returns is ignored.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_SCOPED(function) __attribute__((cleanup(function)))
#endif

#endif
