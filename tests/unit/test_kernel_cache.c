/* SPDX-License-Identifier: MIT */
/* Tests the cache of compiled kernels. A source must be compiled only once, even by several
 * processes. The key of a cache entry must contain each input that affects the code. */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/double.h>
#include <ferry/double_convert.h>
#include <ferry/ferry.h>
#include <ferry/float.h>

#include "src/base/sanitizer.h"
#include "src/convert/converter.h"
#include "src/device/cuda/nvrtc.h"
#include "tests/support/code.h"
#include "tests/support/convert_kernels.h"
#include "tests/support/fakecuda.h"
#include "tests/support/folder.h"
#include "tests/support/status.h"

#define FAKENVRTC FERRY_TEST_FAKECUDA_FOLDER "/libfakenvrtc.so"
#define NAMED     FERRY_TEST_FAKECUDA_FOLDER "/libfakenvrtc_13.so" /* has the soname libnvrtc.so.13 */
#define FAKECUDA  FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so"

enum { COUNT = 100, PATH_BYTES = 3 * FOLDER_PATH_BYTES };

static const char scale_source[] =
    "extern \"C\" __global__ void scale(float *a, float v) { a[threadIdx.x] *= v; }\n";
static char root[FOLDER_PATH_BYTES], cache[2 * FOLDER_PATH_BYTES];
static int (*compilations)(void);
static int warnings, found_messages;

static void
note(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    warnings += level == FERRY_LOG_WARNING;
    found_messages += strstr(message, "found in the cache") != NULL;
}

static const struct ferryi_log notes = {note, NULL};

static int
set_up(void **state)
{
    (void)state;
    folder_make(root);
    snprintf(cache, sizeof(cache), "%s/cache", root);
    setenv("FERRY_CACHE_DIR", cache, 1);
    setenv("FERRY_NVRTC_LIBRARY", FAKENVRTC, 1);
    setenv("FERRY_CUDA_LIBRARY", FAKECUDA, 1);
    void *address = dlsym(dlopen(FAKENVRTC, RTLD_NOW | RTLD_LOCAL), "fakenvrtc_compilations");
    memcpy(&compilations, &address, sizeof(address));
    warnings = found_messages = 0;
    return address ? 0 : -1;
}

static int
tear_down(void **state)
{
    (void)state;
    folder_remove(root);
    return 0;
}

static void
entry_path(char path[PATH_BYTES])
{
    char name[FOLDER_PATH_BYTES];
    folder_only_file(cache, name);
    snprintf(path, PATH_BYTES, "%s/%s", cache, name);
}

/* Changes the last byte of the only cache entry, to damage the entry. */
static void
damage_entry(void)
{
    char path[PATH_BYTES];
    size_t count;
    entry_path(path);
    char *bytes = folder_read_file(path, &count);
    bytes[count - 1] ^= 1;
    folder_write_file(path, bytes, count);
    free(bytes);
}

/* Calls `run` in a child process. Returns the result of `run`, which is 0 on success. */
static int
in_another_process(int (*run)(void))
{
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return WEXITSTATUS(result);
}

/* -- which code -------------------------------------------------------------------------------- */

/* Compiles the source, or finds its code in the cache. Checks the code. Returns how often the
 * compiler ran. */
static int
compile(const struct ferryi_nvrtc_source *source)
{
    struct ferryi_compiled image;
    int before = compilations();
    OK(ferryi_nvrtc_compile(source, &notes, &image));
    const char *text = image.bytes;
    assert_int_equal(strlen(text) + 1, image.size);
    assert_non_null(strstr(text, source->text));
    for (size_t i = 0; i < source->option_count; i++)
        assert_non_null(strstr(text, source->options[i]));
    free(image.bytes);
    return compilations() - before;
}

static void
assert_kept(const struct ferryi_nvrtc_source *source)
{
    assert_int_equal(compile(source), 1);
    assert_int_equal(compile(source), 0);
}

static const struct ferryi_nvrtc_source plain = {
    .name = "scale", .text = scale_source, .architecture = 90, .keep = true};

