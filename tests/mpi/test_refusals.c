/* SPDX-License-Identifier: MIT */
/* Checks that wrong arguments and MPI errors give a status with a message, and that later calls
 * succeed. */

#include "ranks.h"

#include <string.h>

#include <ferry/float.h>

/* Sends a message between neighbouring ranks. The receiver must get this message, and not an old
 * one that an earlier failure left. */
static void
check_still_works(struct ranks *ranks)
{
    int next = (ranks->rank + 1) % ranks->size,
        previous = (ranks->rank + ranks->size - 1) % ranks->size;
    ferry_int_buffer mine = ranks_numbers(ranks, 3000, ranks->rank, true),
                     theirs = ranks_numbers(ranks, 3000, -1, true);
    ferry_mpi_range send = ranks_range(mine, 0, FERRY_REST),
                    receive = ranks_range(theirs, 0, FERRY_REST);
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &send, next, 5, &receive, previous, 5));
    ranks_check_numbers(theirs, 0, 3000, previous, 1);
    ferry_int_destroy(&mine);
    ferry_int_destroy(&theirs);
}

static void
test_creation(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    ferry_mpi_options options = {.chunk_bytes = 4095};
    CHECK_FAILS(ferry_mpi_create(NULL, MPI_COMM_WORLD, NULL, &mpi), FERRY_ERROR_INVALID_ARGUMENT,
                "context is NULL");
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, NULL, NULL),
                FERRY_ERROR_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_NULL, NULL, &mpi),
                FERRY_ERROR_INVALID_ARGUMENT, "MPI_COMM_NULL");
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi),
                FERRY_ERROR_INVALID_ARGUMENT, "4095 bytes");
    options.chunk_bytes = ((size_t)1 << 30) + 1;
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi),
                FERRY_ERROR_INVALID_ARGUMENT, "bytes");
    options = (ferry_mpi_options){.chunk_count = 9};
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi),
                FERRY_ERROR_INVALID_ARGUMENT, "9 chunks");
    options = (ferry_mpi_options){.path = (ferry_mpi_path)3};
    CHECK_FAILS(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi),
                FERRY_ERROR_INVALID_ARGUMENT, "no path 3");

    MPI_Comm half, inter;
    int leader = ranks->rank % 2 == 0 ? 1 : 0;
    MPI_Comm_split(MPI_COMM_WORLD, ranks->rank % 2, ranks->rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 1, &inter);
    CHECK_FAILS(ferry_mpi_create(ranks->context, inter, NULL, &mpi), FERRY_ERROR_UNSUPPORTED,
                "intercommunicator");
    CHECK(!mpi);
    /* `half` contains every second rank of MPI_COMM_WORLD, and numbers its ranks from 0. */
    CHECK_OK(ferry_mpi_create(ranks->context, half, NULL, &mpi));
    CHECK(ferry_mpi_rank(mpi) == ranks->rank / 2 && ferry_mpi_size(mpi) == ranks->size / 2);
    ferry_mpi_destroy(&mpi);
    CHECK(!mpi);
    ferry_mpi_destroy(&mpi);
    ferry_mpi_destroy(NULL);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    CHECK(ferry_mpi_rank(NULL) == -1 && ferry_mpi_size(NULL) == 0 &&
          ferry_mpi_chunk_bytes(NULL) == 0);
}

/* Checks that arguments that MPI rejects give a status. The error handler of the program's
 * communicator would end the job, so ferry-mpi must not use this handler. */
