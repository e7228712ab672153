/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_CUDA_FIXTURE_H
#define FERRY_TEST_CUDA_FIXTURE_H

/* Fixture for tests of the CUDA loader and the CUDA device. The devices run on the fake driver
 * fakecuda. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ferry/buffer.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_device.h"
#include "tests/support/fakecuda.h"
#include "tests/support/status.h"

#define KIBIBYTE ((size_t)1 << 10)

/* Builds of fakecuda that imitate drivers of CUDA 13, 12.8 and 9. Each build has its own devices.
 */
static const char *const library_names[] = {
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda.so",
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_12.so",
    FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_old.so",
};
enum { NEW, MIDDLE, OLD, BUILDS };

static struct build {
    struct fakecuda fake;
    struct ferryi_gpu_driver driver;
} builds[BUILDS];

static const struct ferryi_device_config config;

static struct fakecuda *const fake = &builds[NEW].fake;

static inline ferryi_device *
open_build(int build, int ordinal)
{
    ferryi_device *device = NULL;
    OK(ferryi_gpu_open_on(&builds[build].driver, ordinal, &config, &device));
    return device;
}

static inline void
close_device(ferryi_device *device)
{
    device->ops->close(device);
}

static inline int
load_builds(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++) {
        if (!fakecuda_find(library_names[i], &builds[i].fake))
            return -1;
        if (ferryi_gpu_driver_load(&ferryi_cuda_vendor, library_names[i], &builds[i].driver) !=
            FERRY_OK)
            return -1;
    }
    return 0;
}

static inline int
clear_faults(void **state)
{
    (void)state;
    for (int i = 0; i < BUILDS; i++)
        builds[i].fake.fakecuda_fail_none();
    return builds[NEW].fake.fakecuda_context_depth() == 0 ? 0 : -1;
}

/* Makes FERRY_CUDA_LIBRARY name the newest build of fakecuda, and gives each build two devices. */
static inline void
name_fakecuda(void)
{
    setenv("FERRY_CUDA_LIBRARY", library_names[NEW], 1);
    setenv("FAKECUDA_DEVICES", "2", 1);
}

#define CUDA_TEST(name) cmocka_unit_test_teardown(name, clear_faults)

#endif
