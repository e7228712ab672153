/* SPDX-License-Identifier: MIT */

/*
 * pipeline: runs a kernel over a file that is larger than the device's memory, and writes the result.
 *
 * ferry_file_pipeline() reads and uploads the next chunk, and downloads and writes the previous one, while
 * the kernel works on the current one. The program creates its input, prints how much the three stages
 * overlapped, checks the output with a plain loop, and removes both files. FERRY_DEVICE selects the
 * device. Without it, the program uses an emulated device of 256 MiB.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/ferry.h>
#include <ferry/uint32.h>

#include "scramble.h"

#define EXIT_USAGE     2
#define EXIT_CANCELLED 130
#define DEVICE_PLACE   1
#define MIB            ((size_t)1 << 20)
#define DEVICE_LIMIT   (256 * MIB)
#define LARGEST        ((uint64_t)1 << 24) /* MiB; kernel and file offsets reach further */

static const char usage_text[] =
    "usage: pipeline [MIB] [--chunk KIB] [--folder DIR] [--direct]\n"
    "  MIB        size of the file (512)\n"
    "  --chunk    size of a chunk (4096)\n"
    "  --folder   where input and output are made, and removed again (TMPDIR, else /tmp)\n"
    "  --direct   go around the page cache\n";

struct options {
    uint64_t bytes;
    size_t chunk_bytes;
    const char *folder;
    bool direct;
};

/* All resources of the program. A zeroed struct owns nothing. */
struct program {
    struct options options;
    char folder[512], input[544], output[544];
    ferry_context *context;
    ferry_stream *stream; /* borrowed */
    ferry_kernel *kernel;
    size_t most; /* bytes of device memory in use at once */
    ferry_file_stats stats;
};

static volatile sig_atomic_t interrupted;

/* -- messages -------------------------------------------------------------------------------------- */

static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line on stderr. Returns false. */
static bool
complain(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    line[strcspn(line, "\r\n")] = 0;
    fprintf(stderr, "pipeline: %s\n", line);
    return false;
}

static bool
done(ferry_status status, const char *what)
{
    if (status == FERRY_OK)
        return true;
    return complain("%s: %s (%s)", what, ferry_last_error(), ferry_status_name(status));
}

static void
interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* -- the command line ------------------------------------------------------------------------------ */

static bool
parse_size(const char *text, uint64_t unit, uint64_t largest, uint64_t *out)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *out = value * unit;
    return !*end && !errno && value > 0 && value <= largest;
}

static bool
parse_arguments(int argc, char **argv, struct options *options)
{
    const char *folder = getenv("TMPDIR");
    uint64_t chunk = 4 * MIB;
    bool sized = false;
    *options = (struct options){.bytes = 512 * MIB, .folder = folder && *folder ? folder : "/tmp"};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--direct") == 0) { /* NOLINT(clang-analyzer-core.NonNullParamChecker): i < argc */
            options->direct = true;
        } else if (strcmp(argv[i], "--folder") == 0 && value) {
            options->folder = argv[++i];
        } else if (strcmp(argv[i], "--chunk") == 0) {
            if (!parse_size(value, 1024, 65536, &chunk))
                return complain("--chunk takes 1 to 65536 KiB, not '%s'", value ? value : "");
            i++;
        } else if (!sized && parse_size(argv[i], MIB, LARGEST, &options->bytes)) {
            sized = true;
        } else {
            return complain("'%s' is not understood; try --help", argv[i]);
        }
    }
    options->chunk_bytes = (size_t)chunk;
    return true;
}

/* -- the input ------------------------------------------------------------------------------------- */

/* Returns a number of the input. Each MiB begins with 1024 numbers that depend on their position; the rest is zero. */
static uint32_t
input_number(uint64_t index)
{
    return index % (MIB / 4) < 1024 ? (uint32_t)(index * 2246822519u + 1) : 0;
}

static bool
write_stamps(int file, uint64_t bytes)
{
    uint32_t numbers[1024];
    for (uint64_t at = 0; at < bytes; at += MIB) {
        for (size_t i = 0; i < 1024; i++)
            numbers[i] = input_number(at / 4 + i);
        if (pwrite(file, numbers, sizeof(numbers), (off_t)at) != (ssize_t)sizeof(numbers))
            return false;
    }
    return true;
}

