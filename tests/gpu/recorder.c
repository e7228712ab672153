/* SPDX-License-Identifier: MIT */
/*
 * A CUDA driver that forwards each call to a second driver. For each call it writes a line of JSON
 * with the thread, the arguments, the results, and the time in nanoseconds. Programs load this
 * driver if FERRY_CUDA_LIBRARY names it.
 *
 *   FERRY_RECORD_LIBRARY  the second driver, which does the work; default libcuda.so.1
 *   FERRY_RECORD_FILE     the file for the lines; nothing is written if it is not set
 *
 * A line is written when its call has returned. Handles and blocks of memory are written as
 * numbers. tests/gpu/replay.py maps these numbers to the handles and blocks of a different driver:
 *
 *   "stream:3"             a handle
 *   "m3+256"               a byte of block 3
 *   "h7f00:4096"           host memory, by address and length
 *   "x40"                  any other address
 *   {"out": ...}           what the call wrote
 *   {"w32": [...]}         an array or a structure, as words of 32 bits; "w64" has words of 64
 * bits, and such objects in place of pointers to them
 *
 * The entry points are generated from FERRYI_CUDA_SYMBOLS, whose parameter lists are read as text.
 * Nearly all arguments are integers, pointers, or structures of at most 8 bytes. On x86-64 and
 * AArch64 each such argument uses one register or stack slot, so one function can forward all
 * calls. An entry point is an indirect function, which is NULL if the second driver lacks it, and
 * that driver's own function if it takes a larger structure. Calls of such a function are not
 * recorded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/device/cuda/cuda_abi.h"
#include "tests/gpu/recorder.h"

typedef ferryi_gpu_result forwarded(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                                    uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* The driver calls that are recorded: those that Ferry makes. Other code may make them, too. */
#define RECORDED(X) FERRYI_CUDA_SYMBOLS(X)

static struct entry {
    const char *name, *parameters;
    forwarded *function;
    int count; /* number of used elements of `at` */
    struct recorder_parameter at[RECORDER_PARAMETERS];
} entries[] = {
#define ENTRY(group, symbol, list) {.name = #symbol, .parameters = #list},
    RECORDED(ENTRY)
#undef ENTRY
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static FILE *out;
static int threads;
static _Thread_local int thread;

static void
open_library(void)
{
    const char *name = getenv("FERRY_RECORD_LIBRARY"), *file = getenv("FERRY_RECORD_FILE");
    library = dlopen(name && name[0] ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "recorder: %s\n", dlerror());
    if (file && file[0])
        out = fopen(file, "we");
    if (file && file[0] && !out)
        perror(file);
}

/* Returns whether an argument is a structure that does not fit a register. */
static bool
takes_structure(const struct entry *entry)
{
    for (int i = 0; i < entry->count; i++)
        if (entry->at[i].kind == RECORDER_STRUCTURE && !entry->at[i].is_output)
            return true;
    return false;
}

/* Looks up the function of the second driver, to which the recorder forwards a call. Returns
 * `record` or what takes its place. */
static forwarded *
resolve(struct entry *entry, forwarded *record)
{
    pthread_once(&once, open_library);
    void *address = library ? dlsym(library, entry->name) : NULL;
    pthread_mutex_lock(&lock);
    memcpy(&entry->function, &address, sizeof(address));
    if (entry->count == 0)
        entry->count = recorder_parse(entry->parameters, entry->at);
    pthread_mutex_unlock(&lock);
    return address && !takes_structure(entry) ? record : entry->function;
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- the line of one call -- */

static void
write_arguments(struct recorder_text *line, const struct entry *entry,
                const struct recorder_call *call)
{
    for (int i = 0; i < entry->count; i++) {
        recorder_print(line, "%s\"%s\": ", i ? ", " : "", entry->at[i].name);
        recorder_write(line, call, i);
    }
}

/* Writes the line of a recorded call after the call has returned. Replaces each mark of an output
 * in the line by the value that the call has written. */
static void
finish_line(const char *line, const struct entry *entry, const struct recorder_call *call,
            ferryi_gpu_result result, uint64_t ns)
{
    struct recorder_text ended = {0};
    for (const char *at = line; *at;) {
        size_t length = strcspn(at, (const char[]){RECORDER_MARK, 0});
        recorder_append(&ended, at, length);
        at += length;
        if (*at == RECORDER_MARK) {
            recorder_write_out(&ended, call, at[1] - 'a', result);
            at += 2;
        }
    }
    if (result == FERRYI_GPU_SUCCESS)
        recorder_forget(call);
    fprintf(out,
            "{\"thread\": %d, \"call\": \"%s\", \"args\": {%s}, \"result\": %u, \"ns\": %llu}\n",
            thread, entry->name, ended.at ? ended.at : "", result, (unsigned long long)ns);
    fflush(out);
    free(ended.at);
}

static ferryi_gpu_result
record(struct entry *entry, const uint64_t a[RECORDER_PARAMETERS])
{
    struct recorder_call call = {
        .parameters = entry->at, .count = entry->count, .name = entry->name, .a = a};
    struct recorder_text line = {0};
    if (!out)
        return entry->function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    pthread_mutex_lock(&lock);
    thread = thread ? thread : ++threads;
    write_arguments(&line, entry, &call);
    pthread_mutex_unlock(&lock);
    uint64_t begun = now_ns();
    ferryi_gpu_result result =
        entry->function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    uint64_t ns = now_ns() - begun;
    pthread_mutex_lock(&lock);
    finish_line(line.at ? line.at : "", entry, &call, result, ns);
    pthread_mutex_unlock(&lock);
    free(line.at);
    return result;
}

/* -- entry points -- */

#define NUMBER(group, name, parameters) NUMBER_##name,
enum { RECORDED(NUMBER) };
#undef NUMBER

#define EXPORT __attribute__((visibility("default")))
#define FORWARD(group, name, parameters)                                                           \
    static ferryi_gpu_result record_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d,         \
                                           uint64_t e, uint64_t f, uint64_t g, uint64_t h,         \
                                           uint64_t i, uint64_t j, uint64_t k)                     \
    {                                                                                              \
        return record(&entries[NUMBER_##name],                                                     \
                      (const uint64_t[]){a, b, c, d, e, f, g, h, i, j, k});                        \
    }                                                                                              \
    static forwarded *resolve_##name(void) __attribute__((used));                                  \
    static forwarded *resolve_##name(void)                                                         \
    {                                                                                              \
        return resolve(&entries[NUMBER_##name], record_##name);                                    \
    }                                                                                              \
    EXPORT forwarded name __attribute__((ifunc("resolve_" #name)));
RECORDED(FORWARD)
