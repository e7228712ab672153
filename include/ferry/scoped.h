/* SPDX-License-Identifier: MIT */
#ifndef FERRY_SCOPED_H
#define FERRY_SCOPED_H

#include <ferry/export.h>

/**
 * Declares a variable that is cleaned up automatically: when its block ends, even by return, break
 * or goto, the compiler calls `function(&variable)`. The macro exists only with gcc and clang.
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
 * scopes. With FERRY_CHECK() they may be declared anywhere. FERRY_TRY() jumps: declare all of them
 * before the first one in their block, because a jump over such a declaration skips its
 * initialization, but the variable is still cleaned up. clang and compilers of C++ refuse such a
 * jump; gcc warns of it with -Wjump-misses-init alone.
 *
 * `function` may be any function that takes the address of such a variable. In Ferry these are
 * ferry_scope_close(), ferry_scope_abandon() and the functions whose names end in `_destroy`. They
 * have no effect on a variable that is empty or was already closed. The status that `function`
 * returns is ignored.
 *
 * For a write scope, use ferry_scope_abandon(), and call ferry_scope_close() where the block
 * succeeds. A block that ends early because of an error then discards what it wrote.
 */
#if defined(__GNUC__) || defined(__clang__)
#define FERRY_SCOPED(function) __attribute__((cleanup(function)))
#endif

#endif
