/* SPDX-License-Identifier: MIT */
#include "tests/buffer/support.h"
#include "src/transfer/engine.h"

#include <stdio.h>
#include <unistd.h>

#include "src/base/sanitizer.h"
#include "src/buffer/worker.h"
#include "src/store/store.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/copy_slots.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

#if FERRYI_MEMORY_SANITIZER
#include <sanitizer/msan_interface.h>
#endif

#define PINNED_BYTES ((size_t)16 << 20)

/* -- the fixture ------------------------------------------------------------------------------- */

/* Guards the fixture's members that callbacks change, because threads of the library call them. */
static ferryi_mutex notes = FERRYI_MUTEX_INITIALIZER;

static void
note_log(ferry_log_level level, const char *message, void *user)
{
    fixture *f = user;
    if (level != FERRY_LOG_ERROR)
        return;
    ferryi_mutex_lock(&notes);
    f->errors++;
    snprintf(f->message, sizeof(f->message), "%s", message);
    ferryi_mutex_unlock(&notes);
}

static void
note_trace(const ferry_trace *trace, void *user)
{
    fixture *f = user;
    ferryi_mutex_lock(&notes);
    f->traces++;
    f->trace = *trace;
    snprintf(f->trace_buffer, sizeof(f->trace_buffer), "%s", trace->buffer);
    snprintf(f->trace_reason, sizeof(f->trace_reason), "%s", trace->reason);
    ferryi_mutex_unlock(&notes);
}

void
fixture_begin(fixture *f)
{
    ferry_place_info info;
    f->places = ferry_context_place_count(f->context);
    f->stream = ferry_context_stream(f->context, 1);
    OK(ferry_context_get_place_info(f->context, 1, &info));
    f->coherent = info.coherent;
    f->takes_pageable = f->context->devices[1]->capabilities & FERRYI_DEVICE_TAKES_PAGEABLE;
    f->registers = (f->context->devices[1]->capabilities & FERRY_CAN_PIN) &&
                   !(f->context->devices[1]->capabilities & FERRYI_DEVICE_NO_REGISTER);
    f->seed = 1;
    if (f->coherent)
        f->pinned = malloc(PINNED_BYTES);
    else
        OK(device_of(f, 1)->ops->memory_alloc(device_of(f, 1), FERRY_MEMORY_PINNED, PINNED_BYTES,
                                              (void **)&f->pinned));
    assert_non_null(f->pinned);
}

void
fixture_open(fixture *f, const ferry_context_options *options)
{
    memset(f, 0, sizeof(*f));
    lazy_register();
    fault_register();
    convert_kernels_register();
    ferry_context_options own = options ? *options : (ferry_context_options){0};
    if (!own.log) {
        own.log = note_log;
        own.log_user = f;
    }
    if (!own.trace) {
        own.trace = note_trace;
        own.trace_user = f;
    }
    OK(ferry_context_create(&own, &f->context));
    fixture_begin(f);
}

static void
wait_for_all(fixture *f)
{
    for (int place = 1; place <= f->places; place++)
        OK(ferryi_device_synchronize(device_of(f, place)));
}

void
fixture_finish(fixture *f)
{
    /* Calls in flight hold references to their buffers. The worker thread must finish these calls
     * first, because buffers that exist at the end count as leaks. */
    ferryi_worker_stop(f->context);
    wait_for_all(f);
    if (f->coherent)
        free(f->pinned);
    else
        OK(device_of(f, 1)->ops->memory_free(device_of(f, 1), FERRY_MEMORY_PINNED, f->pinned));
}

size_t
living_stores(ferry_context *context)
{
    size_t count = 0;
    ferryi_mutex_lock(&context->store_mutex);
    for (ferryi_store *store = context->stores; store; store = store->next) {
        ferryi_store_lock(store);
        count += store->references > 0 || store->claim_count > 0;
        ferryi_store_unlock(store);
    }
    ferryi_mutex_unlock(&context->store_mutex);
    return count;
}

void
count_end(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    atomic_fetch_add((atomic_int *)user, strstr(message, "a separate thread has ended it") != NULL);
}

bool
destroy_context(const ferry_buffer_info *info, void *user)
{
    (void)info;
    ferry_context_destroy(user);
    return false;
}

void
fixture_close(fixture *f)
{
    fixture_finish(f);
    assert_int_equal(living_stores(f->context), 0);
    ferry_context_destroy(&f->context);
    assert_null(f->context);
    if (f->errors > 0)
        print_error("unexpected log message: %s\n", f->message);
    assert_int_equal(f->errors, 0);
}

int
fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    fixture_open(f, NULL);
    *state = f;
    return 0;
}

int
fixture_teardown(void **state)
{
    fixture *f = *state;
    fixture_close(f);
    free(f);
    return 0;
}

void
fixture_expect_log(fixture *f, const char *part)
{
    assert_true(f->errors > 0);
    if (!strstr(f->message, part))
        fail_msg("logged \"%s\", which does not say \"%s\"", f->message, part);
    f->errors = 0;
}

/* -- statuses ---------------------------------------------------------------------------------- */

static const char stale[] = "a message from before";

