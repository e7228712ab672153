# SPDX-License-Identifier: MIT
"""What the guide and the examples say is what happens."""

import importlib.util
import os
import re
import struct
import subprocess
import sys
import zlib

import pytest

import ferry

if os.environ.get("FERRY_DEBUG") == "1":
    pytest.skip("the run without checks has done it", allow_module_level=True)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = os.path.join(ROOT, "examples")


def run(*arguments, device="emulated:1", **more):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "FERRY_DEVICE": device}, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["host", "emulated:1"])
def test_guide(numpy, device):
    """The blocks of docs/python.md are one program. A comment at the end of a line that prints is what it prints."""
    pytest.importorskip("jinja2")
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        program = "\n".join(re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S))
    expected = re.findall(r"^print\(.*\)   # (.*)$", program, re.M)
    printed = run("-", device=device, input=program)
    if device != "host":  # with the host device no bytes cross, so other numbers are printed
        assert len(expected) > 3 and all(line in printed.splitlines() for line in expected), printed


def greys_of(path):
    """Returns the rows of a picture, each of which begins with a byte 0."""
    picture = path.read_bytes()
    start = picture.index(b"IDAT")
    size, = struct.unpack(">I", picture[start - 4:start])
    return zlib.decompress(picture[start + 4:start + 4 + size])


def test_hillshade(numpy, tmp_path):
    """Flat land is lit from 45 degrees, and one byte for each cell comes back."""
    numpy.save(tmp_path / "flat.npy", numpy.full((5, 7), 3))
    printed = run(os.path.join(EXAMPLES, "hillshade.py"), str(tmp_path / "flat.npy"), str(tmp_path / "flat.png"))
    assert f"{5 * 7 * 4} bytes up, {5 * 7} bytes down" in printed
    assert greys_of(tmp_path / "flat.png") == (b"\0" + b"\xb4" * 7) * 5


def test_hillshade_of_small_numbers(numpy, tmp_path):
    """Heights need not be whole numbers: the same land in kilometres, in cells of kilometres, has the same picture."""
    metres = (1000 * numpy.sin(numpy.arange(40)[:, None] / 9) * numpy.cos(numpy.arange(30) / 7)).astype("i4")
    numpy.savez(tmp_path / "metres.npz", elevation=metres, latitude=numpy.arange(40.0), shade=metres)
    numpy.savez(tmp_path / "kilometres.npz", topo=metres / 1000, latitude=numpy.arange(40.0))
    for name, cell in ("metres", "1000"), ("kilometres", "1"):
        run(os.path.join(EXAMPLES, "hillshade.py"), str(tmp_path / f"{name}.npz"), str(tmp_path / f"{name}.png"), cell, cell)
    grey, other = (numpy.frombuffer(greys_of(tmp_path / f"{name}.png"), "u1").astype(int) for name in ("metres", "kilometres"))
    assert len(set(grey)) > 20 and abs(grey - other).max() <= 1


def test_hillshade_refuses(numpy, tmp_path):
    """What is no map of heights is refused with the reason."""
    gap = numpy.ones((3, 4))
    gap[1, 2] = numpy.nan
    for expected, arrays in (("not finite", [gap]), ("not elements of complex64", [numpy.ones((3, 4), "c8")]),
                             ("not elements of [", [numpy.ones((3, 4), [("a", "f4")])]), ("array of 1 dimensions", [numpy.ones(12)]),
                             ("file has 0", [numpy.ones(3), numpy.ones(4)]), ("file has 2: arr_0, arr_1", [gap, gap])):
        path = tmp_path / ("map.npz" if len(arrays) > 1 else "map.npy")
        if len(arrays) > 1:
            numpy.savez(path, *arrays)
        else:
            numpy.save(path, arrays[0])
        done = subprocess.run([sys.executable, os.path.join(EXAMPLES, "hillshade.py"), str(path), str(tmp_path / "none.png")],
                              capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "FERRY_DEVICE": "host"})
        assert done.returncode == 1 and expected in done.stderr and not (tmp_path / "none.png").exists(), done.stderr


def has_matplotlib():
    return importlib.util.find_spec("matplotlib") is not None


def has_opencl():
    try:
        return bool(ferry.Context("opencl"))
    except ferry.Error:
        return False


@pytest.mark.parametrize("device", ["host", "emulated:1", pytest.param("opencl", marks=pytest.mark.skipif(not has_opencl(), reason="no device of OpenCL"))])
def test_heat(numpy, tmp_path, device):
    """No step moves a byte, the heat stays where it began, and there is a picture where something can draw it."""
    picture = tmp_path / "heat.png"
    printed = run(os.path.join(EXAMPLES, "heat.py"), "30", "32", str(picture), device=device)
    assert "30 steps of 4096 bytes, 0 bytes crossed" in printed
    assert picture.exists() == has_matplotlib() and (picture.exists() or "no picture" in printed)


@pytest.mark.parametrize("device", ["host", "emulated:1"])
def test_out_of_core(numpy, tmp_path, device):
    """A file of twice the device's memory: its numbers are those of two hills."""
    picture = tmp_path / "histogram.png"
    printed = run(os.path.join(EXAMPLES, "out_of_core.py"), "12", "6", str(picture), device=device)
    assert "12 MiB in 12 chunks through 6 MiB" in printed
    numbers, mean, deviation = re.search(r"(\d+) numbers, mean ([\d.]+), deviation ([\d.]+)", printed).groups()
    assert int(numbers) == 12 << 18 and abs(float(mean) - 1 / 3) < 0.005 and abs(float(deviation) - 1.43) < 0.005
    assert picture.exists() == has_matplotlib() and (picture.exists() or "no picture" in printed)
