# SPDX-License-Identifier: MIT
"""Arrays whose memory several processes share."""

import os
import subprocess
import sys
import textwrap

import pytest

import ferry

CAN_SHARE = 1 << 12
DEVICES = {"host": "host", "emulated": "emulated:2", "cuda": "cuda"}


@pytest.fixture(params=[None, 0, 1])
def place(request, context):
    """A place whose memory can be shared, as an argument."""
    if request.param and context.place(1).kind != "host" and not context.place(1).capabilities & CAN_SHARE:
        pytest.skip("the driver shares no memory of the device")
    return request.param


class Other:
    """A process that runs a program with the array `a`, imported by a handle. `say()` waits for its next line."""

    PROLOGUE = """
        import os, sys, ferry
        context = ferry.Context(sys.argv[1])
        dtype = eval(sys.argv[3])
        if isinstance(dtype, list):
            import numpy
            dtype = numpy.dtype(dtype)
        a = ferry.import_shared(bytes.fromhex(sys.argv[2]), dtype, (2, -1), context=context, **eval(sys.argv[4]))
        def say(*words):
            print(*words, flush=True)
            sys.stdin.readline()
    """

    def __init__(self, context, share, program, dtype="i4", **options):
        text = textwrap.dedent(self.PROLOGUE) + textwrap.dedent(program)
        self.process = subprocess.Popen([sys.executable, "-c", text, DEVICES[context.place(1).kind], share.hex(), repr(dtype), repr(options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.communicate()

    def heard(self):
        """The next line of the program."""
        line = self.process.stdout.readline().rstrip("\n")
        assert line, self.process.communicate()[1]
        return line

    def go_on(self):
        """Let the program return from say()."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ended(self):
        """Wait for the end of the program, and return its status."""
        errors = self.process.communicate(timeout=60)[1]
        assert self.process.returncode <= 0, errors
        return self.process.returncode


def test_another_process_changes_the_values(context, place):
    a = ferry.zeros((2, 3), "i4", memory="shared", device=place, context=context, name="steps")
    a.fill(7)
    with Other(context, a.export_shared(), """
        try:
            a.acquire_shared()
        except ferry.BusyError as error:
            say(error)
        with a.shared() as acquired:
            assert acquired is a and a.shape == (2, 3)
            say(a.tolist())
            a[1].fill(9)
        say(a.state)
    """, name="theirs") as other:
        busy = other.heard()
        assert '"theirs"' in busy and f"process {os.getpid()} has acquired it" in busy
        a.release_shared()
        assert a.stats()["away"]
        for use in (a.tolist, lambda: a.fill(1), a.release_shared, lambda: a.update(device=1).ptr):
            with pytest.raises(ferry.StateError):
                use()
        other.go_on()
        assert other.heard() == "[[7, 7, 7], [7, 7, 7]]"
        with pytest.raises(ferry.BusyError, match=f'"steps".*process {other.process.pid}'):
            a.acquire_shared()
        other.go_on()
        other.heard()
        with a.shared():
            assert a.tolist() == [[7, 7, 7], [9, 9, 9]] and not a.stats()["away"]
        other.go_on()
        assert other.ended() == 0


def test_several_processes_read(context, place):
    a = ferry.zeros((2, 2), "i4", memory="shared", device=place, context=context)
    a.fill(5)
    a.release_shared()
    program = """
        a.acquire_shared()
        assert a.is_read_only
        try:
            a.fill(1)
        except ferry.ArgumentError:
            say(a.tolist())
        a.release_shared()
    """
    with Other(context, a.export_shared(), program, read_only=True) as first, \
            Other(context, a.export_shared(), program, read_only=True) as second:
        assert first.heard() == second.heard() == "[[5, 5], [5, 5]]"
        with pytest.raises(ferry.BusyError, match="reads it"):
            a.acquire_shared()
        for other in (first, second):
            other.go_on()
            assert other.ended() == 0
    a.acquire_shared()


def test_elements_with_fields(context, place, numpy):
    fields = [("place", "f8"), ("steps", "i4", (2,))]
    a = ferry.array(numpy.zeros((2, 3), fields), memory="shared", device=place, context=context)
    a.release_shared()
    with Other(context, a.export_shared(), """
        with a.shared(), a.update() as values:
            values["place"] = 2.5
            values["steps"][:, 1] = 3, 4
    """, dtype=fields) as other:
        assert other.ended() == 0
    with a.shared():
        values = a.numpy()
        assert values["place"].tolist() == [[2.5] * 3] * 2 and values["steps"].tolist() == [[[0, 0], [3, 4], [0, 0]]] * 2


def test_other_fields_are_refused(context, numpy):
    a = ferry.array(numpy.zeros(3, [("place", "f8"), ("steps", "i4", (2,))]), memory="shared", context=context)
    for others in ([("place", "f8"), ("steps", "i4"), ("last", "i4")], [("place", "f8"), ("steps", "u4", (2,))], "c16"):
        with pytest.raises(ferry.WrongTypeError):
            ferry.import_shared(a.export_shared(), numpy.dtype(others), context=context)


def test_a_process_that_ends_loses_the_values(context, place):
    a = ferry.zeros((2, 2), "i4", memory="shared", device=place, context=context)
    a.release_shared()
    with Other(context, a.export_shared(), "a.acquire_shared(); os._exit(0)") as other:
        assert other.ended() == 0
        a.acquire_shared()
        with pytest.raises(ferry.DeviceLostError, match=f"process {other.process.pid} shared the buffer"):
            a.tolist()
    with pytest.raises(ferry.DeviceLostError):
        a.release_shared()
    a.fill(3)
    assert a.tolist() == [[3, 3], [3, 3]]
    a.release_shared()


def test_an_import_sends_the_handle_on(context):
    a = ferry.array([[1, 2, 3], [4, 5, 6]], "i4", memory="shared", context=context)
    a.release_shared()
    b = ferry.import_shared(a.export_shared(), "i4", (2, 3), context=context)
    with b.shared(), pytest.raises(ferry.BusyError):
        a.acquire_shared()
    with Other(context, b.export_shared(), "with a.shared(): a.fill(2)") as other:
        assert other.ended() == 0
    with a.shared():
        assert a.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_the_place_of_an_import(context):
    host = ferry.zeros(2, memory="shared", context=context)
    kind = context.place(1).kind
    if kind == "host":
        assert ferry.import_shared(host.export_shared(), "f4", device=1, context=context).copies == (0,)
        return
    with pytest.raises(ferry.UnsupportedError, match="memory of host"):
        ferry.import_shared(host.export_shared(), "f4", device=1, context=context)
    if kind == "emulated":
        a = ferry.zeros(2, memory="shared", device=2, context=context)
        assert [ferry.import_shared(a.export_shared(), "f4", device=place, context=context).copies for place in (None, 1, 2)] == [(1,), (1,), (2,)]


def test_a_stream_orders_the_work(context):
    stream = context.stream()
    if context.place(1).kind != "host" and not context.place(1).capabilities & CAN_SHARE:
        pytest.skip("the driver shares no memory of the device")
    a = ferry.zeros(4, "i4", memory="shared", device=1, context=context)
    a.fill(4, stream=stream)
    a.release_shared(stream)
    with a.shared(stream):
        assert a.tolist() == [4, 4, 4, 4]


def test_copies_of_arrays_are_shared(context, numpy):
    source = ferry.array(numpy.arange(6, dtype="i4").reshape(2, 3), context=context)
    for made in (ferry.array(source, memory="shared"), ferry.array(source, "f8", memory="shared"),
                 ferry.array(numpy.asfortranarray(source.numpy()), memory="shared", context=context),
                 ferry.empty((2, 3), memory="shared", context=context)):
        assert len(made.export_shared()) == 64
    empty = ferry.zeros((0, 3), "i4", memory="shared", context=context)
    empty.release_shared()
    same = ferry.import_shared(empty.export_shared(), "i4", (-1, 3), context=context)
    with same.shared():
        assert same.tolist() == []


def test_an_exception_releases(context):
    a = ferry.zeros(2, memory="shared", context=context)
    a.release_shared()
    with pytest.raises(KeyError), a.shared():
        raise KeyError
    assert a.stats()["away"]
    with pytest.raises(ferry.BusyError), a.shared():
        access = a.read()
        access.ptr
        access.array.release_shared()
    access.close()
    a.release_shared()


def test_what_is_refused(context):
    a = ferry.zeros((2, 3), "i4", memory="shared", context=context, name="a")
    share = a.export_shared()
    forged = share[:8] + bytes([share[8] ^ 1]) + share[9:]
    for call, error, text in (
        (lambda: ferry.zeros(2, context=context).export_shared(), ferry.StateError, "FERRY_MEMORY_SHARED"),
        (lambda: ferry.zeros(2, context=context).acquire_shared(), ferry.StateError, "FERRY_MEMORY_SHARED"),
        (lambda: ferry.zeros(2, device=1, context=context), ferry.ArgumentError, 'memory="shared"'),
        (lambda: ferry.zeros(2, memory="shared", device=9, context=context), ferry.ArgumentError, "9"),
        (lambda: ferry.zeros(2, memory="shared", device="x", context=context), ferry.WrongTypeError, "number of a place"),
        (lambda: a[1:].export_shared(), ferry.StateError, "view"),
        (lambda: a.acquire_shared(), ferry.StateError, "already acquired"),
        (lambda: a.release_shared(3), ferry.WrongTypeError, "ferry.Stream"),
        (lambda: ferry.import_shared(share, "f4", context=context), ferry.WrongTypeError, "not float"),
        (lambda: ferry.import_shared(share, "i4", (2, 4), context=context), ferry.ArgumentError, "6 elements"),
        (lambda: ferry.import_shared(share, "i4", (-1, 4), context=context), ferry.ArgumentError, "6 elements"),
        (lambda: ferry.import_shared(share, "i4", (-1, -6), context=context), ferry.ArgumentError, "6 elements"),
        (lambda: ferry.import_shared(share, "i4", (-1, 0), context=context), ferry.ArgumentError, "6 elements"),
        (lambda: ferry.import_shared(share[:60], "i4", context=context), ferry.ArgumentError, "64 bytes, not 60"),
        (lambda: ferry.import_shared("x" * 64, "i4", context=context), ferry.WrongTypeError, "bytes"),
        (lambda: ferry.import_shared(bytes(64), "i4", context=context), ferry.ArgumentError, ""),
        (lambda: ferry.import_shared(forged, "i4", context=context), ferry.ArgumentError, ""),
        (lambda: ferry.import_shared(share, "i4", context="host"), ferry.WrongTypeError, "makes one"),
    ):
        with pytest.raises(error, match=text):
            call()
    a.close()
    with pytest.raises(ferry.StateError, match="closed"):
        a.export_shared()
    with pytest.raises(ferry.ArgumentError):
        ferry.import_shared(share, "i4", context=context)
