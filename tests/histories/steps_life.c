/* SPDX-License-Identifier: MIT */
/* Steps of a random test that create and destroy buffers, wraps, views, streams, events and scratch
 * memory. One step injects a failure into a later library call. */
#include "tests/histories/history.h"

#include <sched.h>
#include <unistd.h>

#include "tests/support/short_memory.h"

static int
number_of(const struct player *p, const struct subject *subject)
{
    return (int)(subject - p->world->subjects);
}

/* -- buffers ----------------------------------------------------------------------------------- */

static void
create_plain(struct player *p, struct subject *s, unsigned how)
{
    static const char *const names[] = {"FERRY_MEMORY_DEFAULT", "FERRY_MEMORY_PAGEABLE",
                                        "FERRY_MEMORY_PINNED"};
    unsigned memory = p->world->f.coherent ? 0 : how % 3;
    bool scrub = s->scrub = how & 8;
    ferry_buffer_options options = {.name = "subject",
                                    .memory = memory == 2   ? FERRY_MEMORY_PINNED
                                              : memory == 1 ? FERRY_MEMORY_PAGEABLE
                                                            : 0,
                                    .scrub = scrub,
                                    .align = how & 16 ? 4096 : 0};
    say(p,
        "OK(ferry_buffer_create(f.context, INT, %zu, &(ferry_buffer_options){.memory = %s, .scrub "
        "= %d, .align = %zu}, &b[%d]));",
        s->count, names[memory], scrub, options.align, number_of(p, s));
    MUST(p, ferry_buffer_create(p->world->f.context, INT, s->count, &options, &s->handle));
    set_constant(s->expected, s->count, 0);
}

static void
create_from(struct player *p, struct subject *s)
{
    int32_t first = fresh(p, s->count);
    set_counting(s->expected, s->count, first);
    memset(s->written, true, s->count);
    say(p, "OK(ferry_buffer_create_from(f.context, INT, %zu, counting(%zu, %d), NULL, &b[%d]));",
        s->count, s->count, (int)first, number_of(p, s));
    MUST(p, ferry_buffer_create_from(p->world->f.context, INT, s->count, s->expected, NULL,
                                     &s->handle));
}

static void
wrap(struct player *p, struct subject *s)
{
    int32_t first = fresh(p, s->count);
    s->wrap_shift = (size_t)first % WRAP_SHIFTS;
    set_counting(s->expected, s->count, first);
    set_counting(s->memory + s->wrap_shift, s->count, first);
    memset(s->written, true, s->count);
    say(p, "OK(ferry_buffer_wrap_host(f.context, INT, %zu, memory_of(%d, %zu, %d), NULL, &b[%d]));",
        s->count, number_of(p, s), s->count, (int)first, number_of(p, s));
    MUST(p, ferry_buffer_wrap_host(p->world->f.context, INT, s->count, s->memory + s->wrap_shift,
                                   NULL, &s->handle));
    s->wrapped = true;
}

/* Imports memory through a DLPack tensor, as if a different library had created the tensor. */
static void
import(struct player *p, struct subject *s, unsigned how)
{
    int32_t first = fresh(p, s->count);
    int number = number_of(p, s);
    bool legacy = how & 8, by_stream = how & 16;
    s->wrap_shift = (size_t)first % WRAP_SHIFTS;
    set_counting(s->expected, s->count, first);
    set_counting(s->memory + s->wrap_shift, s->count, first);
    memset(s->written, true, s->count);
    say(p, "OK(import_ints(f.context, memory_of(%d, %zu, %d), %zu, %d, %s, &deleted[%d], &b[%d]));",
        number, s->count, (int)first, s->count, legacy, by_stream ? "f.stream" : "NULL", number,
        number);
    MUST(p, import_ints(p->world->f.context, s->memory + s->wrap_shift, s->count, legacy,
                        by_stream ? p->world->f.stream : NULL, &s->deleted, &s->handle));
    s->wrapped = s->imported = true;
}

