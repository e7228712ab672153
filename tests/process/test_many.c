/* SPDX-License-Identifier: MIT */
/* Checks very large numbers of buffers, segments and contexts. The environment variable
 * FERRY_LONG=1 selects the full numbers. Without it the numbers are divided by 10 to 100. */
#include "tests/buffer/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/base/sanitizer.h"
#include "tests/support/copies.h"
#include "tests/support/heap.h"

#define IDLE_BYTES 256 /* maximum heap bytes of one idle buffer in a context with one device */
/* maximum number of heap bytes by which each further device enlarges an idle buffer */
#define COPY_BYTES 48

static bool
is_long(void)
{
    const char *value = getenv("FERRY_LONG");
    return value && *value && strcmp(value, "0") != 0;
}

/* Reads how much address space and how much resident memory the process uses, in bytes. */
static void
ask_system(size_t *out_addresses, size_t *out_resident)
{
    size_t total = 0, pages = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &total, &pages), 2);
    fclose(file);
    *out_addresses = total * page;
    *out_resident = pages * page;
}

static size_t
resident(void)
{
    size_t addresses, bytes;
    ask_system(&addresses, &bytes);
    return bytes;
}

static size_t
addresses(void)
{
    size_t bytes, in_memory;
    ask_system(&bytes, &in_memory);
    return bytes;
}

static void
test_a_million_buffers(void **state)
{
    fixture *f = *state;
    size_t count = is_long() ? 1000000 : 50000;
    ferry_buffer **buffers = calloc(count, sizeof(ferry_buffer *));
    assert_non_null(buffers);
    memset(buffers, 0, count * sizeof(*buffers));
    size_t before = heap_bytes(), seen = resident();
    for (size_t i = 0; i < count; i++)
        OK(ferry_buffer_create(f->context, INT, 64, NULL, &buffers[i]));
    size_t each = (heap_bytes() - before) / count;
    print_message("# %zu idle buffers: %zu bytes of heap and %zu of resident memory for each\n",
                  count, each, (resident() - seen) / count);
#if !FERRYI_SANITIZED_MALLOC
    assert_true(each <= IDLE_BYTES + COPY_BYTES * (size_t)(f->places - 1));
#endif
    for (size_t i = 0; i < count; i += 97)
        write_counting(f, buffers[i], i % 2 ? 1 : 0, 0, 64, (int)(i % 1000));
    for (size_t i = 0; i < count; i += 97)
        expect_counting(f, buffers[i], i % 2 ? 0 : 1, 0, 64, (int)(i % 1000));
    /* Destroys every second buffer in the order of creation, and then the others in reverse order.
     * Both orders must be fast. */
    for (size_t i = 0; i < count; i += 2)
        ferry_buffer_destroy(&buffers[i]);
    for (size_t i = count; i-- > 0;)
        ferry_buffer_destroy(&buffers[i]);
    free(buffers);
}

static void
test_a_hundred_thousand_segments(void **state)
{
    fixture *f = *state;
    size_t segments = is_long() ? 100000 : 10000, count = segments;
    ferry_buffer *buffer = make_counting(f, count, 0);
    touch(f, buffer, 1, FERRY_READ, 0, count);
    /* Writes every second element on the host. The replica on the device then has many separate
     * stale segments. */
    uint64_t began = ferryi_now_ns();
    for (size_t i = 0; i < count; i += 2)
        write_counting(f, buffer, 0, i, 1, 1000000);
    uint64_t took = ferryi_now_ns() - began;
    began = ferryi_now_ns();
    if (!f->coherent)
        STATE(buffer, HOST_DIRTY);
    ferry_transfer_stats before = moved(f);
    ferry_scope scope;
    const int *values = open_at(f, buffer, 1, FERRY_READ, 0, count, &scope);
    assert_non_null(values);
    OK(ferry_scope_close(&scope));
    ferry_transfer_stats after = moved(f);
    if (!f->coherent)
        assert_true(crossing(&after) - crossing(&before) >= count / 2 * sizeof(int));
    print_message(
        "# %zu segments: %llu ns for each write that made one, %llu ms to bring them all\n",
        segments, (unsigned long long)(took / (count / 2)),
        (unsigned long long)((ferryi_now_ns() - began) / 1000000));
    int *back = malloc(count * sizeof(*back));
    assert_non_null(back);
    OK(ferry_buffer_invalidate(buffer, 0, count, 0));
    OK(ferry_buffer_copy_to(buffer, INT, 0, count, back, NULL));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(back[i], (int)i + (i % 2 ? 0 : 1000000));
    free(back);
    ferry_buffer_destroy(&buffer);
}

