# SPDX-License-Identifier: MIT
"""The command ferry-gen of an installed wheel."""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    """Run ferry-gen with the arguments of this process."""
    from . import __version__
    from ._folders import GENERATOR

    if not os.path.isdir(GENERATOR):
        print(f"ferry-gen: {GENERATOR} is missing", file=sys.stderr)
        return 1
    sys.path.insert(0, GENERATOR)
    try:
        generator = importlib.import_module("ferry_gen")
    except ModuleNotFoundError as error:
        print(f"ferry-gen: {error}: pip install ferry[gen]", file=sys.stderr)
        return 1
    return int(generator.main(program=sys.argv[0], version=__version__) or 0)
