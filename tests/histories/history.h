/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_HISTORY_H
#define FERRY_TEST_HISTORY_H

/*
 * Random histories of the public calls, checked against plain arrays.
 *
 * A history is a string of bytes, eight to a step, and any string is one: the same interpreter plays random bytes of a seed, the
 * input of a fuzzer, and what is left of a failing history while it is made shorter. A step names what is done, to which ranges
 * of which buffers, at which place or on which stream; what cannot be done at that moment is passed over.
 *
 * Several players may play at once, each on its own thread with the steps that are dealt to it. They share two buffers, of which
 * each owns a region, and have two of their own, so that what every element must be is known at every moment.
 *
 * As it goes, a player can write each step down as C. What is written is a program over printed.h that does the same again.
 */

#include <stdio.h>

#include <ferry/batch.h>
#include <ferry/file.h>

#include "tests/buffer/work.h"

enum {
    STEP_BYTES = 8,
    LENGTH_MAX = 3000, /* elements of a buffer: three chunks of the staging ring, the last one short */
    PLAYERS_MAX = 4,
    SHARED = 2,        /* buffers of all players */
    SUBJECTS = SHARED + 2 * PLAYERS_MAX,
    VIEWS = 3,
    STREAMS_MAX = 90,
    PENDING = 4
};

/* How a history is played. */
struct history_setup {
    const char *device;  /* list of devices as FERRY_DEVICE takes it; a second word "lazy" makes the driver or the wrapped device lazy */
    unsigned players;    /* 1 to PLAYERS_MAX */
    unsigned streams;    /* of each player */
    size_t memory;       /* limit of each device in bytes; 0: none */
    unsigned seconds;    /* without the end of a step until SIGALRM ends the process; 0: any number */
    FILE *scripts[PLAYERS_MAX]; /* each receives the calls of one player as C; NULL: nobody */
};

/* A view that was left open. */
struct view {
    ferry_buffer *handle;
    size_t offset, count;
};

/* A buffer and what it must contain. */
struct subject {
    ferry_buffer *handle;
    size_t count;
    struct view views[VIEWS];
    unsigned pins[16];
    bool shared, wrapped;
    bool scrub; /* what an OVERWRITE leaves out reads as zero: a range is cleared before it is overwritten */
    int32_t expected[LENGTH_MAX]; /* now */
    int32_t next[LENGTH_MAX];     /* if the call that runs succeeds */
    int32_t memory[LENGTH_MAX];   /* that a wrap borrows */
};

/* An asynchronous call that was not waited for. */
struct pending {
    ferry_event *event;
    bool reads;
    size_t count;
    int32_t values[LENGTH_MAX], expected[LENGTH_MAX];
};

/* A scope that was left open for reading at the host. */
struct held {
    ferry_scope scope;
    struct subject *subject;
    const int32_t *memory;
    size_t count;
    int32_t expected[LENGTH_MAX];
};

struct world;

/* Steps played and failures injected. */
struct history_counts {
    uint64_t steps, busy, injected, failed, short_of_memory, evicted;
};

struct player {
    struct world *world;
    unsigned number;
    size_t step;
    const char *name;          /* of the step */
    const unsigned char *bytes;
    FILE *script;
    ferry_stream *streams[STREAMS_MAX];
    struct pending pending[PENDING];
    size_t next_pending;
    struct held held;
    ferry_event *event; /* a point in a stream */
    int32_t next_value;
    uint64_t arm;       /* this call of the device, or of malloc(), fails in the next call but `arm_later` */
    unsigned arm_later;
    bool arm_memory, armed, tripped; /* tripped: some call was made to fail */
    struct history_counts counts;
    int32_t *pinned;    /* LENGTH_MAX of them, for copies by the device */
    int32_t values[LENGTH_MAX];
    double doubles[LENGTH_MAX];
};

