/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SPAN_H
#define FERRYI_SPAN_H

/* The time of a transfer, an eviction or a launch, for the trace and for profilers. */

#include "src/base/profile.h"
#include "src/trace/trace.h"

struct ferryi_span {
    uint64_t begun_ns; /* 0 without a trace */
    bool profiled;     /* whether a range of a profiler was begun */
};

/* The arguments are those of ferryi_profile_begin(). The same thread must end the span. */
static inline struct ferryi_span
ferryi_span_begin(const ferryi_trace *trace, const char *what, const char *name, const char *reason)
{
    return (struct ferryi_span){.begun_ns = trace ? ferryi_now_ns() : 0,
                                .profiled = ferryi_profile_begin(what, name, reason)};
}

static inline void
ferryi_span_end(struct ferryi_span span)
{
    if (span.profiled)
        ferryi_profile_end();
}

#endif
