/* SPDX-License-Identifier: MIT */
#include "tests/support/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/base/base.h"
#include "src/base/sanitizer.h"
#include "tests/support/copy_slots.h"

#if FERRYI_MEMORY_SANITIZER
#include <sanitizer/msan_interface.h>
#else
#define __msan_unpoison(memory, bytes) ((void)0)
#endif

#define WORD                                                                                       \
    "peer" /* the first argument of the second process; the next one is the kind of device */

/* -- the test's process -- */

/* Transfers a whole message. Returns false at the end of the pipe. */
static bool
pass(ssize_t (*transfer)(int, void *, size_t), int file, void *at, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t now = transfer(file, (char *)at + done, bytes - done);
        if (now == 0 || (now < 0 && errno != EINTR))
            return false;
        done += now > 0 ? (size_t)now : 0;
    }
    return true;
}

static ssize_t
put(int file, void *at, size_t bytes)
{
    __msan_unpoison(at, bytes); /* padding */
    return write(file, at, bytes);
}

static bool
spawn(struct peer *peer, const char *kind, const int orders[2], const int replies[2])
{
    char *const arguments[] = {(char[]){"a test's peer"}, (char[]){WORD}, (char *)(uintptr_t)kind,
                               NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    posix_spawn_file_actions_adddup2(&actions, orders[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, replies[1], STDOUT_FILENO);
    int error = posix_spawn(&peer->process, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        fprintf(stderr, "posix_spawn: %s\n", strerror(error));
    return error == 0;
}

/* Sends an order and waits for the reply. If the process has ended, the reply says so. */
static struct peer_reply
ask(const struct peer *peer, struct peer_order order)
{
    struct peer_reply reply;
    if (!pass(put, peer->orders, &order, sizeof(order)) ||
        !pass(read, peer->replies, &reply, sizeof(reply)))
        reply = (struct peer_reply){.status = FERRY_ERROR_DEVICE_LOST,
                                    .message = "the second process has ended"};
    return reply;
}

bool
peer_start(struct peer *peer, const char *kind)
{
    int orders[2], replies[2];
    signal(SIGPIPE, SIG_IGN);
    if (pipe2(orders, O_CLOEXEC) != 0)
        return false;
    if (pipe2(replies, O_CLOEXEC) != 0) {
        close(orders[0]);
        close(orders[1]);
        return false;
    }
    bool started = spawn(peer, kind, orders, replies);
    close(orders[0]);
    close(replies[1]);
    peer->orders = orders[1];
    peer->replies = replies[0];
    if (!started) {
        close(peer->orders);
        close(peer->replies);
        return false;
    }
    struct peer_reply reply = ask(peer, (struct peer_order){.verb = PEER_OPEN_DEVICE});
    if (reply.status != FERRY_OK) {
        fprintf(stderr, "%s\n", reply.message);
        peer_end(peer);
    }
    return reply.status == FERRY_OK;
}

struct peer_reply
peer_do(const struct peer *peer, struct peer_order order)
{
    struct peer_reply reply = ask(peer, order);
    if (reply.status != FERRY_OK)
        fail_msg("order %d: %s", order.verb, reply.message);
    return reply;
}

struct peer_reply
peer_do_verb(const struct peer *peer, enum peer_verb verb)
{
    return peer_do(peer, (struct peer_order){.verb = verb});
}

static bool
await_end(struct peer *peer)
{
    int status = -1;
    close(peer->orders);
    while (waitpid(peer->process, &status, 0) < 0 && errno == EINTR)
        ;
    close(peer->replies);
    return status == 0;
}

bool
peer_end(struct peer *peer)
{
    bool well = ask(peer, (struct peer_order){.verb = PEER_END}).status == FERRY_OK;
    return await_end(peer) && well;
}

void
peer_kill(const struct peer *peer)
{
    kill(peer->process, SIGKILL);
}

void
peer_bury(struct peer *peer)
{
    (void)await_end(peer);
}

/* -- the second process -- */

static struct {
    ferryi_device *device;
    void *stream, *memory, *event;
    struct ferryi_shared_memory shared;
    atomic_bool let_go;
} self;

static void
hold(void *user)
{
    (void)user;
    while (!atomic_exchange(&self.let_go, false))
        usleep(200);
}

static ferry_status
open_device(const char *name)
{
    static const ferryi_device_kind *const kinds[] = {&ferryi_cuda_kind, &ferryi_hip_kind};
    static const struct ferryi_device_config config;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, name) == 0) {
            FERRYI_OR_RETURN(kinds[i]->open(0, &config, &self.device));
            return FERRYI_CALL(self.device, stream_create, &self.stream);
        }
    return ferryi_fail(FERRY_ERROR_NO_DEVICE, "there is no kind of device %s", name);
}

static ferry_status
close_device(void)
{
    if (self.stream)
        FERRYI_OR_RETURN(FERRYI_CALL(self.device, stream_destroy, self.stream));
    if (self.device)
        self.device->ops->close(self.device);
    return FERRY_OK;
}

static ferry_status
fill(int times, int value)
{
    for (int i = times; i-- > 0;)
        FERRYI_OR_RETURN(FERRYI_CALL(self.device, fill, self.memory, (uint32_t)(value + i) & 0xff,
                                     1, self.shared.bytes, self.stream));
    return FERRY_OK;
}

/* Copies the memory in the order of the stream, and returns the byte of which it consists. */
static ferry_status
read_byte(int *out)
{
    const size_t bytes = self.shared.bytes;
    unsigned char *pinned;
    FERRYI_OR_RETURN(
        FERRYI_CALL(self.device, memory_alloc, FERRY_MEMORY_PINNED, bytes, (void **)&pinned));
    FERRYI_OR_RETURN(
        FERRYI_CALL(self.device, copy_download, pinned, self.memory, bytes, self.stream));
    FERRYI_OR_RETURN(FERRYI_CALL(self.device, stream_synchronize, self.stream));
    *out = memcmp(pinned, pinned + 1, bytes - 1) == 0 ? pinned[0] : -1;
    return FERRYI_CALL(self.device, memory_free, FERRY_MEMORY_PINNED, pinned);
}

static ferry_status
share(const struct peer_order *order, struct peer_reply *reply)
{
    self.shared = order->shared;
    self.shared.is_opened = order->verb == PEER_OPEN;
    if (order->verb == PEER_OPEN)
        return FERRYI_CALL(self.device, shared_open, &self.shared, &self.memory);
    ferry_status status = FERRYI_CALL(self.device, shared_alloc, &self.shared, &self.memory);
    reply->shared = self.shared;
    return status;
}

static ferry_status
follow(const struct peer_order *order, const char *kind, struct peer_reply *reply)
{
    ferryi_device *device = self.device;
    switch (order->verb) {
    case PEER_OPEN_DEVICE:
        return open_device(kind);
    case PEER_ALLOC:
    case PEER_OPEN:
        return share(order, reply);
    case PEER_FREE:
        return FERRYI_CALL(device, shared_free, &self.shared, self.memory);
    case PEER_CREATE_EVENT:
        return FERRYI_CALL(device, shared_event_create, &reply->token, &self.event);
    case PEER_OPEN_EVENT:
        return FERRYI_CALL(device, shared_event_open, &order->token, &self.event);
    case PEER_DESTROY_EVENT:
        return FERRYI_CALL(device, event_destroy, self.event);
    case PEER_FILL:
        return fill(order->times, order->value);
    case PEER_HOLD:
        return FERRYI_CALL(device, host_call, self.stream, hold, NULL);
    case PEER_LET_GO:
        atomic_store(&self.let_go, true);
        return FERRY_OK;
    case PEER_RECORD:
        return FERRYI_CALL(device, event_record, self.event, self.stream);
    case PEER_AWAIT:
        return FERRYI_CALL(device, stream_wait, self.stream, self.event);
    case PEER_SYNCHRONIZE:
        return FERRYI_CALL(device, stream_synchronize, self.stream);
    case PEER_READ:
        return read_byte(&reply->value);
    case PEER_END:
        return close_device();
    }
    return FERRY_ERROR_INVALID_ARGUMENT;
}

bool
peer_is_wanted(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], WORD) == 0;
}

int
peer_main(char **argv)
{
    struct peer_order order;
    while (pass(read, STDIN_FILENO, &order, sizeof(order))) {
        struct peer_reply reply = {.value = -1};
        reply.status = follow(&order, argv[2], &reply);
        if (reply.status != FERRY_OK)
            snprintf(reply.message, sizeof(reply.message), "%s", ferry_last_error());
        if (!pass(put, STDOUT_FILENO, &reply, sizeof(reply)))
            return 1;
        if (order.verb == PEER_END)
            return 0;
    }
    return 1;
}
