/* SPDX-License-Identifier: MIT */
#include "src/buffer/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"
#include "src/buffer/lease.h"
#include "src/debug/debug.h"

#define BUCKETS   1024
#define RETIRED   4096 /* guards kept after their replicas were freed */
#define RED       0xA5 /* fill byte of a red zone */
#define STALE     4    /* flag of a page, beside its protection: newer bytes are elsewhere */
#define NAME_ROOM 64
#define WAIT_NS                                                                                    \
    2000000000u /* how long a fault handler waits for the mutex before the program ends without an \
                   explanation */

struct guard {
    struct guard *next;     /* in its bucket, or in the list of retired guards */
    ferry_context *context; /* for the log; NULL in a retired guard */
    char *memory;           /* the engine's address; whole pages */
    char *alias;            /* the user's address of the same pages */
    size_t bytes, mapped;   /* bytes of the buffer; bytes of its pages */
    size_t page_count;
    unsigned char *pages; /* page_count current protections, then page_count wanted ones */
    struct ferryi_guard_note *notes; /* of leases, newest first */
    const char *gone;                /* why the replica was freed; NULL: it still exists */
    const char *call;                /* the call that opened it last, and its range */
    size_t call_begin, call_end;
    ferryi_site site; /* call site of that call */
    char name[NAME_ROOM];
};

FERRYI_MUTEX_CLASS(ferryi_guards_mutex);

static struct {
    struct ferryi_guards_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_guards_mutex) struct {
        struct guard *buckets[BUCKETS];
        struct guard *retired, **retired_end;
        size_t retired_count;
    };
} guards = {.mutex = FERRYI_MUTEX_INITIALIZER, .retired_end = &guards.retired};
static struct ferryi_fork_part guarding = {.mutex = FERRYI_SYSTEM_MUTEX(&guards.mutex)};
FERRYI_AT_FORK_UNDER(guarding, 2)

FERRYI_REQUIRES(ferryi_guards_mutex)
static struct guard **
bucket_of(const void *memory)
{
    return &guards.buckets[((uintptr_t)memory >> 12) % BUCKETS];
}

/* Returns the link to the guard of a replica. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static struct guard **
find(const void *memory)
{
    struct guard **at = bucket_of(memory);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    return at;
}

static bool
is_guarded(ferryi_store *store)
{
    return atomic_load_explicit(&store->word, memory_order_relaxed) & FERRYI_STORE_GUARDED;
}

/* -- the message of a fault -------------------------------------------------------------------- */

/* Returns the note of the newest lease on the byte, or NULL. */
static const struct ferryi_guard_note *
note_at(const struct guard *guard, size_t offset)
{
    const struct ferryi_guard_note *note = guard->notes;
    while (note && (offset < note->begin || offset >= note->end))
        note = note->next;
    return note;
}

static void
describe(const struct guard *guard, const char *address, bool writes, char *text, size_t text_bytes)
{
    const char *verb = writes ? "write to" : "read of";
    unsigned char page = 0;
    bool inside = address >= guard->alias && address < guard->alias + guard->mapped;
    if (inside)
        page = guard->pages[(size_t)(address - guard->alias) / ferryi_page_bytes()];
    if (address < guard->alias)
        snprintf(text, text_bytes, "ferry: %s memory %zu bytes before the start of buffer \"%s\"",
                 verb, (size_t)(guard->alias - address), guard->name);
    else if (address >= guard->alias + guard->bytes)
        snprintf(text, text_bytes,
                 "ferry: %s memory %zu bytes past the end of buffer \"%s\" of %zu bytes", verb,
                 (size_t)(address - guard->alias) - guard->bytes, guard->name, guard->bytes);
    else
        snprintf(text, text_bytes, "ferry: %s byte %zu of buffer \"%s\"", verb,
                 (size_t)(address - guard->alias), guard->name);
    const struct ferryi_guard_note *note =
        inside ? note_at(guard, (size_t)(address - guard->alias)) : NULL;
    text_bytes -= strlen(text);
    text += strlen(text);
    if (note && (page & 3) == 0) {
        snprintf(
            text, text_bytes,
            ", used after its access ended: the lease of bytes %zu to %zu, held by %s, is closed",
            note->begin, note->end, note->label);
        return;
    }
    if (guard->gone)
        snprintf(text, text_bytes, ", which %s; the pointer came from %s", guard->gone,
                 guard->call);
    else if (inside && writes && (page & 3) == FERRYI_PROTECT_READ)
        snprintf(text, text_bytes,
                 ": the pointer came from %s of bytes %zu to %zu, and may only be read",
                 guard->call, guard->call_begin, guard->call_end);
    else if (page & STALE)
        snprintf(text, text_bytes,
                 " in no open scope, where newer bytes are at another place; the last call was %s "
                 "of bytes %zu to %zu",
                 guard->call, guard->call_begin, guard->call_end);
    else
        snprintf(text, text_bytes, " in no open scope; the last one was %s of bytes %zu to %zu",
                 guard->call, guard->call_begin, guard->call_end);
    text_bytes -= strlen(text);
    text += strlen(text);
    const char *site = ferryi_site_text(guard->site);
    if (*site)
        snprintf(text, text_bytes, ", by %s", site);
}

