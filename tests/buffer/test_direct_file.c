/* SPDX-License-Identifier: MIT */
/* Tests loads and stores whose aligned middle passes between the file and the memory of a CUDA
 * device, by fakecufile over fakecuda. What fakecufile refuses must go through host memory, with
 * the same result. */
#include "tests/buffer/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/fakecuda.h"
#include "tests/support/fakecufile.h"

enum { BLOCK = 4096, BYTES = 11 * BLOCK, COUNT = BYTES / 4 };

static struct fakecufile cufile;
static struct fakecuda cuda;

/* -- the system -------------------------------------------------------------------------------- */

/* Reads and writes of the host fail with EIO from this file offset on. 0: none fails. */
static off_t broken_at;

ssize_t
pread(int fd, void *memory, size_t bytes, off_t offset)
{
    if (broken_at && offset + (off_t)bytes > broken_at) {
        errno = EIO;
        return -1;
    }
    ssize_t result = syscall(SYS_pread64, fd, memory, bytes, offset);
    if (result > 0)
        mark_initialized(memory, (size_t)result);
    return result;
}

ssize_t
pwrite(int fd, const void *memory, size_t bytes, off_t offset)
{
    if (broken_at && offset + (off_t)bytes > broken_at) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, memory, bytes, offset);
}

/* Returns whether the file system of the tests has direct I/O. */
static bool
has_direct_io(void)
{
    const char *path = path_of("probe");
    write_file(path, "", 0);
    int fd = open(path, O_RDONLY | O_DIRECT);
    if (fd >= 0)
        close(fd);
    unlink(path);
    return fd >= 0;
}

/* -- the fixture ------------------------------------------------------------------------------- */

static int
start(void **state)
{
    cufile.fakecufile_reset();
    return fixture_setup(state);
}

/* Checks that no handle is left, that the driver of cuFile is closed as often as opened, and that
 * all bytes passed in whole blocks. */
static void
expect_closed(void)
{
    const struct fakecufile_counts counts = cufile.fakecufile_counts();
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.opens, counts.closes);
    assert_int_equal(counts.unaligned, 0);
}

static int
end(void **state)
{
    fixture_teardown(state);
    expect_closed();
    assert_int_equal(cuda.fakecuda_context_depth(), 0);
    return 0;
}

#define DIRECT_TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

static uint64_t
direct_bytes(void)
{
    const struct fakecufile_counts counts = cufile.fakecufile_counts();
    return counts.read + counts.wrote;
}

/* Returns a buffer whose newest bytes are on the device. */
static ferry_buffer *
make_on_device(fixture *f, const ferry_element *element, const void *bytes, size_t count)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create_from(f->context, element, count, bytes, NULL, &buffer));
    touch(f, buffer, 1, FERRY_UPDATE, 0, FERRY_REST);
    return buffer;
}

static void
expect_bytes(ferry_buffer *buffer, const void *expected, size_t count)
{
    const ferry_element *element = ferry_buffer_element(buffer);
    unsigned char *got = malloc(count * element->bytes);
    assert_non_null(got);
    OK(ferry_buffer_copy_to(buffer, element, 0, count, got, NULL));
    assert_memory_equal(got, expected, count * element->bytes);
    free(got);
}

static void
draw(fixture *f, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(random_next(&f->seed) >> 32);
}

/* -- heads, middles and tails ------------------------------------------------------------------ */

struct shape {
    size_t element, offset, count; /* size of an element; first element in the buffer */
    uint64_t file_offset;
};

/* Returns how many bytes must pass directly: those between the first and the last end of an element
 * at which a block of the file begins. */
static size_t
expected_direct(const struct shape *shape)
{
    size_t first = SIZE_MAX, last = 0;
    for (size_t i = 0; i <= shape->count; i++)
        if ((shape->file_offset + i * shape->element) % BLOCK == 0) {
            first = first == SIZE_MAX ? i : first;
            last = i;
        }
    return first == SIZE_MAX ? 0 : (last - first) * shape->element;
}

