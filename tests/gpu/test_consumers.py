# SPDX-License-Identifier: MIT
"""CuPy, PyTorch, JAX and Numba beside Ferry on one GPU: memory that both use, and the order of their streams."""

import importlib

import numpy
import pytest

import ferry

LARGE = 1 << 24


def library(name):
    """The module, if it is here and finds a GPU."""
    try:
        module = importlib.import_module(name)
        found = {"cupy": lambda: module.cuda.is_available(), "torch": lambda: module.cuda.is_available(),
                 "jax": lambda: module.default_backend() == "gpu", "numba.cuda": lambda: module.is_available()}[name]()
    except Exception as error:  # whatever a library raises that does not work here
        pytest.skip(f"{name}: {error}")
    return module if found else pytest.skip(f"{name} finds no GPU")


@pytest.fixture
def context():
    messages = []
    made = ferry.Context("cuda", log=lambda level, message: messages.append((level, message)))
    yield made
    assert [message for level, message in messages if level == 1] == []


def on_device(values, context):
    """An array whose newest values are on the GPU alone."""
    a = ferry.array(values, context=context)
    with a.update(device=1):
        pass
    assert a.__dlpack_device__() == (2, 0)
    return a


def test_cupy_takes_an_array(context):
    cupy = library("cupy")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    x = cupy.from_dlpack(a)
    x += 1
    with pytest.raises(ferry.BusyError):
        a.tolist()
    del x
    assert a.tolist() == list(range(1, 1001))


def test_cupy_on_its_own_stream(context):
    cupy = library("cupy")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    with cupy.cuda.Stream(non_blocking=True) as theirs:
        stream = ferry.Stream(context, 1, native=theirs)
        with a.update(stream=stream) as d:
            x = cupy.from_dlpack(d)
            x *= 2
            y = cupy.asarray(d)
            y += 1
            del x, y
        assert a.tolist() == [2.0 * i + 1 for i in range(1000)]


def test_reads_wait_for_a_stream_of_cupy(context):
    """Two hundred additions of 64 MiB are still running when the host asks for the values."""
    cupy = library("cupy")
    a = on_device(numpy.zeros(LARGE, "f4"), context)
    with cupy.cuda.Stream(non_blocking=True) as theirs:
        stream = ferry.Stream(context, 1, native=theirs)
        with a.update(stream=stream) as d:
            x = cupy.from_dlpack(d)
            for _ in range(200):
                x += 1
            del x
        with a.read() as h:
            assert h.min() == h.max() == 200


def test_ferry_takes_memory_of_cupy(context):
    cupy = library("cupy")
    x = cupy.zeros(LARGE, "f4")
    for _ in range(100):
        x += 1
    a = ferry.from_dlpack(x, context=context)
    assert a.places == (1,)
    with a.read() as h:
        assert h.min() == h.max() == 100
    a.fill(7)
    a.close()
    assert float(x.min()) == float(x.max()) == 7


def test_torch(context):
    torch = library("torch")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    t = torch.from_dlpack(a)
    assert t.device.type == "cuda"
    t.add_(1)
    del t
    assert a.tolist() == list(range(1, 1001))
    values = torch.ones(LARGE, device="cuda")
    for _ in range(100):
        values += 1
    b = ferry.from_dlpack(values, context=context)
    with b.read() as h:
        assert h.min() == h.max() == 101
    b.fill(5)
    b.close()
    assert bool((values == 5).all())


def test_torch_on_its_own_stream(context):
    torch = library("torch")
    a = on_device(numpy.zeros(LARGE, "f4"), context)
    theirs = torch.cuda.Stream()
    stream = ferry.Stream(context, 1, native=theirs)
    with torch.cuda.stream(theirs):
        with a.update(stream=stream) as d:
            t = torch.from_dlpack(d)
            for _ in range(200):
                t += 1
            del t
    with a.read() as h:
        assert h.min() == h.max() == 200


def test_torch_and_kernels_in_turn(context):
    """A hundred rounds on one stream, without a wait between them."""
    torch = library("torch")
    theirs = torch.cuda.Stream()
    stream = ferry.Stream(context, 1, native=theirs)
    add = ferry.elementwise("f4 a, update f4 x", "x[i] = x[i] + a;", context=context)
    a = on_device(numpy.zeros(LARGE, "f4"), context)
    with torch.cuda.stream(theirs):
        for _ in range(100):
            with a.update(stream=stream) as d:
                t = torch.from_dlpack(d)
                t += 1
                del t
            add(2, a, stream=stream)
    with a.read() as h:
        assert h.min() == h.max() == 300


