/* SPDX-License-Identifier: MIT */
/* Formats the parameters of a recorded driver call as text. Handles and memory blocks are written
 * as numbers. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/recorder.h"

/* Makes room in the text for `more` bytes and for one formatted value of less than 512 bytes. */
static void
reserve(struct recorder_text *text, size_t more)
{
    if (text->room - text->length > more + 512)
        return;
    text->room = 2 * text->room + more + 1024;
    text->at = realloc(text->at, text->room);
    if (!text->at)
        abort();
}

void
recorder_append(struct recorder_text *text, const char *at, size_t length)
{
    reserve(text, length);
    memcpy(text->at + text->length, at, length);
    text->length += length;
    text->at[text->length] = 0;
}

/* Appends formatted text, which must be shorter than 512 bytes. */
void
recorder_print(struct recorder_text *text, const char *format, ...)
{
    va_list list;
    reserve(text, 0);
    va_start(list, format);
    text->length +=
        (size_t)vsnprintf(text->at + text->length, text->room - text->length, format, list);
    va_end(list);
}

/* -- parameters -- */

/* Sets the kind of a parameter from its C type. The last star of the type is ignored if the
 * parameter is an output. */
static void
classify(struct recorder_parameter *p)
{
    static const struct {
        const char *type;
        enum recorder_kind kind;
        int bytes;
    } kinds[] = {
        {"unsigned char", RECORDER_UNSIGNED, 1},
        {"unsigned short", RECORDER_UNSIGNED, 2},
        {"int", RECORDER_SIGNED, 4},
        {"ferryi_gpu_number", RECORDER_SIGNED, 4},
        {"size_t", RECORDER_UNSIGNED, 8},
        {"unsigned long long", RECORDER_UNSIGNED, 8},
        {"float", RECORDER_NOTHING, 4},
        {"struct ferryi_gpu_location", RECORDER_UNSIGNED, 8},
        {"struct ferryi_gpu_memory_token", RECORDER_STRUCTURE, 64},
        {"struct ferryi_gpu_event_token", RECORDER_STRUCTURE, 64},
        {"ferryi_gpu_host_function", RECORDER_NOTHING, 0},
        {"ferryi_gpu_pointer", RECORDER_ADDRESS, 8},
        {"void*", RECORDER_ADDRESS, 8},
        {"const void*", RECORDER_ADDRESS, 8},
        {"ferryi_gpu_handle", RECORDER_HANDLE, 8},
        {"ferryi_gpu_context", RECORDER_HANDLE, 8},
        {"ferryi_gpu_stream", RECORDER_HANDLE, 8},
        {"ferryi_gpu_event", RECORDER_HANDLE, 8},
        {"ferryi_gpu_module", RECORDER_HANDLE, 8},
        {"ferryi_gpu_function", RECORDER_HANDLE, 8},
        {"ferryi_gpu_graph", RECORDER_HANDLE, 8},
        {"ferryi_gpu_graph_exec", RECORDER_HANDLE, 8},
        {"const char*", RECORDER_STRING, 0},
        {"char*", RECORDER_NOTHING, 0},
        {"void**", RECORDER_NOTHING, 0},
        {"ferryi_gpu_jit_option*", RECORDER_NOTHING, 0},
        {"ferryi_gpu_pointer*", RECORDER_WORDS_64, 8},
        {"size_t*", RECORDER_WORDS_64, 8},
        {"struct ferryi_gpu_copy_attributes*", RECORDER_WORDS_32,
         sizeof(struct ferryi_gpu_copy_attributes)},
        {"const struct ferryi_gpu_allocation*", RECORDER_WORDS_32,
         sizeof(struct ferryi_gpu_allocation)},
        {"const struct ferryi_gpu_access*", RECORDER_WORDS_32, sizeof(struct ferryi_gpu_access)},
        {"const struct ferryi_gpu_copy_2d*", RECORDER_COPY_2D, sizeof(struct ferryi_gpu_copy_2d)},
        {"const struct ferryi_gpu_copy_3d_peer*", RECORDER_COPY_3D,
         sizeof(struct ferryi_gpu_copy_3d_peer)},
        {"const struct ferryi_gpu_launch_config*", RECORDER_LAUNCH,
         sizeof(struct ferryi_gpu_launch_config)},
    };
    p->kind = RECORDER_UNSIGNED; /* all types that are not in the table are enums */
    p->bytes = 4;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].type, p->type) == 0)
            p->kind = kinds[i].kind, p->bytes = kinds[i].bytes;
    if (strcmp(p->name, "image") == 0)
        p->kind = RECORDER_IMAGE;
    if (strcmp(p->name, "user") == 0)
        p->kind = RECORDER_NOTHING;
}

