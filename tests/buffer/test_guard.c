/* SPDX-License-Identifier: MIT */
/* Tests the guard pages of host replicas in checked runs. The tests use many guarded replicas, let
 * allocations fail, and make mprotect() fail or block. */
#include "tests/buffer/support.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/sanitizer.h"
#include "src/debug/guard_pages.h"
#include "tests/support/short_memory.h"

/* COUNT integers need slightly less than one page. */
enum { COUNT = 1000, MANY = 1500, RETIRED = 4096 };

/* -- an mprotect() that fails once or blocks, if a test requests it ---------------------------- */

int __real_mprotect(void *memory, size_t bytes, int protection);
int __wrap_mprotect(void *memory, size_t bytes, int protection);

static atomic_bool refuses, holds, held;

int
__wrap_mprotect(void *memory, size_t bytes, int protection)
{
    if (atomic_exchange(&refuses, false)) {
        errno = ENOMEM;
        return -1;
    }
    for (atomic_store(&held, true); atomic_load(&holds);)
        sched_yield();
    return __real_mprotect(memory, bytes, protection);
}

/* -- the fixture ------------------------------------------------------------------------------- */

static int
setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    setenv("FERRY_DEBUG", "1", 1);
    fixture_open(f, &(ferry_context_options){.devices = "emulated"});
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    short_memory_disarm();
    return fixture_teardown(state);
}

static ferry_buffer *
make_named(ferry_context *context, const char *name)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(context, INT, COUNT, &(ferry_buffer_options){.name = name}, &buffer));
    return buffer;
}

static int *
open_host(ferry_buffer *buffer, ferry_access access, ferry_scope *scope)
{
    void *memory;
    OK(ferry_buffer_open_host(buffer, INT, access, 0, COUNT, scope, &memory));
    return memory;
}

static void
fill_ints(int *memory, int value)
{
    for (int i = 0; i < COUNT; i++)
        memory[i] = value;
}

/* -- many -------------------------------------------------------------------------------------- */

/* The test makes more guarded replicas than Ferry's hash table of guard pages has buckets. Each
 * replica must still have separate guard pages and a separate red zone. */
static void
test_many_guards(void **state)
{
    fixture *f = *state;
    static ferry_buffer *buffers[MANY];
    static ferry_scope scopes[MANY];
    static int *memory[MANY];
    for (int i = 0; i < MANY; i++) {
        char name[20], found[20];
        snprintf(name, sizeof(name), "number %d", i);
        buffers[i] = make_named(f->context, name);
        memory[i] = open_host(buffers[i], FERRY_OVERWRITE, &scopes[i]);
        assert_true(ferryi_guard_pages_name(memory[i], found, sizeof(found)));
        assert_string_equal(found, name);
    }
    for (int i = 0; i < MANY; i++)
        fill_ints(memory[i], i);
    memory[700][COUNT] = 1; /* an invalid write, one element past the end */
    for (int i = 0; i < MANY; i++) {
        OK(ferry_scope_close(&scopes[i]));
        assert_int_equal(f->errors, i >= 700);
    }
    fixture_expect_log(f, "overrun of buffer \"number 700\"");
    for (int i = 0; i < MANY; i++) {
        expect_constant(f, buffers[i], 0, 0, COUNT, i);
        ferry_buffer_destroy(&buffers[i]);
    }
}

static const void *
make_and_destroy(fixture *f, const char *name)
{
    ferry_scope scope;
    ferry_buffer *buffer = make_named(f->context, name);
    const void *memory = open_host(buffer, FERRY_OVERWRITE, &scope);
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&buffer);
    return memory;
}

/* Ferry keeps the guard pages of the last RETIRED destroyed buffers, so that a fault report can
 * name the buffer. If one more buffer is destroyed, Ferry must free the oldest guard pages. */
static void
test_old_guards_are_forgotten(void **state)
{
    fixture *f = *state;
    char name[20];
    const void *oldest = make_and_destroy(f, "oldest"), *newest = NULL;
    for (int i = 0; i < RETIRED; i++) {
        assert_true(ferryi_guard_pages_name(oldest, name, sizeof(name)));
        assert_string_equal(name, "oldest");
        newest = make_and_destroy(f, "newer");
    }
    /* The operating system may have reused the old address for a newer buffer. */
    if (ferryi_guard_pages_name(oldest, name, sizeof(name)))
        assert_string_equal(name, "newer");
    assert_true(ferryi_guard_pages_name(newest, name, sizeof(name)));
}

