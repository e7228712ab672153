/* SPDX-License-Identifier: MIT */

/*
 * Tests the parts of `ferry replay`: the reader of allocation logs, the scripts that are made of
 * them, the best-fit allocator, and the replay itself with a fake allocator.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/best_fit.h"
#include "cli/replay.h"

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"
#define KIB    UINT64_C(1024)

static uint64_t random_state;

static uint64_t
random_below(uint64_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % bound;
}

/* -- the reader -------------------------------------------------------------------------------- */

static struct log
read_good(const char *text)
{
    struct log log = {0};
    struct log_problem problem = {0};
    if (!log_read(text, strlen(text), &log, &problem))
        fail_msg("line %zu: %s", problem.line, problem.text);
    return log;
}

static void
test_events_have_the_fields_of_their_line(void **state)
{
    (void)state;
    struct log log = read_good(
        HEADER "140573312345856,23:59:59.999999,allocate,0x7f8a40000000,1024,0x7f8a38001020\n"
               "17,00:00:00.500001,free,0x7f8a40000000,1024,0\n"
               "17,00:00:01.000000,allocate failure,(nil),99,2\n");
    assert_int_equal(log.count, 3);
    assert_int_equal(log.events[0].thread, 140573312345856);
    assert_int_equal(log.events[0].pointer, 0x7f8a40000000);
    assert_int_equal(log.events[0].bytes, 1024);
    assert_int_equal(log.events[0].stream, 0x7f8a38001020);
    assert_int_equal(log.events[0].action, LOG_ALLOCATE);
    assert_int_equal(log.events[0].time_us, 0);
    assert_int_equal(log.events[0].line, 2);
    assert_int_equal(log.events[1].action, LOG_FREE);
    assert_int_equal(log.events[1].time_us, 500002); /* the times of the log pass midnight */
    assert_int_equal(log.events[2].action, LOG_FAILURE);
    assert_int_equal(log.events[2].pointer, 0);
    assert_int_equal(log.events[2].time_us, 1000001);
    assert_int_equal(log.events[2].line, 4);
    log_free(&log);
}

static void
test_every_variant_is_read(void **state)
{
    static const char *const variants[] = {
        HEADER "1,10:20:30,allocate,0x100,5,0\n",            /* the time has no fraction */
        HEADER "1,10:20:30:000004,allocate,0x100,5,0\n",     /* a colon before the fraction */
        HEADER "1,1634567890.123456,allocate,0x100,5,0x0\n", /* the time is in seconds */
        HEADER "1,10:20:30.5,allocate,100,5,(nil)", /* without 0x in the address, and without a
                                                       newline at the end */
        "\r\n" HEADER
        "\r\n1, 10:20:30.5 , allocate ,0X100,5,0\r\n\r\n",        /* CR LF, empty lines, spaces */
        "Size,Extra,Pointer,Action\n5,whatever,0x100,allocate\n", /* columns in a different order,
                                                                     with an unknown column */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        struct log log = read_good(variants[i]);
        assert_int_equal(log.count, 1);
        assert_int_equal(log.events[0].pointer, 0x100);
        assert_int_equal(log.events[0].bytes, 5);
        assert_int_equal(log.events[0].stream, 0);
        assert_int_equal(log.events[0].action, LOG_ALLOCATE);
        log_free(&log);
    }
    struct log log = read_good(HEADER "1,1:0:0,deallocate,0x100,5,0\n");
    assert_int_equal(log.events[0].action, LOG_FREE);
    log_free(&log);
}

static void
test_a_header_alone_has_no_events(void **state)
{
    (void)state;
    struct log log = read_good(HEADER);
    assert_int_equal(log.count, 0);
    log_free(&log);
}

static void
test_times_may_fall_a_little(void **state)
{
    (void)state;
    struct log log = read_good(HEADER "1,10:00:00.000009,allocate,1,5,0\n1,10:00:00.000002,"
                                      "allocate,2,5,0\n1,10:00:00.000019,free,1,5,0\n");
    assert_int_equal(log.events[1].time_us, 0);
    assert_int_equal(log.events[2].time_us, 10);
    log_free(&log);
}

