#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print the files that a build folder has to make for some of its tests.

usage: played.py BUILD-FOLDER [--suite SUITE...] [--no-suite SUITE...] [--folder FOLDER...] [--installed]

The programs of the suites' tests, with what these tests depend on; the libraries that take the place of drivers; everything of a
source folder; and what is installed. A build for a few suites then compiles no program that nothing runs there.
"""

import argparse
import json
import pathlib
import subprocess
import sys


def introspect(build, what):
    done = subprocess.run(["meson", "introspect", build, f"--{what}"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def needed_by_tests(build, suites, left_out):
    """The ids of targets that tests of the suites need, but those that also belong to a suite that is left out."""
    for test in introspect(build, "tests"):
        of = {suite.split(":", 1)[-1] for suite in test["suite"]}
        if of & suites and not of & left_out:
            yield from test["depends"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--suite", action="extend", nargs="+", default=[])
    parser.add_argument("--no-suite", action="extend", nargs="+", default=[])
    parser.add_argument("--folder", action="extend", nargs="+", default=[])
    parser.add_argument("--installed", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    # A changed meson.build makes what Meson wrote about the folder stale.
    subprocess.run(["ninja", "-C", build, "build.ninja"], stdout=sys.stderr, check=True)
    ids = set(needed_by_tests(build, set(arguments.suite), set(arguments.no_suite)))
    root = pathlib.Path(__file__).resolve().parents[1]
    folders = [root / folder for folder in [*arguments.folder, "tests/support"]]
    files = set()
    for target in introspect(build, "targets"):
        inside = target["build_by_default"] and any(pathlib.Path(target["defined_in"]).is_relative_to(folder) for folder in folders)
        if target["id"] in ids or inside or (arguments.installed and target["installed"]):
            files.update(pathlib.Path(file) for file in target["filename"])
    print("\n".join(sorted(str(file.relative_to(build)) for file in files if file.is_relative_to(build))))
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main())
