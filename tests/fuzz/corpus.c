/* SPDX-License-Identifier: MIT */
/* A main program for builds without libFuzzer. It runs the fuzz target on every file of a corpus:
 * first on the whole file, then on the file truncated to CUTS shorter lengths. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

enum { BYTES_MAX = 65536, CUTS = 64 };

static int
play_file(const char *folder, const char *name)
{
    static unsigned char bytes[BYTES_MAX];
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t count = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (size_t cut = 0; cut <= CUTS; cut++) {
        /* Copies each input to a separate heap block, so that a sanitizer detects reads past the
         * end of the block. */
        size_t length = count - count * cut / CUTS;
        unsigned char *copy = malloc(length + 1);
        if (!copy)
            return 0;
        for (size_t i = 0; i < length; i++)
            copy[i] = bytes[i];
        LLVMFuzzerTestOneInput(copy, length);
        free(copy);
    }
    return 1;
}

int
main(int argc, char **argv)
{
    int count = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            count += play_file(argv[1], entry->d_name);
    closedir(folder);
    printf("%d files of %s\n", count, argv[1]);
    return count == 0;
}
