/* SPDX-License-Identifier: MIT */
#include "src/convert/converter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/convert/kernels.h"

enum { NEAREST, TOWARD_ZERO, FIRST_UNFIT, ENTRIES };

/* The texts of the kernels declare this number of threads, too. */
enum { THREADS = 256, BLOCKS_MOST = 1 << 16, VECTOR_BYTES = 16 };

/* Whether a device's code for a pair of source and target types is not loaded yet, is ready, or can
 * never be loaded. */
enum code_state { CODE_UNTRIED, CODE_READY, CODE_NEVER };
struct pair_code {
    _Atomic enum code_state state; /* once this is CODE_READY, the other members are constant */
    void *module; /* module that was compiled for this pair; NULL if the precompiled image contains
                     the pair */
    void *functions[ENTRIES]; /* the pair's entry points; functions[FIRST_UNFIT] is NULL if
                                 FERRY_CONVERT_CHECK accepts every element */
};

FERRYI_MUTEX_CLASS(ferryi_converter_mutex);

struct ferryi_converter {
    ferryi_device *device;
    const struct ferryi_log *log;
    const struct kernels *kernels;       /* those that the device runs; NULL: none */
    struct ferryi_converter_mutex mutex; /* held while code is loaded */
    FERRYI_GUARDED_BY(ferryi_converter_mutex) struct {
        bool image_tried;
        void *image; /* module of the precompiled image; NULL if the image is not loaded or does not
                        run on this device */
    };
    struct pair_code codes[ferryi_number_count][ferryi_number_count];
};

/* -- what there is ----------------------------------------------------------------------------- */

/* Names in the source of the kernels for each pair of source and target types. `line` is the source
 * line that instantiates the pair's kernels. `entry` is the prefix of the kernels' names. */
