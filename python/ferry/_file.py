# SPDX-License-Identifier: MIT
"""Files larger than memory, chunk by chunk."""

from __future__ import annotations

import os

from . import _ferry
from ._arguments import context_of
from ._array import Array, path_bytes, progress_function
from ._context import Context, Stream
from ._element import element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NamedTuple
else:
    from ._records import Record as NamedTuple


class FileStats(NamedTuple):
    """What stream_file() did. The three stages overlap, so that their sum may exceed `wall_ns`."""

    chunks: int
    bytes_read: int
    bytes_written: int
    bytes_direct: int
    load_ns: int
    work_ns: int
    store_ns: int
    wall_ns: int


def stream_file(path: str | os.PathLike[str], dtype: Any, work: Callable[[Array, Stream, int], object], *,
                output: str | os.PathLike[str] | None = None, stream: Stream | None = None, device: int = 1,
                context: Context | None = None, offset: int = 0, output_offset: int = 0, nbytes: int = 0,
                chunk_bytes: int = 0, chunk_count: int = 0, progress: Any = None, direct: bool = False,
                keep_rest: bool = False) -> FileStats:
    """Copy a file of any size to a device chunk by chunk, and call `work(chunk, stream, start)` for each.

    `chunk` is an Array on the device, which `work` may pass to kernels, read, write, copy, convert and store. It and its
    views are closed when `work` returns. `start` is the index of its first element. `work` ends the call by raising or by returning False. With `output` the
    chunks are written there.
    """
    if stream is None:
        stream = context_of(context).stream(device)
    target = None if output is None else path_bytes(output)
    found = _ferry.stream_file(Array, stream, element(dtype), path_bytes(path), target, work, progress_function(progress),
                               offset, output_offset, nbytes, chunk_bytes, chunk_count, direct, keep_rest)
    return FileStats(**found)
