#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generated text is equal to the files in tests/gen/golden, and compiles without a warning in every supported language.

usage: golden.py [--update]     --update rewrites the golden files; read the difference before committing it
"""

import difflib
import pathlib
import sys
import tempfile

from harness import (BUILTIN, C_WARNINGS, HERE, ROOT, TYPES, WARNINGS, Tap, builtin_headers, c_compilers,
                     compile_problems, cxx_compilers, generate)

GOLDEN = HERE / "golden"

# maps a golden file to (command, types)
CASES = {
    "ferry/float.h": ("header", [BUILTIN / "float.json"]),
    "mylib/vec3_buffer.h": ("header", [TYPES / "vec3.json"]),
    "mylib/cell_buffer.h": ("header", [TYPES / "cell.json"]),
    "mylib/several_kernels.h": ("kernels", [HERE / "kernels" / "several.json"]),
    "mylib/vec3_buffers.f90": ("fortran", [TYPES / "vec3.json"]),
    "mylib/several_launches.f90": ("fortran", [HERE / "kernels" / "several.json"]),
    "ferry/float_convert.h": ("convert", [BUILTIN / "float.json", BUILTIN / "byte.json", BUILTIN / "half.json",
                                          BUILTIN / "complex_float.json"]),
    "convert_pairs.h": ("convert-pairs", [BUILTIN / f"{name}.json" for name in ("double", "float", "half", "byte", "int64", "bool", "complex_float",
                                                                              "complex_double")]),
}
NOT_ALONE = {"convert_pairs.h",  # macro calls for the library's loops; no header
             "mylib/vec3_buffers.f90", "mylib/several_launches.f90"}  # tests/fortran compiles modules


def difference(golden, made):
    if not golden.is_file():
        return [f"{golden.relative_to(ROOT)} is missing; run golden.py --update"]
    lines = difflib.unified_diff(golden.read_text(encoding="utf-8").splitlines(), made.splitlines(), "golden",
                                 "generated", lineterm="")
    return list(lines)[:40]


def make_cases(tap, folder, update):
    for name, (command, types) in CASES.items():
        output = pathlib.Path(folder) / name
        problems = generate(command, types, str(output))
        if problems:
            tap.case(f"{name} is generated", problems)
            continue
        made = output.read_text(encoding="utf-8")
        if update:
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(made, encoding="utf-8")
        tap.case(f"{name} is as the golden file says", difference(GOLDEN / name, made))


def compile_cases(tap, folder, name):
    """Compiles a golden header by itself and returns the problems."""
    path = GOLDEN / name
    if not path.is_file():
        return
    source = folder / (path.stem + "_alone.c")
    source.write_text(f'#include "{name}"\n#include "{name}"\ntypedef int not_empty;\n', encoding="utf-8")
    folders = [GOLDEN, HERE / "include", folder, ROOT / "include"]
    for compiler in c_compilers():
        for standard in ("c99", "c11"):
            tap.case(f"{name} compiles with {compiler[0]} as {standard}",
                     compile_problems(compiler, [f"-std={standard}", *C_WARNINGS], folders, source))
    for compiler in cxx_compilers():
        for standard in ("c++98", "c++11", "c++17"):
            options = [f"-std={standard}", "-x", "c++", *WARNINGS, "-Wno-c++11-long-long"]
            tap.case(f"{name} compiles with {compiler[0]} as {standard}",
                     compile_problems(compiler, options, folders, source))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        make_cases(tap, folder + "/made", "--update" in sys.argv[1:])
        tap.case("the built-in headers are generated", builtin_headers(folder + "/builtin")
                 + generate("header", [TYPES / "large.json"], folder + "/builtin/mylib/large_buffer.h"))
        (pathlib.Path(folder) / "builtin" / "ferry" / "float.h").unlink()  # the golden one is tried instead
        for name in CASES.keys() - NOT_ALONE:
            compile_cases(tap, pathlib.Path(folder) / "builtin", name)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
