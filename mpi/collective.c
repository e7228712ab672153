/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <limits.h>
#include <string.h>

/*
 * Collectives. Each rank takes the same steps, each a nonblocking collective of MPI over the same
 * elements of all ranks. While MPI transfers the elements of one step, those of the next are copied
 * from the device.
 */

enum kind { ALLREDUCE, BROADCAST, ALLGATHER, GATHER, SCATTER };

static const char *const names[] = {"allreduce", "broadcast", "allgather", "gather", "scatter"};

struct collective {
    ferry_mpi *mpi;
    enum kind kind;
    int root;
    MPI_Op operation;
    MPI_Datatype type;                     /* what MPI combines; elements or bytes */
    size_t per_element;                    /* items of `type` for each element */
    bool reads, writes;                    /* this rank has a source, a target */
    struct ferryi_mpi_side source, target; /* equal where the range is combined in place */
    struct ferryi_mpi_guard guard;         /* of what is only read */
    size_t source_blocks, target_blocks;   /* 1, or one for each rank */
    size_t elements;                       /* of each rank */
    size_t step_elements, steps;
    struct ferryi_mpi_chunk *source_memory[FERRYI_MPI_CHUNKS_LIMIT],
        *target_memory[FERRYI_MPI_CHUNKS_LIMIT];
    MPI_Request pending[FERRYI_MPI_CHUNKS_LIMIT];
    ferry_status status; /* the first failure; its message is the last one */
};

static bool
is_in_place(const struct collective *call)
{
    return call->kind == ALLREDUCE || call->kind == BROADCAST;
}

static size_t
step_length(const struct collective *call, size_t step)
{
    size_t left = call->elements - step * call->step_elements;
    return left < call->step_elements ? left : call->step_elements;
}

/* -- preparation ------------------------------------------------------------------------------- */

static ferry_status
take_chunks(struct collective *call, const struct ferryi_mpi_side *side, size_t blocks,
            struct ferryi_mpi_chunk **memory)
{
    size_t bytes = blocks *
                   (call->elements < call->step_elements ? call->elements : call->step_elements) *
                   side->element_bytes;
    for (size_t i = 0; !side->pointer && i < call->steps && i < call->mpi->window; i++) {
        ferry_status status = ferryi_mpi_chunk_take(call->mpi, bytes, &memory[i]);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

/* A range of one block for each rank reaches MPI as it is only in one step. */
static ferry_status
open_side(struct collective *call, struct ferryi_mpi_side *side, ferry_access access, size_t blocks,
          struct ferryi_mpi_chunk **memory)
{
    ferry_status status = ferryi_mpi_side_open(side, call->mpi, access,
                                               blocks == 1 || call->steps == 1, names[call->kind]);
    if (status == FERRY_OK && !side->pointer && access == FERRY_READ)
        status = ferryi_mpi_guard_open(&call->guard, call->mpi, side, names[call->kind]);
    return status == FERRY_OK ? take_chunks(call, side, blocks, memory) : status;
}

static ferry_status
resolve(struct collective *call, struct ferryi_mpi_side *side, const ferry_mpi_range *range,
        size_t blocks)
{
    const char *what = names[call->kind];
    ferry_status status = ferryi_mpi_side_resolve(side, call->mpi, range, what);
    if (status != FERRY_OK)
        return status;
    if (blocks > 1 && (side->range.rows > 1 || side->elements % blocks != 0))
        return ferryi_mpi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "%s: %zu rows of %zu elements are not one block for each of %zu ranks", what,
            side->range.rows, side->range.count, blocks);
    call->elements = side->elements / blocks;
    return FERRY_OK;
}

static ferry_status
check_counts(const struct collective *call)
{
    const struct ferryi_mpi_side *source = &call->source, *target = &call->target;
    if (!call->reads || !call->writes || is_in_place(call))
        return FERRY_OK;
    if (source->elements / call->source_blocks != target->elements / call->target_blocks ||
        source->element_bytes != target->element_bytes)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s: a source of %zu elements of %zu bytes, and a target of %zu "
                               "elements of %zu bytes for %d ranks",
                               names[call->kind], source->elements, source->element_bytes,
                               target->elements, target->element_bytes, call->mpi->size);
    return FERRY_OK;
}

static ferry_status
plan_steps(struct collective *call)
{
    size_t bytes = call->reads ? call->source.element_bytes : call->target.element_bytes;
    size_t share = is_in_place(call) ? 1 : (size_t)call->mpi->size;
    size_t step = call->mpi->chunk_bytes / share / bytes;
    call->step_elements = step > 0 ? step : 1;
    call->steps = (call->elements + call->step_elements - 1) / call->step_elements;
    if (bytes > INT_MAX / share)
        return ferryi_mpi_fail(FERRY_ERROR_UNSUPPORTED,
                               "%s: elements of %zu bytes, and MPI counts with int",
                               names[call->kind], bytes);
    return FERRY_OK;
}

