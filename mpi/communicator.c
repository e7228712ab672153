/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FERRYI_MPI_HAVE_EXTENSIONS
#include <mpi-ext.h>
#endif

#define CHUNK_BYTES_LEAST   ((size_t)4 << 10)
#define CHUNK_BYTES_MOST    ((size_t)1 << 30) /* counts of MPI are int */
#define CHUNK_BYTES_DEFAULT ((size_t)512 << 10)
#define GUARDED_ROWS_DEFAULT                                                                       \
    64 /* each row is a scope, and each call on the buffer looks at all of them */
#define CHUNK_COUNT_DEFAULT 2
#define PAGE_BYTES          ((size_t)4096)

/* -- errors ------------------------------------------------------------------------------------ */

static _Thread_local char last_error[1024 + MPI_MAX_ERROR_STRING];

const char *
ferry_mpi_last_error(void)
{
    return last_error;
}

ferry_status
ferryi_mpi_fail(ferry_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof(last_error), format, arguments);
    va_end(arguments);
    return status;
}

ferry_status
ferryi_mpi_fail_by_ferry(ferry_status status, const char *what)
{
    return ferryi_mpi_fail(status, "%s: %s", what, ferry_last_error());
}

static ferry_status
status_of_class(int error_class)
{
    switch (error_class) {
    case MPI_ERR_BUFFER:
    case MPI_ERR_COUNT:
    case MPI_ERR_TYPE:
    case MPI_ERR_TAG:
    case MPI_ERR_COMM:
    case MPI_ERR_RANK:
    case MPI_ERR_REQUEST:
    case MPI_ERR_ROOT:
    case MPI_ERR_GROUP:
    case MPI_ERR_OP:
    case MPI_ERR_TOPOLOGY:
    case MPI_ERR_DIMS:
    case MPI_ERR_ARG:
        return FERRY_ERROR_INVALID_ARGUMENT;
    case MPI_ERR_TRUNCATE:
        return FERRY_ERROR_OUT_OF_RANGE;
    case MPI_ERR_NO_MEM:
        return FERRY_ERROR_OUT_OF_MEMORY;
    case MPI_ERR_UNSUPPORTED_OPERATION:
    case MPI_ERR_UNSUPPORTED_DATAREP:
        return FERRY_ERROR_UNSUPPORTED;
    default:
        return FERRY_ERROR_DEVICE;
    }
}

ferry_status
ferryi_mpi_fail_by_mpi(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int error_class = MPI_ERR_UNKNOWN, length = 0;
    MPI_Error_class(code, &error_class);
    MPI_Error_string(code, text, &length);
    return ferryi_mpi_fail(status_of_class(error_class), "%s: %s", what, text);
}

/* -- MPI's state ------------------------------------------------------------------------------- */

static bool
is_finalized(void)
{
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0;
}

ferry_status
ferryi_mpi_check(const ferry_mpi *mpi, const char *what)
{
    if (!mpi)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the ferry_mpi is NULL", what);
    if (is_finalized())
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_STATE, "%s: MPI is finalized", what);
    return FERRY_OK;
}

static ferry_status
check_initialized(void)
{
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (!initialized || is_finalized())
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_STATE, "create a ferry_mpi: MPI is %s",
                               initialized ? "finalized"
                                           : "not initialized; call MPI_Init() first");
    return FERRY_OK;
}

/* -- chunks ------------------------------------------------------------------------------------ */

static void
free_chunk(ferry_mpi *mpi, struct ferryi_mpi_chunk *chunk)
{
    if (chunk->registered)
        chunk->registered = ferry_context_unregister_host(mpi->context, chunk->memory) != FERRY_OK;
    if (!chunk->registered) /* memory that the driver still knows is not given to others */
        free(chunk->memory);
    free(chunk);
}

