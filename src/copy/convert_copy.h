/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CONVERT_COPY_H
#define FERRYI_CONVERT_COPY_H

/*
 * Running a conversion on host memory, by its own function or by the loops of src/convert
 * (conversion.c); and the converting copies of one range, whose arguments were checked before
 * (convert_copy.c).
 */

#include <ferry/conversion.h>

#include "src/copy/copy.h"
#include "src/transfer/engine.h"

/* FERRY_ERROR_INVALID_ARGUMENT where `conversion` cannot run; `what` begins the message. */
ferry_status ferryi_conversion_check(const ferry_conversion *conversion, const char *what);

/* As ferry_convert_function says; everything about the arguments was checked before. */
ferry_status ferryi_conversion_apply(const ferry_conversion *conversion, void *target,
                                     const void *source, size_t count, ferry_convert_policy policy);

struct ferryi_convert_call {
    const ferry_conversion *conversion;
    ferry_convert_policy policy; /* not 0 */
};

/* Plans a copy that converts, as ferryi_copy_plan() does one that does not; `convert` lasts as long
 * as the call. The ranges do not overlap. CHECK looks at elements in memory at once. */
ferry_status ferryi_convert_plan(struct ferryi_copy_call *call,
                                 const struct ferryi_convert_call *convert, ferryi_store *target,
                                 struct ferryi_range to, ferryi_store *source,
                                 struct ferryi_range from, int place);
/* Between host memories, in parts that the job asks for. */
ferry_status ferryi_convert_memory(ferryi_engine *engine, void *target, const void *source,
                                   size_t count, const struct ferryi_convert_call *convert,
                                   struct ferryi_transfer_job *job);

/* For steps that bring nothing of the result: the same cancelling, and keep_going is asked with
 * what is done of the whole. */
struct ferryi_convert_quiet {
    const struct ferryi_transfer_job *job; /* of the result */
    ferry_copy_options options;
    struct ferryi_whole_call whole;
};
/* `whole` may be NULL. The result's parts stay where they are. */
void ferryi_convert_be_quiet(struct ferryi_convert_quiet *quiet,
                             const struct ferryi_transfer_job *job,
                             const struct ferryi_whole_call *whole);

#endif
