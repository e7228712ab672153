/* SPDX-License-Identifier: MIT */
/* Builds and loads code on an OpenCL device, and launches its kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/opencl/opencl_device.h"

/* Handle of a kernel in a module. */
struct function {
    struct function *next;
    ferryi_cl_kernel kernel;
    /* Held from the first argument to the launch: setting an argument is the only call of OpenCL
     * that several threads may not make at once. */
    struct ferryi_opencl_kernel_mutex mutex;
    /* Value of the device's memory_version when the allocations were last declared. */
    FERRYI_GUARDED_BY(ferryi_opencl_kernel_mutex) uint64_t declared;
};

struct module {
    ferryi_cl_program program;
    struct ferryi_opencl_kernel_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_opencl_kernel_mutex) struct function *functions;
};

/* -- modules ----------------------------------------------------------------------------------- */

#define LOG_BYTES 3072

/* Adds the compiler's log to this thread's message. */
static ferry_status
explain_log(struct ferryi_opencl_device *opencl, ferryi_cl_program program, ferry_status status)
{
    const struct ferryi_opencl_driver *driver = opencl->driver;
    char why[256];
    size_t bytes = 0;
    snprintf(why, sizeof(why), "%s", ferry_last_error());
    if (driver->clGetProgramBuildInfo(program, opencl->device, FERRYI_CL_PROGRAM_BUILD_LOG, 0, NULL,
                                      &bytes) != FERRYI_CL_SUCCESS)
        return status;
    char *log = calloc(1, bytes + 1);
    if (log &&
        driver->clGetProgramBuildInfo(program, opencl->device, FERRYI_CL_PROGRAM_BUILD_LOG, bytes,
                                      log, NULL) == FERRYI_CL_SUCCESS &&
        *log)
        ferryi_explain("%s: %.*s", why, LOG_BYTES, log);
    free(log);
    return status;
}

/* Builds a program, which this function then owns, and makes a module of it. */
static ferry_status
build(struct ferryi_opencl_device *opencl, ferryi_cl_program program, const char *options,
      void **out_module)
{
    ferry_status status = FERRYI_OPENCL_CALL(opencl, clBuildProgram, program, 1, &opencl->device,
                                             options, NULL, NULL);
    struct module *module = NULL;
    if (status != FERRY_OK)
        explain_log(opencl, program, status);
    else if (out_module && !(module = calloc(1, sizeof(*module))))
        status = ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no host memory for its description");
    if (!module) {
        opencl->driver->clReleaseProgram(program);
        return status;
    }
    module->program = program;
    ferryi_mutex_init(&module->mutex);
    *out_module = module;
    return FERRY_OK;
}

/* Makes the line of options for the compiler. It includes those of the library: the information on
 * arguments that code_parameters reports, exact division where the code asks for it, and a macro
 * for devices that do not compute with denormal floats. */
static char *
make_options(const struct ferryi_opencl_device *opencl, const ferry_kernel_code *code)
{
    static const char always[] = "-cl-kernel-arg-info";
    static const char exact[] = " -cl-fp32-correctly-rounded-divide-sqrt";
    static const char flushes[] = " -DFERRY_FLUSHES_DENORMALS";
    const bool is_exact = (code->flags & FERRY_CODE_EXACT) && opencl->rounds_division;
    size_t bytes = sizeof(always) + sizeof(exact) + sizeof(flushes);
    for (size_t i = 0; i < code->option_count; i++)
        bytes += strlen(code->options[i]) + 1;
    char *line = malloc(bytes);
    if (!line)
        return NULL;
    char *end = stpcpy(line, always);
    if (is_exact)
        end = stpcpy(end, exact);
    if (!opencl->has_denormals)
        end = stpcpy(end, flushes);
    for (size_t i = 0; i < code->option_count; i++) {
        *end++ = ' ';
        end = stpcpy(end, code->options[i]);
    }
    return line;
}

static ferry_status
create_program(struct ferryi_opencl_device *opencl, const ferry_kernel_code *code,
               ferryi_cl_program *out)
{
    const char *text = code->code;
    ferryi_cl_int result = FERRYI_CL_SUCCESS;
    if (code->kind == FERRY_CODE_OPENCL) {
        *out = opencl->driver->clCreateProgramWithSource(opencl->platform->context, 1, &text, NULL,
                                                         &result);
        return *out ? FERRY_OK : ferryi_opencl_check(opencl, "clCreateProgramWithSource", result);
    }
    if (code->kind != FERRY_CODE_SPIRV)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "opencl:%d compiles OpenCL C source and SPIR-V only", opencl->ordinal);
    if (!opencl->takes_spirv)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "the driver of opencl:%d takes no SPIR-V",
                           opencl->ordinal);
    *out = opencl->driver->clCreateProgramWithIL(opencl->platform->context, code->code, code->bytes,
                                                 &result);
    return *out ? FERRY_OK : ferryi_opencl_check(opencl, "clCreateProgramWithIL", result);
}

