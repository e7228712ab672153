/* SPDX-License-Identifier: MIT */
#include "src/store/watch.h"

#include <assert.h>
#include <stdio.h>

#define ARGUMENTS_MOST 9

/* Categories of trace entries. */
static const struct ferryi_trace_text of_buffer = FERRYI_TRACE_PLAIN("buffer"),
                                      of_scope = FERRYI_TRACE_PLAIN("scope"),
                                      of_use = FERRYI_TRACE_PLAIN("use"),
                                      of_piece = FERRYI_TRACE_PLAIN("piece"),
                                      of_launch = FERRYI_TRACE_PLAIN("launch"),
                                      of_eviction = FERRYI_TRACE_PLAIN("evict");

struct arguments {
    struct ferryi_trace_argument list[ARGUMENTS_MOST];
    size_t count;
};

/* Adds a text argument to a trace entry. `key` is a string literal, and `value` is a struct
 * ferryi_trace_text. */
#define add_text(arguments, key, value)                                                            \
    ((arguments)->list[(arguments)->count++] =                                                     \
         (struct ferryi_trace_argument)FERRYI_TRACE_TEXT(key, value))
#define add_number(arguments, key, value)                                                          \
    ((arguments)->list[(arguments)->count++] =                                                     \
         (struct ferryi_trace_argument)FERRYI_TRACE_NUMBER(key, value))

static inline struct ferryi_trace_text
any_text(const char *text)
{
    return (struct ferryi_trace_text)FERRYI_TRACE_ANY(text);
}

/* Starts the arguments of a trace entry with the name and the id of a buffer. */
static inline void
start(struct arguments *arguments, const char *name, uint32_t id)
{
    arguments->count = 0;
    if (*name)
        add_text(arguments, "buffer", any_text(name));
    add_number(arguments, "id", id);
}

/* Fills in the arguments of a trace entry for a use of a buffer: the buffer, the range, the access
 * and the place. */
static void
describe_use(struct arguments *out, const ferryi_store *store, size_t begin, size_t end,
             uint8_t access, int place)
{
    static const struct ferryi_trace_text names[] = {
        FERRYI_TRACE_ANY(""), FERRYI_TRACE_PLAIN("read"), FERRYI_TRACE_PLAIN("update"),
        FERRYI_TRACE_PLAIN("overwrite"), FERRYI_TRACE_PLAIN("give up")};
    static const struct ferryi_trace_text any_place = FERRYI_TRACE_PLAIN("any");
    start(out, ferryi_store_name(store), ferryi_store_number(store));
    add_number(out, "offset", begin);
    add_number(out, "bytes", end - begin);
    add_text(out, "access", names[access]);
    add_text(out, "place",
             place == FERRYI_PLACE_NONE ? any_place
                                        : ferryi_trace_place(store->context->trace, place));
}

static void
add(ferryi_trace *trace, struct ferryi_trace_text category, const char *name,
    const struct arguments *arguments)
{
    ferryi_trace_add(trace, &(struct ferryi_trace_entry){.phase = 'i',
                                                         .category = category,
                                                         .name = FERRYI_TRACE_ANY(name),
                                                         .arguments = arguments->list,
                                                         .argument_count = arguments->count});
}

/* Adds the begin ('b') or the end ('e') of a scope to the trace. */
static void
add_scope(const ferryi_store *store, char phase, const char *call, uint64_t id,
          const struct arguments *arguments)
{
    ferryi_trace_add(store->context->trace,
                     &(struct ferryi_trace_entry){.phase = phase,
                                                  .category = of_scope,
                                                  .name = FERRYI_TRACE_ANY(call),
                                                  .object = ferryi_store_number(store),
                                                  .number = id,
                                                  .arguments = arguments->list,
                                                  .argument_count = arguments->count});
}

