/* SPDX-License-Identifier: MIT */
/* Tests imports of other libraries' arrays as buffers (<ferry/exchange.h>) on every kind of
 * device. */
#include "tests/buffer/support.h"
#include "tests/support/copy_slots.h"
#include "tests/support/exchange.h"
#include "tests/support/short_memory.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#define COUNT       24
#define INVALID     FERRY_ERROR_INVALID_ARGUMENT
#define UNSUPPORTED FERRY_ERROR_UNSUPPORTED
#define SENTINEL    ((ferry_buffer *)(uintptr_t)0xabcdef)

static int numbers[COUNT + 8];

static void
count_up(void)
{
    for (int i = 0; i < COUNT + 8; i++)
        numbers[i] = i;
}

/* -- taking, and giving back ------------------------------------------------------------------- */

enum kind { VERSIONED, LEGACY, ARROW, KINDS };

static void *
make(enum kind kind, int64_t count)
{
    void *made = kind == VERSIONED ? (void *)exchange_versioned(numbers, count)
                 : kind == LEGACY  ? (void *)exchange_legacy(numbers, count)
                                   : (void *)exchange_arrow(numbers, count);
    assert_non_null(made);
    return made;
}

static ferry_status
import(fixture *f, enum kind kind, void *made, const ferry_import_options *options,
       ferry_buffer **out)
{
    switch (kind) {
    case VERSIONED:
        return ferry_buffer_import_dlpack(f->context, made, options, out);
    case LEGACY:
        return ferry_buffer_import_dlpack_legacy(f->context, made, options, out);
    default:
        return ferry_buffer_import_arrow(f->context, made, &exchange_int_schema, options, out);
    }
}

/* Checks that an import of `made` fails with this status, writes no output, and does not call the
 * deleter. Then frees `made`. */
static void
refuses(fixture *f, ferry_status expected, enum kind kind, void *made,
        const ferry_import_options *options)
{
    ferry_buffer *out = SENTINEL;
    int deleted = exchange_deleted();
    FAILS(expected, import(f, kind, made, options, &out));
    assert_ptr_equal(out, SENTINEL);
    assert_int_equal(exchange_deleted(), deleted);
    assert_non_null(strstr(ferry_last_error(), "import"));
    exchange_free(made);
}

/* Checks that an import uses the producer's memory without a copy. The deleter of the tensor must
 * be called once, after the last handle of the buffer is destroyed. */
static void
test_memory_of_the_host_is_used_in_place(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        ferry_buffer *b, *view;
        ferry_scope scope;
        int deleted = exchange_deleted();
        count_up();
        OK(import(f, kind, make(kind, COUNT), &(ferry_import_options){.name = "theirs"}, &b));
        ferry_buffer_info info;
        OK(ferry_buffer_get_info(b, &info));
        assert_string_equal(info.name, "theirs");
        assert_true(info.borrowed);
        assert_int_equal(info.read_only, kind == ARROW);
        assert_int_equal(info.count, COUNT);
        assert_ptr_equal(open_at(f, b, 0, FERRY_READ, 0, FERRY_REST, &scope), numbers);
        OK(ferry_scope_close(&scope));
        expect_counting(f, b, 1, 0, FERRY_REST, 0);
        OK(ferry_buffer_view(b, INT, 3, 5, &view));
        if (kind != ARROW)
            add_to(f, b, 1, 0, FERRY_REST, 100);
        ferry_buffer_destroy(&b);
        assert_int_equal(exchange_deleted(), deleted);
        ferry_buffer_destroy(&view);
        assert_int_equal(exchange_deleted(), deleted + 1);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(numbers[i], i + (kind == ARROW ? 0 : 100));
    }
}

/* Checks that a tensor whose deleter is NULL can be imported, and that the imported buffer can be
 * destroyed. */
static void
test_a_tensor_without_a_deleter(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    struct DLManagedTensorVersioned *versioned = make(VERSIONED, COUNT);
    struct DLManagedTensor *legacy = make(LEGACY, COUNT);
    versioned->deleter = NULL;
    legacy->deleter = NULL;
    OK(ferry_buffer_import_dlpack(f->context, versioned, NULL, &b));
    ferry_buffer_destroy(&b);
    OK(ferry_buffer_import_dlpack_legacy(f->context, legacy, NULL, &b));
    ferry_buffer_destroy(&b);
    exchange_free(versioned);
    exchange_free(legacy);
}

static void *
destroy_it(void *buffer)
{
    ferry_buffer *b = buffer;
    ferry_buffer_destroy(&b);
    return NULL;
}

/* Checks that the deleter is called on the thread that destroys the last handle. */
static void
test_the_last_handle_may_go_on_any_thread(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        ferry_buffer *b;
        pthread_t thread;
        int deleted = exchange_deleted();
        OK(import(f, kind, make(kind, COUNT), NULL, &b));
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        assert_int_equal(pthread_create(&thread, NULL, destroy_it, b), 0);
        pthread_join(thread, NULL);
        assert_int_equal(exchange_deleted(), deleted + 1);
    }
}

/* Counts of a context's log messages: errors, and reports that a separate thread has ended the
 * context. */
struct notes {
    atomic_int errors, ends;
};

static void
note_end(ferry_log_level level, const char *message, void *user)
{
    struct notes *notes = user;
    atomic_fetch_add(&notes->errors, level == FERRY_LOG_ERROR);
    atomic_fetch_add(&notes->ends, strstr(message, "has ended it") != NULL);
}