ferry_status
ferryi_opencl_code_build(ferryi_device *device, const struct ferryi_code_job *job,
                         void **out_module)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    ferryi_cl_program program;
    ferry_status status = create_program(opencl, job->code, &program);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "compile \"%s\"", job->name);
    char *options = make_options(opencl, job->code);
    if (!options) {
        opencl->driver->clReleaseProgram(program);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "compile \"%s\": no host memory for its options", job->name);
    }
    status = build(opencl, program, options, out_module);
    free(options);
    return status == FERRY_OK ? status : ferryi_fail_in(status, "compile \"%s\"", job->name);
}

/* Loads a binary, which is of one device and driver. */
ferry_status
ferryi_opencl_code_load(ferryi_device *device, const void *image, size_t bytes, void **out_module)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    const unsigned char *binary = image;
    ferryi_cl_int result = FERRYI_CL_SUCCESS, state = FERRYI_CL_SUCCESS;
    ferryi_cl_program program = opencl->driver->clCreateProgramWithBinary(
        opencl->platform->context, 1, &opencl->device, &bytes, &binary, &state, &result);
    ferry_status status = program
                              ? build(opencl, program, "", out_module)
                              : ferryi_opencl_check(opencl, "clCreateProgramWithBinary", result);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "load %zu bytes of code for %s", bytes,
                                               device->properties.target);
}

ferry_status
ferryi_opencl_code_unload(ferryi_device *device, void *handle)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct module *module = handle;
    ferryi_mutex_is_needless(&module->mutex);
    while (module->functions) {
        struct function *function = module->functions;
        module->functions = function->next;
        opencl->driver->clReleaseKernel(function->kernel);
        ferryi_mutex_destroy(&function->mutex);
        free(function);
    }
    const ferryi_cl_int result = opencl->driver->clReleaseProgram(module->program);
    ferryi_mutex_destroy(&module->mutex);
    free(module);
    return ferryi_opencl_check(opencl, "clReleaseProgram", result);
}

/* -- kernels ----------------------------------------------------------------------------------- */

ferry_status
ferryi_opencl_code_function(ferryi_device *device, void *handle, const char *name, void **out)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct module *module = handle;
    ferryi_cl_int result = FERRYI_CL_SUCCESS;
    struct function *function = calloc(1, sizeof(*function));
    if (!function)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "find the kernel %s on opencl:%d: no host memory for its description",
                           name, opencl->ordinal);
    function->kernel = opencl->driver->clCreateKernel(module->program, name, &result);
    if (!function->kernel) {
        free(function);
        ferry_status status = ferryi_opencl_check(opencl, "clCreateKernel", result);
        return ferryi_fail_in(status, "find the kernel %s", name);
    }
    ferryi_mutex_init(&function->mutex);
    ferryi_mutex_lock(&module->mutex);
    function->next = module->functions;
    module->functions = function;
    ferryi_mutex_unlock(&module->mutex);
    *out = function;
    return FERRY_OK;
}

/* Returns the size of a scalar type of OpenCL C, and 0 for any other type. */
static size_t
scalar_bytes(const char *type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"char", 1},    {"uchar", 1},    {"short", 2},   {"ushort", 2},  {"half", 2},
                 {"int", 4},     {"uint", 4},     {"float", 4},   {"long", 8},    {"ulong", 8},
                 {"double", 8},  {"int8_t", 1},   {"uint8_t", 1}, {"int16_t", 2}, {"uint16_t", 2},
                 {"int32_t", 4}, {"uint32_t", 4}, {"int64_t", 8}, {"uint64_t", 8}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].bytes;
    return 0;
}

