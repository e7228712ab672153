# SPDX-License-Identifier: MIT
"""What consumers of the buffer protocol, of DLPack and of the array standard rely on, for every element and many shapes.

The questions are those that NumPy asks of buffers and tensors, and that the test suite of the array standard asks of
every library: creation, exchange without a copy, life of the memory, refusals. The answers are compared with ndarrays.
"""

import ctypes
import gc
import itertools
import os
import sys
import weakref

import pytest

import ferry

if os.environ.get("FERRY_LONG") != "1":
    pytest.skip("FERRY_LONG=1 asks for it, as ./dev check --long does", allow_module_level=True)

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
# No element, one, several; ranks 0 to 5; extents of 1 in every place, whose strides mean nothing.
SHAPES = [(), (0,), (1,), (7,), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (2, 3), (2, 1, 3), (1, 0, 2), (2, 3, 1, 2), (1, 2, 1, 2, 3)]


def values(numpy, shape, dtype):
    """Returns an ndarray with small numbers, each of which every type has."""
    count = 1
    for extent in shape:
        count *= extent
    return (numpy.arange(count) % 2 if dtype == "?" else numpy.arange(count) % 100).astype(dtype).reshape(shape)


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and (one == other).all()


# -- creation --


@pytest.mark.parametrize("dtype", NUMBERS)
def test_created_arrays_are_zero(context, numpy, dtype):
    for shape in SHAPES:
        made = ferry.zeros(shape, dtype, context=context)
        assert made.shape == shape and made.ndim == len(shape) and made.size == values(numpy, shape, "i8").size
        assert made.dtype == numpy.dtype(dtype) and made.itemsize == numpy.dtype(dtype).itemsize
        assert same(numpy.asarray(made), numpy.zeros(shape, dtype))
        assert ferry.empty(shape, dtype, context=context).shape == shape


def test_a_number_is_a_shape(context):
    assert ferry.zeros(3, context=context).shape == ferry.zeros((3,), context=context).shape == ferry.zeros([3], context=context).shape == (3,)
    for shape in (-1, (2, -1), 2.0, "2", None):
        with pytest.raises((ferry.Error, TypeError, ValueError)):
            ferry.zeros(shape, context=context)
    for shape in (2**62, (2**40, 2**40), (2**63, 0)):
        with pytest.raises((ferry.Error, OverflowError, MemoryError)):
            ferry.zeros(shape, "f8", context=context)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_are_copies(context, numpy, dtype):
    """A later change of the source is not seen, whatever the order of its elements is."""
    for shape in SHAPES:
        plain = values(numpy, shape, dtype)
        sources = [plain.copy(), plain.copy(order="F"), numpy.repeat(plain.ravel(), 2)[::2].reshape(shape), plain.ravel()[::-1].copy()[::-1].reshape(shape)]
        for source in sources:
            made = ferry.array(source, context=context)
            source[...] = 1
            assert same(numpy.asarray(made), plain), (shape, source.strides)


def test_arrays_of_python_numbers(context, numpy):
    for source in (3, 2.5, True, 1j, [], [1, 2], [[1.0], [2.0]], [[], []], (1, 2), range(4), [[True, False]]):
        assert numpy.array_equal(numpy.asarray(ferry.array(source, context=context)), numpy.asarray(source)), source
        wanted = ferry.array(source, "c16", context=context)
        assert same(numpy.asarray(wanted), numpy.asarray(source, "c16")), source


# -- the buffer protocol --


@pytest.mark.parametrize("dtype", NUMBERS)
def test_accesses_export_what_they_hold(context, numpy, dtype):
    """The same fields as the buffer of an ndarray, for reading and for writing."""
    for shape in SHAPES:
        plain = values(numpy, shape, dtype)
        made = ferry.array(plain, context=context)
        with memoryview(plain) as expected, memoryview(made.read()) as given:
            for field in "format itemsize ndim shape nbytes c_contiguous contiguous".split():
                assert getattr(given, field) == getattr(expected, field), (field, shape)
            assert given.readonly and (0 in shape or given.strides == expected.strides)
            assert given.tobytes() == expected.tobytes() and same(numpy.asarray(given), plain)
        with memoryview(made.update()) as given:
            assert not given.readonly
            if given.nbytes:
                given.cast("B")[0] = 1
        assert made.size == 0 or made.tobytes()[0] == 1


