# SPDX-License-Identifier: MIT
"""What a wrong call says: an exception of Ferry, in the words of Python, which names the argument and what to do."""

import errno
import os
import pathlib
import pickle
import re
import subprocess
import sys
import textwrap
import traceback

import pytest

import ferry

# What only a program in C writes. Environment variables are of every language.
C_WORDS = re.compile(r"FERRY_(?!DEVICE|CUDA_LIBRARY|NVRTC_LIBRARY|CACHE_DIR|TUNING|CONVERT_WITH|ALLOCATION_LOG|TRACE|DEBUG)|ferry_[a-z]+|"
                     r"\boptions\.|\bleases?\b|\bscopes?\b|<ferry/|\bNULL\b|\bhandle\b|_ferry\b|_create|\bsize_t\b.*int\b|\bargument \d+ must be|->")


class Things:
    """What wrong calls are made with."""

    def __init__(self, numpy):
        self.numpy = numpy
        self.context, self.other, self.host = ferry.Context("emulated:2"), ferry.Context("emulated:1"), ferry.Context("host")
        self.a = ferry.array(numpy.arange(4, dtype="f4"), context=self.context, name="a")
        self.double = ferry.zeros(4, "f8", context=self.context, name="double")
        self.foreign = ferry.zeros(4, context=self.other)
        self.closed = self.a.copy()
        self.closed.close()
        self.kernel = ferry.Kernel("axpy", host=lambda x, a, count: None, parameters=["update f4 x", "f4 a", "size_t count"], context=self.context)
        self.square = ferry.elementwise("f4 a, read f4 x, overwrite f4 y", "y[i] = a * x[i];", context=self.context)
        self.stream = ferry.Stream(self.context)

    def held(self, use):
        with self.a.update() as kept:
            pass
        try:
            use(self.a)
        finally:
            del kept

    def opened(self, use):
        with self.a.update():
            use(self.a)

    def address(self, number):
        def function():
            pass
        function.address = number
        return function


