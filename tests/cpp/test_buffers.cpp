/* SPDX-License-Identifier: MIT */
/* Tests the buffers, views, leases, copies and errors of <ferry/ferry.hpp> on the devices of
 * FERRY_DEVICE. */
#include "test.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include <ferry/complex.hpp>
#include <ferry/double.h>
#include <ferry/float.h>
#include <ferry/int.h>

#include "color_buffer.h"
#include "sample_buffer.h"

using floats = ferry::buffer<float>;

static_assert(!std::is_copy_constructible_v<floats> && !std::is_copy_assignable_v<floats>);
static_assert(std::is_nothrow_move_constructible_v<floats> && std::is_nothrow_move_assignable_v<floats>);
static_assert(sizeof(floats) == sizeof(void *));
static_assert(std::is_copy_constructible_v<ferry::context> && std::is_nothrow_move_constructible_v<ferry::context>);
static_assert(std::is_copy_constructible_v<ferry::lease<float>>);
template <class View>
constexpr bool stays = !std::is_copy_constructible_v<View> && !std::is_move_constructible_v<View> &&
                       !std::is_copy_assignable_v<View> && !std::is_move_assignable_v<View>;
static_assert(stays<ferry::host_view<float>> && stays<ferry::host_view<const float>>);
static_assert(stays<ferry::device_view<float>> && stays<ferry::device_view<const float>>);
static_assert(std::is_convertible_v<std::vector<float> &, ferry::span<float>>);
static_assert(std::is_convertible_v<ferry::span<float>, ferry::span<const float>>);
static_assert(!std::is_convertible_v<const std::vector<float> &, ferry::span<float>>);
static_assert(!std::is_convertible_v<std::vector<double> &, ferry::span<float>>);
/* As std::span: a temporary that owns its elements is read only. */
static_assert(!std::is_convertible_v<std::vector<float>, ferry::span<float>>);
static_assert(std::is_convertible_v<std::vector<float>, ferry::span<const float>>);

namespace
{

std::vector<float>
counting(std::size_t count)
{
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    return values;
}

std::vector<float>
content(const floats &buffer)
{
    std::vector<float> values(buffer.size());
    buffer.copy_to(values);
    return values;
}

bool
is_coherent(const ferry::context &context)
{
    return context.place_info(1).coherent;
}

void
buffers_live_and_move(const ferry::context &context)
{
    floats a(context, 10), empty;
    EXPECT(a.size() == 10 && a.size_bytes() == 40 && !a.empty() && a && !empty && empty.size() == 0);
    EXPECT(a.state() == FERRY_STATE_UNINITIALIZED && content(a) == std::vector<float>(10));
    ferry_buffer *raw = a.raw();
    floats b(std::move(a));
    EXPECT(b.raw() == raw && a.raw() == nullptr);
    empty = std::move(b);
    EXPECT(empty.raw() == raw);
    floats other = empty.share();
    EXPECT(other.raw() == raw && other.info().handles >= 1);
    empty = floats();
    EXPECT(other.size() == 10);
    floats adopted = floats::adopt(other.detach());
    EXPECT(!other && adopted.raw() == raw);
    floats retained = floats::retain(adopted.raw());
    adopted = floats();
    EXPECT(retained.size() == 10);
    THROWS(ferry::wrong_type, FERRY_ERROR_WRONG_TYPE, ferry::buffer<int32_t>::adopt(retained.raw()));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, other.resize(3));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, (void)other.read_host());
    retained.resize(20);
    EXPECT(retained.size() == 20 && retained.describe().find("float[20]") == 0);
    EXPECT(context.describe().find("float[20]") != std::string::npos);
}

void
buffers_are_found_by_name(const ferry::context &context)
{
    ferry_buffer_options options = {};
    options.name = "heights";
    floats heights(context, counting(5), &options);
    EXPECT(content(floats::find(context, "heights")) == counting(5));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, floats::find(context, "depths"));
    THROWS(ferry::wrong_type, FERRY_ERROR_WRONG_TYPE, ferry::buffer<int32_t>::find(context, "heights"));
    heights = floats();
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, floats::find(context, "heights"));
}

