/* SPDX-License-Identifier: MIT */
#include "src/store/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/store/place_pool.h"

#define VERSION 1u

enum { SHARED_USE, SHARED_OPEN, SHARED_OWNER };

/* Returns the device whose memory the place has, or NULL for the host. */
static ferryi_device *
device_of(const ferry_context *context, int place)
{
    return context->coherent >> place & 1 ? NULL : context->devices[place];
}

static bool
maps_files(const ferryi_device *device)
{
    return !device || (device->capabilities & FERRYI_DEVICE_MAPS_FILES);
}

static ferry_status
check_device(const ferry_context *context, int place, const ferryi_device *device)
{
    return !device || (device->capabilities & FERRY_CAN_SHARE)
               ? FERRY_OK
               : ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                             "share memory of %s: its driver shares none between processes",
                             context->names[place]);
}

static struct ferryi_shared *
allocate(ferry_context *context, int place)
{
    struct ferryi_shared *shared = calloc(1, sizeof(*shared));
    if (!shared)
        return NULL;
    ferryi_mutex_init(&shared->mutex);
    shared->context = context;
    shared->place = device_of(context, place) ? place : FERRY_PLACE_HOST;
    shared->file = -1;
    return shared;
}

static ferry_status
map_header(struct ferryi_shared *shared)
{
    void *header;
    FERRYI_OR_RETURN(ferryi_shared_file_map(shared->file, 0, ferryi_page_bytes(),
                                            !shared->memory.read_only, &header));
    shared->header = header;
    return FERRY_OK;
}

static ferry_status
map_bytes(struct ferryi_shared *shared)
{
    return ferryi_shared_file_map(shared->file, shared->memory.offset, shared->memory.bytes,
                                  !shared->memory.read_only, &shared->pointer);
}

/* Frees the memory and closes everything else. */
static void
finish(struct ferryi_shared *shared)
{
    ferryi_device *device = device_of(shared->context, shared->place);
    ferry_status status = FERRY_OK;
    if (device && shared->event)
        status = FERRYI_CALL(device, event_destroy, shared->event);
    if (shared->pointer && !device)
        munmap(shared->pointer, shared->memory.bytes);
    else if (shared->pointer && status == FERRY_OK)
        status = FERRYI_CALL(device, shared_free, &shared->memory, shared->pointer);
    if (status != FERRY_OK && status != FERRY_ERROR_DEVICE_LOST)
        ferryi_log(&shared->context->log, FERRY_LOG_ERROR, "end shared memory: %s",
                   ferry_last_error());
    if (shared->header)
        munmap(shared->header, ferryi_page_bytes());
    if (shared->file >= 0)
        ferryi_shared_file_close(shared->file);
    ferryi_mutex_destroy(&shared->mutex);
    free(shared);
}

/* Sets the size of the memory, which is that of the content in whole pages, and at least one. */
static ferry_status
set_size(struct ferryi_shared *shared, const struct ferryi_shared_content *content)
{
    size_t bytes, page = ferryi_page_bytes();
    if (ferryi_mul_size(content->count, content->element_bytes, &bytes) &&
        ferryi_round_up(ferryi_max_size(bytes, 1), page, &shared->memory.bytes) &&
        shared->memory.bytes <= (size_t)INT64_MAX - page)
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_OVERFLOW, "share memory: its size overflows");
}

/* Lets the pool of the device give memory back to the driver: what it keeps for later, and what it
 * can evict for a block of this size. */
static bool
make_room(const struct ferryi_shared *shared)
{
    ferry_pool *pool;
    ferry_block *block;
    return ferryi_place_pool(shared->context, shared->place, FERRY_MEMORY_DEVICE, &pool) ==
               FERRY_OK &&
           ferry_pool_allocate(pool, shared->memory.bytes, NULL, &block) == FERRY_OK &&
           ferry_block_free(&block, NULL) == FERRY_OK && ferry_pool_trim(pool, 0) == FERRY_OK;
}

static ferry_status
alloc_of_device(struct ferryi_shared *shared, ferryi_device *device)
{
    const ferry_status status =
        FERRYI_CALL(device, shared_alloc, &shared->memory, &shared->pointer);
    return status == FERRY_ERROR_OUT_OF_MEMORY && make_room(shared)
               ? FERRYI_CALL(device, shared_alloc, &shared->memory, &shared->pointer)
               : status;
}

/* Makes the memory of a device, and the event that orders its uses, if the driver has one. */
static ferry_status
make_of_device(struct ferryi_shared *shared, ferryi_device *device)
{
    FERRYI_OR_RETURN(alloc_of_device(shared, device));
    shared->facts.token = shared->memory.token;
    ferry_status status =
        FERRYI_CALL(device, shared_event_create, &shared->facts.event, &shared->event);
    shared->facts.has_event = status == FERRY_OK;
    return status == FERRY_ERROR_UNSUPPORTED ? FERRY_OK : status;
}

