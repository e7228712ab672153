/* SPDX-License-Identifier: MIT */
/* Tests ferry_copy() with every kind of source, target, shape, conversion and wait. The results are
 * compared with a model in plain C arrays. */
#include "tests/buffer/files.h"
#include "tests/support/copies.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 3000, FILE_MAX = 64 + COUNT * 8, REGIONS = 6 };

enum operation { FROM_MEMORY, TO_MEMORY, BETWEEN, FILL, LOAD, STORE, OPERATIONS };
enum mode { PLAIN, SATURATE, OWN, MODES };

static const char *const operation_names[] = {"from memory", "to memory", "between",
                                              "fill",        "load",      "store"};
static const char *const mode_names[] = {"plain", "saturate", "own"};

/* -- the model --------------------------------------------------------------------------------- */

/* Targets of type int, sources of type int or double, and models of their expected contents. */
struct world {
    fixture *f;
    ferry_buffer *target, *ints, *doubles;
    int32_t target_model[COUNT], ints_model[COUNT];
    double doubles_model[COUNT];
    int32_t memory[COUNT], memory_model[COUNT]; /* memory of the caller as a target */
    int32_t source_ints[COUNT];
    double source_doubles[COUNT];
    char ints_path[128], doubles_path[128], target_path[128];
    unsigned char file_model[FILE_MAX]; /* content of target_path */
    size_t file_bytes;
    int32_t int_values[REGIONS];
    double double_values[REGIONS];
    uint64_t seed;
};

static double
double_at(size_t i, uint64_t seed)
{
    if ((i + seed) % 97 == 5)
        return 1e12;
    return (i + seed) % 89 == 7 ? -1e13 : (double)i * 0.75 - 700 + (double)(seed % 50);
}

static int32_t
saturated(double value)
{
    value = nearbyint(value);
    return value >= INT32_MAX ? INT32_MAX : value <= INT32_MIN ? INT32_MIN : (int32_t)value;
}

static int32_t
own(double value)
{
    return fabs(value) > 1e9 ? -77 : (int32_t)floor(value) * 3 + 1;
}

static ferry_status
convert_own(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    const double *from = source;
    int32_t *to = target;
    (void)policy;
    for (size_t i = 0; i < count && to; i++)
        to[i] = own(from[i]);
    return FERRY_OK;
}

static ferry_conversion
own_conversion(void)
{
    return (ferry_conversion){.from = DOUBLE, .to = INT, .convert = convert_own};
}

static struct world *
make_world(fixture *f, uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    *w = (struct world){.f = f, .seed = seed};
    for (size_t i = 0; i < COUNT; i++) {
        w->target_model[i] = (int32_t)i + 100000;
        w->ints_model[i] = -(int32_t)i;
        w->doubles_model[i] = double_at(i, seed);
        w->memory[i] = w->memory_model[i] = (int32_t)i + 500000;
        w->source_ints[i] = (int32_t)i + 900000;
        w->source_doubles[i] = double_at(i, seed + 13);
    }
    OK(ferry_buffer_create_from(f->context, INT, COUNT, w->target_model, NULL, &w->target));
    OK(ferry_buffer_create_from(f->context, INT, COUNT, w->ints_model, NULL, &w->ints));
    OK(ferry_buffer_create_from(f->context, DOUBLE, COUNT, w->doubles_model, NULL, &w->doubles));
    touch(f, w->target, (int)random_below(&w->seed, (size_t)f->places + 1), FERRY_UPDATE, 0,
          FERRY_REST);
    touch(f, w->ints, (int)random_below(&w->seed, (size_t)f->places + 1), FERRY_UPDATE, 0,
          FERRY_REST);
    touch(f, w->doubles, (int)random_below(&w->seed, (size_t)f->places + 1), FERRY_UPDATE, 0,
          FERRY_REST);
    /* Makes parts of the buffers current at random places. */
    touch(f, w->doubles, (int)random_below(&w->seed, (size_t)f->places + 1), FERRY_UPDATE, 1000,
          700);
    touch(f, w->target, (int)random_below(&w->seed, (size_t)f->places + 1), FERRY_UPDATE, 500,
          1000);
    snprintf(w->ints_path, sizeof(w->ints_path), "%s", path_of("ints"));
    snprintf(w->doubles_path, sizeof(w->doubles_path), "%s", path_of("doubles"));
    snprintf(w->target_path, sizeof(w->target_path), "%s", path_of("target"));
    write_file(w->ints_path, w->source_ints, sizeof(w->source_ints));
    write_file(w->doubles_path, w->source_doubles, sizeof(w->source_doubles));
    w->file_bytes = 6000;
    memset(w->file_model, 0x5a, w->file_bytes);
    write_file(w->target_path, w->file_model, w->file_bytes);
    return w;
}

static void
expect_same(struct world *w, ferry_buffer *buffer, const void *model, size_t bytes,
            const char *name)
{
    static unsigned char got[COUNT * sizeof(double)];
    for (int place = 0; place <= w->f->places; place++) {
        ferry_scope scope;
        void *memory = open_at(w->f, buffer, place, FERRY_READ, 0, FERRY_REST, &scope);
        place_read(w->f, place, got, memory, bytes);
        OK(ferry_scope_close(&scope));
        for (size_t i = 0; i < bytes; i++)
            if (got[i] != ((const unsigned char *)model)[i])
                fail_msg("%s: seed %llu: byte %zu at place %d differs", name,
                         (unsigned long long)support_seed, i, place);
    }
}

static void
expect_world(struct world *w, const char *name)
{
    char text[160];
    snprintf(text, sizeof(text), "%s", name);
    expect_same(w, w->target, w->target_model, sizeof(w->target_model), text);
    expect_same(w, w->ints, w->ints_model, sizeof(w->ints_model), text);
    expect_same(w, w->doubles, w->doubles_model, sizeof(w->doubles_model), text);
    for (size_t i = 0; i < COUNT; i++)
        if (w->memory[i] != w->memory_model[i])
            fail_msg("%s: seed %llu: memory %zu is %d, not %d", text,
                     (unsigned long long)support_seed, i, w->memory[i], w->memory_model[i]);
    expect_file(w->target_path, w->file_model, w->file_bytes);
}

static void
free_world(struct world *w)
{
    DESTROY_BUFFERS(&w->target, &w->ints, &w->doubles);
    free(w);
}

/* -- random regions ---------------------------------------------------------------------------- */

