/* SPDX-License-Identifier: MIT */
#ifndef FERRY_FERRY_HPP
#define FERRY_FERRY_HPP

/**
 * @file
 * Ferry for C++17 and newer: classes that own the objects of the C API, and exceptions instead of
 * statuses.
 *
 * A program also includes the generated header of each element type that it uses:
 * ferry::buffer<float> needs <ferry/float.h>, and a buffer of a struct that the program defines
 * needs the header that ferry-gen generated for it.
 *
 * - Classes that own a C object have `raw()`, which returns the C handle, and `detach()`, which
 *   returns it and gives up ownership. The classes buffer, context, stream and event have
 *   `adopt()`, which takes ownership of a C handle. A program passes `raw()` to C functions that
 *   this file has no C++ function for.
 * - Objects of these classes can be moved, but not copied. Only a context and a lease can also be
 *   copied, and each copy is one more owner.
 * - A view is an open scope, whose pointer may be used while the view exists. A view can be neither
 *   copied nor moved.
 * - A call that fails throws ferry::error or a class derived from it. It changes nothing, unless
 *   the comment of the C function says otherwise. Destructors do not throw.
 * - A program that must not use exceptions uses the C API.
 *
 * Threads: any thread may call any function, as in the C API. One C++ object, such as a
 * ferry::buffer, may be used by several threads at the same time while none of them moves, assigns
 * or destroys it.
 */

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "<ferry/ferry.hpp> needs C++17."
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <ferry/buffer.h>
#include <ferry/context.h>
#include <ferry/copy.h>
#include <ferry/element.h>
#include <ferry/generated.h>
#include <ferry/graph.h>
#include <ferry/kernel.h>
#include <ferry/lease.h>
#include <ferry/scope.h>
#include <ferry/share.h>
#include <ferry/status.h>
#include <ferry/stream.h>

#if defined(__ELF__) && (defined(__GLIBCXX__) || defined(_LIBCPP_VERSION))
#include <cxxabi.h>
#define FERRYI_CPP_KNOWS_EXCEPTIONS
#endif

#if defined(__GNUC__) || defined(__clang__)
#define FERRYI_CPP_COLD __attribute__((cold, noinline))
#define FERRYI_CPP_VISIBLE __attribute__((visibility("default")))
#define FERRYI_CPP_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#else
#define FERRYI_CPP_COLD
#define FERRYI_CPP_VISIBLE
#define FERRYI_CPP_LIKELY(condition) (condition)
#endif

namespace ferry
{

/** Passed as a count, it means every element from the offset to the end of the buffer or view. */
inline constexpr std::size_t rest = FERRY_REST;

template <class T> class buffer;
template <class T> class buffer<const T>;
template <class T> class lease;
class event;
class stream;

/* -- errors ---------------------------------------------------------------------------------------- */

/** Thrown when a call of Ferry fails. what() returns the message of ferry_last_error(). */
class FERRYI_CPP_VISIBLE error : public std::runtime_error
{
  public:
    /** Makes an exception of a status, a message, and the index of a rejected element. */
    explicit error(ferry_status status, const char *message, std::size_t index = static_cast<std::size_t>(-1))
        : std::runtime_error(message), status_(status), index_(index)
    {
    }

    /** Returns the status of the call that failed. */
    ferry_status
    status() const noexcept
    {
        return status_;
    }

    /**
     * Returns the index of the element that FERRY_CONVERT_CHECK rejected, as ferry_error_index()
     * does; SIZE_MAX if the failure was anything else.
     */
    std::size_t
    index() const noexcept
    {
        return index_;
    }

