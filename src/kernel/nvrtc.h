/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_NVRTC_H
#define FERRYI_NVRTC_H

/*
 * NVRTC, NVIDIA's run-time compiler, loaded when it is first needed: by the names that its releases
 * have, or from FERRY_NVRTC_LIBRARY. It needs no driver and no GPU. A program without kernels in
 * source never loads it.
 *
 * Several releases may be installed. A driver loads code of its release and of older ones, and
 * a new NVRTC has dropped old devices. So the release of the driver comes first, then older ones
 * from new to old, then newer ones; one that has dropped the device is passed over.
 */

#include "src/base/base.h"

struct ferryi_nvrtc_source {
    const char *name; /* of the kernel, for messages */
    const char *text;
    const char *const *options;
    size_t option_count;
    int architecture;   /* 10 * major + minor */
    int driver_version; /* 1000 * major + 10 * minor; 0: the code is for no driver */
    unsigned refused;   /* 1: the driver refused the code of the first NVRTC, so the next is used */
    bool portable; /* PTX is wanted even where NVRTC could make code for the architecture itself */
    bool keep; /* take it from the disk cache when it is there, and put it there: disk_cache.h */
};

/* What came out: a cubin, or PTX with its NUL. The caller frees `bytes`. */
struct ferryi_nvrtc_image {
    void *bytes;
    size_t size;
};

/*
 * Compile for an architecture; for one that is newer than this NVRTC knows, PTX that the driver
 * translates. The compiler's warnings go to `log`, but not again with code that is found in the
 * cache. What other files determine as well is never kept: a source that includes, options that
 * name files.
 * @return FERRY_OK; FERRY_ERROR_COMPILE with the compiler's log in the message (and in `log`, line
 *         by line); FERRY_ERROR_UNSUPPORTED (no NVRTC, or none that makes code for the
 *         architecture);
 *         FERRY_ERROR_OUT_OF_MEMORY.
 */
ferry_status ferryi_nvrtc_compile(const struct ferryi_nvrtc_source *source,
                                  const struct ferryi_log *log, struct ferryi_nvrtc_image *out);

#endif
