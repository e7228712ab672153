/* SPDX-License-Identifier: MIT */
/* Tests the names of traces and allocation logs, and that no two processes write one file. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <ferry/ferry.h>
#include <ferry/int.h>

#include "src/base/output_file.h"

static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",   "PMI_RANK",
                                             "MV2_COMM_WORLD_RANK",  "PALS_RANKID", "SLURM_PROCID"};
enum { RANK_VARIABLES = sizeof(rank_variables) / sizeof(rank_variables[0]), PROCESSES = 4 };

static char folder[64];

static int
make_folder(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANK_VARIABLES; i++)
        unsetenv(rank_variables[i]);
    snprintf(folder, sizeof(folder), "/tmp/ferry-output-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int
remove_folder(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static const char *
path_of(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static size_t
bytes_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (size_t)info.st_size : SIZE_MAX;
}

/* -- names ------------------------------------------------------------------------------------- */

static void
expect_name(const char *pattern, const char *expected)
{
    char *name = ferryi_output_name(pattern);
    assert_non_null(name);
    assert_string_equal(name, expected);
    free(name);
}

static void
test_names_have_patterns(void **state)
{
    char expected[64];
    (void)state;
    expect_name("run.json", "run.json");
    expect_name("", "");
    expect_name("100%% of %d%", "100% of %d%");
    expect_name("%r", "0");
    snprintf(expected, sizeof(expected), "a%ld-%ld.json", (long)getpid(), (long)getpid());
    expect_name("a%p-%p.json", expected);
}

/* Each child of a fork has its own names, also if it runs after the previous child has ended. */
static void
test_forked_children_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            char expected[64];
            snprintf(expected, sizeof(expected), "run.json.pid%ld", (long)getpid());
            expect_name("run.json", expected);
            snprintf(expected, sizeof(expected), "run0.json.pid%ld", (long)getpid());
            expect_name("run%r.json", expected);
            snprintf(expected, sizeof(expected), "run.%ld", (long)getpid());
            expect_name("run.%p", expected);
            expect_name("/dev/null", "/dev/null");
            setenv(rank_variables[0], "5", 1);
            snprintf(expected, sizeof(expected), "run.json.rank5.pid%ld", (long)getpid());
            expect_name("run.json", expected);
            expect_name("/dev/null", "/dev/null");
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void
test_ranks_have_names(void **state)
{
    (void)state;
    for (size_t i = RANK_VARIABLES; i-- > 0;) { /* an earlier variable has precedence */
        char rank[16], expected[64];
        snprintf(rank, sizeof(rank), "%zu", 10 + i);
        setenv(rank_variables[i], rank, 1);
        snprintf(expected, sizeof(expected), "run.json.rank%zu", 10 + i);
        expect_name("run.json", expected);
        snprintf(expected, sizeof(expected), "run%%%zu", 10 + i);
        expect_name("run%%%r", expected);
        snprintf(expected, sizeof(expected), "%ld", (long)getpid());
        expect_name("%p", expected);
    }
    setenv(rank_variables[0], "../../3", 1); /* is no rank */
    expect_name("run", "run.rank11");
    setenv(rank_variables[0], "0", 1);
    expect_name("run", "run");
    for (size_t i = 0; i < RANK_VARIABLES; i++)
        unsetenv(rank_variables[i]);
}

/* -- files ------------------------------------------------------------------------------------- */

static int
open_expecting(const char *path, const char *expected)
{
    int file;
    char *name;
    assert_int_equal(ferryi_output_open(path, &file, &name), 0);
    assert_string_equal(name, expected);
    assert_int_equal(bytes_of(name), 0);
    assert_int_equal(write(file, "text", 4), 4);
    free(name);
    return file;
}