static const struct {
    const char *text;
    size_t line;
    const char *says;
} bad_logs[] = {
    {"", 1, "the file is empty, expected the header Thread,Time,Action,Pointer,Size,Stream"},
    {"\n\n", 1, "the file is empty"},
    {"no header\n", 1, "the header is 'no header', expected one with Action, Pointer and Size"},
    {"Thread,Time,Action,Pointer,Stream\n", 1, "expected one with Action, Pointer and Size"},
    {HEADER "1,10:00:00.5,allocate,0x1,5\n", 2, "5 fields, expected 6 as in the header"},
    {HEADER "1,10:00:00.5,allocate,0x1,5,0,0\n", 2, "7 fields, expected 6"},
    {HEADER "\n1,10:00:00.5,allo", 3, "3 fields, expected 6"},
    {HEADER "x,10:00:00.5,allocate,0x1,5,0\n", 2, "Thread is 'x', expected a decimal number"},
    {HEADER "1,24:00:00.5,allocate,0x1,5,0\n", 2, "Time is '24:00:00.5', expected a time such as"},
    {HEADER "1,10:60:00,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,10:00:61,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,10:00,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,10:00:00.,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,10:00:00:1:2,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,,allocate,0x1,5,0\n", 2, "Time is ''"},
    {HEADER "1,99999999999999999999,allocate,0x1,5,0\n", 2, "Time is"},
    {HEADER "1,10:00:00.5,alocate,0x1,5,0\n", 2,
     "Action is 'alocate', expected allocate, free or allocate failure"},
    {HEADER "1,10:00:00.5,allocate,0xg,5,0\n", 2, "Pointer is '0xg', expected an address"},
    {HEADER "1,10:00:00.5,allocate,,5,0\n", 2, "Pointer is ''"},
    {HEADER "1,10:00:00.5,allocate,0x,5,0\n", 2, "Pointer is '0x'"},
    {HEADER "1,10:00:00.5,allocate,0x10000000000000000,5,0\n", 2, "Pointer is"},
    {HEADER "1,10:00:00.5,allocate,0x1,-5,0\n", 2,
     "Size is '-5', expected a decimal number of bytes below 281474976710656"},
    {HEADER "1,10:00:00.5,allocate,0x1,281474976710656,0\n", 2, "Size is"},
    {HEADER "1,10:00:00.5,allocate,0x1,99999999999999999999999,0\n", 2, "Size is"},
    {HEADER "1,10:00:00.5,allocate,0x1,5,zz\n", 2, "Stream is 'zz', expected a hexadecimal number"},
    {HEADER "1,10:00:00.5,allocate,0x1,5,0\n1,10:00:00.5,\x01\x02,0x1,5,0\n", 3, "Action is '?\?'"},
};

static void
test_bad_lines_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_logs) / sizeof(bad_logs[0]); i++) {
        struct log log = {0};
        struct log_problem problem = {0};
        assert_false(log_read(bad_logs[i].text, strlen(bad_logs[i].text), &log, &problem));
        if (problem.line != bad_logs[i].line || !strstr(problem.text, bad_logs[i].says))
            fail_msg("case %zu: line %zu: %s", i, problem.line, problem.text);
        assert_null(log.events);
    }
}

static void
test_long_fields_and_many_columns(void **state)
{
    static char text[100000];
    struct log log = {0};
    struct log_problem problem;
    (void)state;
    strcpy(text, HEADER);
    memset(text + strlen(text), '7', 90000);
    assert_false(log_read(text, strlen(text), &log, &problem));
    strcpy(text, HEADER "1,10:00:00,allocate,0x1,5,");
    memset(text + strlen(text), 'q', 90000);
    assert_false(log_read(text, strlen(text), &log, &problem));
    assert_non_null(strstr(problem.text, "qqqq..."));
    memset(text, ',', sizeof(text));
    assert_false(log_read(text, sizeof(text), &log, &problem));
    assert_non_null(strstr(problem.text, "more than 64 columns"));
}

/* Changes bytes of a valid log at random. The reader must not crash, and each failure must have a
 * message. */
