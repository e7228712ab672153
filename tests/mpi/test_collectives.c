/* SPDX-License-Identifier: MIT */
/* Checks the results of collective operations on ranges, and the number of bytes that they copy
 * between host and device. The ranges are sent as chunks, as device pointers or as host memory. */

#include "ranks.h"

#include <string.h>

#include <ferry/bool.h>
#include <ferry/complex_double.h>
#include <ferry/half.h>

/* Numbers of elements of each rank. With some of these lengths, the elements of a single rank
 * exceed a chunk. With others, only the elements of all ranks together do. */
static const size_t lengths[] = {0, 1, 5, CHUNK_INTS, 2 * CHUNK_INTS + 3, 7000};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* How and from where a collective operation sends the range of a rank. */
struct way {
    ferry_mpi *mpi;
    bool on_device, by_chunks;
};

static uint64_t
cost(struct ranks *ranks, const struct way *way, size_t count)
{
    return way->on_device && way->by_chunks ? ranks_cost(ranks, count) : 0;
}

/* Checks how many bytes were uploaded and downloaded since ranks_reset() was called. */
static void
check_bytes(struct ranks *ranks, uint64_t up, uint64_t down)
{
    CHECK(ranks_up(ranks) == up);
    CHECK(ranks_down(ranks) == down);
}

static void
allreduce(struct ranks *ranks, const struct way *way, size_t count)
{
    ferry_int_buffer buffer = ranks_numbers(ranks, count + 2, ranks->rank, way->on_device);
    ferry_mpi_range range = ranks_range(buffer, 1, count);
    int size = ranks->size, sum = size * (size - 1) / 2;
    ranks_reset(ranks);
    CHECK_OK(ferry_mpi_allreduce(way->mpi, &range, MPI_SUM));
    check_bytes(ranks, cost(ranks, way, count), cost(ranks, way, count));
    ranks_check_numbers(buffer, 0, 1, ranks->rank, 1);
    ranks_check_numbers(buffer, 1, count, sum + size, size);
    ranks_check_numbers(buffer, count + 1, 1, ranks->rank + (int)count + 1, 1);
    CHECK_OK(ferry_mpi_allreduce(way->mpi, &range, MPI_MAX));
    ranks_check_numbers(buffer, 1, count, sum + size, size);
    ferry_int_destroy(&buffer);
}

static void
broadcast(struct ranks *ranks, const struct way *way, size_t count)
{
    int root = ranks->size - 1;
    bool is_root = ranks->rank == root;
    ferry_int_buffer buffer = ranks_numbers(ranks, count + 2, ranks->rank * 1000, way->on_device);
    ferry_mpi_range range = ranks_range(buffer, 1, count);
    ranks_reset(ranks);
    CHECK_OK(ferry_mpi_broadcast(way->mpi, &range, root));
    check_bytes(ranks, is_root ? 0 : cost(ranks, way, count),
                is_root ? cost(ranks, way, count) : 0);
    ranks_check_numbers(buffer, 0, 1, ranks->rank * 1000, 1);
    ranks_check_numbers(buffer, 1, count, root * 1000 + 1, 1);
    ranks_check_numbers(buffer, count + 1, 1, ranks->rank * 1000 + (int)count + 1, 1);
    ferry_int_destroy(&buffer);
}

