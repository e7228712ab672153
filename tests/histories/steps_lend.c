/* SPDX-License-Identifier: MIT */
/* Steps of a random test with loans: scopes and leases that stay open during later steps. Some
 * steps export a lease, or end a loan on a second thread. */
#include "tests/histories/history.h"

#include "tests/histories/peek.h"

/* Indexes of two of the eight random bytes of a test step. These two bytes select options of a
 * scope or lease. */
enum { HOW = 2, MORE = 6 };

static int
number_of(const struct player *p, const struct held *h)
{
    return (int)(h - p->held);
}

/* -- what the others see of it ----------------------------------------------------------------- */

static bool
meets(const struct held *h, const struct subject *subject, size_t begin, size_t count)
{
    return h->used && h->open && h->t.subject == subject && h->t.begin < begin + count &&
           begin < h->t.begin + h->t.count;
}

bool
is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count)
{
    bool lent = false;
    for (size_t i = 0; i < LOANS; i++)
        lent = lent || meets(&p->held[i], subject, begin, count);
    return lent;
}

/* Returns whether a call may conflict with a scope or lease that an earlier step has left open. If
 * two ranges of the call are in one buffer, the library may merge them and count both as written.
 * So a range that the call only reads may conflict with a READ scope. */
bool
may_be_lent(const struct player *p, const struct target *target, unsigned how)
{
    const struct target *second = &p->second;
    bool may = false;
    for (size_t i = 0; i < LOANS; i++) {
        const struct held *h = &p->held[i];
        may = may || meets(h, target->subject, target->begin, target->count) ||
              ((how & WHOLE_BUFFER) && h->used && h->t.subject == target->subject) ||
              (second->subject && (h->access != FERRY_READ || second->subject == target->subject) &&
               meets(h, second->subject, second->begin, second->count));
    }
    return may;
}

/* -- its bytes --------------------------------------------------------------------------------- */

static void
compare(struct player *p, const struct held *h, const int32_t *memory, const char *name)
{
    say_values(p, "want", name, h->expected, h->t.count);
    for (size_t i = 0; i < h->t.count; i++)
        if (memory[i] != h->expected[i])
            went_wrong(p,
                       "element %zu that \"%s\" has from element %zu of %s on is %d instead of %d",
                       i, h->label, h->t.begin, h->t.name, (int)memory[i], (int)h->expected[i]);
}

/* Reads memory through the address of a closed lease. The address stays readable while the lease
 * exists, but the content is arbitrary. In checked runs the function reads nothing, because there
 * the access would fault. */
static void
touch_closed(const struct player *p, const struct held *h)
{
    const volatile int32_t *memory = h->loan.memory;
    if (MAY_RACE && h->place == 0 && !p->world->f.context->debug)
        (void)(memory[0] + memory[h->t.count - 1]);
}

static void
look(struct player *p, struct held *h)
{
    const int i = number_of(p, h);
    char name[40];
    if (!h->open) {
        touch_closed(p, h);
    } else if (h->loan.twin) {
        say(p, "OK(ferry_buffer_copy_to(loans[%d].twin, INT, 0, %zu, values, NULL));", i,
            h->t.count);
        MUST(p, ferry_buffer_copy_to(h->loan.twin, INT, 0, h->t.count, p->values, NULL));
        compare(p, h, p->values, "values");
    } else if (h->place == 0) {
        snprintf(name, sizeof(name), "loans[%d].memory", i);
        compare(p, h, h->loan.memory, name);
    } else {
        say(p, "OK(peek(&f, s[%u][%u], page_locked(%u), loans[%d].memory, %zu));", p->number,
            h->stream, p->number, i, h->t.count);
        MUST(p, peek(&p->world->f, p->streams[h->stream], p->pinned, h->loan.memory, h->t.count));
        snprintf(name, sizeof(name), "page_locked(%u)", p->number);
        compare(p, h, p->pinned, name);
    }
}

