# SPDX-License-Identifier: MIT
"""Ordered pairs of numeric element types, and what the conversion between the two has to do.

Each pair is of exactly one class: exact (always holds the value), clamped (an integer that may not fit), rounded (a float
to an integer), narrowed (a float to fewer digits, or integers that may become infinite), inexact (digits are lost, and
nothing else). A conversion widens its source to a working type, which is exact, and goes from there to the target; what
that second step means is one line of src/convert/scalar.h for each class of step.
"""

import os

from ferry_types import GEN_ABI, TypeFileError, unique

# By (kind, bits): digits of the significand, and the lowest magnitude that is rounded to infinity.
FLOATS = {
    ("float", 16): (11, 65520),
    ("bfloat", 16): (8, 2**128 - 2**119),
    ("float", 32): (24, 2**128 - 2**103),
    ("float", 64): (53, 2**1024 - 2**970),
}
HIGHEST_FINITE = {("float", 16): 65504, ("bfloat", 16): (2**8 - 1) * 2**120, ("float", 32): (2**24 - 1) * 2**104,
                  ("float", 64): (2**53 - 1) * 2**971}
LOWEST_EXPONENT = {("float", 16): -24, ("bfloat", 16): -133, ("float", 32): -149, ("float", 64): -1074}

WORKING_RANGES = {"i32": (-2**31, 2**31 - 1), "i64": (-2**63, 2**63 - 1), "u64": (0, 2**64 - 1)}
WORKING_C_TYPES = {"i32": "int32_t", "i64": "int64_t", "u64": "uint64_t", "f32": "float", "f64": "double"}

# What the vector steps of src/convert/vector.h read and write.
LANE_SOURCES = frozenset(["int8", "byte", "int16", "uint16", "int", "half", "bfloat16", "float", "double"])
LANE_TARGETS = frozenset(["int8", "byte", "int16", "uint16", "int", "half", "bfloat16", "float", "double"])


def is_float(element):
    return (element.kind, element.bits) in FLOATS


def is_numeric(element):
    return is_float(element) or element.kind in ("int", "uint", "bool", "complex")


def integer_range(element):
    """Lowest and highest value of an integer element."""
    if element.kind == "bool":
        return 0, 1
    if element.kind == "int":
        return -2 ** (element.bits - 1), 2 ** (element.bits - 1) - 1
    return 0, 2 ** element.bits - 1


def working_type(element):
    """The type in which a source is computed with; it holds every value of the source."""
    if element.kind == "complex":
        return f"c{element.bits // 2}"
    if is_float(element):
        return "f64" if element.bits == 64 else "f32"
    low, high = integer_range(element)
    return next(name for name, (lowest, highest) in WORKING_RANGES.items() if lowest <= low and high <= highest)


