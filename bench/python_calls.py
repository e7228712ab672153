#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the Python package: accesses to current data, copies to NumPy, DLPack both ways, launches, and its import.

usage: PYTHONPATH=BUILD/python python_calls.py [--quick] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import ferry

try:
    import numpy
except ImportError:
    numpy = None


def best(function, seconds, rounds=7):
    """Returns the seconds of one call, in the best of several rounds."""
    function()
    count, took = 1, 0.0
    while took < seconds / rounds / 2:
        count *= 2
        took = timed(function, count)
    return min(timed(function, count) for _ in range(rounds)) / count


def timed(function, count):
    rounds = range(count)
    begun = time.perf_counter()
    for _ in rounds:
        function()
    return time.perf_counter() - begun


def record(case, value, unit="us", goal=None, peer=None, peer_value=None):
    return {"bench": "python", "case": case, "metric": "time", "unit": unit, "value": round(value, 3), "peer": peer,
            "peer_value": None if peer_value is None else round(peer_value, 3),
            "ratio": None if peer_value is None else round(value / peer_value, 3),
            "goal": None if goal is None else f"<= {goal}", "met": None if goal is None else value <= goal}


def accesses(context, seconds):
    a = ferry.array(bytes(4096), context=context)

    def memory():
        with a.read(raw=True):
            pass

    def ndarray():
        with a.read():
            pass

    def update():
        with a.update():
            pass

    yield record("with a.read(raw=True)", best(memory, seconds) * 1e6, goal=0.5)
    if numpy:
        yield record("with a.read() as ndarray", best(ndarray, seconds) * 1e6, goal=2.5)
        yield record("with a.update() as ndarray", best(update, seconds) * 1e6)


def exchange(context, seconds):
    for size, name in ((64, "64 B"), (1 << 16, "64 KiB"), (1 << 24, "16 MiB")):
        values = numpy.ones(size, "u1")
        a = ferry.array(values, context=context)
        yield record(f"np.asarray(a), {name}", best(lambda a=a: numpy.asarray(a), seconds) * 1e6, peer="ndarray.copy()",
                     peer_value=best(values.copy, seconds) * 1e6)
    values = numpy.ones(64)
    a = ferry.array(values, context=context)
    numpy_alone = best(lambda: numpy.from_dlpack(values), seconds) * 1e6
    yield record("np.from_dlpack(a)", best(lambda: numpy.from_dlpack(a), seconds) * 1e6, peer="of an ndarray", peer_value=numpy_alone)
    yield record("ferry.from_dlpack(ndarray)", best(lambda: ferry.from_dlpack(values, context=context), seconds) * 1e6,
                 peer="np.from_dlpack", peer_value=numpy_alone)


def launches(context, seconds):
    kernel = ferry.Kernel("nothing", host=lambda x, y, z: None, parameters=["read u1 x", "read u1 y", "update u1 z"], context=context)
    arrays = [ferry.empty(64, "u1", context=context) for _ in range(3)]
    stream = context.stream()
    grid = ferry.grid(64)

    def launch():
        kernel(stream, grid, *arrays)
        stream.synchronize()

    yield record("launch of a Python function with three arrays, and wait", best(launch, seconds) * 1e6)


def imports(rounds):
    # PYTHONDONTWRITEBYTECODE is removed from the environment. Python then caches compiled modules, as it does for an
    # installed package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start(program):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, env=environment)
        return time.perf_counter() - begun

    empty = statistics.median(start("pass") for _ in range(rounds))
    yield record("import ferry", (statistics.median(start("import ferry") for _ in range(rounds)) - empty) * 1e3, "ms", 30)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    seconds = 0.02 if options.quick else 1.0
    context = ferry.Context("emulated:1")
    records = [*accesses(context, seconds), *(exchange(context, seconds) if numpy else ()), *launches(context, seconds),
               *imports(3 if options.quick else 21)]
    for found in records:
        peer = f"  ({found['peer']}: {found['peer_value']}, ratio {found['ratio']})" if found["peer"] else ""
        goal = f"  goal {found['goal']}: {'met' if found['met'] else 'MISSED'}" if found["goal"] else ""
        print(f"{found['case']:<58} {found['value']:>10} {found['unit']}{peer}{goal}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)


if __name__ == "__main__":
    main()
