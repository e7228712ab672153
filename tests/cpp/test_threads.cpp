/* SPDX-License-Identifier: MIT */
/* Tests C++ objects that several threads use, on the devices of FERRY_DEVICE. The thread sanitizer
 * checks these tests for data races. */
#include "test.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include <ferry/float.h>
#include <ferry/int.h>

using floats = ferry::buffer<float>;

namespace
{

constexpr std::size_t threads = 4, part = 100;

/* Runs body(0), body(1), ... in parallel threads. If one of them throws an exception,
 * in_threads() throws it again. */
template <class Body>
void
in_threads(const Body &body)
{
    std::vector<std::exception_ptr> problems(threads);
    std::vector<std::thread> all;
    for (std::size_t number = 0; number < threads; number++)
        all.emplace_back([&, number]() {
            try {
                body(number);
            } catch (...) {
                problems[number] = std::current_exception();
            }
        });
    for (std::thread &one : all)
        one.join();
    for (const std::exception_ptr &problem : problems)
        if (problem)
            std::rethrow_exception(problem);
}

void
await(const std::atomic<bool> &flag)
{
    while (!flag.load())
        std::this_thread::yield();
}

/* Threads share a const view. The first call of its size() queries the library and keeps the
 * answer. */
void
threads_share_a_view(const ferry::context &context)
{
    floats buffer(context, threads * part);
    buffer.fill(2.0f);
    const auto view = buffer.read_host();
    in_threads([&](std::size_t) {
        EXPECT(view.size() == threads * part);
        float sum = 0;
        for (float value : view)
            sum += value;
        EXPECT(sum == 2.0f * threads * part);
        EXPECT(buffer.read_host(0, 5).size() == 5);
    });
}

/* Threads share one buffer object. They write disjoint ranges, which must not conflict. */
void
threads_write_ranges(const ferry::context &context)
{
    floats buffer(context, threads * part);
    buffer.sync_to(1);
    in_threads([&](std::size_t number) {
        for (int round = 0; round < 20; round++) {
            for (float &value : buffer.update_host(number * part, part))
                value += static_cast<float>(number);
            const auto here = buffer.update_device(context.default_stream(), number * part, part);
            EXPECT(here.get() != nullptr);
        }
    });
    const auto values = buffer.read_host();
    for (std::size_t i = 0; i < values.size(); i++)
        EXPECT(values[i] == 20.0f * static_cast<float>(i / part));
}

/* Leases, copied contexts and shared buffers end on the thread that destroys their last
 * reference. */
void
owners_end_on_any_thread(const ferry::context &)
{
    std::optional<ferry::context> context(std::in_place);
    std::optional<floats> buffer(std::in_place, *context, threads * part);
    std::vector<ferry::lease<float>> leases;
    std::vector<ferry::context> contexts(threads, *context);
    for (std::size_t i = 0; i < threads; i++) {
        ferry::lease_options options;
        options.offset = i * part;
        options.count = part;
        leases.push_back(buffer->lease_update(options));
    }
    std::vector<floats> shares;
    for (std::size_t i = 0; i < threads; i++)
        shares.push_back(buffer->share());
    buffer.reset();
    context.reset();
    in_threads([&](std::size_t number) {
        ferry::lease<float> mine = leases[number];
        leases[number] = {};
        for (float &value : mine.span())
            value = static_cast<float>(number);
        mine.close();
        EXPECT(shares[number].read_host(number * part, part)[part - 1] == static_cast<float>(number));
        { const floats last = std::move(shares[number]); }
        { const ferry::context last = std::move(contexts[number]); }
    });
}

/* Threads launch one kernel object, each on its own buffer, with events between the streams. */
void
threads_launch(const ferry::context &context)
{
    if (std::strcmp(context.place_info(1).kind, "cuda") == 0)
        return; // no host functions
    const ferry::kernel<ferry::inout<float>, float> add(context, "add", nullptr, [](ferry::span<float> values, float by) {
        for (float &value : values)
            value += by;
    });
    floats common(context, part);
    ferry::event before;
    {
        ferry::stream first(context);
        add(first, ferry::grid(part), common, 1.0f);
        before = first.record();
        first.synchronize();
    }
    in_threads([&](std::size_t number) {
        floats own(context, part);
        ferry::stream stream(context);
        stream.wait(before);
        for (int round = 0; round < 20; round++) {
            add(stream, ferry::grid(part), own, static_cast<float>(number));
            add(stream, ferry::grid(part), common, 1.0f);
        }
        EXPECT(own.read_host()[part - 1] == 20.0f * static_cast<float>(number));
        stream.synchronize();
    });
    EXPECT(common.read_host()[0] == 1.0f + 20.0f * threads);
}

/* Ferry's threads read and write the program's memory until the event of an asynchronous call is
 * reached. */
void
copies_run_beside(const ferry::context &context)
{
    floats buffer(context, threads * part);
    in_threads([&](std::size_t number) {
        std::vector<float> values(part, static_cast<float>(number)), back(part);
        buffer.copy_from_async(values, number * part).synchronize();
        const ferry::event done = buffer.copy_to_async(back, number * part);
        done.synchronize();
        EXPECT(back == values && done.is_done());
    });
}

/* An object whose destructor waits for a second thread while an exception unwinds the stack. The
 * exception must not affect the writes of the second thread. */
struct waits_for_the_other {
    std::atomic<bool> &begun;
    const std::atomic<bool> &ended;
    ~waits_for_the_other()
    {
        begun = true;
        await(ended);
    }
};

void
exceptions_are_of_one_thread(const ferry::context &context)
{
    floats whole(context, part), half(context, part);
    whole.sync_to(1);
    half.sync_to(1);
    std::atomic<bool> begun = false, ended = false;
    std::thread thrower([&]() {
        try {
            auto write = half.update_host();
            write[0] = 1.0f;
            const waits_for_the_other wait = {begun, ended};
            throw std::runtime_error("on its way");
        } catch (const std::runtime_error &) {
        }
    });
    await(begun);
    {
        auto write = whole.update_host();
        write[0] = 1.0f;
    }
    ended = true;
    thrower.join();
    const bool coherent = context.place_info(1).coherent;
    EXPECT(whole.read_host()[0] == 1.0f && (coherent || !whole.is_current(1)));
    EXPECT(coherent || (half.read_host()[0] == 0.0f && half.is_current(1)));
}

} // namespace

int
main()
{
    RUN(threads_share_a_view);
    RUN(threads_write_ranges);
    RUN(owners_end_on_any_thread);
    RUN(threads_launch);
    RUN(copies_run_beside);
    RUN(exceptions_are_of_one_thread);
    return test::end();
}
