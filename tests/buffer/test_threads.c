/* SPDX-License-Identifier: MIT */
/* Tests buffers that many threads use at once. No write may be lost, and no call may deadlock. A
 * call may fail with FERRY_ERROR_BUSY only if it conflicts with a call of a different thread. */
#include "tests/buffer/work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "src/store/store.h"
#include "tests/support/copies.h"

enum { THREADS = 4, READERS = 10, COUNT = 64 << 10 };

/* -- threads that report ----------------------------------------------------------------------- */

/* A group of threads that run a test together. Only the main thread may call the assert functions
 * of cmocka. The threads of the group store the description of their first failure in `problem`. */
struct team {
    fixture f;
    work w;
    pthread_barrier_t barrier;
    atomic_bool failed;
    char problem[512];
    ferry_buffer *buffers[4];
    atomic_int counter;
    ferry_scope scope;
};

struct member {
    struct team *team;
    int index;
    uint64_t seed;
    pthread_t thread;
    void (*run)(struct member *);
};

static void
complain(struct member *m, const char *call, const char *why, int line)
{
    if (!atomic_exchange(&m->team->failed, true))
        snprintf(m->team->problem, sizeof(m->team->problem), "thread %d, line %d: %s: %s", m->index,
                 line, call, why);
}

static ferry_status
note(struct member *m, ferry_status status, ferry_status expected, const char *call, int line)
{
    char why[300];
    snprintf(why, sizeof(why), "%s: %s", ferry_status_name(status), ferry_last_error());
    if (status != expected)
        complain(m, call, why, line);
    return status;
}

#define GOOD(call)           (note(m, (call), FERRY_OK, #call, __LINE__) == FERRY_OK)
#define EXPECT(status, call) (void)note(m, (call), (status), #call, __LINE__)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            complain(m, #condition, "is not so", __LINE__);                                        \
    } while (0)

static void
no_trace(const ferry_trace *trace, void *user)
{
    (void)trace, (void)user;
}

static void
team_open(struct team *team, unsigned threads)
{
    ferry_context_options options = {.trace = no_trace};
    memset(team, 0, sizeof(*team));
    fixture_open(&team->f, &options);
    work_open(&team->f, &team->w);
    assert_int_equal(pthread_barrier_init(&team->barrier, NULL, threads), 0);
}

static void
team_close(struct team *team)
{
    for (size_t i = 0; i < LENGTH(team->buffers); i++)
        ferry_buffer_destroy(&team->buffers[i]);
    pthread_barrier_destroy(&team->barrier);
    work_close(&team->w);
    fixture_close(&team->f);
    support_seed = 0;
}

static void *
member_main(void *argument)
{
    struct member *m = argument;
    pthread_barrier_wait(&m->team->barrier);
    m->run(m);
    return NULL;
}

