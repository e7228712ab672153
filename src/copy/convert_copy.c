/* SPDX-License-Identifier: MIT */
#include "src/copy/convert_copy.h"

#include "src/buffer/claim.h"
#include "src/buffer/place_pool.h"
#include "src/convert/converter.h"
#include "src/transfer/throttle.h"

/*
 * Copies that convert. The conversion runs on the host or on the device, wherever this needs the
 * smaller transfer. The transfer engine converts on the host, into and out of its staging ring. A
 * device converts in its own memory. Uploaded and downloaded elements pass through a scratch block
 * from the device's pool, one part at a time. All copies and conversions are queued on one stream,
 * so no part overwrites the scratch block too early. A checked conversion checks every element
 * before it writes any.
 */

/* Size of the scratch block on the device through which elements pass. It is so large that the time
 * to fill and drain the staging ring between two parts is negligible. */
#define SCRATCH_BYTES ((size_t)8 << 20)

/* Converts elements. Elements that the conversion policy rejects were found before this call, so
 * only a conversion function of the program can fail here. */
static ferry_status
run_conversion(void *target, const void *source, size_t count, const void *user)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

static ferry_status
check_values(const struct ferryi_convert_call *call, const void *source, size_t count)
{
    return call->policy == FERRY_CONVERT_CHECK
               ? ferryi_conversion_apply(call->conversion, NULL, source, count, call->policy)
               : FERRY_OK;
}

struct ferryi_transform
ferryi_convert_transform(const struct ferryi_convert_call *call)
{
    return (struct ferryi_transform){.run = run_conversion,
                                     .source_bytes = call->conversion->from->bytes,
                                     .target_bytes = call->conversion->to->bytes,
                                     .by_helpers = !call->conversion->convert &&
                                                   call->policy != FERRY_CONVERT_CHECK,
                                     .keeps_zeros = !call->conversion->convert,
                                     .user = call};
}

/* Prepares a transfer job whose target is not a buffer. The job counts the bytes of the target, and
 * reports no offset in a buffer. */
static void
count_target(struct ferryi_transfer_job *job)
{
    job->offset = SIZE_MAX;
    job->foreign_target = true;
}

/* -- on a device ------------------------------------------------------------------------------- */

/* State of a conversion that runs on a device. */
struct device_work {
    /* Storage of the buffer that is converted; only its context and name are used. */
    ferryi_store *store;
    const ferry_conversion *conversion;
    ferry_convert_policy policy;
    int place;
    ferryi_timeline *timeline; /* timeline at `place`, on which all work is queued */
    /* Conversion on the host. It is used if the scratch block on the device cannot be allocated. */
    const struct ferryi_transform *transform;
};

bool
ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion)
{
    return !conversion->convert &&
           ferryi_converter_can(context->converters[place], conversion->from, conversion->to);
}

static ferryi_converter *
converter_of(const struct device_work *work)
{
    return work->store->context->converters[work->place];
}

static ferry_status
queue(const struct device_work *work, void *target, const void *source, size_t count)
{
    return ferryi_converter_run(converter_of(work), work->conversion, work->policy, target, source,
                                count, work->timeline->native);
}

/* Returns the number of elements to convert next, at most `most`. A job that can be cancelled is
 * converted in small parts, so that it can stop between two of them. */
static size_t
elements_of_part(const struct device_work *work, const struct ferryi_transfer_job *job, size_t most)
{
    size_t bytes = ferryi_engine_part(work->store->context->engine, job);
    return ferryi_min_size(most, ferryi_max_size(bytes / work->conversion->to->bytes, 1));
}

/* Queues a conversion between two arrays on the device. If the job can be cancelled, queues the
 * conversion in parts. */
static ferry_status
convert_inside(const struct device_work *work, void *target, const void *source, size_t count,
               struct ferryi_transfer_job *job)
{
    const size_t source_bytes = work->conversion->from->bytes,
                 target_bytes = work->conversion->to->bytes;
    const size_t part = elements_of_part(work, job, count);
    struct ferryi_throttle throttle = {.timeline = work->timeline};
    ferry_status status = FERRY_OK;
    for (size_t done = 0, now; status == FERRY_OK && done < count; done += now) {
        now = ferryi_min_size(part, count - done);
        if (part < count)
            status = ferryi_throttle_begin(&throttle);
        if (status == FERRY_OK)
            status = queue(work, (char *)target + done * target_bytes,
                           (const char *)source + done * source_bytes, now);
        if (status == FERRY_OK)
            status = ferryi_engine_reported(work->store->context->engine, job, now * target_bytes);
        if (status == FERRY_OK && part < count)
            status = ferryi_throttle_end(&throttle);
    }
    return status;
}

