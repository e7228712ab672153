/* SPDX-License-Identifier: MIT */
/* Callbacks that call the library. */
#include "tests/histories/scenes.h"

#include <unistd.h>

/* Data of a callback that calls the library. */
struct inside {
    const struct scene *scene;
    ferry_buffer *same;  /* the buffer that the surrounding call uses */
    ferry_buffer *other; /* a buffer that no other player uses */
    unsigned calls;
};

/* Checks the status of a library call that was made inside a callback. The call may succeed or be
 * refused. It may also fail because the buffer is busy or memory is short. */
static void
done_or_refused(ferry_status status)
{
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_INVALID_STATE, FERRY_ERROR_BUSY, FERRY_ERROR_OUT_OF_MEMORY);
}

static void
ask_inside(ferry_buffer *buffer)
{
    ferry_buffer_info info;
    char text[100];
    (void)ferry_buffer_count(buffer);
    (void)ferry_buffer_state(buffer);
    (void)ferry_buffer_describe(buffer, text, sizeof(text));
    done_or_refused(ferry_buffer_get_info(buffer, &info));
}

static void
call_inside(struct inside *in, unsigned which)
{
    int values[4];
    ferry_buffer *same = in->same, *fresh;
    ferry_scope scope;
    void *out;
    switch (which % 8) {
    case 0:
        done_or_refused(ferry_buffer_copy_to(same, INT, 0, 1, values, NULL));
        break;
    case 1:
        done_or_refused(ferry_buffer_fill(in->other, INT, 0, 4, &(int){4}, NULL));
        break;
    case 2: {
        ferry_status status = ferry_buffer_open_host(same, INT, FERRY_READ, 0, 1, &scope, &out);
        done_or_refused(status);
        if (status == FERRY_OK)
            done_or_refused(ferry_scope_close(&scope));
        break;
    }
    case 3:
        done_or_refused(ferry_buffer_evict(same, 0));
        break;
    case 4:
        done_or_refused(ferry_buffer_wait_idle(same, 0));
        break;
    case 5:
        done_or_refused(ferry_buffer_resize(same, ferry_buffer_count(same) + 1));
        break;
    case 6: {
        ferry_status status =
            ferry_buffer_create(in->scene->world->f.context, INT, 10, NULL, &fresh);
        done_or_refused(status);
        if (status == FERRY_OK)
            ferry_buffer_destroy(&fresh);
        break;
    }
    default:
        ask_inside(same);
        break;
    }
}

/* -- progress ---------------------------------------------------------------------------------- */

static bool
call_from_progress(size_t done, size_t total, void *user)
{
    struct inside *in = user;
    (void)done, (void)total;
    if (in->calls++ < 3)
        call_inside(in, in->scene->flags + in->calls * 3);
    return true;
}

static bool
make_two(const struct scene *s, struct inside *in)
{
    *in = (struct inside){.scene = s};
    if (!WENT(s, ferry_buffer_create(s->world->f.context, INT, 2000, NULL, &in->same)))
        return false;
    if (WENT(s, ferry_buffer_create(s->world->f.context, INT, 10, NULL, &in->other)))
        return true;
    ferry_buffer_destroy(&in->same);
    return false;
}

void
scene_progress_calls(const struct scene *s)
{
    static _Thread_local int values[2000];
    struct inside in;
    ferry_copy_options options = {
        .chunk_bytes = 2000, .keep_going = call_from_progress, .user = &in};
    ferry_status status;
    if (!make_two(s, &in))
        return;
    int place = ferry_stream_place(s->stream);
    switch (s->flags / 8 % 4) {
    case 0:
        status = ferry_buffer_copy_from(in.same, INT, 0, 2000, values, &options);
        break;
    case 1:
        status = ferry_buffer_copy_to(in.same, INT, 0, 2000, values, &options);
        break;
    case 2:
        status = ferry_buffer_fill(in.same, INT, 0, 2000, &(int){1}, &options);
        break;
    default:
        done_or_refused(ferry_buffer_fill(in.same, INT, 0, 2000, &(int){2}, NULL));
        status = ferry_buffer_sync_to(in.same, 0, 2000, place, &options);
        break;
    }
    done_or_refused(status);
    ferry_buffer_destroy(&in.same);
    ferry_buffer_destroy(&in.other);
}

/* -- traces ------------------------------------------------------------------------------------ */

