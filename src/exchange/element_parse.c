/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/buffer/buffer.h"
#include "src/exchange/exchange.h"

/*
 * Parses texts with which other languages describe an element type. A format string of Python's
 * buffer protocol is parsed by the rules of NumPy's parser. A mark ('@', '=', '<' ...) sets byte
 * order and sizes until the next mark. Only items after '@' are aligned. A struct whose last mark
 * is '@' is padded to its alignment.
 */

#define FIELDS_MAX      4096
#define DEPTH_MAX       16
#define NAME_BYTES      96  /* maximum length in bytes of a struct's name in messages */
#define FIELD_NAME_MOST 255 /* maximum length in bytes */

static const bool is_little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

static ferry_status
too_large(void)
{
    return ferryi_fail(FERRY_ERROR_OVERFLOW, "its size overflows");
}

/* Reads the digits of a number at `*at` and advances `*at` past them. Returns false if there are no
 * digits or the number overflows. */
static bool
read_number(const char **at, size_t *out)
{
    size_t value = 0;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        if (!ferryi_mul_size(value, 10, &value) ||
            !ferryi_add_size(value, (size_t)(**at - '0'), &value))
            return false;
    *out = value;
    return true;
}

/* Makes an element type of the given size that has no fields. */
static ferry_status
make_opaque(size_t bytes, const ferry_element **out)
{
    char name[32];
    snprintf(name, sizeof(name), "V%zu", bytes);
    const ferry_field field = {
        .name = "bytes", .kind = FERRY_KIND_UINT, .bits = 8, .offset = 0, .count = bytes};
    const ferry_element element = {.name = name,
                                   .bytes = bytes,
                                   .align = 1,
                                   .kind = FERRY_KIND_STRUCT,
                                   .fields = &field,
                                   .field_count = 1};
    return ferry_element_intern(&element, out);
}

/* -- the buffer protocol ----------------------------------------------------------------------- */

struct parser {
    const char *text, *at;
    char order; /* the last byte-order mark ('@', '=', '<' ...) that was read; it sets byte order
                   and sizes */
    unsigned depth; /* number of enclosing structs */
    ferry_field *fields;
    size_t count, capacity;
    bool is_scalar; /* whether the format is a single item that is neither a struct nor an array */
};

/* One parsed item. */
struct item {
    ferry_kind kind; /* FERRY_KIND_STRUCT for a nested struct, whose fields start at
                        fields[first_field] of the parser */
    uint32_t bits;
    size_t first_field;
    size_t bytes, align; /* of one element */
    size_t count;
    bool is_padding;
};

/* Size and alignment of the items of a struct that have been read so far. */
struct extent {
    size_t bytes, align;
};

static ferry_status
malformed(const struct parser *p, const char *why)
{
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s at character %zu", why,
                       (size_t)(p->at - p->text));
}

static ferry_status
unsupported(const struct parser *p, const char *why)
{
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s at character %zu", why,
                       (size_t)(p->at - p->text));
}

static ferry_status
no_memory(void)
{
    return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for its fields");
}

static bool
has_native_sizes(const struct parser *p)
{
    return p->order == '@' || p->order == '^';
}

static bool
has_foreign_order(const struct parser *p)
{
    return is_little_endian ? p->order == '>' || p->order == '!' : p->order == '<';
}

/* Skips white space and byte-order marks ('@', '=', '<' ...), and stores the last such mark in
 * p->order. */
static void
skip_marks(struct parser *p)
{
    for (; *p->at && strchr("@=<>!^ \t\n", *p->at); p->at++)
        if (strchr("@=<>!^", *p->at))
            p->order = *p->at;
}

/* Reads a shape such as "(2,3)" and multiplies *count by the length of each dimension. Does nothing
 * if the text has no shape here. */
