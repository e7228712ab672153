# SPDX-License-Identifier: MIT
"""DLPack, Arrow, the buffer protocol: what goes out, what comes in, and who keeps what alive."""

import ctypes
import gc
import os
import threading
import time
import weakref

import pytest

import ferry


def takes_flags(numpy):
    """True for a NumPy that takes and makes tensors of DLPack 1.0."""
    return numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"


def test_export_is_exclusive_until_it_ends(context, numpy):
    a = ferry.array(numpy.arange(6.0).reshape(2, 3), context=context)
    x = numpy.from_dlpack(a)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ferry.BusyError, match="test_exchange.py"):
        a.tolist()
    x = None
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_export_outlives_everything(numpy):
    own = ferry.Context("emulated:1")
    a = ferry.array(numpy.arange(1000.0), context=own)
    x = numpy.from_dlpack(a)
    del a, own
    gc.collect()
    assert x.sum() == 499500
    ended = threading.Thread(target=lambda held: held.clear(), args=([x],))
    del x
    ended.start()
    ended.join()


def test_read_exports_are_shared_and_read_only(context, numpy):
    a = ferry.array(numpy.arange(3.0), context=context)
    if not takes_flags(numpy):
        pytest.skip("this NumPy asks for tensors without flags")
    x = numpy.from_dlpack(a.read())
    assert not x.flags.writeable and a.tolist() == [0, 1, 2]
    with pytest.raises(ferry.BusyError):
        a.fill(0)
    with pytest.raises(BufferError):
        a.read().__dlpack__()
    del x
    a.fill(1)


def test_capsules_that_are_not_taken(context):
    a = ferry.array(bytes(8), context=context)
    for version in (None, (0, 8), (1, 0), (1, 2)):
        capsule = a.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None and version[0] >= 1)
        with pytest.raises(ferry.BusyError):
            a.fill(1)
        del capsule
        a.fill(1)


def test_what_consumers_ask_for(context, numpy):
    a = ferry.array(numpy.arange(3.0), context=context)
    assert a.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        a.__dlpack__(dl_device=(10, 0))
    copied = numpy.from_dlpack(_Asking(a, copy=True))
    a.fill(9)
    assert copied.tolist() == [0, 1, 2]
    a.copy_from(copied)
    lent = a.read()
    own = numpy.from_dlpack(_Asking(lent, copy=True))
    assert own.tolist() == [0, 1, 2] and not lent.is_open
    with a.update(device=1):
        pass
    cuda = context.place(1).kind == "cuda"
    assert a.__dlpack_device__() == ((2, 0) if cuda else (1, 0))
    for stream in (None, 1, 2, -1) if cuda else ():
        with a.update(device=1):
            pass
        capsule = a.__dlpack__(stream=stream, max_version=(1, 0))
        assert "dltensor_versioned" in repr(capsule)
        del capsule
    if cuda:
        with a.update(device=1):
            pass
        with pytest.raises(BufferError):
            a.__dlpack__(stream=0)
        with pytest.raises(BufferError):
            a.__dlpack__(dl_device=(1, 0), copy=False)
        b = ferry.from_dlpack(a, context=context)
        assert b.places == (1,) or b.places == (0, 1)
        del b
    assert numpy.from_dlpack(_Asking(a, dl_device=(1, 0))).tolist() == [0, 1, 2]


def test_streams_that_are_none(context):
    """The array standard: host memory has no streams, those of CUDA are integers from -1 on, without 0."""
    a = ferry.array(b"1234", context=context)
    for wrong, error in ((1, BufferError), (-1, BufferError), (0, BufferError), ("x", TypeError), (1.5, TypeError)):
        for lender in (a, a.read(), a.update()):
            with pytest.raises(error, match="stream is"):
                lender.__dlpack__(stream=wrong, max_version=(1, 0))
    if context.place(1).kind != "cuda":
        return
    with a.update(device=1) as d:
        for wrong, error in ((0, BufferError), (-3, ValueError), (1 << 64, ValueError), ("x", TypeError), (1.5, TypeError)):
            with pytest.raises(error, match="stream"):
                d.__dlpack__(stream=wrong, max_version=(1, 0))
    for wrong, error in ((0, BufferError), (-3, ValueError), (1 << 64, ValueError), ("x", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match="stream"):
            a.__dlpack__(stream=wrong, max_version=(1, 0))
    assert a.places == (1,) and a.tolist() == [49, 50, 51, 52]


class _Asking:
    """A producer that asks another one on its own terms."""

    def __init__(self, array, **terms):
        self.array, self.terms = array, terms

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **unused):
        return self.array.__dlpack__(**{"max_version": unused.get("max_version"), **self.terms})


