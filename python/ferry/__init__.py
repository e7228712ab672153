# SPDX-License-Identifier: MIT
"""Typed arrays that live on the host and on GPUs at once.

An Array keeps a copy on the host and one on each device that needs it, and knows which is current where. Values are
used inside an access, `with a.read() as h:` on the host or `with a.update(stream=s) as d:` on a device, and Ferry copies
only what that place lacks.
"""

from __future__ import annotations

from . import _ferry

_ferry._enter_interpreter()  # before anything that an interpreter's end would take from another

from . import _exchange, _nvrtc
from ._array import Array, array, empty, from_arrow, from_dlpack, import_shared, load, wrap, zeros
from ._context import (Context, Count, Graph, Memory, Place, Stats, Stream, Trace, Transfer, default_context, graph, stats,
                       trace)
from ._element import element
from ._exchange import Access
from ._ferry import (ArgumentError, BusyError, CancelledError, CompileError, ConflictError, DeviceError, DeviceLostError,
                     Element, Error, Event, FileError, NoDeviceError, OutOfMemoryError, RangeError, SizeError, StateError,
                     UnsupportedError, WrongContextError, WrongTypeError)
from ._file import FileStats, stream_file
from ._kernel import Grid, Kernel, grid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._expression import Elementwise, Fused, Kernels, Reduction, elementwise, kernels, reduction

_nvrtc.find()
_ferry.set_access_type(Access)
_ferry.set_folder(__path__[0])

__version__ = _ferry.version
__all__ = [
    "Access", "ArgumentError", "Array", "BusyError", "CancelledError", "CompileError", "ConflictError", "Context", "Count",
    "DeviceError", "DeviceLostError", "Element", "Elementwise", "Error", "Event", "FileError", "FileStats", "Fused", "Graph", "Grid", "Kernel", "Kernels", "Memory",
    "NoDeviceError", "OutOfMemoryError", "Place", "RangeError", "Reduction", "SizeError", "StateError", "Stats", "Stream", "Trace",
    "Transfer", "UnsupportedError", "WrongContextError", "WrongTypeError", "array", "default_context", "element", "elementwise", "empty",
    "from_arrow", "from_dlpack", "graph", "grid", "import_shared", "kernels", "load", "reduction", "stats", "stream_file", "trace", "wrap", "zeros",
]
del _exchange, _nvrtc


def __dir__() -> list[str]:
    """What completion shows."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> object:
    """What few programs use is imported at its first use."""
    if name not in ("Elementwise", "Fused", "Kernels", "Reduction", "elementwise", "kernels", "reduction"):
        raise AttributeError(f"module 'ferry' has no attribute {name!r}")
    from . import _expression

    return getattr(_expression, name)
