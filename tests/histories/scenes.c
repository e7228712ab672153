/* SPDX-License-Identifier: MIT */
#include "tests/histories/scenes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <ferry/generated.h>

#include "tests/support/code.h"

void
scene_wrong(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    print_and_abort(format, arguments);
}

bool
scene_went(const struct scene *s, ferry_status status, const char *call, const char *file, int line)
{
    bool may_be_short = s->world->setup.memory > 0;
    if (status != FERRY_OK && !(status == FERRY_ERROR_OUT_OF_MEMORY && may_be_short))
        scene_wrong(file, line, "%s is %s: %s", call, ferry_status_name(status),
                    ferry_last_error());
    return status == FERRY_OK;
}

void
scene_among(ferry_status status, const ferry_status *list, const char *file, int line)
{
    while (*list != FERRY_OK && *list != status)
        list++;
    if (status != *list)
        scene_wrong(file, line, "%s: %s", ferry_status_name(status), ferry_last_error());
}

size_t
resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* -- a kernel with arguments of every kind ----------------------------------------------------- */

struct small {
    int first, check;
};

struct large {
    int values[20];
};

static ferry_status
refuse(const ferry_call *call, const char *what)
{
    ferry_call_fail(call, what);
    return FERRY_ERROR_INVALID_ARGUMENT;
}

static ferry_status
count_body(const ferry_call *call, void *user)
{
    size_t count, bytes;
    int *out = ferry_call_array(call, INT, 0, &count);
    const struct small *small = ferry_call_value(call, NULL, 2, &bytes);
    const struct large *large = ferry_call_value(call, NULL, 3, NULL);
    const int *step = ferry_call_value(call, INT, 4, NULL);
    (void)user;
    if (count != ferry_call_size(call, 1) || bytes != sizeof(*small) ||
        small->check != ~small->first || large->values[19] != small->first)
        return refuse(call, "an argument has not come as it was given");
    if (ferry_call_array(call, DOUBLE, 0, NULL) || ferry_call_value(call, NULL, 9, NULL) ||
        ferry_call_grid(call).threads[0] != 64)
        return refuse(call, "an argument that there is not, or another grid");
    for (size_t i = 0; i < count; i++)
        out[i] = small->first + *step * (int)i;
    return FERRY_OK;
}

ferry_status
launch_counting(ferry_context *context, ferry_stream *stream, ferry_buffer *out, size_t offset,
                size_t count, int first)
{
    static const int one = 1;
    ferry_parameter parameters[] = {{.element = INT, .access = FERRY_OVERWRITE},
                                    {.element = ferry_size_element()},
                                    {.element = NULL},
                                    {.element = NULL},
                                    {.element = INT}};
    ferry_kernel_source source = {.name = "counting",
                                  .host_function = count_body,
                                  .parameters = parameters,
                                  .parameter_count = LENGTH(parameters)};
    struct small small = {first, ~first};
    struct large large = {.values = {[19] = first}};
    ferry_argument arguments[] = {
        ferry_buffer_argument(out, INT, offset, count), ferry_size_value(count),
        ferry_struct_value(&small, sizeof(small), sizeof(int)),
        ferry_struct_value(&large, sizeof(large), sizeof(int)), ferry_element_value(INT, &one)};
    ferry_kernel *kernel;
    ferry_status status = ferry_kernel_create(context, &source, &kernel);
    if (status != FERRY_OK)
        return status;
    const size_t sizes[3] = {1, 3, SIZE_MAX}, reach[3] = {0, 1, 1};
    ferry_cells cells;
    AMONG(ferry_kernel_cells(kernel, NULL, sizes, reach, FERRY_EDGES_NEAREST, &cells),
          FERRY_ERROR_OVERFLOW, FERRY_ERROR_OVERFLOW);
    status = ferry_kernel_launch(kernel, ferry_grid_for(count, 64), stream, arguments,
                                 LENGTH(arguments));
    ferry_kernel_destroy(&kernel);
    return status;
}

