/* SPDX-License-Identifier: MIT */
#include "src/store/place_pool.h"

#include <stdio.h>

#include "src/store/store.h"

/* This file names the buffers that hold the most memory of a pool, for the message of an allocation
 * that fails. */

#define NAMED     3 /* number of buffers that are named */
#define NAME_ROOM 64

/* A buffer with a replica in the pool. */
struct holder {
    char name[NAME_ROOM];
    size_t bytes;    /* size of its block */
    uint32_t scopes; /* open scopes on the buffer */
    bool is_used;    /* whether a call of this thread uses the buffer */
    bool is_held;    /* whether a hold or a lease keeps a replica at its address */
};

struct holders {
    struct holder largest[NAMED]; /* largest first; the others have no bytes */
    size_t count, bytes;          /* all buffers with replicas in the pool */
};

FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_used_here(const ferryi_store *store)
{
    bool used = false;
    FERRYI_EACH_CLAIM (store, claim)
        used |= claim->state != FERRYI_CLAIM_HELD && claim->thread == ferryi_thread_id();
    return used;
}

/* Describes what the buffer holds of the pool. Its member `bytes` is 0 if it holds nothing. */
FERRYI_REQUIRES(ferryi_store_spin)
static struct holder
examine(const ferryi_store *store, const ferry_pool *pool)
{
    struct holder holder = {.scopes = ferryi_store_scopes(store), .is_used = is_used_here(store)};
    snprintf(holder.name, sizeof(holder.name), "%s", ferryi_store_name(store));
    for (int place = 0; place <= store->context->place_count; place++) {
        const struct ferryi_place_copy *copy = &store->copies[place];
        if (copy->block && copy->block->pool == pool)
            holder.bytes += copy->block->bytes;
        holder.is_held |= copy->pins > 0;
    }
    return holder;
}

static void
add(struct holders *holders, struct holder holder)
{
    holders->count += holder.bytes > 0;
    holders->bytes += holder.bytes;
    for (size_t i = 0; i < NAMED; i++)
        if (holder.bytes > holders->largest[i].bytes) {
            struct holder smaller = holders->largest[i];
            holders->largest[i] = holder;
            holder = smaller;
        }
}

static void
append(const struct holder *holder, char *text, size_t text_bytes, size_t *length)
{
    ferryi_text_append(text, text_bytes, length, "buffer \"%s\" with %zu bytes", holder->name,
                       holder->bytes);
    if (holder->scopes > 0)
        ferryi_text_append(text, text_bytes, length, " (%u open scope%s)", holder->scopes,
                           holder->scopes == 1 ? "" : "s");
    else if (holder->is_used)
        ferryi_text_append(text, text_bytes, length, " (used by the same call)");
    else if (holder->is_held)
        ferryi_text_append(text, text_bytes, length, " (held at its address)");
}

void
ferryi_holders_describe(ferry_context *context, ferry_pool *pool, char *text, size_t text_bytes)
{
    struct holders holders = {0};
    size_t length = 0, named = 0;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store; store = store->next) {
        ferryi_store_lock(store);
        struct holder holder = examine(store, pool);
        ferryi_store_unlock(store);
        add(&holders, holder);
    }
    ferryi_mutex_unlock(&context->store_mutex);
    for (; named < NAMED && holders.largest[named].bytes > 0; named++) {
        ferryi_text_append(text, text_bytes, &length, "%s", named > 0 ? ", " : "");
        append(&holders.largest[named], text, text_bytes, &length);
        holders.bytes -= holders.largest[named].bytes;
    }
    if (holders.count > named)
        ferryi_text_append(text, text_bytes, &length, " and %zu more with %zu bytes",
                           holders.count - named, holders.bytes);
}
