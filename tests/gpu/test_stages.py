#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The schedule of `./dev gpu` keeps its order and its deadline, and goes on where an earlier call stopped.

usage: test_stages.py

The stages here are commands of the shell. Builds are commands too, since nothing has to be built for them.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lint")]
import stages  # noqa: E402
from stages import Case, Stage  # noqa: E402
from tap import Tap  # noqa: E402


class Schedule(stages.Stages):
    """A schedule whose stages are given as {priority: {name: command}}. A stage's name is also written to the file `ran`."""

    case_limit = 2

    def __init__(self, work, commands, seconds=0, builds=None, out=None):
        self.commands, self.built = commands, builds or {}
        super().__init__(argparse.Namespace(fake=False, tests="/nowhere", benches="/nowhere", work=str(work), out=out and str(out),
                                            seconds=seconds, began=time.time()))

    def stage(self, name, command):
        run = f"echo {name} >>{self.work}/ran; {command}"
        return Stage(name, 2, lambda: [Case(name, ["sh", "-c", run], self.case_limit, folder="/")])

    def stages(self):
        return {priority: [self.stage(name, command) for name, command in named.items()] for priority, named in self.commands.items()}

    def builds(self, stage):
        return [Case("build", ["sh", "-c", self.built[stage.name]], 60, folder="/")] if stage.name in self.built else []

    def call(self, *names):
        """Runs the schedule and returns (exit status, names of the stages that ran, output)."""
        ran, output = pathlib.Path(self.work, "ran"), io.StringIO()
        ran.write_text("")
        with contextlib.redirect_stdout(output):
            status = self.run(names)
        return status, ran.read_text().split(), output.getvalue()

    def status_of(self, name):
        return {line.split()[0]: line.split()[1] for line in self.lines()}.get(name)


def differs(what, is_, wanted):
    return [] if is_ == wanted else [f"{what}: {is_}, not {wanted}"]


def order(work):
    commands = {"A": {"a1": "true", "a2": "true"}, "B": {"b": "true"}, "C": {"c": "true"}}
    status, ran, _ = Schedule(work, commands).call()
    problems = differs("order", ran, ["a1", "a2", "b", "c"]) + differs("status", status, 0)
    problems += differs("a second call", Schedule(work, commands).call()[:2], (0, []))
    problems += differs("a stage that is named", Schedule(work, commands).call("b")[1], ["b"])
    return problems + differs("a priority that is named", Schedule(work, commands).call("A", "c")[1], ["a1", "a2", "c"])


def failures(work):
    commands = {"A": {"bad": "false", "good": "true", "absent": "exit 77"}}
    status, ran, _ = Schedule(work, commands).call()
    problems = differs("ran", ran, ["bad", "good", "absent"]) + differs("status", status, 1)
    problems += differs("the next call", Schedule(work, commands).call()[:2], (0, []))
    problems += differs("failed", Schedule(work, commands).status_of("bad"), "failed")
    return problems + differs("named", Schedule(work, commands).call("bad")[1], ["bad"])


def deadline(work):
    commands = {"A": {"quick": "true", "slow": "sleep 30", "late": "true"}}
    # The build takes so long that the stage's own limit comes after the deadline.
    slow = Schedule(work, commands, seconds=2.5, builds={"slow": "sleep 1"})
    began = time.monotonic()
    status, ran, output = slow.call()
    took = time.monotonic() - began
    problems = differs("ran", ran, ["quick", "slow"]) + differs("status", status, 0)
    problems += differs("cut", slow.status_of("slow"), "cut")
    problems += differs("ends at the deadline", took < 5, True)
    problems += differs("said of the last stage", "late           not begun" in output, True)
    commands["A"]["slow"] = "true"
    again = Schedule(work, commands)
    problems += differs("the next call", again.call()[:2], (0, ["slow", "late"]))
    return problems + differs("resumed", again.status_of("slow"), "ok")


def too_slow(work):
    """A program that its own limit ends has failed, because it would take as long again."""
    schedule = Schedule(work, {"A": {"slow": "sleep 30"}}, seconds=2.5, builds={"slow": "sleep 1"})
    schedule.case_limit = 0.3
    return differs("status", schedule.call()[0], 1) + differs("failed", schedule.status_of("slow"), "failed")


def killed(work):
    commands = {"A": {"killed": "kill -9 $$", "next": "true"}}
    schedule = Schedule(work, commands)
    problems = differs("ran", schedule.call()[:2], (0, ["killed", "next"])) + differs("killed", schedule.status_of("killed"), "cut")
    problems += differs("the next call", Schedule(work, commands).call()[1], ["killed"])
    # The machine may also have ended the schedule itself, which then left this line.
    schedule.note("next           cut         0.0 s  begun and never ended, at abc")
    return problems + differs("a schedule that was ended", Schedule(work, commands).call()[1], ["killed", "next"])


