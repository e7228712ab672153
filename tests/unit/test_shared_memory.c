/* SPDX-License-Identifier: MIT */
/* Tests the memory and the events that a GPU shares with a second process, over the fake drivers:
 * what either process sees, the order of their work, wrong tokens, driver calls that fail, and
 * drivers that share nothing.
 *
 * Usage: test_shared_memory [LIBRARY]. The library is a build of fakecuda, the default, or of
 * fakehip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/buffer.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "src/device/hip/hip.h"
#include "tests/support/copy_slots.h"
#include "tests/support/fakecuda.h"
#include "tests/support/peer.h"
#include "tests/support/status.h"

#define MEBIBYTE ((size_t)1 << 20)
#define BYTES    (3 * MEBIBYTE) /* the driver allocates 4 MiB */

static const char *library = FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so";
static bool is_hip;
static const struct ferryi_gpu_vendor *vendor;
static const ferryi_device_kind *kind;
static const struct ferryi_device_config config;
static struct fakecuda fake;
static ferryi_device *device;

#define NAME(member) vendor->names[FERRYI_GPU_CALL_##member]

static void
fails_with(ferry_status wanted, ferry_status status, const char *part)
{
    assert_int_equal(status, wanted);
    assert_says(part);
}

/* -- the second process -- */

static struct peer peer;
static bool has_peer;

static void
start_peer(void)
{
    has_peer = peer_start(&peer, kind->name);
    assert_true(has_peer);
}

static void
order_fill(int value)
{
    peer_do(&peer, (struct peer_order){.verb = PEER_FILL, .value = value, .times = 1});
}

/* Lets the second process allocate memory and create an event, and opens both. */
struct opened {
    struct ferryi_shared_memory shared;
    void *memory, *event;
};

static struct opened
open_both(void)
{
    struct opened opened;
    start_peer();
    opened.shared =
        peer_do(&peer, (struct peer_order){.verb = PEER_ALLOC, .shared.bytes = BYTES}).shared;
    opened.shared.is_opened = true;
    struct ferryi_token token = peer_do_verb(&peer, PEER_CREATE_EVENT).token;
    OK(device->ops->shared_open(device, &opened.shared, &opened.memory));
    OK(device->ops->shared_event_open(device, &token, &opened.event));
    return opened;
}

static void
close_both(const struct opened *opened)
{
    OK(device->ops->event_destroy(device, opened->event));
    OK(device->ops->shared_free(device, &opened->shared, opened->memory));
}

static void
end_peer(void)
{
    peer_do_verb(&peer, PEER_DESTROY_EVENT);
    peer_do_verb(&peer, PEER_FREE);
    has_peer = false;
    assert_true(peer_end(&peer));
}

/* -- this process -- */

static size_t
free_bytes(void)
{
    size_t left = 0, total = 0;
    OK(device->ops->memory_info(device, &left, &total));
    return left;
}

static void
assert_byte(const void *memory, int value)
{
    unsigned char *pinned;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BYTES, (void **)&pinned));
    OK(device->ops->copy_download(device, pinned, memory, BYTES, device->default_stream));
    OK(device->ops->stream_synchronize(device, device->default_stream));
    assert_int_equal(pinned[0], value);
    assert_memory_equal(pinned, pinned + 1, BYTES - 1);
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
}

static bool
is_done(void *event)
{
    bool done = false;
    OK(device->ops->event_query(device, event, &done));
    return done;
}

/* -- memory -- */

/* Both processes see what either writes, and the memory of the other costs nothing here. */
static void
test_both_processes_use_the_memory(void **state)
{
    (void)state;
    size_t before = free_bytes();
    struct opened opened = open_both();
    assert_int_equal(free_bytes(), before);
    order_fill(7);
    peer_do_verb(&peer, PEER_SYNCHRONIZE);
    assert_byte(opened.memory, 7);
    OK(device->ops->fill(device, opened.memory, 9, 1, BYTES, device->default_stream));
    OK(device->ops->synchronize(device));
    assert_int_equal(peer_do_verb(&peer, PEER_READ).value, 9);
    close_both(&opened);
    assert_int_equal(peer_do_verb(&peer, PEER_READ).value, 9);
    end_peer();
}