static size_t
span_of(const ferry_copy_side *side, const ferry_copy_region *r)
{
    size_t row = side->row_pitch ? side->row_pitch : r->count,
           plane = side->plane_pitch ? side->plane_pitch : r->rows * row;
    return (r->planes - 1) * plane + (r->rows - 1) * row + r->count;
}

static size_t
index_of(const ferry_copy_side *side, const ferry_copy_region *r, size_t x, size_t y, size_t z)
{
    size_t row = side->row_pitch ? side->row_pitch : r->count,
           plane = side->plane_pitch ? side->plane_pitch : r->rows * row;
    return side->offset + z * plane + y * row + x;
}

static void
shape_side(uint64_t *seed, ferry_copy_side *side, const ferry_copy_region *r)
{
    if (r->rows > 1 && random_below(seed, 3))
        side->row_pitch = r->count + random_below(seed, 20);
    size_t row = side->row_pitch ? side->row_pitch : r->count;
    if (r->planes > 1 && random_below(seed, 3))
        side->plane_pitch = r->rows * row + random_below(seed, 40);
    side->offset = random_below(seed, COUNT - span_of(side, r) + 1);
}

static ferry_copy_region
random_region(struct world *w, enum operation operation, int dimensions, enum mode mode,
              const ferry_conversion *conversion, size_t n)
{
    ferry_copy_region r = {
        .count = 1 + random_below(&w->seed, dimensions == 1 ? 900 : 30), .rows = 1, .planes = 1};
    bool converts = mode != PLAIN;
    if (dimensions > 1)
        r.rows = 1 + random_below(&w->seed, 8);
    if (dimensions > 2)
        r.planes = 1 + random_below(&w->seed, 5);
    shape_side(&w->seed, &r.target, &r);
    shape_side(&w->seed, &r.source, &r);
    switch (operation) {
    case FROM_MEMORY:
        r.target.buffer = w->target;
        r.source.memory = converts ? (void *)w->source_doubles : w->source_ints;
        r.source.element = converts ? DOUBLE : NULL;
        break;
    case TO_MEMORY:
        r.source.buffer = converts ? w->doubles : w->target;
        r.target.memory = w->memory;
        r.target.element = INT;
        break;
    case BETWEEN:
        r.source.buffer = converts ? w->doubles : random_below(&w->seed, 2) ? w->ints : w->target;
        r.target.buffer = w->target;
        break;
    case FILL:
        r.target.buffer = w->target;
        r.source = (ferry_copy_side){.element = converts ? DOUBLE : NULL};
        w->int_values[n] = (int32_t)random_below(&w->seed, 100000);
        w->double_values[n] = double_at(random_below(&w->seed, 1000), n);
        r.value = converts ? (void *)&w->double_values[n] : &w->int_values[n];
        break;
    case LOAD:
        r.target.buffer = w->target;
        r.source.path = converts ? w->doubles_path : w->ints_path;
        r.source.element = converts ? DOUBLE : INT;
        break;
    default:
        r.source.buffer = converts ? w->doubles : w->target;
        r.target.path = w->target_path;
        r.target.element = INT;
        r.target.file_offset = random_below(&w->seed, 64);
        break;
    }
    if (mode == OWN)
        r.conversion = conversion;
    return r;
}

static int32_t
model_value(const struct world *w, const ferry_copy_region *r, enum mode mode, size_t at)
{
    if (mode == PLAIN) {
        if (r->value)
            return *(const int32_t *)r->value;
        return r->source.buffer == w->target ? w->target_model[at]
               : r->source.buffer            ? w->ints_model[at]
                                             : w->source_ints[at];
    }
    double value = r->value           ? *(const double *)r->value
                   : r->source.buffer ? w->doubles_model[at]
                                      : w->source_doubles[at];
    return mode == OWN ? own(value) : saturated(value);
}

/* Applies the copy of one region to the model. The function reads the whole source before it writes
 * to the target. */
static void
model_copy(struct world *w, const ferry_copy_region *r, enum mode mode, bool keep_rest)
{
    static int32_t packed[COUNT];
    size_t n = 0;
    for (size_t z = 0; z < r->planes; z++)
        for (size_t y = 0; y < r->rows; y++)
            for (size_t x = 0; x < r->count; x++)
                packed[n++] =
                    model_value(w, r, mode, r->value ? 0 : index_of(&r->source, r, x, y, z));
    n = 0;
    for (size_t z = 0; z < r->planes; z++)
        for (size_t y = 0; y < r->rows; y++)
            for (size_t x = 0; x < r->count; x++, n++) {
                size_t at = index_of(&r->target, r, x, y, z);
                if (r->target.buffer)
                    w->target_model[at] = packed[n];
                else if (r->target.memory)
                    w->memory_model[at] = packed[n];
                else
                    memcpy(w->file_model + r->target.file_offset + at * 4, &packed[n], 4);
            }
    if (r->target.path) {
        size_t end = r->target.file_offset + (r->target.offset + span_of(&r->target, r)) * 4;
        size_t old = w->file_bytes;
        w->file_bytes = keep_rest && old > end ? old : end;
        /* Bytes that were cut off from a file read as zero if the file grows again. */
        memset(w->file_model + w->file_bytes, 0, sizeof(w->file_model) - w->file_bytes);
    }
}

/* Replaces a count of 1 row or 1 plane by 0, because both values mean the same. */
static void
leave_ones_out(ferry_copy_region *r)
{
    r->rows = r->rows > 1 ? r->rows : 0;
    r->planes = r->planes > 1 ? r->planes : 0;
}

static void
copy_and_wait(struct world *w, ferry_copy_region *regions, size_t count,
              const ferry_copy_options *options, bool async)
{
    ferry_event *event = NULL;
    size_t done, total;
    OK(copy_regions(regions, count, options, async ? &event : NULL));
    if (!async)
        return;
    memset(regions, 0xee, count * sizeof(*regions)); /* the caller may reuse the array on return */
    memset(w->int_values, 0xee, sizeof(w->int_values));
    memset(w->double_values, 0xee, sizeof(w->double_values));
    OK(ferry_event_synchronize(event));
    OK(ferry_event_progress(event, &done, &total));
    assert_int_equal(done, total);
    ferry_event_destroy(&event);
}

static ferry_stream *
random_stream(struct world *w)
{
    int place = (int)random_below(&w->seed, (size_t)w->f->places + 2) - 1;
    return place > 0 ? stream_of(w->f, place) : NULL;
}

