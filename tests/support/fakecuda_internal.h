/* SPDX-License-Identifier: MIT */
#ifndef FAKECUDA_INTERNAL_H
#define FAKECUDA_INTERNAL_H

/*
 * Declarations that the files of fakecuda share, a library that imitates the CUDA driver. One mutex
 * protects all state. A thread releases it only while it waits or runs queued work.
 *
 * A queue holds the work of a stream. The queue may exist longer than the stream's handle, and a
 * new stream may reuse the memory of the handle. Work can wait for points. A point is a position in
 * a queue.
 */

#include <pthread.h>
#include <sys/types.h>

#include "src/device/cuda/cuda_abi.h"
#include "tests/support/fakecuda.h"

#define FAKE_EXPORT      __attribute__((visibility("default")))
#define FAKE_DEVICES_MAX 8
#define FAKE_PARAMETERS  32
#define FAKE_PITCH_MOST  0x7fffffff /* largest pitch that the attributes of real devices state */

/* FAKECUDA_GENERATION selects the driver that this build imitates: 13, 12 or 9. The value 12 means
 * CUDA 12.8, whose batch function has a different signature. The driver of generation 9 lacks all
 * optional entry points except the old ones for prefetch and advice. */
#ifndef FAKECUDA_GENERATION
#define FAKECUDA_GENERATION 13
#endif
#ifdef FAKEHIP
#define FAKECUDA_VERSION  (FAKEHIP == 5 ? 50221153 : 60342134)
#define SHARED_BYTES_FREE (64 << 10)
#else
#define FAKECUDA_VERSION  (FAKECUDA_GENERATION == 12 ? 12080 : FAKECUDA_GENERATION * 1000)
#define SHARED_BYTES_FREE (48 << 10)
#endif

typedef ferryi_gpu_result fake_result;
typedef struct ferryi_gpu_context fake_context;

/* FAKEHIP is the release of ROCm, 5 or 6, whose library this build imitates in place of the CUDA
 * driver: entry points with the same parameters have HIP's names, and fakehip.c has the others. */
#ifdef FAKEHIP
#include "src/device/hip/hip_abi.h"
#define FAKE_VISIBLE
#define FAKEHIP_OBJECT           "\177ELF"
#define FAKEHIP_BUNDLE           "__CLANG_OFFLOAD_BUNDLE__"
#define FAKEHIP_ATTRIBUTE_SHARED 8 /* CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK */
#else
#define FAKE_VISIBLE FAKE_EXPORT
#endif

/* Declares every entry point of the driver that Ferry uses, with the types of Ferry's own headers.
 */
