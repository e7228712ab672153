/* SPDX-License-Identifier: MIT */
/* Steps of a random test that open scopes on the host and on devices, and that launch kernels. */
#include "tests/histories/history.h"

#include "tests/histories/peek.h"

const char *const access_names[] = {"0", "FERRY_READ", "FERRY_UPDATE", "FERRY_OVERWRITE"};

ferry_stream *
stream_for(struct player *p)
{
    return p->streams[choose_stream(p)];
}

bool
open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
          int32_t **out)
{
    void *memory = NULL;
    begin_call(p, t);
    say(p, "TRY(ferry_buffer_open_host(%s, INT, %s, %zu, %zu, &scope, &memory));", t->name,
        access_names[access], t->offset, t->count);
    ferry_status status =
        ferry_buffer_open_host(t->handle, INT, access, t->offset, t->count, scope, &memory);
    *out = memory;
    return end_call(p, t, status, READS);
}

void
keep_stale(struct player *p, const ferry_scope *scope)
{
    size_t which = p->next_stale++ % STALE;
    p->stale[which] = *scope;
    say(p, "stale[%zu] = scope;", which);
}

/* Closes a scope. The close may return a failure, but the scope is then closed and its writes are
 * committed. `how` is READS if nothing was written. */
static void
close_scope(struct player *p, const struct target *t, ferry_scope *scope, unsigned how)
{
    memcpy(&t->subject->expected[t->begin], &t->subject->next[t->begin],
           t->count * sizeof(int32_t));
    keep_stale(p, scope);
    begin_call(p, t);
    say(p, "TRY(ferry_scope_close(&scope));");
    end_call(p, t, ferry_scope_close(scope), how);
}

/* Checks that the memory of an open scope contains the expected values. */
static void
expect_values(struct player *p, const struct target *t, const int32_t *memory)
{
    if (t->count == 0)
        return;
    say_want(p, "memory", t);
    expect_range(p, t, memory);
}

/* Writes the values `first`, `first` + 1 and so on through an open scope, from index `skip` of the
 * scope's range. Closing the scope makes these values the expected ones. */
static void
count_up(struct player *p, const struct target *t, int32_t *memory, size_t skip, size_t count,
         int32_t first)
{
    say(p, "set_counting((int *)memory + %zu, %zu, %d);", skip, count, (int)first);
    for (size_t i = 0; i < count; i++)
        memory[skip + i] = first + (int32_t)i;
    set_counting(&t->subject->next[t->begin + skip], count, first);
}

static void
step_read_host(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    int32_t *memory;
    if (!open_host(p, &t, FERRY_READ, &scope, &memory))
        return;
    expect_values(p, &t, memory);
    close_scope(p, &t, &scope, READS);
}

static void
step_overwrite_host(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    int32_t *memory, first = fresh(p, t.count);
    if (!open_host(p, &t, FERRY_OVERWRITE, &scope, &memory))
        return;
    count_up(p, &t, memory, 0, t.count, first);
    close_scope(p, &t, &scope, 0);
}

/* Checks that an UPDATE scope keeps the values of those elements that the program does not write.
 */
static void
step_update_host(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    int32_t *memory, first = fresh(p, t.count);
    size_t skip = t.count * flags_of(p) / 64, count = (t.count - skip) / 2;
    if (!open_host(p, &t, FERRY_UPDATE, &scope, &memory))
        return;
    expect_values(p, &t, memory);
    count_up(p, &t, memory, skip, count, first);
    close_scope(p, &t, &scope, 0);
}

/* Checks that a range has its old values after a write was abandoned. If no other place was
 * current, the values of the abandoned write are also legal. */
static void
step_abandon(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    int32_t *memory, first = fresh(p, t.count);
    if (!open_host(p, &t, flags_of(p) & 1 ? FERRY_OVERWRITE : FERRY_UPDATE, &scope, &memory))
        return;
    if (flags_of(p) & 2)
        count_up(p, &t, memory, 0, t.count, first);
    say(p, "OK(ferry_scope_abandon(&scope));");
    MUST(p, ferry_scope_abandon(&scope));
    settle_abandoned(p, &t);
}

/* Opens a range that reaches to the end of the buffer. If several threads share the buffer, only
 * the thread that owns the last elements may open such a range. */
