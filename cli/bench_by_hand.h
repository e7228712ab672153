/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_BENCH_BY_HAND_H
#define FERRY_CLI_BENCH_BY_HAND_H

/*
 * What a program without Ferry would call: on CUDA the driver's allocation and copies, which
 * cudaMalloc() and cudaMemcpy() are made of; on other devices malloc() and memcpy(). One thread
 * uses it.
 */

#include <stdbool.h>
#include <stddef.h>

#include <ferry/ferry.h>

struct by_hand_driver;

struct by_hand {
    const struct by_hand_driver *driver; /* NULL: malloc() and memcpy() */
    void *library, *context;
    int device;
};

/* For the device of a place. On CUDA its primary context stays current until by_hand_close(). False
 * after a message. */
bool by_hand_open(struct by_hand *out, const ferry_place_info *info);
void by_hand_close(struct by_hand *by_hand);

/* NULL: there is no memory. */
void *by_hand_allocate(const struct by_hand *by_hand, size_t bytes);
void by_hand_free(const struct by_hand *by_hand, void *memory);
/* These return when the bytes have arrived; false when the driver refused. */
bool by_hand_upload(const struct by_hand *by_hand, void *device, const void *host, size_t bytes);
bool by_hand_download(const struct by_hand *by_hand, void *host, const void *device, size_t bytes);

#endif
