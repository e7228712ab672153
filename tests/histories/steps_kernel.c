/* SPDX-License-Identifier: MIT */
/* Steps of random test histories that create and launch kernels. Some steps queue many launches,
 * and some make launches fail. */
#include "tests/histories/history.h"

#include "tests/histories/peek.h"
#include "tests/histories/scenes.h"

/* Returns whether kernels run as host functions at this place, because the device cannot run code.
 */
static bool
runs_host_functions(struct player *p, int place)
{
    return strcmp(device_of(&p->world->f, place)->kind, "cuda") != 0;
}

/* Launches a kernel that no other step uses, and destroys the kernel while its work is queued. */
static void
step_own_kernel(struct player *p)
{
    struct target t = choose(p);
    int32_t first = fresh(p, t.count);
    if (!runs_host_functions(p, ferry_stream_place(stream_for(p))))
        return;
    p->arm = 0;
    begin_call(p, &t);
    set_counting(&t.subject->next[t.begin], t.count, first);
    say(p, "TRY(launch_counting(f.context, s[%u][%u], %s, %zu, %zu, %d));", p->number,
        choose_stream(p), t.name, t.offset, t.count, (int)first);
    end_call(
        p, &t,
        launch_counting(p->world->f.context, stream_for(p), t.handle, t.offset, t.count, first),
        OVERWRITES);
}

/* Returns whether the device at this place has graphs. While the driver records one, calls that
 * wait for the whole device are refused. So a driver records only if there is one player, and none
 * of the player's asynchronous calls runs. */
static bool
has_graphs(struct player *p, int place)
{
    const ferryi_device *device = device_of(&p->world->f, place);
    return strcmp(device->kind, "opencl") != 0 &&
           (runs_host_functions(p, place) ||
            ((device->capabilities & FERRY_CAN_CAPTURE) && p->world->setup.players == 1));
}

/* Records a graph, launches it a few times, and destroys it at once. */
static void
step_graph(struct player *p)
{
    struct target t = choose(p);
    int32_t value = fresh(p, 2);
    unsigned launches = 1 + flags_of(p) % 3;
    if (t.count == 0 || !has_graphs(p, ferry_stream_place(stream_for(p))))
        return;
    p->arm = 0;
    drain(p);
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value + 1);
    say(p, "TRY(launch_graph(&w, f.context, s[%u][%u], %s, %zu, %zu, %d, %u));", p->number,
        choose_stream(p), t.name, t.offset, t.count, (int)value, launches);
    end_call(p, &t,
             launch_graph(&p->world->w, p->world->f.context, stream_for(p), t.handle, t.offset,
                          t.count, value, launches),
             OVERWRITES | BY_CHUNKS);
}

/* -- many -------------------------------------------------------------------------------------- */

/* Returns how many launches a step queues, usually 50 to 113. One step in 64 queues 20000, which is
 * enough to measure the memory that one launch takes. One step in 1024 queues 100000. */
static size_t
choose_queue(const struct player *p)
{
    unsigned number = p->bytes[1] * 4u + p->bytes[7] / 64u;
    return number == 1000 ? 100000 : number % 64 == 9 ? 20000 : 50 + number % 64;
}

/* Checks a range after several queued launches, each of which adds 1. A resize that cuts an element
 * and adds it again sets it to zero. Such an element counts only the launches after the resize. */
static void
settle_queue(struct player *p, const struct target *t, int32_t value, size_t done,
             ferry_status status)
{
    if (!end_call(p, t, done > 0 ? FERRY_OK : status, 0))
        return;
    size_t count = read_now(p, t);
    for (size_t i = 0; i < count; i++) {
        int32_t got = p->values[i];
        if (got != value + (int32_t)done && (got < 0 || got > (int32_t)done))
            went_wrong(p, "after %zu launches element %zu is %d instead of %d", done, i, (int)got,
                       (int)(value + (int32_t)done));
        t->subject->expected[t->begin + i] = got;
        t->subject->doubtful[t->begin + i] = !race_was_quiet(p, t->subject);
    }
}

/* Queues many launches of a kernel that reads and writes one range. Checks that the resident memory
 * grows by at most a fixed number of bytes for each launch. */