static void
gather(struct ranks *ranks, const struct way *way, size_t count, bool all)
{
    int root = ranks->size - 1;
    bool receives = all || ranks->rank == root;
    size_t size = (size_t)ranks->size;
    ferry_int_buffer source = ranks_numbers(ranks, count + 2, ranks->rank * 100000, way->on_device);
    ferry_int_buffer target = ranks_numbers(ranks, size * count + 2, -7, way->on_device);
    ferry_mpi_range from = ranks_range(source, 1, count), to = ranks_range(target, 1, size * count);
    ranks_reset(ranks);
    if (all)
        CHECK_OK(ferry_mpi_allgather(way->mpi, &from, &to));
    else
        CHECK_OK(ferry_mpi_gather(way->mpi, &from, receives ? &to : NULL, root));
    /* If the elements of all ranks together exceed a chunk, ferry-mpi gathers them in several
     * steps. It then always uses chunks, even if MPI accepts device pointers. */
    bool steps = size * count * sizeof(int) > CHUNK_BYTES;
    uint64_t up = receives && way->on_device && (way->by_chunks || steps)
                      ? ranks_cost(ranks, size * count)
                      : 0;
    check_bytes(ranks, up, cost(ranks, way, count));
    ranks_check_numbers(target, 0, 1, -7, 1);
    for (size_t rank = 0; receives && rank < size; rank++)
        ranks_check_numbers(target, 1 + rank * count, count, (int)rank * 100000 + 1, 1);
    ranks_check_numbers(target, size * count + 1, 1, -7 + (int)(size * count) + 1, 1);
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
}

static void
scatter(struct ranks *ranks, const struct way *way, size_t count)
{
    int root = ranks->size - 1;
    bool is_root = ranks->rank == root;
    size_t size = (size_t)ranks->size;
    ferry_int_buffer source = ranks_numbers(ranks, size * count + 2, 50, way->on_device);
    ferry_int_buffer target = ranks_numbers(ranks, count + 2, -9, way->on_device);
    ferry_mpi_range from = ranks_range(source, 1, size * count), to = ranks_range(target, 1, count);
    ranks_reset(ranks);
    CHECK_OK(ferry_mpi_scatter(way->mpi, is_root ? &from : NULL, &to, root));
    bool steps = size * count * sizeof(int) > CHUNK_BYTES;
    uint64_t down = is_root && way->on_device && (way->by_chunks || steps)
                        ? ranks_cost(ranks, size * count)
                        : 0;
    check_bytes(ranks, cost(ranks, way, count), down);
    ranks_check_numbers(target, 0, 1, -9, 1);
    ranks_check_numbers(target, 1, count, 51 + ranks->rank * (int)count, 1);
    ranks_check_numbers(target, count + 1, 1, -9 + (int)count + 1, 1);
    ferry_int_destroy(&source);
    ferry_int_destroy(&target);
}

static void
all_lengths(struct ranks *ranks, const struct way *way)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        allreduce(ranks, way, lengths[i]);
        broadcast(ranks, way, lengths[i]);
        gather(ranks, way, lengths[i], true);
        gather(ranks, way, lengths[i], false);
        scatter(ranks, way, lengths[i]);
    }
}

static void
test_chunks(struct ranks *ranks)
{
    all_lengths(ranks, &(struct way){.mpi = ranks->mpi, .on_device = true, .by_chunks = true});
}

static void
test_host(struct ranks *ranks)
{
    all_lengths(ranks, &(struct way){.mpi = ranks->mpi});
}

/* Checks that collectives work if the ranges of some ranks are on the host and those of other ranks
 * are on the device. */
static void
test_mixed(struct ranks *ranks)
{
    all_lengths(
        ranks,
        &(struct way){.mpi = ranks->mpi, .on_device = ranks->rank % 2 == 0, .by_chunks = true});
}

static void
test_device_pointers(struct ranks *ranks)
{
    ferry_mpi *mpi = NULL;
    if (ranks_on_gpu()) {
        ranks_skip("this MPI may not take pointers of a GPU");
        return;
    }
    const ferry_mpi_options options = {.path = FERRY_MPI_PATH_DEVICE, .chunk_bytes = CHUNK_BYTES};
    CHECK_OK(ferry_mpi_create(ranks->context, MPI_COMM_WORLD, &options, &mpi));
    all_lengths(ranks, &(struct way){.mpi = mpi, .on_device = true});
    ferry_mpi_destroy(&mpi);
}

/* -- elements ---------------------------------------------------------------------------------- */

