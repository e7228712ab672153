#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ferry-gen check --device` compiles the texts of kernels and the declarations of structs with the compilers that are installed, and says
what they refuse, which ones are missing, and which one ended its process. Fake compilers stand for those of vendors where they need not be real.

usage: device.py
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from harness import HERE, ROOT, Tap, c_compilers, changed, compile_problems, ferry_gen, generate

from ferry_device import TITLES, Runtime, compilers, texts_of
from ferry_kernels import KernelFile
from ferry_types import read_object

SEVERAL = HERE / "kernels" / "several.json"
POINT = {"ferry": 1, "prefix": "mylib", "name": "point", "c_type": "struct mylib_point", "header": "point.h", "include": ["points.h"],
         "kind": "struct", "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "float"}]}
KERNELS = {"ferry": 1, "prefix": "mylib", "header": "k.h", "types": ["point.json"], "kernels": [
    {"name": "first", "parameters": ["update float z"], "each": "z[i] *= 2.0f;"},
    {"name": "move", "parameters": ["update point p"], "each": "p[i].x += p[i].y;"},
    {"name": "total", "sum": "double", "parameters": ["read float z"], "each": "z[i]"}]}
ALL = ("mylib_first", "mylib_move", "mylib_total", "mylib_total_into")
MISSING = {"FERRY_NVRTC_LIBRARY": "/dev/null/absent", "FERRY_HIPRTC_LIBRARY": "/dev/null/absent", "PATH": "/dev/null/absent"}


def fake(folder, name, *options):
    """Builds a compiler of tests/support and returns its path."""
    path = folder / f"lib{name}.so"
    command = [*c_compilers()[0], *options, "-shared", "-fPIC", "-o", str(path), str(ROOT / "tests" / "support" / "fakenvrtc.c")]
    subprocess.run(command, check=True)
    return str(path)


def write(folder, declaration=None, kernels=KERNELS):
    """Writes the two files, the struct with this declaration in CUDA, and returns the path of the kernels."""
    (folder / "point.json").write_text(json.dumps(changed(POINT, ["cuda_declaration"], declaration) if declaration else POINT))
    (folder / "k.json").write_text(json.dumps(kernels))
    return folder / "k.json"


def expect(tap, name, result, status, said=(), refused=(), absent=()):
    problems = [] if result.returncode == status else [f"exit status {result.returncode}: {result.stderr}"]
    problems += [f"no line '{line}' in: {result.stdout}" for line in said if line not in result.stdout.splitlines()]
    problems += [f"no '{words}' in: {result.stderr}" for words in refused if words not in result.stderr]
    problems += [f"'{words}' in: {result.stdout}{result.stderr}" for words in absent if words in result.stdout + result.stderr]
    tap.case(name, problems)


def fake_cases(tap, folder, fakes):
    check = ("check", "--device", folder / "k.json")
    lines = [f"{folder}/k.json: {name}: compiles as CUDA C++ for compute_75 by NVRTC 13.0" for name in ALL]
    lines += [f"{folder}/k.json: {name}: compiles as HIP C++ for gfx90a by hiprtc 13.0" for name in ALL]
    write(folder)
    expect(tap, "a line for each text and compiler", ferry_gen(*check, env=fakes), 0, [*lines, "clang: not installed"])
    expect(tap, "chosen targets", ferry_gen("check", "--device-target", "sm_90", "--device-target", "compute_80", folder / "k.json", env=fakes), 0,
           [line.replace("compute_75", target) for line in lines[:4] for target in ("sm_90", "compute_80")], absent=["HIP", "clang", "compute_75"])
    named = {"cuda": ["--gpu-architecture=sm_80"], "opencl": ["-cl-std=CL3.0"]}
    write(folder, kernels=changed(KERNELS, ["kernels", 0, "options"], named))
    expect(tap, "a target that options name", ferry_gen(*check, env=fakes), 0, [lines[0].replace("compute_75", "sm_80"), *lines[1:4]])
    write(folder)
    expect(tap, "no target", ferry_gen("check", "--device-target", "avx2", folder / "k.json"), 2, refused=["'avx2' is no target"])
    expect(tap, "files of types", ferry_gen("check", "--device", folder / "point.json", env=fakes), 0,
           [f"{folder}/point.json: mylib_point: compiles as CUDA C++ for compute_75 by NVRTC 13.0"])
    wheel = folder / "site" / "nvidia" / "cu13" / "lib"
    wheel.mkdir(parents=True)
    shutil.copy(fakes["FERRY_NVRTC_LIBRARY"], wheel / "libnvrtc.so.13")
    other = {**fakes, "FERRY_NVRTC_LIBRARY": "", "FAKENVRTC_VERSION": "121"}
    for name, found in (("a wheel", {"PYTHONPATH": str(folder / "site")}), ("a folder", {"FERRY_NVRTC_FOLDERS": f"/dev/null/absent:{wheel}"})):
        expect(tap, f"NVRTC of {name}", ferry_gen("check", "--device-target", "sm_75", folder / "k.json", env={**other, **found}), 0,
               [line.replace("compute_75", "sm_75").replace("13.0", "12.1") for line in lines[:4]])
    missing = "names no library that can be loaded"
    expect(tap, "no compiler", ferry_gen(*check, env=MISSING), 77,
           [f"NVRTC: FERRY_NVRTC_LIBRARY {missing}", f"hiprtc: FERRY_HIPRTC_LIBRARY {missing}", "clang: not installed"],
           ["ferry-gen: no text was compiled, because no compiler for it is installed; install"])
    expect(tap, "no compiler of the target", ferry_gen("check", "--device-target", "gfx942", folder / "k.json", env={**fakes, "FERRY_HIPRTC_LIBRARY": "/dev/null/absent"}), 77)
    expect(tap, "no compiler is asked without the option", ferry_gen("check", folder / "k.json", env=MISSING), 0, absent=["NVRTC", "clang"])

    write(folder, "struct mylib_point { float x, y; };\n#error")
    expect(tap, "a refused text is an error, and the others compile", ferry_gen(*check, env=fakes), 1, [line for line in lines if "move" not in line],
           [f"{folder}/k.json: mylib_move: does not compile as CUDA C++ for compute_75 by NVRTC 13.0:\n    fake.cu(1): error: there is an #error",
            f"{folder}/k.json: mylib_move: does not compile as HIP C++ for gfx90a by hiprtc 13.0:\n"], ["move: compiles"])
    write(folder, "struct mylib_point { float x, y; };\n#abort")
    expect(tap, "a compiler that ends its process fails one text", ferry_gen(*check, env=fakes), 1, [line for line in lines if "move" not in line],
           [f"{folder}/k.json: mylib_move: does not compile as HIP C++ for gfx90a by hiprtc 13.0:\n    hiprtc ended its process: signal 6"], ["move: compiles"])
    bad = changed(KERNELS, ["kernels", 0, "each"], "z[i] = y;")
    expect(tap, "errors of check come first", ferry_gen("check", "--device", write(folder, kernels=bad), env=fakes), 1, refused=["kernels[0].each: "], absent=["compiles"])


def real_cases(tap, folder):
    found = [compiler for compiler in compilers() if compiler.found]
    if not found:
        tap.skip("real compilers", "none is installed")
        return
    texts = texts_of(KernelFile(str(SEVERAL), read_object(str(SEVERAL), "")))
    lines = [f"{SEVERAL}: {text.name}: compiles as {TITLES[text.language]} for {compiler.default} by {compiler.title}"
             for compiler in found for text in texts if text.language == compiler.language and text.language != "hip"]
    expect(tap, f"{len(lines)} texts compile", ferry_gen("check", "--device", SEVERAL, env={"FERRY_HIPRTC_LIBRARY": "/dev/null/absent"}), 0, lines)

    # The compiler of C sees the struct of the program alone, and that of a device the declaration alone.
    nvrtc = Runtime("nvrtc")
    if not nvrtc.found:
        tap.skip("a text that NVRTC refuses", nvrtc.missing)
        return
    only = {**MISSING, "FERRY_NVRTC_LIBRARY": os.environ.get("FERRY_NVRTC_LIBRARY", "")}
    path = write(folder, "struct mylib_point { float x, z; };")
    (folder / "points.h").write_text("struct mylib_point {\n    float x, y;\n};\n")
    (folder / "main.c").write_text('#include "k.h"\nint main(void)\n{\n    return 0;\n}\n')
    problems = generate("header", [folder / "point.json"], folder / "point.h") + generate("kernels", [path], folder / "k.h")
    problems += [problem for name in ("float", "double") for problem in generate("header", [ROOT / "gen" / "types" / f"{name}.json"], folder / "ferry" / f"{name}.h")]
    problems += compile_problems(c_compilers()[0], ["-std=c99"], [folder, ROOT / "include"], folder / "main.c")
    tap.case("the compiler of C takes it", problems)
    expect(tap, "NVRTC refuses a member that the device's declaration lacks", ferry_gen("check", "--device", path, env=only), 1, refused=[
        f"{path}: mylib_move: does not compile as CUDA C++ for compute_75 by {nvrtc.title}:\n    mylib_move.cu(", 'has no member "y"'])
    write(folder, "struct mylib_point { double x, y; };")
    expect(tap, "NVRTC refuses a declaration of another size", ferry_gen("check", "--device", folder / "point.json", env=only), 1,
           refused=[f"{folder}/point.json: mylib_point: does not compile", "struct mylib_point has 8 bytes in C"])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        fakes = {"FERRY_NVRTC_LIBRARY": fake(folder, "nvrtc"), "FERRY_HIPRTC_LIBRARY": fake(folder, "hiprtc", "-DFAKEHIPRTC"), "PATH": "/dev/null/absent"}
        fake_cases(tap, folder, fakes)
        real_cases(tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
