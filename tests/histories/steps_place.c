/* SPDX-License-Identifier: MIT */
/* Steps of a random test that use raw pointers, or that query which places are current. They change
 * the content of a buffer only with ferry_buffer_mark_dirty() and ferry_buffer_discard(). */
#include "tests/histories/history.h"

static void
step_sync_to(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    struct chunked c;
    char words[32];
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    const ferry_copy_options *options = c.used ? &c.options : NULL;
    ferry_event *event = NULL;
    ferry_status status;
    if (chooses_twin(p)) {
        say(p, SAY_TWIN "TRY(ferry_buffer_sync_to_async(%s, %zu, %zu, %d%s, &twin));" SAY_WAIT,
            t.name, t.offset, t.count, place, words);
        status = wait_for_twin(
            ferry_buffer_sync_to_async(t.handle, t.offset, t.count, place, options, &event),
            &event);
    } else {
        say(p, "TRY(ferry_buffer_sync_to(%s, %zu, %zu, %d%s));", t.name, t.offset, t.count, place,
            words);
        status = ferry_buffer_sync_to(t.handle, t.offset, t.count, place, options);
    }
    if (status == FERRY_ERROR_CANCELLED)
        end_chunks(p, &t, &c, status);
    else
        end_call(p, &t, status, READS);
    /* The shortage of another player may evict the replica before the question. */
    bool stays = !t.subject->shared && (p->world->setup.players == 1 || !p->world->setup.memory);
    if (status == FERRY_OK && stays && !ferry_buffer_is_current(t.handle, place) &&
        t.handle == t.subject->handle && t.count == t.subject->count)
        went_wrong(p, "synchronized and not current at %d", place);
}

/* Writes through the pointer of a pinned replica, and then marks the range as written. */
static void
step_mark(struct player *p)
{
    struct target t = choose(p);
    unsigned s = choose_stream(p);
    ferry_stream *stream = flags_of(p) & 1 ? NULL : p->streams[s];
    int place = stream ? ferry_stream_place(stream) : 0;
    int32_t value = fresh(p, 1);
    char name[32] = "NULL";
    void *memory;
    if (t.count == 0 || (!MAY_RACE && is_racing(p, t.subject)))
        return;
    if (stream)
        snprintf(name, sizeof(name), "s[%u][%u]", p->number, s);
    begin_call(p, &t);
    say(p, "status = TRY(ferry_buffer_hold(%s, %d, &memory));", t.name, place);
    if (!end_call(p, &t, ferry_buffer_hold(t.handle, place, &memory), READS | WHOLE_BUFFER))
        return;
    begin_call(p, &t);
    say(p, "status = TRY(ferry_buffer_sync_to(%s, %zu, %zu, %d, NULL));", t.name, t.offset, t.count,
        place);
    bool good =
        end_call(p, &t, ferry_buffer_sync_to(t.handle, t.offset, t.count, place, NULL), READS);
    if (good && !is_lent(p, t.subject, t.begin, t.count)) {
        say(p, "OK(ferry_buffer_wait_idle(%s, %d));", t.name, place);
        MUST(p, ferry_buffer_wait_idle(t.handle, place));
        if (stream)
            say(p, "queue_fill(&f, %s, (int *)memory + %zu, %d, %zu);", name, t.offset, (int)value,
                t.count);
        else
            say(p, "set_constant((int *)memory + %zu, %zu, %d);", t.offset, t.count, (int)value);
        if (stream)
            queue_fill(&p->world->f, stream, (int32_t *)memory + t.offset, value, t.count);
        else
            set_constant((int32_t *)memory + t.offset, t.count, value);
        say(p, "OK(ferry_buffer_mark_dirty(%s, %zu, %zu, %d, %s));", t.name, t.offset, t.count,
            place, name);
        MUST(p, ferry_buffer_mark_dirty(t.handle, t.offset, t.count, place, stream));
        set_constant(&t.subject->expected[t.begin], t.count, value);
        memset(&t.subject->written[t.begin], true, t.count);
    }
    say(p, "OK(ferry_buffer_release(%s, %d));", t.name, place);
    MUST(p, ferry_buffer_release(t.handle, place));
}

static void
step_invalidate(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_invalidate(%s, %zu, %zu, %d));", t.name, t.offset, t.count, place);
    end_call(p, &t, ferry_buffer_invalidate(t.handle, t.offset, t.count, place), READS);
}

static void
step_discard(struct player *p)
{
    struct target t = choose(p);
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, 0);
    say(p, "TRY(ferry_buffer_discard(%s, %zu, %zu));", t.name, t.offset, t.count);
    end_call(p, &t, ferry_buffer_discard(t.handle, t.offset, t.count), 0);
}

static void
step_evict(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    bool may_not =
        pins_of(p, t.subject)[place] > 0 || is_racing(p, t.subject) || t.subject->wrapped;
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_evict(%s, %d));", t.name, place);
    end_call(p, &t, ferry_buffer_evict(t.handle, place),
             READS | WHOLE_BUFFER | (may_not ? MAY_BE_STATE : 0));
}

