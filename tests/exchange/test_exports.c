/* SPDX-License-Identifier: MIT */
/* Tests exports of leases as DLPack tensors and Arrow arrays (<ferry/exchange.h>) on every kind of
 * device. */
#include "tests/buffer/support.h"
#include "tests/support/copy_slots.h"
#include "tests/support/exchange.h"
#include "tests/support/short_memory.h"

#include <pthread.h>

#define COUNT       24
#define INVALID     FERRY_ERROR_INVALID_ARGUMENT
#define RANGE       FERRY_ERROR_OUT_OF_RANGE
#define UNSUPPORTED FERRY_ERROR_UNSUPPORTED
#define SENTINEL    ((void *)(uintptr_t)0xabcdef)

/* -- leases, and what consumers do ------------------------------------------------------------- */

static ferry_lease *
lend(fixture *f, ferry_buffer *buffer, int place, ferry_access access, size_t offset, size_t count,
     void **out_pointer)
{
    void *pointer;
    ferry_lease *lease;
    const ferry_lease_options options = {.access = access,
                                         .place = place,
                                         .stream = place ? stream_of(f, place) : NULL,
                                         .offset = offset,
                                         .count = count,
                                         .label = "a test"};
    OK(ferry_lease_open(buffer, ferry_buffer_element(buffer), &options, &lease,
                        out_pointer ? out_pointer : &pointer));
    return lease;
}

static struct DLManagedTensorVersioned *export(ferry_lease *lease, const ferry_layout *layout)
{
    struct DLManagedTensorVersioned *tensor;
    OK(ferry_lease_export_dlpack(lease, layout, &tensor));
    assert_int_equal(tensor->version.major, 1);
    assert_int_equal(tensor->version.minor, 0);
    assert_int_equal(tensor->dl_tensor.byte_offset, 0);
    assert_int_equal(tensor->dl_tensor.dtype.lanes, 1);
    return tensor;
}

static void
expect_device(fixture *f, int place, int32_t type, int32_t id)
{
    int32_t expected_type, expected_id;
    OK(ferry_context_exchange_device(f->context, place, &expected_type, &expected_id));
    assert_int_equal(type, expected_type);
    assert_int_equal(id, expected_id);
}

/* Exports a lease as both kinds of DLPack tensors, at every place and with every access. The
 * consumer writes to the tensor and calls its deleter. Then the buffer must contain the written
 * values. */
static void
test_leases_go_out_whole(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        for (int access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
            for (int legacy = 0; legacy < 2; legacy++) {
                ferry_buffer *b = make_counting(f, COUNT, 0);
                void *pointer;
                int values[COUNT];
                ferry_lease *lease = lend(f, b, place, (ferry_access)access, 2, 10, &pointer);
                struct DLManagedTensorVersioned *tensor = NULL;
                struct DLManagedTensor *old = SENTINEL;
                if (legacy &&
                    access == FERRY_READ) { /* a legacy tensor cannot be marked as read-only */
                    FAILS(UNSUPPORTED, ferry_lease_export_dlpack_legacy(lease, NULL, &old));
                    assert_ptr_equal(old, SENTINEL);
                    ferry_lease_destroy(&lease);
                    ferry_buffer_destroy(&b);
                    continue;
                }
                if (legacy)
                    OK(ferry_lease_export_dlpack_legacy(lease, NULL, &old));
                else
                    tensor = export(lease, NULL);
                const struct ferryi_dl_tensor *dl = legacy ? &old->dl_tensor : &tensor->dl_tensor;
                assert_ptr_equal(dl->data, pointer);
                assert_int_equal(dl->rank, 1);
                assert_int_equal(dl->shape[0], 10);
                assert_int_equal(dl->strides[0], 1);
                assert_int_equal(dl->dtype.code, 0);
                assert_int_equal(dl->dtype.bits, 32);
                expect_device(f, place, dl->device.type, dl->device.id);
                if (!legacy)
                    assert_int_equal(tensor->flags, access == FERRY_READ ? 1 : 0);
                /* The tensor is an owner of the lease, so the lease must stay open when the program
                 * destroys its own reference. */
                ferry_lease_destroy(&lease);
                ferry_scope scope;
                void *out;
                FAILS(FERRY_ERROR_BUSY,
                      ferry_buffer_open_host(b, INT, FERRY_UPDATE, 0, FERRY_REST, &scope, &out));
                assert_non_null(strstr(ferry_last_error(), "a test"));
                if (access != FERRY_READ) {
                    for (int i = 0; i < 10; i++)
                        values[i] = i + 102;
                    place_write(f, place, dl->data, values, 10 * sizeof(int));
                }
                if (legacy)
                    old->deleter(old);
                else
                    tensor->deleter(tensor);
                expect_counting(f, b, 0, 2, 10, access == FERRY_READ ? 0 : 100);
                expect_counting(f, b, 0, 12, 12, 0);
                add_to(f, b, 1, 0, FERRY_REST, 1); /* works only if no lease is open */
                ferry_buffer_destroy(&b);
            }
        }
    }
}

