#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public function of the headers is called by some step of the random histories.

usage: test_steps.py SOURCE-ROOT

A function is played when the source of a step or of a scene calls it: outside of comments, and of strings, which hold the lines
of printed histories. A function that no step can play is listed here with its reason.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lint"))
from tap import Tap

ROOT = pathlib.Path(sys.argv[1])
HEADERS = ["buffer", "context", "conversion", "copy", "exchange", "file", "generated", "graph", "kernel", "lease", "pool", "scope", "stream"]
NOT_PLAYED = {
    "ferry_conversion_run": "converts arrays, which no buffer has a part in; tests/convert plays it",
    "ferry_conversion_failed": "for generated code, which tests/convert runs",
    "ferry_kernel_runs_here": "for generated code, which tests/gen runs",
    "ferry_result_argument": "for generated code, which tests/gen runs",
    "ferry_call_is_checked": "for generated code, which tests/gen runs",
    "ferry_call_element": "for generated code, which tests/gen runs",
    "ferry_call_parallel": "divides a host function, which uses no buffer by itself; tests/unit/test_host_threads.c plays it",
}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
PUBLIC = re.compile(r"\bFERRY_API\b[^;{]*?\b(ferry_\w+)\s*\(")


def public_functions(header):
    text = COMMENT.sub("", (ROOT / "include/ferry" / f"{header}.h").read_text(encoding="utf-8"))
    return PUBLIC.findall(text)


def played_functions():
    folder = ROOT / "tests/histories"
    calls = set()
    for path in sorted([*folder.glob("steps_*.c"), *folder.glob("scenes*.c"), folder / "loan.c"]):
        text = STRING.sub('""', COMMENT.sub("", path.read_text(encoding="utf-8")))
        calls.update(re.findall(r"\b(ferry_\w+)\s*\(", text))
    return calls


def main():
    tap = Tap()
    played, seen = played_functions(), set()
    for header in HEADERS:
        functions = public_functions(header)
        seen.update(functions)
        problems = [f"{name}(): no step of tests/histories calls it" for name in functions if name not in played and name not in NOT_PLAYED]
        problems += [] if functions else ["no public function was found"]
        tap.case(f"steps play <ferry/{header}.h>", problems)
    tap.case("functions that no step plays exist, and are not played",
             [f"{name}: is played, or is no function" for name in NOT_PLAYED if name in played or name not in seen])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
