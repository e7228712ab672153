/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_FOREIGN_H
#define FERRY_TEST_FOREIGN_H

/*
 * The foreign device: an emulated device that runs code of a language that a test chooses, so that
 * tests see which code Ferry passes to a device of a language that no built-in device has. Its
 * compiler and loader accept everything and write it down. A launch waits for the stream and calls
 * a function of the test. All foreign devices share one record.
 */

#include "src/device/device.h"

#define FOREIGN_TEXT 8192

/* What a launch passed. The sizes and the addresses of its arguments' values. */
#define FOREIGN_ARGUMENTS 8
struct foreign_launch {
    size_t count, bytes[FOREIGN_ARGUMENTS];
    void *const *arguments; /* valid in `run` only */
    ferry_grid grid;
};

struct foreign {
    /* Set by the test before a context is created. */
    ferry_language language;
    const char *target;
    uint64_t capabilities; /* added to those of an emulated device */
    bool hides_memory;     /* whether the host cannot access the device's memory, and the device
                              runs no host functions */
    /* Set by the test at any time. */
    ferry_status
        refuses[FERRY_CODE_OPENCL_BINARY + 1]; /* result for a kind of code, which code_load
                                                  takes from its first byte: '0' + kind */
    void (*run)(const struct foreign_launch *launch);
    /* Written by the device. */
    int builds, checks, loads, launches; /* `checks`: builds without a module */
    ferry_code_kind kind;                /* of the last code that was built */
    char text[FOREIGN_TEXT];             /* the last text that was built */
    char options[256];                   /* its options, each after a space */
    bool exact;
    struct foreign_launch launch; /* the last one */
};

extern struct foreign foreign;

/* Registers the kind "foreign" and resets the record. */
void foreign_begin(ferry_language language, const char *target, uint64_t capabilities);

#endif