/* -- scratch ----------------------------------------------------------------------------------- */

struct scratch {
    ferry_block *block;
    void *memory;
};

static ferry_status
take_scratch(const struct device_work *work, size_t bytes, struct scratch *out)
{
    ferry_pool *pool;
    ferry_status status =
        ferryi_place_pool(work->store->context, work->place, FERRY_MEMORY_DEVICE, &pool);
    if (status != FERRY_OK)
        return status;
    status =
        ferryi_pool_take(pool, bytes, FERRYI_POOL_ALIGN, work->timeline, &out->block, &out->memory);
    return status == FERRY_OK
               ? status
               : ferryi_fail_in(status,
                                "reserve %zu bytes for the conversion of buffer \"%s\" in %s",
                                bytes, ferryi_store_name(work->store), ferryi_pool_name(pool));
}

static void
give_scratch(const struct device_work *work, struct scratch *scratch)
{
    ferryi_sync_point point = ferryi_timeline_sync_point(work->timeline);
    if (work->store->zero_on_release)
        ferryi_pool_give_zeroed(scratch->block, point);
    else
        ferryi_pool_give(scratch->block, point);
}

static struct ferryi_memory
on_device(const struct device_work *work, void *memory)
{
    return (struct ferryi_memory){.place = work->place, .pointer = memory};
}

static struct ferryi_memory
on_host(const void *memory)
{
    return (struct ferryi_memory){.place = 0, .pointer = (void *)(uintptr_t)memory};
}

/* -- across ------------------------------------------------------------------------------------ */

/* Searches on the device for the first element that FERRY_CONVERT_CHECK rejects, and waits for the
 * result. If there is such an element, fails with FERRY_ERROR_OUT_OF_RANGE and sets
 * ferry_error_index(). Downloads only the index, which has eight bytes. */
static ferry_status
check_on_device(const struct device_work *work, const void *source, size_t count)
{
    ferryi_engine *engine = work->store->context->engine;
    struct ferryi_transfer_job job = {.buffer = ferryi_store_name(work->store),
                                      .reason = "convert",
                                      .traffic = ferryi_store_traffic(work->store)};
    uint64_t first = UINT64_MAX;
    struct scratch scratch;
    FERRYI_OR_RETURN(take_scratch(work, sizeof(first), &scratch));
    ferry_status status = ferryi_engine_fill(engine, on_device(work, scratch.memory), sizeof(first),
                                             "\xff", 1, work->timeline, &job);
    if (status == FERRY_OK)
        status = ferryi_converter_search(converter_of(work), work->conversion, source, count,
                                         scratch.memory, work->timeline->native);
    if (status == FERRY_OK)
        status = ferryi_engine_copy(engine, on_host(&first), on_device(work, scratch.memory),
                                    sizeof(first), work->timeline, &job);
    give_scratch(work, &scratch);
    if (status == FERRY_OK && first != UINT64_MAX)
        status = ferry_conversion_failed(work->conversion, (size_t)first);
    return status;
}

static struct ferryi_memory
further(struct ferryi_memory memory, size_t bytes)
{
    memory.pointer = (char *)memory.pointer + bytes;
    return memory;
}

/* Converts one part of an upload or a download through a scratch block on the device. During an
 * upload, the source elements are copied to `scratch` and then converted. During a download, the
 * elements are converted into `scratch` and then copied to the host. */
static ferry_status
convert_part(const struct device_work *work, struct ferryi_memory target,
             struct ferryi_memory source, struct ferryi_memory scratch, size_t count,
             struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = work->store->context->engine;
    ferry_status status;
    if (target.place) {
        status = ferryi_engine_copy(engine, scratch, source, count * work->conversion->from->bytes,
                                    work->timeline, job);
        return status == FERRY_OK ? queue(work, target.pointer, scratch.pointer, count) : status;
    }
    status = queue(work, scratch.pointer, source.pointer, count);
    return status == FERRY_OK
               ? ferryi_engine_copy(engine, target, scratch, count * work->conversion->to->bytes,
                                    work->timeline, job)
               : status;
}

