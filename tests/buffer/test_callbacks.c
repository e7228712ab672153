/* SPDX-License-Identifier: MIT */
/*
 * Checks callbacks.txt, the table of what each public function does inside the two kinds of
 * callbacks, and with it the section "Callbacks" of <ferry/status.h>. From inside every callback,
 * the test calls every public function. It uses the buffer of the surrounding call, which invoked
 * the callback, and a different buffer. Each call must have the result of the function's row, each
 * row must be needed, and no function may lack one. No call may hang, crash or leak, and the
 * surrounding call must continue. With the argument --write, the test writes the table anew.
 */
#include "tests/buffer/files.h"
#include "tests/buffer/support.h"

#include <ctype.h>
#include <glob.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <ferry/generated.h>

#include "src/base/sanitizer.h"
#include "tests/support/code.h"
#include "tests/support/copies.h"
#include "tests/support/exchange.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

#define COUNT       4096
#define BYTES       (COUNT * sizeof(int))
#define POOL_BYTES  ((size_t)4 << 20)
#define SHORT_BYTES (32 << 20) /* more than the device has in some cases */

/* Kinds of callbacks. In those of a context that ends, no result is expected. */
enum kind { WATCHING, WORKING, ENDING };

/* What became of a call inside a callback: it was made, also if it failed for another reason; a
 * watching callback may not make it; or the surrounding call, or one inside a callback, is in its
 * way. */
enum outcome { MADE, FORBIDDEN, IN_THE_WAY };

/* The row of a public function in the table: what calls of it may become in each kind of callback,
 * and what they became, as sets of outcomes. */
struct row {
    char name[64];
    unsigned may[2], seen[2];
};

struct world {
    ferry_context *context;
    int place; /* a device's place, or 0 for the host */
    ferry_stream *stream;
    ferry_buffer *same, *other; /* the outer call works on `same` */
    ferry_buffer **target;      /* `same` or `other` */
    /* `wrap` is a buffer for functions that unwrap, and `spare` a buffer for functions that
     * destroy. */
    ferry_buffer *wrap, *spare;
    ferry_buffer *made; /* created by the call */
    /* Open on `spare`. Another stream has written other bytes since `late_scope` was opened, so
     * that closing it is not a hit. */
    ferry_scope host_scope, device_scope, late_scope;
    ferry_scope made_scope;
    ferry_lease *lease, *device_lease; /* on `spare`, in the cases of leases */
    ferry_lease *made_lease;
    ferry_stream *own_stream, *made_stream;
    ferry_event *event, *timed, *job, *made_event;
    ferry_kernel *kernel, *made_kernel;
    ferry_graph *graph, *open_graph; /* in the cases of graphs; `open_graph` is being recorded */
    ferry_graph *made_graph;
    ferry_stream *graph_stream, *recorded_stream;
    copy_list *batch;
    ferry_pool *pool, *own_pool, *spare_pool, *made_pool;
    ferry_block *block, *made_block;
    ferry_context *made_context;
    bool registered;
    const struct callback *callback;
    const struct entry *entry;
    bool ran;
    ferry_status status;
    char message[512];
    unsigned errors;
    char error[512];
};

struct callback {
    const char *name, *said;
    enum kind kind;
    bool (*run)(struct world *w); /* makes the library call the callback; returns false if the
                                     device under test never calls it */
};

/* A case of a public function. */
struct entry {
    const char *name, *function;
    ferry_status (*call)(struct world *w);
};

static struct entry entries[256];
static size_t entry_count;

static void
add_entry(const char *name, const char *function, ferry_status (*call)(struct world *w))
{
    entries[entry_count++] = (struct entry){name, function, call};
}

static struct world *world; /* the world of the running case */

static int memory[COUNT], more[COUNT];
static char outside[1 << 16];

/* -- the functions ----------------------------------------------------------------------------- */

static ferry_conversion from_float, from_int;

