# SPDX-License-Identifier: MIT
"""Kernels: source for devices, and a host function for machines without a GPU."""

from __future__ import annotations

import atexit
import operator
import weakref

from . import _ferry
from ._arguments import context_of
from ._context import Context, Stream
from ._element import element, pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NamedTuple, Self
else:
    from ._records import Record as NamedTuple

_ACCESS = {"read": 1, "update": 2, "overwrite": 3}
_kernels: weakref.WeakSet[Kernel]


class Grid(NamedTuple):
    """Blocks, threads of each block, and bytes of dynamic shared memory. Some devices take `cooperative` launches, thread block
    clusters, and an `overlap` with the kernel before; `ferry_grid` of C says what these mean, and the others raise UnsupportedError.

    >>> import ferry
    >>> ferry.grid(1000)._replace(cooperative=True)
    Grid(blocks=(4, 1, 1), threads=(256, 1, 1), shared_bytes=0, cluster=(0, 0, 0), cooperative=True, overlap=False)
    """

    blocks: tuple[int, int, int] = (1, 1, 1)
    threads: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (0, 0, 0)
    cooperative: bool = False
    overlap: bool = False


def grid(items: int, threads: int = 256, shared_bytes: int = 0) -> Grid:
    """Return a grid of one dimension with at least one thread for each item.

    >>> import ferry
    >>> ferry.grid(1000).blocks
    (4, 1, 1)
    """
    try:
        items, threads, shared_bytes = map(operator.index, (items, threads, shared_bytes))
    except TypeError as error:
        raise _ferry.WrongTypeError(f"grid: {error}") from error
    if threads < 1:
        raise _ferry.ArgumentError(f"grid: a block has at least one thread, not {threads}")
    return Grid((max(1, min(-(-items // threads), 2**31 - 1)), 1, 1), (threads, 1, 1), shared_bytes)


_grid_of = grid


def _parameter(text: str) -> tuple[int, Any, str, int]:
    """(access, element, name, overlap) of a parameter such as "read f4 x" or "f4 a"; None is the element of a size."""
    words = text.split()
    access = _ACCESS.get(words[0], 0) if words else 0
    if not 1 <= len(words) - bool(access) <= 2:
        raise _ferry.ArgumentError(f"a parameter is \"[read|update|overwrite] type [name]\", not {text!r}")
    name = words[1 if access else 0]
    return access, None if name == "size_t" and not access else element(name), " ".join(words[1 + bool(access):]), 0


def _given(item: Any) -> tuple[int, Any, str, int]:
    """(access, element, name, overlap) of a parameter that is a tuple, perhaps without a name. Those of kernels from an expression say
    with a number of ferry_overlap how far they may overlap others."""
    if not isinstance(item, tuple) or not 2 <= len(item) <= 4 or item[0] not in ("", None, *_ACCESS):
        raise _ferry.ArgumentError(f"a parameter is a text, or a tuple of an access, an element and a name, not {item!r}")
    return _ACCESS[item[0]] if item[0] else 0, element(item[1]), str(item[2]) if len(item) > 2 else "", item[3] if len(item) > 3 else 0


def _text_of(what: str, text: Any) -> str:
    if not isinstance(text, str):
        raise _ferry.WrongTypeError(f"Kernel: {what} is a text, not {text!r}")
    if "\0" in text:
        raise _ferry.ArgumentError(f"Kernel: {what} is a text without NUL characters")
    return text


def _size(value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError as error:
        raise _ferry.WrongTypeError(f"a size is an integer, not {value!r}") from error
    if not 0 <= size < 2**64:
        raise _ferry.SizeError(f"{size} is no size")
    return size


class Kernel(_ferry.Kernel):
    """A function that runs on devices.

    `source` is CUDA source with an `extern "C" __global__` function of this name, and `image` its PTX, cubin or fatbin,
    which goes first. `opencl_source` is OpenCL C with a `__kernel` function of this name, for OpenCL devices. `options` are those of
    the compiler of `source`, and `opencl_options` those of `opencl_source`; with `exact` they fuse no operations.
    `host` runs where the device takes no such code: a Python function, or compiled code with an `address`, as numba.cfunc makes it,
    of the signature `int32(pointer to pointers, pointer to size_t counts)`. A Python function gets one ndarray for each
    array, a copy of one dimension, and a number for each value. What it raises becomes the failure
    of the launch. `parameters` has one text for each parameter: "read f4 x", "update f4 y", "overwrite f4 z", or "f4 a"
    and "size_t n" for values. A tuple of an access ("" for a value), an Element and a name does the same.

    >>> import ferry
    >>> def double(x): x *= 2
    >>> context = ferry.Context("emulated:1")
    >>> k = ferry.Kernel("twice", host=double, parameters=["update f8 x"], context=context)
    >>> a = ferry.array([1.0, 2.0], context=context)
    >>> k(None, ferry.grid(2), a)
    >>> a.tolist()
    [2.0, 4.0]
    """

    parameters: tuple[tuple[int, Any], ...]
    context: Context
    _labels: list[str]

    def __new__(cls, name: str, *, parameters: Sequence[Any], source: str | None = None, image: str | bytes | None = None,
                host: Callable[..., object] | None = None, options: Sequence[str] = (), opencl_source: str | None = None,
                opencl_options: Sequence[str] = (), exact: bool = False, context: Context | None = None) -> Self:
        context = context_of(context)
        listed = [_parameter(item) if isinstance(item, str) else _given(item) for item in parameters]
        _text_of("the name", name)
        for option in (*options, *opencl_options):
            _text_of("an option of the compiler", option)
        for what, text, given in (("source", source, options), ("opencl_source", opencl_source, opencl_options)):
            if text is not None:
                _text_of(what, text)
            elif given or exact and source is opencl_source is None:
                raise _ferry.ArgumentError(f"Kernel {name!r}: options and exact are for a source, and it has no {what}")
        address = getattr(host, "address", None)
        if not isinstance(address, int):
            address = None
        if host is not None and address is None and not callable(host):
            raise _ferry.WrongTypeError("the host function must be callable")
        if address == 0:
            raise _ferry.ArgumentError(f"Kernel {name!r}: the compiled host function has the address 0")
        is_native = getattr(host, "is_native", False) is True  # generated code
        if address is not None and len(listed) > 64 and not is_native:
            raise _ferry.ArgumentError(f"Kernel {name!r}: a compiled host function takes at most 64 arguments")
        labels = [label or f"argument {index}" for index, (_, _, label, _) in enumerate(listed)]
        if isinstance(image, str):
            image = image.encode() + b"\0"  # the driver reads PTX up to its NUL
        self = super().__new__(cls, context, name, source, image, list(options), opencl_source, list(opencl_options), bool(exact), [(access, kind, overlap, label or None) for access, kind, label, overlap in listed], labels,
                               host if address is None else None, None if address is None else (address, host, is_native))
        self.parameters = tuple((access, kind) for access, kind, _, _ in listed)
        self._labels = labels
        self.context = context
        _kernels.add(self)
        return self

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __call__(self, stream: Stream | None, grid: Grid | int, *arguments: Any) -> None:
        """Queue the kernel on a stream; None is the default stream of the first device. A number is that of items."""
        if stream is None:
            stream = self.context.stream(1)
        elif not isinstance(stream, Stream):
            raise _ferry.WrongTypeError(f"launch kernel {self.name!r}: stream is a ferry.Stream or None, not {stream!r}")
        if not isinstance(grid, Grid):
            try:
                grid = _grid_of(operator.index(grid))
            except TypeError:
                raise _ferry.WrongTypeError(f"a grid or a number of items, not {grid!r}") from None
        size = grid
        values = tuple(self._value(index, value) for index, value in enumerate(arguments))
        flags = bool(size.cooperative) | bool(size.overlap) << 1
        self._launch(stream, (*size.blocks, *size.threads, size.shared_bytes, flags, *size.cluster), values)

    def _value(self, index: int, value: Any) -> Any:
        if index >= len(self.parameters):
            return value
        access, kind = self.parameters[index]
        if access or kind is not None and kind.kind == "float" and kind.bits >= 32 and type(value) is float:
            return value
        try:
            return _size(value) if kind is None else pack(kind, value)
        except _ferry.Error as error:
            raise type(error)(f"launch kernel {self.name!r}: {self._labels[index]}: {error}") from error.__cause__

    def __repr__(self) -> str:
        return f"<ferry.Kernel {self.name} with {len(self.parameters)} parameters>"


_kernels = weakref.WeakSet()


def _end() -> None:
    """Wait for the host functions in Python that are queued, and let none begin later."""
    for kernel in list(_kernels):
        kernel._wait()
    _ferry._at_exit()


atexit.register(_end)
