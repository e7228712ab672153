#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A scope that finds its bytes costs in C++ the instructions that it costs in C, counted by callgrind in one program.

usage: test_hits.py PROGRAM OTHER-LANGUAGE MOST-OF-A-READ MOST-OF-AN-UPDATE
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402

FEW, MANY = 1000, 11000
MOST_COUNTS = 12


def collected(program, kind, rounds):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, kind, str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"{kind}: " + done.stderr[-500:])
    return int(found.group(1))


def reads_debug_information(program):
    """False for valgrind 3.19 and what clang 14 writes."""
    done = subprocess.run(["valgrind", "--tool=none", program], capture_output=True, text=True, check=False)
    return "Possibly corrupted debuginfo" not in done.stderr


class Hits:
    """Instructions of one kind of hit. Threads of the program only ever add to a count, so the least of several is the true one."""

    def __init__(self, program, kind):
        self.program, self.kind = program, kind
        self.few = self.many = float("inf")
        self.count()

    def count(self):
        self.few = min(self.few, collected(self.program, self.kind, FEW))
        self.many = min(self.many, collected(self.program, self.kind, MANY))

    @property
    def each(self):
        return (self.many - self.few) / (MANY - FEW)


def compare(program, language, kind, most):
    """Instructions of a hit in C and in the other language, counted again while they differ by more than `most`."""
    c, other = Hits(program, f"C {kind}"), Hits(program, f"{language} {kind}")
    for _ in range(MOST_COUNTS - 1):
        if other.each - c.each <= most:
            break
        c.count()
        other.count()
    return c.each, other.each


def main():
    program, language, most_of_read, most_of_update = sys.argv[1:]
    tap = Tap()
    if not shutil.which("valgrind"):
        tap.skip("instructions of a hit", "valgrind is not installed")
        return tap.end()
    if not reads_debug_information(program):
        tap.skip("instructions of a hit", "valgrind does not read this compiler's debug information")
        return tap.end()
    for kind in ("read", "read of a range", "read on a device", "update"):
        most = int(most_of_update if kind == "update" else most_of_read)
        c, other = compare(program, language, kind, most)
        print(f"# {kind}: {c:.1f} instructions in C, {other:.1f} in {language}")
        tap.case(f"{kind}: at most {most} instructions more than in C", [] if other - c <= most else [f"{other - c:.1f} more"])
    if language == "C++":
        print(f"# read with its size: {Hits(program, 'C++ read with its size').each:.1f} instructions in C++")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
