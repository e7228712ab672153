/* SPDX-License-Identifier: MIT */
#include "src/transfer/run.h"

/* Chooses the parts, the copy loop and the number of helpers of a staged transfer. */

/* Sizes of the parts into which a transfer of one range is divided on devices where each part costs
 * driver calls. From FERRYI_HELP_FROM bytes on, all parts have PART_BYTES bytes, so that the device
 * starts early and all threads have work until the end; from LONG_PART_FROM bytes on they have
 * LONG_PART_BYTES bytes, since the begin and the end then hardly count. */
#define PART_BYTES      ((size_t)256 << 10)
#define LONG_PART_BYTES ((size_t)512 << 10)
#define LONG_PART_FROM  ((size_t)256 << 20)
/* A shorter transfer is divided into SMALL_PARTS parts, unless these parts would be smaller than
 * SMALL_UPLOAD_LEAST or SMALL_DOWNLOAD_LEAST bytes. The host fills or drains one part while the
 * device copies the other. A short upload gains nothing, because it returns when the last byte is
 * in the ring. */
#define SMALL_PARTS          2
#define SMALL_UPLOAD_LEAST   ((size_t)64 << 10)
#define SMALL_DOWNLOAD_LEAST ((size_t)32 << 10)
/* HELPERS_PLAIN is the number of helper threads for a device whose link is slow or has an unknown
 * speed. HELPERS_MOST is the maximum number for any device. */
#define HELPERS_PLAIN 3
#define HELPERS_MOST  7
/* Number of bytes per second that one thread is assumed to copy through a ring. tests/gpu/staging.c
 * measures this number. */
#define THREAD_BYTES 8000000000u

/* Minimum size of a transfer whose copy loop is chosen by processor family. A shorter transfer uses
 * memcpy(), which leaves downloaded bytes in the caches, where the program reads them fast. A
 * longer download would fill most of the second-level cache. Writing its bytes into the caches
 * would then cost more than reading them from memory later. */
#define BRIEF_BYTES ((size_t)256 << 10)

/* Minimum size of an upload that uses the copy loop `long_upload`, which may use ordinary stores.
 * Ordinary stores are fast only if the chunk is in the caches. An upload of this size fills each
 * chunk of the ring several times, so that the chunks are cached from the second time on. */
#define LONG_BYTES ((size_t)128 << 20)

/*
 * The copy loops for transfers of at least BRIEF_BYTES, by processor family. `upload` and
 * `download` are for devices that have a copy engine. `long_upload` replaces `upload` from
 * LONG_BYTES bytes on. `visible_upload` and `visible_download` are for devices whose
 * memory the host's processors copy, such as emulated devices.
 */
static const struct {
    enum ferryi_copy_loop upload, long_upload, download, visible_upload, visible_download;
} choices[] = {
    /* Not measured. */
    [FERRYI_PROCESSOR_OTHER] = {FERRYI_COPY_LIBC, FERRYI_COPY_LIBC, FERRYI_COPY_LIBC,
                                FERRYI_COPY_LIBC, FERRYI_COPY_LIBC},
    /*
     * Measured in GB/s on a Xeon (family 6, model 207) with an H100 and 8 threads, with the copy
     * loops libc, prefetch and stream in this order:
     * - Uploads of 4 MiB: 18, 18, 29; of 16 MiB: 30, 32, 38; of 256 MiB: 45, 50, 44
     * - Downloads of 512 KiB: 5, 6, 9; of 256 MiB: 31, 39, 50
     * Emulated devices: the speed of copying 512 MiB into 4 chunks of 256 KiB, divided by that of
     * memcpy(), was 1.27 with prefetch and 0.96 with libc.
     */
    [FERRYI_PROCESSOR_INTEL] = {FERRYI_COPY_STREAM, FERRYI_COPY_PREFETCH, FERRYI_COPY_STREAM,
                                FERRYI_COPY_PREFETCH, FERRYI_COPY_STREAM},
    /*
     * Measured on EPYCs without a GPU, as the speed divided by that of memcpy():
     * - EPYC 7003, filling 16 chunks of 2 MiB: stream 1.44, libc 1.06, prefetch 1.05
     * - EPYC 7003, emulated devices, `bench transfer` of 4 to 64 MiB: uploads prefetch 1.39, stream
     *   1.09, libc 0.93; downloads stream 1.55, prefetch 1.19, libc 0.77
     * - EPYC 9004, the same: uploads prefetch 0.72, stream 0.92, libc 0.97; downloads stream 0.95,
     *   prefetch 0.90, libc 1.00
     */
    [FERRYI_PROCESSOR_AMD_19H] = {FERRYI_COPY_STREAM, FERRYI_COPY_STREAM, FERRYI_COPY_STREAM,
                                  FERRYI_COPY_STREAM, FERRYI_COPY_STREAM},
    /*
     * Measured on an EPYC 9005 without a GPU, with the copy loops libc, prefetch and stream in this
     * order:
     * - Filling 16 chunks of 2 MiB: 24, 27, 29 GB/s; draining them: 25, 26, 33 GB/s
     * - Emulated devices, `bench transfer` of 16 to 256 MiB, as the speed divided by that of
     *   memcpy(): uploads 1.0, 0.9, 0.7; downloads 0.71, 0.80, 0.85 to 1.03
     * Draining with memcpy() a chunk that the other processor has just filled runs at 12 GB/s or at
     * 21 GB/s, and changes between the two while a process runs. With the other loops, draining
     * runs at 20 GB/s or more.
     */
    [FERRYI_PROCESSOR_AMD_1AH] = {FERRYI_COPY_STREAM, FERRYI_COPY_STREAM, FERRYI_COPY_STREAM,
                                  FERRYI_COPY_LIBC, FERRYI_COPY_STREAM},
};

