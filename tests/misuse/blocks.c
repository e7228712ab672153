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
write_byte(void *block, size_t at)
{
    ((unsigned char *)block)[at] = 1;
}

/* Writes one byte behind a block of pageable host memory. */
static void
write_past(struct scene *scene, size_t bytes)
{
    ferry_block *block = take(scene, bytes);
    write_byte(ferry_block_pointer(block), bytes);
    must(ferry_block_free(&block, NULL));
}

static void
write_past_a_block(struct scene *scene)
{
    write_past(scene, 3000);
}

/* A block of this size fills its size class if no checker is attached. */
static void
write_past_a_page(struct scene *scene)
{
    write_past(scene, 4096);
}

static void
write_after_give(struct scene *scene)
{
    ferry_block *block = take(scene, 3000);
    void *bytes = ferry_block_pointer(block);
    must(ferry_block_free(&block, NULL));
    write_byte(bytes, 17);
}

/* Writes one byte behind the memory of a buffer on a device. */
static void
write_past_a_device(struct scene *scene)
{
    ferry_scope scope;
    int *p;
    must(ferry_int_update_device(scene->height, scene->stream, &scope, &p));
    must(ferry_stream_synchronize(scene->stream));
    write_byte(p, HEIGHT_COUNT * sizeof(int));
    must(ferry_scope_close(&scope));
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
     {"AddressSanitizer: use-after-poison"},
     NEEDS_SANITIZER,
     true},
    {"a block of a page is written past its end",
     write_past_a_page,
     {"AddressSanitizer: use-after-poison"},
     NEEDS_SANITIZER,
     true},
    {"a block is written after it was given back",
     write_after_give,
     {"AddressSanitizer: use-after-poison"},
     NEEDS_SANITIZER,
     true},
    {"memory of an emulated device is written past its end",
     write_past_a_device,
     {"AddressSanitizer: use-after-poison"},
     NEEDS_SANITIZER | NEEDS_HOST_FUNCTIONS | NEEDS_DEVICE,
     true},
    {"a block is kept until its context goes",
     keep_a_block,
     {"block", "\"scratch\"", "still held"},
     0,
     false},
    {0},
};
