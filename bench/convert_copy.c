/* SPDX-License-Identifier: MIT */
#include "convert_copy.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/double.h>
#include <ferry/double_convert.h>
#include <ferry/float.h>
#include <ferry/float_convert.h>

#define MIB ((size_t)1 << 20)

enum { ROUNDS_LIMIT = 7 };

/*
 * Emulated links, with the bandwidths of real ones in one direction: PCIe 3 x2 (an external box),
 * x4 (a shared slot) and x16. A processor copies for an emulated device at about the rate of PCIe 3
 * x16. With x16 the processor therefore limits the copy, and the ratio has no goal.
 */
static const struct link {
    const char *name;
    size_t bytes_per_second;
    double goal;
} links[] = {{"copy at 2 GB/s", 2000000000, 1.8},
             {"copy at 3.5 GB/s", 3500000000, 1.8},
             {"copy at 12.5 GB/s", 12500000000, 0}};

/* The link of a GPU. A bandwidth of 0 means that the benchmark does not limit the link. */
static const struct link real_link = {"copy", 0, 1.8};

/* One buffer of float and one of double, and host arrays with the same values. */
struct world {
    ferry_context *context;
    ferry_float_buffer narrow;
    ferry_double_buffer wide;
    double *doubles;
    float *floats;
    size_t count;
};

static bool
bring_to_device(struct world *world)
{
    ferry_scope scopes[2] = {{0}, {0}};
    float *floats;
    double *doubles;
    ferry_stream *stream = ferry_context_stream(world->context, 1);
    return ferry_float_overwrite_device(world->narrow, stream, &scopes[0], &floats) == FERRY_OK &&
           ferry_scope_close(&scopes[0]) == FERRY_OK &&
           ferry_double_overwrite_device(world->wide, stream, &scopes[1], &doubles) == FERRY_OK &&
           ferry_scope_close(&scopes[1]) == FERRY_OK;
}

static bool
world_open(struct world *world, const char *devices, const struct link *link, size_t count)
{
    char tuning[96];
    snprintf(tuning, sizeof(tuning), "emulated.bandwidth=%llu emulated.memory=%zu",
             (unsigned long long)link->bytes_per_second, count * 32 + 64 * MIB);
    const ferry_context_options options = {.devices = devices, .tuning = tuning};
    *world = (struct world){.count = count,
                            .doubles = malloc(count * sizeof(double)),
                            .floats = malloc(count * sizeof(float))};
    if (!world->doubles || !world->floats) {
        fputs("bench: no memory for the arrays of converting copies\n", stderr);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        world->doubles[i] = (double)i / 3;
    memset(world->floats, 0, count * sizeof(float));
    return (ferry_context_create(&options, &world->context) == FERRY_OK &&
            ferry_float_create(world->context, count, NULL, &world->narrow) == FERRY_OK &&
            ferry_double_create(world->context, count, NULL, &world->wide) == FERRY_OK &&
            bring_to_device(world)) ||
           bench_failed("making buffers for converting copies");
}

static void
world_close(struct world *world)
{
    ferry_float_destroy(&world->narrow);
    ferry_double_destroy(&world->wide);
    ferry_context_destroy(&world->context);
    free(world->doubles);
    free(world->floats);
}

/* -- what is timed: each function returns after the elements have reached their target --------- */

static bool
arrived(struct world *world, ferry_status status)
{
    return status == FERRY_OK && ferry_float_wait_idle(world->narrow, 1) == FERRY_OK &&
           ferry_double_wait_idle(world->wide, 1) == FERRY_OK;
}

static bool
up(struct world *world)
{
    return arrived(world,
                   ferry_float_copy_from_double(world->narrow, 0, world->count, world->doubles,
                                                FERRY_CONVERT_SATURATE, NULL));
}

static bool
up_in_two(struct world *world)
{
    ferry_status status =
        ferry_double_copy_from(world->wide, 0, world->count, world->doubles, NULL);
    if (status == FERRY_OK)
        status = ferry_float_convert_from_double(world->narrow, 0, world->wide, 0, world->count,
                                                 FERRY_CONVERT_SATURATE, NULL);
    return arrived(world, status);
}

static bool
down(struct world *world)
{
    return arrived(world, ferry_double_copy_to_float(world->wide, 0, world->count, world->floats,
                                                     FERRY_CONVERT_SATURATE, NULL));
}

static bool
down_in_two(struct world *world)
{
    ferry_status status = ferry_double_copy_to(world->wide, 0, world->count, world->doubles, NULL);
    if (status == FERRY_OK)
        status = ferry_convert_double_to_float(world->floats, world->doubles, world->count,
                                               FERRY_CONVERT_SATURATE);
    return status == FERRY_OK;
}

static bool
measure(struct bench_report *report, struct world *world, const struct link *link, bool upload,
        size_t rounds)
{
    bool (*ours)(struct world *) = upload ? up : down,
                              (*theirs)(struct world *) = upload ? up_in_two : down_in_two;
    double times[ROUNDS_LIMIT], peer_times[ROUNDS_LIMIT];
    double bytes = (double)(world->count * sizeof(float));
    char name[64];
    snprintf(name, sizeof(name), "%s/%s double_to_float", link->name,
             upload ? "upload" : "download");
    for (size_t round = 0; round <= rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        double begun = bench_now_ns();
        if (!ours(world))
            return bench_failed(name);
        double turned = bench_now_ns();
        if (!theirs(world))
            return bench_failed(name);
        times[index] = turned - begun;
        peer_times[index] = bench_now_ns() - turned;
    }
    const struct bench_record record = {
        .case_name = name,
        .metric = "destination bytes",
        .unit = "GB/s",
        .value = bytes / bench_median(times, rounds),
        .peer = upload ? "upload, then convert" : "download, then convert",
        .peer_value = bytes / bench_median(peer_times, rounds),
        .goal = {upload && link->goal > 0 ? BENCH_AT_LEAST : BENCH_NO_GOAL, link->goal}};
    bench_report_add(report, &record);
    return true;
}

static bool
measure_link(struct bench_report *report, const char *devices, const struct link *link, bool quick)
{
    const size_t count = (quick ? 1 : 16) * MIB, rounds = quick ? 1 : ROUNDS_LIMIT;
    struct world world;
    bool ok = world_open(&world, devices, link, count) &&
              measure(report, &world, link, true, rounds) &&
              measure(report, &world, link, false, rounds);
    world_close(&world);
    return ok;
}

bool
bench_convert_copy(struct bench_report *report, bool quick)
{
    const char *wished = getenv("FERRY_DEVICE");
    if (wished && strncmp(wished, "cuda", 4) == 0)
        return measure_link(report, wished, &real_link, quick);
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(links) / sizeof(links[0]); i++)
        ok = measure_link(report, "emulated", &links[i], quick);
    return ok;
}
