# SPDX-License-Identifier: MIT
"""The buffers of accesses, asked for as consumers in C ask: with each set of flags, and field by field."""

import ctypes
import gc
import itertools
import math
import random

import pytest

import ferry

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT = 0x20 | STRIDES, 0x40 | STRIDES, 0x80 | STRIDES, 0x100 | STRIDES
NUMBERS = {"?": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "l", "u8": "L", "f2": "e", "f4": "f", "f8": "d",
           "c8": "Zf", "c16": "Zd"}


class Buffer(ctypes.Structure):
    """Py_buffer, which is part of the stable ABI from CPython 3.11 on."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p)]


get = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
release = ctypes.PYFUNCTYPE(None, ctypes.POINTER(Buffer))(("PyBuffer_Release", ctypes.pythonapi))


@pytest.fixture
def host():
    return ferry.Context("host")


def contiguous(view, order):
    return {C_CONTIGUOUS: view.c_contiguous, F_CONTIGUOUS: view.f_contiguous, ANY_CONTIGUOUS: view.contiguous}.get(order, True)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (1, 4), (4, 1), (2, 0, 3), (2, 1, 3)])
def test_every_set_of_flags(host, shape):
    """What was not asked for is NULL; what cannot be given as asked for is a BufferError."""
    made = ferry.zeros(shape, "i4", context=host)
    for mode, layout, form, writable in itertools.product(
            ("read", "update"), (SIMPLE, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT), (0, FORMAT), (0, WRITABLE)):
        with getattr(made, mode)(raw=True) as access:
            with memoryview(access) as view:
                possible = contiguous(view, layout) and not (writable and mode == "read")
            buffer = Buffer()
            if not possible:
                with pytest.raises(BufferError):
                    get(access, buffer, layout | form | writable)
                assert not buffer.obj
                continue
            get(access, buffer, layout | form | writable)
            assert buffer.len == made.nbytes and buffer.itemsize == 4 and bool(buffer.readonly) == (mode == "read")
            assert (buffer.format == b"i") if form else buffer.format is None
            assert not buffer.suboffsets and (buffer.buf or not made.size)
            if layout & ND and shape:
                assert buffer.ndim == len(shape) and tuple(buffer.shape[:len(shape)]) == shape
            if not layout & ND:
                assert not buffer.shape
            if layout & STRIDES != STRIDES:
                assert not buffer.strides
            release(buffer)
            assert not buffer.obj


@pytest.mark.parametrize("dtype", NUMBERS)
def test_formats(host, dtype):
    made = ferry.zeros((2, 3), dtype, context=host)
    with memoryview(made.read()) as view:
        assert view.format == NUMBERS[dtype] == made.dtype.format and view.itemsize == made.itemsize
        assert view.strides == (3 * made.itemsize, made.itemsize) and view.readonly


def test_formats_of_nested_records(host, numpy):
    inner = numpy.dtype([("x", "i2"), ("y", "f4")], align=True)
    outer = numpy.dtype([("one", inner), ("many", "u1", (3,)), ("grid", "f8", (2, 2))], align=True)
    made = ferry.array(numpy.zeros(3, outer), context=host)
    with made.read(raw=True) as access, memoryview(access) as view:
        assert view.itemsize == outer.itemsize and view.shape == (3,)
        again = numpy.asarray(view)
        # The fields of an inner record are fields of the outer one, and each array has one dimension.
        assert [again.dtype.fields[name][1] for name in again.dtype.names] == [0, 4, 8, 16]
        assert [again.dtype[name] for name in again.dtype.names] == ["i2", "f4", numpy.dtype(("u1", 3)), numpy.dtype(("f8", 4))]
        del again


def test_memoryviews_of_nested_records(host, numpy):
    """NumPy's format has no padding at the end of the inner record, after which every reader finds the outer fields elsewhere."""
    inner = numpy.dtype([("a", "f8"), ("b", "i1")], align=True)
    for outer in (numpy.dtype([("s", inner), ("c", "i1")], align=True), numpy.dtype([("s", inner), ("c", "f8")], align=True),
                  numpy.dtype([("c", "i1"), ("s", inner), ("d", "i1"), ("e", inner)])):
        values = numpy.zeros(3, outer)
        values["c"] = [1, 2, 3]
        values["s"]["b"] = [4, 5, 6]
        expected = ferry.array(values, context=host).tolist()
        assert [record[outer.names.index("c") + (outer.names[0] == "s")] for record in expected] == [1, 2, 3]
        for view in (memoryview(values), memoryview(memoryview(values)), memoryview(values)[:]):
            assert ferry.array(view, context=host).tolist() == expected == ferry.wrap(view, context=host).tolist()
        assert ferry.array(memoryview(values)[::-1], context=host).tolist() == expected[::-1]
        copied = ferry.zeros(3, outer, context=host)
        copied.copy_from(memoryview(values))
        target = numpy.zeros(3, outer)
        copied.copy_to(memoryview(target))
        assert copied.tolist() == expected and target.tolist() == values.tolist()
        assert ferry.array(memoryview(values).cast("B"), context=host).nbytes == values.nbytes


