/* SPDX-License-Identifier: MIT */
/* Steps of random test histories that copy, fill and convert elements, synchronously or
 * asynchronously. Some of these calls are cancelled. */
#include <ferry/generated.h>

#include "tests/histories/history.h"
#include "tests/support/copies.h"

static ferry_conversion
conversion(const ferry_element *from, const ferry_element *to)
{
    return (ferry_conversion){.from = from, .to = to};
}

static bool
stop_after_one(size_t done, size_t total, void *user)
{
    unsigned *left = user;
    (void)done, (void)total;
    return (*left)-- > 0;
}

void
choose_chunks(struct player *p, struct chunked *c)
{
    unsigned how = flags_of(p) & 7;
    *c = (struct chunked){.used = how >= 6, .stops = how == 7, .left = how == 7 ? 1 : UINT32_MAX};
    c->options =
        (ferry_copy_options){.chunk_bytes = 1024, .keep_going = stop_after_one, .user = &c->left};
}

void
end_chunks(struct player *p, const struct target *t, const struct chunked *c, ferry_status status)
{
    if (!(c->stops && status == FERRY_ERROR_CANCELLED)) {
        end_call(p, t, status, BY_CHUNKS);
        return;
    }
    end_call(p, &(struct target){.subject = t->subject, .handle = t->handle, .begin = t->begin},
             FERRY_OK, 0);
    bool doubtful = second_is_doubtful(p);
    size_t count = read_now(p, t);
    for (size_t i = 0; i < count; i++) {
        int32_t *expected = &t->subject->expected[t->begin + i];
        t->subject->written[t->begin + i] = true;
        /* A zero is legal here, because the call may have read it from an element that a concurrent
         * resize cut. */
        if (doubtful && p->values[i] == 0)
            t->subject->doubtful[t->begin + i] = true;
        if (!is_right(p, t->subject, t->begin + i, p->values[i]) &&
            p->values[i] != t->subject->next[t->begin + i])
            went_wrong(p, "stopped, element %zu is %d, neither %d nor %d", i, (int)p->values[i],
                       (int)*expected, (int)t->subject->next[t->begin + i]);
        *expected = p->values[i];
    }
    say_outcome(p, t);
}

void
chunk_words(const struct chunked *c, char *text, size_t bytes)
{
    if (c->used)
        snprintf(text, bytes, ", in_chunks(%u)", c->left);
    else
        snprintf(text, bytes, ", NULL");
}

static void
step_copy_from(struct player *p)
{
    struct target t = choose(p);
    struct chunked c;
    char words[32];
    int32_t first = fresh(p, t.count);
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    set_counting(&t.subject->next[t.begin], t.count, first);
    set_counting(p->values, t.count, first);
    say(p, "TRY(ferry_buffer_copy_from(%s, INT, %zu, %zu, counting(%zu, %d)%s));", t.name, t.offset,
        t.count, t.count, (int)first, words);
    ferry_status status = ferry_buffer_copy_from(t.handle, INT, t.offset, t.count, p->values,
                                                 c.used ? &c.options : NULL);
    end_chunks(p, &t, &c, status);
}

static void
step_copy_to(struct player *p)
{
    struct target t = choose(p);
    struct chunked c;
    char words[32];
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_copy_to(%s, INT, %zu, %zu, values%s));", t.name, t.offset, t.count,
        words);
    ferry_status status = ferry_buffer_copy_to(t.handle, INT, t.offset, t.count, p->values,
                                               c.used ? &c.options : NULL);
    if (status == FERRY_OK) {
        say_want(p, "values", &t);
        expect_range(p, &t, p->values);
    }
    if (status == FERRY_ERROR_CANCELLED)
        end_chunks(p, &t, &c, status);
    else
        end_call(p, &t, status, READS);
}

static void
step_copy(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    struct chunked c;
    char words[32];
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &to);
    memmove(&to.subject->next[to.begin], &from.subject->expected[from.begin],
            to.count * sizeof(int32_t));
    say(p, "TRY(ferry_buffer_copy(%s, INT, %zu, %s, %zu, %zu%s));", to.name, to.offset, from.name,
        from.offset, to.count, words);
    ferry_status status = ferry_buffer_copy(to.handle, INT, to.offset, from.handle, from.offset,
                                            to.count, c.used ? &c.options : NULL);
    end_chunks(p, &to, &c, status);
}