static void
step_reserve(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_reserve(%s, %d));", t.name, place);
    end_call(p, &t, ferry_buffer_reserve(t.handle, place), READS | WHOLE_BUFFER);
}

static void
step_prefetch(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    /* The test injects no failure into this prefetch. The prefetch has no event, so a later,
     * unrelated call might report its failure. */
    p->arm = 0;
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_prefetch(%s, 0, FERRY_REST, %d, NULL));", t.name, place);
    end_call(p, &t, ferry_buffer_prefetch(t.handle, 0, FERRY_REST, place, NULL),
             READS | WHOLE_BUFFER);
}

static void
step_wait(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    say(p, "OK(ferry_buffer_wait_idle(%s, %d));", t.name, place);
    MUST(p, ferry_buffer_wait_idle(t.handle, place));
    if (is_lent(p, t.subject, 0, LENGTH_MAX) || (t.subject->shared && p->world->setup.players > 1))
        return;
    say(p, "OK(ferry_buffer_wait_available(%s, FERRY_UPDATE, 1000000000));", t.name);
    MUST(p, ferry_buffer_wait_available(t.handle, FERRY_UPDATE, 1000000000));
}

/* Reads the last element of a pinned replica, to check that the replica is as long as the buffer.
 * Then unpins the replica, because a pinned replica prevents resizes. A checked run forbids the
 * read if another player has made the element stale meanwhile. */
static void
go_through_pin(struct player *p, const struct target *t, int place, void *memory)
{
    size_t count = ferry_buffer_count(t->subject->handle);
    if (place == 0 && count > 0 && MAY_RACE && !p->world->f.context->debug)
        (void)((volatile int32_t *)memory)[count - 1];
    MUST(p, ferry_buffer_release(t->subject->handle, place));
    pins_of(p, t->subject)[place]--;
}

/* Pins a replica, which then stays pinned during later steps of the test. If it is pinned already,
 * unpins it. */
static void
step_pin(struct player *p)
{
    struct target t = choose(p);
    int place = choose_place(p);
    int number = (int)(t.subject - p->world->subjects);
    unsigned *pins = pins_of(p, t.subject);
    void *memory;
    if (pins[place] > 0) {
        say(p, "OK(ferry_buffer_release(b[%d], %d));", number, place);
        MUST(p, ferry_buffer_release(t.subject->handle, place));
        pins[place]--;
        return;
    }
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_hold(b[%d], %d, &memory));", number, place);
    if (!end_call(p, &t, ferry_buffer_hold(t.subject->handle, place, &memory),
                  READS | WHOLE_BUFFER))
        return;
    pins[place]++;
    if (is_racing(p, t.subject) && flags_of(p) % 8 != 3)
        go_through_pin(p, &t, place, memory);
}

/* Calls functions that query a buffer or its context, and checks their results. These calls are
 * allowed at any time. */
static void
step_ask(struct player *p)
{
    struct target t = choose(p);
    ferry_buffer_info info;
    ferry_transfer_stats stats;
    ferry_memory_info memory;
    char text[200];
    MUST(p, ferry_buffer_get_info(t.subject->handle, &info));
    if ((info.count != t.subject->count && !is_racing(p, t.subject)) ||
        info.borrowed != t.subject->wrapped || info.bytes != info.count * sizeof(int32_t))
        went_wrong(p, "info tells of %zu elements, borrowed %d, instead of %zu", info.count,
                   info.borrowed, t.subject->count);
    if (ferry_buffer_describe(t.subject->handle, text, sizeof(text)) < 10 || !strstr(text, "int["))
        went_wrong(p, "described as \"%s\"", text);
    if ((unsigned)ferry_buffer_state(t.handle) > FERRY_STATE_MIXED)
        went_wrong(p, "state %d", (int)ferry_buffer_state(t.handle));
    MUST(p, ferry_context_get_transfer_stats(p->world->f.context, &stats));
    int place = choose_place(p);
    MUST(p, ferry_context_get_memory_info(p->world->f.context, place, &memory));
    bool has_limit = p->world->setup.memory > 0 && place > 0 &&
                     strcmp(device_of(&p->world->f, place)->kind, "host") != 0 &&
                     !p->world->unlimited;
    if (p->world->setup.players == 1 && has_limit && memory.live > p->world->setup.memory)
        went_wrong(p, "%zu bytes live, above the limit", memory.live);
}

const struct step place_steps[] = {
    {"sync_to", step_sync_to, 4},
    {"mark_dirty", step_mark, 4},
    {"invalidate", step_invalidate, 5},
    {"discard", step_discard, 2},
    {"evict", step_evict, 5},
    {"reserve", step_reserve, 2},
    {"prefetch", step_prefetch, 3},
    {"wait", step_wait, 2},
    {"pin", step_pin, 2},
    {"ask", step_ask, 2},
    {NULL, NULL, 0},
};
