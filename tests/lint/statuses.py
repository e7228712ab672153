#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every status is one that some test expects, and every language has it.

usage: statuses.py SOURCE-ROOT
"""

import pathlib
import re
import sys

from tap import Tap

DECLARED = re.compile(r"^\s*(FERRY_ERROR_\w+)\s*=\s*(\d+)", re.M)
PYTHON_CLASS = re.compile(r'\[(FERRY_ERROR_\w+)\]\s*=\s*\{\s*"(\w+)"')
# Ways in which a test states the status that it expects: assert_int_equal() of cmocka, and macros of this project.
EXPECTATION = re.compile(r"\b(?:assert_int_equal|FAILS|REFUSED|expect_failure)\s*\(")


def argument_text(text, begin):
    """From the opening parenthesis before `begin` to the one that closes it."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return text[begin:]


def expected(root):
    names = set()
    for path in (root / "tests").rglob("*.c"):
        text = path.read_text(encoding="utf-8")
        for match in EXPECTATION.finditer(text):
            names.update(re.findall(r"\bFERRY_ERROR_\w+", argument_text(text, match.end())))
    return names


def places_without(root, name, value):
    """Files of the other languages that lack a status, with what they lack."""
    def read(path):
        return (root / path).read_text(encoding="utf-8")

    def lacks(path, pattern, what):
        return [] if re.search(pattern, read(path)) else [f"{path} lacks {what}"]

    problems = lacks("include/ferry/ferry.hpp", rf"using \w+ = status_error<{name}>", "its class")
    problems += lacks("include/ferry/ferry.hpp", rf"case {name}:", "its case in throw_error()")
    problems += lacks("fortran/ferry.f90", rf"\b{name.lower()} = {value}\b", "its constant")
    python = dict(PYTHON_CLASS.findall(read("python/src/error.c"))).get(name)
    if not python:
        return problems + ["python/src/error.c lacks its class"]
    problems += lacks("python/ferry/__init__.py", rf"import[^)]*\b{python}\b", f"the import of {python}")
    problems += lacks("python/ferry/__init__.py", rf'"{python}"', f"{python} in __all__")
    problems += lacks("python/ferry/_ferry.pyi", rf"class {python}\b", python)
    problems += lacks("docs/python.md", rf"`{python}`", python)
    return problems + lacks("tests/python/test_package.py", rf'"{python}": \("\w+", {value}\)', f"{python} in STATUSES")


def main():
    root = pathlib.Path(sys.argv[1])
    declared = DECLARED.findall((root / "include/ferry/status.h").read_text(encoding="utf-8"))
    names = expected(root)
    tap = Tap()
    tap.case("there are statuses", [] if len(declared) > 10 else ["hardly any status was found"])
    for name, value in declared:
        tap.case(name, [] if name in names else ["no test expects it, with assert_int_equal(), FAILS(), REFUSED() or expect_failure()"])
        tap.case(f"{name} in every language", places_without(root, name, value))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
