/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SANITIZER_H
#define FERRYI_SANITIZER_H

/* Which sanitizer the build is for, 0 or 1: gcc and clang tell of it in different ways. */

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

/* Its malloc counts nothing, and keeps for a while what was freed. */
#define FERRYI_SANITIZED_MALLOC (FERRYI_ADDRESS_SANITIZER || FERRYI_THREAD_SANITIZER || FERRYI_MEMORY_SANITIZER)

#endif
