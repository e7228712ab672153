/* SPDX-License-Identifier: MIT */

/*
 * Measures one batch of many small copies. The ranges are not adjacent, so the library cannot join
 * two copies.
 *
 * On a CUDA device the batch is compared with a loop over the driver's asynchronous copy function.
 * The program measures pageable memory and page-locked memory there. On other devices the batch is
 * compared with the same copies as single calls.
 *
 * At the end the program measures an emulated device that adds a latency to each copy, as a real
 * link does. There the batch is also compared with single calls.
 */

#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/byte.h>

#include "src/device/cuda/cuda.h"
#include "src/device/cuda/cuda_abi.h"
#include "src/device/gpu/gpu_driver.h"

#define PAGE ((size_t)4096)

enum { ROUNDS_LIMIT = 9 };

struct setting {
    size_t ranges, bytes, stride;
    unsigned char *memory;
    ferry_context *context;
    /* Functions of the CUDA driver; NULL if the device is not a CUDA device. */
    const struct ferryi_gpu_driver *driver;
    bool pinned;
    ferry_byte_buffer buffer;
    /* The lists of regions are filled only once, because a program that repeats its copies can also
     * reuse its lists. */
    ferry_copy_region *in, *out;
};

static size_t
place_of(const struct setting *setting, size_t i)
{
    return i * 1021 % setting->ranges *
           setting->stride; /* 1021 is prime and does not divide `ranges`, so each range is used
                               once. Consecutive copies never use adjacent ranges. */
}

/* Returns the functions of the CUDA driver, or NULL if the device is not a CUDA device. */
static const struct ferryi_gpu_driver *
find_driver(ferry_context *context)
{
    const struct ferryi_gpu_driver *driver;
    ferry_place_info info;
    bool is_cuda =
        ferry_context_get_place_info(context, 1, &info) == FERRY_OK && info.driver_version > 0;
    return is_cuda && ferryi_gpu_driver_get(&ferryi_cuda_vendor, &driver) == FERRY_OK ? driver
                                                                                      : NULL;
}

static bool
make_memory(struct setting *setting, size_t total)
{
    total = (total + PAGE - 1) / PAGE * PAGE;
    setting->memory = aligned_alloc(PAGE, total);
    if (!setting->memory) {
        fprintf(stderr, "bench: no memory for %zu bytes\n", total);
        return false;
    }
    memset(setting->memory, 1, total);
    return !setting->pinned ||
           ferry_context_register_host(setting->context, setting->memory, total) == FERRY_OK ||
           bench_failed("page-locking memory");
}

/* Creates a buffer that is current on the device, so that every copy crosses the link. */
static bool
open_setting(struct setting *setting, ferry_context *context, size_t ranges, size_t bytes,
             bool pinned)
{
    ferry_scope scope;
    unsigned char *unused;
    *setting = (struct setting){.ranges = ranges,
                                .bytes = bytes,
                                .stride = bytes + 64,
                                .context = context,
                                .driver = find_driver(context),
                                .pinned = pinned};
    size_t total = ranges * setting->stride;
    if (!make_memory(setting, total))
        return false;
    setting->in = malloc(ranges * sizeof(*setting->in));
    setting->out = malloc(ranges * sizeof(*setting->out));
    if (!setting->in || !setting->out ||
        ferry_byte_create(context, total, NULL, &setting->buffer) != FERRY_OK ||
        ferry_byte_overwrite_device(setting->buffer, ferry_context_stream(context, 1), &scope,
                                    &unused) != FERRY_OK ||
        ferry_scope_close(&scope) != FERRY_OK)
        return bench_failed("creating the buffer");
    for (size_t i = 0; i < ranges; i++) {
        size_t at = place_of(setting, i);
        setting->in[i] = ferry_byte_region_from(setting->buffer, at, bytes, setting->memory + at);
        setting->out[i] = ferry_byte_region_to(setting->buffer, at, bytes, setting->memory + at);
    }
    return true;
}

static void
close_setting(struct setting *setting)
{
    free(setting->in);
    free(setting->out);
    ferry_byte_destroy(&setting->buffer);
    if (setting->pinned &&
        ferry_context_unregister_host(setting->context, setting->memory) != FERRY_OK)
        bench_failed("unlocking memory");
    free(setting->memory);
}

static bool
copy_batched(struct setting *setting, bool up)
{
    if (ferry_copy(up ? setting->in : setting->out, setting->ranges, NULL) != FERRY_OK)
        return bench_failed("copying a batch");
    return ferry_byte_wait_idle(setting->buffer, 1) == FERRY_OK || bench_failed("waiting");
}

/* Copies all regions in one call. Fills the list of regions before each call. */
static bool
copy_gathered(struct setting *setting, bool up)
{
    ferry_copy_region *batch = up ? setting->in : setting->out;
    for (size_t i = 0; i < setting->ranges; i++) {
        size_t at = place_of(setting, i);
        batch[i] =
            up ? ferry_byte_region_from(setting->buffer, at, setting->bytes, setting->memory + at)
               : ferry_byte_region_to(setting->buffer, at, setting->bytes, setting->memory + at);
    }
    return copy_batched(setting, up);
}

static bool
copy_singly(struct setting *setting, bool up)
{
    for (size_t i = 0; i < setting->ranges; i++) {
        size_t at = place_of(setting, i);
        ferry_status status = up ? ferry_byte_copy_from(setting->buffer, at, setting->bytes,
                                                        setting->memory + at, NULL)
                                 : ferry_byte_copy_to(setting->buffer, at, setting->bytes,
                                                      setting->memory + at, NULL);
        if (status != FERRY_OK)
            return bench_failed("copying one range");
    }
    return ferry_byte_wait_idle(setting->buffer, 1) == FERRY_OK || bench_failed("waiting");
}