def test_import_shares_memory(context, numpy):
    values = numpy.arange(6.0)
    b = ferry.from_dlpack(values, context=context)
    b.fill(3)
    assert values.tolist() == [3] * 6
    assert ferry.from_dlpack(b, read_only=True, context=ferry.Context("host")).is_read_only


def test_import_of_read_only_memory(context, numpy):
    values = numpy.arange(6.0)
    values.flags.writeable = False
    if not takes_flags(numpy):
        with pytest.raises(BufferError):
            ferry.from_dlpack(values, context=context)
        return
    fixed = ferry.from_dlpack(values, context=context)
    assert fixed.is_read_only
    with pytest.raises(ValueError):
        fixed.fill(1)
    assert ferry.from_dlpack(values, copy=True, context=context).is_read_only is False


def test_import_of_strided_memory(context, numpy):
    values = numpy.arange(24.0).reshape(4, 6)
    parts = [values.T, values[:, ::2], values[::-1]]
    if takes_flags(numpy):  # broadcast arrays are read-only
        parts.append(numpy.broadcast_to(values[0], (3, 6)))
    for part in parts:
        b = ferry.from_dlpack(part, context=context)
        assert (numpy.asarray(b) == part).all()
    with pytest.raises(ferry.UnsupportedError):
        ferry.from_dlpack(values[:, ::2], copy=False, context=context)


def test_old_producers(context, numpy):
    class Old:
        def __init__(self, values):
            self.values = values

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, stream=None):
            return self.values.__dlpack__()

    values = numpy.arange(3.0)
    b = ferry.from_dlpack(Old(values), context=context)
    b.fill(1)
    assert values.tolist() == [1, 1, 1]


def test_bad_producers(context, numpy):
    class Bad:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **unused):
            return self.capsule

    for wrong in (None, 3, "capsule"):
        with pytest.raises(ValueError):
            ferry.from_dlpack(Bad(wrong), context=context)
    once = numpy.arange(3.0).__dlpack__()
    ferry.from_dlpack(Bad(once), context=context)
    with pytest.raises(ValueError):
        ferry.from_dlpack(Bad(once), context=context)
    with pytest.raises(AttributeError):
        ferry.from_dlpack([1, 2], context=context)


def test_tensors_of_another_version(context):
    class Tensor(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("rest", ctypes.c_uint64 * 9)]

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    tensor = Tensor(major=2)

    class Future:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **unused):
            return new(ctypes.addressof(tensor), b"dltensor_versioned", None)

    with pytest.raises(NotImplementedError):
        ferry.from_dlpack(Future(), context=context)


def test_buffer_protocol(context):
    a = ferry.array(bytes(range(12)), context=context).reshape(3, 4)
    with memoryview(a.read()) as view:
        assert view.readonly and view.shape == (3, 4) and view.tolist() == a.tolist()
    with memoryview(a.update()) as view:
        view[0, 0] = 200
    assert a[0, 0].item() == 200
    with pytest.raises(TypeError):
        memoryview(a)


