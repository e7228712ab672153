/* SPDX-License-Identifier: MIT */
#include "src/device/target.h"

#include <string.h>

bool
ferryi_cuda_target_read(const char *text, struct ferryi_cuda_target *out)
{
    *out = (struct ferryi_cuda_target){.is_portable = strncmp(text, "compute_", 8) == 0};
    if (!out->is_portable && strncmp(text, "sm_", 3) != 0)
        return false;
    text += out->is_portable ? 8 : 3;
    size_t digits = strspn(text, "0123456789");
    if (digits < 2 || digits > 3 || *text == '0')
        return false;
    for (size_t i = 0; i < digits; i++)
        out->architecture = 10 * out->architecture + (text[i] - '0');
    out->letter = text[digits];
    return !out->letter || ((out->letter == 'a' || out->letter == 'f') && !text[digits + 1]);
}

bool
ferryi_target_is_of(ferry_language language, const char *target)
{
    struct ferryi_cuda_target cuda;
    if (language == FERRY_LANGUAGE_CUDA)
        return ferryi_cuda_target_read(target, &cuda);
    return language != FERRY_LANGUAGE_HIP || (strncmp(target, "gfx", 3) == 0 && target[3]);
}

ferry_status
ferryi_target_check(ferry_language language, const char *target)
{
    if (language == FERRY_LANGUAGE_CUDA && !ferryi_target_is_of(language, target))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the target \"%s\" is none of CUDA, such as \"sm_90\" or \"compute_90\"",
                           target);
    if (language == FERRY_LANGUAGE_HIP && !ferryi_target_is_of(language, target))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the target \"%s\" is none of HIP, such as \"gfx90a\"", target);
    if (!*target)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT, "the target is empty");
    return FERRY_OK;
}

/* Returns whether a device of compute capability `architecture` runs code for the target. */
static bool
suits_cuda(const char *text, int architecture)
{
    struct ferryi_cuda_target target;
    if (!ferryi_cuda_target_read(text, &target))
        return false;
    if (target.letter == 'a')
        return architecture == target.architecture;
    if (target.is_portable && !target.letter)
        return architecture >= target.architecture;
    return architecture / 10 == target.architecture / 10 && architecture >= target.architecture;
}

/* Returns whether the ":feature" of `bytes` bytes is one of those at the end of a target. */
static bool
has_feature(const char *target, const char *feature, size_t bytes)
{
    for (const char *at = strchr(target, ':'); at; at = strchr(at + 1, ':'))
        if (strncmp(at, feature, bytes) == 0 && (!at[bytes] || at[bytes] == ':'))
            return true;
    return false;
}

/* Returns whether the processors are equal, and the device has all features of the target. */
static bool
suits_hip(const char *target, const char *device)
{
    size_t processor = strcspn(target, ":");
    if (strcspn(device, ":") != processor || memcmp(target, device, processor) != 0)
        return false;
    for (const char *feature = strchr(target, ':'), *next; feature; feature = next) {
        next = strchr(feature + 1, ':');
        size_t bytes = next ? (size_t)(next - feature) : strlen(feature);
        if (!has_feature(device, feature, bytes))
            return false;
    }
    return true;
}

bool
ferryi_target_suits(const char *target, const ferryi_device *device)
{
    const struct ferryi_device_properties *properties = &device->properties;
    switch (properties->language) {
    case FERRY_LANGUAGE_CUDA:
        return suits_cuda(target, properties->architecture);
    case FERRY_LANGUAGE_HIP:
        return suits_hip(target, properties->target);
    case FERRY_LANGUAGE_OPENCL:
        return strcmp(target, properties->target) == 0;
    case FERRY_LANGUAGE_NONE:
        break;
    }
    return false;
}
