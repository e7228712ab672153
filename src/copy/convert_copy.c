/* SPDX-License-Identifier: MIT */
#include "src/copy/convert_copy.h"

#include <stdlib.h>

#include "src/convert/converter.h"
#include "src/transfer/engine.h"

/*
 * Converting copies of one row. A move converts on the way: on the host, into and out of the
 * staging ring, or within a device. So that the fewest bytes cross between host and device, a row
 * may pass through temporary storage on the device: elements that become wider cross before they
 * are converted, and elements that become narrower cross afterwards. A checked conversion checks
 * every element before it writes any.
 */

/* Size of the temporary storage on a device through which a row passes, part by part. It is so
 * large that the time to fill and drain the staging ring between two parts is negligible. */
#define SCRATCH_BYTES ((size_t)8 << 20)

/* -- transforms -------------------------------------------------------------------------------- */

/* Converts elements. Elements that the conversion policy rejects were found before this call, so
 * only a conversion function of the program can fail here. */
static ferry_status
convert_on_host(void *target, const void *source, size_t count, const void *user)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_conversion_apply(call->conversion, target, source, count, call->policy);
}

bool
ferryi_device_converts(ferry_context *context, int place, const ferry_conversion *conversion)
{
    return !conversion->convert &&
           ferryi_converter_can(context->converters[place], conversion->from, conversion->to);
}

static bool
converts_at(const void *user, int place)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_device_converts(call->context, place, call->conversion);
}

static ferry_status
convert_on_device(const void *user, ferryi_timeline *timeline, void *target, const void *source,
                  size_t count)
{
    const struct ferryi_convert_call *call = user;
    return ferryi_converter_run(call->context->converters[timeline->place], call->conversion,
                                call->policy, target, source, count, timeline->native);
}

struct ferryi_transform
ferryi_convert_transform(const struct ferryi_convert_call *call)
{
    return (struct ferryi_transform){.run = convert_on_host,
                                     .queues_at = converts_at,
                                     .queue = convert_on_device,
                                     .source_bytes = call->conversion->from->bytes,
                                     .target_bytes = call->conversion->to->bytes,
                                     .by_helpers = !call->conversion->convert &&
                                                   call->policy != FERRY_CONVERT_CHECK,
                                     .keeps_zeros = !call->conversion->convert,
                                     .user = call};
}

/* A search for the first element that FERRY_CONVERT_CHECK rejects. It is a transform of one
 * element, the whole row, to a number: the index of the element, or UINT64_MAX. */
struct search {
    const struct ferryi_convert_call *call;
    size_t count;
};

static ferry_status
search_on_host(void *target, const void *source, size_t count, const void *user)
{
    const struct search *search = user;
    (void)count;
    ferry_status status = ferryi_conversion_apply(search->call->conversion, NULL, source,
                                                  search->count, FERRY_CONVERT_CHECK);
    if (status == FERRY_ERROR_OUT_OF_RANGE && ferry_error_index() < search->count) {
        *(uint64_t *)target = ferry_error_index();
        return FERRY_OK;
    }
    return status;
}

static bool
searches_at(const void *user, int place)
{
    const struct search *search = user;
    return converts_at(search->call, place);
}

static ferry_status
search_on_device(const void *user, ferryi_timeline *timeline, void *target, const void *source,
                 size_t count)
{
    const struct search *search = user;
    (void)count;
    return ferryi_converter_search(search->call->context->converters[timeline->place],
                                   search->call->conversion, source, search->count, target,
                                   timeline->native);
}

static struct ferryi_transform
search_transform(const struct search *search)
{
    return (struct ferryi_transform){.run = search_on_host,
                                     .queues_at = searches_at,
                                     .queue = search_on_device,
                                     .source_bytes =
                                         search->count * search->call->conversion->from->bytes,
                                     .target_bytes = sizeof(uint64_t),
                                     .user = search};
}

/* -- a running conversion ---------------------------------------------------------------------- */

