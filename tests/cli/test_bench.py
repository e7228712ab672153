#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ferry bench prints, writes and draws. It runs with --quick: the figures are not looked at.

usage: test_bench.py COMMAND VERSION FAKECUDA
"""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

ABSENT = "/dev/null/absent/libcuda.so.1"  # a CUDA driver that does not exist
MEMBERS = ["command", "schema", "version", "kind", "device", "cpu", "cores", "quick", "assertions", "seconds", "units", "transfers", "clock_ns",
           "allocations", "conversions", "scopes"]
MEANS = ["by_hand_pageable", "by_hand_pinned", "ferry_pageable", "ferry_pinned"]
LATENCY = ["batch", "samples", "p50", "p99", "p999", "max", "quantiles"]
SIZES = [4096, 16384, 65536]
HEADINGS = ["Host to device, GB/s", "Device to host, GB/s", "Freeing and allocating, ns", "Conversions, GB/s", "Scopes without a copy, ns"]


def expect(*conditions):
    """Problems of a case: the descriptions of the conditions that do not hold."""
    return [text for holds, text in conditions if not holds]


def environment(**changes):
    kept = {k: v for k, v in os.environ.items() if k != "FERRY_DEVICE"}
    return {**kept, "FERRY_CUDA_LIBRARY": ABSENT, **changes}


def run(ferry, *arguments, **changes):
    return subprocess.run([ferry, "bench", *arguments], env=environment(**changes), capture_output=True, text=True, check=False)


def check_latency(latency):
    quantiles = latency["quantiles"]
    return expect(
        (list(latency) == LATENCY, f"members {list(latency)}"), (len(quantiles) == 101, "quantiles are not 101"),
        (quantiles == sorted(quantiles) and quantiles[0] > 0, "quantiles do not rise"),
        (latency["p50"] == quantiles[50] and latency["p99"] == quantiles[99] and latency["max"] == quantiles[100], "named quantiles"),
        (latency["p99"] <= latency["p999"] <= latency["max"], "p999"), (latency["samples"] == 200, "samples"),
        (latency["batch"] > 0, "the mean of a batch"))


def check_json(text, version, kind, pinned):
    report = json.loads(text)
    problems = expect(
        (list(report) == MEMBERS, f"members {list(report)}"), (report["schema"] == 1, "schema"), (report["command"] == "bench", "command"),
        (report["version"] == version, "version"), (report["kind"] == kind, f"kind {report['kind']}"), (report["quick"] is True, "quick"),
        ([(t["direction"], t["bytes"]) for t in report["transfers"]] == [(d, b) for d in ("upload", "download") for b in SIZES], "transfers"),
        ([p["bytes"] for p in report["allocations"]] == [4096, 65536], "allocations"),
        (len(report["conversions"]) == 3 and len(report["scopes"]) == 3, "conversions or scopes"))
    for transfer in report["transfers"]:
        problems += expect((list(transfer) == ["direction", "bytes", *MEANS], f"members {list(transfer)}"))
        for means in MEANS:
            value = transfer[means]
            there = pinned or "pinned" not in means
            problems += expect(((value is not None and value > 0) if there else value is None, f"{means} is {value}"))
    for pool in report["allocations"]:
        problems += check_latency(pool["by_hand"]) + check_latency(pool["ferry"])
    for pair in report["conversions"] + report["scopes"]:
        problems += expect((list(pair) == ["name", "by_hand", "ferry"] and pair["by_hand"] > 0 and pair["ferry"] > 0, str(pair)))
    return problems


def check_text(text, hand):
    """Every table has its heading, and each line as many figures as its heading has columns."""
    problems = expect((text.splitlines()[1] == f"By hand: {hand}.", text.splitlines()[1]), ("mean nothing" in text, "quick is not said"),
                      (("There is no GPU in these figures" in text) == ("malloc() and memcpy()" == hand), "what the device is"),
                      (not re.search(r" $", text, re.M), "spaces at the end of a line"))
    for heading in HEADINGS:
        found = re.search(rf"^{re.escape(heading)} +(.*)\n((?:  .*\n| +\S.*\n)+)", text, re.M)
        if not found:
            problems.append(f"no {heading}")
            continue
        columns = len(re.findall(r"by hand|Ferry", found[1]))
        lines = [line for line in found[2].splitlines() if re.match(r"  \S", line) and not line.endswith(".")]
        wrong = [line for line in lines if len(line[30:].split()) != columns or len(line) != 30 + 11 * columns]
        problems += expect((len(lines) >= 2, f"{heading} has {len(lines)} lines")) + wrong
    return problems


def check_picture(text):
    root = xml.etree.ElementTree.fromstring(text)
    shown = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
    paths = [element.get("d") for element in root.iter("{http://www.w3.org/2000/svg}path")]
    numbers = [float(number) for path in paths for number in re.findall(r"-?[\d.]+", path)]
    return expect(
        (all(word in shown for word in ("Host to device", "Device to host", "GB/s", "Ferry, pageable", "ns")), shown),
        ("nan" not in text and "inf" not in text.replace("info", ""), "no number"),
        (all(0 <= number <= 960 for number in numbers), "a point outside of the picture"))


def check_device(tap, ferry, version, device, kind, hand, pinned, **changes):
    with tempfile.TemporaryDirectory() as folder:
        table, records, picture = (pathlib.Path(folder) / name for name in ("table", "json", "svg"))
        done = run(ferry, "--quick", "-d", device, "--json", str(records), "--svg", str(picture), "-o", str(table), **changes)
        tap.case(f"{device}: exit status", expect((done.returncode == 0, done.stderr), (done.stdout == "" and done.stderr == "", "output")))
        if done.returncode == 0:
            tap.case(f"{device}: table", check_text(table.read_text(encoding="utf-8"), hand))
            tap.case(f"{device}: JSON", check_json(records.read_text(encoding="utf-8"), version, kind, pinned))
            tap.case(f"{device}: picture", check_picture(picture.read_text(encoding="utf-8")))


def check_progress(tap, ferry):
    """A bar where standard error is a terminal, and nothing of it stays."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([ferry, "bench", "-q", "-d", "emulated"], env=environment(), stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other end of the terminal was closed
            pass
        status = process.wait()
    os.close(ours)
    steps = [int(value) for value in re.findall(rb"\] +(\d+) %", shown)]
    tap.case("progress", expect(
        (status == 0, f"exit status {status}"), (len(steps) == 7 and steps == sorted(steps) and steps[0] == 0 and steps[-1] < 100, str(steps)),
        (shown.endswith(b" \r"), "the bar stays"), (b"\n" not in shown, "more than one line")))