static const struct guard *
find_alias(const struct guard *guard, const char *address)
{
    size_t page = ferryi_page_bytes();
    while (guard &&
           !(address >= guard->alias - page && address < guard->alias + guard->mapped + page))
        guard = guard->next;
    return guard;
}

FERRYI_REQUIRES(ferryi_guards_mutex)
static const struct guard *
find_address(const char *address)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        const struct guard *guard = find_alias(guards.buckets[i], address);
        if (guard)
            return guard;
    }
    return find_alias(guards.retired, address);
}

/* Describes a fault. Runs in a signal handler. The faulting thread holds no lock of Ferry, but
 * another thread may briefly hold the mutex. */
static bool
explain(const char *address, bool writes, char *text, size_t text_bytes)
{
    uint64_t end = ferryi_now_ns() + WAIT_NS;
    while (!ferryi_mutex_try_lock(&guards.mutex)) {
        if (ferryi_now_ns() >= end)
            return false;
        ferryi_yield();
    }
    const struct guard *guard = find_address(address);
    if (guard)
        describe(guard, address, writes, text, text_bytes);
    ferryi_mutex_unlock(&guards.mutex);
    return guard;
}

bool
ferryi_guard_names(const void *address, char *name, size_t name_bytes)
{
    ferryi_mutex_lock(&guards.mutex);
    const struct guard *guard = find_address(address);
    if (guard)
        snprintf(name, name_bytes, "%s", guard->name);
    ferryi_mutex_unlock(&guards.mutex);
    return guard;
}

/* -- making ------------------------------------------------------------------------------------ */

static bool
has_own_pages(const ferryi_store *store, int place)
{
    return store->context->debug && store->memory != FERRY_MEMORY_MANAGED &&
           ferryi_store_same_memory(store, place, 0);
}

void
ferryi_guard_plan(const ferryi_store *store, int place, size_t *bytes, size_t *align)
{
    size_t rounded;
    if (!has_own_pages(store, place) || !ferryi_round_up(*bytes, ferryi_page_bytes(), &rounded))
        return;
    *bytes = rounded;
    *align = ferryi_max_size(*align, ferryi_page_bytes());
}

static void
guard_free(struct guard *guard)
{
    if (guard->alias)
        ferryi_alias_free(guard->alias, guard->mapped);
    free(guard->pages);
    free(guard);
}

/* Returns NULL when the memory cannot be guarded. */
static struct guard *
guard_new(ferryi_store *store, char *memory, size_t bytes)
{
    size_t mapped;
    struct guard *guard = calloc(1, sizeof(*guard));
    if (!guard || !ferryi_round_up(ferryi_max_size(bytes, 1), ferryi_page_bytes(), &mapped)) {
        free(guard);
        return NULL;
    }
    guard->context = store->context;
    guard->memory = memory;
    guard->bytes = bytes;
    guard->mapped = mapped;
    guard->page_count = mapped / ferryi_page_bytes();
    guard->call = "no call";
    snprintf(guard->name, sizeof(guard->name), "%s", ferryi_store_name(store));
    guard->pages = calloc(guard->page_count, 2);
    guard->alias =
        guard->pages ? ferryi_alias_make(memory, mapped, ferryi_store_align(store)) : NULL;
    if (!guard->alias) {
        guard_free(guard);
        return NULL;
    }
    memset(memory + guard->bytes, RED, mapped - guard->bytes);
    return guard;
}

/* Finds or creates the guard of the store's host replica; NULL when there is none. The caller's
 * claim or pin keeps the replica's address. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static struct guard *
guard_of(ferryi_store *store)
{
    ferryi_store_lock(store);
    char *memory = store->copies[0].block ? store->copies[0].pointer : NULL;
    size_t bytes = store->map.bytes;
    ferryi_store_unlock(store);
    if (!memory)
        return NULL;
    struct guard **at = find(memory);
    if (!*at)
        *at = guard_new(store, memory, bytes);
    return *at;
}

/* -- opening and closing pages ----------------------------------------------------------------- */

