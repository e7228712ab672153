/* SPDX-License-Identifier: MIT */
#include "tests/buffer/files.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 16 };

static char folder[64];

int
files_setup(void **state)
{
    const char *place = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof(folder), "%s/ferry-file-XXXXXX",
             place && strlen(place) < 40 ? place : "/tmp");
    assert_non_null(mkdtemp(folder));
    /* Some tests run as a different user for a while. That user must be able to enter the
     * folder. */
    assert_int_equal(chmod(folder, 0755), 0);
    return 0;
}

int
files_teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

const char *
path_of(const char *name)
{
    static char paths[PATHS][128];
    static unsigned next;
    char *path = paths[next++ % PATHS];
    snprintf(path, sizeof(paths[0]), "%s%s%s", folder, *name ? "/" : "", name);
    return path;
}

void
write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

void
write_counting_file(const char *path, size_t count)
{
    int32_t *values = malloc(count * sizeof(int32_t) + 1);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)i;
    write_file(path, values, count * sizeof(int32_t));
    free(values);
}

size_t
file_bytes(const char *path)
{
    struct stat info = {0};
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

/* Returns the bytes of a file in allocated memory, which the caller frees. */
static unsigned char *
read_file(const char *path, size_t *out_bytes)
{
    size_t bytes = file_bytes(path);
    unsigned char *memory = malloc(bytes + 1);
    FILE *file = fopen(path, "rb");
    assert_true(memory && file);
    *out_bytes = fread(memory, 1, bytes + 1, file);
    assert_int_equal(*out_bytes, bytes);
    fclose(file);
    return memory;
}

void
expect_file(const char *path, const void *bytes, size_t count)
{
    size_t got;
    unsigned char *there = read_file(path, &got);
    assert_int_equal(got, count);
    assert_memory_equal(there, bytes, count);
    free(there);
}

void
expect_integers(const char *path, size_t offset, size_t count, int first)
{
    size_t got;
    unsigned char *there = read_file(path, &got);
    assert_int_equal(got, offset + count * sizeof(int32_t));
    for (size_t i = 0; i < count; i++) {
        int32_t value;
        memcpy(&value, there + offset + i * sizeof(value), sizeof(value));
        if (value != (int32_t)i + first)
            fail_msg("%s: integer %zu is %d, not %d", path, i, (int)value, (int)i + first);
    }
    free(there);
}

void
expect_counting_file(const char *path, size_t count)
{
    expect_integers(path, 0, count, 0);
}

void
expect_said(const char *path, const char *more)
{
    if (!strstr(ferry_last_error(), path) || !strstr(ferry_last_error(), more))
        fail_msg("\"%s\" names not both \"%s\" and \"%s\"", ferry_last_error(), path, more);
}
