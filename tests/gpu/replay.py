#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays a log of tests/gpu/recorder.c against another driver library and reports every result that differs.

usage: replay.py LOG [LIBRARY] [--costs FILE] [--report]     LIBRARY: default libcuda.so.1

Each thread of the log has one here, and calls are made one by one in the order in which they returned. Host memory is this
process's, and kernels do nothing. Not compared: what a call writes besides its result; whether an event was complete when
it was queried; and calls whose handles no replayed call returned, which are left out.

--costs writes the median nanoseconds of each call, as FAKECUDA_COST reads them. --report: a difference is no failure, as
where the log is of a real driver. The last lines are the differences and a count; exit status 1 when there were some.
"""

import argparse
import collections
import ctypes
import json
import mmap
import queue
import statistics
import sys
import threading

READY = (0, 600)  # results of a query: complete, or not complete yet
PAGE = mmap.PAGESIZE
MOST_HOST_BYTES = 1 << 30
WORDS = {"w32": (ctypes.c_uint32, 0xFFFFFFFF), "w64": (ctypes.c_uint64, (1 << 64) - 1)}
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unknown(Exception):
    """Raised for an argument that has no counterpart in this process."""


def read(path):
    """Returns the calls of a log. An incomplete last line is ignored."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return


def words_of(value):
    """Returns all texts in an argument."""
    if isinstance(value, dict):
        value = next((value[name] for name in WORDS if name in value), [])
    return [word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)]


class HostMemory:
    """Allocates memory for the host addresses in the log. Distances within each range are the same as in the log."""

    def __init__(self, calls):
        spans = sorted({self.span(word) for call in calls for value in call["args"].values() for word in words_of(value) if self.is_host(word)})
        self.ranges = []  # [first, end, memory]
        for first, end in spans:
            if self.ranges and first <= self.ranges[-1][1]:
                self.ranges[-1][1] = max(end, self.ranges[-1][1])
            elif end - first <= MOST_HOST_BYTES:
                self.ranges.append([first, end, None])
        for entry in self.ranges:
            entry[2] = mmap.mmap(-1, min(entry[1] - entry[0], MOST_HOST_BYTES))

    @staticmethod
    def is_host(word):
        return word.startswith("h") and ":" in word and not word.startswith("handle:")

    @staticmethod
    def span(word):
        """Returns the first and last address of a range, rounded to whole pages."""
        at, size = word[1:].split(":")
        return int(at, 16) // PAGE * PAGE, -(-(int(at, 16) + int(size)) // PAGE) * PAGE

    def address(self, word):
        at = int(word[1:].split(":")[0], 16)
        for first, end, memory in self.ranges:
            if first <= at < end and at - first < len(memory):
                return ctypes.addressof(ctypes.c_char.from_buffer(memory)) + at - first
        raise Unknown


