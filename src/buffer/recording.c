/* SPDX-License-Identifier: MIT */
#include "src/buffer/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/lease.h"

/* -- net accesses ------------------------------------------------------------------------------ */

/* Returns the access of bytes that have the access `before` so far, and are then used again. */
static uint8_t
then(uint8_t before, uint8_t use)
{
    if (before == FERRY_OVERWRITE)
        return FERRY_OVERWRITE;
    return before == use ? before : FERRY_UPDATE;
}

/* Appends a part of a range to a list, or extends the last part. */
static void
append(struct ferryi_access *out, size_t *count, const struct ferryi_access *like, size_t begin,
       size_t end, uint8_t access)
{
    struct ferryi_access *last = *count ? &out[*count - 1] : NULL;
    if (begin >= end)
        return;
    if (last && last->store == like->store && last->end == begin && last->access == access) {
        last->end = end;
        return;
    }
    out[*count] = *like;
    out[*count].begin = begin;
    out[*count].end = end;
    out[*count].access = access;
    out[*count].pointer = (char *)like->pointer + (begin - like->begin);
    ++*count;
}

size_t
ferryi_net_add(const struct ferryi_access *net, size_t count, const struct ferryi_access *use,
               struct ferryi_access *out)
{
    size_t left = 0, i = 0, at = use->begin;
    for (; i < count && (ferryi_access_compare(&net[i], use) <= 0 || net[i].store == use->store);
         i++) {
        const struct ferryi_access *old = &net[i];
        if (old->store != use->store || old->end <= use->begin) {
            append(out, &left, old, old->begin, old->end, old->access);
            continue;
        }
        if (old->begin >= use->end)
            break;
        size_t from = ferryi_max_size(old->begin, use->begin),
               to = ferryi_min_size(old->end, use->end);
        append(out, &left, old, old->begin, from, old->access);
        append(out, &left, use, at, from, use->access);
        append(out, &left, use, from, to, then(old->access, use->access));
        append(out, &left, old, to, old->end, old->access);
        at = to;
    }
    append(out, &left, use, at, use->end, use->access);
    for (; i < count; i++)
        append(out, &left, &net[i], net[i].begin, net[i].end, net[i].access);
    return left;
}

/* Computes the net accesses after the uses of `list`, in next_net. */
static ferry_status
compute_net(struct ferryi_recording *recording, const struct ferryi_access *list, size_t count)
{
    size_t left = recording->net_count;
    struct ferryi_access *now = malloc((left + 1) * sizeof(*now));
    if (now && left)
        memcpy(now, recording->net, left * sizeof(*now));
    for (size_t i = 0; i < count && now; i++) {
        struct ferryi_access *next = malloc((2 * left + 3) * sizeof(*next));
        if (next)
            left = ferryi_net_add(now, left, &list[i], next);
        free(now);
        now = next;
    }
    if (!now)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu ranges", 2 * left + 3);
    recording->next_net = now;
    recording->next_net_count = left;
    return FERRY_OK;
}

/* -- holding ----------------------------------------------------------------------------------- */

static ferry_status
add_lease(struct ferryi_recording *recording, ferryi_store *store)
{
    char label[128];
    if (recording->lease_count == recording->lease_room) {
        size_t room = 2 * recording->lease_room + 8;
        ferry_lease **more = realloc(recording->leases, room * sizeof(*more));
        if (!more)
            return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for %zu leases", room);
        recording->leases = more;
        recording->lease_room = room;
    }
    snprintf(label, sizeof(label), "graph \"%.100s\"", recording->head.name);
    ferry_status status = ferryi_lease_hold(store, recording->timeline->place, label,
                                            &recording->leases[recording->lease_count]);
    recording->lease_count += status == FERRY_OK;
    return status;
}

/* Holds the replica of a buffer at the place of the stream, and returns where it is. */
static ferry_status
hold(struct ferryi_recording *recording, ferryi_store *store, char **out)
{
    size_t i = 0;
    while (i < recording->lease_count && recording->leases[i]->store != store)
        i++;
    if (i == recording->lease_count)
        FERRYI_OR_RETURN(add_lease(recording, store));
    *out = recording->leases[i]->pointer;
    return FERRY_OK;
}

ferry_status
ferryi_recording_prepare(struct ferryi_recording *recording, struct ferryi_access *list,
                         size_t count)
{
    if (atomic_exchange(&recording->busy, true))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "record graph \"%s\": another thread uses its stream now",
                           recording->head.name);
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < count && status == FERRY_OK; i++) {
        char *replica = NULL;
        status = hold(recording, list[i].store, &replica);
        if (status == FERRY_OK)
            list[i].pointer = replica + list[i].begin;
    }
    if (status == FERRY_OK)
        status = compute_net(recording, list, count);
    if (status == FERRY_OK)
        return FERRY_OK;
    atomic_store(&recording->busy, false);
    return ferryi_fail_in(status, "record graph \"%s\"", recording->head.name);
}

ferry_status
ferryi_recording_finish(struct ferryi_recording *recording, ferry_status status)
{
    struct ferryi_access *unused = status == FERRY_OK ? recording->net : recording->next_net;
    if (status == FERRY_OK) {
        recording->net = recording->next_net;
        recording->net_count = recording->next_net_count;
    }
    recording->next_net = NULL;
    free(unused);
    atomic_store(&recording->busy, false);
    return status;
}

void
ferryi_recording_add(struct ferryi_recording *recording, struct ferryi_recorded_call *call)
{
    call->next = NULL;
    *(recording->last ? &recording->last->next : &recording->first) = call;
    recording->last = call;
}

