/* SPDX-License-Identifier: MIT */
#include "src/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/version.h>

#include "src/base/fork.h"
#include "src/base/output_file.h"

#define CHUNK_BYTES    ((size_t)64 << 10)
#define TEXTS_MOST     6 /* texts of one entry */
#define LINE_BYTES     (TEXTS_MOST * FERRYI_TRACE_TEXT_MOST * 6 + 1024)
#define ARGUMENTS_MOST 16
#define PLACES         17
#define STREAM_NUMBERS 64

/* Smallest track number of a stream in a trace. Threads use their thread ids as track numbers, and
 * thread ids are smaller than this number. */
#define STREAM_TRACKS   UINT64_C(1000000000)
#define TRACKS_OF_PLACE 1000

FERRYI_MUTEX_CLASS(ferryi_trace_mutex);
FERRYI_MUTEX_CLASS(ferryi_traces_mutex);

struct ferryi_trace {
    const struct ferryi_log *log;
    char *path;
    int file;
    unsigned forks;  /* fork count (ferryi_fork_count()) of the process that created the trace; only
                        this process writes the trace */
    uint64_t serial; /* unique among the traces of a process */
    uint64_t origin_ns;
    char process[32]; /* "pid":4711,"tid": */
    size_t process_bytes;
    char places[PLACES][32];
    size_t plain_bytes[PLACES]; /* length of each place's name if the name is plain text, otherwise
                                   0; see struct ferryi_trace_text */
    _Atomic uint64_t named[PLACES]; /* bit n: the name of the track of stream n was written */
    atomic_bool broken; /* whether a write to the file has failed; then nothing more is written */
    struct ferryi_trace_mutex mutex;
    ferryi_cond idle; /* signalled when `writing` becomes false */
    FERRYI_GUARDED_BY(ferryi_trace_mutex) struct {
        char *chunk, *other; /* the chunk that threads fill; the second chunk, which is empty or
                                being written to the file */
        size_t used;
        bool writing; /* whether a thread is writing the chunk `other` to the file */
    };
    struct ferryi_trace *next,
        **link; /* links in the list of all open traces; guarded by the mutex of that list */
};

/* -- the open traces of the process ------------------------------------------------------------ */

static struct {
    struct ferryi_traces_mutex mutex;
    FERRYI_GUARDED_BY(ferryi_traces_mutex) struct {
        ferryi_trace *first;
        uint64_t last_serial;
    };
} traces = {.mutex = FERRYI_MUTEX_INITIALIZER};

/* Called after a fork. In the child, closes the files and empties the list of open traces, because
 * only the parent writes these traces. */
static void
forget_traces(bool in_child)
{
    ferryi_mutex_is_held(&traces.mutex);
    if (!in_child)
        return;
    for (ferryi_trace *trace = traces.first; trace; trace = trace->next) {
        close(trace->file);
        trace->file = -1;
        atomic_store(&trace->broken, true);
    }
    traces.first = NULL;
}

static struct ferryi_fork_part tracing = {.mutex = FERRYI_SYSTEM_MUTEX(&traces.mutex),
                                          .after = forget_traces};
FERRYI_AT_FORK(tracing)

static void
list(ferryi_trace *trace)
{
    ferryi_mutex_lock(&traces.mutex);
    trace->serial = ++traces.last_serial;
    FERRYI_LIST_ADD(&traces.first, trace, next, link);
    ferryi_mutex_unlock(&traces.mutex);
}

static void
unlist(ferryi_trace *trace)
{
    ferryi_mutex_lock(&traces.mutex);
    FERRYI_LIST_REMOVE(trace, next, link);
    ferryi_mutex_unlock(&traces.mutex);
}

/* -- text -------------------------------------------------------------------------------------- */

static char *
put(char *at, const char *text, size_t bytes)
{
    memcpy(at, text, bytes);
    return at + bytes;
}

#define PUT(at, literal) put((at), (literal), sizeof(literal) - 1)

static const char digit_pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
    "4748495051525354555657585960616263646566676869"
    "707172737475767778798081828384858687888990919293949596979899";

/* Returns the number of decimal digits of a value. The function estimates the number from the
 * number of bits: 1233 / 4096 approximates the decimal logarithm of 2. The estimate is either right
 * or one too low. */
