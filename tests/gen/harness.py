# SPDX-License-Identifier: MIT
"""Common functions of the generator's tests: paths, and calls of ferry-gen and compilers."""

import copy
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GEN = ROOT / "gen"
TEMPLATES = ROOT / "templates"
BUILTIN = GEN / "types"
TYPES = HERE / "types"

sys.path.insert(0, str(ROOT / "tests" / "lint"))
sys.path.insert(0, str(GEN))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402,F401

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
C_WARNINGS = WARNINGS + ["-Wstrict-prototypes", "-Wmissing-prototypes"]


def ferry_gen(*arguments, folder=None, env=None):
    """Runs the generator of the source tree with this Python."""
    command = [sys.executable, "-B", str(GEN / "ferry_gen.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **(env or {})})


DROP = object()


def changed(base, path, value):
    """Returns a copy of the JSON with another value at the path, a list of keys and indices. DROP removes the value."""
    data = copy.deepcopy(base)
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is DROP:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


def generate(command, types, output, *options):
    """Runs the generator and returns the problems, none when it worked."""
    os.makedirs(os.path.dirname(output), exist_ok=True)
    result = ferry_gen(command, *types, "-o", output, *options)
    return [] if result.returncode == 0 else [f"ferry-gen {command}: {line}" for line in result.stderr.splitlines()]


def builtin_headers(folder):
    """Generates <ferry/float.h> and the other built-in headers below `folder`. Returns the problems."""
    problems = []
    for path in sorted(BUILTIN.glob("*.json")):
        problems += generate("header", [path], f"{folder}/ferry/{path.stem}.h")
    return problems


def c_compilers():
    """Returns the compilers to test, as command lists: CC, or every usual one that is installed."""
    if os.environ.get("CC"):
        return [os.environ["CC"].split()]
    return [[name] for name in ("gcc", "clang") if shutil.which(name)]


def cxx_compilers():
    if os.environ.get("CXX"):
        return [os.environ["CXX"].split()]
    return [[name] for name in ("g++", "clang++") if shutil.which(name)]


def compile_problems(compiler, options, folders, path, output=os.devnull):
    """Compiles one file and returns the compiler's messages, none when it succeeds."""
    includes = [f"-I{folder}" for folder in folders]
    command = [*compiler, *options, *includes, "-c", str(path), "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    return result.stderr.splitlines()[:20] or [f"{compiler[0]}: exit status {result.returncode}"]


def kernel_declarations(language):
    """Returns what Ferry puts before every kernel source of a language, "cuda" or "opencl"."""
    text = (ROOT / "src" / "kernel" / "compile.c").read_text()
    literals = text.partition(f"{language}_declarations[] =")[2].partition(";\n\n")[0]
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|\b(OPENCL_SIZE)\b', literals)
    return "".join("ulong" if size else literal for literal, size in words).encode().decode("unicode_escape")


def opencl_compiler():
    """Returns the clang that reads OpenCL C, or None."""
    return next((name for name in ("clang", "clang-14") if shutil.which(name)), None)


def opencl_problems(compiler, text, folder):
    """Returns the messages of a compiler of OpenCL C 1.2 for a text, none when it succeeds."""
    path = pathlib.Path(folder) / "text.cl"
    path.write_text(text, encoding="utf-8")
    options = ["-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-Xclang", "-fdeclare-opencl-builtins", "-Xclang", "-finclude-default-header",
               "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    result = subprocess.run([compiler, *options, str(path)], capture_output=True, text=True)
    return result.stderr.splitlines()[:20] if result.returncode else []
