/* SPDX-License-Identifier: MIT */
#ifndef FERRY_MPI_H
#define FERRY_MPI_H

/**
 * @file
 * Messages of MPI from and into ranges of buffers. This is the header of the library ferry-mpi,
 * which uses only public functions of Ferry, and of MPI 3.1.
 *
 * How the bytes of a range travel:
 * - When a range is current in host memory, MPI reads and writes that memory. Nothing is copied.
 * - When a range is on a device and MPI accepts device pointers, MPI gets the device pointer.
 * - Otherwise the range goes through chunks of page-locked memory. A chunk is copied from or to the
 *   device while MPI transfers its neighbours.
 * A strided range always goes through chunks. Only bytes of the range cross in any case.
 *
 * Every message is split into chunks of the same size on all ranks, so each rank chooses its way
 * alone. docs/with-mpi.md describes the messages that MPI sees.
 *
 * Threads: a ferry_mpi and its requests serve one call at a time. All calls of MPI are made on the
 * calling thread, so the thread level of MPI_Init_thread() applies to the functions of this file.
 * No function may be called in a callback of Ferry, except ferry_mpi_last_error(), ferry_mpi_rank(),
 * ferry_mpi_size() and ferry_mpi_plan().
 *
 * Statuses: "the usual statuses" are FERRY_OK and those of the next list. An error of MPI becomes a
 * status, also when the program's own communicator aborts on errors. The message has MPI's text.
 * - FERRY_ERROR_INVALID_ARGUMENT: NULL, a wrong range, or arguments that MPI rejects, such as a
 *   rank, a tag, a root, an operation or a type.
 * - FERRY_ERROR_OUT_OF_RANGE: the range is past the end of its buffer, or the message of the other
 *   rank has another size. After the second, the rest of a message of several chunks is never
 *   received: its sender may wait, and later messages of this rank and tag are unspecified.
 * - FERRY_ERROR_WRONG_TYPE, FERRY_ERROR_WRONG_CONTEXT, FERRY_ERROR_BUSY, FERRY_ERROR_OVERFLOW,
 *   FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE_LOST: as the calls of <ferry/buffer.h>.
 * - FERRY_ERROR_INVALID_STATE: MPI is not initialized, or it is finalized. Also as the calls of
 *   <ferry/buffer.h>.
 * - FERRY_ERROR_UNSUPPORTED: MPI or Ferry cannot do it.
 * - FERRY_ERROR_DEVICE: the device or the network failed. Every other error of MPI has this status.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include <ferry/buffer.h>

FERRY_BEGIN_DECLS

/** A communicator of MPI and a context of Ferry, which exchange messages. */
typedef struct ferry_mpi ferry_mpi;
/** Messages that are started together, any number of times. */
typedef struct ferry_mpi_request ferry_mpi_request;

/** How ranges on devices reach MPI. A value never changes its meaning. */
typedef enum ferry_mpi_path {
    FERRY_MPI_PATH_AUTO = 0,   /**< device pointers on CUDA devices when MPI reports support
                                    (MPIX_Query_cuda_support()), else chunks */
    FERRY_MPI_PATH_CHUNKS = 1, /**< always chunks */
    FERRY_MPI_PATH_DEVICE = 2  /**< always device pointers: the program knows that MPI accepts them,
                                    as every MPI accepts those of emulated devices */
} ferry_mpi_path;

/** Options of ferry_mpi_create(). NULL, or zero in a field, means the default. */
typedef struct ferry_mpi_options {
    ferry_mpi_path path;
    size_t chunk_bytes;   /**< size of a chunk: at least 4 KiB, at most 1 GiB, default 512 KiB. The
                               ranks use the smallest value of all ranks */
    uint32_t chunk_count; /**< chunks of one message that are in use at once: 1 to 8, default 2 */
    uint64_t reserved[4];
} ferry_mpi_options;

/**
 * Elements of a buffer: `rows` rows of `count` elements. Element (x, y) is element
 * `offset + y * row_pitch + x` of the buffer. Zero in a field means the default.
 */
typedef struct ferry_mpi_range {
    ferry_buffer *buffer;         /**< the caller keeps it alive during the call */
    const ferry_element *element; /**< NULL: the element of the buffer */
    size_t offset;
    size_t count;                 /**< FERRY_REST: up to the end, valid only for one row */
    size_t rows;                  /**< 0 means 1 */
    size_t row_pitch;             /**< distance of two rows, at least `count`; 0: `count` */
    ferry_stream *stream;         /**< a range that is written lands at this stream's place. NULL:
                                       where the range is current, the host on a tie */
    uint64_t reserved[2];
} ferry_mpi_range;

/** The direction of a message. A value never changes its meaning. */
typedef enum ferry_mpi_direction {
    FERRY_MPI_SEND = 1,   /**< the range is read */
    FERRY_MPI_RECEIVE = 2 /**< every byte of the range is overwritten */
} ferry_mpi_direction;

