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

/* MAY_RACE is whether a test may access memory directly during calls of other threads. It is false
 * under the thread sanitizer, which would report a data race. */
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
    SHARED = 2, /* number of buffers that all threads of the test share */
    SUBJECTS = SHARED + 2 * PLAYERS_MAX,
    VIEWS = 3,
    STREAMS_MAX = 90,
    STALE = 4,
    PENDING = 4,
    LOANS = 3
};

/* Settings for the run of a random test history. */
struct history_setup {
    /* List of devices in the format of FERRY_DEVICE; a second word "lazy" makes the device run
     * its work only when a call waits for the work or queries it. */
    const char *device;
    unsigned players; /* 1 to PLAYERS_MAX */
    unsigned streams; /* number of streams of each thread */
    size_t memory;    /* memory limit of each device in bytes; 0: no limit */
    /* seed of the interleaver, which varies the order in which threads run
     * (tests/support/interleave.h); 0: no interleaver */
    uint64_t interleave;
    unsigned seconds; /* maximum time of a step in seconds, after which SIGALRM ends the process; 0:
                         no limit */
    FILE *scripts[PLAYERS_MAX]; /* files to which the calls of each thread are written as C code;
                                   NULL: the calls are not written */
};

/* A view of a buffer that a thread of the test keeps during later steps. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* Bounds of the length of a shared buffer while several threads resize the buffer. */
struct race {
    pthread_mutex_t mutex;
    unsigned resizing; /* number of resizes that run now */
    uint64_t started;  /* number of resizes that have started since the buffer's creation */
    /* smallest and largest possible number of elements; equal while no thread resizes the buffer */
    size_t low, high;
    size_t cut[PLAYERS_MAX]; /* for each thread, the smallest length of the buffer since the thread
                                last called race_look() */
    size_t asked[64];        /* lengths that the latest 64 resizes requested */
};

/* A buffer of the test, and the values that it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count; /* number of elements; for a shared buffer, the number at its creation, which
                     determines the region of each thread */
    struct view views[PLAYERS_MAX * VIEWS]; /* each player has VIEWS of them */
    unsigned pins[PLAYERS_MAX][16];
    struct race race;
    bool shared, wrapped;
    bool imported;      /* whether the wrapped memory was imported as a DLPack tensor */
    atomic_int deleted; /* number of calls of the deleter of the imported tensor */
    bool scrub; /* whether an OVERWRITE access first fills its range with zeros; elements that are
                   never written then read as zero */
    bool doubtful[LENGTH_MAX]; /* whether the element may be zero, because a concurrent resize may
                                  have cut it */
    bool written[LENGTH_MAX];  /* whether the element was written since the buffer's creation or the
                                  resize that added it */
    int32_t expected[LENGTH_MAX]; /* present value of each element */
    int32_t next[LENGTH_MAX];     /* value that each element has if the current call succeeds */
    int32_t memory[LENGTH_MAX + WRAP_SHIFTS]; /* memory of a buffer that wraps memory; the buffer
                                                 begins at element `wrap_shift` of this array */
    size_t wrap_shift;
};

/* An asynchronous call that its thread has not waited for. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count, pitch, width; /* layout of the elements that the call reads: rows of `width`
                                   elements, `pitch` elements apart */
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
    bool doubtful[LENGTH_MAX];
};

struct world;

/* Counts of a test run: its steps, the failures that it injected, and the results of its calls. */
struct history_counts {
    uint64_t steps, busy, injected, failed, short_of_memory, evicted, cut;
};

struct target {
    struct subject *subject;
    ferry_buffer *handle;
    char name[16];        /* name of the handle in the C code that the test writes */
    size_t offset, count; /* range, relative to the handle */
    size_t begin;         /* offset, relative to the buffer */
};

/* A loan that a thread of the test keeps open during later steps. A loan is a lease, or a READ
 * scope on the host. */
