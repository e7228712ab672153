/* SPDX-License-Identifier: MIT */

/*
 * The forces on particles in a cube of boxes. A block of threads has one box, and each thread one particle of it. The block
 * copies one neighbour after the other to its shared memory, from which all threads read it.
 */
extern "C" __global__ void
particles_forces(const struct particles_point *particles, size_t side, size_t each, struct particles_point *forces)
{
    extern __shared__ struct particles_point near[];
    const size_t box = blockIdx.x, x = box % side, y = box / side % side, z = box / (side * side);
    const size_t me = box * each + threadIdx.x;
    const struct particles_point here = particles[me];
    struct particles_point sum = {0, 0, 0, 0};

    for (size_t nz = z > 0 ? z - 1 : 0; nz <= z + 1 && nz < side; nz++) {
        for (size_t ny = y > 0 ? y - 1 : 0; ny <= y + 1 && ny < side; ny++) {
            for (size_t nx = x > 0 ? x - 1 : 0; nx <= x + 1 && nx < side; nx++) {
                near[threadIdx.x] = particles[((nz * side + ny) * side + nx) * each + threadIdx.x];
                __syncthreads();
                for (size_t k = 0; k < each; k++) {
                    const double dx = here.x - near[k].x, dy = here.y - near[k].y, dz = here.z - near[k].z;
                    const double square = (dx * dx + dy * dy) + (dz * dz + 0.01);
                    const double potential = near[k].value / sqrt(square), strength = here.value * potential / square;
                    sum.x += strength * dx;
                    sum.y += strength * dy;
                    sum.z += strength * dz;
                    sum.value += potential;
                }
                __syncthreads();
            }
        }
    }
    forces[me] = sum;
}
