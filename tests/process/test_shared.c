/* SPDX-License-Identifier: MIT */
/*
 * Checks buffers whose memory several processes share. The other processes run this program again,
 * and perform the commands that the test sends to them, so that a test says in one place what each
 * process does and in which order. A random test compares three processes with a model.
 */
#include "tests/buffer/work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/graph.h>
#include <ferry/share.h>

#include "src/base/shared_file.h"
#include "src/store/store.h"
#include "tests/support/fault.h"
#include "tests/support/lazy.h"

#define COUNT         3000
#define HANGS_AFTER_S 60

extern char **environ;

/* -- what a process does ----------------------------------------------------------------------- */

enum order {
    CREATE,  /* makes a shared buffer at `place` with `number` elements, and exports it */
    IMPORT,  /* imports it at `place`; `number`: only to read */
    ACQUIRE, /* `number`: on a stream */
    RELEASE,
    WRITE,  /* sets element i to i + `number` at `place` */
    ADD,    /* adds `number` to each element at `place` */
    READ,   /* returns the first element, or -1 if the others do not count on from there */
    ACCEPT, /* accepts bytes that were lost */
    OPEN,   /* opens a scope to read at the host, and leaves it open */
    CLOSE,
    DESTROY, /* destroys the buffer */
    END,     /* destroys the context */
    FORK,    /* forks a child that does nothing for a long time; returns its number */
    DIE      /* kills itself */
};

struct command {
    enum order order;
    int place, number;
    ferry_share share;
};

struct reply {
    ferry_status status;
    int number;
    ferry_share share;
    char message[512];
};

struct process {
    fixture f;
    ferry_buffer *buffer;
    ferry_scope scope;
};

/* Opens a context without a trace, so that accesses take the shortest path. */
static void
process_begin(struct process *process)
{
    fixture *f = &process->f;
    memset(process, 0, sizeof(*process));
    lazy_register();
    fault_register();
    OK(ferry_context_create(NULL, &f->context));
    fixture_begin(f);
}

static void
process_end(struct process *process)
{
    if (!process->f.context)
        return;
    fixture_finish(&process->f);
    ferry_context_destroy(&process->f.context);
}

/* Opens a scope on all elements and returns its status. Lets the device copy to or from the memory,
 * if the place is one. */
static ferry_status
access_all(struct process *process, int place, ferry_access access, int number, int *out_first)
{
    fixture *f = &process->f;
    static int values[COUNT], got[COUNT];
    ferry_scope scope;
    void *memory;
    const size_t count = ferry_buffer_count(process->buffer);
    ferry_status status =
        place == 0
            ? ferry_buffer_open_host(process->buffer, INT, access, 0, FERRY_REST, &scope, &memory)
            : ferry_buffer_open_device(process->buffer, INT, access, 0, FERRY_REST,
                                       stream_of(f, place), &scope, &memory);
    if (status != FERRY_OK)
        return status;
    const size_t bytes = count * sizeof(int);
    if (access != FERRY_OVERWRITE) {
        place_read(f, place, got, memory, bytes);
        *out_first = got[0];
        for (size_t i = 1; i < count; i++)
            if (got[i] != got[0] + (int)i)
                *out_first = -1;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = access == FERRY_OVERWRITE ? (int)i + number : got[i] + number;
    if (access != FERRY_READ)
        place_write(f, place, memory, values, bytes);
    return ferry_scope_close(&scope);
}

/* Forks a child that sleeps, and returns when it does, after the library's handlers of the fork. */
static ferry_status
fork_a_sleeper(int *out_number)
{
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return FERRY_ERROR_IO;
    const pid_t child = fork();
    if (child == 0) {
        if (write(ends[1], "x", 1) == 1)
            sleep(HANGS_AFTER_S);
        _exit(0);
    }
    close(ends[1]);
    const ssize_t got = read(ends[0], &byte, 1);
    close(ends[0]);
    *out_number = child;
    return child > 0 && got == 1 ? FERRY_OK : FERRY_ERROR_IO;
}

static ferry_status
obey(struct process *process, const struct command *command, struct reply *reply)
{
    fixture *f = &process->f;
    const ferry_share_options import = {
        .name = "theirs", .place = command->place, .read_only = command->number};
    const ferry_buffer_options shared = {
        .name = "ours", .memory = FERRY_MEMORY_SHARED, .place = command->place};
    ferry_stream *stream = command->number ? f->stream : NULL;
    void *memory;
    switch (command->order) {
    case CREATE:
        FERRY_CHECK(ferry_buffer_create(f->context, INT, (size_t)command->number, &shared,
                                        &process->buffer));
        return ferry_buffer_export(process->buffer, &reply->share);
    case IMPORT:
        return ferry_buffer_import(f->context, INT, &command->share, &import, &process->buffer);
    case ACQUIRE:
        return ferry_buffer_acquire_shared(process->buffer, stream);
    case RELEASE:
        return ferry_buffer_release_shared(process->buffer, stream);
    case WRITE:
        return access_all(process, command->place, FERRY_OVERWRITE, command->number,
                          &reply->number);
    case ADD:
        return access_all(process, command->place, FERRY_UPDATE, command->number, &reply->number);
    case READ:
        return access_all(process, command->place, FERRY_READ, 0, &reply->number);
    case ACCEPT:
        return ferry_buffer_mark_dirty(process->buffer, 0, FERRY_REST, command->place, NULL);
    case OPEN:
        return ferry_buffer_open_host(process->buffer, INT, FERRY_READ, 0, FERRY_REST,
                                      &process->scope, &memory);
    case CLOSE:
        return ferry_scope_close(&process->scope);
    case DESTROY:
        ferry_buffer_destroy(&process->buffer);
        return FERRY_OK;
    case END:
        process_end(process);
        return FERRY_OK;
    case FORK:
        return fork_a_sleeper(&reply->number);
    case DIE:
        (void)kill(getpid(), SIGKILL);
        return FERRY_OK;
    }
    return FERRY_ERROR_UNSUPPORTED;
}

static struct reply
perform(struct process *process, const struct command *command)
{
    struct reply reply;
    memset(&reply, 0, sizeof(reply));
    reply.status = obey(process, command, &reply);
    if (reply.status != FERRY_OK)
        snprintf(reply.message, sizeof(reply.message), "%s", ferry_last_error());
    return reply;
}

/* -- other processes --------------------------------------------------------------------------- */

static bool
read_all(int file, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = read(file, (char *)bytes + done, count - done);
        if (got <= 0 && errno != EINTR)
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Performs commands until the test closes the pipe. */
static int
be_another(void)
{
    struct process process;
    struct command command;
    alarm(HANGS_AFTER_S);
    process_begin(&process);
    while (read_all(0, &command, sizeof(command))) {
        const struct reply reply = perform(&process, &command);
        if (write(3, &reply, sizeof(reply)) != sizeof(reply))
            return 1;
    }
    ferry_buffer_destroy(&process.buffer);
    process_end(&process);
    return 0;
}

struct other {
    pid_t pid;
    int to, from;
};

static struct other
start(void)
{
    struct other other;
    int to[2], from[2];
    char program[4096];
    posix_spawn_file_actions_t files;
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    assert_true(length > 0);
    program[length] = 0;
    char *const arguments[] = {program, (char *)(uintptr_t) "other", NULL};
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&files), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&files, to[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&files, from[1], 3), 0);
    assert_int_equal(posix_spawn(&other.pid, program, &files, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(to[0]);
    close(from[1]);
    other.to = to[1];
    other.from = from[0];
    return other;
}

/* Waits for the end of a process, and expects that it found no error, or was killed. */
static void
finish(struct other *other, bool killed)
{
    int how;
    close(other->to);
    close(other->from);
    assert_int_equal(waitpid(other->pid, &how, 0), other->pid);
    if (killed)
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    else
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* Sends a command to a process, or performs it here if `other` is NULL, and returns the reply. */
static struct reply
ask(struct process *here, const struct other *other, struct command command)
{
    struct reply reply;
    if (!other)
        return perform(here, &command);
    assert_int_equal(write(other->to, &command, sizeof(command)), sizeof(command));
    assert_true(read_all(other->from, &reply, sizeof(reply)));
    return reply;
}

static struct reply
expect(ferry_status expected, struct reply reply, int line)
{
    if (reply.status != expected) {
        print_error("line %d: %s: %s\n", line, ferry_status_name(reply.status), reply.message);
        fail();
    }
    return reply;
}

#define ASK(other, ...)            ask(here, other, (struct command){.order = __VA_ARGS__})
#define DO(other, ...)             expect(FERRY_OK, ASK(other, __VA_ARGS__), __LINE__)
#define REFUSE(status, other, ...) expect(FERRY_ERROR_##status, ASK(other, __VA_ARGS__), __LINE__)

/* -- fixture ----------------------------------------------------------------------------------- */

/* Counts the open descriptors of shared memory. */
static size_t
open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char link[40] = "";
        if (readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1) > 0)
            count += strncmp(link, "/memfd:ferry shared memory", 26) == 0;
    }
    closedir(folder);
    return count;
}