static void
step_queue(struct player *p)
{
    struct target t = choose(p);
    size_t count = choose_queue(p), before = resident_bytes();
    ferry_status status = FERRY_OK;
    int32_t value = fresh(p, 1);
    if (t.count == 0)
        return;
    if (t.count > 64)
        t.count = 64;
    begin_call(p, &t);
    set_constant(&t.subject->next[t.begin], t.count, value);
    p->arm = 0;
    say(p, "TRY(launch_fill(&w, s[%u][%u], %s, %zu, %zu, %d));", p->number, choose_stream(p),
        t.name, t.offset, t.count, (int)value);
    if (!end_call(p, &t,
                  launch_fill(&p->world->w, stream_for(p), t.handle, t.offset, t.count, value),
                  OVERWRITES))
        return;
    begin_call(p, &t);
    say(p, "for (size_t i = 0; i < %zu; i++) TRY(launch_add(&w, s[%u][%u], %s, %zu, %zu, 1));",
        count, p->number, choose_stream(p), t.name, t.offset, t.count);
    size_t done = 0;
    while (done < count && (status = launch_add(&p->world->w, stream_for(p), t.handle, t.offset,
                                                t.count, 1)) == FERRY_OK)
        done++;
    size_t grown = resident_bytes() - before, may = ((size_t)32 << 20) + 2048 * count;
    if (resident_bytes() > before && grown > may && p->world->setup.players == 1)
        went_wrong(p, "%zu queued launches take %zu bytes of memory", count, grown);
    set_constant(&t.subject->next[t.begin], t.count, value + (int32_t)done);
    if (status != FERRY_OK)
        memcpy(&t.subject->expected[t.begin], &t.subject->next[t.begin], t.count * sizeof(int32_t));
    p->next_value += (int32_t)count;
    if (is_racing(p, t.subject))
        settle_queue(p, &t, value, done, status);
    else
        end_call(p, &t, status, 0);
}

/* -- failures ---------------------------------------------------------------------------------- */

static ferry_status
launch_failing(struct player *p, const struct target *t)
{
    ferry_argument argument = ferry_buffer_argument(t->handle, INT, t->offset, t->count);
    say(p, "argument = ferry_buffer_argument(%s, INT, %zu, %zu);", t->name, t->offset, t->count);
    say(p, "TRY(ferry_kernel_launch(failing, ferry_grid_for(1, 0), s[%u][%u], &argument, 1));",
        p->number, choose_stream(p));
    return ferry_kernel_launch(p->world->failing, ferry_grid_for(1, 0), stream_for(p), &argument,
                               1);
}

/* Waits for the range of a launch that will fail: opens a lease without a stream, or waits in a
 * scope. Both need the bytes that are going to be lost. */
static ferry_status
wait_upon(struct player *p, const struct target *t, int place)
{
    ferry_access access = flags_of(p) & 1 ? FERRY_READ : FERRY_UPDATE;
    if (place == 0 || flags_of(p) & 2) {
        say(p, "TRY(lend_briefly(%s, %d, %zu, %zu, %d));", t->name, (int)access, t->offset,
            t->count, place);
        return lend_briefly(t->handle, access, t->offset, t->count, place);
    }
    say(p, "TRY(wait_briefly(%s, %d, %zu, %zu, s[%u][%u]));", t->name, (int)access, t->offset,
        t->count, p->number, choose_stream(p));
    return wait_briefly(t->handle, access, t->offset, t->count, stream_for(p));
}

/* Calls the library while a launch that will fail is queued. The call may be refused, or return the
 * failure of the launch. It may succeed only if it does not need the bytes of the launch, or if
 * another thread may have overwritten them. */
static void
come_upon(struct player *p, const struct target *t)
{
    struct subject *s = t->subject;
    int number = (int)(s - p->world->subjects), place = choose_place(p);
    bool needs = false;
    ferry_status status;
    switch (flags_of(p) / 4 % 8) {
    case 0:
        say(p, "TRY(ferry_buffer_copy_to(%s, INT, %zu, %zu, values, NULL));", t->name, t->offset,
            t->count);
        status = ferry_buffer_copy_to(t->handle, INT, t->offset, t->count, p->values, NULL);
        needs = true;
        break;
    case 1:
        say(p, "TRY(ferry_buffer_evict(b[%d], %d));", number, place);
        status = ferry_buffer_evict(s->handle, place);
        break;
    case 2:
        say(p, "TRY(launch_add(&w, s[%u][%u], %s, %zu, %zu, 3));", p->number, choose_stream(p),
            t->name, t->offset, t->count);
        status = launch_add(&p->world->w, stream_for(p), t->handle, t->offset, t->count, 3);
        break;
    case 3:
        say(p, "TRY(ferry_buffer_sync_to(%s, %zu, %zu, %d, NULL));", t->name, t->offset, t->count,
            place);
        status = ferry_buffer_sync_to(t->handle, t->offset, t->count, place, NULL);
        needs = true;
        break;
    case 4:
        say(p, "TRY(ferry_buffer_invalidate(%s, %zu, %zu, %d));", t->name, t->offset, t->count,
            place);
        status = ferry_buffer_invalidate(t->handle, t->offset, t->count, place);
        break;
    case 5:
    case 6:
        status = wait_upon(p, t, place);
        needs = true;
        break;
    default:
        status = FERRY_OK;
        break;
    }
    bool legal = (status == FERRY_OK && (!needs || is_racing(p, s))) ||
                 status == FERRY_ERROR_CANCELLED || status == FERRY_ERROR_BUSY ||
                 status == FERRY_ERROR_INVALID_STATE || status == FERRY_ERROR_OUT_OF_RANGE ||
                 (status == FERRY_ERROR_OUT_OF_MEMORY && p->world->setup.memory > 0);
    if (!legal)
        went_wrong(p, "upon a launch that is going to fail: %s: %s", ferry_status_name(status),
                   ferry_last_error());
}

