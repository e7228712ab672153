/* SPDX-License-Identifier: MIT */
/* A C++ program with its own struct and kernel. It exchanges buffers with the C library mylib. */
#include <cstdio>
#include <cstdlib>

#include <ferry/ferry.hpp>
#include <ferry/float.h>

extern "C" {
#include "mylib/vectors.h"
}
#include "arrow_buffer.h"
#include "mylib/vec3_buffer.h"

using arrows::arrow;

static void
expect(bool condition, int line)
{
    if (condition)
        return;
    std::fprintf(stderr, "program.cpp:%d: not as expected\n", line);
    std::exit(1);
}

#define EXPECT(condition) expect((condition), __LINE__)

using stretch_kernel = ferry::kernel<ferry::inout<arrow>, arrow, float>;

static stretch_kernel
make_stretch(const ferry::context &context)
{
    return stretch_kernel(
        context, "stretch",
        R"(extern "C" __global__ void stretch(arrows_arrow *all, arrows_arrow by, float factor)
           { all[threadIdx.x].length = all[threadIdx.x].length * factor + by.length; })",
        [](ferry::span<arrow> all, const arrow &by, float factor) {
            for (arrow &one : all) {
                one.length = one.length * factor + by.length;
                one.direction[1] = by.direction[1];
            }
        });
}

int
main()
{
    try {
        const ferry::context context;
        const ferry::stream_ref stream = context.default_stream();
        const stretch_kernel stretch = make_stretch(context);

        /* The C library's kernel runs on a buffer of this program, between two launches of this
         * program's kernel. */
        ferry::buffer<arrow> arrows(context, 10);
        arrows.fill(arrow{1.0f, {2.0f, 3.0f}});
        stretch(stream, ferry::grid(10), arrows, arrow{0.5f, {0.0f, 7.0f}}, 2.0f);
        ferry::check(mylib_shift(arrows.raw(), 10.0f));
        stretch(stream, ferry::grid(10), arrows.range(9), arrow{0.0f, {0.0f, 8.0f}}, 2.0f);
        {
            const auto view = arrows.read_host();
            EXPECT(view[0].length == 12.5f && view[0].direction[0] == 2.0f && view[0].direction[1] == 7.0f);
            EXPECT(view[9].length == 25.0f && view[9].direction[1] == 8.0f);
        }

        /* A buffer made by the C library can be used with this program's name for the element type
         * and with the library's name. */
        ferry_buffer *line = nullptr;
        ferry::check(mylib_line(context.raw(), 5, &line));
        ferry::buffer<arrow> adopted = ferry::buffer<arrow>::adopt(line);
        auto same = ferry::buffer<mylib_vec3>::retain(adopted.raw());
        stretch(stream, ferry::grid(5), adopted, arrow{100.0f, {0.0f, 1.0f}}, 1.0f);
        EXPECT(same.read_host()[4].x == 104.0f && same.read_host()[4].v[0] == 1.0f);
        adopted.copy(0, arrows, 0, 2);
        EXPECT(same.read_host()[1].x == 12.5f);

        ferry::buffer<float> numbers(context, 1);
        EXPECT(mylib_shift(numbers.raw(), 1.0f) == FERRY_ERROR_WRONG_TYPE);
    } catch (const ferry::error &problem) {
        std::fprintf(stderr, "program: %s\n", problem.what());
        return 1;
    }
}
