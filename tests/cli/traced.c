/* SPDX-License-Identifier: MIT */
/*
 * A program whose trace is known in advance. test_trace.py starts it as `traced HOW [FILE]`. FILE
 * is the context's trace_file, and HOW is one of the words in the table in main(). The program also
 * makes the snapshot of memory that FERRY_SNAPSHOT asks for.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.h>
#include <ferry/float.h>

enum { COUNT = 4096, ROUNDS = 10, COPIES = 5, BIG = 3 << 18 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != FERRY_OK) {                                                                  \
            fprintf(stderr, "traced: line %d: %s: %s\n", __LINE__, #call, ferry_last_error());     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static float memory[COUNT];

static void
print_log(ferry_log_level level, const char *message, void *user)
{
    (void)user;
    if (level <= FERRY_LOG_WARNING)
        fprintf(stderr, "log %d: %s\n", (int)level, message);
}

static ferry_context *
create_context(const char *path)
{
    const ferry_context_options options = {
        .devices = "emulated", .log = print_log, .device_bytes_limit = 4 << 20, .trace_file = path};
    ferry_context *context;
    CHECK(ferry_context_create(&options, &context));
    return context;
}

static ferry_float_buffer
create_buffer(ferry_context *context, const char *name, size_t count)
{
    ferry_float_buffer buffer;
    CHECK(ferry_float_create(context, count, &(ferry_buffer_options){.name = name}, &buffer));
    return buffer;
}

static void
overwrite_host(ferry_float_buffer buffer)
{
    ferry_scope scope;
    float *values;
    CHECK(ferry_float_overwrite_host(buffer, &scope, &values));
    memset(values, 0, ferry_float_bytes(buffer));
    CHECK(ferry_scope_close(&scope));
}

static void
update_host(ferry_float_buffer buffer)
{
    ferry_scope scope;
    float *values;
    CHECK(ferry_float_update_host(buffer, &scope, &values));
    values[0]++;
    CHECK(ferry_scope_close(&scope));
}

/* Opens and closes an UPDATE scope on the device. The program queues no work in the scope, because
 * such work would not appear in the trace. */
static void
update_device(ferry_float_buffer buffer)
{
    ferry_scope scope;
    float *pointer;
    CHECK(ferry_float_update_device(buffer, NULL, &scope, &pointer));
    CHECK(ferry_scope_close(&scope));
}

static void
overwrite_device(ferry_float_buffer buffer, size_t count)
{
    ferry_scope scope;
    float *pointer;
    CHECK(ferry_float_overwrite_device_range(buffer, 0, count, NULL, &scope, &pointer));
    CHECK(ferry_scope_close(&scope));
}

static void
read_device(ferry_float_buffer buffer)
{
    ferry_scope scope;
    const float *pointer;
    CHECK(ferry_float_read_device(buffer, NULL, &scope, &pointer));
    CHECK(ferry_scope_close(&scope));
}

/* Updates the buffer on the device and on the host in turn, ten times. */
static void
ping_pong(ferry_context *context)
{
    ferry_float_buffer pong = create_buffer(context, "pong", COUNT);
    overwrite_host(pong);
    for (int i = 0; i < ROUNDS; i++) {
        update_device(pong);
        update_host(pong);
    }
    ferry_float_destroy(&pong);
}

/* Writes the buffer on the host and reads it on the device in turn, ten times. The trace report
 * must not call this a round trip. */
static void
go_one_way(ferry_context *context)
{
    ferry_float_buffer buffer = create_buffer(context, "one way", COUNT);
    for (int i = 0; i < ROUNDS; i++) {
        overwrite_host(buffer);
        read_device(buffer);
    }
    ferry_float_destroy(&buffer);
}

/* Copies several buffers to the device in UPDATE scopes. For each buffer, a different operation
 * then uses or overwrites the copied bytes. The trace report must name the copies that were
 * needless. */
