/* SPDX-License-Identifier: MIT */
#include "src/transfer/scatter.h"

#include "src/transfer/scatter_cuda.h"
#include "src/transfer/scatter_hip.h"
#include "src/transfer/scatter_opencl.h"

/* Threads of a block, which the texts in other languages than CUDA declare. */
#define THREADS 128

/* The scatter kernel for each language of devices that have one: an image, or a text. */
static const ferry_kernel_code codes[] = {
    [FERRY_LANGUAGE_CUDA] = {.kind = FERRY_CODE_CUDA_IMAGE,
                             .code = ferryi_scatter_cuda,
                             .bytes = sizeof(ferryi_scatter_cuda)},
    [FERRY_LANGUAGE_HIP] = {.kind = FERRY_CODE_HIP, .code = ferryi_scatter_hip},
    [FERRY_LANGUAGE_OPENCL] = {.kind = FERRY_CODE_OPENCL, .code = ferryi_scatter_opencl},
};

bool
ferryi_scatter_may_run(const ferryi_device *device)
{
    const size_t language = device->properties.language;
    return (device->capabilities & FERRY_CAN_LOAD_CODE) &&
           !(device->capabilities & FERRYI_DEVICE_PINNED_APART) &&
           language < sizeof(codes) / sizeof(codes[0]) && codes[language].code;
}

static ferry_status
load_code(ferryi_device *device, void **out_module)
{
    const ferry_kernel_code *code = &codes[device->properties.language];
    const struct ferryi_code_job job = {.name = "ferry_scatter", .code = code};
    return code->bytes > 0 ? FERRYI_CALL(device, code_load, code->code, code->bytes, out_module)
                           : FERRYI_CALL(device, code_build, &job, out_module);
}

/* Loads the scatter kernel on a device. Must be called at most once for each device. */
FERRYI_REQUIRES(ferryi_port_mutex)
static void
load(ferryi_engine *engine, int place)
{
    ferryi_device *device = engine->devices[place];
    struct ferryi_port *port = &engine->ports[place];
    void *module = NULL, *function = NULL;
    port->scatter_asked = true;
    ferry_status status = load_code(device, &module);
    if (status == FERRY_OK) {
        port->scatter_module = module;
        status = FERRYI_CALL(device, code_function, module, "ferry_scatter", &function);
    }
    if (status == FERRY_OK)
        atomic_store_explicit(&port->scatter, function, memory_order_release);
    else
        ferryi_log(engine->config.log, FERRY_LOG_INFO,
                   "batches on %s:%d are copied one range at a time: %s", device->kind,
                   device->properties.native, ferry_last_error());
}

/* Returns the scatter kernel of a device, or NULL if the device has none. Loads it at the first
 * call. */
static void *
kernel_of(ferryi_engine *engine, int place)
{
    struct ferryi_port *port = &engine->ports[place];
    if (!ferryi_scatter_may_run(engine->devices[place]))
        return NULL;
    ferryi_mutex_lock(&port->mutex);
    if (!port->scatter_asked)
        load(engine, place);
    ferryi_mutex_unlock(&port->mutex);
    return atomic_load_explicit(&port->scatter, memory_order_acquire);
}

bool
ferryi_scatter_is_ready(ferryi_engine *engine, int place)
{
    return kernel_of(engine, place) != NULL;
}

ferry_status
ferryi_scatter_launch(ferryi_engine *engine, int place, ferryi_timeline *timeline,
                      const struct ferryi_copy *copies, size_t count,
                      struct ferryi_scatter_entry *table)
{
    struct ferryi_port *port = &engine->ports[place];
    void *kernel = kernel_of(engine, place);
    if (!kernel)
        return FERRY_ERROR_UNSUPPORTED;
    for (size_t i = 0; i < count; i++)
        table[i] = (struct ferryi_scatter_entry){(uintptr_t)copies[i].target,
                                                 (uintptr_t)copies[i].source, copies[i].bytes};
    void *arguments[] = {&table};
    const ferry_grid grid = {.blocks = {(uint32_t)count, 1, 1}, .threads = {THREADS, 1, 1}};
    const size_t bytes[] = {FERRYI_LAUNCH_ADDRESS};
    const struct ferryi_launch launch = {
        .function = kernel, .grid = &grid, .arguments = arguments, .bytes = bytes, .count = 1};
    ferry_status status = FERRYI_CALL(timeline->device, launch, &launch, timeline->native);
    if (status == FERRY_ERROR_UNSUPPORTED)
        atomic_store_explicit(&port->scatter, NULL, memory_order_release);
    return status;
}

void
ferryi_scatter_clear(ferryi_engine *engine, int place)
{
    struct ferryi_port *port = &engine->ports[place];
    ferryi_mutex_is_needless(&port->mutex);
    if (port->scatter_module &&
        FERRYI_CALL(engine->devices[place], code_unload, port->scatter_module) != FERRY_OK)
        ferryi_log(engine->config.log, FERRY_LOG_ERROR, "give back the kernel of batches: %s",
                   ferry_last_error());
}
