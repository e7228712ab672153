# SPDX-License-Identifier: MIT
"""The records of benchmark programs have the promised form. Runs them with --quick: the numbers are not looked at.

usage: test_bench_records.py PROGRAM...
"""

import json
import numbers
import os
import sys

from support import run, run_cases

KEYS = ["bench", "case", "metric", "unit", "value", "peer", "peer_value", "ratio", "goal", "met"]
ENVIRONMENT = ["bench", "cpu", "cores", "compiler", "device", "driver", "version"]


def check_record(record, bench):
    assert list(record) == KEYS, record
    assert record["bench"] == bench, record
    assert all(isinstance(record[key], str) and record[key] for key in ("case", "metric", "unit")), record
    assert isinstance(record["value"], numbers.Real), record
    if record["peer"] is None:
        assert record["peer_value"] is None and record["ratio"] is None, record
    else:
        assert abs(record["ratio"] - record["value"] / record["peer_value"]) <= 1e-3 * record["ratio"], record
    assert (record["goal"] is None) == (record["met"] is None), record
    if record["goal"]:
        relation, limit = record["goal"].split()
        judged = record["value"] if record["peer"] is None else record["ratio"]
        expected = {"==": judged == float(limit), "<=": judged <= float(limit), ">=": judged >= float(limit)}[relation]
        # A record's ratio is rounded. So if the ratio is at the limit of the goal, the record may count as met or not
        # met.
        assert record["met"] == expected or abs(judged - float(limit)) < 1e-3 * float(limit), record


def records_of(program):
    def case(folder):
        path = os.path.join(folder, "records.json")
        process = run(program, "--quick", "--json", path)
        assert process.returncode == 0 and process.stderr == "", process.stderr
        with open(path, encoding="utf-8") as file:
            environment, *records = json.load(file)
        assert list(environment) == ENVIRONMENT and environment["bench"] == "environment", environment
        assert isinstance(environment["cores"], int), environment
        assert records
        for record in records:
            check_record(record, os.path.basename(program).removeprefix("bench_"))
        lines = process.stdout.splitlines()
        missing = [line for line in lines if line.startswith("no peer ")] # with its reason
        for line in missing:
            print("# " + line)
        assert len(lines) - len(missing) == 1 + len(records), process.stdout
    return case


def refuses_arguments(program):
    def case(folder):
        for arguments in (["--jsn", "x"], ["--json"], ["--json", os.path.join(folder, "missing", "x.json"), "--quick"]):
            process = run(program, *arguments)
            assert process.returncode == 1 and process.stderr.count("\n") == 1, (arguments, process.stderr)
    return case


run_cases([(f"{name} of {os.path.basename(program)}", make(program)) for program in sys.argv[1:]
           for name, make in (("records", records_of), ("bad arguments", refuses_arguments))])
