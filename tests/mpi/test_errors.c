/* SPDX-License-Identifier: MIT */
/*
 * Checks that ferry-mpi turns every error of every MPI function into a status with MPI's text. This
 * program replaces the MPI functions that ferry-mpi calls, and ferry_copy(). Each replacement calls
 * the function, or fails if a test case requests it. Each rank uses only MPI_COMM_SELF.
 */

#include "ranks.h"

#include <dlfcn.h>
#include <string.h>

/* -- functions that fail ----------------------------------------------------------------------- */

/* The MPI call that must fail. The first `skipped` calls of the MPI function `name` succeed, and
 * the next call fails with `code`. */
static struct {
    const char *name;
    int code, skipped;
} failing;

static bool
fails(const char *name)
{
    if (!failing.name || strcmp(failing.name, name) != 0 || failing.skipped-- > 0)
        return false;
    failing.name = NULL;
    return true;
}

#define MAY_FAIL(name, parameters, arguments)                                                      \
    int name parameters                                                                            \
    {                                                                                              \
        int code = failing.code;                                                                   \
        return fails(#name) ? code : P##name arguments;                                            \
    }

MAY_FAIL(MPI_Isend,
         (const void *m, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request *q),
         (m, n, t, r, g, c, q))
MAY_FAIL(MPI_Irecv, (void *m, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request *q),
         (m, n, t, r, g, c, q))
MAY_FAIL(MPI_Send_init,
         (const void *m, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request *q),
         (m, n, t, r, g, c, q))
MAY_FAIL(MPI_Recv_init, (void *m, int n, MPI_Datatype t, int r, int g, MPI_Comm c, MPI_Request *q),
         (m, n, t, r, g, c, q))
MAY_FAIL(MPI_Start, (MPI_Request * q), (q))
MAY_FAIL(MPI_Waitsome, (int n, MPI_Request *q, int *o, int *i, MPI_Status *s), (n, q, o, i, s))
MAY_FAIL(MPI_Testsome, (int n, MPI_Request *q, int *o, int *i, MPI_Status *s), (n, q, o, i, s))
MAY_FAIL(MPI_Iallreduce,
         (const void *s, void *t, int n, MPI_Datatype d, MPI_Op o, MPI_Comm c, MPI_Request *q),
         (s, t, n, d, o, c, q))
MAY_FAIL(MPI_Ibcast, (void *m, int n, MPI_Datatype t, int r, MPI_Comm c, MPI_Request *q),
         (m, n, t, r, c, q))
MAY_FAIL(MPI_Iallgather,
         (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c,
          MPI_Request *q),
         (s, n, t, r, m, u, c, q))
MAY_FAIL(MPI_Igather,
         (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, int o, MPI_Comm c,
          MPI_Request *q),
         (s, n, t, r, m, u, o, c, q))
MAY_FAIL(MPI_Iscatter,
         (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, int o, MPI_Comm c,
          MPI_Request *q),
         (s, n, t, r, m, u, o, c, q))
MAY_FAIL(MPI_Comm_dup, (MPI_Comm c, MPI_Comm *o), (c, o))
MAY_FAIL(MPI_Comm_rank, (MPI_Comm c, int *o), (c, o))
MAY_FAIL(MPI_Comm_size, (MPI_Comm c, int *o), (c, o))
MAY_FAIL(MPI_Comm_test_inter, (MPI_Comm c, int *o), (c, o))
MAY_FAIL(MPI_Allreduce, (const void *s, void *t, int n, MPI_Datatype d, MPI_Op o, MPI_Comm c),
         (s, t, n, d, o, c))
MAY_FAIL(MPI_Bcast, (void *m, int n, MPI_Datatype t, int r, MPI_Comm c), (m, n, t, r, c))
MAY_FAIL(MPI_Barrier, (MPI_Comm c), (c))
MAY_FAIL(MPI_Type_contiguous, (int n, MPI_Datatype t, MPI_Datatype *o), (n, t, o))
MAY_FAIL(MPI_Type_create_struct,
         (int n, const int *l, const MPI_Aint *a, const MPI_Datatype *t, MPI_Datatype *o),
         (n, l, a, t, o))
MAY_FAIL(MPI_Type_create_resized, (MPI_Datatype t, MPI_Aint l, MPI_Aint e, MPI_Datatype *o),
         (t, l, e, o))
MAY_FAIL(MPI_Type_commit, (MPI_Datatype * t), (t))

/* Completes the MPI request even if the test case has requested a failure of MPI_Wait(), so that no
 * request stays pending. */
int
MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    int code = PMPI_Wait(request, status), wanted = failing.code;
    return fails("MPI_Wait") ? wanted : code;
}

