/* SPDX-License-Identifier: MIT */
/* Compares src/device/cuda/cufile_abi.h with the real <cufile.h>. This file is compiled but never
 * run: a difference fails to compile. */
#include <cufile.h>

#include "src/device/cuda/cufile_abi.h"

#define SAME_VALUE(ours, theirs)                                                                   \
    _Static_assert((int)(theirs) == (ours), #theirs " has another value")
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs), #theirs " has another size")
#define SAME_FIELD(ours, our_field, theirs, their_field)                                           \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                   \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),       \
                   #their_field " lies elsewhere or has another size")
#define SAME_FUNCTION(type, name, parameters)                                                      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), type parameters),                \
                   #name " is another function");

SAME_VALUE(FERRYI_CUFILE_CUDA_DRIVER_ERROR, CU_FILE_CUDA_DRIVER_ERROR);
SAME_VALUE(FERRYI_CUFILE_DIRECT_NOT_SET, CU_FILE_DIO_NOT_SET);
SAME_VALUE(FERRYI_CUFILE_INVALID_VALUE, CU_FILE_INVALID_VALUE);
SAME_VALUE(FERRYI_CUFILE_ALREADY_OPEN, CU_FILE_DRIVER_ALREADY_OPEN);
SAME_VALUE(FERRYI_CUFILE_HANDLE_NOT_REGISTERED, CU_FILE_HANDLE_NOT_REGISTERED);
SAME_VALUE(FERRYI_CUFILE_TYPE_FD, CU_FILE_HANDLE_TYPE_OPAQUE_FD);
SAME_VALUE(FERRYI_CUFILE_ALLOWS_COMPATIBLE, CU_FILE_ALLOW_COMPAT_MODE);

SAME_SIZE(struct ferryi_cufile_result, CUfileError_t);
SAME_FIELD(struct ferryi_cufile_result, error, CUfileError_t, err);
SAME_FIELD(struct ferryi_cufile_result, cuda_error, CUfileError_t, cu_err);

SAME_SIZE(struct ferryi_cufile_descriptor, CUfileDescr_t);
SAME_FIELD(struct ferryi_cufile_descriptor, type, CUfileDescr_t, type);
SAME_FIELD(struct ferryi_cufile_descriptor, file.fd, CUfileDescr_t, handle.fd);
SAME_FIELD(struct ferryi_cufile_descriptor, file_system, CUfileDescr_t, fs_ops);

_Static_assert(sizeof(CUfileDrvProps_t) <= sizeof(struct ferryi_cufile_properties),
               "CUfileDrvProps_t has more members than there is room for");
SAME_FIELD(struct ferryi_cufile_properties, module_major, CUfileDrvProps_t, nvfs.major_version);
SAME_FIELD(struct ferryi_cufile_properties, module_minor, CUfileDrvProps_t, nvfs.minor_version);
SAME_FIELD(struct ferryi_cufile_properties, poll_bytes, CUfileDrvProps_t, nvfs.poll_thresh_size);
SAME_FIELD(struct ferryi_cufile_properties, file_systems, CUfileDrvProps_t, nvfs.dstatusflags);
SAME_FIELD(struct ferryi_cufile_properties, control, CUfileDrvProps_t, nvfs.dcontrolflags);

/* The library's types stand for those of Ferry in the prototypes. */
#define ferryi_cufile_result     CUfileError
#define ferryi_cufile_descriptor CUfileDescr_t
#define ferryi_cufile_properties CUfileDrvProps
FERRYI_CUFILE_FUNCTIONS(SAME_FUNCTION)
