/* SPDX-License-Identifier: MIT */

/*
 * The .npy format: the six bytes "\x93NUMPY", a version (major, minor), the header's length (two bytes in version 1,
 * four in 2 and 3, little-endian), the header, and the elements up to the end of the file. The header is a Python
 * dictionary with the keys 'descr', 'fortran_order' and 'shape', filled up with spaces and ended with a newline.
 */

#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_BYTES_LIMIT 65536u /* NumPy itself refuses more than 10000 */
#define DIMENSIONS_LIMIT   32u
#define EXPECTED_TYPES     "integers of 8 to 64 bits or floats of 16 to 64 bits, such as '<i4' or '>f8'"

/* An open file, and the buffer of its error message. */
struct reader {
    FILE *file;
    uint64_t left; /* bytes from here to the end of the file */
    char *message;
    size_t message_bytes;
};

/* Contents of the header. */
struct header {
    char type[32];
    bool has_type, has_order, has_shape;
    bool fortran;
    size_t dimensions;
    uint64_t shape[DIMENSIONS_LIMIT];
};

/* Layout of the values in the file. */
struct layout {
    bool swapped;   /* in the other byte order than this machine's */
    bool by_column; /* column after column */
};

/* Position in the header's text, which ends with NUL. */
struct cursor {
    struct reader *reader;
    const char *at;
};

static bool fail(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the message and returns false. Unprintable text from the file becomes '?'. */
static bool
fail(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->message, reader->message_bytes, format, arguments);
    va_end(arguments);
    for (char *c = reader->message; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
    }
    return false;
}

static bool
read_bytes(struct reader *reader, void *target, size_t bytes, const char *what)
{
    if (bytes > reader->left)
        return fail(reader, "truncated: %s needs %zu bytes, the file has %" PRIu64 " more", what, bytes, reader->left);
    if (fread(target, 1, bytes, reader->file) != bytes) {
        if (ferror(reader->file))
            return fail(reader, "cannot read %s: %s", what, strerror(errno));
        return fail(reader, "the file became shorter while %s was read", what);
    }
    reader->left -= bytes;
    return true;
}

/* -- the header's text ----------------------------------------------------------------------------- */