static void
step_fill(struct player *p)
{
    struct target t = choose(p);
    struct chunked c;
    char words[32];
    int32_t value = fresh(p, 1);
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value);
    say(p, "TRY(ferry_buffer_fill(%s, INT, %zu, %zu, &(int){%d}%s));", t.name, t.offset, t.count,
        (int)value, words);
    ferry_status status =
        ferry_buffer_fill(t.handle, INT, t.offset, t.count, &value, c.used ? &c.options : NULL);
    end_chunks(p, &t, &c, status);
}

/* -- conversions ------------------------------------------------------------------------------- */

static void
step_convert_from(struct player *p)
{
    struct target t = choose(p);
    ferry_convert_policy policy = (ferry_convert_policy)(1 + flags_of(p) % 3);
    struct chunked c;
    char words[32];
    int32_t first = fresh(p, t.count);
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    set_counting(&t.subject->next[t.begin], t.count, first);
    for (size_t i = 0; i < t.count; i++)
        p->doubles[i] = first + (int32_t)i;
    say(p,
        "region = ferry_buffer_region_from(%s, INT, %zu, %zu, doubles(%zu, %d)), "
        "region.source.element = DOUBLE;",
        t.name, t.offset, t.count, t.count, (int)first);
    /* What does not fit cannot be found later. */
    bool twin = chooses_twin(p) && policy != FERRY_CONVERT_CHECK;
    ferry_event *event = NULL;
    say(p,
        twin ? SAY_TWIN
            "TRY(ferry_copy_converting_async(&region, (ferry_convert_policy)%d%s, &twin));" SAY_WAIT
             : "TRY(ferry_copy_converting(&region, (ferry_convert_policy)%d%s));",
        (int)policy, words);
    ferry_copy_region region =
        ferry_buffer_region_from(t.handle, INT, t.offset, t.count, p->doubles);
    region.source.element = DOUBLE;
    const ferry_copy_options *options = c.used ? &c.options : NULL;
    ferry_status status =
        twin ? wait_for_twin(ferry_copy_converting_async(&region, policy, options, &event), &event)
             : ferry_copy_converting(&region, policy, options);
    end_chunks(p, &t, &c, status);
}

static void
step_convert_to(struct player *p)
{
    struct target t = choose(p);
    ferry_conversion numbers = conversion(INT, DOUBLE);
    struct chunked c;
    char words[32];
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    say(p,
        "TRY(copy_to_converted(%s, &from_int, %zu, %zu, double_values, FERRY_CONVERT_SATURATE%s));",
        t.name, t.offset, t.count, words);
    ferry_status status = copy_to_converted(t.handle, &numbers, t.offset, t.count, p->doubles,
                                            FERRY_CONVERT_SATURATE, c.used ? &c.options : NULL);
    race_look(p, t.subject);
    for (size_t i = 0; i < t.count && status == FERRY_OK; i++)
        if (!is_right(p, t.subject, t.begin + i, (int32_t)p->doubles[i]))
            went_wrong(p, "converted, element %zu is %g instead of %d", i, p->doubles[i],
                       (int)t.subject->expected[t.begin + i]);
    if (status == FERRY_ERROR_CANCELLED)
        end_chunks(p, &t, &c, status);
    else
        end_call(p, &t, status, READS);
}

/* Converts a range of ints to doubles in a separate buffer, and converts these doubles back to ints
 * in a second range. */
static void
step_convert(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    ferry_conversion there = conversion(INT, DOUBLE), back = conversion(DOUBLE, INT);
    struct chunked c;
    char words[32];
    ferry_buffer *between;
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    say(p, "OK(ferry_buffer_create(f.context, DOUBLE, %zu, NULL, &between));", to.count);
    MUST(p, ferry_buffer_create(p->world->f.context, DOUBLE, to.count, NULL, &between));
    begin_call(p, &from);
    say(p,
        "status = TRY(convert_buffer(between, &from_int, 0, %s, %zu, %zu, FERRY_CONVERT_CHECK, "
        "NULL));",
        from.name, from.offset, to.count);
    ferry_status status = convert_buffer(between, &there, 0, from.handle, from.offset, to.count,
                                         FERRY_CONVERT_CHECK, NULL);
    if (end_call(p, &from, status, READS)) {
        begin_call(p, &to);
        memmove(&to.subject->next[to.begin], &from.subject->expected[from.begin],
                to.count * sizeof(int32_t));
        say(p,
            "if (status == FERRY_OK) TRY(convert_buffer(%s, &to_int, %zu, between, 0, %zu, "
            "FERRY_CONVERT_TRUNCATE%s));",
            to.name, to.offset, to.count, words);
        status = convert_buffer(to.handle, &back, to.offset, between, 0, to.count,
                                FERRY_CONVERT_TRUNCATE, c.used ? &c.options : NULL);
        end_chunks(p, &to, &c, status);
    }
    say(p, "ferry_buffer_destroy(&between);");
    ferry_buffer_destroy(&between);
}

