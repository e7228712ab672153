#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of a document compile without warnings, run on every kind of device, and print what the document says.

usage: readme.py [--cpp] DOCUMENT LIBRARY INCLUDE-FOLDER... -- COMPILER...

A program is a ```c block with a main(), with --cpp a ```cpp block; a ```text block right after it is its output.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tap import Tap

PROGRAM = r"^```%s\n(.*?)^```\n(?:\s*(?:[^\n`]+\n)?\s*```text\n(.*?)^```)?"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STANDARDS = {"c": "-std=c99", "cpp": "-std=c++17"}


def compile_program(text, folder, library, includes, compiler, language):
    source, program = os.path.join(folder, f"readme.{language}"), os.path.join(folder, "readme")
    pathlib.Path(source).write_text(text, encoding="utf-8")
    where = os.path.dirname(library)
    command = [*compiler, STANDARDS[language], *WARNINGS, *(f"-I{path}" for path in includes), source, "-o", program, library,
               f"-Wl,-rpath,{where}", "-pthread", "-ldl", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program, done.stderr.splitlines() if done.returncode else []


def run_program(program, device, expected):
    environment = {**os.environ, "FERRY_DEVICE": device}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"exit status {done.returncode}", *done.stdout.splitlines(), *done.stderr.splitlines()]
    if expected and done.stdout != expected:
        return [f"printed {done.stdout!r}, the document says {expected!r}"]
    return []


def main():
    language = "cpp" if sys.argv[1] == "--cpp" else "c"
    end = sys.argv.index("--")
    readme, library, *includes = sys.argv[1 + (language == "cpp"):end]
    compiler = sys.argv[end + 1:]
    programs = [(text, output) for text, output in re.findall(PROGRAM % language, pathlib.Path(readme).read_text(encoding="utf-8"), re.S | re.M)
                if "main(" in text]
    tap = Tap()
    tap.case("there is a program", [] if programs else [f"no ```{language} block with a main()"])
    for number, (text, output) in enumerate(programs, 1):
        with tempfile.TemporaryDirectory() as folder:
            program, problems = compile_program(text, folder, library, includes, compiler, language)
            tap.case(f"program {number} compiles", problems)
            for device in () if problems else ("host", "emulated", "emulated:2"):
                tap.case(f"program {number} on {device}", run_program(program, device, output))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
