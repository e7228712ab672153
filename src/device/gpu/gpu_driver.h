/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_GPU_DRIVER_H
#define FERRYI_GPU_DRIVER_H

/*
 * The table of a GPU driver's functions, and what is known of the vendor of the driver.
 *
 * Finds a driver at run time, because the library links none. In a process without a driver, calls
 * fail with FERRY_ERROR_NO_DEVICE and a message that states the reason.
 */

#include <pthread.h>

#include "src/base/base.h"
#include "src/device/device.h"
#include "src/device/gpu/gpu_abi.h"

struct ferryi_gpu_device;
struct ferryi_gpu_vendor;

/* A table of pointers to the driver's functions. ferryi_gpu_driver_load() fills the table. */
struct ferryi_gpu_driver {
    const struct ferryi_gpu_vendor *vendor;
    /* bits of ferryi_gpu_group; if the bit of a group is not set, the group's functions must not be
       called and may be NULL */
    unsigned int groups;
    /* The member function_set_attribute is NULL if kernels need no opt-in for the shared memory
     * that they use. */
#define FERRYI_GPU_MEMBER(Y, group, member, parameters) ferryi_gpu_result(*member) parameters;
    FERRYI_GPU_FUNCTIONS(FERRYI_GPU_MEMBER, )
#undef FERRYI_GPU_MEMBER
};

/* The number of each driver function in lists of names. */
#define FERRYI_GPU_NUMBER(Y, group, member, parameters) FERRYI_GPU_CALL_##member,
enum ferryi_gpu_call { FERRYI_GPU_FUNCTIONS(FERRYI_GPU_NUMBER, ) FERRYI_GPU_CALL_COUNT };
#undef FERRYI_GPU_NUMBER

/* The driver of this process. `once` guards all members except `kept_contexts`. */
struct ferryi_gpu_loaded {
    pthread_once_t once;
    struct ferryi_gpu_driver driver;
    ferry_status status;
    char message[512];
    unsigned forks; /* value of ferryi_fork_count() when the driver was loaded; a different value
                       means that this process is a forked child */
    /* primary contexts that the process retains after their devices are closed, one bit for each
       ordinal; the context of a lost device is released */
    _Atomic uint64_t kept_contexts;
};

/* The functions of a vendor's library that copies between files and device memory. They are called
 * with the device's context current. */
struct ferryi_gpu_file_calls {
    /* Open a file and copy, as file_open and file_copy of the device table do. The first call of
     * `open` for a device loads the library. */
    ferry_status (*open)(struct ferryi_gpu_device *gpu, int fd, void **out);
    ferry_status (*copy)(void *file, const struct ferryi_file_copy *copy, size_t *out_bytes);
    void (*close)(void *file);
    /* Ends the use of the library by a device that opened a file. If the device is not `usable`,
     * it is lost, or the driver has ended before the program, so that the library must not call the
     * driver. */
    void (*end)(struct ferryi_gpu_device *gpu, bool usable);
};

/* What differs between the drivers of the vendors. All members are constant. */
struct ferryi_gpu_vendor {
    const char *kind;  /* name of the kind of device */
    const char *title; /* name of the vendor's interface in messages, such as "CUDA" */
    ferry_language language;
    const char *images; /* the forms of code images that the driver takes, for messages */

    const char *library_variable;     /* environment variable that names the driver's library */
    const char *const *library_names; /* file names of the library, which are tried in turn; NULL
                                         ends the list */
    /* file that the system has if it has devices of the vendor; without it, the libraries are not
       loaded unless the program names one; NULL: there is no such file */
    const char *device_file;
    const char *const *names;       /* names of the functions, indexed by ferryi_gpu_call; a NULL
                                       stands for a function that the driver does not have */
    const unsigned int *attributes; /* numbers of the device attributes, indexed by
                                       ferryi_gpu_attribute; 0: the driver has none */
    void *legacy_stream;            /* handle of the legacy default stream */
    void *per_thread_stream;        /* handle of the per-thread default stream */
    bool copies_between_numbers;    /* whether copies between devices take numbers of devices in
                                       place of contexts */
    bool takes_load_options;        /* whether module_load returns a log */
    bool tells_ranges;              /* whether pointer_attribute returns the range of page-locked
                                       memory that contains a pointer */
    bool shares_integrated;         /* whether processes can share the memory of an integrated
                                       device */
    uint64_t threads_max;           /* most threads of a launch in one dimension; 0: no limit but
                                       that of the blocks */

    struct ferryi_gpu_loaded *loaded;
    void (*load_once)(void); /* calls ferryi_gpu_driver_load_usual() */
    /* Replaces functions whose parameters differ from those of the table. Called after the
     * functions were found, before the groups are determined. NULL: no function differs. */
    void (*adapt)(void *library, struct ferryi_gpu_driver *driver);
    /* Reads the version, the architecture and the target of a device whose other properties are
     * known. */
    ferry_status (*describe)(struct ferryi_gpu_device *gpu);
    /* Returns whether the driver can find the end of a code image, of which it receives only the
     * address. */
    bool (*image_has_end)(const void *image, size_t bytes);
    /* Compiles and loads a code, as code_build of the device table does. The image is found in the
     * list, or added to it. */
    ferry_status (*build)(struct ferryi_gpu_device *gpu, const struct ferryi_code_job *job,
                          struct ferryi_image **images, void **out_module);
    const struct ferryi_gpu_file_calls *files; /* NULL: there is no such library */
};

/* Returns the functions of the process's driver of a vendor. The driver is the first of the
 * vendor's libraries that exists, or the library that the vendor's environment variable names. The
 * first call loads and initialises the driver, which is never unloaded. Later calls return the
 * result of the first call. */
ferry_status ferryi_gpu_driver_get(const struct ferryi_gpu_vendor *vendor,
                                   const struct ferryi_gpu_driver **out);

/* Loads the driver for ferryi_gpu_driver_get(). Only the function load_once of a vendor calls it.
 */
void ferryi_gpu_driver_load_usual(const struct ferryi_gpu_vendor *vendor);

/* Loads a library, fills the table of its functions and initialises the driver. If a required
 * symbol is missing, fails with FERRY_ERROR_NO_DEVICE and a message that names the symbol. If a
 * symbol of an optional group is missing, the bit of that group is not set in `groups`. */
ferry_status ferryi_gpu_driver_load(const struct ferryi_gpu_vendor *vendor,
                                    const char *library_name, struct ferryi_gpu_driver *out);

/* Returns the driver's name for an error; never NULL. If the driver has no name for it, writes the
 * error's number to `buffer` and returns `buffer`. */
const char *ferryi_gpu_error_name(const struct ferryi_gpu_driver *driver, ferryi_gpu_result error,
                                  char buffer[32]);

#endif
