/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_SHARED_H
#define FERRYI_SHARED_H

/*
 * The memory of a buffer that several processes use, and who may use it at the moment.
 *
 * Each has a shared file (base/shared_file.h). Its first page is the header, which the process that
 * made it, the owner, writes once, except for two words. The bytes of the buffer follow, unless the
 * driver of a device names its memory itself.
 *
 * Locks of bytes of the file say who uses what:
 * - SHARED_USE: the process that has acquired the memory. Processes that only read share it.
 * - SHARED_OPEN: each process that has opened the memory, to read; the owner, to write, before it
 *   frees memory that does not outlive its last user otherwise.
 * - SHARED_OWNER: the owner, as long as the memory exists.
 *
 * While a process may write, the header has its number. The number is taken back only when all
 * bytes have arrived, so that the next process knows of bytes that were lost, or of a process that
 * ended meanwhile.
 */

#include "src/base/shared_file.h"
#include "src/stream/shell.h"

FERRYI_MUTEX_CLASS(ferryi_shared_memory_mutex);

/* What the buffer is; the same in all processes. */
struct ferryi_shared_content {
    uint64_t identity; /* of the element */
    uint64_t element_bytes;
    uint64_t count;
};

/* What the owner writes once. Other processes copy it before they check it, so that it cannot
 * change between a check and its use. */
struct ferryi_shared_facts {
    struct ferryi_shared_file_name name;
    uint32_t version;
    char kind[20]; /* of the device whose memory it is, or "host" */
    struct ferryi_shared_content content;
    uint64_t offset; /* of the bytes in the file; 0: the token names them */
    struct ferryi_token token, event;
    uint32_t has_event;
};

struct ferryi_shared_header {
    struct ferryi_shared_facts facts;
    _Atomic uint32_t writer;   /* the process that has acquired the memory to write, or 0 */
    _Atomic uint32_t is_ended; /* whether the owner no longer lets others open it */
};

struct ferryi_shared {
    struct ferryi_shared_memory_mutex mutex; /* held while the memory is acquired and released */
    ferry_context *context;
    int place;
    bool is_owner;
    int file; /* closed in a forked child */
    struct ferryi_shared_file_name name;
    struct ferryi_shared_facts facts;
    struct ferryi_shared_header *header; /* cannot be written where memory.read_only is true */
    struct ferryi_shared_memory memory;
    void *pointer;              /* of the bytes */
    void *event;                /* after the newest use by any process; NULL: uses are waited for */
    struct ferryi_shared *next; /* in the context's list of memory that others still use */
};

/* Makes memory at a place of the context. It is acquired for writing. */
ferry_status ferryi_shared_make(ferry_context *context, int place,
                                const struct ferryi_shared_content *content,
                                struct ferryi_shared **out);
/* Opens memory of another process. It is not acquired. If `place` is 0, and it is memory of a
 * device, uses the first place of this kind. */
ferry_status ferryi_shared_open(ferry_context *context, const struct ferryi_shared_file_name *name,
                                int place, bool read_only, struct ferryi_shared **out);
/* Returns whether the process that made the memory is the last one that has it, so that its bytes
 * are of no use any more. Lets no other process open it from then on. */
bool ferryi_shared_is_last(struct ferryi_shared *shared);
/* Ends the use of memory by this process, and frees `shared`. No work uses the memory any more. If
 * other processes have it open, and the driver would take it away, keeps it until they end. */
void ferryi_shared_end(struct ferryi_shared *shared);

/* Tries to acquire the memory. Fails with BUSY if another process has it, and with DEVICE_LOST if
 * it is gone with its owner. Sets `*out_writer` to the process that had it last, and ended without
 * handing all bytes over, or to 0. */
ferry_status ferryi_shared_acquire(struct ferryi_shared *shared, uint32_t *out_writer);
/* Hands the memory over to other processes. `writer` is 0 if all bytes are there, or will be when
 * the event is complete; otherwise the process that lost them. */
void ferryi_shared_release(struct ferryi_shared *shared, uint32_t writer);

/* Frees what other processes have ended to use, and returns its bytes. When the context `ends`,
 * gives up on the rest, which the driver frees when the process ends. */
size_t ferryi_shared_sweep(ferry_context *context, bool ends);

#endif