static inline size_t
count_digits(uint64_t number)
{
    static const uint64_t powers[] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      UINT64_C(1000000000),
                                      UINT64_C(10000000000),
                                      UINT64_C(100000000000),
                                      UINT64_C(1000000000000),
                                      UINT64_C(10000000000000),
                                      UINT64_C(100000000000000),
                                      UINT64_C(1000000000000000),
                                      UINT64_C(10000000000000000),
                                      UINT64_C(100000000000000000),
                                      UINT64_C(1000000000000000000),
                                      UINT64_C(10000000000000000000)};
    unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1), least = bits * 1233 >> 12;
    return least + ((number | 1) >= powers[least]);
}

static char *
put_number(char *at, uint64_t number)
{
    if (number < 10) {
        *at = (char)('0' + number);
        return at + 1;
    }
    char *end = at + count_digits(number), *begin = end;
    for (; number >= 100; number /= 100)
        memcpy(begin -= 2, digit_pairs + 2 * (number % 100), 2);
    if (number >= 10)
        memcpy(at, digit_pairs + 2 * number, 2);
    else
        *at = (char)('0' + number);
    return end;
}

/* Writes a time of `ns` nanoseconds in microseconds with three decimals. */
static char *
put_time(char *at, uint64_t ns)
{
    unsigned rest = (unsigned)(ns % 1000);
    at = put_number(at, ns / 1000);
    *at++ = '.';
    *at++ = (char)('0' + rest / 100);
    memcpy(at, digit_pairs + 2 * (rest % 100), 2);
    return at + 2;
}

/* Returns the length in bytes of the UTF-8 character at `text`. Returns 0 if the character is
 * invalid or longer than `left` bytes. */
static size_t
character_bytes(const unsigned char *text, size_t left)
{
    size_t bytes = text[0] < 0x80                      ? 1
                   : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                   : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                   : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                       : 0;
    if (bytes == 0 || bytes > left)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool is_no_character =
        (text[0] == 0xed && text[1] >= 0xa0) || (text[0] == 0xf4 && text[1] >= 0x90);
    return is_overlong || is_no_character ? 0 : bytes;
}

/* Returns whether the character is ASCII and needs no escape in a JSON string. */
static inline bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Returns whether is_plain() is true for all eight bytes of `word`. The function computes four
 * terms: for bytes above 0x7e, for bytes below 0x20, for quotes and for backslashes. Each byte that
 * is not plain sets the high bit of at least one byte in its term. This is the byte itself or a
 * higher byte. */
static inline bool
are_plain(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t high_or_last = word | (word + ones), low = word - 0x20 * ones;
    uint64_t quote = (word ^ '"' * ones) - ones, backslash = (word ^ '\\' * ones) - ones;
    return !((high_or_last | low | quote | backslash) & 0x80 * ones);
}

/* Returns the number of bytes before the first character that is not plain (ASCII without escapes).
 */
static size_t
count_plain(const char *text, size_t bytes)
{
    uint64_t word;
    uint32_t first, last;
    size_t plain = 0;
    for (; plain + sizeof(word) <= bytes; plain += sizeof(word)) {
        memcpy(&word, text + plain, sizeof(word));
        if (!are_plain(word))
            break;
    }
    /* If fewer than eight bytes are left, the last eight bytes of the text are checked. Some of
     * these bytes were already checked by the loop above. */
    if (bytes >= sizeof(word)) {
        memcpy(&word, text + bytes - sizeof(word), sizeof(word));
        if (plain + sizeof(word) > bytes && are_plain(word))
            return bytes;
    } else if (bytes >= sizeof(first)) {
        memcpy(&first, text, sizeof(first));
        memcpy(&last, text + bytes - sizeof(last), sizeof(last));
        if (are_plain((uint64_t)first << 32 | last))
            return bytes;
    }
    while (plain < bytes && is_plain((unsigned char)text[plain]))
        plain++;
    return plain;
}

/* Writes one character that is not ASCII or needs an escape in JSON. Sets `*out_read` to the number
 * of bytes that were read at `c`. */
