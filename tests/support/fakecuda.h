/* SPDX-License-Identifier: MIT */
#ifndef FAKECUDA_H
#define FAKECUDA_H

/*
 * fakecuda: a shared library with the entry points of the CUDA driver that Ferry uses. It works on
 * host memory, so that cuda.c runs without a GPU. Programs load it if FERRY_CUDA_LIBRARY names it.
 * Its asynchronous calls really run later. It is at least as strict as the driver: it refuses
 * handles and pointers of other contexts, reuses the address of a destroyed stream for the next
 * one, and runs the copies of a batch in a different order.
 *
 * Device memory whose size is a multiple of 2 MiB, and events, can be shared with processes that
 * use the same build. Memory that its process has freed, or whose process has ended, is unknown to
 * the others from then on. What a process that ended had queued before its last record of an event
 * counts as done. In lazy mode a record of such an event starts the work that it waits for, because
 * no other process can.
 *
 *   FAKECUDA_DEVICES       number of devices; default 1, at most 8
 *   FAKECUDA_MEMORY_BYTES  memory of each device; default 256 MiB
 *   FAKECUDA_MODE          "thread" (default): a thread per stream; "lazy": work is done only when
 *                          a call waits for it or queries it
 *   FAKECUDA_COST          a file with lines such as "cuMemAlloc_v2 1500": each such call spins for
 *                          that many nanoseconds
 *   FAKECUDA_ATTRIBUTES    attributes of all devices, as a list such as "100=1,134=0". If 100
 *                          is 1, the device uses the page tables of the host, and copies of
 *                          pageable memory are asynchronous
 *   FAKECUDA_STRICT        rules that only some drivers have, as a list such as "managed,align", or
 *                          "all":
 *     managed     host and device must not use managed memory at the same time: the host faults in
 *                 it while any kernel is queued
 *     registered  registered memory has a different address on the device, and the device faults
 *                 if a batch uses the host's address
 *     align       pinned memory is aligned to exactly 256 bytes
 *     size        allocating too much pinned memory returns CUDA_ERROR_INVALID_VALUE
 *     batch       every second batch is refused, with CUDA_ERROR_INVALID_VALUE and
 *                 CUDA_ERROR_NOT_SUPPORTED alternately
 *     private     the host faults if it accesses device memory
 *     pages       registered memory is locked in whole pages, and no page is locked twice
 *     limits      pitches above CU_DEVICE_ATTRIBUTE_MAX_PITCH are refused, as the manual says
 *     host        one thread of the driver runs the host functions of all streams, and driver calls
 *                 in these functions return CUDA_ERROR_NOT_PERMITTED
 *     ptx         PTX for newer devices is refused
 *     parts       a copy of partly registered host memory returns CUDA_ERROR_INVALID_VALUE
 *     capture     a batch is refused inside a capture, and the legacy stream cannot join one; the
 *                 capture stays valid. Freeing memory waits for the whole context, and invalidates
 *                 its captures as cuCtxSynchronize() does
 *     load        a kernel is loaded by its first launch or cuFuncLoad(), which waits for all work
 *                 of the device, and is forbidden during a capture that is not relaxed
 *     sticky      a fault that ends a context also ends every later context of its device, until
 *                 the test removes this rule
 *     constant    memory that the process cannot write is registered with a flag, and only if
 *                 the device has attribute 113
 *
 * In every mode, a call in a forked child returns CUDA_ERROR_NOT_INITIALIZED if the parent had
 * called cuInit(). After exit() was called, each call returns CUDA_ERROR_DEINITIALIZED.
 *
 * Tests find the control functions with fakecuda_find() instead of linking them, because several
 * builds of fakecuda may be loaded at once.
 */

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of objects that the fake driver has created and not yet freed. Destroying a context does
 * not decrease these numbers. */
struct fakecuda_live {
    int allocations, registrations, streams, events, modules, ranges;
    int opened; /* memory of other processes */
};

/* The attributes of a launch, and its dynamic shared memory. */
struct fakecuda_attributes {
    bool cooperative, overlap;
    unsigned cluster[3], shared_bytes;
};

/* Host function that runs instead of a kernel. `parameters` contains the addresses of copies of the
 * launch's arguments. The function can dereference device pointers. */
typedef void fakecuda_kernel(void **parameters, const unsigned grid[3], const unsigned block[3]);