/* Imports a buffer into the context that exported it. After all other objects of the context are
 * destroyed, the import is the only owner of the context. The test destroys the import in each
 * possible way. */
static void
test_an_import_may_be_the_last_owner_of_its_context(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct notes notes = {0};
        ferry_context *context;
        ferry_buffer *b, *twin;
        ferry_lease *lease;
        struct DLManagedTensorVersioned *tensor;
        void *pointer;
        int value = 0;
        ferry_context_options options = {
            .devices = getenv("FERRY_DEVICE"), .log = note_end, .log_user = &notes};
        OK(ferry_context_create(&options, &context));
        OK(ferry_buffer_create_from(context, INT, 1, &(int){5}, NULL, &b));
        OK(ferry_lease_open(b, INT, &(ferry_lease_options){.access = FERRY_UPDATE}, &lease,
                            &pointer));
        OK(ferry_lease_export_dlpack(lease, NULL, &tensor));
        OK(ferry_buffer_import_dlpack(context, tensor, NULL, &twin));
        ferry_lease_destroy(&lease);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
        OK(ferry_buffer_prefetch(twin, 0, 1, 1, NULL));
        OK(ferry_buffer_copy_to(twin, INT, 0, 1, &value, NULL));
        assert_int_equal(value, 5);
        if (how == 0) {
            ferry_buffer_destroy(&twin);
        } else if (how == 1) {
            OK(ferry_buffer_unwrap(&twin, NULL));
        } else if (how == 2) {
            OK(ferry_buffer_abandon(&twin));
        } else { /* the import has a lease */
            OK(ferry_lease_open(twin, INT, &(ferry_lease_options){.access = FERRY_READ}, &lease,
                                &pointer));
            ferry_buffer_destroy(&twin);
            ferry_lease_destroy(&lease);
        }
        for (int i = 0; notes.ends == 0 && notes.errors == 0 && i < 60000; i++)
            ferryi_sleep_ns(1000000);
        assert_int_equal(notes.errors, 0);
        assert_int_equal(notes.ends, 1);
    }
}

static void
destroy_other(void *other)
{
    ferry_buffer_destroy(other);
}

/* Checks that the deleter of an import may call the library. It destroys a different buffer. */
static void
test_a_deleter_may_use_the_library(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        ferry_buffer *b, *other = make_counting(f, COUNT, 0);
        void *made = make(kind, COUNT);
        exchange_around(made)->deleted = destroy_other;
        exchange_around(made)->user = &other;
        OK(import(f, kind, made, NULL, &b));
        ferry_buffer_destroy(&b);
        assert_null(other);
    }
}

/* Checks that the end of a context calls the deleters of its imports, although their buffers still
 * have handles. */
static void
test_the_context_ends_first(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        ferry_context *context;
        ferry_buffer *b;
        fixture own = {0};
        int deleted = exchange_deleted();
        OK(ferry_context_create(&(ferry_context_options){.devices = getenv("FERRY_DEVICE")},
                                &context));
        own.context = context;
        OK(import(&own, kind, make(kind, COUNT), NULL, &b));
        ferry_context_destroy(&context);
        assert_int_equal(exchange_deleted(), deleted + 1);
        ferry_buffer_destroy(&b);
        assert_int_equal(exchange_deleted(), deleted + 1);
    }
    (void)f;
}

/* Makes each allocation of an import fail in turn. After a failure, the tensor must still belong to
 * the caller. */
static void
test_without_memory_nothing_is_taken(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        bool tripped = true;
        for (uint64_t nth = 1; tripped; nth++) {
            void *made = make(kind, COUNT);
            ferry_buffer *out = SENTINEL;
            int deleted = exchange_deleted();
            short_memory_arm(nth);
            ferry_status status =
                import(f, kind, made, &(ferry_import_options){.name = "short"}, &out);
            tripped = short_memory_tripped();
            short_memory_disarm();
            assert_int_equal(status, tripped ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
            assert_int_equal(exchange_deleted(), deleted);
            if (tripped)
                exchange_free(made);
            else
                ferry_buffer_destroy(&out);
        }
    }
}

/* -- layouts ----------------------------------------------------------------------------------- */

#define NEGATIVE INT64_MIN
#define HALF     ((int64_t)1 << 62)

static const struct layout {
    ferry_status status;
    int rank;
    int64_t shape[6];
    bool has_strides;
    int64_t strides[6];
    size_t count;
} layouts[] = {
    {FERRY_OK, 0, {0}, false, {0}, 1},
    {FERRY_OK, 0, {0}, true, {0}, 1},
    {FERRY_OK, 1, {24}, false, {0}, 24},
    {FERRY_OK, 1, {24}, true, {1}, 24},
    {FERRY_OK, 1, {1}, true, {77}, 1},
    {FERRY_OK, 2, {4, 6}, true, {6, 1}, 24},
    {FERRY_OK, 2, {4, 6}, true, {1, 4}, 24},
    {FERRY_OK, 3, {2, 3, 4}, true, {12, 4, 1}, 24},
    {FERRY_OK, 3, {2, 3, 4}, true, {1, 2, 6}, 24},
    {FERRY_OK, 3, {2, 3, 4}, true, {4, 8, 1}, 24},
    {FERRY_OK, 4, {2, 1, 3, 4}, true, {12, -99, 4, 1}, 24},
    {FERRY_OK, 2, {2, 2}, true, {1, 2}, 4},
    {FERRY_OK, 2, {0, 5}, true, {-7, 3}, 0},
    {FERRY_OK, 1, {0}, false, {0}, 0},
    {FERRY_OK, 4, {HALF, HALF, 0, HALF}, false, {0}, 0},
    {UNSUPPORTED, 1, {12}, true, {2}, 0},
    {UNSUPPORTED, 1, {24}, true, {-1}, 0},
    {UNSUPPORTED, 1, {24}, true, {0}, 0},
    {UNSUPPORTED, 2, {4, 5}, true, {6, 1}, 0},
    {UNSUPPORTED, 2, {2, 2}, true, {1, 1}, 0},
    {UNSUPPORTED, 3, {2, 3, 4}, true, {12, 4, 2}, 0},
    {UNSUPPORTED, 2, {4, 6}, true, {6, INT64_MAX}, 0},
    {UNSUPPORTED, 2, {4, 6}, true, {NEGATIVE, 1}, 0},
    {INVALID, 1, {-1}, false, {0}, 0},
    {INVALID, 2, {0, -1}, false, {0}, 0},
    {INVALID, 2, {4, NEGATIVE}, true, {1, 1}, 0},
    {FERRY_ERROR_OVERFLOW, 3, {HALF, HALF, HALF}, false, {0}, 0},
    {FERRY_ERROR_OVERFLOW, 2, {INT64_MAX, 2}, false, {0}, 0},
    {FERRY_ERROR_OVERFLOW, 1, {INT64_MAX}, false, {0}, 0},
};