static char *
put_special(char *at, const unsigned char *c, size_t left, size_t *out_read)
{
    static const char hex[] = "0123456789abcdef";
    size_t bytes = character_bytes(c, left);
    *out_read = bytes ? bytes : 1;
    if (*c == '"' || *c == '\\') {
        *at++ = '\\';
        *at++ = (char)*c;
    } else if (*c < 0x20 || *c == 0x7f) {
        at = PUT(at, "\\u00");
        *at++ = hex[*c >> 4];
        *at++ = hex[*c & 15];
    } else if (bytes > 0) {
        at = put(at, (const char *)c, bytes);
    } else {
        *at++ = '?';
    }
    return at;
}

/* Writes the contents of a JSON string with escapes, without the quotes. Replaces invalid UTF-8 by
 * '?'. Truncates a text that is longer than FERRYI_TRACE_TEXT_MOST bytes. */
static char *
put_any(char *at, const char *text)
{
    size_t left = strnlen(text, FERRYI_TRACE_TEXT_MOST);
    while (left > 0) {
        size_t bytes = count_plain(text, left);
        at = put(at, text, bytes);
        text += bytes;
        left -= bytes;
        if (left > 0) {
            at = put_special(at, (const unsigned char *)text, left, &bytes);
            text += bytes;
            left -= bytes;
        }
    }
    return at;
}

/* Writes a text in quotes. */
static inline char *
put_text(char *at, struct ferryi_trace_text text)
{
    *at++ = '"';
    at = text.plain_bytes ? put(at, text.text, text.plain_bytes) : put_any(at, text.text);
    *at++ = '"';
    return at;
}

char *
ferryi_trace_put_quoted(char *at, const char *text)
{
    return put_text(at, (struct ferryi_trace_text)FERRYI_TRACE_ANY(text));
}

/* -- chunks ------------------------------------------------------------------------------------ */

/* Writes a chunk to the file. If the write fails and no earlier write of this trace has failed,
 * returns the errno value. Otherwise returns 0. The caller reports the failure after it has
 * released its locks. */
static int
write_chunk(ferryi_trace *trace, const char *chunk, size_t bytes)
{
    int before = errno;
    int failure = atomic_load(&trace->broken) ? 0 : ferryi_output_write(trace->file, chunk, bytes);
    if (failure && atomic_exchange(&trace->broken, true))
        failure = 0;
    errno = before;
    return failure;
}

static void
report(const struct ferryi_log *log, const char *path, int failure)
{
    if (failure)
        ferryi_log_setting(log, FERRY_LOG_ERROR, "write the trace %s: %s; the trace ends here",
                           path, strerror(failure));
}

/* Writes the filled chunk of a trace to the file while other threads fill the second chunk.
 * Releases the mutex during the write. Returns the same values as write_chunk(). */
FERRYI_REQUIRES(ferryi_trace_mutex)
static int
flush(ferryi_trace *trace)
{
    while (trace->writing)
        ferryi_cond_wait(&trace->idle, &trace->mutex);
    char *full = trace->chunk;
    size_t bytes = trace->used;
    trace->chunk = trace->other;
    trace->other = full;
    trace->used = 0;
    trace->writing = true;
    ferryi_mutex_unlock(&trace->mutex);
    int failure = write_chunk(trace, full, bytes);
    ferryi_mutex_lock(&trace->mutex);
    trace->writing = false;
    ferryi_cond_broadcast(&trace->idle);
    return failure;
}

static void
add_lines(ferryi_trace *trace, const char *lines, size_t bytes)
{
    int failure = 0;
    ferryi_mutex_lock(&trace->mutex);
    while (trace->used + bytes > CHUNK_BYTES) {
        int number = flush(trace);
        failure = number ? number : failure;
    }
    memcpy(trace->chunk + trace->used, lines, bytes);
    trace->used += bytes;
    ferryi_mutex_unlock(&trace->mutex);
    report(trace->log, trace->path, failure);
}

const char *
ferryi_trace_flush(ferryi_trace *trace)
{
    if (!trace || trace->forks != ferryi_fork_count())
        return NULL;
    ferryi_mutex_lock(&trace->mutex);
    int failure = flush(trace);
    ferryi_mutex_unlock(&trace->mutex);
    report(trace->log, trace->path, failure);
    return trace->path;
}

/* Flushes the open traces until a write fails. Returns the errno value of the write that failed, or
 * 0. Copies the log and the path of the trace that failed. The caller needs copies, because the
 * trace may be closed before the caller reports the failure. */
