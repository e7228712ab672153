#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels and structs in OpenCL C: clang compiles the text of every file of kernels, the structs have the layout of C, and what OpenCL C
cannot express has no text and a reason.

usage: opencl.py
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from harness import (C_WARNINGS, HERE, KERNEL_FILES, OPENCL_WARNINGS, ROOT, TYPES, Tap, builtin_headers, c_compilers, compile_problems, device_problems, ferry_gen,
                     generate)

import ferry_names
import ferry_opencl
from ferry_device import Clang, Text, texts_of
from ferry_kernels import KernelFile
from ferry_types import ElementType, read_object
from output import DECLARED, one_struct


def kernel_file(data, **more):
    base = {"ferry": 1, "prefix": "mylib", "header": "mylib/k.h", "types": [str(TYPES / "vec3.json"), str(TYPES / "cell.json")]}
    return KernelFile("k.json", {**base, **more, "kernels": [{"name": "k", **data}]})


def opencl_problems(compiler, described):
    """What clang says of what a device compiles."""
    return device_problems(compiler, [text for text in texts_of(described) if text.language == "opencl"], OPENCL_WARNINGS)


def file_cases(tap, compiler):
    for path in KERNEL_FILES:
        found = KernelFile(str(path), read_object(str(path), ""))
        problems = [f"{key}: {note}" for key, note in found.notes] + opencl_problems(compiler, found)
        tap.case(f"{len(found.kernels)} texts of {path.relative_to(ROOT)} compile", problems)


# What each text must become: (name, keys of the kernel, words of the text, words that it must not have).
WRITTEN = [
    ("long long", {"parameters": ["update int64_t x", "long long by"], "each": "unsigned long long int w = 5ull + 0x7fLL; x[i] += (long long)w * by;"},
     ["__global long *x", "long by", "unsigned long int w = 5ul + 0x7fL", "(long)w"], ["long long", "ull"]),
    ("hexadecimal floats", {"parameters": ["update float x"], "each": "x[i] = 0x1.8p3f * x[i];"}, ["0x1.8p3f"], []),
    ("arrays of bool", {"parameters": ["update bool x", "read int y", "bool all"], "each": "bool one = y[i] & 4; x[i] = all ? y[i] : one;"},
     ["__global uchar *x", "uchar all", "bool one", "x[i] = (( all ? y[i] : one) != 0);"], ["bool *"]),
    ("chains of bool", {"parameters": ["overwrite bool x", "overwrite bool z", "read int y"], "each": "x[i] = z[i] = y[i];"},
     ["x[i] = (( z[i] = (( y[i]) != 0)) != 0);"], []),
    ("members that are bool", {"parameters": ["update cell x", "int by"], "each": "x[i].truth[1] = by; x[i].level = by;"},
     ["x[i].truth[1] = (( by) != 0);", "x[i].level = by;"], []),
    ("absolute values", {"parameters": ["update int x"], "each": "x[i] = abs(x[i]) - 5;"},
     ["static int mylib_kernels_abs_(int x) { return x < 0 ? -x : x; }", "mylib_kernels_abs_(x[i]) - 5"], []),
    ("functions of float", {"parameters": ["update float x", "update double y"], "each": "x[i] = fminf(expf(x[i]), 2.0f); y[i] = fmin(exp(y[i]), 2.0);"},
     ["{ return fmin(x, y); }", "{ return (float)exp((double)x); }", "{ return exp(x); }"], []),
    ("functions of other names", {"parameters": ["update float x", "update int64_t y"],
                                  "each": "x[i] = ldexpf(x[i], 3) + nearbyintf(x[i]); y[i] = llround((double)x[i]) + lrintf(x[i]) + ilogbf(x[i]);"},
     ["static float mylib_kernels_ldexpf_(float x, int y)", "static long mylib_kernels_lrintf_(float x)"], []),
    ("constants", {"parameters": ["update double x"], "each": "x[i] = x[i] > DBL_MAX ? INFINITY : x[i] != x[i] ? NAN : (double)LLONG_MAX + M_PI;"},
     ["9223372036854775807l"], ["__int_as_float"]),
    ("half and complex elements", {"parameters": ["read half a", "overwrite half b", "update complex_double c"], "each": "b[i] = a[i]; c[i].real += 1;"},
     ["__global const ferry_half *a", "__global ferry_complex_double *c"], []),
    ("a least value of 64 bits", {"parameters": ["read int64_t x"], "min": "int64_t", "each": "x[i]"}, ["__local long shared_[256]", "barrier(CLK_LOCAL_MEM_FENCE);"], []),
    ("fast", {"parameters": ["update float x"], "each": "x[i] += x[i] * x[i];", "fast": True}, [], ["FP_CONTRACT"]),
    ("a local that hides a function", {"parameters": ["update float x"], "each": "float step = x[i]; x[i] = step;"}, ["float step"], []),
    ("a function with pointers to its own variables", {"parameters": ["update float x"], "each": "x[i] = f(x[i]);"}, ["float *p = &a;"], []),
    ("a size of C", {"parameters": ["update float x", "size_t s"], "each": "x[i] = (float)(s + sizeof(float) + n);"}, ["ulong s", "ferry_size n_"], []),
]
FUNCTIONS = [{"name": "f", "returns": "float", "parameters": ["float a"], "body": "float *p = &a; *p += 1.0f; return a;"}]

