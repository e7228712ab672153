/* SPDX-License-Identifier: MIT */
#include "cli/trace_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times and sizes from here on are refused. */
#define NUMBER_END (UINT64_C(1) << 62)

enum outcome { READ, CUT, WRONG };

struct reader {
    char *at, *end; /* strings are unescaped in place and end with a NUL where their quote was */
    size_t line;
    struct trace_problem *problem;
};

struct value {
    const char *text; /* NULL: a number */
    uint64_t whole;   /* of a number */
    unsigned thousandths;
};

static enum outcome
refuse(const struct reader *reader, const char *format, ...)
{
    va_list arguments;
    reader->problem->line = reader->line;
    va_start(arguments, format);
    vsnprintf(reader->problem->text, sizeof(reader->problem->text), format, arguments);
    va_end(arguments);
    return WRONG;
}

static enum outcome
refuse_character(const struct reader *reader, const char *expected)
{
    unsigned char c = (unsigned char)*reader->at;
    if (c > 0x20 && c < 0x7f)
        return refuse(reader, "there is '%c', expected %s", c, expected);
    return refuse(reader, "there is byte %u, expected %s", c, expected);
}

static void
skip_space(struct reader *reader)
{
    for (; reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at; reader->at++)
        reader->line += *reader->at == '\n';
}

/* The next character after spaces must be this one. */
static enum outcome
expect(struct reader *reader, char character, const char *expected)
{
    skip_space(reader);
    if (reader->at == reader->end)
        return CUT;
    if (*reader->at != character)
        return refuse_character(reader, expected);
    reader->at++;
    return READ;
}

static int
hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* What follows "\u". Halves of a pair become '?'; so does NUL, which would end the text. */
static enum outcome
read_unicode(struct reader *reader, char **to)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        if (reader->at == reader->end)
            return CUT;
        int digit = hex_value(*reader->at);
        if (digit < 0)
            return refuse_character(reader, "a hexadecimal digit");
        code = code * 16 + (unsigned)digit;
        reader->at++;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
        *(*to)++ = '?';
    } else if (code < 0x80) {
        *(*to)++ = (char)code;
    } else if (code < 0x800) {
        *(*to)++ = (char)(0xc0 | code >> 6);
        *(*to)++ = (char)(0x80 | (code & 0x3f));
    } else {
        *(*to)++ = (char)(0xe0 | code >> 12);
        *(*to)++ = (char)(0x80 | (code >> 6 & 0x3f));
        *(*to)++ = (char)(0x80 | (code & 0x3f));
    }
    return READ;
}

static enum outcome
read_escape(struct reader *reader, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return CUT;
    char letter = *reader->at++;
    if (letter == 'u')
        return read_unicode(reader, to);
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (!found)
        return refuse(reader, "there is an unknown escape in a string, expected one of %s",
                      letters);
    *(*to)++ = meanings[found - letters];
    return READ;
}

static enum outcome
read_string(struct reader *reader, const char **out)
{
    enum outcome outcome = expect(reader, '"', "a string");
    char *begin = reader->at, *to = begin;
    while (outcome == READ) {
        if (reader->at == reader->end)
            return CUT;
        char c = *reader->at;
        if ((unsigned char)c < 0x20)
            return refuse_character(reader, "the rest of a string");
        reader->at++;
        if (c == '"')
            break;
        if (c == '\\')
            outcome = read_escape(reader, &to);
        else
            *to++ = c;
    }
    if (outcome == READ) {
        *to = 0;
        *out = begin;
    }
    return outcome;
}

/* Not negative and without an exponent, as traces have them. */
static enum outcome
read_number(struct reader *reader, struct value *out)
{
    const char *begin = reader->at;
    unsigned scale = 100;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        out->whole = out->whole * 10 + (unsigned)(*reader->at - '0');
        if (out->whole >= NUMBER_END)
            return refuse(reader, "there is a number of 2^62 or more, expected a smaller one");
    }
    if (reader->at == begin && reader->at < reader->end)
        return refuse_character(reader, "a string or a number");
    if (reader->at < reader->end && *reader->at == '.')
        for (reader->at++; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
             reader->at++, scale /= 10)
            out->thousandths += scale * (unsigned)(*reader->at - '0');
    /* More digits may follow where the file was cut. */
    return reader->at == reader->end ? CUT : READ;
}