/* -- asynchronous ------------------------------------------------------------------------------ */

static void
finish(struct player *p, size_t which)
{
    struct pending *pending = &p->pending[which];
    if (!pending->event)
        return;
    char memory[32];
    snprintf(memory, sizeof(memory), "later[%zu]", which);
    say(p, "finish(&pending[%zu]);", which);
    if (pending->reads)
        say_values(p, "want", memory, pending->expected, pending->count);
    MUST(p, ferry_event_synchronize(pending->event));
    ferry_event_destroy(&pending->event);
    for (size_t i = 0; pending->reads && i < pending->count; i++)
        if (pending->values[i] != pending->expected[i] &&
            !(pending->doubtful[i] && pending->values[i] == 0))
            went_wrong(p, "element %zu of an asynchronous copy is %d instead of %d", i,
                       (int)pending->values[i], (int)pending->expected[i]);
}

void
drain(struct player *p)
{
    for (size_t i = 0; i < PENDING; i++)
        finish(p, i);
}

/* Returns the index of an entry of p->pending for a new asynchronous call. If the entry is in use,
 * first waits for the asynchronous call that uses it. */
static size_t
take_slot(struct player *p, const struct target *t, bool reads)
{
    size_t which = p->next_pending++ % PENDING;
    struct pending *pending = &p->pending[which];
    release_beside(p, t);
    finish(p, which);
    pending->reads = reads;
    pending->count = t->count;
    pending->pitch = pending->width = 1;
    memcpy(pending->expected, &t->subject->expected[t->begin], t->count * sizeof(int32_t));
    return which;
}

/* Returns the stream for an asynchronous call. NULL lets the library choose the place. */
static ferry_stream *
async_stream(struct player *p, char *text, size_t bytes)
{
    if (flags_of(p) & 1) {
        snprintf(text, bytes, "NULL");
        return NULL;
    }
    snprintf(text, bytes, "s[%u][%u]", p->number, choose_stream(p));
    return p->streams[choose_stream(p)];
}

/* Checks an asynchronous call. If the call is cancelled or may fail, first waits until the call has
 * ended. After a failure, the values that are found in the buffer become the expected values. */
static void
end_async(struct player *p, const struct target *t, size_t which, ferry_status status, bool cancel)
{
    struct pending *pending = &p->pending[which];
    if (status == FERRY_OK && cancel) {
        say(p, "OK(ferry_event_cancel(pending[%zu]));", which);
        MUST(p, ferry_event_cancel(pending->event));
    }
    if (status == FERRY_OK && (cancel || p->armed || p->world->setup.memory > 0)) {
        say(p,
            "status = ferry_event_synchronize(pending[%zu]), ferry_event_destroy(&pending[%zu]);",
            which, which);
        status = ferry_event_synchronize(pending->event);
        ferry_event_destroy(&pending->event);
        if (status == FERRY_OK && pending->reads)
            expect_rows(p, t, pending->values, pending->pitch, pending->width);
    }
    if (status == FERRY_ERROR_CANCELLED && cancel) {
        struct chunked c = {.stops = true};
        end_chunks(p, t, &c, status);
    } else {
        bool done = end_call(p, t, status, pending->reads ? READS : BY_CHUNKS);
        if (done && pending->reads)
            memcpy(pending->doubtful, &t->subject->doubtful[t->begin], t->count * sizeof(bool));
        if (done && cancel)
            say_outcome(p, t);
    }
}

static bool
chooses_cancel(struct player *p)
{
    return (flags_of(p) & 6) == 6;
}

