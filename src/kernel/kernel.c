/* SPDX-License-Identifier: MIT */
#include "src/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/base/fork.h"
#include "src/debug/debug.h"

static struct ferryi_kernels_mutex list_mutex = FERRYI_MUTEX_INITIALIZER;
static struct ferryi_fork_part listing = {.mutex = FERRYI_SYSTEM_MUTEX(&list_mutex)};
FERRYI_AT_FORK(listing)
FERRYI_GUARDED_BY(ferryi_kernels_mutex) static ferry_kernel *all_kernels;

/* -- the copy of the description --------------------------------------------------------------- */

static void
release(void *header)
{
    ferry_kernel *kernel = header;
    ferryi_mutex_is_needless(&kernel->mutex);
    ferryi_images_free(&kernel->images);
    ferryi_codes_free(&kernel->codes);
    free(kernel->parameters);
    free(kernel->name);
    ferryi_mutex_destroy(&kernel->mutex);
    if (kernel->context)
        ferryi_shell_release(kernel->context);
    free(kernel);
}

static void
kernel_free(ferry_kernel *kernel)
{
    ferryi_quarantine_free(kernel->context->debug, kernel, release);
}

/* Returns the language of the devices of a context that run code. All of them are of one kind. */
static ferry_language
language_of(const ferry_context *context)
{
    ferry_language language = FERRY_LANGUAGE_NONE;
    for (int place = 1; place <= context->place_count; place++)
        if (context->devices[place]->properties.language != FERRY_LANGUAGE_NONE)
            language = context->devices[place]->properties.language;
    return language;
}

static ferry_status
copy_source(ferry_kernel *kernel, const ferry_kernel_source *source)
{
    const ferry_context *context = kernel->context;
    kernel->host_function = source->host_function;
    kernel->user = source->user;
    kernel->name = strdup(source->name);
    if (!kernel->name)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for its description");
    FERRYI_OR_RETURN(ferryi_kernel_copy_parameters(source, &kernel->parameters));
    kernel->parameter_count = source->parameter_count;
    FERRYI_OR_RETURN(
        ferryi_codes_copy(source, language_of(context), kernel->parameters, &kernel->codes));
    for (int place = 1; place <= context->place_count; place++)
        if (ferryi_codes_next(&kernel->codes, context->devices[place], NULL))
            kernel->code_places |= UINT32_C(1) << place;
    return FERRY_OK;
}

/* -- code -------------------------------------------------------------------------------------- */

enum ferryi_kernel_body
ferryi_kernel_body_at(const ferry_kernel *kernel, int place)
{
    uint64_t can = kernel->context->devices[place]->capabilities;
    if (kernel->code_places >> place & 1)
        return FERRYI_BODY_CODE;
    if ((can & FERRY_CAN_RUN_HOST_FUNCTION) && kernel->host_function)
        return FERRYI_BODY_HOST;
    return FERRYI_BODY_NONE;
}

static void
code_destroy(ferryi_device *device, struct ferryi_loaded_code *code, const struct ferryi_log *log,
             const char *name)
{
    if (code->module && FERRYI_CALL(device, code_unload, code->module) != FERRY_OK)
        ferryi_log(log, FERRY_LOG_ERROR, "unload kernel \"%s\": %s", name, ferry_last_error());
    free(code);
}

/* Compiles one of the kernel's codes for a device, and loads the result unless `out_module` is
 * NULL.
 */
FERRYI_REQUIRES(ferryi_kernel_mutex)
static ferry_status
build_code(ferry_kernel *kernel, const ferry_kernel_code *code, ferryi_device *device,
           void **out_module)
{
    const struct ferryi_code_job job = {
        .name = kernel->name, .code = code, .images = &kernel->images};
    return FERRYI_CALL(device, code_build, &job, out_module);
}

/* Loads the first code that the driver does not refuse. */
FERRYI_REQUIRES(ferryi_kernel_mutex)
static ferry_status
load_module(ferry_kernel *kernel, ferryi_device *device, void **out_module)
{
    const ferry_kernel_code *code = ferryi_codes_next(&kernel->codes, device, NULL), *next;
    for (;; code = next) {
        ferry_status status =
            ferryi_code_is_compiled(code)
                ? build_code(kernel, code, device, out_module)
                : FERRYI_CALL(device, code_load, code->code, code->bytes, out_module);
        next = ferryi_codes_next(&kernel->codes, device, code);
        if (!next || (status != FERRY_ERROR_UNSUPPORTED && status != FERRY_ERROR_DEVICE))
            return status;
        ferryi_log(&kernel->context->log, FERRY_LOG_INFO,
                   "load kernel \"%s\": the driver refuses an image, and another code is tried: %s",
                   kernel->name, ferry_last_error());
    }
}

