# SPDX-License-Identifier: MIT
"""ferry trace: what traces show, as text, as JSON and as a timeline. docs/tracing.md explains each figure."""

import getopt
import json
import sys

import ferry_snapshot
import ferry_svg
from ferry_output import Failed, in_units, table, write
from ferry_trace import DIRECTIONS, Counts, Problem, Summary

USAGE = """\
usage: ferry trace [-j] [-s FILE] [-n N] [-r N] [-o FILE] TRACE...
       ferry trace [-j] [-s FILE] [-n N] [-o FILE] SNAPSHOT

Summarises traces that a program wrote with FERRY_TRACE=TRACE or ferry_context_options.trace_file: bytes by
buffer and by reason, the longest transfers, fetches that an OVERWRITE would have saved, and ranges that go to
and fro between the host and devices. Several traces, such as those of the ranks of a job, become one report.
- is standard input. Traces of programs that crashed are read as far as they go. Perfetto (ui.perfetto.dev) and
chrome://tracing show the file itself. docs/tracing.md explains each figure. Sums up a snapshot of memory that
FERRY_SNAPSHOT=SNAPSHOT or ferry_context_snapshot() wrote: pools, and who holds their blocks.

  -j, --json            as JSON
  -s, --svg FILE        also draw a timeline, or the blocks of the slabs, into FILE
  -n, --top N           rows of each list; default: 10
  -r, --round-trips N   list ranges that crossed to a device and back at least N times; default: 3
  -o, --output FILE     write to FILE instead of standard output
  -h, --help            this text

Exit status: 0; 1 for a file that cannot be read or written, or that is no trace.
"""

WASTED = "Fetched, then wholly overwritten before anything read it (FERRY_OVERWRITE would not have fetched)"
UPDATED = "Fetched for scopes that update (needed only where the program reads the old bytes)"
LONGEST = "Longest transfers, as the calling thread saw them"


# -- rows ----------------------------------------------------------------------------------------------


class Group:
    """Buffers with one name and one size: one buffer, the temporaries of a loop, or the same array of several ranks."""

    def __init__(self, buffer):
        self.id, self.name, self.bytes = buffer.id, buffer.name, buffer.bytes
        self.buffers, self.moved, self.evictions = set(), Counts(), 0

    def add(self, buffer):
        self.buffers.add(buffer)
        self.moved.join(buffer.moved)
        self.evictions += buffer.evictions

    def label(self):
        size = f" of {in_units(self.bytes)}" if self.bytes else ""
        if len(self.buffers) == 1:
            return f"#{self.id}" + (f' "{self.name}"' if self.name else "") + size
        return f"{len(self.buffers)} buffers" + (f' "{self.name}"' if self.name else " without a name") + size

    def json(self):
        return {"id": self.id, "name": self.name, "bytes": self.bytes, "count": len(self.buffers)}


class List:
    """The first rows of a list, and how many it has."""

    def __init__(self, rows, key, most):
        rows = sorted(rows, key=key)
        self.rows, self.left_out = rows[:most], max(len(rows) - most, 0)

    def text(self, title, columns, cells):
        if not self.rows and not self.left_out:
            return
        yield ""
        yield from table(title, columns, [row for item in self.rows for row in cells(item)])
        if self.left_out:
            yield f"  and {self.left_out} more"


class Report:
    """The lists of a summary, each of at most `top` rows."""

    def __init__(self, summary, top, least_rounds):
        self.summary, self.least_rounds = summary, least_rounds
        self.groups = {}
        for buffer in summary.buffers.values():
            self.group(buffer).add(buffer)
        self.parts = List(summary.parts, lambda part: (-part.moved.bytes(), part.path), top)
        self.waits = List(summary.waits().items(), lambda row: (-row[1].ns, row[0]), top)
        moved = [group for group in self.groups.values() if group.moved or group.evictions]
        self.buffers = List(moved, lambda group: (-group.moved.bytes(), -group.evictions, group.id, group.name), top)
        self.reasons = List(summary.reasons.items(), lambda row: (-row[1].bytes(), row[0]), top)
        self.longest = List(summary.transfers, lambda row: (-row[1].ns, -row[1].bytes, row[1].line), top)
        fetched = {kind: self.fetches(kind) for kind in ("overwritten_unread", "fetched_for_update")}
        self.fetched = {kind: List(rows.items(), lambda row: (-row[1].bytes, row[0][0].id, row[0][1]), top) for kind, rows in fetched.items()}
        rounds = [(buffer, *row) for buffer in summary.buffers.values() for row in buffer.rounds(least_rounds)]
        self.rounds = List(rounds, lambda row: (-row[3], -row[2], row[0].id, row[1]), top)

    def group(self, buffer):
        key = (buffer.name, buffer.bytes)
        if key not in self.groups:
            self.groups[key] = Group(buffer)
        return self.groups[key]

    def fetches(self, kind):
        """Counts by a group of buffers and a reason."""
        rows = Counts()
        for fetch in self.summary.fetches:
            if fetch.overwritten == fetch.bytes if kind == "overwritten_unread" else fetch.reason.startswith("update_"):
                rows[self.group(fetch.buffer), fetch.reason].add(fetch.bytes, fetch.ns)
        return rows

    def lists(self):
        return {"traces": self.parts, "waits": self.waits, "buffers": self.buffers, "reasons": self.reasons, "longest": self.longest,
                **self.fetched, "round_trips": self.rounds}


