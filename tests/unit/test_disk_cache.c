/* SPDX-License-Identifier: MIT */
/* Tests that the disk cache of compiled code never returns a damaged entry. */
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

#include <ferry/kernel.h>

#include "src/device/disk_cache.h"
#include "tests/support/folder.h"
#include "tests/support/short_memory.h"

enum { NOBODY = 65534, HASH_BYTES = 32, IMAGE_BYTES = 300, PATH_BYTES = 3 * FOLDER_PATH_BYTES };

static char root[FOLDER_PATH_BYTES], cache[2 * FOLDER_PATH_BYTES];
static unsigned char image[IMAGE_BYTES];
static int open_files;
static int64_t live;
static const struct ferryi_disk_cache_key key = {"the key of the entry of the test"};

static struct {
    int warnings, others;
    char text[512]; /* the latest warning; if there was no warning, the latest message */
} said;

static void
note(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    if (level == FERRY_LOG_WARNING || said.warnings == 0)
        snprintf(said.text, sizeof(said.text), "%s", message);
    said.warnings += level == FERRY_LOG_WARNING;
    said.others += level != FERRY_LOG_WARNING;
}

static const struct ferryi_log notes = {note, NULL};

static int
set_up(void **state)
{
    (void)state;
    folder_make(root);
    open_files = folder_count("/proc/self/fd");
    /* The first error of a thread allocates memory for messages, which the thread keeps. The test
     * causes an error here, so that later checks do not count this allocation. */
    (void)ferryi_fail(FERRY_ERROR_IO, "set up");
    live = short_memory_live();
    snprintf(cache, sizeof(cache), "%s/cache", root);
    setenv("FERRY_CACHE_DIR", cache, 1);
    for (int i = 0; i < IMAGE_BYTES; i++)
        image[i] = (unsigned char)(i * 7 + 3);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    folder_remove(root);
    /* The test must have closed all files and freed all memory. */
    return folder_count("/proc/self/fd") == open_files && short_memory_live() == live ? 0 : -1;
}

static void
keep(void)
{
    ferryi_disk_cache_keep(&key, "k", &notes, image, IMAGE_BYTES);
}

/* Returns whether the cache finds the test's entry. The content of the entry must then equal the
 * image. */
static bool
find(void)
{
    void *bytes;
    size_t size;
    memset(&said, 0, sizeof(said));
    if (!ferryi_disk_cache_find(&key, "k", &notes, &bytes, &size))
        return false;
    assert_int_equal(size, IMAGE_BYTES);
    assert_memory_equal(bytes, image, IMAGE_BYTES);
    assert_int_equal(((char *)bytes)[size], 0);
    free(bytes);
    return true;
}

