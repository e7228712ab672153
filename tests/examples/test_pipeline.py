# SPDX-License-Identifier: MIT
"""pipeline with small files, on the device that FERRY_DEVICE names: its report, its progress, and what it leaves behind.

usage: test_pipeline.py PIPELINE
"""

import os
import pty
import re
import signal
import subprocess
import sys
import time

from support import run, run_cases

PROGRAM = sys.argv[1]
DEVICE = os.environ.get("FERRY_DEVICE", "")
CHUNK = 4 << 20


def number(text, name):
    return float(re.search(rf"^{name} +([\d.]+)", text, re.M).group(1))


def expect_clean(folder):
    assert os.listdir(folder) == [], os.listdir(folder)


def succeed(folder, *arguments):
    process = run(PROGRAM, *arguments, "--folder", folder)
    assert process.returncode == 0 and process.stderr == "", process.stderr
    assert re.search(r"^checksum +[0-9a-f]{16}, as it should be$", process.stdout, re.M), process.stdout
    expect_clean(folder)
    return process.stdout


def test_report(folder):
    text = succeed(folder, "40")
    assert re.search(rf"^device +\S.* \({DEVICE.split(':')[0]}\), limited to 256 MiB$", text, re.M), text
    assert re.search(rf"^file +{40 << 20} bytes in 10 chunks, 0 bytes around the page cache$", text, re.M), text
    load, kernel, store, elapsed = (number(text, name) for name in ("load", "kernel", "store", "elapsed"))
    assert min(load, kernel, store, elapsed) > 0 and max(load, kernel, store) <= elapsed, text
    assert abs(number(text, "overlap") - (load + kernel + store) / elapsed) <= 0.011, text


def test_memory_does_not_grow(folder):
    small, large = (number(succeed(folder, size), "memory") for size in ("16", "400"))
    assert small == large <= 4 * CHUNK * 1.125, (small, large)


def test_chunks_of_any_size(folder):
    assert " in 23 chunks" in succeed(folder, "1", "--chunk", "45")
    assert " in 1 chunks" in succeed(folder, "1", "--chunk", "65536")


def test_around_the_page_cache(folder):
    text = succeed(folder, "8", "--direct")
    direct = int(re.search(r"(\d+) bytes around the page cache", text).group(1))
    # The number of bytes is 0 if the file system, or the alignment of the device's memory, does not allow direct
    # transfers.
    assert 0 <= direct <= 2 * (8 << 20), text


def test_progress_on_a_terminal(folder):
    leader, follower = pty.openpty()
    process = subprocess.run([PROGRAM, "20", "--folder", folder], stderr=follower, stdout=subprocess.PIPE, check=False, timeout=100)
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert process.returncode == 0
    percents = [int(percent) for percent in re.findall(r"\[#* *\] +(\d+) %", shown)]
    assert percents == sorted(percents) and percents[-1] == 100 and len(percents) <= 5, shown


def test_interrupt(folder):
    with subprocess.Popen([PROGRAM, "4096", "--folder", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not any("output" in files for _, _, files in os.walk(folder)) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "cancelled" in errors and errors.count("\n") == 1, (process.returncode, errors)
    expect_clean(folder)


def test_bad_arguments(folder):
    for arguments in (["0"], ["-1"], ["1.5"], ["x"], ["1", "2"], ["--chunk"], ["--chunk", "0"], ["--chunk", "4k"], ["--folder"],
                      ["--sink"], [""], ["99999999999999999999"]):
        process = run(PROGRAM, *arguments, TMPDIR=folder)
        assert process.returncode == 2, arguments
        assert process.stderr.count("\n") == 1 and process.stdout == "", arguments
    process = run(PROGRAM, "--help")
    assert process.returncode == 0 and "usage" in process.stdout and process.stderr == ""
    expect_clean(folder)


def test_folders_that_cannot_be_used(folder):
    for bad in (os.path.join(folder, "missing"), "/dev/null", "x" * 600):
        process = run(PROGRAM, "1", "--folder", bad)
        assert process.returncode == 1 and process.stderr.count("\n") == 1, (bad, process.stderr)
        assert bad[:100] in process.stderr, process.stderr


def test_absent_device(folder):
    process = run(PROGRAM, "1", "--folder", folder, FERRY_DEVICE="abacus")
    assert process.returncode == 1 and process.stderr.count("\n") == 1 and "abacus" in process.stderr, process.stderr
    expect_clean(folder)


run_cases([(name.removeprefix("test_").replace("_", " "), function) for name, function in list(globals().items())
           if name.startswith("test_")])
