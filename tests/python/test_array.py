# SPDX-License-Identifier: MIT
"""Arrays: making, viewing, converting, copying."""

import array
import copy
import ctypes
import itertools
import json
import multiprocessing.sharedctypes
import operator
import os
import pickle
import threading
import time
import tracemalloc

import pytest

import ferry

NUMBERS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]


def test_empty_reads_as_zero_and_has_no_memory(context):
    a = ferry.empty((2, 3), "f4", context=context, name="nothing")
    assert (a.shape, a.size, a.nbytes, a.ndim, a.strides, len(a)) == ((2, 3), 6, 24, 2, (12, 4), 2)
    assert a.state == "UNINITIALIZED" and a.copies == ()
    assert a.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert "nothing" in repr(a) and "float[2, 3]" in repr(a)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_each_number_goes_round(context, numpy, dtype):
    values = numpy.arange(12).reshape(3, 4).astype(dtype)
    a = ferry.array(values, context=context)
    assert a.dtype == dtype and a.dtype.dtype == values.dtype
    assert (numpy.asarray(a) == values).all()
    with a.read() as h:
        assert h.dtype == values.dtype and (h == values).all() and not h.flags.writeable
    with a.update(device=1):
        pass
    assert (numpy.asarray(a) == values).all()
    assert ferry.array(a.tobytes()).nbytes == values.nbytes


@pytest.mark.skipif(os.environ.get("FERRY_DEBUG") == "1", reason="the test reads freed memory, which a checked run protects")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the test reads freed memory, which AddressSanitizer finds")
@pytest.mark.parametrize("make", ["empty", "zeros", "array"])
def test_zero_on_release(context, numpy, make):
    def left_behind(zero_on_release):
        source = numpy.zeros(4096, "u1") if make == "array" else 4096
        a = getattr(ferry, make)(source, "u1", context=context, zero_on_release=zero_on_release)
        with a.overwrite() as values:
            values[:] = 7
            address = values.ctypes.data
        del a, values
        return ctypes.string_at(address, 4096)  # the pool keeps the memory

    assert b"\7" not in left_behind(True)
    assert b"\7" in left_behind(False)


def test_without_numpy_types(context):
    a = ferry.array(array.array("d", [1, 2, 3]), context=context)
    assert a.dtype == "float64" and a.dtype == float and a.tolist() == [1, 2, 3]
    a.copy_from(array.array("d", [4, 5, 6]))
    out = array.array("d", [0, 0, 0])
    a.copy_to(out)
    assert list(out) == [4, 5, 6]
    assert ferry.array(b"abc", context=context).tobytes() == b"abc"


def test_bfloat16(context, numpy):
    a = ferry.empty(4, "bfloat16", context=context)
    a.fill(1.5)
    assert a.view("u2").tolist() == [0x3FC0] * 4
    assert a.astype("f4").tolist() == [1.5] * 4
    with pytest.raises(BufferError):
        memoryview(a.read())


def test_structs(context, numpy):
    dtype = numpy.dtype([("x", "f4"), ("n", "i2"), ("v", "f8", 3)], align=True)
    values = numpy.zeros(5, dtype)
    values["x"], values["v"][:, 1] = numpy.arange(5), 7
    a = ferry.array(values, context=context)
    assert a.dtype.itemsize == dtype.itemsize == 32
    assert [field[0] for field in a.dtype.fields] == ["x", "n", "v"]
    with a.update() as h:
        h["n"] = 3
    back = numpy.asarray(a)
    assert (back["x"] == values["x"]).all() and (back["n"] == 3).all() and (back["v"] == values["v"]).all()
    assert pickle.loads(pickle.dumps(a)).dtype == a.dtype


def test_structs_with_padding_at_the_end(numpy):
    dtype = numpy.dtype([("a", "f8"), ("b", "i1")], align=True)
    assert ferry.element(dtype).itemsize == 16 and ferry.element(dtype).dtype.itemsize == 16


