/* SPDX-License-Identifier: MIT */
#ifndef FAKECUDA_INTERNAL_H
#define FAKECUDA_INTERNAL_H

/*
 * Declarations shared by the files of fakecuda. One lock protects everything; it is released only
 * while a piece of work runs and while a thread waits. Every change wakes all waiters.
 *
 * A queue holds the work of a stream. The queue outlives the stream's handle, whose slot is reused
 * at once. A piece of work waits for points, which are positions in queues.
 */

#include <pthread.h>

#include "src/device/cuda_abi.h"
#include "tests/support/fakecuda.h"

#define FAKE_EXPORT      __attribute__((visibility("default")))
#define FAKE_DEVICES_MAX 8
#define FAKE_PARAMETERS  32

/* FAKECUDA_GENERATION selects the driver that this build imitates: 13, 12 (12.8: a different
 * signature for batches) or 9 (no optional group except the old prefetch and advice). */
#ifndef FAKECUDA_GENERATION
#define FAKECUDA_GENERATION 13
#endif
#define FAKECUDA_VERSION (FAKECUDA_GENERATION == 12 ? 12080 : FAKECUDA_GENERATION * 1000)

typedef ferryi_cu_result fake_result;
typedef struct CUctx_st fake_context;

/* Declares every entry point of the interface with the types that the library under test uses. */
#define FAKE_DECLARE(group, name, parameters) FAKE_EXPORT ferryi_cu_result name parameters;
FERRYI_CUDA_SYMBOLS(FAKE_DECLARE)
#undef FAKE_DECLARE

#define FAKE_NUMBER(group, name, parameters) FAKE_##name,
enum fake_entry { FERRYI_CUDA_SYMBOLS(FAKE_NUMBER) FAKE_ENTRY_COUNT };
#undef FAKE_NUMBER

struct fake_capture {
    struct fake_capture *next;
    ferryi_cu_capture_status status;
    ferryi_cu_capture_mode mode;
    uint64_t thread;
    struct fake_queue *origin; /* only compared, never dereferenced */
    int nodes;
    struct fake_work *first, *last; /* the work of the graph, in the order of the calls */
};

struct fake_point {
    struct fake_queue *queue; /* this point is one of its holders */
    uint64_t number;
};

struct fake_work {
    struct fake_work *next;
    fake_result (*run)(void *payload);
    void (*drop)(void *payload); /* frees what the payload holds; may be NULL */
    void *payload;               /* freed with the work */
    struct fake_point *points;
    size_t point_count;
    uint64_t number;
};

struct fake_queue {
    struct fake_queue *next; /* in the list of the context */
    int holders;
    fake_context *context;
    struct fake_work *first, *last;
    uint64_t queued, done;
    uint64_t wanted;              /* in lazy mode, the number of the last work that was requested */
    uint64_t thread;              /* the thread of a per-thread queue; else 0 */
    struct fake_capture *capture; /* NULL: none */
    bool blocking, has_handle, running, has_worker, quit;
    pthread_cond_t changed; /* work was added or done, or `quit` was set */
    pthread_t worker;
};

struct CUstream_st {
    struct fake_queue *queue; /* NULL: a free slot */
    struct CUstream_st *next_free;
};

/* The time at which a queue reached a record. Owned by the event and by the work that writes the
 * time, so the last of them frees it. */
struct fake_reached {
    int holders;
    uint64_t ns;
};

struct CUevent_st {
    struct CUevent_st *next_free;
    bool live, timed;
    struct fake_reached *reached; /* time of a timed event's last record; else NULL */
    fake_context *context;
    struct fake_point point; /* queue NULL: never recorded */
    struct fake_capture *capture;
};

struct CUmod_st {
    struct CUmod_st *next;
    fake_context *context;
    struct CUfunc_st *functions;
    char *text;
};

struct CUfunc_st {
    struct CUfunc_st *next;
    struct CUmod_st *module;
    char *name;
    int static_bytes, shared_bytes; /* bytes of static shared memory of a block, and the maximum of
                                       dynamic bytes that a launch may request */
    bool loaded;                    /* used only under FAKE_STRICT_LOAD */
    int parameter_count;            /* -1: the text has no parameter list */
    size_t parameters[FAKE_PARAMETERS];
};

struct CUctx_st {
    int device;
    int retained; /* 0: the context does not exist */
    unsigned long long id;
    bool ending;       /* whether the last release is running and has released the lock */
    fake_result error; /* the fault that ended the context; 0: none */
    struct fake_queue *queues;
    struct fake_queue *legacy;
    struct CUmod_st *modules;
    size_t used_bytes;
    unsigned peers;
};

enum fake_kind { FAKE_DEVICE, FAKE_PINNED, FAKE_MANAGED, FAKE_REGISTERED };