struct held {
    struct loan loan;
    /* range of the loan in its base buffer; `t.subject` is NULL after the last handle of the buffer
     * was destroyed */
    struct target t;
    bool used, open; /* used: whether this entry has a loan; open: whether the loan is open. A
                        closed lease stays in its entry until it is destroyed */
    ferry_access access;
    int place;
    /* index of the stream for the device work of the loan; used even if the call that opened the
     * loan named no stream */
    unsigned stream;
    char label[24];
    int32_t expected[LENGTH_MAX]; /* values that the memory of the loan must have while the loan is
                                     open */
};

struct player {
    struct world *world;
    unsigned number;
    size_t step;
    const char *name; /* name of the step */
    const unsigned char *bytes;
    FILE *script;
    /* first STREAMS_MAX streams for all steps, then one stream for each loan */
    ferry_stream *streams[STREAMS_MAX + LOANS];
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held[LOANS];
    ferry_context *owner;     /* an additional handle that keeps the context alive */
    ferry_scope stale[STALE]; /* copies of scopes that are closed; calls with them must fail */
    size_t next_stale;
    struct target second; /* second range that the step uses; `second.subject` is NULL if the step
                             uses only one range */
    struct window { /* state of each shared buffer when the current call began: number of started
                       resizes, bounds of the length, and whether no resize was running */
        uint64_t started;
        size_t low, high;
        bool quiet;
    } windows[SHARED];
    ferry_event *event; /* an event recorded on a stream */
    int32_t next_value;
    uint64_t arm; /* n: the n-th device call or malloc() within a library call must fail; 0: none;
                     `arm_later` library calls run before that library call */
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
    void *pinned; /* page-locked memory that the device at place `pinned_place` has allocated; NULL
                     if the test uses other page-locked memory */
    int pinned_place;
    bool injects;          /* whether the devices can be made to fail */
    atomic_bool unlimited; /* whether a thread of the test has temporarily removed the memory limit
                              of a pool */
    struct subject subjects[SUBJECTS];
    struct player players[PLAYERS_MAX];
    const unsigned char *bytes;
    size_t step_count;
};

/* Opens the Ferry context and the other objects that all threads of a random test share. The C
 * programs that the test prints to reproduce a failure call this function, too. */
void history_open(struct world *world, const struct history_setup *setup);
void history_close(struct world *world);
/* Plays a random history: makes the sequence of library calls that `bytes` encodes. If a check
 * fails, prints a message and calls abort(). */
void history_play(const unsigned char *bytes, size_t count, const struct history_setup *setup);
/* Numbers of steps, injected failures and results, summed over all random tests that have ended in
 * this process. */
extern struct history_counts history_counts;
void history_count(struct history_counts *to, const struct history_counts *from);

/* Returns the code of a test step for a random number. A step with a larger weight is chosen more
 * often. */
unsigned char history_code(uint64_t number);
const char *history_step_name(unsigned char code);
/* Excludes steps from the results of history_code(). `names` is a list of names of steps, separated
 * by commas. The string must stay valid, because the function does not copy it. */
void history_leave_out(const char *names);

/* -- choosing (target.c) ----------------------------------------------------------------------- */

struct target choose(struct player *p);
/* Chooses a second random range for a test step. Shortens the longer of this range and the range
 * `first`, so that both have the same length. */
struct target choose_second(struct player *p, struct target *first);
/* Returns the bounds of the part of a buffer that only the test thread `p` may write. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin,
                size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Returns the six bits of the current test step that select a variant of its operation. */
unsigned flags_of(const struct player *p);
/* Returns whether a step makes the asynchronous form of its call, and waits for it at once. */
static inline bool
chooses_twin(const struct player *p)
{
    return flags_of(p) >> 5 & 1;
}
/* Waits for an asynchronous call that has just begun with this status. */
static inline ferry_status
wait_for_twin(ferry_status status, ferry_event **event)
{
    if (status == FERRY_OK)
        status = ferry_event_synchronize(*event);
    ferry_event_destroy(event);
    return status;
}
/* What the printed program does after it. */
#define SAY_WAIT                                                                                   \
    " if (status == FERRY_OK) status = ferry_event_synchronize(twin); "                            \
    "ferry_event_destroy(&twin); }"
