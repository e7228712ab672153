#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `ferry replay` prints, draws and returns.

usage: test_replay.py COMMAND GENERATOR FAKECUDA
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"
# A log as RMM's logging resource adaptor writes it. It has two threads, one named stream, a failure, and blocks that
# are never freed.
RMM_LOG = HEADER + """\
140353471330112,13:45:01.000017,allocate,0x7f2b6c000000,4194304,0
140353471330112,13:45:01.000190,allocate,0x7f2b6c400000,1000,0
140353463977728,13:45:01.002201,allocate,0x7f2b6c400400,1048576,0x5581d05f2a10
140353471330112,13:45:01.003000,free,0x7f2b6c000000,4194304,0
140353463977728,13:45:01.004410,allocate failure,(nil),68719476736,0x5581d05f2a10
140353463977728,13:45:01.005000,free,0x7f2b6c400400,1048576,0x5581d05f2a10
140353471330112,13:45:01.006000,allocate,0x7f2b6c000000,3000000,0
"""
OLD_RMM_LOG = HEADER + """\
41,13:45:01,allocate,0x7f2b6c000000,4096,0
41,13:45:02:000190,free,0x7f2b6c000000,4096,0
"""
MEMBERS = {"command", "schema", "version", "log", "device", "limit_bytes", "allocations", "frees", "failures", "left_out",
           "lost_frees", "threads", "streams", "peak_live_bytes", "peak_live_blocks", "left_blocks", "seconds", "clock_ns",
           "pool", "over_time"}
POOL_MEMBERS = {"take", "give", "hits", "misses", "waits", "peak_given_bytes", "peak_reserved_bytes", "waste",
                     "fragmentation", "failures_saved", "out_of_memory", "out_of_memory_bytes", "first_out_of_memory"}
SVG = "{http://www.w3.org/2000/svg}"