static void
step_copy_from_async(struct player *p)
{
    struct target t = choose(p);
    size_t which = take_slot(p, &t, false);
    struct pending *pending = &p->pending[which];
    int32_t first = fresh(p, t.count);
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    begin_call(p, &t);
    set_counting(pending->values, t.count, first);
    set_counting(&t.subject->next[t.begin], t.count, first);
    say(p,
        "TRY(ferry_buffer_copy_from_async(%s, INT, %zu, %zu, counting(%zu, %d), ON(%s), "
        "&pending[%zu]));",
        t.name, t.offset, t.count, t.count, (int)first, stream_name, which);
    ferry_status status = ferry_buffer_copy_from_async(
        t.handle, INT, t.offset, t.count, pending->values, ON(stream), &pending->event);
    end_async(p, &t, which, status, chooses_cancel(p));
}

static void
step_copy_to_async(struct player *p)
{
    struct target t = choose(p);
    size_t which = take_slot(p, &t, true);
    struct pending *pending = &p->pending[which];
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    begin_call(p, &t);
    say(p, "TRY(ferry_buffer_copy_to_async(%s, INT, %zu, %zu, later[%zu], ON(%s), &pending[%zu]));",
        t.name, t.offset, t.count, which, stream_name, which);
    ferry_status status = ferry_buffer_copy_to_async(t.handle, INT, t.offset, t.count,
                                                     pending->values, ON(stream), &pending->event);
    end_async(p, &t, which, status, false);
}

static void
step_copy_async(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    size_t which = take_slot(p, &to, false);
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    release_beside(p, &from);
    begin_call(p, &to);
    memmove(&to.subject->next[to.begin], &from.subject->expected[from.begin],
            to.count * sizeof(int32_t));
    say(p, "TRY(ferry_buffer_copy_async(%s, INT, %zu, %s, %zu, %zu, ON(%s), &pending[%zu]));",
        to.name, to.offset, from.name, from.offset, to.count, stream_name, which);
    ferry_status status =
        ferry_buffer_copy_async(to.handle, INT, to.offset, from.handle, from.offset, to.count,
                                ON(stream), &p->pending[which].event);
    end_async(p, &to, which, status, chooses_cancel(p));
}

static void
step_fill_async(struct player *p)
{
    struct target t = choose(p);
    size_t which = take_slot(p, &t, false);
    int32_t value = fresh(p, 1);
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value);
    say(p, "TRY(ferry_buffer_fill_async(%s, INT, %zu, %zu, &(int){%d}, ON(%s), &pending[%zu]));",
        t.name, t.offset, t.count, (int)value, stream_name, which);
    ferry_status status = ferry_buffer_fill_async(t.handle, INT, t.offset, t.count, &value,
                                                  ON(stream), &p->pending[which].event);
    end_async(p, &t, which, status, chooses_cancel(p));
}

/* -- many at once ------------------------------------------------------------------------------ */

/* Adds three copies to a batch: from memory to a buffer, between two buffers, and from a buffer to
 * memory. The last copy reads the results of the first two. */
static ferry_status
add_to_batch(struct player *p, copy_list *batch, const struct target *to, const struct target *from,
             size_t half, int32_t first, int32_t *got)
{
    say(p,
        "if (status == FERRY_OK) status = TRY(copy_list_from(batch, %s, INT, %zu, counting(%zu, "
        "%d), %zu));",
        to->name, to->offset, half, (int)first, half);
    say(p,
        "if (status == FERRY_OK) status = TRY(copy_list_copy(batch, %s, INT, %zu, %s, %zu, %zu));",
        to->name, to->offset + half, from->name, from->offset, to->count - half);
    say(p, "if (status == FERRY_OK) status = TRY(copy_list_to(batch, %s, INT, %zu, values, %zu));",
        to->name, to->offset, to->count);
    ferry_status status = copy_list_from(batch, to->handle, INT, to->offset, p->values, half);
    if (status == FERRY_OK)
        status = copy_list_copy(batch, to->handle, INT, to->offset + half, from->handle,
                                from->offset, to->count - half);
    return status == FERRY_OK ? copy_list_to(batch, to->handle, INT, to->offset, got, to->count)
                              : status;
}

