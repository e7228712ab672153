/* SPDX-License-Identifier: MIT */
/*
 * Checks that ranks use the same memory after ferry_mpi_share(), that ferry_mpi_hand_over() lets
 * them use it in order, and that no rank hangs if another one fails. This program replaces some MPI
 * functions, so that a handle arrives changed or late, or that a call fails after it was made.
 */

#include "ranks.h"

#include <string.h>
#include <unistd.h>

#include <ferry/float.h>

#define COUNT 5000

/* -- MPI functions that disturb ---------------------------------------------------------------- */

#define NO_BYTE (-1)

/* Bytes of ferry_share by what they mean. */
enum { KEY_BYTE = 8, MACHINE_BYTE = 24, CONTAINER_BYTE = 40 };

/* What the MPI functions of this rank do next. */
static struct {
    int changed_byte;         /* of the handle that arrives, or NO_BYTE */
    unsigned int delay_us;    /* between the arrival of the handle and the return */
    const char *fails_in_end; /* a function that returns an error after it has done its work */
} disturbance = {.changed_byte = NO_BYTE};

int
MPI_Bcast(void *memory, int count, MPI_Datatype type, int root, MPI_Comm communicator)
{
    int code = PMPI_Bcast(memory, count, type, root, communicator);
    unsigned char *handle = (unsigned char *)memory + count - sizeof(ferry_share);
    if (disturbance.changed_byte != NO_BYTE)
        handle[disturbance.changed_byte] ^= 1;
    if (disturbance.delay_us > 0)
        usleep(disturbance.delay_us);
    return code;
}

static int
end_of(const char *name, int code)
{
    if (!disturbance.fails_in_end || strcmp(disturbance.fails_in_end, name) != 0)
        return code;
    disturbance.fails_in_end = NULL;
    return MPI_ERR_NO_MEM;
}

int
MPI_Send(const void *memory, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator)
{
    return end_of("MPI_Send", PMPI_Send(memory, count, type, rank, tag, communicator));
}

int
MPI_Recv(void *memory, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
         MPI_Status *status)
{
    return end_of("MPI_Recv", PMPI_Recv(memory, count, type, rank, tag, communicator, status));
}

int
MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *out)
{
    return end_of("MPI_Get_count", PMPI_Get_count(status, type, out));
}

/* -- shared buffers ---------------------------------------------------------------------------- */

static bool
can_share(const struct ranks *ranks, int place)
{
    ferry_place_info info;
    CHECK_OK(ferry_context_get_place_info(ranks->context, place, &info));
    return place == 0 || (info.capabilities & FERRY_CAN_SHARE);
}

/* Returns a buffer with shared memory at `place` and the values `first`, `first` + 1 and so on. */
static ferry_int_buffer
create(const struct ranks *ranks, int place, int first)
{
    const ferry_buffer_options options = {
        .name = "shared", .memory = FERRY_MEMORY_SHARED, .place = place};
    static int numbers[COUNT];
    ferry_int_buffer buffer = {0};
    for (int i = 0; i < COUNT; i++)
        numbers[i] = first + i;
    CHECK_OK(ferry_int_create(ranks->context, COUNT, &options, &buffer));
    CHECK_OK(ferry_int_copy_from(buffer, 0, COUNT, numbers, NULL));
    return buffer;
}

/* Returns on all ranks a buffer with the same memory, which the root has acquired. */
static ferry_int_buffer
share(const struct ranks *ranks, int place, int root, bool read_only, int first)
{
    const ferry_share_options options = {.name = "imported", .read_only = read_only};
    ferry_int_buffer buffer = {0};
    if (ranks->rank == root)
        buffer = create(ranks, place, first);
    CHECK_OK(
        ferry_mpi_share(ranks->mpi, ferry_int_element(), buffer.raw, root, &options, &buffer.raw));
    return buffer;
}

static ferry_status
hand_over(const struct ranks *ranks, ferry_int_buffer buffer, int from, int to)
{
    return ferry_mpi_hand_over(ranks->mpi, NULL, buffer.raw, from, to, 1);
}

