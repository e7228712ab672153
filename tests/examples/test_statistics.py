# SPDX-License-Identifier: MIT
"""statistics of a file that is larger than the memory of the device, held against NumPy's.

usage: test_statistics.py STATISTICS
"""

import os
import re
import sys

from support import run, run_cases, skip_all

try:
    import numpy as np
except ImportError:
    np = None

PROGRAM = sys.argv[1]
DEVICE = os.environ.get("FERRY_DEVICE", "")
CHUNK = 1 << 18  # number of floats in a chunk
RESULTS = 4 + 4 + 8 + 8 + 17 * 8  # number of bytes of a chunk's results


def summarize(folder, values, low, high):
    path = os.path.join(folder, "values")
    values.tofile(path)
    return run(PROGRAM, path, str(low), str(high))


def succeed(folder, values, low=-4.0, high=4.0):
    done = summarize(folder, values, low, high)
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^(count|least|most|mean|variance) (\S+)$", done.stdout, re.M))
    bins = [(np.float32(a), np.float32(b), int(n)) for a, b, n in re.findall(r"^bin (\S+) (\S+) (\d+)$", done.stdout, re.M)]
    return found, bins, done.stderr


def expect(found, bins, values):
    wide = values.astype("f8")
    assert int(found["count"]) == values.size
    assert np.float32(found["least"]) == values.min() and np.float32(found["most"]) == values.max()
    # The error is at most n * eps times the sum of absolute differences to the pivot, which is the first value.
    # docs/kernels.md states this for sums.
    scale = np.abs(wide - wide[0]).sum() / values.size
    assert abs(float(found["mean"]) - wide.mean()) <= 1e-12 * max(scale, abs(wide.mean())), found
    assert abs(float(found["variance"]) - wide.var()) <= 1e-9 * max(wide.var(), 1e-300), (found, wide.var())
    edges = np.array([a for a, _, _ in bins] + [bins[-1][1]])
    below = np.array([(values < edge).sum() for edge in edges])
    assert len(bins) == 16 and [n for _, _, n in bins] == list(np.diff(below)), bins


def test_file_larger_than_the_device(folder):
    values = np.random.default_rng(1).standard_normal(25 * CHUNK + 77, dtype="f4") * np.float32(1.5)  # 100 MiB, with a limit of 32 MiB
    found, bins, told = succeed(folder, values)
    expect(found, bins, values)
    # The values are uploaded once. For each chunk, only the results are downloaded.
    chunks = 26
    assert f"{values.nbytes} bytes in {chunks} chunks" in told, told
    back = 0 if DEVICE == "host" else chunks * RESULTS
    assert f"; {back} bytes came back" in told, (told, back)


def test_small_files(folder):
    for count in (1, 2, 17, CHUNK, CHUNK + 1):
        values = np.random.default_rng(count).standard_normal(count, dtype="f4")
        found, bins, _ = succeed(folder, values)
        expect(found, bins, values)


def test_values_far_from_zero(folder):
    values = np.float32(16000) + np.random.default_rng(3).standard_normal(3 * CHUNK, dtype="f4")
    found, bins, _ = succeed(folder, values, 15996, 16004)
    expect(found, bins, values)


def test_constant(folder):
    found, bins, _ = succeed(folder, np.full(CHUNK + 5, 0.1, "f4"))
    assert float(found["variance"]) == 0.0 and float(found["mean"]) == float(np.float32(0.1)), found
    assert sum(n for _, _, n in bins) == CHUNK + 5


def test_nan_and_infinities(folder):
    values = np.arange(CHUNK * 2, dtype="f4")
    values[CHUNK + 3] = np.nan
    found, _, _ = succeed(folder, values)
    assert all(np.isnan(float(found[key])) for key in ("least", "most", "mean")), found
    values[CHUNK + 3] = np.inf
    found, bins, _ = succeed(folder, values, 0, 1 << 20)
    assert found["most"] == "inf" and sum(n for _, _, n in bins) == 2 * CHUNK - 1


def test_refusals(folder):
    for arguments in ([], ["x"], ["x", "1", "1"], ["x", "2", "1"], ["x", "1", "nan"]):
        done = run(PROGRAM, *arguments)
        assert done.returncode == 2 and done.stderr.startswith("usage: statistics FILE LOW HIGH"), done.stderr
    done = run(PROGRAM, os.path.join(folder, "missing"), "0", "1")
    assert done.returncode == 1 and "cannot be read" in done.stderr
    done = summarize(folder, np.zeros(0, "f4"), 0, 1)
    assert done.returncode == 1 and "has no value" in done.stderr
    done = summarize(folder, np.zeros(6, "i1"), 0, 1)
    assert done.returncode == 1 and "statistics: " in done.stderr and "(FERRY_ERROR_IO)" in done.stderr, done.stderr


if np is None:
    skip_all("NumPy is missing")
run_cases([(name.removeprefix("test_").replace("_", " "), function) for name, function in list(globals().items())
           if name.startswith("test_")])
