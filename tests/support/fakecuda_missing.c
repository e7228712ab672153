/* SPDX-License-Identifier: MIT */
/* A library that imitates a driver without any entry point except cuInit(). */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int
cuInit(unsigned int flags)
{
    return flags;
}
