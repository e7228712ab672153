#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each test file begins with a comment that says what it tests; `./dev who-tests` prints it.

usage: heads.py SOURCE-ROOT
"""

import pathlib
import re
import sys

from tap import Tap

PATTERNS = ("test_*.c", "test_*.cpp", "test_*.f90", "test_*.py", "suite_*.c", "fuzz_*.c")
LICENCE = re.compile(r"(?:#!.*\n)?(?:/\*|//|!|#)\s*SPDX.*\n\s*")
COMMENT = re.compile(r'/\*+\s*(.*?)\*/|"""(.*?)"""|((?:(?://|!)[^\n]*\n)+)', re.S)
LEAST_WORDS = 5


def head(text):
    """The words of the comment behind the licence."""
    licence = LICENCE.match(text)
    found = COMMENT.match(text, licence.end() if licence else 0)
    return re.sub(r"(?m)^\s*(\*|//|!)", " ", next(filter(None, found.groups()), "")).split() if found else []


def problems(path):
    words = head(path.read_text(encoding="utf-8"))
    if len(words) < LEAST_WORDS or words[0] == "--":
        yield "has no sentence behind its licence that says what it tests"
    elif not re.search(r"\.( |$)", " ".join(words)):
        yield f"does not begin with a sentence that ends: {' '.join(words)[:60]}"


def main():
    root = pathlib.Path(sys.argv[1])
    tap = Tap()
    paths = sorted({path for pattern in PATTERNS for path in (root / "tests").glob("*/" + pattern)})
    tap.case("test files were found", [] if len(paths) > 150 else [f"{len(paths)} of them"])
    tap.case("each test file says what it tests", [f"{path.relative_to(root)} {problem}" for path in paths for problem in problems(path)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
