/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories of the public calls, checked against plain arrays.
 *
 * A history is a string of bytes, eight for each step. Any string is a valid history: the same
 * interpreter plays random bytes of a seed, the input of a fuzzer, and the rest of a failing
 * history while it is shortened. A step selects an operation, ranges of buffers, and a place or
 * stream. An operation that is impossible at that moment is skipped.
 *
 * Several players may play at once, each on a separate thread with the steps assigned to it. They
 * share two buffers, of which each player owns a region, and have two buffers each of their own, so
 * the expected value of every element is always known. Any player resizes the shared buffers while
 * others use their regions. An element that a resize may have cut is its old value or zero until it
 * is written or read again (race.c).
 *
 * A player can write each step as C. The history of one player is printed as a program over
 * printed.h that repeats the same calls. With several players the results differ between runs, so
 * the printed program plays the steps again with their oracle.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/copy.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"
#include "tests/histories/loan.h"

/* Raw accesses that run at the same time as calls of other players are data races for the thread
 * sanitizer. */
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
    SHARED = 2, /* number of buffers that all players share */
    SUBJECTS = SHARED + 2 * PLAYERS_MAX,
    VIEWS = 3,
    STREAMS_MAX = 90,
    STALE = 4,
    PENDING = 4,
    LOANS = 3
};

/* How a history is played. */
struct history_setup {
    const char *device; /* list of devices in the format of FERRY_DEVICE; a second word "lazy" makes
                           the driver or the wrapped device lazy */
    unsigned players;   /* 1 to PLAYERS_MAX */
    unsigned streams;   /* streams of each player */
    size_t memory;      /* limit of each device in bytes; 0: none */
    uint64_t interleave; /* seed of the interleaver (tests/support/interleave.h); 0: none */
    unsigned seconds;    /* longest time of a step before SIGALRM ends the process; 0: no limit */
    FILE *scripts[PLAYERS_MAX]; /* each receives the calls of one player as C; NULL: none */
};

/* A view that a player keeps over the next steps. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* The count of elements of a shared buffer while players resize it. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing;       /* resizes that run now */
    uint64_t started;        /* resizes so far */
    size_t low, high;        /* bounds of the count; equal while no resize runs */
    size_t cut[PLAYERS_MAX]; /* smallest count since each player called race_look() */
    size_t asked[64];        /* counts that the last resizes requested */
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t
        count; /* if players resize the buffer: its count at creation, which divides the regions */
    struct view views[PLAYERS_MAX * VIEWS]; /* VIEWS views of each player */
    unsigned pins[PLAYERS_MAX][16];
    struct race race;
    bool shared, wrapped;
    bool imported;      /* the wrap was imported from a tensor */
    atomic_int deleted; /* calls of the tensor's deleter */
    bool scrub; /* an OVERWRITE clears its range first, so unwritten elements read as zero */
    bool doubtful[LENGTH_MAX]; /* the element may also be zero, because a resize may have cut it */
    bool written[LENGTH_MAX];  /* written since the element exists */
    int32_t expected[LENGTH_MAX]; /* present values */
    int32_t next[LENGTH_MAX];     /* values if the running call succeeds */
    int32_t memory[LENGTH_MAX +
                   WRAP_SHIFTS]; /* memory of a wrap, which begins at its element `wrap_shift` */
    size_t wrap_shift;
};

/* An asynchronous call that was not yet waited for. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* layout of the elements read: rows of `width` elements */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Numbers of steps played, failures injected and other outcomes. */
struct history_counts {
    uint64_t steps, busy, injected, failed, short_of_memory, evicted, cut;
};

struct target {
    struct subject *subject;
    ferry_buffer *handle;
    char name[16];        /* of the handle in the script */
    size_t offset, count; /* range, relative to the handle */
    size_t begin;         /* offset, relative to the buffer */
};

