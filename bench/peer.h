/* SPDX-License-Identifier: MIT */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

/*
 * Functions with which the opening and closing of a scope on current data is compared. They do the
 * least work that a thread-safe implementation needs. They are in a shared library, because Ferry
 * is also in one.
 */

#include <stdatomic.h>
#include <stdint.h>

/** Makes one atomic read-modify-write. */
void bench_peer_open(_Atomic uint64_t *word);
/** Makes one atomic read-modify-write, like bench_peer_open(). */
void bench_peer_close(_Atomic uint64_t *word);

#endif