/* The same, with the memory and the event of this process. */
static void
test_the_other_process_opens(void **state)
{
    (void)state;
    struct ferryi_shared_memory shared = {.bytes = BYTES};
    struct ferryi_token token;
    void *memory, *event;
    start_peer();
    OK(device->ops->shared_alloc(device, &shared, &memory));
    OK(device->ops->shared_event_create(device, &token, &event));
    peer_do(&peer, (struct peer_order){.verb = PEER_OPEN, .shared = shared});
    peer_do(&peer, (struct peer_order){.verb = PEER_OPEN_EVENT, .token = token});
    peer_do_verb(&peer, PEER_HOLD);
    order_fill(3);
    peer_do_verb(&peer, PEER_RECORD);
    assert_false(is_done(event));
    peer_do_verb(&peer, PEER_LET_GO);
    OK(device->ops->event_synchronize(device, event));
    assert_byte(memory, 3);
    end_peer();
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->shared_free(device, &shared, memory));
}

/* Other sizes would share more than the memory. */
static void
test_the_size_is_a_multiple_of_2_mebibytes(void **state)
{
    (void)state;
    size_t before = free_bytes();
    for (size_t bytes = 1; bytes <= 4 * MEBIBYTE; bytes += 2 * MEBIBYTE - 1) {
        struct ferryi_shared_memory shared = {.bytes = bytes};
        void *memory;
        OK(device->ops->shared_alloc(device, &shared, &memory));
        size_t used = before - free_bytes();
        assert_int_equal(used % (2 * MEBIBYTE), 0);
        assert_in_range(used, bytes, bytes + 2 * MEBIBYTE - 1);
        OK(device->ops->shared_free(device, &shared, memory));
        assert_int_equal(free_bytes(), before);
    }
    void *memory = &memory;
    struct ferryi_shared_memory shared = {.bytes = SIZE_MAX};
    fails_with(FERRY_ERROR_OUT_OF_MEMORY, device->ops->shared_alloc(device, &shared, &memory),
               "allocate 18446744073709551615 bytes of shared memory on ");
    assert_ptr_equal(memory, &memory);
}

/* -- events -- */

/* Work that waits for an event of the other process sees what was written before its record. */
static void
test_an_event_orders_the_work_of_two_processes(void **state)
{
    (void)state;
    struct opened opened = open_both();
    unsigned char *pinned;
    void *stream, *copied;
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BYTES, (void **)&pinned));
    OK(device->ops->stream_create(device, &stream));
    OK(device->ops->event_create(device, false, &copied));
    assert_true(is_done(opened.event));
    memset(pinned, 1, BYTES);
    order_fill(4);
    peer_do_verb(&peer, PEER_SYNCHRONIZE);
    peer_do_verb(&peer, PEER_HOLD);
    order_fill(5);
    peer_do_verb(&peer, PEER_RECORD);
    OK(device->ops->stream_wait(device, stream, opened.event));
    OK(device->ops->copy_download(device, pinned, opened.memory, BYTES, stream));
    OK(device->ops->event_record(device, copied, stream));
    assert_false(is_done(opened.event));
    assert_false(is_done(copied));
    peer_do_verb(&peer, PEER_LET_GO);
    OK(device->ops->stream_synchronize(device, stream));
    assert_true(is_done(opened.event));
    assert_int_equal(pinned[0], 5);
    assert_memory_equal(pinned, pinned + 1, BYTES - 1);

    /* In the other direction, by the same event. */
    OK(device->ops->fill(device, opened.memory, 6, 1, BYTES, stream));
    OK(device->ops->event_record(device, opened.event, stream));
    peer_do_verb(&peer, PEER_AWAIT);
    assert_int_equal(peer_do_verb(&peer, PEER_READ).value, 6);
    OK(device->ops->event_destroy(device, copied));
    OK(device->ops->stream_destroy(device, stream));
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    close_both(&opened);
    end_peer();
}

