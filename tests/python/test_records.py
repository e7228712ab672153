# SPDX-License-Identifier: MIT
"""Structured dtypes: every one that an array takes can be read back, whatever its layout."""

import ctypes
import json
import pickle
import random

import pytest

import ferry
from drawn import drawn_dtype

PACKED = {
    "pair": [("n", "<i4"), ("v", "<f8")],
    "pair with its number last": [("v", "<f8"), ("n", "<i4")],
    "triangle": [("normal", "<f4", 3), ("v", "<f4", (3, 3)), ("attr", "<u2")],
    "point": [("X", "<i4"), ("Y", "<i4"), ("Z", "<i4"), ("intensity", "<u2"), ("bits", "u1"), ("cls", "u1"), ("angle", "i1"),
              ("user", "u1"), ("source", "<u2"), ("gps", "<f8")],
    "complex": [("a", "<f4"), ("b", "<c8"), ("c", "<f8")],
}


def is_ordered(dtype):
    """True when NumPy has a format for its layout."""
    offsets = [dtype.fields[name][1] for name in dtype.names]
    return offsets == sorted(offsets)


def must_be_read(numpy, context, dtype, seed):
    if dtype.hasobject:
        x = numpy.zeros(4, dtype)
    else:
        x = numpy.frombuffer(random.Random(seed).randbytes(4 * dtype.itemsize), dtype).copy()
    a = ferry.array(x, context=context)
    assert a.tobytes() == x.tobytes() and numpy.asarray(a).tobytes() == x.tobytes()
    assert a.dtype == dtype and a.dtype.itemsize == dtype.itemsize
    with a.read() as h:
        assert h.tobytes() == x.tobytes() and h.dtype == a.dtype.dtype
    assert h.dtype.itemsize == dtype.itemsize
    # What NumPy got back is the same element again.
    assert ferry.element(h.dtype) is a.dtype and ferry.element(a.dtype.dtype) is a.dtype
    assert ferry.element(a.dtype.format) is a.dtype
    # So is the format of its buffer, where NumPy has one. That leaves out padding of nested structs, and is refused then.
    try:
        assert ferry._ferry.element_of(x) is a.dtype, dtype
    except ferry.Error:
        assert not all(kind.subdtype is None and kind.names is None for kind, *_ in dtype.fields.values()) or not is_ordered(dtype), dtype
    b = ferry.zeros(4, dtype, context=context)
    b.copy_from(x)
    into = numpy.zeros_like(x)
    b.copy_to(into)
    assert into.tobytes() == x.tobytes()
    wrapped = ferry.wrap(x, context=context)
    assert numpy.asarray(wrapped).tobytes() == x.tobytes()
    assert pickle.loads(pickle.dumps(a)).dtype == a.dtype
    with a.update(device=1):
        pass
    assert a.tobytes() == x.tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_random_dtypes(numpy, seed):
    context, choose = ferry.Context("emulated:1"), random.Random(seed)
    for number in range(40):
        dtype, good = drawn_dtype(numpy, choose)
        try:
            must_be_read(numpy, context, dtype, number)
        except ferry.Error:
            assert not good, dtype
        else:
            assert good, dtype


@pytest.mark.parametrize("name", PACKED)
def test_packed_records(numpy, context, tmp_path, name):
    """NumPy's default layout, read back, and the same type as the packed struct of C that a type file describes."""
    dtype = numpy.dtype(PACKED[name])
    must_be_read(numpy, context, dtype, 1)
    names = {"int8": "int8_t", "uint8": "uint8_t", "uint16": "uint16_t", "int32": "int32_t", "float32": "float", "float64": "double",
             "complex64": "float _Complex"}
    fields = []
    for field in dtype.names:
        kind, offset = dtype.fields[field]
        fields.append({"name": field, "type": names[kind.base.name], "offset": offset,
                       **({"count": list(kind.shape)} if kind.shape else {})})
    described = tmp_path / "record.json"
    described.write_text(json.dumps({"ferry": 1, "prefix": "records", "name": "record", "c_type": "struct record", "header": "record_buffer.h",
                                     "include": ["record.h"], "kind": "struct", "bytes": dtype.itemsize, "align": 1, "fields": fields}))
    found = ferry.element(described)
    assert found == dtype and found.alignment == ferry.element(dtype).alignment == 1
    a = ferry.zeros(2, found, context=context)
    a.copy_from(numpy.ones(2, dtype))
    assert numpy.asarray(a).tobytes() == numpy.ones(2, dtype).tobytes()
    natural = ferry.element(numpy.dtype(PACKED[name], align=True))
    assert natural != found and natural.alignment == max(kind.alignment for _, kind, _, _ in natural.fields)


def test_overlapping_fields(numpy, context):
    for layout in ({"names": ["i", "f"], "formats": ["<i4", "<f4"], "offsets": [0, 0]}, {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2]}):
        for door in (ferry.array, ferry.wrap):
            with pytest.raises(ferry.UnsupportedError, match="overlap"):
                door(numpy.zeros(2, layout), context=context)


def test_names_that_no_format_has(numpy, context):
    for name in ("a:b", "nul\0", "line\n", "\ud800", "x" * 300):
        with pytest.raises(ferry.Error):
            ferry.array(numpy.zeros(2, [(name, "i4")]), context=context)


def test_structs_of_ctypes(context, numpy):
    class Inner(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int8), ("b", ctypes.c_double)]

    class Packed(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("a", ctypes.c_int8), ("b", ctypes.c_double), ("c", ctypes.c_int16 * 3)]

    memory = (Inner * 3)((1, 2.0))
    a = ferry.array(memory, context=context)
    assert a.shape == (3,) and a.dtype.itemsize == ctypes.sizeof(Inner) and numpy.asarray(a).tobytes() == bytes(memory)
    # ctypes has no format for a packed struct: it names plain bytes.
    memory = (Packed * 3)((1, 2.0, (3, 4, 5)))
    with pytest.raises(ferry.UnsupportedError):
        ferry.wrap(memory, context=context)
    a = ferry.wrap(memory, numpy.dtype([("a", "i1"), ("b", "f8"), ("c", "i2", 3)]), context=context)
    assert a.shape == (3,) and numpy.asarray(a)["b"].tolist() == [2, 0, 0]


def test_values_that_fields_cannot_hold(numpy):
    """As for an array of the field's own type. NumPy itself would cut them."""
    dtype = numpy.dtype([("a", "i4"), ("b", "u1", 4), ("c", "f4")])
    a = ferry.array(numpy.zeros(2, dtype), context=ferry.Context("host"))
    good = (7, [1, 2, 3, 255], 2.5)
    a.fill(good)
    assert a.numpy()[1]["b"].tolist() == [1, 2, 3, 255] and a.numpy()[1]["c"] == 2.5
    for wrong in ((1 << 40, *good[1:]), (1.5, *good[1:]), (7, [1, 2, 3, 300], 2.5), (7, [1, 2, 3, -1], 2.5), (7, good[1], "x"),
                  good[:2], (*good, 1)):
        with pytest.raises(ferry.WrongTypeError, match="is no value of"):
            a.fill(wrong)
    a.fill((8, 9, 1))
    assert a.numpy()[0].tolist()[0] == 8 and a.numpy()[0]["b"].tolist() == [9] * 4
    for again in (a.numpy()[1], a.numpy()[1].item()):
        a.fill(again)