/* Copies into buffers that must fail: those of more than one region, or those into `into`. */
static struct {
    bool several;
    const ferry_buffer *into;
} failing_copies;

ferry_status
ferry_copy(const ferry_copy_region *regions, size_t count, const ferry_copy_options *options)
{
    ferry_status (*copy)(const ferry_copy_region *, size_t, const ferry_copy_options *);
    *(void **)&copy = dlsym(RTLD_NEXT, "ferry_copy");
    bool refused = failing_copies.several && count > 1 && regions->target.buffer;
    for (size_t i = 0; i < count; i++)
        refused =
            refused || (failing_copies.into && regions[i].target.buffer == failing_copies.into);
    return refused ? FERRY_ERROR_OUT_OF_MEMORY : copy(regions, count, options);
}

/* -- what is called ---------------------------------------------------------------------------- */

static ferry_status
create(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    ferry_mpi *other = NULL;
    (void)mpi;
    (void)range;
    ferry_status status = ferry_mpi_create(ranks->context, MPI_COMM_SELF, NULL, &other);
    CHECK((status == FERRY_OK) == (other != NULL));
    ferry_mpi_destroy(&other);
    return status;
}

static ferry_status
send(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return ferry_mpi_send(mpi, range, 0, 3);
}

static ferry_status
receive(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return ferry_mpi_receive(mpi, range, 0, 3);
}

/* Runs a persistent request with two messages: one message sends what the other receives. */
static ferry_status
run_request(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    ferry_mpi_request *request = NULL;
    ferry_int_buffer target = ranks_numbers(ranks, range->count, 0, true);
    const ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_RECEIVE,
         .rank = 0,
         .tag = 4,
         .range = ranks_range(target, 0, range->count)},
        {.direction = FERRY_MPI_SEND, .rank = 0, .tag = 4, .range = *range}};
    CHECK_OK(ferry_mpi_request_create(mpi, messages, 2, &request));
    ferry_status status = ferry_mpi_request_start(request);
    if (status == FERRY_OK)
        status = ferry_mpi_request_wait(request);
    ferry_mpi_request_destroy(&request);
    ferry_int_destroy(&target);
    return status;
}

/* Creates a persistent request whose only message has no matching message, so the request cannot
 * complete. */
static ferry_mpi_request *
make_half(ferry_mpi *mpi, ferry_mpi_direction direction, const ferry_mpi_range *range)
{
    ferry_mpi_request *request = NULL;
    const ferry_mpi_message message = {
        .direction = direction, .rank = 0, .tag = 5, .range = *range};
    CHECK_OK(ferry_mpi_request_create(mpi, &message, 1, &request));
    return request;
}

static ferry_status
run_half(ferry_mpi *mpi, ferry_mpi_direction direction, const ferry_mpi_range *range)
{
    ferry_mpi_request *request = make_half(mpi, direction, range);
    ferry_status status = ferry_mpi_request_start(request);
    if (status == FERRY_OK)
        status = ferry_mpi_request_wait(request);
    ferry_mpi_request_destroy(&request);
    return status;
}

static ferry_status
start_send(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return run_half(mpi, FERRY_MPI_SEND, range);
}

static ferry_status
start_receive(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return run_half(mpi, FERRY_MPI_RECEIVE, range);
}

static ferry_status
poll_receive(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    ferry_mpi_request *request = make_half(mpi, FERRY_MPI_RECEIVE, range);
    bool done = false;
    (void)ranks;
    CHECK_OK(ferry_mpi_request_start(request));
    ferry_status status = ferry_mpi_request_test(request, &done);
    CHECK(done);
    ferry_mpi_request_destroy(&request);
    return status;
}

static ferry_status
allreduce(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return ferry_mpi_allreduce(mpi, range, MPI_SUM);
}

static ferry_status
broadcast(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    (void)ranks;
    return ferry_mpi_broadcast(mpi, range, 0);
}

/* Copies a range to a new buffer of the same length with a collective operation, which `kind`
 * selects. */
