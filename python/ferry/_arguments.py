# SPDX-License-Identifier: MIT
"""Checks of arguments that many functions take: a wrong one is named, with what it should be."""

from __future__ import annotations

import operator

from . import _ferry
from ._context import Context, default_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEMORY = {None: 0, "pinned": 2, "pageable": 3, "managed": 4, "shared": 5}


def context_of(context: Any) -> Context:
    """The context of an argument; None is the default one."""
    if context is None:
        return default_context()
    if not isinstance(context, Context):
        made = f": ferry.Context({context!r}) makes one" if isinstance(context, str) else ""
        raise _ferry.WrongTypeError(f"context is a ferry.Context, not {context!r}{made}")
    return context


def name_of(name: Any) -> str | None:
    """The name of an array or a kernel."""
    if name is not None and not isinstance(name, str):
        raise _ferry.WrongTypeError(f"name is a text, not {name!r}")
    if name is not None and "\0" in name:
        raise _ferry.ArgumentError(f"name is a text without NUL characters, not {name!r}")
    return name


def memory_of(memory: Any, device: Any = None) -> tuple[int, int]:
    """The kind of an array's memory, and the place of memory that processes share."""
    kind = _MEMORY.get(memory) if memory is None or isinstance(memory, str) else None
    if kind is None:
        raise _ferry.ArgumentError(f"memory is None, \"pinned\", \"pageable\", \"managed\" or \"shared\", not {memory!r}")
    if device is not None and memory != "shared":
        raise _ferry.ArgumentError("device is the place of memory=\"shared\"; other arrays have memory where they are used")
    return kind, place_of(device)


def place_of(device: Any) -> int:
    """The place of an argument; None is 0."""
    try:
        return 0 if device is None else operator.index(device)
    except TypeError:
        raise _ferry.WrongTypeError(f"device is the number of a place, not {device!r}") from None


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of integers."""
    try:
        return (operator.index(shape),)
    except TypeError:
        pass
    try:
        return tuple(operator.index(size) for size in shape)
    except TypeError:
        raise _ferry.WrongTypeError(f"a shape is an integer or a tuple of integers, not {shape!r}") from None