def test_type_files(tmp_path, numpy):
    """The generator computes the layout, and a struct may hold one of another file."""
    file, outer = tmp_path / "vec3.json", tmp_path / "pair.json"
    described = {"ferry": 1, "prefix": "mylib", "header": "v.h", "kind": "struct"}
    file.write_text(json.dumps({**described, "name": "vec3", "c_type": "struct mylib_vec3", "fields": [
        {"name": "x", "type": "float"}, {"name": "v", "type": "float", "count": 2}]}))
    outer.write_text(json.dumps({**described, "name": "pair", "c_type": "struct mylib_pair", "fields": [
        {"name": "flag", "type": "char"}, {"name": "at", "type": "vec3"}]}))
    vec3 = ferry.element(file)
    assert vec3 == ferry.element(numpy.dtype([("x", "f4"), ("v", "f4", 2)], align=True)) and vec3.itemsize == 12
    assert vec3.name == "mylib_vec3" and ferry.element(str(file)) == vec3
    pair = ferry.element(outer)
    assert [(name, offset) for name, _, offset, _ in pair.fields] == [("flag", 0), ("at.x", 4), ("at.v", 8)]
    file.write_text('{"kind": "struct"}')
    with pytest.raises(ferry.WrongTypeError, match="vec3.json"):
        ferry.element(file)
    with pytest.raises(FileNotFoundError):
        ferry.element(tmp_path / "none.json")


def test_views_share_memory_and_state(context):
    a = ferry.array(bytes(range(24)), context=context).reshape(4, 6)
    assert a[1].tolist() == list(range(6, 12)) and a[-1, 2].item() == 20
    assert a[1:3].shape == (2, 6) and a[..., :].shape == (4, 6) and a[2:2].tolist() == []
    assert a[0, 1:4].tolist() == [1, 2, 3]
    a[1:3].fill(9)
    assert a.tolist()[1] == [9] * 6 and a.tolist()[3] == list(range(18, 24))
    with a[0].update(device=1):
        pass
    assert a[0].state in ("DEVICE_DIRTY", "DEVICE_ONLY", "SYNCHRONIZED", "HOST_DIRTY") and a.tolist()[0] == list(range(6))
    assert a.reshape(-1).shape == (24,) and a.reshape(2, -1).shape == (2, 12)
    assert a.view("u4").shape == (4, 6) if a.itemsize == 4 else True
    assert a.reshape(24).view("u4").shape == (6,)


def test_what_is_no_view(context):
    a = ferry.array(bytes(24), context=context).reshape(4, 6)
    for key in ((slice(None), 1), (slice(None, None, 2),), (slice(None, None, -1),), (slice(None), slice(0, 2))):
        with pytest.raises(NotImplementedError):
            a[key]
    for key in (4, -5, (0, 6)):
        with pytest.raises(IndexError):
            a[key]
    with pytest.raises(ferry.RangeError):
        a[0, 0, 0]
    with pytest.raises(TypeError):
        a["x"]
    for shape in (5, (-1, 5), (-1, -1), (-2, -12)):
        with pytest.raises(ValueError):
            a.reshape(shape)
    with pytest.raises(ferry.WrongTypeError):
        a.view("f4" if a.shape[-1] % 4 else "f8")


def test_conversions(context):
    a = ferry.array(array.array("f", [1.5, -3.5, 300.0]), context=context)
    assert a.astype("i4").tolist() == [2, -4, 300]
    assert a.astype("i1").tolist() == [2, -4, 127]
    assert a.astype("i4", policy="truncate").tolist() == [1, -3, 300]
    with pytest.raises(IndexError):
        a.astype("i1", policy="check")
    with pytest.raises(ValueError):
        a.astype("i1", policy="hope")
    b = ferry.empty(3, "f8", context=context)
    with pytest.raises(TypeError):
        b.copy_from(a)
    b.copy_from(a, convert="saturate")
    assert b.tolist() == [1.5, -3.5, 300.0]


