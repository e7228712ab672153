/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stddef.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * Result of a call. The meaning of a value never changes. New values are added at the end.
 *
 * A call that fails writes no output, and sets the message that ferry_last_error() returns. The
 * message says what the call attempted, on which object, with how many bytes or elements, and why
 * it failed.
 */
typedef enum ferry_status {
    FERRY_OK = 0,                     /**< the call succeeded */
    FERRY_ERROR_INVALID_ARGUMENT = 1, /**< an argument is NULL, an empty handle or an unknown value,
                                           or the call would write through a
                                           read-only handle */
    FERRY_ERROR_OUT_OF_RANGE = 2,     /**< the range ends after the end of the buffer; or a checked
                                           conversion found a value that does not fit; or an output
                                           is too small for the result */
    FERRY_ERROR_OVERFLOW = 3,         /**< a size exceeds size_t or the context's limit */
    FERRY_ERROR_OUT_OF_MEMORY = 4,    /**< the place has no memory left, even after eviction */
    FERRY_ERROR_CONFLICT = 5,         /**< the program marks bytes as newest at a place that has no
                                           replica, or while they are newer at another place; or
                                           memory is already registered. Nothing changed */
    FERRY_ERROR_BUSY = 6,             /**< the object is in use. Most often an open scope uses the
                                           same bytes, and that scope or the new access writes
                                           them */
    FERRY_ERROR_WRONG_TYPE = 7,       /**< the element type that the caller passed is not that of
                                           the buffer */
    FERRY_ERROR_WRONG_CONTEXT = 8,    /**< the objects of the call, such as a buffer and a stream,
                                           belong to different contexts */
    FERRY_ERROR_INVALID_STATE = 9,    /**< the call is not possible now: the object is held, wraps
                                           memory of the caller or has views; or its context was
                                           destroyed; or a callback may not make the call */
    FERRY_ERROR_UNSUPPORTED = 10,     /**< this device, driver or build cannot do it */
    FERRY_ERROR_NO_DEVICE = 11,       /**< the requested device is absent */
    FERRY_ERROR_DEVICE = 12,          /**< a driver call failed; the message contains the driver's
                                           reason */
    FERRY_ERROR_DEVICE_LOST = 13,     /**< the device failed; bytes that only this device held are
                                           lost */
    FERRY_ERROR_COMPILE = 14,         /**< kernel source did not compile; the message contains the
                                           compiler's log */
    FERRY_ERROR_IO = 15,              /**< a file could not be read or written */
    FERRY_ERROR_CANCELLED = 16        /**< the caller cancelled the call */
} ferry_status;

/**
 * Returns the name of a status, such as "FERRY_ERROR_BUSY".
 * @return a constant string, never NULL; "unknown status" for a value that is no status.
 * Threads: any.
 */
FERRY_API const char *ferry_status_name(ferry_status status);

/**
 * Returns the message of this thread's last failing call; "" before the first failure.
 *
 * The library owns the string. It is valid until this thread's next failing call. A successful call
 * leaves it unchanged. If there was not enough memory to store the message, the string says so.
 * @return the message, never NULL.
 * Threads: each thread has its own message.
 */
FERRY_API const char *ferry_last_error(void);

/**
 * Returns the index of the first element that did not fit, after a conversion with
 * FERRY_CONVERT_CHECK failed on this thread.
 * @return the index; (size_t)-1 when this thread's last failing call was anything else.
 * Threads: each thread has its own index.
 */
FERRY_API size_t ferry_error_index(void);

/**
 * Returns the status of `call` from the surrounding function if the call failed. The function
 * returns ferry_status. Variables that FERRY_SCOPED() of <ferry/scoped.h> declares are cleaned up.
 */
#define FERRY_CHECK(call)                                                                          \
    do {                                                                                           \
        const ferry_status ferry_check_status_ = (call);                                           \
        if (ferry_check_status_ != FERRY_OK)                                                       \
            return ferry_check_status_;                                                            \
    } while (0)

