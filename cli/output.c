/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include <errno.h>
#include <string.h>

static void
tell(const char *command, const char *path)
{
    fprintf(stderr, "ferry %s: %s: %s\n", command, path ? path : "standard output",
            strerror(errno));
}

FILE *
output_open(const char *command, const char *path)
{
    FILE *file = path ? fopen(path, "w") : stdout;
    if (!file)
        tell(command, path);
    return file;
}

bool
output_close(const char *command, const char *path, FILE *file)
{
    bool failed = ferror(file) != 0;
    /* cppcheck-suppress useClosedFile ; it thinks that ferror() closes */
    failed |= (path ? fclose(file) : fflush(file)) != 0;
    if (failed)
        tell(command, path);
    return !failed;
}

/* Bytes that the first byte of a character says it has; 0: it is none. */
static size_t
announced_bytes(unsigned char first)
{
    return first < 0x80   ? first > 0
           : first < 0xc2 ? 0
           : first < 0xe0 ? 2
           : first < 0xf0 ? 3
           : first < 0xf5 ? 4
                          : 0;
}

size_t
output_character_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t bytes = announced_bytes(c[0]);
    for (size_t i = 1; i < bytes; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool is_no_character = (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf4 && c[1] >= 0x90);
    return is_overlong || is_no_character ? 0 : bytes;
}

/* Those of ASCII, and those of Latin 1, which some terminals obey as well. */
static bool
is_control(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    return c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
}

void
output_text(FILE *file, const char *text)
{
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        bytes = output_character_bytes(text);
        if (bytes == 0 || is_control(text))
            fputc('?', file);
        else
            fwrite(text, 1, bytes, file);
    }
}
