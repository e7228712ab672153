/* SPDX-License-Identifier: MIT */
/* Tests regions of every shape against a model that follows the comments of <ferry/copy.h>, and
 * nothing else. Regions are drawn at random: rows, planes and pitches that are given or left at
 * their defaults, buffers, memory, files and values, with conversions, blocking and asynchronous.
 * The model holds each array as doubles, and decides where each element goes. */
#include <stdio.h>
#include <unistd.h>

#include "tests/buffer/files.h"
#include "tests/support/copies.h"

enum { BUFFERS = 3, ELEMENTS = 120, OUTSIDE = 1200, REGIONS = 3, ROUNDS = 250 };

enum kind { IN_BUFFER, IN_MEMORY, IN_FILE, IS_VALUE };

/* What the model knows of one side: its elements, and where the region finds them. */
struct model_side {
    enum kind kind;
    bool real; /* whether the elements are doubles; they are ints otherwise */
    double *values;
    size_t length, offset, row_pitch, plane_pitch;
};

struct model_region {
    struct model_side target, source;
    size_t count, rows, planes;
    double outside[OUTSIDE]; /* values of the memory or the file of the region */
    size_t file_bytes;       /* length of a target file; 0: the file was missing */
    union {
        int32_t ints[OUTSIDE];
        double reals[OUTSIDE];
    } memory;
    union {
        int32_t integer;
        double real;
    } value;
    char path[128];
    ferry_conversion conversion;
};

struct model {
    fixture *f;
    uint64_t seed;
    ferry_buffer *buffers[BUFFERS]; /* of ints, ints and doubles */
    double values[BUFFERS][ELEMENTS];
    struct model_region regions[REGIONS];
    bool wrong[FERRY_ERROR_CANCELLED + 1]; /* statuses that the call may fail with */
    ferry_copy_options options;
    size_t count;
};

static size_t
below(struct model *m, size_t limit)
{
    return random_below(&m->seed, limit);
}

static bool
one_in(struct model *m, size_t count)
{
    return below(m, count) == 0;
}

static const ferry_element *
element_of(bool real)
{
    return real ? DOUBLE : INT;
}

static size_t
bytes_of(bool real)
{
    return real ? sizeof(double) : sizeof(int32_t);
}

/* -- drawing a region -------------------------------------------------------------------------- */

/* Draws a pitch: its default, one that fits `least` elements, or rarely one that is too small. */
static size_t
draw_pitch(struct model *m, size_t least)
{
    if (one_in(m, 2))
        return 0;
    return one_in(m, 30) && least > 1 ? least - 1 : least + below(m, 4);
}

/* Puts numbers that no other array has into an array of the caller. */
static void
fill_outside(struct model *m, struct model_region *r, bool real)
{
    int first = (int)below(m, 1000000);
    for (int i = 0; i < OUTSIDE; i++) {
        r->outside[i] = first + i;
        if (real)
            r->memory.reals[i] = first + i;
        else
            r->memory.ints[i] = first + i;
    }
}

static void
draw_buffer(struct model *m, struct model_side *side, ferry_copy_side *out)
{
    size_t which = below(m, BUFFERS);
    side->real = which == 2;
    side->values = m->values[which];
    side->length = ELEMENTS;
    out->buffer = m->buffers[which];
    out->element = one_in(m, 2) ? element_of(side->real) : NULL;
}

/* Chooses the memory, the file or the value beside the buffer of a region. `other_real` is the type
 * of the buffer. */
static void
draw_outside(struct model *m, struct model_region *r, struct model_side *side, bool other_real,
             ferry_copy_side *out)
{
    bool named = one_in(m, 2);
    side->real = named ? one_in(m, 2) : other_real;
    side->values = r->outside;
    side->length = OUTSIDE;
    out->element = named ? element_of(side->real) : NULL;
    fill_outside(m, r, side->real);
    if (side->kind == IN_MEMORY)
        out->memory = &r->memory;
    if (side->kind != IN_FILE)
        return;
    snprintf(r->path, sizeof(r->path), "%s",
             path_of((const char *[]){"a", "b", "c"}[r - m->regions]));
    out->path = r->path;
    out->file_offset = below(m, 3) * 5;
}

