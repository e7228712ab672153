/* SPDX-License-Identifier: MIT */

/* Tests the allocation logs of pools: the contents and the order of their lines, and the names of
 * the log files of a context. */

#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

#include "cli/log_reader.h"
#include "src/base/base.h"
#include "tests/unit/pool_backend.h"

/* -- a pool with a log in a temporary folder --------------------------------------------------- */

struct logged {
    struct backend backend;
    char folder[64], path[128];
    ferry_pool *pool;
    char said[512]; /* the last message of the context's log */
};

static void
note(ferry_log_level level, const char *message, void *user)
{
    struct logged *logged = user;
    (void)level;
    snprintf(logged->said, sizeof(logged->said), "%s", message);
}

static void
make_folder(struct logged *logged)
{
    memset(logged, 0, sizeof(*logged));
    strcpy(logged->folder, "/tmp/ferry-log-XXXXXX");
    assert_non_null(mkdtemp(logged->folder));
    snprintf(logged->path, sizeof(logged->path), "%s/pool.csv", logged->folder);
}

static struct ferryi_log message_log;

static void
open_logged(struct logged *logged, size_t limit_bytes)
{
    make_folder(logged);
    pthread_mutex_init(&logged->backend.mutex, NULL);
    message_log = (struct ferryi_log){note, logged};
    struct ferryi_pool_config config = {
        .backend = {.alloc = backend_alloc,
                    .free = backend_free,
                    .user = &logged->backend,
                    .align = 4096},
        .log = &message_log,
        .kind = FERRY_MEMORY_PAGEABLE,
        .limit_bytes = limit_bytes,
        .name = "test memory",
    };
    assert_int_equal(ferryi_allocation_log_open(logged->path, &config.allocation_log), FERRY_OK);
    assert_int_equal(ferryi_pool_create(&config, &logged->pool), FERRY_OK);
}

static char *
read_text(const char *path)
{
    static char text[16 << 20];
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    size_t count = fread(text, 1, sizeof(text) - 1, file);
    text[count] = 0;
    fclose(file);
    return text;
}

static struct log
read_log(const char *path)
{
    struct log log = {0};
    struct log_problem problem = {0};
    char *text = read_text(path);
    if (!log_read(text, strlen(text), &log, &problem))
        fail_msg("%s:%zu: %s", path, problem.line, problem.text);
    return log;
}

static void
remove_folder(const struct logged *logged)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", logged->folder);
    assert_int_equal(system(command), 0);
}

static void
close_logged(struct logged *logged)
{
    ferryi_pool_destroy(&logged->pool);
    assert_string_equal(logged->said, ""); /* no line was lost */
    pthread_mutex_destroy(&logged->backend.mutex);
}

static ferry_block *
take_from(ferry_pool *pool, size_t bytes)
{
    ferry_block *block;
    assert_int_equal(ferry_pool_allocate(pool, bytes, NULL, &block), FERRY_OK);
    return block;
}

/* -- lines ------------------------------------------------------------------------------------- */

/* Checks that a log has exactly the format that RMM's tools expect. */
static void
test_lines_have_the_form_of_rmm(void **state)
{
    struct logged logged;
    regex_t form;
    (void)state;
    open_logged(&logged, 0);
    give(take_from(logged.pool, 1000));
    give(take_from(logged.pool, 0));
    close_logged(&logged);
    char *text = read_text(logged.path);
    assert_int_equal(
        regcomp(&form,
                "^Thread,Time,Action,Pointer,Size,Stream\n"
                "([0-9]+),[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6},allocate,(0x[0-9a-f]+),1000,0\n"
                "[0-9]+,[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6},free,0x[0-9a-f]+,1000,0\n"
                "[0-9]+,[0-9:.]+,allocate,\\(nil\\),0,0\n"
                "[0-9]+,[0-9:.]+,free,\\(nil\\),0,0\n$",
                REG_EXTENDED),
        0);
    if (regexec(&form, text, 0, NULL, 0) != 0)
        fail_msg("the log is:\n%s", text);
    regfree(&form);
    remove_folder(&logged);
}

