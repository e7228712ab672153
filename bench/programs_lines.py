#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what the example programs need beside plain C: calls that handle memory of a device, and lines of kernels.

usage: programs_lines.py SOURCE-ROOT VERSION [--quick] [--json FILE]

A line counts if it has a letter or a digit and is no comment. The peer of the kernels is the same job in bench/programs_by_hand.c.
"""

import argparse
import json
import os
import pathlib
import re

PROGRAMS = ("gases", "gradients", "strips", "particles", "graph", "qubits", "sharpen")
CREATE = r"(?:create|create_from|destroy|fill|copy|copy_from|copy_to|read_host)"
MEMORY = re.compile(rf"\b(?!ferry_(?:context|kernel|mpi)_)(?:ferry|gases|particles)_(?!kernels_)\w+_{CREATE}\(|\bferry_copy\(|\bferry_scope_close\(")


def code_lines(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return sum(1 for line in text.splitlines() if re.search(r"\w", line) and not line.startswith("#include"))


def text_lines(text):
    return 1 if isinstance(text, str) else len(text)


def kernel_lines(folder, name):
    """Returns the lines of the texts in JSON, with one for each name and its parameters. A hand-written kernel has its lines of CUDA and of C."""
    path = folder / (name + ".json")
    if not path.exists():
        return code_lines((folder / "forces.cu").read_text(encoding="utf-8")) + code_lines((folder / "forces.c").read_text(encoding="utf-8"))
    file = json.loads(path.read_text(encoding="utf-8"))
    kernels = sum(1 + text_lines(kernel["each"]) + len(kernel.get("results", [])) for kernel in file["kernels"])
    return kernels + sum(1 + text_lines(function["body"]) for function in file.get("functions", []))


def loop_lines(by_hand, name):
    """Returns the lines of a section of programs_by_hand.c, without the search by a queue and the pragmas of OpenMP."""
    section = re.search(rf"/\* -- {name} -.*?\n(.*?)(?=/\* -- |\Z)", by_hand, re.S)[1]
    section = re.sub(r"#ifndef BENCH_OPENMP.*?#endif", "", section, flags=re.S)
    return code_lines(re.sub(r"^\s*OMP\(.*", "", section, flags=re.M))


def record(case, metric, unit, value, peer=None, peer_value=None):
    return {"bench": "programs_lines", "case": case, "metric": metric, "unit": unit, "value": value, "peer": peer, "peer_value": peer_value,
            "ratio": round(value / peer_value, 4) if peer else None, "goal": None, "met": None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("version")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    by_hand = (options.root / "bench/programs_by_hand.c").read_text(encoding="utf-8")
    records = []
    for name in PROGRAMS:
        folder = options.root / "examples" / name
        program = (folder / (name + ".c")).read_text(encoding="utf-8")
        records.append(record(name, "memory", "calls", len(MEMORY.findall(program))))
        records.append(record(name, "kernels", "lines", kernel_lines(folder, name), "plain C", loop_lines(by_hand, name)))
    for one in records:
        print(f"{one['case']:12} {one['metric']:10} {one['value']:5} {one['unit']:6} {one['peer'] or '':8} {one['peer_value'] or ''}")
    if options.json:
        environment = {"bench": "environment", "cpu": "", "cores": os.cpu_count(), "compiler": "", "device": "", "driver": "",
                       "version": options.version}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([environment, *records], file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