static int
flush_some(struct ferryi_log *out_log, char *path, size_t path_bytes)
{
    int failure = 0;
    ferryi_mutex_lock(&traces.mutex);
    for (ferryi_trace *trace = traces.first; trace && !failure; trace = trace->next) {
        ferryi_mutex_lock(&trace->mutex);
        failure = flush(trace);
        ferryi_mutex_unlock(&trace->mutex);
        *out_log = *trace->log;
        snprintf(path, path_bytes, "%s", trace->path);
    }
    ferryi_mutex_unlock(&traces.mutex);
    return failure;
}

/* Runs when the program exits, and flushes traces whose contexts were not destroyed. Holds no lock
 * when it reports a failure, because the log callback may wait for a thread that opens a trace. */
__attribute__((destructor)) static void
flush_all(void)
{
    struct ferryi_log log;
    char path[256];
    for (int failure; (failure = flush_some(&log, path, sizeof(path))) != 0;)
        report(&log, path, failure);
}

/* -- entries ----------------------------------------------------------------------------------- */

/* The part of a trace entry that is the same in all entries of a thread. It follows the entry's
 * name and looks like this: ,"pid":1,"tid":2,"ts": */
struct track {
    uint64_t serial; /* serial number of the trace to which the track belongs */
    char text[72];
    size_t bytes;
};

/* Writes the beginning of a trace entry, such as {"ph":"i","cat":"c","name":"n" */
static char *
put_name(char *at, char phase, struct ferryi_trace_text category, struct ferryi_trace_text name)
{
    at = PUT(at, "{\"ph\":\"");
    *at++ = phase;
    at = PUT(at, "\",\"cat\":");
    at = put_text(at, category);
    at = PUT(at, ",\"name\":");
    return put_text(at, name);
}

static char *
put_track(const ferryi_trace *trace, char *at, uint64_t track)
{
    at = put(at, trace->process, trace->process_bytes);
    return put_number(at, track);
}

/* Writes a metadata entry about the process or about a track. `what` is the kind of metadata:
 * process_name, thread_name or ferry. */
static char *
put_metadata(const ferryi_trace *trace, char *at, const char *what, uint64_t track)
{
    const struct ferryi_trace_text category = FERRYI_TRACE_PLAIN("__metadata"),
                                   name = FERRYI_TRACE_ANY(what);
    return put_track(trace, put_name(at, 'M', category, name), track);
}

/* Writes a metadata entry that contains the name of a track or of the process. */
static char *
put_label(const ferryi_trace *trace, char *at, const char *what, uint64_t track, const char *name)
{
    at = put_metadata(trace, at, what, track);
    at = PUT(at, ",\"args\":{\"name\":");
    at = put_text(at, (struct ferryi_trace_text)FERRYI_TRACE_ANY(name));
    return PUT(at, "}},\n");
}

/* Returns the track of the calling thread in a trace. Before the thread's first entry in the trace,
 * writes the name of the track. If a thread alternates between traces, it writes the name each time
 * it changes to a different trace. */
static const struct track *
own_track(const ferryi_trace *trace, char **at)
{
    static _Thread_local struct track own;
    if (own.serial == trace->serial)
        return &own;
    char name[32] = "";
    if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0)
        snprintf(name, sizeof(name), "thread");
    *at = put_label(trace, *at, "thread_name", ferryi_thread_id(), name);
    char *end = PUT(put_track(trace, own.text, ferryi_thread_id()), ",\"ts\":");
    own.bytes = (size_t)(end - own.text);
    own.serial = trace->serial;
    return &own;
}

static uint64_t
track_of(struct ferryi_trace_stream stream)
{
    return STREAM_TRACKS + (uint64_t)stream.place * TRACKS_OF_PLACE + stream.number;
}

static char *
put_stream(ferryi_trace *trace, char *at, struct ferryi_trace_stream stream)
{
    uint64_t bit = UINT64_C(1) << (stream.number % STREAM_NUMBERS);
    _Atomic uint64_t *named = &trace->named[stream.place];
    if ((atomic_load_explicit(named, memory_order_relaxed) & bit) ||
        (atomic_fetch_or_explicit(named, bit, memory_order_relaxed) & bit))
        return at;
    char name[96];
    if (stream.number)
        snprintf(name, sizeof(name), "stream %u of %s", stream.number, trace->places[stream.place]);
    else
        snprintf(name, sizeof(name), "further streams of %s", trace->places[stream.place]);
    return put_label(trace, at, "thread_name", track_of(stream), name);
}

