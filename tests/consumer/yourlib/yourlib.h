/* SPDX-License-Identifier: MIT */
#ifndef YOURLIB_H
#define YOURLIB_H

#include "yourlib/uint16_buffer.h"

/* Adds `amount` to every number. */
ferry_status yourlib_add(yourlib_uint16_buffer numbers, uint16_t amount);

#endif