def begun(work):
    """While a stage runs, the summary says that it did not end."""
    schedule = Schedule(work, {"A": {"looks": f"grep -q '^looks  *cut ' {work}/summary.txt"}})
    return differs("status", schedule.call()[0], 0)


def builds(work):
    commands = {"A": {"first": "true", "needs": "true", "last": "true"}}
    broken = Schedule(work, commands, builds={"needs": "exit 3"})
    problems = differs("a build that fails", broken.call()[:2], (1, ["first", "last"])) + differs("needs", broken.status_of("needs"), "failed")
    slow = Schedule(work, commands, seconds=3, builds={"needs": "sleep 30"})
    problems += differs("a slow build", slow.call("needs")[:2], (0, [])) + differs("needs", slow.status_of("needs"), "cut")
    return problems + differs("the next call", Schedule(work, commands).call()[1], ["needs"])


def carried(work):
    commands = {"A": {"bad": "false", "good": "true", "killed": "kill -9 $$"}, "B": {"other": "true"}}
    out = work / "out"
    Schedule(work / "first", {"A": commands["A"]}, out=out).call()
    problems = differs("files of $OUT", sorted(path.name for path in out.iterdir()), ["gpu.tar.gz", "summary.txt"])
    fresh = work / "fresh"
    shutil.copytree(out, fresh)
    problems += differs("a fresh machine", Schedule(fresh, commands).call()[1], ["killed", "other"])
    alone = work / "alone"
    alone.mkdir()
    shutil.copy(out / "gpu.tar.gz", alone)
    second = Schedule(alone, commands, out=work / "out2")
    problems += differs("the archive alone", second.call()[1], ["killed", "other"])
    problems += differs("logs of both machines", sorted(path.stem for path in alone.glob("*.log")), ["bad", "good", "killed", "other"])
    return problems


def commit(work):
    """Each file of records and each line of the summary names the commit at which it was measured, and keeps it."""
    record = '[\\n{"bench": "environment", "cpu": "x"},\\n{"case": "y", "value": 1}\\n]'
    commands = {"A": {"bench": f"printf '{record}' >{work}/bench.json", "peers": f"echo '[{{\"case\": \"y\"}}' >{work}/peers.json"}}
    os.environ["FERRY_GPU_COMMIT"] = "0123abcd"
    try:
        schedule = Schedule(work, commands)
        schedule.call()
        os.environ["FERRY_GPU_COMMIT"] = "4567efab"
        Schedule(work, commands | {"B": {"other": "true"}}).call()
    finally:
        del os.environ["FERRY_GPU_COMMIT"]
    records = {name: json.loads((work / name).read_text()) for name in ("bench.json", "peers.json")}
    problems = differs("bench", records["bench.json"], [{"bench": "environment", "cpu": "x", "commit": "0123abcd"}, {"case": "y", "value": 1}])
    problems += differs("peers", records["peers.json"][0], {"bench": "environment", "commit": "0123abcd"})
    return problems + differs("summary", [line.split()[-1] for line in schedule.lines()], ["0123abcd", "0123abcd", "4567efab"])


def real(work):
    """The stages of `./dev gpu`: what only a GPU can answer comes first, without a long build, and none has the allocator of tests."""
    real_stages = stages.Stages(argparse.Namespace(fake=False, tests="/nowhere", benches="/nowhere", work=str(work), out=None, seconds=None,
                                                   began=time.time()))
    by_priority = real_stages.stages()
    first = by_priority["A"]
    problems = differs("first", [stage.name for stage in first[:2]], ["info", "probe"])
    problems += differs("suites to build for A", [stage.suites for stage in first if stage.suites], [])
    problems += differs("a deadline by default", 560 < real_stages.deadline - time.monotonic() <= 570, True)
    names = [stage.name for named in by_priority.values() for stage in named]
    problems += differs("names twice", sorted(names), sorted(set(names)))
    longest = max(stage.limit for named in by_priority.values() for stage in named)
    return problems + differs("a stage that no call can begin", longest < stages.SECONDS, True)


def main():
    tap = Tap()
    for name, check in (("stages run in the order of their priorities, each once", order), ("what failed is not tried again unless it is named", failures),
                        ("the deadline cuts a stage, which the next call runs again", deadline), ("a program beyond its own limit has failed", too_slow),
                        ("what the machine killed is tried again", killed), ("a stage counts as cut while it runs", begun),
                        ("a build costs the stages that need it alone", builds), ("a folder that is carried to a fresh machine resumes", carried),
                        ("results name their commit", commit), ("the stages of ./dev gpu", real)):
        with tempfile.TemporaryDirectory() as folder:
            tap.case(name, check(pathlib.Path(folder)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
