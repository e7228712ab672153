/* SPDX-License-Identifier: MIT */
#include "src/debug/guard_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/fork.h"

#define BUCKETS 1024
#define RETIRED 4096 /* maximum number of freed replicas whose guard pages are kept */
#define RED     0xA5 /* fill byte of a red zone */
/* Flag in the protection byte of a page. The flag means that the page is stale: newer bytes are at
 * another place. */
#define STALE     4
#define NAME_ROOM 64
#define TEXT_ROOM 320 /* for one part of a message */
/* Maximum time in nanoseconds that the fault handler waits for the mutex of all guards. If it
 * cannot lock the mutex, the program ends without an explanation of the fault. */
#define WAIT_NS 2000000000u
/* The aliases may take 1/MAPS_PART of the memory maps that the system allows a process. The others
 * are left to the program and to its allocations, which fail without them. */
#define MAPS_PART    2
#define DEFAULT_MAPS 65530
#define NEW_MAPS     3 /* of an alias whose pages all have the same protection */

struct ferryi_guard_pages {
    /* next guard in the hash bucket, or in the list of guards whose replicas were freed */
    struct ferryi_guard_pages *next;
    const struct ferryi_log *log; /* NULL in a retired guard */
    char *memory;         /* address of the replica in the pool; the replica occupies whole pages */
    char *alias;          /* second address of the same pages, which the program receives */
    size_t bytes, mapped; /* size of the replica; size of all its pages */
    size_t page_count;
    size_t maps; /* number of memory maps that the alias takes; part of guards.maps */
    /* Whether the pages are not protected, because that would take too many memory maps. The red
     * zone is checked nevertheless. */
    bool is_open;
    /* array of 2 * page_count bytes: the current protection of each page, followed by the wanted
     * protection of each page */
    unsigned char *pages;
    struct ferryi_guard_note *notes; /* of leases, newest first */
    const char *gone; /* the reason why the replica was freed; NULL: the replica exists */
    struct ferryi_guard_call call; /* the call that opened it last */
    char name[NAME_ROOM];
};

FERRYI_MUTEX_CLASS(ferryi_guards_mutex);

static struct {
    struct ferryi_guards_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_guards_mutex) struct {
        struct ferryi_guard_pages *buckets[BUCKETS];
        struct ferryi_guard_pages *retired, **retired_end;
        size_t retired_count;
        size_t maps, most_maps; /* memory maps of all aliases, and their limit; 0: not read yet */
        bool warned;            /* whether a warning has said that the limit is reached */
    };
} guards = {.mutex = FERRYI_MUTEX_INITIALIZER, .retired_end = &guards.retired};
static struct ferryi_fork_part guarding = {.mutex = FERRYI_SYSTEM_MUTEX(&guards.mutex)};
FERRYI_AT_FORK_UNDER(guarding, 2)

FERRYI_REQUIRES(ferryi_guards_mutex)
static struct ferryi_guard_pages **
bucket_of(const void *memory)
{
    return &guards.buckets[((uintptr_t)memory >> 12) % BUCKETS];
}

/* Returns the address of the pointer that points to a replica's guard in a hash bucket. If the
 * replica has no guard, returns the address of the NULL pointer at the end of the bucket. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static struct ferryi_guard_pages **
find(const void *memory)
{
    struct ferryi_guard_pages **at = bucket_of(memory);
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    return at;
}

/* -- the number of memory maps ----------------------------------------------------------------- */

static size_t
read_most_maps(void)
{
    char line[32];
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long most = file && fgets(line, sizeof(line), file) ? strtoul(line, NULL, 10) : 0;
    if (file)
        fclose(file);
    return (most > 0 ? most : DEFAULT_MAPS) / MAPS_PART;
}