static void
test_a_file_has_one_writer(void **state)
{
    char other[320];
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    const char *path = path_of("one");
    int first = open_expecting(path, path);
    snprintf(other, sizeof(other), "%s.pid%ld", path, (long)getpid());
    int second = open_expecting(path, other);
    assert_int_equal(bytes_of(path), 4);
    pid_t child = fork(); /* inherits both descriptors, and keeps them until the end */
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    assert_true(child > 0);
    ferryi_output_release(first);
    close(first);
    first = open_expecting(path, path);
    ferryi_output_release(first);
    ferryi_output_release(second);
    close(first);
    close(second);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void
test_what_cannot_be_opened_is_reported(void **state)
{
    int file = 5;
    char *name;
    (void)state;
    assert_int_equal(ferryi_output_open("/dev/null/file", &file, &name), ENOTDIR);
    assert_true(file == -1 && !name);
    assert_int_equal(ferryi_output_open(folder, &file, &name), EISDIR);
    for (int i = 0; i < 2; i++) { /* not a regular file: everybody may write to it */
        assert_int_equal(ferryi_output_open("/dev/null", &file, &name), 0);
        assert_string_equal(name, "/dev/null");
        free(name);
    }
}

/* -- processes --------------------------------------------------------------------------------- */

/* Writes a trace and an allocation log, and keeps both open until `go` is closed. */
static void
be_a_process(int ready, int go)
{
    ferry_context *context;
    ferry_int_buffer buffer;
    ferry_scope scope;
    int *values;
    char byte = 0;
    ferry_context_options options = {.devices = "emulated"};
    if (ferry_context_create(&options, &context) != FERRY_OK ||
        ferry_int_create(context, 100, NULL, &buffer) != FERRY_OK ||
        ferry_int_overwrite_device(buffer, NULL, &scope, &values) != FERRY_OK ||
        ferry_scope_close(&scope) != FERRY_OK || write(ready, &byte, 1) != 1)
        _exit(1);
    _exit(read(go, &byte, 1) != 0 ||
          (ferry_int_destroy(&buffer), ferry_context_destroy(&context), 0));
}

static pid_t
start_process(int ready[2], int go[2])
{
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        be_a_process(ready[1], go[0]);
    }
    assert_true(child > 0);
    return child;
}

static void
expect_ended(const char *path, const char *begin, const char *end)
{
    char text[8192] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is missing", path);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    assert_memory_equal(text, begin, strlen(begin));
    assert_true(bytes > strlen(end));
    assert_string_equal(text + bytes - strlen(end), end);
}

/* Several forked children with the same variables. Each of them writes its own files, and no
 * child replaces the files of one that has ended. */
static void
test_each_process_writes_its_own_files(void **state)
{
    pid_t children[PROCESSES];
    int ready[2], go[2], over[2], status;
    char byte, name[32];
    (void)state;
    assert_true(pipe(ready) == 0 && pipe(go) == 0 && pipe(over) == 0);
    close(over[1]);
    setenv("FERRY_TRACE", path_of("run.json"), 1);
    setenv("FERRY_ALLOCATION_LOG", path_of("log"), 1);
    for (size_t i = 0; i < PROCESSES; i++) {
        if (i == PROCESSES - 1)
            setenv("PMI_RANK", "3", 1);
        bool ends = i < 2; /* before the next child begins */
        children[i] = start_process(ready, ends ? over : go);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        if (ends) {
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
    }
    unsetenv("PMI_RANK");
    unsetenv("FERRY_TRACE");
    unsetenv("FERRY_ALLOCATION_LOG");
    close(go[1]);
    for (size_t i = 0; i < PROCESSES; i++) {
        if (i >= 2) {
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        snprintf(name, sizeof(name), "%s.pid%ld", i == PROCESSES - 1 ? ".rank3" : "",
                 (long)children[i]);
        char trace[160], log[160];
        snprintf(trace, sizeof(trace), "%s/run.json%s", folder, name);
        snprintf(log, sizeof(log), "%s/log%s.emulated-0.device.csv", folder, name);
        expect_ended(trace, "[\n", "}\n]\n");
        expect_ended(log, "Thread,Time", "\n");
    }
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(over[0]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_have_patterns),
        cmocka_unit_test(test_forked_children_have_names),
        cmocka_unit_test(test_ranks_have_names),
        cmocka_unit_test(test_a_file_has_one_writer),
        cmocka_unit_test(test_what_cannot_be_opened_is_reported),
        cmocka_unit_test(test_each_process_writes_its_own_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