/* Checks the DLPack type codes of all built-in element types (bool is 6, bfloat 4, complex 5).
 * Structs must be exported as bytes. */
static void
test_types_of_exports(void **state)
{
    fixture *f = *state;
    static const struct {
        const ferry_element *(*element)(void);
        uint8_t code, bits;
    } types[] = {
        {ferry_int8_element, 0, 8},           {ferry_int16_element, 0, 16},
        {ferry_int_element, 0, 32},           {ferry_int64_element, 0, 64},
        {ferry_byte_element, 1, 8},           {ferry_uint16_element, 1, 16},
        {ferry_uint32_element, 1, 32},        {ferry_uint64_element, 1, 64},
        {ferry_half_element, 2, 16},          {ferry_float_element, 2, 32},
        {ferry_double_element, 2, 64},        {ferry_bfloat16_element, 4, 16},
        {ferry_complex_float_element, 5, 64}, {ferry_complex_double_element, 5, 128},
        {ferry_bool_element, 6, 8},
    };
    for (size_t i = 0; i < LENGTH(types); i++) {
        ferry_buffer *b, *again;
        OK(ferry_buffer_create(f->context, types[i].element(), COUNT, NULL, &b));
        ferry_lease *lease = lend(f, b, 0, FERRY_UPDATE, 0, 0, NULL);
        struct DLManagedTensorVersioned *tensor = export(lease, NULL);
        assert_int_equal(tensor->dl_tensor.dtype.code, types[i].code);
        assert_int_equal(tensor->dl_tensor.dtype.bits, types[i].bits);
        assert_int_equal(tensor->dl_tensor.shape[0], COUNT);
        ferry_lease_destroy(&lease);
        /* The exported tensor must be importable as a buffer that uses the same memory. */
        OK(ferry_buffer_import_dlpack(f->context, tensor, NULL, &again));
        assert_true(ferry_element_equal(ferry_buffer_element(again), types[i].element()));
        ferry_buffer_destroy(&again);
        OK(ferry_buffer_discard(b, 0, FERRY_REST)); /* succeeds only if the lease has ended */
        ferry_buffer_destroy(&b);
    }
}

static const ferry_field vec3_fields[] = {
    {.name = "x", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 0, .count = 1},
    {.name = "v", .kind = FERRY_KIND_FLOAT, .bits = 32, .offset = 4, .count = 2},
};

/* Checks that structs are exported as bytes, with an additional dimension for the bytes of a
 * struct. */
static void
test_structs_go_out_as_bytes(void **state)
{
    fixture *f = *state;
    ferry_element vec3 = {.name = "vec3",
                          .bytes = 12,
                          .align = 4,
                          .kind = FERRY_KIND_STRUCT,
                          .fields = vec3_fields,
                          .field_count = 2};
    const int64_t shape[2] = {2, 5}, strides[2] = {5, 1};
    const ferry_layout layout = {.rank = 2, .shape = shape, .strides = strides};
    ferry_buffer *b;
    ferry_lease *lease;
    void *pointer;
    vec3.identity = ferry_element_identity(&vec3);
    OK(ferry_buffer_create(f->context, &vec3, 10, NULL, &b));
    OK(ferry_lease_open(b, &vec3, &(ferry_lease_options){.access = FERRY_READ}, &lease, &pointer));
    struct DLManagedTensorVersioned *tensor = export(lease, &layout);
    const struct ferryi_dl_tensor *dl = &tensor->dl_tensor;
    assert_int_equal(dl->dtype.code, 1);
    assert_int_equal(dl->dtype.bits, 8);
    assert_int_equal(dl->rank, 3);
    assert_int_equal(dl->shape[0], 2);
    assert_int_equal(dl->shape[1], 5);
    assert_int_equal(dl->shape[2], 12);
    assert_int_equal(dl->strides[0], 60);
    assert_int_equal(dl->strides[1], 12);
    assert_int_equal(dl->strides[2], 1);
    tensor->deleter(tensor);
    const int64_t one = 1, far = INT64_MAX / 2;
    FAILS(FERRY_ERROR_OVERFLOW,
          ferry_lease_export_dlpack(
              lease, &(ferry_layout){.rank = 1, .shape = &one, .strides = &far}, &tensor));
    ferry_lease_destroy(&lease);
    ferry_buffer_destroy(&b);
}

