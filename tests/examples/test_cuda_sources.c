/* SPDX-License-Identifier: MIT */

/*
 * Checks that the CUDA sources inside the examples compile. On a machine without a GPU, no other
 * test finds errors in these sources. The program exits with status 77 (skipped) if NVRTC is not
 * installed.
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

#include "examples/pipeline/scramble.h"
#include "hillshade_kernels.h"
#include "spread_kernels.h"
#include "vector_add_kernels.h"

enum { SKIPPED = 77 };

/* Checks the source for the library's default architecture, which 0 selects, and for architecture
 * 90. */
static ferry_status
check(const ferry_kernel_source *source)
{
    static const int architectures[] = {0, 90};
    for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++) {
        ferry_status status = ferry_kernel_check(source, architectures[i]);
        if (status != FERRY_OK) {
            printf("%s, architecture %d: %s (%s)\n", source->name, architectures[i],
                   ferry_last_error(), ferry_status_name(status));
            return status;
        }
    }
    printf("%s compiles\n", source->name);
    return FERRY_OK;
}

int
main(void)
{
    static const char broken[] =
        "extern \"C\" __global__ void broken(float *a) { a[0] = no_such_name; }";
    ferry_parameter shade[12], scramble[SCRAMBLE_PARAMETER_COUNT], spread[7], add[4];
    const ferry_kernel_source sources[] = {
        hillshade_shade_source(shade),
        scramble_kernel_source(scramble),
        heat_spread_source(spread),
        vector_add_source(add),
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        ferry_status status = check(&sources[i]);
        if (status == FERRY_ERROR_UNSUPPORTED)
            return SKIPPED;
        if (status != FERRY_OK)
            return EXIT_FAILURE;
    }
    /* Checks that a broken source does not compile, which shows that this program can detect
     * errors. */
    return check(&(ferry_kernel_source){.name = "broken", .cuda_source = broken}) ==
                   FERRY_ERROR_COMPILE
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