@pytest.mark.parametrize("policy", ["round", "", 1, ["saturate"], memoryview(bytearray(b"saturate"))])
def test_policies_of_any_type_are_refused(policy):
    """Some of these have no hash."""
    a = ferry.zeros(3, "f4")
    with pytest.raises(ferry.ArgumentError, match="convert is one of saturate, check, truncate"):
        a.copy_to(ferry.zeros(3, "f8"), convert=policy)
    with pytest.raises(ferry.ArgumentError, match="policy is one of saturate, check, truncate"):
        a.astype("f8", policy=policy)


def test_copies(context):
    a = ferry.array(array.array("i", range(1000)), context=context)
    b, seen = ferry.empty(1000, "i4", context=context), []
    b.copy_from(a, progress=lambda done, total: seen.append((done, total)))
    assert b.tolist() == list(range(1000)) and (not seen or seen[-1][0] <= seen[-1][1])
    memory = bytearray(4000)
    event = a.copy_to(memoryview(memory).cast("i"), wait=False)
    event.synchronize()
    assert event.done and memory == a.tobytes() and event.progress == (4000, 4000)
    del event
    memory.clear()  # the event has released the memory
    with pytest.raises(ValueError):
        a.copy_from(bytes(8))
    assert copy.copy(a).tolist() == copy.deepcopy(a).tolist() == pickle.loads(pickle.dumps(a)).tolist() == a.tolist()


def test_pickles_out_of_band(context, numpy):
    a = ferry.array(numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)), context=context)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(a, protocol)).tolist() == a.tolist()
    memory = []
    text = pickle.dumps(a, 5, buffer_callback=memory.append)
    assert len(text) < 1000 and memory[0].raw().nbytes == a.nbytes
    with pytest.raises(ferry.BusyError):
        a.fill(1)  # the memory is lent until it is released
    assert pickle.loads(text, buffers=memory).tolist() == a.tolist()
    for part in memory:
        part.release()
    a.fill(1)
    assert pickle.loads(pickle.dumps(ferry.empty((2, 0), context=context))).shape == (2, 0)


def test_orders_of_dimensions(context, numpy):
    values = numpy.asfortranarray(numpy.arange(24.0).reshape(2, 3, 4))
    a = ferry.wrap(values, context=context)
    assert a.strides == values.strides
    assert (numpy.asarray(a) == values).all()
    with a.update(device=1):
        pass
    with a.update() as h:
        h[1, 2, 3] = -1
    assert values[1, 2, 3] == -1
    assert (numpy.asarray(a.astype("f4")) == values).all() and (numpy.asarray(a[:, :, 1]) == values[:, :, 1]).all()
    assert (numpy.asarray(ferry.array(values, context=context)) == values).all()
    assert (numpy.asarray(pickle.loads(pickle.dumps(a))) == values).all()
    with pytest.raises(NotImplementedError):
        a.reshape(24)


def test_wrap_shares_memory(context, numpy):
    values = numpy.arange(5.0)
    a = ferry.wrap(values, context=context)
    with a.update() as h:
        h *= 2
    assert values.tolist() == [0, 2, 4, 6, 8]
    with a.overwrite(stream=context.stream()) as d:
        assert d.ptr
    a.fill(3)
    a.close()
    assert values.tolist() == [3] * 5
    fixed = ferry.wrap(b"1234", context=context)
    assert fixed.is_read_only
    with pytest.raises(ValueError):
        with fixed.update():
            pass
    memory = bytearray(8)
    b = ferry.wrap(memory, context=context)
    with pytest.raises(BufferError):
        memory.append(1)
    del b
    ferry.empty(1, context=context)  # a call that releases owners that have ended
    memory.append(1)


def test_zero_dimensions_and_no_elements(context, numpy):
    a = ferry.array(numpy.array(2.5), context=context)
    assert a.shape == () and a.item() == 2.5 and a.tolist() == 2.5
    with a.update() as h:
        h[()] = 4
    assert a.item() == 4
    with pytest.raises(TypeError):
        len(a)
    b = ferry.empty((3, 0), "f4", context=context)
    with b.read() as h:
        assert h.shape == (3, 0)
    assert numpy.asarray(b).shape == (3, 0) and b.tobytes() == b"" and b.astype("i4").shape == (3, 0)