static void
try_one(fixture *f, enum operation operation, int dimensions, bool async, enum mode mode,
        size_t count, uint64_t seed)
{
    char name[128];
    snprintf(name, sizeof(name), "%s, %d dimensions, %s, %s, %zu regions",
             operation_names[operation], dimensions, async ? "async" : "sync", mode_names[mode],
             count);
    struct world *w = make_world(f, support_seed = seed);
    const ferry_conversion conversion = own_conversion();
    ferry_copy_region regions[REGIONS];
    ferry_copy_options options = {.convert = mode == SATURATE ? FERRY_CONVERT_SATURATE : 0,
                                  .stream = random_stream(w),
                                  .file_keep_rest = random_below(&w->seed, 2)};
    for (size_t i = 0; i < count; i++) {
        regions[i] = random_region(w, operation, dimensions, mode, &conversion, i);
        model_copy(w, &regions[i], mode, options.file_keep_rest);
        leave_ones_out(&regions[i]);
    }
    copy_and_wait(w, regions, count, &options, async);
    expect_world(w, name);
    free_world(w);
}

static void
test_every_combination(void **state)
{
    uint64_t seed = 1;
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int dimensions = 1; dimensions <= 3; dimensions++)
            for (int async = 0; async < 2; async++)
                for (int mode = 0; mode < MODES; mode++)
                    for (int count = 1; count <= REGIONS; count += REGIONS - 1)
                        for (int round = 0; round < 2; round++)
                            try_one(*state, (enum operation)operation, dimensions, async,
                                    (enum mode)mode, (size_t)count, seed++);
    support_seed = 0;
}

/* The regions of one ferry_copy() call take effect in the order of the array, whatever their
 * sources and targets are. The result is the same as if a separate call had copied each region. */
static void
test_lists_of_everything(void **state)
{
    const ferry_conversion conversion = own_conversion();
    for (uint64_t seed = 1000; seed < 1040; seed++) {
        struct world *w = make_world(*state, support_seed = seed);
        for (int list = 0; list < 3; list++) {
            ferry_copy_region regions[REGIONS];
            bool own_only = random_below(&w->seed, 2);
            ferry_copy_options options = {.convert = own_only ? 0 : FERRY_CONVERT_SATURATE,
                                          .stream = random_stream(w),
                                          .file_keep_rest = random_below(&w->seed, 2)};
            size_t count = 2 + random_below(&w->seed, REGIONS - 1);
            for (size_t i = 0; i < count; i++) {
                enum mode mode = (enum mode)random_below(&w->seed, MODES);
                mode = own_only && mode == SATURATE ? OWN : mode;
                regions[i] =
                    random_region(w, (enum operation)random_below(&w->seed, OPERATIONS),
                                  1 + (int)random_below(&w->seed, 3), mode, &conversion, i);
                model_copy(w, &regions[i], mode, options.file_keep_rest);
                leave_ones_out(&regions[i]);
            }
            copy_and_wait(w, regions, count, &options, random_below(&w->seed, 2));
        }
        expect_world(w, "lists of everything");
        free_world(w);
    }
    support_seed = 0;
}

/* Asynchronous calls of ferry_copy() take effect in the order of the calls. The buffers of the
 * regions may be destroyed right after the call. */
static void
test_lists_in_a_row(void **state)
{
    fixture *f = *state;
    const ferry_conversion conversion = own_conversion();
    for (uint64_t seed = 2000; seed < 2010; seed++) {
        enum { LISTS = 12 };
        struct world *w = make_world(f, support_seed = seed);
        ferry_event *events[LISTS];
        for (int list = 0; list < LISTS; list++) {
            static const enum operation chosen[] = {FROM_MEMORY, BETWEEN, FILL, LOAD};
            ferry_copy_region regions[REGIONS];
            ferry_copy_options options = {.convert = FERRY_CONVERT_SATURATE,
                                          .stream = random_stream(w)};
            size_t count = 1 + random_below(&w->seed, REGIONS);
            for (size_t i = 0; i < count; i++) {
                enum mode mode = (enum mode)random_below(&w->seed, MODES);
                regions[i] =
                    random_region(w, chosen[random_below(&w->seed, LENGTH(chosen))],
                                  1 + (int)random_below(&w->seed, 3), mode, &conversion, i);
                model_copy(w, &regions[i], mode, false);
            }
            OK(ferry_copy_async(regions, count, &options, &events[list]));
        }
        expect_same(w, w->target, w->target_model, sizeof(w->target_model), "lists in a row");
        ferry_copy_region last[2] = {
            {.target = {.memory = w->memory}, .source = {.buffer = w->target}, .count = FERRY_REST},
            {.target = {.path = w->target_path},
             .source = {.buffer = w->target},
             .count = FERRY_REST}};
        ferry_event *event;
        OK(ferry_copy_async(last, 2, NULL, &event));
        DESTROY_BUFFERS(&w->target, &w->ints, &w->doubles);
        OK(ferry_event_synchronize(event));
        assert_memory_equal(w->memory, w->target_model, sizeof(w->memory));
        expect_file(w->target_path, w->target_model, sizeof(w->target_model));
        ferry_event_destroy(&event);
        for (int list = 0; list < LISTS; list++) {
            OK(ferry_event_synchronize(events[list]));
            ferry_event_destroy(&events[list]);
        }
        free(w);
    }
    support_seed = 0;
}

/* -- overlap ----------------------------------------------------------------------------------- */

static void
test_overlap_is_memmove(void **state)
{
    fixture *f = *state;
    for (uint64_t seed = 3000; seed < 3060; seed++) {
        struct world *w = make_world(f, support_seed = seed);
        ferry_copy_region r = {.count = 1 + random_below(&w->seed, 40),
                               .rows = 1 + random_below(&w->seed, 6),
                               .planes = 1 + random_below(&w->seed, 4)};
        r.target.buffer = r.source.buffer = w->target;
        r.source.row_pitch = r.count + random_below(&w->seed, 9);
        r.target.row_pitch =
            random_below(&w->seed, 2) ? r.source.row_pitch : r.count + random_below(&w->seed, 9);
        r.source.plane_pitch = r.rows * r.source.row_pitch + random_below(&w->seed, 9);
        r.target.plane_pitch =
            random_below(&w->seed, 2) && r.rows * r.target.row_pitch <= r.source.plane_pitch
                ? r.source.plane_pitch
                : r.rows * r.target.row_pitch + random_below(&w->seed, 9);
        r.source.offset = random_below(&w->seed, 60);
        r.target.offset = random_below(&w->seed, 60);
        ferry_copy_region pair[2] = {r, r};
        size_t count = 1 + seed % 2;
        model_copy(w, &pair[0], PLAIN, false);
        if (count == 2)
            model_copy(w, &pair[1], PLAIN, false);
        copy_and_wait(w, pair, count, &(ferry_copy_options){.stream = random_stream(w)},
                      seed % 3 == 0);
        expect_world(w, "overlap");
        free_world(w);
    }
    support_seed = 0;
}

