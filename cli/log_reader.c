/* SPDX-License-Identifier: MIT */
#include "cli/log_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column { THREAD, TIME, ACTION, POINTER, SIZE, STREAM, COLUMNS };
enum { FIELDS_MAX = 64, SHOWN_MAX = 40 };

#define SIZE_LIMIT ((uint64_t)1 << 48)
#define DAY_US     (UINT64_C(24) * 3600 * 1000000)

static const char *const column_names[COLUMNS] = {"Thread",  "Time", "Action",
                                                  "Pointer", "Size", "Stream"};

/* A piece of the bytes; not terminated. */
struct text {
    const char *at;
    size_t length;
};

struct reader {
    struct text rest; /* lines not read yet */
    size_t line;
    int where[COLUMNS]; /* index of the column's field; -1: there is none */
    size_t fields;      /* of the header */
    struct log log;
    size_t room;
    bool timed;
    uint64_t first_us, last_us, days_us;
    struct log_problem *problem;
};

static bool __attribute__((format(printf, 2, 3)))
fail(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    reader->problem->line = reader->line;
    vsnprintf(reader->problem->text, sizeof(reader->problem->text), format, arguments);
    va_end(arguments);
    return false;
}

/* What a message shows of a field: printable, and not all of a long one. */
static const char *
show(struct text text, char out[SHOWN_MAX + 4])
{
    size_t length = text.length < SHOWN_MAX ? text.length : SHOWN_MAX;
    for (size_t i = 0; i < length; i++)
        out[i] = text.at[i] >= 0x20 && text.at[i] < 0x7f ? text.at[i] : '?';
    snprintf(out + length, 4, "%s", text.length > length ? "..." : "");
    return out;
}

static bool
fail_field(struct reader *reader, enum column column, struct text text, const char *expected)
{
    char shown[SHOWN_MAX + 4];
    return fail(reader, "%s is '%s', expected %s", column_names[column], show(text, shown),
                expected);
}

/* -- pieces ------------------------------------------------------------------------------------ */