/* A lease on a read-only view only reads, so what is exported says that it must not be written. The
 * export shows the values that were written through the base. */
static void
test_exports_of_read_only_views(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *part;
    OK(ferry_buffer_view_read_only(b, INT, 2, 10, &part));
    for (int place = 0; place <= f->places; place++) {
        ferry_lease *lease = SENTINEL;
        struct DLManagedTensor *old = SENTINEL;
        struct ArrowDeviceArray array;
        struct ArrowSchema schema;
        void *pointer = SENTINEL;
        int values[10];
        write_counting(f, b, place, 0, FERRY_REST, 100 + place);
        for (int access = FERRY_UPDATE; access <= FERRY_OVERWRITE; access++) {
            ferry_lease_options options = {.access = (ferry_access)access, .place = place};
            FAILS(INVALID, ferry_lease_open(part, INT, &options, &lease, &pointer));
            assert_true(lease == SENTINEL && pointer == SENTINEL);
        }
        lease = lend(f, part, place, FERRY_READ, 0, FERRY_REST, &pointer);
        struct DLManagedTensorVersioned *tensor = export(lease, NULL);
        assert_int_equal(tensor->flags & FERRYI_DL_READ_ONLY, FERRYI_DL_READ_ONLY);
        place_read(f, place, values, tensor->dl_tensor.data, sizeof(values));
        assert_int_equal(values[9], 100 + place + 11);
        tensor->deleter(tensor);
        FAILS(UNSUPPORTED, ferry_lease_export_dlpack_legacy(lease, NULL, &old));
        OK(ferry_lease_export_arrow(lease, &array, &schema));
        assert_ptr_equal(array.array.buffers[1], pointer);
        array.array.release(&array.array);
        schema.release(&schema);
        ferry_lease_destroy(&lease);
    }
    DESTROY_BUFFERS(&part, &b);
}

/* -- layouts ----------------------------------------------------------------------------------- */

#define HALF ((int64_t)1 << 62)

