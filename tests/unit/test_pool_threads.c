/* SPDX-License-Identifier: MIT */
/* Tests pools that several threads use at the same time. */
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/pool/magazine.h"
#include "tests/support/copy_slots.h"
#include "tests/unit/pool_backend.h"

#if __has_include(<linux/seccomp.h>) /* musl systems may lack this header of the Linux kernel */
#include <linux/filter.h>
#include <linux/seccomp.h>
#define HAS_FILTERS 1
#else
#define HAS_FILTERS 0
#endif

#define THREADS 8
#define SLOTS   32
#define ROUNDS  3000

static uint64_t
next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Data of threads that pass blocks to each other through an array of shared pointers. */
struct crowd {
    struct fixture fixture;
    _Atomic(ferry_block *) slots[SLOTS];
    pthread_barrier_t start;
    atomic_uint next_thread;
    atomic_ulong failures, spoiled;
    unsigned max_log2;
};

/* Writes the address of the block to its first and last words, so that is_marked() detects a
 * changed block. */
static void
mark(ferry_block *block)
{
    uintptr_t *words = ferry_block_pointer(block);
    words[0] = (uintptr_t)block;
    words[ferry_block_bytes(block) / sizeof(uintptr_t) - 1] = (uintptr_t)block;
}

static bool
is_marked(const ferry_block *block)
{
    const uintptr_t *words = ferry_block_pointer(block);
    return words[0] == (uintptr_t)block &&
           words[ferry_block_bytes(block) / sizeof(uintptr_t) - 1] == (uintptr_t)block;
}

static void
crowd_give(struct crowd *crowd, ferry_block *block)
{
    if (!block)
        return;
    if (!is_marked(block))
        atomic_fetch_add(&crowd->spoiled, 1);
    ferryi_pool_give(block, 0);
}

static void
crowd_round(struct crowd *crowd, uint64_t *seed)
{
    uint64_t dice = next_random(seed);
    _Atomic(ferry_block *) *slot = &crowd->slots[dice % SLOTS];
    if (dice % 97 == 0)
        (void)ferry_pool_trim(crowd->fixture.pool, (dice % 5) * MIB);
    if (dice % 3 == 0) {
        crowd_give(crowd, atomic_exchange(slot, NULL));
        return;
    }
    size_t bytes = sizeof(uintptr_t)
                   << (next_random(seed) %
                       (crowd->max_log2 - 3)); /* at least the size of the marks */
    bytes += next_random(seed) % bytes;
    ferry_block *block = NULL;
    if (ferry_pool_allocate(crowd->fixture.pool, bytes, NULL, &block) != FERRY_OK) {
        atomic_fetch_add(&crowd->failures, 1);
        return;
    }
    mark(block);
    crowd_give(crowd, atomic_exchange(slot, block));
}

static void *
crowd_run(void *user)
{
    struct crowd *crowd = user;
    uint64_t seed = 1000 + atomic_fetch_add(&crowd->next_thread, 1);
    pthread_barrier_wait(&crowd->start);
    for (int i = 0; i < ROUNDS; i++)
        crowd_round(crowd, &seed);
    return NULL;
}

static void
run_threads(void *(*run)(void *), void *user)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, user), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void
crowd_test(size_t limit_bytes, unsigned max_log2)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    assert_non_null(crowd);
    fixture_open(&crowd->fixture, FERRY_MEMORY_PAGEABLE, limit_bytes, NULL);
    crowd->fixture.crowded = true;
    crowd->fixture.log.callback = NULL;
    crowd->max_log2 = max_log2;
    pthread_barrier_init(&crowd->start, NULL, THREADS);
    run_threads(crowd_run, crowd);

    assert_agrees(&crowd->fixture);
    ferry_pool_stats stats = statistics(&crowd->fixture);
    assert_int_equal(crowd->spoiled, 0);
    assert_int_equal(stats.allocations, stats.frees + stats.live_blocks);
    if (limit_bytes)
        assert_true(crowd->fixture.backend.peak_bytes <= limit_bytes);
    else
        assert_int_equal(crowd->failures, 0);

    for (size_t i = 0; i < SLOTS; i++)
        crowd_give(crowd, crowd->slots[i]);
    assert_int_equal(statistics(&crowd->fixture).live_blocks, 0);
    assert_int_equal(ferry_pool_trim(crowd->fixture.pool, 0), FERRY_OK);
    assert_int_equal(crowd->fixture.backend.count, 0);
    pthread_barrier_destroy(&crowd->start);
    fixture_close(&crowd->fixture);
    free(crowd);
}

static void
test_counts_agree_after_eight_threads(void **state)
{
    (void)state;
    crowd_test(0, 20);
}

