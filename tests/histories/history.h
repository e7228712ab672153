/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories of the public calls, checked against plain arrays.
 *
 * A history is a string of bytes, eight for each step. Any string is a valid history. The same
 * interpreter plays the random bytes of a seed, the input of a fuzzer, and the remaining steps of a
 * failing history while it is shortened. A step selects an operation, ranges of buffers, and a
 * place or stream. An operation that is impossible at that moment is skipped.
 *
 * Several players may play at once, each on a separate thread with its own steps. They share two
 * buffers, in which each player owns a region. Each player also has two buffers that no other
 * player uses. So the expected value of every element is always known. Any player may resize the
 * shared buffers while others use their regions. An element that a resize may have cut has its old
 * value or zero until it is written or read again (race.c).
 *
 * A player can write each step as C. The history of one player is printed as a program over
 * printed.h that repeats the same calls. With several players the results differ between runs, so
 * the printed program plays the steps again and checks them with the oracle.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/copy.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"
#include "tests/histories/loan.h"

/* The thread sanitizer reports raw accesses that run at the same time as calls of other players as
 * data races. */
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
    LENGTH_MAX = 3000, /* number of elements of a buffer: three chunks of the staging ring, the last
                          of which is short */
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
    const char *device;  /* list of devices in the format of FERRY_DEVICE; if a second word "lazy"
                            follows, the driver or the wrapped device is lazy */
    unsigned players;    /* 1 to PLAYERS_MAX */
    unsigned streams;    /* number of streams of each player */
    size_t memory;       /* limit of each device in bytes; 0: none */
    uint64_t interleave; /* seed of the interleaver (tests/support/interleave.h); 0: none */
    unsigned seconds; /* maximum time of a step in seconds, after which SIGALRM ends the process; 0:
                         no limit */
    FILE *scripts[PLAYERS_MAX]; /* files to which the calls of each player are written as C; NULL:
                                   none */
};

/* A view that a player keeps while it plays later steps. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* The number of elements of a shared buffer while players resize it. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing;       /* number of resizes that run now */
    uint64_t started;        /* number of resizes that have started so far */
    size_t low, high;        /* bounds of the number of elements; equal while no resize runs */
    size_t cut[PLAYERS_MAX]; /* for each player, the smallest number of elements since its last call
                                of race_look() */
    size_t asked[64];        /* numbers of elements that the last resizes requested */
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count; /* number of elements; if players resize the buffer, the number at its creation,
                     which determines the regions */
    struct view views[PLAYERS_MAX * VIEWS]; /* each player has VIEWS of them */
    unsigned pins[PLAYERS_MAX][16];
    struct race race;
    bool shared, wrapped;
    bool imported;      /* whether the wrap was imported from a tensor */
    atomic_int deleted; /* number of calls of the tensor's deleter */
    bool scrub; /* whether an OVERWRITE clears its range first, so that unwritten elements read as
                   zero */
    bool doubtful[LENGTH_MAX];    /* whether the element may be zero instead of the expected value,
                                     because a resize may have cut it */
    bool written[LENGTH_MAX];     /* whether the element was written since it was added */
    int32_t expected[LENGTH_MAX]; /* present value of each element */
    int32_t next[LENGTH_MAX];     /* value of each element if the present call succeeds */
    int32_t memory[LENGTH_MAX + WRAP_SHIFTS]; /* memory of a wrap; the wrap begins at element
                                                 `wrap_shift` of this array */
    size_t wrap_shift;
};

/* An asynchronous call that has not been waited for yet. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* layout of the elements that the call reads: rows of `width`
                                   elements, `pitch` elements apart */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Numbers of steps, injected failures and other outcomes. */
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

/* A scope that reads on the host, or a lease, that a player keeps open while it plays later steps.
 */
