/* SPDX-License-Identifier: MIT */
/* The oracle of random test histories, which are random sequences of library calls. It knows the
 * expected value of every element and the legal results of each call. This file also writes each
 * history as C code. */
#include "tests/histories/history.h"

#include "tests/support/fault.h"
#include "tests/support/short_memory.h"

void
print_and_abort(const char *format, va_list arguments)
{
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

void
went_wrong(const struct player *p, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "player %u, step %zu, %s: ", p->number, p->step, p->name ? p->name : "none");
    va_start(arguments, format);
    print_and_abort(format, arguments);
}

void
must(struct player *p, ferry_status status, const char *call)
{
    if (status != FERRY_OK)
        went_wrong(p, "%s: %s: %s", call, ferry_status_name(status), ferry_last_error());
}

/* -- the script -------------------------------------------------------------------------------- */

void
say(struct player *p, const char *format, ...)
{
    va_list arguments;
    if (!p->script)
        return;
    fputs("    ", p->script);
    va_start(arguments, format);
    vfprintf(p->script, format, arguments);
    va_end(arguments);
    fputc('\n', p->script);
    /* The test makes the printed call next, and this call may end the process. So the line must be
     * in the file before. */
    fflush(p->script);
}

/* Returns the length of the run at the start of `values`. A run consists of equal values, or of
 * values that increase by one. */
static size_t
run_length(const int32_t *values, size_t count, int *out_step)
{
    size_t length = 1;
    *out_step = count > 1 && values[1] == values[0] + 1;
    while (length < count && values[length] == values[0] + *out_step * (int)length)
        length++;
    return length;
}

void
say_want(struct player *p, const char *memory, const struct target *target)
{
    say_values(p, "want", memory, &target->subject->expected[target->begin], target->count);
}

void
say_values(struct player *p, const char *what, const char *memory, const int32_t *values,
           size_t count)
{
    if (!p->script)
        return;
    fprintf(p->script, "    %s(%s, %zu, (struct run[]){", what, memory, count);
    for (size_t i = 0; i < count;) {
        int step;
        size_t length = run_length(values + i, count - i, &step);
        fprintf(p->script, "{%zu, %d, %d}, ", length, (int)values[i], step);
        i += length;
    }
    fprintf(p->script, "{0, 0, 0}});\n");
    fflush(p->script);
}

void
say_outcome(struct player *p, const struct target *target)
{
    char range[64];
    snprintf(range, sizeof(range), "%s, %zu", target->name, target->offset);
    say_values(p, "be", range, &target->subject->expected[target->begin], target->count);
}

/* -- values ------------------------------------------------------------------------------------ */

void
set_counting(int32_t *target, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        target[i] = first + (int32_t)i;
}

void
set_constant(int32_t *target, size_t count, int32_t value)
{
    for (size_t i = 0; i < count; i++)
        target[i] = value;
}

int32_t
fresh(struct player *p, size_t count)
{
    int32_t first = p->next_value;
    p->next_value += (int32_t)count + 1;
    return first;
}

void
expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
            size_t width)
{
    const int32_t *expected = &target->subject->expected[target->begin];
    race_look(p, target->subject);
    for (size_t i = 0; i < target->count; i++)
        if (i % pitch < width && !is_right(p, target->subject, target->begin + i, values[i]))
            went_wrong(p, "element %zu of %s is %d instead of %d", target->offset + i, target->name,
                       (int)values[i], (int)expected[i]);
}

void
expect_range(struct player *p, const struct target *target, const int32_t *values)
{
    expect_rows(p, target, values, 1, 1);
}

static struct target
whole(struct player *p, struct subject *subject)
{
    struct target t = {.subject = subject, .handle = subject->handle};
    size_t end;
    own_region(p, subject, &t.begin, &end);
    if (is_racing(p, subject)) {
        size_t count = ferry_buffer_count(subject->handle);
        end = end < count ? end : count > t.begin ? count : t.begin;
    }
    t.offset = t.begin;
    t.count = end - t.begin;
    snprintf(t.name, sizeof(t.name), "b[%d]", (int)(subject - p->world->subjects));
    return t;
}

void
expect_subject(struct player *p, struct subject *subject)
{
    struct target t = whole(p, subject);
    t.count = read_now(p, &t);
    say_want(p, "values", &t);
    expect_range(p, &t, p->values);
}

void
settle_abandoned(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    size_t count = read_now(p, t);
    for (size_t i = 0; i < count; i++) {
        size_t at = t->begin + i;
        if (!s->written[at] && p->values[i] != 0)
            went_wrong(p, "abandoned, element %zu that was never written is %d", i,
                       (int)p->values[i]);
        if (!is_right(p, s, at, p->values[i]) && p->values[i] != s->next[at] &&
            !(s->scrub && p->values[i] == 0))
            went_wrong(p, "abandoned, element %zu is %d, neither %d nor %d", i, (int)p->values[i],
                       (int)s->expected[at], (int)s->next[at]);
        s->expected[at] = p->values[i];
    }
    say_outcome(p, t);
}

/* -- calls ------------------------------------------------------------------------------------- */