/* A copy between overlapping ranges of one buffer behaves like memmove(), even if the ranges have
 * different element types. */
static void
test_overlap_that_converts(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        for (int async = 0; async < 2; async++) {
            static double model[512];
            static int32_t got[1024], expected[1024];
            ferry_buffer *ints, *doubles;
            ferry_event *event = NULL;
            for (int i = 0; i < 512; i++)
                model[i] = i * 1.5;
            OK(ferry_buffer_create_from(f->context, DOUBLE, 512, model, NULL, &doubles));
            touch(f, doubles, place, FERRY_UPDATE, 0, FERRY_REST);
            OK(ferry_buffer_reinterpret(doubles, INT, 0, 1024, &ints));
            memcpy(expected, model, sizeof(expected));
            for (int i = 0; i < 300; i++)
                expected[100 + i] = (int32_t)nearbyint(model[20 + i]);
            ferry_copy_region r = {.target = {.buffer = ints, .offset = 100},
                                   .source = {.buffer = doubles, .offset = 20},
                                   .count = 300};
            OK(copy_regions(&r, 1, &(ferry_copy_options){.convert = FERRY_CONVERT_SATURATE},
                            async ? &event : NULL));
            if (async)
                OK(ferry_event_synchronize(event));
            ferry_event_destroy(&event);
            r = ferry_buffer_region_to(ints, INT, 0, 1024, got);
            OK(ferry_copy(&r, 1, NULL));
            assert_memory_equal(got, expected, sizeof(got));
            DESTROY_BUFFERS(&ints, &doubles);
        }
    }
}

/* -- what is refused --------------------------------------------------------------------------- */

