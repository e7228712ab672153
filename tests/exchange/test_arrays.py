#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Imports from and exports to NumPy, pyarrow and nanoarrow make no copy and keep the right lifetimes.

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
from binding import (ARROW, BUFFER, BUSY, INVALID_ARGUMENT, READ, TYPESTR, UNSUPPORTED, UPDATE, Failure, Lease, import_arrow,  # noqa: E402
                     import_dlpack, open_library)
from tap import Tap  # noqa: E402


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


np, pyarrow, nanoarrow = optional("numpy"), optional("pyarrow"), optional("nanoarrow")

IS_OLD = np and int(np.__version__.split(".")[0]) < 2  # NumPy 1 has neither versioned tensors nor their bool


class Checks:
    """Collects the problems of one case and reports them at its end."""

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
    """An array that records when it is destroyed."""

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
        except BufferError:  # a type of older releases of NumPy
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
    """Imports of read-only arrays. Only versioned tensors have this flag; older releases of NumPy refuse to export such an array."""
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
    """Imports of Arrow arrays. `make` creates an array with __arrow_c_array__ from the values of a NumPy array."""
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


# -- exports ------------------------------------------------------------------------------------------


def made_of(ferry, context, array):
    return ferry.buffer_of(context, ferry.parse(TYPESTR, array.dtype.str), array.tobytes(), array.size)


def case_exported_types(ferry, context, checks):
    for dtype in numpy_types():
        if dtype == np.bool_ and IS_OLD:
            continue
        values = (np.arange(24) % 2 if dtype == np.bool_ else np.arange(24)).astype(dtype)
        buffer = made_of(ferry, context, values)
        lease = Lease(ferry, buffer, UPDATE, (2, 3, 4))
        array = np.from_dlpack(lease)
        lease.close()
        checks.equal((array.dtype, array.shape, array.tobytes()), (dtype, (2, 3, 4), values.tobytes()), "array")
        del array
        gc.collect()
        ferry.fill(buffer, values[1:2].tobytes())  # fails with BUSY if a lease is still open
        ferry.destroy("ferry_buffer_destroy", buffer)


def case_export_outlives_all(ferry, context, checks):
    """Checks that an exported array stays usable after its lease, its buffer and its context were destroyed."""
    own = ferry.context("host")
    buffer = made_of(ferry, own, np.arange(1000, dtype="f4"))
    lease = Lease(ferry, buffer, UPDATE)
    array = np.from_dlpack(lease)
    lease.close()
    ferry.destroy("ferry_buffer_destroy", buffer)
    ferry.destroy("ferry_context_destroy", own)
    if array.flags.writeable:  # older releases of NumPy import every array as read-only
        array += 1
        array -= 1
    checks.equal(array.tolist(), list(range(1000)), "values")
    view = array[10:20]
    del array
    gc.collect()
    checks.equal(view.sum(), 145.0, "a view's sum")


def case_written_by_numpy(ferry, context, checks):
    values = np.arange(24, dtype="i4")
    buffer = made_of(ferry, context, values)
    lease = Lease(ferry, buffer, UPDATE, (6, 4), (1, 6))
    array = np.from_dlpack(lease)
    lease.close()
    checks.equal(array.tolist(), values.reshape(4, 6).T.tolist(), "transposed")
    if array.flags.writeable:
        array[0, 1] = values[6] = 77
    checks.fails(BUSY, "another use", lambda: ferry.fill(buffer, values[:1].tobytes()))
    del array
    gc.collect()
    checks.equal(ferry.read(buffer, 24, 4), values.tobytes(), "bytes")
    ferry.destroy("ferry_buffer_destroy", buffer)


def case_read_lease(ferry, context, checks):
    buffer = made_of(ferry, context, np.arange(10, dtype="f8"))
    lease = Lease(ferry, buffer, READ, offset=4)
    checks.fails(UNSUPPORTED, "a legacy tensor", lease.__dlpack__)
    if not IS_OLD:
        array = np.from_dlpack(lease)
        checks.equal((array.tolist(), array.flags.writeable), ([4.0, 5, 6, 7, 8, 9], False), "array")
        del array
        gc.collect()
    lease.close()
    ferry.destroy("ferry_buffer_destroy", buffer)


