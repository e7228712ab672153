/* SPDX-License-Identifier: MIT */
/* Prints the PTX of the kernels in work.c, for a test that assembles it. */
#include <stdio.h>

#include "tests/buffer/work.h"

int
main(void)
{
    return fputs(work_image(), stdout) < 0;
}