/* Creates a context, uses a buffer and a stream of the context, and destroys all of them. */
static void
use_context(void)
{
    ferry_context *context;
    ferry_buffer *buffer;
    ferry_stream *stream;
    int values[256] = {0};
    OK(ferry_context_create(NULL, &context));
    OK(ferry_stream_create(context, 1, &stream));
    OK(ferry_buffer_create_from(context, INT, LENGTH(values), values, NULL, &buffer));
    OK(ferry_buffer_sync_to(buffer, 0, FERRY_REST, 1, NULL));
    QUEUE(ferry_buffer_copy_from_async(buffer, INT, 0, LENGTH(values), values, ON(stream),
                                       &forgotten));
    OK(ferry_buffer_copy_to(buffer, INT, 0, LENGTH(values), values, NULL));
    ferry_buffer_destroy(&buffer);
    ferry_stream_destroy(&stream);
    ferry_context_destroy(&context);
}

static void
test_ten_thousand_contexts(void **state)
{
    (void)state;
    bool cuda = strcmp(getenv("FERRY_DEVICE"), "cuda") == 0;
    int count = cuda ? 4000 : 10000;
    if (!is_long())
        count /= 20;
    const char *shorter = getenv("FERRY_PROCESS_CONTEXTS"); /* set for runs under valgrind */
    if (shorter)
        count = atoi(shorter);
    int warm = count / 5;
    for (int i = 0; i < warm; i++)
        use_context();
    heap_trim();
    size_t resident_before = resident(), heap_before = heap_bytes();
    for (int i = warm; i < count; i++)
        use_context();
    heap_trim();
    size_t heap = heap_bytes(), pages = resident();
    size_t grown = heap > heap_before ? heap - heap_before : 0;
    size_t rose = pages > resident_before ? pages - resident_before : 0;
    print_message("# %d contexts: the heap grew by %zu bytes, resident memory by %zu\n",
                  count - warm, grown, rose);
#if !FERRYI_SANITIZED_MALLOC
    /* The heap may grow by 16 bytes for each context. A leak in each context would be larger.
     * Another 16384 bytes are allowed, because the size of the heap also depends on the order in
     * which threads run. */
    assert_true(grown <= (size_t)(count - warm) * 16 + 16384);
    if (!shorter) /* Valgrind's own memory grows */
        assert_true(rose <= (size_t)4 << 20);
#endif
}

static void
write_and_destroy(fixture *f, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ferry_buffer *buffer = make_counting(f, 1, (int)i);
        expect_counting(f, buffer, 0, 0, 1, (int)i);
        ferry_buffer_destroy(&buffer);
    }
}

/* With FERRY_DEBUG=1 the addresses of freed buffers stay reserved, to detect late accesses. Checks
 * that the number of such buffers is limited, so that the address space cannot run out. */
static void
test_addresses_of_the_gone_are_bounded(void **state)
{
    (void)state;
    fixture f;
    if (FERRYI_THREAD_SANITIZER)
        skip(); /* FERRY_DEBUG=1 is not supported in builds with the thread sanitizer */
    setenv("FERRY_DEBUG", "1", 1);
    fixture_open(&f, &(ferry_context_options){0});
    size_t at_first = addresses();
    write_and_destroy(&f, 4500);
    size_t kept = addresses() - at_first;
    write_and_destroy(&f, 4500);
    size_t more = addresses() - at_first - kept;
    print_message("# %zu bytes of addresses were kept of 4500 buffers, and %zu of as many more\n",
                  kept, more);
#if !FERRYI_SANITIZED_MALLOC
    assert_true(kept > (size_t)4000 * 3 * (size_t)sysconf(_SC_PAGESIZE));
    assert_true(more < kept / 4);
#endif
    fixture_close(&f);
    setenv("FERRY_DEBUG", "0", 1);
}

int
main(void)
{
    setenv("FERRY_DEBUG", "0", 1); /* with FERRY_DEBUG=1 the library keeps freed memory for a while,
                                      which would change the measurements */
    const struct CMUnitTest tests[] = {
        TEST(test_a_million_buffers),
        TEST(test_a_hundred_thousand_segments),
        cmocka_unit_test(test_ten_thousand_contexts),
        cmocka_unit_test(test_addresses_of_the_gone_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
