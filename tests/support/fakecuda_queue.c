/* SPDX-License-Identifier: MIT */
/* A part of fakecuda, the library that imitates the CUDA driver: queues of work. In thread mode, a
 * thread for each queue runs the queue's work. In lazy mode, the call that waits for work runs it.
 */
#include "tests/support/fakecuda_internal.h"

#include <stdlib.h>

static void *
need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* -- queues -- */

struct fake_queue *
fake_queue_new(fake_context *context, bool blocking)
{
    static unsigned long long last_id;
    struct fake_queue *queue = need(calloc(1, sizeof(*queue)));
    queue->holders = 1;
    queue->id = ++last_id;
    pthread_cond_init(&queue->changed, NULL);
    queue->context = context;
    queue->blocking = blocking;
    queue->has_handle = true;
    queue->next = context->queues;
    context->queues = queue;
    return queue;
}

void
fake_queue_drop(struct fake_queue *queue)
{
    if (!queue || --queue->holders > 0)
        return;
    pthread_cond_destroy(&queue->changed);
    free(queue);
}

void
fake_hold(struct fake_point *point, struct fake_queue *queue, uint64_t number)
{
    if (queue)
        queue->holders++;
    fake_queue_drop(point->queue);
    point->queue = queue;
    point->number = number;
}

static struct fake_queue *
per_thread_queue(fake_context *context)
{
    uint64_t thread = fake_thread();
    for (struct fake_queue *queue = context->queues; queue; queue = queue->next)
        if (queue->thread == thread)
            return queue;
    struct fake_queue *queue = fake_queue_new(context, true);
    queue->thread = thread;
    return queue;
}

fake_result
fake_queue_of(fake_context *context, ferryi_gpu_stream stream, struct fake_queue **out)
{
    if (!stream || stream == FERRYI_CU_STREAM_LEGACY)
        *out = context->legacy;
    else if (stream == FERRYI_CU_STREAM_PER_THREAD)
        *out = per_thread_queue(context);
    else if (fake_stream_is_live(stream) && stream->queue->context == context)
        *out = stream->queue;
    else
        return FERRYI_GPU_ERROR_INVALID_HANDLE;
    return FERRYI_GPU_SUCCESS;
}

fake_result
fake_any_queue_of(fake_context *context, ferryi_gpu_stream stream, struct fake_queue **out)
{
    return fake_queue_of(fake_stream_is_live(stream) ? stream->queue->context : context, stream,
                         out);
}

/* -- work -- */

static void
add_point(struct fake_work *work, struct fake_queue *queue, uint64_t number)
{
    if (queue->done >= number)
        return;
    work->points = need(realloc(work->points, (work->point_count + 1) * sizeof(*work->points)));
    work->points[work->point_count] = (struct fake_point){0};
    fake_hold(&work->points[work->point_count++], queue, number);
}

/* Orders new work as CUDA's legacy default stream requires. Work of the legacy stream waits for all
 * blocking streams, and work of a blocking stream waits for the legacy stream. */
static void
add_legacy_points(struct fake_work *work, struct fake_queue *queue)
{
    fake_context *context = queue->context;
    if (queue == context->legacy) {
        for (struct fake_queue *other = context->queues; other; other = other->next)
            if (other != queue && other->blocking)
                add_point(work, other, other->queued);
    } else if (queue->blocking) {
        add_point(work, context->legacy, context->legacy->queued);
    }
}

static void
free_work(struct fake_work *work)
{
    for (size_t i = 0; i < work->point_count; i++)
        fake_queue_drop(work->points[i].queue);
    if (work->drop && work->payload)
        work->drop(work->payload);
    free(work->points);
    free(work->payload);
    free(work);
}

static const struct fake_point *
unreached(const struct fake_work *work)
{
    for (size_t i = 0; i < work->point_count; i++)
        if (work->points[i].queue->done < work->points[i].number)
            return &work->points[i];
    return NULL;
}

/* Runs the oldest work item of a queue. The caller must hold the lock and must have checked that
 * this item need not wait. The lock is released while the item runs. */
static void
run_first(struct fake_queue *queue)
{
    struct fake_work *work = queue->first;
    fake_context *context = queue->context;
    fake_result result = FERRYI_GPU_SUCCESS;
    queue->running = true;
    queue->holders++;
    if (work->run && !context->error) {
        pthread_mutex_unlock(&fake_lock);
        result = work->run(work->payload);
        pthread_mutex_lock(&fake_lock);
    }
    if (result != FERRYI_GPU_SUCCESS && !context->error)
        context->error = result;
    queue->first = work->next;
    if (!queue->first)
        queue->last = NULL;
    queue->running = false;
    queue->done = work->number;
    free_work(work);
    pthread_cond_broadcast(&queue->changed);
    fake_queue_drop(queue);
}

