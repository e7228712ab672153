# SPDX-License-Identifier: MIT
"""What a kernel takes and what it computes of all elements: parameters, and numbers that combine a value of each element."""

from ferry_dialect import LIMITS

ACCESSES = {"read": "FERRY_READ", "update": "FERRY_UPDATE", "overwrite": "FERRY_OVERWRITE"}


class Parameter:
    """One parameter of a kernel. Attributes are what templates print."""

    def __init__(self, name, element, access, word=""):
        self.name = name
        self.element = element
        self.access = access  # "" for a value
        self.whole = word == "whole"  # passed whole and indexed freely
        self.one = word == "one"  # a value that the device reads from element 0 of a buffer
        self.is_buffer = access != ""
        self.is_array = self.is_buffer and not self.one
        self.counts = self.is_array and not self.whole  # whether its length is that of the kernel
        self.pointer = f"{name}_one_" if self.one else name
        self.count_name = f"{name}_count_"
        self.argument_name = f"{name}_argument_"  # its number among the arguments of the launch
        self.is_read = access == "read"
        self.constant = ACCESSES.get(access, "FERRY_READ")
        self.host_type = element.c_type
        self.value_sign = "&" if element.value_by_pointer else ""
        self.overlap = ""  # the constant of <ferry/kernel.h>; "" where any is right

    def declared(self, c_type, memory=""):
        if not self.is_buffer:
            return f"{c_type} {self.name}"
        return f"{memory}{'const ' if self.is_read else ''}{c_type} *{self.pointer}"

    def declared_in(self, dialect):
        return self.declared(dialect.scalar(self.element), dialect.memory)

    def declared_for_element(self, dialect=None):
        """As a parameter of the function of one element, which takes the values of buffers."""
        if self.is_array:
            return self.declared_in(dialect) if dialect else self.declared(self.host_type)
        return f"const {dialect.value(self.element) if dialect else self.host_type} {self.name}"

    @property
    def launched(self):
        return f"{self.element.handle if self.is_buffer else self.element.c_type} {self.name}"


class Reduced:
    """One number of all elements: the sum, the least or the greatest of the values of an expression."""

    def __init__(self, name, how, element, value=""):
        self.name = name
        self.how = how
        self.element = element
        self.value = value
        self.c_type = element.c_type
        least, greatest = LIMITS[element.kind, element.bits]
        self.identity = {"sum": "0", "min": greatest, "max": least}[how]
        self.variable = f"{name}_value_"  # the value of one element

    def identity_in(self, dialect):
        return dialect.infinity.get(self.identity, self.identity)

    def combined(self, left, right):
        if self.how == "sum":
            return f"{left} + {right}"
        sign = "<" if self.how == "min" else ">"
        is_nan = f" || {right} != {right}" if self.element.kind == "float" else ""
        return f"{right} {sign} {left}{is_nan} ? {right} : {left}"

    def combine_into(self, left, right, c_type=None):
        """A statement in C and CUDA. NaN wins, as in NumPy."""
        combined = self.combined(left, right)
        # Narrow integers are added as int.
        return f"{left} = ({c_type or self.c_type})({combined});" if self.element.bits < 32 else f"{left} = {combined};"