/* -- steps ------------------------------------------------------------------------------------- */

static char *
memory_of(const struct ferryi_mpi_side *side, struct ferryi_mpi_chunk *chunk, size_t begin)
{
    return side->pointer ? side->pointer + begin * side->element_bytes
           : chunk       ? chunk->memory
                         : NULL;
}

/* A rank whose own copy failed still takes all steps, because the others wait for it. */
static void
note_failure(struct collective *call, ferry_status status)
{
    if (call->status == FERRY_OK)
        call->status = status;
}

static int
start_step(struct collective *call, size_t step, char *source, char *target)
{
    int count = (int)(step_length(call, step) * call->per_element);
    MPI_Comm communicator = call->mpi->communicator;
    MPI_Request *pending = &call->pending[step % call->mpi->window];
    MPI_Datatype type = call->type;
    switch (call->kind) {
    case ALLREDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, target, count, type, call->operation, communicator,
                              pending);
    case BROADCAST:
        return MPI_Ibcast(target, count, type, call->root, communicator, pending);
    case ALLGATHER:
        return MPI_Iallgather(source, count, type, target, count, type, communicator, pending);
    case GATHER:
        return MPI_Igather(source, count, type, target, count, type, call->root, communicator,
                           pending);
    default:
        return MPI_Iscatter(source, count, type, target, count, type, call->root, communicator,
                            pending);
    }
}

/* Returns false when MPI rejects the step: then it rejects it on every rank. */
static bool
begin_step(struct collective *call, size_t step)
{
    size_t at = step % call->mpi->window, begin = step * call->step_elements,
           length = step_length(call, step);
    bool in_place = is_in_place(call);
    struct ferryi_mpi_side *read_side = in_place ? &call->target : &call->source;
    char *target = memory_of(&call->target, call->target_memory[at], begin);
    char *source = in_place ? target : memory_of(&call->source, call->source_memory[at], begin);
    if (call->reads && !read_side->pointer && call->status == FERRY_OK) {
        ferry_status status = ferryi_mpi_side_pack(read_side, begin, length, call->source_blocks,
                                                   source, names[call->kind]);
        if (status != FERRY_OK)
            note_failure(call, status);
    }
    int code = start_step(call, step, source, target);
    if (code != MPI_SUCCESS)
        note_failure(call, ferryi_mpi_fail_by_mpi(code, names[call->kind]));
    return code == MPI_SUCCESS;
}

static void
finish_step(struct collective *call, size_t step)
{
    size_t at = step % call->mpi->window;
    int code = MPI_Wait(&call->pending[at], MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        note_failure(call, ferryi_mpi_fail_by_mpi(code, names[call->kind]));
    } else if (call->writes && !call->target.pointer && call->status == FERRY_OK) {
        ferry_status status = ferryi_mpi_side_unpack(
            &call->target, step * call->step_elements, step_length(call, step), call->target_blocks,
            call->target_memory[at]->memory, names[call->kind]);
        if (status != FERRY_OK)
            note_failure(call, status);
    }
}

static void
run_steps(struct collective *call)
{
    size_t window = call->mpi->window, begun = 0, finished = 0;
    bool accepted = true;
    while (finished < begun || (accepted && begun < call->steps)) {
        if (accepted && begun < call->steps && begun - finished < window) {
            accepted = begin_step(call, begun);
            begun += accepted;
        } else {
            finish_step(call, finished++);
        }
    }
}

/* -- the calls --------------------------------------------------------------------------------- */

static ferry_status
prepare(struct collective *call, const ferry_mpi_range *source, const ferry_mpi_range *target)
{
    ferry_status status = FERRY_OK;
    bool in_place = is_in_place(call);
    if (call->reads && !in_place)
        status = resolve(call, &call->source, source, call->source_blocks);
    if (status == FERRY_OK && (call->writes || in_place))
        status = resolve(call, &call->target, target, call->target_blocks);
    if (in_place)
        call->source = call->target;
    if (status == FERRY_OK)
        status = check_counts(call);
    if (status == FERRY_OK)
        status = plan_steps(call);
    call->per_element = 1;
    if (status == FERRY_OK && call->kind != ALLREDUCE) {
        call->type = MPI_BYTE;
        call->per_element = call->reads ? call->source.element_bytes : call->target.element_bytes;
    }
    return status;
}

static ferry_status
open_sides(struct collective *call)
{
    ferry_status status = FERRY_OK;
    if (call->reads && !is_in_place(call))
        status =
            open_side(call, &call->source, FERRY_READ, call->source_blocks, call->source_memory);
    if (status == FERRY_OK && (call->writes || is_in_place(call))) {
        ferry_access access = !call->writes             ? FERRY_READ
                              : call->kind == ALLREDUCE ? FERRY_UPDATE
                                                        : FERRY_OVERWRITE;
        status = open_side(call, &call->target, access, call->target_blocks, call->target_memory);
    }
    return status;
}

