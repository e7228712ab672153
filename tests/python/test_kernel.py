# SPDX-License-Identifier: MIT
"""Kernels, streams and events of the Python package: launches, values, images and failures."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import weakref

import pytest

import ferry

AXPY = ["read f4 x", "update f4 y", "f4 a", "size_t n"]
SOURCE = """extern "C" __global__ void axpy(const float *x, float *y, float a, size_t n)
{ size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }"""
PTX = ".version 8.0\n.visible .entry axpy(\n.param .u64 x, .param .u64 y, .param .f32 a, .param .u64 n)\n{}\n"
_registered = []


def axpy(x, y, a, n):
    assert len(x) == n and not isinstance(n, float)
    y += a * x


def make(context, **more):
    """The kernel. The driver without a GPU runs a registered function instead; a GPU needs the compiler."""
    if context.place(1).kind != "cuda":
        return ferry.Kernel("axpy", host=axpy, parameters=AXPY, context=context, **more)
    if _register():
        return ferry.Kernel("axpy", image=PTX, parameters=AXPY, context=context)
    try:
        return ferry.Kernel("axpy", source=SOURCE, parameters=AXPY, context=context)
    except ferry.UnsupportedError as error:
        pytest.skip(str(error))


def test_nvrtc_of_a_wheel(tmp_path):
    """NVIDIA's wheels put NVRTC where no loader looks."""
    driver = os.environ.get("FERRY_CUDA_LIBRARY", "")
    if "fakecuda" not in driver:
        pytest.skip("needs the driver without a GPU")
    library = os.path.join(os.path.dirname(driver), "libfakenvrtc_13.so")
    lib = tmp_path / "nvidia" / "cu13" / "lib"
    lib.mkdir(parents=True)
    shutil.copy(library, lib / "libnvrtc.so.13")
    program = f"""if True:
        import ctypes, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import ferry
        context = ferry.Context("cuda")
        driver = ctypes.CDLL({driver!r})
        driver.fakecuda_register_kernel(b"scale", None, 0, None)
        ferry.Kernel("scale", source="extern \\"C\\" __global__ void scale() {{}}", parameters=[], context=context)
        print(ctypes.CDLL({str(lib / "libnvrtc.so.13")!r}).fakenvrtc_compilations())"""
    environment = {name: value for name, value in os.environ.items() if name != "FERRY_NVRTC_LIBRARY"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                          env={**environment, "FERRY_CACHE_DIR": ""})
    assert done.stdout == "1\n", done.stdout + done.stderr


def _register():
    """Returns False if the driver has a GPU."""
    driver = ctypes.CDLL(os.environ["FERRY_CUDA_LIBRARY"])
    if not hasattr(driver, "fakecuda_register_kernel"):
        return False
    body = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)

    @body
    def run(parameters, grid, block):
        def value(index, kind):
            return ctypes.cast(parameters[index], ctypes.POINTER(kind))[0]

        n = value(3, ctypes.c_size_t)
        x = ctypes.cast(value(0, ctypes.c_void_p), ctypes.POINTER(ctypes.c_float))
        y = ctypes.cast(value(1, ctypes.c_void_p), ctypes.POINTER(ctypes.c_float))
        a = value(2, ctypes.c_float)
        for i in range(n):
            y[i] += a * x[i]

    sizes = (ctypes.c_size_t * 4)(8, 8, 4, 8)
    driver.fakecuda_register_kernel(b"axpy", run, 4, sizes)
    _registered.append((run, sizes))
    return True


def test_launch(context, numpy):
    kernel = make(context)
    x = ferry.array(numpy.arange(4, dtype="f4"), context=context)
    y = ferry.array(numpy.ones(4, "f4"), context=context)
    stream = ferry.Stream(context)
    kernel(stream, ferry.grid(4), x, y, 2.0, 4)
    assert y.tolist() == [1, 3, 5, 7]
    kernel(None, 4, x, x, 1, 4)  # the result is written in place
    assert x.tolist() == [0, 2, 4, 6]
    assert kernel.name == "axpy" and "axpy" in repr(kernel)