static void
step_batch(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    static _Thread_local int32_t got[LENGTH_MAX];
    size_t half = to.count / 2;
    int32_t first = fresh(p, half), *next = to.subject->next;
    copy_list *batch;
    struct chunked c;
    char words[32];
    if (overlap(&to, &from))
        return;
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    say(p, "OK(copy_list_create(&batch)), status = FERRY_OK;");
    MUST(p, copy_list_create(&batch));
    begin_call(p, &to);
    p->second.count = to.count - half;
    /* p->values must be filled after begin_call(). That function may call drain(), which overwrites
     * p->values. */
    set_counting(p->values, half, first);
    ferry_status status = add_to_batch(p, batch, &to, &from, half, first, got);
    set_counting(&next[to.begin], half, first);
    memmove(&next[to.begin + half], &from.subject->expected[from.begin],
            (to.count - half) * sizeof(int32_t));
    say(p, "if (status == FERRY_OK) TRY(ferry_copy(batch->regions, batch->count%s));", words);
    if (status == FERRY_OK)
        status = ferry_copy(batch->regions, batch->count, c.used ? &c.options : NULL);
    end_chunks(p, &to, &c, status);
    if (status == FERRY_OK) {
        say_want(p, "values", &to);
        expect_range(p, &to, got);
    }
    say(p, "copy_list_destroy(&batch);");
    copy_list_destroy(&batch);
}

/* Queues a batch of copies that runs asynchronously. Destroys the list of copies immediately. Keeps
 * the memory that is copied until the event of the batch has occurred. */
static void
step_batch_async(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    size_t which = take_slot(p, &to, false), half = to.count / 2, done, total;
    struct pending *pending = &p->pending[which];
    int32_t first = fresh(p, half), *next = to.subject->next;
    copy_list *batch = NULL;
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    release_beside(p, &from);
    if (overlap(&to, &from))
        return;
    p->second.count = to.count - half;
    begin_call(p, &to);
    set_counting(pending->values, half, first);
    set_counting(&next[to.begin], half, first);
    memmove(&next[to.begin + half], &from.subject->expected[from.begin],
            (to.count - half) * sizeof(int32_t));
    say(p, "batch = NULL, status = copy_list_create(&batch);");
    say(p,
        "if (status == FERRY_OK) status = copy_list_from(batch, %s, INT, %zu, counting(%zu, %d), "
        "%zu);",
        to.name, to.offset, half, (int)first, half);
    say(p, "if (status == FERRY_OK) status = copy_list_copy(batch, %s, INT, %zu, %s, %zu, %zu);",
        to.name, to.offset + half, from.name, from.offset, to.count - half);
    say(p,
        "if (status == FERRY_OK) status = TRY(copy_list_submit_async(batch, ON(%s), "
        "&pending[%zu]));",
        stream_name, which);
    ferry_status status = copy_list_create(&batch);
    if (status == FERRY_OK)
        status = copy_list_from(batch, to.handle, INT, to.offset, pending->values, half);
    if (status == FERRY_OK)
        status = copy_list_copy(batch, to.handle, INT, to.offset + half, from.handle, from.offset,
                                to.count - half);
    if (status == FERRY_OK)
        status = copy_list_submit_async(batch, ON(stream), &pending->event);
    if (status == FERRY_OK)
        MUST(p, ferry_event_progress(pending->event, &done, &total));
    if (status == FERRY_OK && done > total)
        went_wrong(p, "%zu of %zu bytes are done", done, total);
    say(p, "copy_list_destroy(&batch);");
    copy_list_destroy(&batch);
    end_async(p, &to, which, status, chooses_cancel(p));
}

/* Returns how many rows of `pitch` elements fit into the range `to`. Shortens both ranges so that
 * they end after the first `width` elements of the last row. */
static size_t
fit_rows(struct player *p, struct target *to, struct target *from, size_t pitch, size_t width)
{
    size_t height = to->count / pitch;
    to->count = height ? (height - 1) * pitch + width : 0;
    if (from)
        from->count = to->count;
    p->second.count = to->count;
    return height;
}

/* Copies rows from a buffer to memory. Checks that the bytes between the rows in memory stay
 * unchanged. */
static void
step_rows_to(struct player *p)
{
    struct target t = choose(p);
    size_t pitch = 4 + flags_of(p) / 8 * 4, width = pitch / 4 * (1 + p->bytes[3] % 4),
           height = fit_rows(p, &t, NULL, pitch, width);
    struct chunked c;
    char words[32];
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &t);
    set_constant(p->values, t.count, -1);
    say(p, "TRY(copy_rows_to(%s, INT, %zu, %zu, values, %zu, %zu, %zu%s));", t.name, t.offset,
        pitch, pitch, width, height, words);
    ferry_status status = copy_rows_to(t.handle, INT, t.offset, pitch, p->values, pitch, width,
                                       height, c.used ? &c.options : NULL);
    race_look(p, t.subject);
    for (size_t i = 0; i < t.count && status == FERRY_OK; i++)
        if (i % pitch < width ? !is_right(p, t.subject, t.begin + i, p->values[i])
                              : p->values[i] != -1)
            went_wrong(p, "element %zu of rows is %d instead of %d", i, (int)p->values[i],
                       (int)t.subject->expected[t.begin + i]);
    if (status == FERRY_ERROR_CANCELLED)
        end_chunks(p, &t, &c, status);
    else
        end_call(p, &t, status, READS);
}

