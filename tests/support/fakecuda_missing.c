/* SPDX-License-Identifier: MIT */
/* A driver that lacks every entry point except cuInit(). */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int
cuInit(unsigned int flags)
{
    return flags;
}
