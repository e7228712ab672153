# SPDX-License-Identifier: MIT
"""Tests of whole jobs: the examples halo and strips on several ranks, the plan of halo, and jobs in which a rank dies.

usage: test_jobs.py MPIEXEC HALO STRIPS JOB_DIES
"""

import os
import pathlib
import re
import sys
import time

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parent.parent / "examples"))
from support import run, run_cases  # noqa: E402

MPIEXEC, HALO, STRIPS, JOB_DIES = sys.argv[1:]
RANK = re.compile(r"^rank (\d+) +(\d) sides, (\d+) messages, (\d+) bytes sent, (\d+) received; (\d+) bytes down, (\d+) up: "
                  r"minimal; exact$", re.M)
STRIP = re.compile(r"^rank (\d+): (\d+) bytes down, (\d+) up: minimal; exact$", re.M)
PLAN = re.compile(r"^(\d+) +(\d) +(\d+) +(\d+) +(\d+)$", re.M)


def mpiexec(ranks, *command, **environment):
    return run("timeout", "60", MPIEXEC, "-n", str(ranks), *command, **environment)


def planned(ranks, *size):
    process = run(HALO, "--plan", str(ranks), *map(str, size))
    assert process.returncode == 0 and process.stderr == "", process.stderr
    rows = [tuple(map(int, row)) for row in PLAN.findall(process.stdout)]
    assert len(rows) == ranks, process.stdout
    return rows


def halo(ranks, device, *size):
    """Each rank has the right cells, moves only its halos, and sends the bytes that the plan predicts."""
    def case(_):
        process = mpiexec(ranks, HALO, *map(str, size), FERRY_DEVICE=device)
        assert process.returncode == 0, process.stdout + process.stderr
        rows = [tuple(map(int, row)) for row in RANK.findall(process.stdout)]
        assert len(rows) == ranks, process.stdout
        assert [row[:5] for row in rows] == planned(ranks, *size), process.stdout
        for row in rows:
            assert row[5:] == ((row[3], row[4]) if device == "emulated" else (0, 0)), process.stdout
    return case


def strips(ranks, device, *size):
    """Each rank has the bits of plain C, though it computes inner rows while halos are under way, and moves only its halos."""
    def case(_):
        process = mpiexec(ranks, STRIPS, *map(str, size), FERRY_DEVICE=device)
        assert process.returncode == 0, process.stdout + process.stderr
        rows = STRIP.findall(process.stdout)
        assert sorted(int(row[0]) for row in rows) == list(range(ranks)), process.stdout
        for rank, down, up in ((int(row[0]), int(row[1]), int(row[2])) for row in rows):
            sides = (rank > 0) + (rank + 1 < ranks)
            assert down == up == (sides * size[1] * 8 * size[2] if device == "emulated" else 0), process.stdout
    return case


def test_64_ranks(_):
    """In a grid of 8 x 8 ranks, those in the corners have two neighbours, those on the edges three, the others four."""
    rows, columns, steps = 1000, 500, 3
    table = planned(64, rows, columns, steps)
    for rank, sides, messages, sent, received in table:
        row, column = divmod(rank, 8)
        vertical, horizontal = (row > 0) + (row < 7), (column > 0) + (column < 7)
        assert (sides, messages) == (vertical + horizontal, steps * (vertical + horizontal)), table
        assert sent == received == 4 * steps * (vertical * columns + horizontal * rows), table
    # The largest number of bytes that any rank sends must be the same for all numbers of ranks.
    assert max(row[3] for row in table) == max(row[3] for row in planned(10000, rows, columns, steps))


def test_usage(_):
    for arguments in (["1"], ["1", "2"], ["0", "1", "1"], ["x", "1", "1"], ["--plan", "4"], ["--plan", "0", "1", "1", "1"]):
        process = run(HALO, *arguments)
        assert process.returncode == 2 and process.stderr.startswith("usage: ") and process.stdout == "", arguments
    for arguments in (["1"], ["2", "9", "1"], ["9", "2", "1"], ["3", "3", "0"], ["3", "3", "1", "1"]):
        process = run(STRIPS, *arguments)
        assert process.returncode == 2 and process.stderr.startswith("usage: ") and process.stdout == "", arguments


def dies(*how):
    def case(_):
        began = time.monotonic()
        process = mpiexec(3, JOB_DIES, *how, FERRY_DEVICE="emulated")
        took = time.monotonic() - began
        assert process.returncode not in (0, 124), process.stdout + process.stderr # 124: only `timeout` ended it
        assert took < 30, took
    return case


run_cases([(f"halo on {ranks} ranks, {device}", halo(ranks, device, *size))
           for ranks, device, size in ((1, "emulated", (64, 50, 5)), (2, "emulated", (64, 50, 5)), (4, "emulated", (64, 50, 5)),
                                       (4, "emulated", (3, 2, 7)), (2, "host", (20, 30, 4)))]
          + [(f"strips on {ranks} ranks, {device}", strips(ranks, device, *size))
             for ranks, device, size in ((1, "emulated", (10, 20, 5)), (4, "emulated", (250, 1000, 20)), (4, "emulated", (3, 3, 6)),
                                         (4, "host", (40, 100, 7)))]
          + [("64 ranks by counting", test_64_ranks), ("usage", test_usage)]
          + [(f"a rank dies by {how}", dies(how)) for how in ("kill", "exit", "fault")]
          + [(f"a rank that has a shared buffer dies by {how}", dies(how, "shared")) for how in ("kill", "exit", "fault")])