/* Stores and loads a range, and compares the file and the buffer with what they must hold. */
static void
check_shape(fixture *f, const struct shape *shape)
{
    static unsigned char source[BYTES], old[BYTES], expected[BYTES + 4 * BLOCK];
    const ferry_field field = {
        .name = "x", .kind = FERRY_KIND_UINT, .bits = 8, .count = shape->element};
    ferry_element element = {.name = "block",
                             .bytes = shape->element,
                             .align = 1,
                             .kind = FERRY_KIND_STRUCT,
                             .fields = &field,
                             .field_count = 1};
    element.identity = ferry_element_identity(&element);
    const size_t all = BYTES / shape->element, direct = expected_direct(shape),
                 at = shape->offset * shape->element, bytes = shape->count * shape->element;
    const ferry_copy_options options = {
        .stream = f->stream, .file_direct = true, .file_keep_rest = true};
    const char *path = path_of("shape");
    draw(f, source, BYTES);
    draw(f, old, BYTES);
    memset(expected, 0x5a, sizeof(expected));
    write_file(path, expected, sizeof(expected));
    memcpy(expected + shape->file_offset, source + at, bytes);
    ferry_buffer *a = make_on_device(f, &element, source, all),
                 *b = make_on_device(f, &element, old, all);
    cufile.fakecufile_reset();

    ferry_transfer_stats before = moved(f);
    OK(ferry_buffer_store(a, &element, shape->offset, shape->count, path, shape->file_offset,
                          &options));
    ferry_transfer_stats after = moved(f);
    expect_file(path, expected, sizeof(expected));
    assert_int_equal(cufile.fakecufile_counts().wrote, direct);
    assert_int_equal(after.download.bytes - before.download.bytes, bytes);
    assert_int_equal(after.direct.bytes - before.direct.bytes, direct);
    assert_int_equal(after.staged.bytes - before.staged.bytes, bytes - direct);

    OK(ferry_buffer_load(b, &element, shape->offset, shape->count, path, shape->file_offset,
                         &options));
    before = moved(f);
    assert_int_equal(cufile.fakecufile_counts().read, direct);
    assert_int_equal(before.upload.bytes - after.upload.bytes, bytes);
    assert_int_equal(before.direct.bytes - after.direct.bytes, direct);
    memcpy(old + at, source + at, bytes);
    assert_false(ferry_buffer_is_current(b, 0));
    expect_bytes(b, old, all);
    DESTROY_BUFFERS(&a, &b);
}

/* The bytes between the first and the last place where a block of the file begins at an element
 * pass directly, and all others through the ring, whatever the sizes and offsets are. */
static void
test_heads_middles_and_tails(void **state)
{
    fixture *f = *state;
    static const size_t elements[] = {1, 4, 8, 12, 1000, 5000};
    static const uint64_t offsets[] = {
        0, 1, 4, 96, 2000, BLOCK - 4, BLOCK, BLOCK + 4, 3 * BLOCK - 12};
    static const size_t lengths[] = {1,         BLOCK - 1, BLOCK,         BLOCK + 1,
                                     2 * BLOCK, 20000,     8 * BLOCK + 7, 10 * BLOCK};
    size_t whole = 0, parts = 0, none = 0;
    for (size_t e = 0; e < LENGTH(elements); e++)
        for (size_t o = 0; o < LENGTH(offsets); o++)
            for (size_t l = 0; l < LENGTH(lengths); l++) {
                const struct shape shape = {.element = elements[e],
                                            .offset = l % 2,
                                            .count = lengths[l] / elements[e],
                                            .file_offset = offsets[o]};
                const size_t direct = expected_direct(&shape);
                if (shape.count == 0)
                    continue;
                check_shape(f, &shape);
                whole += direct == shape.count * shape.element;
                parts += direct > 0 && direct < shape.count * shape.element;
                none += direct == 0;
            }
    assert_true(whole > 5 && parts > 50 && none > 20);
}

/* -- refusals ---------------------------------------------------------------------------------- */

struct watch {
    size_t calls, stop_at, done;
};

