/* SPDX-License-Identifier: MIT */
#ifndef FERRY_MPI_H
#define FERRY_MPI_H

/**
 * @file
 * Sends and receives ranges of buffers with MPI. This is the header of the library ferry-mpi, which
 * uses only public functions of Ferry and of MPI 3.1.
 *
 * How MPI accesses the bytes of a range:
 * - If the range is current in host memory, MPI reads and writes that memory. Nothing is copied.
 * - If the range is on a device and MPI accepts device pointers, MPI gets the device pointer.
 * - Otherwise the range is sent in chunks of page-locked memory. While MPI transfers one chunk, the
 *   next one is copied from or to the device.
 * - A range of several rows with gaps between them is always sent in chunks.
 * In all cases only the bytes of the range are copied between host and device.
 *
 * Every message is split into chunks of the same size on all ranks, so the two ranks of a message
 * may access their ranges in different ways. docs/with-mpi.md describes the messages that MPI sees.
 *
 * Threads: only one thread at a time may call functions on a ferry_mpi and its requests. The
 * functions make all MPI calls on the calling thread, so the thread level of MPI_Init_thread()
 * applies to them. Inside a callback of Ferry only ferry_mpi_last_error(), ferry_mpi_rank(),
 * ferry_mpi_size() and ferry_mpi_plan() may be called.
 *
 * "The usual statuses" are FERRY_OK and those of the next list. An MPI error is returned as a
 * status, even if the program's own communicator aborts on errors, and the message contains MPI's
 * text.
 * - FERRY_ERROR_INVALID_ARGUMENT: an argument is NULL, a range is invalid, or MPI rejects an
 *   argument, such as a rank, a tag, a root, an operation or a type.
 * - FERRY_ERROR_OUT_OF_RANGE: the range ends after the end of its buffer, or the message of the
 *   other rank has another size. In the second case the receiver takes the whole message, and
 *   drops what it has no room for, so that its sender does not wait. This needs an MPI whose status
 *   of a truncated message has the length of the message, as that of Open MPI does; with another
 *   one the sender of several chunks may wait forever.
 * - FERRY_ERROR_WRONG_TYPE, FERRY_ERROR_WRONG_CONTEXT, FERRY_ERROR_BUSY, FERRY_ERROR_OVERFLOW,
 *   FERRY_ERROR_OUT_OF_MEMORY, FERRY_ERROR_DEVICE_LOST: for the same reasons as functions of
 *   <ferry/buffer.h>.
 * - FERRY_ERROR_INVALID_STATE: MPI is not initialized, or it is finalized. Functions of
 *   <ferry/buffer.h> have further reasons.
 * - FERRY_ERROR_UNSUPPORTED: MPI or Ferry cannot do it.
 * - FERRY_ERROR_DEVICE: a driver call failed, or MPI failed for any other reason.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include <ferry/buffer.h>
#include <ferry/share.h>

FERRY_BEGIN_DECLS

/** Sends and receives messages between buffers of a context, over an MPI communicator. */
typedef struct ferry_mpi ferry_mpi;
/** A set of messages that a program can start any number of times. */
typedef struct ferry_mpi_request ferry_mpi_request;

/** How MPI accesses ranges on devices. The meaning of a value never changes. */
typedef enum ferry_mpi_path {
    FERRY_MPI_PATH_AUTO = 0,   /**< MPI gets device pointers on CUDA devices if
                                    MPIX_Query_cuda_support() reports that it accepts them, and no
                                    UCX without CUDA is loaded; otherwise chunks are used */
    FERRY_MPI_PATH_CHUNKS = 1, /**< chunks are always used */
    FERRY_MPI_PATH_DEVICE = 2  /**< MPI always gets device pointers, because the program knows that
                                    it accepts them; every MPI accepts those of emulated devices */
} ferry_mpi_path;

