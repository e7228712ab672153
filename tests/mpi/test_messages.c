/* SPDX-License-Identifier: MIT */
/* Checks that messages between ranks arrive complete, and how many bytes they copy between host and
 * device. Also checks in which order ferry-mpi copies and sends the chunks of a message. */

#include "ranks.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* -- what MPI is asked to do ------------------------------------------------------------------- */

/* Counts of the MPI calls that ferry-mpi makes. This program replaces the MPI functions and counts
 * their calls. */
static struct {
    unsigned int sends, receives, send_inits, receive_inits, waits;
    uint64_t sent_bytes, received_bytes;
    void (*before_send)(void); /* or NULL */
} seen;

int
MPI_Isend(const void *memory, int count, MPI_Datatype type, int rank, int tag,
          MPI_Comm communicator, MPI_Request *request)
{
    if (seen.before_send)
        seen.before_send();
    seen.sends++;
    seen.sent_bytes += (unsigned int)count;
    return PMPI_Isend(memory, count, type, rank, tag, communicator, request);
}

int
MPI_Irecv(void *memory, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
          MPI_Request *request)
{
    seen.receives++;
    seen.received_bytes += (unsigned int)count;
    return PMPI_Irecv(memory, count, type, rank, tag, communicator, request);
}

int
MPI_Send_init(const void *memory, int count, MPI_Datatype type, int rank, int tag,
              MPI_Comm communicator, MPI_Request *request)
{
    seen.send_inits++;
    return PMPI_Send_init(memory, count, type, rank, tag, communicator, request);
}

int
MPI_Recv_init(void *memory, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
              MPI_Request *request)
{
    seen.receive_inits++;
    return PMPI_Recv_init(memory, count, type, rank, tag, communicator, request);
}

int
MPI_Waitsome(int count, MPI_Request *requests, int *out_count, int *indices, MPI_Status *statuses)
{
    seen.waits++;
    return PMPI_Waitsome(count, requests, out_count, indices, statuses);
}

int
MPI_Testsome(int count, MPI_Request *requests, int *out_count, int *indices, MPI_Status *statuses)
{
    seen.waits++;
    return PMPI_Testsome(count, requests, out_count, indices, statuses);
}

/* Replaces the MPI library's function and reports that MPI supports CUDA, unless the device is a
 * GPU. Every MPI can use pointers to fakecuda's device memory, because it is host memory. */
int MPIX_Query_cuda_support(void);

int
MPIX_Query_cuda_support(void)
{
    return !ranks_on_gpu();
}

static void
forget(void)
{
    memset(&seen, 0, sizeof(seen));
}

/* -- sends ------------------------------------------------------------------------------------- */

static const size_t lengths[] = {
    0, 1, 1000, CHUNK_INTS, CHUNK_INTS + 1, 3 * CHUNK_INTS, 3 * CHUNK_INTS + 7, 40000};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* Sends a range from rank 0 to the last rank. The range begins inside the buffer. Elements outside
 * the range must not change. */
static void
send_one(struct ranks *ranks, ferry_mpi *mpi, size_t length, bool from_device, bool to_device,
         bool by_chunks)
{
    int last = ranks->size - 1;
    bool sends = ranks->rank == 0, here = sends || ranks->rank == last;
    ferry_int_buffer buffer =
        ranks_numbers(ranks, length + 9, sends ? 100 : -1000000, sends ? from_device : to_device);
    ferry_mpi_range range = ranks_range(buffer, 4, length);
    ranks_reset(ranks);
    if (sends)
        CHECK_OK(ferry_mpi_send(mpi, &range, last, 7));
    else if (here)
        CHECK_OK(ferry_mpi_receive(mpi, &range, 0, 7));
    bool on_device = sends ? from_device : to_device;
    uint64_t cost = here && on_device && by_chunks ? ranks_cost(ranks, length) : 0;
    CHECK(ranks_down(ranks) == (sends ? cost : 0));
    CHECK(ranks_up(ranks) == (sends ? 0 : cost));
    if (ranks->rank == last && !sends) {
        if (length > 0 && ranks->separate) /* the values must be current where the whole buffer was
                                              current before the message */
            CHECK(ferry_buffer_is_current(buffer.raw, to_device ? 1 : 0) &&
                  !ferry_buffer_is_current(buffer.raw, to_device ? 0 : 1));
        ranks_check_numbers(buffer, 0, 4, -1000000, 1);
        ranks_check_numbers(buffer, 4, length, 104, 1);
        ranks_check_numbers(buffer, 4 + length, 5, -1000000 + 4 + (int)length, 1);
    }
    ferry_int_destroy(&buffer);
}

