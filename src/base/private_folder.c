/* SPDX-License-Identifier: MIT */
#include "src/base/private_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- ownership --------------------------------------------------------------------------------- */

/* Returns the reason why an open file or folder must not be used, or NULL if it may be used. */
static const char *
find_fault(const struct stat *info, mode_t type)
{
    if ((info->st_mode & S_IFMT) != type)
        return type == S_IFDIR ? "it is no folder" : "it is no regular file";
    if (info->st_uid != geteuid())
        return "it belongs to another user";
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return "others may write to it";
    return NULL;
}

static ferry_status
check_open(int fd, mode_t type, struct stat *info)
{
    const char *fault = fstat(fd, info) != 0 ? strerror(errno) : find_fault(info, type);
    return fault ? ferryi_fail(FERRY_ERROR_IO, "%s", fault) : FERRY_OK;
}

static int
open_again(int folder, const char *name, int flags)
{
    int fd;
    do
        fd = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* -- the folder -------------------------------------------------------------------------------- */

/* Creates the folder and its parent. Errors are ignored here, because another process may create
 * the same folders at the same time. If the folder does not exist afterwards, the caller fails when
 * it opens the folder. */
static void
make_folders(const char *path)
{
    char around[PATH_MAX];
    snprintf(around, sizeof(around), "%s", path);
    char *end = strrchr(around, '/');
    if (end && end > around) {
        *end = 0;
        (void)mkdir(around, 0700);
    }
    (void)mkdir(path, 0700);
}

ferry_status
ferryi_private_folder_open(const char *path, bool make, int *out)
{
    struct stat info = {
        0}; /* zeroed, because some memory sanitizers do not know that fstat() writes it */
    *out = -1;
    if (getuid() != geteuid() || getgid() != getegid())
        return ferryi_fail(FERRY_ERROR_IO,
                           "open %s: the program runs with the rights of another user", path);
    int folder = open_again(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (folder < 0 && errno == ENOENT) {
        if (!make)
            return FERRY_OK;
        make_folders(path);
        folder = open_again(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    }
    if (folder < 0)
        return ferryi_fail(FERRY_ERROR_IO, "open %s: %s", path, strerror(errno));
    ferry_status status = check_open(folder, S_IFDIR, &info);
    if (status != FERRY_OK) {
        ferryi_private_folder_close(folder);
        return ferryi_fail_in(status, "open %s", path);
    }
    *out = folder;
    return FERRY_OK;
}

void
ferryi_private_folder_close(int folder)
{
    if (folder >= 0)
        (void)close(folder);
}

/* -- the folder's files ------------------------------------------------------------------------ */

ferry_status
ferryi_private_folder_find(int folder, const char *name, struct ferryi_file *out)
{
    struct stat info = {0};
    *out = FERRYI_FILE_CLOSED;
    out->path = name;
    /* Without O_NONBLOCK the open would block if the name belongs to a pipe. */
    int fd = open_again(folder, name, O_RDONLY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return FERRY_OK;
    if (fd < 0)
        return ferryi_fail(FERRY_ERROR_IO, "open %s: %s", name, strerror(errno));
    ferry_status status = check_open(fd, S_IFREG, &info);
    if (status != FERRY_OK) {
        (void)close(fd);
        return ferryi_fail_in(status, "open %s", name);
    }
    out->fd = fd;
    out->sized = true;
    out->bytes = (uint64_t)info.st_size;
    return FERRY_OK;
}

/* Composes a temporary file name that no other thread, process or machine uses at the same time. */
static void
make_name(char own[NAME_MAX + 1], const char *name)
{
    snprintf(own, NAME_MAX + 1, "%s.%llu-%llu", name, (unsigned long long)ferryi_thread_id(),
             (unsigned long long)ferryi_now_ns());
}

static ferry_status
write_whole(int fd, const char *name, const void *bytes, size_t count)
{
    size_t written;
    struct ferryi_file file = FERRYI_FILE_CLOSED;
    file.path = name;
    file.fd = fd;
    ferry_status status = ferryi_file_write(&file, 0, bytes, count, &written);
    ferry_status closed = ferryi_file_close(&file);
    return status != FERRY_OK ? status : closed;
}

ferry_status
ferryi_private_folder_put(int folder, const char *name, const void *bytes, size_t count)
{
    char own[NAME_MAX + 1];
    make_name(own, name);
    int fd = open_again(folder, own, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return ferryi_fail(FERRY_ERROR_IO, "make %s: %s", own, strerror(errno));
    ferry_status status = write_whole(fd, own, bytes, count);
    if (status == FERRY_OK && renameat(folder, own, folder, name) != 0)
        status = ferryi_fail(FERRY_ERROR_IO, "rename %s to %s: %s", own, name, strerror(errno));
    if (status != FERRY_OK)
        ferryi_private_folder_remove(folder, own);
    return status;
}

void
ferryi_private_folder_remove(int folder, const char *name)
{
    (void)unlinkat(folder, name, 0);
}

void
ferryi_private_folder_touch(const struct ferryi_file *file)
{
    (void)futimens(file->fd, NULL);
}

/* -- trimming ---------------------------------------------------------------------------------- */

struct found {
    char name[NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
};

struct listing {
    struct found *files;
    size_t count, room;
    uint64_t bytes; /* total size of all files */
};

/* Adds a file to the list of files of the folder. Skips a file that a different process has removed
 * since the folder was read. */
static bool
list_file(int folder, const char *name, struct listing *list)
{
    struct stat info = {0};
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode))
        return true;
    if (!ferryi_grow(&list->files, &list->room, list->count + 1, sizeof(*list->files)))
        return false;
    struct found *file = &list->files[list->count++];
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->bytes = (uint64_t)info.st_size;
    file->used = info.st_mtim;
    list->bytes += file->bytes;
    return true;
}

static ferry_status
list_files(int folder, ferryi_private_folder_filter *filter, struct listing *list)
{
    /* Opens the folder again, because a duplicated descriptor would share the folder's read
     * position. */
    int fd = open_again(folder, ".", O_RDONLY | O_DIRECTORY);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!stream) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return ferryi_fail(FERRY_ERROR_IO, "list the files: %s", strerror(error));
    }
    bool fits = true;
    /* cppcheck-suppress readdirCalled ; the stream is used by this call only */
    for (const struct dirent *entry; fits && (entry = readdir(stream));)
        fits = !filter(entry->d_name) || list_file(folder, entry->d_name, list);
    (void)closedir(stream);
    return fits ? FERRY_OK
                : ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                              "list the files: no memory for more than %zu", list->count);
}

static int
compare_use(const void *left, const void *right)
{
    const struct timespec a = ((const struct found *)left)->used,
                          b = ((const struct found *)right)->used;
    if (a.tv_sec != b.tv_sec)
        return a.tv_sec < b.tv_sec ? -1 : 1;
    return a.tv_nsec < b.tv_nsec ? -1 : a.tv_nsec > b.tv_nsec;
}

ferry_status
ferryi_private_folder_trim(int folder, ferryi_private_folder_filter *filter, uint64_t bytes_max,
                           size_t files_max)
{
    struct listing list = {0};
    ferry_status status = list_files(folder, filter, &list);
    if (status == FERRY_OK && list.files && (list.bytes > bytes_max || list.count > files_max)) {
        qsort(list.files, list.count, sizeof(*list.files), compare_use);
        for (size_t i = 0; i < list.count && (list.bytes > bytes_max || list.count - i > files_max);
             i++) {
            ferryi_private_folder_remove(folder, list.files[i].name);
            list.bytes -= list.files[i].bytes;
        }
    }
    free(list.files);
    return status;
}
