/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories of the public calls, checked against plain arrays.
 *
 * A history is a string of bytes, eight for each step. Any string is a valid history. One
 * interpreter plays the random bytes of a seed, the input of a fuzzer, and a failing history that
 * is being shortened. A step selects an operation, ranges of buffers, and a place or stream. The
 * interpreter skips an operation that is impossible at that moment.
 *
 * Several players may run at the same time, each on its own thread with its own steps. They share
 * two buffers, in which each player owns a region. Each player has two more buffers that no other
 * player uses. So the expected value of every element is always known. Any player may resize the
 * shared buffers while others use their regions. A resize may cut an element and add it again. Such
 * an element has its old value or zero until it is written or read (race.c).
 *
 * The test can print each step as C code. The history of one player is printed as a program over
 * printed.h that repeats the same calls. The results of several players differ between runs, so
 * their printed program plays the steps again and checks them with the oracle.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/copy.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"
#include "tests/histories/loan.h"

/* MAY_RACE is false under the thread sanitizer, which reports a data race if a player accesses
 * memory directly during calls of other players. */
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
    LENGTH_MAX = 3000, /* maximum number of elements of a buffer: three chunks of the staging ring,
                          of which the last is short */
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
    const char *device; /* list of devices in the format of FERRY_DEVICE; a second word "lazy" makes
                           the driver, or the device that is wrapped, run its work lazily */
    unsigned players;   /* 1 to PLAYERS_MAX */
    unsigned streams;   /* number of streams of each player */
    size_t memory;      /* limit of each device in bytes; 0: none */
    /* seed of the interleaver (tests/support/interleave.h); 0: no interleaver */
    uint64_t interleave;
    unsigned seconds; /* maximum time of a step in seconds, after which SIGALRM ends the process; 0:
                         no limit */
    FILE *scripts[PLAYERS_MAX]; /* files to which the calls of each player are written as C; NULL:
                                   not written */
};

/* A view that a player keeps while it plays later steps. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* Bounds of a shared buffer's number of elements while players resize the buffer. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing; /* number of resizes that run now */
    uint64_t started;  /* number of resizes that have started so far */
    /* smallest and largest possible number of elements; equal while no resize runs */
    size_t low, high;
    size_t cut[PLAYERS_MAX]; /* for each player, the smallest number of elements since its last call
                                of race_look() */
    size_t asked[64];        /* numbers of elements that the latest 64 resizes requested */
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count; /* number of elements; for a shared buffer the number at its creation, which
                     determines the regions */
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

/* An asynchronous call whose end the player has not waited for yet. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* layout of the elements that the call reads: rows of `width`
                                   elements, `pitch` elements apart */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Counts of steps, injected failures and outcomes of calls. */
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

/* A loan that a player keeps open while it plays later steps: a lease, or a scope that reads on the
 * host. */
struct held {
    struct loan loan;
    /* range of the loan in its base buffer; `subject` is NULL after the last handle of the buffer
     * was destroyed */
    struct target t;
    bool used, open; /* used: whether the slot is occupied, even by a closed lease whose memory
                        still exists; open: whether the loan is open */
    ferry_access access;
    int place;
    /* stream on which the loan's device work runs, whether or not the opening call named it */
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
    /* STREAMS_MAX streams for the steps, then one stream for each loan, which no step uses
     * otherwise */
    ferry_stream *streams[STREAMS_MAX + LOANS];
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* an additional owner of the context */
    ferry_scope stale[STALE]; /* copies of scopes that were closed */
    size_t next_stale;
    struct target second; /* second range that the calls of the step use; `subject` is NULL if there
                             is none */
    struct window {       /* state of each shared buffer at the beginning of the current call */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* an event recorded on a stream */
    int32_t next_value;
    uint64_t arm; /* which device call or malloc() fails in a later library call; 0: none; the first
                     `arm_later` library calls are not affected */
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
    bool injects;          /* whether the devices can be made to fail */
    atomic_bool unlimited; /* whether a player has temporarily lifted the limit of a pool */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* Opens the context and the other objects that all players use. Printed programs call this function
 * too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Plays a history. If a check fails, prints a message and ends the process with abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Sums over all histories of this process. When a history ends, the counts of its players are
 * added. */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* Maps a random number to the code of a step. More numbers map to a frequent step than to a rare
 * one. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Excludes steps from the results of history_code(). `names` is a list of names separated by
 * commas. The string must stay valid, because the function does not copy it. */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* Chooses a second range with the same length as `first`. If there is not enough room, shortens
 * `first`, so that both ranges have equal lengths. */
struct target choose_second(struct player *p, struct target *first);
/* Returns the bounds of the region that player `p` owns in the subject. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Returns six bits of the current step, which select a variant of the operation. */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);
/* views_of() returns the views, and pins_of() the numbers of pins, that player `p` has of the
 * subject. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Returns whether other players may use this buffer at the same time. */
bool is_racing(const struct player *p, const struct subject *subject);
/* race_begin() must be called before a resize, and race_end() after the resize. While resizes run,
 * the bounds include the number of elements that each of them requested. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Marks elements as doubtful that a resize may have cut since the previous call of race_look(). */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Returns whether the buffer has not been resized since race_open_windows() was called. */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* race_may_be_short() returns whether a call on this range may have found the buffer too short for
 * the range. race_must_be_short() returns whether the call must have found the buffer too short. */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Returns whether `count` is the initial number of elements, or one that a recent resize requested.
 */
bool race_knows_count(struct subject *subject, size_t count);
/* Returns whether `value` is legal for the element at `at`. If the element is doubtful and `value`
 * is legal, `value` becomes the expected value. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies the present values of the range to p->values. Returns the number of elements copied, which
 * is smaller than the range if the buffer ends inside the range. */
size_t read_now(struct player *p, const struct target *target);
/* Cancels the failure that is armed. Returns whether the failure has already occurred. */
bool disarm(struct player *p);
/* Returns whether a resize may have cut elements of the second range, so that the call may have
 * read zeros from these elements. */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Must be called before a call that may change the target. Copies the expected values to `next`,
 * where the step then edits them. Arms an injected failure. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failure each element may have its old or its new value */
    WHOLE_BUFFER = 2, /* the call uses more of the buffer than the range, so it may conflict with
                         other players */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES = 8, /* if the call fails, it may have cleared a range with `scrub` that was current
                       only at its place */
    READS = 16      /* the call writes nothing */
};