static void
test_the_last_record_counts(void **state)
{
    (void)state;
    struct opened opened = open_both();
    for (int i = 0; i < 600; i++) {
        peer_do_verb(&peer, PEER_RECORD);
        peer_do_verb(&peer, PEER_SYNCHRONIZE);
        assert_true(is_done(opened.event));
    }
    peer_do_verb(&peer, PEER_HOLD);
    peer_do_verb(&peer, PEER_RECORD);
    assert_false(is_done(opened.event));
    /* A record on an idle stream of this process takes the place of the one that is held. */
    OK(device->ops->event_record(device, opened.event, device->default_stream));
    OK(device->ops->event_synchronize(device, opened.event));
    peer_do_verb(&peer, PEER_RECORD);
    assert_false(is_done(opened.event));
    peer_do_verb(&peer, PEER_LET_GO);
    OK(device->ops->event_synchronize(device, opened.event));
    close_both(&opened);
    end_peer();
}

/* A wait for a process that is killed ends. */
static void
test_a_killed_process_holds_up_nobody(void **state)
{
    (void)state;
    struct opened opened = open_both();
    void *stream;
    OK(device->ops->stream_create(device, &stream));
    peer_do_verb(&peer, PEER_HOLD);
    peer_do_verb(&peer, PEER_RECORD);
    OK(device->ops->stream_wait(device, stream, opened.event));
    assert_false(is_done(opened.event));
    peer_kill(&peer);
    OK(device->ops->stream_synchronize(device, stream));
    OK(device->ops->event_synchronize(device, opened.event));
    assert_true(is_done(opened.event));
    has_peer = false;
    peer_bury(&peer);
    OK(device->ops->stream_destroy(device, stream));
    close_both(&opened);
}

/* -- failures -- */

static void
refuse_memory(const struct ferryi_shared_memory *shared, const char *why)
{
    char message[128];
    void *memory = &memory;
    snprintf(message, sizeof(message),
             "open %zu bytes of shared memory on %s:0: %s: ", shared->bytes, kind->name,
             NAME(memory_open));
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_open(device, shared, &memory), message);
    assert_says(why);
    assert_ptr_equal(memory, &memory);
}

static void
refuse_event(const struct ferryi_token *token, const char *why)
{
    char message[128];
    void *event = &event;
    snprintf(message, sizeof(message), "open a shared event on %s:0: %s: ", kind->name,
             NAME(event_open));
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_event_open(device, token, &event), message);
    assert_says(why);
    assert_ptr_equal(event, &event);
}

#define OWN  ": this process shares it itself"
#define GONE ": no other process shares it, or does so no longer"

static void
test_wrong_tokens(void **state)
{
    (void)state;
    const struct fakecuda_live live = fake.fakecuda_live();
    struct ferryi_shared_memory own = {.bytes = BYTES}, theirs, none = {.bytes = BYTES};
    struct ferryi_token own_event, their_event, forged;
    void *memory, *event;
    OK(device->ops->shared_alloc(device, &own, &memory));
    OK(device->ops->shared_event_create(device, &own_event, &event));
    refuse_memory(&own, OWN);
    refuse_event(&own_event, OWN);

    start_peer();
    theirs = peer_do(&peer, (struct peer_order){.verb = PEER_ALLOC, .shared.bytes = BYTES}).shared;
    their_event = peer_do_verb(&peer, PEER_CREATE_EVENT).token;
    for (int i = 0; i < FERRYI_TOKEN_BYTES; i++)
        none.token.bytes[i] = (unsigned char)(i * 7 + 1);
    refuse_memory(&none, GONE);
    refuse_event(&none.token, GONE);
    none = theirs;
    none.token.bytes[0] ^= 1;
    refuse_memory(&none, GONE);
    forged = their_event;
    forged.bytes[0] ^= 1;
    refuse_event(&forged, GONE);
    /* The token of an event names no memory, and that of memory no event. */
    none.token = their_event;
    refuse_memory(&none, GONE);
    refuse_event(&theirs.token, GONE);
    end_peer();
    refuse_memory(&theirs, GONE);
    refuse_event(&their_event, GONE);

    OK(device->ops->event_destroy(device, event));
    OK(device->ops->shared_free(device, &own, memory));
    refuse_memory(&own, GONE);
    const struct fakecuda_live now = fake.fakecuda_live();
    assert_memory_equal(&now, &live, sizeof(live));
}