/* Counts `maps` memory maps for the guard in place of those that it has. If the aliases would then
 * take too many, changes nothing and returns false. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static bool
count_maps(struct ferryi_guard_pages *guard, size_t maps)
{
    if (guards.most_maps == 0)
        guards.most_maps = read_most_maps();
    size_t all = guards.maps - guard->maps + maps;
    if (maps > guard->maps && all > guards.most_maps)
        return false;
    guards.maps = all;
    guard->maps = maps;
    return true;
}

/* -- the message of a fault -------------------------------------------------------------------- */

/* Returns the note that names the newest lease of the byte at `offset`. Returns NULL if no lease
 * contains the byte. */
static const struct ferryi_guard_note *
note_at(const struct ferryi_guard_pages *guard, size_t offset)
{
    const struct ferryi_guard_note *note = guard->notes;
    while (note && (offset < note->begin || offset >= note->end))
        note = note->next;
    return note;
}

/* Describes a memory access of the program that faulted. */
struct fault {
    const char *address;
    bool writes;
    unsigned char page; /* protection and flags of the page that contains the byte; 0 if the address
                           is outside the replica's pages */
    /* Note of the newest lease that contains the byte, or NULL. */
    const struct ferryi_guard_note *note;
};

static struct fault
fault_at(const struct ferryi_guard_pages *guard, const char *address, bool writes)
{
    struct fault fault = {.address = address, .writes = writes};
    if (address >= guard->alias && address < guard->alias + guard->mapped) {
        size_t offset = (size_t)(address - guard->alias);
        fault.page = guard->pages[offset / ferryi_page_bytes()];
        fault.note = note_at(guard, offset);
    }
    return fault;
}

/* Writes the first part of a fault's message, such as "ferry: read of byte 8 of buffer "heights"".
 */
static void
describe_byte(const struct ferryi_guard_pages *guard, const struct fault *fault, char *text,
              size_t text_bytes)
{
    const char *verb = fault->writes ? "write to" : "read of", *address = fault->address;
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
}

/* Writes the second part of a fault's message: why the access was not allowed, and which call
 * returned the pointer. */
static void
describe_reason(const struct ferryi_guard_pages *guard, const struct fault *fault, char *text,
                size_t text_bytes)
{
    const struct ferryi_guard_call *call = &guard->call;
    if (guard->gone)
        snprintf(text, text_bytes, ", which %s; the pointer came from %s", guard->gone, call->name);
    else if (fault->writes && (fault->page & 3) == FERRYI_PROTECT_READ)
        snprintf(text, text_bytes,
                 ": the pointer came from %s of bytes %zu to %zu, and may only be read", call->name,
                 call->begin, call->end);
    else if (fault->page & STALE)
        snprintf(text, text_bytes,
                 " in no open scope, where newer bytes are at another place; the last call "
                 "was %s of bytes %zu to %zu",
                 call->name, call->begin, call->end);
    else
        snprintf(text, text_bytes, " in no open scope; the last one was %s of bytes %zu to %zu",
                 call->name, call->begin, call->end);
}

static void
describe(const struct ferryi_guard_pages *guard, const struct fault *fault, char *text,
         size_t text_bytes)
{
    char byte[TEXT_ROOM], reason[TEXT_ROOM];
    const struct ferryi_guard_note *note = fault->note;
    const char *site = ferryi_site_text(guard->call.site);
    describe_byte(guard, fault, byte, sizeof(byte));
    if (note && (fault->page & 3) == FERRYI_PROTECT_NONE) {
        snprintf(text, text_bytes,
                 "%s, used after its access ended: the lease of bytes %zu to %zu, held by %s, is "
                 "closed",
                 byte, note->begin, note->end, note->label);
        return;
    }
    describe_reason(guard, fault, reason, sizeof(reason));
    snprintf(text, text_bytes, "%s%s%s%s", byte, reason, *site ? ", by " : "", site);
}

static const struct ferryi_guard_pages *
find_alias(const struct ferryi_guard_pages *guard, const char *address)
{
    size_t page = ferryi_page_bytes();
    while (guard &&
           !(address >= guard->alias - page && address < guard->alias + guard->mapped + page))
        guard = guard->next;
    return guard;
}