  private:
    ferry_status status_;
    std::size_t index_;
};

/** The exception for one status, so that a program can catch failures with that status only. */
template <ferry_status Status> class FERRYI_CPP_VISIBLE status_error : public error
{
  public:
    /** Makes the exception of the status with a message. */
    explicit status_error(const char *message, std::size_t index = static_cast<std::size_t>(-1)) : error(Status, message, index)
    {
    }
};

/** The exceptions of the statuses, by name. */
using invalid_argument = status_error<FERRY_ERROR_INVALID_ARGUMENT>;
using out_of_range = status_error<FERRY_ERROR_OUT_OF_RANGE>;
using overflow = status_error<FERRY_ERROR_OVERFLOW>;
using out_of_memory = status_error<FERRY_ERROR_OUT_OF_MEMORY>; /**< does not derive from
                                                                    std::bad_alloc */
using conflict = status_error<FERRY_ERROR_CONFLICT>;
using busy = status_error<FERRY_ERROR_BUSY>;
using wrong_type = status_error<FERRY_ERROR_WRONG_TYPE>;
using wrong_context = status_error<FERRY_ERROR_WRONG_CONTEXT>;
using invalid_state = status_error<FERRY_ERROR_INVALID_STATE>;
using unsupported = status_error<FERRY_ERROR_UNSUPPORTED>;
using no_device = status_error<FERRY_ERROR_NO_DEVICE>;
using device_error = status_error<FERRY_ERROR_DEVICE>;
using device_lost = status_error<FERRY_ERROR_DEVICE_LOST>;
using compile_error = status_error<FERRY_ERROR_COMPILE>;
using io_error = status_error<FERRY_ERROR_IO>;
using cancelled = status_error<FERRY_ERROR_CANCELLED>;

/** Throws the exception for `status`, with the message of this thread's last failing call. */
[[noreturn]] FERRYI_CPP_COLD inline void
throw_error(ferry_status status)
{
    const char *message = ferry_last_error();
    const std::size_t index = ferry_error_index();

    switch (status) {
    case FERRY_ERROR_INVALID_ARGUMENT:
        throw invalid_argument(message, index);
    case FERRY_ERROR_OUT_OF_RANGE:
        throw out_of_range(message, index);
    case FERRY_ERROR_OVERFLOW:
        throw overflow(message, index);
    case FERRY_ERROR_OUT_OF_MEMORY:
        throw out_of_memory(message, index);
    case FERRY_ERROR_CONFLICT:
        throw conflict(message, index);
    case FERRY_ERROR_BUSY:
        throw busy(message, index);
    case FERRY_ERROR_WRONG_TYPE:
        throw wrong_type(message, index);
    case FERRY_ERROR_WRONG_CONTEXT:
        throw wrong_context(message, index);
    case FERRY_ERROR_INVALID_STATE:
        throw invalid_state(message, index);
    case FERRY_ERROR_UNSUPPORTED:
        throw unsupported(message, index);
    case FERRY_ERROR_NO_DEVICE:
        throw no_device(message, index);
    case FERRY_ERROR_DEVICE:
        throw device_error(message, index);
    case FERRY_ERROR_DEVICE_LOST:
        throw device_lost(message, index);
    case FERRY_ERROR_COMPILE:
        throw compile_error(message, index);
    case FERRY_ERROR_IO:
        throw io_error(message, index);
    case FERRY_ERROR_CANCELLED:
        throw cancelled(message, index);
    case FERRY_OK:
        break;
    }
    throw error(status, message, index);
}

/** Throws an exception if `status`, which a function of the C API returned, is not FERRY_OK. */
inline void
check(ferry_status status)
{
    if (!FERRYI_CPP_LIKELY(status == FERRY_OK))
        throw_error(status);
}

/* -- elements and spans ---------------------------------------------------------------------------- */

namespace detail
{

template <class T, class = void> inline constexpr bool has_element = false;
template <class T> inline constexpr bool has_element<T, std::void_t<decltype(sizeof(element_of<T>))>> = true;

/** Owns an object of the C API, and destroys it in its destructor. */
template <class Raw, void (*Destroy)(Raw **)> class owner
{
  public:
    owner() noexcept = default;
    explicit owner(Raw *raw) noexcept : raw_(raw)
    {
    }
    owner(owner &&other) noexcept : raw_(other.detach())
    {
    }
    owner &
    operator=(owner &&other) noexcept
    {
        Raw *raw = other.detach();
        Destroy(&raw_);
        raw_ = raw;
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner()
    {
        if (raw_ != nullptr)
            Destroy(&raw_);
    }

    /** Returns the C handle, which this object still owns; NULL when the object is empty. */
    Raw *
    raw() const noexcept
    {
        return raw_;
    }

    /**
     * Returns the C handle and gives up its ownership: the caller owns it, and this object is
     * empty.
     */
    Raw *
    detach() noexcept
    {
        return std::exchange(raw_, nullptr);
    }

    explicit operator bool() const noexcept
    {
        return raw_ != nullptr;
    }

  protected:
    Raw *raw_ = nullptr;
};

} // namespace detail

/** Returns the description of the element type T. */
template <class T>
inline const ferry_element *
element() noexcept
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied between devices as bytes");
    static_assert(detail::has_element<T>, "include the header that ferry-gen wrote for this element, such as <ferry/float.h>");
    return element_of<T>::get();
}

namespace detail
{

/*
 * Recognizes classes that own no elements, such as std::span: data() of a const object returns the
 * same, and there is no destructor.
 */
template <class Container, class = void> inline constexpr bool owns_nothing = false;
template <class Container>
inline constexpr bool owns_nothing<
    Container, std::enable_if_t<std::is_same_v<decltype(std::declval<Container &>().data()), decltype(std::declval<const Container &>().data())>>> =
    std::is_trivially_destructible_v<Container>;

/* Whether the elements remain when the expression of this type ends. */
template <class Container>
inline constexpr bool is_lasting =
    std::is_lvalue_reference_v<Container> || owns_nothing<std::remove_cv_t<std::remove_reference_t<Container>>>;

} // namespace detail

/**
 * A pointer and a number of elements, like std::span of C++20. Ferry has its own class, so that
 * C++17 programs use the same type. A std::span converts to it, and it converts to a std::span.
 */
template <class T> class span
{
  public:
    /** The type of the elements, which may be const. */
    using element_type = T;
    /** The type of the elements without const. */
    using value_type = std::remove_cv_t<T>;
    /** A pointer to an element. */
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <std::size_t Size> constexpr span(T (&array)[Size]) noexcept : data_(array), size_(Size)
    {
    }
    /**
     * Creates a span over any object with data() and size(), such as a std::vector, std::array,
     * std::span or host_view. As with std::span, a temporary that owns its elements becomes a span
     * of const elements only, which the called function must not keep.
     */
    template <class Container, class Element = std::remove_pointer_t<decltype(std::declval<Container &>().data())>,
              class = std::enable_if_t<std::is_convertible_v<Element (*)[], T (*)[]>>,
              class = decltype(static_cast<std::size_t>(std::declval<Container &>().size())),
              class = std::enable_if_t<std::is_const_v<T> || detail::is_lasting<Container>>>
    constexpr span(Container &&container) noexcept : data_(container.data()), size_(container.size())
    {
    }

    /** Returns the address of the first element. */
    constexpr T *
    data() const noexcept
    {
        return data_;
    }
    /** Returns the number of elements. */
    constexpr std::size_t
    size() const noexcept
    {
        return size_;
    }
    /** Returns whether there are no elements. */
    constexpr bool
    empty() const noexcept
    {
        return size_ == 0;
    }
    /** Returns the begin of the elements. */
    constexpr T *
    begin() const noexcept
    {
        return data_;
    }
    /** Returns the end of the elements. */
    constexpr T *
    end() const noexcept
    {
        return data_ + size_;
    }
    /** Returns one element. Does not check the index. */
    constexpr T &
    operator[](std::size_t index) const noexcept
    {
        return data_[index];
    }
    /**
     * Returns the span of `count` elements that starts at element `offset`. Does not check the
     * range.
     */
    constexpr span
    subspan(std::size_t offset, std::size_t count = rest) const noexcept
    {
        return span(data_ + offset, count == rest ? size_ - offset : count);
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* -- streams and events ---------------------------------------------------------------------------- */

/**
 * An event completes when a stream has reached a certain point, or when an asynchronous copy has
 * ended.
 */
class event : public detail::owner<ferry_event, ferry_event_destroy>
{
  public:
    struct progress_counts {
        /** Bytes that are done. */
        std::size_t done, total; /**< bytes */
    };

    /** Makes an empty event. */
    event() noexcept = default;
    /** Takes ownership of a C handle, and returns the object that owns it. */
    static event
    adopt(ferry_event *raw) noexcept
    {
        return event(raw);
    }

    /**
     * Blocks until the event has completed. If its asynchronous call failed, throws the exception
     * of that failure.
     */
    void
    synchronize() const
    {
        check(ferry_event_synchronize(raw_));
    }
    /**
     * Returns true if the event has completed, else false. If its asynchronous call failed, throws
     * the exception of that failure.
     */
    bool
    is_done() const
    {
        bool done = false;
        check(ferry_event_query(raw_, &done));
        return done;
    }
    /** Asks the call of this event to stop. */
    void
    cancel() const
    {
        check(ferry_event_cancel(raw_));
    }
    /** Returns how many bytes of the call are done. */
    progress_counts
    progress() const
    {
        progress_counts counts = {0, 0};
        check(ferry_event_progress(raw_, &counts.done, &counts.total));
        return counts;
    }
    /**
     * Returns the time between two timed events of one device, in seconds. Blocks until both have
     * completed.
     */
    static double
    elapsed(const event &begin, const event &end)
    {
        double seconds = 0;
        check(ferry_event_elapsed(begin.raw_, end.raw_, &seconds));
        return seconds;
    }

  private:
    using owner::owner;
};

/**
 * A stream that this object does not own. Functions that use a stream take a parameter of this
 * type. An empty stream_ref has the meaning that NULL has for the C function.
 */
class stream_ref
{
  public:
    /** Refers to a stream; nullptr is the default stream of a context with one device. */
    stream_ref(std::nullptr_t = nullptr) noexcept
    {
    }
    stream_ref(ferry_stream *raw) noexcept : raw_(raw)
    {
    }
    inline stream_ref(const stream &owning) noexcept;

    /** Returns the handle of the C API. */
    ferry_stream *
    raw() const noexcept
    {
        return raw_;
    }
    /** Returns the native stream, on CUDA a CUstream. */
    void *
    native() const noexcept
    {
        return ferry_stream_native(raw_);
    }
    /** Returns the place of the stream's device. */
    int
    place() const noexcept
    {
        return ferry_stream_place(raw_);
    }
    /**
     * Blocks until all queued work of the stream has completed. If that work failed, throws an
     * exception, once for each failure.
     */
    void
    synchronize() const
    {
        check(ferry_stream_synchronize(raw_));
    }
    /** Records now the events that Ferry would record at the next need. */
    void
    flush() const
    {
        check(ferry_stream_flush(raw_));
    }
    /**
     * Makes work that is queued on the stream later wait for the event, see
     * ferry_stream_wait_event().
     */
    void
    wait(const event &point) const
    {
        check(ferry_stream_wait_event(raw_, point.raw()));
    }
    /**
     * Returns an event, which completes when all work that is now queued on the stream has
     * completed. `flags` is 0 or FERRY_EVENT_TIMED.
     */
    event
    record(std::uint32_t flags = 0) const
    {
        ferry_event *point = nullptr;
        check(ferry_stream_record(raw_, flags, &point));
        return event::adopt(point);
    }

  private:
    ferry_stream *raw_ = nullptr;
};

/* -- contexts -------------------------------------------------------------------------------------- */

/**
 * An owner of a context. Each copy of the object is one more owner. The last owner destroys the
 * context.
 */
class context : public detail::owner<ferry_context, ferry_context_destroy>
{
  public:
    /**
     * Opens the devices that `devices` lists, such as "emulated:2". NULL means the devices that the
     * environment variable FERRY_DEVICE lists, or if it is not set, the best device.
     */
    explicit context(const char *devices = nullptr)
    {
        ferry_context_options options = {};
        options.devices = devices;
        check(ferry_context_create(&options, &raw_));
    }
    explicit context(const ferry_context_options &options)
    {
        check(ferry_context_create(&options, &raw_));
    }
    /**
     * Returns one more owner of the context that the whole process shares, see
     * ferry_context_shared().
     */
    static context
    shared()
    {
        ferry_context *raw = nullptr;
        check(ferry_context_shared(&raw));
        return adopt(raw);
    }
    /** Takes ownership of a C handle, and returns the object that owns it. */
    static context
    adopt(ferry_context *raw) noexcept
    {
        return context(owner(raw));
    }
    context(context &&) noexcept = default;
    /** Takes or shares the ownership of another context. */
    context &operator=(context &&) noexcept = default;
    context(const context &other) noexcept : owner(ferry_context_retain(other.raw_))
    {
    }
    context &
    operator=(const context &other) noexcept
    {
        return *this = context(other);
    }
    /** Removes this owner. The last one ends the context. */
    ~context() = default;

    /** Returns the number of devices, whose places are 1 to that number. */
    int
    place_count() const noexcept
    {
        return ferry_context_place_count(raw_);
    }
    /** Returns the default stream of a device. */
    stream_ref
    default_stream(int place = 1) const noexcept
    {
        return stream_ref(ferry_context_stream(raw_, place));
    }
    /** Returns what a place is: its kind, its name and what it can do. */
    ferry_place_info
    place_info(int place) const
    {
        ferry_place_info info = {};
        check(ferry_context_get_place_info(raw_, place, &info));
        return info;
    }
    /** Returns how much memory a place has and how much of it is used. */
    ferry_memory_info
    memory_info(int place) const
    {
        ferry_memory_info info = {};
        check(ferry_context_get_memory_info(raw_, place, &info));
        return info;
    }
    /** Returns the copies and bytes since reset_stats(). */
    ferry_transfer_stats
    transfer_stats() const
    {
        ferry_transfer_stats stats = {};
        check(ferry_context_get_transfer_stats(raw_, &stats));
        return stats;
    }
    /** Writes what memory the context holds to a file, see ferry_context_snapshot(). */
    void
    snapshot(const char *path) const
    {
        check(ferry_context_snapshot(raw_, path));
    }
    /** Sets the counters of transfers, buffers and pools to zero. */
    void
    reset_stats() const
    {
        check(ferry_context_reset_stats(raw_));
    }
    /** Returns text that shows what uses the context's memory, see ferry_context_describe(). */
    std::string
    describe() const
    {
        std::string text(ferry_context_describe(raw_, nullptr, 0) + 1024, '\0');
        const std::size_t length = ferry_context_describe(raw_, &text[0], text.size());
        text.resize(length < text.size() ? length : text.size() - 1);
        return text;
    }

  private:
    explicit context(owner &&other) noexcept : owner(std::move(other))
    {
    }
};

/** A stream that the program owns. The program destroys it before its context. */
class stream : public detail::owner<ferry_stream, ferry_stream_destroy>
{
  public:
    /** Creates a stream of a device; without arguments, an empty one. */
    stream() noexcept = default;
    explicit stream(const context &devices, int place = 1)
    {
        check(ferry_stream_create(devices.raw(), place, &raw_));
    }
    /** Returns a stream for a native stream, which must exist as long as the result. */
    static stream
    wrap(const context &devices, int place, void *native)
    {
        stream wrapped;
        check(ferry_stream_wrap(devices.raw(), place, native, &wrapped.raw_));
        return wrapped;
    }
    /** Takes ownership of a C handle, and returns the object that owns it. */
    static stream
    adopt(ferry_stream *raw) noexcept
    {
        return stream(owner(raw));
    }

    /** Waits until all work of the stream is done. */
    void
    synchronize() const
    {
        stream_ref(raw_).synchronize();
    }
    /** Records now the events that Ferry would record at the next need. */
    void
    flush() const
    {
        stream_ref(raw_).flush();
    }
    /** Makes later work of the stream wait for the event. */
    void
    wait(const event &point) const
    {
        stream_ref(raw_).wait(point);
    }
    /** Returns an event at this point of the stream; with FERRY_EVENT_TIMED it has a time. */
    event
    record(std::uint32_t flags = 0) const
    {
        return stream_ref(raw_).record(flags);
    }
    /** Returns the CUDA stream; NULL on other devices. */
    void *
    native() const noexcept
    {
        return ferry_stream_native(raw_);
    }
    /** Returns the place of the stream's device. */
    int
    place() const noexcept
    {
        return ferry_stream_place(raw_);
    }

  private:
    explicit stream(owner &&other) noexcept : owner(std::move(other))
    {
    }
};

/**
 * Work of a stream that was recorded once and is launched many times, see <ferry/graph.h>. The
 * constructor begins to record, and end() ends that.
 */
class graph : public detail::owner<ferry_graph, ferry_graph_destroy>
{
  public:
    /** Makes an empty graph. */
    graph() noexcept = default;
    /** Begins to record what is queued on the stream, instead of running it. */
    explicit graph(const stream &recorded, const char *name = nullptr)
    {
        ferry_graph_options options = {};
        options.name = name;
        check(ferry_graph_begin(recorded.raw(), &options, &raw_));
    }
    /** Takes ownership of a C handle, and returns the object that owns it. */
    static graph
    adopt(ferry_graph *raw) noexcept
    {
        return graph(owner(raw));
    }

    /** Ends the recording. The graph can be launched now. */
    void
    end() const
    {
        check(ferry_graph_end(raw_));
    }
    /** Queues all recorded work on a stream of the same place, and does not wait for it. */
    void
    launch(stream_ref on = {}) const
    {
        check(ferry_graph_launch(raw_, on.raw()));
    }

  private:
    explicit graph(owner &&other) noexcept : owner(std::move(other))
    {
    }
};

inline stream_ref::stream_ref(const stream &owning) noexcept : raw_(owning.raw())
{
}

/* -- views: scopes --------------------------------------------------------------------------------- */

namespace detail
{

#ifdef FERRYI_CPP_KNOWS_EXCEPTIONS
/*
 * Address at which the C++ library counts the exceptions of this thread. The C++ ABI defines the
 * layout: a pointer, and then the unsigned count. The variable is hidden, because another shared
 * object may use another C++ library.
 */
inline thread_local const char *exception_globals __attribute__((visibility("hidden"))) = nullptr;

/* Returns the same as std::uncaught_exceptions(), but calls no function after the first time. */
inline int
uncaught_exceptions() noexcept
{
    if (!FERRYI_CPP_LIKELY(exception_globals != nullptr))
        exception_globals = reinterpret_cast<const char *>(abi::__cxa_get_globals());
    unsigned int count = 0;
    std::memcpy(&count, exception_globals + sizeof(void *), sizeof(count));
    return static_cast<int>(count);
}
#else
inline int
uncaught_exceptions() noexcept
{
    return std::uncaught_exceptions();
}
#endif

/** Base class of host_view and device_view. */
template <class T> class view
{
  public:
    using element_type = T;
    using value_type = std::remove_const_t<T>;

    view(const view &) = delete;
    view &operator=(const view &) = delete;

    /**
     * Returns the number of elements; 0 after the view was closed. The first call may be slower,
     * because it may have to ask the library.
     */
    std::size_t
    size() const noexcept
    {
        if (data_ == nullptr)
            return 0;
        std::size_t count = count_.load(std::memory_order_relaxed);
        if (!FERRYI_CPP_LIKELY(count != rest)) {
            /* A buffer cannot be resized while a scope is open. */
            count = ferry_buffer_count(buffer_) - offset_;
            count_.store(count, std::memory_order_relaxed);
        }
        return count;
    }
    bool
    empty() const noexcept
    {
        return size() == 0;
    }

    /**
     * Closes the scope, which makes what was written the newest value. Does nothing if the scope is
     * already closed.
     */
    void
    close()
    {
        if (std::exchange(data_, nullptr) != nullptr)
            check(ferry_scope_close(&scope_));
    }
    /**
     * Closes the scope and discards what was written, see ferry_scope_abandon(). Does nothing if
     * the scope is already closed.
     */
    void
    abandon()
    {
        if (data_ == nullptr)
            return;
        check(ferry_scope_abandon(&scope_));
        data_ = nullptr;
    }
    /** Returns the C scope, which this object still owns. */
    ferry_scope *
    raw() noexcept
    {
        return &scope_;
    }

  protected:
    /*
     * The constructors of the derived classes open the scope, which sets scope_ and data_, or
     * throw.
     */
    /* cppcheck-suppress uninitMemberVar */
    view(ferry_buffer *buffer, std::size_t offset, std::size_t count) noexcept : buffer_(buffer), offset_(offset), count_(count)
    {
        if constexpr (is_write)
            exceptions_.count = uncaught_exceptions();
    }
    /*
     * If an exception destroys a write view, its data may be incomplete. The destructor then
     * abandons the write.
     */
    ~view()
    {
        if (data_ == nullptr)
            return;
        if constexpr (is_write) {
            if (!FERRYI_CPP_LIKELY(uncaught_exceptions() == exceptions_.count)) {
                (void)ferry_scope_abandon(&scope_);
                return;
            }
        }
        (void)ferry_scope_close(&scope_);
    }

    static constexpr bool is_write = !std::is_const_v<T>;
    struct counted {
        int count;
    };
    struct not_counted {
    };

    ferry_scope scope_;
    void *data_;
    ferry_buffer *buffer_;
    std::size_t offset_;
    mutable std::atomic<std::size_t> count_;
    std::conditional_t<is_write, counted, not_counted> exceptions_;
};

} // namespace detail

/**
 * An open scope on host memory, which can be used like a container of its elements. The access is
 * READ if T is const, otherwise UPDATE or OVERWRITE.
 *
 * The destructor closes the scope, and what was written becomes the newest value. If an exception
 * destroys a write view, the destructor abandons the write instead: other places keep their values.
 * The destructor ignores failures; close() throws them. The buffer must exist as long as the view.
 *
 * A loop whose condition calls size() calls it in each iteration. Call span() once before such a
 * loop instead.
 */
template <class T> class host_view : public detail::view<T>
{
  public:
    /** A pointer to an element. */
    using iterator = T *;

    /** Returns the address of the first element; NULL if the view was closed or has no elements. */
    T *
    data() const noexcept
    {
        return static_cast<T *>(this->data_);
    }
    /** Returns the begin of the elements. */
    T *
    begin() const noexcept
    {
        return data();
    }
    /** Returns the end of the elements. */
    T *
    end() const noexcept
    {
        return data() + this->size();
    }
    /** Returns one element. Does not check the index. */
    T &
    operator[](std::size_t index) const noexcept
    {
        return data()[index];
    }
    /** Returns the elements as a span. */
    ferry::span<T>
    span() const noexcept
    {
        return {data(), this->size()};
    }

  private:
    friend class buffer<std::remove_const_t<T>>;
    host_view(ferry_buffer *buffer, ferry_access access, std::size_t offset, std::size_t count)
        : detail::view<T>(buffer, offset, count)
    {
        check(ferry_buffer_open_host(buffer, element<std::remove_const_t<T>>(), access, offset, count, &this->scope_, &open()));
    }
    /*
     * Sets data_ to NULL, and returns it to be set by the call that opens the scope. If that call
     * fails, data_ stays NULL, and the destructor of the base class closes nothing.
     */
    void *&
    open() noexcept
    {
        this->data_ = nullptr;
        return this->data_;
    }
};

/**
 * An open scope on device memory, for work that the program queues on the stream of the view. The
 * destructor closes or abandons the scope as that of host_view does. The queued work may still be
 * running then.
 */
template <class T> class device_view : public detail::view<T>
{
  public:
    /**
     * Returns the device address of the first element; NULL if the view was closed or has no
     * elements.
     */
    T *
    get() const noexcept
    {
        return static_cast<T *>(this->data_);
    }
    /**
     * Blocks until the bytes are in place, for code that does not order its work on a stream, see
     * ferry_scope_wait().
     */
    void
    wait()
    {
        check(ferry_scope_wait(&this->scope_));
    }
    /**
     * Closes a scope whose last work was queued on another stream of the same place, see
     * ferry_scope_close_on().
     */
    void
    close_on(stream_ref last_use)
    {
        if (this->data_ == nullptr)
            return;
        check(ferry_scope_close_on(&this->scope_, last_use.raw()));
        this->data_ = nullptr;
    }
    /**
     * Closes a scope whose work was queued on streams that Ferry does not know, see
     * ferry_scope_close_unordered().
     */
    void
    close_unordered()
    {
        if (std::exchange(this->data_, nullptr) != nullptr)
            check(ferry_scope_close_unordered(&this->scope_));
    }

  private:
    friend class buffer<std::remove_const_t<T>>;
    device_view(ferry_buffer *buffer, ferry_access access, stream_ref stream, std::size_t offset, std::size_t count)
        : detail::view<T>(buffer, offset, count)
    {
        check(ferry_buffer_open_device(buffer, element<std::remove_const_t<T>>(), access, offset, count, stream.raw(),
                                       &this->scope_, &open()));
    }
    void *&
    open() noexcept
    {
        this->data_ = nullptr;
        return this->data_;
    }
};

/* -- leases ---------------------------------------------------------------------------------------- */

/** Options of a lease. They are those of ferry_lease_options, except the access. */
struct lease_options {
    /** Shown by messages about the lease. */
    const char *label = nullptr;
    /** First element. */
    std::size_t offset = 0, count = rest; /**< the range, in elements; a count of 0 means the rest
                                               too */
    int place = 0;     /**< 0 means the place of `stream`, or if that is empty, the host */
    stream_ref stream; /**< for a device: the stream on which the holder queues its work; empty if
                            that may be any stream */
};

/**
 * A scope on the heap. The access is READ if T is const, otherwise UPDATE or OVERWRITE. Each copy
 * is one more owner, and the last owner closes the lease. A lease keeps the buffer and the context
 * alive, and keeps the memory at its address.
 */
template <class T> class lease : public detail::owner<ferry_lease, ferry_lease_destroy>
{
  public:
    /** Makes an empty lease, takes one over, or adds an owner. */
    lease() noexcept = default;
    lease(lease &&other) noexcept : owner(std::move(other)), elements_(std::exchange(other.elements_, {}))
    {
    }
    /** Takes over another lease, or adds an owner to it. */
    lease &
    operator=(lease &&other) noexcept
    {
        owner::operator=(std::move(other));
        elements_ = std::exchange(other.elements_, {});
        return *this;
    }
    lease(const lease &other) noexcept : owner(ferry_lease_retain(other.raw_)), elements_(other.elements_)
    {
    }
    lease &
    operator=(const lease &other) noexcept
    {
        return *this = lease(other);
    }
    /** Removes this owner. The last one closes the lease. */
    ~lease() = default;

    /**
     * Returns the C handle and gives up its ownership: the caller owns it, and this object is
     * empty.
     */
    ferry_lease *
    detach() noexcept
    {
        elements_ = {};
        return owner::detach();
    }

    /**
     * Returns the address of the first element at the lease's place; NULL if there are no elements
     * or the object is empty. close() does not change the address.
     */
    T *
    get() const noexcept
    {
        return elements_.data;
    }
    /** Returns the number of elements. */
    std::size_t
    size() const noexcept
    {
        return elements_.size;
    }
    /**
     * Returns the elements of a lease on host memory. Throws invalid_state if the memory is on a
     * device.
     */
    ferry::span<T>
    span() const
    {
        if (!elements_.are_on_host)
            throw invalid_state("a lease on device memory has no span of host memory");
        return {elements_.data, elements_.size};
    }
    /** Returns whether the pointer may be used. */
    bool
    is_open() const noexcept
    {
        return ferry_lease_is_open(raw_);
    }
    /**
     * Closes the lease for all owners. The memory stays allocated until the last owner is
     * destroyed.
     */
    void
    close() const
    {
        check(ferry_lease_close(raw_));
    }
    /** Closes the lease for all owners, and gives up what was written. */
    void
    abandon() const
    {
        check(ferry_lease_abandon(raw_));
    }

  private:
    friend class buffer<std::remove_const_t<T>>;
    lease(ferry_buffer *buffer, ferry_access access, const lease_options &options)
    {
        ferry_lease_options asked = {};
        void *data = nullptr;
        asked.access = access;
        asked.label = options.label;
        asked.offset = options.offset;
        asked.count = options.count;
        asked.place = options.place;
        asked.stream = options.stream.raw();
        check(ferry_lease_open(buffer, element<std::remove_const_t<T>>(), &asked, &raw_, &data));
        elements_.data = static_cast<T *>(data);
        elements_.size = asked.count == 0 || asked.count == rest ? ferry_buffer_count(buffer) - asked.offset : asked.count;
        elements_.are_on_host = asked.place == 0 && asked.stream == nullptr;
    }

    struct elements {
        T *data = nullptr;       /**< address of the first element */
        std::size_t size = 0;    /**< number of elements */
        bool are_on_host = true; /**< whether the host may read them through `data` */
    };
    elements elements_;
};

/* -- buffers --------------------------------------------------------------------------------------- */

namespace detail
{

/** Makes an asynchronous call, and returns its event. */
template <class Call>
inline event
start(const Call &call)
{
    ferry_event *point = nullptr;
    check(call(&point));
    return event::adopt(point);
}

} // namespace detail

/**
 * A range of a buffer, as an argument of a kernel. It does not own the buffer. If T is const, the
 * kernel only reads the range.
 */
template <class T> class buffer_range
{
  public:
    /** The buffer of the range. */
    using whole = std::conditional_t<std::is_const_v<T>, const buffer<std::remove_const_t<T>>, buffer<T>>;

    /** Makes a range of a buffer; one for writing becomes one for reading. */
    buffer_range(whole &of, std::size_t offset = 0, std::size_t count = rest) noexcept
        : buffer_(of.raw()), offset_(offset), count_(count)
    {
    }
    template <class Other, class = std::enable_if_t<std::is_const_v<T> && std::is_same_v<Other, T>>>
    buffer_range(const buffer<Other> &of, std::size_t offset = 0, std::size_t count = rest) noexcept
        : buffer_(of.raw()), offset_(offset), count_(count)
    {
    }
    template <class Other, class = std::enable_if_t<std::is_same_v<const Other, T>>>
    buffer_range(const buffer_range<Other> &other) noexcept
        : buffer_(other.raw()), offset_(other.offset()), count_(other.count())
    {
    }

    /** Returns the handle of the C API. */
    ferry_buffer *
    raw() const noexcept
    {
        return buffer_;
    }
    /** Returns the index of the first element. */
    std::size_t
    offset() const noexcept
    {
        return offset_;
    }
    /** Returns the number of elements. */
    std::size_t
    count() const noexcept
    {
        return count_;
    }
    /** Returns the range as an argument of a launch. */
    ferry_argument
    argument() const noexcept
    {
        return ferry_buffer_argument(buffer_, element<std::remove_const_t<T>>(), offset_, count_);
    }

  private:
    ferry_buffer *buffer_;
    std::size_t offset_, count_;
};

/**
 * A buffer with elements of type T. The object is one owner of the buffer, and share() returns
 * another one. Each function calls the C function of the same name in <ferry/buffer.h> or
 * <ferry/copy.h>, whose comment explains it. Offsets and counts are numbers of elements.
 *
 * A const buffer can only be read. read_only() returns a buffer<const T>, through which the library
 * refuses writes too. A buffer that was default-constructed or moved from is empty,
 * and its functions throw invalid_argument.
 */
template <class T> class buffer : public detail::owner<ferry_buffer, ferry_buffer_destroy>
{
    static_assert(!std::is_reference_v<T>, "the elements of a ferry::buffer<T> are no references");

  public:
    /** The type of the elements. */
    using value_type = T;

    /* creation and lifetime */

    buffer() noexcept = default;
    /** Creates a buffer of `count` elements that read as zero. */
    explicit buffer(const context &devices, std::size_t count, const ferry_buffer_options *options = nullptr)
    {
        check(ferry_buffer_create(devices.raw(), element<T>(), count, options, &raw_));
    }
    /** Creates a buffer with a copy of the elements of `source`. */
    explicit buffer(const context &devices, ferry::span<const T> source, const ferry_buffer_options *options = nullptr)
    {
        check(ferry_buffer_create_from(devices.raw(), element<T>(), source.size(), source.data(), options, &raw_));
    }
    /**
     * Creates a buffer over host memory of the caller, which becomes the host replica. The memory
     * must outlive the buffer: a temporary container does not compile.
     */
    static buffer
    wrap_host(const context &devices, ferry::span<T> memory, const ferry_wrap_options *options = nullptr)
    {
        buffer made;
        check(ferry_buffer_wrap_host(devices.raw(), element<T>(), memory.size(), memory.data(), options, &made.raw_));
        return made;
    }
    /** Makes a buffer of device memory of the program. */
    static buffer
    wrap_device(const context &devices, T *memory, std::size_t count, stream_ref ready_on = {},
                const ferry_wrap_options *options = nullptr)
    {
        buffer made;
        check(ferry_buffer_wrap_device(devices.raw(), element<T>(), count, ready_on.raw(), memory, options, &made.raw_));
        return made;
    }
    /**
     * Makes a buffer of memory that another process exports, see ferry_buffer_import(). It must be
     * acquired before its first use. Throws wrong_type if the elements are not of type T.
     */
    static buffer
    import_shared(const context &devices, const ferry_share &share, const ferry_share_options *options = nullptr)
    {
        buffer made;
        check(ferry_buffer_import(devices.raw(), element<T>(), &share, options, &made.raw_));
        return made;
    }
    /**
     * Takes ownership of a C handle, and returns the buffer that owns it. If the element type of
     * the handle is not T, throws wrong_type and takes no ownership.
     */
    static buffer
    adopt(ferry_buffer *raw)
    {
        buffer made;
        check(ferry_buffer_from_raw(raw, element<T>(), &made.raw_));
        return made;
    }
    /**
     * Returns one more owner of the buffer that a C handle refers to. Throws wrong_type if its
     * element type is not T.
     */
    static buffer
    retain(ferry_buffer *raw)
    {
        buffer made;
        check(ferry_buffer_from_raw(raw, element<T>(), &raw));
        made.raw_ = ferry_buffer_retain(raw);
        return made;
    }
    /**
     * Returns one more owner of the live buffer that was created with this name, see
     * ferry_context_find().
     */
    static buffer
    find(const context &devices, const char *name)
    {
        ferry_buffer *raw = nullptr;
        check(ferry_context_find(devices.raw(), name, &raw));
        buffer found;
        found.raw_ = raw;
        check(ferry_buffer_from_raw(raw, element<T>(), &raw));
        return found;
    }
    /** Returns one more owner of the same buffer. */
    buffer
    share()
    {
        buffer other;
        other.raw_ = ferry_buffer_retain(raw_);
        return other;
    }
    /**
     * Returns a view of a part of this buffer. Both show the same bytes, and the view keeps the
     * buffer's memory alive.
     */
    buffer
    view(std::size_t offset, std::size_t count = rest)
    {
        buffer part;
        check(ferry_buffer_view(raw_, element<T>(), offset, count, &part.raw_));
        return part;
    }
    /**
     * Returns a read-only view of a part of this buffer. It shows what is written to this buffer
     * later.
     */
    buffer<const T>
    read_only(std::size_t offset = 0, std::size_t count = rest) const
    {
        ferry_buffer *raw = nullptr;
        check(ferry_buffer_view_read_only(raw_, element<T>(), offset, count, &raw));
        return buffer<const T>::adopt(raw);
    }
    /** Returns a view that shows the bytes as elements of type U. */
    template <class U>
    buffer<U>
    reinterpret(std::size_t offset_bytes = 0, std::size_t count = rest)
    {
        ferry_buffer *raw = nullptr;
        check(ferry_buffer_reinterpret(raw_, element<U>(), offset_bytes, count, &raw));
        return buffer<U>::adopt(raw);
    }
    /** Ends a wrap: copies newer bytes back into its memory, and leaves this object empty. */
    void
    unwrap(stream_ref stream = {})
    {
        check(ferry_buffer_unwrap(&raw_, stream.raw()));
    }
    /**
     * Ends a wrap without accessing its memory, which may already be freed, and leaves this object
     * empty.
     */
    void
    abandon()
    {
        check(ferry_buffer_abandon(&raw_));
    }

    /* properties */

    /** Returns the number of elements. */
    std::size_t
    size() const noexcept
    {
        return ferry_buffer_count(raw_);
    }
    /** Returns the number of bytes. */
    std::size_t
    size_bytes() const noexcept
    {
        return ferry_buffer_bytes(raw_);
    }
    /** Returns whether there are no elements. */
    bool
    empty() const noexcept
    {
        return size() == 0;
    }
    /** Returns which side has the newest bytes. */
    ferry_state
    state() const noexcept
    {
        return ferry_buffer_state(raw_);
    }
    /** Returns whether every byte is current at the place. */
    bool
    is_current(int place) const noexcept
    {
        return ferry_buffer_is_current(raw_, place);
    }
    /** Returns whether the replica on the host is page-locked. */
    bool
    is_page_locked() const noexcept
    {
        return ferry_buffer_is_page_locked(raw_);
    }
    /** Returns the memory, transfers, scopes and holds of the buffer. */
    ferry_buffer_info
    info() const
    {
        ferry_buffer_info found = {};
        check(ferry_buffer_get_info(raw_, &found));
        return found;
    }
    /** Returns one line of text about the buffer, of at most 511 characters. */
    std::string
    describe() const
    {
        char text[512] = "";
        ferry_buffer_describe(raw_, text, sizeof(text));
        return text;
    }
    /** Changes the number of elements and keeps the values of those that remain. */
    void
    resize(std::size_t count)
    {
        check(ferry_buffer_resize(raw_, count));
    }

    /* views */

    /** Opens a range for reading on the host, and waits until it is there. */
    [[nodiscard]] host_view<const T>
    read_host(std::size_t offset = 0, std::size_t count = rest) const &
    {
        return host_view<const T>(raw_, FERRY_READ, offset, count);
    }
    /** Opens a range for reading and writing on the host. */
    [[nodiscard]] host_view<T>
    update_host(std::size_t offset = 0, std::size_t count = rest) &
    {
        return host_view<T>(raw_, FERRY_UPDATE, offset, count);
    }
    /** Opens a range on the host, all of which the program writes. Copies nothing. */
    [[nodiscard]] host_view<T>
    overwrite_host(std::size_t offset = 0, std::size_t count = rest) &
    {
        return host_view<T>(raw_, FERRY_OVERWRITE, offset, count);
    }
    /** Opens a range for reading on the device of the stream. */
    [[nodiscard]] device_view<const T>
    read_device(stream_ref stream = {}, std::size_t offset = 0, std::size_t count = rest) const &
    {
        return device_view<const T>(raw_, FERRY_READ, stream, offset, count);
    }
    /** Opens a range for reading and writing on the device of the stream. */
    [[nodiscard]] device_view<T>
    update_device(stream_ref stream = {}, std::size_t offset = 0, std::size_t count = rest) &
    {
        return device_view<T>(raw_, FERRY_UPDATE, stream, offset, count);
    }
    /** Opens a range on the device, all of which the program writes. Copies nothing. */
    [[nodiscard]] device_view<T>
    overwrite_device(stream_ref stream = {}, std::size_t offset = 0, std::size_t count = rest) &
    {
        return device_view<T>(raw_, FERRY_OVERWRITE, stream, offset, count);
    }
    /*
     * These functions are deleted, because a host_view or device_view does not keep its buffer
     * alive, so it must not be opened on a temporary buffer.
     */
    host_view<const T> read_host(std::size_t = 0, std::size_t = rest) const && = delete;
    device_view<const T> read_device(stream_ref = {}, std::size_t = 0, std::size_t = rest) const && = delete;

    /** Opens a lease for reading. */
    [[nodiscard]] lease<const T>
    lease_read(const lease_options &options = {}) const
    {
        return lease<const T>(raw_, FERRY_READ, options);
    }
    /** Opens a lease for reading and writing. */
    [[nodiscard]] lease<T>
    lease_update(const lease_options &options = {})
    {
        return lease<T>(raw_, FERRY_UPDATE, options);
    }
    /** Opens a lease on a range that the program writes whole. Copies nothing. */
    [[nodiscard]] lease<T>
    lease_overwrite(const lease_options &options = {})
    {
        return lease<T>(raw_, FERRY_OVERWRITE, options);
    }

    /**
     * Blocks until no open scope conflicts with an access of this kind. Throws busy if a scope
     * still conflicts after `timeout_ns` nanoseconds.
     */
    void
    wait_available(ferry_access access, std::uint64_t timeout_ns) const
    {
        check(ferry_buffer_wait_available(raw_, access, timeout_ns));
    }

    /* copies */

    /** Copies host memory into the buffer, from element `offset` on. */
    void
    copy_from(ferry::span<const T> source, std::size_t offset = 0, const ferry_copy_options *options = nullptr)
    {
        check(ferry_buffer_copy_from(raw_, element<T>(), offset, source.size(), source.data(), options));
    }
    /** Copies elements from `offset` on to host memory. */
    void
    copy_to(ferry::span<T> target, std::size_t offset = 0, const ferry_copy_options *options = nullptr) const
    {
        check(ferry_buffer_copy_to(raw_, element<T>(), offset, target.size(), target.data(), options));
    }
    /**
     * Copies `count` elements of `source`, which may be this buffer, to this buffer, starting at
     * element `offset`.
     */
    void
    copy(std::size_t offset, const buffer &source, std::size_t source_offset = 0, std::size_t count = rest,
         const ferry_copy_options *options = nullptr)
    {
        check(ferry_buffer_copy(raw_, element<T>(), offset, source.raw_, source_offset, count, options));
    }
    void
    copy(std::size_t offset, const buffer<const T> &source, std::size_t source_offset = 0, std::size_t count = rest,
         const ferry_copy_options *options = nullptr)
    {
        copy(offset, source.as_buffer(), source_offset, count, options);
    }
    /** Sets every element of the range to one value. */
    void
    fill(const T &value, std::size_t offset = 0, std::size_t count = rest, const ferry_copy_options *options = nullptr)
    {
        check(ferry_buffer_fill(raw_, element<T>(), offset, count, &value, options));
    }
    /** Reads elements from a file into the buffer. */
    void
    load(const char *path, std::uint64_t file_offset = 0, std::size_t offset = 0, std::size_t count = rest,
         const ferry_copy_options *options = nullptr)
    {
        check(ferry_buffer_load(raw_, element<T>(), offset, count, path, file_offset, options));
    }
    /** Writes elements to a file. */
    void
    store(const char *path, std::uint64_t file_offset = 0, std::size_t offset = 0, std::size_t count = rest,
          const ferry_copy_options *options = nullptr) const
    {
        check(ferry_buffer_store(raw_, element<T>(), offset, count, path, file_offset, options));
    }

    /*
     * Asynchronous copies. <ferry/copy.h> says what the program may do with memory until the event
     * completes.
     */

    /**
     * Queues copy_from() and returns its event. Keep the memory until the event is done: a
     * temporary container does not compile.
     */
    [[nodiscard]] event
    copy_from_async(ferry::span<const T> source, std::size_t offset = 0, const ferry_copy_options *options = nullptr)
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_copy_from_async(raw_, element<T>(), offset, source.size(), source.data(), options, point);
        });
    }
    template <class Container, class = std::enable_if_t<!detail::is_lasting<Container>>>
    event copy_from_async(Container &&source, std::size_t = 0, const ferry_copy_options * = nullptr) = delete;
    /** Queues copy_to() and returns its event. The memory must stay valid until then. */
    [[nodiscard]] event
    copy_to_async(ferry::span<T> target, std::size_t offset = 0, const ferry_copy_options *options = nullptr) const
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_copy_to_async(raw_, element<T>(), offset, target.size(), target.data(), options, point);
        });
    }
    /** Queues copy() and returns its event. */
    [[nodiscard]] event
    copy_async(std::size_t offset, const buffer &source, std::size_t source_offset = 0, std::size_t count = rest,
               const ferry_copy_options *options = nullptr)
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_copy_async(raw_, element<T>(), offset, source.raw_, source_offset, count, options, point);
        });
    }
    /** Queues fill() and returns its event. */
    [[nodiscard]] event
    fill_async(const T &value, std::size_t offset = 0, std::size_t count = rest, const ferry_copy_options *options = nullptr)
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_fill_async(raw_, element<T>(), offset, count, &value, options, point);
        });
    }
    /** Queues sync_to() and returns its event. */
    [[nodiscard]] event
    sync_to_async(int place, std::size_t offset = 0, std::size_t count = rest, const ferry_copy_options *options = nullptr) const
    {
        return detail::start(
            [&](ferry_event **point) { return ferry_buffer_sync_to_async(raw_, offset, count, place, options, point); });
    }
    /** Queues load() and returns its event. */
    [[nodiscard]] event
    load_async(const char *path, std::uint64_t file_offset = 0, std::size_t offset = 0, std::size_t count = rest,
               const ferry_copy_options *options = nullptr)
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_load_async(raw_, element<T>(), offset, count, path, file_offset, options, point);
        });
    }
    /** Queues store() and returns its event. */
    [[nodiscard]] event
    store_async(const char *path, std::uint64_t file_offset = 0, std::size_t offset = 0, std::size_t count = rest,
                const ferry_copy_options *options = nullptr) const
    {
        return detail::start([&](ferry_event **point) {
            return ferry_buffer_store_async(raw_, element<T>(), offset, count, path, file_offset, options, point);
        });
    }

    /*
     * Copies that convert between T and another element type U. `policy` says how, see
     * ferry_convert_policy.
     */

    /** Copies host memory of another element type into the buffer, converted. */
    template <class U>
    void
    convert_from(ferry::span<const U> source, ferry_convert_policy policy, std::size_t offset = 0,
                 const ferry_copy_options *options = nullptr)
    {
        ferry_copy_region region = ferry_buffer_region_from(raw_, element<T>(), offset, source.size(), source.data());
        region.source.element = element<U>();
        check(ferry_copy_converting(&region, policy, options));
    }
    /** Copies elements to host memory of another element type, converted. */
    template <class U>
    void
    convert_to(ferry::span<U> target, ferry_convert_policy policy, std::size_t offset = 0,
               const ferry_copy_options *options = nullptr) const
    {
        ferry_copy_region region = ferry_buffer_region_to(raw_, element<T>(), offset, target.size(), target.data());
        region.target.element = element<U>();
        check(ferry_copy_converting(&region, policy, options));
    }
    /** Copies elements of a buffer of another element type, converted. */
    template <class U>
    void
    convert(std::size_t offset, const buffer<U> &source, ferry_convert_policy policy, std::size_t source_offset = 0,
            std::size_t count = rest, const ferry_copy_options *options = nullptr)
    {
        ferry_copy_region region = ferry_buffer_region(raw_, element<T>(), offset, source.raw(), source_offset, count);
        region.source.element = element<std::remove_const_t<U>>();
        check(ferry_copy_converting(&region, policy, options));
    }

    /** Queues convert_from() and returns its event. */
    template <class U>
    [[nodiscard]] event
    convert_from_async(ferry::span<const U> source, ferry_convert_policy policy, std::size_t offset = 0,
                       const ferry_copy_options *options = nullptr)
    {
        ferry_copy_region region = ferry_buffer_region_from(raw_, element<T>(), offset, source.size(), source.data());
        region.source.element = element<U>();
        return detail::start([&](ferry_event **point) { return ferry_copy_converting_async(&region, policy, options, point); });
    }
    /** Queues convert_to() and returns its event. */
    template <class U>
    [[nodiscard]] event
    convert_to_async(ferry::span<U> target, ferry_convert_policy policy, std::size_t offset = 0,
                     const ferry_copy_options *options = nullptr) const
    {
        ferry_copy_region region = ferry_buffer_region_to(raw_, element<T>(), offset, target.size(), target.data());
        region.target.element = element<U>();
        return detail::start([&](ferry_event **point) { return ferry_copy_converting_async(&region, policy, options, point); });
    }
    /** Queues convert() and returns its event. */
    template <class U>
    [[nodiscard]] event
    convert_async(std::size_t offset, const buffer<U> &source, ferry_convert_policy policy, std::size_t source_offset = 0,
                  std::size_t count = rest, const ferry_copy_options *options = nullptr)
    {
        ferry_copy_region region = ferry_buffer_region(raw_, element<T>(), offset, source.raw(), source_offset, count);
        region.source.element = element<U>();
        return detail::start([&](ferry_event **point) { return ferry_copy_converting_async(&region, policy, options, point); });
    }

    /*
     * These functions return regions for ferry::copy(). The caller may set rows, planes and pitches
     * in them. A region has the address of the memory, which must remain until the region was
     * copied.
     */

    /** Returns a region of copy() from host memory into this buffer. */
    [[nodiscard]] ferry_copy_region
    region_from(std::size_t offset, ferry::span<const T> source) noexcept
    {
        return ferry_buffer_region_from(raw_, element<T>(), offset, source.size(), source.data());
    }
    template <class Container, class = std::enable_if_t<!detail::is_lasting<Container>>>
    ferry_copy_region region_from(std::size_t offset, Container &&source) = delete;
    /** Returns a region of copy() from this buffer to host memory. */
    [[nodiscard]] ferry_copy_region
    region_to(std::size_t offset, ferry::span<T> target) const noexcept
    {
        return ferry_buffer_region_to(raw_, element<T>(), offset, target.size(), target.data());
    }
    /**
     * Returns a region that copies `count` elements of `source`, starting at element
     * `source_offset`, to this buffer, starting at element `offset`.
     */
    [[nodiscard]] ferry_copy_region
    region(std::size_t offset, const buffer &source, std::size_t source_offset, std::size_t count) noexcept
    {
        return ferry_buffer_region(raw_, element<T>(), offset, source.raw_, source_offset, count);
    }
    [[nodiscard]] ferry_copy_region
    region(std::size_t offset, const buffer<const T> &source, std::size_t source_offset, std::size_t count) noexcept
    {
        return region(offset, source.as_buffer(), source_offset, count);
    }

    /* places */

    /** Makes a range current at the place, and waits. */
    void
    sync_to(int place, std::size_t offset = 0, std::size_t count = rest, const ferry_copy_options *options = nullptr) const
    {
        check(ferry_buffer_sync_to(raw_, offset, count, place, options));
    }
    /** Starts to make a range current at the place. */
    void
    prefetch(int place, std::size_t offset = 0, std::size_t count = rest, stream_ref stream = {}) const
    {
        check(ferry_buffer_prefetch(raw_, offset, count, place, stream.raw()));
    }
    /** Declares that the program wrote a range at the place by a raw pointer. */
    void
    mark_dirty(int place, stream_ref written_on = {}, std::size_t offset = 0, std::size_t count = rest)
    {
        check(ferry_buffer_mark_dirty(raw_, offset, count, place, written_on.raw()));
    }
    /** Declares a range stale at the place. */
    void
    invalidate(int place, std::size_t offset = 0, std::size_t count = rest) const
    {
        check(ferry_buffer_invalidate(raw_, offset, count, place));
    }
    /** Drops the values of a range, which reads as zero afterwards. */
    void
    discard(std::size_t offset = 0, std::size_t count = rest)
    {
        check(ferry_buffer_discard(raw_, offset, count));
    }
    /** Allocates the replica of the place. */
    void
    reserve(int place) const
    {
        check(ferry_buffer_reserve(raw_, place));
    }
    /** Frees the replica of the place; bytes that only it has are copied before. */
    void
    evict(int place) const
    {
        check(ferry_buffer_evict(raw_, place));
    }
    /** Waits until queued work on the replica of the place is done. */
    void
    wait_idle(int place) const
    {
        check(ferry_buffer_wait_idle(raw_, place));
    }
    /**
     * Returns the address of the replica at `place`, and keeps the replica there until release().
     */
    T *
    hold(int place)
    {
        void *held = nullptr;
        check(ferry_buffer_hold(raw_, place, &held));
        return static_cast<T *>(held);
    }
    /** Ends a hold(): the address may change again. */
    void
    release(int place) const
    {
        check(ferry_buffer_release(raw_, place));
    }
    /** Passes a hint about managed memory to the driver. */
    void
    advise(ferry_advice advice, int place, std::size_t offset = 0, std::size_t count = rest) const
    {
        check(ferry_buffer_advise(raw_, offset, count, place, advice));
    }

    /* memory that processes share, see <ferry/share.h> */

    /** Returns the handle by which other processes import the buffer. */
    ferry_share
    export_shared() const
    {
        ferry_share share = {};
        check(ferry_buffer_export(raw_, &share));
        return share;
    }
    /** Acquires the memory for this process. Throws busy while another process has it. */
    void
    acquire_shared(stream_ref stream = {}) const
    {
        check(ferry_buffer_acquire_shared(raw_, stream.raw()));
    }
    /** Releases the memory for other processes, with all bytes that are newer at other places. */
    void
    release_shared(stream_ref stream = {}) const
    {
        check(ferry_buffer_release_shared(raw_, stream.raw()));
    }

    /* arguments of kernels */

    /** Returns a part of the elements, as an argument of a kernel. */
    buffer_range<T>
    range(std::size_t offset, std::size_t count = rest) noexcept
    {
        return buffer_range<T>(*this, offset, count);
    }
    buffer_range<const T>
    range(std::size_t offset, std::size_t count = rest) const noexcept
    {
        return buffer_range<const T>(*this, offset, count);
    }
};