static void
skip_spaces(struct cursor *cursor)
{
    while (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n' || *cursor->at == '\r')
        cursor->at++;
}

/* Skips `text` if it is next. */
static bool
take(struct cursor *cursor, const char *text)
{
    size_t length = strlen(text);
    skip_spaces(cursor);
    if (strncmp(cursor->at, text, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

static bool
expect(struct cursor *cursor, const char *text)
{
    if (take(cursor, text))
        return true;
    return fail(cursor->reader, "malformed header: expected '%s' at \"%.20s\"", text, cursor->at);
}

/* A quoted string without escapes, which is all that NumPy writes for keys and for types that are not structures. */
static bool
parse_string(struct cursor *cursor, char *target, size_t target_bytes)
{
    skip_spaces(cursor);
    char quote = *cursor->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(cursor->at + 1, quote) : NULL;
    if (!end)
        return fail(cursor->reader, "malformed header: expected a string at \"%.20s\"", cursor->at);

    size_t length = (size_t)(end - (cursor->at + 1));
    if (length >= target_bytes)
        return fail(cursor->reader, "malformed header: \"%.20s...\" is too long", cursor->at + 1);
    memcpy(target, cursor->at + 1, length);
    target[length] = 0;
    cursor->at = end + 1;
    return true;
}

static bool
parse_type(struct cursor *cursor, struct header *header)
{
    if (take(cursor, "["))
        return fail(cursor->reader, "the elements are structures; expected " EXPECTED_TYPES);
    return parse_string(cursor, header->type, sizeof(header->type));
}

static bool
parse_order(struct cursor *cursor, struct header *header)
{
    if (take(cursor, "True"))
        header->fortran = true;
    else if (!take(cursor, "False"))
        return fail(cursor->reader, "malformed header: 'fortran_order' is neither True nor False");
    return true;
}

static bool
parse_extent(struct cursor *cursor, uint64_t *out)
{
    uint64_t value = 0;
    skip_spaces(cursor);
    if (*cursor->at < '0' || *cursor->at > '9')
        return fail(cursor->reader, "malformed header: expected a count in 'shape' at \"%.20s\"", cursor->at);
    for (; *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*cursor->at - '0'), &value))
            return fail(cursor->reader, "malformed header: a count in 'shape' does not fit 64 bits");
    }
    if (*cursor->at == 'L') /* Python 2 wrote long integers with this suffix */
        cursor->at++;
    *out = value;
    return true;
}

static bool
parse_shape(struct cursor *cursor, struct header *header)
{
    if (!expect(cursor, "("))
        return false;
    while (!take(cursor, ")")) {
        if (header->dimensions == DIMENSIONS_LIMIT)
            return fail(cursor->reader, "malformed header: 'shape' has more than %u dimensions", DIMENSIONS_LIMIT);
        if (!parse_extent(cursor, &header->shape[header->dimensions++]))
            return false;
        if (!take(cursor, ",")) {
            if (!expect(cursor, ")"))
                return false;
            break;
        }
    }
    return true;
}

/* Parses one "key: value". Each key may appear once. */
static bool
parse_entry(struct cursor *cursor, struct header *header)
{
    char key[32];
    if (!parse_string(cursor, key, sizeof(key)) || !expect(cursor, ":"))
        return false;

    bool *seen;
    bool (*parse)(struct cursor *, struct header *);
    if (strcmp(key, "descr") == 0) {
        seen = &header->has_type;
        parse = parse_type;
    } else if (strcmp(key, "fortran_order") == 0) {
        seen = &header->has_order;
        parse = parse_order;
    } else if (strcmp(key, "shape") == 0) {
        seen = &header->has_shape;
        parse = parse_shape;
    } else {
        return fail(cursor->reader, "malformed header: unknown key '%s'", key);
    }
    if (*seen)
        return fail(cursor->reader, "malformed header: '%s' appears twice", key);
    *seen = true;
    return parse(cursor, header);
}

static bool
parse_header(struct reader *reader, const char *text, size_t text_bytes, struct header *header)
{
    struct cursor cursor = {reader, text};
    if (strlen(text) != text_bytes)
        return fail(reader, "malformed header: it contains a zero byte");
    if (!expect(&cursor, "{"))
        return false;
    while (!take(&cursor, "}")) {
        if (!parse_entry(&cursor, header))
            return false;
        if (!take(&cursor, ",")) {
            if (!expect(&cursor, "}"))
                return false;
            break;
        }
    }
    skip_spaces(&cursor);
    if (*cursor.at)
        return fail(reader, "malformed header: more text after its end: \"%.20s\"", cursor.at);
    if (!header->has_type || !header->has_order || !header->has_shape)
        return fail(reader, "malformed header: it lacks '%s'",
                    !header->has_type    ? "descr"
                    : !header->has_order ? "fortran_order"
                                         : "shape");
    return true;
}

/* -- the file -------------------------------------------------------------------------------------- */

static bool
read_header(struct reader *reader, struct header *header)
{
    unsigned char start[8] = {0}, length[4] = {0};
    if (!read_bytes(reader, start, sizeof(start), "the file's start"))
        return false;
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return fail(reader, "not a .npy file");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return fail(reader, "version %u.%u of the .npy format is not known", start[6], start[7]);
    if (!read_bytes(reader, length, start[6] == 1 ? 2 : 4, "the header's length"))
        return false;

    uint32_t bytes =
        (uint32_t)length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 | (uint32_t)length[3] << 24;
    if (bytes > reader->left)
        return fail(reader, "truncated: the header needs %" PRIu32 " bytes, the file has %" PRIu64 " more", bytes,
                    reader->left);
    if (bytes > HEADER_BYTES_LIMIT)
        return fail(reader, "the header has %" PRIu32 " bytes, more than %u", bytes, HEADER_BYTES_LIMIT);

    char *text = malloc((size_t)bytes + 1);
    if (!text)
        return fail(reader, "no memory for a header of %" PRIu32 " bytes", bytes);
    bool ok = read_bytes(reader, text, bytes, "the header");
    if (ok) {
        text[bytes] = 0;
        ok = parse_header(reader, text, bytes, header);
    }
    free(text);
    return ok;
}

/* -- the values ------------------------------------------------------------------------------------ */

static const struct {
    char code[3]; /* what follows the byte order in 'descr' */
    unsigned char bytes;
    const char *name;
} types[] = {
    [NPY_INT8] = {"i1", 1, "int8"},       [NPY_UINT8] = {"u1", 1, "uint8"},     [NPY_INT16] = {"i2", 2, "int16"},
    [NPY_UINT16] = {"u2", 2, "uint16"},   [NPY_INT32] = {"i4", 4, "int32"},     [NPY_UINT32] = {"u4", 4, "uint32"},
    [NPY_INT64] = {"i8", 8, "int64"},     [NPY_UINT64] = {"u8", 8, "uint64"},   [NPY_FLOAT16] = {"f2", 2, "float16"},
    [NPY_FLOAT32] = {"f4", 4, "float32"}, [NPY_FLOAT64] = {"f8", 8, "float64"},
};

const char *
npy_type_name(enum npy_type type)
{
    return types[type].name;
}

size_t
npy_type_bytes(enum npy_type type)
{
    return types[type].bytes;
}

/* 'descr' is a byte order, '<' or '>', or '|' for values of one byte, and a code. */
static bool
find_type(struct reader *reader, const char *descr, struct npy_grid *out, struct layout *layout)
{
    const char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (descr[0] && strcmp(descr + 1, types[i].code) == 0 &&
            (descr[0] == '<' || descr[0] == '>' || (descr[0] == '|' && types[i].bytes == 1))) {
            out->type = (enum npy_type)i;
            layout->swapped = types[i].bytes > 1 && descr[0] != native;
            return true;
        }
    }
    return fail(reader, "the elements are '%s'; expected " EXPECTED_TYPES, descr);
}

