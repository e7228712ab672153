#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print, by module, the shares of lines and branches that gcovr's JSON report says were run.

usage: coverage.py REPORT.json
"""

import collections
import json
import pathlib
import sys


def module_of(path):
    parts = pathlib.PurePosixPath(path[path.index("src/"):]).parts
    return "/".join(parts[:2])


def main():
    counts = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]:
        for name in (module_of(file["file"]), "all"):
            for line in file["lines"]:
                if line.get("gcovr/noncode"):
                    continue
                branches = [branch["count"] > 0 for branch in line["branches"]]
                for at, value in enumerate((line["count"] > 0, 1, sum(branches), len(branches))):
                    counts[name][at] += value
    print(f"{'module':24} {'lines':>14} {'branches':>18}")
    for name, (lines, all_lines, branches, all_branches) in sorted(counts.items(), key=lambda item: (item[0] == "all", item)):
        print(f"{name:24} {lines:6}/{all_lines:<6} {100 * lines / max(all_lines, 1):5.1f} % "
              f"{branches:6}/{all_branches:<6} {100 * branches / max(all_branches, 1):5.1f} %")


if __name__ == "__main__":
    sys.exit(main())