/* Checks that the dimensions of an imported tensor may have any order, provided that its elements
 * are packed. */
static void
test_layouts(void **state)
{
    fixture *f = *state;
    count_up();
    for (size_t i = 0; i < LENGTH(layouts); i++) {
        const struct layout *layout = &layouts[i];
        for (int kind = VERSIONED; kind <= LEGACY; kind++) {
            void *made = make(kind, COUNT);
            exchange_tensor *around = exchange_around(made);
            struct ferryi_dl_tensor *dl =
                kind == VERSIONED ? &around->versioned.dl_tensor : &around->legacy.dl_tensor;
            dl->rank = layout->rank;
            memcpy(around->shape, layout->shape, sizeof(layout->shape));
            memcpy(around->strides, layout->strides, sizeof(layout->strides));
            if (!layout->has_strides)
                dl->strides = NULL;
            if (layout->rank == 0)
                dl->shape = NULL;
            if (layout->count == 0)
                dl->data = i % 2 ? NULL : dl->data;
            if (layout->status != FERRY_OK) {
                dl->data = numbers;
                refuses(f, layout->status, kind, made, NULL);
                if (layout->status == UNSUPPORTED)
                    assert_non_null(strstr(ferry_last_error(), "not packed"));
                continue;
            }
            ferry_buffer *b;
            int deleted = exchange_deleted();
            OK(import(f, kind, made, NULL, &b));
            assert_int_equal(ferry_buffer_count(b), layout->count);
            expect_counting(f, b, 1, 0, FERRY_REST, 0);
            expect_counting(f, b, 0, 0, FERRY_REST, 0);
            ferry_buffer_destroy(&b);
            assert_int_equal(exchange_deleted(), deleted + 1);
        }
    }
}

static void
test_offsets_in_bytes(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    count_up();
    for (uint64_t offset = 0; offset <= 32; offset += 2) {
        struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
        tensor->dl_tensor.byte_offset = offset;
        if (offset % 4) { /* the memory is not aligned */
            refuses(f, INVALID, VERSIONED, tensor, NULL);
            continue;
        }
        OK(ferry_buffer_import_dlpack(f->context, tensor, NULL, &b));
        expect_counting(f, b, 1, 0, FERRY_REST, (int)offset / 4);
        ferry_buffer_destroy(&b);
    }
    struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
    tensor->dl_tensor.byte_offset = UINT64_MAX - 3;
    refuses(f, INVALID, VERSIONED, tensor, NULL);
    struct ArrowDeviceArray *array = make(ARROW, COUNT);
    array->array.offset = 3;
    OK(ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, NULL, &b));
    assert_null(
        array->array
            .release); /* the import has taken the array from its owner, so `release` is NULL */
    expect_counting(f, b, 1, 0, FERRY_REST, 3);
    ferry_buffer_destroy(&b);
}

/* -- elements and flags ------------------------------------------------------------------------ */

static void
test_every_element_type(void **state)
{
    fixture *f = *state;
    static const struct {
        uint8_t code, bits;
        ferry_kind kind;
    } types[] = {
        {0, 8, FERRY_KIND_INT},      {0, 16, FERRY_KIND_INT},      {0, 32, FERRY_KIND_INT},
        {0, 64, FERRY_KIND_INT},     {1, 8, FERRY_KIND_UINT},      {1, 16, FERRY_KIND_UINT},
        {1, 32, FERRY_KIND_UINT},    {1, 64, FERRY_KIND_UINT},     {2, 16, FERRY_KIND_FLOAT},
        {2, 32, FERRY_KIND_FLOAT},   {2, 64, FERRY_KIND_FLOAT},    {4, 16, FERRY_KIND_BFLOAT},
        {5, 64, FERRY_KIND_COMPLEX}, {5, 128, FERRY_KIND_COMPLEX}, {6, 8, FERRY_KIND_BOOL}};
    unsigned found = 0;
    for (unsigned code = 0; code < 256; code++) {
        for (unsigned bits = 0; bits < 256; bits++) {
            struct DLManagedTensorVersioned *tensor = make(VERSIONED, 2);
            const ferry_element *expected = NULL;
            ferry_buffer *b = SENTINEL;
            tensor->dl_tensor.dtype.code = (uint8_t)code;
            tensor->dl_tensor.dtype.bits = (uint8_t)bits;
            for (size_t i = 0; i < LENGTH(types); i++)
                if (types[i].code == code && types[i].bits == bits)
                    expected = ferry_element_scalar(types[i].kind, bits);
            ferry_status status = ferry_buffer_import_dlpack(f->context, tensor, NULL, &b);
            assert_int_equal(status, expected ? FERRY_OK : UNSUPPORTED);
            if (!expected) {
                exchange_free(tensor);
                continue;
            }
            assert_true(ferry_element_equal(ferry_buffer_element(b), expected));
            ferry_buffer_destroy(&b);
            found++;
        }
    }
    assert_int_equal(found, LENGTH(types));
    for (unsigned lanes = 0; lanes < 5; lanes += 2) {
        struct DLManagedTensorVersioned *tensor = make(VERSIONED, 2);
        tensor->dl_tensor.dtype.lanes = (uint16_t)lanes;
        refuses(f, UNSUPPORTED, VERSIONED, tensor, NULL);
    }
}