/* Returns the size of an argument of a kernel, and 0 if the driver does not report it. */
static size_t
argument_bytes(const struct ferryi_opencl_driver *driver, ferryi_cl_kernel kernel,
               ferryi_cl_uint index)
{
    ferryi_cl_uint space = 0;
    char type[64] = "";
    if (driver->clGetKernelArgInfo(kernel, index, FERRYI_CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                   sizeof(space), &space, NULL) != FERRYI_CL_SUCCESS)
        return 0;
    if (space != FERRYI_CL_KERNEL_ARG_ADDRESS_PRIVATE)
        return sizeof(void *);
    return driver->clGetKernelArgInfo(kernel, index, FERRYI_CL_KERNEL_ARG_TYPE_NAME,
                                      sizeof(type) - 1, type, NULL) == FERRYI_CL_SUCCESS
               ? scalar_bytes(type)
               : 0;
}

ferry_status
ferryi_opencl_code_parameters(ferryi_device *device, void *handle, size_t most, size_t *out_bytes,
                              size_t *out_count)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    const struct function *function = handle;
    ferryi_cl_uint count = 0;
    FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clGetKernelInfo, function->kernel,
                                        FERRYI_CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL));
    *out_count = ferryi_min_size(count, most);
    for (size_t i = 0; i < *out_count; i++)
        out_bytes[i] = argument_bytes(opencl->driver, function->kernel, (ferryi_cl_uint)i);
    return FERRY_OK;
}

/* -- launches ---------------------------------------------------------------------------------- */

static ferry_status
set_argument(struct ferryi_opencl_device *opencl, ferryi_cl_kernel kernel,
             const struct ferryi_launch *launch, ferryi_cl_uint i)
{
    void *value = launch->arguments[i];
    if (launch->bytes[i] != FERRYI_LAUNCH_ADDRESS)
        return FERRYI_OPENCL_CALL(opencl, clSetKernelArg, kernel, i, launch->bytes[i], value);
    const void *address = *(void **)value;
    if (!address)
        return FERRYI_OPENCL_CALL(opencl, clSetKernelArg, kernel, i, sizeof(address), NULL);
    if (opencl->model == FERRYI_OPENCL_USM)
        return FERRYI_OPENCL_RUN(
            opencl, clSetKernelArgMemPointerINTEL,
            opencl->platform->usm.clSetKernelArgMemPointerINTEL(kernel, i, address));
    return FERRYI_OPENCL_CALL(opencl, clSetKernelArgSVMPointer, kernel, i, address);
}

/* Sets all arguments. Dynamic shared memory is one more parameter of the kernel, a pointer to
 * `__local` memory. Declares the allocations again if there are others than at the last launch. */
FERRYI_REQUIRES(ferryi_opencl_kernel_mutex)
static ferry_status
set_arguments(struct ferryi_opencl_device *opencl, struct function *function,
              const struct ferryi_launch *launch)
{
    const uint64_t version = atomic_load(&opencl->memory_version);
    for (size_t i = 0; i < launch->count; i++) {
        ferry_status status = set_argument(opencl, function->kernel, launch, (ferryi_cl_uint)i);
        if (status != FERRY_OK)
            return ferryi_fail_in(status, "pass argument %zu", i);
    }
    if (launch->grid->shared_bytes > 0)
        FERRYI_OR_RETURN(FERRYI_OPENCL_CALL(opencl, clSetKernelArg, function->kernel,
                                            (ferryi_cl_uint)launch->count,
                                            launch->grid->shared_bytes, NULL));
    if (function->declared != version) {
        FERRYI_OR_RETURN(ferryi_opencl_memory_declare(opencl, function->kernel));
        function->declared = version;
    }
    return FERRY_OK;
}

ferry_status
ferryi_opencl_launch(ferryi_device *device, const struct ferryi_launch *launch, void *stream)
{
    struct ferryi_opencl_device *opencl = ferryi_opencl_of(device);
    struct function *function = launch->function;
    const ferry_grid *grid = launch->grid;
    size_t all[3], group[3];
    for (int i = 0; i < 3; i++) {
        group[i] = grid->threads[i];
        all[i] = (size_t)grid->blocks[i] * grid->threads[i];
    }
    ferryi_mutex_lock(&function->mutex);
    ferry_status status = set_arguments(opencl, function, launch);
    if (status == FERRY_OK)
        status = FERRYI_OPENCL_CALL(opencl, clEnqueueNDRangeKernel, stream, function->kernel, 3,
                                    NULL, all, group, 0, NULL, NULL);
    ferryi_mutex_unlock(&function->mutex);
    if (status == FERRY_OK)
        status = FERRYI_OPENCL_CALL(opencl, clFlush, stream);
    return status == FERRY_OK
               ? FERRY_OK
               : ferryi_fail_in(status, "launch %ux%ux%u blocks of %ux%ux%u threads",
                                grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads[0],
                                grid->threads[1], grid->threads[2]);
}
