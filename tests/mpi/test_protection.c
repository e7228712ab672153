/* SPDX-License-Identifier: MIT */
/* Checks that the range of a message cannot be misused while the message is in flight. A failed
 * receive must keep the old values of the elements that did not arrive. */

#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST 9 /* offset of the message's range in its buffer */
#define OLD   (-1000000)

/* The shape of a message's range in its buffer, and the place where the values of the range are
 * current. */
struct layout {
    const char *name;
    size_t count, rows, pitch;
    enum { ON_HOST, ON_DEVICE, ON_BOTH, MIXED, NOWHERE } where;
    bool to_device; /* whether the message uses the device's stream */
    bool scrub;     /* whether an OVERWRITE scope fills its range with zeros */
};

static const struct layout layouts[] = {
    {"a row on the host", 500, 1, 0, ON_HOST, false, false},
    {"a row on the device", 500, 1, 0, ON_DEVICE, false, false},
    {"chunks on the device", 5 * CHUNK_INTS + 3, 1, 0, ON_DEVICE, false, false},
    {"chunks from the host to the device", 5 * CHUNK_INTS + 3, 1, 0, ON_HOST, true, false},
    {"chunks at both places", 5 * CHUNK_INTS + 3, 1, 0, ON_BOTH, true, false},
    {"chunks at different places", 5 * CHUNK_INTS + 3, 1, 0, MIXED, true, false},
    {"chunks of a new buffer", 5 * CHUNK_INTS + 3, 1, 0, NOWHERE, true, false},
    {"rows on the host", 300, 17, 320, ON_HOST, false, false},
    {"rows on the device", 300, 17, 320, ON_DEVICE, false, false},
    {"rows from the host to the device", 300, 17, 320, ON_HOST, true, false},
    {"rows at different places", 300, 17, 320, MIXED, true, false},
    {"rows of a new buffer", 300, 17, 320, NOWHERE, true, false},
    {"a column on the device", 1, 64, 30, ON_DEVICE, false, false},
    {"a scrubbed row on the host", 500, 1, 0, ON_HOST, false, true},
    {"a scrubbed row on the device", 500, 1, 0, ON_DEVICE, false, true},
    {"scrubbed chunks at both places", 5 * CHUNK_INTS + 3, 1, 0, ON_BOTH, true, true},
    {"scrubbed chunks at different places", 5 * CHUNK_INTS + 3, 1, 0, MIXED, true, true},
    {"scrubbed rows on the device", 300, 17, 320, ON_DEVICE, false, true},
};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static size_t
elements_of(const struct layout *layout)
{
    return layout->count * layout->rows;
}

static size_t
span_of(const struct layout *layout)
{
    return (layout->rows - 1) * layout->pitch + layout->count;
}

static ferry_int_buffer
make_target(struct ranks *ranks, const struct layout *layout)
{
    size_t count = span_of(layout) + 2 * FIRST;
    const ferry_buffer_options options = {.scrub = layout->scrub};
    const ferry_copy_options to_device = {.stream = ranks->device};
    ferry_int_buffer buffer = {0},
                     numbers = ranks_numbers(ranks, count, OLD, layout->where != ON_HOST);
    ferry_scope scope;
    const int *pointer;
    CHECK_OK(ferry_int_create(ranks->context, count, &options, &buffer));
    if (layout->where != NOWHERE)
        CHECK_OK(ferry_int_copy(buffer, 0, numbers, 0, count,
                                layout->where == ON_HOST ? NULL : &to_device));
    ferry_int_destroy(&numbers);
    if (layout->where == ON_BOTH) {
        CHECK_OK(ferry_int_read_host(buffer, &scope, &pointer));
        CHECK_OK(ferry_scope_close(&scope));
    }
    if (layout->where == MIXED) {
        int *middle;
        CHECK_OK(ferry_int_update_host_range(buffer, FIRST + span_of(layout) / 3,
                                             span_of(layout) / 3, &scope, &middle));
        CHECK_OK(ferry_scope_close(&scope));
    }
    return buffer;
}