/* Writes the first `count` elements of the memory of a lease. If the memory was imported as a
 * buffer, a kernel writes it through this buffer. */
static void
scribble(struct player *p, struct held *h, size_t count)
{
    int32_t value = fresh(p, 1);
    const int i = number_of(p, h);
    if (h->loan.twin) {
        say(p, "TRY(launch_fill(&w, s[%u][%u], loans[%d].twin, 0, %zu, %d));", p->number,
            choose_stream(p), i, count, (int)value);
        ferry_status status =
            launch_fill(&p->world->w, stream_for(p), h->loan.twin, 0, count, value);
        if (status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0)
            return;
        MUST(p, status);
    } else if (h->place == 0) {
        say(p, "set_constant(loans[%d].memory, %zu, %d);", i, count, (int)value);
        set_constant(h->loan.memory, count, value);
    } else {
        say(p, "queue_fill(&f, s[%u][%u], loans[%d].memory, %d, %zu);", p->number, h->stream, i,
            (int)value, count);
        queue_fill(&p->world->f, p->streams[h->stream], h->loan.memory, value, count);
    }
    set_constant(h->expected, count, value);
}

/* If the lease may write, fills its memory and takes the new values as the expected values of the
 * buffer. Some of these writes may still be queued on a stream. */
static void
publish(struct player *p, struct held *h)
{
    struct subject *s = h->t.subject;
    if (h->access != FERRY_READ)
        scribble(p, h, h->t.count);
    if (s && h->access != FERRY_READ) {
        memcpy(&s->expected[h->t.begin], h->expected, h->t.count * sizeof(int32_t));
        memset(&s->written[h->t.begin], true, h->t.count);
    }
}

/* -- ends -------------------------------------------------------------------------------------- */

static void
drop(struct player *p, struct held *h, unsigned parts, bool elsewhere)
{
    say(p, "loan_drop(&loans[%d], %u, %s);", number_of(p, h), parts, elsewhere ? "true" : "false");
    loan_drop(&h->loan, parts, elsewhere);
}

/* Ends every remaining part of the loan. */
static void
end(struct player *p, struct held *h, bool elsewhere)
{
    loan_wait(&h->loan);
    look(p, h);
    if (h->open)
        publish(p, h);
    if (loan_parts(&h->loan)) {
        drop(p, h, ALL_PARTS, elsewhere);
    } else {
        say(p, "OK(ferry_scope_close(&loans[%d].scope));", number_of(p, h));
        MUST(p, ferry_scope_close(&h->loan.scope));
    }
    h->used = h->open = false;
}

void
release_held(struct player *p, const struct subject *subject)
{
    for (size_t i = 0; i < LOANS; i++)
        if (p->held[i].used && (!subject || p->held[i].t.subject == subject))
            end(p, &p->held[i], i & 1);
}

void
release_scopes(struct player *p, const struct subject *subject)
{
    /* While a thread drops some parts of a loan, other parts are left. */
    for (size_t i = 0; i < LOANS; i++)
        if (p->held[i].used && p->held[i].t.subject == subject && !p->held[i].loan.dropping &&
            !loan_parts(&p->held[i].loan))
            end(p, &p->held[i], false);
}

void
release_beside(struct player *p, const struct target *target)
{
    for (size_t i = 0; i < LOANS; i++)
        if (meets(&p->held[i], target->subject, target->begin, target->count))
            end(p, &p->held[i], false);
}

void
release_writers(struct player *p, const struct target *target)
{
    for (size_t i = 0; i < LOANS; i++)
        if (p->held[i].access != FERRY_READ &&
            meets(&p->held[i], target->subject, target->begin, target->count))
            end(p, &p->held[i], true);
}

void
orphan_held(struct player *p, const struct subject *subject)
{
    if (subject->wrapped)
        release_held(p, subject);
    for (size_t i = 0; i < LOANS; i++)
        if (p->held[i].used && p->held[i].t.subject == subject)
            p->held[i].t.subject = NULL;
}

