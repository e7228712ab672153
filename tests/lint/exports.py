#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shared library exports what the public headers declare, and nothing else; no typed function is among it.

usage: exports.py LIBRARY HEADER-FOLDER...
"""

import pathlib
import re
import subprocess
import sys

from tap import Tap

NEEDED_ALLOWED = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux[\w-]*|ld-musl[\w-]*|libgcc_s|libatomic)\.")
PROTOTYPE = re.compile(r"\bFERRY_API\b[^;{(]*?\b(\w+)\s*\(")
DATA = re.compile(r"\bFERRY_API\s+extern\b[^;(]*?\b(\w+)\s*;")
INLINE = re.compile(r"^FERRY_INLINE [^\n]*\n(\w+)\(", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^\s*#(?:.*\\\n)*.*$", re.M)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    # The version itself is an absolute symbol.
    names = [line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines() if " A " not in line]
    return sorted(name for name in names if name not in ("_init", "_fini"))


def declared(folders):
    names = set()
    for folder in folders:
        for path in pathlib.Path(folder).glob("*.h"):
            text = DIRECTIVE.sub("", COMMENT.sub("", path.read_text(encoding="utf-8"))).replace("FERRY_NODISCARD", "")
            names.update(PROTOTYPE.findall(text))
            names.update(DATA.findall(text))
    return names


def inline_functions(folders):
    for folder in folders:
        for path in pathlib.Path(folder).glob("*.h"):
            yield from INLINE.findall(path.read_text(encoding="utf-8"))


def main():
    library, *folders = sys.argv[1:]
    tap = Tap()
    symbols = exported(library)
    names = declared(folders)
    tap.case("something is exported", [] if symbols and names else ["nothing found"])
    tap.case("only ferry_ names", [name for name in symbols if not name.startswith("ferry_")])
    tap.case("what the headers declare is there", [f"declared, not exported: {n}" for n in sorted(names - set(symbols))])
    tap.case("what is there is declared", [f"exported, not declared: {n}" for n in symbols if n not in names])
    typed = set(inline_functions(folders))
    tap.case("there are typed functions", [] if len(typed) > 1000 else [f"only {len(typed)} were found"])
    tap.case("none of them is exported", sorted(typed & set(symbols)))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))
    tap.case("needs the C library alone", [name for name in needed if not NEEDED_ALLOWED.match(name)])
    flags = " ".join(re.findall(r"\(FLAGS_1\)(.*)", run("readelf", "-d", library)))
    tap.case("stays in memory after dlclose", [] if "NODELETE" in flags else [f"flags are {flags or 'none'}"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