static void
test_eight_threads_stay_within_the_limit(void **state)
{
    (void)state;
    crowd_test(12 * MIB, 21);
}

/* -- herd: all threads allocate at once, from a pool that has memory for only one slab --------- */

static void *
herd_run(void *user)
{
    struct crowd *crowd = user;
    for (int i = 0; i < 200; i++) {
        ferry_block *block = NULL;
        pthread_barrier_wait(&crowd->start);
        if (ferry_pool_allocate(crowd->fixture.pool, 200, NULL, &block) != FERRY_OK)
            atomic_fetch_add(&crowd->failures, 1);
        pthread_barrier_wait(&crowd->start);
        ferryi_pool_give(block, 0);
        pthread_barrier_wait(&crowd->start);
        (void)ferry_pool_trim(crowd->fixture.pool, 0);
    }
    return NULL;
}

static void
test_what_another_thread_is_fetching_is_waited_for(void **state)
{
    (void)state;
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    assert_non_null(crowd);
    fixture_open(&crowd->fixture, FERRY_MEMORY_PAGEABLE, 2 * MIB, NULL);
    crowd->fixture.crowded = true;
    pthread_barrier_init(&crowd->start, NULL, THREADS);
    run_threads(herd_run, crowd);
    assert_int_equal(crowd->failures, 0);
    assert_true(crowd->fixture.backend.peak_bytes <= 2 * MIB);
    pthread_barrier_destroy(&crowd->start);
    fixture_close(&crowd->fixture);
    free(crowd);
}

/* -- churn: the limit suffices only if an allocation waits for memory that is being freed ------ */

static void *
churn_run(void *user)
{
    struct crowd *crowd = user;
    uint64_t seed = 1000 + atomic_fetch_add(&crowd->next_thread, 1);
    pthread_barrier_wait(&crowd->start);
    for (int i = 0; i < 500; i++) {
        ferry_block *block = NULL;
        size_t bytes = next_random(&seed) % 3 == 0 ? 100 * KIB : 3 * MIB + next_random(&seed) % MIB;
        if (ferry_pool_allocate(crowd->fixture.pool, bytes, NULL, &block) != FERRY_OK)
            atomic_fetch_add(&crowd->failures, 1);
        ferryi_pool_give(block, 0);
        (void)ferry_pool_trim(crowd->fixture.pool, (next_random(&seed) % 3) * MIB);
    }
    return NULL;
}

static void
test_memory_that_is_going_back_is_waited_for(void **state)
{
    (void)state;
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    assert_non_null(crowd);
    fixture_open(&crowd->fixture, FERRY_MEMORY_PAGEABLE, THREADS * 4 * MIB, NULL);
    crowd->fixture.crowded = true;
    crowd->fixture.backend.free_ns = 20000;
    pthread_barrier_init(&crowd->start, NULL, THREADS);
    run_threads(churn_run, crowd);
    assert_int_equal(crowd->failures, 0);
    assert_true(crowd->fixture.backend.peak_bytes <= THREADS * 4 * MIB);
    pthread_barrier_destroy(&crowd->start);
    fixture_close(&crowd->fixture);
    free(crowd);
}

/* -- timelines: each thread fills blocks on its own stream, and must read its own values back -- */

#define TIMELINE_BYTES (96 * KIB)

struct convoy {
    ferryi_device *device;
    ferryi_order order;
    ferry_pool *pool;
    atomic_ulong wrong, failures;
    atomic_uint next_thread;
};

static ferry_status
convoy_alloc(void *user, size_t bytes, void **out)
{
    return FERRYI_CALL((ferryi_device *)user, memory_alloc, FERRY_MEMORY_DEVICE, bytes, out);
}

static ferry_status
convoy_free(void *user, void *memory, size_t bytes)
{
    (void)bytes;
    return FERRYI_CALL((ferryi_device *)user, memory_free, FERRY_MEMORY_DEVICE, memory);
}

static ferry_status
convoy_round(struct convoy *convoy, ferryi_timeline *timeline, unsigned char *pinned,
             uint32_t value)
{
    ferry_block *block;
    void *pointer;
    ferry_status status;
    /* The allocation fails while the other threads hold all blocks of the pool. */
    while ((status = ferryi_pool_take(convoy->pool, TIMELINE_BYTES, 256, timeline, &block,
                                      &pointer)) == FERRY_ERROR_OUT_OF_MEMORY)
        sched_yield();
    if (status != FERRY_OK)
        return status;
    status = FERRYI_CALL(convoy->device, fill, pointer, value, 1, TIMELINE_BYTES, timeline->native);
    if (status == FERRY_OK)
        status = FERRYI_CALL(convoy->device, copy_download, pinned, pointer, TIMELINE_BYTES,
                             timeline->native);
    ferryi_pool_give(block, ferryi_timeline_sync_point(timeline));
    return status;
}

