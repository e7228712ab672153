/* SPDX-License-Identifier: MIT */
#include "src/store/pending_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/store/claim.h"

#define YIELDS_BEFORE_TIMELINES 64
#define FIRST_ROOM              8 /* number of entries in a new log */

/* An entry of the log: the use of one range. */
struct ferryi_pending_call {
    size_t begin, end;
    uint8_t place;
    bool reads;    /* whether the entry is a launch that reads the range (READ or UPDATE) */
    bool is_write; /* whether the entry is a launch that writes the range (UPDATE or OVERWRITE) */
    bool replaces; /* whether the entry is a committed write */
    bool pending;  /* whether the entry is a launch that has not ended */
    bool failed;   /* whether the entry is a launch whose host function failed or was not called */
    bool poisoned; /* whether the entry is a launch whose input an earlier launch failed to write */
};

static struct ferryi_pending_calls *
pending_calls_new(ferryi_store *store)
{
    struct ferryi_pending_calls *pending_calls = calloc(1, sizeof(*pending_calls));
    if (!pending_calls)
        return NULL;
    atomic_init(&pending_calls->references, 1);
    ferryi_mutex_init(&pending_calls->mutex);
    ferryi_mutex_is_needless(&pending_calls->mutex);
    pending_calls->store = store;
    pending_calls->first_number = 1;
    return pending_calls;
}

static void
release(struct ferryi_pending_calls *pending_calls)
{
    if (atomic_fetch_sub(&pending_calls->references, 1) != 1)
        return;
    ferryi_mutex_is_needless(&pending_calls->mutex);
    ferryi_mutex_destroy(&pending_calls->mutex);
    free(pending_calls->log);
    free(pending_calls->text);
    free(pending_calls);
}

/* -- the log ----------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static struct ferryi_pending_call *
entry_at(const struct ferryi_pending_calls *pending_calls, size_t index)
{
    return &pending_calls->log[pending_calls->first + index];
}

/* Returns the log entry of a launch's use of a range. Returns NULL if the use never had an entry,
 * or if its entry was removed. */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static struct ferryi_pending_call *
entry_of(const struct ferryi_body_use *use)
{
    const struct ferryi_pending_calls *pending_calls = use->pending_calls;
    return use->number < pending_calls->first_number
               ? NULL
               : entry_at(pending_calls, use->number - pending_calls->first_number);
}

/* Makes room for one more log entry. If more than half of the log's array is unused at its start,
 * moves the entries to the start. Otherwise enlarges the array. */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static bool
make_room(struct ferryi_pending_calls *pending_calls)
{
    if (pending_calls->first + pending_calls->count < pending_calls->room)
        return true;
    if (pending_calls->first <= pending_calls->room / 2) {
        size_t needed = ferryi_max_size(pending_calls->room + 1, FIRST_ROOM);
        if (!ferryi_grow(&pending_calls->log, &pending_calls->room, needed,
                         sizeof(*pending_calls->log)))
            return false;
    }
    if (pending_calls->first > 0)
        memmove(pending_calls->log, entry_at(pending_calls, 0),
                pending_calls->count * sizeof(*pending_calls->log));
    pending_calls->first = 0;
    return true;
}

/* Appends an entry to the log. Returns the number of the entry, or 0 if no memory can be allocated.
 */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static uint64_t
append(struct ferryi_pending_calls *pending_calls, struct ferryi_pending_call entry)
{
    if (!make_room(pending_calls))
        return 0;
    *entry_at(pending_calls, pending_calls->count) = entry;
    return pending_calls->first_number + pending_calls->count++;
}

/* Removes entries from the start of the log, and stops at the first entry that is still needed. An
 * entry is needed while its launch is pending, if the launch writes or its input is lost. The entry
 * of a pending launch that only reads is not needed at the start of the log: no older launch is
 * left that could fail and lose the bytes that it reads. */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static void
drop_first_entries(struct ferryi_pending_calls *pending_calls)
{
    while (pending_calls->count > 0 &&
           (!entry_at(pending_calls, 0)->pending ||
            !(entry_at(pending_calls, 0)->is_write || entry_at(pending_calls, 0)->poisoned))) {
        pending_calls->first++;
        pending_calls->first_number++;
        pending_calls->count--;
    }
    if (pending_calls->count > 0)
        return;
    pending_calls->first = 0;
    pending_calls->places = 0;
    if (pending_calls->room > FIRST_ROOM) {
        free(pending_calls->log);
        pending_calls->log = NULL;
        pending_calls->room = 0;
    }
}

