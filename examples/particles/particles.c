/* SPDX-License-Identifier: MIT */

/*
 * particles: charged particles in a cube of boxes. Those of a box and of the boxes around it act on each particle.
 *
 * The kernel is written by hand, because its blocks of threads use shared memory: its text for CUDA is the file forces.cu, which
 * `ferry-gen embed` makes a string of C, and its host function is plain C on all processors (forces.c).
 *
 * particles [SIDE [EACH]]    SIDE^3 boxes of EACH particles
 *
 * The program compares all forces with those of plain C, bit by bit. FERRY_DEVICE selects the device.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "../traffic.h"
#include "forces.h"

enum { MOST_SIDE = 40, MOST_EACH = 1024 };

struct cube {
    struct boxes boxes;
    size_t count; /* of all particles */
    struct particles_point *particles, *expected, *found;
};

/* -- plain C --------------------------------------------------------------------------------------- */

static double
random_part(uint64_t number)
{
    number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return (double)(number >> 11) / 9007199254740992.0;
}

static bool
create_cube(size_t side, size_t each, struct cube *out)
{
    size_t count = side * side * side * each;
    *out = (struct cube){.boxes = {.side = side, .each = each}, .count = count, .particles = malloc(count * sizeof(*out->particles)),
                         .expected = malloc(count * sizeof(*out->expected)), .found = malloc(count * sizeof(*out->found))};
    if (!out->particles || !out->expected || !out->found)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t box = i / each, row = box / side, plane = row / side;
        out->particles[i] = (struct particles_point){.x = (double)(box % side) + random_part(4 * i),
                                                     .y = (double)(row % side) + random_part(4 * i + 1),
                                                     .z = (double)plane + random_part(4 * i + 2),
                                                     .value = random_part(4 * i + 3) - 0.5};
    }
    return true;
}

static void
free_cube(struct cube *cube)
{
    free(cube->particles);
    free(cube->expected);
    free(cube->found);
}

static bool
is_near(size_t one, size_t other)
{
    return one <= other + 1 && other <= one + 1;
}

/* What acts on one particle, by the particles of all boxes in their order. */
static struct particles_point
find_force(const struct cube *cube, size_t me)
{
    size_t side = cube->boxes.side, each = cube->boxes.each, mine = me / each;
    const struct particles_point *here = &cube->particles[me];
    struct particles_point sum = {0, 0, 0, 0};
    for (size_t box = 0; box < side * side * side; box++) {
        if (!is_near(box % side, mine % side) || !is_near(box / side % side, mine / side % side) ||
            !is_near(box / (side * side), mine / (side * side)))
            continue;
        for (const struct particles_point *other = cube->particles + box * each; other < cube->particles + (box + 1) * each; other++) {
            double dx = here->x - other->x, dy = here->y - other->y, dz = here->z - other->z;
            double square = (dx * dx + dy * dy) + (dz * dz + 0.01), potential = other->value / sqrt(square);
            double strength = here->value * potential / square;
            sum.x += strength * dx;
            sum.y += strength * dy;
            sum.z += strength * dz;
            sum.value += potential;
        }
    }
    return sum;
}

/* -- with Ferry ------------------------------------------------------------------------------------ */

static ferry_status
find_forces(ferry_context *context, ferry_kernel *kernel, struct cube *cube)
{
    particles_point_buffer particles = {0}, forces = {0};
    ferry_status status;
    FERRY_TRY(status, fail, particles_point_create_from(context, cube->count, cube->particles, NULL, &particles));
    FERRY_TRY(status, fail, particles_point_create(context, cube->count, NULL, &forces));
    FERRY_TRY(status, fail, forces_launch(kernel, &cube->boxes, ferry_context_stream(context, 1), particles, forces));
    status = particles_point_copy_to(forces, 0, cube->count, cube->found, NULL);
fail:
    particles_point_destroy(&forces);
    particles_point_destroy(&particles);
    return status;
}

/* -- the program ----------------------------------------------------------------------------------- */

static bool
is_exact(struct cube *cube)
{
    for (size_t i = 0; i < cube->count; i++)
        cube->expected[i] = find_force(cube, i);
    bool exact = memcmp(cube->found, cube->expected, cube->count * sizeof(*cube->found)) == 0;
    printf("%zu boxes of %zu particles; the first one has the potential %.6f: %s\n", cube->count / cube->boxes.each, cube->boxes.each,
           cube->found[0].value, exact ? "exact" : "WRONG");
    return exact;
}

static bool
parse(int argc, char **argv, size_t *side, size_t *each)
{
    char *end = "";
    *side = argc > 1 ? strtoul(argv[1], &end, 10) : 6;
    bool good = !*end;
    *each = argc > 2 ? strtoul(argv[2], &end, 10) : 100;
    return good && !*end && argc <= 3 && *side >= 1 && *side <= MOST_SIDE && *each >= 1 && *each <= MOST_EACH;
}

int
main(int argc, char **argv)
{
    ferry_context *context = NULL;
    ferry_kernel *kernel = NULL;
    ferry_parameter parameters[FORCES_PARAMETER_COUNT];
    const ferry_kernel_source source = forces_kernel_source(parameters);
    struct cube cube;
    size_t side, each;
    bool good = false;
    ferry_status status;
    if (!parse(argc, argv, &side, &each)) {
        fprintf(stderr, "usage: particles [SIDE [EACH]], a side of 1 to %d boxes with 1 to %d particles each\n", MOST_SIDE, MOST_EACH);
        return 2;
    }
    if (!create_cube(side, each, &cube)) {
        free_cube(&cube);
        fputs("particles: no memory for the particles\n", stderr);
        return EXIT_FAILURE;
    }
    FERRY_TRY(status, done, ferry_context_create(NULL, &context));
    FERRY_TRY(status, done, ferry_kernel_create(context, &source, &kernel));
    FERRY_TRY(status, done, find_forces(context, kernel, &cube));
    good = is_exact(&cube);
    good = traffic_is_minimal(context, cube.count * sizeof(*cube.particles), cube.count * sizeof(*cube.found)) && good;
done:
    if (status != FERRY_OK)
        fprintf(stderr, "particles: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    free_cube(&cube);
    ferry_kernel_destroy(&kernel);
    ferry_context_destroy(&context);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
