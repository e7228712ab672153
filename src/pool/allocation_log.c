/* SPDX-License-Identifier: MIT */
#include "src/pool/allocation_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/output_file.h"

FERRYI_MUTEX_CLASS(ferryi_log_mutex);

struct ferryi_allocation_log {
    struct ferryi_log_mutex mutex;
    char *path;
    FERRYI_GUARDED_BY(ferryi_log_mutex) struct {
        FILE *file;
        time_t second;  /* wall-clock time in seconds that `clock` contains as text */
        char clock[16]; /* "HH:MM:SS" of `second`; cached, so that the time is converted once per
                           second and not for every line */
        int failure; /* errno of the first failed write to the log file; 0 if no write has failed */
    };
};

static void
log_free(ferryi_allocation_log *log)
{
    ferryi_mutex_destroy(&log->mutex);
    free(log->path);
    free(log);
}

ferry_status
ferryi_allocation_log_open(const char *path, ferryi_allocation_log **out)
{
    ferryi_allocation_log *log = calloc(1, sizeof(*log));
    if (!log)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open the allocation log %s: no host memory",
                           path);
    ferryi_mutex_init(&log->mutex);
    ferryi_mutex_is_needless(&log->mutex);
    log->second = -1;
    int file, failure = ferryi_output_open(path, &file, &log->path);
    log->file = failure ? NULL : fdopen(file, "w");
    if (!log->file && !failure)
        close(file);
    if (!log->file || fputs("Thread,Time,Action,Pointer,Size,Stream\n", log->file) < 0 ||
        fflush(log->file) != 0) {
        ferry_status status = ferryi_fail(FERRY_ERROR_IO, "open the allocation log %s: %s", path,
                                          strerror(failure ? failure : errno));
        if (log->file)
            fclose(log->file);
        log_free(log);
        return status;
    }
    *out = log;
    return FERRY_OK;
}

/* Returns the microseconds part of the wall-clock time. Updates `log->clock`, the time of day as
 * text, if a new second has begun. */
FERRYI_REQUIRES(ferryi_log_mutex)
static long
look_at_clock(ferryi_allocation_log *log)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != log->second && localtime_r(&now.tv_sec, &parts)) {
        strftime(log->clock, sizeof(log->clock), "%H:%M:%S", &parts);
        log->second = now.tv_sec;
    }
    return now.tv_nsec / 1000;
}

void
ferryi_allocation_log_write(ferryi_allocation_log *log, enum ferryi_allocation action,
                            const void *pointer, size_t bytes, unsigned stream)
{
    static const char *const actions[] = {"allocate", "free", "allocate failure"};
    char address[24] = "(nil)";
    uint64_t thread = ferryi_thread_id();
    if (pointer)
        snprintf(address, sizeof(address), "0x%" PRIxPTR, (uintptr_t)pointer);

    ferryi_mutex_lock(&log->mutex);
    long micros = look_at_clock(log);
    int written = fprintf(log->file, "%" PRIu64 ",%s.%06ld,%s,%s,%zu,%#x\n", thread, log->clock,
                          micros, actions[action], address, bytes, stream);
    bool lost = written < 0 || (action == FERRYI_ALLOCATION_FAILURE && fflush(log->file) != 0);
    if (lost && !log->failure)
        log->failure = errno ? errno : EIO;
    ferryi_mutex_unlock(&log->mutex);
}

ferry_status
ferryi_allocation_log_close(ferryi_allocation_log **log_address)
{
    ferryi_allocation_log *log = *log_address;
    ferry_status status = FERRY_OK;
    if (!log)
        return FERRY_OK;
    *log_address = NULL;
    ferryi_mutex_is_needless(&log->mutex);
    if (fflush(log->file) != 0 && !log->failure)
        log->failure = errno ? errno : EIO;
    ferryi_output_release(fileno(log->file));
    if (fclose(log->file) != 0 && !log->failure)
        log->failure = errno ? errno : EIO;
    if (log->failure)
        status = ferryi_fail(FERRY_ERROR_IO, "write the allocation log %s: lines are lost: %s",
                             log->path, strerror(log->failure));
    log_free(log);
    return status;
}