/*
 * Follows the effects of a failed launch, which did not write [begin, end), through the log entries
 * from `index` on. A later launch that reads some of these bytes is marked as poisoned, which means
 * that it must fail, too. If a later write was committed, the bytes that it replaced no longer
 * belong to the failed range. If `loses` is true, the bytes that remain are marked as lost. Entries
 * at other places are skipped, because their launches read other replicas.
 */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static void
spread(struct ferryi_pending_calls *pending_calls, size_t index, size_t begin, size_t end,
       int place, bool loses)
{
    for (; index < pending_calls->count && begin < end; index++) {
        struct ferryi_pending_call *entry = entry_at(pending_calls, index);
        if (entry->place != place || !ferryi_overlap(entry->begin, entry->end, begin, end))
            continue;
        entry->poisoned = entry->poisoned || entry->reads;
        if (!entry->replaces)
            continue;
        size_t left_end = ferryi_max_size(entry->begin, begin),
               right_begin = ferryi_min_size(entry->end, end);
        /* The recursive call handles the smaller of the two remaining parts. The depth of the
         * recursion is therefore at most the number of bits of a size_t. */
        if (left_end - begin < end - right_begin) {
            spread(pending_calls, index + 1, begin, left_end, place, loses);
            begin = right_begin;
        } else {
            spread(pending_calls, index + 1, right_begin, end, place, loses);
            end = left_end;
        }
    }
    if (begin < end && loses && pending_calls->store)
        ferryi_store_lose(pending_calls->store, place, begin, end, pending_calls->status,
                          pending_calls->text);
}

FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static void
spread_from(struct ferryi_pending_calls *pending_calls, size_t index, bool loses)
{
    const struct ferryi_pending_call *entry = entry_at(pending_calls, index);
    spread(pending_calls, index + 1, entry->begin, entry->end, entry->place, loses);
}

/* -- uses -------------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static void
count_pending(struct ferryi_pending_calls *pending_calls, int more)
{
    uint32_t pending = atomic_fetch_add(&pending_calls->pending, (uint32_t)more) + (uint32_t)more;
    ferryi_store *store = pending_calls->store;
    if (!store)
        return;
    ferryi_store_lock(store);
    uint64_t word = atomic_load_explicit(&store->word, memory_order_relaxed) &
                    ~(uint64_t)FERRYI_STORE_PENDING_CALLS;
    atomic_store_explicit(&store->word, word | (pending > 0 ? FERRYI_STORE_PENDING_CALLS : 0),
                          memory_order_relaxed);
    ferryi_store_unlock(store);
}

/* Returns the buffer's struct of pending calls, and adds a reference for the caller. The first call
 * for a buffer creates the struct. Returns NULL if no memory can be allocated. */
static struct ferryi_pending_calls *
obtain(ferryi_store *store)
{
    struct ferryi_store_cold *cold = ferryi_store_make_cold(store);
    struct ferryi_pending_calls *pending_calls = cold ? atomic_load(&cold->pending_calls) : NULL;
    if (!pending_calls) {
        struct ferryi_pending_calls *fresh = cold ? pending_calls_new(store) : NULL;
        if (!fresh)
            return NULL;
        if (atomic_compare_exchange_strong(&cold->pending_calls, &pending_calls, fresh))
            pending_calls = fresh;
        else
            release(fresh);
    }
    atomic_fetch_add(&pending_calls->references, 1);
    return pending_calls;
}

/* Returns whether the access reads lost bytes. Bytes that an open write of the same stream covers
 * do not count as lost, because this write replaces them before the access reads them. */
FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_lost(const ferryi_store *store, const struct ferryi_access *access)
{
    struct ferryi_range part = {0, access->begin};
    while (part.end < access->end) {
        part = ferryi_claim_uncovered(store, access, part.end);
        if (ferryi_store_has_lost(store, part))
            return true;
    }
    return false;
}

/* Fails if the valid map marks bytes of the access's range as lost. The map contains only the
 * losses of launches that have ended. The failures of pending launches are found in the log
 * instead. */