#define SAY_TWIN "{ ferry_event *twin = NULL; status = "
bool overlap(const struct target *a, const struct target *b);
/* views_of() returns the views of a buffer that the test thread `p` has. pins_of() returns how
 * often this thread has pinned the buffer at each place. */
struct view *views_of(const struct player *p, struct subject *subject);
unsigned *pins_of(const struct player *p, struct subject *subject);

/* -- resizes of shared buffers (race.c) -------------------------------------------------------- */

/* Returns whether other threads of the test may use the buffer while the test thread `p` uses it.
 */
bool is_racing(const struct player *p, const struct subject *subject);
/* race_begin() must be called before a test thread resizes a shared buffer, and race_end() after
 * the resize. While resizes run, the members `low` and `high` of struct race bound all lengths that
 * these resizes request. */
void race_begin(struct player *p, struct subject *subject, size_t count);
void race_end(struct player *p, struct subject *subject, size_t count, bool resized);
/* Marks elements of the buffer as doubtful: those that a resize may have cut off since the previous
 * call of race_look(). A doubtful element may be zero instead of having its expected value. */
void race_look(struct player *p, struct subject *subject);
void race_open_windows(struct player *p);
/* Returns whether no thread has resized the buffer since the latest call of race_open_windows(). */
bool race_was_quiet(const struct player *p, struct subject *subject);
/* Both functions compare a range with the lengths that the buffer may have had during the latest
 * library call. race_may_be_short() returns whether the range exceeds the smallest of these
 * lengths. race_must_be_short() returns whether the range exceeds all of them. */
bool race_may_be_short(const struct player *p, const struct target *target);
bool race_must_be_short(const struct player *p, const struct target *target);
/* Returns whether `count` is the buffer's initial number of elements, or a number that a recent
 * resize requested. */
bool race_knows_count(struct subject *subject, size_t count);
/* Returns whether element `at` of the buffer may have the value `value`. If a resize may have cut
 * off the element, zero is legal, too. In that case a legal `value` becomes the expected value of
 * the element. */
bool is_right(const struct player *p, struct subject *subject, size_t at, int32_t value);
/* Copies the present values of the range to p->values. Returns the number of elements copied. This
 * number is smaller than the range if the buffer ends inside the range. */
size_t read_now(struct player *p, const struct target *target);
/* Cancels an injected failure unless it has already occurred. Returns whether it has occurred. */
bool disarm(struct player *p);
/* Returns whether a resize may have cut off elements of the second range of a call, such as the
 * source of a copy. If so, the call may have read these elements as zeros. */
bool second_is_doubtful(struct player *p);

/* -- the oracle (oracle.c) --------------------------------------------------------------------- */

/* Must be called before a library call that may change the range `target`. Copies the expected
 * values to the array `next`, so that the caller can enter the values that a successful call
 * writes. May inject a failure into the call. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,    /* after a failed call, each element may have its old or its new value */
    WHOLE_BUFFER = 2, /* the call uses the whole buffer and not just the range, so it may conflict
                         with other threads */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES = 8, /* a failed call may have cleared the range if the buffer has the option `scrub`
                       and no other place was current */
    READS = 16      /* the call writes nothing */
};

/* Must be called with the result of a library call that may change the range `target`. If the call
 * succeeded, takes the array `next` as the expected values and returns true. If the call failed
 * without a legal reason, ends the process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* Checks that the call succeeded. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Options of a copy in a random test. Every fourth copy is split into chunks. Half of the copies in
 * chunks are cancelled before their end. */