/* Converts between host memory and device memory. A download is complete when the function returns.
 * The job counts the bytes of the target. */
static ferry_status
convert_across(const struct device_work *work, struct ferryi_memory target,
               struct ferryi_memory source, size_t count, struct ferryi_transfer_job *job)
{
    ferryi_engine *engine = work->store->context->engine;
    const size_t source_bytes = work->conversion->from->bytes,
                 target_bytes = work->conversion->to->bytes,
                 transferred_bytes = target.place ? source_bytes : target_bytes;
    const size_t part =
        elements_of_part(work, job, ferryi_min_size(count, SCRATCH_BYTES / transferred_bytes));
    struct ferryi_transfer_job part_job = ferryi_copy_quiet_job(job);
    struct scratch scratch;
    ferry_status status = take_scratch(work, part * transferred_bytes, &scratch);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return ferryi_engine_copy_transformed(engine, target, source, count, work->transform,
                                              work->timeline, job);
    if (status != FERRY_OK)
        return status;
    for (size_t done = 0, now; status == FERRY_OK && done < count; done += now) {
        now = ferryi_min_size(part, count - done);
        status = convert_part(work, further(target, done * target_bytes),
                              further(source, done * source_bytes), on_device(work, scratch.memory),
                              now, &part_job);
        if (status == FERRY_OK)
            status = ferryi_engine_reported(engine, job, now * target_bytes);
    }
    give_scratch(work, &scratch);
    return status;
}

/* -- running ----------------------------------------------------------------------------------- */

/* Closes all accesses of a call. For accesses that write, marks the first `done` bytes of the call
 * as current. */
static ferry_status
close_all(struct ferryi_copy_call *call, size_t done)
{
    ferry_status status = FERRY_OK;
    for (size_t i = 0; i < call->access_count; i++) {
        struct ferryi_access *access = &call->accesses[i];
        bool reads = access->access == FERRY_READ;
        size_t end = reads ? access->end : ferryi_min_size(call->begin + done, access->end);
        ferry_status closed = ferryi_access_close_part(access, end, access->timeline);
        if (status == FERRY_OK && !reads)
            status = closed;
    }
    return status;
}

/* The `run` function of a call that converts. Prepares the accesses, converts the bytes and closes
 * the accesses. */
static ferry_status
run_conversion_call(struct ferryi_copy_call *call)
{
    ferryi_claim_is_held();
    struct ferryi_access *main = &call->main;
    /* Locking the ranges has sorted the accesses by buffer and range. So `main` may now be the
     * access to the source. `main` must be the access to the target, so the two are swapped back.
     */
    if (call->access_count > 1 && main->access == FERRY_READ) {
        struct ferryi_access reads = *main;
        *main = call->other;
        call->other = reads;
    }
    FERRYI_OR_RETURN(ferryi_access_prepare(call->accesses, call->access_count));
    struct ferryi_transfer_job job = ferryi_copy_job(call);
    job.foreign_source = call->source;
    size_t before = job.done;
    ferry_status status = call->move(
        call, ferryi_access_memory(main->store, main->timeline ? main->place : 0, call->begin),
        &job);
    ferryi_access_note_loss(main->store, main->place, status);
    if (call->whole)
        ferryi_whole_call_note(call->whole, &job,
                               main->timeline && main->access != FERRY_READ
                                   ? UINT64_C(1) << main->timeline->number
                                   : 0);
    if (status == FERRY_OK)
        return close_all(call, call->bytes);
    struct ferryi_kept_error why;
    ferryi_last_error_keep(&why);
    size_t done = job.done - before;
    (void)close_all(call, call->unit > 1 ? done - done % call->unit : done);
    ferryi_last_error_restore(&why);
    return status;
}

static void
add_access(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
           uint8_t access, int place, ferryi_timeline *timeline, const char *reason)
{
    struct ferryi_access *added = &call->accesses[call->access_count++];
    *added = ferryi_access_of(store, range, access, place, reason);
    added->timeline = timeline;
    added->derives = added->writes_all = true;
}

