/* SPDX-License-Identifier: MIT */
#include "peer.h"

void
bench_peer_open(_Atomic uint64_t *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_acquire);
}

void
bench_peer_close(_Atomic uint64_t *word)
{
    atomic_fetch_sub_explicit(word, 1, memory_order_release);
}