static void
test_changed_bytes_do_no_harm(void **state)
{
    static const char good[] = HEADER "1,10:20:30.500000,allocate,0x7f0000000100,1000,0\n1,10:20:"
                                      "30.5,free,0x7f0000000100,1000,0x2a\n"
                                      "2,10:20:31.5,allocate failure,(nil),5000000,0\n";
    enum { COUNT = sizeof(good) - 1 };
    (void)state;
    random_state = 7;
    for (size_t round = 0; round < 20000; round++) {
        /* The input is a heap block of exactly its size, so that a sanitizer detects reads past its
         * end. */
        size_t count = 1 + random_below(COUNT);
        char *bytes = malloc(count);
        struct log log = {0};
        struct log_problem problem = {0};
        memcpy(bytes, good, count);
        for (size_t i = random_below(4); i > 0; i--)
            bytes[random_below(count)] =
                random_below(2) ? (char)random_below(256) : good[random_below(COUNT)];
        if (log_read(bytes, count, &log, &problem)) {
            struct script script = {0};
            if (script_write(&log, &script, &problem))
                script_free(&script);
            log_free(&log);
        } else {
            assert_true(problem.line >= 1 && problem.text[0] != 0);
        }
        free(bytes);
    }
}

/* -- scripts ----------------------------------------------------------------------------------- */

static struct script
script_of(const char *lines)
{
    char text[4096];
    struct script script = {0};
    struct log_problem problem;
    snprintf(text, sizeof(text), "Action,Pointer,Size,Stream,Thread\n%s", lines);
    struct log log = read_good(text);
    assert_true(script_write(&log, &script, &problem));
    log_free(&log);
    return script;
}

static void
test_what_a_log_does_not_tell_whole_is_counted(void **state)
{
    (void)state;
    struct script script = script_of("free,a,10,0,1\n" /* allocated before the log began */
                                     "allocate,b,100,0,1\n"
                                     "allocate,(nil),0,0,1\n" /* allocates no bytes */
                                     "free,(nil),0,0,1\n"
                                     "allocate,b,50,7,2\n" /* the address b is allocated a second
                                                              time, so the log lacks a free of b */
                                     "allocate failure,(nil),9,9,3\n"
                                     "allocate,c,20,0,1\n");
    assert_int_equal(script.unknown_frees, 1);
    assert_int_equal(script.empty, 2);
    assert_int_equal(script.lost_frees, 1);
    assert_int_equal(script.takes, 3);
    assert_int_equal(script.gives, 1);
    assert_int_equal(script.tries, 1);
    assert_int_equal(script.count, 5);
    assert_int_equal(script.threads, 3);
    assert_int_equal(script.streams, 3);
    assert_int_equal(script.peak_bytes, 100);
    assert_int_equal(script.left_blocks, 2);
    assert_int_equal(script.operations[1].kind, OPERATION_GIVE);
    assert_int_equal(script.operations[1].bytes, 100);
    assert_int_equal(script.operations[1].line, script.operations[2].line);
    script_free(&script);
}

static void
test_an_empty_log_makes_an_empty_script(void **state)
{
    (void)state;
    struct script script = script_of("");
    struct allocator allocator;
    struct replay_result result;
    struct allocator_options options = {.limit_bytes = 4096, .streams = script.streams};
    assert_int_equal(script.count, 0);
    assert_true(best_fit_open(&options, &allocator));
    assert_true(replay_run(&script, &allocator, &result));
    assert_int_equal(result.failed_takes, 0);
    assert_true(replay_fits(&script, &allocator));
    allocator.close(allocator.user);
    script_free(&script);
}

/* Writes a log that repeatedly allocates and frees a limited number of addresses. In the script,
 * each free must have the slot number of its allocation. */
static void
test_slots_follow_addresses(void **state)
{
    enum { ADDRESSES = 700, EVENTS = 40000 };
    static struct log_event events[EVENTS];
    static bool live[ADDRESSES];
    static uint32_t slot_of[ADDRESSES];
    struct script script;
    struct log_problem problem;
    size_t live_count = 0, peak = 0;
    (void)state;
    random_state = 3;
    for (size_t i = 0; i < EVENTS; i++) {
        size_t k = random_below(ADDRESSES);
        events[i] = (struct log_event){.pointer = (k + 1) * 256,
                                       .bytes = k + 1,
                                       .line = i + 2,
                                       .action = live[k] ? LOG_FREE : LOG_ALLOCATE};
        live[k] = !live[k];
        live_count += live[k] ? 1 : (size_t)-1;
        peak = live_count > peak ? live_count : peak;
    }
    assert_true(script_write(&(struct log){events, EVENTS}, &script, &problem));
    assert_int_equal(script.count, EVENTS);
    assert_int_equal(script.peak_blocks, peak);
    assert_int_equal(script.slots, peak);
    for (size_t i = 0; i < EVENTS; i++) {
        size_t k = events[i].pointer / 256 - 1;
        if (script.operations[i].kind == OPERATION_TAKE)
            slot_of[k] = script.operations[i].slot;
        else
            assert_int_equal(script.operations[i].slot, slot_of[k]);
        assert_int_equal(script.operations[i].bytes, k + 1);
    }
    script_free(&script);
}