static ferry_status
read_shape(struct parser *p, size_t *count)
{
    if (*p->at != '(')
        return FERRY_OK;
    do {
        size_t extent;
        p->at++;
        while (*p->at == ' ')
            p->at++;
        if (!read_number(&p->at, &extent))
            return *p->at >= '0' && *p->at <= '9' ? too_large()
                                                  : malformed(p, "a shape is no list of numbers");
        if (!ferryi_mul_size(*count, extent, count))
            return too_large();
        while (*p->at == ' ')
            p->at++;
    } while (*p->at == ',' && p->at[1] != ')');
    p->at += *p->at == ',';
    if (*p->at != ')')
        return malformed(p, "a shape does not end");
    p->at++;
    return FERRY_OK;
}

/* Finds the scalar type for a format letter of Python's buffer protocol. Returns false if there is
 * no such type. */
static bool
find_letter(const struct parser *p, char letter, struct item *item)
{
    static const struct {
        char letter;
        ferry_kind kind;
        uint32_t standard, native;
    } letters[] = {
        {'?', FERRY_KIND_BOOL, 8, 8},
        {'b', FERRY_KIND_INT, 8, 8},
        {'B', FERRY_KIND_UINT, 8, 8},
        {'c', FERRY_KIND_UINT, 8, 8},
        {'s', FERRY_KIND_UINT, 8, 8},
        {'h', FERRY_KIND_INT, 16, 16},
        {'H', FERRY_KIND_UINT, 16, 16},
        {'i', FERRY_KIND_INT, 32, 32},
        {'I', FERRY_KIND_UINT, 32, 32},
        {'l', FERRY_KIND_INT, 32, 8 * sizeof(long)},
        {'L', FERRY_KIND_UINT, 32, 8 * sizeof(long)},
        {'q', FERRY_KIND_INT, 64, 64},
        {'Q', FERRY_KIND_UINT, 64, 64},
        {'n', FERRY_KIND_INT, 0, 8 * sizeof(size_t)},
        {'N', FERRY_KIND_UINT, 0, 8 * sizeof(size_t)},
        {'e', FERRY_KIND_FLOAT, 16, 16},
        {'f', FERRY_KIND_FLOAT, 32, 32},
        {'d', FERRY_KIND_FLOAT, 64, 64},
        {'F', FERRY_KIND_COMPLEX, 64, 64},
        {'D', FERRY_KIND_COMPLEX, 128, 128},
    };
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (letters[i].letter != letter)
            continue;
        item->kind = letters[i].kind;
        item->bits = has_native_sizes(p) ? letters[i].native : letters[i].standard;
        return item->bits != 0;
    }
    return false;
}

static ferry_status
read_scalar(struct parser *p, struct item *item)
{
    char letter = *p->at;
    if (letter == 'Z' && (p->at[1] == 'f' || p->at[1] == 'd')) {
        item->kind = FERRY_KIND_COMPLEX;
        item->bits = p->at[1] == 'f' ? 64 : 128;
        p->at++;
    } else if (letter == 'x') {
        item->is_padding = true;
        item->kind = FERRY_KIND_UINT;
        item->bits = 8;
    } else if (!letter || !find_letter(p, letter, item)) {
        if (letter && strchr("gZOPXutpwsU&", letter))
            return unsupported(p, "no element has this type");
        return malformed(p, letter ? "an unknown type" : "a type is missing");
    }
    if (item->bits > 8 && has_foreign_order(p))
        return unsupported(p, "a number of the other byte order");
    item->bytes = item->bits / 8;
    item->align = item->is_padding ? 1 : ferryi_scalar_align(item->kind, item->bits);
    p->at++;
    return FERRY_OK;
}

static ferry_status read_items(struct parser *p, struct extent *out);

static ferry_status
read_struct(struct parser *p, struct item *item)
{
    struct extent extent;
    if (p->depth == DEPTH_MAX)
        return unsupported(p, "structs are nested more than 16 deep");
    p->at += 2;
    p->depth++;
    item->kind = FERRY_KIND_STRUCT;
    item->first_field = p->count;
    FERRYI_OR_RETURN(read_items(p, &extent));
    if (*p->at != '}')
        return malformed(p, "a struct does not end");
    p->at++;
    p->depth--;
    if (p->count == item->first_field)
        return unsupported(p, "a struct without fields");
    item->bytes = extent.bytes;
    item->align = extent.align;
    return FERRY_OK;
}