static bool
keep_going(size_t done, size_t total, void *user)
{
    struct watch *watch = user;
    assert_true(done >= watch->done && done <= total && total == BYTES && done % 4 == 0);
    watch->done = done;
    return ++watch->calls != watch->stop_at;
}

/* Stores and loads all of a buffer in parts of two blocks. The file has an unaligned head and tail.
 * Both must succeed. `ask` asks fakecufile for a failure of the next call. */
static void
check_round_trip(fixture *f, void (*ask)(const void *what), const void *what)
{
    static unsigned char source[BYTES], zeros[BYTES];
    struct watch watch = {0};
    const ferry_copy_options options = {.stream = f->stream,
                                        .file_direct = true,
                                        .chunk_bytes = 2 * BLOCK,
                                        .keep_going = keep_going,
                                        .user = &watch};
    const char *path = path_of("trip");
    draw(f, source, BYTES);
    ferry_buffer *a = make_on_device(f, INT, source, COUNT),
                 *b = make_on_device(f, INT, zeros, COUNT);
    ask(what);
    OK(ferry_buffer_store(a, INT, 0, COUNT, path, 100, &options));
    assert_true(watch.done == BYTES && watch.calls >= BYTES / (4 * BLOCK));
    watch = (struct watch){0};
    ask(what);
    OK(ferry_buffer_load(b, INT, 0, COUNT, path, 100, &options));
    assert_true(watch.done == BYTES && watch.calls >= BYTES / (4 * BLOCK));
    assert_int_equal(cufile.fakecufile_counts().handles, 0);
    assert_int_equal(cufile.fakecufile_counts().unaligned, 0);
    expect_bytes(b, source, COUNT);
    DESTROY_BUFFERS(&a, &b);
}

struct shortened {
    size_t bytes;
    int nth;
};

static void
shorten(const void *what)
{
    const struct shortened *shortened = what;
    cufile.fakecufile_shorten_next(shortened->bytes, shortened->nth);
}

/* If a read or a write ends early, at any byte, the rest arrives all the same. */
static void
test_short_reads_and_writes(void **state)
{
    static const size_t bytes[] = {0, 1, 4, BLOCK - 1, BLOCK, BLOCK + 5, 2 * BLOCK - 4};
    for (int nth = 1; nth <= 3; nth++)
        for (size_t i = 0; i < LENGTH(bytes); i++)
            check_round_trip(*state, shorten, &(struct shortened){bytes[i], nth});
    cufile.fakecufile_reset();
}

struct failure {
    const char *symbol;
    int error, nth;
};

static void
fail_one(const void *what)
{
    const struct failure *failure = what;
    cufile.fakecufile_fail_next(failure->symbol, failure->error, failure->nth);
}

/* A call that fails sends the bytes through host memory. */
static void
test_each_call_may_fail(void **state)
{
    static const char *const symbols[] = {"cuFileHandleRegister", "cuFileRead", "cuFileWrite"};
    static const int errors[] = {5008, 5011, EIO};
    for (size_t s = 0; s < LENGTH(symbols); s++)
        for (size_t e = 0; e < LENGTH(errors) - (s == 0); e++)
            for (int nth = 1; nth <= (s == 0 ? 1 : 4); nth++)
                check_round_trip(*state, fail_one, &(struct failure){symbols[s], errors[e], nth});
    /* An interrupted call is repeated. */
    cufile.fakecufile_reset();
    check_round_trip(*state, fail_one, &(struct failure){"cuFileRead", EINTR, 2});
    assert_int_equal(direct_bytes(), 2 * (BYTES - BLOCK));
    cufile.fakecufile_reset();
}

/* A file that neither way reads or writes fails the call. What arrived before is new, and nothing
 * else has changed. */
