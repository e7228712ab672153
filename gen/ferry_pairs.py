# SPDX-License-Identifier: MIT
"""Ordered pairs of numeric element types, and what the conversion between the two has to do.

Each pair is of exactly one class: exact (a cast that always holds the value), clamped (integer to a narrower integer),
rounded (float to integer), narrowed (float to a narrower float), inexact (integer to a float with fewer digits).
"""

import os

from ferry_types import GEN_ABI, TypeFileError, include_line

SIGNIFICAND_BITS = {32: 24, 64: 53}  # of the float kinds that C computes with


def is_numeric(element):
    if element.kind == "float":
        return element.bits in SIGNIFICAND_BITS
    return element.kind in ("int", "uint")


def integer_range(element):
    """Lowest and highest value of an integer element."""
    if element.kind == "int":
        return -2 ** (element.bits - 1), 2 ** (element.bits - 1) - 1
    return 0, 2 ** element.bits - 1


def limit_names(element):
    if element.kind == "int":
        return f"INT{element.bits}_MIN", f"INT{element.bits}_MAX"
    return "0", f"UINT{element.bits}_MAX"


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
        self._classify()

    def _classify(self):
        source_float, target_float = self.source.kind == "float", self.target.kind == "float"
        self.is_rounded = source_float and not target_float
        self.is_narrowed = source_float and target_float and self.source.bits > self.target.bits
        self.is_clamped = self.is_inexact = False
        if not source_float and target_float:
            self._integer_to_float()
        elif not source_float:
            self._integer_to_integer()
        elif self.is_rounded:
            self._float_to_integer()
        self.is_exact = not (self.is_rounded or self.is_narrowed or self.is_clamped or self.is_inexact)
        self.has_toward_zero = self.is_rounded or self.is_narrowed or self.is_inexact
        self.can_fail = self.is_rounded or self.is_narrowed or self.is_clamped

    def _integer_to_float(self):
        digits = SIGNIFICAND_BITS[self.target.bits]
        self.is_signed = self.source.kind == "int"
        self.is_inexact = self.source.bits - self.is_signed > digits
        self.significand_max = f"UINT64_C(0x{2 ** digits - 1:x})"

    def _integer_to_integer(self):
        low, high = integer_range(self.target)
        source_low, source_high = integer_range(self.source)
        self.low_limit, self.high_limit = limit_names(self.target)
        self.checks_low, self.checks_high = source_low < low, source_high > high
        self.is_clamped = self.checks_low or self.checks_high

    def _float_to_integer(self):
        suffix = "f" if self.source.bits == 32 else ""
        low, high = integer_range(self.target)
        self.low_limit, self.high_limit = limit_names(self.target)
        self.low_value = f"{low}.0{suffix}"
        self.end_value = f"{high + 1}.0{suffix}"  # a power of two: exact, where the highest value may not be
        self.round_function = "rint" + suffix
        self.truncate_function = "trunc" + suffix


class ConversionSet:
    """All ordered pairs of the given types, for one header and one source."""

    def __init__(self, types):
        for element in types:
            if not is_numeric(element):
                raise TypeFileError(element.path, "kind", f"'{element.kind}' of {element.bits} bits is not converted; "
                                    "expected float of 32 or 64 bits, int or uint")
            if element.prefix != types[0].prefix:
                raise TypeFileError(element.path, "prefix", f"is '{element.prefix}'; expected '{types[0].prefix}', "
                                    "as in the other types of this header")
            if sum(element.name == other.name for other in types) > 1:
                raise TypeFileError(element.path, "name", f"'{element.name}' is given twice; expected each type once")
        self.types = types
        self.sources = ", ".join(element.source for element in types)
        self.export = types[0].export
        self.guard = f"{types[0].prefix.upper()}_CONVERT_H"
        self.header = os.path.join(os.path.dirname(types[0].header), "convert.h")
        self.include_line = include_line(self.header)
        self.include_lines = [element.include_line for element in types]
        self.gen_abi = GEN_ABI
        self.pairs = [Pair(source, target) for source in types for target in types if source is not target]
