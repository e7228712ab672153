/* SPDX-License-Identifier: MIT */

/*
 * Measures conversions between arrays in host memory. Each conversion is compared with a memcpy()
 * that reads and writes the same number of bytes in the same round. The arrays are in the
 * second-level cache or in memory. The conversion loops are the fastest ones for this processor, or
 * the portable ones.
 *
 * If OpenCV is installed, it converts the same arrays in the same rounds. If NumPy is installed, it
 * converts in a separate process, which also measures memcpy(). The last part measures copies to a
 * device that convert the elements on the way. They are compared with an upload of the unconverted
 * array that is followed by a conversion on the device.
 */

#include "bench.h"
#include "convert_copy.h"
#include "opencv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/bfloat16.h>
#include <ferry/byte.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

#include "src/convert/kernels.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { NAMED_PAIRS = 12, ROUNDS_LIMIT = 21 };

struct pair {
    enum ferryi_number from, to;
    const ferry_element *(*from_element)(void), *(*to_element)(void);
};

#define PAIR(from, to)                                                                             \
    {                                                                                              \
        ferryi_number_##from, ferryi_number_##to, ferry_##from##_element, ferry_##to##_element     \
    }
static const struct pair pairs[] = {
    PAIR(float, double),
    PAIR(float, int),
    PAIR(float, byte),
    PAIR(double, float),
    PAIR(double, int),
    PAIR(double, byte),
    PAIR(int, float),
    PAIR(int, double),
    PAIR(int, byte),
    PAIR(byte, float),
    PAIR(byte, double),
    PAIR(byte, int),
    /* pairs without a goal */
    PAIR(float, half),
    PAIR(half, float),
    PAIR(float, bfloat16),
    PAIR(bfloat16, float),
    PAIR(double, half),
    PAIR(float, int16),
    PAIR(int16, float),
    PAIR(double, int64),
    PAIR(int64, double),
    PAIR(float, uint32),
    PAIR(uint32, float),
    PAIR(uint64, double),
    PAIR(int64, int),
};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

/* One measurement: the table of conversion loops that it uses, the size of its arrays, and its
 * goals. */
struct setting {
    const char *name;
    ferryi_convert_table *table;
    size_t bytes; /* bytes read plus bytes written */
    size_t rounds;
    size_t repeats;              /* number of conversions in a round */
    double pair_goal, mean_goal; /* goals for the ratio to memcpy(); 0: no goal */
    double opencv_goal;
};

struct arrays {
    unsigned char *source, *target;
};

static void
fill(const struct pair *pair, void *array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value = (double)(i * 7919 % 100003) * 0.0078125 - 200;
        const size_t width = pair->from_element()->bytes;
        if (pair->from == ferryi_number_float)
            ((float *)array)[i] = (float)value;
        else if (pair->from == ferryi_number_double)
            ((double *)array)[i] = value;
        else if (width ==
                 2) /* as half, bfloat16 or int16, each such value is a small positive number */
            ((uint16_t *)array)[i] = (uint16_t)(0x3c00 + i % 1000);
        else
            memset((char *)array + i * width, (int)(i % 251), width);
    }
}

static double
time_conversion(const struct setting *setting, const struct pair *pair, const struct arrays *arrays,
                size_t count)
{
    double begun = bench_now_ns();
    for (size_t repeat = 0; repeat < setting->repeats; repeat++)
        ferryi_convert_array((*setting->table)[pair->from][pair->to].nearest, arrays->target,
                             pair->to_element()->bytes, arrays->source, pair->from_element()->bytes,
                             count);
    return bench_now_ns() - begun;
}

static double
time_memcpy(const struct setting *setting, const struct arrays *arrays, size_t bytes)
{
    double begun = bench_now_ns();
    for (size_t repeat = 0; repeat < setting->repeats; repeat++) {
        memcpy(arrays->target, arrays->source, bytes);
        __asm__ volatile("" : : "r"(arrays->target) : "memory");
    }
    return bench_now_ns() - begun;
}

/* -- a simple copy loop for comparison --------------------------------------------------------- */

/* Defines a copy loop with the widest loads and stores of the processor, which the conversions use
 * as well. memcpy() may use different instructions. */
#define COPY_LOOP(name, width, attributes)                                                         \
    attributes static void name(unsigned char *target, const unsigned char *source, size_t bytes)  \
    {                                                                                              \
        typedef unsigned char vector __attribute__((vector_size(width), aligned(1)));              \
        for (size_t at = 0; at + 4 * (width) <= bytes; at += 4 * (width)) {                        \
            const vector *from = (const vector *)(source + at);                                    \
            vector *to = (vector *)(target + at), a = from[0], b = from[1], c = from[2],           \
                   d = from[3];                                                                    \
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;                                            \
            __asm__ volatile("" : : : "memory"); /* keeps the compiler from calling memcpy() */    \
        }                                                                                          \
    }

