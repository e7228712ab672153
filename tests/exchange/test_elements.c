/* SPDX-License-Identifier: MIT */
/* Tests the names of element types in other languages, which Ferry formats and parses. Also tests
 * element types that are created at run time. */
#include "tests/buffer/support.h"

#include <pthread.h>
#include <stdio.h>

#include "tests/support/short_memory.h"

#define INVALID     FERRY_ERROR_INVALID_ARGUMENT
#define UNSUPPORTED FERRY_ERROR_UNSUPPORTED
#define SENTINEL    ((const ferry_element *)(uintptr_t)0xabcdef)

/* -- scalars ----------------------------------------------------------------------------------- */

static const struct builtin {
    const ferry_element *(*element)(void);
    ferry_kind kind;
    uint32_t bits;
    const char *buffer, *typestr, *arrow; /* NULL if the language has no name for the element */
} builtins[] = {
    {ferry_float_element, FERRY_KIND_FLOAT, 32, "f", "<f4", "f"},
    {ferry_double_element, FERRY_KIND_FLOAT, 64, "d", "<f8", "g"},
    {ferry_half_element, FERRY_KIND_FLOAT, 16, "e", "<f2", "e"},
    {ferry_bfloat16_element, FERRY_KIND_BFLOAT, 16, NULL, NULL, NULL},
    {ferry_int8_element, FERRY_KIND_INT, 8, "b", "|i1", "c"},
    {ferry_int16_element, FERRY_KIND_INT, 16, "h", "<i2", "s"},
    {ferry_int_element, FERRY_KIND_INT, 32, "i", "<i4", "i"},
    {ferry_int64_element, FERRY_KIND_INT, 64, "l", "<i8", "l"},
    {ferry_byte_element, FERRY_KIND_UINT, 8, "B", "|u1", "C"},
    {ferry_uint16_element, FERRY_KIND_UINT, 16, "H", "<u2", "S"},
    {ferry_uint32_element, FERRY_KIND_UINT, 32, "I", "<u4", "I"},
    {ferry_uint64_element, FERRY_KIND_UINT, 64, "L", "<u8", "L"},
    {ferry_bool_element, FERRY_KIND_BOOL, 8, "?", "|b1", NULL},
    {ferry_complex_float_element, FERRY_KIND_COMPLEX, 64, "Zf", "<c8", NULL},
    {ferry_complex_double_element, FERRY_KIND_COMPLEX, 128, "Zd", "<c16", NULL},
};

static void
expect_text(const ferry_element *element, ferry_text language, const char *expected)
{
    char text[256] = "untouched", cut[4] = "***";
    size_t length = ferry_element_text(element, language, text, sizeof(text));
    if (!expected) {
        assert_int_equal(length, 0);
        assert_string_equal(text, "untouched");
        return;
    }
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    /* Like snprintf(), ferry_element_text() must return the full length even if it truncates the
     * text. */
    assert_int_equal(ferry_element_text(element, language, NULL, 0), length);
    assert_int_equal(ferry_element_text(element, language, cut, sizeof(cut)), length);
    assert_int_equal(strlen(cut), length < 3 ? length : 3);
    assert_memory_equal(cut, expected, strlen(cut));
}

static void
expect_parsed(ferry_text language, const char *text, const ferry_element *expected)
{
    const ferry_element *out = SENTINEL;
    OK(ferry_element_parse(language, text, &out));
    if (!ferry_element_equal(out, expected))
        fail_msg("\"%s\" is %s of %zu bytes, aligned to %zu", text, out->name, out->bytes,
                 out->align);
}

static void
refuse(ferry_status status, ferry_text language, const char *text)
{
    const ferry_element *out = SENTINEL;
    FAILS(status, ferry_element_parse(language, text, &out));
    assert_ptr_equal(out, SENTINEL);
    assert_non_null(strstr(ferry_last_error(), "parse"));
}

