/* SPDX-License-Identifier: MIT */
/* An empty library that tests load as the library of GPUDirect Storage. These tests only look up
 * its functions. */
int cuFileRead(void);

int
cuFileRead(void)
{
    return 0;
}
