#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Call everything that the package exports with drawn arguments, beside plain ndarrays that say what the arrays must hold.

usage: PYTHONPATH=BUILD/python fuzz.py [--seed N] [--seconds S] [--steps N] [--log FILE]

A step has a meaning, and its result is compared with that of NumPy, or it has none: then any function or method is called
with any arguments, and may raise what python.md names. The log has one line for each call, so that its last line is the
one that ended the process. It needs NumPy.
"""

import argparse
import array as array_of
import contextlib
import ctypes
import faulthandler
import gc
import inspect
import os
import pickle
import random
import resource
import sys
import tempfile
import threading
import time

import numpy as np

import ferry
from drawn import drawn_dtype

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16"]
# What python.md documents beside ferry.Error: the protocols of Python and NumPy keep their exceptions.
ALLOWED = (ferry.Error, TypeError, BufferError, MemoryError)
# Protocols whose own exceptions are others.
OWN = {"__array__": (ValueError,), "__cuda_array_interface__": (AttributeError,), "from_dlpack": (AttributeError,), "from_arrow": (AttributeError, ValueError)}


class Boom(Exception):
    """What objects of the program raise inside a call of the package."""


class Raises:
    """An object that fails wherever it is asked for anything."""

    def _fail(self, *arguments, **options):
        raise Boom

    __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = __array__ = __call__ = __fspath__ = __bool__ = _fail
    __dlpack__ = __dlpack_device__ = __arrow_c_array__ = _fail


class Closes:
    """A size whose code closes an array."""

    def __init__(self, array):
        self.array = array

    def __index__(self):
        self.array.close()
        return 2


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int8), ("b", ctypes.c_double)]


def bytes_of_fields(values):
    """The bytes of an ndarray without those of the padding, which NumPy does not copy."""
    raw = np.frombuffer(values.tobytes("C"), np.uint8).reshape(-1, max(values.dtype.itemsize, 1))
    if values.dtype.names is None:
        return raw.tobytes()
    named = np.zeros(values.dtype.itemsize, bool)
    for _, kind, offset, count in ferry.element(values.dtype).fields:
        named[offset:offset + kind.itemsize * count] = True
    return raw[:, named].tobytes()


class Held:
    """An array, and the ndarray that says what it holds. Views of both share memory."""

    def __init__(self, array, values, memory=None):
        self.array, self.values, self.memory = array, values, memory


class Fuzzer:
    def __init__(self, seed, log):
        self.choose, self.log, self.step_number = random.Random(seed), log, 0
        self.messages = []
        self.context = ferry.Context("emulated:2", log=lambda level, message: self.messages.append((level, message)))
        self.other = ferry.Context("host")
        self.held, self.junk = [], []
        self.kernels = [ferry.Kernel("double", host=lambda x: np.add(x, x, out=x), parameters=["update i4 x"], context=self.context)]
        self.expressions = []
        with contextlib.suppress(ImportError, ferry.UnsupportedError):
            self.expressions = [ferry.elementwise("T a, update T x", "x[i] = x[i] + a;", context=self.context),
                                ferry.reduction("read T x", "x[i]", "max", "T", context=self.context)]

    def note(self, *words):
        os.write(self.log, (f"{self.step_number}: " + " ".join(map(str, words))).replace("\n", " ").encode("utf-8", "replace")[:400] + b"\n")

    # -- steps with a meaning --------------------------------------------------------------------------------------------

    def drawn_values(self):
        shape = tuple(self.choose.choice([0, 1, 2, 3, 5]) for _ in range(self.choose.randint(0, 3)))
        if self.choose.random() < 0.2:
            dtype, good = drawn_dtype(np, self.choose)
            if good:
                count = int(np.prod(shape))
                return np.frombuffer(self.choose.randbytes(count * dtype.itemsize), dtype).reshape(shape).copy() if count else np.zeros(shape, dtype)
        values = np.array(self.choose.choices(range(100), k=int(np.prod(shape)))).reshape(shape).astype(self.choose.choice(DTYPES))
        return values

    def make(self):
        values = self.drawn_values()
        layout = self.choose.choice(["plain", "columns", "strided", "list", "ctypes", "ctypes"])
        source = values
        if layout == "columns":
            source = values = np.asfortranarray(values)
        elif layout == "strided" and values.ndim:
            source = np.repeat(values, 2, values.ndim - 1)[..., ::2]
        elif layout == "list" and values.dtype.names is None and values.size:
            source = values.tolist()
        elif layout == "ctypes" and values.dtype.kind in "iuf" and values.ndim and values.size:
            source = values = values.astype("f4") if values.dtype == "f2" else values.copy()
            source = np.ctypeslib.as_ctypes(source)
        how = self.choose.choice(["array", "wrap", "from_dlpack", "empty"])
        self.note(how, layout, values.dtype, values.shape)
        if how == "wrap" and layout != "list":
            try:
                a = ferry.wrap(source, context=self.context)
            except ferry.UnsupportedError:
                assert isinstance(source, np.ndarray) and not (source.flags.c_contiguous or source.flags.f_contiguous)
                return
            self.held.append(Held(a, np.array(source, values.dtype, order="K"), source))
        elif how == "from_dlpack" and hasattr(np.ndarray, "__dlpack__") and values.dtype.names is None and values.dtype.kind != "b":
            copied = np.array(source, values.dtype)
            self.held.append(Held(ferry.from_dlpack(copied, context=self.context), copied.copy()))
        elif how == "empty":
            a = ferry.zeros(values.shape, values.dtype, context=self.context, name=self.choose.choice([None, "a", "größe"]))
            self.held.append(Held(a, np.zeros(values.shape, values.dtype)))
        else:
            a = ferry.array(source, values.dtype if layout == "list" else None, context=self.context)
            self.held.append(Held(a, np.array(values, order="C")))

    def check(self, held):
        values = held.values
        got = np.asarray(held.array)
        assert got.shape == values.shape and bytes_of_fields(got) == bytes_of_fields(values), (got, values)
        if values.dtype.names is None and not values.dtype.kind == "f":
            assert held.array.tolist() == values.tolist()
        assert bytes(held.array) == held.array.tobytes() and len(bytes(held.array)) == values.nbytes
        with held.array.read() as h:
            assert bytes_of_fields(h) == bytes_of_fields(values)
        assert bytes_of_fields(np.asarray(held.array.read())) == bytes_of_fields(values)

    def slice(self, held):
        key = tuple(self.choose.choice([slice(None), slice(1, None), slice(0, 2), slice(-2, None), 0, -1, 2, slice(None, None, 2)])
                    for _ in range(self.choose.randint(0, held.values.ndim)))
        try:
            view = held.array[key]
        except (ferry.RangeError, ferry.UnsupportedError):
            return
        self.held.append(Held(view, held.values[(*key, ...)], held))  # an array also where the key leaves no dimension

    def fill(self, held):
        if held.values.dtype.names is None:
            value = self.choose.randint(0, 100)
            held.array.fill(value)
            held.values[...] = value

    def write(self, held):
        mode = self.choose.choice(["update", "overwrite"])
        new = np.array(self.choose.choices(range(100), k=held.values.size)).reshape(held.values.shape)
        with getattr(held.array, mode)() as h:
            if held.values.dtype.names is None:
                h[...] = new
                held.values[...] = new
            elif mode == "overwrite":
                h[...] = np.zeros(1, h.dtype)[0]
                held.values[...] = np.zeros(1, held.values.dtype)[0]

    def throws(self, held):
        """An exception in an access. Where another place has the bytes they stay what they were."""
        mode, device = self.choose.choice(["read", "update", "overwrite"]), self.choose.choice([None, None, 1, 2])
        elsewhere = [place for place in (0, 1, 2) if place != (device or 0)]
        held.array.sync_to(self.choose.choice(elsewhere))
        self.note("throws in", mode, "at", device)
        with contextlib.suppress(Boom):
            with getattr(held.array, mode)(device=device) as h:
                if device is None and mode != "read" and held.values.dtype.names is None and self.choose.random() < 0.5:
                    h[...] = 77
                raise Boom
        self.check(held)

    def copies(self, held):
        other = np.asarray(held.array)
        target = np.zeros(held.values.shape, held.values.dtype, order=self.choose.choice("CF"))
        held.array.copy_to(target)
        assert bytes_of_fields(target) == bytes_of_fields(held.values) == bytes_of_fields(other)
        held.array.copy_from(target)
        for made in (held.array.copy(), pickle.loads(pickle.dumps(held.array, self.choose.choice([2, 5])))):
            assert made.dtype == held.array.dtype and bytes_of_fields(np.asarray(made)) == bytes_of_fields(held.values)

    def convert(self, held):
        if held.values.dtype.kind in "iu":
            assert (np.asarray(held.array.astype("f8")) == held.values.astype("f8")).all()

    def move(self, held):
        what = self.choose.choice(["sync_to", "evict", "prefetch", "read", "update"])
        place = self.choose.randint(0, 2)
        self.note(what, place)
        if what in ("read", "update"):
            with getattr(held.array, what)(device=max(place, 1)) as d:
                assert d.ptr or not held.array.nbytes
        else:
            with contextlib.suppress(ferry.StateError):  # memory that its owner lent is not evicted
                getattr(held.array, what)(place)

    def run(self, held):
        if held.values.dtype == np.dtype("i4") and held.values.ndim <= 1:
            self.kernels[0](None, max(held.values.size, 1), held.array)
            np.add(held.values, held.values, out=held.values)
        elif self.expressions and held.values.dtype in (np.dtype("f4"), np.dtype("f8")) and held.values.size:
            self.expressions[0](3, held.array)
            np.add(held.values, np.array(3, held.values.dtype), out=held.values)
            if not np.isnan(held.values).any():
                assert self.expressions[1](held.array) == held.values.max()

    def close(self, held):
        held.array.close()
        if isinstance(held.memory, np.ndarray) and held.memory.flags.writeable:
            assert bytes_of_fields(held.memory) == bytes_of_fields(held.values)
        self.held.remove(held)

    # -- steps without a meaning -----------------------------------------------------------------------------------------

    def anything(self):
        """An argument of any type."""
        choose = self.choose
        arrays = [held.array for held in self.held] or [ferry.zeros(2, context=self.context)]
        kinds = [
            lambda: choose.choice([None, True, False, 0, 1, 2, 3, -1, 255, 2**31, 2**63, -2**63, 2**70, 0.5, float("nan"), float("inf"), 1e300, 2j]),
            lambda: choose.choice(["", "1", "f4", "i4", "host", "saturate", "check", "bfloat16", ">f8", "M8[s]", "größe", "\ud800", "a\0b", "T{f:x:}"]),
            lambda: choose.choice([b"", b"12345678", bytearray(8), memoryview(bytearray(16)).cast("i"), memoryview(b"abcdefgh")[::2]]),
            lambda: choose.choice([(), (2,), (2, 3), (0, 4), (-1,), (1, 0), (1, "x"), [1, 2], [[1], [2, 3]], [None], {}, {"x": 1}, range(3), slice(1, 2), ...]),
            lambda: choose.choice(arrays),
            lambda: choose.choice(arrays),
            lambda: choose.choice([self.context, self.other, self.context.stream(1), self.context.stream(2), self.context.stream(1).record(),
                                   *self.kernels, *self.expressions, ferry.grid(3), ferry.element("f4"), ferry.element("bfloat16")]),
            lambda: choose.choice([(ctypes.c_float * 4)(), ((ctypes.c_int * 3) * 2)(), (ctypes.c_int * 0)(), (Pair * 2)(), ctypes.c_double(1),
                                   (ctypes.c_char_p * 2)(), array_of.array("d", [1, 2])]),
            lambda: choose.choice([np.float32(1), np.int64(3), np.bool_(True), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.void(b"1234"),
                                   np.str_("x"), np.array(5), np.zeros((2, 3), order="F"), np.zeros(6)[::-1], np.zeros(3, "M8[s]"), np.zeros(2, "O"),
                                   np.zeros(3, ">i4"), np.zeros(2, "S0"), np.ma.zeros(3), np.zeros((2, 0, 3)), np.broadcast_to(np.zeros(1), (3,))]),
            lambda: np.zeros(2, drawn_dtype(np, choose)[0]),
            lambda: drawn_dtype(np, choose)[0],
            lambda: choose.choice([np.dtype("f4"), np.float64, int, object, str, type, len, print, lambda *values: False, Raises(), Raises, Closes(choose.choice(arrays))]),
            lambda: choose.choice([*self.junk, None]),
            self.drawn_values,
        ]
        return choose.choice(kinds)()

    def targets(self):
        """Every public function, and a bound method or property of every public class."""
        objects = [held.array for held in self.held[-8:]] + [self.context, self.context.stream(1), *self.kernels, *self.expressions,
                                                             ferry.element("f4"), *self.junk[-6:]]
        one = self.choose.choice(objects)
        if self.choose.random() < 0.35:
            name = self.choose.choice([name for name in ferry.__all__ if name not in UNCALLED])
            return name, getattr(ferry, name), ()
        names = [name for name in dir(type(one)) if (not name.startswith("_") or name in PROTOCOLS) and name not in UNCALLED
                 and not (isinstance(one, tuple) and hasattr(tuple, name))]
        return (type(one).__name__ + "." + (name := self.choose.choice(names))), name, (one,)

    def wild(self):
        name, target, owner = self.targets()
        arguments = [self.anything() for _ in range(self.choose.choice([0, 1, 1, 1, 2, 2, 3]))]
        options = {}
        try:
            function = getattr(type(owner[0]), target) if owner else target
            named = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind == parameter.KEYWORD_ONLY]
        except (ValueError, TypeError, AttributeError):
            named = []
        for parameter in named:
            if parameter.name not in ("native", "context") and self.choose.random() < 0.3:
                options[parameter.name] = self.anything()
        if any(parameter.name == "context" for parameter in named) and self.choose.random() < 0.8:
            options["context"] = self.context
        self.note("call", name, *(repr(type(one)) + repr(one)[:60] if not isinstance(one, (Raises, Closes)) else type(one) for one in arguments),
                  options.keys())
        try:
            if owner:
                member = getattr(owner[0], target)
                result = member(*arguments, **options) if callable(member) and not isinstance(member, type) else member
            else:
                result = target(*arguments, **options)
        except (Boom, FileNotFoundError, *ALLOWED, *OWN.get(name.rpartition(".")[2], ())) as error:
            assert str(error) is not None
            return
        except AttributeError as error:
            if "does not know at which place" not in str(error):  # what arrays say that lack a method of ndarrays
                raise
            return
        except ValueError as error:
            # What ndarrays say when they are asked for one truth value, or compared with another shape.
            if "truth value" not in str(error) and "broadcast" not in str(error):
                raise
            return
        if hasattr(result, "__next__"):
            result = None
        if isinstance(result, ferry.Array):
            repr(result)
            if result.nbytes < 1 << 20 and not result.closed:
                self.junk.append(result)
        elif type(result).__module__.startswith("ferry") and type(result) is not ferry.Context:
            self.junk.append(result)

    def threads(self):
        """Three threads call anything at once; what the arrays hold is not known afterwards."""
        failed = []

        def work(seed):
            own = object.__new__(Fuzzer)
            own.__dict__.update(self.__dict__, choose=random.Random(seed), held=list(self.held), junk=[])
            for _ in range(8):
                try:
                    own.wild()
                except BaseException as error:
                    failed.append(error)
        running = [threading.Thread(target=work, args=(self.choose.random(),)) for _ in range(3)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if failed:
            raise failed[0]

    # -- the loop --------------------------------------------------------------------------------------------------------

    def resync(self):
        """Take what the arrays hold now as what they must hold. Those that are closed, busy for good, or overlap others go."""
        self.junk = [one for one in self.junk[-12:] if self.choose.random() < 0.5]
        if self.choose.random() < 0.05:
            gc.collect()
        kept = []
        for held in self.held:
            with contextlib.suppress(ferry.Error):
                if held.array.nbytes < 1 << 20 and held.values is not None and not held.array.closed and not isinstance(held.memory, Held):
                    now = np.asarray(held.array)
                    if bytes_of_fields(now) != bytes_of_fields(held.values):
                        held.values = np.array(now.view(held.values.dtype) if now.dtype != held.values.dtype else now, order="K")
                    kept.append(held)
        self.held = kept[-12:]

    def step(self):
        self.step_number += 1
        chance = self.choose.random()
        if not self.held or chance < 0.15:
            return self.make()
        if chance < 0.55:
            self.wild()
            return self.resync()
        if chance < 0.57:
            self.threads()
            return self.resync()
        held = self.choose.choice(self.held)
        method = self.choose.choice([self.check, self.check, self.slice, self.fill, self.write, self.throws, self.copies, self.convert, self.move,
                                     self.move, self.run, self.close])
        self.note(method.__name__, held.values.dtype, held.values.shape)
        try:
            method(held)
        except (ferry.BusyError, Boom):
            self.resync()
        except ferry.ArgumentError as error:
            assert "read-only" in str(error), error
            self.resync()
        return None


PROTOCOLS = {"__array__", "__dlpack__", "__dlpack_device__", "__arrow_c_array__", "__arrow_c_device_array__", "__getitem__", "__len__", "__iter__",
             "__bytes__", "__index__", "__int__", "__float__", "__bool__", "__repr__", "__copy__", "__enter__", "__exit__", "__eq__", "__hash__",
             "__call__", "__cuda_array_interface__", "__buffer__"}
# What makes whole contexts, compiles, or takes numbers for addresses.
UNCALLED = {"Context", "Graph", "graph", "Stream", "Kernel", "Elementwise", "Fused", "Reduction", "elementwise", "reduction", "trace", "default_context", "mro", "stats"} | {
    name for name in ferry.__all__ if isinstance(getattr(ferry, name), type) and issubclass(getattr(ferry, name), Exception)} | {
    "Access", "Array", "Element", "Event", "Count", "Memory", "Place", "Stats", "Trace", "Transfer", "FileStats", "Grid"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--log", default=os.devnull)
    options = parser.parse_args()
    faulthandler.enable()
    gc.freeze()  # what NumPy made takes long to look at
    if "san" not in os.environ.get("LD_PRELOAD", ""):  # sanitizers take more addresses than that
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # a size that is drawn must not take the memory of the machine
    np.seterr(all="ignore")
    log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    end, seed, steps = time.monotonic() + options.seconds, options.seed, 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # any text may be a path
        while time.monotonic() < end and steps < options.steps:
            fuzzer = Fuzzer(seed, log)
            try:
                for _ in range(300):
                    fuzzer.step()
                    steps += 1
                    if time.monotonic() > end or steps >= options.steps:
                        break
            except BaseException:
                print(f"seed {seed}, step {fuzzer.step_number}", file=sys.stderr, flush=True)
                raise
            seed += 1
    print(f"{steps} steps from seed {options.seed} on: right")


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main()
