# SPDX-License-Identifier: MIT
"""hillshade against NumPy, pixel by pixel, on the device that FERRY_DEVICE names.

usage: test_hillshade.py HILLSHADE
"""

import functools
import os
import re
import sys

from support import read_grey_png, run, run_cases, skip_all

try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not installed")

PROGRAM = sys.argv[1]
DEVICE = os.environ.get("FERRY_DEVICE", "")
DEM = "/usr/share/matplotlib/mpl-data/sample_data/jacksboro_fault_dem.npz"


def reference(height, azimuth=315.0, altitude=45.0, cell=(1.0, 1.0), z=1.0):
    """Horn's gradient with replicated edges, and the cosine between the ground's normal and the light, in double."""
    padded = np.pad(height.astype(np.float64), 1, mode="edge") * z
    rows, columns = height.shape

    def at(south, east):
        return padded[1 + south:1 + south + rows, 1 + east:1 + east + columns]

    east = (at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)) / (8 * cell[0])
    south = (at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)) / (8 * cell[1])
    slope = np.arctan(np.hypot(east, south))
    # The direction in which the slope descends, as an angle clockwise from north.
    aspect = np.arctan2(-east, south)
    azimuth, altitude = np.radians(azimuth), np.radians(altitude)
    shade = np.sin(altitude) * np.cos(slope) + np.cos(altitude) * np.sin(slope) * np.cos(azimuth - aspect)
    return np.rint(255 * np.clip(shade, 0, 1)).astype(int)


