/* SPDX-License-Identifier: MIT */
/* Checks that ferry-mpi calls before MPI_Init() and after MPI_Finalize() fail. It must still be
 * possible to destroy objects after MPI_Finalize(). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/int.h>
#include <ferry/mpi.h>

static int number, failures;

static void
check(const char *name, bool good)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failures += !good;
}

static bool
fails(ferry_status status, const char *what)
{
    return status == FERRY_ERROR_INVALID_STATE && strstr(ferry_mpi_last_error(), what);
}

int
main(void)
{
    ferry_context *context = NULL;
    ferry_mpi *mpi = NULL;
    ferry_mpi_request *request = NULL;
    ferry_int_buffer buffer = {0};
    MPI_Datatype type;
    bool done;
    check("no message before the first failure", strcmp(ferry_mpi_last_error(), "") == 0);
    if (ferry_context_create(NULL, &context) != FERRY_OK ||
        ferry_int_create(context, 10, NULL, &buffer) != FERRY_OK)
        return EXIT_FAILURE;
    const ferry_mpi_range range = {.buffer = buffer.raw, .count = FERRY_REST};
    check("create before MPI_Init",
          fails(ferry_mpi_create(context, MPI_COMM_WORLD, NULL, &mpi), "not initialized"));
    check("type before MPI_Init",
          fails(ferry_mpi_create_datatype(ferry_int_element(), &type), "not initialized"));

    MPI_Init(NULL, NULL);
    check("create", ferry_mpi_create(context, MPI_COMM_WORLD, NULL, &mpi) == FERRY_OK);
    check("one rank", ferry_mpi_rank(mpi) == 0 && ferry_mpi_size(mpi) == 1);
    check("request", ferry_mpi_request_create(mpi, NULL, 0, &request) == FERRY_OK);
    MPI_Finalize();

    check("create after MPI_Finalize",
          fails(ferry_mpi_create(context, MPI_COMM_WORLD, NULL, &mpi), "finalized"));
    check("type after MPI_Finalize",
          fails(ferry_mpi_create_datatype(ferry_int_element(), &type), "finalized"));
    check("send after MPI_Finalize", fails(ferry_mpi_send(mpi, &range, 0, 0), "finalized"));
    check("broadcast after MPI_Finalize", fails(ferry_mpi_broadcast(mpi, &range, 0), "finalized"));
    check("share after MPI_Finalize",
          fails(ferry_mpi_share(mpi, NULL, buffer.raw, 0, NULL, NULL), "finalized"));
    check("hand over after MPI_Finalize",
          fails(ferry_mpi_hand_over(mpi, NULL, buffer.raw, 0, FERRY_MPI_OTHERS, 0), "finalized"));
    check("start after MPI_Finalize", fails(ferry_mpi_request_start(request), "finalized"));
    check("test after MPI_Finalize", fails(ferry_mpi_request_test(request, &done), "finalized"));
    check("wait after MPI_Finalize", fails(ferry_mpi_request_wait(request), "finalized"));
    ferry_mpi_request_destroy(&request);
    ferry_mpi_destroy(&mpi);
    check("destroyed after MPI_Finalize", !request && !mpi);
    ferry_int_destroy(&buffer);
    ferry_context_destroy(&context);
    printf("1..%d\n", number);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
