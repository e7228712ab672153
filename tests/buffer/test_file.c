/* SPDX-License-Identifier: MIT */
/* Tests calls that load ranges of buffers from files and store them to files. This file replaces
 * system calls such as pread() by functions that fail when a test asks for it. */
#include "tests/buffer/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT 5000
#define BYTES (COUNT * sizeof(int32_t))

/* -- what the system does ---------------------------------------------------------------------- */

static struct {
    bool interrupted; /* every second read or write fails with EINTR */
    size_t most;      /* bytes of one call; 0: no limit */
    /* Reads and writes at this file offset or after it fail with EIO. A call that begins before the
     * offset transfers only the bytes before it. 0: no call fails. */
    off_t broken_at;
    /* Whether reads and writes of files that are open with O_DIRECT fail with EINVAL. */
    bool refuses_direct;
    /* Which of the next calls of fstat() fails with EIO; 1 is the next call. 0: no call fails. */
    unsigned unsized_at;
    unsigned calls, interruptions;
    int refuses_cut; /* errno of the next call that truncates a file; 0: it succeeds */
} system_does;

static bool
misbehave(int fd, size_t *bytes, off_t offset)
{
    system_does.calls++;
    if (system_does.interrupted && system_does.calls % 2) {
        system_does.interruptions++;
        errno = EINTR;
        return true;
    }
    if (system_does.refuses_direct && (fcntl(fd, F_GETFL) & O_DIRECT)) {
        errno = EINVAL;
        return true;
    }
    if (system_does.most && *bytes > system_does.most)
        *bytes = system_does.most;
    if (system_does.broken_at && offset >= system_does.broken_at) {
        errno = EIO;
        return true;
    }
    if (system_does.broken_at && offset + (off_t)*bytes > system_does.broken_at)
        *bytes = (size_t)(system_does.broken_at - offset);
    return false;
}

int
fstat(int fd, struct stat *out)
{
    if (system_does.unsized_at && --system_does.unsized_at == 0) {
        errno = EIO;
        return -1;
    }
    return fstatat(fd, "", out, AT_EMPTY_PATH);
}

int
ftruncate(int fd, off_t bytes)
{
    if (system_does.refuses_cut) {
        errno = system_does.refuses_cut;
        system_does.refuses_cut = 0;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

ssize_t
pread(int fd, void *memory, size_t bytes, off_t offset)
{
    ssize_t result =
        misbehave(fd, &bytes, offset) ? -1 : syscall(SYS_pread64, fd, memory, bytes, offset);
    if (result > 0)
        mark_initialized(memory, (size_t)result); /* the system call wrote these bytes */
    return result;
}

ssize_t
pwrite(int fd, const void *memory, size_t bytes, off_t offset)
{
    return misbehave(fd, &bytes, offset) ? -1 : syscall(SYS_pwrite64, fd, memory, bytes, offset);
}

/* -- loads ------------------------------------------------------------------------------------- */

static ferry_status
load(ferry_buffer *buffer, size_t offset, size_t count, const char *path, uint64_t file_offset,
     ferry_stream *stream)
{
    return ferry_buffer_load(buffer, INT, offset, count, path, file_offset,
                             &(ferry_copy_options){.stream = stream});
}

static ferry_stream *
stream_or_null(fixture *f, int place)
{
    return place ? stream_of(f, place) : NULL;
}

/* Creates a buffer that is current at `place` and whose elements are all -1. */
static ferry_buffer *
make_old(fixture *f, int place)
{
    ferry_buffer *b = make_ints(f, COUNT);
    int32_t values[COUNT];
    memset(values, 0xff, sizeof(values));
    OK(ferry_buffer_copy_from(b, INT, 0, COUNT, values, NULL));
    if (place)
        touch(f, b, place, FERRY_UPDATE, 0, FERRY_REST);
    return b;
}

/* -- what arrives ------------------------------------------------------------------------------ */

/* ferry_buffer_load() with a stream changes exactly the given range, at the place of that stream.
 * It makes no replica at the host. */
static void
test_loads_arrive_where_they_should(void **state)
{
    fixture *f = *state;
    const char *path = path_of("counting");
    write_counting_file(path, COUNT);
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        ferry_transfer_stats before = moved(f);
        OK(load(b, 10, 4000, path, 4 * 100, stream_or_null(f, place)));
        expect_moved(f, &before, place ? 16000 : 0, 0);
        assert_true(strcmp(f->trace_reason, "load") == 0 && f->trace.source_place == -1);
        ferry_buffer_info info = info_of(b);
        if (!f->coherent)
            assert_int_equal(info.places_with_copy, 1u << place);
        expect_counting(f, b, place, 10, 4000, 90);
        expect_constant(f, b, 0, 0, 10, 0);
        expect_constant(f, b, 0, 4010, FERRY_REST, 0);
        expect_counting(f, b, 0, 10, 4000, 90);
        ferry_buffer_destroy(&b);
    }
}

/* ferry_buffer_load() without a stream writes at a place where the range is current. So it does not
 * have to transfer old bytes. */
static void
test_loads_go_where_the_range_is_current(void **state)
{
    fixture *f = *state;
    const char *path = path_of("counting");
    write_counting_file(path, COUNT);
    ferry_buffer *b = make_old(f, 1);
    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_load(b, INT, 100, 50, path, 0, NULL));
    expect_moved(f, &before, 200, 0);
    expect_counting(f, b, 1, 100, 50, -100);
    expect_constant(f, b, 0, 0, 100, -1);
    expect_constant(f, b, 0, 150, FERRY_REST, -1);
    ferry_buffer_destroy(&b);
}