/* Parses one parameter of a list, from its first letter to the comma after it. */
static void
parse_one(const char *text, size_t length, struct recorder_parameter *p)
{
    size_t name = length, used = 0;
    while (name > 0 && text[name - 1] != ' ' && text[name - 1] != '*')
        name--;
    snprintf(p->name, sizeof(p->name), "%.*s", (int)(length - name), text + name);
    for (size_t i = 0; i < name && used + 1 < sizeof(p->type); i++)
        if (text[i] != ' ' || (i + 1 < name && text[i + 1] != '*' && text[i + 1] != ' '))
            p->type[used++] = text[i];
    p->type[used] = 0;
    p->is_output = strncmp(p->name, "out_", 4) == 0                   ? 1
                   : strcmp(p->type, "ferryi_gpu_capture_mode*") == 0 ? 2
                                                                      : 0;
    if (p->is_output)
        p->type[strlen(p->type) - 1] = 0;
    classify(p);
}

int
recorder_parse(const char *list, struct recorder_parameter out[RECORDER_PARAMETERS])
{
    int count = 0;
    for (const char *at = list + 1; *at && *at != ')' && strcmp(list, "(void)") != 0;) {
        size_t length = strcspn(at, ",)");
        parse_one(at, length, &out[count++]);
        at += length;
        at += strspn(at, ", ");
    }
    return count;
}

static int
index_of(const struct recorder_call *call, const char *name)
{
    for (int i = 0; i < call->count; i++)
        if (strcmp(call->parameters[i].name, name) == 0)
            return i;
    return -1;
}

static uint64_t
argument(const struct recorder_call *call, const char *name)
{
    int index = index_of(call, name);
    return index < 0 ? 0 : call->a[index];
}

/* -- numbers for handles and blocks -- */

static struct handle {
    uint64_t value;
    char type[24];
    int number;
} * handles;
static struct block {
    uint64_t from, bytes;
    int number;
} * blocks;
static size_t handle_count, block_count;
static int last_number;

/* Doubles the capacity of an array if the array is full. */
static void *
grown(void *array, size_t count, size_t bytes)
{
    if (count & (count - 1))
        return array;
    array = realloc(array, (count ? 2 * count : 1) * bytes);
    if (!array)
        abort();
    return array;
}

/* Assigns a number to a new handle and returns the number. If an old handle had the same value, the
 * new number replaces the old number. */
static int
number_handle(const char *type, uint64_t value)
{
    size_t i = 0;
    while (i < handle_count && (handles[i].value != value || strcmp(handles[i].type, type) != 0))
        i++;
    if (i == handle_count) {
        handles = grown(handles, handle_count, sizeof(*handles));
        handles[handle_count++].value = value;
        snprintf(handles[i].type, sizeof(handles[i].type), "%s", type);
    }
    return handles[i].number = ++last_number;
}

static int
number_block(uint64_t from, uint64_t bytes)
{
    size_t i = 0;
    while (i < block_count && blocks[i].from != from)
        i++;
    if (i == block_count)
        blocks = grown(blocks, block_count++, sizeof(*blocks));
    blocks[i] = (struct block){from, bytes ? bytes : 1, ++last_number};
    return last_number;
}

/* Writes the number of a handle. Special handle values, such as NULL, are written as integers. */
static void
write_handle(struct recorder_text *line, const char *type, uint64_t value)
{
    const char *kind = type + strlen("ferryi_gpu_");
    for (size_t i = 0; i < handle_count; i++)
        if (handles[i].value == value && strcmp(handles[i].type, kind) == 0) {
            recorder_print(line, "\"%s:%d\"", kind, handles[i].number);
            return;
        }
    if (value < 3)
        recorder_print(line, "%u", (unsigned)value);
    else
        recorder_print(line, "\"%s:0\"", kind);
}

/* Writes an address as text. The parameter `bytes` is the length of host memory, or 0 if the
 * address is not host memory. */
static void
write_address(struct recorder_text *line, uint64_t value, uint64_t bytes)
{
    for (size_t i = 0; i < block_count; i++)
        if (value - blocks[i].from < blocks[i].bytes) {
            recorder_print(line, "\"m%d+%llu\"", blocks[i].number,
                           (unsigned long long)(value - blocks[i].from));
            return;
        }
    if (value == 0)
        recorder_print(line, "0");
    else if (bytes)
        recorder_print(line, "\"h%llx:%llu\"", (unsigned long long)value,
                       (unsigned long long)bytes);
    else
        recorder_print(line, "\"x%llx\"", (unsigned long long)value);
}