static enum outcome
read_value(struct reader *reader, struct value *out)
{
    *out = (struct value){0};
    skip_space(reader);
    if (reader->at == reader->end)
        return CUT;
    return *reader->at == '"' ? read_string(reader, &out->text) : read_number(reader, out);
}

/* -- events ------------------------------------------------------------------------------------ */

/* A member of an event; `text` is true where it must be a string. */
struct member {
    const char *name;
    bool is_text;
    size_t at; /* in struct trace_event */
};

#define TEXT(name, member)                                                                         \
    {                                                                                              \
        name, true, offsetof(struct trace_event, member)                                           \
    }
#define NUMBER(name, member)                                                                       \
    {                                                                                              \
        name, false, offsetof(struct trace_event, member)                                          \
    }

static const struct member arguments[] = {
    TEXT("buffer", buffer),
    TEXT("reason", reason),
    TEXT("from", from),
    TEXT("to", to),
    TEXT("access", access),
    TEXT("place", place),
    TEXT("end", end),
    TEXT("name", text_name),
    NUMBER("id", id),
    NUMBER("offset", offset),
    NUMBER("bytes", bytes),
    NUMBER("source_id", source_id),
    NUMBER("source_offset", source_offset),
};

static const struct member texts[] = {TEXT("cat", category), TEXT("name", name), TEXT("id", scope)};

static enum outcome
set(const struct reader *reader, const struct member *members, size_t count, const char *name,
    const struct value *value, struct trace_event *event)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, name) != 0)
            continue;
        if (members[i].is_text != (value->text != NULL))
            return refuse(reader, "member \"%s\" is a %s, expected a %s", name,
                          value->text ? "string" : "number", value->text ? "number" : "string");
        if (members[i].is_text)
            memcpy((char *)event + members[i].at, &value->text, sizeof(value->text));
        else
            memcpy((char *)event + members[i].at, &value->whole, sizeof(value->whole));
    }
    return READ;
}

static enum outcome
set_argument(const struct reader *reader, const char *name, const struct value *value,
             struct trace_event *event)
{
    event->has_id = event->has_id || !strcmp(name, "id");
    event->has_offset = event->has_offset || !strcmp(name, "offset");
    event->is_move = event->is_move || (!strcmp(name, "move") && !value->text && value->whole);
    event->is_staged =
        event->is_staged || (!strcmp(name, "staged") && !value->text && value->whole);
    return set(reader, arguments, sizeof(arguments) / sizeof(*arguments), name, value, event);
}

static enum outcome
set_member(const struct reader *reader, const char *name, const struct value *value,
           struct trace_event *event)
{
    bool is_time = !strcmp(name, "ts") || !strcmp(name, "dur");
    if ((is_time || !strcmp(name, "tid")) && value->text)
        return refuse(reader, "member \"%s\" is a string, expected a number", name);
    if (is_time && value->whole >= NUMBER_END / 4096)
        return refuse(reader, "member \"%s\" is %" PRIu64 ", expected less than 2^50", name,
                      value->whole);
    if (is_time)
        *(*name == 't' ? &event->begin_ns : &event->ns) = value->whole * 1000 + value->thousandths;
    else if (!strcmp(name, "tid"))
        event->track = value->whole;
    else if (!strcmp(name, "ph") &&
             (!value->text || strlen(value->text) != 1 || !strchr("XibeCM", *value->text)))
        return refuse(reader, "the phase of an event is unknown, expected X, i, b, e, C or M");
    else if (!strcmp(name, "ph"))
        event->phase = *value->text;
    return set(reader, texts, sizeof(texts) / sizeof(*texts), name, value, event);
}

