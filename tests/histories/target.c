/* SPDX-License-Identifier: MIT */
/* Decodes the eight random bytes of a test step into a buffer, a range, a place and a stream. */
#include "tests/histories/history.h"

/* Indexes of the bytes of a step. */
enum { CODE, FIRST, SECOND, WHERE, OFFSET, COUNT, SECOND_OFFSET, FLAGS };

unsigned
flags_of(const struct player *p)
{
    return p->bytes[FLAGS] >> 2;
}

int
choose_place(const struct player *p)
{
    return p->bytes[WHERE] % (p->world->f.places + 1);
}

unsigned
choose_stream(const struct player *p)
{
    return p->bytes[WHERE] % p->world->setup.streams;
}

void
own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
           size_t *out_end)
{
    size_t players = subject->shared ? p->world->setup.players : 1;
    size_t number = subject->shared ? p->number : 0;
    *out_begin = subject->count * number / players;
    *out_end = subject->count * (number + 1) / players;
    /* Each thread of the test writes its own region of a shared buffer. The thread with the last
     * region also owns the elements that resizes add at the end of the buffer. */
    if (is_racing(p, subject) && number + 1 == players)
        *out_end = LENGTH_MAX;
}

struct view *
views_of(const struct player *p, struct subject *subject)
{
    return &subject->views[(subject->shared ? p->number : 0) * VIEWS];
}

unsigned *
pins_of(const struct player *p, struct subject *subject)
{
    return subject->pins[subject->shared ? p->number : 0];
}

/* Shortens the range so that it lies inside the buffer. One range in eight keeps its length, so
 * that it may exceed a buffer that another thread has made shorter. */
static void
stay_inside(const struct player *p, struct subject *subject, size_t begin, size_t *end)
{
    if (!is_racing(p, subject) || flags_of(p) % 8 == 5)
        return;
    pthread_mutex_lock(&subject->race.mutex);
    size_t count = subject->race.low;
    pthread_mutex_unlock(&subject->race.mutex);
    if (*end > count)
        *end = count > begin ? count : begin;
}

static void
narrow(const struct view *view, size_t *begin, size_t *end)
{
    if (*begin < view->offset)
        *begin = view->offset;
    if (*end > view->offset + view->count)
        *end = view->offset + view->count;
}

/* Chooses the length of a range from a random byte. Half of the lengths are less than 128. One
 * length in sixteen is the largest possible length, `room`. */
static size_t
choose_count(unsigned byte, size_t room)
{
    if (byte >= 240)
        return room;
    size_t count = byte < 128 ? byte : (byte - 128) * (room + 1) / 112;
    return count < room ? count : room;
}

static struct target
choose_from(const struct player *p, unsigned who, unsigned offset, unsigned count)
{
    unsigned which = who & 3;
    unsigned number = which < SHARED ? which : SHARED + 2 * p->number + (which - SHARED);
    struct target t = {.subject = &p->world->subjects[number]};
    t.handle = t.subject->handle;
    snprintf(t.name, sizeof(t.name), "b[%u]", number);
    size_t begin, end, base = 0;
    own_region(p, t.subject, &begin, &end);
    stay_inside(p, t.subject, begin, &end);
    unsigned v = (who >> 2) % (VIEWS + 3);
    if (v < VIEWS && views_of(p, t.subject)[v].handle) {
        const struct view *view = &views_of(p, t.subject)[v];
        size_t b = begin, e = end;
        narrow(view, &b, &e);
        if (b < e) {
            begin = b, end = e, base = view->offset;
            t.handle = view->handle;
            snprintf(t.name, sizeof(t.name), "v[%u][%u]", number,
                     (unsigned)(view - t.subject->views));
        }
    }
    t.begin = count >= 240 ? begin : begin + offset * (end - begin + 1) / 256;
    t.offset = t.begin - base;
    t.count = choose_count(count, end - t.begin);
    return t;
}

struct target
choose(struct player *p)
{
    p->second.subject = NULL;
    return choose_from(p, p->bytes[FIRST], p->bytes[OFFSET], p->bytes[COUNT]);
}

struct target
choose_second(struct player *p, struct target *first)
{
    struct target t = choose_from(p, p->bytes[SECOND], p->bytes[SECOND_OFFSET], p->bytes[COUNT]);
    t.count = first->count = t.count < first->count ? t.count : first->count;
    p->second = t;
    return t;
}

bool
overlap(const struct target *a, const struct target *b)
{
    return a->subject == b->subject && a->begin < b->begin + b->count &&
           b->begin < a->begin + a->count;
}