/* Checks that a tensor with the flag READ_ONLY is imported as a read-only buffer. Writes to the
 * buffer must fail, whatever other flags the tensor has. */
static void
test_read_only_imports(void **state)
{
    fixture *f = *state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int by_flag = 0; by_flag < 2; by_flag++) {
            ferry_buffer *b;
            ferry_scope scope;
            void *made = make(kind, COUNT), *out;
            count_up();
            if (by_flag && kind == VERSIONED)
                exchange_around(made)->versioned.flags = 1 | UINT64_C(0xff00);
            const ferry_import_options options = {.read_only = !by_flag};
            OK(import(f, kind, made, &options, &b));
            bool is_read_only = !by_flag || kind != LEGACY;
            for (int place = 0; place <= f->places; place++) {
                ferry_status status =
                    place == 0 ? ferry_buffer_open_host(b, INT, FERRY_UPDATE, 0, 1, &scope, &out)
                               : ferry_buffer_open_device(b, INT, FERRY_OVERWRITE, 0, 1,
                                                          stream_of(f, place), &scope, &out);
                assert_int_equal(status, is_read_only ? INVALID : FERRY_OK);
                if (status == FERRY_OK)
                    OK(ferry_scope_abandon(&scope));
            }
            ferry_buffer_destroy(&b);
        }
    }
    struct DLManagedTensorVersioned *copied = make(VERSIONED, COUNT);
    copied->flags = 2; /* IS_COPIED, which does not forbid writes */
    ferry_buffer *b;
    OK(ferry_buffer_import_dlpack(f->context, copied, NULL, &b));
    add_to(f, b, 1, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* -- producers that are wrong ------------------------------------------------------------------ */

/* Checks that only major version 1 of a tensor is accepted. For other versions, the import must not
 * read any other field of the tensor. */
static void
test_versions(void **state)
{
    fixture *f = *state;
    ferry_buffer *b;
    for (uint32_t major = 0; major < 5; major++) {
        struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
        tensor->version.major = major;
        tensor->version.minor =
            99; /* must be accepted, because a minor version may only add codes */
        if (major == 1) {
            OK(ferry_buffer_import_dlpack(f->context, tensor, NULL, &b));
            ferry_buffer_destroy(&b);
            continue;
        }
        tensor->dl_tensor.shape = (int64_t *)(uintptr_t)8;
        refuses(f, UNSUPPORTED, VERSIONED, tensor, NULL);
        assert_non_null(strstr(ferry_last_error(), "version"));
    }
}

static void
test_hostile_tensors(void **state)
{
    fixture *f = *state;
    static const struct {
        ferry_status status;
        int32_t rank;
        bool has_shape;
        uintptr_t shape_shift, strides_shift;
        bool has_data;
        uintptr_t data_shift;
    } cases[] = {
        {INVALID, -1, true, 0, 0, true, 0},     {INVALID, INT32_MIN, true, 0, 0, true, 0},
        {UNSUPPORTED, 65, true, 0, 0, true, 0}, {UNSUPPORTED, INT32_MAX, true, 0, 0, true, 0},
        {INVALID, 1, false, 0, 0, true, 0},     {INVALID, 1, true, 1, 0, true, 0},
        {INVALID, 1, true, 0, 4, true, 0},      {INVALID, 1, true, 0, 0, false, 0},
        {INVALID, 1, true, 0, 0, true, 2},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
        struct ferryi_dl_tensor *dl = &tensor->dl_tensor;
        dl->rank = cases[i].rank;
        dl->shape =
            cases[i].has_shape ? (int64_t *)((uintptr_t)dl->shape + cases[i].shape_shift) : NULL;
        dl->strides = (int64_t *)((uintptr_t)dl->strides + cases[i].strides_shift);
        dl->data = cases[i].has_data ? (char *)numbers + cases[i].data_shift : NULL;
        refuses(f, cases[i].status, VERSIONED, tensor, NULL);
    }
    /* Makes a tensor with 64 dimensions, the maximum number. */
    struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
    ferry_buffer *b;
    tensor->dl_tensor.rank = 64;
    for (int i = 1; i < 64; i++)
        exchange_around(tensor)->shape[i] = 1;
    OK(ferry_buffer_import_dlpack(f->context, tensor, NULL, &b));
    assert_int_equal(ferry_buffer_count(b), COUNT);
    ferry_buffer_destroy(&b);
}

static void
test_memory_that_the_context_does_not_have(void **state)
{
    fixture *f = *state;
    static const int32_t devices[][2] = {{0, 0},  {1, 1},  {1, INT32_MAX}, {1, INT32_MIN}, {2, -1},
                                         {2, 77}, {3, 4},  {4, 0},         {7, 0},         {8, 0},
                                         {9, 0},  {10, 0}, {11, 4},        {12, -2},       {12, 99},
                                         {14, 0}, {15, 0}, {16, 0},        {INT32_MAX, 0}, {-1, 0}};
    for (size_t i = 0; i < LENGTH(devices); i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            void *made = make(kind, COUNT);
            exchange_tensor *around = exchange_around(made);
            if (kind == ARROW) {
                around->arrow.device_type = devices[i][0];
                around->arrow.device_id = devices[i][1];
            } else {
                struct ferryi_dl_tensor *dl =
                    kind == VERSIONED ? &around->versioned.dl_tensor : &around->legacy.dl_tensor;
                dl->device.type = devices[i][0];
                dl->device.id = devices[i][1];
            }
            refuses(f, UNSUPPORTED, kind, made, NULL);
            assert_non_null(strstr(ferry_last_error(), "device"));
        }
    }
    struct ArrowDeviceArray *far = make(ARROW, COUNT);
    far->device_id = (int64_t)1 << 32; /* not valid, although its low 32 bits are */
    refuses(f, UNSUPPORTED, ARROW, far, NULL);
}

