/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRANSFER_FILE_H
#define FERRYI_TRANSFER_FILE_H

/*
 * Transfers between a file and the memory of a place. Host memory is read and written directly.
 * Device memory goes through the device's staging ring. So reading chunk k + 1 from the file
 * overlaps the upload of chunk k. Writing chunk k to the file overlaps the download of later
 * chunks. Statistics count these transfers as uploads, downloads and host copies. Traces show the
 * file as place -1.
 */

#include "src/base/file.h"
#include "src/transfer/engine.h"

/* A range of an open file. */
struct ferryi_file_range {
    struct ferryi_file *file;
    uint64_t offset;
};

/* Copies from a file to memory, just as ferryi_engine_copy() copies between memories. Fails with IO
 * if the file cannot be read. job->done counts the bytes that arrived. */
ferry_status ferryi_engine_load(ferryi_engine *engine, struct ferryi_memory target,
                                struct ferryi_file_range source, size_t bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);
/* Copies from memory to a file. Fails with IO if the file cannot be written. If `source` is on the
 * host and its pointer is NULL, zeros are written. */
ferry_status ferryi_engine_store(ferryi_engine *engine, struct ferryi_file_range target,
                                 struct ferryi_memory source, size_t bytes,
                                 ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