static int
setup(void **state)
{
    struct process *here = malloc(sizeof(*here));
    process_begin(here);
    *state = here;
    return 0;
}

static int
teardown(void **state)
{
    struct process *here = *state;
    ferry_buffer_destroy(&here->buffer);
    process_end(here);
    free(here);
    assert_int_equal(open_files(), 0);
    return 0;
}

/* Returns whether a device of this kind shares its memory. */
static bool
shares(struct process *here)
{
    return here->f.context->devices[1]->capabilities & FERRY_CAN_SHARE;
}

/* Calls the rest of a test for the host's memory, and that of the first device if it shares it. */
#define EACH_PLACE(place) for (int place = 0; place <= (shares(here) ? 1 : 0); place++)

/* -- tests ------------------------------------------------------------------------------------- */

/* The bytes are those of the process that had the buffer last, wherever it wrote them. */
static void
test_two_processes_take_turns(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&other, IMPORT, .share = made.share, .place = place);
        DO(NULL, WRITE, .place = 1, .number = 7);
        for (int turn = 0; turn < 8; turn++) {
            const int on_stream = turn / 2 % 2 && place > 0, first = 7 + 11 * turn;
            DO(NULL, RELEASE, .number = on_stream);
            DO(&other, ACQUIRE, .number = on_stream);
            assert_int_equal(DO(&other, READ, .place = turn % 2).number, first);
            DO(&other, ADD, .place = turn / 2 % 2, .number = 1);
            DO(&other, RELEASE, .number = on_stream);
            DO(NULL, ACQUIRE, .number = on_stream);
            assert_int_equal(DO(NULL, READ, .place = turn / 4 % 2).number, first + 1);
            DO(NULL, ADD, .place = (turn + 1) % 2, .number = 10);
        }
        DO(&other, DESTROY, .place = 0);
        assert_int_equal(DO(NULL, READ, .place = 0).number, 7 + 88);
        DO(NULL, DESTROY, .place = 0);
        finish(&other, false);
    }
}

/* Elements that were never written, or were discarded, are zeros for the other process. */
static void
test_unwritten_bytes_are_zeros(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&other, IMPORT, .share = made.share);
        DO(NULL, RELEASE, .place = 0);
        DO(&other, ACQUIRE, .place = 0);
        DO(&other, READ, .place = place);
        DO(&other, ADD, .place = 1, .number = 3);
        DO(&other, RELEASE, .place = 0);
        DO(NULL, ACQUIRE, .place = 0);
        ferry_scope scope;
        const int *values = open_at(&here->f, here->buffer, 0, FERRY_READ, 0, FERRY_REST, &scope);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(values[i], 3);
        OK(ferry_scope_close(&scope));
        OK(ferry_buffer_discard(here->buffer, 0, 5));
        DO(NULL, RELEASE, .place = 0);
        DO(NULL, ACQUIRE, .place = 0);
        values = open_at(&here->f, here->buffer, 0, FERRY_READ, 0, FERRY_REST, &scope);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(values[i], i < 5 ? 0 : 3);
        OK(ferry_scope_close(&scope));
        DO(NULL, DESTROY, .place = 0);
        finish(&other, false);
    }
}

/* To acquire moves nothing, and to release moves what is newer elsewhere. */
static void
test_what_is_moved(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    if (f->coherent || !shares(here))
        skip();
    EACH_PLACE(place)
    {
        const int away = 1 - place;
        DO(NULL, CREATE, .place = place, .number = COUNT);
        write_counting(f, here->buffer, place, 0, FERRY_REST, 1);
        touch(f, here->buffer, away, FERRY_READ, 0, FERRY_REST);
        ferry_transfer_stats before = moved(f);
        DO(NULL, RELEASE, .place = 0);
        DO(NULL, ACQUIRE, .place = 0);
        expect_moved(f, &before, 0, 0);
        /* The replica at the other place is stale, although this process wrote the bytes. */
        touch(f, here->buffer, away, FERRY_READ, 0, FERRY_REST);
        expect_moved(f, &before, place == 0 ? COUNT * 4 : 0, place == 0 ? 0 : COUNT * 4);
        before = moved(f);
        add_to(f, here->buffer, away, 100, 50, 2);
        DO(NULL, RELEASE, .place = 0);
        expect_moved(f, &before, place == 0 ? 0 : 200, place == 0 ? 200 : 0);
        DO(NULL, DESTROY, .place = 0);
    }
}