static const struct pair_name {
    const char *line, *entry;
} names[ferryi_number_count][ferryi_number_count] = {
#define PAIR(form, way, from, to, working)                                                         \
    [ferryi_number_##from][ferryi_number_##to] = {                                                 \
        "PAIR_" #form "(" #from ", " #to ", " #working ")\n", "ferryi_" #from "_to_" #to},
#include "src/convert/convert_pairs.h"
};

const char *
ferryi_convert_line(const ferry_element *from, const ferry_element *to)
{
    return ferryi_convert_kernel(from, to)
               ? names[ferryi_convert_number(from)][ferryi_convert_number(to)].line
               : NULL;
}

static const size_t no_bytes = 0;

/* The conversion kernels in one language. */
static const struct kernels {
    ferry_code_kind kind; /* of the text */
    bool searches_parts;  /* a search takes the index at which its part of the array begins */
    const unsigned char *text, *image;
    const size_t *text_bytes, *image_bytes;
} languages[] = {
    [FERRY_LANGUAGE_CUDA] = {FERRY_CODE_CUDA, false, ferryi_convert_text, ferryi_convert_image,
                             &ferryi_convert_text_bytes, &ferryi_convert_image_bytes},
    [FERRY_LANGUAGE_HIP] = {FERRY_CODE_CUDA, false, ferryi_convert_text, NULL,
                            &ferryi_convert_text_bytes, &no_bytes},
    [FERRY_LANGUAGE_OPENCL] = {FERRY_CODE_OPENCL, true, ferryi_convert_opencl, NULL,
                               &ferryi_convert_opencl_bytes, &no_bytes},
};

/* Returns the kernels that a device runs, or NULL. */
static const struct kernels *
kernels_for(const ferryi_device *device)
{
    const size_t language = device->properties.language;
    if (!(device->capabilities & FERRY_CAN_LOAD_CODE) ||
        language >= sizeof(languages) / sizeof(languages[0]) || !languages[language].text)
        return NULL;
    return &languages[language];
}

/* Returns whether conversions for this device run on the host, in stream order. This is the case if
 * the device runs no kernels, and the host can access its memory. */
static bool
runs_host_loops(const ferryi_converter *converter)
{
    const uint64_t needed = FERRY_CAN_RUN_HOST_FUNCTION | FERRYI_DEVICE_HOST_VISIBLE;
    return !converter->kernels && (converter->device->capabilities & needed) == needed;
}

/* -- code -------------------------------------------------------------------------------------- */

/* Loads the precompiled image as a module. Does nothing if the image was loaded before, or if it
 * was found not to run on this device. In the latter case the member `image` is NULL. */
FERRYI_REQUIRES(ferryi_converter_mutex)
static ferry_status
load_image(ferryi_converter *converter)
{
    const struct kernels *kernels = converter->kernels;
    if (converter->image_tried || *kernels->image_bytes == 0)
        return FERRY_OK;
    ferry_status status = FERRYI_CALL(converter->device, code_load, kernels->image,
                                      *kernels->image_bytes, &converter->image);
    if (status == FERRY_ERROR_OUT_OF_MEMORY || status == FERRY_ERROR_DEVICE_LOST)
        return status;
    converter->image_tried = true;
    if (status != FERRY_OK)
        ferryi_log(converter->log, FERRY_LOG_INFO, "load the precompiled conversions: %s",
                   ferry_last_error());
    return FERRY_OK;
}

static ferry_status
build_pair(const ferryi_converter *converter, const struct pair_name *name, void **out_module)
{
    const struct kernels *kernels = converter->kernels;
    size_t text_bytes = *kernels->text_bytes, line_bytes = strlen(name->line) + 1;
    char *text = malloc(text_bytes + line_bytes);
    if (!text)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for the source of a conversion");
    memcpy(text, kernels->text, text_bytes);
    memcpy(text + text_bytes, name->line, line_bytes);
    const ferry_kernel_code code = {.kind = kernels->kind, .flags = FERRY_CODE_EXACT, .code = text};
    const struct ferryi_code_job job = {.name = name->entry, .code = &code};
    ferry_status status = FERRYI_CALL(converter->device, code_build, &job, out_module);
    free(text);
    return status;
}

FERRYI_REQUIRES(ferryi_converter_mutex)
static ferry_status
find_functions(ferryi_converter *converter, const struct ferryi_convert_kernel *kernel,
               const struct pair_name *name, struct pair_code *code)
{
    static const char *const suffixes[ENTRIES] = {"nearest", "toward_zero", "first_unfit"};
    const bool there[ENTRIES] = {true, kernel->toward_zero != kernel->nearest,
                                 kernel->first_unfit != NULL};
    void *module = code->module ? code->module : converter->image;
    for (int entry = 0; entry < ENTRIES; entry++) {
        char text[96];
        snprintf(text, sizeof(text), "%s_%s", name->entry, suffixes[entry]);
        if (there[entry])
            FERRYI_OR_RETURN(FERRYI_CALL(converter->device, code_function, module, text,
                                         &code->functions[entry]));
    }
    if (!there[TOWARD_ZERO])
        code->functions[TOWARD_ZERO] = code->functions[NEAREST];
    return FERRY_OK;
}

static void
unload(ferryi_converter *converter, void **module)
{
    if (*module && FERRYI_CALL(converter->device, code_unload, *module) != FERRY_OK)
        ferryi_log(converter->log, FERRY_LOG_ERROR, "unload conversions: %s", ferry_last_error());
    *module = NULL;
}

/* Loads the code that converts a pair of number types. If memory is short or the device is lost, a
 * later call for the pair repeats the attempt. Any other failure is permanent. */
FERRYI_REQUIRES(ferryi_converter_mutex)
static void
load_pair(ferryi_converter *converter, const struct ferryi_convert_kernel *kernel,
          const struct pair_name *name, struct pair_code *code)
{
    ferry_status status = load_image(converter);
    if (status == FERRY_OK && !converter->image)
        status = build_pair(converter, name, &code->module);
    if (status == FERRY_OK)
        status = find_functions(converter, kernel, name, code);
    if (status == FERRY_OK) {
        atomic_store_explicit(&code->state, CODE_READY, memory_order_release);
        return;
    }
    ferryi_log(converter->log, FERRY_LOG_INFO, "%s is run by the host: %s", name->entry,
               ferry_last_error());
    unload(converter, &code->module);
    if (status != FERRY_ERROR_OUT_OF_MEMORY && status != FERRY_ERROR_DEVICE_LOST)
        atomic_store_explicit(&code->state, CODE_NEVER, memory_order_relaxed);
}

/* Returns the code that converts `from` to `to`, and loads it if necessary. Returns NULL if the
 * code cannot be loaded. */
static struct pair_code *
code_of(ferryi_converter *converter, const ferry_element *from, const ferry_element *to)
{
    const struct ferryi_convert_kernel *kernel = ferryi_convert_kernel(from, to);
    if (!kernel || !converter->kernels)
        return NULL;
    enum ferryi_number source = ferryi_convert_number(from), target = ferryi_convert_number(to);
    struct pair_code *code = &converter->codes[source][target];
    if (atomic_load_explicit(&code->state, memory_order_acquire) == CODE_UNTRIED) {
        ferryi_mutex_lock(&converter->mutex);
        if (atomic_load_explicit(&code->state, memory_order_relaxed) == CODE_UNTRIED)
            load_pair(converter, kernel, &names[source][target], code);
        ferryi_mutex_unlock(&converter->mutex);
    }
    return atomic_load_explicit(&code->state, memory_order_acquire) == CODE_READY ? code : NULL;
}

bool
ferryi_converter_can(ferryi_converter *converter, const ferry_element *from,
                     const ferry_element *to)
{
    if (!converter)
        return false;
    if (runs_host_loops(converter))
        return ferryi_convert_kernel(from, to);
    return code_of(converter, from, to) != NULL;
}

/* -- life -------------------------------------------------------------------------------------- */

ferry_status
ferryi_converter_create(ferryi_device *device, const struct ferryi_log *log, ferryi_converter **out)
{
    ferryi_converter *converter = calloc(1, sizeof(*converter));
    if (!converter)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "make the converter of %s:%d: no memory for %zu bytes", device->kind,
                           device->properties.native, sizeof(*converter));
    converter->device = device;
    converter->log = log;
    converter->kernels = kernels_for(device);
    ferryi_mutex_init(&converter->mutex);
    *out = converter;
    return FERRY_OK;
}