def case_unused_capsules(ferry, context, checks):
    buffer = made_of(ferry, context, np.arange(10, dtype="f8"))
    for access in (READ, UPDATE):
        lease = Lease(ferry, buffer, access)
        lease.__dlpack__(max_version=(1, 0))
        if access == READ:
            lease.__arrow_c_array__()
        lease.close()
        gc.collect()
        ferry.fill(buffer, np.float64(1).tobytes())
    ferry.destroy("ferry_buffer_destroy", buffer)


def case_struct(ferry, context, checks):
    dtype = np.dtype([("x", "f4"), ("v", "f4", (2,))])
    values = np.zeros(5, dtype)
    values["x"] = np.arange(5)
    element = ferry.parse(BUFFER, memoryview(values).format)
    buffer = ferry.buffer_of(context, element, values.tobytes(), 5)
    lease = Lease(ferry, buffer, UPDATE)
    array = np.from_dlpack(lease)
    lease.close()
    checks.equal((array.dtype, array.shape), (np.dtype("u1"), (5, 12)), "bytes")
    checks.equal(array.view(dtype)[:, 0]["x"].tolist(), [0.0, 1, 2, 3, 4], "fields")
    del array
    gc.collect()
    ferry.destroy("ferry_buffer_destroy", buffer)


def case_exported_arrow(ferry, context, checks, take_array):
    """Exports as Arrow arrays. `take_array` creates the other library's array over the lease's memory, and a list of its values."""
    for name, letter in ARROW_LETTERS.items():
        values = np.arange(50).astype(name)
        buffer = made_of(ferry, context, values)
        lease = Lease(ferry, buffer, READ, offset=10)
        array, numbers = take_array(lease)
        lease.close()
        checks.equal(list(numbers), values[10:].tolist(), f"values of {name}")
        checks.fails(BUSY, f"a write while {letter} is out", lambda: ferry.fill(buffer, values[:1].tobytes()))
        del array, numbers
        gc.collect()
        ferry.fill(buffer, values[:1].tobytes())
        ferry.destroy("ferry_buffer_destroy", buffer)


def case_exported_to_pyarrow(ferry, context, checks):
    def take_array(lease):
        array = pyarrow.array(lease)
        array.validate(full=True)
        return array, array.to_pylist()

    case_exported_arrow(ferry, context, checks, take_array)


def case_exported_to_nanoarrow(ferry, context, checks):
    def take_array(lease):
        array = nanoarrow.Array(lease)
        return array, array.to_pylist()

    case_exported_arrow(ferry, context, checks, take_array)


CASES = [
    ("types of NumPy", case_types, ["numpy"]),
    ("layouts of NumPy", case_layouts, ["numpy"]),
    ("lifetime of a NumPy array", case_lifetime, ["numpy"]),
    ("read-only NumPy arrays", case_read_only, ["numpy"]),
    ("writes reach NumPy", case_written_back, ["numpy"]),
    ("pyarrow arrays", case_pyarrow, ["numpy", "pyarrow"]),
    ("nanoarrow arrays", case_nanoarrow, ["numpy", "nanoarrow"]),
    ("exported types", case_exported_types, ["numpy"]),
    ("an export outlives all", case_export_outlives_all, ["numpy"]),
    ("NumPy writes", case_written_by_numpy, ["numpy"]),
    ("a READ lease in NumPy", case_read_lease, ["numpy"]),
    ("capsules that nobody takes", case_unused_capsules, ["numpy"]),
    ("structs in NumPy", case_struct, ["numpy"]),
    ("exports to pyarrow", case_exported_to_pyarrow, ["numpy", "pyarrow"]),
    ("exports to nanoarrow", case_exported_to_nanoarrow, ["numpy", "nanoarrow"]),
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
