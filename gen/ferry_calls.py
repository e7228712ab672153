# SPDX-License-Identifier: MIT
"""What texts of kernels call: functions of C, atomic operations, and functions that the file writes."""

from ferry_dialect import CUDA, OPENCL, indented
from ferry_names import CALLED, WIDENED
from ferry_opencl import exact_value
from ferry_parameter import Reduced


def is_wrapped(name):
    """Whether texts call a function of C by another name, so that every language calls the same one."""
    return name in CALLED or name[-1] == "f" and name[:-1] in CALLED


class Helper:
    """A function of C under another name, so that every language calls the same one for the same arguments."""

    def __init__(self, sym, name):
        self.name = name
        self.called = f"{sym}_{name}_"
        is_float = name not in CALLED
        base = name[:-1] if is_float else name
        c_type = "float" if is_float else "double"
        letters = "xyz"[:CALLED[base]]
        declared, given = ", ".join(f"{c_type} {letter}" for letter in letters), ", ".join(letters)
        wide = ", ".join(f"(double){letter}" for letter in letters)
        computed = f"(float){base}({wide})" if is_float and base in WIDENED else f"{name}({given})"
        self.is_root = base == "sqrt"
        self.is_written = False
        self.root = f"extern {c_type} {name}({c_type}) __attribute__((const));"
        self.host_head = f"{c_type}\n{self.called}({declared})"
        self.host_body = f"return {name}({given});"
        self.cuda_value = computed
        self.opencl_value = exact_value(name, letters)

    def in_cuda(self):
        return f"{CUDA.function} {self.host_line} {{ return {self.cuda_value}; }}\n"

    def in_opencl(self):
        return f"{OPENCL.function} {self.host_line} {{ return {self.opencl_value}; }}\n"

    @property
    def host_line(self):
        return self.host_head.replace("\n", " ")


class Atomic:
    """A function that changes an element of an array in one step, as other threads see it."""

    def __init__(self, sym, name, operation, element):
        self.name = name
        self.called = f"{sym}_{name}_"
        self.operation = operation
        self.element = element
        self.is_root = self.is_written = False
        self.is_float = element.kind == "float"
        # The value that an element gets, of the one before and the given one. NaN wins, as in reductions.
        self.reduced = Reduced("", {"add": "sum"}.get(operation, operation), element)
        self.host_head = f"void\n{self.called}({element.c_type} *at_, {element.c_type} value_)"
        self.host_body = self._host_body()

    def _host_body(self):
        """Kernels with atomic operations of floating point run on one thread."""
        if self.is_float:
            return f"*at_ = {self.reduced.combined('*at_', 'value_')};"
        if self.operation == "add":
            return "(void)__atomic_fetch_add(at_, value_, __ATOMIC_RELAXED);"
        sign = "<" if self.operation == "min" else ">"
        return (f"{self.element.c_type} old_ = __atomic_load_n(at_, __ATOMIC_RELAXED);\n"
                f"    while (value_ {sign} old_ && !__atomic_compare_exchange_n(at_, &old_, value_, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))\n        ;")

    def in_cuda(self):
        c_type = CUDA.scalar(self.element)
        head = f"{CUDA.function} void {self.called}({c_type} *at_, {c_type} value_)\n{{\n"
        is_wide_int = (self.element.kind, self.element.bits) == ("int", 64)
        if self.is_float and self.operation != "add":
            body = self._swapped(*(("int", "__float_as_int", "__int_as_float") if self.element.bits == 32 else
                                   ("long long", "__double_as_longlong", "__longlong_as_double")))
        elif is_wide_int and self.operation != "add":  # hiprtc of ROCm 5.2 has only the unsigned ones
            body = f"#ifdef __HIP__\n{self._swapped('long long', '', '')}#else\n{self._called(c_type)}#endif\n"
        else:
            body = self._called("unsigned long long" if is_wide_int else c_type)
        return head + body + "}\n"

    def _called(self, word):
        return f"    atomic{self.operation.capitalize()}(({word} *)at_, ({word})value_);\n"

    def _swapped(self, word, to, back):
        """A loop in CUDA that compares and swaps."""
        swap = f"({word})atomicCAS((unsigned {word} *)at_, (unsigned {word})seen_, (unsigned {word}){to}({self.reduced.combined('old_', 'value_')}))"
        return (f"    {word} found_ = *(volatile {word} *)at_, seen_;\n    do {{\n        seen_ = found_;\n"
                f"        const {CUDA.scalar(self.element)} old_ = {back}(seen_);\n        found_ = {swap};\n    }} while (found_ != seen_);\n")

    def in_opencl(self):
        scalar, wide = OPENCL.scalar(self.element), self.element.bits == 64
        pragmas = "".join(f"#pragma OPENCL EXTENSION cl_khr_int64_{kind}_atomics : enable\n" for kind in ("base", "extended")) if wide else ""
        head = f"{pragmas}{OPENCL.function} void {self.called}(volatile __global {scalar} *at_, {scalar} value_)\n{{\n"
        if not self.is_float:
            return head + f"    {'atom' if wide else 'atomic'}_{self.operation}(at_, value_);\n}}\n"
        word, swap = ("ulong", "atom_cmpxchg") if wide else ("uint", "atomic_cmpxchg")
        return (head + f"    {word} found_ = *(volatile __global {word} *)at_, seen_;\n    do {{\n        seen_ = found_;\n"
                f"        const {scalar} old_ = as_{scalar}(seen_);\n"
                f"        found_ = {swap}((volatile __global {word} *)at_, seen_, as_{word}({self.reduced.combined('old_', 'value_')}));\n"
                "    } while (found_ != seen_);\n}\n")


