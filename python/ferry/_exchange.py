# SPDX-License-Identifier: MIT
"""DLPack, Arrow and the CUDA array interface."""

from __future__ import annotations

import operator

from . import _ferry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CPU, _CUDA, _ROCM = 1, 2, 10
_DEFAULT = {_CUDA: 1, _ROCM: 0}  # the default stream of devices that have streams, as the array standard names it
_READ, _UPDATE = 1, 2
_IS_COPIED = 2


def is_legacy(max_version: tuple[int, int] | None) -> bool:
    """True when the consumer takes no tensor of DLPack 1.0."""
    if max_version is None:
        return True
    try:
        major, _ = map(operator.index, max_version)
    except (TypeError, ValueError) as error:
        raise _ferry.WrongTypeError(f"max_version is a pair of integers, not {max_version!r}") from error
    return major < 1


def _device_pair(device: Any) -> tuple[int, int]:
    try:
        kind, number = map(operator.index, device)
    except (TypeError, ValueError) as error:
        raise _ferry.WrongTypeError(f"dl_device is a pair of integers, not {device!r}") from error
    return kind, number


def _stream_of(stream: Any, device: tuple[int, int]) -> int | None:
    """The consumer's stream on a device: None, -1, 1 for the default stream, or the handle of CUDA or HIP."""
    if stream is None:
        return None
    try:
        number = operator.index(stream)
    except TypeError as error:
        raise _ferry.WrongTypeError(f"stream is an integer or None, not {stream!r}") from error
    if device[0] not in _DEFAULT:
        where = "the host, which has no streams" if device[0] == _CPU else "a device that is not CUDA's or HIP's"
        raise BufferError(f"stream is None for memory of {where}, not {stream!r}")
    if device[0] == _CUDA and number == 0:
        raise BufferError("stream 0 has no meaning: use 1 for the legacy default stream")
    if device[0] == _ROCM and number in (1, 2):
        raise BufferError(f"stream {number} has no meaning on HIP devices: use 0 for the default stream")
    if number == _DEFAULT[device[0]]:
        return 1
    if not -1 <= number < 1 << 64:
        raise _ferry.ArgumentError(f"stream is -1 or the address of a stream, not {stream!r}")
    return number


class Access(_ferry.Access):
    """One use of an array at one place. It ends with its `with`, or with the last object that uses its memory."""

    __slots__ = ("__weakref__",)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """An ndarray over the memory of the host, or a copy where another dtype or the caller asks for one.

        NumPy asks the buffer protocol first, and calls this one when that has refused. Without it NumPy would make an
        array of no dimensions that holds the access itself.
        """
        made = self._ndarray()
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError(f"the access holds {made.dtype}: another dtype needs a copy")
            return made.astype(dtype)
        return made.copy() if copy else made

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.context.place(self.place).dlpack_device
        return device

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        if copy and self.place == 0 and self.is_open and self.array.dtype.format:
            # What an open access wrote is in its memory alone.
            own = type(self.array)._create_from(self.array.context, self, self.array.dtype, None, 0, 0, False)
            return export_dlpack(own, stream, max_version, dl_device, True)
        if copy:
            return export_dlpack(self.array, stream, max_version, dl_device, copy, self.place)
        number = _stream_of(stream, self.__dlpack_device__())
        if self.place:
            self._check_stream(number)
        if dl_device is not None and _device_pair(dl_device) != self.__dlpack_device__():
            raise BufferError("an access stays at its place: export the array instead")
        return _ferry.export_dlpack(self, is_legacy(max_version), 0)

    def _check_stream(self, stream: int | None) -> None:
        """A consumer on another stream would see old bytes, and Ferry would not wait for what it queues."""
        if stream == -1:
            return
        default = self.array.context.stream(self.place)
        # None is the default stream of CUDA or HIP, and that of the context on devices which have no other consumers.
        consumer = stream or (1 if self.__dlpack_device__()[0] in _DEFAULT else default.native or 1)
        if consumer != ((self.stream or default).native or 1):
            raise BufferError("the consumer runs on another stream than this access: open it with stream=ferry.Stream(context, device, "
                              "native=handle) of the consumer's, or run the consumer on the stream of the access")

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        if self.place != 0:
            raise _ferry.UnsupportedError("Arrow's C array is for memory of the host: use __arrow_c_device_array__")
        return _ferry.export_arrow(self, False)

    def __arrow_c_device_array__(self, requested_schema: object = None, **options: Any) -> tuple[object, object]:
        return _ferry.export_arrow(self, True)

    def __repr__(self) -> str:
        where = "the host" if self.place == 0 else f"place {self.place}"
        return f"<ferry.Access: {self.mode} at {where}, {'open' if self.is_open else 'not open'}>"


def export_dlpack(array: Any, stream: Any, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None,
                  copy: bool | None, place: int | None = None) -> object:
    """Array.__dlpack__: lends the array for reading and writing, until the consumer's tensor ends. A read-only array is lent for reading.

    `place` is where the consumer expects the tensor: that of an access, of which a copy is exported, or else where the array says it is.
    """
    place = _place_of(array) if place is None else place
    here: tuple[int, int] = array.context.place(place).dlpack_device
    device = here if dl_device is None else _device_pair(dl_device)
    legacy = is_legacy(max_version)
    number = _stream_of(stream, here)
    if device not in (here, (_CPU, 0)):
        raise BufferError(f"the array cannot be exported to the device {device}")
    if copy is False and device != here:
        raise BufferError("the newest values are on the device, and copy=False forbids to copy them")
    if copy:
        array = array.copy()
    mode = _READ if array.is_read_only else _UPDATE
    if legacy and mode == _READ:
        raise BufferError("a read-only array needs a consumer of DLPack 1.0, because older tensors have no read-only flag: lend a copy()")
    place = place if device == here else 0
    access = _ferry.open_for_export(array, mode, place, 1 if place == 0 or number is None else number)
    return _ferry.export_dlpack(access, legacy, _IS_COPIED if copy and not legacy else 0)


def device_of(array: Any) -> tuple[int, int]:
    """Array.__dlpack_device__: a device of CUDA or HIP when only it has the newest values, else the CPU."""
    device: tuple[int, int] = array.context.place(_place_of(array)).dlpack_device
    return device


def _place_of(array: Any) -> int:
    place = _ferry.newest_place(array)
    return place if array.context.place(place).dlpack_device[0] in _DEFAULT else 0


def take_dlpack(array_type: type, context: Any, source: Any, read_only: bool | None, copy: bool | None) -> Any:
    """Ask a producer for its tensor and import it."""
    device = source.__dlpack_device__()
    arguments: dict[str, Any] = {}
    if int(device[0]) in _DEFAULT:
        arguments["stream"] = _DEFAULT[int(device[0])]
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:
        capsule = source.__dlpack__(**arguments)
    if read_only is None:
        # JAX exports arrays that must not change without the flag.
        read_only = type(source).__module__.partition(".")[0] in ("jax", "jaxlib")
    made: Any = _ferry.import_dlpack(array_type, context, capsule, read_only, 1 if copy is None else 2 * bool(copy))
    if not copy or not made.stats()["lent_at"]:
        return made
    own = made.copy()
    return own.read_only() if read_only else own
