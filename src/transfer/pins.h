/* SPDX-License-Identifier: MIT */
#ifndef FERRYI_PINS_H
#define FERRYI_PINS_H

/*
 * Manages ranges of ordinary host memory that the engine has page-locked by registering them with
 * the driver. The memory of a range belongs to the program, which requested the registration, or to
 * a host replica of Ferry that was transferred often.
 *
 * A range is registered piece by piece, because one huge call would block every other user of the
 * driver. Before a piece is registered, all its pages are populated. One driver call must not copy
 * across the end of a piece.
 *
 * A copy from or to a registered range holds the range until the device has finished the copy. A
 * range that is held cannot be unregistered. Ferry's ranges share a limit with the pinned pool,
 * which has precedence. If the pool needs more of the limit than the ranges leave, ranges that are
 * not held are unregistered.
 *
 * A mutex guards the list of ranges, which is sorted by address. No driver call is made while the
 * mutex is locked. A range that is being registered or unregistered is in the list, but no transfer
 * can hold it.
 *
 * Other libraries, and the program itself, also page-lock memory. The driver knows of such memory,
 * and is asked. The answer that memory is pageable is remembered for a while: if it is out of date,
 * a transfer is only slower. The answer that memory is page-locked is not remembered, because the
 * memory may be freed, and its address used again, at any time between two transfers.
 */

#include "src/base/base.h"
#include "src/device/device.h"

#define FERRYI_PIN_PIECE_BYTES ((size_t)256 << 20)

/* Numbers of sets of two addresses of pageable memory that are remembered, and of questions after
 * which the driver is asked again even for such an address, because its memory may have changed.
 * With one address in each set, two arrays that a program copies in turns could displace each other
 * each time, as chance placed them. */
#define FERRYI_PIN_PAGEABLE  32
#define FERRYI_PIN_ASK_AGAIN 64

FERRYI_MUTEX_CLASS(ferryi_pins_mutex);

struct ferryi_pin {
    char *start;
    size_t bytes;
    bool own; /* whether the memory is Ferry's, not the program's; Ferry may then unregister it */
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        bool settled; /* whether the range is registered, and not about to be unregistered */
        unsigned holders;
    };
};

struct ferryi_pins {
    /* the device whose driver registers memory for all devices; NULL: no device can register memory
     */
    ferryi_device *device;
    const struct ferryi_log *log;
    size_t piece_bytes, limit_bytes;
    struct ferryi_pins_mutex mutex;
    ferryi_cond changed;
    FERRYI_GUARDED_BY(ferryi_pins_mutex) struct {
        struct ferryi_pin **items; /* sorted by start; they do not overlap */
        size_t room;
        size_t own_bytes, pool_bytes; /* number of bytes in Ferry's registered ranges, and number of
                                         bytes in the pinned pool; the sum is limited */
    };
    _Atomic size_t count; /* number of items; changed only under the mutex */
    /* addresses of memory that was not page-locked by others when the driver was asked, and number
     * of questions so far */
    _Atomic uintptr_t pageable[FERRYI_PIN_PAGEABLE][2];
    _Atomic unsigned questions;
    /* number of Ferry's ranges that were page-locked since the last reset of the statistics */
    _Atomic uint64_t turned;
};

void ferryi_pins_init(struct ferryi_pins *pins, ferryi_device *device, size_t limit_bytes,
                      size_t piece_bytes, const struct ferryi_log *log);
/* Unregisters all ranges. No transfer may hold a range. */
void ferryi_pins_clear(struct ferryi_pins *pins);

/* Page-locks memory of the program by registering it with the driver.
 * @return FERRY_OK; UNSUPPORTED; CONFLICT (part of the memory is already registered);
 * OUT_OF_MEMORY; otherwise the device's status */
ferry_status ferryi_pins_add(struct ferryi_pins *pins, void *memory, size_t bytes);
/* Unregisters memory that the program registered with ferryi_pins_add().
 * @return FERRY_OK; INVALID_ARGUMENT (no range of the program starts at `memory`); BUSY (a transfer
 * holds the range); otherwise the device's status */
ferry_status ferryi_pins_remove(struct ferryi_pins *pins, void *memory);

/* Registers memory of Ferry with the driver if the limit allows it. Failures set no error message.
 * @return FERRY_OK (the memory is registered, perhaps by an earlier call); OUT_OF_MEMORY, CONFLICT
 * (a later call may succeed); UNSUPPORTED, otherwise the device's status (the driver refuses the
 * memory, so later calls are useless) */
ferry_status ferryi_pins_add_own(struct ferryi_pins *pins, void *memory, size_t bytes);
/* Unregisters Ferry's ranges that begin within the `bytes` bytes at `memory`. Must be called before
 * this memory is freed. Waits until no transfer holds these ranges. */
void ferryi_pins_remove_own(struct ferryi_pins *pins, void *memory, size_t bytes);

/* Takes a hold on the registered range that contains all `bytes` bytes at `pointer`, and returns
 * the range. Returns NULL if there is no such range. `bytes` must not be 0. */
struct ferryi_pin *ferryi_pins_hold(struct ferryi_pins *pins, const void *pointer, size_t bytes);
void ferryi_pins_release(struct ferryi_pins *pins, struct ferryi_pin *pin);
bool ferryi_pins_holds(struct ferryi_pins *pins, const void *pointer, size_t bytes);
/* Returns whether all `bytes` bytes at `pointer` lie in one range of host memory that is
 * page-locked for the device, and that Ferry has not registered. The range stays page-locked until
 * its owner frees or unregisters it. If the driver fails, returns false and sets no error message.
 */
bool ferryi_pins_are_foreign(struct ferryi_pins *pins, ferryi_device *device, const void *pointer,
                             size_t bytes);
/* A memory range is registered in separate pieces. Returns the number of bytes from `pointer` to
 * the end of the piece that contains `pointer`. */
size_t ferryi_pin_rest(const struct ferryi_pins *pins, const struct ferryi_pin *pin,
                       const void *pointer);

/* ferryi_pins_pool_takes() must be called before the pinned pool allocates `bytes` bytes. It
 * unregisters Ferry's ranges that no transfer holds, until the limit on page-locked memory is met.
 * ferryi_pins_pool_gave() must be called after the pool has freed `bytes` bytes. */
void ferryi_pins_pool_takes(struct ferryi_pins *pins, size_t bytes);
void ferryi_pins_pool_gave(struct ferryi_pins *pins, size_t bytes);

#endif
