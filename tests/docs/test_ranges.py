#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The picture of README is what docs/ranges.py draws from a trace of examples/ranges, byte for byte.

usage: test_ranges.py SOURCE-ROOT RANGES-PROGRAM
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402


def trace(program, folder, name):
    path = folder / name
    environment = {**os.environ, "FERRY_DEVICE": "emulated", "FERRY_TRACE": str(path)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    return path, done.stdout


def draw(root, path):
    drawn = path.with_suffix(".svg")
    subprocess.run([sys.executable, root / "docs" / "ranges.py", path, drawn], check=True)
    return drawn.read_text(encoding="utf-8")


def check_changed(root, path):
    """A trace in which other bytes crossed gives another picture."""
    other = path.with_name("other.trace")
    other.write_text(path.read_text(encoding="utf-8").replace('"bytes":2000', '"bytes":1600'), encoding="utf-8")
    return [] if ">1600 bytes</text>" in draw(root, other) else ["the picture does not show it"]


def main():
    root, program = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
    committed = (root / "docs" / "pictures" / "ranges.svg").read_text(encoding="utf-8")
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path, printed = trace(program, folder, "first.trace")
        pictures = [draw(root, path), draw(root, trace(program, folder, "second.trace")[0])]
        tap.case("what crosses", [] if printed == "2000 bytes up, 0 bytes down\n" else [printed])
        tap.case("the committed picture", [f"trace {number} gives another" for number, picture in enumerate(pictures, 1) if picture != committed])
        tap.case("another trace gives another picture", check_changed(root, path))
    arrows = re.findall(r">(\d+) bytes</text>", committed)
    tap.case("one arrow crosses", [] if arrows == ["2000"] else [str(arrows)])
    svg = xml.etree.ElementTree.fromstring(committed)
    tap.case("the picture is SVG", [] if svg.tag.endswith("svg") and float(svg.get("width")) <= 760 else [svg.tag])
    tap.case("README shows it", [] if "(docs/pictures/ranges.svg)" in (root / "README.md").read_text(encoding="utf-8") else ["it does not"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
