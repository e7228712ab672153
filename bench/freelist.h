/* SPDX-License-Identifier: MIT */
#ifndef BENCH_FREELIST_H
#define BENCH_FREELIST_H

/*
 * The simplest thread-safe pool, with which Ferry's pool is compared. Each size class has a list of
 * idle blocks and a mutex. The size classes are those of Ferry's pool: eight per doubling of the
 * size. The functions are inlined. This pool has no counters and never frees memory.
 */

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { FREELIST_CLASSES = 8 * 64 };

struct freelist_block {
    struct freelist_block *next;
    struct freelist_class *class;
};

struct freelist_class {
    pthread_mutex_t mutex;
    struct freelist_block *idle;
};

struct freelist {
    struct freelist_class classes[FREELIST_CLASSES];
};

static inline struct freelist *
freelist_open(void)
{
    struct freelist *list = calloc(1, sizeof(*list));
    for (size_t i = 0; list && i < FREELIST_CLASSES; i++)
        pthread_mutex_init(&list->classes[i].mutex, NULL);
    return list;
}

static inline void
freelist_close(struct freelist *list)
{
    for (size_t i = 0; list && i < FREELIST_CLASSES; i++) {
        for (struct freelist_block *block = list->classes[i].idle, *next; block; block = next) {
            next = block->next;
            free(block);
        }
        pthread_mutex_destroy(&list->classes[i].mutex);
    }
    free(list);
}

/* Returns the size class of `bytes`, which must be more than 8. */
static inline size_t
freelist_class_of(size_t bytes)
{
    size_t log2 = 63u ^ (unsigned)__builtin_clzll((unsigned long long)(bytes - 1));
    return log2 * 8 + (((bytes - 1) >> (log2 - 3)) & 7);
}

/* Returns an idle block, or a new one. A block is a header without memory, because the benchmarks
 * never access the memory. Returns NULL if malloc() fails. */
static inline struct freelist_block *
freelist_take(struct freelist *list, size_t bytes)
{
    struct freelist_class *class = &list->classes[freelist_class_of(bytes)];
    pthread_mutex_lock(&class->mutex);
    struct freelist_block *block = class->idle;
    if (block)
        class->idle = block->next;
    pthread_mutex_unlock(&class->mutex);
    if (__builtin_expect(!block, 0)) {
        block = malloc(sizeof(*block));
        if (block)
            block->class = class;
    }
    return block;
}

static inline void
freelist_give(struct freelist_block *block)
{
    struct freelist_class *class = block->class;
    pthread_mutex_lock(&class->mutex);
    block->next = class->idle;
    class->idle = block;
    pthread_mutex_unlock(&class->mutex);
}

#endif
