/* SPDX-License-Identifier: MIT */
/* A job whose last rank dies while the other ranks wait for a message of it, or with `shared` for a
 * buffer whose memory they share. usage: job_dies kill|exit|fault [shared] */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/int.h>
#include <ferry/mpi.h>

static void
die(const char *how)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "fault") == 0)
        raise(SIGSEGV);
    _exit(3);
}

/* Shares a buffer of the last rank, which has acquired it. */
static ferry_status
share(ferry_context *context, ferry_mpi *mpi, int last, ferry_buffer **out)
{
    const ferry_buffer_options options = {.memory = FERRY_MEMORY_SHARED};
    const ferry_share_options read_only = {.read_only = true};
    const ferry_element *element = ferry_int_element();
    ferry_status status = FERRY_OK;
    if (ferry_mpi_rank(mpi) == last)
        status = ferry_buffer_create(context, element, 1000, &options, out);
    return status == FERRY_OK ? ferry_mpi_share(mpi, element, *out, last, &read_only, out) : status;
}

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    ferry_mpi *mpi = NULL;
    ferry_int_buffer buffer = {0};
    ferry_buffer *shared = NULL;
    size_t count = 100000;
    MPI_Init(&argc, &argv);
    if (argc < 2 || ferry_context_create(NULL, &context) != FERRY_OK ||
        ferry_mpi_create(context, MPI_COMM_WORLD, NULL, &mpi) != FERRY_OK ||
        ferry_int_create(context, count, NULL, &buffer) != FERRY_OK)
        MPI_Abort(MPI_COMM_WORLD, 4);
    int last = ferry_mpi_size(mpi) - 1;
    const ferry_mpi_range range = {
        .buffer = buffer.raw, .count = count, .stream = ferry_context_stream(context, 1)};
    ferry_status status = ferry_mpi_broadcast(mpi, &range, 0);
    if (status == FERRY_OK && argc > 2)
        status = share(context, mpi, last, &shared);
    if (ferry_mpi_rank(mpi) == last)
        die(argv[1]);
    if (status == FERRY_OK)
        status = shared ? ferry_mpi_hand_over(mpi, NULL, shared, last, FERRY_MPI_OTHERS, 1)
                        : ferry_mpi_receive(mpi, &range, last, 1);
    /* This line runs only if MPI reports the death of the last rank to this rank. */
    fprintf(stderr, "%s\n", ferry_mpi_last_error());
    MPI_Abort(MPI_COMM_WORLD, status == FERRY_OK ? 5 : 6);
}
