# SPDX-License-Identifier: MIT
"""What a capsule of DLPack holds, read as a consumer in C reads it: names, versions, flags, fields, and the one deleter's call."""

import ctypes
import gc
import random
import weakref

import pytest

import ferry

NUMBERS = {"?": (6, 8), "i1": (0, 8), "i2": (0, 16), "i4": (0, 32), "i8": (0, 64), "u1": (1, 8), "u2": (1, 16), "u4": (1, 32),
           "u8": (1, 64), "f2": (2, 16), "f4": (2, 32), "f8": (2, 64), "c8": (5, 64), "c16": (5, 128)}
READ_ONLY, IS_COPIED = 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


def function(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


name_of = function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
pointer_of = function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def read(capsule):
    """Returns what a capsule of DLPack 1.0 holds. The capsule must live as long."""
    assert name_of(capsule) == b"dltensor_versioned"
    return Versioned.from_address(pointer_of(capsule, b"dltensor_versioned"))


def drawn_shape(draw):
    return tuple(draw.choice((0, 1, 1, 2, 3, 5)) for _ in range(draw.randint(0, 4)))


@pytest.fixture
def host():
    return ferry.Context("host")


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_fields_of_a_tensor(host, dtype):
    draw = random.Random(dtype)
    for shape in [(), (0,), (1,), (2, 3), *(drawn_shape(draw) for _ in range(20))]:
        made = ferry.zeros(shape, dtype, context=host)
        capsule = made.__dlpack__(max_version=(1, 0))
        held = read(capsule)
        tensor = held.tensor
        assert held.major == 1 and held.flags & READ_ONLY == 0 and held.deleter
        assert (tensor.code, tensor.bits, tensor.lanes) == (*NUMBERS[dtype], 1)
        assert (tensor.device_type, tensor.device_id) == made.__dlpack_device__() == (1, 0)
        assert tensor.ndim == len(shape) and tuple(tensor.shape[:len(shape)]) == shape
        if made.size:
            assert tensor.data
            packed, wanted = 1, []
            for extent in reversed(shape):
                wanted.insert(0, packed)
                packed *= extent
            given = tensor.strides[:len(shape)] if tensor.strides else wanted
            assert all(extent == 1 or one == other for extent, one, other in zip(shape, given, wanted, strict=True))
            at = tensor.data + tensor.byte_offset
            assert ctypes.string_at(at, made.nbytes) == bytes(made.nbytes)
        del capsule


def test_names_follow_the_version(host):
    made = ferry.zeros(3, context=host)
    for version, name in ((None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned"), ((1, 1), b"dltensor_versioned"),
                          ((2, 0), b"dltensor_versioned")):
        capsule = made.__dlpack__(max_version=version)
        assert name_of(capsule) == name
        del capsule


def test_a_tensor_of_a_read_is_read_only(host):
    made = ferry.zeros(3, context=host)
    access = made.read(raw=True)
    with pytest.raises(BufferError):  # older tensors have no flag
        access.__dlpack__()
    capsule = access.__dlpack__(max_version=(1, 0))
    del access  # the tensor keeps it
    assert read(capsule).flags & READ_ONLY
    with made.read():  # others may read meanwhile, and none may write
        pass
    with pytest.raises(ferry.BusyError), made.update():
        pass
    del capsule
    with made.update():
        pass


def test_a_capsule_that_nobody_takes_ends_its_use(host):
    for version in (None, (1, 0)):
        made = ferry.zeros(3, context=host)
        capsule = made.__dlpack__(max_version=version)
        with pytest.raises(BufferError), made.read():
            pass
        del capsule
        with made.update():
            pass


def test_a_capsule_is_taken_once(host, numpy):
    class Once:
        """A producer that hands out the same capsule again."""

        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    for version, used in ((None, b"used_dltensor"), ((1, 0), b"used_dltensor_versioned")):
        made = ferry.array(numpy.arange(3, dtype="i4"), context=host)
        source = Once(made.__dlpack__(max_version=version))
        taken = ferry.from_dlpack(source, context=ferry.Context("host"))
        assert name_of(source.capsule) == used and taken.tolist() == [0, 1, 2]
        with pytest.raises((ferry.Error, BufferError, TypeError, ValueError)):
            ferry.from_dlpack(source, context=host)
        del source.capsule  # a capsule that was used frees nothing
        assert taken.tolist() == [0, 1, 2]
        with pytest.raises(ferry.BusyError), made.read():
            pass
        taken.close()
        del taken
        with made.read():
            pass


def test_a_consumer_ends_the_tensor_when_it_likes(host):
    """It renames the capsule, lets it go, and calls the deleter after the array and the context have ended."""
    made = ferry.array([1.0, 2.0], "f8", context=host)
    capsule = made.__dlpack__(max_version=(1, 0))
    address = pointer_of(capsule, b"dltensor_versioned")
    rename = function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    used = b"used_dltensor_versioned"
    assert rename(capsule, used) == 0
    del capsule
    gone = weakref.ref(made)
    del made
    gc.collect()
    held = Versioned.from_address(address)
    values = (ctypes.c_double * 2).from_address(held.tensor.data + held.tensor.byte_offset)
    assert list(values) == [1.0, 2.0] and gone() is None
    DELETER(held.deleter)(address)


def test_copies_are_the_consumers_own(host, numpy):
    made = ferry.array([1.0, 2.0], context=host)
    shared = made.__dlpack__(max_version=(1, 0), copy=False)
    address = read(shared).tensor.data
    assert not read(shared).flags & IS_COPIED
    del shared
    own = made.__dlpack__(max_version=(1, 0), copy=True)
    held = read(own)
    assert held.tensor.data != address and held.flags & IS_COPIED and not held.flags & READ_ONLY
    with made.update() as values:  # the copy leaves the array free
        values[...] = 0
    assert ctypes.string_at(held.tensor.data + held.tensor.byte_offset, 8) != bytes(8)


def test_devices_and_keywords(host):
    made = ferry.zeros(3, context=host)
    assert made.__dlpack__(dl_device=(1, 0))
    for device in ((2, 0), (14, 3), (1, 9)):
        with pytest.raises(BufferError):
            made.__dlpack__(dl_device=device)
    for wrong in ({"dl_device": 1}, {"max_version": 3}, {"unknown": 1}):
        with pytest.raises(TypeError):
            made.__dlpack__(**wrong)
    with made.update():  # nothing that was refused stays open
        pass


@pytest.mark.parametrize("dtype", NUMBERS)
def test_rounds(host, numpy, dtype):
    """From an ndarray to an array, and to an ndarray of the same memory."""
    draw = random.Random(dtype)
    for _ in range(15):
        shape = drawn_shape(draw)
        plain = numpy.zeros(shape, dtype)
        plain[...] = 1
        if dtype == "?" and tuple(map(int, numpy.__version__.split(".")[:2])) < (1, 25):
            continue  # it exports no bool
        made = ferry.from_dlpack(plain, context=host)
        back = numpy.from_dlpack(made)
        assert back.shape == plain.shape and back.dtype == plain.dtype and (back == plain).all()
        if plain.size:
            assert back.ctypes.data == plain.ctypes.data
            plain[...] = 0
            assert not back.any()
        del back
        apart = ferry.from_dlpack(plain, copy=True, context=host)
        plain[...] = 1
        assert not apart.size or not numpy.asarray(apart).any()


def test_strided_memory_needs_a_copy(host, numpy):
    plain = numpy.arange(12, dtype="i2")[::2]
    assert ferry.from_dlpack(plain, context=host).tolist() == plain.tolist()
    with pytest.raises(ferry.UnsupportedError):
        ferry.from_dlpack(plain, copy=False, context=host)
    part = numpy.arange(12, dtype="i2")[4:]
    made = ferry.from_dlpack(part, copy=False, context=host)
    with made.read() as values:
        assert values.ctypes.data == part.ctypes.data


def test_devices_of_what_is_taken(emulated, numpy):
    plain = numpy.arange(4, dtype="f4")
    for device in (0, 1, 2):
        assert ferry.from_dlpack(plain, device=device, context=emulated).tolist() == plain.tolist()
    with pytest.raises((ferry.Error, ValueError, IndexError)):
        ferry.from_dlpack(plain, device=9, context=emulated)


class Exporter:
    """A tensor of bfloat16 of another library, which NumPy does not know."""

    def __init__(self, bits, shape, code=4, flags=0):
        self.bits = (ctypes.c_uint16 * len(bits))(*bits)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.ended = 0
        self.deleter = DELETER(self.end)
        address = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.held = Versioned(1, 0, None, address, flags, Tensor(ctypes.addressof(self.bits), 1, 0, len(shape), code, 16, 1, self.shape, None, 0))

    def end(self, unused):
        self.ended += 1

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        new = function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.held), b"dltensor_versioned", None)