def test_arrow(context, numpy):
    pyarrow = pytest.importorskip("pyarrow")
    a = ferry.array(numpy.arange(5, dtype="i4"), context=context)
    exported = pyarrow.array(a)
    part = exported[2:4]
    del exported
    assert part.to_pylist() == [2, 3] and a.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ferry.BusyError):
        a.fill(0)
    del part
    a.fill(7)
    taken = ferry.from_arrow(pyarrow.array([1.5, 2.5, 3.5])[1:], context=context)
    assert taken.is_read_only and taken.tolist() == [2.5, 3.5]
    for wrong in (pyarrow.array([1, None]), pyarrow.array([True]), pyarrow.array(["text"])):
        with pytest.raises(ferry.UnsupportedError):
            ferry.from_arrow(wrong, context=context)
    with pytest.raises(ferry.UnsupportedError):
        ferry.array(numpy.zeros((2, 2)), context=context).__arrow_c_array__()
    with pytest.raises(ferry.UnsupportedError):
        pyarrow.array(ferry.array(numpy.zeros(2, "c8"), context=context))


def test_arrow_that_is_not_taken(context):
    a = ferry.array(bytes(4), context=context)
    capsules = a.__arrow_c_device_array__()
    with pytest.raises(ferry.BusyError):
        a.fill(1)
    del capsules
    a.fill(1)


def test_arrow_that_cannot_be_taken(context):
    class Exporter:
        def __init__(self, *made):
            self.made = made

        def __arrow_c_array__(self, requested_schema=None):
            return self.made

    class Chunks:
        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("nothing asks for it")

    schema, array = ferry.array(bytes(4), context=context).__arrow_c_array__()
    for wrong, kind, words in ((Exporter(1, array), ferry.ArgumentError, "no.* capsule of an Arrow schema"),
                               (Exporter(schema, schema), ferry.ArgumentError, "no.* capsule of an Arrow array"),
                               (Chunks(), ferry.WrongTypeError, "takes one array, and a Chunks may have several"),
                               ([1, 2], ferry.WrongTypeError, "not a list")):
        with pytest.raises(kind, match=words):
            ferry.from_arrow(wrong, context=context)
    assert ferry.from_arrow(Exporter(schema, array), context=context).tolist() == [0] * 4


def test_numba_on_the_host(context, numpy):
    numba = pytest.importorskip("numba")

    @numba.njit
    def double(x):
        for i in range(x.size):
            x[i] *= 2

    a = ferry.array(numpy.arange(4.0), context=context)
    with a.update() as h:
        double(h)
    assert a.tolist() == [0, 2, 4, 6]


def test_exports_that_end_first_wait_for_nobody(emulated, numpy):
    """The last use of wrapped memory ends with the export, while a host function in Python, which needs the lock, is queued."""
    def slow(y):
        time.sleep(0.1)
        y[0] = 1

    kernel = ferry.Kernel("slow", host=slow, parameters=["update u1 y"], context=emulated)
    ends = [lambda part: part.read().__dlpack__(max_version=(1, 0)), lambda part: part.update().__dlpack__(),
            lambda part: part.__arrow_c_array__()]
    if takes_flags(numpy):
        ends.append(lambda part: numpy.from_dlpack(part.read()))
    for export in ends:
        memory = bytearray(b"abcd")
        a = ferry.wrap(memory, context=emulated)
        x = export(a[0:2])
        kernel(None, 2, a[2:4])
        del a
        del x
        emulated.stream().synchronize()
        gc.collect()
        assert memory == b"ab\1d"


def test_exports_of_closed_arrays(context):
    a = ferry.array(bytes(4), context=context)
    access = a.read()
    access.__enter__()
    a.close()
    with pytest.raises(ferry.StateError):
        access.__dlpack__(max_version=(1, 0))
    with pytest.raises(ferry.StateError):
        access.__arrow_c_array__()


def test_streams_of_consumers(context):
    if context.place(1).kind != "cuda":
        pytest.skip("only memory of CUDA devices has a stream")
    a = ferry.array(bytes(4096), context=context)
    stream = ferry.Stream(context)
    for other in (0, 1, 2, None, ferry.Stream(context).native):
        with a.update(stream=stream) as d:
            with pytest.raises(BufferError):
                d.__dlpack__(stream=other, max_version=(1, 0))
    for same in (stream.native, -1):
        with a.update(stream=stream) as d:
            assert d.__dlpack__(stream=same, max_version=(1, 0))
    a.fill(1)


