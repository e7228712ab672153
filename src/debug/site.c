/* SPDX-License-Identifier: MIT */
#include "src/debug/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "src/base/fork.h"
#include "src/base/sanitizer.h"

#define SITES      2048 /* a power of two */
#define SITES_MOST (SITES / 4 * 3)
/* Number of stack frames that the description of a call site stores. It is more than one, because
 * the program's innermost function may be a wrapper. */
#define FRAMES    3
#define DEEPEST   64 /* maximum number of frames that are examined */
#define TEXT_ROOM 232

/* Attribute of functions that the stack unwinder calls. The memory sanitizer does not check them,
 * because it does not know which bytes the unwinder has initialised. */
#if FERRYI_MEMORY_SANITIZER
#define UNWATCHED __attribute__((no_sanitize("memory")))
#else
#define UNWATCHED
#endif

struct frames {
    const char *calls[FRAMES]; /* code addresses in the program's stack frames, innermost first;
                                  NULL after the last address */
    unsigned count, looked_at;
    bool in_public; /* whether the stack walk has reached a public function of the library; the
                       frames inside that function belong to the library and are skipped */
};

FERRYI_MUTEX_CLASS(ferryi_site_mutex);

struct site {
    const char *calls[FRAMES];
    char text[TEXT_ROOM]; /* "": unused entry */
};

static struct {
    struct ferryi_site_mutex mutex;
    unsigned count FERRYI_GUARDED_BY(ferryi_site_mutex);
    /* The table of call sites, which is allocated with the first site and never freed. An entry
     * does not change after its number was returned, so `mutex` protects only unused entries. */
    _Atomic(struct site *) sites;
} known = {.mutex = FERRYI_MUTEX_INITIALIZER};
static struct ferryi_fork_part knowing = {.mutex = FERRYI_SYSTEM_MUTEX(&known.mutex)};
FERRYI_AT_FORK_UNDER(knowing, 3)

/* Functions of the stack unwinder. They are loaded at their first use, so that the library does not
 * depend on libgcc. The pointers are constant after pthread_once() has returned. */
static struct {
    pthread_once_t once;
    __typeof__(_Unwind_Backtrace) *walk;
    __typeof__(_Unwind_GetIP) *address;
} unwinder = {.once = PTHREAD_ONCE_INIT};

static _Thread_local ferryi_site lent;

/* -- frames ------------------------------------------------------------------------------------ */

/* The linker defines these symbols as the begin and the end of the section that contains the
 * library's public functions. */
extern const char __start_ferry_api[]
    __attribute__((visibility("hidden"))); /* NOLINT(bugprone-reserved-identifier) */
extern const char __stop_ferry_api[]
    __attribute__((visibility("hidden"))); /* NOLINT(bugprone-reserved-identifier) */

static void
find_unwinder(void)
{
    void *library = ferryi_library_open("libgcc_s.so.1", NULL, 0);
    void *walk = library ? ferryi_library_symbol(library, "_Unwind_Backtrace") : NULL;
    void *address = library ? ferryi_library_symbol(library, "_Unwind_GetIP") : NULL;
    if (!walk || !address)
        return;
    memcpy(&unwinder.address, &address, sizeof(address));
    memcpy(&unwinder.walk, &walk, sizeof(walk));
}

UNWATCHED static _Unwind_Reason_Code
look_at(struct _Unwind_Context *context, void *user)
{
    struct frames *frames = user;
    /* The unwinder returns the address of the instruction after the call. The address minus one
     * lies in the call itself. */
    const char *call = (const char *)(uintptr_t)(unwinder.address(context) - 1);
    bool is_public = call >= __start_ferry_api && call < __stop_ferry_api;
    frames->in_public = frames->in_public || is_public;
    if (frames->in_public && !(is_public && frames->count == 0))
        frames->calls[frames->count++] = call;
    return frames->count == FRAMES || ++frames->looked_at == DEEPEST ? _URC_NORMAL_STOP
                                                                     : _URC_NO_REASON;
}