/**
 * A read-only handle of a buffer with elements of type T, such as buffer<T>::read_only() returns. A
 * library uses it to lend an array: a function that takes a `const buffer<const T> &` can neither
 * open a scope for writing nor get one from it.
 *
 * It has the functions of a const buffer<T>, and the object is one owner of the handle. adopt() and
 * retain() also take a C handle that may be written, but the object does not write through it.
 */
template <class T> class buffer<const T> : private buffer<T>
{
    using base = buffer<T>;

  public:
    /** The type of the elements, without const. */
    using value_type = T;

    /** Makes an empty object, which owns no handle. */
    buffer() noexcept = default;
    /** Takes ownership of a C handle, as buffer<T>::adopt() does. */
    static buffer
    adopt(ferry_buffer *raw)
    {
        return buffer(base::adopt(raw));
    }
    /**
     * Makes a buffer of memory that another process exports, as buffer<T>::import_shared() does,
     * and only reads it: other processes that only read may acquire it at the same time.
     */
    static buffer
    import_shared(const context &devices, const ferry_share &share, const ferry_share_options *options = nullptr)
    {
        ferry_share_options reads = options != nullptr ? *options : ferry_share_options();
        reads.read_only = true;
        return buffer(base::import_shared(devices, share, &reads));
    }
    /** Returns one more owner of the handle, as buffer<T>::retain() does. */
    static buffer
    retain(ferry_buffer *raw)
    {
        return buffer(base::retain(raw));
    }
    /** Returns one more owner of the same handle. */
    buffer
    share() const
    {
        return retain(this->raw());
    }
    /** Returns a view of a part of the elements, which is read-only too. */
    buffer
    view(std::size_t offset, std::size_t count = rest) const
    {
        return base::read_only(offset, count);
    }
    /** Returns a view of a part of the elements, as view() does. */
    buffer
    read_only(std::size_t offset = 0, std::size_t count = rest) const
    {
        return base::read_only(offset, count);
    }
    /** Returns a read-only view that shows the bytes as elements of type U. */
    template <class U>
    buffer<const U>
    reinterpret(std::size_t offset_bytes = 0, std::size_t count = rest) const
    {
        ferry_buffer *made = nullptr;
        buffer whole = base::read_only();
        check(ferry_buffer_reinterpret(whole.raw(), element<U>(), offset_bytes, count, &made));
        return buffer<const U>::adopt(made);
    }
    /** Returns the same handle, for functions that take a const buffer<T>. */
    const buffer<T> &
    as_buffer() const noexcept
    {
        return *this;
    }
    /** Returns the address of the replica, which must not be written, as buffer<T>::hold() does. */
    const T *
    hold(int place)
    {
        return base::hold(place);
    }
    /** Returns a part of the elements, as an argument of a kernel. */
    buffer_range<const T>
    range(std::size_t offset, std::size_t count = rest) const noexcept
    {
        return as_buffer().range(offset, count);
    }

    using base::detach;
    using base::raw;
    using base::operator bool;
    using base::describe;
    using base::empty;
    using base::info;
    using base::is_current;
    using base::is_page_locked;
    using base::size;
    using base::size_bytes;
    using base::state;

    using base::lease_read;
    using base::read_device;
    using base::read_host;
    using base::wait_available;

    using base::convert_to;
    using base::copy_to;
    using base::copy_to_async;
    using base::region_to;
    using base::store;
    using base::store_async;

    using base::advise;
    using base::evict;
    using base::invalidate;
    using base::prefetch;
    using base::release;
    using base::reserve;
    using base::sync_to;
    using base::wait_idle;

    using base::acquire_shared;
    using base::export_shared;
    using base::release_shared;

  private:
    explicit buffer(base &&of) noexcept : base(std::move(of))
    {
    }
};

