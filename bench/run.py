#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs benchmarks of a Meson build folder.

usage: run.py BUILD-FOLDER JSON-FILE(or "") [NAME...]

A NAME is the name of a benchmark or of a suite. Each benchmark is a program that prints a table for people, and writes
its records with --json FILE. JSON-FILE gets one array of all records, one in each line, which begins with one environment
record that names the commit. The exit status is 1 when a program failed or a NAME is unknown, and 77 when every program was skipped.
"""

import json
import os
import subprocess
import sys
import tempfile


def benchmarks(folder):
    text = subprocess.run(["meson", "introspect", "--benchmarks", folder], check=True, capture_output=True, text=True)
    return {entry["name"]: entry for entry in json.loads(text.stdout)}


def belongs(entry, name):
    """Whether `name` is the entry's name or suite. Meson writes a suite as PROJECT:SUITE."""
    return name == entry["name"] or any(suite.endswith(":" + name) for suite in entry["suite"])


def run(entry, path):
    environment = {**os.environ, **{k: v for k, v in entry["env"].items() if k not in os.environ}}
    return subprocess.run([*entry["cmd"], "--json", path], env=environment, check=False).returncode


def commit():
    """The commit that is measured, with a plus where files were changed since; None where there is no repository."""
    def git(*words):
        return subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), *words], capture_output=True, text=True, check=False)

    try:
        found = git("rev-parse", "--short=8", "HEAD")
        return found.stdout.strip() + ("+" if git("status", "--porcelain", "-uno").stdout else "") if found.returncode == 0 else None
    except OSError:
        return None


def write_records(path, records):
    """A JSON array with one record in each line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")


def main():
    folder, target, *names = sys.argv[1:]
    known = benchmarks(folder)
    unknown = [name for name in names if not any(belongs(entry, name) for entry in known.values())]
    if unknown or not known:
        what, there = ", ".join(unknown) or "at all", ", ".join(sorted(known))
        print(f"bench: no benchmark {what}; there are: {there}", file=sys.stderr)
        return 1
    environment, records, statuses = None, [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(known):
            if names and not any(belongs(known[name], wished) for wished in names):
                continue
            path = os.path.join(scratch, name + ".json")
            statuses.append(run(known[name], path))
            if statuses[-1] not in (0, 77):
                print(f"bench: {name} failed with exit status {statuses[-1]}", file=sys.stderr)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    for record in json.load(file):
                        if record["bench"] == "environment":
                            environment = environment or record
                        else:
                            records.append(record)
    if target:
        write_records(target, ([{**environment, "commit": commit()}] if environment else []) + records)
    if all(status == 77 for status in statuses):
        return 77
    return 1 if any(status not in (0, 77) for status in statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