void
views_are_ranges(const ferry::context &context)
{
    floats buffer(context, counting(100));
    {
        const auto all = buffer.read_host();
        EXPECT(all.size() == 100 && std::accumulate(all.begin(), all.end(), 0.0f) == 4950.0f);
        const auto part = buffer.read_host(10, 5);
        EXPECT(part.size() == 5 && part[0] == 10.0f && part.span().subspan(2)[0] == 12.0f);
        const auto tail = buffer.read_host(90);
        EXPECT(tail.size() == 10 && tail.end()[-1] == 99.0f);
        const auto none = buffer.read_host(100, 0);
        EXPECT(none.empty() && none.begin() == none.end());
    }
    {
        auto all = buffer.update_host();
        for (float &value : all)
            value *= 2.0f;
        all[0] = -1.0f;
    }
    {
        auto part = buffer.overwrite_host(50, 2);
        part[0] = part[1] = 7.0f;
    }
    const std::vector<float> now = content(buffer);
    EXPECT(now[0] == -1.0f && now[1] == 2.0f && now[50] == 7.0f && now[51] == 7.0f && now[52] == 104.0f);
#if __cplusplus >= 202002L
    auto again = buffer.update_host();
    std::span<float> standard = again;
    EXPECT(standard.size() == 100 && ferry::span<float>(standard).data() == again.data());
#endif
    auto view = buffer.view(50, 3);
    EXPECT(view.size() == 3);
    THROWS(ferry::out_of_range, FERRY_ERROR_OUT_OF_RANGE, (void)buffer.read_host(100, 1));
    EXPECT(buffer.reinterpret<int32_t>().size() == 100);
    THROWS(ferry::wrong_type, FERRY_ERROR_WRONG_TYPE, buffer.reinterpret<double>(4, ferry::rest));
}

/* A function of a library that only reads what it was lent. */
float
sum(const ferry::buffer<const float> &lent)
{
    const auto values = lent.read_host();
    return std::accumulate(values.begin(), values.end(), 0.0f);
}

void
read_only_views_refuse_writes(const ferry::context &context)
{
    floats buffer(context, counting(100)), other(context, 10);
    ferry::buffer<const float> lent = buffer.read_only(10, 5);
    EXPECT(lent && lent.size() == 5 && lent.info().read_only && !buffer.info().read_only);
    EXPECT(sum(lent) == 60.0f && sum(lent.view(1, 2)) == 23.0f && sum(lent.read_only(4)) == 14.0f);
    buffer.fill(2.0f);
    EXPECT(sum(lent) == 10.0f && sum(lent.share()) == 10.0f && content(lent.as_buffer()).size() == 5);
    other.copy(5, lent);
    ferry::copy({other.region(0, lent, 0, 5)});
    EXPECT(content(other) == std::vector<float>(10, 2.0f));
    ferry::buffer<int32_t> whole(context, 5);
    whole.convert(0, lent, FERRY_CONVERT_SATURATE);
    EXPECT(whole.read_host()[4] == 2 && lent.reinterpret<int32_t>().info().read_only);
    lent.sync_to(1);
    EXPECT(lent.is_current(1) && lent.hold(1) != nullptr);
    lent.release(1);
    /* A function that the type system does not guard is refused by the library. */
    floats writes = floats::adopt(lent.detach());
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, writes.fill(1.0f));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, (void)writes.update_host());
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, (void)sum(lent));
    THROWS(ferry::out_of_range, FERRY_ERROR_OUT_OF_RANGE, buffer.read_only(99, 2));
    EXPECT(sum(buffer.read_only()) == 200.0f);
}

void
views_end_early(const ferry::context &context)
{
    floats buffer(context, counting(10));
    auto write = buffer.update_host();
    THROWS(ferry::busy, FERRY_ERROR_BUSY, (void)buffer.read_host());
    write[3] = 33.0f;
    write.close();
    EXPECT(write.data() == nullptr && write.size() == 0 && write.begin() == write.end());
    write.close();
    write.abandon();
    const auto read = buffer.read_host();
    EXPECT(read[3] == 33.0f);
    THROWS(ferry::busy, FERRY_ERROR_BUSY, (void)buffer.update_host());
    THROWS(ferry::busy, FERRY_ERROR_BUSY, buffer.wait_available(FERRY_UPDATE, 0));
    buffer.wait_available(FERRY_READ, 0);
    EXPECT(buffer.info().scopes == 1);
}

