/* SPDX-License-Identifier: MIT */
/* A driver that lacks nearly everything: it can be started, and that is all. */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int
cuInit(unsigned int flags)
{
    return flags;
}