static ferry_status
record_graph(work *w, ferry_stream *recorded, ferry_buffer *out, size_t offset, size_t count,
             int value, ferry_graph **graph)
{
    ferry_status status = ferry_graph_begin(recorded, NULL, graph);
    if (status == FERRY_OK)
        status = launch_fill(w, recorded, out, offset, count, value);
    if (status == FERRY_OK)
        status = launch_add(w, recorded, out, offset, count, 1);
    return status == FERRY_OK ? ferry_graph_end(*graph) : status;
}

ferry_status
launch_graph(work *w, ferry_context *context, ferry_stream *stream, ferry_buffer *out,
             size_t offset, size_t count, int value, unsigned launches)
{
    const int32_t after = value + 1;
    ferry_stream *recorded;
    ferry_graph *graph = NULL;
    ferry_status status = ferry_stream_create(context, ferry_stream_place(stream), &recorded);
    if (status != FERRY_OK)
        return status;
    status = record_graph(w, recorded, out, offset, count, value, &graph);
    for (unsigned i = 0; i < launches && status == FERRY_OK; i++) {
        if (i % 2)
            status = ferry_buffer_fill(out, INT, offset, count, &after, NULL);
        if (status == FERRY_OK)
            status = ferry_graph_launch(graph, stream);
    }
    ferry_graph_destroy(&graph);
    ferry_stream_destroy(&recorded);
    return status;
}

/* -- what may be asked ------------------------------------------------------------------------- */

static void
ask_place(const struct scene *s, int place)
{
    ferry_place_info info;
    ferry_memory_info memory;
    if (!WENT(s, ferry_context_get_place_info(s->world->f.context, place, &info)) || !info.kind ||
        !info.name)
        SCENE_WRONG("place %d has no kind", place);
    if (WENT(s, ferry_context_get_memory_info(s->world->f.context, place, &memory)) &&
        memory.free + memory.used != memory.total)
        SCENE_WRONG("%zu bytes free and %zu used of %zu", memory.free, memory.used, memory.total);
    (void)ferry_buffer_is_current(s->buffer, place);
    (void)ferry_context_stream(s->world->f.context, place);
}

static void
ask_element(const struct scene *s)
{
    const ferry_element *interned = NULL, *parsed = NULL;
    char text[16];
    if (!ferry_element_equal(ferry_element_scalar(FERRY_KIND_INT, 32), INT) ||
        ferry_element_text(INT, FERRY_TEXT_BUFFER, text, sizeof(text)) == 0)
        SCENE_WRONG("ints have no name");
    if (!WENT(s, ferry_element_intern(INT, &interned)) ||
        !WENT(s, ferry_element_parse(FERRY_TEXT_BUFFER, text, &parsed)))
        return;
    if (!ferry_element_equal(interned, INT) || !ferry_element_equal(parsed, INT))
        SCENE_WRONG("\"%s\" names another element", text);
}

void
scene_ask(const struct scene *s)
{
    ferry_buffer *raw, *found;
    ferry_context *context = s->world->f.context;
    if (!WENT(s, ferry_buffer_from_raw(s->buffer, INT, &raw)) || raw != s->buffer)
        SCENE_WRONG("the same element gives another handle");
    if (ferry_buffer_from_raw(s->buffer, DOUBLE, &raw) != FERRY_ERROR_WRONG_TYPE)
        SCENE_WRONG("ints as doubles");
    if (ferry_buffer_context(s->buffer) != context ||
        !ferry_element_equal(ferry_buffer_element(s->buffer), INT))
        SCENE_WRONG("another context or element");
    if (!s->racing && ferry_buffer_bytes(s->buffer) != ferry_buffer_count(s->buffer) * sizeof(int))
        SCENE_WRONG("%zu bytes of %zu elements", ferry_buffer_bytes(s->buffer),
                    ferry_buffer_count(s->buffer));
    if (strcmp(ferry_state_name(ferry_buffer_state(s->buffer)), "") == 0)
        SCENE_WRONG("a state without a name");
    (void)ferry_buffer_is_page_locked(s->buffer);
    ask_element(s);
    for (int place = 0; place <= ferry_context_place_count(context); place++)
        ask_place(s, place);
    ferry_status status = ferry_context_find(context, "subject", &found);
    if (status == FERRY_OK)
        ferry_buffer_destroy(&found);
    else
        AMONG(status, FERRY_ERROR_INVALID_ARGUMENT);
    if (ferry_context_find(context, "no such buffer", &found) != FERRY_ERROR_INVALID_ARGUMENT)
        SCENE_WRONG("found what there is not");
}

