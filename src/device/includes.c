/* SPDX-License-Identifier: MIT */
#include "src/device/includes.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 4096
#define BYTES_MAX ((size_t)64 << 20)

/* The files that were found so far. */
struct scan {
    const struct ferryi_includes *includes;
    struct ferryi_sha256 *state;
    char *paths[FILES_MAX];
    size_t count, bytes;
};

/* -- text without comments --------------------------------------------------------------------- */

/* Returns the address behind all backslashes at `text` that end a line. */
static const char *
behind_splices(const char *text)
{
    while (text[0] == '\\' && (text[1] == '\n' || (text[1] == '\r' && text[2] == '\n')))
        text += text[1] == '\n' ? 2 : 3;
    return text;
}

static const char *
behind_comment(const char *text, const char *end)
{
    const char *found = strstr(text, end);
    return found ? found + strlen(end) : text + strlen(text);
}

/* Returns the end of a raw string, or NULL if `text`, which follows a letter R, is none. */
static const char *
behind_raw_string(const char *text)
{
    char end[24];
    size_t length = strcspn(text + 1, "( )\\\t\v\f\n\"");
    if (*text != '"' || text[1 + length] != '(' || length > 16)
        return NULL;
    snprintf(end, sizeof(end), ")%.*s\"", (int)length, text + 1);
    return behind_comment(text, end);
}

/* Copies a literal whose first character is a quotation mark. It ends with its line at the latest.
 */
static const char *
copy_literal(const char *text, char **out)
{
    const char quote = *text;
    *(*out)++ = *text++;
    while (*text && *text != '\n' && *text != quote) {
        if (*text == '\\' && text[1] && text[1] != '\n')
            *(*out)++ = *text++;
        *(*out)++ = *text++;
    }
    if (*text == quote)
        *(*out)++ = *text++;
    return text;
}

/* Joins the lines of a text that end with a backslash. */
static void
join_lines(char *text)
{
    char *out = text;
    for (const char *at = behind_splices(text); *at; at = behind_splices(at + 1))
        *out++ = *at;
    *out = 0;
}

/* Returns whether the apostrophe at `end` separates digits of the number before it. */
static bool
is_in_number(const char *text, const char *end)
{
    while (end > text && (isalnum((unsigned char)end[-1]) || end[-1] == '_' || end[-1] == '\''))
        end--;
    return isdigit((unsigned char)*end);
}

/* Replaces the comments and raw strings of a text, whose lines are joined, by spaces. */
static void
strip(char *text)
{
    char *out = text;
    const char *at = text, *end;
    while (*at) {
        if (at[0] == '/' && (at[1] == '*' || at[1] == '/')) {
            at = at[1] == '*' ? behind_comment(at + 2, "*/") : at + strcspn(at, "\n");
            *out++ = ' ';
        } else if (*at == '"' && out > text && out[-1] == 'R' && (end = behind_raw_string(at))) {
            at = end;
            *out++ = ' ';
        } else if (*at == '"' || (*at == '\'' && !is_in_number(text, out))) {
            at = copy_literal(at, &out);
        } else {
            *out++ = *at++;
        }
    }
    *out = 0;
}

/* -- files ------------------------------------------------------------------------------------- */

/* Returns the text of a regular file, or NULL. The caller frees the text. */
static char *
read_text(const char *path, size_t *out_bytes)
{
    struct stat status = {0};
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
        (size_t)status.st_size < BYTES_MAX)
        text = malloc((size_t)status.st_size + 1);
    if (text) {
        *out_bytes = fread(text, 1, (size_t)status.st_size, file);
        text[*out_bytes] = 0;
    }
    if (file)
        fclose(file);
    return text;
}

static bool scan_text(struct scan *scan, char *text, const char *folder);

/* Hashes a file and what it includes. Reads each file once. */
static bool
scan_file(struct scan *scan, const char *path)
{
    size_t bytes = 0;
    for (size_t i = 0; i < scan->count; i++)
        if (strcmp(scan->paths[i], path) == 0)
            return true;
    char *text = read_text(path, &bytes), *own = strdup(path);
    bool fits = text && own && scan->count < FILES_MAX && scan->bytes + bytes <= BYTES_MAX;
    if (fits) {
        scan->paths[scan->count++] = own;
        scan->bytes += bytes;
        ferryi_sha256_add_piece(scan->state, text, bytes);
        char folder[PATH_MAX];
        const char *slash = strrchr(path, '/');
        snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
        fits = strlen(text) == bytes && scan_text(scan, text, folder);
    } else {
        free(own);
    }
    free(text);
    return fits;
}

