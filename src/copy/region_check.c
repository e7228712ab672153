/* SPDX-License-Identifier: MIT */
#include "src/base/file.h"

#include "src/buffer/buffer.h"
#include "src/copy/convert_copy.h"
#include "src/copy/regions.h"
#include "src/store/checked.h"
#include <assert.h>

/* Checks the arguments of one region of ferry_copy(), and translates them into a struct
 * ferryi_region. */

static const char what[] = "copy";

/* -- elements ---------------------------------------------------------------------------------- */

/* Sets *out to the element type of the buffer on one side of a region. If the side has no buffer,
 * sets *out to the type that the caller passed, or to NULL. */
static ferry_status
named_element(const ferry_copy_side *side, const ferry_element **out)
{
    struct ferryi_range range;
    *out = side->element;
    if (!side->buffer)
        return FERRY_OK;
    ferry_status status =
        ferryi_buffer_check(side->buffer, side->element, FERRY_READ, 0, 0, what, &range);
    if (status == FERRY_OK)
        *out = side->buffer->element;
    return status;
}

/* Sets *out to the library's own description of the element type `element`. If `other` describes
 * the same type, sets *out to `other` and needs no search. */
static ferry_status
intern(const ferry_element *element, const ferry_element *other, const ferry_element **out)
{
    *out = other;
    return element->identity == other->identity ? FERRY_OK : ferryi_element_intern(element, out);
}

static ferry_status
find_elements(const ferry_copy_region *from, struct ferryi_region *region)
{
    const ferry_element *target, *source;
    if (from->conversion)
        FERRYI_OR_RETURN(ferryi_conversion_check(from->conversion, what));
    FERRYI_OR_RETURN(named_element(&from->target, &target));
    FERRYI_OR_RETURN(named_element(&from->source, &source));
    /* At least one side of the region is a buffer, so at least one of the element types `source`
     * and `target` is not NULL. */
    assert(source || target);
    if (!source)
        source = from->conversion ? from->conversion->from : target;
    if (!target)
        target = from->conversion ? from->conversion->to : source;
    const ferry_element *buffers = from->target.buffer ? target : source;
    ferry_status status = intern(target, buffers, &region->target.element);
    return status == FERRY_OK ? intern(source, buffers, &region->source.element) : status;
}

static ferry_status
find_conversion(const ferry_copy_region *from, const struct ferryi_region_setting *setting,
                struct ferryi_region *region)
{
    const ferry_element *source = region->source.element, *target = region->target.element;
    region->converts = from->conversion || source->identity != target->identity;
    if (!region->converts)
        return FERRY_OK;
    if (from->conversion && (from->conversion->from->identity != source->identity ||
                             from->conversion->to->identity != target->identity))
        return ferryi_fail(
            FERRY_ERROR_WRONG_TYPE,
            "%s: the conversion is from %s to %s, but the source has %s and the target %s", what,
            from->conversion->from->name, from->conversion->to->name, source->name, target->name);
    if (!from->conversion && (!setting->transfer || !setting->transfer->convert))
        return ferryi_fail(FERRY_ERROR_WRONG_TYPE,
                           "%s: the source has elements %s%s, the target %s, and options.convert "
                           "is FERRY_CONVERT_NONE",
                           what, source->name, ferryi_element_namesake(source, target),
                           target->name);
    if (setting->policy == FERRY_CONVERT_CHECK && setting->caller.goes_on)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "%s: a conversion with FERRY_CONVERT_CHECK cannot be asynchronous: call "
                           "the function that blocks",
                           what);
    if (setting->policy == FERRY_CONVERT_CHECK && from->source.path)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "%s: a conversion with FERRY_CONVERT_CHECK cannot read from a file: "
                           "load it into a buffer first",
                           what);
    region->conversion =
        (ferry_conversion){.from = source,
                           .to = target,
                           .convert = from->conversion ? from->conversion->convert : NULL};
    return ferryi_conversion_check(&region->conversion, what);
}

/* -- shapes ------------------------------------------------------------------------------------ */

