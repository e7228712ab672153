/* SPDX-License-Identifier: MIT */
#include "tests/support/short_memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t calls, wanted; /* `wanted` is 0 when disarmed */
static _Atomic bool tripped, for_good;
static _Atomic size_t met_bytes; /* 0: short_memory_meet() is not armed */
static void (*_Atomic met)(void *user);
static void *_Atomic met_user;
static _Atomic int64_t live;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
char *__real_strdup(const char *text);
int __real_vasprintf(char **out, const char *format, va_list arguments);
void __real_free(void *memory);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
char *__wrap_strdup(const char *text);
int __wrap_vasprintf(char **out, const char *format, va_list arguments);
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __wrap_free(void *memory);

static bool
is_refused(size_t bytes)
{
    if (bytes > 0 && atomic_compare_exchange_strong(&met_bytes, &(size_t){bytes}, 0))
        atomic_load (&met)(atomic_load(&met_user));
    uint64_t nth = atomic_load(&wanted);
    if (nth == 0)
        return false;
    uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    if (call < nth || (call > nth && !atomic_load(&for_good)))
        return false;
    atomic_store(&tripped, true);
    errno = ENOMEM;
    return true;
}

static void *
count_live(void *memory)
{
    atomic_fetch_add(&live, memory != NULL);
    return memory;
}

void *
__wrap_malloc(size_t bytes)
{
    return is_refused(bytes) ? NULL : count_live(__real_malloc(bytes));
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused(count * bytes) ? NULL : count_live(__real_calloc(count, bytes));
}

void *
__wrap_realloc(void *memory, size_t bytes)
{
    if (is_refused(bytes))
        return NULL;
    void *moved = __real_realloc(memory, bytes);
    return memory ? moved : count_live(moved);
}

void *
__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return is_refused(bytes) ? NULL : count_live(__real_aligned_alloc(align, bytes));
}

char *
__wrap_strdup(const char *text)
{
    return is_refused(0) ? NULL : count_live(__real_strdup(text));
}

int
__wrap_vasprintf(char **out, const char *format, va_list arguments)
{
    int length = is_refused(0) ? -1 : __real_vasprintf(out, format, arguments);
    atomic_fetch_add(&live, length >= 0);
    return length;
}

int
__wrap_asprintf(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = __wrap_vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

void
__wrap_free(void *memory)
{
    atomic_fetch_sub(&live, memory != NULL);
    __real_free(memory);
}

static void
start(uint64_t nth, bool on)
{
    atomic_store(&wanted, 0);
    atomic_store(&calls, 0);
    atomic_store(&tripped, false);
    atomic_store(&for_good, on);
    atomic_store(&wanted, nth);
}

void
short_memory_arm(uint64_t nth)
{
    start(nth, false);
}

void
short_memory_arm_for_good(uint64_t nth)
{
    start(nth, true);
}

void
short_memory_meet(size_t bytes, void (*meet)(void *user), void *user)
{
    atomic_store(&met, meet);
    atomic_store(&met_user, user);
    atomic_store(&met_bytes, bytes);
}

void
short_memory_disarm(void)
{
    atomic_store(&wanted, 0);
}

bool
short_memory_tripped(void)
{
    return atomic_load(&tripped);
}

int64_t
short_memory_live(void)
{
    return atomic_load(&live);
}