void
recorder_forget(const struct recorder_call *call)
{
    bool frees = strcmp(call->name, "cuMemFree_v2") == 0 ||
                 strcmp(call->name, "cuMemFreeHost") == 0 ||
                 strcmp(call->name, "cuMemAddressFree") == 0;
    for (size_t i = 0; frees && i < block_count; i++)
        if (blocks[i].from == call->a[0])
            blocks[i] = blocks[--block_count];
}

/* -- arguments -- */

static void
write_string(struct recorder_text *line, const char *prefix, const char *text)
{
    recorder_print(line, "\"%s", prefix);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        recorder_print(line, *at < ' ' || *at == '"' || *at == '\\' || *at > '~' ? "\\u%04x" : "%c",
                       *at);
    recorder_print(line, "\"");
}

/* Writes the image of a module, which can be replayed only if it is text. The length of a binary
 * image is unknown. */
static void
write_image(struct recorder_text *line, const char *image)
{
    unsigned char first = (unsigned char)image[0];
    if (first == 0 || first == '\n' || (first >= ' ' && first <= '~'))
        write_string(line, "text:", image);
    else
        recorder_print(line, "\"binary\"");
}

static void
write_words_32(struct recorder_text *line, const uint32_t *words, size_t count)
{
    recorder_print(line, "{\"w32\": [");
    for (size_t i = 0; i < count; i++)
        recorder_print(line, "%s%u", i ? ", " : "", words[i]);
    recorder_print(line, "]}");
}

/* Writes one array argument of a batch of copies: addresses, lengths, or indices. */
static void
write_words_64(struct recorder_text *line, const struct recorder_call *call, int index)
{
    bool attributes = strcmp(call->parameters[index].name, "attribute_indices") == 0;
    size_t count = argument(call, attributes ? "attribute_count" : "count");
    const uint64_t *words = (const uint64_t *)(uintptr_t)call->a[index],
                   *bytes = (const uint64_t *)(uintptr_t)argument(call, "bytes");
    bool addresses = strcmp(call->parameters[index].type, "ferryi_gpu_pointer*") == 0;
    recorder_print(line, "{\"w64\": [");
    for (size_t i = 0; i < count; i++) {
        recorder_print(line, i ? ", " : "");
        if (addresses)
            write_address(line, words[i], bytes[i]);
        else
            recorder_print(line, "%llu", (unsigned long long)words[i]);
    }
    recorder_print(line, "]}");
}

/* Writes the source or the target of a copy of rows as a list of words: a host address, a device
 * address, and integers. */
static void
write_end(struct recorder_text *line, const uint64_t *words, bool is_3d, uint64_t rows)
{
    int type = is_3d ? 4 : 2, count = is_3d ? 11 : 7;
    uint64_t pitch = words[is_3d ? 9 : 6];
    for (int i = 0; i < count; i++) {
        bool context = is_3d && i == 8;
        if (i == type)
            recorder_print(line, "%u", (unsigned)words[i]);
        else if (i == type + 1 && (unsigned)words[type] == FERRYI_GPU_MEMORYTYPE_HOST)
            write_address(line, words[i], pitch * (words[1] + rows) + words[0] + 1);
        else if (i == type + 2 && (unsigned)words[type] == FERRYI_GPU_MEMORYTYPE_DEVICE)
            write_address(line, words[i], 0);
        else if (context)
            write_handle(line, "ferryi_gpu_context", words[i]);
        else
            recorder_print(line, "%llu", (unsigned long long)words[i]);
        recorder_print(line, ", ");
    }
}

static void
write_copy(struct recorder_text *line, const uint64_t *words, bool is_3d)
{
    size_t end = is_3d ? 11 : 7, last = is_3d ? 3 : 2;
    const uint64_t *extent = words + 2 * end;
    uint64_t rows = extent[1] * (is_3d ? extent[2] : 1);
    recorder_print(line, "{\"w64\": [");
    write_end(line, words, is_3d, rows);
    write_end(line, words + end, is_3d, rows);
    for (size_t i = 0; i < last; i++)
        recorder_print(line, "%s%llu", i ? ", " : "", (unsigned long long)extent[i]);
    recorder_print(line, "]}");
}

