/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUFILE_H
#define FERRYI_CUFILE_H

/*
 * cuFile, NVIDIA's library of GPUDirect Storage, which moves bytes between files and the memory of
 * a GPU without host memory. Ferry loads it when a file is first opened for a device: the file
 * libcufile.so.0, or the one that FERRY_CUFILE_LIBRARY names.
 *
 * Where GPUDirect Storage cannot move the bytes of a file, cuFile moves them through host memory.
 * It calls this its compatibility mode. The staging ring does the same, and overlaps both copies.
 * So Ferry does not use cuFile if the kernel module nvidia-fs is not loaded, unless the
 * configuration of cuFile forbids that mode.
 */

#include "src/device/gpu/gpu_device.h"

/* The member `files` of the vendor. */
extern const struct ferryi_gpu_file_calls ferryi_cufile_calls;

#endif
