/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRANSFER_FILE_H
#define FERRYI_TRANSFER_FILE_H

/*
 * Transfers between a file and the memory of a place. Host memory is read and written directly.
 * Device memory goes through the device's staging ring. So reading chunk k + 1 from the file
 * overlaps the upload of chunk k. Writing chunk k to the file overlaps the download of later
 * chunks.
 *
 * If the file is open for direct I/O, and the device can move bytes between files and its memory
 * (FERRYI_DEVICE_TAKES_FILES), the device moves the aligned middle of the range. It does so only
 * where no element is cut. The bytes before and behind the middle go through the ring, as separate
 * transfers. If the device refuses bytes, they and all later ones go through the ring.
 *
 * Statistics count these transfers as uploads, downloads and host copies. Traces show the
 * file as place -1.
 */

#include "src/base/file.h"
#include "src/transfer/engine.h"

/* A range of an open file. */
struct ferryi_file_range {
    struct ferryi_file *file;
    uint64_t offset;
};

/* Copies `bytes` bytes from memory to a file if `stores` is true, and from a file to memory if it
 * is false. The parameters `timeline` and `job` have the same meaning as in ferryi_engine_copy().
 * Fails with IO if the file cannot be read or written. If the memory is on the host and its pointer
 * is NULL, the function writes zeros to the file. job->done counts the bytes that arrived.
 * job->total must not be 0 if a device may move bytes of the file, because these are several
 * transfers. */
ferry_status ferryi_engine_copy_file(ferryi_engine *engine, struct ferryi_memory memory,
                                     struct ferryi_file_range range, size_t bytes, bool stores,
                                     ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
