/* SPDX-License-Identifier: MIT */
/* Steps of random test histories. Each step plays a scene: a short sequence of library calls that
 * checks its own results (scenes.h). */
#include "tests/histories/scenes.h"

static void
play(struct player *p, scene *run, const char *name)
{
    struct target t = choose(p);
    struct scene s = {.world = p->world,
                      .stream = p->streams[choose_stream(p)],
                      .buffer = t.subject->handle,
                      .offset = t.begin,
                      .count = t.count,
                      .flags = flags_of(p),
                      .racing = is_racing(p, t.subject)};
    release_beside(p, &t);
    say(p, "%s(&(struct scene){&printed_world, s[%u][%u], b[%d], %zu, %zu, %u, %s});", name,
        p->number, choose_stream(p), (int)(t.subject - p->world->subjects), s.offset, s.count,
        s.flags, s.racing ? "true" : "false");
    run(&s);
}

#define SCENE(name)                                                                                \
    static void step_##name(struct player *p)                                                      \
    {                                                                                              \
        play(p, scene_##name, "scene_" #name);                                                     \
    }

SCENE(ask)
SCENE(walk)
SCENE(context)
SCENE(pool)
SCENE(pool_limit)
SCENE(own_pool)
SCENE(managed)
SCENE(wrapped_stream)
SCENE(register)
SCENE(read_only)
SCENE(odd_wrap)
SCENE(cache)
SCENE(copy_prefetched)
SCENE(progress_calls)
SCENE(trace_calls)
SCENE(release_calls)
SCENE(release_ends)
SCENE(shortage_calls)
SCENE(stream_file)
SCENE(owners)

const struct step scene_steps[] = {
    {"ask_all", step_ask, 2},
    {"walk", step_walk, 1},
    {"context", step_context, 1},
    {"pool", step_pool, 2},
    {"pool_limit", step_pool_limit, 2},
    {"own_pool", step_own_pool, 1},
    {"managed", step_managed, 1},
    {"wrapped_stream", step_wrapped_stream, 2},
    {"register", step_register, 1},
    {"read_only", step_read_only, 2},
    {"odd_wrap", step_odd_wrap, 1},
    {"cache", step_cache, 1},
    {"prefetch_range", step_copy_prefetched, 2},
    {"progress_calls", step_progress_calls, 1},
    {"trace_calls", step_trace_calls, 1},
    {"release_calls", step_release_calls, 1},
    {"release_ends", step_release_ends, 1},
    {"shortage_calls", step_shortage_calls, 1},
    {"stream_file", step_stream_file, 1},
    {"owners", step_owners, 2},
    {NULL, NULL, 0},
};
