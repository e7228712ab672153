# SPDX-License-Identifier: MIT
"""Accesses: what is copied, what conflicts, and what lives how long."""

import contextlib
import ctypes
import gc
import hashlib
import os
import sys
import threading
import weakref
import zlib

import pytest

import ferry

CHECKED = os.environ.get("FERRY_DEBUG") == "1"


def test_conflicts_name_their_holder(context):
    a = ferry.array(bytes(8), context=context)
    with a.update():
        with pytest.raises(ferry.BusyError, match=r"test_access.py:\d+") as caught:
            with a.read():
                pass
        assert caught.value.status == 6 and isinstance(caught.value, BufferError)
        with pytest.raises(ferry.BusyError):
            a.tobytes()
    with a.read(), a.read():
        pass
    a.tobytes()


def test_an_access_serves_once(context):
    a = ferry.array(bytes(8), context=context)
    access = a.read()
    with access:
        assert access.is_open and access.mode == "read" and access.place == 0 and access.array is a
    assert not access.is_open
    with pytest.raises(RuntimeError):
        access.__enter__()
    with pytest.raises(RuntimeError):
        access.ptr


@pytest.mark.skipif(CHECKED, reason="a checked run stops at the use of a stale window")
def test_an_ndarray_outlives_its_with(context, numpy):
    a = ferry.array(numpy.arange(1000.0), context=context)
    with a.update() as h:
        part = h[10:20]
        h[0] = 5
    with pytest.raises(ValueError):
        h[0] = 6
    with a.update() as again:
        again[0] = 7
    assert numpy.asarray(a)[0] == 7
    del a, again
    gc.collect()
    part[0] = 1  # a view stays writable: the write is lost, but the memory is still mapped
    assert h.sum() is not None
    with pytest.raises(ValueError):
        h += 1


def test_abandon_keeps_what_other_places_have(emulated, numpy):
    a = ferry.array(numpy.arange(4.0), context=emulated)
    a.sync_to(1)
    access = a.update(raw=True)
    numpy.asarray(access)[:] = -1
    access.abandon()
    assert numpy.asarray(a).tolist() == [0, 1, 2, 3]


def test_an_exception_leaves_the_writes(context, numpy):
    a = ferry.array(numpy.zeros(3), context=context)
    with pytest.raises(ZeroDivisionError):
        with a.update() as h:
            h[0] = 1
            1 / 0
    assert a.tolist() == [1, 0, 0]


def test_nothing_opens_for_nothing(context):
    a = ferry.array(bytes(8), context=context)
    access = a.update()
    with a.update():
        pass
    assert not access.is_open
    view = memoryview(access)
    assert access.is_open
    del access
    with pytest.raises(ferry.BusyError):
        a.fill(1)
    view.release()
    del view
    a.fill(1)


def test_devices(context, numpy):
    a = ferry.array(numpy.ones((2, 3), "f4"), context=context)
    stream = ferry.Stream(context, 1)
    with a.update(stream=stream) as d:
        assert d.place == 1 and d.stream is stream and d.ptr
        with pytest.raises(BufferError):
            memoryview(d)
    with a.read(device=1) as d:
        kind = context.place(1).kind
        if kind == "cuda":
            interface = d.__cuda_array_interface__
            assert interface["shape"] == (2, 3) and interface["typestr"] == "<f4" and interface["version"] == 3
            assert interface["data"] == (d.ptr, True) and interface["stream"]
            assert d.__dlpack_device__() == (2, 0)
        else:
            assert not hasattr(d, "__cuda_array_interface__")
    assert not hasattr(a.read(), "__cuda_array_interface__")
    for wrong in ({"device": 0}, {"device": 9}, {"device": -1}, {"device": 2, "stream": stream}):
        with pytest.raises(ValueError):
            a.read(**wrong)
    with pytest.raises(TypeError):
        a.read(1)
    with pytest.raises(TypeError):
        a.read(stream=3)
    with pytest.raises(TypeError):
        a.read(place=1)


def test_other_contexts(context, numpy):
    other = ferry.Context("emulated:1")
    a = ferry.array(b"1", context=context)
    with pytest.raises(ferry.WrongContextError):
        with a.read(stream=other.stream()):
            pass
    assert ferry.array(a, context=other).context is other


