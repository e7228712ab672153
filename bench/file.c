/* SPDX-License-Identifier: MIT */

/*
 * Measures file transfers through the device against dd with the same file, block size and state of
 * the page cache. A case reads a file, or copies it to a second file. The time of dd is the time
 * that dd prints, which excludes the start of its process. Ferry and dd either both find the files
 * in the page cache, or both use O_DIRECT. If the file system does not support O_DIRECT, the cases
 * with O_DIRECT are skipped.
 *
 * The time of dd is a lower bound, because dd reads all blocks into the same memory, which stays in
 * a cache. For an emulated device, a processor also copies each byte to the device's memory. If the
 * file is copied, the processor copies each byte back as well.
 *
 * Therefore the benchmark has a second comparison: one thread does all this work without a device.
 * The thread reads a block and copies it to other memory. If there is an output file, it also
 * copies the block back and writes it. The expected ratio to this thread is 0.8 to 1.5. Ferry is
 * faster than the thread if one processor can read while another copies. This requires that cache
 * lines move between the processors fast enough.
 *
 * The cases `load` read the file into a buffer on the device with O_DIRECT, in one call for each
 * range. Their names say whether the bytes passed the staging ring, or went past host memory.
 *
 * The files are created in TMPDIR, or in /var/tmp if TMPDIR is not set, because /var/tmp is usually
 * on a disk. The program removes the files at the end.
 */

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/byte.h>

#define MIB ((size_t)1 << 20)

enum { ROUNDS_LIMIT = 9, SLOTS = 8 };

struct files {
    char folder[256], input[272], output[272];
    size_t bytes;
};

struct way {
    const char *name;
    size_t block;
    bool copies; /* true: the file is copied to a second file; false: the file is only read */
    bool direct;
};

/* -- the files --------------------------------------------------------------------------------- */

static bool
system_failed(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    return false;
}

static bool
files_create(struct files *files, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    snprintf(files->folder, sizeof(files->folder), "%s/ferry-bench-XXXXXX",
             folder && *folder && strlen(folder) < 200 ? folder : "/var/tmp");
    if (!mkdtemp(files->folder)) {
        files->folder[0] = 0;
        return system_failed("make a folder");
    }
    snprintf(files->input, sizeof(files->input), "%s/input", files->folder);
    snprintf(files->output, sizeof(files->output), "%s/output", files->folder);
    files->bytes = bytes;
    FILE *file = fopen(files->input, "wb");
    uint64_t *block = malloc(MIB), number = 1;
    bool ok = file && block;
    for (size_t at = 0; ok && at < bytes; at += MIB) {
        for (size_t i = 0; i < MIB / 8; i++)
            block[i] = number = number * 6364136223846793005u + 1442695040888963407u;
        ok = fwrite(block, MIB, 1, file) == 1;
    }
    free(block);
    ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file)
        fclose(file);
    return ok || system_failed(files->input);
}

static void
files_remove(struct files *files)
{
    if (!files->folder[0])
        return;
    unlink(files->input);
    unlink(files->output);
    rmdir(files->folder);
}

/* -- dd ---------------------------------------------------------------------------------------- */

/* Parses the time from dd's output: the number before " s". An example of this output is "536870912
 * bytes (537 MB, 512 MiB) copied, 0.0612 s, 8.8 GB/s". */
static bool
time_with_dd(const struct files *files, const struct way *way, double *out_ns)
{
    char command[1024], line[256];
    snprintf(command, sizeof(command), "LC_ALL=C dd if='%s' of='%s' bs=%zu conv=notrunc%s%s 2>&1",
             files->input, way->copies ? files->output : "/dev/null", way->block,
             way->direct ? " iflag=direct" : "", way->direct && way->copies ? " oflag=direct" : "");
    FILE *dd = popen(command, "r");
    double seconds = 0;
    if (!dd)
        return system_failed("dd");
    while (fgets(line, sizeof(line), dd)) {
        const char *copied = strstr(line, "copied, ");
        if (copied)
            seconds = strtod(copied + strlen("copied, "), NULL);
    }
    bool ok = pclose(dd) == 0 && seconds > 0;
    *out_ns = seconds * 1e9;
    if (!ok)
        fprintf(stderr, "bench: dd failed: %s", line);
    return ok;
}

/* -- ferry ------------------------------------------------------------------------------------- */