static void
step_rest(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    void *memory = NULL;
    bool racing = is_racing(p, t.subject);
    if (racing && p->number + 1 < p->world->setup.players)
        return;
    t.handle = t.subject->handle;
    t.count = LENGTH_MAX;
    release_writers(p, &t);
    t.count = 0;
    race_open_windows(p);
    ferry_status status =
        ferry_buffer_open_host(t.handle, INT, FERRY_READ, t.begin, FERRY_REST, &scope, &memory);
    if (status == FERRY_ERROR_OUT_OF_RANGE && race_may_be_short(p, &t))
        return;
    if (status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0)
        return;
    MUST(p, status);
    size_t count = ferry_buffer_count(t.handle);
    if (!memory && count != t.begin && !(racing && race_knows_count(t.subject, t.begin)))
        went_wrong(p, "opened from element %zu to the end, of %zu elements, at no address", t.begin,
                   count);
    race_look(p, t.subject);
    /* The values are compared only if no resize ran. Otherwise a resize may have made the buffer
     * longer after the open call had read its length and before the call locked the range. */
    for (size_t i = t.begin; memory && i < count && race_was_quiet(p, t.subject); i++)
        if (!is_right(p, t.subject, i, ((int32_t *)memory)[i - t.begin]))
            went_wrong(p, "element %zu up to the end is %d instead of %d", i,
                       (int)((int32_t *)memory)[i - t.begin], (int)t.subject->expected[i]);
    say(p,
        "OK(ferry_buffer_open_host(b[%d], INT, FERRY_READ, %zu, FERRY_REST, &scope, &memory)), "
        "OK(ferry_scope_close(&scope));",
        (int)(t.subject - p->world->subjects), t.begin);
    MUST(p, ferry_scope_close(&scope));
}

/* Checks that an open write scope prevents every overlapping scope, and that an open read scope
 * prevents overlapping write scopes. */
static void
step_conflict(struct player *p)
{
    struct target t = choose(p);
    ferry_access first = (ferry_access)(1 + flags_of(p) % 3),
                 second = (ferry_access)(1 + flags_of(p) / 3 % 3);
    ferry_scope scope, other;
    int32_t *memory;
    void *out;
    if (t.count == 0 || !open_host(p, &t, first, &scope, &memory))
        return;
    if (first == FERRY_OVERWRITE)
        for (size_t i = 0; i < t.count; i++)
            memory[i] = t.subject->expected[t.begin + i];
    say_values(p, first == FERRY_OVERWRITE ? "put" : "want", "memory",
               &t.subject->expected[t.begin], t.count);
    if (first != FERRY_READ || second != FERRY_READ) {
        size_t at = t.offset + t.count * flags_of(p) / 64;
        say(p,
            "FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(%s, INT, %s, %zu, 1, &other_scope, "
            "&out));",
            t.name, access_names[second], at);
        ferry_status status = ferry_buffer_open_host(t.handle, INT, second, at, 1, &other, &out);
        if (status != FERRY_ERROR_BUSY)
            went_wrong(p, "a second scope beside the first is %s", ferry_status_name(status));
    }
    close_scope(p, &t, &scope, first == FERRY_READ ? READS : 0);
}

/* -- on devices -------------------------------------------------------------------------------- */

void
has_written(const struct target *t, size_t skip, size_t count, int32_t value)
{
    set_constant(&t->subject->expected[t->begin + skip], count, value);
    memset(&t->subject->written[t->begin + skip], true, count);
}

bool
open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
            void **out)
{
    begin_call(p, t);
    say(p, "TRY(ferry_buffer_open_device(%s, INT, %s, %zu, %zu, s[%u][%u], &scope, &memory));",
        t->name, access_names[access], t->offset, t->count, p->number, choose_stream(p));
    ferry_status status = ferry_buffer_open_device(t->handle, INT, access, t->offset, t->count,
                                                   stream_for(p), scope, out);
    return end_call(p, t, status, READS);
}

static void
step_read_device(struct player *p)
{
    struct target t = choose(p);
    ferry_scope scope;
    void *memory;
    if (!open_device(p, &t, FERRY_READ, &scope, &memory))
        return;
    if (t.count > 0) {
        char pinned[32];
        snprintf(pinned, sizeof(pinned), "page_locked(%u)", p->number);
        say(p, "OK(peek(&f, s[%u][%u], %s, memory, %zu));", p->number, choose_stream(p), pinned,
            t.count);
        say_want(p, pinned, &t);
        MUST(p, peek(&p->world->f, stream_for(p), p->pinned, memory, t.count));
        expect_range(p, &t, p->pinned);
    }
    close_scope(p, &t, &scope, READS);
}

