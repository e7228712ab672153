/* SPDX-License-Identifier: MIT */
#include "launcher.h"

/*
 * The work of a launch, as the functions of generated headers do it: the same grids, the same
 * memory, and so the same order of sums. No function here needs the interpreter.
 */

enum { BLOCK = 256, BLOCKS = 1024 }; /* as in gen/ferry_kernel.py and gen/ferry_kernels.py */

static size_t
blocks_for(size_t count)
{
    return count / (4 * BLOCK) < BLOCKS ? count / (4 * BLOCK) + 1 : BLOCKS;
}

static ferry_status
launch_map(struct ferrypy_launch *launch)
{
    return ferry_kernel_launch(launch->variant->first->kernel, ferry_grid_for(launch->count, BLOCK),
                               launch->stream, launch->arguments, launch->argument_count);
}

/* Launches both parts of a reduction. `result` is an argument of one element. */
static ferry_status
launch_reduction(struct launcher_object *self, struct ferrypy_launch *launch, ferry_argument result)
{
    const struct ferrypy_variant *variant = launch->variant;
    const ferry_element *element = variant->results[0];
    const size_t blocks = blocks_for(launch->count);
    ferry_argument combined[3];
    ferry_buffer *partial = NULL;
    ferry_status status;

    status = ferry_buffer_create(self->context->context, element, blocks, NULL, &partial);
    if (status != FERRY_OK)
        return status;
    launch->arguments[self->slot_count] = ferry_buffer_argument(partial, element, 0, FERRY_REST);
    status = ferry_kernel_launch(variant->first->kernel, ferry_grid_for(blocks * BLOCK, BLOCK),
                                 launch->stream, launch->arguments, launch->argument_count);
    if (status == FERRY_OK) {
        combined[0] = launch->arguments[self->slot_count];
        combined[1] = result;
        combined[2] = ferry_size_value(blocks);
        status = ferry_kernel_launch(variant->second->kernel, ferry_grid_for(BLOCK, BLOCK),
                                     launch->stream, combined, 3);
    }
    ferry_buffer_destroy(&partial);
    return status;
}

static ferry_status
run_reduction(struct launcher_object *self, struct ferrypy_launch *launch)
{
    ferry_kernel *kernel = launch->variant->first->kernel;
    const ferry_element *element = launch->variant->results[0];
    ferry_argument *given = &launch->arguments[self->slot_count];
    ferry_buffer *result = NULL;
    ferry_status status;

    if (ferry_kernel_runs_here(kernel, launch->stream)) {
        if (!launch->out)
            *given = ferry_result_argument(element, launch->words);
        return ferry_kernel_launch(kernel, ferry_grid_for(1, 1), launch->stream, launch->arguments,
                                   launch->argument_count);
    }
    if (launch->out)
        return launch_reduction(self, launch, *given);
    status = ferry_buffer_create(self->context->context, element, 1, NULL, &result);
    if (status == FERRY_OK)
        status =
            launch_reduction(self, launch, ferry_buffer_argument(result, element, 0, FERRY_REST));
    if (status == FERRY_OK)
        status = ferry_buffer_copy_to(result, element, 0, 1, launch->words, NULL);
    ferry_buffer_destroy(&result);
    return status;
}

/* Launches a map with results whose host function runs before the launch returns: it needs no
 * scratch memory. */
static ferry_status
launch_fused_here(struct launcher_object *self, struct ferrypy_launch *launch, size_t results)
{
    uint64_t scratch = 0;

    launch->arguments[self->slot_count] =
        ferry_result_argument(ferry_element_scalar(FERRY_KIND_UINT, 64), &scratch);
    for (size_t i = 0; !launch->out && i < results; i++)
        launch->arguments[self->slot_count + 1 + i] =
            ferry_result_argument(launch->variant->results[i], &launch->words[i]);
    return ferry_kernel_launch(launch->variant->first->kernel, ferry_grid_for(1, 1), launch->stream,
                               launch->arguments, launch->argument_count);
}

/* Launches a map with results, whose arguments are there. */
static ferry_status
launch_fused(struct launcher_object *self, struct ferrypy_launch *launch, size_t results)
{
    const ferry_element *word = ferry_element_scalar(FERRY_KIND_UINT, 64);
    const size_t blocks = blocks_for(launch->count);
    ferry_buffer *scratch = NULL;
    ferry_status status =
        ferry_buffer_create(self->context->context, word, 1 + results * blocks, NULL, &scratch);

    if (status != FERRY_OK)
        return status;
    launch->arguments[self->slot_count] = ferry_buffer_argument(scratch, word, 0, FERRY_REST);
    status =
        ferry_kernel_launch(launch->variant->first->kernel, ferry_grid_for(blocks * BLOCK, BLOCK),
                            launch->stream, launch->arguments, launch->argument_count);
    ferry_buffer_destroy(&scratch);
    return status;
}

static ferry_status
run_fused(struct launcher_object *self, struct ferrypy_launch *launch)
{
    const ferry_element *word = ferry_element_scalar(FERRY_KIND_UINT, 64);
    const size_t results = (size_t)PyTuple_Size(self->results), first = self->slot_count + 1;
    ferry_buffer *together = NULL, *views[FERRYPY_ARGUMENTS_MAX] = {NULL};
    ferry_status status;

    if (ferry_kernel_runs_here(launch->variant->first->kernel, launch->stream))
        return launch_fused_here(self, launch, results);
    if (launch->out)
        return launch_fused(self, launch, results);
    /* All results cross in one copy. */
    status = ferry_buffer_create(self->context->context, word, results, NULL, &together);
    for (size_t i = 0; status == FERRY_OK && i < results; i++) {
        const ferry_element *element = launch->variant->results[i];
        status = ferry_buffer_reinterpret(together, element, 8 * i, 1, &views[i]);
        launch->arguments[first + i] = ferry_buffer_argument(views[i], element, 0, FERRY_REST);
    }
    if (status == FERRY_OK)
        status = launch_fused(self, launch, results);
    if (status == FERRY_OK)
        status = ferry_buffer_copy_to(together, word, 0, results, launch->words, NULL);
    for (size_t i = 0; i < results; i++)
        ferry_buffer_destroy(&views[i]);
    ferry_buffer_destroy(&together);
    return status;
}

ferry_status
ferrypy_launch_run(struct launcher_object *self, struct ferrypy_launch *launch)
{
    if (self->form == FERRYPY_REDUCTION)
        return run_reduction(self, launch);
    return self->form == FERRYPY_FUSED ? run_fused(self, launch) : launch_map(launch);
}
