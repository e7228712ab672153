/* SPDX-License-Identifier: MIT */
#include "src/device/emulated/emulated.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/copy_loop.h"

/*
 * Implements the commands that a queue of an emulated device performs. A copy command is a list of
 * pieces. Each piece is one copy of rows. The memory of a piece is checked when the piece is
 * queued. The piece holds references to the memory ranges that it uses.
 */

enum kind { COPY, FILL, WAIT, CALL, MARK };
enum link { UP, DOWN };

/* A piece of a copy command: one copy of rows, and the memory ranges that contain its source and
 * its target. If consecutive pieces have the same source range, they share one reference to that
 * range. The same holds for the target range. */
struct piece {
    struct ferryi_copy_2d copy;
    struct ferryi_emulated_range *target, *source;
};

/* One command of a queue. The queue itself uses only the member `head`. */
struct command {
    struct ferryi_emulated_command head;
    enum kind kind;
    ferryi_emulated *emulated;
    size_t link_bytes[2]; /* number of bytes that the command moves in each direction of the link */
    union {
        struct {
            uint32_t pattern;
            size_t pattern_bytes, count;
        } fill;
        struct {
            void (*run)(void *user);
            void *user;
        } call;
        struct ferryi_emulated_mark *mark; /* a reference is held */
    };
    size_t piece_count; /* number of elements of `pieces`; a fill has one element and uses only its
                           target */
    struct piece pieces[];
};

static struct command *
create_command(ferryi_emulated *emulated, const char *call, enum kind kind, size_t piece_room)
{
    size_t bytes;
    struct command *command = NULL;
    if (ferryi_mul_size(piece_room, sizeof(struct piece), &bytes) &&
        ferryi_add_size(bytes, sizeof(*command), &bytes))
        command = calloc(1, bytes);
    if (!command) {
        ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "%s on %s:%d: no memory to queue it", call,
                    emulated->head.kind, emulated->head.properties.native);
        return NULL;
    }
    command->kind = kind;
    command->head.bytes = kind == CALL || kind == WAIT ? SIZE_MAX : 0;
    command->emulated = emulated;
    return command;
}

void
ferryi_emulated_command_let_go(struct ferryi_emulated_command *head)
{
    struct command *command = (struct command *)head;
    struct ferryi_emulated_range *target = NULL, *source = NULL;
    for (size_t i = 0; i < command->piece_count; i++) {
        const struct piece *piece = &command->pieces[i];
        if (piece->target != target)
            ferryi_range_release(piece->target);
        if (piece->source != source)
            ferryi_range_release(piece->source);
        target = piece->target;
        source = piece->source;
    }
    ferryi_emulated_queue_release(head->awaits);
    if (command->kind == MARK)
        ferryi_emulated_mark_release(command->mark);
}

void
ferryi_emulated_mark_release(struct ferryi_emulated_mark *mark)
{
    if (mark && atomic_fetch_sub(&mark->holders, 1) == 1)
        free(mark);
}

void
ferryi_emulated_command_discard(struct ferryi_emulated_command *head)
{
    ferryi_emulated_command_let_go(head);
    free(head);
}

/* -- performing -- */

/* Minimum size of a download that bypasses the processor's caches. A real copy engine can use only
 * a small part of these caches, and the emulated device imitates that. */
#define CACHED_DOWNLOAD ((size_t)1 << 20)

/* Chooses the copy loop whose effect on the processor's caches is similar to that of a copy engine.
 * Writes to device memory bypass the caches. Writes to host memory bypass the caches only if the
 * copy is large. */
static enum ferryi_copy_loop
loop_of(const struct ferryi_copy_2d *copy, size_t bytes)
{
    bool past = copy->direction != FERRY_DIRECTION_DOWNLOAD || bytes >= CACHED_DOWNLOAD;
    return past ? FERRYI_COPY_STREAM : FERRYI_COPY_LIBC;
}

static void
copy_rows(const struct ferryi_copy_2d *copy)
{
    if (copy->target_pitch == copy->row_bytes && copy->source_pitch == copy->row_bytes) {
        size_t bytes = copy->rows * copy->row_bytes;
        ferryi_copy_bytes(loop_of(copy, bytes), copy->target, copy->source, bytes);
        return;
    }
    for (size_t row = 0; row < copy->rows; row++)
        memcpy((char *)copy->target + row * copy->target_pitch,
               (const char *)copy->source + row * copy->source_pitch, copy->row_bytes);
}

static void
fill_pattern(const struct command *command)
{
    void *target = command->pieces[0].copy.target;
    uint32_t pattern = command->fill.pattern;
    if (command->fill.pattern_bytes == 1) {
        memset(target, (int)(pattern & 0xff), command->fill.count);
        return;
    }
    for (size_t i = 0; i < command->fill.count; i++) {
        if (command->fill.pattern_bytes == 2)
            ((uint16_t *)target)[i] = (uint16_t)pattern;
        else
            ((uint32_t *)target)[i] = pattern;
    }
}

