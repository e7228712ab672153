#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shade a map of heights on the device, and write a picture. It needs NumPy.

usage: hillshade.py [HEIGHTS.npy|HEIGHTS.npz [PICTURE.png [CELL-WIDTH CELL-HEIGHT]]]

Without a file the heights are those of Debian's python-matplotlib-data. Each height crosses to the device once. The grey values
become bytes on the device, so that one byte for each cell crosses back. FERRY_DEVICE names the device.
"""

import math
import os
import struct
import sys
import zlib

import numpy as np

import ferry

SAMPLE = "/usr/share/matplotlib/mpl-data/sample_data/jacksboro_fault_dem.npz"
SAMPLE_CELL = 74.4, 92.8  # metres: 3 arc seconds of longitude and latitude at 36.5 degrees north
AZIMUTH, ALTITUDE = math.radians(315), math.radians(45)

# The cosine of the angle between the light and the normal of Horn's gradient. Outside the map the nearest cell counts.
CUDA = r"""
extern "C" __global__ void shade(const float *height, float *grey, size_t rows, size_t columns, float per_east, float per_north,
                                 float east, float north, float up)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= rows * columns)
        return;
    size_t row = i / columns, column = i % columns;
    size_t above = row ? row - 1 : 0, below = row + 1 < rows ? row + 1 : row;
    size_t left = column ? column - 1 : 0, right = column + 1 < columns ? column + 1 : column;
#define AT(r, c) height[(r) * columns + (c)]
    float rise_east = AT(above, right) - AT(above, left) + AT(below, right) - AT(below, left) + 2 * (AT(row, right) - AT(row, left));
    float rise_north = AT(above, left) - AT(below, left) + AT(above, right) - AT(below, right) + 2 * (AT(above, column) - AT(below, column));
    rise_east *= per_east;
    rise_north *= per_north;
    float facing = up - rise_east * east - rise_north * north;
    grey[i] = 255 * fmaxf(0, facing * rsqrtf(1 + rise_east * rise_east + rise_north * rise_north));
}
"""


def shade(height, grey, rows, columns, per_east, per_north, east, north, up):
    """The same on machines without a GPU: arrays come with one dimension."""
    at = np.pad(height.reshape(rows, columns), 1, "edge")
    above, same, below = at[:-2], at[1:-1], at[2:]
    rise_east = per_east * (above[:, 2:] - above[:, :-2] + below[:, 2:] - below[:, :-2] + 2 * (same[:, 2:] - same[:, :-2]))
    rise_north = per_north * (above[:, :-2] - below[:, :-2] + above[:, 2:] - below[:, 2:] + 2 * (above[:, 1:-1] - below[:, 1:-1]))
    facing = (up - rise_east * east - rise_north * north) / np.sqrt(1 + rise_east**2 + rise_north**2)
    grey[:] = 255 * np.maximum(0, facing).ravel()


def pick(path, arrays):
    """Returns the array with the name "elevation", or the only one that is a grid."""
    grids = [name for name in arrays if arrays[name].ndim == 2]
    if "elevation" in grids:
        return arrays["elevation"]
    if len(grids) != 1:
        sys.exit(f"hillshade: {path}: expected one grid of heights, and the file has {len(grids)}: {', '.join(grids)}")
    return arrays[grids[0]]


def read_heights(path):
    loaded = np.load(path)
    heights = pick(path, loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    if heights.ndim != 2:
        sys.exit(f"hillshade: {path}: expected a grid of heights, not an array of {heights.ndim} dimensions")
    if heights.dtype.kind not in "iuf":
        sys.exit(f"hillshade: {path}: expected numbers as heights, not elements of {heights.dtype}")
    if not np.isfinite(heights).all():
        sys.exit(f"hillshade: {path}: a height is not finite: give a map without gaps")
    return np.ascontiguousarray(heights, dtype="f4")


def write_png(path, grey):
    """Eight bits of grey for each cell."""
    def part(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


def main(source=SAMPLE, picture="hillshade.png", *cell):
    if not os.path.exists(source):
        sys.exit(f"hillshade: there is no {source}: name a file, or install python-matplotlib-data")
    width, height = map(float, cell) if cell else (SAMPLE_CELL if source == SAMPLE else (1, 1))

    context = ferry.Context()
    heights = ferry.array(read_heights(source), context=context, name="heights")
    grey = ferry.empty(heights.shape, "f4", context=context, name="grey")
    kernel = ferry.Kernel(
        "shade", source=CUDA, host=shade, context=context,
        parameters=["read f4 height", "overwrite f4 grey", "size_t rows", "size_t columns", "f4 per_east", "f4 per_north",
                    "f4 east", "f4 north", "f4 up"])
    before = context.stats()
    kernel(None, ferry.grid(heights.size), heights, grey, *heights.shape, 1 / (8 * width), 1 / (8 * height),
           math.sin(AZIMUTH) * math.cos(ALTITUDE), math.cos(AZIMUTH) * math.cos(ALTITUDE), math.sin(ALTITUDE))
    write_png(picture, np.asarray(grey.astype("u1")))

    moved = context.stats() - before
    print(f"{context.place(1).name}: {heights.shape[1]} x {heights.shape[0]} cells, "
          f"{moved.upload.bytes} bytes up, {moved.download.bytes} bytes down")
    print(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