/* Writes a range on a device. Writes either its second half through an UPDATE scope, or the whole
 * range through an OVERWRITE scope. */
static void
step_write_device(struct player *p)
{
    struct target t = choose(p);
    bool update = flags_of(p) & 1;
    size_t skip = update ? t.count / 2 : 0, count = t.count - skip;
    int32_t value = fresh(p, 1);
    ferry_scope scope;
    void *memory;
    if (!open_device(p, &t, update ? FERRY_UPDATE : FERRY_OVERWRITE, &scope, &memory))
        return;
    if (count > 0) {
        say(p, "queue_fill(&f, s[%u][%u], (int *)memory + %zu, %d, %zu);", p->number,
            choose_stream(p), skip, (int)value, count);
        queue_fill(&p->world->f, stream_for(p), (int32_t *)memory + skip, value, count);
        set_constant(&t.subject->next[t.begin + skip], count, value);
    }
    close_scope(p, &t, &scope, 0);
}

/* Opens a scope that the caller will use on a second stream, number `b`. Returns false if the scope
 * was not opened, for example because the two streams have different places. */
static bool
open_for_another(struct player *p, const struct target *t, ferry_access access, unsigned b,
                 ferry_scope *scope, void **out)
{
    return t->count > 0 && ferry_stream_place(p->streams[b]) == ferry_stream_place(stream_for(p)) &&
           open_device(p, t, access, scope, out);
}

/* Opens a scope on one stream and closes it on a different stream of the same place. */
static void
step_close_on(struct player *p)
{
    struct target t = choose(p);
    unsigned b = flags_of(p) % p->world->setup.streams;
    ferry_stream *last = p->streams[b];
    int32_t value = fresh(p, 1);
    ferry_scope scope;
    ferry_event *event;
    void *memory;
    if (!open_for_another(p, &t, FERRY_OVERWRITE, b, &scope, &memory))
        return;
    say(p, "queue_fill(&f, s[%u][%u], memory, -1, %zu);", p->number, choose_stream(p), t.count);
    say(p, "order(s[%u][%u], s[%u][%u]);", p->number, choose_stream(p), p->number, b);
    say(p, "queue_fill(&f, s[%u][%u], memory, %d, %zu);", p->number, b, (int)value, t.count);
    say(p, "OK(ferry_scope_close_on(&scope, s[%u][%u]));", p->number, b);
    queue_fill(&p->world->f, stream_for(p), memory, -1, t.count);
    MUST(p, ferry_stream_record(stream_for(p), 0, &event));
    MUST(p, ferry_stream_wait_event(last, event));
    ferry_event_destroy(&event);
    queue_fill(&p->world->f, last, memory, value, t.count);
    MUST(p, ferry_scope_close_on(&scope, last));
    has_written(&t, 0, t.count, value);
}

/* Closes a scope with ferry_scope_close_unordered(). The test first waits until the bytes are
 * ready, and then writes them on a stream that the scope does not know. */
static void
step_close_unordered(struct player *p)
{
    struct target t = choose(p);
    unsigned b = flags_of(p) % p->world->setup.streams;
    int32_t value = fresh(p, 1);
    ferry_scope scope;
    void *memory;
    if (!open_for_another(p, &t, flags_of(p) & 1 ? FERRY_UPDATE : FERRY_OVERWRITE, b, &scope,
                          &memory))
        return;
    say(p, "OK(ferry_scope_wait(&scope));");
    say(p, "queue_fill(&f, s[%u][%u], memory, %d, %zu);", p->number, b, (int)value, t.count);
    say(p, "OK(ferry_scope_close_unordered(&scope));");
    MUST(p, ferry_scope_wait(&scope));
    queue_fill(&p->world->f, p->streams[b], memory, value, t.count);
    MUST(p, ferry_scope_close_unordered(&scope));
    has_written(&t, 0, t.count, value);
}

/* Opens a write scope and, while it is open, a READ scope of the same buffer on the same stream.
 * The READ scope sees what the test has written through the write scope. */
