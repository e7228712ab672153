/* SPDX-License-Identifier: MIT */
#include "mpi/internal.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Messages. Each is split into chunks of equal size, and each chunk is one message of MPI. The last
 * one is shorter than the others, and empty when the bytes of the range are a multiple of the chunk
 * size. So a receiver notices when a sender has less to send than it expects, and a sender that
 * fails ends its message early. A receiver that expects less than is sent gets a chunk that is too
 * long for its last one. If that was a full chunk, it receives and drops the rest of the message,
 * because the sender waits until every chunk is received.
 */

/* One message during a start. Its window has mpi->window places for chunks, used in turn. */
struct transfer {
    ferry_mpi_message message;
    struct ferryi_mpi_side side;
    struct ferryi_mpi_guard guard; /* of a range that goes through chunks */
    size_t chunk_elements, chunks; /* chunks: messages of MPI */
    size_t posted, finished;       /* of the chunks, in order */
    struct ferryi_mpi_chunk *memory[FERRYI_MPI_CHUNKS_LIMIT];
    bool arrived[FERRYI_MPI_CHUNKS_LIMIT];       /* MPI has completed the chunk at this place of the
                                                    window */
    int codes[FERRYI_MPI_CHUNKS_LIMIT];          /* and how */
    int counts[FERRYI_MPI_CHUNKS_LIMIT];         /* and with how many bytes */
    char *kept_pointer[FERRYI_MPI_CHUNKS_LIMIT]; /* what the persistent request of MPI is for */
    size_t kept_bytes[FERRYI_MPI_CHUNKS_LIMIT];
    bool kept[FERRYI_MPI_CHUNKS_LIMIT];
    bool packed; /* the first chunk was copied from the range */
    bool waits;  /* the message has arrived, and is copied into the range when all have */
    bool drops;  /* chunks from now on are more than the range has room for */
    ferry_status status;
};

struct ferry_mpi_request {
    ferry_mpi *mpi;
    size_t count;
    struct transfer *transfers;
    MPI_Request *pending; /* `window` for each transfer */
    MPI_Status *statuses; /* scratch of the next two calls of MPI, as `indices` */
    int *indices;
    ferry_copy_region *regions; /* FERRYI_MPI_REGIONS for each transfer */
    bool persistent, started;
    ferry_status status; /* of the first message that failed */
    char *text;          /* its error; NULL when none is kept */
};

/* -- counting ---------------------------------------------------------------------------------- */

static size_t
chunk_elements_of(size_t element_bytes, size_t chunk_bytes)
{
    return element_bytes < chunk_bytes ? chunk_bytes / element_bytes : 1;
}

/* A multiple of the chunk, and no element at all, end with an empty message. */
static size_t
chunks_of(size_t elements, size_t chunk_elements)
{
    return elements / chunk_elements + 1;
}

static ferry_status
add_traffic(const ferry_mpi_message *message, size_t chunk_bytes, ferry_mpi_traffic *traffic)
{
    static const char what[] = "plan messages";
    const ferry_mpi_range *range = &message->range;
    if (!range->element || range->element->bytes == 0 || range->count == FERRY_REST)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: a range has no %s", what,
                               range->count == FERRY_REST ? "count" : "element");
    if (message->direction != FERRY_MPI_SEND && message->direction != FERRY_MPI_RECEIVE)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: there is no direction %d", what,
                               (int)message->direction);
    size_t bytes = range->element->bytes, rows = range->rows ? range->rows : 1;
    if (range->count > SIZE_MAX / rows || range->count * rows > SIZE_MAX / bytes)
        return ferryi_mpi_fail(FERRY_ERROR_OVERFLOW, "%s: %zu rows of %zu elements of %zu bytes",
                               what, rows, range->count, bytes);
    if (message->rank == MPI_PROC_NULL)
        return FERRY_OK;
    size_t elements = range->count * rows, chunk_elements = chunk_elements_of(bytes, chunk_bytes);
    size_t chunks = chunks_of(elements, chunk_elements);
    bool sends = message->direction == FERRY_MPI_SEND;
    *(sends ? &traffic->sent_messages : &traffic->received_messages) += chunks;
    *(sends ? &traffic->sent_bytes : &traffic->received_bytes) += elements * bytes;
    traffic->chunk_copies += (elements + chunk_elements - 1) / chunk_elements;
    return FERRY_OK;
}

