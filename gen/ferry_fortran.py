# SPDX-License-Identifier: MIT
"""What fortran.f90.j2 prints of an element type: names, and a derived type with the layout of the C struct."""

import re

from ferry_types import TypeFileError

LINE_LENGTH = 120  # a compiler need not accept more than 132
NAME_LENGTH = 63  # what a Fortran 2008 compiler must accept
RANKS = (1, 2, 3, 4)


def scalar_type(kind, bits):
    """The interoperable Fortran type; half, bfloat16 and complex numbers of halves are the integers of their bits."""
    if kind in ("int", "uint", "bfloat") or kind == "float" and bits == 16 or kind == "complex" and bits == 32:
        return f"integer(c_int{bits}_t)", f"c_int{bits}_t"
    constant = {("float", 32): "c_float", ("float", 64): "c_double", ("bool", 8): "c_bool",
                ("complex", 64): "c_float_complex", ("complex", 128): "c_double_complex"}[kind, bits]
    word = {"float": "real", "bool": "logical", "complex": "complex"}[kind]
    return f"{word}({constant})", constant


def scalar_align(kind, bits):
    """Of the Fortran type, which is that of the same C type."""
    return bits // 16 if kind == "complex" and bits > 32 else bits // 8


class Component:
    """One component of a derived type: a field, or the bytes between two fields."""

    def __init__(self, name, declaration, constant, field=None):
        self.name = name
        self.declaration = declaration
        self.constant = constant
        self.field = field  # None: bytes between fields


class FortranElement:
    """One element type as Fortran sees it. Attributes are what the template prints."""

    def __init__(self, element):
        self.element = element
        self.ranks = RANKS
        self.module = f"{element.sym}_buffers"
        self.buffer = f"{element.sym}_buffer"
        self.check_name("name", self.module)
        self.components = []
        self.constants = []
        if element.kind == "struct":
            self.type_name = element.sym
            self.type = f"type({element.sym})"
            self.components = self.layout()
            self.constants = sorted({component.constant for component in self.components})
        else:
            if element.kind == "complex" and element.bits == 32:
                raise TypeFileError(element.path, "bits", "is 32; Fortran has no complex numbers of two halves, expected 64 or 128")
            self.type_name = ""
            self.type, constant = scalar_type(element.kind, element.bits)
            self.constants = [constant]

    def check_name(self, key, name):
        if len(name) > NAME_LENGTH:
            raise TypeFileError(self.element.path, key, f"makes the Fortran name '{name}' of {len(name)} characters; expected at most "
                                f"{NAME_LENGTH}")

    def layout(self):
        """The fields in order of their offsets, with bytes between them where the compiler would leave fewer."""
        components, end, names = [], 0, set()
        for index, field in enumerate(self.element.fields):
            name = re.sub(r"[].[]+", "_", field.name).lower()
            where = f"fields named '{field.name}'"
            if name.startswith("_"):
                raise TypeFileError(self.element.path, where, "a Fortran name begins with a letter")
            self.check_name(where, name)
            if name in names or name.startswith("between_"):
                raise TypeFileError(self.element.path, where, f"another component is named '{name}' in Fortran, where case does not count")
            names.add(name)
            if field.offset % scalar_align(field.kind, field.bits):
                raise TypeFileError(self.element.path, where, f"is at offset {field.offset}; Fortran aligns it to "
                                    f"{scalar_align(field.kind, field.bits)} bytes")
            self.fill(components, end, field.offset)
            fortran_type, constant = scalar_type(field.kind, field.bits)
            size = f"({field.count})" if field.count > 1 else ""
            components.append(Component(name, f"{fortran_type} :: {name}{size}", constant, field))
            end = field.offset + field.bytes
        self.fill(components, end, self.element.bytes)
        return components

    @staticmethod
    def fill(components, begin, end):
        if end > begin:
            name = f"between_{begin}"
            components.append(Component(name, f"integer(c_int8_t) :: {name}({end - begin}) = 0_c_int8_t", "c_int8_t"))

    @property
    def declarations(self):
        """(variable, component of ferry_c_element, Fortran expressions of characters for each line) of each language that has one."""
        found = (("cuda", self.element.cuda_lines), ("opencl", self.element.opencl_lines))
        return [(name, f"{name}_declaration", [fortran_text(eval_c_line(line)) for line in lines]) for name, lines in found if lines]


def eval_c_line(literal):
    """The characters of one C literal as ferry_types writes it."""
    text, at, body = [], 0, literal[1:-1]
    while at < len(body):
        if body[at] != "\\":
            text.append(body[at])
            at += 1
        elif body[at + 1] in "01234567":
            text.append(chr(int(body[at + 1:at + 4], 8)))
            at += 4
        else:
            text.append({"n": "\n", "t": "\t"}.get(body[at + 1], body[at + 1]))
            at += 2
    return "".join(text)


def fortran_text(text):
    """An expression; lines of source end at 132 columns, so that long texts are several literals."""
    pieces, plain = [], ""
    for character in text:
        if " " <= character <= "~":
            plain += character.replace("'", "''")
            if len(plain) >= 80:
                pieces.append(f"'{plain}'")
                plain = ""
            continue
        if plain:
            pieces.append(f"'{plain}'")
            plain = ""
        pieces.append(f"achar({ord(character)})")
    if plain:
        pieces.append(f"'{plain}'")
    return pieces


def wrapped(text):
    """Breaks statements that are too long at a comma."""
    return "".join(wrapped_line(line) for line in text.splitlines(keepends=True))


def wrapped_line(line):
    body = line.rstrip("\n").rstrip("& ").rstrip(",")
    comma = body.rfind(", ", 0, LINE_LENGTH)
    if len(line) <= LINE_LENGTH or line.lstrip().startswith("!") or comma < 0:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return line[:comma + 1] + " &\n" + wrapped_line(indent + line[comma + 2:])