static void
test_send(struct ranks *ranks)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        for (int places = 0; places < 4; places++)
            send_one(ranks, ranks->mpi, lengths[i], places & 1, places & 2, true);
    }
}

static void
test_device_pointers(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    if (ranks_on_gpu()) {
        ranks_skip("this MPI may not take pointers of a GPU");
        return;
    }
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_DEVICE, .chunk_bytes = CHUNK_BYTES};
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi));
    CHECK(ferry_mpi_uses_device_pointers(mpi, 1) && !ferry_mpi_uses_device_pointers(mpi, 0) &&
          !ferry_mpi_uses_device_pointers(mpi, 2) && !ferry_mpi_uses_device_pointers(NULL, 1));
    for (size_t i = 0; i < LENGTHS; i++)
        send_one(ranks, mpi, lengths[i], true, true, false);
    ferry_mpi_destroy(&mpi);
}

/* Checks messages between a rank that passes device pointers to MPI and a rank that uses chunks. */
static void
test_unlike_paths(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    if (ranks_on_gpu()) {
        ranks_skip("this MPI may not take pointers of a GPU");
        return;
    }
    const ferry_mpi_options options = {.path = ranks->rank == 0 ? FERRY_MPI_PATH_DEVICE
                                                                : FERRY_MPI_PATH_CHUNKS,
                                       .chunk_bytes = CHUNK_BYTES << ranks->rank,
                                       .chunk_count = (uint32_t)(1 + ranks->rank)};
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi));
    CHECK(ferry_mpi_chunk_bytes(mpi) == CHUNK_BYTES);
    for (size_t i = 0; i < LENGTHS; i++)
        send_one(ranks, mpi, lengths[i], true, true, ranks->rank != 0);
    ferry_mpi_destroy(&mpi);
}

/* Checks that ferry-mpi passes device pointers to MPI if MPI supports CUDA. It must pass only
 * pointers of CUDA devices. */
static void
test_automatic_path(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    ferry_place_info info = {.kind = ""};
    CHECK_OK(ferry_context_get_place_info(ranks->context, 1, &info));
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, NULL, &mpi));
    bool pointers = strcmp(info.kind, "cuda") == 0 && MPIX_Query_cuda_support();
    CHECK(ferry_mpi_uses_device_pointers(mpi, 1) == pointers);
    CHECK(ferry_mpi_chunk_bytes(mpi) > CHUNK_BYTES);
    send_one(ranks, mpi, 40000, true, true, !pointers);
    ferry_mpi_destroy(&mpi);
}

/* Checks that MPI gets no device pointers while UCX is loaded without its part for CUDA. */
static void
test_ucx_without_cuda(struct ranks *ranks)
{
    ferry_place_info info = {.kind = ""};
    CHECK_OK(ferry_context_get_place_info(ranks->context, 1, &info));
    bool pointers = strcmp(info.kind, "cuda") == 0 && MPIX_Query_cuda_support();
    const char *const parts[] = {FAKE_UCP, FAKE_UCT_CUDA};
    for (int loaded = 0; loaded < 2; loaded++) {
        ferry_mpi *mpi = NULL;
        CHECK(dlopen(parts[loaded], RTLD_NOW) != NULL);
        CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, NULL, &mpi));
        CHECK(ferry_mpi_uses_device_pointers(mpi, 1) == (pointers && loaded == 1));
        ferry_mpi_destroy(&mpi);
    }
}

/* Receives a message into a buffer that was never written. The values must be current at the place
 * of the receive's stream. */
static void
test_place_of_stream(struct ranks *ranks)
{
    int next = (ranks->rank + 1) % ranks->size,
        previous = (ranks->rank + ranks->size - 1) % ranks->size;
    ferry_int_buffer source = ranks_numbers(ranks, 5000, ranks->rank, true), target = {0};
    CHECK_OK(ferry_int_create(ranks->context, 5000, NULL, &target));
    ferry_mpi_range send = ranks_range(source, 0, FERRY_REST),
                    receive = ranks_range(target, 0, FERRY_REST);
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &send, next, 1, &receive, previous, 1));
    CHECK(ferry_buffer_is_current(target.raw, 0));
    receive.stream = ranks->device;
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &send, next, 1, &receive, previous, 1));
    CHECK(!ranks->separate ||
          (ferry_buffer_is_current(target.raw, 1) && !ferry_buffer_is_current(target.raw, 0)));
    ranks_check_numbers(target, 0, 5000, previous, 1);
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
}