static void
expect_text(const char *part)
{
    if (!strstr(ferry_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", ferry_last_error(), part);
}

/* Checks that an invalid region is refused when it is copied alone, and when it is the last of
 * three regions. In the second case, the first two regions must not be copied either. */
static void
refuses(struct world *w, ferry_status status, ferry_copy_region bad,
        const ferry_copy_options *options, const char *part)
{
    FAILS(status, ferry_copy(&bad, 1, options));
    expect_text(part);
    ferry_copy_region three[3] = {
        {.target = {.buffer = w->target}, .source = {.memory = w->source_ints}, .count = 10},
        {.target = {.buffer = w->target}, .value = &w->int_values[0], .count = 20},
        bad};
    snapshot before = take_snapshot(w->target);
    FAILS(status, ferry_copy(three, 3, options));
    expect_text(part);
    expect_text("region 2: ");
    assert_null(strstr(ferry_last_error(), "copy: region")); /* the call is named once */
    expect_unchanged(w->target, &before);
}

static void
test_arguments_are_refused(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 5);
    ferry_context *other = NULL;
    ferry_buffer *foreign, *read_only;
    int32_t memory[10] = {0};
    const ferry_conversion conversion = own_conversion();
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    OK(ferry_buffer_create(other, INT, 10, NULL, &foreign));
    OK(ferry_buffer_wrap_host(f->context, INT, 10, memory, &(ferry_wrap_options){.read_only = true},
                              &read_only));
    const ferry_copy_region good = {
        .target = {.buffer = w->target}, .source = {.memory = w->source_ints}, .count = 10};
    ferry_copy_region r;
    const ferry_copy_options saturate = {.convert = FERRY_CONVERT_SATURATE},
                             check = {.convert = FERRY_CONVERT_CHECK}, unknown = {.convert = 9};
    ferry_event *event = NULL;

#define BAD(change, status, options, part)                                                         \
    do {                                                                                           \
        r = good;                                                                                  \
        change;                                                                                    \
        refuses(w, status, r, options, part);                                                      \
    } while (0)
    BAD(r.target.memory = memory, FERRY_ERROR_INVALID_ARGUMENT, NULL,
        "the target has more than one");
    BAD(r.source.path = "x", FERRY_ERROR_INVALID_ARGUMENT, NULL, "the source has more than one");
    BAD(r.value = memory, FERRY_ERROR_INVALID_ARGUMENT, NULL, "both a value and a source");
    BAD(r.source.memory = NULL, FERRY_ERROR_INVALID_ARGUMENT, NULL, "the source has no buffer");
    BAD((r.target.buffer = NULL, r.target.memory = memory), FERRY_ERROR_INVALID_ARGUMENT, NULL,
        "neither");
    BAD((r.target = r.source, r.source = (ferry_copy_side){.buffer = w->target},
         r.target.memory = NULL),
        FERRY_ERROR_INVALID_ARGUMENT, NULL, "the target has no buffer");
    BAD(r.target.element = FLOAT, FERRY_ERROR_WRONG_TYPE, NULL, "float");
    BAD(r.source.element = DOUBLE, FERRY_ERROR_WRONG_TYPE, NULL,
        "options.convert is FERRY_CONVERT_NONE");
    BAD(r.source = (ferry_copy_side){.buffer = w->doubles}, FERRY_ERROR_WRONG_TYPE, NULL,
        "options.convert is FERRY_CONVERT_NONE");
    BAD((r.conversion = &conversion, r.source.element = INT), FERRY_ERROR_WRONG_TYPE, &saturate,
        "the conversion is from double to int");
    BAD(r.conversion = &(ferry_conversion){0}, FERRY_ERROR_INVALID_ARGUMENT, NULL, "conversion");
    BAD(r.target.offset = COUNT - 9, FERRY_ERROR_OUT_OF_RANGE, NULL, "");
    BAD((r.rows = 2, r.target.row_pitch = COUNT - 9), FERRY_ERROR_OUT_OF_RANGE, NULL, "");
    BAD((r.rows = 2, r.target.row_pitch = 9), FERRY_ERROR_INVALID_ARGUMENT, NULL,
        "target's row pitch of 9");
    BAD((r.rows = 2, r.planes = 2, r.source.plane_pitch = 19), FERRY_ERROR_INVALID_ARGUMENT, NULL,
        "source's plane pitch of 19");
    BAD((r.rows = 2, r.count = FERRY_REST), FERRY_ERROR_INVALID_ARGUMENT, NULL, "FERRY_REST");
    BAD((r.rows = SIZE_MAX / 5, r.source.row_pitch = 10), FERRY_ERROR_OVERFLOW, NULL,
        "more than size_t");
    BAD((r.rows = 2, r.source.row_pitch = SIZE_MAX / 4), FERRY_ERROR_OVERFLOW, NULL,
        "more than there is memory");
    BAD((r.source = (ferry_copy_side){.path = "x", .file_offset = UINT64_MAX - 3}),
        FERRY_ERROR_OVERFLOW, NULL, "");
    BAD(r.target.buffer = read_only, FERRY_ERROR_INVALID_ARGUMENT, NULL, "read-only");
#undef BAD
    r = (ferry_copy_region){
        .target = {.buffer = w->target}, .source = {.buffer = w->doubles}, .count = 1};
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_copy_async(&r, 1, &check, &event));
    expect_text("cannot be asynchronous");
    refuses(w, FERRY_ERROR_UNSUPPORTED,
            (ferry_copy_region){.target = {.buffer = w->target},
                                .source = {.path = w->doubles_path, .element = DOUBLE},
                                .count = 1},
            &check, "cannot read from a file");
    assert_null(event);

    r = good;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy(&r, 1, &unknown));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy(NULL, 2, NULL));
    OK(ferry_copy(NULL, 0, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_copy_async(NULL, 0, NULL, &event));
    OK(ferry_copy_async(NULL, 0, &(ferry_copy_options){.stream = f->stream}, &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);

    r.source = (ferry_copy_side){.buffer = foreign};
    refuses(w, FERRY_ERROR_WRONG_CONTEXT, r, NULL, "context");
    ferry_copy_region two[2] = {
        good, {.target = {.buffer = foreign}, .source = {.memory = memory}, .count = 1}};
    FAILS(FERRY_ERROR_WRONG_CONTEXT, ferry_copy(two, 2, NULL));
    expect_text("region 1: ");

    /* A conflict with a scope is found before any byte is copied. */
    ferry_scope scope;
    open_at(f, w->target, 0, FERRY_READ, 15, 2, &scope);
    two[1] = (ferry_copy_region){
        .target = {.buffer = w->target, .offset = 16}, .value = &w->int_values[0], .count = 1};
    FAILS(FERRY_ERROR_BUSY, ferry_copy(two, 2, NULL));
    OK(ferry_scope_close(&scope));

    /* An empty region is valid with every kind of source and target. */
    const ferry_copy_region nothing[] = {
        {.target = {.buffer = w->target, .offset = COUNT}, .rows = 5},
        {.source = {.buffer = w->target}, .target = {.memory = memory}},
        {.target = {.buffer = w->target}, .source = {.path = "there is none"}},
        {.target = {.buffer = w->target}, .source = {.buffer = w->target}, .count = FERRY_REST},
        {.target = {.buffer = w->target}, .value = memory}};
    OK(ferry_copy(nothing, LENGTH(nothing), NULL));
    for (size_t i = 0; i < LENGTH(nothing); i++) {
        OK(ferry_copy(&nothing[i], 1, NULL));
        OK(ferry_copy_async(&nothing[i], 1, NULL, &event));
        OK(ferry_event_synchronize(event));
        ferry_event_destroy(&event);
    }
    expect_world(w, "refused");
    DESTROY_BUFFERS(&foreign, &read_only);
    ferry_context_destroy(&other);
    free_world(w);
}

static void
test_files_that_fail(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 6);
    ferry_event *event;
    const ferry_copy_options saturate = {.convert = FERRY_CONVERT_SATURATE};
    ferry_copy_region r = {
        .target = {.buffer = w->target}, .source = {.path = path_of("missing")}, .count = 10};
    for (int converts = 0; converts < 2; converts++) {
        r.source.element = converts ? DOUBLE : INT;
        FAILS(FERRY_ERROR_IO, ferry_copy(&r, 1, &saturate));
        expect_text("missing");
        OK(ferry_copy_async(&r, 1, &saturate, &event));
        FAILS(FERRY_ERROR_IO, ferry_event_synchronize(event));
        ferry_event_destroy(&event);
    }
    /* If a source file is too short for its region, the region's target is unchanged. The earlier
     * regions of the same ferry_copy() call are copied. */
    ferry_copy_region two[2] = {ferry_buffer_region_from(w->target, INT, 5, 10, w->source_ints),
                                {.target = {.buffer = w->target},
                                 .source = {.path = w->ints_path, .row_pitch = COUNT},
                                 .count = 10,
                                 .rows = 2}};
    model_copy(w,
               &(ferry_copy_region){.target = {.buffer = w->target, .offset = 5},
                                    .source = {.memory = w->source_ints},
                                    .count = 10,
                                    .rows = 1,
                                    .planes = 1},
               PLAIN, false);
    FAILS(FERRY_ERROR_IO, ferry_copy(two, 2, NULL));
    expect_text("region 1: ");
    expect_text("40 of 120 bytes arrived");
    expect_world(w, "files that fail");
    free_world(w);
}

/* A region may read the file that an earlier region of the same ferry_copy() call wrote. */
static void
test_files_go_in_order(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 7);
    const char *path = path_of("written and read");
    for (int async = 0; async < 2; async++) {
        ferry_copy_region three[3] = {
            {.target = {.path = path, .file_offset = 3},
             .source = {.buffer = w->ints},
             .count = FERRY_REST},
            {.target = {.buffer = w->ints}, .value = &w->int_values[0], .count = FERRY_REST},
            {.target = {.buffer = w->target},
             .source = {.path = path, .file_offset = 3},
             .count = FERRY_REST}};
        memcpy(w->target_model, w->ints_model, sizeof(w->target_model));
        memset(w->ints_model, 0, sizeof(w->ints_model));
        w->int_values[0] = 0;
        copy_and_wait(w, three, 3, &(ferry_copy_options){0}, async);
        assert_int_equal(unlink(path), 0);
        /* If a region without elements has a target file, the file ends where the region begins. */
        ferry_copy_region empty = {.target = {.path = path, .file_offset = 7},
                                   .source = {.buffer = w->ints}};
        copy_and_wait(w, &empty, 1, &(ferry_copy_options){0}, async);
        assert_int_equal(file_bytes(path), 7);
        write_counting_file(path, 100);
        copy_and_wait(w,
                      &(ferry_copy_region){.target = {.path = path, .file_offset = 40},
                                           .source = {.buffer = w->ints}},
                      1, &(ferry_copy_options){0}, async);
        expect_counting_file(path, 10);
        assert_int_equal(unlink(path), 0);
    }
    expect_world(w, "files in order");
    free_world(w);
}

