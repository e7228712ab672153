/* SPDX-License-Identifier: MIT */

/*
 * Measures the loop of most programs that use a device: upload a batch, run a kernel on it,
 * download the result. Its time for a batch is compared with the longest of the three stages, each
 * measured alone in the same run, which is the kernel: it takes a little longer than both copies.
 * The kernel only waits, so that on an emulated device it takes no processor that the copies need.
 * The inputs are one buffer, two buffers in turn, or a new buffer for each batch.
 */

#include "bench.h"

#include <time.h>

#include <ferry/float.h>

#define MIB ((size_t)1 << 20)

enum { BATCHES = 24, ROUNDS_LIMIT = 9 };

struct world {
    ferry_context *context;
    ferry_stream *stream;
    ferry_kernel *kernel;
    ferry_float_buffer outputs[2];
    size_t count;
    float wait_ms;
};

/* How the inputs are made. */
struct inputs {
    const char *name;
    unsigned buffers; /* number of buffers that are used in turn; 0: a new one for each batch */
    ferry_memory_kind memory;
};

/* -- the kernel -------------------------------------------------------------------------------- */

static const char cuda_text[] =
    "extern \"C\" __global__ void wait_for(const float *x, float *y, float ms)\n"
    "{\n"
    "    unsigned long long begun, now;\n"
    "    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begun));\n"
    "    do\n"
    "        asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n"
    "    while (now - begun < (unsigned long long)(ms * 1e6f));\n"
    "    y[0] = x[0] + 1;\n"
    "}\n";

static ferry_status
wait_on_host(const ferry_call *call, void *user)
{
    (void)user;
    const float *x = ferry_float_call_array(call, 0, NULL);
    float *y = ferry_float_call_array(call, 1, NULL);
    const long ns = (long)(ferry_float_call_value(call, 2) * 1e6f);
    if (ns > 0)
        nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
    y[0] = x[0] + 1;
    return FERRY_OK;
}

static bool
make_kernel(struct world *world)
{
    const ferry_parameter parameters[] = {
        {.element = ferry_float_element(), .access = FERRY_READ},
        {.element = ferry_float_element(), .access = FERRY_OVERWRITE},
        {.element = ferry_float_element()}};
    const ferry_kernel_code code = {.kind = FERRY_CODE_CUDA, .code = cuda_text};
    const ferry_kernel_source source = {.name = "wait_for",
                                        .codes = &code,
                                        .code_count = 1,
                                        .host_function = wait_on_host,
                                        .parameters = parameters,
                                        .parameter_count = 3};
    return ferry_kernel_create(world->context, &source, &world->kernel) == FERRY_OK ||
           bench_failed("creating the kernel");
}

static bool
launch(const struct world *world, ferry_float_buffer x, ferry_float_buffer y, float ms)
{
    const ferry_argument arguments[] = {ferry_float_argument(x), ferry_float_argument(y),
                                        ferry_float_value(ms)};
    return ferry_kernel_launch(world->kernel, (ferry_grid){.blocks = {1}, .threads = {1}},
                               world->stream, arguments, 3) == FERRY_OK ||
           bench_failed("launching the kernel");
}

/* -- the three stages -------------------------------------------------------------------------- */

static bool
create_input(const struct world *world, const struct inputs *inputs, ferry_float_buffer *out)
{
    return ferry_float_create(world->context, world->count,
                              &(ferry_buffer_options){.memory = inputs->memory}, out) == FERRY_OK ||
           bench_failed("creating a buffer");
}

/* Makes all bytes of the host current, and writes one of them. */
static bool
write_input(ferry_float_buffer x, float value)
{
    ferry_scope scope;
    float *memory;
    if (ferry_float_overwrite_host(x, &scope, &memory) != FERRY_OK)
        return bench_failed("writing on the host");
    memory[0] = value;
    return ferry_scope_close(&scope) == FERRY_OK || bench_failed("writing on the host");
}

/* Reads the result of a batch on the host, and checks it. */
static bool
read_output(const struct world *world, unsigned batch)
{
    ferry_scope scope;
    const float *memory;
    if (ferry_float_read_host(world->outputs[batch % 2], &scope, &memory) != FERRY_OK)
        return bench_failed("reading on the host");
    bool right = memory[0] == (float)batch + 1;
    if (ferry_scope_close(&scope) != FERRY_OK)
        return bench_failed("reading on the host");
    if (!right)
        fputs("bench: a result is wrong\n", stderr);
    return right;
}

/* Returns the input of a batch, or NULL if it cannot be created. A new one is stored in `*fresh`.
 */
static const ferry_float_buffer *
input_of(const struct world *world, const struct inputs *inputs, const ferry_float_buffer *xs,
         unsigned batch, ferry_float_buffer *fresh)
{
    if (inputs->buffers)
        return &xs[batch % inputs->buffers];
    return create_input(world, inputs, fresh) ? fresh : NULL;
}

/* Uploads, runs a kernel that does not wait, and downloads. Adds the times of both copies. */
static bool
run_copies(const struct world *world, ferry_float_buffer x, unsigned batch, double *up,
           double *down)
{
    if (!write_input(x, (float)batch))
        return false;
    double begun = bench_now_ns();
    if (ferry_float_sync_to(x, 1, NULL) != FERRY_OK)
        return bench_failed("uploading");
    *up += bench_now_ns() - begun;
    if (!launch(world, x, world->outputs[batch % 2], 0) ||
        ferry_stream_synchronize(world->stream) != FERRY_OK)
        return bench_failed("running the kernel");
    begun = bench_now_ns();
    if (!read_output(world, batch))
        return false;
    *down += bench_now_ns() - begun;
    return true;
}