enum ferryi_copy_loop
ferryi_staging_loop(const ferryi_engine *engine, int place, bool up, size_t bytes)
{
    if (engine->config.copy != FERRYI_COPY_AUTO)
        return engine->config.copy;
    if (bytes < BRIEF_BYTES)
        return FERRYI_COPY_LIBC;
    enum ferryi_processor processor = ferryi_copy_processor();
    if (!ferryi_engine_is_driven(engine, place))
        return up ? choices[processor].visible_upload : choices[processor].visible_download;
    if (!up)
        return choices[processor].download;
    return bytes < LONG_BYTES ? choices[processor].upload : choices[processor].long_upload;
}

struct ferryi_staging
ferryi_staging_plain(ferryi_engine *engine, int place)
{
    struct ferryi_ring *ring = &engine->ports[place].ring;
    return (struct ferryi_staging){
        .ring = ring, .loop = FERRYI_COPY_LIBC, .window = 1, .part = ring->chunk_bytes};
}

/* Returns how many bytes of each staging chunk a transfer of `bytes` bytes uses. The number is
 * chosen so that even a short transfer has several chunks in flight. */
static size_t
part_of(const ferryi_engine *engine, int place, bool down, size_t bytes)
{
    const size_t chunk = engine->ports[place].ring.chunk_bytes;
    const bool is_short = bytes < FERRYI_HELP_FROM;
    size_t part = is_short ? 0 : engine->config.part_bytes;
    if (part == 0 && (engine->fixed_ring || !ferryi_engine_is_driven(engine, place)))
        return chunk;
    if (is_short)
        part =
            ferryi_max_size(bytes / SMALL_PARTS, down ? SMALL_DOWNLOAD_LEAST : SMALL_UPLOAD_LEAST);
    else if (part == 0)
        part = bytes < LONG_PART_FROM ? PART_BYTES : LONG_PART_BYTES;
    part = ferryi_min_size(part, chunk);
    return ferryi_min_size((part + FERRYI_PAGE - 1) / FERRYI_PAGE * FERRYI_PAGE, chunk);
}

/* Returns the number of helper threads that saturate a device's link together with the calling
 * thread. The number is at least HELPERS_PLAIN and at most HELPERS_MOST. It exceeds HELPERS_PLAIN
 * only if the helper threads and the calling thread take at most half of the processors. */
unsigned
ferryi_staging_helpers_of(uint64_t link_bytes, unsigned processors)
{
    uint64_t threads = (link_bytes + THREAD_BYTES - 1) / THREAD_BYTES;
    unsigned helpers = threads > HELPERS_MOST ? HELPERS_MOST
                       : threads > 0          ? (unsigned)threads - 1
                                              : 0;
    unsigned half = processors / 2 > 0 ? processors / 2 - 1 : 0;
    helpers = helpers < half ? helpers : half;
    return helpers > HELPERS_PLAIN ? helpers : HELPERS_PLAIN;
}

/*
 * The number that the program has configured decides. Otherwise there are as many helper threads as
 * the link needs, or fewer if the processors are too few. One processor stays free for the calling
 * thread. If a processor of the host makes the device's copies, a second one stays free for them.
 */
unsigned
ferryi_staging_helpers(const ferryi_engine *engine, int place)
{
    if (engine->config.threads > 0)
        return engine->config.threads - 1;
    unsigned busy = 1 + ((engine->devices[place]->capabilities & FERRYI_DEVICE_HOST_VISIBLE) != 0);
    unsigned processors = ferryi_processors(), spare = processors > busy ? processors - busy : 0;
    unsigned most = ferryi_staging_helpers_of(engine->devices[place]->link_bytes, processors);
    return spare < most ? spare : most;
}

/* Returns the number of helper threads for a transfer of `bytes` bytes. Returns 0 if the transfer
 * would end before the helper threads wake up. */
static unsigned
helpers_for(ferryi_engine *engine, int place, size_t bytes)
{
    if (bytes < FERRYI_HELP_FROM && engine->config.threads == 0)
        return 0;
    unsigned wanted = ferryi_staging_helpers(engine, place);
    unsigned running = ferryi_helpers_start(&engine->helpers, wanted);
    return running < wanted ? running : wanted;
}

/* Limits the number of chunks that the threads fill or drain at the same time. The limit is two
 * chunks for each thread, so that all threads stay busy. It is at most half of the ring, so that
 * the copy engine can work on the other half. */
struct ferryi_staging
ferryi_staging_choose(const struct ferryi_run *run)
{
    ferryi_engine *engine = run->engine;
    const bool down = run->direction == FERRY_DIRECTION_DOWNLOAD;
    const bool peer = run->direction == FERRY_DIRECTION_PEER;
    const int place = down ? run->source_place : run->target_place;
    struct ferryi_ring *ring = &engine->ports[place].ring;
    struct ferryi_staging how = {.ring = ring,
                                 .loop = ferryi_staging_loop(engine, place, !down, run->bytes),
                                 .window = 1,
                                 .part = part_of(engine, place, down, run->bytes)};
    unsigned helpers = run->bytes > how.part && !peer ? helpers_for(engine, place, run->bytes) : 0;
    if (helpers > 0) {
        how.shared = true;
        how.window = ferryi_min_size(ferryi_max_size(ring->chunk_count / 2, 1), 2 * (helpers + 1));
    }
    return how;
}