static ferry_status
move(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range, int kind)
{
    ferry_int_buffer other = ranks_numbers(ranks, range->count, 0, true);
    const ferry_mpi_range target = ranks_range(other, 0, range->count);
    ferry_status status = kind == 0   ? ferry_mpi_allgather(mpi, range, &target)
                          : kind == 1 ? ferry_mpi_gather(mpi, range, &target, 0)
                                      : ferry_mpi_scatter(mpi, range, &target, 0);
    ferry_int_destroy(&other);
    return status;
}

static ferry_status
allgather(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    return move(mpi, ranks, range, 0);
}

static ferry_status
gather(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    return move(mpi, ranks, range, 1);
}

static ferry_status
scatter(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    return move(mpi, ranks, range, 2);
}

static ferry_status
share(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_SHARED};
    ferry_int_buffer buffer = {0};
    CHECK_OK(ferry_int_create(ranks->context, range->count, &options, &buffer));
    ferry_status status = ferry_mpi_share(mpi, NULL, buffer.raw, 0, NULL, NULL);
    ferry_int_destroy(&buffer);
    return status;
}

static ferry_status
make_type(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range)
{
    static const ferry_field fields[] = {
        {.name = "x", .kind = FERRY_KIND_INT, .bits = 32, .count = 3}};
    ferry_element element = {.name = "three",
                             .c_type = "struct three",
                             .bytes = 16,
                             .align = 4,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = fields,
                             .field_count = 1};
    MPI_Datatype type = MPI_DATATYPE_NULL;
    (void)mpi;
    (void)ranks;
    (void)range;
    element.identity = ferry_element_identity(&element);
    ferry_status status = ferry_mpi_create_datatype(&element, &type);
    if (status == FERRY_OK)
        MPI_Type_free(&type);
    return status;
}

static const struct {
    const char *function;
    ferry_status (*call)(ferry_mpi *mpi, struct ranks *ranks, ferry_mpi_range *range);
} calls[] = {
    {"MPI_Comm_test_inter", create},
    {"MPI_Comm_dup", create},
    {"MPI_Comm_rank", create},
    {"MPI_Comm_size", create},
    {"MPI_Allreduce", create},
    {"MPI_Isend", send},
    {"MPI_Irecv", receive},
    {"MPI_Send_init", start_send},
    {"MPI_Recv_init", start_receive},
    {"MPI_Start", start_receive},
    {"MPI_Waitsome", start_receive},
    {"MPI_Testsome", poll_receive},
    {"MPI_Iallreduce", allreduce},
    {"MPI_Ibcast", broadcast},
    {"MPI_Iallgather", allgather},
    {"MPI_Igather", gather},
    {"MPI_Iscatter", scatter},
    {"MPI_Wait", broadcast},
    {"MPI_Bcast", share},
    {"MPI_Barrier", share},
    {"MPI_Type_create_struct", make_type},
    {"MPI_Type_create_resized", make_type},
    {"MPI_Type_commit", make_type},
};

/* -- cases ------------------------------------------------------------------------------------- */

/* Returns the status that <ferry/mpi.h> documents for a class of MPI errors. */
static ferry_status
expected_of(int error_class)
{
    static const int invalid[] = {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE,     MPI_ERR_TAG,
                                  MPI_ERR_COMM,   MPI_ERR_RANK,  MPI_ERR_REQUEST,  MPI_ERR_ROOT,
                                  MPI_ERR_GROUP,  MPI_ERR_OP,    MPI_ERR_TOPOLOGY, MPI_ERR_DIMS,
                                  MPI_ERR_ARG};
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        if (error_class == invalid[i])
            return FERRY_ERROR_INVALID_ARGUMENT;
    }
    if (error_class == MPI_ERR_TRUNCATE)
        return FERRY_ERROR_OUT_OF_RANGE;
    if (error_class == MPI_ERR_NO_MEM)
        return FERRY_ERROR_OUT_OF_MEMORY;
    if (error_class == MPI_ERR_UNSUPPORTED_OPERATION || error_class == MPI_ERR_UNSUPPORTED_DATAREP)
        return FERRY_ERROR_UNSUPPORTED;
    return FERRY_ERROR_DEVICE;
}

/* Checks one call that fails. Uses a new ferry_mpi for each call, because a failure can leave an
 * MPI operation pending on the communicator of the old ferry_mpi. */
