/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHARE_H
#define FERRYI_SHARE_H

#include <ferry/share.h>

/* Creates a buffer of `count` elements with FERRY_MEMORY_SHARED. The arguments were checked. */
ferry_status ferryi_share_create(ferry_context *context, const ferry_element *interned,
                                 size_t count, size_t bytes, const ferry_buffer_options *options,
                                 ferry_buffer **out);

#endif