static void
test_each_builtin_type_goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(builtins); i++) {
        const struct builtin *b = &builtins[i];
        const ferry_element *element = ferry_element_scalar(b->kind, b->bits);
        assert_true(ferry_element_equal(element, b->element()));
        assert_string_equal(element->name, b->element()->name);
        expect_text(element, FERRY_TEXT_BUFFER, b->buffer);
        expect_text(element, FERRY_TEXT_TYPESTR, b->typestr);
        expect_text(element, FERRY_TEXT_ARROW, b->arrow);
        const char *const texts[] = {b->buffer, b->typestr, b->arrow};
        for (int language = FERRY_TEXT_BUFFER; language <= FERRY_TEXT_ARROW; language++) {
            const ferry_element *parsed;
            if (!texts[language - 1])
                continue;
            OK(ferry_element_parse((ferry_text)language, texts[language - 1], &parsed));
            assert_ptr_equal(parsed, element);
        }
    }
}

static void
test_the_library_has_no_other_scalars(void **state)
{
    (void)state;
    unsigned found = 0;
    for (int kind = 0; kind <= FERRY_KIND_STRUCT + 1; kind++)
        for (uint32_t bits = 0; bits <= 256; bits++)
            found += ferry_element_scalar((ferry_kind)kind, bits) != NULL;
    assert_int_equal(found, LENGTH(builtins));
    assert_null(ferry_element_scalar(FERRY_KIND_COMPLEX, 32));
    assert_null(ferry_element_scalar(FERRY_KIND_STRUCT, 0));
}

static void
test_texts_check_their_arguments(void **state)
{
    (void)state;
    char text[8] = "as ever";
    const ferry_element *out = SENTINEL;
    ferry_element invalid = *ferry_float_element();
    invalid.bits = 31;
    assert_int_equal(ferry_element_text(NULL, FERRY_TEXT_BUFFER, text, sizeof(text)), 0);
    assert_int_equal(ferry_element_text(&invalid, FERRY_TEXT_BUFFER, text, sizeof(text)), 0);
    assert_int_equal(ferry_element_text(ferry_float_element(), (ferry_text)0, text, sizeof(text)),
                     0);
    assert_int_equal(ferry_element_text(ferry_float_element(), (ferry_text)4, text, sizeof(text)),
                     0);
    assert_string_equal(text, "as ever");
    FAILS(INVALID, ferry_element_parse(FERRY_TEXT_BUFFER, NULL, &out));
    FAILS(INVALID, ferry_element_parse(FERRY_TEXT_BUFFER, "f", NULL));
    refuse(INVALID, (ferry_text)0, "f");
    refuse(INVALID, (ferry_text)4, "f");
    assert_ptr_equal(out, SENTINEL);
}

/* -- what others write ------------------------------------------------------------------------- */

static void
test_numbers_of_the_buffer_protocol(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ferry_kind kind;
        uint32_t bits;
    } numbers[] = {
        {"@f", FERRY_KIND_FLOAT, 32},   {"<f", FERRY_KIND_FLOAT, 32},
        {"=d", FERRY_KIND_FLOAT, 64},   {"1f", FERRY_KIND_FLOAT, 32},
        {"^l", FERRY_KIND_INT, 64},     {"l", FERRY_KIND_INT, 64},
        {"=l", FERRY_KIND_INT, 32},     {"<L", FERRY_KIND_UINT, 32},
        {"q", FERRY_KIND_INT, 64},      {"<Q", FERRY_KIND_UINT, 64},
        {"n", FERRY_KIND_INT, 64},      {"N", FERRY_KIND_UINT, 64},
        {">B", FERRY_KIND_UINT, 8},     {"!?", FERRY_KIND_BOOL, 8},
        {"c", FERRY_KIND_UINT, 8},      {"F", FERRY_KIND_COMPLEX, 64},
        {"D", FERRY_KIND_COMPLEX, 128}, {"<Zd", FERRY_KIND_COMPLEX, 128},
        {" f ", FERRY_KIND_FLOAT, 32},
    };
    for (size_t i = 0; i < LENGTH(numbers); i++)
        expect_parsed(FERRY_TEXT_BUFFER, numbers[i].text,
                      ferry_element_scalar(numbers[i].kind, numbers[i].bits));
    static const char *const unsupported[] = {"g",   "Zg",  ">f", "!h",   "O",
                                              "&f",  "P",   "w",  "u",    "p",
                                              "X{}", "T{}", "0f", "(0)f", "T{(2)T{f:x:}:a:}",
                                              "Zx",  "Z"};
    for (size_t i = 0; i < LENGTH(unsupported); i++)
        refuse(UNSUPPORTED, FERRY_TEXT_BUFFER, unsupported[i]);
    static const char *const malformed[] = {
        "",      " ",   "@",    "k", "f}", "T{f:x:",      "T{f:x", "T{f::}", "(2f",
        "(,2)f", "()f", "(a)f", "2", "T",  "T{f:x:f:x:}", "<n",    "=N"};
    for (size_t i = 0; i < LENGTH(malformed); i++)
        refuse(INVALID, FERRY_TEXT_BUFFER, malformed[i]);
    static const char *const large[] = {
        "99999999999999999999f",   "(9223372036854775807,9)B",
        "(9223372036854775807)d",  "T{(18446744073709551615)B:a:f:b:}",
        "(99999999999999999999)f", "(2, 99999999999999999999)f"};
    for (size_t i = 0; i < LENGTH(large); i++)
        refuse(FERRY_ERROR_OVERFLOW, FERRY_TEXT_BUFFER, large[i]);
}

