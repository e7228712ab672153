/* SPDX-License-Identifier: MIT */
#include "src/base/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/fork.h"

#define MAGIC UINT64_C(0x31656c6966797265) /* "eryfile1" */
#define TITLE "ferry shared memory"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

FERRY_STATIC_ASSERT(sizeof(struct ferryi_shared_file_name) == 64, "names have 64 bytes");

/* -- descriptors ------------------------------------------------------------------------------- */

FERRYI_MUTEX_CLASS(ferryi_shared_files_mutex);

/* All descriptors of this process, which a forked child closes. */
static struct {
    struct ferryi_shared_files_mutex mutex;
    int *files FERRYI_GUARDED_BY(ferryi_shared_files_mutex);
    size_t count FERRYI_GUARDED_BY(ferryi_shared_files_mutex);
    size_t room FERRYI_GUARDED_BY(ferryi_shared_files_mutex);
} known = {.mutex = FERRYI_MUTEX_INITIALIZER};

static void
close_in_child(bool in_child)
{
    ferryi_mutex_is_held(&known.mutex);
    for (size_t i = 0; in_child && i < known.count; i++)
        close(known.files[i]);
    if (in_child)
        known.count = 0;
}

static struct ferryi_fork_part descriptors = {.mutex = FERRYI_SYSTEM_MUTEX(&known.mutex),
                                              .after = close_in_child};
FERRYI_AT_FORK(descriptors)

/* Opens a file of another process, or creates one if `path` is NULL, while no fork runs. Returns -1
 * and sets errno if that fails. */
static int
add_file(const char *path, int flags)
{
    int file = -1, error = ENOMEM;
    ferryi_mutex_lock(&known.mutex);
    if (ferryi_grow(&known.files, &known.room, known.count + 1, sizeof(*known.files))) {
        file = path ? open(path, flags) : memfd_create(TITLE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        error = errno;
        if (file >= 0)
            known.files[known.count++] = file;
    }
    ferryi_mutex_unlock(&known.mutex);
    errno = error;
    return file;
}

void
ferryi_shared_file_close(int file)
{
    ferryi_mutex_lock(&known.mutex);
    for (size_t i = 0; i < known.count; i++)
        if (known.files[i] == file) {
            known.files[i] = known.files[--known.count];
            close(file);
            break;
        }
    if (known.count == 0) {
        free(known.files);
        known.files = NULL;
        known.room = 0;
    }
    ferryi_mutex_unlock(&known.mutex);
}

/* -- names ------------------------------------------------------------------------------------- */

/* Sets `out` to the id of this boot of the machine. Containers of one machine have the same. */
static bool
find_machine(unsigned char out[FERRYI_SHARED_FILE_KEY])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    char text[64] = "";
    size_t digits = 0;
    if (!file)
        return false;
    char *line = fgets(text, sizeof(text), file);
    fclose(file);
    memset(out, 0, FERRYI_SHARED_FILE_KEY);
    for (const char *at = line ? line : ""; *at && digits < 2 * FERRYI_SHARED_FILE_KEY; at++) {
        const bool is_number = *at >= '0' && *at <= '9';
        if (!is_number && !(*at >= 'a' && *at <= 'f'))
            continue;
        const unsigned digit = (unsigned)(is_number ? *at - '0' : *at - 'a' + 10);
        out[digits / 2] = (unsigned char)(out[digits / 2] << 4 | digit);
        digits++;
    }
    return digits == 2 * FERRYI_SHARED_FILE_KEY;
}

static bool
is_short_of(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Fills in all members of a name that are the same for all files of this process. `verb` is for
 * messages. */
static ferry_status
begin_name(const char *verb, struct ferryi_shared_file_name *name)
{
    struct stat processes = {.st_ino = 0};
    errno = 0;
    memset(name, 0, sizeof(*name));
    name->magic = MAGIC;
    name->process = (uint32_t)getpid();
    if (stat("/proc/self/ns/pid", &processes) != 0 || !find_machine(name->machine))
        return is_short_of(errno)
                   ? ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s shared memory: %s", verb,
                                 strerror(errno))
                   : ferryi_fail(
                         FERRY_ERROR_UNSUPPORTED,
                         "%s shared memory: the system does not name its processes in /proc", verb);
    name->processes = processes.st_ino;
    return FERRY_OK;
}

