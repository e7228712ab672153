/* SPDX-License-Identifier: MIT */
/* The grid of a launch: its numbers, and the attributes that not every device has. They are checked
 * before any bytes move. */
#include "src/kernel/launch.h"

#include <stdio.h>

/* Most blocks of a cluster that every device with clusters takes. */
#define CLUSTER_MOST 8

#define CUDA_NEEDS   "a CUDA device of compute capability 9.0 and a driver of CUDA 12.0"

static const struct attribute {
    ferry_capability capability;
    const char *name, *needs;
} attributes[] = {
    {FERRY_CAN_COOPERATE, "FERRY_LAUNCH_COOPERATIVE",
     "a CUDA device with cooperative launches and a driver of CUDA 12.0, or a HIP device and "
     "library "
     "with them"},
    {FERRY_CAN_OVERLAP, "FERRY_LAUNCH_OVERLAP", CUDA_NEEDS},
    {FERRY_CAN_CLUSTER, "clusters", CUDA_NEEDS},
};

#define ALL_FLAGS ((uint32_t)(FERRY_LAUNCH_COOPERATIVE | FERRY_LAUNCH_OVERLAP))

static bool
has_clusters(const ferry_grid *grid)
{
    return grid->cluster[0] || grid->cluster[1] || grid->cluster[2];
}

static void
replace_zeros(ferry_grid *grid)
{
    const bool clusters = has_clusters(grid);
    for (size_t i = 0; i < 3; i++) {
        grid->blocks[i] = grid->blocks[i] ? grid->blocks[i] : 1;
        grid->threads[i] = grid->threads[i] ? grid->threads[i] : 1;
        if (clusters && grid->cluster[i] == 0)
            grid->cluster[i] = 1;
    }
}

static ferry_status
check_clusters(const ferry_grid *grid)
{
    uint64_t size = 1;
    for (size_t i = 0; i < 3; i++) {
        if (size <= CLUSTER_MOST)
            size *= grid->cluster[i];
        if (grid->blocks[i] % grid->cluster[i] != 0)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "the grid has %u blocks in %c, which is no multiple of the %u of a "
                               "cluster",
                               grid->blocks[i], (int)("xyz"[i]), grid->cluster[i]);
    }
    if (size > CLUSTER_MOST)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "the grid has clusters of %ux%ux%u blocks, but a cluster has at most %d",
                           grid->cluster[0], grid->cluster[1], grid->cluster[2], CLUSTER_MOST);
    return FERRY_OK;
}

static ferry_status
refuse(const struct attribute *attribute, const ferryi_device *device, const char *place)
{
    char what[sizeof(device->properties.target) + 32] = "";
    const int version = device->properties.driver_version;
    if (version)
        snprintf(what, sizeof(what), " (%s, driver %d.%d)", device->properties.target,
                 version / 1000, version % 1000 / 10);
    return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                       "the grid has %s, which %s%s does not take: that needs %s", attribute->name,
                       place, what, attribute->needs);
}

static ferry_status
check_attributes(const ferry_grid *grid, const ferryi_device *device, const char *place)
{
    uint64_t wanted = 0;
    if (grid->flags & ~ALL_FLAGS)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "the grid has the flags 0x%x, of which this library knows 0x%x",
                           grid->flags, ALL_FLAGS);
    if (has_clusters(grid)) {
        FERRYI_OR_RETURN(check_clusters(grid));
        wanted |= FERRY_CAN_CLUSTER;
    }
    if (grid->flags & FERRY_LAUNCH_COOPERATIVE)
        wanted |= FERRY_CAN_COOPERATE;
    if (grid->flags & FERRY_LAUNCH_OVERLAP)
        wanted |= FERRY_CAN_OVERLAP;
    wanted &= ~device->capabilities;
    for (size_t i = 0; wanted && i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (wanted & attributes[i].capability)
            return refuse(&attributes[i], device, place);
    return FERRY_OK;
}

ferry_status
ferryi_launch_complete_grid(const ferry_kernel *kernel, const ferryi_timeline *timeline,
                            ferry_grid *grid)
{
    if (grid->blocks[0] == 0 || grid->threads[0] == 0)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "launch kernel \"%s\": the grid has %u blocks of %u threads in x; "
                           "ferry_grid_for() returns a grid for a number of items",
                           kernel->name, grid->blocks[0], grid->threads[0]);
    replace_zeros(grid);
    if (!grid->flags && !grid->cluster[0])
        return FERRY_OK;
    ferry_status status =
        check_attributes(grid, timeline->device, kernel->context->names[timeline->place]);
    return status == FERRY_OK ? status
                              : ferryi_fail_in(status, "launch kernel \"%s\"", kernel->name);
}