/** One message. */
typedef struct ferry_mpi_message {
    ferry_mpi_direction direction;
    int rank;              /**< the other rank. MPI_PROC_NULL: there is no message, and nothing is
                                copied. MPI_ANY_SOURCE is not valid */
    int tag;               /**< at least 0; MPI_ANY_TAG is not valid */
    ferry_mpi_range range; /**< as many elements as the range of the other rank, of the same size */
    uint64_t reserved[2];
} ferry_mpi_message;

/** What messages cost. ferry_mpi_plan() computes it. */
typedef struct ferry_mpi_traffic {
    uint64_t sent_messages;     /**< messages that MPI sends */
    uint64_t sent_bytes;
    uint64_t received_messages; /**< messages that MPI receives */
    uint64_t received_bytes;
    uint64_t chunk_copies;      /**< copies between the device and chunks, when the ranges go through
                                     chunks; their bytes are sent_bytes + received_bytes */
    uint64_t reserved[4];
} ferry_mpi_traffic;

/* -- communicators ----------------------------------------------------------------------------- */

/**
 * Creates the object that sends and receives ranges of buffers of `context`.
 *
 * Collective: every rank of `communicator` calls it. The call duplicates the communicator, so that
 * its messages never meet those of the program. Errors on the duplicate return. The caller owns
 * `*out` and destroys it before the context and before MPI_Finalize(). Blocks until all ranks call.
 *
 * @param communicator an intracommunicator, not MPI_COMM_NULL
 * @param options may differ between ranks; NULL for defaults
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for MPI_COMM_NULL and for values of
 *         `options` outside their bounds; FERRY_ERROR_UNSUPPORTED also for an intercommunicator.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_create(ferry_context *context, MPI_Comm communicator,
                                                        const ferry_mpi_options *options, ferry_mpi **out);

/**
 * Destroys the object and sets `*mpi` to NULL. Its requests are destroyed before it.
 *
 * Collective, because it frees the duplicate of the communicator. After MPI_Finalize() it only
 * frees memory.
 * @param mpi NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_mpi_destroy(ferry_mpi **mpi);

/** Returns the rank of the caller; -1 for NULL. Does not block. */
FERRY_API int ferry_mpi_rank(const ferry_mpi *mpi);
/** Returns the number of ranks; 0 for NULL. Does not block. */
FERRY_API int ferry_mpi_size(const ferry_mpi *mpi);
/** Returns the size of a chunk in bytes, which all ranks share; 0 for NULL. Does not block. */
FERRY_API size_t ferry_mpi_chunk_bytes(const ferry_mpi *mpi);
/** Returns true when MPI gets pointers of the device at `place`. Does not block. */
FERRY_API bool ferry_mpi_uses_device_pointers(const ferry_mpi *mpi, int place);

/**
 * Returns the message of this thread's last failing call of ferry-mpi; "" before the first failure.
 *
 * ferry_last_error() returns only messages of Ferry itself, so it does not have those of MPI. The
 * string is valid until this thread's next failing call of ferry-mpi.
 * @return the message, never NULL. Does not block. Threads: each thread has its own.
 */
FERRY_API const char *ferry_mpi_last_error(void);

/* -- messages ---------------------------------------------------------------------------------- */

/**
 * Sends a range to `rank`. Blocks as MPI_Send(): until the range may be changed.
 *
 * Work that is queued on the device and writes the range is waited for.
 * @return the usual statuses. When a copy from the device fails, the other rank gets a short
 *         message and fails with FERRY_ERROR_OUT_OF_RANGE.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_send(ferry_mpi *mpi, const ferry_mpi_range *range, int rank, int tag);

/**
 * Receives a range from `rank`. Blocks until the range has the new values.
 * @return the usual statuses. After a failure each chunk of the range has its old or its new
 *         values, or unspecified ones.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_receive(ferry_mpi *mpi, const ferry_mpi_range *range, int rank, int tag);

/**
 * Sends one range to rank `to` and receives another one from rank `from`, both at once.
 * The ranges must not overlap. Blocks until both messages are complete.
 * @return the usual statuses, of the first message that failed.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_sendrecv(ferry_mpi *mpi, const ferry_mpi_range *send, int to, int send_tag,
                                                          const ferry_mpi_range *receive, int from, int receive_tag);

/**
 * Exchanges any number of messages at once, such as all halos of a rank. Blocks until all are
 * complete.
 *
 * Messages of one direction between the same two ranks have different tags. That applies to all
 * messages that are under way at the same time. Ranges that are received must not overlap with any
 * other range of the call.
 *
 * @param messages may be NULL when `count` is 0
 * @return the usual statuses, of the first message that failed. A failure that is found before the
 *         first message starts, such as FERRY_ERROR_BUSY, sends nothing. After a later failure the
 *         call still completes the other messages.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_exchange(ferry_mpi *mpi, const ferry_mpi_message *messages, size_t count);

/* -- persistent requests ----------------------------------------------------------------------- */

