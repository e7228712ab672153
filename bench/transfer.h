/* SPDX-License-Identifier: MIT */
#ifndef TRANSFER_H
#define TRANSFER_H

/* Declarations that the source files of the program bench_transfer share. */

#include "bench.h"

#include "src/transfer/engine.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { ROUNDS_MOST = 9 };

struct arena {
    size_t bytes;
    char *source, *target;
    char *pinned;
    char *device; /* memory of the device */
};

/** Writes the name of a benchmark case, such as "16MiB/rest", to `text`. */
void bench_name_size(char text[64], size_t bytes, const char *rest);

/* Measurements of the file null_sink.c. Both functions overwrite the target memory of `arena`.
 * `rounds` must be at most ROUNDS_MOST. */
bool bench_null_sink(struct bench_report *report, const struct arena *arena, size_t rounds);
bool bench_chunks(struct bench_report *report, const struct arena *arena, size_t rounds);

#endif