/** Options of ferry_mpi_create(). NULL, or zero in a field, means the default. */
typedef struct ferry_mpi_options {
    ferry_mpi_path path;
    size_t chunk_bytes;   /**< size of a chunk in bytes, from 4 KiB to 1 GiB; default: 512 KiB. All
                               ranks use the smallest value of any rank */
    uint32_t chunk_count; /**< number of chunks that one message uses at the same time, from 1 to 8;
                               default: 2 */
    uint32_t guarded_rows; /**< largest number of rows with gaps between them that
                               ferry_mpi_request_start() protects; default: 64. Each row costs a
                               scope, and the time grows with the square of the number */
    uint64_t reserved[4];
} ferry_mpi_options;

/**
 * A range of a buffer: `rows` rows of `count` elements each. Element (x, y) of the range is element
 * `offset + y * row_pitch + x` of the buffer. Zero in a field means the default.
 */
typedef struct ferry_mpi_range {
    ferry_buffer *buffer;         /**< the caller keeps it alive during the call */
    const ferry_element *element; /**< element type of the range; NULL: that of the buffer */
    size_t offset;
    size_t count;         /**< number of elements in a row. FERRY_REST means all elements up
                               to the end of the buffer, and is valid only for one row */
    size_t rows;          /**< 0 means 1 */
    size_t row_pitch;     /**< elements from the start of a row to the start of the next, at
                               least `count`; 0 means `count` */
    ferry_stream *stream; /**< a range that is received is written at the place of this
                               stream. NULL: at a place where the range is current; the host
                               is preferred if there are several */
    uint64_t reserved[2];
} ferry_mpi_range;

/** The direction of a message. The meaning of a value never changes. */
typedef enum ferry_mpi_direction {
    FERRY_MPI_SEND = 1,   /**< the message is sent from the range */
    FERRY_MPI_RECEIVE = 2 /**< the message is received, and overwrites every byte of the range */
} ferry_mpi_direction;

/** One message between this rank and another one. */
typedef struct ferry_mpi_message {
    ferry_mpi_direction direction;
    int rank;              /**< the other rank. With MPI_PROC_NULL there is no message, and nothing
                                is copied. MPI_ANY_SOURCE is not valid */
    int tag;               /**< at least 0; MPI_ANY_TAG is not valid */
    ferry_mpi_range range; /**< the range to send or to receive. The range of the other rank has as
                                many elements, of the same size */
    uint64_t reserved[2];
} ferry_mpi_message;

/** How much data a set of messages sends, receives and copies. ferry_mpi_plan() computes it. */
typedef struct ferry_mpi_traffic {
    uint64_t sent_messages; /**< number of messages that MPI sends */
    uint64_t sent_bytes;
    uint64_t received_messages; /**< number of messages that MPI receives */
    uint64_t received_bytes;
    uint64_t chunk_copies; /**< number of copies between the device and chunks, if all ranges
                                are sent in chunks. They copy sent_bytes + received_bytes
                                bytes */
    uint64_t reserved[4];
} ferry_mpi_traffic;

/* -- communicators ----------------------------------------------------------------------------- */

/**
 * Creates an object that sends and receives ranges of buffers of `context`. The caller owns `*out`,
 * and destroys it before the context and before MPI_Finalize().
 *
 * The call is collective: every rank of `communicator` makes it, and it blocks until all ranks
 * have. It duplicates the communicator, so its messages are never mixed up with those of the
 * program. Errors on the duplicate do not abort the program, but are returned as statuses.
 *
 * @param communicator an intracommunicator, not MPI_COMM_NULL
 * @param options may differ between ranks; NULL for defaults
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_ARGUMENT also for
 *         MPI_COMM_NULL, and for a value of `options` outside its range; FERRY_ERROR_UNSUPPORTED
 *         also for an intercommunicator.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_create(ferry_context *context,
                                                        MPI_Comm communicator,
                                                        const ferry_mpi_options *options,
                                                        ferry_mpi **out);

/**
 * Destroys the object and sets `*mpi` to NULL. The program destroys its requests first.
 *
 * The call is collective, because it frees the duplicate of the communicator. After MPI_Finalize()
 * it only frees memory.
 * @param mpi NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_mpi_destroy(ferry_mpi **mpi);

/** Returns the rank of this process; -1 for NULL. Does not block. */
FERRY_API int ferry_mpi_rank(const ferry_mpi *mpi);
/** Returns the number of ranks; 0 for NULL. Does not block. */
FERRY_API int ferry_mpi_size(const ferry_mpi *mpi);
/** Returns the size of a chunk in bytes, which all ranks share; 0 for NULL. Does not block. */
FERRY_API size_t ferry_mpi_chunk_bytes(const ferry_mpi *mpi);
/**
 * Returns true if MPI gets pointers to memory of the device at `place`, and false if chunks are
 * used. Does not block.
 */