/* `is_top`: the event itself, which alone has an object in it. */
static enum outcome
read_object(struct reader *reader, bool is_top, struct trace_event *event)
{
    enum outcome outcome = expect(reader, '{', "an event, which begins with {");
    skip_space(reader);
    if (outcome == READ && reader->at < reader->end && *reader->at == '}') {
        reader->at++;
        return READ;
    }
    while (outcome == READ) {
        const char *name;
        struct value value;
        outcome = read_string(reader, &name);
        if (outcome == READ)
            outcome = expect(reader, ':', "':' behind the name of a member");
        if (outcome != READ)
            break;
        if (is_top && !strcmp(name, "args")) {
            outcome = read_object(reader, false, event);
        } else {
            outcome = read_value(reader, &value);
            if (outcome == READ)
                outcome = is_top ? set_member(reader, name, &value, event)
                                 : set_argument(reader, name, &value, event);
        }
        if (outcome != READ)
            break;
        skip_space(reader);
        if (reader->at == reader->end)
            return CUT;
        char next = *reader->at;
        if (next != ',' && next != '}')
            return refuse_character(reader, "',' or '}' behind a member");
        reader->at++;
        if (next == '}')
            break;
    }
    return outcome;
}

static enum outcome
read_event(struct reader *reader, struct trace_event *event)
{
    *event = (struct trace_event){.category = "",
                                  .name = "",
                                  .scope = "",
                                  .buffer = "",
                                  .reason = "",
                                  .from = "",
                                  .to = "",
                                  .access = "",
                                  .place = "",
                                  .end = "",
                                  .text_name = "",
                                  .line = reader->line};
    enum outcome outcome = read_object(reader, true, event);
    if (outcome == READ && !event->phase)
        return refuse(reader, "an event has no phase, expected a member \"ph\"");
    return outcome;
}

static enum outcome
add_event(struct reader *reader, const struct trace_event *event, struct trace *trace, size_t *room)
{
    if (trace->count == *room) {
        size_t larger = *room ? 2 * *room : 256;
        struct trace_event *grown = realloc(trace->events, larger * sizeof(*grown));
        if (!grown)
            return refuse(reader, "there is no memory for %zu events", larger);
        trace->events = grown;
        *room = larger;
    }
    trace->events[trace->count++] = *event;
    return READ;
}

static enum outcome
read_array(struct reader *reader, struct trace *trace)
{
    size_t room = 0;
    enum outcome outcome = expect(reader, '[', "a trace, which begins with [");
    if (outcome == CUT)
        return refuse(reader, "the file is empty, expected a trace");
    while (outcome == READ) {
        struct trace_event event;
        skip_space(reader);
        if (reader->at == reader->end)
            return CUT;
        if (*reader->at == ']' && trace->count == 0)
            break;
        outcome = read_event(reader, &event);
        if (outcome == READ)
            outcome = add_event(reader, &event, trace, &room);
        if (outcome != READ)
            return outcome;
        skip_space(reader);
        if (reader->at == reader->end)
            return CUT;
        if (*reader->at == ']')
            break;
        outcome = expect(reader, ',', "',' or ']' behind an event");
    }
    if (outcome != READ)
        return outcome;
    reader->at++;
    skip_space(reader);
    return reader->at == reader->end ? READ : refuse_character(reader, "the end of the file");
}

bool
trace_read(const char *bytes, size_t count, struct trace *out, struct trace_problem *problem)
{
    struct trace trace = {.text = malloc(count + 1)};
    struct reader reader = {
        .at = trace.text, .end = trace.text + count, .line = 1, .problem = problem};
    *problem = (struct trace_problem){0};
    enum outcome outcome;
    if (trace.text) {
        if (count > 0)
            memcpy(trace.text, bytes, count);
        trace.text[count] = 0;
        outcome = read_array(&reader, &trace);
    } else {
        outcome = refuse(&reader, "there is no memory for %zu bytes", count);
    }
    if (outcome == WRONG) {
        trace_free(&trace);
        return false;
    }
    trace.is_cut = outcome == CUT;
    *out = trace;
    return true;
}

void
trace_free(struct trace *trace)
{
    free(trace->events);
    free(trace->text);
    *trace = (struct trace){0};
}
