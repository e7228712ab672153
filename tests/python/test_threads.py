# SPDX-License-Identifier: MIT
"""Calls that block leave the interpreter to other threads. A queued host function in Python needs it, so that a call that keeps it
would never return: each program has a limit of time, and says which call it was in."""

import os
import subprocess
import sys
import textwrap

import pytest

PROLOGUE = """
import array as array_of, ctypes, gc, os, threading, time
import ferry

context = ferry.Context("emulated:1")
ran = []

def slow(x):
    time.sleep(0.03)
    ran.append(x[0])
    x[0] += 1

kernel = ferry.Kernel("slow", host=slow, parameters=["update u4 x"], context=context)

def array(values=4):
    return ferry.array(bytes(4 * values), context=context).view("u4")

def numbers(count):
    return array_of.array("I", [0] * count)

def queued():
    a = array()
    kernel(None, 4, a)
    return a
"""

CALLS = {
    "stream": "context.stream().synchronize()",
    "event": "context.stream().record().synchronize()",
    "tolist": "assert a.tolist()[0] == 1",
    "tobytes": "assert a.tobytes()[0] == 1",
    "item": "assert a[0].item() == 1",
    "copy": "assert a.copy().tolist()[0] == 1",
    "copy_from": "array().copy_from(a)",
    "copy_to": "a.copy_to(memoryview(bytearray(16)).cast('I'))",
    "astype": "assert a.astype('f4').tolist()[0] == 1",
    "fill": "a.fill(3); assert a.tolist()[0] == 3",
    "with": "with a.read(raw=True) as h: assert memoryview(h)[0] == 1",
    "buffer": "assert memoryview(a.update())[0] == 1",
    "sync_to": "a.sync_to(0)",
    "evict": "a.evict(1)",
    "arrow": "a.__arrow_c_array__()",
    "tensor": "a.__dlpack__(max_version=(1, 0))",
    "pickle": "import pickle; pickle.dumps(a)",
    "store": "a.store(path)",
    "load": "a.store(path); kernel(None, 4, a); a.load_from(path)",
    "close": "w = ferry.wrap(numbers(2), context=context); kernel(None, 2, w); w.close()",
    "end of a wrap": "w = ferry.wrap(numbers(2), context=context); kernel(None, 2, w); del w",
    "end of the last access": "w = ferry.wrap(numbers(4), context=context); access = w[:2].read(raw=True); access.__enter__(); "
                              "kernel(None, 2, w[2:]); access.array._close(); del w; del access",
    "end of a kernel": "own = ferry.Kernel('own', host=slow, parameters=['update u4 x'], context=context); own(None, 4, a); del own",
    "another stream": "s = ferry.Stream(context); kernel(s, 4, a); s.synchronize()",
    "a context": "own = ferry.Context('emulated:1'); k = ferry.Kernel('own', host=slow, parameters=['update u4 x'], context=own); "
                 "b = ferry.empty(4, 'u4', context=own); k(None, 4, b); del k, b, own",
}