ferry_status
ferry_mpi_plan(const ferry_mpi_message *messages, size_t count, size_t chunk_bytes,
               ferry_mpi_traffic *out)
{
    ferry_mpi_traffic traffic = {0};
    if (!out || (count > 0 && !messages) || chunk_bytes == 0)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "plan messages: %s",
                               chunk_bytes == 0 ? "chunks of 0 bytes" : "an argument is NULL");
    for (size_t i = 0; i < count; i++) {
        ferry_status status = add_traffic(&messages[i], chunk_bytes, &traffic);
        if (status != FERRY_OK)
            return status;
    }
    *out = traffic;
    return FERRY_OK;
}

/* -- one message ------------------------------------------------------------------------------- */

/* Keeps the first failure, whose text is that of ferry_mpi_last_error(). */
static void
note_failure(ferry_mpi_request *request, struct transfer *transfer, ferry_status status)
{
    transfer->status = transfer->status == FERRY_OK ? status : transfer->status;
    if (request->status == FERRY_OK) {
        request->status = status;
        request->text = strdup(ferry_mpi_last_error()); /* NULL: the message is a shorter one */
    }
}

static void
describe(const ferry_mpi *mpi, const struct transfer *transfer, char *text, size_t bytes)
{
    bool sends = transfer->message.direction == FERRY_MPI_SEND;
    snprintf(text, bytes, "%s %zu elements %s rank %d of %d, tag %d", sends ? "send" : "receive",
             transfer->side.elements, sends ? "to" : "from", transfer->message.rank, mpi->size,
             transfer->message.tag);
}

static void
note_mpi_failure(ferry_mpi_request *request, struct transfer *transfer, int code)
{
    char what[128];
    describe(request->mpi, transfer, what, sizeof(what));
    note_failure(request, transfer, ferryi_mpi_fail_by_mpi(code, what));
}

static MPI_Request *
pending_of(ferry_mpi_request *request, const struct transfer *transfer)
{
    return request->pending + (size_t)(transfer - request->transfers) * request->mpi->window;
}

static size_t
chunk_length(const struct transfer *transfer, size_t chunk)
{
    size_t begin = chunk * transfer->chunk_elements;
    if (begin >= transfer->side.elements)
        return 0;
    size_t left = transfer->side.elements - begin;
    return left < transfer->chunk_elements ? left : transfer->chunk_elements;
}

/* Makes sure that a place of the window has memory for `bytes` bytes. */
static ferry_status
take_chunk(ferry_mpi_request *request, struct transfer *transfer, size_t at, size_t bytes)
{
    struct ferryi_mpi_chunk **memory = &transfer->memory[at];
    if (*memory && (*memory)->bytes < bytes) /* such as when the buffer grew between two starts */
        ferryi_mpi_chunk_give(request->mpi, memory);
    return *memory ? FERRY_OK : ferryi_mpi_chunk_take(request->mpi, bytes, memory);
}

/* Starts the message of MPI for one chunk. */
static int
start_chunk(ferry_mpi_request *request, struct transfer *transfer, size_t at, char *pointer,
            size_t bytes)
{
    const ferry_mpi_message *message = &transfer->message;
    MPI_Comm communicator = request->mpi->communicator;
    MPI_Request *pending = &pending_of(request, transfer)[at];
    bool sends = message->direction == FERRY_MPI_SEND;
    if (transfer->kept[at] && transfer->kept_pointer[at] == pointer &&
        transfer->kept_bytes[at] == bytes)
        return MPI_Start(pending);
    if (transfer->kept[at]) {
        transfer->kept[at] = false;
        MPI_Request_free(pending);
    }
    /* Addresses differ from chunk to chunk where MPI reads a large range itself. */
    if (!request->persistent || (transfer->side.pointer && transfer->chunks > request->mpi->window))
        return sends ? MPI_Isend(pointer, (int)bytes, MPI_BYTE, message->rank, message->tag,
                                 communicator, pending)
                     : MPI_Irecv(pointer, (int)bytes, MPI_BYTE, message->rank, message->tag,
                                 communicator, pending);
    int code = sends ? MPI_Send_init(pointer, (int)bytes, MPI_BYTE, message->rank, message->tag,
                                     communicator, pending)
                     : MPI_Recv_init(pointer, (int)bytes, MPI_BYTE, message->rank, message->tag,
                                     communicator, pending);
    if (code != MPI_SUCCESS)
        return code;
    transfer->kept[at] = true;
    transfer->kept_pointer[at] = pointer;
    transfer->kept_bytes[at] = bytes;
    return MPI_Start(pending);
}

