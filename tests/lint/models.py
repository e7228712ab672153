#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The functions that the comments of the models name are in the files that they name.

usage: models.py SOURCE-ROOT

The first comment of a model lists what it models: a path in `src`, then functions, then further files of the same folder or other
folders, each with a colon and its functions.
"""

import pathlib
import re
import sys

from tap import Tap

TOKEN = re.compile(r"src/[\w/]+(?:\.[ch])?|\b\w+\.[ch]:|\b[a-z]\w*(?=\(\))")


def problems_of(root, path):
    comment = path.read_text(encoding="utf-8").split("/*", 2)[2].split("*/")[0]
    problems, seen = [], 0
    for line in comment.splitlines():
        text = ""
        for token in TOKEN.findall(line):
            if token.startswith("src/") or token.endswith(":"):
                name = token.rstrip(":")
                found = [root / name] if token.startswith("src/") else sorted((root / "src").rglob(name))
                files = [f for entry in found for f in (entry.glob("*.c") if entry.is_dir() else [entry]) if f.exists()]
                problems += [] if files else [f"{path.name}: {name} is no file"]
                text = "\n".join(f.read_text(encoding="utf-8") for f in files)
            elif text:
                seen += 1
                if not re.search(rf"^{token}\(", text, re.M):
                    problems.append(f"{path.name}: {token}() is not there: {line.strip()}")
    return problems, seen


def main():
    root = pathlib.Path(sys.argv[1])
    tap, models = Tap(), sorted((root / "tests/model").glob("*.pml"))
    total = 0
    for path in models:
        problems, seen = problems_of(root, path)
        total += seen
        tap.case(f"{path.name} names functions that exist", problems)
    tap.case("there is something to check", [] if total > 40 else [f"only {total} functions were found"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
