#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shades a height map by hand and with Ferry, and prints what each of them copied.

usage: compare.py FOLDER-OF-PROGRAMS INPUT.npy OUTPUT.png [CELL-WIDTH CELL-HEIGHT]

Ferry runs on the device that it finds, or that FERRY_DEVICE names. Where that is the host itself, which copies nothing, it also
runs on the emulated device. Times are left out, because one run of a debug build is no measurement; `ferry bench` measures.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


class Run:
    """What one program printed, and its picture."""

    def __init__(self, title, command, picture, device=None):
        environment = {**os.environ, **({"FERRY_DEVICE": device} if device else {})}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"compare.py: {command[0]} failed")
        self.device = re.search(r"^device +(.*) \((\S+)\)$", done.stdout, re.M)
        self.title = title or f"Ferry, {self.device[2]}"
        self.bytes = {word: int(re.search(rf"^{word} +(\d+) bytes", done.stdout, re.M)[1]) for word in ("uploaded", "downloaded")}
        self.picture = pathlib.Path(picture).read_bytes()


def table(runs):
    width = max(20, *(len(run.title) + 2 for run in runs))
    rows = [("", [run.title for run in runs]),
            ("bytes copied up", [f"{run.bytes['uploaded']:,}" for run in runs]),
            ("bytes copied down", [f"{run.bytes['downloaded']:,}" for run in runs]),
            ("bytes copied", [f"{sum(run.bytes.values()):,}" for run in runs]),
            ("the same picture", ["yes" if run.picture == runs[0].picture else "no" for run in runs])]
    return "\n".join(f"{name:18}" + "".join(f"{value:>{width}}" for value in values) for name, values in rows)


def notes(runs):
    yield "by hand: the heights as float go up and the shades as float come down; its device is emulated by memory of the host."
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
    ferry = [programs / "hillshade", source, target, "--cell", ",".join(cell)]
    with tempfile.TemporaryDirectory() as folder:
        scratch = os.path.join(folder, "by_hand.png")
        runs = [Run("by hand", [programs / "hillshade_by_hand", source, scratch, *cell], scratch), Run("", ferry, target)]
        if runs[1].device[2].startswith("host"):
            ferry[2] = scratch
            runs.append(Run("", ferry, scratch, "emulated"))
    print(table(runs), "", *notes(runs), "Times: `ferry bench` of a release build measures them.", f"The picture is {target}.", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
