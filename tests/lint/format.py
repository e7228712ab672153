#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C files are formatted as .clang-format says.

usage: format.py SOURCE-ROOT [CLANG-FORMAT]

`format.py ROOT CLANG-FORMAT --write` formats them. Versions of clang-format differ, so only VERSION decides.
"""

import pathlib
import re
import subprocess
import sys

from tap import Tap

VERSION = 14
FOLDERS = ("src", "bench", "cli", "mpi", "include", "tests", "python")
SUFFIXES = (".c", ".h", ".cu", ".cuh")
# Files that clang-format must not change: tables and contracts that are formatted by hand, generated files, and test
# data.
EXEMPT = re.compile(r"^(tests/gen/golden/|tests/fuzz/corpus/|src/transfer/scatter_cuda\.h|src/device/(cuda/cuda|gpu/gpu|hip/hip)_abi\.h"
                    r"|src/convert/(scalar|vector.*)\.h|src/map/coherence\.[ch])")


def files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink() and not EXEMPT.match(name):
                yield name


def version_of(program):
    match = re.search(r"version (\d+)", subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout)
    return int(match.group(1)) if match else 0


def unformatted(root, program, names):
    answer = subprocess.run([program, "--dry-run", *names], cwd=root, capture_output=True, text=True, check=False).stderr
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning: code should be clang-formatted", answer, re.M)))


def main():
    root, tap = pathlib.Path(sys.argv[1]), Tap()
    if len(sys.argv) < 3 or version_of(sys.argv[2]) != VERSION:
        print(f"1..0 # SKIP clang-format {VERSION} is not installed")
        return 0
    names = list(files(root))
    if sys.argv[3:] == ["--write"]:
        subprocess.run([sys.argv[2], "-i", *names], cwd=root, check=True)
    tap.case("there is something to check", [] if len(names) > 100 else [f"only {len(names)} files"])
    tap.case("files are formatted", unformatted(root, sys.argv[2], names))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