void
make_subject(struct player *p, struct subject *subject, unsigned how)
{
    subject->count = how & 32 ? 1 + (how * 977u) % LENGTH_MAX : 1 + (how * 131u) % 300;
    if (subject->shared && p->world->setup.players > 1)
        subject->count = 1500 + (how * 977u) % 1500;
    subject->wrapped = subject->imported = subject->scrub = false;
    subject->deleted = 0;
    memset(subject->pins, 0, sizeof(subject->pins));
    memset(subject->doubtful, false, sizeof(subject->doubtful));
    memset(subject->written, false, sizeof(subject->written));
    memset(subject->expected, 0, sizeof(subject->expected));
    subject->race.low = subject->race.high = subject->count;
    for (size_t i = 0; i < PLAYERS_MAX; i++)
        subject->race.cut[i] = SIZE_MAX;
    if (how % 8 == 7)
        wrap(p, subject);
    else if (how % 8 == 5)
        import(p, subject, how);
    else if (how % 8 == 6)
        create_from(p, subject);
    else
        create_plain(p, subject, how);
}

static void
end_views(struct player *p, struct subject *subject)
{
    for (size_t i = 0; i < LENGTH(subject->views); i++) {
        if (subject->views[i].handle)
            say(p, "ferry_buffer_destroy(&v[%d][%zu]);", number_of(p, subject), i);
        ferry_buffer_destroy(&subject->views[i].handle);
    }
}

/* Checks that the deleter of a DLPack tensor was called once. Then waits for the stream, because
 * the deleter may be called before the stream's last use of the memory has ended. */
static void
end_import(struct player *p, struct subject *subject)
{
    if (subject->deleted != 1)
        went_wrong(p, "the deleter of a tensor was called %d times", (int)subject->deleted);
    say(p, "OK(ferry_stream_synchronize(f.stream));");
    MUST(p, ferry_stream_synchronize(p->world->f.stream));
}

void
end_subject(struct player *p, struct subject *subject, enum subject_end how)
{
    int number = number_of(p, subject);
    end_views(p, subject);
    /* Removes the stored copies of closed scopes. A program may close such a copy only while the
     * buffer of the scope exists. */
    memset(p->stale, 0, sizeof(p->stale));
    say(p, "memset(stale, 0, sizeof(stale));");
    /* Waits for the asynchronous calls on the buffer. ferry_buffer_unwrap() waits for them only if
     * it destroys the last handle of the buffer. */
    if (subject->wrapped)
        drain(p);
    if (subject->wrapped && how != BY_DESTROY) {
        const char *verb = how == BY_UNWRAP ? "unwrap" : "abandon";
        release_held(p, subject);
        say(p, "OK(ferry_buffer_%s(&b[%d]%s));", verb, number, how == BY_UNWRAP ? ", NULL" : "");
        MUST(p, how == BY_UNWRAP ? ferry_buffer_unwrap(&subject->handle, NULL)
                                 : ferry_buffer_abandon(&subject->handle));
    } else {
        release_scopes(p, subject);
        say(p, "ferry_buffer_destroy(&b[%d]);", number);
        ferry_buffer_destroy(&subject->handle);
        orphan_held(p, subject);
    }
    if (subject->imported)
        end_import(p, subject);
    if (!subject->wrapped || how == BY_ABANDON)
        return;
    char memory[32];
    snprintf(memory, sizeof(memory), "printed_wraps[%d] + %zu", number, subject->wrap_shift);
    say_values(p, "want", memory, subject->expected, subject->count);
    for (size_t i = 0; i < subject->count; i++)
        if (subject->memory[subject->wrap_shift + i] != subject->expected[i])
            went_wrong(p, "element %zu of the wrapped memory is %d instead of %d", i,
                       (int)subject->memory[subject->wrap_shift + i], (int)subject->expected[i]);
}

/* Replaces a buffer of the random test by a new one. A buffer that several threads share is not
 * replaced, because other threads may be using its handle. */
static void
step_renew(struct player *p)
{
    struct target t = choose(p);
    if (is_racing(p, t.subject))
        return;
    if (t.subject->wrapped)
        expect_subject(p, t.subject);
    end_subject(p, t.subject, (enum subject_end)(p->bytes[2] % 3));
    make_subject(p, t.subject, flags_of(p));
}

/* Retains the context. If an earlier call has retained it, releases the context on a second thread
 * instead. */
static void
retain_context(struct player *p)
{
    if (p->owner) {
        say(p, "destroy_elsewhere(&owner);");
        destroy_elsewhere(&p->owner);
        return;
    }
    say(p, "owner = ferry_context_retain(f.context);");
    p->owner = ferry_context_retain(p->world->f.context);
    if (p->owner != p->world->f.context)
        went_wrong(p, "one more owner has another context");
}

