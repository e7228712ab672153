/* SPDX-License-Identifier: MIT */

/* A kernel that is written by hand: its text for CUDA is in forces.cu, and its host function is here. */

#include "forces.h"

#include <math.h>

#include "forces_cu.h"

/* The order of the arguments, as in the text for CUDA. */
enum { PARTICLES, SIDE, EACH, FORCES };

struct work {
    struct boxes boxes;
    const struct particles_point *particles;
    struct particles_point *forces;
};

/* Adds what the particles of one box do to a particle. */
static void
add_box(const struct particles_point *here, const struct particles_point *near, size_t each, struct particles_point *sum)
{
    for (size_t k = 0; k < each; k++) {
        const double dx = here->x - near[k].x, dy = here->y - near[k].y, dz = here->z - near[k].z;
        const double square = (dx * dx + dy * dy) + (dz * dz + 0.01);
        const double potential = near[k].value / sqrt(square), strength = here->value * potential / square;
        sum->x += strength * dx;
        sum->y += strength * dy;
        sum->z += strength * dz;
        sum->value += potential;
    }
}

/* A neighbour stays in the cache while all particles of the box meet it, as it stays in the shared memory of a GPU. */
static ferry_status
run_boxes(size_t first, size_t count, void *user)
{
    const struct work *work = user;
    size_t side = work->boxes.side, each = work->boxes.each;
    for (size_t box = first; box < first + count; box++) {
        size_t x = box % side, y = box / side % side, z = box / (side * side);
        struct particles_point *sums = work->forces + box * each;
        for (size_t i = 0; i < each; i++)
            sums[i] = (struct particles_point){0, 0, 0, 0};
        for (size_t nz = z > 0 ? z - 1 : 0; nz <= z + 1 && nz < side; nz++)
            for (size_t ny = y > 0 ? y - 1 : 0; ny <= y + 1 && ny < side; ny++)
                for (size_t nx = x > 0 ? x - 1 : 0; nx <= x + 1 && nx < side; nx++)
                    for (size_t i = 0; i < each; i++)
                        add_box(&work->particles[box * each + i], work->particles + ((nz * side + ny) * side + nx) * each, each, &sums[i]);
    }
    return FERRY_OK;
}

static ferry_status
forces_on_host(const ferry_call *call, void *user)
{
    struct work work = {.boxes = {.side = ferry_call_size(call, SIDE), .each = ferry_call_size(call, EACH)},
                        .particles = particles_point_call_array(call, PARTICLES, NULL),
                        .forces = particles_point_call_array(call, FORCES, NULL)};
    (void)user;
    return ferry_call_parallel(call, work.boxes.side * work.boxes.side * work.boxes.side, 1, run_boxes, &work);
}

static const ferry_kernel_code codes[] = {{.kind = FERRY_CODE_CUDA, .flags = FERRY_CODE_EXACT, .code = forces_cu}};

ferry_kernel_source
forces_kernel_source(ferry_parameter parameters[FORCES_PARAMETER_COUNT])
{
    parameters[PARTICLES] = (ferry_parameter){.element = particles_point_element(), .access = FERRY_READ, .name = "particles"};
    parameters[SIDE] = parameters[EACH] = (ferry_parameter){.element = ferry_size_element()};
    parameters[FORCES] = (ferry_parameter){.element = particles_point_element(), .access = FERRY_OVERWRITE, .name = "forces"};
    return (ferry_kernel_source){
        .name = "particles_forces",
        .codes = codes,
        .code_count = 1,
        .host_function = forces_on_host,
        .parameters = parameters,
        .parameter_count = FORCES_PARAMETER_COUNT,
    };
}

ferry_status
forces_launch(ferry_kernel *kernel, const struct boxes *boxes, ferry_stream *stream, particles_point_buffer particles,
              particles_point_buffer forces)
{
    const ferry_argument arguments[FORCES_PARAMETER_COUNT] = {
        [PARTICLES] = particles_point_argument(particles),
        [SIDE] = ferry_size_value(boxes->side),
        [EACH] = ferry_size_value(boxes->each),
        [FORCES] = particles_point_argument(forces),
    };
    const ferry_grid grid = {.blocks = {(uint32_t)(boxes->side * boxes->side * boxes->side)},
                             .threads = {(uint32_t)boxes->each},
                             .shared_bytes = (uint32_t)(boxes->each * sizeof(struct particles_point))};
    return ferry_kernel_launch(kernel, grid, stream, arguments, FORCES_PARAMETER_COUNT);
}
