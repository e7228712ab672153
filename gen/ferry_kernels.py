# SPDX-License-Identifier: MIT
"""Kernels from one expression of C: a file of kernels, checked, and what the templates print of it."""

import os

from ferry_c import CodeError, called_names, with_names
from ferry_box import NEIGHBOURS
from ferry_calls import Atomic, Helper, is_wrapped
from ferry_check import KernelChecker, unknown_names
from ferry_dialect import CUDA, OPENCL
from ferry_dialect import BLOCK
from ferry_layout import DEFAULT_TARGET
from ferry_names import CUDA_CONSTANTS, HOST_CONSTANTS
from ferry_opencl import CONSTANTS_OF_OPENCL, is_spelled, spelled_function, spelled_text, written
from ferry_types import GEN_ABI, include_line, unique

FILE_KEYS = ("ferry", "prefix", "name", "header", "include", "types", "typedefs", "constants", "functions", "kernels")
BLOCKS = 1024  # partial sums of a reduction on a device
PART = 16384  # elements of a part that one thread of the host runs


class KernelFile:
    """One file of kernels, checked. Attributes are what templates print."""

    def __init__(self, path, data, target=DEFAULT_TARGET, typedefs=None):
        """`typedefs` are types by names of the key, which replace the file's."""
        self.path = path
        self.target = target
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
        self.constants, self.typedefs = {}, {}
        self.typedefs = check.typedefs(self, typedefs or {})
        self.types |= self.typedefs
        self.type_names |= self.typedefs.keys()
        self.options = "".join(f" --typedef {name}={c_type}" for name, c_type in (typedefs or {}).items())
        self.constants = check.constants(self)
        self.integers = {name: value for name, value in self.constants.items() if type(data.get("constants", {}).get(name)) is int}
        self.host_constants = {**HOST_CONSTANTS, **self.constants, **self.names_of_types(lambda one: one.c_type)}
        self.cuda_constants = {**CUDA_CONSTANTS, **self.constants, **self.names_of_types(CUDA.value)}
        self.opencl_constants = {**CONSTANTS_OF_OPENCL, **{name: written(value) for name, value in self.constants.items()},
                                 **self.names_of_types(OPENCL.value)}
        self.flags = set().union(*(element.flags for element in self.types.values()))
        self.functions = {}
        check.functions(self)
        self.kernels = []
        check.kernels(self)
        for kernel in self.kernels:
            kernel.finish()
        used = check.function_elements + [parameter.element for kernel in self.kernels for parameter in kernel.parameters]
        used += [element for element in self.types.values() if element.enumerators]
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
        self.reduces = any(kernel.reductions for kernel in self.kernels)
        self.neighbours = {edges: NEIGHBOURS[edges] for edges in ("nearest", "wrap") if any(kernel.edges == edges for kernel in self.kernels)}
        self.has_box = any(kernel.box for kernel in self.kernels)
        self.is_checked = any(kernel.is_checked for kernel in self.kernels) or any(function.arrays for function in self.functions.values())
        self.calls_generated = self.has_box or self.reduces or self.is_checked  # functions of <ferry/generated.h>
        self.block, self.blocks, self.part = BLOCK, BLOCKS, PART

    def names_of_types(self, spelled):
        """What texts have in place of names of types that no language knows: typedefs, and short names of elements."""
        return {name: spelled(element) for name, element in self.types.items() if " " not in name and name != element.c_type and name not in self.target.scalars}

    def known_names(self):
        return {*self.functions, *self.constants}

    def spelled(self, text, constants):
        """A checked text as it stands in the generated code for the host or for CUDA."""
        return with_names(text.text, self.names_in(text, constants), self.calls_in(text))

    def spelled_checked(self, text):
        """The same for a host function that checks the indices of whole arrays."""
        calls = {helper.name: helper.checked if helper.is_written and helper.arrays else helper.called for helper in self.helpers_of(text)}
        return with_names(text.checked, self.names_in(text, self.host_constants), calls)

    @staticmethod
    def names_in(text, constants):
        names = {name: value for name, value in constants.items() if name not in text.parameters}
        if text.form != "function" and not text.dimensions and "n" not in text.parameters and "n" not in text.locals:
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
            elif is_wrapped(name):
                found.append(Helper(self.sym, name))
        return list({helper.called: helper for helper in found}.values())
