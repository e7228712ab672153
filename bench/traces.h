/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TRACES_H
#define BENCH_TRACES_H

#include "bench.h"

/*
 * How much memory the pool needs for what programs do, beside the best fit of today's pools: the
 * smallest limit in which each trace of traces/generate.py runs, on the host, whose memory is never
 * touched. Adds to the report; false after a message on stderr.
 */
bool traces_measure(struct bench_report *report);

#endif
