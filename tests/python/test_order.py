# SPDX-License-Identifier: MIT
"""The order of work on streams of other libraries, over a driver that works only when a call waits."""

import os
import subprocess
import sys
import textwrap

import pytest

PROLOGUE = """
import ctypes, gc, os
import ferry

KIND = os.environ["KIND"]
HIP = {"cuStreamCreate": "hipStreamCreateWithFlags", "cuMemsetD32Async": "hipMemsetD32Async", "cuMemcpyDtoHAsync_v2": "hipMemcpyDtoHAsync",
       "cuStreamSynchronize": "hipStreamSynchronize", "cuDevicePrimaryCtxRetain": "hipDevicePrimaryCtxRetain",
       "cuCtxPushCurrent_v2": "hipCtxPushCurrent"}
driver = ctypes.CDLL(os.environ["FERRY_" + KIND.upper() + "_LIBRARY"])
N, P = 64, ctypes.c_void_p
DEFAULT = 0 if KIND == "hip" else 1   # the default stream, as a consumer names it; None is this one too

def call(name, *arguments):
    assert getattr(driver, HIP[name] if KIND == "hip" else name)(*arguments) == 0, name

def own_stream():
    made = P()
    call("cuStreamCreate", ctypes.byref(made), 1)
    return made.value

def write(pointer, value, stream):
    call("cuMemsetD32Async", P(pointer), ctypes.c_uint(value), ctypes.c_size_t(N), P(stream))

def read(pointer, stream):
    memory = (ctypes.c_uint * N)()
    call("cuMemcpyDtoHAsync_v2", memory, P(pointer), ctypes.c_size_t(4 * N), P(stream))
    call("cuStreamSynchronize", P(stream))
    assert len(set(memory)) == 1, list(memory)
    return memory[0]

class Tensor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("manager", P), ("deleter", P), ("flags", ctypes.c_uint64), ("data", P)]

def address(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = P, (ctypes.py_object, ctypes.c_char_p)
    return Tensor.from_address(get(capsule, b"dltensor_versioned")).data

context = ferry.Context(KIND)
made = P()
call("cuDevicePrimaryCtxRetain", ctypes.byref(made), 0)
call("cuCtxPushCurrent_v2", made)

def newest_on(stream, value):
    a = ferry.array(bytes(4 * N), context=context).view("u4")
    with a.overwrite(stream=stream) as d:
        write(d.ptr, value, stream.native)
    return a
"""


def run(program, kind="cuda"):
    """Run a program in which no stream works by itself."""
    if f"fake{kind}" not in os.environ.get(f"FERRY_{kind.upper()}_LIBRARY", ""):
        pytest.skip("needs the driver without a GPU")
    done = subprocess.run([sys.executable, "-c", PROLOGUE + textwrap.dedent(program)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FAKECUDA_MODE": "lazy", "KIND": kind}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CONSUMERS = [("cuda", "own_stream()"), ("cuda", "1"), ("cuda", "None"), ("hip", "own_stream()"), ("hip", "0"), ("hip", "None")]


@pytest.mark.parametrize(("kind", "consumer"), [*CONSUMERS, ("cuda", "2")])
def test_an_export_is_ready_on_the_consumers_stream(kind, consumer):
    """The bytes come from another stream, which is never synchronized."""
    run(f"""
        consumer = {consumer}
        a = newest_on(ferry.Stream(context), 7)
        capsule = a.__dlpack__(stream=consumer, max_version=(1, 0))
        assert read(address(capsule), DEFAULT if consumer is None else consumer) == 7
    """, kind)


@pytest.mark.parametrize(("kind", "consumer"), CONSUMERS)
def test_what_a_consumer_queued_last_counts(kind, consumer):
    """The work is still queued when the tensor ends."""
    run(f"""
        consumer = {consumer}
        a = newest_on(ferry.Stream(context), 7)
        capsule = a.__dlpack__(stream=consumer, max_version=(1, 0))
        write(address(capsule), 9, DEFAULT if consumer is None else consumer)
        del capsule
        assert a.tolist() == [9] * N
        b = newest_on(ferry.Stream(context), 7)
        capsule = b.__dlpack__(stream=-1, max_version=(1, 0))
        write(address(capsule), 5, own_stream())
        del capsule
        assert b.tolist() == [5] * N
    """, kind)


def test_an_access_is_ready_on_its_stream():
    run("""
        stream = ferry.Stream(context)
        a = newest_on(ferry.Stream(context), 7)
        with a.update(stream=stream) as d:
            capsule = d.__dlpack__(stream=stream.native, max_version=(1, 0))
            assert read(address(capsule), stream.native) == 7
            write(address(capsule), 8, stream.native)
            for other in (None, 1, own_stream()):
                try:
                    d.__dlpack__(stream=other, max_version=(1, 0))
                    raise SystemExit("another stream must be refused")
                except BufferError:
                    pass
        del capsule
        assert a.tolist() == [8] * N
    """)


def test_the_array_interface_names_the_stream():
    """Its consumer orders its work behind that stream; the memory stays after the `with` for who took the address."""
    run("""
        stream = ferry.Stream(context)
        a = newest_on(ferry.Stream(context), 7)
        with a.read(stream=stream) as d:
            found = d.__cuda_array_interface__
        assert found["stream"] == stream.native and found["data"][1]
        assert read(found["data"][0], found["stream"]) == 7
        held = d
        address_of = found["data"][0]
        live = context.memory(1).live
        a.close()
        gc.collect()
        assert context.memory(1).live == live and read(address_of, stream.native) == 7
        del d, held, found
        ferry.empty(1, context=context)
        assert context.memory(1).live < live
        b = newest_on(ferry.Stream(context), 6)
        with b.update(device=1) as d:
            found = d.__cuda_array_interface__
            assert found["stream"] == 1 and not found["data"][1] and read(found["data"][0], 1) == 6
        with b.reshape(8, 8).read(device=1) as d:
            assert d.__cuda_array_interface__["strides"] == (32, 4) and d.__cuda_array_interface__["shape"] == (8, 8)
    """)


def test_an_import_waits_for_its_producer():
    """The producer made the memory ready on the legacy stream, where its work is still queued."""
    run("""
        a = newest_on(ferry.Stream(context), 3)
        asked = []

        class Producer:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, *, stream, **more):
                asked.append(stream)
                capsule = a.__dlpack__(stream=stream, **more)
                write(address(capsule), 4, stream)
                return capsule

        b = ferry.from_dlpack(Producer(), context=context)
        assert asked == [1] and b.tolist() == [4] * N
        del b
        ferry.empty(1, context=context)
        assert a.tolist() == [4] * N
    """)


def test_the_default_stream_of_hip():
    """It is the NULL stream there, wrapped or as the context's."""
    run("""
        a = newest_on(ferry.Stream(context), 7)
        assert a.__dlpack_device__() == (10, 0)
        for stream in (ferry.Stream(context, native=0), context.stream(1)):
            b = newest_on(stream, 5)
            assert b.tolist() == [5] * N
            b = newest_on(ferry.Stream(context), 6)
            with b.update(stream=stream) as d:
                assert read(d.ptr, 0) == 6
                write(d.ptr, 8, 0)
            assert b.tolist() == [8] * N
    """, "hip")