static void
step_nested(struct player *p)
{
    struct target t = choose(p);
    int32_t value = fresh(p, 1);
    size_t half = t.count / 2;
    ferry_scope outer, inner;
    void *memory, *first;
    if (half == 0 || !open_device(p, &t, FERRY_UPDATE, &outer, &memory))
        return;
    unsigned s = choose_stream(p);
    say(p, "outer = scope, outer_memory = memory;");
    say(p, "queue_fill(&f, s[%u][%u], memory, %d, %zu);", p->number, s, (int)value, half);
    queue_fill(&p->world->f, stream_for(p), memory, value, half);
    say(p,
        "OK(ferry_buffer_open_device(%s, INT, FERRY_READ, %zu, %zu, s[%u][%u], &scope, &memory));",
        t.name, t.offset, half, p->number, s);
    MUST(p, ferry_buffer_open_device(t.handle, INT, FERRY_READ, t.offset, half, stream_for(p),
                                     &inner, &first));
    say(p, "queue_copy(&f, s[%u][%u], (int *)outer_memory + %zu, memory, %zu);", p->number, s, half,
        half);
    queue_copy(&p->world->f, stream_for(p), (int32_t *)memory + half, first, half);
    bool inner_first = flags_of(p) & 1;
    say(p, "OK(ferry_scope_close(%s));", inner_first ? "&scope" : "&outer");
    say(p, "OK(ferry_scope_close(%s));", inner_first ? "&outer" : "&scope");
    MUST(p, ferry_scope_close(inner_first ? &inner : &outer));
    MUST(p, ferry_scope_close(inner_first ? &outer : &inner));
    has_written(&t, 0, 2 * half, value);
    /* An open write scope counts as a write of its whole range, even if the program wrote only a
     * part. */
    memset(&t.subject->written[t.begin], true, t.count);
}

/* Opens a READ scope and an OVERWRITE scope on one stream. Queues a device copy from the READ range
 * to the OVERWRITE range, without waiting for the stream. */
static void
step_copy_scopes(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    ferry_scope reading, writing;
    void *source, *memory;
    unsigned s = choose_stream(p);
    if (to.count == 0 || overlap(&to, &from) ||
        !open_device(p, &from, FERRY_READ, &reading, &source))
        return;
    say(p, "outer = scope, outer_memory = memory;");
    if (open_device(p, &to, FERRY_OVERWRITE, &writing, &memory)) {
        say(p, "queue_copy(&f, s[%u][%u], memory, outer_memory, %zu);", p->number, s, to.count);
        queue_copy(&p->world->f, stream_for(p), memory, source, to.count);
        memcpy(&to.subject->next[to.begin], &from.subject->expected[from.begin],
               to.count * sizeof(int32_t));
        close_scope(p, &to, &writing, 0);
    }
    say(p, "OK(ferry_scope_close(&outer));");
    MUST(p, ferry_scope_close(&reading));
}

/* -- several at once --------------------------------------------------------------------------- */

/* Opens two scopes with one call, on the host or on a device. One scope reads and one scope writes.
 */
static void
step_open_all(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    bool at_host = flags_of(p) & 1, abandon = flags_of(p) & 2;
    if (to.count == 0 || overlap(&to, &from))
        return;
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(to.handle, INT, to.offset, to.count),
                            FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(from.handle, INT, from.offset, from.count),
                            FERRY_READ)};
    ferry_scope scopes[2];
    void *out[2];
    ferry_stream *stream = at_host ? NULL : stream_for(p);
    int place = at_host ? 0 : ferry_stream_place(stream);
    char stream_name[32] = "NULL";
    if (!at_host)
        snprintf(stream_name, sizeof(stream_name), "s[%u][%u]", p->number, choose_stream(p));
    begin_call(p, &to);
    say(p,
        "arguments[0] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), "
        "FERRY_UPDATE);",
        to.name, to.offset, to.count);
    say(p,
        "arguments[1] = ferry_argument_with(ferry_buffer_argument(%s, INT, %zu, %zu), FERRY_READ);",
        from.name, from.offset, from.count);
    say(p, "TRY(ferry_scope_open_all(arguments, 2, %d, %s, scopes, pointers));", place,
        stream_name);
    ferry_status status = ferry_scope_open_all(arguments, 2, place, stream, scopes, out);
    if (!end_call(p, &to, status, 0))
        return;
    if (abandon) {
        say(p, "OK(ferry_scope_abandon(&scopes[0]));");
        MUST(p, ferry_scope_abandon(&scopes[0]));
    } else if (at_host) {
        say(p, "memcpy(pointers[0], pointers[1], %zu);", to.count * sizeof(int32_t));
        memcpy(out[0], out[1], to.count * sizeof(int32_t));
    } else {
        say(p, "queue_copy(&f, %s, pointers[0], pointers[1], %zu);", stream_name, to.count);
        queue_copy(&p->world->f, stream, out[0], out[1], to.count);
    }
    say(p, "ferry_scope_close_all(scopes, 2);");
    ferry_scope_close_all(scopes, 2);
    if (!abandon)
        memcpy(&to.subject->expected[to.begin], &from.subject->expected[from.begin],
               to.count * sizeof(int32_t));
}

