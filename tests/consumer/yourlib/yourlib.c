/* SPDX-License-Identifier: MIT */
#include "yourlib/yourlib.h"

ferry_status
yourlib_add(yourlib_uint16_buffer numbers, uint16_t amount)
{
    ferry_scope scope;
    uint16_t *number;
    size_t i;
    ferry_status status = yourlib_uint16_update_host(numbers, &scope, &number);

    if (status != FERRY_OK)
        return status;
    for (i = 0; i < yourlib_uint16_count(numbers); i++)
        number[i] = (uint16_t)(number[i] + amount);
    return ferry_scope_close(&scope);
}
