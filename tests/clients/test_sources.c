/* SPDX-License-Identifier: MIT */

/* Checks that NVRTC compiles the CUDA source of every kernel of examples/sundials. Exits with
 * status 77 if NVRTC is not installed. */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

#include "entries.h"

enum { SKIPPED = 77 };

int
main(void)
{
    int failures = 0;
#define CHECK(entry)                                                                               \
    {                                                                                              \
        ferry_parameter parameters[16];                                                            \
        const ferry_kernel_source source = entry##_source(parameters);                             \
        const ferry_status status = ferry_kernel_check(&source, NULL);                             \
        if (status == FERRY_ERROR_UNSUPPORTED)                                                     \
            return SKIPPED;                                                                        \
        if (status != FERRY_OK)                                                                    \
            printf("%s: %s\n", source.name, ferry_last_error());                                   \
        failures += status != FERRY_OK;                                                            \
    }
    ENTRIES(CHECK)
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