/* -- CHECK ------------------------------------------------------------------------------------- */

/* With FERRY_CONVERT_CHECK, an element that does not fit into the target type fails the copy. The
 * target of its region is unchanged. Earlier regions of the same ferry_copy() call are copied. */
static void
test_check_holds_per_region(void **state)
{
    fixture *f = *state;
    const ferry_copy_options check = {.convert = FERRY_CONVERT_CHECK};
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int shape = 0; operation != LOAD && shape < 3; shape++) {
            for (int place = 0; place <= f->places; place++) {
                struct world *w = make_world(
                    f, support_seed = (uint64_t)(operation * 100 + shape * 10 + place + 1));
                ferry_copy_region regions[3];
                for (size_t i = 0; i < COUNT; i++)
                    w->doubles_model[i] = w->source_doubles[i] = (double)i + 0.25;
                w->doubles_model[1500] = w->source_doubles[1500] = 1e12;
                OK(ferry_buffer_copy_from(w->doubles, DOUBLE, 0, COUNT, w->doubles_model, NULL));
                touch(f, w->doubles, place, FERRY_UPDATE, 0, FERRY_REST);
                for (size_t i = 0; i < 3; i++) {
                    regions[i] = random_region(w, (enum operation)operation, 1, SATURATE, NULL, i);
                    ferry_copy_region *r = &regions[i];
                    r->count = 40;
                    r->rows = shape ? 5 : 1;
                    r->planes = shape == 2 ? 3 : 1;
                    r->target.offset = 200 * i;
                    r->source.row_pitch = 60;
                    r->source.plane_pitch = 310;
                    r->source.offset =
                        i == 1 ? (size_t)(1500 - (shape == 2 ? 310 : 0) - (shape ? 2 * 60 : 0) - 17)
                               : 700 * i;
                    r->target.row_pitch = 50;
                    r->target.plane_pitch = 260;
                    if (operation == FILL) {
                        r->source.row_pitch = r->source.plane_pitch = r->source.offset = 0;
                        w->double_values[i] = i == 1 ? NAN : (double)i + 0.25;
                    }
                }
                model_copy(w, &regions[0], SATURATE, false);
                if (operation == STORE) /* a copy to a file truncates the file after the region */
                    assert_true(w->file_bytes < 6000);
                FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_copy(regions, 3, &check));
                expect_text("region 1: ");
                size_t bad = operation == FILL ? 0 : 17 + (shape ? 80 : 0) + (shape == 2 ? 200 : 0);
                if (ferry_error_index() != bad)
                    fail_msg("%s, shape %d, place %d: element %zu, not %zu",
                             operation_names[operation], shape, place, ferry_error_index(), bad);
                expect_world(w, "after a check that failed");
                FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_copy(&regions[1], 1, &check));
                assert_int_equal(ferry_error_index(), bad);
                expect_world(w, "after one check that failed");
                ferry_copy_region good[2] = {regions[0], regions[2]};
                model_copy(w, &good[0], SATURATE, false);
                model_copy(w, &good[1], SATURATE, false);
                OK(ferry_copy(good, 2, &check));
                expect_world(w, "after a check that passed");
                free_world(w);
            }
        }
    }
    support_seed = 0;
}

/* -- progress and cancel ----------------------------------------------------------------------- */

struct progress {
    size_t calls, last, total, stop_at;
};

static bool
watch(size_t done, size_t total, void *user)
{
    struct progress *p = user;
    assert_true(done >= p->last && done <= total && (!p->calls || total == p->total));
    p->calls++;
    p->last = done;
    p->total = total;
    return done < p->stop_at;
}

/* The progress of a ferry_copy() call counts the bytes written to the targets of all regions. The
 * progress callback can cancel the call. */
static void
test_progress_and_cancel(void **state)
{
    fixture *f = *state;
    const ferry_conversion conversion = own_conversion();
    for (uint64_t seed = 4000; seed < 4060; seed++) {
        struct world *w = make_world(f, support_seed = seed);
        ferry_copy_region regions[REGIONS];
        bool stops = seed % 2, async = seed % 3 == 0;
        size_t bytes = 0, count = 1 + random_below(&w->seed, REGIONS);
        enum mode mode = PLAIN;
        for (size_t i = 0; i < count; i++) {
            mode = (enum mode)random_below(&w->seed, MODES);
            regions[i] = random_region(w, (enum operation)random_below(&w->seed, OPERATIONS),
                                       1 + (int)random_below(&w->seed, 3), mode, &conversion, i);
            bytes += regions[i].count * regions[i].rows * regions[i].planes * 4;
            if (!stops)
                model_copy(w, &regions[i], mode, false);
        }
        struct progress p = {.stop_at = stops ? 1 + random_below(&w->seed, bytes) : SIZE_MAX};
        ferry_event *event = NULL;
        ferry_copy_options options = {
            .convert = FERRY_CONVERT_SATURATE, .chunk_bytes = 128, .keep_going = watch, .user = &p};
        ferry_status status = copy_regions(regions, count, &options, async ? &event : NULL);
        if (async) {
            assert_int_equal(status, FERRY_OK);
            status = ferry_event_synchronize(event);
            size_t done, total;
            OK(ferry_event_progress(event, &done, &total));
            assert_int_equal(total, bytes);
            assert_true(done == total || status == FERRY_ERROR_CANCELLED);
        }
        if (status == FERRY_OK) {
            assert_int_equal(p.last, bytes);
            assert_int_equal(p.total, bytes);
        } else {
            assert_int_equal(status, FERRY_ERROR_CANCELLED);
            assert_true(stops && p.last >= p.stop_at);
            expect_text("bytes");
        }
        if (!stops) {
            assert_int_equal(status, FERRY_OK);
            expect_world(w, "progress");
        }
        ferry_event_destroy(&event);
        free_world(w);
    }
    support_seed = 0;
}

static atomic_bool may_go;

static ferry_status
convert_late(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    while (!atomic_load(&may_go))
        usleep(100);
    return convert_own(target, source, count, policy);
}

/* ferry_event_cancel() stops an asynchronous ferry_copy() call. The targets of regions that the
 * call has not copied yet keep their values. */
