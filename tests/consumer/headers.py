#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at the folders of headers that a build searches, as its compile_commands.json lists them.

usage: headers.py BUILD-FOLDER
       headers.py BUILD-FOLDER SOURCE ROOT...

No folder may have a file that is called like a header of C11 or C++17. The second form looks at the folders of one source of a
consumer. Those below a root of Ferry must have the folder `ferry` and nothing else that can be included. Each header of the two
standards is also included before and after each header of Ferry, in C and in C++, and must be the compiler's own.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402

C = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool stddef
    stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype""".split()
CPP = """algorithm any array atomic bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath codecvt
    complex condition_variable csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
    exception execution filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream
    iterator limits list locale map memory memory_resource mutex new numeric optional ostream queue random ratio regex
    scoped_allocator set shared_mutex sstream stack stdexcept streambuf string string_view strstream system_error thread tuple
    type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector""".split()
NOT_IN_CPP = {"stdatomic", "stdnoreturn", "threads"}  # of C11, and of C++23 or of no C++
STANDARD = {f"{name}.h" for name in C} | set(CPP)
# Beside `ferry`: of the build system, and no header.
ALLOWED = {"ferry", "meson.build", "headers.stamp"}
LANGUAGES = {
    "c": (["cc", "-x", "c", "-std=c11"], [f"{name}.h" for name in C]),
    "c++": (["c++", "-x", "c++", "-std=c++17", "-Wno-deprecated"], CPP + [f"{name}.h" for name in C if name not in NOT_IN_CPP]),
}


def folders_of(command, directory):
    """Returns the folders of headers in a command, in its order."""
    words = iter(shlex.split(command))
    found = []
    for word in words:
        for flag in ("-I", "-isystem", "-iquote"):
            if word == flag:
                found.append(next(words))
            elif word.startswith(flag):
                found.append(word[len(flag):])
    return list(dict.fromkeys((pathlib.Path(directory) / folder).resolve() for folder in found))


def folders_of_sources(build, source=""):
    """Returns a set of folders for each source whose path ends in `source`. Those of the system are left out."""
    entries = json.loads((build / "compile_commands.json").read_text())
    found = [folders_of(entry["command"], entry["directory"]) for entry in entries if entry["file"].endswith(source)]
    return [[folder for folder in folders if folder.parts[1] != "usr"] for folders in found]


def hidden(folders):
    """Yields each file whose name a standard header has."""
    for folder in folders:
        for name in sorted(STANDARD & {path.name for path in folder.glob("*") if path.is_file()}):
            yield f"{folder / name} hides <{name}>"


def others(folders, roots):
    """Yields what can be included from a folder of Ferry otherwise than as <ferry/...>."""
    for folder in folders:
        if any(root in (folder, *folder.parents) for root in roots):
            for path in sorted(folder.glob("*")):
                if path.name not in ALLOWED:
                    yield f"{path}: what is in Ferry's folders of headers can be included as <{path.name}>"


def complaints(language, folders, before, after):
    """Compiles a file that includes two lists of headers, and yields what is wrong."""
    command = [*LANGUAGES[language][0], "-Wall", "-Wextra", "-Werror", *(f"-I{folder}" for folder in folders)]
    text = "".join(f"#include <{name}>\n" for name in [*before, *after])
    with tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary, "headers")
        file.write_text(text + "extern int used;\n")
        done = subprocess.run([*command, "-fsyntax-only", file], capture_output=True, text=True, check=False)
    if done.returncode:
        yield from done.stderr.splitlines()[:10]


def foreign(language, folders, headers):
    """Yields each file from the folders that the standard headers alone read."""
    command = [*LANGUAGES[language][0], "-M", *(f"-I{folder}" for folder in folders), "-"]
    text = "".join(f"#include <{name}>\n" for name in headers)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        yield from done.stderr.splitlines()[:10]
    for word in done.stdout.split():
        if pathlib.Path(word).parent.resolve() in folders:
            yield f"a header of the standard is {word}"


def ferry_headers(folders, language):
    names = {f"ferry/{path.name}" for folder in folders for path in (folder / "ferry").glob("*.h*") if path.suffix in (".h", ".hpp")}
    names.discard("ferry/mpi.h")  # It needs <mpi.h>.
    return sorted(name for name in names if language == "c++" or name.endswith(".h"))


def main(build, source="", *roots):
    tap = Tap()
    found = folders_of_sources(pathlib.Path(build), source)
    tap.case("there are commands", [] if found else [f"{build} has none for {source or 'any source'}"])
    every = sorted({folder for folders in found for folder in folders})
    tap.case("no folder hides a standard header", list(hidden(every)))
    if roots:
        roots = [pathlib.Path(root).resolve() for root in roots]
        tap.case("the folders of Ferry have nothing but Ferry's folder", list(others(every, roots)))
    for language in LANGUAGES if roots else ():
        standard = LANGUAGES[language][1]
        ferry = ferry_headers(every, language)
        tap.case(f"{language}: there are headers of Ferry", [] if len(ferry) > 40 else [f"only {len(ferry)} in {every}"])
        tap.case(f"{language}: standard headers are the compiler's", list(foreign(language, found[0], standard)))
        tap.case(f"{language}: standard headers before Ferry's", list(complaints(language, found[0], standard, ferry)))
        tap.case(f"{language}: standard headers after Ferry's", list(complaints(language, found[0], ferry, standard)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
