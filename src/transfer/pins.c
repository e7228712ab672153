/* SPDX-License-Identifier: MIT */
#include "src/transfer/pins.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Number of ranges in the lists of all contexts, and number of ranges that were ever inserted. A
 * range is counted before it is registered, and until it is unregistered. */
static _Atomic size_t ranges_now;
static _Atomic uint64_t ranges_ever;

void
ferryi_pins_init(struct ferryi_pins *pins, ferryi_device *device, size_t limit_bytes,
                 size_t piece_bytes, const struct ferryi_log *log)
{
    *pins = (struct ferryi_pins){.device = device,
                                 .log = log,
                                 .limit_bytes = limit_bytes,
                                 .piece_bytes = piece_bytes ? piece_bytes : FERRYI_PIN_PIECE_BYTES};
    assert(pins->piece_bytes % ferryi_page_bytes() == 0);
    ferryi_mutex_init(&pins->mutex);
    ferryi_cond_init(&pins->changed);
}

/* -- the driver's part, without the mutex ------------------------------------------------------ */

/*
 * A memory range is registered in separate pieces. Returns the number of bytes from `pointer` to
 * the end of the piece that contains `pointer`.
 *
 * Each piece except the first and the last has `piece_bytes` bytes. The first is shorter if the
 * range begins within a page. So every later piece begins at a page boundary, and no page belongs
 * to two pieces.
 */
size_t
ferryi_pin_rest(const struct ferryi_pins *pins, const struct ferryi_pin *pin, const void *pointer)
{
    uintptr_t base = (uintptr_t)pin->start & ~(uintptr_t)(ferryi_page_bytes() - 1);
    size_t in_piece = ((uintptr_t)pointer - base) % pins->piece_bytes;
    size_t left = pin->bytes - (size_t)((const char *)pointer - pin->start);
    return ferryi_min_size(pins->piece_bytes - in_piece, left);
}

/* Unregisters the separately registered pieces of a range that begin before offset `end`. If the
 * driver call for a piece fails, the piece stays registered, so the call is repeated once. */
static ferry_status
unregister(const struct ferryi_pins *pins, const struct ferryi_pin *pin, size_t end)
{
    ferry_status first = FERRY_OK;
    for (size_t done = 0; done < end;) {
        char *piece = pin->start + done;
        ferry_status status = FERRYI_CALL(pins->device, host_unregister, piece);
        if (status != FERRY_OK)
            status = FERRYI_CALL(pins->device, host_unregister, piece);
        if (status != FERRY_OK && first == FERRY_OK)
            first = status;
        done += ferryi_pin_rest(pins, pin, piece);
    }
    return first;
}

static ferry_status
register_pieces(const struct ferryi_pins *pins, const struct ferryi_pin *pin)
{
    for (size_t done = 0; done < pin->bytes;) {
        char *piece = pin->start + done;
        size_t bytes = ferryi_pin_rest(pins, pin, piece);
        ferryi_populate(piece, bytes);
        ferry_status status = FERRYI_CALL(pins->device, host_register, piece, bytes);
        if (status != FERRY_OK) {
            FERRYI_KEEP_ERROR(why);
            if (unregister(pins, pin, done) != FERRY_OK)
                ferryi_log(pins->log, FERRY_LOG_ERROR,
                           "unlock memory of which the rest could not be page-locked: %s",
                           ferry_last_error());
            return status;
        }
        done += bytes;
    }
    return FERRY_OK;
}

/* -- the list ---------------------------------------------------------------------------------- */

static size_t
count_of(const struct ferryi_pins *pins)
{
    return atomic_load_explicit(&pins->count, memory_order_relaxed);
}

/* Returns the index of the first range in the list that starts after `pointer`. */
FERRYI_REQUIRES(ferryi_pins_mutex)
static size_t
upper_bound(const struct ferryi_pins *pins, const char *pointer)
{
    size_t low = 0, high = count_of(pins);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)pins->items[middle]->start <= (uintptr_t)pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

FERRYI_REQUIRES(ferryi_pins_mutex)
static struct ferryi_pin *
find(const struct ferryi_pins *pins, const char *pointer, size_t bytes)
{
    size_t index = upper_bound(pins, pointer);
    struct ferryi_pin *pin = index > 0 ? pins->items[index - 1] : NULL;
    size_t offset = pin ? (size_t)(pointer - pin->start) : 0;
    return pin && offset <= pin->bytes && bytes <= pin->bytes - offset ? pin : NULL;
}

/* Inserts a memory range into the sorted list of ranges. No transfer can hold the range until
 * `pin->settled` is set. */
