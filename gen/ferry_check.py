# SPDX-License-Identifier: MIT
"""The keys of a file of kernels, checked."""

import json
import os
import re

from ferry_c import TYPE_WORDS, CodeError, called_names, parse_expression, tokens, with_names
from ferry_calls import Function, is_wrapped
from ferry_dialect import LIMITS
from ferry_box import EDGES
from ferry_kernel import LANGUAGES, Kernel
from ferry_names import (ARITY, CONSTANTS, DEVICE_WORDS, HOST_CONSTANTS, HOST_MACROS, INSTEAD_OF_FUNCTIONS, OPENCL_MACRO, REFUSED, SHARED_FUNCTIONS,
                         SHARED_NAMES, VECTOR_TYPE)
from ferry_parameter import ACCESSES, Parameter, Reduced
from ferry_rules import BUILT_IN, DIMENSIONS, Text, check_words, indices
from ferry_types import BUILTIN_DIR, RESERVED, Checker, builtin_names, load, nearest

FUNCTION_KEYS = ("name", "returns", "parameters", "body", "inexact")
KERNEL_KEYS = ("name", "parameters", "each", "sum", "min", "max", "results", "stencil", "edges", "dimensions", "count", "fast", "inexact", "options", "comment")
RESULT_KEYS = ("name", "value", "sum", "min", "max")
WORDS = ("whole", "one")  # between the access and the type
REDUCTIONS = ("sum", "min", "max")
RADIUS_LIMIT = 16
# Parameters of the typed launches, beside those of the kernel.
LAUNCH_NAMES = {"map": ("kernels", "stream"), "stencil": ("kernels", "stream"), "reduction": ("kernels", "stream", "out"), "fused": ("kernels", "stream", "out"), "function": ()}


