/* SPDX-License-Identifier: MIT */
/* Tests the guard pages of the checked runs. The tests create no buffers: an array of the test
 * states which accesses each page allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/debug/guard_pages.h"

enum { PAGES = 4 };

/* A replica of PAGES - 1 whole pages and half a page. The test gives each page its own protection.
 */
struct fixture {
    char *memory, *alias;
    size_t page;
    bool moved; /* whether the owner has moved the replica to different memory */
    bool stale[PAGES];
    enum ferryi_protection allowed[PAGES];
    struct ferryi_log log;
    struct ferryi_guarded replica;
    int errors;
    char logged[400];
    int ends[2]; /* pipe that is_readable() and is_writable() use */
};

static bool
report(void *owner, const char *memory, struct ferryi_guard_pages *guard)
{
    const struct fixture *f = owner;
    assert_ptr_equal(memory, f->memory);
    for (size_t i = 0; i < PAGES && !f->moved; i++) {
        if (!f->stale[i])
            ferryi_guard_pages_mark_current(guard, i * f->page, (i + 1) * f->page);
        ferryi_guard_pages_allow(guard, i * f->page, (i + 1) * f->page, f->allowed[i]);
    }
    return !f->moved;
}

static void
note_error(ferry_log_level level, const char *message, void *user)
{
    struct fixture *f = user;
    f->errors += level == FERRY_LOG_ERROR;
    snprintf(f->logged, sizeof(f->logged), "%s", message);
}

static void
open_pages(struct fixture *f, size_t begin, size_t end)
{
    f->alias = ferryi_guard_pages_open(
        &f->replica, &(struct ferryi_guard_call){.name = "a call", .begin = begin, .end = end});
}

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    void *memory;
    assert_non_null(f);
    f->page = ferryi_page_bytes();
    assert_int_equal(ferryi_double_map_alloc(NULL, PAGES * f->page, &memory), FERRY_OK);
    assert_int_equal(pipe(f->ends), 0);
    f->memory = memory;
    f->log = (struct ferryi_log){note_error, f};
    f->replica = (struct ferryi_guarded){.memory = memory,
                                         .bytes = PAGES * f->page - f->page / 2,
                                         .align = 64,
                                         .name = "heights",
                                         .log = &f->log,
                                         .report = report,
                                         .owner = f};
    open_pages(f, 0, f->page);
    assert_ptr_not_equal(f->alias, f->memory);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    ferryi_guard_pages_retire(f->memory, "was destroyed");
    assert_int_equal(ferryi_double_map_free(NULL, f->memory, PAGES * f->page), FERRY_OK);
    close(f->ends[0]);
    close(f->ends[1]);
    free(f);
    return 0;
}

/* Returns whether the page is readable. Lets the kernel write a byte of the page to a pipe, which
 * fails if the page is not readable. Then reads the byte from the pipe. */
static bool
is_readable(const struct fixture *f, size_t page)
{
    char byte;
    if (write(f->ends[1], f->alias + page * f->page, 1) != 1)
        return false;
    assert_int_equal(read(f->ends[0], &byte, 1), 1);
    return true;
}

/* Returns whether the page is writable. Lets the kernel read a byte from a pipe into the page,
 * which fails if the page is not writable. */
static bool
is_writable(const struct fixture *f, size_t page)
{
    char byte = 1;
    assert_int_equal(write(f->ends[1], &byte, 1), 1);
    if (read(f->ends[0], f->alias + page * f->page, 1) == 1)
        return true;
    assert_int_equal(read(f->ends[0], &byte, 1), 1);
    return false;
}

static void
expect_pages(const struct fixture *f)
{
    for (size_t i = 0; i < PAGES; i++) {
        assert_int_equal(is_readable(f, i), f->allowed[i] >= FERRYI_PROTECT_READ);
        assert_int_equal(is_writable(f, i), f->allowed[i] == FERRYI_PROTECT_WRITE);
    }
}

/* A replica has a second mapping whose pages are protected. Checks that each page has the
 * protection that the owner of the replica reported last. */
static void
test_pages_follow_the_report(void **state)
{
    struct fixture *f = *state;
    unsigned combinations = 3 * 3 * 3 * 3;
    for (unsigned n = 0; n < combinations; n++) {
        /* Orders the combinations so that consecutive ones differ in several pages. */
        unsigned rest = n * 37 % combinations;
        for (size_t i = 0; i < PAGES; i++, rest /= 3)
            f->allowed[i] = (enum ferryi_protection)(rest % 3);
        ferryi_guard_pages_update(&f->replica);
        expect_pages(f);
    }
}

/* Checks that a report about a replica is ignored if the replica is now in different memory. */
static void
test_report_about_other_memory(void **state)
{
    struct fixture *f = *state;
    f->allowed[1] = FERRYI_PROTECT_WRITE;
    ferryi_guard_pages_update(&f->replica);
    f->moved = true;
    ferryi_guard_pages_update(&f->replica);
    expect_pages(f);
}

/* Checks that both mappings of a replica contain the same bytes. */
static void
test_alias_has_the_same_bytes(void **state)
{
    struct fixture *f = *state;
    f->allowed[0] = FERRYI_PROTECT_WRITE;
    open_pages(f, 0, f->page);
    f->alias[8] = 5;
    assert_int_equal(f->memory[8], 5);
}

/* Writes behind the end of the replica, in its last page. Checks that this overrun is logged once.
 */