void
ferryi_converter_destroy(ferryi_converter **converter)
{
    if (!*converter)
        return;
    for (size_t from = 0; from < ferryi_number_count; from++)
        for (size_t to = 0; to < ferryi_number_count; to++)
            unload(*converter, &(*converter)->codes[from][to].module);
    unload(*converter, &(*converter)->image);
    ferryi_mutex_destroy(&(*converter)->mutex);
    free(*converter);
    *converter = NULL;
}

/* -- work -------------------------------------------------------------------------------------- */

/* Arguments of a conversion loop that the host runs in stream order. */
struct host_work {
    ferryi_convert_loop *loop;
    ferryi_convert_search *search; /* or NULL */
    void *target;
    const void *source;
    size_t source_bytes, target_bytes, count;
    uint64_t *first;
};

static void
run_host_work(void *user)
{
    struct host_work *work = user;
    if (work->search) {
        size_t index = work->search(work->source, work->count);
        if (index < work->count)
            *work->first = index;
    } else {
        ferryi_convert_array(work->loop, work->target, work->target_bytes, work->source,
                             work->source_bytes, work->count);
    }
    free(work);
}

static ferry_status
queue_host_work(ferryi_device *device, const struct host_work *work, void *stream)
{
    struct host_work *copy = malloc(sizeof(*copy));
    if (!copy)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "queue a conversion of %zu elements: no memory", work->count);
    *copy = *work;
    ferry_status status = FERRYI_CALL(device, host_call, stream, run_host_work, copy);
    if (status != FERRY_OK)
        free(copy);
    return status;
}

