/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_FILE_H
#define FERRYI_FILE_H

/*
 * A file that is read or written by byte range. The functions repeat interrupted system calls, and
 * continue after short reads and writes. After any other error, a function fails with
 * FERRY_ERROR_IO. The message contains the path, the offset and the system's reason. Only one
 * thread at a time may use a file.
 *
 * If the parameter `direct` of ferryi_file_open() is true, the aligned middle of each range
 * bypasses the page cache (O_DIRECT). This requires that the memory is aligned as well. The ends of
 * the range use the page cache. If the file system refuses O_DIRECT, all bytes use the page cache.
 */

#include "src/base/base.h"

/* A direct transfer (O_DIRECT) requires this alignment of the file offset, of the memory and of the
 * size. All common devices accept this alignment. */
#define FERRYI_FILE_ALIGN 4096

enum ferryi_file_mode { FERRYI_FILE_READ, FERRYI_FILE_WRITE };

struct ferryi_file {
    const char *path; /* owned by the caller */
    int fd;           /* -1: none */
    int direct;       /* second file descriptor, whose transfers bypass the page cache; -1: none */
    bool sized;     /* whether the file is a regular file, which has a size and can be truncated */
    uint64_t bytes; /* size when the file was opened */
    uint64_t device, node; /* identity of the file */
    uint64_t direct_bytes; /* number of bytes that were transferred without the page cache */
};

#define FERRYI_FILE_CLOSED ((struct ferryi_file){.fd = -1, .direct = -1})

/* Opens a file. If the file is opened for writing, a missing file is created, and an existing file
 * keeps its contents. Fails for directories, pipes and sockets. */
ferry_status ferryi_file_open(struct ferryi_file *file, const char *path,
                              enum ferryi_file_mode mode, bool direct);
/* Closes the file. Fails if the system reports a delayed write error, as a network file system may
 * do. Returns FERRY_OK if the file was closed before the call. */
ferry_status ferryi_file_close(struct ferryi_file *file);
/* Closes the file. `status` is the result of the operations on the file so far. If `status` is an
 * error, returns `status` and keeps this thread's error message, even if closing the file also
 * fails. Otherwise returns the result of closing the file. */
ferry_status ferryi_file_end(struct ferryi_file *file, ferry_status status);
/* If direct transfers were `wanted` but the file system refused them, logs that the file uses the
 * page cache. */
void ferryi_file_note_direct(const struct ferryi_log *log, const struct ferryi_file *file,
                             bool wanted);

/* Fails with OVERFLOW if the range ends beyond the largest offset that a file can have. */
ferry_status ferryi_file_check_range(const char *path, uint64_t offset, uint64_t bytes);
/* Informs the system that [offset, offset + bytes) will be read sequentially. Fails if the file
 * ends before the end of the range. */
ferry_status ferryi_file_expect(struct ferryi_file *file, uint64_t offset, uint64_t bytes);
/* Fails if the size of the file has changed since the file was opened. */
ferry_status ferryi_file_check_unchanged(const struct ferryi_file *file);
/* Makes the file end at byte `end`: truncates a longer file, and extends a shorter one by zeros. */
ferry_status ferryi_file_end_at(struct ferryi_file *file, uint64_t end);

/* Reads or writes the whole range, or fails. In both cases, sets `*out_bytes` to the number of
 * bytes that were transferred. */
ferry_status ferryi_file_read(struct ferryi_file *file, uint64_t offset, void *target, size_t bytes,
                              size_t *out_bytes);
ferry_status ferryi_file_write(struct ferryi_file *file, uint64_t offset, const void *source,
                               size_t bytes, size_t *out_bytes);
/* Writes `bytes` zeros in the same way. */
ferry_status ferryi_file_write_zeros(struct ferryi_file *file, uint64_t offset, size_t bytes,
                                     size_t *out_bytes);

#endif
