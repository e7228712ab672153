# SPDX-License-Identifier: MIT
"""python -m ferry --cflags | --libs | --include-dir | --lib-dir | --version: what a C program needs to use the package's library."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    package = os.path.dirname(os.path.abspath(__file__))
    include, library = os.path.join(package, "include"), os.path.join(package, "lib")
    if arguments == ["--version"]:
        from . import __version__

        print(__version__)
        return 0
    answers = {
        "--include-dir": (include, include),
        "--lib-dir": (library, library),
        "--cflags": (include, f"-I{include}"),
        "--libs": (library, f"-L{library} -Wl,-rpath,{library} -lferry"),
    }
    if len(arguments) != 1 or arguments[0] not in answers:
        print(__doc__, file=sys.stderr)
        return 2
    folder, answer = answers[arguments[0]]
    if not os.path.isdir(folder):
        print(f"ferry: {folder} is missing: this package was not installed as a wheel. Use pkg-config ferry.", file=sys.stderr)
        return 1
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
