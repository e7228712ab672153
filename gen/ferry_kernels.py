# SPDX-License-Identifier: MIT
"""Kernels from one expression of C: a file of kernels, checked, and the texts of every language that the template prints."""

import os
import re
import textwrap

from ferry_c import TYPE_WORDS, CodeError, called_names, parse_expression, tokens, with_names
from ferry_layout import CUDA_SCALARS, DEFAULT_TARGET, LITERAL_BYTES, OPENCL_SCALARS
from ferry_names import (ARITY, CONSTANTS, CUDA_CONSTANTS, DEVICE_WORDS, HOST_CONSTANTS, HOST_MACROS, OPENCL_MACRO, REFUSED, SHARED_FUNCTIONS,
                         SHARED_NAMES, VECTOR_TYPE, WIDENED)
from ferry_opencl import (CONSTANTS_OF_OPENCL, exact_value, is_spelled, spelled_function, spelled_text, why_not_struct, written)
from ferry_rules import BUILT_IN, INDICES, Text, check_words
from ferry_types import (BUILTIN_DIR, GEN_ABI, RESERVED, Checker, builtin_names, c_string_lines, include_line, load, nearest,
                         unique)

FILE_KEYS = ("ferry", "prefix", "name", "header", "include", "types", "constants", "functions", "kernels")
FUNCTION_KEYS = ("name", "returns", "parameters", "body")
KERNEL_KEYS = ("name", "parameters", "each", "sum", "min", "max", "results", "stencil", "count", "fast", "options", "comment")
RESULT_KEYS = ("name", "value", "sum", "min", "max")
WORDS = ("whole", "one")  # between the access and the type
ACCESSES = {"read": "FERRY_READ", "update": "FERRY_UPDATE", "overwrite": "FERRY_OVERWRITE"}
REDUCTIONS = ("sum", "min", "max")
RADIUS_LIMIT = 16
BLOCK = 256  # threads
BLOCKS = 1024  # partial sums of a reduction on a device
PART = 16384  # elements of a part that one thread of the host runs
# Parameters of the typed launches, beside those of the kernel.
LAUNCH_NAMES = {"map": ("kernels", "stream"), "stencil": ("kernels", "stream"), "reduction": ("kernels", "stream", "out"), "fused": ("kernels", "stream", "out"), "function": ()}

# Languages that have options of their own.
LANGUAGES = ("cuda", "hip", "opencl")

# Of (kind, bits): the least and the greatest value, in C, CUDA and OpenCL C.
LIMITS = {
    ("float", 32): ("-INFINITY", "INFINITY"), ("float", 64): ("-(double)INFINITY", "(double)INFINITY"),
    ("int", 8): ("-127 - 1", "127"), ("uint", 8): ("0", "255"), ("int", 16): ("-32767 - 1", "32767"), ("uint", 16): ("0", "65535"),
    ("int", 32): ("-2147483647 - 1", "2147483647"), ("uint", 32): ("0", "4294967295u"),
    ("int", 64): ("-9223372036854775807 - 1", "9223372036854775807"), ("uint", 64): ("0", "18446744073709551615u"),
}
CUDA_INFINITY = {"-INFINITY": "-__int_as_float(0x7f800000)", "INFINITY": "__int_as_float(0x7f800000)",
                 "-(double)INFINITY": "-__longlong_as_double(0x7ff0000000000000)",
                 "(double)INFINITY": "__longlong_as_double(0x7ff0000000000000)"}


class Dialect:
    """How a language of devices spells what kernels consist of."""

    def __init__(self, name, **words):
        self.name = name
        self.__dict__.update(words)

    def scalar(self, element):
        return self.scalars.get((element.kind, element.bits), element.c_type)

    def value(self, element):
        """The type of a variable or a function, which may be bool everywhere."""
        return "bool" if element.kind == "bool" else self.scalar(element)

    def head(self, name, declarations):
        return f"{self.kernel}\n{name}({', '.join(declarations)})\n{{\n"

    def strided(self, index, end):
        return f"    for (size_t {index} = {self.first}; {index} < {end}; {index} += {self.step}) {{\n"


CUDA = Dialect("cuda", kernel='extern "C" __global__ void', function="static __device__", scalars=CUDA_SCALARS, memory="", shared="__shared__",
               first="blockIdx.x * (size_t)blockDim.x + threadIdx.x", step="(size_t)gridDim.x * blockDim.x", thread="threadIdx.x",
               block="blockIdx.x", blocks="gridDim.x", threads="blockDim.x", barrier="__syncthreads();", fence="__threadfence();",
               ticket="atomicAdd((unsigned int *)scratch_, 1u)", size="size_t", infinity=CUDA_INFINITY)
OPENCL = Dialect("opencl", kernel="__kernel void", function="static", scalars=OPENCL_SCALARS, memory="__global ", shared="__local",
                 first="get_global_id(0)", step="get_global_size(0)", thread="get_local_id(0)", block="get_group_id(0)",
                 blocks="get_num_groups(0)", threads="get_local_size(0)", barrier="barrier(CLK_LOCAL_MEM_FENCE);",
                 fence="mem_fence(CLK_GLOBAL_MEM_FENCE);", ticket="atomic_inc((volatile __global uint *)scratch_)", size="ferry_size", infinity={})


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