/* -- beginnings -------------------------------------------------------------------------------- */

/* Records a scope or lease that stays open during later steps of the test. If it was opened through
 * a view, its range is recorded as a range of the base buffer. */
static void
begin_loan(struct player *p, struct held *h, const struct target *t, ferry_access access, int place)
{
    h->used = h->open = true;
    h->t = *t;
    h->t.handle = t->subject->handle;
    h->t.offset = t->begin;
    snprintf(h->t.name, sizeof(h->t.name), "b[%d]", (int)(t->subject - p->world->subjects));
    h->access = access;
    h->place = place;
    say(p, "loans[%d].order = %u;", number_of(p, h), p->bytes[MORE]);
    h->loan.order = p->bytes[MORE];
}

/* Opens a READ scope that stays open during later steps of the test. While it is open, no thread
 * can write the range. */
static void
step_hold(struct player *p)
{
    struct held *h = &p->held[flags_of(p) % LOANS];
    struct target t = choose(p);
    int32_t *memory;
    ferry_scope scope;
    if (h->used) {
        end(p, h, false);
        return;
    }
    if (t.count == 0 || !open_host(p, &t, FERRY_READ, &scope, &memory))
        return;
    say(p, "loans[%d] = (struct loan){.scope = scope, .memory = memory};", number_of(p, h));
    h->loan = (struct loan){.scope = scope, .memory = memory};
    snprintf(h->label, sizeof(h->label), "a scope");
    begin_loan(p, h, &t, FERRY_READ, 0);
    race_look(p, t.subject);
    expect_range(p, &t, memory);
    memcpy(h->expected, &t.subject->expected[t.begin], t.count * sizeof(int32_t));
    look(p, h);
}

static void
fill_new(struct player *p, struct held *h)
{
    const struct target *t = &h->t;
    if (h->access != FERRY_OVERWRITE) {
        if (h->place > 0) {
            MUST(p, peek(&p->world->f, p->streams[h->stream], p->pinned, h->loan.memory, t->count));
            expect_range(p, t, p->pinned);
        } else
            expect_range(p, t, h->loan.memory);
    }
    memcpy(h->expected, &t->subject->expected[t->begin], t->count * sizeof(int32_t));
    if (h->access == FERRY_OVERWRITE)
        scribble(p, h, t->count);
    look(p, h);
}

