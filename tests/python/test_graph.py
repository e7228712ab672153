# SPDX-License-Identifier: MIT
"""Graphs of the Python package: what they repeat, refuse, keep and release."""

import gc
import weakref

import numpy as np
import pytest

import ferry


def add(x, amount):
    x += amount


def kernel(context, function=add):
    if context.place(1).kind == "cuda":
        pytest.skip("its kernels are CUDA source")
    return ferry.Kernel("add", host=function, parameters=["update f4 x", "f4 amount"], context=context)


def test_a_graph_repeats_its_work(context):
    stream = ferry.Stream(context)
    source, target = ferry.array(np.arange(8, dtype="f4"), context=context), ferry.zeros(8, "f4", context=context)
    with ferry.graph(stream, name="step") as graph:
        target.copy_from(source, stream=stream)
    assert target.tolist() == [0] * 8
    for value in range(3):
        source.fill(value)
        graph.launch()
        assert target.tolist() == [value] * 8
    source.fill(9)
    graph.launch(stream=context.stream())
    assert target.tolist() == [9] * 8
    graph.close()
    graph.close()
    assert graph.closed
    with pytest.raises(ferry.StateError, match="closed"):
        graph.launch()


def test_kernels_live_as_long_as_their_graph(context):
    stream, x = ferry.Stream(context), ferry.zeros(4, "f4", context=context)
    made = kernel(context, lambda x, amount: add(x, amount))
    gone = weakref.ref(made)
    with ferry.graph(stream) as graph:
        made(stream, 4, x, 2.0)
    del made
    gc.collect()
    assert gone() is not None
    graph.launch()
    graph.launch()
    assert x.tolist() == [4] * 4
    del graph
    gc.collect()
    assert gone() is None


def test_generated_kernels(context):
    if context.place(1).kind == "cuda":
        pytest.skip("they need the compiler of a GPU")
    stream, x = ferry.Stream(context), ferry.zeros(4, "f4", context=context)
    twice = ferry.elementwise("update float x", "x[i] = 2 * x[i] + 1;", context=context)
    with ferry.graph(stream) as graph:
        twice(x, stream=stream)
        twice(x, stream=stream)
    graph.launch()
    assert x.tolist() == [3] * 4
    graph.launch()
    assert x.tolist() == [15] * 4


def test_what_a_graph_cannot_contain_is_refused(context):
    stream, x = ferry.Stream(context), ferry.zeros(4, "f4", context=context)
    y = ferry.array(np.ones(4, "f4"), context=context)
    with ferry.graph(stream, name="strict") as graph:
        with pytest.raises(ferry.UnsupportedError, match='records graph "strict"'):
            x.copy_from(np.ones(4, "f4"), stream=stream)
        with pytest.raises(ferry.UnsupportedError):
            stream.synchronize()
        with pytest.raises(ferry.StateError, match="already"):
            ferry.graph(stream)
        with pytest.raises(ferry.StateError):
            graph.launch()
        x.copy_from(y, stream=stream)
    graph.launch()
    assert x.tolist() == [1] * 4
    with pytest.raises(ferry.UnsupportedError, match="default stream"):
        ferry.graph(context.stream())
    with pytest.raises(ferry.WrongTypeError):
        graph.launch(stream=1)
    with pytest.raises(ferry.WrongTypeError):
        ferry.graph(None)


def test_an_exception_discards_the_recording(context):
    stream, x = ferry.Stream(context), ferry.zeros(4, "f4", context=context)
    with pytest.raises(ZeroDivisionError):
        with ferry.graph(stream) as graph:
            x.fill(1, stream=stream)
            raise ZeroDivisionError
    assert graph.closed
    stream.synchronize()
    x.fill(2, stream=stream)
    assert x.tolist() == [2] * 4