/* Checks that an update fetches the old bytes, and an overwrite does not. */
void
updates_fetch_what_is_newer(const ferry::context &context)
{
    if (is_coherent(context))
        return;
    floats buffer(context, counting(10));
    buffer.sync_to(1);
    buffer.mark_dirty(1);
    context.snapshot("/dev/null");
    context.reset_stats();
    {
        auto write = buffer.overwrite_host(0, 5);
        std::fill(write.begin(), write.end(), -1.0f);
    }
    EXPECT(context.transfer_stats().download.bytes == 0);
    {
        auto write = buffer.update_host();
        EXPECT(write[0] == -1.0f && write[9] == 9.0f);
    }
    EXPECT(context.transfer_stats().download.bytes == 20);
    {
        const auto read = buffer.read_device(context.default_stream());
        EXPECT(context.transfer_stats().upload.bytes == 40);
    }
    buffer.mark_dirty(0);
    {
        const auto write = buffer.overwrite_device(context.default_stream(), 0, 4);
    }
    {
        const auto write = buffer.update_device(context.default_stream(), 4, 2);
    }
    EXPECT(context.transfer_stats().upload.bytes == 48);
}

/* If an exception abandons a write, other places keep their old bytes. The old bytes are lost if
 * host and device share their memory. */
void
exceptions_abandon_writes(const ferry::context &context)
{
    floats buffer(context, counting(10));
    buffer.sync_to(1);
    try {
        auto write = buffer.update_host();
        write[0] = 99.0f;
        throw std::runtime_error("half done");
    } catch (const std::runtime_error &) {
    }
    EXPECT(buffer.info().scopes == 0);
    if (!is_coherent(context))
        EXPECT(content(buffer) == counting(10));
    try {
        const auto read = buffer.read_host();
        throw std::runtime_error("only read");
    } catch (const std::runtime_error &) {
    }
    EXPECT(buffer.info().scopes == 0);
    {
        auto write = buffer.update_host();
        write[1] = 50.0f;
        write.abandon();
    }
    if (!is_coherent(context))
        EXPECT(content(buffer) == counting(10));
}

/* Checks that <ferry/ferry.hpp> and the standard library count the same number of uncaught
 * exceptions. Where it can, the header reads the counter of the C++ runtime itself, without a
 * function call. */
void
expect_same_count(int expected)
{
    EXPECT(ferry::detail::uncaught_exceptions() == expected && std::uncaught_exceptions() == expected);
}

struct counts_when_it_ends {
    int expected;
    ~counts_when_it_ends() noexcept(false)
    {
        expect_same_count(expected);
        if (expected < 3) {
            try {
                const counts_when_it_ends inner = {expected + 1};
                throw std::runtime_error("one more");
            } catch (const std::runtime_error &) {
                expect_same_count(expected);
            }
        }
    }
};

void
exceptions_are_counted(const ferry::context &)
{
    const auto count = []() {
        expect_same_count(0);
        try {
            const counts_when_it_ends last = {1};
            throw 1;
        } catch (int) {
            expect_same_count(0);
        }
        expect_same_count(0);
    };
    count();
    std::exception_ptr problem;
    std::thread([&]() {
        try {
            count();
        } catch (...) {
            problem = std::current_exception();
        }
    }).join();
    if (problem)
        std::rethrow_exception(problem);
}

/* Opens and closes a view in a destructor while an exception unwinds the stack. The write through
 * this view must take effect as usual. */
struct writes_in_destructor {
    floats &buffer;
    ~writes_in_destructor()
    {
        auto write = buffer.update_host();
        write[2] = 42.0f;
    }
};

void
destructors_may_write(const ferry::context &context)
{
    floats buffer(context, counting(10));
    buffer.sync_to(1);
    try {
        writes_in_destructor last = {buffer};
        throw std::runtime_error("on its way");
    } catch (const std::runtime_error &) {
    }
    EXPECT(content(buffer)[2] == 42.0f && !(buffer.is_current(1) && !is_coherent(context)));
}