static void
test_elements(struct ranks *ranks)
{
    int size = ranks->size;
    ferry_complex_double numbers[3] = {{1, ranks->rank}, {2, 0}, {0, 3}};
    ferry_complex_double_buffer complexes = {0};
    CHECK_OK(ferry_complex_double_create_from(ranks->context, 3, numbers, NULL, &complexes));
    const ferry_mpi_range complex_range = {.buffer = complexes.raw, .count = FERRY_REST};
    CHECK_OK(ferry_mpi_allreduce(ranks->mpi, &complex_range, MPI_SUM));
    CHECK_OK(ferry_complex_double_copy_to(complexes, 0, 3, numbers, NULL));
    CHECK(numbers[0].real == size && numbers[0].imaginary == size * (size - 1) / 2 &&
          numbers[2].imaginary == 3 * size);
    ferry_complex_double_destroy(&complexes);

    bool flags[2] = {ranks->rank == 1, false};
    ferry_bool_buffer bools = {0};
    CHECK_OK(ferry_bool_create_from(ranks->context, 2, flags, NULL, &bools));
    const ferry_mpi_range bool_range = {.buffer = bools.raw, .count = FERRY_REST};
    CHECK_OK(ferry_mpi_allreduce(ranks->mpi, &bool_range, MPI_LOR));
    CHECK_OK(ferry_bool_copy_to(bools, 0, 2, flags, NULL));
    CHECK(flags[0] && !flags[1]);
    ferry_bool_destroy(&bools);

    ferry_half_buffer halves = {0};
    CHECK_OK(ferry_half_create(ranks->context, 4, NULL, &halves));
    const ferry_mpi_range half_range = {.buffer = halves.raw, .count = FERRY_REST};
    CHECK_FAILS(ferry_mpi_allreduce(ranks->mpi, &half_range, MPI_SUM), FERRY_ERROR_UNSUPPORTED,
                "no type for half");
    CHECK_OK(ferry_mpi_broadcast(ranks->mpi, &half_range, 0));
    ferry_half_destroy(&halves);
}

struct pair {
    int value;
    double weight;
};

static void
add_pairs(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const struct pair *source = in;
    struct pair *target = inout;
    (void)type;
    for (int i = 0; i < *length; i++) {
        target[i].value += source[i].value;
        target[i].weight *= source[i].weight;
    }
}

static const ferry_element *
pair_element(void)
{
    static const ferry_field fields[] = {
        {.name = "value",
         .kind = FERRY_KIND_INT,
         .bits = 32,
         .offset = offsetof(struct pair, value),
         .count = 1},
        {.name = "weight",
         .kind = FERRY_KIND_FLOAT,
         .bits = 64,
         .offset = offsetof(struct pair, weight),
         .count = 1},
    };
    static ferry_element element = {.name = "pair",
                                    .c_type = "struct pair",
                                    .bytes = sizeof(struct pair),
                                    .align = sizeof(double),
                                    .kind = FERRY_KIND_STRUCT,
                                    .fields = fields,
                                    .field_count = 2};
    element.identity = ferry_element_identity(&element);
    return &element;
}

/* Checks that a collective can reduce structs with an MPI operation that the program defines. */
static void
test_struct_operation(struct ranks *ranks)
{
    enum { COUNT = 1000 };
    static struct pair pairs[COUNT];
    MPI_Op operation;
    ferry_buffer *buffer = NULL;
    int wrong = 0, size = ranks->size;
    for (int i = 0; i < COUNT; i++)
        pairs[i] = (struct pair){.value = i + ranks->rank, .weight = 2};
    CHECK(MPI_Op_create(add_pairs, 1, &operation) == MPI_SUCCESS);
    CHECK_OK(ferry_buffer_create_from(ranks->context, pair_element(), COUNT, pairs, NULL, &buffer));
    const ferry_mpi_range range = {.buffer = buffer, .count = COUNT, .stream = ranks->device};
    CHECK_OK(ferry_mpi_allreduce(ranks->mpi, &range, operation));
    CHECK_OK(ferry_buffer_copy_to(buffer, NULL, 0, COUNT, pairs, NULL));
    for (int i = 0; i < COUNT; i++)
        wrong += pairs[i].value != size * i + size * (size - 1) / 2 ||
                 pairs[i].weight != (double)(1 << size);
    CHECK(wrong == 0);
    MPI_Op_free(&operation);
    ferry_buffer_destroy(&buffer);
}