/* -- accessible pages -------------------------------------------------------------------------- */

enum { SHOWN = 3 };

/* Checks which pages at `memory` the program may write ('w'), only read ('r'), or not use ('-').
 * The system copies a byte from and to each page, and fails where an access of the program would
 * fault.
 */
static void
expect_pages(char *memory, const char *wanted)
{
    char found[SHOWN + 1] = {0}, byte;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    for (size_t i = 0; i < SHOWN; i++) {
        char *page = memory + i * ferryi_page_bytes();
        bool reads = write(ends[1], page, 1) == 1;
        found[i] = !reads ? '-' : read(ends[0], page, 1) == 1 ? 'w' : 'r';
        if (found[i] == 'r')
            assert_int_equal(read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
    assert_string_equal(found, wanted);
}

/* Where the bytes of the buffer are current before it is opened. */
enum newest { NEVER_WRITTEN, AT_HOST, AT_DEVICE, PAGE_1_AT_DEVICE, AT_BOTH, NEWEST_COUNT };

static ferry_buffer *
make_pages(fixture *f, enum newest newest, char **memory)
{
    const size_t page = ferryi_page_bytes() / sizeof(int);
    ferry_buffer *buffer = make_ints(f, SHOWN * page);
    ferry_scope scope;
    *memory = open_at(f, buffer, 0, FERRY_READ, 0, FERRY_REST, &scope);
    OK(ferry_scope_close(&scope));
    if (newest != NEVER_WRITTEN)
        touch(f, buffer, 0, FERRY_OVERWRITE, 0, FERRY_REST);
    if (newest == AT_DEVICE)
        touch(f, buffer, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    if (newest == PAGE_1_AT_DEVICE)
        touch(f, buffer, 1, FERRY_UPDATE, page, page);
    if (newest == AT_BOTH)
        touch(f, buffer, 1, FERRY_READ, 0, FERRY_REST);
    expect_pages(*memory, "---");
    return buffer;
}

/* A scope at the host gives the program the pages of its range, and a hold those that are current.
 * Nothing else gives it any, and what was given ends with the scope or the hold. */
static void
test_pages_follow_what_is_open(void **state)
{
    fixture *f = *state;
    const size_t page = ferryi_page_bytes() / sizeof(int);
    static const struct {
        int place;
        ferry_access access;
        size_t begin, end; /* pages */
        const char *pages;
    } scopes[] = {
        {0, FERRY_READ, 0, 3, "rrr"},      {0, FERRY_UPDATE, 0, 3, "www"},
        {0, FERRY_OVERWRITE, 0, 3, "www"}, {0, FERRY_READ, 1, 2, "-r-"},
        {0, FERRY_UPDATE, 2, 3, "--w"},    {0, FERRY_OVERWRITE, 0, 1, "w--"},
        {1, FERRY_READ, 0, 3, "---"},      {1, FERRY_UPDATE, 0, 3, "---"},
        {1, FERRY_OVERWRITE, 1, 2, "---"},
    };
    static const char *const when_held[] = {[NEVER_WRITTEN] = "www",
                                            [AT_HOST] = "www",
                                            [AT_DEVICE] = "---",
                                            [PAGE_1_AT_DEVICE] = "w-w",
                                            [AT_BOTH] = "www"};
    for (enum newest newest = 0; newest < NEWEST_COUNT; newest++) {
        for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
            char *memory;
            ferry_buffer *buffer = make_pages(f, newest, &memory);
            ferry_scope scope;
            (void)open_at(f, buffer, scopes[i].place, scopes[i].access, scopes[i].begin * page,
                          (scopes[i].end - scopes[i].begin) * page, &scope);
            expect_pages(memory, scopes[i].pages);
            OK(ferry_scope_close(&scope));
            expect_pages(memory, "---");
            ferry_buffer_destroy(&buffer);
        }
        for (int place = 0; place <= 1; place++) {
            char *memory;
            void *kept;
            ferry_buffer *buffer = make_pages(f, newest, &memory);
            OK(ferry_buffer_hold(buffer, place, &kept));
            expect_pages(memory, place ? "---" : when_held[newest]);
            OK(ferry_buffer_sync_to(buffer, 0, FERRY_REST, 0, NULL));
            expect_pages(memory, place ? "---" : "www");
            OK(ferry_buffer_release(buffer, place));
            expect_pages(memory, "---");
            ferry_buffer_destroy(&buffer);
        }
    }
}

/* A lease pins its replica, as a hold does, but gives the program no more than its range. A call of
 * the library that uses the replica gives it nothing. */
static void
test_pages_of_leases_and_calls(void **state)
{
    fixture *f = *state;
    const size_t page = ferryi_page_bytes() / sizeof(int);
    static int values[1000];
    char *memory;
    void *kept;
    ferry_lease *lease;
    ferry_buffer *buffer = make_pages(f, AT_HOST, &memory);
    for (int held_too = 0; held_too < 2; held_too++) {
        OK(ferry_lease_open(
            buffer, INT,
            &(ferry_lease_options){.access = FERRY_READ, .offset = page, .count = page}, &lease,
            &kept));
        if (held_too)
            OK(ferry_buffer_hold(buffer, 0, &kept));
        expect_pages(memory, held_too ? "www" : "-r-");
        OK(ferry_lease_close(lease));
        expect_pages(memory, held_too ? "www" : "---");
        ferry_lease_destroy(&lease);
    }
    OK(ferry_buffer_release(buffer, 0));
    OK(ferry_buffer_copy_from(buffer, INT, 0, 1000, values, NULL));
    expect_pages(memory, "---");
    ferry_buffer_destroy(&buffer);
}

/* A coherent place uses the host's memory, so scopes and holds there give the program its pages,
 * whichever number the place has. */
static void
test_pages_of_a_coherent_place(void **state)
{
    static const char *const devices[] = {"host,emulated", "emulated,host"};
    (void)state;
    setenv("FERRY_DEBUG", "1", 1);
    for (int i = 0; i < 2; i++) {
        fixture fixed, *f = &fixed;
        const int coherent = i + 1, apart = 2 - i;
        char *memory;
        void *kept;
        ferry_scope scope;
        fixture_open(f, &(ferry_context_options){.devices = devices[i]});
        ferry_buffer *buffer = make_pages(f, AT_HOST, &memory);
        for (int place = 1; place <= 2; place++) {
            (void)open_at(f, buffer, place, FERRY_READ, 0, FERRY_REST, &scope);
            expect_pages(memory, place == apart ? "---" : "rrr");
            OK(ferry_scope_close(&scope));
            OK(ferry_buffer_hold(buffer, place, &kept));
            expect_pages(memory, place == apart ? "---" : "www");
            OK(ferry_buffer_release(buffer, place));
            expect_pages(memory, "---");
        }
        /* What the other device has written is not current at the coherent place. */
        touch(f, buffer, apart, FERRY_OVERWRITE, 0, FERRY_REST);
        OK(ferry_buffer_hold(buffer, coherent, &kept));
        expect_pages(memory, "---");
        OK(ferry_buffer_release(buffer, coherent));
        ferry_buffer_destroy(&buffer);
        fixture_close(f);
    }
}

/* -- refusals ---------------------------------------------------------------------------------- */

/* If there is no memory for a replica's guard pages, the call succeeds and the replica is used
 * without them. */
static void
test_no_memory_for_guards(void **state)
{
    fixture *f = *state;
    bool tripped = true;
    unsigned unguarded = 0;
    for (uint64_t nth = 1; tripped; nth++) {
        ferry_buffer *buffer = make_named(f->context, "short");
        ferry_scope scope;
        void *memory;
        short_memory_arm(nth);
        ferry_status status =
            ferry_buffer_open_host(buffer, INT, FERRY_OVERWRITE, 0, COUNT, &scope, &memory);
        tripped = short_memory_tripped();
        short_memory_disarm();
        if (status != FERRY_OK) {
            assert_int_equal(status, FERRY_ERROR_OUT_OF_MEMORY);
            memory = open_host(buffer, FERRY_OVERWRITE, &scope);
        }
        char name[20];
        unguarded += !ferryi_guard_pages_name(memory, name, sizeof(name));
        fill_ints(memory, (int)nth);
        OK(ferry_scope_close(&scope));
        expect_constant(f, buffer, 0, 0, COUNT, (int)nth);
        expect_constant(f, buffer, 1, 0, COUNT, (int)nth);
        ferry_buffer_destroy(&buffer);
    }
    /* Two replicas have no guard pages. For one of them, the record of its guard pages could not be
     * allocated. For the other one, the list of its pages could not be allocated. */
    assert_int_equal(unguarded, 2);
}

/* Opens alternating pages of the buffer, and writes to each of them. The pages then need a memory
 * map each. */
static void
write_alternating_pages(ferry_buffer *buffer, size_t pages)
{
    enum { MOST = 64 };
    ferry_scope scopes[MOST];
    size_t per_page = ferryi_page_bytes() / sizeof(int);
    for (size_t i = 0; i < pages; i++) {
        void *memory;
        OK(ferry_buffer_open_host(buffer, INT, FERRY_OVERWRITE, 2 * i * per_page, per_page,
                                  &scopes[i], &memory));
        *(int *)memory = (int)i;
    }
    for (size_t i = 0; i < pages; i++)
        OK(ferry_scope_close(&scopes[i]));
}

static unsigned map_warnings;

static void
count_map_warnings(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    map_warnings += level <= FERRY_LOG_WARNING && strstr(message, "its pages are not guarded");
}

/* A right program with more host replicas than the memory maps of the process suffice for goes on
 * without guard pages, after one warning. So does one with a replica that would need too many. */
static void
test_more_replicas_than_maps(void **state)
{
    (void)state;
    enum { PAGES = 60 };
    size_t most = 65530, per_page = ferryi_page_bytes() / sizeof(int);
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (file && fscanf(file, "%zu", &most) != 1)
        most = 65530;
    if (file)
        fclose(file);
    if (most > 200000 || FERRYI_ADDRESS_SANITIZER)
        skip();
    size_t count = most / 6 + 100;
    ferry_context *context;
    ferry_buffer **buffers = calloc(count, sizeof(ferry_buffer *)), *split;
    ferry_scope scope;
    assert_non_null(buffers);
    OK(ferry_context_create(
        &(ferry_context_options){.devices = "emulated", .log = count_map_warnings}, &context));
    OK(ferry_buffer_create(context, INT, 2 * PAGES * per_page, NULL, &split));
    write_alternating_pages(split, 1);
    for (size_t i = 0; i < count; i++) {
        buffers[i] = make_named(context, "one of many");
        fill_ints(open_host(buffers[i], FERRY_OVERWRITE, &scope), (int)i);
        OK(ferry_scope_close(&scope));
    }
    assert_int_equal(map_warnings, 1);
    write_alternating_pages(split, PAGES);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(open_host(buffers[i], FERRY_READ, &scope)[COUNT - 1], (int)i);
        OK(ferry_scope_close(&scope));
        ferry_buffer_destroy(&buffers[i]);
    }
    assert_int_equal(map_warnings, 1);
    ferry_buffer_destroy(&split);
    ferry_context_destroy(&context);
    free(buffers);
}

static unsigned warnings;

static void
use_other(void *user)
{
    ferry_buffer **other = user;
    ferry_scope scope;
    (void)open_host(*other, FERRY_OVERWRITE, &scope);
    OK(ferry_scope_close(&scope));
}

static void
note_warning(ferry_log_level level, const char *message, void *user)
{
    ferryi_thread thread;
    if (level != FERRY_LOG_WARNING ||
        !strstr(message, "check buffer \"refused\": the system refuses to change 1 pages"))
        return;
    warnings++;
    OK(ferryi_thread_start(&thread, "uses another", use_other, user));
    ferryi_thread_join(thread);
}

/* If the system refuses to make guard pages accessible, a warning is logged before an access to
 * these pages faults. Other threads can use guarded buffers during the log callback, because no
 * lock is held. */
static void
test_refused_pages_are_reported(void **state)
{
    (void)state;
    ferry_context *context;
    ferry_scope scope;
    ferry_buffer *other = NULL;
    OK(ferry_context_create(
        &(ferry_context_options){.devices = "emulated", .log = note_warning, .log_user = &other},
        &context));
    ferry_buffer *buffer = make_named(context, "refused");
    other = make_named(context, "other");
    warnings = 0;
    atomic_store(&refuses, true);
    (void)open_host(buffer, FERRY_READ, &scope);
    assert_false(atomic_load(&refuses));
    assert_int_equal(warnings, 1);
    OK(ferry_scope_close(&scope));
    fill_ints(open_host(buffer, FERRY_OVERWRITE, &scope), 5);
    OK(ferry_scope_close(&scope));
    assert_int_equal(warnings, 1);
    int values[COUNT];
    OK(ferry_buffer_copy_to(buffer, INT, 0, COUNT, values, NULL));
    assert_int_equal(values[COUNT - 1], 5);
    ferry_buffer_destroy(&other);
    ferry_buffer_destroy(&buffer);
    ferry_context_destroy(&context);
}

/* -- faults ------------------------------------------------------------------------------------ */

static atomic_bool faulting;
/* The action for SIGSEGV before cmocka installs a handler that survives faults. A child process
 * that must die restores this action. */
static struct sigaction uncaught;

/* Opens a scope on a guarded buffer. mprotect() blocks in this call, so the thread keeps the lock
 * of the table of guards. */
static void *
keep_busy(void *user)
{
    ferry_scope scope;
    (void)open_host(user, FERRY_OVERWRITE, &scope);
    return NULL;
}

/* Waits until a fault is about to happen, and a little longer. Then lets mprotect() return, so that
 * the thread that called it releases the lock of the table of guards. */
static void *
let_go(void *user)
{
    (void)user;
    while (!atomic_load(&faulting))
        sched_yield();
    for (int i = 0; i < 50; i++)
        sched_yield();
    atomic_store(&holds, false);
    return NULL;
}

/* Runs in a child process. Writes to a buffer after its scope was closed, while a second thread
 * holds the lock of the table of guards. The write raises SIGSEGV. */
static void
fault_beside(bool goes_on)
{
    ferry_context *context;
    ferry_scope scope;
    pthread_t busy, other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "emulated"}, &context));
    ferry_buffer *kept = make_named(context, "kept"), *changed = make_named(context, "changed");
    int *memory = open_host(kept, FERRY_OVERWRITE, &scope);
    OK(ferry_scope_close(&scope));
    atomic_store(&held, false);
    atomic_store(&holds, true);
    assert_int_equal(pthread_create(&busy, NULL, keep_busy, changed), 0);
    while (!atomic_load(&held))
        sched_yield();
    if (goes_on)
        assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
    atomic_store(&faulting, true);
    *(volatile int *)memory = 1;
}

