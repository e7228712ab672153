/* SPDX-License-Identifier: MIT */
/* Tests which entries the calls of a program leave in a trace, and what each of them says. What
 * `ferry trace` makes of a trace is tested in tests/cli. */
#include <stdio.h>

#include "tests/buffer/files.h"
#include "tests/buffer/work.h"
#include "tests/support/copies.h"
#include "tests/support/folder.h"

enum { COUNT = 1000 };

static fixture opened;

/* Opens a context with a trace, and with 2 MiB of device memory. */
static fixture *
begin_trace(void)
{
    fixture_open(&opened, &(ferry_context_options){.devices = "emulated",
                                                   .device_bytes_limit = 2 << 20,
                                                   .trace_file = path_of("trace")});
    return &opened;
}

/* Copies the string at `key` of an entry, which is `"key":"string"`. */
static void
read_key(const char *entry, const char *key, char *out, size_t out_bytes)
{
    const char *at = strstr(entry, key);
    assert_non_null(at);
    at += strlen(key);
    snprintf(out, out_bytes, "%.*s", (int)strcspn(at, "\""), at);
}

/* Checks the entries of one category in the trace: for each, its phase, its name and its arguments,
 * as `i copy_to {id:1}` in a line. Quotes are left out. */
static void
expect_entries(const char *category, const char *wanted)
{
    static char found[1 << 16];
    char is_of[40], phase[8], name[64];
    size_t bytes, length = 0;
    char *text = folder_read_file(path_of("trace"), &bytes), *rest = text;
    snprintf(is_of, sizeof(is_of), "\"cat\":\"%s\"", category);
    *found = 0;
    for (char *entry; (entry = strtok_r(rest, "\n", &rest));) {
        const char *arguments = strstr(entry, "\"args\":");
        if (!strstr(entry, is_of))
            continue;
        read_key(entry, "\"ph\":\"", phase, sizeof(phase));
        read_key(entry, "\"name\":\"", name, sizeof(name));
        length += (size_t)snprintf(found + length, sizeof(found) - length, "%s %s %.*s\n", phase,
                                   name, (int)strcspn(arguments + 7, "}") + 1, arguments + 7);
    }
    free(text);
    length = 0;
    for (const char *at = found; *at; at++)
        if (*at != '"')
            found[length++] = *at;
    found[length] = 0;
    assert_string_equal(found, wanted);
}

static ferry_buffer *
make_traced(fixture *f, const char *name)
{
    ferry_buffer *buffer;
    OK(ferry_buffer_create(f->context, INT, COUNT, &(ferry_buffer_options){.name = name}, &buffer));
    return buffer;
}

/* -- buffers, scopes, uses --------------------------------------------------------------------- */

static void
test_buffers_and_holds(void **state)
{
    (void)state;
    fixture *f = begin_trace();
    void *memory;
    ferry_buffer *a = make_traced(f, "a"), *b = make_ints(f, COUNT), *view;
    OK(ferry_buffer_view(a, INT, 100, 50, &view));
    OK(ferry_buffer_hold(a, 1, &memory));
    OK(ferry_buffer_release(a, 1));
    OK(ferry_buffer_hold(b, 0, &memory));
    OK(ferry_buffer_release(b, 0));
    DESTROY_BUFFERS(&view, &a, &b);
    fixture_close(f);
    expect_entries("buffer", "i create {buffer:a,id:1,bytes:4000}\n"
                             "i create {id:2,bytes:4000}\n"
                             "i hold {buffer:a,id:1,offset:0,bytes:4000,place:emulated:0}\n"
                             "i hold {id:2,offset:0,bytes:4000,place:host}\n");
}