static ferry_mpi_range
target_range(struct ranks *ranks, const struct layout *layout, ferry_int_buffer buffer)
{
    return (ferry_mpi_range){.buffer = buffer.raw,
                             .offset = FIRST,
                             .count = layout->count,
                             .rows = layout->rows,
                             .row_pitch = layout->pitch,
                             .stream = layout->to_device ? ranks->device : NULL};
}

/* Checks that elements `begin` to `end` - 1 of a range have the values that were sent. The elements
 * are counted row by row. All other elements of the buffer must have their old values. */
static void
check_values(const struct layout *layout, ferry_int_buffer buffer, size_t begin, size_t end,
             int sent)
{
    size_t count = span_of(layout) + 2 * FIRST, wrong = 0,
           pitch = layout->rows > 1 ? layout->pitch : count;
    int *values = malloc(count * sizeof(int));
    CHECK_OK(ferry_int_copy_to(buffer, 0, count, values, NULL));
    for (size_t i = 0; i < count; i++) {
        size_t x = i < FIRST ? pitch : (i - FIRST) % pitch, y = i < FIRST ? 0 : (i - FIRST) / pitch;
        size_t element = y * layout->count + x;
        bool inside = x < layout->count && y < layout->rows && element >= begin && element < end;
        wrong += values[i] != (inside                     ? sent + (int)element
                               : layout->where == NOWHERE ? 0
                                                          : OLD + (int)i);
    }
    CHECK(wrong == 0);
    if (wrong > 0)
        printf("# %s: %zu of %zu elements\n", layout->name, wrong, count);
    free(values);
}

/* -- uses that conflict ------------------------------------------------------------------------ */

static ferry_status
use_host(ferry_int_buffer buffer, ferry_access access, size_t offset, size_t count)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_host(buffer.raw, ferry_int_element(), access, offset,
                                                 count, &scope, &pointer);
    if (status == FERRY_OK)
        CHECK_OK(ferry_scope_abandon(&scope));
    return status;
}

static ferry_status
use_device(struct ranks *ranks, ferry_int_buffer buffer, ferry_access access, size_t offset,
           size_t count)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_device(buffer.raw, ferry_int_element(), access, offset,
                                                   count, ranks->device, &scope, &pointer);
    if (status == FERRY_OK)
        CHECK_OK(ferry_scope_abandon(&scope));
    return status;
}

/* Checks that no element of a range can be read or written while the range is being received. Such
 * a call must fail with FERRY_ERROR_BUSY. */
static void
check_protected(struct ranks *ranks, const struct layout *layout, ferry_int_buffer buffer)
{
    size_t last = FIRST + span_of(layout) - 1;
    int value = 0;
    CHECK(use_host(buffer, FERRY_READ, FIRST, 1) == FERRY_ERROR_BUSY);
    CHECK(use_host(buffer, FERRY_OVERWRITE, last, 2) == FERRY_ERROR_BUSY);
    CHECK(use_host(buffer, FERRY_READ, FIRST + layout->count / 2, 1) == FERRY_ERROR_BUSY);
    CHECK(use_device(ranks, buffer, FERRY_READ, last, 1) == FERRY_ERROR_BUSY);
    CHECK(use_device(ranks, buffer, FERRY_UPDATE, FIRST - 1, 2) == FERRY_ERROR_BUSY);
    CHECK(ferry_int_copy_to(buffer, last, 1, &value, NULL) == FERRY_ERROR_BUSY);
    CHECK(ferry_int_fill(buffer, FIRST, 1, 7, NULL) == FERRY_ERROR_BUSY);
}

/* Checks that other elements of the buffer can be used while a range is being received: those
 * outside the range, and those between its rows. */
static void
check_free(const struct layout *layout, ferry_int_buffer buffer)
{
    int value = 0;
    CHECK_OK(ferry_int_copy_to(buffer, 0, 1, &value, NULL));
    CHECK(value == (layout->where == NOWHERE ? 0 : OLD));
    CHECK_OK(ferry_int_copy_to(buffer, FIRST + span_of(layout), 1, &value, NULL));
    for (size_t row = 0; row + 1 < layout->rows; row++)
        CHECK_OK(ferry_int_copy_to(buffer, FIRST + row * layout->pitch + layout->count, 1, &value,
                                   NULL));
}