FERRYI_REQUIRES(ferryi_guards_mutex)
static const struct ferryi_guard_pages *
find_address(const char *address)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        const struct ferryi_guard_pages *guard = find_alias(guards.buckets[i], address);
        if (guard)
            return guard;
    }
    return find_alias(guards.retired, address);
}

/* Waits only for a limited time for the mutex of the guards, because this function runs in a signal
 * handler. The faulting thread holds no lock of Ferry, but another thread may hold this mutex. */
bool
ferryi_guard_pages_explain(const char *address, bool writes, char *text, size_t text_bytes)
{
    uint64_t end = ferryi_now_ns() + WAIT_NS;
    while (!ferryi_mutex_try_lock(&guards.mutex)) {
        if (ferryi_now_ns() >= end)
            return false;
        ferryi_yield();
    }
    const struct ferryi_guard_pages *guard = find_address(address);
    if (guard) {
        struct fault fault = fault_at(guard, address, writes);
        describe(guard, &fault, text, text_bytes);
    }
    ferryi_mutex_unlock(&guards.mutex);
    return guard;
}

bool
ferryi_guard_pages_name(const void *address, char *name, size_t name_bytes)
{
    ferryi_mutex_lock(&guards.mutex);
    const struct ferryi_guard_pages *guard = find_address(address);
    if (guard)
        snprintf(name, name_bytes, "%s", guard->name);
    ferryi_mutex_unlock(&guards.mutex);
    return guard;
}

/* -- creating ---------------------------------------------------------------------------------- */

void
ferryi_guard_pages_round(size_t *bytes, size_t *align)
{
    size_t rounded;
    if (!ferryi_round_up(*bytes, ferryi_page_bytes(), &rounded))
        return;
    *bytes = rounded;
    *align = ferryi_max_size(*align, ferryi_page_bytes());
}

static void
guard_free(struct ferryi_guard_pages *guard)
{
    if (guard->alias)
        ferryi_alias_free(guard->alias, guard->mapped);
    free(guard->pages);
    free(guard);
}

/* -- opening and closing ----------------------------------------------------------------------- */

void
ferryi_guard_pages_mark_current(struct ferryi_guard_pages *guard, size_t begin, size_t end)
{
    unsigned char *wanted = guard->pages + guard->page_count;
    size_t page = ferryi_page_bytes();
    for (size_t i = begin / page; i < guard->page_count && i * page < end; i++)
        wanted[i] &= (unsigned char)~STALE;
}

void
ferryi_guard_pages_allow(struct ferryi_guard_pages *guard, size_t begin, size_t end,
                         enum ferryi_protection protection)
{
    unsigned char *wanted = guard->pages + guard->page_count;
    size_t page = ferryi_page_bytes();
    for (size_t i = begin / page; i < guard->page_count && i * page < end; i++)
        if ((wanted[i] & 3) < protection)
            wanted[i] = (unsigned char)((wanted[i] & ~3) | protection);
}

/* The last problem that one call of the library found in a buffer. The call records the problem
 * while it holds the mutex of all guards. It logs the problem after it has released this mutex. */
struct finding {
    const struct ferryi_log *log; /* NULL: no problem */
    ferry_log_level level;
    char text[TEXT_ROOM];
};

/* Reports once that buffers are not checked completely, because the limit of maps is reached. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
report_maps(const struct ferryi_guarded *replica, struct finding *out)
{
    if (guards.warned)
        return;
    guards.warned = true;
    out->log = replica->log;
    out->level = FERRY_LOG_WARNING;
    snprintf(out->text, sizeof(out->text),
             "check buffer \"%s\": its pages are not guarded, because guard pages already take %zu "
             "memory maps, 1/%d of vm.max_map_count; further buffers may not be guarded either, "
             "without a warning",
             replica->name, guards.maps, MAPS_PART);
}

/* Returns the number of maps that the alias takes with the wanted protections: one for each run of
 * equal pages, and one on each side. */