/* Each driver call fails in turn. Nothing is lost, and the message names the call. */
static void
test_failing_calls_leak_nothing(void **state)
{
    (void)state;
    const struct fakecuda_live live = fake.fakecuda_live();
    const char *const allocs[] = {NAME(memory_alloc), NAME(memory_token)};
    const char *const creates[] = {NAME(event_create), NAME(event_token)};
    struct ferryi_shared_memory shared = {.bytes = BYTES};
    struct ferryi_token token;
    void *out = &out;
    for (int i = 0; i < 2; i++) {
        fake.fakecuda_fail_next(allocs[i], FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
        fails_with(FERRY_ERROR_OUT_OF_MEMORY, device->ops->shared_alloc(device, &shared, &out),
                   allocs[i]);
        fake.fakecuda_fail_next(creates[i], FERRYI_GPU_ERROR_NOT_SUPPORTED, 1);
        fails_with(FERRY_ERROR_UNSUPPORTED, device->ops->shared_event_create(device, &token, &out),
                   creates[i]);
        assert_ptr_equal(out, &out);
    }
    struct fakecuda_live now = fake.fakecuda_live();
    assert_memory_equal(&now, &live, sizeof(live));

    start_peer();
    shared = peer_do(&peer, (struct peer_order){.verb = PEER_ALLOC, .shared.bytes = BYTES}).shared;
    shared.is_opened = true;
    token = peer_do_verb(&peer, PEER_CREATE_EVENT).token;
    fake.fakecuda_fail_next(NAME(memory_open), FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    fails_with(FERRY_ERROR_OUT_OF_MEMORY, device->ops->shared_open(device, &shared, &out),
               NAME(memory_open));
    fake.fakecuda_fail_next(NAME(event_open), FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    fails_with(FERRY_ERROR_OUT_OF_MEMORY, device->ops->shared_event_open(device, &token, &out),
               NAME(event_open));
    assert_ptr_equal(out, &out);
    now = fake.fakecuda_live();
    assert_memory_equal(&now, &live, sizeof(live));

    /* A call that fails to free leaves what it should have freed. */
    OK(device->ops->shared_open(device, &shared, &out));
    fake.fakecuda_fail_next(NAME(memory_close), FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &shared, out), "close shared ");
    assert_says(NAME(memory_close));
    OK(device->ops->shared_free(device, &shared, out));
    end_peer();
    shared = (struct ferryi_shared_memory){.bytes = BYTES};
    OK(device->ops->shared_alloc(device, &shared, &out));
    fake.fakecuda_fail_next(NAME(memory_free), FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &shared, out), "free shared ");
    OK(device->ops->shared_free(device, &shared, out));
    now = fake.fakecuda_live();
    assert_memory_equal(&now, &live, sizeof(live));
}

static void
keep_message(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    snprintf(user, 512, "%s", message);
}

/* What can neither be shared nor freed is logged, and the first failure is returned. */
static void
test_a_failing_undo_is_logged(void **state)
{
    (void)state;
    char logged[512] = "";
    struct ferryi_device_config logging = config;
    logging.log = (struct ferryi_log){.callback = keep_message, .user = logged};
    ferryi_device *other;
    struct ferryi_shared_memory shared = {.bytes = BYTES};
    struct ferryi_token token;
    void *out;
    OK(kind->open(0, &logging, &other));
    fake.fakecuda_fail_next(NAME(memory_token), FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    fake.fakecuda_fail_next(NAME(memory_free), FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    fails_with(FERRY_ERROR_OUT_OF_MEMORY, other->ops->shared_alloc(other, &shared, &out),
               NAME(memory_token));
    assert_non_null(strstr(logged, "free memory that cannot be shared on "));
    assert_non_null(strstr(logged, NAME(memory_free)));
    fake.fakecuda_fail_next(NAME(event_token), FERRYI_GPU_ERROR_OUT_OF_MEMORY, 1);
    fake.fakecuda_fail_next(NAME(event_destroy), FERRYI_GPU_ERROR_INVALID_VALUE, 1);
    fails_with(FERRY_ERROR_OUT_OF_MEMORY, other->ops->shared_event_create(other, &token, &out),
               NAME(event_token));
    assert_non_null(strstr(logged, "destroy an event that cannot be shared on "));
    other->ops->close(other);
}

/* -- what the fake driver is strict about -- */

static void
test_memory_is_closed_as_it_was_opened(void **state)
{
    (void)state;
    struct opened opened = open_both();
    struct ferryi_shared_memory own = {.bytes = BYTES}, opposite = opened.shared;
    void *memory, *again;
    opposite.is_opened = false;
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &opposite, opened.memory),
               NAME(memory_free));
    OK(device->ops->shared_alloc(device, &own, &memory));
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &opened.shared, memory),
               NAME(memory_close));
    OK(device->ops->shared_free(device, &own, memory));
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &own, memory),
               NAME(memory_free));
    /* Memory may be opened twice, and is open until it was closed twice. */
    OK(device->ops->shared_open(device, &opened.shared, &again));
    assert_int_equal(again == opened.memory, !is_hip);
    OK(device->ops->shared_free(device, &opened.shared, again));
    order_fill(8);
    peer_do_verb(&peer, PEER_SYNCHRONIZE);
    assert_byte(opened.memory, 8);
    close_both(&opened);
    fails_with(FERRY_ERROR_DEVICE, device->ops->shared_free(device, &opened.shared, opened.memory),
               NAME(memory_close));
    end_peer();
}

