/* SPDX-License-Identifier: MIT */

/*
 * The first program in C++: computes c = a + b on the best device, as vector_add.c does in C.
 *
 * It contains no copy and no clean-up. The launch copies a and b to the device because the kernel
 * reads them, and the view at the end copies c back. FERRY_DEVICE=host runs it without a GPU.
 */

#include <cstdio>
#include <cstdlib>

#include <ferry/ferry.hpp>
#include <ferry/float.h>

using ferry::in;
using ferry::out;
using ferry::span;

namespace
{

constexpr std::size_t count = 1 << 20;

const char cuda_source[] = R"(
extern "C" __global__ void
vector_add(const float *a, const float *b, float *c, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        c[i] = a[i] + b[i];
}
)";

/* The same kernel for devices without CUDA. Ferry calls it once per launch. */
void
add_on_host(span<const float> a, span<const float> b, span<float> c, std::size_t items)
{
    for (std::size_t i = 0; i < items; i++)
        c[i] = a[i] + b[i];
}

/* A buffer of 0, factor, 2 * factor, ... Copies nothing. */
ferry::buffer<float>
multiples(const ferry::context &context, float factor)
{
    ferry::buffer<float> buffer(context, count);
    float next = 0;
    for (float &value : buffer.overwrite_host())
        value = factor * next++;
    return buffer;
}

bool
run()
{
    const ferry::context context;
    const ferry::kernel<in<float>, in<float>, out<float>, std::size_t> add(context, "vector_add", cuda_source, add_on_host);
    const auto a = multiples(context, 1.0f), b = multiples(context, 2.0f);
    ferry::buffer<float> c(context, count);

    /* The time between two events of the stream is the kernel's, and that of a and b on their way to the device. */
    const ferry::stream_ref stream = context.default_stream();
    const ferry::event begin = stream.record(FERRY_EVENT_TIMED);
    add(stream, ferry::grid(count), a, b, c, count);
    const ferry::event end = stream.record(FERRY_EVENT_TIMED);
    std::printf("the kernel and its transfers took %.3f ms\n", ferry::event::elapsed(begin, end) * 1e3);

    std::size_t wrong = 0, i = 0;
    for (const float &value : c.read_host())
        wrong += value != 3.0f * static_cast<float>(i++);

    /* A device that shares the host's memory copies nothing. */
    const ferry_place_info device = context.place_info(1);
    const ferry_transfer_stats moved = context.transfer_stats();
    const std::uint64_t bytes = device.coherent ? 0 : count * sizeof(float);
    const bool least = moved.upload.bytes == 2 * bytes && moved.download.bytes == bytes;
    std::printf("%s: %zu of %zu sums are wrong; %s\n", device.name, wrong, count,
                least ? "nothing crossed twice" : "more crossed than needed");
    return wrong == 0 && least;
}

} // namespace

int
main()
{
    try {
        return run() ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const ferry::error &problem) {
        std::fprintf(stderr, "vector_add: %s (%s)\n", problem.what(), ferry_status_name(problem.status()));
        return EXIT_FAILURE;
    }
}