def test_places(emulated, tmp_path):
    a = ferry.array(bytes(100), context=emulated)
    a.sync_to(1)
    assert a.places == (0, 1)
    a.prefetch(2)
    with a.update(device=2):
        pass
    assert a.places == (2,) and a.copies == (0, 1, 2)
    a.evict(2)
    assert 2 not in a.copies and a.tobytes() == bytes(100)
    assert a.stats()["to_device"].bytes >= 100
    assert [place.kind for place in emulated.places] == ["host", "emulated", "emulated"]
    assert emulated.memory(1).total > 0 and "emulated" in emulated.describe()
    kept = ferry.zeros(1000, "f4", name="kept", context=emulated)
    kept.sync_to(1)
    emulated.snapshot(tmp_path / "snapshot")
    assert '"owner":"kept"' in (tmp_path / "snapshot").read_text() and kept.size == 1000
    with pytest.raises(OSError, match="missing/snapshot"):
        emulated.snapshot(tmp_path / "missing" / "snapshot")
    for wrong, kind in ((3, TypeError), ("a\0b", ValueError)):
        with pytest.raises(kind):
            emulated.snapshot(wrong)


def test_stats_and_trace(emulated):
    a = ferry.array(bytes(1000), context=emulated, name="counted")
    before = emulated.stats()
    with ferry.trace(emulated) as transfers:
        a.sync_to(1)
    a.sync_to(2)
    moved = ferry.stats(emulated) - before
    assert moved.upload.bytes + moved.peer.bytes == 2000 or moved.upload.bytes == 2000
    assert [(t.buffer, t.bytes, t.direction, t.target_place) for t in transfers] == [("counted", 1000, "upload", 1)]
    emulated.reset_stats()
    assert emulated.stats().upload == (0, 0)
    with pytest.raises(RuntimeError):
        ferry.default_context().trace().__enter__()


def test_layouts_of_structs(context, numpy):
    """Exporters leave padding out, and NumPy's fields lie next to each other."""
    class Tail(ctypes.Structure):
        _fields_ = [("a", ctypes.c_double), ("b", ctypes.c_char)]

    class Inner(ctypes.Structure):
        _fields_ = [("b", ctypes.c_uint8), ("a", ctypes.c_double)]

    for dtype in (numpy.dtype({"names": ["a"], "formats": ["f4"], "offsets": [0], "itemsize": 16}),
                  numpy.dtype([("x", "f4"), ("y", "u1")]), numpy.dtype([("x", "u1"), ("y", "f4")]),
                  numpy.dtype([("x", "u1"), ("y", "f8")], align=True)):
        values = numpy.zeros(3, dtype)
        for number, name in enumerate(dtype.names):
            values[name] = [number + 1, 2, 3]
        for a in (ferry.array(values, context=context), ferry.wrap(values, context=context)):
            assert a.itemsize == dtype.itemsize and a.numpy().tolist() == values.tolist()
        assert ferry.element(dtype).itemsize == dtype.itemsize
    tail = ferry.array((Tail * 3)(Tail(1, b"x")), context=context)
    assert tail.itemsize == 16 and [offset for _, _, offset, _ in tail.dtype.fields] == [0, 8]
    inner = ferry.array((Inner * 2)(Inner(7, 1.5), Inner(8, 2.5)), context=context)
    assert [offset for _, _, offset, _ in inner.dtype.fields] == [0, 8] and inner.numpy()["a"].tolist() == [1.5, 2.5]
    with pytest.raises(TypeError):
        ferry.empty(3, numpy.dtype(("f4", (2,))), context=context)