enum fake_rule {
    FAKE_STRICT_MANAGED = 1 << 0,
    FAKE_STRICT_REGISTERED = 1 << 1,
    FAKE_STRICT_ALIGN = 1 << 2,
    FAKE_STRICT_SIZE = 1 << 3,
    FAKE_STRICT_BATCH = 1 << 4,
    FAKE_STRICT_PRIVATE = 1 << 5,
    FAKE_STRICT_PAGES = 1 << 6,
    FAKE_STRICT_LIMITS = 1 << 7,
    FAKE_STRICT_HOST = 1 << 8,
    FAKE_STRICT_PTX = 1 << 9,
    FAKE_STRICT_PARTS = 1 << 10,
    FAKE_STRICT_CAPTURE = 1 << 11,
    FAKE_STRICT_STICKY = 1 << 12,
    FAKE_STRICT_CONSTANT = 1 << 13,
    FAKE_STRICT_LOAD = 1 << 14,
};

struct fake_block {
    struct fake_block *next;
    enum fake_kind kind;
    fake_context *context;
    char *memory;
    size_t bytes;
    char *view;  /* the device's mapping of memory that the host cannot always access; else NULL */
    void *whole; /* the whole allocation if `memory` is not its start; else NULL */
};

extern pthread_mutex_t fake_lock;

/* State of the driver. Read and written under the lock. */
extern struct fake_state {
    bool started, lazy;
    bool ended;    /* whether exit() was called, so that the driver is deinitialized */
    pid_t process; /* the process that called cuInit() first */
    int devices;
    size_t memory_bytes;
    fake_context contexts[FAKE_DEVICES_MAX];
    struct fakecuda_live live;
    uint64_t pageable_copies;
    int last_location;
    unsigned strict;  /* bits of enum fake_rule */
    unsigned kernels; /* number of kernels of all contexts that are queued and not done */
    unsigned batches; /* batches submitted under FAKE_STRICT_BATCH */
} fake;

enum {
    FAKE_NEEDS_CONTEXT = 1, /* a current context that has not ended */
    FAKE_UNSAFE = 2,        /* forbidden during a capture that is not relaxed */
};

/* Counts the call, fails it if a test requested that, and takes the lock. On failure the lock is
 * not held. */
fake_result fake_begin(enum fake_entry entry, int needs, fake_context **out_context);
fake_result fake_end(fake_result result);

#define FAKE_BEGIN(name, needs, context)                                                           \
    do {                                                                                           \
        fake_result result_ = fake_begin(FAKE_##name, (needs), (context));                         \
        if (result_ != FERRYI_CUDA_SUCCESS)                                                        \
            return result_;                                                                        \
    } while (0)

uint64_t fake_thread(void);
/* Records whether the calling thread is running a host function. */
void fake_host_function(bool runs);
/* Returns an attribute, which is the same for all devices. Called under the lock. */
int fake_attribute(int attribute);
bool fake_is_fatal(fake_result code);

/* fakecuda_queue.c: all called under the lock */
struct fake_queue *fake_queue_new(fake_context *context, bool blocking);
void fake_queue_drop(struct fake_queue *queue);
fake_result fake_queue_of(fake_context *context, ferryi_cu_stream stream, struct fake_queue **out);
/* Like fake_queue_of(), used by queries: also accepts streams of other contexts. */
fake_result fake_any_queue_of(fake_context *context, ferryi_cu_stream stream,
                              struct fake_queue **out);
/* Queues work. Takes ownership of `payload`, which must be from malloc or NULL, even on failure. */
fake_result fake_enqueue(struct fake_queue *queue, fake_result (*run)(void *), void (*drop)(void *),
                         void *payload, const struct fake_point *after);
void fake_hold(struct fake_point *point, struct fake_queue *queue, uint64_t number);
void fake_wait(struct fake_queue *queue, uint64_t number);
void fake_want(struct fake_queue *queue, uint64_t number);
void fake_wait_context(fake_context *context);
void fake_context_start(fake_context *context);
void fake_context_end(fake_context *context);
void fake_reap(fake_context *context);

/* fakecuda_capture.c: all these functions are called under the lock */
bool fake_capture_forbids(void);
fake_result fake_capture_check(struct fake_queue *queue);
/* Adds work that was queued on a captured stream to the graph. */
void fake_capture_keep(struct fake_capture *capture, struct fake_work *work);
bool fake_capture_of_context(fake_context *context, bool invalidate);

/* fakecuda_stream.c, fakecuda_memory.c, fakecuda_code.c: destroy the handles that end with a
 * context */
void fake_handles_end(fake_context *context);
bool fake_stream_is_live(ferryi_cu_stream stream);
void fake_blocks_end(fake_context *context);
void fake_modules_end(fake_context *context);

/* fakecuda_memory.c: returns the block that holds the range, or NULL */
struct fake_block *fake_block_of(const void *memory, size_t bytes);
/* Returns whether a part of the range, but not the whole range, is registered. */
bool fake_is_registered_in_part(const void *memory, size_t bytes);
/* Returns the address at which the device reaches `memory`. */
void *fake_view(const void *memory);
/* fake_kernel_begins() is called when a kernel was queued, fake_kernel_ends() when it is done. */
void fake_kernel_begins(void);
void fake_kernel_ends(void);
static inline bool
fake_is_of_device(const struct fake_block *block)
{
    return block->kind == FAKE_DEVICE;
}

/* fakecuda_cost.c: spins for the time that FAKECUDA_COST sets for the entry point. Called without
 * the lock. */
void fake_cost_spin(enum fake_entry entry);

#endif
