/* SPDX-License-Identifier: MIT */
#include "tests/misuse/misuse.h"

#include <string.h>

/* Misuse of the pool's blocks. */

static ferry_block *
take(struct scene *scene, size_t bytes)
{
    ferry_pool *pool;
    ferry_block *block;
    must(ferry_context_pool(scene->context, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &pool));
    must(ferry_pool_allocate(pool, bytes, NULL, &block));
    must(ferry_block_label(block, "scratch"));
    return block;
}

static void
give_twice(struct scene *scene)
{
    ferry_block *block = take(scene, 3000), *copy = block;
    must(ferry_block_free(&block, NULL));
    tell(ferry_block_free(&copy, NULL));
}

static void
give_with_a_foreign_stream(struct scene *scene)
{
    ferry_context *other;
    ferry_block *block = take(scene, 3000);
    must(ferry_context_create(NULL, &other));
    tell(ferry_block_free(&block, ferry_context_stream(other, 1)));
    must(ferry_block_free(&block, NULL));
    ferry_context_destroy(&other);
}

static void
give_what_is_no_block(struct scene *scene)
{
    static uint64_t words[64];
    ferry_block *block = (ferry_block *)(void *)words;
    (void)scene;
    tell(ferry_block_free(&block, NULL));
}

static void
write_past_a_block(struct scene *scene)
{
    ferry_block *block = take(scene, 3000);
    unsigned char *bytes = ferry_block_pointer(block);
    for (int i = 0; i <= 3000; i++)
        bytes[i] = 1;
    must(ferry_block_free(&block, NULL));
}

/* Writes one byte beyond the end of a pool block. A red zone must detect this even if the block
 * exactly fills its size class. */
static void
write_past_bytes(struct scene *scene, size_t bytes)
{
    ferry_block *block = take(scene, bytes);
    ((unsigned char *)ferry_block_pointer(block))[bytes] = 1;
    must(ferry_block_free(&block, NULL));
}

static void
write_past_a_page(struct scene *scene)
{
    write_past_bytes(scene, 4096);
}

static void
write_past_64_kib(struct scene *scene)
{
    write_past_bytes(scene, 65536);
}

static void
write_past_2_mib(struct scene *scene)
{
    write_past_bytes(scene, (size_t)2 << 20);
}

static void
write_past_an_aligned_block(struct scene *scene)
{
    ferry_pool *pool;
    ferry_block *block;
    must(ferry_context_pool(scene->context, FERRY_PLACE_HOST, FERRY_MEMORY_PAGEABLE, &pool));
    must(ferry_pool_allocate_aligned(pool, 4096, 65536, NULL, &block));
    ((unsigned char *)ferry_block_pointer(block))[4096] = 1;
    must(ferry_block_free(&block, NULL));
}

static void
write_after_give(struct scene *scene)
{
    ferry_block *block = take(scene, 3000);
    unsigned char *bytes = ferry_block_pointer(block);
    must(ferry_block_free(&block, NULL));
    bytes[17] = 1;
    block = take(scene, 3000);
    must(ferry_block_free(&block, NULL));
}

static void
give_on_a_destroyed_stream(struct scene *scene)
{
    ferry_block *block = take(scene, 3000);
    ferry_stream *stream, *copy;
    must(ferry_stream_create(scene->context, 1, &stream));
    copy = stream;
    ferry_stream_destroy(&stream);
    tell(ferry_block_free(&block, copy));
    must(ferry_block_free(&block, NULL));
}

static void
keep_a_block(struct scene *scene)
{
    (void)take(scene, 3000);
}

const struct misuse block_misuses[] = {
    {"a block is given back twice",
     give_twice,
     {"give block", "was given back already"},
     NEEDS_CHECKED_BUILD,
     false},
    {"a block is given back on a stream of another context",
     give_with_a_foreign_stream,
     {"give a block back to host pageable memory", "another context"},
     0,
     false},
    {"a block is given back that is none",
     give_what_is_no_block,
     {"it is no block of a pool"},
     NEEDS_CHECKED_BUILD,
     false},
    {"a block is given back on a destroyed stream",
     give_on_a_destroyed_stream,
     {"give a block back to host pageable memory: the stream was destroyed"},
     0,
     false},
    {"a block is written past its end",
     write_past_a_block,
     {"\"scratch\" of host pageable memory, 3000 bytes requested", "past its end, at byte 3000",
      "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
    {"a block of a page is written past its end",
     write_past_a_page,
     {"4096 bytes requested", "past its end, at byte 4096", "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
    {"a block of 64 KiB is written past its end",
     write_past_64_kib,
     {"65536 bytes requested", "past its end, at byte 65536", "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
    {"a block of 2 MiB is written past its end",
     write_past_2_mib,
     {"2097152 bytes requested", "past its end, at byte 2097152", "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
    {"an aligned block is written past its end",
     write_past_an_aligned_block,
     {"4096 bytes requested", "past its end, at byte 4096", "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
    {"a block is written after it was given back",
     write_after_give,
     {"of host pageable memory, 3000 bytes requested", "after it was given back, at byte 17",
      "taken by"},
     NEEDS_CHECKED_BUILD | NOT_POISONED,
     false},
#if FERRYI_ADDRESS_SANITIZER
    {"a block is written past its end, poisoned",
     write_past_a_block,
     {"AddressSanitizer: use-after-poison"},
     0,
     true},
    {"a block of a page is written past its end, poisoned",
     write_past_a_page,
     {"AddressSanitizer: use-after-poison"},
     0,
     true},
    {"an aligned block is written past its end, poisoned",
     write_past_an_aligned_block,
     {"AddressSanitizer: use-after-poison"},
     0,
     true},
    {"a block is written after it was given back, poisoned",
     write_after_give,
     {"AddressSanitizer: use-after-poison"},
     0,
     true},
#endif
    {"a block is kept until its context goes",
     keep_a_block,
     {"block", "\"scratch\"", "still held"},
     0,
     false},
    {0},
};