struct held {
    struct loan loan;
    /* range in the base buffer; if its subject is NULL, the buffer no longer has a handle */
    struct target t;
    bool used, open; /* a closed lease stays in use, because its memory still exists */
    ferry_access access;
    int place;
    /* stream of the holder's device work, which the call may or may not have named */
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
    ferry_stream *streams[STREAMS_MAX + LOANS]; /* streams of the steps, and one for each loan,
                                                   which no other step uses */
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* an additional owner of the context */
    ferry_scope stale[STALE]; /* copies of scopes that were closed */
    size_t next_stale;
    struct target second; /* second range that the step's calls use; none if its subject is NULL */
    struct window {       /* state of each shared buffer when the call began */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* an event recorded on a stream */
    int32_t next_value;
    uint64_t arm; /* which device call or malloc() of a later library call fails; 0: none;
                     `arm_later` library calls are skipped first */
    unsigned arm_later;
    bool arm_memory, armed, tripped; /* tripped: whether a failure was injected */
    struct history_counts counts;
    int32_t *pinned; /* LENGTH_MAX elements of page-locked memory, for copies by the device */
    int32_t values[LENGTH_MAX];
    double doubles[LENGTH_MAX];
};

struct world {
    fixture f;
    work w;
    ferry_kernel *failing;
    struct history_setup setup;
    void *pinned; /* page-locked memory of the device at `pinned_place`, or of the fixture if that
                     is 0 */
    int pinned_place;
    bool injects;          /* whether the devices can be made to fail */
    atomic_bool unlimited; /* whether a player has temporarily lifted the limit of a pool */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* Opens the context and everything else that all players use. A printed program calls it too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Plays a history. A failure prints a message and ends the process with abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Sum over all histories of this process. The counts of the players are added when a history ends.
 */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* Returns the code of the step that a random number selects. Frequent steps are selected by more
 * numbers. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Excludes steps from history_code(). `names` is a list of names separated by commas, and must stay
 * valid. */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* Chooses a second range of the length of the first. If there is not enough room, the first range
 * is shortened, so that both have one length. */
struct target choose_second(struct player *p, struct target *first);
/* Returns the bounds of this player's region in the subject. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Returns the six bits of the step that select its variant. */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);
/* These functions return this player's views and pins of a subject. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Returns whether other players use this buffer at the same time. */
bool is_racing(const struct player *p, const struct subject *subject);
/* race_begin() must be called before a resize, and race_end() after it. While resizes run, the
 * bounds include the numbers of elements of all of them. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Marks the elements that a resize may have cut since the previous call as doubtful. */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Returns whether no resize has run since race_open_windows(). */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* The first function returns whether a call on this range could have found the buffer too short for
 * the range. The second returns whether the call was certain to find it too short. */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Returns whether the buffer may have had this number of elements. */
bool race_knows_count(struct subject *subject, size_t count);
/* Returns whether the value is legal for the element. If the element is doubtful, this value
 * becomes the expected one. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies the present values of the range to p->values. Returns the number of elements of the range
 * that exist. */
size_t read_now(struct player *p, const struct target *target);
/* Disarms the injected failure. Returns whether the failure has occurred. */
bool disarm(struct player *p);
/* Returns whether the second range has elements that a resize may have cut, so that the call may
 * have read zeros from them. */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Must be called before a call that may change the target. Copies the expected values to `next`,
 * where the step edits them. Arms an injected failure. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failure each element may have its old or its new value */
    WHOLE_BUFFER = 2, /* the call uses more than the range, so it may conflict with other players */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES = 8, /* a refused call may have cleared a range with `scrub` that was current only at
                       the call's place */
    READS = 16      /* the call writes nothing */
};

/* Must be called after a call. If the call succeeded, makes `next` the expected values and returns
 * true. An illegal failure ends the process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* Checks that the call succeeded. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Options of a call. Every fourth call runs in chunks, and every eighth is cancelled in the middle.
 */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* Writes the argument in C after a comma, or an empty string if no options are used. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* Like end_call() with BY_CHUNKS. A call that was cancelled has committed some of its chunks. The
 * values in the buffer show which ones. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` consecutive values that no other step uses. Returns the first one. */
int32_t fresh(struct player *p, size_t count);
/* These functions check that the range has these values. expect_rows() checks rows, and ignores the
 * values between the rows. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Checks all elements of the subject that the player owns, with ferry_buffer_copy_to(). */
void expect_subject(struct player *p, struct subject *subject);
/* Prints the end of a message whose beginning has already been printed, and ends the program. */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line of the script that compares `memory` with the expected values of the range. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* Writes a line of the script that sets the values after an interrupted call, because their values
 * differ between runs. */
void say_outcome(struct player *p, const struct target *target);
/* Writes a line of the script that calls `what`, such as "put", with these values. */
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
/* These functions open a scope. The script calls it `scope`, and its memory `memory`. They return
 * false if the scope was legally refused. */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* Makes `value` the expected value of `count` elements of the range, beginning with its element
 * `skip`. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Keeps a copy of a scope that is about to be closed. A later step closes this copy again. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Waits for all asynchronous calls of this player, and checks their results. */
void drain(struct player *p);

/* Returns whether a scope or lease that stays open overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* Returns whether a call on the target may have conflicted with a scope or lease that stays open,
 * so that FERRY_ERROR_BUSY is legal. */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* Ends every loan of the subject, or of all subjects if `subject` is NULL. */
void release_held(struct player *p, const struct subject *subject);
/* Closes the scopes of the subject. Must be called before its last handle is destroyed. */
void release_scopes(struct player *p, const struct subject *subject);
/* The first function ends the loans that overlap the target, and the second one only those that
 * write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* Must be called when the subject's last handle was destroyed. The subject's leases stay open,
 * except those of wrapped memory. */
void orphan_held(struct player *p, const struct subject *subject);
/* Updates the expected values after an abandoned write. If it had been committed, the values would
 * be `next`. */
void settle_abandoned(struct player *p, const struct target *target);
/* Creates a new buffer for a subject that has none. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* Destroys the subject's buffer and its views. If the buffer is a wrap, checks its memory, unless
 * the wrap is abandoned. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
