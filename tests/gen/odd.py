#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whatever name ferry-gen accepts compiles: in C99, C11 and C++ with every warning, as CUDA where NVRTC is installed, and as OpenCL C where
clang is.

The names are the reserved words of all languages, the macros and types of C, and every word of the generated headers; the
places are those where a file of kernels or a type file may name something. Normally 12 names are drawn for each place of the first.

usage: odd.py [all | SEED]
"""

import json
import pathlib
import random
import re
import sys
import tempfile

from harness import (GEN, HERE, OPENCL_WARNINGS, ROOT, TEMPLATES, WARNINGS, Tap, builtin_headers, c_compilers, compile_problems, cxx_compilers,
                     device_problems)

import ferry_names
from ferry_device import Clang, Runtime, Text
from ferry_kernels import KernelFile
from ferry_render import Renderer
from ferry_types import RESERVED, ElementType, GeneratorError

DRAWN = 12
SEED = 20260101
ACCEPTED = ["memset", "n", "values", "result", "context", "status", "from", "to", "arguments", "call", "user", "next", "exp", "y0"]


def words():
    """Every word that might mean something to a compiler or to generated code, but the types of the header of the tests: a
    parameter called as one of them is a shadow in any code."""
    found = set(RESERVED) | ferry_names.DEVICE_WORDS | ferry_names.HOST_MACROS | ferry_names.CONSTANTS.keys() | ferry_names.NOT_CPP
    found |= set("float4 uint16 half CLK_LOCAL_MEM_FENCE MAXFLOAT HALF_MAX M_PI_F CHAR_MAX cl_khr_fp64 dot length clamp mix step sign cross select as_int".split())
    found |= ferry_names.SHARED_NAMES | ferry_names.SHARED_FUNCTIONS | ferry_names.ARITY.keys() | ferry_names.REFUSED
    for path in ("several_kernels.h", "cell_buffer.h"):
        text = (HERE / "golden" / "mylib" / path).read_text()
        found |= set(re.findall(r"[A-Za-z_]\w*", re.sub(r"/\*.*?\*/", " ", text, flags=re.S)))
    header = (HERE / "include" / "mylib" / "structs.h").read_text()
    return sorted(found - set(re.findall(r"^} (\w+);", header, re.M)))


def kernel(**keys):
    return {"kernels": [{"name": "k", **keys}]}


MAP = "z[i] = x[i];"
# What a file holds that has a name in one place. The values are functions of the name.
PLACES = {
    "kernel": lambda name: kernel(parameters=["read float x", "overwrite float z"], each=MAP) | {"kernels": [
        {"name": name, "parameters": ["read float x", "overwrite float z"], "each": MAP}]},
    "reduction": lambda name: {"kernels": [{"name": name, "sum": "float", "parameters": ["read float x"], "each": "x[i]"}]},
    "array of a map": lambda name: kernel(parameters=[f"update float {name}", "read double z"], each=f"{name}[i] = 2.0f * {name}[i] + sqrtf({name}[i]);"),
    "value of a map": lambda name: kernel(parameters=["update float x", f"float {name}"], each=f"x[i] = {name} * x[i];"),
    "struct of a map": lambda name: kernel(parameters=["update vec3 x", f"vec3 {name}"], each=f"x[i].x = {name}.x;"),
    "array of a reduction": lambda name: kernel(sum="double", parameters=[f"read double {name}"], each=f"{name}[i] * {name}[i]"),
    "value of a reduction": lambda name: kernel(max="int64_t", parameters=["read int x", f"int {name}"], each=f"x[i] + {name}"),
    "read array of a stencil": lambda name: kernel(stencil=1, dimensions=["rows", "columns"], parameters=[f"read float {name}", "overwrite float z"], each=f"z[i] = {name}(-1, 0);"),
    "written array of a stencil": lambda name: kernel(stencil=1, dimensions=["rows", "columns"], parameters=["read float x", f"overwrite float {name}"], each=f"{name}[i] = x(0, 1);"),
    "value of a stencil": lambda name: kernel(stencil=1, dimensions=["rows", "columns"], parameters=["read float x", "overwrite float z", f"float {name}"], each=f"z[i] = {name} * x(0, 1);"),
    "whole array": lambda name: kernel(parameters=[f"update whole float {name}", "read int at"], each=f"{name}[at[i]] = (float)count({name});"),
    "value in a buffer": lambda name: kernel(parameters=[f"read one float {name}", "update float x"], each=f"x[i] *= {name};"),
    "array of a count": lambda name: kernel(count=True, parameters=[f"update float {name}"], each=f"{name}[i] = (float)n;"),
    "result": lambda name: kernel(parameters=["update float x"], each="x[i] += 1.0f;", results=[{"name": name, "sum": "double", "value": "x[i]"}]),
    "variable beside a result": lambda name: kernel(parameters=["update float x"], each=f"const float {name} = x[i];",
                                                    results=[{"name": "total", "max": "float", "value": f"{name} + 1.0f"}]),
    "array of a plane": lambda name: kernel(dimensions=["rows", "columns"], parameters=[f"update float {name}"], each=f"{name}[i] += (float)column;"),
    "read array of a solid": lambda name: kernel(stencil=1, dimensions=["planes", "rows", "columns"], edges="wrap", parameters=[f"read float {name}", "overwrite float z"],
                                                 each=f"z[i] = {name}(-1, 0, 1);"),
    "result of a solid": lambda name: kernel(dimensions=["planes", "rows", "columns"], parameters=["update float x"], each="x[i] += 1.0f;",
                                             results=[{"name": name, "sum": "double", "value": "x[i]"}]),
    "text that returns": lambda name: kernel(parameters=[f"update float {name}", "read one float at"], each=f"if ({name}[i] > at) {{ return; }} {name}[i] = at;"),
    "variable": lambda name: kernel(parameters=["update float x"], each=f"const float {name} = x[i]; x[i] = {name} + {name};"),
    "variable of a stencil": lambda name: kernel(stencil=1, dimensions=["rows", "columns"], parameters=["read float x", "overwrite float z"], each=f"float {name} = x(0, 1); z[i] = {name};"),
    "function": lambda name: kernel(parameters=["update float x"], each=f"x[i] = {name}(x[i]);") | {"functions": [
        {"name": name, "returns": "float", "parameters": ["float a"], "body": "return a + a;"}]},
    "parameter of a function": lambda name: kernel(parameters=["update float x"], each="x[i] = f(x[i]);") | {"functions": [
        {"name": "f", "returns": "float", "parameters": [f"float {name}"], "body": f"{name} += 1.0f; return {name};"}]},
    "array of a function": lambda name: kernel(parameters=["update float x", "read whole float t"], each="x[i] = f(t, x[i]);") | {"functions": [
        {"name": "f", "returns": "float", "parameters": [f"read whole float {name}", "float a"], "body": f"return {name}[count({name}) - 1] * a;"}]},
    "typedef": lambda name: kernel(parameters=[f"update {name} x"], each=f"const {name} y = x[i]; x[i] = ({name})(y + sizeof({name}));") | {"typedefs": {name: "float"}},
    "constant": lambda name: kernel(parameters=["update float x"], each=f"x[i] = x[i] + {name};") | {"constants": {name: "1.5f"}},
}
TYPE_PLACES = {
    "C type": lambda name: {"c_type": name, "name": "one"},
    "type": lambda name: {"c_type": "struct plain", "name": name},
}


def variables():
    """The words of the generated header of a type that a user's typedef may have as its name."""
    text = re.sub(r"/\*.*?\*/|\"[^\"]*\"|^#.*?$", " ", (HERE / "golden" / "mylib" / "cell_buffer.h").read_text(), flags=re.S | re.M)
    return sorted(name for name in set(re.findall(r"\b[a-z]\w*", text))
                  if not re.match("ferry|mylib|mem|size_t|offsetof|ptrdiff|u?int", name) and name not in RESERVED)


