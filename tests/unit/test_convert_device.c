/* SPDX-License-Identifier: MIT */
/* Tests the conversion kernels without a GPU. The test compiles their CUDA source as C, and
 * compares the results with those of the loops for the host. It also compiles the source with
 * NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ferry/byte.h>
#include <ferry/double.h>

#include "src/base/sanitizer.h"
#include "src/convert/converter.h"
#include "src/convert/kernels.h"
#include "src/device/cuda/nvrtc.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/convert_values.h"

static bool
is_long(void)
{
    return getenv("FERRY_LONG") != NULL;
}

/* -- the C form -------------------------------------------------------------------------------- */

enum { COUNT = 1 << 17 };

static void
launch(fakecuda_kernel *kernel, void **arguments, unsigned blocks, unsigned threads)
{
    const unsigned grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    kernel(arguments, grid, block);
}

static fakecuda_kernel *
find(enum ferryi_number from, enum ferryi_number to, const char *how)
{
    char name[96];
    snprintf(name, sizeof(name), "ferryi_%s_to_%s_%s", convert_numbers[from].name,
             convert_numbers[to].name, how);
    return convert_kernel_find(name);
}

struct memory {
    unsigned char *source, *wanted, *got;
};

static void
check_loop(enum ferryi_number from, enum ferryi_number to, const char *how,
           ferryi_convert_loop *loop, const struct memory *m, size_t count)
{
    const ferry_element *target = convert_numbers[to].element();
    fakecuda_kernel *kernel = find(from, to, how);
    if (!kernel)
        fail_msg("there is no kernel %s to %s, %s", convert_numbers[from].name,
                 convert_numbers[to].name, how);
    void *out = m->got, *in = m->source;
    void *arguments[] = {&out, &in, &count};
    loop(m->wanted, m->source, count);
    memset(m->got, 0x55, count * target->bytes);
    launch(kernel, arguments, 7, 32);
    for (size_t i = 0; i < count; i++)
        if (!convert_values_same(target, m->wanted + i * target->bytes, m->got + i * target->bytes))
            fail_msg("%s to %s, %s: element %zu differs from the host's",
                     convert_numbers[from].name, convert_numbers[to].name, how, i);
}

static void
check_search(enum ferryi_number from, enum ferryi_number to, ferryi_convert_search *search,
             const struct memory *m, size_t count)
{
    fakecuda_kernel *kernel = find(from, to, "first_unfit");
    const size_t bytes = convert_numbers[from].element()->bytes;
    assert_non_null(kernel);
    /* Each search begins behind the element that the previous search found. The loop ends after 200
     * searches or at the end of the array. */
    for (size_t begin = 0, seen = 0; begin < count && seen < 200; seen++) {
        size_t left = count - begin, expected = search(m->source + begin * bytes, left);
        unsigned long long first = UINT64_MAX, *first_at = &first;
        void *in = m->source + begin * bytes;
        void *arguments[] = {&in, &left, &first_at};
        if (left - expected > 4096)
            /* Limits the kernel's search to 4096 elements behind the expected result, to save time.
             */
            left = expected + 4096;
        launch(kernel, arguments, 3, 32);
        assert_int_equal(first, expected < left ? expected : UINT64_MAX);
        begin += expected + 1;
    }
}

/* Checks that every kernel yields the same bits as the host's loop, for every pair of types. */
static void
test_same_as_host(void **state)
{
    const size_t count_limit = is_long() ? (size_t)1 << 22 : COUNT;
    struct memory m = {malloc(count_limit * 16), malloc(count_limit * 16),
                       malloc(count_limit * 16)};
    size_t kernels = 0;
    (void)state;
    assert_true(m.source && m.wanted && m.got);
    for (enum ferryi_number from = 0; from < ferryi_number_count; from++) {
        size_t count = convert_values_fill(convert_numbers[from].element(), m.source, count_limit);
        for (enum ferryi_number to = 0; to < ferryi_number_count; to++) {
            const struct ferryi_convert_kernel *host = ferryi_convert_kernel(
                convert_numbers[from].element(), convert_numbers[to].element());
            if (!host)
                continue;
            check_loop(from, to, "nearest", host->nearest, &m, count);
            kernels++;
            if (host->toward_zero != host->nearest)
                check_loop(from, to, "toward_zero", host->toward_zero, &m, count), kernels++;
            if (host->first_unfit)
                check_search(from, to, host->first_unfit, &m, count), kernels++;
        }
    }
    assert_int_equal(kernels, convert_kernel_count);
    free(m.source);
    free(m.wanted);
    free(m.got);
}