class Tensorlike(Exporter):
    """One that refuses to become an ndarray, as a tensor of PyTorch on a device."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("unsupported ScalarType BFloat16")


@pytest.mark.parametrize("kind", [Exporter, Tensorlike])
@pytest.mark.parametrize("flags", [0, READ_ONLY])
def test_array_copies_tensors_of_bfloat16(host, numpy, kind, flags):
    source = kind([0x3F80, 0x4000, 0xC040, 0x3FC0], (2, 2), flags=flags)
    made = ferry.array(source, context=host, name="brain")
    assert source.ended == 1 and made.dtype == "bfloat16" and made.shape == (2, 2) and not made.is_read_only
    assert made.view("u2").tolist() == [[0x3F80, 0x4000], [0xC040, 0x3FC0]] and made.name == "brain"
    made.fill(1)
    assert list(source.bits) == [0x3F80, 0x4000, 0xC040, 0x3FC0]
    wide = ferry.array(kind([0x3F80, 0xC040], (2,), flags=flags), "f4", context=host, memory="pinned")
    assert wide.dtype == "f4" and wide.tolist() == [1, -3]
    shared = ferry.from_dlpack(source, context=host)
    assert shared.is_read_only == bool(flags)
    shared.close()
    assert source.ended == 2


def test_array_refuses_what_is_no_tensor(host, numpy):
    with pytest.raises(ferry.UnsupportedError):
        ferry.array(Exporter([1], (1,), code=9), context=host)

    class Nothing:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("no")

    with pytest.raises(ferry.WrongTypeError, match="no"):
        ferry.array(Nothing(), context=host)