static void
draw_shape(struct model *m, struct model_region *r, ferry_copy_region *out)
{
    out->count = one_in(m, 8) ? FERRY_REST : below(m, 6);
    out->rows = below(m, 5);
    out->planes = below(m, 5);
    if (out->count == FERRY_REST && !one_in(m, 10))
        out->rows = out->planes = one_in(m, 2);
    r->count = out->count;
    r->rows = out->rows ? out->rows : 1;
    r->planes = out->planes ? out->planes : 1;
}

static void
draw_side(struct model *m, struct model_region *r, struct model_side *side, ferry_copy_side *out)
{
    size_t count = r->count == FERRY_REST ? ELEMENTS - 10 : r->count;
    out->offset = below(m, 20);
    out->row_pitch = draw_pitch(m, count);
    size_t row = out->row_pitch ? out->row_pitch : count;
    out->plane_pitch = draw_pitch(m, (r->rows - 1) * row + count);
    side->offset = out->offset;
}

/* Draws a conversion by the region, for two types that differ. */
static void
draw_conversion(struct model *m, struct model_region *r, ferry_copy_region *out)
{
    if (r->source.real == r->target.real || one_in(m, 3))
        return;
    r->conversion =
        (ferry_conversion){.from = element_of(r->source.real), .to = element_of(r->target.real)};
    out->conversion = &r->conversion;
}

static void
draw_region(struct model *m, struct model_region *r, ferry_copy_region *out)
{
    memset(r, 0, sizeof(*r));
    *out = (ferry_copy_region){0};
    enum kind other = (enum kind)below(m, 4);
    bool into_buffer = other == IS_VALUE || other == IN_BUFFER || one_in(m, 2);
    r->target.kind = into_buffer ? IN_BUFFER : other;
    r->source.kind = into_buffer ? other : IN_BUFFER;
    draw_shape(m, r, out);
    struct model_side *inner = into_buffer ? &r->target : &r->source,
                      *outer = into_buffer ? &r->source : &r->target;
    ferry_copy_side *inner_out = into_buffer ? &out->target : &out->source,
                    *outer_out = into_buffer ? &out->source : &out->target;
    draw_buffer(m, inner, inner_out);
    if (other == IN_BUFFER)
        draw_buffer(m, outer, outer_out);
    else
        draw_outside(m, r, outer, inner->real, outer_out);
    draw_side(m, r, &r->target, &out->target);
    if (other != IS_VALUE)
        draw_side(m, r, &r->source, &out->source);
    draw_conversion(m, r, out);
    r->value.integer = (int32_t)r->outside[0];
    if (r->source.real)
        r->value.real = r->outside[0];
    out->value = other == IS_VALUE ? &r->value : NULL;
}

/* -- what the header says ---------------------------------------------------------------------- */

/* "0: `count`", "0: `rows` times the row pitch"; "a pitch smaller than the row or plane"; "a region
 * outside its buffer". */
static void
judge_side(struct model *m, const struct model_region *r, struct model_side *side,
           const ferry_copy_side *out)
{
    side->row_pitch = out->row_pitch ? out->row_pitch : r->count;
    side->plane_pitch = out->plane_pitch ? out->plane_pitch : r->rows * side->row_pitch;
    size_t plane = (r->rows - 1) * side->row_pitch + r->count,
           span = (r->planes - 1) * side->plane_pitch + plane;
    if (r->count == 0)
        span = plane = 0;
    if (r->count > 0 && (side->row_pitch < r->count || side->plane_pitch < plane))
        m->wrong[FERRY_ERROR_INVALID_ARGUMENT] = true;
    else if (side->kind == IN_BUFFER && side->offset + span > side->length)
        m->wrong[FERRY_ERROR_OUT_OF_RANGE] = true;
}

static void
judge_region(struct model *m, struct model_region *r, const ferry_copy_region *out)
{
    const struct model_side *rest = r->source.kind == IN_BUFFER ? &r->source : &r->target;
    if (r->count == FERRY_REST && (r->rows > 1 || r->planes > 1)) {
        m->wrong[FERRY_ERROR_INVALID_ARGUMENT] = true;
        r->count = 0;
    } else if (r->count == FERRY_REST) {
        r->count = rest->length - rest->offset;
    }
    if (r->source.real != r->target.real && !out->conversion && !m->options.convert)
        m->wrong[FERRY_ERROR_WRONG_TYPE] = true;
    judge_side(m, r, &r->target, &out->target);
    if (r->source.kind != IS_VALUE)
        judge_side(m, r, &r->source, &out->source);
}

