/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target. Imports DLPack tensors and Arrow arrays in which every number comes from the fuzz
 * input. Arrays of shapes and strides have exactly the length that the producer declares. An
 * accepted tensor must be packed, which the target checks element by element. A refused tensor must
 * still belong to its producer. An import must not touch the data.
 */
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "src/exchange/abi.h"
#include "tests/fuzz/fuzz.h"

#define RANK_MAX 64
#define SMALL    4096

static ferry_context *contexts[2];
static unsigned deleted;

/* The fuzz input. Reads past its end return zeros. */
struct input {
    const uint8_t *bytes;
    size_t left;
};

static uint64_t
take(struct input *in, size_t bytes)
{
    uint64_t value = 0;
    size_t count = in->left < bytes ? in->left : bytes;
    memcpy(&value, in->bytes, count);
    in->bytes += count;
    in->left -= count;
    return value;
}

/* Reads a number from the input. Most numbers are small, but some consist of 64 arbitrary bits. */
static int64_t
take_number(struct input *in)
{
    int8_t first = (int8_t)take(in, 1);
    return first == -128 ? (int64_t)take(in, 8) : first;
}

static void
close_contexts(void)
{
    for (int i = 0; i < 2; i++)
        ferry_context_destroy(&contexts[i]);
}

static ferry_context *
context_of(uint64_t number)
{
    static const char *const devices[2] = {"host", "emulated:2"};
    if (!contexts[0]) {
        for (int i = 0; i < 2; i++)
            if (ferry_context_create(&(ferry_context_options){.devices = devices[i]},
                                     &contexts[i]) != FERRY_OK)
                abort();
        atexit(close_contexts);
    }
    return contexts[number % 2];
}

/* -- DLPack ------------------------------------------------------------------------------------ */

static void
delete_versioned(struct DLManagedTensorVersioned *self)
{
    (void)self;
    deleted++;
}

static void
delete_legacy(struct DLManagedTensor *self)
{
    (void)self;
    deleted++;
}

/* Counts the elements of a tensor. Returns false if there are too many elements to check each of
 * them. */
static bool
count_small(const struct ferryi_dl_tensor *t, size_t *out)
{
    size_t count = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) {
            *out = 0;
            return true;
        }
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || (uint64_t)t->shape[i] > SMALL || count * (size_t)t->shape[i] > SMALL)
            return false;
        count *= (size_t)t->shape[i];
    }
    *out = count;
    return true;
}

/* Returns whether the elements of the tensor occupy positions 0 to `count` - 1, with one element at
 * each position. */
static bool
is_packed(const struct ferryi_dl_tensor *t, size_t count)
{
    unsigned char seen[SMALL] = {0};
    for (size_t n = 0; t->strides && n < count; n++) {
        int64_t at = 0;
        size_t rest = n;
        for (int i = t->rank; i-- > 0;) {
            int64_t index = (int64_t)(rest % (size_t)t->shape[i]), step;
            rest /= (size_t)t->shape[i];
            if (__builtin_mul_overflow(index, t->strides[i], &step) ||
                __builtin_add_overflow(at, step, &at))
                return false;
        }
        if (at < 0 || (uint64_t)at >= count || seen[at]++)
            return false;
    }
    return true;
}

/* Allocates an array of exactly the needed size, so that a sanitizer detects reads past the end of
 * the array. */
static int64_t *
take_array(struct input *in, int32_t rank)
{
    if (take(in, 1) % 8 == 0 || rank < 0)
        return NULL;
    int32_t count = rank > RANK_MAX ? 1 : rank;
    int64_t *array = malloc((size_t)count * sizeof(*array) + !count);
    for (int32_t i = 0; array && i < count; i++)
        array[i] = take_number(in);
    return array;
}

static void
take_tensor(struct input *in, struct ferryi_dl_tensor *out)
{
    static char memory[64];
    *out = (struct ferryi_dl_tensor){.data = take(in, 1) % 8 ? memory + take(in, 1) % 32 : NULL};
    out->device.type =
        (int32_t)(take(in, 1) % 4 ? 1 + (take(in, 1) % 2) * 11 : (uint64_t)take_number(in));
    out->device.id = (int32_t)(take(in, 1) % 2 ? (uint64_t)take_number(in) : 0);
    out->dtype.code = (uint8_t)take(in, 1) % 8;
    out->dtype.bits = (uint8_t)(take(in, 1) % 8 ? UINT64_C(8) << take(in, 1) % 5 : take(in, 1));
    out->dtype.lanes = (uint16_t)(take(in, 1) % 8 ? 1 : take(in, 2));
    out->byte_offset = take(in, 1) % 4 ? 0 : (uint64_t)take_number(in);
    out->rank = (int32_t)(take(in, 1) % 16 ? take(in, 1) % 5 : (uint64_t)take_number(in));
    out->shape = take_array(in, out->rank);
    out->strides = take_array(in, out->rank);
}

