#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the tests that run a line of the library, those that spend most of theirs in its file first.

usage: who_tests.py BUILD-FOLDER FILE:LINE

BUILD-FOLDER is a build by gcc with -Db_coverage=true. Each test of the suites that `./dev coverage` counts is run once, and what it
runs is kept in BUILD-FOLDER/who-tests.json until the programs change. A test that is not built, or that ends by a signal, counts
nothing. The exit status is 0 where a test runs the line.
"""

import concurrent.futures
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lint"))
from heads import head  # noqa: E402
SUITES = {"unit", "device", "convert", "buffer", "exchange", "process", "misuse", "cli"}
LIMIT = 300  # seconds of one test


class Test:
    """A test of a build folder, and its source."""

    def __init__(self, entry, sources):
        self.name, self.suites, self.command = entry["name"], {suite.split(":")[-1] for suite in entry["suite"]}, entry["cmd"]
        self.environment = {**os.environ, **entry["env"]}
        scripts = [word for word in entry["cmd"][1:] if word.endswith(".py")]
        self.source = sources.get(entry["cmd"][0]) or (scripts[0] if scripts else "")

    def run(self, folder):
        """Lines of each source that the test runs: {name: [line]}."""
        with tempfile.TemporaryDirectory() as scratch:
            # A counter that two processes write is merged; one that a crash left is not there.
            environment = {**self.environment, "GCOV_PREFIX": scratch, "FERRY_CACHE_DIR": ""}
            try:
                subprocess.run(self.command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=LIMIT, check=False)
            except subprocess.TimeoutExpired:
                pass
            return lines_of(scratch)


def lines_of(scratch):
    """What gcov reads from the counters of one test."""
    counters = sorted(pathlib.Path(scratch).rglob("*.gcda"))
    for counter in counters:
        notes = pathlib.Path("/") / counter.relative_to(scratch).with_suffix(".gcno")
        if notes.exists():
            counter.with_suffix(".gcno").symlink_to(notes)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        if counters:
            subprocess.run(["gcov", "--json-format", "--hash-filenames", *map(str, counters)], cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
        for path in pathlib.Path(folder).glob("*.gcov.json.gz"):
            report = json.loads(gzip.decompress(path.read_bytes()))
            for file in report["files"]:
                name = os.path.normpath(os.path.join(report["current_working_directory"], file["file"]))
                found.setdefault(name, set()).update(line["line_number"] for line in file["lines"] if line["count"])
    return {name: sorted(lines) for name, lines in found.items() if lines}


def tests_of(folder):
    targets = json.loads((folder / "meson-info/intro-targets.json").read_text(encoding="utf-8"))
    sources = {}
    for target in targets:
        files = [source for group in target["target_sources"] for source in group.get("sources", []) if re.search(r"\.(c|cpp|f90)$", source)]
        sources.update({name: files[0] for name in target["filename"] if files})
    entries = json.loads((folder / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
    tests = [Test(entry, sources) for entry in entries]
    return [test for test in tests if test.suites & SUITES and shutil.which(test.command[0])]


def programs_digest(folder, tests):
    """Of the programs and of the library beside them."""
    digest = hashlib.sha256()
    for path in sorted({*(test.command[0] for test in tests), *(str(path) for path in folder.glob("src/*.so*") if path.exists())}):
        digest.update(path.encode() + str(os.stat(path).st_mtime_ns).encode())
    return digest.hexdigest()


def recorded(folder, tests):
    """{test: {source: [line]}}, from the last time where the programs are the same."""
    path, digest = folder / "who-tests.json", programs_digest(folder, tests)
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["of"] == digest:
            return known["tests"]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, lines in zip(tests, pool.map(lambda test: test.run(folder), tests)):
            found[test.name] = lines
            if sys.stderr.isatty():
                print(f"\r{len(found)} of {len(tests)} tests", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    path.write_text(json.dumps({"of": digest, "tests": found}), encoding="utf-8")
    return found


def head_of(source):
    """The beginning of a test file: the comment behind its licence."""
    if not source or not os.path.exists(source):
        return ""
    return re.split(r"(?<=\.)\s", " ".join(head(pathlib.Path(source).read_text(encoding="utf-8"))))[0]


def main():
    if len(sys.argv) != 3 or not re.fullmatch(r".+:\d+", sys.argv[2]):
        sys.exit(__doc__)
    folder, (file, line) = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2].rsplit(":", 1)
    wanted = os.path.abspath(file) if os.path.exists(file) else str(ROOT / file)
    tests = tests_of(folder)
    found = recorded(folder, tests)
    if not any(wanted in lines for lines in found.values()):
        print(f"No test runs anything of {file}; {len(found)} tests were run.")
        return 1
    programs = {}
    for test in tests:
        lines = found[test.name].get(wanted, [])
        if int(line) in lines:
            share = len(lines) / sum(map(len, found[test.name].values()))
            programs.setdefault(test.source, []).append((-share, test.name))
    for source, names in sorted(programs.items(), key=lambda item: min(item[1])):
        shown = os.path.relpath(source, ROOT) if source.startswith(str(ROOT)) else source
        print(f"{shown or 'a script'}: {head_of(source)}\n    " + ", ".join(name for _, name in sorted(names)))
    if not programs:
        print(f"No test runs line {line} of {file}. It may have no code: try a line of the function's body.")
    return 0 if programs else 1


if __name__ == "__main__":
    sys.exit(main())