/* ferry_buffer_store() reads each byte at a place where the byte is current. It makes no replica
 * and does not change the buffer's state. It writes zeros to the file for bytes of the buffer that
 * were never written. */
static void
test_stores_change_nothing_but_the_file(void **state)
{
    fixture *f = *state;
    const char *path = path_of("stored");
    for (int place = 0; place <= f->places; place++) {
        ferry_buffer *b = make_ints(f, COUNT);
        int32_t expected[COUNT] = {0};
        write_counting(f, b, place, 1000, 3000, 7);
        write_counting(f, b, 0, 2000, 50, 1);
        for (int i = 1000; i < 4000; i++)
            expected[i] = i + (i >= 2000 && i < 2050 ? 1 : 7);
        snapshot before = take_snapshot(b);
        ferry_transfer_stats stats = moved(f);
        OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 0, NULL));
        expect_unchanged(b, &before);
        expect_moved(f, &stats, 0, place ? 2950 * 4 : 0);
        expect_file(path, expected, BYTES);
        ferry_buffer_destroy(&b);
    }
}

/* Zeros replace all old bytes of a file, whether they are the whole range or lie beside written
 * bytes. */
static void
test_zeros_replace_old_bytes(void **state)
{
    fixture *f = *state;
    const size_t bytes = 300001, written = 1000;
    const char *path = path_of("zeros");
    unsigned char *expected = malloc(bytes);
    assert_non_null(expected);
    for (size_t i = 0; i < 2; i++) {
        ferry_buffer *b;
        memset(expected, 0xff, bytes);
        write_file(path, expected, bytes);
        OK(ferry_buffer_create(f->context, BYTE, bytes, NULL, &b));
        if (i > 0)
            OK(ferry_buffer_copy_from(b, BYTE, 0, written, expected, NULL));
        memset(expected + i * written, 0, bytes - i * written);
        OK(ferry_buffer_store(b, BYTE, 0, FERRY_REST, path, 0, NULL));
        expect_file(path, expected, bytes);
        ferry_buffer_destroy(&b);
    }
    free(expected);
}

/* ferry_buffer_load() reads exactly the bytes that ferry_buffer_store() wrote. The test uses odd
 * offsets and lengths, transfers of many chunks, the page cache and O_DIRECT. */
static void
test_round_trips_are_exact(void **state)
{
    fixture *f = *state;
    const size_t counts[] = {1, 4095, 4096, 4097, 1000003, 3 << 20};
    const uint64_t offsets[] = {0, 1, 4096, 5000};
    const char *path = path_of("bytes");
    unsigned char *bytes = malloc(3 << 20), *got = malloc(3 << 20);
    assert_true(bytes && got);
    for (size_t i = 0; i < (3 << 20); i++)
        bytes[i] = (unsigned char)(random_next(&f->seed) >> 32);
    for (size_t c = 0; c < LENGTH(counts); c++) {
        for (size_t o = 0; o < LENGTH(offsets); o++) {
            for (int way = 0; way < 4; way++) {
                int place = way & 1;
                ferry_copy_options options = {.stream = stream_or_null(f, place),
                                              .file_direct = way & 2};
                ferry_buffer *a, *b;
                OK(ferry_buffer_create_from(f->context, BYTE, counts[c], bytes, NULL, &a));
                OK(ferry_buffer_create(f->context, BYTE, counts[c], NULL, &b));
                if (place)
                    touch(f, a, 1, FERRY_UPDATE, 0, FERRY_REST);
                OK(ferry_buffer_store(a, BYTE, 0, FERRY_REST, path, offsets[o], &options));
                OK(ferry_buffer_load(b, BYTE, 0, FERRY_REST, path, offsets[o], &options));
                OK(ferry_buffer_copy_to(b, BYTE, 0, counts[c], got, NULL));
                assert_memory_equal(got, bytes, counts[c]);
                ferry_buffer_destroy(&a);
                ferry_buffer_destroy(&b);
                assert_int_equal(unlink(path), 0);
            }
        }
    }
    free(bytes);
    free(got);
}

