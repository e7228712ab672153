/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

/*
 * What a hit is measured against: the least that opening and closing could do and still be safe
 * between threads. It is a shared library, because the real calls are in one.
 */

#include <stdatomic.h>
#include <stdint.h>

/** One atomic read-modify-write. */
void bench_peer_open(_Atomic uint64_t *word);
/** Another. */
void bench_peer_close(_Atomic uint64_t *word);

#endif