void
device_views_have_addresses(const ferry::context &context)
{
    floats buffer(context, counting(10));
    ferry::stream stream(context), second(context);
    {
        const auto read = buffer.read_device(stream);
        EXPECT(read.get() != nullptr && read.size() == 10 && buffer.is_current(1));
        auto part = buffer.read_device(stream, 4, 2);
        EXPECT(part.get() == read.get() + 4 && part.size() == 2);
        part.wait();
    }
    {
        auto write = buffer.update_device(context.default_stream());
        EXPECT(write.get() != nullptr);
        write.close();
        EXPECT(write.get() == nullptr);
    }
    EXPECT(is_coherent(context) || !buffer.is_current(0));
    {
        auto write = buffer.overwrite_device(stream);
        second.wait(stream.record());
        write.close_on(second);
        write.close_on(second);
    }
    {
        auto write = buffer.update_device(stream);
        THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, write.close_on(nullptr));
        write.close_unordered();
        write.close_unordered();
    }
    EXPECT(buffer.info().scopes == 0);
    stream.synchronize();
}

void
graphs_repeat_their_work(const ferry::context &context)
{
    floats source(context, counting(10)), target(context, 10);
    ferry::stream stream(context);
    ferry_copy_options on = {};
    on.stream = stream.raw();
    ferry::graph graph(stream, "step"), empty;
    ferry::copy({target.region(0, source, 0, 10)}, &on);
    target.fill(0.0f, 0, 2, &on);
    THROWS(ferry::unsupported, FERRY_ERROR_UNSUPPORTED, stream.synchronize());
    graph.end();
    EXPECT(content(target)[3] == 0.0f);
    if (context.place_count() == 1)
        graph.launch();
    else
        graph.launch(stream);
    EXPECT(content(target)[1] == 0.0f && content(target)[3] == content(source)[3]);
    source.fill(9.0f);
    ferry::graph moved(std::move(graph));
    moved.launch(stream);
    EXPECT(content(target)[1] == 0.0f && content(target)[3] == 9.0f);
    THROWS(ferry::busy, FERRY_ERROR_BUSY, target.resize(20));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, empty.launch());
    ferry::graph again = ferry::graph::adopt(moved.detach());
    again = ferry::graph(stream); /* which is recorded, and then discarded */
    again = ferry::graph();
    target.resize(20);
    stream.synchronize();
}

void
leases_outlive_their_buffers(const ferry::context &context)
{
    ferry::lease<const float> read;
    ferry::lease_options options;
    options.label = "step 12";
    {
        ferry::context own(context);
        floats buffer(own, counting(10));
        auto write = buffer.lease_update(options);
        try {
            (void)buffer.read_host();
            EXPECT(false);
        } catch (const ferry::busy &problem) {
            EXPECT(std::string(problem.what()).find("step 12") != std::string::npos);
        }
        auto second = write;
        write.span()[9] = 90.0f;
        write = ferry::lease<float>();
        EXPECT(second.is_open() && second.size() == 10);
        second.close();
        EXPECT(!second.is_open() && second.get() != nullptr);
        second = ferry::lease<float>();
        options.offset = 8;
        read = buffer.lease_read(options);
    }
    EXPECT(read.size() == 2 && read.span()[1] == 90.0f);
    std::thread([&]() { read = ferry::lease<const float>(); }).join();
    floats buffer(context, counting(4));
    ferry::lease_options device;
    device.place = 1;
    auto on_device = buffer.lease_overwrite(device);
    EXPECT(on_device.get() != nullptr && on_device.size() == 4);
    THROWS(ferry::invalid_state, FERRY_ERROR_INVALID_STATE, on_device.span());
    on_device.abandon();
    EXPECT(!on_device.is_open());
}

/* What is left of an owner that was moved from, or gave up its handle, equals one that was made without
 * arguments. */
