#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the ferry command prints and returns.

usage: test_cli.py COMMAND VERSION FAKECUFILE
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

ABSENT = "/dev/null/absent/libcuda.so.1"  # a CUDA driver that does not exist
INFO_MEMBERS = {"command", "schema", "version", "header_version", "devices", "cuda", "why_no_cuda", "hip", "why_no_hip", "cufile", "why_no_cufile",
                "kernel_cache", "why_no_kernel_cache", "places"}
PLACE_MEMBERS = {"place", "kind", "name", "native", "coherent", "architecture", "driver_version", "target", "capability_bits",
                 "capabilities", "memory"}


class Command:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, device=None, libraries=None, cache=None):
        environment = {k: v for k, v in os.environ.items() if k != "FERRY_DEVICE"}
        environment["FERRY_CUDA_LIBRARY"] = ABSENT
        if device is not None:
            environment["FERRY_DEVICE"] = device
        if cache is not None:
            environment["FERRY_CACHE_DIR"] = cache
        if libraries is not None:
            environment["LD_LIBRARY_PATH"] = f"{libraries}:{environment.get('LD_LIBRARY_PATH', '')}"
        return subprocess.run([self.path, *arguments], env=environment, capture_output=True, text=True, check=False)


def expect(*conditions):
    """Problems of a case: the descriptions of the conditions that do not hold."""
    return [text for holds, text in conditions if not holds]


def check_words(tap, ferry, version):
    done = ferry("--version")
    tap.case("--version", expect(
        (done.stdout == f"ferry {version}\n", done.stdout), (done.returncode == 0, "exit status")))
    done = ferry("-h")
    tap.case("-h", expect(("info" in done.stdout, "does not name info"), (done.returncode == 0, "exit status")))
    done = ferry("info", "--help")
    tap.case("info --help", expect(
        ("--json" in done.stdout, "does not name --json"), (done.returncode == 0, "exit status")))
    for arguments in ([], ["nothing-like-that"], ["info", "--nothing-like-that"], ["info", "surplus"]):
        done = ferry(*arguments)
        tap.case(f"wrong use: {' '.join(arguments) or 'no command'}", expect(
            (done.returncode == 2, f"exit status {done.returncode}"), (done.stdout == "", "something on standard output"),
            ("usage:" in done.stderr, "no usage on standard error")))


def check_place(place, number):
    memory = place.get("memory", {})
    return expect(
        (set(place) == PLACE_MEMBERS, f"members {sorted(place)}"),
        (place["place"] == number, "places are not in order"),
        (all(type(place[key]) is int for key in ("native", "capability_bits")), "numbers are not numbers"),
        (type(place["coherent"]) is bool, "coherent is no boolean"),
        (all(place[key] is None or type(place[key]) is int for key in ("architecture", "driver_version")), "versions"),
        (place["target"] is None or place["target"], "the target is an empty text"),
        (bin(place["capability_bits"]).count("1") == len(place["capabilities"]), "a capability has no name"),
        (set(memory) == {"total_bytes", "free_bytes", "used_bytes"}, f"memory members {sorted(memory)}"),
        (all(type(value) is int for value in memory.values()), "memory is not in numbers"),
        (memory["free_bytes"] + memory["used_bytes"] == memory["total_bytes"] > 0, "free + used = total does not hold"))


def check_json(tap, ferry, version, arguments, device, kinds):
    done = ferry("info", "--json", *arguments, device=device)
    name = f"info --json {' '.join(arguments)} FERRY_DEVICE={device}"
    if done.returncode != 0:
        tap.case(name, [f"exit status {done.returncode}", done.stderr])
        return
    info = json.loads(done.stdout)
    problems = expect(
        (set(info) == INFO_MEMBERS, f"members {sorted(info)}"), (info["schema"] == 1, "schema"),
        (info["version"] == info["header_version"] == version, "version"),
        ([place["kind"] for place in info["places"]] == kinds, f"kinds {[place['kind'] for place in info['places']]}"),
        (info["cuda"] is False, "cuda"), (done.stderr == "", f"standard error: {done.stderr}"))
    for number, place in enumerate(info["places"]):
        problems += check_place(place, number)
    if not arguments and device is None:
        problems += expect((ABSENT in (info["why_no_cuda"] or ""), f"why_no_cuda: {info['why_no_cuda']}"))
    tap.case(name, problems)


def columns_of(lines):
    """The cells of a table: columns are at least two spaces apart."""
    return [re.split(r"  +", line.strip()) for line in lines]


