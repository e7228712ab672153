# SPDX-License-Identifier: MIT
"""What the text of a kernel or of a function may hold, so that it means the same on the host and on every device."""

from ferry_c import CodeError, parse_expression, parse_statements, with_changes
from ferry_names import CONSTANTS, INSTEAD_OF_WORDS, NOT_CPP, SHARED_FUNCTIONS, SHARED_NAMES

DIMENSIONS = (("rows", "columns"), ("planes", "rows", "columns"))


def indices(form, dimensions):
    """The names of indices and sizes that a text has."""
    if form == "function":
        return ()
    return ("i", *(name[:-1] for name in dimensions), *dimensions)

# What texts call, beside functions of C. The generated code replaces these calls.
BUILT_IN = ("count", "atomic_add", "atomic_min", "atomic_max")
ATOMIC_SHAPES = (("int", 32), ("uint", 32), ("int", 64), ("uint", 64), ("float", 32), ("float", 64))


class Text:
    """One checked text. `unknown` are names that nothing in the file defines, each with what a message says of it; `locals` are the
    names that it declares; `counted` are the whole arrays whose length it uses."""

    def __init__(self, text, form, parameters, known, types, functions, dimensions=()):
        self.text = text
        self.form = form
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self.known = known  # names of functions and constants of the file, and of C functions
        self.counted, self.locals, self.unknown, self.called = set(), {}, {}, set()
        self.has_return = False  # whether a return may end the element
        self.atomics = {}  # (operation, element) by the names by which the changed text calls them
        self.writes = set()  # whole arrays that it writes by itself, or whose atomic operations are of floating point
        self.changes = []  # (begin, end, what the generated code has there instead)
        self.checks = []  # the same beside `changes` for host functions that check the indices of whole arrays
        self.checked = ""  # the text with these
        self.types = types
        self.functions = functions  # of the file, by their names
        self.dimensions = dimensions
        self.indices = indices(form, dimensions)
        self.results = {}  # the expressions that follow the statements, by the variables that take their values

    def check(self):
        """Raises CodeError."""
        self.text += "".join(f"{separator}{variable} = {value};" for separator, (variable, value)
                             in zip(["\n" if self.text else ""] + ["\n"] * len(self.results), self.results.items()))
        parser = self.parse()
        self.has_pointers = parser.has_pointers
        for name in parser.unknown_types:
            self.unknown[name] = (f"names the type '{name}', which is no scalar of C, no built-in type and none of 'types', and types of C headers "
                                  "exist on the host alone")
        walk = Walk(self)
        walk.scopes.append(set(self.results))
        statements = self.root.parts[:len(self.root.parts) - len(self.results)] if self.results else [self.root]
        for part in statements:
            walk.visit(part)
        for part, variable in zip(self.root.parts[len(statements):], self.results):
            try:
                walk.visit(part)
            except CodeError as error:
                error.variable = variable
                raise
        for name, parameter in self.parameters.items():
            if parameter.access == "overwrite" and self.form != "function" and name not in walk.written:
                if parameter.whole and name in walk.touched:
                    continue  # which elements it writes depends on the data
                where = "on every path" if name in walk.touched else "anywhere"
                raise CodeError(f"does not write '{name}[i]' {where}; expected '{name}[i] = ...' for every element of an 'overwrite' array, or "
                                "'update' in its place")
        self.checked = with_changes(self.text, self.changes + self.checks)
        if self.changes:
            self.text = with_changes(self.text, self.changes)
            self.parse()
        return self

    def parse(self):
        parse = parse_expression if self.form == "reduction" else parse_statements
        self.root, parser = parse(self.text, self.types)
        return parser