static void
open_lease(struct player *p, struct held *h)
{
    struct target t = choose(p);
    unsigned how = p->bytes[HOW], more = p->bytes[MORE];
    bool at_host = more & 1, is_ordered = more & 2;
    h->stream = p->world->setup.streams + (unsigned)number_of(p, h);
    ferry_stream *own = p->streams[h->stream], *stream = at_host || !is_ordered ? NULL : own;
    ferry_lease_options options = {.stream = stream,
                                   .offset = t.offset,
                                   .count = t.count,
                                   .access = (ferry_access)(1 + how % 3),
                                   .place = at_host ? 0 : ferry_stream_place(own)};
    char name[32] = "NULL", label[40] = "NULL";
    if (t.count == 0)
        return;
    h->label[0] = '\0';
    if (!(more & 4)) {
        snprintf(h->label, sizeof(h->label), "player %u step %zu", p->number, p->step);
        options.label = h->label;
        snprintf(label, sizeof(label), "\"%s\"", h->label);
    }
    if (stream)
        snprintf(name, sizeof(name), "s[%u][%u]", p->number, h->stream);
    h->loan = (struct loan){.order = 0};
    begin_call(p, &t);
    say(p, "loans[%d] = (struct loan){.order = 0};", number_of(p, h));
    say(p,
        "TRY(loan_open(&loans[%d], %s, &(ferry_lease_options){.stream = %s, .label = %s, .offset = "
        "%zu, .count = %zu, .access = %s, .place = %d}));",
        number_of(p, h), t.name, name, label, t.offset, t.count, access_names[options.access],
        options.place);
    /* With FERRY_OVERWRITE and no stream, loan_open() may clear the range on the device and then
     * fail to wait for it. So the range may be zero after a failed call. */
    unsigned clears = options.access == FERRY_OVERWRITE && !at_host && !is_ordered ? OVERWRITES : 0;
    if (!end_call(p, &t, loan_open(&h->loan, t.handle, &options), READS | clears))
        return;
    begin_loan(p, h, &t, options.access, options.place);
    fill_new(p, h);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void
expect_busy(struct player *p, const char *label, ferry_status status, const char *what)
{
    if (status != FERRY_ERROR_BUSY || !strstr(ferry_last_error(), label))
        went_wrong(p, "%s what \"%s\" has is %s: %s", what, label, ferry_status_name(status),
                   ferry_last_error());
}

/* Makes a call that conflicts with an open scope or lease. The call must fail with a message that
 * names this scope or lease. */
static void
conflict(struct player *p, struct held *h)
{
    struct target t = h->t;
    ferry_access second = (ferry_access)(1 + p->bytes[MORE] % 3);
    ferry_scope scope;
    void *out;
    if (h->access == FERRY_READ && second == FERRY_READ)
        return;
    t.offset += t.count * flags_of(p) / 64;
    say(p,
        "FAILS(FERRY_ERROR_BUSY, ferry_buffer_open_host(%s, INT, %s, %zu, 1, &other_scope, &out));",
        t.name, access_names[second], t.offset);
    /* If several open scopes and leases overlap the range, the error message may name any of them.
     */
    unsigned others = 0;
    for (size_t i = 0; i < LOANS; i++)
        others += meets(&p->held[i], t.subject, t.offset, 1);
    ferry_status status = ferry_buffer_open_host(t.handle, INT, second, t.offset, 1, &scope, &out);
    expect_busy(p, others > 1 ? "" : h->label, status, "opening");
}

/* Checks that a buffer cannot be resized, unwrapped or abandoned while a lease of it exists. A
 * closed lease also prevents these calls, because its address must stay readable. */
static void
take_memory(struct player *p, struct held *h)
{
    struct subject *s = h->t.subject;
    if (is_racing(p, s) || !loan_parts(&h->loan))
        return;
    if (!s->wrapped) {
        say(p, "FAILS(FERRY_ERROR_BUSY, ferry_buffer_resize(%s, %zu));", h->t.name, s->count + 1);
        expect_busy(p, "", ferry_buffer_resize(s->handle, s->count + 1), "resizing");
        return;
    }
    drain(p);
    say(p, "FAILS(FERRY_ERROR_BUSY, ferry_buffer_unwrap(&%s, NULL));", h->t.name);
    expect_busy(p, "", ferry_buffer_unwrap(&s->handle, NULL), "unwrapping");
    say(p, "FAILS(FERRY_ERROR_BUSY, ferry_buffer_abandon(&%s));", h->t.name);
    expect_busy(p, "", ferry_buffer_abandon(&s->handle), "abandoning");
}

/* -- exports and imports ----------------------------------------------------------------------- */

/* begin() must be called before a library call on a lease, and succeeds() after the call. They
 * inject a failure only if the buffer still has a handle, because the test needs a handle to check
 * the values. */
static void
begin(struct player *p, const struct held *h)
{
    if (h->t.subject)
        begin_call(p, &h->t);
}

static bool
succeeds(struct player *p, const struct held *h, ferry_status expected, ferry_status status,
         const char *what)
{
    if (expected != FERRY_OK || !h->t.subject || status == FERRY_ERROR_BUSY) {
        if (h->t.subject)
            (void)disarm(p);
        if (status != expected && status != FERRY_ERROR_OUT_OF_MEMORY)
            went_wrong(p, "%s: %s instead of %s: %s", what, ferry_status_name(status),
                       ferry_status_name(expected), ferry_last_error());
        return status == FERRY_OK;
    }
    return end_call(p, &h->t, status, READS);
}

static void
export_it(struct player *p, struct held *h)
{
    static const unsigned parts[] = {PART_VERSIONED, PART_LEGACY, PART_ARROW};
    enum loan_kind kind = (enum loan_kind)(p->bytes[MORE] % EXPORT_KINDS);
    bool writes = h->access != FERRY_READ;
    if (!h->loan.lease && !h->loan.share)
        return;
    ferry_status expected = !h->open ? FERRY_ERROR_INVALID_STATE
                            : (kind == LEGACY && !writes) || (kind == ARROW && writes)
                                ? FERRY_ERROR_UNSUPPORTED
                                : FERRY_OK;
    if (loan_parts(&h->loan) & parts[kind])
        drop(p, h, parts[kind], flags_of(p) & 1);
    loan_wait(&h->loan);
    begin(p, h);
    say(p, "TRY(loan_export(&loans[%d], %d));", number_of(p, h), (int)kind);
    (void)succeeds(p, h, expected, loan_export(&h->loan, kind), "an export");
}

/* Returns whether the memory of the lease can be imported. The device that owns the memory must
 * have a DLPack device type and must recognize the memory. */
static bool
may_be_imported(const struct player *p, const struct held *h)
{
    int32_t type, id;
    if (ferry_context_exchange_device(p->world->f.context, h->place, &type, &id) != FERRY_OK)
        return false;
    if (type == FERRYI_DL_EXT_DEV)
        return ferryi_emulated_has(device_of(&p->world->f, h->place), h->loan.memory,
                                   h->t.count * sizeof(int32_t));
    return ferry_context_exchange_place(p->world->f.context, type, id) >= 0;
}

/* Imports an export of the lease as a second buffer, called the twin. The twin uses the memory of
 * the lease. */
static void
import_it(struct player *p, struct held *h)
{
    if (!h->open || h->loan.twin ||
        !(loan_parts(&h->loan) & (PART_VERSIONED | PART_LEGACY | PART_ARROW)))
        return;
    char name[32] = "NULL";
    ferry_stream *stream = h->place > 0 ? p->streams[h->stream] : NULL;
    bool by_stream = stream && flags_of(p) & 2;
    ferry_import_options options = {
        .name = "a twin", .ready_on = stream, .release_on = by_stream ? stream : NULL};
    if (stream)
        snprintf(name, sizeof(name), "s[%u][%u]", p->number, h->stream);
    begin(p, h);
    say(p,
        "TRY(loan_import(&loans[%d], f.context, &(ferry_import_options){.name = \"a twin\", "
        ".ready_on = %s, .release_on = %s}));",
        number_of(p, h), name, by_stream ? name : "NULL");
    ferry_status expected = may_be_imported(p, h) ? FERRY_OK : FERRY_ERROR_UNSUPPORTED;
    if (!succeeds(p, h, expected, loan_import(&h->loan, p->world->f.context, &options),
                  "an import") ||
        h->access != FERRY_READ)
        return;
    say(p,
        "FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_fill(loans[%d].twin, INT, 0, 1, "
        "&(int){1}, NULL));",
        number_of(p, h));
    ferry_status status = ferry_buffer_fill(h->loan.twin, INT, 0, 1, &(int){1}, NULL);
    if (status != FERRY_ERROR_INVALID_ARGUMENT)
        went_wrong(p, "what is only read is written: %s", ferry_status_name(status));
}

/* Abandons the buffer that was imported from a lease. Does this only for a READ lease, because
 * abandoning a buffer does not write newer bytes back to its memory. */
static void
abandon_twin(struct player *p, struct held *h)
{
    if (!h->loan.twin || h->access != FERRY_READ)
        return;
    say(p, "OK(ferry_buffer_abandon(&loans[%d].twin));", number_of(p, h));
    MUST(p, ferry_buffer_abandon(&h->loan.twin));
    if (!loan_parts(&h->loan))
        h->used = h->open = false;
}

/* -- closing ----------------------------------------------------------------------------------- */

static ferry_lease *
lease_of(struct player *p, struct held *h, char *name, size_t bytes)
{
    snprintf(name, bytes, "loans[%d].%s", number_of(p, h), h->loan.lease ? "lease" : "share");
    return h->loan.lease ? h->loan.lease : h->loan.share;
}

/* Closes a lease, even if exports of it still exist. First destroys the buffer that was imported
 * from the lease, so that this buffer's values are in the memory of the lease. */
static void
close_it(struct player *p, struct held *h, bool abandons)
{
    char name[32];
    ferry_lease *lease = lease_of(p, h, name, sizeof(name));
    if (!lease || !h->open)
        return;
    drop(p, h, PART_TWIN, false);
    h->open = false;
    if (abandons) {
        uint64_t arm = p->arm;
        p->arm = 0;
        begin(p, h);
        p->arm = arm;
        say(p, "OK(ferry_lease_abandon(%s));", name);
        MUST(p, ferry_lease_abandon(lease));
        if (h->t.subject && h->access != FERRY_READ) {
            memcpy(&h->t.subject->next[h->t.begin], h->expected, h->t.count * sizeof(int32_t));
            settle_abandoned(p, &h->t);
        }
    } else {
        publish(p, h);
        begin(p, h);
        say(p, "TRY(ferry_lease_close(%s));", name);
        (void)succeeds(p, h, FERRY_OK, ferry_lease_close(lease), "a close");
    }
    say(p, "OK(ferry_lease_close(%s));", name);
    MUST(p, ferry_lease_close(lease));
    if (ferry_lease_is_open(lease))
        went_wrong(p, "a closed lease is open");
}

/* Destroys some of the objects that keep a lease open, such as its exports. The lease is closed
 * when the last of these objects is destroyed. */
static void
drop_some(struct player *p, struct held *h, unsigned parts, bool elsewhere)
{
    unsigned all = loan_parts(&h->loan);
    if (all == 0 || (all & ~parts) == 0)
        end(p, h, elsewhere);
    else if (all & parts)
        drop(p, h, parts & all, elsewhere);
}

static void
step_lend(struct player *p)
{
    struct held *h = &p->held[flags_of(p) % LOANS];
    bool elsewhere = p->bytes[MORE] & 1;
    if (!h->used) {
        open_lease(p, h);
        return;
    }
    say(p, "loan_wait(&loans[%d]);", number_of(p, h));
    loan_wait(&h->loan);
    switch (p->bytes[HOW] % 16) {
    case 0:
    case 1:
        look(p, h);
        break;
    case 2:
    case 3:
        look(p, h);
        if (h->open && h->access != FERRY_READ)
            scribble(p, h, 1 + h->t.count * p->bytes[MORE] / 512);
        break;
    case 4:
        if (h->t.subject && h->open && loan_parts(&h->loan))
            conflict(p, h);
        break;
    case 5:
        if (h->t.subject)
            take_memory(p, h);
        break;
    case 6:
    case 7:
    case 8:
        export_it(p, h);
        break;
    case 9:
    case 10:
        import_it(p, h);
        break;
    case 11:
        abandon_twin(p, h);
        break;
    case 12:
        close_it(p, h, p->bytes[MORE] % 3 == 0);
        break;
    case 13:
    case 14:
        drop_some(p, h, p->bytes[MORE] >> 2, elsewhere);
        break;
    default:
        end(p, h, elsewhere);
        break;
    }
}

const struct step lend_steps[] = {
    {"hold", step_hold, 3},
    {"lend", step_lend, 18},
    {NULL, NULL, 0},
};