void
begin_call(struct player *p, const struct target *target)
{
    const struct subject *s = target->subject;
    race_open_windows(p);
    memcpy(&target->subject->next[target->begin], &s->expected[target->begin],
           target->count * sizeof(int32_t));
    if (!p->arm)
        return;
    if (p->arm_later > 0) {
        p->arm_later--;
        return;
    }
    /* The failure must occur in this call. So drain() completes the pending asynchronous calls
     * before the failure is injected, and `arm` is reset for later calls. */
    uint64_t nth = p->arm;
    p->arm = 0;
    drain(p);
    if (!p->arm_memory && !p->world->injects)
        return;
    say(p, "%s(%llu);", p->arm_memory ? "short_memory_arm" : "fault_arm", (unsigned long long)nth);
    p->armed = true;
    p->counts.injected++;
    if (p->arm_memory)
        short_memory_arm(nth);
    else
        fault_arm(nth);
}

bool
disarm(struct player *p)
{
    if (!p->armed)
        return false;
    bool tripped = p->arm_memory ? short_memory_tripped() : fault_tripped();
    p->armed = false;
    short_memory_disarm();
    fault_disarm();
    say(p, "short_memory_disarm(), fault_disarm();");
    p->counts.failed += tripped;
    p->tripped = p->tripped || tripped;
    return tripped;
}

/* Returns whether a concurrent resize may have cut elements of the range that the call reads. The
 * call may then have copied zeros, so the values of the target are uncertain. */
bool
second_is_doubtful(struct player *p)
{
    const struct target *second = &p->second;
    if (!second->subject)
        return false;
    race_look(p, second->subject);
    return memchr(&second->subject->doubtful[second->begin], true, second->count) != NULL;
}

/* Checks the values after a failed call. Each element must have its old value, or, if the call
 * works in chunks, its new value. The value that is found becomes the expected value. */
static void
settle(struct player *p, const struct target *target, unsigned how)
{
    bool by_chunks = how & BY_CHUNKS;
    bool cleared = target->subject->scrub && (how & OVERWRITES);
    struct subject *s = target->subject;
    struct target all = whole(p, s);
    bool doubtful = second_is_doubtful(p);
    all.count = read_now(p, &all);
    for (size_t i = 0; i < all.count; i++) {
        size_t at = all.begin + i;
        bool inside = at >= target->begin && at < target->begin + target->count;
        /* The failed call may have written its range with the old values, so the elements count as
         * written. */
        s->written[at] = s->written[at] || (inside && !(how & READS));
        if (is_right(p, s, at, p->values[i]))
            continue;
        if (inside && by_chunks && doubtful && p->values[i] == 0) {
            s->expected[at] = 0;
            s->doubtful[at] = true;
            continue;
        }
        if (!(inside && by_chunks && p->values[i] == s->next[at]) &&
            !(inside && cleared && p->values[i] == 0))
            went_wrong(p, "after the failure \"%s\" element %zu is %d, which is neither %d nor %d",
                       ferry_last_error(), at, (int)p->values[i], (int)s->expected[at],
                       inside ? (int)s->next[at] : (int)s->expected[at]);
        s->expected[at] = p->values[i];
        s->written[at] = true;
    }
    say_outcome(p, &all);
}

static void
count_as_done(struct player *p, const struct target *target, unsigned how)
{
    struct subject *s = target->subject;
    bool doubtful = second_is_doubtful(p) && !(how & READS);
    race_look(p, s);
    bool quiet = race_was_quiet(p, s);
    for (size_t at = target->begin; at < target->begin + target->count; at++) {
        /* An element that a resize may have cut is doubtful: it may be zero. It stays doubtful if
         * the call did not change its value, or if a resize ran during the call. */
        s->doubtful[at] =
            s->next[at] == s->expected[at] || !quiet ? s->doubtful[at] || doubtful : doubtful;
        s->expected[at] = s->next[at];
        s->written[at] = s->written[at] || !(how & READS);
    }
}

static void
check_message(struct player *p, ferry_status status)
{
    const char *text = ferry_last_error();
    if (strlen(text) < 10)
        went_wrong(p, "%s without a message: \"%s\"", ferry_status_name(status), text);
}

bool
end_call(struct player *p, const struct target *target, ferry_status status, unsigned how)
{
    struct subject *s = target->subject;
    bool tripped = disarm(p);
    bool others = (how & WHOLE_BUFFER) && is_racing(p, s);
    if (status == FERRY_OK) {
        if (!(how & WHOLE_BUFFER) && race_must_be_short(p, target))
            went_wrong(p, "done beyond the end of the buffer");
        count_as_done(p, target, how);
        return true;
    }
    check_message(p, status);
    if (status == FERRY_ERROR_OUT_OF_RANGE && !(how & WHOLE_BUFFER) &&
        (race_may_be_short(p, target) || race_may_be_short(p, &p->second))) {
        p->counts.cut++;
        settle(p, target, how);
        return false;
    }
    /* A launch of another thread may have failed, and its range is unreadable until that thread
     * overwrites it. A call on the whole buffer then returns CANCELLED. */
    if (status == FERRY_ERROR_CANCELLED && others)
        return false;
    if (status == FERRY_ERROR_BUSY && (others || may_be_lent(p, target, how))) {
        p->counts.busy++;
        return false;
    }
    if (status == FERRY_ERROR_INVALID_STATE && (how & MAY_BE_STATE))
        return false;
    bool is_short = status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0;
    p->counts.short_of_memory += is_short;
    ferry_status injected = p->arm_memory ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_DEVICE;
    if (!is_short && !(tripped && status == injected))
        went_wrong(p, "%s: %s", ferry_status_name(status), ferry_last_error());
    settle(p, target, how);
    return false;
}
