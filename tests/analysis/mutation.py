#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Break conditions of src/ one by one, and count how many of these mistakes the tests notice.

usage: mutation.py WORK-FOLDER [--count N] [--seed S] [--only PREFIX] [--list]

A copy of the project is changed, never the project itself; a seed always picks the same places of the same sources.
Each change is built, and tests run until one fails: those of the changed module, then those of buffers on host,
emulated and lazy, then all others of the unit, device and buffer suites. What does not compile is not counted, and
what tests/analysis/equivalent.txt explains is not drawn. The exit status is 0 at 95 % and above.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL = 0.95
SUITES = ("ferry:unit", "ferry:device", "ferry:buffer")
OPTIONS = ["-Ddebug_checks=true", "-Dexamples=disabled", "-Dbench=disabled", "-Dcuda=disabled", "-Dcli=disabled"]
# Meson multiplies each test's own limit by it: a change that hangs is one that was noticed.
PATIENCE = "0.25"

MASKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
# Where nothing is decided: what only speaks, what the compiler checks, and asserts, which are themselves tests.
SKIPPED = re.compile(r"\b(assert|static_assert|_Static_assert|ferryi_log|ferryi_fail|snprintf|free)\s*\(")
# Either answer is right where both sides are equal: the larger or smaller of two, and the clock.
EITHER = re.compile(r"([\w.>\[\]-]+) [<>]=? ([\w.>\[\]-]+) \? (\1 : \2|\2 : \1)|deadline|_ns\b")
CHECKERS = ("src/pool/check.c",)  # tests themselves
FLIPS = (
    (re.compile(r" == "), " != "),
    (re.compile(r" != "), " == "),
    (re.compile(r" < "), " <= "),
    (re.compile(r" > "), " >= "),
    (re.compile(r" <= "), " < "),
    (re.compile(r" >= "), " > "),
    (re.compile(r" && "), " || "),
    (re.compile(r" \|\| "), " && "),
    (re.compile(r" \+ 1\b(?!\.)"), ""),
    (re.compile(r" - 1\b(?!\.)"), ""),
    (re.compile(r"(?<=[( ])!(?=[\w(])"), ""),
    (re.compile(r"(?<=\n)    +(?!return|goto|break|continue|case|default|else|if|for|while)[\w>.-]+\([^;{}\n]*\);(?=\n)"), "    ;"),
)


class Mutant:
    def __init__(self, path, text, begin, end, replacement):
        self.path, self.begin, self.end, self.replacement = path, begin, end, replacement
        self.line = text.count("\n", 0, begin) + 1
        first = text.rfind("\n", 0, begin) + 1
        last = text.find("\n", end)
        self.before = " ".join(text[first:last].split())
        self.after = " ".join((text[first:begin] + replacement + text[end:last]).split())

    def __str__(self):
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def mutants(only):
    """All changes there are, in a fixed order."""
    explained = set()
    for line in (ROOT / "tests/analysis/equivalent.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", " ")):
            explained.add(line)
    found = []
    for path in sorted((ROOT / "src").rglob("*.c")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(only) or name in CHECKERS:
            continue
        text = path.read_text(encoding="utf-8")
        masked = MASKED.sub(lambda match: re.sub(r"[^\n]", "\0", match.group()), text)
        for pattern, replacement in FLIPS:
            for match in pattern.finditer(masked):
                mutant = Mutant(name, text, match.start(), match.end(), replacement)
                boundary = match.group().strip() in ("<", ">", "<=", ">=")
                if SKIPPED.search(mutant.before) or boundary and EITHER.search(mutant.before):
                    continue
                if f"{name}: {mutant.before}  ->  {mutant.after}" not in explained:
                    found.append(mutant)
    return sorted(found, key=lambda mutant: (mutant.path, mutant.begin, mutant.replacement))


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def copy_project(work):
    tree = work / "tree"
    if tree.exists():
        shutil.rmtree(tree)
    for name in subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def build(folder):
    return run(["ninja", "-C", folder]).returncode == 0


def stages(folder, path):
    """Names of tests, in the order in which they are likely to notice a change of `path`."""
    tests = json.loads((folder / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
    tests = [(test["name"], test["suite"][0]) for test in tests if test["suite"][0] in SUITES]
    parts = pathlib.PurePosixPath(path)
    words = {parts.stem, parts.stem.split("_")[0], parts.parts[1]}
    near = [name for name, suite in tests if words & set(re.split(r"[ _]", name)) and suite == "ferry:unit"]
    if parts.parts[1] == "device":
        near += [name for name, suite in tests if suite == "ferry:device"]
    quick = [name for name, suite in tests if suite == "ferry:buffer" and re.search(r" on (host|emulated|lazy)$", name)]
    taken = set(near) | set(quick)
    return near, quick, [name for name, _ in tests if name not in taken]


def caught_by(folder, path):
    """The first tests that fail; None when all pass."""
    for names in stages(folder, path):
        if names:
            result = run(["meson", "test", "-C", folder, "--no-rebuild", "--maxfail", "1", "-t", PATIENCE] + names)
            if result.returncode != 0:
                return next(iter(re.findall(r"^ *\d+/\d+ +(?:ferry:\w+ / )?(.*?) +(?:FAIL|TIMEOUT|ERROR)\b", result.stdout, re.M)), "a test")
    return None


def try_mutant(tree, folder, mutant):
    """"invalid", "survived", or the test that noticed."""
    target = tree / mutant.path
    text = target.read_text(encoding="utf-8")
    target.write_text(text[:mutant.begin] + mutant.replacement + text[mutant.end:], encoding="utf-8")
    try:
        if not build(folder):
            return "invalid"
        return caught_by(folder, mutant.path) or "survived"
    finally:
        target.write_text(text, encoding="utf-8")


def prepare(work):
    work.mkdir(parents=True, exist_ok=True)
    tree, folder = copy_project(work), work / "build"
    if not (folder / "build.ninja").exists():
        result = run(["meson", "setup", folder, tree] + OPTIONS)
        if result.returncode != 0:
            sys.exit(result.stdout)
    if not build(folder):
        sys.exit("the unchanged project does not build")
    failing = caught_by(folder, "src/context.c")
    if failing:
        sys.exit(f"the unchanged project fails: {failing}")
    return tree, folder


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("work", type=pathlib.Path)
    arguments.add_argument("--count", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="src/", help="files whose names begin so")
    arguments.add_argument("--list", action="store_true", help="print the changes and do nothing")
    options = arguments.parse_args()
    drawn = mutants(options.only)
    random.Random(options.seed).shuffle(drawn)
    if options.list:
        print(*drawn[:options.count], sep="\n")
        return 0

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tree, folder = prepare(options.work.resolve())
    tried, survivors = 0, []
    for mutant in drawn:
        if tried == options.count:
            break
        outcome = try_mutant(tree, folder, mutant)
        print(f"{outcome:30} {mutant}", flush=True)
        tried += outcome != "invalid"
        if outcome == "survived":
            survivors.append(mutant)
    for mutant in survivors:
        print(f"survivor: {mutant}")
    caught = tried - len(survivors)
    print(f"mutation: {caught} of {tried} caught, {100 * caught / max(tried, 1):.0f} %, seed {options.seed}")
    return 0 if tried and caught >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