/* Adds the access to the target of a call. */
static ferry_status
add_target(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range, int place,
           ferryi_timeline *other, const char *reason)
{
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(ferryi_place_timeline(store, place, &timeline));
    /* If the target is in managed memory, it has no timeline at this place. The copy then uses the
     * timeline of the source, which belongs to the device. */
    add_access(call, store, range, FERRY_OVERWRITE, place, timeline ? timeline : other, reason);
    call->begin = range.begin;
    call->bytes = range.end - range.begin;
    call->run = run_conversion_call;
    return FERRY_OK;
}

/* -- moves ------------------------------------------------------------------------------------- */

static struct device_work
work_of(const struct ferryi_copy_call *call, int place, const struct ferryi_transform *transform)
{
    const struct ferryi_convert_call *user = call->user;
    return (struct device_work){call->main.store,    user->conversion, user->policy, place,
                                call->main.timeline, transform};
}

static size_t
count_of(const struct ferryi_copy_call *call)
{
    const struct ferryi_convert_call *user = call->user;
    return call->bytes / user->conversion->to->bytes;
}

/* Checks that the conversion policy accepts all elements of the source. The check runs at the place
 * where the elements are stored. */
static ferry_status
check_source(const struct ferryi_copy_call *call, struct ferryi_memory source)
{
    const struct ferryi_convert_call *user = call->user;
    if (!source.place || user->policy != FERRY_CONVERT_CHECK)
        return check_values(user, source.pointer, count_of(call));
    const struct device_work work = work_of(call, source.place, NULL);
    return check_on_device(&work, source.pointer, count_of(call));
}

/* Converts elements within one device, within the host, or between a device and the host. */
static ferry_status
convert(const struct ferryi_copy_call *call, struct ferryi_memory target,
        struct ferryi_memory source, struct ferryi_transfer_job *job)
{
    const struct ferryi_convert_call *user = call->user;
    const struct ferryi_transform transform = ferryi_convert_transform(user);
    ferryi_store *store = call->main.store;
    int place = target.place ? target.place : source.place;
    const struct device_work work = work_of(call, place, &transform);
    if (target.place && source.place)
        return convert_inside(&work, target.pointer, source.pointer, count_of(call), job);
    /* The device converts only if fewer bytes then cross the link between host and device. The
     * device is queried last, because the query loads its conversion code. */
    size_t source_bytes = user->conversion->from->bytes, target_bytes = user->conversion->to->bytes;
    bool crosses_less =
        target.place ? source_bytes < target_bytes : source.place && target_bytes < source_bytes;
    if (crosses_less && ferryi_device_converts(store->context, place, user->conversion))
        return convert_across(&work, target, source, count_of(call), job);
    return ferryi_engine_copy_transformed(store->context->engine, target, source, count_of(call),
                                          &transform, call->main.timeline, job);
}

/* Converts elements from the caller's memory. If the policy is FERRY_CONVERT_CHECK, the elements
 * were checked before the ranges of the call were locked. */
static ferry_status
move_in(struct ferryi_copy_call *call, struct ferryi_memory target, struct ferryi_transfer_job *job)
{
    struct ferryi_memory source = {.pointer = (void *)(uintptr_t)call->source};
    return convert(call, target, source, job);
}

static ferry_status
move_out(struct ferryi_copy_call *call, struct ferryi_memory source,
         struct ferryi_transfer_job *job)
{
    struct ferryi_memory target = {.pointer = call->target};
    ferry_status status = check_source(call, source);
    count_target(job);
    return status == FERRY_OK ? convert(call, target, source, job) : status;
}

/* Converts elements from one buffer to another. The source is accessed at the same place as the
 * target, or at the host. */
static ferry_status
move_between(struct ferryi_copy_call *call, struct ferryi_memory target,
             struct ferryi_transfer_job *job)
{
    ferryi_claim_is_held();
    int place = call->other.timeline ? target.place : FERRY_PLACE_HOST;
    struct ferryi_memory source = {
        .place = place,
        .pointer = ferryi_access_memory(call->other.store, place, call->from).pointer};
    ferry_status status = check_source(call, source);
    return status == FERRY_OK ? convert(call, target, source, job) : status;
}

/* -- to the caller's memory -------------------------------------------------------------------- */