def make(t):
    """Calls, the class of the exception, and what the message must have."""
    zeros, context = ferry.zeros, t.context
    return [
        # arguments of the functions that make arrays
        (lambda: zeros(3.0), ferry.WrongTypeError, r"shape is an integer.*3\.0"),
        (lambda: zeros((2, "x")), ferry.WrongTypeError, "shape"),
        (lambda: zeros(-1), ferry.ArgumentError, "-1"),
        (lambda: zeros(3, context="host"), ferry.WrongTypeError, r"ferry\.Context\('host'\) makes one"),
        (lambda: ferry.array([1.0], context=3), ferry.WrongTypeError, "context is a ferry.Context, not 3"),
        (lambda: ferry.array(t.a, context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.wrap(bytearray(4), context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.from_dlpack(t.numpy.ones(3), context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.load("x", "f4", 3, context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.Stream("host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.Kernel("k", host=print, parameters=[], context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.elementwise("update f4 x", "x[i] = 1;", context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.stream_file("x", "f4", print, context="host"), ferry.WrongTypeError, "makes one"),
        (lambda: ferry.stats("x"), ferry.WrongTypeError, "context is a ferry.Context"),
        (lambda: ferry.trace(3), ferry.WrongTypeError, "context is a ferry.Context"),
        (lambda: zeros(3, name=3), ferry.WrongTypeError, "name is a text"),
        (lambda: zeros(3, name="a\0b"), ferry.ArgumentError, "NUL"),
        (lambda: zeros(3, memory="locked"), ferry.ArgumentError, '"pinned"'),
        (lambda: zeros(3, memory=2), ferry.ArgumentError, '"pinned"'),
        (lambda: zeros(3, "f3"), ferry.Error, "f3"),
        (lambda: zeros(3, memory="managed", context=t.host), ferry.UnsupportedError, "managed"),
        (lambda: ferry.from_dlpack(t.numpy.ones(3), device=9, context=context), ferry.ArgumentError, "9"),
        # contexts
        (lambda: ferry.Context(3), ferry.WrongTypeError, "devices is a text"),
        (lambda: ferry.Context("host", device_bytes_limit="1G"), ferry.WrongTypeError, "device_bytes_limit is a number"),
        (lambda: ferry.Context("host", tuning=3), ferry.WrongTypeError, "tuning is a text"),
        (lambda: ferry.Context("nothing"), ferry.NoDeviceError, "nothing"),
        # copies and conversions
        (lambda: t.a.copy_to(t.numpy.zeros(4)), ferry.WrongTypeError, 'convert="saturate"'),
        (lambda: t.a.copy_from(t.double), ferry.WrongTypeError, 'convert="saturate"'),
        (lambda: t.a.copy_from(t.double, convert="check", wait=False), ferry.UnsupportedError, "wait=True"),
        (lambda: t.a.copy_from(t.double, convert="nothing"), ferry.ArgumentError, "saturate"),
        (lambda: t.a.astype("i4", policy="nothing"), ferry.ArgumentError, "saturate"),
        (lambda: t.a.fill("x"), ferry.WrongTypeError, "no value of float"),
        (lambda: t.a.fill(1, stream="s"), ferry.WrongTypeError, "ferry.Stream"),
        (lambda: t.a.fill(1, stream=ferry.Stream(t.other)), ferry.WrongContextError, "another context"),
        (lambda: t.a.evict(9), ferry.ArgumentError, "9"),
        (lambda: t.a.sync_to(-1), ferry.ArgumentError, "-1"),
        # accesses
        (lambda: t.held(lambda a: a.evict(0)), ferry.BusyError, r"`del`"),
        (lambda: t.square(1, t.a[:3], t.a[1:]), ferry.ArgumentError, "; pass another array for one of them$"),
        (lambda: t.square(1, t.a, t.a.read_only()), ferry.ArgumentError, '"y": the array "a" is read-only$'),
        (lambda: t.a.read_only().fill(1), ferry.ArgumentError, '^fill: the array "a" is read-only$'),
        (lambda: ferry.wrap(b"abcd", context=context).fill(1), ferry.ArgumentError, 'the array "" is read-only, because it wraps read-only memory$'),
        (lambda: ferry.Kernel("a\nb", host=print, parameters=["read f4 x"], context=context), ferry.ArgumentError, "control character"),
        (lambda: t.opened(lambda a: a.tolist()), ferry.BusyError, "open access overlaps.*test_messages.py"),
        (lambda: t.opened(lambda a: a.evict(0)), ferry.BusyError, "held by python"),
        (lambda: t.a.read(device=9), ferry.ArgumentError, "9"),
        (lambda: t.a.read(stream=3), ferry.WrongTypeError, "ferry.Stream"),
        (lambda: t.closed.tolist(), ferry.StateError, "closed"),
        (lambda: t.a.read(device=1).__arrow_c_array__(), ferry.UnsupportedError, "__arrow_c_device_array__"),
        (lambda: t.a.update().__arrow_c_array__(), ferry.Error, "access may write"),
        # events
        (lambda: t.stream.record().seconds_until(t.stream.record()), ferry.Error, "timed=True"),
        (lambda: t.a.copy_to(t.numpy.zeros(4, "f4"), wait=False).seconds_until(t.stream.record(timed=True)), ferry.Error, "timed=True"),
        # kernels
        (lambda: ferry.Kernel("a\0b", host=print, parameters=[]), ferry.ArgumentError, "NUL"),
        (lambda: ferry.Kernel(3, host=print, parameters=[]), ferry.WrongTypeError, "the name is a text"),
        (lambda: ferry.Kernel("k", source="a\0b", parameters=[]), ferry.ArgumentError, "source.*NUL"),
        (lambda: ferry.Kernel("k", host=print, options=["-DA\0"], parameters=[]), ferry.ArgumentError, "option.*NUL"),
        (lambda: ferry.Kernel("k", host=print, options=["-DA"], parameters=[]), ferry.ArgumentError, "options and exact are for a source"),
        (lambda: ferry.Kernel("k", image="", exact=True, parameters=[]), ferry.ArgumentError, "options and exact are for a source"),
        (lambda: ferry.Kernel("k", host=t.address(0), parameters=[]), ferry.ArgumentError, "address 0"),
        (lambda: ferry.Kernel("k", host=t.address(1), parameters=["f4"] * 65), ferry.ArgumentError, "at most 64"),
        (lambda: t.kernel(None, 4, t.double, 1.0, 4), ferry.WrongTypeError, 'kernel "axpy": x holds double, but the parameter is of float'),
        (lambda: t.kernel(None, 4, t.numpy.zeros(4, "f4"), 1.0, 4), ferry.WrongTypeError, "x must be a ferry.Array"),
        (lambda: t.kernel(None, 4, t.a, "one", 4), ferry.WrongTypeError, "a: 'one' is no value of float"),
        (lambda: t.kernel(None, 4, t.a, 1.0, "four"), ferry.WrongTypeError, "count: a size is an integer, not 'four'"),
        (lambda: t.kernel(None, 4, t.a, 1.0, -4), ferry.SizeError, "count: -4 is no size"),
        (lambda: t.kernel(None, 4, t.foreign, 1.0, 4), ferry.WrongContextError, "x is an array of <ferry.Context.*kernel is of <ferry.Context"),
        (lambda: t.kernel(ferry.Stream(t.other), 4, t.a, 1.0, 4), ferry.WrongContextError, "stream is of <ferry.Context.*kernel is of <ferry.Context"),
        (lambda: t.kernel("stream", 4, t.a, 1.0, 4), ferry.WrongTypeError, "ferry.Stream"),
        (lambda: t.kernel(None, "x", t.a, 1.0, 4), ferry.WrongTypeError, "grid"),
        (lambda: t.kernel(None, 4, t.a), ferry.ArgumentError, "3 parameters, not 1"),
        (lambda: t.square(1, t.double), ferry.WrongTypeError, "x holds double"),
        (lambda: t.square("one", t.a), ferry.WrongTypeError, "a: 'one'"),
        (lambda: t.square(1, t.foreign), ferry.WrongContextError, "x is an array of"),
        (lambda: ferry.elementwise("T n_, read T x, overwrite T y", "y[i] = n_ * x[i];", context=context), ferry.ArgumentError, "'n_'"),
        (lambda: ferry.reduction("read point p", "p[i].x", types=["f4"], context=context), ferry.WrongTypeError, "no struct"),
        # files
        (lambda: ferry.load("/no/such/file", "f4", 3, context=context), ferry.FileError, "/no/such/file"),
        (lambda: t.a.store("/no/such/folder/file"), ferry.FileError, "/no/such/folder/file"),
        (lambda: t.a.store("x", progress=3), ferry.WrongTypeError, "progress"),
        (lambda: ferry.stream_file("x", "f4", 3, context=context), ferry.WrongTypeError, "work must be callable"),
    ]


COUNT = 78


@pytest.fixture(scope="module")
def things():
    return Things(pytest.importorskip("numpy"))


@pytest.mark.parametrize("number", range(COUNT))
def test_wrong_calls(things, number):
    calls = make(things)
    assert len(calls) == COUNT
    call, kind, match = calls[number]
    with pytest.raises(kind, match=match) as raised:
        call()
    words = C_WORDS.search(str(raised.value))
    assert words is None, f"{raised.value}: the word {words[0]!r} is of C"


def test_words_of_the_library():
    """Each message of the library that has a word of C, and can reach Python, is said otherwise."""
    errors = sys.modules["ferry._errors"]
    samples = {
        "copy: the source has elements float, the target double, and options.convert is FERRY_CONVERT_NONE": 'convert="saturate"',
        "copy: a conversion with FERRY_CONVERT_CHECK cannot be asynchronous: call the function that blocks": "wait=True",
        "copy: a conversion with FERRY_CONVERT_CHECK cannot read from a file: load it into a buffer first": 'convert="check"',
        "open a buffer: the callback trace may not do this; do it when the callback has returned": "function has returned",
        "evict buffer \"a\": 2 leases keep its memory, held by python, lease.py:3; destroy the lease first": "lease.py:3; leave",
        "evict buffer \"a\": 1 lease keeps its memory; destroy the lease first": "`del`",
        "export a lease as a DLPack tensor: the lease is closed": "the access has ended",
        "measure: `begin` was recorded without FERRY_EVENT_TIMED": "timed=True",
        "launch kernel \"k\": argument 1: it is an empty handle": "closed array",
        "fill: this handle of buffer \"a\" is read-only": "fill: the array \"a\" is read-only",
        "fill: this handle of buffer \"a\" is read-only, because it wraps read-only memory": "the array \"a\" is read-only, because it wraps",
        "launch kernel \"k\": argument 1 \"y\": this handle of buffer \"a\" is read-only": "\"y\": the array \"a\" is read-only",
        "wrap a stream of cuda:0: the native handle is NULL": "native is 0",
        "launch kernel \"k\": argument 1 \"out\": it is an empty handle": "\"out\": it is a closed array",
    }
    for text, expected in samples.items():
        said = errors.in_python(text)
        assert expected in said and not C_WORDS.search(said.replace("lease.py", "")), said
    # A name may have any of the words.
    for text in ('copy_to "leases": a scope', 'run the host function of kernel "k": KeyError: \'options.lease\'', "held by python, scope.py:3"):
        assert errors.in_python(text) == text


# -- files -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda a, path, c: ferry.load(path, "f4", 3, context=c), lambda a, path, c: ferry.load(path, "f4", context=c),
    lambda a, path, c: a.load_from(path), lambda a, path, c: a.load_from(path, wait=False).synchronize(),
    lambda a, path, c: a.store(os.path.join(path, "file")), lambda a, path, c: ferry.element(os.path.join(path, "type.json")),
    lambda a, path, c: ferry.stream_file(path, "f4", print, context=c)])
def test_missing_files(tmp_path, emulated, call):
    """As every OSError, and as those that Python itself raises."""
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match="No such file") as raised:
        call(ferry.zeros(3, context=emulated), str(missing), emulated)
    error = raised.value
    assert isinstance(error, ferry.FileError) and error.errno == errno.ENOENT and error.status == 15
    assert os.fspath(error.filename).startswith(str(missing)) and str(missing) in str(error) and "Errno" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.errno, again.filename) == (type(error), str(error), errno.ENOENT, error.filename)


def test_other_reasons_of_files(tmp_path, emulated):
    a = ferry.zeros(3, context=emulated)
    with pytest.raises(IsADirectoryError) as raised:
        a.store(tmp_path)
    assert isinstance(raised.value, ferry.FileError) and raised.value.errno == errno.EISDIR and raised.value.filename == str(tmp_path)
    (tmp_path / "short").write_bytes(b"12345")
    for read in (lambda: ferry.load(tmp_path / "short", "f4", 3, context=emulated), lambda: ferry.load(tmp_path / "short", "f4", context=emulated)):
        with pytest.raises(ferry.FileError) as raised:
            read()
        assert raised.value.errno is None and not isinstance(raised.value, FileNotFoundError) and "short" in str(raised.value)
    assert str(ferry.FileError("text")) == "text"


# -- host functions --------------------------------------------------------------------------------------------------------


def test_what_a_host_function_raises_is_the_cause(emulated):
    """With its traceback, for each failure that it makes, and after the kernel has ended. It keeps no array alive."""
    def fail(x):
        try:
            {}["where am I"]
        except KeyError as error:
            raise ValueError("found nothing") from error

    stream = ferry.Stream(emulated)
    for read in (lambda a: a.tolist(), lambda a: stream.synchronize(), lambda a: a.copy()):
        a = ferry.zeros(3, context=emulated)
        ferry.Kernel("k", host=fail, parameters=["update f4 x"], context=emulated)(stream, 3, a)
        with pytest.raises(ferry.DeviceError, match="found nothing") as raised:
            read(a)
        cause = raised.value.__cause__
        assert type(cause) is ValueError and isinstance(cause.__cause__, KeyError)
        frames = traceback.extract_tb(cause.__traceback__)
        assert frames[-1].name == "fail" and pathlib.Path(frames[-1].filename).name == "test_messages.py"
        assert "x" not in cause.__traceback__.tb_frame.f_locals
    assert raised.value.__suppress_context__


def test_failures_of_others_have_no_cause(emulated):
    with pytest.raises(ferry.RangeError) as raised:
        ferry.zeros(3, context=emulated)[7]
    assert raised.value.__cause__ is None


# -- descriptions ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_descriptions_in_a_child():
    """A repr is what a debugger shows: it never raises."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import os, ferry
        c = ferry.Context("emulated:1")
        a = ferry.array(b"1234", context=c)
        kernel, stream, access = ferry.Kernel("k", host=print, parameters=[], context=c), ferry.Stream(c), a.read()
        event = stream.record()
        child = os.fork()
        if child == 0:
            try:
                for one in (c, a, kernel, stream, access, event, a.dtype):
                    assert repr(one).startswith(("<ferry.", "ferry.")), one
                os._exit(0)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    """)], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "FERRY_DEVICE": "emulated:1"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_completion_shows():
    names = dir(ferry)
    assert {"elementwise", "reduction", "Elementwise", "zeros", "__version__"} <= set(names)
    assert not {"annotations", "TYPE_CHECKING"} & set(names) and all(hasattr(ferry, name) for name in names)


