/* SPDX-License-Identifier: MIT */
/*
 * Records how a CUDA driver behaves in cases that its manual does not describe, or describes
 * wrongly. Each answer is a line of JSON with a result code or a number, and is written at once. A
 * question runs in its own process if it may end the context or the process, or may never return.
 *
 * usage: probe [--json FILE] [GROUP...]
 *
 * facts/expected.json contains the answers that public sources give. check_facts.py compares them
 * with the answers of a driver. Answers of a real driver belong in facts/ as DEVICE-VERSION.json.
 * `./dev gpu probe` writes them to build/gpu/probe.json.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/probe.h"

static FILE *out;
const struct ferryi_gpu_driver *cu;
ferryi_gpu_context context;
ferryi_gpu_number device;
ferryi_gpu_stream stream, other;
ferryi_gpu_event event;
ferryi_gpu_pointer memory;
char *pinned;
int (*begin_capture)(ferryi_gpu_stream, int), (*end_capture)(ferryi_gpu_stream, void **);

void
answer(const char *question, long long value)
{
    fprintf(out, "{\"probe\": \"%s\", \"value\": %lld}\n", question, value);
    fflush(out);
}

void
answer_at(const char *question, size_t at, long long value)
{
    char text[96];
    snprintf(text, sizeof(text), "%s-%zu", question, at);
    answer(text, value);
}

void
settle(const char *question)
{
    ASK(question, stream_synchronize, stream);
}

void
probe_attributes(void)
{
    int value = 0;
    answer("groups", cu->groups);
    ASK("driver-version", version, &value);
    answer("driver-version-is", value);
    for (unsigned i = 1; i <= 150; i++) {
        value = 0;
        ferryi_gpu_result result = cu->device_attribute(&value, i, device);
        answer_at("attribute", i, result ? -(long long)result : value);
    }
}

/* Probes initialization, errors, device numbers and primary contexts. */
void
probe_basics(void)
{
    const char *name = "";
    char text[8];
    int value = -1;
    size_t bytes = 0;
    ferryi_gpu_number none;
    ASK("init-flags", init, 1);
    ASK("init-again", init, 0);
    ASK("error-name-of-unknown", error_name, 12345, &name);
    ASK("device-negative", device, &none, -1);
    ASK("device-beyond", device, &none, 1000);
    ASK("device-name-cut", device_name, text, (int)sizeof(text), device);
    ASK("attribute-of-nothing", device_attribute, &value, 0, device);
    ASK("attribute-beyond", device_attribute, &value, 100000, device);
    ASK("attribute-of-no-device", device_attribute, &value, 75, 1000);
    ASK("memory-of-no-device", device_bytes, &bytes, 1000);
    ASK("peer-self", can_access_peer, &value, device, device);
    answer("peer-self-is", value);
    ASK("peer-of-no-device", can_access_peer, &value, device, 1000);
    ASK("retain-no-device", context_retain, &context, 1000);
    ASK("release-no-device", context_release, 1000);
    ASK("release-once", context_release, device);
    ASK("release-too-often", context_release, device);
}

static const struct group {
    const char *name;
    void (*ask)(void);
} groups[] = {
#define GROUP(name) {#name, probe_##name},
    PROBE_GROUPS(GROUP)
#undef GROUP
};

/* -- running them ------------------------------------------------------------------------------ */

static void
spin_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)grid, (void)block;
    usleep((useconds_t)(1000 * *(uint64_t *)parameters[0]));
}

static void
no_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    (void)parameters, (void)grid, (void)block;
}

static void
fault_body(void **parameters, const unsigned grid[3], const unsigned block[3])
{
    struct fakecuda fake;
    (void)parameters, (void)grid, (void)block;
    if (fakecuda_find_driver(&fake))
        fake.fakecuda_fault(FERRYI_GPU_ERROR_ILLEGAL_ADDRESS);
}

static bool
open_driver(void)
{
    const char *name = ferryi_getenv("FERRY_CUDA_LIBRARY");
    void *library = ferryi_library_open(name ? name : "libcuda.so.1", NULL, 0);
    if (!library || ferryi_gpu_driver_get(&ferryi_cuda_vendor, &cu) != FERRY_OK) {
        fprintf(stderr, "probe: %s\n", ferry_last_error());
        return false;
    }
    *(void **)&begin_capture = ferryi_library_symbol(library, "cuStreamBeginCapture_v2");
    *(void **)&end_capture = ferryi_library_symbol(library, "cuStreamEndCapture");
    gpu_give_kernel("probe_spin", spin_body, 1, (size_t[]){sizeof(uint64_t)});
    gpu_give_kernel("probe_shared", no_body, 0, NULL);
    gpu_give_kernel("probe_fault", fault_body, 0, NULL);
    return cu->device(&device, 0) == 0 && cu->context_retain(&context, device) == 0 &&
           cu->context_push(context) == 0 &&
           cu->stream_create(&stream, FERRYI_GPU_STREAM_NON_BLOCKING) == 0 &&
           cu->stream_create(&other, FERRYI_GPU_STREAM_NON_BLOCKING) == 0 &&
           cu->event_create(&event, FERRYI_GPU_EVENT_DISABLE_TIMING) == 0 &&
           cu->memory_alloc(&memory, MIB) == 0 &&
           cu->host_alloc((void **)&pinned, MIB, FERRYI_GPU_MEMHOSTALLOC_PORTABLE) == 0;
}

/* Runs a group of probes in a new process, which has not used the driver before. A timer kills this
 * process after ten seconds. Returns false if the process could not open the driver. */
static bool
run_group(const struct group *group)
{
    int status = 0;
    fflush(out);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        if (!open_driver())
            _exit(77);
        group->ask();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        char text[96];
        snprintf(text, sizeof(text), "group-%s-ended-by", group->name);
        answer(text, WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
    }
    return !WIFEXITED(status) || WEXITSTATUS(status) != 77;
}

static bool
is_wanted(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int
main(int argc, char **argv)
{
    bool opened = true;
    int first = argc > 2 && strcmp(argv[1], "--json") == 0 ? 3 : 1;
    out = first == 3 ? fopen(argv[2], "w") : stdout;
    if (!out) {
        perror(argv[2]);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (is_wanted(groups[i].name, argv + first, argc - first))
            opened = run_group(&groups[i]) && opened;
    return fclose(out) == 0 && opened ? EXIT_SUCCESS : 77;
}
