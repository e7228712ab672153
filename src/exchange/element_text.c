/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include <ferry/bfloat16.h>
#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/complex_double.h>
#include <ferry/complex_float.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/int8.h>
#include <ferry/uint16.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

#include "src/buffer/buffer.h"
#include "src/exchange/exchange.h"

/* Writes texts that describe an element type in the notations of other languages. */

size_t
ferryi_scalar_align(ferry_kind kind, uint32_t bits)
{
    return kind == FERRY_KIND_COMPLEX ? bits / 16 : bits / 8;
}

const ferry_element *
ferry_element_scalar(ferry_kind kind, uint32_t bits)
{
    static const ferry_element *(*const elements[])(void) = {
        ferry_float_element,    ferry_double_element,        ferry_half_element,
        ferry_bfloat16_element, ferry_int8_element,          ferry_int16_element,
        ferry_int_element,      ferry_int64_element,         ferry_byte_element,
        ferry_uint16_element,   ferry_uint32_element,        ferry_uint64_element,
        ferry_bool_element,     ferry_complex_float_element, ferry_complex_double_element};
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
        const ferry_element *element = elements[i]();
        if (element->kind == kind && element->bits == bits)
            return element;
    }
    return NULL;
}

/* -- the buffer protocol ----------------------------------------------------------------------- */

/* Returns the letter of Python's buffer protocol for a scalar, or NULL if there is no letter. With
 * native sizes, 64-bit integers are written as `l`, as in NumPy. Without native sizes, `l` means 32
 * bits. */
static const char *
buffer_letter(ferry_kind kind, uint32_t bits, bool native)
{
    bool has_long = native && sizeof(long) == 8;
    switch (kind) {
    case FERRY_KIND_FLOAT:
        return bits == 16 ? "e" : bits == 32 ? "f" : "d";
    case FERRY_KIND_INT:
        return bits == 8 ? "b" : bits == 16 ? "h" : bits == 32 ? "i" : has_long ? "l" : "q";
    case FERRY_KIND_UINT:
        return bits == 8 ? "B" : bits == 16 ? "H" : bits == 32 ? "I" : has_long ? "L" : "Q";
    case FERRY_KIND_BOOL:
        return "?";
    case FERRY_KIND_COMPLEX:
        return bits == 64 ? "Zf" : bits == 128 ? "Zd" : NULL;
    case FERRY_KIND_BFLOAT:
    case FERRY_KIND_STRUCT:
        break;
    }
    return NULL;
}

bool
ferryi_element_is_natural(const ferry_element *element)
{
    for (size_t i = 0; i < element->field_count; i++) {
        size_t align = ferryi_scalar_align(element->fields[i].kind, element->fields[i].bits);
        if (element->fields[i].offset % align || element->bytes % align)
            return false;
    }
    return true;
}

static void
append_padding(size_t padding, char *text, size_t bytes, size_t *length)
{
    if (padding == 1)
        ferryi_text_append(text, bytes, length, "x");
    else if (padding > 1)
        ferryi_text_append(text, bytes, length, "%zux", padding);
}

static bool
can_name_fields(const ferry_element *element)
{
    for (size_t i = 0; i < element->field_count; i++) {
        const ferry_field *field = &element->fields[i];
        if (!buffer_letter(field->kind, field->bits, true) ||
            (field->name && strchr(field->name, ':')))
            return false;
    }
    return true;
}

static size_t
struct_text(const ferry_element *element, char *text, size_t bytes)
{
    size_t length = 0, end = 0;
    bool native = ferryi_element_is_natural(element);
    if (!can_name_fields(element))
        return 0;
    ferryi_text_append(text, bytes, &length, "T{");
    for (size_t i = 0; i < element->field_count; i++) {
        const ferry_field *field = &element->fields[i];
        append_padding(field->offset - end, text, bytes, &length);
        if (field->count > 1)
            ferryi_text_append(text, bytes, &length, "(%zu)", field->count);
        /* The byte-order mark of a field follows the field's shape, because NumPy accepts the mark
         * nowhere else. */
        ferryi_text_append(text, bytes, &length, "%s%s", i == 0 && !native ? "=" : "",
                           buffer_letter(field->kind, field->bits, native));
        if (field->name && field->name[0])
            ferryi_text_append(text, bytes, &length, ":%s:", field->name);
        end = field->offset + field->count * (field->bits / 8);
    }
    append_padding(element->bytes - end, text, bytes, &length);
    ferryi_text_append(text, bytes, &length, "}");
    return length;
}

static size_t
buffer_text(const ferry_element *element, char *text, size_t bytes)
{
    if (element->kind == FERRY_KIND_STRUCT)
        return struct_text(element, text, bytes);
    const char *letter = buffer_letter(element->kind, element->bits, true);
    size_t length = 0;
    if (letter)
        ferryi_text_append(text, bytes, &length, "%s", letter);
    return length;
}

/* -- typestr, and Arrow ------------------------------------------------------------------------ */

static size_t
typestr_text(const ferry_element *element, char *text, size_t bytes)
{
    static const char letters[] = {
        [FERRY_KIND_FLOAT] = 'f', [FERRY_KIND_INT] = 'i',     [FERRY_KIND_UINT] = 'u',
        [FERRY_KIND_BOOL] = 'b',  [FERRY_KIND_COMPLEX] = 'c', [FERRY_KIND_STRUCT] = 'V'};
    bool has_order = element->kind != FERRY_KIND_STRUCT && element->bytes > 1;
    size_t length = 0;
    if (!letters[element->kind] || (element->kind == FERRY_KIND_COMPLEX && element->bits < 64))
        return 0;
    ferryi_text_append(text, bytes, &length, "%c%c%zu",
                       !has_order                                  ? '|'
                       : __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<'
                                                                   : '>',
                       letters[element->kind], element->bytes);
    return length;
}

static size_t
arrow_text(const ferry_element *element, char *text, size_t bytes)
{
    static const char signed_letters[] = {
        [8 / 8] = 'c', [16 / 8] = 's', [32 / 8] = 'i', [64 / 8] = 'l'};
    static const char unsigned_letters[] = {
        [8 / 8] = 'C', [16 / 8] = 'S', [32 / 8] = 'I', [64 / 8] = 'L'};
    static const char float_letters[] = {[16 / 8] = 'e', [32 / 8] = 'f', [64 / 8] = 'g'};
    const char *letters = element->kind == FERRY_KIND_INT     ? signed_letters
                          : element->kind == FERRY_KIND_UINT  ? unsigned_letters
                          : element->kind == FERRY_KIND_FLOAT ? float_letters
                                                              : NULL;
    size_t length = 0;
    if (letters)
        ferryi_text_append(text, bytes, &length, "%c", letters[element->bytes]);
    return length;
}

size_t
ferry_element_text(const ferry_element *element, ferry_text language, char *text, size_t bytes)
{
    if (ferry_element_identity(element) == 0)
        return 0;
    if (!text)
        bytes = 0;
    switch (language) {
    case FERRY_TEXT_BUFFER:
        return buffer_text(element, text, bytes);
    case FERRY_TEXT_TYPESTR:
        return typestr_text(element, text, bytes);
    case FERRY_TEXT_ARROW:
        return arrow_text(element, text, bytes);
    }
    return 0;
}