static void
test_rejected_by_mpi(struct ranks *ranks)
{
    for (int on_device = 0; on_device < 2; on_device++) {
        ferry_int_buffer buffer = ranks_numbers(ranks, 3000, 0, on_device);
        ferry_mpi_range range = ranks_range(buffer, 0, FERRY_REST);
        ranks_reset(ranks);
        CHECK_FAILS(ferry_mpi_send(ranks->mpi, &range, ranks->size, 1),
                    FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_RANK");
        CHECK_FAILS(ferry_mpi_send(ranks->mpi, &range, -77, 1), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_RANK");
        CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &range, ranks->size, 1),
                    FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_RANK");
        CHECK_FAILS(ferry_mpi_send(ranks->mpi, &range, 0, -5), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_TAG");
        CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &range, 0, -5), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_TAG");
        CHECK_FAILS(ferry_mpi_broadcast(ranks->mpi, &range, ranks->size),
                    FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_ROOT");
        CHECK_FAILS(ferry_mpi_broadcast(ranks->mpi, &range, -9), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_ROOT");
        CHECK_FAILS(ferry_mpi_gather(ranks->mpi, &range, NULL, 99), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_ROOT");
        CHECK_FAILS(ferry_mpi_scatter(ranks->mpi, NULL, &range, 99), FERRY_ERROR_INVALID_ARGUMENT,
                    "MPI_ERR_ROOT");
        CHECK_FAILS(ferry_mpi_allreduce(ranks->mpi, &range, MPI_OP_NULL),
                    FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_OP");
        ferry_int_destroy(&buffer);

        ferry_float_buffer floats = {0};
        CHECK_OK(ferry_float_create(ranks->context, 100, NULL, &floats));
        const ferry_mpi_range float_range = {.buffer = floats.raw, .count = FERRY_REST};
        CHECK_FAILS(ferry_mpi_allreduce(ranks->mpi, &float_range, MPI_BAND),
                    FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_OP");
        ferry_float_destroy(&floats);
        check_still_works(ranks);
    }
}

/* Sends more or fewer elements than the receiver expects. Checks that the receive fails. */
static void
mismatch(struct ranks *ranks, size_t sent, size_t expected, bool on_device, const char *what)
{
    int last = ranks->size - 1;
    ferry_int_buffer buffer = ranks_numbers(ranks, 9000, 0, on_device);
    ferry_mpi_range send = ranks_range(buffer, 0, sent), receive = ranks_range(buffer, 0, expected);
    if (ranks->rank == 0)
        CHECK_OK(ferry_mpi_send(ranks->mpi, &send, last, 1));
    else if (ranks->rank == last)
        CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &receive, 0, 1), FERRY_ERROR_OUT_OF_RANGE, what);
    ferry_int_destroy(&buffer);
    check_still_works(ranks);
}

/* Every rank sends a message of several chunks, and expects one of few elements. Both ends of each
 * message return, also when a request is started again. */
static void
mismatch_both_ways(struct ranks *ranks, bool on_device)
{
    int next = (ranks->rank + 1) % ranks->size,
        previous = (ranks->rank + ranks->size - 1) % ranks->size;
    ferry_int_buffer mine = ranks_numbers(ranks, 9000, ranks->rank, on_device),
                     theirs = ranks_numbers(ranks, 10, -1, on_device);
    ferry_mpi_range send = ranks_range(mine, 0, FERRY_REST),
                    receive = ranks_range(theirs, 0, FERRY_REST);
    CHECK_FAILS(ferry_mpi_sendrecv(ranks->mpi, &send, next, 1, &receive, previous, 1),
                FERRY_ERROR_OUT_OF_RANGE, "MPI_ERR_TRUNCATE");
    const ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_SEND, .rank = next, .tag = 2, .range = send},
        {.direction = FERRY_MPI_RECEIVE, .rank = previous, .tag = 2, .range = receive},
    };
    ferry_mpi_request *request = NULL;
    CHECK_OK(ferry_mpi_request_create(ranks->mpi, messages, 2, &request));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(ferry_mpi_request_start(request));
        CHECK_FAILS(ferry_mpi_request_wait(request), FERRY_ERROR_OUT_OF_RANGE, "MPI_ERR_TRUNCATE");
    }
    ferry_mpi_request_destroy(&request);
    ferry_int_destroy(&mine);
    ferry_int_destroy(&theirs);
    check_still_works(ranks);
}

static void
test_counts(struct ranks *ranks)
{
    for (int on_device = 0; on_device < 2; on_device++) {
        mismatch(ranks, 10, 5, on_device, "MPI_ERR_TRUNCATE");
        mismatch(ranks, 1, 0, on_device, "MPI_ERR_TRUNCATE");
        /* The send must not wait for ever, however many chunks are more than expected. */
        mismatch(ranks, CHUNK_INTS, CHUNK_INTS - 1, on_device, "MPI_ERR_TRUNCATE");
        mismatch(ranks, 3 * CHUNK_INTS - 1, 2 * CHUNK_INTS, on_device, "MPI_ERR_TRUNCATE");
        mismatch(ranks, 9000, CHUNK_INTS + 1, on_device, "MPI_ERR_TRUNCATE");
        mismatch(ranks, 9000, 0, on_device, "MPI_ERR_TRUNCATE");
        mismatch_both_ways(ranks, on_device);
        mismatch(ranks, 5, 10, on_device, "ended after 20 of 40 bytes");
        mismatch(ranks, 0, 10, on_device, "ended after 0 of 40 bytes");
        /* The receive must fail even if the shorter message ends exactly at the end of a chunk. */
        mismatch(ranks, CHUNK_INTS, 2 * CHUNK_INTS, on_device, "ended after 4096 of 8192 bytes");
        mismatch(ranks, CHUNK_INTS, CHUNK_INTS + 1, on_device, "ended after 4096 of 4100 bytes");
        mismatch(ranks, 2 * CHUNK_INTS + 1, 8000, on_device, "ended after 8196 of 32000 bytes");
    }
}

static void
test_ranges(struct ranks *ranks)
{
    ferry_context *stranger = NULL;
    ferry_int_buffer buffer = ranks_numbers(ranks, 100, 0, false), foreign = {0};
    const ferry_context_options options = {.devices = "host"};
    CHECK_OK(ferry_context_create(&options, &stranger));
    CHECK_OK(ferry_int_create(stranger, 100, NULL, &foreign));
    ferry_mpi_range range = ranks_range(buffer, 1, 100), other = ranks_range(foreign, 0, 100),
                    none = {.buffer = NULL};
    ferry_mpi *mpi = ranks->mpi;
    CHECK_FAILS(ferry_mpi_send(mpi, &range, 0, 1), FERRY_ERROR_OUT_OF_RANGE,
                "100 elements at offset 1");
    range = ranks_range(buffer, 101, FERRY_REST);
    CHECK_FAILS(ferry_mpi_send(mpi, &range, 0, 1), FERRY_ERROR_OUT_OF_RANGE, "offset 101");
    range = (ferry_mpi_range){.buffer = buffer.raw, .count = 2, .rows = 11, .row_pitch = 10};
    CHECK_FAILS(ferry_mpi_receive(mpi, &range, 0, 1), FERRY_ERROR_OUT_OF_RANGE, "11 rows");
    range = (ferry_mpi_range){.buffer = buffer.raw, .count = 2, .rows = SIZE_MAX, .row_pitch = 10};
    CHECK_FAILS(ferry_mpi_receive(mpi, &range, 0, 1), FERRY_ERROR_OUT_OF_RANGE, "rows");
    range = (ferry_mpi_range){.buffer = buffer.raw, .count = 20, .rows = 2, .row_pitch = 19};
    CHECK_FAILS(ferry_mpi_receive(mpi, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "pitch of 19");
    range = (ferry_mpi_range){.buffer = buffer.raw, .count = FERRY_REST, .rows = 2};
    CHECK_FAILS(ferry_mpi_receive(mpi, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "FERRY_REST");
    range = (ferry_mpi_range){.buffer = buffer.raw, .element = ferry_float_element(), .count = 1};
    CHECK_FAILS(ferry_mpi_receive(mpi, &range, 0, 1), FERRY_ERROR_WRONG_TYPE, "float");
    CHECK_FAILS(ferry_mpi_send(mpi, &other, 0, 1), FERRY_ERROR_WRONG_CONTEXT, "another context");
    CHECK_FAILS(ferry_mpi_send(mpi, &none, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "buffer is NULL");
    CHECK_FAILS(ferry_mpi_send(mpi, NULL, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "range is NULL");
    CHECK_FAILS(ferry_mpi_receive(mpi, NULL, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "range is NULL");
    CHECK_FAILS(ferry_mpi_broadcast(mpi, NULL, 0), FERRY_ERROR_INVALID_ARGUMENT, "range is NULL");
    CHECK_FAILS(ferry_mpi_allgather(mpi, NULL, NULL), FERRY_ERROR_INVALID_ARGUMENT,
                "range is NULL");
    range = ranks_range(buffer, 0, 10);
    CHECK_FAILS(ferry_mpi_allgather(mpi, &range, &range), FERRY_ERROR_INVALID_ARGUMENT,
                "allgather");
    ferry_mpi_range odd = ranks_range(buffer, 0, (size_t)ranks->size + 1);
    CHECK_FAILS(ferry_mpi_allgather(mpi, &range, &odd), FERRY_ERROR_INVALID_ARGUMENT, "one block");
    CHECK_FAILS(ferry_mpi_send(NULL, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_receive(NULL, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_sendrecv(mpi, NULL, 0, 1, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "send: the range");
    CHECK_FAILS(ferry_mpi_sendrecv(mpi, &range, 0, 1, NULL, 0, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "receive: the range");
    CHECK_FAILS(ferry_mpi_exchange(NULL, NULL, 0), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_exchange(mpi, NULL, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "messages are NULL");
    CHECK_OK(ferry_mpi_exchange(mpi, NULL, 0));
    CHECK_FAILS(ferry_mpi_allreduce(NULL, &range, MPI_SUM), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_broadcast(NULL, &range, 0), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_allgather(NULL, &range, &range), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_gather(NULL, &range, &range, 0), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_scatter(NULL, &range, &range, 0), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    ferry_int_destroy(&buffer);
    ferry_int_destroy(&foreign);
    ferry_context_destroy(&stranger);
    check_still_works(ranks);
}

/* Checks that a call fails and sends nothing if a scope is open on its range. Also checks that a
 * receive into a read-only buffer fails. */
static void
test_busy(struct ranks *ranks)
{
    ferry_int_buffer buffer = ranks_numbers(ranks, 100, 0, false), wrap = {0};
    ferry_mpi_range range = ranks_range(buffer, 0, 100);
    ferry_scope scope;
    int *pointer, memory[10] = {0};
    CHECK_OK(ferry_int_update_host(buffer, &scope, &pointer));
    CHECK_FAILS(ferry_mpi_send(ranks->mpi, &range, 0, 1), FERRY_ERROR_BUSY, "open scope");
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &range, 0, 1), FERRY_ERROR_BUSY, "open scope");
    CHECK_FAILS(ferry_mpi_broadcast(ranks->mpi, &range, 0), FERRY_ERROR_BUSY, "open scope");
    CHECK_OK(ferry_scope_close(&scope));
    ferry_int_destroy(&buffer);
    const ferry_wrap_options read_only = {.read_only = true};
    CHECK_OK(ferry_int_wrap_host(ranks->context, 10, memory, &read_only, &wrap));
    range = ranks_range(wrap, 0, 10);
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &range, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, "read");
    ferry_int_destroy(&wrap);
    check_still_works(ranks);
}

/* Checks that each call that receives is refused if its target is a read-only view, and that a
 * read-only view can be sent. */
static void
test_read_only(struct ranks *ranks)
{
    static const char why[] = "is read-only";
    const ferry_status refused = FERRY_ERROR_INVALID_ARGUMENT;
    size_t size = (size_t)ferry_mpi_size(ranks->mpi);
    int rank = ferry_mpi_rank(ranks->mpi);
    ferry_int_buffer buffer = ranks_numbers(ranks, 10 * size, 0, true), lent = {0}, other;
    other = ranks_numbers(ranks, 10 * size, 0, true);
    CHECK_OK(ferry_int_view_read_only(buffer, 0, FERRY_REST, &lent));
    ferry_mpi_range fixed = ranks_range(lent, 0, 10), all = ranks_range(lent, 0, 10 * size);
    ferry_mpi_range free = ranks_range(other, 0, 10), source = ranks_range(other, 0, 10 * size);
    ferry_mpi_message message = {
        .direction = FERRY_MPI_RECEIVE, .rank = rank, .tag = 1, .range = fixed};
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &fixed, rank, 1), refused, why);
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, &message, 1), refused, why);
    CHECK_FAILS(ferry_mpi_allreduce(ranks->mpi, &fixed, MPI_SUM), refused, why);
    CHECK_FAILS(ferry_mpi_allgather(ranks->mpi, &free, &all), refused, why);
    CHECK_FAILS(ferry_mpi_scatter(ranks->mpi, &source, &fixed, 0), refused, why);
    if (rank == 0)
        CHECK_FAILS(ferry_mpi_gather(ranks->mpi, &free, &all, 0), refused, why);
    else
        CHECK_FAILS(ferry_mpi_broadcast(ranks->mpi, &fixed, 0), refused, why);
    /* The target has values at two places, or rows. */
    CHECK_OK(ferry_int_fill(buffer, 0, 5, 1, NULL));
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &all, rank, 1), refused, why);
    fixed.count = 2, fixed.rows = 2, fixed.row_pitch = 4;
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &fixed, rank, 1), refused, why);
    fixed.count = 0, fixed.rows = 1;
    CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &fixed, rank, 1), refused, why);
    fixed = ranks_range(lent, 0, 10);
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &fixed, rank, 2, &free, rank, 2));
    ferry_int_destroy(&lent);
    ferry_int_destroy(&buffer);
    ferry_int_destroy(&other);
    check_still_works(ranks);
}

