# SPDX-License-Identifier: MIT
"""The package: exceptions, contexts, leaks, threads of the library, exit, fork, stubs, documentation."""

import builtins
import doctest
import gc
import importlib
import os
import pkgutil
import subprocess
import sys
import textwrap
import weakref

import pytest

import ferry

STATUSES = {
    "ArgumentError": ("ValueError", 1), "RangeError": ("IndexError", 2), "SizeError": ("OverflowError", 3),
    "OutOfMemoryError": ("MemoryError", 4), "ConflictError": ("RuntimeError", 5), "BusyError": ("BufferError", 6),
    "WrongTypeError": ("TypeError", 7), "WrongContextError": ("ValueError", 8), "StateError": ("RuntimeError", 9),
    "UnsupportedError": ("NotImplementedError", 10), "NoDeviceError": ("RuntimeError", 11), "DeviceError": ("RuntimeError", 12),
    "DeviceLostError": ("RuntimeError", 13), "CompileError": ("RuntimeError", 14), "FileError": ("OSError", 15),
    "CancelledError": ("RuntimeError", 16),
}


def run(program, **environment):
    """Run a program in a separate process; returns its output."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", STATUSES)
def test_exceptions_are_builtin_ones_too(name):
    builtin, status = STATUSES[name]
    error = getattr(ferry, name)
    assert issubclass(error, ferry.Error) and issubclass(error, getattr(builtins, builtin)) and error.status == status


def test_bad_contexts():
    for devices, error in (("nothing", ferry.NoDeviceError), ("cuda,emulated", NotImplementedError), ("emulated:99", ferry.Error),
                           ("cuda:63", ferry.Error)):
        with pytest.raises(error):
            ferry.Context(devices)
    with pytest.raises(TypeError):
        ferry.Context("host", log=3)
    with pytest.raises(TypeError):
        ferry.Context("host", trace=3)
    with pytest.raises(ValueError):
        ferry.Context("host", device_bytes_limit=-1)
    with pytest.raises(ValueError):
        ferry.Context("host", tuning="nonsense=1")


def test_bad_arrays(context, numpy):
    for wrong in ("f3", "nonsense", object(), ">f4", numpy.dtype(">i4"), numpy.dtype("O"), object, "", None):
        with pytest.raises((TypeError, NotImplementedError)):
            ferry.empty(3, wrong, context=context)
    for shape, error in ((-1, ValueError), ((2, -3), ValueError), (2.5, TypeError), ("x", TypeError), ((2**62, 4), OverflowError),
                         ((1,) * 65, ValueError), (2**70, OverflowError)):
        with pytest.raises(error):
            ferry.empty(shape, "f4", context=context)
    for wrong in (numpy.array([object()]), numpy.array([1, 2], ">f4"), numpy.array(["text"])):
        with pytest.raises((TypeError, NotImplementedError, ValueError)):
            ferry.array(wrong, context=context)
    for wrong in (numpy.arange(6)[::2], numpy.broadcast_to(1.0, 3)):
        with pytest.raises(NotImplementedError):
            ferry.wrap(wrong, context=context)
    with pytest.raises(TypeError):
        ferry.wrap([1, 2], context=context)
    with pytest.raises(TypeError):
        ferry.wrap(ferry.empty(1, context=context), context=context)
    with pytest.raises(TypeError):
        ferry.Array()
    a = ferry.empty(3, "i4", context=context)
    for value, error in ((2**31, TypeError), ("x", TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            a.fill(value)
    assert a.tolist() == [0, 0, 0]


def test_memory_runs_out():
    context = ferry.Context("emulated:1", device_bytes_limit=1 << 20)
    a = ferry.array(bytes(1 << 22), context=context)
    with pytest.raises(MemoryError):
        with a.read(device=1):
            pass
    assert a.tobytes() == bytes(1 << 22)
    with pytest.raises(OverflowError):
        ferry.empty(100, "f4", context=ferry.Context("host", buffer_bytes_limit=64))


def test_elements():
    assert ferry.element("f4") is ferry.element("float32") is ferry.element("float")
    assert ferry.element("f4") == "<f4" and ferry.element("f4") != "f8" and ferry.element("f4") != 3
    assert len({ferry.element("f4"), ferry.element("float32"), ferry.element("f8")}) == 2
    assert ferry.element("V12").itemsize == 12
    assert (ferry.element("i2").arrow, ferry.element("bfloat16").typestr) == ("s", None)


def test_default_context():
    assert ferry.default_context() is ferry.default_context()
    assert ferry.empty(1).context is ferry.default_context()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_logs_and_traces_that_raise():
    context = ferry.Context("emulated:1", trace=lambda transfer: 1 / 0)
    a = ferry.array(b"1234", context=context)
    hook, seen = sys.unraisablehook, []
    sys.unraisablehook = seen.append
    try:
        a.sync_to(1)
    finally:
        sys.unraisablehook = hook
    assert seen and seen[0].exc_type is ZeroDivisionError
    assert a.places == (0, 1)


@pytest.mark.parametrize("kind", ["nothing", "array", "stream", "event", "access", "kernel"])
def test_contexts_in_cycles_end(kind):
    class Owner:
        def log(self, level, message):
            pass

    owner = Owner()
    owner.context = context = ferry.Context("emulated:1", log=owner.log)
    owner.held = {
        "nothing": lambda: None, "array": lambda: ferry.empty(3, context=context), "stream": lambda: ferry.Stream(context),
        "event": lambda: context.stream().record(), "access": lambda: ferry.array(b"123", context=context).read(),
        "kernel": lambda: ferry.Kernel("k", host=print, parameters=[], context=context)}[kind]()
    ended = weakref.ref(owner)
    del owner, context
    gc.collect()
    assert ended() is None


def test_texts_with_any_bytes(tmp_path):
    """Paths, names and what is cut: each exception has its class."""
    with pytest.raises(ferry.FileError, match=r"\\xff"):
        ferry.load(os.fsencode(tmp_path) + b"/\xff", "f4", 1)
    script = tmp_path / ("a" + "\u4e2d" * 30 + ".py")
    script.write_text(textwrap.dedent("""
        import ferry
        c = ferry.Context("host")
        a = ferry.array(bytes(8), context=c)
        try:
            with a.update():
                with a.update():
                    pass
        except ferry.BusyError as error:
            assert "\u4e2d" in str(error) and "\\\\x" not in repr(str(error)), str(error)
        else:
            assert False
        def fail(x):
            raise ValueError("\u4e2d" * 2000)
        c = ferry.Context("emulated:1")
        k = ferry.Kernel("k", host=fail, parameters=["update f4 x"], context=c)
        k(None, 1, ferry.empty(1, context=c))
        try:
            c.stream().synchronize()
        except ferry.DeviceError as error:
            assert "ValueError" in str(error)
        else:
            assert False
    """), encoding="utf-8")
    subprocess.run([sys.executable, script], check=True, timeout=60)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_nothing_leaks(emulated, numpy):
    """Rounds of everything: neither objects nor memory grow."""
    values = numpy.arange(1000.0)
    kernel = ferry.Kernel("touch", host=lambda x: None, parameters=["update f8 x"], context=emulated)

    def use():
        a = ferry.array(values, context=emulated)
        with a.update() as h:
            h += 1
        with a.read(device=1):
            pass
        kernel(None, 1, a)
        numpy.from_dlpack(a)
        ferry.from_dlpack(values, context=emulated).tolist()
        ferry.wrap(values, context=emulated).fill(0)
        a[2:4].astype("f4").tobytes()
        a.__arrow_c_array__()
        a.copy_to(numpy.empty(1000), wait=False).synchronize()
        try:
            a[5000]
        except IndexError:
            pass
        repr(a), emulated.stats(), ferry.element("f4")

    for _ in range(200):
        use()
    gc.collect()
    objects, memory, references = len(gc.get_objects()), resident(), sys.getrefcount(emulated)
    for _ in range(1000):
        use()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50 and sys.getrefcount(emulated) - references < 5
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer keeps freed memory
        assert resident() - memory < 8 << 20


def test_exit_with_work_in_flight():
    assert "done" in run("""
        import ferry, numpy, time
        c = ferry.Context("emulated:1")
        a = ferry.array(numpy.zeros(4), context=c)
        def slow(x):
            time.sleep(0.2)
            print("done", flush=True)
        k = ferry.Kernel("slow", host=slow, parameters=["update f8 x"], context=c)
        k(None, 4, a)
        x = numpy.from_dlpack(ferry.array(numpy.ones(3), context=c))
        e = a.copy_to(numpy.empty(4), wait=False)
        access = a.read(device=1)
    """)
    # Only the exit waits for these.
    assert run("""
        import ferry, time
        c = ferry.Context("emulated:1")
        def slow(x):
            time.sleep(0.1)
            print("done", flush=True)
        k = ferry.Kernel("slow", host=slow, parameters=["update f8 x"], context=c)
        a = ferry.empty(4, "f8", context=c)
        k(None, 4, a)
        k(None, 4, a)
    """).count("done") == 2


def test_exit_in_any_state():
    run("""
        import ferry, sys
        keep = sys.modules["keep"] = ferry
        ferry.log = lambda level, message: None
        c = ferry.Context("emulated:2", log=lambda level, message: None, trace=lambda transfer: None)
        ferry.held = [ferry.array(bytes(100), context=c), ferry.wrap(bytearray(10), context=c), memoryview(ferry.array(b"1").read())]
        ferry.held[0].update(device=1).ptr
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_fork():
    run("""
        import ferry, numpy, os
        c = ferry.Context("emulated:1")
        a = ferry.array(numpy.arange(4.0), context=c)
        x = numpy.from_dlpack(a.copy())
        child = os.fork()
        if child == 0:
            ok = x.tolist() == [0, 1, 2, 3] and a.state == "UNINITIALIZED"
            for call in (a.tolist, c.stream, lambda: a.read(device=1).ptr, lambda: ferry.Stream(c)):
                try:
                    call()
                    ok = False
                except ferry.StateError as error:
                    ok = ok and "forked" in str(error)
            own = ferry.array(numpy.ones(3), context=ferry.Context("emulated:1"))
            with own.update(device=1):
                pass
            del a, x
            os._exit(0 if ok and own.tolist() == [1, 1, 1] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert a.tolist() == [0, 1, 2, 3]
    """)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_the_default_context_of_a_child():
    run("""
        import ferry, os, sys
        a = ferry.array(b"1234")
        ferry._context._shared_lock.acquire()
        child = os.fork()
        if child == 0:
            assert ferry.array(b"12").tolist() == [49, 50]
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert a.tolist() == [49, 50, 51, 52]
    """, FERRY_DEVICE="")  # a child cannot use the CUDA driver of its parent


