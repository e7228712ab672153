#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program of docs/fortran.md with generated kernels is built as the document says, and prints what it says. Prints TAP.

usage: test_documented.py GFORTRAN CC FERRY-GEN SOURCE-ROOT BUILD-ROOT
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile


def block(text, language):
    """The first block of a language."""
    return re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S).group(1)


def main():
    fortran, compiler, generator, source, build = sys.argv[1:]
    root, made = pathlib.Path(source), pathlib.Path(build)
    text = (root / "docs" / "fortran.md").read_text(encoding="utf-8").partition("## Generated kernels")[2]
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            return subprocess.run([str(one) for one in arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

        try:
            pathlib.Path(folder, "plate.json").write_text(block(text, "json"), encoding="utf-8")
            pathlib.Path(folder, "program.f90").write_text(block(text, "fortran"), encoding="utf-8")
            run(generator, "kernels", "plate.json", "-o", "plate_kernels.h")
            run(generator, "fortran", "plate.json", "-o", "plate_launches.f90", "--c", "plate_fortran.c")
            run(*compiler.split(), "-Wall", "-Wextra", "-Werror", "-c", "plate_fortran.c", f"-I{root}/include", f"-I{made}/include")
            run(fortran, "-std=f2008", "-Wall", "-Werror", "-Wno-error=unused-dummy-argument", root / "fortran" / "ferry.f90",
                made / "fortran" / "ferry_double_buffers.f90", "plate_launches.f90", "program.f90", "plate_fortran.o", f"-L{made}/src",
                f"-Wl,-rpath,{made}/src", "-lferry", "-lm", "-o", "program")
            for device in ("host", "emulated"):
                printed = subprocess.run([folder + "/program"], check=True, capture_output=True, text=True, env={**os.environ, "FERRY_DEVICE": device}).stdout
                print(f"{'ok' if printed == block(text, 'text') else 'not ok'} {1 + (device != 'host')} - the program of the document on {device}")
                for line in printed.splitlines():
                    print(f"# {line}")
        except subprocess.CalledProcessError as error:
            print(f"not ok 1 - {error.cmd[0]}")
            for line in (error.stdout + error.stderr).splitlines():
                print(f"# {line}")
        print("1..2")


if __name__ == "__main__":
    main()