static void
step_rows_async(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    unsigned way = flags_of(p) / 8 % 3;
    size_t pitch = 4 + flags_of(p) % 8 * 4, width = pitch / 4 * (1 + p->bytes[3] % 4),
           height = fit_rows(p, &to, &from, pitch, width);
    size_t which = take_slot(p, &to, way == 1);
    struct pending *pending = &p->pending[which];
    int32_t first = fresh(p, to.count), *next = to.subject->next;
    char stream_name[32];
    ferry_stream *stream = async_stream(p, stream_name, sizeof(stream_name));
    ferry_status status;
    release_beside(p, &from);
    if (way != 2)
        p->second.subject = NULL;
    begin_call(p, &to);
    if (way == 0) {
        set_counting(pending->values, to.count, first);
        for (size_t row = 0; row < height; row++)
            set_counting(&next[to.begin + row * pitch], width, first + (int32_t)(row * pitch));
        say(p,
            "TRY(copy_rows_from_async(%s, INT, %zu, %zu, counting(%zu, %d), %zu, %zu, %zu, ON(%s), "
            "&pending[%zu]));",
            to.name, to.offset, pitch, to.count, (int)first, pitch, width, height, stream_name,
            which);
        status = copy_rows_from_async(to.handle, INT, to.offset, pitch, pending->values, pitch,
                                      width, height, ON(stream), &pending->event);
    } else if (way == 1) {
        memcpy(pending->values, pending->expected, to.count * sizeof(int32_t));
        pending->pitch = pitch;
        pending->width = width;
        char memory[32];
        snprintf(memory, sizeof(memory), "later[%zu]", which);
        say_values(p, "put", memory, pending->expected, to.count);
        say(p,
            "TRY(copy_rows_to_async(%s, INT, %zu, %zu, later[%zu], %zu, %zu, %zu, ON(%s), "
            "&pending[%zu]));",
            to.name, to.offset, pitch, which, pitch, width, height, stream_name, which);
        status = copy_rows_to_async(to.handle, INT, to.offset, pitch, pending->values, pitch, width,
                                    height, ON(stream), &pending->event);
    } else {
        if (overlap(&to, &from))
            return;
        for (size_t row = 0; row < height; row++)
            memmove(&next[to.begin + row * pitch],
                    &from.subject->expected[from.begin + row * pitch], width * sizeof(int32_t));
        say(p,
            "TRY(copy_rows_async(%s, INT, %zu, %zu, %s, %zu, %zu, %zu, %zu, ON(%s), "
            "&pending[%zu]));",
            to.name, to.offset, pitch, from.name, from.offset, pitch, width, height, stream_name,
            which);
        status = copy_rows_async(to.handle, INT, to.offset, pitch, from.handle, from.offset, pitch,
                                 width, height, ON(stream), &pending->event);
    }
    end_async(p, &to, which, status, way == 1 ? false : chooses_cancel(p));
}

/* Copies a rectangle whose rows fill one to four quarters of the pitch. */
static void
step_rows(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    size_t pitch = 4 + flags_of(p) % 8 * 4, width = pitch / 4 * (1 + flags_of(p) / 8 % 4),
           height = fit_rows(p, &to, &from, pitch, width);
    int32_t first = fresh(p, to.count), *next = to.subject->next;
    ferry_status status;
    struct chunked c;
    char words[32];
    if (overlap(&to, &from))
        return;
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &to);
    if (flags_of(p) & 32) {
        p->second.subject = NULL;
        set_counting(p->values, to.count, first);
        for (size_t row = 0; row < height; row++)
            set_counting(&next[to.begin + row * pitch], width, first + (int32_t)(row * pitch));
        say(p, "TRY(copy_rows_from(%s, INT, %zu, %zu, counting(%zu, %d), %zu, %zu, %zu%s));",
            to.name, to.offset, pitch, to.count, (int)first, pitch, width, height, words);
        status = copy_rows_from(to.handle, INT, to.offset, pitch, p->values, pitch, width, height,
                                c.used ? &c.options : NULL);
    } else {
        for (size_t row = 0; row < height; row++)
            memmove(&next[to.begin + row * pitch],
                    &from.subject->expected[from.begin + row * pitch], width * sizeof(int32_t));
        say(p, "TRY(copy_rows(%s, INT, %zu, %zu, %s, %zu, %zu, %zu, %zu%s));", to.name, to.offset,
            pitch, from.name, from.offset, pitch, width, height, words);
        status = copy_rows(to.handle, INT, to.offset, pitch, from.handle, from.offset, pitch, width,
                           height, c.used ? &c.options : NULL);
    }
    end_chunks(p, &to, &c, status);
}

