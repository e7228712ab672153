#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of a document compile without warnings, run on every kind of device, and print what the document says.

usage: readme.py [--cpp] [--also LIBRARY] [--launcher COMMAND] [--generator FERRY-GEN]
                 [--driver LIBRARY] [--compile-only | --found] DOCUMENT LIBRARY INCLUDE-FOLDER... -- COMPILER...

A program is a ```c block with a main(), with --cpp a ```cpp block; a ```text block right after it is its output.
The words of COMMAND precede the program when it is run. FERRY-GEN makes headers of the ```json blocks that are files of kernels.
Programs with <cuda.h> link the library of --driver and run over it, as a device "cuda"; without one they are skipped.
--compile-only neither links nor runs them. --found runs each program once, on the device that Ferry finds, and skips those that
end with 77 or whose libraries the loader does not find.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from tap import Tap

PROGRAM = r"^```%s\n(.*?)^```\n(?:\s*(?:[^\n`]+\n)?\s*```text\n(.*?)^```)?"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
STANDARDS = {"c": "-std=c99", "cpp": "-std=c++17"}


def compile_program(text, folder, libraries, includes, compiler, language, link=True):
    source, program = os.path.join(folder, f"readme.{language}"), os.path.join(folder, "readme")
    pathlib.Path(source).write_text(text, encoding="utf-8")
    where = [f"-Wl,-rpath,{os.path.dirname(library)}" for library in libraries]
    links = [*libraries, *where, "-pthread", "-ldl", "-lm"] if link else ["-c"]
    command = [*compiler, STANDARDS[language], *WARNINGS, *(f"-I{path}" for path in includes), source, "-o", program, *links]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program, done.stderr.splitlines() if done.returncode else []


def generate_kernels(document, generator, folder):
    """The headers lie in the folder then."""
    problems = []
    for text in re.findall(r"^```json\n(.*?)^```", document, re.S | re.M):
        source = os.path.join(folder, "kernels.json")
        pathlib.Path(source).write_text(text, encoding="utf-8")
        header = os.path.join(folder, json.loads(text)["header"])
        done = subprocess.run([*generator, "kernels", source, "-o", header], capture_output=True, text=True, check=False)
        problems += done.stderr.splitlines() if done.returncode else []
    return problems


def run_program(program, launcher, device, expected, driver):
    """The problems; None when the program skips itself, or the loader has not found a library."""
    environment = {**os.environ, "FERRY_DEVICE": device, **({"FERRY_CUDA_LIBRARY": driver} if driver else {})} if device else None
    done = subprocess.run([*launcher, program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 77 or (not device and (done.returncode == 127 and "shared libraries" in done.stderr)):
        return None
    if done.returncode:
        return [f"exit status {done.returncode}", *done.stdout.splitlines(), *done.stderr.splitlines()]
    if expected and done.stdout != expected:
        return [f"printed {done.stdout!r}, the document says {expected!r}"]
    return []


def main():
    end = sys.argv.index("--")
    compiler = sys.argv[end + 1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpp", action="store_true")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("--launcher", type=shlex.split, default=[])
    parser.add_argument("--generator", action="append", default=[])
    parser.add_argument("--driver", default="")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--compile-only", action="store_true")
    how.add_argument("--found", action="store_true")
    parser.add_argument("document")
    parser.add_argument("library")
    parser.add_argument("includes", nargs="+")
    given = parser.parse_args(sys.argv[1:end])
    language = "cpp" if given.cpp else "c"
    libraries = [*given.also, given.library]
    document = pathlib.Path(given.document).read_text(encoding="utf-8")
    programs = [(text, output) for text, output in re.findall(PROGRAM % language, document, re.S | re.M) if "main(" in text]
    tap = Tap()
    tap.case("there is a program", [] if programs else [f"no ```{language} block with a main()"])
    with tempfile.TemporaryDirectory() as folder:
        generated = generate_kernels(document, given.generator, folder) if given.generator else []
        for number, (text, output) in enumerate(programs, 1):
            calls_driver = "#include <cuda.h>" in text
            if calls_driver and not given.driver:
                tap.skip(f"program {number}", "<cuda.h> is not installed")
                continue
            devices = ("cuda",) if calls_driver else (None,) if given.found else ("host", "emulated", "emulated:2")
            program, problems = compile_program(text, folder, [*libraries, given.driver] if calls_driver else libraries,
                                                [*given.includes, folder], compiler, language, not given.compile_only)
            problems += generated
            tap.case(f"program {number} compiles", problems)
            for device in () if problems or given.compile_only else devices:
                name = f"program {number} on {device or 'the device found'}"
                wrong = run_program(program, given.launcher, device, output, given.driver)
                if wrong is None:
                    tap.skip(name, "its device or a library is not here")
                else:
                    tap.case(name, wrong)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