def check_wrong_use(tap, ferry):
    done = run(ferry, "surplus")
    tap.case("surplus argument", expect((done.returncode == 2, f"exit status {done.returncode}"), ("usage:" in done.stderr, done.stderr)))
    done = run(ferry, "-q", "-d", "cuda")
    tap.case("absent device", expect((done.returncode == 1, f"exit status {done.returncode}"), (ABSENT in done.stderr, done.stderr)))
    done = run(ferry, "-q", "-d", "emulated", "-j", "/dev/null/absent/file")
    tap.case("file that cannot be written", expect(
        (done.returncode == 1, f"exit status {done.returncode}"), ("ferry bench: /dev/null/absent/file: " in done.stderr, done.stderr)))


def main():
    ferry, version, fakecuda = sys.argv[1], sys.argv[2], str(pathlib.Path(sys.argv[3]).resolve())
    tap = Tap()
    by_c, by_driver = "malloc() and memcpy()", "cudaMalloc() and cudaMemcpy(), as calls of the driver"
    check_device(tap, ferry, version, "emulated", "emulated", by_c, pinned=True)
    check_device(tap, ferry, version, "host", "host", by_c, pinned=False)
    check_device(tap, ferry, version, "cuda", "cuda", by_driver, pinned=True, FERRY_CUDA_LIBRARY=fakecuda)
    check_progress(tap, ferry)
    check_wrong_use(tap, ferry)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