def test_memory_of_many_owners_is_wrapped(context, numpy):
    """Each kind of owner is read and written through the same bytes."""
    array = __import__("array").array
    for owner in (bytearray(8), array("h", [0, 0, 0, 0]), memoryview(bytearray(8)), memoryview(bytearray(16))[8:], numpy.zeros(4, "i2"),
                  numpy.zeros((2, 2), "i2"), memoryview(bytearray(8)).cast("h", (2, 2))):
        made = ferry.wrap(owner, context=context)
        with memoryview(owner) as view:
            assert made.shape == view.shape and made.itemsize == view.itemsize
        made.fill(1)
        with made.read():
            pass
        made.close()
        assert set(memoryview(owner).cast("B")) <= {0, 1} and 1 in memoryview(owner).cast("B")


def test_memory_that_may_not_be_written(context, numpy):
    for owner in (b"12345678", memoryview(bytearray(8)).toreadonly(), numpy.broadcast_to(numpy.zeros(1), (1,))):
        with memoryview(owner) as view:
            assert view.readonly
        with pytest.raises((ferry.Error, ValueError)):  # NumPy itself refuses one
            ferry.wrap(owner, read_only=False, context=context)
        made = ferry.wrap(owner, context=context)
        assert made.is_read_only and made.size == memoryview(owner).nbytes // made.itemsize
        for write in (made.update, made.overwrite, lambda made=made: made.fill(1)):
            with pytest.raises(ferry.Error):
                with write():
                    pass


def test_memory_without_an_element_is_refused(context, numpy):
    """With a message, and not with a crash or a guess."""
    refused = [numpy.zeros(2, "M8[s]"), numpy.zeros(2, "m8[us]"), numpy.zeros(2, "U2"), numpy.zeros(2, "O"),
               numpy.zeros(2, ">i4"), numpy.zeros(2, numpy.longdouble), numpy.zeros(2, [("a", "O")]), numpy.zeros(2, [("a", ">f4")]),
               "text", None, object(), {}, iter([1])]
    for owner in refused:
        with pytest.raises((ferry.Error, TypeError, ValueError)) as told:
            ferry.wrap(owner, context=context)
        assert str(told.value), owner


def test_ctypes(context):
    """Arrays of ctypes export a buffer without strides."""
    for owner in ((ctypes.c_float * 3)(1, 2, 3), ((ctypes.c_int16 * 2) * 3)(), (ctypes.c_double * 0)()):
        made = ferry.wrap(owner, context=context)
        assert made.shape == memoryview(owner).shape and made.tobytes() == bytes(owner)
        assert ferry.array(owner, context=context).tobytes() == bytes(owner)
    numbers = (ctypes.c_int32 * 4)()
    made = ferry.wrap(numbers, context=context)
    made.fill(5)
    with made.read():
        assert list(numbers) == [5] * 4


@pytest.mark.parametrize("described", [
    [("a", "i4"), ("b", "f8")], [("a", "f8"), ("b", "u1")], [("a", "u1"), ("b", "i2", (3,)), ("c", "f4", (2, 2))],
    [("inner", [("x", "i2"), ("y", "f4")]), ("last", "?")], [("a", "c8"), ("b", "f2")],
])
@pytest.mark.parametrize("align", [False, True])
def test_records(context, numpy, described, align):
    """A record is read back as it was written, packed as NumPy's default or aligned as in C."""
    dtype = numpy.dtype(described, align=align)
    plain = numpy.frombuffer(bytes(index % 2 for index in range(5 * dtype.itemsize)), dtype).copy()
    made = ferry.array(plain, context=context)
    assert made.itemsize == dtype.itemsize
    back = numpy.asarray(made)
    assert len(back.dtype.names) >= len(dtype.names) and back.dtype.itemsize == dtype.itemsize
    # A struct in a struct is a field with a longer name, and an array of any rank is one of rank 1.
    assert all((back[name].reshape(plain[name].shape) == plain[name]).all() for name in dtype.names if dtype[name].names is None)
    other = ferry.array(back, context=context)
    assert other.dtype == made.dtype