/* Calls the driver's asynchronous copy function once for each range, then waits once for all
 * copies. */
static bool
copy_in_a_loop(const struct setting *setting, unsigned char *device, ferryi_gpu_stream stream,
               bool up)
{
    const struct ferryi_gpu_driver *driver = setting->driver;
    ferryi_gpu_result result = FERRYI_GPU_SUCCESS;
    for (size_t i = 0; i < setting->ranges && result == FERRYI_GPU_SUCCESS; i++) {
        size_t at = place_of(setting, i);
        ferryi_gpu_pointer there = (ferryi_gpu_pointer)(uintptr_t)(device + at);
        result = up ? driver->upload(there, setting->memory + at, setting->bytes, stream)
                    : driver->download(setting->memory + at, there, setting->bytes, stream);
    }
    return result == FERRYI_GPU_SUCCESS && driver->stream_synchronize(stream) == FERRYI_GPU_SUCCESS;
}

static bool
copy_by_driver(struct setting *setting, bool up)
{
    ferry_stream *stream = ferry_context_stream(setting->context, 1);
    ferryi_gpu_context context;
    ferry_scope scope;
    unsigned char *device;
    if (ferry_byte_update_device(setting->buffer, stream, &scope, &device) != FERRY_OK)
        return bench_failed("opening a scope");
    bool ok = setting->driver->context_retain(&context, 0) == FERRYI_GPU_SUCCESS &&
              setting->driver->context_push(context) == FERRYI_GPU_SUCCESS;
    ok = ok && copy_in_a_loop(setting, device, ferry_stream_native(stream), up);
    ok = ok && setting->driver->context_pop(&context) == FERRYI_GPU_SUCCESS &&
         setting->driver->context_release(0) == FERRYI_GPU_SUCCESS;
    if (!ok)
        fputs("bench: the driver failed to copy\n", stderr);
    return (ferry_scope_close(&scope) == FERRY_OK || bench_failed("closing a scope")) && ok;
}

static bool
copy_as_peer(struct setting *setting, bool up)
{
    return setting->driver ? copy_by_driver(setting, up) : copy_singly(setting, up);
}

static bool
take_time(bool (*copy)(struct setting *setting, bool up), struct setting *setting, bool up,
          double *out)
{
    double begun = bench_now_ns();
    bool ok = copy(setting, up);
    *out = bench_now_ns() - begun;
    return ok;
}

static void
add_rate(struct bench_report *report, const char *name, const char *metric,
         const struct setting *setting, double *times, double *peer_times, size_t rounds,
         struct bench_goal goal)
{
    double bytes = (double)(setting->ranges * setting->bytes);
    const struct bench_record record = {.case_name = name,
                                        .metric = metric,
                                        .unit = "GB/s",
                                        .value = bytes / bench_median(times, rounds),
                                        .peer = setting->driver ? "driver loop" : "one by one",
                                        .peer_value = bytes / bench_median(peer_times, rounds),
                                        .goal = goal};
    bench_report_add(report, &record);
}

static bool
measure(struct bench_report *report, struct setting *setting, const char *suffix, bool up,
        size_t rounds, struct bench_goal goal)
{
    double batched[ROUNDS_LIMIT], gathered[ROUNDS_LIMIT], singly[ROUNDS_LIMIT];
    char name[96];
    snprintf(name, sizeof(name), "%zux%zuB/%s%s%s", setting->ranges, setting->bytes,
             up ? "upload" : "download", setting->pinned ? "/pinned" : "", suffix);
    for (size_t round = 0; round <= rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        if (!take_time(copy_batched, setting, up, &batched[index]) ||
            !take_time(copy_gathered, setting, up, &gathered[index]) ||
            !take_time(copy_as_peer, setting, up, &singly[index]))
            return false;
    }
    add_rate(report, name, "submit", setting, batched, singly, rounds, goal);
    add_rate(report, name, "gather_and_submit", setting, gathered, singly, rounds, goal);
    return true;
}

static bool
measure_all(struct bench_report *report, ferry_context *context, const char *suffix, bool pinned,
            bool quick)
{
    static const struct {
        size_t ranges, bytes;
        bool has_goal;
    } cases[] = {{4096, 4096, true}, {4096, 256, false}, {64, 4096, false}};
    bool ok = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && ok; i++) {
        struct setting setting;
        const struct bench_goal goal = {cases[i].has_goal ? BENCH_AT_LEAST : BENCH_NO_GOAL, 5.0};
        ok = open_setting(&setting, context, quick ? 64 : cases[i].ranges, cases[i].bytes, pinned);
        for (int up = 1; up >= 0 && ok; up--)
            ok = measure(report, &setting, suffix, up, quick ? 1 : ROUNDS_LIMIT, goal);
        close_setting(&setting);
    }
    return ok;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct bench_report report;
    const ferry_context_options far_away = {.devices = "emulated",
                                            .tuning = "emulated.latency=10us"};
    ferry_context *slow = NULL;
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;

    ferry_context *context = bench_context((size_t)64 << 20);
    bool ok = context && bench_report_open(&report, "batch", &options, context);
    if (ok) {
        ok = measure_all(&report, context, "", false, options.quick);
        if (ok && find_driver(context))
            ok = measure_all(&report, context, "", true, options.quick);
        if (ok && ferry_context_create(&far_away, &slow) != FERRY_OK)
            ok = bench_failed("opening an emulated device with latency");
        ok = ok && measure_all(&report, slow, "/emulated_10us", false, options.quick);
        ok = bench_report_close(&report) && ok;
    }
    ferry_context_destroy(&slow);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
