/* SPDX-License-Identifier: MIT */
/* Plays a random history, which is a random sequence of library calls, for each of many seeds. The
 * first history that fails is shortened and printed as C code. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/histories/resume.h"
#include "tests/histories/shrink.h"
#include "tests/support/interleave.h"

enum { DEVICES_MAX = 16, BATCH = 50, SECONDS = 600, SHORT_BYTES = 16 << 10 };

static const char *const all_devices[] = {"host",      "emulated",      "emulated:3",     "lazy",
                                          "lazy:2",    "fault",         "fault:2 lazy",   "cuda",
                                          "cuda lazy", "host,emulated", "lazy,host,lazy", NULL};

static const char usage[] =
    "usage: histories [OPTION VALUE]...\n"
    "  --seed N         of the first history; the next has N + 1 (default 1)\n"
    "  --operations N   steps in all, over all devices (default 20000)\n"
    "  --seed-range A:B a history of each seed from A to B - 1 on each device, instead of --seed "
    "and --operations\n"
    "  --resume FILE    keeps how far each device has come; the same command goes on from there\n"
    "  --length N       steps of one history (default 400)\n"
    "  --device D       as FERRY_DEVICE, also lazy:N and fault:N, and a second word \"lazy\"; may "
    "be repeated (default: all kinds)\n"
    "  --threads N      players at once, 1 to 4 (default: 1, every third history 2 to 4)\n"
    "  --streams N      of each player, 1 to 90 (default: 4, every fifth history 70)\n"
    "  --memory BYTES   limit of each device (default: none, every fourth history 16384)\n"
    "  --interleave W   yes, no or half: threads are delayed where they meet (default half: every "
    "other seed)\n"
    "  --without NAMES  leaves out these steps, with commas between them\n"
    "  --shrink W       no: a history that fails is printed as it is (default yes)\n"
    "  --seconds N      without the end of a step that make a history fail (default 600)\n"
    "  --play FILE      the bytes of one history, as a fuzzer keeps them, instead of seeds; - "
    "prints nothing but the result\n"
    "  --print FILE     where a failing history goes as C, - for standard output (default); with "
    "--play, any history\n";

struct wish {
    uint64_t seed, end, operations, length, threads, streams, memory, seconds;
    const char *devices[DEVICES_MAX + 1], *play, *print, *resume, *interleave;
    bool keep_long;
};

/* Progress of a child process. */
struct progress {
    uint64_t at;
    struct history_counts counts;
};

static uint64_t
number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (errno || *text == '-' || !*text || *end || value < least || value > most) {
        fprintf(stderr, "histories: %s %s: expected a number from %llu to %llu\n", option, text,
                (unsigned long long)least, (unsigned long long)most);
        exit(2);
    }
    return value;
}

static void
read_range(struct wish *wish, const char *value)
{
    char first[32];
    size_t length = strcspn(value, ":");
    snprintf(first, sizeof(first), "%.*s", (int)length, value);
    wish->seed = number("--seed-range", first, 0, UINT64_MAX);
    wish->end =
        number("--seed-range", value[length] ? value + length + 1 : "", wish->seed + 1, UINT64_MAX);
}

static void
read_option(struct wish *wish, const char *option, const char *value, size_t *device_count)
{
    if (strcmp(option, "--seed") == 0)
        wish->seed = number(option, value, 0, UINT64_MAX);
    else if (strcmp(option, "--operations") == 0)
        wish->operations = number(option, value, 1, UINT64_C(1) << 40);
    else if (strcmp(option, "--seed-range") == 0)
        read_range(wish, value);
    else if (strcmp(option, "--resume") == 0)
        wish->resume = value;
    else if (strcmp(option, "--without") == 0)
        history_leave_out(value);
    else if (strcmp(option, "--shrink") == 0 &&
             (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0))
        wish->keep_long = strcmp(value, "no") == 0;
    else if (strcmp(option, "--seconds") == 0)
        wish->seconds = number(option, value, 1, 100000);
    else if (strcmp(option, "--interleave") == 0 &&
             (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0 || strcmp(value, "half") == 0))
        wish->interleave = value;
    else if (strcmp(option, "--length") == 0)
        wish->length = number(option, value, 1, 100000);
    else if (strcmp(option, "--threads") == 0)
        wish->threads = number(option, value, 1, PLAYERS_MAX);
    else if (strcmp(option, "--streams") == 0)
        wish->streams = number(option, value, 1, STREAMS_MAX);
    else if (strcmp(option, "--memory") == 0)
        wish->memory = number(option, value, 0, SIZE_MAX);
    else if (strcmp(option, "--play") == 0)
        wish->play = value;
    else if (strcmp(option, "--print") == 0)
        wish->print = value;
    else if (strcmp(option, "--device") == 0 && *device_count < DEVICES_MAX)
        wish->devices[(*device_count)++] = value;
    else {
        fputs(usage, stderr);
        exit(2);
    }
}