def test_wrong_arguments(context, numpy):
    kernel = make(context)
    x = ferry.array(numpy.ones(4, "f4"), context=context)
    double = ferry.array(numpy.ones(4), context=context)
    closed = x.copy()
    closed.close()
    other = ferry.array(numpy.ones(4, "f4"), context=ferry.Context("emulated:1"))
    for arguments, error in (((x, x, 1.0), ValueError), ((x, x, 1.0, 4, 5), ValueError), ((x, double, 1.0, 4), TypeError),
                             ((x, numpy.ones(4, "f4"), 1.0, 4), TypeError), ((x, x, "one", 4), TypeError),
                             ((x, x, 1.0, -4), OverflowError), ((x, closed, 1.0, 4), RuntimeError),
                             ((x, other, 1.0, 4), ferry.WrongContextError), ((x, x, x, 4), TypeError)):
        with pytest.raises(error):
            kernel(None, 4, *arguments)
    with x.read():
        with pytest.raises(ferry.BusyError):
            kernel(None, 4, x, x, 1.0, 4)
    assert x.tolist() == [1] * 4


def test_wrong_kernels(emulated):
    for parameters in (["read"], ["f4 a b"], [""], ["read write f4 x"]):
        with pytest.raises(ferry.Error):
            ferry.Kernel("k", host=print, parameters=parameters, context=emulated)
    with pytest.raises(ferry.Error):
        ferry.Kernel("k", parameters=[], context=emulated)
    with pytest.raises(TypeError):
        ferry.Kernel("k", host=3, parameters=[], context=emulated)


def test_exceptions_become_late_failures(emulated):
    def fail(x):
        raise KeyError("what went wrong")

    kernel = ferry.Kernel("fail", host=fail, parameters=["update f4 x"], context=emulated)
    x = ferry.empty(4, "f4", context=emulated)
    kernel(None, 4, x)
    with pytest.raises(ferry.DeviceError, match="KeyError.*what went wrong"):
        x.tolist()
    x.fill(0)
    stream = ferry.Stream(emulated)
    kernel(stream, 4, x)
    with pytest.raises(ferry.DeviceError, match="what went wrong"):
        stream.synchronize()
    x.fill(0)
    assert x.tolist() == [0] * 4


def test_arrays_of_a_host_function_may_be_kept(emulated, numpy):
    kept = []

    def keep(x, y):
        kept.extend((x, y))
        y[:] = x
        with pytest.raises(Exception):
            x.resize(10)

    kernel = ferry.Kernel("keep", host=keep, parameters=["read f4 x", "overwrite f4 y"], context=emulated)
    x, y = ferry.array(numpy.arange(4, dtype="f4"), context=emulated), ferry.empty(4, "f4", context=emulated)
    kernel(None, 4, x, y)
    assert y.tolist() == [0, 1, 2, 3]
    x.close(), y.close()
    gc.collect()
    assert kept[0].tolist() == [0, 1, 2, 3]
    kept[1][:] = 5


def test_every_value(emulated, numpy):
    seen = []
    types = ["f2", "f4", "f8", "i1", "i8", "u8", "?", "c8", "c16", "bfloat16", "size_t"]
    values = [1.5, 1.5, 1.5, -1, -(2**63), 2**64 - 1, True, 1 + 2j, 1 + 2j, 1.5, 7]
    kernel = ferry.Kernel("values", host=lambda x, *rest: seen.extend(rest), context=emulated,
                          parameters=["update f4 x", *types])
    x = ferry.empty(1, "f4", context=emulated)
    kernel(None, 1, x, *values)
    x.tolist()
    assert seen == values
    with pytest.raises(TypeError):
        kernel(None, 1, x, *[*values[:3], 128, *values[4:]])
    struct = ferry.element(numpy.dtype([("a", "i4"), ("b", "f8")], align=True))
    kernel = ferry.Kernel("struct", host=lambda x, s: seen.append((int(s["a"]), float(s["b"]))), context=emulated,
                          parameters=["update f4 x", ("", struct)])
    kernel(None, 1, x, (3, 4.5))
    x.tolist()
    assert seen[-1] == (3, 4.5)


def test_compiled_host_functions(emulated, numpy):
    numba = pytest.importorskip("numba")
    from numba import types

    @numba.cfunc(types.int32(types.CPointer(types.CPointer(types.float32)), types.CPointer(types.uintp)))
    def triple(pointers, counts):
        x = numba.carray(pointers[0], (counts[0],))
        for i in range(x.size):
            x[i] *= 3
        return 0

    kernel = ferry.Kernel("triple", host=triple, parameters=["update f4 x"], context=emulated)
    x = ferry.array(numpy.arange(4, dtype="f4"), context=emulated)
    kernel(None, 4, x)
    assert x.tolist() == [0, 3, 6, 9]