/* Retains an object and releases it at once. */
static void
step_retain(struct player *p)
{
    struct target t = choose(p);
    int number = number_of(p, t.subject);
    if (flags_of(p) & 1) {
        retain_context(p);
        return;
    }
    say(p, "other = ferry_buffer_retain(b[%d]), ferry_buffer_destroy(&other);", number);
    ferry_buffer *other = ferry_buffer_retain(t.subject->handle);
    if (other != t.subject->handle)
        went_wrong(p, "one more owner has another handle");
    ferry_buffer_destroy(&other);
}

static bool
may_resize(const struct player *p, struct subject *s)
{
    bool may = !s->wrapped;
    for (size_t i = 0; i < VIEWS; i++)
        may = may && !views_of(p, s)[i].handle;
    for (size_t i = 0; i < LENGTH(s->pins[0]); i++)
        may = may && pins_of(p, s)[i] == 0;
    return may;
}

/* Returns a new length for a buffer. A buffer that several threads share usually keeps at least
 * half of its initial length. */
static size_t
choose_length(const struct player *p, const struct subject *s, const struct target *t)
{
    size_t length = flags_of(p) & 1 ? t->count * 2 : t->begin;
    if (!is_racing(p, s))
        return 1 + length % LENGTH_MAX;
    if (flags_of(p) % 8 == 6)
        return 1 + (length + p->step * 7) % s->count;
    return s->count / 2 + (length + p->step * 131) % (LENGTH_MAX - s->count / 2);
}

static void
step_resize(struct player *p)
{
    struct target t = choose(p);
    struct subject *s = t.subject;
    size_t count = choose_length(p, s, &t);
    bool may = may_resize(p, s), racing = is_racing(p, s);
    if (flags_of(p) & 2)
        release_held(p, s);
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_resize(b[%d], %zu));", number_of(p, s), count);
    race_begin(p, s, count);
    ferry_status status = ferry_buffer_resize(s->handle, count);
    race_end(p, s, count, status == FERRY_OK);
    if (status == FERRY_OK && !may && !racing && count != s->count)
        went_wrong(p, "resized while viewed, pinned or wrapped");
    if (!end_call(p, &t, status, READS | WHOLE_BUFFER | (may && !racing ? 0 : MAY_BE_STATE)) ||
        racing)
        return;
    memset(&s->written[count], false, LENGTH_MAX - count);
    if (count > s->count)
        set_constant(&s->expected[s->count], count - s->count, 0);
    s->count = count;
}

/* Checks that the buffer is long enough for its view, and pins and unpins the view. Usually
 * destroys the view then, because a buffer with a view cannot be resized. */
static void
go_through_view(struct player *p, const struct target *t, struct view *view)
{
    int place = choose_place(p);
    void *memory;
    if (ferry_buffer_count(t->subject->handle) < t->begin + t->count)
        went_wrong(p, "a view of %zu elements at %zu of a buffer that has %zu", t->count, t->begin,
                   ferry_buffer_count(t->subject->handle));
    if (ferry_buffer_hold(view->handle, place, &memory) == FERRY_OK)
        MUST(p, ferry_buffer_release(view->handle, place));
    if (flags_of(p) % 8 != 3)
        ferry_buffer_destroy(&view->handle);
}

static void
step_view(struct player *p)
{
    struct target t = choose(p);
    struct view *view = &views_of(p, t.subject)[is_racing(p, t.subject) ? 0 : flags_of(p) % VIEWS];
    int number = number_of(p, t.subject);
    size_t which = (size_t)(view - t.subject->views);
    if (view->handle) {
        say(p, "ferry_buffer_destroy(&v[%d][%zu]);", number, which);
        ferry_buffer_destroy(&view->handle);
        return;
    }
    begin_call(p, &t);
    bool of = flags_of(p) & 4;
    say(p, "TRY(ferry_buffer_%s(%s, INT, %zu, %zu, &v[%d][%zu]));", of ? "reinterpret" : "view",
        t.name, of ? t.offset * sizeof(int32_t) : t.offset, t.count, number, which);
    ferry_status status = of ? ferry_buffer_reinterpret(t.handle, INT, t.offset * sizeof(int32_t),
                                                        t.count, &view->handle)
                             : ferry_buffer_view(t.handle, INT, t.offset, t.count, &view->handle);
    view->offset = t.begin;
    view->count = t.count;
    if (end_call(p, &t, status, READS) && is_racing(p, t.subject))
        go_through_view(p, &t, view);
}

