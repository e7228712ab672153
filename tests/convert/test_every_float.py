#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts every binary32 value to byte, int, half and bfloat16 and compares with NumPy: every 256th or so in normal runs, all 2^32 with
FERRY_LONG, in blocks that fit the caches, by two processes. All of them take a quarter of an hour of processor time, so they come in
parts that can be run one by one: parts 0 to 15 of 64 with 0-15.

usage: test_every_float.py LIBRARY TAP-FOLDER [FIRST-LAST]
"""

import ctypes
import multiprocessing
import os
import sys

sys.path.insert(0, sys.argv[2])
from tap import Tap  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

BLOCK = 1 << 17
SATURATE, TRUNCATE = 1, 3
STRIDE = 257  # odd, so that the last digits vary too
PARTS = 64


def to_integer(source, dtype, policy):
    wide = source.astype(np.float64)
    (np.rint if policy == SATURATE else np.trunc)(wide, out=wide)
    wide[np.isnan(source)] = 0
    limits = np.iinfo(dtype)
    return np.clip(wide, limits.min, limits.max, out=wide).astype(np.int32).astype(dtype, copy=False)


def toward_zero(nearest, source, value):
    """Returns the bits of `nearest`, less one where its value is further from zero than the source."""
    return nearest - (np.abs(value) > np.abs(source)).astype(nearest.dtype)


def to_half(source, policy):
    nearest = source.astype(np.float16)
    bits = nearest.view(np.uint16)
    return bits if policy == SATURATE else toward_zero(bits, source, nearest.astype(np.float32))


def to_bfloat16(source, policy):
    """Rounds to bfloat16. Neighbours differ by 2^16 in the bits of a binary32; a tie rounds to the even one."""
    halves = source.view(np.uint16)
    rest, below = halves[0::2], halves[1::2]  # little-endian
    if policy == TRUNCATE:
        return below.copy()
    return below + ((rest > 0x8000) | ((rest == 0x8000) & (below & 1 == 1)))


TARGETS = {
    "byte": (np and np.uint8, lambda x, policy: to_integer(x, np.uint8, policy), None),
    "int": (np and np.int32, lambda x, policy: to_integer(x, np.int32, policy), None),
    "half": (np and np.uint16, to_half, 0x7C00),
    "bfloat16": (np and np.uint16, to_bfloat16, 0x7F80),
}


def check_block(library, name, source, policy):
    dtype, expected, infinity = TARGETS[name]
    target = np.empty(source.size, dtype=dtype)
    status = library.convert_by_name(b"float", name.encode(), ctypes.c_void_p(target.ctypes.data), ctypes.c_void_p(source.ctypes.data),
                                     ctypes.c_size_t(source.size), ctypes.c_int(policy))
    if status != 0:
        return f"status {status}"
    with np.errstate(all="ignore"):
        wanted = expected(source, policy)
    if np.array_equal(target, wanted):
        return None
    same = target == wanted
    if infinity is not None:
        same |= np.isnan(source) & ((target & 0x7FFF) > infinity)  # all NaNs count as equal
    if same.all():
        return None
    i = np.flatnonzero(~same)[0]
    return f"policy {policy}: {source[i].view(np.uint32):#x} became {target[i]}, not {wanted[i]}"


def check_range(work):
    """Checks a part and returns the first problem of each target, if any."""
    path, first, blocks, stride = work
    library = ctypes.CDLL(path)
    problems = {}
    steps = np.arange(BLOCK, dtype=np.uint64) * stride
    for block in range(blocks):
        source = (first + block * BLOCK * stride + steps).astype(np.uint32).view(np.float32)
        for name in TARGETS:
            for policy in (SATURATE, TRUNCATE):
                problem = check_block(library, name, source, policy)
                if problem:
                    problems.setdefault(name, problem)
    return problems


def parts_of(blocks, wished):
    """Returns the first block and the number of blocks of each part."""
    first, last = map(int, wished.split("-")) if wished else (0, PARTS - 1)
    borders = [blocks * part // PARTS for part in range(PARTS + 1)]
    return [(borders[part], borders[part + 1] - borders[part]) for part in range(first, last + 1)]


def main():
    tap = Tap()
    if np is None:
        tap.skip("every float", "no NumPy")
        return tap.end()
    stride = 1 if os.environ.get("FERRY_LONG") else STRIDE
    parts = parts_of(2 ** 32 // (BLOCK * stride), sys.argv[3] if len(sys.argv) > 3 else None)
    work = [(sys.argv[1], first * BLOCK * stride, count, stride) for first, count in parts]
    found = []
    with multiprocessing.Pool(2) as pool:
        for problems in pool.imap(check_range, work):
            found.append(problems)
            print(f"# {len(found)} of {len(parts)} parts", flush=True)
    for name in TARGETS:
        tap.case(f"float to {name}", [problems[name] for problems in found if name in problems][:3])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
