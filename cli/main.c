/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include <ferry/version.h>

#include "cli/cli.h"
#include "cli/report.h"

/* The report reads the trace itself. */
static int
command_trace(int argc, char **argv)
{
    (void)argc;
    return report_become((const char *const *)argv, NULL);
}

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} commands[] = {
    {"bench", command_bench,
     "what copies, allocations, conversions and scopes cost here, beside calls without Ferry"},
    {"info", command_info, "versions, devices and their memory"},
    {"replay", command_replay,
     "what an allocation log costs with the pool: time, memory, fragmentation"},
    {"trace", command_trace,
     "what a trace shows: transfers by buffer and reason, needless fetches, round trips"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void
usage(FILE *file)
{
    fprintf(file, "usage: ferry COMMAND [OPTION...]\n"
                  "       ferry --version\n\n"
                  "Commands (each explains itself with -h):\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].purpose);
}

int
main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
        usage(stdout);
        return EXIT_WELL;
    }
    if (!strcmp(word, "--version")) {
        printf("ferry %s\n", ferry_version());
        return EXIT_WELL;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!strcmp(word, commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    }
    if (*word)
        fprintf(stderr, "ferry: no command named '%s'\n", word);
    usage(stderr);
    return EXIT_USAGE;
}