static void
test_live_bytes_beyond_64_bits_are_refused(void **state)
{
    enum { EVENTS = 65537 };
    static struct log_event events[EVENTS];
    struct script script;
    struct log_problem problem;
    (void)state;
    for (size_t i = 0; i < EVENTS; i++)
        events[i] = (struct log_event){.pointer = i + 1,
                                       .bytes = (UINT64_C(1) << 48) - 1,
                                       .line = i + 2,
                                       .action = LOG_ALLOCATE};
    assert_false(script_write(&(struct log){events, EVENTS}, &script, &problem));
    assert_int_equal(problem.line, EVENTS + 1);
    assert_non_null(strstr(problem.text, "expected fewer"));
}

/* -- the stand-in ------------------------------------------------------------------------------ */

static struct allocator
open_fit(uint64_t limit, uint32_t streams)
{
    struct allocator fit;
    struct allocator_options options = {.limit_bytes = limit, .streams = streams};
    assert_true(best_fit_open(&options, &fit));
    return fit;
}

static struct allocator_state
look(const struct allocator *allocator)
{
    struct allocator_state state;
    allocator->look(allocator->user, &state);
    return state;
}

static void *
take(const struct allocator *allocator, uint64_t bytes, uint32_t stream)
{
    uint64_t given = 0;
    void *block = allocator->take(allocator->user, bytes, stream, &given);
    if (block)
        assert_true(given >= bytes && given < bytes + 256 && given % 256 == 0);
    return block;
}

static void
test_neighbours_merge(void **state)
{
    (void)state;
    struct allocator fit = open_fit(4 * KIB, 1);
    void *blocks[4];
    for (size_t i = 0; i < 4; i++)
        assert_non_null(blocks[i] = take(&fit, 1000, 0));
    assert_null(take(&fit, 1, 0));
    fit.give(fit.user, blocks[0], 0);
    fit.give(fit.user, blocks[2], 0);
    assert_int_equal(look(&fit).free_bytes, 2 * KIB);
    assert_int_equal(look(&fit).largest_free_bytes, KIB);
    assert_true(look(&fit).fragmentation == 0.5);
    assert_null(take(&fit, 1025, 0));
    assert_non_null(strstr(fit.why(fit.user),
                           "take 1025 bytes: free 2048, total 4096, largest free 1024 bytes"));
    fit.give(fit.user, blocks[1], 0); /* frees the block between two free blocks */
    assert_int_equal(look(&fit).largest_free_bytes, 3 * KIB);
    fit.give(fit.user, blocks[3], 0); /* the block behind the free ones */
    assert_int_equal(look(&fit).largest_free_bytes, 4 * KIB);
    assert_true(look(&fit).fragmentation == 0);
    assert_non_null(blocks[0] = take(&fit, 4096, 0));
    fit.give(fit.user, blocks[0], 0);
    fit.close(fit.user);
}

static void
test_the_smallest_hole_that_fits_is_taken(void **state)
{
    (void)state;
    struct allocator fit = open_fit(16 * KIB, 1);
    void *large = take(&fit, 3 * KIB, 0), *wall = take(&fit, 256, 0), *small = take(&fit, KIB, 0),
         *wall2 = take(&fit, 256, 0);
    void *rest = take(&fit, 16 * KIB - 3 * KIB - KIB - 512, 0);
    assert_true(large && wall && small && wall2 && rest);
    fit.give(fit.user, large, 0);
    fit.give(fit.user, small, 0);
    /* Must be allocated in the hole of 1 KiB, not in that of 3 KiB. */
    void *taken = take(&fit, 900, 0);
    assert_int_equal(look(&fit).largest_free_bytes, 3 * KIB);
    assert_int_equal(look(&fit).free_bytes, 3 * KIB);
    void *left[] = {taken, wall, wall2, rest};
    for (size_t i = 0; i < 4; i++)
        fit.give(fit.user, left[i], 0);
    assert_int_equal(look(&fit).largest_free_bytes, 16 * KIB);
    fit.close(fit.user);
}

