#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/performance.md and its pictures from the newest committed records of each device.

usage: performance.py [--results FOLDER] [--docs FOLDER] [--check]

With --check nothing is written: exit status 1 and a line for each file that differs. The output depends on the records alone.
"""

import argparse
import dataclasses
import html
import json
import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
COLOURS = ["#1f6fb2", "#e08e0b", "#4f9d69", "#9aa5b1", "#7b3294", "#b23a48"]
NAME = re.compile(r"(\d{4}-\d\d-\d\d)-(.+)-([a-z_]+)\.json")
HEAD = """<!-- Written by docs/performance.py from bench/results. Edit those, not this file. -->
# Performance

Every figure on this page is in a record that is committed in `bench/results`, and `docs/performance.py` writes the page from
the newest record of each benchmark. A record names the commit that was measured, or that it came with if it is of
November 2026. `./dev bench NAME --json FILE` measures one again, and `ferry bench` measures the
essentials on any machine in a minute. A goal is what a benchmark demands; the page lists each one that a record misses.
"""
PURPOSES = {
    "transfer": "Copies between the host and the device, by size. The peer is `memcpy` of the same bytes between the same memories "
                "on the emulated device, where two bare threads that copy pageable memory through the same ring are another peer. On a GPU "
                "the driver's own copy of pinned memory is the peer of both, and its own copy of pageable memory is another peer of pageable "
                "memory.",
    "access": "Opening and closing a scope where the data already is. The peer is two atomic operations in a shared library, the least "
              "that is safe between threads. The goal is 1.6 times the peer: Ferry, too, executes two atomic operations, and the second waits "
              "until the dozen stores between them are done. Less would take claims that a thread keeps after the scope, so that another "
              "thread must interrupt it.",
    "pool": "Allocating a block and freeing it: the geometric mean of 25 patterns of sizes and orders.",
    "convert": "Conversions between arrays that the second-level cache holds; bytes read and written.",
    "roundtrip": "Pageable memory to the device and back; the peer copies it twice with `memcpy`.",
    "overlap": "A loop of upload, kernel and download; the peer is the longest of the three alone, here the kernel.",
    "batch": "Many small copies in one call; the peer copies them one by one.",
    "file": "Reading a file into a buffer, and copying a file.",
    "driver_calls": "What one call of the CUDA driver costs, alone and beside three other threads that make it too.",
    "mpi": "Ranges of buffers between two ranks on one machine ([with-mpi.md](with-mpi.md)). By hand, a program copies a chunk from "
           "the device and sends it, or receives a chunk and copies it to the device; overlapped, it does both at once with two chunks.",
    "mpi_share": "Numbers that one rank writes reach an array of another rank on the same machine: through a buffer whose memory both share, "
                 "which the second rank copies once, through MPI's own shared memory, and through a message of `ferry-mpi`. By hand, a program uses a "
                 "shared window of MPI and an empty message. `memcpy` inside one process, whose caches have the numbers, is the ceiling. The time begins when the numbers are written ([with-mpi.md](with-mpi.md#ranks-of-one-machine)).",
    "client_halo": "One step of the heat equation of `examples/halo` on four ranks, as the first rank counts it. The peer is the same "
                   "program by hand, over MPI and the CUDA driver. Most of all calls set the thread's context and its mode of capture.",
    "client_sundials": "CVODE over the vectors of `examples/sundials` on the host device, against the serial vectors of SUNDIALS, and "
                       "against serial vectors whose most frequent operations were compiled with the compiler and options of Ferry.",
    "programs": "The jobs of the example programs ([kernels.md](kernels.md#programs-to-start-from)), with about the given number of elements: their own "
                "kernels on the host device against the same loops in plain C with the same options. `processor` is the processor time on one "
                "thread, `elapsed` the time on all of them, against OpenMP. Bytes are those that cross to and from an emulated device, against "
                "those of the inputs and the results. The plain search of `graph` goes level by level, as the kernels do; `graph by queue` is the usual one. "
                "Calls that handle memory are those of the example that create, copy, fill, read and destroy buffers. A kernel's lines have a "
                "letter or a digit; those of `particles` are CUDA and C by hand.",
    "calls": "Calls of the CUDA driver for one round of each path, counted over the fake driver of the tests, which needs no GPU. `calls` "
             "is counted where the context of the device is current, as it is beside the CUDA runtime, and `uncurrent` where it is not; "
             "`get_current` counts `cuCtxGetCurrent`, which only reads a thread-local variable. `pool/miss` is an allocation and two changes of "
             "the thread's mode of capture: without them a capture of another thread would forbid the allocation, and be spoilt by it.",
}


@dataclasses.dataclass
class Bench:
    name: str
    date: str
    environment: dict
    records: list


def read_results(folder):
    """{device: {bench: the newest}}"""
    devices = {}
    for path in sorted(folder.glob("*.json")): # by date
        date, device, name = NAME.fullmatch(path.name).groups()
        environment, *records = json.loads(path.read_text(encoding="utf-8"))
        devices.setdefault(device, {})[name] = Bench(name, date, environment, records)
    return devices


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


# -- pictures ----------------------------------------------------------------------------------------

def text(x, y, what, anchor="start", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(what)}</text>'


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def picture(width, height, title, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{html.escape(title)}</title>", "<style>text{font-family:sans-serif;fill:#222}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def round_step(span):
    power = 10 ** math.floor(math.log10(span / 5))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= span / 5 * 0.999)


def size_text(size):
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def legend(names, left, top, colours=COLOURS):
    for index, name in enumerate(names):
        yield f'<rect x="{left + 190 * index:.1f}" y="{top - 9}" width="14" height="10" fill="{colours[index]}"/>'
        yield text(left + 190 * index + 20, top, name)


def curves(series, title, unit, left, top, width, height, most):
    """{name: [(bytes, value)]} over a logarithmic axis of sizes."""
    sizes = sorted({size for points in series.values() for size, _ in points})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    step = round_step(most)
    top_value = math.ceil(most / step) * step
    yield text(left, top - 10, title, size=13)
    for index in range(round(top_value / step) + 1):
        y = top + height * (1 - index * step / top_value)
        yield line(left, y, left + width, y, "#e3e6ea")
        yield text(left - 6, y + 4, f"{index * step:g}", "end")
    yield text(left - 6, top - 10, unit, "end")
    for size in sizes[::2]:
        x = left + width * (math.log2(size) - low) / (high - low)
        yield line(x, top + height, x, top + height + 5, "#555")
        yield text(x, top + height + 19, size_text(size), "middle", 11)
    for index, points in enumerate(series.values()):
        path = " ".join(f"{left + width * (math.log2(size) - low) / (high - low):.1f},{top + height * (1 - value / top_value):.1f}" for size, value in points)
        yield f'<polyline fill="none" stroke="{COLOURS[index]}" stroke-width="2" points="{path}"/>'


def bars(rows, unit, title):
    """[(label, [(name, value)])]: horizontal bars in groups."""
    names = list(dict.fromkeys(name for _, values in rows for name, _ in values))
    colours = dict(zip(names, COLOURS))
    most = max(value for _, values in rows for _, value in values)
    y, parts = 56, [text(16, 22, f"{title}, {unit}", size=14), *(legend(names, 170, 44) if len(names) > 1 else [])]
    for label, values in rows:
        parts.append(text(160, y + 7 * len(values) + 3, label, "end"))
        for name, value in values:
            parts.append(f'<rect x="170" y="{y}" width="{480 * value / most:.1f}" height="12" fill="{colours[name]}"/>')
            parts.append(text(176 + 480 * value / most, y + 10, number(value), size=11))
            y += 14
        y += 8
    return picture(720, y + 8, title, parts)


def draw_transfer(bench):
    sizes = {"KiB": 1 << 10, "MiB": 1 << 20}
    found = {"upload": {}, "download": {}}
    for record in bench.records:
        matched = re.fullmatch(r"(\d+)(KiB|MiB)/(pageable|pinned)", record["case"])
        if matched and record["metric"] in found:
            peer, memory = record["peer"], matched[3]
            if (peer, memory) == ("driver", "pageable"): # a copy of pinned memory, which the pinned case has too
                continue
            at, series = int(matched[1]) * sizes[matched[2]], found[record["metric"]]
            if peer != "two threads": # which is the second peer of its case
                series.setdefault(f"Ferry, {memory}", []).append((at, record["value"]))
            series.setdefault(peer if memory in peer else f"{peer}, {memory}", []).append((at, record["peer_value"]))
    order = sorted(found["upload"], key=lambda name: not name.startswith("Ferry"))
    most = max(value for series in found.values() for points in series.values() for _, value in points)
    parts = list(legend(order, 60, 24))
    for metric, left in (("upload", 60), ("download", 520)):
        series = {name: sorted(found[metric][name]) for name in order}
        parts += curves(series, "Host to device" if metric == "upload" else "Device to host", "GB/s", left, 66, 380, 220, most)
    return picture(940, 320, "Copies by size", parts)


def draw_access(bench):
    rows = [(record["case"].removesuffix("/1thread"), [("Ferry", record["value"]), ("two atomic operations", record["peer_value"])])
            for record in bench.records if record["metric"] == "open_close" and record["case"].endswith("/1thread") and record["peer"]]
    return bars(rows, "ns", "Opening and closing a scope")


def draw_pool(bench):
    records = [record for record in bench.records if record["case"] == "geomean" and record["metric"] == "take_give"]
    rows = [("Ferry", [("", records[0]["value"])]), *((record["peer"], [("", record["peer_value"])]) for record in records)]
    return bars(rows, "ns", "Allocating and freeing a block")


def draw_convert(bench):
    rows = {}
    for record in bench.records:
        matched = re.fullmatch(r"L2/(\w+)_to_(\w+)", record["case"])
        if matched and record["peer"] == "OpenCV convertTo":
            rows[f"{matched[1]} to {matched[2]}"] = [("Ferry", record["value"]), ("OpenCV convertTo", record["peer_value"])]
    return bars(list(rows.items()), "GB/s", "Conversions")


DRAW = {"transfer": draw_transfer, "access": draw_access, "pool": draw_pool, "convert": draw_convert}
ORDER = ["transfer", "access", "pool", "convert"]


# -- the page ------------------------------------------------------------------------------------------

def table(records):
    yield "| case | metric | value | peer | its value | goal |"
    yield "|---|---|---|---|---|---|"
    for record in records:
        peer, value = (record["peer"], number(record["peer_value"])) if record["peer"] else ("", "")
        goal = f"{'ratio' if record['peer'] else 'value'} {record['goal']}{'' if record['met'] else ', missed'}" if record["goal"] else ""
        yield f"| {record['case']} | {record['metric']} | {number(record['value'])} {record['unit']} | {peer} | {value} | {goal} |"


def ratio_text(record):
    if not record:
        return ""
    judged = f"{number(record['ratio'])}" if record["peer"] else f"{number(record['value'])} {record['unit']}"
    return judged + ("" if record["met"] is not False else ", missed")


def program_tables(records):
    """Ratios alone, which can be compared; the records have the times."""
    cases = {}
    for record in records:
        cases.setdefault((record["bench"], record["case"]), {})[record["metric"]] = record
    metrics = {"processor": "processor / plain C", "elapsed": "elapsed / OpenMP", "upload": "up / fewest", "download": "down / fewest"}
    yield f"| elements/program | {' | '.join(metrics.values())} |"
    yield "|---|" + "---|" * len(metrics)
    for (bench, case), found in cases.items():
        if bench == "programs":
            yield f"| {case} | {' | '.join(ratio_text(found.get(metric)) for metric in metrics)} |"
    yield ""
    yield "| program | calls that handle memory | lines of kernels | lines in plain C |"
    yield "|---|---|---|---|"
    for (bench, case), found in cases.items():
        if bench == "programs_lines":
            yield f"| {case} | {found['memory']['value']} | {found['kernels']['value']} | {found['kernels']['peer_value']} |"


TABLES = {"programs": program_tables}


def results_of(bench):
    """What a picture does not show: all records where there is none, else the goals that are missed."""
    goals = [record for record in bench.records if record["goal"]]
    missed = [record for record in goals if not record["met"]]
    if goals:
        yield f"{len(goals) - len(missed)} of {len(goals)} goals are met" + (", and these are not:" if missed and bench.name in DRAW else ".")
        yield ""
    if bench.name not in DRAW:
        yield from TABLES.get(bench.name, table)(bench.records)
    elif missed:
        yield from table(missed)


def environment_text(bench):
    environment = bench.environment
    driver = f", driver {environment['driver']}" if environment["driver"] else ""
    return f"{bench.date}, {environment['device']}{driver}, {environment['cores']} cores of {environment['cpu']}, {environment['compiler']}, " \
           f"commit {environment['commit']}"


def write_page(devices):
    """{path in docs: text}"""
    files, lines = {}, [HEAD]
    for device, benches in sorted(devices.items()):
        lines += [f"## {device}", ""]
        if device == "emulated":
            lines += ["The device is emulated: its memory is host memory, and a thread copies. It shows what Ferry adds, not what a link bears.", ""]
        if device == "h100":
            lines += ["The machine is virtual. From one such machine to the next, times of its processors and host memory varied by a half.", ""]
        if device == "fakecuda":
            lines += ["The driver of CUDA is a library of the tests, over host memory. It counts calls and bytes; times mean nothing.", ""]
        for name in sorted(benches, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)):
            bench, command = benches[name], "gpu calls" if name == "driver_calls" else f"bench {name}"
            lines += [f"### {device}: {name}", "", PURPOSES.get(name, ""), "", f"Measured {environment_text(bench)}: `./dev {command}`.", ""]
            if name in DRAW:
                path = f"pictures/performance-{device}-{name}.svg"
                files[path] = DRAW[name](bench)
                lines += [f"![{name} on {device}]({path})", ""]
            lines += [*results_of(bench), ""]
    page = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"
    return {"performance.md": page, **files}


def differences(docs, files):
    for path, wanted in files.items():
        target = docs / path
        if not target.is_file() or target.read_text(encoding="utf-8") != wanted:
            yield f"docs/{path} does not show the newest records; docs/performance.py writes it"
    for path in sorted(docs.glob("pictures/performance-*.svg")):
        if f"pictures/{path.name}" not in files:
            yield f"docs/pictures/{path.name} belongs to no record; remove it"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE.parent / "bench" / "results")
    parser.add_argument("--docs", type=pathlib.Path, default=HERE)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    files = write_page(read_results(options.results))
    if options.check:
        found = list(differences(options.docs, files))
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    for path, content in files.items():
        (options.docs / path).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
