/* SPDX-License-Identifier: MIT */
#include "tests/support/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
need(int holds, const char *what, const char *path)
{
    if (holds)
        return;
    fprintf(stderr, "%s ", what);
    perror(path);
    abort();
}

void
folder_make(char path[FOLDER_PATH_BYTES])
{
    const char *place = getenv("TMPDIR");
    snprintf(path, FOLDER_PATH_BYTES, "%s/ferry-test-XXXXXX",
             place && strlen(place) < 128 ? place : "/tmp");
    need(mkdtemp(path) != NULL, "make", path);
    need(chmod(path, 0755) == 0, "open to others", path);
}

static int
remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

void
folder_remove(const char *path)
{
    need(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, "remove", path);
}

static int
visit(const char *path, char last[FOLDER_PATH_BYTES])
{
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        snprintf(last, FOLDER_PATH_BYTES, "%s", entry->d_name);
    }
    closedir(folder);
    return count;
}

int
folder_count(const char *path)
{
    char last[FOLDER_PATH_BYTES];
    return visit(path, last);
}

void
folder_only_file(const char *path, char name[FOLDER_PATH_BYTES])
{
    need(visit(path, name) == 1, "not one file in", path);
}

void
folder_write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    need(file != NULL, "write", path);
    need(fwrite(bytes, 1, count, file) == count, "write", path);
    need(fclose(file) == 0, "write", path);
}

void *
folder_read_file(const char *path, size_t *out_count)
{
    struct stat info = {0};
    FILE *file = fopen(path, "rb");
    need(file != NULL && fstat(fileno(file), &info) == 0, "read", path);
    *out_count = (size_t)info.st_size;
    char *bytes = malloc(*out_count + 1);
    need(bytes != NULL && fread(bytes, 1, *out_count, file) == *out_count, "read", path);
    need(fclose(file) == 0, "read", path);
    bytes[*out_count] = 0;
    return bytes;
}
