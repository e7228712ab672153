# SPDX-License-Identifier: MIT
"""SVG pictures: what they are drawn with, and the pictures of the reports. Texts are escaped; a file needs nothing else."""

import math
import os

from ferry_output import in_units

STYLE = ("text{font-family:sans-serif;fill:#222}.title{font-size:16px}.label{font-size:13px}.tick{font-size:12px}.grid{stroke:#e3e6ea}"
         ".block{font-size:11px;fill:#fff}.axis{stroke:#555}.failed{stroke:#c22;stroke-width:1.2}.limit{stroke:#333;stroke-dasharray:5 4}")


class Picture:
    """A picture in pixels, from the top left."""

    def __init__(self, width, height):
        self.parts = [f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">\n<style>{STYLE}</style>\n<rect width="{width}" height="{height}" fill="white"/>']

    def text(self, x, y, anchor, kind, text, turn=""):
        shown = "".join(f"&#{ord(c)};" if c in '<>&"' else c if c.isprintable() else "?" for c in text)
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"{turn}>{shown}</text>')

    def upward_text(self, x, y, text):
        self.text(x, y, "middle", "label", text, f' transform="rotate(-90 {x:.1f} {y:.1f})"')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}"/>')

    def path(self, colour, steps, width=1.6, dash="none"):
        self.parts.append(f'<path fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}" d="{steps}"/>')

    def end(self):
        return "\n".join([*self.parts, "</svg>", ""])


def round_step(span):
    """The distance of ticks on an axis, at most about six: 1, 2 or 5 times a power of ten."""
    raw = span / 6
    power = 10.0 ** math.floor(math.log10(raw))
    return power * next(step for step in (1, 2, 5, 10) if raw / power <= step)


class Panel:
    """Two axes. `x` and `y` map values; the vertical axis goes from 0 to `top` in steps."""

    def __init__(self, picture, left, upper, width, height, x, top, step):
        self.picture, self.left, self.upper, self.right, self.lower = picture, left, upper, left + width, upper + height
        self.share, self.top, self.step = x, top, step

    def x(self, value):
        return self.left + (self.right - self.left) * min(max(self.share(value), 0), 1)

    def y(self, value):
        return self.lower - (self.lower - self.upper) * min(value / self.top, 1)

    def frame(self, label):
        for index in range(round(self.top / self.step) + 1):
            y = self.y(index * self.step)
            self.picture.line(self.left, y, self.right, y, "grid")
            self.picture.text(self.left - 8, y + 4, "end", "tick", f"{index * self.step:g}")
        self.picture.upward_text(self.left - 58, (self.upper + self.lower) / 2, label)
        self.picture.line(self.left, self.lower, self.right, self.lower, "axis")
        self.picture.line(self.left, self.upper, self.left, self.lower, "axis")

    def tick(self, value, text):
        self.picture.line(self.x(value), self.lower, self.x(value), self.lower + 5, "axis")
        self.picture.text(self.x(value), self.lower + 19, "middle", "tick", text)

    def curve(self, points, colour, width=1.6, dash="none"):
        steps = " ".join(f"{'L' if index else 'M'}{self.x(x):.1f} {self.y(y):.1f}" for index, (x, y) in enumerate(points))
        self.picture.path(colour, steps, width, dash)


# -- ferry trace: a row for each thread and stream, time from left to right ----------------------------

# From the back to the front: what lies in another mark comes after it. Colour, label, and how much lower a bar is.
MARKS = {"launch": ("#7b5ea7", "launch", 0), "transfer": ("#1f6fb2", "transfer", 3), "wait": ("#e08e0b", "wait", 6),
         "pool": ("#4f9d69", "pool", 6), "queue": ("#b23a48", "queued on a stream", 6)}
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 1200, 230, 40, 70, 34, 18


def rows_of(parts):
    """The tracks that have marks, by trace and in the order of the file."""
    for part in parts:
        used = {track for category, track, _, _ in part.marks if category in MARKS}
        tracks = [*part.tracks, *sorted(used - set(part.tracks))]
        for track in tracks:
            if track in used:
                name = part.tracks.get(track, "")[:24]
                yield part, track, f"{os.path.basename(part.path)}: {name}" if len(parts) > 1 else f"{name} ({track})"


