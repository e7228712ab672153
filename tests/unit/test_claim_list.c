/* SPDX-License-Identifier: MIT */
/* Tests the list of claims of one call: which bytes of each buffer are locked, how each buffer is
 * accessed, and allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/store/claim_list.h"
#include "tests/support/fence.h"
#include "tests/support/short_memory.h"

enum { STORES = 4, BYTES = 24, USES = 12 };

/* The list never looks into a store, so any addresses serve. */
static char stores[1000];

static uint64_t
random_next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* What the uses do to each byte of a buffer. */
struct model {
    bool reads[BYTES], writes[BYTES];
};

static bool
is_used(const struct model *model, size_t at)
{
    return model->reads[at] || model->writes[at];
}

/* Checks that the pieces of a claim are the longest ranges whose bytes are used alike. */
static void
check_claim(const struct ferryi_access *claim, const struct model *model)
{
    const struct ferryi_interval_set *pieces = claim->pieces;
    size_t made = 0;
    bool writes = false, both = false;
    for (size_t at = 0, end; at < BYTES; at = end) {
        for (end = at + 1; end < BYTES && is_used(model, end) == is_used(model, at) &&
                           model->writes[end] == model->writes[at];)
            end++;
        if (!is_used(model, at))
            continue;
        assert_true(made < pieces->count);
        assert_int_equal(pieces->items[made].begin, at);
        assert_int_equal(pieces->items[made].end, end);
        assert_int_equal(pieces->items[made++].writes, model->writes[at]);
    }
    for (size_t at = 0; at < BYTES; at++) {
        writes = writes || model->writes[at];
        both = both || (model->writes[at] && model->reads[at]);
    }
    assert_int_equal(pieces->count, made);
    assert_int_equal(claim->begin, pieces->items[0].begin);
    assert_int_equal(claim->end, pieces->items[made - 1].end);
    assert_int_equal(claim->access, both ? FERRY_UPDATE : writes ? FERRY_OVERWRITE : FERRY_READ);
}

/* The first space is that of uses without a buffer. */
static const void *
space_of(size_t space)
{
    return space == 0 ? NULL : &stores[space];
}

static void
draw_uses(struct ferryi_use *uses, size_t count, struct model *models, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++) {
        size_t space = random_next(seed) % (STORES + 1), begin = random_next(seed) % BYTES;
        size_t end = begin + 1 + random_next(seed) % (BYTES - begin);
        bool writes = random_next(seed) % 2 != 0;
        uses[i] = (struct ferryi_use){space_of(space), begin, end, (uint32_t)i, writes};
        memset((writes ? models[space].writes : models[space].reads) + begin, true, end - begin);
    }
}

static void
test_claims_lock_what_is_used(void **state)
{
    (void)state;
    struct ferryi_arena arena = {0};
    struct ferryi_use *end = fence(NULL);
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        struct model models[STORES + 1] = {0};
        struct ferryi_claim_list list;
        size_t count = 1 + random_next(&seed) % USES, claimed = 0;
        struct ferryi_use *uses = end - count;
        draw_uses(uses, count, models, &seed);
        ferryi_levels_sort(&arena, uses, count);
        assert_int_equal(ferryi_claim_list_make(&list, &arena, uses, count, "copy"), FERRY_OK);
        for (size_t space = 1; space <= STORES; space++) {
            const ferryi_store *store = (const ferryi_store *)(uintptr_t)space_of(space);
            const bool used = memchr(&models[space], true, sizeof(models[space])) != NULL;
            const size_t at = ferryi_claim_list_find(&list, store);
            assert_int_equal(at, used ? claimed : list.count);
            if (used)
                check_claim(&list.items[claimed++], &models[space]);
        }
        assert_int_equal(list.count, claimed);
        ferryi_arena_free(&arena);
    }
}

/* Makes each allocation of a list fail in turn. Each of its four arrays is larger than what the
 * arena has left, so that it is allocated by itself. */
static void
test_allocations_that_fail_are_reported(void **state)
{
    (void)state;
    enum { FEW = 200, MANY = 20000 };
    struct ferryi_use *uses = calloc(MANY, sizeof(*uses));
    bool tripped = true;
    uint64_t nth = 0;
    assert_non_null(uses);
    for (size_t i = 0; i < MANY; i++)
        uses[i] = (struct ferryi_use){&stores[i < FEW ? i : FEW], i, i + 1, 0, true};
    while (tripped) {
        struct ferryi_arena arena = {0}, other = {0};
        struct ferryi_claim_list list;
        /* The other arena has the block that the thread kept. */
        assert_non_null(ferryi_arena_take(&other, 1, 1));
        short_memory_arm(++nth);
        ferry_status status = ferryi_claim_list_make(&list, &arena, uses, MANY, "copy");
        short_memory_disarm();
        tripped = short_memory_tripped();
        assert_int_equal(status, tripped ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
        if (tripped)
            assert_string_equal(ferry_last_error(), "copy: no memory to list 20000 ranges");
        else
            assert_int_equal(list.count, FEW + 1);
        ferryi_arena_free(&arena);
        ferryi_arena_free(&other);
    }
    assert_int_equal(nth, 5);
    free(uses);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_lock_what_is_used),
        cmocka_unit_test(test_allocations_that_fail_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
