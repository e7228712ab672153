/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_PRINTED_H
#define FERRY_TEST_PRINTED_H

/*
 * Support for random test histories that are printed as C programs. A printed program calls the
 * public API, the functions of tests/buffer/work.h that queue work, and the functions here. want()
 * compares values. counting() returns memory with first + i at index i. TRY() marks calls that have
 * several legal results.
 *
 * If such a call fails, TRY() prints its status and message, and the program continues. If the
 * original history failed because this status was illegal, the printed message describes that
 * failure.
 */

#include <pthread.h>
#include <unistd.h>

#include "tests/histories/peek.h"
#include "tests/histories/scenes.h"
#include "tests/support/copies.h"
#include "tests/support/fault.h"
#include "tests/support/short_memory.h"

struct run {
    size_t length;
    int first, step;
};

static struct world printed_world;
static pthread_barrier_t printed_start;
static ferry_buffer *b[SUBJECTS], *v[SUBJECTS][PLAYERS_MAX * VIEWS];
static ferry_stream *s[PLAYERS_MAX][STREAMS_MAX + LOANS];
static atomic_int deleted[SUBJECTS];
static int printed_wraps[SUBJECTS][LENGTH_MAX + WRAP_SHIFTS];

#define f                   printed_world.f
#define w                   printed_world.w
#define failing             printed_world.failing

#define page_locked(player) printed_world.players[player].pinned

static const ferry_conversion *
printed_conversion(const ferry_element *from, const ferry_element *to, ferry_conversion *out)
{
    *out = (ferry_conversion){.from = from, .to = to};
    return out;
}

#define to_int   (*printed_conversion(DOUBLE, INT, &(ferry_conversion){0}))
#define from_int (*printed_conversion(INT, DOUBLE, &(ferry_conversion){0}))

/* Returns memory that stays allocated until the program ends. */
static inline void *
printed_room(size_t bytes)
{
    static char room[1 << 24];
    static _Atomic size_t used;
    size_t at = atomic_fetch_add(&used, (bytes + 15) & ~(size_t)15);
    return at + bytes <= sizeof(room) ? room + at : NULL;
}