/* Must be called after a call that may change the target. If the call succeeded, `next` becomes the
 * expected values and the function returns true. A failure that is not legal ends the process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* Checks that the call succeeded. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Options of a copy. Every fourth copy runs in chunks. Half of those copies are cancelled before
 * their end. */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* Writes the options to `text` as an argument of a call in C, with a comma before it. If the call
 * has no options, `text` becomes empty. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* Does the work of end_call() for a copy that commits its chunks one by one. A cancelled copy has
 * committed some of its chunks. The values in the buffer show which ones. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` consecutive values that no other step uses. Returns the first one. */
int32_t fresh(struct player *p, size_t count);
/* expect_rows() and expect_range() check that the range has these values. expect_rows() ignores the
 * elements between the rows. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Reads the elements of the subject that the player owns with ferry_buffer_copy_to(), and checks
 * their values. */
void expect_subject(struct player *p, struct subject *subject);
/* Prints the second part of a message and ends the program. The caller has printed the first part.
 */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line of the script that compares `memory` with the expected values of the range. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* Writes a line of the script that overwrites the range with the expected values after an
 * interrupted call. The interrupted call may leave different values in each run. */
void say_outcome(struct player *p, const struct target *target);
/* Writes a line of the script that calls the function named `what`, such as "put", with these
 * values. */
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
/* open_host() and open_device() open a scope. In the script the scope is named `scope` and its
 * memory `memory`. They return false if the library refused the scope for a legal reason. */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* Makes `value` the expected value of `count` elements of the range, from index `skip` of the
 * range. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Stores a copy of a scope before the scope is closed. A later step closes the copy too, which must
 * have no effect. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Waits for all asynchronous calls of this player, and checks their results. */
void drain(struct player *p);

/* Returns whether a loan that is still open overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* Returns whether an open loan may have conflicted with a call on the target. In that case
 * FERRY_ERROR_BUSY is a legal result of the call. */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* Ends the loans of the subject, or all loans of the player if `subject` is NULL. */
void release_held(struct player *p, const struct subject *subject);
/* Closes the open scopes of the subject. Must be called before the subject's last handle is
 * destroyed. */
void release_scopes(struct player *p, const struct subject *subject);
/* release_beside() ends the loans that overlap the target. release_writers() ends only those
 * overlapping loans that may write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* Must be called after the subject's last handle was destroyed. Leases of the subject stay open,
 * except leases of wrapped memory. */
void orphan_held(struct player *p, const struct subject *subject);
/* Reads the range after an abandoned write, and makes the values found the expected values. Each
 * must be the old value, or the value in `next` that the write would have committed. */
void settle_abandoned(struct player *p, const struct target *target);
/* Creates a buffer for a subject that currently has no buffer. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* Destroys the subject's buffer and its views. The memory of a wrap is then checked, unless the
 * wrap is abandoned. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
