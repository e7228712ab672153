# SPDX-License-Identifier: MIT
"""Contexts, their devices, and what they report."""

from __future__ import annotations

import os
import threading

from . import _ferry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NamedTuple, Self
else:
    from ._records import Record as NamedTuple


_LANGUAGES = ("", "cuda", "hip", "opencl")


class Place(NamedTuple):
    """One place of a context: 0 is the host, the others are devices.

    `language` and `target` are those of the kernel code that it runs, such as "cuda" and "sm_90"; "" where it runs none.
    `native_context` is the address of its CUcontext, or 0.
    """

    place: int
    kind: str
    name: str
    native: int
    coherent: bool
    architecture: int
    driver_version: int
    capabilities: int
    language: str
    target: str
    native_context: int
    dlpack_device: tuple[int, int]


class Memory(NamedTuple):
    """Memory at a place, in bytes."""

    total: int
    free: int
    used: int
    live: int
    cached: int


class Count(NamedTuple):
    """A number of copies, and their bytes."""

    copies: int
    bytes: int


class Stats(NamedTuple):
    """Transfers of a context since it was created or reset."""

    upload: Count
    download: Count
    device: Count
    peer: Count
    host: Count
    fill: Count
    direct: Count
    staged: Count
    peer_staged: Count
    device_calls: int
    batch_submissions: int
    batch_copies: int
    auto_pinned: int

    def __sub__(self, other: Stats) -> Stats:
        """The transfers between two moments."""
        def minus(a: Any, b: Any) -> Any:
            return Count(a.copies - b.copies, a.bytes - b.bytes) if isinstance(a, Count) else a - b

        return Stats(*(minus(a, b) for a, b in zip(self, other)))


class Transfer(NamedTuple):
    """One transfer, as `trace` receives it."""

    buffer: str
    reason: str
    bytes: int
    source_place: int
    target_place: int
    direction: str
    staged: bool
    site: str


class Trace(list[Transfer]):
    """The transfers that happened inside a `with`; see trace()."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    def __enter__(self) -> Trace:
        self._context._add_trace(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self._context._remove_trace(self)

    @property
    def bytes(self) -> int:
        """Bytes of all transfers."""
        return sum(transfer.bytes for transfer in self)

    def __repr__(self) -> str:
        return f"<ferry.Trace: {len(self)} transfers, {self.bytes} bytes>"


_tracing_lock = threading.Lock()


class _Listeners:
    """Who receives transfers. Apart from the context, which the library's callback must not keep alive."""

    def __init__(self, function: Callable[[Transfer], object] | None) -> None:
        self.function = function
        self.traces: list[Trace] = []

    def __call__(self, *values: Any) -> None:
        transfer = Transfer(*values)
        for trace in tuple(self.traces):
            trace.append(transfer)
        if self.function:
            self.function(transfer)


class Context(_ferry.Context):
    """Devices, and the memory of the arrays on them.

    `devices` is a list such as "host", "emulated:2", "cuda" or "cuda:0,cuda:1"; None takes FERRY_DEVICE, else the best
    device. `log` is called with a level (1 error, 2 warning, 3 information, 4 debugging) and a message, and `trace`
    with each Transfer, both on any thread. A context ends when its last array, stream and export ended.

    Limits are numbers of bytes; 0 is the default. `device_bytes_limit` limits the memory on each device, else all of it is
    used: copies that are not in use make room, and a call that finds none raises OutOfMemoryError. `host_bytes_limit` and
    `pinned_bytes_limit` limit ordinary and page-locked memory of the host, else to the physical memory and a quarter of it.
    Arrays larger than `buffer_bytes_limit` raise SizeError. `tuning`, `trace_file` and `allocation_log` do what FERRY_TUNING,
    FERRY_TRACE and FERRY_ALLOCATION_LOG do for a whole program.

    >>> import ferry
    >>> ferry.Context("emulated:2").device_count
    2
    """

    _listeners: _Listeners

    def __new__(cls, devices: str | None = None, *, log: Callable[[int, str], object] | None = None,
                trace: Callable[[Transfer], object] | None = None, device_bytes_limit: int = 0, host_bytes_limit: int = 0,
                pinned_bytes_limit: int = 0, buffer_bytes_limit: int = 0, tuning: str | None = None, trace_file: str | None = None,
                allocation_log: str | None = None) -> Self:
        if trace is not None and not callable(trace):
            raise _ferry.WrongTypeError("Context: trace must be callable")
        limits: dict[str, Any] = {"device_bytes_limit": device_bytes_limit, "host_bytes_limit": host_bytes_limit,
                  "pinned_bytes_limit": pinned_bytes_limit, "buffer_bytes_limit": buffer_bytes_limit}
        texts: dict[str, Any] = {"devices": devices, "tuning": tuning, "trace_file": trace_file, "allocation_log": allocation_log}
        for name, limit in limits.items():
            if not hasattr(limit, "__index__"):
                raise _ferry.WrongTypeError(f"Context: {name} is a number of bytes, not {limit!r}")
        for name, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise _ferry.WrongTypeError(f"Context: {name} is a text, not {text!r}")
        listeners = _Listeners(trace)
        self = super().__new__(cls, log=log, trace=listeners, **texts, **limits)
        self._listeners = listeners
        self._set_tracing(trace is not None)
        return self

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    @property
    def places(self) -> tuple[Place, ...]:
        """The host and the devices."""
        return tuple(self.place(index) for index in range(self.device_count + 1))

    def place(self, index: int) -> Place:
        """Properties of one place."""
        found = self._place(index)
        return Place(index, found["kind"], found["name"], found["native"], found["coherent"], found["architecture"],
                     found["driver_version"], found["capabilities"], _LANGUAGES[found["language"]], found["target"],
                     found["native_context"], found["dlpack"])

    def memory(self, place: int = 1) -> Memory:
        """Memory at a place, in bytes."""
        return Memory(**self._memory(place))

    def stats(self) -> Stats:
        """Transfers since the context was created or reset_stats() was called."""
        found = self._stats()
        values: dict[str, Any] = {key: Count(*value) if isinstance(value, tuple) else value for key, value in found.items()}
        return Stats(**values)

    def snapshot(self, path: Any) -> None:
        """Write what memory the context holds to a file, as JSON that `ferry trace` sums up and draws."""
        from ._array import path_bytes
        self._snapshot(path_bytes(path))

    def trace(self) -> Trace:
        """Return a list that receives each transfer inside a `with`."""
        return Trace(self)

    def _add_trace(self, trace: Trace) -> None:
        with _tracing_lock:
            self._set_tracing(True)
            self._listeners.traces.append(trace)

    def _remove_trace(self, trace: Trace) -> None:
        with _tracing_lock:
            self._listeners.traces[:] = [other for other in self._listeners.traces if other is not trace]
            self._set_tracing(bool(self._listeners.traces or self._listeners.function))

    def stream(self, device: int = 1) -> Stream:
        """The default stream of a device."""
        return Stream._default(self, device)

    def __repr__(self) -> str:
        try:
            devices = ", ".join(f"{place.place}: {place.name}" for place in self.places[1:])
        except _ferry.Error:  # as in a child of fork(): a repr is what messages are made of
            return "<ferry.Context that cannot be used here>"
        return f"<ferry.Context with {devices}>"


