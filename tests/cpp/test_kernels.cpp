/* SPDX-License-Identifier: MIT */
/* Tests the typed kernels of <ferry/ferry.hpp> on the devices of FERRY_DEVICE. If the driver is
 * fakecuda, it runs functions of this program as the kernels. A GPU runs their CUDA source. */
#include "test.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <vector>

#include <ferry/float.h>
#include <ferry/int.h>

#include "sample_buffer.h"

using ferry::in;
using ferry::inout;
using ferry::out;

namespace
{

bool
is_cuda(const ferry::context &context)
{
    return std::strcmp(context.place_info(1).kind, "cuda") == 0;
}

const char axpy_source[] = "extern \"C\" __global__ void cpp_axpy(float a, const float *x, float *y, size_t n)\n"
                           "{ size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }\n";

using axpy_kernel = ferry::kernel<float, in<float>, inout<float>, std::size_t>;

void
axpy_on_host(float a, ferry::span<const float> x, ferry::span<float> y, std::size_t n)
{
    for (std::size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* The host function that fakecuda runs for the kernel's entry point. */
extern "C" void
axpy_on_device(void **parameters, const unsigned[3], const unsigned[3])
{
    float a;
    const float *x;
    float *y;
    std::size_t n;
    std::memcpy(&a, parameters[0], sizeof(a));
    std::memcpy(&x, parameters[1], sizeof(x));
    std::memcpy(&y, parameters[2], sizeof(y));
    std::memcpy(&n, parameters[3], sizeof(n));
    axpy_on_host(a, {x, n}, {y, n}, n);
}

/* Registers the host function with fakecuda. Returns false if the driver is not fakecuda. */
bool
register_axpy()
{
    using function = void(void **, const unsigned[3], const unsigned[3]);
    using registers = void(const char *, function *, int, const std::size_t *);
    static const std::size_t sizes[] = {sizeof(float), sizeof(void *), sizeof(void *), sizeof(std::size_t)};
    const char *path = std::getenv("FERRY_CUDA_LIBRARY");
    void *driver = dlopen(path != nullptr ? path : "libcuda.so.1", RTLD_NOW);
    void *found = driver != nullptr ? dlsym(driver, "fakecuda_register_kernel") : nullptr;
    if (found != nullptr)
        reinterpret_cast<registers *>(found)("cpp_axpy", axpy_on_device, 4, sizes);
    return found != nullptr;
}

/* Creates the kernel. A GPU needs NVRTC to compile the source, so the case is skipped on a machine
 * that has a GPU but not NVRTC. */
axpy_kernel
make_axpy(const ferry::context &context)
{
    const bool on_gpu = is_cuda(context) && !register_axpy();
    try {
        return axpy_kernel(context, "cpp_axpy", axpy_source, axpy_on_host);
    } catch (const ferry::unsupported &missing) {
        if (on_gpu)
            throw test::skip(missing.what());
        throw;
    }
}

void
kernels_run(const ferry::context &context)
{
    ferry::buffer<float> x(context, 100), y(context, 100);
    x.fill(2.0f);
    y.fill(1.0f);
    const axpy_kernel axpy = make_axpy(context);
    ferry::stream stream(context);
    axpy(stream, ferry::grid(100), 3.0f, x, y, 100);
    axpy(context.default_stream(), ferry::grid(10), 1.0f, x.range(0, 10), y.range(90), 10);
    const ferry::buffer<float> constant = x.share();
    axpy(stream, ferry::grid(1), 1.0f, constant.range(0, 1), y.range(0, 1), 1);
    const auto result = y.read_host();
    EXPECT(result[0] == 9.0f && result[1] == 7.0f && result[89] == 7.0f && result[90] == 9.0f && result[99] == 9.0f);
}

void
kernels_check_their_arguments(const ferry::context &context)
{
    ferry::buffer<float> x(context, 10), y(context, 10);
    const axpy_kernel axpy = make_axpy(context);
    THROWS(ferry::out_of_range, FERRY_ERROR_OUT_OF_RANGE, axpy(context.default_stream(), ferry::grid(1), 1.0f, x.range(11), y, 1));
    {
        const auto write = x.update_host();
        THROWS(ferry::busy, FERRY_ERROR_BUSY, axpy(context.default_stream(), ferry::grid(1), 1.0f, x, y, 1));
    }
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, axpy_kernel()(context.default_stream(), ferry::grid(1), 1.0f, x, y, 1));
    THROWS(ferry::invalid_argument, FERRY_ERROR_INVALID_ARGUMENT, axpy_kernel(context, "cpp_axpy", nullptr));
}


/* Tests kernel arguments: small and large structs by value, and callable objects of every kind as
 * host functions. Runs on the host only, because CUDA has no host functions. */
void
host_functions_take_what_the_signature_says(const ferry::context &context)
{
    if (is_cuda(context))
        return;
    ferry::buffer<test_sample> samples(context, 4);
    ferry::buffer<int32_t> ids(context, 4);
    const ferry::kernel<inout<test_sample>, test_sample, out<int32_t>> add(
        context, "add", nullptr,
        [](const ferry_call *call, ferry::span<test_sample> all, const test_sample &one, ferry::span<int32_t> numbers) {
            for (std::size_t i = 0; i < all.size(); i++) {
                all[i].id += one.id + static_cast<int32_t>(i);
                all[i].v[2] += one.v[2];
                numbers[i] = all[i].id + static_cast<int32_t>(ferry_call_grid(call).threads[0]);
            }
        });
    add(context.default_stream(), ferry::grid(4, 32), samples, test_sample{5, {0.0f, 0.0f, 1.5f}}, ids);
    add(context.default_stream(), ferry::grid(4, 32), samples, test_sample{5, {0.0f, 0.0f, 1.5f}}, ids);
    EXPECT(samples.read_host()[3].id == 16 && samples.read_host()[0].v[2] == 3.0f && ids.read_host()[3] == 48);

    int calls = 0;
    auto counts = [&calls](ferry::span<const int32_t> numbers) { calls += static_cast<int>(numbers.size()); };
    const ferry::kernel<in<int32_t>> counting(context, "counting", nullptr, std::ref(counts));
    ferry::stream stream(context);
    counting(stream, ferry::grid(4), ids);
    counting(stream, ferry::grid(4), ids.range(1));
    stream.synchronize();
    EXPECT(calls == 7);

    const ferry::kernel<> nothing(context, "nothing", nullptr, +[]() {});
    nothing(stream, ferry::grid(1));
    stream.synchronize();
}

void
kernels_may_end_before_their_work(const ferry::context &context)
{
    if (is_cuda(context))
        return;
    ferry::buffer<int32_t> ids(context, 1000);
    {
        const ferry::kernel<out<int32_t>, int32_t> set(context, "set", nullptr, [](ferry::span<int32_t> all, int32_t value) {
            for (int32_t &id : all)
                id = value;
        });
        for (int32_t i = 0; i < 50; i++)
            set(context.default_stream(), ferry::grid(1000), ids, i);
    }
    EXPECT(ids.read_host()[999] == 49);
}

template <class Thrower>
void
expect_late(const ferry::context &context, const Thrower &thrower, ferry_status status, const char *part)
{
    ferry::buffer<int32_t> ids(context, 10);
    ferry::stream stream(context);
    const ferry::kernel<out<int32_t>> failing(context, "failing", nullptr, thrower);
    try {
        failing(stream, ferry::grid(10), ids);
        (void)ids.read_host();
        throw test::failure("the failure was lost");
    } catch (const ferry::error &late) {
        EXPECT(late.status() == status);
        EXPECT(std::string(late.what()).find(part) != std::string::npos);
    }
    try {
        stream.synchronize();
    } catch (const ferry::error &) {
    }
}

void
exceptions_become_late_failures(const ferry::context &context)
{
    if (is_cuda(context))
        return;
    expect_late(context, [](ferry::span<int32_t>) { throw ferry::io_error("no such tape"); }, FERRY_ERROR_IO, "no such tape");
    expect_late(context, [](ferry::span<int32_t>) { throw std::bad_alloc(); }, FERRY_ERROR_OUT_OF_MEMORY, "bad_alloc");
    expect_late(context, [](ferry::span<int32_t>) { throw std::runtime_error("odd"); }, FERRY_ERROR_DEVICE, "odd");
    expect_late(context, [](ferry::span<int32_t>) { throw 3; }, FERRY_ERROR_DEVICE, "no std::exception");
}

} // namespace

int
main()
{
    RUN(kernels_run);
    RUN(kernels_check_their_arguments);
    RUN(host_functions_take_what_the_signature_says);
    RUN(kernels_may_end_before_their_work);
    RUN(exceptions_become_late_failures);
    return test::end();
}
