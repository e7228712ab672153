# SPDX-License-Identifier: MIT
"""What an array refuses alike, and what Python and NumPy may do with it nevertheless."""

import copy
import operator
import pickle
import weakref

import pytest

import ferry

BINARY = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"]
COMPARED = ["eq", "ne", "lt", "le", "gt", "ge"]
OPEN_IT = r"with a\.update\(\) as h"


def refused(call, *arguments):
    with pytest.raises(ferry.WrongTypeError, match=OPEN_IT):
        call(*arguments)


@pytest.mark.parametrize("name", BINARY + COMPARED + ["i" + name.strip("_") for name in BINARY] + ["divmod"])
def test_operators_raise(context, numpy, name):
    """Also where a number, a scalar or an ndarray of NumPy stands on the left, which would answer with a copy."""
    apply = divmod if name == "divmod" else getattr(operator, name)
    a = held = ferry.array(numpy.ones(3, "f4"), context=context)
    for other in (1, 2.5, "text", None, object(), numpy.float32(2), numpy.int64(2), numpy.ones(3, "f4"), numpy.bool_(True), ferry.zeros(3, context=context),
                  a):
        refused(apply, a, other)
        if not (name.startswith("i") or name == "mod" and isinstance(other, str)):  # which formats a text
            refused(apply, other, a)
    assert a is held and a.tolist() == [1, 1, 1]


def test_in_place_operators_do_not_rebind(context, numpy):
    a = held = ferry.zeros(3, context=context)
    for statement in ("a += 1", "a *= numpy.float32(2)", "a -= numpy.ones(3, 'f4')", "a @= a", "numpy.ones(3)[:] += a"):
        with pytest.raises(ferry.WrongTypeError, match=OPEN_IT):
            exec(statement, {"a": a, "numpy": numpy})
    assert a is held and a.tolist() == [0, 0, 0]


def test_unary_operators_and_items_raise(context):
    a = ferry.zeros((2, 3), context=context)
    for apply in (operator.neg, operator.pos, operator.invert, abs):
        refused(apply, a)
    refused(operator.setitem, a, 0, 1)
    refused(operator.setitem, a, (0, 0), 1)
    refused(operator.delitem, a, 0)
    refused(operator.contains, a, 1)
    assert a.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_methods_of_ndarrays_are_absent(context, numpy):
    """hasattr() is False, completion does not list them, and the AttributeError says what to do."""
    a = ferry.zeros(3, context=context)
    absent = [name for name in dir(numpy.ndarray) if not name.startswith("_") and not hasattr(a, name)]
    assert {"T", "sum", "mean", "ravel", "flatten", "max", "sort"} <= set(absent)
    for name in absent:
        if name in ("ctypes", "getfield", "setfield", "newbyteorder", "tostring", "device", "to_device"):
            continue
        with pytest.raises(AttributeError, match=OPEN_IT):
            getattr(a, name)
        assert name not in dir(a)
    assert "update" in dir(a) and "shape" in dir(a)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        a.nonsense


def test_functions_of_numpy_get_a_copy(context, numpy):
    a = ferry.array(numpy.arange(3.0), context=context)
    assert numpy.sum(a) == 3 and numpy.max(a) == 2 and numpy.linalg.norm(a) > 0 and numpy.add(a, 1).tolist() == [1, 2, 3]
    assert numpy.concatenate([a, a]).shape == (6,) and numpy.array_equal(a, [0, 1, 2]) and numpy.transpose(a).shape == (3,)
    numpy.testing.assert_array_equal(a, [0, 1, 2])
    assert a.places and numpy.where(a, a, a).shape == (3,)


def test_arrays_are_keys(context):
    """By identity: a comparison of two arrays does not say what is equal."""
    a, b = ferry.zeros(3, context=context), ferry.zeros(3, context=context)
    assert {a: 1, b: 2}[a] == 1 and a in [a] and a in (b, a)[1:] and len({a, b}) == 2


def test_dtypes_of_numpy(numpy, context):
    a = ferry.zeros(3, "f4", context=context)
    assert numpy.result_type(a) == numpy.float32 and numpy.dtype(a.dtype) == numpy.float32 and numpy.result_type(a, numpy.float64) == "f8"
    assert a.__numpy_dtype__ is a.dtype.dtype


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16", "V5"])
def test_elements_hash_as_their_dtypes(numpy, name):
    """What is equal has one hash."""
    kind = ferry.element(numpy.dtype(name))
    assert kind == numpy.dtype(name)
    if kind.kind != "struct":
        assert hash(kind) == hash(numpy.dtype(name)) and kind in {numpy.dtype(name)} and numpy.dtype(name) in {kind: 1}


def test_elements_are_copied_and_pickled(numpy):
    struct = numpy.dtype([("x", "f4"), ("n", "i2"), ("v", "f8", 3)], align=True)
    for kind in (ferry.element("f4"), ferry.element("bfloat16"), ferry.element(struct), ferry.element("V12")):
        for again in (copy.copy(kind), copy.deepcopy(kind), *(pickle.loads(pickle.dumps(kind, protocol)) for protocol in range(2, 6))):
            assert again is kind and hash(again) == hash(kind)


def test_weak_references(context, numpy):
    """All objects that a program holds, as those of other libraries."""
    a = ferry.array(numpy.zeros(3), context=context)
    made = [a, a[1:], a.read(), context, ferry.Kernel("k", host=print, parameters=[], context=context)]
    made += [a.copy_to(numpy.empty(3), wait=False)]
    if context.device_count:
        stream = ferry.Stream(context)
        made += [stream, stream.record(), context.stream()]
        del stream
    ended = []
    references = [weakref.ref(one, ended.append) for one in made if one is not context]
    assert all(reference() is not None for reference in references) and weakref.ref(context)() is context
    del made, a
    assert len(ended) == len(references) and all(reference() is None for reference in references)