static void
test_typestrs_and_arrow_formats(void **state)
{
    (void)state;
    expect_parsed(FERRY_TEXT_TYPESTR, "f4", ferry_float_element());
    expect_parsed(FERRY_TEXT_TYPESTR, "=i8", ferry_int64_element());
    expect_parsed(FERRY_TEXT_TYPESTR, ">u1", ferry_byte_element());
    static const char *const unsupported[] = {">f4",  "<f16", "<f3",     "|S5",
                                              "<U3",  "|O",   "<M8[ns]", "<m8",
                                              "<c32", "|b2",  "<f0",     "<i99999999"};
    for (size_t i = 0; i < LENGTH(unsupported); i++)
        refuse(UNSUPPORTED, FERRY_TEXT_TYPESTR, unsupported[i]);
    static const char *const malformed[] = {"", "<", "f", "<f4x", "<x4", "|V", "|V0", "4f", "<<f4"};
    for (size_t i = 0; i < LENGTH(malformed); i++)
        refuse(INVALID, FERRY_TEXT_TYPESTR, malformed[i]);
    refuse(FERRY_ERROR_OVERFLOW, FERRY_TEXT_TYPESTR, "|V99999999999999999999");
    static const char *const other[] = {"b",    "n",       "u",   "U",  "z",    "vu",
                                        "w:12", "d:19,10", "tdD", "+l", "+w:3", "+s"};
    for (size_t i = 0; i < LENGTH(other); i++)
        refuse(UNSUPPORTED, FERRY_TEXT_ARROW, other[i]);
    static const char *const unknown[] = {"", "q", "ff", "f4", "?"};
    for (size_t i = 0; i < LENGTH(unknown); i++)
        refuse(INVALID, FERRY_TEXT_ARROW, unknown[i]);
}

/* -- structs ----------------------------------------------------------------------------------- */

static ferry_element
structure(const char *name, size_t bytes, size_t align, const ferry_field *fields, size_t count)
{
    ferry_element element = {.name = name,
                             .bytes = bytes,
                             .align = align,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = fields,
                             .field_count = count};
    element.identity = ferry_element_identity(&element);
    assert_true(element.identity != 0);
    return element;
}

static const ferry_field vec3_fields[] = {
    {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 0, .count = 1},
    {.name = "v", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 4, .count = 2},
};

static const ferry_field mixed_fields[] = {
    {.name = "flag", .kind = FERRY_KIND_BOOL, .bits = 8, .offset = 0, .count = 1},
    {.name = "z", .kind = FERRY_KIND_COMPLEX, .bits = 128, .offset = 8, .count = 1},
    {.name = "h", .kind = FERRY_KIND_FLOAT, .bits = 16, .offset = 24, .count = 3},
};

static const ferry_field packed_fields[] = {
    {.name = "tag", .kind = FERRY_KIND_UINT, .bits = 8, .offset = 0, .count = 1},
    {.name = "value", .kind = FERRY_KIND_INT, .bits = 64, .offset = 1, .count = 1},
};

