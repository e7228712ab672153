#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heat spreads over a plate on the device, and a counter shows what crosses to the host: nothing. It needs NumPy.

usage: heat.py [STEPS [SIZE [PICTURE.png]]]

The plate starts cold, with a hot square. Its edges stay cold. Each step is a kernel on two arrays that change places. The plate
crosses only to be drawn, four times; matplotlib draws it, where it is installed. FERRY_DEVICE names the device.
"""

import sys

import numpy as np

import ferry

CUDA = r"""
extern "C" __global__ void spread(const float *now, float *next, size_t rows, size_t columns, float rate)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= rows * columns)
        return;
    size_t row = i / columns, column = i % columns;
    if (row == 0 || row + 1 == rows || column == 0 || column + 1 == columns)
        next[i] = 0;
    else
        next[i] = now[i] + rate * (now[i - 1] + now[i + 1] + now[i - columns] + now[i + columns] - 4 * now[i]);
}
"""


def spread(now, next, rows, columns, rate):
    """The same on machines without a GPU: arrays come with one dimension."""
    now, next = now.reshape(rows, columns), next.reshape(rows, columns)
    next[:] = 0
    inside = now[1:-1, 1:-1]
    next[1:-1, 1:-1] = inside + rate * (now[1:-1, :-2] + now[1:-1, 2:] + now[:-2, 1:-1] + now[2:, 1:-1] - 4 * inside)


def crossed(before, now):
    """Bytes between the host and the device, both ways."""
    moved = now - before
    return moved.upload.bytes + moved.download.bytes


def draw(pictures, counts, path):
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(pictures), figsize=(2.2 * len(pictures), 2.6), layout="constrained")
    for axis, (step, plate), count in zip(axes, pictures, counts):
        axis.imshow(plate, cmap="inferno", vmin=0, vmax=1)
        axis.set_title(f"step {step}\nbytes of all steps: {count}", fontsize=8)
        axis.set_axis_off()
    figure.savefig(path, dpi=90)
    print(path)


def main(steps=400, size=128, path="heat.png"):
    steps, size = int(steps), int(size)
    start = np.zeros((size, size), "f4")
    start[size // 4:size // 2, size // 4:size // 2] = 1

    context = ferry.Context()
    now, next = ferry.array(start, context=context, name="plate"), ferry.empty(start.shape, context=context, name="next plate")
    kernel = ferry.Kernel("spread", source=CUDA, host=spread, context=context,
                          parameters=["read f4 now", "overwrite f4 next", "size_t rows", "size_t columns", "f4 rate"])
    now.sync_to(1)
    pictures, counts, bytes_of_steps = [(0, np.asarray(now))], [0], 0
    for step in range(1, steps + 1):
        before = context.stats()
        kernel(None, ferry.grid(now.size), now, next, size, size, 0.2)
        now, next = next, now
        bytes_of_steps += crossed(before, context.stats())
        if sys.stdout.isatty():
            print(f"\rstep {step}: {bytes_of_steps} bytes crossed", end="", flush=True)
        if step * 3 % steps < 3:
            pictures.append((step, np.asarray(now)))
            counts.append(bytes_of_steps)
    print(f"\r{context.place(1).name}: {steps} steps of {start.nbytes} bytes, {bytes_of_steps} bytes crossed")
    draw(pictures, counts, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
