/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SANITIZER_H
#define FERRYI_SANITIZER_H

#include <stddef.h>

/* Each macro states whether this build uses a certain sanitizer: 1 if it does, otherwise 0. gcc and
 * clang define different macros for sanitizers. */

#ifdef __has_feature
#define FERRYI_HAS_FEATURE(name) __has_feature(name)
#else
#define FERRYI_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || FERRYI_HAS_FEATURE(address_sanitizer)
#define FERRYI_ADDRESS_SANITIZER 1
#else
#define FERRYI_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || FERRYI_HAS_FEATURE(thread_sanitizer)
#define FERRYI_THREAD_SANITIZER 1
#else
#define FERRYI_THREAD_SANITIZER 0
#endif

#define FERRYI_MEMORY_SANITIZER FERRYI_HAS_FEATURE(memory_sanitizer)

/* True if a sanitizer replaces malloc(). A sanitizer's malloc() has no statistics and delays the
 * reuse of freed memory. */
#define FERRYI_SANITIZED_MALLOC                                                                    \
    (FERRYI_ADDRESS_SANITIZER || FERRYI_THREAD_SANITIZER || FERRYI_MEMORY_SANITIZER)

/*
 * Returns how many bytes of a new block of emulated device memory must be filled with garbage. In
 * ordinary builds the whole block is filled. In sanitized builds only the first bytes are filled,
 * because the sanitizer's malloc() returns pages that were never touched. Otherwise a test that
 * creates many contexts would spend most of its time on touching all pages of 2 MiB slabs.
 */
static inline size_t
ferryi_garbage_bytes(size_t bytes)
{
    const size_t most = (size_t)64 << 10;
    return FERRYI_SANITIZED_MALLOC && bytes > most ? most : bytes;
}

#endif
