/* SPDX-License-Identifier: MIT */
/*
 * Plays every status, and numbers that are no status, into each callback that returns one: a
 * conversion function, the two functions of a pool's backend, and the work of a file pipeline. The
 * call that runs the callback returns the callback's status, or for a backend's free goes on with
 * the memory. It does not hang, and afterwards nothing is locked and the same call succeeds.
 * tests/buffer/test_waits.c does this with the host functions of kernels.
 */
#include <stdlib.h>
#include <unistd.h>

#include <ferry/generated.h>

#include "src/buffer/buffer.h"
#include "tests/buffer/files.h"
#include "tests/support/copies.h"

enum { COUNT = 500, HANGS_AFTER_S = 150 };

/* The status that the next callbacks return, and the number of callbacks that succeed before. */
static atomic_int returned;
static atomic_int good_calls;

static ferry_status
answer(void)
{
    return atomic_fetch_sub(&good_calls, 1) > 0 ? FERRY_OK : (ferry_status)atomic_load(&returned);
}

struct world {
    fixture *f;
    ferry_buffer *ints, *doubles;
    double memory[COUNT];
    const char *input, *output;
    size_t live; /* allocations of the backend that were not freed */
};

/* -- conversion functions ---------------------------------------------------------------------- */

static ferry_status
convert(void *target, const void *source, size_t count, ferry_convert_policy policy)
{
    (void)policy;
    ferry_status status = answer();
    for (size_t i = 0; i < count && target && status == FERRY_OK; i++)
        ((double *)target)[i] = ((const int32_t *)source)[i];
    return status;
}

static ferry_conversion
own_conversion(void)
{
    return (ferry_conversion){.from = INT, .to = DOUBLE, .convert = convert};
}

static ferry_status
copy_converted(struct world *w, ferry_copy_side target, bool async, ferry_convert_policy policy)
{
    const ferry_conversion own = own_conversion();
    ferry_event *event = NULL;
    const ferry_copy_options options = {.convert = policy};
    const ferry_copy_region region = {
        .target = target, .source = {.buffer = w->ints}, .count = FERRY_REST, .conversion = &own};
    ferry_status status = copy_regions(&region, 1, &options, async ? &event : NULL);
    if (status == FERRY_OK && async)
        status = ferry_event_synchronize(event);
    ferry_event_destroy(&event);
    return status;
}

static ferry_status
convert_to_memory(struct world *w)
{
    return copy_converted(w, (ferry_copy_side){.memory = w->memory}, false, FERRY_CONVERT_SATURATE);
}

static ferry_status
convert_checked(struct world *w)
{
    return copy_converted(w, (ferry_copy_side){.memory = w->memory}, false, FERRY_CONVERT_CHECK);
}

static ferry_status
convert_to_buffer(struct world *w)
{
    return copy_converted(w, (ferry_copy_side){.buffer = w->doubles}, false,
                          FERRY_CONVERT_SATURATE);
}

static ferry_status
convert_in_background(struct world *w)
{
    return copy_converted(w, (ferry_copy_side){.buffer = w->doubles}, true, FERRY_CONVERT_SATURATE);
}

static ferry_status
convert_to_file(struct world *w)
{
    return copy_converted(w, (ferry_copy_side){.path = w->output}, false, FERRY_CONVERT_SATURATE);
}

static ferry_status
convert_fill(struct world *w)
{
    const ferry_conversion own = own_conversion();
    const int32_t value = 5;
    const ferry_copy_region region = {.target = {.buffer = w->doubles},
                                      .source = {.element = INT},
                                      .value = &value,
                                      .count = FERRY_REST,
                                      .conversion = &own};
    return ferry_copy(&region, 1, NULL);
}

static ferry_status
convert_array(struct world *w)
{
    static const int32_t values[COUNT];
    const ferry_conversion own = own_conversion();
    return ferry_conversion_run(&own, w->memory, values, COUNT, FERRY_CONVERT_SATURATE);
}

/* -- the backend of a pool --------------------------------------------------------------------- */

static ferry_status
backend_alloc(void *user, size_t bytes, void **out)
{
    struct world *w = user;
    ferry_status status = answer();
    if (status == FERRY_OK) {
        *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
        w->live += *out != NULL;
    }
    return status;
}

static ferry_status
backend_free(void *user, void *memory, size_t bytes)
{
    struct world *w = user;
    (void)bytes;
    free(memory);
    w->live--;
    return FERRY_OK;
}

/* The function fails, so the pool keeps the memory and frees it later. */
static ferry_status
backend_keep(void *user, void *memory, size_t bytes)
{
    ferry_status status = answer();
    return status == FERRY_OK ? backend_free(user, memory, bytes) : status;
}

static ferry_status
own_pool(struct world *w, ferry_status (*release)(void *user, void *memory, size_t bytes),
         ferry_pool **out)
{
    const ferry_pool_backend backend = {.alloc = backend_alloc, .free = release, .user = w};
    const ferry_pool_options options = {.wait_ms = 1};
    return ferry_pool_create(w->f->context, 0, FERRY_MEMORY_PAGEABLE, &backend, &options, out);
}

