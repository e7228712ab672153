/* SPDX-License-Identifier: MIT */
/*
 * Tests timelines. A timeline represents a stream, and a sync point marks a use of memory on it.
 * When the stream is destroyed, the timeline is retired, and its number can be reused. The tests
 * replace functions of the device. The replacements take sync points in the middle of a driver
 * call, as a second thread could do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/stream/timeline.h"

struct scene {
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    int count;
    ferryi_device *device;
    const struct ferryi_device_ops *real;
    struct ferryi_device_ops ops; /* functions of the device; record_and_point() records events */
    ferryi_order order;
    ferryi_timeline *timeline, *other;
    ferryi_timeline *noted; /* timeline on which the next event_record takes sync points */
    /* The sync points that record_and_point() takes before and after it calls the device's
     * event_record. */
    ferryi_sync_point before, after;
};

static struct scene scene;

#define GOOD(call) assert_int_equal((call), FERRY_OK)

static ferry_status
record_and_point(ferryi_device *device, void *event, void *stream)
{
    ferryi_timeline *timeline = scene.noted;
    scene.noted = NULL;
    if (timeline)
        scene.before = ferryi_timeline_sync_point(timeline);
    ferry_status status = scene.real->event_record(device, event, stream);
    if (timeline)
        scene.after = ferryi_timeline_sync_point(timeline);
    return status;
}

static int
setup(void **state)
{
    struct ferryi_device_config config = {0};
    (void)state;
    scene = (struct scene){0};
    GOOD(ferryi_devices_open("emulated", &config, scene.devices, &scene.count));
    scene.device = scene.devices[0];
    scene.real = scene.device->ops;
    scene.ops = *scene.real;
    scene.ops.event_record = record_and_point;
    scene.device->ops = &scene.ops;
    GOOD(ferryi_order_init(&scene.order, &config.log));
    scene.order.internal_reserve = 0;
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &scene.timeline));
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &scene.other));
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    GOOD(ferryi_device_synchronize(scene.device));
    ferryi_order_clear(&scene.order);
    for (int i = 0; i < scene.count; i++)
        scene.devices[i]->ops->close(scene.devices[i]);
    return 0;
}

static void
retire_while_stamping(void)
{
    scene.noted = scene.timeline;
    ferryi_timeline_retire(scene.timeline);
    assert_null(scene.noted);
    assert_false(ferryi_sync_point_is_done(&scene.order, scene.after));
}

/* Takes sync points on a timeline while the timeline is being retired. The host must be able to
 * wait for these sync points. */
static void
test_a_use_stamped_while_its_stream_goes_is_waited_for_by_the_host(void **state)
{
    (void)state;
    retire_while_stamping();
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, scene.before));
    assert_true(ferryi_sync_point_is_done(&scene.order, scene.before));
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, scene.after));
    assert_true(ferryi_sync_point_is_done(&scene.order, scene.after));
}

static void
test_a_use_stamped_while_its_stream_goes_is_waited_for_by_a_stream(void **state)
{
    (void)state;
    retire_while_stamping();
    GOOD(ferryi_sync_point_wait(&scene.order, scene.other, scene.after));
    assert_true(ferryi_sync_point_is_ordered(&scene.order, scene.other, scene.after));
    assert_true(ferryi_timelines_are_ordered(&scene.order, scene.other,
                                             UINT64_C(1) << scene.timeline->number));
}

static void
test_a_use_stamped_while_its_stream_goes_can_be_asked_for(void **state)
{
    (void)state;
    retire_while_stamping();
    GOOD(ferryi_device_synchronize(scene.device));
    assert_true(ferryi_sync_point_query(&scene.order, scene.after));
    assert_true(ferryi_sync_point_is_done(&scene.order, scene.after));
}

/* A new timeline reuses the number of a retired timeline. A different timeline that was ordered
 * after the retired one must not count as ordered after the new one. */