def test_interrupts_of_a_host_function():
    assert run("""
        import ferry, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
        def interrupted(x):
            raise KeyboardInterrupt
        c = ferry.Context("emulated:1")
        k = ferry.Kernel("k", host=interrupted, parameters=["update f4 x"], context=c)
        try:
            k(None, 1, ferry.empty(1, context=c))
            try:
                c.stream().synchronize()
            except ferry.DeviceError:
                pass
            for _ in range(1000):
                pass
        except KeyboardInterrupt:
            print("interrupted")
    """) == "interrupted\n"


def test_import_needs_no_numpy():
    run("""
        import sys
        sys.modules["numpy"] = None
        import ferry
        a = ferry.array(bytes(range(8)), context=ferry.Context("emulated:1"))
        with a.update() as h:
            assert isinstance(h, memoryview)
            h[0] = 9
        h.release()
        assert a.astype("i4").tolist()[0] == 9
        k = ferry.Kernel("k", host=lambda x: x.__setitem__(1, 8), parameters=["update u1 x"], context=a.context)
        k(None, 8, a)
        assert a.tolist()[:2] == [9, 8]
        try:
            ferry.array([1, 2])
        except ImportError:
            pass
    """)


@pytest.mark.parametrize("name", ["ferry"] + ["ferry." + module.name for module in pkgutil.iter_modules(ferry.__path__)
                                              if module.name not in ("__main__", "_ferry")])
