# SPDX-License-Identifier: MIT
"""Elements: what an array holds."""

from __future__ import annotations

import builtins
import math
import os
import struct
import sys
import threading
import types

from . import _ferry
from ._errors import file_error
from ._ferry import Element
from ._folders import GENERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BUFFER, _TYPESTR = 1, 2
_KINDS = {"float": 1, "bfloat": 2, "int": 3, "uint": 4, "bool": 5, "complex": 6, "struct": 7}

# Names that NumPy, C and Ferry give to numbers.
_TYPESTRS = {
    "float16": "<f2", "float32": "<f4", "float64": "<f8", "half": "<f2", "float": "<f4", "double": "<f8",
    "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "int": "<i4", "byte": "|u1",
    "uint8": "|u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "bool": "|b1", "bool_": "|b1",
    "complex64": "<c8", "complex128": "<c16", "complex_float": "<c8", "complex_double": "<c16",
}
_BFLOAT16 = _ferry.make_scalar(_KINDS["bfloat"], 16)


def element(what: Any) -> Element:
    """Return the element that `what` names.

    `what` is an Element, a name such as "f4", "float32" or "bfloat16", a type of Python or NumPy, a dtype of NumPy
    (also a structured one), or the path of a type file of ferry-gen. A name means what it means in NumPy, except that
    "float" and "int" are those of C when they are strings.

    >>> import ferry
    >>> ferry.element("float32").itemsize
    4
    >>> ferry.element(complex) == "complex128"
    True
    """
    if isinstance(what, Element):
        return what
    if isinstance(what, str):
        return _from_name(what)
    if isinstance(what, os.PathLike):
        return _from_file(os.fspath(what))
    if what is None:
        raise _ferry.WrongTypeError("None names no element")
    for python, typestr in ((bool, "|b1"), (int, "<i8"), (float, "<f8"), (complex, "<c16")):
        if what is python:
            return _ferry.parse_element(_TYPESTR, typestr)
    if getattr(what, "__module__", "") == "ml_dtypes" and getattr(what, "__name__", "") == "bfloat16":
        return _BFLOAT16
    return _from_numpy(what)


def element_or_none(what: Any) -> Element | None:
    """As element(), for comparisons: None for what names no element."""
    try:
        return element(what)
    except Exception:  # an object of any class may stand on the other side of ==
        return None


def _from_name(name: str) -> Element:
    if name == "bfloat16":
        return _BFLOAT16
    if name.endswith(".json"):
        return _from_file(name)
    if "\0" in name or not name.isprintable():
        raise _ferry.WrongTypeError(f"no element is named {name!r}")
    text = _TYPESTRS.get(name, name)
    if len(text) >= 2 and text[0] in "biufcV" and text[1:].isdigit():
        text = ("|" if text[1:] == "1" or text[0] in "V" else "<") + text
    if text[:1] == "=":
        text = "<" + text[1:]
    if text[:1] in ("<", ">", "|"):
        return _ferry.parse_element(_TYPESTR, text)
    try:
        return _ferry.parse_element(_BUFFER, text)
    except _ferry.ArgumentError as error:
        raise _ferry.WrongTypeError(f"no element is named {name!r}") from error


def _from_numpy(what: Any) -> Element:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise _ferry.WrongTypeError(f"{what!r} names no element")
    try:
        dtype = numpy.dtype(what)
    except Exception as error:  # NumPy asks objects of any class for their dtype
        raise _ferry.WrongTypeError(f"{what!r} names no element") from error
    if dtype.name == "bfloat16":
        return _BFLOAT16
    if dtype.hasobject:
        raise _ferry.WrongTypeError(f"{dtype} holds Python objects, which have no place on a device")
    if dtype.subdtype is not None:
        raise _ferry.WrongTypeError(f"{dtype} has a shape of its own: add it to that of the array")
    if dtype.names is not None:
        return _from_fields(dtype)
    if dtype.str[0] == ">":
        raise _ferry.WrongTypeError(f"{dtype} is big-endian: convert it to the byte order of the machine")
    if dtype.kind in "mM":
        raise _ferry.WrongTypeError(f"{dtype} is a date, which no element holds: view the ndarray as 'i8'")
    return _ferry.parse_element(_TYPESTR, dtype.str)