static ferry_status
check_lost(const struct ferryi_access *access)
{
    char text[512];
    ferryi_store *store = access->store;
    ferryi_store_lock(store);
    const struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    bool lost = is_lost(store, access);
    ferry_status status = ferryi_store_lost_status(cold);
    if (lost)
        snprintf(text, sizeof(text), "%s", ferryi_store_lost_text(cold));
    ferryi_store_unlock(store);
    return lost ? ferryi_fail(status, "its input was lost: %s", text) : FERRY_OK;
}

FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static ferry_status
begin_use(struct ferryi_body_use *use, const struct ferryi_access *access,
          const struct ferryi_pending_call *entry)
{
    struct ferryi_pending_calls *pending_calls = use->pending_calls;
    ferry_status status = entry->reads ? check_lost(access) : FERRY_OK;
    /* An earlier write that fails would make this launch fail, too. If the log is empty, there is
     * no earlier write that can fail. So a launch that only reads then needs no entry. */
    if (status != FERRY_OK || (pending_calls->count == 0 && !entry->is_write))
        return status;
    use->number = append(pending_calls, *entry);
    if (!use->number)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "no memory to track kernels that use buffer \"%s\"",
                           ferryi_store_name(access->store));
    if (entry->is_write) {
        pending_calls->places |= FERRYI_PLACE_BIT(entry->place);
        count_pending(pending_calls, 1);
    }
    return FERRY_OK;
}

ferry_status
ferryi_pending_calls_begin(const struct ferryi_access *access, struct ferryi_body_use *out)
{
    const struct ferryi_pending_call entry = {.begin = access->begin,
                                              .end = access->end,
                                              .place = access->place,
                                              .reads = access->access != FERRY_OVERWRITE,
                                              .is_write = access->access != FERRY_READ,
                                              .pending = true};
    *out = (struct ferryi_body_use){.pending_calls = obtain(access->store),
                                    .is_write = entry.is_write};
    if (!out->pending_calls)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "no memory to track kernels that use buffer \"%s\"",
                           ferryi_store_name(access->store));
    ferryi_mutex_lock(&out->pending_calls->mutex);
    ferry_status status = begin_use(out, access, &entry);
    ferryi_mutex_unlock(&out->pending_calls->mutex);
    return status;
}

void
ferryi_pending_calls_commit(const struct ferryi_body_use *use)
{
    ferryi_mutex_lock(&use->pending_calls->mutex);
    struct ferryi_pending_call *entry = entry_of(use);
    if (entry)
        entry->replaces = entry->is_write;
    ferryi_mutex_unlock(&use->pending_calls->mutex);
}

void
ferryi_pending_calls_queued(const struct ferryi_body_use *use, const ferryi_timeline *timeline)
{
    /* A stream may have no number in the context's table of timelines. Its uses are then recorded
     * on the join timeline of its place, which waits for all streams without a number. */
    if (!ferryi_timeline_is_numbered(timeline))
        timeline = timeline->order->joins[timeline->place];
    if (timeline && use->is_write)
        atomic_fetch_or(&use->pending_calls->timelines, UINT64_C(1) << timeline->number);
}

/* Marks launches as poisoned if they read bytes of a failed launch, so that they fail, too.
 * Considers only failed launches whose end is not yet recorded. */
FERRYI_REQUIRES(ferryi_pending_calls_mutex)
static void
spread_failing(struct ferryi_pending_calls *pending_calls)
{
    if (!pending_calls->failing)
        return;
    for (size_t i = 0; i < pending_calls->count; i++)
        if (entry_at(pending_calls, i)->failed && entry_at(pending_calls, i)->pending)
            spread_from(pending_calls, i, false);
}

ferry_status
ferryi_pending_calls_input(const struct ferryi_body_use *use, char *text, size_t text_bytes)
{
    struct ferryi_pending_calls *pending_calls = use->pending_calls;
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&pending_calls->mutex);
    spread_failing(pending_calls);
    const struct ferryi_pending_call *entry = entry_of(use);
    if (entry && entry->poisoned) {
        status = pending_calls->status;
        snprintf(text, text_bytes, "%s",
                 pending_calls->text ? pending_calls->text
                                     : "there was no memory to keep the reason");
    }
    ferryi_mutex_unlock(&pending_calls->mutex);
    return status;
}

