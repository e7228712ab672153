# SPDX-License-Identifier: MIT
"""two_devices on the devices that FERRY_DEVICE names: exact, and moving no byte too many.

usage: test_two_devices.py TWO_DEVICES
"""

import re
import sys

from support import run, run_cases

PROGRAM = sys.argv[1]


def plate(rows, columns, steps):
    def case(_):
        process = run(PROGRAM, str(rows), str(columns), str(steps))
        assert process.returncode == 0 and process.stderr == "", process.stdout + process.stderr
        lines = re.findall(r"^(\d) devices? +(\d+) bytes up, (\d+) across, (\d+) down; .*: minimal; exact$", process.stdout, re.M)
        assert [line[0] for line in lines] == ["1", "2"], process.stdout
        row = 4 * columns
        for devices, up, across, down in (map(int, line) for line in lines):
            assert down == rows * row and up + across == (rows + (devices - 1) * 2 * steps) * row, process.stdout
            # After the first step, the rows next to the border between two devices are current on only one of the two
            # devices. So each later step must transfer two rows for each border.
            assert across >= (devices - 1) * 2 * (steps - 1) * row, process.stdout
    return case


def test_bad_arguments(_):
    for arguments in (["3"], ["4", "1"], ["4", "2", "0"], ["4", "2", "1", "1"], ["x"], ["-4"], ["4k"], [""]):
        process = run(PROGRAM, *arguments)
        assert process.returncode == 2 and process.stderr.count("\n") == 1 and process.stdout == "", arguments


def test_needs_two(_):
    process = run(PROGRAM, FERRY_DEVICE="host")
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and "two are needed" in process.stderr, process.stderr


run_cases([(f"{rows} x {columns}, {steps} steps", plate(rows, columns, steps))
           for rows, columns, steps in ((4, 2, 1), (5, 3, 2), (64, 64, 10), (333, 1001, 7), (1024, 1000, 40))]
          + [("bad arguments", test_bad_arguments), ("needs two devices", test_needs_two)])