static void
run_team(struct team *team, int threads, void (*run)(struct member *))
{
    struct member members[16];
    for (int i = 0; i < threads; i++) {
        members[i] = (struct member){
            .team = team, .index = i, .seed = support_seed * 64 + (uint64_t)i, .run = run};
        assert_int_equal(pthread_create(&members[i].thread, NULL, member_main, &members[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    if (atomic_load(&team->failed)) {
        print_error("seed %llu\n", (unsigned long long)support_seed);
        fail_msg("%s", team->problem);
    }
}

static int
place_of(struct member *m)
{
    return 1 + m->index % m->team->f.places;
}

static ferry_stream *
stream_for(struct member *m)
{
    ferry_stream *stream = NULL;
    (void)GOOD(ferry_stream_create(m->team->f.context, place_of(m), &stream));
    return stream;
}

/* -- one transfer for all ---------------------------------------------------------------------- */

static void
read_at_device(struct member *m)
{
    ferry_scope scope;
    void *memory;
    if (GOOD(ferry_buffer_open_device(m->team->buffers[0], INT, FERRY_READ, 0, FERRY_REST,
                                      stream_of(&m->team->f, 1), &scope, &memory)))
        (void)GOOD(ferry_scope_close(&scope));
}

static void
read_at_host(struct member *m)
{
    ferry_scope scope;
    void *memory;
    if (!GOOD(ferry_buffer_open_host(m->team->buffers[0], INT, FERRY_READ, 0, FERRY_REST, &scope,
                                     &memory)))
        return;
    for (int i = 0; i < COUNT; i++)
        CHECK(((int *)memory)[i] == i + 9);
    (void)GOOD(ferry_scope_close(&scope));
}

static void
test_readers_share_one_transfer(void **state)
{
    static struct team team;
    (void)state;
    for (int round = 0; round < 5; round++) {
        team_open(&team, READERS);
        team.buffers[0] = make_counting(&team.f, COUNT, 9);
        ferry_transfer_stats before = moved(&team.f);
        run_team(&team, READERS, read_at_device);
        expect_copies(&team.f, &before, 1, 0);
        expect_moved(&team.f, &before, COUNT * sizeof(int), 0);

        write_counting(&team.f, team.buffers[0], 1, 0, COUNT, 9);
        before = moved(&team.f);
        run_team(&team, READERS, read_at_host);
        expect_copies(&team.f, &before, 0, 1);
        expect_moved(&team.f, &before, 0, COUNT * sizeof(int));
        team_close(&team);
    }
}

/* -- disjoint writers -------------------------------------------------------------------------- */

enum { ROUNDS = 60 };

/* Adds a number to all elements of the part of the buffer that belongs to the calling thread.
 * Threads with even indices add on the host, and threads with odd indices on a device. */
static void
add_to_my_part(struct member *m)
{
    struct team *team = m->team;
    size_t part = COUNT / THREADS, begin = part * (size_t)m->index;
    ferry_stream *stream = stream_for(m);
    for (int round = 0; round < ROUNDS && stream; round++) {
        ferry_scope scope;
        void *memory;
        size_t count = 1 + random_below(&m->seed, part - 1);
        if (m->index % 2) {
            (void)GOOD(launch_add(&team->w, stream, team->buffers[0], begin, part, 1));
            (void)GOOD(launch_add(&team->w, stream, team->buffers[0], begin, count, 1));
            (void)GOOD(launch_add(&team->w, stream, team->buffers[0], begin, count, -1));
        } else if (GOOD(ferry_buffer_open_host(team->buffers[0], INT, FERRY_UPDATE, begin, part,
                                               &scope, &memory))) {
            for (size_t i = 0; i < part; i++)
                ((int *)memory)[i]++;
            (void)GOOD(ferry_scope_close(&scope));
        }
    }
    ferry_stream_destroy(&stream);
}

static void
test_disjoint_writers_lose_nothing(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    start_random(5);
    team.buffers[0] = make_counting(&team.f, COUNT, 0);
    run_team(&team, THREADS, add_to_my_part);
    expect_counting(&team.f, team.buffers[0], 0, 0, COUNT, ROUNDS);
    expect_counting(&team.f, team.buffers[0], 1, 0, COUNT, ROUNDS);
    team_close(&team);
}

/* -- anything, by everybody -------------------------------------------------------------------- */

/*
 * Values that one thread has written. Each buffer is divided into pieces, and piece k belongs to
 * thread k % THREADS. So the threads' ranges interleave, and the valid map has many segments.
 */
struct account {
    size_t piece;  /* number of elements in a piece */
    size_t pieces; /* number of pieces of one thread in a buffer */
    /* One value per piece of each buffer, because all elements of a piece are equal. */
    int values[2][64];
};

static size_t
offset_of(const struct member *m, const struct account *a, size_t piece)
{
    return (piece * THREADS + (size_t)m->index) * a->piece;
}

static void
check_piece(struct member *m, const struct account *a, size_t b, size_t piece)
{
    int values[128];
    if (!GOOD(ferry_buffer_copy_to(m->team->buffers[b], INT, offset_of(m, a, piece), a->piece,
                                   values, NULL)))
        return;
    for (size_t i = 0; i < a->piece; i++)
        CHECK(values[i] == a->values[b][piece]);
}

static void
update_at_host(struct member *m, struct account *a, size_t b, size_t piece)
{
    ferry_scope scope;
    void *memory;
    if (!GOOD(ferry_buffer_open_host(m->team->buffers[b], INT, FERRY_UPDATE, offset_of(m, a, piece),
                                     a->piece, &scope, &memory)))
        return;
    for (size_t i = 0; i < a->piece; i++) {
        CHECK(((int *)memory)[i] == a->values[b][piece]);
        ((int *)memory)[i] += 5;
    }
    a->values[b][piece] += 5;
    (void)GOOD(ferry_scope_close(&scope));
}

/* Makes a random call on the whole buffer. The call may fail with FERRY_ERROR_BUSY, because other
 * threads have open scopes. */
static void
disturb(struct member *m, size_t b)
{
    int place = (int)random_below(&m->seed, (size_t)m->team->f.places + 1);
    ferry_buffer *buffer = m->team->buffers[b];
    ferry_status status = FERRY_OK;
    switch (random_below(&m->seed, 4)) {
    case 0:
        status = ferry_buffer_evict(buffer, place);
        break;
    case 1:
        status = ferry_buffer_sync_to(buffer, 0, FERRY_REST, place, NULL);
        break;
    case 2:
        status = ferry_buffer_prefetch(buffer, 0, FERRY_REST, place, NULL);
        break;
    default:
        status = ferry_buffer_wait_available(buffer, FERRY_UPDATE, 1000);
        break;
    }
    if (status != FERRY_ERROR_BUSY)
        (void)note(m, status, FERRY_OK, "disturb", __LINE__);
}

static void
copy_between(struct member *m, struct account *a, ferry_stream *stream, size_t b, size_t piece)
{
    size_t other = random_below(&m->seed, a->pieces), to = 1 - b;
    ferry_buffer *source = m->team->buffers[b], *target = m->team->buffers[to];
    if (random_below(&m->seed, 2))
        (void)GOOD(ferry_buffer_copy(target, INT, offset_of(m, a, other), source,
                                     offset_of(m, a, piece), a->piece, NULL));
    else
        (void)GOOD(launch_copy(&m->team->w, stream, target, offset_of(m, a, other), source,
                               offset_of(m, a, piece), a->piece));
    a->values[to][other] = a->values[b][piece];
}

static void
step(struct member *m, struct account *a, ferry_stream *stream)
{
    size_t b = random_below(&m->seed, 2), piece = random_below(&m->seed, a->pieces),
           offset = offset_of(m, a, piece);
    ferry_buffer *buffer = m->team->buffers[b];
    ferry_event *event;
    int value = (int)random_below(&m->seed, 1000);
    switch (random_below(&m->seed, 8)) {
    case 0:
        if (GOOD(ferry_buffer_fill(buffer, INT, offset, a->piece, &value, NULL)))
            a->values[b][piece] = value;
        break;
    case 1:
        if (GOOD(launch_fill(&m->team->w, stream, buffer, offset, a->piece, value)))
            a->values[b][piece] = value;
        break;
    case 2:
        if (GOOD(launch_add(&m->team->w, stream, buffer, offset, a->piece, value)))
            a->values[b][piece] += value;
        break;
    case 3:
        update_at_host(m, a, b, piece);
        break;
    case 4:
        copy_between(m, a, stream, b, piece);
        break;
    case 5:
        disturb(m, b);
        break;
    case 6:
        if (GOOD(ferry_buffer_fill_async(buffer, INT, offset, a->piece, &value, ON(stream),
                                         &event))) {
            a->values[b][piece] = value;
            (void)GOOD(ferry_event_synchronize(event));
            ferry_event_destroy(&event);
        }
        break;
    default:
        check_piece(m, a, b, piece);
        break;
    }
}

static size_t piece_elements, pieces_of_one;

static void
do_anything(struct member *m)
{
    struct account a = {.piece = piece_elements, .pieces = pieces_of_one};
    ferry_stream *stream = stream_for(m);
    for (int i = 0; i < 300 && stream && !atomic_load(&m->team->failed); i++) {
        step(m, &a, stream);
        if (i % 50 == 49) {
            ferry_stream_destroy(&stream);
            stream = stream_for(m);
        }
    }
    for (size_t piece = 0; piece < a.pieces && !atomic_load(&m->team->failed); piece++) {
        check_piece(m, &a, 0, piece);
        check_piece(m, &a, 1, piece);
    }
    ferry_stream_destroy(&stream);
}

static void
drain_helper(fixture *f)
{
    ferry_buffer *last = make_ints(f, 1);
    ferry_event *event;
    int zero = 0;
    OK(ferry_buffer_fill_async(last, INT, 0, 1, &zero, ON(NULL), &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    ferry_buffer_destroy(&last);
}

static void
check_anything(size_t piece, size_t pieces, uint64_t seed)
{
    static struct team team;
    team_open(&team, THREADS);
    start_random(seed);
    piece_elements = piece;
    pieces_of_one = pieces;
    for (int i = 0; i < 2; i++)
        team.buffers[i] = make_ints(&team.f, piece * pieces * THREADS);
    run_team(&team, THREADS, do_anything);
    drain_helper(&team.f);
    team_close(&team);
}

static void
test_random_calls_on_shared_buffers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        check_anything(100, 4, seed);
        check_anything(16, 64, seed + 100);
    }
}

/* -- creating and destroying ------------------------------------------------------------------- */

static void
churn(struct member *m)
{
    struct team *team = m->team;
    ferry_stream *stream = stream_for(m);
    for (int i = 0; i < 80 && stream; i++) {
        ferry_buffer *x, *y, *view;
        ferry_buffer_options options = {.memory = team->f.coherent || i % 2 ? FERRY_MEMORY_DEFAULT
                                                                            : FERRY_MEMORY_PINNED};
        size_t count = 100 + random_below(&m->seed, 3000);
        int values[4];
        if (!GOOD(ferry_buffer_create(team->f.context, INT, count, &options, &x)) ||
            !GOOD(ferry_buffer_create(team->f.context, INT, count, &options, &y)))
            return;
        (void)GOOD(launch_fill(&team->w, stream, x, 0, count, i));
        (void)GOOD(launch_copy(&team->w, stream, y, 0, x, 0, count));
        ferry_buffer_destroy(&x);
        (void)GOOD(ferry_buffer_view(y, INT, count - 4, 4, &view));
        ferry_buffer_destroy(&y);
        (void)GOOD(ferry_buffer_copy_to(view, INT, 0, 4, values, NULL));
        CHECK(values[0] == i && values[3] == i);
        ferry_buffer_destroy(&view);
        ferry_stream_destroy(&stream);
        stream = stream_for(m);
    }
    ferry_stream_destroy(&stream);
}

static void
test_create_and_destroy_at_once(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    start_random(9);
    run_team(&team, THREADS, churn);
    team_close(&team);
}

/* Creates and destroys handles and views of the buffer, and finds the buffer by its name, while
 * other threads do the same. */
static void
share(struct member *m)
{
    ferry_buffer *base = m->team->buffers[0];
    for (int i = 0; i < 200; i++) {
        ferry_buffer *found, *view, *kept = ferry_buffer_retain(base);
        (void)GOOD(ferry_buffer_view(kept, INT, (size_t)m->index * 10, 10, &view));
        ferry_buffer_destroy(&kept);
        if (GOOD(ferry_context_find(m->team->f.context, "shared", &found)))
            ferry_buffer_destroy(&found);
        (void)GOOD(ferry_buffer_fill(view, INT, 0, FERRY_REST, &i, NULL));
        ferry_buffer_info info;
        char text[128];
        (void)GOOD(ferry_buffer_get_info(view, &info));
        CHECK(ferry_buffer_describe(base, text, sizeof(text)) > 0);
        ferry_buffer_destroy(&view);
    }
}

static void
test_handles_of_one_buffer(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    OK(ferry_buffer_create(team.f.context, INT, 100, &(ferry_buffer_options){.name = "shared"},
                           &team.buffers[0]));
    run_team(&team, THREADS, share);
    expect_constant(&team.f, team.buffers[0], 0, 0, 10 * THREADS, 199);
    expect_constant(&team.f, team.buffers[0], 0, 10 * THREADS, FERRY_REST, 0);
    team_close(&team);
}

/* -- BUSY and waiting -------------------------------------------------------------------------- */

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
meet(struct member *m)
{
    pthread_barrier_wait(&m->team->barrier);
}

static void
hold_or_ask(struct member *m)
{
    ferry_buffer *x = m->team->buffers[0], *low, *high;
    ferry_scope scope;
    void *memory;
    ferry_stream *stream = stream_of(&m->team->f, 1);
    int value = 3;
    if (!GOOD(ferry_buffer_view(x, INT, 0, 100, &low)) ||
        !GOOD(ferry_buffer_view(x, INT, 100, 100, &high)))
        return;
    if (m->index == 0) {
        (void)GOOD(ferry_buffer_open_host(x, INT, FERRY_UPDATE, 0, 100, &m->team->scope, &memory));
        meet(m); /* 1: the scope is open */
        meet(m); /* 2: the others found it BUSY */
        nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
        atomic_store(&m->team->counter, 1);
        (void)GOOD(ferry_scope_close(&m->team->scope));
        meet(m); /* 3: all are done */
    } else {
        meet(m);
        EXPECT(FERRY_ERROR_BUSY,
               ferry_buffer_open_host(x, INT, FERRY_READ, 50, 100, &scope, &memory));
        EXPECT(FERRY_ERROR_BUSY,
               ferry_buffer_open_device(x, INT, FERRY_UPDATE, 99, 1, stream, &scope, &memory));
        EXPECT(FERRY_ERROR_BUSY, ferry_buffer_fill(x, INT, 0, 1, &value, NULL));
        EXPECT(FERRY_ERROR_BUSY, ferry_buffer_wait_available(x, FERRY_READ, 0));
        uint64_t begin = now_ns();
        EXPECT(FERRY_ERROR_BUSY, ferry_buffer_wait_available(low, FERRY_READ, 5 * 1000 * 1000));
        CHECK(now_ns() - begin >= 5 * 1000 * 1000);
        EXPECT(FERRY_OK, ferry_buffer_wait_available(high, FERRY_UPDATE, 0));
        EXPECT(FERRY_OK, ferry_buffer_fill(x, INT, 100, 50, &value, NULL));
        if (GOOD(ferry_buffer_open_host(x, INT, FERRY_OVERWRITE, 150, 10, &scope, &memory))) {
            memset(memory, 0, 10 * sizeof(int));
            EXPECT(FERRY_OK, ferry_scope_close(&scope));
        }
        meet(m);
        EXPECT(FERRY_OK, ferry_buffer_wait_available(low, FERRY_UPDATE, UINT64_MAX));
        CHECK(atomic_load(&m->team->counter) == 1);
        EXPECT(FERRY_OK, ferry_buffer_fill(x, INT, 0, 100, &value, NULL));
        meet(m);
    }
    ferry_buffer_destroy(&low);
    ferry_buffer_destroy(&high);
}

static void
test_busy_between_threads(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, 2);
    team.buffers[0] = make_counting(&team.f, 200, 0);
    run_team(&team, 2, hold_or_ask);
    expect_constant(&team.f, team.buffers[0], 0, 0, 150, 3);
    team_close(&team);
}

/* -- several buffers, in either order ---------------------------------------------------------- */

static void
open_pair(struct member *m)
{
    struct team *team = m->team;
    ferry_buffer *first = team->buffers[m->index % 2], *second = team->buffers[1 - m->index % 2];
    ferry_argument arguments[] = {
        ferry_argument_with(ferry_buffer_argument(first, INT, 0, FERRY_REST), FERRY_UPDATE),
        ferry_argument_with(ferry_buffer_argument(second, INT, 0, FERRY_REST), FERRY_UPDATE)};
    for (int done = 0; done < 100;) {
        ferry_scope scopes[2];
        void *pointers[2];
        ferry_status status = ferry_scope_open_all(arguments, 2, 0, NULL, scopes, pointers);
        if (status == FERRY_ERROR_BUSY)
            continue;
        if (note(m, status, FERRY_OK, "open_all", __LINE__) != FERRY_OK)
            return;
        ((int *)pointers[0])[0]++;
        ((int *)pointers[1])[0]++;
        ferry_scope_close_all(scopes, 2);
        done++;
    }
}

static void
copy_pair(struct member *m)
{
    struct team *team = m->team;
    ferry_buffer *first = team->buffers[m->index % 2], *second = team->buffers[1 - m->index % 2];
    ferry_stream *stream = stream_for(m);
    for (int i = 0; i < 100 && stream; i++) {
        (void)GOOD(launch_copy(&team->w, stream, first, 1, second, 1, 9));
        (void)GOOD(ferry_buffer_copy(first, INT, 1, second, 1, 9, NULL));
    }
    ferry_stream_destroy(&stream);
}

static void
test_pairs_in_either_order(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, 2);
    team.buffers[0] = make_ints(&team.f, 10);
    team.buffers[1] = make_ints(&team.f, 10);
    run_team(&team, 2, open_pair);
    expect_constant(&team.f, team.buffers[0], 0, 0, 1, 200);
    expect_constant(&team.f, team.buffers[1], 0, 0, 1, 200);
    run_team(&team, 2, copy_pair);
    expect_constant(&team.f, team.buffers[0], 0, 1, 9, 0);
    expect_constant(&team.f, team.buffers[0], 1, 0, 1, 200);
    team_close(&team);
}

/* -- crowds ------------------------------------------------------------------------------------ */

enum { CROWD = 128, CROWD_PART = 2048 };

/* Writes every second element of a part of the buffer at the host, and the rest at a device. So the
 * valid map of that part has one segment per element. */
static void
crowd(struct member *m)
{
    ferry_buffer *x = m->team->buffers[0];
    size_t begin = CROWD_PART * (size_t)m->index;
    ferry_scope scopes[CROWD / THREADS * 2];
    void *memory;
    ferry_stream *stream = stream_for(m);
    (void)GOOD(launch_fill(&m->team->w, stream, x, begin, CROWD_PART, 1));
    for (size_t i = 0; i < CROWD_PART; i += 2) {
        if (!GOOD(
                ferry_buffer_open_host(x, INT, FERRY_OVERWRITE, begin + i, 1, &scopes[0], &memory)))
            return;
        *(int *)memory = 2;
        (void)GOOD(ferry_scope_close(&scopes[0]));
    }
    meet(m);
    for (size_t i = 0; i < LENGTH(scopes); i++)
        if (!GOOD(ferry_buffer_open_host(x, INT, i % 2 ? FERRY_READ : FERRY_UPDATE, begin + i, 1,
                                         &scopes[i], &memory)))
            return;
    meet(m);
    EXPECT(FERRY_ERROR_BUSY, ferry_buffer_wait_available(x, FERRY_READ, 0));
    (void)GOOD(launch_add(&m->team->w, stream, x, begin + LENGTH(scopes), 100, 1));
    (void)GOOD(launch_add(&m->team->w, stream, x, begin + LENGTH(scopes), 100, -1));
    meet(m);
    for (size_t i = LENGTH(scopes); i-- > 0;)
        (void)GOOD(ferry_scope_close(&scopes[i]));
    meet(m);
    (void)GOOD(ferry_buffer_sync_to(x, begin, CROWD_PART, place_of(m), NULL));
    ferry_stream_destroy(&stream);
}

static void
test_crowded_buffers(void **state)
{
    static struct team team;
    static int expected[CROWD_PART * THREADS];
    (void)state;
    team_open(&team, THREADS);
    team.buffers[0] = make_ints(&team.f, LENGTH(expected));
    run_team(&team, THREADS, crowd);
    for (size_t i = 0; i < LENGTH(expected); i++)
        expected[i] = i % 2 ? 1 : 2;
    expect_ints(team.buffers[0], expected, 0, LENGTH(expected));
    team_close(&team);
}

/* -- one stream for all ------------------------------------------------------------------------ */

static void
add_on_shared_stream(struct member *m)
{
    for (int i = 0; i < 100; i++) {
        (void)GOOD(
            launch_add(&m->team->w, stream_of(&m->team->f, 1), m->team->buffers[0], 0, 1000, 1));
        if (i % 10 == 0)
            (void)GOOD(ferry_stream_flush(stream_of(&m->team->f, 1)));
        if (i % 25 == 0)
            (void)GOOD(ferry_stream_synchronize(stream_of(&m->team->f, 1)));
    }
}

static void
test_one_stream_and_one_buffer(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    team.buffers[0] = make_ints(&team.f, 1000);
    run_team(&team, THREADS, add_on_shared_stream);
    expect_constant(&team.f, team.buffers[0], 0, 0, FERRY_REST, 100 * THREADS);
    team_close(&team);
}

static void
resize_from_nothing(struct member *m)
{
    (void)GOOD(ferry_buffer_resize(m->team->buffers[0], 1000 + 1000 * (size_t)m->index));
}

/* Concurrent resizes run one after the other. This holds even if the buffer is empty and a resize
 * has no bytes to lock. */
static void
test_resizes_of_an_empty_buffer_at_once(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    for (int round = 0; round < 300; round++) {
        team.buffers[0] = make_ints(&team.f, 0);
        run_team(&team, THREADS, resize_from_nothing);
        size_t count = ferry_buffer_count(team.buffers[0]);
        assert_true(count % 1000 == 0 && count >= 1000 && count <= 1000 * THREADS);
        assert_int_equal(team.buffers[0]->store->map.bytes, count * sizeof(int));
        expect_constant(&team.f, team.buffers[0], 0, 0, FERRY_REST, 0);
        write_counting(&team.f, team.buffers[0], 1, 0, count, 3);
        expect_counting(&team.f, team.buffers[0], 0, 0, FERRY_REST, 3);
        ferry_buffer_destroy(&team.buffers[0]);
    }
    team_close(&team);
}

/* -- overlapping copies ------------------------------------------------------------------------ */

enum { SHIFTS = 60, SHIFTED = 3000 };

/* Two threads shift the buffer by copies, one fills it, and one reads it. Each call must be atomic,
 * so the reader must find the same value in all elements. */
static void
shift_or_fill(struct member *m)
{
    ferry_buffer *b = m->team->buffers[0];
    static int seen[SHIFTED];
    for (int i = 0; i < SHIFTS; i++) {
        size_t up = m->index == 0 ? 500 : 0, down = m->index == 0 ? 0 : 500;
        int value = i + 1;
        if (m->index < 2) {
            (void)GOOD(ferry_buffer_copy(b, INT, up, b, down, SHIFTED - 500, NULL));
        } else if (m->index == 2) {
            (void)GOOD(ferry_buffer_fill(b, INT, 0, SHIFTED, &value, NULL));
        } else {
            (void)GOOD(ferry_buffer_copy_to(b, INT, 0, SHIFTED, seen, NULL));
            for (int at = 1; at < SHIFTED; at++)
                CHECK(seen[at] == seen[0]);
        }
    }
}

static void
test_overlapping_copies_are_one_step(void **state)
{
    static struct team team;
    (void)state;
    for (int place = 0; place < 2; place++) {
        team_open(&team, THREADS);
        team.buffers[0] = make_ints(&team.f, SHIFTED);
        touch(&team.f, team.buffers[0], place, FERRY_UPDATE, 0, FERRY_REST);
        run_team(&team, THREADS, shift_or_fill);
        team_close(&team);
    }
}

/* -- resizing beside opening ------------------------------------------------------------------- */

enum { RESIZES = 200, LONG = 4000, SHORT = 1000 };

/* The first thread resizes the buffer, and the others read it. The pointer of an open scope must be
 * valid for its whole range. */
static void
resize_or_read(struct member *m)
{
    ferry_buffer *b = m->team->buffers[0];
    for (int round = 0; m->index == 0 ? round < RESIZES : atomic_load(&m->team->counter) == 0;
         round++) {
        ferry_scope scope;
        void *memory;
        ferry_status status;
        if (m->index == 0) {
            do
                status = ferry_buffer_resize(b, round % 2 == 0 ? SHORT : LONG);
            while (status == FERRY_ERROR_BUSY);
            (void)note(m, status, FERRY_OK, "resize", __LINE__);
            continue;
        }
        size_t offset = round % 2 == 0 ? 0 : LONG - 1, count = round % 4 < 2 ? FERRY_REST : 1;
        status = ferry_buffer_open_host(b, INT, FERRY_READ, offset, count, &scope, &memory);
        if (status == FERRY_OK && count == 1)
            CHECK(((int *)memory)[0] == 0);
        if (status == FERRY_OK)
            (void)GOOD(ferry_scope_close(&scope));
        else if (status != FERRY_ERROR_BUSY && status != FERRY_ERROR_OUT_OF_RANGE)
            (void)note(m, status, FERRY_OK, "open_host", __LINE__);
        /* Without this pause, the reading threads could keep scopes open all the time, so that
         * every resize fails with FERRY_ERROR_BUSY. */
        ferryi_sleep_ns(1000);
    }
    if (m->index == 0)
        atomic_store(&m->team->counter, 1);
}

static void
test_resizes_beside_readers(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    OK(ferry_buffer_create(team.f.context, INT, LONG, NULL, &team.buffers[0]));
    int zero = 0;
    OK(ferry_buffer_fill(team.buffers[0], INT, 0, FERRY_REST, &zero, NULL));
    run_team(&team, THREADS, resize_or_read);
    team_close(&team);
}

/* -- walks beside lives ------------------------------------------------------------------------ */

enum { LIVES = 400, LIFE_COUNT = 100 };

static bool
check_info(const ferry_buffer_info *info, void *user)
{
    struct member *m = user;
    CHECK(info->count * info->element->bytes == info->bytes);
    CHECK(strcmp(info->name, "") == 0 || strcmp(info->name, "a buffer that comes and goes") == 0);
    CHECK(info->count == LIFE_COUNT || info->count == 2 * LIFE_COUNT);
    CHECK(info->borrowed ? info->allocated_bytes == 0 : info->allocated_bytes <= 64 << 10);
    return true;
}

/* The first thread visits all buffers, while the other threads create, use and destroy buffers of
 * all kinds. */
static void
walk_or_live(struct member *m)
{
    fixture *f = &m->team->f;
    for (int round = 0;
         m->index == 0 ? atomic_load(&m->team->counter) < THREADS - 1 : round < LIVES; round++) {
        ferry_buffer_options named = {.name = round % 3 ? "a buffer that comes and goes" : NULL};
        ferry_buffer *b, *view;
        int outside[LIFE_COUNT];
        char text[256];
        if (m->index == 0) {
            (void)GOOD(ferry_context_for_each_buffer(f->context, check_info, m));
            (void)ferry_context_describe(f->context, text, sizeof(text));
            continue;
        }
        if (round % 4 == 0) {
            if (GOOD(ferry_buffer_wrap_host(f->context, INT, LIFE_COUNT, outside, NULL, &b)))
                (void)GOOD(ferry_buffer_unwrap(&b, NULL));
            continue;
        }
        if (!GOOD(ferry_buffer_create(f->context, INT, LIFE_COUNT, &named, &b)))
            return;
        int one = 1;
        (void)GOOD(ferry_buffer_fill(b, INT, 0, FERRY_REST, &one, NULL));
        if (round % 4 == 1)
            (void)GOOD(ferry_buffer_resize(b, 2 * LIFE_COUNT));
        if (round % 4 == 2)
            (void)GOOD(ferry_buffer_sync_to(b, 0, FERRY_REST, place_of(m), NULL));
        if (round % 4 == 3 && GOOD(ferry_buffer_view(b, INT, 0, 10, &view))) {
            ferry_buffer_destroy(&b);
            b = view;
        }
        ferry_buffer_destroy(&b);
    }
    atomic_fetch_add(&m->team->counter, 1);
}

static void
test_walks_beside_lives(void **state)
{
    static struct team team;
    (void)state;
    /* In a checked run, the call that wraps memory looks at the other buffers that wrap some. */
    for (int checked = 0; checked < 2; checked++) {
        setenv("FERRY_DEBUG", checked ? "1" : "0", 1);
        team_open(&team, THREADS);
        run_team(&team, THREADS, walk_or_live);
        team_close(&team);
    }
    unsetenv("FERRY_DEBUG");
}

/* -- evictions beside leases ------------------------------------------------------------------- */

enum { EVICTIONS = 200000 };

/* The first thread evicts a replica, while the other threads open and destroy leases on it. A lease
 * that has just ended must not look like a hold of the program. */
static void
evict_or_lend(struct member *m)
{
    ferry_buffer *b = m->team->buffers[0];
    const ferry_lease_options options = {.access = FERRY_READ};
    for (int round = 0; m->index == 0 && round < EVICTIONS; round++) {
        ferry_status status = ferry_buffer_evict(b, FERRY_PLACE_HOST);
        CHECK(status == FERRY_OK || status == FERRY_ERROR_BUSY);
    }
    if (m->index == 0)
        atomic_store(&m->team->counter, 1);
    while (atomic_load(&m->team->counter) == 0) {
        ferry_lease *lease = NULL;
        void *memory;
        ferry_status status = ferry_lease_open(b, INT, &options, &lease, &memory);
        CHECK(status == FERRY_OK || status == FERRY_ERROR_BUSY);
        ferry_lease_destroy(&lease);
    }
}

static void
test_evictions_beside_leases(void **state)
{
    static struct team team;
    (void)state;
    team_open(&team, THREADS);
    OK(ferry_buffer_create(team.f.context, INT, LIFE_COUNT, NULL, &team.buffers[0]));
    run_team(&team, THREADS, evict_or_lend);
    team_close(&team);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_share_one_transfer),
        cmocka_unit_test(test_disjoint_writers_lose_nothing),
        cmocka_unit_test(test_random_calls_on_shared_buffers),
        cmocka_unit_test(test_create_and_destroy_at_once),
        cmocka_unit_test(test_handles_of_one_buffer),
        cmocka_unit_test(test_busy_between_threads),
        cmocka_unit_test(test_pairs_in_either_order),
        cmocka_unit_test(test_crowded_buffers),
        cmocka_unit_test(test_one_stream_and_one_buffer),
        cmocka_unit_test(test_overlapping_copies_are_one_step),
        cmocka_unit_test(test_resizes_of_an_empty_buffer_at_once),
        cmocka_unit_test(test_resizes_beside_readers),
        cmocka_unit_test(test_walks_beside_lives),
        cmocka_unit_test(test_evictions_beside_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