static void
add(ferry_int_buffer buffer, int number)
{
    ferry_scope scope = {0};
    int *numbers = NULL;
    CHECK_OK(ferry_int_update_host(buffer, &scope, &numbers));
    for (size_t i = 0; numbers && i < COUNT; i++)
        numbers[i] += number;
    CHECK_OK(ferry_scope_close(&scope));
}

/* Checks that a rank that has not acquired the buffer cannot use it. */
static void
check_unusable(ferry_int_buffer buffer)
{
    ferry_scope scope;
    const int *numbers;
    ferry_status status = ferry_int_read_host(buffer, &scope, &numbers);
    CHECK(status == FERRY_ERROR_INVALID_STATE);
}

static void
wait_for_all(void)
{
    CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
}

/* -- sharing ----------------------------------------------------------------------------------- */

/* Memory of the host and of the device, with the first and the last rank as root. */
static void
test_share(struct ranks *ranks)
{
    for (int place = 0; place < 2; place++) {
        for (int i = 0; i < 2 && can_share(ranks, place); i++) {
            int root = i == 0 ? 0 : ranks->size - 1;
            ferry_int_buffer buffer = share(ranks, place, root, true, 100 * root);
            ferry_buffer_info info;
            CHECK(ferry_int_count(buffer) == COUNT);
            if (ranks->rank == root)
                ranks_check_numbers(buffer, 0, COUNT, 100 * root, 1);
            else
                check_unusable(buffer);
            CHECK_OK(hand_over(ranks, buffer, root, FERRY_MPI_OTHERS));
            if (ranks->rank == root) {
                check_unusable(buffer);
            } else {
                CHECK_OK(ferry_buffer_get_info(buffer.raw, &info));
                CHECK(!ranks->separate || info.places_current == (uint32_t)1 << place);
                ranks_check_numbers(buffer, 0, COUNT, 100 * root, 1);
            }
            ferry_int_destroy(&buffer);
        }
    }
}

/* Nothing is copied on the way from one rank to another. */
static void
test_no_copy(struct ranks *ranks)
{
    ferry_scope scope = {0};
    const int *numbers;
    if (!can_share(ranks, 1)) {
        ranks_skip("the device shares no memory");
        return;
    }
    ferry_int_buffer buffer = share(ranks, 1, 0, true, 7);
    if (ranks->rank == 0)
        CHECK_OK(ferry_int_sync_to(buffer, 1, NULL));
    ranks_reset(ranks);
    CHECK_OK(ferry_mpi_hand_over(ranks->mpi, ranks->device, buffer.raw, 0, FERRY_MPI_OTHERS, 1));
    if (ranks->rank > 0) {
        CHECK_OK(ferry_int_read_device(buffer, ranks->device, &scope, &numbers));
        CHECK_OK(ferry_scope_close(&scope));
        CHECK(ranks_up(ranks) == 0 && ranks_down(ranks) == 0);
        ranks_check_numbers(buffer, 0, COUNT, 7, 1);
        CHECK(ranks_down(ranks) == ranks_cost(ranks, COUNT));
    }
    CHECK_OK(ferry_mpi_hand_over(ranks->mpi, ranks->device, buffer.raw, FERRY_MPI_OTHERS, 0, 1));
    CHECK(ranks_up(ranks) == 0);
    ferry_int_destroy(&buffer);
}

/* The root may destroy its buffer after the call, though another rank is slow to import it. */
static void
test_all_have_imported(struct ranks *ranks)
{
    int last = ranks->size - 1;
    disturbance.delay_us = ranks->rank == last ? 100000 : 0;
    ferry_int_buffer buffer = share(ranks, 0, 0, true, 3);
    disturbance.delay_us = 0;
    CHECK_OK(hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS));
    if (ranks->rank == 0)
        ferry_int_destroy(&buffer);
    wait_for_all();
    if (ranks->rank > 0)
        ranks_check_numbers(buffer, 0, COUNT, 3, 1);
    ferry_int_destroy(&buffer);

    disturbance.delay_us = ranks->rank == last ? 100000 : 0;
    buffer = share(ranks, 0, 0, true, 3);
    disturbance.delay_us = 0;
    if (ranks->rank == 0)
        ferry_int_destroy(&buffer);
    wait_for_all();
    ferry_int_destroy(&buffer);
}