class Walk:
    """Visits the nodes in the order of their evaluation."""

    def __init__(self, text):
        self.text = text
        self.scopes = [set()]
        self.written = set()  # overwritten arrays whose element is written on every path to here
        self.touched = set()  # or on one
        self.statements = []  # expressions that are statements
        self.loops = self.switches = 0

    def source(self, node):
        return " ".join(self.text.text[node.begin:node.end].split())

    def is_local(self, name):
        return any(name in scope for scope in self.scopes)

    def parameter(self, node):
        """The parameter that a node names; None for other nodes."""
        if node.kind != "name" or self.is_local(node.token.text):
            return None
        return self.text.parameters.get(node.token.text)

    def visit(self, node):
        getattr(self, "visit_" + node.kind, self.visit_parts)(node)

    def visit_parts(self, node):
        for part in node.parts:
            self.visit(part)

    # -- statements --

    def visit_block(self, node):
        self.scopes.append(set())
        self.visit_parts(node)
        self.scopes.pop()

    def visit_declare(self, node):
        for part in node.parts:
            self.visit_declared(part)

    def visit_declared(self, node):
        self.visit_parts(node)
        name = node.token.text
        if name in self.text.parameters and self.text.form != "function" or name in self.text.indices or name in self.text.known:
            raise CodeError(f"declares '{name}', which already has a meaning here; expected another name for the variable")
        self.scopes[-1].add(name)
        self.text.locals[name] = node

    def branches(self, first, second):
        """Visits two nodes of which one is evaluated; None is an empty one."""
        before = set(self.written)
        if first:
            self.visit(first)
        after, self.written = self.written, before
        if second:
            self.visit(second)
        self.written &= after

    def visit_expression(self, node):
        self.statements += node.parts
        self.visit_parts(node)

    def visit_if(self, node):
        self.visit(node.parts[0])
        self.branches(node.parts[1], node.parts[2] if len(node.parts) > 2 else None)

    def visit_loop(self, node):
        """The body counts as run: whether a loop has no rounds is not for this check to find."""
        self.scopes.append(set())
        self.loops += 1
        self.visit_parts(node)
        self.loops -= 1
        self.scopes.pop()

    def visit_switch(self, node):
        self.visit(node.parts[0])
        self.switches += 1
        self.visit(node.parts[1])
        self.switches -= 1

    def visit_jump(self, node):
        self.visit_parts(node)
        word = node.token.text
        if self.text.form == "function" and word in ("return", "goto"):
            return
        if self.text.form == "map" and word == "return":
            self.end_element(node)
            return
        if word in ("return", "goto") or not (self.loops or word == "break" and self.switches):
            raise CodeError(f"holds '{word}', which leaves the text: it would end the loop over the elements on the host, and one thread on a "
                            "device; expected conditions, such as 'if (...) { ... }'")

    def end_element(self, node):
        """A return, which ends the element. What follows is for other elements."""
        if node.parts:
            raise CodeError(f"holds '{self.source(node)}'; expected 'return;', because an element has no value")
        arrays = [name for name, parameter in self.text.parameters.items() if parameter.access == "overwrite" and not parameter.whole]
        for name in arrays:
            if name not in self.written:
                raise CodeError(f"does not write '{name}[i]' before 'return'; expected '{name}[i] = ...' for every element of an 'overwrite' array, or "
                                "'update' in its place")
        self.written |= set(arrays)
        self.text.has_return = True

    # -- expressions --

    def visit_name(self, node):
        name = node.token.text
        parameter = self.parameter(node)
        if self.is_local(name) or name in self.text.indices or name in SHARED_NAMES or name in CONSTANTS or name in self.text.known:
            return
        if name == "n" and self.text.form != "function" and not self.text.dimensions and parameter is None:
            return
        if parameter is None:
            self.text.unknown.setdefault(name, (
                f"uses '{name}', which neither 'constants' nor anything else in this file defines, and macros and enumerators of C headers exist on the "
                "host alone"))
        elif parameter.is_array:
            self.array(parameter)

    def array(self, parameter):
        """Checks an array that is used without an index."""
        if parameter.whole and parameter.is_read:
            return
        if parameter.whole:
            raise CodeError(f"uses '{parameter.name}' without an index; expected an element of it, such as '{parameter.name}[i]', because the "
                            "array is written")
        if self.text.form == "stencil" and parameter.is_read:
            raise CodeError(f"uses '{parameter.name}' without steps; expected '{parameter.name}({self.steps()})', a neighbour of the cell")
        raise CodeError(f"uses '{parameter.name}' without '[i]'; {self.alone(parameter)}")

    def steps(self):
        return ", ".join(name.upper() for name in self.text.dimensions)

    @staticmethod
    def alone(parameter):
        return (f"expected '{parameter.name}[i]' alone, or '{parameter.access} whole {parameter.element.c_type} {parameter.name}' for an array "
                "that is indexed freely")

    def element(self, node):
        """The array of which `node` is an element; None for other nodes. Checks its index, and visits it."""
        parameter = self.parameter(node.parts[0]) if node.kind == "index" else None
        if parameter is None or not parameter.is_array:
            return None
        index = node.parts[1]
        self.visit(index)
        if parameter.whole:
            self.check_index(parameter, node)
            return parameter
        if self.text.form == "stencil" and parameter.is_read:
            raise CodeError(f"holds '{parameter.name}['; expected '{parameter.name}({self.steps()})', a neighbour of the cell")
        if index.kind == "name" and index.token.text == "i":
            if self.text.dimensions:
                self.text.changes.append((index.begin, index.end, "at_"))  # the part of the array that is passed begins at the box
            return parameter
        raise CodeError(f"uses '{self.source(node)}'; {self.alone(parameter)}")

    def check_index(self, parameter, node):
        """Has a checked host function find the element of a whole array that `node` is by a call."""
        index = node.parts[1]
        found = f"(*({'const ' if parameter.is_read else ''}{parameter.element.c_type} *)ferry_call_element(call_, {self.argument(parameter)}, (int64_t)("
        self.text.checks += [(node.begin, index.begin, found), (index.end, node.end, ")))")]

    def argument(self, parameter):
        """The number of an array among the arguments of the launch, in a checked host function."""
        return parameter.argument_name if self.text.form == "function" else list(self.text.parameters).index(parameter.name)

    def read(self, parameter):
        if parameter.access == "overwrite" and parameter.name not in self.written:
            at = "" if parameter.whole else "[i]"
            raise CodeError(f"reads '{parameter.name}{at}' before it is written, and an 'overwrite' array has no values before; expected "
                            f"'{parameter.name}[i] = ...' first, or 'update' in its place")

    def visit_index(self, node):
        parameter = self.element(node)
        if parameter:
            self.read(parameter)
        else:
            self.visit_parts(node)

    def visit_sizeof(self, node):
        """Nothing is evaluated, so a call there has no arrays, of which the generated code would pass more than their names."""
        for part in node.parts:
            called = part.parts[0].token.text if part.kind == "call" and part.parts[0].kind == "name" else ""
            function = self.text.functions.get(called)
            if function and any(taken.is_array for taken in function.parameters):
                raise CodeError(f"holds '{self.source(node)}'; expected the type that '{called}' returns in its place")
            self.visit_sizeof(part)

    def visit_conditional(self, node):
        self.visit(node.parts[0])
        self.branches(node.parts[1], node.parts[2])

    def visit_binary(self, node):
        if node.token.text not in ("&&", "||"):
            self.visit_parts(node)
            return
        self.visit(node.parts[0])
        self.branches(node.parts[1], None)

    def visit_assign(self, node):
        target, value = node.parts
        self.visit(value)
        self.change(target, node.token.text != "=")

    def visit_unary(self, node):
        if node.token.text in ("++", "--"):
            self.change(node.parts[0], True)
        elif node.token.text == "&":
            self.address(node.parts[0])
        else:
            self.visit_parts(node)

    def visit_postfix(self, node):
        self.change(node.parts[0], True)

    def root(self, node):
        """The innermost object of an lvalue: a name, or an element of an array. Visits the indices on the way."""
        while node.kind in ("member", "index"):
            if node.kind == "index":
                if self.parameter(node.parts[0]) and self.parameter(node.parts[0]).is_array:
                    return node
                self.visit(node.parts[1])
            node = node.parts[0]
        return node

    def change(self, target, is_read):
        root = self.root(target)
        parameter = self.element(root)
        if parameter:
            if is_read:
                self.read(parameter)
            if parameter.is_read:
                raise CodeError(f"writes '{self.source(target)}', but '{parameter.name}' is a 'read' array; expected 'update' or 'overwrite'")
            self.written.add(parameter.name)
            self.touched.add(parameter.name)
            if parameter.whole:
                self.text.writes.add(parameter.name)
            return
        self.visit(root)
        name = root.token.text if root.kind == "name" else ""
        if name and not self.is_local(name) and self.text.form != "function":
            raise CodeError(f"changes '{name}', which is the same for all elements or the index; expected a variable of the text's own")

    def address(self, target):
        root = self.root(target)
        parameter = self.element(root)
        if parameter and not (parameter.whole and parameter.is_read):
            raise CodeError(f"takes the address of '{self.source(target)}'; expected the element itself, or the address of a variable of the "
                            "text's own, or of an element of a 'read whole' array")
        if not parameter:
            self.visit(root)

    def visit_call(self, node):
        called, *arguments = node.parts
        parameter = self.parameter(called)
        if called.kind == "name" and called.token.text in BUILT_IN and not parameter and not self.is_local(called.token.text):
            if called.token.text == "count":
                self.count(node, arguments)
            else:
                self.atomic(node, called, arguments)
            return
        function = self.text.functions.get(called.token.text) if called.kind == "name" and not self.is_local(called.token.text) else None
        if function and any(one.is_array for one in function.parameters):
            self.call_with_arrays(function, node, arguments)
        elif not (parameter and parameter.is_array):
            for argument in arguments:
                self.visit(argument)
        if called.kind != "name":
            self.visit(called)
        elif parameter:
            self.neighbour(parameter, node)
        elif not self.is_local(called.token.text):
            self.function(called.token.text)

    def call_with_arrays(self, function, node, arguments):
        """A call of a function of the file that takes arrays, which get the names of whole arrays."""
        if len(arguments) != len(function.parameters):
            raise CodeError(f"holds '{self.source(node)}'; expected {len(function.parameters)} arguments, as 'functions' says")
        self.text.checks.append((arguments[0].outer_begin, arguments[0].outer_begin, "call_, "))
        for argument, taken in zip(arguments, function.parameters):
            if taken.is_array:
                self.pass_array(function, taken, node, argument)
            else:
                self.visit(argument)

    def pass_array(self, function, taken, node, argument):
        array = self.parameter(argument)
        expected = f"expected the name of an array that is '{taken.access} whole {taken.element.c_type}'"
        if array is None or not array.whole or array.element is not taken.element or taken.access == "update" and array.access != "update":
            raise CodeError(f"holds '{self.source(node)}' with '{self.source(argument)}' for the array '{taken.name}'; {expected}")
        self.read(array)
        if taken.name in function.text.writes:
            self.text.writes.add(array.name)
        if taken.name in function.text.counted:
            self.text.counted.add(array.name)
            self.text.changes.append((argument.outer_end, argument.outer_end, f", {array.count_name}"))
        self.text.checks.append((argument.outer_end, argument.outer_end, f", {self.argument(array)}"))

    def count(self, node, arguments):
        """count(NAME), the length of a whole array."""
        array = self.parameter(arguments[0]) if len(arguments) == 1 else None
        if array is None or not array.whole:
            raise CodeError(f"holds '{self.source(node)}'; expected 'count(NAME)' of an array that is 'whole'; that of all others is 'n'")
        self.text.counted.add(array.name)
        self.text.changes.append((node.begin, node.end, array.count_name))

    def atomic(self, node, called, arguments):
        """atomic_add(NAME[k], v) and its like, on an element of a whole array that is updated."""
        name = called.token.text
        element = arguments[0] if len(arguments) == 2 else None
        array = self.parameter(element.parts[0]) if element is not None and element.kind == "index" else None
        if array is None or not array.whole or array.access != "update":
            raise CodeError(f"holds '{self.source(node)}'; expected '{name}(NAME[k], v)' on an array that is 'update whole'")
        shape = array.element.kind, array.element.bits
        if shape not in ATOMIC_SHAPES:
            raise CodeError(f"holds '{self.source(node)}', and '{array.name}' is of '{array.element.c_type}'; expected int, uint32, int64, uint64, float or "
                            "double")
        if not self.is_statement(node):
            raise CodeError(f"uses '{self.source(node)}' as a value; expected it as a statement alone, because which value was there before is "
                            "different in each run")
        self.visit(element.parts[1])
        self.visit(arguments[1])
        self.check_index(array, element)
        if array.element.kind == "float":
            self.text.writes.add(array.name)
        own = f"{name}_{array.element.kind}{array.element.bits}"
        self.text.atomics[own] = (name.removeprefix("atomic_"), array.element)
        self.text.changes += [(called.begin, called.end, own), (element.begin, element.begin, "&")]

    def is_statement(self, node):
        return node in self.statements

    def neighbour(self, parameter, node):
        if not parameter.is_array or parameter.whole or self.text.form != "stencil":
            raise CodeError(f"calls '{parameter.name}', a parameter; expected a function")
        if not parameter.is_read:
            raise CodeError(f"calls '{parameter.name}', which the stencil writes; expected '{parameter.name}[i]' for the cell, and neighbours of "
                            "arrays that are 'read'")

    def function(self, name):
        self.text.called.add(name)
        if name not in self.text.known and name not in SHARED_FUNCTIONS:
            self.text.unknown.setdefault(name, (
                f"calls '{name}', which is none of 'functions' and no function of C that devices have, and functions and macros of C headers exist on the "
                "host alone"))


def check_words(text, words):
    """Refuses words of C that C++ has not, and words of devices alone, which may be members of a struct."""
    before = ""
    for word in words:
        if word in INSTEAD_OF_WORDS and before not in (".", "->"):
            raise CodeError(f"holds '{word}', a word of devices alone; expected {INSTEAD_OF_WORDS[word]}")
        if word in NOT_CPP:
            raise CodeError(f"holds '{word}', a word of C that C++ has not; expected what is both C and CUDA C++")
        before = word