/* The end of a buffer that no other process has moves nothing. */
static void
test_an_end_without_importers(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&other, IMPORT, .share = made.share, .place = place);
        DO(&other, DESTROY, .place = 0);
        for (int written = 0; written < 2; written++) {
            if (written)
                touch(f, here->buffer, 1 - place, FERRY_OVERWRITE, 0, FERRY_REST);
            const ferry_transfer_stats before = moved(f);
            DO(NULL, DESTROY, .place = 0);
            expect_moved(f, &before, 0, 0);
            DO(NULL, CREATE, .place = place, .number = COUNT);
        }
        DO(NULL, DESTROY, .place = 0);
        finish(&other, false);
    }
}

static void
expect_refused(ferry_status status)
{
    assert_int_equal(status, FERRY_ERROR_INVALID_STATE);
    assert_non_null(strstr(ferry_last_error(), "has not acquired it"));
}

static bool
count_part(size_t done, size_t total, void *user)
{
    (void)done, (void)total, (void)user;
    return true;
}

/* No call uses the bytes of a buffer that is not acquired, and queries say so. */
static void
test_nothing_uses_what_is_away(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    EACH_PLACE(place)
    {
        int values[COUNT] = {0};
        ferry_scope scope, scopes[2];
        ferry_buffer *view;
        ferry_lease *lease;
        ferry_event *event;
        void *memory, *pointers[2];
        work w;
        DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(NULL, WRITE, .place = 0, .number = 1);
        ferry_buffer *b = here->buffer, *plain = make_ints(f, COUNT);
        OK(ferry_buffer_view(b, INT, 0, 10, &view));
        touch(f, b, 1, FERRY_READ, 0, FERRY_REST);
        assert_false(info_of(b).away);
        DO(NULL, RELEASE, .place = 0);
        assert_true(info_of(b).away);
        assert_true(info_of(b).borrowed);
        assert_int_equal(info_of(b).scopes, 0);
        for (int at = 0; at <= f->places; at++) {
            assert_false(ferry_buffer_is_current(b, at));
            for (ferry_access access = FERRY_READ; access <= FERRY_OVERWRITE; access++) {
                expect_refused(access_all(here, at, access, 0, values));
                const ferry_argument argument =
                    ferry_argument_with(ferry_buffer_argument(b, INT, 0, FERRY_REST), access);
                expect_refused(ferry_scope_open_all(&argument, 1, at, at ? stream_of(f, at) : NULL,
                                                    scopes, &memory));
                const ferry_lease_options options = {.access = access, .place = at};
                expect_refused(ferry_lease_open(b, INT, &options, &lease, &memory));
                const ferry_argument two[] = {
                    ferry_argument_with(ferry_buffer_argument(b, INT, 0, 10), access),
                    ferry_argument_with(ferry_buffer_argument(b, INT, 20, 10), access)};
                expect_refused(ferry_scope_open_all(two, 2, at, at ? stream_of(f, at) : NULL,
                                                    scopes, pointers));
            }
            expect_refused(ferry_buffer_sync_to(b, 0, FERRY_REST, at, NULL));
            expect_refused(ferry_buffer_mark_dirty(b, 0, FERRY_REST, place, NULL));
            if (at != place)
                expect_refused(ferry_buffer_invalidate(b, 0, 10, at));
        }
        expect_refused(ferry_buffer_open_host(view, INT, FERRY_READ, 0, 1, &scope, &memory));
        expect_refused(ferry_buffer_open_host(b, INT, FERRY_READ, 0, 0, &scope, &memory));
        expect_refused(ferry_buffer_copy_to(b, INT, 0, COUNT, values, NULL));
        expect_refused(ferry_buffer_copy_from(b, INT, 0, COUNT, values, NULL));
        expect_refused(ferry_buffer_copy(plain, INT, 0, b, 0, COUNT, NULL));
        expect_refused(ferry_buffer_copy(b, INT, 0, plain, 0, COUNT, NULL));
        const ferry_copy_options watched = {.keep_going = count_part};
        expect_refused(ferry_buffer_copy_to(b, INT, 0, COUNT, values, &watched));
        expect_refused(ferry_buffer_copy_to_async(b, INT, 0, COUNT, values, NULL, &event));
        expect_refused(ferry_buffer_prefetch(b, 0, FERRY_REST, 1 - place, NULL));
        expect_refused(ferry_buffer_discard(b, 0, 1));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_resize(b, 10));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_unwrap(&b, NULL));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_abandon(&b));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_evict(b, place));
        work_open(f, &w);
        expect_refused(launch_add(&w, f->stream, b, 0, COUNT, 1));
        expect_refused(launch_copy(&w, f->stream, plain, 0, b, 0, COUNT));
        expect_refused(ferry_buffer_release_shared(b, NULL));
        DO(NULL, ACQUIRE, .place = 0);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_acquire_shared(b, NULL));
        ferry_buffer_destroy(&view);
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_unwrap(&b, NULL));
        FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_abandon(&b));
        assert_int_equal(DO(NULL, READ, .place = 0).number, 1);
        work_close(&w);
        DESTROY_BUFFERS(&plain);
        DO(NULL, DESTROY, .place = 0);
    }
}

/* Work that is queued here and only reads is done before another process can write. */
static void
test_queued_reads_see_the_old_bytes(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        ferry_buffer *target = make_ints(f, COUNT);
        DO(&other, IMPORT, .share = made.share);
        for (int turn = 0; turn < 8; turn++) {
            DO(NULL, WRITE, .place = place, .number = 100 * turn);
            copy_on(f, f->stream, target, 0, here->buffer, 0, COUNT);
            DO(NULL, RELEASE, .number = place > 0 && turn % 2);
            DO(&other, ACQUIRE, .number = place > 0 && turn % 2);
            DO(&other, WRITE, .place = place, .number = 7);
            DO(&other, RELEASE, .place = 0);
            expect_counting(f, target, 0, 0, COUNT, 100 * turn);
            DO(NULL, ACQUIRE, .place = 0);
        }
        ferry_buffer_destroy(&target);
        DO(NULL, DESTROY, .place = 0);
        finish(&other, false);
    }
}

