/* SPDX-License-Identifier: MIT */
#include "cli/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a run has in hand. */
struct run {
    const struct script *script;
    const struct allocator *allocator;
    void **blocks; /* by slot; NULL: its take failed */
    uint64_t *given;
    uint64_t requested_bytes, given_bytes; /* live */
};

static double
now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static bool
run_begin(struct run *run, const struct script *script, const struct allocator *allocator)
{
    *run = (struct run){.script = script, .allocator = allocator};
    run->blocks = calloc(script->slots + (size_t)1, sizeof(*run->blocks));
    run->given = calloc(script->slots + (size_t)1, sizeof(*run->given));
    return run->blocks && run->given;
}

/* What is still live goes back. */
static void
run_end(struct run *run)
{
    for (uint32_t slot = 0; run->blocks && slot < run->script->slots; slot++)
        if (run->blocks[slot])
            run->allocator->give(run->allocator->user, run->blocks[slot], 0);
    free(run->blocks);
    free(run->given);
}

/* One operation. False for a take that found no memory. */
static bool
run_operation(struct run *run, const struct operation *operation)
{
    const struct allocator *allocator = run->allocator;
    uint64_t given;
    if (operation->kind == OPERATION_GIVE) {
        if (run->blocks[operation->slot])
            allocator->give(allocator->user, run->blocks[operation->slot], operation->stream);
        return true;
    }
    void *block = allocator->take(allocator->user, operation->bytes, operation->stream, &given);
    if (operation->kind == OPERATION_TRY) {
        if (block)
            allocator->give(allocator->user, block, operation->stream);
        return block != NULL;
    }
    run->blocks[operation->slot] = block;
    run->given[operation->slot] = block ? given : 0;
    return block != NULL;
}

/* Count it, when its time is taken. */
static void
account(struct run *run, const struct operation *operation)
{
    uint32_t slot = operation->slot;
    if (operation->kind == OPERATION_TRY || !run->blocks[slot])
        return;
    if (operation->kind == OPERATION_TAKE) {
        run->requested_bytes += operation->bytes;
        run->given_bytes += run->given[slot];
    } else {
        run->requested_bytes -= operation->bytes;
        run->given_bytes -= run->given[slot];
        run->blocks[slot] = NULL;
    }
}

/* -- time -------------------------------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static struct replay_times
summarise(float *samples, size_t count)
{
    if (count == 0)
        return (struct replay_times){0};
    qsort(samples, count, sizeof(*samples), compare);
    return (struct replay_times){samples[count / 2], samples[count - 1 - (count - 1) / 100], count};
}

static double
clock_cost(void)
{
    float costs[1001];
    for (size_t i = 0; i < 1001; i++) {
        double before = now_ns();
        costs[i] = (float)(now_ns() - before);
    }
    return summarise(costs, 1001).median_ns;
}

static void
note_failure(const struct run *run, size_t index, struct replay_result *result)
{
    const struct operation *operation = &run->script->operations[index];
    result->failed_bytes += operation->bytes;
    if (result->failed_takes++ > 0)
        return;
    result->first = (struct replay_failure){index + 1, operation->line, operation->bytes,
                                            run->requested_bytes, ""};
    snprintf(result->first.why, sizeof(result->first.why), "%s",
             run->allocator->why(run->allocator->user));
}

static void
run_timed(struct run *run, struct replay_result *result, float *take_ns, float *give_ns)
{
    size_t takes = 0, gives = 0;
    for (size_t i = 0; i < run->script->count; i++) {
        const struct operation *operation = &run->script->operations[i];
        bool was_live = operation->kind == OPERATION_GIVE && run->blocks[operation->slot];
        double before = now_ns();
        bool ok = run_operation(run, operation);
        float time = (float)(now_ns() - before);
        if (was_live)
            give_ns[gives++] = time;
        if (operation->kind == OPERATION_TAKE && ok) {
            take_ns[takes++] = time;
            result->requested_total += (double)operation->bytes;
            result->given_total += (double)run->given[operation->slot];
        } else if (operation->kind == OPERATION_TAKE) {
            note_failure(run, i, result);
        }
        result->saved_tries += operation->kind == OPERATION_TRY && ok;
        account(run, operation);
    }
    result->take = summarise(take_ns, takes);
    result->give = summarise(give_ns, gives);
}

bool
replay_run(const struct script *script, const struct allocator *allocator,
           struct replay_result *out)
{
    struct replay_result result = {.clock_ns = clock_cost()};
    struct run run;
    float *take_ns = calloc(script->takes + 1, sizeof(float)),
          *give_ns = calloc(script->gives + 1, sizeof(float));
    bool ok = run_begin(&run, script, allocator) && take_ns && give_ns;
    if (ok) {
        run_timed(&run, &result, take_ns, give_ns);
        allocator->look(allocator->user, &result.state);
        *out = result;
    }
    run_end(&run);
    free(take_ns);
    free(give_ns);
    return ok;
}

/* -- memory over time -------------------------------------------------------------------------- */

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

size_t
replay_watch(const struct script *script, const struct allocator *allocator,
             struct replay_sample *samples, size_t room)
{
    struct run run;
    size_t count = 0, stretch = script->count / room + 1;
    if (!run_begin(&run, script, allocator)) {
        run_end(&run);
        return 0;
    }
    struct replay_sample sample = {0};
    for (size_t i = 0; i < script->count; i++) {
        const struct operation *operation = &script->operations[i];
        sample.failed |= !run_operation(&run, operation) && operation->kind == OPERATION_TAKE;
        account(&run, operation);
        sample.requested_bytes = larger(sample.requested_bytes, run.requested_bytes);
        sample.given_bytes = larger(sample.given_bytes, run.given_bytes);
        if ((i + 1) % stretch != 0 && i + 1 != script->count)
            continue;
        struct allocator_state state;
        allocator->look(allocator->user, &state);
        sample.operation = i + 1;
        sample.time_us = operation->time_us;
        sample.reserved_bytes = state.reserved_bytes;
        sample.fragmentation = state.fragmentation;
        samples[count++] = sample;
        sample = (struct replay_sample){0};
    }
    run_end(&run);
    return count;
}

/* -- limits ------------------------------------------------------------------------------------ */

bool
replay_fits(const struct script *script, const struct allocator *allocator)
{
    struct run run;
    bool fits = run_begin(&run, script, allocator);
    for (size_t i = 0; fits && i < script->count; i++) {
        const struct operation *operation = &script->operations[i];
        fits = operation->kind == OPERATION_TRY || run_operation(&run, operation);
        if (fits)
            account(&run, operation);
    }
    run_end(&run);
    return fits;
}

static bool
fits_in(const struct script *script, replay_opener *open, const struct allocator_options *options,
        uint64_t limit)
{
    struct allocator_options limited = *options;
    struct allocator allocator;
    limited.limit_bytes = limit;
    if (!open(&limited, &allocator))
        return false;
    bool fits = replay_fits(script, &allocator);
    allocator.close(allocator.user);
    return fits;
}

uint64_t
replay_smallest_limit(const struct script *script, replay_opener *open,
                      const struct allocator_options *options, uint64_t most_bytes)
{
    uint64_t low = script->peak_bytes > 0 ? script->peak_bytes - 1 : 0, high = most_bytes,
             step = script->peak_bytes / 1000 + 1;
    if (!fits_in(script, open, options, high))
        return 0;
    while (high > low && high - low > step) {
        uint64_t middle = low + (high - low) / 2;
        if (fits_in(script, open, options, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}
