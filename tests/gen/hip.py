#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hiprtc compiles the CUDA text of every kernel, which devices of HIP take as it is.

usage: hip.py [all]      without "all", one text of each file
"""

import sys

from harness import KERNEL_FILES, ROOT, Tap, device_problems

from ferry_device import Runtime, texts_of
from ferry_kernels import KernelFile
from ferry_types import read_object


def main():
    tap, compiler = Tap(), Runtime("hiprtc")
    if not compiler.found:
        tap.case(f"hiprtc # SKIP {compiler.missing}", [])
        return tap.end()
    for path in KERNEL_FILES:
        texts = [text for text in texts_of(KernelFile(str(path), read_object(str(path), ""))) if text.language == "hip"]
        drawn = texts if sys.argv[1:2] == ["all"] else texts[:1]
        tap.case(f"{len(drawn)} of {len(texts)} texts of {path.relative_to(ROOT)} compile for {compiler.default}", device_problems(compiler, drawn))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
