/* SPDX-License-Identifier: MIT */
#include "tests/support/lazy.h"

#include "src/device/emulated/emulated.h"

#define QUERIES_UNTIL_PERFORMED 3

static ferry_status
lazy_begin(ferryi_emulated_queue *queue)
{
    (void)queue;
    return FERRY_OK;
}

/* Performs the commands of the queue up to `number`, and no later ones. If a command waits for a
 * different queue, the device calls this function for that queue first. */
static void
lazy_wait(ferryi_emulated_queue *queue, uint64_t number)
{
    ferryi_mutex_lock(&queue->mutex);
    while (queue->performed < number) {
        if (queue->busy)
            ferryi_emulated_sleep(queue, queue->performed + 1);
        else
            ferryi_emulated_step(queue);
    }
    ferryi_mutex_unlock(&queue->mutex);
}

static void
lazy_end(ferryi_emulated_queue *queue)
{
    ferryi_mutex_lock(&queue->mutex);
    uint64_t number = queue->submitted;
    ferryi_mutex_unlock(&queue->mutex);
    lazy_wait(queue, number);
}

static void
lazy_asked(ferryi_emulated_queue *queue, uint64_t number, unsigned times)
{
    if (times >= QUERIES_UNTIL_PERFORMED)
        lazy_wait(queue, number);
}

static struct ferryi_emulated_scheduler lazy = {
    .kind = "lazy",
    .strict = true,
    .begin = lazy_begin,
    .end = lazy_end,
    .wait = lazy_wait,
    .asked = lazy_asked,
};

void
lazy_lose(bool lost)
{
    lazy.is_lost = lost;
}

static int
lazy_count(void)
{
    return 1;
}

static ferry_status
lazy_open(int ordinal, const struct ferryi_device_config *config, ferryi_device **out)
{
    return ferryi_emulated_open(&lazy, ordinal, config, out);
}

const ferryi_device_kind lazy_kind = {
    .name = "lazy", .count = lazy_count, .open = lazy_open, .made_up = true};

void
lazy_register(void)
{
    ferryi_device_register(&lazy_kind);
}
