/* SPDX-License-Identifier: MIT */
#include "src/device/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/base.h"

const struct ferryi_image *
ferryi_images_find(const struct ferryi_image *images, const char *target, unsigned refused)
{
    while (images && (strcmp(images->target, target) != 0 || images->refused < refused))
        images = images->next;
    return images;
}

ferry_status
ferryi_images_add(struct ferryi_image **images, const char *target, unsigned refused, void *bytes,
                  size_t size)
{
    struct ferryi_image *image = malloc(sizeof(*image));
    if (!image) {
        free(bytes);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY,
                           "no memory for the description of compiled code");
    }
    *image =
        (struct ferryi_image){.refused = refused, .bytes = bytes, .size = size, .next = *images};
    snprintf(image->target, sizeof(image->target), "%s", target);
    *images = image;
    return FERRY_OK;
}

void
ferryi_images_free(struct ferryi_image **images)
{
    while (*images) {
        struct ferryi_image *image = *images;
        *images = image->next;
        free(image->bytes);
        free(image);
    }
}