FERRY_API bool ferry_mpi_uses_device_pointers(const ferry_mpi *mpi, int place);

/**
 * Returns the message of this thread's last failing call of ferry-mpi; "" before the first failure.
 *
 * ferry_last_error() returns only messages of Ferry itself, and not those of ferry-mpi and MPI. The
 * string is valid until this thread's next failing call of ferry-mpi.
 * @return the message, never NULL. Does not block. Threads: each thread has its own.
 */
FERRY_API const char *ferry_mpi_last_error(void);

/* -- messages ---------------------------------------------------------------------------------- */

/**
 * Sends a range to `rank`. Like MPI_Send(), the call blocks until the range may be changed. It
 * first waits for queued device work that writes the range.
 * @return the usual statuses (see the top of this file). If a copy from the device fails, the other
 *         rank receives a message that is too short, and its call fails with
 *         FERRY_ERROR_OUT_OF_RANGE.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_send(ferry_mpi *mpi, const ferry_mpi_range *range,
                                                      int rank, int tag);

/**
 * Receives a range from `rank`. Blocks until the range has the new values.
 * @return the usual statuses (see the top of this file). After a failure, chunks of the range that
 *         did not arrive have their old values. The others have their new values, or if MPI wrote
 *         the range itself, unspecified ones.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_receive(ferry_mpi *mpi,
                                                         const ferry_mpi_range *range, int rank,
                                                         int tag);

/**
 * Sends one range to rank `to`, and receives another one from rank `from` at the same time. The
 * ranges must not overlap. Blocks until both messages are complete.
 * @return the usual statuses (see the top of this file); if a message failed, the status of the
 *         first one that did.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_sendrecv(ferry_mpi *mpi,
                                                          const ferry_mpi_range *send, int to,
                                                          int send_tag,
                                                          const ferry_mpi_range *receive, int from,
                                                          int receive_tag);

/**
 * Sends and receives any number of messages at the same time, such as all halos of a rank. Blocks
 * until all messages are complete.
 *
 * All messages that are in flight at the same time, between the same two ranks and in the same
 * direction, must have different tags. A range that is received must not overlap with any other
 * range of the call.
 *
 * @param messages may be NULL when `count` is 0
 * @return the usual statuses (see the top of this file); if a message failed, the status of the
 *         first one that did. If the call fails before the first message starts, as with
 *         FERRY_ERROR_BUSY, it sends nothing. After a later failure it still completes the other
 *         messages.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_exchange(ferry_mpi *mpi,
                                                          const ferry_mpi_message *messages,
                                                          size_t count);

/* -- persistent requests ----------------------------------------------------------------------- */