/* After a failure an empty chunk ends the message, so that the receiver need not wait for the rest.
 */
static void
post(ferry_mpi_request *request, struct transfer *transfer)
{
    const char *what = "copy a chunk from the device";
    struct ferryi_mpi_side *side = &transfer->side;
    size_t window = request->mpi->window, at = transfer->posted % window;
    size_t begin = transfer->posted * transfer->chunk_elements,
           length = chunk_length(transfer, transfer->posted);
    bool sends = transfer->message.direction == FERRY_MPI_SEND;
    char *pointer = side->pointer          ? side->pointer + begin * side->element_bytes
                    : transfer->memory[at] ? transfer->memory[at]->memory
                                           : NULL;
    bool is_packed = transfer->packed && transfer->posted == 0;
    if (sends && !side->pointer && length > 0 && !is_packed) {
        ferry_status status = ferryi_mpi_side_pack(side, begin, length, 1, pointer, what);
        if (status != FERRY_OK) {
            note_failure(request, transfer, status);
            length = 0;
            transfer->chunks = transfer->posted + 1;
        }
    }
    int code = start_chunk(request, transfer, at, pointer, length * side->element_bytes);
    if (code == MPI_SUCCESS) {
        transfer->arrived[at] = false;
        transfer->posted++;
    } else {
        transfer->chunks = transfer->posted;
        note_mpi_failure(request, transfer, code);
    }
}

/*
 * Receives the next chunk of a message that is longer than the range, to drop it. Without memory
 * for it the sender keeps waiting, as it does when a receiver never starts.
 */
static void
post_drop(ferry_mpi_request *request, struct transfer *transfer)
{
    size_t at = transfer->posted % request->mpi->window,
           bytes = transfer->chunk_elements * transfer->side.element_bytes;
    transfer->chunks = transfer->posted;
    if (take_chunk(request, transfer, at, bytes) == FERRY_OK &&
        start_chunk(request, transfer, at, transfer->memory[at]->memory, bytes) == MPI_SUCCESS) {
        transfer->arrived[at] = false;
        transfer->chunks = ++transfer->posted;
    }
}

/* The sender ended its message early: later receives would take its next one. */
static void
cancel_rest(ferry_mpi_request *request, struct transfer *transfer)
{
    for (size_t chunk = transfer->finished; chunk < transfer->posted; chunk++) {
        size_t at = chunk % request->mpi->window;
        if (!transfer->arrived[at]) {
            MPI_Request *pending = &pending_of(request, transfer)[at];
            MPI_Cancel(pending);
            MPI_Wait(pending, MPI_STATUS_IGNORE);
        }
    }
    transfer->chunks = transfer->finished = transfer->posted;
}

/* Copies the first chunks of all ranges that are sent in one call, which waits for the device once.
 * If it fails, post() copies them one by one, and finds out which message fails. */
static void
pack_first_chunks(ferry_mpi_request *request)
{
    size_t listed = 0;
    for (size_t i = 0; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        size_t length = chunk_length(transfer, 0);
        transfer->packed = transfer->message.direction == FERRY_MPI_SEND && transfer->chunks > 0 &&
                           !transfer->side.pointer && length > 0;
        if (transfer->packed)
            listed += ferryi_mpi_side_list(&transfer->side, true, 0, length,
                                           transfer->memory[0]->memory, request->regions + listed);
    }
    if (ferry_copy(request->regions, listed, NULL) == FERRY_OK)
        return;
    for (size_t i = 0; i < request->count; i++)
        request->transfers[i].packed = false;
}

