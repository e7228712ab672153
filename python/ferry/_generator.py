# SPDX-License-Identifier: MIT
"""The command ferry-gen of an installed wheel."""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    """Run ferry-gen with the arguments of this process."""
    from . import __version__

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "ferry", "gen")
    if not os.path.isdir(folder):
        print(f"ferry-gen: {folder} is missing: this package was not installed as a wheel", file=sys.stderr)
        return 1
    sys.path.insert(0, folder)
    try:
        generator = importlib.import_module("ferry_gen")
    except ModuleNotFoundError as error:
        print(f"ferry-gen: {error}: pip install ferry[gen]", file=sys.stderr)
        return 1
    return int(generator.main(program=sys.argv[0], version=__version__) or 0)