static void
test_layouts_of_exports(void **state)
{
    fixture *f = *state;
    static const struct {
        ferry_status status;
        int rank;
        int64_t shape[4];
        bool has_strides;
        int64_t strides[4],
            out[4]; /* strides that the caller passes, and strides of the exported tensor */
    } cases[] = {
        {FERRY_OK, 0, {0}, false, {0}, {0}},
        {FERRY_OK, 1, {24}, false, {0}, {1}},
        {FERRY_OK, 1, {10}, false, {0}, {1}},
        {FERRY_OK, 3, {2, 3, 4}, false, {0}, {12, 4, 1}},
        {FERRY_OK, 3, {4, 3, 2}, true, {1, 4, 12}, {1, 4, 12}},
        {FERRY_OK, 2, {3, 4}, true, {8, 2}, {8, 2}},
        {FERRY_OK, 2, {24, 24}, true, {0, 1}, {0, 1}},
        {FERRY_OK, 2, {1, 24}, true, {HALF, 1}, {HALF, 1}},
        {FERRY_OK, 2, {0, 5}, false, {0}, {5, 1}},
        {FERRY_OK, 2, {5, 0}, false, {0}, {1, 1}},
        {FERRY_OK, 3, {0, HALF, HALF}, false, {0}, {1, HALF, 1}},
        {FERRY_OK, 1, {0}, true, {-9}, {-9}},
        {RANGE, 1, {25}, false, {0}, {0}},
        {RANGE, 2, {5, 5}, false, {0}, {0}},
        {RANGE, 1, {13}, true, {2}, {0}},
        {RANGE, 1, {2}, true, {-1}, {0}},
        {RANGE, 2, {2, 24}, true, {-1, 1}, {0}},
        {RANGE, 3, {HALF, HALF, HALF}, false, {0}, {0}},
        {RANGE, 2, {HALF, 2}, true, {HALF, 1}, {0}},
        {RANGE, 2, {3, 3}, true, {HALF, HALF}, {0}},
        {INVALID, 1, {-1}, false, {0}, {0}},
        {INVALID, 2, {0, INT64_MIN}, false, {0}, {0}},
        {INVALID, -1, {0}, false, {0}, {0}},
        {UNSUPPORTED, 65, {0}, false, {0}, {0}},
    };
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_lease *lease = lend(f, b, 0, FERRY_READ, 0, FERRY_REST, NULL);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const ferry_layout layout = {.rank = cases[i].rank,
                                     .shape = cases[i].rank ? cases[i].shape : NULL,
                                     .strides = cases[i].has_strides ? cases[i].strides : NULL};
        struct DLManagedTensorVersioned *tensor = SENTINEL;
        if (cases[i].status != FERRY_OK) {
            FAILS(cases[i].status, ferry_lease_export_dlpack(lease, &layout, &tensor));
            assert_ptr_equal(tensor, SENTINEL);
            assert_non_null(strstr(ferry_last_error(), "export"));
            continue;
        }
        tensor = export(lease, &layout);
        const struct ferryi_dl_tensor *dl = &tensor->dl_tensor;
        bool is_empty = false;
        assert_int_equal(dl->rank, cases[i].rank);
        assert_true(dl->rank == 0 || dl->strides); /* exports always have strides */
        for (int k = 0; k < dl->rank; k++) {
            assert_int_equal(dl->shape[k], cases[i].shape[k]);
            assert_int_equal(dl->strides[k], cases[i].out[k]);
            is_empty = is_empty || dl->shape[k] == 0;
        }
        assert_int_equal(dl->data == NULL, is_empty); /* a tensor without elements has no address */
        tensor->deleter(tensor);
    }
    struct DLManagedTensorVersioned *tensor = SENTINEL;
    FAILS(INVALID, ferry_lease_export_dlpack(lease, &(ferry_layout){.rank = 1}, &tensor));
    ferry_lease_destroy(&lease);
    ferry_buffer_destroy(&b);
}

static void
test_arguments_of_exports(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0), *words;
    struct DLManagedTensorVersioned *tensor = SENTINEL;
    struct DLManagedTensor *old = SENTINEL;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
    ferry_lease *lease = lend(f, b, 0, FERRY_UPDATE, 0, FERRY_REST, NULL);
    FAILS(INVALID, ferry_lease_export_dlpack(NULL, NULL, &tensor));
    FAILS(INVALID, ferry_lease_export_dlpack(lease, NULL, NULL));
    FAILS(INVALID, ferry_lease_export_dlpack_legacy(NULL, NULL, &old));
    FAILS(INVALID, ferry_lease_export_dlpack_legacy(lease, NULL, NULL));
    FAILS(INVALID, ferry_lease_export_arrow(NULL, &array, &schema));
    FAILS(INVALID, ferry_lease_export_arrow(lease, NULL, &schema));
    FAILS(INVALID, ferry_lease_export_arrow(lease, &array, NULL));
    FAILS(UNSUPPORTED,
          ferry_lease_export_arrow(lease, &array, &schema)); /* Arrow arrays are read-only */
    OK(ferry_lease_close(lease));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_lease_export_dlpack(lease, NULL, &tensor));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_lease_export_dlpack_legacy(lease, NULL, &old));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_lease_export_arrow(lease, &array, &schema));
    ferry_lease_destroy(&lease);
    OK(ferry_buffer_create(f->context, ferry_bfloat16_element(), COUNT, NULL, &words));
    lease = lend(f, words, 0, FERRY_READ, 0, FERRY_REST, NULL);
    FAILS(UNSUPPORTED,
          ferry_lease_export_arrow(lease, &array, &schema)); /* bfloat16 has no name in Arrow */
    ferry_lease_destroy(&lease);
    assert_ptr_equal(tensor, SENTINEL);
    assert_ptr_equal(old, SENTINEL);
    DESTROY_BUFFERS(&words, &b);
}

/* Makes each allocation of an export fail in turn. A failed export must not become an owner of the
 * lease, so the lease must end when its only owner destroys it. */
