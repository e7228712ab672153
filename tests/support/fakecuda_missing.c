/* SPDX-License-Identifier: MIT */
/* A CUDA driver library that has cuInit() but lacks all other entry points. */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int
cuInit(unsigned int flags)
{
    return flags;
}
