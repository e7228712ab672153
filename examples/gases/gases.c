/* SPDX-License-Identifier: MIT */

/*
 * gases: sends rays of light through mixtures of gases, and adds up what they absorb.
 *
 * Each ray looks its wavelength up in the tables of all gases of a mixture: a binary search in an array of structs, and
 * an interpolation. The rays are no array, so the launch takes their count. The tables go up once. The sum, the maximum
 * and the count of dark rays are results of the same launch, and only they come down.
 *
 * gases [LINES [RAYS]]    each gas has a table of LINES lines
 *
 * The program compares the results with those of plain C. FERRY_DEVICE selects the device.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/double.h>
#include <ferry/ferry.h>
#include <ferry/int.h>

#include "../traffic.h"
#include "gases_kernels.h"

enum { GASES = 40, MIXTURES = 12, MEMBERS = 8 * MIXTURES };

struct tables {
    size_t lines_of_each;
    struct gases_line *lines;  /* of all gases, each by ascending wavelength from 0 to 1 */
    int starts[MIXTURES + 1];  /* of the members of each mixture */
    int members[MEMBERS];      /* gases */
    double amounts[MEMBERS];
};

static uint64_t
random_bits(uint64_t number)
{
    uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

/* A number in [0, 1). */
static double
random_part(uint64_t number)
{
    return (double)(random_bits(number) >> 11) / 9007199254740992.0;
}

static bool
create_tables(size_t lines_of_each, struct tables *out)
{
    size_t count = GASES * lines_of_each;
    *out = (struct tables){.lines_of_each = lines_of_each, .lines = malloc(count * sizeof(struct gases_line))};
    if (!out->lines)
        return false;
    for (size_t i = 0; i < count; i++) {
        /* The first line of a gas is at 0 and the last one at 1. Those between are not evenly apart. */
        double place = (double)(i % lines_of_each) / (double)(lines_of_each - 1);
        out->lines[i] = (struct gases_line){.wavelength = place * (0.5 + 0.5 * place), .absorbed = random_part(2 * i),
                                            .scattered = random_part(2 * i + 1)};
    }
    for (int mixture = 0; mixture <= MIXTURES; mixture++)
        out->starts[mixture] = mixture * (mixture + 1) * MEMBERS / (MIXTURES * (MIXTURES + 1)); /* of growing size */
    for (int k = 0; k < MEMBERS; k++) {
        out->members[k] = (int)(random_bits((uint64_t)k) % GASES);
        out->amounts[k] = random_part((uint64_t)k);
    }
    return true;
}

/* -- plain C --------------------------------------------------------------------------------------- */

/* The last line at or below a wavelength, but not the last of the table. */
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
trace_in_plain_c(const struct tables *tables, size_t rays, gases_trace_results *out)
{
    *out = (gases_trace_results){.most_scattered = -INFINITY};
    for (size_t ray = 0; ray < rays; ray++) {
        double wavelength = random_part(2 * ray), absorbed = 0, scattered = 0;
        size_t mixture = random_bits(2 * ray + 1) % MIXTURES;
        for (int k = tables->starts[mixture]; k < tables->starts[mixture + 1]; k++) {
            const struct gases_line *table = tables->lines + (size_t)tables->members[k] * tables->lines_of_each;
            const struct gases_line *low = find_line(table, tables->lines_of_each, wavelength), *high = low + 1;
            double part = (wavelength - low->wavelength) / (high->wavelength - low->wavelength);
            absorbed += tables->amounts[k] * (low->absorbed + part * (high->absorbed - low->absorbed));
            scattered += tables->amounts[k] * (low->scattered + part * (high->scattered - low->scattered));
        }
        out->absorbed_by_all += absorbed;
        out->most_scattered = fmax(out->most_scattered, scattered);
        out->dark += absorbed > scattered;
    }
}

/* -- with Ferry ------------------------------------------------------------------------------------ */

static ferry_status
trace(ferry_context *context, const gases_kernels *kernels, const struct tables *tables, size_t rays, gases_trace_results *out)
{
    gases_line_buffer lines = {0};
    ferry_int_buffer starts = {0}, members = {0};
    ferry_double_buffer amounts = {0};
    ferry_status status;
    FERRY_TRY(status, fail, gases_line_create_from(context, GASES * tables->lines_of_each, tables->lines, NULL, &lines));
    FERRY_TRY(status, fail, ferry_int_create_from(context, MIXTURES + 1, tables->starts, NULL, &starts));
    FERRY_TRY(status, fail, ferry_int_create_from(context, MEMBERS, tables->members, NULL, &members));
    FERRY_TRY(status, fail, ferry_double_create_from(context, MEMBERS, tables->amounts, NULL, &amounts));
    FERRY_TRY(status, fail, gases_trace(kernels, rays, ferry_context_stream(context, 1), tables->lines_of_each, lines, starts,
                                        members, amounts, out));
fail:
    ferry_double_destroy(&amounts);
    ferry_int_destroy(&members);
    ferry_int_destroy(&starts);
    gases_line_destroy(&lines);
    return status;
}

/* -- the program ----------------------------------------------------------------------------------- */

/* A sum of many rays depends on their order, and differs in the last digits. */
static bool
agrees(const gases_trace_results *found, const gases_trace_results *expected, size_t rays)
{
    bool good = found->dark == expected->dark &&
                fabs(found->most_scattered - expected->most_scattered) <= 1e-12 * expected->most_scattered &&
                fabs(found->absorbed_by_all - expected->absorbed_by_all) <= (1e-12 + 0x1p-52 * (double)rays) * expected->absorbed_by_all;
    printf("%zu rays, %llu of them dark, %.6f absorbed on average: %s\n", rays, (unsigned long long)found->dark,
           found->absorbed_by_all / (double)rays, good ? "as in plain C" : "WRONG");
    return good;
}

int
main(int argc, char **argv)
{
    unsigned long lines = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, rays = argc > 2 ? strtoul(argv[2], NULL, 10) : 50000;
    struct tables tables = {.lines = NULL};
    gases_trace_results found = {0}, expected;
    ferry_context *context = NULL;
    gases_kernels kernels = {0};
    bool good = false;
    ferry_status status;
    if (argc > 3 || lines < 2 || lines > 10000000 || rays < 1) {
        fputs("usage: gases [LINES [RAYS]], from 2 to 10000000 lines\n", stderr);
        return 2;
    }
    if (!create_tables(lines, &tables)) {
        fputs("gases: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
    FERRY_TRY(status, fail, ferry_context_create(NULL, &context));
    FERRY_TRY(status, fail, gases_kernels_create(context, &kernels));
    FERRY_TRY(status, fail, trace(context, &kernels, &tables, rays, &found));
    good = traffic_is_minimal(context,
                              GASES * lines * sizeof(struct gases_line) + sizeof(tables.starts) + sizeof(tables.members) +
                                  sizeof(tables.amounts),
                              2 * sizeof(double) + sizeof(uint64_t));
    trace_in_plain_c(&tables, rays, &expected);
    good = agrees(&found, &expected, rays) && good;
fail:
    if (status != FERRY_OK)
        fprintf(stderr, "gases: %s (%s)\n", ferry_last_error(), ferry_status_name(status));
    gases_kernels_destroy(&kernels);
    ferry_context_destroy(&context);
    free(tables.lines);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