/* Memory that is a file cannot be written through a mapping that only reads. */
static void
test_a_mapping_that_only_reads(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct process there;
        int ends[2];
        if (place > 0 && !(here->f.context->devices[1]->capabilities & FERRYI_DEVICE_MAPS_FILES))
            continue;
        process_begin(&there);
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        expect(FERRY_OK,
               perform(&there,
                       &(struct command){.order = IMPORT, .number = true, .share = made.share}),
               __LINE__);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(write(ends[1], "x", 1), 1);
        ferryi_store_lock(there.buffer->store);
        void *memory = there.buffer->store->copies[place].pointer;
        ferryi_store_unlock(there.buffer->store);
        assert_int_equal(read(ends[0], memory, 1), -1);
        assert_int_equal(errno, EFAULT);
        close(ends[0]);
        close(ends[1]);
        ferry_buffer_destroy(&there.buffer);
        process_end(&there);
        DO(NULL, DESTROY, .place = 0);
    }
}

/* A thread that reads the buffer at the host again and again, and counts how often it may. */
struct reader {
    ferry_buffer *buffer;
    atomic_bool stops;
    atomic_uint reads, wrong;
};

static void
read_on(void *argument)
{
    struct reader *reader = argument;
    ferry_scope scope;
    void *memory;
    while (!atomic_load(&reader->stops)) {
        ferry_status status =
            ferry_buffer_open_host(reader->buffer, INT, FERRY_READ, 0, FERRY_REST, &scope, &memory);
        if (status == FERRY_OK)
            status = ferry_scope_close(&scope);
        (void)ferry_buffer_state(reader->buffer); /* locks it, too */
        if (status == FERRY_OK)
            atomic_fetch_add(&reader->reads, 1);
        else if (status != FERRY_ERROR_INVALID_STATE)
            atomic_fetch_add(&reader->wrong, 1);
    }
}

/* Scopes that other threads open and close meanwhile undo neither a release nor an acquire. */
static void
test_other_threads_read_meanwhile(void **state)
{
    struct process *here = *state;
    enum { TURNS = 3000 };
    DO(NULL, CREATE, .number = COUNT);
    DO(NULL, WRITE, .number = 1);
    struct reader reader = {.buffer = here->buffer};
    ferryi_thread threads[2];
    for (size_t i = 0; i < LENGTH(threads); i++)
        OK(ferryi_thread_start(&threads[i], "reader", read_on, &reader));
    for (int turn = 0; turn < TURNS; turn++) {
        ferry_status status;
        do
            status = ferry_buffer_release_shared(here->buffer, NULL);
        while (status == FERRY_ERROR_BUSY);
        OK(status);
        assert_true(info_of(here->buffer).away);
        OK(ferry_buffer_acquire_shared(here->buffer, NULL));
        assert_false(info_of(here->buffer).away);
    }
    atomic_store(&reader.stops, true);
    for (size_t i = 0; i < LENGTH(threads); i++)
        ferryi_thread_join(threads[i]);
    assert_int_equal(atomic_load(&reader.wrong), 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 1);
}

/* A buffer that is in use here is not released, and stays as it is. */
static void
test_a_scope_keeps_the_buffer_here(void **state)
{
    struct process *here = *state;
    struct other other = start();
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    DO(&other, IMPORT, .share = made.share);
    DO(NULL, WRITE, .place = 1, .number = 5);
    DO(NULL, OPEN, .place = 0);
    REFUSE(BUSY, NULL, RELEASE, .place = 0);
    struct reply refused = REFUSE(BUSY, &other, ACQUIRE, .place = 0);
    char who[40];
    snprintf(who, sizeof(who), "process %d has acquired it", (int)getpid());
    assert_non_null(strstr(refused.message, who));
    DO(NULL, CLOSE, .place = 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 5);
    DO(NULL, RELEASE, .place = 0);
    DO(&other, ACQUIRE, .place = 0);
    REFUSE(BUSY, NULL, ACQUIRE, .place = 0);
    assert_int_equal(DO(&other, READ, .place = 0).number, 5);
    finish(&other, false); /* destroys the buffer, which hands it over */
    DO(NULL, ACQUIRE, .place = 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 5);
}

/* Lets a process end at once, which cannot reply. */
static void
kill_other(struct other *other)
{
    kill(other->pid, SIGKILL);
    finish(other, true);
}

/* Processes that only read have the buffer at once. They exclude one that writes. */
static void
test_readers_share(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct other one = start(), two = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&one, IMPORT, .share = made.share, .number = true);
        DO(&two, IMPORT, .share = made.share, .number = true);
        DO(NULL, WRITE, .place = 1, .number = 3);
        REFUSE(BUSY, &one, ACQUIRE, .place = 0);
        DO(NULL, RELEASE, .place = 0);
        DO(&one, ACQUIRE, .place = 0);
        DO(&two, ACQUIRE, .place = 0);
        REFUSE(BUSY, NULL, ACQUIRE, .place = 0);
        assert_int_equal(DO(&one, READ, .place = 1).number, 3);
        assert_int_equal(DO(&two, READ, .place = 0).number, 3);
        REFUSE(INVALID_ARGUMENT, &one, ADD, .number = 1);
        REFUSE(INVALID_ARGUMENT, &one, WRITE, .place = 1, .number = 1);
        DO(&one, RELEASE, .place = 0);
        REFUSE(BUSY, NULL, ACQUIRE, .place = 0);
        /* A reader that is killed changes nothing. */
        kill_other(&two);
        DO(NULL, ACQUIRE, .place = 0);
        assert_int_equal(DO(NULL, READ, .place = 0).number, 3);
        DO(NULL, DESTROY, .place = 0);
        finish(&one, false);
    }
}