#define B (*w->target)
/* Defines a case of the public function `function`, and adds it to the entries. */
#define ALSO(function, name, ...)                                                                  \
    static ferry_status do_##name(struct world *w)                                                 \
    {                                                                                              \
        (void)w;                                                                                   \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        add_entry(#name, #function, do_##name);                                                    \
    }
#define DO(name, ...)     ALSO(name, name, __VA_ARGS__)
#define RETURN(name, ...) DO(name, return name(__VA_ARGS__);)
#define USE(name, ...)    DO(name, (void)name(__VA_ARGS__); return FERRY_OK;)
/* Frees a tensor that the import refused. */
#define IMPORT(name, tensor, ...)                                                                  \
    DO(name, __typeof__(tensor) made = (tensor); ferry_status status = name(__VA_ARGS__);          \
       if (status != FERRY_OK) exchange_free(made); return status;)
/* Defines the case of a function that destroys a handle. A refused call must leave the handle
 * unchanged, so the handle shows whether the call was refused. */
#define LEFT(handle)                                                                               \
    (!(handle)                                           ? FERRY_OK                                \
     : strstr(ferry_last_error(), "may not do this; do") ? FERRY_ERROR_INVALID_STATE               \
                                                         : FERRY_ERROR_BUSY)
#define END(name, handle) DO(name, name(&(handle)); return LEFT(handle);)

static bool
go_on(size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    return true;
}

static const ferry_copy_options watched = {.chunk_bytes = 1024, .keep_going = go_on};

static ferry_status
do_nothing(const ferry_call *call, void *user)
{
    (void)call, (void)user;
    return FERRY_OK;
}

static ferry_status
simple_alloc(void *user, size_t bytes, void **out)
{
    (void)user;
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *out ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
}

static ferry_status
simple_free(void *user, void *freed, size_t bytes)
{
    (void)user, (void)bytes;
    free(freed);
    return FERRY_OK;
}

static bool
visit_buffer(const ferry_buffer_info *info, void *user)
{
    (void)info, (void)user;
    return true;
}

static bool
visit_block(const ferry_block_info *info, void *user)
{
    (void)info, (void)user;
    return true;
}

static ferry_status
do_work(const ferry_file_chunk *chunk, void *user)
{
    (void)chunk, (void)user;
    return FERRY_OK;
}

static ferry_buffer **
wrapped(struct world *w)
{
    return w->target == &w->same ? &w->same : &w->wrap;
}

static ferry_argument
whole(struct world *w)
{
    return ferry_argument_with(ferry_buffer_argument(B, INT, 0, FERRY_REST), FERRY_UPDATE);
}

USE(ferry_status_name, FERRY_OK)
USE(ferry_last_error, )
USE(ferry_error_index, )
USE(ferry_version, )
USE(ferry_state_name, FERRY_STATE_MIXED)
USE(ferry_element_identity, INT)
USE(ferry_element_equal, INT, FLOAT)
USE(ferry_size_element, )
USE(ferry_element_scalar, FERRY_KIND_FLOAT, 32)
USE(ferry_element_text, INT, FERRY_TEXT_BUFFER, NULL, 0)
DO(ferry_element_parse, const ferry_element *out;
   return ferry_element_parse(FERRY_TEXT_BUFFER, "T{f:called:}", &out);)
DO(ferry_element_intern, const ferry_element *out; return ferry_element_intern(INT, &out);)
DO(ferry_context_exchange_device, int32_t type, id;
   return ferry_context_exchange_device(w->context, 0, &type, &id);)
USE(ferry_context_exchange_place, w->context, 1, 0)
USE(ferry_context_place_count, w->context)
USE(ferry_context_stream, w->context, 1)
USE(ferry_buffer_count, B)
USE(ferry_buffer_bytes, B)
USE(ferry_buffer_element, B)
USE(ferry_buffer_context, B)
USE(ferry_buffer_state, B)
USE(ferry_buffer_is_current, B, 0)
USE(ferry_buffer_is_page_locked, B)
USE(ferry_buffer_argument, B, INT, 0, 1)
USE(ferry_argument_with, ferry_size_value(1), FERRY_READ)
USE(ferry_element_value, INT, memory)
USE(ferry_size_value, 1)
USE(ferry_struct_value, memory, 8, 4)
USE(ferry_result_argument, INT, memory)
USE(ferry_kernel_runs_here, w->kernel, NULL)
USE(ferry_grid_for, 10, 0)
USE(ferry_block_pointer, w->block)
USE(ferry_block_bytes, w->block)
USE(ferry_stream_native, w->stream)
USE(ferry_stream_place, w->stream)
USE(ferry_conversion_failed, &from_float, 1)
USE(ferry_call_array, NULL, INT, 0, NULL)
USE(ferry_call_value, NULL, INT, 0, NULL)
USE(ferry_call_size, NULL, 0)
USE(ferry_call_grid, NULL)
USE(ferry_call_is_checked, NULL)
USE(ferry_call_element, NULL, 0, 0)
USE(ferry_call_fail, NULL, "")
DO(ferry_call_parallel, (void)!ferry_call_parallel(NULL, 1, 1, NULL, NULL); return FERRY_OK;)
DO(ferry_context_get_place_info, ferry_place_info info;
   return ferry_context_get_place_info(w->context, 0, &info);)
DO(ferry_context_get_transfer_stats, ferry_transfer_stats stats;
   return ferry_context_get_transfer_stats(w->context, &stats);)
RETURN(ferry_context_snapshot, w->context, "/dev/null")
RETURN(ferry_context_reset_stats, w->context)
DO(ferry_buffer_get_info, ferry_buffer_info info; return ferry_buffer_get_info(B, &info);)
DO(ferry_buffer_describe, char text[200];
   return ferry_buffer_describe(B, text, sizeof(text)) > 0 ? FERRY_OK : FERRY_ERROR_INVALID_STATE;)
DO(ferry_event_progress, size_t done, total; return ferry_event_progress(w->job, &done, &total);)
RETURN(ferry_event_cancel, w->job)
DO(ferry_kernel_cache_path, char path[4096];
   ferry_status status = ferry_kernel_cache_path(path, sizeof(path));
   return status == FERRY_ERROR_UNSUPPORTED ? FERRY_OK : status;)
DO(ferry_conversion_run, int to[4]; float from[4] = {1};
   return ferry_conversion_run(&from_float, to, from, 4, FERRY_CONVERT_SATURATE);)
/* Retains an additional handle and destroys it again, while other handles of the buffer still
 * exist. */
DO(ferry_buffer_retain, ferry_buffer *again = ferry_buffer_retain(w->spare);
   ferry_buffer_destroy(&again); return again ? FERRY_ERROR_INVALID_STATE : FERRY_OK;)
DO(ferry_context_retain, ferry_context *again = ferry_context_retain(w->context);
   bool retained = again == w->context; ferry_context_destroy(&again);
   return again || !retained ? FERRY_ERROR_INVALID_STATE : FERRY_OK;)

/* -- what changes or waits -- */

DO(ferry_context_create,
   return ferry_context_create(&(ferry_context_options){.devices = "host"}, &w->made_context);)
DO(ferry_context_shared, return ferry_context_shared(&w->made_context);)
DO(ferry_context_get_memory_info, ferry_memory_info info;
   return ferry_context_get_memory_info(w->context, 0, &info);)
DO(ferry_context_describe, char text[4000]; support_clear_error();
   return ferry_context_describe(w->context, text, sizeof(text)) > 0 ? FERRY_OK
                                                                     : FERRY_ERROR_INVALID_STATE;)
RETURN(ferry_context_for_each_buffer, w->context, visit_buffer, NULL)
DO(ferry_context_find, return ferry_context_find(w->context, "spare", &w->made);)
DO(ferry_context_pool, ferry_pool *pool;
   return ferry_context_pool(w->context, 0, FERRY_MEMORY_DEFAULT, &pool);)
DO(ferry_context_register_host,
   ferry_status status = ferry_context_register_host(w->context, outside, sizeof(outside));
   w->registered = status == FERRY_OK; return status;)
DO(ferry_context_unregister_host, return ferry_context_unregister_host(w->context, outside);)
RETURN(ferry_buffer_create, w->context, INT, 10, NULL, &w->made)
RETURN(ferry_buffer_create_from, w->context, INT, 10, memory, NULL, &w->made)
RETURN(ferry_buffer_wrap_host, w->context, INT, 10, more, NULL, &w->made)
RETURN(ferry_buffer_wrap_device, w->context, INT, 0, w->stream, NULL, NULL, &w->made)
IMPORT(ferry_buffer_import_dlpack, exchange_versioned(more, 10), w->context, made, NULL, &w->made)
IMPORT(ferry_buffer_import_dlpack_legacy, exchange_legacy(more, 10), w->context, made, NULL,
       &w->made)
IMPORT(ferry_buffer_import_arrow, exchange_arrow(more, 10), w->context, made, &exchange_int_schema,
       NULL, &w->made)

/* Opens a host lease, exports it by `call` and destroys it. Opening and closing the lease never
 * waits, so only the export can be refused. */
static ferry_status
export_lease(struct world *w, ferry_status (*call)(ferry_lease *lease))
{
    ferry_lease *lease;
    void *pointer;
    ferry_status status =
        ferry_lease_open(w->spare, FLOAT, &(ferry_lease_options){.access = FERRY_READ, .count = 10},
                         &lease, &pointer);
    if (status != FERRY_OK)
        return status;
    status = call(lease);
    ferry_lease_destroy(&lease);
    return status;
}

static ferry_status
export_versioned(ferry_lease *lease)
{
    struct DLManagedTensorVersioned *tensor;
    ferry_status status = ferry_lease_export_dlpack(lease, NULL, &tensor);
    if (status == FERRY_OK)
        tensor->deleter(tensor);
    return status;
}

static ferry_status
export_legacy(ferry_lease *lease)
{
    struct DLManagedTensor *tensor;
    return ferry_lease_export_dlpack_legacy(lease, NULL,
                                            &tensor); /* a READ lease cannot be exported this way */
}

static ferry_status
export_arrow(ferry_lease *lease)
{
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    ferry_status status = ferry_lease_export_arrow(lease, &array, &schema);
    if (status == FERRY_OK)
        array.array.release(&array.array), schema.release(&schema);
    return status;
}

RETURN(ferry_buffer_unwrap, wrapped(w), NULL)
RETURN(ferry_buffer_abandon, wrapped(w))
RETURN(ferry_buffer_export, B, &(ferry_share){{0}})
RETURN(ferry_buffer_import, w->context, INT, &(ferry_share){{0}}, NULL, &w->made)
RETURN(ferry_buffer_acquire_shared, B, NULL)
RETURN(ferry_buffer_release_shared, B, NULL)
DO(ferry_lease_export_dlpack, return export_lease(w, export_versioned);)
DO(ferry_lease_export_dlpack_legacy, return export_lease(w, export_legacy);)
DO(ferry_lease_export_arrow, return export_lease(w, export_arrow);)
RETURN(ferry_buffer_view, B, INT, 0, 10, &w->made)
RETURN(ferry_buffer_view_read_only, B, INT, 0, 10, &w->made)
RETURN(ferry_buffer_reinterpret, B, BYTE, 0, 10, &w->made)
DO(ferry_buffer_from_raw, ferry_buffer *raw; return ferry_buffer_from_raw(B, INT, &raw);)
RETURN(ferry_buffer_resize, B, 2 * COUNT)
RETURN(ferry_buffer_wait_available, B, FERRY_READ, 0)
RETURN(ferry_buffer_copy_from, B, INT, 0, COUNT, memory, NULL)
RETURN(ferry_buffer_copy_to, B, INT, 0, COUNT, more, NULL)
RETURN(ferry_buffer_copy, B, INT, 0, w->other, 0, 10, NULL)
DO(ferry_buffer_fill, int value = 1; return ferry_buffer_fill(B, INT, 0, COUNT, &value, NULL);)
RETURN(ferry_buffer_copy_from_async, B, INT, 0, COUNT, memory, NULL, &w->made_event)
RETURN(ferry_buffer_copy_to_async, B, INT, 0, COUNT, more, NULL, &w->made_event)
RETURN(ferry_buffer_copy_async, B, INT, 0, w->other, 0, 10, NULL, &w->made_event)
DO(ferry_buffer_fill_async, int value = 1;
   return ferry_buffer_fill_async(B, INT, 0, COUNT, &value, NULL, &w->made_event);)
ALSO(ferry_buffer_copy_from, copy_from_watched,
     return ferry_buffer_copy_from(B, INT, 0, COUNT, memory, &watched);)
ALSO(ferry_buffer_copy_to, copy_to_watched,
     return ferry_buffer_copy_to(B, INT, 0, COUNT, more, &watched);)
ALSO(ferry_buffer_copy, copy_watched,
     return ferry_buffer_copy(B, INT, 0, w->other, 0, 10, &watched);)
ALSO(ferry_buffer_fill, fill_watched, int value = 1;
     return ferry_buffer_fill(B, INT, 0, COUNT, &value, &watched);)
DO(ferry_copy, return copy_rows_from(B, INT, 0, 16, memory, 16, 8, 8, NULL);)
ALSO(ferry_copy, rows_to, return copy_rows_to(B, INT, 0, 16, more, 16, 8, 8, NULL);)
ALSO(ferry_copy, rows, return copy_rows(B, INT, 0, 16, w->other, 0, 16, 8, 8, NULL);)
DO(ferry_copy_async,
   return copy_rows_from_async(B, INT, 0, 16, memory, 16, 8, 8, ON(NULL), &w->made_event);)
ALSO(ferry_copy_async, rows_to_async,
     return copy_rows_to_async(B, INT, 0, 16, more, 16, 8, 8, ON(NULL), &w->made_event);)
ALSO(ferry_copy_async, rows_async,
     return copy_rows_async(B, INT, 0, 16, w->other, 0, 16, 8, 8, ON(NULL), &w->made_event);)
ALSO(ferry_copy, rows_from_watched,
     return copy_rows_from(B, INT, 0, 16, memory, 16, 8, 8, &watched);)
ALSO(ferry_copy, rows_to_watched, return copy_rows_to(B, INT, 0, 16, more, 16, 8, 8, &watched);)
ALSO(ferry_copy, rows_watched, return copy_rows(B, INT, 0, 16, w->other, 0, 16, 8, 8, &watched);)
ALSO(ferry_copy, from_converted,
     return copy_from_converted(B, &from_float, 0, COUNT, memory, FERRY_CONVERT_SATURATE, NULL);)
ALSO(ferry_copy, to_converted,
     return copy_to_converted(B, &from_int, 0, COUNT, more, FERRY_CONVERT_SATURATE, NULL);)
ALSO(ferry_copy, from_converted_watched,
     return copy_from_converted(B, &from_float, 0, COUNT, memory, FERRY_CONVERT_SATURATE,
                                &watched);)
ALSO(ferry_copy, to_converted_watched,
     return copy_to_converted(B, &from_int, 0, COUNT, more, FERRY_CONVERT_SATURATE, &watched);)
ALSO(ferry_copy, convert,
     return convert_buffer(B, &from_float, 0, w->spare, 0, 10, FERRY_CONVERT_SATURATE, NULL);)
ALSO(ferry_copy, convert_watched,
     return convert_buffer(B, &from_float, 0, w->spare, 0, 10, FERRY_CONVERT_SATURATE, &watched);)
DO(ferry_copy_converting,
   ferry_copy_region region = ferry_buffer_region_from(B, INT, 0, 10, memory);
   region.source.element = FLOAT;
   return ferry_copy_converting(&region, FERRY_CONVERT_SATURATE, NULL);)
DO(ferry_copy_converting_async,
   ferry_copy_region region = ferry_buffer_region_from(B, INT, 0, 10, memory);
   region.source.element = FLOAT;
   return ferry_copy_converting_async(&region, FERRY_CONVERT_SATURATE, NULL, &w->made_event);)
RETURN(ferry_buffer_sync_to, B, 0, FERRY_REST, 0, NULL)
ALSO(ferry_buffer_sync_to, sync_to_watched,
     return ferry_buffer_sync_to(B, 0, FERRY_REST, w->place, &watched);)
RETURN(ferry_buffer_sync_to_async, B, 0, FERRY_REST, w->place, NULL, &w->made_event)
RETURN(ferry_buffer_mark_dirty, B, 0, 1, 0, NULL)
RETURN(ferry_buffer_invalidate, B, 0, FERRY_REST, w->place)
RETURN(ferry_buffer_discard, B, 0, 1)
RETURN(ferry_buffer_reserve, B, w->place)
RETURN(ferry_buffer_evict, B, w->place)
RETURN(ferry_buffer_wait_idle, B, w->place)
DO(ferry_buffer_hold, void *pointer; ferry_status status = ferry_buffer_hold(B, 0, &pointer);
   return status == FERRY_OK ? ferry_buffer_release(B, 0) : status;)
RETURN(ferry_buffer_release, w->spare, 0)
RETURN(ferry_buffer_prefetch, B, 0, 1, 0, NULL)
RETURN(ferry_buffer_advise, B, 0, 1, 0, FERRY_ADVISE_READ_MOSTLY)
RETURN(ferry_buffer_load, B, INT, 0, COUNT, path_of("in"), 0, NULL)
RETURN(ferry_buffer_store, B, INT, 0, COUNT, path_of("out"), 0, NULL)
RETURN(ferry_buffer_load_async, B, INT, 0, COUNT, path_of("in"), 0, NULL, &w->made_event)
RETURN(ferry_buffer_store_async, B, INT, 0, COUNT, path_of("out"), 0, NULL, &w->made_event)
DO(ferry_file_pipeline, return ferry_file_pipeline(w->context, &(ferry_file_pipeline_options){
                                                                   .input = path_of("in"),
                                                                   .element = INT,
                                                                   .work = do_work,
                                                                   .stream = w->stream,
                                                                   .chunk_bytes = BYTES / 4});)
DO(ferry_buffer_open_host, void *pointer;
   ferry_status status = ferry_buffer_open_host(B, INT, FERRY_UPDATE, 0, FERRY_REST, &w->made_scope,
                                                &pointer);
   if (status == FERRY_OK)(void) ferry_scope_close(&w->made_scope); return status;)
DO(ferry_buffer_open_device, void *pointer;
   ferry_status status = ferry_buffer_open_device(B, INT, FERRY_READ, 0, FERRY_REST, w->stream,
                                                  &w->made_scope, &pointer);
   if (status == FERRY_OK)(void) ferry_scope_close(&w->made_scope); return status;)
DO(ferry_scope_open_all, ferry_argument argument = whole(w);
   ferry_status status = ferry_scope_open_all(&argument, 1, 0, NULL, &w->made_scope, NULL);
   if (status == FERRY_OK)(void) ferry_scope_close(&w->made_scope); return status;)
RETURN(ferry_scope_close, &w->host_scope)
ALSO(ferry_scope_close, close_late, return ferry_scope_close(&w->late_scope);)
RETURN(ferry_scope_close_on, &w->device_scope, w->stream)
RETURN(ferry_scope_abandon, &w->host_scope)
RETURN(ferry_scope_close_unordered, &w->device_scope)
RETURN(ferry_scope_wait, &w->device_scope)
DO(ferry_lease_open, void *pointer;
   return ferry_lease_open(B, INT, &(ferry_lease_options){.access = FERRY_READ}, &w->made_lease,
                           &pointer);)
RETURN(ferry_lease_close, w->lease)
ALSO(ferry_lease_close, close_device_lease, return ferry_lease_close(w->device_lease);)
RETURN(ferry_lease_abandon, w->lease)
DO(ferry_lease_is_open,
   return !w->lease || ferry_lease_is_open(w->lease) ? FERRY_OK : FERRY_ERROR_CONFLICT;)
DO(ferry_lease_retain, ferry_lease *again = ferry_lease_retain(w->lease);
   ferry_lease_destroy(&again); return again ? FERRY_ERROR_INVALID_STATE : FERRY_OK;)
DO(ferry_scope_close_all, ferry_scope_close_all(&w->host_scope, 1);
   return LEFT(w->host_scope.opaque);)
ALSO(ferry_scope_close_all, close_all_late, ferry_scope_close_all(&w->late_scope, 1);
     return LEFT(w->late_scope.opaque);)
RETURN(ferry_stream_create, w->context, 1, &w->made_stream)
RETURN(ferry_stream_wrap, w->context, 1, ferry_stream_native(w->own_stream), &w->made_stream)
RETURN(ferry_stream_flush, w->stream)
RETURN(ferry_stream_synchronize, w->stream)
RETURN(ferry_stream_record, w->stream, 0, &w->made_event)
RETURN(ferry_stream_wait_event, w->stream, w->job)
RETURN(ferry_event_synchronize, w->job)
DO(ferry_event_elapsed, double seconds; return ferry_event_elapsed(w->timed, w->timed, &seconds);)
DO(ferry_event_query, bool done; return ferry_event_query(w->event, &done);)
ALSO(ferry_copy, list, return copy_list_submit(w->batch, NULL);)
ALSO(ferry_copy, list_watched, return copy_list_submit(w->batch, &watched);)
ALSO(ferry_copy_async, list_async,
     return copy_list_submit_async(w->batch, ON(NULL), &w->made_event);)
DO(ferry_kernel_create, static const ferry_parameter parameter = {.access = FERRY_UPDATE};
   ferry_parameter one = parameter; one.element = INT; return ferry_kernel_create(
       w->context,
       &(ferry_kernel_source){
           .name = "made", .host_function = do_nothing, .parameters = &one, .parameter_count = 1},
       &w->made_kernel);)
DO(ferry_kernel_launch, ferry_argument argument = whole(w);
   return ferry_kernel_launch(w->kernel, ferry_grid_for(1, 1), w->stream, &argument, 1);)
RETURN(ferry_graph_begin, w->graph_stream, NULL, &w->made_graph)
RETURN(ferry_graph_end, w->open_graph)
RETURN(ferry_graph_launch, w->graph, w->stream)
RETURN(ferry_kernel_check,
       &(ferry_kernel_source){.name = "k", CUDA_SOURCE("extern \"C\" __global__ void k() {}")},
       NULL)
DO(ferry_kernel_cells, ferry_cells cells; const size_t sizes[3] = {1, 1, 1}, reach[3] = {0, 0, 0};
   return ferry_kernel_cells(w->kernel, NULL, sizes, reach, FERRY_EDGES_NONE, &cells);)
DO(ferry_pool_create, ferry_pool_backend backend = {.alloc = simple_alloc, .free = simple_free};
   return ferry_pool_create(w->context, 0, FERRY_MEMORY_DEFAULT, &backend, NULL, &w->made_pool);)
RETURN(ferry_pool_configure, w->pool, NULL)
RETURN(ferry_pool_allocate, w->pool, 5000, NULL, &w->made_block)
ALSO(ferry_pool_allocate, allocate_new,
     return ferry_pool_allocate(w->pool, 1 << 20, NULL, &w->made_block);)
RETURN(ferry_pool_allocate_aligned, w->pool, 5000, 256, NULL, &w->made_block)
ALSO(ferry_pool_allocate_aligned, allocate_aligned_new,
     return ferry_pool_allocate_aligned(w->pool, 5000, 4096, NULL, &w->made_block);)
RETURN(ferry_block_free, &w->block, NULL)
DO(ferry_pool_get_class_stats, ferry_pool_class_stats stats;
   return ferry_pool_get_class_stats(w->pool, 0, &stats);)
DO(ferry_pool_get_stats, ferry_pool_stats stats; return ferry_pool_get_stats(w->pool, &stats);)
RETURN(ferry_pool_trim, w->pool, 0)
RETURN(ferry_pool_trim_older, w->pool, 0)
RETURN(ferry_pool_compact, w->pool, NULL)
RETURN(ferry_pool_on_shortage, w->pool, NULL, NULL)
RETURN(ferry_pool_for_each_block, w->pool, visit_block, NULL)
RETURN(ferry_block_label, w->block, "label")

/* -- the same calls with nothing to do -- */

ALSO(ferry_copy, copy_nothing, return ferry_copy(NULL, 0, NULL);)
ALSO(ferry_copy_async, copy_nothing_async, return ferry_copy_async(NULL, 0, NULL, &w->made_event);)
ALSO(ferry_buffer_copy_from, copy_none, return ferry_buffer_copy_from(B, INT, 0, 0, memory, NULL);)
ALSO(ferry_buffer_copy_to_async, copy_none_async,
     return ferry_buffer_copy_to_async(B, INT, 0, 0, more, NULL, &w->made_event);)
ALSO(ferry_buffer_fill, fill_none, return ferry_buffer_fill(B, INT, 0, 0, &(int){1}, NULL);)
ALSO(ferry_buffer_sync_to, sync_none, return ferry_buffer_sync_to(B, 0, 0, w->place, NULL);)
ALSO(ferry_buffer_prefetch, prefetch_none, return ferry_buffer_prefetch(B, 0, 0, w->place, NULL);)
ALSO(ferry_buffer_mark_dirty, mark_none, return ferry_buffer_mark_dirty(B, 0, 0, 0, NULL);)
ALSO(ferry_buffer_invalidate, invalidate_none, return ferry_buffer_invalidate(B, 0, 0, w->place);)
ALSO(ferry_buffer_discard, discard_none, return ferry_buffer_discard(B, 0, 0);)
ALSO(ferry_buffer_advise, advise_none,
     return ferry_buffer_advise(B, 0, 0, 0, FERRY_ADVISE_READ_MOSTLY);)
ALSO(ferry_buffer_load, load_none, return ferry_buffer_load(B, INT, 0, 0, path_of("in"), 0, NULL);)
ALSO(ferry_buffer_resize, resize_to_same, return ferry_buffer_resize(B, ferry_buffer_count(B));)
ALSO(ferry_buffer_wait_available, wait_available_none,
     return ferry_buffer_wait_available(B, FERRY_READ, 1);)
ALSO(ferry_scope_open_all, open_none, return ferry_scope_open_all(NULL, 0, 0, NULL, NULL, NULL);)
ALSO(ferry_scope_abandon, abandon_none, ferry_scope none = {0}; return ferry_scope_abandon(&none);)
ALSO(ferry_scope_close_on, close_none_on, ferry_scope none = {0};
     return ferry_scope_close_on(&none, w->stream);)
ALSO(ferry_scope_close_unordered, close_none_unordered, ferry_scope none = {0};
     return ferry_scope_close_unordered(&none);)
ALSO(ferry_scope_wait, wait_for_none, ferry_scope none = {0}; return ferry_scope_wait(&none);)
ALSO(ferry_lease_abandon, abandon_closed, (void)ferry_lease_close(w->lease);
     return ferry_lease_abandon(w->lease);)

/* -- what ends something -- */

DO(ferry_buffer_destroy, ferry_buffer_destroy(wrapped(w)); return LEFT(*wrapped(w));)
END(ferry_lease_destroy, w->lease)
ALSO(ferry_lease_destroy, destroy_device_lease, ferry_lease_destroy(&w->device_lease);
     return LEFT(w->device_lease);)
END(ferry_event_destroy, w->event)
END(ferry_stream_destroy, w->own_stream)
END(ferry_kernel_destroy, w->kernel)
END(ferry_graph_destroy, w->graph)
END(ferry_pool_destroy, w->spare_pool)
ALSO(ferry_pool_destroy, destroy_visited_pool, ferry_pool_destroy(&w->own_pool);
     return LEFT(w->own_pool);)
END(ferry_context_destroy, w->context)

/* -- a world for each case --------------------------------------------------------------------- */

/* Makes the call under test when the callback named `callback` is invoked for the first time. Every
 * callback of this test calls this function. */
static void
call_once(struct world *w, const char *callback)
{
    if (!w || w->ran || !w->callback || strcmp(w->callback->name, callback) != 0)
        return;
    w->ran = true;
    w->status = w->entry->call(w);
    snprintf(w->message, sizeof(w->message), "%s", ferry_last_error());
}

static void
note_log(ferry_log_level level, const char *message, void *user)
{
    struct world *w = user;
    if (level == FERRY_LOG_ERROR && (strstr(message, "still alive") ||
                                     strstr(message, "still held") || strstr(message, "are lost")))
        snprintf(w->error, sizeof(w->error), "%s", message);
    call_once(w, "log");
}

static void
note_trace(const ferry_trace *trace, void *user)
{
    (void)trace;
    call_once(user, "trace");
}

static ferry_status
own_alloc(void *user, size_t bytes, void **out)
{
    call_once(user, "alloc");
    return simple_alloc(NULL, bytes, out);
}

static ferry_status
own_free(void *user, void *freed, size_t bytes)
{
    call_once(user, "free");
    return simple_free(NULL, freed, bytes);
}

static ferry_buffer *
make_filled(struct world *w, const ferry_element *element, const char *name)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(w->context, element, COUNT, &(ferry_buffer_options){.name = name},
                           &buffer));
    OK(ferry_buffer_copy_from(buffer, element, 0, COUNT, memory, NULL));
    return buffer;
}