static ferry_status
do_nothing(const ferry_file_chunk *chunk, void *user)
{
    (void)chunk, (void)user;
    return FERRY_OK;
}

static bool
time_with_ferry(ferry_context *context, const struct files *files, const struct way *way,
                double *out_ns, uint64_t *out_direct)
{
    ferry_file_stats stats;
    const ferry_file_pipeline_options options = {
        .input = files->input,
        .output = way->copies ? files->output : NULL,
        .work = do_nothing,
        .stream = ferry_context_stream(context, 1),
        .chunk_bytes = way->block,
        .chunk_count = SLOTS,
        .direct = way->direct,
        .keep_rest = true,
        .stats = &stats,
    };
    if (ferry_file_pipeline(context, &options) != FERRY_OK)
        return bench_failed("streaming a file");
    *out_ns = (double)stats.wall_ns;
    *out_direct = stats.bytes_direct;
    return true;
}

/* -- the same work in one thread, without a device --------------------------------------------- */

struct hand {
    int input, output; /* -1: there is no such file */
    char *block, *device;
    size_t device_bytes;
};

static bool
open_hand(struct hand *hand, const struct files *files, const struct way *way)
{
    int direct = way->direct ? O_DIRECT : 0;
    *hand = (struct hand){.input = open(files->input, O_RDONLY | direct),
                          .output = -1,
                          .device_bytes = SLOTS * way->block};
    if (way->copies)
        hand->output = open(files->output, O_WRONLY | O_CREAT | direct, 0600);
    hand->block = aligned_alloc(4096, way->block);
    hand->device = aligned_alloc(4096, hand->device_bytes);
    if (hand->input < 0 || (way->copies && hand->output < 0) || !hand->block || !hand->device)
        return system_failed("open the files once more");
    memset(hand->block, 0, way->block);
    memset(hand->device, 0, hand->device_bytes);
    return true;
}

static void
close_hand(struct hand *hand)
{
    if (hand->input >= 0)
        close(hand->input);
    if (hand->output >= 0)
        close(hand->output);
    free(hand->block);
    free(hand->device);
}

static bool
pass_block(const struct hand *hand, size_t block, size_t at)
{
    char *there = hand->device + at % hand->device_bytes;
    if (pread(hand->input, hand->block, block, (off_t)at) != (ssize_t)block)
        return false;
    memcpy(there, hand->block, block);
    if (hand->output < 0)
        return true;
    memcpy(hand->block, there, block);
    return pwrite(hand->output, hand->block, block, (off_t)at) == (ssize_t)block;
}

static bool
time_by_hand(const struct files *files, const struct way *way, double *out_ns)
{
    struct hand hand;
    bool ok = open_hand(&hand, files, way);
    double begun = bench_now_ns();
    for (size_t at = 0; ok && at < files->bytes; at += way->block)
        ok = pass_block(&hand, way->block, at) || system_failed("copy by hand");
    *out_ns = bench_now_ns() - begun;
    close_hand(&hand);
    return ok;
}

/* -- the measurement --------------------------------------------------------------------------- */

static bool
measure(struct bench_report *report, ferry_context *context, const struct files *files,
        const struct way *way, size_t rounds)
{
    double ferry[ROUNDS_LIMIT], dd[ROUNDS_LIMIT], hand[ROUNDS_LIMIT];
    char name[64];
    uint64_t direct = 0;
    for (size_t round = 0; round <= rounds; round++) {
        /* Round 0 only warms up: round 1 overwrites the result of round 0. */
        size_t index = round == 0 ? 0 : round - 1;
        if (!time_with_ferry(context, files, way, &ferry[index], &direct) ||
            !time_with_dd(files, way, &dd[index]))
            return false;
        if (way->direct && direct == 0)
            return true; /* the file system does not support O_DIRECT, so this case is skipped */
        if (!time_by_hand(files, way, &hand[index]))
            return false;
    }
    snprintf(name, sizeof(name), "%zuMiB/%s/%zuKiB", files->bytes / MIB, way->name,
             way->block / 1024);
    struct bench_record record = {
        .case_name = name,
        .metric = way->copies ? "copy" : "read",
        .unit = "GB/s",
        .value = (double)files->bytes / bench_median(ferry, rounds),
        .peer = "dd",
        .peer_value = (double)files->bytes / bench_median(dd, rounds),
        .goal = {BENCH_AT_LEAST, 0.9},
    };
    bench_report_add(report, &record);
    record.metric = way->copies ? "copy_twice_too" : "read_and_copy";
    record.peer = "one thread";
    record.peer_value = (double)files->bytes / bench_median(hand, rounds);
    record.goal = (struct bench_goal){BENCH_NO_GOAL, 0};
    bench_report_add(report, &record);
    return true;
}

