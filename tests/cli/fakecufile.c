/* SPDX-License-Identifier: MIT */
/* A library that tests load as the library of GPUDirect Storage. The tests only look up its
 * functions and do not call them. */
int cuFileRead(void);

int
cuFileRead(void)
{
    return 0;
}
