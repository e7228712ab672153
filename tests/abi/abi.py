#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shared library keeps its exported functions and the layouts of its public types.

usage: abi.py [--accept] LIBRARY HEADER-FOLDER...

Compares LIBRARY, which needs debug information, with exports.txt and layouts.txt beside this file. Both change only with
--accept, which writes what LIBRARY has now: look at the difference before you commit it. A line of layouts.txt is a function,
a member of a struct behind its bit, an enumerator or another type; one that is gone fails the test, and a new one does not.
abidw of libabigail reads the debug information. Without it the layouts are not compared.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
from tap import Tap  # noqa: E402

MOST = 180


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """Each function with the version of its symbol."""
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines() if " A " not in line]
    return sorted(name.replace("@@", "@") for name in names if name not in ("_init", "_fini"))


# -- types as C spells them --------------------------------------------------------------------------


class Types:
    """The types of a library, by the ids that abidw gives them."""

    def __init__(self, root, headers):
        self.root, self.headers = root, headers
        self.by_id = {element.get("id"): element for element in root.iter() if element.get("id")}

    def spell(self, number):
        element = self.by_id.get(number)
        kind = "void" if element is None else element.tag
        if kind == "pointer-type-def":
            return self.spell_pointer(element)
        if kind == "qualified-type-def":
            words = "const " * (element.get("const") == "yes") + "volatile " * (element.get("volatile") == "yes")
            of = self.spell(element.get("type-id"))
            return of + " " + words.strip() if of.endswith("*") else words + of
        if kind == "array-type-def":
            return self.spell(element.get("type-id")) + "".join(f"[{part.get('length')}]" for part in element.iter("subrange"))
        if kind in ("class-decl", "union-decl", "enum-decl"):
            name = "{...}" if element.get("is-anonymous") == "yes" else element.get("name")
            return {"class-decl": "struct ", "union-decl": "union ", "enum-decl": "enum "}[kind] + name
        return self.spell_function(element, "") if kind == "function-type" else element.get("name", kind) if kind != "void" else kind

    def spell_pointer(self, element):
        target = self.by_id.get(element.get("type-id"))
        if target is not None and target.tag == "function-type":
            return self.spell_function(target, "(*)")
        of = self.spell(element.get("type-id"))
        return of + ("*" if of.endswith("*") else " *")

    def spell_function(self, element, name):
        parameters = ["..." if part.get("is-variadic") == "yes" else self.spell(part.get("type-id")) for part in element.iter("parameter")]
        return f"{self.spell(element.find('return').get('type-id'))} {name}({', '.join(parameters) or 'void'})"

    def lines(self, functions):
        """A line for each exported function, and for each part of a public type."""
        for element in self.root.iter():
            name = element.get("name") or ""
            if element.tag == "function-decl" and name in functions:
                yield "function " + self.spell_function(element, name)
            if not name.startswith("ferry_"):
                continue
            kind = {"class-decl": "struct", "union-decl": "union"}.get(element.tag)
            # Only the library knows the members of the others.
            if kind and re.search(rf"\b{kind} {name} {{", self.headers):
                yield f"{kind} {name}: {int(element.get('size-in-bits')) // 8} bytes"
                yield from self.members(element, f"{kind} {name}", 0)
            elif element.tag == "enum-decl":
                yield from (f"enum {name}: {part.get('name')} = {part.get('value')}" for part in element.iter("enumerator"))
            elif element.tag == "typedef-decl":
                of = self.spell(element.get("type-id"))
                if of.split(" ", 1)[-1] != name:
                    yield f"typedef {name}: {of}"

    def members(self, element, owner, begin):
        """Each member with its first bit; those of a part without a name are the owner's."""
        for part in element.iter("data-member"):
            variable, bit = part.find("var-decl"), begin + int(part.get("layout-offset-in-bits") or 0)
            inner = self.by_id.get(variable.get("type-id"))
            if inner is not None and inner.get("is-anonymous") == "yes" and inner.tag != "enum-decl":
                yield from self.members(inner, f"{owner} .{variable.get('name') or ''}", bit)
            else:
                yield f"{owner} @{bit} {variable.get('name')}: {self.spell(variable.get('type-id'))}"


def layouts(library, folders):
    words = [word for folder in folders for word in ("--headers-dir", folder)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "now.abi"
        run("abidw", *words, "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-private-types",
            "--no-parameter-names", "--out-file", str(path), library)
        root = xml.etree.ElementTree.parse(path).getroot()
    headers = "".join(path.read_text(encoding="utf-8") for folder in folders for path in pathlib.Path(folder).glob("**/*.h"))
    lines = set(Types(root, headers).lines({name.split("@")[0] for name in exported(library)}))
    return sorted(lines, key=lambda line: re.sub(r"\d+", lambda digits: digits[0].zfill(8), line))


def read_lines(name):
    return (HERE / name).read_text(encoding="utf-8").splitlines()


def main():
    words = sys.argv[1:]
    accept = "--accept" in words
    paths = [word for word in words if word != "--accept"]
    if len(paths) < 2:
        sys.exit(__doc__)
    library, *folders = paths
    names = exported(library)
    if accept and not shutil.which("abidw"):
        sys.exit("abi.py: abidw is missing (Debian: abigail-tools)")
    if accept:
        for path, lines in (("exports.txt", names), ("layouts.txt", layouts(library, folders))):
            (HERE / path).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    tap = Tap()
    listed = read_lines("exports.txt")
    tap.case("exports what exports.txt lists", [f"gone: {n}" for n in listed if n not in names] +
             [f"not listed: {n}" for n in names if n not in listed])
    tap.case(f"at most {MOST} functions", [f"{len(names)} functions"] if len(names) > MOST else [])
    tap.case("every symbol has a version", [n for n in names if "@" not in n])
    if shutil.which("abidw"):
        now = set(layouts(library, folders))
        tap.case("layouts are those of layouts.txt", [f"gone: {line}" for line in read_lines("layouts.txt") if line not in now])
    else:
        tap.skip("layouts are those of layouts.txt", "no abidw here")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