# What has no text, and words of the reason: (name, keys of the kernel, words).
INEXPRESSIBLE = [
    ("memcpy", {"parameters": ["update float x"], "each": "float y = x[i]; int b; memcpy(&b, &y, sizeof(b)); x[i] = (float)b;"},
     "calls 'memcpy', which OpenCL C has not; expected other functions"),
    ("frexp", {"parameters": ["update double x"], "each": "int e; x[i] = frexp(x[i], &e);"}, "calls 'frexp'"),
    ("a pointer into an array", {"parameters": ["read whole float x", "overwrite float z"], "each": "const float *p = x; z[i] = p[i];"}, "declares a pointer"),
    ("a cast to a pointer", {"parameters": ["update float z"], "each": "float y = z[i]; z[i] = *(const float *)&y;"}, "declares a pointer"),
    ("an array as a value", {"parameters": ["read whole float x", "overwrite float z"], "each": "z[i] = *x;"}, "uses 'x' as a pointer; expected elements"),
    ("the address of an element", {"parameters": ["read whole float x", "overwrite float z"], "each": "z[i] = *&x[i];"}, "takes the address of an element"),
    ("the address of a member", {"parameters": ["read whole vec3 x", "overwrite float z"], "each": "z[i] = *&x[i].v[1];"}, "takes the address of an element"),
    ("a static variable", {"parameters": ["update float x"], "each": "static const float w = 2.0f; x[i] *= w;"}, "holds 'static'"),
    ("a long double", {"parameters": ["update float x"], "each": "long double w = x[i]; x[i] = (float)w;"}, "names the type 'long double'; expected 'double'"),
    ("a sum of bools", {"parameters": ["update bool x", "read int y"], "each": "x[i] += y[i];"}, "holds '+=' on a bool"),
    ("a step of a bool", {"parameters": ["update bool x"], "each": "x[i]++;"}, "holds '++' on a bool"),
    ("a name of the options for CUDA alone", {"parameters": ["update float x"], "each": "x[i] *= WEIGHT;", "options": ["-DWEIGHT=2.0f"]},
     "expected the option '-DWEIGHT=...' in 'options' for opencl"),
    ("a struct with a declaration in CUDA alone", {"parameters": ["update bare x"], "each": "x[i].y = 1;"}, "expected 'opencl_declaration' in bare.json"),
    ("a member with a word of OpenCL C", {"parameters": ["update words x"], "each": "x[i].y = 1;"}, "expected 'opencl_declaration' in words.json"),
]


