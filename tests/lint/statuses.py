#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every status that a call may return is one that some test expects.

usage: statuses.py SOURCE-ROOT
"""

import pathlib
import re
import sys

from tap import Tap

DECLARED = re.compile(r"^\s*(FERRY_ERROR_\w+)\s*=", re.M)
# How tests state the status that they expect: with cmocka's comparison or with the short names of our tests.
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


def main():
    root = pathlib.Path(sys.argv[1])
    declared = DECLARED.findall((root / "include/ferry/status.h").read_text(encoding="utf-8"))
    names = expected(root)
    tap = Tap()
    tap.case("there are statuses", [] if len(declared) > 10 else ["hardly any status was found"])
    for name in declared:
        tap.case(name, [] if name in names else ["no test expects it"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