static void
test_a_number_handed_out_again_is_ordered_with_no_other(void **state)
{
    (void)state;
    for (int life = 0; life < 3; life++) {
        retire_while_stamping();
        GOOD(ferryi_sync_point_wait(&scene.order, scene.other, scene.after));
        GOOD(ferryi_sync_point_wait(&scene.order, NULL, scene.after));
        GOOD(ferryi_device_synchronize(scene.device));
        ferryi_sync_point old = scene.after;
        uint32_t generation = scene.timeline->generation;
        unsigned number = scene.timeline->number;
        GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &scene.timeline));
        assert_int_equal(scene.timeline->number, number);
        assert_int_equal(ferryi_timeline_sync_point_since(scene.timeline, generation), 0);
        ferryi_sync_point point = ferryi_timeline_sync_point(scene.timeline);
        assert_true(ferryi_sync_point_is_done(&scene.order, old));
        assert_false(ferryi_sync_point_is_done(&scene.order, point));
        assert_false(ferryi_sync_point_is_ordered(&scene.order, scene.other, point));
        assert_true(ferryi_sync_point_is_ordered(&scene.order, scene.timeline, point));
        GOOD(ferryi_sync_point_wait(&scene.order, scene.other, point));
        assert_true(ferryi_sync_point_is_ordered(&scene.order, scene.other, point));
    }
}

/* A new timeline reuses the number of a retired timeline. Sync points of the retired timeline must
 * count as done, even if no call has queried them. */
static void
test_a_number_handed_out_unasked_covers_its_former_life(void **state)
{
    (void)state;
    retire_while_stamping();
    GOOD(ferryi_device_synchronize(scene.device));
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &scene.timeline));
    assert_true(ferryi_sync_point_is_done(&scene.order, scene.after));
    assert_false(
        ferryi_sync_point_is_done(&scene.order, ferryi_timeline_sync_point(scene.timeline)));
}

/* -- what one wait covers ---------------------------------------------------------------------- */

/* A timeline waits for a second timeline, which has waited for a third one. The wait must also
 * order the work of the third timeline. */
static void
test_a_wait_covers_what_the_other_timeline_had_seen(void **state)
{
    ferryi_timeline *third;
    (void)state;
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &third));
    ferryi_sync_point first = ferryi_timeline_sync_point(scene.timeline);
    GOOD(ferryi_sync_point_wait(&scene.order, scene.other, first));
    ferryi_sync_point second = ferryi_timeline_sync_point(scene.other);
    assert_false(ferryi_sync_point_is_ordered(&scene.order, third, first));
    GOOD(ferryi_sync_point_wait(&scene.order, third, second));
    assert_true(ferryi_sync_point_is_ordered(&scene.order, third, first));
    ferryi_sync_point last = ferryi_timeline_sync_point(third);
    assert_false(ferryi_sync_point_is_done(&scene.order, first));
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, last));
    assert_true(ferryi_sync_point_is_done(&scene.order, first));
    assert_true(ferryi_sync_point_is_done(&scene.order, second));
}

/* A timeline records an event and then waits for a sync point of a second timeline. A third
 * timeline waits only for the event, so it must not count as ordered after that sync point. */
static void
test_a_wait_does_not_cover_what_came_after_its_event(void **state)
{
    ferryi_timeline *third;
    (void)state;
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &third));
    ferryi_sync_point early = ferryi_timeline_sync_point(scene.other);
    GOOD(ferryi_timeline_flush(scene.other));
    ferryi_sync_point late = ferryi_timeline_sync_point(scene.timeline);
    GOOD(ferryi_sync_point_wait(&scene.order, scene.other, late));
    GOOD(ferryi_sync_point_wait(&scene.order, third, early));
    assert_true(ferryi_sync_point_is_ordered(&scene.order, third, early));
    assert_false(ferryi_sync_point_is_ordered(&scene.order, third, late));
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, early));
    assert_false(ferryi_sync_point_is_done(&scene.order, late));
}

static ferryi_sync_point stamped_meanwhile;