/* A process that is killed while it may write leaves lost bytes, and not its lock. */
static void
test_a_killed_writer_loses_the_bytes(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct other other = start(), reader = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&other, IMPORT, .share = made.share);
        DO(&reader, IMPORT, .share = made.share, .number = true);
        DO(NULL, WRITE, .place = place, .number = 4);
        DO(NULL, RELEASE, .place = 0);
        DO(&other, ACQUIRE, .place = 0);
        DO(&other, ADD, .place = place, .number = 1);
        DO(&other, READ, .place = place); /* until the device has added it */
        const pid_t killed = other.pid;
        kill_other(&other);
        /* Each process learns of it, until one that writes repairs the bytes. */
        DO(&reader, ACQUIRE, .place = 0);
        struct reply lost = REFUSE(DEVICE_LOST, &reader, READ, .place = 0);
        char who[80];
        snprintf(who, sizeof(who), "process %d shared the buffer", (int)killed);
        assert_non_null(strstr(lost.message, who));
        DO(&reader, RELEASE, .place = 0);
        DO(NULL, ACQUIRE, .place = 0);
        REFUSE(DEVICE_LOST, NULL, READ, .place = 0);
        REFUSE(DEVICE_LOST, NULL, READ, .place = 1);
        REFUSE(DEVICE_LOST, NULL, RELEASE, .place = 0);
        DO(NULL, ACCEPT, .place = place);
        assert_int_equal(DO(NULL, READ, .place = 0).number, 5);
        DO(NULL, RELEASE, .place = 0);
        DO(&reader, ACQUIRE, .place = 0);
        assert_int_equal(DO(&reader, READ, .place = 0).number, 5);
        finish(&reader, false);
        DO(NULL, ACQUIRE, .place = 0);
        DO(NULL, DESTROY, .place = 0);
    }
}

/* Bytes that this process lost, and did not repair, are lost for the next one, too. */
static void
test_lost_bytes_stay_lost(void **state)
{
    struct process *here = *state;
    struct other other = start(), third = start();
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    DO(&other, IMPORT, .share = made.share);
    DO(&third, IMPORT, .share = made.share);
    DO(NULL, RELEASE, .place = 0);
    DO(&other, ACQUIRE, .place = 0);
    kill_other(&other);
    DO(NULL, ACQUIRE, .place = 0);
    DO(NULL, DESTROY, .place = 0);
    DO(&third, ACQUIRE, .place = 0);
    REFUSE(DEVICE_LOST, &third, READ, .place = 0);
    DO(&third, WRITE, .number = 2);
    DO(&third, RELEASE, .place = 0);
    DO(&third, ACQUIRE, .place = 0);
    assert_int_equal(DO(&third, READ, .place = 0).number, 2);
    finish(&third, false);
}

/* A child that a process has forked does not keep what the process had acquired. */
static void
test_a_forked_child_keeps_no_lock(void **state)
{
    struct process *here = *state;
    if (strcmp(getenv("FERRY_DEVICE"), "host") != 0 &&
        strcmp(getenv("FERRY_DEVICE"), "emulated") != 0)
        skip(); /* once is enough, and a driver does not survive a fork */
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(&other, IMPORT, .share = made.share);
        DO(NULL, RELEASE, .place = 0);
        DO(&other, ACQUIRE, .place = 0);
        const pid_t grandchild = DO(&other, FORK, .place = 0).number;
        kill_other(&other);
        DO(NULL, ACQUIRE, .place = 0);
        kill(grandchild, SIGKILL);
        DO(NULL, ACCEPT, .place = place);
        DO(NULL, DESTROY, .place = 0);
    }
}

/* A thread that imports a buffer again and again, into a context that nothing else uses. */
struct importer {
    ferry_share share;
    atomic_bool stops;
    atomic_uint wrong;
};

static void
import_on(void *argument)
{
    struct importer *importer = argument;
    struct process process;
    process_begin(&process);
    const struct command import = {.order = IMPORT, .share = importer->share};
    while (!atomic_load(&importer->stops)) {
        if (perform(&process, &import).status != FERRY_OK)
            atomic_fetch_add(&importer->wrong, 1);
        ferry_buffer_destroy(&process.buffer);
    }
    process_end(&process);
}

/* A child has no descriptor of shared memory, whatever other threads do at the fork. */
static void
test_a_forked_child_has_no_descriptor(void **state)
{
    struct process *here = *state;
    enum { FORKS = 200 };
    if (strcmp(getenv("FERRY_DEVICE"), "host") != 0 &&
        strcmp(getenv("FERRY_DEVICE"), "emulated") != 0)
        skip();
    struct importer importer = {.share = DO(NULL, CREATE, .number = COUNT).share};
    ferryi_thread threads[2];
    for (size_t i = 0; i < LENGTH(threads); i++)
        OK(ferryi_thread_start(&threads[i], "importer", import_on, &importer));
    unsigned kept = 0;
    for (int i = 0; i < FORKS; i++) {
        int how = -1;
        const pid_t child = fork();
        if (child == 0)
            _exit(open_files() > 0);
        assert_int_equal(waitpid(child, &how, 0), child);
        kept += how != 0;
    }
    atomic_store(&importer.stops, true);
    for (size_t i = 0; i < LENGTH(threads); i++)
        ferryi_thread_join(threads[i]);
    assert_int_equal(kept, 0);
    assert_int_equal(atomic_load(&importer.wrong), 0);
}

/* Memory of the host and of emulated devices lives on after its owner. Another device's does not,
 * and stays while the owner's process runs. */
static void
test_the_owner_ends_first(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        const bool outlives =
            place == 0 || here->f.context->devices[1]->capabilities & FERRYI_DEVICE_MAPS_FILES;
        for (int how = 0; how < 2; how++) {
            struct other owner = start();
            struct reply made = DO(&owner, CREATE, .place = place, .number = COUNT);
            DO(&owner, WRITE, .place = 1, .number = 9);
            DO(NULL, IMPORT, .share = made.share, .place = place);
            if (how == 0) {
                DO(&owner, DESTROY, .place = 0);
                DO(NULL, ACQUIRE, .place = 0);
                assert_int_equal(DO(NULL, READ, .place = 0).number, 9);
                DO(NULL, ADD, .place = 1, .number = 1);
                DO(NULL, RELEASE, .place = 0);
                struct process again = *here;
                again.buffer = NULL;
                expect(FERRY_ERROR_INVALID_ARGUMENT,
                       perform(&again, &(struct command){IMPORT, .share = made.share}), __LINE__);
                finish(&owner, false);
            } else {
                DO(&owner, RELEASE, .place = 0);
                kill_other(&owner);
            }
            if (outlives) {
                DO(NULL, ACQUIRE, .place = 0);
                assert_int_equal(DO(NULL, READ, .place = 0).number, how == 0 ? 10 : 9);
            } else {
                struct reply gone = REFUSE(DEVICE_LOST, NULL, ACQUIRE, .place = 0);
                assert_non_null(strstr(gone.message, "the process that made it has ended it"));
            }
            DO(NULL, DESTROY, .place = 0);
        }
    }
}