struct walked {
    const struct scene *scene;
    size_t buffers, blocks;
};

/* Callback for each buffer of a context. It calls functions of the library that the walk over the
 * buffers must allow. */
static bool
visit_buffer(const ferry_buffer_info *info, void *user)
{
    struct walked *walked = user;
    char text[64];
    walked->buffers++;
    if (info->bytes != info->count * info->element->bytes)
        SCENE_WRONG("a walk tells of %zu elements and %zu bytes", info->count, info->bytes);
    (void)ferry_buffer_describe(walked->scene->buffer, text, sizeof(text));
    (void)ferry_buffer_state(walked->scene->buffer);
    return walked->buffers < 20;
}

static bool
visit_block(const ferry_block_info *block, void *user)
{
    struct walked *walked = user;
    walked->blocks++;
    if (block->requested_bytes > block->bytes)
        SCENE_WRONG("a block of %zu bytes, of which %zu were asked for", block->bytes,
                    block->requested_bytes);
    return walked->blocks < 50;
}

void
scene_walk(const struct scene *s)
{
    struct walked walked = {.scene = s};
    char text[300];
    ferry_pool *pool;
    if (WENT(s, ferry_context_for_each_buffer(s->world->f.context, visit_buffer, &walked)) &&
        walked.buffers == 0)
        SCENE_WRONG("a walk that finds no buffer");
    (void)ferry_context_describe(s->world->f.context, text, sizeof(text));
    if (WENT(s, ferry_context_pool(s->world->f.context, ferry_stream_place(s->stream),
                                   FERRY_MEMORY_DEVICE, &pool)))
        (void)WENT(s, ferry_pool_for_each_block(pool, visit_block, &walked));
}

/* -- contexts ---------------------------------------------------------------------------------- */

/* Creates a second context, and checks that a call with objects of two contexts fails. In some
 * variants the context ends before its buffer is destroyed. A call on this buffer must then fail.
 */
