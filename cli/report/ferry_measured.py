# SPDX-License-Identifier: MIT
"""What ferry bench and ferry replay measured: their JSON, which comes from standard input, as text and as pictures."""

import getopt
import json
import os
import sys

import ferry_svg
from ferry_output import write

MEANS = {"by_hand_pageable": ("by hand, pageable", "#9aa5b1", "5 4"), "by_hand_pinned": ("by hand, pinned", "#555555", "5 4"),
         "ferry_pageable": ("Ferry, pageable", "#1f6fb2", "none"), "ferry_pinned": ("Ferry, pinned", "#e08e0b", "none")}


# -- ferry bench -----------------------------------------------------------------------------------------


def hand_text(report):
    return "cudaMalloc() and cudaMemcpy(), as calls of the driver" if report["kind"] == "cuda" else "malloc() and memcpy()"


def bench_table(title, columns, rows, decimals):
    """A heading for each column, in one or two lines, and the figures below it."""
    depth = max(len(column) for column in columns)
    for index in range(depth):
        yield f"{title if index == 0 else '':<30}" + "".join(f" {column[index]:>10}" for column in columns)
    for name, values in rows:
        yield f"  {name:<28}" + "".join(f" {'-' if not value else f'{value:.{decimals}f}':>10}" for value in values)


def bench_lines(report):
    yield f"ferry bench {report['version']} on {report['device']} ({report['kind']}), {report['cores']} cores of {report['cpu']}"
    yield f"By hand: {hand_text(report)}."
    if report["quick"]:
        yield "These figures are of a quick run, and mean nothing."
    if report["kind"] in ("host", "emulated"):
        yield "There is no GPU in these figures: the device is memory of the host" + (
            ", which a thread copies. A small copy costs mostly the hand-over to that thread." if report["kind"] == "emulated" else
            ". A copy costs what Ferry adds to memcpy().")
    elif report["kind"] != "cuda":
        yield "By hand is memory of the host here, because this command calls no other driver than CUDA's by itself."
    if report["assertions"]:
        yield "This build has assertions. `./dev bench` and the records in the documents are of a release build."
    by_hand, ferry = ("by hand", "pageable"), ("Ferry", "pageable")
    columns = [by_hand, ("by hand", "pinned"), ferry, ("Ferry", "pinned")]
    for direction, title in (("upload", "Host to device, GB/s"), ("download", "Device to host, GB/s")):
        yield ""
        yield from bench_table(title, columns, [(ferry_svg.size_text(row["bytes"]), [row[means] for means in MEANS]) for row in report["transfers"]
                                                if row["direction"] == direction], 2)
    queued = " `./dev bench transfer` queues copies of page-locked memory and waits once, so that small ones are faster there."
    yield "  Each copy is one call that waits until the bytes have arrived." + (queued if report["transfers"][0]["ferry_pinned"] else "")
    yield ""
    columns = [(who, what) for who in ("by hand", "Ferry") for what in ("each", "99 %")]
    yield from bench_table("Freeing and allocating, ns", columns,
                           [(ferry_svg.size_text(row["bytes"]), [row[who][figure] for who in ("by_hand", "ferry") for figure in ("batch", "p99")])
                            for row in report["allocations"]], 1)
    yield ("  Each: the mean of many that are timed together, with 16 blocks in use, as `./dev bench pool` measures. 99 %: of those that are timed "
           f"one by one, with {report['clock_ns']:.0f} ns for the clock.")
    for kind, title, decimals, note in (
            ("conversions", "Conversions, GB/s", 2, "Bytes read and written, in arrays that no second-level cache holds; `./dev bench convert` "
                                                    "measures inside it. By hand: a loop in C."),
            ("scopes", "Scopes without a copy, ns", 1, "By hand: two atomic operations, the least that is safe between threads. `./dev bench access` "
                                                       "calls them in a shared library, as Ferry is one, which takes up to 1 ns more.")):
        yield ""
        yield from bench_table(title, [("by hand",), ("Ferry",)], [(row["name"], (row["by_hand"], row["ferry"])) for row in report[kind]], decimals)
        yield f"  {note}"
    yield ""
    yield f"Measured in {report['seconds']:.0f} s."


