# SPDX-License-Identifier: MIT
"""Arrays that live on the host and on devices at once."""

from __future__ import annotations

import copyreg
import math
import operator
import os
import struct
import sys

from . import _exchange, _ferry
from ._arguments import context_of, memory_of, name_of, place_of, shape_of
from ._context import Context, Count, Place, Stream, default_context
from ._element import element, element_or_none, pack
from ._errors import file_error
from ._ferry import Element
from ._operators import refuse_operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_POLICIES = {"saturate": 1, "check": 2, "truncate": 3}


def _policy_of(name: str, value: Any) -> int:
    """The number of a policy; the argument of this name may be of any type, also of one that has no hash."""
    if not isinstance(value, str) or value not in _POLICIES:
        raise _ferry.ArgumentError(f"{name} is one of {', '.join(_POLICIES)}, not {value!r}")
    return _POLICIES[value]


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements, the last index fastest."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """True when the elements lie next to each other in some order of the dimensions."""
    step = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def path_bytes(path: Any) -> bytes:
    """A path as the system has it."""
    try:
        found = os.fsencode(path)
    except (TypeError, UnicodeError) as error:
        raise _ferry.WrongTypeError(f"a path is a text, bytes or has __fspath__(), not {path!r}") from error
    if b"\0" in found:
        raise _ferry.ArgumentError(f"no path has a NUL: {path!r}")
    return found


def progress_function(progress: Any) -> Callable[[int, int], object] | None:
    """A function of the bytes done and in total, from a function or from a bar such as tqdm's."""
    if progress is None:
        return None
    if callable(progress) and not hasattr(progress, "update"):
        function: Callable[[int, int], object] = progress
        return function
    if not hasattr(progress, "update"):
        raise _ferry.WrongTypeError("progress must be a function or have update(), as the bars of tqdm do")
    last = 0

    def step(done: int, total: int) -> None:
        nonlocal last
        if getattr(progress, "total", total) != total:
            progress.total = total
        progress.update(done - last)
        last = done

    return step


