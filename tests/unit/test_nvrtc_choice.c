/* SPDX-License-Identifier: MIT */
/*
 * Tests which of several NVRTC libraries is used. Each case runs in a child process, because a
 * process keeps each release that it loaded. A driver of CUDA 13.0 accepts PTX up to version 9.0,
 * and a driver of CUDA 12.8 up to version 8.7.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/ferry.h>

#include "src/device/cuda/cuda_abi.h"
#include "src/device/cuda/nvrtc.h"
#include "tests/support/code.h"
#include "tests/support/fakecuda.h"

#define FOLDER FERRY_TEST_FAKECUDA_FOLDER

enum { RELEASES = 14 }; /* upper bound of the major releases of NVRTC in this test */

#define REFUSED "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
#define NEW     "fakecuda"    /* CUDA 13.0 */
#define MIDDLE  "fakecuda_12" /* CUDA 12.8 */

struct choice {
    const char *driver;      /* a build of fakecuda */
    int architecture;        /* compute capability of the device */
    int there[3];            /* major releases of NVRTC that are installed */
    int chosen;              /* release of NVRTC whose code the driver loads; 0: none */
    const char *target;      /* architecture for which the code must be compiled */
    const char *refused_ptx; /* PTX version that the NVRTC of the driver's release writes, although
                                the driver refuses it; NULL: a version that the driver accepts */
    const char *says;        /* expected error message if no release of NVRTC is usable */
};

static const char source[] = "extern \"C\" __global__ void nothing() {}\n";

static void
add_message(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    strncat(user, message, 200);
}

/* Loads a release of the fake NVRTC. Returns the function of this library that counts its
 * compilations. */
static int (*install(int release))(void)
{
    char path[512];
    snprintf(path, sizeof(path), FOLDER "/libfakenvrtc_%d.so", release);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL),
         *address = library ? dlsym(library, "fakenvrtc_compilations") : NULL;
    int (*compilations)(void) = NULL;
    memcpy(&compilations, &address, sizeof(address));
    return compilations;
}

/* Hides the NVRTC releases that a case must not find. For each of them, the function loads an empty
 * library with the same soname. The loader then finds the empty library instead. */
static bool
hide_others(const struct choice *choice)
{
    static const char *const names[] = {"11", "12", "13", "any"};
    bool hidden = true;
    for (int i = 0; i < 4; i++) {
        char path[512];
        bool wanted = false;
        for (int k = 0; k < 3; k++)
            wanted |= choice->there[k] == 11 + i;
        snprintf(path, sizeof(path), FOLDER "/libfakenvrtc_not_%s.so", names[i]);
        hidden = hidden && (wanted || dlopen(path, RTLD_NOW | RTLD_LOCAL));
    }
    return hidden;
}

/* If `truth` is false, returns from the test case with a number that identifies this line. A case
 * without an error returns 0. */