/** Stores the status of `call` in `status`, and jumps to `label` if the status is not FERRY_OK. */
#define FERRY_TRY(status, label, call)                                                             \
    do {                                                                                           \
        (status) = (call);                                                                         \
        if ((status) != FERRY_OK)                                                                  \
            goto label;                                                                            \
    } while (0)

/** Severity of a log message. */
typedef enum ferry_log_level {
    FERRY_LOG_ERROR = 1,   /**< a failure that no call returns as a status, such as a leak */
    FERRY_LOG_WARNING = 2, /**< a call succeeds, but not in the way that the program requested */
    FERRY_LOG_INFO = 3,    /**< a choice that Ferry makes once, such as that of the device */
    FERRY_LOG_DEBUG = 4    /**< details for debugging */
} ferry_log_level;

/**
 * @page callbacks Callbacks
 *
 * The library holds none of its locks while it calls a callback of the program. There are three
 * kinds of callbacks: watching, working, and restricted working callbacks. Each kind may call only
 * certain functions of the library. Any other call fails with FERRY_ERROR_INVALID_STATE, and
 * ferry_last_error() names the callback. A function without a status then logs an error, and leaves
 * its handle unchanged.
 *
 * Watching callbacks are ferry_log_callback, ferry_trace_callback, keep_going of
 * ferry_copy_options, ferry_convert_function, ferry_host_function, and both functions of
 * ferry_pool_backend. A watching callback runs inside another call, so it may do little more than
 * query. It may open and close scopes and leases, and allocate and free blocks of a pool. These
 * calls fail if they would have to copy, to wait, or to get memory from the device or the system.
 * It may also call:
 * - functions that return a name, a count, an address, an element type, a value, a state or a
 *   ferry_argument, instead of a status;
 * - ferry_last_error(), ferry_error_index(), ferry_kernel_cache_path();
 * - ferry_element_parse(), ferry_element_intern(), ferry_context_exchange_device();
 * - ferry_context_get_place_info(), ferry_context_get_transfer_stats(), ferry_context_retain();
 * - ferry_lease_retain(), ferry_lease_is_open(), ferry_buffer_retain();
 * - ferry_buffer_get_info(), ferry_buffer_describe(), ferry_buffer_is_current(),
 *   ferry_buffer_is_page_locked();
 * - ferry_buffer_destroy(), ferry_lease_destroy() and ferry_context_destroy(), if the object has
 *   other owners. "How a context ends" in docs/concepts.md says which callbacks may also be
 *   the last owner;
 * - ferry_event_progress(), ferry_event_cancel();
 * - functions that convert plain arrays, such as ferry_convert_int_to_float().
 *
 * Working callbacks are ferry_buffer_visit, ferry_block_visit, ferry_file_work, and keep_going of
 * ferry_file_pipeline_options. A working callback may call every function, with two exceptions: it
 * must not destroy a pool, and it must not remove the last owner of the context that the
 * surrounding call uses.
 *
 * Restricted working callbacks are on_release of ferry_wrap_options and ferry_pool_shortage. They
 * have the rules of working callbacks, and some more, because the surrounding call may be using
 * buffers and streams. The library refuses these calls too:
 * - a call that would have to wait for another call which uses the same bytes, or which is
 *   asynchronous and has not finished;
 * - destroying a stream or a kernel;
 * - destroying the last handle of a buffer that the surrounding call uses, or of a wrapped buffer
 *   that any call uses.
 *
 * A callback that runs inside another one has the restrictions of both. The restrictions apply to
 * the objects of every context, and only to the thread that runs the callback.
 */

/**
 * Receives a log message: one line without a newline, valid only during the call.
 *
 * The library may call this function on any thread. It is a watching callback: "Callbacks" in this
 * file lists what it may call. If one of those calls would log a message, that message is dropped.
 */
typedef void ferry_log_callback(ferry_log_level level, const char *message, void *user);

FERRY_END_DECLS

#endif