typedef void copy_loop(unsigned char *target, const unsigned char *source, size_t bytes);

COPY_LOOP(copy_by_16, 16, )
#ifdef __x86_64__
COPY_LOOP(copy_by_32, 32, __attribute__((target("avx2"))))
COPY_LOOP(copy_by_64, 64, __attribute__((target("avx512f"))))
#endif

static copy_loop *
widest_copy_loop(void)
{
    copy_loop *widest = copy_by_16;
#ifdef __x86_64__
    for (const struct ferryi_convert_set *set = ferryi_convert_sets(); set->table; set++)
        if (strcmp(set->name, "avx2") == 0)
            widest = copy_by_32;
        else if (strcmp(set->name, "avx512") == 0)
            widest = copy_by_64;
#endif
    return widest;
}

static double
time_copy_loop(const struct setting *setting, const struct arrays *arrays, size_t bytes,
               copy_loop *copy)
{
    double begun = bench_now_ns();
    for (size_t repeat = 0; repeat < setting->repeats; repeat++)
        copy(arrays->target, arrays->source, bytes);
    return bench_now_ns() - begun;
}

/* Compares a simple copy loop with memcpy(). The speed of this loop is an upper bound for the speed
 * of the conversions. */
static void
measure_copy_loop(struct bench_report *report, const struct setting *setting,
                  const struct arrays *arrays)
{
    double times[ROUNDS_LIMIT], peer_times[ROUNDS_LIMIT];
    copy_loop *copy = widest_copy_loop();
    double bytes = (double)(setting->bytes * setting->repeats);
    char name[64];
    for (size_t round = 0; round <= setting->rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        times[index] = time_copy_loop(setting, arrays, setting->bytes / 2, copy);
        peer_times[index] = time_memcpy(setting, arrays, setting->bytes / 2);
    }
    snprintf(name, sizeof(name), "%s/copy_loop", setting->name);
    const struct bench_record record = {.case_name = name,
                                        .metric = "read+written",
                                        .unit = "GB/s",
                                        .value = bytes / bench_median(times, setting->rounds),
                                        .peer = "memcpy",
                                        .peer_value =
                                            bytes / bench_median(peer_times, setting->rounds)};
    bench_report_add(report, &record);
}

/* -- pairs ------------------------------------------------------------------------------------- */

/* Converts with OpenCV. Returns the time in nanoseconds, or 0 if OpenCV cannot convert between the
 * two types of `pair`. */
static double
time_opencv(const struct setting *setting, const struct pair *pair, const struct arrays *arrays,
            size_t count)
{
#ifdef BENCH_OPENCV
    const char *to = pair->to_element()->name, *from = pair->from_element()->name;
    double begun = bench_now_ns();
    for (size_t repeat = 0; repeat < setting->repeats; repeat++)
        if (!bench_opencv_convert(to, arrays->target, from, arrays->source, count))
            return 0;
    return bench_now_ns() - begun;
#else
    (void)setting, (void)pair, (void)arrays, (void)count;
    return 0;
#endif
}

/* Ratios of Ferry's speed to the speeds of memcpy() and OpenCV for one pair of types. `opencv` is 0
 * if OpenCV did not convert the pair. */
struct ratios {
    double memcpy, opencv;
};

static struct ratios
measure_pair(struct bench_report *report, const struct setting *setting, const struct pair *pair,
             const struct arrays *arrays, bool has_goal)
{
    double times[ROUNDS_LIMIT], peer_times[ROUNDS_LIMIT], opencv_times[ROUNDS_LIMIT];
    size_t width = pair->from_element()->bytes + pair->to_element()->bytes;
    size_t count = setting->bytes / width;
    double bytes = (double)(count * width * setting->repeats);
    char name[64];

    fill(pair, arrays->source, count);
    for (size_t round = 0; round <= setting->rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        times[index] = time_conversion(setting, pair, arrays, count);
        peer_times[index] = time_memcpy(setting, arrays, count * width / 2);
        opencv_times[index] = time_opencv(setting, pair, arrays, count);
    }
    snprintf(name, sizeof(name), "%s/%s_to_%s", setting->name, pair->from_element()->name,
             pair->to_element()->name);
    struct bench_record record = {
        .case_name = name, .metric = "read+written", .unit = "GB/s", .peer = "memcpy"};
    record.value = bytes / bench_median(times, setting->rounds);
    record.peer_value = bytes / bench_median(peer_times, setting->rounds);
    if (has_goal && setting->pair_goal > 0)
        record.goal = (struct bench_goal){BENCH_AT_LEAST, setting->pair_goal};
    bench_report_add(report, &record);
    struct ratios ratios = {.memcpy = record.value / record.peer_value};
    if (opencv_times[0] > 0) {
        record.peer = "OpenCV convertTo";
        record.peer_value = bytes / bench_median(opencv_times, setting->rounds);
        record.goal = (struct bench_goal){BENCH_NO_GOAL, 0};
        ratios.opencv = record.value / record.peer_value;
        bench_report_add(report, &record);
    }
    return ratios;
}

