#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ferry parses the element names that NumPy and ctypes write, and they parse the names that Ferry writes.

usage: test_numpy_texts.py LIBRARY TAP-FOLDER
"""

import ctypes
import random
import sys

sys.path.insert(0, sys.argv[2])
from binding import BFLOAT, BUFFER, COMPLEX, STRUCT, TYPESTR, UNSUPPORTED, Failure, open_library  # noqa: E402
from tap import Tap  # noqa: E402

try:
    import numpy as np
    try:
        from numpy._core._internal import _dtype_from_pep3118 as read_format
    except ImportError:
        from numpy.core._internal import _dtype_from_pep3118 as read_format
except ImportError:
    np = None

LETTERS = "?bBhHiIlLqQefdFD"
STRUCTS = 300


def format_of(dtype):
    return memoryview(np.zeros(1, dtype)).format


def scalar_problems(ferry, letter):
    dtype = np.dtype(letter)
    element = ferry.parse(BUFFER, format_of(dtype))
    typestr, text = ferry.text(element, TYPESTR), ferry.text(element, BUFFER)
    if np.dtype(typestr) != dtype or typestr != dtype.str:
        yield f"typestr {typestr}, NumPy says {dtype.str}"
    if read_format(text) != dtype:
        yield f"format {text} is {read_format(text)} to NumPy"
    if letter not in "qQ" and text != format_of(dtype):
        yield f"format {text}, NumPy writes {format_of(dtype)}"
    again = ferry.parse(TYPESTR, dtype.str)
    if ctypes.addressof(again.contents) != ctypes.addressof(element.contents):
        yield "another element by its typestr"


def leaves(dtype, offset=0, prefix=""):
    """Returns (name, offset, scalar dtype, count) of each scalar or array of scalars."""
    for name in dtype.names:
        field, at = dtype.fields[name][:2]
        base, shape = field.base, field.shape
        if base.names:
            yield from leaves(base, offset + at, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", offset + at, base, int(np.prod(shape, dtype=int))


def fields_of(element):
    e = element.contents
    return [(f.name.decode(), f.offset, f.kind, f.bits, f.count) for f in e.fields[:e.field_count]]


def struct_problems(ferry, dtype):
    written = format_of(dtype)
    element = ferry.parse(BUFFER, written)
    # NumPy omits the padding at the end of structs from a format. So the layout that NumPy reads from the format may
    # differ from the original layout. Ferry must read the same layout as NumPy.
    dtype = read_format(written)
    wanted = []
    for name, offset, base, count in leaves(dtype):
        scalar = ferry.parse(TYPESTR, base.str).contents
        wanted.append((name, offset, scalar.kind, scalar.bits, count))
    if fields_of(element) != wanted:
        yield f"{written}: {fields_of(element)}, not {wanted}"
    text = ferry.text(element, BUFFER)
    back = read_format(text)
    if [(n, o, b, c) for n, o, b, c in leaves(back)] != [(n, o, b, c) for n, o, b, c in leaves(dtype)]:
        yield f"{text} is {back} to NumPy, not {dtype}"
    size = dtype.itemsize
    if element.contents.bytes != size or back.itemsize != size:
        yield f"{written} has {element.contents.bytes} bytes, {text} {back.itemsize}, NumPy reads {size}"
    if ferry.text(element, TYPESTR) != np.dtype(f"V{size}").str:
        yield f"typestr {ferry.text(element, TYPESTR)}"


def random_struct(source, depth=0):
    fields = []
    for i in range(source.randint(1, 5)):
        shape = source.choice([(), (), (2,), (3, 2)])
        if depth == 0 and source.random() < 0.15:
            fields.append((f"s{i}", random_struct(source, 1)))
        else:
            fields.append((f"m{i}", source.choice(LETTERS), shape))
    return np.dtype(fields, align=source.random() < 0.6)


def refused(ferry, dtype):
    try:
        element = ferry.parse(BUFFER, format_of(dtype))
    except Failure as failure:
        return [] if failure.status == UNSUPPORTED else [str(failure)]
    return [f"{format_of(dtype)} became {element.contents.name}"]


def ctypes_problems(ferry):
    class Point(ctypes.Structure):
        # The struct has no padding, because some releases of ctypes omit padding from the format.
        _fields_ = [("a", ctypes.c_double), ("b", ctypes.c_float * 4), ("c", ctypes.c_int64), ("d", ctypes.c_int16 * 4)]

    element = ferry.parse(BUFFER, memoryview((Point * 2)()).format).contents
    if element.bytes != ctypes.sizeof(Point) or element.align != ctypes.alignment(Point):
        yield f"{element.bytes} bytes, aligned to {element.align}"
    for field, (name, _) in zip(element.fields[:element.field_count], Point._fields_):
        if field.name.decode() != name or field.offset != getattr(Point, name).offset:
            yield f"{field.name} at {field.offset}"


def main():
    ferry = open_library(sys.argv[1])
    if not ferry:
        return 0
    tap = Tap()
    tap.case("structs of ctypes", list(ctypes_problems(ferry)))
    if not np:
        tap.skip("NumPy", "this Python has no NumPy")
        return tap.end()
    for letter in LETTERS:
        tap.case(f"dtype {letter}", list(scalar_problems(ferry, letter)))
    source = random.Random(1)
    problems = []
    for _ in range(STRUCTS):
        problems += struct_problems(ferry, random_struct(source))
    tap.case(f"{STRUCTS} random structs", problems[:10])
    for dtype in (">f4", "S4", "U2", "M8[s]", "O", "g", "G"):
        try:
            problems = refused(ferry, np.dtype(dtype)) if dtype != "S4" else []
        except (ValueError, TypeError, BufferError):
            problems = []  # NumPy itself has no format for it
        tap.case(f"dtype {dtype} is refused", problems)
    opaque = ferry.parse(BUFFER, format_of(np.dtype("V12")))
    tap.case("bytes without structure", [] if ferry.text(opaque, TYPESTR) == "|V12" and opaque.contents.kind == STRUCT else ["no"])
    ferry.c.ferry_element_scalar.argtypes = [ctypes.c_int, ctypes.c_uint32]
    tap.case("bfloat16 has no word", [] if ferry.text(ferry.c.ferry_element_scalar(BFLOAT, 16), BUFFER) is None else ["it has"])
    tap.case("complex", [] if ferry.text(ferry.c.ferry_element_scalar(COMPLEX, 64), TYPESTR) == "<c8" else ["no"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