/* A scope that reads at the host, or a lease, that a player keeps open over the next steps. */
struct held {
    struct loan loan;
    struct target t; /* range of the base; subject NULL: the buffer has no handle any more */
    bool used, open; /* a closed lease stays used, for its memory */
    ferry_access access;
    int place;
    unsigned stream; /* stream of the holder's device work, known to Ferry or not */
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
    ferry_stream *streams[STREAMS_MAX + LOANS]; /* streams of the steps, and one of each loan, which
                                                   no other step uses */
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* an additional owner of the context */
    ferry_scope stale[STALE]; /* copies of scopes that were closed */
    size_t next_stale;
    struct target second; /* second range of the step's calls; subject NULL: none */
    struct window {       /* state of each shared buffer when the call began */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* an event recorded on a stream */
    int32_t next_value;
    uint64_t
        arm; /* number of the device call or malloc() to fail, after `arm_later` further calls */
    unsigned arm_later;
    bool arm_memory, armed, tripped; /* tripped: a failure was injected */
    struct history_counts counts;
    int32_t *pinned; /* LENGTH_MAX elements, for copies by the device */
    int32_t values[LENGTH_MAX];
    double doubles[LENGTH_MAX];
};

struct world {
    fixture f;
    work w;
    ferry_kernel *failing;
    struct history_setup setup;
    void *pinned; /* page-locked memory of the device at `pinned_place`; 0: of the fixture */
    int pinned_place;
    bool injects;          /* the devices can be made to fail */
    atomic_bool unlimited; /* a player has lifted the limit of a pool temporarily */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* Opens the context and everything that all players use; a printed program calls this too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Plays a history. A failure prints a message and ends the process with abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Sum over all histories of this process; the players' counts are added at the end of each
 * history. */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* Returns the code of a step for a random number. Frequent steps have more numbers. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Excludes steps from history_code(). `names` is a list of names separated by commas; the string
 * must stay valid. */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* Chooses a second range of the same length; the first one may be shortened. */
struct target choose_second(struct player *p, struct target *first);
/* Returns the bounds of the region of the subject that this player owns. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Returns the six bits of the step that select its variant. */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);
/* Return this player's views and pins of a subject. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Whether other players use this buffer at the same time. */
bool is_racing(const struct player *p, const struct subject *subject);
/* Called before and after a resize. While resizes run, the bounds of the count include the counts
 * of all of them. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Marks the elements that a resize may have cut since the last call as doubtful. */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Whether no resize has run since race_open_windows(). */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* Whether a call on this range may have found a buffer that was too short, and whether it must
 * have. */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Whether the buffer may have had this count. */
bool race_knows_count(struct subject *subject, size_t count);
/* Whether the value is legal for the element. The value read from a doubtful element becomes the
 * expected one. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies the present values of the range to p->values. Returns the number of elements that
 * exist. */
size_t read_now(struct player *p, const struct target *target);
/* Disarms the injected failure. Returns whether the call met it. */
bool disarm(struct player *p);
/* Whether the second range has elements that a resize may have cut, so that the call may read zeros
 * from them. */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Called before a call that may change the target: copies the expected values to `next`, where the
 * step edits them. Arms an injected failure. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failure each element may be old or new */
    WHOLE_BUFFER = 2, /* the call uses more than the range, so other players may conflict */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES =
        8,     /* a refused call may have cleared a range with `scrub` that only its place held */
    READS = 16 /* the call writes nothing */
};

/* Called after a call: returns true when it succeeded, and makes `next` the expected values. An
 * illegal failure ends the process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* Checks that the call succeeded. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Options of a call: every fourth such call runs in chunks, every eighth is cancelled in the
 * middle. */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* Writes the argument in C with a comma before it, or an empty string when no options are used. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* Like end_call() with BY_CHUNKS. A call that was cancelled has committed some chunks; the values
 * in the buffer show which. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` values that no other step uses; returns the first. */
int32_t fresh(struct player *p, size_t count);
/* Check that the range has these values. expect_rows() checks rows and ignores the values between
 * them. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Checks all that the player owns of the subject, through ferry_buffer_copy_to(). */
void expect_subject(struct player *p, struct subject *subject);
/* Prints the end of a message whose beginning is printed already, and ends the program. */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the line that compares memory with the expected values of the range. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* Writes the line that sets the values after an interrupted call, because its outcome differs
 * between runs. */
void say_outcome(struct player *p, const struct target *target);
/* Writes a line that calls `what`, such as "put", with these values. */
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
/* Open a scope, which the script names `scope` and `memory`. Returns false when it was legally
 * refused. */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* Makes `value` the expected value of `count` elements of the range, from its element `skip` on. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Keeps a copy of a scope that is about to be closed, to close the copy again later. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Waits for all asynchronous calls of this player, and checks their results. */
void drain(struct player *p);

/* Whether a kept scope or lease overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* Whether a call on the target may have conflicted with a kept scope or lease, so that
 * FERRY_ERROR_BUSY is legal. */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* Ends every loan of the subject, or of all subjects if `subject` is NULL. */
void release_held(struct player *p, const struct subject *subject);
/* Closes the scopes of the subject, before its last handle is destroyed. */
void release_scopes(struct player *p, const struct subject *subject);
/* End the loans that overlap the target, and those of them that write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* Called when the subject's last handle was destroyed: its leases stay open, except those that see
 * wrapped memory. */
void orphan_held(struct player *p, const struct subject *subject);
/* Updates the expected values after an abandoned write, whose result would have been `next`. */
void settle_abandoned(struct player *p, const struct target *target);
/* Creates a new buffer for the subject, which has none. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* Ends the subject's buffer and its views. For a wrap, also checks the memory, unless it is
 * abandoned. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