ferry_status
ferryi_shared_make(ferry_context *context, int place, const struct ferryi_shared_content *content,
                   struct ferryi_shared **out)
{
    ferryi_device *device = device_of(context, place);
    FERRYI_OR_RETURN(check_device(context, place, device));
    (void)ferryi_shared_sweep(context, false);
    struct ferryi_shared *shared = allocate(context, place);
    if (!shared)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "share memory: no memory to describe it");
    const size_t page = ferryi_page_bytes();
    const bool in_file = maps_files(device);
    shared->is_owner = true;
    ferry_status status = set_size(shared, content);
    if (status == FERRY_OK)
        status = ferryi_shared_file_create(page + (in_file ? shared->memory.bytes : 0),
                                           &shared->name, &shared->file);
    if (status == FERRY_OK)
        status = map_header(shared);
    if (status != FERRY_OK)
        goto fail;
    shared->memory.file = shared->file;
    shared->memory.offset = in_file ? page : 0;
    struct ferryi_shared_facts *facts = &shared->facts;
    facts->name = shared->name;
    facts->version = VERSION;
    facts->content = *content;
    facts->offset = shared->memory.offset;
    snprintf(facts->kind, sizeof(facts->kind), "%s", device ? device->kind : "host");
    atomic_store(&shared->header->writer, shared->name.process);
    status = device ? make_of_device(shared, device) : map_bytes(shared);
    if (status == FERRY_OK && !(ferryi_shared_file_try_lock(shared->file, SHARED_OWNER, true) &&
                                ferryi_shared_file_try_lock(shared->file, SHARED_USE, true)))
        status = ferryi_fail(FERRY_ERROR_UNSUPPORTED, "share memory: the system locks no files");
    if (status != FERRY_OK)
        goto fail;
    shared->header->facts = *facts;
    *out = shared;
    return FERRY_OK;

fail:
    finish(shared);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

/* Finds the place that the memory has in this process, and checks it. */
static ferry_status
find_place(struct ferryi_shared *shared)
{
    const ferry_context *context = shared->context;
    const char *kind = shared->facts.kind;
    const bool of_host = strcmp(kind, "host") == 0;
    for (int place = 1; place <= context->place_count && shared->place == 0 && !of_host; place++)
        if (device_of(context, place) && strcmp(context->devices[place]->kind, kind) == 0)
            shared->place = place;
    const ferryi_device *device = device_of(context, shared->place);
    if (strcmp(device ? device->kind : "host", kind) != 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "open shared memory at %s: it is memory of %.20s",
                           context->names[shared->place], kind);
    return check_device(context, shared->place, device);
}

/* Checks what another process wrote, so that no value of it can lead outside of the file. */
static ferry_status
check_facts(const struct ferryi_shared *shared, size_t file_bytes)
{
    const struct ferryi_shared_facts *facts = &shared->facts;
    const bool in_file = facts->offset > 0;
    if (facts->version != VERSION)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "open shared memory: another version of Ferry made it");
    if (!memchr(facts->kind, 0, sizeof(facts->kind)) ||
        (in_file && (facts->offset != ferryi_page_bytes() ||
                     shared->memory.bytes > file_bytes - ferryi_page_bytes())))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open shared memory: its description is no valid one");
    return FERRY_OK;
}

static ferry_status
fail_ended(void)
{
    return ferryi_fail(FERRY_ERROR_DEVICE_LOST,
                       "use shared memory: the process that made it has ended it");
}

static ferry_status
open_of_device(struct ferryi_shared *shared, ferryi_device *device)
{
    const struct ferryi_shared_facts *facts = &shared->facts;
    shared->memory.is_opened = true;
    shared->memory.token = facts->token;
    FERRYI_OR_RETURN(FERRYI_CALL(device, shared_open, &shared->memory, &shared->pointer));
    return facts->has_event ? FERRYI_CALL(device, shared_event_open, &facts->event, &shared->event)
                            : FERRY_OK;
}

static ferry_status
open_memory(struct ferryi_shared *shared)
{
    size_t file_bytes;
    FERRYI_OR_RETURN(ferryi_shared_file_open(&shared->name, !shared->memory.read_only, &file_bytes,
                                             &shared->file));
    if (file_bytes < ferryi_page_bytes())
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "open shared memory: its file is short");
    FERRYI_OR_RETURN(map_header(shared));
    shared->facts = shared->header->facts;
    FERRYI_OR_RETURN(set_size(shared, &shared->facts.content));
    FERRYI_OR_RETURN(check_facts(shared, file_bytes));
    FERRYI_OR_RETURN(find_place(shared));
    ferryi_device *device = device_of(shared->context, shared->place);
    shared->memory.file = shared->file;
    shared->memory.offset = shared->facts.offset;
    if ((shared->memory.offset > 0) != maps_files(device))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open shared memory: its description is no valid one");
    /* The lock comes first: an owner that ends tries to exclude it, after it has said so. */
    if (!ferryi_shared_file_try_lock(shared->file, SHARED_OPEN, false) ||
        atomic_load(&shared->header->is_ended))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open shared memory: the process that made it has ended it");
    return device ? open_of_device(shared, device) : map_bytes(shared);
}

