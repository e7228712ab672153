/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_TUNING_H
#define FERRYI_CONTEXT_TUNING_H

/*
 * The tuning string of a context: "key=value" pairs separated by spaces; docs/tuning.md lists the
 * keys. The string is read only while the context is created. A value of zero means the default;
 * values outside the bounds of a key are clamped to them.
 */

#include "src/base/base.h"
#include "src/transfer/engine.h"

/* Parsed values; zero means the default. */
struct ferryi_context_tuning {
    uint64_t staging_chunk_bytes, staging_chunk_count, staging_part_bytes, staging_threads;
    uint64_t staging_loop; /* enum ferryi_copy_loop */
    uint64_t emulated_memory_bytes, emulated_latency_ns, emulated_bytes_per_second;
    uint64_t emulated_without_peers, cuda_without_batches;
    uint64_t device_bytes_limit, host_bytes_limit, pinned_bytes_limit;
    uint64_t host_threads;
    uint64_t device_handle_bytes;
};

/*
 * Parses a tuning string into `tuning`. If a key occurs several times, its last value is used.
 * `text` may be NULL. `source` names the string in messages. If `log` is not NULL, invalid pairs
 * are logged as warnings and ignored. If `log` is NULL, the first invalid pair fails with
 * FERRY_ERROR_INVALID_ARGUMENT, and the message contains its key and its position, counted from 1.
 */
ferry_status ferryi_context_tuning_parse(struct ferryi_context_tuning *tuning, const char *text,
                                         const char *source, const struct ferryi_log *log);

/* Reads the tuning string of the environment variable FERRY_TUNING, then `option`. Keys in `option`
 * override those in FERRY_TUNING. */
ferry_status ferryi_context_tuning_read(struct ferryi_context_tuning *tuning, const char *option,
                                        const struct ferryi_log *log);

#endif