static const ferry_field by_two_fields[] = {
    {.name = "tag", .kind = FERRY_KIND_UINT, .bits = 16, .offset = 0, .count = 1},
    {.name = "value", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 2, .count = 1},
};

static const ferry_field bfloat_fields[] = {
    {.name = "x", .kind = FERRY_KIND_BFLOAT, .bits = 16, .offset = 0, .count = 1}};

/* Checks that the format of a struct type names each field and contains padding bytes explicitly.
 * Parsing the format must result in the same type. */
static void
test_structs_go_round(void **state)
{
    (void)state;
    const struct {
        ferry_element element;
        const char *buffer, *typestr;
    } structs[] = {
        {structure("vec3", 12, 4, vec3_fields, 2), "T{f:x:(2)f:v:}", "|V12"},
        {structure("mixed", 32, 8, mixed_fields, 3), "T{?:flag:7xZd:z:(3)e:h:2x}", "|V32"},
        {structure("packed", 9, 1, packed_fields, 2), "T{=B:tag:q:value:}", "|V9"},
        {structure("by_two", 6, 1, by_two_fields, 2), "T{=H:tag:f:value:}", "|V6"},
        {structure("one", 4, 4, vec3_fields, 1), "T{f:x:}", "|V4"},
    };
    for (size_t i = 0; i < LENGTH(structs); i++) {
        const ferry_element *parsed;
        expect_text(&structs[i].element, FERRY_TEXT_BUFFER, structs[i].buffer);
        expect_text(&structs[i].element, FERRY_TEXT_TYPESTR, structs[i].typestr);
        expect_text(&structs[i].element, FERRY_TEXT_ARROW, NULL);
        expect_parsed(FERRY_TEXT_BUFFER, structs[i].buffer, &structs[i].element);
        OK(ferry_element_parse(FERRY_TEXT_BUFFER, structs[i].buffer, &parsed));
        expect_text(parsed, FERRY_TEXT_BUFFER, structs[i].buffer);
        assert_string_equal(parsed->name, structs[i].buffer);
        for (size_t k = 0; k < parsed->field_count; k++)
            assert_string_equal(parsed->fields[k].name, structs[i].element.fields[k].name);
    }
    const ferry_element bfloat = structure("bfloat", 2, 2, bfloat_fields, 1);
    expect_text(&bfloat, FERRY_TEXT_BUFFER, NULL);
    expect_text(&bfloat, FERRY_TEXT_TYPESTR, "|V2");
    ferry_field odd = vec3_fields[0];
    odd.name = "a:b";
    const ferry_element colon = structure("colon", 4, 4, &odd, 1);
    expect_text(&colon, FERRY_TEXT_BUFFER, NULL);
    odd.name = NULL;
    expect_text(&colon, FERRY_TEXT_BUFFER, "T{f}");
}

/* Checks that NumPy, ctypes and other programs may spell a struct type differently. All spellings
 * must be parsed to the same type. */
