/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_IMAGE_H
#define FERRYI_IMAGE_H

/*
 * Images that a compiler made from one code. Devices with the same target share an image, so that a
 * code is compiled once for all of them. The owner of a list protects it.
 */

#include <stddef.h>

#include <ferry/context.h>

struct ferryi_image {
    char target[160]; /* what the image was compiled for */
    unsigned refused; /* number of compilers whose images for this target the driver refused before
                         this one was made */
    void *bytes;
    size_t size;
    struct ferryi_image *next;
};

/* Returns the image for a target that at least `refused` refused images preceded, or NULL. */
const struct ferryi_image *ferryi_images_find(const struct ferryi_image *images, const char *target,
                                              unsigned refused);
/* Adds an image to a list, which then owns `bytes`, also after a failure.
 * @return FERRY_OK; FERRY_ERROR_OUT_OF_MEMORY. */
ferry_status ferryi_images_add(struct ferryi_image **images, const char *target, unsigned refused,
                               void *bytes, size_t size);
void ferryi_images_free(struct ferryi_image **images);

#endif
