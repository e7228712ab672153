/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_CUFILE_ABI_H
#define FERRYI_CUFILE_ABI_H

/* What Ferry uses of the binary interface of cuFile. Ferry declares it itself, because it is built
 * without the CUDA Toolkit. Where the toolkit is installed, tests/device/check_cufile_abi.c
 * compares these declarations with <cufile.h>. */

#include <stddef.h>
#include <sys/types.h>

struct ferryi_cufile_result {
    int error;               /* 0, or a number above 5000 */
    unsigned int cuda_error; /* the driver's error, if that is the cause */
};

#define FERRYI_CUFILE_CUDA_DRIVER_ERROR     5011
#define FERRYI_CUFILE_DIRECT_NOT_SET        5020
#define FERRYI_CUFILE_INVALID_VALUE         5022
#define FERRYI_CUFILE_ALREADY_OPEN          5026
#define FERRYI_CUFILE_HANDLE_NOT_REGISTERED 5027

struct ferryi_cufile_descriptor {
    int type;
    union {
        int fd;
        void *handle;
    } file;
    const void *file_system; /* functions of a file system in user space; NULL: none */
};

#define FERRYI_CUFILE_TYPE_FD 1

struct ferryi_cufile_properties {
    unsigned int module_major, module_minor; /* version of nvidia-fs; 0.0: it is not loaded */
    size_t poll_bytes, direct_kilobytes;
    unsigned int file_systems, control; /* sets of bits */
    unsigned int rest[64];              /* newer releases append members */
};

/* Number of the bit in `control` that says whether the compatibility mode is allowed. */
#define FERRYI_CUFILE_ALLOWS_COMPATIBLE 1

/* Expands X(type, name, parameters) for each function. Ferry does not call cuFileGetVersion. It
 * shows that the release is newer than 1.7: the driver of some older ones fails when the process
 * ends. */
#define FERRYI_CUFILE_FUNCTIONS(X)                                                                 \
    X(struct ferryi_cufile_result, cuFileGetVersion, (int *version))                               \
    X(struct ferryi_cufile_result, cuFileDriverOpen, (void))                                       \
    X(struct ferryi_cufile_result, cuFileDriverClose_v2, (void))                                   \
    X(struct ferryi_cufile_result, cuFileDriverGetProperties,                                      \
      (struct ferryi_cufile_properties * properties))                                              \
    X(struct ferryi_cufile_result, cuFileHandleRegister,                                           \
      (void **handle, struct ferryi_cufile_descriptor *descriptor))                                \
    X(void, cuFileHandleDeregister, (void *handle))                                                \
    X(ssize_t, cuFileRead,                                                                         \
      (void *handle, void *memory, size_t bytes, off_t file_offset, off_t memory_offset))          \
    X(ssize_t, cuFileWrite,                                                                        \
      (void *handle, const void *memory, size_t bytes, off_t file_offset, off_t memory_offset))

#endif