static void
test_exports_without_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    ferry_lease *lease = lend(f, b, 0, FERRY_READ, 0, FERRY_REST, NULL);
    for (int arrow = 0; arrow < 2; arrow++) {
        bool tripped = true;
        for (uint64_t nth = 1; tripped; nth++) {
            struct DLManagedTensorVersioned *tensor = SENTINEL;
            struct ArrowDeviceArray array;
            struct ArrowSchema schema;
            int64_t live = short_memory_live();
            short_memory_arm(nth);
            ferry_status status = arrow ? ferry_lease_export_arrow(lease, &array, &schema)
                                        : ferry_lease_export_dlpack(lease, NULL, &tensor);
            tripped = short_memory_tripped();
            short_memory_disarm();
            assert_int_equal(status, tripped ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_OK);
            if (tripped) /* the device's own thread may free what an earlier upload needed */
                assert_true(short_memory_live() <= live);
            else if (arrow)
                array.array.release(&array.array), schema.release(&schema);
            else
                tensor->deleter(tensor);
        }
    }
    ferry_lease_destroy(&lease);
    add_to(f, b, 0, 0, FERRY_REST, 1);
    ferry_buffer_destroy(&b);
}

/* -- lifetimes --------------------------------------------------------------------------------- */

static void *
delete_it(void *tensor)
{
    struct DLManagedTensorVersioned *self = tensor;
    self->deleter(self);
    return NULL;
}

/* Destroys the buffer, the lease and the context of an exported tensor in every order. The consumer
 * must still be able to call the deleter, on any thread. */
static void
test_exports_outlive_everything(void **state)
{
    (void)state;
    for (int place = 0; place < 2; place++) {
        for (int order = 0; order < 4; order++) {
            ferry_context *context;
            ferry_buffer *b;
            ferry_lease *lease;
            void *pointer;
            pthread_t thread;
            int values[COUNT];
            OK(ferry_context_create(&(ferry_context_options){.devices = getenv("FERRY_DEVICE")},
                                    &context));
            for (int i = 0; i < COUNT; i++)
                values[i] = i;
            OK(ferry_buffer_create_from(context, INT, COUNT, values, NULL, &b));
            OK(ferry_lease_open(b, INT,
                                &(ferry_lease_options){.access = FERRY_UPDATE, .place = place},
                                &lease, &pointer));
            struct DLManagedTensorVersioned *tensor = export(lease, NULL);
            int *data = tensor->dl_tensor.data;
            if (order & 1)
                ferry_lease_destroy(&lease);
            if (order & 2)
                ferry_context_destroy(&context);
            ferry_buffer_destroy(&b);
            if (!(order & 2))
                ferry_context_destroy(&context);
            if (!(order & 1))
                ferry_lease_destroy(&lease);
            for (int i = 0; place == 0 && i < COUNT; i++) {
                assert_int_equal(data[i], i);
                data[i] = -i;
            }
            assert_int_equal(pthread_create(&thread, NULL, delete_it, tensor), 0);
            pthread_join(thread, NULL);
        }
    }
}

/* Imports an export of one context into a second context. The destruction of the imported buffer
 * calls the deleter of the export, which ends the first context. */
static void
test_a_deleter_ends_a_context_inside_another(void **state)
{
    fixture *f = *state;
    /* On CUDA devices this loop does nothing, because the fake CUDA driver cannot end two contexts
     * of one GPU at the same time. On other devices it tests the host and place 1. */
    for (int place = 0;
         place < (getenv("FERRY_DEVICE") && strcmp(getenv("FERRY_DEVICE"), "cuda") == 0 ? 0 : 2);
         place++) {
        ferry_context *context;
        ferry_buffer *b, *twin;
        ferry_lease *lease;
        void *pointer;
        int32_t type, id;
        int values[COUNT] = {0}, got[COUNT];
        OK(ferry_context_create(&(ferry_context_options){.devices = getenv("FERRY_DEVICE")},
                                &context));
        OK(ferry_buffer_create_from(context, INT, COUNT, values, NULL, &b));
        OK(ferry_lease_open(b, INT, &(ferry_lease_options){.access = FERRY_UPDATE, .place = place},
                            &lease, &pointer));
        OK(ferry_context_exchange_device(context, place, &type, &id));
        struct DLManagedTensorVersioned *tensor = export(lease, NULL);
        ferry_lease_destroy(&lease);
        ferry_buffer_destroy(&b);
        ferry_context_destroy(&context);
        if (type == 12) { /* memory of an emulated device cannot be imported into another context */
            FAILS(UNSUPPORTED, ferry_buffer_import_dlpack(f->context, tensor, NULL, &twin));
            tensor->deleter(tensor);
            continue;
        }
        OK(ferry_buffer_import_dlpack(f->context, tensor, NULL, &twin));
        write_counting(f, twin, 0, 0, FERRY_REST, 9);
        OK(ferry_buffer_copy_to(twin, INT, 0, COUNT, got, NULL));
        assert_int_equal(got[3], 12);
        ferry_buffer_destroy(&twin);
    }
}