static void
test_each_take_and_give_is_a_line(void **state)
{
    struct logged logged;
    (void)state;
    open_logged(&logged, 0);
    ferry_block *first = take_from(logged.pool, 5000), *second = take_from(logged.pool, 3 * MIB);
    uintptr_t addresses[] = {(uintptr_t)first->pointer, (uintptr_t)second->pointer};
    give(first);
    first = take_from(logged.pool, 4900); /* a hit */
    assert_int_equal((uintptr_t)first->pointer, addresses[0]);
    give(first);
    give(second);
    assert_true(ferryi_pool_check(logged.pool));
    close_logged(&logged);

    struct log log = read_log(logged.path);
    const struct log_event expected[] = {
        {.action = LOG_ALLOCATE, .pointer = addresses[0], .bytes = 5000},
        {.action = LOG_ALLOCATE, .pointer = addresses[1], .bytes = 3 * MIB},
        {.action = LOG_FREE, .pointer = addresses[0], .bytes = 5000},
        {.action = LOG_ALLOCATE, .pointer = addresses[0], .bytes = 4900},
        {.action = LOG_FREE, .pointer = addresses[0], .bytes = 4900},
        {.action = LOG_FREE, .pointer = addresses[1], .bytes = 3 * MIB},
    };
    assert_int_equal(log.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(log.events[i].action, expected[i].action);
        assert_int_equal(log.events[i].pointer, expected[i].pointer);
        assert_int_equal(log.events[i].bytes, expected[i].bytes);
        assert_int_equal(log.events[i].thread, ferryi_thread_id());
    }
    log_free(&log);
    remove_folder(&logged);
}

/* Checks that a failed allocation is written to the log file immediately, because the program may
 * end before it closes the log. */
static void
test_a_failure_is_written_at_once(void **state)
{
    struct logged logged;
    ferry_block *block;
    (void)state;
    open_logged(&logged, MIB);
    ferry_block *held = take_from(logged.pool, 1000);
    assert_int_equal(ferry_pool_allocate(logged.pool, 2 * MIB, NULL, &block),
                     FERRY_ERROR_OUT_OF_MEMORY);
    struct log log = read_log(logged.path);
    assert_int_equal(log.count, 2);
    assert_int_equal(log.events[1].action, LOG_FAILURE);
    assert_int_equal(log.events[1].pointer, 0);
    assert_int_equal(log.events[1].bytes, 2 * MIB);
    log_free(&log);
    give(held);
    close_logged(&logged);
    remove_folder(&logged);
}

static void
test_a_block_given_twice_is_one_line(void **state)
{
    struct logged logged;
    (void)state;
    open_logged(&logged, 0);
    ferry_block *block = take_from(logged.pool, 1000), *again = block;
    give(block);
    assert_int_equal(ferry_block_free(&again, NULL), FERRY_ERROR_INVALID_ARGUMENT);
    close_logged(&logged);
    struct log log = read_log(logged.path);
    assert_int_equal(log.count, 2);
    log_free(&log);
    remove_folder(&logged);
}

static void
test_statistics_are_as_without_a_log(void **state)
{
    struct logged logged;
    (void)state;
    open_logged(&logged, 0);
    for (size_t i = 0; i < 1000; i++)
        give(take_from(logged.pool, 64 * KIB));
    ferry_pool_stats stats;
    assert_int_equal(ferry_pool_get_stats(logged.pool, &stats), FERRY_OK);
    assert_int_equal(stats.hits, 999);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.frees, 1000);
    close_logged(&logged);
    remove_folder(&logged);
}

/* -- threads ----------------------------------------------------------------------------------- */

/* Each thread of the test holds at most HELD blocks at a time. All blocks have one size class, so
 * that threads reuse each other's blocks. */
enum { THREADS = 4, ROUNDS = 15000, HELD = 2 };

