/* SPDX-License-Identifier: MIT */
#include "cli/trace_summary.h"

#include <stdlib.h>
#include <string.h>

#include "cli/trace_stretches.h"

const char *const summary_directions[SUMMARY_DIRECTIONS] = {"upload",      "download",  "peer copy",
                                                            "device copy", "host copy", "fill"};

/* Bytes that were brought to a place for a use there. */
struct fetch {
    uint64_t id, bytes, ns;
    uint64_t overwritten; /* of them, before anything read them */
    const char *reason;
};

struct summary_lists {
    struct fetch *fetches;
    size_t count, room;
};

/* One more item of a list; NULL: no memory. */
static void *
extend(void **items, size_t *count, size_t *room, size_t item_bytes)
{
    if (*count == *room) {
        size_t larger = *room ? 2 * *room : 16;
        void *grown = realloc(*items, larger * item_bytes);
        if (!grown)
            return NULL;
        *items = grown;
        *room = larger;
    }
    void *item = (char *)*items + (*count)++ * item_bytes;
    memset(item, 0, item_bytes);
    return item;
}

#define EXTEND(owner, list, number, size)                                                          \
    extend((void **)&(owner)->list, &(owner)->number, &(owner)->size, sizeof(*(owner)->list))

static void
count_bytes(struct summary_count *count, uint64_t bytes, uint64_t ns)
{
    count->count++;
    count->bytes += bytes;
    count->ns += ns;
}

/* -- what the rows are of ---------------------------------------------------------------------- */