static void
test_arguments_of_imports(void **state)
{
    fixture *f = *state;
    ferry_buffer *out = SENTINEL;
    struct DLManagedTensorVersioned *versioned = make(VERSIONED, COUNT);
    struct DLManagedTensor *legacy = make(LEGACY, COUNT);
    struct ArrowDeviceArray *array = make(ARROW, COUNT);
    FAILS(INVALID, ferry_buffer_import_dlpack(NULL, versioned, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_dlpack(f->context, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_dlpack(f->context, versioned, NULL, NULL));
    FAILS(INVALID, ferry_buffer_import_dlpack_legacy(NULL, legacy, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_dlpack_legacy(f->context, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_dlpack_legacy(f->context, legacy, NULL, NULL));
    FAILS(INVALID, ferry_buffer_import_arrow(NULL, array, &exchange_int_schema, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_arrow(f->context, NULL, &exchange_int_schema, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_arrow(f->context, array, NULL, NULL, &out));
    FAILS(INVALID, ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, NULL, NULL));
    assert_ptr_equal(out, SENTINEL);
    exchange_free(versioned);
    exchange_free(legacy);
    exchange_free(array);

    ferry_context *small;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host", .buffer_bytes_limit = 40},
                            &small));
    fixture limited = {.context = small};
    refuses(&limited, FERRY_ERROR_OVERFLOW, VERSIONED, make(VERSIONED, 11), NULL);
    refuses(&limited, FERRY_ERROR_WRONG_CONTEXT, VERSIONED, make(VERSIONED, 10),
            &(ferry_import_options){.release_on = f->stream});
    ferry_context_destroy(&small);
}

static void
test_hostile_arrow_arrays(void **state)
{
    fixture *f = *state;
    struct ArrowSchema dictionary = exchange_int_schema;
    struct ArrowArray child = {0};
    ferry_buffer *out = SENTINEL;
    for (int turn = 0; turn < 17; turn++) {
        struct ArrowDeviceArray *array = make(ARROW, COUNT);
        struct ArrowArray *a = &array->array;
        ferry_status expected = INVALID;
        switch (turn) {
        case 0:
            a->release = NULL;
            break;
        case 1:
            a->n_buffers = 1;
            break;
        case 2:
            a->n_buffers = INT64_MAX;
            break;
        case 3:
            a->n_children = 1;
            break;
        case 4:
            a->buffers = NULL;
            break;
        case 5:
            a->buffers = (const void **)((char *)a->buffers + 1);
            break;
        case 6:
            a->length = -1;
            break;
        case 7:
            a->offset = INT64_MIN;
            break;
        case 8:
            a->null_count = -2;
            break;
        case 9:
            a->buffers[1] = NULL;
            break;
        case 10:
            a->buffers[1] = (char *)numbers + 1;
            break;
        case 11:
            array->sync_event = (char *)numbers;
            expected = UNSUPPORTED;
            break;
        case 12:
            a->dictionary = &child;
            expected = UNSUPPORTED;
            break;
        case 13:
            a->null_count = 1;
            expected = UNSUPPORTED;
            break;
        case 14:
            a->null_count = -1;
            a->buffers[0] = numbers;
            expected = UNSUPPORTED;
            break;
        case 15:
            a->offset = INT64_MAX;
            expected = FERRY_ERROR_OVERFLOW;
            break;
        case 16:
            a->length = INT64_MAX / 2;
            expected = FERRY_ERROR_OVERFLOW;
            break;
        default:
            break;
        }
        refuses(f, expected, ARROW, array, NULL);
    }
    for (int turn = 0; turn < 6; turn++) {
        struct ArrowDeviceArray *array = make(ARROW, COUNT);
        struct ArrowSchema schema = exchange_int_schema;
        ferry_status expected = INVALID;
        switch (turn) {
        case 0:
            schema.format = NULL;
            break;
        case 1:
            schema.release = NULL;
            break;
        case 2:
            schema.n_children = -1;
            break;
        case 3:
            schema.format = "xyz";
            break;
        case 4:
            schema.format = "b";
            expected = UNSUPPORTED;
            break;
        case 5:
            schema.dictionary = &dictionary;
            expected = UNSUPPORTED;
            break;
        default:
            break;
        }
        FAILS(expected, ferry_buffer_import_arrow(f->context, array, &schema, NULL, &out));
        exchange_free(array);
    }
    /* Both arrays are legal: the number of nulls may be unknown if there is no bitmap, and an array
     * without elements has no memory. */
    struct ArrowDeviceArray *uncounted = make(ARROW, COUNT), *empty = make(ARROW, 0);
    uncounted->array.null_count = -1;
    empty->array.buffers[1] = NULL;
    OK(ferry_buffer_import_arrow(f->context, uncounted, &exchange_int_schema, NULL, &out));
    ferry_buffer_destroy(&out);
    OK(ferry_buffer_import_arrow(f->context, empty, &exchange_int_schema, NULL, &out));
    assert_int_equal(ferry_buffer_count(out), 0);
    ferry_buffer_destroy(&out);
}

/* The nulls of a slice are not counted: the bits of the elements in it decide. */
static void
test_bitmaps_of_slices(void **state)
{
    fixture *f = *state;
    ferry_buffer *out = NULL;
    for (int null = 0; null < COUNT; null++) {
        unsigned char bits[COUNT / 8] = {0xff, 0xff, 0xff};
        bits[null / 8] &= (unsigned char)~(1u << null % 8);
        for (int begin = 0; begin < COUNT; begin += 5)
            for (int count = 0; begin + count <= COUNT; count += 3) {
                bool has_null = null >= begin && null < begin + count;
                struct ArrowDeviceArray *array = make(ARROW, COUNT);
                array->array.null_count = -1;
                array->array.offset = begin;
                array->array.length = count;
                array->array.buffers[0] = bits;
                if (has_null) {
                    FAILS(UNSUPPORTED, ferry_buffer_import_arrow(f->context, array,
                                                                 &exchange_int_schema, NULL, &out));
                    exchange_free(array);
                    continue;
                }
                OK(ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, NULL, &out));
                ferry_buffer_destroy(&out);
            }
    }
}

/* -- memory on devices ------------------------------------------------------------------------- */

static void
set_device(fixture *f, int place, exchange_tensor *around, enum kind kind, void *memory)
{
    int32_t type, id;
    OK(ferry_context_exchange_device(f->context, place, &type, &id));
    if (kind == ARROW) {
        around->arrow.device_type = type;
        around->arrow.device_id = id;
        around->buffers[1] = memory;
        return;
    }
    struct ferryi_dl_tensor *dl =
        kind == VERSIONED ? &around->versioned.dl_tensor : &around->legacy.dl_tensor;
    dl->device.type = type;
    dl->device.id = id;
    dl->data = memory;
}

/* Imports device memory that queued work on the stream `options->ready_on` still writes. Every use
 * of the buffer must be ordered after that work. No call may wait for it on the host. */
static void
test_memory_of_devices_is_ordered_after_its_stream(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        for (int turn = 0; turn < 2 * KINDS; turn++) {
            enum kind kind = turn % KINDS;
            int values[COUNT], got[COUNT], *memory = device_alloc(f, place, sizeof(values));
            void *made = make(kind, COUNT);
            ferry_buffer *b;
            int deleted = exchange_deleted();
            for (int i = 0; i < COUNT; i++)
                values[i] = i;
            set_device(f, place, exchange_around(made), kind, memory);
            device_write(f, place, memory, values, sizeof(values));
            OK(import(f, kind, made,
                      turn < KINDS ? NULL
                                   : &(ferry_import_options){.ready_on = stream_of(f, place)},
                      &b));
            expect_counting(f, b, 0, 0, FERRY_REST, 0);
            if (kind != ARROW)
                add_to(f, b, 0, 0, FERRY_REST, 4);
            assert_int_equal(exchange_deleted(), deleted);
            ferry_buffer_destroy(&b);
            assert_int_equal(exchange_deleted(), deleted + 1);
            device_read(f, place, got, memory, sizeof(got));
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(got[i], i + (kind == ARROW ? 0 : 4));
            device_free(f, place, memory);
        }
    }
}

/* Imported memory, which the tensor's deleter frees. Every use of the memory must be complete when
 * the deleter runs. */
struct memory_of {
    fixture *f;
    int place;
    void *memory;
};

static void
scribble_and_free(void *user)
{
    const struct memory_of *m = user;
    ferryi_device *device = device_of(m->f, m->place);
    assert_int_equal(device->ops->memory_free(device, FERRY_MEMORY_DEVICE, m->memory), FERRY_OK);
}

static void
test_deleters_run_after_queued_work(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        struct memory_of theirs = {f, place, device_alloc(f, place, COUNT * sizeof(int))};
        void *made = make(VERSIONED, COUNT);
        ferry_buffer *b, *target = make_ints(f, COUNT);
        set_device(f, place, exchange_around(made), VERSIONED, theirs.memory);
        exchange_around(made)->deleted = scribble_and_free;
        exchange_around(made)->user = &theirs;
        OK(ferry_buffer_import_dlpack(
            f->context, made, &(ferry_import_options){.ready_on = stream_of(f, place)}, &b));
        write_counting(f, b, place, 0, FERRY_REST, 7);
        touch(f, target, place, FERRY_OVERWRITE, 0, FERRY_REST);
        OK(ferry_buffer_copy(target, INT, 0, b, 0, COUNT, NULL)); /* queued */
        ferry_buffer_destroy(&b);
        expect_counting(f, target, 0, 0, FERRY_REST, 7);
        ferry_buffer_destroy(&target);
    }
}