void
leases_leave_nothing_behind(const ferry::context &context)
{
    floats buffer(context, counting(4));
    ferry::lease_options device;
    device.place = 1;
    const auto is_empty = [](const ferry::lease<const float> &lease) {
        return !lease && lease.raw() == nullptr && lease.get() == nullptr && lease.size() == 0 && lease.span().empty() &&
               !lease.is_open();
    };
    auto first = buffer.lease_read();
    ferry::lease<const float> second(std::move(first)), third;
    EXPECT(is_empty(first) && second.size() == 4 && second.get() != nullptr);
    third = std::move(second);
    EXPECT(is_empty(second) && third.span()[3] == 3.0f);
    auto &same = third;
    third = std::move(same);
    EXPECT(third.size() == 4 && third.span()[3] == 3.0f && third.is_open());
    ferry_lease *raw = third.detach();
    EXPECT(is_empty(third) && raw != nullptr);
    ferry_lease_destroy(&raw);
    auto on_device = buffer.lease_read(device);
    third = std::move(on_device);
    EXPECT(is_empty(on_device) && third.size() == 4);
}

void
owners_leave_nothing_behind(const ferry::context &context)
{
    ferry::context counted(context), taken(std::move(counted));
    EXPECT(!counted && counted.raw() == nullptr && counted.place_count() == 0 && taken.place_count() > 0);
    floats buffer(context, counting(4)), other(std::move(buffer));
    EXPECT(!buffer && buffer.size() == 0 && buffer.empty() && other.size() == 4);
    ferry::event event = ferry::stream(context, 1).record(), later(std::move(event));
    EXPECT(!event && event.raw() == nullptr && later.raw() != nullptr);
    later.synchronize();
    const auto nothing = [](ferry::span<const float>) {};
    ferry::kernel<ferry::in<float>> kernel(context, "nothing", nullptr, nothing), moved(std::move(kernel));
    EXPECT(!kernel && kernel.raw() == nullptr && moved.raw() != nullptr);
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, kernel(nullptr, ferry::grid(1), other));
}

void
copies_move_ranges(const ferry::context &context)
{
    floats a(context, 10), b(context, counting(10));
    a.copy_from(counting(4), 2);
    EXPECT((content(a) == std::vector<float>{0, 0, 0, 1, 2, 3, 0, 0, 0, 0}));
    a.copy(0, b, 5, 3);
    a.copy(8, a, 0, 2);
    EXPECT((content(a) == std::vector<float>{5, 6, 7, 1, 2, 3, 0, 0, 5, 6}));
    std::array<float, 2> two = {};
    a.copy_to(two, 8);
    EXPECT(two[0] == 5.0f && two[1] == 6.0f);
    a.fill(1.5f);
    a.fill(2.5f, 9);
    EXPECT(content(a)[8] == 1.5f && content(a)[9] == 2.5f);
    THROWS(ferry::out_of_range, FERRY_ERROR_OUT_OF_RANGE, a.copy_to(two, 9));

    std::vector<float> target(10, -1.0f);
    ferry::event done = b.copy_to_async(target);
    done.synchronize();
    EXPECT(done.is_done() && target == counting(10) && done.progress().done == 40 && done.progress().total == 40);
    ferry::event started = a.copy_from_async(target);
    started.synchronize();
    EXPECT(content(a) == counting(10));
}

/* Copies two rows of three elements from the left half of one 2 by 6 array to the right half of a
 * second one. */
void
regions_have_rows(const ferry::context &context)
{
    floats source(context, counting(12)), target(context, 12);
    ferry_copy_region rows = target.region(3, source, 0, 3);
    rows.rows = 2;
    rows.target.row_pitch = rows.source.row_pitch = 6;
    float last[2] = {20.0f, 21.0f}, out[1] = {};
    ferry::copy({rows, target.region_from(0, last), target.region_to(1, out)});
    EXPECT((content(target) == std::vector<float>{20, 21, 0, 0, 1, 2, 0, 0, 0, 6, 7, 8}) && out[0] == 21.0f);
    const std::vector<ferry_copy_region> list = {target.region(0, source, 6, 2)};
    ferry::copy(list);
    ferry::copy_async({source.region(0, target, 9, 3)}).synchronize();
    ferry::copy_async(list).synchronize();
    EXPECT(content(target)[0] == 6.0f && content(source)[1] == 7.0f);
}

