#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Moves sources from version 1 of Ferry's names to version 2, as the tables of version-2.md say.

usage: version-2.py [--types PREFIX_NAME,...] [--table FILE]... [--check] FILE...

Rewrites each FILE in place: names, and calls with their arguments. Prints a line for each use that needs a hand: a call that the
table marks so, or one whose arguments are not those of the table. --types names element types of the program's own, such as
mylib_vec3. A --table FILE has rows like those of version-2.md, which win over them. --check changes nothing, and fails where
something is left to change.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

BUILTIN = ["float", "double", "half", "bfloat16", "int8", "int16", "int", "int64", "byte", "uint16", "uint32", "uint64", "bool",
           "complex_float", "complex_double"]
NAME = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*")
ROW = re.compile(r"^\| `([^`]*)` \| (?:`([^`]*)`|(.*?)) \| (.*?) ?\|$")


@dataclasses.dataclass
class Rule:
    name: re.Pattern
    parameters: list  # None: a name alone
    new: str          # empty: nothing takes its place
    by_hand: bool


def split_call(text):
    """A pattern's name, and its parameters where it is a call."""
    match = re.match(r"^([^(]*)\((.*)\)$", text)
    return (match.group(1), [word.strip() for word in match.group(2).split(",")]) if match else (text, None)


def read_rules(path, types):
    rules = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = ROW.match(line)
        if not row or "." in row.group(1).split("(")[0] or " " in row.group(1).split("(")[0]:
            continue
        name, parameters = split_call(row.group(1))
        pattern = re.escape(name).replace("<T>", f"(?P<T>{'|'.join(types)})").replace("<S>", f"(?P<S>{'|'.join(BUILTIN)})")
        rules.append(Rule(re.compile(f"^{pattern}$"), parameters, row.group(2) or "", "by hand" in row.group(4) or not row.group(2)))
    return rules


def end_of_literal(text, at):
    """The index after the string or character that begins at `at`."""
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def arguments_of(text, at):
    """The arguments of the call whose parenthesis opens at `at`, and the index after it; None where it does not close."""
    arguments, depth, begin = [], 0, at + 1
    while at < len(text):
        c = text[at]
        if c in "\"'":
            at = end_of_literal(text, at)
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if (c == "," and depth == 1) or depth == 0:
            arguments.append(text[begin:at].strip())
            begin = at + 1
            if depth == 0:
                return ([] if arguments == [""] else arguments), at + 1
        at += 1
    return None, at


def put(new, found, values):
    """The new text with the old call's arguments in the places of the parameters."""
    for group in ("T", "S"):
        if f"<{group}>" in new:
            new = new.replace(f"<{group}>", found.group(group))
    def place(match):
        value = values[match.group(1)]
        member = match.group(2) or ""
        return value + member if not member or re.fullmatch(r"[\w.\[\]>()-]+", value) else f"({value}){member}"
    # A designator such as .source is no parameter, but the `source` behind it is.
    return re.sub(r"(?<![\w.])(" + "|".join(map(re.escape, values)) + r")(\.raw)?(?!\w)", place, new) if values else new


class Mover:
    def __init__(self, rules):
        self.rules, self.left, self.known = rules, [], {}

    def rules_for(self, name):
        if name not in self.known:
            self.known[name] = [(rule, found) for rule in self.rules if (found := rule.name.match(name))]
        return self.known[name]

    def use(self, text, match, where):
        """What takes the place of the name at `match`, and the index after what it replaces."""
        rules = self.rules_for(match.group())
        if not rules:
            return match.group(), match.end()
        opening = re.compile(r"\s*\(").match(text, match.end())
        arguments, end = arguments_of(text, opening.end() - 1) if opening else (None, match.end())
        for rule, found in rules:
            if rule.by_hand:
                continue
            if rule.parameters is None:
                return put(rule.new, found, {}), match.end()
            if arguments is not None and len(arguments) == len(rule.parameters):
                values = [self.text(argument, where) for argument in arguments]
                return put(rule.new, found, dict(zip(rule.parameters, values))), end
        rule, found = rules[0]
        new = "" if rule.by_hand else split_call(put(rule.new, found, {}))[0]
        alone = not opening or arguments == []
        if alone and re.fullmatch(r"\w+", new):
            return new, match.end()
        if rule.by_hand or new != match.group():
            self.left.append((where(match), match.group()))
        return match.group(), match.end()

    def text(self, text, where=None):
        line = where or (lambda match: text.count("\n", 0, match.start()) + 1)
        out, at = [], 0
        while match := NAME.search(text, at):
            out.append(text[at:match.start()])
            new, at = self.use(text, match, line)
            out.append(new)
        return "".join(out) + text[at:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", default="")
    parser.add_argument("--table", action="append", type=pathlib.Path, default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    types = [f"ferry_{name}" for name in BUILTIN] + [name for name in options.types.split(",") if name]
    rules = [rule for table in options.table + [pathlib.Path(__file__).with_suffix(".md")] for rule in read_rules(table, types)]
    changed = 0
    for path in options.files:
        old = path.read_text(encoding="utf-8")
        mover = Mover(rules)
        new = re.sub(r"(\.|->)host_body\b", r"\1host_function", mover.text(old))
        for line, name in mover.left:
            print(f"{path}:{line}: {name} is to be changed by hand")
        changed += new != old or bool(mover.left)
        if new != old and not options.check:
            path.write_text(new, encoding="utf-8")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