static bool
measure_all(struct bench_report *report, ferry_context *context, const struct files *files,
            size_t rounds)
{
    static const struct way ways[] = {
        {"cached", MIB / 4, false, false}, {"cached", MIB, false, false},
        {"cached", 4 * MIB, false, false}, {"cached", MIB, true, false},
        {"cached", 4 * MIB, true, false},  {"direct", MIB, false, true},
        {"direct", 4 * MIB, false, true},  {"direct", 4 * MIB, true, true},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (!measure(report, context, files, &ways[i], rounds))
            return false;
    }
    return true;
}

/* -- loads ------------------------------------------------------------------------------------- */

/* Sets `*out_direct` to the number of bytes that did not go through the staging ring. */
static bool
time_load(ferry_context *context, ferry_byte_buffer buffer, const struct files *files,
          double *out_ns, uint64_t *out_direct)
{
    const ferry_copy_options options = {.stream = ferry_context_stream(context, 1),
                                        .file_direct = true};
    const size_t bytes = ferry_byte_count(buffer);
    ferry_transfer_stats stats;
    if (ferry_context_reset_stats(context) != FERRY_OK)
        return bench_failed("resetting the statistics");
    double begun = bench_now_ns();
    for (size_t at = 0; at < files->bytes; at += bytes)
        if (ferry_byte_load(buffer, 0, bytes, files->input, at, &options) != FERRY_OK ||
            ferry_stream_synchronize(options.stream) != FERRY_OK)
            return bench_failed("loading a file");
    *out_ns = bench_now_ns() - begun;
    if (ferry_context_get_transfer_stats(context, &stats) != FERRY_OK)
        return bench_failed("reading the statistics");
    *out_direct = stats.direct.bytes;
    return true;
}

static bool
measure_load(struct bench_report *report, ferry_context *context, const struct files *files,
             size_t rounds)
{
    const struct way way = {"direct", 4 * MIB, false, true};
    double ferry[ROUNDS_LIMIT], dd[ROUNDS_LIMIT];
    uint64_t direct = 0;
    ferry_byte_buffer buffer = {0};
    bool ok = ferry_byte_create(context, way.block, NULL, &buffer) == FERRY_OK ||
              bench_failed("creating a buffer");
    for (size_t round = 0; ok && round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        ok = time_load(context, buffer, files, &ferry[index], &direct) &&
             time_with_dd(files, &way, &dd[index]);
    }
    ferry_byte_destroy(&buffer);
    if (!ok)
        return false;
    char name[64];
    snprintf(name, sizeof(name), "%zuMiB/%s/%zuKiB", files->bytes / MIB,
             direct > 0 ? "storage" : "ring", way.block / 1024);
    struct bench_record record = {.case_name = name,
                                  .metric = "load",
                                  .unit = "GB/s",
                                  .value = (double)files->bytes / bench_median(ferry, rounds),
                                  .peer = "dd",
                                  .peer_value = (double)files->bytes / bench_median(dd, rounds),
                                  .goal = {BENCH_NO_GOAL, 0}};
    bench_report_add(report, &record);
    return true;
}

int
main(int argc, char **argv)
{
    struct bench_options options;
    struct bench_report report;
    struct files files = {.bytes = 0};
    if (!bench_parse(argc, argv, &options))
        return EXIT_FAILURE;
    ferry_context *context = bench_context(64 * MIB);
    bool ok = context && files_create(&files, options.quick ? 4 * MIB : 512 * MIB) &&
              bench_report_open(&report, "file", &options, context);
    if (ok) {
        const size_t rounds = options.quick ? 1 : ROUNDS_LIMIT;
        ok = measure_all(&report, context, &files, rounds) &&
             measure_load(&report, context, &files, rounds);
        ok = bench_report_close(&report) && ok;
    }
    files_remove(&files);
    ferry_context_destroy(&context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