static ferry_status
name_too_long(const struct parser *p)
{
    return unsupported(p, "the name of a field has more than 255 bytes");
}

/* Reads the name of a field, written as ":name:", and sets *out to a copy. Sets *out to NULL if no
 * name follows. */
static ferry_status
read_name(struct parser *p, char **out)
{
    *out = NULL;
    if (*p->at != ':')
        return FERRY_OK;
    const char *begin = ++p->at;
    const char *end = strchr(begin, ':');
    if (!end || end == begin)
        return malformed(p, end ? "a name is empty" : "a name does not end");
    size_t length = (size_t)(end - begin);
    if (length > FIELD_NAME_MOST)
        return name_too_long(p);
    *out = malloc(length + 1);
    if (!*out)
        return no_memory();
    memcpy(*out, begin, length);
    (*out)[length] = 0;
    p->at = end + 1;
    return FERRY_OK;
}

/* Adds a field to the parsed struct. The parser takes ownership of `name`. */
static ferry_status
add_field(struct parser *p, const struct item *item, size_t offset, char *name)
{
    if (p->count == FIELDS_MAX) {
        free(name);
        return unsupported(p, "more than 4096 fields");
    }
    if (!ferryi_grow(&p->fields, &p->capacity, p->count + 1, sizeof(*p->fields))) {
        free(name);
        return no_memory();
    }
    p->fields[p->count++] = (ferry_field){.name = name,
                                          .kind = item->kind,
                                          .bits = item->bits,
                                          .offset = offset,
                                          .count = item->count};
    return FERRY_OK;
}

/* Turns the fields of a nested struct into fields of the enclosing struct. The nested struct starts
 * at `offset` in the enclosing struct, and its name becomes a prefix of the field names. */
static ferry_status
add_nested(struct parser *p, const struct item *item, size_t offset, const char *name)
{
    for (size_t i = item->first_field; i < p->count; i++) {
        ferry_field *field = &p->fields[i];
        char *joined;
        field->offset += offset;
        if (strlen(name) + 1 + strlen(field->name) > FIELD_NAME_MOST)
            return name_too_long(p);
        if (asprintf(&joined, "%s.%s", name, field->name) < 0)
            return no_memory();
        free((char *)field->name);
        field->name = joined;
    }
    return FERRY_OK;
}

static ferry_status
add_item(struct parser *p, const struct item *item, size_t offset, size_t number, char *name)
{
    char *made = name;
    if (item->kind == FERRY_KIND_STRUCT && item->count != 1) {
        free(name);
        return unsupported(p, "an array of structs");
    }
    if (!made && asprintf(&made, "f%zu", number) < 0)
        return no_memory();
    if (item->kind != FERRY_KIND_STRUCT)
        return add_field(p, item, offset, made);
    ferry_status status = add_nested(p, item, offset, made);
    free(made);
    return status;
}

/* Returns whether a parsed item is a struct that makes up the whole format string. In this case the
 * names of its fields get no prefix. */
static bool
is_whole(const struct parser *p, const struct item *item, size_t number, size_t offset,
         const char *name)
{
    return p->depth == 0 && number == 0 && offset == 0 && !name &&
           item->kind == FERRY_KIND_STRUCT && item->count == 1 && *p->at == 0;
}

/* Reads one item of a format string, and adds the item's size to `extent`. If the item is aligned,
 * also adds the padding that precedes the item. */