static void
open_handles(struct world *w)
{
    void *pointer;
    static int wrapped[COUNT];
    const ferry_pool_backend own = {.alloc = own_alloc, .free = own_free, .user = w},
                             simple = {.alloc = simple_alloc, .free = simple_free};
    const ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    const ferry_kernel_source source = {.name = "nothing",
                                        .host_function = do_nothing,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    w->same = make_filled(w, INT, "same");
    w->other = make_filled(w, INT, "other");
    w->spare = make_filled(w, FLOAT, "spare");
    OK(ferry_buffer_wrap_host(w->context, INT, COUNT, wrapped, NULL, &w->wrap));
    OK(ferry_buffer_hold(w->spare, 0, &pointer));
    OK(ferry_buffer_open_device(w->spare, FLOAT, FERRY_READ, 0, 10, w->stream, &w->device_scope,
                                &pointer));
    OK(ferry_buffer_open_host(w->spare, FLOAT, FERRY_READ, 0, 10, &w->host_scope, &pointer));
    OK(ferry_stream_create(w->context, 1, &w->own_stream));
    OK(ferry_stream_create(w->context, 1, &w->graph_stream));
    OK(ferry_buffer_open_device(w->spare, FLOAT, FERRY_UPDATE, 20, 10, w->stream, &w->late_scope,
                                &pointer));
    OK(ferry_buffer_open_device(w->spare, FLOAT, FERRY_UPDATE, 40, 10, w->own_stream,
                                &w->made_scope, &pointer));
    OK(ferry_scope_close(&w->made_scope));
    OK(ferry_stream_record(w->stream, 0, &w->event));
    OK(ferry_stream_record(w->stream, FERRY_EVENT_TIMED, &w->timed));
    OK(ferry_buffer_copy_to_async(w->other, INT, 0, 10, more, ON(NULL), &w->job));
    OK(ferry_event_synchronize(w->job));
    OK(ferry_kernel_create(w->context, &source, &w->kernel));
    OK(copy_list_create(&w->batch));
    OK(copy_list_to(w->batch, w->spare, FLOAT, 0, more, 10));
    OK(ferry_context_pool(w->context, 0, FERRY_MEMORY_DEFAULT, &w->pool));
    OK(ferry_pool_create(w->context, 0, FERRY_MEMORY_DEFAULT, &own, NULL, &w->own_pool));
    OK(ferry_pool_create(w->context, 0, FERRY_MEMORY_DEFAULT, &simple, NULL, &w->spare_pool));
    for (int i = 0; i < 3; i++) { /* afterwards this thread has a free block */
        OK(ferry_pool_allocate(w->pool, 5000, NULL, &w->block));
        OK(ferry_block_free(&w->block, NULL));
    }
    OK(ferry_pool_allocate(w->pool, 5000, NULL, &w->block));
    OK(ferry_pool_allocate(w->pool, 5000, NULL, &w->made_block));
    OK(ferry_block_free(&w->made_block, NULL));
}

static void
world_open(struct world *w)
{
    *w = (struct world){.place = 1};
    const ferry_context_options options = {.log = note_log,
                                           .log_user = w,
                                           .trace = note_trace,
                                           .trace_user = w,
                                           .tuning = "staging.chunk=4K emulated.memory=64M"};
    OK(ferry_context_create(&options, &w->context));
    w->stream = ferry_context_stream(w->context, 1);
    open_handles(w);
    world = w;
}

static void
end_handles(struct world *w)
{
    ferry_lease_destroy(&w->lease);
    ferry_lease_destroy(&w->device_lease);
    ferry_lease_destroy(&w->made_lease);
    ferry_graph_destroy(&w->graph);
    ferry_graph_destroy(&w->open_graph);
    ferry_graph_destroy(&w->made_graph);
    (void)ferry_scope_close(&w->made_scope);
    (void)ferry_scope_close(&w->host_scope);
    (void)ferry_scope_close(&w->device_scope);
    (void)ferry_scope_close(&w->late_scope);
    ferry_event_destroy(&w->event);
    ferry_event_destroy(&w->timed);
    ferry_event_destroy(&w->job);
    bool done = !w->made_event || !w->context;
    while (!done)
        if (ferry_event_query(w->made_event, &done) != FERRY_OK)
            break;
    ferry_event_destroy(&w->made_event);
    copy_list_destroy(&w->batch);
    ferry_buffer_destroy(&w->made);
    ferry_buffer_destroy(&w->same);
    ferry_buffer_destroy(&w->other);
    ferry_buffer_destroy(&w->spare);
    ferry_buffer_destroy(&w->wrap);
    ferry_kernel_destroy(&w->kernel);
    ferry_kernel_destroy(&w->made_kernel);
    ferry_stream_destroy(&w->own_stream);
    ferry_stream_destroy(&w->graph_stream);
    ferry_stream_destroy(&w->recorded_stream);
    ferry_stream_destroy(&w->made_stream);
    ferry_context_destroy(&w->made_context);
}

static void
world_close(struct world *w)
{
    w->callback = NULL;
    if (w->registered)
        OK(ferry_context_unregister_host(w->context, outside));
    if (w->context) {
        OK(ferry_block_free(&w->block, NULL));
        OK(ferry_block_free(&w->made_block, NULL));
        ferry_pool_destroy(&w->made_pool);
        ferry_pool_destroy(&w->own_pool);
        ferry_pool_destroy(&w->spare_pool);
    }
    end_handles(w);
    ferry_context_destroy(&w->context);
    world = NULL;
}

/* -- the callbacks ----------------------------------------------------------------------------- */

static bool
run_log(struct world *w)
{
    ferry_pool *pool = w->pool;
    /* The context owns this pool, so destroying the pool here is logged as an error. */
    ferry_pool_destroy(&pool);
    return true;
}

static bool
run_trace(struct world *w)
{
    OK(ferry_buffer_copy_from(w->same, INT, 0, COUNT, memory, NULL));
    return true;
}

static bool
ask_copy(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    call_once(user, "keep_going of a copy");
    return true;
}

static bool
run_copy(struct world *w)
{
    OK(ferry_buffer_copy_from(
        w->same, INT, 0, COUNT, memory,
        &(ferry_copy_options){.chunk_bytes = 1024, .keep_going = ask_copy, .user = w}));
    return true;
}

static bool
ask_store(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    call_once(user, "keep_going of a store");
    return true;
}

static bool
run_store(struct world *w)
{
    void *pointer;
    ferry_scope scope;
    OK(ferry_buffer_open_device(w->same, INT, FERRY_UPDATE, 0, COUNT, w->stream, &scope, &pointer));
    OK(ferry_scope_close(&scope));
    const ferry_copy_options options = {.chunk_bytes = 1024, .keep_going = ask_store, .user = w};
    OK(ferry_buffer_store(w->same, INT, 0, COUNT, path_of("stored"), 0, &options));
    return true;
}

static bool
ask_batch(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    call_once(user, "keep_going of a batch");
    return true;
}

static bool
run_batch(struct world *w)
{
    const ferry_copy_region halves[2] = {
        ferry_buffer_region_from(w->same, INT, 0, COUNT / 2, memory),
        ferry_buffer_region_from(w->same, INT, COUNT / 2, COUNT - COUNT / 2, memory)};
    OK(ferry_copy(halves, 2,
                  &(ferry_copy_options){.chunk_bytes = 1024, .keep_going = ask_batch, .user = w}));
    return true;
}

static ferry_status
convert(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    call_once(world, "conversion");
    for (size_t i = 0; target && i < count; i++)
        ((int *)target)[i] = (int)((const float *)source)[i];
    return FERRY_OK;
}

static bool
run_conversion(struct world *w)
{
    static float floats[COUNT];
    const ferry_conversion conversion = {.from = FLOAT, .to = INT, .convert = convert};
    OK(copy_from_converted(w->same, &conversion, 0, COUNT, floats, FERRY_CONVERT_SATURATE, NULL));
    return true;
}

static ferry_status
host_body(const ferry_call *call, void *user)
{
    (void)call;
    call_once(user, "host_function");
    return FERRY_OK;
}

static bool
run_host_body(struct world *w)
{
    ferry_place_info info;
    const ferry_parameter parameter = {.element = INT, .access = FERRY_UPDATE};
    const ferry_kernel_source source = {.name = "body",
                                        .host_function = host_body,
                                        .user = w,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    const ferry_argument argument = ferry_buffer_argument(w->same, INT, 0, COUNT);
    OK(ferry_context_get_place_info(w->context, 1, &info));
    if (!(info.capabilities & FERRY_CAN_RUN_HOST_FUNCTION))
        return false;
    ferry_kernel *kernel;
    OK(ferry_kernel_create(w->context, &source, &kernel));
    OK(ferry_kernel_launch(kernel, ferry_grid_for(1, 1), w->stream, &argument, 1));
    OK(ferry_stream_synchronize(w->stream));
    ferry_kernel_destroy(&kernel);
    return true;
}

static void
on_release(void *released, void *user)
{
    (void)released;
    call_once(user, "on_release");
}

static bool
run_on_release(struct world *w)
{
    ferry_buffer *wrap;
    static int wrapped[COUNT];
    OK(ferry_buffer_wrap_host(w->context, INT, COUNT, wrapped,
                              &(ferry_wrap_options){.on_release = on_release, .user = w}, &wrap));
    ferry_buffer_destroy(&wrap);
    return true;
}

static void
on_last_release(void *released, void *user)
{
    (void)released;
    call_once(user, "on_release of a context's end");
}

static bool
run_end(struct world *w)
{
    static int wrapped[COUNT];
    ferry_buffer_destroy(&w->wrap);
    OK(ferry_buffer_wrap_host(w->context, INT, COUNT, wrapped,
                              &(ferry_wrap_options){.on_release = on_last_release, .user = w},
                              &w->wrap));
    ferry_context *context = w->context;
    ferry_context_destroy(&context);
    assert_null(context);
    if (!w->context) /* the callback's call was not refused */
        w->status = FERRY_OK;
    w->context = NULL;
    w->registered = false;
    w->error[0] = 0; /* clears the logged list of live handles, which is expected here */
    w->block = w->made_block = NULL;
    return true;
}

static bool
run_alloc(struct world *w)
{
    ferry_block *block;
    OK(ferry_pool_allocate(w->own_pool, POOL_BYTES, NULL, &block));
    OK(ferry_block_free(&block, NULL));
    return true;
}

static bool
run_free(struct world *w)
{
    run_alloc(w);
    OK(ferry_pool_trim(w->own_pool, 0));
    return true;
}

static bool
on_shortage(ferry_pool *pool, size_t needed_bytes, void *user)
{
    (void)pool, (void)needed_bytes;
    call_once(user, "on_shortage of a reserve");
    call_once(user, "on_shortage of a copy");
    call_once(user, "on_shortage of a batch");
    call_once(user, "on_shortage of a wrap");
    call_once(user, "on_shortage of scopes");
    return false;
}

/* Replaces `same`, the buffer of the outer call, by a buffer that is too large for the device's
 * memory. */
static void
run_short(struct world *w)
{
    ferry_buffer_destroy(&w->same);
    OK(ferry_buffer_create(w->context, INT, (size_t)16 << 20, NULL, &w->same));
    OK(ferry_pool_configure(w->pool, &(ferry_pool_options){.limit_bytes = (size_t)16 << 20,
                                                           .wait_ms = FERRY_WAIT_NEVER}));
    OK(ferry_pool_on_shortage(w->pool, on_shortage, w));
}

static bool
run_reserve(struct world *w)
{
    run_short(w);
    assert_int_equal(ferry_buffer_reserve(w->same, 0), FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "reserve"));
    /* Checks that the message is that of the outer call, not of the call inside the callback. */
    assert_null(strstr(ferry_last_error(), "the callback"));
    return true;
}

static bool
run_short_copy(struct world *w)
{
    run_short(w);
    assert_int_equal(ferry_buffer_copy_from(w->same, INT, 0, COUNT, memory, NULL),
                     FERRY_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(ferry_last_error(), "reserve"));
    /* Checks that the message is that of the outer call, not of the call inside the callback. */
    assert_null(strstr(ferry_last_error(), "the callback"));
    return true;
}

static bool
run_short_batch(struct world *w)
{
    run_short(w);
    const ferry_copy_region halves[2] = {
        ferry_buffer_region_from(w->same, INT, 0, COUNT / 2, memory),
        ferry_buffer_region_from(w->same, INT, COUNT / 2, COUNT - COUNT / 2, memory)};
    assert_int_equal(ferry_copy(halves, 2, NULL), FERRY_ERROR_OUT_OF_MEMORY);
    return true;
}

/* Limits the memory of the device. Returns false if the device uses the host's memory. */
static bool
run_short_device(struct world *w)
{
    ferry_pool *pool;
    OK(ferry_context_pool(w->context, w->place, FERRY_MEMORY_DEVICE, &pool));
    if (pool == w->pool)
        return false;
    OK(ferry_pool_configure(
        pool, &(ferry_pool_options){.limit_bytes = SHORT_BYTES / 2, .wait_ms = FERRY_WAIT_NEVER}));
    OK(ferry_pool_on_shortage(pool, on_shortage, w));
    return true;
}

/* Here `same` is a wrap, which has no memory on the device yet. */
static bool
run_short_wrap(struct world *w)
{
    static char wrapped[SHORT_BYTES];
    if (!run_short_device(w))
        return false;
    ferry_buffer_destroy(&w->same);
    OK(ferry_buffer_wrap_host(w->context, INT, SHORT_BYTES / sizeof(int), wrapped, NULL, &w->same));
    assert_int_equal(ferry_buffer_sync_to(w->same, 0, FERRY_REST, w->place, NULL),
                     FERRY_ERROR_OUT_OF_MEMORY);
    return true;
}

/* Returns a new buffer that is too large for the device. Its address is larger than that of `same`,
 * so that a call that uses both copies `same` to the device first. */
static ferry_buffer *
make_last(struct world *w)
{
    ferry_buffer *last = make_filled(w, INT, "last");
    if (last < w->same) {
        ferry_buffer *first = last;
        last = w->same;
        w->same = first;
    }
    OK(ferry_buffer_resize(last, SHORT_BYTES / sizeof(int)));
    return last;
}

/* The scopes rely on an open write of `same` on the same stream. A case may abandon that. */
static bool
run_short_scopes(struct world *w)
{
    void *pointer;
    ferry_scope scopes[2];
    const ferry_lease_options lease = {.access = FERRY_UPDATE, .count = 10, .stream = w->stream};
    const char *name = w->entry->name;
    if (!run_short_device(w))
        return false;
    ferry_buffer *last = make_last(w);
    if (strcmp(name, "ferry_lease_abandon") == 0) {
        ferry_lease_destroy(&w->lease);
        OK(ferry_lease_open(w->same, INT, &lease, &w->lease, &pointer));
    } else if (strcmp(name, "ferry_scope_abandon") == 0) {
        OK(ferry_scope_close(&w->host_scope));
        OK(ferry_buffer_open_device(w->same, INT, FERRY_UPDATE, 0, 10, w->stream, &w->host_scope,
                                    &pointer));
    }
    const ferry_argument arguments[2] = {
        ferry_argument_with(ferry_buffer_argument(w->same, INT, 0, FERRY_REST), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(last, INT, 0, FERRY_REST), FERRY_UPDATE)};
    assert_int_equal(ferry_scope_open_all(arguments, 2, w->place, w->stream, scopes, NULL),
                     FERRY_ERROR_OUT_OF_MEMORY);
    ferry_buffer_destroy(&last);
    return true;
}

static atomic_bool is_queued; /* another copy is queued behind the one that lacks memory */

static bool
on_worker_shortage(ferry_pool *pool, size_t needed_bytes, void *user)
{
    (void)pool, (void)needed_bytes;
    while (!atomic_load(&is_queued))
        ferryi_sleep_ns(100000);
    call_once(user, "on_shortage on a worker");
    return false;
}

/* Here `job` is queued for the thread that runs the callback. */
static bool
run_worker(struct world *w)
{
    ferry_event *first, *second;
    atomic_store(&is_queued, false);
    run_short(w);
    OK(ferry_pool_on_shortage(w->pool, on_worker_shortage, w));
    OK(ferry_buffer_copy_from_async(w->same, INT, 0, COUNT, memory, NULL, &first));
    OK(ferry_buffer_copy_from_async(w->spare, FLOAT, 100, 10, memory, NULL, &second));
    ferry_event *kept = w->job;
    w->job = second;
    atomic_store(&is_queued, true);
    assert_int_equal(ferry_event_synchronize(first), FERRY_ERROR_OUT_OF_MEMORY);
    const ferry_status status = ferry_event_synchronize(second);
    assert_true(status == FERRY_OK || status == FERRY_ERROR_CANCELLED);
    w->job = kept;
    ferry_event_destroy(&first);
    ferry_event_destroy(&second);
    return true;
}

static bool
see_buffer(const ferry_buffer_info *info, void *user)
{
    (void)info;
    call_once(user, "visit of a context");
    return true;
}

static bool
run_context_walk(struct world *w)
{
    OK(ferry_context_for_each_buffer(w->context, see_buffer, w));
    return true;
}

static bool
see_block(const ferry_block_info *block, void *user)
{
    (void)block;
    call_once(user, "visit of a pool");
    return true;
}

static bool
run_pool_walk(struct world *w)
{
    ferry_block *block;
    OK(ferry_pool_allocate(w->own_pool, 1000, NULL, &block));
    OK(ferry_pool_for_each_block(w->own_pool, see_block, w));
    OK(ferry_block_free(&block, NULL));
    return true;
}

/* The callback `work` of a file pipeline. The buffer of the outer call, `same`, is here the buffer
 * of the chunk. */
static ferry_status
work(const ferry_file_chunk *chunk, void *user)
{
    struct world *w = user;
    ferry_buffer *kept = w->same;
    if (strcmp(w->callback->name, "work") != 0)
        return FERRY_OK;
    w->same = chunk->buffer;
    call_once(w, "work");
    ferry_lease_destroy(&w->made_lease); /* it may be open on the chunk, which ends here */
    if (w->target == &w->same && !w->same && !w->message[0])
        snprintf(w->error, sizeof(w->error), "the chunk was destroyed");
    w->same = kept;
    return FERRY_OK;
}

static bool
ask_file(size_t done, size_t total, void *user)
{
    (void)done, (void)total;
    call_once(user, "keep_going of a file");
    return true;
}

static bool
run_stream_file(struct world *w)
{
    OK(ferry_file_pipeline(w->context, &(ferry_file_pipeline_options){.input = path_of("in"),
                                                                      .output = path_of("out"),
                                                                      .element = INT,
                                                                      .work = work,
                                                                      .keep_going = ask_file,
                                                                      .user = w,
                                                                      .stream = w->own_stream,
                                                                      .chunk_bytes = BYTES / 8}));
    return true;
}

static const struct callback callbacks[] = {
    {"log", "log", WATCHING, run_log},
    {"trace", "trace", WATCHING, run_trace},
    {"keep_going of a copy", "keep_going", WATCHING, run_copy},
    {"keep_going of a store", "keep_going", WATCHING, run_store},
    {"keep_going of a batch", "keep_going", WATCHING, run_batch},
    {"conversion", "of the conversion", WATCHING, run_conversion},
    {"host_function", "host_function", WATCHING, run_host_body},
    {"alloc", "alloc of a pool's backend", WATCHING, run_alloc},
    {"free", "free of a pool's backend", WATCHING, run_free},
    {"on_release", "on_release", WORKING, run_on_release},
    {"on_release of a context's end", "on_release", ENDING, run_end},
    {"on_shortage of a reserve", "on_shortage", WORKING, run_reserve},
    {"on_shortage of a copy", "on_shortage", WORKING, run_short_copy},
    {"on_shortage of a batch", "on_shortage", WORKING, run_short_batch},
    {"on_shortage of a wrap", "on_shortage", WORKING, run_short_wrap},
    {"on_shortage of scopes", "on_shortage", WORKING, run_short_scopes},
    {"on_shortage on a worker", "on_shortage", WORKING, run_worker},
    {"visit of a context", "visit", WORKING, run_context_walk},
    {"visit of a pool", "visit", WORKING, run_pool_walk},
    {"work", "work", WORKING, run_stream_file},
    {"keep_going of a file", "keep_going", WORKING, run_stream_file},
};

/* -- the table --------------------------------------------------------------------------------- */

static struct row rows[LENGTH(entries)];
static size_t row_count;

#define ONE(outcome) (1u << (outcome))

/* The words of the table. A word is true if calls became each of its outcomes, and no other one. */
static const struct word {
    const char *text;
    enum kind kind;
    unsigned outcomes;
} words[] = {{"yes", WATCHING, ONE(MADE)},
             {"hit", WATCHING, ONE(MADE) | ONE(FORBIDDEN)},
             {"no", WATCHING, ONE(FORBIDDEN)},
             {"yes", WORKING, ONE(MADE)},
             {"busy", WORKING, ONE(MADE) | ONE(IN_THE_WAY)},
             {"no", WORKING, ONE(IN_THE_WAY)}};

static const char *const table_head =
    "# What each public function does inside callbacks of the program. Written by\n"
    "# test_buffer_callbacks --write, and checked by each run of it. Watching callbacks: yes, the "
    "call\n"
    "# is made; hit, only without a copy, a wait and new memory; no. Working callbacks: yes; busy, "
    "not\n"
    "# while the surrounding call, or one inside a callback, is in the way; no, here as the last "
    "owner\n"
    "# of the context of the surrounding call.\n"
    "# function watching working\n";

static struct row *
find_row(const char *name)
{
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static unsigned
outcomes_of(const char *text, enum kind kind)
{
    for (size_t i = 0; i < LENGTH(words); i++)
        if (words[i].kind == kind && strcmp(words[i].text, text) == 0)
            return words[i].outcomes;
    print_error("callbacks.txt: no word of this column is \"%s\"\n", text);
    exit(1);
}

static const char *
word_of(unsigned outcomes, enum kind kind)
{
    for (size_t i = 0; i < LENGTH(words); i++)
        if (words[i].kind == kind && words[i].outcomes == outcomes)
            return words[i].text;
    return "?";
}

static FILE *
open_table(const char *mode)
{
    FILE *file = fopen(SOURCE_ROOT "/tests/buffer/callbacks.txt", mode);
    if (!file)
        exit(1);
    return file;
}

static void
read_table(void)
{
    char line[200], watching[8], working[8];
    FILE *file = open_table("r");
    while (row_count < LENGTH(rows) && fgets(line, sizeof(line), file)) {
        struct row *row = &rows[row_count];
        if (*line == '#' || sscanf(line, "%63s %7s %7s", row->name, watching, working) != 3)
            continue;
        row->may[WATCHING] = outcomes_of(watching, WATCHING);
        row->may[WORKING] = outcomes_of(working, WORKING);
        row_count++;
    }
    fclose(file);
}

/* Starts a table in which each function may do everything. */
static void
begin_table(void)
{
    for (size_t i = 0; i < entry_count; i++)
        if (!find_row(entries[i].function)) {
            struct row *row = &rows[row_count++];
            snprintf(row->name, sizeof(row->name), "%s", entries[i].function);
            row->may[WATCHING] = row->may[WORKING] = ~0u;
        }
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static void
write_table(void **state)
{
    (void)state;
    FILE *file = open_table("w");
    fputs(table_head, file);
    qsort(rows, row_count, sizeof(rows[0]), by_name);
    for (size_t i = 0; i < row_count; i++)
        fprintf(file, "%s %s %s\n", rows[i].name, word_of(rows[i].seen[WATCHING], WATCHING),
                word_of(rows[i].seen[WORKING], WORKING));
    fclose(file);
}

/* -- each call in each callback ---------------------------------------------------------------- */

/* Returns what became of the call. A call that is refused names the callback. */
static enum outcome
outcome_of(const struct world *w)
{
    char named[120];
    snprintf(named, sizeof(named), ": the callback %s may not do this; do it when ",
             w->callback->said);
    if (w->status == FERRY_ERROR_INVALID_STATE && strstr(w->message, named))
        return FORBIDDEN;
    snprintf(named, sizeof(named), ": the call around the callback %s, or ", w->callback->said);
    return w->status == FERRY_ERROR_BUSY && strstr(w->message, named) ? IN_THE_WAY : MADE;
}

/* Notes what became of the call. Returns whether this is as the table says. What a watching
 * callback may always do also succeeds. */
static bool
is_as_documented(const struct world *w)
{
    enum kind kind = w->callback->kind;
    struct row *row = find_row(w->entry->function);
    enum outcome outcome = outcome_of(w);
    if (kind == ENDING)
        return true;
    if (!row)
        return false;
    row->seen[kind] |= ONE(outcome);
    return (row->may[kind] & ONE(outcome)) &&
           !(kind == WATCHING && row->may[kind] == ONE(MADE) && w->status != FERRY_OK);
}

static void
too_long(int signal)
{
    (void)signal;
    print_error("%s inside %s waits for ever\n", world && world->entry ? world->entry->name : "?",
                world && world->callback ? world->callback->name : "?");
    _exit(1);
}

/* Returns whether the test skips this call in this callback. It skips ferry_context_destroy() on
 * threads of the device and of the context, because test_owners.c tests that case. */
static bool
ends_elsewhere(const struct callback *callback, const struct entry *entry, uint64_t capabilities)
{
    bool is_on_device =
        strcmp(callback->name, "host_function") == 0 && (capabilities & FERRYI_DEVICE_CALLS_APART);
    return strcmp(entry->name, "ferry_context_destroy") == 0 &&
           (is_on_device || strcmp(callback->name, "on_shortage on a worker") == 0);
}

static void
open_leases(struct world *w)
{
    void *pointer;
    ferry_lease_options options = {.access = FERRY_READ, .count = 10};
    OK(ferry_lease_open(w->spare, FLOAT, &options, &w->lease, &pointer));
    options.place = w->place;
    OK(ferry_lease_open(w->spare, FLOAT, &options, &w->device_lease, &pointer));
}

/* Returns false if the device has no graphs. */
static bool
open_graphs(struct world *w)
{
    const float value = 0;
    OK(ferry_stream_create(w->context, 1, &w->recorded_stream));
    const ferry_copy_options options = {.stream = w->recorded_stream};
    ferry_status status = ferry_graph_begin(w->recorded_stream, NULL, &w->graph);
    if (status == FERRY_ERROR_UNSUPPORTED)
        return false;
    OK(status);
    OK(ferry_buffer_fill(w->spare, FLOAT, 60, 10, &value, &options));
    OK(ferry_graph_end(w->graph));
    OK(ferry_graph_begin(w->recorded_stream, NULL, &w->open_graph));
    return true;
}

static void
try_case(const struct callback *callback, const struct entry *entry, bool same)
{
    struct world w;
    alarm(60);
    world_open(&w);
    w.target = same ? &w.same : &w.other;
    /* A lease and a graph keep their context alive, so cases that destroy the context open none. */
    if (strncmp(entry->function, "ferry_lease", 11) == 0 && callback->kind != ENDING)
        open_leases(&w);
    bool there = strncmp(entry->function, "ferry_graph", 11) != 0 || callback->kind == ENDING ||
                 open_graphs(&w);
    w.callback = callback;
    w.entry = entry;
    there = there && !ends_elsewhere(callback, entry, w.context->devices[1]->capabilities) &&
            callback->run(&w);
    if (there && !w.ran)
        fail_msg("%s was not called", callback->name);
    if (there && !is_as_documented(&w))
        fail_msg("%s on the %s buffer inside %s: %s, \"%s\"", entry->name, same ? "same" : "other",
                 callback->name, ferry_status_name(w.status), w.message);
    /* Checks that the library still works after the outer call. */
    if (w.context && w.other)
        OK(ferry_buffer_copy_to(w.other, INT, 0, COUNT, more, NULL));
    world_close(&w);
    if (w.error[0])
        fail_msg("%s inside %s leaves this: %s", entry->name, callback->name, w.error);
    alarm(0);
}

/* Sanitized builds take ten times as long. There each callback tries only every fourth function,
 * and consecutive callbacks try different functions. */
static void
try_callback(void **state)
{
    const struct callback *callback = *state;
    size_t every = FERRYI_SANITIZED_MALLOC ? 4 : 1;
    for (size_t i = (size_t)(callback - callbacks) % every; i < entry_count; i += every) {
        try_case(callback, &entries[i], true);
        try_case(callback, &entries[i], false);
    }
}

/* -- the table is whole ------------------------------------------------------------------------ */

/* Marks the rows of the functions that a header declares. */
static void
expect_rows(const char *path, bool *declared)
{
    char *text = calloc(1, 1 << 17);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 17) - 1, file) > 0);
    fclose(file);
    for (char *at = text; (at = strstr(at, "\nFERRY_API "));) {
        char *open = strchr(++at, '('), *name = open, whole[64];
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_')
            name--;
        snprintf(whole, sizeof(whole), "%.*s", (int)(open - name), name);
        struct row *row = find_row(whole);
        if (!row)
            fail_msg("%s: callbacks.txt has no row of %s()", path, whole);
        declared[row - rows] = true;
    }
    free(text);
}