static void
add_mean(struct bench_report *report, const struct setting *setting, const char *unit, double sum,
         double goal)
{
    char name[64];
    snprintf(name, sizeof(name), "%s/first %d", setting->name, NAMED_PAIRS);
    struct bench_record record = {
        .case_name = name, .metric = "geomean", .unit = unit, .value = exp(sum / NAMED_PAIRS)};
    if (goal > 0)
        record.goal = (struct bench_goal){BENCH_AT_LEAST, goal};
    bench_report_add(report, &record);
}

/* Compares Ferry's conversions with those of NumPy, which run in a different process. Each rate is
 * divided by the rate of memcpy() in the same process. */
static void
compare_numpy(struct bench_report *report, const struct setting *setting, const double *ours)
{
#ifdef BENCH_NUMPY
    char line[512], from[32], to[32];
    double ratio;
    snprintf(line, sizeof(line), BENCH_NUMPY " %zu %zu %zu", setting->bytes, setting->rounds,
             setting->repeats);
    FILE *numpy = popen(line, "r");
    for (size_t i = 0; numpy && fgets(line, sizeof(line), numpy);) {
        if (sscanf(line, "%31s %31s %lf", from, to, &ratio) != 3)
            continue;
        for (i = 0; i < NAMED_PAIRS && (strcmp(pairs[i].from_element()->name, from) != 0 ||
                                        strcmp(pairs[i].to_element()->name, to) != 0);)
            i++;
        snprintf(line, sizeof(line), "%s/%s_to_%s", setting->name, from, to);
        const struct bench_record record = {.case_name = line,
                                            .metric = "read+written",
                                            .unit = "x memcpy",
                                            .value = ours[i % NAMED_PAIRS],
                                            .peer = "NumPy astype",
                                            .peer_value = ratio};
        bench_report_add(report, &record);
    }
    if (numpy)
        pclose(numpy);
#else
    (void)report, (void)setting, (void)ours;
#endif
}

static void
measure(struct bench_report *report, const struct setting *setting, const struct arrays *arrays)
{
    double sum = 0, opencv_sum = 0, ours[NAMED_PAIRS];
    bool opencv = true;
    for (size_t i = 0; i < PAIRS; i++) {
        struct ratios ratios = measure_pair(report, setting, &pairs[i], arrays, i < NAMED_PAIRS);
        if (i >= NAMED_PAIRS)
            continue;
        ours[i] = ratios.memcpy;
        sum += log(ratios.memcpy);
        opencv = opencv && ratios.opencv > 0;
        opencv_sum += opencv ? log(ratios.opencv) : 0;
    }
    add_mean(report, setting, "x memcpy", sum, setting->mean_goal);
    if (opencv)
        add_mean(report, setting, "x OpenCV", opencv_sum, setting->opencv_goal);
    if (setting->table == ferryi_convert_table_here())
        compare_numpy(report, setting, ours);
}

static void
measure_all(struct bench_report *report, const struct arrays *arrays, size_t large_bytes,
            bool quick)
{
    const size_t rounds = quick ? 1 : ROUNDS_LIMIT, large_rounds = quick ? 1 : 5,
                 repeats = quick ? 1 : 50;
    struct setting settings[] = {
        {"L2/baseline", &ferryi_convert_table_baseline, 256 * KIB, rounds, repeats, 0, 0.35, 0},
        {"L2", ferryi_convert_table_here(), 256 * KIB, rounds, repeats, 0.60, 0.80, 1.05},
        {"memory", ferryi_convert_table_here(), large_bytes, large_rounds, 1, 0, 0.95, 0},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        measure(report, &settings[i], arrays);
        if (settings[i].table == ferryi_convert_table_here())
            measure_copy_loop(report, &settings[i], arrays);
    }
}

/* Allocates two arrays of `bytes` bytes, aligned like the memory of buffers. Writes both arrays
 * once, so that page faults are not measured. */
static bool
arrays_create(struct arrays *arrays, size_t bytes)
{
    *arrays = (struct arrays){aligned_alloc(256, bytes), aligned_alloc(256, bytes)};
    if (!arrays->source || !arrays->target) {
        fprintf(stderr, "bench: no memory for 2 arrays of %zu bytes\n", bytes);
        return false;
    }
    memset(arrays->source, 1, bytes);
    memset(arrays->target, 1, bytes);
    return true;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    struct arrays arrays = {0};
    size_t bytes = quick ? 4 * MIB : 256 * MIB;
    (void)context;
    bool ok = arrays_create(&arrays, bytes);
    if (ok) {
        measure_all(report, &arrays, bytes, quick);
        ok = bench_convert_copy(report, quick);
    }
    free(arrays.source);
    free(arrays.target);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "convert", MIB, run);
}