/* ferry_buffer_store() keeps the bytes of an existing file before the file offset. It truncates the
 * file after the bytes that it wrote, unless the option `file_keep_rest` is set. If the offset is
 * beyond the end of the file, the gap reads as zero. */
static void
test_what_a_store_leaves_of_a_file(void **state)
{
    fixture *f = *state;
    const char *path = path_of("policy");
    unsigned char expected[4000];
    ferry_buffer *b = make_counting(f, 100, 0);
    int32_t counting[100];
    OK(ferry_buffer_copy_to(b, INT, 0, 100, counting, NULL));
    memset(expected, 0x55, sizeof(expected));
    memcpy(expected + 1000, counting, 400);

    memset(expected + 1400, 0x55, 2600);
    unsigned char old[4000];
    write_file(path, memset(old, 0x55, sizeof(old)), sizeof(old));
    OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 1000,
                          &(ferry_copy_options){.file_keep_rest = true}));
    expect_file(path, expected, 4000);
    OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 1000, NULL));
    expect_file(path, expected, 1400);
    OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 0, NULL));
    expect_file(path, counting, 400);

    assert_int_equal(unlink(path), 0);
    memset(expected, 0, 1000);
    OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 1000, NULL));
    expect_file(path, expected, 1400);
    /* ferry_buffer_store() of no elements leaves an empty file. */
    OK(ferry_buffer_store(b, INT, 100, 0, path, 0, NULL));
    expect_file(path, "", 0);
    OK(ferry_buffer_load(b, INT, 100, 0, path_of("missing"), 0, NULL));
    ferry_buffer_destroy(&b);
}

/* The load and store functions of the typed API have the same results as those of the untyped
 * API. */
static void
test_typed(void **state)
{
    fixture *f = *state;
    const char *path = path_of("typed");
    ferry_float_buffer a, b;
    const float values[4] = {1, -2, 3.5f, 0};
    float got[4];
    OK(ferry_float_create_from(f->context, 4, values, NULL, &a));
    OK(ferry_float_create(f->context, 4, NULL, &b));
    OK(ferry_float_store(a, 1, 3, path, 8, NULL));
    OK(ferry_float_load(b, 0, 3, path, 8, NULL));
    OK(ferry_float_copy_to(b, 0, 3, got, NULL));
    assert_memory_equal(got, values + 1, 12);
    ferry_float_destroy(&a);
    ferry_float_destroy(&b);
}

/* -- what the system may do -------------------------------------------------------------------- */

static void
test_interrupted_and_short_calls_go_on(void **state)
{
    fixture *f = *state;
    const char *path = path_of("interrupted");
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *a = make_counting(f, COUNT, 3), *b = make_ints(f, COUNT);
        if (place)
            touch(f, a, 1, FERRY_UPDATE, 0, FERRY_REST);
        memset(&system_does, 0, sizeof(system_does));
        system_does.interrupted = true;
        system_does.most = 777;
        OK(ferry_buffer_store(a, INT, 0, FERRY_REST, path, 5, NULL));
        OK(load(b, 0, FERRY_REST, path, 5, stream_or_null(f, place)));
        assert_true(system_does.interruptions >= 2 * BYTES / 777);
        memset(&system_does, 0, sizeof(system_does));
        expect_counting(f, b, 0, 0, FERRY_REST, 3);
        ferry_buffer_destroy(&a);
        ferry_buffer_destroy(&b);
    }
}

