/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TESTS_FENCE_H
#define FERRY_TESTS_FENCE_H

/* Memory between pages that are not accessible, so that a read before or behind an array ends the
 * test. Must be included after <cmocka.h>. */

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the end of a page between two inaccessible ones, and stores its begin in `*out_begin`,
 * which may be NULL. The pages stay until the process ends. */
static inline void *
fence(void *out_begin)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *begin;
    assert_true(pages != MAP_FAILED);
    begin = pages + page;
    assert_int_equal(mprotect(begin, page, PROT_READ | PROT_WRITE), 0);
    if (out_begin)
        memcpy(out_begin, &begin, sizeof(begin));
    return begin + page;
}

#endif
