# SPDX-License-Identifier: MIT
"""hillshade's reader of .npy files: what NumPy writes is read, anything else ends with one line and exit status 1.

usage: test_npy.py HILLSHADE
"""

import os
import re
import resource
import struct
import sys

from support import read_grey_png, run, run_cases

PROGRAM = sys.argv[1]
VALUES = struct.pack("<12i", *range(0, 120, 10))


def header(descr="'<i4'", order="False", shape="(3, 4)", end="\n"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}" + end


def npy(text=None, values=VALUES, version=(1, 0), length=None, magic=b"\x93NUMPY"):
    text = (header() if text is None else text)
    text = text if isinstance(text, bytes) else text.encode("latin-1")
    length = len(text) if length is None else length
    return magic + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", length) + text + values


def limit_memory():
    """
    So little that an allocation from an unchecked number fails loudly. False, and no limit, when the program cannot
    live in it, as with a sanitizer built in.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, hard))
    if run(PROGRAM, "--help").returncode == 0:
        return True
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return False


def refuse(path, folder, words):
    target = os.path.join(folder, "out.png")
    process = run(PROGRAM, path, target)
    assert process.returncode == 1, f"exit status {process.returncode}: {process.stderr}"
    assert re.fullmatch(r"hillshade: [ -~]+\n", process.stderr), repr(process.stderr)
    assert words in process.stderr, f"{words!r} is not in {process.stderr!r}"
    assert process.stdout == "", process.stdout
    assert not os.path.exists(target)


def bad(content, words):
    def case(folder):
        path = os.path.join(folder, "bad.npy")
        with open(path, "wb") as file:
            file.write(content)
        refuse(path, folder, words)
    return case


def good(content):
    def case(folder):
        path, target = os.path.join(folder, "good.npy"), os.path.join(folder, "out.png")
        with open(path, "wb") as file:
            file.write(content)
        process = run(PROGRAM, path, target)
        assert process.returncode == 0 and process.stderr == "", process.stderr
        assert read_grey_png(target)[:2] == (3, 4)
    return case


def test_missing(folder):
    refuse(os.path.join(folder, "missing.npy"), folder, "No such file")


def test_directory(folder):
    refuse(folder, folder, "is a directory")


def test_pipe(folder):
    path = os.path.join(folder, "pipe.npy")
    os.mkfifo(path)
    refuse(path, folder, "not a regular file")


def test_unreadable(folder):
    path = os.path.join(folder, "secret.npy")
    with open(path, "wb") as file:
        file.write(npy())
    os.chmod(path, 0)
    if os.geteuid() != 0: # root reads everything
        refuse(path, folder, "Permission denied")


def test_huge_sparse(folder):
    """A shape that agrees with the file's size, but is more than there is memory for."""
    path = os.path.join(folder, "sparse.npy")
    content = npy(header(shape="(900000, 1000000)"), b"")
    with open(path, "wb") as file:
        file.write(content)
        file.truncate(len(content) + 4 * 900000 * 1000000)
    refuse(path, folder, "memory")


def every_prefix(folder):
    """However much of a file is missing, it is one clear line."""
    content = npy()
    path = os.path.join(folder, "prefix.npy")
    for length in [*range(0, 20), *range(20, len(content), 9), len(content) - 1]:
        with open(path, "wb") as file:
            file.write(content[:length])
        refuse(path, folder, "truncated")


BAD = {
    "not a .npy file": (b"PK\x03\x04 this is another kind of file", "not a .npy file"),
    "magic without the first byte": (npy(magic=b"xNUMPY"), "not a .npy file"),
    "version 0": (npy(version=(0, 0)), "version 0.0"),
    "version 4": (npy(version=(4, 0)), "version 4.0"),
    "version 1.1": (npy(version=(1, 1)), "version 1.1"),
    "header longer than the file": (npy(length=60000), "truncated"),
    "header of 4 GiB": (npy(version=(2, 0), length=0xffffffff), "truncated"),
    "header of 1 MiB": (npy(header(end=" " * (1 << 20)), version=(2, 0)), "more than 65536"),
    "empty header": (npy(""), "malformed"),
    "header that is no dictionary": (npy("['<i4', False, (3, 4)]"), "malformed"),
    "header that does not end": (npy("{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4"), "malformed"),
    "text after the header": (npy(header(end="} ")), "malformed"),
    "zero byte in the header": (npy(header().replace(",", "\0", 1)), "zero byte"),
    "missing key": (npy("{'descr': '<i4', 'shape': (3, 4)}"), "lacks 'fortran_order'"),
    "key twice": (npy(header()[:-2] + "'descr': '<i4'}"), "twice"),
    "unknown key": (npy(header()[:-2] + "'extra': 1}"), "unknown key 'extra'"),
    "newline in a key": (npy(header()[:-2] + "'a\nb\x1b[31m': 1}"), "unknown key 'a?b?[31m'"),
    "endless key": (npy("{'" + "k" * 500 + "': 1}"), "too long"),
    "order that is neither": (npy(header(order="0")), "neither True nor False"),
    "structures": (npy(header(descr="[('x', '<i4')]")), "structures"),
    "a float of no known width": (npy(header(descr="'<f3'"), VALUES[:36]), "'<f3'"),
    "no byte order": (npy(header(descr="'i4'")), "'i4'"),
    "no byte order, where it matters": (npy(header(descr="'|i4'")), "'|i4'"),
    "unknown byte order": (npy(header(descr="'?i4'")), "'?i4'"),
    "no type": (npy(header(descr="''")), "''"),
    "byte order without a type": (npy(header(descr="'<'")), "'<'"),
    "type that goes on": (npy(header(descr="'<i44'")), "'<i44'"),
    "float64 one byte short": (npy(header(descr="'>f8'", order="True"), bytes(95)), "truncated"),
    "int8 one byte too many": (npy(header(descr="'|i1'"), bytes(13)), "1 more bytes follow"),
    "no dimension": (npy(header(shape="()"), VALUES[:4]), "0 dimensions"),
    "one dimension": (npy(header(shape="(12,)")), "1 dimension;"),
    "three dimensions": (npy(header(shape="(3, 2, 2)")), "3 dimensions"),
    "forty dimensions": (npy(header(shape="(" + "1, " * 40 + ")")), "more than 32"),
    "empty grid": (npy(header(shape="(0, 4)"), b""), "empty"),
    "empty rows": (npy(header(shape="(4, 0)"), b""), "empty"),
    "negative count": (npy(header(shape="(-3, -4)")), "expected a count"),
    "fractional count": (npy(header(shape="(3.0, 4)")), "malformed"),
    "count of 2**64": (npy(header(shape=f"({2 ** 64}, 4)")), "64 bits"),
    "product of 2**64": (npy(header(shape=f"({2 ** 32}, {2 ** 32})")), "does not fit memory"),
    "bytes of 2**64": (npy(header(shape=f"({2 ** 31}, {2 ** 31})")), "does not fit memory"),
    "bytes of 2**63": (npy(header(shape=f"({2 ** 31}, {2 ** 30})")), "does not fit memory"),
    "a terabyte that is not there": (npy(header(shape="(524288, 524288)")), "truncated"),
    "one byte short": (npy(values=VALUES[:-1]), "truncated"),
    "one byte too many": (npy(values=VALUES + b"\0"), "1 more bytes follow"),
    "wider than a PNG may be": (npy(header(shape="(1, 1000001)"), bytes(4000004)), "too large for a PNG"),
}

