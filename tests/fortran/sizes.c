/* SPDX-License-Identifier: MIT */
/* Returns the sizes of structs that ferry.f90 also declares. test_buffers.f90 compares them with
 * the sizes that it declares. */
#include <ferry/ferry.h>

size_t test_size_of(int number);

size_t
test_size_of(int number)
{
    static const size_t sizes[] = {
        sizeof(ferry_scope),          sizeof(ferry_grid),
        sizeof(ferry_argument),       sizeof(ferry_parameter),
        sizeof(ferry_field),          sizeof(ferry_element),
        sizeof(ferry_kernel_source),  sizeof(ferry_context_options),
        sizeof(ferry_buffer_options), sizeof(ferry_lease_options),
        sizeof(ferry_copy_side),      sizeof(ferry_copy_region),
        sizeof(ferry_copy_options),   sizeof(ferry_kernel_code),
        sizeof(ferry_share),          sizeof(ferry_share_options),
    };
    return sizes[number - 1];
}
