#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A log that was recorded over fakecuda replays over fakecuda with equal results, and a result that differs is reported.

usage: test_recorder.py RECORDER FAKECUDA OLDER-FAKECUDA PROGRAM     PROGRAM uses the driver that FERRY_CUDA_LIBRARY names
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
from tap import Tap  # noqa: E402


def record(recorder, library, program, log):
    # In a checked run, which some builds make by default, a hit asks the driver whether the stream is captured.
    env = {**os.environ, "FERRY_DEBUG": "0", "FERRY_CUDA_LIBRARY": recorder, "FERRY_RECORD_LIBRARY": library, "FERRY_RECORD_FILE": str(log)}
    result = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
    return [] if result.returncode == 0 else (result.stdout + result.stderr).splitlines()[-20:]


def replay(log, library, *options):
    env = {**os.environ, "FAKECUDA_STRICT": ""}
    return subprocess.run([sys.executable, str(HERE / "replay.py"), str(log), library, *options], env=env, capture_output=True, text=True, check=False)


def calls_of(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def replay_problems(log, library, costs):
    result = replay(log, library, "--costs", str(costs))
    said = f"{len(calls_of(log))} of {len(calls_of(log))} calls replayed, 0 results differ"
    return [] if result.returncode == 0 and said in result.stdout else (result.stdout + result.stderr).splitlines()[-20:]


def broken_problems(log, library):
    """Checks that a changed result in the log is reported."""
    calls = calls_of(log)
    place = next(i for i, call in enumerate(calls) if call["call"] == "cuEventRecord")
    calls[place]["result"] = 400
    log.write_text("".join(json.dumps(call) + "\n" for call in calls))
    result = replay(log, library)
    wanted = [f"line {place + 1}: cuEventRecord", "400 in the log, 0 here", ", 1 results differ"]
    missing = [text for text in wanted if text not in result.stdout]
    return [f"not in the report: {text}" for text in missing] + ([] if result.returncode == 1 else [f"exit status {result.returncode}"])


def order_problems(log):
    """Checks that each handle in the log was numbered by an earlier line."""
    known, problems = set(), []
    for call in calls_of(log):
        for value in call["args"].values():
            if isinstance(value, dict) and isinstance(value.get("out"), str):
                known.add(value["out"].split(":")[0] if value["out"][0] == "m" and value["out"][1].isdigit() else value["out"])
            elif isinstance(value, str) and value.split(":")[0] in ("stream", "event", "context", "module", "function", "graph", "graph_exec") and value not in known:
                problems.append(f"{call['call']} has {value}, which no call returned")
    return problems[:10]


def group_problems(recorder, library):
    """Checks that the recorder lacks the symbols that the other driver lacks, because Ferry detects groups by their symbols."""
    program = "import ctypes, sys; d = ctypes.CDLL(sys.argv[1]); print([hasattr(d, n) for n in ('cuMemcpyBatchAsync_v2', 'cuMemcpyBatchAsync', 'cuInit')])"
    result = subprocess.run([sys.executable, "-c", program, recorder], env={**os.environ, "FERRY_RECORD_LIBRARY": library}, capture_output=True, text=True,
                            check=False)
    return [] if result.stdout == "[False, True, True]\n" else [result.stdout + result.stderr]


def cost_problems(library, costs):
    """Checks that a call takes as long as the table says, and that other calls are not slower."""
    names = [line.split()[0] for line in costs.read_text().splitlines()]
    costs.write_text("cuDriverGetVersion 30000000\ncuNoSuchCall 7\n")
    os.environ["FAKECUDA_COST"] = str(costs)
    driver, version = ctypes.CDLL(library), ctypes.c_int()
    begun = time.monotonic()
    driver.cuDriverGetVersion(ctypes.byref(version))
    took = time.monotonic() - begun
    return ([] if took >= 0.03 else [f"a call of 30 ms took {1000 * took:.3f} ms"]) + ([] if "cuEventRecord" in names else ["no cost of cuEventRecord"])


def main():
    recorder, library, older, program = sys.argv[1:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        log, costs = pathlib.Path(name) / "log", pathlib.Path(name) / "costs"
        tap.case("a program runs over the recorder", record(recorder, library, program, log))
        tap.case("handles have numbers", order_problems(log))
        tap.case("fakecuda answers a log of fakecuda as it did", replay_problems(log, library, costs))
        tap.case("a result that differs is reported", broken_problems(log, library))
        tap.case("the recorder lacks what its driver lacks", group_problems(recorder, older))
        tap.case("calls take as long as a table says", cost_problems(library, costs))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
