/* SPDX-License-Identifier: MIT */
#include "programs_by_hand.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* The function of a loop. It is not inlined, because gcc would join the loops of successive gates
 * of a quantum computer, which no library of kernels can do. */
#if defined(__GNUC__)
#define LOOP __attribute__((noinline)) static
#else
#define LOOP static
#endif

#ifdef BENCH_OPENMP
#define NAME(name)   openmp_##name
#define OMP(clauses) _Pragma(#clauses)
#else
#define NAME(name) plain_##name
#define OMP(clauses)
#endif

/* -- gases ------------------------------------------------------------------------------------- */

static uint64_t
random_bits(uint64_t number)
{
    uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

/* Returns the last line at or below a wavelength, but not the last one of the table. */
static const struct gases_line *
find_line(const struct gases_line *table, size_t count, double wavelength)
{
    size_t low = 0, high = count - 1;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].wavelength <= wavelength)
            low = middle;
        else
            high = middle;
    }
    return &table[low];
}

static void
trace_ray(const struct gases_job *job, size_t ray, double *absorbed, double *scattered)
{
    double wavelength = (double)(random_bits(2 * ray) >> 11) / 9007199254740992.0;
    size_t mixture = random_bits(2 * ray + 1) % job->mixtures;
    for (int k = job->starts[mixture]; k < job->starts[mixture + 1]; k++) {
        const struct gases_line *table = job->lines + (size_t)job->members[k] * job->lines_of_each;
        const struct gases_line *low = find_line(table, job->lines_of_each, wavelength);
        const struct gases_line *high = low + 1;
        double part = (wavelength - low->wavelength) / (high->wavelength - low->wavelength);
        *absorbed += job->amounts[k] * (low->absorbed + part * (high->absorbed - low->absorbed));
        *scattered +=
            job->amounts[k] * (low->scattered + part * (high->scattered - low->scattered));
    }
}

void
NAME(gases)(void *user)
{
    struct gases_job *job = user;
    double sum = 0, most = -INFINITY;
    uint64_t dark = 0;
    OMP(omp parallel for reduction(+ : sum, dark) reduction(max : most))
    for (size_t ray = 0; ray < job->rays; ray++) {
        double absorbed = 0, scattered = 0;
        trace_ray(job, ray, &absorbed, &scattered);
        sum += absorbed;
        most = scattered > most ? scattered : most;
        dark += absorbed > scattered;
    }
    job->absorbed = sum;
    job->most_scattered = most;
    job->dark = dark;
}

/* -- gradients --------------------------------------------------------------------------------- */

/* r = p = b, x = 0. Returns r r. */
LOOP double
start(struct gradients_job *job)
{
    double rr = 0;
    OMP(omp parallel for reduction(+ : rr))
    for (size_t i = 0; i < job->rows; i++) {
        job->x[i] = 0;
        job->r[i] = job->p[i] = job->b[i];
        rr += job->r[i] * job->r[i];
    }
    return rr;
}

/* w = A p. Returns p w. */
LOOP double
multiply(struct gradients_job *job)
{
    double pw = 0;
    OMP(omp parallel for reduction(+ : pw))
    for (size_t i = 0; i < job->rows; i++) {
        double sum = 0;
        for (int64_t k = job->starts[i]; k < job->starts[i + 1]; k++)
            sum += job->values[k] * job->p[job->columns[k]];
        job->w[i] = sum;
        pw += job->p[i] * sum;
    }
    return pw;
}

/* x += alpha p, r -= alpha w. Returns r r. */
LOOP double
advance(struct gradients_job *job, double alpha)
{
    double rr = 0;
    OMP(omp parallel for reduction(+ : rr))
    for (size_t i = 0; i < job->rows; i++) {
        job->x[i] += alpha * job->p[i];
        job->r[i] -= alpha * job->w[i];
        rr += job->r[i] * job->r[i];
    }
    return rr;
}

void
NAME(gradients)(void *user)
{
    struct gradients_job *job = user;
    double rr = start(job);
    for (int iteration = 0; iteration < PROGRAM_ITERATIONS; iteration++) {
        double left = advance(job, rr / multiply(job)), beta = left / rr;
        OMP(omp parallel for)
        for (size_t i = 0; i < job->rows; i++)
            job->p[i] = job->r[i] + beta * job->p[i];
        rr = left;
    }
    job->rr = rr;
}

/* -- strips ------------------------------------------------------------------------------------ */

static double
flow(const double *heat, const double *conducts, size_t here, size_t there)
{
    return fmin(conducts[here], conducts[there]) * (heat[there] - heat[here]);
}