static void *work_off(void *argument);

static void
start_worker(struct fake_queue *queue)
{
    if (!queue->has_worker && pthread_create(&queue->worker, NULL, work_off, queue) != 0)
        abort();
    queue->has_worker = true;
    pthread_cond_broadcast(&queue->changed);
}

/* Runs the oldest work item of the queue and returns NULL, if the item can run now. If not, returns
 * the queue for whose progress the caller must wait. In lazy mode, runs only items that a call has
 * requested. */
static struct fake_queue *
work_on(struct fake_queue *queue)
{
    const struct fake_point *point;
    if (!queue->first || queue->running || (fake.lazy && queue->done >= queue->wanted))
        return queue;
    if ((point = unreached(queue->first)) == NULL) {
        run_first(queue);
        return NULL;
    }
    if (fake.lazy)
        fake_want(point->queue, point->number);
    return point->queue;
}

static void *
work_off(void *argument)
{
    struct fake_queue *queue = argument, *awaited;
    pthread_mutex_lock(&fake_lock);
    while (!queue->quit || queue->first) {
        if ((awaited = work_on(queue)) != NULL) {
            awaited->holders++;
            pthread_cond_wait(&awaited->changed, &fake_lock);
            fake_queue_drop(awaited);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

fake_result
fake_enqueue(struct fake_queue *queue, fake_result (*run)(void *), void (*drop)(void *),
             void *payload, const struct fake_point *after)
{
    struct fake_work *work = need(calloc(1, sizeof(*work)));
    work->run = run;
    work->drop = drop;
    work->payload = payload;
    fake_result result = fake_capture_check(queue);
    if (result != FERRYI_GPU_SUCCESS) {
        free_work(work);
        return result;
    }
    if (queue->capture) {
        fake_capture_keep(queue->capture, work);
        return result;
    }
    if (after)
        add_point(work, after->queue, after->number);
    add_legacy_points(work, queue);
    work->number = ++queue->queued;
    if (queue->last)
        queue->last->next = work;
    else
        queue->first = work;
    queue->last = work;
    if (!fake.lazy)
        start_worker(queue);
    return FERRYI_GPU_SUCCESS;
}

/* -- waiting -- */

/* Waits until the queue has run work item `number`. In lazy mode, the calling thread runs the items
 * that it waits for. */
void
fake_wait(struct fake_queue *queue, uint64_t number)
{
    queue->holders++;
    while (queue->done < number) {
        const struct fake_point *point;
        if (!fake.lazy || queue->running) {
            pthread_cond_wait(&queue->changed, &fake_lock);
        } else if ((point = unreached(queue->first)) != NULL) {
            fake_wait(point->queue, point->number);
        } else {
            run_first(queue);
        }
    }
    fake_queue_drop(queue);
}

/* Starts a thread that runs the queue's work up to item `number`, in lazy mode only. A query of an
 * event needs this: the query itself runs no work, so a program that polls the event would never
 * end. */
void
fake_want(struct fake_queue *queue, uint64_t number)
{
    if (!fake.lazy || queue->wanted >= number)
        return;
    queue->wanted = number;
    start_worker(queue);
}

void
fake_wait_context(fake_context *context)
{
    struct fake_queue *queue = context->queues;
    while (queue) {
        if (queue->done < queue->queued) {
            fake_wait(queue, queue->queued);
            queue = context->queues; /* the wait unlocked the mutex, so the list may have changed */
        } else {
            queue = queue->next;
        }
    }
}

/* -- a context's queues -- */

void
fake_context_start(fake_context *context)
{
    context->legacy = fake_queue_new(context, true);
}

/* Frees queues whose stream is destroyed and whose work has finished. */
void
fake_reap(fake_context *context)
{
    struct fake_queue **link = &context->queues;
    while (*link) {
        struct fake_queue *queue = *link;
        if (queue->has_handle || queue->first || queue->running) {
            link = &queue->next;
            continue;
        }
        *link = queue->next;
        queue->quit = true;
        if (queue->has_worker) {
            pthread_cond_broadcast(&queue->changed);
            pthread_mutex_unlock(&fake_lock);
            pthread_join(queue->worker, NULL);
            pthread_mutex_lock(&fake_lock);
            link = &context->queues;
        }
        fake_queue_drop(queue);
    }
}

void
fake_context_end(fake_context *context)
{
    for (struct fake_queue *queue = context->queues; queue; queue = queue->next)
        queue->has_handle = false;
    context->legacy = NULL;
    fake_reap(context);
}