/* Describes stack frames as a text such as "inner+0x12, outer+0x34 (program), +0x56 (libother.so)".
 * If consecutive functions are in the same file, only the last of them is followed by the file's
 * name. */
static void
describe(const struct frames *frames, char *text, size_t text_bytes)
{
    size_t length = 0;
    for (unsigned i = 0; i < frames->count && length < text_bytes; i++) {
        char one[TEXT_ROOM], next[TEXT_ROOM] = "";
        ferryi_address_describe(frames->calls[i], one, sizeof(one));
        if (i + 1 < frames->count)
            ferryi_address_describe(frames->calls[i + 1], next, sizeof(next));
        char *file = strstr(one, " ("), *next_file = strstr(next, " (");
        if (file && next_file && strcmp(file, next_file) == 0)
            *file = 0;
        length +=
            (size_t)snprintf(text + length, text_bytes - length, "%s%s", i > 0 ? ", " : "", one);
    }
}

/* -- sites ------------------------------------------------------------------------------------- */

/* Returns the table entry of the call site whose stack frames are `frames`. If the table `sites`
 * has no such entry, returns an unused entry. */
FERRYI_REQUIRES(ferryi_site_mutex)
static struct site *
find(struct site *sites, const struct frames *frames)
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < FRAMES; i++)
        hash = (hash ^ (uintptr_t)frames->calls[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = hash >> 32;; at++) {
        struct site *site = &sites[at % SITES];
        if (!*site->text || memcmp(site->calls, frames->calls, sizeof(site->calls)) == 0)
            return site;
    }
}

/* Returns the number of the call site whose stack frames are `frames`. If the table does not
 * contain the site, adds the site with the description `text`. If the site would have to be added,
 * but `text` is NULL, the table is full or cannot be allocated, returns FERRYI_SITE_UNKNOWN. */
FERRYI_REQUIRES(ferryi_site_mutex)
static ferryi_site
number_of(const struct frames *frames, const char *text)
{
    struct site *sites = atomic_load(&known.sites);
    if (!sites && text) {
        sites = calloc(SITES, sizeof(*sites));
        atomic_store(&known.sites, sites);
    }
    if (!sites)
        return FERRYI_SITE_UNKNOWN;
    struct site *site = find(sites, frames);
    if (!*site->text && (!text || known.count == SITES_MOST))
        return FERRYI_SITE_UNKNOWN;
    if (!*site->text) {
        memcpy(site->calls, frames->calls, sizeof(site->calls));
        snprintf(site->text, sizeof(site->text), "%s", text);
        known.count++;
    }
    return (ferryi_site)(site - sites + FERRYI_SITE_UNKNOWN + 1);
}

ferryi_site
ferryi_site_here(void)
{
    struct frames frames = {0};
    char text[TEXT_ROOM];
    if (lent)
        return lent;
    pthread_once(&unwinder.once, find_unwinder);
    if (unwinder.walk)
        unwinder.walk(look_at, &frames);
    if (frames.count == 0)
        return FERRYI_SITE_UNKNOWN;
    ferryi_mutex_lock(&known.mutex);
    ferryi_site site = number_of(&frames, NULL);
    ferryi_mutex_unlock(&known.mutex);
    if (site != FERRYI_SITE_UNKNOWN)
        return site;
    describe(&frames, text, sizeof(text));
    ferryi_mutex_lock(&known.mutex);
    site = number_of(&frames, text);
    ferryi_mutex_unlock(&known.mutex);
    return site;
}

void
ferryi_site_lend(ferryi_site site)
{
    lent = site;
}

const char *
ferryi_site_text(ferryi_site site)
{
    return site > FERRYI_SITE_UNKNOWN
               ? atomic_load(&known.sites)[site - FERRYI_SITE_UNKNOWN - 1].text
               : "";
}
