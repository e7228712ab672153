/* SPDX-License-Identifier: MIT */
#include "src/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum of one system call. */
#define CALL_LIMIT ((size_t)1 << 30)

/* Number of zeros that one call writes. */
#define ZEROS ((size_t)64 << 10)

/* -- opening ----------------------------------------------------------------------------------- */

static const char *
verb(enum ferryi_file_mode mode)
{
    return mode == FERRYI_FILE_READ ? "read" : "write";
}

static int
open_again(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static ferry_status
refuse(const char *path, enum ferryi_file_mode mode, const char *why)
{
    return ferryi_fail(FERRY_ERROR_IO, "open %s to %s: %s", path, verb(mode), why);
}

static ferry_status
look_at(struct ferryi_file *file, enum ferryi_file_mode mode)
{
    struct stat info = {
        0}; /* zeroed, because some memory sanitizers do not know that fstat() writes it */
    if (fstat(file->fd, &info) != 0)
        return refuse(file->path, mode, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return refuse(file->path, mode, strerror(EISDIR));
    if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))
        return refuse(file->path, mode, "it is a pipe or a socket, whose bytes have no positions");
    file->sized = S_ISREG(info.st_mode);
    file->bytes = (uint64_t)info.st_size;
    file->device = (uint64_t)info.st_dev;
    file->node = (uint64_t)info.st_ino;
    return FERRY_OK;
}

ferry_status
ferryi_file_open(struct ferryi_file *file, const char *path, enum ferryi_file_mode mode,
                 bool direct)
{
    int flags = mode == FERRYI_FILE_READ ? O_RDONLY : O_WRONLY | O_CREAT;
    *file = FERRYI_FILE_CLOSED;
    file->path = path;
    /* With O_NONBLOCK, opening a pipe that has no reader or writer does not block. The flag has no
     * effect on regular files. */
    file->fd = open_again(path, flags | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0)
        return refuse(path, mode, strerror(errno));
    ferry_status status = look_at(file, mode);
    if (status != FERRY_OK) {
        (void)close(file->fd);
        file->fd = -1;
        return status;
    }
    if (direct && file->sized)
        file->direct = open_again(path, (flags & ~O_CREAT) | O_DIRECT);
    return FERRY_OK;
}

ferry_status
ferryi_file_close(struct ferryi_file *file)
{
    int fd = file->fd, direct = file->direct;
    file->fd = file->direct = -1;
    bool failed = direct >= 0 && close(direct) != 0 && errno != EINTR;
    failed |= fd >= 0 && close(fd) != 0 && errno != EINTR;
    return failed ? ferryi_fail(FERRY_ERROR_IO, "close %s: %s", file->path, strerror(errno))
                  : FERRY_OK;
}

ferry_status
ferryi_file_end(struct ferryi_file *file, ferry_status status)
{
    if (status == FERRY_OK)
        return ferryi_file_close(file);
    FERRYI_KEEP_ERROR(why);
    (void)ferryi_file_close(file);
    return status;
}

void
ferryi_file_note_direct(const struct ferryi_log *log, const struct ferryi_file *file, bool wanted)
{
    if (wanted && file->fd >= 0 && file->direct < 0)
        ferryi_log(log, FERRY_LOG_INFO,
                   "%s: goes through the page cache: its file system takes no direct transfers",
                   file->path);
}

/* -- sizes ------------------------------------------------------------------------------------- */

ferry_status
ferryi_file_check_range(const char *path, uint64_t offset, uint64_t bytes)
{
    uint64_t end;
    if (!__builtin_add_overflow(offset, bytes, &end) && end <= INT64_MAX)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_OVERFLOW,
                       "%s: %llu bytes at offset %llu are beyond what a file can have", path,
                       (unsigned long long)bytes, (unsigned long long)offset);
}

ferry_status
ferryi_file_expect(struct ferryi_file *file, uint64_t offset, uint64_t bytes)
{
    FERRYI_OR_RETURN(ferryi_file_check_range(file->path, offset, bytes));
    if (file->sized && offset + bytes > file->bytes)
        return ferryi_fail(FERRY_ERROR_IO,
                           "read %llu bytes at offset %llu of %s: the file has only %llu bytes",
                           (unsigned long long)bytes, (unsigned long long)offset, file->path,
                           (unsigned long long)file->bytes);
    if (file->sized)
        (void)posix_fadvise(file->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_SEQUENTIAL);
    return FERRY_OK;
}

static ferry_status
size_now(const struct ferryi_file *file, uint64_t *out)
{
    struct stat info = {0};
    if (fstat(file->fd, &info) != 0)
        return ferryi_fail(FERRY_ERROR_IO, "get the size of %s: %s", file->path, strerror(errno));
    *out = (uint64_t)info.st_size;
    return FERRY_OK;
}

ferry_status
ferryi_file_check_unchanged(const struct ferryi_file *file)
{
    uint64_t bytes;
    if (!file->sized)
        return FERRY_OK;
    ferry_status status = size_now(file, &bytes);
    if (status != FERRY_OK || bytes == file->bytes)
        return status;
    return ferryi_fail(FERRY_ERROR_IO,
                       "read %s up to offset %llu, where it ended: it %s while it was read, and "
                       "has %llu bytes now",
                       file->path, (unsigned long long)file->bytes,
                       bytes > file->bytes ? "grew" : "shrank", (unsigned long long)bytes);
}

