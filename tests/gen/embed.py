#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ferry-gen embed` writes the source of a kernel as a string that has its bytes in C and C++, and refuses what is no source."""

import os
import pathlib
import subprocess
import sys
import tempfile

from harness import C_WARNINGS, WARNINGS, Tap, c_compilers, cxx_compilers, ferry_gen

TEXTS = {
    "a kernel": 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = \'\\n\'; }\n',
    "odd characters": '// ??/ ??= "\\0\\\\" µs \t/* */\n#define A "%d\\x41" \\\n  1\n',
    "no last line end": "__kernel void k(void) {}",
    "a long text": "".join(f"// line {number} of a long text\n" for number in range(4000)),
}
MAIN = """#include "k.h"
#include "k.h"
#include <stdio.h>
int main(void)
{
    return fwrite(%s, 1, sizeof(%s) - 1, stdout) == sizeof(%s) - 1 ? 0 : 1;
}
"""


def printed(compiler, options, folder, name):
    """What a program that includes the header prints of the array, or what the compiler says."""
    (folder / "main.c").write_text(MAIN % (name, name, name))
    command = [*compiler, *options, f"-I{folder}", str(folder / "main.c"), "-o", str(folder / "main")]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stderr if done.returncode else subprocess.run([str(folder / "main")], capture_output=True, check=False).stdout


def text_cases(tap, folder):
    for case, text in TEXTS.items():
        (folder / "my-kernel.cu").write_bytes(text.encode())
        problems = []
        for name, options in (("my_kernel_cu", ()), ("other", ("--name", "other"))):
            result = ferry_gen("embed", folder / "my-kernel.cu", "-o", folder / "k.h", *options)
            problems += result.stderr.splitlines()
            for compiler in c_compilers():
                problems += [] if printed(compiler, ["-std=c99", *C_WARNINGS], folder, name) == text.encode() else [f"{compiler[0]}: other bytes"]
            for compiler in cxx_compilers():
                problems += [] if printed(compiler, ["-x", "c++", *WARNINGS], folder, name) == text.encode() else [f"{compiler[0]}: other bytes"]
        tap.case(f"{case} keeps its bytes", problems)
    (folder / "my-kernel.cu").write_bytes(b"a\r\nb\r\n")
    ferry_gen("embed", folder / "my-kernel.cu", "-o", folder / "k.h")
    tap.case("line ends become those of Unix", [] if printed(c_compilers()[0], [], folder, "my_kernel_cu") == b"a\nb\n" else ["other bytes"])


def refused_cases(tap, folder):
    for case, content, options, words in (
            ("an empty file", b" \n", (), "k.cu: is empty"), ("a binary", b"\x7fELF\0\0", (), "k.cu: holds a NUL"),
            ("text of another encoding", b"// \xff\n", (), "is not UTF-8 text"), ("a reserved word", b"x\n", ("--name", "double"), "'double' is no name"),
            ("a name with a space", b"x\n", ("--name", "a b"), "'a b' is no name"), ("no file", None, (), "k.cu: cannot be read: No such file")):
        path = folder / "k.cu"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        result = ferry_gen("embed", path, "-o", folder / "refused.h", *options)
        problems = [] if result.returncode == 1 and words in result.stderr and len(result.stderr.splitlines()) == 1 else [result.stderr]
        tap.case(f"{case} is refused", problems + (["a file was written"] if (folder / "refused.h").exists() else []))


def depfile_case(tap, folder):
    (folder / "k.cu").write_text("x\n")
    result = ferry_gen("embed", folder / "k.cu", "-o", folder / "k.h", "--depfile", folder / "k.d")
    paths = [os.path.basename(path) for path in (folder / "k.d").read_text().replace("\\\n", " ").split()] if result.returncode == 0 else []
    tap.case("the depfile names what was read", [f"no {name}: {paths}" for name in ("k.cu", "ferry_embed.py") if name not in paths])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        text_cases(tap, folder)
        refused_cases(tap, folder)
        depfile_case(tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