/*
 * Reserves the emulated link to the host for a command, and returns the time at which the link will
 * have carried the command's bytes. Each direction of the link carries one command at a time.
 *
 * The transfer starts as soon as the link is free, the previous work of the queue is done and the
 * command is queued. The time at which the worker thread woke up does not matter, because a real
 * copy engine does not wait for a thread.
 */
static uint64_t
reserve_link(const struct command *command, uint64_t ready_ns)
{
    ferryi_emulated *emulated = command->emulated;
    uint64_t begin = ready_ns > command->head.queued_ns ? ready_ns : command->head.queued_ns,
             end = begin;
    ferryi_mutex_lock(&emulated->link_mutex);
    for (int i = 0; i < 2; i++) {
        if (command->link_bytes[i] == 0)
            continue;
        uint64_t from = emulated->link_free_ns[i] > begin ? emulated->link_free_ns[i] : begin;
        double ns = (double)command->link_bytes[i] * 1e9 / (double)emulated->bytes_per_second;
        emulated->link_free_ns[i] = from + (uint64_t)ns;
        if (emulated->link_free_ns[i] > end)
            end = emulated->link_free_ns[i];
    }
    ferryi_mutex_unlock(&emulated->link_mutex);
    return end;
}

/* Performs a command's copies from last to first. So tests fail if code relies on the order of the
 * copies. */
static void
perform_copies(const struct command *command, ferryi_emulated_queue *queue)
{
    ferryi_emulated *emulated = command->emulated;
    bool crosses =
        emulated->bytes_per_second > 0 && command->link_bytes[UP] + command->link_bytes[DOWN] > 0;
    uint64_t end =
        (crosses ? reserve_link(command, queue->ready_ns) : ferryi_now_ns()) + emulated->latency_ns;
    for (size_t i = command->piece_count; i-- > 0;)
        copy_rows(&command->pieces[i].copy);
    uint64_t now = ferryi_now_ns();
    if (end > now)
        ferryi_sleep_ns(end - now);
    queue->ready_ns = crosses ? end : ferryi_now_ns();
}

static ferry_status
check_memory_is_there(const struct command *command)
{
    for (size_t i = 0; i < command->piece_count; i++) {
        const struct piece *piece = &command->pieces[i];
        bool target_gone = atomic_load(&piece->target->gone);
        if (target_gone || (piece->source && atomic_load(&piece->source->gone)))
            return ferryi_fail(
                FERRY_ERROR_DEVICE, "%s on %s:%d: its %s at %p was freed while it was queued",
                command->kind == FILL ? "fill" : "copy", command->emulated->head.kind,
                command->emulated->head.properties.native, target_gone ? "target" : "source",
                target_gone ? piece->copy.target : piece->copy.source);
    }
    return FERRY_OK;
}

void
ferryi_emulated_command_perform(struct ferryi_emulated_command *head, ferryi_emulated_queue *queue)
{
    struct command *command = (struct command *)head;
    if (queue->scheduler->is_lost && (command->kind == COPY || command->kind == FILL))
        return;
    if (queue->scheduler->strict) {
        ferry_status status = check_memory_is_there(command);
        if (status != FERRY_OK) {
            ferryi_emulated_queue_fail(queue, status);
            return;
        }
    }
    switch (command->kind) {
    case COPY:
        perform_copies(command, queue);
        return;
    case FILL:
        fill_pattern(command);
        break;
    case WAIT:
        head->awaits->scheduler->wait(head->awaits, head->number);
        break;
    case CALL:
        command->call.run(command->call.user);
        break;
    case MARK:
        /* Storing the time of an event moves no bytes. So this command neither reserves the link
         * nor changes `queue->ready_ns`. */
        atomic_store(&command->mark->reached_ns, ferryi_now_ns());
        return;
    }
    queue->ready_ns = ferryi_now_ns();
}

/* -- checking and queueing -- */

struct ferryi_emulated_command *
ferryi_emulated_command_wait(ferryi_emulated *emulated, ferryi_emulated_queue *queue,
                             uint64_t number)
{
    struct command *command = create_command(emulated, "stream_wait", WAIT, 0);
    if (!command)
        return NULL;
    command->head.awaits = queue;
    command->head.number = number;
    return &command->head;
}

struct ferryi_emulated_command *
ferryi_emulated_command_mark(ferryi_emulated *emulated, struct ferryi_emulated_mark *mark)
{
    struct command *command = create_command(emulated, "event_record", MARK, 0);
    if (!command)
        return NULL;
    command->mark = mark;
    return &command->head;
}