static void
test_one_struct_has_many_spellings(void **state)
{
    (void)state;
    const ferry_element mixed = structure("mixed", 32, 8, mixed_fields, 3),
                        vec3 = structure("vec3", 12, 4, vec3_fields, 2);
    static const char *const mixed_texts[] = {"T{?:flag:Zd:z:(3)e:h:}",
                                              "T{?:flag:xxxxxxxZd:z:3e:h:}",
                                              "?Zd(3)e",
                                              "T{<?:flag:7x<Zd:z:(3)<e:h:2x}",
                                              "T{?:flag:T{Zd:z:(3)e:h:}:inner:}",
                                              "@T{ ?:flag: Zd:z: (3,1)e:h: }",
                                              "T{?T{Zd(3)e}}"};
    for (size_t i = 0; i < LENGTH(mixed_texts); i++)
        expect_parsed(FERRY_TEXT_BUFFER, mixed_texts[i], &mixed);
    static const char *const vec3_texts[] = {"T{<f:x:(2)<f:v:}", "f2f", "T{f:x:T{2f:w:}:v:}",
                                             "=T{f:x:(1,2)f:v:}"};
    for (size_t i = 0; i < LENGTH(vec3_texts); i++)
        expect_parsed(FERRY_TEXT_BUFFER, vec3_texts[i], &vec3);
    const ferry_element *out;
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{f:x:T{f:y:T{f:z:}:b:}:a:}", &out));
    assert_string_equal(out->fields[1].name, "a.y");
    assert_string_equal(out->fields[2].name, "a.b.z");
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{f:x:f(2)f}", &out));
    assert_string_equal(out->fields[1].name, "f1");
    assert_string_equal(out->fields[2].name, "f2");
    /* Padding before a struct must add to the size of the parsed type. */
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "4xT{f:x:}", &out));
    assert_int_equal(out->bytes, 8);
    assert_int_equal(out->field_count, 1);
    assert_int_equal(out->fields[0].offset, 4);
    assert_string_equal(out->fields[0].name, "f0.x");
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "4xT{f:x:}:inner:", &out));
    assert_int_equal(out->fields[0].offset, 4);
    assert_string_equal(out->fields[0].name, "inner.x");
    /* A field that is a string must be parsed as an array of bytes. */
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{i:id:12s:name:}", &out));
    assert_int_equal(out->bytes, 16);
    assert_int_equal(out->fields[1].count, 12);
    assert_int_equal(out->fields[1].kind, FERRY_KIND_UINT);
    /* Padding with a name is a field of plain bytes: NumPy writes V8 so. */
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{8x:raw:d:x:}", &out));
    assert_int_equal(out->field_count, 2);
    assert_int_equal(out->fields[0].count, 8);
    assert_int_equal(out->fields[0].kind, FERRY_KIND_UINT);
    assert_int_equal(out->align, 8);
    /* A struct whose fields or size do not keep the alignment of a field is packed. */
    static const char *const packed_texts[] = {"T{=i:n:d:v:}", "T{=d:v:i:n:}",
                                               "T{=(3)f:n:(9)f:v:H:attr:}",
                                               "T{=i:x:i:y:i:z:H:a:B:b:B:c:b:d:B:e:H:f:d:gps:}"};
    for (size_t i = 0; i < LENGTH(packed_texts); i++) {
        OK(ferry_element_parse(FERRY_TEXT_BUFFER, packed_texts[i], &out));
        assert_int_equal(out->align, 1);
    }
    /* A struct has padding at its end only if the whole format uses native sizes. */
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{d:x:b:y:}", &out));
    assert_int_equal(out->bytes, 16);
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{d:x:=b:y:}", &out));
    assert_int_equal(out->bytes, 9);
    assert_int_equal(out->align, 1);
}

static void
test_bytes_without_structure(void **state)
{
    (void)state;
    const ferry_element *v12, *twelve, *again;
    OK(ferry_element_parse(FERRY_TEXT_TYPESTR, "|V12", &v12));
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "12x", &twelve));
    assert_ptr_equal(v12, twelve);
    assert_int_equal(v12->bytes, 12);
    assert_int_equal(v12->align, 1);
    expect_text(v12, FERRY_TEXT_TYPESTR, "|V12");
    expect_text(v12, FERRY_TEXT_BUFFER, "T{(12)B:bytes:}");
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{(12)B:bytes:}", &again));
    assert_true(ferry_element_equal(v12, again));
}

static void
test_limits_of_structs(void **state)
{
    (void)state;
    char text[20000] = "";
    const ferry_element *out;
    for (int i = 0; i < 4096; i++)
        strcat(text, "b");
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, text, &out));
    assert_int_equal(out->field_count, 4096);
    assert_true(strlen(out->name) < 100 &&
                strstr(out->name,
                       "...")); /* the name of the type is truncated, so that messages stay short */
    strcat(text, "b");
    refuse(UNSUPPORTED, FERRY_TEXT_BUFFER, text);
    text[0] = 0;
    for (int i = 0; i < 16; i++)
        strcat(text, "T{");
    strcat(text, "f");
    for (int i = 0; i < 16; i++)
        strcat(text, "}");
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, text, &out));
    memmove(text + 2, text, strlen(text) + 1);
    strcat(memcpy(text, "T{", 2), "}");
    refuse(UNSUPPORTED, FERRY_TEXT_BUFFER, text);
}

