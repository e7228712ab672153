/* SPDX-License-Identifier: MIT */
#include "cli/allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

struct pool {
    ferry_context *context;
    ferry_pool *memory;
    ferry_stream *streams[ALLOCATOR_STREAMS_MAX]; /* the first is the default stream */
    uint32_t stream_count, made;
    ferry_place_info device;
    uint64_t given_bytes, peak_given_bytes; /* in live blocks */
};

static ferry_stream *
stream_of(struct pool *pool, uint32_t stream)
{
    return pool->streams[stream % pool->stream_count];
}

static void *
take(void *user, uint64_t bytes, uint32_t stream, uint64_t *out_given)
{
    struct pool *pool = user;
    ferry_block *block;
    if (ferry_pool_allocate(pool->memory, (size_t)bytes, stream_of(pool, stream), &block) !=
        FERRY_OK)
        return NULL;
    *out_given = ferry_block_bytes(block);
    pool->given_bytes += *out_given;
    if (pool->given_bytes > pool->peak_given_bytes)
        pool->peak_given_bytes = pool->given_bytes;
    return block;
}

static void
give(void *user, void *block, uint32_t stream)
{
    struct pool *pool = user;
    ferry_block *given = block;
    pool->given_bytes -= ferry_block_bytes(given);
    /* Fails only for what no script does: a block given twice, or another context's. */
    if (ferry_block_free(&given, stream_of(pool, stream)) != FERRY_OK)
        abort();
}

/* The text of a context is where the library reports waits. The pool is the only one that is used,
 * so that the sum is its own. */
static uint64_t
waits_of(ferry_context *context)
{
    static const char word[] = " waits";
    size_t bytes = ferry_context_describe(context, NULL, 0) + 64;
    char *text = malloc(bytes);
    uint64_t waits = 0;
    if (!text)
        return 0;
    ferry_context_describe(context, text, bytes);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        const char *number = at;
        while (number > text && number[-1] >= '0' && number[-1] <= '9')
            number--;
        waits += strtoull(number, NULL, 10);
    }
    free(text);
    return waits;
}

static void
look(void *user, struct allocator_state *out)
{
    struct pool *pool = user;
    ferry_pool_stats stats;
    *out = (struct allocator_state){0};
    if (ferry_pool_get_stats(pool->memory, &stats) != FERRY_OK)
        return;
    *out = (struct allocator_state){
        .reserved_bytes = stats.reserved_bytes,
        .peak_reserved_bytes = stats.peak_reserved_bytes,
        .peak_given_bytes = pool->peak_given_bytes,
        .free_bytes = stats.cached_bytes,
        .largest_free_bytes = stats.largest_free_bytes,
        .fragmentation = stats.fragmentation,
        .hits = stats.hits,
        .misses = stats.misses,
        .waits = waits_of(pool->context),
    };
}

static const char *
why(void *user)
{
    (void)user;
    return ferry_last_error();
}

static void
pool_close(void *user)
{
    struct pool *pool = user;
    for (uint32_t i = 1; i < pool->made; i++)
        ferry_stream_destroy(&pool->streams[i]);
    ferry_context_destroy(&pool->context);
    free(pool);
}

static ferry_status
make_streams(struct pool *pool, uint32_t wanted)
{
    pool->streams[0] = ferry_context_stream(pool->context, 1);
    pool->stream_count = wanted == 0                      ? 1
                         : wanted < ALLOCATOR_STREAMS_MAX ? wanted
                                                          : ALLOCATOR_STREAMS_MAX;
    for (pool->made = 1; pool->made < pool->stream_count; pool->made++) {
        ferry_status status = ferry_stream_create(pool->context, 1, &pool->streams[pool->made]);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

bool
pool_open(const struct allocator_options *options, struct allocator *out, const char **out_device,
          uint64_t *out_limit)
{
    const char *devices = options->devices ? options->devices : getenv("FERRY_DEVICE");
    size_t limit = (size_t)options->limit_bytes;
    char tuning[96];
    snprintf(tuning, sizeof(tuning), "emulated.memory=%zu device.handle=%zu", limit,
             (size_t)options->handle_bytes);
    ferry_context_options settings = {
        .devices = devices && *devices ? devices : "host",
        .device_bytes_limit = limit,
        .host_bytes_limit = limit,
        .tuning = tuning,
    };
    ferry_memory_info memory;
    ferry_status status;
    struct pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return false;
    FERRY_TRY(status, fail, ferry_context_create(&settings, &pool->context));
    FERRY_TRY(status, fail,
              ferry_context_pool(pool->context, 1, FERRY_MEMORY_DEVICE, &pool->memory));
    FERRY_TRY(status, fail, make_streams(pool, options->streams));
    FERRY_TRY(status, fail, ferry_context_get_place_info(pool->context, 1, &pool->device));
    FERRY_TRY(status, fail, ferry_context_get_memory_info(pool->context, 1, &memory));
    if (out_device)
        *out_device = pool->device.name;
    if (out_limit)
        *out_limit = limit ? limit : memory.total;
    *out = (struct allocator){"pool", pool, take, give, look, why, pool_close};
    return true;

fail:
    pool_close(pool);
    return false;
}