/* Copies a chunk that has arrived into the range. The guard would conflict with that. */
static void
unpack(ferry_mpi_request *request, struct transfer *transfer, size_t chunk)
{
    const char *what = "copy a chunk to the device";
    struct ferryi_mpi_chunk *memory = transfer->memory[chunk % request->mpi->window];
    ferry_status status = ferryi_mpi_guard_close(&transfer->guard, what);
    if (status == FERRY_OK)
        status = ferryi_mpi_side_unpack(&transfer->side, chunk * transfer->chunk_elements,
                                        chunk_length(transfer, chunk), 1,
                                        memory ? memory->memory : NULL, what);
    if (status != FERRY_OK)
        note_failure(request, transfer, status);
}

/* Whether a message is copied into its range together with others, when all have arrived. Long ones
 * are not, because their copies go on while others arrive. */
static bool
is_short(const struct transfer *transfer)
{
    return transfer->side.elements <= transfer->chunk_elements &&
           transfer->side.elements * transfer->side.element_bytes <= FERRYI_MPI_SMALL_CHUNK;
}

/* Whether a message waits to be copied into its range, with this stream. */
static bool
waits_for_copy(const struct transfer *transfer, const ferry_stream *stream)
{
    return transfer->waits && transfer->side.range.stream == stream;
}

/* Copies those short messages that wait, from message `first` on, into their ranges, in one call
 * for all that have the stream of that message. If it fails, they are copied one by one, which
 * finds out which message fails. */
static void
unpack_stream(ferry_mpi_request *request, size_t first)
{
    const ferry_copy_options options = {.stream = request->transfers[first].side.range.stream};
    size_t listed = 0;
    for (size_t i = first; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        if (waits_for_copy(transfer, options.stream))
            listed += ferryi_mpi_side_list(&transfer->side, false, 0, transfer->side.elements,
                                           transfer->memory[0]->memory, request->regions + listed);
    }
    const bool done = ferry_copy(request->regions, listed, &options) == FERRY_OK;
    for (size_t i = first; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        if (!waits_for_copy(transfer, options.stream))
            continue;
        transfer->waits = false;
        if (!done)
            unpack(request, transfer, 0);
    }
}

/* Ends the messages of a request, which are complete. The guards are closed first, those of the
 * ranges that were sent too, so that Ferry orders later work after all of them at once. */
static void
finish_all(ferry_mpi_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        ferry_status status = ferryi_mpi_guard_close(&transfer->guard, "end a message");
        if (status != FERRY_OK)
            note_failure(request, transfer, status);
        transfer->waits = transfer->waits && transfer->status == FERRY_OK;
    }
    for (size_t i = 0; i < request->count; i++)
        if (request->transfers[i].waits)
            unpack_stream(request, i);
}

/* Takes note of a chunk that was received without a failure of MPI. */
static void
receive(ferry_mpi_request *request, struct transfer *transfer, size_t chunk, size_t bytes)
{
    struct ferryi_mpi_side *side = &transfer->side;
    if (bytes != chunk_length(transfer, chunk) * side->element_bytes) {
        char what[128];
        describe(request->mpi, transfer, what, sizeof(what));
        note_failure(request, transfer,
                     ferryi_mpi_fail(FERRY_ERROR_OUT_OF_RANGE,
                                     "%s: the message ended after %zu of %zu bytes", what,
                                     chunk * transfer->chunk_elements * side->element_bytes + bytes,
                                     side->elements * side->element_bytes));
        cancel_rest(request, transfer);
        return;
    }
    if (side->pointer || side->elements == 0)
        return;
    if (is_short(transfer))
        transfer->waits = true;
    else if (transfer->status == FERRY_OK) /* after a failure the rest is received and dropped */
        unpack(request, transfer, chunk);
}

/* Takes note of the oldest chunk, which has arrived. */
static void
finish(ferry_mpi_request *request, struct transfer *transfer)
{
    size_t chunk = transfer->finished++, at = chunk % request->mpi->window;
    size_t bytes = (size_t)transfer->counts[at];
    bool failed = transfer->codes[at] != MPI_SUCCESS;
    bool is_full = bytes == transfer->chunk_elements * transfer->side.element_bytes;
    if (failed)
        note_mpi_failure(request, transfer, transfer->codes[at]);
    if (transfer->message.direction == FERRY_MPI_SEND)
        return;
    if (failed) {
        cancel_rest(request, transfer);
        transfer->drops = is_full; /* only a chunk that was truncated has a count */
    }
    if (transfer->drops && is_full)
        post_drop(request, transfer);
    else if (!transfer->drops && !failed)
        receive(request, transfer, chunk, bytes);
}