static void
test_a_broken_file(void **state)
{
    fixture *f = *state;
    static int32_t source[COUNT], old[COUNT], got[COUNT];
    const ferry_copy_options options = {
        .stream = f->stream, .file_direct = true, .chunk_bytes = 2 * BLOCK};
    const char *path = path_of("broken");
    struct watch watch = {0};
    ferry_copy_options watched = options;
    watched.keep_going = keep_going;
    watched.user = &watch;
    for (int i = 0; i < COUNT; i++) {
        source[i] = i;
        old[i] = -1;
    }
    write_file(path, source, BYTES);
    ferry_buffer *b = make_on_device(f, INT, old, COUNT);
    cufile.fakecufile_fail_next("cuFileRead", EIO, 2);
    broken_at = 3 * BLOCK;
    FAILS(FERRY_ERROR_IO, ferry_buffer_load(b, INT, 0, COUNT, path, 0, &watched));
    broken_at = 0;
    expect_said(path, strerror(EIO));
    OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
    assert_memory_equal(got, source, 2 * BLOCK);
    for (int i = 2 * BLOCK / 4; i < COUNT; i++)
        assert_int_equal(got[i], -1);

    touch(f, b, 1, FERRY_UPDATE, 0, FERRY_REST);
    cufile.fakecufile_fail_next("cuFileWrite", ENOSPC, 2);
    broken_at = 2 * BLOCK;
    watch = (struct watch){0};
    FAILS(FERRY_ERROR_IO, ferry_buffer_store(b, INT, 0, COUNT, path, 0, &watched));
    broken_at = 0;
    expect_said(path, "8192 of 45056 bytes");
    ferry_buffer_destroy(&b);
}

/* -- why a file goes through host memory ------------------------------------------------------- */

static char logged[1024];

static void
keep_last(ferry_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    if (strstr(message, "goes through"))
        snprintf(logged, sizeof(logged), "%s", message);
}

/* Loads a range of a file twice in a new context. The range has a head and a tail. Each time the
 * log must say `why` the bytes did not pass directly. NULL: they did. */
static void
check_reason(const char *why)
{
    enum { BEFORE = 25 };
    static int32_t values[BEFORE + COUNT];
    const char *path = path_of("reason");
    fixture f;
    for (int i = 0; i < BEFORE + COUNT; i++)
        values[i] = 3 * i;
    write_file(path, values, sizeof(values));
    fixture_open(&f, &(ferry_context_options){.log = keep_last});
    const ferry_copy_options options = {.stream = f.stream, .file_direct = true};
    for (int i = 0; i < 2; i++) {
        ferry_buffer *b = make_ints(&f, COUNT);
        const uint64_t before = direct_bytes();
        const ferry_transfer_stats stats = moved(&f);
        logged[0] = 0;
        support_clear_error();
        OK(ferry_buffer_load(b, INT, 0, COUNT, path, 4 * BEFORE, &options));
        assert_non_null(strstr(ferry_last_error(), "a message from before"));
        assert_int_equal(moved(&f).upload.copies - stats.upload.copies, why ? 1 : 3);
        expect_bytes(b, values + BEFORE, COUNT);
        assert_int_equal(direct_bytes() - before, why ? 0 : BYTES - BLOCK);
        if (why && (!strstr(logged, why) || !strstr(logged, path)))
            fail_msg("\"%s\" is not in \"%s\"", why, logged);
        assert_true(why || !logged[0]);
        ferry_buffer_destroy(&b);
    }
    fixture_close(&f);
    assert_int_equal(cufile.fakecufile_counts().handles, 0);
}

/* Must be the first test: a library that was loaded stays. */
static void
test_libraries_that_cannot_be_used(void **state)
{
    (void)state;
    setenv("FERRY_CUFILE_LIBRARY", "/dev/null/absent/libcufile.so", 1);
    check_reason("load cuFile: ");
    check_reason("/dev/null/absent/libcufile.so");
    setenv("FERRY_CUFILE_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecuda_missing.so", 1);
    check_reason("load cuFile: it has no cuFile");
    setenv("FERRY_CUFILE_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecufile_old.so", 1);
    check_reason("it has no cuFileGetVersion; a release after 1.7 is needed");
    setenv("FERRY_CUFILE_LIBRARY", FERRY_TEST_FAKECUDA_FOLDER "/libfakecufile.so", 1);
}

/* A driver that would pass bytes through host memory is not used, and one that cannot be opened is
 * asked once by each context. */