class Ferry:
    """The command, in a temporary folder."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def __call__(self, *arguments, text=None, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FERRY_")}
        return subprocess.run([self.path, "replay", *map(str, arguments)], env={**environment, **variables}, input=text,
                              cwd=self.folder, capture_output=True, text=True, check=False)

    def json(self, *arguments, **variables):
        done = self("--json", *arguments, **variables)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name, text):
        path = pathlib.Path(self.folder, name)
        path.write_bytes(text.encode())
        return path


def expect(*conditions):
    """Problems of a case: the descriptions of the conditions that do not hold."""
    return [text for holds, text in conditions if not holds]


def check_words(tap, ferry, log):
    done = ferry("--help")
    tap.case("--help", expect((all(word in done.stdout for word in ("--limit", ".svg", "RMM")), done.stdout),
                              (done.returncode == 0, "exit status")))
    for arguments in ([], [log, log], ["--limit", "0", log], ["--limit", "12Q", log], ["--limit", "-1", log],
                      ["--limit", "999999999GiB", log], ["--allocator", "other", log], ["--nothing", log]):
        done = ferry(*arguments)
        tap.case("wrong use: " + (" ".join(getattr(word, "name", word) for word in arguments) or "no log"), expect(
            (done.returncode == 2, f"exit status {done.returncode}"), (done.stdout == "", "something on standard output"),
            ("usage:" in done.stderr, "no usage")))


def check_rmm(tap, ferry):
    log = ferry.write("rmm.csv", RMM_LOG)
    report = ferry.json("-d", "host", "--limit", "16MiB", log)
    pool = report["pool"]
    tap.case("a log of RMM", expect(
        (set(report) == MEMBERS, f"members {sorted(report)}"), (report["schema"] == 1, "schema"),
        ((report["allocations"], report["frees"], report["failures"]) == (4, 2, 1), "operations"),
        ((report["threads"], report["streams"], report["left_blocks"]) == (2, 2, 2), "threads, streams, left"),
        (report["peak_live_bytes"] == 4194304 + 1000 + 1048576, "peak"), (report["limit_bytes"] == 16 << 20, "limit"),
        (abs(report["seconds"] - 0.005983) < 1e-6, f"{report['seconds']} s"),
        (set(pool) == POOL_MEMBERS, f"members {sorted(pool)}"), (pool["take"]["count"] == 4, "takes"),
        (pool["hits"] + pool["misses"] == 4, "hits and misses"), (pool["out_of_memory"] == 0, "out of memory"),
        (pool["peak_given_bytes"] >= report["peak_live_bytes"], "given"), (0 <= pool["waste"] <= 0.125, "waste"),
        (pool["peak_reserved_bytes"] >= pool["peak_given_bytes"], "reserved"), (pool["failures_saved"] == 0, "64 GiB in 16 MiB"),
        (report["over_time"][-1]["requested_bytes"] == 3001000, "over time")))
    old = ferry.json(ferry.write("old.csv", OLD_RMM_LOG))
    tap.case("a log of an old RMM", expect((old["allocations"] == 1 and old["frees"] == 1, "operations"),
                                           (abs(old["seconds"] - 1.00019) < 1e-9, f"{old['seconds']} s")))
    done = ferry("-d", "host", "-", text=RMM_LOG)
    tap.case("text, from standard input", expect(
        (done.returncode == 0, done.stderr), ("4 allocations, 2 frees, 1 failures" in done.stdout, done.stdout),
        (re.search(r"^  Take: +median \d+ ns, p99 \d+ ns$", done.stdout, re.M), "times"),
        (re.search(r"^  Out of memory: +never$", done.stdout, re.M), "out of memory"),
        ("Failures in the log:" in done.stdout, "failures"), ("in the order of the lines" in done.stdout, "one thread")))


def check_devices(tap, ferry, log, fakecuda):
    for device in ("host", "emulated", "emulated:2"):
        report = ferry.json("--limit", "64MiB", "-d", device, log)
        tap.case(f"on {device}", expect((report["pool"]["take"]["count"] == 4, "takes"), (report["device"], "no name")))
    report = ferry.json("--limit", "64MiB", log, FERRY_DEVICE="emulated")
    tap.case("FERRY_DEVICE", expect(("emulated" in report["device"].lower(), report["device"])))
    report = ferry.json("--limit", "64MiB", "-d", "cuda", log, FERRY_CUDA_LIBRARY=fakecuda)
    tap.case("on cuda", expect((report["pool"]["take"]["count"] == 4, "takes"), (report["limit_bytes"] == 64 << 20, "limit")))
    done = ferry("-d", "cuda", log, FERRY_CUDA_LIBRARY="/dev/null/absent/libcuda.so.1")
    tap.case("an absent device", expect((done.returncode == 1, f"exit status {done.returncode}"), ("opening the device" in done.stderr, done.stderr)))


def check_out_of_memory(tap, ferry):
    log = ferry.write("short.csv", HEADER + "".join(
        f"1,10:00:00.{i:06},allocate,{4096 * (i + 1):#x},{3 << 20},0\n" for i in range(5)))
    report = ferry.json("--limit", "10MiB", "-s", log)
    pool = report["pool"]
    first = pool["first_out_of_memory"]
    tap.case("out of memory: when, why, and what would do", expect(
        (pool["out_of_memory"] == 2, pool["out_of_memory"]),
        (first["line"] == 5 and first["operation"] == 4 and first["bytes"] == 3 << 20, first),
        (first["live_bytes"] == 9 << 20, f"{first['live_bytes']} live"), ("3145728 bytes" in first["why"], first["why"]),
        (15 << 20 <= pool["smallest_limit_bytes"] <= 15.1 * (1 << 20), pool["smallest_limit_bytes"])))
    done = ferry("--limit", "10MiB", log)
    tap.case("out of memory, in words", expect(
        (done.returncode == 0, "exit status"), ("first at line 5 (operation 4): 3145728 bytes with 9437184 bytes live" in done.stdout, done.stdout)))


def check_bad(tap, ferry):
    lines = RMM_LOG.splitlines(True)
    cases = {
        "empty": ("", 1, "expected the header"),
        "no-header": ("".join(lines[1:]), 1, "expected one with Action, Pointer and Size"),
        "bad-size": (RMM_LOG.replace("1000", "10O0", 2), 3, "Size is '10O0', expected a decimal number"),
        "huge-size": (HEADER + "1,10:00:00.5,allocate,0x100,18446744073709551615,0\n", 2, "Size is"),
        "truncated": (RMM_LOG[:len("".join(lines[:3])) + 40], 4, "fields, expected 6"),
        "binary": ("\x7fELF\x02\x01\x01\0\0\0", 1, "expected one with"),
    }
    for name, (text, line, says) in cases.items():
        path = ferry.write(name + ".csv", text)
        done = ferry("-o", "never.svg", path)
        tap.case(f"bad: {name}", expect(
            (done.returncode == 1, f"exit status {done.returncode}"), (done.stdout == "", "something on standard output"),
            (done.stderr.startswith(f"{path}:{line}: ") and says in done.stderr, done.stderr),
            (not pathlib.Path(ferry.folder, "never.svg").exists(), "a picture")))
    for name in ("absent.csv", "."):
        done = ferry(name)
        tap.case(f"cannot be read: {name}", expect((done.returncode == 1, f"exit status {done.returncode}"),
                                                   (done.stderr.startswith(f"ferry replay: {name}: "), done.stderr)))
    done = ferry("-o", "no/such/folder.svg", ferry.write("good.csv", RMM_LOG))
    tap.case("a picture where none can be written", expect((done.returncode == 1, f"exit status {done.returncode}"),
                                                           ("no/such/folder.svg" in done.stderr, done.stderr)))
    for output in (["-o", "/dev/full"], ["-j", "-o", "/dev/full"]):
        done = ferry(*output, "good.csv")
        tap.case("a full disk: " + " ".join(output), expect(
            (done.returncode == 1, f"exit status {done.returncode}"), (done.stderr.startswith("ferry replay: /dev/full: "), done.stderr)))
    done = ferry(ferry.write("header.csv", HEADER), "-o", "header.svg")
    xml.etree.ElementTree.parse(os.path.join(ferry.folder, "header.svg"))
    tap.case("a header alone", expect((done.returncode == 0, done.stderr)))


def check_picture(tap, ferry, trace):
    odd = ferry.write('a "b" <c> & d.csv', trace.read_text(encoding="utf-8"))
    done = ferry("--limit", "1000MiB", "-o", "picture.svg", odd)
    root = xml.etree.ElementTree.parse(os.path.join(ferry.folder, "picture.svg")).getroot()
    texts = [element.text for element in root.iter(SVG + "text")]
    tap.case("a picture is well-formed, with axes, units and a legend", expect(
        (done.returncode == 0, done.stderr), (root.tag == SVG + "svg", root.tag), (texts[0].startswith(odd.name + " on "), texts[0]),
        (any(text.startswith("memory (") for text in texts), "no unit of memory"),
        (any(text.startswith("time in the log (") for text in texts), "no unit of time"),
        ({"live, requested", "live, given", "reserved", "fragmentation", "out of memory"} <= set(texts), f"{texts}"),
        (len(list(root.iter(SVG + "path"))) == 4, "paths"), ("Pool\n" in done.stdout, "the report is not printed")))
    untimed = ferry.write("untimed.csv", "Action,Pointer,Size\nallocate,0x100,1000\nfree,0x100,1000\n")
    ferry("-o", "untimed.svg", untimed)
    texts = [e.text for e in xml.etree.ElementTree.parse(os.path.join(ferry.folder, "untimed.svg")).getroot().iter(SVG + "text")]
    tap.case("without times the axis is operations", expect(("operations of the log" in texts, f"{texts}")))


def check_round_trip(tap, ferry, trace):
    """The replay of a trace logs what it does itself; a replay of that log does the same again."""
    first = ferry.json("-d", "host", "--limit", "2GiB", trace, FERRY_ALLOCATION_LOG="own")
    logs = sorted(path.name for path in pathlib.Path(ferry.folder).glob("own*"))
    tap.case("pools log to files of their own, contexts after the first behind a number", expect(
        (logs == ["own.2.host.pageable.csv", "own.3.host.pageable.csv", "own.host.pageable.csv"], f"{logs}")))
    second = ferry.json("-d", "host", "--limit", "2GiB", "own.2.host.pageable.csv")
    keys = ("allocations", "frees", "peak_live_bytes", "peak_live_blocks", "streams")
    tap.case("our own log tells the same again", expect(
        *((second[key] == first[key], f"{key}: {first[key]} and {second[key]}") for key in keys),
        # The first run wrote a log, the second did not. A run without a log uses caches of threads, so it cuts up slabs
        # in a different order. So the numbers of both runs may differ slightly.
        (abs(second["pool"]["misses"] - first["pool"]["misses"]) <= first["pool"]["misses"] / 10, "misses"),
        (second["left_out"] == 0 and second["lost_frees"] == 0 and second["left_blocks"] == 0, "something is not whole")))


def check_traces(tap, ferry, generator):
    paths = {}
    for name in ("steps", "tails", "fragmenting"):
        made = [subprocess.run([sys.executable, generator, name], capture_output=True, check=True).stdout for _ in range(2)]
        other = subprocess.run([sys.executable, generator, name, "2"], capture_output=True, check=True).stdout
        paths[name] = pathlib.Path(ferry.folder, name + ".csv")
        paths[name].write_bytes(made[0])
        report = ferry.json("-d", "host", "--limit", "2GiB", paths[name])
        tap.case(f"trace {name}: the same again, whole, and it runs", expect(
            (made[0] == made[1], "two runs differ"), (made[0] != other, "the seed does nothing"),
            (report["left_out"] + report["lost_frees"] + report["left_blocks"] == 0, "something is not whole"),
            (report["pool"]["out_of_memory"] == 0, "out of memory")))
    report = ferry.json("-d", "host", "-l", "1130MiB", paths["fragmenting"])  # 1.20 x what is live
    tap.case("the pool runs a fragmenting log in 1.2 times what is live", expect(
        (report["pool"]["out_of_memory"] == 0, report["pool"]["first_out_of_memory"])))
    return paths


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        ferry = Ferry(os.path.abspath(sys.argv[1]), folder)
        log = ferry.write("log.csv", RMM_LOG)
        check_words(tap, ferry, log)
        check_rmm(tap, ferry)
        check_devices(tap, ferry, log, os.path.abspath(sys.argv[3]))
        check_out_of_memory(tap, ferry)
        check_bad(tap, ferry)
        traces = check_traces(tap, ferry, os.path.abspath(sys.argv[2]))
        check_picture(tap, ferry, traces["fragmenting"])
        check_round_trip(tap, ferry, traces["tails"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