static void
test_streams_have_lists_of_their_own(void **state)
{
    (void)state;
    struct allocator fit = open_fit(4 * KIB, 2);
    void *first = take(&fit, 2 * KIB, 0), *second = take(&fit, 2 * KIB, 0);
    fit.give(fit.user, first, 0);
    fit.give(fit.user, second, 1);
    /* The two free blocks are adjacent, but they must not be merged, because they belong to
     * different streams. */
    assert_int_equal(look(&fit).largest_free_bytes, 2 * KIB);
    uint64_t waits = look(&fit).waits;
    void *own = take(&fit, 2 * KIB, 1);
    assert_int_equal(look(&fit).waits, waits);
    void *other = take(&fit, 2 * KIB, 1);
    assert_int_equal(look(&fit).waits, waits + 1);
    fit.give(fit.user, own, 1);
    fit.give(fit.user, other, 0);
    /* Blocks of different streams are merged only if no free block is large enough. */
    assert_non_null(own = take(&fit, 4 * KIB, 0));
    assert_int_equal(look(&fit).waits, waits + 2);
    fit.give(fit.user, own, 0);
    fit.close(fit.user);
}

static void
test_no_byte_is_lost_or_given_twice(void **state)
{
    enum { SLOTS = 200 };
    void *blocks[SLOTS] = {0};
    uint64_t given[SLOTS] = {0}, live = 0;
    struct allocator fit = open_fit(1000 * KIB, 3);
    (void)state;
    random_state = 11;
    for (size_t i = 0; i < 50000; i++) {
        size_t k = random_below(SLOTS);
        uint32_t stream = (uint32_t)random_below(3);
        if (blocks[k]) {
            fit.give(fit.user, blocks[k], stream);
            live -= given[k];
            blocks[k] = NULL;
        } else if ((blocks[k] =
                        fit.take(fit.user, 1 + random_below(20 * KIB), stream, &given[k]))) {
            live += given[k];
        }
        if (i % 64 == 0)
            assert_int_equal(look(&fit).free_bytes, 1000 * KIB - live);
    }
    for (size_t k = 0; k < SLOTS; k++)
        if (blocks[k])
            fit.give(fit.user, blocks[k], 0);
    void *all = take(&fit, 1000 * KIB, 1);
    assert_non_null(all);
    fit.give(fit.user, all, 1);
    fit.close(fit.user);
}

/* -- the run ----------------------------------------------------------------------------------- */

/* A fake allocator with `limit` bytes, which counts its allocations. */
struct fake {
    uint64_t limit, live, count, takes;
    bool wrong;
};

static void *
fake_take(void *user, uint64_t bytes, uint32_t stream, uint64_t *out_given)
{
    struct fake *fake = user;
    (void)stream;
    if (bytes > fake->limit - fake->live)
        return NULL;
    uint64_t *block = malloc(sizeof(*block));
    *block = *out_given = bytes;
    fake->live += bytes;
    fake->count++;
    fake->takes++;
    return block;
}

static void
fake_give(void *user, void *block, uint32_t stream)
{
    struct fake *fake = user;
    (void)stream;
    fake->wrong |= !block || fake->count == 0;
    fake->live -= *(uint64_t *)block;
    fake->count--;
    free(block);
}

static void
fake_look(void *user, struct allocator_state *out)
{
    const struct fake *fake = user;
    *out = (struct allocator_state){.reserved_bytes = fake->limit,
                                    .free_bytes = fake->limit - fake->live};
}

static const char *
fake_why(void *user)
{
    (void)user;
    return "there is no more";
}

static struct allocator
allocator_of(struct fake *fake)
{
    return (struct allocator){"fake", fake, fake_take, fake_give, fake_look, fake_why, NULL};
}