ferry_status
ferryi_mpi_chunk_take(ferry_mpi *mpi, size_t bytes, struct ferryi_mpi_chunk **out)
{
    /* Two sizes, so that a free chunk nearly always fits. */
    size_t wanted =
        bytes <= FERRYI_MPI_SMALL_CHUNK || bytes > mpi->chunk_bytes ? bytes : mpi->chunk_bytes;
    if (bytes <= FERRYI_MPI_SMALL_CHUNK)
        wanted = FERRYI_MPI_SMALL_CHUNK;
    wanted = (wanted + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    for (struct ferryi_mpi_chunk **at = &mpi->free_chunks; *at; at = &(*at)->next) {
        if ((*at)->bytes == wanted) {
            *out = *at;
            *at = (*at)->next;
            return FERRY_OK;
        }
    }
    struct ferryi_mpi_chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk)
        chunk->memory = aligned_alloc(PAGE_BYTES, wanted);
    if (!chunk || !chunk->memory) {
        free(chunk);
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for a chunk of %zu bytes",
                               wanted);
    }
    chunk->bytes = wanted;
    /* A chunk that cannot be page-locked works too, at the speed of pageable memory. */
    chunk->registered =
        ferry_context_register_host(mpi->context, chunk->memory, wanted) == FERRY_OK;
    *out = chunk;
    return FERRY_OK;
}

void
ferryi_mpi_chunk_give(ferry_mpi *mpi, struct ferryi_mpi_chunk **chunk)
{
    if (!*chunk)
        return;
    (*chunk)->next = mpi->free_chunks;
    mpi->free_chunks = *chunk;
    *chunk = NULL;
}

/* -- streams ----------------------------------------------------------------------------------- */

ferry_status
ferryi_mpi_stream(ferry_mpi *mpi, int place, ferry_stream **out)
{
    if (!mpi->streams)
        mpi->streams =
            calloc((size_t)ferry_context_place_count(mpi->context) + 1, sizeof(ferry_stream *));
    if (!mpi->streams)
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory for the streams of %d devices",
                               ferry_context_place_count(mpi->context));
    if (!mpi->streams[place]) {
        ferry_status status = ferry_stream_create(mpi->context, place, &mpi->streams[place]);
        if (status != FERRY_OK)
            return ferryi_mpi_fail_by_ferry(status, "create a stream for messages");
    }
    *out = mpi->streams[place];
    return FERRY_OK;
}

static void
destroy_streams(ferry_mpi *mpi)
{
    for (int place = 1; mpi->streams && place <= ferry_context_place_count(mpi->context); place++)
        ferry_stream_destroy(&mpi->streams[place]);
    free(mpi->streams);
}

/* -- the object -------------------------------------------------------------------------------- */

static ferry_status
check_options(const ferry_mpi_options *options)
{
    if ((unsigned int)options->path > FERRY_MPI_PATH_DEVICE)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "create a ferry_mpi: there is no path %d", (int)options->path);
    if (options->chunk_bytes != 0 &&
        (options->chunk_bytes < CHUNK_BYTES_LEAST || options->chunk_bytes > CHUNK_BYTES_MOST))
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "create a ferry_mpi: chunks of %zu bytes; %zu to %zu are valid",
                               options->chunk_bytes, CHUNK_BYTES_LEAST, CHUNK_BYTES_MOST);
    if (options->chunk_count > FERRYI_MPI_CHUNKS_LIMIT)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "create a ferry_mpi: %u chunks; 1 to %d are valid",
                               (unsigned int)options->chunk_count, FERRYI_MPI_CHUNKS_LIMIT);
    return FERRY_OK;
}

static ferry_status
check_communicator(MPI_Comm communicator)
{
    if (communicator == MPI_COMM_NULL)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "create a ferry_mpi: the communicator is MPI_COMM_NULL");
    int is_inter = 0;
    int code = MPI_Comm_test_inter(communicator, &is_inter);
    if (code != MPI_SUCCESS)
        return ferryi_mpi_fail_by_mpi(code, "create a ferry_mpi");
    if (is_inter)
        return ferryi_mpi_fail(FERRY_ERROR_UNSUPPORTED,
                               "create a ferry_mpi: the communicator is an intercommunicator");
    return FERRY_OK;
}

/* Every rank takes part, also one whose own step failed. */
static ferry_status
agree_on_chunks(ferry_mpi *mpi)
{
    unsigned long long smallest = mpi->chunk_bytes;
    int code = MPI_Comm_rank(mpi->communicator, &mpi->rank);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(mpi->communicator, &mpi->size);
    if (code == MPI_SUCCESS)
        code = MPI_Allreduce(MPI_IN_PLACE, &smallest, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN,
                             mpi->communicator);
    if (code != MPI_SUCCESS)
        return ferryi_mpi_fail_by_mpi(code, "create a ferry_mpi");
    mpi->chunk_bytes = (size_t)smallest;
    return FERRY_OK;
}

/* -- device pointers --------------------------------------------------------------------------- */