static void
test_everything_that_matters_is_in_the_key(void **state)
{
    const char *fast[] = {"-a", "-b"}, *turned[] = {"-b", "-a"}, *joined[] = {"-a-b"},
               *own[] = {"--gpu-architecture=compute_90"};
    (void)state;
    struct ferryi_nvrtc_source source = plain;
    assert_kept(&source);
    source.text =
        "extern \"C\" __global__ void scale(float *a, float v) { a[threadIdx.x] += v; }\n";
    assert_kept(&source);
    source = plain;
    source.name = "scale2";
    assert_kept(&source);
    source = plain;
    source.options = fast;
    source.option_count = 1;
    assert_kept(&source);
    source.option_count = 2;
    assert_kept(&source);
    source.options = turned;
    assert_kept(&source);
    source.options = joined;
    source.option_count = 1;
    assert_kept(&source);
    source = plain;
    source.exact = true;
    assert_kept(&source);
    source = plain;
    source.architecture = 75;
    assert_kept(&source);
    /* The device is newer than the compiler, so the compiler writes PTX for compute capability 9.0.
     * The option for compute_90 requests the same PTX, but must get a cache entry that is
     * different. */
    source.architecture = 120;
    assert_kept(&source);
    source.options = own;
    source.option_count = 1;
    assert_kept(&source);
    assert_int_equal(folder_count(cache), 11);
    assert_int_equal(compile(&plain), 0);
    assert_int_equal(warnings, 0);
}

/* Checks that the code of one compiler is not used with another. The first other compiler is a
 * different file with the same version. The second has a different version, but its file has the
 * same size and time. */
static void
test_another_compiler_compiles_anew(void **state)
{
    char path[2][PATH_BYTES];
    size_t count;
    struct ferryi_compiled image;
    (void)state;
    assert_kept(&plain);
    void *library = folder_read_file(FAKENVRTC, &count);
    struct timespec past[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/libnvrtc-%d.so", root, i);
        folder_write_file(path[i], library, count);
        assert_int_equal(utimensat(AT_FDCWD, path[i], past, 0), 0);
    }
    free(library);
    setenv("FERRY_NVRTC_LIBRARY", path[0], 1);
    OK(ferryi_nvrtc_compile(&plain, &notes, &image));
    free(image.bytes);
    assert_int_equal(folder_count(cache), 2);
    setenv("FERRY_NVRTC_LIBRARY", path[1], 1);
    setenv("FAKENVRTC_VERSION", "128", 1);
    OK(ferryi_nvrtc_compile(&plain, &notes, &image));
    free(image.bytes);
    unsetenv("FAKENVRTC_VERSION");
    assert_int_equal(folder_count(cache), 3);
    assert_int_equal(found_messages, 1);
}

static void
assert_never_kept(const struct ferryi_nvrtc_source *source)
{
    int entries = folder_count(cache);
    assert_int_equal(compile(source), 1);
    assert_int_equal(compile(source), 1);
    assert_int_equal(folder_count(cache), entries);
}

static void
test_what_other_files_determine_is_not_kept(void **state)
{
    static const char *const texts[] = {"#define X <a.h>\n#include X",
                                        "#inc\\\nlude X",
                                        "#i\\\n\\\r\nnclud\\\r\ne X",
                                        "%:include X",
                                        "/* */ # /* */ include /* */ X",
                                        "#include_next <a.h>",
                                        "#if __has_include(X)\n#endif",
                                        "#if 0\n#elif __has_include_next(<a.h>)\n#endif",
                                        "#define HAS(x) __has_include(x)",
                                        "#embed \"a\"",
                                        "#include <a.h",
                                        "const char c = u8'\"';\n#include X\n\"",
                                        ("const char *s = R\"(/"
                                         "*)\";\n#include X")};
    static const char *const options[] = {"-include",
                                          "--pre-include=a.h",
                                          "--use-pch=a",
                                          "--fdevice-time-trace=a",
                                          "-G",
                                          "-lineinfo",
                                          "--generate-line-info",
                                          "--device-debug",
                                          "-I",
                                          "-I=a",
                                          "--include-path",
                                          "--include-path="};
    (void)state;
    struct ferryi_nvrtc_source source = plain;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        source.text = texts[i];
        assert_never_kept(&source);
    }
    source.text = "int inc; int lude; // inc\\lude inclu\nde\n// #include X\n/*\n#include X\n*/"
                  "\nconst char *s = R\"x(\n#include X\n)x\"; // __has_include(X)\n";
    assert_kept(&source);
    source = plain;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        source.options = &options[i];
        source.option_count = 1;
        assert_never_kept(&source);
    }
    setenv("NVRTC_APPEND_FLAGS", "-DX", 1);
    assert_never_kept(&plain);
    unsetenv("NVRTC_APPEND_FLAGS");
    source = plain;
    source.keep = false;
    assert_never_kept(&source);
    const ferry_kernel_source checked = {.name = "scale", CUDA_SOURCE(scale_source)};
    OK(ferry_kernel_check(&checked, NULL));
    assert_int_equal(folder_count(cache), 1);
}

