/* SPDX-License-Identifier: MIT */
/* Fuzz target. The input is a random history: a sequence of library calls in one or two threads.
 * The first byte selects the devices and the number of threads. The other bytes are the steps of
 * these threads. */
#include "tests/fuzz/fuzz.h"
#include "tests/histories/history.h"

enum { STEPS_MAX = 60 };

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const devices[] = {"host", "emulated:2", "lazy:2", "fault lazy"};
    if (count < 1 + STEP_BYTES)
        return 0;
    struct history_setup setup = {
        .device = devices[bytes[0] % 4], .players = 1 + (bytes[0] >= 192), .streams = 4};
    count = count - 1 < STEPS_MAX * STEP_BYTES ? count - 1 : STEPS_MAX * STEP_BYTES;
    history_play(bytes + 1, count, &setup);
    return 0;
}