void
conversions_have_policies(const ferry::context &context)
{
    floats narrow(context, 4);
    ferry::buffer<double> wide(context, 4);
    const std::vector<double> numbers = {1.5, -2.5, 3.0, 1e300};
    narrow.convert_from<double>(numbers, FERRY_CONVERT_SATURATE);
    std::vector<int32_t> whole(2);
    narrow.convert_to<int32_t>(whole, FERRY_CONVERT_SATURATE);
    EXPECT(whole[0] == 2 && whole[1] == -2);
    wide.convert(0, narrow, FERRY_CONVERT_SATURATE, 0, 3);
    EXPECT(wide.read_host()[1] == -2.5);
    try {
        narrow.convert_from<double>(numbers, FERRY_CONVERT_CHECK);
        EXPECT(false);
    } catch (const ferry::out_of_range &problem) {
        EXPECT(problem.index() == 3);
    }
    narrow.convert_from_async<double>(numbers, FERRY_CONVERT_TRUNCATE).synchronize();
    narrow.convert_to_async<int32_t>(whole, FERRY_CONVERT_TRUNCATE).synchronize();
    EXPECT(whole[0] == 1 && whole[1] == -2);
    wide.convert_async(0, narrow, FERRY_CONVERT_SATURATE).synchronize();
    EXPECT(wide.read_host()[0] == 1.5);
    wide.fill_async(4).synchronize();
    wide.copy_async(0, wide, 2, 1).synchronize();
    wide.sync_to_async(0).synchronize();
    EXPECT(wide.is_current(0) && wide.read_host()[3] == 4);
    ferry_copy_options by_truncation = {};
    by_truncation.convert = FERRY_CONVERT_TRUNCATE;
    ferry_copy_region region = narrow.region(0, narrow, 0, 1);
    region.target.buffer = wide.raw();
    region.target.element = ferry::element<double>();
    ferry::copy({region}, &by_truncation);
}

void
files_are_loaded(const ferry::context &context)
{
    char path[] = "/tmp/ferry-cpp-XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0 && close(file) == 0);
    floats a(context, counting(100)), b(context, 100);
    a.store(path);
    b.load(path, 40, 0, 90);
    EXPECT(content(b)[0] == 10.0f && content(b)[89] == 99.0f && content(b)[90] == 0.0f);
    b.load_async(path).synchronize();
    EXPECT(content(b) == counting(100));
    a.store_async(path, 0, 50).synchronize();
    THROWS(ferry::io_error, FERRY_ERROR_IO, b.load(path));
    EXPECT(unlink(path) == 0);
}

void
memory_is_wrapped(const ferry::context &context)
{
    std::vector<float> memory = counting(10);
    {
        floats wrapped = floats::wrap_host(context, memory);
        EXPECT(wrapped.info().borrowed);
        (void)wrapped.update_device(context.default_stream()).get();
        wrapped.unwrap();
        EXPECT(!wrapped);
    }
    {
        std::vector<float> gone = counting(3);
        floats wrapped = floats::wrap_host(context, gone);
        gone = std::vector<float>();
        wrapped.abandon();
        EXPECT(!wrapped);
    }
    floats owner(context, counting(10));
    float *address = owner.hold(1);
    owner.sync_to(1);
    {
        floats device = floats::wrap_device(context, address, 10, context.default_stream());
        EXPECT(content(device) == counting(10));
    }
    owner.release(1);
    THROWS(ferry::invalid_state, FERRY_ERROR_INVALID_STATE, owner.release(1));
}

