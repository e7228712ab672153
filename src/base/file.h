/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FILE_H
#define FERRYI_FILE_H

/*
 * A file whose bytes have positions, read or written by range. Interrupted system calls are
 * repeated and short ones continued; what then fails is FERRY_ERROR_IO with path, offset and the
 * system's reason. One thread at a time uses it.
 *
 * With `direct` the aligned middle of each range goes around the page cache (O_DIRECT), where the
 * memory is aligned as well; its ends, and everything on a file system that refuses, go through it.
 */

#include "src/base/base.h"

#define FERRYI_FILE_ALIGN                                                                          \
    4096 /* of offset, memory and bytes of direct transfers: what every common device takes */

enum ferryi_file_mode { FERRYI_FILE_READ, FERRYI_FILE_WRITE };

struct ferryi_file {
    const char *path;      /* the caller's, who keeps it */
    int fd;                /* -1: none */
    int direct;            /* the same file without the page cache; -1: none */
    bool sized;            /* a regular file: it has a size, and can be cut */
    uint64_t bytes;        /* its size when it was opened */
    uint64_t device, node; /* which file it is */
    uint64_t direct_bytes; /* how many went around the page cache */
};

#define FERRYI_FILE_CLOSED ((struct ferryi_file){.fd = -1, .direct = -1})

/* To write, a missing file is created and an existing one keeps its bytes. Directories, pipes and
 * sockets are refused. */
ferry_status ferryi_file_open(struct ferryi_file *file, const char *path,
                              enum ferryi_file_mode mode, bool direct);
/* Fails when something went wrong only now, as on a network file system. A closed one is FERRY_OK.
 */
ferry_status ferryi_file_close(struct ferryi_file *file);
/* Closes it at the end of a call whose result so far is `status`: the first failure and its message
 * win. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);
/* Logs that the page cache could not be avoided after all, where that was `wanted`. */
void ferryi_file_note_direct(const struct ferryi_log *log, const struct ferryi_file *file,
                             bool wanted);

/* OVERFLOW for a range that no file can have. */
ferry_status ferryi_file_check_range(const char *path, uint64_t offset, uint64_t bytes);
/* [offset, offset + bytes) will be read from front to back: fails when the file is shorter. */
ferry_status ferryi_file_expect(struct ferryi_file *file, uint64_t offset, uint64_t bytes);
/* The size is still what it was at open. */
ferry_status ferryi_file_check_unchanged(const struct ferryi_file *file);
/* Nothing is left behind `end`. */
ferry_status ferryi_file_cut(struct ferryi_file *file, uint64_t end);

/* All of the range, or a failure; `*out_bytes` were read or written in either case. */
ferry_status ferryi_file_read(struct ferryi_file *file, uint64_t offset, void *target, size_t bytes,
                              size_t *out_bytes);
ferry_status ferryi_file_write(struct ferryi_file *file, uint64_t offset, const void *source,
                               size_t bytes, size_t *out_bytes);

#endif
