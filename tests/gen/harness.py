# SPDX-License-Identifier: MIT
"""Common functions of the generator's tests: paths, and calls of ferry-gen and compilers."""

import copy
import json
import os
import pathlib
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


# Files of kernels that others describe: of tests, benchmarks and examples.
KERNEL_FILES = [path for pattern in ("tests/gen/kernels/several.json", "tests/consumer/mylib/kernels.json", "bench/kernels.json", "examples/*.json", "examples/*/*.json")
                for path in sorted(ROOT.glob(pattern)) if "kernels" in json.loads(path.read_text())]
OPENCL_WARNINGS = ("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror")


def device_problems(compiler, texts, *warnings):
    """Returns what a compiler of ferry_device.py says of Texts, nothing when they compile."""
    found = compiler.problems(texts, compiler.default, *warnings)
    return [f"{text.name}: {line}" for text, problem in zip(texts, found) for line in problem.splitlines()[:20]]