/* Runs each stage alone for all batches, and stores the times for one batch. */
static bool
run_stages(const struct world *world, const struct inputs *inputs, ferry_float_buffer *xs,
           double *out_up, double *out_kernel, double *out_down)
{
    *out_up = *out_down = 0;
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        ferry_float_buffer fresh = {0};
        const ferry_float_buffer *x = input_of(world, inputs, xs, batch, &fresh);
        bool ok = x && run_copies(world, *x, batch, out_up, out_down);
        ferry_float_destroy(&fresh);
        if (!ok)
            return false;
    }
    double begun = bench_now_ns();
    for (unsigned batch = 0; batch < BATCHES; batch++)
        if (!launch(world, xs[0], world->outputs[0], world->wait_ms))
            return false;
    if (ferry_stream_synchronize(world->stream) != FERRY_OK)
        return bench_failed("running the kernel");
    *out_kernel = (bench_now_ns() - begun) / BATCHES;
    *out_up /= BATCHES;
    *out_down /= BATCHES;
    return true;
}

/* -- the loop ---------------------------------------------------------------------------------- */

/* Uploads and queues one batch. */
static bool
begin_batch(const struct world *world, const struct inputs *inputs, ferry_float_buffer *xs,
            unsigned batch)
{
    ferry_float_buffer fresh = {0};
    const ferry_float_buffer *x = input_of(world, inputs, xs, batch, &fresh);
    bool ok = x && write_input(*x, (float)batch) &&
              launch(world, *x, world->outputs[batch % 2], world->wait_ms);
    ferry_float_destroy(&fresh);
    return ok;
}

/* Stores the time for one batch. While the kernel of a batch runs, the next batch goes up and the
 * result before comes down. */
static bool
run_loop(const struct world *world, const struct inputs *inputs, ferry_float_buffer *xs,
         double *out_ns)
{
    double begun = bench_now_ns();
    for (unsigned batch = 0; batch < BATCHES; batch++)
        if (!begin_batch(world, inputs, xs, batch) || (batch > 0 && !read_output(world, batch - 1)))
            return false;
    if (!read_output(world, BATCHES - 1))
        return false;
    *out_ns = (bench_now_ns() - begun) / BATCHES;
    return true;
}

/* -- measuring --------------------------------------------------------------------------------- */

static double
longest_of(double a, double b, double c)
{
    double longer = a > b ? a : b;
    return longer > c ? longer : c;
}

static void
report_inputs(struct bench_report *report, const struct world *world, const struct inputs *inputs,
              double loop, double longest)
{
    char name[64];
    snprintf(name, sizeof(name), "%zuMiB/%s", world->count * sizeof(float) / MIB, inputs->name);
    bench_report_add(report, &(struct bench_record){.case_name = name,
                                                    .metric = "batch",
                                                    .unit = "ms",
                                                    .value = loop / 1e6,
                                                    .peer = "longest stage",
                                                    .peer_value = longest / 1e6,
                                                    .goal = {BENCH_AT_MOST, 1.1}});
}

static bool
measure(struct bench_report *report, struct world *world, const struct inputs *inputs,
        size_t rounds)
{
    double loop[ROUNDS_LIMIT], longest[ROUNDS_LIMIT], up, kernel, down;
    ferry_float_buffer xs[2] = {{0}};
    bool ok = create_input(world, inputs, &xs[0]) && create_input(world, inputs, &xs[1]) &&
              write_input(xs[0], 0);
    world->wait_ms = 0;
    ok = ok && run_stages(world, inputs, xs, &up, &kernel, &down) &&
         run_stages(world, inputs, xs, &up, &kernel, &down);
    world->wait_ms = ok ? (float)(1.25 * (up + down) / 1e6) : 0;
    /* Round 0 only warms up: round 1 overwrites its results. */
    for (size_t round = 0; ok && round <= rounds; round++) {
        size_t index = round == 0 ? 0 : round - 1;
        ok = run_stages(world, inputs, xs, &up, &kernel, &down) &&
             run_loop(world, inputs, xs, &loop[index]);
        longest[index] = longest_of(up, kernel, down);
    }
    if (ok) {
        size_t middle = bench_middle_round(loop, longest, rounds);
        report_inputs(report, world, inputs, loop[middle], longest[middle]);
    }
    ferry_float_destroy(&xs[0]);
    ferry_float_destroy(&xs[1]);
    return ok;
}

static bool
run(ferry_context *context, struct bench_report *report, bool quick)
{
    static const struct inputs all[] = {
        {"1 buffer/pageable", 1, FERRY_MEMORY_PAGEABLE},
        {"1 buffer/pinned", 1, FERRY_MEMORY_PINNED},
        {"2 buffers/pageable", 2, FERRY_MEMORY_PAGEABLE},
        {"2 buffers/pinned", 2, FERRY_MEMORY_PINNED},
        {"new buffers/pageable", 0, FERRY_MEMORY_PAGEABLE},
        {"new buffers/pinned", 0, FERRY_MEMORY_PINNED},
    };
    struct world world = {.context = context,
                          .stream = ferry_context_stream(context, 1),
                          .count = (quick ? 1 : 16) * MIB / sizeof(float)};
    bool ok = make_kernel(&world);
    for (int i = 0; i < 2; i++)
        ok = ok && create_input(&world, &all[1], &world.outputs[i]);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        ok = ok && measure(report, &world, &all[i], quick ? 1 : ROUNDS_LIMIT);
    ferry_float_destroy(&world.outputs[0]);
    ferry_float_destroy(&world.outputs[1]);
    ferry_kernel_destroy(&world.kernel);
    return ok;
}

int
main(int argc, char **argv)
{
    return bench_main(argc, argv, "overlap", 512 * MIB, run);
}