/* Memory that its process has freed, and an event that it has destroyed, can only be closed. */
static void
test_freed_memory_is_not_reached(void **state)
{
    (void)state;
    struct opened opened = open_both();
    peer_do_verb(&peer, PEER_FREE);
    fails_with(FERRY_ERROR_DEVICE,
               device->ops->fill(device, opened.memory, 1, 1, BYTES, device->default_stream), "");
    peer_do_verb(&peer, PEER_DESTROY_EVENT);
    fails_with(FERRY_ERROR_DEVICE,
               device->ops->event_record(device, opened.event, device->default_stream),
               NAME(event_record));
    close_both(&opened);
    has_peer = false;
    assert_true(peer_end(&peer));
}

/* Sharing is allowed while a stream of the program is captured in the strictest mode. */
static void
test_a_capture_is_left_alone(void **state)
{
    (void)state;
    struct ferryi_shared_memory shared = {.bytes = BYTES};
    struct opened opened = open_both();
    struct ferryi_token token;
    void *stream, *memory, *event, *again;
    int nodes = -1;
    OK(device->ops->stream_create(device, &stream));
    assert_int_equal(fake.fakecuda_begin_capture(stream, FERRYI_GPU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    OK(device->ops->shared_alloc(device, &shared, &memory));
    OK(device->ops->shared_open(device, &opened.shared, &again));
    OK(device->ops->shared_event_create(device, &token, &event));
    assert_int_equal(fake.fakecuda_end_capture(stream, &nodes), 0);
    assert_int_equal(nodes, 0);
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->shared_free(device, &opened.shared, again));
    OK(device->ops->shared_free(device, &shared, memory));
    OK(device->ops->stream_destroy(device, stream));
    close_both(&opened);
    end_peer();
}

/* -- drivers and devices that share nothing -- */

static void
shares_nothing(const struct ferryi_gpu_driver *driver)
{
    struct ferryi_shared_memory shared = {.bytes = BYTES};
    struct ferryi_token token = {{0}};
    ferryi_device *other;
    void *out = &out;
    OK(ferryi_gpu_open_on(driver, 0, &config, &other));
    assert_false(other->capabilities & FERRY_CAN_SHARE);
    fails_with(FERRY_ERROR_UNSUPPORTED, other->ops->shared_alloc(other, &shared, &out),
               "shared_alloc on ");
    fails_with(FERRY_ERROR_UNSUPPORTED, other->ops->shared_open(other, &shared, &out),
               "shared_open on ");
    fails_with(FERRY_ERROR_UNSUPPORTED, other->ops->shared_free(other, &shared, &out),
               "shared_free on ");
    fails_with(FERRY_ERROR_UNSUPPORTED, other->ops->shared_event_create(other, &token, &out),
               "shared_event_create on ");
    fails_with(FERRY_ERROR_UNSUPPORTED, other->ops->shared_event_open(other, &token, &out),
               "shared_event_open on ");
    assert_ptr_equal(out, &out);
    other->ops->close(other);
}

static void
test_who_shares(void **state)
{
    static const int attributes[] = {FERRYI_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                                     FERRYI_CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                                     FERRYI_CU_DEVICE_ATTRIBUTE_INTEGRATED};
    const struct ferryi_gpu_driver *driver;
    struct ferryi_gpu_driver lacking;
    (void)state;
    OK(ferryi_gpu_driver_get(vendor, &driver));
    assert_true(driver->groups & FERRYI_GPU_SHARE);
    assert_true(device->capabilities & FERRY_CAN_SHARE);
    lacking = *driver;
    lacking.groups &= ~(unsigned)FERRYI_GPU_SHARE;
    shares_nothing(&lacking);
    for (int i = 0; i < 3; i++) {
        fake.fakecuda_set_attribute(attributes[i], i == 2);
        if (is_hip) { /* HIP has only the last of these attributes, and its integrated devices share
                       */
            ferryi_device *other;
            OK(ferryi_gpu_open_on(driver, 0, &config, &other));
            assert_true(other->capabilities & FERRY_CAN_SHARE);
            other->ops->close(other);
        } else {
            shares_nothing(driver);
        }
        fake.fakecuda_set_attribute(attributes[i], i != 2);
    }
    if (is_hip)
        return;
    OK(ferryi_gpu_driver_load(vendor, FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_old.so", &lacking));
    assert_false(lacking.groups & FERRYI_GPU_SHARE);
    shares_nothing(&lacking);
}

static int
start(void **state)
{
    (void)state;
    return fakecuda_find(library, &fake) && kind->open(0, &config, &device) == FERRY_OK ? 0 : -1;
}

static int
end(void **state)
{
    (void)state;
    device->ops->close(device);
    ferryi_gpu_release_kept(vendor);
    /* What test_a_failing_undo_is_logged() lost. */
    const struct fakecuda_live live = fake.fakecuda_live(), lost = {.allocations = 1, .events = 1};
    return memcmp(&live, &lost, sizeof(live));
}

/* A test that failed leaves its second process, which then ends. */
static int
clear(void **state)
{
    (void)state;
    fake.fakecuda_fail_none();
    if (has_peer) {
        peer_kill(&peer);
        peer_bury(&peer);
    }
    has_peer = false;
    return fake.fakecuda_context_depth() == 0 ? 0 : -1;
}

#define SHARED_TEST(name) cmocka_unit_test_teardown(name, clear)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SHARED_TEST(test_both_processes_use_the_memory),
        SHARED_TEST(test_the_other_process_opens),
        SHARED_TEST(test_the_size_is_a_multiple_of_2_mebibytes),
        SHARED_TEST(test_an_event_orders_the_work_of_two_processes),
        SHARED_TEST(test_the_last_record_counts),
        SHARED_TEST(test_a_killed_process_holds_up_nobody),
        SHARED_TEST(test_wrong_tokens),
        SHARED_TEST(test_failing_calls_leak_nothing),
        SHARED_TEST(test_a_failing_undo_is_logged),
        SHARED_TEST(test_memory_is_closed_as_it_was_opened),
        SHARED_TEST(test_freed_memory_is_not_reached),
        SHARED_TEST(test_a_capture_is_left_alone),
        SHARED_TEST(test_who_shares),
    };
    if (peer_is_wanted(argc, argv))
        return peer_main(argv);
    if (argc > 1)
        library = argv[1];
    is_hip = strstr(library, "fakehip");
    vendor = is_hip ? &ferryi_hip_vendor : &ferryi_cuda_vendor;
    kind = is_hip ? &ferryi_hip_kind : &ferryi_cuda_kind;
    setenv(vendor->library_variable, library, 1);
    return cmocka_run_group_tests(tests, start, end);
}
