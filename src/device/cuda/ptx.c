/* SPDX-License-Identifier: MIT */
#include "src/device/cuda/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text after `word` if `text` begins with this word, and NULL otherwise. */
static const char *
after_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || !isspace((unsigned char)text[length]))
        return NULL;
    return text + length + strspn(text + length, " \t");
}

/* Returns the name of the first entry point in the lines from `line` on; NULL if there is none. Its
 * directive is the first word of a line, or follows the word that says who may link to it. */
static const char *
next_entry(const char *line)
{
    while (line) {
        const char *word = line + strspn(line, " \t");
        const char *linked = after_word(word, ".visible");
        const char *name = after_word(linked ? linked : word, ".entry");
        if (!linked && !name && (linked = after_word(word, ".weak")) != NULL)
            name = after_word(linked, ".entry");
        if (name)
            return name;
        const char *end = strchr(line, '\n');
        line = end ? end + 1 : NULL;
    }
    return NULL;
}

static size_t
name_length(const char *name)
{
    return strcspn(name, " \t\r\n({");
}

/* Returns the bytes of the parameter whose declaration is [`text`, `end`), such as
 * ".param .align 8 .b8 name[24]"; 0 if its type is unknown. */
static size_t
parameter_bytes(const char *text, const char *end)
{
    static const struct type {
        const char *name;
        size_t bytes;
    } types[] = {
        {".u8", 1},  {".s8", 1},  {".b8", 1},  {".u16", 2}, {".s16", 2},
        {".b16", 2}, {".f16", 2}, {".u32", 4}, {".s32", 4}, {".b32", 4},
        {".f32", 4}, {".u64", 8}, {".s64", 8}, {".b64", 8}, {".f64", 8},
    };
    size_t bytes = 0;
    for (const char *at = text; at < end && bytes == 0; at++)
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && bytes == 0; i++)
            bytes = after_word(at, types[i].name) ? types[i].bytes : 0;
    const char *bracket = memchr(text, '[', (size_t)(end - text));
    return bracket ? bytes * strtoul(bracket + 1, NULL, 10) : bytes;
}

/* Returns the text that follows the name of the entry point `name`; NULL if there is none. Then
 * `other` is the name of an entry point that there is, or "" if there is none whose name fits. */
static const char *
find_entry(const char *ptx, const char *name, char *other, size_t other_size)
{
    size_t length = strlen(name);
    *other = '\0';
    for (const char *found = next_entry(ptx); found; found = next_entry(strchr(found, '\n'))) {
        size_t found_length = name_length(found);
        if (found_length == length && memcmp(found, name, length) == 0)
            return found + found_length;
        if (*other == '\0' && found_length < other_size) {
            memcpy(other, found, found_length);
            other[found_length] = '\0';
        }
    }
    return NULL;
}

/* Reads the parameters of an entry point, at most `most` of them. Sets the bytes of each, 0 for one
 * of a type that this reader does not know. Returns false if no list of parameters follows. */
static bool
read_list(const char *entry, size_t most, size_t *bytes, size_t *out_count)
{
    const char *text = entry + strspn(entry, " \t\r\n");
    const char *close = *text == '(' ? strchr(text, ')') : NULL;
    *out_count = 0;
    if (!close)
        return false;
    text++;
    text += strspn(text, " \t\r\n");
    while (text < close && *out_count < most) {
        const char *end = memchr(text, ',', (size_t)(close - text));
        end = end ? end : close;
        bytes[(*out_count)++] = parameter_bytes(text, end);
        text = end + 1;
    }
    return true;
}

ferry_status
ferryi_ptx_read(const char *ptx, const char *name, size_t most, size_t *out_bytes,
                size_t *out_count)
{
    char other[128];
    *out_count = FERRYI_PARAMETERS_UNKNOWN;
    if (!strstr(ptx, ".version "))
        return FERRY_OK;
    const char *entry = find_entry(ptx, name, other, sizeof(other));
    if (!entry)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the code has no entry point of this name%s%s%s; declare the function "
                           "as extern \"C\" __global__",
                           *other ? ", but \"" : "", other, *other ? "\"" : "");
    if (!read_list(entry, most, out_bytes, out_count))
        *out_count = FERRYI_PARAMETERS_UNKNOWN;
    return FERRY_OK;
}
