#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws which ranges of a buffer are newest at the host and at a device, from the trace of a program.

usage: ranges.py TRACE OUTPUT.svg

The picture of README is drawn from the trace of examples/ranges:

    FERRY_DEVICE=emulated FERRY_TRACE=ranges.trace build/examples/ranges
    python3 docs/ranges.py ranges.trace docs/pictures/ranges.svg

It has no times, so each trace of the same program gives the same bytes. The trace may have one buffer and one device.
"""

import argparse
import html
import json
import pathlib

LEFT, WIDTH, ROW, BAR = 150, 560, 92, 18
COLOURS = {"current": "#2a9d5c", "stale": "#e9a13b", "none": "#eceff2"}
WORDS = {"current": "holds the newest value", "stale": "stale", "none": "no value"}
SENTENCES = {"launch": "kernel", "overwrite": "overwrites", "update": "updates", "read": "reads"}


# -- the trace ---------------------------------------------------------------------------------------

def read_trace(path):
    """Entries that say how the buffer was used, in their order."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    size = next(entry["args"]["bytes"] for entry in entries if (entry["cat"], entry["name"]) == ("buffer", "create"))
    launched = iter([entry["name"] for entry in entries if entry["cat"] == "launch"])
    uses = []
    for entry in entries:
        given = entry.get("args", {})
        if entry["cat"] == "transfer" and given.get("move"):
            uses.append(("move", given))
        elif entry["cat"] == "use":
            uses.append((f"kernel {next(launched)}() {SENTENCES[given['access']]} it", given))
        elif entry["cat"] == "scope" and entry["ph"] == "e":
            uses.append((f"the host {SENTENCES[given['access']]} a part of it", given))
    return size, uses


class Side:
    """What one place holds: a state for each byte."""

    def __init__(self, size):
        self.size, self.states = size, ["none"] * size

    def set(self, first, count, state):
        self.states[first:first + count] = [state] * count

    def make_stale(self, first, count):
        part = self.states[first:first + count]
        self.states[first:first + count] = ["none" if state == "none" else "stale" for state in part]

    def ranges(self):
        """(first, end, state) of equal neighbours."""
        first = 0
        for at in range(1, self.size + 1):
            if at == self.size or self.states[at] != self.states[first]:
                yield first, at, self.states[first]
                first = at


def steps(size, uses):
    """(title, host's ranges, device's ranges, moves before that state) of each row of the picture."""
    host, device, moves = Side(size), Side(size), []
    for title, given in uses:
        first, count = given["offset"], given["bytes"]
        if title == "move":
            moves.append((first, count, given["to"] == "host"))
            continue
        if moves:
            total = sum(count for _, count, _ in moves)
            yield f"{title.split(' ')[0]} {title.split(' ')[1]} needs {total} bytes of {size}: they cross", list(host.ranges()), list(device.ranges()), moves
        for start, length, to_host in moves:
            (host if to_host else device).set(start, length, "current")
        here, there = (host, device) if given["place"] == "host" else (device, host)
        here.set(first, count, "current")
        if given["access"] != "read":
            there.make_stale(first, count)
        yield title + ("" if moves else ": nothing crosses"), list(host.ranges()), list(device.ranges()), []
        moves = []


# -- the picture -------------------------------------------------------------------------------------

def text(x, y, what, anchor="start", size=13, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{html.escape(what)}</text>'


def bar(name, ranges, size, top):
    yield text(LEFT - 10, top + 14, name, "end")
    for first, end, state in ranges:
        x, width = LEFT + WIDTH * first / size, WIDTH * (end - first) / size
        yield f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[state]}" stroke="#fff"><title>{name}, bytes {first} to {end - 1}: {WORDS[state]}</title></rect>'


def arrow(move, size, top):
    first, count, to_host = move
    middle, low, high = LEFT + WIDTH * (first + count / 2) / size, top + BAR, top + BAR + 22
    tail, head, step = (high, low, 7) if to_host else (low, high, -7)
    yield f'<path d="M{middle:.1f} {tail}V{head}" stroke="#b23a48" stroke-width="3"/>'
    yield f'<path d="M{middle - 6:.1f} {head + step}L{middle:.1f} {head}L{middle + 6:.1f} {head + step}" fill="none" stroke="#b23a48" stroke-width="3"/>'
    yield text(middle + 12, top + BAR + 16, f"{count} bytes", weight="bold")


def draw(size, rows):
    height = ROW * len(rows) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="740" height="{height}" viewBox="0 0 740 {height}" role="img">',
             f"<title>A buffer of {size} bytes at the host and at a device</title>",
             "<style>text{font-family:sans-serif;fill:#222}</style>", f'<rect width="740" height="{height}" fill="white"/>']
    for number, (title, host, device, moves) in enumerate(rows):
        top = ROW * number + 30
        parts.append(text(16, top - 8, f"{number + 1}. {title}", weight="bold"))
        parts += [*bar("host", host, size, top), *bar("device", device, size, top + BAR + 22)]
        for move in moves:
            parts += arrow(move, size, top)
    for number, (state, colour) in enumerate(COLOURS.items()):
        x = LEFT + 200 * number
        parts.append(f'<rect x="{x}" y="{height - 26}" width="14" height="14" fill="{colour}"/>')
        parts.append(text(x + 20, height - 14, WORDS[state]))
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    size, uses = read_trace(options.trace)
    options.output.write_text(draw(size, list(steps(size, uses))), encoding="utf-8")


if __name__ == "__main__":
    main()
