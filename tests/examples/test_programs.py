# SPDX-License-Identifier: MIT
"""Programs of the kinds that are ported to devices: right, moving no byte too many, and with few launches.

usage: test_programs.py NAME PROGRAM
"""

import json
import os
import re
import sys
from collections import Counter

from support import run, run_cases, skip_all

NAME, PROGRAM = sys.argv[1:]


def gradients(output):
    iterations = int(re.search(r"^(\d+) iterations", output, re.M)[1])
    return {"start": 1, "multiply": iterations, "advance": iterations, "turn": iterations}


def graph(output):
    levels = int(re.search(r" (\d+) levels", output)[1])
    return {"reach": levels, "advance": levels + 1}


def gases(_):
    return {"trace": 1}


def qubits(output):
    count = int(re.search(r"^(\d+) qubits", output, re.M)[1])
    return {"mix": count, "turn": count * (count - 1) // 2, "swap": count // 2, "chance": count}


def sharpen(_):
    return {"edges": 1, "compare": 1}


def particles(_):
    return {"forces": 1}


# How many times a run launches each kernel; arguments of further runs; arguments that are refused.
LAUNCHES, RUNS, REFUSED = {
    "gradients": (gradients, (["2"], ["33"], ["150"]), (["1"], ["x"], ["4", "4"], ["-4"])),
    "graph": (graph, (["1"], ["2", "1"], ["1000", "1"], ["30000", "40"]), (["0"], ["x"], ["5", "0"], ["5", "5", "5"])),
    "gases": (gases, (["2", "1"], ["3", "16384"], ["5000", "40001"]), (["1"], ["x"], ["5", "0"], ["5", "5", "5"])),
    "qubits": (qubits, (["1", "0"], ["2"], ["5", "31"], ["16", "12345"]), (["0"], ["x"], ["3", "8"], ["33"], ["3", "1", "1"])),
    "particles": (particles, (["1", "1"], ["2", "1"], ["1", "1024"], ["3", "33"]), (["0"], ["x"], ["2", "1025"], ["2", "2", "2"])),
    "sharpen": (sharpen, (["1", "1"], ["1", "50"], ["50", "1"], ["601", "800"]), (["0", "4"], ["4"], ["x", "4"], ["4", "4", "4"])),
}[NAME]


def right(arguments):
    def case(_):
        process = run(PROGRAM, *arguments)
        assert process.returncode == 0 and process.stderr == "", process.stdout + process.stderr
        assert ": minimal\n" in process.stdout and re.search(": (exact|as in plain C)\n", process.stdout), process.stdout
    return case


def test_launches(folder):
    """One launch does a map and all sums beside it. Only a sum alone has a second launch, on devices, that combines its parts."""
    trace = os.path.join(folder, "trace")
    process = run(PROGRAM, FERRY_TRACE=trace)
    assert process.returncode == 0, process.stderr
    with open(trace, encoding="utf-8") as file:
        found = Counter(event["name"] for event in json.load(file) if event.get("cat") == "launch")
    expected = {f"{NAME}_{kernel}": count for kernel, count in LAUNCHES(process.stdout).items()}
    assert {name: count for name, count in found.items() if name != "qubits_chance_into"} == expected, (found, expected)


def test_bad_arguments(_):
    for arguments in REFUSED:
        process = run(PROGRAM, *arguments)
        assert process.returncode == 2 and process.stderr.count("\n") == 1 and process.stdout == "", arguments


if os.environ.get("FERRY_DEVICE") == "opencl":
    first = run(PROGRAM)
    if "FERRY_ERROR_NO_DEVICE" in first.stderr:
        skip_all(first.stderr.strip())
run_cases([("as it is", right([]))] + [(" ".join(arguments), right(arguments)) for arguments in RUNS]
          + [("launches", test_launches), ("bad arguments", test_bad_arguments)])