static void
test_drivers_that_are_not_used(void **state)
{
    (void)state;
    cufile.fakecufile_reset();
    cufile.fakecufile_set_driver(false, true);
    check_reason("nvidia-fs is not loaded");
    assert_int_equal(cufile.fakecufile_counts().opens, 1);
    expect_closed();
    cufile.fakecufile_set_driver(false, false);
    check_reason(NULL);
    cufile.fakecufile_fail_next("cuFileDriverOpen", 5008, 1);
    check_reason("cuFileDriverOpen: cuFile error 5008");
    expect_closed();
    cufile.fakecufile_reset();
    cufile.fakecufile_fail_next("cuFileDriverGetProperties", 5002, 1);
    check_reason("cuFileDriverGetProperties: cuFile error 5002");
    assert_int_equal(cufile.fakecufile_counts().opens, 1);
    expect_closed();
    check_reason(NULL);
}

/* Ferry opens the driver of cuFile once for all contexts. If another library has opened it, Ferry
 * leaves closing it to that library. */
static void
test_the_driver_is_shared(void **state)
{
    fixture *f = *state;
    fixture other;
    ferry_buffer *b = make_ints(f, COUNT);
    const ferry_copy_options options = {.stream = f->stream, .file_direct = true};
    write_counting_file(path_of("shared"), COUNT);
    OK(ferry_buffer_load(b, INT, 0, COUNT, path_of("shared"), 0, &options));
    check_reason(NULL);
    assert_int_equal(cufile.fakecufile_counts().opens, 1);
    assert_int_equal(cufile.fakecufile_counts().closes, 0);
    OK(ferry_buffer_load(b, INT, 0, COUNT, path_of("shared"), 0, &options));
    ferry_buffer_destroy(&b);
    fixture_close(f);
    assert_int_equal(cufile.fakecufile_counts().closes, 1);

    cufile.fakecufile_reset();
    cufile.fakecufile_fail_next("cuFileDriverOpen", 5026, 1);
    check_reason(NULL);
    assert_int_equal(cufile.fakecufile_counts().closes, 0);
    fixture_open(&other, NULL); /* for the teardown of the test */
    *f = other;
}

/* -- what does not pass directly --------------------------------------------------------------- */

/* Only loads and stores of one range of device memory with `file_direct` pass directly: no rows, no
 * conversions, no host memory. */
static void
test_what_goes_through_host_memory(void **state)
{
    fixture *f = *state;
    const char *path = path_of("others");
    write_counting_file(path, COUNT);
    ferry_copy_options options = {.stream = f->stream};
    ferry_buffer *b = make_ints(f, COUNT), *floats;
    OK(ferry_buffer_create(f->context, FLOAT, COUNT, NULL, &floats));
    OK(ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options));
    expect_counting(f, b, 1, 0, COUNT, 0);
    options.file_direct = true;
    options.stream = NULL;
    ferry_buffer *at_host = make_ints(f, COUNT);
    OK(ferry_buffer_load(at_host, INT, 0, COUNT, path, 0, &options));
    OK(ferry_buffer_store(at_host, INT, 0, COUNT, path, 0, &options));
    options.stream = f->stream;
    const ferry_copy_region rows = {.target = {.buffer = b, .row_pitch = COUNT / 2},
                                    .source = {.path = path, .row_pitch = COUNT / 2},
                                    .count = COUNT / 2 - 1,
                                    .rows = 2};
    OK(ferry_copy(&rows, 1, &options));
    expect_counting(f, b, 1, 0, COUNT, 0);
    options.convert = FERRY_CONVERT_SATURATE;
    const ferry_copy_region converts = {
        .target = {.buffer = floats}, .source = {.path = path, .element = INT}, .count = COUNT};
    OK(ferry_copy(&converts, 1, &options));
    assert_int_equal(cufile.fakecufile_counts().opens, 0);
    assert_int_equal(cufile.fakecufile_counts().copies, 0);
    DESTROY_BUFFERS(&b, &floats, &at_host);
}