def test_kernels_wait_for_their_work(emulated, numpy):
    """A kernel that goes while its launches are queued: all of them run."""
    gate, ran = threading.Event(), []

    def wait(x):
        gate.wait(10)
        ran.append(len(x))

    kernel = ferry.Kernel("wait", host=wait, parameters=["update f4 x"], context=emulated)
    x = ferry.empty(4, "f4", context=emulated)
    for _ in range(3):
        kernel(None, 4, x)
    threading.Timer(0.1, gate.set).start()
    function = weakref.ref(wait)
    del kernel, wait
    gc.collect()
    assert ran == [4, 4, 4] and function() is None


def test_kernels_in_cycles_end(emulated):
    class Owner:
        pass

    owner = Owner()
    owner.kernel = ferry.Kernel("cycle", host=lambda x: owner, parameters=["update f4 x"], context=emulated)
    owner.kernel(None, 1, ferry.empty(1, "f4", context=emulated))
    ended = weakref.ref(owner)
    del owner
    gc.collect()
    assert ended() is None


def test_streams_and_events(context):
    one, two = ferry.Stream(context, 1), ferry.Stream(context, 1)
    begin = one.record(timed=True)
    two.wait(begin)
    end = two.record(timed=True)
    end.synchronize()
    assert end.done and begin.done and begin.seconds_until(end) >= 0
    assert begin.progress == (0, 0)
    with pytest.raises(ValueError):
        one.record().seconds_until(end)
    with pytest.raises(TypeError):
        begin.seconds_until(3)
    with pytest.raises(TypeError):
        one.wait(3)
    with ferry.Stream(context) as stream:
        assert stream.place == 1 and stream.context is context and "place 1" in repr(stream)
    again = ferry.Stream(context, 1, native=one.native)
    assert again.native == one.native
    with pytest.raises(ValueError):
        ferry.Stream(context, 7)
    with pytest.raises(ValueError):
        context.stream(0)


class Foreign:
    """A stream of another library, which holds its number under one of the names that libraries use."""

    def __init__(self, stream, name):
        self.stream = stream
        value = {"__cuda_stream__": (0, stream.native), "protocol": (0, stream.native), "handle": ctypes.c_void_p(stream.native)}
        if name == "protocol":
            self.__cuda_stream__ = lambda: value[name]
        else:
            setattr(self, name, value.get(name, stream.native))


@pytest.mark.parametrize("name", ["protocol", "__cuda_stream__", "cuda_stream", "ptr", "handle"])
def test_streams_of_other_libraries_live_as_long_as_they_are_wrapped(context, name):
    theirs = Foreign(ferry.Stream(context, 1), name)
    ended = weakref.ref(theirs)
    stream = ferry.Stream(context, 1, native=theirs)
    assert stream.native == theirs.stream.native
    a = ferry.zeros(10, context=context)
    with a.update(stream=stream) as d:
        del theirs, stream
        assert d.stream.native
    gc.collect()
    assert ended() is not None  # the access still has the stream
    del d
    gc.collect()
    assert ended() is None
    a.fill(1)
    assert a.tolist() == [1] * 10


def test_what_is_no_stream(context):
    for wrong in ("stream", object(), context):
        with pytest.raises(TypeError, match="is not a stream of CUDA"):
            ferry.Stream(context, 1, native=wrong)


def test_grids():
    assert ferry.grid(0).blocks == (1, 1, 1) and ferry.grid(257).blocks == (2, 1, 1)
    assert ferry.grid(10, threads=5, shared_bytes=64) == ((2, 1, 1), (5, 1, 1), 64, (0, 0, 0), False, False)


def test_launches_while_a_kernel_waits(emulated, numpy):
    """A wait takes out what it waits for: launches of other threads meanwhile are waited for later."""
    gate, ran = threading.Event(), []

    def hold(x):
        gate.wait(10)
        ran.append(1)

    kernel = ferry.Kernel("hold", host=hold, parameters=["update f4 x"], context=emulated)
    x, y = (ferry.empty(1, "f4", context=emulated) for _ in range(2))
    one, two = ferry.Stream(emulated), ferry.Stream(emulated)
    kernel(one, 1, x)
    waiting = threading.Thread(target=kernel._wait)
    waiting.start()
    time.sleep(0.05)
    kernel(two, 1, y)
    gate.set()
    waiting.join()
    assert kernel._wait() and len(ran) == 2