/* Checks that the root fails with a status and a text, and that all other ranks fail like it. */
static void
check_root_fails(struct ranks *ranks, ferry_buffer *source, ferry_status status, const char *what)
{
    int root = ranks->size - 1;
    ferry_buffer *out = NULL;
    CHECK_FAILS(ferry_mpi_share(ranks->mpi, ferry_int_element(), source, root, NULL, &out), status,
                what);
    CHECK(!out);
    CHECK((strstr(ferry_mpi_last_error(), " failed: ") != NULL) == (ranks->rank != root));
}

static void
test_root_fails(struct ranks *ranks)
{
    bool is_root = ranks->rank == ranks->size - 1;
    ferry_int_buffer plain = ranks_numbers(ranks, 10, 0, false), shared = create(ranks, 0, 0), view;
    CHECK_OK(ferry_int_view(shared, 0, 10, &view));
    check_root_fails(ranks, NULL, FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    check_root_fails(ranks, is_root ? plain.raw : NULL, FERRY_ERROR_INVALID_STATE,
                     "not created with FERRY_MEMORY_SHARED");
    check_root_fails(ranks, is_root ? view.raw : NULL, FERRY_ERROR_INVALID_STATE, "is a view");
    ferry_int_destroy(&view);
    ferry_int_destroy(&plain);
    ferry_int_destroy(&shared);
}

/* Imports with other arguments on the last rank. It fails alone, and the others have the buffer. */
static void
check_last_fails(struct ranks *ranks, const ferry_element *element, ferry_buffer **out,
                 const ferry_share_options *options, ferry_status status, const char *what)
{
    ferry_int_buffer buffer = {0};
    if (ranks->rank == 0)
        buffer = create(ranks, 0, 11);
    if (ranks->rank == ranks->size - 1) {
        CHECK_FAILS(ferry_mpi_share(ranks->mpi, element, NULL, 0, options, out), status, what);
        CHECK(!out || !*out);
    } else {
        CHECK_OK(
            ferry_mpi_share(ranks->mpi, ferry_int_element(), buffer.raw, 0, NULL, &buffer.raw));
        int next = ranks->rank + 1 < ranks->size - 1 ? ranks->rank + 1 : MPI_PROC_NULL;
        int previous = ranks->rank > 0 ? ranks->rank - 1 : MPI_PROC_NULL;
        CHECK_OK(hand_over(ranks, buffer, previous, ranks->rank));
        ranks_check_numbers(buffer, 0, COUNT, 11, 1);
        CHECK_OK(hand_over(ranks, buffer, ranks->rank, next));
    }
    ferry_int_destroy(&buffer);
}

static void
test_one_rank_fails(struct ranks *ranks)
{
    ferry_buffer *out = NULL;
    const ferry_share_options nowhere = {.place = 99}, on_device = {.place = 1};
    const ferry_element *element = ferry_int_element();
    check_last_fails(ranks, ferry_float_element(), &out, NULL, FERRY_ERROR_WRONG_TYPE, "float");
    check_last_fails(ranks, NULL, &out, NULL, FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    check_last_fails(ranks, element, NULL, NULL, FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    check_last_fails(ranks, element, &out, &nowhere, FERRY_ERROR_INVALID_ARGUMENT, "99");
    if (ranks->separate)
        check_last_fails(ranks, element, &out, &on_device, FERRY_ERROR_UNSUPPORTED,
                         "memory of host");
}

/* A handle that comes from another machine or container, or is none. */
static void
test_foreign(struct ranks *ranks)
{
    static const struct {
        int byte;
        ferry_status status;
        const char *what;
    } cases[] = {
        {MACHINE_BYTE, FERRY_ERROR_UNSUPPORTED, "another machine"},
        {CONTAINER_BYTE, FERRY_ERROR_UNSUPPORTED, "another container"},
        {KEY_BYTE, FERRY_ERROR_INVALID_ARGUMENT, "handle finds none"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ferry_buffer *out = NULL;
        if (ranks->rank == ranks->size - 1)
            disturbance.changed_byte = cases[i].byte;
        check_last_fails(ranks, ferry_int_element(), &out, NULL, cases[i].status, cases[i].what);
        disturbance.changed_byte = NO_BYTE;
    }
}

/* A rank of another user may not open the memory. */
static void
test_other_user(struct ranks *ranks)
{
    const uid_t other = 65534;
    ferry_buffer *out = NULL;
    bool is_last = ranks->rank == ranks->size - 1;
    if (geteuid() != 0) {
        ranks_skip("this user cannot become another one");
        return;
    }
    CHECK(!is_last || seteuid(other) == 0);
    check_last_fails(ranks, ferry_int_element(), &out, NULL, FERRY_ERROR_UNSUPPORTED,
                     "may not open files of its process");
    CHECK(!is_last || seteuid(0) == 0);
}

/* -- handing over ------------------------------------------------------------------------------ */

/* Each rank adds a number and hands the buffer to the next one; the last one hands it to the first.
 * In the second round all ranks take part in all calls. */
static void
test_ring(struct ranks *ranks)
{
    int size = ranks->size, next = (ranks->rank + 1) % size;
    for (int place = 0; place < 2 && can_share(ranks, place); place++) {
        ferry_int_buffer buffer = share(ranks, place, 0, false, 0);
        if (ranks->rank > 0)
            CHECK_OK(hand_over(ranks, buffer, ranks->rank - 1, ranks->rank));
        add(buffer, 1);
        CHECK_OK(hand_over(ranks, buffer, ranks->rank, next));
        if (ranks->rank == 0)
            CHECK_OK(hand_over(ranks, buffer, size - 1, 0));
        for (int rank = 0; rank < size; rank++) {
            if (rank == ranks->rank)
                add(buffer, 1);
            CHECK_OK(hand_over(ranks, buffer, rank, (rank + 1) % size));
        }
        if (ranks->rank == 0)
            ranks_check_numbers(buffer, 0, COUNT, 2 * size, 1);
        else
            check_unusable(buffer);
        ferry_int_destroy(&buffer);
    }
}

/* Several ranks read at the same time, and the root writes between. */
static void
test_readers(struct ranks *ranks)
{
    for (int place = 0; place < 2 && can_share(ranks, place); place++) {
        ferry_int_buffer buffer = share(ranks, place, 0, true, 0);
        for (int round = 0; round < 5; round++) {
            if (ranks->rank == 0)
                add(buffer, 10);
            CHECK_OK(hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS));
            wait_for_all(); /* all readers have acquired it */
            if (ranks->rank == 0)
                CHECK(ferry_buffer_acquire_shared(buffer.raw, NULL) == FERRY_ERROR_BUSY);
            else
                ranks_check_numbers(buffer, 0, COUNT, 10 * (round + 1), 1);
            wait_for_all();
            CHECK_OK(hand_over(ranks, buffer, FERRY_MPI_OTHERS, 0));
            if (ranks->rank > 0)
                check_unusable(buffer);
        }
        ferry_int_destroy(&buffer);
    }
}

/* Each rank has a stream of the memory's device. */
static void
test_streams(struct ranks *ranks)
{
    if (!ranks->separate || !can_share(ranks, 1)) {
        ranks_skip("the device shares no memory");
        return;
    }
    const ferry_copy_options on_device = {.stream = ranks->device};
    ferry_int_buffer buffer = share(ranks, 1, 0, false, 0);
    for (int rank = 0; rank + 1 < ranks->size; rank++) {
        if (ranks->rank == rank)
            CHECK_OK(ferry_int_fill(buffer, 0, COUNT, rank + 5, &on_device));
        CHECK_OK(ferry_mpi_hand_over(ranks->mpi, ranks->device, buffer.raw, rank, rank + 1, 1));
        if (ranks->rank == rank + 1)
            ranks_check_numbers(buffer, 0, COUNT, rank + 5, 0);
    }
    ferry_int_destroy(&buffer);
}

/* -- failures ---------------------------------------------------------------------------------- */

/* The ranks that wait for a buffer get the failure of the rank that has it, which keeps it. */
static void
test_release_fails(struct ranks *ranks)
{
    const int receivers[] = {1, FERRY_MPI_OTHERS};
    ferry_scope scope = {0};
    int *numbers = NULL;
    for (int i = 0; i < 2; i++) {
        ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
        bool takes_part = ranks->rank < 2 || receivers[i] == FERRY_MPI_OTHERS;
        if (ranks->rank == 0)
            CHECK_OK(ferry_int_update_host(buffer, &scope, &numbers));
        if (takes_part)
            CHECK_FAILS(hand_over(ranks, buffer, 0, receivers[i]), FERRY_ERROR_BUSY, "\"shared\"");
        CHECK(!takes_part || ranks->rank == 0 || strstr(ferry_mpi_last_error(), "rank 0 failed: "));
        if (ranks->rank == 0)
            CHECK_OK(ferry_scope_close(&scope));
        else
            check_unusable(buffer);
        CHECK_OK(hand_over(ranks, buffer, 0, receivers[i]));
        if (takes_part && ranks->rank > 0)
            ranks_check_numbers(buffer, 0, COUNT, 0, 1);
        /* It is no longer acquired. */
        if (takes_part && ranks->rank == 0)
            CHECK_FAILS(hand_over(ranks, buffer, 0, receivers[i]), FERRY_ERROR_INVALID_STATE, "");
        else if (takes_part)
            CHECK_FAILS(hand_over(ranks, buffer, 0, receivers[i]), FERRY_ERROR_INVALID_STATE,
                        "rank 0 failed: ");
        wait_for_all();
        ferry_int_destroy(&buffer);
    }
}

/* One of several readers fails to release the buffer. The others have released it. */
static void
test_one_reader_fails(struct ranks *ranks)
{
    int last = ranks->size - 1;
    ferry_scope scope = {0};
    const int *numbers;
    ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
    CHECK_OK(hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS));
    if (ranks->rank == last)
        CHECK_OK(ferry_int_read_host(buffer, &scope, &numbers));
    ferry_status status = hand_over(ranks, buffer, FERRY_MPI_OTHERS, 0);
    CHECK(status == (ranks->rank == 0 || ranks->rank == last ? FERRY_ERROR_BUSY : FERRY_OK));
    CHECK(ranks->rank > 0 || strstr(ferry_mpi_last_error(), "\"imported\""));
    CHECK_OK(ferry_scope_close(&scope));
    CHECK_OK(hand_over(ranks, buffer, last, 0));
    if (ranks->rank == 0)
        ranks_check_numbers(buffer, 0, COUNT, 0, 1);
    ferry_int_destroy(&buffer);
}

/* The first failure has its text, also if later ranks fail too. */
static void
test_all_readers_fail(struct ranks *ranks)
{
    ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
    if (ranks->rank > 0)
        CHECK_FAILS(hand_over(ranks, buffer, FERRY_MPI_OTHERS, 0), FERRY_ERROR_INVALID_STATE, "");
    else
        CHECK_FAILS(hand_over(ranks, buffer, FERRY_MPI_OTHERS, 0), FERRY_ERROR_INVALID_STATE,
                    "rank 1 failed: ");
    if (ranks->rank == 0)
        ranks_check_numbers(buffer, 0, COUNT, 0, 1);
    ferry_int_destroy(&buffer);
}

/* Only one of several imports that write gets the buffer. The others fail, and none waits. */
static void
test_writers_are_busy(struct ranks *ranks)
{
    int succeeded, all = 0;
    ferry_int_buffer buffer = share(ranks, 0, 0, false, 0);
    ferry_status status = hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS);
    CHECK(status == FERRY_OK || status == FERRY_ERROR_BUSY);
    CHECK(status == FERRY_OK || strstr(ferry_mpi_last_error(), "has acquired it"));
    succeeded = status == FERRY_OK && ranks->rank > 0;
    MPI_Allreduce(&succeeded, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == 1);
    ferry_int_destroy(&buffer);
}

/* A rank without the buffer takes part and fails, and no other one waits for it. */
static void
test_no_buffer(struct ranks *ranks)
{
    const ferry_int_buffer none = {0};
    const char what[] = "NULL";
    ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
    if (ranks->rank < 2)
        CHECK_FAILS(hand_over(ranks, ranks->rank == 0 ? none : buffer, 0, 1),
                    FERRY_ERROR_INVALID_ARGUMENT, what);
    if (ranks->rank == 0)
        CHECK_OK(hand_over(ranks, buffer, 0, 1));
    if (ranks->rank == 1) {
        CHECK_FAILS(hand_over(ranks, none, 0, 1), FERRY_ERROR_INVALID_ARGUMENT, what);
        CHECK_OK(ferry_buffer_acquire_shared(buffer.raw, NULL));
        ranks_check_numbers(buffer, 0, COUNT, 0, 1);
    }
    ferry_int_destroy(&buffer);
}

/* Each rank uses the stream that it passes. A stream of the device is refused for host memory. */
static void
test_wrong_stream(struct ranks *ranks)
{
    const ferry_status refused = FERRY_ERROR_INVALID_ARGUMENT;
    const char what[] = "its memory is that of";
    if (!ranks->separate) {
        ranks_skip("the memory of the device is that of the host");
        return;
    }
    ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
    ferry_stream *giver = ranks->rank == 0 ? ranks->device : NULL;
    ferry_stream *receiver = ranks->rank > 0 ? ranks->device : NULL;
    CHECK_FAILS(ferry_mpi_hand_over(ranks->mpi, giver, buffer.raw, 0, FERRY_MPI_OTHERS, 1), refused,
                what);
    if (ranks->rank == 0)
        CHECK_OK(ferry_mpi_hand_over(ranks->mpi, NULL, buffer.raw, 0, FERRY_MPI_OTHERS, 1));
    else
        CHECK_FAILS(ferry_mpi_hand_over(ranks->mpi, receiver, buffer.raw, 0, FERRY_MPI_OTHERS, 1),
                    refused, what);
    ferry_int_destroy(&buffer);
}

/* Errors of MPI, which the functions report after they have done their work. */
static void
test_mpi_fails(struct ranks *ranks)
{
    static const char *const functions[] = {"MPI_Send", "MPI_Recv", "MPI_Get_count"};
    char text[MPI_MAX_ERROR_STRING];
    int length, last = ranks->size - 1;
    MPI_Error_string(MPI_ERR_NO_MEM, text, &length);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        int failing_rank = i == 0 ? 0 : last;
        ferry_int_buffer buffer = share(ranks, 0, 0, true, 0);
        if (ranks->rank == failing_rank) {
            disturbance.fails_in_end = functions[i];
            CHECK_FAILS(hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS), FERRY_ERROR_OUT_OF_MEMORY,
                        text);
            CHECK(!disturbance.fails_in_end);
        } else {
            CHECK_OK(hand_over(ranks, buffer, 0, FERRY_MPI_OTHERS));
        }
        if (ranks->rank > 0 && ranks->rank != failing_rank)
            ranks_check_numbers(buffer, 0, COUNT, 0, 1);
        ferry_int_destroy(&buffer);
    }
}