static void
test_an_event_cancels_a_list(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 9);
    const ferry_conversion late = {.from = DOUBLE, .to = INT, .convert = convert_late};
    ferry_copy_region regions[3] = {
        {.target = {.buffer = w->target},
         .source = {.memory = w->source_doubles},
         .count = 10,
         .conversion = &late},
        {.target = {.buffer = w->target, .offset = 1000},
         .source = {.memory = w->source_ints},
         .count = 10},
        {.target = {.memory = w->memory}, .source = {.buffer = w->target}, .count = 20}};
    ferry_event *event;
    size_t done, total;
    atomic_store(&may_go, false);
    OK(ferry_copy_async(regions, 3, NULL, &event));
    OK(ferry_event_cancel(event));
    atomic_store(&may_go, true);
    FAILS(FERRY_ERROR_CANCELLED, ferry_event_synchronize(event));
    OK(ferry_event_progress(event, &done, &total));
    assert_true(done <= 40);
    assert_int_equal(total, 160);
    ferry_event_destroy(&event);
    assert_memory_equal(w->memory, w->memory_model, sizeof(w->memory));
    int32_t got[10];
    ferry_copy_region r = ferry_buffer_region_to(w->target, INT, 1000, 10, got);
    OK(ferry_copy(&r, 1, NULL));
    assert_memory_equal(got, w->target_model + 1000, sizeof(got));
    free_world(w);
}

/* If a call conflicts with one region of an earlier asynchronous ferry_copy(), it waits until all
 * regions are copied. The ferry_copy() does not wait for later calls. */
static void
test_later_calls_wait_for_a_list(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 10);
    const ferry_conversion late = {.from = DOUBLE, .to = INT, .convert = convert_late};
    for (int place = 0; place <= f->places; place++) {
        ferry_copy_region regions[2] = {{.target = {.buffer = w->target},
                                         .source = {.memory = w->source_doubles},
                                         .count = 10,
                                         .conversion = &late},
                                        {.target = {.buffer = w->target, .offset = 1000},
                                         .source = {.buffer = w->doubles, .offset = 3},
                                         .count = 10}};
        ferry_event *event, *second;
        atomic_store(&may_go, false);
        OK(ferry_copy_async(regions, 2, &(ferry_copy_options){.convert = FERRY_CONVERT_SATURATE},
                            &event));
        /* ferry_buffer_prefetch() need not wait for the ferry_copy(), because both only read the
         * buffer `doubles`. */
        OK(ferry_buffer_prefetch(w->doubles, 0, FERRY_REST, place, NULL));
        ferry_copy_region r = {.target = {.buffer = w->target, .offset = 1005},
                               .source = {.buffer = w->target, .offset = 2},
                               .count = 10};
        /* The second ferry_copy() waits for the first one, because both use the same ranges. */
        atomic_store(&may_go, true);
        OK(ferry_copy_async(&r, 1, NULL, &second));
        for (int i = 0; i < 10; i++) {
            w->target_model[i] = own(w->source_doubles[i]);
            w->target_model[1000 + i] = saturated(w->doubles_model[3 + i]);
        }
        memcpy(w->target_model + 1005, w->target_model + 2, 40);
        expect_world(w, "later calls");
        OK(ferry_event_synchronize(event));
        OK(ferry_event_synchronize(second));
        ferry_event_destroy(&event);
        ferry_event_destroy(&second);
    }
    free_world(w);
}

/* -- places, counts and shortcuts -------------------------------------------------------------- */

/* A ferry_copy() whose options name a stream writes its buffers at the place of that stream. */
static void
test_the_stream_says_where(void **state)
{
    fixture *f = *state;
    const ferry_conversion conversion = own_conversion();
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int mode = 0; operation != TO_MEMORY && operation != STORE && mode < MODES; mode++)
            for (int place = 1; place <= f->places; place++)
                for (int async = 0; async < 2; async++) {
                    struct world *w = make_world(f, support_seed = 40);
                    ferry_copy_region r = random_region(w, (enum operation)operation, 1,
                                                        (enum mode)mode, &conversion, 0);
                    r.count = COUNT;
                    r.target.offset = r.source.offset = 0;
                    if (r.source.buffer == w->target)
                        r.source.buffer = w->ints;
                    ferry_copy_options options = {
                        .stream = stream_of(f, place),
                        .convert = mode == SATURATE ? FERRY_CONVERT_SATURATE : 0};
                    model_copy(w, &r, (enum mode)mode, false);
                    copy_and_wait(w, &r, 1, &options, async);
                    if (!ferry_buffer_is_current(w->target, place))
                        fail_msg("%s, %s: not at place %d", operation_names[operation],
                                 mode_names[mode], place);
                    expect_world(w, "the stream says where");
                    free_world(w);
                }
    support_seed = 0;
}

static void
test_rest_counts_to_the_end(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 11);
    ferry_copy_region regions[4] = {{.target = {.buffer = w->target, .offset = COUNT - 5},
                                     .source = {.memory = w->source_ints, .offset = 9},
                                     .count = FERRY_REST},
                                    {.target = {.buffer = w->target},
                                     .source = {.buffer = w->ints, .offset = COUNT - 7},
                                     .count = FERRY_REST},
                                    {.target = {.buffer = w->target, .offset = COUNT - 2},
                                     .value = &w->int_values[1],
                                     .count = FERRY_REST},
                                    {.target = {.memory = w->memory, .offset = 4},
                                     .source = {.buffer = w->target, .offset = COUNT - 8},
                                     .count = FERRY_REST}};
    w->int_values[1] = 31;
    memcpy(w->target_model + COUNT - 5, w->source_ints + 9, 20);
    memcpy(w->target_model, w->ints_model + COUNT - 7, 28);
    w->target_model[COUNT - 2] = w->target_model[COUNT - 1] = 31;
    memcpy(w->memory_model + 4, w->target_model + COUNT - 8, 32);
    for (size_t i = 0; i < 4; i++)
        OK(ferry_copy(&regions[i], 1, NULL));
    OK(ferry_copy(regions, 4, NULL));
    expect_world(w, "rest");
    free_world(w);
}

