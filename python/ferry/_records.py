# SPDX-License-Identifier: MIT
"""Tuples with names. A third of the time of `import ferry` would be that of typing, which has such a class."""

from __future__ import annotations

import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Maker(type):
    """Makes a named tuple of the annotations of a class, as typing.NamedTuple does."""

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, members)
        fields = list(members.get("__annotations__", ()))
        made: Any = collections.namedtuple(name, fields, defaults=[members.pop(field) for field in fields if field in members],  # type: ignore[misc]
                                           module=members["__module__"])
        for key, value in members.items():
            if key not in ("__module__", "__qualname__", "__classcell__"):
                setattr(made, key, value)
        return made


class Record(metaclass=_Maker):
    """A class that derives from this one is a named tuple."""