/* -- many calls in a row on a buffer that others resize ---------------------------------------- */

enum { BURST = 30 };

static void
burst_of_resizes(struct player *p, struct subject *s)
{
    for (size_t i = 0; i < BURST; i++) {
        size_t count = s->count / 2 + (p->step * 131 + i * 577) % (LENGTH_MAX - s->count / 2);
        race_open_windows(p);
        race_begin(p, s, count);
        ferry_status status = ferry_buffer_resize(s->handle, count);
        race_end(p, s, count, status == FERRY_OK);
        bool refused = status == FERRY_ERROR_INVALID_STATE || status == FERRY_ERROR_BUSY ||
                       status == FERRY_ERROR_CANCELLED;
        bool is_short = status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0;
        if (status != FERRY_OK && !refused && !is_short)
            must(p, status, "ferry_buffer_resize()");
    }
}

/* Creates many views of a buffer that other threads resize. While a view exists, resizes must fail,
 * and the buffer must contain all elements of the view. */
static void
burst_of_views(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    for (size_t i = 0; i < BURST; i++) {
        ferry_buffer *view;
        ferry_status status = ferry_buffer_view(s->handle, INT, t->begin, t->count, &view);
        if (status == FERRY_ERROR_OUT_OF_RANGE)
            continue;
        MUST(p, status);
        size_t count = ferry_buffer_count(s->handle);
        if (count < t->begin + t->count)
            went_wrong(p, "a view of %zu elements at %zu of a buffer that has %zu", t->count,
                       t->begin, count);
        sched_yield();
        if (ferry_buffer_count(s->handle) != count)
            went_wrong(p, "resized while viewed");
        ferry_buffer_destroy(&view);
    }
}

/* Pins a replica of a buffer many times, while other threads resize the buffer. The address and the
 * size of a pinned replica must not change. */
static void
burst_of_pins(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    int place = choose_place(p);
    for (size_t i = 0; i < BURST; i++) {
        void *memory, *again;
        if (ferry_buffer_hold(s->handle, place, &memory) != FERRY_OK)
            continue;
        size_t count = ferry_buffer_count(s->handle);
        sched_yield();
        MUST(p, ferry_buffer_hold(s->handle, place, &again));
        if (again != memory || ferry_buffer_count(s->handle) != count)
            went_wrong(p, "moved or resized while pinned");
        MUST(p, ferry_buffer_release(s->handle, place));
        MUST(p, ferry_buffer_release(s->handle, place));
    }
}

/* Queries a buffer while other threads may resize it, and checks that the results are legal. */
static void
burst_of_questions(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    ferry_buffer_info info;
    for (size_t i = 0; i < BURST; i++) {
        (void)ferry_buffer_state(s->handle);
        (void)ferry_buffer_is_current(s->handle, choose_place(p));
        MUST(p, ferry_buffer_get_info(s->handle, &info));
        if (info.bytes != info.count * sizeof(int32_t))
            went_wrong(p, "%zu bytes of %zu elements", info.bytes, info.count);
        ferry_status status = i % 2 ? ferry_buffer_evict(s->handle, choose_place(p))
                                    : ferry_buffer_reserve(s->handle, choose_place(p));
        if (status == FERRY_ERROR_OUT_OF_RANGE)
            must(p, status, "a call on all of a buffer");
    }
}

/* Opens READ scopes that reach to the end of a buffer while other threads resize the buffer. The
 * pointer of a scope may be NULL only if the buffer ends where the range begins. */
static void
burst_of_rests(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    for (size_t i = 0; i < BURST; i++) {
        ferry_scope scope;
        void *memory = NULL;
        ferry_status status = ferry_buffer_open_host(s->handle, INT, FERRY_READ, t->begin,
                                                     FERRY_REST, &scope, &memory);
        if (status != FERRY_OK)
            continue;
        if (!memory && !race_knows_count(s, t->begin))
            went_wrong(p, "opened from element %zu to the end at no address", t->begin);
        MUST(p, ferry_scope_close(&scope));
    }
}

