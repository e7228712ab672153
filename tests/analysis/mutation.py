#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Break conditions of src/ one by one, and count how many of these defects the tests notice.

usage: mutation.py [WORK-FOLDER] [--count N] [--seed S] [--only PREFIX] [--again LOG] [--list] [--check]

A copy of the project is changed, never the project itself; a seed always picks the same places of the same sources.
Each change is built, and tests of the unit, device, buffer and misuse suites run until one fails: those of the changed
noun first, then all others, the quickest first. A change gets 90 s of processor time; a test that takes far longer than
on the unchanged project has noticed that it hangs. --again tries what survived in an earlier log. What does not compile,
or is in lines that this build leaves out, is not counted, and what tests/analysis/equivalent.txt explains is not drawn;
--check only looks whether all of that is there. The exit status is 0 at 95 % and above.
"""

import argparse
import bisect
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL = 0.95
SUITES = ("ferry:unit", "ferry:device", "ferry:buffer", "ferry:misuse")
OPTIONS = ["-Ddebug_checks=true", "-Dexamples=disabled", "-Dbench=disabled", "-Dcuda=disabled", "-Dcli=disabled"]
BUDGET = 90.0  # seconds of processor time for one change, so other load of the machine does not matter
SLOW = 45.0  # tests that take more seconds of processor time than this on the unchanged project are skipped
# Maps a word in the name of a source file to the words that its tests have in their names instead.
CALLED = {"access": "scopes", "after": "memory", "buffer": "create", "claim": "hazards", "copy": "copies", "element": "create",
          "place": "places", "plan": "batch", "resize": "map", "scope": "scopes", "store": "map", "stream": "async", "worker": "async",
          "event": "async", "call": "launch", "cache": "pool", "bring": "traffic fault", "move": "traffic fault", "migrate": "evict",
          "store_loss": "fault", "store_order": "fault", "store_copy": "pinning", "place_zero": "zero", "checked": "misuse",
          "holders": "messages", "watch": "trace", "watch_pages": "guard", "watch_waste": "waste"}

MASKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*'
                    r'|\b(?:_Static_assert|static_assert|assert)\([^;]*;', re.S | re.M)
# Statements that the mutation test leaves unchanged, because they decide nothing: messages, compile-time checks and
# frees. Asserts are left unchanged because they are themselves tests.
SKIPPED = re.compile(r"\b(assert|static_assert|_Static_assert|ferryi_log|ferryi_fail|snprintf|free)\s*\(")
# Comparisons in which `<` and `<=` are not exchanged, because both are right if the two sides are equal. They choose
# the larger or smaller of two values, or compare a time with the clock.
EITHER = re.compile(r"([\w.>\[\]-]+) [<>]=? ([\w.>\[\]-]+) \? (\1 : \2|\2 : \1)|deadline|_ns\b")
CHECKERS = ("src/pool/check.c",)  # these files are tests
FLIPS = (
    (re.compile(r" == "), " != "),
    (re.compile(r" != "), " == "),
    (re.compile(r" < "), " <= "),
    (re.compile(r" > "), " >= "),
    (re.compile(r" <= "), " < "),
    (re.compile(r" >= "), " > "),
    (re.compile(r" && "), " || "),
    (re.compile(r" \|\| "), " && "),
    (re.compile(r"(?<=[( ])!(?=[\w(])"), ""),
)


class Mutant:
    """`lines` are the lines that the change belongs to, as places in the text: those that its parentheses join."""

    def __init__(self, path, text, lines, begin, end, replacement):
        self.path, self.begin, self.end, self.replacement = path, begin, end, replacement
        self.line = text.count("\n", 0, begin) + 1
        first, last = lines
        self.before = " ".join(text[first:last].split())
        self.after = " ".join((text[first:begin] + replacement + text[end:last]).split())

    def __str__(self):
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"

    def explanation(self):
        """The change as a line of equivalent.txt, without the line's number."""
        return f"{self.path}: {self.before}  ->  {self.after}"