static bool
make_input(struct program *program)
{
    const struct options *options = &program->options;
    int length = snprintf(program->folder, sizeof(program->folder), "%s/ferry-pipeline-XXXXXX", options->folder);
    if (length < 0 || (size_t)length >= sizeof(program->folder) || !mkdtemp(program->folder)) {
        program->folder[0] = 0;
        return complain("%s: %s", options->folder, strerror(errno ? errno : ENAMETOOLONG));
    }
    snprintf(program->input, sizeof(program->input), "%s/input", program->folder);
    snprintf(program->output, sizeof(program->output), "%s/output", program->folder);
    int file = open(program->input, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool made = file >= 0 && ftruncate(file, (off_t)options->bytes) == 0 && write_stamps(file, options->bytes);
    int error = errno;
    if (file >= 0)
        close(file);
    return made || complain("%s: %s", program->input, strerror(error));
}

static void
remove_files(struct program *program)
{
    if (!program->folder[0])
        return;
    unlink(program->input);
    unlink(program->output);
    if (rmdir(program->folder) != 0)
        complain("%s: %s", program->folder, strerror(errno));
}

/* -- the device ------------------------------------------------------------------------------------ */

static bool
open_device(struct program *program)
{
    const char *wanted = getenv("FERRY_DEVICE");
    ferry_context_options context = {.devices = wanted && *wanted ? NULL : "emulated", .device_bytes_limit = DEVICE_LIMIT};
    ferry_place_info info;
    ferry_parameter parameters[SCRAMBLE_PARAMETER_COUNT];
    const ferry_kernel_source source = scramble_kernel_source(parameters);
    if (!done(ferry_context_create(&context, &program->context), "opening the device") ||
        !done(ferry_context_get_place_info(program->context, DEVICE_PLACE, &info), "asking for the device"))
        return false;
    program->stream = ferry_context_stream(program->context, DEVICE_PLACE);
    printf("device     %s (%s), limited to %zu MiB\n", info.name, info.kind, DEVICE_LIMIT / MIB);
    return done(ferry_kernel_create(program->context, &source, &program->kernel), "compiling the kernel");
}

/* -- the stream ------------------------------------------------------------------------------------ */

/* Called for each chunk that has arrived: queues the kernel and returns. */
static ferry_status
work_on_chunk(const ferry_file_chunk *chunk, void *user)
{
    struct program *program = user;
    ferry_memory_info memory;
    ferry_status status;
    FERRY_TRY(status, fail, ferry_context_get_memory_info(program->context, DEVICE_PLACE, &memory));
    if (memory.live > program->most)
        program->most = memory.live;
    status = scramble_launch(program->kernel, chunk);
fail:
    return status;
}

/* Called for each completed chunk. Shows a progress bar on a terminal. An interrupt cancels. */
static bool
show_progress(size_t bytes_done, size_t bytes_total, void *user)
{
    static int last = -1;
    int percent = (int)(100.0 * (double)bytes_done / (double)bytes_total);
    (void)user;
    if (percent != last && isatty(STDERR_FILENO)) {
        char bar[51];
        memset(bar, ' ', 50);
        memset(bar, '#', (size_t)percent / 2);
        bar[50] = 0;
        fprintf(stderr, "\r[%s] %3d %%%s", bar, percent, percent == 100 ? "\n" : "");
    }
    last = percent;
    return !interrupted;
}

static bool
run(struct program *program)
{
    const ferry_file_pipeline_options options = {
        .input = program->input,
        .output = program->output,
        .element = ferry_uint32_element(),
        .work = work_on_chunk,
        .keep_going = show_progress,
        .user = program,
        .stream = program->stream,
        .chunk_bytes = program->options.chunk_bytes,
        .direct = program->options.direct,
        .stats = &program->stats,
    };
    return done(ferry_file_pipeline(program->context, &options), "streaming");
}

static void
report(const struct program *program)
{
    const ferry_file_stats *stats = &program->stats;
    double load = (double)stats->load_ns, work = (double)stats->work_ns, store = (double)stats->store_ns;
    double wall = (double)stats->wall_ns;
    printf("file       %llu bytes in %llu chunks, %llu bytes around the page cache\n", (unsigned long long)stats->bytes_read,
           (unsigned long long)stats->chunks, (unsigned long long)stats->bytes_direct);
    printf("memory     %zu bytes of the device at most\n", program->most);
    printf("load       %9.3f ms\n", load * 1e-6);
    printf("kernel     %9.3f ms\n", work * 1e-6);
    printf("store      %9.3f ms\n", store * 1e-6);
    printf("elapsed    %9.3f ms, %.2f GB/s in and out\n", wall * 1e-6, (double)stats->bytes_read / wall);
    printf("overlap    %9.2f stages at a time\n", (load + work + store) / wall);
}

/* -- the check ------------------------------------------------------------------------------------- */

/* A checksum that depends on the order. */
struct checksum {
    uint64_t sum, sums;
};

static void
add(struct checksum *checksum, uint32_t number)
{
    checksum->sum += number;
    checksum->sums += checksum->sum;
}

/* Compares the output with a plain loop over the known input. */
static bool
check(const struct program *program)
{
    static uint32_t numbers[1 << 16];
    struct checksum expected = {0, 0}, got = {0, 0};
    uint64_t index = 0;
    FILE *file = fopen(program->output, "rb");
    if (!file)
        return complain("%s: %s", program->output, strerror(errno));
    for (size_t count; !interrupted && (count = fread(numbers, 4, sizeof(numbers) / 4, file)) > 0;) {
        for (size_t i = 0; i < count; i++, index++) {
            add(&expected, scramble(input_number(index), index));
            add(&got, numbers[i]);
        }
    }
    bool complete = !ferror(file) && index == program->options.bytes / 4;
    fclose(file);
    if (interrupted)
        return complain("interrupted");
    bool equal = complete && expected.sum == got.sum && expected.sums == got.sums;
    printf("checksum   %016llx, %s\n", (unsigned long long)got.sums, equal ? "as it should be" : "WRONG");
    return equal || complain("the output is not what a plain loop computes");
}

int
main(int argc, char **argv)
{
    struct program program = {.most = 0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage_text, stdout);
        return EXIT_SUCCESS;
    }
    if (!parse_arguments(argc, argv, &program.options))
        return EXIT_USAGE;

    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    bool ok = open_device(&program) && make_input(&program) && run(&program);
    if (ok) {
        report(&program);
        ok = check(&program);
    }
    remove_files(&program);
    ferry_kernel_destroy(&program.kernel);
    ferry_context_destroy(&program.context);
    return ok ? EXIT_SUCCESS : interrupted ? EXIT_CANCELLED : EXIT_FAILURE;
}