static void
test_scopes_begin_and_end(void **state)
{
    (void)state;
    fixture *f = begin_trace();
    ferry_buffer *a = make_traced(f, "a");
    ferry_scope scope, other;
    touch(f, a, 0, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, a, 1, FERRY_UPDATE, 10, 20);
    touch(f, a, 0, FERRY_READ, 5, 100); /* copies */
    (void)open_at(f, a, 0, FERRY_READ, 5, 100, &scope);
    (void)open_at(f, a, 0, FERRY_UPDATE, 500, 1, &other);
    OK(ferry_scope_abandon(&other));
    OK(ferry_scope_close(&scope));
    ferry_buffer_destroy(&a);
    fixture_close(f);
    expect_entries(
        "scope",
        "b overwrite_host {buffer:a,id:1,offset:0,bytes:4000,access:overwrite,place:host}\n"
        "e overwrite_host "
        "{buffer:a,id:1,offset:0,bytes:4000,access:overwrite,place:host,end:close}\n"
        "b update_device "
        "{buffer:a,id:1,offset:40,bytes:80,access:update,place:emulated:0,stream:1}\n"
        "e update_device "
        "{buffer:a,id:1,offset:40,bytes:80,access:update,place:emulated:0,end:close}\n"
        "b read_host {buffer:a,id:1,offset:20,bytes:400,access:read,place:host}\n"
        "e read_host {buffer:a,id:1,offset:20,bytes:400,access:read,place:host,end:close}\n"
        "b read_host {buffer:a,id:1,offset:20,bytes:400,access:read,place:host}\n"
        "b update_host {buffer:a,id:1,offset:2000,bytes:4,access:update,place:host}\n"
        "e update_host {buffer:a,id:1,offset:2000,bytes:4,access:update,place:host,end:abandon}\n"
        "e read_host {buffer:a,id:1,offset:20,bytes:400,access:read,place:host,end:close}\n");
}