def test_columns_first(host, numpy):
    """A transposed array is contiguous for Fortran alone."""
    made = ferry.from_dlpack(numpy.arange(6, dtype="i4").reshape(2, 3).T, context=host)
    with made.read(raw=True) as access:
        with memoryview(access) as view:
            assert view.f_contiguous and not view.c_contiguous and view.contiguous and view.strides == (4, 12)
            assert numpy.asarray(view).tolist() == [[0, 3], [1, 4], [2, 5]]
        for flags in (C_CONTIGUOUS, ND, SIMPLE):
            with pytest.raises(BufferError):
                get(access, Buffer(), flags)
        for flags in (F_CONTIGUOUS, ANY_CONTIGUOUS, STRIDES):
            buffer = Buffer()
            get(access, buffer, flags)
            assert tuple(buffer.strides[:2]) == (4, 12)
            release(buffer)


def test_an_array_itself_has_no_buffer(host):
    with pytest.raises(TypeError):
        memoryview(ferry.zeros(3, context=host))


def test_released_views(host):
    made = ferry.zeros(4, "u1", context=host)
    view = memoryview(made.read())
    with pytest.raises(ferry.BusyError), made.update():
        pass
    part = view[1:3]
    assert hash(view) == hash(bytes(4)) and bytes(part) == bytes(2)
    with pytest.raises(TypeError):
        view[0] = 1
    view.release()
    with pytest.raises(ferry.BusyError), made.update():  # the slice keeps the buffer
        pass
    part.release()
    with pytest.raises(ValueError):
        view.tobytes()
    del view, part
    gc.collect()
    with made.update() as values:
        writable = memoryview(values)
        with pytest.raises(ValueError):
            hash(writable)
        del writable


def test_owners_of_wrapped_memory_cannot_be_resized(host):
    owner = bytearray(8)
    made = ferry.wrap(owner, context=host)
    with pytest.raises(BufferError):
        owner.extend(b"more")
    made.close()
    owner.extend(b"more")
    assert len(owner) == 12


@pytest.mark.parametrize("dtype", NUMBERS)
def test_creation_of_drawn_shapes(host, numpy, dtype):
    """As the array standard asks of empty, zeros and asarray: the shape, the type, the values, and memory of their own."""
    draw = random.Random(dtype)
    for _ in range(20):
        shape = tuple(draw.choice((0, 1, 2, 3, 4)) for _ in range(draw.randint(0, 5)))
        for create in (ferry.zeros, ferry.empty):
            made = create(shape, dtype, context=host)
            assert made.shape == shape and made.ndim == len(shape) and made.dtype == numpy.dtype(dtype)
            assert made.size == math.prod(shape) and made.nbytes == made.size * made.itemsize
            assert made.tobytes() == bytes(made.nbytes)
        plain = numpy.frombuffer(draw.randbytes(made.nbytes), "u1") % 2
        plain = plain.astype("u1").tobytes()
        plain = numpy.frombuffer(bytearray(plain), dtype).reshape(shape) if made.size else numpy.zeros(shape, dtype)
        copied = ferry.array(plain, context=host)
        assert copied.shape == shape and copied.dtype == plain.dtype and copied.tobytes() == plain.tobytes()
        again = ferry.array(copied, context=host)
        copied.fill(0)
        assert again.tobytes() == plain.tobytes()  # a copy of a copy does not follow it
        made.fill(1)
        assert (numpy.asarray(made) == numpy.ones(shape, dtype)).all()
