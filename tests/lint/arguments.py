#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The parameters of all public functions have one order, and the committed list of functions is what the headers declare.

usage: arguments.py [--accept] SOURCE-ROOT BUILD-ROOT

The order is: the object; the element type; the access; the range (an offset and a count, rows, a grid, or a count alone); the
place or the stream; inputs; options; outputs. The functions of one element type stand for those of all, and one file of kernels
stands for all files. The list is arguments.txt beside this file, and changes only with --accept.
"""

import pathlib
import re
import sys

from tap import Tap

HERE = pathlib.Path(__file__).parent
LIST = HERE / "arguments.txt"
RANKS = ("element", "access", "range", "place or stream", "input", "options", "output")
BY_NAME = {
    "element": "element", "language": "element",
    "access": "access",
    "offset": "range", "offset_bytes": "range", "count": "range", "target_offset": "range", "source_offset": "range",
    "planes": "range", "rows": "range", "columns": "range", "box": "range", "first": "range",
    "grid": "range", "bytes": "range", "alignment": "range", "index": "range",
    "place": "place or stream", "kind": "place or stream", "stream": "place or stream", "ready_on": "place or stream", "written_on": "place or stream",
    "last_use": "place or stream",
    "options": "options",
    "out": "output", "scope": "output", "scopes": "output", "pointers": "output", "event": "output",
}
DECLARATION = re.compile(r"^(?:FERRY_API|FERRY_INLINE)\b(.*?)\b(\w+)\(([^;{]*)\)\s*[;{]", re.M | re.S)
# An array with its length, or a text with its size, is one thing.
PAIRS = {("arguments", "argument_count"), ("arguments", "count"), ("messages", "count"), ("memory", "bytes"), ("text", "bytes")}
EXCEPTIONS = {
    "ferry_conversion_run": "plain arrays, in the order of memcpy()",
    "ferry_convert_": "plain arrays, in the order of memcpy()",
}


def functions(path):
    """(name, parameters) of a header; a parameter is (type, name)."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    for _, name, inside in DECLARATION.findall(text):
        inside = re.sub(r"\s+", " ", inside).strip()
        parameters = [] if inside in ("", "void") else re.split(r",\s*(?![^(]*\))", inside)
        yield name, [re.fullmatch(r"(.*?)(\w+)(?:\[\w*\])?", each.strip()).groups() for each in parameters]


def rank(kind, name, is_first):
    if is_first:
        return "object"
    if name.startswith("out_"):
        return "output"
    if name == "source" and "*" not in kind.replace("ferry_buffer *", ""):
        return "range"  # the second buffer of a copy comes with its offset
    return BY_NAME.get(name, "input")


def misplaced(name, parameters):
    order = ("object",) + RANKS
    last = 0
    for index, (kind, each) in enumerate(parameters):
        if index > 0 and (parameters[index - 1][1], each) in PAIRS:
            continue
        now = order.index(rank(kind, each, index == 0))
        if now < last:
            return f"{name}(): `{each}` is {order[now]}, and comes after {order[last]}"
        last = now
    return None


def main(arguments):
    accept = arguments[:1] == ["--accept"]
    root, build = (pathlib.Path(each) for each in arguments[accept:])
    tap = Tap()
    headers = [*sorted((root / "include/ferry").glob("*.h")), *sorted((root / "mpi/include/ferry").glob("*.h")),
               build / "include/ferry/float.h", build / "include/ferry/float_convert.h",
               root / "tests/gen/golden/mylib/several_kernels.h"]
    lines, wrong = [], []
    for path in headers:
        found = list(functions(path))
        if found:
            lines.append(f"<{path.parent.name}/{path.name}>")
        for name, parameters in found:
            lines.append(f"{name}({', '.join(each for _, each in parameters)})")
            wrong.append(misplaced(name, parameters) if not name.startswith(tuple(EXCEPTIONS)) else None)
    text = "\n".join(lines) + "\n"
    if accept:
        LIST.write_text(text, encoding="utf-8")
    tap.case("headers have functions", [] if len(lines) > 200 else ["hardly any was found"])
    tap.case("parameters are in order", [each for each in wrong if each])
    known, now = LIST.read_text(encoding="utf-8").splitlines(), text.splitlines()
    tap.case("arguments.txt lists the functions", [f"- {each}" for each in known if each not in now] + [f"+ {each}" for each in now if each not in known])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
