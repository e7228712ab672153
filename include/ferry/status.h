/* SPDX-License-Identifier: MIT */
#ifndef FERRY_STATUS_H
#define FERRY_STATUS_H

#include <stddef.h>

#include <ferry/export.h>

FERRY_BEGIN_DECLS

/**
 * What a call came to. Values are final; new ones are added at the end.
 *
 * A call that fails writes no output and leaves ferry_last_error() with one sentence that says what
 * was being done, to what, with how much, and why.
 */
typedef enum ferry_status {
    FERRY_OK = 0,
    FERRY_ERROR_INVALID_ARGUMENT = 1, /**< NULL, an empty handle, an unknown value, a write to read-only memory. */
    FERRY_ERROR_OUT_OF_RANGE = 2,     /**< offset + count reaches past the end. */
    FERRY_ERROR_OVERFLOW = 3,         /**< a size does not fit size_t, or exceeds the context's limit. */
    FERRY_ERROR_OUT_OF_MEMORY = 4,    /**< no memory at the place, after everything that can be given back was. */
    FERRY_ERROR_CONFLICT = 5,         /**< two places would both hold the newest bytes; nothing changed. */
    FERRY_ERROR_BUSY = 6,             /**< an open scope of the user overlaps and one of the two writes. */
    FERRY_ERROR_WRONG_TYPE = 7,       /**< the element differs in content from the buffer's. */
    FERRY_ERROR_WRONG_CONTEXT = 8,    /**< buffer, stream or kernel belong to different contexts. */
    FERRY_ERROR_INVALID_STATE = 9,    /**< the object cannot do this now: pinned, borrowed, viewed, or its context is gone. */
    FERRY_ERROR_UNSUPPORTED = 10,     /**< this device, driver or build cannot do it. */
    FERRY_ERROR_NO_DEVICE = 11,       /**< the device asked for is not there. */
    FERRY_ERROR_DEVICE = 12,          /**< the driver refused a call; the message has its own name for why. */
    FERRY_ERROR_DEVICE_LOST = 13,     /**< the device is gone, and what was only on it. */
    FERRY_ERROR_COMPILE = 14,         /**< kernel source did not compile; the message has the compiler's log. */
    FERRY_ERROR_IO = 15,              /**< a file could not be read or written. */
    FERRY_ERROR_CANCELLED = 16        /**< the caller cancelled it. */
} ferry_status;

/** The constant's name, such as "FERRY_ERROR_BUSY"; "unknown status" for other values. Never NULL. Threads: any. */
FERRY_API const char *ferry_status_name(ferry_status status);

/**
 * This thread's sentence about its last failing call; "" before the first failure. Where no memory was left to keep one, it says that.
 *
 * Owned by the library; valid until this thread's next failing call. Success does not clear it.
 * Threads: each thread has its own.
 */
FERRY_API const char *ferry_last_error(void);

/**
 * Index, in elements, of the first bad element after a FERRY_CONVERT_CHECK conversion failed in this
 * thread; (size_t)-1 when its last failing call was no such conversion. Threads: each has its own.
 */
FERRY_API size_t ferry_error_index(void);

/** `FERRY_TRY(status, fail, call)`: store the call's status and go to the label unless it is FERRY_OK. */
#define FERRY_TRY(status, label, call)   \
    do {                                 \
        (status) = (call);               \
        if ((status) != FERRY_OK)        \
            goto label;                  \
    } while (0)

/** How grave a log message is. */
typedef enum ferry_log_level {
    FERRY_LOG_ERROR = 1,   /**< something was lost or leaked, with no call to return it from */
    FERRY_LOG_WARNING = 2, /**< it works, but not as asked */
    FERRY_LOG_INFO = 3,    /**< choices made once, such as the device */
    FERRY_LOG_DEBUG = 4    /**< for those who look for a reason */
} ferry_log_level;

/**
 * @page callbacks Callbacks
 *
 * The library calls functions of the program, and holds no lock of its own meanwhile. What such a callback may call depends on
 * what the call around it does. Everything else fails with FERRY_ERROR_INVALID_STATE, and ferry_last_error() names the callback.
 * A function that returns no status reports the refusal to the log, and leaves the handle as it is.
 *
 * - A watching callback runs in the middle of another call, and may only ask. These functions work: those that return a name,
 *   a count, an address, an element, a value, a state or an argument; ferry_last_error(), ferry_error_index();
 *   ferry_context_place_info(), ferry_context_transfer_stats(); ferry_buffer_info_get(), ferry_buffer_describe(),
 *   ferry_buffer_is_current(), ferry_buffer_is_pinned(); ferry_buffer_retain(), and ferry_buffer_destroy() of a handle that has
 *   other owners; ferry_event_progress(), ferry_event_cancel(); conversions of arrays; ferry_kernel_cache_path(). Opening and
 *   closing scopes, and taking and giving back blocks of a pool, may work where nothing has to be moved, waited for or allocated.
 *   Watching callbacks are ferry_log_callback, ferry_trace_callback, keep_going of ferry_transfer_options,
 *   ferry_convert_function, ferry_host_body, and both functions of ferry_pool_backend.
 * - A working callback may call everything, except that it destroys no context and no pool. Working callbacks are
 *   ferry_buffer_visit, ferry_block_visit, ferry_file_work, and keep_going of ferry_stream_file_options.
 * - on_release of ferry_wrap_options and ferry_pool_shortage are working callbacks with less freedom, since the call around
 *   them may be using buffers and streams. They wait for no other call: neither for one that uses the same bytes, nor for an
 *   asynchronous one that has not ended. They destroy no streams and no kernels. They cannot end the last handle of a buffer
 *   or of a batch that the call around them uses, nor that of a wrap that any call uses.
 *
 * A callback that runs inside another one has the restrictions of both. They hold for the objects of every context, and for the
 * thread that runs the callback only.
 */

/**
 * Receives log messages: one line, no newline, valid during the call. It may run on any thread. A watching callback, see "Callbacks";
 * messages about what it calls itself are dropped.
 */
typedef void ferry_log_callback(ferry_log_level level, const char *message, void *user);

FERRY_END_DECLS

#endif