def timeline(parts):
    """Each trace begins at the left, because clocks of several machines have nothing in common."""
    rows = list(rows_of(parts))
    picture = Picture(WIDTH, TOP + len(rows) * ROW + 40)
    span = max(part.span_ns() for part in parts) or 1
    width, bottom = WIDTH - LEFT - RIGHT, TOP + len(rows) * ROW
    picture.text(LEFT, 22, "start", "title", parts[0].path + (f" and {len(parts) - 1} more" if len(parts) > 1 else ""))
    for index, (colour, label, _) in enumerate(MARKS.values()):
        picture.box(LEFT + 130 * index, 34, 12, 12, colour)
        picture.text(LEFT + 130 * index + 18, 44, "start", "tick", label)
    for index in range(9):
        x = LEFT + width * index / 8
        picture.line(x, TOP - 6, x, bottom, "grid")
        picture.text(x, bottom + 16, "middle", "tick", f"{span * index / 8e6:.3f} ms")
    for index, (part, track, label) in enumerate(rows):
        picture.text(LEFT - 10, TOP + index * ROW + BAR - 4, "end", "tick", label)
        draw_track(picture, part, track, TOP + index * ROW, lambda ns, part=part: LEFT + width * max(ns - (part.begin_ns or 0), 0) / span)
    return picture.end()


def draw_track(picture, part, track, top, x):
    """Marks that would lie under the last one of their kind are left out, so that the picture stays small."""
    for category, (colour, _, inset) in MARKS.items():
        drawn = -1
        for kind, of, begin_ns, ns in part.marks:
            if kind != category or of != track:
                continue
            begin = x(begin_ns)
            end = max(x(begin_ns + ns), begin + 0.5)
            if end > drawn:
                picture.box(begin, top + inset, end - begin, BAR - 2 * inset, colour)
                drawn = end


# -- ferry trace: a row for each slab of a snapshot, its blocks by their addresses ----------------------

STATES = {"live": ("#1f6fb2", "live"), "pending": ("#e08e0b", "idle, and still used by queued work"), "idle": ("#dfe4ea", "idle")}
SLABS_MOST, LETTER = 500, 7   # rows of a picture, and pixels of a letter in a block


def slabs(title, rows):
    """The slabs of all pools have one scale. Each row is the label of a pool at its first slab, the size, and the blocks."""
    drawn = rows[:SLABS_MOST]
    picture = Picture(WIDTH, TOP + len(drawn) * ROW + 40)
    most = max((size for _, size, _ in drawn), default=1)
    width, bottom = WIDTH - LEFT - RIGHT, TOP + len(drawn) * ROW
    picture.text(LEFT, 22, "start", "title", title)
    for (colour, label), x in zip(STATES.values(), (LEFT, LEFT + 70, LEFT + 320)):
        picture.box(x, 34, 12, 12, colour)
        picture.text(x + 18, 44, "start", "tick", label)
    for index, (label, size, blocks) in enumerate(drawn):
        top = TOP + index * ROW
        picture.text(LEFT - 10, top + BAR - 4, "end", "tick", label[:32])
        draw_slab(picture, blocks, top, lambda offset: LEFT + width * offset / most)
        if size < most / 2:
            picture.text(LEFT + width * size / most + 4, top + BAR - 4, "start", "tick", in_units(size))
    left_out = f"; {len(rows) - len(drawn)} more slabs are not drawn" if len(rows) > len(drawn) else ""
    picture.text(LEFT, bottom + 20, "start", "tick", f"the longest slab has {in_units(most)}{left_out}")
    return picture.end()


def draw_slab(picture, blocks, top, x):
    """Blocks narrower than half a pixel are drawn only where the one before does not cover them."""
    drawn = -1
    for offset, size, state, owner in blocks:
        begin, end = x(offset), x(offset + size)
        if end < drawn + 0.5:
            continue
        picture.box(begin, top, max(end - begin - 0.5, 0.5), BAR, STATES[state][0])
        drawn = end
        if owner and len(owner) * LETTER < end - begin:
            picture.text(begin + 4, top + BAR - 5, "start", "block", owner)


# -- ferry replay: the pool's memory over time, with fragmentation below -------------------------------

SERIES = (("reserved", "#9aa5b1", "reserved_bytes"), ("live, given", "#e08e0b", "given_bytes"), ("live, requested", "#1f6fb2", "requested_bytes"))


