# SPDX-License-Identifier: MIT
"""OpenCL C: how a checked text of C is written in it, what it has instead of C's functions, and what it cannot express."""

import re

from ferry_c import CodeError, tokens, with_names
from ferry_names import CALLED, CONSTANTS

# Functions that OpenCL C computes exactly for float. The others go by way of double.
EXACT = frozenset("fabs floor ceil trunc round rint fmod fmin fmax copysign fdim fma".split())
# Functions of C that OpenCL C has under another name, or with another result: by the name of the double form, the result,
# the parameters and the value. OpenCL C overloads one name for float and double.
SPELLED = {
    "abs": ("int", "int x", "x < 0 ? -x : x"), "labs": ("long", "long x", "x < 0 ? -x : x"), "llabs": ("long", "long x", "x < 0 ? -x : x"),
    "ldexp": ("double", "double x, int y", "ldexp(x, y)"), "scalbn": ("double", "double x, int y", "ldexp(x, y)"),
    "scalbln": ("double", "double x, long y", "ldexp(x, (int)clamp(y, -100000l, 100000l))"),
    "logb": ("double", "double x", "logb(x)"), "ilogb": ("int", "double x", "ilogb(x)"), "nearbyint": ("double", "double x", "rint(x)"),
    "remainder": ("double", "double x, double y", "remainder(x, y)"), "nextafter": ("double", "double x, double y", "nextafter(x, y)"),
    "lround": ("long", "double x", "(long)round(x)"), "llround": ("long", "double x", "(long)round(x)"),
    "lrint": ("long", "double x", "(long)rint(x)"), "llrint": ("long", "double x", "(long)rint(x)"),
}
ABSENT = frozenset(name + end for name in ("frexp", "modf", "remquo") for end in ("", "f")) | {"memcpy", "memset"}


def written(text):
    """A text or a constant with the types and the numbers of OpenCL C, whose long has 64 bits and which has no long long."""
    made, at, before = [], 0, ""
    for token in tokens(text):
        word = token.text
        if token.kind == "number" and not re.match(r"0[xX].*[pP.]", word):
            word = re.sub(r"(?i)ll", lambda found: found.group()[0], word)
        if (before, word) != ("long", "long"):
            made += [text[at:token.begin], word]
        at, before = token.end, token.text
    return "".join([*made, text[at:]])


CONSTANTS_OF_OPENCL = {name: written(value if isinstance(value, str) else value[0]) for name, value in CONSTANTS.items()}


def base_of(name):
    """(the double form of a function's name, whether the name is that of the float form)."""
    is_float = name not in CALLED and name not in SPELLED
    return (name[:-1] if is_float else name), is_float


def is_spelled(name):
    return base_of(name)[0] in SPELLED


def spelled_function(name, called):
    """A function of SPELLED as the function `called` of OpenCL C."""
    base, is_float = base_of(name)
    result, parameters, value = SPELLED[base]
    if is_float:
        result, parameters = result.replace("double", "float"), parameters.replace("double", "float")
    return f"static {result} {called}({parameters}) {{ return {value}; }}\n"


def exact_value(name, letters):
    """The value of a function of ferry_names.CALLED for the arguments `letters`."""
    base, is_float = base_of(name)
    if not is_float or base in EXACT:
        return f"{base}({', '.join(letters)})"
    return f"(float){base}({', '.join(f'(double){letter}' for letter in letters)})"


def why_not_struct(element):
    """Why OpenCL C has no declaration of a struct; "" if it has one."""
    if element.opencl_text:
        return ""
    return f"takes '{element.c_type}', a struct without a declaration in OpenCL C; expected 'opencl_declaration' in {element.source}"


def written_text(text, flags):
    """The checked Text in OpenCL C. `flags` are the names of the members of structs that are bool. Raises CodeError."""
    changes = Changes(text, flags)
    changes.visit(text.root)
    made = list(text.text)
    for at, inserted in sorted(changes.inserted, key=lambda one: one[0], reverse=True):
        made.insert(at, inserted)
    return written("".join(made))


def spelled_text(text, flags, names, calls):
    """The text with other names and calls, in OpenCL C. Raises CodeError."""
    return with_names(written_text(text, flags), names, calls)


class Changes:
    """Visits a text. Finds what OpenCL C cannot express, and where a bool must be made of a number: kernels take no bool, so
    that the elements of an array of them are bytes."""

    def __init__(self, text, flags):
        self.text = text
        self.flags = flags
        self.inserted = []  # (index in the text, what is inserted there)
        words = [token.text for token in tokens(text.text)]
        for word in ("static", "extern"):
            if word in words:
                self.fail(f"holds '{word}'", "variables that the text makes anew")
        if ("long", "double") in zip(words, words[1:]):
            self.fail("names the type 'long double'", "'double'")
        if text.has_pointers and text.form != "function":
            self.fail("declares a pointer, and in OpenCL C a pointer into an array is of another type than a pointer to a variable",
                      "elements by their indices")

    @staticmethod
    def fail(what, expected):
        raise CodeError(f"{what}; expected {expected}")

    def array(self, node):
        """The array that a node names; None for other nodes."""
        parameter = self.text.parameters.get(node.token.text) if node.kind == "name" and node.token.text not in self.text.locals else None
        return parameter if parameter and parameter.is_array else None

    def visit(self, node):
        getattr(self, "visit_" + node.kind, self.visit_parts)(node)

    def visit_parts(self, node):
        for part in node.parts:
            self.visit(part)

    def visit_name(self, node):
        if self.array(node):
            self.fail(f"uses '{node.token.text}' as a pointer", "elements by their indices")

    def visit_index(self, node):
        for part in node.parts[1:] if self.array(node.parts[0]) else node.parts:
            self.visit(part)

    def visit_call(self, node):
        called, *arguments = node.parts
        name = called.token.text if called.kind == "name" else ""
        if name in ABSENT and name not in self.text.known and not self.array(called):
            self.fail(f"calls '{name}', which OpenCL C has not", "other functions")
        if name in self.text.atomics:
            arguments = [arguments[0].parts[0].parts[1], arguments[1]]  # &NAME[k] is of the type that the function takes
        for part in arguments:
            if name not in self.text.functions or not self.array(part):
                self.visit(part)

    def visit_unary(self, node):
        root = node.parts[0]
        while root.kind in ("member", "index") and not (root.kind == "index" and self.array(root.parts[0])):
            root = root.parts[0]
        if node.token.text == "&" and root.kind == "index":
            self.fail("takes the address of an element of an array, and in OpenCL C that is of another type than the address of a variable",
                      "the element itself")
        if node.token.text in ("++", "--"):
            self.visit_postfix(node)
        else:
            self.visit_parts(node)

    def is_flag(self, node):
        """Whether an lvalue is an element of an array of bool, or a member of a struct that is one, or an element of that."""
        while node.kind == "index":
            array = self.array(node.parts[0])
            if array:
                return array.element.kind == "bool"
            node = node.parts[0]
        return node.kind == "member" and node.token.text in self.flags

    def visit_postfix(self, node):
        if self.is_flag(node.parts[0]):
            self.fail(f"holds '{node.token.text}' on a bool", "'='")
        self.visit_parts(node)

    def visit_assign(self, node):
        target, value = node.parts
        if self.is_flag(target):
            if node.token.text != "=":
                self.fail(f"holds '{node.token.text}' on a bool", "'='")
            # What is inserted last at one place stands first there.
            self.inserted += [(node.token.end, " (("), (node.end, ") != 0)")]
        self.visit(target)
        self.visit(value)
