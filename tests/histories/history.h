/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories of the public calls, checked against plain arrays.
 *
 * A history is a string of bytes, eight to a step, and any string is one: the same interpreter
 * plays random bytes of a seed, the input of a fuzzer, and what is left of a failing history while
 * it is made shorter. A step names what is done, to which ranges of which buffers, at which place
 * or on which stream; what cannot be done at that moment is passed over.
 *
 * Several players may play at once, each on its own thread with the steps that are dealt to it.
 * They share two buffers, of which each owns a region, and have two of their own, so that what
 * every element must be is known at every moment. Any player resizes the shared buffers behind the
 * others' regions; an element that a resize may have cut is its old value or zero until it is
 * written or read again (race.c).
 *
 * As it goes, a player can write each step down as C. The history of one player is written as a
 * program over printed.h that does the same again; of several players, whose outcomes differ each
 * time, the program plays the steps again with their oracle.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/copy.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"
#include "tests/histories/loan.h"

/* Raw accesses beside calls of other players are races to the thread sanitizer. */
#if defined(__SANITIZE_THREAD__)
#define MAY_RACE false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAY_RACE false
#endif
#endif
#ifndef MAY_RACE
#define MAY_RACE true
#endif

enum {
    STEP_BYTES = 8,
    WRAP_SHIFTS = 16,
    LENGTH_MAX =
        3000, /* elements of a buffer: three chunks of the staging ring, the last one short */
    PLAYERS_MAX = 4,
    SHARED = 2, /* buffers of all players */
    SUBJECTS = SHARED + 2 * PLAYERS_MAX,
    VIEWS = 3,
    STREAMS_MAX = 90,
    STALE = 4,
    PENDING = 4,
    LOANS = 3
};

/* How a history is played. */
struct history_setup {
    const char *device;  /* list of devices as FERRY_DEVICE takes it; a second word "lazy" makes the
                            driver or the wrapped device lazy */
    unsigned players;    /* 1 to PLAYERS_MAX */
    unsigned streams;    /* of each player */
    size_t memory;       /* limit of each device in bytes; 0: none */
    uint64_t interleave; /* seed of the interleaver (tests/support/interleave.h); 0: none */
    unsigned seconds; /* without the end of a step until SIGALRM ends the process; 0: any number */
    FILE *scripts[PLAYERS_MAX]; /* each receives the calls of one player as C; NULL: none */
};

/* A view that was left open. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* How many elements a shared buffer has while players resize it. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing;       /* calls that run now */
    uint64_t started;        /* calls so far */
    size_t low, high;        /* bounds of the count; equal while no call runs */
    size_t cut[PLAYERS_MAX]; /* the least count since the player looked */
    size_t asked[64];        /* counts of the last calls */
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count; /* of one that players resize at once: when it was made, which is how regions are
                     dealt */
    struct view views[PLAYERS_MAX * VIEWS]; /* VIEWS of each player */
    unsigned pins[PLAYERS_MAX][16];
    struct race race;
    bool shared, wrapped;
    bool imported;      /* it is a wrap, made of a tensor */
    atomic_int deleted; /* calls of the tensor's deleter */
    bool scrub; /* what an OVERWRITE leaves out reads as zero: a range is cleared before it is
                   overwritten */
    bool doubtful[LENGTH_MAX];    /* it is as expected, or zero, because a resize may have cut it */
    bool written[LENGTH_MAX];     /* since the buffer was made or the element was added */
    int32_t expected[LENGTH_MAX]; /* now */
    int32_t next[LENGTH_MAX];     /* if the call that runs succeeds */
    int32_t memory[LENGTH_MAX +
                   WRAP_SHIFTS]; /* that a wrap borrows, from its element `wrap_shift` on */
    size_t wrap_shift;
};

/* An asynchronous call that was not waited for. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* of what it reads: rows of `width` elements */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Steps played and failures injected. */
struct history_counts {
    uint64_t steps, busy, injected, failed, short_of_memory, evicted, cut;
};

struct target {
    struct subject *subject;
    ferry_buffer *handle;
    char name[16];        /* in the script */
    size_t offset, count; /* in the handle */
    size_t begin;         /* in the buffer */
};

/* What a player keeps over the next steps: a scope that reads at the host, or a lease. */
struct held {
    struct loan loan;
    struct target t; /* of the base; no subject: its buffer has no handle any more */
    bool used, open; /* a closed lease keeps its memory only */
    ferry_access access;
    int place;
    unsigned stream; /* of the holder's work on a device, whether Ferry knows of it or not */
    char label[24];
    int32_t expected[LENGTH_MAX]; /* in its memory, while it is open */
};