def run(program, tmp_path):
    done = None
    try:
        done = subprocess.run([sys.executable, "-c", PROLOGUE + f"path = {str(tmp_path / 'file')!r}\n" + textwrap.dedent(program)],
                              capture_output=True, text=True, timeout=120, env=os.environ, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs: {error.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_calls_that_block(tmp_path):
    program = "".join(f"print({name!r}, flush=True)\na = queued()\n{call.strip()}\n" for name, call in CALLS.items())
    program += "context.stream().synchronize()\nassert len(ran) >= len(" + repr(list(CALLS)) + ")\nprint('end')\n"
    assert run(program, tmp_path).endswith("end\n")


def test_another_thread_goes_on(tmp_path):
    """While one thread waits for compiled code, which takes no lock, another one counts."""
    run("""
        count, ending = 0, threading.Event()
        usleep = ctypes.CDLL(None).usleep
        rest = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)

        @rest
        def wait(pointers, counts):  # returns when the other thread has counted; ctypes releases the interpreter's lock during usleep()
            wanted = count + 20
            while count < wanted:
                usleep(1000)
            return 0

        class Compiled:
            address = ctypes.cast(wait, ctypes.c_void_p).value
            code = wait

        compiled = ferry.Kernel("wait", host=Compiled(), parameters=["update u4 x"], context=context)

        def work():
            global count
            while not ending.is_set():
                count += 1
                time.sleep(0.001)

        thread = threading.Thread(target=work)
        thread.start()
        for call in (lambda a: a.tolist(), lambda a: context.stream().synchronize(), lambda a: a.copy_to(memoryview(bytearray(16)).cast("I")),
                     lambda a: a.store(path)):
            a = array()
            compiled(None, 4, a)
            call(a)
        ending.set()
        thread.join()
    """, tmp_path)


def test_the_work_of_a_file(tmp_path):
    """stream_file() calls Python code for each chunk, whose kernels in Python need the interpreter while it waits for them."""
    run("""
        with open(path, "wb") as file:
            file.write(bytes(1 << 16))
        counted = []

        def work(chunk, stream, start):
            kernel(stream, 4, chunk)
            counted.append(start)

        stats = ferry.stream_file(path, "u4", work, context=context, chunk_bytes=1 << 14, output=path + ".out", progress=lambda done, total: None)
        assert stats.chunks == len(counted) == len(ran) == 4
        assert open(path + ".out", "rb").read(4) == b"\\1\\0\\0\\0"
    """, tmp_path)


@pytest.mark.parametrize("lock", ["PyDLL", "CDLL"])
def test_deleters_with_and_without_the_lock(tmp_path, lock):
    """A consumer may end a tensor on a thread that has no Python, as PyTorch does, or with the lock held, as NumPy does."""
    run(f"""
        class Tensor(ctypes.Structure):
            _fields_ = [("version", ctypes.c_uint32 * 2), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = (ctypes.py_object, ctypes.c_void_p)
        used = ctypes.create_string_buffer(b"used_dltensor_versioned")
        kind = {{"PyDLL": ctypes.PYFUNCTYPE, "CDLL": ctypes.CFUNCTYPE}}[{lock!r}](None, ctypes.c_void_p)
        for _ in range(20):
            memory = numbers(4)
            a = ferry.wrap(memory, context=context)
            capsule = a[2:].__dlpack__(max_version=(1, 0))
            pointer = get(capsule, b"dltensor_versioned")
            rename(capsule, ctypes.addressof(used))
            kernel(None, 2, a[:2])
            del a, capsule
            thread = threading.Thread(target=kind(Tensor.from_address(pointer).deleter), args=(pointer,))
            thread.start()
            thread.join()
        context.stream().synchronize()
        ferry.empty(1, context=context)
        gc.collect()
        assert memory[0] == 1 and len(ran) == 20
        memory.append(1)
    """, tmp_path)


def test_bytes_beside_a_close(tmp_path):
    """An array that is closed while tobytes() waits gives all of its bytes or StateError, and never none of them."""
    run("""
        hold = []
        c = ferry.Context("emulated:1", trace=lambda transfer: hold.clear())
        class Owner(bytearray):
            def __del__(self): a.close()
        a, b = ferry.array(b"12345678", context=c), ferry.array(b"x", context=c)
        hold.append(ferry.wrap(Owner(8), context=c))
        b.read(device=1).ptr               # a transfer: the callback drops the wrap, whose end is deferred
        x = ferry.zeros(1, context=c)      # ends the wrap; its owner is deferred again
        try:
            assert a.tobytes() == b"12345678"   # ends the owner, which closes the array
        except ferry.StateError:
            assert a.closed
    """, tmp_path)


def test_calls_beside_a_close(tmp_path):
    """Every call of an array works on what it was when it began, or raises StateError."""
    run("""
        import random, sys
        sys.setswitchinterval(1e-5)
        c, stop, bad = ferry.Context("emulated:2"), threading.Event(), []
        current = [ferry.array(bytes(64), context=c)]
        calls = [lambda a: len(a.tobytes()) == 64, lambda a: len(a.tolist()) == 64, lambda a: len(bytes(a)) == 64, lambda a: a.copy().size == 64,
                 lambda a: a[3:5].size == 2, lambda a: a.fill(0) is None, lambda a: a.stats()["name"] == "", lambda a: repr(a) != "",
                 lambda a: a.read(device=1).ptr != 0, lambda a: a.sync_to(2) is None, lambda a: a.__dlpack__(max_version=(1, 0)) is not None,
                 lambda a: a.astype("f4").size == 64, lambda a: memoryview(a.read()).nbytes == 64, lambda a: a.close() is None,
                 lambda a: a.describe() != "", lambda a: a.copy_from(bytes(64)) is None, lambda a: a.__arrow_c_array__() is not None]
        def work(seed):
            choose = random.Random(seed)
            while not stop.is_set():
                a, call = current[0], choose.choice(calls)
                try:
                    if not call(a):
                        bad.append(("wrong", calls.index(call)))
                except (ferry.StateError, ferry.BusyError):
                    pass
                except BaseException as error:
                    bad.append((calls.index(call), repr(error)))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads: thread.start()
        for _ in range(300):
            old, current[0] = current[0], ferry.array(bytes(64), context=c)
            old.close()
            time.sleep(0.002)
        stop.set()
        for thread in threads: thread.join()
        assert not bad, bad[:3]
    """, tmp_path)


def test_a_second_interpreter_is_refused(tmp_path):
    """The end of a subinterpreter would switch off the callbacks of the first one."""
    run("""
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            raise SystemExit(0)
        a = array()
        other = interpreters.create()
        try:
            interpreters.run_string(other, "import ferry")
        except interpreters.RunFailedError as error:
            assert "ImportError" in str(error) and "subinterpreters" in str(error) or "ferry._ferry" in str(error), error
        else:
            raise AssertionError("imported")
        interpreters.destroy(other)
        kernel(None, 4, a)
        assert a.tolist() == [1, 0, 0, 0]
    """, tmp_path)