def _native_of(stream: object) -> int:
    """The number of another library's stream: by the protocol of cuda.core, or as PyTorch, CuPy and Numba name it."""
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, found = protocol() if callable(protocol) else protocol
        return int(found)
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise _ferry.WrongTypeError(f"Stream: {type(stream).__name__} is not a stream of CUDA: it has no __cuda_stream__")


class Stream(_ferry.Stream):
    """Work on a device that runs in the order of its calls.

    `native` wraps a stream of another library, such as a cupy.cuda.Stream or torch.cuda.Stream, and keeps it alive. It may
    also be the number of a stream, which must live longer than this object and every access with it.
    """

    __slots__ = ("__weakref__",)

    def __new__(cls, context: Context | None = None, device: int = 1, *, native: object = None) -> Self:
        from ._arguments import context_of

        handle: Any
        handle, source = (native, None) if native is None or hasattr(native, "__index__") else (_native_of(native), native)
        return super().__new__(cls, context_of(context), device, handle, source)

    @classmethod
    def _default(cls, context: Context, device: int) -> Self:
        return super().__new__(cls, context, device, False)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.synchronize()

    def __repr__(self) -> str:
        return f"<ferry.Stream at place {self.place}>"


class Graph(_ferry.Graph):
    """Work of a stream that is recorded once, and launched many times by one call. `graph()` begins to record.

    The graph holds the device memory of its arrays until it is closed or collected. A launch brings what is stale.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.end()
        else:
            self.close()


def graph(stream: Stream, *, name: str | None = None) -> Graph:
    """Record what is queued on a stream inside a `with`, instead of running it.

    The stream is one of `Stream()`, not a default stream. The graph contains the kernels that are launched with `stream=`, fills
    and copies between arrays there, and on CUDA and HIP what other libraries queue on the stream inside device accesses. A call
    that it cannot contain raises UnsupportedError, and the recording goes on. `name` is for messages.
    """
    return Graph(stream, name)


_shared: Context | None = None
_shared_lock = threading.Lock()


def _after_fork() -> None:
    """A child has no context yet, and no thread that will ever give the lock back."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def default_context() -> Context:
    """The context that the whole process shares, also with C libraries that use Ferry."""
    global _shared
    if _shared is None:
        with _shared_lock:
            if _shared is None:
                _shared = Context._shared()
    return _shared


def stats(context: Context | None = None) -> Stats:
    """Transfers of a context; of the default one if there is no argument."""
    from ._arguments import context_of

    return context_of(context).stats()


def trace(context: Context) -> Trace:
    """Return a list that receives each transfer of a context inside a `with`.

    >>> import ferry
    >>> context = ferry.Context("emulated:1")
    >>> a = ferry.array(b"four", context=context)
    >>> with ferry.trace(context) as transfers:
    ...     with a.read(device=1):
    ...         pass
    >>> transfers.bytes
    4
    """
    from ._arguments import context_of

    return context_of(context).trace()