static void
test_direct_falls_back_where_it_is_refused(void **state)
{
    fixture *f = *state;
    const char *path = path_of("refused");
    ferry_buffer *a = make_counting(f, COUNT, 3), *b = make_ints(f, COUNT);
    system_does.refuses_direct = true;
    ferry_copy_options options = {.file_direct = true};
    OK(ferry_buffer_store(a, INT, 0, FERRY_REST, path, 0, &options));
    OK(ferry_buffer_load(b, INT, 0, FERRY_REST, path, 0, &options));
    memset(&system_does, 0, sizeof(system_does));
    expect_counting(f, b, 0, 0, FERRY_REST, 3);
    ferry_buffer_destroy(&a);
    ferry_buffer_destroy(&b);
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void
expect_refused(fixture *f, ferry_status expected, const char *path, uint64_t file_offset,
               const char *why)
{
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_old(f, place);
        snapshot before = take_snapshot(b);
        FAILS(expected, load(b, 0, FERRY_REST, path, file_offset, stream_or_null(f, place)));
        expect_said(path, why);
        expect_said(path, "offset");
        expect_unchanged(b, &before);
        expect_constant(f, b, 0, 0, FERRY_REST, -1);
        ferry_buffer_destroy(&b);
    }
}

/* Loading from a missing, short or unreadable file, or from a folder, fails with FERRY_ERROR_IO.
 * The message contains the path and the offset. */
static void
test_files_that_cannot_be_loaded(void **state)
{
    fixture *f = *state;
    const char *path = path_of("short");
    write_counting_file(path, COUNT - 1);
    expect_refused(f, FERRY_ERROR_IO, path, 0, "offset 0");
    expect_refused(f, FERRY_ERROR_IO, path, 12345, "offset 12345");
    expect_refused(f, FERRY_ERROR_IO, path, 1000000, "only 19996 bytes");
    expect_refused(f, FERRY_ERROR_OVERFLOW, path, UINT64_MAX - 10, "offset");
    expect_refused(f, FERRY_ERROR_OVERFLOW, path, INT64_MAX, "offset");
    expect_refused(f, FERRY_ERROR_IO, path_of("missing"), 0, "No such file");
    expect_refused(f, FERRY_ERROR_IO, path_of(""), 0, "directory");
    const char *pipe_path = path_of("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    expect_refused(f, FERRY_ERROR_IO, pipe_path, 0, "pipe");
    assert_int_equal(unlink(pipe_path), 0);

    const char *locked = path_of("locked");
    write_counting_file(locked, COUNT);
    assert_int_equal(chmod(locked, 0), 0);
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(seteuid(65534), 0);
    expect_refused(f, FERRY_ERROR_IO, locked, 0, "ermission denied");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(unlink(locked), 0);
}

static void
test_wrong_arguments(void **state)
{
    fixture *f = *state;
    const char *path = path_of("arguments");
    write_counting_file(path, COUNT);
    ferry_buffer *b = make_old(f, 0);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_load(b, INT, 0, 1, NULL, 0, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_store(b, INT, 0, 1, NULL, 0, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_load(NULL, INT, 0, 1, path, 0, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_store(NULL, INT, 0, 1, path, 0, NULL));
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_load(b, INT, 1, COUNT, path, 0, NULL));
    FAILS(FERRY_ERROR_OUT_OF_RANGE, ferry_buffer_store(b, INT, 1, COUNT, path, 0, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_load(b, FLOAT, 0, 1, path, 0, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_store(b, FLOAT, 0, 1, path, 0, NULL));
    FAILS(FERRY_ERROR_OVERFLOW, ferry_buffer_store(b, INT, 0, 1, path, INT64_MAX, NULL));
    ferry_context *other;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
    FAILS(FERRY_ERROR_WRONG_CONTEXT, load(b, 0, 1, path, 0, ferry_context_stream(other, 1)));
    ferry_context_destroy(&other);
    ferry_scope scope;
    open_at(f, b, 0, FERRY_UPDATE, 0, 10, &scope);
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_load(b, INT, 5, 10, path, 0, NULL));
    FAILS(FERRY_ERROR_BUSY, ferry_buffer_store(b, INT, 5, 10, path_of("busy"), 0, NULL));
    OK(ferry_scope_close(&scope));
    expect_constant(f, b, 0, 0, FERRY_REST, -1);
    ferry_buffer_destroy(&b);
}

/* Returns how many elements, counted from the front, have their new value. Checks that all other
 * elements have their old value. */
static size_t
count_new(ferry_buffer *b)
{
    int32_t got[COUNT];
    OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
    size_t count = 0;
    while (count < COUNT && got[count] == (int32_t)count)
        count++;
    for (size_t i = count; i < COUNT; i++)
        assert_int_equal(got[i], -1);
    return count;
}

/* If a read fails in the middle of a load, the elements before the failure are loaded. All other
 * elements are unchanged. The message contains the number of loaded bytes. */
static void
test_broken_reads_leave_old_and_new(void **state)
{
    fixture *f = *state;
    const char *path = path_of("broken");
    write_counting_file(path, COUNT);
    ferry_context_options small = {.tuning = "staging.chunk=4K"};
    fixture_close(f);
    fixture_open(f, &small);
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_old(f, place);
        system_does.broken_at = 8192;
        FAILS(FERRY_ERROR_IO, load(b, 0, FERRY_REST, path, 0, stream_or_null(f, place)));
        system_does.broken_at = 0;
        expect_said(path, "offset 8192");
        expect_said(path, "8192 of which arrived");
        assert_int_equal(count_new(b), 2048);
        ferry_buffer_destroy(&b);
    }
}

static void
test_full_disks(void **state)
{
    fixture *f = *state;
    const char *path = path_of("limited");
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_counting(f, COUNT, 0);
        if (place)
            touch(f, b, 1, FERRY_UPDATE, 0, FERRY_REST);
        snapshot before = take_snapshot(b);
        FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, FERRY_REST, "/dev/full", 0, NULL));
        expect_said("/dev/full", "No space left");
        FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, FERRY_REST, path_of(""), 0, NULL));
        expect_said(path_of(""), "directory");
        FAILS(FERRY_ERROR_IO,
              ferry_buffer_store(b, INT, 0, FERRY_REST, path_of("no/such/file"), 0, NULL));
        expect_said(path_of("no/such/file"), "No such file");

        struct rlimit old, limit;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        limit = (struct rlimit){.rlim_cur = 10000, .rlim_max = old.rlim_max};
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, FERRY_REST, path, 0, NULL));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        expect_said(path, "offset 10000");
        expect_said(path, "File too large");
        expect_said(path, "10000 of which arrived");
        expect_unchanged(b, &before);
        OK(ferry_buffer_store(b, INT, 0, FERRY_REST, path, 0, NULL));
        ferry_buffer_destroy(&b);
    }
}