def written_cases(tap, compiler):
    for name, data, words, absent in WRITTEN:
        found = kernel_file(data, functions=FUNCTIONS)
        kernel = found.kernels[0]
        text = kernel.opencl_text + kernel.into_opencl_text
        problems = [note for _, note in found.notes]
        problems += [f"no '{word}' in: {text}" for word in words if word not in text]
        problems += [f"'{word}' in: {text}" for word in absent if word in text]
        if compiler.found and not problems:
            problems += opencl_problems(compiler, found)
        tap.case(f"text with {name}", problems)


def function_cases(tap, compiler):
    """Every function of C that a text may call compiles where OpenCL C has it."""
    problems = []
    for base in sorted(ferry_names.ARITY | dict.fromkeys(ferry_opencl.SPELLED, 0)):
        for name in (base, base + "f") if base not in ("abs", "labs", "llabs") else (base,):
            count = ferry_names.ARITY.get(base) or len(ferry_opencl.SPELLED[base][1].split(","))
            c_type = "float" if name != base else "double"
            arguments = ", ".join(["x[i]"] * count)
            found = kernel_file({"parameters": [f"update {c_type} x"], "each": f"x[i] = ({c_type}){name}({arguments});"})
            problems += [f"{name}: {line}" for line in [*(note for _, note in found.notes), *opencl_problems(compiler, found)]]
    tap.case("every function of C compiles", problems)


def write_types(folder):
    bare = one_struct([{"name": "y", "type": "float"}], cuda_declaration="struct bare { float y; };")
    words = one_struct([{"name": "y", "type": "float"}, {"name": "global", "type": "float"}])
    for name, data in (("bare", bare), ("words", words)):
        (folder / f"{name}.json").write_text(json.dumps({**data, "name": name, "c_type": f"struct {name}", "header": f"{name}_made.h"}))
    return [str(folder / f"{name}.json") for name in ("bare", "words")]


def inexpressible_cases(tap, folder):
    """Such a kernel has its other texts, and `check` says why it has none in OpenCL C. Options for OpenCL ask for the text."""
    types = [str(TYPES / "vec3.json"), *write_types(folder)]
    base = {"ferry": 1, "prefix": "mylib", "header": "mylib/k.h", "types": types}
    for name, data, words in INEXPRESSIBLE:
        path = folder / "k.json"
        path.write_text(json.dumps({**base, "kernels": [{"name": "k", **data}]}))
        result = ferry_gen("check", path)
        problems = [] if result.returncode == 0 and not result.stderr else [f"{result.returncode}: {result.stderr}"]
        problems += [] if result.stdout.startswith(f"{path}: kernels[0].each: has no text in OpenCL C: it ") else [f"says: {result.stdout}"]
        problems += [] if words in result.stdout else [f"no '{words}' in: {result.stdout}"]
        made = ferry_gen("kernels", path, "-o", folder / "k.h")
        header = (folder / "k.h").read_text() if made.returncode == 0 else made.stderr
        problems += [] if "FERRY_CODE_CUDA" in header and "FERRY_CODE_OPENCL" not in header and words in header else [header[:300]]
        given = data.get("options", [])
        path.write_text(json.dumps({**base, "kernels": [{"name": "k", **data, "options": {"cuda": given, "opencl": ["-w"]}}]}))
        result = ferry_gen("check", path)
        refused = result.returncode == 1 and f"{path}: kernels[0].each: " in result.stderr and words in result.stderr
        tap.case(f"no text with {name}", problems + ([] if refused else [f"is not refused with options: {result.stderr}"]))