/* Turns the header into a grid without values, and checks that the values are exactly the rest of the file. */
static bool
check_header(struct reader *reader, const struct header *header, struct npy_grid *out, struct layout *layout)
{
    if (!find_type(reader, header->type, out, layout))
        return false;
    if (header->dimensions != 2)
        return fail(reader, "the array has %zu dimension%s; expected 2", header->dimensions,
                    header->dimensions == 1 ? "" : "s");

    uint64_t rows = header->shape[0], columns = header->shape[1], bytes;
    if (rows == 0 || columns == 0)
        return fail(reader, "the array is empty (%" PRIu64 " x %" PRIu64 ")", rows, columns);
    if (__builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)npy_type_bytes(out->type), &bytes) || bytes > PTRDIFF_MAX)
        return fail(reader, "an array of %" PRIu64 " x %" PRIu64 " does not fit memory", rows, columns);
    if (bytes > reader->left)
        return fail(reader,
                    "truncated: %" PRIu64 " x %" PRIu64 " elements need %" PRIu64 " bytes, the file has %" PRIu64, rows,
                    columns, bytes, reader->left);
    if (bytes < reader->left)
        return fail(reader, "%" PRIu64 " more bytes follow the array", reader->left - bytes);
    out->rows = (size_t)rows;
    out->columns = (size_t)columns;
    layout->by_column = header->fortran;
    return true;
}

/* Reverses the bytes of each value. */
static void
swap_values(unsigned char *values, size_t count, size_t bytes)
{
    for (unsigned char *value = values; count > 0; count--, value += bytes) {
        for (size_t i = 0; i < bytes / 2; i++) {
            unsigned char byte = value[i];
            value[i] = value[bytes - 1 - i];
            value[bytes - 1 - i] = byte;
        }
    }
}

/* Copies `columns` columns of `rows` values into rows, in tiles, so that neither side leaves the processor's cache. */
static void
transpose(unsigned char *target, const unsigned char *source, size_t rows, size_t columns, size_t bytes)
{
    enum { TILE = 64 };
    for (size_t row_begin = 0; row_begin < rows; row_begin += TILE)
        for (size_t column_begin = 0; column_begin < columns; column_begin += TILE)
            for (size_t row = row_begin; row < rows && row < row_begin + TILE; row++)
                for (size_t column = column_begin; column < columns && column < column_begin + TILE; column++)
                    memcpy(target + (row * columns + column) * bytes, source + (column * rows + row) * bytes, bytes);
}

static bool
make_rows(struct reader *reader, struct npy_grid *grid)
{
    size_t bytes = npy_type_bytes(grid->type);
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): check_header() refuses empty arrays */
    void *values = malloc(grid->rows * grid->columns * bytes);
    if (!values)
        return fail(reader, "no memory to bring %zu x %zu elements from Fortran into C order", grid->rows,
                    grid->columns);
    transpose(values, grid->values, grid->rows, grid->columns, bytes);
    free(grid->values);
    grid->values = values;
    return true;
}

static bool
read_values(struct reader *reader, const struct layout *layout, struct npy_grid *grid)
{
    size_t count = grid->rows * grid->columns, bytes = npy_type_bytes(grid->type);
    grid->values = calloc(count, bytes); /* zeroed: analysers do not see that fread() fills it */
    if (!grid->values)
        return fail(reader, "no memory for %zu bytes of elements", count * bytes);
    if (!read_bytes(reader, grid->values, count * bytes, "the array"))
        return false;
    if (layout->swapped)
        swap_values(grid->values, count, bytes);
    return !layout->by_column || make_rows(reader, grid);
}

/* -- the grid -------------------------------------------------------------------------------------- */

static bool
read_grid(struct reader *reader, struct npy_grid *out)
{
    struct header header = {0};
    struct layout layout = {0};
    struct npy_grid grid = {0};
    if (!read_header(reader, &header) || !check_header(reader, &header, &grid, &layout))
        return false;
    if (!read_values(reader, &layout, &grid)) {
        npy_free(&grid);
        return false;
    }
    *out = grid;
    return true;
}

bool
npy_read(const char *path, struct npy_grid *out, char *message, size_t message_bytes)
{
    struct reader reader = {.message = message, .message_bytes = message_bytes};
    struct stat info = {0};

    /* Checks the file's type before it opens the file: opening a pipe would block. */
    if (stat(path, &info) != 0)
        return fail(&reader, "%s", strerror(errno));
    if (!S_ISREG(info.st_mode))
        return fail(&reader, "%s", S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
    reader.file = fopen(path, "rb");
    if (!reader.file)
        return fail(&reader, "%s", strerror(errno));

    bool ok = fstat(fileno(reader.file), &info) == 0;
    if (!ok) {
        fail(&reader, "%s", strerror(errno));
    } else {
        reader.left = (uint64_t)info.st_size;
        ok = read_grid(&reader, out);
    }
    fclose(reader.file);
    return ok;
}

void
npy_free(struct npy_grid *grid)
{
    free(grid->values);
    *grid = (struct npy_grid){0};
}
