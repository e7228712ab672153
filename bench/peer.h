/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

/*
 * The peer of a hit: the minimum work of opening and closing with thread safety. It is in a shared
 * library, because Ferry is one.
 */

#include <stdatomic.h>
#include <stdint.h>

/** Does one atomic read-modify-write. */
void bench_peer_open(_Atomic uint64_t *word);
/** Does one atomic read-modify-write, like bench_peer_open(). */
void bench_peer_close(_Atomic uint64_t *word);

#endif