uint64_t support_seed;

static void
print_seed(void)
{
    if (support_seed)
        print_error("  seed %llu\n", (unsigned long long)support_seed);
}

void
support_clear_error(void)
{
    ferryi_fail(FERRY_ERROR_IO, stale);
}

void
support_check(ferry_status expected, ferry_status got, const char *call, const char *file, int line)
{
    if (expected != got) {
        print_error("%s\n  is %s instead of %s: %s\n", call, ferry_status_name(got),
                    ferry_status_name(expected), ferry_last_error());
        print_seed();
        _fail(file, line);
    }
    if (expected != FERRY_OK &&
        (strlen(ferry_last_error()) < 10 || strstr(ferry_last_error(), stale))) {
        print_error("%s\n  left no message: \"%s\"\n", call, ferry_last_error());
        _fail(file, line);
    }
}

/* -- device memory ----------------------------------------------------------------------------- */

ferryi_device *
device_of(fixture *f, int place)
{
    return f->context->devices[place];
}

ferry_stream *
stream_of(fixture *f, int place)
{
    return ferry_context_stream(f->context, place);
}

/* Returns pinned memory. Memory from an earlier call is reused only after all queued work is done,
 * because that work may still read it. */
static void *
take_pinned(fixture *f, size_t bytes)
{
    assert_true(bytes <= PINNED_BYTES);
    if (bytes > PINNED_BYTES - f->pinned_used) {
        wait_for_all(f);
        f->pinned_used = 0;
    }
    void *memory = f->pinned + f->pinned_used;
    f->pinned_used += bytes;
    return memory;
}

void
device_write(fixture *f, int place, void *target, const void *source, size_t bytes)
{
    ferryi_device *device = device_of(f, place);
    void *pinned = take_pinned(f, bytes);
    memcpy(pinned, source, bytes);
    OK(device->ops->copy_upload(device, target, pinned, bytes,
                                ferry_stream_native(stream_of(f, place))));
}

void
device_read(fixture *f, int place, void *target, const void *source, size_t bytes)
{
    ferryi_device *device = device_of(f, place);
    void *pinned = take_pinned(f, bytes), *stream = ferry_stream_native(stream_of(f, place));
    OK(device->ops->copy_download(device, pinned, source, bytes, stream));
    OK(device->ops->stream_synchronize(device, stream));
    memcpy(target, pinned, bytes);
}

void
place_write(fixture *f, int place, void *target, const void *source, size_t bytes)
{
    if (bytes == 0)
        return;
    if (place == 0)
        memcpy(target, source, bytes);
    else
        device_write(f, place, target, source, bytes);
}

void
place_read(fixture *f, int place, void *target, const void *source, size_t bytes)
{
    if (bytes == 0)
        return;
    if (place == 0)
        memcpy(target, source, bytes);
    else
        device_read(f, place, target, source, bytes);
}

void *
device_alloc(fixture *f, int place, size_t bytes)
{
    void *memory;
    ferryi_device *device = device_of(f, place);
    OK(device->ops->memory_alloc(device, FERRY_MEMORY_DEVICE, bytes, &memory));
    return memory;
}

void
device_free(fixture *f, int place, void *memory)
{
    ferryi_device *device = device_of(f, place);
    OK(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, memory));
}

/* -- buffers ----------------------------------------------------------------------------------- */

ferry_buffer_info
info_of(ferry_buffer *buffer)
{
    ferry_buffer_info info;
    OK(ferry_buffer_get_info(buffer, &info));
    return info;
}

ferry_buffer *
make_ints(fixture *f, size_t count)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, count, NULL, &buffer));
    return buffer;
}

ferry_buffer *
make_counting(fixture *f, size_t count, int first)
{
    ferry_buffer *buffer = make_ints(f, count);
    write_counting(f, buffer, 0, 0, count, first);
    return buffer;
}

void
make_sparse(fixture *f, size_t count, ferry_buffer **left, size_t left_count)
{
    size_t all = 3 * left_count;
    ferry_buffer **set = calloc(all, sizeof(*set));
    assert_non_null(set);
    for (size_t i = 0; i < all; i++) {
        set[i] = make_ints(f, count);
        write_counting(f, set[i], 1, 0, count, (int)i);
    }
    for (size_t i = 0; i < all; i++)
        if (i % 3 == 0)
            left[i / 3] = set[i];
        else
            ferry_buffer_destroy(&set[i]);
    free(set);
    OK(ferry_stream_synchronize(f->stream));
}

void
destroy_buffers(ferry_buffer **const *buffers)
{
    for (; *buffers; buffers++)
        ferry_buffer_destroy(*buffers);
}

void *
open_at(fixture *f, ferry_buffer *buffer, int place, ferry_access access, size_t offset,
        size_t count, ferry_scope *scope)
{
    void *out;
    const ferry_element *element = ferry_buffer_element(buffer);
    if (place == 0)
        OK(ferry_buffer_open_host(buffer, element, access, offset, count, scope, &out));
    else
        OK(ferry_buffer_open_device(buffer, element, access, offset, count, stream_of(f, place),
                                    scope, &out));
    return out;
}

