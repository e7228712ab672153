# SPDX-License-Identifier: MIT
"""What needs NumPy. It is imported when an ndarray is first made."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy

    from ._ferry import Element


def hash_of(element: Element) -> int | None:
    """The hash of NumPy's dtype of a number, which is equal to the element; None without NumPy."""
    try:
        return None if element.kind == "struct" else hash(dtype_of(element))
    except (ImportError, NotImplementedError):
        return None


def dtype_of(element: Element) -> numpy.dtype[Any]:
    """NumPy's dtype of an element."""
    import numpy

    if element.kind == "bfloat":
        try:
            found: numpy.dtype[Any] = numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError as error:
            from ._ferry import UnsupportedError

            raise UnsupportedError("NumPy has no bfloat16: install ml_dtypes, or use view('u2')") from error
        return found
    if element.kind != "struct":
        return numpy.dtype(element.typestr)
    if not element.fields:
        return numpy.dtype(f"V{element.itemsize}")
    bases = [dtype_of(field) for _, field, _, _ in element.fields]
    formats = [(base, (count,)) if count > 1 else base for base, (_, _, _, count) in zip(bases, element.fields)]
    # NumPy refuses the flag for a layout that is not aligned by its own rules, whatever Ferry's element says.
    aligned = element.alignment > 1 and all(offset % base.alignment == 0 and element.itemsize % base.alignment == 0
                                            for base, (_, _, offset, _) in zip(bases, element.fields))
    layout: Any = {"names": [name for name, *_ in element.fields], "formats": formats,
                   "offsets": [offset for _, _, offset, _ in element.fields], "itemsize": element.itemsize}
    made: numpy.dtype[Any] = numpy.dtype(layout, align=aligned)
    return made