ferry_status
ferryi_shared_file_create(size_t bytes, struct ferryi_shared_file_name *out_name, int *out)
{
    struct ferryi_shared_file_name name;
    FERRYI_OR_RETURN(begin_name("create", &name));
    if (getrandom(name.key, sizeof(name.key), 0) != sizeof(name.key))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "create shared memory: getrandom: %s",
                           strerror(errno));
    int file = add_file(NULL, 0);
    if (file < 0)
        return ferryi_fail(errno == ENOSYS ? FERRY_ERROR_UNSUPPORTED : FERRY_ERROR_OUT_OF_MEMORY,
                           "share %zu bytes: memfd_create: %s", bytes, strerror(errno));
    int error = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
    name.descriptor = (uint32_t)file;
    if (error == 0 && pwrite(file, &name, sizeof(name), 0) != sizeof(name))
        error = errno;
    if (error == 0 && fcntl(file, F_ADD_SEALS, SEALS) != 0)
        error = errno;
    if (error != 0) {
        ferryi_shared_file_close(file);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "share %zu bytes: %s", bytes,
                           strerror(error));
    }
    *out_name = name;
    *out = file;
    return FERRY_OK;
}

static ferry_status
refuse(const char *why)
{
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                       "open shared memory: its handle finds none, because %s", why);
}

static ferry_status
check_name(const struct ferryi_shared_file_name *name)
{
    struct ferryi_shared_file_name here;
    if (name->magic != MAGIC || name->process == 0 || name->process > INT32_MAX ||
        name->descriptor > INT32_MAX || name->reserved != 0)
        return refuse("it is no handle of shared memory");
    FERRYI_OR_RETURN(begin_name("open", &here));
    if (memcmp(here.machine, name->machine, sizeof(here.machine)) != 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "open shared memory: it is on another machine");
    if (here.processes != name->processes)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "open shared memory: its process is in another container");
    return FERRY_OK;
}

/* Checks that `path` is a file of this kind without opening it: to open another file of another
 * process may have an effect. */
static ferry_status
check_link(const char *path)
{
    static const char wanted[] = "/memfd:" TITLE;
    char link[sizeof(wanted)];
    ssize_t length = readlink(path, link, sizeof(link));
    if (length < 0 && (errno == EACCES || errno == EPERM))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "open shared memory: this process may not open files of its process");
    if (length < 0)
        return refuse("the process that made it has ended it");
    return length >= (ssize_t)sizeof(wanted) - 1 && memcmp(link, wanted, sizeof(wanted) - 1) == 0
               ? FERRY_OK
               : refuse("the process that made it has ended it");
}

ferry_status
ferryi_shared_file_open(const struct ferryi_shared_file_name *name, bool writes, size_t *out_bytes,
                        int *out)
{
    char path[64];
    struct ferryi_shared_file_name found;
    struct stat properties = {.st_size = 0};
    FERRYI_OR_RETURN(check_name(name));
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", name->process, name->descriptor);
    FERRYI_OR_RETURN(check_link(path));
    int file = add_file(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && (errno == EACCES || errno == EPERM)) {
        /* The other process may have closed it meanwhile, and opened another file. */
        FERRYI_OR_RETURN(check_link(path));
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "open shared memory: this process may not open files of its process");
    }
    if (file < 0)
        return is_short_of(errno) ? ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open shared memory: %s",
                                                strerror(errno))
                                  : refuse("the process that made it has ended it");
    /* A file whose size is fixed cannot take memory away from those who map it. */
    bool is_fixed = (fcntl(file, F_GET_SEALS) & SEALS) == SEALS && fstat(file, &properties) == 0;
    if (is_fixed && pread(file, &found, sizeof(found), 0) == sizeof(found) &&
        memcmp(&found, name, sizeof(found)) == 0) {
        *out_bytes = (size_t)properties.st_size;
        *out = file;
        return FERRY_OK;
    }
    ferryi_shared_file_close(file);
    return refuse("it is forged, or the process that made it has ended it");
}

ferry_status
ferryi_shared_file_map(int file, size_t offset, size_t bytes, bool writes, void **out)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    /* A child of a fork that ran meanwhile would keep the second descriptor. */
    ferryi_mutex_lock(&known.mutex);
    int again = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    void *memory = again < 0 ? MAP_FAILED
                             : mmap(NULL, bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ,
                                    MAP_SHARED, again, (off_t)offset);
    const int error = errno;
    if (again >= 0)
        close(again);
    ferryi_mutex_unlock(&known.mutex);
    if (memory == MAP_FAILED)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "map %zu bytes of shared memory: %s", bytes,
                           strerror(error));
    *out = memory;
    return FERRY_OK;
}

/* -- locks ------------------------------------------------------------------------------------- */

static struct flock
lock_of(unsigned byte, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

bool
ferryi_shared_file_try_lock(int file, unsigned byte, bool writes)
{
    struct flock lock = lock_of(byte, writes ? F_WRLCK : F_RDLCK);
    return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

void
ferryi_shared_file_unlock(int file, unsigned byte)
{
    struct flock lock = lock_of(byte, F_UNLCK);
    (void)fcntl(file, F_OFD_SETLK, &lock);
}

bool
ferryi_shared_file_is_locked(int file, unsigned byte)
{
    struct flock lock = lock_of(byte, F_WRLCK);
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
