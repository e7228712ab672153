/* SPDX-License-Identifier: MIT */
/*
 * A part of fakecuda, the library that imitates the CUDA driver: memory and events that processes
 * share. Each is a file without a name, whose descriptor another process opens through /proc. The
 * label of the file contains a number that was drawn at random, by which a token is checked.
 */
#include "tests/support/fakecuda_internal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define RECORDS     256 /* records of an event that may not have ended */
#define PATH_BYTES  64
#define POLL_US     200

_Static_assert(sizeof(struct fake_token) == sizeof(struct ferryi_gpu_memory_token),
               "a token has the size of the driver's");

/* -- files -- */

static void
write_label(char label[PATH_BYTES], const char *before, uint64_t number, const char *after)
{
    snprintf(label, PATH_BYTES, "%sfakecuda-%016llx%s", before, (unsigned long long)number, after);
}

/* Creates a file of this size, and its token. Returns its descriptor, or -1. */
static int
create_file(size_t bytes, struct fake_token *out)
{
    char label[PATH_BYTES];
    struct fake_token token = {.bytes = bytes, .process = getpid()};
    if (getrandom(&token.number, sizeof(token.number), 0) != sizeof(token.number))
        return -1;
    write_label(label, "", token.number, "");
    token.file = memfd_create(label, MFD_CLOEXEC);
    if (token.file >= 0 && ftruncate(token.file, (off_t)bytes) != 0) {
        close(token.file);
        return -1;
    }
    *out = token;
    return token.file;
}

static void
write_path(const struct fake_token *token, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/proc/%d/fd/%d", (int)token->process, token->file);
}

/* Returns whether the process of the token still has the file open. */
static bool
is_open(const struct fake_token *token)
{
    char path[PATH_BYTES], label[PATH_BYTES], found[PATH_BYTES];
    write_path(token, path);
    write_label(label, "/memfd:", token->number, " (deleted)");
    ssize_t length = readlink(path, found, sizeof(found) - 1);
    return length == (ssize_t)strlen(label) && memcmp(found, label, (size_t)length) == 0;
}

/* Returns whether a process still runs. One that has ended has no program, even before its parent
 * knows. */
static bool
runs(pid_t process)
{
    char path[PATH_BYTES], found[1];
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process);
    return process == getpid() || readlink(path, found, sizeof(found)) >= 0;
}

#if FAKECUDA_GENERATION >= 12
/* Opens the file of a token, which may be forged. */
static fake_result
open_file(const struct fake_token *token, size_t granularity, int *out)
{
    char path[PATH_BYTES];
    struct stat about = {.st_size = 0};
    write_path(token, path);
    if (token->bytes == 0 || token->bytes % granularity != 0 || !is_open(token) ||
        stat(path, &about) != 0 || (uint64_t)about.st_size != token->bytes)
        return FERRYI_GPU_ERROR_INVALID_VALUE;
    if (token->process == getpid())
        return FERRYI_GPU_ERROR_INVALID_CONTEXT;
    *out = open(path, O_RDWR | O_CLOEXEC);
    return *out >= 0 ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_INVALID_VALUE;
}
#endif

/* -- memory -- */

bool
fake_can_share(size_t bytes)
{
    return FAKECUDA_GENERATION >= 12 && bytes % GRANULARITY == 0;
}

bool
fake_shared_map(struct fake_block *block, bool private)
{
    struct fake_shared *shared = calloc(1, sizeof(*shared));
    int file = shared ? create_file(block->bytes, &shared->token) : -1;
    if (file >= 0 && fake_map(block, file, private, private)) {
        block->shared = shared;
        return true;
    }
    if (file >= 0)
        close(file);
    free(shared);
    return false;
}

void
fake_shared_end(struct fake_shared *shared)
{
    if (shared && shared->opened == 0)
        close(shared->token.file);
    free(shared);
}

bool
fake_shared_is_gone(const struct fake_block *block)
{
    return fake_shared_is_opened(block) && !is_open(&block->shared->token);
}

#if FAKECUDA_GENERATION >= 12