static void
mark_pages(struct guard *guard, size_t begin, size_t end, unsigned char protection)
{
    unsigned char *wanted = guard->pages + guard->page_count;
    size_t page = ferryi_page_bytes();
    for (size_t i = begin / page; i < guard->page_count && i * page < end; i++)
        if ((wanted[i] & 3) < protection)
            wanted[i] = (unsigned char)((wanted[i] & ~3) | protection);
}

FERRYI_REQUIRES(ferryi_store_spin)
static bool
is_pinned_by_user(const ferryi_store *store)
{
    for (int place = 0; place <= store->context->place_count; place++)
        if (store->copies[place].pins > ferryi_leases_at(store, place) &&
            ferryi_store_same_memory(store, place, 0))
            return true;
    return false;
}

/* Computes the wanted protection of each page from the map, the pins and the claims. */
FERRYI_REQUIRES(ferryi_store_spin)
static void
plan_pages(struct guard *guard, ferryi_store *store)
{
    unsigned char *wanted = guard->pages + guard->page_count;
    bool pinned = is_pinned_by_user(store);
    ferryi_places here =
        1 | (store->shared & 1 ? store->shared : 0); /* all places that use this memory */
    size_t bytes = ferryi_min_size(store->map.bytes, guard->bytes);
    memset(wanted, STALE, guard->page_count);
    for (size_t at = 0; at < bytes;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        size_t end = ferryi_min_size(segment.end, bytes);
        if ((!ferryi_places_written(segment.places) && !(segment.places & FERRYI_LOST)) ||
            (segment.places & here)) {
            for (size_t i = at / ferryi_page_bytes(); i * ferryi_page_bytes() < end; i++)
                wanted[i] &= (unsigned char)~STALE;
            if (pinned)
                mark_pages(guard, at, end, FERRYI_PROTECT_WRITE);
        }
        at = segment.end;
    }
    for (uint32_t slot = 0; slot < store->claim_high; slot++) {
        const struct ferryi_claim *claim = &store->claims[slot];
        if (claim->state == FERRYI_CLAIM_HELD && claim->place != FERRYI_PLACE_NONE &&
            ferryi_store_same_memory(store, claim->place, 0))
            mark_pages(guard, claim->begin, claim->end,
                       claim->access == FERRY_READ ? FERRYI_PROTECT_READ : FERRYI_PROTECT_WRITE);
    }
}

/* The worst problem that one call found. It is recorded under the mutex and logged after the mutex
 * is released. */
struct finding {
    const struct ferryi_log *log; /* NULL: no problem */
    ferry_log_level level;
    char text[320];
};

/* Changes the page protection. Called under the mutex, so that no other thread changes the plan
 * before it is applied. */
static void
apply_pages(struct guard *guard, struct finding *out)
{
    unsigned char *now = guard->pages, *wanted = guard->pages + guard->page_count;
    size_t page = ferryi_page_bytes();
    for (size_t i = 0, end; i < guard->page_count; i = end) {
        end = i + 1;
        if ((now[i] & 3) == (wanted[i] & 3))
            continue;
        while (end < guard->page_count && (wanted[end] & 3) == (wanted[i] & 3) &&
               (now[end] & 3) != (wanted[end] & 3))
            end++;
        if (!ferryi_alias_protect(guard->alias + i * page, (end - i) * page,
                                  (enum ferryi_protection)(wanted[i] & 3))) {
            out->log = &guard->context->log;
            out->level = FERRY_LOG_WARNING;
            snprintf(out->text, sizeof(out->text),
                     "check buffer \"%s\": the system refuses to change %zu pages", guard->name,
                     end - i);
        }
    }
    memcpy(now, wanted, guard->page_count);
}

