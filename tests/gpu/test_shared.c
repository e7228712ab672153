/* SPDX-License-Identifier: MIT */

/*
 * Tests memory and events that two processes share on a GPU. Over a fake driver it only checks
 * itself. What the manuals do not say of a driver is printed and not judged. Exits with status 77
 * (skipped) if there is no driver, or if the device shares nothing.
 *
 * Usage: test_shared [KIND]. The default kind of device is cuda.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <ferry/buffer.h>

#include "src/base/base.h"
#include "tests/support/copy_slots.h"
#include "tests/support/peer.h"
#include "tests/support/status.h"

#define BYTES   ((size_t)33 << 20) /* not a multiple of 2 MiB */
#define POLLS   2000
#define POLL_NS 1000000

static const ferryi_device_kind *kind = &ferryi_cuda_kind;
static const struct ferryi_device_config config;
static ferryi_device *device;
static void *stream;

/* What the second process shares, opened here. */
static struct peer peer;
static struct ferryi_shared_memory shared;
static void *memory, *event;

static void
start_peer(void)
{
    assert_true(peer_start(&peer, kind->name));
    shared = peer_do(&peer, (struct peer_order){.verb = PEER_ALLOC, .shared.bytes = BYTES}).shared;
    shared.is_opened = true;
    struct ferryi_token token = peer_do_verb(&peer, PEER_CREATE_EVENT).token;
    OK(device->ops->shared_open(device, &shared, &memory));
    OK(device->ops->shared_event_open(device, &token, &event));
}

static void
close_both(void)
{
    OK(device->ops->event_destroy(device, event));
    OK(device->ops->shared_free(device, &shared, memory));
}

/* Lets the second process hold its stream, and fill the memory and record the event after it. */
static void
fill_later(int value)
{
    peer_do_verb(&peer, PEER_HOLD);
    peer_do(&peer, (struct peer_order){.verb = PEER_FILL, .value = value, .times = 4});
    peer_do_verb(&peer, PEER_RECORD);
}

static bool
is_done(void)
{
    bool done = false;
    OK(device->ops->event_query(device, event, &done));
    return done;
}

static void
test_memory_and_events_are_shared(void **state)
{
    unsigned char *pinned;
    (void)state;
    start_peer();
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, BYTES, (void **)&pinned));
    assert_true(is_done());
    fill_later(5);
    OK(device->ops->stream_wait(device, stream, event));
    OK(device->ops->copy_download(device, pinned, memory, BYTES, stream));
    assert_false(is_done());
    peer_do_verb(&peer, PEER_LET_GO);
    OK(device->ops->stream_synchronize(device, stream));
    assert_true(is_done());
    assert_int_equal(pinned[0], 5);
    assert_memory_equal(pinned, pinned + 1, BYTES - 1);
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));

    OK(device->ops->fill(device, memory, 6, 1, BYTES, stream));
    OK(device->ops->event_record(device, event, stream));
    peer_do_verb(&peer, PEER_AWAIT);
    assert_int_equal(peer_do_verb(&peer, PEER_READ).value, 6);
    close_both();
    peer_do_verb(&peer, PEER_DESTROY_EVENT);
    peer_do_verb(&peer, PEER_FREE);
    assert_true(peer_end(&peer));
}

/* Tokens of this process, and one that no process made, are refused. */
static void
test_wrong_tokens_are_refused(void **state)
{
    struct ferryi_shared_memory own = {.bytes = BYTES}, forged = {.bytes = BYTES};
    struct ferryi_token token;
    void *mine, *record, *out;
    (void)state;
    OK(device->ops->shared_alloc(device, &own, &mine));
    OK(device->ops->shared_event_create(device, &token, &record));
    assert_int_not_equal(device->ops->shared_open(device, &own, &out), FERRY_OK);
    print_message("# %s\n", ferry_last_error());
    assert_int_not_equal(device->ops->shared_event_open(device, &token, &out), FERRY_OK);
    print_message("# %s\n", ferry_last_error());
    assert_int_not_equal(device->ops->shared_open(device, &forged, &out), FERRY_OK);
    print_message("# %s\n", ferry_last_error());
    assert_int_not_equal(device->ops->shared_event_open(device, &forged.token, &out), FERRY_OK);
    print_message("# %s\n", ferry_last_error());
    OK(device->ops->event_destroy(device, record));
    OK(device->ops->shared_free(device, &own, mine));
    OK(device->ops->synchronize(device));
}

/* The last test, because a driver may end the context with the memory of the other process. */
static void
report_a_process_that_is_killed(void **state)
{
    bool done = false;
    unsigned char byte = 0;
    (void)state;
    start_peer();
    peer_do(&peer, (struct peer_order){.verb = PEER_FILL, .value = 9, .times = 1});
    peer_do_verb(&peer, PEER_SYNCHRONIZE);
    fill_later(7);
    assert_false(is_done());
    peer_kill(&peer);
    peer_bury(&peer);
    ferry_status status = FERRY_OK;
    for (int i = 0; i < POLLS && status == FERRY_OK && !done; i++) {
        status = device->ops->event_query(device, event, &done);
        ferryi_sleep_ns(POLL_NS);
    }
    print_message("# its event: %s\n", status != FERRY_OK ? ferry_last_error()
                                       : done             ? "done"
                                                          : "never done");
    status = device->ops->copy_download(device, &byte, memory, 1, stream);
    if (status == FERRY_OK)
        status = device->ops->stream_synchronize(device, stream);
    print_message("# its memory: %s, byte %d\n",
                  status == FERRY_OK ? "can be read" : ferry_last_error(), byte);
    status = device->ops->event_destroy(device, event);
    print_message("# the event is destroyed: %s\n", ferry_status_name(status));
    status = device->ops->shared_free(device, &shared, memory);
    print_message("# the memory is closed: %s\n", ferry_status_name(status));
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_and_events_are_shared),
        cmocka_unit_test(test_wrong_tokens_are_refused),
        cmocka_unit_test(report_a_process_that_is_killed),
    };
    if (peer_is_wanted(argc, argv))
        return peer_main(argv);
    if (argc > 1)
        kind = &ferryi_hip_kind;
    if (kind->open(0, &config, &device) != FERRY_OK) {
        printf("1..0 # SKIP %s\n", ferry_last_error());
        return 77;
    }
    if (!(device->capabilities & FERRY_CAN_SHARE)) {
        printf("1..0 # SKIP the device shares nothing with other processes\n");
        return 77;
    }
    if (device->ops->stream_create(device, &stream) != FERRY_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