static void
check_taken(const struct ferryi_dl_tensor *t, ferry_buffer *buffer)
{
    size_t count;
    if (!count_small(t, &count))
        return;
    if (ferry_buffer_count(buffer) != count || (count && !is_packed(t, count)))
        abort();
}

/* Checks that a refused import has an error message. If the message says "not packed", the tensor
 * must really not be packed. */
static void
check_refused(const struct ferryi_dl_tensor *t, ferry_status status)
{
    size_t count;
    if (strlen(ferry_last_error()) < 10)
        abort();
    if (status == FERRY_ERROR_UNSUPPORTED && strstr(ferry_last_error(), "not packed") &&
        count_small(t, &count) && is_packed(t, count))
        abort();
}

static void
check_import(ferry_status status, ferry_buffer *buffer, const struct ferryi_dl_tensor *t)
{
    unsigned before = deleted;
    if ((status == FERRY_OK) != (buffer != NULL))
        abort();
    if (!buffer) {
        if (t)
            check_refused(t, status);
        return;
    }
    if (t)
        check_taken(t, buffer);
    ferry_buffer_destroy(&buffer);
    if (deleted != before + 1)
        abort();
}

static void
play_tensor(struct input *in, ferry_context *context, bool legacy)
{
    struct ferryi_dl_tensor t;
    ferry_buffer *buffer = NULL;
    unsigned before = deleted;
    ferry_import_options options = {.read_only = take(in, 1) % 2};
    uint32_t major = take(in, 1) % 16 ? 1 : (uint32_t)take_number(in);
    uint64_t flags = take(in, 1);
    take_tensor(in, &t);
    struct DLManagedTensor old = {.dl_tensor = t, .deleter = delete_legacy};
    struct DLManagedTensorVersioned new = {
        .version = {major, 0}, .deleter = delete_versioned, .flags = flags, .dl_tensor = t};
    ferry_status status = legacy
                              ? ferry_buffer_import_dlpack_legacy(context, &old, &options, &buffer)
                              : ferry_buffer_import_dlpack(context, &new, &options, &buffer);
    if (deleted != before)
        abort();
    check_import(status, buffer, legacy || major == 1 ? &t : NULL);
    free(t.shape);
    free(t.strides);
}

/* -- Arrow ------------------------------------------------------------------------------------- */

static void
release_array(struct ArrowArray *self)
{
    self->release = NULL;
    deleted++;
}

static void
release_schema(struct ArrowSchema *self)
{
    (void)self;
}

static void
play_array(struct input *in, ferry_context *context)
{
    static char memory[64];
    const void *buffers[2] = {take(in, 1) % 8 ? NULL : memory,
                              take(in, 1) % 8 ? memory + take(in, 1) % 32 : NULL};
    struct ArrowArray child = {0};
    struct ArrowSchema child_schema = {0};
    char format[9] = {0};
    ferry_buffer *buffer = NULL;
    unsigned before = deleted;
    struct ArrowDeviceArray array = {
        .array = {.buffers = buffers, .n_buffers = 2, .release = release_array}};
    struct ArrowSchema schema = {.format = format, .release = release_schema};
    uint64_t odd = take(in, 2);
    array.array.length = take_number(in);
    array.array.offset = take_number(in);
    array.array.null_count = take(in, 1) % 4 ? 0 : take_number(in);
    /* A bitmap is read, up to the first zero, where the nulls are not counted. */
    if (array.array.offset >= 8 * (int64_t)sizeof(memory))
        buffers[0] = NULL;
    array.device_type = (int32_t)(take(in, 1) % 4 ? 1 : (uint64_t)take_number(in));
    array.device_id = take(in, 1) % 4 ? -1 : take_number(in);
    for (size_t i = 0; i < 8; i++)
        format[i] = (char)(i == 0 || take(in, 1) % 8 == 0 ? take(in, 1) : 0);
    if (odd & 1 << 0)
        array.array.n_buffers = take_number(in);
    if (odd & 1 << 1)
        array.array.n_children = take_number(in);
    if (odd & 1 << 2)
        array.array.dictionary = &child;
    if (odd & 1 << 3)
        array.array.release = NULL;
    if (odd & 1 << 4)
        array.array.buffers = NULL;
    if (odd & 1 << 5)
        schema.dictionary = &child_schema;
    if (odd & 1 << 6)
        schema.n_children = take_number(in);
    if (odd & 1 << 7)
        schema.format = NULL;
    if (odd & 1 << 8)
        array.sync_event = memory + 1;
    ferry_status status = ferry_buffer_import_arrow(context, &array, &schema, NULL, &buffer);
    if (deleted != before || (buffer && array.array.release) ||
        (buffer && ferry_buffer_count(buffer) != (size_t)array.array.length))
        abort();
    check_import(status, buffer, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct input in = {bytes, count};
    while (in.left) {
        uint64_t kind = take(&in, 1);
        ferry_context *context = context_of(kind / 4);
        if (kind % 4 == 3)
            play_array(&in, context);
        else
            play_tensor(&in, context, kind % 4 == 2);
    }
    return 0;
}