/**
 * Prepares messages that ferry_mpi_request_start() can start any number of times. Does not block.
 * The caller owns `*out`, and destroys it before `mpi`.
 *
 * The request copies `messages`, adds an owner to each buffer, and keeps the page-locked memory of
 * its chunks. It uses a persistent request of MPI for each message whose address is the same at
 * every start.
 * @return the usual statuses (see the top of this file). Conditions that depend on the state of a
 *         buffer are checked at each start.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_create(ferry_mpi *mpi,
                                                                const ferry_mpi_message *messages,
                                                                size_t count,
                                                                ferry_mpi_request **out);

/**
 * Starts the messages of a request. Blocks only while the first chunks are copied from the device,
 * and while queued work uses a range that is on the host.
 *
 * Until the messages are complete, ranges that are sent must not be written, and ranges that are
 * received must not be used. Between the calls on the request, scopes that Ferry holds open protect
 * the ranges, so a use that conflicts fails with FERRY_ERROR_BUSY, on the host and on any stream.
 * Two uses are not noticed:
 * - While ferry_mpi_request_test() or ferry_mpi_request_wait() copies a chunk, no scope is open on
 *   the range that it belongs to, so another thread may open one. If the message then copies a
 *   chunk to the same bytes, it fails with FERRY_ERROR_BUSY.
 * - A range of more rows with gaps than ferry_mpi_options.guarded_rows is not protected, if it is
 *   sent in chunks.
 *
 * Messages of several chunks make progress only inside ferry_mpi_request_test() and
 * ferry_mpi_request_wait().
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_STATE also when the
 *         request is already started. If the call fails, it has sent nothing.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_start(ferry_mpi_request *request);

/**
 * Sets `*out_done` to true if all messages of the last start are complete, else to false. The call
 * also continues those messages that can make progress. It does not wait for other ranks.
 * @return FERRY_OK while messages are not complete, and for a request that was not started; after
 *         that the same statuses as ferry_mpi_exchange().
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_test(ferry_mpi_request *request,
                                                              bool *out_done);

/**
 * Blocks until all messages of the last start are complete.
 * @return the same statuses as ferry_mpi_exchange(); FERRY_OK for a request that was not started.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_request_wait(ferry_mpi_request *request);

/**
 * Destroys a request and sets `*request` to NULL. Blocks until its messages are complete.
 * @param request NULL and a pointer to NULL have no effect
 */
FERRY_API void ferry_mpi_request_destroy(ferry_mpi_request **request);

/**
 * Computes how much data messages would send, receive and copy, without sending them. The call uses
 * neither MPI nor the buffers, so a program can compute it for any number of ranks. Does not block.
 *
 * @param messages each range has an element, a count that is not FERRY_REST, and any buffer or NULL
 * @param chunk_bytes as ferry_mpi_options.chunk_bytes
 * @return FERRY_OK; FERRY_ERROR_INVALID_ARGUMENT (NULL, or an invalid message or chunk size);
 *         FERRY_ERROR_OVERFLOW (a size exceeds size_t).
 * Threads: any.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_plan(const ferry_mpi_message *messages,
                                                      size_t count, size_t chunk_bytes,
                                                      ferry_mpi_traffic *out);

/* -- collectives ------------------------------------------------------------------------------- */

/*
 * All ranks call these functions in the same order, with equal counts and elements of equal size.
 * The places of the ranges may differ. Each call blocks until this rank's range is complete.
 */

/**
 * Replaces the range on every rank by the combination of the ranges of all ranks.
 *
 * @param operation an MPI operation that is valid for the MPI type of the elements, see
 *         ferry_mpi_create_datatype(). For structs that is an operation of the program
 * @return the usual statuses (see the top of this file); FERRY_ERROR_UNSUPPORTED also for half and
 *         bfloat16, for which MPI has no type; nothing was sent then.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_allreduce(ferry_mpi *mpi,
                                                           const ferry_mpi_range *range,
                                                           MPI_Op operation);

/**
 * Copies the range of `root` into the ranges of all other ranks.
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_broadcast(ferry_mpi *mpi,
                                                           const ferry_mpi_range *range, int root);

/**
 * Copies the ranges of all ranks into `target` on every rank, one after another in the order of the
 * ranks.
 * @param target has as many elements as all sources together, in one row
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_allgather(ferry_mpi *mpi,
                                                           const ferry_mpi_range *source,
                                                           const ferry_mpi_range *target);

/**
 * Copies the ranges of all ranks into `target` on the rank `root`, one after another in the order
 * of the ranks.
 * @param target ignored on other ranks, where it may be NULL
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_gather(ferry_mpi *mpi,
                                                        const ferry_mpi_range *source,
                                                        const ferry_mpi_range *target, int root);

/**
 * Splits `source` on the rank `root` into equal parts, one for each rank, and copies part r into
 * `target` on rank r.
 * @param source has as many elements as all targets together, in one row; ignored on other ranks,
 *         where it may be NULL
 * @return the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_scatter(ferry_mpi *mpi,
                                                         const ferry_mpi_range *source,
                                                         const ferry_mpi_range *target, int root);

/* -- shared memory ----------------------------------------------------------------------------- */