class Kernel:
    """One kernel: a map, a stencil, a reduction, or a map with reductions (\"fused\")."""

    def __init__(self, owner, name, parameters, form, each):
        self.owner = owner
        self.name = name
        self.sym = f"{owner.prefix}_{name}"
        self.parameters = parameters
        self.form = form
        self.arrays = [parameter for parameter in parameters if parameter.is_array]
        self.counting = [parameter for parameter in parameters if parameter.counts]
        self.has_count = False  # whether the launch takes the count
        self.each = each
        self.text = None  # what ferry_rules.py found in it
        self.comment = ""
        self.exact = True
        self.options = {language: [] for language in LANGUAGES}
        self.no_opencl = ""  # why there is no text in OpenCL C
        self.radius = 0
        self.reduced = None  # of a reduction
        self.results = []  # of a fused kernel

    @property
    def names(self):
        """What the header defines for it, without the prefix."""
        entries = [self.name, self.name + "_into"] if self.result else [self.name]
        more = {self.name + "_into", self.name + "_results"} if self.results else set()
        return more | {entry + end for entry in entries for end in ("", "_run", "_source", "_on_host")}

    @property
    def result(self):
        return self.reduced.element if self.reduced else None

    @property
    def reduction(self):
        return self.reduced.how

    @property
    def identity(self):
        return self.reduced.identity

    @property
    def first_size(self):
        """The index of the first size in the entry's parameters, after which the others follow."""
        return self.parameter_count - len(self.sizes)

    def finish(self):
        self.counted = [parameter for parameter in self.parameters if parameter.name in self.text.counted]
        self.sizes = [*{"stencil": ["rows", "columns", "first", "count", "from_"]}.get(self.form, ["n_"]),
                      *(parameter.count_name for parameter in self.counted)]
        self.parameter_count = len(self.parameters) + {"reduction": 1, "fused": 1 + len(self.results)}.get(self.form, 0) + len(self.sizes)
        self.ones = [parameter for parameter in self.parameters if parameter.one]
        # Elements that write the same one must not run at once, and the compiler must not take them for independent.
        self.scatters = any(parameter.whole and not parameter.is_read for parameter in self.parameters)
        self.returns = self.text.has_return
        self.element_name = f"{self.sym}_Element_"  # no function of the file has capitals
        self.element_declared = ", ".join([*(parameter.declared_for_element() for parameter in self.parameters), *(f"const size_t {size}" for size in ("i", *self.sizes))])
        self.element_given = ", ".join([*(parameter.name for parameter in self.parameters), "i", *self.sizes])
        # Several threads of the host may run it: what it writes at all is independent, or integers that are changed atomically.
        self.is_parallel = not self.text.writes
        self.described = textwrap.wrap(" ".join(filter(None, self._sentences())), 96, break_long_words=False)
        self.helpers = self.owner.helpers_of(self.text)
        words = {token.text for token in tokens(self.text.text)}
        self.unused = [parameter for parameter in self.parameters if parameter.name not in words]
        self.host_each = indented(self.owner.spelled(self.text, self.owner.host_constants))
        self.reads = [parameter for parameter in self.counting if parameter.is_read]
        self.cuda_text = self._text(CUDA, "".join(helper.in_cuda() for helper in self.helpers),
                                    self.owner.spelled(self.text, self.owner.cuda_constants))
        self.text_lines = c_string_lines(self.cuda_text)
        self.is_long = len(self.cuda_text) > LITERAL_BYTES
        self.opencl_text = self.into_opencl_text = ""
        self._write_opencl()
        self.opencl_lines = c_string_lines(self.opencl_text)
        self.is_opencl_long = len(self.opencl_text) > LITERAL_BYTES
        # A compiler refuses options of another, so that CUDA source with options is not HIP source too.
        self.has_hip = bool(self.options["cuda"] or self.options["hip"])
        for parameter in self.parameters if self.form != "reduction" else ():
            if not parameter.is_buffer:
                continue
            apart = self.form == "stencil" and parameter.is_read or not parameter.counts
            parameter.overlap = "FERRY_OVERLAP_NONE" if apart else "FERRY_OVERLAP_SAME"
        if self.form == "reduction":
            self.into_text = self._into_text(CUDA)
            self.into_lines = c_string_lines(self.into_text)
            self.into_opencl_text = "" if self.no_opencl else self._into_text(OPENCL)
            self.into_opencl_lines = c_string_lines(self.into_opencl_text)

    def _sentences(self):
        """What the comment of the launch says of the count, of whole arrays and of overlaps."""
        counting, apart = listed(self.counting, "and"), [one for one in self.parameters if one.is_buffer and not one.counts]
        where = "the indices [0, count)" if self.has_count else f"every element of {counting}" if apart else "every element of the arrays"
        if self.form in ("map", "fused"):
            yield f"Queues {self.name} on the stream, for {where}."
        if self.has_count and self.counting:
            yield f"It uses the first `count` elements of {counting}."
        elif not self.has_count and self.form != "stencil":
            yield f"{counting if apart else 'The arrays'} must have equal counts." if len(self.counting) > 1 or not apart else ""
        for one in apart:
            yield f"The value of `{one.name}` is its first element when the device runs the kernel." if one.one else f"All of `{one.name}` is passed."
        if self.form in ("map", "fused"):
            if apart:
                yield f"An array that is written must not overlap {listed(apart, 'or')}."
            yield "The same array may be passed several times. The launch refuses other overlaps with an array that is written."

    def combine_into(self, left, right):
        return self.reduced.combine_into(left, right)

    @property
    def result_type(self):
        return self.result.c_type

    def _write_opencl(self):
        """The text in OpenCL C, or why there is none. Where the file has options for it, the text is asked for."""
        try:
            for element in dict.fromkeys(parameter.element for parameter in self.parameters if parameter.element.is_struct):
                if why_not_struct(element):
                    raise CodeError(why_not_struct(element))
            helpers, each = self.owner.opencl_parts(self.text)
            self.owner.check_known(self, "opencl")
        except CodeError as error:
            if self.options["opencl"]:
                self.owner.check.fail(self.where, str(error))
            self.no_opencl = str(error)
            self.owner.notes.append((self.where, f"has no text in OpenCL C: it {error}"))
        else:
            self.opencl_text = self._text(OPENCL, helpers, each)

    def _text(self, dialect, helpers, each):
        sizes = [f"{dialect.size} {size}" for size in self.sizes]
        declarations = [parameter.declared_in(dialect) for parameter in self.parameters]
        if self.form == "reduction":
            scalar = dialect.scalar(self.result)
            head = dialect.head(self.sym, declarations + [f"{dialect.memory}{scalar} *partial_"] + sizes)
            return helpers + head + self._ones_text(dialect) + self._tree_text(dialect, f"({scalar})({each})", f"partial_[{dialect.block}]")
        if self.form == "fused":
            outs = [f"{dialect.memory}{dialect.scalar(one.element)} *{one.name}_out_" for one in self.results]
            head = dialect.head(self.sym, declarations + [f"{dialect.memory}uint64_t *scratch_"] + outs + sizes)
            return helpers + head + self._ones_text(dialect) + self._fused_text(dialect, each)
        head = dialect.head(self.sym, declarations + sizes) + self._ones_text(dialect)
        if self.form == "map" and self.returns:
            declared = [parameter.declared_for_element(dialect) for parameter in self.parameters]
            declared += [f"const {dialect.size} {size}" for size in ("i", *self.sizes)]
            element = f"{dialect.function} void\n{self.element_name}({', '.join(declared)})\n{{\n{indented(each, 4)}}}\n"
            return helpers + element + head + dialect.strided("i", "n_") + f"        {self.element_name}({self.element_given});\n    }}\n}}\n"
        if self.form == "map":
            return helpers + head + dialect.strided("i", "n_") + indented(each, 8) + "    }\n}\n"
        near = (f"{dialect.function} size_t near_(size_t at, int step, size_t end)\n{{\n"
                "    if (step < 0)\n        return at < (size_t)-step ? 0 : at - (size_t)-step;\n"
                "    return at + (size_t)step < end ? at + (size_t)step : end - 1;\n}\n")
        macros = "".join(f"#define {one.name}(row_step_, column_step_) {one.name}[(near_(row, row_step_, rows) - from_) * columns"
                         " + near_(column, column_step_, columns)]\n" for one in self.reads)
        return (helpers + near + macros + head + dialect.strided("i", "count * columns")
                + "        const size_t row = first + i / columns, column = i % columns;\n        (void)row; (void)column;\n"
                + indented(each, 8) + "    }\n}\n")

    def _ones_text(self, dialect):
        return "".join(f"    const {dialect.value(one.element)} {one.name} = {one.pointer}[0];\n    (void){one.name};\n" for one in self.ones)

    def _into_text(self, dialect):
        scalar = dialect.scalar(self.result)
        head = dialect.head(self.sym + "_into", [f"{dialect.memory}const {scalar} *partial_", f"{dialect.memory}{scalar} *out_",
                                                 f"{dialect.size} n_"])
        return head + self._tree_text(dialect, "partial_[i]", "out_[0]")

    def _fused_text(self, dialect, each):
        """Each block combines its elements. The block that is done last combines the partial results of all, in their order, so that
        the bits depend on the number of elements alone."""
        thread, typed = dialect.thread, [(one, dialect.scalar(one.element)) for one in self.results]

        def tree(spaces):
            lines = [f"{one.name}_shared_[{thread}] = {one.name}_r_;" for one in self.results]
            lines += [f"for (unsigned int half_ = {BLOCK // 2}; half_ > 0; half_ /= 2) {{", f"    {dialect.barrier}", f"    if ({thread} < half_) {{"]
            for one, scalar in typed:
                combine = one.combine_into(f"{one.name}_r_", "v_", scalar)
                lines += [f"        {{ const {scalar} v_ = {one.name}_shared_[{thread} + half_]; {combine} }}",
                          f"        {one.name}_shared_[{thread}] = {one.name}_r_;"]
            return indented("\n".join([*lines, "    }", "}"]), spaces)

        text = "".join(f"    {dialect.shared} {scalar} {one.name}_shared_[{BLOCK}];\n" for one, scalar in typed)
        text += f"    {dialect.shared} unsigned int last_[1];\n"
        text += "".join(f"    {scalar} {one.name}_r_ = {one.identity_in(dialect)};\n" for one, scalar in typed)
        text += dialect.strided("i", "n_") + "".join(f"        {scalar} {one.variable};\n" for one, scalar in typed) + indented(each, 8)
        text += "".join(f"        {one.combine_into(f'{one.name}_r_', one.variable, scalar)}\n" for one, scalar in typed) + "    }\n" + tree(4)
        slots = [f"((volatile {dialect.memory}{scalar} *)(scratch_ + 1 + {at} * {dialect.blocks}))" for at, (_, scalar) in enumerate(typed)]
        text += f"    if ({thread} == 0) {{\n"
        text += "".join(f"        {slot}[{dialect.block}] = {one.name}_r_;\n" for slot, one in zip(slots, self.results))
        text += f"        {dialect.fence}\n        last_[0] = {dialect.ticket} == {dialect.blocks} - 1;\n    }}\n    {dialect.barrier}\n"
        text += f"    if (last_[0]) {{\n        {dialect.fence}\n"
        text += "".join(f"        {one.name}_r_ = {one.identity_in(dialect)};\n" for one in self.results)
        text += f"        for (size_t b_ = {thread}; b_ < {dialect.blocks}; b_ += {dialect.threads}) {{\n"
        for slot, (one, scalar) in zip(slots, typed):
            text += f"            {{ const {scalar} v_ = {slot}[b_]; {one.combine_into(f'{one.name}_r_', 'v_', scalar)} }}\n"
        text += "        }\n" + tree(8) + f"        if ({thread} == 0) {{\n"
        return text + "".join(f"            {one.name}_out_[0] = {one.name}_r_;\n" for one in self.results) + "        }\n    }\n}\n"

    def _tree_text(self, dialect, value, target):
        """Each thread combines its stride in order, then the block its threads as a tree."""
        scalar, thread = dialect.scalar(self.result), dialect.thread
        identity = self.reduced.identity_in(dialect)
        combine = self.reduced.combine_into("r_", "v_", scalar)
        return (f"    {dialect.shared} {scalar} shared_[{BLOCK}];\n    {scalar} r_ = {identity};\n"
                + dialect.strided("i", "n_") + f"        const {scalar} v_ = {value};\n        {combine}\n    }}\n"
                f"    shared_[{thread}] = r_;\n"
                f"    for (unsigned int half_ = {BLOCK // 2}; half_ > 0; half_ /= 2) {{\n"
                f"        {dialect.barrier}\n"
                f"        if ({thread} < half_) {{\n"
                f"            const {scalar} v_ = shared_[{thread} + half_];\n            {combine}\n"
                f"            shared_[{thread}] = r_;\n"
                "        }\n    }\n"
                f"    if ({thread} == 0)\n        {target} = r_;\n}}\n")