static struct summary_buffer *
find_buffer(struct summary *summary, const struct trace_event *event, uint64_t id)
{
    size_t low = 0, high = summary->buffer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (summary->buffers[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    struct summary_buffer *found = low < summary->buffer_count ? &summary->buffers[low] : NULL;
    if (!found || found->id != id) {
        if (!EXTEND(summary, buffers, buffer_count, buffer_room))
            return NULL;
        found = &summary->buffers[low];
        memmove(found + 1, found, (summary->buffer_count - 1 - low) * sizeof(*found));
        *found = (struct summary_buffer){
            .id = id, .name = "", .stretches = calloc(1, sizeof(*found->stretches))};
        if (!found->stretches)
            return NULL;
    }
    if (id == event->id && *event->buffer)
        found->name = event->buffer;
    return found;
}

static struct summary_reason *
find_reason(struct summary *summary, const char *name)
{
    for (size_t i = 0; i < summary->reason_count; i++)
        if (!strcmp(summary->reasons[i].name, name))
            return &summary->reasons[i];
    struct summary_reason *reason = EXTEND(summary, reasons, reason_count, reason_room);
    if (reason)
        reason->name = name;
    return reason;
}

static struct summary_wait *
find_wait(struct summary *summary, const char *name)
{
    for (size_t i = 0; i < summary->wait_count; i++)
        if (!strcmp(summary->waits[i].name, name))
            return &summary->waits[i];
    struct summary_wait *wait = EXTEND(summary, waits, wait_count, wait_room);
    if (wait)
        wait->name = name;
    return wait;
}

static enum summary_direction
direction_of(const struct trace_event *event)
{
    for (int i = 0; i < SUMMARY_DIRECTIONS; i++)
        if (!strcmp(summary_directions[i], event->name))
            return (enum summary_direction)i;
    return SUMMARY_DIRECTIONS;
}

static bool
begins_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

/* -- what became of each byte ------------------------------------------------------------------ */

/* What a visit does to one stretch. */
struct visit {
    struct summary *summary;
    const char *place; /* of a read; "any" for all */
    size_t fetch;      /* of a fetch: 1 + its index */
    char crossing;
};

static void
read_stretch(const struct visit *visit, struct stretch *stretch, uint64_t bytes)
{
    (void)bytes;
    if (stretch->fetch && (!strcmp(visit->place, "any") || !strcmp(visit->place, stretch->place)))
        stretch->fetch = 0;
}

static void
write_stretch(const struct visit *visit, struct stretch *stretch, uint64_t bytes)
{
    if (stretch->fetch)
        visit->summary->lists->fetches[stretch->fetch - 1].overwritten += bytes;
    stretch->fetch = 0;
}

static void
fetch_stretch(const struct visit *visit, struct stretch *stretch, uint64_t bytes)
{
    (void)bytes;
    stretch->fetch = visit->fetch;
    stretch->place = visit->place;
}

static void
cross_stretch(const struct visit *visit, struct stretch *stretch, uint64_t bytes)
{
    (void)bytes;
    stretch->crossings =
        stretch->last == visit->crossing ? stretch->crossings : stretch->crossings + 1;
    stretch->last = visit->crossing;
}

/* Every stretch of [offset, offset + bytes) of a buffer. False: no memory. */
static bool
visit_range(struct summary_buffer *buffer, uint64_t offset, uint64_t bytes,
            const struct visit *visit,
            void (*each)(const struct visit *visit, struct stretch *stretch, uint64_t bytes))
{
    size_t first, count;
    if (bytes == 0)
        return true;
    if (!stretches_of(buffer->stretches, offset, offset + bytes, &first, &count))
        return false;
    for (size_t i = first; i < first + count; i++) {
        struct stretch *stretch = &buffer->stretches->items[i];
        each(visit, stretch, stretch_end(buffer->stretches, i) - stretch->begin);
    }
    return true;
}

/* The uses that read what was fetched, if they do not overwrite it. Others, such as sync_to, bring
 * bytes for what the trace does not see. */
static bool
is_fetch(const char *reason)
{
    return begins_with(reason, "read_") || begins_with(reason, "update_") ||
           !strcmp(reason, "launch") || !strcmp(reason, "open_all") || !strcmp(reason, "prefetch");
}

static bool
add_fetch(struct summary *summary, struct summary_buffer *buffer, const struct trace_event *event)
{
    struct fetch *fetch = EXTEND(summary->lists, fetches, count, room);
    if (!fetch)
        return false;
    *fetch = (struct fetch){
        .id = buffer->id, .bytes = event->bytes, .ns = event->ns, .reason = event->reason};
    struct visit visit = {.summary = summary, .place = event->to, .fetch = summary->lists->count};
    return visit_range(buffer, event->offset, event->bytes, &visit, fetch_stretch);
}

/* -- events ------------------------------------------------------------------------------------ */

/* Bytes of one buffer went from one of its copies to another, or left it. */
static bool
follow_transfer(struct summary *summary, struct summary_buffer *buffer,
                const struct trace_event *event, enum summary_direction direction)
{
    struct visit visit = {.summary = summary,
                          .place = event->from,
                          .crossing = direction == SUMMARY_UPLOAD ? 'u' : 'd'};
    bool ok = true;
    if (!event->has_offset)
        return true;
    if (event->is_move || !strcmp(event->to, "caller"))
        ok = visit_range(buffer, event->offset, event->bytes, &visit, read_stretch);
    if (ok && event->is_move && (direction == SUMMARY_UPLOAD || direction == SUMMARY_DOWNLOAD))
        ok = visit_range(buffer, event->offset, event->bytes, &visit, cross_stretch);
    if (ok && event->is_move && is_fetch(event->reason) && !buffer->is_held)
        ok = add_fetch(summary, buffer, event);
    return ok;
}

static bool
add_transfer(struct summary *summary, const struct trace_event *event)
{
    enum summary_direction direction = direction_of(event);
    if (direction == SUMMARY_DIRECTIONS)
        return true;
    struct summary_reason *reason = find_reason(summary, event->reason);
    if (!reason)
        return false;
    count_bytes(&summary->moved[direction], event->bytes, event->ns);
    count_bytes(&reason->moved[direction], event->bytes, event->ns);
    if (!event->has_id)
        return true;
    struct summary_buffer *buffer = find_buffer(summary, event, event->id);
    if (!buffer)
        return false;
    count_bytes(&buffer->moved[direction], event->bytes, event->ns);
    return follow_transfer(summary, buffer, event, direction);
}

static enum summary_direction
direction_of_piece(const struct trace_event *piece)
{
    bool from_host = !strcmp(piece->from, "host") || !strcmp(piece->from, "caller"),
         to_host = !strcmp(piece->to, "host") || !strcmp(piece->to, "caller");
    if (!strcmp(piece->from, "value"))
        return SUMMARY_FILL;
    if (from_host || to_host)
        return from_host && to_host ? SUMMARY_HOST : to_host ? SUMMARY_DOWNLOAD : SUMMARY_UPLOAD;
    return strcmp(piece->from, piece->to) ? SUMMARY_PEER : SUMMARY_DEVICE;
}

/* A part of a transfer, of one buffer. */
static bool
add_piece(struct summary *summary, const struct trace_event *event)
{
    struct visit visit = {.summary = summary, .place = event->from};
    bool ok = true;
    if (event->source_id) {
        struct summary_buffer *source = find_buffer(summary, event, event->source_id);
        ok =
            source && visit_range(source, event->source_offset, event->bytes, &visit, read_stretch);
    }
    struct summary_buffer *buffer = ok ? find_buffer(summary, event, event->id) : NULL;
    if (!buffer)
        return false;
    count_bytes(&buffer->moved[direction_of_piece(event)], event->bytes, 0);
    return visit_range(buffer, event->offset, event->bytes, &visit,
                       strcmp(event->to, "caller") ? write_stretch : read_stretch);
}

/* A scope that opens or closes, or what a call did. A read counts when it begins, a write when it
 * ends. */
static bool
add_use(struct summary *summary, const struct trace_event *event)
{
    bool reads = !strcmp(event->access, "read") && event->phase != 'e';
    bool writes = !strcmp(event->access, "overwrite") && event->phase != 'b' &&
                  strcmp(event->end, "abandon") != 0;
    struct visit visit = {.summary = summary, .place = event->place};
    struct summary_buffer *buffer = find_buffer(summary, event, event->id);
    if (!buffer)
        return false;
    if (!event->has_offset || (!reads && !writes))
        return true;
    return visit_range(buffer, event->offset, event->bytes, &visit,
                       reads ? read_stretch : write_stretch);
}

/* From here on the program may read and write the copy without a scope. */
static bool
add_hold(struct summary_buffer *buffer)
{
    buffer->is_held = true;
    for (size_t i = 0; i < buffer->stretches->count; i++)
        buffer->stretches->items[i].fetch = 0;
    return true;
}

static bool
add_buffer_event(struct summary *summary, const struct trace_event *event)
{
    struct summary_buffer *buffer = find_buffer(summary, event, event->id);
    if (!buffer)
        return false;
    if (!strcmp(event->name, "hold"))
        return add_hold(buffer);
    if (!strcmp(event->name, "create"))
        buffer->bytes = event->bytes;
    return true;
}

static bool
add_eviction(struct summary *summary, const struct trace_event *event)
{
    struct summary_buffer *buffer = find_buffer(summary, event, event->id);
    if (!buffer)
        return false;
    summary->evictions++;
    count_bytes(&buffer->evicted, event->bytes, 0);
    return true;
}

static bool
add_wait(struct summary *summary, const struct trace_event *event)
{
    struct summary_wait *wait = find_wait(summary, event->name);
    if (wait)
        count_bytes(&wait->waited, 0, event->ns);
    return wait != NULL;
}

static bool
add_pool(struct summary *summary, const struct trace_event *event)
{
    if (!strcmp(event->name, "grow"))
        count_bytes(&summary->grown, event->bytes, event->ns);
    else if (!strcmp(event->name, "shrink"))
        count_bytes(&summary->shrunk, event->bytes, event->ns);
    return true;
}

static bool
add_launch(struct summary *summary, const struct trace_event *event)
{
    summary->launches += event->phase == 'X';
    return true;
}

static bool
add_event(struct summary *summary, const struct trace_event *event)
{
    static const struct {
        const char *category;
        bool (*add)(struct summary *summary, const struct trace_event *event);
    } sorts[] = {{"transfer", add_transfer}, {"piece", add_piece},         {"scope", add_use},
                 {"use", add_use},           {"buffer", add_buffer_event}, {"evict", add_eviction},
                 {"wait", add_wait},         {"pool", add_pool},           {"launch", add_launch}};
    for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++)
        if (!strcmp(sorts[i].category, event->category))
            return sorts[i].add(summary, event);
    return true;
}

/* -- rows -------------------------------------------------------------------------------------- */

static bool
add_fetch_row(struct summary *summary, struct summary_fetch **rows, size_t *count, size_t *room,
              const struct fetch *fetch)
{
    struct summary_fetch *row = NULL;
    for (size_t i = 0; i < *count && !row; i++)
        if ((*rows)[i].id == fetch->id && !strcmp((*rows)[i].reason, fetch->reason))
            row = &(*rows)[i];
    if (!row) {
        const struct trace_event none = {.buffer = ""};
        const struct summary_buffer *buffer = find_buffer(summary, &none, fetch->id);
        row = buffer ? extend((void **)rows, count, room, sizeof(*row)) : NULL;
        if (!row)
            return false;
        *row =
            (struct summary_fetch){.id = fetch->id, .reason = fetch->reason, .name = buffer->name};
    }
    count_bytes(&row->fetched, fetch->bytes, fetch->ns);
    return true;
}

static bool
make_fetch_rows(struct summary *summary)
{
    bool ok = true;
    for (size_t i = 0; i < summary->lists->count && ok; i++) {
        const struct fetch *fetch = &summary->lists->fetches[i];
        if (fetch->overwritten == fetch->bytes)
            ok = add_fetch_row(summary, &summary->overwritten, &summary->overwritten_count,
                               &summary->overwritten_room, fetch);
        if (ok && begins_with(fetch->reason, "update_"))
            ok = add_fetch_row(summary, &summary->updates, &summary->update_count,
                               &summary->update_room, fetch);
    }
    return ok;
}

static bool
make_rounds(struct summary *summary, uint64_t round_trips)
{
    for (size_t i = 0; i < summary->buffer_count; i++) {
        const struct summary_buffer *buffer = &summary->buffers[i];
        struct summary_round *last = NULL;
        for (size_t k = 0; k + 1 < buffer->stretches->count; k++) {
            const struct stretch *stretch = &buffer->stretches->items[k];
            uint64_t end = stretch_end(buffer->stretches, k);
            if (stretch->crossings / 2 < round_trips) {
                last = NULL;
            } else if (last && last->crossings == stretch->crossings) {
                last->bytes = end - last->offset;
            } else {
                last = EXTEND(summary, rounds, round_count, round_room);
                if (!last)
                    return false;
                *last = (struct summary_round){buffer->id, buffer->name, stretch->begin,
                                               end - stretch->begin, stretch->crossings};
            }
        }
    }
    return true;
}

static int
descending(uint64_t a, uint64_t b)
{
    return a > b ? -1 : a < b;
}

static uint64_t
all_bytes(const struct summary_count moved[SUMMARY_DIRECTIONS])
{
    uint64_t bytes = 0;
    for (int i = 0; i < SUMMARY_DIRECTIONS; i++)
        bytes += moved[i].bytes;
    return bytes;
}

static int
by_time(const void *a, const void *b)
{
    const struct trace_event *x = *(const struct trace_event *const *)a,
                             *y = *(const struct trace_event *const *)b;
    int order = descending(x->ns, y->ns);
    order = order ? order : descending(x->bytes, y->bytes);
    return order ? order : descending(y->line, x->line);
}

static int
by_reason_bytes(const void *a, const void *b)
{
    const struct summary_reason *x = a, *y = b;
    int order = descending(all_bytes(x->moved), all_bytes(y->moved));
    return order ? order : strcmp(x->name, y->name);
}

static int
by_fetched_bytes(const void *a, const void *b)
{
    const struct summary_fetch *x = a, *y = b;
    int order = descending(x->fetched.bytes, y->fetched.bytes);
    order = order ? order : descending(y->id, x->id);
    return order ? order : strcmp(x->reason, y->reason);
}

static int
by_round_bytes(const void *a, const void *b)
{
    const struct summary_round *x = a, *y = b;
    int order = descending(x->crossings, y->crossings);
    order = order ? order : descending(x->bytes, y->bytes);
    order = order ? order : descending(y->id, x->id);
    return order ? order : descending(y->offset, x->offset);
}

static int
by_waited(const void *a, const void *b)
{
    const struct summary_wait *x = a, *y = b;
    int order = descending(x->waited.ns, y->waited.ns);
    return order ? order : strcmp(x->name, y->name);
}

static void
sort(void *items, size_t *count, size_t most, size_t item_bytes,
     int (*compare)(const void *a, const void *b))
{
    if (*count > 0)
        qsort(items, *count, item_bytes, compare);
    if (*count > most)
        *count = most;
}

static bool
make_dearest(struct summary *summary, size_t most)
{
    const struct trace *trace = summary->trace;
    summary->dearest = malloc((trace->count + 1) * sizeof(*summary->dearest));
    if (!summary->dearest)
        return false;
    for (size_t i = 0; i < trace->count; i++)
        if (!strcmp(trace->events[i].category, "transfer") && trace->events[i].phase == 'X')
            summary->dearest[summary->dearest_count++] = &trace->events[i];
    sort(summary->dearest, &summary->dearest_count, most, sizeof(*summary->dearest), by_time);
    return true;
}

static void
find_span(struct summary *summary)
{
    const struct trace *trace = summary->trace;
    summary->begin_ns = UINT64_MAX;
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->phase == 'M')
            continue;
        summary->begin_ns =
            event->begin_ns < summary->begin_ns ? event->begin_ns : summary->begin_ns;
        summary->end_ns = event->begin_ns + event->ns > summary->end_ns
                              ? event->begin_ns + event->ns
                              : summary->end_ns;
    }
    if (summary->begin_ns > summary->end_ns)
        summary->begin_ns = summary->end_ns;
}

