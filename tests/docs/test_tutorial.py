#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every step of docs/tutorial.md, docs/concepts.md and README: its files compile, its commands succeed, and print what the page says.

usage: test_tutorial.py [--readme] PAGE FERRY FERRY-GEN LIBRARY NVCC-OR-"" INCLUDE-FOLDER... -- COMPILER...

A line `NAME`: before a block makes the block a file. A ```sh block is run as it is, in the folder where the one before it ended,
with `ferry`, `ferry-gen`, `cc` and pkg-config's `ferry` being those of the build. The first folder is empty, and is HOME. A ```text
block behind it is its whole output.
With --readme, commands that build and install Ferry are left to other tests, and blocks that are no files are not an error.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def set_up(folder, ferry, generator, library, includes, compiler):
    """The environment of the commands. A compiler must not find itself as `cc`, so tools run with the PATH of this program."""
    tools = folder / ".tools"
    tools.mkdir()
    for name, words in (("ferry", [ferry]), ("ferry-gen", [generator]), ("cc", [*compiler, *WARNINGS])):
        (tools / name).write_text(f"#!/bin/sh\nPATH={shlex.quote(os.environ['PATH'])} exec {shlex.join(words)} \"$@\"\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    where = pathlib.Path(library).parent
    (tools / "ferry.pc").write_text(
        "Name: ferry\nDescription: of the build\nVersion: 0\n"
        f"Cflags: {' '.join(f'-I{path}' for path in includes)}\nLibs: -L{where} -lferry\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "FERRY_DEVICE"}
    return {**kept, "HOME": str(folder), "PATH": f"{tools}:{os.environ['PATH']}", "PKG_CONFIG_PATH": str(tools), "FERRY_CACHE_DIR": "",
            "FERRY_CUDA_LIBRARY": "/dev/null/absent/libcuda.so.1",
            "LD_LIBRARY_PATH": f"{where}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def run(commands, folder, environment, expected):
    commands = f"trap 'pwd >\"$HOME/.tools/folder\"' EXIT\n{commands}"
    done = subprocess.run(["sh", "-eu", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return [f"exit status {done.returncode}", *done.stdout.splitlines(), *done.stderr.splitlines()]
    if expected is not None and done.stdout != expected:
        return [f"printed {done.stdout!r}, the page says {expected!r}"]
    return []


def main():
    readme = "--readme" in sys.argv
    if readme:
        sys.argv.remove("--readme")
    end = sys.argv.index("--")
    page, ferry, generator, library, nvcc, *includes = (path and os.path.abspath(path) for path in sys.argv[1:end])
    blocks = BLOCK.findall(pathlib.Path(page).read_text(encoding="utf-8"))
    tap = Tap()
    steps = [text for _, kind, text in blocks if kind == "sh"]
    tap.case("the page has steps", [] if len(steps) >= 2 else ["fewer than two"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = set_up(folder, ferry, generator, library, includes, sys.argv[end + 1:])
        for index, (file, kind, text) in enumerate(blocks):
            if file:
                (folder / file).write_text(text, encoding="utf-8")
            if kind == "cuda" and not nvcc:
                tap.skip(f"{file} compiles", "no nvcc")
            elif kind == "cuda":
                tap.case(f"{file} compiles", run(f"{shlex.quote(nvcc)} -c {file} -o start.o", folder, environment, None))
            elif readme and kind == "sh" and text.startswith("./dev "):
                continue
            elif kind == "sh":
                text = "".join(line for line in text.splitlines(True) if not line.startswith("meson ")) # tests/installed.sh installs
                following = blocks[index + 1] if index + 1 < len(blocks) else ("", "", "")
                tap.case(text.splitlines()[-1], run(text, folder, environment, following[2] if following[1] == "text" else None))
                folder = pathlib.Path((pathlib.Path(name) / ".tools" / "folder").read_text(encoding="utf-8").rstrip("\n"))
            elif not file and kind != "text" and not readme:
                tap.case(f"block {index + 1} is used", ["it is neither a file nor commands nor their output"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