static void
fetch_needlessly(ferry_context *context)
{
    ferry_float_buffer needless = create_buffer(context, "needless", COUNT),
                       half = create_buffer(context, "half", COUNT);
    ferry_float_buffer used = create_buffer(context, "used", COUNT),
                       left = create_buffer(context, "left", COUNT);
    ferry_float_buffer hit = create_buffer(context, "hit", COUNT),
                       held = create_buffer(context, "held", COUNT);
    ferry_float_buffer filled = create_buffer(context, "filled", COUNT),
                       all[] = {needless, half, used, left, hit, held, filled};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        overwrite_host(all[i]);
    update_device(needless);
    overwrite_device(needless, COUNT);
    update_device(half);
    overwrite_device(half, COUNT / 2);
    update_device(used);
    read_device(used);
    overwrite_device(used, COUNT);
    update_device(left);
    CHECK(ferry_float_copy_to(left, 0, COUNT, memory, NULL));
    overwrite_device(left, COUNT);
    /* The READ scope causes the copy to the device and also uses the copied bytes. So the report
     * must not call this copy needless. */
    read_device(hit);
    overwrite_device(hit, COUNT);
    void *address;
    CHECK(ferry_buffer_hold(held.raw, 1, &address));
    update_device(held);
    CHECK(ferry_buffer_release(held.raw, 1));
    overwrite_device(held, COUNT);
    update_device(filled);
    CHECK(ferry_float_fill(filled, 0, COUNT, 1, NULL));
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        ferry_float_destroy(&all[i]);
}

static ferry_status
add_one(const ferry_call *call, void *user)
{
    size_t count;
    float *values = ferry_float_call_array(call, 0, &count);
    (void)user;
    for (size_t i = 0; i < count; i++)
        values[i]++;
    return FERRY_OK;
}

static void
launch(ferry_context *context)
{
    const ferry_parameter parameter = {.element = ferry_float_element(), .access = FERRY_UPDATE};
    const ferry_kernel_source source = {.name = "add_one",
                                        .host_function = add_one,
                                        .parameters = &parameter,
                                        .parameter_count = 1};
    ferry_float_buffer buffer = create_buffer(context, "launched", COUNT);
    ferry_kernel *kernel;
    overwrite_host(buffer);
    CHECK(ferry_kernel_create(context, &source, &kernel));
    const ferry_argument argument = ferry_float_argument(buffer);
    for (int i = 0; i < 2; i++)
        CHECK(ferry_kernel_launch(kernel, ferry_grid_for(COUNT, 256), NULL, &argument, 1));
    CHECK(ferry_float_copy_to(buffer, 0, COUNT, memory, NULL));
    ferry_kernel_destroy(&kernel);
    ferry_float_destroy(&buffer);
}

/* Reads two buffers on a device that has memory for only one of them. The second read evicts the
 * first buffer. */
static void
evict(ferry_context *context)
{
    ferry_float_buffer first = create_buffer(context, "first", BIG),
                       second = create_buffer(context, "second", BIG);
    overwrite_host(first);
    overwrite_host(second);
    read_device(first);
    read_device(second);
    ferry_float_destroy(&first);
    ferry_float_destroy(&second);
}

/* Copies two regions in one transfer. The target buffer has a name with characters that JSON must
 * escape. */
static void
copy_pieces(ferry_context *context)
{
    ferry_float_buffer target =
        create_buffer(context, "quote \" back \\ tab \t byte \xff end", COUNT);
    const ferry_copy_region regions[] = {ferry_float_region_from(target, 0, 100, memory),
                                         ferry_float_region_from(target, 1000, 200, memory)};
    CHECK(ferry_copy(regions, 2, NULL));
    ferry_float_destroy(&target);
}

static void *
copy_on_thread(void *user)
{
    ferry_float_buffer buffer = create_buffer(user, "of a thread", COUNT);
    pthread_setname_np(pthread_self(), "copier");
    for (int i = 0; i < COPIES; i++)
        CHECK(ferry_float_copy_from(buffer, 0, COUNT, memory, NULL));
    ferry_float_destroy(&buffer);
    return NULL;
}

static void
use_threads(ferry_context *context)
{
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, copy_on_thread, context) != 0)
            exit(1);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static int
run_known(const char *path)
{
    ferry_context *context = create_context(path);
    ping_pong(context);
    go_one_way(context);
    fetch_needlessly(context);
    launch(context);
    evict(context);
    copy_pieces(context);
    use_threads(context);
    ferry_context_destroy(&context);
    return 0;
}