/* -- waiting: a rank that waits sleeps, and leaves the cores to those that work ---------------- */

static void
meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        usleep(200);
}

/* Calls ferry_mpi_request_test() for two requests in turn until both are complete. A large message
 * makes progress only if the sender and the receiver are both tested. */
static void
finish_both(ferry_mpi_request *one, ferry_mpi_request *other)
{
    for (bool first = false, second = false; !first || !second; usleep(200)) {
        if (!first)
            CHECK_OK(ferry_mpi_request_test(one, &first));
        if (!second)
            CHECK_OK(ferry_mpi_request_test(other, &second));
    }
}

/* -- receives ---------------------------------------------------------------------------------- */

/* A message from each rank to the next one: the rank sends `source`, and receives into `target`
 * from the previous rank. */
struct shift {
    int previous;
    ferry_int_buffer target, source;
    ferry_mpi_message messages[2]; /* the receive and the send */
};

static struct shift
open_shift(struct ranks *ranks, const struct layout *layout)
{
    struct shift shift = {.previous = (ranks->rank + ranks->size - 1) % ranks->size};
    shift.target = make_target(ranks, layout);
    shift.source = ranks_numbers(ranks, elements_of(layout), ranks->rank * 100000, true);
    shift.messages[0] = (ferry_mpi_message){.direction = FERRY_MPI_RECEIVE,
                                            .rank = shift.previous,
                                            .tag = 5,
                                            .range = target_range(ranks, layout, shift.target)};
    shift.messages[1] = (ferry_mpi_message){.direction = FERRY_MPI_SEND,
                                            .rank = (ranks->rank + 1) % ranks->size,
                                            .tag = 5,
                                            .range = ranks_range(shift.source, 0, FERRY_REST)};
    return shift;
}

static void
close_shift(struct shift *shift)
{
    ferry_int_destroy(&shift->source);
    ferry_int_destroy(&shift->target);
}

/* Checks that a range is protected while it is being received. No rank sends before all ranks have
 * called meet(), so the receive is in flight until then. */
static void
receive_protected(struct ranks *ranks, const struct layout *layout)
{
    struct shift shift = open_shift(ranks, layout);
    ferry_int_buffer target = shift.target;
    ferry_mpi_request *requests[2] = {NULL, NULL};
    bool done = true;
    for (int i = 0; i < 2; i++)
        CHECK_OK(ferry_mpi_request_create(ranks->mpi, &shift.messages[i], 1, &requests[i]));
    ranks_reset(ranks);
    CHECK_OK(ferry_mpi_request_start(requests[0]));
    check_protected(ranks, layout, target);
    CHECK_OK(ferry_mpi_request_test(requests[0], &done));
    CHECK(!done);
    check_protected(ranks, layout, target);
    CHECK(ranks_up(ranks) == 0 && ranks_down(ranks) == 0); /* the scopes copy nothing */
    check_free(layout, target);

    meet();
    CHECK_OK(ferry_mpi_request_start(requests[1]));
    bool has_more = elements_of(layout) > 2 * CHUNK_INTS; /* the sender must make progress too */
    for (int i = 0; has_more && i < 100 && ranks_up(ranks) == 0;
         i++, usleep(200)) /* until a chunk has arrived */
        CHECK_OK(ferry_mpi_request_test(requests[0], &done));
    if (has_more) {
        CHECK(!done);
        check_protected(ranks, layout, target);
    }
    meet();
    finish_both(requests[0], requests[1]);
    check_values(layout, target, 0, elements_of(layout), shift.previous * 100000);
    CHECK_OK(use_host(target, FERRY_UPDATE, 0, span_of(layout) + 2 * FIRST));
    for (int i = 0; i < 2; i++)
        ferry_mpi_request_destroy(&requests[i]);
    close_shift(&shift);
}

