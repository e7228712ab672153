# SPDX-License-Identifier: MIT
"""Type files of ferry-gen for structs that a program has as a dtype of NumPy."""

from __future__ import annotations

import os

from . import _ferry
from ._element import element

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._ferry import Element

_C_TYPES = {("float", 16): "ferry_half", ("bfloat", 16): "ferry_bfloat16", ("float", 32): "float", ("float", 64): "double", ("bool", 8): "bool",
            ("complex", 64): "ferry_complex_float", ("complex", 128): "ferry_complex_double"}


def split_types(types: Sequence[Any] | Mapping[str, Any]) -> tuple[list[str], dict[str, Element]]:
    """The type files of `types=`, and the structs by name."""
    paths: list[str] = []
    structs: dict[str, Element] = {}
    named = list(types.items()) if hasattr(types, "items") else [(None, one) for one in types]
    for name, one in named:
        if isinstance(one, (str, os.PathLike)) and os.fspath(one).endswith(".json"):
            paths.append(os.path.abspath(one))
            continue
        kind = element(one)
        if not kind.fields:
            raise _ferry.WrongTypeError(f"types: {one!r} is no struct with fields")
        if not isinstance(name, str):
            raise _ferry.ArgumentError(f"types: a dtype needs the name that the parameters use: types={{\"point\": {one!r}}}")
        structs[name] = kind
    return paths, structs


def write_type(folder: str, prefix: str, name: str, kind: Element) -> str:
    """Write the type file of a struct and the header that declares it, and return the path of the type file."""
    import json

    c_name, members, fields, end = f"{prefix}_{name}", [], [], 0
    for field, scalar, offset, count in kind.fields:
        c_type = _C_TYPES.get((scalar.kind, scalar.bits)) or f"{scalar.kind}{scalar.bits}_t"
        designator = field.replace(".", "_")
        fields.append({"name": designator, "type": c_type, "offset": offset, **({"count": count} if count > 1 else {})})
        if offset > end:
            members.append(f"unsigned char ferry_padding_{end}_[{offset - end}];")
        members.append(f"{c_type} {designator}{f'[{count}]' if count > 1 else ''};")
        end = offset + scalar.itemsize * count
    if end < kind.itemsize:
        members.append(f"unsigned char ferry_padding_{end}_[{kind.itemsize - end}];")
    described = {"ferry": 1, "prefix": prefix, "name": name, "kind": "struct", "c_type": f"struct {c_name}", "header": f"{c_name}_buffer.h",
                 "include": [f"{c_name}.h"], "bytes": kind.itemsize, "align": kind.alignment, "fields": fields}
    header = (f"#include <stdbool.h>\n#include <stdint.h>\n#include <ferry/number.h>\nstruct {c_name} {{\n    " + "\n    ".join(members)
              + f"\n}} __attribute__((packed, aligned({kind.alignment})));\n")
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(described, file)
    with open(os.path.join(folder, c_name + ".h"), "w", encoding="utf-8") as file:
        file.write(header)
    return path
