/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stddef.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * Result of a call. Values are final; new ones are added at the end.
 *
 * A call that fails writes no output. It sets the message of ferry_last_error(). The message says
 * what was attempted, on what, with how many bytes or elements, and why it failed.
 */
typedef enum ferry_status {
    FERRY_OK = 0,
    FERRY_ERROR_INVALID_ARGUMENT = 1, /**< NULL, an empty handle, an unknown value, a write to
                                           read-only memory */
    FERRY_ERROR_OUT_OF_RANGE = 2,     /**< offset + count is past the end */
    FERRY_ERROR_OVERFLOW = 3,         /**< a size exceeds size_t or the context's limit */
    FERRY_ERROR_OUT_OF_MEMORY = 4,    /**< the place has no memory left, even after eviction */
    FERRY_ERROR_CONFLICT = 5,         /**< two places would both hold the newest bytes; nothing
                                           changed */
    FERRY_ERROR_BUSY = 6,             /**< an open scope overlaps, and one of the two writes */
    FERRY_ERROR_WRONG_TYPE = 7,       /**< the element's content differs from the buffer's */
    FERRY_ERROR_WRONG_CONTEXT = 8,    /**< buffer, stream or kernel belong to different contexts */
    FERRY_ERROR_INVALID_STATE = 9,    /**< the object cannot do this now: it is held, borrowed or
                                           viewed, or its context was destroyed */
    FERRY_ERROR_UNSUPPORTED = 10,     /**< this device, driver or build cannot do it */
    FERRY_ERROR_NO_DEVICE = 11,       /**< the requested device is absent */
    FERRY_ERROR_DEVICE = 12,          /**< the driver refused a call; the message has its reason */
    FERRY_ERROR_DEVICE_LOST = 13,     /**< the device failed; bytes that only it held are lost */
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
 * leaves it unchanged. When no memory was left to keep the message, the string says so.
 * @return the message, never NULL. Threads: each thread has its own.
 */
FERRY_API const char *ferry_last_error(void);

/**
 * Returns the index, in elements, of the first element that a FERRY_CONVERT_CHECK conversion
 * rejected in this thread.
 * @return the index; (size_t)-1 when this thread's last failing call was not such a conversion.
 * Threads: each thread has its own.
 */
FERRY_API size_t ferry_error_index(void);

/** Stores the status of `call` in `status` and jumps to `label` unless it is FERRY_OK. */
#define FERRY_TRY(status, label, call)   \
    do {                                 \
        (status) = (call);               \
        if ((status) != FERRY_OK)        \
            goto label;                  \
    } while (0)

/** Severity of a log message. */
typedef enum ferry_log_level {
    FERRY_LOG_ERROR = 1,   /**< a loss or a leak that no call can return */
    FERRY_LOG_WARNING = 2, /**< it works, but not as requested */
    FERRY_LOG_INFO = 3,    /**< choices made once, such as the device */
    FERRY_LOG_DEBUG = 4    /**< details for debugging */
} ferry_log_level;

/**
 * @page callbacks Callbacks
 *
 * The library calls functions of the program. It holds none of its locks during such a call. What a
 * callback may call depends on its sort, below. Every other function fails with
 * FERRY_ERROR_INVALID_STATE, and ferry_last_error() names the callback. A function that returns no
 * status logs the refusal and leaves the handle unchanged.
 *
 * - A watching callback runs inside another call and may only query. These functions work in it:
 *   - those that return a name, a count, an address, an element, a value, a state or an argument;
 *   - ferry_last_error(), ferry_error_index(), ferry_kernel_cache_path();
 *   - ferry_element_parse(), ferry_element_intern(), ferry_context_exchange_device();
 *   - ferry_context_get_place_info(), ferry_context_get_transfer_stats(), ferry_context_retain();
 *   - ferry_lease_retain(), ferry_lease_is_open(), ferry_lease_destroy() of a lease that has other
 *     owners;
 *   - ferry_context_destroy() of a context that has other owners. <ferry/context.h> says where the
 *     last owner may be a callback;
 *   - ferry_buffer_get_info(), ferry_buffer_describe(), ferry_buffer_is_current(),
 *     ferry_buffer_is_page_locked(), ferry_buffer_retain();
 *   - ferry_buffer_destroy() of a handle that has other owners;
 *   - ferry_event_progress(), ferry_event_cancel();
 *   - conversions of arrays.
 *   Opening and closing a scope or a lease works in it when nothing must be copied, waited for or
 *   allocated.
 *   The same holds for allocating and freeing blocks of a pool. Watching callbacks are
 *   ferry_log_callback, ferry_trace_callback, keep_going of ferry_copy_options,
 *   ferry_convert_function, ferry_host_function, and both functions of ferry_pool_backend.
 * - A working callback may call every function, but must not destroy a pool, or be the last owner
 *   of the context that the call around it works on. Working callbacks are ferry_buffer_visit, ferry_block_visit, ferry_file_work, and keep_going of
 *   ferry_file_pipeline_options.
 * - on_release of ferry_wrap_options and ferry_pool_shortage are restricted working callbacks,
 *   because the call around them may be using buffers and streams:
 *   - They do not wait for another call: neither for one that uses the same bytes, nor for an
 *     asynchronous one that has not finished.
 *   - They do not destroy streams or kernels.
 *   - They cannot destroy the last handle of a buffer that the call around them uses. Nor
 *     can they destroy the last handle of a wrapped buffer that any call uses.
 *
 * A callback that runs inside another one has the restrictions of both. The restrictions apply to
 * the objects of every context, and only to the thread that runs the callback.
 */

/**
 * Receives a log message: one line without a newline, valid only during the call.
 *
 * It may run on any thread. It is a watching callback, see "Callbacks" in this file. Messages that
 * its own calls cause are dropped.
 */
typedef void ferry_log_callback(ferry_log_level level, const char *message, void *user);

FERRY_END_DECLS

#endif