static void
fail_once(struct ranks *ranks, const char *function,
          ferry_status (*call)(ferry_mpi *, struct ranks *, ferry_mpi_range *), int code,
          bool on_device)
{
    ferry_mpi *mpi = NULL;
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES};
    char text[MPI_MAX_ERROR_STRING];
    int length;
    ferry_int_buffer buffer = ranks_numbers(ranks, 500, 7, on_device);
    ferry_mpi_range range = ranks_range(buffer, 0, 500);
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_SELF, &options, &mpi));
    MPI_Error_string(code, text, &length);
    failing.code = code;
    failing.skipped = 0;
    failing.name = function;
    CHECK_FAILS(call(mpi, ranks, &range), expected_of(code), text);
    CHECK(!failing.name);
    failing.name = NULL;
    /* After the failure, the range must have its old values, and must no longer be protected. */
    ranks_check_numbers(buffer, 0, 500, 7, 1);
    CHECK_OK(ferry_int_fill(buffer, 0, 500, 1, NULL));
    ferry_int_destroy(&buffer);
    ferry_mpi_destroy(&mpi);
}

static void
test_functions(struct ranks *ranks)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail_once(ranks, calls[i].function, calls[i].call, MPI_ERR_INTERN, false);
        fail_once(ranks, calls[i].function, calls[i].call, MPI_ERR_NO_MEM, true);
    }
}

static void
test_classes(struct ranks *ranks)
{
    for (int error_class = MPI_SUCCESS + 1; error_class < MPI_ERR_LASTCODE; error_class++) {
        int read_back = 0;
        /* Skips the two error classes that refer to the MPI statuses of several requests. Also
         * skips values that are not an error class. */
        if (error_class == MPI_ERR_IN_STATUS || error_class == MPI_ERR_PENDING ||
            MPI_Error_class(error_class, &read_back) != MPI_SUCCESS || read_back != error_class)
            continue;
        fail_once(ranks, "MPI_Isend", send, error_class, error_class % 2);
        fail_once(ranks, "MPI_Ibcast", broadcast, error_class, error_class % 2);
    }
}

/* Makes one of several messages of a call fail. Checks that the other messages still arrive, and
 * that the call returns the error of the failed message. */
static void
test_one_of_several(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES};
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_SELF, &options, &mpi));
    ferry_int_buffer source = ranks_numbers(ranks, 500, 7, true),
                     target = ranks_numbers(ranks, 500, 0, true);
    ferry_int_buffer other = ranks_numbers(ranks, 500, -1000, true);
    const ferry_mpi_message messages[] = {
        {.direction = FERRY_MPI_RECEIVE, .rank = 0, .tag = 4, .range = ranks_range(target, 0, 500)},
        {.direction = FERRY_MPI_RECEIVE, .rank = 0, .tag = 9, .range = ranks_range(other, 0, 500)},
        {.direction = FERRY_MPI_SEND, .rank = 0, .tag = 4, .range = ranks_range(source, 0, 500)},
    };
    failing.name = "MPI_Irecv";
    failing.code = MPI_ERR_NO_MEM;
    failing.skipped = 1;
    CHECK_FAILS(ferry_mpi_exchange(mpi, messages, 3), FERRY_ERROR_OUT_OF_MEMORY, "tag 9");
    ranks_check_numbers(target, 0, 500, 7, 1);
    ranks_check_numbers(other, 0, 500, -1000, 1);
    ferry_mpi_range range = ranks_range(source, 0, 500);
    CHECK_OK(run_request(mpi, ranks, &range));
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
    ferry_int_destroy(&other);
    ferry_mpi_destroy(&mpi);
}

/* Two messages that rank 0 sends itself, and their ranges. */
struct pair {
    ferry_int_buffer sources[2], targets[2];
    ferry_mpi_message messages[4];
};

static struct pair
make_pair(struct ranks *ranks)
{
    struct pair pair;
    for (int i = 0; i < 2; i++) {
        pair.sources[i] = ranks_numbers(ranks, 500, 7 + i, true);
        pair.targets[i] = ranks_numbers(ranks, 500, -1000, true);
        pair.messages[2 * i] = (ferry_mpi_message){.direction = FERRY_MPI_RECEIVE,
                                                   .rank = 0,
                                                   .tag = 4 + i,
                                                   .range = ranks_range(pair.targets[i], 0, 500)};
        pair.messages[2 * i + 1] =
            (ferry_mpi_message){.direction = FERRY_MPI_SEND,
                                .rank = 0,
                                .tag = 4 + i,
                                .range = ranks_range(pair.sources[i], 0, 500)};
    }
    return pair;
}