def test_what_an_array_is_made_of(context, numpy):
    assert ferry.array(b"12", "u1", context=context).tolist() == [49, 50]
    assert ferry.array(b"\1\2", "f4", context=context).tolist() == [1, 2]
    assert ferry.array(numpy.arange(3, dtype=">f4"), "f4", context=context).tolist() == [0, 1, 2]
    assert ferry.array(numpy.arange(3, dtype=">i4"), "f8", context=context).tolist() == [0, 1, 2]

    class Series:
        """As that of pandas: a dtype of NumPy, and no buffer."""

        dtype = numpy.dtype("f8")

        def __array__(self, dtype=None, copy=None):
            return numpy.array([1.5, 2.5], dtype)

    assert ferry.array(Series(), context=context).tolist() == [1.5, 2.5]
    a = ferry.array(b"12", context=context)
    assert ferry.array(a, name="x").name == "x" and ferry.array(a, "f4", name="y").name == "y"
    assert ferry.zeros((2, 0, 3), context=context).tolist() == [[], []]
    with pytest.raises(TypeError):
        ferry.Array._create_from(context, b"1234", 5, None)


def test_strides_over_one_element(context, numpy):
    z = ferry.array(numpy.arange(24.0).reshape(4, 6), context=context)
    part = z[0:4:4]
    assert part.shape == (1, 6) and part.view("i4").shape == (1, 12)
    out = numpy.empty((1, 6))
    part.copy_to(out)
    assert out.tolist() == part.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_sizes_that_overflow(context):
    with pytest.raises(OverflowError):
        ferry.empty((0, 2**62, 8), context=context)
    a = ferry.array(bytes(4), context=context)
    for wrong in (lambda: a.read(device=2**32 + 1), lambda: a.read(device=2**80), lambda: context.place(2**32),
                  lambda: context.memory(2**32), lambda: a.load_from("/dev/zero", offset=-8), lambda: a.store("/dev/null", offset=-1)):
        with pytest.raises(ValueError):
            wrong()


def test_values_and_indices(context, numpy):
    z = ferry.array(numpy.arange(4.0).reshape(2, 2), context=context)
    assert float(z[1, 1]) == 3.0 and int(z[1, 0]) == 2 and not z[0, 0] and z[0, 1]
    assert list(range(5))[ferry.array(numpy.array(3), context=context)] == 3
    for wrong in (lambda: bool(z), lambda: float(z)):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: z[numpy.array([0, 1])], lambda: z[True], lambda: 1.0 in z):
        with pytest.raises(TypeError):
            wrong()


def test_bytes_are_copied_once(context):
    """tobytes() and what stands on it make no second copy, which would have half the speed and twice the memory."""
    tracemalloc.start()
    try:
        a = ferry.array(bytes(1 << 22), context=context)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        data = a.tobytes()
        assert len(data) == 1 << 22 and tracemalloc.get_traced_memory()[1] - before < 5 << 20
    finally:
        tracemalloc.stop()
    assert ferry.empty((3, 0), context=context).tobytes() == b""
    with a.update():
        with pytest.raises(ferry.BusyError):
            a.tobytes()
    assert ferry.array(b"1234", context=context)[1:3].tobytes() == b"23"


def test_bfloat16_of_ml_dtypes(context, numpy):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = numpy.array([1.5, -2.0, 3.0], ml_dtypes.bfloat16)
    a = ferry.array(values, context=context)
    assert a.dtype == "bfloat16" and a.dtype.dtype == values.dtype and ferry.element(ml_dtypes.bfloat16) == "bfloat16"
    assert (numpy.asarray(a) == values).all() and a.tolist() == [1.5, -2.0, 3.0] and a[1].item() == -2.0
    with a.update() as h:
        assert h.dtype == values.dtype
        h[0] = 4
    assert a.astype("f4").tolist() == [4, -2, 3]


def test_options_of_a_context(tmp_path):
    trace, log = tmp_path / "trace.json", tmp_path / "allocations"
    context = ferry.Context("emulated:1", trace_file=str(trace), allocation_log=str(log), tuning="emulated.memory=4M")
    assert context.memory(1).total == 4 << 20
    a = ferry.empty(100, context=context, align=4096, name="aligned")
    with a.update(raw=True) as access:
        assert access.ptr % 4096 == 0
    a.sync_to(1)
    del a, access, context
    assert "aligned" in trace.read_text() and json.loads(trace.read_text())
    assert [path.name for path in tmp_path.glob("allocations.*.csv") if path.stat().st_size]


