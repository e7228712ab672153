/* SPDX-License-Identifier: MIT */
#include "cli/script.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* -- a table of numbers, open-addressed -------------------------------------------------------- */

struct entry {
    uint64_t key;
    uint64_t value; /* 0: the place is free */
};

struct table {
    struct entry *entries;
    size_t mask, count;
};

static size_t
home_of(const struct table *table, uint64_t key)
{
    return (size_t)((key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & table->mask;
}

/* The entry of a key, or the free one where it would be. */
static struct entry *
find(const struct table *table, uint64_t key)
{
    size_t i = home_of(table, key);
    while (table->entries[i].value != 0 && table->entries[i].key != key)
        i = (i + 1) & table->mask;
    return &table->entries[i];
}

/* Room for one more; it stays at most half full. */
static bool
make_room(struct table *table)
{
    if (table->entries && 2 * (table->count + 1) <= table->mask + 1)
        return true;
    size_t room = table->entries ? 2 * (table->mask + 1) : 64;
    struct table larger = {calloc(room, sizeof(struct entry)), room - 1, table->count};
    if (!larger.entries)
        return false;
    for (size_t i = 0; table->entries && i <= table->mask; i++)
        if (table->entries[i].value != 0)
            *find(&larger, table->entries[i].key) = table->entries[i];
    free(table->entries);
    *table = larger;
    return true;
}

/* Those behind it that would no longer be found move up. */
static void
erase(struct table *table, struct entry *entry)
{
    size_t hole = (size_t)(entry - table->entries);
    table->entries[hole].value = 0;
    table->count--;
    for (size_t i = (hole + 1) & table->mask; table->entries[i].value != 0;
         i = (i + 1) & table->mask) {
        size_t home = home_of(table, table->entries[i].key);
        if (((i - home) & table->mask) < ((i - hole) & table->mask))
            continue;
        table->entries[hole] = table->entries[i];
        table->entries[i].value = 0;
        hole = i;
    }
}

/* -- writing ----------------------------------------------------------------------------------- */

struct writer {
    struct script script;
    struct table live;    /* address -> 1 + slot */
    struct table streams; /* the log's stream -> 1 + its number */
    struct table threads;
    uint64_t *slot_bytes; /* by slot */
    uint32_t *idle_slots; /* as a stack */
    size_t idle_count;
    uint64_t live_bytes;
    struct log_problem *problem;
};

static bool
fail(struct writer *writer, size_t line, const char *text)
{
    writer->problem->line = line;
    snprintf(writer->problem->text, sizeof(writer->problem->text), "%s", text);
    return false;
}

static struct operation *
append(struct writer *writer, enum operation_kind kind, const struct log_event *event,
       uint32_t slot, uint32_t stream)
{
    assert(writer->script.operations);
    struct operation *operation = &writer->script.operations[writer->script.count++];
    *operation = (struct operation){.bytes = event->bytes,
                                    .time_us = event->time_us,
                                    .line = event->line,
                                    .slot = slot,
                                    .stream = stream,
                                    .kind = kind};
    return operation;
}

/* As they come. */
static bool
number_stream(struct writer *writer, uint64_t stream, uint32_t *out)
{
    if (!make_room(&writer->streams))
        return false;
    struct entry *entry = find(&writer->streams, stream);
    if (entry->value == 0) {
        *entry = (struct entry){stream, ++writer->script.streams};
        writer->streams.count++;
    }
    *out = (uint32_t)(entry->value - 1);
    return true;
}

static bool
count_thread(struct writer *writer, uint64_t thread)
{
    if (!make_room(&writer->threads))
        return false;
    struct entry *entry = find(&writer->threads, thread);
    if (entry->value == 0) {
        *entry = (struct entry){thread, 1};
        writer->threads.count++;
        writer->script.threads++;
    }
    return true;
}

/* A live block ends. */
static void
write_give(struct writer *writer, const struct log_event *event, struct entry *entry,
           uint32_t stream)
{
    uint32_t slot = (uint32_t)(entry->value - 1);
    append(writer, OPERATION_GIVE, event, slot, stream)->bytes = writer->slot_bytes[slot];
    writer->live_bytes -= writer->slot_bytes[slot];
    writer->idle_slots[writer->idle_count++] = slot;
    erase(&writer->live, entry);
    writer->script.gives++;
}

static bool
write_take(struct writer *writer, const struct log_event *event, uint32_t stream)
{
    struct script *script = &writer->script;
    if (!make_room(&writer->live))
        return fail(writer, event->line, "no memory for the script");
    struct entry *entry = find(&writer->live, event->pointer);
    if (entry->value != 0) {
        write_give(writer, event, entry, stream);
        script->lost_frees++;
        entry = find(&writer->live, event->pointer);
    }
    if (__builtin_add_overflow(writer->live_bytes, event->bytes, &writer->live_bytes))
        return fail(writer, event->line, "more than 2^64 bytes are live, expected fewer");
    uint32_t slot =
        writer->idle_count > 0 ? writer->idle_slots[--writer->idle_count] : script->slots++;
    writer->slot_bytes[slot] = event->bytes;
    *entry = (struct entry){event->pointer, (uint64_t)slot + 1};
    writer->live.count++;
    append(writer, OPERATION_TAKE, event, slot, stream);
    script->takes++;
    script->peak_bytes =
        writer->live_bytes > script->peak_bytes ? writer->live_bytes : script->peak_bytes;
    script->peak_blocks =
        writer->live.count > script->peak_blocks ? writer->live.count : script->peak_blocks;
    return true;
}

static bool
write_event(struct writer *writer, const struct log_event *event)
{
    struct script *script = &writer->script;
    uint32_t stream;
    if (!number_stream(writer, event->stream, &stream) || !count_thread(writer, event->thread))
        return fail(writer, event->line, "no memory for the script");
    script->span_us = event->time_us > script->span_us ? event->time_us : script->span_us;
    if (event->action == LOG_FAILURE) {
        append(writer, OPERATION_TRY, event, 0, stream);
        script->tries++;
        return true;
    }
    if (event->pointer == 0 || (event->action == LOG_ALLOCATE && event->bytes == 0)) {
        script->empty++;
        return true;
    }
    if (event->action == LOG_ALLOCATE)
        return write_take(writer, event, stream);
    struct entry *entry = writer->live.entries ? find(&writer->live, event->pointer) : NULL;
    if (entry && entry->value != 0)
        write_give(writer, event, entry, stream);
    else if (event->bytes == 0)
        script->empty++;
    else
        script->unknown_frees++;
    return true;
}

bool
script_write(const struct log *log, struct script *out, struct log_problem *problem)
{
    struct writer writer = {.problem = problem};
    bool ok = log->count < UINT32_MAX / 2;
    if (!ok)
        fail(&writer, 0, "more events than can be numbered, expected at most 2147483646");
    /* An event is at most a lost free and a take. */
    writer.script.operations =
        ok ? calloc(2 * log->count + 1, sizeof(*writer.script.operations)) : NULL;
    writer.slot_bytes = ok ? calloc(log->count + 1, sizeof(*writer.slot_bytes)) : NULL;
    writer.idle_slots = ok ? calloc(log->count + 1, sizeof(*writer.idle_slots)) : NULL;
    if (ok && (!writer.script.operations || !writer.slot_bytes || !writer.idle_slots))
        ok = fail(&writer, 0, "no memory for the script");
    for (size_t i = 0; ok && i < log->count; i++)
        ok = write_event(&writer, &log->events[i]);
    writer.script.left_blocks = writer.live.count;

    free(writer.live.entries);
    free(writer.streams.entries);
    free(writer.threads.entries);
    free(writer.slot_bytes);
    free(writer.idle_slots);
    if (ok)
        *out = writer.script;
    else
        script_free(&writer.script);
    return ok;
}

void
script_free(struct script *script)
{
    free(script->operations);
    *script = (struct script){0};
}