/* -- one history ------------------------------------------------------------------------------- */

static unsigned char *
make_bytes(uint64_t seed, size_t steps)
{
    unsigned char *bytes = malloc(steps * STEP_BYTES + 1);
    if (!bytes)
        exit(2);
    for (size_t i = 0; i < steps; i++) {
        uint64_t word = random_next(&seed);
        for (size_t k = 1; k < STEP_BYTES; k++)
            bytes[i * STEP_BYTES + k] = (unsigned char)(word >> (8 * k));
        bytes[i * STEP_BYTES] = history_code(random_next(&seed) >> 8);
    }
    return bytes;
}

static struct history_setup
setup_of(const struct wish *wish, const char *device, uint64_t seed)
{
    struct history_setup setup = {.device = device, .seconds = (unsigned)wish->seconds};
    unsigned players =
        seed % 3 == 2 && strncmp(device, "fault", 5) != 0 ? 2 + (unsigned)(seed / 3 % 3) : 1;
    setup.players = wish->threads ? (unsigned)wish->threads : players;
    setup.memory = wish->memory ? (size_t)wish->memory : seed % 4 == 3 ? SHORT_BYTES : 0;
    setup.streams = wish->streams ? (unsigned)wish->streams : seed % 5 == 4 ? 70 : 4;
    bool interleaves = wish->interleave ? strcmp(wish->interleave, "yes") == 0
                                        : (seed * UINT64_C(0x9e3779b97f4a7c15)) >> 63;
    setup.interleave =
        interleaves && !(wish->interleave && strcmp(wish->interleave, "no") == 0) ? seed + 1 : 0;
    return setup;
}

static FILE *
open_print(const char *path)
{
    FILE *out = !path || strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!out) {
        fprintf(stderr, "histories: cannot write %s\n", path);
        exit(2);
    }
    return out;
}

static void
describe(char *text, size_t bytes, const struct wish *wish, const struct history_setup *setup,
         uint64_t seed)
{
    snprintf(text, bytes,
             "histories --seed %llu --device '%s' --threads %u --streams %u --memory %zu "
             "--interleave %s --length %llu --operations %llu",
             (unsigned long long)seed, setup->device, setup->players, setup->streams, setup->memory,
             setup->interleave ? "yes" : "no", (unsigned long long)wish->length,
             (unsigned long long)wish->length);
}

/* Prints how the child process that played a history failed. `status` is the result of waitpid().
 */