FERRYI_REQUIRES(ferryi_pins_mutex)
static ferry_status
insert(struct ferryi_pins *pins, struct ferryi_pin *pin)
{
    size_t index = upper_bound(pins, pin->start), count = count_of(pins);
    const struct ferryi_pin *before = index > 0 ? pins->items[index - 1] : NULL;
    const struct ferryi_pin *after = index < count ? pins->items[index] : NULL;
    if ((before && before->start + before->bytes > pin->start) ||
        (after && pin->start + pin->bytes > after->start))
        return FERRY_ERROR_CONFLICT;
    if (!ferryi_grow(&pins->items, &pins->room, count + 1, sizeof(*pins->items)))
        return FERRY_ERROR_OUT_OF_MEMORY;
    memmove(&pins->items[index + 1], &pins->items[index],
            (count - index) * sizeof(struct ferryi_pin *));
    pins->items[index] = pin;
    atomic_fetch_add(&ranges_now, 1);
    atomic_fetch_add(&ranges_ever, 1);
    atomic_store_explicit(&pins->count, count + 1, memory_order_relaxed);
    pins->own_bytes += pin->own ? pin->bytes : 0;
    return FERRY_OK;
}

FERRYI_REQUIRES(ferryi_pins_mutex)
static void
take_out(struct ferryi_pins *pins, struct ferryi_pin *pin)
{
    size_t index = upper_bound(pins, pin->start) - 1, count = count_of(pins) - 1;
    memmove(&pins->items[index], &pins->items[index + 1],
            (count - index) * sizeof(struct ferryi_pin *));
    atomic_store_explicit(&pins->count, count, memory_order_relaxed);
    atomic_fetch_sub(&ranges_now, 1);
    pins->own_bytes -= pin->own ? pin->bytes : 0;
    ferryi_cond_broadcast(&pins->changed);
    free(pin);
}

/* -- registering ------------------------------------------------------------------------------- */

/* Registers a memory range with the driver. The error messages of CONFLICT and OUT_OF_MEMORY do not
 * say which operation failed, so the caller must add this. */
static ferry_status
add(struct ferryi_pins *pins, void *memory, size_t bytes, bool own)
{
    struct ferryi_pin *pin = calloc(1, sizeof(*pin));
    if (!pin)
        return ferryi_fail(FERRY_ERROR_OUT_OF_MEMORY, "no memory to remember it");
    *pin = (struct ferryi_pin){.start = memory, .bytes = bytes, .own = own};
    ferryi_mutex_lock(&pins->mutex);
    ferry_status status = insert(pins, pin);
    ferryi_mutex_unlock(&pins->mutex);
    if (status != FERRY_OK) {
        free(pin);
        return ferryi_fail(status, status == FERRY_ERROR_CONFLICT
                                       ? "part of it is registered already"
                                       : "no memory to remember it");
    }
    status = register_pieces(pins, pin);
    /* Another library has registered a part of a buffer of Ferry. Unlike a conflict within Ferry,
     * this does not end soon, so it is not tried again. */
    if (own && status == FERRY_ERROR_CONFLICT)
        status = FERRY_ERROR_DEVICE;
    ferryi_mutex_lock(&pins->mutex);
    pin->settled = status == FERRY_OK;
    if (status != FERRY_OK)
        take_out(pins, pin);
    ferryi_cond_broadcast(&pins->changed);
    ferryi_mutex_unlock(&pins->mutex);
    return status;
}

ferry_status
ferryi_pins_add(struct ferryi_pins *pins, void *memory, size_t bytes)
{
    if (!pins->device)
        return ferryi_fail(
            FERRY_ERROR_UNSUPPORTED,
            "register %zu bytes of host memory: no device of the context page-locks memory", bytes);
    ferry_status status = add(pins, memory, bytes, false);
    return status == FERRY_OK
               ? FERRY_OK
               : ferryi_fail_in(status, "register %zu bytes of host memory at %p", bytes, memory);
}

/* Unregisters a range and removes it from the list, even if the driver reports a failure. The
 * caller has cleared `pin->settled`, so that no transfer can hold the range. */
static ferry_status
give_up(struct ferryi_pins *pins, struct ferryi_pin *pin)
{
    ferry_status status = unregister(pins, pin, pin->bytes);
    ferryi_mutex_lock(&pins->mutex);
    take_out(pins, pin);
    ferryi_mutex_unlock(&pins->mutex);
    return status;
}

ferry_status
ferryi_pins_remove(struct ferryi_pins *pins, void *memory)
{
    ferryi_mutex_lock(&pins->mutex);
    struct ferryi_pin *pin = find(pins, memory, 1);
    bool known = pin && pin->start == memory && !pin->own && pin->settled;
    bool held = known && pin->holders > 0;
    if (known && !held)
        pin->settled = false;
    ferryi_mutex_unlock(&pins->mutex);
    if (!known)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "unregister host memory at %p: no registered range starts there",
                           memory);
    if (held)
        return ferryi_fail(FERRY_ERROR_BUSY, "unregister host memory at %p: a copy is using it",
                           memory);
    ferry_status status = give_up(pins, pin);
    return status == FERRY_OK ? FERRY_OK
                              : ferryi_fail_in(status, "unregister host memory at %p", memory);
}

