/* SPDX-License-Identifier: MIT */
/* Fuzz target. The input is an allocation log, as text. The parser must either return an error
 * message, or return events whose members are in range. */
#include <stdlib.h>
#include <string.h>

#include "cli/log_reader.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct log log = {0};
    struct log_problem problem = {0};
    if (!log_read((const char *)bytes, count, &log, &problem)) {
        if (strlen(problem.text) < 5 || log.events)
            abort();
        return 0;
    }
    for (size_t i = 0; i < log.count; i++)
        if (log.events[i].action < LOG_ALLOCATE || log.events[i].action > LOG_FAILURE ||
            log.events[i].bytes >= UINT64_C(1) << 48)
            abort();
    log_free(&log);
    return 0;
}
