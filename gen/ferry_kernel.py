# SPDX-License-Identifier: MIT
"""One kernel, and its texts for the host and for devices."""

import textwrap

from ferry_box import Box
from ferry_c import CodeError, tokens
from ferry_dialect import BLOCK, CUDA, OPENCL, indented
from ferry_layout import LITERAL_BYTES
from ferry_opencl import why_not_struct
from ferry_types import c_string_lines

# Languages that have options of their own.
LANGUAGES = ("cuda", "hip", "opencl")


class Kernel:
    """One kernel: a map, a stencil, a reduction, or a map with reductions (\"fused\")."""

    def __init__(self, owner, name, parameters, form, dimensions, each):
        self.owner = owner
        self.name = name
        self.sym = f"{owner.prefix}_{name}"
        self.parameters = parameters
        self.form = form
        self.arrays = [parameter for parameter in parameters if parameter.is_array]
        self.counting = [parameter for parameter in parameters if parameter.counts]
        self.has_count = False  # whether the launch takes the count
        self.dimensions = dimensions  # the names of the sizes of a kernel of several dimensions
        self.box = None  # of such a kernel
        self.edges = ""  # what a stencil reads beyond the array
        self.lines = {}  # steps to the lines of neighbours that it reads, by the names of arrays
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
        self.box = Box(self.dimensions, self.radius, self.edges or "none") if self.dimensions else None
        self.sizes = [*(self.box.sizes if self.box else ["n_"]), *(parameter.count_name for parameter in self.counted)]
        self.launch_declared = self.box.declared if self.box else "size_t count, " if self.has_count else ""
        self.launch_given = self.box.given if self.box else "count, " if self.has_count else ""
        self.out_of_range = ("the box is not inside, or an array is too small" if self.box else "an array is shorter than `count`" if self.has_count else
                             "the counts differ")
        self.cell = ["i", *self.box.indices, "at_"] if self.box else ["i"]  # what is different for each element
        self.reductions = self.results or ([self.reduced] if self.reduced else [])
        self.first_result = len(self.parameters) + (1 if self.results else 0)  # its index; a fused kernel has scratch memory before it
        self.parameter_count = self.first_result + len(self.reductions) + len(self.sizes)
        self.ones = [parameter for parameter in self.parameters if parameter.one]
        # Elements that write the same one must not run at once, and the compiler must not take them for independent.
        self.scatters = any(parameter.whole and not parameter.is_read for parameter in self.parameters)
        self.returns = self.text.has_return
        self.element_name = f"{self.sym}_Element_"  # no function of the file has capitals
        self.element_declared = ", ".join([*(parameter.declared_for_element() for parameter in self.parameters), *(f"const size_t {size}" for size in (*self.cell, *self.sizes))])
        self.element_given = ", ".join([*(parameter.name for parameter in self.parameters), *self.cell, *self.sizes])
        # Several threads of the host may run it: what it writes at all is independent, or integers that are changed atomically.
        self.is_parallel = not self.text.writes
        self.described = textwrap.wrap(" ".join(filter(None, self._sentences())), 96, break_long_words=False)
        self.helpers = self.owner.helpers_of(self.text)
        self.unused, self.checked_unused = self._unused(self.text.text), self._unused(self.text.checked)
        self.host_each = indented(self.owner.spelled(self.text, self.owner.host_constants))
        self.is_checked = bool(self.text.checks)  # whether a checked run has another host function
        self.checked_each = indented(self.owner.spelled_checked(self.text))
        self.reads = [parameter for parameter in self.counting if parameter.is_read]
        self.host_lines = [(one, [self.box.line(steps, self.owner.sym) for steps in self.lines[one.name]]) for one in self.reads if one.name in self.lines]
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

    def _unused(self, text):
        found = tokens(text)
        words = {token.text for before, token in zip([None, *found], found) if not before or before.text not in (".", "->")}  # no members
        return [parameter for parameter in self.parameters if parameter.name not in words]

    def _where(self):
        """What a launch does its work for, and which counts arrays must have."""
        counting, apart = listed(self.counting, "and"), [one for one in self.parameters if one.is_buffer and not one.counts]
        if self.box:
            inside = " whose neighbours exist" if self.edges == "none" else ""
            return (f"the cells of `box`, or for all cells{inside} if it is NULL. FERRY_REST in it means up to the end",
                    f"{'Arrays' if apart else 'The arrays'} have " + " of ".join(f"`{name}` {name}" for name in self.dimensions[:-1])
                    + " of `columns` elements, and need those that are used.")
        if self.has_count:
            return "the indices [0, count)", f"It uses the first `count` elements of {counting}." if self.counting else ""
        equal = len(self.counting) > 1 or not apart
        return (f"every element of {counting}" if apart else "every element of the arrays",
                f"{counting if apart else 'The arrays'} must have equal counts." if equal else "")

    def _sentences(self):
        """What the comment of the launch says of the count, of whole arrays and of overlaps."""
        apart = [one for one in self.parameters if one.is_buffer and not one.counts]
        where, counts = self._where()
        if self.form != "reduction":
            yield f"Queues {self.name} on the stream, for {where}."
        elif self.box:
            yield f"It is computed for {where}."
        yield counts
        if self.form == "stencil":
            beyond = {"nearest": " Outside of the array it reads the nearest element.", "wrap": " Outside of the array it reads the element at the other end."}
            yield f"It reads these cells and {self.radius} on each side.{beyond.get(self.edges, '')} What it reads must not overlap what it writes."
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
            return helpers + head + self._ones_text(dialect) + self._tree_text(dialect, self._loop(dialect), f"({scalar})({each})", f"partial_[{dialect.block}]")
        if self.form == "fused":
            outs = [f"{dialect.memory}{dialect.scalar(one.element)} *{one.name}_out_" for one in self.results]
            head = dialect.head(self.sym, declarations + [f"{dialect.memory}uint64_t *scratch_"] + outs + sizes)
            return helpers + head + self._ones_text(dialect) + self._fused_text(dialect, each)
        head = dialect.head(self.sym, declarations + sizes) + self._ones_text(dialect)
        if self.form == "map" and self.returns:
            declared = [parameter.declared_for_element(dialect) for parameter in self.parameters]
            declared += [f"const {dialect.size} {size}" for size in (*self.cell, *self.sizes)]
            element = f"{dialect.function} void\n{self.element_name}({', '.join(declared)})\n{{\n{indented(each, 4)}}}\n"
            return helpers + element + head + self._loop(dialect) + f"        {self.element_name}({self.element_given});\n    }}\n}}\n"
        near = self.box.device_neighbours(dialect, self.reads) if self.radius else ""
        return helpers + near + head + self._loop(dialect) + indented(each, 8) + "    }\n}\n"

    def _loop(self, dialect):
        """The beginning of the loop in which a thread of a device runs its elements."""
        if self.box:
            return self.box.device_begin() + dialect.strided("k_", "cells_") + self.box.device_cell()
        return dialect.strided("i", "n_")

    def _ones_text(self, dialect):
        return "".join(f"    const {dialect.value(one.element)} {one.name} = {one.pointer}[0];\n    (void){one.name};\n" for one in self.ones)

    def _into_text(self, dialect):
        scalar = dialect.scalar(self.result)
        head = dialect.head(self.sym + "_into", [f"{dialect.memory}const {scalar} *partial_", f"{dialect.memory}{scalar} *out_",
                                                 f"{dialect.size} n_"])
        return head + self._tree_text(dialect, dialect.strided("i", "n_"), "partial_[i]", "out_[0]")

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
        text += self._loop(dialect) + "".join(f"        {scalar} {one.variable};\n" for one, scalar in typed) + indented(each, 8)
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

    def _tree_text(self, dialect, loop, value, target):
        """Each thread combines its stride in order, then the block its threads as a tree."""
        scalar, thread = dialect.scalar(self.result), dialect.thread
        identity = self.reduced.identity_in(dialect)
        combine = self.reduced.combine_into("r_", "v_", scalar)
        return (f"    {dialect.shared} {scalar} shared_[{BLOCK}];\n    {scalar} r_ = {identity};\n"
                + loop + f"        const {scalar} v_ = {value};\n        {combine}\n    }}\n"
                f"    shared_[{thread}] = r_;\n"
                f"    for (unsigned int half_ = {BLOCK // 2}; half_ > 0; half_ /= 2) {{\n"
                f"        {dialect.barrier}\n"
                f"        if ({thread} < half_) {{\n"
                f"            const {scalar} v_ = shared_[{thread} + half_];\n            {combine}\n"
                f"            shared_[{thread}] = r_;\n"
                "        }\n    }\n"
                f"    if ({thread} == 0)\n        {target} = r_;\n}}\n")


def listed(parameters, word):
    """The names of parameters, as a text lists them."""
    names = [f"`{parameter.name}`" for parameter in parameters]
    return ", ".join(names[:-1]) + (f" {word} " if len(names) > 1 else "") + names[-1] if names else ""
