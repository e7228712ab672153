/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "src/base/machine.h"
#include "src/transfer/run.h"
#include "src/transfer/scatter.h"

/* Default size of a chunk in a staging ring of small chunks. A ring with chunks of this size fits
 * into the second-level caches of the threads that fill it. On devices where each chunk costs
 * driver calls, the chunks have twice this size. */
#define CHUNK_BYTES              ((size_t)256 << 10)
#define CHUNK_COUNT              4
#define CHUNK_COUNT_WITH_HELPERS 8
#define CHUNK_COUNT_MOST         16
/* A ring has this number of chunks for each thread, and on devices where each chunk costs driver
 * calls twice as many, up to 32 chunks of 512 KiB. Such a ring fits into the third-level caches,
 * and page-locks at most 16 MiB. */
#define CHUNKS_PER_THREAD 2
#define DRIVEN_FACTOR     2

/* -- life -------------------------------------------------------------------------------------- */

static uint32_t
find_reachable(const ferryi_engine *engine, int target)
{
    uint32_t set = 0;
    for (int source = 1; source <= engine->config.count; source++) {
        const ferryi_device *to = engine->devices[target], *from = engine->devices[source];
        if (source != target && (to->capabilities & FERRY_CAN_PEER) &&
            ferryi_device_is_peer(to, from))
            set |= (uint32_t)1 << source;
    }
    return set;
}

bool
ferryi_engine_is_driven(const ferryi_engine *engine, int place)
{
    return !(engine->devices[place]->capabilities & FERRYI_DEVICE_HOST_VISIBLE);
}

/* Returns the number of chunks in a staging ring. The device copies one half of the chunks. At the
 * same time, the calling thread and `helpers` helper threads fill or drain the other half, one
 * chunk for each thread. */
static size_t
chunks_for(unsigned helpers)
{
    if (helpers == 0)
        return CHUNK_COUNT;
    return ferryi_min_size(
        ferryi_max_size(CHUNKS_PER_THREAD * (helpers + 1), CHUNK_COUNT_WITH_HELPERS),
        CHUNK_COUNT_MOST);
}

int
ferryi_engine_common_node(ferryi_device *const devices[], int count)
{
    for (int place = 2; place <= count; place++)
        if (devices[place]->host_node != devices[1]->host_node)
            return -1;
    return count > 0 ? (int)devices[1]->host_node - 1 : -1;
}

/* Initialises the helper threads, which serve all devices. They are bound to a NUMA node only if it
 * is the nearest node of every device. */
static void
init_helpers(ferryi_engine *engine)
{
    cpu_set_t near;
    int node = ferryi_engine_common_node(engine->devices, engine->config.count);
    bool known = node >= 0 && ferryi_machine_has_nodes("") &&
                 ferryi_machine_node_processors("", node, &near);
    ferryi_helpers_init(&engine->helpers, known ? &near : NULL);
}

static void
open_port(ferryi_engine *engine, int place)
{
    const struct ferryi_engine_config *config = &engine->config;
    struct ferryi_port *port = &engine->ports[place];
    size_t bytes = config->chunk_bytes, count = config->chunk_count;
    if (!count)
        count = chunks_for(ferryi_staging_helpers(engine, place));
    ferryi_mutex_init(&port->mutex);
    if (!engine->fixed_ring && ferryi_engine_is_driven(engine, place)) {
        bytes *= DRIVEN_FACTOR;
        count *= count > CHUNK_COUNT ? DRIVEN_FACTOR : 1;
    }
    int node = (int)engine->devices[place]->host_node - 1;
    if (node >= 0 && !ferryi_machine_has_nodes(""))
        node = -1;
    ferryi_ring_init(&port->ring, engine->devices[place], config->order, bytes, count, node);
    atomic_init(&port->reachable, find_reachable(engine, place));
}

/* Returns the places of the first device that page-locks memory, and of its peers. */
static uint32_t
find_takes_pinned(const ferryi_engine *engine)
{
    const ferryi_device *locks = NULL;
    uint32_t set = 0;
    for (int place = 1; place <= engine->config.count; place++) {
        const ferryi_device *device = engine->devices[place];
        if (!locks && (device->capabilities & FERRY_CAN_PIN))
            locks = device;
        if (locks && ferryi_device_is_peer(locks, device))
            set |= (uint32_t)1 << place;
    }
    return set;
}

static ferryi_device *
device_that_registers(const ferryi_engine *engine)
{
    for (int place = 1; place <= engine->config.count; place++) {
        uint64_t can = engine->devices[place]->capabilities;
        if ((can & FERRY_CAN_PIN) && !(can & FERRYI_DEVICE_NO_REGISTER))
            return engine->devices[place];
    }
    return NULL;
}