/* Returns how many elements fill three quarters of the device's memory. Skips the test where that
 * is more than a test should have, or the device shares none. */
static size_t
count_most(struct process *here)
{
    ferryi_device *device = here->f.context->devices[1];
    size_t free_bytes, total_bytes;
    if (!shares(here))
        skip();
    OK(device->ops->memory_info(device, &free_bytes, &total_bytes));
    const size_t count = free_bytes / sizeof(int) / 4 * 3;
    if (count > (size_t)1 << 28)
        skip();
    return count;
}

/* Memory that a device's owner keeps for others is free for new buffers when they have ended. */
static void
test_kept_memory_is_free_again(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    const size_t count = count_most(here);
    struct other other = start();
    struct reply made = DO(NULL, CREATE, .place = 1, .number = (int)count);
    DO(&other, IMPORT, .share = made.share, .place = 1);
    DO(NULL, DESTROY, .place = 0);
    DO(&other, DESTROY, .place = 0);
    ferry_buffer *plain;
    OK(ferry_buffer_create(f->context, INT, count, NULL, &plain));
    touch(f, plain, 1, FERRY_OVERWRITE, 0, FERRY_REST);
    DESTROY_BUFFERS(&plain);
    finish(&other, false);
}

/* Shared memory gets the memory of a device that the pool keeps, or that can be evicted. */
static void
test_the_pool_makes_room(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    const size_t count = count_most(here);
    for (int lives = 0; lives < 2; lives++) {
        ferry_buffer *plain;
        OK(ferry_buffer_create(f->context, INT, count, NULL, &plain));
        touch(f, plain, 1, FERRY_OVERWRITE, 0, FERRY_REST);
        if (!lives)
            DESTROY_BUFFERS(&plain);
        DO(NULL, CREATE, .place = 1, .number = (int)count);
        DO(NULL, DESTROY, .place = 0);
        if (lives)
            DESTROY_BUFFERS(&plain);
    }
}

/* A context that ends with a shared buffer hands it over. */
static void
test_a_context_ends_with_the_buffer(void **state)
{
    struct process *here = *state;
    struct other other = start();
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    DO(&other, IMPORT, .share = made.share);
    DO(NULL, RELEASE, .place = 0);
    DO(&other, ACQUIRE, .place = 0);
    DO(&other, WRITE, .place = 1, .number = 6);
    DO(&other, END, .place = 0);
    DO(NULL, ACQUIRE, .place = 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 6);
    REFUSE(INVALID_STATE, &other, ACQUIRE, .place = 0);
    REFUSE(INVALID_STATE, &other, RELEASE, .place = 0);
    DO(&other, DESTROY, .place = 0);
    finish(&other, false);
}

/* No changed handle finds memory, and none does harm. */
static void
test_forged_handles(void **state)
{
    struct process *here = *state;
    ferry_context *context = here->f.context;
    ferry_buffer *b = NULL;
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    for (size_t i = 0; i < 8 * sizeof(ferry_share); i++) {
        ferry_share forged = made.share;
        forged.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        ferry_status status = ferry_buffer_import(context, INT, &forged, NULL, &b);
        if (status != FERRY_ERROR_INVALID_ARGUMENT && status != FERRY_ERROR_UNSUPPORTED)
            fail_msg("bit %zu: %s", i, ferry_status_name(status));
    }
    struct ferryi_shared_file_name name;
    memcpy(&name, &made.share, sizeof(name));
    /* Files of this process that are no shared memory, and numbers that are none of a file. */
    for (uint32_t file = 0; file < 300; file++) {
        if (file == ((const struct ferryi_shared_file_name *)(const void *)&made.share)->descriptor)
            continue;
        ferry_share forged;
        name.descriptor = file;
        memcpy(&forged, &name, sizeof(forged));
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_import(context, INT, &forged, NULL, &b));
    }
    memcpy(&name, &made.share, sizeof(name));
    name.process = 1; /* of another user, or another file */
    ferry_share forged;
    memcpy(&forged, &name, sizeof(forged));
    ferry_status status = ferry_buffer_import(context, INT, &forged, NULL, &b);
    assert_true(status == FERRY_ERROR_INVALID_ARGUMENT || status == FERRY_ERROR_UNSUPPORTED);
    memcpy(&name, &made.share, sizeof(name));
    name.machine[3] ^= 1;
    memcpy(&forged, &name, sizeof(forged));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_import(context, INT, &forged, NULL, &b));
    memcpy(&name, &made.share, sizeof(name));
    name.processes++;
    memcpy(&forged, &name, sizeof(forged));
    FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_import(context, INT, &forged, NULL, &b));
    memset(&forged, 0, sizeof(forged));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_import(context, INT, &forged, NULL, &b));
    assert_null(b);
    /* None of this took the buffer away. */
    DO(NULL, WRITE, .number = 1);
    assert_int_equal(DO(NULL, READ, .place = 1).number, 1);
}

/* A thread that puts another file in the place of a descriptor, a moment after it is asked to. */
struct replacer {
    int descriptor, other;
    atomic_uint wait; /* how long until then; 0: not asked */
    atomic_bool stops;
};

static void
replace_on(void *argument)
{
    struct replacer *replacer = argument;
    while (!atomic_load(&replacer->stops)) {
        const unsigned wait = atomic_load(&replacer->wait);
        if (wait == 0)
            sched_yield();
        if (wait == 0)
            continue;
        for (unsigned i = 0; i < wait && !atomic_load(&replacer->stops); i++)
            ;
        (void)dup2(replacer->other, replacer->descriptor);
        atomic_store(&replacer->wait, 0);
    }
}

/* If the descriptor of a handle becomes that of a file that this process may not write, the handle
 * finds none: it is not so that this process may not open files of its process. */