def drawn(found, everything, chosen):
    return found if everything else sorted(set(chosen.sample(found, DRAWN)) | set(ACCEPTED))


def cuda_text(file):
    """The CUDA text of a file's kernel, without the macros that it leaves behind."""
    found = file.kernels[0]
    text = "".join(f"{element.cuda_text}\n" for element in {parameter.element for parameter in found.parameters} if element.cuda_text)
    return text + found.cuda_text + "".join(f"#undef {name}\n" for name in re.findall(r"#define (\w+)\(\w+_step_", found.cuda_text))


def opencl_text(file):
    """The same in OpenCL C, or a reason that does not compile."""
    found = file.kernels[0]
    text = "".join(dict.fromkeys(parameter.element.opencl_text for parameter in found.parameters))
    text += found.opencl_text or f"#error {found.no_opencl}\n"
    return text + "".join(f"#undef {name}\n" for name in re.findall(r"#define (\w+)\(\w+_step_", text))


def kernel_headers(folder, renderer, place, names):
    """Writes a header for each name that is accepted. Returns (names, headers, CUDA texts, OpenCL texts)."""
    accepted, headers, texts, opencl_texts = [], [], [], []
    for at, name in enumerate(names):
        header = f"{place.replace(' ', '_')}_{at}.h"
        data = {"ferry": 1, "prefix": f"p{at}", "header": header, "types": [str(HERE / "types" / "vec3.json")], **PLACES[place](name)}
        try:
            file = KernelFile(f"{name}.json", data)
        except GeneratorError:
            continue
        (folder / header).write_text(renderer.render("kernels.h.j2", k=file))
        accepted.append(name)
        headers.append(header)
        texts.append(cuda_text(file).replace("near_", f"near_{at}_"))
        opencl_texts.append(opencl_text(file).replace("near_", f"near_{at}_"))
    return accepted, headers, texts, opencl_texts