/* Checks the red zone and logs a write to it. Such a write went through the last page, so it
 * happened while a scope was open. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
check_red_zone(struct guard *guard, struct finding *out)
{
    size_t begin = guard->bytes, end = guard->mapped;
    while (begin < end && (unsigned char)guard->memory[begin] == RED)
        begin++;
    if (begin == end)
        return;
    out->log = &guard->context->log;
    out->level = FERRY_LOG_ERROR;
    snprintf(out->text, sizeof(out->text),
             "overrun of buffer \"%s\": memory %zu bytes past its end of %zu bytes was written; "
             "the last call was %s of bytes %zu to %zu",
             guard->name, begin - guard->bytes, guard->bytes, guard->call, guard->call_begin,
             guard->call_end);
    memset(guard->memory + guard->bytes, RED, end - guard->bytes);
}

FERRYI_RELEASES(ferryi_guards_mutex)
static void
unlock_and_tell(const struct finding *finding)
{
    ferryi_mutex_unlock(&guards.mutex);
    if (finding->log)
        ferryi_log(finding->log, finding->level, "%s", finding->text);
}

FERRYI_REQUIRES(ferryi_guards_mutex)
static void
refresh(struct guard *guard, ferryi_store *store, struct finding *out)
{
    ferryi_store_lock(store);
    bool same = store->copies[0].pointer == guard->memory;
    if (same)
        plan_pages(guard, store);
    ferryi_store_unlock(store);
    if (same)
        apply_pages(guard, out);
    check_red_zone(guard, out);
}

void
ferryi_guard_refresh(ferryi_store *store)
{
    if (!is_guarded(store))
        return;
    struct finding finding = {0};
    ferryi_mutex_lock(&guards.mutex);
    ferryi_store_lock(store);
    const char *memory = store->copies[0].pointer;
    ferryi_store_unlock(store);
    struct guard *guard = *find(memory);
    if (guard)
        refresh(guard, store, &finding);
    unlock_and_tell(&finding);
}

void *
ferryi_guard_hand_out(ferryi_store *store, int place, void *pointer, const char *call, size_t begin,
                      size_t end)
{
    if (!is_guarded(store) || !pointer || !ferryi_store_same_memory(store, place, 0))
        return pointer;
    struct finding finding = {0};
    ferryi_site site = ferryi_site_here();
    ferryi_fault_watch(explain);
    ferryi_mutex_lock(&guards.mutex);
    struct guard *guard = guard_of(store);
    if (guard) {
        guard->call = call;
        guard->call_begin = begin;
        guard->call_end = end;
        guard->site = site;
        refresh(guard, store, &finding);
        pointer = guard->alias + ((char *)pointer - guard->memory);
    }
    unlock_and_tell(&finding);
    return pointer;
}

/* -- leases ------------------------------------------------------------------------------------ */

/* Returns the guard of the host replica, or NULL when there is none. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static struct guard *
guard_there(ferryi_store *store)
{
    ferryi_store_lock(store);
    const char *memory = store->copies[0].pointer;
    ferryi_store_unlock(store);
    return memory ? *find(memory) : NULL;
}

void
ferryi_guard_add_note(ferryi_store *store, struct ferryi_guard_note *note, const char *label,
                      size_t begin, size_t end)
{
    if (!is_guarded(store))
        return;
    *note = (struct ferryi_guard_note){.label = label, .begin = begin, .end = end};
    ferryi_mutex_lock(&guards.mutex);
    struct guard *guard = guard_there(store);
    if (guard) {
        note->next = guard->notes;
        guard->notes = note;
    }
    ferryi_mutex_unlock(&guards.mutex);
}

void
ferryi_guard_remove_note(ferryi_store *store, struct ferryi_guard_note *note)
{
    if (!is_guarded(store))
        return;
    ferryi_mutex_lock(&guards.mutex);
    struct guard *guard = guard_there(store);
    struct ferryi_guard_note **at = guard ? &guard->notes : NULL;
    while (at && *at && *at != note)
        at = &(*at)->next;
    if (at && *at)
        *at = note->next;
    ferryi_mutex_unlock(&guards.mutex);
}

/* -- the end ----------------------------------------------------------------------------------- */

void
ferryi_guard_retire(const void *memory, const char *why)
{
    struct guard *oldest = NULL;
    struct finding finding = {0};
    ferryi_mutex_lock(&guards.mutex);
    struct guard **at = find(memory), *guard = *at;
    if (guard) {
        *at = guard->next;
        check_red_zone(guard, &finding);
        guard->gone = why;
        guard->notes = NULL;
        guard->context = NULL;
        ferryi_alias_void(guard->alias, guard->mapped);
        guard->next = NULL;
        *guards.retired_end = guard;
        guards.retired_end = &guard->next;
        if (++guards.retired_count > RETIRED) {
            oldest = guards.retired;
            guards.retired = oldest->next;
            guards.retired_count--;
        }
    }
    unlock_and_tell(&finding);
    if (oldest)
        guard_free(oldest);
}

/* -- checks of pointers that a program passes -------------------------------------------------- */

ferry_status
ferryi_guard_check_memory(ferryi_store *store, const void *memory, const char *what)
{
    ferry_context *context = store->context;
    if (!context->debug)
        return FERRY_OK;
    for (int place = 1; place <= context->place_count; place++) {
        ferry_pool *pool =
            __atomic_load_n(&context->pools[place][FERRY_MEMORY_DEVICE], __ATOMIC_ACQUIRE);
        if (pool && ferryi_pool_holds(pool, memory))
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s: buffer \"%s\": %p is memory of %s, not of the host", what,
                               ferryi_store_name(store), memory, context->names[place]);
    }
    return FERRY_OK;
}
