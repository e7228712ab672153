/* SPDX-License-Identifier: MIT */
#ifndef FAKECUFILE_H
#define FAKECUFILE_H

/*
 * fakecufile: a shared library with the functions of cuFile that Ferry uses. Ferry loads it if
 * FERRY_CUFILE_LIBRARY names it. It reaches device memory through the driver that
 * FERRY_CUDA_LIBRARY names, which is fakecuda. Its copies use a stream that is ordered with no
 * other. They need a current context, and make calls that a capture forbids to a thread that is not
 * in relaxed mode.
 *
 * It is stricter than cuFile: it refuses descriptors without O_DIRECT, offsets and sizes that are
 * not multiples of 4096, and handles that are not registered. After a failure, the bytes that it
 * has not counted may have changed.
 *
 * A build with -DFAKECUFILE_OLD lacks cuFileGetVersion.
 */

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fakecufile_counts {
    int opens, closes;    /* calls of the driver's functions that succeeded */
    int handles;          /* handles that are registered now */
    uint64_t copies;      /* calls that read or write */
    uint64_t read, wrote; /* bytes */
    int unaligned;        /* calls that were refused, because their bytes are no whole blocks */
};

#define FAKECUFILE_CONTROLS(X)                                                                     \
    X(struct fakecufile_counts, fakecufile_counts, (void))                                         \
    /* Forgets what the other controls asked for, and all counts but those of what is open now. */ \
    X(void, fakecufile_reset, (void))                                                              \
    /* Makes one of the next calls of `symbol` fail: call number `nth`, counted from 1. An error   \
     * above 5000 is one of cuFile; another one is a value of errno, for reads and writes. */      \
    X(void, fakecufile_fail_next, (const char *symbol, int error, int nth))                        \
    /* Makes one of the next reads and writes end after `bytes` bytes. */                          \
    X(void, fakecufile_shorten_next, (size_t bytes, int nth))                                      \
    /* Sets whether nvidia-fs is loaded, and whether the compatibility mode is allowed. Both are   \
     * true after a reset. */                                                                      \
    X(void, fakecufile_set_driver, (bool module, bool compatible))

struct fakecufile {
#define FAKECUFILE_MEMBER(type, name, parameters) type(*name) parameters;
    FAKECUFILE_CONTROLS(FAKECUFILE_MEMBER)
#undef FAKECUFILE_MEMBER
};

/* Loads the library `library_name` and finds the functions with which tests control fakecufile.
 * Returns false if the library is not fakecufile. */
static inline bool
fakecufile_find(const char *library_name, struct fakecufile *out)
{
    bool whole = true;
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
#define FAKECUFILE_FIND(type, name, parameters)                                                    \
    do {                                                                                           \
        void *address_ = dlsym(library, #name);                                                    \
        memcpy(&out->name, &address_, sizeof(address_));                                           \
        whole = whole && address_;                                                                 \
    } while (0);
    FAKECUFILE_CONTROLS(FAKECUFILE_FIND)
#undef FAKECUFILE_FIND
    return whole;
}

#endif
