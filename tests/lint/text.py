#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What every file must have, and must not: licence lines, leftovers, paths of a machine, unlisted files, names of files
that are not there.

usage: text.py SOURCE-ROOT
"""

import os
import pathlib
import re
import subprocess
import sys

from tap import Tap

LICENSED = (".c", ".h", ".h.in", ".hpp", ".cpp", ".f90", ".cu", ".py", ".sh", ".build", ".j2", "meson_options.txt", ".in")
SCRIPTS = ("dev", ".ci/run")
TEXT = LICENSED + (".md", ".json", ".wrap", ".txt")
GENERATED = "tests/gen/golden/"
LEFTOVER = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + "XX)\\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}/])/(" + "work|root|ho" + r"me/\w+|Users)/")


# In these folders, comments may name only files of the project and the files in FOREIGN.
NAMING = ("src/", "bench/", "cli/", "mpi/", "tests/model/", "tests/support/", "tests/unit/", "tests/buffer/")
FOREIGN = {"cuda.h", "cmocka.h", "mman.h", "membarrier.h", "scale.cu", "step.py", "NAME.c"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FILE_NAME = re.compile(r"[\w./-]*\b\w+\.(?:c|h|cu|cuh|py|pml|j2)\b")


def project_files(root):
    """Tracked files and those that will be; every file where the root is no repository, as in a release tarball."""
    try:
        if not (root / ".git").exists():
            raise FileNotFoundError(root / ".git")
        listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                                 capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listing = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith(("build", ".git"))]
            listing += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted({path for path in listing if (root / path).is_file()})


def check_licences(root, paths):
    for path in paths:
        if not (path.endswith(LICENSED) or path in SCRIPTS) or path.startswith(GENERATED):
            continue
        head = (root / path).read_text(encoding="utf-8").splitlines()[:3]
        if not any("SPDX-License-Identifier: MIT" in line for line in head):
            yield f"{path}: no SPDX line in its first three lines"


def lines_of(root, paths):
    for path in paths:
        if path.endswith(TEXT) or path in SCRIPTS:
            for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
                yield path, number, line


def check_pattern(root, paths, pattern, complaint):
    for path, number, line in lines_of(root, paths):
        found = pattern.search(line)
        if found:
            yield f"{path}:{number}: {complaint}: {found.group(0)}"


def check_space(root, paths):
    for path, number, line in lines_of(root, paths):
        if line != line.rstrip() and not path.startswith(GENERATED):
            yield f"{path}:{number}: space at the end of the line"
        if "\t" in line and path.endswith((".c", ".h", ".hpp", ".cpp", ".f90", ".py", ".build")):
            yield f"{path}:{number}: a tab"


def listed_in(root, folder, pattern, name_of):
    """Sources of a folder that its meson.build does not name would silently not be built."""
    build = root / folder / "meson.build"
    if not build.is_file():
        return
    text = build.read_text(encoding="utf-8")
    for path in sorted((root / folder).glob(pattern)):
        if f"'{name_of(path)}'" not in text:
            yield f"{folder}/{path.name}: is not listed in {folder}/meson.build"


def check_listed(root):
    for folder in sorted(p.relative_to(root).as_posix() for p in (root / "src").rglob("*") if p.is_dir()):
        yield from listed_in(root, folder, "*.c", lambda path: path.name)
    yield from listed_in(root, "src", "*.c", lambda path: path.name)
    for folder in ("tests/unit", "tests/buffer"):
        yield from listed_in(root, folder, "test_*.c", lambda path: path.stem[len("test_"):])


def check_names(root, paths):
    """Names of files in comments. A name without a folder may be that of any file."""
    names = {path.rsplit("/", 1)[-1] for path in paths} | FOREIGN
    for path in paths:
        if not path.startswith(NAMING) or not path.endswith((".c", ".h", ".cu", ".cuh", ".pml")):
            continue
        text = (root / path).read_text(encoding="utf-8")
        for comment in COMMENT.finditer(text):
            for found in FILE_NAME.finditer(comment.group()):
                if found.group().rsplit("/", 1)[-1] not in names:
                    line = text.count("\n", 0, comment.start() + found.start()) + 1
                    yield f"{path}:{line}: there is no {found.group()}"


def main():
    root = pathlib.Path(sys.argv[1])
    paths = project_files(root)
    tap = Tap()
    tap.case("there is something to check", [] if len(paths) > 20 else ["hardly any file was found"])
    tap.case("licence lines", list(check_licences(root, paths)))
    tap.case("no leftovers", list(check_pattern(root, paths, LEFTOVER, "unfinished")))
    tap.case("no paths of a machine", list(check_pattern(root, paths, MACHINE_PATH, "a path of somebody's machine")))
    tap.case("no stray white space", list(check_space(root, paths)))
    tap.case("every source is listed", list(check_listed(root)))
    tap.case("files that comments name are there", list(check_names(root, paths)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
