/* SPDX-License-Identifier: MIT */
/* Steps of a random test that combine several scopes: copies of closed scopes, three scopes at
 * once, and writes that are abandoned while other calls run. */
#include "tests/histories/history.h"

/* Closes or abandons a copy of a scope that was closed earlier. The call must succeed and have no
 * effect while the scope's buffer exists. */
static void
step_stale(struct player *p)
{
    unsigned which = flags_of(p) % STALE;
    ferry_scope copy = p->stale[which];
    bool abandon = flags_of(p) & 4;
    say(p, "other_scope = stale[%u];", which);
    say(p, "OK(ferry_scope_%s(&other_scope));", abandon ? "abandon" : "close");
    MUST(p, abandon ? ferry_scope_abandon(&copy) : ferry_scope_close(&copy));
}

/* -- abandoned writes -------------------------------------------------------------------------- */

/* An open write scope that the test will abandon. The old values stay valid at the place `other`.
 */
struct kept {
    struct target t;
    ferry_buffer *view; /* a view of exactly the range that is written */
    ferry_scope scope;
    int at, other; /* the places of the write and of the value */
    bool strict;   /* whether the buffer must have its old values after the write is abandoned */
};

static bool
is_coherent(const struct player *p, int place)
{
    ferry_place_info info;
    return place == 0 ||
           (ferry_context_get_place_info(p->world->f.context, place, &info) == FERRY_OK &&
            info.coherent);
}

/* Makes the range valid at both places. */
static bool
sync_both(struct player *p, const struct kept *k)
{
    int places[] = {k->at, k->other};
    for (size_t i = 0; i < LENGTH(places); i++) {
        begin_call(p, &k->t);
        say(p, "TRY(ferry_buffer_sync_to(%s, %zu, %zu, %d, NULL));", k->t.name, k->t.offset,
            k->t.count, places[i]);
        if (!end_call(p, &k->t,
                      ferry_buffer_sync_to(k->t.handle, k->t.offset, k->t.count, places[i], NULL),
                      READS))
            return false;
    }
    return true;
}

/* Opens a scope on the range and writes arbitrary values, but does not close the scope. */
static bool
open_kept(struct player *p, struct kept *k)
{
    int32_t scribble = fresh(p, 1);
    void *memory;
    if (k->at == 0) {
        int32_t *ints;
        if (!open_host(p, &k->t, FERRY_UPDATE, &k->scope, &ints))
            return false;
        say(p, "set_constant(memory, %zu, %d);", k->t.count, (int)scribble);
        set_constant(ints, k->t.count, scribble);
    } else {
        if (!open_device(p, &k->t, FERRY_UPDATE, &k->scope, &memory))
            return false;
        say(p, "queue_fill(&f, s[%u][%u], memory, %d, %zu);", p->number, choose_stream(p),
            (int)scribble, k->t.count);
        queue_fill(&p->world->f, stream_for(p), memory, scribble, k->t.count);
    }
    say(p, "outer = scope;");
    set_constant(&k->t.subject->next[k->t.begin], k->t.count, scribble);
    return true;
}

/* Makes a call that must fail with FERRY_ERROR_BUSY. The call reads a range that an open scope of
 * the same stream writes, which is legal. It also updates a range that an open host scope writes,
 * which is the conflict. */
static void
fail_beside(struct player *p, const struct kept *k, const struct target *other)
{
    ferry_scope scope, scopes[2];
    ferry_status status;
    int32_t *memory;
    bool launch = flags_of(p) & 2;
    /* After an opening that failed for lack of memory the whole buffer is read, which must not be
     * the one that is being written. */
    bool cannot_settle = other->subject == k->t.subject && p->world->setup.memory > 0;
    if (other->count == 0 || overlap(&k->t, other) || k->at == 0 || cannot_settle ||
        !open_host(p, other, FERRY_UPDATE, &scope, &memory))
        return;
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(k->t.handle, INT, k->t.offset, k->t.count),
                            FERRY_READ),
        ferry_argument_with(ferry_buffer_argument(other->handle, INT, other->offset, other->count),
                            FERRY_UPDATE)};
    say(p,
        "arguments[0] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), FERRY_READ);",
        k->t.name, k->t.offset, k->t.count);
    say(p,
        "arguments[1] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), "
        "FERRY_UPDATE);",
        other->name, other->offset, other->count);
    if (launch) {
        say(p, "TRY(launch_copy(&w, s[%u][%u], %s, %zu, %s, %zu, %zu));", p->number,
            choose_stream(p), other->name, other->offset, k->t.name, k->t.offset, other->count);
        status = launch_copy(&p->world->w, stream_for(p), other->handle, other->offset, k->t.handle,
                             k->t.offset, other->count);
    } else {
        say(p, "TRY(ferry_scope_open_all(arguments, 2, %d, s[%u][%u], scopes, NULL));", k->at,
            p->number, choose_stream(p));
        status = ferry_scope_open_all(arguments, 2, k->at, stream_for(p), scopes, NULL);
    }
    if (status != FERRY_ERROR_BUSY &&
        !(status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0))
        went_wrong(p, "beside a write at the host it is %s", ferry_status_name(status));
    say(p, "OK(ferry_scope_close(&scope));");
    MUST(p, ferry_scope_close(&scope));
    /* The host scope counts as a write of its whole range, although the test wrote no value through
     * it. */
    memset(&other->subject->written[other->begin], true, other->count);
}