static bool
is_complete(const struct transfer *transfer)
{
    return transfer->posted == transfer->chunks && transfer->finished == transfer->chunks;
}

/* At most one copy, so that the messages advance in turn. Returns whether anything was done. */
static bool
advance(ferry_mpi_request *request, struct transfer *transfer)
{
    size_t window = request->mpi->window;
    if (transfer->posted < transfer->chunks && transfer->posted - transfer->finished < window) {
        post(request, transfer);
        return true;
    }
    if (transfer->finished < transfer->posted && transfer->arrived[transfer->finished % window]) {
        finish(request, transfer);
        return true;
    }
    return false;
}

/* -- all messages of a request ----------------------------------------------------------------- */

/* Returns how many bytes the sender put into a chunk: of a truncated one more than there was room
 * for, where MPI reports that, and 0 if MPI failed otherwise. */
static int
count_of(const MPI_Status *status, int code)
{
    int class = MPI_SUCCESS, count = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE)
        MPI_Get_count(status, MPI_BYTE, &count);
    return count;
}

static void
note_arrivals(ferry_mpi_request *request, int code, int arrived)
{
    for (int i = 0; arrived != MPI_UNDEFINED && i < arrived; i++) {
        size_t index = (size_t)request->indices[i], window = request->mpi->window,
               at = index % window;
        struct transfer *transfer = &request->transfers[index / window];
        transfer->arrived[at] = true;
        transfer->codes[at] =
            code == MPI_ERR_IN_STATUS ? request->statuses[i].MPI_ERROR : MPI_SUCCESS;
        transfer->counts[at] = 0;
        if (transfer->message.direction == FERRY_MPI_RECEIVE)
            transfer->counts[at] = count_of(&request->statuses[i], transfer->codes[at]);
        if (request->pending[index] ==
            MPI_REQUEST_NULL) /* Open MPI frees persistent ones that fail */
            transfer->kept[at] = false;
    }
}

/* The network itself failed: no message can be completed. */
static void
give_up(ferry_mpi_request *request, int code)
{
    for (size_t i = 0; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        if (!is_complete(transfer)) {
            note_mpi_failure(request, transfer, code);
            transfer->chunks = transfer->posted = transfer->finished;
        }
    }
}

/* Protects the ranges again before the program continues. A failure of one message does not end the
 * others. */
static void
guard_again(ferry_mpi_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        if (transfer->side.pointer || transfer->status != FERRY_OK)
            continue;
        ferry_status status = ferryi_mpi_guard_open(&transfer->guard, request->mpi, &transfer->side,
                                                    "protect a range");
        if (status != FERRY_OK)
            note_failure(request, transfer, status);
    }
}

/* Continues what can continue. With `wait`, returns when all messages are complete. */
static bool
progress(ferry_mpi_request *request, bool wait)
{
    int total = (int)(request->count * request->mpi->window);
    for (;;) {
        bool moved = false, complete = true;
        for (size_t i = 0; i < request->count; i++) {
            struct transfer *transfer = &request->transfers[i];
            if (!is_complete(transfer)) {
                moved = advance(request, transfer) || moved;
                complete = complete && is_complete(transfer);
            }
        }
        if (complete) {
            finish_all(request);
            return true;
        }
        int arrived = MPI_UNDEFINED;
        int code = moved || !wait ? MPI_Testsome(total, request->pending, &arrived,
                                                 request->indices, request->statuses)
                                  : MPI_Waitsome(total, request->pending, &arrived,
                                                 request->indices, request->statuses);
        if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
            give_up(request, code);
            finish_all(request);
            return true;
        }
        note_arrivals(request, code, arrived);
        if (!wait && !moved && (arrived == MPI_UNDEFINED || arrived == 0)) {
            guard_again(request);
            return false;
        }
    }
}

static void
give_chunks(ferry_mpi_request *request, struct transfer *transfer)
{
    for (size_t i = 0; i < request->mpi->window; i++)
        ferryi_mpi_chunk_give(request->mpi, &transfer->memory[i]);
}