static void
test_receives(struct ranks *ranks)
{
    for (size_t i = 0; i < LAYOUTS; i++)
        receive_protected(ranks, &layouts[i]);
}

/* Checks that the protection of a range causes no additional copies. Each byte of a message must be
 * copied between host and device only once. */
static void
test_bytes(struct ranks *ranks)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        struct shift shift = open_shift(ranks, layout);
        bool lands_on_device = layout->to_device || layout->where == ON_DEVICE;
        ranks_reset(ranks);
        CHECK_OK(ferry_mpi_exchange(ranks->mpi, shift.messages, 2));
        CHECK(ranks_down(ranks) == ranks_cost(ranks, elements_of(layout)));
        CHECK(ranks_up(ranks) == (lands_on_device ? ranks_cost(ranks, elements_of(layout)) : 0));
        check_values(layout, shift.target, 0, elements_of(layout), shift.previous * 100000);
        close_shift(&shift);
    }
}

/* While a range is being sent, reading it must succeed. Writing it, on the host or on the device,
 * must fail with FERRY_ERROR_BUSY. */
static void
test_sends(struct ranks *ranks)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        int next = (ranks->rank + 1) % ranks->size,
            previous = (ranks->rank + ranks->size - 1) % ranks->size;
        ferry_int_buffer source = make_target(ranks, layout), target = {0};
        CHECK_OK(ferry_int_create(ranks->context, elements_of(layout), NULL, &target));
        const ferry_mpi_message message = {.direction = FERRY_MPI_SEND,
                                           .rank = next,
                                           .tag = 5,
                                           .range = target_range(ranks, layout, source)};
        const ferry_mpi_range receive = ranks_range(target, 0, FERRY_REST);
        size_t last = FIRST + span_of(layout) - 1;
        ferry_mpi_request *request = NULL;
        CHECK_OK(ferry_mpi_request_create(ranks->mpi, &message, 1, &request));
        CHECK_OK(ferry_mpi_request_start(request));
        CHECK_OK(use_host(source, FERRY_READ, FIRST, 1));
        CHECK(use_host(source, FERRY_UPDATE, last, 1) == FERRY_ERROR_BUSY);
        CHECK(use_device(ranks, source, FERRY_OVERWRITE, FIRST, 1) == FERRY_ERROR_BUSY);
        CHECK(ferry_int_fill(source, last, 1, 7, NULL) == FERRY_ERROR_BUSY);
        check_free(layout, source);
        const ferry_mpi_message back = {
            .direction = FERRY_MPI_RECEIVE, .rank = previous, .tag = 5, .range = receive};
        ferry_mpi_request *other = NULL;
        CHECK_OK(ferry_mpi_request_create(ranks->mpi, &back, 1, &other));
        CHECK_OK(ferry_mpi_request_start(other));
        finish_both(request, other);
        if (layout->rows == 1 && layout->where != NOWHERE)
            ranks_check_numbers(target, 0, elements_of(layout), OLD + FIRST, 1);
        CHECK_OK(use_host(source, FERRY_UPDATE, FIRST, span_of(layout)));
        ferry_mpi_request_destroy(&request);
        ferry_mpi_request_destroy(&other);
        ferry_int_destroy(&source);
        ferry_int_destroy(&target);
    }
}

/* Checks that a request fails to start if its range is in use, and that it then sends nothing. A
 * second start must succeed when the range is free. */