static void
tell_failure(const struct wish *wish, const char *device, uint64_t seed, int status)
{
    struct history_setup setup = setup_of(wish, device, seed);
    char text[320];
    unsigned char *bytes = make_bytes(seed, wish->length);
    describe(text, sizeof(text), wish, &setup, seed);
    printf("FAILED: %s\n", text);
    if (WIFSIGNALED(status))
        printf("signal %d%s\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? ": no step has ended for too long" : "");
    fflush(stdout);
    size_t count = wish->length * STEP_BYTES;
    if (!wish->keep_long)
        count = history_shrink(bytes, count, &setup);
    printf("%s %zu steps, which say:\n", wish->keep_long ? "its" : "made short to",
           count / STEP_BYTES);
    for (unsigned i = 0; i < 10 && !history_fails(bytes, count, &setup, STDOUT_FILENO); i++)
        continue;
    FILE *out = open_print(wish->print);
    history_print(out, bytes, count, &setup, text);
    if (out != stdout)
        fclose(out);
    free(bytes);
}

/* -- many -------------------------------------------------------------------------------------- */

static void
play_batch(const struct wish *wish, const char *device, uint64_t begin, uint64_t end,
           struct progress *progress)
{
    for (progress->at = begin; progress->at < end; progress->at++) {
        uint64_t seed = wish->seed + progress->at;
        struct history_setup setup = setup_of(wish, device, seed);
        unsigned char *bytes = make_bytes(seed, wish->length);
        interleave(setup.interleave);
        history_play(bytes, wish->length * STEP_BYTES, &setup);
        free(bytes);
        progress->counts = history_counts;
    }
    /* The process ends with exit() instead of _exit(), because leak checkers run in exit(). */
    exit(0);
}

/* Plays random histories on one device. Returns false after the first history that fails. */
static bool
play_device(const struct wish *wish, const char *device, uint64_t histories, struct resume *resume,
            struct history_counts *sum)
{
    struct resume_line *line = resume_line(resume, device, wish->seed);
    uint64_t first = line->next > wish->seed ? line->next - wish->seed : 0;
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool good = progress != MAP_FAILED;
    for (uint64_t begin = first; good && begin < histories; begin += BATCH) {
        uint64_t end = begin + BATCH < histories ? begin + BATCH : histories;
        int status = 0;
        memset(progress, 0, sizeof(*progress));
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            play_batch(wish, device, begin, end, progress);
        good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0;
        history_count(sum, &progress->counts);
        if (!good)
            tell_failure(wish, device, wish->seed + (progress->at < end ? progress->at : end - 1),
                         status);
        line->next = wish->seed + (good ? end : progress->at < end ? progress->at : end - 1);
        line->steps += progress->counts.steps;
        good = resume_save(resume) && good;
    }
    munmap(progress, sizeof(*progress));
    return good;
}

/* -- one file ---------------------------------------------------------------------------------- */

static int
play_file(const struct wish *wish)
{
    unsigned char bytes[100000];
    FILE *file = fopen(wish->play, "rb");
    if (!file) {
        fprintf(stderr, "histories: cannot read %s\n", wish->play);
        return 2;
    }
    size_t count = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    const char *device = wish->devices[0] ? wish->devices[0] : "host";
    struct history_setup setup = {
        .device = device,
        .players = wish->threads ? (unsigned)wish->threads : 1,
        .streams = wish->streams ? (unsigned)wish->streams : 4,
        .memory = (size_t)wish->memory,
        .interleave = wish->interleave && strcmp(wish->interleave, "yes") == 0 ? 1 : 0};
    if (wish->print) {
        FILE *out = open_print(wish->print);
        history_print(out, bytes, count, &setup, wish->play);
        if (out != stdout)
            fclose(out);
    }
    bool fails = history_fails(bytes, count, &setup, STDOUT_FILENO);
    printf("%s: %zu steps %s\n", wish->play, count / STEP_BYTES, fails ? "FAILED" : "passed");
    return fails;
}

int
main(int argc, char **argv)
{
    struct wish wish = {.seed = 1, .operations = 20000, .length = 400, .seconds = SECONDS};
    struct resume resume;
    interleave_preload(argv);
    struct history_counts sum = {0};
    size_t device_count = 0;
    for (int i = 1; i < argc; i += 2)
        read_option(&wish, argv[i], i + 1 < argc ? argv[i + 1] : "", &device_count);
    if (wish.play)
        return play_file(&wish);
    if (device_count == 0)
        for (; all_devices[device_count]; device_count++)
            wish.devices[device_count] = all_devices[device_count];
    if (wish.length > wish.operations)
        wish.length = wish.operations;
    uint64_t histories = wish.end
                             ? wish.end - wish.seed
                             : (wish.operations / wish.length + device_count - 1) / device_count;
    if (!resume_open(&resume, wish.resume)) {
        fprintf(stderr, "histories: %s is no file of --resume\n", wish.resume);
        return 2;
    }
    for (size_t i = 0; i < device_count; i++)
        if (!play_device(&wish, wish.devices[i], histories, &resume, &sum))
            return 1;
    printf("%llu steps of %llu histories from seed %llu on %zu devices: %llu BUSY, %llu failures "
           "injected of which %llu were met, "
           "%llu short of memory, %llu copies evicted, %llu calls met a shorter buffer%s\n",
           (unsigned long long)sum.steps, (unsigned long long)(histories * device_count),
           (unsigned long long)wish.seed, device_count, (unsigned long long)sum.busy,
           (unsigned long long)sum.injected, (unsigned long long)sum.failed,
           (unsigned long long)sum.short_of_memory, (unsigned long long)sum.evicted,
           (unsigned long long)sum.cut, interleave_is_there() ? "" : "; nothing was interleaved");
    return 0;
}
