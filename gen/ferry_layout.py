# SPDX-License-Identifier: MIT
"""How a data model lays out a struct: the scalars of C by name, offsets, and the same struct in CUDA C++ and OpenCL C."""

import re

from ferry_names import OPENCL_KEYWORDS, VECTOR_TYPE

ALIGN_LIMIT = 256  # every replica of a buffer is aligned at least so
LITERAL_BYTES = 4095  # what a C99 compiler must accept in one string

# C types whose kind and width are the same on every platform that Ferry runs on.
C_SCALARS = {
    "float": ("float", 32), "double": ("float", 64),
    "int8_t": ("int", 8), "int16_t": ("int", 16), "int32_t": ("int", 32), "int64_t": ("int", 64),
    "uint8_t": ("uint", 8), "uint16_t": ("uint", 16), "uint32_t": ("uint", 32), "uint64_t": ("uint", 64),
    "signed char": ("int", 8), "unsigned char": ("uint", 8),
    "bool": ("bool", 8), "_Bool": ("bool", 8),
    "float _Complex": ("complex", 64), "double _Complex": ("complex", 128),
}
FIELD_SCALARS = dict(C_SCALARS, **{
    "char": ("int", 8), "short": ("int", 16), "unsigned short": ("uint", 16), "int": ("int", 32),
    "unsigned": ("uint", 32), "unsigned int": ("uint", 32),
    "long long": ("int", 64), "unsigned long long": ("uint", 64),
    "ferry_half": ("float", 16), "_Float16": ("float", 16), "ferry_bfloat16": ("bfloat", 16),
    "ferry_complex_float": ("complex", 64), "ferry_complex_double": ("complex", 128),
})
LONGS = {"long": "int", "unsigned long": "uint"}
WORDS = {"size_t": "uint", "ptrdiff_t": "int", "intptr_t": "int", "uintptr_t": "uint"}
ENUM = re.compile(r"enum( [A-Za-z_][A-Za-z0-9_]*)?")

# What CUDA C++ calls a scalar; the text before every source declares the names that begin with ferry_.
CUDA_SCALARS = {
    ("float", 16): "ferry_half", ("bfloat", 16): "ferry_bfloat16", ("float", 32): "float", ("float", 64): "double",
    ("int", 8): "signed char", ("int", 16): "short", ("int", 32): "int", ("int", 64): "long long",
    ("uint", 8): "unsigned char", ("uint", 16): "unsigned short", ("uint", 32): "unsigned int", ("uint", 64): "unsigned long long",
    ("bool", 8): "bool", ("complex", 64): "ferry_complex_float", ("complex", 128): "ferry_complex_double",
}
# What OpenCL C calls it. Kernels may not take a bool, whose size a device chooses.
OPENCL_SCALARS = {
    ("float", 16): "ferry_half", ("bfloat", 16): "ferry_bfloat16", ("float", 32): "float", ("float", 64): "double",
    ("int", 8): "char", ("int", 16): "short", ("int", 32): "int", ("int", 64): "long",
    ("uint", 8): "uchar", ("uint", 16): "ushort", ("uint", 32): "uint", ("uint", 64): "ulong",
    ("bool", 8): "uchar", ("complex", 64): "ferry_complex_float", ("complex", 128): "ferry_complex_double",
}


class Target:
    """A data model: the widths of what C leaves open, and how far 8-byte scalars are aligned in a struct."""

    def __init__(self, name, long_bits, word_bits, widest_align):
        self.name = name
        self.widest_align = widest_align
        self.scalars = dict(FIELD_SCALARS)
        self.scalars.update((c_type, (kind, long_bits)) for c_type, kind in LONGS.items())
        self.scalars.update((c_type, (kind, word_bits)) for c_type, kind in WORDS.items())

    def scalar(self, c_type):
        """(kind, bits) of a C type; None for what is no scalar."""
        return ("int", 32) if ENUM.fullmatch(c_type) else self.scalars.get(c_type)

    def align_of(self, kind, bits):
        return min(scalar_align(kind, bits), self.widest_align)