/* Data of a deleter that reuses the imported memory on a stream. The stream waits for every use of
 * the memory, so the deleter can be called without a wait on the host. */
struct reuse {
    fixture *f;
    ferry_stream *stream;
    int *memory, *zeros;
    bool called;
};

static void
clear_on_stream(void *user)
{
    struct reuse *reuse = user;
    ferryi_device *device = device_of(reuse->f, 1);
    reuse->called = true;
    assert_int_equal(device->ops->copy_upload(device, reuse->memory, reuse->zeros,
                                              COUNT * sizeof(int),
                                              ferry_stream_native(reuse->stream)),
                     FERRY_OK);
}

static void
test_a_stream_waits_for_the_last_use(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    struct reuse reuse = {.f = f, .memory = device_alloc(f, 1, COUNT * sizeof(int))};
    void *made = make(VERSIONED, COUNT), *zeros = NULL;
    ferry_buffer *b, *target = make_ints(f, COUNT);
    if (f->coherent || device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, COUNT * sizeof(int),
                                                 &zeros) != FERRY_OK) {
        exchange_free(made);
        ferry_buffer_destroy(&target);
        device_free(f, 1, reuse.memory);
        skip();
    }
    memset(zeros, 0, COUNT * sizeof(int));
    reuse.zeros = zeros;
    OK(ferry_stream_create(f->context, 1, &reuse.stream));
    set_device(f, 1, exchange_around(made), VERSIONED, reuse.memory);
    exchange_around(made)->deleted = clear_on_stream;
    exchange_around(made)->user = &reuse;
    OK(ferry_buffer_import_dlpack(
        f->context, made,
        &(ferry_import_options){.ready_on = f->stream, .release_on = reuse.stream}, &b));
    write_counting(f, b, 1, 0, FERRY_REST, 7);
    touch(f, target, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    OK(ferry_buffer_copy(target, INT, 0, b, 0, COUNT,
                         NULL)); /* queued on streams that the library created */
    ferry_buffer_destroy(&b);
    assert_true(reuse.called);
    expect_counting(f, target, 0, 0, FERRY_REST, 7);
    OK(ferry_stream_synchronize(reuse.stream));
    ferry_stream_destroy(&reuse.stream);
    ferry_buffer_destroy(&target);
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, zeros));
    device_free(f, 1, reuse.memory);
}