void
scene_context(const struct scene *s)
{
    ferry_context_options options = {.devices = s->flags & 1 ? "host" : "emulated"};
    ferry_context *context, *shared;
    ferry_buffer *buffer;
    if (!WENT(s, ferry_context_create(&options, &context)))
        return;
    if (WENT(s, ferry_buffer_create_from(context, INT, 1, &(int){7}, NULL, &buffer))) {
        int value = 0;
        AMONG(ferry_buffer_copy(buffer, INT, 0, s->buffer, 0, 0, NULL), FERRY_ERROR_WRONG_CONTEXT);
        if (WENT(s, ferry_buffer_prefetch(buffer, 0, 1, 1, NULL)) &&
            WENT(s, ferry_buffer_copy_to(buffer, INT, 0, 1, &value, NULL)) && value != 7)
            SCENE_WRONG("%d instead of 7", value);
        if (s->flags & 2)
            ferry_buffer_destroy(&buffer);
    }
    ferry_context *owner = s->flags & 4 ? ferry_context_retain(context) : NULL,
                  *moment = ferry_context_retain(s->world->f.context);
    ferry_context_destroy(&moment);
    ferry_context_destroy(&context);
    if (owner && !(s->flags & 2))
        (void)WENT(s, ferry_buffer_fill(buffer, INT, 0, 1, &(int){1}, NULL));
    ferry_context_destroy(&owner);
    if (!(s->flags & 2)) {
        if (ferry_buffer_fill(buffer, INT, 0, 1, &(int){1}, NULL) != FERRY_ERROR_INVALID_STATE)
            SCENE_WRONG("a buffer is filled without its context");
        ferry_buffer_destroy(&buffer);
    }
    if (s->flags % 8 == 4 && ferry_context_shared(&shared) == FERRY_OK)
        ferry_context_destroy(&shared);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void
use_block(const struct scene *s, ferry_pool *pool, ferry_block *block, size_t bytes)
{
    if (ferry_block_bytes(block) < bytes || (bytes > 0) != (ferry_block_pointer(block) != NULL))
        SCENE_WRONG("a block of %zu bytes instead of %zu", ferry_block_bytes(block), bytes);
    (void)pool;
    (void)WENT(s, ferry_block_label(block, "held by a history"));
    if (s->flags & 1)
        queue_fill(&s->world->f, s->stream, ferry_block_pointer(block), 0x77777777, bytes / 4);
    (void)WENT(s, ferry_block_free(&block, s->stream));
}

void
scene_pool(const struct scene *s)
{
    ferry_pool *pool;
    ferry_block *block;
    ferry_pool_stats stats;
    size_t alignment = (size_t)1 << (s->flags % 13), bytes = 64 + s->count * 4;
    if (!WENT(s, ferry_context_pool(s->world->f.context, ferry_stream_place(s->stream),
                                    FERRY_MEMORY_DEVICE, &pool)))
        return;
    if (WENT(s, ferry_pool_allocate_aligned(pool, bytes, alignment, s->stream, &block))) {
        if ((uintptr_t)ferry_block_pointer(block) % alignment != 0)
            SCENE_WRONG("a block at %p is not aligned to %zu", ferry_block_pointer(block),
                        alignment);
        use_block(s, pool, block, bytes);
    }
    if (s->flags % 4 == 2)
        (void)WENT(s, ferry_pool_trim_older(pool, s->flags / 4));
    if (WENT(s, ferry_pool_get_stats(pool, &stats)) && stats.requested_bytes > stats.live_bytes &&
        s->world->setup.players == 1)
        SCENE_WRONG("%llu bytes asked for in %llu", (unsigned long long)stats.requested_bytes,
                    (unsigned long long)stats.live_bytes);
    ferry_pool_class_stats class_stats;
    if (WENT(s, ferry_pool_get_class_stats(pool, (int)(s->count % FERRY_POOL_CLASS_COUNT),
                                           &class_stats)) &&
        class_stats.hits > class_stats.allocations && s->world->setup.players == 1)
        SCENE_WRONG("%llu hits of %llu allocations", (unsigned long long)class_stats.hits,
                    (unsigned long long)class_stats.allocations);
    if (s->flags % 8 == 3)
        (void)WENT(s, ferry_context_reset_stats(s->world->f.context));
    if (s->flags % 8 == 5)
        (void)WENT(s, ferry_context_snapshot(s->world->f.context, "/dev/null"));
}

/* Changes the limit of a pool. Does nothing in a history without a memory limit, because its checks
 * accept no failed allocation. */
void
scene_pool_limit(const struct scene *s)
{
    ferry_pool *pool;
    ferry_place_info info;
    int place = ferry_stream_place(s->stream);
    if (!WENT(s, ferry_context_get_place_info(s->world->f.context, place, &info)))
        return;
    /* A coherent place, such as the host, may hold the only replicas of all buffers. So its limit
     * is larger. */
    size_t memory = info.coherent ? s->world->setup.memory * 64 : s->world->setup.memory;
    size_t limits[] = {memory, memory / 2, memory * 4, memory};
    ferry_pool_options options = {.limit_bytes = limits[s->flags % 4],
                                  .wait_ms = s->flags & 8 ? 1 : 0,
                                  .high_water_bytes = s->flags & 16 ? memory / 4 : 0};
    if (memory == 0 ||
        !WENT(s, ferry_context_pool(s->world->f.context, place, FERRY_MEMORY_DEVICE, &pool)))
        return;
    s->world->unlimited = true;
    (void)WENT(s, ferry_pool_configure(pool, &options));
}

static _Atomic int64_t own_bytes;

static ferry_status
own_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    own_bytes += *out ? (int64_t)bytes : 0;
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
own_free(void *user, void *memory, size_t bytes)
{
    (void)user;
    own_bytes -= (int64_t)bytes;
    free(memory);
    return FERRY_OK;
}

/* Creates and uses a pool whose memory comes from an allocator of the test. */
void
scene_own_pool(const struct scene *s)
{
    ferry_pool_backend backend = {.alloc = own_alloc, .free = own_free};
    ferry_pool_options options = {.limit_bytes = (size_t)4 << 20};
    ferry_pool *pool;
    ferry_block *blocks[3];
    size_t taken = 0;
    if (!WENT(s, ferry_pool_create(s->world->f.context, 0, FERRY_MEMORY_PAGEABLE, &backend,
                                   &options, &pool)))
        return;
    for (size_t i = 0; i < LENGTH(blocks); i++, taken++)
        if (!WENT(s, ferry_pool_allocate(pool, 1000 << i, NULL, &blocks[i])))
            break;
    for (size_t i = 0; i < taken; i++) {
        memset(ferry_block_pointer(blocks[i]), 0x5a,
               ferry_block_bytes(blocks[i]) > 0 ? 1000u << i : 0);
        (void)WENT(s, ferry_block_free(&blocks[i], NULL));
    }
    ferry_status status = ferry_pool_compact(pool, NULL);
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_BUSY, FERRY_ERROR_OUT_OF_MEMORY);
    (void)ferry_pool_trim(pool, 0);
    ferry_pool_destroy(&pool);
    if (pool)
        SCENE_WRONG("the pool is still there");
}

