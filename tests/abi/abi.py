#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shared library keeps its exported functions and the layouts of its public structs.

usage: abi.py [--accept] LIBRARY HEADER-FOLDER...

Compares LIBRARY, which needs debug information, with exports.txt and libferry.abi beside this file. Both change only with
--accept, which writes what LIBRARY has now: look at the difference before you commit it. Without abidiff the layouts are not
compared.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
from tap import Tap  # noqa: E402

MOST = 180


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """Each function with the version of its symbol."""
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines() if " A " not in line]
    return sorted(name.replace("@@", "@") for name in names if name not in ("_init", "_fini"))


def dump(library, folders, path):
    headers = [word for folder in folders for word in ("--headers-dir", folder)]
    run("abidw", *headers, "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-private-types",
        "--no-parameter-names", "--out-file", str(path), library)


def compare_layouts(library, folders):
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder) / "now.abi"
        dump(library, folders, now)
        found = subprocess.run(["abidiff", "--suppressions", str(HERE / "opaque.suppr"), str(HERE / "libferry.abi"), str(now)], capture_output=True, text=True, check=False)
    return found.stdout.splitlines() + found.stderr.splitlines() if found.returncode else []


def main():
    words = sys.argv[1:]
    accept = "--accept" in words
    paths = [word for word in words if word != "--accept"]
    if len(paths) < 2:
        sys.exit(__doc__)
    library, *folders = paths
    names = exported(library)
    if accept and not shutil.which("abidw"):
        sys.exit("abi.py: abidw is missing (Debian: abigail-tools)")
    if accept:
        (HERE / "exports.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        dump(library, folders, HERE / "libferry.abi")
        return 0
    tap = Tap()
    listed = (HERE / "exports.txt").read_text(encoding="utf-8").split()
    tap.case("exports what exports.txt lists", [f"gone: {n}" for n in listed if n not in names] +
             [f"not listed: {n}" for n in names if n not in listed])
    tap.case(f"at most {MOST} functions", [f"{len(names)} functions"] if len(names) > MOST else [])
    tap.case("every symbol has a version", [n for n in names if "@" not in n])
    if shutil.which("abidiff") and shutil.which("abidw"):
        tap.case("layouts are those of libferry.abi", compare_layouts(library, folders))
    else:
        tap.skip("layouts are those of libferry.abi", "no abidiff here")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