ferryi_gpu_result
cuIpcGetMemHandle(struct ferryi_gpu_memory_token *out_token, ferryi_gpu_pointer memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuIpcGetMemHandle, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    const struct fake_block *block = fake_block_at((void *)(uintptr_t)memory);
    if (!block || !block->shared || fake_shared_is_opened(block) || block->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    memcpy(out_token, &block->shared->token, sizeof(*out_token));
    return fake_end(FERRYI_GPU_SUCCESS);
}

/* Maps the memory of another process. */
static fake_result
map_opened(fake_context *context, const struct fake_token *token, int file, void **out)
{
    const bool private = fake.strict & FAKE_STRICT_PRIVATE;
    struct fake_block block = {.kind = FAKE_DEVICE, .context = context, .bytes = token->bytes};
    struct fake_shared *shared = malloc(sizeof(*shared));
    if (!shared || !fake_map(&block, file, private, private)) {
        free(shared);
        return FERRYI_GPU_ERROR_OUT_OF_MEMORY;
    }
    *shared = (struct fake_shared){*token, 1};
    block.shared = shared;
    if (!fake_add_block(&block))
        abort();
    *out = block.memory;
    return FERRYI_GPU_SUCCESS;
}

/* The CUDA driver maps memory once in each context. HIP maps it anew each time. */
static struct fake_block *
find_opened(const fake_context *context, const struct fake_token *token)
{
#ifdef FAKEHIP
    (void)context, (void)token;
    return NULL;
#else
    return fake_block_opened(context, token->number);
#endif
}

ferryi_gpu_result
cuIpcOpenMemHandle_v2(ferryi_gpu_pointer *out_memory, struct ferryi_gpu_memory_token token,
                      unsigned int flags)
{
    fake_context *context = NULL;
    struct fake_token name;
    int file = -1;
    void *memory = NULL;
    FAKE_BEGIN(cuIpcOpenMemHandle_v2, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    memcpy(&name, &token, sizeof(name));
    fake_result result = flags == FERRYI_GPU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
                             ? open_file(&name, GRANULARITY, &file)
                             : FERRYI_GPU_ERROR_INVALID_VALUE;
    struct fake_block *block = result == FERRYI_GPU_SUCCESS ? find_opened(context, &name) : NULL;
    if (block) {
        block->shared->opened++;
        memory = block->memory;
    } else if (result == FERRYI_GPU_SUCCESS) {
        result = map_opened(context, &name, file, &memory);
    }
    if (file >= 0)
        close(file);
    if (result == FERRYI_GPU_SUCCESS)
        *out_memory = (uintptr_t)memory;
    return fake_end(result);
}

/* Waits for no work, which then faults. */
ferryi_gpu_result
cuIpcCloseMemHandle(ferryi_gpu_pointer memory)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuIpcCloseMemHandle, FAKE_NEEDS_CONTEXT | FAKE_UNSAFE, &context);
    struct fake_block *block = fake_block_at((void *)(uintptr_t)memory);
    if ((fake.strict & FAKE_STRICT_CAPTURE) && fake_capture_of_context(context, true))
        return fake_end(FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!block || !fake_shared_is_opened(block) || block->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_VALUE);
    if (block->shared->opened > 1) {
        block->shared->opened--;
    } else {
        fake_remove_block(block);
        fake.live.opened--;
    }
    return fake_end(FERRYI_GPU_SUCCESS);
}

#endif

/* -- events -- */

struct record {
    _Atomic uint64_t number; /* 0: not used yet */
    _Atomic pid_t process;   /* the one that recorded */
    _Atomic int has_ended;
};

/* The contents of the file of an event. Record n uses element n % RECORDS. */
struct records {
    _Atomic uint64_t begun, last;
    struct record at[RECORDS];
};

struct fake_shared_event {
    struct fake_token token;
    struct records *records;
    bool is_opened;
    int holders; /* the event, and queued records and waits; the last one frees it */
};

