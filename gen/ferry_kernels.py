# SPDX-License-Identifier: MIT
"""Kernels from one expression of C: a file of kernels, checked, and the texts of every language that the template prints."""

import os
import re

from ferry_c import TYPE_WORDS, CodeError, called_names, parse_expression, tokens, with_names
from ferry_layout import CUDA_SCALARS, DEFAULT_TARGET, LITERAL_BYTES, OPENCL_SCALARS
from ferry_names import (ARITY, CONSTANTS, CUDA_CONSTANTS, DEVICE_WORDS, HOST_CONSTANTS, HOST_MACROS, OPENCL_MACRO, REFUSED, SHARED_FUNCTIONS,
                         SHARED_NAMES, VECTOR_TYPE, WIDENED)
from ferry_opencl import (CONSTANTS_OF_OPENCL, exact_value, is_spelled, spelled_function, spelled_text, why_not_struct, written)
from ferry_rules import INDICES, Text, check_words
from ferry_types import (BUILTIN_DIR, GEN_ABI, RESERVED, Checker, builtin_names, c_string_lines, include_line, load, nearest,
                         unique)

FILE_KEYS = ("ferry", "prefix", "name", "header", "include", "types", "constants", "functions", "kernels")
FUNCTION_KEYS = ("name", "returns", "parameters", "body")
KERNEL_KEYS = ("name", "parameters", "each", "sum", "min", "max", "stencil", "fast", "options", "comment")
ACCESSES = {"read": "FERRY_READ", "update": "FERRY_UPDATE", "overwrite": "FERRY_OVERWRITE"}
REDUCTIONS = ("sum", "min", "max")
RADIUS_LIMIT = 16
BLOCK = 256  # threads
BLOCKS = 1024  # partial sums of a reduction on a device
PART = 16384  # elements of a part that one thread of the host runs
# Parameters of the typed launches, beside those of the kernel.
LAUNCH_NAMES = {"map": ("kernels", "stream"), "stencil": ("kernels", "stream"), "reduction": ("kernels", "stream", "out"), "function": ()}

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
               block="blockIdx.x", barrier="__syncthreads();", size="size_t", infinity=CUDA_INFINITY)
OPENCL = Dialect("opencl", kernel="__kernel void", function="static", scalars=OPENCL_SCALARS, memory="__global ", shared="__local",
                 first="get_global_id(0)", step="get_global_size(0)", thread="get_local_id(0)", block="get_group_id(0)",
                 barrier="barrier(CLK_LOCAL_MEM_FENCE);", size="ferry_size", infinity={})


class Parameter:
    """One parameter of a kernel. Attributes are what templates print."""

    def __init__(self, name, element, access):
        self.name = name
        self.element = element
        self.access = access  # "" for a value
        self.is_array = access != ""
        self.is_read = access == "read"
        self.constant = ACCESSES.get(access, "FERRY_READ")
        self.host_type = element.c_type
        self.value_sign = "&" if element.value_by_pointer else ""
        self.overlap = ""  # the constant of <ferry/kernel.h>; "" where any is right

    def declared(self, c_type, memory=""):
        if not self.is_array:
            return f"{c_type} {self.name}"
        return f"{memory}{'const ' if self.is_read else ''}{c_type} *{self.name}"

    def declared_in(self, dialect):
        return self.declared(dialect.scalar(self.element), dialect.memory)

    @property
    def launched(self):
        return f"{self.element.handle if self.is_array else self.element.c_type} {self.name}"


