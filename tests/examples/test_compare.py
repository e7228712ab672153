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
ROWS, COLUMNS = 67, 83


def compare(folder, device, dtype=np.int32):
    """(titles of the columns, {row: values}, the whole text)"""
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.png")
    south, east = np.mgrid[0:ROWS, 0:COLUMNS]
    np.save(source, (900 + 90 * np.sin(east / 9) * np.cos(south / 7)).astype(dtype))
    environment = {**os.environ, "FERRY_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"}
    environment.pop("FERRY_DEVICE", None)
    environment.update({"FERRY_DEVICE": device} if device else {})
    programs = os.path.dirname(os.path.abspath(PROGRAM))
    assert programs == os.path.dirname(os.path.abspath(BY_HAND))
    done = subprocess.run([sys.executable, COMPARE, programs, source, target, "20", "30"], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert pathlib.Path(target).stat().st_size > 0
    head, *lines = done.stdout.split("\n\n")[0].splitlines()
    rows = {line[:18].strip(): line[18:].split() for line in lines}
    return re.split(r" {2,}", head.strip()), rows, done.stdout


def numbers(rows, name):
    return [int(value.replace(",", "")) for value in rows[name]]


def check(titles, rows, text, up, down):
    assert numbers(rows, "bytes copied up") == up, text
    assert numbers(rows, "bytes copied down") == down, text
    assert numbers(rows, "bytes copied") == [a + b for a, b in zip(up, down)], text
    assert len(rows) == 4 and " ms" not in text, text
    assert rows["the same picture"] == ["yes"] * len(titles), text
    assert "emulated" in text and re.search(r"^The picture is .*out\.png\.$", text, re.M), text


def test_without_a_gpu(folder):
    cells = ROWS * COLUMNS
    titles, rows, text = compare(folder, None)
    assert titles == ["by hand", "Ferry, host", "Ferry, emulated"], text
    check(titles, rows, text, [4 * cells, 0, 4 * cells], [4 * cells, 0, cells])


def test_a_device_that_is_there(folder):
    cells = ROWS * COLUMNS
    for dtype, bytes_up in ((np.uint8, 1), (np.int16, 2), (np.float64, 4)):
        titles, rows, text = compare(folder, "emulated", dtype)
        assert titles == ["by hand", "Ferry, emulated"], text
        check(titles, rows, text, [4 * cells, bytes_up * cells], [4 * cells, cells])


run_cases([("without a GPU", test_without_a_gpu), ("a device that is there", test_a_device_that_is_there)])