static ferry_status
point_and_synchronize(ferryi_device *device, void *stream)
{
    stamped_meanwhile = ferryi_timeline_sync_point(scene.timeline);
    return scene.real->stream_synchronize(device, stream);
}

/* ferryi_timeline_synchronize() must mark the sync points that were taken before the call as done.
 * It must not mark sync points that were taken during the call, because their work may have been
 * queued later. */
static void
test_a_synchronization_covers_what_came_before_it(void **state)
{
    (void)state;
    ferryi_sync_point first = ferryi_timeline_sync_point(scene.other);
    GOOD(ferryi_sync_point_wait(&scene.order, scene.timeline, first));
    ferryi_sync_point second = ferryi_timeline_sync_point(scene.timeline);
    scene.ops.stream_synchronize = point_and_synchronize;
    GOOD(ferryi_timeline_synchronize(scene.timeline));
    assert_true(ferryi_sync_point_is_done(&scene.order, first));
    assert_true(ferryi_sync_point_is_done(&scene.order, second));
    assert_false(ferryi_sync_point_is_done(&scene.order, stamped_meanwhile));
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, stamped_meanwhile));
    assert_true(ferryi_sync_point_is_done(&scene.order, stamped_meanwhile));
}

/* Checks that a wait for an upload does not wait for work that was queued later on the same
 * stream. */
static void
test_uploads_have_events_of_their_own(void **state)
{
    ferryi_timeline *uploads, *again;
    (void)state;
    assert_true(ferryi_timeline_of_uploads(scene.timeline, &uploads));
    assert_true(ferryi_timeline_of_uploads(scene.timeline, &again));
    assert_ptr_equal(uploads, again);
    assert_ptr_equal(uploads->native, scene.timeline->native);
    ferryi_sync_point upload = ferryi_timeline_sync_point(uploads);
    ferryi_timeline_record_upload(uploads);
    ferryi_sync_point later = ferryi_timeline_sync_point(scene.timeline);
    GOOD(ferryi_timelines_wait(&scene.order, NULL, uploads->bit));
    assert_true(ferryi_sync_point_is_done(&scene.order, upload));
    assert_false(ferryi_sync_point_is_done(&scene.order, later));
}

/* A stream can have a separate timeline for its uploads. This timeline must be retired together
 * with the stream. A new stream may reuse it only after its last event is complete. */
static void
test_the_timeline_of_uploads_goes_with_its_stream(void **state)
{
    ferryi_timeline *uploads, *fresh;
    (void)state;
    assert_true(ferryi_timeline_of_uploads(scene.timeline, &uploads));
    ferryi_sync_point upload = ferryi_timeline_sync_point(uploads);
    ferryi_timeline_record_upload(uploads);
    ferryi_timeline_retire(scene.timeline);
    assert_true(ferryi_timeline_is_retired(uploads));
    assert_null(uploads->native);
    GOOD(ferryi_sync_point_wait(&scene.order, NULL, upload));
    GOOD(ferryi_device_synchronize(scene.device));
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &fresh));
    assert_null(atomic_load(&fresh->uploads));
    GOOD(ferryi_timeline_open(&scene.order, scene.device, 1, NULL, false, &fresh));
    assert_ptr_equal(fresh, uploads);
    assert_null(atomic_load(&fresh->uploads));
    assert_false(atomic_load(&fresh->internal));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_use_stamped_while_its_stream_goes_is_waited_for_by_the_host, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_use_stamped_while_its_stream_goes_is_waited_for_by_a_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_use_stamped_while_its_stream_goes_can_be_asked_for,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_number_handed_out_again_is_ordered_with_no_other,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_number_handed_out_unasked_covers_its_former_life,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wait_covers_what_the_other_timeline_had_seen, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_wait_does_not_cover_what_came_after_its_event, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_synchronization_covers_what_came_before_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_uploads_have_events_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_timeline_of_uploads_goes_with_its_stream, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