static void
test_busy_at_start(struct ranks *ranks)
{
    int next = (ranks->rank + 1) % ranks->size,
        previous = (ranks->rank + ranks->size - 1) % ranks->size;
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        ferry_int_buffer target = make_target(ranks, layout);
        ferry_int_buffer source = ranks_numbers(ranks, elements_of(layout), 3, true);
        const ferry_mpi_message messages[] = {
            {.direction = FERRY_MPI_SEND,
             .rank = next,
             .tag = 5,
             .range = ranks_range(source, 0, FERRY_REST)},
            {.direction = FERRY_MPI_RECEIVE,
             .rank = previous,
             .tag = 5,
             .range = target_range(ranks, layout, target)},
        };
        ferry_scope scope;
        const int *pointer;
        CHECK_OK(
            ferry_int_read_host_range(target, FIRST + span_of(layout) - 1, 1, &scope, &pointer));
        CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, messages, 2), FERRY_ERROR_BUSY, "receive");
        CHECK_OK(use_host(source, FERRY_UPDATE, 0, elements_of(layout)));
        CHECK_OK(ferry_scope_close(&scope));
        check_values(layout, target, 0, 0, 0);
        CHECK_OK(ferry_mpi_exchange(ranks->mpi, messages, 2));
        check_values(layout, target, 0, elements_of(layout), 3);
        ferry_int_destroy(&source);
        ferry_int_destroy(&target);
    }
}

/* -- failures ---------------------------------------------------------------------------------- */

/*
 * Sends a message that is shorter than the receiver's range. Complete chunks are written to the
 * range. All other elements must keep their old values. Each call uses a different tag, because MPI
 * does not define what happens to later messages with the same tag.
 */
static void
receive_too_little(struct ranks *ranks, ferry_mpi *mpi, const struct layout *layout, size_t sent,
                   int tag)
{
    int other = ranks->rank ^ 1;
    size_t arrived = sent / CHUNK_INTS * CHUNK_INTS;
    ferry_int_buffer target = make_target(ranks, layout);
    ferry_int_buffer source = ranks_numbers(ranks, sent + 1, 500, true);
    ferry_mpi_range send = ranks_range(source, 0, sent),
                    receive = target_range(ranks, layout, target);
    if (ranks->rank % 2 == 0)
        CHECK_OK(ferry_mpi_send(mpi, &send, other, tag));
    else
        CHECK_FAILS(ferry_mpi_receive(mpi, &receive, other, tag), FERRY_ERROR_OUT_OF_RANGE,
                    "ended after");
    if (ranks->rank % 2 == 1)
        check_values(layout, target, 0, arrived, 500);
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
}

static void
test_failures(struct ranks *ranks)
{
    ferry_mpi *by_pointers = NULL;
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_DEVICE, .chunk_bytes = CHUNK_BYTES};
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &by_pointers));
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        bool direct = layout->rows == 1 &&
                      (!ranks->separate || (layout->where == ON_HOST && !layout->to_device));
        receive_too_little(ranks, ranks->mpi, layout, 0, 4 * (int)i);
        if (!ranks_on_gpu()) /* not every MPI takes pointers of a GPU */
            receive_too_little(ranks, by_pointers, layout, 0, 4 * (int)i + 1);
        if (elements_of(layout) > 3 * CHUNK_INTS && !direct)
            receive_too_little(ranks, ranks->mpi, layout, 3 * CHUNK_INTS, 4 * (int)i + 2);
        if (!direct) /* a direct receive also writes an incomplete chunk to the range */
            receive_too_little(ranks, ranks->mpi, layout, elements_of(layout) - 1, 4 * (int)i + 3);
    }
    ferry_mpi_destroy(&by_pointers);
}

/* -- other threads ----------------------------------------------------------------------------- */

static ferry_int_buffer visited;
static size_t visited_at;
static ferry_scope visit;
static enum { NO_VISIT, WANTED, OPEN } visiting;

/* Replaces an MPI function that ferry_mpi_request_wait() calls. Opens a scope on a range before the
 * next chunk arrives, as a second thread might. */
int
MPI_Waitsome(int count, MPI_Request *requests, int *out_count, int *indices, MPI_Status *statuses)
{
    const int *pointer;
    if (visiting == WANTED &&
        ferry_int_read_host_range(visited, visited_at, 1, &visit, &pointer) == FERRY_OK)
        visiting = OPEN;
    return PMPI_Waitsome(count, requests, out_count, indices, statuses);
}

/* A scope is opened on a range while a large message is being received into the range. The receive
 * must fail with FERRY_ERROR_BUSY, and the sender must complete its send. */
