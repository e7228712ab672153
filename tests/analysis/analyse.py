#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run one static analyser over src/, include/, cli/, mpi/, examples/ and python/, which cppcheck leaves out: it needs the macros of Python.h.

usage: analyse.py clang-tidy|cppcheck|gcc BUILD-FOLDER [OPTION-OF-CLANG-TIDY...]

The build folder has been built: its compile_commands.json says how each file is compiled, and its generated headers
are there. Findings go to standard output; the exit status says whether there were any.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "cli", "examples", "mpi")
COMPILED = (*FOLDERS, "python")

# cppcheck 2.10 does not know that a call writes its output whenever it returns FERRY_OK. It takes an mmap() over mapped
# memory for an allocation, and a munmap() of a part for a release. So its checks for uninitialized variables and leaks
# are suppressed. Compilers, the clang analyser and the sanitizers find such errors instead.
# It takes MAP_FAILED, a name in a list of errors, for the macro of mmap() even where no file defines it.
CPPCHECK = ["cppcheck", "--quiet", "--error-exitcode=1", "--std=c11", "--enable=warning,performance,portability",
            "--inline-suppr", "--library=posix,gnu", "--suppress=uninitvar", "--suppress=uninitStructMember",
            "--suppress=memleak", "--suppress=deallocret", "--suppress=leakReturnValNotUsed",
            "-D_GNU_SOURCE", "-DFERRY_API=", "-DFERRY_NODISCARD=", "-UMAP_FAILED"]

# gcc 12 reports a false leak if a block or a FILE is passed to a function whose code it does not see. The leak checks
# of the address sanitizer and of Valgrind find real leaks.
GCC = ["-O1", "-fanalyzer", "-Werror", "-Wno-analyzer-malloc-leak", "-Wno-analyzer-file-leak",
       "-fdiagnostics-path-format=none", "-fdiagnostics-color=never"]


def sources(build):
    """Files of ours, once each, with how they are compiled; the longest to analyse tend to be the largest."""
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = pathlib.Path(os.path.normpath(os.path.join(entry["directory"], entry["file"])))
        if path.suffix == ".c" and path.is_relative_to(ROOT) and not path.is_relative_to(build):
            if path.relative_to(ROOT).parts[0] in COMPILED:
                entries.setdefault(path, entry)
    return sorted(entries.items(), key=lambda item: -item[0].stat().st_size)


def tidy(build, path, _):
    return subprocess.run(["clang-tidy", "--quiet", "-p", build, *sys.argv[3:], path], capture_output=True, text=True)


def gcc(_, path, entry):
    """The same command without its output and dependency file, and with the analyser."""
    words, kept = shlex.split(entry["command"]), []
    while words:
        word = words.pop(0)
        if word in ("-o", "-MF", "-MQ"):
            words.pop(0)
        elif word not in ("-MD",) and not word.startswith("-O"):
            kept.append(word)
    return subprocess.run(kept + GCC + ["-o", "/dev/null"], cwd=entry["directory"], capture_output=True, text=True)


def cppcheck(build):
    folders = [str(ROOT / name) for name in FOLDERS]
    return subprocess.run(CPPCHECK + [f"-j{os.cpu_count()}", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{build}/include"] + folders)


def main():
    tool, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if tool == "cppcheck":
        return cppcheck(build).returncode
    work = {"clang-tidy": tidy, "gcc": gcc}[tool]
    files = sources(build)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda item: work(build, *item), files):
            if result.returncode != 0:
                failed += 1
                print(result.stdout + result.stderr)
    print(f"{len(files)} files, {failed} with findings")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