ferry_status
ferryi_shared_open(ferry_context *context, const struct ferryi_shared_file_name *name, int place,
                   bool read_only, struct ferryi_shared **out)
{
    struct ferryi_shared *shared = allocate(context, place);
    if (!shared)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "open shared memory: no memory to describe it");
    shared->name = *name;
    shared->memory.read_only = read_only;
    ferry_status status = open_memory(shared);
    if (status != FERRY_OK) {
        finish(shared);
        return status;
    }
    *out = shared;
    return FERRY_OK;
}

/* -- handing over ------------------------------------------------------------------------------ */

ferry_status
ferryi_shared_acquire(struct ferryi_shared *shared, uint32_t *out_writer)
{
    const bool writes = !shared->memory.read_only;
    const bool outlives = maps_files(device_of(shared->context, shared->place));
    struct ferryi_shared_header *header = shared->header;
    if (!ferryi_shared_file_try_lock(shared->file, SHARED_USE, writes)) {
        const uint32_t writer = atomic_load(&header->writer);
        char who[40] = "another process reads it";
        if (writer != 0)
            snprintf(who, sizeof(who), "process %u has acquired it", writer);
        return ferryi_fail(FERRY_ERROR_BUSY, "acquire shared memory: %s", who);
    }
    if (!outlives && !shared->is_owner &&
        !ferryi_shared_file_is_locked(shared->file, SHARED_OWNER)) {
        ferryi_shared_file_unlock(shared->file, SHARED_USE);
        return fail_ended();
    }
    *out_writer = writes ? atomic_exchange(&header->writer, (uint32_t)getpid())
                         : atomic_load(&header->writer);
    return FERRY_OK;
}

void
ferryi_shared_release(struct ferryi_shared *shared, uint32_t writer)
{
    if (!shared->memory.read_only)
        atomic_store(&shared->header->writer, writer);
    ferryi_shared_file_unlock(shared->file, SHARED_USE);
}

/* -- the end ----------------------------------------------------------------------------------- */

bool
ferryi_shared_is_last(struct ferryi_shared *shared)
{
    if (!shared->is_owner)
        return false;
    atomic_store(&shared->header->is_ended, 1);
    return ferryi_shared_file_try_lock(shared->file, SHARED_OPEN, true);
}

/* Returns whether the memory may be freed, because no other process has it open, or because it
 * lives as long as one has. */
static bool
may_free(const struct ferryi_shared *shared)
{
    return !shared->is_owner || maps_files(device_of(shared->context, shared->place)) ||
           ferryi_shared_file_try_lock(shared->file, SHARED_OPEN, true);
}

void
ferryi_shared_end(struct ferryi_shared *shared)
{
    ferry_context *context = shared->context;
    if (shared->is_owner)
        atomic_store(&shared->header->is_ended, 1);
    if (may_free(shared)) {
        finish(shared);
        return;
    }
    ferryi_shared_file_unlock(shared->file, SHARED_USE);
    ferryi_mutex_lock(&context->store_mutex);
    shared->next = context->shared_in_use;
    context->shared_in_use = shared;
    ferryi_mutex_unlock(&context->store_mutex);
    (void)ferryi_shared_sweep(context, false);
}

/* Takes memory from the list that may be freed, or any. */
static struct ferryi_shared *
take_from_list(ferry_context *context, bool any)
{
    ferryi_mutex_lock(&context->store_mutex);
    struct ferryi_shared **link = &context->shared_in_use;
    while (*link && !any && !may_free(*link))
        link = &(*link)->next;
    struct ferryi_shared *found = *link;
    if (found)
        *link = found->next;
    ferryi_mutex_unlock(&context->store_mutex);
    return found;
}

size_t
ferryi_shared_sweep(ferry_context *context, bool ends)
{
    struct ferryi_shared *shared;
    size_t bytes = 0;
    while ((shared = take_from_list(context, false))) {
        bytes += shared->memory.bytes;
        finish(shared);
    }
    while (ends && (shared = take_from_list(context, true))) {
        ferryi_log(&context->log, FERRY_LOG_WARNING,
                   "destroy a context: another process still uses %zu bytes of %s, which are freed "
                   "when this process ends",
                   shared->memory.bytes, context->names[shared->place]);
        shared->pointer = NULL;
        finish(shared);
    }
    return bytes;
}