def launch_sizes(dimensions):
    """The parameters of a launch over several dimensions."""
    return (*dimensions, "box") if dimensions else ()


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

    def typedefs(self, owner, chosen):
        """The element of each typedef of the file. `chosen` are those of the command line, which replace the file's."""
        given = self.value("typedefs", dict, "an object of names and types") if "typedefs" in self.data else {}
        for name in chosen:
            if name not in given:
                self.fail("typedefs", f"has no '{name}', which '--typedef {name}={chosen[name]}' names; {nearest(name, given)}expected one of its names")
        found = {}
        for name, c_type in given.items():
            where = f"typedefs.{name}"
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                self.fail(where, f"is called '{name}'; expected a C identifier that begins with a letter")
            self.check_free_name(where, name, owner)
            self.check_unused_name(where, name)
            c_type = chosen.get(name, c_type)
            if type(c_type) is not str:
                self.fail(where, f"is {c_type!r}; expected the name of a type, such as 'double'")
            found[name] = self.element(where, c_type, owner)
        return found

    def check_unused_name(self, where, name):
        """Refuses a name that has a meaning in every text."""
        if name in ("i", "n", *BUILT_IN) or is_wrapped(name) or name in REFUSED or name in SHARED_FUNCTIONS:
            self.fail(where, f"is called '{name}', which has a meaning in every text; expected another name")

    def enumerators(self, owner):
        """The value of each enumerator of the headers of `types`, as it stands in the texts."""
        found = {}
        for element in dict.fromkeys(owner.types.values()):
            for name, value in element.enumerators.items():
                if found.setdefault(name, f"({value})") != f"({value})":
                    self.fail("types", f"{element.source} has the enumerator '{name}' with another value than an earlier file; expected one value")
        return found

    def functions(self, owner):
        self.function_elements = []
        if "functions" not in self.data:
            return
        entries = self.objects("functions", "functions")
        names = [entry.get("name") for entry in entries]
        for index, entry in enumerate(entries):
            where = f"functions[{index}]."
            self.keys(entry, where, FUNCTION_KEYS, FUNCTION_KEYS[:4])
            name = self.function_name(entry, where, owner)
            parameters = self.parameters(entry, where, owner, "function")
            for at, parameter in enumerate(parameters):
                if parameter.is_buffer and (not parameter.whole or parameter.access == "overwrite"):
                    typed = f"{parameter.element.c_type} {parameter.name}"
                    self.fail(f"{where}parameters[{at}]", f"is '{entry['parameters'][at]}'; expected 'read whole {typed}' or 'update whole {typed}' for an "
                              f"array, or '{typed}' for a value")
            result = self.element(where + "returns", self.text("returns", "the type of the result", entry, where), owner)
            is_inexact = self.option("inexact", entry, where)
            body = self.code("body", entry, where, "the statements of the function", is_inexact)
            if not body.rstrip().endswith((";", "}")):
                self.fail(where + "body", "does not end with ';'; expected statements such as 'return x * x;'")
            text = self.checked(where + "body", body, "function", parameters, owner, is_inexact)
            for called in called_names(body):
                if called in names[index:] and called not in text.locals:
                    self.fail(where + "body", f"calls '{called}', which is not listed above; expected calls of earlier functions")
            self.function_elements += [result, *(parameter.element for parameter in parameters)]
            if not any(token.text == "return" for token in tokens(body)):
                self.fail(where + "body", "holds no 'return'; expected one, with the value of the function")
            owner.functions[name] = Function(owner, name, result, parameters, text, is_inexact)
            owner.functions[name].where = where + "body"

    def function_name(self, entry, where, owner):
        name = self.plain_name(entry, where, "the function's name")
        if name in RESERVED:
            self.fail(where + "name", f"'{name}' is a reserved word of C or C++; expected another name")
        if is_wrapped(name) or name in REFUSED or name in SHARED_FUNCTIONS or name in ("near", "count") or name.startswith("atomic_"):
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
        is_inexact = self.option("inexact", entry, where)
        dimensions = self.dimensions(entry, where, form)
        kernel = Kernel(owner, name, self.parameters(entry, where, owner, form, dimensions), form, dimensions,
                        self.code("each", entry, where, "what is done for each element", is_inexact) if "each" in entry else "")
        if form == "fused":
            self.results(kernel, entry, where, is_inexact)
        kernel.has_count = self.has_count(entry, where, form)
        self.form(kernel, entry, where, forms)
        kernel.where = where + "each"
        kernel.text = self.checked(kernel.where, kernel.each, form, kernel.parameters, owner, is_inexact, kernel.results, dimensions)
        kernel.exact = not self.option("fast", entry, where)  # without fused operations a map gives the host's bits
        kernel.options = self.options(entry, where)
        self.check_names(kernel)
        self.check_structs(kernel, where)
        if "comment" in entry:
            kernel.comment = self.text("comment", "a line of text for the generated header", entry, where)
            if "*/" in kernel.comment or "/*" in kernel.comment or "??/" in kernel.comment or not kernel.comment.isprintable():
                self.fail(where + "comment", "holds '*/', '/*', '??/' or a control character; expected one line of a comment")
        return kernel

    def results(self, kernel, entry, where, is_inexact):
        """The reductions beside a map."""
        entries = self.objects("results", "results", entry, where)
        if not entries:
            self.fail(where + "results", "is empty; expected at least one result")
        for index, one in enumerate(entries):
            at = f"{where}results[{index}]."
            self.keys(one, at, RESULT_KEYS, ("name", "value"))
            name = self.text("name", "the result's name", one, at)
            self.check_free_name(at + "name", name, kernel.owner)
            taken = [*(other.name for other in kernel.parameters), *(other.name for other in kernel.results), *indices("fused", kernel.dimensions), *LAUNCH_NAMES["fused"], *launch_sizes(kernel.dimensions),
                     "count", *kernel.owner.known_names()]
            if name in taken:
                self.fail(at + "name", f"is '{name}', a name of a parameter, of another result or of the file; expected another one")
            keys = [key for key in REDUCTIONS if key in one]
            if len(keys) != 1:
                self.fail(at + (keys[1] if keys else "sum"), "is " + (f"beside '{keys[0]}'" if keys else "missing")
                          + "; expected one of sum, min and max, with the type of the result")
            value = self.code("value", one, at, "the value of each element", is_inexact)
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

    def checked(self, key, text, form, parameters, owner, is_inexact, results=(), dimensions=()):
        """The text, checked by the rules for its form."""
        try:
            check_words(text, (token.text for token in tokens(text)))
            found = Text(text, form, parameters, owner.known_names(), owner.type_names, owner.functions, dimensions)
            found.results = {one.variable: f"({one.c_type})({one.value})" for one in results}
            found.check()
        except CodeError as error:
            at = [one.variable for one in results].index(error.variable) if error.variable else 0
            self.fail(key.removesuffix("each") + f"results[{at}].value" if error.variable else key, str(error))
        for name in found.locals:
            self.check_free_name(key, name, owner)
        for name in found.called & owner.functions.keys():
            if owner.functions[name].is_inexact and not is_inexact:
                self.fail(key, f"calls '{name}', a function that is \"inexact\"; expected '\"inexact\": true' here too")
        return found

    def check_names(self, kernel):
        """Refuses names that the text, or a function that it calls, takes from nowhere, or from a header of the host alone."""
        for key, text, name, what in unknown_names(kernel, "cuda"):
            if name in INSTEAD_OF_FUNCTIONS:
                self.fail(key, f"calls '{name}', a function of devices alone; expected {INSTEAD_OF_FUNCTIONS[name]}, or the option '-D{name}=...' for "
                          "devices")
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
        if not kernel.counting and not kernel.has_count and not kernel.dimensions:
            self.fail(where + "parameters", "has no array that gives the count; expected one without 'whole' and 'one', or '\"count\": true' for a "
                      "launch that takes it")
        if kernel.form == "stencil":
            kernel.radius = self.integer("stencil", 1, RADIUS_LIMIT, entry, where)
            if not kernel.dimensions:
                self.fail(where + "stencil", """stands without 'dimensions'; expected '"dimensions": ["rows", "columns"]' or ["planes", "rows", "columns"] beside it""")
            kernel.edges = self.edges(entry, where)
            self.check_steps(kernel, where)

    def dimensions(self, entry, where, form):
        """The names of the sizes of a kernel of several dimensions; none of others."""
        if form != "stencil" and "edges" in entry:
            self.fail(where + "edges", "stands without 'stencil'; expected both, or neither")
        if "dimensions" not in entry:
            return ()
        what = " or ".join(str(list(names)).replace("'", '"') for names in DIMENSIONS)
        found = tuple(self.value("dimensions", list, what, entry, where))
        if found not in DIMENSIONS:
            self.fail(where + "dimensions", f"is {json.dumps(entry['dimensions'])}; expected {what}")
        return found

    def edges(self, entry, where):
        """What a stencil reads beyond the array."""
        found = self.text("edges", f"one of {', '.join(EDGES)}", entry, where) if "edges" in entry else "nearest"
        if found not in EDGES:
            self.fail(where + "edges", f"is '{found}'; {nearest(found, EDGES)}expected one of {', '.join(EDGES)}")
        return found

    def has_count(self, entry, where, form):
        """Whether the launch has an argument of how many elements there are."""
        found = self.option("count", entry, where)
        if found and "dimensions" in entry:
            self.fail(where + "count", "stands beside 'dimensions', whose sizes the launch takes; expected one of the two")
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
            if (len(numbers) != len(kernel.dimensions) or not all(re.fullmatch(r"[+-]?\d+", number) for number in numbers)
                    or any(abs(int(number)) > kernel.radius for number in numbers)):
                self.fail(where + "each", f"holds '{token.text}({steps})'; expected {len(kernel.dimensions)} whole numbers from -{kernel.radius} to "
                          f"{kernel.radius}, the steps to a neighbour in {', '.join(kernel.dimensions)}")
            kernel.lines.setdefault(token.text, {})[tuple(int(number) for number in numbers[:-1])] = True

    def parameters(self, entry, where, owner, form, dimensions=()):
        texts = self.value("parameters", list, "a list of parameters", entry, where)
        found = []
        for index, text in enumerate(texts):
            parameter = self.parameter(text, f"{where}parameters[{index}]", owner)
            if parameter.name in owner.functions and form != "function" or parameter.name in owner.constants:
                self.fail(f"{where}parameters[{index}]", f"is called '{parameter.name}', one of 'functions' or 'constants'; expected another name")
            if parameter.name in (*indices(form, dimensions), *LAUNCH_NAMES[form], *launch_sizes(dimensions), *(("count",) if entry.get("count") is True else ())):
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
        if "*" in text:
            self.fail(where, f"is '{text}'; expected an array without '*', such as '{'read' if words[0] == 'const' else 'update'} TYPE {name.lstrip('*')}'")
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
        """The value of each constant and enumerator, as it stands in the texts."""
        found = enumerators = self.enumerators(owner)
        enumerators = dict(enumerators)
        for name, value in self.value("constants", dict, "an object of names and values").items() if "constants" in self.data else ():
            where = f"constants.{name}"
            if not re.fullmatch(r"[A-Za-z]\w*", name):
                self.fail(where, f"is called '{name}'; expected a C identifier that begins with a letter")
            self.check_free_name(where, name, owner)
            self.check_unused_name(where, name)
            if name in enumerators:
                self.fail(where, f"is called '{name}', an enumerator of a file of 'types'; expected another name, or none")
            found[name] = self.constant(where, value, found, owner)
        return found

    def constant(self, where, value, known, owner):
        what = "a number, or a constant expression of C such as '100.0f' or '4 * SIDE', of numbers and earlier constants"
        if type(value) not in (int, float, str):
            self.fail(where, f"is {value!r}; expected {what}")
        text = value if type(value) is str else repr(value)
        try:
            parse_expression(text, owner.typedefs)
            words = {token.text for token in tokens(text) if token.kind == "word"}
        except CodeError as error:
            self.fail(where, f"{error}; expected {what}")
        unknown = sorted(words - known.keys() - HOST_CONSTANTS.keys() - set(TYPE_WORDS) - {"sizeof"} - owner.typedefs.keys())
        if unknown or called_names(text):
            self.fail(where, f"uses '{(unknown or called_names(text))[0]}'; expected {what}")
        return f"({with_names(text, {**HOST_CONSTANTS, **known, **owner.names_of_types(lambda one: one.c_type)}, {})})"

    def element(self, where, name, owner):
        if name not in owner.types:
            self.fail(where, f"is of type '{name}'; {nearest(name, owner.types)}expected a built-in type, a scalar of C, or one of 'types'")
        return owner.types[name]

    def code(self, key, entry, where, what, is_inexact):
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
            may = is_wrapped(name) and name in REFUSED  # with "inexact"
            if name in REFUSED and not (may and is_inexact):
                self.fail(where + key, f"calls {name}(), which is not within 2 ulp on every device; expected other functions"
                          + (""", or '"inexact": true'""" if may else ""))
        return text.strip("\n")

    def option(self, key, entry, where):
        """The value of a key that is true or false."""
        return self.value(key, bool, "true or false", entry, where) if key in entry else False

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


def unknown_names(kernel, language):
    """(key, text, name, what a message says of it) for each name that neither the file nor an option of the language defines."""
    options = kernel.options[language]
    defined = {match.group(1) for match in (re.match(r"(?:-D|--define-macro=)(\w+)", option) for option in options) if match}
    if any(re.match(r"-include|--pre-include", option) for option in options):
        return  # of a header that the device has too
    functions = [helper for helper in kernel.owner.helpers_of(kernel.text) if helper.is_written]
    for key, text in [*((function.where, function.text) for function in functions), (kernel.where, kernel.text)]:
        for name, what in text.unknown.items():
            if name not in defined and not (name in text.called and (is_wrapped(name) or name in REFUSED)):
                yield key, text, name, what