def joined_lines(masked):
    """Lines that parentheses join, as places in the text, in order."""
    depth, begin = 0, 0
    for match in re.finditer(r"[()\n]", masked):
        depth += {"(": 1, ")": -1, "\n": 0}[match.group()]
        if match.group() == "\n" and depth == 0:
            yield begin, match.start()
            begin = match.end()


def explanations():
    lines = (ROOT / "tests/analysis/equivalent.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith(("#", " "))}


def mutants(only, explained):
    """All possible changes except the explained ones, in a fixed order."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.c")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(only) or name in CHECKERS:
            continue
        text = path.read_text(encoding="utf-8")
        masked = MASKED.sub(lambda match: re.sub(r"[^\n]", "\0", match.group()), text)
        lines = list(joined_lines(masked))
        ends = [last for _, last in lines]
        for pattern, replacement in FLIPS:
            for match in pattern.finditer(masked):
                line = lines[bisect.bisect_left(ends, match.end())]
                mutant = Mutant(name, text, line, match.start(), match.end(), replacement)
                boundary = match.group().strip() in ("<", ">", "<=", ">=")
                if SKIPPED.search(mutant.before) or boundary and EITHER.search(mutant.before):
                    continue
                if mutant.explanation() not in explained:
                    found.append(mutant)
    return sorted(found, key=lambda mutant: (mutant.path, mutant.begin, mutant.replacement))


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def copy_project(work):
    """What is the same stays, with its time: what an earlier run built of a change is then older than what it put back."""
    tree = work / "tree"
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout.split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for path in [path for path in tree.rglob("*") if path.is_file() and path.relative_to(tree).as_posix() not in names]:
        path.unlink()
    for name in names:
        target = tree / name
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return tree


class Test:
    """One test of the build folder, run without Meson: it is asked for one at a time."""

    def __init__(self, folder, entry):
        self.name, self.suite, self.command = entry["name"], entry["suite"][0], entry["cmd"]
        self.folder, self.seconds = folder, None
        self.environment = {**os.environ, "MALLOC_PERTURB_": "165", "FERRY_DEBUG": "0", **entry["env"]}
        program = pathlib.Path(self.command[0])
        self.target = program.relative_to(folder).as_posix() if program.is_relative_to(folder) else None

    def run(self, limit):
        """"passed", "failed" or "hangs"."""
        process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return "passed" if process.wait(limit) in (0, 77) else "failed"
        except subprocess.TimeoutExpired:
            return "hangs"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def build(folder, targets=()):
    return run(["ninja", "-j2", "-C", folder, *sorted(targets)]).returncode == 0


def measured(folder, tree):
    """All tests that are used, with the time that each takes on the unchanged project."""
    entries = json.loads((folder / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
    tests = [Test(folder, entry) for entry in entries if entry["suite"][0] in SUITES]
    contents = hashlib.sha256()
    for path in sorted((*tree.glob("src/**/*.[ch]"), *tree.glob("tests/**/*.[ch]"))):
        contents.update(path.read_bytes())
    notes = folder / "mutation-times.json"
    known = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else {}
    if known.get("of") != contents.hexdigest():
        known = {"of": contents.hexdigest()}
    for test in tests:
        if test.name not in known:
            began = processor_seconds()
            outcome = test.run(10 * SLOW)
            if outcome == "failed":
                sys.exit(f"the unchanged project fails: {test.name}")
            seconds = processor_seconds() - began
            known[test.name] = seconds if outcome == "passed" and seconds <= SLOW else None
            notes.write_text(json.dumps(known), encoding="utf-8")
        test.seconds = known[test.name]
    return sorted((test for test in tests if test.seconds is not None), key=lambda test: test.seconds)


def is_near(test, path):
    """Whether a test is about the noun that the file is named after."""
    parts = pathlib.PurePosixPath(path)
    nouns = {parts.stem, parts.stem.split("_")[0]}
    nouns |= {word for noun in nouns for word in CALLED.get(noun, "").split()}
    if parts.parts[1] in ("pool", "device", "transfer", "kernel"):
        nouns |= {parts.parts[1]} | ({"engine"} if parts.parts[1] == "transfer" else set())
    return bool(nouns & set(re.split(r"[ _]", test.name)))


def processor_seconds():
    """Of all processes that were waited for."""
    times = os.times()
    return times.children_user + times.children_system


def objects(folder, path="src/*.c"):
    """Digests of what the compiler has made of a source file, or of all."""
    name = "_".join(pathlib.PurePosixPath(path).parts[1:])
    return {found: hashlib.sha256(found.read_bytes()).digest() for found in folder.glob(f"src/*/{name}.o")}


def caught_by(folder, tests, path, unchanged):
    """The first test that fails; None when none does in the time that there is."""
    end = processor_seconds() + BUDGET
    near = [test for test in tests if is_near(test, path)]
    for stage in (near, [test for test in tests if test not in near]):
        if not build(folder, {test.target for test in stage if test.target}):
            return "invalid"
        if objects(folder, path).items() <= unchanged.items():
            return "left out"
        for test in stage:
            if processor_seconds() >= end:
                return None
            outcome = test.run(max(SLOW, 10 * test.seconds))
            if outcome != "passed":
                return test.name + (", which hangs" if outcome == "hangs" else "")
    return None


def try_mutant(tree, folder, tests, unchanged, mutant):
    """"invalid", "left out", "survived", or the test that noticed."""
    target = tree / mutant.path
    text = target.read_text(encoding="utf-8")
    target.write_text(text[:mutant.begin] + mutant.replacement + text[mutant.end:], encoding="utf-8")
    try:
        return caught_by(folder, tests, mutant.path, unchanged) or "survived"
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
    return tree, folder, measured(folder, tree), objects(folder)


def survived_in(log):
    """Lines of an earlier run, without their line numbers, which may have changed."""
    lines = pathlib.Path(log).read_text(encoding="utf-8").splitlines()
    return {re.sub(r":\d+: ", ": ", line.removeprefix("survivor: "), count=1) for line in lines if line.startswith("survivor: ")}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("work", type=pathlib.Path, nargs="?", default=ROOT / "build/mutation")
    arguments.add_argument("--count", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="src/", help="files whose names begin so")
    arguments.add_argument("--again", metavar="LOG", help="only what survived in the log of an earlier run")
    arguments.add_argument("--list", action="store_true", help="print the changes and do nothing")
    arguments.add_argument("--check", action="store_true", help="look whether all explained changes are there, and do nothing")
    options = arguments.parse_args()
    explained = explanations()
    if options.check:
        missing = explained - {mutant.explanation() for mutant in mutants("src/", ())}
        for line in sorted(missing):
            print(f"there is no such change any more: {line}")
        return 1 if missing else 0
    drawn = mutants(options.only, explained)
    random.Random(options.seed).shuffle(drawn)
    if options.again:
        wanted = survived_in(options.again)
        drawn = [mutant for mutant in drawn if mutant.explanation() in wanted]
    if options.list:
        print(*drawn[:options.count], sep="\n")
        return 0

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tree, folder, tests, unchanged = prepare(options.work.resolve())
    tried, survivors = 0, []
    for mutant in drawn:
        if tried == options.count:
            break
        outcome = try_mutant(tree, folder, tests, unchanged, mutant)
        print(f"{outcome:40} {mutant}", flush=True)
        tried += outcome not in ("invalid", "left out")
        if outcome == "survived":
            survivors.append(mutant)
    for mutant in survivors:
        print(f"survivor: {mutant}")
    caught = tried - len(survivors)
    print(f"mutation: {caught} of {tried} caught, {100 * caught / max(tried, 1):.0f} %, seed {options.seed}")
    return 0 if tried and caught >= GOAL * tried else 1


if __name__ == "__main__":
    sys.exit(main())
