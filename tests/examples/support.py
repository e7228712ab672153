# SPDX-License-Identifier: MIT
"""What the tests of the examples share: cases in TAP, running a program, reading a grey PNG."""

import os
import struct
import subprocess
import sys
import tempfile
import traceback
import zlib


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def run_cases(cases):
    """Run (name, function) pairs, each in an empty folder that goes away; exit status 1 when one failed."""
    print(f"1..{len(cases)}")
    failed = 0
    for number, (name, function) in enumerate(cases, 1):
        try:
            with tempfile.TemporaryDirectory() as folder:
                function(folder)
            print(f"ok {number} - {name}")
        except Exception:
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


def run(*command, **environment):
    """The finished process; its output as text."""
    return subprocess.run([os.fspath(part) for part in command], env={**os.environ, **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=100, check=False)


def png_chunks(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        checksum, = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
        assert checksum == zlib.crc32(kind + body), "wrong checksum"
        yield kind, body
        at += 12 + length


def unfilter(kind, row, above):
    """One row of single bytes, in place: the five filters of the PNG specification."""
    for i, value in enumerate(row):
        left, up, corner = (row[i - 1], above[i], above[i - 1]) if i else (0, above[0], 0)
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        elif kind == 4:
            distances = (abs(up - corner), abs(left - corner), abs(left + up - 2 * corner))
            guess = (left, up, corner)[distances.index(min(distances))]
        else:
            assert kind == 0, f"filter {kind}"
            return
        row[i] = (value + guess) & 255


def read_grey_png(path):
    """(rows, columns, bytes row after row) of an 8-bit grey picture without interlace."""
    with open(path, "rb") as file:
        chunks = list(png_chunks(file.read()))
    columns, rows, *form = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
    assert form == [8, 0, 0, 0, 0], f"not 8-bit grey: {form}"
    assert chunks[-1][0] == b"IEND"
    data = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    assert len(data) == rows * (columns + 1)
    above, picture = bytearray(columns), bytearray()
    for at in range(0, len(data), columns + 1):
        row = bytearray(data[at + 1:at + 1 + columns])
        unfilter(data[at], row, above)
        picture += row
        above = row
    return rows, columns, bytes(picture)