static void
step_burst(struct player *p)
{
    struct target t = choose(p);
    t.subject = &p->world->subjects[flags_of(p) & 1];
    if (!is_racing(p, t.subject) || t.subject->wrapped || is_lent(p, t.subject, 0, LENGTH_MAX))
        return;
    size_t begin, end, half = t.subject->count / 2;
    own_region(p, t.subject, &begin, &end);
    /* The range lies in the second half of the buffer, because the resizes of other threads remove
     * and add elements there. */
    t.begin = half + p->bytes[4] * 11u % (LENGTH_MAX - half - 8);
    t.count = 1 + p->bytes[5] % 8;
    switch (flags_of(p) / 2 % 6) {
    case 0:
    case 1:
        burst_of_resizes(p, t.subject);
        break;
    case 2:
        burst_of_questions(p, &t);
        break;
    case 3:
        burst_of_pins(p, &t);
        break;
    case 4:
        if (p->number + 1 == p->world->setup.players && t.begin >= begin)
            burst_of_rests(p, &t);
        break;
    default:
        burst_of_views(p, &t);
        break;
    }
}

/* Reads a buffer of ints as bytes, through a view whose element type is byte. */
static void
step_reinterpret(struct player *p)
{
    struct target t = choose(p);
    ferry_buffer *bytes;
    release_writers(p, &t);
    begin_call(p, &t);
    say(p, "if (TRY(ferry_buffer_reinterpret(%s, BYTE, %zu, %zu, &other)) == FERRY_OK) {", t.name,
        t.offset * sizeof(int32_t), t.count * sizeof(int32_t));
    ferry_status status = ferry_buffer_reinterpret(t.handle, BYTE, t.offset * sizeof(int32_t),
                                                   t.count * sizeof(int32_t), &bytes);
    say(p,
        "OK(ferry_buffer_copy_to(other, BYTE, 0, %zu, values, NULL)), "
        "ferry_buffer_destroy(&other); }",
        t.count * sizeof(int32_t));
    if (!end_call(p, &t, status, READS))
        return;
    say_want(p, "values", &t);
    MUST(p, ferry_buffer_copy_to(bytes, BYTE, 0, t.count * sizeof(int32_t), p->values, NULL));
    expect_range(p, &t, p->values);
    ferry_buffer_destroy(&bytes);
}

/* Lends a range as a read-only view. What would write through the view is refused in every state of
 * the buffer, and a copy from it has the right values. */
static void
step_lend_read_only(struct player *p)
{
    struct target t = choose(p);
    ferry_buffer *lent;
    ferry_scope scope;
    void *pointer;
    release_writers(p, &t);
    begin_call(p, &t);
    say(p, "if (TRY(ferry_buffer_view_read_only(%s, INT, %zu, %zu, &other)) == FERRY_OK) {", t.name,
        t.offset, t.count);
    ferry_status status = ferry_buffer_view_read_only(t.handle, INT, t.offset, t.count, &lent);
    say(p,
        "TRY(ferry_buffer_open_host(other, INT, FERRY_UPDATE, 0, FERRY_REST, &outer, &pointer)), "
        "TRY(ferry_buffer_discard(other, 0, FERRY_REST)), "
        "OK(ferry_buffer_copy_to(other, INT, 0, %zu, values, NULL)), "
        "ferry_buffer_destroy(&other); }",
        t.count);
    if (!end_call(p, &t, status, READS))
        return;
    if (ferry_buffer_open_host(lent, INT, FERRY_UPDATE, 0, FERRY_REST, &scope, &pointer) !=
            FERRY_ERROR_INVALID_ARGUMENT ||
        ferry_buffer_discard(lent, 0, FERRY_REST) != FERRY_ERROR_INVALID_ARGUMENT)
        went_wrong(p, "a write through a read-only view of %s was not refused: %s", t.name,
                   ferry_last_error());
    say_want(p, "values", &t);
    MUST(p, ferry_buffer_copy_to(lent, INT, 0, t.count, p->values, NULL));
    expect_range(p, &t, p->values);
    ferry_buffer_destroy(&lent);
}