/* Checks that the name of a field may have at most 255 bytes. */
static void
test_limits_of_names(void **state)
{
    (void)state;
    char text[1024], name[257];
    const ferry_element *out;
    memset(name, 'n', sizeof(name));
    for (int length = 254; length <= 256; length++) {
        snprintf(text, sizeof(text), "T{f:%.*s:}", length, name);
        if (length <= 255) {
            OK(ferry_element_parse(FERRY_TEXT_BUFFER, text, &out));
            assert_int_equal(strlen(out->fields[0].name), length);
        } else {
            refuse(UNSUPPORTED, FERRY_TEXT_BUFFER, text);
            assert_non_null(strstr(ferry_last_error(), "255 bytes"));
        }
        /* The limit also applies to the full name of a field in a nested struct. */
        snprintf(text, sizeof(text), "T{T{f:%.*s:}:%.*s:}", length - 101, name, 100, name);
        if (length <= 255) {
            OK(ferry_element_parse(FERRY_TEXT_BUFFER, text, &out));
            assert_int_equal(strlen(out->fields[0].name), length);
        } else {
            refuse(UNSUPPORTED, FERRY_TEXT_BUFFER, text);
            assert_non_null(strstr(ferry_last_error(), "255 bytes"));
        }
    }
}

/* -- elements made at run time ----------------------------------------------------------------- */

/* Interns two equal descriptions of an element type, which must return the same copy. Descriptions
 * are equal if their content, name, C type, CUDA declaration and field names are equal. */
static void
test_descriptions_are_kept_once(void **state)
{
    (void)state;
    char name[16] = "dynamic", field_name[4] = "x";
    ferry_field field = vec3_fields[0];
    const ferry_element *first, *second;
    field.name = field_name;
    ferry_element element = structure(name, 4, 4, &field, 1);
    OK(ferry_element_intern(&element, &first));
    assert_ptr_not_equal(first, &element);
    element.identity = 0;
    OK(ferry_element_intern(&element, &second));
    assert_ptr_equal(first, second);
    assert_true(second->identity == ferry_element_identity(&element));
    /* The library must have copied the names, so changes of the description must have no effect. */
    strcpy(name, "gone");
    strcpy(field_name, "-");
    assert_string_equal(first->name, "dynamic");
    assert_string_equal(first->c_type, "dynamic");
    assert_string_equal(first->fields[0].name, "x");
    strcpy(name, "dynamic");
    OK(ferry_element_intern(&element, &second));
    assert_ptr_not_equal(first, second); /* the field names differ */
    assert_true(ferry_element_equal(first, second));
    strcpy(field_name, "x");
    element.c_type = "dynamic";
    OK(ferry_element_intern(&element, &second));
    assert_ptr_equal(first, second);
    element.c_type = "struct dynamic";
    OK(ferry_element_intern(&element, &second));
    assert_ptr_not_equal(first, second);
    element.c_type = NULL;
    element.cuda_declaration = "struct dynamic { float x; };";
    OK(ferry_element_intern(&element, &second));
    assert_ptr_not_equal(first, second);
    element.cuda_declaration = NULL;
    element.opencl_declaration = "typedef struct dynamic { float x; } dynamic;";
    OK(ferry_element_intern(&element, &second));
    assert_ptr_not_equal(first, second);
    assert_string_equal(second->opencl_declaration, element.opencl_declaration);
    element.opencl_declaration = NULL;
    element.name = "other";
    OK(ferry_element_intern(&element, &second));
    assert_ptr_not_equal(first, second);
    assert_string_equal(second->name, "other");
}

static void
test_descriptions_are_checked(void **state)
{
    (void)state;
    const ferry_element *out = SENTINEL;
    ferry_element element = structure("wrong", 12, 4, vec3_fields, 2);
    FAILS(INVALID, ferry_element_intern(NULL, &out));
    FAILS(INVALID, ferry_element_intern(&element, NULL));
    element.identity ^= 1;
    FAILS(INVALID, ferry_element_intern(&element, &out));
    element.identity = 0;
    element.bytes = 10;
    FAILS(INVALID, ferry_element_intern(&element, &out));
    element.bytes = 12;
    element.name = NULL;
    FAILS(INVALID, ferry_element_intern(&element, &out));
    assert_ptr_equal(out, SENTINEL);
}