/* Data for the trace callback of this thread, or NULL. The callback reads this variable instead of
 * its parameter `user`, because all threads share that pointer. */
static _Thread_local struct inside *traced;

void
scene_trace(const ferry_trace *trace, void *user)
{
    struct inside *in = traced;
    (void)trace, (void)user;
    if (!in || in->calls++ >= 2)
        return;
    traced = NULL;
    call_inside(in, in->scene->flags + in->calls);
    traced = in;
}

void
scene_trace_calls(const struct scene *s)
{
    static _Thread_local int values[2000];
    struct inside in;
    if (!make_two(s, &in))
        return;
    traced = &in;
    done_or_refused(ferry_buffer_copy_from(in.same, INT, 0, 2000, values, NULL));
    done_or_refused(
        ferry_buffer_sync_to(in.same, 0, FERRY_REST, ferry_stream_place(s->stream), NULL));
    done_or_refused(ferry_buffer_copy_to(in.same, INT, 0, 2000, values, NULL));
    traced = NULL;
    ferry_buffer_destroy(&in.same);
    ferry_buffer_destroy(&in.other);
}

/* -- releases ---------------------------------------------------------------------------------- */

static void
call_from_release(void *memory, void *user)
{
    struct inside *in = user;
    (void)memory;
    in->calls++;
    for (unsigned i = 0; i < 3; i++) {
        unsigned which = in->scene->flags + i;
        /* The program has already destroyed its handle of the wrapped buffer, so the callback uses
         * a different buffer. */
        in->same = in->other;
        call_inside(in, which % 8 == 5 ? 6 : which);
    }
}

void
scene_release_calls(const struct scene *s)
{
    static _Thread_local int memory[100];
    struct inside in = {.scene = s};
    ferry_wrap_options options = {.on_release = call_from_release, .user = &in};
    ferry_buffer *wrap;
    if (!WENT(s, ferry_buffer_create(s->world->f.context, INT, 10, NULL, &in.other)))
        return;
    if (WENT(s, ferry_buffer_wrap_host(s->world->f.context, INT, 100, memory, &options, &wrap))) {
        done_or_refused(
            ferry_buffer_sync_to(wrap, 0, FERRY_REST, ferry_stream_place(s->stream), NULL));
        ferry_buffer_destroy(&wrap);
        ferry_status status;
        while ((status = ferry_stream_synchronize(s->stream)) == FERRY_ERROR_OUT_OF_MEMORY)
            sched_yield();
        if (in.calls > 1)
            SCENE_WRONG("released %u times", in.calls);
        /* The library calls the release callback after the last use of the memory. That may be
         * later than the return of ferry_stream_synchronize(), so the test waits for the callback.
         */
        for (unsigned i = 0; i < 20000 && in.calls == 0; i++)
            usleep(100);
        if (in.calls != 1)
            SCENE_WRONG("not released");
    }
    ferry_buffer_destroy(&in.other);
}

struct ending {
    ferry_context *context;
    unsigned calls;
};

static void
end_in_release(void *memory, void *user)
{
    struct ending *ending = user;
    (void)memory;
    ending->calls++;
    ferry_context_destroy(&ending->context);
}

/* Checks that the release callback of a context's last buffer may call ferry_context_destroy(). The
 * call may succeed or be refused, and the buffer must be released at most once. */
void
scene_release_ends(const struct scene *s)
{
    static _Thread_local int memory[100];
    struct ending ending = {0};
    ferry_context_options options = {.devices = "host"};
    ferry_wrap_options wrap_options = {.on_release = end_in_release, .user = &ending};
    ferry_buffer *wrap;
    if (!WENT(s, ferry_context_create(&options, &ending.context)))
        return;
    if (WENT(s, ferry_buffer_wrap_host(ending.context, INT, 100, memory, &wrap_options, &wrap)))
        ferry_buffer_destroy(&wrap);
    if (ending.calls > 1)
        SCENE_WRONG("released %u times", ending.calls);
    ferry_context_destroy(&ending.context);
}

/* -- shortage ---------------------------------------------------------------------------------- */

struct hoard {
    ferry_block *blocks[2];
    unsigned calls;
};

/* Callback that a pool calls when it is short of memory. Frees one of the blocks that the test has
 * allocated for this purpose. */