/* Ends a start: closes the scopes, and returns the status of the first message that failed. */
static ferry_status
end(ferry_mpi_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        ferry_status status =
            ferryi_mpi_side_close(&transfer->side, transfer->status == FERRY_OK, "end a message");
        if (status != FERRY_OK)
            note_failure(request, transfer, status);
        if (!request->persistent)
            give_chunks(request, transfer);
    }
    request->started = false;
    if (request->status != FERRY_OK)
        ferryi_mpi_fail(request->status, "%s", request->text ? request->text : "a message failed");
    free(request->text);
    request->text = NULL;
    return request->status;
}

/* -- start ------------------------------------------------------------------------------------- */

static ferry_status
check_message(const ferry_mpi_request *request, size_t index)
{
    const ferry_mpi_message *message = &request->transfers[index].message;
    const char *what = message->direction == FERRY_MPI_SEND ? "send" : "receive";
    if (message->direction != FERRY_MPI_SEND && message->direction != FERRY_MPI_RECEIVE)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "exchange: message %zu has no direction %d", index,
                               (int)message->direction);
    if (message->rank == MPI_PROC_NULL)
        return FERRY_OK;
    if (message->rank == MPI_ANY_SOURCE || message->tag == MPI_ANY_TAG)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "%s: a message of several chunks needs one rank and one tag", what);
    for (size_t i = 0; i < index; i++) {
        const ferry_mpi_message *other = &request->transfers[i].message;
        if (other->direction == message->direction && other->rank == message->rank &&
            other->tag == message->tag)
            return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                                   "exchange: messages %zu and %zu both %s rank %d with tag %d", i,
                                   index,
                                   message->direction == FERRY_MPI_SEND ? "go to" : "come from",
                                   message->rank, message->tag);
    }
    return FERRY_OK;
}

static ferry_status
take_chunks(ferry_mpi_request *request, struct transfer *transfer)
{
    size_t window = request->mpi->window,
           bytes = transfer->chunk_elements * transfer->side.element_bytes;
    size_t total = transfer->side.elements * transfer->side.element_bytes;
    for (size_t i = 0; i < window && i * transfer->chunk_elements < transfer->side.elements; i++) {
        ferry_status status = take_chunk(request, transfer, i, total < bytes ? total : bytes);
        if (status != FERRY_OK)
            return status;
    }
    return FERRY_OK;
}

static ferry_status
prepare(ferry_mpi_request *request, struct transfer *transfer)
{
    bool sends = transfer->message.direction == FERRY_MPI_SEND;
    const char *what = sends ? "send" : "receive";
    struct ferryi_mpi_side *side = &transfer->side;
    transfer->posted = transfer->finished = transfer->chunks = 0;
    transfer->drops = transfer->waits = false;
    transfer->status = FERRY_OK;
    if (transfer->message.rank == MPI_PROC_NULL) {
        *side = (struct ferryi_mpi_side){.elements = 0};
        return FERRY_OK;
    }
    ferry_status status =
        ferryi_mpi_side_resolve(side, request->mpi, &transfer->message.range, what);
    if (status != FERRY_OK)
        return status;
    transfer->chunk_elements = chunk_elements_of(side->element_bytes, request->mpi->chunk_bytes);
    if (side->element_bytes > INT_MAX)
        return ferryi_mpi_fail(FERRY_ERROR_UNSUPPORTED,
                               "%s: elements of %zu bytes, and MPI counts with int", what,
                               side->element_bytes);
    status =
        ferryi_mpi_side_open(side, request->mpi, sends ? FERRY_READ : FERRY_OVERWRITE, true, what);
    if (status == FERRY_OK && !side->pointer)
        status = ferryi_mpi_guard_open(&transfer->guard, request->mpi, side, what);
    if (status == FERRY_OK && !side->pointer)
        status = take_chunks(request, transfer);
    if (status != FERRY_OK)
        return status;
    transfer->chunks = chunks_of(side->elements, transfer->chunk_elements);
    return FERRY_OK;
}