class Function:
    """A function that the file writes, for its kernels and its later functions."""

    def __init__(self, owner, name, result, parameters, text, is_inexact):
        self.name = name
        self.is_inexact = is_inexact
        self.text = text
        self.called = f"{owner.sym}_{name}_"
        self.helpers = owner.helpers_of(text)  # which it calls
        self.structs = [element for element in (result, *(parameter.element for parameter in parameters)) if element.is_struct]
        self.is_root = False
        self.is_written = True
        declared = ", ".join(self._declared(parameters, lambda one: one.declared(one.host_type), "size_t")) or "void"
        self.host_head = f"{result.c_type}\n{self.called}({declared})"
        self.host_body = indented(owner.spelled(text, owner.host_constants), 4)
        self.arrays = [parameter for parameter in parameters if parameter.is_array]
        self.checked = f"{self.called}checked_"  # the same with indices checked, if it takes arrays
        declared = ", ".join(["const ferry_call *call_", *self._declared(parameters, self._declared_checked, "size_t")])
        self.checked_head = f"{result.c_type}\n{self.checked}({declared})"
        self.checked_body = indented(owner.spelled_checked(text), 4)
        self.owner = owner
        self.result = result
        self.parameters = parameters

    def _declared(self, parameters, declared, size):
        """The parameters. After an array whose length the text uses, its length follows."""
        for parameter in parameters:
            yield declared(parameter)
            if parameter.name in self.text.counted:
                yield f"{size} {parameter.count_name}"

    @staticmethod
    def _declared_checked(parameter):
        declared = parameter.declared(parameter.host_type)
        return f"{declared}, size_t {parameter.argument_name}" if parameter.is_array else declared

    def in_cuda(self):
        return self._in(CUDA, self.owner.spelled(self.text, self.owner.cuda_constants))

    def in_opencl(self):
        """Raises CodeError."""
        return self._in(OPENCL, self.owner.opencl_spelled(self.text))

    def _in(self, dialect, body):
        declared = ", ".join(self._declared(self.parameters, lambda one: one.declared_in(dialect) if one.is_array else f"{dialect.value(one.element)} {one.name}",
                                            dialect.size))
        return f"{dialect.function} {dialect.value(self.result)}\n{self.called}({declared})\n{{\n{indented(body, 4)}}}\n"