/* Writes the path of a file in a folder, and returns whether there is such a file. */
static bool
is_file_in(const char *folder, const char *slash, const char *name, char path[PATH_MAX])
{
    struct stat status = {0};
    int length = snprintf(path, PATH_MAX, "%s%s%s", folder, slash, name);
    return length < PATH_MAX && stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

/* Finds a file as the run-time compiler does. Writes its path, or "" if there is none. */
static void
find_file(const struct scan *scan, const char *name, bool is_quoted, const char *folder,
          char path[PATH_MAX])
{
    const struct ferryi_includes *includes = scan->includes;
    if ((is_quoted || *name == '/') && is_file_in(*name == '/' ? "" : folder, "", name, path))
        return;
    for (size_t i = 0; i < includes->folder_count && *name != '/'; i++)
        if (is_file_in(includes->folders[i], "/", name, path))
            return;
    *path = 0;
}

/* -- directives -------------------------------------------------------------------------------- */

static const char *
behind_space(const char *at)
{
    return at + strspn(at, " \t\r\f\v");
}

/* Adds the file whose name begins at `at`, with its delimiters. */
static bool
add_name(struct scan *scan, const char *at, const char *folder)
{
    char name[PATH_MAX], path[PATH_MAX];
    const char *end = *at == '<'   ? strpbrk(at + 1, ">\n")
                      : *at == '"' ? strpbrk(at + 1, "\"\n")
                                   : NULL;
    if (!end || *end == '\n' || end - at >= PATH_MAX)
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)(end - at) - 1, at + 1);
    find_file(scan, name, *at == '"', folder, path);
    ferryi_sha256_add_piece(scan->state, name, strlen(name));
    ferryi_sha256_add_piece(scan->state, path, strlen(path));
    return !*path || scan_file(scan, path);
}

static size_t
word_length(const char *at)
{
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_')
        length++;
    return length;
}

static bool
is_word(const char *at, const char *word)
{
    return word_length(at) == strlen(word) && strncmp(at, word, strlen(word)) == 0;
}

/* Adds the files after whose existence the condition `line` asks. */
static bool
scan_condition(struct scan *scan, const char *line, const char *folder)
{
    for (const char *at = line; *at && *at != '\n';) {
        size_t length = word_length(at);
        if (is_word(at, "__has_include_next") || is_word(at, "__has_embed"))
            return false;
        const char *after = behind_space(at + length);
        if (is_word(at, "__has_include") && *after == '(' &&
            !add_name(scan, behind_space(after + 1), folder))
            return false;
        at += length > 0 ? length : 1;
    }
    return true;
}

/* Returns whether a line that is no condition asks whether a file exists, for example in a macro.
 */
static bool
hides_condition(const char *line)
{
    const char *found = strstr(line, "__has_include"), *end = strchr(line, '\n');
    return found && (!end || found < end);
}

static bool
scan_line(struct scan *scan, const char *line, const char *folder)
{
    const char *at = behind_space(line);
    if (*at != '#' && !(at[0] == '%' && at[1] == ':'))
        return !hides_condition(line);
    at = behind_space(at + (*at == '#' ? 1 : 2));
    if (is_word(at, "include"))
        return add_name(scan, behind_space(at + strlen("include")), folder);
    if (is_word(at, "include_next") || is_word(at, "import") || is_word(at, "embed"))
        return false;
    if (is_word(at, "if") || is_word(at, "elif"))
        return scan_condition(scan, at, folder);
    return is_word(at, "ifdef") || is_word(at, "ifndef") || !hides_condition(line);
}

/* Scans a text, and changes it. */
static bool
scan_text(struct scan *scan, char *text, const char *folder)
{
    join_lines(text);
    strip(text);
    for (const char *line = text; *line; line += *line == '\n') {
        if (!scan_line(scan, line, folder))
            return false;
        line += strcspn(line, "\n");
    }
    return true;
}

bool
ferryi_includes_hash(const struct ferryi_includes *includes, struct ferryi_sha256 *state)
{
    struct scan *scan = calloc(1, sizeof(*scan));
    char *text = strdup(includes->text);
    bool determined = scan && text;
    if (determined) {
        scan->includes = includes;
        scan->state = state;
        determined = scan_text(scan, text, "");
    }
    for (size_t i = 0; scan && i < scan->count; i++)
        free(scan->paths[i]);
    free(scan);
    free(text);
    return determined;
}
