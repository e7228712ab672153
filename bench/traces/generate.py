#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write one of three allocation traces, in the CSV that Ferry's pools and RMM log.

usage: generate.py steps|tails|fragmenting [SEED] > TRACE.csv

They are made up, after what programs do to a pool; the same name and seed (default 1) give the same bytes with every Python.

steps        Training a network of 48 layers for 30 steps, whose batches differ in length. Weights and two optimizer states of each layer
             stay. Forward, each layer keeps an activation, and every third uses a workspace for a moment; backward, activations go in
             reverse order while gradients come; the optimizer frees the gradients. A second thread uploads the next batch on another stream while a step runs. Live peak 1.2 GiB.
tails        A service that answers requests from four threads on four streams: sizes log-normal around 32 KiB up to 64 MiB; 90 % of
             the blocks live for moments, 9 % for hundreds of other allocations, 1 % nearly for ever; every so often a burst of 700
             requests, of which a few stay. Live peak 270 MiB.
fragmenting  The pattern of an allocation of 110 MB that failed with 30 GB free: chunks of a table are read one after the other, each
             leaves a small result behind it that lives for several passes, and every pass needs chunks 3 % larger than the holes that
             the last one left. Scaled down by 32, so that it also runs on an emulated device: 3.4 MB that find no place in 940 MiB.
"""

import math
import random
import sys

KIB, MIB = 1 << 10, 1 << 20


class Trace:
    """The lines of a log, with the addresses of an allocator that never reuses one."""

    def __init__(self, seed):
        self.random = random.Random(seed).random  # the only function of `random` that returns the same numbers in every version of Python
        self.lines = ["Thread,Time,Action,Pointer,Size,Stream"]
        self.time = 9 * 3600 * 10**6
        self.next = 0x7F0000000000

    def uniform(self, low, high):
        return low + (high - low) * self.random()

    def wait(self, micros):
        self.time += 1 + int(self.uniform(0.5, 1.5) * micros)

    def write(self, thread, action, pointer, size, stream):
        seconds, micros = divmod(self.time, 10**6)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        self.lines.append(f"{thread},{clock},{action},{pointer:#x},{size},{stream:#x}" if stream else
                          f"{thread},{clock},{action},{pointer:#x},{size},0")

    def take(self, size, thread=1000, stream=0):
        size = max(1, int(size))
        block = (self.next, size)
        self.next += (size + 511) // 256 * 256
        self.write(thread, "allocate", *block, stream)
        return block

    def give(self, block, thread=1000, stream=0):
        self.write(thread, "free", *block, stream)


def steps(trace):
    layers = [{"width": int(trace.uniform(256, 2048)) // 8 * 8} for _ in range(48)]
    for layer in layers:
        weight = layer["width"] * 1152 * 2
        layer["kept"] = [trace.take(weight), trace.take(layer["width"] * 4), trace.take(weight), trace.take(weight)]
        layer["weight"] = weight
        trace.wait(200)

    def upload(rows):
        return trace.take(rows * 150528 * 4, thread=1001, stream=0x55D0C0DE1000)

    rows = 64
    batch = upload(rows)
    for _ in range(30):
        next_rows = int(trace.uniform(32, 128))
        activations = []
        for index, layer in enumerate(layers):
            workspace = trace.take(trace.uniform(0.5, 1.0) * 32 * MIB) if index % 3 == 0 else None
            activations.append(trace.take(rows * layer["width"] * 128))
            trace.wait(120)
            if workspace:
                trace.give(workspace)
            if index == len(layers) // 2:
                next_batch = upload(next_rows)
        gradients = []
        for layer, activation in zip(reversed(layers), reversed(activations)):
            scratch = trace.take(rows * layer["width"] * 64)
            gradients.append(trace.take(layer["weight"]))
            gradients.append(trace.take(layer["width"] * 4))
            trace.wait(240)
            trace.give(scratch)
            trace.give(activation)
        for gradient in gradients:
            norm = trace.take(1024)
            trace.wait(15)
            trace.give(norm)
            trace.give(gradient)
        trace.give(batch, thread=1001, stream=0x55D0C0DE1000)
        batch, rows = next_batch, next_rows
    trace.give(batch, thread=1001, stream=0x55D0C0DE1000)
    for layer in layers:
        for block in layer["kept"]:
            trace.give(block)


def tails(trace):
    streams = [0x1, 0x2, 0x3, 0x4]
    due = {}  # maps a time to the blocks that are freed at this time

    def take_one(now, factor=1.0):
        u, v = trace.random(), trace.random()
        normal = math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)
        size = min(64 * MIB, max(16, 32 * KIB * math.exp(2.0 * normal)))
        lot = trace.random()
        stay = trace.uniform(1, 24) if lot < 0.90 else trace.uniform(200, 800) if lot < 0.99 else trace.uniform(4000, 14000)
        worker = int(trace.uniform(0, 4))
        block = trace.take(size, thread=2000 + worker, stream=streams[worker])
        due.setdefault(now + int(stay * factor) + 1, []).append((block, worker))

    for now in range(14000):
        for block, worker in due.pop(now, []):
            trace.give(block, thread=2000 + worker, stream=streams[worker])
        take_one(now)
        trace.wait(8)
        if now % 2000 == 1000:
            for _ in range(700):
                take_one(now, factor=trace.uniform(1, 8))
                trace.wait(1)
    for when in sorted(due):
        for block, worker in due[when]:
            trace.give(block, thread=2000 + worker, stream=streams[worker])


def fragmenting(trace):
    results = []
    chunk = 2.3 * MIB
    for _ in range(14):
        chunks = []
        while sum(size for _, size in chunks) + sum(size for _, size in results) < 940 * MIB:
            chunks.append(trace.take(chunk * trace.uniform(0.99, 1.01)))
            trace.wait(300)
            results.append(trace.take(trace.uniform(1, 16) * KIB))
        for block in chunks:
            trace.wait(40)
            trace.give(block)
        kept = []
        for block in results:
            if trace.random() < 0.1:
                trace.give(block)
            else:
                kept.append(block)
        results = kept
        chunk *= 1.03
    for block in results:
        trace.give(block)


def main():
    traces = {"steps": steps, "tails": tails, "fragmenting": fragmenting}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in traces:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    trace = Trace(int(sys.argv[2]) if len(sys.argv) == 3 else 1)
    traces[sys.argv[1]](trace)
    sys.stdout.write("\n".join(trace.lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