static ferry_status
read_item(struct parser *p, size_t number, struct extent *extent, bool *out_is_field)
{
    struct item item = {.count = 1};
    FERRYI_OR_RETURN(read_shape(p, &item.count));
    skip_marks(p);
    size_t repeats = 1, end;
    if (*p->at >= '0' && *p->at <= '9' && !read_number(&p->at, &repeats))
        return too_large();
    if (!ferryi_mul_size(item.count, repeats, &item.count))
        return too_large();
    bool is_text = *p->at == 's';
    FERRYI_OR_RETURN(p->at[0] == 'T' && p->at[1] == '{' ? read_struct(p, &item)
                                                        : read_scalar(p, &item));
    /* Only items after the mark '@' are aligned. If the item is a struct, p->order is now the last
     * mark inside the struct. */
    bool is_native = p->order == '@';
    if (is_native && (!ferryi_round_up(extent->bytes, item.align, &extent->bytes)))
        return too_large();
    if (is_native && item.align > extent->align)
        extent->align = item.align;
    if (!ferryi_mul_size(item.bytes, item.count, &end) ||
        !ferryi_add_size(extent->bytes, end, &end))
        return too_large();
    char *name;
    ferry_status status = read_name(p, &name);
    if (status != FERRY_OK)
        return status;
    /* Padding has no name: NumPy writes a field of plain bytes so. */
    if (item.is_padding && name)
        item.is_padding = false;
    *out_is_field = !item.is_padding;
    if (item.is_padding || is_whole(p, &item, number, extent->bytes, name)) {
        free(name);
    } else if (item.count == 0) {
        free(name);
        return unsupported(p, "an array of no elements");
    } else {
        p->is_scalar = p->depth == 0 && number == 0 && !name && item.kind != FERRY_KIND_STRUCT &&
                       item.count == 1 && extent->bytes == 0 && !is_text;
        status = add_item(p, &item, extent->bytes, number, name);
    }
    extent->bytes = end;
    return status;
}

/* Reads items up to the end of the text or up to the '}' that ends the struct. Does not consume the
 * '}'. */
static ferry_status
read_items(struct parser *p, struct extent *out)
{
    ferry_status status = FERRY_OK;
    *out = (struct extent){.align = 1};
    size_t number = 0;
    for (skip_marks(p); status == FERRY_OK && *p->at && *p->at != '}'; skip_marks(p)) {
        bool is_field = false;
        status = read_item(p, number, out, &is_field);
        number += is_field;
    }
    if (status == FERRY_OK && p->order == '@' &&
        !ferryi_round_up(out->bytes, out->align, &out->bytes))
        return too_large();
    return status;
}

/* Returns the alignment that C compilers give to a struct of this layout. It is that of the field
 * with the largest alignment, or 1 for a packed struct. */
static size_t
align_of_layout(const ferry_element *element)
{
    size_t align = 1;
    if (!ferryi_element_is_natural(element))
        return 1;
    for (size_t i = 0; i < element->field_count; i++)
        align = ferryi_max_size(
            align, ferryi_scalar_align(element->fields[i].kind, element->fields[i].bits));
    return align;
}

static ferry_status
check_names(const struct parser *p)
{
    for (size_t i = 1; i < p->count; i++)
        for (size_t other = 0; other < i; other++)
            if (strcmp(p->fields[i].name, p->fields[other].name) == 0)
                return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "two fields are called %.100s",
                                   p->fields[i].name);
    return FERRY_OK;
}

/* Makes a struct element type from the parsed fields. Its name in messages is the format string,
 * truncated if the string is long. */
static ferry_status
make_struct(const struct parser *p, size_t bytes, const ferry_element **out)
{
    char name[NAME_BYTES];
    FERRYI_OR_RETURN(check_names(p));
    ferry_element element = {.name = "struct",
                             .bytes = bytes,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = p->fields,
                             .field_count = p->count};
    element.align = align_of_layout(&element);
    if (ferry_element_text(&element, FERRY_TEXT_BUFFER, name, sizeof(name)) >= sizeof(name)) {
        size_t cut = sizeof(name) - sizeof("...");
        while (cut > 0 && ((unsigned char)name[cut] & 0xC0) == 0x80)
            cut--; /* not inside a character */
        memcpy(name + cut, "...", sizeof("..."));
    }
    element.name = name;
    return ferry_element_intern(&element, out);
}

static ferry_status
finish(const struct parser *p, const struct extent *extent, const ferry_element **out)
{
    if (*p->at)
        return malformed(p, "a struct ends that did not begin");
    if (extent->bytes == 0)
        return malformed(p, "there is no type");
    if (p->count == 0)
        return make_opaque(extent->bytes, out);
    if (p->count == 1 && p->is_scalar && extent->bytes == p->fields[0].bits / 8) {
        *out = ferry_element_scalar(p->fields[0].kind, p->fields[0].bits);
        return FERRY_OK;
    }
    return make_struct(p, extent->bytes, out);
}

