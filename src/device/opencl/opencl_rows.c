/* SPDX-License-Identifier: MIT */
/* Copies rows inside a device with a kernel, which is built when the first call needs it. */
#include "src/device/opencl/opencl_device.h"

/* Each work-item copies units of one row. Rows and units are both spread over the work-items. A
 * unit has 16 or 4 bytes where all addresses and pitches are multiples of it. */
static const char text[] =
    "#define ROWS(unit)                                                            \\\n"
    "    for (ulong row = get_global_id(1); row < rows; row += get_global_size(1)) \\\n"
    "        for (ulong i = get_global_id(0); i < row_bytes / sizeof(unit);        \\\n"
    "             i += get_global_size(0))                                         \\\n"
    "            ((__global unit *)(target + row * target_pitch))[i] =             \\\n"
    "                ((__global const unit *)(source + row * source_pitch))[i];\n"
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void\n"
    "ferry_rows(__global uchar *target, __global const uchar *source, ulong target_pitch,\n"
    "           ulong source_pitch, ulong row_bytes, ulong rows)\n"
    "{\n"
    "    ulong lies = (ulong)target | (ulong)source | target_pitch | source_pitch | row_bytes;\n"
    "    if (lies % 16 == 0) {\n"
    "        ROWS(uint4)\n"
    "    } else if (lies % 4 == 0) {\n"
    "        ROWS(uint)\n"
    "    } else {\n"
    "        ROWS(uchar)\n"
    "    }\n"
    "}\n";

enum {
    WIDE = 64,
    BLOCKS_MOST = 4096
}; /* work-items of a group in a row; groups in each direction */

FERRYI_REQUIRES(ferryi_opencl_mutex)
static void
keep(struct ferryi_opencl_device *opencl, void *module, void *function)
{
    opencl->rows_tried = true;
    opencl->rows_module = module;
    opencl->rows_function = function;
}

/* Builds the kernel. The mutex is not held meanwhile, so that two threads may build it, of which
 * the first one wins. */
static void
build(struct ferryi_opencl_device *opencl)
{
    const ferry_kernel_code code = {.kind = FERRY_CODE_OPENCL, .code = text};
    const struct ferryi_code_job job = {.name = "ferry_rows", .code = &code};
    void *module = NULL, *function = NULL;
    ferry_status status = ferryi_opencl_code_build(&opencl->base, &job, &module);
    if (status == FERRY_OK)
        status = ferryi_opencl_code_function(&opencl->base, module, "ferry_rows", &function);
    if (status != FERRY_OK)
        ferryi_log(&opencl->log, FERRY_LOG_INFO, "rows on opencl:%d are copied one at a time: %s",
                   opencl->ordinal, ferry_last_error());
    ferryi_mutex_lock(&opencl->mutex);
    const bool is_first = !opencl->rows_tried;
    if (is_first)
        keep(opencl, module, function);
    ferryi_mutex_unlock(&opencl->mutex);
    if (!is_first && module)
        (void)ferryi_opencl_code_unload(&opencl->base, module);
}

static void *
function_of(struct ferryi_opencl_device *opencl)
{
    ferryi_mutex_lock(&opencl->mutex);
    const bool is_tried = opencl->rows_tried;
    ferryi_mutex_unlock(&opencl->mutex);
    if (!is_tried)
        build(opencl);
    ferryi_mutex_lock(&opencl->mutex);
    void *function = opencl->rows_function;
    ferryi_mutex_unlock(&opencl->mutex);
    return function;
}

ferry_status
ferryi_opencl_rows_launch(struct ferryi_opencl_device *opencl, const struct ferryi_copy_2d *copy,
                          void *stream)
{
    void *function = function_of(opencl);
    if (!function)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "copy rows on opencl:%d: no kernel for it",
                           opencl->ordinal);
    struct ferryi_copy_2d all = *copy;
    uint64_t sizes[] = {copy->target_pitch, copy->source_pitch, copy->row_bytes, copy->rows};
    void *arguments[] = {&all.target, &all.source, &sizes[0], &sizes[1], &sizes[2], &sizes[3]};
    const size_t word = sizeof(sizes[0]);
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS, FERRYI_LAUNCH_ADDRESS, word, word, word, word};
    const size_t units = (copy->row_bytes + 15) / 16, blocks = (units + WIDE - 1) / WIDE;
    const ferry_grid grid = {.blocks = {(uint32_t)ferryi_min_size(blocks, BLOCKS_MOST),
                                        (uint32_t)ferryi_min_size(copy->rows, BLOCKS_MOST), 1},
                             .threads = {WIDE, 1, 1}};
    const struct ferryi_launch launch = {
        .function = function, .grid = &grid, .arguments = arguments, .bytes = bytes, .count = 6};
    return ferryi_opencl_launch(&opencl->base, &launch, stream);
}

void
ferryi_opencl_rows_close(struct ferryi_opencl_device *opencl)
{
    ferryi_mutex_is_needless(&opencl->mutex);
    if (opencl->rows_module)
        (void)ferryi_opencl_code_unload(&opencl->base, opencl->rows_module);
}