struct work {
    struct ferryi_copy_call *call;
    struct ferryi_move *move;
    struct ferryi_row row; /* the row of the call, or a copy of its source */
    struct ferryi_transform transform;
};

/* Moves a row, with a conversion or none. The target buffer is written at `place`. */
static ferry_status
move_row(const struct work *work, const struct ferryi_row *row, int place,
         const struct ferryi_transform *transform)
{
    work->move->host_side.transform = transform;
    return ferryi_row_move(work->move, row, &place, false);
}

static size_t
count_of(const struct work *work)
{
    return work->row.bytes / work->transform.target_bytes;
}

/* Returns the places at which the source of the row can be read as a whole; the host, if the source
 * is memory. */
static ferryi_places
places_of_source(const struct work *work)
{
    const struct ferryi_row *row = &work->row;
    const struct ferryi_range from = {row->source, row->source + row->source_bytes};
    return row->source_store ? ferryi_store_common_places(row->source_store, from)
                             : FERRYI_PLACE_BIT(FERRY_PLACE_HOST);
}

/* Returns those of the places that use host memory. */
static ferryi_places
on_host(const struct work *work, ferryi_places places)
{
    const ferryi_store *store = work->row.source_store;
    return store ? places & store->shared : places;
}

/* Copies the source of the row to host memory, from which it is then converted. This memory is not
 * of the pool, whose limit may be reached. */
static ferry_status
fetch(struct work *work)
{
    struct ferryi_row in = work->row;
    void *memory = work->call->fetched = malloc(in.source_bytes);
    if (!memory)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "convert %zu bytes of buffer \"%s\": no host memory for a copy of them",
                           in.source_bytes, ferryi_store_name(in.source_store));
    in.target_store = NULL;
    in.target = (uintptr_t)memory;
    in.bytes = in.source_bytes;
    in.unit = (uint32_t)work->transform.source_bytes;
    in.between = true;
    work->row.source_store = NULL;
    work->row.source = (uintptr_t)memory;
    return move_row(work, &in, FERRY_PLACE_HOST, NULL);
}

/* -- checks ------------------------------------------------------------------------------------ */

static ferry_status
check_memory(const struct ferryi_convert_call *call, const void *source, size_t count)
{
    return call->policy == FERRY_CONVERT_CHECK
               ? ferryi_conversion_apply(call->conversion, NULL, source, count, call->policy)
               : FERRY_OK;
}

/* Searches the row, whose source is a buffer that is current at the device `place`. The result
 * passes through memory of the device. */
static ferry_status
search_there(struct work *work, int place, struct ferryi_row *row,
             const struct ferryi_transform *transform)
{
    struct ferryi_row out = *row, fill = {.bytes = row->bytes, .between = true};
    FERRYI_OR_RETURN(ferryi_copy_add_middle(work->call, row->bytes, &row->target_store));
    fill.target_store = out.source_store = row->target_store;
    row->target = out.source = 0;
    out.source_bytes = row->bytes;
    work->move->value = "\xff";
    ferry_status status = move_row(work, &fill, place, NULL);
    work->move->value = "";
    FERRYI_OR_RETURN(status);
    FERRYI_OR_RETURN(move_row(work, row, place, transform));
    return move_row(work, &out, FERRY_PLACE_HOST, NULL);
}

/* Checks the elements of a source buffer: on the host, if they are there, otherwise on a device,
 * which then sends only a number. Without a device that can, or memory there, the host checks a
 * copy of them. */