/* Checks that the memory of a closed lease stays allocated while a tensor uses it. */
static void
test_a_closed_lease_keeps_its_memory(void **state)
{
    fixture *f = *state;
    ferry_buffer *b = make_counting(f, COUNT, 0);
    void *pointer;
    ferry_lease *lease = lend(f, b, 0, FERRY_UPDATE, 0, FERRY_REST, &pointer);
    struct DLManagedTensorVersioned *tensor = export(lease, NULL);
    OK(ferry_lease_close(lease));
    add_to(f, b, 1, 0, FERRY_REST, 5);
    expect_counting(f, b, 0, 0, FERRY_REST, 5);
    assert_ptr_equal(tensor->dl_tensor.data, pointer);
    ferry_lease_destroy(&lease);
    ferry_buffer_destroy(&b);
    tensor->deleter(tensor);
}

/* Exports one lease as two tensors, which must share its memory. An import of one of them, into the
 * same or a second context, must keep the memory allocated. */
static void
test_an_import_of_an_export(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            ferry_context *other = f->context;
            ferry_buffer *b = make_counting(f, COUNT, 0), *twin;
            int32_t type, id;
            if (elsewhere)
                OK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &other));
            ferry_lease *lease = lend(f, b, place, FERRY_UPDATE, 0, FERRY_REST, NULL);
            struct DLManagedTensorVersioned *first = export(lease, NULL),
                                            *second = export(lease, NULL);
            OK(ferry_context_exchange_device(f->context, place, &type, &id));
            ferry_lease_destroy(&lease);
            first->deleter(first);
            ferry_status status = ferry_buffer_import_dlpack(other, second, NULL, &twin);
            assert_int_equal(status, elsewhere && type != 1 ? UNSUPPORTED : FERRY_OK);
            if (status == FERRY_OK) {
                fixture there = *f;
                there.context = other;
                there.stream = ferry_context_stream(other, 1);
                write_counting(&there, twin, 1, 0, FERRY_REST, 50);
                ferry_buffer_destroy(&twin);
                expect_counting(f, b, 0, 0, FERRY_REST, 50);
            } else {
                second->deleter(second);
            }
            if (elsewhere)
                ferry_context_destroy(&other);
            add_to(f, b, 1, 0, FERRY_REST, 1); /* works only if no lease is open */
            ferry_buffer_destroy(&b);
        }
    }
}

/* -- Arrow ------------------------------------------------------------------------------------- */

static void
test_arrow_arrays(void **state)
{
    fixture *f = *state;
    for (int place = 0; place <= f->places; place++) {
        for (int unordered = 0; unordered < 2; unordered++) {
            ferry_buffer *b = make_counting(f, COUNT, 0), *again;
            struct ArrowDeviceArray array;
            struct ArrowSchema schema;
            ferry_lease *lease;
            void *pointer;
            int got[10];
            add_to(f, b, place, 0, FERRY_REST, 3); /* at a device this is only queued */
            const ferry_lease_options options = {.access = FERRY_READ,
                                                 .place = place,
                                                 .offset = 4,
                                                 .count = 10,
                                                 .stream = place && !unordered ? stream_of(f, place)
                                                                               : NULL};
            OK(ferry_lease_open(b, INT, &options, &lease, &pointer));
            OK(ferry_lease_export_arrow(lease, &array, &schema));
            assert_string_equal(schema.format, "i");
            assert_null(schema.metadata);
            assert_int_equal(schema.n_children, 0);
            assert_int_equal(array.array.length, 10);
            assert_int_equal(array.array.offset, 0);
            assert_int_equal(array.array.null_count, 0);
            assert_int_equal(array.array.n_buffers, 2);
            assert_null(array.array.buffers[0]);
            assert_ptr_equal(array.array.buffers[1], pointer);
            assert_null(array.sync_event);
            assert_int_equal(array.reserved[0] | array.reserved[1] | array.reserved[2], 0);
            if (array.device_type == 1)
                assert_int_equal(array.device_id, -1);
            else
                expect_device(f, place, array.device_type, (int32_t)array.device_id);
            ferry_lease_destroy(&lease);
            /* Moves the array to a different struct, as consumers do. */
            struct ArrowDeviceArray moved = array;
            array.array.release = NULL;
            place_read(f, place, got, moved.array.buffers[1], sizeof(got));
            for (int i = 0; i < 10; i++)
                assert_int_equal(got[i], i + 7);
            OK(ferry_buffer_import_arrow(f->context, &moved, &schema, NULL, &again));
            schema.release(&schema);
            assert_null(schema.release);
            expect_counting(f, again, 0, 0, FERRY_REST, 7);
            ferry_buffer_destroy(&again);
            add_to(f, b, 1, 0, FERRY_REST, 1);
            ferry_buffer_destroy(&b);
        }
    }
}

