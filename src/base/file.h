/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FILE_H
#define FERRYI_FILE_H

/*
 * A file that is read or written by byte range. Interrupted system calls are repeated and short
 * ones continued. Other errors fail with FERRY_ERROR_IO and a message that contains the path, the
 * offset and the system's reason. Only one thread at a time may use a file.
 *
 * With `direct`, the aligned middle of each range bypasses the page cache (O_DIRECT) if the memory
 * is aligned as well. The ends of the range use the page cache. If the file system refuses
 * O_DIRECT, all bytes use it.
 */

#include "src/base/base.h"

/* alignment of offset, memory and bytes of direct transfers; all common devices accept it */
#define FERRYI_FILE_ALIGN 4096

enum ferryi_file_mode { FERRYI_FILE_READ, FERRYI_FILE_WRITE };

struct ferryi_file {
    const char *path; /* owned by the caller */
    int fd;           /* -1: none */
    int direct;       /* second descriptor of the file, which bypasses the page cache; -1: none */
    bool sized;       /* whether it is a regular file, which has a size and can be truncated */
    uint64_t bytes;   /* size when the file was opened */
    uint64_t device, node; /* identity of the file */
    uint64_t direct_bytes; /* bytes transferred past the page cache */
};

#define FERRYI_FILE_CLOSED ((struct ferryi_file){.fd = -1, .direct = -1})

/* Opens a file. If it is opened for writing, a missing file is created, and an existing file keeps
 * its contents. Directories, pipes and sockets are refused. */
ferry_status ferryi_file_open(struct ferryi_file *file, const char *path,
                              enum ferryi_file_mode mode, bool direct);
/* Closes the file. Fails if the system reports a write error only now, as a network file system may
 * do. Returns FERRY_OK if the file is already closed. */
ferry_status ferryi_file_close(struct ferryi_file *file);
/* Closes the file at the end of a call whose result so far is `status`. If both the call and the
 * close failed, the status and the message of the call are kept. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);
/* If direct transfers were `wanted` but the file system refused them, logs that the file uses the
 * page cache. */
void ferryi_file_note_direct(const struct ferryi_log *log, const struct ferryi_file *file,
                             bool wanted);

/* Fails with OVERFLOW if the range exceeds the largest possible file. */
ferry_status ferryi_file_check_range(const char *path, uint64_t offset, uint64_t bytes);
/* Announces that [offset, offset + bytes) will be read sequentially. Fails if the file ends before
 * the range does. */
ferry_status ferryi_file_expect(struct ferryi_file *file, uint64_t offset, uint64_t bytes);
/* Fails if the size of the file has changed since the file was opened. */
ferry_status ferryi_file_check_unchanged(const struct ferryi_file *file);
/* Truncates the file to at most `end` bytes. */
ferry_status ferryi_file_cut(struct ferryi_file *file, uint64_t end);

/* Reads or writes the whole range, or fails. In both cases `*out_bytes` is set to the number of
 * bytes transferred. */
ferry_status ferryi_file_read(struct ferryi_file *file, uint64_t offset, void *target, size_t bytes,
                              size_t *out_bytes);
ferry_status ferryi_file_write(struct ferryi_file *file, uint64_t offset, const void *source,
                               size_t bytes, size_t *out_bytes);

#endif