class Kernel:
    """One kernel: a map, a stencil or a reduction."""

    def __init__(self, owner, name, parameters, form, each):
        self.owner = owner
        self.name = name
        self.sym = f"{owner.prefix}_{name}"
        self.parameters = parameters
        self.form = form
        self.arrays = [parameter for parameter in parameters if parameter.is_array]
        self.each = each
        self.text = None  # what ferry_rules.py found in it
        self.comment = ""
        self.exact = True
        self.options = {language: [] for language in LANGUAGES}
        self.no_opencl = ""  # why there is no text in OpenCL C
        self.radius = 0
        self.reduction = ""
        self.result = None
        self.identity = ""

    @property
    def names(self):
        """What the header defines for it, without the prefix."""
        entries = [self.name, self.name + "_into"] if self.result else [self.name]
        return {entry + end for entry in entries for end in ("", "_run", "_source", "_on_host")}

    def finish(self):
        sizes = {"map": ["n_"], "stencil": ["rows", "columns", "first", "count", "from_"], "reduction": ["n_"]}[self.form]
        self.sizes = sizes
        self.parameter_count = len(self.parameters) + (1 if self.form == "reduction" else 0) + len(sizes)
        self.helpers = self.owner.helpers_of(self.text)
        words = {token.text for token in tokens(self.each)}
        self.unused = [parameter for parameter in self.parameters if parameter.name not in words]
        self.host_each = indented(self.owner.spelled(self.text, self.owner.host_constants))
        self.reads = [parameter for parameter in self.arrays if parameter.is_read]
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
        for parameter in self.arrays if self.form != "reduction" else ():
            apart = self.form == "stencil" and parameter.is_read or parameter.name in self.text.gathered
            parameter.overlap = "FERRY_OVERLAP_NONE" if apart else "FERRY_OVERLAP_SAME"
        if self.form == "reduction":
            self.into_text = self._into_text(CUDA)
            self.into_lines = c_string_lines(self.into_text)
            self.into_opencl_text = "" if self.no_opencl else self._into_text(OPENCL)
            self.into_opencl_lines = c_string_lines(self.into_opencl_text)

    def combined(self, left, right):
        if self.reduction == "sum":
            return f"{left} + {right}"
        sign = "<" if self.reduction == "min" else ">"
        is_nan = f" || {right} != {right}" if self.result.kind == "float" else ""
        return f"{right} {sign} {left}{is_nan} ? {right} : {left}"

    def combine_into(self, left, right):
        """A statement in C and CUDA. NaN wins, as in NumPy."""
        combined = self.combined(left, right)
        # Narrow integers are added as int.
        return f"{left} = ({self.result_type})({combined});" if self.result.bits < 32 else f"{left} = {combined};"

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
            return helpers + head + self._tree_text(dialect, f"({scalar})({each})", f"partial_[{dialect.block}]")
        head = dialect.head(self.sym, declarations + sizes)
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

    def _into_text(self, dialect):
        scalar = dialect.scalar(self.result)
        head = dialect.head(self.sym + "_into", [f"{dialect.memory}const {scalar} *partial_", f"{dialect.memory}{scalar} *out_",
                                                 f"{dialect.size} n_"])
        return head + self._tree_text(dialect, "partial_[i]", "out_[0]")

    def _tree_text(self, dialect, value, target):
        """Each thread combines its stride in order, then the block its threads as a tree."""
        scalar, thread = dialect.scalar(self.result), dialect.thread
        identity = dialect.infinity.get(self.identity, self.identity)
        combine = self.combine_into("r_", "v_").replace(self.result_type, scalar)
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
        for element in self.types.values():
            self.read_files += [one for one in element.read_files if one not in self.read_files]
        self.include_lines = unique([include_line(one) for one in check.includes()]
                                    + [element.include_line for element in sorted(used, key=lambda one: one.include_line)])
        found = [helper for function in self.functions.values() for helper in (*function.helpers, function)]
        found += [helper for kernel in self.kernels for helper in kernel.helpers]
        self.helpers = list({helper.called: helper for helper in found}.values())
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
        if text.form in ("map", "reduction") and "n" not in text.parameters and "n" not in text.locals:
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
                if parameter.is_array:
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
        if is_exact(name) or name in REFUSED or name in SHARED_FUNCTIONS or name == "near":
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
        self.keys(entry, where, KERNEL_KEYS, ("name", "parameters", "each"))
        name = self.plain_name(entry, where, "the kernel's name")
        forms = [key for key in (*REDUCTIONS, "stencil") if key in entry]
        if len(forms) > 1:
            self.fail(where + forms[1], f"stands beside '{forms[0]}'; expected one of sum, min, max and stencil, or none for a map")
        form = "map" if not forms else "stencil" if forms[0] == "stencil" else "reduction"
        kernel = Kernel(owner, name, self.parameters(entry, where, owner, form), form,
                        self.code("each", entry, where, "what is done for each element"))
        self.form(kernel, entry, where, forms)
        kernel.where = where + "each"
        kernel.text = self.checked(kernel.where, kernel.each, form, kernel.parameters, owner)
        kernel.exact = not self.is_fast(entry, where)
        kernel.options = self.options(entry, where)
        self.check_names(kernel)
        self.check_structs(kernel, where)
        if "comment" in entry:
            kernel.comment = self.text("comment", "a line of text for the generated header", entry, where)
            if "*/" in kernel.comment or "/*" in kernel.comment or "??/" in kernel.comment or not kernel.comment.isprintable():
                self.fail(where + "comment", "holds '*/', '/*', '??/' or a control character; expected one line of a comment")
        return kernel

    def checked(self, key, text, form, parameters, owner):
        """The text, checked by the rules for its form."""
        try:
            check_words(text, (token.text for token in tokens(text)))
            found = Text(text, form, parameters, owner.known_names(), owner.type_names).check()
        except CodeError as error:
            self.fail(key, str(error))
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
            kernel.reduction = key
            kernel.result = self.element(where + key, self.text(key, "the type of the result", entry, where), kernel.owner)
            shape = kernel.result.kind, kernel.result.bits
            if shape not in LIMITS:
                self.fail(where + key, f"is '{entry[key]}'; expected a type of C that is added and compared, such as 'double' or 'int64_t'")
            kernel.identity = {"sum": "0", "min": LIMITS[shape][1], "max": LIMITS[shape][0]}[key]
            if written:
                self.fail(where + "parameters", f"has the array '{written[0].name}' to be written; expected arrays that a reduction reads")
            if ";" in kernel.each:
                self.fail(where + "each", f"holds ';'; expected one expression without it, whose values '{key}' combines")
        elif not written:
            self.fail(where + "parameters", "has no array to be written; expected 'update TYPE NAME' or 'overwrite TYPE NAME', "
                      "or one of the keys sum, min, max")
        elif not kernel.each.rstrip().endswith((";", "}")):
            self.fail(where + "each", "does not end with ';'; expected statements such as 'z[i] = x[i] + y[i];'")
        if not kernel.arrays:
            self.fail(where + "parameters", "has no array; expected at least one")
        if kernel.form == "stencil":
            kernel.radius = self.integer("stencil", 1, RADIUS_LIMIT, entry, where)
            self.check_steps(kernel, where)

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
        names = {parameter.name for parameter in kernel.arrays if parameter.is_read}
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
            if parameter.name in (*INDICES[form], *LAUNCH_NAMES[form]):
                self.fail(f"{where}parameters[{index}]", f"is called '{parameter.name}', which the generated code uses; expected another name")
            if any(parameter.name == other.name for other in found):
                self.fail(f"{where}parameters[{index}]", f"'{parameter.name}' is listed twice")
            found.append(parameter)
        return found

    def parameter(self, text, where, owner):
        what = "'TYPE NAME' for a value, or 'read', 'update' or 'overwrite' before it for an array"
        words = text.split() if type(text) is str else []
        if len(words) < 2:
            self.fail(where, f"is {text!r}; expected {what}")
        access = words.pop(0) if words[0] in ACCESSES else ""
        name, c_type = words[-1], " ".join(words[:-1])
        self.check_free_name(where, name, owner)
        if c_type not in owner.types and not access and nearest(words[0], ACCESSES) and " ".join(words[1:-1]) in owner.types:
            self.fail(where, f"is '{text}'; {nearest(words[0], ACCESSES)}expected {what}")
        return Parameter(name, self.element(where, c_type, owner), access)

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
            if name in ("i", "n") or is_exact(name) or name in REFUSED or name in SHARED_FUNCTIONS:
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
