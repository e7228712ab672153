# SPDX-License-Identifier: MIT
"""Traces: reads them, and sums them up. docs/tracing.md defines the format and each figure."""

import bisect
import copy
import json
import re

DIRECTIONS = ("upload", "download", "peer copy", "device copy", "host copy", "fill")
PHASES = "XibeCM"
SPACE = re.compile(r"[ \t\r\n]*")
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# What may be left of a number, a word or an escape where a file was cut.
LEFT_BY_A_CUT = re.compile(r"[-+.\w\\]*\s*")


class Problem(Exception):
    """What is wrong with a trace: the line, what is there, and what was expected."""

    def __init__(self, line, text):
        super().__init__(text)
        self.line = line


# -- reading -----------------------------------------------------------------------------------------


def text_of(name, value, line):
    if type(value) is not str:
        raise Problem(line, f'member "{name}" is a number, expected a string')
    # Terminals obey control characters, and lone surrogates cannot be written.
    return value if value.isprintable() else CONTROLS.sub("?", value)


def number_of(name, value, line, end=62):
    if type(value) not in (int, float):
        raise Problem(line, f'member "{name}" is a string, expected a number')
    if not 0 <= value < 1 << end:
        raise Problem(line, f'member "{name}" is {value}, expected a number of at least 0 and less than 2^{end}')
    return int(value)


def time_of(name, value, line):
    number_of(name, value, line, 50)
    return round(1000 * value)


class Event:
    """An event of a trace. Texts that it lacks are empty, and numbers 0."""

    category = name = of_buffer = of_reason = of_from = of_to = of_access = of_place = of_end = of_name = ""
    track = begin_ns = ns = id = offset = bytes = source_id = source_offset = 0

    def __init__(self, line, members):
        phase = members.get("ph")
        if type(phase) is not str or len(phase) != 1 or phase not in PHASES:
            raise Problem(line, "the phase of an event is unknown, expected X, i, b, e, C or M")
        arguments = members.get("args", {})
        if type(arguments) is not dict:
            raise Problem(line, 'member "args" is no object, expected one')
        self.line, self.phase = line, phase
        values = self.__dict__
        for known, given in ((MEMBERS, members), (ARGUMENTS, arguments)):
            for name, value in given.items():
                if name in known:
                    attribute, read = known[name]
                    values[attribute] = read(name, value, line)
        self.has_id, self.has_offset = "id" in arguments, "offset" in arguments
        self.is_move, self.is_staged = arguments.get("move") == 1, arguments.get("staged") == 1


# What is read of an event and of its "args": where it is kept, and how it is read.
MEMBERS = {"cat": ("category", text_of), "name": ("name", text_of), "tid": ("track", number_of), "ts": ("begin_ns", time_of), "dur": ("ns", time_of)}
ARGUMENTS = {**{name: ("of_" + name, text_of) for name in ("buffer", "reason", "from", "to", "access", "place", "end", "name")},
             **{name: (name, number_of) for name in ("id", "offset", "bytes", "source_id", "source_offset")}}


