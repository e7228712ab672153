/* SPDX-License-Identifier: MIT */
#include "spread.h"

#include <string.h>

/* Computes the mean of the four neighbours. No operation can be fused, so all devices compute the same bits. */
static void
spread_row(const float *above, const float *here, const float *below, float *next, size_t columns)
{
    next[0] = here[0];
    for (size_t column = 1; column + 1 < columns; column++)
        next[column] = 0.25f * ((above[column] + below[column]) + (here[column - 1] + here[column + 1]));
    next[columns - 1] = here[columns - 1];
}

void
spread(const float *now, size_t from, float *next, size_t first, size_t count, size_t rows, size_t columns)
{
    for (size_t row = first; row < first + count; row++, next += columns) {
        const float *here = now + (row - from) * columns;
        if (row == 0 || row + 1 == rows)
            memcpy(next, here, columns * sizeof(float));
        else
            spread_row(here - columns, here, here + columns, next, columns);
    }
}

static const char cuda_source[] =
    "extern \"C\" __global__ void\n"
    "spread(const float *now, float *next, size_t from, size_t first, size_t count, size_t rows, size_t columns)\n"
    "{\n"
    "    size_t cell = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
    "    if (cell >= count * columns)\n"
    "        return;\n"
    "    size_t row = first + cell / columns, column = cell % columns;\n"
    "    const float *here = now + (row - from) * columns + column;\n"
    "    bool edge = row == 0 || row + 1 == rows || column == 0 || column + 1 == columns;\n"
    "    next[cell] = edge ? *here : 0.25f * ((here[-(long long)columns] + here[columns]) + (here[-1] + here[1]));\n"
    "}\n";

/* The order of the arguments, as in the text above. */
enum { NOW, NEXT, FROM, FIRST, COUNT, ROWS, COLUMNS };

static ferry_status
spread_on_host(const ferry_call *call, void *user)
{
    (void)user;
    spread(ferry_float_call_array(call, NOW, NULL), ferry_call_size(call, FROM), ferry_float_call_array(call, NEXT, NULL),
           ferry_call_size(call, FIRST), ferry_call_size(call, COUNT), ferry_call_size(call, ROWS), ferry_call_size(call, COLUMNS));
    return FERRY_OK;
}

ferry_kernel_source
spread_kernel_source(ferry_parameter parameters[SPREAD_PARAMETER_COUNT])
{
    for (int i = 0; i < SPREAD_PARAMETER_COUNT; i++)
        parameters[i] = (ferry_parameter){.element = ferry_size_element()};
    parameters[NOW] = (ferry_parameter){.element = ferry_float_element(), .access = FERRY_READ};
    parameters[NEXT] = (ferry_parameter){.element = ferry_float_element(), .access = FERRY_OVERWRITE};
    return (ferry_kernel_source){
        .name = "spread",
        .cuda_source = cuda_source,
        .host_function = spread_on_host,
        .parameters = parameters,
        .parameter_count = SPREAD_PARAMETER_COUNT,
    };
}

ferry_status
spread_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_float_buffer now, ferry_float_buffer next, size_t first, size_t end,
              size_t rows, size_t columns)
{
    size_t from = first > 0 ? first - 1 : 0, to = end < rows ? end + 1 : rows;
    const ferry_argument arguments[SPREAD_PARAMETER_COUNT] = {
        [NOW] = ferry_float_argument_range(now, from * columns, (to - from) * columns),
        [NEXT] = ferry_float_argument_range(next, first * columns, (end - first) * columns),
        [FROM] = ferry_size_value(from),
        [FIRST] = ferry_size_value(first),
        [COUNT] = ferry_size_value(end - first),
        [ROWS] = ferry_size_value(rows),
        [COLUMNS] = ferry_size_value(columns),
    };
    return ferry_kernel_launch(kernel, stream, ferry_grid_for((end - first) * columns, 256), arguments, SPREAD_PARAMETER_COUNT);
}
