#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Arrays of NumPy, pyarrow and nanoarrow, and back, without a copy and with the right lifetimes.

usage: test_arrays.py LIBRARY TAP-FOLDER

What is not installed is skipped. FERRY_TEST_PYTHON_PATH may name a folder with more packages.
"""

import ctypes
import gc
import os
import sys

sys.path.insert(0, sys.argv[2])
if os.environ.get("FERRY_TEST_PYTHON_PATH"):
    sys.path.insert(1, os.environ["FERRY_TEST_PYTHON_PATH"])
from binding import ARROW, INVALID_ARGUMENT, TYPESTR, UNSUPPORTED, Failure, import_arrow, import_dlpack, open_library  # noqa: E402
from tap import Tap  # noqa: E402


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


np, pyarrow, nanoarrow = optional("numpy"), optional("pyarrow"), optional("nanoarrow")


class Checks:
    """Problems of one case, told when it is over."""

    def __init__(self):
        self.problems = []

    def equal(self, got, wanted, what):
        if got != wanted:
            self.problems.append(f"{what}: {got!r}, not {wanted!r}")

    def fails(self, status, what, call):
        try:
            call()
        except Failure as failure:
            self.equal(failure.status, status, what)
        else:
            self.problems.append(f"{what}: did not fail")


class Owner(np.ndarray if np else object):
    """An array that says when it is gone."""

    gone = 0

    def __del__(self):
        Owner.gone += 1


# -- imports ------------------------------------------------------------------------------------------


def numpy_types():
    return [np.dtype(letter) for letter in "?bBhHiIlLqQefdFD"]


def case_types(ferry, context, checks):
    for dtype in numpy_types():
        array = (np.arange(24) % 2 if dtype == np.bool_ else np.arange(24)).astype(dtype)
        try:
            buffer, _ = import_dlpack(ferry, context, array)
        except BufferError:  # of older releases of NumPy
            checks.equal(dtype, np.dtype(bool), "a type that NumPy does not export")
            continue
        checks.equal(ferry.text(ferry.c.ferry_buffer_element(buffer), TYPESTR), dtype.str, "typestr")
        checks.equal(ferry.read(buffer, 24, dtype.itemsize), array.tobytes(), f"bytes of {dtype}")
        ferry.destroy("ferry_buffer_destroy", buffer)


def case_layouts(ferry, context, checks):
    base = np.arange(120, dtype="i4").reshape(2, 3, 4, 5)
    for name, array in {"transposed": base.T, "permuted": base.transpose(2, 0, 3, 1), "Fortran": np.asfortranarray(base[0]), "slice": base[1],
                        "one element": base[:1, :1, :1, :1], "scalar": np.array(7, "i4"), "empty": base[:, :0], "row": base[1, 2, 3]}.items():
        buffer, _ = import_dlpack(ferry, context, array)
        checks.equal(ferry.c.ferry_buffer_count(buffer), array.size, f"count, {name}")
        in_memory = np.ravel(array, order="K").tobytes()
        checks.equal(ferry.read(buffer, array.size, 4), in_memory, f"bytes, {name}")
        ferry.destroy("ferry_buffer_destroy", buffer)
    repeated = np.lib.stride_tricks.as_strided(base[0], (3, 3, 4, 5), (0, *base[0].strides))
    for name, array in {"column": base[:, :, :, 1], "reversed": base[::-1], "broadcast": repeated}.items():
        checks.fails(UNSUPPORTED, name, lambda array=array: import_dlpack(ferry, context, array))


def case_lifetime(ferry, context, checks):
    Owner.gone = 0
    array = np.arange(1000, dtype="f4").view(Owner)
    buffer, _ = import_dlpack(ferry, context, array)
    address = array.ctypes.data
    del array
    gc.collect()
    checks.equal(Owner.gone, 0, "owners gone while the buffer lives")
    checks.equal(ferry.read(buffer, 1000, 4), np.arange(1000, dtype="f4").tobytes(), "bytes after `del`")
    checks.equal(ferry.host_address(buffer), address, "address")
    ferry.destroy("ferry_buffer_destroy", buffer)
    gc.collect()
    checks.equal(Owner.gone, 1, "owners gone after the buffer")


def case_read_only(ferry, context, checks):
    """The flag is of versioned tensors; older releases of NumPy refuse to export such an array."""
    array = np.arange(10, dtype="f8")
    array.flags.writeable = False
    try:
        buffer, versioned = import_dlpack(ferry, context, array)
    except (BufferError, TypeError):
        return
    if versioned:
        checks.fails(INVALID_ARGUMENT, "a write", lambda: ferry.fill(buffer, np.float64(1).tobytes()))
    ferry.destroy("ferry_buffer_destroy", buffer)


def case_written_back(ferry, context, checks):
    array = np.zeros(10, dtype="f8")
    buffer, _ = import_dlpack(ferry, context, array)
    ferry.fill(buffer, np.float64(2.5).tobytes())
    ferry.destroy("ferry_buffer_destroy", buffer)
    checks.equal(array.tolist(), [2.5] * 10, "values")


ARROW_LETTERS = {"int8": "c", "uint8": "C", "int16": "s", "uint16": "S", "int32": "i", "uint32": "I", "int64": "l", "uint64": "L", "float16": "e",
                 "float32": "f", "float64": "g"}


def case_arrow(ferry, context, checks, make):
    """`make` makes an array with __arrow_c_array__ of a NumPy array's values."""
    for name, letter in ARROW_LETTERS.items():
        values = np.arange(50).astype(name)
        array = make(values)
        if array is None:
            continue
        buffer = import_arrow(ferry, context, array)
        del array
        gc.collect()
        checks.equal(ferry.text(ferry.c.ferry_buffer_element(buffer), ARROW), letter, "format")
        checks.equal(ferry.read(buffer, 50, values.itemsize), values.tobytes(), f"bytes of {name}")
        checks.fails(INVALID_ARGUMENT, "a write", lambda: ferry.fill(buffer, values[:1].tobytes()))
        ferry.destroy("ferry_buffer_destroy", buffer)