static void
write_header(const char *name, const char *text)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    folder_write_file(path, text, strlen(text));
}

/* Each change of a file that the source may include makes the compiler run again, and only such a
 * change. */
static void
test_includes_are_in_the_key(void **state)
{
    char own[PATH_BYTES], first[PATH_BYTES], second[PATH_BYTES], text[3 * PATH_BYTES];
    (void)state;
    snprintf(own, sizeof(own), "%s/first", root);
    assert_int_equal(mkdir(own, 0700), 0);
    snprintf(first, sizeof(first), "-I%s/first", root);
    snprintf(second, sizeof(second), "--include-path=%s", root);
    const char *options[] = {first, second};
    struct ferryi_nvrtc_source source = plain;
    source.options = options;
    source.option_count = 2;
    source.text = "#inc\\\nlude <a.h> // include\n";
    assert_kept(&source); /* without the header */
    write_header("a.h", "#if 0 /* a skipped branch */\n#include \"b.h\"\n#endif\n");
    assert_kept(&source);
    write_header("b.h", "#if __has_include(<c.h>)\n#endif\n");
    assert_kept(&source);
    write_header("c.h", "1'000 'x' \"/*\" /*\n#include X */\n");
    assert_kept(&source);
    write_header("unrelated.h", "");
    assert_int_equal(compile(&source), 0);
    write_header("c.h", "2");
    assert_kept(&source);
    write_header("first/c.h", "2"); /* is found before the other one, and says the same */
    assert_kept(&source);
    write_header("first/b.h", "#include X\n"); /* is not in the first header's own folder */
    assert_int_equal(compile(&source), 0);
    write_header("c.h", "#include X\n"); /* is not found any more */
    assert_int_equal(compile(&source), 0);
    write_header("a.h", "#include <b.h>\n");
    assert_never_kept(&source);
    snprintf(text, sizeof(text), "#include \"%s/c.h\"\n#include <%s/c.h>\n", own, own);
    source = plain;
    source.text = text;
    assert_kept(&source);
    write_header("first/c.h", "3");
    assert_kept(&source);
    write_header("first/c.h", "#include \"c.h\"\n");
    assert_kept(&source);
}

/* NVRTC is found in the folders of FERRY_NVRTC_FOLDERS, before the loader looks for it. */
static int
compile_in_folders(void)
{
    char folders[PATH_BYTES];
    struct ferryi_nvrtc_source source = plain;
    struct ferryi_compiled image;
    snprintf(folders, sizeof(folders), "relative::/nowhere:%s/wheel", root);
    unsetenv("FERRY_NVRTC_LIBRARY");
    setenv("FERRY_NVRTC_FOLDERS", folders, 1);
    source.driver_version = 13000;
    if (ferryi_nvrtc_compile(&source, &notes, &image) != FERRY_OK)
        return 1;
    bool is_fake = strstr(image.bytes, scale_source) && strstr(image.bytes, ".version 9.0");
    free(image.bytes);
    return is_fake ? 0 : 2;
}

