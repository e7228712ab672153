/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_SCENES_H
#define FERRY_TEST_SCENES_H

/*
 * A scene is a short sequence of calls that checks its own results. It leaves the contents of
 * buffers unchanged. A step of a random history plays one scene, and a printed history calls the
 * scene by its name. A scene that finds an error prints it and ends the process with abort().
 *
 * A scene may end early if the history runs with limited memory.
 */

#include "tests/histories/history.h"

struct scene {
    struct world *world;
    ferry_stream *stream;
    ferry_buffer *buffer; /* a buffer of ints, which other threads may use at the same time */
    size_t offset, count; /* a range that no other thread uses; if threads resize the buffer, the
                             range may exceed the buffer */
    unsigned flags;       /* six bits, whose meaning each scene defines */
    bool racing;          /* whether other threads may resize the buffer at the same time */
};

typedef void scene(const struct scene *s);

/* scenes.c */
scene scene_ask, scene_walk, scene_context, scene_pool, scene_pool_limit, scene_own_pool,
    scene_managed, scene_wrapped_stream, scene_register, scene_read_only, scene_odd_wrap,
    scene_cache, scene_copy_prefetched;
/* scenes_own.c */
scene scene_owners;
/* Scenes of scenes_call.c, in which callbacks call the library. If the public header forbids a call
 * in a callback, the call must be refused and must not block. */
scene scene_progress_calls, scene_trace_calls, scene_release_calls, scene_release_ends,
    scene_shortage_calls, scene_stream_file;

/* Trace callback of the context that a random test history uses. */
ferry_trace_callback scene_trace;

_Noreturn void scene_wrong(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define SCENE_WRONG(...) scene_wrong(__FILE__, __LINE__, __VA_ARGS__)
/* Returns true if the call succeeded. Returns false if the call ran out of memory and the test
 * limits the memory. Any other status ends the process. */
bool scene_went(const struct scene *s, ferry_status status, const char *call, const char *file,
                int line);
#define WENT(s, call) scene_went((s), (call), #call, __FILE__, __LINE__)
/* Checks that `status` is FERRY_OK or one of the statuses that follow as arguments. */
#define AMONG(status, ...)                                                                         \
    scene_among((status), (const ferry_status[]){__VA_ARGS__, FERRY_OK}, __FILE__, __LINE__)
void scene_among(ferry_status status, const ferry_status *list, const char *file, int line);

/* Returns the resident bytes of this process. */
size_t resident_bytes(void);

/* Creates and launches a kernel that writes the values `first`, `first` + 1 and so on. The kernel
 * also has an argument of each other kind. Its host function checks the values of these arguments.
 */
ferry_status launch_counting(ferry_context *context, ferry_stream *stream, ferry_buffer *out,
                             size_t offset, size_t count, int first);

/* Records a graph that sets each element of the range to `value` and adds 1, launches it `launches`
 * times on the stream, and destroys it while its work is queued. In between, the host changes the
 * range, which stays a value of the graph if a later launch fails. */
ferry_status launch_graph(work *w, ferry_context *context, ferry_stream *stream, ferry_buffer *out,
                          size_t offset, size_t count, int value, unsigned launches);

#endif
