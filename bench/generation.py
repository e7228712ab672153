#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the time of the slowest command of ferry-gen, the time to compile a file that includes all headers of the four
main types or of all types, and the size of the library.

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
    """Returns the bytes of code and constants."""
    lines = subprocess.run(["size", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(lines[1].split()[0])


def compile_seconds(headers, includes, folder, rounds):
    source, target = os.path.join(folder, "x.c"), os.path.join(folder, "x.o")
    with open(source, "w", encoding="utf-8") as file:
        file.write("".join(f'#include "{path}"\n' for path in headers) + "typedef int not_empty;\n")
    command = ["cc", "-O2", *(f"-I{path}" for path in includes), "-c", source, "-o", target]
    return statistics.median(timed(command) for _ in range(rounds))


def record(case, metric, unit, value, goal=None):
    return {"bench": "generation", "case": case, "metric": metric, "unit": unit, "value": value, "peer": None, "peer_value": None,
            "ratio": None, "goal": f"<= {goal}" if goal else None, "met": value <= goal if goal else None}


def measure(case, gen, types, includes, rounds):
    with tempfile.TemporaryDirectory() as folder:
        headers = []
        for path in types:
            headers += [os.path.join(folder, os.path.basename(path)[:-5] + end) for end in (".h", "_convert.h")]
            subprocess.run([gen, "header", path, "-o", headers[-2]], check=True)
            subprocess.run([gen, "convert", path, *(other for other in types if other != path), "-o", headers[-1]], check=True)
        times = [timed([gen, "convert", *types, "-o", headers[1]]) for _ in range(rounds)]
        yield record(case, "slowest command", "s", round(statistics.median(times), 4), 0.15)
        yield record(case, "compiling the headers", "s", round(compile_seconds(headers, includes, folder, rounds), 4))


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
        print(f"{one['case']:12} {one['metric']:22} {one['value']:10} {one['unit']:3} {one['goal'] or ''}")
    if options.json:
        environment = {"bench": "environment", "cpu": "", "cores": os.cpu_count(), "compiler": "", "device": "", "driver": "",
                       "version": options.version}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([environment, *records], file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