static void
test_every_public_function_has_a_row(void **state)
{
    (void)state;
    glob_t headers;
    bool declared[LENGTH(rows)] = {false};
    assert_int_equal(glob(SOURCE_ROOT "/include/ferry/*.h*", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        expect_rows(headers.gl_pathv[i], declared);
    globfree(&headers);
    for (size_t i = 0; i < row_count; i++)
        if (!declared[i])
            fail_msg("callbacks.txt: %s is no public function", rows[i].name);
}

/* A row that says that calls may be refused is wrong if none was. Devices without asynchronous
 * copies refuse less, sanitized builds try less, and builds that check themselves make fewer hits.
 */
static void
test_every_row_is_true(void **state)
{
    (void)state;
    const char *device = getenv("FERRY_DEVICE");
#ifdef FERRYI_DEBUG_CHECKS
    skip();
#endif
    if (FERRYI_SANITIZED_MALLOC || !device || strcmp(device, "emulated") != 0)
        skip();
    for (size_t i = 0; i < row_count; i++)
        for (enum kind kind = WATCHING; kind <= WORKING; kind++)
            if (rows[i].seen[kind] != rows[i].may[kind])
                fail_msg("callbacks.txt: %s is \"%s\" in %s callbacks, and not \"%s\"",
                         rows[i].name, word_of(rows[i].seen[kind], kind),
                         kind == WATCHING ? "watching" : "working",
                         word_of(rows[i].may[kind], kind));
}

static int
setup(void **state)
{
    lazy_register();
    from_float = (ferry_conversion){.from = FLOAT, .to = INT};
    from_int = (ferry_conversion){.from = INT, .to = FLOAT};
    signal(SIGALRM, too_long);
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    int status = files_setup(state);
    write_counting_file(path_of("in"), COUNT);
    return status;
}

int
main(int argc, char **argv)
{
    bool writes = argc > 1 && strcmp(argv[1], "--write") == 0;
    struct CMUnitTest tests[LENGTH(callbacks) + 2];
    if (FERRYI_THREAD_SANITIZER) {
        puts("1..0 # SKIP its calls share one array, also with asynchronous ones that are still "
             "under way");
        return 77;
    }
    for (size_t i = 0; i < LENGTH(callbacks); i++)
        tests[i] = (struct CMUnitTest){.name = callbacks[i].name,
                                       .test_func = try_callback,
                                       .initial_state = (void *)(uintptr_t)&callbacks[i]};
    tests[LENGTH(callbacks)] =
        (struct CMUnitTest)cmocka_unit_test(test_every_public_function_has_a_row);
    tests[LENGTH(callbacks) + 1] = (struct CMUnitTest)cmocka_unit_test(test_every_row_is_true);
    if (!writes) {
        read_table();
        return cmocka_run_group_tests_name("callbacks", tests, setup, files_teardown);
    }
    begin_table();
    tests[LENGTH(callbacks) + 1].test_func = write_table;
    return cmocka_run_group_tests_name("callbacks", tests, setup, files_teardown);
}