# What NumPy can write and no height is.
for descr, width in (("|b1", 1), ("<c8", 8), (">c16", 16), ("<f16", 16), ("|S4", 4), ("<U1", 4), ("|V4", 4), ("<M8[ns]", 8),
                     ("<m8[25us]", 8), ("|O", 8)):
    BAD[f"elements of {descr}"] = (npy(header(descr=f"'{descr}'"), bytes(12 * width)),
                                   f"the elements are '{descr}'; expected integers of 8 to 64 bits or floats of 16 to 64 bits")

GOOD = {
    "version 1": npy(header(end=" " * 57 + "\n")),
    "version 2": npy(version=(2, 0)),
    "version 3": npy(version=(3, 0)),
    "other order of keys, no last comma": npy("{'shape': (3, 4), 'fortran_order': False, 'descr': '<i4'}\n"),
    "double quotes and no spaces": npy('{"descr":"<f4","fortran_order":False,"shape":(3,4)}'),
    "long counts of Python 2": npy(header(shape="(3L, 4L)")),
    "a byte with a byte order": npy(header(descr="'>u1'"), VALUES[:12]),
}

# Every type of heights that can be read without NumPy, with its code in `struct`.
TYPES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e", "f4": "f", "f8": "d"}
HEIGHTS = [[10, 20, 25, 20], [5, 40, 60, 3], [90, 70, 120, 33]]


def heights(code, swap, fortran):
    """The file of HEIGHTS in one type, byte order and memory order."""
    order = ">" if swap else "<"
    columns = zip(*HEIGHTS) if fortran else HEIGHTS
    values = struct.pack(f"{order}12{TYPES[code]}", *(height for line in columns for height in line))
    return npy(header(f"'{'|' if code[1] == '1' and not swap else order}{code}'", str(fortran)), values)


def picture(folder, content, expected_type=None):
    path, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.png")
    with open(path, "wb") as file:
        file.write(content)
    process = run(PROGRAM, path, target, "--cell", "30")
    assert process.returncode == 0 and process.stderr == "", process.stderr
    if expected_type:
        assert f"grid       3 x 4 {expected_type}\n" in process.stdout, process.stdout
    return read_grey_png(target)


def same_picture(code, swap, fortran):
    """Whatever its type and orders, the same heights have the same picture; and not that of other heights."""
    name = {"i": "int", "u": "uint", "f": "float"}[code[0]] + str(8 * int(code[1]))

    def case(folder):
        expected = picture(folder, heights("f4", False, False))
        assert len(set(expected[2])) >= 6, expected
        assert picture(folder, heights(code, swap, fortran), name) == expected
    return case


def main():
    limited = limit_memory()
    cases = [(f"{name} is refused", bad(*case)) for name, case in BAD.items()]
    cases += [("missing file is refused", test_missing), ("directory is refused", test_directory),
              ("pipe is refused", test_pipe), ("unreadable file is refused", test_unreadable),
              ("every prefix is refused", every_prefix)]
    if limited:
        cases.append(("more than memory holds is refused", test_huge_sparse))
    cases += [(f"{name} is read", good(content)) for name, content in GOOD.items()]
    cases += [(f"{code}, {'big' if swap else 'little'}-endian, {'Fortran' if fortran else 'C'} order is read",
               same_picture(code, swap, fortran)) for code in TYPES for swap in (False, True) for fortran in (False, True)]
    run_cases(cases)


main()