/* Another context has other locks, as another process has; tests/process has real ones. */
void
memory_is_shared(const ferry::context &context)
{
    ferry_buffer_options options = {};
    options.memory = FERRY_MEMORY_SHARED;
    floats made(context, counting(10), &options);
    const ferry_share share = made.export_shared();
    const ferry::context other("host");
    floats theirs = floats::import_shared(other, share);
    THROWS(ferry::busy, FERRY_ERROR_BUSY, theirs.acquire_shared());
    EXPECT(theirs.info().away && !made.info().away);
    (void)made.update_device(context.default_stream()).get();
    made.release_shared();
    THROWS(ferry::invalid_state, FERRY_ERROR_INVALID_STATE, (void)made.read_host());
    theirs.acquire_shared(other.default_stream());
    EXPECT(content(theirs) == counting(10));
    theirs.fill(3.0f);
    theirs.release_shared(other.default_stream());
    made.acquire_shared();
    EXPECT(content(made) == std::vector<float>(10, 3.0f));
    made.release_shared();
    ferry_share_options named = {};
    named.name = "lent";
    const auto lent = ferry::buffer<const float>::import_shared(other, share, &named);
    const auto again = ferry::buffer<const float>::import_shared(context, share);
    lent.acquire_shared();
    again.acquire_shared();
    EXPECT(lent.info().read_only && lent.read_host()[9] == 3.0f && again.read_host()[0] == 3.0f);
    EXPECT(std::string(lent.info().name) == "lent" && lent.export_shared().bytes[0] == share.bytes[0]);
    lent.release_shared();
    again.release_shared();
    THROWS(ferry::wrong_type, FERRY_ERROR_WRONG_TYPE, ferry::buffer<int32_t>::import_shared(other, share));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, floats::import_shared(other, ferry_share()));
    THROWS(ferry::invalid_state, FERRY_ERROR_INVALID_STATE, (void)floats(context, 1).export_shared());
}

void
places_are_told(const ferry::context &context)
{
    floats buffer(context, counting(10));
    EXPECT(context.place_count() >= 1 && context.memory_info(1).total > 0);
    buffer.reserve(1);
    buffer.prefetch(1);
    buffer.sync_to(1, 2, 3);
    buffer.wait_idle(1);
    buffer.sync_to(1);
    EXPECT(buffer.is_current(1) && buffer.state() != FERRY_STATE_UNINITIALIZED && !buffer.is_page_locked());
    buffer.mark_dirty(0);
    EXPECT(is_coherent(context) || !buffer.is_current(1));
    if (!is_coherent(context)) {
        buffer.invalidate(1);
        buffer.sync_to(1);
        buffer.evict(1);
        EXPECT(!buffer.is_current(1) && context.transfer_stats().upload.bytes > 0);
    }
    EXPECT(content(buffer) == counting(10));
    buffer.discard(0, 5);
    EXPECT(content(buffer)[4] == 0.0f && content(buffer)[5] == 5.0f);
    context.reset_stats();
    EXPECT(context.transfer_stats().upload.bytes == 0);
    THROWS(ferry::unsupported, FERRY_ERROR_UNSUPPORTED, buffer.advise(FERRY_ADVISE_READ_MOSTLY, 1));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, context.place_info(99));
}

void
streams_and_events_are_owned(const ferry::context &context)
{
    ferry::stream stream(context, 1);
    ferry_stream *raw = stream.raw();
    ferry::stream moved(std::move(stream));
    EXPECT(!stream && moved.raw() == raw && moved.place() == 1);
    ferry::stream wrapped = ferry::stream::wrap(context, 1, moved.native());
    EXPECT(wrapped.native() == moved.native());
    ferry::event begin = moved.record(FERRY_EVENT_TIMED), end = moved.record(FERRY_EVENT_TIMED);
    EXPECT(ferry::event::elapsed(begin, end) >= 0.0);
    ferry::stream_ref borrowed = moved;
    borrowed.flush();
    borrowed.synchronize();
    end.synchronize();
    EXPECT(end.is_done() && borrowed.place() == 1 && borrowed.native() == moved.native());
    end.cancel();
    moved.flush();
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, ferry::event().synchronize());
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, ferry::stream(context, 99));
    const ferry::stream adopted = ferry::stream::adopt(moved.detach());
    EXPECT(adopted.raw() == raw);
}

void
contexts_are_counted(const ferry::context &context)
{
    ferry::context second = context, third;
    EXPECT(second.raw() == context.raw() && third.raw() != context.raw());
    third = second;
    EXPECT(third.raw() == context.raw());
    floats buffer(third, 3);
    second = ferry::context("host");
    EXPECT(second.place_info(1).coherent);
    const ferry::context shared = ferry::context::shared(), again = ferry::context::shared();
    EXPECT(shared.raw() == again.raw());
    ferry_context_options options = {};
    options.devices = "no such device";
    THROWS(ferry::error, FERRY_ERROR_INVALID_ARGUMENT, ferry::context{options});
    THROWS(ferry::wrong_context, FERRY_ERROR_WRONG_CONTEXT, (void)buffer.read_device(second.default_stream()));
}