static ferry_status
find_count(const ferry_copy_region *from, struct ferryi_region *region)
{
    region->count = from->count;
    region->rows = from->rows ? from->rows : 1;
    region->planes = from->planes ? from->planes : 1;
    if (region->count != FERRY_REST)
        return FERRY_OK;
    if (region->rows > 1 || region->planes > 1)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "%s: FERRY_REST counts the elements of one row, but there are %zu rows and %zu planes",
            what, region->rows, region->planes);
    const ferry_copy_side *side = from->source.buffer ? &from->source : &from->target;
    struct ferryi_range range;
    ferry_status status = ferryi_buffer_check(side->buffer, side->element, FERRY_READ, side->offset,
                                              FERRY_REST, what, &range);
    if (status == FERRY_OK)
        region->count = (range.end - range.begin) / side->buffer->element_bytes;
    return status;
}

static ferry_status
fail_span(const struct ferryi_region *region, const char *name)
{
    return ferryi_fail(
        FERRY_ERROR_OVERFLOW,
        "%s: %zu planes of %zu rows of %zu elements of the %s: more than size_t holds", what,
        region->planes, region->rows, region->count, name);
}

static ferry_status
fail_pitch(const char *name, const char *part, size_t pitch, size_t elements)
{
    return ferryi_fail(
        FERRY_ERROR_INVALID_ARGUMENT,
        "%s: the %s's %s pitch of %zu elements is less than the %zu elements of a %s", what, name,
        part, pitch, elements, part);
}

/* Computes the row and plane pitches of one side of a region, in elements. Also computes the number
 * of elements from the first to the last, including gaps. A single row has a row pitch, too: the
 * default of the plane pitch is a multiple of it. */
static ferry_status
find_span(const struct ferryi_region *region, const ferry_copy_side *from, const char *name,
          size_t *out_row, size_t *out_plane, size_t *out_span)
{
    size_t row = from->row_pitch ? from->row_pitch : region->count, plane = from->plane_pitch, rows,
           in_plane, planes;
    *out_row = *out_plane = *out_span = region->count;
    bool plain = region->rows == 1 && region->planes == 1 && !from->row_pitch && !plane;
    if (region->count == 0 || (plain && region->count != FERRY_REST))
        return FERRY_OK;
    if (row < region->count)
        return fail_pitch(name, "row", row, region->count);
    if (!ferryi_mul_size(region->rows - 1, row, &rows) ||
        !ferryi_add_size(rows, region->count, &in_plane) ||
        (plane == 0 && region->planes > 1 && !ferryi_mul_size(region->rows, row, &plane)))
        return fail_span(region, name);
    if (plane != 0 && plane < in_plane)
        return fail_pitch(name, "plane", plane, in_plane);
    if (!ferryi_mul_size(region->planes - 1, plane, &planes) ||
        !ferryi_add_size(planes, in_plane, out_span) || *out_span == FERRY_REST)
        return fail_span(region, name);
    *out_row = row;
    *out_plane = plane;
    return FERRY_OK;
}

/* -- sides ------------------------------------------------------------------------------------- */

/* Computes the offset and the span of one side of a region, in bytes. The span is the number of
 * bytes from the first to the last, including gaps. Returns false if the offset or the span does
 * not fit in a size_t. */
static bool
bytes_of(const ferry_copy_side *from, const ferry_element *element, size_t span, size_t *out_offset,
         size_t *out_bytes)
{
    size_t end;
    return ferryi_mul_size(from->offset, element->bytes, out_offset) &&
           ferryi_mul_size(span, element->bytes, out_bytes) &&
           ferryi_add_size(*out_offset, *out_bytes, &end);
}

static ferry_status
find_memory(const ferry_copy_side *from, size_t span, const char *name, ferryi_store *other,
            struct ferryi_region_side *side)
{
    size_t offset, bytes;
    if (span == 0)
        return FERRY_OK;
    if (!from->memory)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the %s has no buffer, no memory and no path", what, name);
    if (!bytes_of(from, side->element, span, &offset, &bytes) ||
        bytes > UINTPTR_MAX - (uintptr_t)from->memory ||
        offset > UINTPTR_MAX - (uintptr_t)from->memory - bytes)
        return ferryi_fail(FERRY_ERROR_OVERFLOW,
                           "%s: %zu elements of %zu bytes of the %s: more than there is memory",
                           what, span, side->element->bytes, name);
    side->begin = (uintptr_t)from->memory + offset;
    return ferryi_checked_memory(other, from->memory, what);
}