static void *
convoy_run(void *user)
{
    struct convoy *convoy = user;
    uint32_t value = 1 + atomic_fetch_add(&convoy->next_thread, 1);
    ferryi_timeline *timeline = NULL;
    void *pinned = NULL;
    ferry_status status =
        ferryi_timeline_open(&convoy->order, convoy->device, 1, NULL, false, &timeline);
    if (status == FERRY_OK)
        status =
            FERRYI_CALL(convoy->device, memory_alloc, FERRY_MEMORY_PINNED, TIMELINE_BYTES, &pinned);
    for (int i = 0; i < 100 && status == FERRY_OK; i++) {
        status = convoy_round(convoy, timeline, pinned, value);
        if (status == FERRY_OK && i % 10 == 9)
            status = FERRYI_CALL(convoy->device, stream_synchronize, timeline->native);
        const unsigned char *bytes = pinned;
        for (size_t at = 0; at < TIMELINE_BYTES && i % 10 == 9; at++)
            if (bytes[at] != value) {
                atomic_fetch_add(&convoy->wrong, 1);
                break;
            }
    }
    if (status != FERRY_OK)
        atomic_fetch_add(&convoy->failures, 1);
    if (pinned &&
        (FERRYI_CALL(convoy->device, stream_synchronize, timeline->native) != FERRY_OK ||
         FERRYI_CALL(convoy->device, memory_free, FERRY_MEMORY_PINNED, pinned) != FERRY_OK))
        atomic_fetch_add(&convoy->failures, 1);
    return NULL;
}

static void
test_threads_on_their_own_timelines_share_memory_in_order(void **state)
{
    (void)state;
    struct convoy convoy = {0};
    struct ferryi_device_config device_config = {.emulated_memory_bytes = 4 * MIB};
    assert_int_equal(ferryi_emulated_kind.open(0, &device_config, &convoy.device), FERRY_OK);
    assert_int_equal(ferryi_order_init(&convoy.order, NULL), FERRY_OK);
    struct ferryi_pool_config config = {
        .backend = {.alloc = convoy_alloc, .free = convoy_free, .user = convoy.device},
        .order = &convoy.order,
        .place = 1,
        .kind = FERRY_MEMORY_DEVICE,
        .limit_bytes = 3 * TIMELINE_BYTES, /* fewer blocks than threads */
    };
    assert_int_equal(ferryi_pool_create(&config, &convoy.pool), FERRY_OK);
    run_threads(convoy_run, &convoy);
    assert_int_equal(convoy.wrong, 0);
    assert_true(ferryi_pool_check(convoy.pool));
    assert_int_equal(ferryi_device_synchronize(convoy.device), FERRY_OK);
    ferryi_pool_destroy(&convoy.pool);
    ferryi_order_clear(&convoy.order);
    convoy.device->ops->close(convoy.device);
    assert_int_equal(convoy.failures, 0);
}

/* -- a sandbox that forbids membarrier(), which ferryi_fence_all() calls ----------------------- */

/* Forbids membarrier() in this thread and in threads that it starts later. Returns false if the
 * system or an emulator does not support filters of system calls. */
static bool
forbid_membarrier(void)
{
#if HAS_FILTERS
    const int expedited = 1 << 3; /* value of MEMBARRIER_CMD_PRIVATE_EXPEDITED */
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(steps) / sizeof(steps[0]), .filter = steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           syscall(SYS_membarrier, expedited, 0, 0) != 0;
#else
    return false;
#endif
}

static void
test_counts_agree_in_a_sandbox(void **state)
{
    (void)state;
    if (!ferryi_caches_are_lockless || !forbid_membarrier())
        skip();
    /* Without membarrier(), ferryi_fence_all() must wait for at least 1 ms. The test measures the
     * time, because a missing wait would rarely lead to wrong values. */
    uint64_t begun = ferryi_now_ns();
    ferryi_fence_all();
    assert_true(ferryi_now_ns() - begun >= 1000000);
    crowd_test(0, 20);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_agree_after_eight_threads),
        cmocka_unit_test(test_eight_threads_stay_within_the_limit),
        cmocka_unit_test(test_what_another_thread_is_fetching_is_waited_for),
        cmocka_unit_test(test_memory_that_is_going_back_is_waited_for),
        cmocka_unit_test(test_threads_on_their_own_timelines_share_memory_in_order),
        cmocka_unit_test(test_counts_agree_in_a_sandbox), /* last, because the filter stays */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