/* Writes the words of a launch with attributes. Two numbers of blocks or threads are one word. */
static void
write_launch(struct recorder_text *line, const struct ferryi_gpu_launch_config *config)
{
    const struct ferryi_gpu_launch_attribute *attribute = config->attributes;
    uint64_t words[3];
    memcpy(words, config, sizeof(words));
    recorder_print(line, "{\"w64\": [%llu, %llu, %llu, %u, ", (unsigned long long)words[0],
                   (unsigned long long)words[1], (unsigned long long)words[2],
                   config->shared_bytes);
    write_handle(line, "ferryi_gpu_stream", (uint64_t)(uintptr_t)config->stream);
    recorder_print(line, ", {\"w64\": [");
    for (unsigned i = 0; i < config->attribute_count; i++, attribute++) {
        recorder_print(line, "%s%u", i ? ", " : "", attribute->id);
        for (size_t k = 0; k < sizeof(attribute->value.words) / sizeof(uint64_t); k++)
            recorder_print(line, ", %llu", (unsigned long long)attribute->value.words[k]);
    }
    recorder_print(line, "]}, %u]}", config->attribute_count);
}

static size_t
structures(const struct recorder_call *call, const struct recorder_parameter *p)
{
    bool attributes = strcmp(p->name, "attributes") == 0;
    return attributes                     ? argument(call, "attribute_count")
           : index_of(call, "count") >= 0 ? argument(call, "count")
                                          : 1;
}

static void
write_pointed(struct recorder_text *line, const struct recorder_call *call, int index)
{
    const struct recorder_parameter *p = &call->parameters[index];
    const void *pointer = (const void *)(uintptr_t)call->a[index];
    if (!pointer || p->kind == RECORDER_NOTHING)
        recorder_print(line, pointer ? "null" : "0");
    else if (p->kind == RECORDER_STRING)
        write_string(line, "text:", pointer);
    else if (p->kind == RECORDER_IMAGE)
        write_image(line, pointer);
    else if (p->kind == RECORDER_WORDS_32)
        write_words_32(line, pointer, structures(call, p) * (size_t)p->bytes / 4);
    else if (p->kind == RECORDER_WORDS_64)
        write_words_64(line, call, index);
    else if (p->kind == RECORDER_LAUNCH)
        write_launch(line, pointer);
    else
        write_copy(line, pointer, p->kind == RECORDER_COPY_3D);
}

static void
write_number(struct recorder_text *line, const struct recorder_parameter *p, uint64_t value)
{
    if (p->kind == RECORDER_SIGNED)
        recorder_print(line, "%d", (int)value);
    else
        recorder_print(
            line, "%llu",
            (unsigned long long)(p->bytes == 8 ? value : value & ((1ull << 8 * p->bytes) - 1)));
}

void
recorder_write(struct recorder_text *line, const struct recorder_call *call, int index)
{
    const struct recorder_parameter *p = &call->parameters[index];
    bool is_host = strchr(p->type, '*') != NULL;
    if (p->is_output == 2 && call->a[index])
        recorder_print(line, "{\"in\": %u, %c%c", *(const unsigned *)(uintptr_t)call->a[index],
                       RECORDER_MARK, 'a' + index);
    else if (p->is_output && call->a[index])
        recorder_print(line, "{%c%c", RECORDER_MARK, 'a' + index);
    else if (!p->is_output && (p->kind == RECORDER_UNSIGNED || p->kind == RECORDER_SIGNED))
        write_number(line, p, call->a[index]);
    else if (!p->is_output && p->kind == RECORDER_ADDRESS)
        write_address(line, call->a[index],
                      is_host ? argument(call, "bytes") + (index_of(call, "bytes") < 0) : 0);
    else if (!p->is_output && p->kind == RECORDER_HANDLE)
        write_handle(line, p->type, call->a[index]);
    else
        write_pointed(line, call, index);
}

static uint64_t
load(const void *from, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, from, (size_t)bytes);
    return value;
}

void
recorder_write_out(struct recorder_text *line, const struct recorder_call *call, int index,
                   ferryi_gpu_result result)
{
    const struct recorder_parameter *p = &call->parameters[index];
    bool is_nothing = result || p->kind == RECORDER_NOTHING || p->kind == RECORDER_STRUCTURE ||
                      p->kind == RECORDER_STRING;
    uint64_t value = is_nothing ? 0 : load((void *)(uintptr_t)call->a[index], p->bytes);
    recorder_print(line, "\"out\": ");
    if (is_nothing)
        recorder_print(line, "null");
    else if (p->kind == RECORDER_HANDLE)
        recorder_print(line, "\"%s:%d\"", p->type + strlen("ferryi_gpu_"),
                       number_handle(p->type + strlen("ferryi_gpu_"), value));
    else if (p->kind == RECORDER_ADDRESS)
        recorder_print(line, "\"m%d:%llu\"", number_block(value, argument(call, "bytes")),
                       (unsigned long long)argument(call, "bytes"));
    else
        write_number(line, p, value);
    recorder_print(line, "}");
}