def test_documentation(name):
    if name == "ferry._expression":
        pytest.importorskip("jinja2")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_everything_public_is_documented():
    for name in ferry.__all__:
        found = getattr(ferry, name)
        assert found.__doc__, name
        for member, value in vars(found).items() if isinstance(found, type) else ():
            if not member.startswith("_") and callable(value) and not isinstance(value, type):
                assert value.__doc__, f"{name}.{member}"


def test_stubs():
    pytest.importorskip("mypy")
    if os.environ.get("FERRY_DEBUG") == "1":
        pytest.skip("the run without checks has done it")
    folder = os.path.dirname(ferry.__file__)
    if os.path.basename(os.path.dirname(folder)) == "site-packages":
        pytest.skip("mypy checks the package of a build folder, not an installed one")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--exclude", "/generator/", "--cache-dir", os.devnull, folder],
                          capture_output=True, text=True, cwd=os.path.dirname(folder), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases", "--allowlist",
                           os.path.join(os.path.dirname(__file__), "stubtest.txt"), "--ignore-unused-allowlist", "ferry._ferry"], capture_output=True, text=True,
                          cwd=os.path.dirname(folder), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("use", ["part[0]", "h.sum()", "part.__setitem__(0, 1)"])
def test_checked_runs_name_the_line(numpy, use):
    """A use of an ndarray after its with ends a checked run."""
    program = f"import ferry\na = ferry.array(bytes(64))\nwith a.update() as h:\n    part = h[1:2]\n{use}\nprint('end')\n"
    for checked in ("1", ""):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "FERRY_DEBUG": checked, "FERRY_DEVICE": "emulated:1"})
        if checked:
            assert done.returncode != 0 and "used after its access ended" in done.stderr and "python, <string>:3" in done.stderr, done.stderr
        else:
            assert done.stdout == "end\n", done.stderr