class Pair:
    """The conversion from one type to another. Attributes are what templates print."""

    def __init__(self, source, target):
        prefix = source.prefix
        self.source = source
        self.target = target
        self.name = f"{source.name}_to_{target.name}"
        self.array_function = f"{prefix}_convert_{self.name}"
        self.copy_from_function = f"{target.sym}_copy_from_{source.name}"
        self.copy_to_function = f"{source.sym}_copy_to_{target.name}"
        self.convert_function = f"{target.sym}_convert_from_{source.name}"
        self.working = working_type(source)
        self.source_number, self.target_number = (f"{e.name}8" if e.kind == "bool" else e.name for e in (source, target))
        self.can_fail, self.has_toward_zero = self._classify(source, target)
        self.form = {(False, False): "EXACT", (True, False): "CLAMPED", (False, True): "INEXACT",
                     (True, True): "ROUNDED"}[self.can_fail, self.has_toward_zero]
        self.way = "LANES" if source.name in LANE_SOURCES and target.name in LANE_TARGETS else "PLAIN"
        if source.kind == "complex":  # and the target too: the loops of the parts do it
            self.way = "PARTS"

    def _classify(self, source, target):
        """Whether CHECK may refuse a value, and whether TRUNCATE differs from SATURATE."""
        if target.kind == "complex":
            bits = source.bits // 2 if source.kind == "complex" else source.bits
            return self._to_float(source, bits, ("float", target.bits // 2))
        if is_float(target):
            return self._to_float(source, source.bits, (target.kind, target.bits))
        if is_float(source):
            return True, target.kind != "bool"
        low, high = integer_range(target)
        source_low, source_high = integer_range(source)
        return source_low < low or source_high > high, False

    def _to_float(self, source, bits, target):
        digits, infinite = FLOATS[target]
        if source.kind in ("int", "uint", "bool"):
            low, high = integer_range(source)
            return max(-low, high) >= infinite, max(-low, high) > 2**digits
        own = (source.kind if source.kind == "bfloat" else "float", bits)
        wide = HIGHEST_FINITE[own] >= infinite
        return wide, wide or FLOATS[own][0] > digits or LOWEST_EXPONENT[own] < LOWEST_EXPONENT[target]


class IntegerStep:
    """From a working type to an integer: the name of the macro that defines it, and its arguments."""

    def __init__(self, working, target):
        low, high = integer_range(target)
        self.target = target.name
        self.working = working
        if working in WORKING_RANGES:
            lowest, highest = WORKING_RANGES[working]
            forms = {(False, False): ("KEPT", []), (True, False): ("RAISED", [low]), (False, True): ("LOWERED", [high]),
                     (True, True): ("CLAMPED", [low, high])}
            form, limits = forms[low > lowest, high < highest]
            self.macro = "INTEGER_" + form
            self.arguments = ", ".join(["", WORKING_C_TYPES[working]] + [str(limit) for limit in limits])
        else:
            self.macro = "FLOAT_TO_SMALL" if target.bits < 32 else f"FLOAT_TO_{target.name.upper()}"
            limits = [f"{low}.0", f"{high}.0"] if target.bits < 32 else []
            self.arguments = ", ".join(["", WORKING_C_TYPES[working], *limits])


class KernelSet:
    """What the library's own kernels are made of: integer steps and all pairs."""

    def __init__(self, types):
        check_numeric(types)
        self.sources = ", ".join(element.source for element in types)
        integers = [element for element in types if element.kind in ("int", "uint")]
        self.integer_steps = [IntegerStep(working, target) for working in WORKING_C_TYPES for target in integers]
        self.pairs = numeric_pairs(types)


def check_numeric(types):
    """Refuses what has no conversions, and types that cannot stand in one file."""
    for element in types:
        if not is_numeric(element):
            raise TypeFileError(element.path, "kind", f"'{element.kind}' of {element.bits} bits is not converted; "
                                "expected float, bfloat, int, uint, bool or complex")
        if element.kind == "complex" and element.bits == 32:
            raise TypeFileError(element.path, "bits", "is 32; expected 64 or 128, complex numbers that are converted")
        if element.prefix != types[0].prefix:
            raise TypeFileError(element.path, "prefix", f"is '{element.prefix}'; expected '{types[0].prefix}', "
                                "as in the other types of this header")
        if sum(element.name == other.name for other in types) > 1:
            raise TypeFileError(element.path, "name", f"'{element.name}' is given twice; expected each type once")


def converts(source, target):
    """A complex number has no conversion to a real one."""
    return source is not target and (source.kind != "complex" or target.kind == "complex")


def numeric_pairs(types):
    """All ordered pairs."""
    return [Pair(source, target) for source in types for target in types if converts(source, target)]


class ConversionSet:
    """The pairs of one type with each of the others, for one header."""

    def __init__(self, types):
        check_numeric(types)
        owner, *self.others = types
        self.sources = ", ".join(element.source for element in types)
        self.title = owner.title
        self.guard = f"{owner.sym.upper()}_CONVERT_H"
        self.header = os.path.join(os.path.dirname(owner.header), f"{owner.name}_convert.h")
        # Of the others only what a conversion needs is here, so that it costs no other type's whole header.
        self.include_lines = unique([owner.include_line] + [line for other in self.others for line in other.include_lines])
        self.gen_abi = GEN_ABI
        self.pairs_from = [Pair(other, owner) for other in self.others if converts(other, owner)]
        self.pairs_to = [Pair(owner, other) for other in self.others if converts(owner, other)]