/* Two ranks send large messages to each other at the same time. MPI cannot buffer such a message
 * before its receive begins. Both messages must arrive. */
static void
test_large_both_ways(struct ranks *ranks)
{
    int other = ranks->rank ^ 1;
    size_t count = 300000;
    ferry_int_buffer mine = ranks_numbers(ranks, count, ranks->rank * 1000000, true),
                     theirs = ranks_numbers(ranks, count, 0, true);
    ferry_mpi_range send = ranks_range(mine, 0, count), receive = ranks_range(theirs, 0, count);
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &send, other, 0, &receive, other, 0));
    ranks_check_numbers(theirs, 0, count, other * 1000000, 1);
    ferry_int_destroy(&mine);
    ferry_int_destroy(&theirs);
}

/* Checks messages with elements larger than a chunk, and with elements that exactly fill a chunk.
 */
static void
test_large_elements(struct ranks *ranks)
{
    static const ferry_field fields[] = {
        {.name = "x", .kind = FERRY_KIND_INT, .bits = 32, .count = 1500}};
    ferry_element element = {.name = "block",
                             .c_type = "struct block",
                             .bytes = 6000,
                             .align = 4,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = fields,
                             .field_count = 1};
    element.identity = ferry_element_identity(&element);
    int other = ranks->rank ^ 1;
    int *values = malloc(5 * 6000);
    ferry_buffer *mine = NULL, *theirs = NULL;
    for (int i = 0; i < 5 * 1500; i++)
        values[i] = ranks->rank * 7500 + i;
    const ferry_copy_options to_device = {.stream = ranks->device};
    CHECK_OK(ferry_buffer_create(ranks->context, &element, 5, NULL, &mine));
    CHECK_OK(ferry_buffer_create(ranks->context, &element, 5, NULL, &theirs));
    CHECK_OK(ferry_buffer_copy_from(mine, NULL, 0, 5, values, &to_device));
    const ferry_mpi_range send = {.buffer = mine, .count = 5};
    const ferry_mpi_range receive = {
        .buffer = theirs, .element = &element, .count = FERRY_REST, .stream = ranks->device};
    CHECK_OK(ferry_mpi_sendrecv(ranks->mpi, &send, other, 0, &receive, other, 0));
    CHECK_OK(ferry_buffer_copy_to(theirs, NULL, 0, 5, values, NULL));
    int wrong = 0;
    for (int i = 0; i < 5 * 1500; i++)
        wrong += values[i] != other * 7500 + i;
    CHECK(wrong == 0);
    ferry_buffer_destroy(&mine);
    ferry_buffer_destroy(&theirs);
    free(values);
}

/* -- halos ------------------------------------------------------------------------------------- */

#define ROWS    20
#define COLUMNS 700

/* Lists the four messages that exchange boundary rows of a matrix with the two neighbouring ranks.
 * The first and the last row of the matrix receive rows of the neighbours. */
static void
list_halos(const struct ranks *ranks, ferry_int_buffer plate, ferry_mpi_message messages[4])
{
    int up = ranks->rank > 0 ? ranks->rank - 1 : MPI_PROC_NULL;
    int down = ranks->rank + 1 < ranks->size ? ranks->rank + 1 : MPI_PROC_NULL;
    const int others[4] = {up, down, up, down};
    const size_t rows[4] = {1, ROWS - 2, 0, ROWS - 1};
    for (int i = 0; i < 4; i++) {
        messages[i] = (ferry_mpi_message){.direction = i < 2 ? FERRY_MPI_SEND : FERRY_MPI_RECEIVE,
                                          .rank = others[i],
                                          .tag = i % 2 == (i < 2 ? 0 : 1) ? 10 : 11,
                                          .range = {.buffer = plate.raw,
                                                    .element = ferry_int_element(),
                                                    .offset = rows[i] * COLUMNS,
                                                    .count = COLUMNS}};
    }
}

static void
check_halos(const struct ranks *ranks, ferry_int_buffer plate)
{
    int first = ranks->rank * 100000;
    if (ranks->rank > 0)
        ranks_check_numbers(plate, 0, COLUMNS, first - 100000 + (ROWS - 2) * COLUMNS, 1);
    ranks_check_numbers(plate, COLUMNS, (ROWS - 2) * COLUMNS, first + COLUMNS, 1);
    if (ranks->rank + 1 < ranks->size)
        ranks_check_numbers(plate, (ROWS - 1) * COLUMNS, COLUMNS, first + 100000 + COLUMNS, 1);
}

