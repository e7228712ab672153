/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_PEER_H
#define FERRY_TEST_PEER_H

/*
 * A second process, with which a test shares memory and an event of a device. The process runs the
 * test's own program, opens the device anew, and does one order after the other. It has one piece
 * of memory, one event and one stream.
 *
 * The main function of such a program begins with
 *
 *     if (peer_is_wanted(argc, argv))
 *         return peer_main(argv);
 */

#include <stdbool.h>
#include <sys/types.h>

#include "src/device/device.h"

enum peer_verb {
    PEER_OPEN_DEVICE,
    PEER_ALLOC,        /* allocates memory of `shared.bytes` bytes; the reply has its token */
    PEER_OPEN,         /* opens the memory `shared` */
    PEER_FREE,         /* frees its memory, or closes it if it was opened */
    PEER_CREATE_EVENT, /* creates an event; the reply has its token in `token` */
    PEER_OPEN_EVENT,   /* opens the event `token` */
    PEER_DESTROY_EVENT,
    PEER_FILL, /* queues `times` fills of its memory, the last one with the byte `value` */
    PEER_HOLD, /* queues a host function that ends with PEER_LET_GO */
    PEER_LET_GO,
    PEER_RECORD,      /* records its event */
    PEER_AWAIT,       /* makes its stream wait for its event */
    PEER_SYNCHRONIZE, /* waits for its stream */
    PEER_READ,        /* `value` of the reply is the byte of which its memory consists, or -1 */
    PEER_END,         /* closes the device and ends the process */
};

struct peer_order {
    enum peer_verb verb;
    struct ferryi_shared_memory shared;
    struct ferryi_token token;
    int value, times;
};

struct peer_reply {
    ferry_status status;
    struct ferryi_shared_memory shared;
    struct ferryi_token token;
    int value;
    char message[512]; /* of a failure */
};

struct peer {
    pid_t process;
    int orders, replies;
};

/* Starts a process that opens device 0 of the kind. Returns false if that fails, with a message on
 * the standard error output. */
bool peer_start(struct peer *peer, const char *kind);
/* Sends an order and waits for the reply. The test fails if the order does. */
struct peer_reply peer_do(const struct peer *peer, struct peer_order order);
/* The same for an order without parameters. */
struct peer_reply peer_do_verb(const struct peer *peer, enum peer_verb verb);
/* Ends the process and waits for its end. Returns whether it did all orders and exited with 0. */
bool peer_end(struct peer *peer);
/* Kills the process without warning and does not wait for its end; peer_bury() does. */
void peer_kill(const struct peer *peer);
void peer_bury(struct peer *peer);

bool peer_is_wanted(int argc, char **argv);
int peer_main(char **argv);

#endif
