/* SPDX-License-Identifier: MIT */
#include "src/device/emulated/emulated.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The emulated device: any number of devices on the CPU, with separate memory and real asynchrony.
 * It serves tests and teaching, and lets a program for several devices run on a machine without
 * GPUs.
 */

#define DEFAULT_MEMORY_BYTES ((size_t)256 << 20)

/* -- the default scheduler: each queue has a thread that performs its work immediately. Short
 * copies to an empty queue are performed by the thread that submits them -- */

/* Waits until the queue has work or is closed. The thread spins for a while before it blocks,
 * because work often arrives soon. The queue's mutex is unlocked during the wait. The wait can end
 * early, so the caller must check the queue again. */
FERRYI_REQUIRES(ferryi_queue_mutex)
static void
wait_for_work(ferryi_emulated_queue *queue)
{
    uint64_t submitted = queue->submitted, end = ferryi_spin_end();
    ferryi_mutex_unlock(&queue->mutex);
    while (atomic_load_explicit(&queue->submitted, memory_order_acquire) == submitted &&
           ferryi_spin(end))
        ;
    ferryi_mutex_lock(&queue->mutex);
    if (queue->first ? queue->busy : !queue->closed)
        ferryi_cond_wait(&queue->given, &queue->mutex);
}

/* Whether this thread is a worker, that is, performs the commands of a queue. */
static _Thread_local bool is_worker;

static void
worker_main(void *argument)
{
    ferryi_emulated_queue *queue = argument;
    is_worker = true;
    ferryi_mutex_lock(&queue->mutex);
    for (;;) {
        if (queue->first && !queue->busy)
            ferryi_emulated_step(queue);
        else if (queue->closed && !queue->first)
            break;
        else
            wait_for_work(queue);
    }
    ferryi_mutex_unlock(&queue->mutex);
}

static ferry_status
threads_begin(ferryi_emulated_queue *queue)
{
    return ferryi_thread_start(&queue->thread, "ferry-stream", worker_main, queue);
}

static void
threads_end(ferryi_emulated_queue *queue)
{
    ferryi_thread_join(queue->thread);
}

/* Waits until the queue has performed its commands up to `number`. A worker thread, which performs
 * the commands of a different queue, does not spin during this wait. Spinning could keep the
 * processor from this queue's worker. */
static void
threads_wait(ferryi_emulated_queue *queue, uint64_t number)
{
    uint64_t end = is_worker ? 0 : ferryi_spin_end();
    while (atomic_load_explicit(&queue->performed, memory_order_acquire) < number &&
           ferryi_spin(end))
        ;
    ferryi_mutex_lock(&queue->mutex);
    while (queue->performed < number)
        ferryi_emulated_sleep(queue, number);
    ferryi_mutex_unlock(&queue->mutex);
}

static void
threads_asked(ferryi_emulated_queue *queue, uint64_t number, unsigned times)
{
    (void)queue, (void)number, (void)times;
}

static const struct ferryi_emulated_scheduler threads = {
    .kind = "emulated",
    .strict = false,
    .here_bytes = (size_t)64 << 10,
    .begin = threads_begin,
    .end = threads_end,
    .wait = threads_wait,
    .asked = threads_asked,
};

/* -- the device -- */

static void
emulated_close(ferryi_device *device)
{
    ferryi_emulated *emulated = ferryi_emulated_of(device);
    if (device->default_stream)
        ferryi_emulated_stream_destroy(device, device->default_stream);
    ferryi_emulated_streams_clear(emulated);
    ferryi_ranges_clear(&emulated->ranges);
    ferryi_mutex_destroy(&emulated->link_mutex);
    ferryi_mutex_destroy(&emulated->mutex);
    free(emulated);
}

static struct ferryi_device_ops
make_ops(void)
{
    struct ferryi_device_ops ops = ferryi_unsupported_ops;
    ops.close = emulated_close;
#define SET(slot) ops.slot = ferryi_emulated_##slot;
    FERRYI_EMULATED_SLOTS(SET)
    return ops;
}

static void
fill_head(ferryi_emulated *emulated, int ordinal)
{
    ferryi_device *head = &emulated->head;
    emulated->ops = make_ops();
    head->ops = &emulated->ops;
    head->kind = emulated->scheduler->kind;
    head->capabilities = FERRY_CAN_PIN | FERRY_CAN_MANAGE | FERRY_CAN_MANAGE_CONCURRENTLY |
                         FERRY_CAN_RUN_HOST_FUNCTION | FERRY_CAN_BATCH | FERRY_CAN_PEER |
                         FERRY_CAN_SHARE | FERRYI_DEVICE_HOST_VISIBLE | FERRYI_DEVICE_MAPS_FILES;
    head->properties.native = ordinal;
    head->properties.total_bytes = emulated->limit_bytes;
    head->properties.handle_bytes = FERRYI_EMULATED_HANDLE;
    snprintf(head->properties.name, sizeof(head->properties.name), "%s device %d", head->kind,
             ordinal);
}

ferry_status
ferryi_emulated_open(const struct ferryi_emulated_scheduler *scheduler, int ordinal,
                     const struct ferryi_device_config *config, ferryi_device **out)
{
    ferryi_emulated *emulated = calloc(1, sizeof(*emulated));
    if (!emulated)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "open %s:%d: no memory for %zu bytes",
                           scheduler->kind, ordinal, sizeof(*emulated));
    emulated->scheduler = scheduler;
    emulated->limit_bytes =
        config->emulated_memory_bytes ? config->emulated_memory_bytes : DEFAULT_MEMORY_BYTES;
    emulated->latency_ns = config->emulated_latency_ns;
    emulated->bytes_per_second = config->emulated_bytes_per_second;
    ferryi_mutex_init(&emulated->ranges.mutex);
    ferryi_mutex_init(&emulated->mutex);
    ferryi_mutex_init(&emulated->link_mutex);
    fill_head(emulated, ordinal);
    if (config->emulated_without_peers)
        emulated->head.capabilities &= ~(uint64_t)FERRY_CAN_PEER;
    ferry_status status =
        ferryi_emulated_stream_create(&emulated->head, &emulated->head.default_stream);
    if (status != FERRY_OK)
        goto fail;
    *out = &emulated->head;
    return FERRY_OK;

fail:
    emulated_close(&emulated->head);
    return status;
}

static int
emulated_count(void)
{
    return 1;
}

static ferry_status
emulated_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    ferry_status status = ferryi_emulated_open(&threads, ordinal, config, out);
    if (status == FERRY_OK)
        (*out)->capabilities |= FERRYI_DEVICE_CALLS_APART;
    return status;
}

const ferryi_device_kind ferryi_emulated_kind = {
    .name = "emulated", .count = emulated_count, .open = emulated_open, .made_up = true};
