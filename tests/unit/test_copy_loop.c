/* SPDX-License-Identifier: MIT */
/* Checks that a copy loop copies all bytes and does not write beyond the target, for any alignment
 * of source and target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/copy_loop.h"

#define KIB   ((size_t)1024)
#define MOST  (300 * KIB)
#define GUARD 0xA5

static void
check(enum ferryi_copy_loop loop, const unsigned char *source, unsigned char *room, size_t bytes,
      size_t from, size_t to)
{
    memset(room, GUARD, MOST + 3 * KIB);
    ferryi_copy_bytes(loop, room + to, source + from, bytes);
    assert_memory_equal(room + to, source + from, bytes);
    for (size_t i = 0; i < to; i++)
        assert_int_equal(room[i], GUARD);
    for (size_t i = to + bytes; i < MOST + 3 * KIB; i++)
        assert_int_equal(room[i], GUARD);
}

static void
test_every_size_and_alignment(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   63,
                                   4 * KIB,
                                   64 * KIB - 1,
                                   64 * KIB,
                                   64 * KIB + 1,
                                   68 * KIB + 5,
                                   80 * KIB,
                                   129 * KIB + 77,
                                   MOST};
    static const size_t offsets[] = {0, 1, 31, 64, 1000};
    unsigned char *source = malloc(MOST + KIB), *room = aligned_alloc(4 * KIB, MOST + 4 * KIB);
    assert_non_null(source);
    assert_non_null(room);
    for (size_t i = 0; i < MOST + KIB; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 11);
    for (int loop = FERRYI_COPY_LIBC; loop < FERRYI_COPY_LOOPS; loop++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (size_t from = 0; from < 5; from++)
                for (size_t to = 0; to < 5; to++)
                    check((enum ferryi_copy_loop)loop, source, room, sizes[s], offsets[from],
                          offsets[to]);
    free(source);
    free(room);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_and_alignment),
    };
    return cmocka_run_group_tests_name("copy_loop", tests, NULL, NULL);
}