/* Checks that a conversion kernel writes exactly the requested elements, for any grid, alignment
 * and length of the arrays. */
static void
test_counts_and_alignments(void **state)
{
    static const enum ferryi_number pairs[][2] = {
        {ferryi_number_double, ferryi_number_byte},
        {ferryi_number_byte, ferryi_number_double},
        {ferryi_number_int8, ferryi_number_byte},
        {ferryi_number_float, ferryi_number_half},
        {ferryi_number_complex_double, ferryi_number_complex_float},
    };
    static _Alignas(16) unsigned char source[16 * 128], wanted[16 * 128], got[16 * 128];
    (void)state;
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (unsigned char)(i * 7 % 64);
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
        const ferry_element *from = convert_numbers[pairs[p][0]].element(),
                            *to = convert_numbers[pairs[p][1]].element();
        fakecuda_kernel *kernel = find(pairs[p][0], pairs[p][1], "nearest");
        for (size_t count = 0; count < 70; count++)
            for (size_t shift = 0; shift < 9; shift++) {
                const unsigned char *in = source + shift % 3 * from->bytes;
                unsigned char *out = got + shift / 3 * to->bytes;
                void *arguments[] = {&out, &in, &count};
                memset(got, 0xaa, sizeof(got));
                memset(wanted, 0xaa, sizeof(wanted));
                ferryi_convert_kernel(from, to)->nearest(wanted + shift / 3 * to->bytes, in, count);
                launch(kernel, arguments, 1 + (unsigned)(count % 3), 1 + (unsigned)(count % 5));
                assert_memory_equal(got, wanted, sizeof(got));
            }
    }
}

/* -- CUDA -------------------------------------------------------------------------------------- */

/* Compiles with NVRTC. Returns UNSUPPORTED in builds with a sanitizer, because NVRTC takes half a
 * minute in such builds. */
static ferry_status
compile_and_log(const char *text, int architecture, bool portable, const struct ferryi_log *log,
                struct ferryi_compiled *out)
{
    if (FERRYI_SANITIZED_MALLOC)
        return FERRY_ERROR_UNSUPPORTED;
    struct ferryi_nvrtc_source source = {.name = "conversions",
                                         .text = text,
                                         .exact = true,
                                         .architecture = architecture,
                                         .portable = portable};
    return ferryi_nvrtc_compile(&source, log, out);
}

static ferry_status
compile(const char *text, int architecture, bool portable, struct ferryi_compiled *out)
{
    return compile_and_log(text, architecture, portable, NULL, out);
}

/* Returns the library's CUDA source with the lines that define the kernels of every pair of types.
 * The caller must free the text. */
static char *
whole_text(void)
{
    size_t bytes = ferryi_convert_text_bytes + ferryi_number_count * ferryi_number_count * 64;
    char *text = malloc(bytes);
    assert_non_null(text);
    memcpy(text, ferryi_convert_text, ferryi_convert_text_bytes + 1);
    for (size_t from = 0; from < ferryi_number_count; from++)
        for (size_t to = 0; to < ferryi_number_count; to++) {
            const char *line =
                ferryi_convert_line(convert_numbers[from].element(), convert_numbers[to].element());
            strcat(text, line ? line : "");
        }
    return text;
}