static ferry_status
start(ferry_mpi_request *request)
{
    ferry_status status = FERRY_OK;
    request->status = FERRY_OK;
    for (size_t i = 0; status == FERRY_OK && i < request->count; i++) {
        request->transfers[i].side.scope = (ferry_scope){0};
        status = check_message(request, i);
    }
    for (size_t i = 0; status == FERRY_OK && i < request->count; i++)
        status = prepare(request, &request->transfers[i]);
    if (status != FERRY_OK) { /* no byte was written */
        for (size_t i = 0; i < request->count; i++) {
            (void)ferryi_mpi_side_close(&request->transfers[i].side, false, "end a message");
            (void)ferryi_mpi_guard_close(&request->transfers[i].guard, "end a message");
            if (!request->persistent)
                give_chunks(request, &request->transfers[i]);
        }
        return status;
    }
    request->started = true;
    /* Receives first, so that messages find their memory. */
    for (int direction = FERRY_MPI_RECEIVE; direction >= FERRY_MPI_SEND; direction--) {
        if (direction == FERRY_MPI_SEND)
            pack_first_chunks(request);
        for (size_t i = 0; i < request->count; i++) {
            struct transfer *transfer = &request->transfers[i];
            while ((int)transfer->message.direction == direction &&
                   transfer->posted < transfer->chunks && transfer->posted < request->mpi->window)
                post(request, transfer);
        }
    }
    return FERRY_OK;
}

/* -- requests ---------------------------------------------------------------------------------- */

static void
free_request(ferry_mpi_request *request)
{
    for (size_t i = 0; request->transfers && i < request->count; i++) {
        struct transfer *transfer = &request->transfers[i];
        give_chunks(request, transfer);
        ferryi_mpi_guard_free(&transfer->guard);
        for (size_t at = 0; at < request->mpi->window; at++) {
            if (transfer->kept[at])
                MPI_Request_free(&pending_of(request, transfer)[at]);
        }
        if (request->persistent)
            ferry_buffer_destroy(&transfer->message.range.buffer);
    }
    free(request->transfers);
    free(request->pending);
    free(request->statuses);
    free(request->indices);
    free(request->regions);
    free(request);
}

/* Returns NULL, and sets `*status`, on failure. */
static ferry_mpi_request *
make_request(ferry_mpi *mpi, const ferry_mpi_message *messages, size_t count, bool persistent,
             ferry_status *status)
{
    if (count > 0 && !messages) {
        *status = ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "exchange: the messages are NULL");
        return NULL;
    }
    if (count > INT_MAX / mpi->window) {
        *status = ferryi_mpi_fail(FERRY_ERROR_OVERFLOW, "exchange: %zu messages", count);
        return NULL;
    }
    ferry_mpi_request *request = calloc(1, sizeof(*request));
    size_t places = count * mpi->window;
    if (request) {
        *request = (ferry_mpi_request){.mpi = mpi, .persistent = persistent};
        request->transfers = calloc(count + 1, sizeof(*request->transfers));
        request->pending = calloc(places + 1, sizeof(MPI_Request));
        request->statuses = calloc(places + 1, sizeof(*request->statuses));
        request->indices = calloc(places + 1, sizeof(*request->indices));
        request->regions = calloc(count + 1, FERRYI_MPI_REGIONS * sizeof(*request->regions));
    }
    if (!request || !request->transfers || !request->pending || !request->statuses ||
        !request->indices || !request->regions) {
        if (request)
            free_request(request);
        *status = ferryi_mpi_fail(FERRY_ERROR_OUT_OF_MEMORY, "exchange: no memory for %zu messages",
                                  count);
        return NULL;
    }
    for (size_t i = 0; i < places; i++)
        request->pending[i] = MPI_REQUEST_NULL;
    for (size_t i = 0; i < count; i++) {
        request->transfers[i].message = messages[i];
        if (persistent)
            request->transfers[i].message.range.buffer =
                ferry_buffer_retain(messages[i].range.buffer);
    }
    request->count = count;
    return request;
}

ferry_status
ferry_mpi_request_create(ferry_mpi *mpi, const ferry_mpi_message *messages, size_t count,
                         ferry_mpi_request **out)
{
    ferry_status status = ferryi_mpi_check(mpi, "create a request");
    if (status != FERRY_OK)
        return status;
    if (!out)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "create a request: out is NULL");
    ferry_mpi_request *request = make_request(mpi, messages, count, true, &status);
    if (!request)
        return status;
    for (size_t i = 0; status == FERRY_OK && i < count; i++) {
        status = check_message(request, i);
        if (status == FERRY_OK && messages[i].rank != MPI_PROC_NULL)
            status = ferryi_mpi_side_resolve(&request->transfers[i].side, mpi, &messages[i].range,
                                             "create a request");
    }
    if (status != FERRY_OK) {
        free_request(request);
        return status;
    }
    *out = request;
    return FERRY_OK;
}