def shade(folder, height, **options):
    """The program's picture and what it printed."""
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.png")
    np.save(source, height)
    arguments = []
    for name, value in options.items():
        arguments += [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    process = run(PROGRAM, source, target, *arguments)
    assert process.returncode == 0 and process.stderr == "", process.stderr
    rows, columns, grey = read_grey_png(target)
    return np.frombuffer(grey, np.uint8).reshape(rows, columns).astype(int), process.stdout


def compare(height, **options):
    def case(folder):
        grey, _ = shade(folder, height, **options)
        assert grey.shape == height.shape, f"{grey.shape} instead of {height.shape}"
        worst = np.abs(grey - reference(height, **options)).max()
        assert worst <= 1, f"{worst} grey levels apart"
    return case


def hills(rows, columns, dtype):
    south, east = np.mgrid[0:rows, 0:columns]
    height = 900 + 120 * np.sin(east / 17) * np.cos(south / 11) + 0.8 * east - 0.3 * south
    height += np.random.default_rng(7).normal(0, 3, height.shape)
    return height.astype(dtype)


def every_type(folder, order, memory):
    """Each type that heights can have, over as much of its range as leaves the picture the same; more than a tile of each."""
    for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
        dtype = np.dtype(order + code)
        height = np.asarray(hills(70, 83, np.float64) / (16 if code[1] == "1" else 1), dtype=dtype, order=memory)
        if code[0] == "i":
            height -= dtype.type(60)
        # shade() must save the array in the byte order of the array. A copy by NumPy would have the machine's byte
        # order, so shade() saves the array without a copy.
        grey, text = shade(folder, height, cell=9)
        assert f"grid       70 x 83 {dtype.newbyteorder('=')}\n" in text, text
        worst = np.abs(grey - reference(height, cell=(9.0, 9.0))).max()
        assert worst <= 1, f"{dtype}, {memory} order: {worst} grey levels apart"


def test_extremes(folder):
    """Heights of 64 bits that a float rounds; infinite ones, which are no heights, are black as missing ones are."""
    for dtype in (np.int64, np.uint64, np.float64):
        height = np.full((8, 8), np.finfo(dtype).max if dtype is np.float64 else np.iinfo(dtype).max, dtype)
        grey, _ = shade(folder, height, altitude=90)
        assert (grey == (0 if dtype is np.float64 else 255)).all(), (dtype, grey)


def test_light_comes_from_where_it_is_said(folder):
    # A roof whose western side faces west and whose eastern side faces east.
    roof = -np.abs(np.arange(64, dtype=np.float32) - 31.5) * np.ones((8, 1), np.float32)
    west, east = (shade(folder, roof, azimuth=azimuth)[0][4] for azimuth in (270, 90))
    assert west[10] > 250 and west[50] == 0 and east[10] == 0 and east[50] > 250, (west, east)
    # A roof whose northern side, the first rows, faces north.
    north = shade(folder, np.ascontiguousarray(roof.T), azimuth=0)[0][:, 4]
    assert north[10] > 250 and north[50] == 0, north


def test_missing_heights_are_black(folder):
    height = hills(40, 50, np.float32)
    expected = reference(height)
    height[20, 30] = np.nan
    grey, _ = shade(folder, height)
    near = np.zeros(height.shape, bool)
    near[19:22, 29:32] = True
    near[20, 30] = False # Horn's gradient leaves the middle out
    assert (grey[near] == 0).all()
    assert (np.abs(grey - expected)[~near] <= 1).all()


def test_nothing_crosses_twice(folder):
    for dtype in (np.int32, np.float32, np.float64, np.int16, np.uint8):
        height = hills(123, 457, np.float32).astype(dtype)
        _, text = shade(folder, height)
        least = 0 if DEVICE == "host" else height.size
        for word, least in (("uploaded", min(4, dtype(0).nbytes) * least), ("downloaded", least)):
            moved, needed = map(int, re.search(rf"^{word} +(\d+) bytes, at least (\d+) needed$", text, re.M).groups())
            assert moved == needed == least, (dtype, text)


def test_report_names_everything(folder):
    _, text = shade(folder, hills(10, 20, np.float32))
    assert re.search(r"^grid +10 x 20 float32$", text, re.M), text
    assert re.search(r"^device +\S.* \(" + DEVICE.split(":")[0], text, re.M), text
    for step in ("read", "open", "upload", "kernel", "download", "write"):
        assert re.search(rf"^{step} +\d+\.\d+ ms$", text, re.M), text
    assert re.search(r"^pool +\d+ allocations, \d+ hits, \d+ bytes live, \d+ bytes reserved at most$", text, re.M), text


def test_bad_arguments(folder):
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.png")
    np.save(source, hills(4, 4, np.int32))
    for arguments in ([], [source], [source, target, target], [source, target, "--azimuth"],
                      [source, target, "--altitude", "91"], [source, target, "--altitude", "nan"],
                      [source, target, "--cell", "0"], [source, target, "--cell", "1,2,3"],
                      [source, target, "--z", "1x"], [source, target, "--pen", "1.5"], [source, target, "--pen", "-1"],
                      [source, target, "--cell", ""], [source, target, "--sun", "3"]):
        process = run(PROGRAM, *arguments)
        assert process.returncode == 2, arguments
        assert process.stderr.count("\n") == 1 and process.stdout == "", arguments
        assert not os.path.exists(target)
    process = run(PROGRAM, "--help")
    assert process.returncode == 0 and "usage" in process.stdout and process.stderr == ""


def test_output_that_cannot_be_written(folder):
    source = os.path.join(folder, "in.npy")
    np.save(source, hills(40, 40, np.int32))
    for target in (folder, os.path.join(folder, "missing", "out.png"), "/dev/full"):
        process = run(PROGRAM, source, target)
        assert process.returncode == 1, target
        assert process.stderr.count("\n") == 1 and target in process.stderr, process.stderr
    assert os.path.exists("/dev/full")


def test_absent_device(folder):
    source = os.path.join(folder, "in.npy")
    np.save(source, hills(4, 4, np.int32))
    process = run(PROGRAM, source, os.path.join(folder, "out.png"), FERRY_DEVICE="abacus")
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and "abacus" in process.stderr, process.stderr


def cases():
    yield from ((f"{rows} x {columns} {dtype.__name__}", compare(hills(rows, columns, dtype)))
                for rows, columns in ((1, 1), (1, 7), (7, 1), (2, 2), (3, 5), (211, 307))
                for dtype in (np.int32, np.float32))
    for dtype in (np.int32, np.float32):
        grid = hills(100, 130, dtype)
        yield f"low sun {dtype.__name__}", compare(grid, azimuth=20, altitude=5, cell=(30.0, 25.0), z=2.5)
        yield f"sun overhead {dtype.__name__}", compare(grid, azimuth=-90, altitude=90, cell=(10.0, 10.0))
        yield f"sun on the horizon {dtype.__name__}", compare(grid, azimuth=181, altitude=0, cell=(3.0, 40.0))
    for order in "<>":
        for memory in "CF":
            yield f"every type, '{order}', {memory} order", functools.partial(every_type, order=order, memory=memory)
    yield "extreme heights", test_extremes
    yield "all the same", compare(np.full((9, 9), -2 ** 31, np.int32))
    yield "light comes from where it is said", test_light_comes_from_where_it_is_said
    yield "missing heights are black", test_missing_heights_are_black
    yield "nothing crosses twice", test_nothing_crosses_twice
    yield "the report names everything", test_report_names_everything
    yield "bad arguments", test_bad_arguments
    yield "output that cannot be written", test_output_that_cannot_be_written
    yield "absent device", test_absent_device
    if os.path.exists(DEM):
        elevation = np.load(DEM)["elevation"]
        for dtype in (np.int32, np.float32):
            yield f"Jacksboro {dtype.__name__}", compare(elevation.astype(dtype), cell=(74.4, 92.8))


run_cases(list(cases()))
