/* SPDX-License-Identifier: MIT */
#include "src/kernel/host_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/callback.h"
#include "src/base/fork.h"
#include "src/base/machine.h"

#define THREADS_MOST 1024
/* A thread takes this fraction of its share of the remaining parts at once. Smaller portions
 * balance better, and larger ones use the common counter less often. */
#define PORTIONS 4

FERRYI_MUTEX_CLASS(ferryi_host_threads_mutex);

/* One call that several threads work on. The struct is on the stack of its caller. */
struct job {
    const struct ferryi_parts *parts;
    size_t part_count;
    _Atomic size_t next;      /* number of the first part that no thread has taken */
    _Atomic size_t failed;    /* number of the first part that has failed; SIZE_MAX: none */
    _Atomic unsigned working; /* number of threads that work on the call, without its caller;
                                 changed under the mutex */
    /* status and message of part `failed`, guarded by the mutex */
    ferry_status status;
    char text[FERRYI_CALL_TEXT_BYTES];
    struct job *next_job, **link; /* guarded by the mutex; `link` is NULL outside the list */
};

struct ferryi_host_threads {
    const void *context;
    unsigned limit; /* number of threads that work on a call, including its caller */
    struct ferryi_host_threads_mutex mutex;
    ferryi_cond posted, done;
    _Atomic uint64_t posts; /* number of jobs that were ever posted */
    _Atomic unsigned idle;  /* number of threads that sleep; changed under the mutex */
    unsigned forks;         /* ferryi_fork_count() of the process that created the struct */
    FERRYI_GUARDED_BY(ferryi_host_threads_mutex) struct {
        struct job *jobs; /* the jobs that have parts that no thread has taken */
        unsigned waiting; /* number of callers that sleep until other threads have left their job */
        unsigned started; /* number of running threads */
        bool were_started; /* whether the threads were started, even if the system refused some */
        bool stopping;
        ferryi_thread *threads; /* an array of limit - 1 */
    };
};

_Thread_local char *ferryi_host_threads_text;

/* Returns the default number of threads. Ranks of an MPI job that are not bound to processors of
 * their own have one thread each, because each of them would otherwise use the whole machine. */
static unsigned
default_limit(void)
{
    if (ferryi_machine_rank(true) && ferryi_machine_is_unbound())
        return 1;
    return ferryi_processors();
}

struct ferryi_host_threads *
ferryi_host_threads_new(size_t wanted, const void *context)
{
    struct ferryi_host_threads *threads = calloc(1, sizeof(*threads));
    if (!threads)
        return NULL;
    threads->context = context;
    threads->forks = ferryi_fork_count();
    threads->limit = (unsigned)ferryi_min_size(wanted ? wanted : default_limit(), THREADS_MOST);
    ferryi_mutex_init(&threads->mutex);
    ferryi_cond_init(&threads->posted);
    ferryi_cond_init(&threads->done);
    return threads;
}

/* Returns whether this process is a child of the process that created the threads. The child has
 * none of them, and one of them may have held the mutex during the fork. */
static bool
are_lost(const struct ferryi_host_threads *threads)
{
    return threads->forks != ferryi_fork_count();
}

/* The function is not analysed: its caller is the only owner, so the members need no lock. */
FERRYI_NOT_ANALYSED
static void
join(struct ferryi_host_threads *threads)
{
    for (unsigned i = 0; i < threads->started; i++)
        ferryi_thread_join(threads->threads[i]);
    free(threads->threads);
}

void
ferryi_host_threads_free(struct ferryi_host_threads **threads_address)
{
    struct ferryi_host_threads *threads = *threads_address;
    *threads_address = NULL;
    if (!threads || are_lost(threads))
        return;
    ferryi_mutex_lock(&threads->mutex);
    threads->stopping = true;
    ferryi_cond_broadcast(&threads->posted);
    ferryi_mutex_unlock(&threads->mutex);
    join(threads);
    ferryi_cond_destroy(&threads->done);
    ferryi_cond_destroy(&threads->posted);
    ferryi_mutex_destroy(&threads->mutex);
    free(threads);
}

unsigned
ferryi_host_threads_started(struct ferryi_host_threads *threads)
{
    ferryi_mutex_lock(&threads->mutex);
    unsigned started = threads->started;
    ferryi_mutex_unlock(&threads->mutex);
    return started;
}