/** Copies a list of regions, see ferry_copy(). */
inline void
copy(ferry::span<const ferry_copy_region> regions, const ferry_copy_options *options = nullptr)
{
    check(ferry_copy(regions.data(), regions.size(), options));
}
inline void
copy(std::initializer_list<ferry_copy_region> regions, const ferry_copy_options *options = nullptr)
{
    check(ferry_copy(regions.begin(), regions.size(), options));
}
/**
 * Copies a list of regions asynchronously: the call returns before the bytes have moved. See
 * ferry_copy().
 */
[[nodiscard]] inline event
copy_async(ferry::span<const ferry_copy_region> regions, const ferry_copy_options *options = nullptr)
{
    return detail::start([&](ferry_event **point) { return ferry_copy_async(regions.data(), regions.size(), options, point); });
}
[[nodiscard]] inline event
copy_async(std::initializer_list<ferry_copy_region> regions, const ferry_copy_options *options = nullptr)
{
    return detail::start([&](ferry_event **point) { return ferry_copy_async(regions.begin(), regions.size(), options, point); });
}

/* -- kernels --------------------------------------------------------------------------------------- */

/**
 * These types mark the buffers in the signature of a kernel. The kernel reads in<T>, reads and
 * writes inout<T>, and writes every element of out<T>.
 */
