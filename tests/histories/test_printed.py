#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A printed history is a C program that does what the history did, and a seed gives the same history again.

usage: test_printed.py HISTORIES SOURCE-ROOT BUILD-ROOT CC...
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lint"))
from tap import Tap

HISTORIES, SOURCE, BUILD, *CC = sys.argv[1:]
LIBRARIES = ["tests/histories/libferry_histories.a", "tests/buffer/libferry_buffer_support.a", "tests/support/libferry_support.a",
             "tests/support/libferry_short_memory.a", "tests/support/libferry_convert_kernels.a", "src/libferry_core.a"]
WRAPPED = ["malloc", "calloc", "realloc", "aligned_alloc", "strdup", "vasprintf", "asprintf", "free"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def build(program, out):
    """Compiles and links the program. Returns the compiler's messages, or nothing on success."""
    archives = []
    for library in LIBRARIES:
        archives += [p for p in [os.path.join(BUILD, library)] if os.path.exists(p)]
    command = [*CC, "-std=c11", "-D_GNU_SOURCE", "-I", SOURCE, "-I", SOURCE + "/include", "-I", BUILD + "/include", program, "-o", out,
               "-Wl,--start-group", *archives, "-Wl,--end-group", "-Wl," + ",".join("--wrap=" + name for name in WRAPPED),
               "-lcmocka", "-lm", "-ldl", "-lpthread"]
    sanitizers = os.environ.get("HISTORIES_CFLAGS")
    done = run(*command, *(sanitizers.split() if sanitizers else []))
    return [] if done.returncode == 0 else done.stderr.splitlines()[:30]


def make(folder, seed, steps):
    path = os.path.join(folder, f"{seed}.bin")
    with open(path, "wb") as file:
        file.write(random.Random(seed).randbytes(8 * steps))
    return path


def printed(folder, tap):
    for seed, device, threads in ((1, "host", 1), (2, "emulated:2", 1), (3, "lazy:2", 3), (4, "fault lazy", 1), (5, "host", 2)):
        program, executable = os.path.join(folder, f"{seed}.c"), os.path.join(folder, f"p{seed}")
        done = run(HISTORIES, "--play", make(folder, seed, 150), "--device", device, "--threads", str(threads), "--print", program)
        problems = [] if done.returncode == 0 else [done.stdout, done.stderr]
        problems = problems or build(program, executable)
        if not problems:
            played = run(executable)
            problems = [] if played.returncode == 0 else [f"exit status {played.returncode}", played.stderr]
        tap.case(f"150 steps on {device} as C", problems)


# Calls in printed programs whose results differ between runs: a cancelled call may stop anywhere, and any thread may
# run out of memory.
UNSURE = re.compile(r"ferry_event_cancel|short_memory_arm")


def told(folder, seed):
    """Returns the printed program up to the first step whose outcome depends on time."""
    program = os.path.join(folder, "again.c")
    run(HISTORIES, "--play", make(folder, seed, 100), "--device", "lazy", "--print", program)
    return UNSURE.split(pathlib.Path(program).read_text(encoding="utf-8"))[0]


def repeated(folder, tap):
    first, second = ([told(folder, seed) for seed in range(10, 16)] for _ in range(2))
    tap.case("the same bytes are the same program", [] if first == second and sum(map(len, first)) > 10000 else ["they differ, or are empty"])


def refused(tap):
    for arguments in (["--seed"], ["--seed", "x"], ["--operations", "0"], ["--threads", "5"], ["--colour", "red"], ["--play", "/no/such"]):
        done = run(HISTORIES, *arguments)
        tap.case("refused: " + " ".join(arguments), [] if done.returncode == 2 and done.stderr else [str(done.returncode), done.stderr])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        repeated(folder, tap)
        # The archives may be built with sanitizers or coverage. Printed programs must then be compiled with Meson's
        # flags.
        if "HISTORIES_CFLAGS" in os.environ or not instrumented():
            printed(folder, tap)
        refused(tap)
    return tap.end()


def instrumented():
    listing = run("nm", os.path.join(BUILD, "src/libferry_core.a")).stdout
    return any(mark in listing for mark in ("__asan_init", "__msan_init", "__tsan_init", "__ubsan", "__gcov_init"))


if __name__ == "__main__":
    sys.exit(main())
