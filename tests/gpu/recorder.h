/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_GPU_RECORDER_H
#define FERRY_TEST_GPU_RECORDER_H

/* Formats the arguments of a recorded driver call as text; recorder.c describes the format. All
 * functions must be called under the recorder's lock. */

#include <stddef.h>
#include <stdint.h>

#include "src/device/cuda/cuda_abi.h"

#define RECORDER_PARAMETERS 11
/* In the text of a call, this character marks the position of an output, which is known only after
 * the call. The next character is 'a' plus the index of the parameter. */
#define RECORDER_MARK '\1'

enum recorder_kind {
    RECORDER_NOTHING,   /* a parameter that is not recorded */
    RECORDER_STRUCTURE, /* the same, of more than 8 bytes */
    RECORDER_UNSIGNED,
    RECORDER_SIGNED,
    RECORDER_ADDRESS,
    RECORDER_HANDLE,
    RECORDER_STRING,
    RECORDER_IMAGE,
    RECORDER_WORDS_32,
    RECORDER_WORDS_64,
    RECORDER_COPY_2D,
    RECORDER_COPY_3D,
    RECORDER_LAUNCH,
};

struct recorder_parameter {
    char name[32], type[48];
    enum recorder_kind kind; /* for an output: the kind of the value that it points to */
    int bytes;               /* size of an integer or of an array's element */
    /* 0: not an output; 1: the call writes the output; 2: the call reads and writes the output. */
    int is_output;
};

struct recorder_call {
    const struct recorder_parameter *parameters;
    int count;
    const char *name;
    const uint64_t *a;
};

struct recorder_text {
    char *at;
    size_t length, room;
};

void recorder_print(struct recorder_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void recorder_append(struct recorder_text *text, const char *at, size_t length);
/* Parses the parameter list of a C function, such as "(size_t *out_free, int device)". Returns the
 * number of parameters. */
int recorder_parse(const char *list, struct recorder_parameter out[RECORDER_PARAMETERS]);
void recorder_write(struct recorder_text *line, const struct recorder_call *call, int index);
void recorder_write_out(struct recorder_text *line, const struct recorder_call *call, int index,
                        ferryi_gpu_result result);
/* Removes a block from the recorder's list of memory blocks if the recorded call freed the block.
 */
void recorder_forget(const struct recorder_call *call);

#endif
