#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of packaging/needs.sh is well-formed, and what a machine lacks is found: with no program there, and with all of them.

usage: needs.py SOURCE-ROOT
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tap import Tap

TOOLS = ("sh", "sed", "grep", "tr", "ls")  # that needs.sh itself calls
PURPOSES = {"base", "demo", "test", "bench", "check", "long", "coverage", "prove", "opencl", "peers"}
ITEM = re.compile(r"(?:[cpyf]:[^ ;]+|[hs]:) [a-z0-9.+-]+(?: [a-z0-9.+-]+)*")


def missing(root, path, *purposes):
    """Packages, with the programs of one folder."""
    script = f'. packaging/needs.sh; missing_packages {" ".join(purposes)}'
    environment = {"PATH": path, "HOME": "/dev/null/absent", "FERRY_PYTHON": "/dev/null/absent/python3"}
    done = subprocess.run([shutil.which("sh"), "-eu", "-c", script], cwd=root, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else [done.stderr]


def main():
    root = pathlib.Path(sys.argv[1])
    tap = Tap()
    rows = re.search(r'^needed="\n(.*?)"$', (root / "packaging/needs.sh").read_text(encoding="utf-8"), re.S | re.M)[1].splitlines()
    tap.case("rows of the table", [row for row in rows if set(row.split()[0].split(",")) - PURPOSES or
                                   not all(ITEM.fullmatch(item.replace("${cc%% *}", "cc").replace("$dem", "dem")) for item in row.split(" ", 1)[1].split("; "))])
    with tempfile.TemporaryDirectory() as folder:
        for name in TOOLS:
            os.symlink(shutil.which(name), os.path.join(folder, name))
        found = missing(root, folder, "base")
        wanted = ["meson", "dpkg-dev", "ninja-build", "gcc", "libc6-dev", "pkg-config", "libcmocka-dev"]
        tap.case("nothing is there", [] if found[:7] == wanted else [str(found)])
        found = missing(root, folder, "check")
        tap.case("what check needs", [] if {"clang", "libpng-dev", "spin", "abigail-tools"} <= set(found) and "meson" not in found else [str(found)])
        for row in rows:
            for name in re.findall(r"c:([^ ;]+)", row.replace("${cc%% *}", "cc")):
                pathlib.Path(folder, name.split("|")[-1]).touch(mode=0o755)
        found = missing(root, folder, "base", "long", "coverage", "prove")
        tap.case("commands that are there", [] if not {"meson", "chromium", "groff", "gcovr", "why3", "gcc"} & set(found) else [str(found)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
