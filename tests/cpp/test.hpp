/* SPDX-License-Identifier: MIT */
#ifndef FERRY_TEST_CPP_HPP
#define FERRY_TEST_CPP_HPP

/* Support for the C++ tests: cases that print TAP, expectations that throw if they fail, and cases
 * that are skipped. */

#include <cstdio>
#include <stdexcept>
#include <string>

#include <ferry/ferry.hpp>

namespace test
{

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* A case throws this exception if it cannot run here. The text is the reason. */
struct skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void
expect(bool condition, const char *text, int line)
{
    if (!condition)
        throw failure("line " + std::to_string(line) + ": " + text);
}

/* Checks that the call throws exactly the class Error, with this status and a message. */
template <class Error, class Call>
void
expect_error(ferry_status status, const Call &call, int line)
{
    try {
        call();
    } catch (const Error &got) {
        const ferry::error &base = got;
        expect(base.status() == status, ferry_status_name(base.status()), line);
        expect(base.what()[0] != '\0', "the message is empty", line);
        return;
    } catch (const std::exception &other) {
        throw failure("line " + std::to_string(line) + ": threw another class: " + other.what());
    }
    throw failure("line " + std::to_string(line) + ": threw nothing");
}

inline int count = 0, failed = 0;

/* Runs one case in a new context of the devices of FERRY_DEVICE. */
inline void
run(const char *name, void (*body)(const ferry::context &context))
{
    count++;
    try {
        ferry::context context;
        body(context);
        std::printf("ok %d - %s\n", count, name);
    } catch (const skip &reason) {
        std::printf("ok %d - %s # SKIP %s\n", count, name, reason.what());
    } catch (const std::exception &problem) {
        failed++;
        std::printf("not ok %d - %s\n# %s\n", count, name, problem.what());
    }
}

inline int
end()
{
    std::printf("1..%d\n", count);
    return failed == 0 ? 0 : 1;
}

} // namespace test

#define EXPECT(condition) test::expect((condition), #condition, __LINE__)
#define THROWS(error, status, ...) test::expect_error<error>(status, [&]() { __VA_ARGS__; }, __LINE__)
#define RUN(function) test::run(#function, function)

#endif
