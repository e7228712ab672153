/* SPDX-License-Identifier: MIT */
#include "cli/input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *
input_read(const char *command, const char *path, size_t *out_count)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "r") : stdin;
    char *bytes = NULL;
    size_t count = 0, room = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (count == room) {
            room = room ? 2 * room : 65536;
            char *larger = realloc(bytes, room);
            if (!larger) {
                errno = ENOMEM;
                break;
            }
            bytes = larger;
        }
        count += fread(bytes + count, 1, room - count, file);
    }
    bool whole = file && feof(file) && !ferror(file);
    if (!whole)
        fprintf(stderr, "ferry %s: %s: %s\n", command, path, strerror(errno));
    if (file && file != stdin)
        fclose(file);
    if (!whole) {
        free(bytes);
        return NULL;
    }
    *out_count = count;
    return bytes;
}