/* Allocates device memory, wraps it as a buffer, copies from the buffer, and unwraps it. */
static void
step_wrap_device(struct player *p)
{
    struct target t = choose(p);
    ferry_stream *stream = p->streams[choose_stream(p)];
    int place = ferry_stream_place(stream);
    int32_t value = fresh(p, 1);
    ferry_buffer *wrapped;
    if (t.count == 0)
        return;
    void *memory = device_alloc(&p->world->f, place, t.count * sizeof(int32_t));
    say(p, "pointer = device_alloc(&f, %d, %zu);", place, t.count * sizeof(int32_t));
    say(p, "queue_fill(&f, s[%u][%u], pointer, %d, %zu);", p->number, choose_stream(p), (int)value,
        t.count);
    queue_fill(&p->world->f, stream, memory, value, t.count);
    say(p, "OK(ferry_buffer_wrap_device(f.context, INT, %zu, s[%u][%u], pointer, NULL, &other));",
        t.count, p->number, choose_stream(p));
    MUST(p, ferry_buffer_wrap_device(p->world->f.context, INT, t.count, stream, memory, NULL,
                                     &wrapped));
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value);
    say(p, "TRY(ferry_buffer_copy(%s, INT, %zu, other, 0, %zu, NULL));", t.name, t.offset, t.count);
    end_call(p, &t, ferry_buffer_copy(t.handle, INT, t.offset, wrapped, 0, t.count, NULL),
             BY_CHUNKS);
    say(p, "OK(ferry_buffer_unwrap(&other, NULL)), device_free(&f, %d, pointer);", place);
    MUST(p, ferry_buffer_unwrap(&wrapped, NULL));
    device_free(&p->world->f, place, memory);
}

/* -- streams, events, scratch memory ----------------------------------------------------------- */

static void
step_stream(struct player *p)
{
    unsigned s = choose_stream(p);
    ferry_stream **stream = &p->streams[s];
    int place = ferry_stream_place(*stream);
    switch (flags_of(p) % 3) {
    case 0:
        say(p, "OK(ferry_stream_synchronize(s[%u][%u]));", p->number, s);
        MUST(p, ferry_stream_synchronize(*stream));
        break;
    case 1:
        say(p, "OK(ferry_stream_flush(s[%u][%u]));", p->number, s);
        MUST(p, ferry_stream_flush(*stream));
        break;
    default:
        say(p, "ferry_stream_destroy(&s[%u][%u]), s[%u][%u] = make_stream(&f, %d);", p->number, s,
            p->number, s, place);
        ferry_stream_destroy(stream);
        MUST(p, ferry_stream_create(p->world->f.context, place, stream));
        break;
    }
}

static void
step_event(struct player *p)
{
    unsigned s = choose_stream(p);
    bool done;
    double seconds = -1;
    if (!p->event) {
        say(p, "OK(ferry_stream_record(s[%u][%u], FERRY_EVENT_TIMED, &event));", p->number, s);
        MUST(p, ferry_stream_record(p->streams[s], FERRY_EVENT_TIMED, &p->event));
        return;
    }
    switch (flags_of(p) % 4) {
    case 0:
        say(p, "OK(ferry_stream_wait_event(s[%u][%u], event));", p->number, s);
        MUST(p, ferry_stream_wait_event(p->streams[s], p->event));
        break;
    case 1:
        say(p, "OK(ferry_event_synchronize(event));");
        MUST(p, ferry_event_synchronize(p->event));
        MUST(p, ferry_event_query(p->event, &done));
        if (!done)
            went_wrong(p, "an event that was waited for has not happened");
        say(p, "OK(ferry_event_elapsed(event, event, &(double){0}));");
        MUST(p, ferry_event_elapsed(p->event, p->event, &seconds));
        if (seconds != 0)
            went_wrong(p, "time passed between an event and itself");
        break;
    case 2:
        say(p, "OK(ferry_event_query(event, &(bool){false}));");
        MUST(p, ferry_event_query(p->event, &done));
        break;
    default:
        say(p, "ferry_event_destroy(&event);");
        ferry_event_destroy(&p->event);
        break;
    }
}

/* Allocates scratch memory from the pool that buffers use, fills it and frees it. Buffers that
 * reuse this memory then find arbitrary bytes in it. */