/* "Element (x, y, z) of the region is element `offset + z * plane_pitch + y * row_pitch + x`". */
static double *
place_of(const struct model_region *r, const struct model_side *side, size_t index)
{
    size_t x = index % r->count, y = index / r->count % r->rows, z = index / r->count / r->rows;
    if (side->kind == IS_VALUE)
        return &side->values[0];
    return &side->values[side->offset + z * side->plane_pitch + y * side->row_pitch + x];
}

/* "The result is then that of memmove()": the model reads the whole source first. */
static void
copy_region(const struct model_region *r)
{
    static double taken[OUTSIDE];
    size_t count = r->count * r->rows * r->planes;
    for (size_t i = 0; i < count; i++)
        taken[i] = *place_of(r, &r->source, i);
    for (size_t i = 0; i < count; i++)
        *place_of(r, &r->target, i) = taken[i];
}

/* -- files ------------------------------------------------------------------------------------- */

static void
write_side(const struct model_side *side, const ferry_copy_side *out, const struct model_region *r,
           size_t bytes)
{
    static unsigned char content[OUTSIDE * sizeof(double) + 16];
    memset(content, 0xEE, sizeof(content));
    memcpy(content + out->file_offset, &r->memory, OUTSIDE * bytes_of(side->real));
    write_file(out->path, content, bytes);
}

/* Makes the file of a region: a source is long enough, and a target is missing, short or long. */
static void
make_file(struct model *m, struct model_region *r, const ferry_copy_region *out)
{
    unlink(r->path);
    if (out->source.path)
        write_side(&r->source, &out->source, r,
                   (size_t)out->source.file_offset + OUTSIDE * bytes_of(r->source.real));
    r->file_bytes = one_in(m, 3) ? 0 : 1 + below(m, 600);
    if (out->target.path && r->file_bytes > 0)
        write_side(&r->target, &out->target, r, r->file_bytes);
}

/* "It does not write the bytes before the region and between its rows. They keep their old values,
 * and bytes that the file did not have read as zero. The call then sets the length of the file". */
static void
expect_target_file(const struct model *m, const struct model_region *r,
                   const ferry_copy_region *out)
{
    static unsigned char content[OUTSIDE * sizeof(double) + 16];
    const struct model_side *side = &r->target;
    size_t bytes = bytes_of(side->real), count = r->count * r->rows * r->planes,
           start = (size_t)out->target.file_offset + side->offset * bytes, end = start;
    memset(content, 0, sizeof(content));
    memset(content, 0xEE, r->file_bytes);
    for (size_t i = 0; i < OUTSIDE && out->target.file_offset + (i + 1) * bytes <= sizeof(content);
         i++)
        memcpy(content + out->target.file_offset + i * bytes,
               side->real ? (const void *)&r->memory.reals[i] : (const void *)&r->memory.ints[i],
               bytes);
    memset(content + r->file_bytes, 0, sizeof(content) - r->file_bytes);
    for (size_t i = 0; i < count; i++) {
        double real = *place_of(r, side, i);
        int32_t integer = (int32_t)real;
        size_t at = (size_t)(place_of(r, side, i) - side->values);
        end = (size_t)out->target.file_offset + (at + 1) * bytes;
        memcpy(content + end - bytes, side->real ? (void *)&real : (void *)&integer, bytes);
    }
    if (m->options.file_keep_rest)
        end = count == 0 || end < r->file_bytes ? r->file_bytes : end;
    expect_file(out->target.path, content, end);
}

/* -- comparing --------------------------------------------------------------------------------- */

static void
expect_values(const struct model *m, const double *expected, const void *got, bool real,
              size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        double value = real ? ((const double *)got)[i] : ((const int32_t *)got)[i];
        if (value != expected[i])
            fail_msg("seed %llu: element %zu of %s is %g instead of %g",
                     (unsigned long long)support_seed, i, what, value, expected[i]);
    }
    (void)m;
}