def case_pyarrow(ferry, context, checks):
    case_arrow(ferry, context, checks, pyarrow.array)
    Owner.gone = 0
    array = pyarrow.array(np.arange(100, dtype="i4").view(Owner))
    buffer = import_arrow(ferry, context, array.slice(10, 20))
    del array
    gc.collect()
    checks.equal(ferry.read(buffer, 20, 4), np.arange(10, 30, dtype="i4").tobytes(), "a slice")
    checks.equal(Owner.gone, 0, "owners gone while the buffer lives")
    ferry.destroy("ferry_buffer_destroy", buffer)
    gc.collect()
    checks.equal(Owner.gone, 1, "owners gone after the buffer")
    for name, odd in {"nulls": pyarrow.array([1, None, 3]), "bool": pyarrow.array([True, False]), "text": pyarrow.array(["a", "b"]),
                      "list": pyarrow.array([[1], [2]]), "dictionary": pyarrow.array(["a", "b"]).dictionary_encode(),
                      "decimal": pyarrow.array([1, 2]).cast(pyarrow.decimal128(20))}.items():
        checks.fails(UNSUPPORTED, name, lambda odd=odd: import_arrow(ferry, context, odd))


def nanoarrow_of(values):
    kind = getattr(nanoarrow, values.dtype.name, None)
    return nanoarrow.Array(values.tolist(), kind()) if kind else None


def case_nanoarrow(ferry, context, checks):
    case_arrow(ferry, context, checks, nanoarrow_of)


CASES = [
    ("types of NumPy", case_types, ["numpy"]),
    ("layouts of NumPy", case_layouts, ["numpy"]),
    ("lifetime of a NumPy array", case_lifetime, ["numpy"]),
    ("read-only NumPy arrays", case_read_only, ["numpy"]),
    ("writes reach NumPy", case_written_back, ["numpy"]),
    ("pyarrow arrays", case_pyarrow, ["numpy", "pyarrow"]),
    ("nanoarrow arrays", case_nanoarrow, ["numpy", "nanoarrow"]),
]
PACKAGES = {"numpy": np, "pyarrow": pyarrow, "nanoarrow": nanoarrow}


def main():
    ferry = open_library(sys.argv[1])
    if not ferry:
        return 0
    tap = Tap()
    for devices in ("host", "emulated:2"):
        for name, case, packages in CASES:
            missing = [package for package in packages if not PACKAGES[package]]
            if missing:
                tap.skip(f"{name}, {devices}", f"this Python has no {missing[0]}")
                continue
            checks = Checks()
            context = ferry.context(devices)
            case(ferry, context, checks)
            ferry.destroy("ferry_context_destroy", context)
            tap.case(f"{name}, {devices}", checks.problems[:10])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
