#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count the cases of a `meson test` run from its testlog.json, per suite.

usage: summary.py STAGE SUMS TESTLOG...

Prints one line when all passed; else also each failing test with the end of its output. Appends "PASSED FAILED"
to the file SUMS. Exit status 1 when a case failed or none ran. What prints TAP counts each of its cases, any other test
counts one.
"""

import collections
import json
import os
import re
import sys

PLAN = re.compile(r"^1\.\.\d+", re.M)
CASE = re.compile(r"^(not )?ok\b(.*)$", re.M)
SKIPPED = re.compile(r"#\s*skip", re.I)
GOOD = ("OK", "EXPECTEDFAIL")
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|^==\d+== \w")
BUDGETS = {"opencl": 3, "hip": 1, "nvrtc": 1, "clients": 1}  # minutes that a suite may take in ./dev check, as CONTRIBUTING.md says
SHOWN = 40  # number of lines that are shown of a failing test


def count(record):
    """(passed, failed, skipped) of one test."""
    if record["result"] == "SKIP":
        return 0, 0, 1
    output = record.get("stdout", "")
    if not PLAN.search(output):
        return (1, 0, 0) if record["result"] in GOOD else (0, 1, 0)
    passed = failed = skipped = 0
    for bad, rest in CASE.findall(output):
        if SKIPPED.search(rest):
            skipped += 1
        elif bad:
            failed += 1
        else:
            passed += 1
    # A program counts as failed if it crashed, timed out or was stopped by a sanitizer. A successful program with
    # skipped cases does not: cmocka 1.1.5 prints "not ok N # SKIP" for these cases, so Meson alone would report FAIL.
    if record["result"] not in GOOD and failed == 0 and not (skipped and record.get("returncode") == 0):
        failed = 1
    return passed, failed, skipped


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return [json.loads(line) for line in file if line.strip()]


def suites_of(name):
    return name.split(" / ")[0].split(":")[-1].split("+") if " / " in name else ["other"]


def suite_of(name):
    return suites_of(name)[0]


def tell(record):
    output = (record.get("stdout", "") + record.get("stderr", "")).splitlines()
    print(f"    {record['name']}: {record['result']}, exit status {record.get('returncode')}")
    reports = [number for number, line in enumerate(output) if REPORT.search(line)]
    start = reports[0] if reports else max(0, len(output) - SHOWN)
    for line in output[start:start + SHOWN]:
        print(f"    | {line}")


def wall_seconds(records):
    """From the first start to the last end: tests run side by side."""
    ends = [record.get("starttime", 0) + record.get("duration", 0) for record in records]
    return max(ends, default=0) - min((record.get("starttime", 0) for record in records), default=0)


def spent(records):
    """What suites with a budget took of it: seconds of tests, which all processors share."""
    for suite, minutes in BUDGETS.items():
        seconds = sum(record.get("duration", 0) for record in records if suite in suites_of(record["name"]))
        if seconds > 0:
            yield f"{suite} {seconds / 60 / (os.cpu_count() or 1):.1f} of {minutes} min"


def main():
    stage, sums, *logs = sys.argv[1:]
    suites = collections.OrderedDict()
    runs = [read(log) for log in logs]
    records = [record for run in runs for record in run]
    for record in records:
        total = suites.setdefault(suite_of(record["name"]), [0, 0, 0])
        for i, n in enumerate(count(record)):
            total[i] += n
    passed, failed, skipped = (sum(column) for column in zip(*suites.values())) if suites else (0, 0, 0)
    if not records:
        failed = 1
    parts = [f"{name} {s[0]}" + (f" ({s[1]} FAILED)" if s[1] else "") + (f" ({s[2]} skipped)" if s[2] else "")
             for name, s in suites.items()]
    seconds = sum(wall_seconds(run) for run in runs)
    print(f"{stage + ': tests':<34} {'ok' if failed == 0 else 'FAILED'}  {seconds:4.0f} s  " + ", ".join(parts))
    budgets = ", ".join(spent(records))
    if budgets:
        print(f"    budgets: {budgets}")
    if not records:
        print("    no test ran")
    for record in records:
        if count(record)[1]:
            tell(record)
    with open(sums, "a", encoding="utf-8") as file:
        file.write(f"{passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