/* -- launches ---------------------------------------------------------------------------------- */

static void
step_launch_fill(struct player *p)
{
    struct target t = choose(p);
    int32_t value = fresh(p, 1);
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value);
    say(p, "TRY(launch_fill(&w, s[%u][%u], %s, %zu, %zu, %d));", p->number, choose_stream(p),
        t.name, t.offset, t.count, (int)value);
    end_call(p, &t, launch_fill(&p->world->w, stream_for(p), t.handle, t.offset, t.count, value),
             OVERWRITES);
}

/* Checks a range after a kernel that adds 3 to each element. A resize that cuts off an element and
 * adds it again sets it to zero, before or after the kernel. So the values 3 and 0 are legal, too.
 */
static void
settle_add(struct player *p, const struct target *t)
{
    size_t count = read_now(p, t);
    for (size_t i = 0; i < count; i++) {
        int32_t *expected = &t->subject->expected[t->begin + i];
        if (p->values[i] != *expected && p->values[i] != 0 && p->values[i] != 3)
            went_wrong(p, "element %zu is %d instead of %d", i, (int)p->values[i], (int)*expected);
        *expected = p->values[i];
        t->subject->doubtful[t->begin + i] = !race_was_quiet(p, t->subject);
    }
}

static void
step_launch_add(struct player *p)
{
    struct target t = choose(p);
    begin_call(p, &t);
    bool doubtful = memchr(&t.subject->doubtful[t.begin], true, t.count);
    for (size_t i = 0; i < t.count; i++)
        t.subject->next[t.begin + i] += 3;
    say(p, "TRY(launch_add(&w, s[%u][%u], %s, %zu, %zu, 3));", p->number, choose_stream(p), t.name,
        t.offset, t.count);
    bool done =
        end_call(p, &t, launch_add(&p->world->w, stream_for(p), t.handle, t.offset, t.count, 3), 0);
    if (done && (doubtful || !race_was_quiet(p, t.subject)))
        settle_add(p, &t);
}

static void
step_launch_copy(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    begin_call(p, &to);
    memmove(&to.subject->next[to.begin], &from.subject->expected[from.begin],
            to.count * sizeof(int32_t));
    say(p, "TRY(launch_copy(&w, s[%u][%u], %s, %zu, %s, %zu, %zu));", p->number, choose_stream(p),
        to.name, to.offset, from.name, from.offset, to.count);
    ferry_status status = launch_copy(&p->world->w, stream_for(p), to.handle, to.offset,
                                      from.handle, from.offset, to.count);
    end_call(p, &to, status, OVERWRITES);
    /* If the two ranges overlap, the library merges them and counts the merged range as one write.
     */
    if (overlap(&to, &from))
        memset(&from.subject->written[from.begin], true, to.count);
}

/* Overwrites the first `count` elements of the target range, with a kernel or a copy. */
static void
write_anew(struct player *p, const struct target *t, size_t count, bool by_kernel)
{
    int32_t value = fresh(p, 1);
    set_constant(p->values, count, value);
    set_constant(&t->subject->expected[t->begin], count, value);
    if (by_kernel) {
        say(p, "OK(launch_fill(&w, s[%u][%u], %s, %zu, %zu, %d));", p->number, choose_stream(p),
            t->name, t->offset, count, (int)value);
        MUST(p, launch_fill(&p->world->w, stream_for(p), t->handle, t->offset, count, value));
    } else {
        say(p, "set_constant(values, %zu, %d);", count, (int)value);
        say(p, "OK(ferry_buffer_copy_from(%s, INT, %zu, %zu, values, NULL));", t->name, t->offset,
            count);
        MUST(p, ferry_buffer_copy_from(t->handle, INT, t->offset, count, p->values, NULL));
    }
}

