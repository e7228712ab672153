#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hiprtc compiles the CUDA text of every kernel, which devices of HIP take as it is.

usage: hip.py [all]      without "all", one text of each file
"""

import ctypes
import os
import re
import subprocess
import sys

from harness import ROOT, Tap, kernel_declarations

from ferry_kernels import KernelFile
from ferry_types import read_object

FILES = ("tests/gen/kernels/several.json", "tests/consumer/mylib/kernels.json", "bench/kernels.json", "examples/*.json", "examples/*/*.json")
LIBRARIES = ("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
TARGET = "gfx90a"  # compilers of ROCm 5.2 and newer know it


def load():
    for name in (os.environ.get("FERRY_HIPRTC_LIBRARY"), *LIBRARIES):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library and hasattr(library, "hiprtcCompileProgram"):
            return library
    return None


def compile_text(library, text):
    """Returns the lines of the compiler's log, none when it succeeds."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--offload-arch={TARGET}".encode(), b"-ffp-contract=off"]
    library.hiprtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.hip", 0, None, None)
    result = library.hiprtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.hiprtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    library.hiprtcGetProgramLog(program, log)
    library.hiprtcDestroyProgram(ctypes.byref(program))
    return (log.value.decode(errors="replace").splitlines() or [f"hiprtcCompileProgram returned {result}"])[:20] if result else []


def texts_of(path):
    """Yields the name and the whole text of each kernel of a file, as a device compiles it."""
    data = read_object(str(path), "")
    for kernel in KernelFile(str(path), data).kernels if "kernels" in data else []:
        structs = dict.fromkeys(re.sub(r"^\s*#line.*\n", "", parameter.element.cuda_text or "", flags=re.M) for parameter in kernel.parameters)
        yield kernel.name, kernel_declarations("cuda") + "".join(structs) + kernel.cuda_text


def compile_one(path, index):
    library = load()
    name, text = list(texts_of(ROOT / path))[index]
    problems = compile_text(library, text)
    print("\n".join(f"{name}: {line}" for line in problems))
    return 1 if problems else 0


def in_child(path, index):
    """A compiler that meets something that it does not know may end its process."""
    result = subprocess.run([sys.executable, __file__, "one", path, str(index)], capture_output=True, text=True, check=False)
    return [] if result.returncode == 0 else (result.stdout + result.stderr).splitlines()[-20:] + [f"text {index}: exit status {result.returncode}"]


def main():
    if sys.argv[1:2] == ["one"]:
        return compile_one(sys.argv[2], int(sys.argv[3]))
    tap = Tap()
    if not load():
        tap.case("hiprtc # SKIP it is not installed", [])
        return tap.end()
    for pattern in FILES:
        for path in sorted(ROOT.glob(pattern)):
            count = sum(1 for _ in texts_of(path))
            drawn = range(count) if sys.argv[1:2] == ["all"] else range(min(count, 1))
            relative = path.relative_to(ROOT).as_posix()
            if count:
                tap.case(f"{len(drawn)} of {count} texts of {relative} compile for {TARGET}", [line for i in drawn for line in in_child(relative, i)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
