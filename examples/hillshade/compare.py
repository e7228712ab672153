#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shades a height map by hand and with Ferry while a pen changes a few rows of it in each step, and prints what each of them copied.

usage: compare.py FOLDER-OF-PROGRAMS INPUT.npy OUTPUT.png [CELL-WIDTH CELL-HEIGHT]

Beside OUTPUT.png lies a picture of what crossed, which `ferry trace` draws from the trace of Ferry's run, if it was built.
Ferry runs on the device that it finds, or that FERRY_DEVICE names. Where that is the host itself, which copies nothing, it also
runs on the emulated device. Times are left out, because one run of a debug build is no measurement; `ferry bench` measures.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


STEPS = 100  # of the pen


class Run:
    """What one program printed, its picture, and its trace if it has one."""

    def __init__(self, title, command, picture, device=None, trace=None):
        environment = {**os.environ, **({"FERRY_DEVICE": device} if device else {}), **({"FERRY_TRACE": trace} if trace else {})}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"compare.py: {command[0]} failed")
        self.device = re.search(r"^device +(.*) \((\S+)\)$", done.stdout, re.M)
        self.title = title or f"Ferry, {self.device[2]}"
        self.bytes = {word: int(re.search(rf"^{word} +(\d+) bytes", done.stdout, re.M)[1]) for word in ("uploaded", "downloaded")}
        self.picture = pathlib.Path(picture).read_bytes()


def parts(runs):
    """How often the bytes of each of Ferry's runs go into those that were copied by hand; None where nothing was copied."""
    by_hand, *others = (sum(run.bytes.values()) for run in runs)
    return [by_hand / other if other else None for other in others]


def draw_crossings(programs, trace, picture):
    """Whether there is a picture of what crossed."""
    command = programs.parent / "cli" / "ferry"
    if not command.exists():
        return False
    line = [command, "trace", "--svg", os.path.abspath(picture), os.path.basename(trace)]
    return subprocess.run(line, cwd=os.path.dirname(trace), stdout=subprocess.DEVNULL, check=False).returncode == 0


def table(runs):
    width = max(20, *(len(run.title) + 2 for run in runs))
    rows = [("", [run.title for run in runs]),
            ("bytes copied up", [f"{run.bytes['uploaded']:,}" for run in runs]),
            ("bytes copied down", [f"{run.bytes['downloaded']:,}" for run in runs]),
            ("bytes copied", [f"{sum(run.bytes.values()):,}" for run in runs]),
            ("of those by hand", ["", *(f"1 / {round(part)}" if part else "0" for part in parts(runs))]),
            ("the same picture", ["yes" if run.picture == runs[0].picture else "no" for run in runs])]
    return "\n".join(f"{name:18}" + "".join(f"{value:>{width}}" for value in values) for name, values in rows)


def notes(runs):
    yield f"In each of {STEPS} steps the host raises three rows of the ground, and the device shades all of it again."
    yield "by hand: all heights go up and all shades come down around each launch; its device is emulated by memory of the host."
    for run in runs[1:]:
        kind = run.device[2]
        if kind.startswith("host"):
            yield f"{run.title}: no device; the kernel works in the host's memory, so nothing is copied."
        elif kind.startswith("emulated"):
            yield f"{run.title}: a device with memory of its own, emulated on the host."
        else:
            yield f"{run.title}: {run.device[1]}."


def main():
    programs, source, target, *cell = sys.argv[1:]
    cell = cell or ["1", "1"]
    programs = pathlib.Path(programs).resolve()
    ferry = [programs / "hillshade", source, target, "--cell", ",".join(cell), "--pen", str(STEPS)]
    crossings = str(pathlib.Path(target).with_suffix("")) + "-crossings.svg"
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "by_hand.png")
        trace = os.path.join(folder, "hillshade.json")
        runs = [Run("by hand", [programs / "hillshade_by_hand", source, scratch, *cell, str(STEPS)], scratch),
                Run("", ferry, target, trace=trace)]
        if runs[1].device[2].startswith("host"):
            ferry[2] = scratch
            runs.append(Run("", ferry, scratch, "emulated", trace))
        drawn = draw_crossings(programs, trace, crossings)
    pictures = f"The picture is {target}." + (f" What crossed, and when, is drawn in {crossings}." if drawn else "")
    print(table(runs), "", *notes(runs), "Times: `ferry bench` of a release build measures them.", pictures, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