/* Checks that a range is unreadable after a launch that writes it has failed. The message of the
 * read must contain the reason why the launch failed, unless there was no memory to store this
 * reason. */
static void
expect_lost(struct player *p, const struct target *t, size_t offset, size_t count)
{
    if (count == 0)
        return;
    say(p, "FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_copy_to(%s, INT, %zu, %zu, values, NULL));",
        t->name, t->offset + offset, count);
    ferry_status status =
        ferry_buffer_copy_to(t->handle, INT, t->offset + offset, count, p->values, NULL);
    bool forgotten = p->tripped && strstr(ferry_last_error(), "no memory to keep the reason");
    if (status != FERRY_ERROR_CANCELLED ||
        !(forgotten || strstr(ferry_last_error(), "as it should")))
        went_wrong(p, "what was lost reads as %s: %s", ferry_status_name(status),
                   ferry_last_error());
}

/*
 * Launches a kernel whose host function fails, and checks that its output range becomes unreadable.
 * Reads must report why the function failed, until an overwrite makes the range valid again. Bytes
 * that the program overwrites after the launch must keep their new values.
 */
static void
step_failing_launch(struct player *p)
{
    struct target t = choose(p);
    ferry_argument argument = ferry_buffer_argument(t.handle, INT, t.offset, t.count);
    if (t.count == 0 || is_racing(p, t.subject) || !p->world->failing ||
        is_lent(p, t.subject, t.begin, t.count) ||
        strcmp(device_of(&p->world->f, ferry_stream_place(stream_for(p)))->kind, "cuda") == 0)
        return;
    drain(p);
    begin_call(p, &t);
    say(p, "argument = ferry_buffer_argument(%s, INT, %zu, %zu);", t.name, t.offset, t.count);
    say(p, "TRY(ferry_kernel_launch(failing, ferry_grid_for(1, 0), s[%u][%u], &argument, 1));",
        p->number, choose_stream(p));
    ferry_status status =
        ferry_kernel_launch(p->world->failing, ferry_grid_for(1, 0), stream_for(p), &argument, 1);
    if (!end_call(p, &t, status, 0))
        return;
    size_t kept = t.count * (flags_of(p) % 4) / 3;
    if (kept > 0)
        write_anew(p, &t, kept, flags_of(p) & 4);
    if (flags_of(p) & 8)
        expect_lost(p, &t, kept, t.count - kept);
    say(p, "FAILS(FERRY_ERROR_CANCELLED, ferry_stream_synchronize(s[%u][%u]));", p->number,
        choose_stream(p));
    if (ferry_stream_synchronize(stream_for(p)) != FERRY_ERROR_CANCELLED)
        went_wrong(p, "a failed body is not told: %s", ferry_last_error());
    expect_lost(p, &t, kept, t.count - kept);
    if (kept > 0) {
        struct target good = t;
        good.count = kept;
        say(p, "OK(ferry_buffer_copy_to(%s, INT, %zu, %zu, values, NULL));", t.name, t.offset,
            kept);
        MUST(p, ferry_buffer_copy_to(t.handle, INT, t.offset, kept, p->values, NULL));
        say_want(p, "values", &good);
        expect_range(p, &good, p->values);
    }
    write_anew(p, &t, t.count, false);
}

const struct step use_steps[] = {
    {"read_host", step_read_host, 10},
    {"overwrite_host", step_overwrite_host, 8},
    {"update_host", step_update_host, 8},
    {"abandon", step_abandon, 3},
    {"rest", step_rest, 3},
    {"conflict", step_conflict, 2},
    {"read_device", step_read_device, 8},
    {"write_device", step_write_device, 10},
    {"close_on", step_close_on, 4},
    {"close_unordered", step_close_unordered, 4},
    {"nested", step_nested, 4},
    {"copy_scopes", step_copy_scopes, 8},
    {"open_all", step_open_all, 5},
    {"launch_fill", step_launch_fill, 6},
    {"launch_add", step_launch_add, 8},
    {"launch_copy", step_launch_copy, 8},
    {"failing_launch", step_failing_launch, 4},
    {NULL, NULL, 0},
};
