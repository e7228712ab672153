#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Conversions between arrays against NumPy, where both mean the same: to floats and complex numbers, and to integers what
NumPy says after rounding, clamping and putting 0 for NaN. Through the shared library, by way of by_name.c.

usage: test_numpy.py LIBRARY TAP-FOLDER
"""

import ctypes
import sys

sys.path.insert(0, sys.argv[2])
from tap import Tap  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

COUNT = 20000
SATURATE, TRUNCATE = 1, 3


def types():
    return {"float": np.float32, "double": np.float64, "half": np.float16, "int8": np.int8, "int16": np.int16,
            "int": np.int32, "int64": np.int64, "byte": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
            "uint64": np.uint64, "bool": np.bool_, "complex_float": np.complex64, "complex_double": np.complex128}


def values(dtype, random):
    """Returns random bits, which include NaNs, infinities and subnormals, and numbers of common size."""
    if dtype == np.bool_:
        return random.integers(0, 2, COUNT).astype(np.bool_)
    bits = np.frombuffer(random.bytes(COUNT * np.dtype(dtype).itemsize), dtype=dtype).copy()
    if np.dtype(dtype).kind in "fc":
        bits[::2] = (random.standard_normal(bits[::2].size) * 300).astype(dtype)
        bits[:6] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5]
    return bits


def to_integer(source, dtype, rounding):
    """Rounds and clamps to an integer type. Limits are compared in the source's type, where the upper limit may round up to a power of two."""
    if source.dtype.kind == "f":
        wide = rounding(source.astype(np.float64))
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        above, below = wide >= float(high), wide <= float(low)
        inside = np.where(above | below | np.isnan(wide), 0, wide).astype(dtype)
        return np.where(above, high, np.where(below, low, inside).astype(dtype)).astype(dtype)
    limits = [max(np.iinfo(dtype).min, np.iinfo(source.dtype).min), min(np.iinfo(dtype).max, np.iinfo(source.dtype).max)]
    return np.clip(source, *np.array(limits, dtype=source.dtype)).astype(dtype)


def expected(source, dtype, policy):
    kind = np.dtype(dtype).kind
    if source.dtype == np.bool_ or kind in "b":
        return source.astype(dtype)
    if kind in "fc":
        return source.astype(dtype) if policy == SATURATE else None  # NumPy only rounds to nearest
    return to_integer(source, dtype, np.rint if policy == SATURATE else np.trunc)


def problems(library, name, to_name, source, dtype, policy):
    with np.errstate(all="ignore"):
        wanted = expected(source, dtype, policy)
    if wanted is None:
        return []
    target = np.empty(COUNT, dtype=dtype)
    status = library.convert_by_name(name.encode(), to_name.encode(), ctypes.c_void_p(target.ctypes.data),
                                     ctypes.c_void_p(source.ctypes.data), ctypes.c_size_t(COUNT), ctypes.c_int(policy))
    if status != 0:
        return [f"status {status}"]
    with np.errstate(all="ignore"):
        same = (target == wanted) | ((target != target) & (wanted != wanted))
    if np.dtype(dtype).kind == "c":
        part = np.dtype(dtype).type(0).real.dtype
        a, b = target.view(part), wanted.view(part)
        same = ((a == b) | (np.isnan(a) & np.isnan(b))).reshape(COUNT, 2).all(axis=1)
    bad = np.flatnonzero(~same)
    return [f"policy {policy}: {source[i]!r} became {target[i]!r}, not {wanted[i]!r}" for i in bad[:3]]


def main():
    tap = Tap()
    if np is None:
        tap.skip("conversions agree with NumPy", "no NumPy")
        return tap.end()
    library = ctypes.CDLL(sys.argv[1])
    random = np.random.default_rng(1)
    for name, source_type in types().items():
        source = values(source_type, random)
        for to_name, dtype in types().items():
            if name != to_name and (np.dtype(source_type).kind != "c" or np.dtype(dtype).kind == "c"):
                found = [problem for policy in (SATURATE, TRUNCATE)
                         for problem in problems(library, name, to_name, source, dtype, policy)]
                tap.case(f"{name} to {to_name}", found)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
