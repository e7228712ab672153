#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each function that the headers declare is exported with the version of the version script, and nothing else is exported.

usage: versions.py LIBRARY VERSION-SCRIPT HEADER-FOLDER...
"""

import pathlib
import re
import subprocess
import sys

from exports import declared
from tap import Tap

NODE = re.compile(r"^(\w+)\s*\{", re.M)


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, capture_output=True, text=True).stdout


def defined_versions(library):
    """Those of the definitions' section, without that of the file's own name."""
    text = readelf("-V", library)
    found = re.search(r"Version definition section.*?(?=\nVersion (?:needs|symbols) section|\Z)", text, re.S)
    entries = re.findall(r"Flags: (\S+).*?Name: (\S+)", found.group()) if found else []
    return [name for flags, name in entries if flags != "BASE"]


def exported(library):
    """(name, version) of each dynamic symbol that the library defines. A version that is not the default one has one @."""
    symbols = []
    for line in readelf("--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].endswith(":") or words[6] in ("UND", "ABS", "Ndx"):
            continue
        name, _, version = words[7].partition("@@")
        symbols.append((name, version))
    return symbols


def main():
    library, script, *folders = sys.argv[1:]
    nodes = NODE.findall(pathlib.Path(script).read_text(encoding="utf-8"))
    versions = defined_versions(library)
    symbols = exported(library)
    names = declared(folders)
    tap = Tap()
    tap.case("something is exported", [] if symbols and names else ["nothing found"])
    tap.case("the versions are those of the script", [] if versions == nodes and nodes else [f"{versions} and {nodes}"])
    tap.case("every symbol has one of them", [f"{name}: {version or 'none'}" for name, version in symbols if version not in nodes])
    tap.case("no symbol is exported twice", sorted({name for name, _ in symbols if [n for n, _ in symbols].count(name) > 1}))
    exports = {name for name, _ in symbols}
    tap.case("exports what the headers declare, and nothing else", [f"not exported: {n}" for n in sorted(names - exports)] +
             [f"not declared: {n}" for n in sorted(exports - names)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