static void
test_nvrtc_in_a_folder(void **state)
{
    char path[PATH_BYTES];
    size_t count;
    (void)state;
    snprintf(path, sizeof(path), "%s/wheel", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/wheel/libnvrtc.so.13", root);
    void *library = folder_read_file(NAMED, &count);
    folder_write_file(path, library, count);
    free(library);
    assert_int_equal(in_another_process(compile_in_folders), 0);
}

static void
test_what_does_not_compile_is_not_kept(void **state)
{
    struct ferryi_nvrtc_source source = plain;
    struct ferryi_compiled image;
    (void)state;
    source.text = "#error\n";
    for (int i = 0; i < 2; i++) {
        int before = compilations();
        assert_int_equal(ferryi_nvrtc_compile(&source, &notes, &image), FERRY_ERROR_COMPILE);
        assert_non_null(strstr(ferry_last_error(), "there is an #error"));
        assert_int_equal(compilations(), before + 1);
    }
    assert_int_equal(folder_count(root), 0);
}

/* -- across processes -------------------------------------------------------------------------- */

static int
compile_plain(void)
{
    struct ferryi_compiled image;
    int before = compilations();
    if (ferryi_nvrtc_compile(&plain, NULL, &image) != FERRY_OK ||
        !strstr(image.bytes, scale_source))
        return 100;
    free(image.bytes);
    return compilations() - before;
}

static void
test_other_processes_find_it(void **state)
{
    (void)state;
    assert_int_equal(in_another_process(compile_plain), 1);
    assert_int_equal(in_another_process(compile_plain), 0);
    assert_int_equal(compile(&plain), 0);
    damage_entry();
    assert_int_equal(in_another_process(compile_plain), 1);
    assert_int_equal(in_another_process(compile_plain), 0);
    setenv("FERRY_CACHE_DIR", "", 1);
    assert_int_equal(in_another_process(compile_plain), 1);
}

/* -- kernels and conversions, over fakecuda ---------------------------------------------------- */

static void
scale_code(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    float *a = *(float **)parameters[0], value = *(float *)parameters[1];
    for (size_t i = 0; i < COUNT; i++)
        a[i] *= value;
}

static ferry_context *
open_fake(struct fakecuda *fake)
{
    static const size_t sizes[] = {sizeof(void *), sizeof(float)};
    ferry_context_options options = {.devices = "cuda", .log = note};
    ferry_context *context;
    assert_true(fakecuda_find(FAKECUDA, fake));
    fake->fakecuda_register_kernel("scale", scale_code, 2, sizes);
    OK(ferry_context_create(&options, &context));
    return context;
}

/* Creates a kernel in a new context and launches the kernel. `option` is a compiler option or NULL.
 * Returns how often the compiler ran. */
static int
use_kernel_with(const char *option)
{
    const ferry_parameter parameters[] = {
        {.element = ferry_float_element(), .access = FERRY_UPDATE},
        {.element = ferry_float_element()}};
    const ferry_kernel_source source = {.name = "scale",
                                        CODE_OF(.kind = FERRY_CODE_CUDA, .code = scale_source,
                                                .options = &option, .option_count = option != NULL),
                                        .parameters = parameters,
                                        .parameter_count = 2};
    struct fakecuda fake;
    ferry_context *context = open_fake(&fake);
    float values[COUNT] = {1, 2, 3};
    ferry_float_buffer a;
    ferry_kernel *kernel;
    int before = compilations();
    OK(ferry_float_create_from(context, COUNT, values, NULL, &a));
    OK(ferry_kernel_create(context, &source, &kernel));
    const ferry_argument arguments[] = {ferry_float_argument(a), ferry_float_value(2)};
    OK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 0), NULL, arguments, 2));
    OK(ferry_float_copy_to(a, 0, COUNT, values, NULL));
    assert_true(values[0] == 2 && values[1] == 4 && values[2] == 6);
    ferry_kernel_destroy(&kernel);
    ferry_float_destroy(&a);
    ferry_context_destroy(&context);
    return compilations() - before;
}

static int
use_kernel(void)
{
    return use_kernel_with(NULL);
}

static void
test_options_of_kernels_reach_the_compiler(void **state)
{
    (void)state;
    assert_int_equal(use_kernel(), 1);
    assert_int_equal(use_kernel_with("-DVALUE=1"), 1);
    assert_int_equal(use_kernel_with("-DVALUE=2"), 1);
    assert_int_equal(use_kernel_with("-DVALUE=1"), 0);
    assert_int_equal(use_kernel(), 0);
}