def type_headers(folder, renderer, place, names):
    accepted, headers = [], []
    for at, name in enumerate(names):
        header = f"{place.replace(' ', '_')}_{at}.h"
        keys = TYPE_PLACES[place](name)
        declared = f"struct {keys['c_type'].split()[-1]} {{\n    float x;\n    int y;\n}};\n"
        if place == "C type":
            declared = f"typedef struct {name}_tag {{\n    float x;\n    int y;\n}} {name};\n"
        data = {"ferry": 1, "prefix": f"p{at}", "header": header, "include": [f"declared_{header}"], "kind": "struct",
                "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "int"}], **keys}
        try:
            element = ElementType(f"{name}.json", data)
        except GeneratorError:
            continue
        (folder / f"declared_{header}").write_text(declared)
        (folder / header).write_text(renderer.render("typed.h.j2", t=element))
        accepted.append(name)
        headers.append(header)
    return accepted, headers


def compiled(folder, folders, place, headers, alone):
    """Compiles the headers in every language: in one file, or each alone where their types would meet."""
    problems = []
    groups = [[header] for header in headers] if alone else [headers]
    for at, group in enumerate(groups):
        path = folder / f"{place.replace(' ', '_')}.c"
        path.write_text("".join(f'#include "{header}"\n' for header in group) + "typedef int not_empty;\n")
        commands = [(one, ["-std=c99"]) for one in c_compilers()] + [(one, ["-std=c11"]) for one in c_compilers()]
        commands += [(one, ["-x", "c++", "-std=c++17"]) for one in cxx_compilers()]
        for compiler, options in commands if not alone else commands[at % 2::2]:
            problems += compile_problems(compiler, [*options, "-fsyntax-only", *WARNINGS], folders, path)
    return problems


def main():
    everything = sys.argv[1:] == ["all"]
    seed = int(sys.argv[1]) if len(sys.argv) > 1 and not everything else SEED
    chosen, tap, nvrtc, opencl = random.Random(seed), Tap(), Runtime("nvrtc"), Clang()
    print(f"# seed {seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        renderer = Renderer(str(TEMPLATES))
        problems = builtin_headers(folder)
        (folder / "mylib").mkdir()
        vec3 = ElementType(str(HERE / "types" / "vec3.json"), json.loads((HERE / "types" / "vec3.json").read_text()))
        (folder / "mylib" / "vec3_buffer.h").write_text(renderer.render("typed.h.j2", t=vec3))
        tap.case("the headers of types are generated", problems)
        folders = [folder, HERE / "include", ROOT / "include"]
        for place in PLACES:
            names, headers, texts, opencl_texts = kernel_headers(folder, renderer, place, drawn(words(), everything, chosen))
            problems = [] if names else ["no name is accepted"]
            tap.case(f"{place}: {len(names)} names compile", problems + compiled(folder, folders, place, headers, False))
            if nvrtc.found:
                tap.case(f"{place}: {len(names)} texts compile as CUDA", device_problems(nvrtc, [Text("odd", "cuda", "".join(texts))]))
            else:
                tap.skip(f"{place}: CUDA", "NVRTC is not installed")
            if opencl.found:
                text = Text("odd", "opencl", "".join(opencl_texts))
                tap.case(f"{place}: {len(names)} texts compile as OpenCL C", device_problems(opencl, [text], OPENCL_WARNINGS))
            else:
                tap.skip(f"{place}: OpenCL C", "clang is not installed")
        for place in TYPE_PLACES:
            names, headers = type_headers(folder, renderer, place, variables())
            tap.case(f"{place}: {len(names)} names compile", compiled(folder, folders, place, headers, True))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
