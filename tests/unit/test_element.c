/* SPDX-License-Identifier: MIT */
/* Tests descriptions of elements: their identity, what is refused, and the copies that the library
 * keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/exchange.h>

#include "src/buffer/element.h"
#include "tests/support/short_memory.h"

/* -- helpers ----------------------------------------------------------------------------------- */

static ferry_element
scalar(ferry_kind kind, uint32_t bits)
{
    ferry_element element = {
        .name = "scalar", .c_type = "scalar_t", .bytes = bits / 8, .kind = kind, .bits = bits};
    element.align = kind == FERRY_KIND_COMPLEX ? element.bytes / 2 : element.bytes;
    element.identity = ferry_element_identity(&element);
    return element;
}

static ferry_element
structure(size_t bytes, size_t align, const ferry_field *fields, size_t count)
{
    ferry_element element = {.name = "vec3",
                             .c_type = "struct vec3",
                             .bytes = bytes,
                             .align = align,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = fields,
                             .field_count = count};
    element.identity = ferry_element_identity(&element);
    return element;
}

static const ferry_field vec3_fields[] = {
    {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 0, .count = 1},
    {.name = "v", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 4, .count = 2},
};

/* -- identity ---------------------------------------------------------------------------------- */

/* Compares identities of element types with numbers that a separate program computed from the
 * definition in the header. Identities must never change, because generated code contains them. */
static void
test_identity_is_fnv_1a_of_the_words(void **state)
{
    (void)state;
    ferry_element element = scalar(FERRY_KIND_FLOAT, 32);
    assert_true(element.identity == UINT64_C(0x7226fb1ddcc03084));
    element = structure(12, 4, vec3_fields, 2);
    assert_true(element.identity == UINT64_C(0x6e4978280bfd348d));
}

static void
test_scalars_of_every_kind_and_width_differ(void **state)
{
    (void)state;
    static const uint32_t widths[] = {8, 16, 32, 64, 128};
    ferry_element found[64];
    size_t count = 0;

    for (int kind = FERRY_KIND_FLOAT; kind < FERRY_KIND_STRUCT; kind++) {
        for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
            ferry_element element = scalar((ferry_kind)kind, widths[i]);
            if (element.identity != 0)
                found[count++] = element;
        }
    }
    assert_int_equal(count, 3 + 1 + 4 + 4 + 1 + 3);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            assert_int_equal(found[a].identity == found[b].identity, a == b);
            assert_int_equal(ferry_element_equal(&found[a], &found[b]), a == b);
        }
    }
}

