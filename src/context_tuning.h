/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONTEXT_TUNING_H
#define FERRYI_CONTEXT_TUNING_H

/*
 * The tuning string of a context: "key=value" pairs separated by spaces, which docs/tuning.md
 * lists. The string is only read while the context is created. A value of zero means the default;
 * values outside the bounds of a key are clamped to them.
 */

#include "src/base/base.h"
#include "src/transfer/engine.h"

/* Zero is the default of each member. */
struct ferryi_context_tuning {
    uint64_t staging_chunk_bytes, staging_chunk_count, staging_threads;
    uint64_t staging_loop; /* enum ferryi_staging_loop */
    uint64_t emulated_memory_bytes, emulated_latency_ns, emulated_bytes_per_second;
    uint64_t emulated_without_peers, cuda_without_batches;
};

/*
 * Adds what the string says to `tuning`; the last value of a key counts. NULL says nothing.
 * `source` names the string in messages. With `log`, pairs that are wrong are logged as warnings
 * and ignored. Without, the first one is FERRY_ERROR_INVALID_ARGUMENT, and the message has its key
 * and the position of the pair, from 1.
 */
ferry_status ferryi_context_tuning_parse(struct ferryi_context_tuning *tuning, const char *text,
                                         const char *source, const struct ferryi_log *log);

/* What FERRY_TUNING says, and over it, key by key, what the option says. */
ferry_status ferryi_context_tuning_read(struct ferryi_context_tuning *tuning, const char *option,
                                        const struct ferryi_log *log);

#endif
