/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_HIPRTC_H
#define FERRYI_HIPRTC_H

/*
 * hiprtc, the run-time compiler of HIP. Ferry loads it when it is first used: the library that
 * FERRY_HIPRTC_LIBRARY names, or the compiler of the release of HIP that is in use, or else the
 * newest one.
 *
 * The compiler needs no GPU, but ends the process if its LLVM does not know a target. So a process
 * compiles only for the targets of its devices, and checks a text in a child.
 */

#include "src/device/gpu/compiler.h"

/* Compiles a text for `target`, such as "gfx90a:sramecc+:xnack-". `major` is the release of ROCm
 * whose compiler is used, or 0 for the newest one. The target of the job is not used.
 * @return as ferryi_compiler_compile(), or FERRY_ERROR_UNSUPPORTED if there is no hiprtc. */
ferry_status ferryi_hiprtc_compile(const struct ferryi_compiler_job *job, const char *target,
                                   int major, const struct ferryi_log *log,
                                   struct ferryi_compiled *out);

#endif