template <class T> struct in {
};
template <class T> struct inout {
};
template <class T> struct out {
};

/**
 * Returns a one-dimensional grid with at least one thread for each of `items` items, see
 * ferry_grid_for().
 */
inline ferry_grid
grid(std::size_t items, std::uint32_t threads = 0) noexcept
{
    return ferry_grid_for(items, threads);
}

namespace detail
{

/*
 * The types of one parameter of a kernel. The caller passes a `given`, and the host function takes
 * a `taken`. This template is for values.
 */
template <class P> struct parameter {
    using given = const P &;
    using taken = P;

    static ferry_parameter
    describe() noexcept
    {
        ferry_parameter described = {};
        described.element = element<P>();
        return described;
    }
    static ferry_argument
    argument(const P &value) noexcept
    {
        ferry_argument made = ferry_struct_value(&value, sizeof(P), alignof(P));
        made.element = element<P>();
        return made;
    }
    static P
    fetch(const ferry_call *call, std::size_t index) noexcept
    {
        P value;
        std::memcpy(&value, ferry_call_value(call, element<P>(), index, nullptr), sizeof(P));
        return value;
    }
};

template <> struct parameter<std::size_t> {
    using given = std::size_t;
    using taken = std::size_t;

    static ferry_parameter
    describe() noexcept
    {
        ferry_parameter described = {};
        described.element = ferry_size_element();
        return described;
    }
    static ferry_argument
    argument(std::size_t value) noexcept
    {
        return ferry_size_value(value);
    }
    static std::size_t
    fetch(const ferry_call *call, std::size_t index) noexcept
    {
        return ferry_call_size(call, index);
    }
};

/*
 * The types of a parameter that is a buffer. If the kernel only reads the elements, they are const.
 */
template <class T, ferry_access Access> struct array_parameter {
    using given = const buffer_range<T> &;
    using taken = ferry::span<T>;

    static ferry_parameter
    describe() noexcept
    {
        ferry_parameter described = {};
        described.element = element<std::remove_const_t<T>>();
        described.access = Access;
        return described;
    }
    static ferry_argument
    argument(const buffer_range<T> &range) noexcept
    {
        return range.argument();
    }
    static ferry::span<T>
    fetch(const ferry_call *call, std::size_t index) noexcept
    {
        std::size_t count = 0;
        void *array = ferry_call_array(call, element<std::remove_const_t<T>>(), index, &count);
        return {static_cast<T *>(array), count};
    }
};
template <class T> struct parameter<in<T>> : array_parameter<const T, FERRY_READ> {
};
template <class T> struct parameter<inout<T>> : array_parameter<T, FERRY_UPDATE> {
};
template <class T> struct parameter<out<T>> : array_parameter<T, FERRY_OVERWRITE> {
};

/*
 * Calls the program's host function for a launch. If that function takes a ferry_call, it is the
 * first argument.
 */
template <class Function, class... P> struct host_function {
    static ferry_status
    run(const ferry_call *call, void *user) noexcept
    {
        try {
            invoke(call, user, std::index_sequence_for<P...>());
            return FERRY_OK;
        } catch (const error &failure) {
            ferry_call_fail(call, failure.what());
            return failure.status();
        } catch (const std::bad_alloc &failure) {
            ferry_call_fail(call, failure.what());
            return FERRY_ERROR_OUT_OF_MEMORY;
        } catch (const std::exception &failure) {
            ferry_call_fail(call, failure.what());
        } catch (...) {
            ferry_call_fail(call, "the host function threw an object that is no std::exception");
        }
        return FERRY_ERROR_DEVICE;
    }

  private:
    template <std::size_t... Index>
    static void
    invoke(const ferry_call *call, void *user, std::index_sequence<Index...>)
    {
        if constexpr (std::is_function_v<Function>)
            apply(*reinterpret_cast<Function *>(user), call, parameter<P>::fetch(call, Index)...);
        else
            apply(*static_cast<Function *>(user), call, parameter<P>::fetch(call, Index)...);
    }
    template <class Callable, class... Taken>
    static void
    apply(Callable &function, const ferry_call *call, Taken &&...taken)
    {
        if constexpr (std::is_invocable_v<Callable &, const ferry_call *, Taken...>)
            (void)function(call, std::forward<Taken>(taken)...);
        else
            (void)function(std::forward<Taken>(taken)...);
    }
};

/* Recognizes std::reference_wrapper without including <functional>, which takes long to compile. */
template <class Function, class = void> inline constexpr bool is_reference = false;
template <class Function>
inline constexpr bool is_reference<
    Function, std::enable_if_t<std::is_same_v<decltype(std::declval<const Function &>().get()), typename Function::type &>>> = true;

/* For a function object without captures: one object serves all kernels. */
template <class Function>
inline void *
shared_function(const Function &function)
{
    static Function shared(function);
    return const_cast<void *>(static_cast<const void *>(&shared));
}

} // namespace detail