class Reader:
    """The events of a trace. Where the file ends early, as after a crash, `is_cut` is true behind the last whole event."""

    def __init__(self, data):
        self.text = data.decode("utf-8", "replace").replace("\ufffd", "?")
        self.at, self.line, self.is_cut = 0, 1, False

    def move(self, at):
        """Goes to the next character that is no space; returns it, or "" at the end."""
        at = SPACE.match(self.text, at).end()
        self.line += self.text.count("\n", self.at, at)
        self.at = at
        return self.text[at:at + 1]

    def refuse(self, expected):
        found = self.text[self.at:self.at + 1]
        raise Problem(self.line, f"there is {found!r}, expected {expected}")

    def scan(self, decoder):
        """The members of the event at this place; None where the file ends inside of it."""
        try:
            members, end = decoder.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated string") or LEFT_BY_A_CUT.fullmatch(self.text, error.pos):
                return None, self.at
            raise Problem(self.line + self.text.count("\n", self.at, error.pos), f"no JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise Problem(self.line, f"no event: {error}") from None
        return members, end

    def __iter__(self):
        decoder = json.JSONDecoder()
        first = self.move(0)
        if not first:
            raise Problem(1, "the file is empty, expected a trace")
        if first != "[":
            self.refuse("a trace, which begins with [")
        here = self.move(self.at + 1)
        while here != "]":
            if here not in ("", "{"):
                self.refuse("an event, which begins with {")
            line = self.line
            members, end = self.scan(decoder) if here else (None, self.at)
            if members is None:
                break
            yield Event(line, members)
            if self.text.startswith(",\n{", end):   # as Ferry writes it
                self.line += 1 + self.text.count("\n", self.at, end)
                self.at, here = end + 2, "{"
                continue
            here = self.move(end)
            if here == ",":
                here = self.move(self.at + 1)
                if here == "]":
                    self.refuse("an event, which begins with {")
            elif here not in ("", "]"):
                self.refuse("',' or ']' behind an event")
        self.is_cut = here != "]"
        if not self.is_cut and self.move(self.at + 1):
            self.refuse("the end of the file")


# -- what became of each byte --------------------------------------------------------------------------


class Count:
    """How often, how many bytes, and the time of those whose time is known."""

    __slots__ = ("count", "bytes", "ns", "timed_bytes")

    def __init__(self):
        self.count = self.bytes = self.ns = self.timed_bytes = 0

    def add(self, size, ns=None):
        self.count += 1
        self.bytes += size
        if ns is not None:
            self.ns += ns
            self.timed_bytes += size

    def join(self, other):
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def rate(self):
        """Bytes per nanosecond, which are GB/s; None where no time is known."""
        return self.timed_bytes / self.ns if self.ns else None


class Counts(dict):
    """A count by a key, such as the direction of transfers."""

    def __missing__(self, key):
        return self.setdefault(key, Count())

    def join(self, other):
        for key, count in other.items():
            self[key].join(count)

    def bytes(self):
        return sum(count.bytes for count in self.values())


class Stretch:
    """Bytes of a buffer with one history: the fetch that brought them and nothing used, and how often they crossed."""

    __slots__ = ("fetch", "place", "last", "crossings")

    def __init__(self):
        self.fetch, self.place, self.last, self.crossings = None, "", "", 0


class Fetch:
    """Bytes that a use brought to its place, and how many of them were overwritten before anything read them."""

    __slots__ = ("buffer", "reason", "bytes", "ns", "overwritten")

    def __init__(self, buffer, event):
        self.buffer, self.reason, self.bytes, self.ns, self.overwritten = buffer, event.of_reason, event.bytes, event.ns, 0


class Buffer:
    """A buffer of one trace."""

    def __init__(self, part, number):
        self.part, self.id, self.name, self.bytes, self.is_held = part, number, "", 0, False
        self.moved, self.evictions = Counts(), 0
        self.starts, self.stretches = [0], [Stretch()]

    def split(self, at):
        """Returns the index of the stretch that begins at byte `at`."""
        index = bisect.bisect_right(self.starts, at) - 1
        if self.starts[index] < at:
            index += 1
            self.starts.insert(index, at)
            self.stretches.insert(index, copy.copy(self.stretches[index - 1]))
        return index

    def range(self, offset, size):
        """The stretches of a range of bytes, each with its bytes."""
        if size == 0:
            return
        first, end = self.split(offset), self.split(offset + size)
        for index in range(first, end):
            yield self.stretches[index], self.starts[index + 1] - self.starts[index]

    def read(self, offset, size, place):
        for stretch, _ in self.range(offset, size):
            if place in ("any", stretch.place):
                stretch.fetch = None

    def write(self, offset, size):
        for stretch, count in self.range(offset, size):
            if stretch.fetch:
                stretch.fetch.overwritten += count
                stretch.fetch = None

    def hold(self):
        """From here on the program may read and write the replica without a scope."""
        self.is_held = True
        for stretch in self.stretches:
            stretch.fetch = None

    def rounds(self, least):
        """Ranges that crossed to a device and back at least so often: [offset, bytes, crossings]."""
        found = []
        for index, stretch in enumerate(self.stretches[:-1]):
            begin, end = self.starts[index], self.starts[index + 1]
            if stretch.crossings // 2 < least:
                continue
            if found and found[-1][0] + found[-1][1] == begin and found[-1][2] == stretch.crossings:
                found[-1][1] = end - found[-1][0]
            else:
                found.append([begin, end - begin, stretch.crossings])
        return found


# -- the sum -------------------------------------------------------------------------------------------


class Part:
    """What one file adds to a summary."""

    def __init__(self, path):
        self.path, self.events, self.is_cut = path, 0, False
        self.begin_ns, self.end_ns = None, 0
        self.launches = self.evictions = 0
        self.moved, self.waits = Counts(), Counts()
        self.marks, self.tracks = [], {}   # for a timeline

    def see(self, event, keeps_marks):
        self.events += 1
        if event.phase == "M":
            if event.name == "thread_name":
                self.tracks[event.track] = event.of_name
            return
        self.begin_ns = event.begin_ns if self.begin_ns is None else min(self.begin_ns, event.begin_ns)
        self.end_ns = max(self.end_ns, event.begin_ns + event.ns)
        if keeps_marks and event.phase in "Xi":
            self.marks.append((event.category, event.track, event.begin_ns, event.ns))

    def span_ns(self):
        return self.end_ns - (self.begin_ns or 0)


def direction_of_piece(event):
    if event.of_from == "value":
        return "fill"
    from_host, to_host = (place in ("host", "caller") for place in (event.of_from, event.of_to))
    if from_host or to_host:
        return "host copy" if from_host and to_host else "download" if to_host else "upload"
    return "device copy" if event.of_from == event.of_to else "peer copy"


def is_fetch(reason):
    """Uses that read what they fetched, unless they overwrite it. Others, such as sync_to, bring bytes for uses that no trace has."""
    return reason.startswith(("read_", "update_")) or reason in ("launch", "open_all", "prefetch")


class Summary:
    """The sum of one trace, or of the traces of several processes."""

    def __init__(self):
        self.parts, self.buffers, self.fetches, self.transfers = [], {}, [], []
        self.reasons = {}
        self.grown, self.shrunk = Count(), Count()

    def add(self, path, data, keeps_marks=False):
        """Adds the trace of a process. Raises Problem."""
        part = Part(path)
        self.parts.append(part)
        reader = Reader(data)
        for event in reader:
            part.see(event, keeps_marks)
            kind = self.KINDS.get(event.category)
            if kind:
                kind(self, part, event)
        part.is_cut = reader.is_cut

    def buffer(self, part, number, name=""):
        key = (len(self.parts), number)
        buffer = self.buffers.get(key)
        if buffer is None:
            buffer = self.buffers[key] = Buffer(part, number)
        buffer.name = name or buffer.name
        return buffer

    def add_transfer(self, part, event):
        if event.name not in DIRECTIONS:
            return
        if event.phase == "X":
            self.transfers.append((part, event))
        part.moved[event.name].add(event.bytes, event.ns)
        self.reasons.setdefault(event.of_reason, Counts())[event.name].add(event.bytes, event.ns)
        if event.has_id:
            buffer = self.buffer(part, event.id, event.of_buffer)
            buffer.moved[event.name].add(event.bytes, event.ns)
            self.follow(buffer, event)

    def follow(self, buffer, event):
        """Bytes of one buffer went from one of its replicas to another, or left it."""
        if not event.has_offset:
            return
        if event.is_move or event.of_to == "caller":
            buffer.read(event.offset, event.bytes, event.of_from)
        if event.is_move and event.name in ("upload", "download"):
            for stretch, _ in buffer.range(event.offset, event.bytes):
                stretch.crossings += stretch.last != event.name
                stretch.last = event.name
        if event.is_move and is_fetch(event.of_reason) and not buffer.is_held:
            fetch = Fetch(buffer, event)
            self.fetches.append(fetch)
            for stretch, _ in buffer.range(event.offset, event.bytes):
                stretch.fetch, stretch.place = fetch, event.of_to

    def add_piece(self, part, event):
        """A part of a transfer, of one buffer. The time is that of the whole transfer."""
        if event.source_id:
            self.buffer(part, event.source_id).read(event.source_offset, event.bytes, event.of_from)
        buffer = self.buffer(part, event.id, event.of_buffer)
        buffer.moved[direction_of_piece(event)].add(event.bytes)
        if event.of_to == "caller":
            buffer.read(event.offset, event.bytes, event.of_from)
        else:
            buffer.write(event.offset, event.bytes)

    def add_use(self, part, event):
        """A scope that opens or closes, or what a call did. A read counts when it begins, a write when it ends."""
        buffer = self.buffer(part, event.id, event.of_buffer)
        if not event.has_offset:
            return
        if event.of_access == "read" and event.phase != "e":
            buffer.read(event.offset, event.bytes, event.of_place)
        elif event.of_access == "overwrite" and event.phase != "b" and event.of_end != "abandon":
            buffer.write(event.offset, event.bytes)

    def add_buffer_event(self, part, event):
        buffer = self.buffer(part, event.id, event.of_buffer)
        if event.name == "hold":
            buffer.hold()
        elif event.name == "create":
            buffer.bytes = event.bytes

    def add_eviction(self, part, event):
        part.evictions += 1
        self.buffer(part, event.id, event.of_buffer).evictions += 1

    def add_wait(self, part, event):
        part.waits[event.name].add(0, event.ns)

    def add_pool(self, part, event):
        if event.name in ("grow", "shrink"):
            (self.grown if event.name == "grow" else self.shrunk).add(event.bytes, event.ns)

    def add_launch(self, part, event):
        part.launches += event.phase == "X"

    KINDS = {"transfer": add_transfer, "piece": add_piece, "scope": add_use, "use": add_use, "buffer": add_buffer_event,
             "evict": add_eviction, "wait": add_wait, "pool": add_pool, "launch": add_launch}

    def moved(self):
        moved = Counts()
        for part in self.parts:
            moved.join(part.moved)
        return moved

    def waits(self):
        waits = Counts()
        for part in self.parts:
            waits.join(part.waits)
        return waits