static void
test_a_take_without_memory_is_reported_and_passed_over(void **state)
{
    struct fake fake = {.limit = 250};
    struct allocator allocator = allocator_of(&fake);
    struct replay_result result;
    (void)state;
    struct script script = script_of("allocate,a,100,0,1\n"
                                     "allocate,b,100,0,1\n"
                                     "allocate,c,100,0,1\n" /* fails */
                                     "allocate failure,(nil),50,0,1\n"
                                     "allocate failure,(nil),51,0,1\n"
                                     "free,c,100,0,1\n"
                                     "allocate,d,60,0,1\n" /* fails */
                                     "free,a,100,0,1\n"
                                     "allocate,e,60,0,1\n"); /* b and e are never freed */
    assert_true(replay_run(&script, &allocator, &result));
    assert_int_equal(result.failed_takes, 2);
    assert_int_equal(result.failed_bytes, 160);
    assert_int_equal(result.saved_tries, 1);
    assert_int_equal(result.first.line, 4);
    assert_int_equal(result.first.operation, 3);
    assert_int_equal(result.first.bytes, 100);
    assert_int_equal(result.first.live_bytes, 200);
    assert_string_equal(result.first.why, "there is no more");
    assert_int_equal(result.take.count, 3);
    assert_int_equal(result.give.count, 1);
    assert_true(result.requested_total == 260 && result.given_total == 260);
    assert_int_equal(result.state.free_bytes, 250 - 160);
    assert_false(fake.wrong);
    assert_int_equal(fake.count, 0); /* replay_run() has freed the blocks that the log leaks */
    assert_false(replay_fits(&script, &allocator));
    assert_int_equal(fake.count, 0);
    script_free(&script);
}

static void
test_samples_hold_the_most_of_their_stretch(void **state)
{
    struct fake fake = {.limit = 1000};
    struct allocator allocator = allocator_of(&fake);
    struct replay_sample samples[2];
    (void)state;
    struct script script = script_of("allocate,a,100,0,1\nallocate,b,500,0,1\nfree,b,500,0,"
                                     "1\nallocate,c,200,0,1\nallocate,d,900,0,1\n");
    assert_int_equal(replay_watch(&script, &allocator, samples, 2), 2);
    assert_int_equal(samples[0].operation, 3);
    assert_int_equal(samples[0].requested_bytes, 600);
    assert_int_equal(samples[0].given_bytes, 600);
    assert_false(samples[0].failed);
    assert_int_equal(samples[1].operation, 5);
    assert_int_equal(samples[1].requested_bytes, 300);
    assert_true(samples[1].failed);
    assert_int_equal(fake.count, 0);
    script_free(&script);
}

static void
test_the_smallest_limit_is_found(void **state)
{
    struct allocator_options options = {.streams = 1};
    (void)state;
    /* A small live block separates two blocks of 64 KiB. After the first of them is freed, a block
     * of 72 KiB does not fit into the gap. It must be placed at the end, so the smallest limit is
     * the sum of all blocks. */
    struct script script = script_of("allocate,a,65536,0,1\nallocate,b,256,0,1\nallocate,c,65536,0,"
                                     "1\nfree,a,65536,0,1\nallocate,d,73728,0,1\n");
    uint64_t limit = replay_smallest_limit(&script, best_fit_open, &options, 1024 * KIB);
    uint64_t least = 65536 + 256 + 65536 + 73728;
    assert_true(limit >= least && limit <= least + script.peak_bytes / 1000 + 256);
    assert_int_equal(replay_smallest_limit(&script, best_fit_open, &options, least - 1), 0);
    script_free(&script);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_have_the_fields_of_their_line),
        cmocka_unit_test(test_every_variant_is_read),
        cmocka_unit_test(test_a_header_alone_has_no_events),
        cmocka_unit_test(test_times_may_fall_a_little),
        cmocka_unit_test(test_bad_lines_are_named),
        cmocka_unit_test(test_long_fields_and_many_columns),
        cmocka_unit_test(test_changed_bytes_do_no_harm),
        cmocka_unit_test(test_what_a_log_does_not_tell_whole_is_counted),
        cmocka_unit_test(test_an_empty_log_makes_an_empty_script),
        cmocka_unit_test(test_slots_follow_addresses),
        cmocka_unit_test(test_live_bytes_beyond_64_bits_are_refused),
        cmocka_unit_test(test_neighbours_merge),
        cmocka_unit_test(test_the_smallest_hole_that_fits_is_taken),
        cmocka_unit_test(test_streams_have_lists_of_their_own),
        cmocka_unit_test(test_no_byte_is_lost_or_given_twice),
        cmocka_unit_test(test_a_take_without_memory_is_reported_and_passed_over),
        cmocka_unit_test(test_samples_hold_the_most_of_their_stretch),
        cmocka_unit_test(test_the_smallest_limit_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