class Replay:
    def __init__(self, library, calls):
        self.library = ctypes.CDLL(library)
        self.calls = calls
        self.host = HostMemory(calls)
        self.numbers = {}  # maps the log's handles ("stream:3") and blocks ("m3") to their values in this process
        self.kept = []     # keeps memory alive that the driver may read later
        self.differences, self.left_out, self.played = collections.Counter(), collections.Counter(), 0
        self.lines = []
        self.no_kernel, self.no_function = KERNEL(lambda *_: None), HOST_FUNCTION(lambda _: None)

    # -- arguments --

    def value(self, word):
        """Returns the value in this process of a word of the log."""
        if isinstance(word, dict):
            return self.argument("", word)[0]
        if not isinstance(word, str):
            return word or 0
        if word == "binary":
            raise Unknown
        if word.startswith("text:"):
            return self.keep(ctypes.create_string_buffer(word[5:].encode("latin-1")))
        if HostMemory.is_host(word):
            return self.host.address(word)
        if word.startswith("x"):
            return int(word[1:], 16)
        name, _, offset = word.partition("+")
        if name not in self.numbers:
            raise Unknown
        return self.numbers[name] + int(offset or 0)

    def keep(self, thing):
        self.kept.append(thing)
        return ctypes.addressof(thing)

    def argument(self, name, value):
        """Returns the argument, and the memory that the call writes or None."""
        if isinstance(value, dict) and "out" in value:
            written = ctypes.c_uint64(value.get("in", 0))
            self.kept.append(written)
            return ctypes.addressof(written), written
        if isinstance(value, dict):
            kind = next(iter(value))
            element, mask = WORDS[kind]
            return self.keep((element * max(1, len(value[kind])))(*[self.value(word) & mask for word in value[kind]])), None
        if name == "run":
            return ctypes.cast(self.no_function, ctypes.c_void_p).value, None
        if name in ("name", "graph") and value is None:
            return self.keep(ctypes.create_string_buffer(4096)), None
        return (0 if name == "option_count" else self.value(value)), None

    def give_kernel(self, call):
        """Registers a host function that does nothing for each kernel, because fakecuda runs only kernels that were registered."""
        if call["call"] == "cuModuleGetFunction" and hasattr(self.library, "fakecuda_register_kernel"):
            self.library.fakecuda_register_kernel(ctypes.c_char_p(call["args"]["name"][5:].encode()), self.no_kernel, 0, None)

    def note(self, out, number):
        """Stores the value in this process of a handle or block that the log numbers."""
        if isinstance(out, str):
            self.numbers[out.split(":")[0] if out[0] == "m" and out[1].isdigit() else out] = number

    # -- calls --

    def play(self, index, call):
        try:
            arguments = [self.argument(name, value) for name, value in call["args"].items()]
            function = getattr(self.library, call["call"])
        except (Unknown, AttributeError):
            self.left_out[call["call"]] += 1
            return
        self.give_kernel(call)
        function.restype = ctypes.c_uint32
        filled = [argument for argument, _ in arguments] + [0] * (11 - len(arguments))
        result = function(*[ctypes.c_uint64(argument & (1 << 64) - 1) for argument in filled])
        self.played += 1
        for (_, written), value in zip(arguments, call["args"].values()):
            if written is not None and result == 0:
                self.note(value["out"], written.value)
        self.compare(index, call, result)

    def compare(self, index, call, result):
        if result == call["result"] or (call["call"] == "cuEventQuery" and {result, call["result"]} <= set(READY)):
            return
        self.differences[call["call"], call["result"], result] += 1
        if self.differences[call["call"], call["result"], result] == 1:
            self.lines.append(f"line {index + 1}: {call['call']}{json.dumps(call['args'])[:200]}: {call['result']} in the log, {result} here")

    def run(self):
        """Plays the calls with one thread for each thread of the log; only one of them runs at a time."""
        work = {}
        for index, call in enumerate(self.calls):
            if call["thread"] not in work:
                work[call["thread"]] = Turns()
            work[call["thread"]].do(lambda index=index, call=call: self.play(index, call))


class Turns:
    """A thread that runs one call at a time for another thread, which waits for it."""

    def __init__(self):
        self.asked, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            work = self.asked.get()
            try:
                self.done.put((work(), None))
            except Exception as error:  # the waiting thread raises it
                self.done.put((None, error))

    def do(self, work):
        self.asked.put(work)
        _, error = self.done.get()
        if error:
            raise error


def write_costs(calls, path):
    times = collections.defaultdict(list)
    for call in calls:
        times[call["call"]].append(call["ns"])
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{name} {round(statistics.median(ns))}\n" for name, ns in sorted(times.items())))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("log")
    parser.add_argument("library", nargs="?", default="libcuda.so.1")
    parser.add_argument("--costs")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    calls = list(read(options.log))
    if options.costs:
        write_costs(calls, options.costs)
    replay = Replay(options.library, calls)
    replay.run()
    for line in replay.lines:
        print(line)
    for (name, then, now), count in sorted(replay.differences.items()):
        print(f"# {name}: {count} times {then} in the log, {now} here")
    for name, count in sorted(replay.left_out.items()):
        print(f"# left out: {name}, {count} times")
    print(f"# {replay.played} of {len(calls)} calls replayed, {sum(replay.differences.values())} results differ", flush=True)
    return 1 if (replay.differences and not options.report) or not replay.played else 0


if __name__ == "__main__":
    sys.exit(main())