/* -- order, progress, captures, loss ----------------------------------------------------------- */

/* A store waits for work that writes the range, and a load for work that reads it. A later use on
 * another stream finds what was loaded. */
static void
test_the_order_of_uses(void **state)
{
    fixture *f = *state;
    static int32_t written[COUNT], got[COUNT];
    const ferry_copy_options options = {.stream = f->stream, .file_direct = true};
    const char *path = path_of("order");
    ferry_scope scope;
    for (int i = 0; i < COUNT; i++)
        written[i] = 7 - i;
    ferry_buffer *b = make_ints(f, COUNT), *c = make_ints(f, COUNT);
    OK(ferry_buffer_reserve(c, 1));
    for (int round = 0; round < 3; round++) {
        written[0] = round;
        void *memory = open_at(f, b, 1, FERRY_OVERWRITE, 0, FERRY_REST, &scope);
        device_write(f, 1, memory, written, BYTES);
        OK(ferry_scope_close(&scope));
        OK(ferry_buffer_store(b, INT, 0, COUNT, path, 0, &options));
        expect_file(path, written, BYTES);

        /* The copy out of `b` is queued, and the load that follows must not overtake it. */
        OK(ferry_buffer_copy(c, INT, 0, b, 0, COUNT, &(ferry_copy_options){.stream = f->stream}));
        written[1] = -round;
        write_file(path, written, BYTES);
        OK(ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options));
        memory = open_at(f, b, 1, FERRY_READ, 0, FERRY_REST, &scope);
        device_read(f, 1, got, memory, BYTES);
        OK(ferry_scope_close(&scope));
        assert_memory_equal(got, written, BYTES);
        written[1] = 6;
        expect_bytes(c, written, COUNT);
    }
    DESTROY_BUFFERS(&b, &c);
}

/* A call that is cancelled tears no element, and reports how far it came. */
static void
test_cancelled(void **state)
{
    fixture *f = *state;
    static int32_t source[COUNT], old[COUNT], got[COUNT];
    const char *path = path_of("cancelled");
    for (int i = 0; i < COUNT; i++) {
        source[i] = i;
        old[i] = -1;
    }
    write_file(path, source, BYTES);
    ferry_status status = FERRY_ERROR_CANCELLED;
    for (size_t stop = 1; status != FERRY_OK; stop++) {
        struct watch watch = {.stop_at = stop};
        const ferry_copy_options options = {.stream = f->stream,
                                            .file_direct = true,
                                            .chunk_bytes = 2 * BLOCK,
                                            .keep_going = keep_going,
                                            .user = &watch};
        ferry_buffer *b = make_on_device(f, INT, old, COUNT);
        status = ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options);
        assert_true(status == FERRY_OK || status == FERRY_ERROR_CANCELLED);
        assert_int_equal(cufile.fakecufile_counts().handles, 0);
        OK(ferry_buffer_copy_to(b, INT, 0, COUNT, got, NULL));
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(got[i], i < watch.done / 4 ? source[i] : -1);
        assert_true(stop > 5 || status == FERRY_ERROR_CANCELLED);
        ferry_buffer_destroy(&b);
    }
}

/* The asynchronous twins pass the middle directly too. */
static void
test_asynchronous(void **state)
{
    fixture *f = *state;
    const ferry_copy_options options = {.stream = f->stream, .file_direct = true};
    const char *path = path_of("asynchronous");
    write_counting_file(path, COUNT);
    ferry_buffer *b = make_ints(f, COUNT);
    ferry_event *event;
    OK(ferry_buffer_load_async(b, INT, 0, COUNT, path, 0, &options, &event));
    OK(ferry_event_synchronize(event));
    ferry_event_destroy(&event);
    expect_counting(f, b, 1, 0, COUNT, 0);
    assert_int_equal(direct_bytes(), BYTES);
    OK(ferry_buffer_store_async(b, INT, 0, COUNT, path, 0, &options, NULL));
    OK(ferry_buffer_wait_idle(b, 1));
    expect_counting_file(path, COUNT);
    ferry_buffer_destroy(&b);
}