def test_wrong_parameters(emulated):
    for parameters in ([("write", "f4")], [("read",)], [3]):
        with pytest.raises(ValueError):
            ferry.Kernel("k", host=print, parameters=parameters, context=emulated)
    with pytest.raises(TypeError):
        ferry.Kernel("k", host=print, parameters=[], options=[3], context=emulated)

    def host():
        pass

    host.address = "10.0.0.1"
    kernel = ferry.Kernel("k", host=host, parameters=["f4"], context=emulated)
    with pytest.raises(TypeError):
        kernel(None, "many", 1.0)
    for wrong in (ferry.Grid((2**32 + 1, 1, 1)), ferry.Grid((-1, 1, 1))):
        with pytest.raises(ValueError):
            kernel(None, wrong, 1.0)


def test_grids_of_numpy(emulated, numpy):
    kernel = ferry.Kernel("k", host=lambda x: x.fill(2), parameters=["overwrite f4 x"], context=emulated)
    x = ferry.empty(3, context=emulated)
    kernel(None, numpy.int64(3), x)
    assert x.tolist() == [2, 2, 2]


def test_arrays_that_a_host_function_overwrites():
    """Nothing is copied to them, and what the function wrote is copied back."""
    context = ferry.Context("host")
    a = ferry.empty(1 << 22, "u1", context=context)
    a.fill(7)
    seen = []

    def write(x):
        seen.append(bytes(x[:1000]))
        x[:] = memoryview(bytes(len(x))) if isinstance(x, memoryview) else 9

    kernel = ferry.Kernel("write", host=write, parameters=["overwrite u1 x"], context=context)
    kernel(None, 1, a)
    assert set(a.tobytes()) in ({0}, {9})
    assert seen[0] != bytes([7]) * 1000


def test_places_say_which_code_they_run(context):
    places = [(place.language, place.target, place.native_context != 0) for place in context.places]
    assert places[0] == ("", "", False)
    assert set(places[1:]) == {("cuda", "sm_90", True) if context.place(1).kind == "cuda" else ("", "", False)}


def test_attributes_that_a_device_lacks(emulated):
    kernel = ferry.Kernel("k", host=print, parameters=["f4"], context=emulated)
    for attributes, words in (({"cooperative": True}, "FERRY_LAUNCH_COOPERATIVE"), ({"overlap": True}, "FERRY_LAUNCH_OVERLAP"),
                              ({"cluster": (1, 0, 0)}, "clusters")):
        with pytest.raises(ferry.UnsupportedError, match=f"the grid has {words}, which emulated"):
            kernel(None, ferry.Grid(**attributes), 1.0)


def test_grids_of_three_dimensions(context):
    if context.place(1).kind != "cuda":
        pytest.skip("a host function has no grid")
    seen = []
    body = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_uint))

    @body
    def run(parameters, blocks, threads):
        seen.append((tuple(blocks[:3]), tuple(threads[:3])))

    driver = ctypes.CDLL(os.environ["FERRY_CUDA_LIBRARY"])
    if not hasattr(driver, "fakecuda_register_kernel"):
        pytest.skip("a driver with a GPU runs no registered function")
    sizes = (ctypes.c_size_t * 1)(8)
    driver.fakecuda_register_kernel(b"gridded", run, 1, sizes)
    _registered.append((run, sizes))
    image = PTX.replace("axpy", "gridded").replace(", .param .u64 y, .param .f32 a, .param .u64 n", "")
    for one in (image, image.encode() + b"\0"):
        kernel = ferry.Kernel("gridded", image=one, parameters=["update f4 x"], context=context)
        kernel(None, ferry.Grid((4, 3, 2), (8, 4, 2), 128), ferry.empty(3, context=context))
        context.stream().synchronize()
    assert seen == [((4, 3, 2), (8, 4, 2))] * 2

    class Attributes(ctypes.Structure):
        _fields_ = [("cooperative", ctypes.c_bool), ("overlap", ctypes.c_bool), ("cluster", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint)]

    driver.fakecuda_last_attributes.restype = Attributes
    for attributes in ({}, {"cooperative": True}, {"overlap": True}, {"cluster": (2, 3, 1)}):
        kernel(None, ferry.Grid((4, 3, 2), (8, 4, 2), **attributes), ferry.empty(3, context=context))
        last = driver.fakecuda_last_attributes()
        assert (last.cooperative, last.overlap, tuple(last.cluster)) == (
            "cooperative" in attributes, "overlap" in attributes, attributes.get("cluster", (0, 0, 0)))
    with pytest.raises(ferry.ArgumentError, match="clusters of 3x3x1 blocks, but a cluster has at most 8"):
        kernel(None, ferry.Grid((9, 9, 1), cluster=(3, 3, 1)), ferry.empty(3, context=context))


