/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PINS_H
#define FERRYI_PINS_H

/*
 * Ranges of ordinary host memory that the engine has page-locked: memory that the program
 * registered, and Ferry's host replicas that were transferred often. A range is registered piece by
 * piece, and each piece is faulted in first, because one huge call blocks every other user of the
 * driver. One driver call must not copy across the end of a piece.
 *
 * A copy from or to such a range takes a hold on it until the device has finished the copy. Ferry's
 * ranges share a limit with the pinned pool, which has precedence: when the pool needs their share,
 * ranges that are not held are unregistered.
 *
 * A mutex guards the sorted list. No driver call is made while the mutex is locked. A range that is
 * being registered or unregistered is in the list, but no transfer can take a hold on it.
 */

#include "src/base/base.h"
#include "src/device/device.h"

#define FERRYI_PIN_PIECE_BYTES ((size_t)256 << 20)

FERRYI_MUTEX_CLASS(ferryi_pins_mutex);

struct ferryi_pin {
    char *start;
    size_t bytes;
    bool own; /* whether it is Ferry's memory, so that the range may be unregistered at any time */
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        bool settled; /* registered, and not being unregistered */
        unsigned holders;
    };
};

/* Number of recently refused ranges that are remembered. */
#define FERRYI_PIN_REFUSALS 16

struct ferryi_pin_refusal {
    const char *start; /* NULL: none */
    size_t bytes;
};

struct ferryi_pins {
    ferryi_device *device; /* the device that registers memory for all devices; NULL: none can */
    const struct ferryi_log *log;
    size_t piece_bytes, limit_bytes;
    struct ferryi_pins_mutex mutex;
    ferryi_cond changed;
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        struct ferryi_pin **items; /* sorted by start; they do not overlap */
        size_t room;
        size_t own_bytes, pool_bytes; /* number of bytes in Ferry's ranges; number of bytes in the
                                         pinned pool. Their sum is limited */
        /* Ferry's ranges that the driver refused. They are not registered again until their memory
         * is freed. */
        struct ferryi_pin_refusal refusals[FERRYI_PIN_REFUSALS];
        size_t next_refusal;
    };
    atomic_bool refused;  /* whether the driver has ever refused a range */
    _Atomic size_t count; /* number of items, which changes only under the mutex */
    _Atomic uint64_t
        turned; /* number of Ferry's ranges that were registered since the statistics were reset */
};

void ferryi_pins_init(struct ferryi_pins *pins, ferryi_device *device, size_t limit_bytes,
                      size_t piece_bytes, const struct ferryi_log *log);
/* Unregisters all ranges; none may be held. */
void ferryi_pins_clear(struct ferryi_pins *pins);

/* Registers the program's memory.
 * @return FERRY_OK; UNSUPPORTED; CONFLICT (part of the memory is registered already);
 * OUT_OF_MEMORY; the device's status */
ferry_status ferryi_pins_add(struct ferryi_pins *pins, void *memory, size_t bytes);
/* Unregisters the program's memory.
 * @return FERRY_OK; INVALID_ARGUMENT (no range of the program starts there); BUSY (the range is
 * held); the device's status */
ferry_status ferryi_pins_remove(struct ferryi_pins *pins, void *memory);

/* Registers Ferry's memory if the limit allows that. Returns whether the memory is registered now,
 * even if it was registered before. Failures set no error message. */
bool ferryi_pins_add_own(struct ferryi_pins *pins, void *memory, size_t bytes);
/* Unregisters Ferry's ranges that begin in the memory and forgets its refusals. Must be called
 * before the memory is freed. Waits until no transfer holds the ranges. */
void ferryi_pins_remove_own(struct ferryi_pins *pins, void *memory, size_t bytes);

/* Takes a hold on the registered range that contains all `bytes` bytes, and returns the range.
 * Returns NULL if there is no such range. `bytes` must not be 0. */
struct ferryi_pin *ferryi_pins_hold(struct ferryi_pins *pins, const void *pointer, size_t bytes);
void ferryi_pins_release(struct ferryi_pins *pins, struct ferryi_pin *pin);
bool ferryi_pins_holds(struct ferryi_pins *pins, const void *pointer, size_t bytes);
/* Returns the number of bytes from `pointer` to the end of its piece. */
size_t ferryi_pin_rest(const struct ferryi_pins *pins, const struct ferryi_pin *pin,
                       const void *pointer);

/* ferryi_pins_pool_takes() must be called before the pinned pool allocates `bytes` bytes, and
 * ferryi_pins_pool_gave() after the pool has freed them. While the limit is exceeded, the former
 * unregisters Ferry's ranges that no transfer holds. */
void ferryi_pins_pool_takes(struct ferryi_pins *pins, size_t bytes);
void ferryi_pins_pool_gave(struct ferryi_pins *pins, size_t bytes);

#endif