class Helper:
    """A function of C under another name, so that every language calls the same one for the same arguments."""

    def __init__(self, sym, name):
        self.name = name
        self.called = f"{sym}_{name}_"
        is_float = name not in ARITY
        base = name[:-1] if is_float else name
        c_type = "float" if is_float else "double"
        letters = "xyz"[:ARITY[base]]
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
        if self.operation == "add" or not self.is_float:
            word = "unsigned long long" if (self.element.kind, self.element.bits, self.operation) == ("int", 64, "add") else c_type
            return head + f"    atomic{self.operation.capitalize()}(({word} *)at_, ({word})value_);\n}}\n"
        word, to, back = (("int", "__float_as_int", "__int_as_float") if self.element.bits == 32 else
                          ("long long", "__double_as_longlong", "__longlong_as_double"))
        swap = f"({word})atomicCAS((unsigned {word} *)at_, (unsigned {word})seen_, (unsigned {word}){to}({self.reduced.combined('old_', 'value_')}))"
        return (head + f"    {word} found_ = *(volatile {word} *)at_, seen_;\n    do {{\n        seen_ = found_;\n"
                f"        const {c_type} old_ = {back}(seen_);\n        found_ = {swap};\n    }} while (found_ != seen_);\n}}\n")

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

    def __init__(self, owner, name, result, parameters, text):
        self.name = name
        self.text = text
        self.called = f"{owner.sym}_{name}_"
        self.helpers = owner.helpers_of(text)  # which it calls
        self.structs = [element for element in (result, *(parameter.element for parameter in parameters)) if element.is_struct]
        self.is_root = False
        self.is_written = True
        declared = ", ".join(parameter.declared(parameter.host_type) for parameter in parameters) or "void"
        self.host_head = f"{result.c_type}\n{self.called}({declared})"
        self.host_body = indented(owner.spelled(text, owner.host_constants), 4)
        self.owner = owner
        self.result = result
        self.parameters = parameters

    def in_cuda(self):
        return self._in(CUDA, self.owner.spelled(self.text, self.owner.cuda_constants))

    def in_opencl(self):
        """Raises CodeError."""
        return self._in(OPENCL, self.owner.opencl_spelled(self.text))

    def _in(self, dialect, body):
        declared = ", ".join(f"{dialect.value(parameter.element)} {parameter.name}" for parameter in self.parameters)
        return f"{dialect.function} {dialect.value(self.result)}\n{self.called}({declared})\n{{\n{indented(body, 4)}}}\n"