void
touch(fixture *f, ferry_buffer *buffer, int place, ferry_access access, size_t offset, size_t count)
{
    ferry_scope scope;
    open_at(f, buffer, place, access, offset, count, &scope);
    OK(ferry_scope_close(&scope));
}

static size_t
count_of(ferry_buffer *buffer, size_t offset, size_t count)
{
    return count == FERRY_REST ? ferry_buffer_count(buffer) - offset : count;
}

void
mark_initialized(void *memory, size_t bytes)
{
#if FERRYI_MEMORY_SANITIZER
    __msan_unpoison(memory, bytes);
#else
    (void)memory, (void)bytes;
#endif
}

void
write_counting(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int first)
{
    ferry_scope scope;
    count = count_of(buffer, offset, count);
    int32_t *values = malloc(count * sizeof(*values) + 1);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)(offset + i) + first;
    void *target = open_at(f, buffer, place, FERRY_OVERWRITE, offset, count, &scope);
    place_write(f, place, target, values, count * sizeof(*values));
    OK(ferry_scope_close(&scope));
    free(values);
}

void
add_to(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int amount)
{
    ferry_scope scope;
    count = count_of(buffer, offset, count);
    int32_t *values = malloc(count * sizeof(*values) + 1);
    assert_non_null(values);
    void *memory = open_at(f, buffer, place, FERRY_UPDATE, offset, count, &scope);
    place_read(f, place, values, memory, count * sizeof(*values));
    for (size_t i = 0; i < count; i++)
        values[i] += amount;
    place_write(f, place, memory, values, count * sizeof(*values));
    OK(ferry_scope_close(&scope));
    free(values);
}

static void
expect_values(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int first,
              int step)
{
    ferry_scope scope;
    count = count_of(buffer, offset, count);
    int32_t *values = malloc(count * sizeof(*values) + 1);
    assert_non_null(values);
    void *memory = open_at(f, buffer, place, FERRY_READ, offset, count, &scope);
    place_read(f, place, values, memory, count * sizeof(*values));
    OK(ferry_scope_close(&scope));
    for (size_t i = 0; i < count; i++)
        if (values[i] != (int32_t)(offset + i) * step + first)
            fail_msg("element %zu at place %d is %d instead of %d", offset + i, place, values[i],
                     (int32_t)(offset + i) * step + first);
    free(values);
}

void
expect_counting(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int first)
{
    expect_values(f, buffer, place, offset, count, first, 1);
}

void
expect_constant(fixture *f, ferry_buffer *buffer, int place, size_t offset, size_t count, int value)
{
    expect_values(f, buffer, place, offset, count, value, 0);
}

/* -- what moved -------------------------------------------------------------------------------- */

ferry_transfer_stats
moved(fixture *f)
{
    ferry_transfer_stats stats;
    OK(ferry_context_get_transfer_stats(f->context, &stats));
    return stats;
}

struct ferryi_staging_stats
staging_of(fixture *f)
{
    struct ferryi_staging_stats stats;
    ferryi_engine_staging_stats(f->context->engine, &stats);
    return stats;
}

void
expect_moved(fixture *f, const ferry_transfer_stats *before, uint64_t upload, uint64_t download)
{
    ferry_transfer_stats now = moved(f);
    assert_int_equal(now.upload.bytes - before->upload.bytes, f->coherent ? 0 : upload);
    assert_int_equal(now.download.bytes - before->download.bytes, f->coherent ? 0 : download);
}

void
expect_copies(fixture *f, const ferry_transfer_stats *before, uint64_t upload, uint64_t download)
{
    ferry_transfer_stats now = moved(f);
    assert_int_equal(now.upload.copies - before->upload.copies, f->coherent ? 0 : upload);
    assert_int_equal(now.download.copies - before->download.copies, f->coherent ? 0 : download);
}

uint64_t
crossing(const ferry_transfer_stats *stats)
{
    return stats->upload.bytes + stats->download.bytes + stats->peer.bytes;
}

/* -- sameness ---------------------------------------------------------------------------------- */

snapshot
take_snapshot(ferry_buffer *buffer)
{
    snapshot out;
    memset(&out, 0, sizeof(out));
    out.info = info_of(buffer);
    ferry_buffer_describe(buffer, out.text, sizeof(out.text));
    return out;
}

void
expect_unchanged(ferry_buffer *buffer, const snapshot *before)
{
    snapshot now = take_snapshot(buffer);
    assert_string_equal(now.text, before->text);
    assert_int_equal(now.info.count, before->info.count);
    assert_int_equal(now.info.state, before->info.state);
    assert_int_equal(now.info.places_with_copy, before->info.places_with_copy);
    assert_int_equal(now.info.places_current, before->info.places_current);
    assert_int_equal(now.info.scopes, before->info.scopes);
}

void
wait_until(const atomic_bool *set)
{
    for (int i = 0; i < 5000 && !atomic_load(set); i++)
        usleep(1000);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t
random_next(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t
random_below(uint64_t *seed, size_t limit)
{
    return limit ? (size_t)(random_next(seed) % limit) : 0;
}