static void
test_visitor(struct ranks *ranks)
{
    static const struct layout layout = {
        "many chunks on the device", 40 * CHUNK_INTS + 3, 1, 0, ON_DEVICE, false, false};
    int other = ranks->rank ^ 1;
    bool receives = ranks->rank % 2 == 1;
    ferry_int_buffer target = make_target(ranks, &layout);
    ferry_int_buffer source = ranks_numbers(ranks, elements_of(&layout), 500, true);
    ferry_mpi_range send = ranks_range(source, 0, FERRY_REST),
                    receive = target_range(ranks, &layout, target);
    visited = target;
    visited_at = FIRST + elements_of(&layout) - 1;
    visiting = receives && ranks->separate ? WANTED : NO_VISIT;
    ferry_status status = receives ? ferry_mpi_receive(ranks->mpi, &receive, other, 1)
                                   : ferry_mpi_send(ranks->mpi, &send, other, 1);
    if (visiting == OPEN) {
        CHECK_FAILS(status, FERRY_ERROR_BUSY, "copy a chunk to the device");
        CHECK_OK(ferry_scope_close(&visit));
    } else {
        CHECK_OK(status);
    }
    visiting = NO_VISIT;
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
}

/* -- long columns ------------------------------------------------------------------------------ */

/* Checks that ferry-mpi does not protect a range that has more rows than the option `guarded_rows`
 * allows. */
static void
test_guarded_rows(struct ranks *ranks)
{
    static const size_t rows[] = {64, 65, 200};
    static const uint32_t options_rows[] = {0, 200, 20};
    int other = ranks->rank ^ 1;
    for (int i = 0; i < 9; i++) {
        ferry_mpi *mpi = NULL;
        ferry_mpi_request *request = NULL;
        const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS,
                                           .chunk_bytes = CHUNK_BYTES,
                                           .guarded_rows = options_rows[i / 3]};
        size_t limit = options.guarded_rows ? options.guarded_rows : 64;
        ferry_int_buffer plate = ranks_numbers(ranks, rows[i % 3] * 10, 0, true);
        ferry_mpi_message messages[2] = {{.direction = FERRY_MPI_SEND, .rank = other, .tag = 1},
                                         {.direction = FERRY_MPI_RECEIVE, .rank = other, .tag = 1}};
        for (size_t column = 0; column < 2; column++)
            messages[column].range = (ferry_mpi_range){.buffer = plate.raw,
                                                       .offset = 2 + 5 * column,
                                                       .count = 1,
                                                       .rows = rows[i % 3],
                                                       .row_pitch = 10};
        CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi));
        CHECK_OK(ferry_mpi_request_create(mpi, messages, 2, &request));
        CHECK_OK(ferry_mpi_request_start(request));
        ferry_status expected = rows[i % 3] <= limit ? FERRY_ERROR_BUSY : FERRY_OK;
        CHECK(use_host(plate, FERRY_READ, 7, 1) == expected);
        CHECK(use_host(plate, FERRY_READ, rows[i % 3] * 10 - 3, 1) == expected);
        CHECK_OK(use_host(plate, FERRY_READ, 8, 3));
        CHECK_OK(ferry_mpi_request_wait(request));
        int values[2] = {0, 0};
        CHECK_OK(ferry_int_copy_to(plate, rows[i % 3] * 10 - 3, 1, &values[0], NULL));
        CHECK_OK(ferry_int_copy_to(plate, rows[i % 3] * 10 - 2, 1, &values[1], NULL));
        CHECK(values[0] == (int)rows[i % 3] * 10 - 8 && values[1] == (int)rows[i % 3] * 10 - 2);
        ferry_mpi_request_destroy(&request);
        ferry_mpi_destroy(&mpi);
        ferry_int_destroy(&plate);
    }
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"receives", test_receives},
        {"bytes", test_bytes},
        {"sends", test_sends},
        {"busy_at_start", test_busy_at_start},
        {"failures", test_failures},
        {"visitor", test_visitor},
        {"guarded_rows", test_guarded_rows},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