/* -- Ferry's own ------------------------------------------------------------------------------- */

ferry_status
ferryi_pins_add_own(struct ferryi_pins *pins, void *memory, size_t bytes)
{
    if (!pins->device)
        return FERRY_ERROR_UNSUPPORTED;
    ferryi_mutex_lock(&pins->mutex);
    bool there = find(pins, memory, bytes) != NULL;
    bool fits = pins->own_bytes + pins->pool_bytes <= pins->limit_bytes &&
                bytes <= pins->limit_bytes - pins->own_bytes - pins->pool_bytes;
    ferryi_mutex_unlock(&pins->mutex);
    if (there || !fits)
        return there ? FERRY_OK : FERRY_ERROR_OUT_OF_MEMORY;
    struct ferryi_kept_error before;
    ferryi_last_error_keep(&before);
    ferry_status status = add(pins, memory, bytes, true);
    if (status == FERRY_OK) {
        atomic_fetch_add_explicit(&pins->turned, 1, memory_order_relaxed);
    } else {
        ferryi_log(pins->log, FERRY_LOG_DEBUG, "page-lock %zu bytes that are often transferred: %s",
                   bytes, ferry_last_error());
        ferryi_last_error_restore(&before);
    }
    return status;
}

static void
give_up_own(struct ferryi_pins *pins, struct ferryi_pin *pin)
{
    struct ferryi_kept_error before;
    ferryi_last_error_keep(&before);
    if (give_up(pins, pin) != FERRY_OK) {
        ferryi_log(pins->log, FERRY_LOG_ERROR, "unlock memory that was page-locked: %s",
                   ferry_last_error());
        ferryi_last_error_restore(&before);
    }
}

/* Finds Ferry's first registered range that begins within the `bytes` bytes at `memory`. Waits
 * until no transfer holds the range, clears its member `settled`, and returns the range. Returns
 * NULL if there is no such range. The mutex is unlocked during the wait. */
FERRYI_REQUIRES(ferryi_pins_mutex)
static struct ferryi_pin *
pick_within(struct ferryi_pins *pins, const char *memory, size_t bytes)
{
    for (;;) {
        size_t index = upper_bound(pins, memory);
        if (index > 0 && pins->items[index - 1]->start == memory)
            index--;
        struct ferryi_pin *pin = index < count_of(pins) ? pins->items[index] : NULL;
        if (!pin || !pin->own || (size_t)(pin->start - memory) >= bytes)
            return NULL;
        if (pin->settled && pin->holders == 0) {
            pin->settled = false;
            return pin;
        }
        ferryi_cond_wait(&pins->changed, &pins->mutex);
    }
}

void
ferryi_pins_remove_own(struct ferryi_pins *pins, void *memory, size_t bytes)
{
    struct ferryi_pin *pin;
    while (count_of(pins) > 0) {
        ferryi_mutex_lock(&pins->mutex);
        pin = pick_within(pins, memory, bytes);
        ferryi_mutex_unlock(&pins->mutex);
        if (!pin)
            return;
        give_up_own(pins, pin);
    }
}

/* If the limit on page-locked memory is exceeded, finds one of Ferry's registered ranges that no
 * transfer holds. Clears the range's member `settled` and returns the range. Returns NULL if the
 * limit is not exceeded, or if transfers hold all these ranges. */
FERRYI_REQUIRES(ferryi_pins_mutex)
static struct ferryi_pin *
pick_surplus(struct ferryi_pins *pins)
{
    if (pins->own_bytes + pins->pool_bytes <= pins->limit_bytes)
        return NULL;
    for (size_t i = 0; i < count_of(pins); i++) {
        struct ferryi_pin *pin = pins->items[i];
        if (pin->own && pin->settled && pin->holders == 0) {
            pin->settled = false;
            return pin;
        }
    }
    return NULL;
}

void
ferryi_pins_pool_takes(struct ferryi_pins *pins, size_t bytes)
{
    struct ferryi_pin *pin;
    ferryi_mutex_lock(&pins->mutex);
    pins->pool_bytes += bytes;
    while ((pin = pick_surplus(pins)) != NULL) {
        ferryi_mutex_unlock(&pins->mutex);
        give_up_own(pins, pin);
        ferryi_mutex_lock(&pins->mutex);
    }
    ferryi_mutex_unlock(&pins->mutex);
}

