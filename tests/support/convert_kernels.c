/* SPDX-License-Identifier: MIT */
#include "tests/support/convert_kernels.h"

#include <stdlib.h>

#define UNALIGNED                  /* as on a device */
#define KERNEL                     static void
#define FIRST_INDEX                first_index
#define INDEX_STEP                 index_step
#define KEEP_LOWEST(memory, value) (*(memory) = (value) < *(memory) ? (value) : *(memory))

/* Index of the GPU thread that the host emulates at this moment, and the number of threads in its
 * grid. */
static _Thread_local size_t first_index, index_step;

#include "src/convert/kernels.cu"

#undef LOOP
#undef SEARCH
#define EACH_THREAD(call)                                                                          \
    index_step = (size_t)grid[0] * block[0];                                                       \
    for (first_index = 0; first_index < index_step; first_index++)                                 \
        call;
#define LOOP(from, to, working, how)                                                               \
    static void run_##from##_to_##to##_##how(void **p, const unsigned grid[3],                     \
                                             const unsigned block[3])                              \
    {                                                                                              \
        number_##to *target = *(number_##to **)p[0];                                               \
        const number_##from *source = *(number_##from **)p[1];                                     \
        EACH_THREAD(ferryi_##from##_to_##to##_##how(target, source, *(size_t *)p[2]))              \
    }
#define SEARCH(from, to, working)                                                                  \
    static void run_##from##_to_##to##_first_unfit(void **p, const unsigned grid[3],               \
                                                   const unsigned block[3])                        \
    {                                                                                              \
        const number_##from *source = *(number_##from **)p[0];                                     \
        EACH_THREAD(ferryi_##from##_to_##to##_first_unfit(source, *(size_t *)p[1],                 \
                                                          *(unsigned long long **)p[2]))           \
    }
#include "src/convert/convert_pairs.h"

#undef LOOP
#undef SEARCH
#define LOOP(from, to, working, how)                                                               \
    {"ferryi_" #from "_to_" #to "_" #how, run_##from##_to_##to##_##how},
#define SEARCH(from, to, working)                                                                  \
    {"ferryi_" #from "_to_" #to "_first_unfit", run_##from##_to_##to##_first_unfit},
const struct convert_kernel convert_kernels[] = {
#include "src/convert/convert_pairs.h"
};
const size_t convert_kernel_count = sizeof(convert_kernels) / sizeof(convert_kernels[0]);

fakecuda_kernel *
convert_kernel_find(const char *name)
{
    for (size_t i = 0; i < convert_kernel_count; i++)
        if (strcmp(convert_kernels[i].name, name) == 0)
            return convert_kernels[i].run;
    return NULL;
}

void
convert_kernels_register(void)
{
    static const size_t bytes[3] = {8, 8, 8};
    static bool done;
    struct fakecuda fake;
    if (done || !fakecuda_find_driver(&fake))
        return;
    done = true;
    fake.fakecuda_take_binaries();
    for (size_t i = 0; i < convert_kernel_count; i++)
        fake.fakecuda_register_kernel(convert_kernels[i].name, convert_kernels[i].run, 3, bytes);
}
