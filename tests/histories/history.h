/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories: sequences of public calls whose results are checked against plain arrays.
 *
 * A history is a string of bytes, eight for each step. Any string is a valid history. One
 * interpreter plays the random bytes of a seed, the input of a fuzzer, and a failing history that
 * is being shortened. A step selects an operation, ranges of buffers, and a place or stream. The
 * interpreter skips an operation that is impossible at that moment.
 *
 * A player is a thread that plays its own steps of the history. Several players may run at the same
 * time. They share two buffers, in which each player owns a region. Each player has two more
 * buffers that no other player uses. So the expected value of every element is always known. Any
 * player may resize the shared buffers while others use their regions. A resize may cut an element
 * and add it again. Such an element has its old value or zero until it is written or read (race.c).
 *
 * The test can print each step as C code. The history of one player is printed as a program that
 * includes printed.h and repeats the same calls. With several players, the results differ between
 * runs. So their printed program plays the steps again and checks the results with the oracle
 * (oracle.c).
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/copy.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"
#include "tests/histories/loan.h"

/* MAY_RACE is false under the thread sanitizer. It would report a data race if one thread of a
 * history accesses memory directly during calls of other threads. */
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
    LENGTH_MAX = 3000, /* maximum number of elements of a buffer; fills two chunks of the staging
                          ring and part of a third */
    PLAYERS_MAX = 4,
    SHARED = 2, /* number of buffers that all players share */
    SUBJECTS = SHARED + 2 * PLAYERS_MAX,
    VIEWS = 3,
    STREAMS_MAX = 90,
    STALE = 4,
    PENDING = 4,
    LOANS = 3
};

/* Settings with which a history is played. */
struct history_setup {
    const char *device; /* list of devices in the format of FERRY_DEVICE; the second word "lazy"
                           makes the device delay its work until a call waits for or queries it */
    unsigned players;   /* 1 to PLAYERS_MAX */
    unsigned streams;   /* number of streams of each player */
    size_t memory;      /* limit of each device in bytes; 0: none */
    /* seed of the interleaver, which varies the order of the threads (tests/support/interleave.h);
     * 0: no interleaver */
    uint64_t interleave;
    unsigned seconds; /* maximum time of a step in seconds, after which SIGALRM ends the process; 0:
                         no limit */
    FILE *scripts[PLAYERS_MAX]; /* files to which the calls of each player are written as C code;
                                   NULL: not written */
};

/* A view of a buffer that one thread of a history keeps while it plays later steps. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* Smallest and largest possible number of elements of a shared buffer while threads of a history
 * resize the buffer. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing; /* number of resizes that run now */
    uint64_t started;  /* number of resizes that have started so far */
    /* smallest and largest possible number of elements; equal while no resize runs */
    size_t low, high;
    size_t cut[PLAYERS_MAX]; /* for each player, the smallest number of elements since the player
                                last called race_look() */
    size_t asked[64];        /* numbers of elements that the latest 64 resizes requested */
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count; /* number of elements; for a shared buffer, the number when it was created, which
                     determines the region of each player */
    struct view views[PLAYERS_MAX * VIEWS]; /* each player has VIEWS of them */
    unsigned pins[PLAYERS_MAX][16];
    struct race race;
    bool shared, wrapped;
    bool imported;      /* whether the wrap was imported from a tensor */
    atomic_int deleted; /* number of calls of the tensor's deleter */
    bool scrub; /* whether an OVERWRITE clears its range first, so that elements that are never
                   written read as zero */
    bool doubtful[LENGTH_MAX]; /* whether the element may be zero instead of its expected value,
                                  because a resize may have cut it */
    bool written[LENGTH_MAX];  /* whether the element was written since the buffer's creation or the
                                  resize that added it */
    int32_t expected[LENGTH_MAX]; /* present value of each element */
    int32_t next[LENGTH_MAX];     /* value of each element if the current call succeeds */
    int32_t memory[LENGTH_MAX + WRAP_SHIFTS]; /* memory of a wrap; the wrap begins at element
                                                 `wrap_shift` of this array */
    size_t wrap_shift;
};

/* An asynchronous call whose end its thread has not waited for yet. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* layout of the elements that the call reads: rows of `width`
                                   elements, `pitch` elements apart */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Counts of the steps of a history, of the failures that it injected, and of the outcomes of its
 * calls. */
