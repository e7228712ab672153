/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_KERNEL_H
#define FERRYI_KERNEL_H

/*
 * The kernel: its own copy of a source description, and for each place with code the loaded module.
 *
 * A handle is not counted: its owner launches and destroys it. What a destroyed kernel leaves
 * behind is its loaded code, which queued launches may still run: such a kernel stays in the list
 * as dead, and the next create or destroy that finds all its uses done unloads it; the end of the
 * context unloads what is left. Launches of host functions carry all they need themselves.
 *
 * Locks: a kernel's mutex while it compiles and loads at a place; the mutex of the list of kernels,
 * under which only the device is called.
 */

#include <ferry/kernel.h>

#include "src/base/base.h"
#include "src/stream/shell.h"

/* Code at one place. */
struct ferryi_kernel_code {
    void *module;
    void *function;
    atomic_bool
        used_unnumbered; /* by a timeline without sync points: unloaded with the context only */
    _Atomic uint64_t uses[FERRYI_TIMELINES]; /* the last launch on each timeline, as a sync point */
};

/* Source compiled for one architecture. */
struct ferryi_kernel_binary {
    int architecture;
    unsigned refused; /* 1: by the second NVRTC, as the driver refused the code of the first */
    void *bytes;
    size_t size;
    struct ferryi_kernel_binary *next;
};

FERRYI_MUTEX_CLASS(ferryi_kernel_mutex);
FERRYI_MUTEX_CLASS(ferryi_kernels_mutex);

struct ferry_kernel {
    ferry_context *context; /* counted */
    char *name;
    char *text;  /* with the declarations before it; NULL: no source */
    void *image; /* NULL: none */
    size_t image_bytes;
    char **options;
    size_t option_count;
    ferry_host_function *host_function;
    void *user;
    ferry_parameter *parameters; /* elements are interned; NULL: any struct */
    size_t parameter_count;
    struct ferryi_kernel_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_kernel_mutex) struct ferryi_kernel_binary *binaries;
    _Atomic(struct ferryi_kernel_code *) code[FERRYI_DEVICES_MAX + 1]; /* by place; set once */
    atomic_bool dead; /* destroyed; set under the list's mutex */
    FERRYI_GUARDED_BY(ferryi_kernels_mutex)
    struct ferry_kernel *next, *prev; /* all kernels of the process */
};

/* What can run at a place. */
enum ferryi_kernel_body { FERRYI_BODY_NONE, FERRYI_BODY_CODE, FERRYI_BODY_HOST };
enum ferryi_kernel_body ferryi_kernel_body_at(const ferry_kernel *kernel, int place);

/* The loaded code at a place, compiled and loaded now if this is the first use. */
ferry_status ferryi_kernel_code_at(ferry_kernel *kernel, int place,
                                   struct ferryi_kernel_code **out);
/* The code was launched on the timeline before this call. */
void ferryi_kernel_note_use(struct ferryi_kernel_code *code, ferryi_timeline *timeline);

/* The context ends: all its work is done, its devices are still open. Unloads its kernels' code;
 * their handles stay, and launch no more. */
void ferryi_kernels_close(ferry_context *context);

/* -- compile.c --------------------------------------------------------------------------------- */

/* Check a description as the public calls do; `what` begins the message. */
ferry_status ferryi_kernel_check_source(const ferry_kernel_source *source, const char *what);
/* Copies of the parameters with interned elements; the caller frees them. NULL in *out for none. */
ferry_status ferryi_kernel_copy_parameters(const ferry_kernel_source *source,
                                           ferry_parameter **out);
/* The source with the declaration of each struct of the signature before it, once each; the caller
 * frees it. */
ferry_status ferryi_kernel_make_text(const char *source, const ferry_parameter *parameters,
                                     size_t parameter_count, char **out);

/* -- signature.c ------------------------------------------------------------------------------- */

/*
 * Compare the declared parameters with those of code that was loaded: a launch reads as many
 * arguments as the code has parameters. Code whose parameters the driver does not report passes.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (another number of parameters);
 *         FERRY_ERROR_WRONG_TYPE (a parameter of another size); a failure of the device.
 */
ferry_status ferryi_kernel_check_code(const ferry_kernel *kernel, ferryi_device *device,
                                      void *function);

#endif