void
NAME(strips)(void *user)
{
    struct strips_job *job = user;
    const double *heat = job->heat, *conducts = job->conducts;
    size_t columns = job->columns;
    OMP(omp parallel for)
    for (size_t row = 1; row < job->rows - 1; row++) {
        for (size_t i = row * columns + 1; i + 1 < (row + 1) * columns; i++) {
            double up = flow(heat, conducts, i, i - columns);
            double down = flow(heat, conducts, i, i + columns);
            double left = flow(heat, conducts, i, i - 1), right = flow(heat, conducts, i, i + 1);
            job->next[i] = heat[i] + PROGRAM_RATE * ((up + down) + (left + right));
        }
    }
    double *spare = job->heat;
    job->heat = job->next;
    job->next = spare;
}

/* -- particles --------------------------------------------------------------------------------- */

/* Adds what the particles of one box do to a particle. */
static void
add_box(const struct particles_point *here, const struct particles_point *near, size_t each,
        struct particles_point *sum)
{
    for (size_t k = 0; k < each; k++) {
        double dx = here->x - near[k].x, dy = here->y - near[k].y, dz = here->z - near[k].z;
        double square = (dx * dx + dy * dy) + (dz * dz + 0.01);
        double potential = near[k].value / sqrt(square);
        double strength = here->value * potential / square;
        sum->x += strength * dx;
        sum->y += strength * dy;
        sum->z += strength * dz;
        sum->value += potential;
    }
}

static void
add_forces(struct particles_job *job, size_t box)
{
    size_t side = job->side, each = job->each;
    size_t x = box % side, y = box / side % side, z = box / (side * side);
    const struct particles_point *here = job->particles + box * each;
    struct particles_point *sums = job->forces + box * each;
    memset(sums, 0, each * sizeof(*sums));
    for (size_t nz = z > 0 ? z - 1 : 0; nz <= z + 1 && nz < side; nz++)
        for (size_t ny = y > 0 ? y - 1 : 0; ny <= y + 1 && ny < side; ny++)
            for (size_t nx = x > 0 ? x - 1 : 0; nx <= x + 1 && nx < side; nx++)
                for (size_t i = 0; i < each; i++)
                    add_box(&here[i], job->particles + ((nz * side + ny) * side + nx) * each, each,
                            &sums[i]);
}

void
NAME(particles)(void *user)
{
    struct particles_job *job = user;
    OMP(omp parallel for)
    for (size_t box = 0; box < job->side * job->side * job->side; box++)
        add_forces(job, box);
}

/* -- graph ------------------------------------------------------------------------------------- */

/* Gives the neighbours of the front their level, unless they have a lower one. Threads that reach
 * the same vertex write the same level. */
LOOP void
reach(struct graph_job *job, int level)
{
    OMP(omp parallel for)
    for (size_t i = 0; i < job->vertices; i++) {
        if (!job->front[i])
            continue;
        for (int64_t k = job->starts[i]; k < job->starts[i + 1]; k++) {
            int *there = &job->levels[job->targets[k]], known;
            OMP(omp atomic read)
            known = *there;
            if (known <= level)
                continue;
            OMP(omp atomic write)
            *there = level;
        }
    }
}

void
NAME(graph)(void *user)
{
    struct graph_job *job = user;
    uint64_t members;
    OMP(omp parallel for)
    for (size_t i = 0; i < job->vertices; i++)
        job->levels[i] = i == 0 ? 0 : PROGRAM_UNREACHED;
    job->steps = 0;
    do {
        int level = job->steps++;
        if (level > 0)
            reach(job, level);
        members = 0;
        OMP(omp parallel for reduction(+ : members))
        for (size_t i = 0; i < job->vertices; i++) {
            job->front[i] = job->levels[i] == level;
            members += job->levels[i] == level;
        }
    } while (members > 0);
}

#ifndef BENCH_OPENMP
void
plain_queue(void *user)
{
    struct graph_job *job = user;
    size_t end = 1;
    for (size_t i = 0; i < job->vertices; i++)
        job->levels[i] = PROGRAM_UNREACHED;
    job->queue[0] = job->levels[0] = 0;
    for (size_t next = 0; next < end; next++) {
        int from = job->queue[next];
        for (int64_t k = job->starts[from]; k < job->starts[from + 1]; k++) {
            int to = job->targets[k];
            if (job->levels[to] != PROGRAM_UNREACHED)
                continue;
            job->levels[to] = job->levels[from] + 1;
            job->queue[end++] = to;
        }
    }
    job->steps = job->levels[job->queue[end - 1]] + 2; /* the last one finds no vertex */
}
#endif

/* -- qubits ------------------------------------------------------------------------------------ */

/* Returns the lower index of a pair of amplitudes that differ in a bit. */
static size_t
low_index(size_t pair, size_t bit)
{
    return 2 * pair - (pair & (bit - 1));
}