/* Makes each allocation fail in turn while an element type is created. The failed call must
 * register no type and write no output. Each attempt uses a new name, because a known name needs no
 * allocation. */
static void
test_descriptions_without_memory(void **state)
{
    (void)state;
    bool tripped = true;
    for (unsigned turn = 0; tripped; turn++) {
        char name[64];
        const ferry_element *out = SENTINEL;
        ferry_element element = structure("short", 12, 4, vec3_fields, 2);
        snprintf(name, sizeof(name), turn % 2 ? "T{f:x%u:T{f:y:(2)f:z:}:n:f}" : "short%u", turn);
        element.name = name;
        int64_t live = short_memory_live();
        short_memory_arm(1 + turn / 2);
        ferry_status status = turn % 2 ? ferry_element_parse(FERRY_TEXT_BUFFER, name, &out)
                                       : ferry_element_intern(&element, &out);
        bool failed = short_memory_tripped();
        short_memory_disarm();
        assert_int_equal(status, failed ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
        assert_true((out == SENTINEL) == failed);
        if (failed)
            assert_int_equal(short_memory_live(), live);
        tripped = turn % 2 == 0 || failed;
    }
}

#define THREADS 4
#define TEXTS   200

static void *
parse_all(void *kept)
{
    const ferry_element **out = kept;
    for (int i = 0; i < TEXTS; i++) {
        char text[32];
        snprintf(text, sizeof(text), "T{f:t%d:h:b:}", i);
        if (ferry_element_parse(FERRY_TEXT_BUFFER, text, &out[i]) != FERRY_OK)
            out[i] = NULL;
    }
    return NULL;
}

static void
test_threads_get_one_copy(void **state)
{
    (void)state;
    static const ferry_element *kept[THREADS][TEXTS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, parse_all, kept[t]), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int i = 0; i < TEXTS; i++) {
        assert_non_null(kept[0][i]);
        for (int t = 1; t < THREADS; t++)
            assert_ptr_equal(kept[t][i], kept[0][i]);
    }
}

/* Checks that buffers whose element type was parsed at run time work like all other buffers. */
static void
test_buffers_of_parsed_elements(void **state)
{
    fixture *f = *state;
    const ferry_element *element;
    const ferry_element vec3 = structure("vec3", 12, 4, vec3_fields, 2);
    ferry_buffer *buffer;
    float values[6] = {1, 2, 3, 4, 5, 6}, got[6] = {0};
    OK(ferry_element_parse(FERRY_TEXT_BUFFER, "T{f:x:2f:v:}", &element));
    OK(ferry_buffer_create_from(f->context, element, 2, values, NULL, &buffer));
    OK(ferry_buffer_copy_to(buffer, &vec3, 0, 2, got, NULL));
    assert_memory_equal(got, values, sizeof(got));
    ferry_buffer_destroy(&buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_builtin_type_goes_round),
        cmocka_unit_test(test_the_library_has_no_other_scalars),
        cmocka_unit_test(test_texts_check_their_arguments),
        cmocka_unit_test(test_numbers_of_the_buffer_protocol),
        cmocka_unit_test(test_typestrs_and_arrow_formats),
        cmocka_unit_test(test_structs_go_round),
        cmocka_unit_test(test_one_struct_has_many_spellings),
        cmocka_unit_test(test_bytes_without_structure),
        cmocka_unit_test(test_limits_of_structs),
        cmocka_unit_test(test_limits_of_names),
        cmocka_unit_test(test_descriptions_are_kept_once),
        cmocka_unit_test(test_descriptions_are_checked),
        cmocka_unit_test(test_descriptions_without_memory),
        cmocka_unit_test(test_threads_get_one_copy),
        TEST(test_buffers_of_parsed_elements),
    };
    return cmocka_run_group_tests_name("exchanged elements", tests, NULL, NULL);
}