static void
test_a_descriptor_that_is_replaced(void **state)
{
    struct process *here = *state;
    enum { ROUNDS = 6000 };
    ferryi_thread thread;
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    struct ferryi_shared_file_name name;
    memcpy(&name, &made.share, sizeof(name));
    struct replacer replacer = {.descriptor = dup((int)name.descriptor),
                                .other = open("/proc/sys/kernel/random/boot_id", O_RDONLY)};
    assert_true(replacer.descriptor >= 0 && replacer.other >= 0);
    const int file = (int)name.descriptor;
    name.descriptor = (uint32_t)replacer.descriptor;
    memcpy(&made.share, &name, sizeof(name));
    OK(ferryi_thread_start(&thread, "replacer", replace_on, &replacer));
    for (unsigned i = 0; i < ROUNDS; i++) {
        ferry_buffer *b = NULL;
        assert_int_equal(dup2(file, replacer.descriptor), replacer.descriptor);
        atomic_store(&replacer.wait, 1 + i * 7 % 30000);
        FAILS(FERRY_ERROR_INVALID_ARGUMENT,
              ferry_buffer_import(here->f.context, INT, &made.share, NULL, &b));
        while (atomic_load(&replacer.wait) > 0)
            sched_yield();
    }
    atomic_store(&replacer.stops, true);
    ferryi_thread_join(thread);
    close(replacer.descriptor);
    close(replacer.other);
}

static void
test_wrong_arguments(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    ferry_buffer *b = NULL, *plain = make_ints(f, 10), *view;
    ferry_share share;
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_export(NULL, &share));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_export(here->buffer, NULL));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_export(plain, &share));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_acquire_shared(plain, NULL));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_release_shared(plain, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_acquire_shared(NULL, NULL));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_release_shared(NULL, NULL));
    OK(ferry_buffer_view(here->buffer, INT, 0, 10, &view));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_export(view, &share));
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_buffer_release_shared(view, NULL));
    if (!f->coherent) /* the memory is that of the host */
        FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_release_shared(here->buffer, f->stream));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_import(NULL, INT, &made.share, NULL, &b));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_import(f->context, NULL, &made.share, NULL, &b));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_import(f->context, INT, NULL, NULL, &b));
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_buffer_import(f->context, INT, &made.share, NULL, NULL));
    FAILS(FERRY_ERROR_WRONG_TYPE, ferry_buffer_import(f->context, FLOAT, &made.share, NULL, &b));
    ferry_share_options at = {.place = f->places + 1};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_import(f->context, INT, &made.share, &at, &b));
    at.place = 1;
    if (!f->coherent)
        FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_import(f->context, INT, &made.share, &at, &b));
    ferry_buffer_options options = {.memory = FERRY_MEMORY_SHARED, .place = f->places + 1};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_create(f->context, INT, 1, &options, &b));
    options = (ferry_buffer_options){.place = 1};
    FAILS(FERRY_ERROR_INVALID_ARGUMENT, ferry_buffer_create(f->context, INT, 1, &options, &b));
    options = (ferry_buffer_options){.memory = FERRY_MEMORY_SHARED, .align = (size_t)2 << 20};
    ferry_status status = ferry_buffer_create(f->context, INT, 1, &options, &b);
    if (status == FERRY_OK)
        ferry_buffer_destroy(&b); /* the page happened to lie there */
    else
        assert_int_equal(status, FERRY_ERROR_UNSUPPORTED);
    if (!shares(here) && !f->coherent) {
        options = (ferry_buffer_options){.memory = FERRY_MEMORY_SHARED, .place = 1};
        FAILS(FERRY_ERROR_UNSUPPORTED, ferry_buffer_create(f->context, INT, 1, &options, &b));
    }
    ferry_pool *pool;
    FAILS(FERRY_ERROR_INVALID_ARGUMENT,
          ferry_context_pool(f->context, 0, FERRY_MEMORY_SHARED, &pool));
    options = (ferry_buffer_options){.memory = FERRY_MEMORY_SHARED};
    FAILS(FERRY_ERROR_OUT_OF_MEMORY,
          ferry_buffer_create(f->context, INT, (size_t)1 << 58, &options, &b));
    assert_null(b);
    /* Without files left, nothing is created, and nothing is left behind. */
    struct rlimit files, none = {0, 0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none.rlim_max = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    ferry_status created = ferry_buffer_create(f->context, INT, 1, &options, &b);
    ferry_status imported = ferry_buffer_import(f->context, INT, &made.share, NULL, &b);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(created, FERRY_ERROR_OUT_OF_MEMORY);
    assert_int_equal(imported, FERRY_ERROR_OUT_OF_MEMORY);
    assert_null(b);
    DESTROY_BUFFERS(&plain, &view);
}

/* Another context of this process is like another process, if the memory is the host's. */
static void
test_two_contexts(void **state)
{
    struct process *here = *state, there;
    process_begin(&there);
    struct reply made = DO(NULL, CREATE, .number = COUNT);
    DO(NULL, WRITE, .place = 1, .number = 8);
    expect(FERRY_OK, perform(&there, &(struct command){IMPORT, .share = made.share}), __LINE__);
    expect(FERRY_ERROR_BUSY, perform(&there, &(struct command){.order = ACQUIRE}), __LINE__);
    DO(NULL, RELEASE, .place = 0);
    expect(FERRY_OK, perform(&there, &(struct command){.order = ACQUIRE}), __LINE__);
    assert_int_equal(
        expect(FERRY_OK, perform(&there, &(struct command){.order = READ}), __LINE__).number, 8);
    ferry_buffer_destroy(&there.buffer);
    process_end(&there);
    DO(NULL, ACQUIRE, .place = 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 8);
}

static void
test_no_elements(void **state)
{
    struct process *here = *state;
    EACH_PLACE(place)
    {
        struct other other = start();
        struct reply made = DO(NULL, CREATE, .place = place, .number = 0);
        DO(&other, IMPORT, .share = made.share);
        DO(NULL, RELEASE, .place = 0);
        DO(&other, ACQUIRE, .place = 0);
        DO(&other, RELEASE, .place = 0);
        DO(NULL, ACQUIRE, .place = 0);
        DO(NULL, DESTROY, .place = 0);
        finish(&other, false);
    }
}

/* A graph that uses the buffer runs only while it is acquired. */
static void
test_a_graph_needs_the_buffer(void **state)
{
    struct process *here = *state;
    fixture *f = &here->f;
    ferry_stream *stream = make_stream(f, 1);
    ferry_graph *graph;
    work w;
    work_open(f, &w);
    DO(NULL, CREATE, .number = COUNT);
    DO(NULL, WRITE, .number = 1);
    touch(f, here->buffer, 1, FERRY_UPDATE, 0, FERRY_REST);
    ferry_status status = ferry_graph_begin(stream, NULL, &graph);
    if (status == FERRY_ERROR_UNSUPPORTED) {
        work_close(&w);
        DESTROY_STREAMS(&stream);
        skip();
    }
    OK(status);
    OK(launch_add(&w, stream, here->buffer, 0, COUNT, 1));
    OK(ferry_graph_end(graph));
    OK(ferry_graph_launch(graph, stream));
    DO(NULL, RELEASE, .place = 0);
    FAILS(FERRY_ERROR_INVALID_STATE, ferry_graph_launch(graph, stream));
    DO(NULL, ACQUIRE, .place = 0);
    assert_int_equal(DO(NULL, READ, .place = 0).number, 2);
    OK(ferry_graph_launch(graph, stream));
    assert_int_equal(DO(NULL, READ, .place = 0).number, 3);
    ferry_graph_destroy(&graph);
    work_close(&w);
    DESTROY_STREAMS(&stream);
}