/* -- types ------------------------------------------------------------------------------------- */

static void
check_type(const ferry_element *element, int expected_size)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Aint lower = -1, extent = -1;
    int size = -1;
    CHECK_OK(ferry_mpi_create_datatype(element, &type));
    CHECK(MPI_Type_size(type, &size) == MPI_SUCCESS && size == expected_size);
    CHECK(MPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS && lower == 0 &&
          extent == (MPI_Aint)element->bytes);
    CHECK(MPI_Type_free(&type) == MPI_SUCCESS);
}

static void
test_types(struct ranks *ranks)
{
    static const struct {
        ferry_kind kind;
        uint32_t bits;
    } scalars[] = {{FERRY_KIND_FLOAT, 16},  {FERRY_KIND_FLOAT, 32},   {FERRY_KIND_FLOAT, 64},
                   {FERRY_KIND_BFLOAT, 16}, {FERRY_KIND_INT, 8},      {FERRY_KIND_INT, 16},
                   {FERRY_KIND_INT, 32},    {FERRY_KIND_INT, 64},     {FERRY_KIND_UINT, 8},
                   {FERRY_KIND_UINT, 16},   {FERRY_KIND_UINT, 32},    {FERRY_KIND_UINT, 64},
                   {FERRY_KIND_BOOL, 8},    {FERRY_KIND_COMPLEX, 64}, {FERRY_KIND_COMPLEX, 128}};
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        const ferry_element *element = ferry_element_scalar(scalars[i].kind, scalars[i].bits);
        check_type(element, (int)element->bytes);
    }
    check_type(pair_element(), sizeof(int) + sizeof(double)); /* padding is not counted */

    /* Checks that a program can send a message with the created datatype. MPI must transfer the
     * fields of each struct, but not its padding. */
    MPI_Datatype type = MPI_DATATYPE_NULL;
    struct pair mine[2], theirs[2];
    int other = ranks->rank ^ 1;
    memset(mine, 0x11, sizeof(mine));
    memset(theirs, 0x22, sizeof(theirs));
    mine[1] = (struct pair){.value = ranks->rank, .weight = 0.5};
    CHECK_OK(ferry_mpi_create_datatype(pair_element(), &type));
    CHECK(MPI_Sendrecv(mine, 2, type, other, 0, theirs, 2, type, other, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(theirs[1].value == other && theirs[1].weight == 0.5);
    CHECK(((unsigned char *)&theirs[0])[sizeof(int)] == 0x22);
    CHECK(MPI_Type_free(&type) == MPI_SUCCESS);

    ferry_element wrong = *pair_element();
    wrong.align = 3;
    CHECK_FAILS(ferry_mpi_create_datatype(&wrong, &type), FERRY_ERROR_INVALID_ARGUMENT,
                "not valid");
    CHECK_FAILS(ferry_mpi_create_datatype(NULL, &type), FERRY_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(ferry_mpi_create_datatype(pair_element(), NULL), FERRY_ERROR_INVALID_ARGUMENT,
                "NULL");
}

int
main(int argc, char **argv)
{
    static const struct rank_case cases[] = {
        {"chunks", test_chunks},     {"host", test_host},
        {"mixed", test_mixed},       {"device_pointers", test_device_pointers},
        {"elements", test_elements}, {"struct_operation", test_struct_operation},
        {"types", test_types},
    };
    return ranks_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