static bool
give_back(ferry_pool *pool, size_t needed, void *user)
{
    struct hoard *hoard = user;
    (void)pool, (void)needed;
    for (size_t i = 0; i < LENGTH(hoard->blocks); i++)
        if (hoard->blocks[i]) {
            hoard->calls++;
            return ferry_block_free(&hoard->blocks[i], NULL) == FERRY_OK;
        }
    return false;
}

static ferry_status
system_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
system_free(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
    return FERRY_OK;
}

void
scene_shortage_calls(const struct scene *s)
{
    enum { BIG = 3 << 20 };
    ferry_pool_backend backend = {.alloc = system_alloc, .free = system_free};
    ferry_pool_options options = {.limit_bytes = (size_t)8 << 20, .wait_ms = 1};
    struct hoard hoard = {0};
    ferry_pool *pool;
    ferry_block *block;
    if (!WENT(s, ferry_pool_create(s->world->f.context, 0, FERRY_MEMORY_PAGEABLE, &backend,
                                   &options, &pool)))
        return;
    (void)WENT(s, ferry_pool_on_shortage(pool, give_back, &hoard));
    for (size_t i = 0; i < LENGTH(hoard.blocks); i++)
        if (ferry_pool_allocate(pool, BIG, NULL, &hoard.blocks[i]) != FERRY_OK)
            hoard.blocks[i] = NULL;
    ferry_status status = ferry_pool_allocate(pool, BIG, NULL, &block);
    if (status == FERRY_OK) {
        if (hoard.calls == 0)
            SCENE_WRONG("nine megabytes in eight");
        (void)WENT(s, ferry_block_free(&block, NULL));
    } else
        AMONG(status, FERRY_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < LENGTH(hoard.blocks); i++)
        if (hoard.blocks[i])
            (void)WENT(s, ferry_block_free(&hoard.blocks[i], NULL));
    (void)WENT(s, ferry_pool_on_shortage(pool, NULL, NULL));
    ferry_pool_destroy(&pool);
}

/* -- streams of files -------------------------------------------------------------------------- */

/* Callback that a file pipeline calls for each chunk. Launches a kernel on the buffer of the chunk,
 * which the library permits. */
static ferry_status
work_on_chunk(const ferry_file_chunk *chunk, void *user)
{
    const struct scene *s = user;
    return launch_add(&s->world->w, chunk->stream, chunk->buffer, 0, chunk->count, 1);
}

static bool
go_on(size_t done, size_t total, void *user)
{
    const struct scene *s = user;
    if (done > total)
        SCENE_WRONG("%zu of %zu bytes", done, total);
    (void)ferry_buffer_state(s->buffer);
    return true;
}

static bool
write_ints(const char *path, size_t count)
{
    FILE *file = fopen(path, "wb");
    for (int i = 0; file && i < (int)count; i++)
        fwrite(&i, sizeof(i), 1, file);
    return file && fclose(file) == 0;
}

static void
check_ints(const char *path, size_t count, int more)
{
    FILE *file = fopen(path, "rb");
    int value;
    for (int i = 0; i < (int)count; i++)
        if (!file || fread(&value, sizeof(value), 1, file) != 1 || value != i + more)
            SCENE_WRONG("element %d of the streamed file is not %d", i, i + more);
    fclose(file);
}

void
scene_stream_file(const struct scene *s)
{
    enum { COUNT = 3000 };
    static _Atomic unsigned number;
    char in[64], out[64];
    unsigned mine = number++;
    snprintf(in, sizeof(in), "/tmp/ferry-scene-%d-%u", (int)getpid(), mine);
    snprintf(out, sizeof(out), "/tmp/ferry-scene-%d-%u.out", (int)getpid(), mine);
    ferry_file_stats stats = {0};
    ferry_file_pipeline_options options = {.input = in,
                                           .output = s->flags & 1 ? in : out,
                                           .element = INT,
                                           .work = work_on_chunk,
                                           .keep_going = go_on,
                                           .user = (void *)(uintptr_t)s,
                                           .stream = s->stream,
                                           .chunk_bytes = 1024 + 512 * (size_t)(s->flags & 7),
                                           .chunk_count = 2 + s->flags % 3,
                                           .stats = &stats};
    if (write_ints(in, COUNT) && WENT(s, ferry_file_pipeline(s->world->f.context, &options)))
        check_ints(options.output, COUNT, 1);
    unlink(in);
    unlink(out);
}