/* Makes a call that a program may make while a write scope is open. The old values, which are valid
 * at a different place, must survive even if the call fails. */
static void
meddle(struct player *p, const struct kept *k, const struct target *other)
{
    ferry_status status = FERRY_OK;
    ferry_pool *pool;
    const struct target *t = &k->t;
    switch (flags_of(p) / 4 % 8) {
    case 0:
    case 1:
        fail_beside(p, k, other);
        break;
    case 2:
        say(p, "(void)ferry_buffer_evict(%s, %d);", t->name, k->other);
        status = ferry_buffer_evict(t->handle, k->other);
        break;
    case 3:
        say(p, "(void)ferry_buffer_invalidate(%s, %zu, %zu, %d);", t->name, t->offset, t->count,
            k->other);
        status = ferry_buffer_invalidate(t->handle, t->offset, t->count, k->other);
        break;
    case 4:
        say(p, "(void)ferry_buffer_discard(%s, %zu, %zu);", t->name, t->offset, t->count);
        status = ferry_buffer_discard(t->handle, t->offset, t->count);
        if (status == FERRY_OK)
            went_wrong(p, "discarded beside an open write");
        break;
    case 5:
        say(p, "(void)ferry_buffer_evict(%s, %d);", t->name, k->at);
        status = ferry_buffer_evict(t->handle, k->at);
        break;
    case 6:
        if (k->at > 0 && ferry_context_pool(p->world->f.context, k->at, FERRY_MEMORY_DEVICE,
                                            &pool) == FERRY_OK) {
            say(p,
                "if (ferry_context_pool(f.context, %d, FERRY_MEMORY_DEVICE, &pool) == FERRY_OK) "
                "(void)ferry_pool_compact(pool, NULL);",
                k->at);
            status = ferry_pool_compact(pool, NULL);
        }
        break;
    default:
        break;
    }
    /* This step accepts any result of the call. */
    (void)status;
}

static void
abandon_kept(struct player *p, const struct kept *k)
{
    struct subject *s = k->t.subject;
    ferry_scope scope = k->scope;
    keep_stale(p, &scope);
    say(p, "OK(ferry_scope_abandon(&outer));");
    MUST(p, ferry_scope_abandon(&scope));
    size_t count = read_now(p, &k->t);
    for (size_t i = 0; i < count; i++) {
        size_t at = k->t.begin + i;
        if (is_right(p, s, at, p->values[i]))
            continue;
        if (k->strict || p->values[i] != s->next[at])
            went_wrong(p, "abandoned, element %zu of %s is %d instead of %d, which place %d had", i,
                       k->t.name, (int)p->values[i], (int)s->expected[at], k->other);
        s->expected[at] = p->values[i];
    }
}

static void
step_keep_old(struct player *p)
{
    struct kept k = {.t = choose(p)};
    struct target other = choose_second(p, &k.t);
    int place = ferry_stream_place(stream_for(p));
    bool at_host = flags_of(p) & 1;
    p->second.subject = NULL;
    p->arm = 0;
    k.at = at_host ? 0 : place;
    k.other = at_host ? place : 0;
    if (k.t.count == 0 || is_lent(p, k.t.subject, 0, LENGTH_MAX) ||
        is_lent(p, other.subject, 0, LENGTH_MAX) || !sync_both(p, &k) || !open_kept(p, &k))
        return;
    say(p,
        "if (ferry_buffer_view(%s, INT, %zu, %zu, &other) == FERRY_OK) "
        "ferry_buffer_destroy(&other);",
        k.t.name, k.t.offset, k.t.count);
    MUST(p, ferry_buffer_view(k.t.handle, INT, k.t.offset, k.t.count, &k.view));
    k.strict = ferry_buffer_is_current(k.view, k.other) && !is_coherent(p, place);
    ferry_buffer_destroy(&k.view);
    meddle(p, &k, &other);
    abandon_kept(p, &k);
    if (k.strict) {
        say_want(p, "values", &k.t);
    } else
        say_outcome(p, &k.t);
}

/* -- several at once --------------------------------------------------------------------------- */

/* Ranges of a call: two adjacent ranges of one buffer, and a range of a second buffer. */
struct trio {
    struct target t, from;
    size_t first_end, second_begin; /* in t */
    ferry_access first, second;
    ferry_scope scopes[3];
    void *out[3];
};