static ferry_status
check_source(struct work *work)
{
    const struct ferryi_convert_call *convert = work->call->convert;
    const struct search search = {convert, count_of(work)};
    const struct ferryi_transform transform = search_transform(&search);
    const ferryi_places places = places_of_source(work), hosts = on_host(work, places);
    const int place = places ? __builtin_ctz(places) : FERRY_PLACE_HOST;
    uint64_t first = UINT64_MAX;
    struct ferryi_row row = {.source_store = work->row.source_store,
                             .source = work->row.source,
                             .source_bytes = work->row.source_bytes,
                             .target = (uintptr_t)&first,
                             .bytes = sizeof(first),
                             .between = true};
    ferry_status status = FERRY_ERROR_OUT_OF_MEMORY;
    if (hosts)
        status = move_row(work, &row, FERRY_PLACE_HOST, &transform);
    else if (places && converts_at(convert, place))
        status = search_there(work, place, &row, &transform);
    if (status == FERRY_ERROR_OUT_OF_MEMORY && !hosts) {
        FERRYI_OR_RETURN(fetch(work));
        return check_memory(convert, (const void *)work->row.source, search.count);
    }
    FERRYI_OR_RETURN(status);
    return first == UINT64_MAX ? FERRY_OK
                               : ferry_conversion_failed(convert->conversion, (size_t)first);
}

/* -- through a device -------------------------------------------------------------------------- */

/* Returns the device through which the row passes so that fewer bytes cross, or the host if there
 * is none. The device is queried last, because the query loads its conversion code. */
static int
find_passage(const struct work *work)
{
    const struct ferryi_transform *transform = &work->transform;
    const ferryi_store *target = work->row.target_store;
    const int home = target ? ferryi_store_home(target, work->call->place) : FERRY_PLACE_HOST;
    ferryi_places places = places_of_source(work), hosts = on_host(work, places);
    int place = FERRY_PLACE_HOST;
    if (home && hosts && !(places & FERRYI_PLACE_BIT(home)) &&
        transform->source_bytes < transform->target_bytes)
        place = home;
    if (!home && places && !hosts && transform->target_bytes < transform->source_bytes)
        place = __builtin_ctz(places);
    return place && converts_at(transform->user, place) ? place : FERRY_PLACE_HOST;
}

/* Returns the number of elements that pass at once. A job that can be cancelled is converted in
 * small parts, so that it can stop between two of them. */
static size_t
count_of_part(const struct work *work, size_t crossing_bytes)
{
    const size_t bytes = ferryi_engine_part(work->move->context->engine, work->move->job);
    const size_t most = ferryi_max_size(bytes / work->transform.target_bytes, 1);
    return ferryi_min_size(ferryi_min_size(count_of(work), SCRATCH_BYTES / crossing_bytes), most);
}

/* Moves `count` elements from element `first` on through the temporary storage `middle`. Elements
 * that become wider go up to the device. */
static ferry_status
pass_part(const struct work *work, ferryi_store *middle, int place, size_t first, size_t count)
{
    const struct ferryi_transform *transform = &work->transform;
    const bool up = transform->source_bytes < transform->target_bytes;
    const size_t crossing = count * (up ? transform->source_bytes : transform->target_bytes);
    struct ferryi_row in = work->row, out = work->row;
    in.source += first * transform->source_bytes;
    in.source_bytes = count * transform->source_bytes;
    out.target += first * transform->target_bytes;
    out.bytes = count * transform->target_bytes;
    in.target_store = out.source_store = middle;
    in.target = out.source = 0;
    in.bytes = out.source_bytes = crossing;
    in.between = true;
    FERRYI_OR_RETURN(move_row(work, &in, place, up ? NULL : transform));
    return move_row(work, &out, work->call->place, up ? transform : NULL);
}

/* Moves the row through temporary storage on the device at `place`. Without memory for it, the host
 * converts. */
static ferry_status
pass_through(struct work *work, int place)
{
    const struct ferryi_transform *transform = &work->transform;
    const size_t count = count_of(work),
                 crossing = ferryi_min_size(transform->source_bytes, transform->target_bytes),
                 part = count_of_part(work, crossing);
    ferryi_store *middle;
    FERRYI_OR_RETURN(ferryi_copy_add_middle(work->call, part * crossing, &middle));
    ferry_status status = ferryi_store_reserve(middle, place, NULL);
    if (status == FERRY_ERROR_OUT_OF_MEMORY)
        return move_row(work, &work->row, work->call->place, transform);
    for (size_t done = 0, now; done < count && status == FERRY_OK; done += now) {
        now = ferryi_min_size(part, count - done);
        status = pass_part(work, middle, place, done, now);
    }
    return status;
}

