/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/buffer/buffer.h"
#include "src/buffer/lease.h"
#include "src/store/place_pool.h"

/* Functions that return a snapshot of the state of all buffers of a context, as a list and as text.
 */

struct snapshot {
    ferry_buffer_info *infos; /* descriptions of the buffers; their strings are in `names` */
    char *names;
    size_t count, room, name_bytes, name_room;
};

/* Returns whether a buffer's storage has neither a reference nor a claim (range lock). Such storage
 * is about to be removed from the context's list. Called under the mutex of this list. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_going(const ferryi_store *store)
{
    return store->references == 0 && store->claim_count == 0;
}

/* Returns whether the store has had no handle since its last buffer, if any. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_coming(const ferryi_store *store)
{
    return atomic_load_explicit(&store->site, memory_order_acquire) == FERRYI_SITE_NONE;
}

/* Adds a buffer to the snapshot. Called under the mutex of the context's list of buffers, which
 * keeps the buffer and its name valid. If the snapshot has no room left, only counts the buffer and
 * the bytes of its name. */
static void
add(struct snapshot *snapshot, ferryi_store *store)
{
    ferry_buffer_info info;
    const void *host;
    const ferry_element *element = NULL;
    ferryi_store_lock(store);
    bool skipped = is_going(store) || is_coming(store);
    size_t bytes = store->map.bytes,
           left = snapshot->name_room > snapshot->name_bytes
                      ? snapshot->name_room - snapshot->name_bytes
                      : 0,
           labels_bytes = 0;
    if (!skipped) {
        element = store->first.element;
        ferryi_store_get_info(store, (struct ferryi_range){0, bytes}, &info, &host);
        labels_bytes = ferryi_lease_labels(
                           store, left > 0 ? snapshot->names + snapshot->name_bytes : NULL, left) +
                       1;
    }
    ferryi_store_unlock(store);
    if (skipped)
        return;
    ferryi_store_end_info(store, element, host, bytes, &info);
    size_t name_bytes = labels_bytes + strlen(info.name) + 1;
    if (snapshot->count < snapshot->room &&
        snapshot->name_bytes + name_bytes <= snapshot->name_room) {
        info.lease_labels = snapshot->names + snapshot->name_bytes;
        memcpy(snapshot->names + snapshot->name_bytes + labels_bytes, info.name,
               name_bytes - labels_bytes);
        info.name = info.lease_labels + labels_bytes;
        snapshot->infos[snapshot->count] = info;
    }
    snapshot->count++;
    snapshot->name_bytes += name_bytes;
}

static void
fill(ferry_context *context, struct snapshot *snapshot)
{
    snapshot->count = snapshot->name_bytes = 0;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store; store = store->next)
        add(snapshot, store);
    ferryi_mutex_unlock(&context->store_mutex);
}

static void
clear(struct snapshot *snapshot)
{
    free(snapshot->infos);
    free(snapshot->names);
}

/* Takes a snapshot of all buffers. The caller must free it with clear(). Memory is allocated while
 * the mutex of the list of buffers is not held. If buffers were added during the allocation, the
 * snapshot is taken again with more room. */
static ferry_status
take_snapshot(ferry_context *context, struct snapshot *out)
{
    *out = (struct snapshot){0};
    for (fill(context, out); out->count > out->room || out->name_bytes > out->name_room;
         fill(context, out)) {
        clear(out);
        out->room = out->count + out->count / 8;
        out->name_room = out->name_bytes + out->name_bytes / 8;
        out->infos = calloc(out->room, sizeof(*out->infos));
        out->names = malloc(out->name_room);
        if (!out->infos || !out->names) {
            clear(out);
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                               "walk over the %zu buffers of a context: no host memory",
                               out->count);
        }
    }
    return FERRY_OK;
}

ferry_status
ferry_context_for_each_buffer(ferry_context *context, ferry_buffer_visit *visit, void *user)
{
    struct snapshot snapshot;
    if (!context || !visit)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "walk over the buffers of a context: %s is NULL",
                           context ? "visit" : "context");
    FERRYI_OR_RETURN(ferryi_shell_check_open(context, "walk over the buffers of a context"));
    FERRYI_OR_RETURN(take_snapshot(context, &snapshot));
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WORKING, "visit");
    running.context = context;
    for (size_t i = 0; i < snapshot.count && visit(&snapshot.infos[i], user); i++)
        ;
    ferryi_callback_leave(&running);
    clear(&snapshot);
    return FERRY_OK;
}

/* -- as text ----------------------------------------------------------------------------------- */

struct text {
    char *text;
    size_t bytes, length;
};

static void
append_place(ferry_context *context, int place, struct text *out)
{
    struct ferryi_place_memory memory;
    ferryi_place_pool_memory(context, place, &memory);
    ferryi_text_append(
        out->text, out->bytes, &out->length,
        "%s: %zu bytes live, %zu idle; %llu hits, %llu misses, %llu device allocations, %llu "
        "trims, %llu evictions, %llu waits, %llu shortages\n",
        context->names[place], memory.live, memory.cached, (unsigned long long)memory.hits,
        (unsigned long long)memory.misses, (unsigned long long)memory.device_allocations,
        (unsigned long long)memory.trims, (unsigned long long)memory.evictions,
        (unsigned long long)memory.waits, (unsigned long long)memory.shortages);
}

static void
append_buffer(const ferry_context *context, const ferry_buffer_info *info, struct text *out)
{
    ferryi_info_append(context, info, out->text, out->bytes, &out->length);
    ferryi_text_append(out->text, out->bytes, &out->length, "; %zu bytes taken",
                       info->allocated_bytes);
    if (info->scopes > 0)
        ferryi_text_append(out->text, out->bytes, &out->length, "; %u scopes open", info->scopes);
    if (info->leases > 0)
        ferryi_text_append(out->text, out->bytes, &out->length, "; %u lease%s%s%s", info->leases,
                           info->leases == 1 ? "" : "s", *info->lease_labels ? ", held by " : "",
                           info->lease_labels);
    for (int place = 0; place <= context->place_count; place++)
        if (info->places_held >> place & 1)
            ferryi_text_append(out->text, out->bytes, &out->length, "; held at %s",
                               context->names[place]);
    if (*info->site)
        ferryi_text_append(out->text, out->bytes, &out->length, "; made by %s", info->site);
    ferryi_text_append(out->text, out->bytes, &out->length, "\n");
}

static int
by_allocated_bytes(const void *a, const void *b)
{
    const ferry_buffer_info *x = a, *y = b;
    return ferryi_compare(y->allocated_bytes, x->allocated_bytes);
}

size_t
ferry_context_describe(ferry_context *context, char *text, size_t bytes)
{
    struct snapshot snapshot;
    struct text out = {.text = text, .bytes = text ? bytes : 0};
    if (out.bytes > 0)
        text[0] = 0;
    if (!context || ferryi_shell_check_open(context, "describe a context") != FERRY_OK ||
        take_snapshot(context, &snapshot) != FERRY_OK)
        return 0;
    for (int place = 0; place <= context->place_count; place++)
        if (place == 0 || !(context->coherent >> place & 1))
            append_place(context, place, &out);
    if (snapshot.count > 0)
        qsort(snapshot.infos, snapshot.count, sizeof(*snapshot.infos), by_allocated_bytes);
    for (size_t i = 0; i < snapshot.count; i++)
        append_buffer(context, &snapshot.infos[i], &out);
    clear(&snapshot);
    return out.length;
}