def element_of_view(view: memoryview) -> Element | None:
    """The element of a memoryview of an ndarray, by its dtype; None for a memoryview of something else, and for one that was cast."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(view.obj, numpy.ndarray) or view.format != memoryview(view.obj).format:
        return None
    return _from_numpy(view.obj.dtype)


_LETTERS = {("b", 1): "?", ("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q", ("u", 1): "B", ("u", 2): "H", ("u", 4): "I",
            ("u", 8): "Q", ("f", 2): "e", ("f", 4): "f", ("f", 8): "d", ("c", 8): "Zf", ("c", 16): "Zd"}


def _from_fields(dtype: Any) -> Element:
    """The element of a structured dtype. NumPy itself writes no format for fields that are out of order or dates."""
    fields: list[tuple[int, int, str]] = []
    _flatten(dtype, "", 0, fields)
    text, end = "=", 0
    for offset, size, field in sorted(fields):
        if offset < end:
            raise _ferry.UnsupportedError(f"the fields of {dtype} overlap: an element has each byte once")
        text += ("" if offset == end else f"{offset - end}x") + field
        end = offset + size
    if end < dtype.itemsize:
        text += f"{dtype.itemsize - end}x"
    return _ferry.parse_element(_BUFFER, f"T{{{text}}}")


def _flatten(dtype: Any, prefix: str, start: int, out: list[tuple[int, int, str]]) -> None:
    """Offset, size and format of each field, where fields of nested structs count as fields of the outer one."""
    for name in dtype.names:
        kind, offset = dtype.fields[name][:2]
        count = 1
        while kind.subdtype is not None:
            kind, shape = kind.subdtype
            count *= math.prod(shape)
        if kind.names is not None and count == 1:
            _flatten(kind, f"{prefix}{name}.", start + offset, out)
            continue
        if kind.names is not None:
            raise _ferry.UnsupportedError(f"{dtype}: the field {name!r} is an array of structs")
        letter = _letter_of(kind, name)
        if kind.kind in "SV":
            count *= kind.itemsize
        if count == 0:
            raise _ferry.UnsupportedError(f"{dtype}: the field {name!r} has no bytes")
        if ":" in name or "\0" in name or not name.isprintable():
            raise _ferry.UnsupportedError(f"{dtype}: the name of the field {name!r} cannot be written in a format of the buffer protocol")
        size = count * (1 if kind.kind in "SV" else kind.itemsize)
        out.append((start + offset, size, f"({count}){letter}:{prefix}{name}:" if count > 1 else f"{letter}:{prefix}{name}:"))


def _letter_of(kind: Any, name: str) -> str:
    """The letter of the buffer protocol for the numbers of a field."""
    if kind.str[0] == ">":
        raise _ferry.WrongTypeError(f"the field {name!r} is big-endian: convert it to the byte order of the machine")
    if kind.kind == "S" or kind.kind == "V" and kind.str[:2] == "|V" and kind.isbuiltin != 2:
        return "B"
    letter = _LETTERS.get((kind.kind, kind.itemsize))
    if letter is None:
        raise _ferry.WrongTypeError(f"the field {name!r} is of {kind}, which no element holds"
                                    + (": view it as 'i8'" if kind.kind in "mM" else ""))
    return letter


def _from_file(path: str) -> Element:
    """The element of a type file, as ferry-gen reads it."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise file_error(f"element {path!r}: {error.strerror}", path, error.errno) from None
    except ValueError as error:
        raise _ferry.WrongTypeError(f"no path is {path!r}") from error
    types = load_generator("ferry_types")
    try:
        found = types.load(path, shallow=True)
    except types.GeneratorError as error:
        raise _ferry.WrongTypeError(str(error)) from error
    return element_of_file(found)