void
ferryi_pending_calls_fail(const struct ferryi_body_use *use, ferry_status status, const char *text)
{
    struct ferryi_pending_calls *pending_calls = use->pending_calls;
    char *old = strdup(text);
    ferryi_mutex_lock(&pending_calls->mutex);
    struct ferryi_pending_call *entry = entry_of(use);
    if (entry && entry->is_write) {
        char *newest = old;
        old = pending_calls->text;
        pending_calls->text = newest;
        pending_calls->status = status;
        pending_calls->failing++;
        entry->failed = true;
    }
    ferryi_mutex_unlock(&pending_calls->mutex);
    free(old);
}

void
ferryi_pending_calls_end(struct ferryi_body_use *use)
{
    struct ferryi_pending_calls *pending_calls = use->pending_calls;
    if (!pending_calls)
        return;
    ferryi_mutex_lock(&pending_calls->mutex);
    struct ferryi_pending_call *entry = entry_of(use);
    if (entry) {
        if (entry->failed) {
            spread_from(pending_calls, use->number - pending_calls->first_number, true);
            pending_calls->failing--;
        }
        if (entry->is_write)
            count_pending(pending_calls, -1);
        entry->pending = false;
        drop_first_entries(pending_calls);
    }
    ferryi_mutex_unlock(&pending_calls->mutex);
    release(pending_calls);
    use->pending_calls = NULL;
}

void
ferryi_pending_calls_overwritten(ferryi_store *store, int place, size_t begin, size_t end)
{
    if (!ferryi_pending_calls_are_pending(store))
        return;
    struct ferryi_pending_calls *pending_calls =
        atomic_load(&ferryi_store_cold_of(store)->pending_calls);
    ferryi_mutex_lock(&pending_calls->mutex);
    /* If no memory can be allocated for the entry, a later failure marks more bytes as lost than
     * necessary, but never fewer. So the result is ignored. */
    if (pending_calls->places & FERRYI_PLACE_BIT(place))
        (void)append(pending_calls,
                     (struct ferryi_pending_call){
                         .begin = begin, .end = end, .place = (uint8_t)place, .replaces = true});
    ferryi_mutex_unlock(&pending_calls->mutex);
}

bool
ferryi_pending_calls_are_at(ferryi_store *store, ferryi_places places)
{
    if (!ferryi_pending_calls_are_pending(store))
        return false;
    struct ferryi_pending_calls *pending_calls =
        atomic_load(&ferryi_store_cold_of(store)->pending_calls);
    ferryi_mutex_lock(&pending_calls->mutex);
    bool are = pending_calls->places & places;
    ferryi_mutex_unlock(&pending_calls->mutex);
    return are;
}

void
ferryi_pending_calls_cut(ferryi_store *store)
{
    struct ferryi_store_cold *cold = ferryi_store_cold_of(store);
    struct ferryi_pending_calls *pending_calls =
        cold ? atomic_exchange(&cold->pending_calls, NULL) : NULL;
    if (!pending_calls)
        return;
    ferryi_mutex_lock(&pending_calls->mutex);
    pending_calls->store = NULL;
    ferryi_mutex_unlock(&pending_calls->mutex);
    release(pending_calls);
}

static ferry_status
wait_for_writes(ferryi_store *store)
{
    ferry_status status = FERRY_OK;
    for (int place = 1; place <= store->context->place_count && status == FERRY_OK; place++) {
        ferryi_store_lock(store);
        ferryi_sync_point written = ferryi_store_copy(store, place)->written;
        ferryi_store_unlock(store);
        status = ferryi_sync_point_wait(&store->context->order, NULL, written);
    }
    return status;
}

/*
 * Waits until no pending launch writes the buffer. A write's sync point is complete slightly before
 * its launch is marked as ended, so the function waits in a loop. If a replica was freed during the
 * wait, its write has no sync point any more. So after some tries, the loop waits for the timelines
 * of the launches instead.
 */
void
ferryi_pending_calls_wait(ferryi_store *store)
{
    ferry_status status = FERRY_OK;
    for (unsigned tries = 0; status == FERRY_OK && ferryi_pending_calls_are_pending(store);
         tries++) {
        if (tries < YIELDS_BEFORE_TIMELINES)
            status = wait_for_writes(store);
        else
            status = ferryi_timelines_wait(
                &store->context->order, NULL,
                atomic_load(&atomic_load(&ferryi_store_cold_of(store)->pending_calls)->timelines));
        /* An error of the wait is not returned here. The caller's next use of the device fails with
         * the same error. */
        if (status == FERRY_OK && ferryi_pending_calls_are_pending(store))
            ferryi_yield();
    }
}