static bool
open_trio(struct player *p, struct trio *m)
{
    const struct target *t = &m->t, *from = &m->from;
    size_t second_count = t->count - m->second_begin;
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(t->handle, INT, t->offset, m->first_end),
                            m->first),
        ferry_argument_with(
            ferry_buffer_argument(t->handle, INT, t->offset + m->second_begin, second_count),
            m->second),
        ferry_argument_with(ferry_buffer_argument(from->handle, INT, from->offset, from->count),
                            FERRY_READ)};
    say(p, "three[0] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), %s);", t->name,
        t->offset, m->first_end, access_names[m->first]);
    say(p, "three[1] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), %s);", t->name,
        t->offset + m->second_begin, second_count, access_names[m->second]);
    say(p, "three[2] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), FERRY_READ);",
        from->name, from->offset, from->count);
    int place = ferry_stream_place(stream_for(p));
    begin_call(p, t);
    say(p, "TRY(ferry_scope_open_all(three, 3, %d, s[%u][%u], many, opened));", place, p->number,
        choose_stream(p));
    ferry_status status =
        ferry_scope_open_all(arguments, LENGTH(arguments), place, stream_for(p), m->scopes, m->out);
    return end_call(p, t, status, READS | OVERWRITES);
}

/* Writes the first of two ranges on the stream that opened the scopes, and the second range
 * on stream `last`. An event orders stream `last` after the stream that opened the scopes. The
 * scope of the second range is closed on stream `last`. */
static void
write_trio(struct player *p, struct trio *m, unsigned last)
{
    const struct target *t = &m->t;
    int32_t value = fresh(p, 2);
    size_t second_count = t->count - m->second_begin;
    unsigned s = choose_stream(p);
    bool writes = m->second != FERRY_READ, second_first = flags_of(p) & 1;
    say(p, "queue_fill(&f, s[%u][%u], opened[0], %d, %zu);", p->number, s, (int)value,
        m->first_end);
    queue_fill(&p->world->f, stream_for(p), m->out[0], value, m->first_end);
    has_written(t, 0, m->first_end, value);
    say(p, "order(s[%u][%u], s[%u][%u]);", p->number, s, p->number, last);
    ferry_event *event;
    MUST(p, ferry_stream_record(stream_for(p), 0, &event));
    MUST(p, ferry_stream_wait_event(p->streams[last], event));
    ferry_event_destroy(&event);
    if (writes) {
        say(p, "queue_fill(&f, s[%u][%u], opened[1], %d, %zu);", p->number, last, (int)value + 1,
            second_count);
        queue_fill(&p->world->f, p->streams[last], m->out[1], value + 1, second_count);
        has_written(t, m->second_begin, second_count, value + 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        bool second = (i == 0) == second_first;
        if (second)
            say(p, "OK(ferry_scope_close_on(&many[1], s[%u][%u]));", p->number, last);
        else
            say(p, "OK(ferry_scope_close(&many[0]));");
        MUST(p, second ? ferry_scope_close_on(&m->scopes[1], p->streams[last])
                       : ferry_scope_close(&m->scopes[0]));
    }
    say(p, "ferry_scope_close_all(&many[2], 1);");
    ferry_scope_close_all(&m->scopes[2], 1);
}

static void
step_trio(struct player *p)
{
    struct trio m = {.t = choose(p), .first = FERRY_UPDATE};
    m.from = choose_second(p, &m.t);
    unsigned last = (choose_stream(p) + flags_of(p)) % p->world->setup.streams;
    m.second = (ferry_access)(1 + flags_of(p) / 2 % 3);
    if (m.second == FERRY_OVERWRITE)
        m.first = FERRY_OVERWRITE;
    m.first_end = m.second_begin = m.t.count / 2;
    if (m.t.count < 3 || overlap(&m.t, &m.from) ||
        ferry_stream_place(p->streams[last]) != ferry_stream_place(stream_for(p)) ||
        !open_trio(p, &m))
        return;
    write_trio(p, &m, last);
}

/* Checks that ferry_scope_open_all() opens no scope if it fails. The call must fail, because one of
 * its ranges ends beyond the end of the buffer. */
static void
step_open_none(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scopes[2];
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(t.handle, INT, t.offset, t.count), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(t.handle, INT, t.offset, 2 * LENGTH_MAX),
                            FERRY_READ)};
    say(p,
        "arguments[0] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), "
        "FERRY_UPDATE);",
        t.name, t.offset, t.count);
    say(p,
        "arguments[1] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %d), FERRY_READ);",
        t.name, t.offset, 2 * LENGTH_MAX);
    say(p, "FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_scope_open_all(arguments, 2, 0, "
           "NULL, scopes, NULL));");
    ferry_status status = ferry_scope_open_all(arguments, 2, 0, NULL, scopes, NULL);
    if (status != FERRY_ERROR_OUT_OF_RANGE)
        went_wrong(p, "opened beyond the end: %s", ferry_status_name(status));
}

const struct step scope_steps[] = {
    {"stale", step_stale, 3},
    {"keep_old", step_keep_old, 6},
    {"three ranges", step_trio, 5},
    {"open_none", step_open_none, 1},
    {NULL, NULL, 0},
};
