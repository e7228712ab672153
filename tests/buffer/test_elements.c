/* SPDX-License-Identifier: MIT */
/* Tests that no call tears an element. Every call that takes ferry_copy_options is cancelled at
 * each of its chunks, and every device call fails once. Each element then has either all of its old
 * bytes or all of its new bytes, even if the size of a chunk is no multiple of the size of an
 * element. */
#include <stdio.h>
#include <unistd.h>

#include "tests/buffer/files.h"
#include "tests/support/copies.h"
#include "tests/support/fault.h"

/* The bytes of an old and of a new element. A buffer that was never written has zeros. */
enum { OLD = 1, NEW = 2, MOST = 40000 };

struct world {
    fixture *f;
    const ferry_element *element;
    size_t count, bytes;
    ferry_buffer *target, *source;
    unsigned char memory[MOST], news[MOST];
    const char *path;
    bool direct;
};

struct operation {
    const char *name;
    ferry_status (*run)(struct world *w, const ferry_copy_options *options);
    bool of_many; /* whether the call copies many ranges in one transfer */
};

/* -- the calls --------------------------------------------------------------------------------- */

static ferry_status
run_from(struct world *w, const ferry_copy_options *options)
{
    return ferry_buffer_copy_from(w->target, w->element, 0, w->count, w->news, options);
}

static ferry_status
run_to(struct world *w, const ferry_copy_options *options)
{
    return ferry_buffer_copy_to(w->source, w->element, 0, w->count, w->memory, options);
}

static ferry_status
run_between(struct world *w, const ferry_copy_options *options)
{
    return ferry_buffer_copy(w->target, w->element, 0, w->source, 0, w->count, options);
}

static ferry_status
run_fill(struct world *w, const ferry_copy_options *options)
{
    return ferry_buffer_fill(w->target, w->element, 0, w->count, w->news, options);
}

static ferry_status
run_load(struct world *w, const ferry_copy_options *options)
{
    write_file(w->path, w->news, w->bytes);
    return ferry_buffer_load(w->target, w->element, 0, w->count, w->path, 0, options);
}

static ferry_status
run_store(struct world *w, const ferry_copy_options *options)
{
    write_file(w->path, w->memory, w->bytes);
    ferry_status status =
        ferry_buffer_store(w->source, w->element, 0, w->count, w->path, 0, options);
    FILE *file = fopen(w->path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(w->memory, 1, w->bytes, file), w->bytes);
    assert_int_equal(fclose(file), 0);
    return status;
}

static ferry_status
copy_bytes(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    if (target)
        memset(target, *(const unsigned char *)source, count);
    return FERRY_OK;
}

/* A conversion from bytes to bytes, which cannot tear anything: the regions before it and behind it
 * have other elements, so that the progress of the call is no multiple of theirs. */
static ferry_status
run_regions(struct world *w, const ferry_copy_options *options)
{
    static unsigned char bytes[2][101];
    const ferry_conversion own = {.from = BYTE, .to = BYTE, .convert = copy_bytes};
    ferry_buffer *extra;
    OK(ferry_buffer_create(w->f->context, BYTE, sizeof(bytes[0]), NULL, &extra));
    const ferry_copy_region regions[] = {
        {.target = {.buffer = extra},
         .source = {.memory = bytes[0]},
         .count = sizeof(bytes[0]),
         .conversion = &own},
        {.target = {.buffer = w->target}, .source = {.memory = w->news}, .count = w->count},
        {.target = {.memory = bytes[1]},
         .source = {.buffer = extra},
         .count = sizeof(bytes[1]),
         .conversion = &own},
        {.target = {.memory = w->memory}, .source = {.buffer = w->source}, .count = w->count},
    };
    ferry_status status = ferry_copy(regions, LENGTH(regions), options);
    char *text = strdup(ferry_last_error());
    ferry_buffer_destroy(&extra);
    ferryi_explain("%s", text);
    free(text);
    return status;
}

/* Copies rows of two elements, with a gap of one element behind each row. */
static ferry_status
run_rows_from(struct world *w, const ferry_copy_options *options)
{
    return copy_rows_from(w->target, w->element, 0, 3, w->news, 3, 2, w->count / 3, options);
}

static ferry_status
run_rows_to(struct world *w, const ferry_copy_options *options)
{
    return copy_rows_to(w->source, w->element, 0, 3, w->memory, 3, 2, w->count / 3, options);
}

static ferry_status
run_rows_between(struct world *w, const ferry_copy_options *options)
{
    return copy_rows(w->target, w->element, 0, 3, w->source, 0, 3, 2, w->count / 3, options);
}

static const struct operation operations[] = {
    {"copy from", run_from, false},  {"copy to", run_to, false},
    {"copy", run_between, false},    {"fill", run_fill, false},
    {"load", run_load, false},       {"store", run_store, false},
    {"regions", run_regions, false}, {"rows from", run_rows_from, true},
    {"rows to", run_rows_to, true},  {"rows between", run_rows_between, true},
};

/* -- the world --------------------------------------------------------------------------------- */

/* Creates a buffer whose bytes all are `value`, current at `place`. */
static ferry_buffer *
make(struct world *w, int place, unsigned char value)
{
    ferry_buffer *buffer;
    ferry_scope scope;
    OK(ferry_buffer_create(w->f->context, w->element, w->count, NULL, &buffer));
    memset(open_at(w->f, buffer, 0, FERRY_OVERWRITE, 0, FERRY_REST, &scope), value, w->bytes);
    OK(ferry_scope_close(&scope));
    if (place > 0)
        touch(w->f, buffer, place, FERRY_UPDATE, 0, FERRY_REST);
    return buffer;
}