/**
 * Prepares messages that ferry_mpi_request_start() starts again and again. Does not block.
 *
 * The request copies `messages`, adds an owner to each buffer, and keeps its chunks of page-locked
 * memory. MPI's persistent requests serve each message whose address is the same at every start.
 * The caller owns `*out`, and destroys it before `mpi`.
 * @return the usual statuses. What depends on the content of a buffer is checked at each start.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_create(ferry_mpi *mpi, const ferry_mpi_message *messages,
                                                                size_t count, ferry_mpi_request **out);

/**
 * Starts the messages. Blocks only while the first chunks are copied from the device.
 *
 * Until the messages are complete, the ranges that are sent must not be written, and those that are
 * received must not be used. Ranges that MPI accesses itself are open scopes meanwhile, and a range
 * that is sent is open for reading: such a use fails with FERRY_ERROR_BUSY. Larger messages go on
 * only inside ferry_mpi_request_test() and ferry_mpi_request_wait().
 * @return the usual statuses; FERRY_ERROR_INVALID_STATE also when the request is started already.
 *         After a failure nothing was sent.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_start(ferry_mpi_request *request);

/**
 * Sets `*out_done` to whether all messages of the last start are complete, and continues those that
 * can continue. Does not wait for other ranks.
 * @return FERRY_OK while they are not complete, then as ferry_mpi_exchange(). A request that is not
 *         started is complete.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_test(ferry_mpi_request *request, bool *out_done);

/**
 * Blocks until all messages of the last start are complete.
 * @return as ferry_mpi_exchange(); FERRY_OK for a request that is not started.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_wait(ferry_mpi_request *request);

/**
 * Destroys a request and sets `*request` to NULL. Blocks until its messages are complete.
 * @param request NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_mpi_request_destroy(ferry_mpi_request **request);

/**
 * Adds up what messages cost, without sending them: neither MPI nor a buffer is used. So a program
 * can count for any number of ranks.
 *
 * @param messages each range has an element, a count that is not FERRY_REST, and any buffer or NULL
 * @param chunk_bytes as ferry_mpi_options.chunk_bytes
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT; FERRY_ERROR_OVERFLOW. Does not block.
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_plan(const ferry_mpi_message *messages, size_t count, size_t chunk_bytes,
                                                      ferry_mpi_traffic *out);

/* -- collectives ------------------------------------------------------------------------------- */

/*
 * All ranks call the same function with equal counts and elements of equal size, in the same order.
 * The places of the ranges may differ. Each call blocks until the range of the caller is complete.
 */

/**
 * Replaces the range on every rank by the combination of the ranges of all ranks.
 *
 * @param operation an operation of MPI that suits the element's type, see
 *         ferry_mpi_create_datatype(); for structs an operation of the program
 * @return the usual statuses; FERRY_ERROR_UNSUPPORTED also for elements that MPI has no type for:
 *         half, bfloat16. Then nothing was sent.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_allreduce(ferry_mpi *mpi, const ferry_mpi_range *range, MPI_Op operation);

/**
 * Copies the range of `root` into the ranges of all other ranks.
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_broadcast(ferry_mpi *mpi, const ferry_mpi_range *range, int root);

/**
 * Copies the range of each rank into `target` on all ranks, one after another in the order of ranks.
 * @param target has as many elements as all sources together, in one row
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_allgather(ferry_mpi *mpi, const ferry_mpi_range *source,
                                                           const ferry_mpi_range *target);

/**
 * Copies the range of each rank into `target` of `root`, as ferry_mpi_allgather().
 * @param target ignored on other ranks, where it may be NULL
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_gather(ferry_mpi *mpi, const ferry_mpi_range *source,
                                                        const ferry_mpi_range *target, int root);

/**
 * Splits `source` of `root` into equal parts, one for each rank, and copies part r into the target
 * of rank r.
 * @param source has as many elements as all targets together, in one row; ignored on other ranks,
 *         where it may be NULL
 * @return the usual statuses.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_scatter(ferry_mpi *mpi, const ferry_mpi_range *source,
                                                         const ferry_mpi_range *target, int root);

/* -- types ------------------------------------------------------------------------------------- */

/**
 * Creates a datatype of MPI for an element, for the program's own calls of MPI. Does not block.
 *
 * A scalar has the type of MPI with its kind and size. Half and bfloat16 have two bytes. A struct
 * has its fields at their offsets and the extent of the element; without fields it has its bytes.
 * The type is committed. The caller frees it with MPI_Type_free().
 *
 * Messages of this file do not need it: they move the bytes of structs, padding included, because
 * that is faster and both sides have the same element.
 * @return the usual statuses; FERRY_ERROR_INVALID_ARGUMENT also for an invalid element.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_create_datatype(const ferry_element *element, MPI_Datatype *out);

FERRY_END_DECLS

#endif
