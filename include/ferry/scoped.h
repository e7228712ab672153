/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPED_H
#define FERRY_SCOPED_H

#include <ferry/export.h>

/**
 * Declares a variable that is cleaned up when its block ends, even by return, break or goto: the
 * compiler calls `function(&variable)`. The macro exists only with gcc and clang.
 *
 * @code
 * FERRY_SCOPED(ferry_context_destroy) ferry_context *context = NULL;
 * FERRY_SCOPED(ferry_float_destroy) ferry_float_buffer heights = {0};
 * FERRY_SCOPED(ferry_lease_destroy) ferry_lease *lease = NULL;
 * FERRY_SCOPED(ferry_scope_abandon) ferry_scope scope = {0};
 * @endcode
 *
 * The variable must be initialized where it is declared. Variables are cleaned up in the reverse
 * order of their declarations, so declare a context before its buffers, and a buffer before its
 * scopes. FERRY_TRY() must not jump over such a declaration, because the variable is then cleaned
 * up without its initialization. Declare all of them before the first FERRY_TRY() of the block.
 *
 * `function` takes the address of such a variable, as ferry_scope_close(), ferry_scope_abandon()
 * and the functions whose names end in `_destroy` do, which have no effect on a variable that is
 * empty or closed. The status that `function` returns is ignored.
 *
 * For a write scope, use ferry_scope_abandon(), so that an error discards what was written, and
 * call ferry_scope_close() where the block succeeds.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_SCOPED(function) __attribute__((cleanup(function)))
#endif

#endif