ferry_status
ferryi_convert_memory(ferryi_engine *engine, void *target, const void *source, size_t count,
                      const struct ferryi_convert_call *convert, struct ferryi_transfer_job *job)
{
    const struct ferryi_transform transform = ferryi_convert_transform(convert);
    struct ferryi_memory to = {.pointer = target}, from = {.pointer = (void *)(uintptr_t)source};
    job->unit = transform.target_bytes;
    return ferryi_engine_copy_transformed(engine, to, from, count, &transform, NULL, job);
}

/* Prepares a converting copy to the caller's memory. The copy reads the source range at a place
 * where it is current. */
static ferry_status
plan_out(struct ferryi_copy_call *call, ferryi_store *store, struct ferryi_range range,
         void *target)
{
    const struct ferryi_convert_call *convert = call->user;
    const ferry_conversion *conversion = convert->conversion;
    int place = ferryi_copy_home(store, range);
    /* Every element is checked before the first one is written. If the device cannot check the
     * elements, the host does. */
    if (convert->policy == FERRY_CONVERT_CHECK && !ferryi_store_same_memory(store, place, 0) &&
        !ferryi_device_converts(store->context, place, conversion))
        place = FERRY_PLACE_HOST;
    ferryi_timeline *timeline = NULL;
    ferry_status status = FERRY_OK;
    if (!ferryi_store_same_memory(store, place, 0))
        status = ferryi_store_timeline(store, 0, place, "convert", &timeline);
    add_access(call, store, range, FERRY_READ, place, timeline, "copy_to");
    call->begin = range.begin;
    call->bytes = (range.end - range.begin) / conversion->from->bytes * conversion->to->bytes;
    call->target = target;
    call->move = move_out;
    call->run = run_conversion_call;
    return status;
}

/* -- from buffer to buffer --------------------------------------------------------------------- */

/* Returns whether both buffers use host memory at this place. If so, the host converts there. */
static bool
host_reaches(ferryi_store *target, ferryi_store *source, int place)
{
    return ferryi_store_same_memory(target, place, 0) && ferryi_store_same_memory(source, place, 0);
}

/* Prepares a converting copy that accesses the source and the target at the same place, if the
 * conversion can run there. If it cannot run at the place that the caller chose, the copy accesses
 * the source at the host instead. If the caller chose no place, the copy accesses both at the host.
 */
static ferry_status
plan_between(struct ferryi_copy_call *call, ferryi_store *target, struct ferryi_range to,
             ferryi_store *source, struct ferryi_range from, const ferry_conversion *conversion,
             int place)
{
    int meeting = place < 0 ? ferryi_copy_meeting_place(target, to, source, from) : place;
    bool there = place < 0 || (ferryi_store_validity(source, from).all & FERRYI_PLACE_BIT(place));
    bool meets = host_reaches(target, source, meeting) ||
                 (there && ferryi_device_converts(target->context, meeting, conversion));
    bool at_host = !meets && (place < 0 || ferryi_store_same_memory(target, place, 0));
    int target_place = at_host ? FERRY_PLACE_HOST : meeting,
        source_place = meets ? meeting : FERRY_PLACE_HOST;
    ferryi_timeline *timeline;
    FERRYI_OR_RETURN(ferryi_place_timeline(source, source_place, &timeline));
    FERRYI_OR_RETURN(add_target(call, target, to, target_place, timeline, "convert"));
    if (source_place == target_place)
        timeline = call->main.timeline;
    add_access(call, source, from, FERRY_READ, source_place, timeline, "convert");
    call->from = from.begin;
    call->move = move_between;
    return FERRY_OK;
}

ferry_status
ferryi_convert_plan(struct ferryi_copy_call *call, const struct ferryi_convert_call *convert,
                    ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                    struct ferryi_range from, int place)
{
    call->user = convert;
    call->unit = convert->conversion->to->bytes;
    if (!target)
        return plan_out(call, source, from, (void *)to.begin);
    if (source)
        return plan_between(call, target, to, source, from, convert->conversion, place);
    FERRYI_OR_RETURN(check_values(convert, (const void *)from.begin,
                                  (to.end - to.begin) / convert->conversion->to->bytes));
    call->source = (const void *)from.begin;
    call->move = move_in;
    return add_target(call, target, to, place < 0 ? ferryi_copy_home(target, to) : place, NULL,
                      "copy_from");
}
