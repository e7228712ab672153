/* SPDX-License-Identifier: MIT */
/* Lets Python tests convert arrays. Python cannot call the inline functions of Ferry's headers. */
#include <string.h>

#include <ferry/bfloat16.h>
#include <ferry/bool.h>
#include <ferry/byte.h>
#include <ferry/complex_double.h>
#include <ferry/complex_float.h>
#include <ferry/conversion.h>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/generated.h>
#include <ferry/half.h>
#include <ferry/int.h>
#include <ferry/int16.h>
#include <ferry/int64.h>
#include <ferry/int8.h>
#include <ferry/uint16.h>
#include <ferry/uint32.h>
#include <ferry/uint64.h>

/* Converts `count` elements of the type named `from` to the type named `to`. */
ferry_status convert_by_name(const char *from, const char *to, void *target, const void *source,
                             size_t count, int policy);

static const ferry_element *
find(const char *name)
{
    const ferry_element *elements[] = {
        ferry_bfloat16_element(),       ferry_bool_element(),          ferry_byte_element(),
        ferry_complex_double_element(), ferry_complex_float_element(), ferry_double_element(),
        ferry_float_element(),          ferry_half_element(),          ferry_int_element(),
        ferry_int16_element(),          ferry_int64_element(),         ferry_int8_element(),
        ferry_uint16_element(),         ferry_uint32_element(),        ferry_uint64_element(),
    };
    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
        if (strcmp(elements[i]->name, name) == 0)
            return elements[i];
    return NULL;
}

ferry_status
convert_by_name(const char *from, const char *to, void *target, const void *source, size_t count,
                int policy)
{
    const ferry_conversion conversion = {.from = find(from), .to = find(to)};
    return ferry_conversion_run(&conversion, target, source, count, (ferry_convert_policy)policy);
}