static void
test_kernels_are_compiled_once(void **state)
{
    (void)state;
    assert_int_equal(use_kernel(), 1);
    assert_int_equal(use_kernel(), 0);
    assert_int_equal(found_messages, 1);
    damage_entry();
    assert_int_equal(use_kernel(), 1);
    assert_int_equal(warnings, 1);
    assert_int_equal(use_kernel(), 0);
    assert_int_equal(chmod(cache, 0777), 0);
    assert_int_equal(use_kernel(), 1);
}

/* Converts values. The driver refuses the conversion code inside the library, so the code must be
 * compiled or found in the cache. Returns how often the compiler ran. */
static int
use_conversion(void)
{
    enum { NO_BINARY = 209 };
    struct fakecuda fake;
    ferry_context *context = open_fake(&fake);
    ferry_float_buffer a;
    ferry_double_buffer b;
    float values[COUNT] = {1, 2, 3};
    double results[COUNT];
    int before = compilations();
    convert_kernels_register();
    if (ferryi_convert_image_bytes)
        fake.fakecuda_fail_next("cuModuleLoadDataEx", NO_BINARY, 1);
    OK(ferry_float_create_from(context, COUNT, values, NULL, &a));
    OK(ferry_double_create(context, COUNT, NULL, &b));
    OK(ferry_float_sync_to(a, 1, NULL));
    OK(ferry_float_mark_dirty(a, 1, NULL));
    OK(ferry_double_convert_from_float(b, 0, a, 0, COUNT, FERRY_CONVERT_SATURATE, NULL));
    OK(ferry_double_copy_to(b, 0, COUNT, results, NULL));
    assert_true(results[0] == 1 && results[2] == 3 && results[3] == 0);
    ferry_float_destroy(&a);
    ferry_double_destroy(&b);
    ferry_context_destroy(&context);
    fake.fakecuda_fail_none();
    return compilations() - before;
}

static void
test_conversions_are_compiled_once(void **state)
{
    (void)state;
    assert_int_equal(use_conversion(), 1);
    assert_int_equal(use_conversion(), 0);
    assert_int_equal(folder_count(cache), 1);
}

/* -- the compiler itself ----------------------------------------------------------------------- */

static int
use_usual_name(void)
{
    struct ferryi_compiled image;
    unsetenv("FERRY_NVRTC_LIBRARY");
    void *library = dlopen(NAMED, RTLD_NOW | RTLD_LOCAL),
         *address = library ? dlsym(library, "fakenvrtc_compilations") : NULL;
    if (!address)
        return 1;
    memcpy(&compilations, &address, sizeof(address));
    if (ferryi_nvrtc_compile(&plain, &notes, &image) != FERRY_OK)
        return 2;
    free(image.bytes);
    return compilations() == 1 ? 0 : 3;
}

/* Checks that the library finds NVRTC by its usual file names if no variable names it. The test
 * runs in a child process, because a process keeps the NVRTC that it has loaded. */
static void
test_the_usual_names_are_tried(void **state)
{
    (void)state;
#ifndef __GLIBC__
    skip(); /* the loader of musl does not find loaded libraries by their soname */
#endif
    assert_int_equal(in_another_process(use_usual_name), 0);
}

static void
test_code_of_the_real_compiler_is_kept(void **state)
{
    struct ferryi_compiled made, found;
    (void)state;
    if (FERRYI_MEMORY_SANITIZER)
        skip(); /* the memory sanitizer does not see the writes of a real NVRTC */
    unsetenv("FERRY_NVRTC_LIBRARY");
    ferry_status status = ferryi_nvrtc_compile(&plain, &notes, &made);
    if (status == FERRY_ERROR_UNSUPPORTED)
        skip();
    OK(status);
    OK(ferryi_nvrtc_compile(&plain, &notes, &found));
    assert_int_equal(found_messages, 1);
    assert_int_equal(made.size, found.size);
    assert_memory_equal(made.bytes, found.bytes, made.size);
    free(made.bytes);
    free(found.bytes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_everything_that_matters_is_in_the_key, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_another_compiler_compiles_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_other_files_determine_is_not_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_includes_are_in_the_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nvrtc_in_a_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_does_not_compile_is_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_processes_find_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kernels_are_compiled_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options_of_kernels_reach_the_compiler, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_conversions_are_compiled_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_usual_names_are_tried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_code_of_the_real_compiler_is_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("kernel_cache", tests, NULL, NULL);
}