def test_jax(context, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = library("jax")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    x = jax.dlpack.from_dlpack(a) * 2
    assert x.tolist() == [2.0 * i for i in range(1000)]
    b = ferry.from_dlpack(x, context=context)
    assert b.places == (1,) and b.tolist() == x.tolist()


def test_numba(context):
    cuda = library("numba.cuda")

    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    try:
        double[1, 32](cuda.to_device(numpy.zeros(32, "f4")))
    except Exception as error:  # for example for a NumPy that is too new
        pytest.skip(f"numba without ferry: {error}")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    with a.update(device=1) as d:
        double[8, 128](cuda.as_cuda_array(d))
        cuda.synchronize()
    assert a.tolist() == [2.0 * i for i in range(1000)]


def test_expressions_give_the_bits_of_numpy(context):
    values = numpy.random.default_rng(5).random(100003, "f4")
    x = ferry.array(values, context=context)
    scale = ferry.elementwise("T a, read T x, overwrite T y", "y[i] = sqrtf(x[i]) / a - x[i];", context=context)
    y = scale(3, x)
    assert y.places == (1,)
    assert (numpy.asarray(y) == numpy.sqrt(values) / numpy.float32(3) - values).all()
    total = ferry.reduction("read T x", "x[i]", "sum", "f8", context=context)(x)
    assert abs(total - values.sum(dtype="f8")) < 1e-6 * total
    assert ferry.reduction("read T x", "x[i]", "max", "f4", context=context)(x) == values.max()


def graph_of(torch, stream, action, mode="global"):
    """A graph of what `action` does on the stream. It runs before, because what is captured must not allocate or load."""
    with torch.cuda.stream(stream):
        action()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode=mode):
        action()
    return graph


def test_torch_graph_over_memory_of_ferry(context):
    """A graph that uses a buffer's memory replays inside a scope on its stream, and Ferry orders what comes after it."""
    torch = library("torch")
    theirs = torch.cuda.Stream()
    stream = ferry.Stream(context, 1, native=theirs)
    a = on_device(numpy.zeros(LARGE, "f4"), context)
    with a.update(stream=stream) as d:
        t = torch.from_dlpack(d)
        graph = graph_of(torch, theirs, lambda: t.add_(1))
        with torch.cuda.stream(theirs):
            for _ in range(100):
                graph.replay()
        del t
    with a.read() as h:
        assert h.min() == h.max() == 101


def test_torch_graph_while_ferry_copies(context):
    """A copy that Ferry makes on another stream leaves a relaxed capture valid."""
    torch = library("torch")
    x = torch.zeros(LARGE, device="cuda")
    a = on_device(numpy.arange(1000, dtype="f4"), context)

    def add():
        x.add_(1)
        if torch.cuda.is_current_stream_capturing():
            assert a.tolist() == list(range(1000))

    graph_of(torch, torch.cuda.Stream(), add, "relaxed").replay()
    torch.cuda.synchronize()
    assert float(x.min()) == float(x.max()) == 2


def test_torch_graph_with_a_wrapper_that_ends(context):
    """A wrapper of the captured stream that ends inside the capture leaves the capture and later uses valid."""
    torch = library("torch")
    theirs = torch.cuda.Stream()
    x = torch.zeros(LARGE, device="cuda")
    a = on_device(numpy.arange(1000, dtype="f4"), context)
    with a.update(stream=ferry.Stream(context, 1, native=theirs)):
        pass

    def add():
        x.add_(1)
        ferry.Stream(context, 1, native=theirs)

    graph_of(torch, theirs, add).replay()
    torch.cuda.synchronize()
    assert float(x.min()) == float(x.max()) == 2
    assert a.tolist() == list(range(1000))


def test_torch_graph_refuses_what_copies(context):
    """An access on the captured stream that would have to copy is refused, and the capture stays valid."""
    torch = library("torch")
    theirs = torch.cuda.Stream()
    stream = ferry.Stream(context, 1, native=theirs)
    x = torch.zeros(LARGE, device="cuda")
    a = ferry.array(numpy.arange(1000, dtype="f4"), context=context)

    def add():
        x.add_(1)
        if torch.cuda.is_current_stream_capturing():
            with pytest.raises(ferry.UnsupportedError), a.update(stream=stream):
                pass

    graph_of(torch, theirs, add).replay()
    torch.cuda.synchronize()
    assert float(x.min()) == float(x.max()) == 2
    assert a.tolist() == list(range(1000))