def listed(parameters, word):
    """The names of parameters, as a text lists them."""
    names = [f"`{parameter.name}`" for parameter in parameters]
    return ", ".join(names[:-1]) + (f" {word} " if len(names) > 1 else "") + names[-1] if names else ""


def is_exact(name):
    return name in ARITY or name[-1] == "f" and name[:-1] in ARITY


def indented(text, spaces=0):
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


class KernelFile:
    """One file of kernels, checked. Attributes are what templates print."""

    def __init__(self, path, data, target=DEFAULT_TARGET):
        self.path = path
        self.read_files = [path]
        self.notes = []  # (key, what a reader should know of it)
        self.check = check = KernelChecker(path, data)
        check.keys(data, "", FILE_KEYS, ("ferry", "prefix", "header", "kernels"))
        check.version()
        self.source = os.path.basename(path)
        self.prefix = check.prefix()
        self.name = check.name() if "name" in data else "kernels"
        self.sym = f"{self.prefix}_{self.name}"
        self.header = check.header()
        self.guard = f"{self.sym.upper()}_H"
        self.gen_abi = GEN_ABI
        self.types = check.types(target)
        self.type_names = {words[-1] for words in (name.split(" ") for name in (*self.types, *(one.c_type for one in self.types.values())))}
        self.constants = check.constants(self)
        self.integers = {name: value for name, value in self.constants.items() if type(data["constants"][name]) is int}
        self.host_constants = {**HOST_CONSTANTS, **self.constants}
        self.cuda_constants = {**CUDA_CONSTANTS, **self.constants}
        self.opencl_constants = {**CONSTANTS_OF_OPENCL, **{name: written(value) for name, value in self.constants.items()}}
        self.flags = set().union(*(element.flags for element in self.types.values()))
        self.functions = {}
        check.functions(self)
        self.kernels = []
        check.kernels(self)
        for kernel in self.kernels:
            kernel.finish()
        used = check.function_elements + [parameter.element for kernel in self.kernels for parameter in kernel.parameters]
        used += [kernel.result for kernel in self.kernels if kernel.result]
        used += [element for kernel in self.kernels for one in kernel.results for element in (one.element, self.types["uint64"])]
        for element in self.types.values():
            self.read_files += [one for one in element.read_files if one not in self.read_files]
        self.include_lines = unique([include_line(one) for one in check.includes()]
                                    + [element.include_line for element in sorted(used, key=lambda one: one.include_line)])
        found = [helper for function in self.functions.values() for helper in (*function.helpers, function)]
        found += [helper for kernel in self.kernels for helper in kernel.helpers]
        self.helpers = list({helper.called: helper for helper in found}.values())
        self.has_returns = any(kernel.returns for kernel in self.kernels)
        self.has_result = any(kernel.result for kernel in self.kernels)
        self.has_stencil = any(kernel.form == "stencil" for kernel in self.kernels)
        self.block, self.blocks, self.part = BLOCK, BLOCKS, PART

    def known_names(self):
        return {*self.functions, *self.constants}

    def spelled(self, text, constants):
        """A checked text as it stands in the generated code for the host or for CUDA."""
        return with_names(text.text, self.names_in(text, constants), self.calls_in(text))

    @staticmethod
    def names_in(text, constants):
        names = {name: value for name, value in constants.items() if name not in text.parameters}
        if text.form in ("map", "reduction", "fused") and "n" not in text.parameters and "n" not in text.locals:
            names["n"] = "n_"
        return names

    def calls_in(self, text):
        return {helper.name: helper.called for helper in self.helpers_of(text)}

    def opencl_spelled(self, text):
        """A checked text in OpenCL C. Raises CodeError."""
        calls = {name: f"{self.sym}_{name}_" for name in self.spelled_of(text)}
        return spelled_text(text, self.flags, self.names_in(text, self.opencl_constants), {**self.calls_in(text), **calls})

    def spelled_of(self, text):
        """The functions that a checked text calls and OpenCL C has under other names."""
        return [name for name in called_names(text.text)
                if is_spelled(name) and name not in text.parameters and name not in text.locals and name not in self.functions]

    def opencl_parts(self, text):
        """(definitions of what a checked text calls, the text) in OpenCL C. Raises CodeError."""
        helpers = self.helpers_of(text)
        texts = [text, *(helper.text for helper in helpers if helper.is_written)]
        spelled = dict.fromkeys(name for one in texts for name in self.spelled_of(one))
        definitions = [spelled_function(name, f"{self.sym}_{name}_") for name in spelled] + [helper.in_opencl() for helper in helpers]
        return "".join(definitions), self.opencl_spelled(text)

    def check_known(self, kernel, language):
        """Raises CodeError for a name of a kernel that nothing defines in a language."""
        for _, _, name, what in unknown_names(kernel, language):
            raise CodeError(f"{what}; expected the option '-D{name}=...' in 'options' for {language}")

    def helpers_of(self, text):
        """The functions that a checked text calls, each after those that it calls itself."""
        found = []
        for name in called_names(text.text):
            if name in text.parameters or name in text.locals:
                continue
            if name in self.functions:
                found += [*self.functions[name].helpers, self.functions[name]]
            elif name in text.atomics:
                found.append(Atomic(self.sym, name, *text.atomics[name]))
            elif is_exact(name):
                found.append(Helper(self.sym, name))
        return list({helper.called: helper for helper in found}.values())