def test_closed_arrays(context):
    a = ferry.array(bytes(8), context=context)
    part = a[2:4]
    a.close()
    a.close()
    assert a.closed and "closed" in repr(a) and a.shape == (8,)
    for use in (lambda: a.read(), lambda: a.state, lambda: a.fill(0), lambda: a[0], lambda: a.tobytes(),
                lambda: a.__dlpack__(), lambda: a.copy()):
        with pytest.raises(ferry.StateError):
            use()
    assert part.tobytes() == bytes(2)


def test_threads(context, numpy):
    """Readers and writers of one array on many threads: each sum is that of a state between two writes."""
    a, wrong, seen = ferry.array(numpy.zeros(4096), context=context), [], []

    def write():
        for _ in range(50):
            try:
                with a.update() as h:
                    h += 1
            except ferry.BusyError:
                pass

    def read(device):
        for _ in range(50):
            try:
                with a.read(device=device) as h:
                    if device is None:
                        seen.append(h[0])
                        if (h != h[0]).any():
                            wrong.append(h.copy())
            except ferry.BusyError:
                pass

    threads = [threading.Thread(target=write) for _ in range(2)]
    threads += [threading.Thread(target=read, args=(device,)) for device in (None, None, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_everything_ends_in_any_order(context, numpy):
    """The context, an array, a view and an ndarray, dropped in each order."""
    import itertools

    for order in itertools.permutations(range(4)):
        own = ferry.Context(context.place(1).kind)
        a = ferry.array(numpy.arange(6.0), context=own)
        part = a[2:4]
        access = part.read(raw=True)
        held = [own, a, part, memoryview(access)]
        view = held[3]
        del own, a, part, access
        for index in order:
            if index == 3:
                assert view[0] == 2.0
                view = None
            held[index] = None


def test_python_objects_end(context, numpy):
    owner = numpy.zeros(10)
    ended = weakref.ref(owner)
    a = ferry.wrap(owner, context=context)
    del owner
    gc.collect()
    assert ended() is not None
    with a.update():
        pass
    del a
    ferry.empty(1, context=context)
    gc.collect()
    assert ended() is None


def test_an_access_without_an_exit_ends(context, numpy):
    a = ferry.array(numpy.zeros(3), context=context)
    h = a.update().__enter__()
    with pytest.raises(ferry.BusyError):
        a.fill(1)
    del h
    a.fill(1)


def test_two_threads_end_one_access(emulated):
    a = ferry.array(bytes(64), context=emulated)
    failed = []
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def end(function, barrier):
        barrier.wait()
        try:
            function()
        except ferry.Error as error:
            failed.append(error)

    try:
        for _ in range(300):
            access = a.update(device=1)
            access.ptr
            barrier = threading.Barrier(2)
            threads = [threading.Thread(target=end, args=(function, barrier)) for function in (access.close, access.abandon)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            a.fill(1)
    finally:
        sys.setswitchinterval(switch)
    assert not failed


def test_one_thread_enters(context):
    a = ferry.array(bytes(64), context=context)
    for _ in range(50):
        access, entered = a.read(raw=True), []
        barrier = threading.Barrier(4)

        def enter():
            barrier.wait()
            try:
                entered.append(access.__enter__())
            except ferry.StateError:
                pass

        threads = [threading.Thread(target=enter) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(entered) == 1


def test_orders_that_a_consumer_takes(context, numpy):
    values = numpy.arange(6.0).reshape(2, 3)
    fortran = ferry.wrap(numpy.asfortranarray(values), context=context)
    for consumer in (zlib.crc32, hashlib.sha256):
        with pytest.raises(BufferError):
            consumer(fortran.read())
    assert zlib.crc32(ferry.array(values, context=context).read()) == zlib.crc32(values)
    with fortran.read() as h:
        assert h.tolist() == values.tolist() and h.flags.f_contiguous

    class Buffer(ctypes.Structure):
        _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("rest", ctypes.c_char * 64)]

    def takes(exporter, flags):
        view = Buffer()
        try:
            ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(exporter), ctypes.byref(view), flags)
        except BufferError:
            return False
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
        return True

    c, f, either = 0x38, 0x58, 0x98
    mixed = ferry.from_dlpack(numpy.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2), copy=False, context=context)
    straight = ferry.array(values, context=context)
    assert [takes(fortran.read(), flags) for flags in (c, f, either)] == [False, True, True]
    assert [takes(straight.read(), flags) for flags in (c, f, either)] == [True, False, True]
    assert [takes(mixed.read(), flags) for flags in (c, f, either)] == [False, False, False]


def test_labels_of_code_that_looks_like_the_package(tmp_path, context):
    """Only the package's own folder is left out of labels."""
    folder = tmp_path / "ferry"
    folder.mkdir()
    (folder / "_tools.py").write_text("def hold(a):\n    return a.update(raw=True).__enter__()\n")
    program = compile((folder / "_tools.py").read_text(), str(folder / "_tools.py"), "exec")
    names = {}
    exec(program, names)
    a = ferry.array(bytes(4), context=context)
    held = names["hold"](a)
    with pytest.raises(ferry.BusyError, match=r"python, _tools.py:2"):
        a.tolist()
    held.close()
    held = memoryview(a.update())
    with pytest.raises(ferry.BusyError, match=r"python, test_access.py:\d+"):
        a.tolist()


def test_read_only_wraps(context):
    """Their devices get the values, and they cannot be written."""
    fixed = ferry.wrap(b"1234", context=context)
    with fixed.read(device=1) as d:
        assert d.ptr
    for wrong in (lambda: fixed.update(device=1).__enter__(), lambda: fixed.overwrite().__enter__(), lambda: fixed.load_from("/dev/zero"),
                  lambda: fixed.copy_from(b"5678"), lambda: ferry.wrap(b"1234", read_only=False, context=context)):
        with pytest.raises(ferry.ArgumentError):
            wrong()
    assert fixed.tobytes() == b"1234"
    fixed.close()


def test_read_only_views(context, numpy):
    """They show what their base has, pass what they are on, and cannot be written."""
    a = ferry.array(numpy.arange(12, dtype="f4").reshape(3, 4), context=context, name="lent")
    lent = a.read_only()
    assert lent.is_read_only and not a.is_read_only and lent.shape == (3, 4) and lent.dtype == a.dtype
    a.fill(2)
    double = ferry.Kernel("double", host=lambda x: numpy.multiply(x, 2, out=x), parameters=["update f4 x"], context=context)
    for view in (lent, lent[1:], lent[1, 2:], lent.view("i4").view("f4"), lent.reshape(12), lent.read_only(), lent.view("u1").view("f4")):
        assert view.is_read_only and numpy.array(view).min() == 2
        writes = [lambda: view.update().__enter__(), lambda: view.overwrite(device=1).__enter__(), lambda: view.fill(1),
                  lambda: view.copy_from(numpy.ones(view.shape, "f4")), lambda: view.load_from("/dev/zero"), lambda: double(None, 1, view)]
        for write in writes:
            with pytest.raises(ferry.ArgumentError, match='the array "lent" is read-only'):
                write()
        with view.read() as h:
            assert not h.flags.writeable
        assert memoryview(view.read()).readonly
        view.sync_to(1)
        view.prefetch(0)
    assert a.tolist() == [[2] * 4] * 3
    # A copy is another array.
    own = lent.copy()
    assert not own.is_read_only
    own.fill(1)
    a.close()
    assert lent.tolist() == [[2] * 4] * 3
    lent.close()


def test_exports_of_read_only_views(context, numpy):
    """DLPack's tensors have the flag, and consumers without it get none."""
    a = ferry.array(numpy.arange(4.0), context=context)
    lent = a.read_only()
    with pytest.raises(BufferError, match="read-only array"):
        lent.__dlpack__()
    capsule = lent.__dlpack__(max_version=(1, 0))
    with pytest.raises(ferry.BusyError):
        a.fill(0)
    with lent.read() as h:  # other readers may come
        assert h.tolist() == [0, 1, 2, 3]
    taken = ferry._ferry.import_dlpack(ferry.Array, ferry.Context("host"), capsule, False, 0)
    assert taken.is_read_only and taken.tolist() == [0, 1, 2, 3]
    del taken
    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
        assert not numpy.from_dlpack(lent).flags.writeable
    copied = ferry.from_dlpack(lent, copy=True, context=context)
    copied.fill(1)
    if context.place(1).kind == "cuda":
        with lent.read(device=1, raw=True) as d:
            assert d.__cuda_array_interface__["data"][1] is True
    schema, array = lent.__arrow_c_array__()
    del schema, array
    a.fill(0)
    assert lent.tolist() == [0] * 4


MODES = ["read", "update", "overwrite"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("written", [0, 3])
def test_exceptions_abandon(context, numpy, mode, written):
    """Half a result is not published: what another place holds stays the newest."""
    a = ferry.array(numpy.arange(8, dtype="f4"), context=context)
    double = ferry.Kernel("double", host=lambda x: numpy.multiply(x, 2, out=x), parameters=["update f4 x"], context=context)
    shared = context.place(1).kind == "host"
    if context.place(1).kind == "cuda":
        with a.update(device=1):
            pass  # the driver without a GPU runs no kernel
    else:
        double(None, 8, a)
    before = [float(value) for value in a.tolist()]
    if not shared:
        with a.update(device=1):
            pass  # now only the device is current
    with pytest.raises(KeyError, match="step"):
        with getattr(a, mode)() as h:
            if mode != "read" and not shared:
                h[:written] = -1
            raise KeyError("step")
    assert a.tolist() == before
    with a.update() as h:  # nothing is left open
        h[0] = 5
    assert a.tolist()[0] == 5


@pytest.mark.parametrize("mode", MODES)
def test_exceptions_abandon_on_devices(emulated, mode):
    """So does an access of a device, and one that an ExitStack or a generator ends."""
    a = ferry.array([1.0, 2.0, 3.0], context=emulated)
    for device in (1, 2):
        with pytest.raises(ValueError, match="before anything was written"):
            with getattr(a, mode)(device=device):
                raise ValueError("before anything was written")
        assert a.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError):
        with contextlib.ExitStack() as stack:
            stack.enter_context(getattr(a, mode)(stream=ferry.Stream(emulated, 2)))
            raise ValueError
    assert a.tolist() == [1.0, 2.0, 3.0]

    def steps():
        with getattr(a, mode)(device=1, raw=True) as d:
            yield d

    running = steps()
    next(running)
    running.close()
    assert a.tolist() == [1.0, 2.0, 3.0]


def test_exceptions_that_cannot_abandon(emulated):
    """The exception of the program is what it sees, also when the access was ended before or cannot be ended."""
    a = ferry.array(bytes(4), context=emulated)
    with pytest.raises(KeyError):
        with a.update(raw=True) as access:
            access.close()
            raise KeyError
    with a.overwrite(device=1, raw=True) as access:
        access.abandon()
    assert a.tobytes() == bytes(4)


def test_ndarrays_of_accesses(emulated, numpy):
    """np.asarray gives the numbers or raises: never an array of no dimensions that holds the access."""
    a = ferry.array(numpy.arange(4, dtype="f4"), context=emulated)
    assert numpy.asarray(a.read()).tolist() == [0, 1, 2, 3] and numpy.sum(a.read()) == 6
    assert numpy.asarray(a.read(), "f8").dtype == "f8"
    ended = a.read()
    with ended:
        pass
    closed = ferry.zeros(3, context=emulated)
    access = closed.read()
    closed.close()
    with a.update(raw=True):
        for use in (numpy.asarray, numpy.sum, numpy.array, lambda x: numpy.add(x, 1)):
            with pytest.raises(ferry.BusyError):
                use(a.read())
    for use in (numpy.asarray, numpy.sum, numpy.array):
        with pytest.raises(ferry.UnsupportedError, match="no host memory"):
            use(a.read(device=1))
        with pytest.raises(ferry.StateError, match="ended"):
            use(ended)
        with pytest.raises(ferry.StateError, match="closed"):
            use(access)
    brain = ferry.zeros(4, "bfloat16", context=emulated)
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(ferry.UnsupportedError, match="ml_dtypes"):
            numpy.asarray(brain.read())
    else:
        assert numpy.asarray(brain.read()).dtype == ml_dtypes.bfloat16