struct meddler {
    const char *path;
    off_t size; /* new size of the file, or -1 to keep it */
    size_t calls, stop_after, last, total;
};

static bool
meddle(size_t done, size_t total, void *user)
{
    struct meddler *m = user;
    assert_true(done >= m->last && done <= total);
    m->last = done;
    m->total = total;
    if (++m->calls == 1 && m->size >= 0)
        assert_int_equal(truncate(m->path, m->size), 0);
    return m->calls != m->stop_after;
}

static ferry_copy_options
meddled(fixture *f, int place, struct meddler *meddler)
{
    return (ferry_copy_options){.stream = stream_or_null(f, place),
                                .chunk_bytes = 4096,
                                .keep_going = meddle,
                                .user = meddler};
}

/* A load fails if its file grows or shrinks while it is read. The elements that were read before
 * the failure are kept. */
static void
test_files_that_change_while_they_are_read(void **state)
{
    fixture *f = *state;
    const char *path = path_of("changing");
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_old(f, place);
        struct meddler cut = {.path = path, .size = 12288},
                       grow = {.path = path, .size = BYTES + 1};
        write_counting_file(path, COUNT);
        ferry_copy_options options = meddled(f, place, &cut);
        FAILS(FERRY_ERROR_IO, ferry_buffer_load(b, INT, 0, FERRY_REST, path, 0, &options));
        expect_said(path, "offset 12288");
        expect_said(path, "12288 of which arrived");
        assert_int_equal(count_new(b), 3072);

        write_counting_file(path, COUNT);
        options = meddled(f, place, &grow);
        FAILS(FERRY_ERROR_IO, ferry_buffer_load(b, INT, 0, FERRY_REST, path, 0, &options));
        expect_said(path, "grew");
        expect_said(path, "offset 20000");
        assert_int_equal(count_new(b), COUNT);
        ferry_buffer_destroy(&b);
    }
}

/* ferry_buffer_load() and ferry_buffer_store() fail if they cannot query the size of the file. They
 * fail even if all bytes were copied before the query. */