def test_files_past_the_cache(context, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(8) + b"x" * 8)
    a = ferry.array(bytes([5]) * 4, context=context)
    a.store(path, offset=4, keep_rest=True)
    assert path.read_bytes() == bytes(4) + bytes([5]) * 4 + b"x" * 8
    a.store(path, offset=4)
    assert path.read_bytes() == bytes(4) + bytes([5]) * 4
    big = ferry.array(bytes(range(256)) * 4096, context=context)
    big.store(path, direct=True)  # without O_DIRECT if the file system does not support it
    assert path.read_bytes() == big.tobytes()
    big.fill(0)
    big.load_from(path, direct=True)
    assert big.tobytes() == bytes(range(256)) * 4096


def test_memory_without_strides(context):
    """ctypes leaves the strides out even where a consumer asks for them."""
    for memory, shape in (((ctypes.c_float * 4)(1, 2, 3, 4), (4,)), (((ctypes.c_float * 3) * 2)((1, 2, 3), (4, 5, 6)), (2, 3)),
                          (ctypes.c_double(3), ()), ((ctypes.c_int * 0)(), (0,)), (multiprocessing.sharedctypes.RawArray("d", 8), (8,)),
                          (((ctypes.c_int16 * 0) * 3)(), (3, 0))):
        a = ferry.wrap(memory, context=context)
        assert a.shape == shape and a.tobytes() == bytes(memory) and ferry.array(memory, context=context).tobytes() == bytes(memory)
        a.copy_from(memory)
        a.copy_to(memory)
        with a.update(device=1, raw=True):
            pass
        a.close()
    pairs = (ctypes.c_float * 2 * 3)()
    a = ferry.wrap(pairs, context=context)
    a.fill(2)
    a.close()
    assert [list(pair) for pair in pairs] == [[2, 2]] * 3


def test_dates(context, numpy):
    for what in (numpy.datetime64("2020-01-01"), numpy.timedelta64(1, "s"), numpy.zeros(3, "M8[s]"), numpy.zeros(3, [("t", "M8[s]")])):
        for door in (ferry.wrap, ferry.array):
            with pytest.raises(ferry.WrongTypeError, match="view"):
                door(what, context=context)
        with pytest.raises(ferry.WrongTypeError):
            ferry.zeros(3, "i8", context=context).copy_from(what)


def test_numbers_as_python_sees_them(context, numpy):
    half = ferry.array(numpy.arange(6, dtype="f2").reshape(1, 2, 3), context=context)
    assert half.tolist() == [[[0, 1, 2], [3, 4, 5]]] and half[0, 1, 2].tolist() == 5 and half[:, :0].tolist() == [[]]
    one = ferry.array(numpy.array([5], "i4"), context=context)
    assert bytes(one) == bytearray(one.tobytes()) == b"\5\0\0\0" and operator.index(one[0]) == 5
    for wrong in (one, ferry.array(numpy.array(2.0), context=context), ferry.array(numpy.array(True), context=context)):
        with pytest.raises(TypeError, match="index"):
            operator.index(wrong)
    rows = list(ferry.array(numpy.arange(6).reshape(2, 3), context=context))
    assert [row.tolist() for row in rows] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(TypeError, match="without dimensions"):
        iter(one[0])
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"i": [1, 2, 3]})
    frame["x"] = ferry.array([1.0, 2.0, 3.0], context=context)
    assert frame["x"].dtype == float and pandas.Series(half[0, 0]).dtype == "f2"


def test_no_elements_are_in_every_order(context, numpy):
    for shape in ((0,), (0, 3), (3, 0), (5, 0, 5), (0, 0)):
        for order in "CF":
            x = numpy.zeros(shape, "f4", order=order)
            for make in (ferry.array, ferry.wrap, *([ferry.from_dlpack] if hasattr(x, "__dlpack__") else [])):
                a = make(x, context=context)
                with a.update() as h:
                    assert h.shape == shape
                for flags in (numpy.ascontiguousarray, numpy.asfortranarray):
                    assert flags(a.read()).shape == shape
                assert numpy.asarray(a).shape == shape and a.copy().strides == a.strides
                a.copy_from(x)
                a.copy_to(x)