/* Checks that an Arrow export on a device waits until the bytes are current there. A stream that
 * Ferry does not know must be able to read the bytes immediately after the call. */
static void
test_arrow_arrays_are_ready_for_any_stream(void **state)
{
    fixture *f = *state;
    for (int place = 1; place <= f->places; place++) {
        ferryi_device *device = device_of(f, place);
        void *stream, *pinned;
        if (device->capabilities & FERRYI_DEVICE_COHERENT)
            continue;
        OK(device->ops->stream_create(device, &stream));
        OK(device->ops->memory_alloc(device, FERRY_MEMORY_PINNED, COUNT * sizeof(int), &pinned));
        for (int unordered = 0; unordered < 2; unordered++) {
            ferry_buffer *b = make_counting(f, COUNT, 0);
            struct ArrowDeviceArray array;
            struct ArrowSchema schema;
            ferry_lease *lease;
            void *pointer;
            memset(pinned, 0xff, COUNT * sizeof(int));
            write_counting(f, b, place, 0, FERRY_REST,
                           20); /* queued, and possibly not started yet */
            const ferry_lease_options options = {.access = FERRY_READ,
                                                 .place = place,
                                                 .stream = unordered ? NULL : stream_of(f, place)};
            OK(ferry_lease_open(b, INT, &options, &lease, &pointer));
            OK(ferry_lease_export_arrow(lease, &array, &schema));
            ferry_lease_destroy(&lease);
            OK(device->ops->copy_download(device, pinned, array.array.buffers[1],
                                          COUNT * sizeof(int), stream));
            OK(device->ops->stream_synchronize(device, stream));
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(((int *)pinned)[i], i + 20);
            array.array.release(&array.array);
            schema.release(&schema);
            ferry_buffer_destroy(&b);
        }
        OK(device->ops->memory_free(device, FERRY_MEMORY_PINNED, pinned));
        OK(device->ops->stream_destroy(device, stream));
    }
}

/* -- exports beside other calls ---------------------------------------------------------------- */

enum export_kind { DLPACK, LEGACY, ARROW, EXPORT_KINDS };

/* Result of an export of one of the three kinds. Only the members of this kind are valid. */
struct exported {
    struct DLManagedTensorVersioned *tensor;
    struct DLManagedTensor *legacy;
    struct ArrowDeviceArray array;
    struct ArrowSchema schema;
};

static ferry_status
export_as(enum export_kind kind, ferry_lease *lease, struct exported *out)
{
    switch (kind) {
    case DLPACK:
        return ferry_lease_export_dlpack(lease, NULL, &out->tensor);
    case LEGACY:
        return ferry_lease_export_dlpack_legacy(lease, NULL, &out->legacy);
    default:
        return ferry_lease_export_arrow(lease, &out->array, &out->schema);
    }
}

static void
end_export(enum export_kind kind, struct exported *exported)
{
    if (kind == DLPACK)
        exported->tensor->deleter(exported->tensor);
    else if (kind == LEGACY)
        exported->legacy->deleter(exported->legacy);
    else
        exported->array.array.release(&exported->array.array);
    if (kind == ARROW)
        exported->schema.release(&exported->schema);
}

static ferry_status
try_update(ferry_buffer *b)
{
    ferry_scope scope;
    void *pointer;
    ferry_status status = ferry_buffer_open_host(b, INT, FERRY_UPDATE, 0, 1, &scope, &pointer);
    if (status == FERRY_OK)
        OK(ferry_scope_close(&scope));
    return status;
}

static void
destroy_beside(void *lease)
{
    ferry_lease_destroy(lease);
}

static void
close_beside(void *lease)
{
    OK(ferry_lease_close(*(ferry_lease **)lease));
}