/* Parts of UCX, a library that carries messages for Open MPI and MPICH, in this process. */
struct ucx {
    bool loaded, loaded_cuda;
};

static int
look_for_ucx(struct dl_phdr_info *info, size_t bytes, void *user)
{
    struct ucx *ucx = user;
    (void)bytes;
    ucx->loaded = ucx->loaded || strstr(info->dlpi_name, "/libucp.so");
    ucx->loaded_cuda = ucx->loaded_cuda || strstr(info->dlpi_name, "/libuct_cuda.so");
    return 0;
}

/* Returns whether MPI accepts pointers to memory of CUDA devices. Open MPI answers for its own
 * build, but UCX may have been built without CUDA, and then takes such pointers for host memory. It
 * has loaded its part for CUDA by the time that MPI is initialized. */
static bool
is_cuda_aware(void)
{
    bool says_so = false;
    struct ucx ucx = {.loaded = false};
#ifdef MPIX_CUDA_AWARE_SUPPORT
    says_so = MPIX_Query_cuda_support() == 1;
#endif
    if (says_so)
        dl_iterate_phdr(look_for_ucx, &ucx);
    return says_so && (!ucx.loaded || ucx.loaded_cuda);
}

ferry_status
ferry_mpi_create(ferry_context *context, MPI_Comm communicator, const ferry_mpi_options *options,
                 ferry_mpi **out)
{
    static const ferry_mpi_options defaults;
    if (!options)
        options = &defaults;
    if (!context || !out)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a ferry_mpi: %s is NULL",
                               context ? "out" : "the context");
    ferry_status status = check_initialized();
    if (status == FERRY_OK)
        status = check_options(options);
    if (status == FERRY_OK)
        status = check_communicator(communicator);
    if (status != FERRY_OK)
        return status;

    ferry_mpi *mpi = calloc(1, sizeof(*mpi));
    if (!mpi)
        return ferryi_mpi_fail(FERRY_ERROR_OUT_OF_MEMORY, "create a ferry_mpi: no memory");
    mpi->context = context;
    mpi->path = options->path;
    mpi->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES_DEFAULT;
    mpi->guarded_rows = options->guarded_rows ? options->guarded_rows : GUARDED_ROWS_DEFAULT;
    mpi->window = options->chunk_count ? options->chunk_count : CHUNK_COUNT_DEFAULT;
    mpi->cuda_aware = is_cuda_aware();
    int code = MPI_Comm_dup(communicator, &mpi->communicator);
    if (code != MPI_SUCCESS) {
        free(mpi);
        return ferryi_mpi_fail_by_mpi(code, "create a ferry_mpi: duplicate the communicator");
    }
    MPI_Comm_set_errhandler(mpi->communicator, MPI_ERRORS_RETURN);
    status = agree_on_chunks(mpi);
    if (status != FERRY_OK) {
        MPI_Comm_free(&mpi->communicator);
        free(mpi);
        return status;
    }
    *out = mpi;
    return FERRY_OK;
}

void
ferry_mpi_destroy(ferry_mpi **mpi)
{
    if (!mpi || !*mpi)
        return;
    if (!is_finalized())
        MPI_Comm_free(&(*mpi)->communicator);
    while ((*mpi)->free_chunks) {
        struct ferryi_mpi_chunk *chunk = (*mpi)->free_chunks;
        (*mpi)->free_chunks = chunk->next;
        free_chunk(*mpi, chunk);
    }
    destroy_streams(*mpi);
    free(*mpi);
    *mpi = NULL;
}

int
ferry_mpi_rank(const ferry_mpi *mpi)
{
    return mpi ? mpi->rank : -1;
}

int
ferry_mpi_size(const ferry_mpi *mpi)
{
    return mpi ? mpi->size : 0;
}

size_t
ferry_mpi_chunk_bytes(const ferry_mpi *mpi)
{
    return mpi ? mpi->chunk_bytes : 0;
}

bool
ferry_mpi_uses_device_pointers(const ferry_mpi *mpi, int place)
{
    ferry_place_info info;
    if (!mpi || place < 1 || ferry_context_get_place_info(mpi->context, place, &info) != FERRY_OK)
        return false;
    if (mpi->path != FERRY_MPI_PATH_AUTO)
        return mpi->path == FERRY_MPI_PATH_DEVICE;
    return mpi->cuda_aware && strcmp(info.kind, "cuda") == 0;
}
