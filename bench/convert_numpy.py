#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures NumPy's astype() into an existing array, as a ratio to memcpy() of as many read and written bytes in the same
round. astype() truncates and wraps, while Ferry rounds and saturates. Prints a line for each pair of the four main types.

usage: convert_numpy.py BYTES ROUNDS REPEATS
"""

import ctypes
import itertools
import statistics
import sys
import time

import numpy as np

TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "byte": np.uint8}


def timed(repeats, function, *arguments):
    begun = time.perf_counter()
    for _ in range(repeats):
        function(*arguments)
    return time.perf_counter() - begun


def ratio(source, target, rounds, repeats):
    half = (source.nbytes + target.nbytes) // 2
    a, b = np.ones(half, np.uint8), np.ones(half, np.uint8)
    to, start, size = ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data), ctypes.c_size_t(half)
    times = [(timed(repeats, np.copyto, target, source, "unsafe"), timed(repeats, ctypes.memmove, to, start, size))
             for _ in range(rounds + 1)][1:]
    return statistics.median(t[1] for t in times) / statistics.median(t[0] for t in times)


def main():
    size, rounds, repeats = map(int, sys.argv[1:])
    for (name, dtype), (to_name, to_dtype) in itertools.permutations(TYPES.items(), 2):
        count = size // (np.dtype(dtype).itemsize + np.dtype(to_dtype).itemsize)
        source = (np.arange(count) % 200).astype(dtype)
        print(name, to_name, ratio(source, np.ones(count, to_dtype), rounds, repeats))


if __name__ == "__main__":
    sys.exit(main())