def name_of(buffer):
    return f"#{buffer.id}" + (f' "{buffer.name}"' if buffer.name else "")


# -- as text -------------------------------------------------------------------------------------------


MOVED = ("", "count", "bytes", "GB/s")


# Their time is that of queueing them, which says nothing of the bytes.
QUEUED = ("peer copy", "device copy", "fill")


def rate_of(count, direction=""):
    return None if direction in QUEUED else count.rate()


def rate_text(rate):
    return "-" if rate is None else f"{rate:.3f}"


def moved_cells(label, moved):
    """A line for each direction; the label is in the first."""
    for direction in DIRECTIONS:
        if direction in moved:
            count = moved[direction]
            yield label, direction, count.count, in_units(count.bytes), rate_text(rate_of(count, direction))
            label = ""


def group_cells(group):
    yield from moved_cells(group.label(), group.moved)
    if group.evictions:
        yield "" if group.moved else group.label(), "evicted", group.evictions, "", ""


def longest_cells(row):
    part, event = row
    of = f" of #{event.id}" + (f' "{event.of_buffer}"' if event.of_buffer else "") if event.has_id else ""
    text = f"{event.name} from {event.of_from} to {event.of_to} for {event.of_reason}{of}"
    rate = event.bytes / event.ns if event.ns and event.name not in QUEUED else None
    yield text, f"{event.ns / 1e3:.1f}", in_units(event.bytes), rate_text(rate), f"{event.begin_ns / 1e6:.3f}", event.line


def part_cells(part):
    waited = sum(count.ns for count in part.waits.values())
    yield (f"{part.path}{' (cut)' if part.is_cut else ''}", part.events, f"{part.span_ns() / 1e6:.3f}",
           in_units(sum(part.moved[name].bytes for name in ("upload", "download") if name in part.moved)),
           part.launches, part.evictions, f"{waited / 1e6:.3f}")