static struct fake_shared_event *
new_event(const struct fake_token *token, int file, bool is_opened)
{
    struct fake_shared_event *event = malloc(sizeof(*event));
    void *records = mmap(NULL, sizeof(struct records), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (event && records != MAP_FAILED) {
        *event = (struct fake_shared_event){*token, records, is_opened, 1};
        return event;
    }
    free(event);
    if (records != MAP_FAILED)
        munmap(records, sizeof(struct records));
    return NULL;
}

struct fake_shared_event *
fake_shared_event_new(void)
{
    struct fake_token token;
    int file = create_file(sizeof(struct records), &token);
    struct fake_shared_event *event = file >= 0 ? new_event(&token, file, false) : NULL;
    if (!event && file >= 0)
        close(file);
    return event;
}

void
fake_shared_event_drop(struct fake_shared_event *event)
{
    if (!event || --event->holders > 0)
        return;
    munmap(event->records, sizeof(*event->records));
    if (!event->is_opened)
        close(event->token.file);
    free(event);
}

bool
fake_shared_event_is_gone(const struct fake_shared_event *event)
{
    return event && event->is_opened && runs(event->token.process) && !is_open(&event->token);
}

/* Returns whether a record has ended. One whose element is that of a later record has, and so has
 * that of a process that ended. */
static bool
has_ended(const struct fake_shared_event *event, uint64_t number)
{
    const struct record *record = &event->records->at[number % RECORDS];
    return number == 0 || atomic_load(&record->number) != number ||
           atomic_load(&record->has_ended) || !runs(atomic_load(&record->process));
}

bool
fake_shared_event_has_ended(const struct fake_shared_event *event)
{
    return has_ended(event, atomic_load(&event->records->last));
}

/* A record or a wait that is queued. */
struct point {
    struct fake_shared_event *event;
    uint64_t number;
};

static fake_result
enqueue(struct fake_shared_event *event, uint64_t number, struct fake_queue *queue,
        fake_result (*run)(void *), void (*drop)(void *))
{
    struct point *point = malloc(sizeof(*point));
    if (!point)
        abort();
    *point = (struct point){event, number};
    event->holders++;
    return fake_enqueue(queue, run, drop, point, NULL);
}

static void
end_wait(void *payload)
{
    fake_shared_event_drop(((struct point *)payload)->event);
}

/* A record also ends if the context has failed before. */
static void
end_record(void *payload)
{
    const struct point *point = payload;
    atomic_store(&point->event->records->at[point->number % RECORDS].has_ended, 1);
    fake_shared_event_drop(point->event);
}

fake_result
fake_shared_event_record(struct fake_shared_event *event, struct fake_queue *queue)
{
    if (queue->capture)
        return FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct records *records = event->records;
    const uint64_t number = atomic_fetch_add(&records->begun, 1) + 1;
    struct record *record = &records->at[number % RECORDS];
    if (number > RECORDS && !has_ended(event, number - RECORDS)) {
        fprintf(stderr, "fakecuda: more than %d records of an event have not ended\n", RECORDS);
        abort();
    }
    atomic_store(&record->has_ended, 0);
    atomic_store(&record->process, getpid());
    atomic_store(&record->number, number);
    uint64_t last = atomic_load(&records->last);
    while (last < number && !atomic_compare_exchange_weak(&records->last, &last, number))
        ;
    fake_result result = enqueue(event, number, queue, NULL, end_record);
    fake_want(queue, queue->queued);
    return result;
}

static fake_result
run_wait(void *payload)
{
    const struct point *point = payload;
    while (!has_ended(point->event, point->number))
        usleep(POLL_US);
    return FERRYI_GPU_SUCCESS;
}

fake_result
fake_shared_event_await(struct fake_shared_event *event, struct fake_queue *queue)
{
    if (queue->capture)
        return FERRYI_GPU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return enqueue(event, atomic_load(&event->records->last), queue, run_wait, end_wait);
}

void
fake_shared_event_wait(struct fake_shared_event *event)
{
    struct point point = {event, atomic_load(&event->records->last)};
    event->holders++;
    pthread_mutex_unlock(&fake_lock);
    (void)run_wait(&point);
    pthread_mutex_lock(&fake_lock);
    fake_shared_event_drop(event);
}

#if FAKECUDA_GENERATION >= 12

ferryi_gpu_result
cuIpcGetEventHandle(struct ferryi_gpu_event_token *out_token, ferryi_gpu_event event)
{
    fake_context *context = NULL;
    FAKE_BEGIN(cuIpcGetEventHandle, FAKE_NEEDS_CONTEXT, &context);
    if (!fake_event_is_live(event) || !event->shared || event->shared->is_opened ||
        event->context != context)
        return fake_end(FERRYI_GPU_ERROR_INVALID_HANDLE);
    memcpy(out_token, &event->shared->token, sizeof(*out_token));
    return fake_end(FERRYI_GPU_SUCCESS);
}

ferryi_gpu_result
cuIpcOpenEventHandle(ferryi_gpu_event *out_event, struct ferryi_gpu_event_token token)
{
    fake_context *context = NULL;
    struct fake_token name;
    int file = -1;
    FAKE_BEGIN(cuIpcOpenEventHandle, FAKE_NEEDS_CONTEXT, &context);
    memcpy(&name, &token, sizeof(name));
    fake_result result = open_file(&name, sizeof(struct records), &file);
    if (result != FERRYI_GPU_SUCCESS)
        return fake_end(result);
    struct fake_shared_event *shared = new_event(&name, file, true);
    close(file);
    struct ferryi_gpu_event *event = shared ? fake_event_new(context, false, shared) : NULL;
    if (!event)
        fake_shared_event_drop(shared);
    else
        *out_event = event;
    return fake_end(event ? FERRYI_GPU_SUCCESS : FERRYI_GPU_ERROR_OUT_OF_MEMORY);
}

#endif
