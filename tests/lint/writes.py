#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public call that takes a buffer has a row in the tables of tests/buffer/test_read_only.c.

usage: writes.py SOURCE-ROOT

The tables play the calls through read-only handles: one table has those that write, which must be refused, and the other those that
do not. So a new call that writes cannot be forgotten. A function that needs no row is listed here with its reason.
"""

import pathlib
import re
import sys

from tap import Tap

ROOT = pathlib.Path(sys.argv[1])
TABLE = "tests/buffer/test_read_only.c"
NO_ROW = {
    "ferry_argument_with": "makes an argument, and checks nothing",
    "ferry_buffer_acquire_shared": "takes no view, and what only reads is acquired to read",
    "ferry_buffer_argument": "makes an argument, and checks nothing",
    "ferry_buffer_bytes": "returns a property",
    "ferry_buffer_context": "returns a property",
    "ferry_buffer_count": "returns a property",
    "ferry_buffer_create": "makes a buffer",
    "ferry_buffer_create_from": "makes a buffer",
    "ferry_buffer_describe": "returns a property",
    "ferry_buffer_destroy": "removes an owner",
    "ferry_buffer_element": "returns a property",
    "ferry_buffer_export": "takes no view, and names the memory",
    "ferry_buffer_from_raw": "makes a handle, which test_read_only.c plays",
    "ferry_buffer_get_info": "returns properties",
    "ferry_buffer_import": "makes a buffer",
    "ferry_buffer_import_arrow": "makes a buffer",
    "ferry_buffer_import_dlpack": "makes a buffer",
    "ferry_buffer_import_dlpack_legacy": "makes a buffer",
    "ferry_buffer_is_current": "returns a property",
    "ferry_buffer_is_page_locked": "returns a property",
    "ferry_buffer_reinterpret": "makes a handle, which test_read_only.c plays",
    "ferry_buffer_release_shared": "takes no view, and copies nothing to memory that only reads",
    "ferry_buffer_retain": "makes a handle, which test_read_only.c plays",
    "ferry_buffer_state": "returns a property",
    "ferry_buffer_view": "makes a handle, which test_read_only.c plays",
    "ferry_buffer_view_read_only": "makes a handle, which test_read_only.c plays",
    "ferry_buffer_wrap_device": "makes a buffer",
    "ferry_buffer_wrap_host": "makes a buffer",
    "ferry_context_find": "returns the first handle of a buffer",
    "ferry_element_value": "makes a value",
    "ferry_result_argument": "makes an argument, and checks nothing",
    "ferry_size_value": "makes a value",
    "ferry_struct_value": "makes a value",
}

DECLARATION = re.compile(r"^FERRY_API\b([^;{]*);", re.M)
# What brings a handle to a call.
HANDLE = re.compile(r"\bferry_(?:buffer \*|argument\b|copy_region\b|copy_side\b)")


def main():
    tap = Tap()
    text = (ROOT / TABLE).read_text(encoding="utf-8")
    rows = set(re.findall(r'\{"(ferry_\w+)", "', text))
    needed, known = {}, set()
    for path in sorted((ROOT / "include/ferry").glob("*.h")):
        for declaration in DECLARATION.findall(path.read_text(encoding="utf-8")):
            name = re.search(r"\b(ferry_\w+)\s*\(", declaration).group(1)
            known.add(name)
            if HANDLE.search(declaration):
                needed[name] = path.name
    tap.case("headers have calls that take a buffer", [] if len(needed) > len(NO_ROW) else ["hardly any was found"])
    tap.case(f"{TABLE} has a row for each call that takes a buffer",
             [f"<ferry/{needed[name]}> {name}(): no row" for name in sorted(set(needed) - rows - set(NO_ROW))])
    tap.case(f"{TABLE} names functions that exist", [f"{name}: is no function" for name in sorted(rows - known)])
    tap.case("calls without a row exist, take a buffer, and have none",
             [f"{name}: has a row, or takes no buffer" for name in sorted(NO_ROW) if name in rows or name not in needed])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