struct chunked {
    ferry_copy_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* Writes the options of a copy to `text` as one more argument of a C call, with a comma before it.
 * If the copy has no options, `text` becomes empty. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* Must be called in place of end_call() after a copy that ran in chunks. If the copy was cancelled,
 * it has written only some chunks. The function reads the buffer to find out which ones. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked,
                ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* Reserves `count` consecutive integers that no other step of the test writes. Returns the first of
 * them. */
int32_t fresh(struct player *p, size_t count);
/* Both functions check that a range of a buffer has the values in the array `values`. expect_rows()
 * ignores the elements between the rows. */
void expect_rows(struct player *p, const struct target *target, const int32_t *values, size_t pitch,
                 size_t width);
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Reads the elements of a buffer that belong to the test thread `p`, and checks their values. */
void expect_subject(struct player *p, struct subject *subject);
/* Prints the end of an error message and ends the program. The caller has already printed the start
 * of the message. */
_Noreturn void print_and_abort(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));
_Noreturn void went_wrong(const struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line of the C program that reproduces the test. The line compares `memory` with the
 * expected values of the range. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* Writes a line of the C program that reproduces the test. The line overwrites the range of an
 * interrupted call with the expected values, because such a call may leave different values in each
 * run. */
void say_outcome(struct player *p, const struct target *target);
/* Writes a line of the C program that reproduces the test. The line passes `memory` and the values
 * to the function named `what`, such as "put". */
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
/* Both functions open a scope. They write this call to the C program that reproduces the test,
 * where the scope is named `scope` and its memory `memory`. They return false if the library
 * refused the scope for a legal reason. */
bool open_host(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
               int32_t **out);
bool open_device(struct player *p, const struct target *t, ferry_access access, ferry_scope *scope,
                 void **out);
/* Makes `value` the expected value of `count` elements of a range. The first of these elements has
 * index `skip` in the range. */
void has_written(const struct target *t, size_t skip, size_t count, int32_t value);
/* Stores a copy of an open scope. After the scope itself was closed, a later step of the test
 * closes the copy, which must have no effect. */
void keep_stale(struct player *p, const ferry_scope *scope);

/* Waits for all asynchronous calls of the test thread `p`, and checks their results. */
void drain(struct player *p);

/* Returns whether an open scope or lease that the test thread `p` holds overlaps the range. */
bool is_lent(const struct player *p, const struct subject *subject, size_t begin, size_t count);
/* Returns whether an open scope or lease may have conflicted with a call on the range `target`. If
 * so, FERRY_ERROR_BUSY is a legal result of the call. */
bool may_be_lent(const struct player *p, const struct target *target, unsigned how);
/* Ends the scopes and leases that the test thread `p` holds on one buffer. Ends all that the thread
 * holds if `subject` is NULL. */
void release_held(struct player *p, const struct subject *subject);
/* Closes the scopes that the test thread `p` keeps open on a buffer. Must be called before the last
 * handle of the buffer is destroyed. */
void release_scopes(struct player *p, const struct subject *subject);
/* Both functions end open scopes and leases that overlap the range `target`. release_beside() ends
 * all of them. release_writers() ends only those that may write. */
void release_beside(struct player *p, const struct target *target);
void release_writers(struct player *p, const struct target *target);
/* Must be called after the last handle of a buffer was destroyed. Ends the leases of a buffer over
 * wrapped memory. The leases of any other buffer stay open. */
void orphan_held(struct player *p, const struct subject *subject);
/* Must be called after a write to the range `target` was abandoned. Each element must have its old
 * value, or the value in `next` that the abandoned write stored. The values that the function reads
 * become the expected values. */
void settle_abandoned(struct player *p, const struct target *target);
/* Creates one of the buffers that a random test uses. `subject` must not have a buffer yet. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
enum subject_end { BY_DESTROY, BY_UNWRAP, BY_ABANDON };

/* Destroys a buffer of the random test and its views. If the buffer wrapped memory of the program
 * and was not abandoned, checks the bytes in that memory. */
void end_subject(struct player *p, struct subject *subject, enum subject_end how);

#endif