/* Synchronizes the stream and ignores the status, which is the failure of a launch. Then overwrites
 * the range of this launch, which is unreadable until then. */
static void
make_good(struct player *p, const struct target *t)
{
    int32_t first = fresh(p, t->count);
    say(p, "(void)ferry_stream_synchronize(s[%u][%u]);", p->number, choose_stream(p));
    (void)!ferry_stream_synchronize(stream_for(p));
    begin_call(p, t);
    set_counting(p->values, t->count, first);
    set_counting(&t->subject->next[t->begin], t->count, first);
    say(p, "TRY(ferry_buffer_copy_from(%s, INT, %zu, %zu, counting(%zu, %d), NULL));", t->name,
        t->offset, t->count, t->count, (int)first);
    ferry_status status =
                     ferry_buffer_copy_from(t->handle, INT, t->offset, t->count, p->values, NULL),
                 again = status;
    /* The copy fails if another thread has shortened the buffer. The elements that still exist must
     * be overwritten, because they are unreadable until then. */
    for (size_t count = t->count; again == FERRY_ERROR_OUT_OF_RANGE && count > 0;) {
        size_t all = ferry_buffer_count(t->handle), left = all > t->offset ? all - t->offset : 0;
        count = left < count ? left : count;
        again = ferry_buffer_copy_from(t->handle, INT, t->offset, count, p->values, NULL);
    }
    end_call(p, t, status, BY_CHUNKS);
}

/* Queues a launch that will fail. Then calls the library on the range of the launch, possibly
 * before the launch has failed. */
static void
step_failing_late(struct player *p)
{
    struct target t = choose(p);
    if (t.count == 0 || !p->world->failing || is_lent(p, t.subject, t.begin, t.count) ||
        !runs_host_functions(p, ferry_stream_place(stream_for(p))))
        return;
    p->arm = 0;
    drain(p);
    /* The failure of the launch can also make calls of other threads fail, and the library logs
     * failed asynchronous calls. `tripped` makes the test ignore errors in the log. */
    p->tripped = true;
    begin_call(p, &t);
    ferry_status status = launch_failing(p, &t);
    if (!end_call(p, &t, status, 0))
        return;
    come_upon(p, &t);
    make_good(p, &t);
}

/* Shrinks and grows a buffer while a launch that will fail is queued on it. The failure must have
 * no effect on elements that the resizes cut and added again. */
static void
step_failing_resize(struct player *p)
{
    struct target t = choose(p);
    struct subject *s = t.subject;
    int number = (int)(s - p->world->subjects);
    size_t count = s->count;
    if (is_racing(p, s) || t.handle != s->handle || t.count == 0 || t.begin == 0 || s->wrapped ||
        !p->world->failing || is_lent(p, s, 0, LENGTH_MAX) ||
        !runs_host_functions(p, ferry_stream_place(stream_for(p))))
        return;
    p->arm = 0;
    drain(p);
    p->tripped = true;
    begin_call(p, &t);
    if (!end_call(p, &t, launch_failing(p, &t), 0))
        return;
    say(p, "(void)ferry_buffer_resize(b[%d], %zu), (void)ferry_buffer_resize(b[%d], %zu);", number,
        t.begin, number, count);
    ferry_status status = ferry_buffer_resize(s->handle, t.begin);
    if (status == FERRY_OK) {
        set_constant(&s->expected[t.begin], count - t.begin, 0);
        memset(&s->written[t.begin], false, count - t.begin);
        s->count = t.begin;
        status = ferry_buffer_resize(s->handle, count);
        if (status == FERRY_OK)
            s->count = count;
    }
    say(p, "(void)ferry_stream_synchronize(s[%u][%u]);", p->number, choose_stream(p));
    (void)!ferry_stream_synchronize(stream_for(p));
    if (s->count == count)
        make_good(p, &t);
}

const struct step kernel_steps[] = {
    {"own_kernel", step_own_kernel, 2},
    {"graph", step_graph, 2},
    {"queue", step_queue, 1},
    {"failing_late", step_failing_late, 3},
    {"failing_resize", step_failing_resize, 2},
    {NULL, NULL, 0},
};