/* -- buffers of other kinds -------------------------------------------------------------------- */

void
scene_managed(const struct scene *s)
{
    ferry_buffer_options options = {.memory = FERRY_MEMORY_MANAGED};
    ferry_buffer *buffer;
    int values[40], place = ferry_stream_place(s->stream);
    ferry_status status =
        ferry_buffer_create(s->world->f.context, INT, LENGTH(values), &options, &buffer);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return;
    if (!WENT(s, status))
        return;
    status = ferry_buffer_advise(buffer, 0, FERRY_REST, place, FERRY_ADVISE_READ_MOSTLY);
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_UNSUPPORTED, FERRY_ERROR_OUT_OF_MEMORY);
    status = ferry_buffer_advise(buffer, 3, 20, 0, FERRY_ADVISE_PREFERRED_LOCATION);
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_UNSUPPORTED, FERRY_ERROR_OUT_OF_MEMORY);
    if (WENT(s, launch_fill(&s->world->w, s->stream, buffer, 0, LENGTH(values), 9))) {
        status = ferry_buffer_prefetch(buffer, 0, LENGTH(values), 0, s->stream);
        if (status != FERRY_OK)
            AMONG(status, FERRY_ERROR_UNSUPPORTED, FERRY_ERROR_OUT_OF_MEMORY);
        if (WENT(s, ferry_buffer_copy_to(buffer, INT, 0, LENGTH(values), values, NULL)))
            for (size_t i = 0; i < LENGTH(values); i++)
                if (values[i] != 9)
                    SCENE_WRONG("managed element %zu is %d instead of 9", i, values[i]);
    }
    ferry_buffer_destroy(&buffer);
}

/* Wraps the native stream of a ferry_stream as a second ferry_stream. Checks that work on both
 * ferry_streams runs in the order in which it was queued. */
void
scene_wrapped_stream(const struct scene *s)
{
    ferry_stream *again;
    ferry_buffer *buffer;
    int values[30], place = ferry_stream_place(s->stream);
    void *native = ferry_stream_native(s->stream);
    ferry_status status = ferry_stream_wrap(s->world->f.context, place, native, &again);
    if (status != FERRY_OK) {
        AMONG(status, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_UNSUPPORTED,
              FERRY_ERROR_OUT_OF_MEMORY);
        return;
    }
    if (ferry_stream_place(again) != place ||
        (s->flags & 8 && ferry_stream_native(again) != native))
        SCENE_WRONG("the wrapped stream is another");
    if (WENT(s, ferry_buffer_create(s->world->f.context, INT, LENGTH(values), NULL, &buffer))) {
        bool filled = WENT(s, launch_fill(&s->world->w, s->stream, buffer, 0, LENGTH(values), 1)) &&
                      WENT(s, launch_add(&s->world->w, again, buffer, 0, LENGTH(values), 2));
        if (s->flags & 1)
            ferry_stream_destroy(&again);
        if (filled && WENT(s, ferry_buffer_copy_to(buffer, INT, 0, LENGTH(values), values, NULL)) &&
            (values[0] != 3 || values[29] != 3))
            SCENE_WRONG("%d instead of 3", values[0]);
        ferry_buffer_destroy(&buffer);
    }
    ferry_stream_destroy(&again);
}

