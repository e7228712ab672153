/* SPDX-License-Identifier: MIT */
#include "tests/histories/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool
resume_open(struct resume *resume, const char *path)
{
    *resume = (struct resume){.path = path};
    FILE *file = path ? fopen(path, "r") : NULL;
    struct resume_line line;
    int fields = EOF;
    while (file && resume->count < RESUME_DEVICES &&
           (fields = fscanf(file, "%" SCNu64 " %" SCNu64 " %63[^\n]", &line.next, &line.steps,
                            line.device)) == 3)
        resume->lines[resume->count++] = line;
    if (file)
        fclose(file);
    return fields == EOF;
}

struct resume_line *
resume_line(struct resume *resume, const char *device, uint64_t first)
{
    for (unsigned i = 0; i < resume->count; i++)
        if (strcmp(resume->lines[i].device, device) == 0)
            return &resume->lines[i];
    struct resume_line *line =
        &resume->lines[resume->count < RESUME_DEVICES ? resume->count++ : RESUME_DEVICES - 1];
    *line = (struct resume_line){.next = first};
    snprintf(line->device, sizeof(line->device), "%s", device);
    return line;
}

bool
resume_save(const struct resume *resume)
{
    char fresh[4096];
    if (!resume->path)
        return true;
    snprintf(fresh, sizeof(fresh), "%s.new", resume->path);
    FILE *file = fopen(fresh, "w");
    if (!file)
        return false;
    for (unsigned i = 0; i < resume->count; i++)
        fprintf(file, "%" PRIu64 " %" PRIu64 " %s\n", resume->lines[i].next, resume->lines[i].steps,
                resume->lines[i].device);
    return fclose(file) == 0 && rename(fresh, resume->path) == 0;
}
