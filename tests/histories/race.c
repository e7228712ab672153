/* SPDX-License-Identifier: MIT */
/* Tracks the lengths of the buffers that all threads of a random test history share. Each thread
 * may resize them while other threads use their own regions. */
#include "tests/histories/history.h"

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool
is_racing(const struct player *p, const struct subject *subject)
{
    return subject->shared && p->world->setup.players > 1;
}

static struct window *
window_of(struct player *p, const struct subject *subject)
{
    return &p->windows[subject - p->world->subjects];
}

/* -- the player that resizes ------------------------------------------------------------------- */

void
race_begin(struct player *p, struct subject *subject, size_t count)
{
    struct race *race = &subject->race;
    if (!is_racing(p, subject))
        return;
    pthread_mutex_lock(&race->mutex);
    race->resizing++;
    race->started++;
    race->asked[race->started % LENGTH(race->asked)] = count;
    race->low = least(race->low, count);
    race->high = race->high > count ? race->high : count;
    for (unsigned i = 0; i < p->world->setup.players; i++)
        race->cut[i] = least(race->cut[i], count);
    pthread_mutex_unlock(&race->mutex);
}

/* Checks the length of the buffer after a resize. The length must be within the bounds that the
 * test keeps. If no other thread has resized the buffer during this resize, it must be `count`. */
void
race_end(struct player *p, struct subject *subject, size_t count, bool resized)
{
    struct race *race = &subject->race;
    if (!is_racing(p, subject))
        return;
    pthread_mutex_lock(&race->mutex);
    bool alone = --race->resizing == 0;
    size_t now = ferry_buffer_count(subject->handle);
    if (now < race->low || now > race->high)
        went_wrong(p, "%zu elements after a resize, neither of %zu to %zu", now, race->low,
                   race->high);
    if (alone && resized && race->started == window_of(p, subject)->started + 1 &&
        window_of(p, subject)->quiet && now != count)
        went_wrong(p, "resized to %zu elements, and it has %zu", count, now);
    if (alone)
        race->low = race->high = now;
    pthread_mutex_unlock(&race->mutex);
}

/* -- the players whose regions are cut --------------------------------------------------------- */

void
race_look(struct player *p, struct subject *subject)
{
    size_t begin, end;
    if (!is_racing(p, subject))
        return;
    pthread_mutex_lock(&subject->race.mutex);
    size_t cut = subject->race.cut[p->number];
    subject->race.cut[p->number] = SIZE_MAX;
    pthread_mutex_unlock(&subject->race.mutex);
    window_of(p, subject)->low = least(window_of(p, subject)->low, cut);
    own_region(p, subject, &begin, &end);
    for (size_t i = begin > cut ? begin : cut; i < end; i++)
        subject->doubtful[i] = true;
}

void
race_open_windows(struct player *p)
{
    for (size_t i = 0; i < SHARED; i++) {
        struct subject *subject = &p->world->subjects[i];
        struct race *race = &subject->race;
        if (!is_racing(p, subject))
            return;
        race_look(p, subject);
        pthread_mutex_lock(&race->mutex);
        p->windows[i] = (struct window){.started = race->started,
                                        .low = race->low,
                                        .high = race->high,
                                        .quiet = race->resizing == 0};
        pthread_mutex_unlock(&race->mutex);
    }
}

bool
race_was_quiet(const struct player *p, struct subject *subject)
{
    if (!is_racing(p, subject))
        return true;
    const struct window *window = &p->windows[subject - p->world->subjects];
    pthread_mutex_lock(&subject->race.mutex);
    bool quiet = window->quiet && subject->race.started == window->started;
    pthread_mutex_unlock(&subject->race.mutex);
    return quiet;
}

bool
race_may_be_short(const struct player *p, const struct target *target)
{
    struct subject *subject = target->subject;
    if (!subject || !is_racing(p, subject))
        return false;
    pthread_mutex_lock(&subject->race.mutex);
    size_t low = least(p->windows[subject - p->world->subjects].low, subject->race.cut[p->number]);
    pthread_mutex_unlock(&subject->race.mutex);
    return target->begin + target->count > low;
}

bool
race_must_be_short(const struct player *p, const struct target *target)
{
    struct subject *subject = target->subject;
    return subject && is_racing(p, subject) && target->count > 0 && race_was_quiet(p, subject) &&
           target->begin + target->count > p->windows[subject - p->world->subjects].high;
}

bool
race_knows_count(struct subject *subject, size_t count)
{
    bool knows = false;
    pthread_mutex_lock(&subject->race.mutex);
    for (size_t i = 0; i < LENGTH(subject->race.asked); i++)
        knows = knows || subject->race.asked[i] == count;
    pthread_mutex_unlock(&subject->race.mutex);
    return knows || subject->count == count;
}

bool
is_right(const struct player *p, struct subject *subject, size_t at, int32_t value)
{
    if (!subject->doubtful[at])
        return value == subject->expected[at];
    if (value != subject->expected[at] && value != 0)
        return false;
    if (subject->next[at] == subject->expected[at])
        subject->next[at] = value;
    subject->expected[at] = value;
    subject->doubtful[at] = !race_was_quiet(p, subject);
    return true;
}

/* -- reading ----------------------------------------------------------------------------------- */

size_t
read_now(struct player *p, const struct target *target)
{
    size_t count = target->count;
    ferry_status status = FERRY_ERROR_OUT_OF_RANGE;
    release_writers(p, target);
    race_open_windows(p);
    while (status != FERRY_OK) {
        say(p, "OK(ferry_buffer_copy_to(%s, INT, %zu, %zu, values, NULL));", target->name,
            target->offset, count);
        status = ferry_buffer_copy_to(target->handle, INT, target->offset, count, p->values, NULL);
        if (status == FERRY_OK)
            break;
        if (status != FERRY_ERROR_OUT_OF_RANGE || !race_may_be_short(p, target))
            must(p, status, "ferry_buffer_copy_to()");
        size_t length = ferry_buffer_count(target->handle);
        size_t there = length > target->offset ? length - target->offset : 0;
        count = there < count ? there : count / 2;
        if (count == 0)
            break;
    }
    race_look(p, target->subject);
    for (size_t i = count; i < target->count; i++)
        target->subject->doubtful[target->begin + i] = true;
    return count;
}
