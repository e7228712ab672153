/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_KERNEL_H
#define FERRYI_KERNEL_H

/*
 * A kernel: a copy of a source description, and the loaded module of each place where its code
 * runs.
 *
 * A handle has no reference count: its owner launches and destroys it. Queued launches may still
 * run the loaded code of a destroyed kernel. Such a kernel stays in the list, marked dead; the next
 * create or destroy of a kernel that finds all its uses done unloads its code, or else the end of
 * the context does. Launches of host functions own copies of all that they need.
 *
 * Locks: a kernel's mutex is held while it compiles and loads at a place. While the mutex of the
 * list of kernels is held, only the device is called.
 */

#include <ferry/kernel.h>

#include "src/base/base.h"
#include "src/stream/shell.h"

/* The loaded code at one place. */
struct ferryi_kernel_code {
    void *module;
    void *function;
    atomic_bool used_unnumbered; /* launched on a timeline without sync points: unloaded only with
                                    the context */
    _Atomic uint64_t uses[FERRYI_TIMELINES]; /* the last launch on each timeline, as a sync point */
};

/* A source compiled for one architecture. */
struct ferryi_kernel_binary {
    int architecture;
    unsigned refused; /* 1: compiled by the second NVRTC, since the driver refused the code of the
                         first */
    void *bytes;
    size_t size;
    struct ferryi_kernel_binary *next;
};

FERRYI_MUTEX_CLASS(ferryi_kernel_mutex);
FERRYI_MUTEX_CLASS(ferryi_kernels_mutex);

struct ferry_kernel {
    ferry_context *context; /* the kernel holds a reference */
    char *name;
    char *text;  /* the source with the declarations before it; NULL: no source */
    void *image; /* NULL: none */
    size_t image_bytes;
    char **options;
    size_t option_count;
    ferry_host_function *host_function;
    void *user;
    ferry_parameter *parameters; /* elements are interned; a NULL element: any struct */
    size_t parameter_count;
    struct ferryi_kernel_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_kernel_mutex) struct ferryi_kernel_binary *binaries;
    _Atomic(struct ferryi_kernel_code *)
        code[FERRYI_DEVICES_MAX + 1]; /* by place; NULL: not loaded */
    atomic_bool dead;                 /* the kernel was destroyed; set under the list's mutex */
    FERRYI_GUARDED_BY(ferryi_kernels_mutex)
    struct ferry_kernel *next, *prev; /* links of the list of all kernels of the process */
};

/* The kind of code that a kernel runs at a place: none, device code, or a host function. */
enum ferryi_kernel_body { FERRYI_BODY_NONE, FERRYI_BODY_CODE, FERRYI_BODY_HOST };
enum ferryi_kernel_body ferryi_kernel_body_at(const ferry_kernel *kernel, int place);

/* Sets `*out` to the loaded code at a place; the first call compiles and loads it. */
ferry_status ferryi_kernel_code_at(ferry_kernel *kernel, int place,
                                   struct ferryi_kernel_code **out);
/* Records that the code was launched on the timeline. */
void ferryi_kernel_note_use(struct ferryi_kernel_code *code, ferryi_timeline *timeline);

/* Unloads the code of the context's kernels when the context ends. All its work must be done and
 * its devices still open. The handles stay valid, but cannot be launched any more. */
void ferryi_kernels_close(ferry_context *context);

/* -- compile.c --------------------------------------------------------------------------------- */

/* Checks a description as the public functions do; `what` begins the message. */
ferry_status ferryi_kernel_check_source(const ferry_kernel_source *source, const char *what);
/* Copies the parameters, with interned elements; the caller frees them. Sets *out to NULL if there
 * are none. */
ferry_status ferryi_kernel_copy_parameters(const ferry_kernel_source *source,
                                           ferry_parameter **out);
/* Makes a text of the declaration of each struct in the signature, without duplicates, and the
 * source. The caller frees the text. */
ferry_status ferryi_kernel_make_text(const char *source, const ferry_parameter *parameters,
                                     size_t parameter_count, char **out);

/* -- signature.c ------------------------------------------------------------------------------- */

/*
 * Compares the declared parameters with those of loaded code, since a launch reads as many
 * arguments as the code has parameters. Code whose parameters the driver does not report is
 * accepted.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (another number of parameters);
 * FERRY_ERROR_WRONG_TYPE (a parameter of another size); a failure of the device.
 */
ferry_status ferryi_kernel_check_code(const ferry_kernel *kernel, ferryi_device *device,
                                      void *function);

#endif
