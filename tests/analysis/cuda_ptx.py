#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Assembles all PTX that Ferry ships, and that of its tests, for every architecture that the toolkit knows.

usage: cuda_ptx.py BUILD     BUILD is a build with the tests; its convert_pairs.h is compiled with nvcc

No kernel may spill registers, and none may use local memory: a stack frame, which counts as both. An architecture older
than the text's target is skipped with the reason. The last line is "N passed, M failed"; exit status 1 when one failed.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lint"))
import scatter  # noqa: E402  (it reads the PTX in scatter_cuda.h)

TARGET = re.compile(r"^\.target\s+sm_(\d+)", re.M)
KERNEL = re.compile(r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def find_tool(name):
    return shutil.which(name) or shutil.which(f"/usr/local/cuda/bin/{name}")


def architectures(nvcc):
    """Numbers of the architectures that the toolkit makes code for."""
    return sorted({int(number) for number in re.findall(r"sm_(\d+)", run(nvcc, "--list-gpu-code").stdout)})


def conversions(nvcc, build):
    """PTX of all conversions, as the image has it for devices that are newer than its code."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "convert.ptx"
        result = run(nvcc, "-std=c++17", "-fmad=false", "-I", ROOT, "-I", build, "--ptx", "-arch=compute_75", "-o", output, ROOT / "src/convert/kernels.cu")
        return output.read_text() if result.returncode == 0 else sys.exit(result.stderr)


def texts(nvcc, build):
    yield "scatter", scatter.ptx_of(scatter.HEADER.read_text())
    printer = build / "tests" / "buffer" / "print_buffer_ptx"
    if printer.exists():
        yield "kernels of the buffer tests", run(printer).stdout
    else:
        print(f"skipped: kernels of the buffer tests, since the build has no {printer.name}")
    yield "conversions", conversions(nvcc, build)


def problems_of(ptxas, path, architecture):
    """(number of kernels, what is wrong with them)."""
    result = run(ptxas, "-v", f"-arch=sm_{architecture}", path, "-o", "/dev/null")
    kernels = KERNEL.findall(result.stderr)
    if result.returncode:
        return 0, result.stderr.splitlines()[:20]
    wrong = [f"{name}: {frame} bytes of local memory, {stores} and {loads} bytes of spills" for name, frame, stores, loads in kernels
             if int(frame) or int(stores) or int(loads)]
    return len(kernels), wrong or ([] if kernels else ["ptxas reports no kernel"])


def check(name, text, ptxas, architecture):
    """(passed, failed)"""
    target = int(TARGET.search(text).group(1))
    if architecture < target:
        print(f"skipped: {name} for sm_{architecture}: the text is for sm_{target} and newer")
        return 0, 0
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        count, problems = problems_of(ptxas, file.name, architecture)
    print(f"{name} for sm_{architecture}: {count} kernels" + "".join(f"\n    {line}" for line in problems))
    return (0, 1) if problems else (1, 0)


def main():
    build, nvcc, ptxas = pathlib.Path(sys.argv[1]).resolve(), find_tool("nvcc"), find_tool("ptxas")
    if not nvcc or not ptxas:
        print("skipped: the CUDA Toolkit, which is not installed\n0 passed, 0 failed")
        return 0
    passed = failed = 0
    for name, text in texts(nvcc, build):
        for architecture in architectures(nvcc):
            good, bad = check(name, text, ptxas, architecture)
            passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