struct player {
    struct world *world;
    unsigned number;
    size_t step;
    const char *name; /* of the step */
    const unsigned char *bytes;
    FILE *script;
    ferry_stream *streams[STREAMS_MAX + LOANS]; /* those of the steps, and one of each loan, on
                                                   which no step has other work */
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* one more of the context */
    ferry_scope stale[STALE]; /* copies of scopes that were closed */
    size_t next_stale;
    struct target second; /* the other range of this step's calls; no subject: there is none */
    struct window {       /* what the player knew of the shared buffers when the call began */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* a point in a stream */
    int32_t next_value;
    uint64_t
        arm; /* this call of the device, or of malloc(), fails in the next call but `arm_later` */
    unsigned arm_later;
    bool arm_memory, armed, tripped; /* tripped: some call was made to fail */
    struct history_counts counts;
    int32_t *pinned; /* LENGTH_MAX of them, for copies by the device */
    int32_t values[LENGTH_MAX];
    double doubles[LENGTH_MAX];
};

struct world {
    fixture f;
    work w;
    ferry_kernel *failing;
    struct history_setup setup;
    void *pinned; /* page-locked memory of the device at this place; 0: of the fixture */
    int pinned_place;
    bool injects;          /* the devices can be made to fail */
    atomic_bool unlimited; /* a player has taken the limit of a pool away for now */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* The context and what all players use; the printed program uses it too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Play a history. A failure prints what went wrong and ends the process with abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Of all histories of this process; players' are added at the end of each. */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* A step's code from a number, so that frequent steps come often. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Steps that history_code() does not choose: their names with commas between. The string is kept.
 */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* A second one of the same length; the first may be shortened. */
struct target choose_second(struct player *p, struct target *first);
/* The whole region of the subject that this player owns. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Six bits that say how a step is done. */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);
/* This player's views and pins of a subject. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Do others use this buffer meanwhile? */
bool is_racing(const struct player *p, const struct subject *subject);
/* Around a call that resizes it: the bounds of its count are those of all calls that run. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Elements that a resize may have cut since the last time become doubtful. */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Was no resize running since the windows were opened? */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* May a call on this range have met a buffer that was shorter? And must it have? */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Was the buffer perhaps of this length? */
bool race_knows_count(struct subject *subject, size_t count);
/* Is the value right for the element? What is read of a doubtful one is what is expected from now
 * on. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies what the range has now into p->values; returns how many elements are there. */
size_t read_now(struct player *p, const struct target *target);
/* The failure that waits for the call is called off; true when the call met it. */
bool disarm(struct player *p);
/* Are values that the call takes from the second range perhaps cut by a resize, and zero? */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Before a call that may change the target: `next` becomes what is expected now, to be edited.
 * Injected failures begin here. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failure each element may be old or new */
    WHOLE_BUFFER = 2, /* it is about more than the range, so that other players may be in its way */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES =
        8,     /* with scrub a refused one has cleared the range, where only its place held it */
    READS = 16 /* what was never written stays so */
};

/* After it: true when it was done and `next` is now expected. Failures that may not be end the
 * process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* A call that must succeed. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Every fourth call that takes options runs in chunks, every eighth is stopped in the middle. */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* The argument in C, with a comma before it; nothing where none is used. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* As end_call() by chunks. A call that was stopped has done some of its chunks; which ones its
 * buffer knows. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` values that no other step uses; returns the first. */
int32_t fresh(struct player *p, size_t count);
/* These are the values that the range must have now. */
/* What lies between the rows was not read. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Through ferry_buffer_copy_to(), all that the player owns. */
void expect_subject(struct player *p, struct subject *subject);
/* The end of a message whose beginning is printed, and of the program. */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The line that compares memory with what the range must have. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* What a call that ended in the middle came to may differ the next time: the line makes it so. */
void say_outcome(struct player *p, const struct target *target);
/* Or that does something else, such as "put", with values. */
void say_values(struct player *p, const char *what, const char *memory, const int32_t *values,
                size_t count);

/* -- steps ------------------------------------------------------------------------------------- */

struct step {
    const char *name;
    void (*run)(struct player *p);
    unsigned weight;
};

/* Each ends with a NULL name. */
extern const struct step use_steps[], scope_steps[], lend_steps[], copy_steps[], place_steps[],
    life_steps[], kernel_steps[], scene_steps[];

extern const char *const access_names[];
ferry_stream *stream_for(struct player *p);
/* Each opens a scope, which is said to be `scope` and `memory`; false when it was not opened, as
 * may be. */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* From its element `skip` on the range has this value from now on. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Remember a scope that is about to be closed, to close its copy again later. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Wait for everything asynchronous of this player, and check what it brought. */
void drain(struct player *p);

/* Whether a kept scope or lease overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* May a call have met one, so that it is BUSY? */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* All end that keep something of the subject; of NULL: all. */
void release_held(struct player *p, const struct subject *subject);
/* A buffer's last handle goes after its scopes. */
void release_scopes(struct player *p, const struct subject *subject);
/* Those end that meet the range; the ones that write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* The subject's last handle has gone: its leases stay, unless they are to see the wrapped memory.
 */
void orphan_held(struct player *p, const struct subject *subject);
/* After a write that was abandoned, and would have made `next` of the range. */
void settle_abandoned(struct player *p, const struct target *target);
/* Make a new buffer for the subject, which has none. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* With its views; of a wrap, the memory is checked, unless it is abandoned. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