#define FAKE_DECLARE(group, name, parameters) FAKE_VISIBLE ferryi_gpu_result name parameters;
FERRYI_CUDA_SYMBOLS(FAKE_DECLARE)
#undef FAKE_DECLARE
#ifdef FAKEHIP
#define FAKE_RENAME(member, name)                                                                  \
    FAKE_EXPORT extern __typeof__(FERRYI_CUDA_NAME_##member) FERRYI_CUDA_NAME_##member __asm__(    \
        #name);
FERRYI_HIP_SAME(FAKE_RENAME)
#if FAKEHIP >= 6
FERRYI_HIP_LATER(FAKE_RENAME)
FERRYI_HIP_RANGES(FAKE_RENAME)
#endif
#undef FAKE_RENAME
#endif

#define FAKE_NUMBER(group, name, parameters) FAKE_##name,
enum fake_entry { FERRYI_CUDA_SYMBOLS(FAKE_NUMBER) FAKE_ENTRY_COUNT };
#undef FAKE_NUMBER
/* Returns the name under which this build exports an entry point. */
const char *fake_name(enum fake_entry entry);

struct fake_capture {
    struct fake_capture *next;
    ferryi_gpu_capture_status status;
    ferryi_gpu_capture_mode mode;
    uint64_t thread;
    struct fake_queue *origin; /* queue where the capture began; never dereferenced */
    int nodes;
    struct fake_work *first, *last; /* list of the graph's work, in the order of the calls */
};

struct fake_point {
    struct fake_queue *queue; /* counts the point in its `holders` */
    uint64_t number;
};

struct fake_work {
    struct fake_work *next;
    fake_result (*run)(void *payload);
    void (*drop)(void *payload); /* frees memory that `payload` points to; may be NULL */
    void *payload;               /* freed with the work */
    struct fake_point *points;
    size_t point_count;
    uint64_t number;
};

struct fake_queue {
    struct fake_queue *next; /* in the list of the context */
    int holders;
    unsigned long long id; /* differs from the ids of all other queues */
    fake_context *context;
    fake_context *green; /* the green context of the stream, or NULL */
    struct fake_work *first, *last;
    uint64_t queued, done;
    uint64_t wanted;              /* in lazy mode: number of the last work item that must run */
    uint64_t thread;              /* thread whose per-thread stream uses the queue, or 0 */
    struct fake_capture *capture; /* NULL: none */
    bool blocking, has_handle, running, has_worker, quit;
    pthread_cond_t changed; /* work was added, work has ended, or `quit` was set */
    pthread_t worker;
};

struct ferryi_gpu_stream {
    struct fake_queue *queue; /* NULL: a free slot */
    struct ferryi_gpu_stream *next_free;
};

/* The time of an event's last record. The event and the queued work that writes the time share
 * ownership of this struct. The last owner frees it. */
struct fake_reached {
    int holders;
    uint64_t ns;
};

struct ferryi_gpu_event {
    struct ferryi_gpu_event *next_free;
    bool live, timed;
    struct fake_shared_event *shared; /* NULL: an event of this process alone */
    /* time of the last record if the event is timed; otherwise NULL */
    struct fake_reached *reached;
    fake_context *context, *green;
    struct fake_point point; /* queue NULL: never recorded */
    struct fake_capture *capture;
};

struct ferryi_gpu_module {
    struct ferryi_gpu_module *next;
    fake_context *context;
    struct ferryi_gpu_function *functions;
    char *text;
};

struct ferryi_gpu_function {
    struct ferryi_gpu_function *next;
    struct ferryi_gpu_module *module;
    char *name;
    int static_bytes, shared_bytes; /* static shared memory; limit of dynamic shared memory */
    bool loaded;                    /* used only under the rule FAKE_STRICT_LOAD */
    int parameter_count;            /* -1 if the PTX has no parameter list */
    size_t parameters[FAKE_PARAMETERS];
};

struct ferryi_gpu_context {
    int device;
    int retained; /* 0: the context does not exist */
    unsigned long long id;
    bool ending; /* whether a thread is destroying this context and has released `fake_lock` */
    fake_result error; /* the fault that ended the context; 0: none */
    struct fake_queue *queues;
    struct fake_queue *legacy;
    struct ferryi_gpu_module *modules;
    size_t used_bytes;
    unsigned peers;
    /* of a green context: the primary context, which has everything but the context's streams and
     * events; NULL for a primary context */
    fake_context *primary;
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

/* What other processes find memory or an event by: a file without a name in the file system, which
 * is open in a process. It is the token of the memory or of the event. */
struct fake_token {
    uint64_t number; /* drawn at random */
    uint64_t bytes;  /* size of the file */
    pid_t process;
    int file; /* the descriptor of that process */
    char unused[40];
};

/* Device memory that processes can share. */
struct fake_shared {
    struct fake_token token;
    int opened; /* how often this process has opened it; 0 in the process that allocated it */
};

struct fake_block {
    struct fake_block *next;
    enum fake_kind kind;
    fake_context *context;
    char *memory;
    size_t bytes;
    char *view;  /* second address, which the device uses, of memory that the host cannot always
                    access; otherwise NULL */
    void *whole; /* start of the allocation if `memory` is not its start; otherwise NULL */
    struct fake_shared *shared; /* NULL: memory of this process alone */
};

extern pthread_mutex_t fake_lock;

/* The state of the fake driver, which `fake_lock` protects. */
extern struct fake_state {
    bool started, lazy;
    bool broken_peers; /* whether copies between devices write wrong bytes */
    bool ended;        /* whether exit() was called, which deinitializes the driver */
    pid_t process;     /* the process that called cuInit() first */
    int devices;
    size_t memory_bytes;
    fake_context contexts[FAKE_DEVICES_MAX];
    struct fakecuda_live live;
    uint64_t pageable_copies;
    int last_location;
    unsigned strict;  /* bits of enum fake_rule */
    unsigned kernels; /* number of kernels of all contexts that are queued and not finished */
    unsigned batches; /* number of batches under the rule FAKE_STRICT_BATCH */
} fake;

enum {
    FAKE_NEEDS_CONTEXT = 1, /* the call needs a current context that has not ended */
    FAKE_UNSAFE = 2,        /* a capture forbids the call unless its mode is relaxed */
};

/* Begins an entry point: counts the call, checks that it is allowed, and locks `fake_lock`. If this
 * function returns an error, `fake_lock` is not locked. */
fake_result fake_begin(enum fake_entry entry, int needs, fake_context **out_context);
fake_result fake_end(fake_result result);

#define FAKE_BEGIN(name, needs, context)                                                           \
    do {                                                                                           \
        fake_result result_ = fake_begin(FAKE_##name, (needs), (context));                         \
        if (result_ != FERRYI_GPU_SUCCESS)                                                         \
            return result_;                                                                        \
    } while (0)

uint64_t fake_thread(void);
/* Returns the green context that is current in the calling thread, or NULL. */
fake_context *fake_green(void);
/* Records whether the calling thread is running a host function. */
void fake_host_function(bool runs);
/* Returns the value of a device attribute, which is the same for all devices. The caller must hold
 * `fake_lock`. */
int fake_attribute(int attribute);
/* Returns the CUDA driver's number of an attribute that has the given number in this build, or -1.
 */
int fake_attribute_number(unsigned attribute);
bool fake_is_fatal(fake_result code);

/* Functions of fakecuda_queue.c. The caller of each function must hold `fake_lock`. */
struct fake_queue *fake_queue_new(fake_context *context, bool blocking);
void fake_queue_drop(struct fake_queue *queue);
fake_result fake_queue_of(fake_context *context, ferryi_gpu_stream stream, struct fake_queue **out);
/* Returns the queue of a stream that a call only queries. In contrast to fake_queue_of(), accepts
 * streams of other contexts. */
fake_result fake_any_queue_of(fake_context *context, ferryi_gpu_stream stream,
                              struct fake_queue **out);
/* Queues work and takes ownership of `payload`, even on failure. `payload` must be NULL or
 * allocated by malloc(). */
fake_result fake_enqueue(struct fake_queue *queue, fake_result (*run)(void *), void (*drop)(void *),
                         void *payload, const struct fake_point *after);
void fake_hold(struct fake_point *point, struct fake_queue *queue, uint64_t number);
void fake_wait(struct fake_queue *queue, uint64_t number);
void fake_want(struct fake_queue *queue, uint64_t number);
void fake_wait_context(fake_context *context);
void fake_context_start(fake_context *context);
void fake_context_end(fake_context *context);
void fake_reap(fake_context *context);

/* Functions of fakecuda_capture.c. The caller of each function must hold `fake_lock`. */
bool fake_capture_forbids(void);
fake_result fake_capture_check(struct fake_queue *queue);
/* Adds work that was queued on a captured stream to the graph of the capture. */
void fake_capture_keep(struct fake_capture *capture, struct fake_work *work);
bool fake_capture_of_context(fake_context *context, bool invalidate);

/* Functions of fakecuda_stream.c, fakecuda_memory.c and fakecuda_code.c. Those whose names end in
 * "_end" destroy the objects of a context that ends. */
void fake_handles_end(fake_context *context);
bool fake_stream_is_live(ferryi_gpu_stream stream);
void fake_blocks_end(fake_context *context);
void fake_modules_end(fake_context *context);

/* Returns the allocated or registered block that contains the whole range, or NULL. Defined in
 * fakecuda_memory.c. */
struct fake_block *fake_block_of(const void *memory, size_t bytes);
/* Returns the block of reserved addresses that contains the whole range, if memory is mapped there
 * and any device may access it; otherwise NULL. Defined in fakecuda_range.c, as the next one. */
struct fake_block *fake_range_block(const void *memory, size_t bytes);
/* Returns whether one of the devices of the set may access the memory. True for memory that is not
 * at reserved addresses. */
bool fake_range_grants(const void *memory, size_t bytes, unsigned readers);
/* Maps a file as the memory of a block. If `twice`, the device has a second address, and if
 * `closed`, the host has no access through its own. Returns false, with no effect, if the system
 * refuses. */
bool fake_map(struct fake_block *block, int file, bool twice, bool closed);
/* Adds a copy of a block with memory to the list of blocks. */
bool fake_add_block(const struct fake_block *plan);
/* Removes a block and frees its memory. */
void fake_remove_block(struct fake_block *block);
/* Returns the block that begins at the address, even if its memory is that of a process that has
 * freed it, or NULL. */
struct fake_block *fake_block_at(const void *memory);
/* Returns the block whose memory this context has opened under this number, or NULL. */
struct fake_block *fake_block_opened(const fake_context *context, uint64_t number);
/* Creates an event of this context, or returns NULL. */
struct ferryi_gpu_event *fake_event_new(fake_context *context, bool timed,
                                        struct fake_shared_event *shared);
bool fake_event_is_live(ferryi_gpu_event event);

/* Functions of fakecuda_shared.c. */

/* Returns whether device memory of this size can be shared. */
bool fake_can_share(size_t bytes);
/* Maps memory that can be shared as that of a block. */
bool fake_shared_map(struct fake_block *block, bool private);
/* Frees what fake_shared_map() made, except for the mapping. */
void fake_shared_end(struct fake_shared *shared);
/* Returns whether the block is memory that another process allocated; fake_shared_is_gone() returns
 * whether that process has freed it, or has ended. */
static inline bool
fake_shared_is_opened(const struct fake_block *block)
{
    return block->shared && block->shared->opened > 0;
}
bool fake_shared_is_gone(const struct fake_block *block);

/* Returns NULL if the system refuses. */
struct fake_shared_event *fake_shared_event_new(void);
void fake_shared_event_drop(struct fake_shared_event *event);
/* Returns whether the event of another process was destroyed there, so that no call may use it. */
bool fake_shared_event_is_gone(const struct fake_shared_event *event);
/* Queues a record, or a wait for the last record of any process. */
fake_result fake_shared_event_record(struct fake_shared_event *event, struct fake_queue *queue);
fake_result fake_shared_event_await(struct fake_shared_event *event, struct fake_queue *queue);
/* Returns whether the last record has ended. fake_shared_event_wait() waits until it has, and
 * releases the lock meanwhile. */
bool fake_shared_event_has_ended(const struct fake_shared_event *event);
void fake_shared_event_wait(struct fake_shared_event *event);

/* Returns whether only a part of the range is registered. */
bool fake_is_registered_in_part(const void *memory, size_t bytes);
/* Returns the address at which the device reaches `memory`. */
void *fake_view(const void *memory);
/* fake_kernel_begins() must be called after a kernel was queued, and fake_kernel_ends() after the
 * kernel has finished. */
void fake_kernel_begins(void);
void fake_kernel_ends(void);
static inline bool
fake_is_of_device(const struct fake_block *block)
{
    return block->kind == FAKE_DEVICE;
}

/* Spins for the time that FAKECUDA_COST sets for the entry point. The caller must not hold
 * `fake_lock`. Defined in fakecuda_cost.c. */
void fake_cost_spin(enum fake_entry entry);

#endif