static size_t
neighbours(const struct ranks *ranks)
{
    return (size_t)(ranks->rank > 0) + (ranks->rank + 1 < ranks->size);
}

static void
test_halo(struct ranks *ranks)
{
    ferry_mpi_message messages[4];
    ferry_int_buffer plate = ranks_numbers(ranks, ROWS * COLUMNS, ranks->rank * 100000, true);
    list_halos(ranks, plate, messages);
    ranks_reset(ranks);
    forget();
    CHECK_OK(ferry_mpi_exchange(ranks->mpi, messages, 4));
    CHECK(ranks_down(ranks) == ranks_cost(ranks, neighbours(ranks) * COLUMNS));
    CHECK(ranks_up(ranks) == ranks_cost(ranks, neighbours(ranks) * COLUMNS));
    ferry_mpi_traffic traffic = {.sent_messages = 0};
    CHECK_OK(ferry_mpi_plan(messages, 4, ferry_mpi_chunk_bytes(ranks->mpi), &traffic));
    CHECK(seen.sends == traffic.sent_messages && seen.sent_bytes == traffic.sent_bytes);
    CHECK(seen.receives == traffic.received_messages &&
          seen.received_bytes == traffic.received_bytes);
    CHECK(traffic.sent_bytes == neighbours(ranks) * COLUMNS * sizeof(int));
    check_halos(ranks, plate);
    ferry_int_destroy(&plate);
}

static void
test_persistent(struct ranks *ranks)
{
    enum { STEPS = 20 };
    ferry_mpi_message messages[4];
    ferry_mpi_request *request = NULL;
    ferry_int_buffer plate = ranks_numbers(ranks, ROWS * COLUMNS, ranks->rank * 100000, true);
    ferry_buffer *raw = plate.raw;
    list_halos(ranks, plate, messages);
    CHECK_OK(ferry_mpi_request_create(ranks->mpi, messages, 4, &request));
    memset(messages, 0xff, sizeof(messages)); /* the request has copied them */
    CHECK_OK(ferry_mpi_request_wait(request));
    bool done = false;
    CHECK_OK(ferry_mpi_request_test(request, &done));
    CHECK(done);
    ranks_reset(ranks);
    forget();
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(ferry_mpi_request_start(request));
        done = false;
        while (step % 2 == 0 && !done)
            CHECK_OK(ferry_mpi_request_test(request, &done));
        CHECK_OK(ferry_mpi_request_wait(request));
    }
    CHECK(ranks_down(ranks) == ranks_cost(ranks, STEPS * neighbours(ranks) * COLUMNS));
    CHECK(ranks_up(ranks) == ranks_cost(ranks, STEPS * neighbours(ranks) * COLUMNS));
    /* Each persistent message must have been initialized once, not once for each start. */
    CHECK(seen.send_inits == neighbours(ranks) && seen.receive_inits == neighbours(ranks) &&
          seen.sends == 0 && seen.receives == 0);
    check_halos(ranks, plate);

    /* A request that is not complete must not be started again. Its ranges must be protected. */
    CHECK_OK(ferry_mpi_request_start(request));
    CHECK_FAILS(ferry_mpi_request_start(request), FERRY_ERROR_INVALID_STATE, "not complete");
    if (neighbours(ranks) > 0) {
        ferry_scope scope;
        int *pointer;
        size_t sent = ranks->rank > 0 ? COLUMNS : (ROWS - 2) * COLUMNS;
        CHECK(ferry_int_update_host_range(plate, sent, COLUMNS, &scope, &pointer) ==
              FERRY_ERROR_BUSY);
    }
    ferry_int_destroy(&plate); /* the request also owns the buffer */
    CHECK(ferry_buffer_count(raw) == ROWS * COLUMNS);
    ferry_mpi_request_destroy(&request); /* waits for the end of the request */
    CHECK(!request);
    ferry_mpi_request_destroy(&request);
    ferry_mpi_request_destroy(NULL);
}

/* Checks a persistent request that sends several chunks. The last chunk is shorter than the others.
 */