#define FAKECUDA_CONTROLS(X)                                                                       \
    /* Return how often all threads together have called the driver. fakecuda_calls_of() counts    \
     * only calls of the entry point `symbol`. */                                                  \
    X(uint64_t, fakecuda_calls, (void))                                                            \
    X(uint64_t, fakecuda_calls_of, (const char *symbol))                                           \
    X(struct fakecuda_live, fakecuda_live, (void))                                                 \
    /* Returns the number of asynchronous copies of host memory that is not page-locked. */        \
    X(uint64_t, fakecuda_pageable_copies, (void))                                                  \
    /* Makes one of the next calls of the entry point `symbol` fail: call number `nth`, counted    \
     * from 1. This call does nothing and returns `code`. Some codes end the context. */           \
    X(void, fakecuda_fail_next, (const char *symbol, int code, int nth))                           \
    X(void, fakecuda_fail_none, (void))                                                            \
    /* Makes all devices lost. Every call that needs a context then does nothing and returns       \
     * `code`, until fakecuda_fail_none() is called. */                                            \
    X(void, fakecuda_lose, (int code))                                                             \
    /* Return the current context of the calling thread or NULL, and the depth of its stack of     \
     * contexts. */                                                                                \
    X(void *, fakecuda_current_context, (void))                                                    \
    X(int, fakecuda_context_depth, (void))                                                         \
    /* Registers the host function of a kernel. A launch of a kernel without a host function       \
     * returns CUDA_ERROR_NOT_SUPPORTED. */                                                        \
    X(void, fakecuda_register_kernel,                                                              \
      (const char *name, fakecuda_kernel *run, int count, const size_t *bytes))                    \
    /* Returns the attributes of the last launch; cuLaunchKernel() has none. */                    \
    X(struct fakecuda_attributes, fakecuda_last_attributes, (void))                                \
    /* Makes the fake driver accept cubins and fatbins. Each of them then contains all             \
     * registered kernels. */                                                                      \
    X(void, fakecuda_take_binaries, (void))                                                        \
    /* Must be called in a host function, for memory whose address is not an argument of the       \
     * launch. Returns the address at which the device reaches `memory`. */                        \
    X(void *, fakecuda_reach, (const void *memory))                                                \
    /* Must be called in a host function. Ends the context, just as a fault on a device does. */   \
    X(void, fakecuda_fault, (int code))                                                            \
    /* Sets an attribute of all devices. */                                                        \
    X(void, fakecuda_set_attribute, (int attribute, int value))                                    \
    /* Returns the location of the last prefetch or advice: the number of a device, or -1 for      \
     * the host. Returns -2 if there was none. */                                                  \
    X(int, fakecuda_last_location, (void))                                                         \
    /* Sets the mode as FAKECUDA_MODE does. Returns false, with no effect, while a context         \
     * exists. */                                                                                  \
    X(bool, fakecuda_set_mode, (const char *mode))                                                 \
    /* Sets the rules as FAKECUDA_STRICT does. Works even if no device is open. */                 \
    X(void, fakecuda_set_strict, (const char *rules))                                              \
    /* Resets a device like cuDevicePrimaryCtxReset_v2. A new context with the same handle         \
     * replaces the context of the device. */                                                      \
    X(void, fakecuda_reset, (int device))                                                          \
    /* Returns the peers that a device can access, as a set of bits: bit b is device b. */         \
    X(unsigned, fakecuda_peers, (int device))                                                      \
    /* Creates a stream of a green context of a device, or returns NULL. Only events that were     \
     * created while this green context was current can be recorded on the stream. */              \
    X(void *, fakecuda_green_stream, (int device))                                                 \
    /* Sets whether copies between devices write wrong bytes. */                                   \
    X(void, fakecuda_break_peers, (bool broken))                                                   \
    /* Begin and end a graph capture in the same way as the driver's functions, whose status       \
     * codes they return. */                                                                       \
    X(int, fakecuda_begin_capture, (void *stream, int mode))                                       \
    X(int, fakecuda_end_capture, (void *stream, int *out_nodes))

struct fakecuda {
#define FAKECUDA_MEMBER(type, name, parameters) type(*name) parameters;
    FAKECUDA_CONTROLS(FAKECUDA_MEMBER)
#undef FAKECUDA_MEMBER
};

/* Loads the library `library_name` and finds the functions with which tests control fakecuda.
 * Returns false if the library is not fakecuda. */
static inline bool
fakecuda_find(const char *library_name, struct fakecuda *out)
{
    bool whole = true;
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
#define FAKECUDA_FIND(type, name, parameters)                                                      \
    do {                                                                                           \
        void *address_ = dlsym(library, #name);                                                    \
        memcpy(&out->name, &address_, sizeof(address_));                                           \
        whole = whole && address_;                                                                 \
    } while (0);
    FAKECUDA_CONTROLS(FAKECUDA_FIND)
#undef FAKECUDA_FIND
    return whole;
}

/* Finds the functions with which tests control fakecuda in the CUDA driver that this process uses.
 * Returns false if this driver is not fakecuda. If a recorder of driver calls wraps the driver,
 * finds the functions in the wrapped driver. */
static inline bool
fakecuda_find_driver(struct fakecuda *out)
{
    static const char *const variables[] = {"FERRY_RECORD_LIBRARY", "FERRY_CUDA_LIBRARY",
                                            "FERRY_HIP_LIBRARY"};
    const char *library = NULL;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !library; i++)
        library = getenv(variables[i]);
    return fakecuda_find(library ? library : "libcuda.so.1", out);
}

#endif
