/* SPDX-License-Identifier: MIT */
#include "module.c"
