#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public name has a comment: functions, types, constants and macros of C, classes and functions of C++,
procedures of Fortran. Members of classes of C++ are checked with the site of the documents.

usage: documented.py FILE-OR-FOLDER...

A name counts as documented when a comment that begins with two stars ends right before its declaration, or follows an
enumeration constant. Macros and names of C++ may share one comment in a paragraph. A name that is declared in several
places needs one comment.
"""

import pathlib
import re
import sys

from tap import Tap

FUNCTION = re.compile(r"^(?:FERRY_API\b|FERRY_INLINE\b)[^;{=]*?\b(\w+)\s*\([^;{]*[;{]", re.M | re.S)
DATA = re.compile(r"^FERRY_API\s+extern\b[^;(]*?\b(\w+)(?:\[\w*\])?\s*;", re.M)
FORWARD = re.compile(r"^typedef (?:struct|union) \w+ (\w+);", re.M)
ENUMERATION = re.compile(r"^(?:typedef )?enum \w*\s*\{(.*?)^\}", re.M | re.S)
MACRO = re.compile(r"^#\s*define (FERRY_\w+)", re.M)
CPP = re.compile(r"^(?:template <[^\n]*> ?\n?)*(?:(?:class|struct) (?:FERRYI_\w+ )?(\w+)[^;{\n]*\n?\{|using (\w+) =|(?:inline|\[\[)[^\n]*\n(\w+)\()", re.M)
GUARD = re.compile(r"^#ifndef (\w+_H)\n#define \1$", re.M)


def after_comment(text, at):
    """Does a documenting comment end right before this place?"""
    before = text[:at].rstrip()
    return before.endswith("*/") and before[before.rindex("/*"):].startswith("/**")


def in_documented_paragraph(text, at):
    """Is there a documenting comment among the lines before this place, back to the last empty one?"""
    paragraph = text[:at].rsplit("\n\n", 1)[-1]
    return "/**" in paragraph


def constants(body):
    """(name, documented) of an enumeration's constants. A comment behind a constant stands before the next one."""
    code = re.sub(r"/\*.*?\*/", lambda match: " " * len(match[0]), body, flags=re.S)
    found = list(re.finditer(r"(?:^|,)\s*([A-Z]\w+)", code))
    for index, match in enumerate(found):
        start = match.start(1)
        end = found[index + 1].start(1) if index + 1 < len(found) else len(body)
        yield match[1], "/**<" in body[start:end] or after_comment(body, start)


def names_of_c(text):
    guards = set(GUARD.findall(text))
    for match in FUNCTION.finditer(text):
        yield match[1], after_comment(text, match.start())
    for match in DATA.finditer(text):
        yield match[1], after_comment(text, match.start())
    for match in FORWARD.finditer(text):
        yield match[1], after_comment(text, match.start())
    for match in re.finditer(r"^typedef (?:struct|enum|union) \w*\s*\{.*?^\} (\w+);", text, re.M | re.S):
        yield match[1], after_comment(text, match.start())
    for match in re.finditer(r"^typedef (?!struct \w+ \w+;)[^{;]*?\b(\w+)\([^;]*\);", text, re.M):
        yield match[1], after_comment(text, match.start())
    for match in ENUMERATION.finditer(text):
        yield from constants(match[1])
    for match in MACRO.finditer(text):
        if match[1] not in guards:
            yield match[1], in_documented_paragraph(text, match.start())


def names_of_cpp(text):
    """Classes, aliases and functions of the namespace; members are left to their class."""
    text = re.sub(r"^namespace detail\n\{.*?^\} // namespace detail$", lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)
    for match in CPP.finditer(text):
        yield match[1] or match[2] or match[3], after_comment(text, match.start()) or in_documented_paragraph(text, match.start())


def names_of_fortran(text):
    """Procedures of a module that has types; those inside of a procedure are left out."""
    lines = re.sub(r"^module ferry_c$.*?^end module$", "", text, flags=re.M | re.S).splitlines()
    for before, line in zip(lines, lines[1:]):
        found = re.match(r"    (?:impure elemental )?(?:subroutine|function) (\w+)\(", line)
        if found:
            yield found[1], before.lstrip().startswith("!")


NAMES = {".hpp": names_of_cpp, ".h": names_of_c, ".f90": names_of_fortran}


def main():
    paths = []
    for argument in map(pathlib.Path, sys.argv[1:]):
        paths += sorted(argument.glob("*.h*")) if argument.is_dir() else [argument]
    tap = Tap()
    found = {}
    for path in paths:
        space = {".hpp": "ferry::", ".f90": f"{path.stem}: "}.get(path.suffix, "")
        for name, documented in NAMES.get(path.suffix, names_of_c)(path.read_text(encoding="utf-8")):
            known = found.setdefault(space + name, [path.name, False])
            known[1] |= documented
    tap.case("there are names", [] if len(found) > 100 else [f"only {len(found)} were found"])
    tap.case("every public name has a comment", [f"{where}: {name}" for name, (where, documented) in sorted(found.items()) if not documented])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
