# SPDX-License-Identifier: MIT
"""What the guide and the example say is what happens."""

import os
import re
import struct
import subprocess
import sys
import zlib

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "examples", "hillshade.py")


def run(*arguments, device="emulated:1", **more):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "FERRY_DEVICE": device}, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["host", "emulated:1"])
def test_guide(numpy, device):
    """The blocks of docs/python.md are one program. A comment at the end of a line that prints is what it prints."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        program = "\n".join(re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S))
    expected = re.findall(r"^print\(.*\)   # (.*)$", program, re.M)
    printed = run("-", device=device, input=program)
    if device != "host":  # nothing crosses to the host
        assert len(expected) > 3 and all(line in printed.splitlines() for line in expected), printed


def test_hillshade(numpy, tmp_path):
    """Flat land is lit from 45 degrees, and one byte for each cell comes back."""
    numpy.save(tmp_path / "flat.npy", numpy.full((5, 7), 3))
    printed = run(SCRIPT, str(tmp_path / "flat.npy"), str(tmp_path / "flat.png"))
    assert f"{5 * 7 * 4} bytes up, {5 * 7} bytes down" in printed
    picture = (tmp_path / "flat.png").read_bytes()
    start = picture.index(b"IDAT")
    size, = struct.unpack(">I", picture[start - 4:start])
    assert zlib.decompress(picture[start + 4:start + 4 + size]) == (b"\0" + b"\xb4" * 7) * 5
