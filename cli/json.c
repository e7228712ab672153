/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>

#include "cli/output.h"

/* What is not UTF-8 becomes a question mark. */
static void
quote(FILE *file, const char *text)
{
    fputc('"', file);
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        bytes = output_character_bytes(text);
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if (bytes == 1 && ((unsigned char)*text < 0x20 || *text == 0x7f))
            fprintf(file, "\\u%04x", (unsigned)*text);
        else if (bytes > 0)
            fwrite(text, 1, bytes, file);
        else
            fputc('?', file);
    }
    fputc('"', file);
}

static void
begin(struct json *json, const char *name)
{
    if (json->depth > 0) {
        fprintf(json->file, "%s\n%*s", json->filled[json->depth] ? "," : "", 2 * json->depth, "");
        json->filled[json->depth] = true;
    }
    if (name) {
        quote(json->file, name);
        fputs(": ", json->file);
    }
}

void
json_open(struct json *json, const char *name, char bracket)
{
    begin(json, name);
    fputc(bracket, json->file);
    json->filled[++json->depth] = false;
}

void
json_close(struct json *json, char bracket)
{
    bool filled = json->filled[json->depth--];
    if (filled)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->file);
    if (json->depth == 0)
        fputc('\n', json->file);
}

void
json_string(struct json *json, const char *name, const char *value)
{
    if (!value) {
        json_null(json, name);
        return;
    }
    begin(json, name);
    quote(json->file, value);
}

void
json_number(struct json *json, const char *name, uint64_t value)
{
    begin(json, name);
    fprintf(json->file, "%" PRIu64, value);
}

void
json_real(struct json *json, const char *name, double value)
{
    if (!isfinite(value)) {
        json_null(json, name);
        return;
    }
    begin(json, name);
    fprintf(json->file, "%.6g", value);
}

void
json_bool(struct json *json, const char *name, bool value)
{
    begin(json, name);
    fputs(value ? "true" : "false", json->file);
}

void
json_null(struct json *json, const char *name)
{
    begin(json, name);
    fputs("null", json->file);
}