static void
test_messages(struct ranks *ranks)
{
    ferry_int_buffer buffer = ranks_numbers(ranks, 100, 0, true);
    ferry_mpi_range range = ranks_range(buffer, 0, 10), behind = ranks_range(buffer, 0, 101);
    ferry_mpi_request *request = NULL;
    ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_SEND, .rank = 0, .tag = 4, .range = range},
        {.direction = FERRY_MPI_SEND, .rank = 0, .tag = 4, .range = range}};
    bool done;
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, messages, 2), FERRY_ERROR_INVALID_ARGUMENT,
                "messages 0 and 1");
    CHECK_FAILS(ferry_mpi_request_create(ranks->mpi, messages, 2, &request),
                FERRY_ERROR_INVALID_ARGUMENT, "messages 0 and 1");
    messages[0].direction = (ferry_mpi_direction)0;
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, messages, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "direction 0");
    messages[0].direction = FERRY_MPI_RECEIVE;
    messages[0].rank = MPI_ANY_SOURCE;
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, messages, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "one rank");
    messages[0].rank = 0;
    messages[0].tag = MPI_ANY_TAG;
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, messages, 1), FERRY_ERROR_INVALID_ARGUMENT,
                "one tag");
    messages[0] = (ferry_mpi_message){.direction = FERRY_MPI_SEND, .rank = 0, .range = behind};
    CHECK_FAILS(ferry_mpi_request_create(ranks->mpi, messages, 1, &request),
                FERRY_ERROR_OUT_OF_RANGE, "101 elements");
    CHECK_FAILS(ferry_mpi_request_create(ranks->mpi, messages, 1, NULL),
                FERRY_ERROR_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(ferry_mpi_request_create(NULL, messages, 1, &request), FERRY_ERROR_INVALID_ARGUMENT,
                "NULL");
    CHECK_FAILS(ferry_mpi_request_start(NULL), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_request_wait(NULL), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_request_test(NULL, &done), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK(!request);
    CHECK_OK(ferry_mpi_request_create(ranks->mpi, NULL, 0, &request));
    CHECK_FAILS(ferry_mpi_request_test(request, NULL), FERRY_ERROR_INVALID_ARGUMENT,
                "out_done is NULL");
    CHECK_OK(ferry_mpi_request_start(request));
    CHECK_OK(ferry_mpi_request_wait(request));
    ferry_mpi_request_destroy(&request);

    /* One message of this call fails, because its rank does not exist. The other messages must
     * arrive. */
    int next = (ranks->rank + 1) % ranks->size,
        previous = (ranks->rank + ranks->size - 1) % ranks->size;
    ferry_int_buffer other = ranks_numbers(ranks, 10, 5, true);
    ferry_mpi_message mixed[] = {
        {.direction = FERRY_MPI_SEND, .rank = 1000, .tag = 1, .range = range},
        {.direction = FERRY_MPI_SEND, .rank = next, .tag = 1, .range = range},
        {.direction = FERRY_MPI_RECEIVE,
         .rank = previous,
         .tag = 1,
         .range = ranks_range(other, 0, 10)}};
    CHECK_FAILS(ferry_mpi_exchange(ranks->mpi, mixed, 3), FERRY_ERROR_INVALID_ARGUMENT,
                "rank 1000");
    ranks_check_numbers(other, 0, 10, 0, 1);
    ferry_int_destroy(&other);
    ferry_int_destroy(&buffer);
    check_still_works(ranks);
}

static void
test_plan(struct ranks *ranks)
{
    ferry_mpi_traffic traffic;
    ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_SEND,
         .rank = 3,
         .range = {.element = ferry_int_element(), .count = 1025, .rows = 2}},
        {.direction = FERRY_MPI_RECEIVE,
         .rank = 3,
         .range = {.element = ferry_int_element(), .count = 1024}},
        {.direction = FERRY_MPI_SEND,
         .rank = MPI_PROC_NULL,
         .range = {.element = ferry_int_element(), .count = 1024}},
    };
    (void)ranks;
    CHECK_OK(ferry_mpi_plan(messages, 3, 4096, &traffic));
    CHECK(traffic.sent_messages == 3 && traffic.sent_bytes == 8200);
    CHECK(traffic.received_messages == 2 && traffic.received_bytes == 4096 &&
          traffic.chunk_copies == 4);
    CHECK_OK(ferry_mpi_plan(NULL, 0, 4096, &traffic));
    CHECK(traffic.sent_messages == 0 && traffic.chunk_copies == 0);
    CHECK_FAILS(ferry_mpi_plan(NULL, 1, 4096, &traffic), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_plan(messages, 1, 4096, NULL), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_plan(messages, 1, 0, &traffic), FERRY_ERROR_INVALID_ARGUMENT, "0 bytes");
    messages[0].range.count = SIZE_MAX - 1;
    CHECK_FAILS(ferry_mpi_plan(messages, 1, 4096, &traffic), FERRY_ERROR_OVERFLOW, "rows");
    messages[0].range.count = FERRY_REST;
    CHECK_FAILS(ferry_mpi_plan(messages, 1, 4096, &traffic), FERRY_ERROR_INVALID_ARGUMENT,
                "no count");
    messages[0].range.element = NULL;
    messages[0].range.count = 1;
    CHECK_FAILS(ferry_mpi_plan(messages, 1, 4096, &traffic), FERRY_ERROR_INVALID_ARGUMENT,
                "no element");
    messages[1].direction = (ferry_mpi_direction)7;
    CHECK_FAILS(ferry_mpi_plan(messages + 1, 1, 4096, &traffic), FERRY_ERROR_INVALID_ARGUMENT,
                "direction 7");
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"creation", test_creation}, {"rejected_by_mpi", test_rejected_by_mpi},
        {"counts", test_counts},     {"ranges", test_ranges},
        {"busy", test_busy},         {"read_only", test_read_only},
        {"messages", test_messages}, {"plan", test_plan},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