def element_of_file(found: Any) -> Element:
    """The element that ferry-gen read from a type file."""
    if not found.is_struct:
        return _ferry.make_scalar(_KINDS[found.kind], found.bits)
    fields = [(field.name, _KINDS[field.kind], field.bits, field.offset, field.count) for field in found.fields]
    return _ferry.make_struct(found.full_name, found.bytes, found.align, found.cuda_text or None, found.opencl_text or None,
                              fields)


_generator: dict[str, types.ModuleType] = {}
_generator_lock = threading.RLock()


def load_generator(name: str) -> Any:
    """A module of ferry-gen. It is no module of the program, whose own modules may have its name."""
    with _generator_lock:
        found = _generator.get(name)
        if found is None:
            from importlib.machinery import SourceFileLoader

            path = os.path.join(GENERATOR, name + ".py")
            found = _generator[name] = types.ModuleType(name)
            found.__dict__.update(__file__=path, __builtins__={**vars(builtins), "__import__": _import})
            writes_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
            try:
                exec(SourceFileLoader(name, path).get_code(name) or "", found.__dict__)
            except BaseException:
                del _generator[name]
                raise
            finally:
                sys.dont_write_bytecode = writes_nothing
        return found


def _import(name: str, *arguments: Any, **options: Any) -> Any:
    """The import statement of these modules, which find each other."""
    own = os.path.exists(os.path.join(GENERATOR, name + ".py"))
    return load_generator(name) if own else builtins.__import__(name, *arguments, **options)


def after_fork() -> None:
    """A child has no thread that will ever give the lock back."""
    global _generator_lock
    _generator_lock = threading.RLock()


os.register_at_fork(after_in_child=after_fork)


def pack(what: Element, value: Any) -> Any:
    """A value as something whose buffer has the bytes of one element."""
    try:
        return _pack(what, value)
    except (TypeError, ValueError, OverflowError, AttributeError, struct.error) as error:
        raise _ferry.WrongTypeError(f"{value!r} is no value of {what.name}") from error


def _pack(what: Element, value: Any) -> bytes:
    if what.kind == "float" and what.bits in (16, 32, 64):
        return struct.pack({16: "e", 32: "f", 64: "d"}[what.bits], value)
    if what.kind in ("int", "uint"):
        return int(value.__index__()).to_bytes(what.itemsize, "little", signed=what.kind == "int")
    if what.kind == "bool":
        return b"\x01" if value else b"\x00"
    if what.kind == "complex" and what.bits in (64, 128):
        number = complex(value)
        return struct.pack("ff" if what.bits == 64 else "dd", number.real, number.imag)
    if what.kind == "bfloat":
        bits = int(struct.unpack("I", struct.pack("f", value))[0])
        if bits & 0x7FFFFFFF > 0x7F800000:
            return struct.pack("H", bits >> 16 | 0x40)  # NaN stays NaN
        return struct.pack("H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    import numpy

    if isinstance(value, tuple):
        # NumPy cuts what a field cannot hold, as 1.5 of an integer, and before 2.0 also 300 of u1.
        for (_, field, _, count), item in zip(what.fields, value):
            for number in [item] if count == 1 else numpy.array(item, dtype=object).ravel().tolist():
                _pack(field, number)
    return bytes(numpy.array(value, dtype=what.dtype).tobytes())


def value_of(what: Element, data: bytes) -> Any:
    """The value of one element: a number of Python, or a scalar of NumPy for a struct."""
    if what.kind == "float":
        return struct.unpack({16: "e", 32: "f", 64: "d"}[what.bits], data)[0]
    if what.kind in ("int", "uint"):
        return int.from_bytes(data, "little", signed=what.kind == "int")
    if what.kind == "bool":
        return data != b"\x00"
    if what.kind == "complex":
        return complex(*struct.unpack("ff" if what.bits == 64 else "dd", data))
    if what.kind == "bfloat":
        return struct.unpack("f", b"\x00\x00" + data)[0]
    import numpy

    return numpy.frombuffer(data, dtype=what.dtype)[0]