static void
test_persistent_large(struct ranks *ranks)
{
    size_t count = 5 * CHUNK_INTS + 3;
    int other = ranks->rank ^ 1;
    ferry_int_buffer mine = ranks_numbers(ranks, count, ranks->rank, true),
                     theirs = ranks_numbers(ranks, count, 0, true);
    const ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_SEND,
         .rank = other,
         .tag = 3,
         .range = ranks_range(mine, 0, FERRY_REST)},
        {.direction = FERRY_MPI_RECEIVE,
         .rank = other,
         .tag = 3,
         .range = ranks_range(theirs, 0, FERRY_REST)},
    };
    ferry_mpi_request *request = NULL;
    CHECK_OK(ferry_mpi_request_create(ranks->mpi, messages, 2, &request));
    for (int step = 0; step < 5; step++) {
        CHECK_OK(ferry_int_fill(theirs, 0, count, -1, NULL));
        CHECK_OK(ferry_mpi_request_start(request));
        CHECK_OK(ferry_mpi_request_wait(request));
        ranks_check_numbers(theirs, 0, count, other, 1);
    }
    ferry_mpi_request_destroy(&request);
    ferry_int_destroy(&mine);
    ferry_int_destroy(&theirs);
}

/* -- columns ----------------------------------------------------------------------------------- */

/* Sends columns of a matrix to columns of a second matrix, and to a contiguous range. Only the
 * bytes of these columns may be copied between host and device. */
static void
send_columns(struct ranks *ranks, size_t rows, size_t columns, size_t width, bool on_device)
{
    bool sends = ranks->rank == 0;
    int last = ranks->size - 1;
    ferry_int_buffer plate = ranks_numbers(ranks, rows * columns, sends ? 0 : -5000000, on_device);
    ferry_int_buffer packed = ranks_numbers(ranks, rows * width, 0, on_device);
    const ferry_mpi_range strided = {
        .buffer = plate.raw, .offset = 1, .count = width, .rows = rows, .row_pitch = columns};
    const ferry_mpi_range whole = ranks_range(packed, 0, FERRY_REST);
    ranks_reset(ranks);
    if (sends) {
        CHECK_OK(ferry_mpi_send(ranks->mpi, &strided, last, 1));
        CHECK_OK(ferry_mpi_send(ranks->mpi, &strided, last, 1));
    } else if (ranks->rank == last) {
        CHECK_OK(ferry_mpi_receive(ranks->mpi, &strided, 0, 1));
        CHECK_OK(ferry_mpi_receive(ranks->mpi, &whole, 0, 1));
    }
    uint64_t cost = on_device ? ranks_cost(ranks, 2 * rows * width) : 0;
    CHECK(ranks_down(ranks) == (sends ? cost : 0));
    CHECK(ranks_up(ranks) == (ranks->rank == last && !sends ? cost : 0));
    for (size_t row = 0; ranks->rank == last && !sends && row < rows; row++) {
        int first = (int)(row * columns);
        ranks_check_numbers(plate, row * columns, 1, -5000000 + first, 1);
        ranks_check_numbers(plate, row * columns + 1, width, first + 1, 1);
        ranks_check_numbers(plate, row * columns + 1 + width, columns - 1 - width,
                            -5000000 + first + 1 + (int)width, 1);
        ranks_check_numbers(packed, row * width, width, first + 1, 1);
    }
    ferry_int_destroy(&plate);
    ferry_int_destroy(&packed);
}

static void
test_columns(struct ranks *ranks)
{
    for (int on_device = 0; on_device < 2; on_device++) {
        send_columns(ranks, 3, 10, 2, on_device);
        send_columns(ranks, 700, 11, 3, on_device);    /* chunks end inside rows */
        send_columns(ranks, 3, 2500, 2400, on_device); /* rows larger than chunks */
    }
}

/* -- overlap ----------------------------------------------------------------------------------- */

static struct ranks *watched;
static unsigned int copies_before_send[64], waits_before_send[64];

static void
note_copies(void)
{
    ferry_transfer_stats stats = {.upload.bytes = 0};
    CHECK_OK(ferry_context_get_transfer_stats(watched->context, &stats));
    if (seen.sends < 64) {
        copies_before_send[seen.sends] = (unsigned int)stats.download.copies;
        waits_before_send[seen.sends] = seen.waits;
    }
}

/* Checks that ferry-mpi copies a chunk while MPI sends the previous chunk. The send of a chunk must
 * begin before the next chunk is copied. */