/* Checks that NVRTC compiles the conversion source, and that the result contains every kernel. */
static void
test_text_compiles(void **state)
{
    (void)state;
    struct ferryi_compiled image;
    char *text = whole_text();
    ferry_status status = compile(text, 75, true, &image);
    free(text);
    if (status == FERRY_ERROR_UNSUPPORTED)
        skip();
    if (status != FERRY_OK)
        fail_msg("%s", ferry_last_error());
    for (size_t i = 0; i < convert_kernel_count; i++) {
        char entry[128];
        snprintf(entry, sizeof(entry), ".entry %s(", convert_kernels[i].name);
        if (!strstr(image.bytes, entry))
            fail_msg("the PTX has no kernel %s", convert_kernels[i].name);
    }
    /* The compiled code must not contract operations to fma, flush subnormals to zero, or use
     * approximate operations. These would change the results. */
    assert_null(strstr(image.bytes, "fma."));
    assert_null(strstr(image.bytes, ".ftz"));
    assert_null(strstr(image.bytes, ".approx"));
    free(image.bytes);
}

static bool
holds(const struct ferryi_compiled *image, const char *words)
{
    return memmem(image->bytes, image->size, words, strlen(words)) != NULL;
}

/* Checks that NVRTC compiles the conversion source for each architecture for which the library was
 * built. The compiled code must contain every kernel. */
static void
test_text_compiles_for_every_architecture(void **state)
{
    (void)state;
    char *text = whole_text();
    for (const char *at = DEVICE_ARCHITECTURES; *at;
         at += strcspn(at, " "), at += strspn(at, " ")) {
        char *end;
        int architecture = (int)strtol(at, &end, 10);
        bool portable = strncmp(end, "-ptx", 4) == 0;
        struct ferryi_compiled image;
        ferry_status status = compile(text, architecture, portable, &image);
        if (status == FERRY_ERROR_UNSUPPORTED) {
            free(text);
            skip();
        }
        if (status != FERRY_OK)
            fail_msg("architecture %d: %s", architecture, ferry_last_error());
        for (size_t i = 0; i < convert_kernel_count; i++) {
            char name[128];
            snprintf(name, sizeof(name), portable ? ".entry %s(" : ".text.%s",
                     convert_kernels[i].name);
            if (!holds(&image, name))
                fail_msg("architecture %d: there is no kernel %s", architecture,
                         convert_kernels[i].name);
        }
        free(image.bytes);
    }
    free(text);
}

static void
count_message(ferry_log_level level, const char *message, void *user)
{
    (void)level, (void)message;
    *(int *)user += 1;
}

/* Checks that the conversion source for one pair of types compiles without a warning. The library
 * compiles such a source when a program first converts between the two types. */
static void
test_pair_compiles(void **state)
{
    (void)state;
    const char *line = ferryi_convert_line(ferry_double_element(), ferry_byte_element());
    char *text = malloc(ferryi_convert_text_bytes + strlen(line) + 1);
    assert_non_null(text);
    memcpy(text, ferryi_convert_text, ferryi_convert_text_bytes);
    strcpy(text + ferryi_convert_text_bytes, line);
    struct ferryi_compiled image;
    int messages = 0;
    ferry_status status =
        compile_and_log(text, 75, true, &(struct ferryi_log){count_message, &messages}, &image);
    free(text);
    if (status == FERRY_ERROR_UNSUPPORTED)
        skip();
    assert_int_equal(status, FERRY_OK);
    assert_int_equal(messages, 0);
    assert_non_null(strstr(image.bytes, ".entry ferryi_double_to_byte_first_unfit("));
    assert_null(strstr(image.bytes, ".entry ferryi_float_to_byte_nearest("));
    free(image.bytes);
}

/* Checks that the conversion kernels that nvcc compiled into the library have the format that the
 * driver loads. Skips the test if the library was built without these kernels. */
static void
test_image(void **state)
{
    (void)state;
    if (ferryi_convert_image_bytes == 0)
        skip();
    assert_memory_equal(ferryi_convert_image, "\x50\xed\x55\xba", 4);
    assert_int_equal((uintptr_t)ferryi_convert_image % 16, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_host),
        cmocka_unit_test(test_counts_and_alignments),
        cmocka_unit_test(test_text_compiles),
        cmocka_unit_test(test_text_compiles_for_every_architecture),
        cmocka_unit_test(test_pair_compiles),
        cmocka_unit_test(test_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
