/* SPDX-License-Identifier: MIT */
#include "src/base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/base/fork.h"
#include "src/base/machine.h"

#define PID_BYTES 24

/* -- names ------------------------------------------------------------------------------------- */

/* Returns whether the name is that of a pipe, a terminal or another file that is not regular. All
 * processes write to such a file. */
static bool
is_shared(const char *name)
{
    struct stat info = {0};
    return stat(name, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Replaces the patterns of a name. Sets `*out_pid` and `*out_rank` to whether it has "%p" and "%r".
 * Returns the number of characters. */
static size_t
expand(const char *pattern, const char *pid, const char *rank, char *name, bool *out_pid,
       bool *out_rank)
{
    size_t length = 0;
    *out_pid = *out_rank = false;
    for (const char *at = pattern; *at; at++) {
        bool is_pid = strncmp(at, "%p", 2) == 0, is_rank = strncmp(at, "%r", 2) == 0;
        const char *value = is_pid ? pid : is_rank ? rank : NULL;
        *out_pid |= is_pid;
        *out_rank |= is_rank;
        at += value || strncmp(at, "%%", 2) == 0;
        length +=
            (size_t)snprintf(name + length, PID_BYTES, "%.*s", value ? -1 : 1, value ? value : at);
    }
    name[length] = 0;
    return length;
}

char *
ferryi_output_name(const char *pattern)
{
    const char *found = ferryi_machine_rank(false), *rank = found ? found : "0";
    const size_t own = sizeof(".rank") + sizeof(".pid") + (size_t)2 * PID_BYTES;
    char pid[PID_BYTES], *name = malloc(strlen(pattern) * PID_BYTES + own);
    bool has_pid, has_rank;
    if (!name)
        return NULL;
    snprintf(pid, sizeof(pid), "%llu", (unsigned long long)ferryi_process_id());
    size_t length = expand(pattern, pid, rank, name, &has_pid, &has_rank);
    if (is_shared(name))
        return name;
    if (!has_pid && !has_rank && strcmp(rank, "0") != 0)
        length += (size_t)snprintf(name + length, own, ".rank%s", rank);
    if (!has_pid && ferryi_fork_count() > 0)
        snprintf(name + length, own, ".pid%s", pid);
    return name;
}

/* -- files ------------------------------------------------------------------------------------- */

/* Claims and empties an open file. Only regular files are claimed: all processes may write to one
 * pipe or terminal. Returns EWOULDBLOCK if the file is claimed elsewhere. A file system that has no
 * locks lets everybody in. */
static int
claim(int file)
{
    struct stat info = {0};
    if (fstat(file, &info) != 0)
        return errno;
    if (!S_ISREG(info.st_mode))
        return 0;
    int result;
    do
        result = flock(file, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK)
        return EWOULDBLOCK;
    return ftruncate(file, 0) == 0 ? 0 : errno;
}

static int
open_claimed(const char *path, int *out_file)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    int failure = file < 0 ? errno : claim(file);
    if (failure && file >= 0)
        (void)close(file);
    *out_file = failure ? -1 : file;
    return failure;
}

int
ferryi_output_open(const char *path, int *out_file, char **out_path)
{
    char *name = strdup(path);
    int failure = name ? open_claimed(name, out_file) : ENOMEM;
    if (failure == EWOULDBLOCK) {
        free(name);
        if (asprintf(&name, "%s.pid%llu", path, (unsigned long long)ferryi_process_id()) < 0)
            name = NULL;
        failure = name ? open_claimed(name, out_file) : ENOMEM;
    }
    if (failure) {
        free(name);
        name = NULL;
        *out_file = -1;
    }
    *out_path = name;
    return failure;
}

void
ferryi_output_release(int file)
{
    (void)flock(file, LOCK_UN);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* Protects the program from SIGPIPE. A write to a pipe whose reader is closed raises this signal,
 * which would end the program. The signal is blocked during the write. If the write raised it, the
 * pending signal is removed. */
struct quiet_pipe {
    sigset_t only_pipe, before;
    bool was_pending;
};

static void
begin_quiet_pipe(struct quiet_pipe *quiet)
{
    sigset_t pending;
    sigemptyset(&quiet->only_pipe);
    sigaddset(&quiet->only_pipe, SIGPIPE);
    sigemptyset(&pending);
    (void)sigpending(&pending);
    quiet->was_pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &quiet->only_pipe, &quiet->before);
}

static void
end_quiet_pipe(const struct quiet_pipe *quiet, bool is_raised)
{
    const struct timespec now = {0};
    while (is_raised && !quiet->was_pending && sigtimedwait(&quiet->only_pipe, NULL, &now) < 0 &&
           errno == EINTR)
        ;
    (void)pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

/* Returns 0 or an errno value. */
static int
write_all(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

int
ferryi_output_write(int file, const char *bytes, size_t count)
{
    struct quiet_pipe quiet;
    begin_quiet_pipe(&quiet);
    int failure = write_all(file, bytes, count);
    end_quiet_pipe(&quiet, failure == EPIPE);
    return failure;
}