void
scene_register(const struct scene *s)
{
    enum { BYTES = 8192 };
    static _Thread_local _Alignas(4096) unsigned char memory[BYTES];
    int values[10] = {0};
    ferry_buffer *buffer;
    ferry_status status = ferry_context_register_host(s->world->f.context, memory, BYTES);
    if (status != FERRY_OK) {
        AMONG(status, FERRY_ERROR_UNSUPPORTED, FERRY_ERROR_OUT_OF_MEMORY);
        return;
    }
    if (ferry_context_register_host(s->world->f.context, memory + 100, 100) != FERRY_ERROR_CONFLICT)
        SCENE_WRONG("registered twice");
    for (int i = 0; i < 10; i++)
        memcpy(memory + 4 * i, &i, sizeof(i));
    if (WENT(s,
             ferry_buffer_wrap_host(s->world->f.context, INT, BYTES / 4, memory, NULL, &buffer))) {
        (void)WENT(s, launch_add(&s->world->w, s->stream, buffer, 0, 10, 5));
        while ((status = ferry_buffer_unwrap(&buffer, NULL)) == FERRY_ERROR_OUT_OF_MEMORY)
            sched_yield();
        (void)WENT(s, status);
        memcpy(values, memory, sizeof(values));
    }
    while ((status = ferry_context_unregister_host(s->world->f.context, memory)) ==
           FERRY_ERROR_BUSY)
        sched_yield();
    (void)WENT(s, status);
    if (values[9] != 9 && values[9] != 14 && values[9] != 0)
        SCENE_WRONG("%d instead of 14", values[9]);
}