static void
test_calls_use_ranges(void **state)
{
    (void)state;
    static int values[COUNT];
    const int seven = 7;
    fixture *f = begin_trace();
    ferry_buffer *a = make_traced(f, "a"), *b = make_traced(f, "b");
    OK(ferry_buffer_copy_from(a, INT, 1, 9, values, NULL));
    OK(ferry_buffer_copy_to(a, INT, 2, 5, values, NULL));
    OK(ferry_buffer_fill(a, INT, 3, 4, &seven, NULL));
    OK(ferry_buffer_copy(a, INT, 500, a, 0, 100, NULL));
    OK(ferry_buffer_sync_to(a, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_prefetch(b, 0, FERRY_REST, 1, NULL));
    OK(ferry_buffer_invalidate(b, 0, FERRY_REST, 0));
    DESTROY_BUFFERS(&a, &b);
    fixture_close(f);
    expect_entries("use",
                   "i copy_from {buffer:a,id:1,offset:4,bytes:36,access:overwrite,place:host}\n"
                   "i copy_to {buffer:a,id:1,offset:8,bytes:20,access:read,place:any}\n"
                   "i fill {buffer:a,id:1,offset:12,bytes:16,access:overwrite,place:host}\n"
                   "i copy {buffer:a,id:1,offset:0,bytes:400,access:read,place:host}\n"
                   "i copy {buffer:a,id:1,offset:2000,bytes:400,access:overwrite,place:host}\n"
                   "i sync_to {buffer:a,id:1,offset:0,bytes:4000,access:read,place:emulated:0}\n");
}

/* -- what moves -------------------------------------------------------------------------------- */

/* A transfer of one range names its buffer and offset. One of several ranges leaves this to the
 * entries of its pieces, and names only the buffer of the first one. */
static void
test_transfers_and_their_pieces(void **state)
{
    (void)state;
    static int values[COUNT];
    const int seven = 7;
    fixture *f = begin_trace();
    copy_list *list = NULL;
    ferry_buffer *a = make_traced(f, "a"), *b = make_traced(f, "b");
    OK(copy_list_create(&list));
    touch(f, a, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, b, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    OK(copy_list_from(list, a, INT, 10, values, 5));
    OK(copy_list_from(list, a, INT, 30, values + 20, 6));
    OK(copy_list_from(list, b, INT, 50, values + 40, 7));
    OK(copy_list_submit(list, NULL));
    copy_list_clear(list);
    OK(copy_list_to(list, a, INT, 60, values, 5));
    OK(copy_list_to(list, b, INT, 70, values + 20, 6));
    OK(copy_list_submit(list, NULL));
    copy_list_clear(list);
    OK(copy_list_copy(list, a, INT, 80, b, 90, 5));
    OK(copy_list_copy(list, a, INT, 180, b, 190, 5));
    OK(copy_list_submit(list, NULL));
    copy_list_destroy(&list);
    const ferry_copy_region rows = {.target = {.buffer = a, .offset = 300, .row_pitch = 50},
                                    .value = &seven,
                                    .count = 10,
                                    .rows = 2};
    OK(ferry_copy(&rows, 1, NULL));
    OK(ferry_buffer_fill(a, INT, 3, 4, &seven, NULL));
    touch(f, b, 0, FERRY_READ, 400, 25);
    DESTROY_BUFFERS(&a, &b);
    fixture_close(f);
    expect_entries("piece",
                   "i copy {buffer:a,id:1,offset:40,bytes:20,from:caller,to:emulated:0}\n"
                   "i copy {buffer:a,id:1,offset:120,bytes:24,from:caller,to:emulated:0}\n"
                   "i copy {buffer:b,id:2,offset:200,bytes:28,from:caller,to:emulated:0}\n"
                   "i copy {buffer:a,id:1,offset:240,bytes:20,from:emulated:0,to:caller}\n"
                   "i copy {buffer:b,id:2,offset:280,bytes:24,from:emulated:0,to:caller}\n"
                   "i copy "
                   "{buffer:a,id:1,offset:320,bytes:20,from:emulated:0,to:emulated:0,source_id:2,"
                   "source_offset:360}\n"
                   "i copy "
                   "{buffer:a,id:1,offset:720,bytes:20,from:emulated:0,to:emulated:0,source_id:2,"
                   "source_offset:760}\n"
                   "i fill {buffer:a,id:1,offset:1200,bytes:40,from:value,to:emulated:0}\n"
                   "i fill {buffer:a,id:1,offset:1400,bytes:40,from:value,to:emulated:0}\n");
    expect_entries(
        "transfer",
        "X upload {reason:copy,bytes:72,from:caller,to:emulated:0,staged:1,move:0,buffer:a}\n"
        "X download {reason:copy,bytes:44,from:emulated:0,to:caller,staged:1,move:0,buffer:a}\n"
        "X device copy "
        "{reason:copy,bytes:40,from:emulated:0,to:emulated:0,staged:0,move:0,buffer:a}\n"
        "X fill {reason:fill,bytes:40,from:value,to:emulated:0,staged:0,move:0,buffer:a}\n"
        "X fill {reason:fill,bytes:40,from:value,to:emulated:0,staged:0,move:0,buffer:a}\n"
        "X fill "
        "{reason:fill,bytes:16,from:value,to:emulated:0,staged:0,move:0,buffer:a,id:1,offset:12}\n"
        "X download "
        "{reason:read_host,bytes:100,from:emulated:0,to:host,staged:1,move:1,buffer:b,id:2,offset:"
        "1600}\n");
}

static void
test_launches_and_evictions(void **state)
{
    (void)state;
    work w;
    fixture *f = begin_trace();
    ferry_buffer *a = make_traced(f, "a");
    work_open(f, &w);
    OK(launch_fill(&w, f->stream, a, 10, 20, 5));
    OK(launch_add(&w, f->stream, a, 10, 5, 5));
    ferry_buffer *large = make_ints(f, 400000);
    touch(f, large, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    touch(f, a, 1, FERRY_READ, 0, FERRY_REST);
    touch(f, large, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    work_close(&w);
    DESTROY_BUFFERS(&large, &a);
    fixture_close(f);
    expect_entries("launch", "X work_fill {place:emulated:0,stream:1}\n"
                             "X work_add {place:emulated:0,stream:1}\n");
    expect_entries("use",
                   "i launch {buffer:a,id:1,offset:40,bytes:80,access:overwrite,place:emulated:0}\n"
                   "i launch {buffer:a,id:1,offset:40,bytes:20,access:update,place:emulated:0}\n");
    expect_entries("evict", "i evict {buffer:a,id:1,bytes:4096,place:emulated:0}\n");
}

/* The memory that a pool takes from its device and returns to it. */
static void
test_pools_grow_and_shrink(void **state)
{
    (void)state;
    fixture *f = begin_trace();
    ferry_pool *pool;
    ferry_block *block;
    ferry_pool_stats stats;
    OK(ferry_context_pool(f->context, 1, FERRY_MEMORY_DEVICE, &pool));
    OK(ferry_pool_allocate(pool, 1 << 20, NULL, &block));
    OK(ferry_block_free(&block, NULL));
    OK(ferry_pool_get_stats(pool, &stats));
    OK(ferry_pool_trim(pool, 0));
    fixture_close(f);
    const size_t slab = stats.reserved_bytes;
    char wanted[400];
    snprintf(wanted, sizeof(wanted),
             "X grow {place:emulated:0,memory:device,bytes:%zu}\n"
             "C device memory of emulated:0 {bytes:%zu}\n"
             "X shrink {place:emulated:0,memory:device,bytes:%zu}\n"
             "C device memory of emulated:0 {bytes:0}\n",
             slab, slab, slab);
    expect_entries("pool", wanted);
}

/* Checks that a trace has a transfer that begins at byte `offset` of its buffer. `after` is what
 * follows this number in the trace. */
static void
expect_offset(const char *trace, size_t offset, const char *after)
{
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "\"offset\":%zu%s", offset, after);
    if (!strstr(trace, wanted))
        fail_msg("no %s in the trace: %s", wanted, trace);
}

/* The trace names the first byte of each transfer of one buffer, and of each piece of a transfer.
 */
static void
test_the_trace_has_offsets(void **state)
{
    static int32_t values[COUNT];
    fixture f;
    (void)state;
    fixture_open(&f, &(ferry_context_options){.trace_file = path_of("trace")});
    ferry_buffer *b = make_counting(&f, COUNT, 0);
    touch(&f, b, 1, FERRY_READ, 111, 50);
    OK(ferry_buffer_copy_from(b, INT, 222, 10, values, NULL));
    OK(ferry_buffer_copy_to(b, INT, 333, 10, values, NULL));
    touch(&f, b, 1, FERRY_UPDATE, 444, 10);
    touch(&f, b, 0, FERRY_READ, 444, 10);
    touch(&f, b, 1, FERRY_READ, 0, FERRY_REST);
    copy_list *list = NULL;
    OK(copy_list_create(&list));
    OK(copy_list_to(list, b, INT, 555, values, 10));
    OK(copy_list_to(list, b, INT, 666, values + 10, 10));
    OK(copy_list_submit(list, NULL));
    copy_list_destroy(&list);
    ferry_buffer_destroy(&b);
    const bool coherent = f.coherent;
    size_t bytes;
    fixture_close(&f);
    char *trace = folder_read_file(path_of("trace"), &bytes);
    for (size_t i = 1; i < 7 && !coherent; i++)
        expect_offset(trace, i * 444, i < 5 ? "}" : ",\"bytes\":40,\"from\"");
    free(trace);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_and_holds),
        cmocka_unit_test(test_scopes_begin_and_end),
        cmocka_unit_test(test_calls_use_ranges),
        cmocka_unit_test(test_transfers_and_their_pieces),
        cmocka_unit_test(test_launches_and_evictions),
        cmocka_unit_test(test_pools_grow_and_shrink),
        cmocka_unit_test(test_the_trace_has_offsets),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