static ferry_status
find_file(const ferry_copy_side *from, size_t span, const char *name,
          struct ferryi_region_side *side)
{
    size_t offset, bytes;
    if (!bytes_of(from, side->element, span, &offset, &bytes) ||
        offset > UINT64_MAX - from->file_offset)
        return ferryi_fail(FERRY_ERROR_OVERFLOW,
                           "%s: %zu elements of %zu bytes of the %s: more than a file holds", what,
                           span, side->element->bytes, name);
    side->path = from->path;
    side->file_offset = from->file_offset + offset;
    return ferryi_file_check_range(from->path, side->file_offset, bytes);
}

/* Returns the verb for messages about one buffer of the region. */
static const char *
verb_of(const struct ferryi_region *region, const ferry_copy_side *other, ferry_access access)
{
    if (region->value)
        return "fill";
    if (region->converts)
        return "convert";
    if (other->path)
        return ferryi_copy_file_reason(access == FERRY_READ);
    return what;
}

static ferry_status
find_side(const struct ferryi_region *region, const ferry_copy_side *from,
          const ferry_copy_side *other, const char *name, struct ferryi_region_side *side)
{
    size_t row, plane, span;
    ferry_status status = find_span(region, from, name, &row, &plane, &span);
    if (status != FERRY_OK)
        return status;
    if (from->buffer) {
        struct ferryi_range range;
        ferry_access access = side == &region->target ? FERRY_OVERWRITE : FERRY_READ;
        status = ferryi_buffer_check(from->buffer, from->element, access, from->offset, span,
                                     verb_of(region, other, access), &range);
        side->store = from->buffer->store;
        side->begin = range.begin;
    } else if (from->path) {
        status = find_file(from, span, name, side);
    } else {
        status = find_memory(from, span, name, other->buffer->store, side);
    }
    /* The products are computed only for pitches inside the span, which fits in a size_t, so that
     * they cannot overflow. */
    side->row_pitch = region->rows > 1 ? row * side->element->bytes : 0;
    side->plane_pitch = region->planes > 1 ? plane * side->element->bytes : 0;
    return status;
}

static int
ways(const ferry_copy_side *side)
{
    return (side->buffer != NULL) + (side->memory != NULL) + (side->path != NULL);
}