static void
must_be_malformed(const ferry_element *element)
{
    const ferry_element *out = NULL;
    assert_true(ferry_element_identity(element) == 0);
    assert_false(ferry_element_equal(element, element));
    assert_int_equal(ferryi_element_intern(element, &out), FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(out);
}

static void
test_malformed_scalars(void **state)
{
    (void)state;
    const ferry_element good = scalar(FERRY_KIND_INT, 32);
    ferry_element bad;

    must_be_malformed(NULL);
    bad = good, bad.bytes = 0, must_be_malformed(&bad);
    bad = good, bad.bytes = 8, must_be_malformed(&bad);
    bad = good, bad.align = 0, must_be_malformed(&bad);
    bad = good, bad.align = 3, must_be_malformed(&bad);
    bad = good, bad.align = 8, must_be_malformed(&bad);
    bad = good, bad.bits = 0, must_be_malformed(&bad);
    bad = good, bad.bits = 24, must_be_malformed(&bad);
    bad = good, bad.kind = (ferry_kind)0, must_be_malformed(&bad);
    bad = good, bad.kind = (ferry_kind)8, must_be_malformed(&bad);
    bad = good, bad.kind = FERRY_KIND_BOOL, must_be_malformed(&bad);
    bad = good, bad.kind = FERRY_KIND_BFLOAT, must_be_malformed(&bad);
    bad = good, bad.fields = vec3_fields, bad.field_count = 1, must_be_malformed(&bad);
}

static void
test_malformed_structs(void **state)
{
    (void)state;
    const ferry_element good = structure(12, 4, vec3_fields, 2);
    ferry_element bad;
    assert_true(good.identity != 0);

    bad = good, bad.field_count = 0, must_be_malformed(&bad);
    bad = good, bad.fields = NULL, must_be_malformed(&bad);
    bad = good, bad.bits = 96, must_be_malformed(&bad);
    bad = good, bad.align = 8, must_be_malformed(&bad);
    bad = good, bad.bytes = 8, must_be_malformed(&bad);
    bad = good, bad.bytes = 11, bad.align = 1, must_be_malformed(&bad);
}

static void
must_be_bad_field(ferry_field field)
{
    ferry_field fields[] = {vec3_fields[0], field};
    ferry_element bad = structure(12, 4, fields, 2);
    must_be_malformed(&bad);
}

static void
test_malformed_fields(void **state)
{
    (void)state;
    const ferry_field good = vec3_fields[1];
    ferry_field bad;

    bad = good, bad.count = 0, must_be_bad_field(bad);
    bad = good, bad.count = 3, must_be_bad_field(bad);
    bad = good, bad.count = SIZE_MAX / 2, must_be_bad_field(bad);
    bad = good, bad.count = SIZE_MAX / 4 + 2,
    must_be_bad_field(bad); /* count times 4 bytes overflows to 4 bytes */
    bad = good, bad.offset = SIZE_MAX - 3, must_be_bad_field(bad);
    bad = good, bad.offset = 0, must_be_bad_field(bad);
    bad = good, bad.bits = 33, must_be_bad_field(bad);
    bad = good, bad.kind = FERRY_KIND_STRUCT, must_be_bad_field(bad);
    bad = good, bad.kind = (ferry_kind)-1, must_be_bad_field(bad);
}

/* -- equality ---------------------------------------------------------------------------------- */

static void
test_equality_is_by_content_not_name(void **state)
{
    (void)state;
    ferry_field renamed[] = {vec3_fields[0], vec3_fields[1]};
    renamed[0].name = "first";
    ferry_element a = structure(12, 4, vec3_fields, 2), b = structure(12, 4, renamed, 2);
    b.name = "other";
    b.c_type = "other_t";
    b.cuda_declaration = "struct other;";
    assert_true(ferry_element_equal(&a, &b));
    assert_true(a.identity == b.identity);
    assert_false(ferry_element_equal(&a, NULL));
    assert_false(ferry_element_equal(NULL, &a));

    ferry_element loose = scalar(FERRY_KIND_FLOAT, 64), tight = scalar(FERRY_KIND_FLOAT, 64);
    loose.align = 4;
    assert_true(ferry_element_equal(&loose, &tight));
}

static void
must_differ(size_t bytes, size_t align, ferry_field field)
{
    ferry_field fields[] = {vec3_fields[0], field};
    ferry_element a = structure(16, 4, vec3_fields, 2), b = structure(bytes, align, fields, 2);
    assert_true(b.identity != 0);
    assert_true(a.identity != b.identity);
    assert_false(ferry_element_equal(&a, &b));
}

static void
test_every_part_of_a_struct_counts(void **state)
{
    (void)state;
    const ferry_field same = vec3_fields[1];
    ferry_field field;

    must_differ(20, 4, same);
    must_differ(16, 8, same);
    field = same, field.kind = FERRY_KIND_INT, must_differ(16, 4, field);
    field = same, field.bits = 16, must_differ(16, 4, field);
    field = same, field.offset = 8, must_differ(16, 4, field);
    field = same, field.count = 1, must_differ(16, 4, field);
    ferry_element a = structure(16, 4, vec3_fields, 2), b = structure(16, 4, vec3_fields, 1);
    assert_false(ferry_element_equal(&a, &b));
}

static void
test_size_element_is_an_unsigned_integer_as_wide_as_size_t(void **state)
{
    (void)state;
    const ferry_element *size = ferry_size_element();
    ferry_element same = scalar(FERRY_KIND_UINT, 8 * sizeof(size_t));
    assert_ptr_equal(size, ferry_size_element());
    assert_true(size->identity == ferry_element_identity(size));
    assert_true(ferry_element_equal(size, &same));
    assert_int_equal(size->bytes, sizeof(size_t));
}

/* -- interning --------------------------------------------------------------------------------- */

static void
test_interned_copies_outlive_the_description(void **state)
{
    (void)state;
    char name[] = "point", c_type[] = "struct point", x[] = "x", y[] = "y",
         code[] = "struct point { short x, y; };", opencl[] = "typedef struct point point;";
    ferry_field fields[] = {
        {.name = x, .kind = FERRY_KIND_INT, .bits = 16, .offset = 0, .count = 1},
        {.name = y, .kind = FERRY_KIND_INT, .bits = 16, .offset = 2, .count = 1}};
    ferry_element element = structure(4, 2, fields, 2);
    const ferry_element *kept = NULL;
    element.name = name;
    element.c_type = c_type;
    element.cuda_declaration = code;
    element.opencl_declaration = opencl;

    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    name[0] = c_type[0] = x[0] = y[0] = code[0] = opencl[0] = '?';
    memset(fields, 0, sizeof(fields));
    memset(&element, 0, sizeof(element));
    assert_string_equal(kept->name, "point");
    assert_string_equal(kept->c_type, "struct point");
    assert_string_equal(kept->fields[0].name, "x");
    assert_string_equal(kept->fields[1].name, "y");
    assert_int_equal(kept->fields[1].offset, 2);
    assert_string_equal(ferryi_element_cuda_declaration(kept), "struct point { short x, y; };");
    assert_string_equal(ferryi_element_opencl_declaration(kept), "typedef struct point point;");
    assert_true(ferry_element_identity(kept) == kept->identity);
}

static void
test_equal_content_is_one_element(void **state)
{
    (void)state;
    ferry_element a = scalar(FERRY_KIND_UINT, 16), b = scalar(FERRY_KIND_UINT, 16),
                  c = scalar(FERRY_KIND_INT, 16);
    const ferry_element *first, *second, *other, *again;
    a.name = "first";
    b.name = "second";
    b.c_type = NULL;

    assert_int_equal(ferryi_element_intern(&a, &first), FERRY_OK);
    assert_int_equal(ferryi_element_intern(&b, &second), FERRY_OK);
    assert_int_equal(ferryi_element_intern(&c, &other), FERRY_OK);
    assert_int_equal(ferryi_element_intern(first, &again), FERRY_OK);
    assert_ptr_equal(first, second);
    assert_ptr_equal(first, again);
    assert_ptr_not_equal(first, other);
    assert_string_equal(second->name, "first");
}

static void
test_without_a_c_type_the_name_stands_for_it(void **state)
{
    (void)state;
    ferry_element element = scalar(FERRY_KIND_UINT, 8);
    const ferry_element *kept;
    element.name = "octet";
    element.c_type = NULL;
    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    assert_string_equal(kept->c_type, "octet");
}

static void
test_scalars_are_one_element_however_aligned(void **state)
{
    (void)state;
    ferry_element a = scalar(FERRY_KIND_INT, 64), b = scalar(FERRY_KIND_INT, 64);
    const ferry_element *first, *second;
    b.align = 4;
    b.identity = ferry_element_identity(&b);
    assert_true(a.identity != b.identity);
    assert_int_equal(ferryi_element_intern(&a, &first), FERRY_OK);
    assert_int_equal(ferryi_element_intern(&b, &second), FERRY_OK);
    assert_ptr_equal(first, second);
}

static void
test_the_first_declaration_of_each_language_stays(void **state)
{
    (void)state;
    ferry_element element = structure(24, 8, vec3_fields, 2);
    const ferry_element *kept;

    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    assert_null(ferryi_element_cuda_declaration(kept));
    element.cuda_declaration = "struct a;";
    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    assert_string_equal(ferryi_element_cuda_declaration(kept), "struct a;");
    assert_null(ferryi_element_opencl_declaration(kept));
    element.cuda_declaration = "struct b;";
    element.opencl_declaration = "typedef struct a a;";
    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    assert_string_equal(ferryi_element_cuda_declaration(kept), "struct a;");
    assert_string_equal(ferryi_element_opencl_declaration(kept), "typedef struct a a;");
    element.opencl_declaration = "typedef struct b b;";
    assert_int_equal(ferryi_element_intern(&element, &kept), FERRY_OK);
    assert_string_equal(ferryi_element_opencl_declaration(kept), "typedef struct a a;");
}

/* Makes each allocation fail in turn while the library interns an element type. Checks that the
 * call fails, names the type in its message, and leaks nothing. The next attempt must succeed. */
static void
take_in_spite_of_short_memory(const ferry_element *element)
{
    const ferry_element *kept = NULL;
    bool tripped = true;
    uint64_t nth;
    ferryi_fail(FERRY_ERROR_IO, "nothing"); /* allocates the thread's message */
    for (nth = 1; tripped; nth++) {
        int64_t live = short_memory_live();
        short_memory_arm(nth);
        ferry_status status = ferryi_element_intern(element, &kept);
        tripped = short_memory_tripped();
        short_memory_disarm();
        assert_int_equal(status, tripped ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
        if (tripped) {
            assert_null(kept);
            assert_int_equal(short_memory_live(), live);
            assert_non_null(strstr(ferry_last_error(), element->name));
        }
    }
    assert_true(nth > 2);
    assert_true(ferry_element_equal(kept, element));
    assert_string_equal(ferryi_element_cuda_declaration(kept), element->cuda_declaration);
}

static void
test_no_memory_for_a_description(void **state)
{
    (void)state;
    const ferry_element *kept;
    ferry_element element = structure(40, 8, vec3_fields, 2),
                  late = structure(48, 8, vec3_fields, 2);
    element.name = "forty";
    element.cuda_declaration = "struct forty;";
    element.opencl_declaration = "typedef struct forty forty;";
    take_in_spite_of_short_memory(&element);
    /* Interning `late` a second time adds a CUDA declaration to the known type. The library must
     * allocate memory for the declaration, and this allocation must also be able to fail. */
    late.name = "late";
    assert_int_equal(ferryi_element_intern(&late, &kept), FERRY_OK);
    late.cuda_declaration = "struct late;";
    take_in_spite_of_short_memory(&late);
    late.opencl_declaration = "typedef struct late late;";
    take_in_spite_of_short_memory(&late);
    assert_string_equal(ferryi_element_opencl_declaration(kept), late.opencl_declaration);
}

static void
test_a_wrong_identity_is_refused(void **state)
{
    (void)state;
    ferry_element element = scalar(FERRY_KIND_FLOAT, 16);
    const ferry_element *out = NULL;
    element.name = "half";
    element.identity ^= 1;
    assert_int_equal(ferryi_element_intern(&element, &out), FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(out);
    assert_non_null(strstr(ferry_last_error(), "half"));
    assert_non_null(strstr(ferry_last_error(), "identity"));

    element.identity ^= 1;
    element.name = NULL;
    assert_int_equal(ferryi_element_intern(&element, &out), FERRY_ERROR_INVALID_ARGUMENT);
    assert_null(out);
}

enum { THREADS = 4, STRUCTS = 1000, NAMES = 3000 };

/* Thread function that interns all struct types, in the same order as the other threads. Every
 * second thread adds a CUDA declaration. */
static void
intern_all(void *argument)
{
    const ferry_element **kept = argument;
    size_t odd = (size_t)(kept[0] != NULL);
    for (size_t i = 0; i < STRUCTS; i++) {
        ferry_element element = structure(16 + 16 * i, 16, vec3_fields, 2);
        element.cuda_declaration = odd ? "struct vec3;" : NULL;
        if (ferryi_element_intern(&element, &kept[i]) != FERRY_OK)
            kept[i] = NULL;
        else if (odd && !ferryi_element_cuda_declaration(kept[i]))
            kept[i] = NULL;
    }
}

static void
test_threads_get_the_same_elements(void **state)
{
    (void)state;
    static const ferry_element *kept[THREADS][STRUCTS];
    ferryi_thread threads[THREADS];

    for (size_t t = 0; t < THREADS; t++) {
        kept[t][0] = t % 2 ? ferry_size_element() : NULL;
        assert_int_equal(ferryi_thread_start(&threads[t], "intern", intern_all, kept[t]), FERRY_OK);
    }
    for (size_t t = 0; t < THREADS; t++)
        ferryi_thread_join(threads[t]);
    for (size_t i = 0; i < STRUCTS; i++) {
        assert_non_null(kept[0][i]);
        for (size_t t = 1; t < THREADS; t++)
            assert_ptr_equal(kept[t][i], kept[0][i]);
        assert_string_equal(ferryi_element_cuda_declaration(kept[0][i]), "struct vec3;");
    }
}

/* Descriptions that differ in their names alone are kept separately, and found again. The tables
 * become longer meanwhile. If no memory for a longer table is left, the table is filled further. */
static void
test_many_names_of_one_content(void **state)
{
    (void)state;
    static const ferry_element *kept[NAMES];
    const ferry_element *again;
    char name[32];
    ferry_element element = structure(24, 8, vec3_fields, 2);
    element.name = name;
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "vector %zu", i);
        assert_int_equal(ferry_element_intern(&element, &kept[i]), FERRY_OK);
        assert_string_equal(kept[i]->name, name);
    }
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "vector %zu", i);
        assert_int_equal(ferry_element_intern(&element, &again), FERRY_OK);
        assert_ptr_equal(again, kept[i]);
        assert_true(ferry_element_equal(again, kept[0]));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity_is_fnv_1a_of_the_words),
        cmocka_unit_test(test_scalars_of_every_kind_and_width_differ),
        cmocka_unit_test(test_malformed_scalars),
        cmocka_unit_test(test_malformed_structs),
        cmocka_unit_test(test_malformed_fields),
        cmocka_unit_test(test_equality_is_by_content_not_name),
        cmocka_unit_test(test_every_part_of_a_struct_counts),
        cmocka_unit_test(test_size_element_is_an_unsigned_integer_as_wide_as_size_t),
        cmocka_unit_test(test_interned_copies_outlive_the_description),
        cmocka_unit_test(test_equal_content_is_one_element),
        cmocka_unit_test(test_without_a_c_type_the_name_stands_for_it),
        cmocka_unit_test(test_scalars_are_one_element_however_aligned),
        cmocka_unit_test(test_the_first_declaration_of_each_language_stays),
        cmocka_unit_test(test_no_memory_for_a_description),
        cmocka_unit_test(test_a_wrong_identity_is_refused),
        cmocka_unit_test(test_many_names_of_one_content),
        cmocka_unit_test(test_threads_get_the_same_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
