/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stddef.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * Result of a call. The meaning of a value never changes. New values are added at the end.
 *
 * A call that fails writes no output and sets the message that ferry_last_error() returns. The
 * message says what was attempted, on what, with how many bytes or elements, and why it failed.
 */
typedef enum ferry_status {
    FERRY_OK = 0,                     /**< the call succeeded */
    FERRY_ERROR_INVALID_ARGUMENT = 1, /**< NULL, an empty handle, an unknown value, a write to
                                           read-only memory */
    FERRY_ERROR_OUT_OF_RANGE = 2,     /**< offset + count is past the end */
    FERRY_ERROR_OVERFLOW = 3,         /**< a size exceeds size_t or the context's limit */
    FERRY_ERROR_OUT_OF_MEMORY = 4,    /**< the place has no memory left, even after eviction */
    FERRY_ERROR_CONFLICT = 5,         /**< bytes that the program marks as newest are newer at
                                           another place or have no replica, or memory is registered
                                           already; nothing changed */
    FERRY_ERROR_BUSY = 6,             /**< in use: most often, an open scope uses the same bytes,
                                           and that scope or the new access writes */
    FERRY_ERROR_WRONG_TYPE = 7,       /**< the caller's element type is not that of the buffer */
    FERRY_ERROR_WRONG_CONTEXT = 8,    /**< the objects of the call, such as a buffer and a stream,
                                           belong to different contexts */
    FERRY_ERROR_INVALID_STATE = 9,    /**< the call is not possible now: the object is held,
                                           borrowed or viewed, its context was destroyed, or a
                                           callback may not make the call */
    FERRY_ERROR_UNSUPPORTED = 10,     /**< this device, driver or build cannot do it */
    FERRY_ERROR_NO_DEVICE = 11,       /**< the requested device is absent */
    FERRY_ERROR_DEVICE = 12,          /**< a driver call failed; the message has the driver's
                                           reason */
    FERRY_ERROR_DEVICE_LOST = 13,     /**< the device failed; bytes that no other place holds are
                                           lost */
    FERRY_ERROR_COMPILE = 14,         /**< kernel source did not compile; the message has the log */
    FERRY_ERROR_IO = 15,              /**< a file could not be read or written */
    FERRY_ERROR_CANCELLED = 16        /**< the caller cancelled the call */
} ferry_status;

/**
 * Returns the constant's name, such as "FERRY_ERROR_BUSY".
 * @return a constant string; "unknown status" for other values, never NULL. Threads: any.
 */
FERRY_API const char *ferry_status_name(ferry_status status);

/**
 * Returns the message of this thread's last failing call; "" before the first failure.
 *
 * The library owns the string. It is valid until this thread's next failing call. A successful call
 * leaves it unchanged. When there was not enough memory to store the message, the string says so.
 * @return the message, never NULL. Threads: each thread has its own.
 */
FERRY_API const char *ferry_last_error(void);

/**
 * Returns the index of the first element that did not fit, after a conversion with
 * FERRY_CONVERT_CHECK failed on this thread.
 * @return the index; (size_t)-1 when this thread's last failing call was no such conversion.
 * Threads: each thread has its own.
 */
FERRY_API size_t ferry_error_index(void);

/** Stores the status of `call` in `status`, and jumps to `label` if the status is not FERRY_OK. */
#define FERRY_TRY(status, label, call)   \
    do {                                 \
        (status) = (call);               \
        if ((status) != FERRY_OK)        \
            goto label;                  \
    } while (0)

/** Severity of a log message. */
typedef enum ferry_log_level {
    FERRY_LOG_ERROR = 1,   /**< a failure that no call can return, such as a leak */
    FERRY_LOG_WARNING = 2, /**< a call works, but not in the way that was requested */
    FERRY_LOG_INFO = 3,    /**< choices that Ferry makes once, such as the device */
    FERRY_LOG_DEBUG = 4    /**< details for debugging */
} ferry_log_level;

/**
 * @page callbacks Callbacks
 *
 * The library holds none of its locks while it calls a callback of the program. There are three
 * kinds of callbacks. Each kind may call certain functions of the library. The library refuses any
 * other function with FERRY_ERROR_INVALID_STATE, and ferry_last_error() names the callback. A
 * refused function that returns no status logs the refusal and leaves its handle unchanged.
 *
 * Watching callbacks are ferry_log_callback, ferry_trace_callback, keep_going of
 * ferry_copy_options, ferry_convert_function, ferry_host_function, and both functions of
 * ferry_pool_backend. A watching callback runs inside another call and may only query. It may open
 * and close scopes and leases, and allocate and free blocks of a pool, when nothing must be copied,
 * waited for or allocated from the device or the system. It may also call:
 * - functions whose return value is a name, a count, an address, an element, a value, a state or a
 *   ferry_argument;
 * - ferry_last_error(), ferry_error_index(), ferry_kernel_cache_path();
 * - ferry_element_parse(), ferry_element_intern(), ferry_context_exchange_device();
 * - ferry_context_get_place_info(), ferry_context_get_transfer_stats(), ferry_context_retain();
 * - ferry_lease_retain(), ferry_lease_is_open(), ferry_buffer_retain();
 * - ferry_buffer_get_info(), ferry_buffer_describe(), ferry_buffer_is_current(),
 *   ferry_buffer_is_page_locked();
 * - ferry_buffer_destroy(), ferry_lease_destroy() and ferry_context_destroy() of an object that has
 *   other owners. ferry_context_destroy() says where the last owner may be a callback;
 * - ferry_event_progress(), ferry_event_cancel();
 * - conversions of arrays, as by ferry_conversion_run().
 *
 * Working callbacks are ferry_buffer_visit, ferry_block_visit, ferry_file_work, and keep_going of
 * ferry_file_pipeline_options. A working callback may call every function, but must not destroy a
 * pool, or be the last owner of the context that the call around it works on.
 *
 * Restricted working callbacks are on_release of ferry_wrap_options and ferry_pool_shortage. They
 * are working callbacks that may do less, because the call around them may be using buffers and
 * streams. The library also refuses:
 * - a call that would have to wait for another call, because that one uses the same bytes, or is
 *   asynchronous and has not finished;
 * - destroying a stream or a kernel;
 * - destroying the last handle of a buffer that the call around the callback uses, or of a wrapped
 *   buffer that any call uses.
 *
 * A callback that runs inside another one has the restrictions of both. The restrictions apply to
 * the objects of every context, and only to the thread that runs the callback.
 */

/**
 * Receives a log message: one line without a newline, valid only during the call.
 *
 * The library may call it on any thread. It is a watching callback, see "Callbacks" in this file.
 * When a call that it makes would log a message, that message is dropped.
 */
typedef void ferry_log_callback(ferry_log_level level, const char *message, void *user);

FERRY_END_DECLS

#endif
