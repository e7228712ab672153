/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include <errno.h>
#include <string.h>

static void
tell(const char *command, const char *path)
{
    fprintf(stderr, "ferry %s: %s: %s\n", command, path ? path : "standard output", strerror(errno));
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

void
output_svg_text(FILE *file, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
            fprintf(file, "&#%d;", *c);
        else
            fputc(*c < 0x20 || *c >= 0x7f ? '?' : *c, file);
    }
}