struct history_counts {
    uint64_t steps, busy, injected, failed, short_of_memory, evicted, cut;
};

struct target {
    struct subject *subject;
    ferry_buffer *handle;
    char name[16];        /* name of the handle in the script */
    size_t offset, count; /* range, relative to the handle */
    size_t begin;         /* offset, relative to the buffer */
};

/* A loan that one thread of a history keeps open while it plays later steps. A loan is a lease, or
 * a scope that reads on the host. */
struct held {
    struct loan loan;
    /* range of the loan in its base buffer; `t.subject` is NULL after the last handle of the buffer
     * was destroyed */
    struct target t;
    bool used, open; /* used: whether this entry has a loan, which may be a closed lease whose
                        memory still exists; open: whether the loan is open */
    ferry_access access;
    int place;
    /* number of the stream on which the device work of the loan runs, even if the call that opened
     * the loan named no stream */
    unsigned stream;
    char label[24];
    int32_t expected[LENGTH_MAX]; /* values in its memory while it is open */
};

struct player {
    struct world *world;
    unsigned number;
    size_t step;
    const char *name; /* name of the step */
    const unsigned char *bytes;
    FILE *script;
    /* STREAMS_MAX streams for the steps, and after them one stream for each loan; steps use the
     * latter only for that loan */
    ferry_stream *streams[STREAMS_MAX + LOANS];
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* an additional owner of the context */
    ferry_scope stale[STALE]; /* copies of scopes that were closed */
    size_t next_stale;
    struct target second; /* second range that the step uses; its `subject` is NULL if the step has
                             no second range */
    struct window {       /* length and resizes of each shared buffer when the current call began */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* an event recorded on a stream */
    int32_t next_value;
    uint64_t arm; /* number of the device call or malloc() that fails in a later library call; 0:
                     none; the next `arm_later` library calls are not affected */
    unsigned arm_later;
    bool arm_memory, armed, tripped; /* tripped: whether a failure was injected */
    struct history_counts counts;
    int32_t *pinned; /* page-locked memory for LENGTH_MAX elements, which the device copies to and
                        from */
    int32_t values[LENGTH_MAX];
    double doubles[LENGTH_MAX];
};

struct world {
    fixture f;
    work w;
    ferry_kernel *failing;
    struct history_setup setup;
    void *pinned; /* page-locked memory from the device at `pinned_place`; from the fixture if
                     `pinned_place` is 0 */
    int pinned_place;
    bool injects; /* whether the devices can be made to fail */
    atomic_bool
        unlimited; /* whether a thread of the history has temporarily lifted the limit of a pool */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* Opens the context and the other objects that all threads of a history use. Printed programs call
 * this function too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Plays a random history. If a check fails, prints a message and ends the process with abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Sums of the counts of all histories that have ended in this process. */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* Maps a random number to the code of a step. Frequent steps have more numbers than rare steps. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Excludes steps from the results of history_code(). `names` is a list of names of steps, separated
 * by commas. The string must stay valid, because the function does not copy it. */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* Chooses a second range that is as long as `first`. Shortens `first` if a range of its length does
 * not fit. */
struct target choose_second(struct player *p, struct target *first);
/* Returns the bounds of the region of a buffer in which only player `p` writes. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Returns six bits of the current step of the history. The bits select a variant of the operation.
 */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);
/* views_of() returns the views of a buffer that player `p` has. pins_of() returns how often the
 * player has pinned the buffer at each place. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Returns whether other players may use this buffer at the same time. */
bool is_racing(const struct player *p, const struct subject *subject);
/* race_begin() must be called before a resize, and race_end() after the resize. While resizes run,
 * the bounds of the length include the number of elements that each resize requested. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Marks each element as doubtful that a resize may have cut since the previous call of race_look().
 * A doubtful element may be zero. */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Returns whether the buffer was not resized after the latest call of race_open_windows(). */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* Both functions compare a range with the lengths that the buffer had during the last call.
 * race_may_be_short() returns whether the range may have exceeded the buffer. race_must_be_short()
 * returns whether the range must have exceeded it. */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Returns whether `count` is the buffer's initial number of elements, or a number that a recent
 * resize requested. */
bool race_knows_count(struct subject *subject, size_t count);
/* Returns whether `value` is legal for element `at` of the buffer. If the element may have been cut
 * by a resize and `value` is legal, `value` becomes the expected value. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies the present values of the range to p->values. Returns the number of elements copied. This
 * number is smaller than the range if the buffer ends inside the range. */
size_t read_now(struct player *p, const struct target *target);
/* Cancels an injected failure that has not occurred yet. Returns whether the failure has already
 * occurred. */
bool disarm(struct player *p);
/* Returns whether a resize may have cut elements of the second range of a call. If so, the call may
 * have read zeros from these elements. */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Must be called before a call that may change the target range. Copies the expected values to
 * `next`, and the step then edits `next`. May make the call fail. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failed call, each element may have its old or its new value */
    WHOLE_BUFFER = 2, /* the call uses more of the buffer than the range, so it may conflict with
                         other players */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES = 8,   /* a failed call may have cleared the range if the buffer has `scrub` and was
                         current only at the place of the call */
    READS = 16        /* the call writes nothing */
};