/* Lets a second thread close or destroy a lease while an export of the lease allocates memory. The
 * export began first, so it must succeed and keep the lease's memory. */
static void
test_a_lease_goes_while_it_is_exported(void **state)
{
    fixture *f = *state;
    /* Sizes in bytes of the allocations during which the second thread runs. An export as a DLPack
     * tensor allocates a tensor of one dimension with its shape and strides. An Arrow export
     * allocates an array with its two buffers. */
    static const size_t allocations[EXPORT_KINDS] = {88 + 16, 88 + 16, 24};
    for (enum export_kind kind = DLPACK; kind < EXPORT_KINDS; kind++) {
        for (int closes = 0; closes < 2; closes++) {
            ferry_buffer *b = make_counting(f, COUNT, 0);
            struct exported exported;
            void *pointer;
            ferry_lease *lease =
                lend(f, b, 0, kind == ARROW ? FERRY_READ : FERRY_UPDATE, 0, FERRY_REST, &pointer);
            short_memory_meet(allocations[kind], closes ? close_beside : destroy_beside, &lease);
            OK(export_as(kind, lease, &exported));
            short_memory_disarm();
            assert_int_equal(lease == NULL, !closes);
            assert_int_equal(info_of(b).leases, 1);
            assert_int_equal(try_update(b), closes ? FERRY_OK : FERRY_ERROR_BUSY);
            end_export(kind, &exported);
            if (closes)
                FAILS(FERRY_ERROR_INVALID_STATE, export_as(kind, lease, &exported));
            ferry_lease_destroy(&lease);
            OK(try_update(b));
            assert_int_equal(info_of(b).leases, 0);
            ferry_buffer_destroy(&b);
        }
    }
}

struct closer {
    ferry_lease *lease;
    pthread_barrier_t *begin;
};

static void *
close_it(void *argument)
{
    struct closer *closer = argument;
    (void)pthread_barrier_wait(closer->begin);
    OK(ferry_lease_close(closer->lease));
    ferry_lease_destroy(&closer->lease);
    return NULL;
}

/* Exports a lease repeatedly while a second thread closes it. If an UPDATE of the buffer succeeds,
 * the lease must be closed, so all later exports must fail. */
static void
test_exports_beside_a_close(void **state)
{
    fixture *f = *state;
    pthread_barrier_t begin;
    assert_int_equal(pthread_barrier_init(&begin, NULL, 2), 0);
    ferry_buffer *b = make_counting(f, COUNT, 0);
    for (int round = 0; round < 300; round++) {
        enum export_kind kind = (enum export_kind)(round % EXPORT_KINDS);
        struct exported exported;
        pthread_t thread;
        void *pointer;
        ferry_lease *lease =
            lend(f, b, 0, kind == ARROW ? FERRY_READ : FERRY_UPDATE, 0, FERRY_REST, &pointer);
        struct closer closer = {ferry_lease_retain(lease), &begin};
        assert_int_equal(pthread_create(&thread, NULL, close_it, &closer), 0);
        (void)pthread_barrier_wait(&begin);
        for (bool closed = false; !closed;) {
            closed = try_update(b) == FERRY_OK;
            ferry_status status = export_as(kind, lease, &exported);
            assert_true(status == FERRY_ERROR_INVALID_STATE || (status == FERRY_OK && !closed));
            if (status == FERRY_OK)
                end_export(kind, &exported);
        }
        pthread_join(thread, NULL);
        ferry_lease_destroy(&lease);
    }
    assert_int_equal(info_of(b).leases, 0);
    ferry_buffer_destroy(&b);
    pthread_barrier_destroy(&begin);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_leases_go_out_whole),
        TEST(test_types_of_exports),
        TEST(test_structs_go_out_as_bytes),
        TEST(test_exports_of_read_only_views),
        TEST(test_layouts_of_exports),
        TEST(test_arguments_of_exports),
        TEST(test_exports_without_memory),
        cmocka_unit_test(test_exports_outlive_everything),
        TEST(test_a_deleter_ends_a_context_inside_another),
        TEST(test_a_closed_lease_keeps_its_memory),
        TEST(test_an_import_of_an_export),
        TEST(test_arrow_arrays),
        TEST(test_arrow_arrays_are_ready_for_any_stream),
        TEST(test_a_lease_goes_while_it_is_exported),
        TEST(test_exports_beside_a_close),
    };
    return cmocka_run_group_tests_name("exports", tests, NULL, NULL);
}
