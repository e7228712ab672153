/* SPDX-License-Identifier: MIT */
/* usage: hits KIND ROUNDS. Opens and closes scopes, in C or in C++. Each of these scopes is a hit:
 * its bytes are already current, so nothing is copied. test_hits.py counts the instructions. */
#include "hits.h"

#include <cstdlib>
#include <cstring>
#include <ferry/ferry.hpp>

namespace
{

void
read(const ferry::buffer<float> &buffer, std::size_t rounds)
{
    for (std::size_t i = 0; i < rounds; i++)
        const auto view = buffer.read_host();
}

void
read_range(const ferry::buffer<float> &buffer, std::size_t rounds)
{
    for (std::size_t i = 0; i < rounds; i++)
        const auto view = buffer.read_host(2, 5);
}

void
read_device(const ferry::buffer<float> &buffer, std::size_t rounds)
{
    for (std::size_t i = 0; i < rounds; i++)
        const auto view = buffer.read_device();
}

void
read_and_ask_size(const ferry::buffer<float> &buffer, std::size_t rounds)
{
    for (std::size_t i = 0; i < rounds; i++)
        if (buffer.read_host().size() != 100)
            std::abort();
}

void
update(ferry::buffer<float> &buffer, std::size_t rounds)
{
    for (std::size_t i = 0; i < rounds; i++)
        const auto view = buffer.update_host();
}

} // namespace

int
main(int argument_count, char **arguments)
{
    if (argument_count != 3)
        return 2;
    const char *kind = arguments[1];
    const std::size_t rounds = std::strtoul(arguments[2], nullptr, 10);
    const ferry::context context("emulated");
    ferry::buffer<float> buffer(context, 100);
    buffer.fill(1.0f);
    buffer.sync_to(1);
    const ferry_float_buffer raw = {buffer.raw()};
    bool ok = true;
    if (std::strcmp(kind, "C read") == 0)
        ok = hits_c_read(raw, rounds);
    else if (std::strcmp(kind, "C read of a range") == 0)
        ok = hits_c_read_range(raw, rounds);
    else if (std::strcmp(kind, "C read on a device") == 0)
        ok = hits_c_read_device(raw, rounds);
    else if (std::strcmp(kind, "C update") == 0)
        ok = hits_c_update(raw, rounds);
    else if (std::strcmp(kind, "C++ read") == 0)
        read(buffer, rounds);
    else if (std::strcmp(kind, "C++ read of a range") == 0)
        read_range(buffer, rounds);
    else if (std::strcmp(kind, "C++ read on a device") == 0)
        read_device(buffer, rounds);
    else if (std::strcmp(kind, "C++ read with its size") == 0)
        read_and_ask_size(buffer, rounds);
    else if (std::strcmp(kind, "C++ update") == 0)
        update(buffer, rounds);
    else
        return 2;
    return ok ? 0 : 1;
}
