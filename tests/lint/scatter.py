#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/transfer/scatter_cuda.h is what clang makes of src/transfer/scatter_cuda.cu, and NVIDIA's assembler takes it.

usage: scatter.py [--update] [PTXAS]     --update rewrites the header

Compilers of other versions write other text for the same program, so only the one that made the header is asked.
"""

import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tap import Tap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE, HEADER = (ROOT / "src" / "transfer" / name for name in ("scatter_cuda.cu", "scatter_cuda.h"))
VERSION = "14"
OPTIONS = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_50", "-nocudainc", "-nocudalib", "-O1", "-fno-unroll-loops", "-S"]
ASSEMBLED_FOR = "sm_75"  # an architecture that every toolkit from version 10 on supports

TEXT = """/* SPDX-License-Identifier: MIT */
/* tests/lint/scatter.py --update generates this file from scatter_cuda.cu. */
#ifndef FERRYI_SCATTER_CUDA_H
#define FERRYI_SCATTER_CUDA_H

static const char ferryi_scatter_cuda[] =
{lines};

#endif
"""


def find_clang():
    """The compiler that made the header, or why there is none."""
    for name in (f"clang-{VERSION}", "clang"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"clang version {VERSION}\.", said):
                return name, ""
    return None, f"no clang {VERSION}, with which the file was made"


def header_of(ptx):
    """The header's text: PTX without comments, one blank between words."""
    lines = (" ".join(re.sub(r"//.*", "", line).split()) for line in ptx.splitlines())
    strings = ['    "{}\\n"'.format(line.replace('"', '\\"')) for line in lines if line]
    return TEXT.format(lines="\n".join(strings))


def ptx_of(header):
    return "".join(text.replace('\\"', '"') + "\n" for text in re.findall(r'^    "(.*)\\n"', header, re.M))


def compile_source(clang, folder):
    output = folder / "scatter_cuda.ptx"
    result = subprocess.run([clang, *OPTIONS, str(SOURCE), "-o", str(output)], capture_output=True, text=True)
    return (header_of(output.read_text()), []) if result.returncode == 0 else ("", result.stderr.splitlines()[:20])


def assemble_problems(ptxas, folder):
    path = folder / "checked.ptx"
    path.write_text(ptx_of(HEADER.read_text()))
    result = subprocess.run([ptxas, f"-arch={ASSEMBLED_FOR}", str(path), "-o", str(folder / "made.cubin")], capture_output=True, text=True)
    return [] if result.returncode == 0 else (result.stdout + result.stderr).splitlines()[:20]


def main():
    update, ptxas = "--update" in sys.argv[1:], [word for word in sys.argv[1:] if word != "--update"]
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clang, reason = find_clang()
        if clang:
            made, problems = compile_source(clang, folder)
            if update and not problems:
                HEADER.write_text(made)
            if not problems:
                problems = list(difflib.unified_diff(HEADER.read_text().splitlines(), made.splitlines(), "scatter_cuda.h", "generated", lineterm=""))
            tap.case("scatter_cuda.h is what scatter_cuda.cu gives", problems)
        else:
            tap.skip("scatter_cuda.h is what scatter_cuda.cu gives", reason)
        if ptxas:
            tap.case(f"ptxas takes scatter_cuda.h for {ASSEMBLED_FOR}", assemble_problems(ptxas[0], folder))
        else:
            tap.skip("ptxas takes scatter_cuda.h", "no CUDA toolkit")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
