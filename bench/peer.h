/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

/*
 * The peer of a hit, which is the opening and closing of a scope whose data is current. The peer
 * does the least work that a thread-safe opening and closing need. It is in a shared library,
 * because Ferry is also in one.
 */

#include <stdatomic.h>
#include <stdint.h>

/** Does one atomic read-modify-write. */
void bench_peer_open(_Atomic uint64_t *word);
/** Makes one atomic read-modify-write, like bench_peer_open(). */
void bench_peer_close(_Atomic uint64_t *word);

#endif