/*
 * Ranks of one machine can use the same memory instead of sending messages, see <ferry/share.h>. A
 * job on several machines creates a ferry_mpi for the ranks of each one, with a communicator of
 * MPI_Comm_split_type(). Where memory cannot be shared, the program sends messages.
 */

/** Stands for several ranks in ferry_mpi_hand_over(). It is the number of no rank in any MPI. */
#define FERRY_MPI_OTHERS INT_MIN

/**
 * Gives all ranks a buffer with the memory of the buffer `source` of the rank `root`. On the other
 * ranks the call imports it, as ferry_buffer_import() does. These own `*out`, which is not
 * acquired.
 *
 * All ranks call the function, in the order of their collectives. It blocks until all have
 * imported the buffer or failed to. Each rank gets its own status, and those that succeeded keep
 * the buffer if others failed. But if `root` fails, all ranks fail with its status and its text.
 * If the root has no buffer to share, it passes NULL, so that no rank waits for it.
 * @param element ignored on the root, as `options` and `out`, where they may be NULL
 * @param source a buffer with FERRY_MEMORY_SHARED; ignored on other ranks, where it may be NULL
 * @param options may differ between ranks; NULL for defaults
 * @return the statuses of ferry_buffer_export() on the root, and of ferry_buffer_import() on the
 *         others: FERRY_ERROR_UNSUPPORTED when a rank cannot use the memory, as on another machine;
 *         the usual statuses (see the top of this file).
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_share(ferry_mpi *mpi, const ferry_element *element,
                                                       ferry_buffer *source, int root,
                                                       const ferry_share_options *options,
                                                       ferry_buffer **out);

/**
 * Hands a shared buffer over. Rank `from` releases it, and then rank `to` acquires it. With
 * FERRY_MPI_OTHERS as `to`, all ranks but `from` acquire it; they must be read-only imports. With
 * FERRY_MPI_OTHERS as `from`, all ranks but `to` release it, and `to` waits for each of them.
 *
 * Ranks that hand the buffer over or get it call the function; on other ranks it has no effect.
 * Ranks that get it block until it was released, those that hand it over only as
 * ferry_buffer_release_shared(), and as MPI_Send() of an empty message. With MPI_PROC_NULL as
 * `from` or `to` the call has no effect.
 * @param stream as in ferry_buffer_acquire_shared() and ferry_buffer_release_shared(). Each rank
 *         passes its own
 * @param buffer the buffer that this rank shared or imported; ignored where the call has no effect
 * @param tag as that of ferry_mpi_message, whose messages must not have the same tag meanwhile
 * @return on ranks that hand over, the statuses of ferry_buffer_release_shared(); on ranks that get
 *         the buffer, those of ferry_buffer_acquire_shared(). FERRY_ERROR_INVALID_ARGUMENT also for
 *         ranks that do not exist, and if `from` equals `to`; the usual statuses (see the top of
 *         this file). If a rank fails to release the buffer, the ranks that get it fail with its
 *         status and its text, and do not acquire it.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_hand_over(ferry_mpi *mpi, ferry_stream *stream,
                                                           ferry_buffer *buffer, int from, int to,
                                                           int tag);

/* -- types ------------------------------------------------------------------------------------- */

/**
 * Creates an MPI datatype for an element type, for the program's own MPI calls. The caller frees it
 * with MPI_Type_free(). Does not block.
 *
 * The datatype of a scalar is the MPI type of the same kind and size; for half and bfloat16 it is
 * two bytes. The datatype of a struct has the fields at their offsets, and the size of the struct
 * as its extent. For a struct without described fields it consists of bytes. The datatype is
 * already committed.
 *
 * The functions of this file do not need it. They send structs as bytes, including the padding,
 * because that is faster, and both ranks have the same element type.
 * @return the usual statuses (see the top of this file); FERRY_ERROR_INVALID_ARGUMENT also for an
 *         invalid element.
 */
FERRY_API FERRY_NODISCARD ferry_status ferry_mpi_create_datatype(const ferry_element *element,
                                                                 MPI_Datatype *out);

FERRY_END_DECLS

#endif