def option_cases(tap, folder):
    """Each language has its options. CUDA source with options, or options of HIP, make the same text HIP source with those of HIP."""
    keys = {"parameters": ["update float x"], "each": "x[i] *= W;"}
    for name, options, kinds in (
            ("a list", ["-DW=2.0f"], {"CUDA": ["-DW=2.0f"], "HIP": []}),
            ("CUDA and OpenCL", {"cuda": ["-DW=2.0f", "-lineinfo"], "opencl": ["-DW=3.0f"]}, {"CUDA": ["-DW=2.0f", "-lineinfo"], "HIP": [], "OPENCL": ["-DW=3.0f"]}),
            ("all", {"cuda": ["-DW=2.0f"], "opencl": ["-DW=3.0f"], "hip": ["-DW=4.0f"]}, {"CUDA": ["-DW=2.0f"], "HIP": ["-DW=4.0f"], "OPENCL": ["-DW=3.0f"]})):
        path = folder / "k.json"
        path.write_text(json.dumps({"ferry": 1, "prefix": "mylib", "header": "mylib/k.h", "kernels": [{"name": "k", **keys, "options": options}]}))
        made = ferry_gen("kernels", path, "-o", folder / "k.h")
        header = (folder / "k.h").read_text() if made.returncode == 0 else ""
        problems = made.stderr.splitlines()
        lists = {one: re.findall(r'"([^"]*)"', words) for one, words in re.findall(r"static const char \*const (\w+)\[\] = \{(.*?)\};", header)}
        found = {kind: lists.get(variable, []) for kind, variable in re.findall(r"\{FERRY_CODE_(\w+), FERRY_CODE_EXACT, \w+, 0, (\w+), \d, FERRY_NULL", header)}
        tap.case(f"options of {name}", problems + ([] if found == kinds else [f"{found}, not {kinds}"]))


def left_out_case(tap, folder):
    """FERRY_NO_OPENCL_SOURCE leaves every text out of a program, and the header compiles."""
    path = folder / "none.c"
    path.write_text('#include "mylib/several_kernels.h"\ntypedef int not_empty;\n')
    problems = builtin_headers(folder) + generate("header", [TYPES / "large.json"], str(folder / "mylib" / "large_buffer.h"))
    folders = [HERE / "golden", HERE / "include", folder, ROOT / "include"]
    for compiler in c_compilers():
        for option, found in (("-DFERRY_NO_OPENCL_SOURCE", False), ("-DNOTHING", True)):
            problems += compile_problems(compiler, ["-std=c99", option, *C_WARNINGS], folders, path)
            done = subprocess.run([*compiler, "-E", option, *(f"-I{one}" for one in folders), str(path)], capture_output=True, text=True)
            if ("__kernel __attribute__" in done.stdout) is not found or ("FERRY_CODE_OPENCL, " in done.stdout) is not found:
                problems.append(f"{compiler[0]} {option}: the texts are {'not there' if found else 'there'}")
    tap.case("FERRY_NO_OPENCL_SOURCE leaves the texts out", problems)


def struct_cases(tap, compiler):
    """A struct is declared once where several parameters bring it, and has the places and the size of C."""
    packed = one_struct([{"name": "x", "type": "char"}, {"name": "l", "type": "label"}], align=2)
    cases = DECLARED + [("nested structs", json.loads((TYPES / "cell.json").read_text()), []), ("a packed nested struct", packed, []),
                        ("a packed struct with gaps", one_struct([{"name": "x", "type": "char"}, {"name": "y", "type": "int", "offset": 6}], bytes=12, align=2), [])]
    for name, data, _ in cases:
        element = ElementType(str(TYPES / "one.json"), dict(data, conversions=[]))
        struct = element.opencl_type
        checks = "".join(f'_Static_assert(__builtin_offsetof({struct}, {field.name}) == {field.offset}, "{field.name}");\n' for field in element.fields)
        checks += f'_Static_assert(sizeof({struct}) == {element.bytes}, "size");\n_Static_assert(__alignof__({struct}) == {element.align}, "alignment");\n'
        problems = [] if element.opencl_text else ["no declaration"]
        tap.case(f"struct: {name}", problems + device_problems(compiler, [Text(name, "opencl", element.opencl_text + checks, [element])], OPENCL_WARNINGS))


def main():
    tap = Tap()
    compiler = Clang()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        written_cases(tap, compiler)
        inexpressible_cases(tap, folder)
        option_cases(tap, folder)
        left_out_case(tap, folder)
        if compiler.found:
            file_cases(tap, compiler)
            function_cases(tap, compiler)
            struct_cases(tap, compiler)
        else:
            tap.skip("texts compile", "no clang, which reads OpenCL C")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