FERRYI_REQUIRES(ferryi_kernel_mutex)
static ferry_status
load_code(ferry_kernel *kernel, int place, struct ferryi_loaded_code **out)
{
    ferryi_device *device = kernel->context->devices[place];
    struct ferryi_loaded_code *code = calloc(1, sizeof(*code));
    if (!code)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "no memory for the description of loaded code");
    ferry_status status = load_module(kernel, device, &code->module);
    if (status == FERRY_OK)
        status = FERRYI_CALL(device, code_function, code->module, kernel->name, &code->function);
    if (status == FERRY_OK)
        status = ferryi_kernel_check_code(kernel, device, code->function);
    if (status != FERRY_OK) {
        FERRYI_KEEP_ERROR(why);
        code_destroy(device, code, &kernel->context->log, kernel->name);
        return status;
    }
    *out = code;
    return FERRY_OK;
}

ferry_status
ferryi_kernel_code_at(ferry_kernel *kernel, int place, struct ferryi_loaded_code **out)
{
    struct ferryi_loaded_code *code =
        atomic_load_explicit(&kernel->code[place], memory_order_acquire);
    ferry_status status = FERRY_OK;
    if (!code) {
        ferryi_mutex_lock(&kernel->mutex);
        code = atomic_load_explicit(&kernel->code[place], memory_order_relaxed);
        if (!code) {
            status = load_code(kernel, place, &code);
            if (status == FERRY_OK)
                atomic_store_explicit(&kernel->code[place], code, memory_order_release);
        }
        ferryi_mutex_unlock(&kernel->mutex);
    }
    if (status == FERRY_OK)
        *out = code;
    return status;
}

/* Compiles the kernel for every device that runs code, so that errors are reported when the kernel
 * is created. Loads the code only on the first such device. */
static ferry_status
prepare_code(ferry_kernel *kernel)
{
    bool loaded = false;
    for (int place = 1; place <= kernel->context->place_count; place++) {
        if (ferryi_kernel_body_at(kernel, place) != FERRYI_BODY_CODE)
            continue;
        struct ferryi_loaded_code *loaded_code;
        ferryi_device *device = kernel->context->devices[place];
        const ferry_kernel_code *code = ferryi_codes_next(&kernel->codes, device, NULL);
        ferry_status status = FERRY_OK;
        if (!loaded) {
            status = ferryi_kernel_code_at(kernel, place, &loaded_code);
        } else if (ferryi_code_is_compiled(code)) {
            ferryi_mutex_lock(&kernel->mutex);
            status = build_code(kernel, code, device, NULL);
            ferryi_mutex_unlock(&kernel->mutex);
        }
        if (status != FERRY_OK)
            return status;
        loaded = true;
    }
    return FERRY_OK;
}

/* -- when code may be unloaded ----------------------------------------------------------------- */

void
ferryi_kernel_note_use(struct ferryi_loaded_code *code, ferryi_timeline *timeline)
{
    if (!ferryi_timeline_is_numbered(timeline) || ferryi_timeline_is_captured(timeline)) {
        atomic_store_explicit(&code->stays_loaded, true, memory_order_relaxed);
        return;
    }
    /* is_idle() loads the sync point with acquire order, and then reads order->timelines. The
     * release order of this store makes the timeline's entry in that table visible. */
    atomic_store_explicit(&code->uses[timeline->number], ferryi_timeline_sync_point(timeline),
                          memory_order_release);
}

/* Returns true if all launches of the code are known to have finished. The function does not block,
 * and queries no stream that is being captured. */
static bool
is_idle(ferryi_order *order, struct ferryi_loaded_code *code)
{
    if (atomic_load_explicit(&code->stays_loaded, memory_order_relaxed))
        return false;
    for (unsigned number = 1; number < FERRYI_TIMELINES; number++) {
        ferryi_sync_point point = atomic_load_explicit(&code->uses[number], memory_order_acquire);
        if (ferryi_sync_point_is_done(order, point))
            continue;
        ferryi_timeline *timeline = order->timelines[number];
        if (!ferryi_timeline_is_retired(timeline) &&
            ferryi_timeline_check_capture(timeline) != FERRY_OK)
            return false;
        if (!ferryi_sync_point_query(order, point))
            return false;
    }
    return true;
}

static void
unload(ferry_kernel *kernel)
{
    for (int place = 1; place <= kernel->context->place_count; place++) {
        struct ferryi_loaded_code *code = atomic_exchange(&kernel->code[place], NULL);
        if (code)
            code_destroy(kernel->context->devices[place], code, &kernel->context->log,
                         kernel->name);
    }
}

