#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Includes only point downwards.

usage: layers.py SOURCE-ROOT
"""

import pathlib
import re
import sys

from tap import Tap

# Folders of src/ from the bottom layer to the top layer. A folder may include private headers of folders to its left.
# Files directly in src/ belong to the context.
ORDER = ("base", "debug", "device", "trace", "stream", "pool", "map", "transfer", "convert", "store", "move", "buffer", "copy", "kernel", "exchange", "context")
PURE = ("src/map/coherence.c", "src/map/coherence.h")  # standard headers only
WHERE_THERE_IS_ONE = {"src/pool/memory_checker.c", "src/base/profile.c"}  # include it only in builds that have its headers
REGISTRY = {"src/device/devices.c", "src/device/device.h"}

# What only one vendor has. Elsewhere in src/ there are languages, codes, images, targets and compilers.
VENDORS = {
    "cuda": (re.compile(r"nvrtc|\bNVRTC|\bPTX\b|\bptx\b|fatbin|\bcubins?\b|\bnvcc\b|\bcu[A-Z]\w+"),
             re.compile(r"^src/device/cuda/|_cuda\.(h|c|cu)$|\.cuh?$")),
    "hip": (re.compile(r"\bhip[A-Z]\w+|hiprtc|amdhip|\bROCm\b|\bgcnArchName\b"), re.compile(r"^src/device/hip/|_hip\.(h|c)$|\.cuh$")),
    "opencl": (re.compile(r"\bcl[A-Z]\w+|\b(?:FERRYI_)?CL_[A-Z]\w+"), re.compile(r"^src/device/opencl/")),
}
# Files of several vendors: nothing in them may be named for one. Everywhere else a vendor's name is a value.
NEUTRAL = "src/device/gpu/"
VENDOR_NAME = re.compile(r"(?<![\"'])\b(?:cuda|hip)\w*|\w+_(?:cuda|hip)(?:_\w+)?\b|\b(?:CUDA|HIP)\b(?!\")")
NEUTRAL_NAMES = {"cuda_without_batches"}
# A kind of device is chosen by the program alone. What a device can do follows from its language and its capabilities.
KIND_NAME = re.compile(r'"(cuda|hip|opencl|emulated)"')

# What moves bytes, and the one file above the engine that calls it.
MOVES = re.compile(r"\b(ferryi_engine_(?:copy|fill)\w*|ferryi_staged_copy|ferryi_host_side_run)\(")
MOVER = "src/move/move.c"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def layer_of(path):
    parts = pathlib.PurePosixPath(path).parts[1:]
    return parts[0] if len(parts) > 1 else "context"


def includes(root, path):
    return INCLUDE.findall((root / path).read_text(encoding="utf-8"))


def private_includes(root, sources):
    for path in sources:
        for bracket, target in includes(root, path):
            if bracket == '"' and not target.startswith("ferry/"):
                yield path, target


def check_arrows(root, sources):
    for path, target in private_includes(root, sources):
        if not target.startswith("src/"):
            yield f'{path}: includes "{target}"; private headers are written "src/..."'
            continue
        layer, other = layer_of(path), layer_of(target)
        if {layer, other} <= set(ORDER) and ORDER.index(other) > ORDER.index(layer):
            yield f"{path}: {layer} may not include {target} of {other}"
    for path in sources:
        if layer_of(path) not in ORDER:
            yield f"{path}: belongs to no layer that tests/lint/layers.py knows"


def check_names(sources):
    """A file is named by its base name alone in a backtrace."""
    names = {}
    for path in sources:
        names.setdefault(pathlib.PurePosixPath(path).name, []).append(path)
    yield from (", ".join(paths) + ": have one name" for paths in names.values() if len(paths) > 1)


def check_pure(root, sources):
    for path in sources:
        if path in PURE:
            for _, target in includes(root, path):
                if "/" in target and target not in PURE:
                    yield f"{path}: is pure, yet includes {target}"


def check_vendor_headers(root, sources):
    for vendor in VENDORS:
        folder = f"src/device/{vendor}/"
        for path in sources:
            for _, target in includes(root, path):
                if not path.startswith(folder) and target.startswith((folder, vendor, *(["CL/"] if vendor == "opencl" else []))):
                    yield f"{path}: includes {target}; only {folder} may"


def check_toolkit(root, sources):
    for path in sources:
        if path in WHERE_THERE_IS_ONE:
            continue
        for bracket, target in includes(root, path):
            if bracket == "<" and target.startswith(("cuda", "nv", "hip")):
                yield f"{path}: includes <{target}>; the library builds without the CUDA Toolkit"


def check_vendor_kinds(root, sources):
    for path in sources:
        for vendor in VENDORS:
            if path in REGISTRY or path == f"src/device/{vendor}/{vendor}.c":
                continue
            if f"ferryi_{vendor}_kind" in (root / path).read_text(encoding="utf-8"):
                yield f"{path}: names ferryi_{vendor}_kind; only the registry may"


def check_words_of_vendors(root, sources):
    for path in sources:
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            for vendor, (words, own) in VENDORS.items():
                for word in [] if own.search(path) else words.findall(line):
                    yield f"{path}:{number}: {word} belongs in the files of src/device/{vendor}/"
            for name in VENDOR_NAME.findall(line) if path.startswith(NEUTRAL) else []:
                if name not in NEUTRAL_NAMES:
                    yield f"{path}:{number}: {name} names a vendor where the code is the same for all"


def check_kind_names(root, sources):
    for path in sources:
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            for name in KIND_NAME.findall(re.sub(r"//.*|/\*.*|^ \*.*", "", line)):
                if not path.startswith(f"src/device/{name}/"):
                    yield f'{path}:{number}: names the kind "{name}"; ask for the language or a capability of the device'


def check_mover(root, sources):
    for path in sources:
        if path.startswith("src/transfer/") or path == MOVER:
            continue
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            for name in MOVES.findall(line):
                yield f"{path}:{number}: calls {name}(); only {MOVER} moves bytes"


def check_public(root, headers):
    for path in headers:
        for bracket, target in includes(root, path):
            if bracket == '"' or target.startswith("src/"):
                yield f"{path}: a public header includes {target}"


def check_templates(root, templates):
    for path in templates:
        for _, target in includes(root, path):
            if target.startswith("src/"):
                yield f"{path}: generated code includes {target}; it may use public headers only"
        if "ferryi_" in (root / path).read_text(encoding="utf-8"):
            yield f"{path}: generated code uses ferryi_..., which is hidden"


def main():
    root = pathlib.Path(sys.argv[1])

    def files(folder, *suffixes):
        found = (p for p in (root / folder).rglob("*") if p.name.endswith(suffixes))
        return sorted(p.relative_to(root).as_posix() for p in found)

    sources = files("src", ".c", ".h")
    tap = Tap()
    tap.case("there is something to check", [] if len(sources) > 5 else ["src/ is nearly empty"])
    tap.case("includes follow the arrows", list(check_arrows(root, sources)))
    tap.case("file names are unique", list(check_names(sources)))
    tap.case("coherence is pure", list(check_pure(root, sources)))
    tap.case("declarations of a vendor stay in its device", list(check_vendor_headers(root, sources)))
    tap.case("the toolkit is not needed", list(check_toolkit(root, sources)))
    tap.case("the device of a vendor is named in the registry alone", list(check_vendor_kinds(root, sources)))
    tap.case("words of a vendor stay in its files", list(check_words_of_vendors(root, files("src", ".c", ".h", ".cu", ".cuh"))))
    tap.case("no kind of device is asked for by its name", list(check_kind_names(root, sources)))
    tap.case("the mover alone moves bytes", list(check_mover(root, sources)))
    tap.case("public headers include public headers", list(check_public(root, files("include", ".h", ".hpp", ".h.in"))))
    tap.case("generated code is public code", list(check_templates(root, files("templates", ".j2"))))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
