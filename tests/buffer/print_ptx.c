/* SPDX-License-Identifier: MIT */
/* Prints the PTX of the kernels in work.c, so that a test can assemble it. */
#include <stdio.h>

#include "tests/buffer/work.h"

int
main(void)
{
    return fputs(work_image(), stdout) < 0;
}