/* -- a model ----------------------------------------------------------------------------------- */

enum { PROCESSES = 4, STEPS = 400 };

/* What the processes must find: process 0 owns the memory, and process 3 only reads. */
struct model {
    bool has[PROCESSES]; /* who has acquired the buffer */
    bool lost;           /* for everyone */
    bool accepted;       /* whether lost bytes were accepted, whose value the test does not know */
    int first;           /* the first element */
    bool knows[PROCESSES]; /* whether a process that has it found the bytes lost, and did not repair
                              them */
};

static ferry_status
model_acquire(struct model *model, int who)
{
    if (model->has[who])
        return FERRY_ERROR_INVALID_STATE;
    for (int i = 0; i < PROCESSES; i++)
        if (model->has[i] && (i != 3 || who != 3))
            return FERRY_ERROR_BUSY;
    model->has[who] = true;
    model->knows[who] = model->lost;
    return FERRY_OK;
}

static ferry_status
model_step(struct model *model, int who, const struct command *command, int *out_first)
{
    const bool writes =
        command->order != READ && command->order != ACQUIRE && command->order != RELEASE;
    if (command->order == ACQUIRE)
        return model_acquire(model, who);
    if (who == 3 && writes)
        return FERRY_ERROR_INVALID_ARGUMENT;
    if (!model->has[who])
        return FERRY_ERROR_INVALID_STATE;
    if (model->knows[who] && command->order == RELEASE && who != 3)
        return FERRY_ERROR_DEVICE_LOST;
    if (model->knows[who] && (command->order == READ || command->order == ADD))
        return FERRY_ERROR_DEVICE_LOST;
    if (command->order == RELEASE)
        model->has[who] = false;
    if (command->order == WRITE || command->order == ACCEPT) {
        model->knows[who] = model->lost = false;
        model->accepted = command->order == ACCEPT;
    }
    if (command->order == WRITE)
        model->first = command->number;
    if (command->order == ADD)
        model->first += command->number;
    *out_first = model->first;
    return FERRY_OK;
}

static void
test_processes_against_a_model(void **state)
{
    struct process *here = *state;
    uint64_t seed = start_random(81);
    static const enum order orders[] = {ACQUIRE, ACQUIRE, ACQUIRE, RELEASE, RELEASE,
                                        WRITE,   ADD,     READ,    READ,    ACCEPT};
    EACH_PLACE(place)
    {
        struct other others[PROCESSES] = {{0}};
        struct model model = {.has = {true}};
        struct reply made = DO(NULL, CREATE, .place = place, .number = COUNT);
        DO(NULL, WRITE, .place = place, .number = 0);
        for (int i = 1; i < PROCESSES; i++) {
            others[i] = start();
            DO(&others[i], IMPORT, .share = made.share, .number = i == 3);
        }
        for (int step = 0; step < STEPS; step++) {
            const int who = (int)random_below(&seed, PROCESSES);
            const struct other *other = who > 0 ? &others[who] : NULL;
            if (who > 0 && random_below(&seed, 40) == 0) {
                kill_other(&others[who]);
                /* What a reader has is whole, and so is what a process does not have. */
                if (model.has[who] && who != 3)
                    model.lost = true;
                model.has[who] = model.knows[who] = false;
                others[who] = start();
                DO(&others[who], IMPORT, .share = made.share, .number = who == 3);
                continue;
            }
            struct command command = {.order = orders[random_below(&seed, LENGTH(orders))],
                                      .place = (int)random_below(&seed, 2)};
            if (command.order == WRITE || command.order == ADD)
                command.number = (int)random_below(&seed, 1000);
            if (command.order == ACQUIRE || command.order == RELEASE)
                command.number = place > 0 && random_below(&seed, 2);
            if (command.order == ACCEPT)
                command.place = place;
            int first = 0;
            /* Bytes may be accepted where they are not lost, if they are current there. */
            if (command.order == ACCEPT && !model.knows[who])
                command.order = READ;
            const ferry_status expected = model_step(&model, who, &command, &first);
            const struct reply reply = ask(here, other, command);
            if (reply.status != expected)
                fail_msg("step %d: process %d, order %d: %s, not %s: %s", step, who, command.order,
                         ferry_status_name(reply.status), ferry_status_name(expected),
                         reply.message);
            if (command.order == READ && expected == FERRY_OK && !model.accepted)
                assert_int_equal(reply.number, first);
        }
        DO(NULL, DESTROY, .place = 0);
        for (int i = 1; i < PROCESSES; i++)
            finish(&others[i], false);
    }
}

#define SHARED(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int
main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "other") == 0)
        return be_another();
    const struct CMUnitTest tests[] = {
        SHARED(test_two_processes_take_turns),
        SHARED(test_unwritten_bytes_are_zeros),
        SHARED(test_what_is_moved),
        SHARED(test_an_end_without_importers),
        SHARED(test_nothing_uses_what_is_away),
        SHARED(test_queued_reads_see_the_old_bytes),
        SHARED(test_a_mapping_that_only_reads),
        SHARED(test_other_threads_read_meanwhile),
        SHARED(test_a_scope_keeps_the_buffer_here),
        SHARED(test_readers_share),
        SHARED(test_a_killed_writer_loses_the_bytes),
        SHARED(test_lost_bytes_stay_lost),
        SHARED(test_a_forked_child_keeps_no_lock),
        SHARED(test_a_forked_child_has_no_descriptor),
        SHARED(test_the_owner_ends_first),
        SHARED(test_kept_memory_is_free_again),
        SHARED(test_the_pool_makes_room),
        SHARED(test_a_context_ends_with_the_buffer),
        SHARED(test_forged_handles),
        SHARED(test_a_descriptor_that_is_replaced),
        SHARED(test_wrong_arguments),
        SHARED(test_two_contexts),
        SHARED(test_no_elements),
        SHARED(test_a_graph_needs_the_buffer),
        SHARED(test_processes_against_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
