/* SPDX-License-Identifier: MIT */
/* Writes what memory a context holds to a file, as JSON: the blocks of each pool, and the buffers
 * that own them. docs/debugging.md describes the file. */
#include "src/buffer/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/version.h>

#include "src/base/callback.h"
#include "src/base/output_file.h"
#include "src/store/place_pool.h"

#define NAME_BYTES (FERRYI_TRACE_TEXT_MOST + 1)

/* A replica of a buffer. */
struct owner {
    const void *memory;
    char name[NAME_BYTES];
    ferryi_site site;
};

struct owners {
    struct owner *list; /* in the order of the addresses */
    size_t count, room;
};

/* -- owners ------------------------------------------------------------------------------------ */

/* Adds the replicas of a buffer. Once the list is full, further replicas are only counted. */
static void
add_replicas(struct owners *owners, ferryi_store *store)
{
    ferryi_store_lock(store);
    const ferryi_site site = atomic_load_explicit(&store->site, memory_order_acquire);
    for (int place = 0; place <= store->context->place_count; place++) {
        const ferry_block *block = store->copies[place].block;
        if (!block)
            continue;
        if (owners->count < owners->room) {
            struct owner *owner = &owners->list[owners->count];
            owner->memory = ferry_block_pointer(block);
            owner->site = site;
            snprintf(owner->name, sizeof(owner->name), "%s", ferryi_store_name(store));
        }
        owners->count++;
    }
    ferryi_store_unlock(store);
}

static void
fill(ferry_context *context, struct owners *owners)
{
    owners->count = 0;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store; store = store->next)
        add_replicas(owners, store);
    ferryi_mutex_unlock(&context->store_mutex);
}

static int
compare(const void *a, const void *b)
{
    const char *left = ((const struct owner *)a)->memory,
               *right = ((const struct owner *)b)->memory;
    return (left > right) - (left < right);
}

/* Lists the owners at one moment. The list is allocated while no lock is held, and taken again if
 * other threads have made it longer meanwhile. The caller frees it. */
static ferry_status
list_owners(ferry_context *context, struct owners *out)
{
    *out = (struct owners){0};
    for (fill(context, out); out->count > out->room; fill(context, out)) {
        free(out->list);
        out->room = out->count + out->count / 8;
        out->list = calloc(out->room, sizeof(*out->list));
        if (!out->list)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for %zu buffers",
                               out->count);
    }
    if (out->count > 0)
        qsort(out->list, out->count, sizeof(*out->list), compare);
    return FERRY_OK;
}

static const struct owner *
find_owner(const struct owners *owners, const void *memory)
{
    const struct owner wanted = {.memory = memory};
    return owners->count == 0
               ? NULL
               : bsearch(&wanted, owners->list, owners->count, sizeof(wanted), compare);
}

/* -- the text; a failure to extend it is seen at its end --------------------------------------- */

/* Writes a member of an object. NULL becomes `null`. */
static void
put_text(FILE *out, const char *key, const char *text)
{
    char quoted[FERRYI_TRACE_QUOTED_MOST];
    if (!text) {
        fprintf(out, "\"%s\":null", key);
        return;
    }
    const char *end = ferryi_trace_put_quoted(quoted, text);
    fprintf(out, "\"%s\":%.*s", key, (int)(end - quoted), quoted);
}

static void
put_block(FILE *out, const struct owners *owners, const ferry_block_info *block, size_t offset)
{
    const struct owner *owner = block->is_held ? find_owner(owners, block->pointer) : NULL;
    fprintf(out, "{\"offset\":%zu,\"bytes\":%zu,\"state\":\"%s\",\"requested\":%zu,", offset,
            block->bytes,
            block->is_held      ? "live"
            : block->is_pending ? "pending"
                                : "idle",
            block->requested_bytes);
    put_text(out, "owner", owner ? owner->name : block->label);
    fprintf(out, ",");
    put_text(out, "site", owner ? ferryi_site_text(owner->site) : NULL);
    fprintf(out, "}");
}

/* Writes the slabs of a pool with their blocks, which fill them. */
static ferry_status
put_slabs(FILE *out, const struct owners *owners, ferry_pool *pool)
{
    ferry_block_info *blocks;
    size_t count, offset = 0;
    FERRYI_OR_RETURN(ferryi_pool_list_blocks(pool, &blocks, &count));
    for (size_t i = 0; i < count; i++) {
        const bool begins = i == 0 || blocks[i].slab != blocks[i - 1].slab;
        if (begins)
            fprintf(out, "%s\n    {\"address\":\"%p\",\"bytes\":%zu,\"blocks\":[",
                    i > 0 ? "]}," : "", blocks[i].slab, blocks[i].slab_bytes);
        offset = begins ? 0 : offset;
        fprintf(out, "%s\n     ", begins ? "" : ",");
        put_block(out, owners, &blocks[i], offset);
        offset += blocks[i].bytes;
    }
    fprintf(out, "%s", count > 0 ? "]}" : "");
    free(blocks);
    return FERRY_OK;
}

