/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stddef.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * Result of a call. Values keep their meaning; new ones are added at the end.
 *
 * A call that fails writes no output, and ferry_last_error() says what it attempted, on what, and
 * why it failed.
 */
typedef enum ferry_status {
    FERRY_OK = 0,                     /**< the call succeeded */
    FERRY_ERROR_INVALID_ARGUMENT = 1, /**< an argument is NULL, an empty handle, an unknown value,
                                         or read-only */
    FERRY_ERROR_OUT_OF_RANGE = 2,     /**< the range ends after the end of the buffer, a value does
                                           not fit, or an output is too small */
    FERRY_ERROR_OVERFLOW = 3,         /**< a size exceeds size_t or the context's limit */
    FERRY_ERROR_OUT_OF_MEMORY = 4,    /**< the place has no memory left, even after eviction */
    FERRY_ERROR_CONFLICT = 5,         /**< bytes are marked where there is no replica, or while they
                                           are newer elsewhere; or memory is already registered */
    FERRY_ERROR_BUSY = 6,          /**< the object is in use: an open scope uses the bytes, and it
                                        or the call writes them; or a callback cannot wait */
    FERRY_ERROR_WRONG_TYPE = 7,    /**< the element type is not that of the buffer */
    FERRY_ERROR_WRONG_CONTEXT = 8, /**< the objects of the call belong to different contexts */
    FERRY_ERROR_INVALID_STATE = 9, /**< the object is held, wraps memory or has views; its context
                                        was destroyed; or a callback may not make the call */
    FERRY_ERROR_UNSUPPORTED = 10,  /**< this device, driver or build cannot do it */
    FERRY_ERROR_NO_DEVICE = 11,    /**< the requested device is absent */
    FERRY_ERROR_DEVICE = 12,       /**< a driver call failed; the message has its reason */
    FERRY_ERROR_DEVICE_LOST = 13,  /**< the device failed; bytes that only it held are lost */
    FERRY_ERROR_COMPILE = 14,      /**< kernel source did not compile; the message has the log */
    FERRY_ERROR_IO = 15,           /**< a file could not be read or written */
    FERRY_ERROR_CANCELLED = 16     /**< the caller cancelled the call */
} ferry_status;

/**
 * Returns the name of a status, such as "FERRY_ERROR_BUSY"; "unknown status" for other values. The
 * string is constant. Threads: any.
 */
FERRY_API const char *ferry_status_name(ferry_status status);

/**
 * Returns the message of this thread's last failing call; "" before the first failure. Never NULL.
 *
 * The library owns the string, which is valid until this thread's next failing call. Without memory
 * for the message, it says so. Threads: each has its own.
 */
FERRY_API const char *ferry_last_error(void);

/**
 * Returns the index of the first element that did not fit, if this thread's last failing call was a
 * conversion with FERRY_CONVERT_CHECK; otherwise (size_t)-1. Threads: each has its own.
 */
FERRY_API size_t ferry_error_index(void);

/**
 * Returns the status of `call` from the surrounding function, which returns a ferry_status, if the
 * call failed. Variables of FERRY_SCOPED() in <ferry/scoped.h> are cleaned up.
 */
#define FERRY_CHECK(call)                                                                          \
    do {                                                                                           \
        const ferry_status ferry_check_status_ = (call);                                           \
        if (ferry_check_status_ != FERRY_OK)                                                       \
            return ferry_check_status_;                                                            \
    } while (0)

/** Stores the status of `call` in `status`, and jumps to `label` if the call failed. */
#define FERRY_TRY(status, label, call)                                                             \
    do {                                                                                           \
        (status) = (call);                                                                         \
        if ((status) != FERRY_OK)                                                                  \
            goto label;                                                                            \
    } while (0)

/** Severity of a log message. */
typedef enum ferry_log_level {
    FERRY_LOG_ERROR = 1,   /**< a failure that no call returns */
    FERRY_LOG_WARNING = 2, /**< a call succeeds, but not as requested */
    FERRY_LOG_INFO = 3,    /**< a choice made once, such as that of the device */
    FERRY_LOG_DEBUG = 4    /**< details for debugging */
} ferry_log_level;

/**
 * @page callbacks Callbacks
 *
 * The library holds none of its locks while it calls a callback of the program. The rules below
 * hold on the thread of the callback, for objects of every context. docs/concepts.md explains them.
 *
 * Watching callbacks are ferry_log_callback, ferry_trace_callback, keep_going of
 * ferry_copy_options, ferry_convert_function, ferry_host_function, ferry_part_function, and both
 * functions of ferry_pool_backend. They may query, convert plain arrays, and add and remove owners
 * except the last. They may also open and close scopes and leases, and allocate and free blocks, if
 * this requires no copy, wait or new memory. Any other call fails with FERRY_ERROR_INVALID_STATE.
 * So do calls in callbacks inside a watching callback.
 *
 * Working callbacks are ferry_buffer_visit, ferry_block_visit, ferry_file_work, keep_going of
 * ferry_file_pipeline_options, on_release of ferry_wrap_options, and ferry_pool_shortage. They may
 * make every call. A call fails with FERRY_ERROR_BUSY at once if it would wait for the surrounding
 * call or for another call inside a working callback, or would destroy what the surrounding call
 * uses. In on_release and ferry_pool_shortage, every stream and kernel counts as used.
 *
 * The message of a failure names the callback. A function without a status logs it, and leaves its
 * handle unchanged.
 */

/**
 * Receives a log message, one line without a newline, which is valid only during the call. A
 * watching callback, on any thread. Messages of calls inside it are dropped.
 */
typedef void ferry_log_callback(ferry_log_level level, const char *message, void *user);

FERRY_END_DECLS

#endif
