#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles tests/device/check_cuda_abi.c against the cuda.h of several toolkits, with gcc and with clang.

usage: cuda_headers.py FOLDER [VERSION...]     FOLDER keeps the headers between runs

The headers come from the wheels of the CUDA runtime on PyPI, by `pip download`. A version that cannot be fetched is skipped
with the reason. The last line is "N passed, M failed"; exit status 1 when a compiler refused a header.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "tests" / "device" / "check_cuda_abi.c"
VERSIONS = ("11.8", "12.1", "12.2", "12.6", "12.8", "12.9", "13.0", "13.1")
COMPILERS = ("gcc", "clang")
PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_27_x86_64")


def find_pip():
    """A Python that has pip, or None."""
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        if shutil.which(python) and subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def package_of(version):
    """Since CUDA 13 the name of the package has no number."""
    major = version.split(".", 1)[0]
    return f"nvidia-cuda-runtime{'-cu' + major if int(major) < 13 else ''}=={version}.*"


def download(version, python, folder):
    """The wheel, or why there is none."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "--retries", "1", "--timeout", "20",
               "--only-binary", ":all:", "--dest", folder]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    result = subprocess.run([*command, package_of(version)], capture_output=True, text=True, timeout=300, check=False)
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    reason = (result.stderr.strip().splitlines() or ["pip has no reason"])[-1]
    return (wheels[0], "") if wheels else (None, reason)


def unpack(wheel, target):
    """Only the folder of cuda.h, which includes nothing from elsewhere."""
    with zipfile.ZipFile(wheel) as archive:
        header = next((name for name in archive.namelist() if name.endswith("/include/cuda.h")), None)
        if not header:
            return f"{wheel.name} has no cuda.h"
        target.mkdir(parents=True, exist_ok=True)
        (target / "cuda.h").write_bytes(archive.read(header))
    return ""


def fetch(version, python, folder):
    """(folder of cuda.h, ""), or (None, reason)."""
    target = folder / version
    if (target / "cuda.h").exists():
        return target, ""
    if not python:
        return None, "no Python has pip"
    with tempfile.TemporaryDirectory() as name:
        wheel, reason = download(version, python, name)
        reason = reason or unpack(wheel, target)
    return (None, reason) if reason else (target, "")


def compile_with(compiler, include):
    """What the compiler says against the header; nothing: it agrees."""
    result = subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-isystem", str(include), "-I", str(ROOT), str(SOURCE)],
                            capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


def main():
    folder, versions = pathlib.Path(sys.argv[1]), sys.argv[2:] or VERSIONS
    passed = failed = 0
    python = find_pip()
    for version in versions:
        include, reason = fetch(version, python, folder)
        if not include:
            print(f"skipped: CUDA {version}: {reason}")
            continue
        for compiler in COMPILERS:
            if not shutil.which(compiler):
                print(f"skipped: {compiler}, which is not installed")
                continue
            problems = compile_with(compiler, include)
            print(f"CUDA {version} with {compiler}: {'differs' if problems else 'agrees'}\n{problems}", end="")
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