static bool
is(struct text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static struct text
trim(struct text text)
{
    while (text.length > 0 && (*text.at == ' ' || *text.at == '\t'))
        text = (struct text){text.at + 1, text.length - 1};
    while (text.length > 0 && strchr(" \t\r", text.at[text.length - 1]) &&
           text.at[text.length - 1] != 0)
        text.length--;
    return text;
}

/* Cut `text` at the first `separator`, which goes; false when nothing is left. */
static bool
cut(struct text *text, char separator, struct text *out)
{
    if (!text->at)
        return false;
    const char *end = text->length > 0 ? memchr(text->at, separator, text->length) : NULL;
    size_t length = end ? (size_t)(end - text->at) : text->length;
    *out = (struct text){text->at, length};
    *text = end ? (struct text){end + 1, text->length - length - 1} : (struct text){NULL, 0};
    return true;
}

static bool
next_line(struct reader *reader, struct text *out)
{
    while (reader->rest.length > 0 && cut(&reader->rest, '\n', out)) {
        reader->line++;
        *out = trim(*out);
        if (out->length > 0)
            return true;
    }
    return false;
}

/* At least one digit of the base, and nothing else; fits 64 bits. */
static bool
read_digits(struct text text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 99;
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return text.length > 0;
}

static bool
read_hexadecimal(struct text text, uint64_t *out)
{
    if (is(text, "(nil)")) {
        *out = 0;
        return true;
    }
    if (text.length > 2 && text.at[0] == '0' && (text.at[1] == 'x' || text.at[1] == 'X'))
        text = (struct text){text.at + 2, text.length - 2};
    return read_digits(text, 16, out);
}

/* -- time -------------------------------------------------------------------------------------- */

/* Digits behind the point, as microseconds. */
static bool
read_fraction(struct text text, uint64_t *out)
{
    uint64_t value = 0, unit = 100000;
    for (size_t i = 0; i < text.length; i++, unit /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        value += unit * (uint64_t)(text.at[i] - '0');
    }
    *out = value;
    return text.length > 0;
}

/* "S", "S.F": seconds since some beginning. */
static bool
read_seconds(struct text text, uint64_t *out)
{
    struct text whole;
    uint64_t seconds, micros = 0;
    if (!cut(&text, '.', &whole) || !read_digits(whole, 10, &seconds) ||
        seconds >= UINT64_C(1) << 40 || (text.at && !read_fraction(text, &micros)))
        return false;
    *out = seconds * 1000000 + micros;
    return true;
}

/* "H:M:S", "H:M:S.F" and "H:M:S:F". */
static bool
read_time_of_day(struct text text, uint64_t *out)
{
    struct text hours, minutes, seconds;
    uint64_t h, m, s, micros = 0;
    if (!cut(&text, ':', &hours) || !cut(&text, ':', &minutes) || !read_digits(hours, 10, &h) ||
        !read_digits(minutes, 10, &m) || !text.at)
        return false;
    struct text rest = text;
    char separator = memchr(rest.at, ':', rest.length) ? ':' : '.';
    if (!cut(&rest, separator, &seconds) || !read_digits(seconds, 10, &s) ||
        (rest.at && !read_fraction(rest, &micros)) || h > 23 || m > 59 || s > 60)
        return false;
    *out = ((h * 60 + m) * 60 + s) * 1000000 + micros;
    return true;
}

/* The time since the first event. */
static bool
read_time(struct reader *reader, struct text text, uint64_t *out)
{
    uint64_t time;
    bool of_day = memchr(text.at, ':', text.length) != NULL;
    if (!(of_day ? read_time_of_day(text, &time) : read_seconds(text, &time)))
        return false;
    time += of_day ? reader->days_us : 0;
    if (of_day && reader->timed && time + DAY_US / 2 < reader->last_us) {
        reader->days_us += DAY_US;
        time += DAY_US;
    }
    if (!reader->timed)
        reader->first_us = time;
    reader->timed = true;
    reader->last_us = time;
    *out = time > reader->first_us ? time - reader->first_us : 0;
    return true;
}

/* -- lines ------------------------------------------------------------------------------------- */

static bool
read_header(struct reader *reader)
{
    struct text line, name;
    char shown[SHOWN_MAX + 4];
    for (size_t i = 0; i < COLUMNS; i++)
        reader->where[i] = -1;
    if (!next_line(reader, &line)) {
        reader->line = 1;
        return fail(
            reader,
            "the file is empty, expected the header Thread,Time,Action,Pointer,Size,Stream");
    }
    struct text rest = line;
    for (; cut(&rest, ',', &name); reader->fields++) {
        if (reader->fields == FIELDS_MAX)
            return fail(reader,
                        "more than %d columns, expected Thread,Time,Action,Pointer,Size,Stream",
                        FIELDS_MAX);
        name = trim(name);
        for (size_t i = 0; i < COLUMNS; i++)
            if (is(name, column_names[i]) && reader->where[i] < 0)
                reader->where[i] = (int)reader->fields;
    }
    if (reader->where[ACTION] < 0 || reader->where[POINTER] < 0 || reader->where[SIZE] < 0)
        return fail(reader,
                    "the header is '%s', expected one with Action, Pointer and Size, such as "
                    "Thread,Time,Action,Pointer,Size,Stream",
                    show(line, shown));
    return true;
}

static bool
read_action(struct text text, enum log_action *out)
{
    if (is(text, "allocate"))
        *out = LOG_ALLOCATE;
    else if (is(text, "free") || is(text, "deallocate"))
        *out = LOG_FREE;
    else if (is(text, "allocate failure"))
        *out = LOG_FAILURE;
    else
        return false;
    return true;
}

/* One field; a column that is not there is never asked for. */
static bool
read_field(struct reader *reader, enum column column, struct text text, struct log_event *event)
{
    switch (column) {
    case THREAD:
        return read_digits(text, 10, &event->thread) ||
               fail_field(reader, column, text, "a decimal number");
    case TIME:
        return read_time(reader, text, &event->time_us) ||
               fail_field(reader, column, text, "a time such as 14:03:59.000125");
    case ACTION:
        return read_action(text, &event->action) ||
               fail_field(reader, column, text, "allocate, free or allocate failure");
    case POINTER:
        return read_hexadecimal(text, &event->pointer) ||
               fail_field(reader, column, text, "an address such as 0x7f5a3c000000 or (nil)");
    case SIZE:
        return (read_digits(text, 10, &event->bytes) && event->bytes < SIZE_LIMIT) ||
               fail_field(reader, column, text, "a decimal number of bytes below 281474976710656");
    default:
        return read_hexadecimal(text, &event->stream) ||
               fail_field(reader, column, text, "a hexadecimal number such as 0x1 or 0");
    }
}

static bool
read_event(struct reader *reader, struct text line, struct log_event *event)
{
    struct text fields[FIELDS_MAX];
    size_t count = 0;
    *event = (struct log_event){.line = reader->line};
    for (struct text rest = line, field; cut(&rest, ',', &field); count++)
        if (count < reader->fields)
            fields[count] = trim(field);
    if (count != reader->fields)
        return fail(reader, "%zu fields, expected %zu as in the header", count, reader->fields);
    for (enum column column = 0; column < COLUMNS; column++)
        if (reader->where[column] >= 0 &&
            !read_field(reader, column, fields[reader->where[column]], event))
            return false;
    return true;
}

static bool
append(struct reader *reader, const struct log_event *event)
{
    struct log *log = &reader->log;
    if (log->count == reader->room) {
        size_t room = reader->room ? 2 * reader->room : 1024;
        struct log_event *events = realloc(log->events, room * sizeof(*events));
        if (!events)
            return fail(reader, "no memory for %zu events", room);
        log->events = events;
        reader->room = room;
    }
    log->events[log->count++] = *event;
    return true;
}

bool
log_read(const char *bytes, size_t count, struct log *out, struct log_problem *problem)
{
    struct reader reader = {.rest = {bytes, count}, .problem = problem};
    struct log_event event;
    struct text line;
    bool ok = read_header(&reader);
    while (ok && next_line(&reader, &line))
        ok = read_event(&reader, line, &event) && append(&reader, &event);
    if (ok)
        *out = reader.log;
    else
        log_free(&reader.log);
    return ok;
}

void
log_free(struct log *log)
{
    free(log->events);
    *log = (struct log){0};
}
