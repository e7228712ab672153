/* SPDX-License-Identifier: MIT */
#include "pen.h"

#include <math.h>

#define ROWS   3
#define WIDTH  12.0f  /* of a line, in cells */
#define HEIGHT 150.0f /* of a line in full light, in the unit of the heights */

struct pen_cells
pen_at(size_t rows, size_t columns, size_t step, size_t steps)
{
    size_t count = rows < ROWS ? rows : ROWS;
    size_t first = steps > 1 ? step * (rows - count) / (steps - 1) : 0;
    return (struct pen_cells){first * columns, count * columns};
}

void
pen_draw(struct pen_cells cells, size_t columns, size_t step, size_t steps, const float *shades, float *heights)
{
    float turn = 6.2831853f * (float)step / (float)steps;
    float middle = (float)columns * (0.5f + 0.3f * sinf(2.0f * turn));
    for (size_t i = 0; i < cells.count; i++) {
        float away = ((float)(i % columns) - middle) / WIDTH;
        if (away > -1.0f && away < 1.0f)
            heights[i] += HEIGHT * (1.0f - away * away) * (0.5f + shades[i] / 510.0f);
    }
}