/* Tests less common elements: a struct with an array, an enum, complex numbers, and the bytes of a
 * half. */
void
elements_have_types(const ferry::context &context)
{
    ferry::buffer<test_sample> samples(context, 5);
    samples.fill(test_sample{7, {1.0f, 2.0f, 3.0f}}, 2, 1);
    {
        const auto view = samples.read_host();
        EXPECT(view[2].id == 7 && view[2].v[2] == 3.0f && view[3].id == 0);
    }
    ferry::buffer<test_color> colors(context, 3);
    colors.fill(TEST_BLUE);
    EXPECT(colors.read_host()[2] == TEST_BLUE);
    const std::vector<std::complex<float>> numbers = {{1.0f, 2.0f}, {3.0f, 4.0f}};
    ferry::buffer<std::complex<float>> complex(context, numbers);
    auto same = ferry::buffer<ferry_complex_float>::retain(complex.raw());
    EXPECT(same.read_host()[1].imaginary == 4.0f);
    ferry::buffer<std::complex<double>> wide(context, 2);
    wide.convert(0, complex, FERRY_CONVERT_SATURATE);
    EXPECT(wide.read_host()[1].real() == 3.0);
}

template <ferry_status Status>
void
expect_class()
{
    THROWS(ferry::status_error<Status>, Status, ferry::throw_error(Status));
}

void
each_status_has_a_class(const ferry::context &context)
{
    THROWS(ferry::out_of_range, FERRY_ERROR_OUT_OF_RANGE, (void)floats(context, 1).view(2));
    expect_class<FERRY_ERROR_INVALID_ARGUMENT>();
    expect_class<FERRY_ERROR_OUT_OF_RANGE>();
    expect_class<FERRY_ERROR_OVERFLOW>();
    expect_class<FERRY_ERROR_OUT_OF_MEMORY>();
    expect_class<FERRY_ERROR_CONFLICT>();
    expect_class<FERRY_ERROR_BUSY>();
    expect_class<FERRY_ERROR_WRONG_TYPE>();
    expect_class<FERRY_ERROR_WRONG_CONTEXT>();
    expect_class<FERRY_ERROR_INVALID_STATE>();
    expect_class<FERRY_ERROR_UNSUPPORTED>();
    expect_class<FERRY_ERROR_NO_DEVICE>();
    expect_class<FERRY_ERROR_DEVICE>();
    expect_class<FERRY_ERROR_DEVICE_LOST>();
    expect_class<FERRY_ERROR_COMPILE>();
    expect_class<FERRY_ERROR_IO>();
    expect_class<FERRY_ERROR_CANCELLED>();
    THROWS(ferry::error, static_cast<ferry_status>(31), ferry::throw_error(static_cast<ferry_status>(31)));
    THROWS(ferry::overflow, FERRY_ERROR_OVERFLOW, floats(context, SIZE_MAX / 2));
    try {
        ferry::throw_error(FERRY_ERROR_BUSY);
    } catch (const std::exception &) {
    }
    ferry::check(FERRY_OK);
}

} // namespace

int
main()
{
    RUN(buffers_live_and_move);
    RUN(buffers_are_found_by_name);
    RUN(views_are_ranges);
    RUN(read_only_views_refuse_writes);
    RUN(views_end_early);
    RUN(updates_fetch_what_is_newer);
    RUN(exceptions_abandon_writes);
    RUN(exceptions_are_counted);
    RUN(destructors_may_write);
    RUN(device_views_have_addresses);
    RUN(graphs_repeat_their_work);
    RUN(leases_outlive_their_buffers);
    RUN(leases_leave_nothing_behind);
    RUN(owners_leave_nothing_behind);
    RUN(copies_move_ranges);
    RUN(regions_have_rows);
    RUN(conversions_have_policies);
    RUN(files_are_loaded);
    RUN(memory_is_wrapped);
    RUN(memory_is_shared);
    RUN(places_are_told);
    RUN(streams_and_events_are_owned);
    RUN(contexts_are_counted);
    RUN(elements_have_types);
    RUN(each_status_has_a_class);
    return test::end();
}
