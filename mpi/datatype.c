/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <limits.h>
#include <stdlib.h>

static MPI_Datatype
type_of_kind(ferry_kind kind, size_t bits)
{
    static const struct {
        ferry_kind kind;
        size_t bits;
        MPI_Datatype type;
    } types[] = {
        {FERRY_KIND_FLOAT, 32, MPI_FLOAT},
        {FERRY_KIND_FLOAT, 64, MPI_DOUBLE},
        {FERRY_KIND_INT, 8, MPI_INT8_T},
        {FERRY_KIND_INT, 16, MPI_INT16_T},
        {FERRY_KIND_INT, 32, MPI_INT32_T},
        {FERRY_KIND_INT, 64, MPI_INT64_T},
        {FERRY_KIND_UINT, 8, MPI_UINT8_T},
        {FERRY_KIND_UINT, 16, MPI_UINT16_T},
        {FERRY_KIND_UINT, 32, MPI_UINT32_T},
        {FERRY_KIND_UINT, 64, MPI_UINT64_T},
        {FERRY_KIND_BOOL, 8, MPI_C_BOOL},
        {FERRY_KIND_COMPLEX, 64, MPI_C_FLOAT_COMPLEX},
        {FERRY_KIND_COMPLEX, 128, MPI_C_DOUBLE_COMPLEX},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].kind == kind && types[i].bits == bits)
            return types[i].type;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Datatype
ferryi_mpi_scalar_type(const ferry_element *element)
{
    return type_of_kind(element->kind, element->bits);
}

/* Consecutive scalars: by MPI's type, else by their bytes. */
static int
make_run(ferry_kind kind, size_t bits, size_t count, MPI_Datatype *out)
{
    MPI_Datatype type = type_of_kind(kind, bits);
    if (type == MPI_DATATYPE_NULL)
        return MPI_Type_contiguous((int)(bits / CHAR_BIT * count), MPI_BYTE, out);
    return MPI_Type_contiguous((int)count, type, out);
}

static int
make_struct(const ferry_element *element, int *lengths, MPI_Aint *offsets, MPI_Datatype *types,
            MPI_Datatype *out)
{
    size_t made = 0;
    int code = MPI_SUCCESS;
    for (; code == MPI_SUCCESS && made < element->field_count; made++) {
        const ferry_field *field = &element->fields[made];
        lengths[made] = 1;
        offsets[made] = (MPI_Aint)field->offset;
        code = make_run(field->kind, field->bits, field->count, &types[made]);
        if (code != MPI_SUCCESS)
            break;
    }
    MPI_Datatype fields = MPI_DATATYPE_NULL;
    if (code == MPI_SUCCESS)
        code = MPI_Type_create_struct((int)made, lengths, offsets, types, &fields);
    for (size_t i = 0; i < made; i++)
        MPI_Type_free(&types[i]);
    if (code == MPI_SUCCESS) { /* padding at the end belongs to the extent */
        code = MPI_Type_create_resized(fields, 0, (MPI_Aint)element->bytes, out);
        MPI_Type_free(&fields);
    }
    return code;
}

ferry_status
ferry_mpi_create_datatype(const ferry_element *element, MPI_Datatype *out)
{
    static const char what[] = "create a datatype";
    int initialized = 0, finalized = 0;
    if (!element || !out)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", what,
                               element ? "out" : "the element");
    if (ferry_element_identity(element) == 0)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the element is not valid", what);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_STATE, "%s: MPI is %s", what,
                               finalized ? "finalized" : "not initialized");
    if (element->bytes > INT_MAX || element->field_count > INT_MAX)
        return ferryi_mpi_fail(FERRY_ERROR_OVERFLOW,
                               "%s: %s has %zu bytes, and MPI counts with int", what,
                               element->name ? element->name : "the element", element->bytes);

    MPI_Datatype type = MPI_DATATYPE_NULL;
    int code;
    if (element->kind != FERRY_KIND_STRUCT) {
        code = make_run(element->kind, element->bits, 1, &type);
    } else if (element->field_count == 0) {
        code = MPI_Type_contiguous((int)element->bytes, MPI_BYTE, &type);
    } else {
        int *lengths = calloc(element->field_count, sizeof(*lengths));
        MPI_Aint *offsets = calloc(element->field_count, sizeof(*offsets));
        MPI_Datatype *types =
            calloc(element->field_count,
                   sizeof(*types)); /* NOLINT(bugprone-sizeof-expression): a handle */
        bool enough = lengths && offsets && types;
        code = enough ? make_struct(element, lengths, offsets, types, &type) : MPI_ERR_NO_MEM;
        free(lengths);
        free(offsets);
        free(types);
    }
    if (code == MPI_SUCCESS)
        code = MPI_Type_commit(&type);
    if (code != MPI_SUCCESS) {
        if (type != MPI_DATATYPE_NULL)
            MPI_Type_free(&type);
        return ferryi_mpi_fail_by_mpi(code, what);
    }
    *out = type;
    return FERRY_OK;
}