ferry_status
ferryi_file_end_at(struct ferryi_file *file, uint64_t end)
{
    uint64_t bytes = end;
    ferry_status status = file->sized ? size_now(file, &bytes) : FERRY_OK;
    if (status != FERRY_OK || bytes == end)
        return status;
    int result;
    do
        result = ftruncate(file->fd, (off_t)end);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_IO, "%s %s to %llu bytes: %s", bytes > end ? "cut" : "extend",
                       file->path, (unsigned long long)end, strerror(errno));
}

/* -- bytes ------------------------------------------------------------------------------------- */

/* Makes one read or write system call on the descriptor `fd`. Repeats the call if a signal
 * interrupts it. */
static ssize_t
transfer(int fd, enum ferryi_file_mode mode, uint64_t offset, char *memory, size_t bytes)
{
    ssize_t result;
    bytes = ferryi_min_size(bytes, CALL_LIMIT);
    do
        result = mode == FERRYI_FILE_READ ? pread(fd, memory, bytes, (off_t)offset)
                                          : pwrite(fd, memory, bytes, (off_t)offset);
    while (result < 0 && errno == EINTR);
    return result;
}

/* Returns how many of the `bytes` bytes at `offset` can bypass the page cache. Returns 0 if the
 * memory or the file offset is not aligned for a direct transfer. */
static size_t
direct_part(const struct ferryi_file *file, uint64_t offset, const char *memory, size_t bytes)
{
    if (file->direct < 0 || offset % FERRYI_FILE_ALIGN != 0 ||
        (uintptr_t)memory % FERRYI_FILE_ALIGN != 0)
        return 0;
    return bytes / FERRYI_FILE_ALIGN * FERRYI_FILE_ALIGN;
}

/* Returns how many of the `bytes` bytes at `offset` must be transferred through the page cache. If
 * the result is less than `bytes`, a direct transfer, which bypasses the page cache, is possible
 * for the bytes that follow. */
static size_t
cached_part(const struct ferryi_file *file, uint64_t offset, const char *memory, size_t bytes)
{
    if (file->direct < 0 || (offset ^ (uintptr_t)memory) % FERRYI_FILE_ALIGN != 0)
        return bytes;
    size_t head = FERRYI_FILE_ALIGN - (size_t)(offset % FERRYI_FILE_ALIGN);
    return bytes < head + FERRYI_FILE_ALIGN ? bytes : head;
}

static ssize_t
transfer_some(struct ferryi_file *file, enum ferryi_file_mode mode, uint64_t offset, char *memory,
              size_t bytes)
{
    size_t part = direct_part(file, offset, memory, bytes);
    if (part > 0) {
        ssize_t result = transfer(file->direct, mode, offset, memory, part);
        if (result > 0)
            file->direct_bytes += (uint64_t)result;
        /* Some file systems accept O_DIRECT in open(), but refuse direct transfers. After a
         * refusal, the direct descriptor is closed, and all further bytes use the page cache. */
        if (result > 0 && result % FERRYI_FILE_ALIGN == 0)
            return result;
        (void)close(file->direct);
        file->direct = -1;
        if (result > 0)
            return result;
    }
    return transfer(file->fd, mode, offset, memory, cached_part(file, offset, memory, bytes));
}

static ferry_status
transfer_all(struct ferryi_file *file, enum ferryi_file_mode mode, uint64_t offset, char *memory,
             size_t bytes, size_t *out_bytes)
{
    size_t done = 0;
    ssize_t result = 1;
    while (done < bytes && result > 0) {
        result = transfer_some(file, mode, offset + done, memory + done, bytes - done);
        done += result > 0 ? (size_t)result : 0;
    }
    int error = errno;
    *out_bytes = done;
    if (done == bytes)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_IO, "%s %zu bytes at offset %llu of %s: %s", verb(mode),
                       bytes - done, (unsigned long long)(offset + done), file->path,
                       result < 0 ? strerror(error) : "the file ends there");
}

ferry_status
ferryi_file_read(struct ferryi_file *file, uint64_t offset, void *target, size_t bytes,
                 size_t *out_bytes)
{
    return transfer_all(file, FERRYI_FILE_READ, offset, target, bytes, out_bytes);
}

ferry_status
ferryi_file_write(struct ferryi_file *file, uint64_t offset, const void *source, size_t bytes,
                  size_t *out_bytes)
{
    return transfer_all(file, FERRYI_FILE_WRITE, offset, (char *)(uintptr_t)source, bytes,
                        out_bytes);
}

ferry_status
ferryi_file_write_zeros(struct ferryi_file *file, uint64_t offset, size_t bytes, size_t *out_bytes)
{
    static const char zeros[ZEROS];
    ferry_status status = FERRY_OK;
    for (*out_bytes = 0; status == FERRY_OK && *out_bytes < bytes;) {
        size_t written;
        status = ferryi_file_write(file, offset + *out_bytes, zeros,
                                   ferryi_min_size(bytes - *out_bytes, ZEROS), &written);
        *out_bytes += written;
    }
    return status;
}
