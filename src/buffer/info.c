/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/buffer/lease.h"
#include "src/transfer/engine.h"

/* Functions that report the state of a buffer. Each query computes the state from the valid map. */

FERRYI_REQUIRES(ferryi_store_spin)
static struct ferryi_validity
validity_of(const ferryi_store *store, struct ferryi_range range)
{
    struct ferryi_validity out = {.all = UINT32_MAX, .exists = store->exists};
    size_t end = ferryi_min_size(range.end, store->map.bytes);
    for (size_t at = range.begin; at < end;) {
        struct ferryi_segment segment = ferryi_valid_map_at(&store->map, at);
        ferryi_places holders = segment.places & FERRYI_EVERY_PLACE;
        ferryi_places places = ferryi_places_written(segment.places) ? holders : 0;
        bool host = places & 1, device = places & ~(ferryi_places)1;
        out.lost = out.lost || (segment.places & FERRYI_LOST);
        out.written = out.written || places;
        out.host_only = out.host_only || (host && !device);
        out.device_only = out.device_only || (device && !host);
        out.all &= places ? places : UINT32_MAX;
        out.any |= holders;
        at = segment.end;
    }
    return out;
}

struct ferryi_validity
ferryi_store_validity(ferryi_store *store, struct ferryi_range range)
{
    ferryi_store_lock(store);
    struct ferryi_validity out = validity_of(store, range);
    ferryi_store_unlock(store);
    return out;
}

ferry_state
ferryi_validity_state(const struct ferryi_validity *validity)
{
    bool host = validity->exists & 1, device = validity->exists & ~1u;
    if (!validity->written && !validity->lost)
        return FERRY_STATE_UNINITIALIZED;
    /* Lost bytes may have no replica at all. */
    if (!device)
        return FERRY_STATE_HOST_ONLY;
    if (!host)
        return FERRY_STATE_DEVICE_ONLY;
    /* A lost byte has its newest value at no place. So if the range has lost bytes, neither the
     * host nor the devices have all of its current bytes. */
    if (validity->lost || (validity->host_only && validity->device_only))
        return FERRY_STATE_MIXED;
    if (validity->host_only)
        return FERRY_STATE_HOST_DIRTY;
    return validity->device_only ? FERRY_STATE_DEVICE_DIRTY : FERRY_STATE_SYNCHRONIZED;
}

const char *
ferry_state_name(ferry_state state)
{
    static const char *const names[] = {"UNINITIALIZED", "HOST_ONLY",  "DEVICE_ONLY",
                                        "SYNCHRONIZED",  "HOST_DIRTY", "DEVICE_DIRTY",
                                        "MIXED"};
    return state >= FERRY_STATE_UNINITIALIZED && state <= FERRY_STATE_MIXED ? names[state]
                                                                            : "unknown state";
}

static struct ferryi_range
whole_of(const ferry_buffer *buffer)
{
    struct ferryi_range whole = {0, 0};
    (void)ferryi_buffer_range(buffer, 0, FERRY_REST, &whole);
    return whole;
}

size_t
ferry_buffer_count(const ferry_buffer *buffer)
{
    return buffer ? ferryi_buffer_count(buffer) : 0;
}

size_t
ferry_buffer_bytes(const ferry_buffer *buffer)
{
    return buffer ? ferryi_buffer_count(buffer) * buffer->element_bytes : 0;
}

const ferry_element *
ferry_buffer_element(const ferry_buffer *buffer)
{
    return buffer ? buffer->element : NULL;
}

ferry_context *
ferry_buffer_context(const ferry_buffer *buffer)
{
    return buffer ? buffer->store->context : NULL;
}

ferry_state
ferry_buffer_state(ferry_buffer *buffer)
{
    if (!buffer)
        return FERRY_STATE_UNINITIALIZED;
    struct ferryi_validity validity = ferryi_store_validity(buffer->store, whole_of(buffer));
    return ferryi_validity_state(&validity);
}

bool
ferry_buffer_is_current(ferry_buffer *buffer, int place)
{
    if (!buffer || place < 0 || place > buffer->store->context->place_count ||
        !ferryi_store_is_usable(buffer->store))
        return false;
    struct ferryi_validity validity = ferryi_store_validity(buffer->store, whole_of(buffer));
    return !validity.lost && (validity.all & FERRYI_PLACE_BIT(place));
}

FERRYI_REQUIRES(ferryi_store_spin)
static void
add_copies(const ferryi_store *store, ferry_buffer_info *out)
{
    for (int place = 0; place <= store->context->place_count; place++) {
        const struct ferryi_place_copy *copy = &store->copies[place];
        out->allocated_bytes += ferry_block_bytes(copy->block);
        out->places_held |=
            copy->pins > ferryi_leases_at(store, place) ? FERRYI_PLACE_BIT(place) : 0;
    }
}