static size_t
wanted_maps(const struct ferryi_guard_pages *guard)
{
    const unsigned char *wanted = guard->pages + guard->page_count;
    size_t maps = NEW_MAPS;
    for (size_t i = 1; i < guard->page_count; i++)
        maps += (wanted[i] & 3) != (wanted[i - 1] & 3);
    return maps;
}

/* Allows every access to the alias from now on. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
stop_guarding(struct ferryi_guard_pages *guard)
{
    if (!ferryi_alias_protect(guard->alias, guard->page_count * ferryi_page_bytes(),
                              FERRYI_PROTECT_WRITE))
        return;
    memset(guard->pages, FERRYI_PROTECT_WRITE, 2 * guard->page_count);
    guard->is_open = true;
    (void)count_maps(guard, NEW_MAPS);
}

/* Changes the protection of each page to the wanted protection. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
apply_pages(struct ferryi_guard_pages *guard, struct finding *out)
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
            out->log = guard->log;
            out->level = FERRY_LOG_WARNING;
            snprintf(out->text, sizeof(out->text),
                     "check buffer \"%s\": the system refuses to change %zu pages", guard->name,
                     end - i);
        }
    }
    memcpy(now, wanted, guard->page_count);
}

/* Checks the red zone, which begins at the replica's end. If the program has written to the red
 * zone, reports an overrun and restores the zone's pattern. Such a write is possible only while a
 * scope is open, because the red zone shares its page with the replica's last bytes. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
check_red_zone(struct ferryi_guard_pages *guard, struct finding *out)
{
    size_t begin = guard->bytes, end = guard->mapped;
    while (begin < end && (unsigned char)guard->memory[begin] == RED)
        begin++;
    if (begin == end)
        return;
    out->log = guard->log;
    out->level = FERRY_LOG_ERROR;
    snprintf(out->text, sizeof(out->text),
             "overrun of buffer \"%s\": memory %zu bytes past its end of %zu bytes was written; "
             "the last call was %s of bytes %zu to %zu",
             guard->name, begin - guard->bytes, guard->bytes, guard->call.name, guard->call.begin,
             guard->call.end);
    memset(guard->memory + guard->bytes, RED, end - guard->bytes);
}

FERRYI_RELEASES(ferryi_guards_mutex)
static void
unlock_and_log(const struct finding *finding)
{
    ferryi_mutex_unlock(&guards.mutex);
    if (finding->log)
        ferryi_log(finding->log, finding->level, "%s", finding->text);
}

/* Creates the guard of a replica. The guard records the protection of the replica's pages. Returns
 * NULL if the memory cannot be guarded. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static struct ferryi_guard_pages *
guard_new(const struct ferryi_guarded *replica, struct finding *out)
{
    size_t mapped;
    struct ferryi_guard_pages *guard = calloc(1, sizeof(*guard));
    if (!guard ||
        !ferryi_round_up(ferryi_max_size(replica->bytes, 1), ferryi_page_bytes(), &mapped)) {
        free(guard);
        return NULL;
    }
    guard->log = replica->log;
    guard->memory = replica->memory;
    guard->bytes = replica->bytes;
    guard->mapped = mapped;
    guard->page_count = mapped / ferryi_page_bytes();
    guard->call.name = "no call";
    snprintf(guard->name, sizeof(guard->name), "%s", replica->name);
    guard->pages = calloc(guard->page_count, 2);
    bool allowed = count_maps(guard, NEW_MAPS);
    if (!allowed)
        report_maps(replica, out);
    if (allowed && guard->pages)
        guard->alias = ferryi_alias_make(guard->memory, mapped, replica->align);
    if (!guard->alias) {
        (void)count_maps(guard, 0);
        guard_free(guard);
        return NULL;
    }
    memset(guard->memory + guard->bytes, RED, mapped - guard->bytes);
    return guard;
}

/* Protects the pages as the open ranges of the replica require. */
FERRYI_REQUIRES(ferryi_guards_mutex)
static void
protect(struct ferryi_guard_pages *guard, const struct ferryi_guarded *replica, struct finding *out)
{
    memset(guard->pages + guard->page_count, STALE, guard->page_count);
    if (!replica->report(replica->owner, guard->memory, guard))
        return;
    if (count_maps(guard, wanted_maps(guard))) {
        apply_pages(guard, out);
    } else {
        stop_guarding(guard);
        report_maps(replica, out);
    }
}