static ferry_status
put_pool(FILE *out, const struct owners *owners, ferry_pool *pool, const char *kind, bool is_first)
{
    struct ferryi_pool_counters counters;
    ferryi_pool_get_counters(pool, &counters);
    fprintf(out, "%s\n   {\"kind\":\"%s\",\"limit\":%zu,\"slabs\":[", is_first ? "" : ",", kind,
            counters.limit_bytes);
    ferry_status status = put_slabs(out, owners, pool);
    fprintf(out, "]}");
    return status;
}

/* Writes the pools of a place. The mutex keeps pools of the program from being destroyed. */
static ferry_status
put_place(FILE *out, const struct owners *owners, ferry_context *context, int place)
{
    ferry_status status = FERRY_OK;
    bool is_first = true;
    fprintf(out, "%s\n  {\"place\":%d,", place > 0 ? "," : "", place);
    put_text(out, "name", context->names[place]);
    fprintf(out, ",\"pools\":[");
    ferryi_mutex_lock(&context->pool_mutex);
    for (int kind = 0; kind < FERRYI_MEMORY_KINDS && status == FERRY_OK; kind++)
        if (context->pools[place][kind]) {
            status = put_pool(out, owners, context->pools[place][kind],
                              ferryi_memory_kind_names[kind], is_first);
            is_first = false;
        }
    for (struct ferryi_place_own_pool *own = context->own_pools; own && status == FERRY_OK;
         own = own->next)
        if (ferryi_pool_place(own->pool) == place) {
            status = put_pool(out, owners, own->pool, "own", is_first);
            is_first = false;
        }
    ferryi_mutex_unlock(&context->pool_mutex);
    fprintf(out, "]}");
    return status;
}

static ferry_status
put_context(FILE *out, ferry_context *context)
{
    struct owners owners;
    const char *trace = ferryi_trace_flush(context->trace);
    ferry_status status = list_owners(context, &owners);
    fprintf(out, "{\"ferry\":1,");
    put_text(out, "version", ferry_version());
    fprintf(out, ",");
    put_text(out, "trace", trace);
    fprintf(out, ",\"places\":[");
    for (int place = 0; place <= context->place_count && status == FERRY_OK; place++)
        status = put_place(out, &owners, context, place);
    fprintf(out, "\n]}\n");
    free(owners.list);
    return status;
}

/* -- the file ---------------------------------------------------------------------------------- */

/* Writes a text to a new file, and sets `*out_path` to its name, which the caller frees. Returns 0
 * or an errno value. */
static int
write_file(const char *path, const char *text, size_t bytes, char **out_path)
{
    int file, failure = ferryi_output_open(path, &file, out_path);
    if (failure)
        return failure;
    failure = ferryi_output_write(file, text, bytes);
    ferryi_output_release(file);
    if (close(file) != 0 && !failure)
        failure = errno;
    if (failure) {
        free(*out_path);
        *out_path = NULL;
    }
    return failure;
}

/* Writes a snapshot. The whole text is made first, so that no lock is held while it is written. */
static ferry_status
write_snapshot(ferry_context *context, const char *path, char **out_path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory");
    ferry_status status = put_context(out, context);
    bool is_whole = !ferror(out);
    is_whole = fclose(out) == 0 && is_whole;
    if (status == FERRY_OK && !is_whole)
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for its text");
    if (status == FERRY_OK) {
        int failure = write_file(path, text, bytes, out_path);
        if (failure)
            status = ferryi_fail(failure == ENOMEM ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_IO,
                                 "%s", strerror(failure));
    }
    free(text);
    return status;
}

ferry_status
ferry_context_snapshot(ferry_context *context, const char *path)
{
    char *written = NULL;
    if (!context || !path || !*path)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "write a snapshot of a context: %s is %s",
                           context ? "path" : "context", context && path ? "empty" : "NULL");
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "write a snapshot of a context"));
    ferry_status status = write_snapshot(context, path, &written);
    free(written);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "write a snapshot of a context to %s", path);
}

void
ferryi_snapshot_out_of_memory(ferry_context *context)
{
    char *written = NULL;
    if (!context->snapshot_file || ferryi_callback_thread.innermost ||
        atomic_exchange(&context->is_snapshot_made, true))
        return;
    FERRYI_KEEP_ERROR(why);
    if (write_snapshot(context, context->snapshot_file, &written) == FERRY_OK)
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "memory has run out: the snapshot %s shows what held it", written);
    else
        ferryi_log(&context->log, FERRY_LOG_ERROR, "write the snapshot %s: %s",
                   context->snapshot_file, ferry_last_error());
    free(written);
}