ferry_status
ferry_mpi_request_start(ferry_mpi_request *request)
{
    if (!request)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "start a request: it is NULL");
    ferry_status status = ferryi_mpi_check(request->mpi, "start a request");
    if (status != FERRY_OK)
        return status;
    if (request->started)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_STATE,
                               "start a request: its messages of the last start are not complete; "
                               "call ferry_mpi_request_wait() first");
    return start(request);
}

ferry_status
ferry_mpi_request_test(ferry_mpi_request *request, bool *out_done)
{
    if (!request || !out_done)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "test a request: %s is NULL",
                               request ? "out_done" : "it");
    ferry_status status = ferryi_mpi_check(request->mpi, "test a request");
    if (status != FERRY_OK)
        return status;
    bool done = !request->started || progress(request, false);
    status = done && request->started ? end(request) : FERRY_OK;
    *out_done = done;
    return status;
}

ferry_status
ferry_mpi_request_wait(ferry_mpi_request *request)
{
    if (!request)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "wait for a request: it is NULL");
    ferry_status status = ferryi_mpi_check(request->mpi, "wait for a request");
    if (status != FERRY_OK || !request->started)
        return status;
    progress(request, true);
    return end(request);
}

void
ferry_mpi_request_destroy(ferry_mpi_request **request)
{
    if (!request || !*request)
        return;
    if ((*request)->started)
        (void)!ferry_mpi_request_wait(*request);
    free_request(*request);
    *request = NULL;
}

/* -- blocking calls ---------------------------------------------------------------------------- */

ferry_status
ferry_mpi_exchange(ferry_mpi *mpi, const ferry_mpi_message *messages, size_t count)
{
    ferry_status status = ferryi_mpi_check(mpi, "exchange");
    if (status != FERRY_OK)
        return status;
    ferry_mpi_request *request = make_request(mpi, messages, count, false, &status);
    if (!request)
        return status;
    status = start(request);
    if (status == FERRY_OK) {
        progress(request, true);
        status = end(request);
    }
    free_request(request);
    return status;
}

/* What ferry_mpi_send() and its kin were given, as a message. */
static ferry_status
make_message(ferry_mpi_direction direction, const ferry_mpi_range *range, int rank, int tag,
             ferry_mpi_message *out)
{
    if (!range)
        return ferryi_mpi_fail(FERRY_ERROR_INVALID_ARGUMENT, "%s: the range is NULL",
                               direction == FERRY_MPI_SEND ? "send" : "receive");
    *out = (ferry_mpi_message){.direction = direction, .rank = rank, .tag = tag, .range = *range};
    return FERRY_OK;
}

ferry_status
ferry_mpi_send(ferry_mpi *mpi, const ferry_mpi_range *range, int rank, int tag)
{
    ferry_mpi_message message;
    ferry_status status = make_message(FERRY_MPI_SEND, range, rank, tag, &message);
    return status == FERRY_OK ? ferry_mpi_exchange(mpi, &message, 1) : status;
}

ferry_status
ferry_mpi_receive(ferry_mpi *mpi, const ferry_mpi_range *range, int rank, int tag)
{
    ferry_mpi_message message;
    ferry_status status = make_message(FERRY_MPI_RECEIVE, range, rank, tag, &message);
    return status == FERRY_OK ? ferry_mpi_exchange(mpi, &message, 1) : status;
}

ferry_status
ferry_mpi_sendrecv(ferry_mpi *mpi, const ferry_mpi_range *send, int to, int send_tag,
                   const ferry_mpi_range *receive, int from, int receive_tag)
{
    ferry_mpi_message messages[2];
    ferry_status status = make_message(FERRY_MPI_SEND, send, to, send_tag, &messages[0]);
    if (status == FERRY_OK)
        status = make_message(FERRY_MPI_RECEIVE, receive, from, receive_tag, &messages[1]);
    return status == FERRY_OK ? ferry_mpi_exchange(mpi, messages, 2) : status;
}
