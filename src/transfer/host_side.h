/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HOST_SIDE_H
#define FERRYI_HOST_SIDE_H

/*
 * How a batch (batch.h) reaches the side of its pieces that the host reads or writes, if a plain
 * copy of memory does not do it: that side is a range of a file, or memory with elements of another
 * type, which the host converts. A batch that is one piece and no conversion goes to a file or from
 * it in another way (file_transfer.h), whose parts begin where direct I/O may begin.
 */

#include "src/base/file.h"
#include "src/transfer/engine.h"

/* Maximum number of bytes that one call moves between host memory and a file, or converts between
 * two host memories. Such a call takes a few milliseconds, so a cancelled transfer stops soon.
 * Smaller calls would make direct reads from disks slow. */
#define FERRYI_HOST_SIDE_PART ((size_t)8 << 20)

struct ferryi_host_side {
    struct ferryi_file *file; /* the side is this file, and its addresses in the pieces are numbers
                                 of bytes behind `offset`; or NULL */
    uint64_t offset;
    bool stores;                              /* whether the file is the target */
    const struct ferryi_transform *transform; /* the host converts with it; or NULL */
};

/* Moves the bytes of one piece. `target` or `source` is what the piece says of a file. `bytes` is
 * the number of bytes of the side that is not the file; of two memories, it is that of the target
 * if `counts_target` is true, and otherwise that of the source. A NULL `source` of a file means
 * zeros. Sets `*out_bytes` to how many of the `bytes` were moved, even if the call fails. */
ferry_status ferryi_host_side_run(const struct ferryi_host_side *host_side, void *target,
                                  const void *source, size_t bytes, bool counts_target,
                                  size_t *out_bytes);

#endif