class Array(_ferry.Array):
    """A typed array with a copy on the host and one on each device that needs it.

    ferry.array(), empty(), zeros(), wrap(), from_dlpack(), from_arrow() and load() make one. Its values are reached
    through an access, which says where and how they are used, so that Ferry copies only what the place lacks:

    >>> import ferry
    >>> a = ferry.zeros(4, "f4")
    >>> with a.update() as h:
    ...     h[1] = 2.5
    >>> a.tolist()
    [0.0, 2.5, 0.0, 0.0]
    """

    __slots__ = ("__weakref__",)

    # -- questions ---------------------------------------------------------------------------------------------------

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def places(self) -> tuple[int, ...]:
        """Places that hold every written byte of the array. 0 is the host."""
        return self._places("places_current")

    @property
    def copies(self) -> tuple[int, ...]:
        """Places that have memory for the array, current or not."""
        return self._places("places_with_copy")

    def _places(self, key: str) -> tuple[int, ...]:
        bits = self._info()[key]
        return tuple(place for place in range(32) if bits >> place & 1)

    @property
    def name(self) -> str:
        """Name in messages; "" when it has none."""
        return str(self._info()["name"])

    @property
    def is_read_only(self) -> bool:
        """True for a view that read_only() made, its views, and wrapped memory that must not change."""
        return bool(self._info()["read_only"])

    def stats(self) -> dict[str, Any]:
        """Transfers of the array, and what holds it: leases, copies, bytes."""
        info = self._info()
        return {key: Count(*value) if isinstance(value, tuple) else value for key, value in info.items()}

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("an array without dimensions has no elements to iterate over: use item()")
        return (self[index] for index in range(self.shape[0]))

    def __repr__(self) -> str:
        try:
            name = f" {self.name!r}" if self.name else ""
            return f"<ferry.Array{name} {self.dtype.name}{list(self.shape)} {self.state} {self._describe_places()}>"
        except _ferry.StateError:  # another thread may close it at any moment
            return "<ferry.Array, closed>"

    def _describe_places(self) -> str:
        current, places = self.places, [self.context.place(index) for index in self.copies]
        return "copies: " + (", ".join(self._describe_place(place, place.place in current) for place in places) or "none")

    @staticmethod
    def _describe_place(place: Place, current: bool) -> str:
        where = "host" if place.place == 0 else f"{place.kind}:{place.place - 1}"
        return where if current else f"{where} (stale)"

    def close(self) -> None:
        """Give the array back before its last reference goes. Views, exports and ndarrays keep its memory.

        The owner of wrapped memory, on the host or on a device, finds the newest values there on return.
        """
        try:
            info = self._info()
            if info["lent_at"] is not None and not info["read_only"]:
                self.sync_to(info["lent_at"])
        except _ferry.StateError:
            if not self.closed:  # else it was closed before, or by another thread meanwhile
                raise
        self._close()

    # -- views -------------------------------------------------------------------------------------------------------

    def _strides(self) -> tuple[int, ...]:
        return tuple(stride // self.itemsize for stride in self.strides)

    def __getitem__(self, key: Any) -> Array:
        """A view: it shares memory and state with the array. Its elements must lie next to each other."""
        keys = key if isinstance(key, tuple) else (key,)
        rest = [at for at, one in enumerate(keys) if one is Ellipsis]
        if len(rest) == 1:
            at = rest[0]
            keys = keys[:at] + (slice(None),) * (self.ndim - len(keys) + 1) + keys[at + 1:]
        if len(keys) > self.ndim:
            raise _ferry.RangeError(f"{len(keys)} indices for an array of {self.ndim} dimensions")
        offset, shape, strides = 0, [], []
        for dimension, (size, stride) in enumerate(zip(self.shape, self._strides())):
            index = keys[dimension] if dimension < len(keys) else slice(None)
            if isinstance(index, slice):
                start, stop, step = index.indices(size)
                if step < 0:
                    raise _ferry.UnsupportedError("a view cannot run backwards: index the ndarray of an access")
                count = len(range(start, stop, step))
                offset += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
                continue
            try:
                position = operator.index(index) if not isinstance(index, bool) else None
            except TypeError:
                position = None
            if position is None:
                raise _ferry.WrongTypeError(f"an index of a view is an integer or a slice, not {index!r}")
            if not -size <= position < size:
                raise _ferry.RangeError(f"index {position} of a dimension of {size}")
            offset += position % size * stride
        if 0 in shape:
            return self._view(self.dtype, 0, tuple(shape), None)
        if not is_packed(tuple(shape), tuple(strides)):
            raise _ferry.UnsupportedError("the elements of this view do not lie next to each other: index the ndarray of an access")
        return self._view(self.dtype, offset * self.itemsize, tuple(shape), tuple(strides))

    def view(self, dtype: Any) -> Array:
        """Return a view of the same bytes as another element. The last dimension grows or shrinks to fit."""
        kind = element(dtype)
        if self._strides() != c_strides(self.shape) and kind.itemsize != self.itemsize:
            raise _ferry.UnsupportedError("only an array in C order can be viewed as an element of another size")
        if kind.itemsize == self.itemsize:
            return self._view(kind, 0, self.shape, self._strides())
        if not self.shape:
            raise _ferry.WrongTypeError("an array without dimensions can only be viewed as an element of its size")
        last, rest = divmod(self.shape[-1] * self.itemsize, kind.itemsize)
        if rest:
            raise _ferry.WrongTypeError(f"rows of {self.shape[-1] * self.itemsize} bytes are no whole number of {kind.name}")
        return self._view(kind, 0, (*self.shape[:-1], last), None)

    def read_only(self) -> Array:
        """Return a view of the same shape through which nothing can be written, to lend to other code.

        It shows what is written to this array later. Its views and exports are read-only too.

        >>> import ferry
        >>> a = ferry.zeros(2, "f4")
        >>> lent = a.read_only()
        >>> a.fill(1.5)
        >>> lent.tolist()
        [1.5, 1.5]
        >>> lent.fill(2.5)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        ferry.ArgumentError: fill: the array "" is read-only
        """
        return self._view(self.dtype, 0, self.shape, self._strides(), True)

    def reshape(self, *shape: Any) -> Array:
        """Return a view of another shape in C order. One size may be -1."""
        sizes = shape_of(shape[0]) if len(shape) == 1 else shape_of(shape)
        if sizes.count(-1) == 1:
            rest = math.prod(size for size in sizes if size != -1)
            if rest == 0 or self.size % rest:
                raise _ferry.ArgumentError(f"cannot reshape {self.size} elements to {sizes}")
            sizes = tuple(self.size // rest if size == -1 else size for size in sizes)
        if math.prod(sizes) != self.size or any(size < 0 for size in sizes):
            raise _ferry.ArgumentError(f"cannot reshape {self.size} elements to {sizes}")
        if self.size and any(size != 1 and stride != step for size, stride, step
                             in zip(self.shape, self._strides(), c_strides(self.shape))):
            raise _ferry.UnsupportedError("only an array in C order can be reshaped")
        return self._view(self.dtype, 0, sizes, None)

    # -- values ------------------------------------------------------------------------------------------------------

    def copy(self) -> Array:
        """Return a new array with the same values, copied where they are current."""
        return self._like(self.dtype, 0, None)

    __copy__ = copy

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in ("int", "uint"):
            raise _ferry.WrongTypeError("only an array of integers without dimensions is an index")
        return operator.index(self.item())

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def astype(self, dtype: Any, *, policy: str = "saturate", stream: Stream | None = None) -> Array:
        """Return a new array of another element, converted where the values are current.

        `policy` says what happens to values that do not fit: "saturate" rounds and clamps, "truncate" rounds toward
        zero and clamps, "check" raises RangeError.
        """
        return self._like(element(dtype), _policy_of("policy", policy), stream)

    def _like(self, kind: Element, convert: int, stream: Stream | None, name: str | None = None, memory: tuple[int, int] = (0, 0),
              zero_on_release: bool = False) -> Array:
        made = type(self)._create(self.context, kind, self.shape, name, *memory, 0, zero_on_release)
        if self._strides() != c_strides(self.shape):
            made = made._view(kind, 0, self.shape, self._strides())
        if self.size:
            _ferry.copy(made, self, None, convert, stream, True, None, 0, False, False)
        return made

    def fill(self, value: Any, *, stream: Stream | None = None) -> None:
        """Set each element to `value`, where the array is current."""
        _ferry.fill(self, bytes(pack(self.dtype, value)), stream)

    def copy_from(self, source: Any, *, stream: Stream | None = None, wait: bool = True, progress: Any = None,
                  convert: str | None = None) -> Any:
        """Copy another array, or memory that exports a buffer, into this one.

        Without `wait` it returns an Event, and the source must not change until that is done. `convert` is the policy
        of astype(), for elements that differ.
        """
        return self._copy(self, source, stream, wait, progress, convert)

    def copy_to(self, target: Any, *, stream: Stream | None = None, wait: bool = True, progress: Any = None,
                convert: str | None = None) -> Any:
        """Copy this array into another one, or into memory that exports a writable buffer."""
        return self._copy(target, self, stream, wait, progress, convert)

    def _copy(self, target: Any, source: Any, stream: Stream | None, wait: bool, progress: Any, convert: str | None) -> Any:
        other = source if target is self else target
        policy = 0 if convert is None else _policy_of("convert", convert)
        if isinstance(other, (str, os.PathLike)):
            raise _ferry.WrongTypeError("a path: use store() and load_from()")
        shape, strides, kind = (other.shape, other._strides(), None) if isinstance(other, Array) else _layout_of_memory(other)
        if shape != self.shape:
            raise _ferry.ArgumentError(f"the shapes {shape} and {self.shape} differ")
        step = progress_function(progress)
        if any(size != 1 and stride != own for size, stride, own in zip(shape, strides, self._strides())) and self.size:
            if isinstance(other, Array):
                raise _ferry.UnsupportedError("the order of the dimensions differs")
            return self._copy_strided(other, other is source, kind, policy, stream, wait, step)
        return _ferry.copy(target, source, kind, policy, stream, wait, step, 0, False, False)

    def _copy_strided(self, memory: Any, is_source: bool, kind: Element | None, policy: int, stream: Stream | None, wait: bool,
                      progress: Any) -> None:
        """A copy with memory in another order, by way of memory in the order of this array."""
        import numpy

        if not wait:
            raise _ferry.UnsupportedError("the order of the dimensions differs from that of the array: copy with wait=True")
        outside = numpy.asarray(memory)
        staged = numpy.ndarray(self.shape, outside.dtype, numpy.empty(outside.nbytes, numpy.uint8), 0,
                               [stride * outside.itemsize for stride in self._strides()])
        if is_source:
            staged[...] = outside
            _ferry.copy(self, staged, kind, policy, stream, True, progress, 0, False, False)
            return
        if not outside.flags.writeable:
            raise _ferry.ArgumentError("copy_to: the memory is read-only")
        _ferry.copy(staged, self, kind, policy, stream, True, progress, 0, False, False)
        outside[...] = staged

    def store(self, path: str | os.PathLike[str], *, offset: int = 0, wait: bool = True, progress: Any = None,
              direct: bool = False, keep_rest: bool = False) -> Any:
        """Write the raw elements to a file, from byte `offset` on, from where they are current."""
        return _ferry.copy(path_bytes(path), self, False, 0, None, wait, progress_function(progress), offset, direct, keep_rest)

    def load_from(self, path: str | os.PathLike[str], *, offset: int = 0, wait: bool = True, progress: Any = None,
                  direct: bool = False, stream: Stream | None = None) -> Any:
        """Read raw elements from byte `offset` of a file into the array."""
        return _ferry.copy(self, path_bytes(path), False, 0, stream, wait, progress_function(progress), offset, direct, False)

    def prefetch(self, device: int = 1) -> None:
        """Start to copy the array to a place. Later uses there wait for it."""
        _ferry.prefetch(self, device)

    def sync_to(self, device: int) -> None:
        """Copy the array to a place, and wait for it."""
        _ferry.sync_to(self, device)

    def evict(self, device: int) -> None:
        """Free the copy at a place. What only it holds is copied elsewhere first."""
        _ferry.evict(self, device)

    # -- memory that processes share ---------------------------------------------------------------------------------

    def export_shared(self) -> bytes:
        """Return the handle by which another process imports the array with import_shared().

        The array was made with `memory="shared"`, or by import_shared(), and is no view. The bytes may be sent by any
        means. They find the memory as long as the process that made it has the array.
        """
        return _ferry.export_shared(self)

    def acquire_shared(self, stream: Stream | None = None) -> None:
        """Acquire shared memory for this process; BusyError while another process has it.

        With a stream, later work on the stream waits for the other processes instead of this call.
        """
        _ferry.acquire_shared(self, stream)

    def release_shared(self, stream: Stream | None = None) -> None:
        """Release shared memory for other processes, after what is newer elsewhere was copied there.

        It waits for work that uses the memory, or with a stream lets the next process wait for it. Until the memory is
        acquired again, uses of the array raise StateError. The process that makes an array has acquired it.
        """
        _ferry.release_shared(self, stream)

    def shared(self, stream: Stream | None = None) -> _Shared:
        """Acquire shared memory for a `with`, and release it at the end, also after an exception.

        >>> import ferry
        >>> a = ferry.zeros(2, memory="shared", context=ferry.Context("host"))
        >>> a.release_shared()
        >>> with a.shared():
        ...     a.fill(1.5)
        """
        return _Shared(self, stream)

    # -- other libraries ---------------------------------------------------------------------------------------------

    @property
    def __numpy_dtype__(self) -> Any:
        return self.dtype.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """A copy as an ndarray, straight from where it is newest. It keeps nothing open."""
        import numpy

        if copy is False:
            raise ValueError("np.asarray(a) copies: read a ferry.Array in place with `with a.read() as h`")
        own = self.dtype.dtype
        memory = numpy.empty(self.size * self.itemsize, numpy.uint8)
        if self.size:
            _ferry.copy(memory, self, self.dtype, 0, None, True, None, 0, False, False)
        made = numpy.ndarray(self.shape, own, memory, 0, self.strides)
        return made if dtype is None or numpy.dtype(dtype) == own else made.astype(dtype)

    def numpy(self) -> Any:
        """Return a copy as an ndarray; as np.asarray()."""
        return self.__array__()

    def tobytes(self) -> bytes:
        """Return the bytes of the elements in the order of memory."""
        return _ferry.to_bytes(self)

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers."""
        flat: Any = memoryview(self.tobytes())
        if self.dtype.format is None or self.dtype.kind not in ("float", "int", "uint", "bool") or \
                self._strides() != c_strides(self.shape):
            return self.numpy().tolist()
        if not self.size:
            return _nothing(self.shape)
        if self.dtype.bits == 16 and self.dtype.kind == "float":  # memoryviews know it from CPython 3.12 on
            return _nested(list(struct.unpack(f"{self.size}e", flat)), self.shape)
        if not self.shape:
            return flat.cast(self.dtype.format)[0]
        return flat.cast(self.dtype.format, self.shape).tolist()

    def item(self) -> Any:
        """Return the only value as a number of Python."""
        if self.size != 1:
            raise _ferry.ArgumentError(f"item() is for arrays of one element, not {self.size}")
        from ._element import value_of

        return value_of(self.dtype, self.tobytes())

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        return _exchange.export_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _exchange.device_of(self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        access: _exchange.Access = self.read()
        return access.__arrow_c_array__(requested_schema)

    def __arrow_c_device_array__(self, requested_schema: object = None, **options: Any) -> tuple[object, object]:
        place = _ferry.newest_place(self)
        cuda = place and self.context.place(place).dlpack_device[0] == 2
        access: _exchange.Access = self.read(device=place if cuda else None)
        return access.__arrow_c_device_array__(requested_schema, **options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by value; from protocol 5 on without a copy where the pickler takes memory out of band."""
        data: Any = self.tobytes() if protocol < 5 or not self.size else self._lend_bytes()
        return _restore, (data, _describe(self.dtype), self.shape, self._strides(), self.name or None)

    def _lend_bytes(self) -> Any:
        import pickle

        return pickle.PickleBuffer(self._view(element("u1"), 0, (self.nbytes,), None).read())


refuse_operators(Array)


class _Shared:
    """Shared memory that this process has acquired for a `with`."""

    def __init__(self, array: Array, stream: Stream | None) -> None:
        self._array, self._stream = array, stream

    def __enter__(self) -> Array:
        self._array.acquire_shared(self._stream)
        return self._array

    def __exit__(self, *exception: object) -> None:
        self._array.release_shared(self._stream)


def _nested(values: list[Any], shape: tuple[int, ...]) -> Any:
    """Values in C order as nested lists."""
    for size in reversed(shape[1:]):
        values = [values[at:at + size] for at in range(0, len(values), size)]
    return values if shape else values[0]


def _nothing(shape: tuple[int, ...]) -> list[Any]:
    return [] if shape[0] == 0 else [_nothing(shape[1:]) for _ in range(shape[0])]


def _layout_of_memory(memory: Any) -> tuple[tuple[int, ...], tuple[float, ...], Element | None]:
    """Shape, strides in elements, and the element if the buffer protocol need not name it."""
    if _is_ndarray(memory):
        kind = element(memory.dtype)
        return memory.shape, tuple(stride / kind.itemsize for stride in memory.strides), kind
    try:
        with memoryview(memory) as view:
            shape = view.shape or ()
            return shape, tuple(stride / view.itemsize for stride in view.strides or ()) or c_strides(shape), None
    except (TypeError, ValueError, BufferError) as error:
        if isinstance(error, _ferry.Error):
            raise
        raise _ferry.WrongTypeError(f"copy: {error}") from error


def _is_ndarray(memory: Any) -> bool:
    """True for arrays and scalars of NumPy, whose dtypes are more than the buffer protocol has formats for."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(memory, (numpy.ndarray, numpy.generic))


def _as_ndarray(source: Any, kind: Element | None) -> Any:
    """An ndarray of the element, converted by NumPy."""
    import numpy

    try:
        return numpy.asarray(source, dtype=None if kind is None else kind.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, _ferry.Error):
            raise
        raise _ferry.WrongTypeError(f"array: {error}") from error


def _describe(kind: Element) -> Any:
    """An element as pickles carry it."""
    if kind.kind != "struct":
        return kind.name if kind.kind == "bfloat" else kind.typestr
    fields = [(name, field.kind, field.bits, offset, count) for name, field, offset, count in kind.fields]
    return (kind.name, kind.itemsize, kind.alignment, fields)


def _element_of(described: Any) -> Element:
    """The element of a pickle."""
    if isinstance(described, str):
        return element(described)
    from ._element import _KINDS

    fields = [(field, _KINDS[family], bits, offset, count) for field, family, bits, offset, count in described[3]]
    return _ferry.make_struct(described[0], described[1], described[2], None, None, fields)


copyreg.pickle(Element, lambda kind: (_element_of, (_describe(kind),)))


def _restore(data: bytes, described: Any, shape: tuple[int, ...], strides: tuple[int, ...], name: str | None) -> Array:
    """The array of a pickle, in the default context."""
    kind = _element_of(described)
    made = Array._create(default_context(), kind, shape, name, 0, 0, 0, False)
    if made.size:
        _ferry.copy(made, data, kind, 0, None, True, None, 0, False, False)
    return made if strides == c_strides(shape) else made._view(kind, 0, shape, strides)


def empty(shape: Any, dtype: Any = "f4", *, context: Context | None = None, name: str | None = None,
          align: int = 0, memory: str | None = None, device: int | None = None, zero_on_release: bool = False) -> Array:
    """Return an array that reads as zero, and has no memory at any place yet.

    `memory` is the kind of its memory on the host. "pinned" is page-locked, so that devices copy it directly and copies
    overlap with other work; "managed" is one memory that the host and the devices share, where the driver has it;
    "shared" is memory of the place `device`, or of the host, that export_shared() lends to other processes; None and
    "pageable" are ordinary memory. `align` is the alignment of the memory in bytes, a power of two. With
    `zero_on_release` the memory is set to zero before anyone else can get it, as <ferry/buffer.h> says.

    >>> import ferry
    >>> ferry.empty((2, 3), "i4").shape
    (2, 3)
    """
    return Array._create(context_of(context), element(dtype), shape_of(shape), name_of(name), *memory_of(memory, device), align,
                         bool(zero_on_release))


def zeros(shape: Any, dtype: Any = "f4", *, context: Context | None = None, name: str | None = None,
          align: int = 0, memory: str | None = None, device: int | None = None, zero_on_release: bool = False) -> Array:
    """Return an array of zeros; as empty(), whose arrays read as zero.

    >>> import ferry
    >>> ferry.zeros(2).tolist()
    [0.0, 0.0]
    """
    return empty(shape, dtype, context=context, name=name, align=align, memory=memory, device=device,
                 zero_on_release=zero_on_release)


def array(source: Any, dtype: Any = None, *, context: Context | None = None, name: str | None = None,
          memory: str | None = None, device: int | None = None, zero_on_release: bool = False) -> Array:
    """Return an array with a copy of what exports a buffer: an ndarray, bytes, array.array, a ferry.Array; or a tensor of DLPack.

    Lists and numbers need NumPy. With a `dtype` NumPy converts first, and Ferry where the source is a ferry.Array.
    `memory`, `device` and `zero_on_release` are those of empty().

    >>> import array, ferry
    >>> ferry.array(array.array("d", [1, 2])).tolist()
    [1.0, 2.0]
    """
    if isinstance(source, Array):
        if context is not None and context_of(context) is not source.context:
            source = source.numpy()
        else:
            return source._like(source.dtype if dtype is None else element(dtype), 0 if dtype is None else _POLICIES["saturate"], None,
                                name_of(name), memory_of(memory, device), bool(zero_on_release))
    kind = None if dtype is None else element(dtype)
    if _is_ndarray(source):
        if kind is None:
            kind = element(source.dtype)
        elif element_or_none(source.dtype) is not kind:
            source = _as_ndarray(source, kind)
    elif not _exports_memory(source):
        known = _ndarray_or_none(source, kind)
        if known is None:
            return array(from_dlpack(source, context=context), dtype, name=name, memory=memory, device=device,
                         zero_on_release=zero_on_release)
        source = known
        kind = kind or element(source.dtype)
    elif kind is not None and not _holds(source, kind):
        source = _as_ndarray(memoryview(source), kind)
    if kind is not None and kind.format is None:
        return Array._create_from(context_of(context), source.view("u2"), element("u2"), name_of(name), *memory_of(memory, device),
                                  bool(zero_on_release)).view(kind)
    return Array._create_from(context_of(context), source, kind, name_of(name), *memory_of(memory, device), bool(zero_on_release))


def _ndarray_or_none(source: Any, kind: Element | None) -> Any:
    """An ndarray of the source; None for a tensor of which NumPy makes none, as on a device, or of bfloat16."""
    if hasattr(source, "__dlpack__") and not hasattr(source, "__array__"):
        return None
    try:
        return _as_ndarray(source, kind)
    except _ferry.WrongTypeError:
        if hasattr(source, "__dlpack__"):
            return None
        raise


def _holds(exporter: Any, kind: Element) -> bool:
    """True when the items of an exporter are of this element already."""
    try:
        return _ferry.element_of(exporter) is kind
    except _ferry.Error:
        return False


def _exports_memory(source: Any) -> bool:
    try:
        memoryview(source).release()
    except TypeError:
        return False
    except BufferError as error:
        if isinstance(error, _ferry.Error):
            raise
        return False  # NumPy may know another way, as to bfloat16 of JAX
    except ValueError:  # NumPy has no format for it
        return True
    return True


def wrap(memory: Any, dtype: Any = None, *, read_only: bool | None = None, context: Context | None = None,
         name: str | None = None) -> Array:
    """Return an array over memory of the host that exports a buffer, without a copy.

    The memory stays its owner's and becomes the host copy of the array, so that the owner sees what an access of the
    host wrote. Values that are newer on a device come back when the array is read on the host, or ends. Do not write
    the memory by other ways while the array lives.

    >>> import ferry
    >>> memory = bytearray(4)
    >>> a = ferry.wrap(memory)
    >>> a.fill(7)
    >>> memory[0]
    7
    """
    if isinstance(memory, Array):
        raise _ferry.WrongTypeError("wrap takes memory of the host: a view of an Array is a[...]")
    kind = None if dtype is None else element(dtype)
    if _is_ndarray(memory):
        kind = kind or element(memory.dtype)
        read_only = not memory.flags.writeable if read_only is None else read_only
    elif read_only is None:
        try:
            with memoryview(memory) as view:
                read_only = view.readonly
        except (TypeError, ValueError, BufferError) as error:
            if isinstance(error, _ferry.Error):
                raise
            raise _ferry.WrongTypeError(f"wrap: {error}") from error
    return Array._wrap(context_of(context), memory, kind, read_only, name_of(name))


def from_dlpack(source: Any, *, device: int | None = None, read_only: bool | None = None, copy: bool | None = None,
                context: Context | None = None) -> Array:
    """Return an array over the memory of another library's array, without a copy where that is possible.

    `device` is a place of the context to which the values are copied, if the memory is elsewhere. None leaves them there.

    `copy=True` always copies; `copy=False` raises UnsupportedError where a copy would be needed, as for elements that
    do not lie next to each other. `read_only` None follows the producer's flag, and is True for JAX, which has none. A
    copy may be written, unless `read_only` is True.
    """
    used = context_of(context)
    if device is not None:
        used.place(device)  # a wrong one raises before the producer gives its memory away
    made: Array = _exchange.take_dlpack(Array, used, source, read_only, copy)
    if device is not None:
        made.sync_to(device)
    return made


def from_arrow(source: Any, *, context: Context | None = None) -> Array:
    """Return a read-only array over an Arrow array of numbers without nulls, such as one of pyarrow.

    What consists of several arrays, as a ChunkedArray of pyarrow and a Series of pandas do, is refused: take each of them, or make one.
    """
    export = getattr(source, "__arrow_c_device_array__", None) or getattr(source, "__arrow_c_array__", None)
    if export is None and hasattr(source, "__arrow_c_stream__"):
        raise _ferry.WrongTypeError(f"from_arrow takes one array, and a {type(source).__name__} may have several: take one of its chunks, "
                                    "or combine them into one")
    if export is None:
        raise _ferry.WrongTypeError(f"from_arrow takes an array of Arrow, which has __arrow_c_array__, not a {type(source).__name__}")
    schema, memory = export()
    return _ferry.import_arrow(Array, context_of(context), schema, memory)


def import_shared(share: bytes, dtype: Any, shape: Any = -1, *, read_only: bool = False, device: int | None = None,
                  context: Context | None = None, name: str | None = None) -> Array:
    """Return an array over the memory that another process exports with export_shared().

    Acquire it before its first use, as with `with a.shared():`. The element is the exporter's, and the shape has its
    number of elements; one size may be -1. A process that is `read_only` cannot write, and may have the memory at the
    same time as others that are. `device` is the place of the memory in this process: None is the host for memory of
    the host, and else the first device of the same kind.
    """
    kind, sizes = element(dtype), shape_of(shape)
    return _ferry.import_shared(Array, context_of(context), kind, share, lambda count: _fit(sizes, count), bool(read_only),
                                place_of(device), name_of(name))


def _fit(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A shape of `count` elements, of which one size may be -1."""
    rest = math.prod(size for size in sizes if size != -1)
    fitted = tuple(count // rest if size == -1 and rest > 0 else size for size in sizes) if sizes.count(-1) == 1 else sizes
    if math.prod(fitted) != count or any(size < 0 for size in fitted):
        raise _ferry.ArgumentError(f"the array has {count} elements, and not the shape {sizes}")
    return fitted


def _bytes_of_file(path: str | os.PathLike[str]) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise file_error(f"load {os.fspath(path)!r}: {error.strerror}", path, error.errno) from None


def load(path: str | os.PathLike[str], dtype: Any, shape: Any = -1, *, offset: int = 0, context: Context | None = None,
         name: str | None = None, stream: Stream | None = None, progress: Any = None, memory: str | None = None) -> Array:
    """Return an array with the raw elements of a file, from byte `offset` on. One size may be -1: up to the end.

    `memory` is that of empty().
    """
    kind, sizes, path = element(dtype), shape_of(shape), os.fsdecode(path_bytes(path))
    if sizes.count(-1) == 1:
        rest = math.prod(size for size in sizes if size != -1) * kind.itemsize
        count, odd = divmod(max(_bytes_of_file(path) - offset, 0), rest) if rest else (0, 0)
        if odd:
            raise file_error(f"load {os.fspath(path)!r}: the bytes after offset {offset} are no whole number of {rest}", path)
        sizes = tuple(count if size == -1 else size for size in sizes)
    made = Array._create(context_of(context), kind, sizes, name_of(name), *memory_of(memory), 0, False)
    if made.size:
        made.load_from(path, offset=offset, progress=progress, stream=stream)
    return made