static void
test_overlap(struct ranks *ranks)
{
    enum { CHUNKS = 10 };
    size_t count = CHUNKS * CHUNK_INTS - 1;
    ferry_int_buffer buffer = ranks_numbers(ranks, count, ranks->rank, true);
    ferry_mpi_range range = ranks_range(buffer, 0, count);
    ranks_reset(ranks);
    forget();
    watched = ranks;
    seen.before_send = note_copies;
    if (ranks->rank == 0)
        CHECK_OK(ferry_mpi_send(ranks->mpi, &range, ranks->size - 1, 1));
    else if (ranks->rank == ranks->size - 1)
        CHECK_OK(ferry_mpi_receive(ranks->mpi, &range, 0, 1));
    seen.before_send = NULL;
    CHECK(seen.sends == (ranks->rank == 0 ? CHUNKS : 0));
    /* ferry-mpi must have copied the second chunk without waiting for the send of the first chunk.
     */
    if (ranks->rank == 0)
        CHECK(copies_before_send[1] == (ranks->separate ? 2 : 0) && waits_before_send[1] == 0);
    for (unsigned int i = 0; ranks->rank == 0 && i < CHUNKS; i++)
        CHECK(copies_before_send[i] == (ranks->separate ? i + 1 : 0));
    ferry_int_destroy(&buffer);
}

/* -- failures on the way ----------------------------------------------------------------------- */

static ferry_int_buffer shrinking;

static void
shrink(void)
{
    if (seen.sends == 2)
        CHECK_OK(ferry_int_resize(shrinking, 1));
}

/* Checks that a sender whose copy fails still ends its message. Otherwise the receiver would wait
 * forever. After the failure both ranks must be able to send and receive. */
static void
test_sender_fails(struct ranks *ranks)
{
    size_t rows = 4 * CHUNK_INTS;
    ferry_int_buffer buffer = ranks_numbers(ranks, 2 * rows, 0, true);
    const ferry_mpi_range range = {.buffer = buffer.raw, .count = 1, .rows = rows, .row_pitch = 2};
    forget();
    shrinking = buffer;
    seen.before_send = ranks->rank == 0 ? shrink : NULL;
    if (ranks->rank == 0)
        CHECK_FAILS(ferry_mpi_send(ranks->mpi, &range, ranks->size - 1, 1),
                    FERRY_ERROR_OUT_OF_RANGE, "copy a chunk");
    else if (ranks->rank == ranks->size - 1)
        CHECK_FAILS(ferry_mpi_receive(ranks->mpi, &range, 0, 1), FERRY_ERROR_OUT_OF_RANGE,
                    "ended after");
    seen.before_send = NULL;
    ferry_int_destroy(&buffer);
    send_one(ranks, ranks->mpi, 5000, true, true, true);
}

/* Checks that a receiver that cannot store a message still receives the bytes of the message.
 * Otherwise the sender would wait forever. */
static void
test_receiver_fails(struct ranks *ranks)
{
    size_t count = 100000;
    int other = ranks->rank ^ 1;
    bool fails = ranks->rank % 2 == 1;
    ferry_int_buffer mine = ranks_numbers(ranks, count, 0, true),
                     theirs = ranks_numbers(ranks, 2 * count, 0, true);
    const ferry_mpi_range send = ranks_range(mine, 0, count);
    const ferry_mpi_range receive = {
        .buffer = theirs.raw, .count = 1, .rows = count, .row_pitch = 2};
    forget();
    shrinking = theirs;
    seen.before_send = fails ? shrink : NULL;
    ferry_status status = ferry_mpi_sendrecv(ranks->mpi, &send, other, 0, &receive, other, 0);
    seen.before_send = NULL;
    if (fails)
        CHECK_FAILS(status, FERRY_ERROR_OUT_OF_RANGE, "copy a chunk to the device");
    else
        CHECK_OK(status);
    ferry_int_destroy(&mine);
    ferry_int_destroy(&theirs);
    send_one(ranks, ranks->mpi, 5000, true, true, true);
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"send", test_send},
        {"device_pointers", test_device_pointers},
        {"unlike_paths", test_unlike_paths},
        {"automatic_path", test_automatic_path},
        {"place_of_stream", test_place_of_stream},
        {"large_both_ways", test_large_both_ways},
        {"large_elements", test_large_elements},
        {"halo", test_halo},
        {"persistent", test_persistent},
        {"persistent_large", test_persistent_large},
        {"columns", test_columns},
        {"overlap", test_overlap},
        {"sender_fails", test_sender_fails},
        {"receiver_fails", test_receiver_fails},
        {"ucx_without_cuda", test_ucx_without_cuda},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
