/* SPDX-License-Identifier: MIT */
#include "tests/support/foreign.h"

#include <stdio.h>
#include <string.h>

struct foreign foreign;

static ferry_status
refuse(ferry_code_kind kind)
{
    ferry_status status = foreign.refuses[kind];
    return status == FERRY_OK ? status : ferryi_fail(status, "the foreign device refuses it");
}

static ferry_status
foreign_code_load(ferryi_device *device, const void *image, size_t bytes, void **out_module)
{
    int kind = *(const char *)image - '0';
    (void)device, (void)bytes;
    foreign.loads++;
    if (kind >= FERRY_CODE_CUDA && kind <= FERRY_CODE_OPENCL_BINARY)
        FERRYI_OR_RETURN(refuse((ferry_code_kind)kind));
    *out_module = &foreign;
    return FERRY_OK;
}

static ferry_status
foreign_code_build(ferryi_device *device, const struct ferryi_code_job *job, void **out_module)
{
    const ferry_kernel_code *code = job->code;
    size_t length = 0;
    (void)device;
    foreign.builds += out_module != NULL;
    foreign.checks += out_module == NULL;
    FERRYI_OR_RETURN(refuse(code->kind));
    foreign.kind = code->kind;
    foreign.exact = code->flags & FERRY_CODE_EXACT;
    foreign.options[0] = 0;
    for (size_t i = 0; i < code->option_count && length < sizeof(foreign.options); i++)
        length += (size_t)snprintf(foreign.options + length, sizeof(foreign.options) - length,
                                   " %s", code->options[i]);
    if (code->kind != FERRY_CODE_SPIRV)
        snprintf(foreign.text, sizeof(foreign.text), "%s", (const char *)code->code);
    if (out_module)
        *out_module = &foreign;
    return FERRY_OK;
}

static ferry_status
foreign_code_unload(ferryi_device *device, void *module)
{
    (void)device, (void)module;
    return FERRY_OK;
}

static ferry_status
foreign_code_function(ferryi_device *device, void *module, const char *name, void **out_function)
{
    (void)device, (void)name;
    *out_function = module;
    return FERRY_OK;
}

static ferry_status
foreign_launch(ferryi_device *device, const struct ferryi_launch *launch, void *stream)
{
    foreign.launches++;
    foreign.launch = (struct foreign_launch){
        .count = launch->count, .arguments = launch->arguments, .grid = *launch->grid};
    for (size_t i = 0; i < launch->count && i < FOREIGN_ARGUMENTS; i++)
        foreign.launch.bytes[i] = launch->bytes[i];
    FERRYI_OR_RETURN(device->ops->stream_synchronize(device, stream));
    if (foreign.run)
        foreign.run(&foreign.launch);
    return FERRY_OK;
}

static ferry_status
foreign_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    static struct ferryi_device_ops ops; /* the same for every emulated device */
    FERRYI_OR_RETURN(ferryi_emulated_kind.open(ordinal, config, out));
    ferryi_device *device = *out;
    ops = *device->ops;
    ops.code_load = foreign_code_load;
    ops.code_build = foreign_code_build;
    ops.code_unload = foreign_code_unload;
    ops.code_function = foreign_code_function;
    ops.launch = foreign_launch;
    device->ops = &ops;
    device->kind = "foreign";
    device->capabilities |= foreign.capabilities;
    if (foreign.hides_memory)
        device->capabilities &=
            ~(uint64_t)(FERRY_CAN_RUN_HOST_FUNCTION | FERRYI_DEVICE_HOST_VISIBLE);
    device->properties.language = foreign.language;
    snprintf(device->properties.target, sizeof(device->properties.target), "%s", foreign.target);
    return FERRY_OK;
}

static int
foreign_count(void)
{
    return 1;
}

void
foreign_begin(ferry_language language, const char *target, uint64_t capabilities)
{
    static const ferryi_device_kind kind = {
        .name = "foreign", .count = foreign_count, .open = foreign_open, .made_up = true};
    foreign =
        (struct foreign){.language = language, .target = target, .capabilities = capabilities};
    ferryi_device_register(&kind);
}