ferry_status
ferryi_emulated_host_call(ferryi_device *device, void *stream, void (*run)(void *user), void *user)
{
    struct command *command = create_command(ferryi_emulated_of(device), "host_call", CALL, 0);
    if (!command)
        return FERRY_ERROR_OUT_OF_MEMORY;
    command->call.run = run;
    command->call.user = user;
    return ferryi_emulated_submit(device, "host_call", stream, &command->head);
}

/* Computes how many bytes the rows of a copy span, from the start of the first row to the end of
 * the last row. Returns false if the number overflows or the pitch is less than the size of a row.
 */
static bool
span_bytes(size_t pitch, size_t row_bytes, size_t rows, size_t *out)
{
    size_t before;
    return pitch >= row_bytes && ferryi_mul_size(rows - 1, pitch, &before) &&
           ferryi_add_size(before, row_bytes, out);
}

static ferry_status
fail_range(ferryi_emulated *emulated, const char *call, size_t bytes, const char *side,
           const void *pointer, bool on_host)
{
    return ferryi_fail(FERRY_ERROR_DEVICE,
                       "%s of %zu bytes on %s:%d: the %s %p is not wholly inside live %s", call,
                       bytes, emulated->head.kind, emulated->head.properties.native, side, pointer,
                       on_host ? "pinned, managed or registered memory" : "memory of the device");
}

#define HOST_ORIGINS   (FERRYI_RANGE_PINNED | FERRYI_RANGE_MANAGED | FERRYI_RANGE_REGISTERED)
#define DEVICE_ORIGINS (FERRYI_RANGE_DEVICE | FERRYI_RANGE_MANAGED)

/* Returns a reference to the memory range that contains the `bytes` at `pointer`. `last` is the
 * source range or target range of the previous piece, or NULL. If `last` also contains this memory,
 * returns `last` without taking a new reference. */
static struct ferryi_emulated_range *
hold_range(ferryi_emulated *emulated, struct ferryi_emulated_range *last, const void *pointer,
           size_t bytes, bool on_host)
{
    if (last && !atomic_load(&last->gone) &&
        ferryi_range_has(last, pointer, bytes, on_host ? HOST_ORIGINS : DEVICE_ORIGINS))
        return last;
    if (on_host)
        return ferryi_emulated_host_range(pointer, bytes, HOST_ORIGINS);
    return ferryi_emulated_device_range(emulated, pointer, bytes);
}

static ferry_status
check_peer(const ferryi_emulated *emulated, const char *call, const ferryi_device *source)
{
    if (!(emulated->head.capabilities & FERRY_CAN_PEER))
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED, "%s on %s:%d: it has no peers", call,
                           emulated->head.kind, emulated->head.properties.native);
    if (strcmp(source->kind, emulated->head.kind) != 0)
        return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                           "%s on %s:%d: a device of kind %s cannot be reached", call,
                           emulated->head.kind, emulated->head.properties.native, source->kind);
    return FERRY_OK;
}

/* Checks the memory of a copy, and appends the copy to the array `pieces` of the command. Skips a
 * copy of zero bytes. */
static ferry_status
add_piece(struct command *command, const char *call, const struct ferryi_copy_2d *copy)
{
    ferryi_emulated *emulated = command->emulated, *source_device = emulated;
    bool peer = copy->direction == FERRY_DIRECTION_PEER;
    if (peer) {
        FERRYI_OR_RETURN(check_peer(emulated, call, copy->source_device));
        source_device = ferryi_emulated_of(copy->source_device);
    }
    if (copy->rows == 0 || copy->row_bytes == 0)
        return FERRY_OK;
    size_t target_bytes, source_bytes;
    if (!span_bytes(copy->target_pitch, copy->row_bytes, copy->rows, &target_bytes) ||
        !span_bytes(copy->source_pitch, copy->row_bytes, copy->rows, &source_bytes))
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "%s on %s:%d: %zu rows of %zu bytes do not fit pitches of %zu and %zu",
                           call, emulated->head.kind, emulated->head.properties.native, copy->rows,
                           copy->row_bytes, copy->target_pitch, copy->source_pitch);
    bool up = copy->direction == FERRY_DIRECTION_UPLOAD,
         down = copy->direction == FERRY_DIRECTION_DOWNLOAD;
    if (!up && !down && !peer && copy->direction != FERRY_DIRECTION_DEVICE)
        return ferryi_fail(FERRY_ERROR_DEVICE, "%s on %s:%d: a copy has no direction %d", call,
                           emulated->head.kind, emulated->head.properties.native,
                           (int)copy->direction);

    struct piece *piece = &command->pieces[command->piece_count];
    const struct piece *last = command->piece_count > 0 ? piece - 1 : NULL;
    piece->copy = *copy;
    piece->target =
        hold_range(emulated, last ? last->target : NULL, copy->target, target_bytes, down);
    if (!piece->target)
        return fail_range(emulated, call, target_bytes, "target", copy->target, down);
    command->piece_count++; /* from here on, discarding the command also releases the ranges of this
                               piece */
    piece->source =
        hold_range(source_device, last ? last->source : NULL, copy->source, source_bytes, up);
    if (!piece->source)
        return fail_range(source_device, call, source_bytes, "source", copy->source, up);
    const char *target = copy->target, *source = copy->source;
    if (target < source + source_bytes && source < target + target_bytes && copy->rows == 1)
        return ferryi_fail(FERRY_ERROR_DEVICE,
                           "%s of %zu bytes on %s:%d: source and target overlap", call,
                           target_bytes, emulated->head.kind, emulated->head.properties.native);
    command->head.bytes += copy->rows * copy->row_bytes;
    if (up || source_device != emulated)
        command->link_bytes[UP] += copy->rows * copy->row_bytes;
    if (down)
        command->link_bytes[DOWN] += copy->rows * copy->row_bytes;
    return FERRY_OK;
}

