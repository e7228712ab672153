#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""All public headers compile in one file, in every language that can include them. No name is defined twice, and unused
functions cause no warning and no symbol in the program.

usage: together.py INCLUDE-FOLDER INCLUDE-FOLDER -- COMPILER...
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402

# -Wunused-const-variable is not in this list: without a level it means level 2, which warns even about constants in
# headers.
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wunused-const-variable", "-Wcast-qual", "-Wconversion", "-Werror"]
C_WARNINGS = [*WARNINGS, "-Wstrict-prototypes", "-Wmissing-prototypes"]
CXX_WARNINGS = [*WARNINGS, "-Wold-style-cast"]
C_STANDARDS = ("c99", "c11", "c2x")
CXX_STANDARDS = ("c++98", "c++11", "c++14", "c++17", "c++20", "c++2b")

# Source text of a small program. Every status goes to a function that is defined elsewhere, so the compiler cannot
# remove the library calls.
USE = """
void expect(int condition);
float first(ferry_context *context);
float first(ferry_context *context)
{
    ferry_float_buffer buffer = {0};
    ferry_scope scope;
    const float *numbers;
    double wide;
    float value;

    expect(ferry_float_create(context, 1, 0, &buffer) == FERRY_OK);
    expect(ferry_float_copy_from_double(buffer, 0, 0, &wide, FERRY_CONVERT_SATURATE, NULL) == FERRY_OK);
    expect(ferry_float_read_host(buffer, &scope, &numbers) == FERRY_OK);
    value = numbers[0];
    expect(ferry_scope_close(&scope) == FERRY_OK);
    ferry_float_destroy(&buffer);
    return value;
}
"""


def compile_text(command, folder, text, options):
    source, target = os.path.join(folder, "together.c"), os.path.join(folder, "together.o")
    pathlib.Path(source).write_text(text, encoding="utf-8")
    done = subprocess.run([*command, *options, "-c", source, "-o", target], capture_output=True, text=True, check=False)
    return target, done.stderr.splitlines()[:20] if done.returncode else []


def knows(command, folder, language, standard):
    return not compile_text(command, folder, "typedef int not_empty;\n", ["-x", language, f"-std={standard}"])[1]


def symbol_problems(target, language):
    """Yields each symbol of an inline function. In C++ hidden ones are allowed; visible ones can prevent unloading."""
    listing = subprocess.run(["readelf", "-sW", target], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        columns = line.split()
        if len(columns) < 8 or columns[4] not in ("GLOBAL", "WEAK", "UNIQUE") or columns[6] == "UND":
            continue
        binding, visibility, name = columns[4], columns[5], columns[7]
        if name != "first" and not name.startswith("_Z5first") and (language == "c" or visibility != "HIDDEN"):
            yield f"defines {name}: {binding} {visibility}"


def compilers(given):
    """Yields the given C compiler, and the C++ compiler that belongs to it."""
    yield "c", given, C_STANDARDS, C_WARNINGS
    cxx = "clang++" if "clang" in given[-1] else "g++"
    if shutil.which(cxx):
        yield "c++", [cxx], CXX_STANDARDS, CXX_WARNINGS


def main():
    end = sys.argv.index("--")
    folders, given = sys.argv[1:end], sys.argv[end + 1:]
    headers = sorted({path.name for folder in folders for path in pathlib.Path(folder, "ferry").glob("*.h")})
    text = "".join(f"#include <ferry/{name}>\n" for name in headers)
    tap = Tap()
    tap.case("there are headers to include", [] if len(headers) > 40 else [f"only {len(headers)}"])
    with tempfile.TemporaryDirectory() as folder:
        for language, command, standards, warnings in compilers(given):
            for standard in standards:
                if not knows(command, folder, language, standard):
                    continue
                for level in ("-O0", "-O2"):
                    options = ["-x", language, f"-std={standard}", level, *warnings, *(f"-I{path}" for path in folders)]
                    target, problems = compile_text(command, folder, text + USE, options)
                    tap.case(f"{command[-1]} {standard} {level}", problems or list(symbol_problems(target, language)))
            if language == "c++":
                options = ["-x", language, "-std=c++17", "-Werror", "-Wzero-as-null-pointer-constant", *(f"-I{path}" for path in folders)]
                problems = compile_text(command, folder, text + "#include <ferry/ferry.hpp>\n", options)[1]
                tap.case(f"{command[-1]}: no NULL where C++ has nullptr", problems)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