/* The library's calls leave a capture valid, and are no part of the graph. The stream of the
 * options only chooses the place, so that it may be the captured one. */
static void
test_beside_a_capture(void **state)
{
    fixture *f = *state;
    const char *path = path_of("capture");
    ferry_copy_options options = {.stream = f->stream, .file_direct = true};
    ferry_stream *captured;
    int nodes = -1;
    write_counting_file(path, COUNT);
    ferry_buffer *b = make_ints(f, COUNT);
    OK(ferry_buffer_reserve(b, 1));
    OK(ferry_stream_create(f->context, 1, &captured));
    assert_int_equal(cuda.fakecuda_begin_capture(ferry_stream_native(captured), 0), 0);
    OK(ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options));
    assert_int_equal(direct_bytes(), BYTES);
    options.stream = captured;
    OK(ferry_buffer_store(b, INT, 0, COUNT, path, 0, &options));
    assert_int_equal(direct_bytes(), 2 * BYTES);
    assert_int_equal(cuda.fakecuda_end_capture(ferry_stream_native(captured), &nodes), 0);
    assert_int_equal(nodes, 0);
    ferry_stream_destroy(&captured);
    expect_counting(f, b, 1, 0, COUNT, 0);
    ferry_buffer_destroy(&b);
}

/* On a device that is lost during the call, the call fails, and no handle is left. The driver of
 * cuFile stays open, because closing it would call the driver of a lost device. */
static void
test_a_lost_device(void **state)
{
    (void)state;
    static int32_t values[COUNT];
    const char *path = path_of("lost");
    write_counting_file(path, COUNT);
    for (int stores = 0; stores <= 1; stores++) {
        ferry_context *context;
        ferry_buffer *b;
        cufile.fakecufile_reset();
        OK(ferry_context_create(&(ferry_context_options){.log = keep_last}, &context));
        const ferry_copy_options options = {.stream = ferry_context_stream(context, 1),
                                            .file_direct = true};
        OK(ferry_buffer_create_from(context, INT, COUNT, values, NULL, &b));
        OK(ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options));
        assert_int_equal(direct_bytes(), BYTES);
        cuda.fakecuda_lose(999);
        FAILS(FERRY_ERROR_DEVICE_LOST,
              stores ? ferry_buffer_store(b, INT, 0, COUNT, path, 0, &options)
                     : ferry_buffer_load(b, INT, 0, COUNT, path, 0, &options));
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
        cuda.fakecuda_fail_none();
        assert_int_equal(cufile.fakecufile_counts().handles, 0);
        assert_int_equal(cufile.fakecufile_counts().closes, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries_that_cannot_be_used),
        cmocka_unit_test(test_drivers_that_are_not_used),
        DIRECT_TEST(test_heads_middles_and_tails),
        DIRECT_TEST(test_short_reads_and_writes),
        DIRECT_TEST(test_each_call_may_fail),
        DIRECT_TEST(test_a_broken_file),
        DIRECT_TEST(test_the_driver_is_shared),
        DIRECT_TEST(test_what_goes_through_host_memory),
        DIRECT_TEST(test_the_order_of_uses),
        DIRECT_TEST(test_cancelled),
        DIRECT_TEST(test_asynchronous),
        DIRECT_TEST(test_beside_a_capture),
        cmocka_unit_test(test_a_lost_device),
    };
    /* fakecufile copies with the driver that FERRY_CUDA_LIBRARY names. The stages of ./dev gpu do
     * not set it. */
    if (!getenv("FERRY_CUDA_LIBRARY") || !fakecuda_find_driver(&cuda) ||
        !fakecufile_find(FERRY_TEST_FAKECUDA_FOLDER "/libfakecufile.so", &cufile)) {
        print_message("1..0 # skip: the driver is not fakecuda\n");
        return 77;
    }
    files_setup(NULL);
    const bool direct = has_direct_io();
    int failed = 0;
    if (direct)
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    else
        print_message("1..0 # skip: the file system has no direct I/O\n");
    files_teardown(NULL);
    return direct ? failed : 77;
}