/* Reads lines from the standard input, and creates a buffer with each line as its name. A "~" in a
 * line stands for a newline. */
static int
run_names(const char *path)
{
    ferry_context *context = create_context(path);
    char name[512];
    while (fgets(name, sizeof(name), stdin)) {
        name[strcspn(name, "\n")] = 0;
        for (char *at = strchr(name, '~'); at; at = strchr(at, '~'))
            *at = '\n';
        ferry_float_buffer buffer = create_buffer(context, name, 1);
        overwrite_host(buffer);
        ferry_float_destroy(&buffer);
    }
    ferry_context_destroy(&context);
    return 0;
}

/* Uploads many short-lived buffers, as iterative solvers do: 200 without a name, 50 with the same
 * one, and another one of twice the size. */
static int
run_temporaries(const char *path)
{
    ferry_context *context = create_context(path);
    for (int i = 0; i < 251; i++) {
        ferry_float_buffer buffer =
            create_buffer(context, i < 201 ? NULL : "scratch", i == 100 ? 2 : 1);
        overwrite_host(buffer);
        read_device(buffer);
        ferry_float_destroy(&buffer);
    }
    ferry_context_destroy(&context);
    return 0;
}

/* Creates two contexts with the same trace file name, which the environment may supply. */
static int
run_contexts(const char *path)
{
    ferry_context *first = create_context(path), *second = create_context(path);
    ping_pong(first);
    launch(second);
    ferry_context_destroy(&first);
    ferry_context_destroy(&second);
    return 0;
}

/* Writes enough trace entries to fill several chunks of the trace file. */
static void
fill_chunks(ferry_context *context)
{
    for (int i = 0; i < 30; i++)
        ping_pong(context);
}

static int
run_abort(const char *path)
{
    ferry_context *context = create_context(path);
    fill_chunks(context);
    abort();
}

static int
run_exit(const char *path)
{
    ferry_context *context = create_context(path);
    ping_pong(context);
    exit(0);
}

/* Forks while a context is traced. The child destroys the objects that it inherited, creates a new
 * context, and ends with exit() or _exit(). */
static int
run_fork(const char *path)
{
    ferry_context *context = create_context(path);
    ferry_float_buffer buffer = create_buffer(context, "parent's", COUNT);
    ping_pong(context);
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            ferry_float_destroy(&buffer);
            ferry_context_destroy(&context);
            ferry_context *own;
            /* The child uses the host device, which starts no threads. The thread sanitizer does
             * not support threads in a forked child. */
            CHECK(ferry_context_create(&(ferry_context_options){.devices = "host"}, &own));
            ping_pong(own);
            ferry_context_destroy(&own);
            if (i == 0)
                exit(0);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            exit(1);
    }
    ferry_float_destroy(&buffer);
    ferry_context_destroy(&context);
    return 0;
}

/* Tries to create a context with this trace file. Prints the status and the error message. */
static int
run_refused(const char *path)
{
    const ferry_context_options options = {.devices = "emulated", .trace_file = path};
    ferry_context *context = NULL;
    ferry_status status = ferry_context_create(&options, &context);
    printf("%s\n%s\n%s\n", ferry_status_name(status), status == FERRY_OK ? "" : ferry_last_error(),
           context ? "a context" : "none");
    ferry_context_destroy(&context);
    return 0;
}

/* Writes the trace to a file system that is full. All library calls must still succeed. */
static int
run_full(const char *path)
{
    ferry_context *context = create_context(path);
    fill_chunks(context);
    ferry_context_destroy(&context);
    return 0;
}

/* Writes the trace to a pipe after the reader has closed the pipe. All library calls must still
 * succeed, and no SIGPIPE may be pending in the end. */
static int
run_pipe(const char *path)
{
    ferry_context *context = create_context(path);
    sigset_t pending, blocked;
    printf("made\n");
    fflush(stdout);
    if (getchar() == EOF) /* the reader closes the trace pipe before it writes to standard input */
        exit(1);
    fill_chunks(context);
    ferry_context_destroy(&context);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    printf("%s\n",
           sigismember(&pending, SIGPIPE) || sigismember(&blocked, SIGPIPE) ? "left" : "clean");
    return 0;
}

static char second_path[256];