def test_source_in_several_languages(emulated):
    """An emulated device takes none of the sources, and says what the kernel has."""
    opencl = "__kernel void k(__global float *x) {}"
    a = ferry.zeros(4, "f4", context=emulated)
    for options, words in (({"opencl_source": opencl, "opencl_options": ["-w"], "exact": True}, "it has OpenCL C source only"),
                           ({"opencl_source": opencl, "source": "void k();"}, "it has CUDA source and OpenCL C source only"),
                           ({"source": "void k();", "image": b"x"}, "it has CUDA source and a CUDA image only")):
        kernel = ferry.Kernel("k", parameters=["update f4 x"], context=emulated, **options)
        with pytest.raises(ferry.UnsupportedError, match=words):
            kernel(None, 4, a)
    with pytest.raises(ferry.ArgumentError, match="it has no opencl_source"):
        ferry.Kernel("k", host=print, parameters=[], opencl_options=["-w"], context=emulated)
    with pytest.raises(ferry.ArgumentError, match="it has no source"):
        ferry.Kernel("k", opencl_source=opencl, parameters=[], options=["-w"], context=emulated)
    with pytest.raises(ferry.WrongTypeError, match="opencl_source is a text"):
        ferry.Kernel("k", opencl_source=b"", parameters=[], context=emulated)


def test_options_of_the_compiler():
    """They reach it: the text that this compiler makes has them."""
    driver = os.environ.get("FERRY_CUDA_LIBRARY", "")
    compiler = driver.replace("libfakecuda", "libfakenvrtc")
    if "fakecuda" not in driver or not os.path.exists(compiler):
        pytest.skip("needs the driver and the compiler that need no GPU")
    program = textwrap.dedent("""
        import ctypes, os, ferry
        compiler = ctypes.CDLL(os.environ["FERRY_NVRTC_LIBRARY"])
        c = ferry.Context("cuda")
        def compiled(options, exact=False):
            before = compiler.fakenvrtc_compilations()
            ferry.Kernel("k", source='extern "C" __global__ void k(float *x) {}', parameters=["update f4 x"], options=options, exact=exact, context=c)
            return compiler.fakenvrtc_compilations() - before
        assert [compiled(options) for options in ([], [], ["-fmad=false"], ["-fmad=false"], ["-fmad=true"])] == [1, 0, 1, 0, 1]
        assert [compiled(["-fmad=true"], exact) for exact in (True, True, False)] == [1, 0, 0]
    """)
    folder = tempfile.mkdtemp()
    try:
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60,
                       env={**os.environ, "FERRY_NVRTC_LIBRARY": compiler, "FERRY_CACHE_DIR": folder})
    finally:
        shutil.rmtree(folder)


def test_events_that_are_cancelled_or_dropped(emulated, tmp_path):
    """The memory of a copy stays until the copy has ended."""
    a = ferry.array(bytes([3]) * (1 << 20), context=emulated)
    memory = bytearray(1 << 20)
    event = a.copy_to(memory, wait=False)
    with pytest.raises(BufferError):
        memory.append(1)
    del event  # waits for the copy
    assert memory == a.tobytes()
    memory.append(1)
    event = a.store(tmp_path / "file", wait=False)
    event.cancel()
    for ask in (event.synchronize, lambda: event.done):
        try:
            ask()
        except ferry.CancelledError:
            pass
    assert a.tobytes() == bytes([3]) * (1 << 20)


def test_prefetched_arrays(context):
    a = ferry.array(bytes(range(64)), context=context)
    context.reset_stats()
    a.prefetch(1)
    with a.update(device=1):
        pass
    a.prefetch(0)
    assert a.tobytes() == bytes(range(64))
    moved = context.stats()
    assert moved.upload.bytes == (0 if context.place(1).kind == "host" else 64)
