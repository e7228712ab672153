# SPDX-License-Identifier: MIT
"""share on the devices that FERRY_DEVICE names: two processes, one array, and no byte that crosses in the second one.

usage: test_share.py SHARE
"""

import os
import re
import sys

from support import run, run_cases

PROGRAM = sys.argv[1]


def test_two_processes(_):
    process = run(PROGRAM)
    assert process.returncode == 0 and process.stderr == "", process.stdout + process.stderr
    place, moved, checked = process.stdout.splitlines()
    shares = "the host" not in place or os.environ["FERRY_DEVICE"] == "host"
    up, down = map(int, re.fullmatch(r"second process: (\d+) bytes up, (\d+) bytes down", moved).groups())
    assert (up, down) == ((0, 0) if shares else (4 << 20, 4 << 20)), moved
    assert checked == f"first process: 0 of {1 << 18} elements are wrong", checked


def test_bad_arguments(_):
    for arguments in ([""], ["12"], ["g" * 128], ["0" * 129], ["0" * 128, "x"]):
        process = run(PROGRAM, *arguments)
        assert process.returncode == 2 and process.stderr.count("\n") == 1 and process.stdout == "", arguments


def test_a_handle_of_nothing(_):
    process = run(PROGRAM, "0" * 128)
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and "INVALID_ARGUMENT" in process.stderr, process.stderr


run_cases([("two processes", test_two_processes), ("bad arguments", test_bad_arguments), ("a handle of nothing", test_a_handle_of_nothing)])