/* -- misuse ------------------------------------------------------------------------------------ */

static void
check_refused(struct ranks *ranks, ferry_int_buffer buffer, int from, int to, const char *what)
{
    CHECK_FAILS(hand_over(ranks, buffer, from, to), FERRY_ERROR_INVALID_ARGUMENT, what);
}

static void
test_misuse(struct ranks *ranks)
{
    const int others = FERRY_MPI_OTHERS;
    ferry_buffer *out = NULL;
    ferry_int_buffer buffer = share(ranks, 0, 0, false, 0);
    check_refused(ranks, buffer, 0, ranks->size, "no rank");
    check_refused(ranks, buffer, -77, 0, "no rank -77");
    check_refused(ranks, buffer, MPI_ANY_SOURCE, 0, "no rank");
    check_refused(ranks, buffer, 0, 0, "comes from the ranks");
    check_refused(ranks, buffer, others, others, "comes from the ranks");
    CHECK_FAILS(ferry_mpi_hand_over(ranks->mpi, NULL, buffer.raw, 0, 1, -1),
                FERRY_ERROR_INVALID_ARGUMENT, "tag -1");
    CHECK_FAILS(ferry_mpi_hand_over(NULL, NULL, buffer.raw, 0, 1, 0), FERRY_ERROR_INVALID_ARGUMENT,
                "NULL");
    CHECK_FAILS(ferry_mpi_share(NULL, ferry_int_element(), NULL, 0, NULL, &out),
                FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_share(ranks->mpi, ferry_int_element(), NULL, ranks->size, NULL, &out),
                FERRY_ERROR_INVALID_ARGUMENT, "MPI_ERR_ROOT");
    CHECK_OK(hand_over(ranks, buffer, MPI_PROC_NULL, ranks->rank));
    CHECK_OK(hand_over(ranks, buffer, ranks->rank, MPI_PROC_NULL));
    /* Ranks that neither have nor get the buffer do nothing. */
    if (ranks->rank > 1)
        CHECK_OK(ferry_mpi_hand_over(ranks->mpi, NULL, NULL, 0, 1, 1));
    /* The root still has the buffer. */
    if (ranks->rank == 0)
        ranks_check_numbers(buffer, 0, COUNT, 0, 1);
    CHECK_OK(hand_over(ranks, buffer, 0, 1));
    ferry_int_destroy(&buffer);
}

