#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The mean, the deviation and a histogram of a file that is larger than the memory of the device. It needs NumPy.

usage: out_of_core.py [MEGABYTES [DEVICE-MEGABYTES [PICTURE.png]]]

A file of random numbers is written to a temporary folder, and the context may use less memory of the device than it has bytes.
Chunks of the file come to the device while a kernel counts those before; the counts stay there, and cross once. matplotlib draws
the histogram, where it is installed. FERRY_DEVICE names the device.
"""

import math
import os
import sys
import tempfile

import numpy as np

import ferry

BINS, LOW, HIGH = 64, -4.0, 4.0

CUDA = r"""
extern "C" __global__ void count(const float *values, unsigned long long *bins, double *sums, size_t size, size_t bin_count, float low,
                                 float per_unit)
{
    double sum = 0, squares = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < size; i += gridDim.x * (size_t)blockDim.x) {
        float value = values[i], place = (value - low) * per_unit;
        size_t bin = place <= 0 ? 0 : (size_t)place;
        atomicAdd(&bins[bin < bin_count ? bin : bin_count - 1], 1ull);
        sum += value;
        squares += (double)value * value;
    }
    atomicAdd(&sums[0], sum);
    atomicAdd(&sums[1], squares);
}
"""


def count(values, bins, sums, size, bin_count, low, per_unit):
    """The same on machines without a GPU."""
    at = np.clip((values - low) * np.float32(per_unit), 0, bin_count - 1).astype("i8")
    bins += np.bincount(at, minlength=bin_count).astype("u8")
    wide = values.astype("f8")
    sums += [wide.sum(), (wide * wide).sum()]


def write_numbers(path, megabytes):
    """Two hills of random numbers, a megabyte at a time."""
    random = np.random.default_rng(1)
    with open(path, "wb") as file:
        for _ in range(megabytes):
            values = random.standard_normal(1 << 18, dtype="f4") * np.float32(0.7)
            values[::3] += 2
            values[1::3] -= 1
            values.tofile(file)


def draw(bins, path):
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(5, 2.6), layout="constrained")
    edges = np.linspace(LOW, HIGH, BINS + 1)
    axis.bar(edges[:-1], bins / bins.sum(), np.diff(edges), align="edge")
    axis.set_ylabel("share of the numbers")
    figure.savefig(path, dpi=80)
    print(path)


def main(megabytes=64, device_megabytes=16, path="out_of_core.png"):
    megabytes, device_megabytes = int(megabytes), int(device_megabytes)
    context = ferry.Context(device_bytes_limit=device_megabytes << 20)
    kernel = ferry.Kernel("count", source=CUDA, host=count, context=context, parameters=[
        "read f4 values", "update u8 bins", "update f8 sums", "size_t size", "size_t bin_count", "f4 low", "f4 per_unit"])
    bins, sums = ferry.zeros(BINS, "u8", context=context, name="bins"), ferry.zeros(2, "f8", context=context, name="sums")

    def work(chunk, stream, start):
        kernel(stream, ferry.Grid((64, 1, 1), (256, 1, 1)), chunk, bins, sums, chunk.size, BINS, LOW, BINS / (HIGH - LOW))

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "numbers.f4")
        write_numbers(file, megabytes)
        stats = ferry.stream_file(file, "f4", work, context=context, chunk_bytes=1 << 20)
        size = os.path.getsize(file) // 4

    counts, (total, squares) = np.asarray(bins), sums.tolist()
    mean = total / size
    print(f"{context.place(1).name}: {megabytes} MiB in {stats.chunks} chunks through {device_megabytes} MiB of the device")
    print(f"{counts.sum()} numbers, mean {mean:.4f}, deviation {math.sqrt(squares / size - mean * mean):.4f}")
    draw(counts, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