def test_options_of_contexts_are_in_the_signature():
    import inspect

    options = inspect.signature(ferry.Context).parameters
    assert {"devices", "log", "trace", "device_bytes_limit", "pinned_bytes_limit", "tuning"} <= set(options) and "options" not in options
    assert all(name in ferry.Context.__doc__ for name in options)
    assert ferry.Context("host", buffer_bytes_limit=64).device_count == 1


@pytest.mark.parametrize("name, nonsense, program", [
    ("FERRY_CONVERT_WITH", "nonsense", "ferry.array([1.0, 2.0], 'f8', context=ferry.Context('host')).astype('f4')"),
    ("FERRY_CACHE_DIR", "relative", "ferry.Kernel('scale', source='extern \"C\" __global__ void scale() {}', parameters=[],"
                                           " context=ferry.Context('cuda'))"),
])
def test_a_setting_that_cannot_be_used_is_told_once(name, nonsense, program):
    """On the standard error of a program that has no log: it goes on without the setting."""
    driver = os.environ.get("FERRY_CUDA_LIBRARY", "")
    if "fakecuda" not in driver:
        pytest.skip("needs the driver without a GPU")
    compiler = os.path.join(os.path.dirname(driver), "libfakenvrtc.so")
    register = f"import ctypes; ctypes.CDLL({driver!r}).fakecuda_register_kernel(b'scale', None, 0, None)"
    for value, lines in ((nonsense, 1), ("", 0)):
        done = subprocess.run([sys.executable, "-c", f"import ferry; {register}\nfor _ in range(2): {program}"], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "FERRY_NVRTC_LIBRARY": compiler, name: value})
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stderr.splitlines() if line.startswith("ferry: ") and value in line and name in line]
        assert len(told) == lines == len(done.stderr.splitlines()), done.stderr
