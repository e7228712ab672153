/* SPDX-License-Identifier: MIT */
#include "scramble.h"

#include <ferry/uint32.h>

static const char cuda_source[] =
    "extern \"C\" __global__ void\n"
    "scramble(unsigned int *numbers, size_t first, size_t count)\n"
    "{\n"
    "    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
    "    if (i < count)\n"
    "        numbers[i] = (numbers[i] ^ (unsigned int)(first + i)) * 2654435761u;\n"
    "}\n";

/* The order of the arguments, as in the text above. */
enum { NUMBERS, FIRST, COUNT };

uint32_t
scramble(uint32_t number, uint64_t index)
{
    return (number ^ (uint32_t)index) * 2654435761u;
}

static ferry_status
scramble_on_host(const ferry_call *call, void *user)
{
    uint32_t *numbers = ferry_uint32_call_array(call, NUMBERS, NULL);
    size_t first = ferry_call_size(call, FIRST), count = ferry_call_size(call, COUNT);
    (void)user;
    for (size_t i = 0; i < count; i++)
        numbers[i] = scramble(numbers[i], first + i);
    return FERRY_OK;
}

static const ferry_kernel_code codes[] = {{.kind = FERRY_CODE_CUDA, .code = cuda_source}};

ferry_kernel_source
scramble_kernel_source(ferry_parameter parameters[SCRAMBLE_PARAMETER_COUNT])
{
    parameters[NUMBERS] = (ferry_parameter){.element = ferry_uint32_element(), .access = FERRY_UPDATE};
    parameters[FIRST] = parameters[COUNT] = (ferry_parameter){.element = ferry_size_element()};
    return (ferry_kernel_source){
        .name = "scramble",
        .codes = codes,
        .code_count = 1,
        .host_function = scramble_on_host,
        .parameters = parameters,
        .parameter_count = SCRAMBLE_PARAMETER_COUNT,
    };
}

ferry_status
scramble_launch(ferry_kernel *kernel, const ferry_file_chunk *chunk)
{
    ferry_uint32_buffer numbers;
    ferry_status status = ferry_uint32_from_raw(chunk->buffer, &numbers);
    if (status != FERRY_OK)
        return status;
    const ferry_argument arguments[SCRAMBLE_PARAMETER_COUNT] = {
        [NUMBERS] = ferry_uint32_argument(numbers),
        [FIRST] = ferry_size_value((size_t)chunk->offset),
        [COUNT] = ferry_size_value(chunk->count),
    };
    return ferry_kernel_launch(kernel, ferry_grid_for(chunk->count, 256), chunk->stream, arguments, SCRAMBLE_PARAMETER_COUNT);
}