bool
summary_make(const struct trace *trace, const struct summary_options *options, struct summary *out)
{
    struct summary summary = {.trace = trace, .lists = calloc(1, sizeof(*summary.lists))};
    bool ok = summary.lists != NULL;
    for (size_t i = 0; i < trace->count && ok; i++)
        ok = add_event(&summary, &trace->events[i]);
    ok = ok && make_fetch_rows(&summary) && make_rounds(&summary, options->round_trips) &&
         make_dearest(&summary, options->top);
    if (!ok) {
        summary_free(&summary);
        return false;
    }
    find_span(&summary);
    sort(summary.reasons, &summary.reason_count, SIZE_MAX, sizeof(*summary.reasons),
         by_reason_bytes);
    sort(summary.overwritten, &summary.overwritten_count, options->top,
         sizeof(*summary.overwritten), by_fetched_bytes);
    sort(summary.updates, &summary.update_count, options->top, sizeof(*summary.updates),
         by_fetched_bytes);
    sort(summary.rounds, &summary.round_count, options->top, sizeof(*summary.rounds),
         by_round_bytes);
    sort(summary.waits, &summary.wait_count, SIZE_MAX, sizeof(*summary.waits), by_waited);
    *out = summary;
    return true;
}

void
summary_free(struct summary *summary)
{
    for (size_t i = 0; i < summary->buffer_count; i++) {
        if (summary->buffers[i].stretches)
            free(summary->buffers[i].stretches->items);
        free(summary->buffers[i].stretches);
    }
    if (summary->lists)
        free(summary->lists->fetches);
    free(summary->lists);
    free(summary->buffers);
    free(summary->reasons);
    free(summary->dearest);
    free(summary->overwritten);
    free(summary->updates);
    free(summary->rounds);
    free(summary->waits);
    *summary = (struct summary){0};
}