def bench_picture(report):
    shown = f"ferry bench {report['version']} on {report['device']}, {report['cpu']}"
    return ferry_svg.bench(shown + (" (quick: no measurement)" if report["quick"] else ""), report, MEANS, f"By hand: {hand_text(report)}.")


# -- ferry replay ------------------------------------------------------------------------------------------


def mib(size):
    return f"{size / 1048576:.1f} MiB"


def entry(name, text):
    return f"  {name + ':':<28}{text}"


def replay_log_lines(report):
    yield f"Log: {report['log']}"
    yield entry("Operations", f"{report['allocations']} allocations, {report['frees']} frees, {report['failures']} failures")
    yield entry("Threads, streams", f"{report['threads']}, {report['streams']}")
    if report["left_out"] or report["lost_frees"]:
        yield entry("Left out", f"{report['left_out']} of no bytes or address, or frees of what the log does not allocate; "
                                f"{report['lost_frees']} lost frees put in")
    yield entry("Live at most", f"{mib(report['peak_live_bytes'])} in {report['peak_live_blocks']} blocks; {report['left_blocks']} blocks at the end")
    yield f"Device: {report['device']}, limit {mib(report['limit_bytes'])}"
    yield f"  One thread, in the order of the lines; times include the clock's {report['clock_ns']:.0f} ns."


def replay_pool_lines(report):
    pool = report["pool"]
    for name in ("take", "give"):
        yield entry(name.capitalize(), f"median {pool[name]['median_ns']:.0f} ns, p99 {pool[name]['p99_ns']:.0f} ns")
    yield entry("Takes", f"{pool['hits']} hits, {pool['misses']} misses; {pool['waits']} waits between streams")
    yield entry("Live at most, as given", mib(pool["peak_given_bytes"]))
    yield entry("Reserved at most", mib(pool["peak_reserved_bytes"]))
    yield entry("Waste", f"{100 * pool['waste']:.2f} % of the bytes given were not asked for")
    most = max((sample["fragmentation"] for sample in report["over_time"]), default=0)
    yield entry("Fragmentation", f"{pool['fragmentation']:.3f} at the end, {most:.3f} at most")
    if report["failures"]:
        yield entry("Failures in the log", f"{pool['failures_saved']} of {report['failures']} work here")
    first = pool["first_out_of_memory"]
    yield entry("Out of memory", f"{pool['out_of_memory']} times, {mib(pool['out_of_memory_bytes'])} in all" if first else "never")
    if first:
        yield f"    first at line {first['line']} (operation {first['operation']}): {first['bytes']} bytes with {first['live_bytes']} bytes live"
        yield f"    {first['why']}"
    if "smallest_limit_bytes" in pool:
        limit = pool["smallest_limit_bytes"]
        yield entry("Smallest limit", f"{mib(limit)}, {limit / report['peak_live_bytes']:.3f} x the most that is live" if limit
                    else f"none up to {mib(pool['largest_limit_tried_bytes'])}")


def replay_lines(report):
    return [*replay_log_lines(report), "", "Pool", *replay_pool_lines(report)]


def replay_picture(report):
    return ferry_svg.memory(f"{os.path.basename(report['log'])} on {report['device']}", report)


# -- the command -------------------------------------------------------------------------------------------

KINDS = {"bench": (bench_lines, bench_picture), "replay": (replay_lines, replay_picture)}


def command(name, arguments):
    """Options of the ferry command's own: --text FILE or --json FILE for the report, - being standard output, and --svg FILE."""
    lines, picture = KINDS[name]
    text = sys.stdin.read()
    report = json.loads(text)
    for option, path in getopt.getopt(arguments, "", ["text=", "json=", "svg="])[0]:
        shown = text if option == "--json" else picture(report) if option == "--svg" else "\n".join(lines(report)) + "\n"
        write(None if path == "-" else path, shown)
    return 0