/* Imports an Arrow array whose `sync_event` follows work on a stream that Ferry does not know.
 * Every use of the buffer must wait for this event. */
static void
test_events_of_arrow_arrays(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        ferryi_device *device = device_of(f, place);
        if (device->capabilities & FERRYI_DEVICE_COHERENT)
            continue;
        void *stream, *event, *pinned;
        int *memory = device_alloc(f, place, COUNT * sizeof(int));
        OK(device->ops->stream_create(device, &stream));
        OK(device->ops->event_create(device, false, &event));
        OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, COUNT * sizeof(int), &pinned));
        for (int i = 0; i < COUNT; i++)
            ((int *)pinned)[i] = i;
        OK(device->ops->copy_upload(device, memory, pinned, COUNT * sizeof(int), stream));
        OK(device->ops->event_record(device, event, stream));
        struct ArrowDeviceArray *array = make(ARROW, COUNT);
        ferry_buffer *b;
        set_device(f, place, exchange_around(array), ARROW, memory);
        array->sync_event = &event;
        OK(ferry_buffer_import_arrow(f->context, array, &exchange_int_schema, NULL, &b));
        expect_counting(f, b, 0, 0, FERRY_REST, 0);
        ferry_buffer_destroy(&b);
        struct ArrowDeviceArray *odd = make(ARROW, COUNT);
        set_device(f, place, exchange_around(odd), ARROW, memory);
        odd->sync_event = (char *)&event + 1;
        refuses(f, INVALID, ARROW, odd, NULL);
        OK(device->ops->stream_synchronize(device, stream));
        OK(device->ops->event_destroy(device, event));
        OK(device->ops->stream_destroy(device, stream));
        OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
        device_free(f, place, memory);
    }
}

/* Imports host memory that queued work of a device still writes. The import must wait until this
 * work has completed. */
static void
test_memory_of_the_host_that_a_device_writes(void **state)
{
    fixture *f = *state;
    ferryi_device *device = device_of(f, 1);
    void *pinned, *memory = device_alloc(f, 1, COUNT * sizeof(int));
    ferry_buffer *b;
    if (device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, COUNT * sizeof(int), &pinned) !=
        FERRY_OK) {
        device_free(f, 1, memory);
        skip();
    }
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i + 5;
    device_write(f, 1, memory, numbers, COUNT * sizeof(int));
    memset(pinned, 0, COUNT * sizeof(int));
    OK(device->ops->copy_download(device, pinned, memory, COUNT * sizeof(int),
                                  ferry_stream_native(f->stream)));
    struct DLManagedTensorVersioned *tensor = make(VERSIONED, COUNT);
    tensor->dl_tensor.data = pinned;
    tensor->dl_tensor.device.type = 3;
    OK(ferry_buffer_import_dlpack(f->context, tensor,
                                  &(ferry_import_options){.ready_on = f->stream}, &b));
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(((int *)pinned)[i], i + 5);
    ferry_buffer_destroy(&b);
    OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
    device_free(f, 1, memory);
}