static inline int *
counting(size_t count, int first)
{
    int *values = printed_room(count * sizeof(int) + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = first + (int)i;
    return values;
}

static inline double *
doubles(size_t count, int first)
{
    double *values = printed_room(count * sizeof(double) + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = first + (int)i;
    return values;
}

static inline int *
memory_of(int number, size_t count, int first)
{
    int *memory = printed_wraps[number] + first % WRAP_SHIFTS;
    memcpy(memory, counting(count, first), count * sizeof(int));
    return memory;
}

static inline void
want(const void *memory, size_t count, const struct run *runs)
{
    const int *values = memory;
    for (size_t i = 0; runs->length > 0; runs++)
        for (size_t k = 0; k < runs->length && i < count; k++, i++)
            if (values[i] != runs->first + runs->step * (int)k) {
                fprintf(stderr, "element %zu is %d instead of %d\n", i, values[i],
                        runs->first + runs->step * (int)k);
                abort();
            }
}

static inline void
put(void *memory, size_t count, const struct run *runs)
{
    int *values = memory;
    for (size_t i = 0; runs->length > 0; runs++)
        for (size_t k = 0; k < runs->length && i < count; k++, i++)
            values[i] = runs->first + runs->step * (int)k;
}

/* Overwrites a range after an interrupted call, which may leave different contents in each run.
 * Writes the contents that the original run found, so that later checks apply. Elements that an
 * open scope reads are left out: the interrupted call cannot have changed them. */
static inline void
be(ferry_buffer *buffer, size_t offset, size_t count, const struct run *runs)
{
    int *values = printed_room(count * sizeof(int) + 1);
    put(values, count, runs);
    ferry_status status = ferry_buffer_copy_from(buffer, INT, offset, count, values, NULL);
    for (size_t i = 0; status == FERRY_ERROR_BUSY && i < count; i++) {
        ferry_status one = ferry_buffer_copy_from(buffer, INT, offset + i, 1, &values[i], NULL);
        if (one != FERRY_ERROR_BUSY)
            OK(one);
    }
    if (status != FERRY_ERROR_BUSY)
        OK(status);
}

static inline void
order(ferry_stream *first, ferry_stream *then)
{
    ferry_event *event;
    OK(ferry_stream_record(first, 0, &event));
    OK(ferry_stream_wait_event(then, event));
    ferry_event_destroy(&event);
}

static inline ferry_status
printed_try(ferry_status status, const char *call, const char *file, int line)
{
    if (status != FERRY_OK)
        fprintf(stderr, "%s:%d: %s\n    is %s: %s\n", file, line, call, ferry_status_name(status),
                ferry_last_error());
    return status;
}

#define TRY(call) printed_try((call), #call, __FILE__, __LINE__)

static inline bool
printed_stop(size_t done, size_t total, void *user)
{
    unsigned *left = user;
    (void)done, (void)total;
    return (*left)-- > 0;
}

#define in_chunks(left)                                                                            \
    &(ferry_copy_options)                                                                          \
    {                                                                                              \
        .chunk_bytes = 1024, .keep_going = printed_stop, .user = &(unsigned)                       \
        {                                                                                          \
            left                                                                                   \
        }                                                                                          \
    }

static inline void
finish(ferry_event **event)
{
    OK(ferry_event_synchronize(*event));
    ferry_event_destroy(event);
}

/* Waits until all threads of the printed program have called this function. Each thread calls it
 * first and last, so that all threads begin and end together. */
static inline void
meet(void)
{
    pthread_barrier_wait(&printed_start);
}

#define BEGIN                                                                                      \
    int values[LENGTH_MAX] = {0}, later[PENDING][LENGTH_MAX] = {{0}};                              \
    double double_values[LENGTH_MAX] = {0};                                                        \
    ferry_scope scope = {0}, other_scope = {0}, outer = {0}, scopes[2] = {{0}};                    \
    ferry_scope stale[STALE] = {{0}}, many[3] = {{0}};                                             \
    ferry_argument arguments[2], argument, three[3];                                               \
    ferry_event *pending[PENDING] = {NULL}, *event = NULL;                                         \
    ferry_buffer *other = NULL, *between = NULL;                                                   \
    ferry_status status = FERRY_OK;                                                                \
    ferry_block *block = NULL;                                                                     \
    copy_list *batch = NULL;                                                                       \
    ferry_copy_region region;                                                                      \
    ferry_pool *pool = NULL;                                                                       \
    struct loan loans[LOANS] = {{.order = 0}};                                                     \
    ferry_context *owner = NULL;                                                                   \
    void *memory = NULL, *outer_memory = NULL, *out = NULL, *pointer = NULL,                       \
         *pointers[2] = {NULL};                                                                    \
    void *opened[3] = {NULL};                                                                      \
    (void)stale, (void)many, (void)three, (void)opened;                                            \
    (void)argument, (void)arguments, (void)values, (void)later, (void)double_values, (void)scope,  \
        (void)other_scope, (void)outer, (void)loans, (void)owner;                                  \
    (void)scopes, (void)pending, (void)event, (void)other, (void)between, (void)status,            \
        (void)block, (void)pool, (void)batch, (void)region, (void)memory;                          \
    (void)outer_memory, (void)out, (void)pointer, (void)pointers;

#define END                                                                                        \
    (void)argument_of_thread;                                                                      \
    return NULL;

static inline void
play(const struct history_setup *setup, void *(*const players[])(void *))
{
    pthread_t threads[PLAYERS_MAX];
    history_open(&printed_world, setup);
    pthread_barrier_init(&printed_start, NULL, setup->players);
    for (unsigned i = 0; i < setup->players; i++)
        memcpy(s[i], printed_world.players[i].streams, sizeof(s[i]));
    for (unsigned i = 0; i < setup->players; i++)
        if (pthread_create(&threads[i], NULL, players[i], NULL) != 0)
            abort();
    for (unsigned i = 0; i < setup->players; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < setup->players; i++)
        memcpy(printed_world.players[i].streams, s[i], sizeof(s[i]));
    history_close(&printed_world);
}

#endif