def text_lines(report):
    summary = report.summary
    cut = sum(part.is_cut for part in summary.parts)
    traces = f" of {len(summary.parts)} traces" if len(summary.parts) > 1 else ""
    early = "" if not cut else f"; {cut} of them end early, as after a crash" if traces else "; the trace ends early, as after a crash"
    yield f"{sum(part.events for part in summary.parts)} events{traces} in {max(part.span_ns() for part in summary.parts) / 1e6:.3f} ms{early}"
    yield (f"Launches: {sum(part.launches for part in summary.parts)}   Evictions: {sum(part.evictions for part in summary.parts)}   "
           f"Pools grew {summary.grown.count} times by {in_units(summary.grown.bytes)} and shrank {summary.shrunk.count} times by "
           f"{in_units(summary.shrunk.bytes)}")
    yield ""
    yield from table("Transfers", MOVED[1:], [cells[1:] for cells in moved_cells("", summary.moved())])
    if traces:
        yield from report.parts.text("By trace", ("events", "ms", "up and down", "launches", "evictions", "waited ms"), part_cells)
    yield from report.waits.text("Waits", ("count", "us"), lambda row: [(row[0], row[1].count, f"{row[1].ns / 1e3:.1f}")])
    yield from report.buffers.text("By buffer", MOVED, group_cells)
    yield from report.reasons.text("By reason", MOVED, lambda row: moved_cells(row[0] or "(none)", row[1]))
    yield from report.longest.text(LONGEST, ("us", "bytes", "GB/s", "at ms", "line"), longest_cells)
    for title, kind in ((WASTED, "overwritten_unread"), (UPDATED, "fetched_for_update")):
        yield from report.fetched[kind].text(title, ("fetches", "bytes", "us", "GB/s"), lambda row: [
            (f"{row[0][0].label()} for {row[0][1]}", row[1].count, in_units(row[1].bytes), f"{row[1].ns / 1e3:.1f}", rate_text(row[1].rate()))])
    yield from report.rounds.text(f"Ranges that crossed to a device and back at least {report.least_rounds} times", ("round trips", "bytes", "at byte"),
                                  lambda row: [(name_of(row[0]), row[3] // 2, in_units(row[2]), row[1])])


# -- as JSON -------------------------------------------------------------------------------------------


def count_json(count, direction="", *, sizes=True):
    figures = {"count": count.count, "bytes": count.bytes, "ns": count.ns, "gb_per_s": rate_of(count, direction)}
    return figures if sizes else {"count": count.count, "ns": count.ns}


def moved_json(moved):
    return {direction: count_json(moved[direction], direction) for direction in DIRECTIONS if direction in moved}


def longest_json(row):
    part, event = row
    figures = {"direction": event.name, "reason": event.of_reason, "buffer": event.of_buffer, "bytes": event.bytes, "from": event.of_from,
               "to": event.of_to, "staged": event.is_staged, "begin_ns": event.begin_ns, "ns": event.ns, "trace": part.path, "line": event.line}
    return {**({"id": event.id} if event.has_id else {}), **({"offset": event.offset} if event.has_offset else {}), **figures}


def part_json(part):
    return {"path": part.path, "events": part.events, "complete": not part.is_cut, "begin_ns": part.begin_ns or 0, "end_ns": part.end_ns,
            "moved": moved_json(part.moved), "launches": part.launches, "evictions": part.evictions,
            "waited_ns": sum(count.ns for count in part.waits.values())}


def json_of(report):
    summary = report.summary
    parts = summary.parts
    return {
        "events": sum(part.events for part in parts), "complete": not any(part.is_cut for part in parts),
        "begin_ns": min(part.begin_ns or 0 for part in parts), "end_ns": max(part.end_ns for part in parts),
        "moved": moved_json(summary.moved()), "launches": sum(part.launches for part in parts), "evictions": sum(part.evictions for part in parts),
        "pool_growth": count_json(summary.grown), "pool_shrinkage": count_json(summary.shrunk),
        "traces": [part_json(part) for part in report.parts.rows],
        "waits": [{"name": name, **count_json(count, sizes=False)} for name, count in report.waits.rows],
        "buffers": [{**group.json(), "moved": moved_json(group.moved), "evictions": group.evictions} for group in report.buffers.rows],
        "reasons": [{"reason": name, "moved": moved_json(moved)} for name, moved in report.reasons.rows],
        "longest": [longest_json(row) for row in report.longest.rows],
        **{kind: [{"id": group.id, "buffer": group.name, "buffers": len(group.buffers), "reason": reason, **count_json(count)}
                  for (group, reason), count in rows.rows] for kind, rows in report.fetched.items()},
        "least_round_trips": report.least_rounds,
        "round_trips": [{"id": buffer.id, "buffer": buffer.name, "trace": buffer.part.path, "offset": offset, "bytes": size, "round_trips": crossings // 2}
                        for buffer, offset, size, crossings in report.rounds.rows],
        "left_out": {name: rows.left_out for name, rows in report.lists().items()},
    }


# -- the command ---------------------------------------------------------------------------------------


def read_count(text, least):
    if not text.isascii() or not text.isdigit() or not least <= int(text[:8]) <= 1000000 or len(text) > 7:
        raise getopt.GetoptError(f"there is '{text}', expected a number")
    return int(text)


def read_options(arguments):
    short = {"-j": "--json", "-s": "--svg", "-n": "--top", "-r": "--round-trips", "-o": "--output", "-h": "--help"}
    options, paths = getopt.gnu_getopt(arguments, "js:n:r:o:h", ["json", "svg=", "top=", "round-trips=", "output=", "help"])
    found = {"--top": "10", "--round-trips": "3", **{short.get(name, name): value for name, value in options}}
    if "--help" not in found and not paths:
        raise getopt.GetoptError("there is no trace")
    return {**found, "--top": read_count(found["--top"], 0), "--round-trips": read_count(found["--round-trips"], 1)}, paths


def read_bytes(path):
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None


def report_snapshot(options, snapshot):
    top = options["--top"]
    text = json.dumps(snapshot.json(top), indent=2, ensure_ascii=False) if "--json" in options else "\n".join(snapshot.text_lines(top))
    write(options.get("--output"), text + "\n")
    if "--svg" in options:
        write(options["--svg"], snapshot.picture())


def run(options, paths):
    summary = Summary()
    for path in paths:
        text = read_bytes(path)
        if ferry_snapshot.is_snapshot(text):
            if len(paths) > 1:
                raise Failed(f"{path}: a snapshot has a report of its own: name it alone")
            report_snapshot(options, ferry_snapshot.Snapshot(path, text))
            return
        try:
            summary.add(path, text, keeps_marks="--svg" in options)
        except Problem as problem:
            raise Failed(f"{path}:{problem.line}: {problem}") from None
    report = Report(summary, options["--top"], options["--round-trips"])
    as_json = "--json" in options
    text = json.dumps(json_of(report), indent=2, ensure_ascii=False) if as_json else "\n".join(text_lines(report))
    write(options.get("--output"), text + "\n")
    if "--svg" in options:
        write(options["--svg"], ferry_svg.timeline(summary.parts))


def command(arguments):
    try:
        options, paths = read_options(arguments)
    except getopt.GetoptError as error:
        print(f"ferry trace: {error}\n{USAGE}", file=sys.stderr, end="")
        return 2
    if "--help" in options:
        print(USAGE, end="")
        return 0
    run(options, paths)
    return 0