def memory(title, report):
    """The horizontal axis is the log's own time, or operations where the log has no times."""
    nothing = {"operation": 0, "seconds": 0, "requested_bytes": 0, "given_bytes": 0, "reserved_bytes": 0, "fragmentation": 0, "failed": False}
    samples = report["over_time"] or [nothing]
    by_operations = report["seconds"] == 0
    times = [sample["operation"] if by_operations else sample["seconds"] for sample in samples]
    scale, unit = (1, "operations") if by_operations else (1e-3, "ms") if times[-1] < 2 else (1, "s")
    span = max(times[-1] / scale, 1e-3)
    most = max(1, *(sample[name] for sample in samples for _, _, name in SERIES))
    power = next(power for power in (3, 2, 1, 0) if power == 0 or most >= 4 * 1024 ** power)
    of, name = 1024 ** power, ("bytes", "KiB", "MiB", "GiB")[power]
    step = round_step(most / of)

    picture = Picture(960, 560)
    picture.text(90, 24, "start", "title", title)
    upper = Panel(picture, 90, 64, 846, 300, lambda value: value / scale / span, math.ceil(most / of / step) * step, step)
    lower = Panel(picture, 90, 420, 846, 80, upper.share, 1, 0.5)
    upper.frame(f"memory ({name})")
    lower.frame("fragmentation")
    ticks = round_step(span)
    for panel in (upper, lower):
        for index in range(int(span * 1.0001 / ticks) + 1):
            panel.tick(index * ticks * scale, f"{index * ticks:g}")
    failed = [time for time, sample in zip(times, samples) if sample["failed"]]
    for time in failed:
        picture.line(upper.x(time), upper.upper, upper.x(time), upper.lower, "failed")
    limit = report["limit_bytes"] / of
    limited = 0 < limit <= upper.top
    if limited:
        picture.line(upper.left, upper.y(limit), upper.right, upper.y(limit), "limit")
    for _, colour, key in SERIES:   # bytes change in steps: each sample holds until the next
        steps = "".join(f"V{upper.y(sample[key] / of):.1f}H{upper.x(time):.1f}" for time, sample in zip(times, samples))
        picture.path(colour, f"M{upper.left} {upper.lower}{steps}")
    lower.curve([(time, sample["fragmentation"]) for time, sample in zip(times, samples)], "#7b3294")
    picture.text(513, 544, "middle", "label", "operations of the log" if by_operations else f"time in the log ({unit})")
    legend = [(label, colour, "") for label, colour, _ in reversed(SERIES)]
    legend += [("out of memory", "", "failed")] * bool(failed) + [("limit", "", "limit")] * limited
    for index, (label, colour, kind) in enumerate(legend):
        x = 90 + 150 * index
        if colour:
            picture.box(x, 40, 18, 4, colour)
        else:
            picture.line(x, 42, x + 18, 42, kind)
        picture.text(x + 24, 46, "start", "tick", label)
    return picture.end()


# -- ferry bench: copies by size in both directions, and the times of allocations below ----------------

POOL_COLOURS = ("#1f6fb2", "#4f9d69", "#e08e0b", "#b23a48")


def logarithmic(least, most):
    return lambda value: (math.log10(max(value, 1)) - math.log10(least)) / math.log10(most / least)


def size_text(size):
    return f"{size // 1048576} MiB" if size >= 1048576 else f"{size // 1024} KiB"


def bench(title, report, means, footer):
    picture = Picture(960, 760)
    picture.text(90, 24, "start", "title", title)

    def legend(x, y, colour, dash, text):
        picture.path(colour, f"M{x:.1f} {y:.1f}H{x + 24:.1f}", 1.8, dash)
        picture.text(x + 30, y + 4, "start", "tick", text)

    for index, (name, colour, dash) in enumerate(means.values()):
        legend(90 + 170 * index, 46, colour, dash, name)
    most = max(1e-3, *(row[key] or 0 for row in report["transfers"] for key in means))
    step = round_step(most)
    for direction, shown, left in (("upload", "Host to device", 90), ("download", "Device to host", 550)):
        rows = [row for row in report["transfers"] if row["direction"] == direction]
        panel = Panel(picture, left, 84, 380, 240, logarithmic(rows[0]["bytes"], rows[-1]["bytes"]), math.ceil(most / step) * step, step)
        picture.text(left, 74, "start", "label", f"{shown}, by the size of a copy")
        panel.frame("GB/s")
        for row in rows[::2]:
            panel.tick(row["bytes"], size_text(row["bytes"]))
        for key, (_, colour, dash) in means.items():
            if rows[0][key]:
                panel.curve([(row["bytes"], row[key]) for row in rows], colour, 1.8, dash)
    draw_allocations(picture, report["allocations"], legend)
    picture.text(90, 740, "start", "tick", footer)
    return picture.end()


def draw_allocations(picture, rows, legend):
    """The last hundredth is left out: it is what the system did meanwhile."""
    times = [value for row in rows for who in ("by_hand", "ferry") for value in row[who]["quantiles"][:-1]]
    least = math.floor(math.log10(max(min(times), 1)))
    most = max(math.ceil(math.log10(max(times))), least + 1)
    panel = Panel(picture, 90, 430, 700, 240, logarithmic(10.0 ** least, 10.0 ** most), 100, 25)
    picture.text(90, 420, "start", "label", "Time of freeing a block and allocating it again")
    panel.frame("% of all pairs")
    for power in range(least, most + 1):
        panel.tick(10.0 ** power, f"{10.0 ** power:g} ns")
    for index, (row, colour) in enumerate(zip(rows, POOL_COLOURS)):
        for who, dash in (("by_hand", "5 4"), ("ferry", "none")):
            panel.curve([(value, percent) for percent, value in enumerate(row[who]["quantiles"][:-1])], colour, 1.8, dash)
        legend(810, 450 + 22 * index, colour, "none", size_text(row["bytes"]))
    legend(810, 560, "#555555", "none", "Ferry's pool")
    legend(810, 582, "#555555", "5 4", "by hand")