static ferry_status
launch(ferryi_device *device, void *function, void **arguments, const size_t *bytes,
       size_t argument_count, size_t work_items, void *stream)
{
    size_t blocks = (work_items + THREADS - 1) / THREADS;
    const ferry_grid grid = {.blocks = {(uint32_t)ferryi_min_size(blocks, BLOCKS_MOST), 1, 1},
                             .threads = {THREADS, 1, 1}};
    struct ferryi_launch launch = {.function = function,
                                   .grid = &grid,
                                   .arguments = arguments,
                                   .bytes = bytes,
                                   .count = argument_count};
    return FERRYI_CALL(device, launch, &launch, stream);
}

ferry_status
ferryi_converter_run(ferryi_converter *converter, const ferry_conversion *conversion,
                     ferry_convert_policy policy, void *target, const void *source, size_t count,
                     void *stream)
{
    const ferry_element *from = conversion->from, *to = conversion->to;
    if (count == 0)
        return FERRY_OK;
    if (runs_host_loops(converter)) {
        const struct ferryi_convert_kernel *kernel = ferryi_convert_kernel(from, to);
        struct host_work work = {.loop = policy == FERRY_CONVERT_TRUNCATE ? kernel->toward_zero
                                                                          : kernel->nearest,
                                 .target = target,
                                 .source = source,
                                 .source_bytes = from->bytes,
                                 .target_bytes = to->bytes,
                                 .count = count};
        return queue_host_work(converter->device, &work, stream);
    }
    struct pair_code *code = code_of(converter, from, to);
    if (!code)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "convert %zu elements on a device without code for it", count);
    void *arguments[] = {&target, &source, &count};
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS, FERRYI_LAUNCH_ADDRESS, sizeof(count)};
    size_t group = VECTOR_BYTES / ferryi_max_size(from->bytes, to->bytes);
    return launch(converter->device,
                  code->functions[policy == FERRY_CONVERT_TRUNCATE ? TOWARD_ZERO : NEAREST],
                  arguments, bytes, 3, (count + group - 1) / group, stream);
}

/* Elements that one launch searches, of a language whose searches take parts. Their indices have
 * the same upper 32 bits. */
#define PART_MOST ((uint64_t)1 << 31)

/* Launches the search, in parts if the language's kernels take such. */
static ferry_status
search_parts(const ferryi_converter *converter, void *function, const void *source,
             size_t source_bytes, size_t count, uint64_t *first, void *stream)
{
    const bool takes_parts = converter->kernels->searches_parts;
    const uint64_t most = takes_parts ? PART_MOST : count;
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS, sizeof(size_t), FERRYI_LAUNCH_ADDRESS,
                            sizeof(uint64_t)};
    ferry_status status = FERRY_OK;
    for (uint64_t start = 0; start < count && status == FERRY_OK; start += most) {
        const void *part = (const char *)source + start * source_bytes;
        size_t part_count = (size_t)(count - start < most ? count - start : most);
        void *arguments[] = {&part, &part_count, &first, &start};
        status = launch(converter->device, function, arguments, bytes, takes_parts ? 4 : 3,
                        part_count, stream);
    }
    return status;
}

ferry_status
ferryi_converter_search(ferryi_converter *converter, const ferry_conversion *conversion,
                        const void *source, size_t count, uint64_t *first, void *stream)
{
    const struct ferryi_convert_kernel *kernel =
        ferryi_convert_kernel(conversion->from, conversion->to);
    if (count == 0 || !kernel->first_unfit)
        return FERRY_OK;
    if (runs_host_loops(converter)) {
        struct host_work work = {
            .search = kernel->first_unfit, .source = source, .count = count, .first = first};
        return queue_host_work(converter->device, &work, stream);
    }
    struct pair_code *code = code_of(converter, conversion->from, conversion->to);
    if (!code)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "check %zu elements on a device without code for it", count);
    return search_parts(converter, code->functions[FIRST_UNFIT], source, conversion->from->bytes,
                        count, first, stream);
}
