#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects use symbols of their own folder and of folders below it, so that no folders form a cycle.

usage: cycles.py NM LIBRARY
"""

import re
import subprocess
import sys

from layers import ORDER
from tap import Tap

# LIBRARY:MEMBER: [ADDRESS] TYPE NAME
LINE = re.compile(r"^[^:]*:([^:]+\.o): *[0-9a-fA-F]* *([A-Za-z]) (\S+)$")


def folder_of(member):
    """Meson names the object of src/FOLDER/FILE.c FOLDER_FILE.c.o. Files directly in src/ are the context's."""
    if "generated" in member:
        return None
    folder = member.split("_")[0]
    return folder if folder in ORDER else "context"


def read(nm, library):
    out = subprocess.run([nm, "-A", library], check=True, capture_output=True, text=True).stdout
    defined, used = {}, []
    for member, kind, name in (match.groups() for match in map(LINE.match, out.splitlines()) if match):
        if kind in "TDBRVWC":
            defined[name] = member
        elif kind == "U":
            used.append((member, name))
    return defined, used


def upward(defined, used):
    for member, name in used:
        user, owner = folder_of(member), folder_of(defined.get(name, "generated"))
        if user and owner and ORDER.index(owner) > ORDER.index(user):
            yield f"{member} uses {name} of {defined[name]}, which is above {user}"


def main():
    defined, used = read(*sys.argv[1:])
    example = upward({"above": "copy_file.c.o"}, [("buffer_file.c.o", "above")])
    tap = Tap()
    tap.case("there is something to check", [] if len(used) > 500 else [f"only {len(used)} uses of symbols were found"])
    tap.case("a use upwards is found", [] if list(example) else ["it is not"])
    tap.case("no object uses a folder above its own", list(upward(defined, used)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
