/* SPDX-License-Identifier: MIT */
#include "ranks.h"

#include <stdlib.h>
#include <unistd.h>

bool
bench_is_rank(void)
{
    return getenv("BENCH_MPI_RANK") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL;
}

int
bench_start_ranks(char **argv, const struct bench_options *options, const char *ranks)
{
    static const char *const defaults[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_plm", "isolated"},
        {"OMPI_MCA_pml", "ob1"},
        {"OMPI_MCA_btl", "self,vader"},
    };
    FILE *file = options->json ? fopen(options->json, "w") : NULL;
    if (options->json && !file) {
        perror(options->json);
        return EXIT_FAILURE;
    }
    if (file)
        fclose(file);
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
        setenv(defaults[i][0], defaults[i][1], 0);
    char *arguments[8] = {BENCH_MPIEXEC, "-n", (char *)(uintptr_t)ranks, argv[0]};
    size_t count = 4;
    if (options->json) {
        arguments[count++] = "--json";
        arguments[count++] = (char *)(uintptr_t)options->json;
    }
    if (options->quick)
        arguments[count] = "--quick";
    setenv("BENCH_MPI_RANK", "1", 1);
    execv(BENCH_MPIEXEC, arguments);
    perror(BENCH_MPIEXEC);
    return EXIT_FAILURE;
}