void
ferryi_pins_pool_gave(struct ferryi_pins *pins, size_t bytes)
{
    ferryi_mutex_lock(&pins->mutex);
    pins->pool_bytes -= bytes;
    ferryi_mutex_unlock(&pins->mutex);
}

/* -- holding ----------------------------------------------------------------------------------- */

struct ferryi_pin *
ferryi_pins_hold(struct ferryi_pins *pins, const void *pointer, size_t bytes)
{
    if (count_of(pins) == 0)
        return NULL;
    ferryi_mutex_lock(&pins->mutex);
    struct ferryi_pin *pin = find(pins, pointer, bytes);
    if (pin && !pin->settled)
        pin = NULL;
    if (pin)
        pin->holders++;
    ferryi_mutex_unlock(&pins->mutex);
    return pin;
}

void
ferryi_pins_release(struct ferryi_pins *pins, struct ferryi_pin *pin)
{
    ferryi_mutex_lock(&pins->mutex);
    if (--pin->holders == 0)
        ferryi_cond_broadcast(&pins->changed);
    ferryi_mutex_unlock(&pins->mutex);
}

bool
ferryi_pins_holds(struct ferryi_pins *pins, const void *pointer, size_t bytes)
{
    struct ferryi_pin *pin = ferryi_pins_hold(pins, pointer, bytes);
    if (pin)
        ferryi_pins_release(pins, pin);
    return pin != NULL;
}

/* -- ranges of others -------------------------------------------------------------------------- */

/*
 * Returns whether Ferry may have registered a part of the memory. Ferry may unregister such memory
 * during a copy that does not hold it. Only the ranges of this context are looked up: if another
 * context has ranges, the function returns true.
 */
static bool
may_be_own(struct ferryi_pins *pins, const char *pointer, size_t bytes)
{
    ferryi_mutex_lock(&pins->mutex);
    size_t index = upper_bound(pins, pointer + bytes - 1);
    const struct ferryi_pin *pin = index > 0 ? pins->items[index - 1] : NULL;
    bool own =
        (pin && pin->start + pin->bytes > pointer) || atomic_load(&ranges_now) != count_of(pins);
    ferryi_mutex_unlock(&pins->mutex);
    return own;
}

static bool
is_remembered(const _Atomic uintptr_t set[2], uintptr_t address)
{
    return atomic_load_explicit(&set[0], memory_order_relaxed) == address ||
           atomic_load_explicit(&set[1], memory_order_relaxed) == address;
}

/* Remembers an address instead of the older one of its set. */
static void
remember(_Atomic uintptr_t set[2], uintptr_t address)
{
    if (is_remembered(set, address))
        return;
    atomic_store_explicit(&set[1], atomic_load_explicit(&set[0], memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&set[0], address, memory_order_relaxed);
}

bool
ferryi_pins_are_foreign(struct ferryi_pins *pins, ferryi_device *device, const void *pointer,
                        size_t bytes)
{
    if (!(device->capabilities & FERRYI_DEVICE_FINDS_PINNED))
        return false;
    const uintptr_t address = (uintptr_t)pointer;
    _Atomic uintptr_t *set =
        pins->pageable[(address ^ address / ferryi_page_bytes()) % FERRYI_PIN_PAGEABLE];
    unsigned questions = atomic_fetch_add_explicit(&pins->questions, 1, memory_order_relaxed);
    if (is_remembered(set, address) && questions % FERRYI_PIN_ASK_AGAIN != FERRYI_PIN_ASK_AGAIN - 1)
        return false;
    const uint64_t before = atomic_load(&ranges_ever);
    if (may_be_own(pins, pointer, bytes))
        return false;
    bool pinned = false;
    struct ferryi_kept_error error;
    ferryi_last_error_keep(&error);
    if (FERRYI_CALL(device, memory_is_pinned, pointer, bytes, &pinned) != FERRY_OK)
        ferryi_last_error_restore(&error);
    if (!pinned)
        remember(set, address);
    /* If Ferry has registered memory in the meantime, it may be this memory. */
    return pinned && atomic_load(&ranges_ever) == before;
}

void
ferryi_pins_clear(struct ferryi_pins *pins)
{
    ferryi_mutex_is_needless(&pins->mutex);
    while (count_of(pins) > 0) {
        struct ferryi_pin *pin = pins->items[0];
        if (!pin->own)
            ferryi_log(pins->log, FERRY_LOG_WARNING,
                       "destroy a context: %zu bytes of host memory at %p are still registered",
                       pin->bytes, (void *)pin->start);
        if (give_up(pins, pin) != FERRY_OK)
            ferryi_log(pins->log, FERRY_LOG_ERROR, "unlock memory that was page-locked: %s",
                       ferry_last_error());
    }
    free(pins->items);
    ferryi_cond_destroy(&pins->changed);
    ferryi_mutex_destroy(&pins->mutex);
}