static void
give_chunks(struct collective *call)
{
    for (size_t i = 0; i < call->mpi->window; i++) {
        ferryi_mpi_chunk_give(call->mpi, &call->source_memory[i]);
        ferryi_mpi_chunk_give(call->mpi, &call->target_memory[i]);
    }
}

/* `source` and `target` are used where the call reads and writes. */
static ferry_status
run(struct collective *call, const ferry_mpi_range *source, const ferry_mpi_range *target)
{
    ferry_status status = prepare(call, source, target);
    if (status != FERRY_OK)
        return status;
    for (size_t i = 0; i < FERRYI_MPI_CHUNKS_LIMIT; i++)
        call->pending[i] = MPI_REQUEST_NULL;
    call->status = open_sides(call);
    bool ran = call->status == FERRY_OK;
    if (ran)
        run_steps(call);
    bool succeeded = call->status == FERRY_OK;
    struct ferryi_mpi_side *sides[] = {&call->source, &call->target};
    for (int i = is_in_place(call) ? 1 : 0; i < 2; i++) {
        status = ferryi_mpi_side_close(sides[i], succeeded, names[call->kind]);
        if (succeeded)
            note_failure(call, status);
    }
    ferryi_mpi_guard_free(&call->guard);
    give_chunks(call);
    return call->status;
}

ferry_status
ferry_mpi_allreduce(ferry_mpi *mpi, const ferry_mpi_range *range, MPI_Op operation)
{
    struct collective call = {.mpi = mpi,
                              .kind = ALLREDUCE,
                              .operation = operation,
                              .reads = true,
                              .writes = true,
                              .source_blocks = 1,
                              .target_blocks = 1};
    ferry_status status = ferryi_mpi_check(mpi, names[ALLREDUCE]);
    if (status == FERRY_OK)
        status = ferryi_mpi_side_resolve(&call.target, mpi, range, names[ALLREDUCE]);
    if (status != FERRY_OK)
        return status;
    const ferry_element *element = call.target.range.element;
    bool is_struct = element->kind == FERRY_KIND_STRUCT;
    call.type = ferryi_mpi_scalar_type(element);
    if (is_struct)
        status = ferry_mpi_create_datatype(element, &call.type);
    else if (call.type == MPI_DATATYPE_NULL)
        status = ferryi_mpi_fail(FERRY_ERROR_UNSUPPORTED, "allreduce: MPI has no type for %s",
                                 element->name ? element->name : "?");
    if (status != FERRY_OK)
        return status;
    status = run(&call, NULL, range);
    if (is_struct)
        MPI_Type_free(&call.type);
    return status;
}

ferry_status
ferry_mpi_broadcast(ferry_mpi *mpi, const ferry_mpi_range *range, int root)
{
    ferry_status status = ferryi_mpi_check(mpi, names[BROADCAST]);
    if (status != FERRY_OK)
        return status;
    bool is_root = mpi->rank == root;
    struct collective call = {.mpi = mpi,
                              .kind = BROADCAST,
                              .root = root,
                              .reads = is_root,
                              .writes = !is_root,
                              .source_blocks = 1,
                              .target_blocks = 1};
    return run(&call, NULL, range);
}

ferry_status
ferry_mpi_allgather(ferry_mpi *mpi, const ferry_mpi_range *source, const ferry_mpi_range *target)
{
    ferry_status status = ferryi_mpi_check(mpi, names[ALLGATHER]);
    if (status != FERRY_OK)
        return status;
    struct collective call = {.mpi = mpi,
                              .kind = ALLGATHER,
                              .reads = true,
                              .writes = true,
                              .source_blocks = 1,
                              .target_blocks = (size_t)mpi->size};
    return run(&call, source, target);
}

ferry_status
ferry_mpi_gather(ferry_mpi *mpi, const ferry_mpi_range *source, const ferry_mpi_range *target,
                 int root)
{
    ferry_status status = ferryi_mpi_check(mpi, names[GATHER]);
    if (status != FERRY_OK)
        return status;
    struct collective call = {.mpi = mpi,
                              .kind = GATHER,
                              .root = root,
                              .reads = true,
                              .writes = mpi->rank == root,
                              .source_blocks = 1,
                              .target_blocks = (size_t)mpi->size};
    return run(&call, source, target);
}

ferry_status
ferry_mpi_scatter(ferry_mpi *mpi, const ferry_mpi_range *source, const ferry_mpi_range *target,
                  int root)
{
    ferry_status status = ferryi_mpi_check(mpi, names[SCATTER]);
    if (status != FERRY_OK)
        return status;
    struct collective call = {.mpi = mpi,
                              .kind = SCATTER,
                              .root = root,
                              .reads = mpi->rank == root,
                              .writes = true,
                              .source_blocks = (size_t)mpi->size,
                              .target_blocks = 1};
    return run(&call, source, target);
}
