/* SPDX-License-Identifier: MIT */
#include "src/exchange/exchange.h"
#include "src/stream/shell.h"

/* Converts places to DLPack's device types and device numbers, which Arrow uses as well. */

static int32_t
device_type(const ferry_context *context, int place)
{
    const ferryi_device *device = context->devices[place];
    if (place == FERRY_PLACE_HOST || device->capabilities & FERRYI_DEVICE_COHERENT)
        return FERRYI_DL_CPU;
    switch (device->properties.language) {
    case FERRY_LANGUAGE_CUDA:
        return FERRYI_DL_CUDA;
    case FERRY_LANGUAGE_HIP:
        return FERRYI_DL_ROCM;
    case FERRY_LANGUAGE_OPENCL:
        return FERRYI_DL_OPENCL;
    case FERRY_LANGUAGE_NONE:
        break;
    }
    return FERRYI_DL_EXT_DEV;
}

static int32_t
device_number(const ferry_context *context, int place)
{
    return device_type(context, place) == FERRYI_DL_CPU
               ? 0
               : context->devices[place]->properties.native;
}

ferry_status
ferry_context_exchange_device(ferry_context *context, int place, int32_t *out_type, int32_t *out_id)
{
    static const char what[] = "find the exchange device of a place";
    if (!context || !out_type || !out_id)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: context, out_type or out_id is NULL",
                           what);
    FERRYI_OR_RETURN(ferryi_shell_check_alive(context, what));
    if (place < 0 || place > context->place_count)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: there is no place %d among %d devices", what, place,
                           context->place_count);
    *out_type = device_type(context, place);
    *out_id = device_number(context, place);
    return FERRY_OK;
}

int
ferry_context_exchange_place(ferry_context *context, int32_t type, int32_t id)
{
    if (!context || atomic_load(&context->closed))
        return -1;
    if (ferryi_dl_is_host(type))
        return id == 0 || id == -1 ? FERRY_PLACE_HOST : -1;
    if (type == FERRYI_DL_CUDA_MANAGED)
        type = FERRYI_DL_CUDA;
    for (int place = 1; place <= context->place_count; place++)
        if (device_type(context, place) == type && device_number(context, place) == id)
            return place;
    return -1;
}
