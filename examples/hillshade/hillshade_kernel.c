/* SPDX-License-Identifier: MIT */

/*
 * Hill shading for GPUs and for the host.
 *
 * The slope at a cell is Horn's gradient, a weighted difference of its eight neighbours. Outside the
 * grid the nearest edge cell is used. Brightness is the cosine of the angle between the ground's normal
 * and the light.
 */

#include "hillshade_kernel.h"

#include <math.h>

/*
 * The function for one cell is written once. It is compiled here as C, and inserted into the CUDA source
 * as text. It computes differences before sums, because heights are large and their differences small.
 */
#define SHADE_CELL                                                                                                     \
    static inline float shade_cell(const float *above, const float *here, const float *below, size_t west,             \
                                   size_t middle, size_t east, float scale_east, float scale_north, float light_east,  \
                                   float light_north, float light_up)                                                  \
    {                                                                                                                  \
        float rise_east =                                                                                              \
            ((above[east] - above[west]) + (below[east] - below[west])) + 2.0f * (here[east] - here[west]);            \
        float rise_north =                                                                                             \
            ((above[west] - below[west]) + (above[east] - below[east])) + 2.0f * (above[middle] - below[middle]);      \
        rise_east *= scale_east;                                                                                       \
        rise_north *= scale_north;                                                                                     \
        float facing = light_up - rise_east * light_east - rise_north * light_north;                                   \
        float shade = 255.0f * facing / sqrtf(1.0f + rise_east * rise_east + rise_north * rise_north);                 \
        return shade > 0.0f ? shade : 0.0f; /* the dark side, and heights that are not numbers */                      \
    }

#define TEXT(...)          #__VA_ARGS__
#define EXPANDED_TEXT(...) TEXT(__VA_ARGS__)

SHADE_CELL

/* One thread a cell. */
static const char cuda_source[] =
    "__device__ " EXPANDED_TEXT(SHADE_CELL) "\n"
    "extern \"C\" __global__ void\n"
    "hillshade(const float *height, float *shade, size_t rows, size_t columns, float azimuth, float altitude,\n"
    "          float scale_east, float scale_north)\n"
    "{\n"
    "    size_t cell = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
    "    if (cell >= rows * columns)\n"
    "        return;\n"
    "    size_t row = cell / columns, column = cell % columns;\n"
    "    const float *here = height + row * columns;\n"
    "    const float *above = row > 0 ? here - columns : here;\n"
    "    const float *below = row + 1 < rows ? here + columns : here;\n"
    "    size_t west = column > 0 ? column - 1 : column;\n"
    "    size_t east = column + 1 < columns ? column + 1 : column;\n"
    "    float flat = cosf(altitude);\n"
    "    shade[cell] = shade_cell(above, here, below, west, column, east, scale_east, scale_north,\n"
    "                             flat * sinf(azimuth), flat * cosf(azimuth), sinf(altitude));\n"
    "}\n";

/* The order of the arguments, as in the text above. */
enum { HEIGHT, SHADE, ROWS, COLUMNS, AZIMUTH, ALTITUDE, SCALE_EAST, SCALE_NORTH };

static ferry_status
shade_on_host(const ferry_call *call, void *user)
{
    (void)user;
    const float *height = ferry_float_call_array(call, HEIGHT, NULL);
    float *shade = ferry_float_call_array(call, SHADE, NULL);
    size_t rows = ferry_call_size(call, ROWS), columns = ferry_call_size(call, COLUMNS);
    float azimuth = ferry_float_call_value(call, AZIMUTH), altitude = ferry_float_call_value(call, ALTITUDE);
    float scale_east = ferry_float_call_value(call, SCALE_EAST),
          scale_north = ferry_float_call_value(call, SCALE_NORTH);
    float light_east = cosf(altitude) * sinf(azimuth), light_north = cosf(altitude) * cosf(azimuth);
    float light_up = sinf(altitude);

    for (size_t row = 0; row < rows; row++) {
        const float *here = height + row * columns;
        const float *above = row > 0 ? here - columns : here;
        const float *below = row + 1 < rows ? here + columns : here;
        for (size_t column = 0; column < columns; column++) {
            size_t west = column > 0 ? column - 1 : column;
            size_t east = column + 1 < columns ? column + 1 : column;
            *shade++ = shade_cell(above, here, below, west, column, east, scale_east, scale_north, light_east,
                                  light_north, light_up);
        }
    }
    return FERRY_OK;
}

ferry_kernel_source
hillshade_kernel_source(ferry_parameter parameters[HILLSHADE_PARAMETER_COUNT])
{
    const ferry_element *real = ferry_float_element(), *size = ferry_size_element();

    parameters[HEIGHT] = (ferry_parameter){.element = real, .access = FERRY_READ};
    parameters[SHADE] = (ferry_parameter){.element = real, .access = FERRY_OVERWRITE};
    parameters[ROWS] = parameters[COLUMNS] = (ferry_parameter){.element = size};
    parameters[AZIMUTH] = parameters[ALTITUDE] = (ferry_parameter){.element = real};
    parameters[SCALE_EAST] = parameters[SCALE_NORTH] = (ferry_parameter){.element = real};
    return (ferry_kernel_source){
        .name = "hillshade",
        .cuda_source = cuda_source,
        .host_function = shade_on_host,
        .parameters = parameters,
        .parameter_count = HILLSHADE_PARAMETER_COUNT,
    };
}

ferry_status
hillshade_launch(ferry_kernel *kernel, ferry_stream *stream, ferry_float_buffer height, ferry_float_buffer shade,
                 size_t rows, size_t columns, struct hillshade_light light)
{
    const ferry_argument arguments[HILLSHADE_PARAMETER_COUNT] = {
        [HEIGHT] = ferry_float_argument(height),
        [SHADE] = ferry_float_argument(shade),
        [ROWS] = ferry_size_value(rows),
        [COLUMNS] = ferry_size_value(columns),
        [AZIMUTH] = ferry_float_value(light.azimuth),
        [ALTITUDE] = ferry_float_value(light.altitude),
        [SCALE_EAST] = ferry_float_value(light.scale_east),
        [SCALE_NORTH] = ferry_float_value(light.scale_north),
    };
    return ferry_kernel_launch(kernel, stream, ferry_grid_for(rows * columns, 256), arguments,
                               HILLSHADE_PARAMETER_COUNT);
}