static void *
open_second(void *user)
{
    ferry_context *second;
    CHECK(ferry_context_create(
        &(ferry_context_options){.devices = "host", .trace_file = second_path}, &second));
    ferry_context_destroy(&second);
    return user;
}

/* Log callback. If the message is an error, starts a thread that opens and closes a different
 * trace, and waits for the thread. */
static void
wait_in_log(ferry_log_level level, const char *message, void *user)
{
    pthread_t thread;
    if (level > FERRY_LOG_ERROR)
        return;
    fprintf(stderr, "log %d: %s\n", (int)level, message);
    if (pthread_create(&thread, NULL, open_second, user) == 0)
        pthread_join(thread, NULL);
}

/* At exit, the library writes the trace to a pipe whose reader has closed it. The write fails, and
 * the library reports the failure to the log callback. The callback waits for a thread that opens a
 * different trace. It would wait forever if the library held a lock of its traces meanwhile. */
static int
run_pipe_exit(const char *path)
{
    const ferry_context_options options = {
        .devices = "host", .log = wait_in_log, .trace_file = path};
    ferry_context *context;
    snprintf(second_path, sizeof(second_path), "%s.second", path);
    CHECK(ferry_context_create(&options, &context));
    printf("made\n");
    fflush(stdout);
    if (getchar() == EOF)
        exit(1);
    alarm(20);
    ferry_float_buffer buffer = create_buffer(context, "late", COUNT);
    overwrite_host(buffer);
    exit(0);
}

/* A keep_going callback that opens and closes a scope on current data. This must be allowed even in
 * a traced context. */
static bool
open_in_callback(size_t done, size_t total, void *user)
{
    ferry_scope scope;
    const float *values;
    ferry_float_buffer *buffer = user;
    (void)done;
    (void)total;
    CHECK(ferry_float_read_host(*buffer, &scope, &values));
    CHECK(ferry_scope_close(&scope));
    return true;
}

static int
run_callback(const char *path)
{
    ferry_context *context = create_context(path);
    ferry_float_buffer seen = create_buffer(context, "seen", COUNT),
                       copied = create_buffer(context, "copied", COUNT);
    overwrite_host(seen);
    CHECK(ferry_float_copy_from(
        copied, 0, COUNT, memory,
        &(ferry_copy_options){.keep_going = open_in_callback, .user = &seen}));
    ferry_float_destroy(&seen);
    ferry_float_destroy(&copied);
    ferry_context_destroy(&context);
    return 0;
}

/* Runs out of device memory, of which FERRY_SNAPSHOT makes a snapshot. FILE is not used. */
static int
run_snapshot(const char *path)
{
    (void)path;
    ferry_context *context = create_context(NULL);
    ferry_float_buffer left = create_buffer(context, "left & right", COUNT),
                       gone = create_buffer(context, "gone", COUNT),
                       large = create_buffer(context, "large", 2 * BIG);
    ferry_scope scope, refused;
    const float *values;
    float *pointer;
    overwrite_host(left);
    read_device(left);
    overwrite_device(gone, COUNT);
    ferry_float_destroy(&gone);
    CHECK(ferry_float_read_device(left, NULL, &scope, &values));
    if (ferry_float_overwrite_device(large, NULL, &refused, &pointer) != FERRY_ERROR_OUT_OF_MEMORY)
        return 1;
    CHECK(ferry_scope_close(&scope));
    ferry_float_destroy(&left);
    ferry_float_destroy(&large);
    ferry_context_destroy(&context);
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *how;
        int (*run)(const char *path);
    } ways[] = {
        {"known", run_known},         {"contexts", run_contexts}, {"abort", run_abort},
        {"exit", run_exit},           {"fork", run_fork},         {"refused", run_refused},
        {"full", run_full},           {"callback", run_callback}, {"pipe", run_pipe},
        {"pipe-exit", run_pipe_exit}, {"names", run_names},       {"temporaries", run_temporaries},
        {"snapshot", run_snapshot}};
    for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(*ways); i++)
        if (!strcmp(argv[1], ways[i].how))
            return ways[i].run(argc > 2 ? argv[2] : NULL);
    fprintf(stderr, "usage: traced HOW [FILE]\n");
    return 2;
}