def check_text(tap, ferry):
    done = ferry("info")
    tap.case("info says why there is no CUDA", expect(
        (done.returncode == 0, f"exit status {done.returncode} {done.stderr}"),
        (re.search(r"^CUDA +none: ", done.stdout, re.M) and ABSENT in done.stdout, done.stdout)))
    done = ferry("info", "-d", "emulated:2")
    info = json.loads(ferry("info", "-j", "-d", "emulated:2").stdout)
    head, places, capabilities = [part.splitlines() for part in done.stdout.split("\n\n")]
    titles, *rows = columns_of(places)
    wanted = [[str(place["place"]), place["kind"], str(place["native"]), place["name"], f"{place['memory']['total_bytes'] / 2**20:.0f} MiB"]
              for place in info["places"]]
    tap.case("info has a line for each place", expect(
        (titles == ["Place", "Kind", "Number", "Name", "Memory", "Free", "Driver", "Capability"], str(titles)),
        ([row[:5] for row in rows] == wanted, f"{rows} is not {wanted}"), (all(len(row) == 8 for row in rows), "cells are missing"),
        (not any(line.endswith(" ") for line in done.stdout.splitlines()), "spaces at the end of a line")))
    # Each title begins or ends in the same column as all cells below it.
    ends = [[match.span() for match in re.finditer(r"\S+(?: \S+)*", line)] for line in places]
    tap.case("info has straight columns", expect(*(
        (all(spans[column][0] == ends[0][column][0] for spans in ends) or all(spans[column][1] == ends[0][column][1] for spans in ends), titles[column])
        for column in range(8))))
    names, *answers = columns_of(capabilities)
    shown = {row[0]: row[1:] for row in answers}
    tap.case("info has a line for each capability", expect(
        (names == ["At place", "0", "1", "2"], str(names)), (len(head) >= 4, str(head)),
        (shown.pop("shares the host's memory", None) == ["yes", "-", "-"], str(shown)),
        (all(shown[name][place["place"]] == ("yes" if name in place["capabilities"] else "-") for name in shown for place in info["places"]), str(shown)),
        ("run-host-function" in shown, str(shown))))
    done = ferry("info", "-d", "cuda")
    tap.case("info -d of an absent device", expect(
        (done.returncode == 1, f"exit status {done.returncode}"), ("FERRY_ERROR_NO_DEVICE" in done.stderr, done.stderr)))
    done = ferry("info", "-d", "nonsense:x")
    tap.case("info -d of a malformed list", expect(
        (done.returncode == 1, f"exit status {done.returncode}"),
        ("FERRY_ERROR_INVALID_ARGUMENT" in done.stderr, done.stderr)))


def check_output(tap, ferry):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "info.json")
        done = ferry("info", "-j", "-d", "host", "-o", path)
        good = done.returncode == 0 and json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["schema"] == 1
        tap.case("info -o", expect((good, done.stderr), (done.stdout == "", "also on standard output")))
        done = ferry("info", "-o", os.path.join(folder, "no", "such", "folder"))
        tap.case("info -o where it cannot write", expect(
            (done.returncode == 1, f"exit status {done.returncode}"), ("no/such/folder: " in done.stderr, done.stderr)))
    full = subprocess.run(f"'{ferry.path}' info -d host >/dev/full", shell=True, capture_output=True, check=False, text=True)
    tap.case("info on a full disk", expect(
        (full.returncode == 1, f"exit status {full.returncode}"), (full.stderr.startswith("ferry info: standard output: "), full.stderr)))


def check_cufile(tap, ferry, fakecufile):
    """Found, found and not whole, and absent unless this machine has it."""
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "libcufile.so.0"
        library.symlink_to(fakecufile)
        info = json.loads(ferry("info", "-j", "-d", "host", libraries=folder).stdout)
        text = ferry("info", "-d", "host", libraries=folder).stdout
        tap.case("info with cuFile", expect(
            (info["cufile"] is True and info["why_no_cufile"] is None, str(info)), (re.search("^cuFile +found: ", text, re.M), text)))
        library.unlink()
        library.write_bytes(b"no library at all")
        info = json.loads(ferry("info", "-j", "-d", "host", libraries=folder).stdout)
        text = ferry("info", "-d", "host", libraries=folder).stdout
        tap.case("info with a cuFile that does not load", expect(
            (info["cufile"] is False and folder in info["why_no_cufile"], str(info)), (re.search("^cuFile +none: ", text, re.M), text)))


def check_kernel_cache(tap, ferry):
    """Named, without being made; or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernels")
        info = json.loads(ferry("info", "-j", "-d", "host", cache=path).stdout)
        text = ferry("info", "-d", "host", cache=path).stdout
        tap.case("info with a kernel cache", expect(
            (info["kernel_cache"] == path and info["why_no_kernel_cache"] is None, str(info)),
            (f"\nKernel cache  {path}\n" in text, text), (not os.path.exists(path), "it was made")))
        pathlib.Path(path).mkdir()
        os.chmod(path, 0o777)
        info = json.loads(ferry("info", "-j", "-d", "host", cache=path).stdout)
        text = ferry("info", "-d", "host", cache=path).stdout
        tap.case("info with a kernel cache that others could write", expect(
            (info["kernel_cache"] is None and "others may write" in info["why_no_kernel_cache"], str(info)),
            ("\nKernel cache  none: " in text, text)))


def main():
    ferry, version = Command(sys.argv[1]), sys.argv[2]
    tap = Tap()
    check_words(tap, ferry, version)
    check_json(tap, ferry, version, [], None, ["host", "host"])
    check_json(tap, ferry, version, ["-d", "host"], "emulated", ["host", "host"])
    check_json(tap, ferry, version, [], "emulated:2", ["host", "emulated", "emulated"])
    check_text(tap, ferry)
    check_output(tap, ferry)
    check_kernel_cache(tap, ferry)
    check_cufile(tap, ferry, pathlib.Path(sys.argv[3]).resolve())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