static void
drop_pair(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        ferry_int_destroy(&pair->sources[i]);
        ferry_int_destroy(&pair->targets[i]);
    }
}

/* Short messages are copied into their ranges together. If that fails, they are copied one by one,
 * and a message whose copy fails does not keep the others from arriving. */
static void
test_copies_fail(struct ranks *ranks)
{
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES};
    ferry_mpi *mpi = NULL;
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_SELF, &options, &mpi));
    struct pair pair = make_pair(ranks);
    failing_copies.several = true;
    CHECK_OK(ferry_mpi_exchange(mpi, pair.messages, 4));
    for (int i = 0; i < 2; i++)
        ranks_check_numbers(pair.targets[i], 0, 500, 7 + i, 1);
    /* MPI writes host memory itself. */
    for (int failed = 0; ranks->separate && failed < 2; failed++) {
        CHECK_OK(ferry_int_fill(pair.targets[0], 0, 500, -1, NULL));
        CHECK_OK(ferry_int_fill(pair.targets[1], 0, 500, -1, NULL));
        failing_copies.into = pair.targets[failed].raw;
        CHECK_FAILS(ferry_mpi_exchange(mpi, pair.messages, 4), FERRY_ERROR_OUT_OF_MEMORY,
                    "copy a chunk to the device");
        failing_copies.into = NULL;
        ranks_check_numbers(pair.targets[failed], 0, 500, -1, 0);
        ranks_check_numbers(pair.targets[1 - failed], 0, 500, 8 - failed, 1);
    }
    failing_copies.several = false;
    drop_pair(&pair);
    ferry_mpi_destroy(&mpi);
}

/* If MPI itself fails, the messages that have arrived before are in their ranges. */
static void
test_what_has_arrived_stays(struct ranks *ranks)
{
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES};
    ferry_mpi *mpi = NULL;
    ferry_mpi_request *request = NULL;
    bool done = false;
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_SELF, &options, &mpi));
    struct pair pair = make_pair(ranks);
    /* The second message is received, but not sent. */
    CHECK_OK(ferry_mpi_request_create(mpi, pair.messages, 3, &request));
    CHECK_OK(ferry_mpi_request_start(request));
    for (int i = 0; i < 1000 && !done; i++)
        CHECK_OK(ferry_mpi_request_test(request, &done));
    CHECK(!done);
    failing.name = "MPI_Testsome";
    failing.code = MPI_ERR_INTERN;
    failing.skipped = 0;
    CHECK_FAILS(ferry_mpi_request_test(request, &done), FERRY_ERROR_DEVICE, "tag 5");
    CHECK(done);
    ranks_check_numbers(pair.targets[0], 0, 500, 7, 1);
    ranks_check_numbers(pair.targets[1], 0, 500, -1000, 1);
    ferry_mpi_request_destroy(&request);
    drop_pair(&pair);
    ferry_mpi_destroy(&mpi);
}

/* Each message arrives at the place of its stream, also if short messages are copied together. */
static void
test_each_arrives_at_its_place(struct ranks *ranks)
{
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES};
    ferry_mpi *mpi = NULL;
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_SELF, &options, &mpi));
    for (int first = 0; first < 2; first++) {
        struct pair pair = make_pair(ranks);
        pair.messages[2 * first].range.stream = ranks->device;
        /* No place has all of the other range, so MPI does not write it directly either. */
        ferry_scope scope = {0};
        int *half = NULL;
        CHECK_OK(ferry_int_overwrite_host_range(pair.targets[1 - first], 0, 250, &scope, &half));
        memset(half, 0, 250 * sizeof(int));
        CHECK_OK(ferry_scope_close(&scope));
        CHECK_OK(ferry_mpi_exchange(mpi, pair.messages, 4));
        for (int i = 0; i < 2; i++) {
            ferry_buffer_info info;
            CHECK_OK(ferry_buffer_get_info(pair.targets[i].raw, &info));
            CHECK(!ranks->separate || info.places_current == (i == first ? 2 : 1));
            ranks_check_numbers(pair.targets[i], 0, 500, 7 + i, 1);
        }
        drop_pair(&pair);
    }
    ferry_mpi_destroy(&mpi);
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"functions", test_functions},
        {"classes", test_classes},
        {"one_of_several", test_one_of_several},
        {"copies_fail", test_copies_fail},
        {"what_has_arrived_stays", test_what_has_arrived_stays},
        {"each_arrives_at_its_place", test_each_arrives_at_its_place},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
