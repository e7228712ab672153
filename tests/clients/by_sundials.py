# SPDX-License-Identifier: MIT
"""The tests that SUNDIALS has for its own vectors, over Ferry's: one case for each length of vectors.

usage: by_sundials.py PROGRAM, or by_sundials.py --missing FILE
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
from support import run, run_cases, skip_all

CHECKS = 190  # number of tests in libsundials-dev 6.4.1; later versions have more
LENGTHS = (100, 1000, 10000)  # with one or two elements some checks fail for every vector

if sys.argv[1] == "--missing":
    skip_all(f"{sys.argv[2]} is not there; Debian's libsundials-dev has it")


def of_length(length):
    def test(_):
        process = run(sys.argv[1], str(length))
        lines = process.stdout.splitlines()
        failed = [line for line in lines if "FAIL" in line]
        passed = [line for line in lines if line.strip().startswith("PASSED")]
        assert process.returncode == 0 and not failed, "\n".join([*failed, process.stderr, *lines[-3:]])
        assert len(passed) >= CHECKS, f"only {len(passed)} checks"
        print(f"# {len(passed)} checks passed")
    return test


run_cases([(f"vectors of {length}", of_length(length)) for length in LENGTHS])
