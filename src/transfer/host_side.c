/* SPDX-License-Identifier: MIT */
#include "src/transfer/host_side.h"

ferry_status
ferryi_host_side_run(const struct ferryi_host_side *host_side, void *target, const void *source,
                     size_t bytes, bool counts_target, size_t *out_bytes)
{
    const struct ferryi_transform *transform = host_side->transform;
    struct ferryi_file *file = host_side->file;
    const uint64_t at =
        host_side->offset + (host_side->stores ? (uintptr_t)target : (uintptr_t)source);
    if (file && !host_side->stores)
        return ferryi_file_read(file, at, target, bytes, out_bytes);
    if (file)
        return source ? ferryi_file_write(file, at, source, bytes, out_bytes)
                      : ferryi_file_write_zeros(file, at, bytes, out_bytes);
    size_t unit = counts_target ? transform->target_bytes : transform->source_bytes;
    ferry_status status = transform->run(target, source, bytes / unit, transform->user);
    *out_bytes = status == FERRY_OK ? bytes : 0;
    return status;
}