static void
test_streams_of_imports(void **state)
{
    fixture *f = *state;
    ferry_context *other;
    int *memory = device_alloc(f, 1, COUNT * sizeof(int));
    OK(ferry_context_create(&(ferry_context_options){.devices = getenv("FERRY_DEVICE")}, &other));
    void *made = make(VERSIONED, COUNT);
    set_device(f, 1, exchange_around(made), VERSIONED, memory);
    refuses(f, FERRY_ERROR_WRONG_CONTEXT, VERSIONED, made,
            &(ferry_import_options){.ready_on = ferry_context_stream(other, 1)});
    refuses(f, FERRY_ERROR_WRONG_CONTEXT, VERSIONED, make(VERSIONED, COUNT),
            &(ferry_import_options){.ready_on = ferry_context_stream(other, 1)});
    if (f->places > 1 && !f->coherent) {
        /* A stream of a different context is not valid as `ready_on`. */
        made = make(VERSIONED, COUNT);
        set_device(f, 1, exchange_around(made), VERSIONED, memory);
        refuses(f, FERRY_ERROR_WRONG_CONTEXT, VERSIONED, made,
                &(ferry_import_options){.ready_on = ferry_context_stream(other, 2)});
        made = make(VERSIONED, COUNT);
        set_device(f, 1, exchange_around(made), VERSIONED, memory);
        refuses(f, INVALID, VERSIONED, made, &(ferry_import_options){.ready_on = stream_of(f, 2)});
        assert_non_null(strstr(ferry_last_error(), "place 2"));
    }
    ferry_context_destroy(&other);
    device_free(f, 1, memory);
}

static void
test_destroyed_contexts_import_nothing(void **state)
{
    (void)state;
    ferry_context *context, *kept;
    ferry_buffer *b;
    int32_t type, id;
    OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &context));
    OK(ferry_buffer_create(
        context, INT, 1, NULL,
        &b)); /* the buffer keeps the struct of the destroyed context allocated */
    kept = context;
    ferry_context_destroy(&context);
    fixture gone = {.context = kept};
    for (int kind = 0; kind < KINDS; kind++)
        refuses(&gone, FERRY_ERROR_INVALID_STATE, kind, make(kind, COUNT), NULL);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_context_exchange_device(kept, 0, &type, &id));
    assert_int_equal(ferry_context_exchange_place(kept, 1, 0), -1);
    ferry_buffer_destroy(&b);
}

/* -- places ------------------------------------------------------------------------------------ */

static void
test_places_and_devices(void **state)
{
    fixture *f = *state;
    int32_t type = 0, id = 0;
    OK(ferry_context_exchange_device(f->context, 0, &type, &id));
    assert_int_equal(type, 1);
    assert_int_equal(id, 0);
    assert_int_equal(ferry_context_exchange_place(f->context, 1, 0), 0);
    assert_int_equal(ferry_context_exchange_place(f->context, 1, -1), 0);
    assert_int_equal(ferry_context_exchange_place(f->context, 3, 0), 0);
    assert_int_equal(ferry_context_exchange_place(f->context, 11, 0), 0);
    for (int place = 1; place <= f->places; place++) {
        ferry_place_info info;
        OK(ferry_context_get_place_info(f->context, place, &info));
        OK(ferry_context_exchange_device(f->context, place, &type, &id));
        bool is_cuda = strcmp(info.kind, "cuda") == 0;
        assert_int_equal(type, info.coherent ? 1 : is_cuda ? 2 : 12);
        assert_int_equal(id, info.native);
        assert_int_equal(ferry_context_exchange_place(f->context, type, id),
                         info.coherent ? 0 : place);
        if (is_cuda)
            assert_int_equal(ferry_context_exchange_place(f->context, 13, id), place);
    }
    type = id = 77;
    FAILS(INVALID, ferry_context_exchange_device(NULL, 0, &type, &id));
    FAILS(INVALID, ferry_context_exchange_device(f->context, -1, &type, &id));
    FAILS(INVALID, ferry_context_exchange_device(f->context, f->places + 1, &type, &id));
    FAILS(INVALID, ferry_context_exchange_device(f->context, 0, NULL, &id));
    FAILS(INVALID, ferry_context_exchange_device(f->context, 0, &type, NULL));
    assert_int_equal(type, 77);
    assert_int_equal(id, 77);
    assert_int_equal(ferry_context_exchange_place(NULL, 1, 0), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_of_the_host_is_used_in_place),
        TEST(test_a_tensor_without_a_deleter),
        TEST(test_the_last_handle_may_go_on_any_thread),
        TEST(test_an_import_may_be_the_last_owner_of_its_context),
        TEST(test_a_deleter_may_use_the_library),
        TEST(test_the_context_ends_first),
        TEST(test_without_memory_nothing_is_taken),
        TEST(test_layouts),
        TEST(test_offsets_in_bytes),
        TEST(test_every_element_type),
        TEST(test_read_only_imports),
        TEST(test_versions),
        TEST(test_hostile_tensors),
        TEST(test_memory_that_the_context_does_not_have),
        TEST(test_arguments_of_imports),
        TEST(test_hostile_arrow_arrays),
        TEST(test_bitmaps_of_slices),
        TEST(test_memory_of_devices_is_ordered_after_its_stream),
        TEST(test_deleters_run_after_queued_work),
        TEST(test_a_stream_waits_for_the_last_use),
        TEST(test_events_of_arrow_arrays),
        TEST(test_memory_of_the_host_that_a_device_writes),
        TEST(test_streams_of_imports),
        TEST(test_destroyed_contexts_import_nothing),
        TEST(test_places_and_devices),
    };
    return cmocka_run_group_tests_name("imports", tests, NULL, NULL);
}
