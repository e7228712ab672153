/* SPDX-License-Identifier: MIT */
/* Tests folders that only this user can write: which folders are refused, that files are replaced
 * atomically, and the order in which files are removed. */
#include <fcntl.h>
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

#include "src/base/private_folder.h"
#include "tests/support/folder.h"
#include "tests/support/status.h"

enum { NOBODY = 65534 };

static char root[FOLDER_PATH_BYTES];
static int open_files;

#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        assert_int_equal((call), FERRY_ERROR_IO);                                                  \
        assert_says(part);                                                                         \
    } while (0)

static const char *
path_of(const char *name)
{
    static char paths[8][2 * FOLDER_PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static int
set_up(void **state)
{
    (void)state;
    folder_make(root);
    open_files = folder_count("/proc/self/fd");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    folder_remove(root);
    /* All files are closed. */
    return folder_count("/proc/self/fd") == open_files ? 0 : -1;
}

static unsigned
mode_of(const char *path)
{
    struct stat info = {0};
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

static int
open_cache(void)
{
    int folder;
    OK(ferryi_private_folder_open(path_of("cache"), true, &folder));
    assert_true(folder >= 0);
    return folder;
}

/* -- the folder -------------------------------------------------------------------------------- */

static void
test_it_is_made_for_this_user(void **state)
{
    (void)state;
    int folder;
    mode_t mask = umask(0);
    OK(ferryi_private_folder_open(path_of("around/cache"), false, &folder));
    assert_int_equal(folder, -1);
    assert_int_equal(folder_count(root), 0);
    OK(ferryi_private_folder_open(path_of("around/cache"), true, &folder));
    assert_true(folder >= 0);
    assert_int_equal(mode_of(path_of("around")), 0700);
    assert_int_equal(mode_of(path_of("around/cache")), 0700);
    OK(ferryi_private_folder_put(folder, "file", "text", 4));
    assert_int_equal(mode_of(path_of("around/cache/file")), 0600);
    ferryi_private_folder_close(folder);
    (void)umask(mask);
    /* Opening a folder creates the folder and its parent if they are missing. A missing grandparent
     * is an error. */
    REFUSED(ferryi_private_folder_open(path_of("a/b/c"), true, &folder), "a/b/c: No such file");
    assert_int_equal(folder, -1);
}

static void
test_folders_that_others_could_write_are_refused(void **state)
{
    (void)state;
    int folder = open_cache();
    ferryi_private_folder_close(folder);
    static const mode_t open_modes[] = {0777, 0770, 0720, 0702, 01777};
    for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
        assert_int_equal(chmod(path_of("cache"), open_modes[i]), 0);
        REFUSED(ferryi_private_folder_open(path_of("cache"), true, &folder), "others may write");
    }
    assert_int_equal(chmod(path_of("cache"), 0755), 0);
    ferryi_private_folder_close(open_cache());
    assert_int_equal(symlink("cache", path_of("link")), 0);
    REFUSED(ferryi_private_folder_open(path_of("link"), true, &folder), "link");
    folder_write_file(path_of("file"), "", 0);
    REFUSED(ferryi_private_folder_open(path_of("file"), true, &folder), "file");
    REFUSED(ferryi_private_folder_open("/proc/ferry", true, &folder), "/proc/ferry");
    assert_int_equal(folder, -1);
}

/* Tests folders and files of other users, which needs the rights of root. */
static void
test_other_users(void **state)
{
    (void)state;
    int folder;
    if (geteuid() != 0)
        skip();
    ferryi_private_folder_close(open_cache());
    assert_int_equal(chown(path_of("cache"), NOBODY, NOBODY), 0);
    REFUSED(ferryi_private_folder_open(path_of("cache"), true, &folder), "another user");
    assert_int_equal(chown(path_of("cache"), 0, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* A process whose effective user differs from its real user must refuse the folder. */
        bool wrong =
            seteuid(NOBODY) != 0 ||
            ferryi_private_folder_open(path_of("cache"), true, &folder) != FERRY_ERROR_IO ||
            !strstr(ferry_last_error(), "rights of another user");
        _exit(wrong);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

/* -- files ------------------------------------------------------------------------------------- */

static void
assert_holds(int folder, const char *name, const char *text)
{
    struct ferryi_file file;
    char bytes[64] = "";
    size_t done;
    OK(ferryi_private_folder_find(folder, name, &file));
    assert_true(file.fd >= 0);
    assert_int_equal(file.bytes, strlen(text));
    OK(ferryi_file_read(&file, 0, bytes, strlen(text), &done));
    assert_string_equal(bytes, text);
    OK(ferryi_file_close(&file));
}

static void
test_files_are_put_and_found(void **state)
{
    (void)state;
    int folder = open_cache();
    struct ferryi_file file;
    OK(ferryi_private_folder_find(folder, "a", &file));
    assert_int_equal(file.fd, -1);
    OK(ferryi_private_folder_put(folder, "a", "first", 5));
    assert_holds(folder, "a", "first");
    /* A file that is open keeps its contents when a new file replaces it. */
    OK(ferryi_private_folder_find(folder, "a", &file));
    OK(ferryi_private_folder_put(folder, "a", "second", 6));
    char bytes[8] = "";
    size_t done;
    OK(ferryi_file_read(&file, 0, bytes, 5, &done));
    assert_string_equal(bytes, "first");
    OK(ferryi_file_close(&file));
    assert_holds(folder, "a", "second");
    assert_int_equal(folder_count(path_of("cache")), 1);
    ferryi_private_folder_remove(folder, "a");
    ferryi_private_folder_remove(folder, "a");
    assert_int_equal(folder_count(path_of("cache")), 0);
    ferryi_private_folder_close(folder);
    ferryi_private_folder_close(-1);
}

static void
test_what_is_no_file_of_ours_is_refused(void **state)
{
    (void)state;
    int folder = open_cache();
    struct ferryi_file file;
    OK(ferryi_private_folder_put(folder, "good", "good", 4));
    assert_int_equal(symlink("good", path_of("cache/link")), 0);
    REFUSED(ferryi_private_folder_find(folder, "link", &file), "open link");
    assert_int_equal(mkfifo(path_of("cache/pipe"), 0600), 0);
    REFUSED(ferryi_private_folder_find(folder, "pipe", &file), "no regular file");
    assert_int_equal(mkdir(path_of("cache/folder"), 0700), 0);
    REFUSED(ferryi_private_folder_find(folder, "folder", &file), "no regular file");
    assert_int_equal(chmod(path_of("cache/good"), 0620), 0);
    REFUSED(ferryi_private_folder_find(folder, "good", &file), "others may write");
    assert_int_equal(chmod(path_of("cache/good"), 0602), 0);
    REFUSED(ferryi_private_folder_find(folder, "good", &file), "others may write");
    assert_int_equal(file.fd, -1);
    if (geteuid() == 0) {
        assert_int_equal(chmod(path_of("cache/good"), 0600), 0);
        assert_int_equal(chown(path_of("cache/good"), NOBODY, NOBODY), 0);
        REFUSED(ferryi_private_folder_find(folder, "good", &file), "another user");
    }
    /* If a symbolic link has the name of the new file, the file replaces the link. The target of
     * the link must not change. */
    OK(ferryi_private_folder_put(folder, "target", "target", 6));
    assert_int_equal(unlink(path_of("cache/link")), 0);
    assert_int_equal(symlink("target", path_of("cache/link")), 0);
    OK(ferryi_private_folder_put(folder, "link", "new", 3));
    assert_holds(folder, "link", "new");
    assert_holds(folder, "target", "target");
    OK(ferryi_private_folder_put(folder, "pipe", "new", 3));
    assert_holds(folder, "pipe", "new");
    /* If a folder has the name of the new file, the call fails. It must leave the folder as it is,
     * and no temporary file. */
    int before = folder_count(path_of("cache"));
    REFUSED(ferryi_private_folder_put(folder, "folder", "new", 3), "rename");
    assert_int_equal(folder_count(path_of("cache")), before);
    ferryi_private_folder_close(folder);
}

/* Checks that files are found through the folder's open descriptor. The test renames the folder and
 * creates a different folder with its name. */
static void
test_another_folder_in_its_place_is_not_used(void **state)
{
    (void)state;
    int folder = open_cache();
    assert_int_equal(rename(path_of("cache"), path_of("moved")), 0);
    assert_int_equal(mkdir(path_of("cache"), 0700), 0);
    OK(ferryi_private_folder_put(folder, "a", "text", 4));
    assert_int_equal(folder_count(path_of("cache")), 0);
    assert_int_equal(folder_count(path_of("moved")), 1);
    ferryi_private_folder_close(folder);
}

/* -- trimming ---------------------------------------------------------------------------------- */

static bool
is_counted(const char *name)
{
    return name[0] == 'n';
}

/* Creates the files n0 to n9 of 100 bytes each; n0 was used least recently. Also creates the file
 * "other", which does not count toward the limits. */
static void
fill(int folder)
{
    char bytes[100] = "", name[8];
    OK(ferryi_private_folder_put(folder, "other", bytes, sizeof(bytes)));
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        OK(ferryi_private_folder_put(folder, name, bytes, sizeof(bytes)));
        struct timespec times[2] = {{.tv_sec = 1000000 + i / 2, .tv_nsec = i},
                                    {.tv_sec = 1000000 + i / 2, .tv_nsec = i}};
        assert_int_equal(utimensat(folder, name, times, 0), 0);
    }
}

/* Returns a set of bits. Bit i is set if the file n<i> exists. */
static unsigned
who_is_there(int folder)
{
    unsigned there = 0;
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%d", i);
        there |= (unsigned)(faccessat(folder, name, F_OK, 0) == 0) << i;
    }
    return there;
}

static void
test_what_was_used_longest_ago_goes(void **state)
{
    (void)state;
    int folder = open_cache();
    struct ferryi_file file;
    fill(folder);
    OK(ferryi_private_folder_trim(folder, is_counted, 1000, 10));
    assert_int_equal(who_is_there(folder), 0x3ff);
    OK(ferryi_private_folder_trim(folder, is_counted, 999, 10));
    assert_int_equal(who_is_there(folder), 0x3fe);
    OK(ferryi_private_folder_trim(folder, is_counted, 1000, 7));
    assert_int_equal(who_is_there(folder), 0x3f8);
    /* The file n3 was used recently, so it must be removed later than the other files. */
    OK(ferryi_private_folder_find(folder, "n3", &file));
    ferryi_private_folder_touch(&file);
    OK(ferryi_file_close(&file));
    OK(ferryi_private_folder_trim(folder, is_counted, 350, 10));
    assert_int_equal(who_is_there(folder), 0x308);
    OK(ferryi_private_folder_trim(folder, is_counted, 0, 10));
    assert_int_equal(who_is_there(folder), 0);
    assert_int_equal(faccessat(folder, "other", F_OK, 0), 0);
    ferryi_private_folder_close(folder);
}

/* Checks that trimming a folder can remove more files than fit into its initial list. Folders must
 * not count as files. */
static void
test_many_files_are_trimmed(void **state)
{
    (void)state;
    int folder = open_cache();
    assert_int_equal(mkdir(path_of("cache/none"), 0700), 0);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n-%d", i);
        OK(ferryi_private_folder_put(folder, name, "x", 1));
    }
    OK(ferryi_private_folder_trim(folder, is_counted, UINT64_MAX, 123));
    assert_int_equal(folder_count(path_of("cache")), 124);
    ferryi_private_folder_close(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_is_made_for_this_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_that_others_could_write_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_other_users, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_are_put_and_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_file_of_ours_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_folder_in_its_place_is_not_used, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_used_longest_ago_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_files_are_trimmed, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("private_folder", tests, NULL, NULL);
}