def test_objects_that_end_with_a_producer(context, numpy):
    """What the deleter of a producer drops may need the library, which runs it in a callback."""
    class Keeper(numpy.ndarray):
        pass

    values = numpy.arange(6.0).view(Keeper)
    values.stream = ferry.Stream(context)
    values.kernel = ferry.Kernel("k", host=print, parameters=[], context=context)
    ended = weakref.ref(values.kernel)
    a = ferry.from_dlpack(values, context=context)
    del values
    assert ended() is not None
    del a
    ferry.empty(1, context=context)
    gc.collect()
    assert ended() is None


def test_copies_of_open_accesses(context, numpy):
    a = ferry.array(numpy.arange(3.0), context=context)
    with a.update(raw=True) as access:
        numpy.asarray(access)[0] = 7
        copied = numpy.from_dlpack(_Asking(access, copy=True))
        assert copied.tolist() == [7, 1, 2]


class _Tensor(ctypes.Structure):
    """A tensor of DLPack before 1.0."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class _Producer:
    """One tensor of the host, and the number of calls of its deleter."""

    def __init__(self, data, shape, strides=None, bits=32, device=1):
        self.ended = 0
        sizes = ctypes.c_int64 * len(shape)
        self.shape, self.strides = sizes(*shape), sizes(*strides) if strides else None
        self.tensor = _Tensor(data=data, rank=len(shape), code=2, bits=bits, lanes=1, shape=self.shape, strides=self.strides)
        self.tensor.device[0] = device
        self.tensor.deleter = type(self.tensor.deleter)(self.end)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule = new(ctypes.addressof(self.tensor), b"dltensor", None)

    def end(self, tensor):
        self.ended += 1

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **unused):
        return self.capsule


def test_tensors_that_are_refused_stay_the_producers(context):
    memory = (ctypes.c_float * 16)(*range(16))
    data = ctypes.addressof(memory)
    for wrong in (_Producer(None, (3,)), _Producer(None, (3,), (2,)), _Producer(data, (-1,)), _Producer(data, (3,), bits=4),
                  _Producer(data, (3,), device=8), _Producer(data, (2**62, 8))):
        deleter = ctypes.cast(wrong.tensor.deleter, ctypes.c_void_p).value
        with pytest.raises(ferry.Error):
            ferry.from_dlpack(wrong, context=context)
        assert wrong.ended == 0 and ctypes.cast(wrong.tensor.deleter, ctypes.c_void_p).value == deleter
        assert "used" not in repr(wrong.capsule) and wrong.tensor.manager is None
    for right in (_Producer(data, (4, 2)), _Producer(data, (3,), (2,)), _Producer(data, (1, 6), (99, 1))):
        a = ferry.from_dlpack(right, context=context)
        a.tolist()
        del a
        ferry.empty(1, context=context)
        gc.collect()
        assert right.ended == 1


def at(access, count):
    """The memory of an access of a device as numbers: that of these devices is memory of the host."""
    access.array.context.stream(access.place).synchronize()
    return (ctypes.c_float * count).from_address(access.ptr)


def test_close_gives_the_owner_its_values(context, visible):
    """Also an owner on a device, and nothing crosses that need not."""
    if context.place(1).kind != "cuda":
        pytest.skip("only memory of CUDA devices is imported as such")
    owner = ferry.empty(1000, context=context)
    with owner.overwrite(device=1) as d:
        at(d, 1000)[:] = range(1000)
        memory = at(d, 1000)
    a = ferry.from_dlpack(owner, context=context)
    context.reset_stats()
    a.close()
    assert context.stats().download.bytes == context.stats().upload.bytes == 0
    ferry.empty(1, context=context)
    a = ferry.from_dlpack(owner, context=context)
    part = a[10:20]
    part.fill(7)
    with a.update() as h:
        h[0] = 5
    assert memory[0] == 0 and a.places == (0,)
    a.close()
    context.stream().synchronize()
    assert memory[0] == 5 and memory[10] == 7 and memory[999] == 999
    assert part.stats()["lent_at"] == 1 and owner.stats()["lent_at"] is None


def test_copies_that_may_not_be_written(context, numpy):
    values = numpy.arange(12.0).reshape(3, 4)
    for more in ({}, {"copy": True}):
        for source in (values[:, ::2], values.T[::2]):
            fixed = ferry.from_dlpack(source, read_only=True, context=context, **more)
            assert fixed.is_read_only and fixed.tolist() == source.tolist()
            with pytest.raises(ValueError):
                fixed.fill(1)
            free = ferry.from_dlpack(source, context=context, **more)
            free.fill(1)
    with ferry.array(values, context=context).update(device=1) as access:
        for read_only in (None, True):
            own = ferry.from_dlpack(access, copy=True, read_only=read_only, context=context)
            assert own.is_read_only is bool(read_only) and own.tolist() == values.tolist()
    own = ferry.from_dlpack(values, copy=True, context=context)
    own.fill(0)
    assert values[2, 3] == 11 and own.stats()["lent_at"] is None
    assert ferry.from_dlpack(numpy.array(2.5), copy=True, context=context).item() == 2.5


def test_unaligned_and_far_tensors(context):
    memory = (ctypes.c_char * 64)(*bytes(range(64)))
    data = ctypes.addressof(memory)
    data += 1 if data % 4 == 0 else 0
    assert ctypes.c_float.from_buffer_copy(memory, 1).value == ferry.from_dlpack(_Producer(data, (3,)), context=context).tolist()[0]
    for strides in ((2,), None):
        a = ferry.from_dlpack(_Producer(data, (3,), strides), context=context)
        a.fill(0)
        assert memory.raw == bytes(range(64))
        with pytest.raises(ferry.Error):
            ferry.from_dlpack(_Producer(data, (3,), strides), copy=False, context=context)
    for strides in ((2**61,), (2**62,), (-(2**61),)):
        wrong = _Producer(data - 1, (16,), strides)
        with pytest.raises(OverflowError):
            ferry.from_dlpack(wrong, context=context)
        assert wrong.ended == 0
    with pytest.raises(ValueError):
        ferry.from_dlpack(_Producer(None, (3,), (2,)), copy=True, context=context)
    for strides, copy in (((2,), None), (None, True), (None, None)):  # before the memory
        wrong = _Producer(data + 31, (3,), strides)
        wrong.tensor.offset = 2**64 - 8
        with pytest.raises(ValueError, match="plus 18446744073709551608"):
            ferry.from_dlpack(wrong, copy=copy, context=context)
        assert wrong.ended == 0


def test_page_locked_memory_is_memory_of_the_host(context):
    """Also where it is strided, so that only a copy will do."""
    memory = (ctypes.c_float * 8)(*range(8))
    for device in (3, 11):
        for strides in (None, (2,)):
            right = _Producer(ctypes.addressof(memory), (3,), strides, device=device)
            assert ferry.from_dlpack(right, context=context).tolist() == ([0, 2, 4] if strides else [0, 1, 2])


def test_copies_that_have_no_memory(context):
    memory = (ctypes.c_float * 8)()
    huge = _Producer(ctypes.addressof(memory), (2**46,))
    with pytest.raises(ferry.OutOfMemoryError, match="no memory for a copy of 281474976710656 bytes"):
        ferry.from_dlpack(huge, copy=True, context=context)
    assert huge.ended == 0


def test_who_may_be_trusted(context, numpy):
    """JAX has no flag for arrays that must not change, and a producer's flag is stronger than read_only=False."""
    class Array:
        """As that of jaxlib."""

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **unused):
            return numpy.arange(3.0).__dlpack__()

    Array.__module__ = "jaxlib.xla_extension"
    assert ferry.from_dlpack(Array(), context=context).is_read_only
    assert not ferry.from_dlpack(Array(), read_only=False, context=context).is_read_only
    if takes_flags(numpy):
        fixed = numpy.arange(3.0)
        fixed.flags.writeable = False
        assert ferry.from_dlpack(fixed, read_only=False, context=context).is_read_only