ferry_status
ferryi_engine_create(const struct ferryi_engine_config *config, ferryi_engine **out)
{
    assert(config->count >= 0 && config->count <= FERRYI_DEVICES_MAX);
    ferryi_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "make the transfer engine: %zu bytes",
                           sizeof(*engine));
    engine->config = *config;
    for (int place = 1; place <= config->count; place++)
        engine->devices[place] = config->devices[place];
    engine->config.devices = engine->devices;
    engine->takes_pinned = find_takes_pinned(engine);
    engine->fixed_ring = config->chunk_bytes || config->chunk_count;
    if (!config->chunk_bytes)
        engine->config.chunk_bytes = CHUNK_BYTES;
    init_helpers(engine);
    ferryi_pins_init(&engine->pins, device_that_registers(engine), config->pinned_bytes_limit,
                     config->pin_piece_bytes, config->log);
    for (int place = 1; place <= config->count; place++)
        open_port(engine, place);
    *out = engine;
    return FERRY_OK;
}

void
ferryi_engine_destroy(ferryi_engine **engine)
{
    if (!*engine)
        return;
    ferryi_helpers_clear(&(*engine)->helpers);
    for (int place = 1; place <= (*engine)->config.count; place++) {
        struct ferryi_port *port = &(*engine)->ports[place];
        ferryi_ring_clear(&port->ring);
        ferryi_scatter_clear(*engine, place);
        ferryi_mutex_is_needless(&port->mutex);
        ferryi_timeline *timelines[] = {port->in, port->out, port->late};
        for (size_t i = 0; i < sizeof(timelines) / sizeof(*timelines); i++)
            if (timelines[i])
                ferryi_timeline_retire(timelines[i]);
        ferryi_mutex_destroy(&port->mutex);
    }
    ferryi_pins_clear(&(*engine)->pins);
    free(*engine);
    *engine = NULL;
}

struct ferryi_pins *
ferryi_engine_pins(ferryi_engine *engine)
{
    return &engine->pins;
}

bool
ferryi_engine_is_host(const ferryi_engine *engine, int place)
{
    return place == FERRY_PLACE_HOST ||
           (engine->devices[place]->capabilities & FERRYI_DEVICE_COHERENT);
}

ferry_status
ferryi_engine_open_timeline(ferryi_engine *engine, int place, bool out_of, ferryi_timeline **out)
{
    struct ferryi_port *port = &engine->ports[place];
    ferryi_timeline **timeline = out_of ? &port->out : &port->in;
    ferry_status status = FERRY_OK;
    ferryi_mutex_lock(&port->mutex);
    if (!*timeline)
        status = ferryi_timeline_open(engine->config.order, engine->devices[place], place, NULL,
                                      true, timeline);
    if (status == FERRY_OK)
        *out = *timeline;
    ferryi_mutex_unlock(&port->mutex);
    return status;
}

ferry_status
ferryi_engine_timeline(ferryi_engine *engine, int target_place, int source_place,
                       ferryi_timeline **out)
{
    bool to_host = ferryi_engine_is_host(engine, target_place);
    if (to_host && ferryi_engine_is_host(engine, source_place)) {
        *out = NULL;
        return FERRY_OK;
    }
    return ferryi_engine_open_timeline(engine, to_host ? source_place : target_place, to_host, out);
}

ferryi_timeline *
ferryi_engine_late_timeline(ferryi_engine *engine, ferryi_timeline *timeline)
{
    FERRYI_KEEP_ERROR(kept);
    struct ferryi_port *port = &engine->ports[timeline->place];
    ferryi_mutex_lock(&port->mutex);
    if (port->late || ferryi_timeline_open_spare(engine->config.order, timeline->device,
                                                 timeline->place, &port->late) == FERRY_OK)
        timeline = port->late;
    ferryi_mutex_unlock(&port->mutex);
    return timeline;
}

uint32_t
ferryi_engine_reachable(const ferryi_engine *engine, int target_place)
{
    if (ferryi_engine_is_host(engine, target_place))
        return (((uint32_t)1 << engine->config.count) - 1) << 1;
    return atomic_load_explicit(&engine->ports[target_place].reachable, memory_order_relaxed);
}

bool
ferryi_engine_takes_pinned(const ferryi_engine *engine, int place)
{
    return engine->takes_pinned >> place & 1;
}

/* -- counts ------------------------------------------------------------------------------------ */

static ferry_transfer_count
sum(ferry_transfer_count a, ferry_transfer_count b)
{
    return (ferry_transfer_count){a.copies + b.copies, a.bytes + b.bytes};
}

/* Returns the number and the bytes of all transfers in a direction, both direct and staged. */
static ferry_transfer_count
read_direction(ferryi_engine *engine, ferry_direction direction)
{
    return sum(ferryi_counter_read(&engine->counters[direction][false]),
               ferryi_counter_read(&engine->counters[direction][true]));
}

/* Returns the number and the bytes of all uploads and downloads together. Counts only staged
 * transfers if `staged` is true, and only direct transfers if it is false. */
static ferry_transfer_count
read_path(ferryi_engine *engine, bool staged)
{
    return sum(ferryi_counter_read(&engine->counters[FERRY_DIRECTION_UPLOAD][staged]),
               ferryi_counter_read(&engine->counters[FERRY_DIRECTION_DOWNLOAD][staged]));
}