/* Copies a box of planes, from memory or from a second buffer. The plane pitch is left at its
 * default, which is a multiple of the given row pitch even if a plane has one row, so that the rows
 * of all planes lie as those of one rectangle. */
static void
step_planes(struct player *p)
{
    struct target to = choose(p), from = choose_second(p, &to);
    size_t pitch = 2 + flags_of(p) % 8, width = 1 + p->bytes[3] % pitch, rows = flags_of(p) / 8 % 4,
           in_plane = rows ? rows : 1, planes = to.count / pitch / in_plane;
    int32_t first = fresh(p, to.count), *next = to.subject->next;
    bool from_memory = flags_of(p) & 32;
    struct chunked c;
    char words[32], source[96];
    if (overlap(&to, &from) || planes == 0)
        return;
    to.count = from.count = (planes * in_plane - 1) * pitch + width;
    p->second.count = to.count;
    if (from_memory)
        p->second.subject = NULL;
    choose_chunks(p, &c);
    chunk_words(&c, words, sizeof(words));
    begin_call(p, &to);
    set_counting(p->values, to.count, first);
    const int32_t *values = from_memory ? p->values : &from.subject->expected[from.begin];
    for (size_t i = 0; i < to.count; i++)
        if (i % pitch < width)
            next[to.begin + i] = values[i];
    ferry_copy_region region = {
        .target = {.buffer = to.handle, .offset = to.offset, .row_pitch = pitch},
        .source = {.row_pitch = pitch},
        .count = width,
        .rows = rows,
        .planes = planes};
    if (from_memory) {
        region.source.memory = p->values;
        snprintf(source, sizeof(source), ".memory = counting(%zu, %d)", to.count, (int)first);
    } else {
        region.source.buffer = from.handle;
        region.source.offset = from.offset;
        snprintf(source, sizeof(source), ".buffer = %s, .offset = %zu", from.name, from.offset);
    }
    say(p,
        "region = (ferry_copy_region){.target = {.buffer = %s, .offset = %zu, .row_pitch = %zu}, "
        ".source = {%s, .row_pitch = %zu}, .count = %zu, .rows = %zu, .planes = %zu};",
        to.name, to.offset, pitch, source, pitch, width, rows, planes);
    const ferry_copy_options *options = c.used ? &c.options : NULL;
    bool twin = chooses_twin(p);
    ferry_event *event = NULL;
    say(p,
        twin ? SAY_TWIN "TRY(ferry_copy_async(&region, 1%s, &twin));" SAY_WAIT
             : "TRY(ferry_copy(&region, 1%s));",
        words);
    ferry_status status = twin
                              ? wait_for_twin(ferry_copy_async(&region, 1, options, &event), &event)
                              : ferry_copy(&region, 1, options);
    end_chunks(p, &to, &c, status);
}

const struct step copy_steps[] = {
    {"copy_from", step_copy_from, 6},
    {"copy_to", step_copy_to, 6},
    {"copy", step_copy, 8},
    {"fill", step_fill, 5},
    {"convert_from", step_convert_from, 2},
    {"convert_to", step_convert_to, 2},
    {"convert", step_convert, 2},
    {"copy_from_async", step_copy_from_async, 5},
    {"copy_to_async", step_copy_to_async, 3},
    {"copy_async", step_copy_async, 5},
    {"fill_async", step_fill_async, 3},
    {"batch", step_batch, 4},
    {"batch_async", step_batch_async, 3},
    {"rows", step_rows, 3},
    {"planes", step_planes, 3},
    {"rows_to", step_rows_to, 2},
    {"rows_async", step_rows_async, 3},
    {NULL, NULL, 0},
};