def test_two_exports_of_one_access(context):
    """They share its lease. Another access does not."""
    a = ferry.array(bytes(8), context=context)
    access = a.update()
    one, two = (access.__dlpack__(max_version=(1, 0)) for _ in range(2))
    assert a.stats()["leases"] == 1
    with pytest.raises(ferry.BusyError):
        a.update().__dlpack__(max_version=(1, 0))
    del access, one
    with pytest.raises(ferry.BusyError):
        a.fill(1)
    del two
    a.fill(1)


def test_copies_are_where_the_consumer_expects_them(context):
    """A consumer asks an access for its device before it asks for a tensor, and never learns of another one."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    a = ferry.array(bytes(8), context=context)
    for place in (None, *range(1, context.device_count + 1)):
        access = a.read(device=place)
        for terms in ({}, {"copy": True}, {"copy": True, "dl_device": access.__dlpack_device__()}):
            capsule = access.__dlpack__(max_version=(1, 0), **terms)
            device = (ctypes.c_int32 * 2).from_address(get(capsule, b"dltensor_versioned") + 40)
            assert tuple(device) == access.__dlpack_device__(), (place, terms)
            del capsule
        del access


def test_accesses_of_a_device_in_their_own_context(context):
    """Both use the default stream of the place, so that nothing is left to order. Another stream is refused."""
    a = ferry.array(b"four", context=context)
    taken = ferry.from_dlpack(a.update(device=1), context=context)
    assert taken.places == (int(context.place(1).kind != "host"),)
    with pytest.raises(ferry.BusyError):
        a.fill(0)
    taken.fill(7)
    taken.close()
    del taken
    gc.collect()
    assert a.tolist() == [7] * 4
    with pytest.raises(BufferError, match="another stream"):
        ferry.from_dlpack(a.update(device=1, stream=ferry.Stream(context)), context=context)
    if context.place(1).kind == "emulated":
        with pytest.raises(BufferError, match="a device that is not CUDA's or HIP's"):
            a.read(device=1).__dlpack__(max_version=(1, 0), stream=1)


@pytest.mark.skipif(not os.environ.get("FERRY_HIP_LIBRARY"), reason="there is no driver of HIP")
def test_streams_of_hip():
    """The array standard: 0 is the default stream there, and 1 and 2 have no meaning. PyTorch names its stream on HIP too."""
    context = ferry.Context("hip")
    stream = ferry.Stream(context)
    a = ferry.array(b"four", context=context)
    with a.update(stream=stream, raw=True) as d:
        assert d.__dlpack_device__()[0] == 10
        for same in (stream.native, -1):
            assert d.__dlpack__(stream=same, max_version=(1, 0))
        for other, words in ((None, "another stream"), (0, "another stream"), (1, "use 0"), (2, "use 0")):
            with pytest.raises(BufferError, match=words):
                d.__dlpack__(stream=other, max_version=(1, 0))
    assert a.__dlpack_device__() == (10, 0) and a.tolist() == list(b"four")
    default = ferry.Stream(context, native=0)
    assert default.native == context.stream(1).native == 0
    for a_stream in (None, default):
        with a.update(device=1, stream=a_stream, raw=True) as d:
            for same in (None, 0, -1):
                assert d.__dlpack__(stream=same, max_version=(1, 0))
            with pytest.raises(BufferError, match="another stream"):
                d.__dlpack__(stream=stream.native, max_version=(1, 0))
    assert a.__dlpack_device__() == (10, 0)
    lent = ferry.from_dlpack(a, context=context)
    assert lent.stats()["lent_at"]
    with pytest.raises(ferry.BusyError):
        a.fill(1)
    with lent.update(device=1, raw=True):
        pass
    del lent
    gc.collect()
    a.fill(1)
    assert a.tolist() == [1] * 4


def test_flags_of_a_copy(context):
    class Tensor(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32 * 2), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64)]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    a = ferry.array(bytes(8), context=context)
    for exporter, terms, flags in ((a, {"copy": True}, 2), (a, {}, 0), (a.read(), {}, 1), (a.read(), {"copy": True}, 2)):
        capsule = exporter.__dlpack__(max_version=(1, 0), **terms)
        assert Tensor.from_address(get(capsule, b"dltensor_versioned")).flags == flags
        del capsule