static void *
take_and_give(void *argument)
{
    ferry_pool *pool = argument;
    ferry_block *held[HELD] = {0};
    uint64_t seed = ferryi_thread_id();
    for (size_t i = 0; i < ROUNDS + HELD; i++) {
        ferry_block **block = &held[i % HELD];
        if (*block && ferry_block_free(block, NULL) != FERRY_OK)
            return argument;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (i < ROUNDS &&
            ferry_pool_allocate(pool, 1 + (seed >> 33) % 256, NULL, block) != FERRY_OK)
            return argument;
    }
    return NULL;
}

struct count {
    uint64_t key;
    size_t count;
};

/* Returns the counter for `key` in a hash table. The table has `room` entries, which must be more
 * than there are keys. */
static struct count *
count_of(struct count *counts, size_t room, uint64_t key)
{
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % room;
    while (counts[i].key != 0 && counts[i].key != key)
        i = (i + 1) % room;
    counts[i].key = key;
    return &counts[i];
}

/* Several threads allocate and free blocks. For each address, the lines of the log must be an
 * allocation and a free in turn, even if different threads made these calls. */
static void
test_threads_write_whole_lines_in_an_order_that_happened(void **state)
{
    struct logged logged;
    pthread_t threads[THREADS];
    struct count by_thread[64] = {{0, 0}}, *live = calloc(1 << 16, sizeof(*live));
    size_t writers = 0;
    (void)state;
    open_logged(&logged, 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, logged.pool), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(ferryi_pool_check(logged.pool));
    close_logged(&logged);

    struct log log = read_log(logged.path);
    assert_int_equal(log.count, 2 * THREADS * ROUNDS);
    for (size_t i = 0; i < log.count; i++) {
        struct count *of_address = count_of(live, 1 << 16, log.events[i].pointer);
        assert_int_equal(log.events[i].action, of_address->count % 2 ? LOG_FREE : LOG_ALLOCATE);
        of_address->count++;
        writers += count_of(by_thread, 64, log.events[i].thread)->count++ == 0;
        assert_true(i == 0 || log.events[i].time_us >= log.events[i - 1].time_us);
    }
    assert_int_equal(writers, THREADS);
    log_free(&log);
    free(live);
    remove_folder(&logged);
}

/* -- files that cannot be written -------------------------------------------------------------- */

static void
test_a_file_that_cannot_be_made_is_an_error(void **state)
{
    ferryi_allocation_log *log = NULL;
    (void)state;
    assert_int_equal(ferryi_allocation_log_open("/dev/null/absent/log.csv", &log), FERRY_ERROR_IO);
    assert_non_null(
        strstr(ferry_last_error(), "open the allocation log /dev/null/absent/log.csv: Not a dir"));
    assert_null(log);
    assert_int_equal(ferryi_allocation_log_open("/dev/full", &log), FERRY_ERROR_IO);
    assert_null(log);
    assert_int_equal(ferryi_allocation_log_close(&log), FERRY_OK);
}

/* Lets a log write to a FIFO that has no reader. Closing the log must report that lines could not
 * be written. */
static void
test_lost_lines_are_reported_at_the_end(void **state)
{
    struct logged logged;
    (void)state;
    make_folder(&logged);
    assert_int_equal(mkfifo(logged.path, 0600), 0);
    int reader = open(logged.path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    ferryi_allocation_log *log;
    assert_int_equal(ferryi_allocation_log_open(logged.path, &log), FERRY_OK);
    close(reader);
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ferryi_allocation_log_write(log, FERRYI_ALLOCATION_FAILURE, NULL, 1, 0);
    assert_int_equal(ferryi_allocation_log_close(&log), FERRY_ERROR_IO);
    sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_non_null(strstr(ferry_last_error(), "lines are lost: Broken pipe"));
    assert_null(log);
    remove_folder(&logged);
}

/* -- contexts ---------------------------------------------------------------------------------- */

static void
use_a_buffer(ferry_context *context)
{
    ferry_float_buffer buffer = {0};
    ferry_scope scope;
    float *values;
    assert_int_equal(ferry_float_create(context, 1000, NULL, &buffer), FERRY_OK);
    assert_int_equal(
        ferry_float_overwrite_device(buffer, ferry_context_stream(context, 1), &scope, &values),
        FERRY_OK);
    assert_int_equal(ferry_scope_close(&scope), FERRY_OK);
    ferry_float_destroy(&buffer);
}

static void
expect_events(const char *prefix, const char *rest, size_t count, bool on_stream)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", prefix, rest);
    struct log log = read_log(path);
    assert_int_equal(log.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(log.events[i].bytes, 4000);
        assert_int_equal(log.events[i].stream != 0, on_stream);
    }
    log_free(&log);
}