static void
test_overruns_are_logged(void **state)
{
    struct fixture *f = *state;
    f->allowed[PAGES - 1] = FERRYI_PROTECT_WRITE;
    open_pages(f, 0, 8);
    f->alias[f->replica.bytes - 1] = 1;
    ferryi_guard_pages_update(&f->replica);
    assert_int_equal(f->errors, 0);
    f->alias[f->replica.bytes + 2] = 1;
    ferryi_guard_pages_update(&f->replica);
    ferryi_guard_pages_update(&f->replica);
    assert_int_equal(f->errors, 1);
    assert_non_null(
        strstr(f->logged, "overrun of buffer \"heights\": memory 2 bytes past its end"));
    assert_non_null(strstr(f->logged, "the last call was a call of bytes 0 to 8"));
}

/* -- messages ---------------------------------------------------------------------------------- */

static void
expect_text(const char *address, bool writes, const char *expected)
{
    char text[400];
    assert_true(ferryi_guard_pages_explain(address, writes, text, sizeof(text)));
    assert_string_equal(text, expected);
}

/* Checks the messages about accesses that fault. A message must name the byte, the reason, and the
 * last call that opened the buffer. */
static void
test_messages(void **state)
{
    struct fixture *f = *state;
    f->allowed[1] = FERRYI_PROTECT_READ;
    f->stale[2] = true;
    open_pages(f, 0, 64);
    expect_text(f->alias + 3, false,
                "ferry: read of byte 3 of buffer \"heights\" in no open scope; the last one was a "
                "call of bytes 0 to 64");
    char expected[400];
    snprintf(expected, sizeof(expected),
             "ferry: write to byte %zu of buffer \"heights\": the pointer came from a call of "
             "bytes 0 to 64, and may only be read",
             f->page);
    expect_text(f->alias + f->page, true, expected);
    snprintf(expected, sizeof(expected),
             "ferry: write to byte %zu of buffer \"heights\" in no open scope, where newer bytes "
             "are at another place; the last call was a call of bytes 0 to 64",
             2 * f->page);
    expect_text(f->alias + 2 * f->page, true, expected);
    expect_text(f->alias - 4, true,
                "ferry: write to memory 4 bytes before the start of buffer \"heights\" in no open "
                "scope; the last one was a call of bytes 0 to 64");
}

/* Checks that the message about a fault names the closed lease to which the byte belonged. After
 * the note about this lease is removed, the message must not name the lease. */
static void
test_message_about_a_lease(void **state)
{
    struct fixture *f = *state;
    struct ferryi_guard_note older, newer;
    ferryi_guard_pages_add_note(f->memory, &older, "numpy", 0, 16);
    ferryi_guard_pages_add_note(f->memory, &newer, "torch", 8, 16);
    expect_text(f->alias + 4, false,
                "ferry: read of byte 4 of buffer \"heights\", used after its access ended: the "
                "lease of bytes 0 to 16, held by numpy, is closed");
    expect_text(f->alias + 8, false,
                "ferry: read of byte 8 of buffer \"heights\", used after its access ended: the "
                "lease of bytes 8 to 16, held by torch, is closed");
    ferryi_guard_pages_remove_note(f->memory, &older);
    open_pages(f, 0, 64);
    expect_text(f->alias + 4, false,
                "ferry: read of byte 4 of buffer \"heights\" in no open scope; the last one was a "
                "call of bytes 0 to 64");
}

/* Checks that the guarded mapping of a freed replica stays inaccessible. The message about a fault
 * there must say why the replica was freed. */
static void
test_message_about_a_freed_replica(void **state)
{
    struct fixture *f = *state;
    char name[20];
    f->allowed[0] = FERRYI_PROTECT_WRITE;
    open_pages(f, 0, 64);
    ferryi_guard_pages_retire(f->memory, "was destroyed");
    assert_false(is_readable(f, 0));
    expect_text(f->alias + 9, true,
                "ferry: write to byte 9 of buffer \"heights\", which was destroyed; the pointer "
                "came from a call");
    assert_true(ferryi_guard_pages_name(f->alias, name, sizeof(name)));
    assert_string_equal(name, "heights");
    assert_false(ferryi_guard_pages_name(f->memory, name, sizeof(name)));
}

/* Checks that memory that cannot be mapped a second time keeps its address and has no guard pages.
 */
static void
test_other_memory_has_no_guard(void **state)
{
    static char other[64];
    char name[20];
    (void)state;
    const struct ferryi_guarded replica = {
        .memory = other, .bytes = sizeof(other), .align = 64, .name = "other", .report = report};
    assert_ptr_equal(ferryi_guard_pages_open(&replica, &(struct ferryi_guard_call){.name = "call"}),
                     other);
    ferryi_guard_pages_update(&replica);
    ferryi_guard_pages_retire(other, "was destroyed");
    assert_false(ferryi_guard_pages_name(other, name, sizeof(name)));
}

#define GUARDED(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        GUARDED(test_pages_follow_the_report),
        GUARDED(test_report_about_other_memory),
        GUARDED(test_alias_has_the_same_bytes),
        GUARDED(test_overruns_are_logged),
        GUARDED(test_messages),
        GUARDED(test_message_about_a_lease),
        GUARDED(test_message_about_a_freed_replica),
        cmocka_unit_test(test_other_memory_has_no_guard),
    };
    return cmocka_run_group_tests_name("guard_pages", tests, NULL, NULL);
}