void
ferryi_store_get_info(ferryi_store *store, struct ferryi_range range, ferry_buffer_info *out,
                      const void **out_host)
{
    struct ferryi_validity validity = validity_of(store, range);
    const struct ferryi_place_copy *host = &store->copies[0];
    uint32_t places = (2u << store->context->place_count) - 1;
    memset(out, 0, sizeof(*out));
    out->name = ferryi_store_name(store);
    out->site = ferryi_site_text(atomic_load_explicit(&store->site, memory_order_acquire));
    out->bytes = range.end - range.begin;
    out->offset_bytes = range.begin;
    out->state = ferryi_validity_state(&validity);
    out->places_with_copy = validity.exists;
    out->places_current = validity.written && !validity.lost ? validity.all & places : 0;
    out->scopes = ferryi_store_scopes(store);
    out->leases = ferryi_lease_count(store);
    out->lease_labels = "";
    out->handles = store->references - out->leases;
    out->borrowed = store->borrowed_place != FERRYI_PLACE_NONE;
    out->read_only = store->read_only;
    out->away = ferryi_store_is_away(store);
    out->page_locked = host->pointer && host->pinned;
    add_copies(store, out);
    const struct ferryi_traffic *traffic = ferryi_store_traffic(store);
    if (traffic)
        ferryi_traffic_read(traffic, out);
    *out_host =
        host->pinned || store->map.bytes == 0 || ferryi_store_is_dead(store) ? NULL : host->pointer;
}

void
ferryi_store_end_info(const ferryi_store *store, const ferry_element *element, const void *host,
                      size_t host_bytes, ferry_buffer_info *info)
{
    info->element = element;
    info->count = info->bytes / element->bytes;
    info->page_locked =
        info->page_locked ||
        (host && ferryi_pins_holds(ferryi_engine_pins(store->context->engine), host, host_bytes));
}

void
ferryi_stores_reset_traffic(ferry_context *context)
{
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store; store = store->next) {
        struct ferryi_traffic *traffic = ferryi_store_traffic(store);
        if (traffic)
            ferryi_traffic_reset(traffic);
    }
    ferryi_mutex_unlock(&context->store_mutex);
}

void
ferryi_stores_lease_labels(ferry_context *context, char *text, size_t text_bytes)
{
    size_t length = 0;
    *text = 0;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store && length + sizeof("; ") < text_bytes;
         store = store->next) {
        size_t gap = length > 0 ? sizeof("; ") - 1 : 0;
        ferryi_store_lock(store);
        size_t more = ferryi_lease_labels(store, text + length + gap, text_bytes - length - gap);
        ferryi_store_unlock(store);
        if (more > 0)
            memcpy(text + length, "; ", gap);
        length += more > 0 ? gap + more : 0;
    }
    ferryi_mutex_unlock(&context->store_mutex);
}

ferry_status
ferry_buffer_get_info(ferry_buffer *buffer, ferry_buffer_info *out)
{
    if (!buffer || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "describe a buffer: buffer or out is NULL");
    ferryi_store *store = buffer->store;
    const void *host;
    ferryi_store_lock(store);
    ferryi_store_get_info(store, whole_of(buffer), out, &host);
    out->read_only = ferryi_buffer_is_read_only(buffer);
    size_t base_bytes = store->map.bytes;
    ferryi_store_unlock(store);
    ferryi_store_end_info(store, buffer->element, host, base_bytes, out);
    return FERRY_OK;
}

bool
ferry_buffer_is_page_locked(ferry_buffer *buffer)
{
    ferry_buffer_info info;
    return buffer && ferry_buffer_get_info(buffer, &info) == FERRY_OK && info.page_locked;
}

void
ferryi_info_append(const ferry_context *context, const ferry_buffer_info *info, char *text,
                   size_t bytes, size_t *length)
{
    ferryi_text_append(text, bytes, length,
                       "%s[%zu] \"%s\" %zu bytes %s copies:", info->element->name, info->count,
                       info->name, info->bytes, ferry_state_name(info->state));
    for (int place = 0; place <= context->place_count; place++)
        if (info->places_with_copy >> place & 1)
            ferryi_text_append(text, bytes, length, " %s%s", context->names[place],
                               place == 0 && info->page_locked ? "(pinned)" : "");
    if (info->places_with_copy == 0)
        ferryi_text_append(text, bytes, length, " none");
    ferryi_text_append(text, bytes, length, "%s%s%s", info->borrowed ? " borrowed" : "",
                       info->read_only ? " read-only" : "", info->away ? " away" : "");
}

size_t
ferry_buffer_describe(ferry_buffer *buffer, char *text, size_t bytes)
{
    ferry_buffer_info info;
    size_t length = 0;
    if (!text)
        bytes = 0;
    if (ferry_buffer_get_info(buffer, &info) == FERRY_OK)
        ferryi_info_append(buffer->store->context, &info, text, bytes, &length);
    else if (bytes > 0)
        text[0] = 0;
    return length;
}