/* Submits a copy or fill command to a stream. If the command has no pieces, discards the command
 * and only checks the stream's handle. */
static ferry_status
submit_pieces(struct command *command, const char *call, void *stream)
{
    ferryi_device *device = &command->emulated->head;
    if (command->piece_count > 0)
        return ferryi_emulated_submit(device, call, stream, &command->head);
    ferryi_emulated_command_discard(&command->head);
    bool capturing;
    return ferryi_emulated_stream_is_capturing(device, stream, &capturing);
}

static ferry_status
submit_copy(ferryi_device *device, const char *call, const struct ferryi_copy_2d *copy,
            void *stream)
{
    struct command *command = create_command(ferryi_emulated_of(device), call, COPY, 1);
    if (!command)
        return FERRY_ERROR_OUT_OF_MEMORY;
    ferry_status status = add_piece(command, call, copy);
    if (status != FERRY_OK) {
        ferryi_emulated_command_discard(&command->head);
        return status;
    }
    return submit_pieces(command, call, stream);
}

/* Converts a copy of consecutive bytes to a two-dimensional copy of one row. */
static struct ferryi_copy_2d
one_row(const struct ferryi_copy *copy)
{
    return (struct ferryi_copy_2d){copy->target,    copy->source,       copy->bytes,
                                   copy->bytes,     copy->bytes,        1,
                                   copy->direction, copy->source_device};
}

ferry_status
ferryi_emulated_copy(ferryi_device *device, const struct ferryi_copy *copy, void *stream)
{
    struct ferryi_copy_2d row = one_row(copy);
    return submit_copy(device, "copy", &row, stream);
}

ferry_status
ferryi_emulated_copy_2d(ferryi_device *device, const struct ferryi_copy_2d *copy, void *stream)
{
    return submit_copy(device, "copy_2d", copy, stream);
}

ferry_status
ferryi_emulated_copy_batch(ferryi_device *device, const struct ferryi_copy *copies, size_t count,
                           void *stream)
{
    struct command *command = create_command(ferryi_emulated_of(device), "copy_batch", COPY, count);
    if (!command)
        return FERRY_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct ferryi_copy_2d copy = one_row(&copies[i]);
        ferry_status status = add_piece(command, "copy_batch", &copy);
        if (status != FERRY_OK) {
            ferryi_emulated_command_discard(&command->head);
            return ferryi_fail_in(status, "copy %zu of %zu", i, count);
        }
    }
    return submit_pieces(command, "copy_batch", stream);
}

ferry_status
ferryi_emulated_fill(ferryi_device *device, void *target, uint32_t pattern, size_t pattern_bytes,
                     size_t count, void *stream)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    size_t bytes;
    if ((pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4) ||
        (uintptr_t)target % pattern_bytes != 0 || !ferryi_mul_size(count, pattern_bytes, &bytes))
        return ferryi_fail(
            FERRY_ERROR_DEVICE,
            "fill of %zu patterns of %zu bytes at %p on %s:%d: wrong size or alignment", count,
            pattern_bytes, target, device->kind, device->properties.native);
    struct command *command = create_command(emulated, "fill", FILL, 1);
    if (!command)
        return FERRY_ERROR_OUT_OF_MEMORY;
    if (bytes > 0) {
        struct piece *piece = &command->pieces[0];
        piece->copy.target = target;
        piece->target = hold_range(emulated, NULL, target, bytes, false);
        if (!piece->target) {
            ferryi_emulated_command_discard(&command->head);
            return fail_range(emulated, "fill", bytes, "target", target, false);
        }
        command->piece_count = 1;
    }
    command->head.bytes = bytes;
    command->fill.pattern = pattern;
    command->fill.pattern_bytes = pattern_bytes;
    command->fill.count = count;
    return submit_pieces(command, "fill", stream);
}