static void
link_kernel(ferry_kernel *kernel)
{
    ferryi_mutex_lock(&list_mutex);
    FERRYI_LIST_ADD(&all_kernels, kernel, next, link);
    ferryi_mutex_unlock(&list_mutex);
}

static bool
is_all_idle(ferry_kernel *kernel)
{
    for (int place = 1; place <= kernel->context->place_count; place++) {
        struct ferryi_loaded_code *code = atomic_load(&kernel->code[place]);
        if (code && !is_idle(&kernel->context->order, code))
            return false;
    }
    return true;
}

/* Removes destroyed kernels of a context from the list of kernels, and returns them linked by
 * `next`. If `work_is_over` is false, only kernels whose launches have all finished are removed. */
static ferry_kernel *
take_dead(ferry_context *context, bool work_is_over)
{
    ferry_kernel *taken = NULL;
    ferryi_mutex_lock(&list_mutex);
    for (ferry_kernel *kernel = all_kernels, *next; kernel; kernel = next) {
        next = kernel->next;
        if (!kernel->dead || kernel->context != context || !(work_is_over || is_all_idle(kernel)))
            continue;
        FERRYI_LIST_REMOVE(kernel, next, link);
        kernel->next = taken;
        taken = kernel;
    }
    ferryi_mutex_unlock(&list_mutex);
    return taken;
}

static void
free_dead(ferry_context *context, bool work_is_over)
{
    ferryi_mutex_is_needless(&list_mutex); /* the removed kernels are no longer in the list, so
                                              reading their `next` needs no lock */
    for (ferry_kernel *kernel = take_dead(context, work_is_over), *next; kernel; kernel = next) {
        next = kernel->next;
        unload(kernel);
        kernel_free(kernel);
    }
}

void
ferryi_kernels_close(ferry_context *context)
{
    free_dead(context, true);
    ferryi_mutex_lock(&list_mutex);
    for (ferry_kernel *kernel = all_kernels; kernel; kernel = kernel->next)
        if (kernel->context == context)
            unload(kernel);
    ferryi_mutex_unlock(&list_mutex);
}

/* -- public ------------------------------------------------------------------------------------ */

ferry_status
ferry_kernel_create(ferry_context *context, const ferry_kernel_source *source, ferry_kernel **out)
{
    if (!context || !out)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a kernel: %s is NULL",
                           context ? "out" : "the context");
    ferry_status status = ferryi_shell_check_open(context, "create a kernel");
    if (status == FERRY_OK)
        status = ferryi_kernel_check_source(source, "create kernel");
    if (status != FERRY_OK)
        return status;
    if (source->code_count == 0 && !source->host_function)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "create kernel \"%s\": it has no code and no host function",
                           source->name);
    free_dead(context, false);
    ferry_kernel *kernel = calloc(1, sizeof(*kernel));
    if (!kernel)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "create kernel \"%s\": no memory for %zu bytes", source->name,
                           sizeof(*kernel));
    ferryi_mutex_init(&kernel->mutex);
    kernel->context = context;
    ferryi_shell_retain(context);
    status = copy_source(kernel, source);
    if (status == FERRY_OK)
        status = prepare_code(kernel);
    if (status != FERRY_OK) {
        ferryi_fail_in(status, "create kernel \"%s\"", source->name);
        goto fail;
    }
    link_kernel(kernel);
    *out = kernel;
    return FERRY_OK;

fail:
    unload(kernel);
    kernel_free(kernel);
    return status;
}

void
ferry_kernel_destroy(ferry_kernel **kernel)
{
    if (!kernel || !*kernel)
        return;
    ferry_kernel *gone = *kernel;
    ferry_context *context = gone->context;
    if (ferryi_callback_refuses_end(&context->log, ferryi_callback_in_any_call(),
                                    "destroy a kernel"))
        return;
    *kernel = NULL;
    if (context->inherited)
        return;
    if (atomic_load(&gone->dead)) {
        ferryi_log(&context->log, FERRY_LOG_ERROR, "destroy kernel \"%s\": it was destroyed before",
                   gone->name);
        return;
    }
    /* free_dead() may free the kernel and thereby release the kernel's reference to the context.
     * The reference that is taken here keeps the context's memory valid until the function ends. */
    ferryi_shell_retain(context);
    ferryi_mutex_lock(&list_mutex);
    gone->dead = true;
    ferryi_mutex_unlock(&list_mutex);
    free_dead(context, false);
    ferryi_shell_release(context);
}