LOOP void
mix(ferry_complex_double *amplitudes, size_t states, size_t bit)
{
    const double root = 0.70710678118654752;
    OMP(omp parallel for)
    for (size_t pair = 0; pair < states / 2; pair++) {
        size_t low = low_index(pair, bit), high = low + bit;
        ferry_complex_double a = amplitudes[low], b = amplitudes[high];
        amplitudes[low].real = root * (a.real + b.real);
        amplitudes[low].imaginary = root * (a.imaginary + b.imaginary);
        amplitudes[high].real = root * (a.real - b.real);
        amplitudes[high].imaginary = root * (a.imaginary - b.imaginary);
    }
}

LOOP void
turn(ferry_complex_double *amplitudes, size_t states, size_t mask, double angle)
{
    const double real = cos(angle), imaginary = sin(angle);
    OMP(omp parallel for)
    for (size_t i = 0; i < states; i++) {
        if ((i & mask) != mask)
            continue;
        ferry_complex_double a = amplitudes[i];
        amplitudes[i].real = a.real * real - a.imaginary * imaginary;
        amplitudes[i].imaginary = a.real * imaginary + a.imaginary * real;
    }
}

LOOP void
swap(ferry_complex_double *amplitudes, size_t states, size_t first, size_t second)
{
    OMP(omp parallel for)
    for (size_t pair = 0; pair < states / 2; pair++) {
        size_t here = low_index(pair, first) + first, there = here - first + second;
        if ((here & second) != 0)
            continue;
        ferry_complex_double kept = amplitudes[here];
        amplitudes[here] = amplitudes[there];
        amplitudes[there] = kept;
    }
}

LOOP double
chance(const ferry_complex_double *amplitudes, size_t states, size_t bit)
{
    double sum = 0;
    OMP(omp parallel for reduction(+ : sum))
    for (size_t i = 0; i < states; i++) {
        const ferry_complex_double *a = &amplitudes[i];
        if ((i & bit) != 0)
            sum += a->real * a->real + a->imaginary * a->imaginary;
    }
    return sum;
}

void
NAME(qubits)(void *user)
{
    struct qubits_job *job = user;
    ferry_complex_double *amplitudes = job->amplitudes;
    for (int target = job->qubits - 1; target >= 0; target--) {
        mix(amplitudes, job->states, (size_t)1 << target);
        for (int control = target - 1; control >= 0; control--)
            turn(amplitudes, job->states, (size_t)1 << control | (size_t)1 << target,
                 PI / (double)((size_t)1 << (target - control)));
    }
    for (int low = 0, high = job->qubits - 1; low < high; low++, high--)
        swap(amplitudes, job->states, (size_t)1 << low, (size_t)1 << high);
    for (int qubit = 0; qubit < job->qubits; qubit++)
        job->chances[qubit] = chance(amplitudes, job->states, (size_t)1 << qubit);
}

/* -- sharpen ----------------------------------------------------------------------------------- */

/* Returns the nearest whole number from 0 to 255. Half a pixel rounds to the even one. */
static unsigned char
round_pixel(float value)
{
    float inside = value < 0 ? 0 : value > 255 ? 255 : value;
    return (unsigned char)lrintf(inside);
}

static void
sharpen_row(struct sharpen_job *job, size_t row)
{
    size_t columns = job->columns;
    const float *here = job->now + row * columns;
    const float *above = row == 0 ? here : here - columns;
    const float *below = row + 1 == job->rows ? here : here + columns;
    for (size_t column = 0; column < columns; column++) {
        float left = here[column == 0 ? 0 : column - 1];
        float right = here[column + 1 == columns ? column : column + 1];
        float mean = 0.25f * (above[column] + below[column] + left + right);
        job->next[row * columns + column] = here[column] + PROGRAM_AMOUNT * (here[column] - mean);
    }
}

void
NAME(sharpen)(void *user)
{
    struct sharpen_job *job = user;
    size_t pixels = job->rows * job->columns;
    int most = 0;
    uint64_t squares = 0;
    OMP(omp parallel for)
    for (size_t i = 0; i < pixels; i++)
        job->now[i] = job->before[i];
    OMP(omp parallel for)
    for (size_t row = 0; row < job->rows; row++)
        sharpen_row(job, row);
    OMP(omp parallel for reduction(+ : squares) reduction(max : most))
    for (size_t i = 0; i < pixels; i++) {
        job->after[i] = round_pixel(job->next[i]);
        int change = (int)job->after[i] - (int)job->before[i];
        most = change > most ? change : -change > most ? -change : most;
        squares += (uint64_t)(change * change);
    }
    job->most = most;
    job->squares = squares;
}