def test_failures_of_a_driver():
    """Those of the device and of the compiler have their own classes, and the compiler's log."""
    driver = os.environ.get("FERRY_CUDA_LIBRARY", "")
    compiler = driver.replace("libfakecuda", "libfakenvrtc")
    if "fakecuda" not in driver or not os.path.exists(compiler):
        pytest.skip("needs the driver and the compiler that need no GPU")
    run("""
        import ctypes, os, ferry
        driver = ctypes.CDLL(os.environ["FERRY_CUDA_LIBRARY"])
        c = ferry.Context("cuda")
        try:
            ferry.Kernel("k", source="#error no", parameters=["update f4 x"], context=c)
        except ferry.CompileError as error:
            assert "#error" in str(error) or "no" in str(error).split(), error
            print(error)
        else:
            raise SystemExit("compiled")
        for code, kind in ((2, ferry.OutOfMemoryError), (700, ferry.DeviceLostError)):
            a = ferry.array(bytes(1 << 22), context=c)
            driver.fakecuda_fail_next(b"cuMemcpyHtoDAsync_v2", code, 1)
            try:
                a.sync_to(1)
            except kind:
                pass
            except ferry.Error as error:
                assert code != 700, repr(error)
            else:
                raise SystemExit(f"{code} is no failure")
            driver.fakecuda_fail_none()
            assert a.tobytes() == bytes(1 << 22)
    """, FERRY_NVRTC_LIBRARY=compiler)


@pytest.mark.parametrize("name", [name for name in STATUSES if name != "CancelledError"])
def test_failures_of_a_host_function_keep_their_class(emulated, name):
    error = getattr(ferry, name)

    def fail(x):
        raise error("by the function")

    kernel = ferry.Kernel("fail", host=fail, parameters=["update u1 x"], context=emulated)
    stream = ferry.Stream(emulated)
    kernel(stream, 1, ferry.empty(1, "u1", context=emulated))
    with pytest.raises(error, match="by the function"):
        stream.synchronize()


def test_processes(tmp_path):
    """Arrays are arguments and results of workers, by value."""
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent("""
        import multiprocessing, sys
        import ferry

        def work(a):
            with a.update(device=1):
                pass
            b = a.astype("f8")
            b.fill(b[0].item() + 1)
            return b

        if __name__ == "__main__":
            a = ferry.array(b"1234")
            a.tolist()
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    found = pool.map(work, [a, a[1:3]])
                assert [b.tolist() for b in found] == [[50.0] * 4, [51.0] * 2], method
    """))
    subprocess.run([sys.executable, script], check=True, timeout=60, env={**os.environ, "FERRY_DEVICE": "emulated:1"})


def test_exit_handlers_of_the_program():
    """Those that were registered before the import run later than the package's own."""
    assert run("""
        import atexit, sys
        def last():
            import ferry
            try:
                print(ferry.array(b"12").tolist(), wrapped.tolist())
            except ferry.Error as error:
                print(type(error).__name__)
        atexit.register(last)
        import ferry
        memory = bytearray(4)
        wrapped = ferry.wrap(memory, context=ferry.Context("emulated:1"))
        with wrapped.update(device=1):
            pass
    """) == "[49, 50] [0, 0, 0, 0]\n"