/* -- parts ------------------------------------------------------------------------------------- */

static ferry_status
run_part(const struct ferryi_parts *parts, size_t part)
{
    size_t first = part * parts->grain;
    return parts->run(first, ferryi_min_size(parts->grain, parts->count - first), parts->user);
}

static size_t
count_parts(const struct ferryi_parts *parts)
{
    return parts->count / parts->grain + (parts->count % parts->grain != 0);
}

/* Runs all parts on this thread. Messages go where those of the surrounding function go. */
static ferry_status
run_alone(const struct ferryi_parts *parts)
{
    size_t part_count = count_parts(parts);
    for (size_t part = 0; part < part_count; part++)
        FERRYI_OR_RETURN(run_part(parts, part));
    return FERRY_OK;
}

/* Takes the next parts of a job. Returns false if none are left. */
static bool
take_parts(const struct ferryi_host_threads *threads, struct job *job, size_t *out_first,
           size_t *out_end)
{
    size_t first = atomic_load_explicit(&job->next, memory_order_relaxed), portion;
    do {
        if (first >= job->part_count)
            return false;
        portion = (job->part_count - first) / (PORTIONS * (size_t)threads->limit);
        portion = ferryi_max_size(portion, 1);
    } while (!atomic_compare_exchange_weak_explicit(&job->next, &first, first + portion,
                                                    memory_order_relaxed, memory_order_relaxed));
    *out_first = first;
    *out_end = first + portion;
    return true;
}

/* Records the failure of a part, unless an earlier part has failed. No thread takes further parts.
 * Parts are taken in order, so every part before this one was already taken. */
static void
note_failure(struct ferryi_host_threads *threads, struct job *job, size_t part, ferry_status status)
{
    ferryi_mutex_lock(&threads->mutex);
    if (part < atomic_load(&job->failed)) {
        job->status = status;
        memcpy(job->text, ferryi_host_threads_text, sizeof(job->text));
        atomic_store(&job->failed, part);
    }
    atomic_store(&job->next, job->part_count);
    ferryi_mutex_unlock(&threads->mutex);
}

/* Takes and runs parts of a job until none are left. */
static void
work_on(struct ferryi_host_threads *threads, struct job *job)
{
    char text[FERRYI_CALL_TEXT_BYTES] = "";
    size_t first, end;
    ferryi_host_threads_text = text;
    while (take_parts(threads, job, &first, &end)) {
        if (end < job->part_count && atomic_load_explicit(&threads->idle, memory_order_relaxed) > 0)
            ferryi_cond_signal(&threads->posted);
        ferry_status status = FERRY_OK;
        for (; first < end && status == FERRY_OK && first < atomic_load(&job->failed); first++)
            status = run_part(job->parts, first);
        if (status != FERRY_OK)
            note_failure(threads, job, first - 1, status);
    }
    ferryi_host_threads_text = NULL;
}

/* -- the threads ------------------------------------------------------------------------------- */

FERRYI_REQUIRES(ferryi_host_threads_mutex)
static void
unlist(struct job *job)
{
    if (!job->link)
        return;
    *job->link = job->next_job;
    if (job->next_job)
        job->next_job->link = job->link;
    job->link = NULL;
}

/* Works on the oldest job of the list. The mutex is unlocked meanwhile. */
FERRYI_REQUIRES(ferryi_host_threads_mutex)
static void
join_job(struct ferryi_host_threads *threads)
{
    struct job *job = threads->jobs;
    atomic_fetch_add(&job->working, 1);
    ferryi_mutex_unlock(&threads->mutex);
    struct ferryi_callback running;
    ferryi_callback_enter(&running, FERRYI_CALLBACK_WATCHING, "host_function");
    running.context = threads->context;
    work_on(threads, job);
    ferryi_callback_leave(&running);
    ferryi_mutex_lock(&threads->mutex);
    unlist(job);
    if (threads->waiting > 0)
        ferryi_cond_broadcast(&threads->done);
    /* The caller may free the job as soon as it reads this. */
    atomic_fetch_sub_explicit(&job->working, 1, memory_order_release);
}