static void
step_scratch(struct player *p)
{
    ferry_stream *stream = p->streams[choose_stream(p)];
    unsigned s = choose_stream(p);
    ferry_pool *pool;
    ferry_pool_stats stats;
    MUST(p, ferry_context_pool(p->world->f.context, ferry_stream_place(stream), FERRY_MEMORY_DEVICE,
                               &pool));
    say(p, "OK(ferry_context_pool(f.context, %d, FERRY_MEMORY_DEVICE, &pool));",
        ferry_stream_place(stream));
    size_t bytes = (size_t)(1 + p->bytes[4]) * 64;
    if (flags_of(p) % 8 == 2) {
        say(p, "TRY(ferry_pool_compact(pool, NULL));");
        ferry_status status = ferry_pool_compact(pool, NULL);
        if (status != FERRY_ERROR_BUSY)
            MUST(p, status);
        return;
    }
    if (flags_of(p) % 4 == 3) {
        say(p, "(void)ferry_pool_trim(pool, %zu);", bytes);
        MUST(p, ferry_pool_trim(pool, bytes));
        MUST(p, ferry_pool_get_stats(pool, &stats));
        return;
    }
    ferry_block *block;
    say(p, "if (TRY(ferry_pool_allocate(pool, %zu, s[%u][%u], &block)) == FERRY_OK) {", bytes,
        p->number, s);
    ferry_status status = ferry_pool_allocate(pool, bytes, stream, &block);
    say(p,
        "queue_fill(&f, s[%u][%u], ferry_block_pointer(block), 0x55555555, %zu); "
        "OK(ferry_block_free(&block, s[%u][%u])); }",
        p->number, s, bytes / 4, p->number, s);
    if (status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0)
        return;
    MUST(p, status);
    queue_fill(&p->world->f, stream, ferry_block_pointer(block), 0x55555555, bytes / 4);
    MUST(p, ferry_block_free(&block, stream));
}

/* Writes a range of a buffer to a file, and reads the file into a different range. */
static void
step_file(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    char path[64], said[64];
    if (to.count == 0 || overlap(&to, &from))
        return;
    snprintf(path, sizeof(path), "/tmp/ferry-history-%d-%u", (int)getpid(), p->number);
    /* The path in the printed program contains no process ID, so that each run of the test prints
     * the same program. */
    snprintf(said, sizeof(said), "/tmp/ferry-history-printed-%u", p->number);
    begin_call(p, &from);
    bool twin = chooses_twin(p);
    ferry_event *event = NULL;
    say(p,
        twin ? SAY_TWIN
            "TRY(ferry_buffer_store_async(%s, INT, %zu, %zu, \"%s\", 0, NULL, &twin));" SAY_WAIT
             : "status = TRY(ferry_buffer_store(%s, INT, %zu, %zu, \"%s\", 0, NULL));",
        from.name, from.offset, to.count, said);
    ferry_status status =
        twin ? wait_for_twin(ferry_buffer_store_async(from.handle, INT, from.offset, to.count, path,
                                                      0, NULL, &event),
                             &event)
             : ferry_buffer_store(from.handle, INT, from.offset, to.count, path, 0, NULL);
    if (!end_call(p, &from, status, READS)) {
        unlink(path);
        return;
    }
    begin_call(p, &to);
    memmove(&to.subject->next[to.begin], &from.subject->expected[from.begin],
            to.count * sizeof(int32_t));
    say(p,
        twin ? SAY_TWIN
            "TRY(ferry_buffer_load_async(%s, INT, %zu, %zu, \"%s\", 0, NULL, &twin));" SAY_WAIT
             : "TRY(ferry_buffer_load(%s, INT, %zu, %zu, \"%s\", 0, NULL));",
        to.name, to.offset, to.count, said);
    status = twin ? wait_for_twin(ferry_buffer_load_async(to.handle, INT, to.offset, to.count, path,
                                                          0, NULL, &event),
                                  &event)
                  : ferry_buffer_load(to.handle, INT, to.offset, to.count, path, 0, NULL);
    end_call(p, &to, status, BY_CHUNKS);
    say(p, "unlink(\"%s\");", said);
    unlink(path);
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Arranges that one device call or one malloc() fails during a later library call on a buffer. The
 * next `arm_later` library calls on buffers run without this failure. */
static void
step_fail(struct player *p)
{
    if (p->world->setup.players > 1 || p->arm)
        return;
    p->arm_memory = flags_of(p) & 1;
    p->arm_later = (flags_of(p) >> 1) % 2;
    p->arm = 1 + (p->bytes[4] & 3) + (p->bytes[4] >= 192 ? p->bytes[4] % 8 : 0);
}

const struct step life_steps[] = {
    {"renew", step_renew, 3},
    {"retain", step_retain, 2},
    {"resize", step_resize, 3},
    {"view", step_view, 4},
    {"burst", step_burst, 6},
    {"reinterpret", step_reinterpret, 1},
    {"lend_read_only", step_lend_read_only, 1},
    {"wrap_device", step_wrap_device, 2},
    {"stream", step_stream, 4},
    {"event", step_event, 4},
    {"scratch", step_scratch, 3},
    {"file", step_file, 1},
    {"fail", step_fail, 20},
    {NULL, NULL, 0},
};