TARGETS = {target.name: target for target in (
    Target("lp64", 64, 64, 8), Target("llp64", 32, 64, 8), Target("ilp32", 32, 32, 8), Target("ilp32-i386", 32, 32, 4))}
DEFAULT_TARGET = TARGETS["lp64"]


def scalar_align(kind, bits):
    return bits // 16 if kind == "complex" else bits // 8


def round_up(value, step):
    return -(-value // step) * step


class Field:
    """One scalar of a struct, or an array of them. Attributes are what templates print."""

    def __init__(self, name, kind, bits, offset, count, is_enum=False):
        self.name = name
        self.kind = kind
        self.kind_constant = "FERRY_KIND_" + kind.upper()
        # The type of an enumeration is one of the two, as the compiler likes.
        self.kinds = ["FERRY_KIND_INT", "FERRY_KIND_UINT"] if is_enum else [self.kind_constant]
        self.is_enum = is_enum
        self.bits = bits
        self.offset = offset
        self.count = count
        self.bytes = bits // 8 * count

    def inside(self, designator, offset):
        """The same field seen from a struct that holds this one at `offset`."""
        return Field(f"{designator}.{self.name}", self.kind, self.bits, self.offset + offset, self.count, self.is_enum)


class Member:
    """One declared member: a scalar or a struct, or an array of either."""

    def __init__(self, name, dimensions, size, align, cuda_type):
        self.name = name
        self.dimensions = dimensions
        self.count = 1
        for length in dimensions:
            self.count *= length
        self.size = size  # of one
        self.align = align
        self.cuda_type = cuda_type
        self.offset = None
        self.scalar = None  # (kind, bits, is it an enum)
        self.element = None  # ElementType of a nested struct

    @property
    def bytes(self):
        return self.size * self.count

    @property
    def end(self):
        return self.offset + self.bytes

    @property
    def is_plain(self):
        return "." not in self.name

    @property
    def opencl_type(self):
        """The type in OpenCL C; "" where it has none."""
        if self.element:
            return self.element.opencl_type
        return OPENCL_SCALARS.get(self.scalar[:2], "")

    def fields(self):
        if self.scalar:
            kind, bits, is_enum = self.scalar
            return [Field(self.name, kind, bits, self.offset, self.count, is_enum)]
        found = []
        for index in range(self.count):
            offset = self.offset + index * self.size
            found += [field.inside(self.name + self._subscript(index), offset) for field in self.element.fields]
        return found

    def _subscript(self, index):
        text = ""
        for length in reversed(self.dimensions):
            text = f"[{index % length}]{text}"
            index //= length
        return text

    def initializer(self, owner):
        depth = len(self.dimensions)
        one = owner + self.name + "[0]" * depth
        if self.element and self.element.lists_every_member:
            one = "{" + ", ".join(initializers(self.element.members, one + ".")) + "}"
        return "{" * depth + one + "}" * depth

    def rows(self):
        """(designator of a row, its bytes) for each dimension but the last."""
        size, found = self.bytes, []
        for depth, length in enumerate(self.dimensions[:-1], 1):
            size //= length
            found.append((self.name + "[0]" * depth, size))
        return found


def initializers(members, owner):
    """A positional initializer for each member of the struct `owner`, from the members themselves. Arrays name their first element alone."""
    members = sorted(members, key=lambda member: member.offset)
    found = [member.initializer(owner) if member.is_plain else f"{owner}{member.name.split('.')[0]}" for member in members]
    return list(dict.fromkeys(found))


def place(members, limit):
    """Gives every member without an offset the next one that its alignment allows, as a compiler does."""
    end = 0
    for member in members:
        if member.offset is None:
            member.offset = round_up(end, min(member.align, limit))
        end = member.end


def cuda_declaration(c_type, guard, members, size, align):
    """The struct in CUDA C++; None where the fields do not say how it is declared."""
    if not all(member.is_plain and (member.element is None or member.element.cuda_text) for member in members):
        return None
    members = sorted(members, key=lambda member: member.offset)
    pack = next(pack for pack in (256, 128, 64, 32, 16, 8, 4, 2, 1) if fits(members, pack, align))
    natural = max(min(member.align, pack) for member in members)
    keyword, name = ("union" if c_type.startswith("union ") else "struct"), c_type.split(" ")[-1]
    lines, end = [], 0
    for member in members:
        if member.offset > round_up(end, min(member.align, pack)):
            lines.append(f"    unsigned char ferry_padding_{end}_[{member.offset - end}];")
        lines.append(f"    {member.cuda_type} {member.name}{''.join(f'[{length}]' for length in member.dimensions)};")
        end = member.end
    if round_up(end, align) < size:
        lines.append(f"    unsigned char ferry_padding_{end}_[{size - end}];")
    aligned = f" __align__({align})" if align > natural else ""
    packed = pack < max(member.align for member in members)
    nested = [member.element.cuda_text for member in members if member.element]
    text = "".join(dict.fromkeys(nested))
    text += f"#pragma pack(push, {pack})\n" if packed else ""
    text += f"{keyword}{aligned} {name} {{\n" + "\n".join(lines) + "\n};\n"
    text += "#pragma pack(pop)\n" if packed else ""
    text += f'static_assert(sizeof({keyword} {name}) == {size} && alignof({keyword} {name}) == {align}, "{name}");\n'
    return guarded(text, guard)


def opencl_type(c_type):
    """A struct or a union by its tag, which OpenCL C has also where C has a typedef alone."""
    return f"{'union' if c_type.startswith('union ') else 'struct'} {c_type.split(' ')[-1]}"


def opencl_declaration(c_type, guard, members, size, align):
    """The struct in OpenCL C; None where the fields do not say how it is declared, or OpenCL C has another use for a name."""
    names = {member.name for member in members}
    name = c_type.split(" ")[-1]
    if (not all(member.is_plain and member.opencl_type for member in members) or names & OPENCL_KEYWORDS or name in OPENCL_KEYWORDS
            or VECTOR_TYPE.fullmatch(name) or any(member.element and not member.element.opencl_text for member in members)):
        return None
    members = sorted(members, key=lambda member: member.offset)
    packed = not fits(members, ALIGN_LIMIT, align)
    natural = 1 if packed else max(member.align for member in members)
    lines, end = [], 0
    for member in members:
        if member.offset > (end if packed else round_up(end, member.align)):
            lines.append(f"    uchar ferry_padding_{end}_[{member.offset - end}];")
        lines.append(f"    {member.opencl_type} {member.name}{''.join(f'[{length}]' for length in member.dimensions)};")
        end = member.end
    if (end if packed else round_up(end, align)) < size:
        lines.append(f"    uchar ferry_padding_{end}_[{size - end}];")
    attributes = ["packed"] * packed + [f"aligned({align})"] * (align > natural)
    attribute = f" __attribute__(({', '.join(attributes)}))" if attributes else ""
    text = "".join(dict.fromkeys(member.element.opencl_text for member in members if member.element))
    text += f"typedef {opencl_type(c_type)} {name};\n{opencl_type(c_type)} {{\n" + "\n".join(lines) + f"\n}}{attribute};\n"
    text += f"typedef char {name}_has_its_size_[sizeof({opencl_type(c_type)}) == {size} ? 1 : -1];\n"
    return guarded(text, guard)


def fits(members, pack, align):
    return (all(member.offset % min(member.align, pack) == 0 for member in members)
            and max(min(member.align, pack) for member in members) <= align)


def guarded(text, guard):
    """So that a struct which several parameters bring is defined once."""
    end = "" if text.endswith("\n") else "\n"
    return f"#ifndef {guard}\n#define {guard}\n{text}{end}#endif\n"