/**
 * A kernel. The template arguments P are its parameters: in<T>, inout<T> or out<T> for a buffer,
 * and an element type or std::size_t for a value.
 *
 * The host function takes a span of const elements for each in<T>, a span of elements for each
 * inout<T> and out<T>, and each value itself. It may take a `const ferry_call *` before them. If it
 * throws an exception, the launch fails, and a later call returns that failure. Its status is that
 * of a ferry::error, FERRY_ERROR_OUT_OF_MEMORY for std::bad_alloc, and FERRY_ERROR_DEVICE for any
 * other exception. The return value of the host function is ignored.
 *
 * Queued launches may call the host function after the kernel object was destroyed. The host
 * function must therefore be a function, a lambda without captures, or std::ref() of an object that
 * the program keeps alive until the work is done.
 */
template <class... P> class kernel : public detail::owner<ferry_kernel, ferry_kernel_destroy>
{
  public:
    kernel() noexcept = default;
    /** Creates a kernel from CUDA source, without a host function. */
    explicit kernel(const context &devices, const char *name, const char *cuda_source)
    {
        const ferry_kernel_code code = cuda_code(cuda_source);
        ferry_kernel_source source = describe(name, code);
        create(devices, source);
    }
    /** Creates a kernel from a host function, and from CUDA source unless that is NULL. */
    template <class Function>
    explicit kernel(const context &devices, const char *name, const char *cuda_source, const Function &host_function)
    {
        const ferry_kernel_code code = cuda_code(cuda_source);
        ferry_kernel_source source = describe(name, code);
        set_function(source, host_function);
        create(devices, source);
    }
    /** Creates a kernel from a ferry_kernel_source, whose parameters this constructor sets. */
    explicit kernel(const context &devices, ferry_kernel_source source)
    {
        create(devices, source);
    }
    template <class Function>
    explicit kernel(const context &devices, ferry_kernel_source source, const Function &host_function)
    {
        set_function(source, host_function);
        create(devices, source);
    }

    /** Queues the kernel on a stream, see ferry_kernel_launch(). */
    void
    operator()(stream_ref stream, const ferry_grid &dimensions, typename detail::parameter<P>::given... arguments) const
    {
        /* The array has one item more than there are arguments, because C++ has no empty arrays. */
        const ferry_argument list[sizeof...(P) + 1] = {detail::parameter<P>::argument(arguments)..., ferry_argument()};
        check(ferry_kernel_launch(raw_, dimensions, stream.raw(), list, sizeof...(P)));
    }

  private:
    static ferry_kernel_code
    cuda_code(const char *text) noexcept
    {
        ferry_kernel_code code = {};
        code.kind = FERRY_CODE_CUDA;
        code.code = text;
        return code;
    }
    /* The description without codes if the code is NULL. It points to `code`. */
    static ferry_kernel_source
    describe(const char *name, const ferry_kernel_code &code) noexcept
    {
        ferry_kernel_source source = {};
        source.name = name;
        source.codes = &code;
        source.code_count = code.code != nullptr;
        return source;
    }
    void
    create(const context &devices, ferry_kernel_source &source)
    {
        const ferry_parameter list[sizeof...(P) + 1] = {detail::parameter<P>::describe()..., ferry_parameter()};
        source.parameters = list;
        source.parameter_count = sizeof...(P);
        check(ferry_kernel_create(devices.raw(), &source, &raw_));
    }
    template <class Function>
    static void
    set_function(ferry_kernel_source &source, const Function &function)
    {
        if constexpr (detail::is_reference<Function>) {
            using target = typename Function::type;
            check_function<target>();
            source.host_function = detail::host_function<target, P...>::run;
            if constexpr (std::is_function_v<target>)
                source.user = reinterpret_cast<void *>(&function.get());
            else
                source.user = const_cast<void *>(static_cast<const void *>(&function.get()));
        } else if constexpr (std::is_function_v<Function> || std::is_pointer_v<Function>) {
            using target = std::remove_pointer_t<Function>;
            check_function<target>();
            source.host_function = detail::host_function<target, P...>::run;
            if constexpr (std::is_pointer_v<Function>)
                source.user = reinterpret_cast<void *>(function);
            else
                source.user = reinterpret_cast<void *>(&function);
        } else {
            static_assert(std::is_empty_v<Function> && std::is_trivially_destructible_v<Function>,
                          "a host function with captures is passed by std::ref, and outlives the queued work");
            check_function<Function>();
            source.host_function = detail::host_function<Function, P...>::run;
            source.user = detail::shared_function(function);
        }
    }
    template <class Function>
    static constexpr void
    check_function() noexcept
    {
        static_assert(std::is_invocable_v<Function &, typename detail::parameter<P>::taken...> ||
                          std::is_invocable_v<Function &, const ferry_call *, typename detail::parameter<P>::taken...>,
                      "the host function does not take what the kernel's signature says");
    }
};

} // namespace ferry

#undef FERRYI_CPP_COLD
#undef FERRYI_CPP_VISIBLE
#undef FERRYI_CPP_LIKELY

#endif