struct world {
    fixture f;
    work w;
    ferry_kernel *failing;
    struct history_setup setup;
    bool injects; /* the devices can be made to fail */
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

/* -- choosing (target.c) --------------------------------------------------------------------------- */

/* A range of one buffer through one handle. */
struct target {
    struct subject *subject;
    ferry_buffer *handle;
    char name[16];        /* in the script */
    size_t offset, count; /* in the handle */
    size_t begin;         /* in the buffer */
};

struct target choose(struct player *p);
/* A second one of the same length; the first may be shortened. */
struct target choose_second(struct player *p, struct target *first);
/* The whole region of the subject that this player owns. */
void own_region(const struct player *p, const struct subject *subject, size_t *out_begin, size_t *out_end);
int choose_place(const struct player *p);
unsigned choose_stream(const struct player *p);
/* Six bits that say how a step is done. */
unsigned flags_of(const struct player *p);
bool overlap(const struct target *a, const struct target *b);

/* -- the oracle (oracle.c) ------------------------------------------------------------------------- */

/* Before a call that may change the target: `next` becomes what is expected now, to be edited. Injected failures begin here. */
void begin_call(struct player *p, const struct target *target);

enum {
    BY_CHUNKS = 1,   /* after a failure each element may be old or new */
    WHOLE_BUFFER = 2, /* it is about more than the range, so that other players may be in its way */
    MAY_BE_STATE = 4, /* FERRY_ERROR_INVALID_STATE is legal */
    OVERWRITES = 8    /* with scrub a refused one has cleared the range, where only its place held it */
};

/* After it: true when it was done and `next` is now expected. Failures that may not be end the process. */
bool end_call(struct player *p, const struct target *target, ferry_status status, unsigned how);
/* A call that must succeed. */
void must(struct player *p, ferry_status status, const char *call);
#define MUST(p, call) must((p), (call), #call)

/* Every fourth call that takes options runs in chunks, every eighth is stopped in the middle. */
struct chunked {
    ferry_transfer_options options;
    unsigned left;
    bool used, stops;
};

void choose_chunks(struct player *p, struct chunked *chunked);
/* The argument in C, with a comma before it; nothing where none is used. */
void chunk_words(const struct chunked *chunked, char *text, size_t bytes);
/* As end_call() by chunks. A call that was stopped has done some of its chunks; which ones its buffer knows. */
void end_chunks(struct player *p, const struct target *target, const struct chunked *chunked, ferry_status status);

void set_counting(int32_t *target, size_t count, int32_t first);
void set_constant(int32_t *target, size_t count, int32_t value);
/* So many values that no other step uses. */
int32_t fresh(struct player *p, size_t count);
/* These are the values that the range must have now. */
void expect_range(struct player *p, const struct target *target, const int32_t *values);
/* Through ferry_buffer_copy_to(), all that the player owns. */
void expect_subject(struct player *p, struct subject *subject);
_Noreturn void went_wrong(const struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of the script. */
void say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The line that compares memory with what the range must have. */
void say_want(struct player *p, const char *memory, const struct target *target);
/* What a call that ended in the middle came to may differ the next time: the line makes it so. */
void say_outcome(struct player *p, const struct target *target);
/* Or that does something else, such as "put", with values. */
void say_values(struct player *p, const char *what, const char *memory, const int32_t *values, size_t count);

/* -- steps ----------------------------------------------------------------------------------------- */

struct step {
    const char *name;
    void (*run)(struct player *p);
    unsigned weight;
};

extern const struct step use_steps[], copy_steps[], place_steps[], life_steps[]; /* each ends with a NULL name */

/* Wait for everything asynchronous of this player, and check what it brought. */
void drain(struct player *p);
void release_held(struct player *p);
/* Make a new buffer for the subject, which has none. */
void make_subject(struct player *p, struct subject *subject, unsigned how);
/* With its views; of a wrap, the memory is checked. */
void end_subject(struct player *p, struct subject *subject, bool unwrap);

#endif
