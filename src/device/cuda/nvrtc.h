/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_NVRTC_H
#define FERRYI_NVRTC_H

/*
 * NVRTC, NVIDIA's run-time compiler. Ferry loads NVRTC when it is first used, by the file names of
 * its releases or from the path in FERRY_NVRTC_LIBRARY. The file names are looked for in the
 * folders of FERRY_NVRTC_FOLDERS first, which the Python package sets to those of NVIDIA's wheels.
 * NVRTC needs no driver and no GPU. If no kernel of a program has CUDA source, NVRTC is never
 * loaded.
 *
 * Several releases may be installed. A driver loads code of the driver's CUDA release and of older
 * releases, but new releases of NVRTC do not support old devices. So the NVRTC of the driver's
 * release is tried first. Older releases follow, from new to old, and then newer releases. A
 * release that does not support the device is skipped.
 */

#include "src/device/gpu/compiler.h"

struct ferryi_nvrtc_source {
    const char *name; /* name of the kernel, for messages */
    const char *text;
    const char *const *options;
    size_t option_count;
    bool exact;         /* whether no operations are fused, whatever the options say */
    int architecture;   /* 10 * major + minor */
    int driver_version; /* CUDA version of the driver, as 1000 * major + 10 * minor; 0 if no driver
                           will load the code */
    unsigned refused; /* 0: use the first NVRTC that is suitable; 1: the driver refused the code of
                         that NVRTC, so use the next one that is suitable */
    bool portable;    /* whether to make PTX even if NVRTC can make a cubin for the architecture */
    bool keep; /* whether to use the disk cache (disk_cache.h): to look code up there before a
                  compilation, and to store it there afterwards */
};

/*
 * Compiles a source for an architecture. If the architecture is newer than all that this NVRTC
 * supports, makes PTX with its NUL, which the driver translates. Writes the compiler's warnings to
 * `log`, unless the code is found in the cache. The cache knows which files the source includes
 * (includes.h). Code that depends on other files through an option is never cached.
 * @return FERRY_OK; FERRY_ERROR_COMPILE with the compiler's log in the message (and in `log`, line
 * by line); FERRY_ERROR_UNSUPPORTED (no NVRTC, or none that makes code for the architecture);
 * FERRY_ERROR_OUT_OF_MEMORY.
 */
ferry_status ferryi_nvrtc_compile(const struct ferryi_nvrtc_source *source,
                                  const struct ferryi_log *log, struct ferryi_compiled *out);

#endif
