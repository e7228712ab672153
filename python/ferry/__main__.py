# SPDX-License-Identifier: MIT
"""What a program in C needs to use the library of an installed wheel.

usage: python -m ferry --version | [--cflags] [--libs] [--include-dir] [--lib-dir] [--cmake-dir] [--pkg-config-dir]
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    package = os.path.dirname(os.path.abspath(__file__))
    include, library = os.path.join(package, "include"), os.path.join(package, "lib")
    answers = {
        "--cflags": f"-I{include}",
        "--libs": f"-L{library} -Wl,-rpath,{library} -l:libferry.so.0",
        "--include-dir": include,
        "--lib-dir": library,
        "--cmake-dir": os.path.join(library, "cmake"),
        "--pkg-config-dir": os.path.join(library, "pkgconfig"),
    }
    if arguments == ["--version"]:
        from . import __version__

        print(__version__)
        return 0
    if not arguments or not all(argument in answers for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    if not os.path.isdir(include):
        print(f"ferry: {include} is missing: this package was not installed as a wheel. Use pkg-config ferry.", file=sys.stderr)
        return 1
    print(*(answers[argument] for argument in arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
