#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What generated code costs: the time of the slowest command of ferry-gen, and the size of what it compiles to, for the four
main types and for all; and the size of the library.

usage: generation.py FERRY-GEN TYPES-FOLDER LIBRARY INCLUDE-FOLDERS(":") VERSION [--quick] [--json FILE]
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MAIN = ["float", "int", "double", "byte"]


def timed(command):
    begun = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - begun


def text_bytes(path):
    """Code and constants."""
    lines = subprocess.run(["size", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(lines[1].split()[0])


def compiled_bytes(sources, includes, folder):
    total = 0
    for source in sources:
        target = os.path.join(folder, "x.o")
        subprocess.run(["cc", "-O2", "-fPIC", *(f"-I{path}" for path in includes), "-c", source, "-o", target], check=True)
        total += text_bytes(target)
    return total


def record(case, metric, unit, value, goal=None):
    return {"bench": "generation", "case": case, "metric": metric, "unit": unit, "value": value, "peer": None, "peer_value": None,
            "ratio": None, "goal": f"<= {goal}" if goal else None, "met": value <= goal if goal else None}


def measure(case, gen, types, includes, rounds):
    with tempfile.TemporaryDirectory() as folder:
        convert = os.path.join(folder, "convert.c")
        times = [timed([gen, "convert-source", *types, "-o", convert]) for _ in range(rounds)]
        sources = [convert]
        for path in types:
            sources.append(os.path.join(folder, os.path.basename(path)[:-5] + ".c"))
            subprocess.run([gen, "source", path, "-o", sources[-1]], check=True)
        yield record(case, "slowest command", "s", round(statistics.median(times), 4), 0.15)
        yield record(case, "generated code", "KB", round(compiled_bytes(sources, includes, folder) / 1e3, 1))


def main():
    parser = argparse.ArgumentParser()
    for name in ("gen", "types", "library", "includes", "version"):
        parser.add_argument(name)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    every = sorted(glob.glob(os.path.join(options.types, "*.json")))
    main_types = [os.path.join(options.types, name + ".json") for name in MAIN]
    records = []
    for case, types in (("4 types", main_types), (f"{len(every)} types", every)):
        records += measure(case, options.gen, types, options.includes.split(":"), 1 if options.quick else 7)
    records.append(record("library", "code and constants", "KB", round(text_bytes(options.library) / 1e3, 1)))
    for one in records:
        print(f"{one['case']:12} {one['metric']:20} {one['value']:10} {one['unit']:3} {one['goal'] or ''}")
    if options.json:
        environment = {"bench": "environment", "cpu": "", "cores": os.cpu_count(), "compiler": "", "device": "", "driver": "",
                       "version": options.version}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([environment, *records], file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
