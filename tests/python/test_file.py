# SPDX-License-Identifier: MIT
"""Files: load, store, and streams of what is larger than memory."""

import array
import ctypes
import gc
import weakref

import pytest

import ferry


def test_load_and_store(context, tmp_path):
    path = tmp_path / "values"
    a = ferry.array(array.array("i", range(1000)), context=context)
    a.store(path)
    assert path.stat().st_size == 4000
    assert ferry.load(path, "i4", context=context).tolist() == list(range(1000))
    b = ferry.load(path, "i4", (-1, 10), offset=400, context=context)
    assert b.shape == (90, 10) and b[0, 0].item() == 100
    a.store(path, offset=8, keep_rest=True)
    event = a.store(path, wait=False)
    event.synchronize()
    assert ferry.load(path, "i4", 1000, context=context).tolist() == a.tolist()


def test_bad_files(context, tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(7))
    for wrong in (lambda: ferry.load(path, "f4", context=context), lambda: ferry.load(path, "f4", 2, context=context),
                  lambda: ferry.load(tmp_path / "missing", "f4", 1, context=context),
                  lambda: ferry.load(tmp_path, "f4", 1, context=context)):
        with pytest.raises(OSError):
            wrong()
    a = ferry.array(bytes(4), context=context)
    with pytest.raises(ferry.FileError):
        a.load_from(path.with_name("missing"))
    assert a.tobytes() == bytes(4)
    with pytest.raises(TypeError):
        a.copy_from(path)


class Bar:
    """What tqdm's bars have."""

    def __init__(self):
        self.total, self.n = None, 0

    def update(self, step):
        self.n += step


def test_progress(context, tmp_path):
    path, seen = tmp_path / "values", []
    a = ferry.array(bytes(1 << 25), context=context)
    a.store(path, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][1] == 1 << 25
    bar = Bar()
    a.load_from(path, progress=bar)
    assert bar.total == 1 << 25 and 0 < bar.n <= 1 << 25
    with pytest.raises(ferry.CancelledError):
        a.load_from(path, progress=lambda done, total: False)
    with pytest.raises(ZeroDivisionError):
        a.load_from(path, progress=lambda done, total: 1 / 0)
    with pytest.raises(ValueError):
        a.load_from(path, progress=print, wait=False)
    with pytest.raises(TypeError):
        a.load_from(path, progress=3)


def on_device(access, numpy):
    """The memory of an access as an ndarray: that of these devices is memory of the host."""
    access.array.context.stream().synchronize()
    return numpy.ctypeslib.as_array((ctypes.c_float * access.array.size).from_address(access.ptr))


def test_stream_file(context, visible, tmp_path, numpy):
    path, out, kept, views = tmp_path / "in", tmp_path / "out", [], []
    values = numpy.arange(1 << 16, dtype="f4")
    values.tofile(path)
    side = ferry.empty(1 << 14, "f4", context=context)

    def work(chunk, stream, start):
        kept.append(chunk)
        assert chunk.dtype == "f4" and chunk.size == 1 << 14 and start == (len(kept) - 1) << 14
        with chunk.update(stream=stream) as d:
            on_device(d, numpy)[:] += 1
        assert chunk[:2].tolist() == [start + 1, start + 2]
        side.copy_from(chunk)
        with chunk.update() as h:
            numpy.asarray(h)[-1] += side.tolist()[0] - start - 1
        chunk.store(tmp_path / "side")
        views.extend((chunk[:1], chunk[4:8].reshape(2, 2)[1:]))

    bar = Bar()
    stats = ferry.stream_file(path, "f4", work, output=out, context=context, chunk_bytes=1 << 16, progress=bar)
    assert stats.chunks == 4 and stats.bytes_read == stats.bytes_written == values.nbytes == bar.n
    assert (numpy.fromfile(out, "f4") == values + 1).all()
    assert all(chunk.closed for chunk in kept) and len(views) == 8
    for view in views:  # ends with its chunk: the memory has the elements of a later chunk
        with pytest.raises(ferry.StateError):
            view.tolist()
        assert view.closed
    assert (numpy.fromfile(tmp_path / "side", "f4") == values[-(1 << 14):] + 1).all()


def test_stream_file_ends_early(context, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(bytes(1 << 16))
    for work, error in ((lambda *_: False, ferry.CancelledError), (lambda *_: 1 / 0, ZeroDivisionError), (3, TypeError)):
        with pytest.raises(error):
            ferry.stream_file(path, "f4", work, context=context, chunk_bytes=4096)
    with pytest.raises(OSError):
        ferry.stream_file(tmp_path / "missing", "f4", print, context=context)


def test_what_ends_in_the_work_of_a_stream(tmp_path):
    """The work of each chunk gives its arrays, events and kernels back before the next one."""
    path = tmp_path / "chunks"
    path.write_bytes(bytes(1 << 20))
    context = ferry.Context("emulated:1")
    live, ended = [], []

    def work(chunk, stream, start):
        made = ferry.empty(1 << 18, "u1", context=context)
        made.fill(1)
        made.sync_to(1)
        memory = ctypes.create_string_buffer(1 << 18)
        made.copy_to(memoryview(memory).cast("B"), wait=False)
        ended.append(weakref.ref(memory))
        del made, memory
        live.append(context.memory(1).live)

    ferry.stream_file(path, "u1", work, context=context, chunk_bytes=1 << 16, output=tmp_path / "out")
    gc.collect()
    assert len(live) == 16 and max(live[4:]) <= live[3], live
    assert all(end() is None for end in ended)
    with pytest.raises(ValueError):
        ferry.stream_file(path, "u1", work, context=context, nbytes=-1)
    with pytest.raises(OSError):
        ferry.stream_file(path, "u1", work, context=context, output=bytes(tmp_path / "missing") + b"/\xfe")
