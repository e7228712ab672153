/* SPDX-License-Identifier: MIT */
#include "instructions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs callgrind and returns the number of executed instructions, or 0 if the run failed. Callgrind
 * ends its output with a line such as "==7== Collected : 12345". */
static unsigned long long
count_run(const char *program, const char *name, const char *options, unsigned long rounds)
{
    char command[6000], line[256];
    unsigned long long collected = 0;
    snprintf(command, sizeof(command),
             "FERRY_DEVICE=emulated valgrind --tool=callgrind --callgrind-out-file=/dev/null%s "
             "'%s' --loop %s %lu 2>&1",
             options, program, name, rounds);
    FILE *output = popen(command, "r");
    if (!output)
        return 0;
    while (fgets(line, sizeof(line), output)) {
        const char *text = strstr(line, "Collected : ");
        if (text)
            collected = strtoull(text + strlen("Collected : "), NULL, 10);
    }
    return pclose(output) == 0 ? collected : 0;
}

bool
bench_count_instructions(const char *name, const char *const *functions, double *out)
{
    enum { FEW = 1000, MANY = 51000 };
    char program[4096], options[512] = "";
    size_t used = 0;
    for (; functions && *functions && used < sizeof(options); functions++)
        used += (size_t)snprintf(options + used, sizeof(options) - used, " --toggle-collect=%s",
                                 *functions);
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length < 0)
        return false;
    program[length] = 0;
    if (strchr(program, '\'') || system("command -v valgrind >/dev/null 2>&1") != 0)
        return false;

    unsigned long long few = count_run(program, name, options, FEW),
                       many = count_run(program, name, options, MANY);
    if (few == 0 || many <= few)
        return false;
    *out = (double)(many - few) / (MANY - FEW);
    return true;
}
