/* SPDX-License-Identifier: MIT */
/* Enables and tests peer access between GPUs. */
#include "src/device/gpu/gpu_device.h"

#include <string.h>

/* The words that the test copies: 4 KiB. */
enum { WORDS = 1024, BYTES = WORDS * sizeof(uint32_t) };

static uint64_t
bit_of(const struct ferryi_gpu_device *device)
{
    return device->ordinal < 64 ? (uint64_t)1 << device->ordinal : 0;
}

/* What the test of one pair of devices allocates. */
struct peer_test {
    struct ferryi_gpu_device *target, *source;
    uint32_t *words; /* pinned: the words that are sent, and those that arrive */
    void *from, *to, *from_stream, *to_stream;
};

static ferry_status
begin_test(struct peer_test *test)
{
    ferryi_device *target = &test->target->base, *source = &test->source->base;
    void *words = NULL;
    FERRYI_OR_RETURN(ferryi_gpu_memory_alloc(target, FERRY_MEMORY_PINNED, 2 * BYTES, &words));
    test->words = words;
    FERRYI_OR_RETURN(ferryi_gpu_memory_alloc(source, FERRY_MEMORY_DEVICE, BYTES, &test->from));
    FERRYI_OR_RETURN(ferryi_gpu_memory_alloc(target, FERRY_MEMORY_DEVICE, BYTES, &test->to));
    FERRYI_OR_RETURN(ferryi_gpu_stream_create(source, &test->from_stream));
    return ferryi_gpu_stream_create(target, &test->to_stream);
}

/* Frees what begin_test() has allocated, all or a part. A failure is no reason not to use a peer.
 */
static void
end_test(const struct peer_test *test)
{
    ferryi_device *target = &test->target->base, *source = &test->source->base;
    FERRYI_KEEP_ERROR(kept);
    if (test->to_stream)
        (void)ferryi_gpu_stream_destroy(target, test->to_stream);
    if (test->from_stream)
        (void)ferryi_gpu_stream_destroy(source, test->from_stream);
    (void)ferryi_gpu_memory_free(target, FERRY_MEMORY_DEVICE, test->to);
    (void)ferryi_gpu_memory_free(source, FERRY_MEMORY_DEVICE, test->from);
    (void)ferryi_gpu_memory_free(target, FERRY_MEMORY_PINNED, test->words);
}

static ferry_status
copy_peer(const struct peer_test *test)
{
    struct ferryi_gpu_device *target = test->target;
    struct ferryi_gpu_entry entry;
    FERRYI_OR_RETURN(ferryi_gpu_enter(target, FERRYI_GPU_STREAM_WORK, &entry));
    ferry_status st =
        FERRYI_GPU_CALL(target, copy_peer, ferryi_gpu_address(test->to), target->peer,
                        ferryi_gpu_address(test->from), test->source->peer, BYTES, test->to_stream);
    ferryi_gpu_leave(target, &entry);
    return st;
}

/* Sends words of the source's memory to the target's memory, and from there to the host. */
static ferry_status
run_test(struct peer_test *test)
{
    ferryi_device *target = &test->target->base, *source = &test->source->base;
    FERRYI_OR_RETURN(begin_test(test));
    for (uint32_t i = 0; i < WORDS; i++)
        test->words[i] = i * UINT32_C(2654435761) + 1;
    memset(test->words + WORDS, 0, BYTES);
    const struct ferryi_copy up = {.target = test->from,
                                   .source = test->words,
                                   .bytes = BYTES,
                                   .direction = FERRY_DIRECTION_UPLOAD},
                             down = {.target = test->words + WORDS,
                                     .source = test->to,
                                     .bytes = BYTES,
                                     .direction = FERRY_DIRECTION_DOWNLOAD};
    FERRYI_OR_RETURN(ferryi_gpu_copy(source, &up, test->from_stream));
    FERRYI_OR_RETURN(ferryi_gpu_stream_synchronize(source, test->from_stream));
    FERRYI_OR_RETURN(ferryi_gpu_fill(target, test->to, 0, 1, BYTES, test->to_stream));
    FERRYI_OR_RETURN(copy_peer(test));
    FERRYI_OR_RETURN(ferryi_gpu_copy(target, &down, test->to_stream));
    return ferryi_gpu_stream_synchronize(target, test->to_stream);
}

/* Returns whether peer access gives the right bytes. Some machines enable it although their IOMMU
 * or their virtualisation breaks it. A test that cannot be made proves nothing, and counts as
 * passed. */
static bool
gives_right_bytes(struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *source)
{
    struct peer_test test = {.target = gpu, .source = source};
    FERRYI_KEEP_ERROR(kept);
    bool right = run_test(&test) != FERRY_OK || memcmp(test.words, test.words + WORDS, BYTES) == 0;
    end_test(&test);
    if (!right && !(atomic_fetch_or(&gpu->peers_broken, bit_of(source)) & bit_of(source)))
        ferryi_log(&gpu->log, FERRY_LOG_WARNING,
                   "copy from %s to %s: peer access is enabled, but a test of 4 KiB gave "
                   "wrong bytes; copies between these devices go through the host",
                   source->name, gpu->name);
    return right;
}

/* Enables peer access. If the driver refuses it, it copies through the host, which is slower but
 * gives the same result. The access is never disabled, because other code in the process may rely
 * on it. */
static bool
enable(struct ferryi_gpu_device *gpu, const struct ferryi_gpu_device *source)
{
    struct ferryi_gpu_entry entry;
    int can = 0;
    if (ferryi_gpu_enter(gpu, FERRYI_GPU_ASIDE, &entry) != FERRY_OK)
        return false;
    ferryi_gpu_result result = gpu->driver->can_access_peer(&can, gpu->device, source->device);
    if (result == FERRYI_GPU_SUCCESS && can)
        result = gpu->driver->peer_enable(source->context, 0);
    ferryi_gpu_leave(gpu, &entry);
    return can &&
           (result == FERRYI_GPU_SUCCESS || result == FERRYI_GPU_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

/* Threads that come here at once all make the test, so that none copies before it has ended. */
bool
ferryi_gpu_open_peer(struct ferryi_gpu_device *gpu, struct ferryi_gpu_device *source)
{
    uint64_t bit = bit_of(source);
    if (bit == 0)
        return false;
    if (!(atomic_load(&gpu->peers_asked) & bit)) {
        if (enable(gpu, source) && gives_right_bytes(gpu, source))
            atomic_fetch_or(&gpu->peers_open, bit);
        atomic_fetch_or(&gpu->peers_asked, bit);
    }
    return atomic_load(&gpu->peers_open) & bit;
}

ferry_status
ferryi_gpu_check_peer(struct ferryi_gpu_device *gpu, const struct ferryi_gpu_device *source)
{
    if (!(atomic_load_explicit(&gpu->peers_broken, memory_order_relaxed) & bit_of(source)))
        return FERRY_OK;
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "copy from %s to %s: peer access gives wrong bytes",
                       source->name, gpu->name);
}