static ferry_status
parse_buffer(const char *text, const ferry_element **out)
{
    struct parser p = {.text = text, .at = text, .order = '@'};
    struct extent extent;
    ferry_status status = read_items(&p, &extent);
    if (status == FERRY_OK)
        status = finish(&p, &extent, out);
    for (size_t i = 0; i < p.count; i++)
        free((char *)p.fields[i].name);
    free(p.fields);
    return status;
}

/* -- typestr, and Arrow ------------------------------------------------------------------------ */

static ferry_status
parse_typestr(const char *text, const ferry_element **out)
{
    static const struct {
        char letter;
        ferry_kind kind;
    } kinds[] = {{'b', FERRY_KIND_BOOL},
                 {'i', FERRY_KIND_INT},
                 {'u', FERRY_KIND_UINT},
                 {'f', FERRY_KIND_FLOAT},
                 {'c', FERRY_KIND_COMPLEX}};
    const char *at = text;
    char order = *at && strchr("<>|=", *at) ? *at++ : '=';
    char letter = *at;
    size_t bytes;
    if (!letter || !strchr("biufcVSUOMmt", letter))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s",
                           letter ? "it has no such kind" : "it has no kind");
    at++;
    if (strchr("MmO", letter))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no element has this type");
    if (!read_number(&at, &bytes))
        return *at >= '0' && *at <= '9'
                   ? too_large()
                   : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "it has no size");
    if (*at)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "something follows its size");
    if (letter == 'V')
        return bytes ? make_opaque(bytes, out)
                     : ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "its size is 0");
    if (bytes > 1 && order == (is_little_endian ? '>' : '<'))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "a number of the other byte order");
    const ferry_element *element = NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].letter == letter && bytes <= 16)
            element = ferry_element_scalar(kinds[i].kind, (uint32_t)(8 * bytes));
    if (!element)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "no element has this type");
    *out = element;
    return FERRY_OK;
}

static ferry_status
parse_arrow(const char *text, const ferry_element **out)
{
    static const struct {
        char letter;
        ferry_kind kind;
        uint32_t bits;
    } letters[] = {
        {'c', FERRY_KIND_INT, 8},    {'C', FERRY_KIND_UINT, 8},  {'s', FERRY_KIND_INT, 16},
        {'S', FERRY_KIND_UINT, 16},  {'i', FERRY_KIND_INT, 32},  {'I', FERRY_KIND_UINT, 32},
        {'l', FERRY_KIND_INT, 64},   {'L', FERRY_KIND_UINT, 64}, {'e', FERRY_KIND_FLOAT, 16},
        {'f', FERRY_KIND_FLOAT, 32}, {'g', FERRY_KIND_FLOAT, 64}};
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (text[0] == letters[i].letter && text[1] == 0) {
            *out = ferry_element_scalar(letters[i].kind, letters[i].bits);
            return FERRY_OK;
        }
    }
    if (strcmp(text, "b") == 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "its bool has one bit, an element has whole bytes");
    if (text[0] && strchr("nzZuUvwdt+", text[0]))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "it is not the format of a number");
    return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "there is no such format");
}

ferry_status
ferry_element_parse(ferry_text language, const char *text, const ferry_element **out)
{
    if (!text || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "parse the name of an element: text or out is NULL");
    static const struct {
        const char *name;
        ferry_status (*parse)(const char *text, const ferry_element **out);
    } languages[] = {[FERRY_TEXT_BUFFER] = {"buffer format", parse_buffer},
                     [FERRY_TEXT_TYPESTR] = {"typestr", parse_typestr},
                     [FERRY_TEXT_ARROW] = {"Arrow format", parse_arrow}};
    if (language < FERRY_TEXT_BUFFER || language > FERRY_TEXT_ARROW)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "parse the name of an element: there is no language %d", (int)language);
    assert(languages[language].parse);
    ferry_status status = languages[language].parse(text, out);
    return status == FERRY_OK
               ? status
               : ferryi_fail_in(status, "parse the %s \"%.100s\"", languages[language].name, text);
}
