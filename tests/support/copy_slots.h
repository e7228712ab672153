/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_COPY_SLOTS_H
#define FERRY_TESTS_COPY_SLOTS_H

/*
 * Macros with which tests call the function `copy` of a device as if there were one function for
 * each direction of a copy: FERRYI_CALL(device, copy_upload, target, source, bytes, stream) or
 * device->ops->copy_upload(device, target, source, bytes, stream).
 */

#include "src/device/device.h"

#define COPY_OF(...)                                                                               \
    &(const struct ferryi_copy)                                                                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define copy_upload(device, target, source, bytes, stream)                                         \
    copy((device), COPY_OF((target), (source), (bytes), FERRY_DIRECTION_UPLOAD, NULL), (stream))
#define copy_download(device, target, source, bytes, stream)                                       \
    copy((device), COPY_OF((target), (source), (bytes), FERRY_DIRECTION_DOWNLOAD, NULL), (stream))
#define copy_device(device, target, source, bytes, stream)                                         \
    copy((device), COPY_OF((target), (source), (bytes), FERRY_DIRECTION_DEVICE, NULL), (stream))
#define copy_peer(device, target, source_device, source, bytes, stream)                            \
    copy((device), COPY_OF((target), (source), (bytes), FERRY_DIRECTION_PEER, (source_device)),    \
         (stream))

#endif
