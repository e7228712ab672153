#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public call that waits, or that takes a range, has a row in the table of tests/buffer/test_waits.c.

usage: waits.py SOURCE-ROOT

A kernel may fail while a call waits for it. The table plays such a failure into each call, and says whether the call reports it.
Whether a call waits is taken from its comment in the header. A range is a pair of parameters `offset` and `count`, where count may
be FERRY_REST. A function that needs no row is listed here with its reason.
"""

import pathlib
import re
import sys

from tap import Tap

ROOT = pathlib.Path(sys.argv[1])
TABLE = "tests/buffer/test_waits.c"
NO_ROW = {
    "ferry_buffer_abandon": "leaves the bytes of the wrap as they are",
    "ferry_buffer_acquire_shared": "waits for work of other processes, which Ferry does not know",
    "ferry_buffer_advise": "passes advice about managed memory, and touches no byte",
    "ferry_buffer_argument": "makes an argument, and checks nothing",
    "ferry_buffer_import_dlpack": "waits for work of the producer, which Ferry does not know",
    "ferry_context_create": "waits for drivers to start",
    "ferry_context_destroy": "ends every buffer",
    "ferry_context_register_host": "waits for the system",
    "ferry_context_shared": "waits for drivers to start",
    "ferry_context_snapshot": "waits for a file, and reads no byte of a buffer",
    "ferry_conversion_run": "converts arrays, which no kernel writes",
    "ferry_copy_converting": "the call of generated headers for ferry_copy()",
    "ferry_event_elapsed": "waits for two times, and not for bytes",
    "ferry_file_pipeline": "has no buffer; test_stream_file.c lets kernels on its stream fail",
    "ferry_kernel_check": "waits for the compiler",
    "ferry_kernel_create": "waits for the compiler",
    "ferry_pool_allocate": "waits for memory, and not for bytes",
    "ferry_pool_compact": "moves blocks, which no kernel of a launch writes",
    "ferry_pool_destroy": "ends every block",
    "ferry_scope_abandon": "waits for other calls, and discards the bytes",
    "ferry_scope_close_unordered": "waits before the scope is closed, and only for want of a stream number",
    "ferry_stream_wait_event": "waits until a copy is queued; its stream waits for the rest",
}

WAITS = re.compile(
    r"\b[Bb]locks (?:until|as|while|unless)\b"
    r"|(?:^|[.:] )Blocks\."
    r"|\b(?:call|host)(?: also)? (?:blocks|waits)\b"
    r"|\b(?:it|also) (?:blocks|waits)\b"
    r"|\bmay block\b")
RANGE = re.compile(r"\bsize_t (?:\w+_)?offset, size_t count\b")
DECLARATION = re.compile(r"/\*\*(.*?)\*/\s*(FERRY_API\b[^;{]*);", re.S)


def declarations():
    for path in sorted((ROOT / "include/ferry").glob("*.h")):
        for comment, declaration in DECLARATION.findall(path.read_text(encoding="utf-8")):
            comment = comment[comment.rfind("/**") + 1:]  # the comment of a type may come before
            yield (path.name, re.search(r"\b(ferry_\w+)\s*\(", declaration).group(1),
                   re.sub(r"\s*\n\s*\*?\s*", " ", comment), re.sub(r"\s+", " ", declaration))


def main():
    tap = Tap()
    rows = set(re.findall(r'\{"(ferry_\w+)", "', (ROOT / TABLE).read_text(encoding="utf-8")))
    needed = {name: header for header, name, comment, declaration in declarations()
              if WAITS.search(comment) or RANGE.search(declaration)}
    known = {name for _, name, _, _ in declarations()}
    tap.case("headers have calls that wait", [] if len(needed) > len(NO_ROW) else ["hardly any was found"])
    tap.case(f"{TABLE} has a row for each call that waits or takes a range",
             [f"<ferry/{needed[name]}> {name}(): no row" for name in sorted(set(needed) - rows - set(NO_ROW))])
    tap.case(f"{TABLE} names functions that exist", [f"{name}: is no function" for name in sorted(rows - known)])
    tap.case("calls without a row exist, wait, and have none",
             [f"{name}: has a row, or does not wait" for name in sorted(NO_ROW) if name in rows or name not in needed])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