void
ferryi_recording_release(struct ferryi_recording *recording)
{
    for (size_t i = 0; i < recording->lease_count; i++)
        ferryi_lease_release(recording->leases[i]);
    free(recording->leases);
    free(recording->net);
}

void
ferryi_recording_free(struct ferryi_recording *recording)
{
    for (struct ferryi_recorded_call *call = recording->first, *next; call; call = next) {
        next = call->next;
        call->free(call);
    }
}

/* -- work that is no kernel -------------------------------------------------------------------- */

ferry_status
ferryi_recording_use(struct ferryi_recording *recording, struct ferryi_access *access)
{
    if (!recording->is_captured)
        return ferryi_timeline_refuse_recording(recording->timeline);
    FERRYI_OR_RETURN(ferryi_recording_prepare(recording, access, 1));
    return ferryi_recording_finish(recording, FERRY_OK);
}

/* A fill or a copy that Ferry records. */
struct moved {
    struct ferryi_recorded_call call;
    char *target;
    const char *source; /* NULL: a fill */
    size_t bytes, value_bytes;
    char value[sizeof(uint32_t)];
};

static ferry_status
run_moved(struct ferryi_recorded_call *call, char *text, size_t text_bytes)
{
    const struct moved *moved = (const struct moved *)call;
    (void)text, (void)text_bytes;
    if (moved->source) {
        memcpy(moved->target, moved->source, moved->bytes);
        return FERRY_OK;
    }
    if (moved->value_bytes == 1)
        memset(moved->target, moved->value[0], moved->bytes);
    for (size_t done = 0; moved->value_bytes > 1 && done < moved->bytes; done += moved->value_bytes)
        memcpy(moved->target + done, moved->value, moved->value_bytes);
    return FERRY_OK;
}

static void
free_moved(struct ferryi_recorded_call *call)
{
    free(call);
}

static ferry_status
add_moved(struct ferryi_recording *recording, const struct moved *like)
{
    struct moved *moved = malloc(sizeof(*moved));
    if (!moved)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "record graph \"%s\": no memory",
                           recording->head.name);
    *moved = *like;
    moved->call = (struct ferryi_recorded_call){.run = run_moved, .free = free_moved};
    ferryi_recording_add(recording, &moved->call);
    return FERRY_OK;
}

/* Returns the length of the shortest value that gives the same bytes when it is repeated: 1, 2 or
 * 4. Returns 0 if none does. */
static size_t
shortest(const void *value, size_t bytes)
{
    for (size_t shorter = 1; shorter <= sizeof(uint32_t) && shorter <= bytes; shorter *= 2)
        if (bytes % shorter == 0 &&
            memcmp(value, (const char *)value + shorter, bytes - shorter) == 0)
            return shorter;
    return 0;
}

static struct ferryi_access
access_of(const struct ferryi_recording *recording, ferryi_store *store, struct ferryi_range range,
          ferry_access access, const char *reason)
{
    struct ferryi_access out =
        ferryi_access_of(store, range, (uint8_t)access, recording->timeline->place, reason);
    out.timeline = recording->timeline;
    out.is_launch = true;
    return out;
}

ferry_status
ferryi_recording_fill(struct ferryi_recording *recording, ferryi_store *store,
                      struct ferryi_range range, const void *value, size_t value_bytes)
{
    ferryi_timeline *timeline = recording->timeline;
    struct ferryi_access access = access_of(recording, store, range, FERRY_OVERWRITE, "fill");
    size_t bytes = shortest(value, value_bytes);
    uint32_t pattern = 0;
    if (range.begin == range.end)
        return FERRY_OK;
    if (bytes == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "fill buffer \"%s\" in graph \"%s\": the value is no repetition of 1, 2 "
                           "or 4 bytes; write it with a kernel",
                           ferryi_store_name(store), recording->head.name);
    FERRYI_OR_RETURN(ferryi_recording_prepare(recording, &access, 1));
    memcpy(&pattern, value, bytes);
    struct moved moved = {
        .target = access.pointer, .bytes = range.end - range.begin, .value_bytes = bytes};
    memcpy(moved.value, value, bytes);
    ferry_status status = recording->is_captured
                              ? FERRYI_CALL(timeline->device, fill, moved.target, pattern, bytes,
                                            moved.bytes / bytes, timeline->native)
                              : add_moved(recording, &moved);
    return ferryi_recording_finish(recording, status);
}

ferry_status
ferryi_recording_copy(struct ferryi_recording *recording, ferryi_store *target,
                      struct ferryi_range to, ferryi_store *source, struct ferryi_range from)
{
    ferryi_timeline *timeline = recording->timeline;
    struct ferryi_access list[2] = {access_of(recording, source, from, FERRY_READ, "copy"),
                                    access_of(recording, target, to, FERRY_OVERWRITE, "copy")};
    if (to.begin == to.end)
        return FERRY_OK;
    if (target == source && to.begin < from.end && from.begin < to.end)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "copy within buffer \"%s\" in graph \"%s\": the two ranges overlap",
                           ferryi_store_name(target), recording->head.name);
    FERRYI_OR_RETURN(ferryi_recording_prepare(recording, list, 2));
    const struct ferryi_copy copy = {.target = list[1].pointer,
                                     .source = list[0].pointer,
                                     .bytes = to.end - to.begin,
                                     .direction = FERRY_DIRECTION_DEVICE};
    struct moved moved = {
        .target = list[1].pointer, .source = list[0].pointer, .bytes = copy.bytes};
    ferry_status status = recording->is_captured
                              ? FERRYI_CALL(timeline->device, copy, &copy, timeline->native)
                              : add_moved(recording, &moved);
    return ferryi_recording_finish(recording, status);
}