void
ferryi_watch_created(ferryi_store *store, size_t bytes)
{
    if (!store->context->trace)
        return;
    struct ferryi_store_cold *cold = ferryi_store_make_cold(store);
    if (cold)
        atomic_store_explicit(
            &cold->number,
            atomic_fetch_add_explicit(&store->context->last_number, 1, memory_order_relaxed) + 1,
            memory_order_relaxed);
    struct arguments arguments;
    start(&arguments, ferryi_store_name(store), ferryi_store_number(store));
    add_number(&arguments, "bytes", bytes);
    add(store->context->trace, of_buffer, "create", &arguments);
}

void
ferryi_watch_opened(const struct ferryi_access *access)
{
    const ferryi_store *store = access->store;
    struct arguments arguments;
    if (!store->context->trace)
        return;
    describe_use(&arguments, store, access->begin, access->end, access->access, access->place);
    if (access->timeline)
        add_number(&arguments, "stream", access->timeline->number);
    add_scope(store, 'b', access->reason, access->id, &arguments);
}

static void
scope_end(const ferryi_store *store, const struct ferryi_claim *claim, uint64_t id,
          enum ferryi_close how)
{
    static const struct ferryi_trace_text closed = FERRYI_TRACE_PLAIN("close"),
                                          abandoned = FERRYI_TRACE_PLAIN("abandon");
    struct arguments arguments;
    if (!store->context->trace)
        return;
    describe_use(&arguments, store, claim->begin, claim->end, claim->access, claim->place);
    add_text(&arguments, "end", how == FERRYI_CLOSE_COMMIT ? closed : abandoned);
    add_scope(store, 'e', ferryi_scope_call(claim->access, claim->place), id, &arguments);
}

void
ferryi_watch_used(ferryi_store *store, struct ferryi_range range, uint8_t access, int place,
                  const char *reason)
{
    struct arguments arguments;
    ferryi_watch_waste(store, range, access, reason);
    if (!store->context->trace)
        return;
    describe_use(&arguments, store, range.begin, range.end, access, place);
    add(store->context->trace, of_use, reason, &arguments);
}

/* A read needs what was fetched, and a write that is given up leaves no bytes. An update by a scope
 * may use no more than the same scope has fetched. */
static void
scope_used(ferryi_store *store, const struct ferryi_claim *claim, enum ferryi_close how)
{
    if (claim->access != FERRY_UPDATE)
        ferryi_watch_waste(store, (struct ferryi_range){claim->begin, claim->end},
                           how == FERRYI_CLOSE_COMMIT ? claim->access : FERRY_READ,
                           ferryi_scope_call(claim->access, claim->place));
}

void
ferryi_watch_closed(const struct ferryi_access *access, const struct ferryi_claim *claim,
                    enum ferryi_close how)
{
    ferryi_store *store = access->store;
    ferryi_watch_pages(store);
    if (claim->access == FERRYI_ACCESS_DROP)
        return;
    if (!access->reason) {
        scope_used(store, claim, how);
        scope_end(store, claim, access->id, how);
    } else if (how == FERRYI_CLOSE_COMMIT) {
        ferryi_watch_used(store, (struct ferryi_range){claim->begin, claim->end}, claim->access,
                          claim->place, access->reason);
    }
}

void *
ferryi_watch_held(ferryi_store *store, int place, void *pointer, struct ferryi_range range)
{
    if (store->context->trace) {
        struct arguments arguments;
        start(&arguments, ferryi_store_name(store), ferryi_store_number(store));
        add_number(&arguments, "offset", range.begin);
        add_number(&arguments, "bytes", range.end - range.begin);
        add_text(&arguments, "place", ferryi_trace_place(store->context->trace, place));
        add(store->context->trace, of_buffer, "hold", &arguments);
    }
    ferryi_watch_no_waste(store);
    return ferryi_watch_pointer(store, place, pointer, "hold",
                                ferryi_shell_site(store->context, FERRYI_SITE_NONE), range);
}