static void
use_read_only(const struct scene *s, ferry_buffer *buffer, size_t count)
{
    int values[512], place = ferry_stream_place(s->stream);
    ferry_scope scope;
    void *out;
    AMONG(ferry_buffer_fill(buffer, INT, 0, 1, &(int){1}, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    AMONG(ferry_buffer_open_host(buffer, INT, FERRY_OVERWRITE, 0, 1, &scope, &out),
          FERRY_ERROR_INVALID_ARGUMENT);
    if (s->flags & 1)
        (void)WENT(s, ferry_buffer_sync_to(buffer, 0, FERRY_REST, place, NULL));
    if (s->flags & 2) {
        ferry_status status = ferry_buffer_invalidate(buffer, 0, FERRY_REST, 0);
        if (status != FERRY_OK)
            AMONG(status, FERRY_ERROR_INVALID_ARGUMENT, FERRY_ERROR_INVALID_STATE);
    }
    if (s->flags & 4)
        AMONG(ferry_buffer_evict(buffer, 0), FERRY_ERROR_INVALID_STATE,
              FERRY_ERROR_INVALID_ARGUMENT);
    if (s->flags & 8) {
        ferry_status status = ferry_buffer_discard(buffer, 0, 1);
        AMONG(status, FERRY_ERROR_INVALID_ARGUMENT);
    }
    if (WENT(s, ferry_buffer_open_host(buffer, INT, FERRY_READ, 0, count, &scope, &out))) {
        if (((int *)out)[count - 1] != (int)count - 1)
            SCENE_WRONG("%d instead of %zu", ((int *)out)[count - 1], count - 1);
        (void)WENT(s, ferry_scope_close(&scope));
    }
    if (WENT(s, ferry_buffer_copy_to(buffer, INT, 0, count, values, NULL)) &&
        values[count - 1] != (int)count - 1)
        SCENE_WRONG("%d instead of %zu", values[count - 1], count - 1);
}

/* Wraps read-only pages as a buffer. If the library writes to these pages, a signal ends the
 * process. */
void
scene_read_only(const struct scene *s)
{
    enum { COUNT = 512, BYTES = 4096 };
    int *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t first = s->flags / 16;
    ferry_wrap_options options = {
        .read_only = true, .name = "read only", .release_on = s->flags & 32 ? s->stream : NULL};
    ferry_buffer *buffer;
    if (memory == MAP_FAILED)
        return;
    for (int i = 0; i < COUNT; i++)
        memory[first + (size_t)i] = i;
    mprotect(memory, BYTES, PROT_READ);
    if (WENT(s, ferry_buffer_wrap_host(s->world->f.context, INT, COUNT, memory + first, &options,
                                       &buffer))) {
        use_read_only(s, buffer, COUNT);
        if (s->flags & 16) {
            (void)WENT(s, ferry_buffer_unwrap(&buffer, NULL));
        } else if (s->flags & 4) {
            mprotect(memory, BYTES, PROT_NONE);
            (void)WENT(s, ferry_buffer_abandon(&buffer));
        }
        ferry_buffer_destroy(&buffer);
    }
    munmap(memory, BYTES);
}

/* Wraps bytes at an odd address, or ints at an address that is a multiple of a mebibyte. The
 * alignment of the memory must not make the replica on the device much larger than the wrapped
 * memory. */
void
scene_odd_wrap(const struct scene *s)
{
    enum { MEGABYTE = 1 << 20, BYTES = 1024 };
    unsigned char *room = aligned_alloc(MEGABYTE, MEGABYTE);
    size_t shift = s->flags & 1 ? s->flags : 0;
    ferry_element const *element = s->flags & 1 ? BYTE : INT;
    ferry_buffer *buffer;
    ferry_buffer_info info;
    if (!room)
        return;
    memset(room, 1, 2 * BYTES);
    if (WENT(s, ferry_buffer_wrap_host(s->world->f.context, element, BYTES / element->bytes,
                                       room + shift, NULL, &buffer))) {
        int place = ferry_stream_place(s->stream);
        if (WENT(s, ferry_buffer_sync_to(buffer, 0, FERRY_REST, place, NULL)) &&
            WENT(s, ferry_buffer_get_info(buffer, &info)) && info.allocated_bytes > 64 * BYTES)
            SCENE_WRONG("a wrap of %d bytes takes %zu", BYTES, info.allocated_bytes);
        ferry_status status;
        while ((status = ferry_buffer_unwrap(&buffer, s->flags & 2 ? s->stream : NULL)) ==
               FERRY_ERROR_OUT_OF_MEMORY)
            sched_yield();
        (void)WENT(s, status);
        (void)WENT(s, ferry_stream_synchronize(s->stream));
    }
    for (size_t i = 0; i < 2 * BYTES; i++)
        if (room[i] != 1)
            SCENE_WRONG("byte %zu of the wrapped memory is %d", i, room[i]);
    free(room);
}

/* Prefetches a range of the buffer to the place of a stream. */
void
scene_copy_prefetched(const struct scene *s)
{
    int place = ferry_stream_place(s->stream);
    ferry_status status = ferry_buffer_prefetch(s->buffer, s->offset, s->count, place, s->stream);
    if (status == FERRY_ERROR_OUT_OF_RANGE && s->racing)
        return;
    (void)WENT(s, status);
}

/* Queries the folder of the cache of compiled kernels. In one variant, compiles a CUDA source
 * without a device. */
void
scene_cache(const struct scene *s)
{
    char path[4096];
    ferry_kernel_source source = {.name = "nothing",
                                  CUDA_SOURCE("extern \"C\" __global__ void nothing() {}")};
    AMONG(ferry_kernel_cache_path(path, 1), FERRY_ERROR_OUT_OF_RANGE, FERRY_ERROR_UNSUPPORTED);
    if (ferry_kernel_cache_path(path, sizeof(path)) == FERRY_OK && path[0] != '/')
        SCENE_WRONG("the cache is at %s", path);
    ferry_status status = s->flags == 1 ? ferry_kernel_check(&source, NULL) : FERRY_OK;
    if (status != FERRY_OK)
        AMONG(status, FERRY_ERROR_UNSUPPORTED, FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_COMPILE);
}
