/* SPDX-License-Identifier: MIT */
/* Takes the place of the library of GPUDirect Storage in tests that only look up its functions. */
int cuFileRead(void);

int
cuFileRead(void)
{
    return 0;
}