def test_orders_of_dimensions(context, numpy):
    """Memory in any order is copied from and to."""
    x = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
    for order in itertools.permutations(range(3)):
        memory = numpy.empty_like(x.transpose(order), order="C").transpose(numpy.argsort(order))
        for a in (ferry.zeros((2, 3, 4), context=context), ferry.wrap(memory, context=context)):
            for outside in (x, numpy.asfortranarray(x), numpy.repeat(x, 2, 2)[:, :, ::2], x[::-1][::-1]):
                a.fill(0)
                a.copy_from(outside)
                assert (numpy.asarray(a) == x).all()
                into = numpy.zeros_like(outside)
                a.copy_to(into)
                assert (into == x).all()
            assert (numpy.asarray(a.astype("f8")) == x).all()
            a.close()
    a = ferry.zeros((2, 3), "f8", context=context)
    a.copy_from(numpy.asfortranarray(x[0, :2, :3]), convert="check")
    assert a.tolist() == x[0, :2, :3].tolist()
    with pytest.raises(ferry.WrongTypeError):
        a.copy_from(numpy.asfortranarray(x[0, :2, :3]))
    with pytest.raises(ferry.UnsupportedError, match="wait=True"):
        a.copy_from(numpy.zeros((3, 2)).T, wait=False)
    fixed = numpy.zeros((3, 2)).T
    fixed.flags.writeable = False
    for target in (fixed, bytes(48), numpy.zeros((2, 2))):
        with pytest.raises((ferry.ArgumentError, ferry.WrongTypeError)):
            a.copy_to(target)


def test_traces_on_two_threads():
    """A trace that ends on one thread, while another one begins, does not turn that one off."""
    class Slow(ferry.Context):
        ending = None

        def _set_tracing(self, tracing):
            super()._set_tracing(tracing)
            if tracing and self.ending is not None:
                threading.Thread(target=self.ending.__exit__).start()
                time.sleep(0.05)

    context = Slow("emulated:1")
    a = ferry.array(bytes(16), context=context)
    first = context.trace().__enter__()
    context.ending = first
    with context.trace() as transfers:
        context.ending = None
        time.sleep(0.05)
        a.sync_to(1)
    assert transfers.bytes == 16 and not first


def test_big_endian_numbers(context, numpy):
    """Each door refuses them by its own check, and says why; with a dtype NumPy converts them."""
    values = numpy.array([1, 2, 258], ">i4")
    fields = numpy.zeros(3, numpy.dtype([("x", "<i4"), ("y", ">i4")]))

    class Big(ctypes.BigEndianStructure):
        _fields_ = [("x", ctypes.c_int32)]

    for door in (lambda: ferry.element(values.dtype), lambda: ferry.empty(3, values.dtype, context=context),
                 lambda: ferry.array(values, context=context), lambda: ferry.wrap(values, values.dtype, context=context),
                 lambda: ferry.wrap(values, context=context), lambda: ferry.array(fields, context=context),
                 lambda: ferry.wrap(fields, context=context)):
        with pytest.raises(ferry.WrongTypeError, match="big-endian: convert it"):
            door()
    for door in (lambda: ferry.element(">i4"), lambda: ferry.array((Big * 2)(), context=context)):
        with pytest.raises(ferry.UnsupportedError):
            door()
    a = ferry.zeros(3, "i4", context=context)
    for copy in (a.copy_from, a.copy_to):
        with pytest.raises((ferry.UnsupportedError, ferry.WrongTypeError)):
            copy(values)
    assert a.tolist() == [0, 0, 0] and values.tolist() == [1, 2, 258]
    assert a.dtype != ">i4" and a.dtype != values.dtype
    assert ferry.array(values, "i4", context=context).tolist() == [1, 2, 258]