def unknown_names(kernel, language):
    """(key, text, name, what a message says of it) for each name that neither the file nor an option of the language defines."""
    options = kernel.options[language]
    defined = {match.group(1) for match in (re.match(r"(?:-D|--define-macro=)(\w+)", option) for option in options) if match}
    if any(re.match(r"-include|--pre-include", option) for option in options):
        return  # of a header that the device has too
    functions = [helper for helper in kernel.owner.helpers_of(kernel.text) if helper.is_written]
    for key, text in [*((function.where, function.text) for function in functions), (kernel.where, kernel.text)]:
        for name, what in text.unknown.items():
            if name not in defined and not (name in text.called and (is_exact(name) or name in REFUSED)):
                yield key, text, name, what


def is_kernels(data):
    """A file of kernels, also one that misspells the key; not a type file."""
    return "kernels" in data or not data.keys() & {"kind", "c_type"} and nearest("kernels", data) != ""


class KernelChecker(Checker):
    """The keys of a file of kernels."""

    def types(self, target):
        """Elements by the names that parameters may use: user's types, built-in types, C scalars."""
        builtin = {name: load(os.path.join(BUILTIN_DIR, name + ".json")) for name in builtin_names()}
        found = {}
        for element in builtin.values():
            found[element.c_type] = element
        by_shape = {(element.kind, element.bits): element for element in builtin.values()}
        for c_type, shape in target.scalars.items():
            found.setdefault(c_type, by_shape[shape])
        found |= builtin
        if "types" not in self.data:
            return found
        for index, path in enumerate(self.value("types", list, "a list of type files")):
            if type(path) is not str or not path.endswith(".json"):
                self.fail(f"types[{index}]", f"is {path!r}; expected the path of a type file, such as 'vec3.json'")
            full = os.path.join(os.path.dirname(self.path), path)
            if not os.path.isfile(full):
                self.fail(f"types[{index}]", f"is '{path}', which is not there; expected a type file, by its path from this file")
            element = load(full, target)
            found[element.name] = found[element.c_type] = element
        return found

    def functions(self, owner):
        self.function_elements = []
        if "functions" not in self.data:
            return
        entries = self.objects("functions", "functions")
        names = [entry.get("name") for entry in entries]
        for index, entry in enumerate(entries):
            where = f"functions[{index}]."
            self.keys(entry, where, FUNCTION_KEYS, FUNCTION_KEYS)
            name = self.function_name(entry, where, owner)
            parameters = self.parameters(entry, where, owner, "function")
            for at, parameter in enumerate(parameters):
                if parameter.is_buffer:
                    self.fail(f"{where}parameters[{at}]", f"is an array; expected 'TYPE NAME', a value, such as '{parameter.element.c_type} "
                              f"{parameter.name}'")
            result = self.element(where + "returns", self.text("returns", "the type of the result", entry, where), owner)
            body = self.code("body", entry, where, "the statements of the function")
            if not body.rstrip().endswith((";", "}")):
                self.fail(where + "body", "does not end with ';'; expected statements such as 'return x * x;'")
            text = self.checked(where + "body", body, "function", parameters, owner)
            for called in called_names(body):
                if called in names[index:] and called not in text.locals:
                    self.fail(where + "body", f"calls '{called}', which is not listed above; expected calls of earlier functions")
            self.function_elements += [result, *(parameter.element for parameter in parameters)]
            if not any(token.text == "return" for token in tokens(body)):
                self.fail(where + "body", "holds no 'return'; expected one, with the value of the function")
            owner.functions[name] = Function(owner, name, result, parameters, text)
            owner.functions[name].where = where + "body"

    def function_name(self, entry, where, owner):
        name = self.plain_name(entry, where, "the function's name")
        if name in RESERVED:
            self.fail(where + "name", f"'{name}' is a reserved word of C or C++; expected another name")
        if is_exact(name) or name in REFUSED or name in SHARED_FUNCTIONS or name == "near" or name == "count" or name.startswith("atomic_"):
            self.fail(where + "name", f"is '{name}', a function of C or of the generated code; expected another name")
        if name in owner.functions:
            self.fail(where + "name", f"'{name}' is listed twice")
        if name in owner.constants:
            self.fail(where + "name", f"is '{name}', one of 'constants'; expected another name")
        return name

    def plain_name(self, entry, where, what):
        name = self.text("name", what, entry, where)
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
            self.fail(where + "name", f"is '{name}'; expected lower-case letters, digits and single '_', beginning with a letter")
        return name

    def kernels(self, owner):
        entries = self.objects("kernels", "kernels")
        if not entries:
            self.fail("kernels", "is empty; expected at least one kernel")
        for index, entry in enumerate(entries):
            kernel = self.kernel(entry, f"kernels[{index}].", owner)
            for other in owner.kernels:
                if kernel.names & other.names:
                    self.fail(f"kernels[{index}].name", f"'{kernel.name}' is a name of the kernel '{other.name}'; expected another one")
            if kernel.name == "context" or kernel.name.startswith("ferry") or kernel.name in RESERVED or kernel.name in HOST_MACROS:
                self.fail(f"kernels[{index}].name", f"'{kernel.name}' is a reserved word of C or C++, or a name of generated code; expected "
                          "another name")
            if kernel.names & {owner.name, owner.name + "_create", owner.name + "_destroy"}:
                self.fail(f"kernels[{index}].name", f"'{kernel.name}' is a name of the file's kernels, '{owner.name}'; expected another one")
            owner.kernels.append(kernel)

    def kernel(self, entry, where, owner):
        self.keys(entry, where, KERNEL_KEYS, ("name", "parameters") if "results" in entry else ("name", "parameters", "each"))
        name = self.plain_name(entry, where, "the kernel's name")
        forms = [key for key in (*REDUCTIONS, "results", "stencil") if key in entry]
        if len(forms) > 1:
            self.fail(where + forms[1], f"stands beside '{forms[0]}'; expected one of sum, min, max, results and stencil, or none for a map")
        form = "map" if not forms else {"stencil": "stencil", "results": "fused"}.get(forms[0], "reduction")
        kernel = Kernel(owner, name, self.parameters(entry, where, owner, form), form,
                        self.code("each", entry, where, "what is done for each element") if "each" in entry else "")
        if form == "fused":
            self.results(kernel, entry, where)
        kernel.has_count = self.has_count(entry, where, form)
        self.form(kernel, entry, where, forms)
        kernel.where = where + "each"
        kernel.text = self.checked(kernel.where, kernel.each, form, kernel.parameters, owner, kernel.results)
        kernel.exact = not self.is_fast(entry, where)
        kernel.options = self.options(entry, where)
        self.check_names(kernel)
        self.check_structs(kernel, where)
        if "comment" in entry:
            kernel.comment = self.text("comment", "a line of text for the generated header", entry, where)
            if "*/" in kernel.comment or "/*" in kernel.comment or "??/" in kernel.comment or not kernel.comment.isprintable():
                self.fail(where + "comment", "holds '*/', '/*', '??/' or a control character; expected one line of a comment")
        return kernel

    def results(self, kernel, entry, where):
        """The reductions beside a map."""
        entries = self.objects("results", "results", entry, where)
        if not entries:
            self.fail(where + "results", "is empty; expected at least one result")
        for index, one in enumerate(entries):
            at = f"{where}results[{index}]."
            self.keys(one, at, RESULT_KEYS, ("name", "value"))
            name = self.text("name", "the result's name", one, at)
            self.check_free_name(at + "name", name, kernel.owner)
            taken = [*(other.name for other in kernel.parameters), *(other.name for other in kernel.results), *INDICES["fused"], *LAUNCH_NAMES["fused"],
                     "count", *kernel.owner.known_names()]
            if name in taken:
                self.fail(at + "name", f"is '{name}', a name of a parameter, of another result or of the file; expected another one")
            keys = [key for key in REDUCTIONS if key in one]
            if len(keys) != 1:
                self.fail(at + (keys[1] if keys else "sum"), "is " + (f"beside '{keys[0]}'" if keys else "missing")
                          + "; expected one of sum, min and max, with the type of the result")
            value = self.code("value", one, at, "the value of each element")
            try:
                parse_expression(value, kernel.owner.type_names)
            except CodeError as error:
                self.fail(at + "value", str(error))
            kernel.results.append(Reduced(name, keys[0], self.reduced_element(keys[0], one, at, kernel.owner), value))

    def reduced_element(self, key, entry, where, owner):
        element = self.element(where + key, self.text(key, "the type of the result", entry, where), owner)
        if (element.kind, element.bits) not in LIMITS:
            self.fail(where + key, f"is '{entry[key]}'; expected a type of C that is added and compared, such as 'double' or 'int64_t'")
        return element

    def checked(self, key, text, form, parameters, owner, results=()):
        """The text, checked by the rules for its form."""
        try:
            check_words(text, (token.text for token in tokens(text)))
            found = Text(text, form, parameters, owner.known_names(), owner.type_names)
            found.results = {one.variable: f"({one.c_type})({one.value})" for one in results}
            found.check()
        except CodeError as error:
            at = [one.variable for one in results].index(error.variable) if error.variable else 0
            self.fail(key.removesuffix("each") + f"results[{at}].value" if error.variable else key, str(error))
        for name in found.locals:
            self.check_free_name(key, name, owner)
        return found

    def check_names(self, kernel):
        """Refuses names that the text, or a function that it calls, takes from nowhere, or from a header of the host alone."""
        for key, text, name, what in unknown_names(kernel, "cuda"):
            known = (*text.parameters, *text.locals, *kernel.owner.known_names(), *CONSTANTS, *ARITY)
            self.fail(key, f"{what}; {nearest(name, known)}expected a name that this file defines, or the option '-D{name}=...' for devices")

    def form(self, kernel, entry, where, forms):
        written = [parameter for parameter in kernel.arrays if not parameter.is_read]
        if kernel.form == "reduction":
            key = forms[0]
            kernel.reduced = Reduced("", key, self.reduced_element(key, entry, where, kernel.owner))
            if written:
                self.fail(where + "parameters", f"has the array '{written[0].name}' to be written; expected arrays that a reduction reads")
            if ";" in kernel.each:
                self.fail(where + "each", f"holds ';'; expected one expression without it, whose values '{key}' combines")
        elif not written and not kernel.results:
            self.fail(where + "parameters", "has no array to be written; expected 'update TYPE NAME' or 'overwrite TYPE NAME', "
                      "or one of the keys sum, min, max, results")
        elif kernel.each and not kernel.each.rstrip().endswith((";", "}")):
            self.fail(where + "each", "does not end with ';'; expected statements such as 'z[i] = x[i] + y[i];'")
        if not kernel.arrays:
            self.fail(where + "parameters", "has no array; expected at least one")
        if not kernel.counting and not kernel.has_count and kernel.form != "stencil":
            self.fail(where + "parameters", "has no array that gives the count; expected one without 'whole' and 'one', or '\"count\": true' for a "
                      "launch that takes it")
        if kernel.form == "stencil":
            kernel.radius = self.integer("stencil", 1, RADIUS_LIMIT, entry, where)
            self.check_steps(kernel, where)

    def has_count(self, entry, where, form):
        """Whether the launch has an argument of how many elements there are."""
        found = self.value("count", bool, "true or false", entry, where) if "count" in entry else False
        if found and form == "stencil":
            self.fail(where + "count", "stands beside 'stencil', whose launch takes rows and columns; expected one of the two")
        return found

    def check_structs(self, kernel, where):
        """CUDA sources know the structs of the kernel's own parameters."""
        known = [parameter.element for parameter in kernel.parameters]
        for helper in kernel.owner.helpers_of(kernel.text):
            for element in helper.structs if helper.is_written else ():
                if element not in known:
                    self.fail(where + "parameters", f"has no '{element.name}', a struct of the function '{helper.name}'; expected a "
                              "parameter of this type in each kernel that calls it")

    def check_steps(self, kernel, where):
        """A stencil says with literal numbers which neighbours it reads."""
        found = tokens(kernel.each)
        names = {parameter.name for parameter in kernel.counting if parameter.is_read}
        for at, token in enumerate(found[:-1]):
            if token.text not in names or found[at + 1].text != "(" or at and found[at - 1].text in (".", "->"):
                continue
            end = next((other for other in found[at:] if other.text == ")"), found[-1])
            steps = kernel.each[found[at + 1].end:end.begin]
            numbers = [step.strip() for step in steps.split(",")]
            if (len(numbers) != 2 or not all(re.fullmatch(r"[+-]?\d+", number) for number in numbers)
                    or any(abs(int(number)) > kernel.radius for number in numbers)):
                self.fail(where + "each", f"holds '{token.text}({steps})'; expected two whole numbers from -{kernel.radius} to "
                          f"{kernel.radius}, the steps to a neighbour in rows and columns")

    def parameters(self, entry, where, owner, form):
        texts = self.value("parameters", list, "a list of parameters", entry, where)
        found = []
        for index, text in enumerate(texts):
            parameter = self.parameter(text, f"{where}parameters[{index}]", owner)
            if parameter.name in owner.functions and form != "function" or parameter.name in owner.constants:
                self.fail(f"{where}parameters[{index}]", f"is called '{parameter.name}', one of 'functions' or 'constants'; expected another name")
            if parameter.name in (*INDICES[form], *LAUNCH_NAMES[form], *(("count",) if entry.get("count") is True else ())):
                self.fail(f"{where}parameters[{index}]", f"is called '{parameter.name}', which the generated code uses; expected another name")
            if any(parameter.name == other.name for other in found):
                self.fail(f"{where}parameters[{index}]", f"'{parameter.name}' is listed twice")
            found.append(parameter)
        return found

    def parameter(self, text, where, owner):
        what = ("'TYPE NAME' for a value, or 'read', 'update' or 'overwrite' before it for an array, perhaps with 'whole', or 'read one' for a value in "
                "a buffer")
        words = text.split() if type(text) is str else []
        if len(words) < 2:
            self.fail(where, f"is {text!r}; expected {what}")
        access = words.pop(0) if words[0] in ACCESSES else ""
        word = words.pop(0) if access and words[0] in WORDS and len(words) > 2 else ""
        name, c_type = words[-1], " ".join(words[:-1])
        self.check_free_name(where, name, owner)
        if c_type not in owner.types and not access and nearest(words[0], ACCESSES) and " ".join(words[1:-1]) in owner.types:
            self.fail(where, f"is '{text}'; {nearest(words[0], ACCESSES)}expected {what}")
        if c_type not in owner.types and access and len(words) > 2 and " ".join(words[1:-1]) in owner.types:
            self.fail(where, f"is '{text}'; {nearest(words[0], WORDS)}expected {what}")
        if word == "one" and access != "read":
            self.fail(where, f"is '{text}'; expected 'read one {c_type} {name}', because a kernel only reads a value")
        return Parameter(name, self.element(where, c_type, owner), access, word)

    def check_free_name(self, where, name, owner):
        """Refuses what cannot be the name of a parameter or a variable in every language, or beside generated code."""
        self.check_identifier(where, name)
        if name.endswith("_") or name.startswith("_") or name.lower().startswith("ferry"):
            self.fail(where, f"is called '{name}', a name of generated code or of the compiler; expected one that neither begins with '_' or "
                      "'ferry' nor ends with '_'")
        if name in owner.type_names:
            self.fail(where, f"is called '{name}', a type; expected another name")
        if (name in DEVICE_WORDS or VECTOR_TYPE.fullmatch(name) or OPENCL_MACRO.fullmatch(name) or name in HOST_MACROS or name in CONSTANTS
                or name in SHARED_NAMES):
            self.fail(where, f"is called '{name}', a reserved word or a macro of C, CUDA, HIP or OpenCL; expected another name")
        syms = {owner.sym, *(element.sym for element in owner.types.values())}
        # In capitals they begin the macros of the generated headers.
        if name in syms or any(name.startswith((sym + "_", sym.upper() + "_")) for sym in syms):
            self.fail(where, f"is called '{name}', a name of generated functions; expected another one")

    def constants(self, owner):
        """The value of each constant, as it stands in the texts."""
        found = {}
        for name, value in self.value("constants", dict, "an object of names and values").items() if "constants" in self.data else ():
            where = f"constants.{name}"
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                self.fail(where, f"is called '{name}'; expected a C identifier that begins with a letter")
            owner.constants = found
            self.check_free_name(where, name, owner)
            if name in ("i", "n", *BUILT_IN) or is_exact(name) or name in REFUSED or name in SHARED_FUNCTIONS:
                self.fail(where, f"is called '{name}', which has a meaning in every text; expected another name")
            found[name] = self.constant(where, value, found)
        return found

    def constant(self, where, value, known):
        what = "a number, or a constant expression of C such as '100.0f' or '4 * SIDE', of numbers and earlier constants"
        if type(value) not in (int, float, str):
            self.fail(where, f"is {value!r}; expected {what}")
        text = value if type(value) is str else repr(value)
        try:
            parse_expression(text, ())
            words = {token.text for token in tokens(text) if token.kind == "word"}
        except CodeError as error:
            self.fail(where, f"{error}; expected {what}")
        unknown = sorted(words - known.keys() - HOST_CONSTANTS.keys() - set(TYPE_WORDS) - {"sizeof"})
        if unknown or called_names(text):
            self.fail(where, f"uses '{(unknown or called_names(text))[0]}'; expected {what}")
        return f"({with_names(text, {**HOST_CONSTANTS, **known}, {})})"

    def element(self, where, name, owner):
        if name not in owner.types:
            self.fail(where, f"is of type '{name}'; {nearest(name, owner.types)}expected a built-in type, a scalar of C, or one of 'types'")
        return owner.types[name]

    def code(self, key, entry, where, what):
        text = entry[key]
        if type(text) is list and all(type(line) is str for line in text):
            text = "\n".join(text)
        if type(text) is not str or not text.strip():
            self.fail(where + key, f"is no text; expected {what}, as text or a list of lines")
        if any(c < " " and c not in "\n\t" for c in text) or not text.isascii():
            self.fail(where + key, "holds a control character or a letter that C has not; expected the characters of C")
        if "#" in text or "//" in text or "/*" in text:
            self.fail(where + key, "holds '#' or a comment; expected statements of C alone")
        try:
            called = called_names(text)
        except CodeError as error:
            self.fail(where + key, str(error))
        for name in called:
            if name in REFUSED:
                self.fail(where + key, f"calls {name}(), which is not within 2 ulp on every device; expected other functions")
        return text.strip("\n")

    def is_fast(self, entry, where):
        """Whether the compiler may fuse operations. Without fused operations a map gives the host's bits."""
        return self.value("fast", bool, "true or false", entry, where) if "fast" in entry else False

    def options(self, entry, where):
        """Options of each language's compiler. A list is CUDA's."""
        given = entry.get("options", {})
        if type(given) is list:
            given = {"cuda": given}
        if type(given) is not dict:
            self.fail(where + "options", f"is {given!r}; expected a list of options for CUDA, or an object with lists for "
                      f"{', '.join(LANGUAGES)}")
        for language in given:
            if language not in LANGUAGES:
                self.fail(f"{where}options.{language}", f"unknown key; {nearest(language, LANGUAGES)}expected one of {', '.join(LANGUAGES)}")
        prefix = where + ("options" if type(entry.get("options")) is list else "options.{}")
        return {language: self.option_list(given.get(language, []), prefix.format(language)) for language in LANGUAGES}

    def option_list(self, options, key):
        if type(options) is not list:
            self.fail(key, f"is {options!r}; expected a list of options")
        for index, option in enumerate(options):
            if type(option) is not str or not re.fullmatch(r"-[\w.=/+,-]+", option):
                self.fail(f"{key}[{index}]", f"is {option!r}; expected an option such as '-lineinfo'")
        return options
