/* SPDX-License-Identifier: MIT */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fakecuda.h"

static int failures;
static int my_rank = -1;
static const char *skip_reason;
static bool on_gpu;

void
ranks_fail(const char *file, int line, const char *text)
{
    failures++;
    printf("# rank %d: %s:%d: %s\n", my_rank, file, line, text);
    fflush(stdout);
}

void
ranks_check_status(ferry_status got, ferry_status expected, const char *file, int line,
                   const char *text)
{
    char message[1024];
    if (got == expected)
        return;
    snprintf(message, sizeof(message), "%s: %s, %s; mpi: %s; ferry: %s", text,
             ferry_status_name(got), ferry_status_name(expected), ferry_mpi_last_error(),
             ferry_last_error());
    ranks_fail(file, line, message);
}

void
ranks_check_failure(ferry_status got, ferry_status expected, const char *what, const char *file,
                    int line, const char *text)
{
    ranks_check_status(got, expected, file, line, text);
    if (!strstr(ferry_mpi_last_error(), what))
        ranks_fail(file, line, ferry_mpi_last_error());
}

static bool
is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return argc < 2;
}

/* Returns the sum of a value over all ranks. A waiting rank sleeps, so that other ranks can use its
 * core. */
static int
sum_of(int value)
{
    int sum = 0, done = 0;
    MPI_Request request;
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        usleep(500);
    return sum;
}

void
ranks_skip(const char *reason)
{
    skip_reason = reason;
}

bool
ranks_on_gpu(void)
{
    return on_gpu;
}

static bool
is_gpu(const ferry_place_info *info)
{
    struct fakecuda fake;
    return strcmp(info->kind, "cuda") == 0 && !fakecuda_find_driver(&fake);
}

static void
run_case(struct ranks *ranks, const struct rank_case *rank_case, int number, int *all_failures)
{
    failures = 0;
    skip_reason = NULL;
    rank_case->run(ranks);
    int sum = sum_of(failures);
    *all_failures += sum;
    if (my_rank == 0) {
        printf("%s %d - %s%s%s\n", sum ? "not ok" : "ok", number, rank_case->name,
               skip_reason ? " # SKIP " : "", skip_reason ? skip_reason : "");
        fflush(stdout);
    }
}

int
ranks_main(int argc, char **argv, const struct rank_case *cases, size_t count)
{
    struct ranks ranks = {.rank = -1};
    const ferry_mpi_options options = {
        .path = FERRY_MPI_PATH_CHUNKS, .chunk_bytes = CHUNK_BYTES, .chunk_count = 2};
    ferry_place_info info;
    int level, all_failures = 0, number = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return EXIT_FAILURE;
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
    my_rank = ranks.rank;
    if (ferry_context_create(NULL, &ranks.context) != FERRY_OK ||
        ferry_context_get_place_info(ranks.context, 1, &info) != FERRY_OK) {
        fprintf(stderr, "%s\n", ferry_last_error());
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    on_gpu = is_gpu(&info);
    if (ferry_mpi_create(ranks.context, MPI_COMM_WORLD, &options, &ranks.mpi) != FERRY_OK) {
        fprintf(stderr, "%s %s\n", ferry_last_error(), ferry_mpi_last_error());
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    ranks.device = ferry_context_stream(ranks.context, 1);
    ranks.separate = !info.coherent;
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(argc, argv, cases[i].name))
            run_case(&ranks, &cases[i], ++number, &all_failures);
    }
    if (ranks.rank == 0)
        printf("1..%d\n", number);
    ferry_mpi_destroy(&ranks.mpi);
    ferry_context_destroy(&ranks.context);
    MPI_Finalize();
    return all_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

ferry_int_buffer
ranks_numbers(struct ranks *ranks, size_t count, int first, bool on_device)
{
    ferry_int_buffer buffer = {0};
    ferry_scope scope;
    int *numbers = malloc((count + 1) * sizeof(int)), *pointer = NULL;
    for (size_t i = 0; i < count; i++)
        numbers[i] = first + (int)i;
    CHECK_OK(ferry_int_create(ranks->context, count, NULL, &buffer));
    if (on_device) {
        const ferry_copy_options options = {.stream = ranks->device};
        CHECK_OK(ferry_int_copy_from(buffer, 0, count, numbers, &options));
    } else {
        CHECK_OK(ferry_int_overwrite_host(buffer, &scope, &pointer));
        if (count > 0)
            memcpy(pointer, numbers, count * sizeof(int));
        CHECK_OK(ferry_scope_close(&scope));
    }
    free(numbers);
    return buffer;
}

void
ranks_check_numbers(ferry_int_buffer buffer, size_t offset, size_t count, int first, int step)
{
    size_t wrong = 0;
    int *numbers = malloc((count + 1) * sizeof(int));
    CHECK_OK(ferry_int_copy_to(buffer, offset, count, numbers, NULL));
    for (size_t i = 0; i < count; i++)
        wrong += numbers[i] != first + step * (int)i;
    CHECK(wrong == 0);
    free(numbers);
}

ferry_mpi_range
ranks_range(ferry_int_buffer buffer, size_t offset, size_t count)
{
    return (ferry_mpi_range){.buffer = buffer.raw, .offset = offset, .count = count};
}

void
ranks_reset(struct ranks *ranks)
{
    CHECK_OK(ferry_context_reset_stats(ranks->context));
}

uint64_t
ranks_up(struct ranks *ranks)
{
    ferry_transfer_stats stats = {.upload.bytes = 0};
    CHECK_OK(ferry_context_get_transfer_stats(ranks->context, &stats));
    return stats.upload.bytes;
}

uint64_t
ranks_down(struct ranks *ranks)
{
    ferry_transfer_stats stats = {.upload.bytes = 0};
    CHECK_OK(ferry_context_get_transfer_stats(ranks->context, &stats));
    return stats.download.bytes;
}

uint64_t
ranks_cost(const struct ranks *ranks, size_t count)
{
    return ranks->separate ? count * sizeof(int) : 0;
}