static uint64_t
read_count(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

void
ferryi_engine_stats(ferryi_engine *engine, ferry_transfer_stats *out)
{
    *out = (ferry_transfer_stats){
        .upload = read_direction(engine, FERRY_DIRECTION_UPLOAD),
        .download = read_direction(engine, FERRY_DIRECTION_DOWNLOAD),
        .device = read_direction(engine, FERRY_DIRECTION_DEVICE),
        .peer = read_direction(engine, FERRY_DIRECTION_PEER),
        .host = read_direction(engine, FERRY_DIRECTION_HOST),
        .fill = read_direction(engine, FERRY_DIRECTION_FILL),
        .direct = read_path(engine, false),
        .staged = read_path(engine, true),
        .peer_staged = ferryi_counter_read(&engine->counters[FERRY_DIRECTION_PEER][true]),
        .batch_submissions = read_count(&engine->batch_submissions),
        .batch_copies = read_count(&engine->batch_copies),
        .auto_pinned = read_count(&engine->pins.turned),
    };
}

void
ferryi_engine_staging_stats(ferryi_engine *engine, struct ferryi_staging_stats *out)
{
    *out = (struct ferryi_staging_stats){
        .staging_chunks = read_count(&engine->chunks),
        .helper_chunks = read_count(&engine->helper_chunks),
        .copied_bytes = read_count(&engine->copied_bytes),
    };
}

static void
clear_count(_Atomic uint64_t *count)
{
    atomic_store_explicit(count, 0, memory_order_relaxed);
}

void
ferryi_engine_reset_stats(ferryi_engine *engine)
{
    for (int direction = 0; direction <= FERRY_DIRECTION_FILL; direction++)
        for (int staged = 0; staged < 2; staged++)
            ferryi_counter_clear(&engine->counters[direction][staged]);
    clear_count(&engine->copied_bytes);
    clear_count(&engine->chunks);
    clear_count(&engine->helper_chunks);
    clear_count(&engine->batch_submissions);
    clear_count(&engine->batch_copies);
    clear_count(&engine->pins.turned);
}

/* -- host to host ------------------------------------------------------------------------------ */

ferry_status
ferryi_run_wait_for_timeline(const struct ferryi_run *run)
{
    return run->timeline ? ferryi_timeline_synchronize(run->timeline) : FERRY_OK;
}

static bool
overlap(const char *a, const char *b, size_t bytes)
{
    return (uintptr_t)a < (uintptr_t)b + bytes && (uintptr_t)b < (uintptr_t)a + bytes;
}

ferry_status
ferryi_run_copy_on_host(struct ferryi_run *run, char *target, const char *source, size_t bytes)
{
    if (overlap(target, source, bytes)) {
        /* Overlapping memory is copied in one call. If the copy were divided into parts, a later
         * part would read bytes that an earlier part has overwritten. */
        memmove(target, source, bytes);
        ferryi_run_arrived(run, bytes);
        return ferryi_run_progress(run);
    }
    size_t largest = ferryi_run_is_watched(run) ? run->engine->config.chunk_bytes : bytes;
    enum ferryi_copy_loop loop =
        bytes >= FERRYI_COPY_STREAM_FROM ? FERRYI_COPY_STREAM : FERRYI_COPY_LIBC;
    ferry_status status = FERRY_OK;
    for (size_t at = 0, part; status == FERRY_OK && at < bytes; at += part) {
        part = ferryi_min_size(ferryi_run_part(run, run->done, largest, 1), bytes - at);
        ferryi_copy_bytes(loop, target + at, source + at, part);
        ferryi_run_arrived(run, part);
        status = ferryi_run_progress(run);
    }
    return status;
}

/* -- running transfers ------------------------------------------------------------------------- */

struct ferryi_run
ferryi_run_make(ferryi_engine *engine, int target_place, int source_place, size_t bytes,
                ferryi_timeline *timeline, struct ferryi_transfer_job *job)
{
    struct ferryi_run run = {.engine = engine,
                             .job = job,
                             .target_place = target_place,
                             .source_place = source_place,
                             .timeline = timeline,
                             .bytes = bytes,
                             .unit = ferryi_max_size(job->unit, 1)};
    bool to_host = ferryi_engine_is_host(engine, target_place),
         from_host = ferryi_engine_is_host(engine, source_place);
    if (to_host && from_host)
        run.direction = FERRY_DIRECTION_HOST;
    else if (to_host)
        run.direction = FERRY_DIRECTION_DOWNLOAD;
    else if (from_host)
        run.direction = FERRY_DIRECTION_UPLOAD;
    else
        run.direction =
            target_place == source_place ? FERRY_DIRECTION_DEVICE : FERRY_DIRECTION_PEER;
    assert(run.direction == FERRY_DIRECTION_HOST || timeline);
    return run;
}