static void
test_shortcuts(void **state)
{
    fixture *f = *state;
    for (int async = 0; async < 2; async++) {
        struct world *w = make_world(f, 12);
        ferry_event *event = NULL;
        struct progress p;
        const ferry_copy_options set = {.keep_going = watch, .user = &p, .stream = f->stream};
        int32_t value = 8;
#define SHORT(function, ...)                                                                       \
    do {                                                                                           \
        p = (struct progress){.stop_at = SIZE_MAX};                                                \
        OK(async ? function##_async(__VA_ARGS__, &set, &event) : function(__VA_ARGS__, NULL));     \
        if (async) {                                                                               \
            OK(ferry_event_synchronize(event));                                                    \
            ferry_event_destroy(&event);                                                           \
            assert_true(p.calls > 0 && p.last == p.total);                                         \
        }                                                                                          \
    } while (0)
        memcpy(w->target_model + 5, w->source_ints, 400);
        SHORT(ferry_buffer_copy_from, w->target, INT, 5, 100, w->source_ints);
        memcpy(w->target_model + 50, w->ints_model + 7, 400);
        SHORT(ferry_buffer_copy, w->target, NULL, 50, w->ints, 7, 100);
        memmove(w->target_model + 90, w->target_model + 50, 400);
        SHORT(ferry_buffer_copy, w->target, INT, 90, w->target, 50, 100);
        for (int i = 0; i < 10; i++)
            w->target_model[30 + i] = value;
        SHORT(ferry_buffer_fill, w->target, INT, 30, 10, &value);
        memcpy(w->memory_model, w->target_model, 800);
        SHORT(ferry_buffer_copy_to, w->target, INT, 0, 200, w->memory);
        memcpy(w->target_model + 600, w->source_ints + 2, 400);
        SHORT(ferry_buffer_load, w->target, INT, 600, 100, w->ints_path, 8);
        w->file_bytes = 2004;
        memcpy(w->file_model + 4, w->target_model + 500, 2000);
        SHORT(ferry_buffer_store, w->target, INT, 500, 500, w->target_path, 4);
#undef SHORT
        FAILS(FERRY_ERROR_WRONG_TYPE,
              ferry_buffer_copy_from(w->target, FLOAT, 0, 1, w->source_ints, &set));
        FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_copy(w->target, INT, 0, w->doubles, 0, 1, &set));
        FAILS(FERRY_ERROR_WRONG_TYPE,
              ferry_buffer_copy(w->target, DOUBLE, 0, w->doubles, 0, 1, &set));
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_load(w->target, INT, 0, 1, NULL, 0, &set));
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_copy_to(w->target, INT, 0, 1, NULL, &set));
        FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_fill(w->target, INT, COUNT, 1, &value, &set));
        expect_world(w, "shortcuts");
        free_world(w);
    }
}

/* Regions of one ferry_copy() call that are independent and need no conversion are copied in one
 * submission. */
static void
test_plain_lists_are_one_submission(void **state)
{
    fixture *f = *state;
    struct world *w = make_world(f, 13);
    ferry_copy_region regions[100];
    if (!f->coherent) {
        for (int i = 0; i < 100; i++) {
            regions[i] = ferry_buffer_region_from(w->target, INT, (size_t)i * 20, 10,
                                                  w->source_ints + i * 11);
            memcpy(w->target_model + i * 20, w->source_ints + i * 11, 40);
        }
        touch(f, w->target, 1, FERRY_UPDATE, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f), after;
        OK(ferry_copy(regions, 100, NULL));
        after = moved(f);
        assert_int_equal(after.batch_submissions - before.batch_submissions, 1);
        assert_int_equal(after.batch_copies - before.batch_copies, 100);
        expect_world(w, "plain lists");
    }
    free_world(w);
}

/* A copy of a range onto itself moves nothing, but it is a write: beside an open READ scope, it
 * fails as any other copy to the range. */
static void
test_onto_itself_is_a_write(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_ints(f, 200), *other = make_counting(f, 200, 7);
        write_counting(f, b, place, 0, FERRY_REST, 0);
        const ferry_copy_region self = {.target = {.buffer = b},
                                        .source = {.buffer = b},
                                        .count = 9},
                                rows = {.target = {.buffer = b, .row_pitch = 20},
                                        .source = {.buffer = b, .row_pitch = 20},
                                        .count = 9,
                                        .rows = 5},
                                list[] = {{.target = {.buffer = other, .offset = 9},
                                           .source = {.buffer = other},
                                           .count = 9},
                                          rows};
        const struct {
            const ferry_copy_region *regions;
            size_t count;
        } calls[] = {{&self, 1}, {&rows, 1}, {list, 2}};
        for (size_t i = 0; i < LENGTH(calls); i++)
            for (int async = 0; async <= 1; async++) {
                ferry_event *event = NULL;
                ferry_event **out = async ? &event : NULL;
                size_t done, total;
                ferry_scope scope;
                (void)open_at(f, b, 0, FERRY_READ, 5, 1, &scope);
                FAILS(FERRY_ERROR_BUSY, copy_regions(calls[i].regions, calls[i].count, NULL, out));
                OK(ferry_scope_close(&scope));
                (void)open_at(f, b, 0, FERRY_READ, 100, 50, &scope);
                OK(copy_regions(calls[i].regions, calls[i].count, NULL, out));
                if (async) {
                    OK(ferry_event_synchronize(event));
                    OK(ferry_event_progress(event, &done, &total));
                    assert_true(done == total && total == (i == 0 ? 36 : i == 1 ? 180 : 216));
                    ferry_event_destroy(&event);
                }
                OK(ferry_scope_close(&scope));
            }
        ferry_scope scope;
        (void)open_at(f, b, 0, FERRY_READ, 5, 1, &scope);
        FAILS(FERRY_ERROR_BUSY, ferry_buffer_copy(b, INT, 5, b, 5, 1, NULL));
        OK(ferry_buffer_copy(b, INT, 6, b, 6, 10, NULL));
        OK(ferry_scope_close(&scope));
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
        DESTROY_BUFFERS(&b, &other);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_combination),
        TEST(test_lists_of_everything),
        TEST(test_lists_in_a_row),
        TEST(test_overlap_is_memmove),
        TEST(test_overlap_that_converts),
        TEST(test_onto_itself_is_a_write),
        TEST(test_arguments_are_refused),
        TEST(test_files_that_fail),
        TEST(test_files_go_in_order),
        TEST(test_check_holds_per_region),
        TEST(test_progress_and_cancel),
        TEST(test_an_event_cancels_a_list),
        TEST(test_later_calls_wait_for_a_list),
        TEST(test_the_stream_says_where),
        TEST(test_rest_counts_to_the_end),
        TEST(test_shortcuts),
        TEST(test_plain_lists_are_one_submission),
    };
    return cmocka_run_group_tests_name("copy", tests, files_setup, files_teardown);
}