static void
start_world(struct world *w, int place)
{
    memset(w->memory, OLD, sizeof(w->memory));
    memset(w->news, NEW, sizeof(w->news));
    w->target = make(w, place, OLD);
    w->source = make(w, place, NEW);
}

/* Checks that each element has the same value in all its bytes. */
static void
expect_whole(const struct world *w, const struct operation *operation, const char *where,
             const unsigned char *bytes)
{
    const size_t size = w->element->bytes;
    for (size_t i = 0; i < w->count; i++)
        if (memcmp(&bytes[i * size], &bytes[i * size + 1], size - 1) != 0)
            fail_msg("%s of elements of %zu bytes: element %zu of the %s is torn: %s",
                     operation->name, size, i, where, ferry_last_error());
}

static void
end_world(struct world *w, const struct operation *operation)
{
    static unsigned char got[MOST];
    expect_whole(w, operation, "memory", w->memory);
    char *text = strdup(ferry_last_error());
    OK(ferry_buffer_copy_to(w->target, w->element, 0, w->count, got, NULL));
    ferryi_explain("%s", text);
    free(text);
    expect_whole(w, operation, "buffer", got);
    DESTROY_BUFFERS(&w->target, &w->source);
}

/* -- elements ---------------------------------------------------------------------------------- */

static const ferry_field byte_fields[] = {
    {.name = "x", .kind = FERRY_KIND_UINT, .bits = 8, .offset = 0, .count = 1}};

/* Returns an element type of this size whose fields need no alignment. */
static ferry_element
struct_of(ferry_field *field, size_t bytes)
{
    *field = byte_fields[0];
    field->count = bytes;
    ferry_element element = {.name = "block",
                             .bytes = bytes,
                             .align = 1,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = field,
                             .field_count = 1};
    element.identity = ferry_element_identity(&element);
    return element;
}

/* Calls `check` for each operation, each size of elements and each place. The staging chunks have
 * 4096 bytes, so that an element of 5000 bytes does not fit into one. */
static void
for_each(fixture *f, size_t largest,
         void (*check)(struct world *w, const struct operation *operation, int place))
{
    static const size_t sizes[] = {12, 1000, 5000};
    static struct world w;
    for (size_t s = 0; s < LENGTH(sizes) && sizes[s] <= largest; s++) {
        ferry_field field;
        const ferry_element element = struct_of(&field, sizes[s]);
        for (size_t i = 0; i < LENGTH(operations); i++)
            for (int place = 0; place <= 1; place++) {
                if (operations[i].of_many && sizes[s] > 4096)
                    continue;
                w.f = f;
                w.element = &element;
                w.count = MOST / sizes[s];
                w.bytes = w.count * sizes[s];
                w.path = path_of("elements");
                check(&w, &operations[i], place);
            }
    }
}

static void
open_small(fixture *f, const char *devices)
{
    fixture_open(f, &(ferry_context_options){.devices = devices,
                                             .tuning = "staging.chunk=4K staging.chunks=2"});
}

/* -- cancelling -------------------------------------------------------------------------------- */

struct watch {
    size_t calls, stop_at;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct watch *watch = user;
    assert_true(done <= total);
    return ++watch->calls != watch->stop_at;
}

static void
cancel(struct world *w, const struct operation *operation, int place)
{
    static const size_t chunks[] = {1, 100, 2500, 0};
    for (size_t c = 0; c < LENGTH(chunks); c++) {
        ferry_status status = FERRY_ERROR_CANCELLED;
        /* Small chunks are cancelled at some of their ends only. */
        for (size_t stop = 1; status != FERRY_OK; stop += chunks[c] && chunks[c] < 1000 ? 331 : 1) {
            struct watch watch = {.stop_at = stop};
            const ferry_copy_options options = {.chunk_bytes = chunks[c],
                                                .keep_going = keep_going,
                                                .user = &watch,
                                                .file_direct = stop % 2};
            start_world(w, place);
            status = operation->run(w, &options);
            if (status != FERRY_OK)
                assert_int_equal(status, FERRY_ERROR_CANCELLED);
            /* A call reports its progress about once a chunk or once an element. */
            else
                assert_in_range(watch.calls, 1, 4 * w->count + 300);
            end_world(w, operation);
        }
    }
}

static void
test_cancelled_calls_tear_no_element(void **state)
{
    fixture *f = *state;
    fixture_close(f);
    open_small(f, NULL);
    for_each(f, SIZE_MAX, cancel);
}

/* -- failing ----------------------------------------------------------------------------------- */

static void
fail_each(struct world *w, const struct operation *operation, int place)
{
    bool tripped = true;
    for (uint64_t nth = 1; tripped; nth++) {
        const ferry_copy_options options = {.chunk_bytes = 2500};
        start_world(w, place);
        fault_arm(nth);
        ferry_status status = operation->run(w, &options);
        tripped = fault_tripped();
        fault_disarm();
        assert_true(tripped || status == FERRY_OK);
        end_world(w, operation);
    }
}

static void
test_failed_calls_tear_no_element(void **state)
{
    (void)state;
    fixture f;
    open_small(&f, "fault");
    for_each(&f, 1000, fail_each);
    f.errors = 0; /* errors about events that could not be destroyed are expected */
    fixture_close(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cancelled_calls_tear_no_element),
        cmocka_unit_test(test_failed_calls_tear_no_element),
    };
    return cmocka_run_group_tests_name("elements", tests, files_setup, files_teardown);
}