/* Must be called after a call that may change the target range. If the call succeeded, `next`
 * becomes the expected values and the function returns true. A failure that is not legal ends the
 * process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* Checks that the call succeeded. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Options of a copy in a random history. Every fourth copy runs in chunks. Half of the copies in
 * chunks are cancelled before their end. */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* Writes the options of a copy to `text` as C code: a comma and one argument of a call. `text`
 * becomes empty if the copy has no options. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* Replaces end_call() after a copy that commits its chunks one by one. A cancelled copy has
 * committed only some chunks. The values in the buffer show which ones. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` consecutive values that no other step uses. Returns the first one. */
int32_t fresh(struct player *p, size_t count);
/* expect_rows() and expect_range() check that a range of a buffer has these values. expect_rows()
 * ignores the elements between the rows. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Reads the player's elements of a buffer with ferry_buffer_copy_to(), and checks their values. */
void expect_subject(struct player *p, struct subject *subject);
/* Prints the end of an error message and ends the program. The caller has already printed the start
 * of the message. */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line of the printed program. The line compares `memory` with the expected values of the
 * range. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* Writes a line of the printed program after a call that was interrupted. The line overwrites the
 * range with the expected values, because the interrupted call may leave different values in each
 * run. */
void say_outcome(struct player *p, const struct target *target);
/* Writes a line of the printed program. The line calls the function named `what`, such as "put",
 * with these values. */
void say_values(struct player *p, const char *what, const char *memory, const int32_t *values,
                size_t count);

/* -- steps ------------------------------------------------------------------------------------- */

struct step {
    const char *name;
    void (*run)(struct player *p);
    unsigned weight;
};

/* Each array ends with a NULL name. */
extern const struct step use_steps[], scope_steps[], lend_steps[], copy_steps[], place_steps[],
    life_steps[], kernel_steps[], scene_steps[];

extern const char *const access_names[];
ferry_stream *stream_for(struct player *p);
/* open_host() and open_device() open a scope. The printed program names the scope `scope` and its
 * memory `memory`. Both functions return false if the library refused the scope for a legal reason.
 */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* Makes `value` the expected value of `count` elements of a range. The first of these elements has
 * index `skip` in the range. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Stores a copy of an open scope. A later step closes the copy after the scope itself was closed;
 * this must have no effect. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Waits for all asynchronous calls of player `p`, and checks their results. */
void drain(struct player *p);

/* Returns whether an open loan of the player overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* Returns whether an open loan may have conflicted with a call on the target range. If so,
 * FERRY_ERROR_BUSY is a legal result of the call. */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* Ends the player's loans of one buffer, or all loans of the player if `subject` is NULL. */
void release_held(struct player *p, const struct subject *subject);
/* Closes the player's open scopes on a buffer. Must be called before the last handle of the buffer
 * is destroyed. */
void release_scopes(struct player *p, const struct subject *subject);
/* release_beside() ends all loans that overlap the target range. release_writers() ends only the
 * overlapping loans that may write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* Must be called after the last handle of a buffer was destroyed. The leases of the buffer stay
 * open, except leases of wrapped memory. */
void orphan_held(struct player *p, const struct subject *subject);
/* Reads the range after a write was abandoned. Each element must have its old value, or the value
 * in `next` that the write would have committed. The values that were read become the expected
 * values. */
void settle_abandoned(struct player *p, const struct target *target);
/* Creates the buffer of a subject, which is one of the buffers that a random history uses. The
 * subject must have no buffer. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* Destroys a buffer of the history and its views. If the buffer was a wrap and was not abandoned,
 * the wrapped memory is then checked. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