static void
assert_warned(const char *part)
{
    assert_int_equal(said.warnings, 1);
    if (!strstr(said.text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, said.text);
}

static const char *
entry_path(void)
{
    static char path[PATH_BYTES];
    char name[FOLDER_PATH_BYTES];
    folder_only_file(cache, name);
    snprintf(path, sizeof(path), "%s/%s", cache, name);
    return path;
}

/* -- as it should be --------------------------------------------------------------------------- */

static void
test_what_was_kept_is_found(void **state)
{
    (void)state;
    struct stat info = {0};
    struct ferryi_disk_cache_key other = key;
    void *bytes;
    size_t size;
    assert_false(find());
    assert_int_equal(folder_count(root), 0);
    keep();
    assert_true(find());
    assert_int_equal(said.warnings, 0);
    assert_non_null(strstr(said.text, "\"k\": its code was found"));
    assert_int_equal(stat(cache, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(stat(entry_path(), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    other.bytes[31] ^= 1;
    assert_false(ferryi_disk_cache_find(&other, "k", NULL, &bytes, &size));
    keep();
    assert_true(find());
    /* When the cache finds an entry, it updates the modification time of the entry's file. */
    struct timespec past[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, entry_path(), past, 0), 0);
    assert_true(find());
    assert_int_equal(stat(entry_path(), &info), 0);
    assert_true(info.st_mtim.tv_sec > 1000000);
}

static void
test_what_is_too_large_is_not_kept(void **state)
{
    (void)state;
    size_t bytes = ((size_t)64 << 20) + 1;
    char *large = calloc(1, bytes);
    assert_non_null(large);
    ferryi_disk_cache_keep(&key, "k", &notes, large, bytes);
    ferryi_disk_cache_keep(&key, "k", &notes, large, 0);
    assert_int_equal(folder_count(root), 0);
    free(large);
}

/* Checks that a cache with too many entries removes those that were least recently used. Files of
 * other programs must stay. */
static void
test_entries_are_bounded(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    keep();
    const char *entry = entry_path();
    for (int i = 0; i < 4096; i++) {
        struct timespec past[2] = {{.tv_sec = 1000000 + i}, {.tv_sec = 1000000 + i}};
        snprintf(path, sizeof(path), "%s/%064x", cache, i);
        folder_write_file(path, "", 0);
        assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
    }
    snprintf(path, sizeof(path), "%s/notes.txt", cache);
    folder_write_file(path, "", 0);
    keep();
    assert_int_equal(folder_count(cache), 4097);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(entry, F_OK), 0);
    snprintf(path, sizeof(path), "%s/%064x", cache, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    /* The oldest file alone is as large as the limit on the bytes of the cache. The next entry
     * exceeds the limit, so the cache must remove the oldest file and keep the entry. */
    snprintf(path, sizeof(path), "%s/%064x.1-1", cache, 0);
    folder_write_file(path, "", 0);
    assert_int_equal(truncate(path, (off_t)256 << 20), 0);
    struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
    keep();
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(find());
}

/* -- tampered with ----------------------------------------------------------------------------- */

/* Writes these bytes to a cache file. Checks that the cache does not find the entry, reports the
 * damage and removes the file. */
static void
assert_refused(const char *path, const void *bytes, size_t count, const char *why)
{
    folder_write_file(path, bytes, count);
    assert_false(find());
    assert_warned("damaged, and removed");
    assert_warned(why);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void
test_any_flipped_byte_is_found_out(void **state)
{
    (void)state;
    size_t count;
    keep();
    const char *path = entry_path();
    unsigned char *bytes = folder_read_file(path, &count);
    assert_int_equal(count, HASH_BYTES + IMAGE_BYTES);
    for (size_t i = 0; i < count; i++)
        for (unsigned bit = 1; bit < 256; bit *= i < HASH_BYTES ? 2 : 16) {
            bytes[i] ^= (unsigned char)bit;
            assert_refused(path, bytes, count, "");
            bytes[i] ^= (unsigned char)bit;
        }
    folder_write_file(path, bytes, count);
    assert_true(find());
    free(bytes);
}

static void
test_any_other_length_is_found_out(void **state)
{
    (void)state;
    size_t count;
    keep();
    const char *path = entry_path();
    char *bytes = folder_read_file(path, &count);
    for (size_t length = 0; length < count; length++)
        assert_refused(path, bytes, length, length <= HASH_BYTES ? "bytes" : "not match its hash");
    /* This write stays inside the array, because folder_read_file() allocates one byte more than it
     * reads. */
    bytes[count] = 0;
    assert_refused(path, bytes, count + 1, "not match its hash");
    keep();
    assert_true(find());
    free(bytes);
}

/* Checks that the cache allocates no memory for an entry that exceeds the maximum size. */
static void
test_large_files_are_refused_first(void **state)
{
    (void)state;
    keep();
    const char *path = entry_path();
    /* The file is sparse. */
    if (truncate(path, (off_t)(((uint64_t)1 << 40) + HASH_BYTES)) != 0)
        return;
    short_memory_arm(1);
    assert_false(find());
    bool allocated = short_memory_tripped();
    short_memory_disarm();
    assert_false(allocated);
    assert_warned("it has 1099511627808 bytes");
}

/* Checks that the cache refuses a valid entry whose file has the name of a different key. */
static void
test_entries_of_other_keys_are_refused(void **state)
{
    (void)state;
    struct ferryi_disk_cache_key other = {"another key, whose code is other"};
    size_t count;
    char theirs[PATH_BYTES];
    keep();
    snprintf(theirs, sizeof(theirs), "%s", entry_path());
    assert_int_equal(unlink(theirs), 0);
    ferryi_disk_cache_keep(&other, "k", &notes, image, IMAGE_BYTES / 2);
    void *bytes = folder_read_file(entry_path(), &count);
    assert_refused(theirs, bytes, count, "not match its hash");
    free(bytes);
}

/* Checks that the cache reads an entry only from a private file of this user. If a different kind
 * of file has the name of an entry, a new entry must replace that file. */
static void
test_what_is_no_private_file_is_refused(void **state)
{
    (void)state;
    char path[PATH_BYTES], elsewhere[PATH_BYTES];
    keep();
    snprintf(path, sizeof(path), "%s", entry_path());
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", root);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_false(find());
    assert_warned("not used");
    keep();
    assert_true(find());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(find());
    assert_warned("no regular file");
    keep();
    assert_true(find());
    assert_int_equal(chmod(path, 0622), 0);
    assert_false(find());
    assert_warned("others may write");
    keep();
    assert_true(find());
    if (geteuid() == 0) {
        assert_int_equal(chown(path, NOBODY, NOBODY), 0);
        assert_false(find());
        assert_warned("another user");
        keep();
        assert_true(find());
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    keep();
    assert_false(find());
}

/* -- the folder -------------------------------------------------------------------------------- */

/* Checks that a cache whose folder is unusable stores and finds nothing, creates no files, and logs
 * the reason. */
static void
assert_no_cache(const char *folder, const char *why)
{
    memset(&said, 0, sizeof(said));
    setenv("FERRY_CACHE_DIR", folder, 1);
    keep();
    assert_non_null(strstr(said.text, why));
    assert_non_null(strstr(said.text, "not kept"));
    assert_false(find());
    assert_int_equal(said.warnings, 0);
    setenv("FERRY_CACHE_DIR", cache, 1);
}

static void
assert_path_refused(const char *folder, const char *why)
{
    char path[4096] = "untouched";
    assert_no_cache(folder, why);
    setenv("FERRY_CACHE_DIR", folder, 1);
    assert_int_equal(ferry_kernel_cache_path(path, sizeof(path)), FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), why));
    assert_string_equal(path, "untouched");
    setenv("FERRY_CACHE_DIR", cache, 1);
}

static void
test_folders_that_are_not_used(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    assert_path_refused("", "turns it off");
    assert_path_refused("cache", "FERRY_CACHE_DIR is \"cache\", which is no absolute path");
    assert_path_refused("/proc/version", "Not a directory");
    assert_no_cache("/proc/ferry", "/proc/ferry");
    snprintf(path, sizeof(path), "%s/a/b/c", root);
    assert_no_cache(path, "No such file");
    assert_int_equal(folder_count(root), 0);
    char *endless = calloc(1, 5000);
    assert_non_null(endless);
    memset(endless, '/', 4999);
    assert_path_refused(endless, "longer than");
    free(endless);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(chmod(cache, 0777), 0);
    assert_path_refused(cache, "others may write");
    assert_int_equal(folder_count(cache), 0);
    snprintf(path, sizeof(path), "%s/link", root);
    assert_int_equal(chmod(cache, 0700), 0);
    assert_int_equal(symlink(cache, path), 0);
    assert_no_cache(path, path);
    assert_int_equal(folder_count(cache), 0);
}

/* Calls keep() and find() with this folder in a child process, because a process warns only once.
 * Returns whether there was exactly one warning, which names the reason. */
static bool
warns_once(const char *folder, const char *why)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("FERRY_CACHE_DIR", folder, 1);
        memset(&said, 0, sizeof(said));
        keep();
        bool warned = said.warnings == 1 && strstr(said.text, why) &&
                      strstr(said.text, "kernels are not kept");
        memset(&said, 0, sizeof(said));
        keep();
        warned = warned && said.warnings == 0;
        _exit(!warned || find() || said.warnings > 0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return result == 0;
}

/* This test must run before any other test causes the only warning of the process. */
static void
test_a_folder_that_cannot_be_used_is_reported(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/file", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_true(warns_once(path, "Not a directory"));
    snprintf(path, sizeof(path), "%s/file/below", root);
    assert_true(warns_once(path, "Not a directory"));
    snprintf(path, sizeof(path), "%s/a/b/c", root);
    assert_true(warns_once(path, "No such file"));
    assert_true(warns_once("relative", "no absolute path"));
    assert_false(warns_once("", "turns it off")); /* is no mistake */
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(chmod(cache, 0777), 0);
    assert_true(warns_once(cache, "others may write"));
}

static void
test_an_unwritable_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir(cache, 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(cache, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(cache, 0500), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* The child process gives up the rights of root, because root can write to every folder. */
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
            _exit(1);
        memset(&said, 0, sizeof(said));
        keep();
        _exit(!strstr(said.text, "not kept") || find() || said.warnings > 0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(folder_count(cache), 0);
}

static void
assert_path(const char *wanted)
{
    char path[4096];
    assert_int_equal(ferry_kernel_cache_path(path, sizeof(path)), FERRY_OK);
    assert_string_equal(path, wanted);
}

static void
test_where_the_folder_is(void **state)
{
    (void)state;
    char *home = strdup(getenv("HOME") ? getenv("HOME") : ""), path[PATH_BYTES], short_path[8];
    assert_non_null(home);
    assert_path(cache);
    assert_int_equal(ferry_kernel_cache_path(NULL, 100), FERRY_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ferry_kernel_cache_path(short_path, sizeof(short_path)),
                     FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_kernel_cache_path(path, strlen(cache)), FERRY_ERROR_OUT_OF_RANGE);
    assert_int_equal(ferry_kernel_cache_path(path, strlen(cache) + 1), FERRY_OK);
    assert_int_equal(folder_count(root), 0);
    unsetenv("FERRY_CACHE_DIR");
    setenv("HOME", root, 1);
    setenv("XDG_CACHE_HOME", cache, 1);
    snprintf(path, sizeof(path), "%s/ferry", cache);
    assert_path(path);
    keep();
    assert_int_equal(folder_count(path), 1);
    /* A relative path in XDG_CACHE_HOME must be ignored. */
    setenv("XDG_CACHE_HOME", "relative", 1);
    snprintf(path, sizeof(path), "%s/.cache/ferry", root);
    assert_path(path);
    keep();
    assert_int_equal(folder_count(path), 1);
    setenv("XDG_CACHE_HOME", "", 1);
    assert_path(path);
    unsetenv("XDG_CACHE_HOME");
    assert_path(path);
    assert_true(find());
    setenv("HOME", "", 1);
    assert_int_equal(ferry_kernel_cache_path(path, sizeof(path)), FERRY_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ferry_last_error(), "HOME"));
    setenv("HOME", home, 1);
    free(home);
}

/* -- when much happens at once ----------------------------------------------------------------- */

/* Several processes keep, find and damage one entry at the same time. Checks that each entry found
 * is complete, and that no temporary file remains. */
static void
test_processes_at_once(void **state)
{
    enum { PROCESSES = 4, ROUNDS = 300 };
    (void)state;
    pid_t children[PROCESSES];
    keep();
    char *path = strdup(entry_path());
    assert_non_null(path);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] != 0)
            continue;
        for (int round = 0; round < ROUNDS; round++) {
            void *bytes = NULL;
            size_t size = 0;
            if (ferryi_disk_cache_find(&key, "k", NULL, &bytes, &size) &&
                (size != IMAGE_BYTES || memcmp(bytes, image, size) != 0))
                _exit(1);
            free(bytes);
            if (i == 0 && round % 10 == 0)
                (void)!truncate(path, round % 200);
            ferryi_disk_cache_keep(&key, "k", NULL, image, IMAGE_BYTES);
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    keep();
    assert_true(find());
    assert_int_equal(folder_count(cache), 1);
    free(path);
}

/* Makes each allocation fail in turn. Checks that the cache then stores and finds no entry, keeps
 * an existing valid entry, and leaks no memory. */
static void
test_whatever_allocation_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        short_memory_arm(nth);
        keep();
        bool tripped = short_memory_tripped();
        short_memory_disarm();
        assert_int_equal(short_memory_live(), live);
        if (!tripped)
            break;
    }
    for (uint64_t nth = 1;; nth++) {
        short_memory_arm(nth);
        bool found = find(), tripped = short_memory_tripped();
        short_memory_disarm();
        assert_int_equal(short_memory_live(), live);
        assert_true(found || tripped);
        assert_int_equal(said.warnings, 0);
        assert_true(find());
        if (!tripped)
            break;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_used_is_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_kept_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_too_large_is_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entries_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_flipped_byte_is_found_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_other_length_is_found_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_files_are_refused_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entries_of_other_keys_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_private_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_that_are_not_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_unwritable_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_where_the_folder_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_processes_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whatever_allocation_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("disk_cache", tests, NULL, NULL);
}
