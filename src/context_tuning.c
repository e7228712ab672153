/* SPDX-License-Identifier: MIT */
#include "src/context_tuning.h"

#include <stddef.h>
#include <string.h>

#define SHOWN 64 /* characters of a pair shown in messages */

struct unit {
    const char *name;
    uint64_t factor;
};

/* Tables of the units that a number may have. An entry with the name NULL ends a table. A number
 * without a unit is valid only if the table contains the unit "". */
static const struct unit counts[] = {{"", 1}, {NULL, 0}};
static const struct unit sizes[] = {{"", 1},
                                    {"K", UINT64_C(1) << 10},
                                    {"M", UINT64_C(1) << 20},
                                    {"G", UINT64_C(1) << 30},
                                    {NULL, 0}};
static const struct unit times[] = {
    {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};
/* Tables of names: the factor is the value. */
static const struct unit loops[] = {{"auto", FERRYI_COPY_AUTO},
                                    {"libc", FERRYI_COPY_LIBC},
                                    {"prefetch", FERRYI_COPY_PREFETCH},
                                    {"stream", FERRYI_COPY_STREAM},
                                    {NULL, 0}};
static const struct unit switches[] = {{"yes", 0}, {"no", 1}, {NULL, 0}};

#define MEMBER(name) offsetof(struct ferryi_context_tuning, name)

static const struct key {
    const char *name;
    size_t member;
    bool is_name; /* whether the value is one of the names in `units` */
    const struct unit *units;
    const char *expected;
    uint64_t least, most;
} keys[] = {
    {"staging.chunk", MEMBER(staging_chunk_bytes), false, sizes, "a size such as 2M", 4096,
     SIZE_MAX / 2},
    {"staging.chunks", MEMBER(staging_chunk_count), false, counts, "a number", 2, 1 << 16},
    {"staging.part", MEMBER(staging_part_bytes), false, sizes, "a size such as 256K", 4096,
     SIZE_MAX / 2},
    {"staging.threads", MEMBER(staging_threads), false, counts, "a number", 1, 16},
    {"staging.copy", MEMBER(staging_loop), true, loops, "auto, libc, prefetch or stream", 0,
     UINT64_MAX},
    {"emulated.memory", MEMBER(emulated_memory_bytes), false, sizes, "a size such as 256M", 1,
     SIZE_MAX / 2},
    {"emulated.latency", MEMBER(emulated_latency_ns), false, times, "a time such as 10us", 1,
     UINT64_C(3600000000000)},
    {"emulated.bandwidth", MEMBER(emulated_bytes_per_second), false, sizes,
     "bytes per second such as 3.5G", 1, UINT64_C(1) << 60},
    {"emulated.peers", MEMBER(emulated_without_peers), true, switches, "yes or no", 0, UINT64_MAX},
    {"device.limit", MEMBER(device_bytes_limit), false, sizes, "a size such as 2G", 1, SIZE_MAX},
    {"device.handle", MEMBER(device_handle_bytes), false, sizes, "a size such as 8M", 1,
     SIZE_MAX / 2},
    {"host.limit", MEMBER(host_bytes_limit), false, sizes, "a size such as 2G", 1, SIZE_MAX},
    {"host.threads", MEMBER(host_threads), false, counts, "a number", 1, 1024},
    {"pinned.limit", MEMBER(pinned_bytes_limit), false, sizes, "a size such as 2G", 1, SIZE_MAX},
    {"cuda.batches", MEMBER(cuda_without_batches), true, switches, "yes or no", 0, UINT64_MAX},
};

static const struct key *
find_key(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
            return &keys[i];
    return NULL;
}

static const struct unit *
find_unit(const struct unit *units, const char *name, size_t length)
{
    for (; units->name; units++)
        if (strlen(units->name) == length && memcmp(units->name, name, length) == 0)
            return units;
    return NULL;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses a number and its unit. A fraction is valid if the unit is larger than 1, and only its
 * first six digits are used. Signs are refused, and the locale is ignored. */
static bool
parse_number(const struct key *key, const char *text, size_t length, uint64_t *out)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    size_t at = 0;
    for (; at < length && is_digit(text[at]); at++)
        if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(text[at] - '0'), &whole))
            return false;
    if (at == 0)
        return false;
    if (at + 1 < length && text[at] == '.' && is_digit(text[at + 1]))
        for (at++; at < length && is_digit(text[at]); at++)
            if (scale < 1000000) {
                fraction = fraction * 10 + (uint64_t)(text[at] - '0');
                scale *= 10;
            }
    const struct unit *unit = find_unit(key->units, text + at, length - at);
    if (!unit || (scale > 1 && unit->factor == 1))
        return false;
    return !__builtin_mul_overflow(whole, unit->factor, &whole) &&
           !__builtin_add_overflow(whole, fraction * unit->factor / scale, out);
}

static bool
parse_value(const struct key *key, const char *text, size_t length, uint64_t *out)
{
    if (key->is_name) {
        const struct unit *name = find_unit(key->units, text, length);
        *out = name ? name->factor : 0;
        return name != NULL;
    }
    if (!parse_number(key, text, length, out))
        return false;
    if (*out > 0)
        *out = *out < key->least ? key->least : *out > key->most ? key->most : *out;
    return true;
}

static ferry_status
parse_pair(struct ferryi_context_tuning *tuning, const char *pair, size_t length, size_t position,
           const char *source)
{
    int shown = length < SHOWN ? (int)length : SHOWN;
    const char *equals = memchr(pair, '=', length);
    if (!equals)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: \"%.*s\" at character %zu is no key=value", source, shown, pair,
                           position);
    size_t name_length = (size_t)(equals - pair);
    const struct key *key = find_key(pair, name_length);
    if (!key)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: the key \"%.*s\" at character %zu is unknown", source,
                           name_length < SHOWN ? (int)name_length : SHOWN, pair, position);
    uint64_t value = 0;
    if (!parse_value(key, equals + 1, length - name_length - 1, &value))
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "%s: \"%.*s\" at character %zu: %s takes %s", source, shown, pair,
                           position, key->name, key->expected);
    memcpy((char *)tuning + key->member, &value, sizeof(value));
    return FERRY_OK;
}

ferry_status
ferryi_context_tuning_parse(struct ferryi_context_tuning *tuning, const char *text,
                            const char *source, const struct ferryi_log *log)
{
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, " ");
        ferry_status status =
            length > 0 ? parse_pair(tuning, at, length, (size_t)(at - text) + 1, source) : FERRY_OK;
        if (status != FERRY_OK && !log)
            return status;
        if (status != FERRY_OK)
            ferryi_log_setting(log, FERRY_LOG_WARNING, "%s; the pair is ignored",
                               ferry_last_error());
        at += length + strspn(at + length, " ");
    }
    return FERRY_OK;
}

ferry_status
ferryi_context_tuning_read(struct ferryi_context_tuning *tuning, const char *option,
                           const struct ferryi_log *log)
{
    *tuning = (struct ferryi_context_tuning){0};
    ferry_status status =
        ferryi_context_tuning_parse(tuning, ferryi_getenv("FERRY_TUNING"), "FERRY_TUNING", log);
    return status == FERRY_OK
               ? ferryi_context_tuning_parse(tuning, option, "ferry_context_options.tuning", NULL)
               : status;
}
