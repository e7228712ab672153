/* SPDX-License-Identifier: MIT */
#include "src/buffer/worker.h"

#include <stdlib.h>

#include "src/base/callback.h"

FERRYI_MUTEX_CLASS(ferryi_worker_mutex);

struct ferryi_worker {
    struct ferryi_worker_mutex mutex;
    ferryi_cond cond;
    ferryi_thread thread;
    ferry_context *context;
    FERRYI_GUARDED_BY(ferryi_worker_mutex) struct {
        struct ferryi_job *first, **last;
        bool stopping;
    };
};

static struct ferryi_job *
next_job(struct ferryi_worker *worker)
{
    ferryi_mutex_lock(&worker->mutex);
    while (!worker->first && !worker->stopping)
        ferryi_cond_wait(&worker->cond, &worker->mutex);
    struct ferryi_job *job = worker->first;
    if (job) {
        worker->first = job->next;
        if (!worker->first)
            worker->last = &worker->first;
    }
    ferryi_mutex_unlock(&worker->mutex);
    return job;
}

static void
work(void *argument)
{
    struct ferryi_worker *worker = argument;
    struct ferryi_job *job;
    ferryi_callback_thread.context = worker->context;
    while ((job = next_job(worker)))
        job->run(job);
}

static ferry_status
worker_start(ferry_context *context, struct ferryi_worker **out)
{
    struct ferryi_worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "start a worker thread: no memory");
    ferryi_mutex_init(&worker->mutex);
    ferryi_cond_init(&worker->cond);
    ferryi_mutex_is_needless(&worker->mutex);
    worker->last = &worker->first;
    worker->context = context;
    ferry_status status = ferryi_thread_start(&worker->thread, "ferry-worker", work, worker);
    if (status != FERRY_OK) {
        ferryi_cond_destroy(&worker->cond);
        ferryi_mutex_destroy(&worker->mutex);
        free(worker);
        return status;
    }
    *out = worker;
    return FERRY_OK;
}

ferry_status
ferryi_worker_submit(ferry_context *context, struct ferryi_job *job)
{
    ferry_status status = FERRY_OK;
    if (atomic_load(&context->closing))
        return ferryi_fail(FERRY_ERROR_INVALID_STATE,
                           "queue an asynchronous call: the context is being destroyed");
    ferryi_mutex_lock(&context->worker_mutex);
    struct ferryi_worker *worker = context->workers[job->way];
    if (!worker && (status = worker_start(context, &worker)) == FERRY_OK)
        context->workers[job->way] = worker;
    ferryi_mutex_unlock(&context->worker_mutex);
    if (status != FERRY_OK)
        return status;

    job->next = NULL;
    ferryi_mutex_lock(&worker->mutex);
    *worker->last = job;
    worker->last = &job->next;
    ferryi_cond_signal(&worker->cond);
    ferryi_mutex_unlock(&worker->mutex);
    return FERRY_OK;
}

void
ferryi_worker_stop(ferry_context *context)
{
    for (unsigned way = 0; way < FERRYI_WAYS; way++) {
        ferryi_mutex_lock(&context->worker_mutex);
        struct ferryi_worker *worker = context->workers[way];
        context->workers[way] = NULL;
        ferryi_mutex_unlock(&context->worker_mutex);
        if (!worker)
            continue;
        ferryi_mutex_lock(&worker->mutex);
        worker->stopping = true;
        ferryi_cond_signal(&worker->cond);
        ferryi_mutex_unlock(&worker->mutex);
        ferryi_thread_join(worker->thread);
        ferryi_cond_destroy(&worker->cond);
        ferryi_mutex_destroy(&worker->mutex);
        free(worker);
    }
}
