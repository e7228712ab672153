# SPDX-License-Identifier: MIT
"""Exchange of drawn ndarrays: any dtype and layout, taken and given back by the buffer protocol, DLPack and Arrow. What is taken has the same
values, or is refused by name."""

import gc
import random

import pytest

from drawn import drawn_dtype

import ferry

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
REFUSALS = (ferry.UnsupportedError, ferry.WrongTypeError, ferry.ArgumentError)
ROUNDS = 60


def drawn_memory(numpy, choose, dtype):
    """An ndarray of some bytes, perhaps unaligned, with some of its elements in some order."""
    shape = [choose.choice([0, 1, 1, 2, 3, 4]) for _ in range(choose.randint(0, 4))]
    count = int(numpy.prod(shape, dtype=int))
    start = choose.choice([0, 0, 0, 1, 2, 4, 8])
    made = numpy.frombuffer(bytearray(choose.randbytes(start + count * dtype.itemsize + 1)), dtype, count, start).reshape(shape)
    for _ in range(choose.randint(0, 3)):
        how = choose.randint(0, 3)
        if how == 0:
            made = made.transpose(choose.sample(range(made.ndim), made.ndim))
        elif how == 1:
            made = made[tuple(slice(None, None, choose.choice([1, -1, 2])) for _ in made.shape)]
        elif how == 2:
            made = made[tuple(slice(choose.randint(0, 1), choose.randint(0, size)) for size in made.shape)]
        elif choose.random() < 0.4:
            made = numpy.broadcast_to(made, (2, *made.shape))
    return made


def leaves(numpy, made):
    """The bytes of each number, in the order of the fields in memory: an element has those of inner structs in the outer one."""
    if made.dtype.names is None:
        return [numpy.ascontiguousarray(made).tobytes()]
    names = sorted(made.dtype.names, key=lambda name: made.dtype.fields[name][1])
    return [part for name in names for part in leaves(numpy, made[name])]


def same(numpy, a, expected):
    found = numpy.asarray(a)
    assert found.shape == expected.shape and found.dtype.itemsize == expected.dtype.itemsize, (found.dtype, expected.dtype)
    # Padding is not compared, and text is bytes in an element.
    assert b"".join(leaves(numpy, found)) == b"".join(leaves(numpy, expected)), (found.dtype, expected.dtype, expected.strides)


def taken(numpy, take, expected):
    """The array that `take` makes; None where it is refused."""
    try:
        made = take()
    except REFUSALS:
        return None
    same(numpy, made, expected)
    return made


@pytest.mark.parametrize("seed", range(4))
def test_drawn_layouts(context, numpy, seed):
    choose = random.Random(seed)
    count = 0
    for _ in range(ROUNDS):
        dtype, good = (numpy.dtype(choose.choice(NUMBERS)), True) if choose.random() < 0.6 else drawn_dtype(numpy, choose)
        if not good or dtype.hasobject:
            continue
        values = drawn_memory(numpy, choose, dtype)
        before = values.copy()
        a = ferry.array(values, context=context)  # which takes every layout
        same(numpy, a, values)
        count += 1
        try:
            view = memoryview(values)
        except ValueError:
            view = values  # NumPy has no format for it
        taken(numpy, lambda: ferry.array(view, context=context), values)
        for memory in (values, view):
            wrapped = taken(numpy, lambda: ferry.wrap(memory, context=context), values)
            if wrapped is not None:
                with wrapped.read(device=1):
                    pass
                wrapped.close()
        if choose.random() < 0.5:
            with a.update(device=1):
                pass
        with memoryview(a.read()) as lent:
            assert lent.readonly and lent.shape == values.shape
            back = ferry.array(lent, context=context)
            same(numpy, back, values)
            assert back.dtype == a.dtype
        if dtype.names is None and dtype.kind != "b":  # NumPy before 1.25 exports no bool
            if all(step % dtype.itemsize == 0 for step in values.strides) and values.flags.writeable:
                for copy in (None, True, False):
                    taken(numpy, lambda copy=copy: ferry.from_dlpack(values, copy=copy, context=context), values)
            shared = numpy.from_dlpack(a)
            same(numpy, shared, values)
            if shared.size:
                with pytest.raises(ferry.BusyError):
                    a.fill(0)
            del shared
            flat = a if a.ndim == 1 else ferry.array(before.reshape(-1), context=context)
            if dtype.kind != "c":
                same(numpy, ferry.from_arrow(flat, context=context), before.reshape(-1))
        gc.collect(0)
        assert leaves(numpy, values) == leaves(numpy, before)
    assert count > ROUNDS // 2