static ferry_status
allocate(struct world *w)
{
    ferry_pool *pool;
    ferry_block *block = NULL;
    OK(own_pool(w, backend_free, &pool));
    ferry_status status = ferry_pool_allocate(pool, 5000, NULL, &block);
    assert_true((status == FERRY_OK) == (block != NULL));
    if (block)
        OK(ferry_block_free(&block, NULL));
    ferry_pool_destroy(&pool);
    assert_int_equal(w->live, 0);
    return status;
}

/* Trims a pool whose backend frees nothing. The pool goes on with the memory. */
static ferry_status
trim(struct world *w)
{
    ferry_pool *pool;
    ferry_block *block;
    int wanted = atomic_exchange(&returned, FERRY_OK);
    OK(own_pool(w, backend_keep, &pool));
    OK(ferry_pool_allocate(pool, (size_t)8 << 20, NULL, &block));
    OK(ferry_block_free(&block, NULL));
    atomic_store(&returned, wanted);
    OK(ferry_pool_trim(pool, 0));
    atomic_store(&returned, FERRY_OK);
    OK(ferry_pool_allocate(pool, (size_t)8 << 20, NULL, &block));
    memset(ferry_block_pointer(block), 1, (size_t)8 << 20);
    OK(ferry_block_free(&block, NULL));
    ferry_pool_destroy(&pool);
    atomic_store(&returned, wanted);
    assert_int_equal(w->live, 0);
    w->f->errors = 0; /* the pool may log the failure */
    return (ferry_status)wanted;
}

/* -- pipelines --------------------------------------------------------------------------------- */

static ferry_status
work_on(const ferry_file_chunk *chunk, void *user)
{
    (void)user;
    OK(ferry_buffer_fill(chunk->buffer, NULL, 0, FERRY_REST, "x",
                         &(ferry_copy_options){.stream = chunk->stream}));
    return answer();
}

static ferry_status
stream_file(struct world *w)
{
    return ferry_file_pipeline(w->f->context, &(ferry_file_pipeline_options){.input = w->input,
                                                                             .output = w->output,
                                                                             .work = work_on,
                                                                             .stream = w->f->stream,
                                                                             .chunk_bytes = 200});
}

/* -- the table --------------------------------------------------------------------------------- */

static const struct row {
    const char *name;
    ferry_status (*play)(struct world *w);
    int good_calls; /* the callback first succeeds this many times */
} rows[] = {
    {"conversion to memory", convert_to_memory, 0},
    {"checked conversion", convert_checked, 0},
    {"checked conversion that fails when it writes", convert_checked, 1},
    {"conversion to a buffer", convert_to_buffer, 0},
    {"asynchronous conversion", convert_in_background, 0},
    {"conversion to a file", convert_to_file, 0},
    {"conversion of a fill", convert_fill, 0},
    {"conversion of an array", convert_array, 0},
    {"backend's alloc", allocate, 0},
    {"backend's free", trim, 0},
    {"pipeline, first chunk", stream_file, 0},
    {"pipeline, third chunk", stream_file, 2},
};

static void
expect_free(struct world *w, ferry_buffer *buffer)
{
    assert_int_equal(buffer->store->claim_count, 0);
    for (int place = 0; place <= w->f->places; place++)
        touch(w->f, buffer, place, FERRY_OVERWRITE, 0, FERRY_REST);
}

static void
play(struct world *w, const struct row *row, int status)
{
    for (int place = 0; place <= 1; place++) {
        touch(w->f, w->ints, place, FERRY_UPDATE, 0, FERRY_REST);
        touch(w->f, w->doubles, place, FERRY_UPDATE, 0, FERRY_REST);
        atomic_store(&good_calls, row->good_calls);
        atomic_store(&returned, status);
        support_clear_error();
        ferry_status got = row->play(w);
        if (got != (ferry_status)status)
            fail_msg("%s, whose callback returns %d: %d: %s", row->name, status, (int)got,
                     ferry_last_error());
        atomic_store(&returned, FERRY_OK);
        OK(row->play(w));
        expect_free(w, w->ints);
        expect_free(w, w->doubles);
    }
}

static void
test_no_status_of_a_callback_has_a_meaning_inside(void **state)
{
    static const int nonsense[] = {-1, 1000, INT32_MIN};
    static struct world w;
    w = (struct world){.f = *state, .input = path_of("input"), .output = path_of("output")};
    alarm(HANGS_AFTER_S);
    write_counting_file(w.input, COUNT);
    w.ints = make_ints(w.f, COUNT);
    OK(ferry_buffer_create(w.f->context, DOUBLE, COUNT, NULL, &w.doubles));
    for (size_t i = 0; i < LENGTH(rows); i++) {
        for (int status = 1; status <= FERRY_ERROR_CANCELLED + 1; status++)
            play(&w, &rows[i], status);
        for (size_t j = 0; j < LENGTH(nonsense); j++)
            play(&w, &rows[i], nonsense[j]);
    }
    DESTROY_BUFFERS(&w.ints, &w.doubles);
    alarm(0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_status_of_a_callback_has_a_meaning_inside),
    };
    return cmocka_run_group_tests_name("returned", tests, files_setup, files_teardown);
}