/* A message with the tag of a hand-over is no hand-over. */
static void
test_other_message(struct ranks *ranks)
{
    ferry_int_buffer buffer = share(ranks, 0, 0, false, 0), message = ranks_numbers(ranks, 2, 0, 0);
    const ferry_mpi_range range = ranks_range(message, 0, 2);
    if (ranks->rank == 0)
        CHECK_OK(ferry_mpi_send(ranks->mpi, &range, 1, 1));
    if (ranks->rank == 1)
        CHECK_FAILS(hand_over(ranks, buffer, 0, 1), FERRY_ERROR_OUT_OF_RANGE, "sent 8 bytes");
    if (ranks->rank == 1)
        check_unusable(buffer);
    CHECK_OK(hand_over(ranks, buffer, 0, 1));
    if (ranks->rank == 1)
        ranks_check_numbers(buffer, 0, COUNT, 0, 1);
    ferry_int_destroy(&buffer);
    ferry_int_destroy(&message);
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"share", test_share},
        {"no_copy", test_no_copy},
        {"all_have_imported", test_all_have_imported},
        {"root_fails", test_root_fails},
        {"one_rank_fails", test_one_rank_fails},
        {"foreign", test_foreign},
        {"other_user", test_other_user},
        {"ring", test_ring},
        {"readers", test_readers},
        {"streams", test_streams},
        {"release_fails", test_release_fails},
        {"one_reader_fails", test_one_reader_fails},
        {"all_readers_fail", test_all_readers_fail},
        {"writers_are_busy", test_writers_are_busy},
        {"no_buffer", test_no_buffer},
        {"wrong_stream", test_wrong_stream},
        {"mpi_fails", test_mpi_fails},
        {"misuse", test_misuse},
        {"other_message", test_other_message},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
