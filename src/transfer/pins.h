/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PINS_H
#define FERRYI_PINS_H

/*
 * Ranges of ordinary host memory that the engine has page-locked: memory that the program
 * registered, and Ferry's own host copies that crossed often. Registering goes piece by piece, each
 * faulted in first, since one huge call stalls every other user of the driver; so a copy must not
 * reach over the end of a piece.
 *
 * A copy from or to such a range holds it until the device is done with it. Ferry's own ranges
 * share a limit with the pinned pool, which comes first: they are given up, if they are not held,
 * when the pool needs their share.
 *
 * A mutex guards the sorted list; no driver call happens under it. A range being registered, or
 * given up, is in the list but cannot be held.
 */

#include "src/base/base.h"
#include "src/device/device.h"

#define FERRYI_PIN_PIECE_BYTES ((size_t)256 << 20)

FERRYI_MUTEX_CLASS(ferryi_pins_mutex);

struct ferryi_pin {
    char *start;
    size_t bytes;
    bool own; /* Ferry's: may be given up */
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        bool settled; /* registered, and not being given up */
        unsigned holders;
    };
};

/* How many ranges that the driver refused are remembered. */
#define FERRYI_PIN_REFUSALS 16

struct ferryi_pin_refusal {
    const char *start; /* NULL: none */
    size_t bytes;
};

struct ferryi_pins {
    ferryi_device *device; /* registers for all; NULL: none can */
    const struct ferryi_log *log;
    size_t piece_bytes, limit_bytes;
    struct ferryi_pins_mutex mutex;
    ferryi_cond changed;
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        struct ferryi_pin **items; /* by start; they do not overlap */
        size_t room;
        size_t own_bytes, pool_bytes; /* against the limit */
        /* Own ranges that are not tried again before their memory is given back. */
        struct ferryi_pin_refusal refusals[FERRYI_PIN_REFUSALS];
        size_t next_refusal;
    };
    atomic_bool refused;     /* some range ever was */
    _Atomic size_t count;    /* of items; it changes under the mutex */
    _Atomic uint64_t turned; /* own ranges ever registered */
};

void ferryi_pins_init(struct ferryi_pins *pins, ferryi_device *device, size_t limit_bytes,
                      size_t piece_bytes, const struct ferryi_log *log);
/* Unregisters all ranges; none may be held. */
void ferryi_pins_clear(struct ferryi_pins *pins);

/* @return FERRY_OK; UNSUPPORTED; CONFLICT (part of it is registered already); OUT_OF_MEMORY; the
 * device's status */
ferry_status ferryi_pins_add(struct ferryi_pins *pins, void *memory, size_t bytes);
/* @return FERRY_OK; INVALID_ARGUMENT (no range of the program starts there); BUSY (it is held); the
 * device's status */
ferry_status ferryi_pins_remove(struct ferryi_pins *pins, void *memory);

/* Ferry's own memory, if the limit allows; false, with nothing said, when it could not be. True
 * also when it is already. */
bool ferryi_pins_add_own(struct ferryi_pins *pins, void *memory, size_t bytes);
/* Own ranges that begin in the memory, and what is remembered of it, before it goes back to where
 * it came from: waits for holders. Usually there are none. */
void ferryi_pins_remove_own(struct ferryi_pins *pins, void *memory, size_t bytes);

/* The settled range that holds all of `bytes` > 0, held; NULL when there is none. */
struct ferryi_pin *ferryi_pins_hold(struct ferryi_pins *pins, const void *pointer, size_t bytes);
void ferryi_pins_release(struct ferryi_pins *pins, struct ferryi_pin *pin);
bool ferryi_pins_holds(struct ferryi_pins *pins, const void *pointer, size_t bytes);
/* Bytes from `pointer` to the end of its piece. */
size_t ferryi_pin_rest(const struct ferryi_pins *pins, const struct ferryi_pin *pin,
                       const void *pointer);

/* The pinned pool is about to take `bytes`, or gave them back. Taking gives up own ranges that
 * leave no room and are not held. */
void ferryi_pins_pool_takes(struct ferryi_pins *pins, size_t bytes);
void ferryi_pins_pool_gave(struct ferryi_pins *pins, size_t bytes);

#endif