/* -- running ----------------------------------------------------------------------------------- */

static ferry_status
convert_row(struct work *work)
{
    struct ferryi_copy_call *call = work->call;
    FERRYI_OR_RETURN(ferryi_row_reserve(&work->row, &call->place, call->is_any_place));
    const int passage = find_passage(work);
    if (passage)
        return pass_through(work, passage);
    ferry_status status = move_row(work, &work->row, call->place, &work->transform);
    if (!work->move->cut)
        return status;
    FERRYI_OR_RETURN(fetch(work));
    return move_row(work, &work->row, call->place, &work->transform);
}

static ferry_status
move_converting(struct ferryi_copy_call *call, struct ferryi_move *move)
{
    struct work work = {.call = call,
                        .move = move,
                        .row = call->row,
                        .transform = ferryi_convert_transform(call->convert)};
    if (call->convert->policy == FERRY_CONVERT_CHECK && work.row.source_store)
        FERRYI_OR_RETURN(check_source(&work));
    return convert_row(&work);
}

static ferry_status
run_converting(struct ferryi_copy_call *call)
{
    return ferryi_copy_run_row(call, move_converting);
}

ferry_status
ferryi_convert_memory(const struct ferryi_convert_call *convert, void *target, const void *source,
                      size_t count, struct ferryi_transfer_job *job)
{
    const struct ferryi_transform transform = ferryi_convert_transform(convert);
    const struct ferryi_piece part = {.target = target,
                                      .source = source,
                                      .bytes = count * transform.target_bytes,
                                      .unit = (uint32_t)transform.target_bytes};
    struct ferryi_move move;
    ferryi_move_begin(&move, convert->context, "convert", job);
    move.host_side.transform = &transform;
    ferry_status status = ferryi_move_run(&move, ferryi_move_add(&move, &part));
    ferryi_move_end(&move);
    return status;
}

/* -- planning ---------------------------------------------------------------------------------- */

/* Returns where a conversion between two buffers writes its target if the library chooses: where
 * the source is current, if the elements can be converted there, and otherwise at the host. */
static int
choose_place(const struct ferryi_convert_call *convert, ferryi_store *target,
             struct ferryi_range to, ferryi_store *source, struct ferryi_range from)
{
    const int place = ferryi_copy_meeting_place(target, to, source, from);
    const bool by_host = ferryi_store_same_memory(target, place, FERRY_PLACE_HOST) &&
                         ferryi_store_same_memory(source, place, FERRY_PLACE_HOST);
    return by_host || converts_at(convert, place) ? place : FERRY_PLACE_HOST;
}

ferry_status
ferryi_convert_plan(struct ferryi_copy_call *call, const struct ferryi_convert_call *convert,
                    ferryi_store *target, struct ferryi_range to, ferryi_store *source,
                    struct ferryi_range from, int place)
{
    const size_t source_unit = convert->conversion->from->bytes,
                 target_unit = convert->conversion->to->bytes;
    const bool is_any_place = place < 0;
    if (!target)
        to.end = to.begin + (from.end - from.begin) / source_unit * target_unit;
    if (!source)
        from.end = from.begin + (to.end - to.begin) / target_unit * source_unit;
    if (!source)
        FERRYI_OR_RETURN(
            check_memory(convert, (const void *)from.begin, (to.end - to.begin) / target_unit));
    if (target && source && is_any_place)
        place = choose_place(convert, target, to, source, from);
    call->convert = convert;
    call->unit = target_unit;
    ferryi_copy_plan(call, target, to, source, from, place);
    call->is_any_place = is_any_place;
    call->run = run_converting;
    return FERRY_OK;
}