/* -- pieces of one transfer -------------------------------------------------------------------- */

/* Returns the offset of an address from the start of the replica that contains it. The running
 * transfer has locked the range, which keeps the replica at its address. So the offset is never
 * negative. */
static size_t
offset_of(ferryi_store *store, int place, const void *memory)
{
    ferryi_store_lock(store);
    const char *base = ferryi_store_copy(store, place)->pointer;
    assert(base && (const char *)memory >= base &&
           (size_t)((const char *)memory - base) <= store->map.bytes);
    ferryi_store_unlock(store);
    return (size_t)((const char *)memory - base);
}

static void
watch_piece(const ferry_context *context, const struct ferryi_piece *piece, size_t bytes,
            const char *reason)
{
    ferryi_store *target = (ferryi_store *)(uintptr_t)piece->target_owner,
                 *source = (ferryi_store *)(uintptr_t)piece->source_owner;
    static const struct ferryi_trace_text value = FERRYI_TRACE_PLAIN("value"),
                                          caller = FERRYI_TRACE_PLAIN("caller");
    struct arguments arguments;
    ferryi_store *named = target ? target : source;
    if (!named)
        return;
    start(&arguments, ferryi_store_name(named), ferryi_store_number(named));
    add_number(&arguments, "offset",
               offset_of(named, target ? piece->target_place : piece->source_place,
                         target ? piece->target : piece->source));
    add_number(&arguments, "bytes", bytes);
    add_text(&arguments, "from",
             piece->zeros ? value
             : source     ? ferryi_trace_place(context->trace, piece->source_place)
                          : caller);
    add_text(&arguments, "to",
             target ? ferryi_trace_place(context->trace, piece->target_place) : caller);
    if (target && source) {
        add_number(&arguments, "source_id", ferryi_store_number(source));
        add_number(&arguments, "source_offset",
                   offset_of(source, piece->source_place, piece->source));
    }
    add(context->trace, of_piece, reason, &arguments);
}

void
ferryi_watch_pieces(const ferry_context *context, const struct ferryi_piece *pieces, size_t done,
                    const char *reason)
{
    for (; done > 0; pieces++) {
        size_t bytes = ferryi_min_size(pieces->bytes, done);
        watch_piece(context, pieces, bytes, reason);
        done -= bytes;
    }
}

/* -- launches and evictions -------------------------------------------------------------------- */

void
ferryi_watch_launch(const ferry_context *context, const char *kernel,
                    const ferryi_timeline *timeline, uint64_t begun_ns)
{
    struct arguments arguments;
    if (!context->trace)
        return;
    arguments.count = 0;
    add_text(&arguments, "place", ferryi_trace_place(context->trace, timeline->place));
    add_number(&arguments, "stream", timeline->number);
    ferryi_trace_add(context->trace,
                     &(struct ferryi_trace_entry){.phase = 'X',
                                                  .category = of_launch,
                                                  .name = FERRYI_TRACE_ANY(kernel),
                                                  .begun_ns = begun_ns,
                                                  .stream = {timeline->place, timeline->number},
                                                  .arguments = arguments.list,
                                                  .argument_count = arguments.count});
}

struct ferryi_watched_store
ferryi_watched_store(const ferryi_store *store)
{
    struct ferryi_watched_store out = {0};
    if (store->context->trace) {
        out.id = ferryi_store_number(store);
        snprintf(out.name, sizeof(out.name), "%s", ferryi_store_name(store));
    }
    return out;
}

void
ferryi_watch_eviction(const ferry_context *context, const struct ferryi_watched_store *store,
                      int place, size_t bytes)
{
    struct arguments arguments;
    if (!context->trace)
        return;
    start(&arguments, store->name, store->id);
    add_number(&arguments, "bytes", bytes);
    add_text(&arguments, "place", ferryi_trace_place(context->trace, place));
    add(context->trace, of_eviction, "evict", &arguments);
}