# -- DLPack --


@pytest.mark.parametrize("dtype", NUMBERS)
def test_tensors_have_the_values(context, numpy, dtype):
    """From NumPy and back, without a copy where the host's memory is the array's own."""
    for shape in SHAPES:
        plain = values(numpy, shape, dtype)
        if dtype == "?" and tuple(map(int, numpy.__version__.split(".")[:2])) < (1, 25):
            continue  # it exports no bool
        made = ferry.from_dlpack(plain, context=context)
        assert made.shape == shape and made.dtype == plain.dtype
        assert made.tobytes() == plain.tobytes()
        if made.__dlpack_device__()[0] == 1:
            tensor = numpy.from_dlpack(made)
            assert same(tensor, plain)
            del tensor


def test_tensors_of_any_order(context, numpy):
    """Strides are the producer's, also where an extent is 1 and where they are negative or 0."""
    base = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
    for plain in (base.T, base[:, ::2], base[::-1], base[..., ::-1], base[:, :1], base[1:2, :, 1:2], base.transpose(1, 0, 2), base[0:0],
                  base[:, 1:1, ::2], numpy.broadcast_to(base[0], (2, 3, 4))):
        try:
            made = ferry.from_dlpack(plain, context=context)
        except (ferry.Error, BufferError, TypeError, ValueError) as refusal:  # of NumPy, which lends nothing read-only, or of Ferry
            assert str(refusal)
            made = ferry.from_dlpack(plain, copy=True, context=context) if plain.flags.writeable else ferry.array(plain, context=context)
        assert made.shape == plain.shape and made.tolist() == plain.tolist()


def test_tensors_keep_their_memory(context, numpy):
    """Either side may end first, in any order, and what is left keeps the values."""
    for order in itertools.permutations(range(3)):
        owner = type("Owner", (numpy.ndarray,), {})(4, "f8")
        owner[:] = 7
        gone = weakref.ref(owner)
        made = ferry.from_dlpack(owner, context=context)
        part = made[1:3]
        held = {0: owner, 1: made, 2: part}
        del owner, made, part
        for step in order:
            rest = [value for key, value in held.items() if key != step]
            del held[step]
            gc.collect()
            for value in rest:
                assert set(value.tolist()) == {7.0}
            del rest
            value = None
        del value
        gc.collect()
        assert gone() is None, order


def test_tensors_do_not_leak_references(context, numpy):
    plain = numpy.zeros(4, "f4")
    before = sys.getrefcount(plain)
    for _ in range(20):
        made = ferry.from_dlpack(plain, context=context)
        capsule = made.__dlpack__() if made.__dlpack_device__()[0] == 1 else None
        del capsule, made
        gc.collect()
    ferry.zeros(1, context=context)  # the last one may wait for the next call
    more = sys.getrefcount(plain) - before
    assert more == 0


def test_tensors_that_are_no_numbers(context, numpy):
    """NumPy lends no such tensors."""
    for source in (numpy.zeros(2, "M8[s]"), numpy.zeros(2, "U1"), [1.0], 5, None):
        with pytest.raises((BufferError, TypeError, AttributeError, ferry.Error)):
            ferry.from_dlpack(source, context=context)


def test_the_device_of_a_tensor(context, numpy):
    """A pair of integers, the same at every question, which the tensor's consumers compare."""
    made = ferry.zeros((2, 2), context=context)
    kind, index = made.__dlpack_device__()
    assert isinstance(int(kind), int) and isinstance(index, int) and index >= 0
    assert made.__dlpack_device__() == (kind, index)
    with pytest.raises((BufferError, ferry.Error)):
        made.__dlpack__(dl_device=(14, 3))
    for version in ((0, 8), (1, 0), (9, 9), None):
        capsule = made.__dlpack__(max_version=version)
        assert "dltensor" in repr(capsule)
        del capsule
        gc.collect()
    with made.update():  # no capsule holds it any more
        pass