FERRYI_REQUIRES(ferryi_guards_mutex)
static void
update(struct ferryi_guard_pages *guard, const struct ferryi_guarded *replica, struct finding *out)
{
    if (!guard->is_open)
        protect(guard, replica, out);
    check_red_zone(guard, out);
}

void
ferryi_guard_pages_update(const struct ferryi_guarded *replica)
{
    struct finding finding = {0};
    ferryi_mutex_lock(&guards.mutex);
    struct ferryi_guard_pages *guard = *find(replica->memory);
    if (guard)
        update(guard, replica, &finding);
    unlock_and_log(&finding);
}

char *
ferryi_guard_pages_open(const struct ferryi_guarded *replica, const struct ferryi_guard_call *call)
{
    struct finding finding = {0};
    char *memory = replica->memory;
    ferryi_fault_watch();
    ferryi_mutex_lock(&guards.mutex);
    struct ferryi_guard_pages **at = find(memory);
    if (!*at)
        *at = guard_new(replica, &finding);
    if (*at) {
        (*at)->call = *call;
        update(*at, replica, &finding);
        memory = (*at)->alias;
    }
    unlock_and_log(&finding);
    return memory;
}

/* -- notes ------------------------------------------------------------------------------------- */

void
ferryi_guard_pages_add_note(const void *memory, struct ferryi_guard_note *note, const char *label,
                            size_t begin, size_t end)
{
    *note = (struct ferryi_guard_note){.label = label, .begin = begin, .end = end};
    ferryi_mutex_lock(&guards.mutex);
    struct ferryi_guard_pages *guard = *find(memory);
    if (guard) {
        note->next = guard->notes;
        guard->notes = note;
    }
    ferryi_mutex_unlock(&guards.mutex);
}

void
ferryi_guard_pages_remove_note(const void *memory, struct ferryi_guard_note *note)
{
    ferryi_mutex_lock(&guards.mutex);
    struct ferryi_guard_pages *guard = *find(memory);
    struct ferryi_guard_note **at = guard ? &guard->notes : NULL;
    while (at && *at && *at != note)
        at = &(*at)->next;
    if (at && *at)
        *at = note->next;
    ferryi_mutex_unlock(&guards.mutex);
}

/* -- retiring ---------------------------------------------------------------------------------- */

void
ferryi_guard_pages_retire(const void *memory, const char *why)
{
    struct ferryi_guard_pages *oldest = NULL;
    struct finding finding = {0};
    ferryi_mutex_lock(&guards.mutex);
    struct ferryi_guard_pages **at = find(memory), *guard = *at;
    if (guard) {
        *at = guard->next;
        check_red_zone(guard, &finding);
        guard->gone = why;
        guard->notes = NULL;
        guard->log = NULL;
        ferryi_alias_void(guard->alias, guard->mapped);
        (void)count_maps(guard, 1);
        guard->next = NULL;
        *guards.retired_end = guard;
        guards.retired_end = &guard->next;
        if (++guards.retired_count > RETIRED) {
            oldest = guards.retired;
            guards.retired = oldest->next;
            (void)count_maps(oldest, 0);
            guards.retired_count--;
        }
    }
    unlock_and_log(&finding);
    if (oldest)
        guard_free(oldest);
}