static char *
put_arguments(char *at, const struct ferryi_trace_entry *entry)
{
    size_t texts = 1;
    at = PUT(at, ",\"args\":{");
    for (size_t i = 0; i < entry->argument_count && i < ARGUMENTS_MOST; i++) {
        const struct ferryi_trace_argument *argument = &entry->arguments[i];
        bool is_text = argument->text.text != NULL;
        if (is_text && texts++ == TEXTS_MOST)
            break;
        if (i > 0)
            *at++ = ',';
        memcpy(at, argument->key, FERRYI_TRACE_KEY_MOST);
        at += argument->key_bytes;
        at = is_text ? put_text(at, argument->text) : put_number(at, argument->number);
    }
    *at++ = '}';
    return at;
}

static char *
put_entry(const ferryi_trace *trace, char *at, const struct ferryi_trace_entry *entry,
          const struct track *track, uint64_t now)
{
    bool lasts = entry->phase == 'X';
    uint64_t begun =
        lasts && entry->begun_ns > trace->origin_ns ? entry->begun_ns - trace->origin_ns : 0;
    now -= trace->origin_ns;
    at = put_name(at, entry->phase, entry->category, entry->name);
    at = put(at, track->text, track->bytes);
    at = put_time(at, lasts ? begun : now);
    if (lasts) {
        at = PUT(at, ",\"dur\":");
        at = put_time(at, now > begun ? now - begun : 0);
    } else if (entry->phase == 'i') {
        at = PUT(at, ",\"s\":\"t\"");
    } else if (entry->phase != 'C') {
        at = PUT(at, ",\"id\":\"");
        at = put_number(at, entry->object);
        *at++ = '.';
        at = put_number(at, entry->number);
        *at++ = '"';
    }
    at = put_arguments(at, entry);
    return PUT(at, "},\n");
}

/* Writes an instant event to a stream's track. The time of the event is the time at which the work
 * was queued, because the library does not know when the device runs the work. */
static char *
put_queued(ferryi_trace *trace, char *at, const struct ferryi_trace_entry *entry, uint64_t now)
{
    at = put_stream(trace, at, entry->stream);
    const struct ferryi_trace_text category = FERRYI_TRACE_PLAIN("queue");
    at = put_track(trace, put_name(at, 'i', category, entry->name), track_of(entry->stream));
    at = PUT(at, ",\"ts\":");
    at = put_time(at, now - trace->origin_ns);
    return PUT(at, ",\"s\":\"t\",\"args\":{}},\n");
}

void
ferryi_trace_add(ferryi_trace *trace, const struct ferryi_trace_entry *entry)
{
    if (!trace || trace->forks != ferryi_fork_count() ||
        atomic_load_explicit(&trace->broken, memory_order_relaxed))
        return;
    char lines[2 * LINE_BYTES], *at = lines;
    uint64_t now = ferryi_now_ns();
    const struct track *track = own_track(trace, &at);
    at = put_entry(trace, at, entry, track, now);
    if (entry->stream.place > 0 && entry->stream.place < PLACES)
        at = put_queued(trace, at, entry, now);
    add_lines(trace, lines, (size_t)(at - lines));
}

/* -- life -------------------------------------------------------------------------------------- */

static void
trace_free(ferryi_trace *trace)
{
    ferryi_mutex_is_needless(&trace->mutex);
    if (trace->file >= 0) {
        ferryi_output_release(trace->file);
        close(trace->file);
    }
    ferryi_cond_destroy(&trace->idle);
    ferryi_mutex_destroy(&trace->mutex);
    free(trace->chunk);
    free(trace->other);
    free(trace->path);
    free(trace);
}

/* Writes the beginning of the trace's JSON array. It contains the name of the process and the
 * origin of the clock. */
static int
write_head(const ferryi_trace *trace)
{
    char lines[2048], *at = PUT(lines, "[\n");
    at = put_label(trace, at, "process_name", 0, program_invocation_short_name);
    at = put_metadata(trace, at, "ferry", 0);
    at = PUT(at, ",\"args\":{\"format\":1,\"version\":");
    at = put_text(at, (struct ferryi_trace_text)FERRYI_TRACE_ANY(ferry_version()));
    at = PUT(at, ",\"origin_ns\":");
    at = put_number(at, trace->origin_ns);
    at = PUT(at, "}},\n");
    return ferryi_output_write(trace->file, lines, (size_t)(at - lines));
}