static void
test_sizes_that_cannot_be_learnt(void **state)
{
    fixture *f = *state;
    const char *path = path_of("unsized");
    ferry_buffer *b = make_old(f, 1);
    write_counting_file(path, COUNT);
    system_does.unsized_at = 1;
    FAILS(FERRY_ERROR_IO, load(b, 0, FERRY_REST, path, 0, f->stream));
    expect_said(path, "open");
    assert_int_equal(count_new(b), 0);
    system_does.unsized_at = 2;
    FAILS(FERRY_ERROR_IO, load(b, 0, FERRY_REST, path, 0, f->stream));
    expect_said(path, "get the size");
    assert_int_equal(count_new(b), COUNT);
    system_does.unsized_at = 2;
    FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, COUNT - 1, path, 0, NULL));
    expect_said(path, "get the size");
    assert_int_equal(file_bytes(path), BYTES);
    OK(ferry_buffer_store(b, INT, 0, COUNT - 1, path, 0, NULL));
    expect_counting_file(path, COUNT - 1);
    ferry_buffer_destroy(&b);
}

/* The progress of ferry_buffer_load() and ferry_buffer_store() never decreases and ends at the
 * total. The progress callback can cancel both calls. */
static void
test_progress_and_cancel(void **state)
{
    fixture *f = *state;
    const char *path = path_of("progress"), *stored = path_of("progress stored");
    write_counting_file(path, COUNT);
    for (int place = 0; place <= 1; place++) {
        ferry_buffer *b = make_old(f, place);
        struct meddler stop = {.size = -1, .stop_after = 2}, watch = {.size = -1};
        ferry_copy_options options = meddled(f, place, &stop);
        FAILS(FERRY_ERROR_CANCELLED, ferry_buffer_load(b, INT, 0, FERRY_REST, path, 0, &options));
        assert_non_null(strstr(ferry_last_error(), "8192 of 20000 bytes arrived"));
        assert_int_equal(count_new(b), 2048);

        options = meddled(f, place, &watch);
        OK(ferry_buffer_load(b, INT, 0, FERRY_REST, path, 0, &options));
        assert_true(watch.last == BYTES && watch.total == BYTES && watch.calls == 5);

        watch = (struct meddler){.size = -1};
        OK(ferry_buffer_store(b, INT, 0, FERRY_REST, stored, 0, &options));
        assert_true(watch.last == BYTES && watch.total == BYTES && watch.calls == 5);
        expect_counting_file(stored, COUNT);
        assert_int_equal(unlink(stored), 0);
        stop = (struct meddler){.size = -1, .stop_after = 3};
        options = meddled(f, place, &stop);
        FAILS(FERRY_ERROR_CANCELLED,
              ferry_buffer_store(b, INT, 0, FERRY_REST, stored, 0, &options));
        assert_non_null(strstr(ferry_last_error(), "12288 of 20000 bytes arrived"));
        ferry_buffer_destroy(&b);
    }
}

/* ferry_buffer_store() truncates the file after the bytes that it wrote. If a signal interrupts the
 * system call for this, Ferry repeats it. If the system call fails for a different reason,
 * ferry_buffer_store() fails. */
static void
test_cuts_that_fail(void **state)
{
    fixture *f = *state;
    const char *path = path_of("cut");
    ferry_buffer *buffer = make_counting(f, COUNT, 0);
    OK(ferry_buffer_store(buffer, INT, 0, COUNT, path, 0, NULL));
    system_does.refuses_cut = EIO;
    FAILS(FERRY_ERROR_IO, ferry_buffer_store(buffer, INT, 0, 100, path, 0, NULL));
    assert_non_null(strstr(ferry_last_error(), "to 400 bytes"));
    assert_int_equal(file_bytes(path), BYTES);
    system_does.refuses_cut = EINTR;
    OK(ferry_buffer_store(buffer, INT, 0, 100, path, 0, NULL));
    assert_int_equal(system_does.refuses_cut, 0);
    assert_int_equal(file_bytes(path), 400);
    DESTROY_BUFFERS(&buffer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_loads_arrive_where_they_should),
        TEST(test_loads_go_where_the_range_is_current),
        TEST(test_stores_change_nothing_but_the_file),
        TEST(test_zeros_replace_old_bytes),
        TEST(test_round_trips_are_exact),
        TEST(test_what_a_store_leaves_of_a_file),
        TEST(test_typed),
        TEST(test_interrupted_and_short_calls_go_on),
        TEST(test_direct_falls_back_where_it_is_refused),
        TEST(test_files_that_cannot_be_loaded),
        TEST(test_wrong_arguments),
        TEST(test_broken_reads_leave_old_and_new),
        TEST(test_full_disks),
        TEST(test_files_that_change_while_they_are_read),
        TEST(test_sizes_that_cannot_be_learnt),
        TEST(test_cuts_that_fail),
        TEST(test_progress_and_cancel),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