/* Waits until a job is posted or the threads are stopped. The mutex is unlocked meanwhile. */
FERRYI_REQUIRES(ferryi_host_threads_mutex)
static void
wait_for_job(struct ferryi_host_threads *threads)
{
    uint64_t posts = threads->posts, end = ferryi_spin_end();
    ferryi_mutex_unlock(&threads->mutex);
    while (atomic_load_explicit(&threads->posts, memory_order_relaxed) == posts && ferryi_spin(end))
        ;
    ferryi_mutex_lock(&threads->mutex);
    if (threads->jobs || threads->stopping)
        return;
    atomic_fetch_add(&threads->idle, 1);
    ferryi_cond_wait(&threads->posted, &threads->mutex);
    atomic_fetch_sub(&threads->idle, 1);
}

static void
thread_main(void *argument)
{
    struct ferryi_host_threads *threads = argument;
    ferryi_callback_thread.context = threads->context;
    ferryi_mutex_lock(&threads->mutex);
    while (!threads->stopping) {
        if (threads->jobs)
            join_job(threads);
        else
            wait_for_job(threads);
    }
    ferryi_mutex_unlock(&threads->mutex);
}

/* Starts the threads if that was not done yet. If the system starts fewer than wanted, calls
 * continue with those that were started. */
FERRYI_REQUIRES(ferryi_host_threads_mutex)
static void
start(struct ferryi_host_threads *threads)
{
    if (threads->were_started)
        return;
    FERRYI_KEEP_ERROR(before);
    threads->were_started = true;
    threads->threads = calloc(threads->limit - 1, sizeof(*threads->threads));
    while (threads->threads && threads->started + 1 < threads->limit &&
           ferryi_thread_start(&threads->threads[threads->started], "ferry-host", thread_main,
                               threads) == FERRY_OK)
        threads->started++;
}

/* -- calls ------------------------------------------------------------------------------------- */

static void
post(struct ferryi_host_threads *threads, struct job *job)
{
    ferryi_mutex_lock(&threads->mutex);
    start(threads);
    struct job **last = &threads->jobs;
    while (*last)
        last = &(*last)->next_job;
    *last = job;
    job->link = last;
    atomic_fetch_add_explicit(&threads->posts, 1, memory_order_relaxed);
    ferryi_mutex_unlock(&threads->mutex);
}

/* Waits until no other thread works on the job. */
static void
wait_for_others(struct ferryi_host_threads *threads, struct job *job)
{
    uint64_t end = ferryi_spin_end();
    ferryi_mutex_lock(&threads->mutex);
    unlist(job);
    ferryi_mutex_unlock(&threads->mutex);
    while (atomic_load_explicit(&job->working, memory_order_acquire) > 0 && ferryi_spin(end))
        ;
    ferryi_mutex_lock(&threads->mutex);
    while (atomic_load_explicit(&job->working, memory_order_acquire) > 0) {
        threads->waiting++;
        ferryi_cond_wait(&threads->done, &threads->mutex);
        threads->waiting--;
    }
    ferryi_mutex_unlock(&threads->mutex);
}

/* A part has called fork() on the caller's thread, and this is the child. Other threads had taken
 * parts, which the child cannot run again. */
static ferry_status
fail_after_fork(char *text)
{
    snprintf(text, FERRYI_CALL_TEXT_BYTES,
             "ferry_call_parallel: the process was forked inside a part, and other threads of the "
             "parent had taken parts");
    return FERRY_ERROR_INVALID_STATE;
}

ferry_status
ferryi_host_threads_run(struct ferryi_host_threads *threads, const struct ferryi_parts *parts,
                        char *text)
{
    size_t part_count = count_parts(parts);
    if (part_count < 2 || threads->limit < 2 || ferryi_host_threads_text || are_lost(threads))
        return run_alone(parts);
    struct job job = {.parts = parts, .part_count = part_count};
    atomic_init(&job.failed, SIZE_MAX);
    post(threads, &job);
    work_on(threads, &job);
    if (are_lost(threads))
        return fail_after_fork(text);
    wait_for_others(threads, &job);
    if (job.status != FERRY_OK && job.text[0])
        memcpy(text, job.text, sizeof(job.text));
    return job.status;
}