static void
expect_arrays(struct model *m, const ferry_copy_region *regions, bool copied)
{
    static double got[ELEMENTS];
    for (size_t i = 0; i < BUFFERS; i++) {
        OK(ferry_buffer_copy_to(m->buffers[i], NULL, 0, ELEMENTS, got, NULL));
        expect_values(m, m->values[i], got, i == 2, ELEMENTS, "a buffer");
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct model_region *r = &m->regions[i];
        if (r->target.kind == IN_MEMORY)
            expect_values(m, r->outside, &r->memory, r->target.real, OUTSIDE, "memory");
        if (r->target.kind == IN_FILE && copied)
            expect_target_file(m, r, &regions[i]);
    }
}

/* -- rounds ------------------------------------------------------------------------------------ */

static void
draw_options(struct model *m)
{
    size_t place = below(m, (size_t)m->f->places + 2);
    m->options = (ferry_copy_options){.stream = place ? stream_of(m->f, (int)place - 1) : NULL,
                                      .convert = one_in(m, 4) ? 0 : FERRY_CONVERT_SATURATE,
                                      .chunk_bytes = one_in(m, 2) ? 0 : 64,
                                      .file_keep_rest = one_in(m, 2)};
}

static bool
may_fail(const struct model *m)
{
    for (size_t i = 0; i < LENGTH(m->wrong); i++)
        if (m->wrong[i])
            return true;
    return false;
}

static void
play(struct model *m)
{
    ferry_copy_region regions[REGIONS];
    ferry_event *event = NULL;
    memset(m->wrong, 0, sizeof(m->wrong));
    draw_options(m);
    bool async = one_in(m, 2);
    m->count = 1 + below(m, REGIONS);
    for (size_t i = 0; i < m->count; i++) {
        draw_region(m, &m->regions[i], &regions[i]);
        make_file(m, &m->regions[i], &regions[i]);
        judge_region(m, &m->regions[i], &regions[i]);
    }
    bool fails = may_fail(m);
    for (size_t i = 0; i < m->count && !fails; i++)
        copy_region(&m->regions[i]);
    ferry_status status = copy_regions(regions, m->count, &m->options, async ? &event : NULL);
    if (status == FERRY_OK && async) {
        status = ferry_event_synchronize(event);
        ferry_event_destroy(&event);
    }
    if (fails ? !m->wrong[status] : status != FERRY_OK)
        fail_msg("seed %llu: %s: %s", (unsigned long long)support_seed, ferry_status_name(status),
                 ferry_last_error());
    expect_arrays(m, regions, !fails);
}

static void
test_every_shape_is_copied_as_the_header_says(void **state)
{
    static struct model m;
    m.f = *state;
    for (size_t i = 0; i < BUFFERS; i++) {
        OK(ferry_buffer_create(m.f->context, element_of(i == 2), ELEMENTS, NULL, &m.buffers[i]));
        memset(m.values[i], 0, sizeof(m.values[i]));
    }
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        m.seed = support_seed = round;
        play(&m);
    }
    support_seed = 0;
    DESTROY_BUFFERS(&m.buffers[0], &m.buffers[1], &m.buffers[2]);
}

/* A pitch below the row is refused, also where a single row does not use it. */
static void
test_pitches_of_single_rows(void **state)
{
    fixture *f = *state;
    int32_t memory[20] = {0};
    ferry_buffer *b = make_counting(f, 20, 0);
    ferry_copy_region region = {
        .target = {.buffer = b, .row_pitch = 4}, .source = {.memory = memory}, .count = 5};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy(&region, 1, NULL));
    region.target = (ferry_copy_side){.buffer = b, .plane_pitch = 4};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy(&region, 1, NULL));
    region.target.plane_pitch = 5;
    region.source.row_pitch = 4;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy(&region, 1, NULL));
    expect_counting(f, b, 0, 0, FERRY_REST, 0);
    region.source.row_pitch = SIZE_MAX;
    OK(ferry_copy(&region, 1, NULL));
    expect_constant(f, b, 0, 0, 5, 0);
    ferry_buffer_destroy(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_shape_is_copied_as_the_header_says),
        TEST(test_pitches_of_single_rows),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