static void
test_a_context_logs_each_pool_to_its_own_file(void **state)
{
    struct logged logged;
    char prefix[128];
    (void)state;
    make_folder(&logged);
    snprintf(prefix, sizeof(prefix), "%s/run", logged.folder);
    ferry_context_options options = {.devices = "emulated:2", .allocation_log = prefix};
    ferry_context *context;
    ferry_pool *pinned;
    ferry_block *block;
    setenv("FERRY_ALLOCATION_LOG", "/dev/null/absent/other",
           1); /* must have no effect, because the option overrides this variable */
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    unsetenv("FERRY_ALLOCATION_LOG");
    memset(prefix, 'x',
           strlen(prefix)); /* must have no effect, because the context has copied the prefix */
    use_a_buffer(context);
    assert_int_equal(ferry_context_pool(context, 0, FERRY_MEMORY_PINNED, &pinned), FERRY_OK);
    assert_int_equal(ferry_pool_allocate(pinned, 4000, NULL, &block), FERRY_OK);
    assert_int_equal(ferry_block_free(&block, NULL), FERRY_OK);
    ferry_context_destroy(&context);
    snprintf(prefix, sizeof(prefix), "%s/run", logged.folder);
    expect_events(prefix, ".emulated-0.device.csv", 2, true);
    expect_events(prefix, ".host.pinned.csv", 2, false);
    remove_folder(&logged);
}

static void
test_the_environment_numbers_contexts(void **state)
{
    struct logged logged;
    char prefix[128];
    (void)state;
    make_folder(&logged);
    snprintf(prefix, sizeof(prefix), "%s/run", logged.folder);
    setenv("FERRY_ALLOCATION_LOG", prefix, 1);
    for (size_t i = 0; i < 2; i++) {
        ferry_context *context;
        assert_int_equal(
            ferry_context_create(&(ferry_context_options){.devices = "emulated"}, &context),
            FERRY_OK);
        use_a_buffer(context);
        ferry_context_destroy(&context);
    }
    unsetenv("FERRY_ALLOCATION_LOG");
    expect_events(prefix, ".emulated-0.device.csv", 2, true);
    expect_events(prefix, ".2.emulated-0.device.csv", 2, true);
    remove_folder(&logged);
}

static void
test_a_context_whose_log_cannot_be_made_says_so(void **state)
{
    ferry_context_options options = {.devices = "emulated",
                                     .allocation_log = "/dev/null/absent/run"};
    ferry_context *context;
    ferry_pool *pool;
    (void)state;
    assert_int_equal(ferry_context_create(&options, &context), FERRY_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ferry_context_pool(context, 1, FERRY_MEMORY_DEVICE, &pool),
                         FERRY_ERROR_IO);
        assert_non_null(strstr(ferry_last_error(), "/dev/null/absent/run.emulated-0.device.csv"));
    }
    ferry_context_destroy(&context);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_have_the_form_of_rmm),
        cmocka_unit_test(test_each_take_and_give_is_a_line),
        cmocka_unit_test(test_a_failure_is_written_at_once),
        cmocka_unit_test(test_a_block_given_twice_is_one_line),
        cmocka_unit_test(test_statistics_are_as_without_a_log),
        cmocka_unit_test(test_threads_write_whole_lines_in_an_order_that_happened),
        cmocka_unit_test(test_a_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(test_lost_lines_are_reported_at_the_end),
        cmocka_unit_test(test_a_context_logs_each_pool_to_its_own_file),
        cmocka_unit_test(test_the_environment_numbers_contexts),
        cmocka_unit_test(test_a_context_whose_log_cannot_be_made_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
