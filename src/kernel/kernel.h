/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_KERNEL_H
#define FERRYI_KERNEL_H

/*
 * A kernel: a copy of the source description that the program passed, and one loaded module for
 * each place where its code runs.
 *
 * A handle has no reference count: the handle's owner launches and destroys the kernel. Queued
 * launches may still run the code of a destroyed kernel. So a destroyed kernel stays in the list of
 * kernels, marked dead. When a kernel is created or destroyed, Ferry unloads the code of those dead
 * kernels whose launches have all finished. The end of the context unloads the code in any case.
 * Launches of host functions own copies of all that they need.
 *
 * Locks: a kernel's mutex is held while the kernel is compiled and loaded at a place. A thread that
 * holds the mutex of the list of kernels only unloads code and queries sync points. A query locks
 * the mutex of a timeline and calls device functions.
 */

#include <ferry/kernel.h>

#include "src/base/base.h"
#include "src/device/image.h"
#include "src/kernel/code.h"
#include "src/stream/shell.h"

/* The loaded code at one place. */
struct ferryi_loaded_code {
    void *module;
    void *function;
    /* Whether the code stays loaded until the context ends. Set when it is launched on a timeline
     * without a number, for which `uses` has no entry. Also set when it is launched on a stream
     * that is being captured, because the graph uses the code for as long as the program keeps it.
     */
    atomic_bool stays_loaded;
    /* Sync point of the last launch on each timeline. The index is the number of the timeline. */
    _Atomic uint64_t uses[FERRYI_TIMELINES];
};

FERRYI_MUTEX_CLASS(ferryi_kernel_mutex);
FERRYI_MUTEX_CLASS(ferryi_kernels_mutex);

struct ferry_kernel {
    ferry_context *context; /* the kernel holds a reference */
    char *name;
    struct ferryi_codes codes;
    uint32_t code_places; /* bit p: the device of place p may run one of the codes */
    ferry_host_function *host_function;
    void *user;
    ferry_parameter *parameters; /* parameters with interned element types; a parameter without an
                                    element type accepts any struct */
    size_t parameter_count;
    struct ferryi_kernel_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_kernel_mutex) struct ferryi_image *images; /* made from the source */
    /* by place; NULL: not loaded */
    _Atomic(struct ferryi_loaded_code *) code[FERRYI_DEVICES_MAX + 1];
    atomic_bool dead; /* whether the kernel was destroyed; set under ferryi_kernels_mutex */
    /* Links of the list of all kernels of the process. */
    FERRYI_GUARDED_BY(ferryi_kernels_mutex) struct ferry_kernel *next, **link;
};

/* What a kernel runs at a place: nothing, device code, or a host function. */
enum ferryi_kernel_body { FERRYI_BODY_NONE, FERRYI_BODY_CODE, FERRYI_BODY_HOST };
enum ferryi_kernel_body ferryi_kernel_body_at(const ferry_kernel *kernel, int place);

/* Sets `*out` to the kernel's loaded code at a place. The first call for a place compiles and loads
 * the code. */
ferry_status ferryi_kernel_code_at(ferry_kernel *kernel, int place,
                                   struct ferryi_loaded_code **out);
/* Records that the code was launched on the timeline. The code is not unloaded before that launch
 * has finished. */
void ferryi_kernel_note_use(struct ferryi_loaded_code *code, ferryi_timeline *timeline);

/* Unloads the code of the context's kernels when the context ends. All work of the context must be
 * done, and its devices must still be open. Handles of kernels stay valid, but the kernels can no
 * longer be launched. */
void ferryi_kernels_close(ferry_context *context);

/* -- compile.c --------------------------------------------------------------------------------- */

/* Checks the kernel description that the program passed to a public function. Error messages begin
 * with `what`. */
ferry_status ferryi_kernel_check_source(const ferry_kernel_source *source, const char *what);
/* Copies the parameters of a kernel description and interns their element types. The caller frees
 * the array. Sets *out to NULL if there are no parameters. */
ferry_status ferryi_kernel_copy_parameters(const ferry_kernel_source *source,
                                           ferry_parameter **out);
/* Makes the text that the compiler gets, in the language of the source. The text consists of the
 * declarations of the built-in types that the language lacks, of those of all structs among the
 * parameters, without duplicates, and of the source. The caller frees the text. */
ferry_status ferryi_kernel_make_text(const ferry_kernel_code *source,
                                     const ferry_parameter *parameters, size_t parameter_count,
                                     char **out);

/* -- signature.c ------------------------------------------------------------------------------- */

/* Writes what follows the number of a parameter in a message: a space and its name in quotes, or
 * nothing if it has no name. A long name is truncated. */
enum { FERRYI_PARAMETER_NAME_BYTES = 80 };
void ferryi_parameter_name(const ferry_parameter *parameter, char out[FERRYI_PARAMETER_NAME_BYTES]);

/*
 * Compares the declared parameters of a kernel with those of its loaded code, because a launch
 * reads as many arguments as the code has parameters. Accepts the code if the driver does not
 * report its parameters.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (the numbers of parameters differ);
 * FERRY_ERROR_WRONG_TYPE (the sizes of a parameter differ); a failure of the device.
 */
ferry_status ferryi_kernel_check_code(const ferry_kernel *kernel, ferryi_device *device,
                                      void *function);
/*
 * Does the same with a text that no device has loaded, which `compiler` compiles for a target.
 * Accepts code whose parameters the compiler does not report.
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (also without a kernel of this name);
 * FERRY_ERROR_WRONG_TYPE; FERRY_ERROR_OUT_OF_MEMORY; a failure of the compiler.
 */
ferry_status ferryi_kernel_check_text(const ferry_kernel_source *source,
                                      const struct ferryi_code_job *job,
                                      const ferryi_device_kind *compiler, const char *target);

#endif