static ferry_status
check_ways(const ferry_copy_region *from)
{
    if (ways(&from->target) > 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the target has more than one of buffer, memory and path", what);
    if (from->value && ways(&from->source) > 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the region has both a value and a source", what);
    if (ways(&from->source) > 1)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the source has more than one of buffer, memory and path", what);
    if (from->value && !from->target.buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: only a buffer is filled with a value",
                           what);
    if (!from->target.buffer && !from->source.buffer)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: neither the target nor the source is a buffer", what);
    return FERRY_OK;
}

/* -- one region -------------------------------------------------------------------------------- */

static bool
is_packed(const struct ferryi_region *region, const struct ferryi_region_side *side)
{
    return side->row_pitch == ferryi_region_row_bytes(region, side);
}

/* Joins adjacent rows into longer rows if neither the source nor the target has gaps between them.
 * Then joins adjacent planes in the same way. */
static void
straighten(struct ferryi_region *region)
{
    for (int dimension = 0; dimension < 2; dimension++) {
        if (region->rows > 1 && is_packed(region, &region->target) &&
            (region->kind == FERRYI_REGION_FILL || is_packed(region, &region->source))) {
            region->count *= region->rows;
            region->rows = 1;
        }
        if (region->rows == 1 && region->planes > 1) {
            region->rows = region->planes;
            region->planes = 1;
            region->target.row_pitch = region->target.plane_pitch;
            region->source.row_pitch = region->source.plane_pitch;
        }
    }
}

static bool
is_onto_itself(const struct ferryi_region *region)
{
    const struct ferryi_region_side *target = &region->target, *source = &region->source;
    return target->store && target->store == source->store && target->begin == source->begin &&
           (region->rows == 1 || target->row_pitch == source->row_pitch) &&
           (region->planes == 1 || target->plane_pitch == source->plane_pitch);
}

static enum ferryi_region_kind
kind_of(const struct ferryi_region *region)
{
    if (region->count == 0)
        return region->target.path ? FERRYI_REGION_STORE : FERRYI_REGION_NOTHING;
    if (region->value)
        return FERRYI_REGION_FILL;
    if (region->converts)
        return FERRYI_REGION_CONVERT;
    if (region->target.path || region->source.path)
        return region->target.path ? FERRYI_REGION_STORE : FERRYI_REGION_LOAD;
    return is_onto_itself(region) ? FERRYI_REGION_SELF : FERRYI_REGION_PLAIN;
}

static ferry_status
find_sides(const ferry_copy_region *from, struct ferryi_region *region)
{
    /* A side of the region that is a buffer is checked first. A count that exceeds the buffer then
     * fails with FERRY_ERROR_OUT_OF_RANGE, even if the count would overflow on the other side of
     * the region. */
    bool source_first = !from->target.buffer && !from->value;
    if (source_first)
        FERRYI_OR_RETURN(
            find_side(region, &from->source, &from->target, "source", &region->source));
    FERRYI_OR_RETURN(find_side(region, &from->target, &from->source, "target", &region->target));
    if (!source_first && !from->value)
        FERRYI_OR_RETURN(
            find_side(region, &from->source, &from->target, "source", &region->source));
    return FERRY_OK;
}

/* Returns whether the count of a region came from the length of a buffer that another thread has
 * resized since then. */
static bool
count_has_changed(const ferry_copy_region *from, size_t count)
{
    struct ferryi_region now;
    return from->count == FERRY_REST && (find_count(from, &now) != FERRY_OK || now.count != count);
}

/* -- one more region --------------------------------------------------------------------------- */

/* Returns whether a region is one row without pitches that neither fills nor converts. */
static bool
is_simple(const ferry_copy_region *from)
{
    const ferry_copy_side *target = &from->target, *source = &from->source;
    return (from->rows | from->planes) <= 1 && !from->value && !from->conversion &&
           !(target->row_pitch | target->plane_pitch | source->row_pitch | source->plane_pitch);
}

/* Returns whether one side of two regions has the same buffer or is memory in both, and has the
 * same element type. */
static bool
is_alike(const ferry_copy_side *a, const ferry_copy_side *b)
{
    return a->buffer == b->buffer && a->element == b->element && !a->path && !b->path &&
           (a->memory != NULL) == (b->memory != NULL);
}

/* Finds the begin of one side. The side has a buffer, or memory that is not NULL. */
static bool
find_begin(const ferry_copy_side *from, size_t count, struct ferryi_region_side *side)
{
    struct ferryi_range range;
    size_t offset, bytes;
    if (from->buffer) {
        if (!ferryi_buffer_range(from->buffer, from->offset, count, &range))
            return false;
        side->begin = range.begin;
        return true;
    }
    return bytes_of(from, side->element, count, &offset, &bytes) &&
           !__builtin_add_overflow((uintptr_t)from->memory, offset, &side->begin) &&
           bytes <= UINTPTR_MAX - side->begin;
}

bool
ferryi_region_check_alike(const ferry_copy_region *from, const ferry_copy_region *before,
                          struct ferryi_region *region)
{
    const ferryi_store *target = region->target.store, *source = region->source.store;
    if (from->count == 0 || from->count == FERRY_REST || target == source || !is_simple(from) ||
        !is_simple(before) || !is_alike(&from->target, &before->target) ||
        !is_alike(&from->source, &before->source) || (target ? target : source)->context->debug)
        return false;
    region->count = from->count;
    return find_begin(&from->target, from->count, &region->target) &&
           find_begin(&from->source, from->count, &region->source);
}

/* -- any region -------------------------------------------------------------------------------- */

ferry_status
ferryi_region_check(const ferry_copy_region *from, const struct ferryi_region_setting *setting,
                    struct ferryi_region *region)
{
    region->value = from->value;
    FERRYI_OR_RETURN(check_ways(from));
    FERRYI_OR_RETURN(find_elements(from, region));
    FERRYI_OR_RETURN(find_conversion(from, setting, region));
    FERRYI_OR_RETURN(find_count(from, region));
    ferry_status status = find_sides(from, region);
    if (status == FERRY_ERROR_OUT_OF_RANGE && count_has_changed(from, region->count))
        status = ferryi_fail_resized();
    if (status != FERRY_OK)
        return status;
    region->kind = kind_of(region);
    straighten(region);
    return FERRY_OK;
}
