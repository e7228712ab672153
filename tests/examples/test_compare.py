# SPDX-License-Identifier: MIT
"""The table at the end of `./dev demo`: its bytes are those of the grid, on every kind of device, and the pictures are equal.

usage: test_compare.py COMPARE.PY HILLSHADE HILLSHADE-BY-HAND
"""

import os
import pathlib
import re
import subprocess
import sys

from support import run_cases, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not installed")

COMPARE, PROGRAM, BY_HAND = sys.argv[1:4]
ROWS, COLUMNS, STEPS = 67, 83, 100
BY_HAND_BYTES = 4 * ROWS * COLUMNS * (STEPS + 1)  # all heights up and all shades down, around each launch
PEN_BYTES = 4 * 3 * COLUMNS * STEPS               # the three rows of each step
DRAWN_ROWS = len({step * (ROWS - 3) // (STEPS - 1) + row for step in range(STEPS) for row in range(3)})
# The picture, the shades that the pen reads, and the heights that it changes for the first time.
DOWN_BYTES = ROWS * COLUMNS + PEN_BYTES + 4 * COLUMNS * DRAWN_ROWS
DEM = "/usr/share/matplotlib/mpl-data/sample_data/jacksboro_fault_dem.npz"


def hills():
    south, east = np.mgrid[0:ROWS, 0:COLUMNS]
    return 900 + 90 * np.sin(east / 9) * np.cos(south / 7)


def compare(folder, device, heights):
    """(titles of the columns, {row: values}, the whole text)"""
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.png")
    np.save(source, heights)
    environment = {**os.environ, "FERRY_CUDA_LIBRARY": "/dev/null/absent/libcuda.so.1"}
    environment.pop("FERRY_DEVICE", None)
    environment.update({"FERRY_DEVICE": device} if device else {})
    programs = os.path.dirname(os.path.abspath(PROGRAM))
    assert programs == os.path.dirname(os.path.abspath(BY_HAND))
    done = subprocess.run([sys.executable, COMPARE, programs, source, target, "74.4", "92.8"], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert pathlib.Path(target).stat().st_size > 0
    head, *lines = done.stdout.split("\n\n")[0].splitlines()
    rows = {line[:18].strip(): line[18:].replace(" / ", "/").split() for line in lines}
    drawn = os.path.join(folder, "out-crossings.svg")
    command = os.path.join(programs, "..", "cli", "ferry")
    assert os.path.exists(drawn) == os.path.exists(command) and ("out-crossings.svg" in done.stdout) == os.path.exists(drawn)
    return re.split(r" {2,}", head.strip()), rows, done.stdout


def numbers(rows, name):
    return [int(value.replace(",", "")) for value in rows[name]]


def check(titles, rows, text, up, down):
    assert numbers(rows, "bytes copied up") == up, text
    assert numbers(rows, "bytes copied down") == down, text
    assert numbers(rows, "bytes copied") == [a + b for a, b in zip(up, down)], text
    assert len(rows) == 5 and " ms" not in text, text
    total = numbers(rows, "bytes copied")
    assert rows["of those by hand"] == [f"1/{round(total[0] / part)}" if part else "0" for part in total[1:]], text
    assert rows["the same picture"] == ["yes"] * len(titles), text
    assert "emulated" in text and re.search(r"^The picture is .*out\.png\.", text, re.M), text


def test_without_a_gpu(folder):
    cells = ROWS * COLUMNS
    titles, rows, text = compare(folder, None, hills().astype(np.int32))
    assert titles == ["by hand", "Ferry, host", "Ferry, emulated"], text
    check(titles, rows, text, [BY_HAND_BYTES, 0, 4 * cells + PEN_BYTES], [BY_HAND_BYTES, 0, DOWN_BYTES])


def test_a_device_that_is_there(folder):
    cells = ROWS * COLUMNS
    for dtype, bytes_up in ((np.uint8, 1), (np.int16, 2), (np.float64, 4)):
        titles, rows, text = compare(folder, "emulated", hills().astype(dtype))
        assert titles == ["by hand", "Ferry, emulated"], text
        check(titles, rows, text, [BY_HAND_BYTES, bytes_up * cells + PEN_BYTES], [BY_HAND_BYTES, DOWN_BYTES])


def test_figures_of_readme(folder):
    """The first lines of README have those of the map that `./dev demo` shades."""
    _, rows, text = compare(folder, "emulated", np.load(DEM)["elevation"].astype(np.int32))
    readme = pathlib.Path(COMPARE).resolve().parents[2] / "README.md"
    by_hand, ferry = rows["bytes copied"]
    assert f"copies {by_hand} bytes, Ferry {ferry}," in " ".join(readme.read_text(encoding="utf-8").split()[:80]), text


run_cases([("without a GPU", test_without_a_gpu), ("a device that is there", test_a_device_that_is_there),
           *([("figures of README", test_figures_of_readme)] if os.path.exists(DEM) else [])])