ferry_status
ferryi_trace_open(const char *path, const struct ferryi_log *log, ferryi_trace **out)
{
    ferryi_trace *trace = calloc(1, sizeof(*trace));
    if (!trace)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open the trace %s: no host memory", path);
    ferryi_mutex_init(&trace->mutex);
    ferryi_mutex_is_needless(&trace->mutex);
    ferryi_cond_init(&trace->idle);
    trace->log = log;
    trace->forks = ferryi_fork_count();
    trace->origin_ns = ferryi_now_ns();
    trace->process_bytes =
        (size_t)snprintf(trace->process, sizeof(trace->process),
                         ",\"pid\":%llu,\"tid\":", (unsigned long long)ferryi_process_id());
    trace->chunk = malloc(CHUNK_BYTES);
    trace->other = malloc(CHUNK_BYTES);
    trace->file = -1;
    if (!trace->chunk || !trace->other) {
        trace_free(trace);
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open the trace %s: no host memory", path);
    }
    int failure = ferryi_output_open(path, &trace->file, &trace->path);
    if (!failure)
        failure = write_head(trace);
    if (failure) {
        trace_free(trace);
        return ferryi_fail(failure == ENOMEM ? FERRY_ERROR_OUT_OF_MEMORY : FERRY_ERROR_IO,
                           "open the trace %s: %s", path, strerror(failure));
    }
    if (strcmp(path, trace->path) != 0)
        ferryi_log_setting(log, FERRY_LOG_WARNING,
                           "the trace goes to %s, because %s is being written", trace->path, path);
    list(trace);
    *out = trace;
    return FERRY_OK;
}

void
ferryi_trace_name_place(ferryi_trace *trace, int place, const char *name)
{
    if (!trace || place < 0 || place >= PLACES)
        return;
    snprintf(trace->places[place], sizeof(trace->places[place]), "%s", name);
    size_t bytes = strlen(trace->places[place]);
    trace->plain_bytes[place] = count_plain(trace->places[place], bytes) == bytes ? bytes : 0;
}

struct ferryi_trace_text
ferryi_trace_place(const ferryi_trace *trace, int place)
{
    if (!trace || place < 0 || place >= PLACES)
        return (struct ferryi_trace_text)FERRYI_TRACE_ANY("");
    return (struct ferryi_trace_text){trace->places[place], trace->plain_bytes[place]};
}

void
ferryi_trace_wait(ferryi_trace *trace, const char *what, const char *device, uint64_t begun_ns)
{
    const struct ferryi_trace_text text = FERRYI_TRACE_ANY(device);
    const struct ferryi_trace_argument argument = FERRYI_TRACE_TEXT("device", text);
    ferryi_trace_add(trace, &(struct ferryi_trace_entry){.phase = 'X',
                                                         .category = FERRYI_TRACE_PLAIN("wait"),
                                                         .name = FERRYI_TRACE_ANY(what),
                                                         .begun_ns = begun_ns,
                                                         .arguments = &argument,
                                                         .argument_count = device != NULL});
}

/* Closes the trace. Writes the last event of the JSON array without a comma, because JSON allows no
 * comma after the last element. */
void
ferryi_trace_close(ferryi_trace **trace_address)
{
    ferryi_trace *trace = *trace_address;
    if (!trace)
        return;
    *trace_address = NULL;
    unlist(trace);
    ferryi_mutex_lock(&trace->mutex);
    int failure = flush(trace);
    ferryi_mutex_unlock(&trace->mutex);
    const struct ferryi_trace_text category = FERRYI_TRACE_PLAIN("trace"),
                                   name = FERRYI_TRACE_PLAIN("end");
    char line[512], *at = put_track(trace, put_name(line, 'i', category, name), ferryi_thread_id());
    at = PUT(at, ",\"ts\":");
    at = put_time(at, ferryi_now_ns() - trace->origin_ns);
    at = PUT(at, ",\"s\":\"p\",\"args\":{}}\n]\n");
    int last_failure = write_chunk(trace, line, (size_t)(at - line));
    report(trace->log, trace->path, failure ? failure : last_failure);
    trace_free(trace);
}
