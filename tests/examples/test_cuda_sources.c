/* SPDX-License-Identifier: MIT */

/*
 * Checks that the CUDA sources inside the examples compile. On a machine without a GPU, no other
 * test finds errors in these sources. The program exits with status 77 (skipped) if NVRTC is not
 * installed.
 */

#include <stdio.h>
#include <stdlib.h>

#include <ferry/ferry.h>

#include "examples/particles/forces.h"
#include "examples/pipeline/scramble.h"
#include "gases_kernels.h"
#include "gradients_kernels.h"
#include "graph_kernels.h"
#include "hillshade_kernels.h"
#include "qubits_kernels.h"
#include "sharpen_kernels.h"
#include "spread_kernels.h"
#include "strips_kernels.h"
#include "vector_add_kernels.h"

enum { SKIPPED = 77 };

/* Checks the source for the library's default target, which NULL selects, and for "sm_90". */
static ferry_status
check(const ferry_kernel_source *source)
{
    static const char *const targets[] = {NULL, "sm_90"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        ferry_status status = ferry_kernel_check(source, targets[i]);
        if (status != FERRY_OK) {
            printf("%s, target %s: %s (%s)\n", source->name, targets[i] ? targets[i] : "NULL",
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
    enum { PROGRAMS = 13, MOST = 16 };
    ferry_parameter shade[13], scramble[SCRAMBLE_PARAMETER_COUNT], spread[8], add[4];
    ferry_parameter programs[PROGRAMS][MOST], strips[MOST], forces[FORCES_PARAMETER_COUNT];
    const ferry_kernel_source sources[] = {
        hillshade_shade_source(shade),
        scramble_kernel_source(scramble),
        heat_spread_source(spread),
        vector_add_source(add),
        strips_step_source(strips),
        forces_kernel_source(forces),
        gases_trace_source(programs[0]),
        gradients_start_source(programs[1]),
        gradients_multiply_source(programs[2]),
        gradients_advance_source(programs[3]),
        gradients_turn_source(programs[4]),
        graph_reach_source(programs[5]),
        graph_advance_source(programs[6]),
        qubits_mix_source(programs[7]),
        qubits_turn_source(programs[8]),
        qubits_swap_source(programs[9]),
        qubits_chance_source(programs[10]),
        sharpen_edges_source(programs[11]),
        sharpen_compare_source(programs[12]),
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
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA, .code = broken};
    return check(&(ferry_kernel_source){.name = "broken", .codes = &code, .code_count = 1}) ==
                   FERRY_ERROR_COMPILE
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