#define CHECK(truth)                                                                               \
    do {                                                                                           \
        if (!(truth)) {                                                                            \
            fprintf(stderr, "# %s; %s; log: %s\n", #truth, ferry_last_error(), messages);          \
            return __LINE__ % 250 + 1;                                                             \
        }                                                                                          \
    } while (0)

static int
play(const struct choice *choice)
{
    static char messages[4096];
    char library[512];
    struct fakecuda fake;
    int (*compilations[RELEASES])(void) = {NULL};
    CHECK(hide_others(choice));
    snprintf(library, sizeof(library), FOLDER "/lib%s.so", choice->driver);
    setenv("FERRY_CUDA_LIBRARY", library, 1);
    setenv("FAKECUDA_STRICT", "ptx", 1);
    unsetenv("FERRY_NVRTC_LIBRARY");
    if (choice->refused_ptx)
        setenv(strstr(choice->driver, "12") ? "FAKENVRTC_PTX_12" : "FAKENVRTC_PTX_13",
               choice->refused_ptx, 1);
    for (int i = 0; i < 3 && choice->there[i]; i++) {
        compilations[choice->there[i]] = install(choice->there[i]);
        CHECK(compilations[choice->there[i]]);
    }
    CHECK(fakecuda_find(library, &fake));
    ferry_context_options options = {.devices = "cuda", .log = add_message, .log_user = messages};
    ferry_context *context;
    /* Creates a context first, because cuInit() sets the device attributes that the next lines
     * replace. */
    CHECK(ferry_context_create(&options, &context) == FERRY_OK);
    ferry_context_destroy(&context);
    fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                choice->architecture / 10);
    fake.fakecuda_set_attribute(FERRYI_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                choice->architecture % 10);
    CHECK(ferry_context_create(&options, &context) == FERRY_OK);
    const ferry_kernel_source description = {.name = "nothing", CUDA_SOURCE(source)};
    ferry_kernel *kernel = NULL;
    ferry_status status = ferry_kernel_create(context, &description, &kernel);
    CHECK((status == FERRY_OK) == (choice->chosen != 0));
    if (choice->says)
        CHECK(strstr(ferry_last_error(), choice->says));
    bool first_refused =
        choice->refused_ptx || (choice->says && strcmp(choice->says, REFUSED) == 0);
    for (int i = 0; i < 3 && choice->there[i]; i++)
        CHECK(compilations[choice->there[i]]() ==
              (choice->there[i] == choice->chosen || (first_refused && i == 0)));
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
    if (!choice->chosen)
        return 0;

    /* The compiled code must be for the expected architecture. */
    struct ferryi_compiled image;
    const struct ferryi_nvrtc_source again = {.name = "nothing",
                                              .text = source,
                                              .architecture = choice->architecture,
                                              .driver_version =
                                                  strstr(choice->driver, "12") ? 12080 : 13000,
                                              .refused = choice->refused_ptx != NULL};
    CHECK(ferryi_nvrtc_compile(&again, NULL, &image) == FERRY_OK);
    CHECK(strstr(image.bytes, choice->target));
    free(image.bytes);
    return 0;
}

static void
test_choices(void **state)
{
    (void)state;
    static const struct choice choices[] = {
        /* The NVRTC of the driver's release is the first choice. */
        {NEW, 90, {13, 12, 11}, 13, "=sm_90", NULL, NULL},
        {MIDDLE, 90, {12, 13, 11}, 12, "=sm_90", NULL, NULL},
        /* The NVRTC of an older release is the second choice, because a newer driver accepts its
         * code. */
        {NEW, 90, {12, 11}, 12, "=sm_90", NULL, NULL},
        {MIDDLE, 80, {11, 13}, 11, "=sm_80", NULL, NULL},
        {NEW, 120, {11}, 11, "=compute_86", NULL, NULL},
        /* The only NVRTC is newer than the driver. The driver refuses its code, so the
         * compilation must fail. */
        {MIDDLE, 90, {13}, 0, NULL, NULL, REFUSED},
        /* An NVRTC that does not support the device must be skipped. */
        {NEW, 61, {13, 12, 11}, 12, "=sm_61", NULL, NULL},
        {NEW, 61, {13}, 0, NULL, NULL, "NVRTC 13.0 knows no compute capability below 7.5"},
        {NEW, 35, {13, 12, 11}, 0, NULL, NULL, "NVRTC 13.0 knows no compute capability"},
        /* PTX for compute capability 10.1 runs only on devices of 10.1, so newer devices get PTX
         * for 10.0. */
        {MIDDLE, 101, {12}, 12, "=sm_101", NULL, NULL},
        {MIDDLE, 103, {12}, 12, "=compute_100", NULL, NULL},
        {MIDDLE, 110, {12}, 12, "=compute_100", NULL, NULL},
        /* The NVRTC of the driver's release writes PTX that the driver refuses. The library must
         * then use a different NVRTC. */
        {MIDDLE, 86, {12, 11, 13}, 11, "=sm_86", "8.8", NULL},
        {NEW, 90, {13, 12}, 12, "=sm_90", "9.1", NULL},
        /* If no other NVRTC is installed, the driver's error is returned. */
        {NEW, 90, {13}, 0, NULL, "9.1", REFUSED},
    };
#ifndef __GLIBC__
    skip(); /* another C library does not find a library by its name that was loaded by its path */
#endif
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        int result;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(play(&choices[i]));
        assert_int_equal(waitpid(child, &result, 0), child);
        if (result != 0)
            fail_msg("case %zu: %d", i, result);
    }
}

int
main(void)
{
    setenv("FERRY_CACHE_DIR", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