/* Runs fault_beside() in a child process, and reads the text that the child prints to its standard
 * error. */
static void
hear_fault(bool goes_on, char *text, size_t text_bytes)
{
    int ends[2], how;
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        sigaction(SIGSEGV, &uncaught, NULL);
        dup2(ends[1], STDERR_FILENO);
        fault_beside(goes_on);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && length < text_bytes - 1; length += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], text + length, text_bytes - 1 - length);
    text[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_false(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* A fault happens while a second thread holds the lock of the table of guards. If the lock is soon
 * released, the handler of SIGSEGV must report the buffer. If not, the process must die without a
 * report instead of blocking. */
static void
test_faults_while_pages_change(void **state)
{
    static char text[1 << 16];
    (void)state;
    if (FERRYI_THREAD_SANITIZER)
        skip(); /* because the thread sanitizer handles faults and fork() itself */
    setenv("FERRY_DEBUG", "1", 1);
    hear_fault(true, text, sizeof(text));
    assert_non_null(strstr(text, "ferry: write to byte 0 of buffer \"kept\""));
    hear_fault(false, text, sizeof(text));
    assert_null(strstr(text, "ferry: "));
}

#define GUARDED(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        /* This test must run first. Ferry installs its fault handler with the first guard of a
         * process. In this test, the child process must do that. */
        cmocka_unit_test(test_faults_while_pages_change),
        GUARDED(test_many_guards),
        GUARDED(test_old_guards_are_forgotten),
        GUARDED(test_pages_follow_what_is_open),
        GUARDED(test_pages_of_leases_and_calls),
        cmocka_unit_test(test_pages_of_a_coherent_place),
        GUARDED(test_no_memory_for_guards),
        GUARDED(test_refused_pages_are_reported),
        cmocka_unit_test(test_more_replicas_than_maps),
    };
    sigaction(SIGSEGV, NULL, &uncaught);
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
