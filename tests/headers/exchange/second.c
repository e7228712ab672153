/* SPDX-License-Identifier: MIT */
/* The second translation unit of a test program. It contains separate descriptions of the element
 * types. */
#include "second.h"

const ferry_element *
second_number(void)
{
    return ferry_float_element();
}

ferry_status
second_double(ferry_float_buffer numbers, ferry_double_buffer out)
{
    return ferry_double_convert_from_float(out, 0, numbers, 0, FERRY_REST, FERRY_CONVERT_SATURATE,
                                           NULL);
}
