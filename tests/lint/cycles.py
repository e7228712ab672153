#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Objects use symbols of their own folder and of folders below it, so that no folders form a cycle. Inside a folder, the files
that need each other are those listed here; the list may only get shorter.

usage: cycles.py NM LIBRARY
"""

import re
import subprocess
import sys

from layers import ORDER
from tap import Tap

# LIBRARY:MEMBER: [ADDRESS] TYPE NAME
# MEMBER has a folder if the archive is a thin one.
LINE = re.compile(r"^[^:]*:(?:[^:]*/)?([^:/]+\.o): *[0-9a-fA-F]* *([A-Za-z]) (\S+)$")


def folder_of(member):
    """Meson names the object of src/FOLDER/FILE.c FOLDER_FILE.c.o. Files directly in src/ are the context's."""
    if "generated" in member:
        return None
    if member == "kernels.c.o":  # of src/convert, compiled for each set of instructions
        return "convert"
    folder = member.split("_")[0]
    return folder if folder in ORDER else "context"


# Files of one folder that need each other: parts of one thing, of which each can only be understood with the others.
KNOWN = [
    "base: blocked callback log", "base: machine system", "copy: async copy", "copy: plan region_list region_run regions shortcuts",
    "debug: fault guard_pages", "device: emulated_emulated_command emulated_emulated_memory emulated_emulated_stream",
    "device: gpu_gpu gpu_gpu_code gpu_gpu_copy gpu_gpu_file gpu_gpu_graph gpu_gpu_memory gpu_gpu_peer gpu_gpu_range gpu_gpu_shared gpu_gpu_stream",
    "device: opencl_opencl opencl_opencl_call opencl_opencl_code opencl_opencl_copy opencl_opencl_event opencl_opencl_memory "
    "opencl_opencl_rows opencl_opencl_stream",
    "kernel: code compile", "kernel: host_call launch launch_here launch_recorded",
    "pool: block_list housekeeper magazine policy pool range reclaim slab statistics zero", "pool: shortage take",
    "stream: timeline timeline_end", "transfer: batch batch_staged", "transfer: engine staging",
]


def circles(uses):
    """The sets of names that reach each other in the graph `uses`, a dictionary of sets."""
    def reached(start):
        seen, left = set(), list(uses.get(start, ()))
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left.extend(uses.get(name, ()))
        return seen
    all_reached = {name: reached(name) for name in uses}
    found = {frozenset(other for other in names if name in all_reached.get(other, ())) for name, names in all_reached.items() if name in names}
    return sorted(sorted(circle) for circle in found)


def files_in_circles(defined, used):
    """Each circle of files as a line: its folder, and the names of the files in it."""
    uses = {}
    for member, name in used:
        owner = defined.get(name, member)
        if owner != member and folder_of(member):
            uses.setdefault(member, set()).add(owner)
    for circle in circles(uses):
        names = [member.removesuffix(".c.o") for member in circle]
        folder = folder_of(circle[0])
        yield f"{folder}: " + " ".join(name.removeprefix(folder + "_") for name in names)


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
    folders = {folder_of(member) for member, _ in used}
    tap.case("each folder is known", sorted(set(ORDER) - folders))
    tap.case("a use upwards is found", [] if list(example) else ["it is not"])
    tap.case("no object uses a folder above its own", list(upward(defined, used)))
    example = circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()})
    tap.case("a circle of files is found", [] if example == [["a", "b", "c"]] else [f"found {example}"])
    found = set(files_in_circles(defined, used))
    tap.case("no files need each other but the known ones", sorted(found - set(KNOWN)))
    tap.case("each known circle is there", sorted(set(KNOWN) - found))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
