/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_TRANSFER_FILE_H
#define FERRYI_TRANSFER_FILE_H

/*
 * Files as one side of a transfer. Host memory is read into and written from directly; a device's
 * goes through its staging ring, so that reading chunk k + 1 overlaps the upload of chunk k, and
 * writing chunk k the download of what follows. Counted as uploads, downloads and host copies with
 * the caller's own memory are; place -1 in traces.
 */

#include "src/base/file.h"
#include "src/transfer/engine.h"

/* A range of an open file. */
struct ferryi_file_range {
    struct ferryi_file *file;
    uint64_t offset;
};

/* As ferryi_engine_copy(); FERRY_ERROR_IO where the file fails. What arrived is in job->done. */
ferry_status ferryi_engine_load(ferryi_engine *engine, struct ferryi_memory target,
                                struct ferryi_file_range source, size_t bytes,
                                ferryi_timeline *timeline, struct ferryi_transfer_job *job);
/* A NULL pointer in `source`, at the host, stands for zeros. */
ferry_status ferryi_engine_store(ferryi_engine *engine, struct ferryi_file_range target,
                                 struct ferryi_memory source, size_t bytes,
                                 ferryi_timeline *timeline, struct ferryi_transfer_job *job);

#endif
