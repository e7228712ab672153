#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Output depends only on the input, the depfile names every file that was read, faults in templates and in sizes are errors, and each function is inline and defined in one header."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from harness import (BUILTIN, C_WARNINGS, GEN, HERE, ROOT, TEMPLATES, TYPES, WARNINGS, Tap, builtin_headers, c_compilers,
                     compile_problems, cxx_compilers, ferry_gen, generate)

from ferry_device import declarations

NUMERIC = [(f"{kind}{bits}", f"{kind}{bits}_t", kind, bits) for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NUMERIC += [("single", "float", "float", 32), ("twice", "double", "float", 64)]
COMMANDS = ("header", "fortran", "convert", "convert-pairs")


def all_outputs(folder, types, hash_seed):
    """Runs every command in `folder` with this hash seed. Returns the texts."""
    folder.mkdir()
    texts = []
    for command in COMMANDS:
        several = command.startswith("convert")
        arguments = [BUILTIN / "float.json", BUILTIN / "int.json"] if several else [types / "vec3.json"]
        result = ferry_gen(command, *arguments, "-o", "made", folder=folder, env={"PYTHONHASHSEED": hash_seed})
        texts.append((folder / "made").read_text() if result.returncode == 0 else result.stderr)
    return texts


def same_cases(tap, folder):
    copied = folder / "copied types"
    shutil.copytree(TYPES, copied)
    first = all_outputs(folder / "first", TYPES, "1")
    second = all_outputs(folder / "second", copied, "2")
    for command, one, two in zip(COMMANDS, first, second):
        tap.case(f"{command}: the same input gives the same bytes", [] if one == two else ["the outputs differ"])
        paths = [line for line in one.splitlines() if str(ROOT) in line or str(folder) in line]
        tap.case(f"{command}: no path of this machine", paths)


def depfile_entries(path):
    target, _, rest = path.read_text().replace("\\\n", " ").partition(": ")
    entries = re.split(r"(?<!\\)\s+", rest.strip())
    return target.replace("\\ ", " "), {os.path.realpath(entry.replace("\\ ", " ")) for entry in entries}


def depfile_case(tap, folder, command, types, expected):
    output, depfile = folder / "a b.h", folder / "a b.d"
    problems = generate(command, types, str(output), "--depfile", depfile)
    if not problems:
        target, entries = depfile_entries(depfile)
        expected = {os.path.realpath(path) for path in [*expected, *types]}
        expected |= {str(GEN / f"ferry_{module}.py") for module in ("gen", "layout", "names", "types", "render")}
        problems = [f"target {target}"] if target != str(output) else []
        problems += [f"not named: {path}" for path in expected - entries]
        problems += [f"named in vain: {path}" for path in entries - expected]
    tap.case(f"depfile of {command} {types[0].name}", problems)


def depfile_cases(tap, folder):
    element = TEMPLATES / "element.h.j2"
    sources = [BUILTIN / "float.json", BUILTIN / "double.json"]
    depfile_case(tap, folder, "header", [BUILTIN / "byte.json"], [TEMPLATES / "typed.h.j2", element])
    depfile_case(tap, folder, "header", [TYPES / "vec3.json"], [TEMPLATES / "typed.h.j2", element, *sources])
    fields = [TYPES / "label.json", BUILTIN / "byte.json", BUILTIN / "half.json"]
    depfile_case(tap, folder, "header", [TYPES / "cell.json"], [TEMPLATES / "typed.h.j2", element, TYPES / "vec3.json", *fields])
    depfile_case(tap, folder, "fortran", [BUILTIN / "byte.json"], [TEMPLATES / "fortran.f90.j2", GEN / "ferry_fortran.py"])
    pairs = GEN / "ferry_pairs.py"
    depfile_case(tap, folder, "convert", sources, [TEMPLATES / "convert.h.j2", element, pairs])
    depfile_case(tap, folder, "convert-pairs", sources, [TEMPLATES / "convert_pairs.h.j2", pairs])


def refused(result, words, absent):
    problems = [] if result.returncode == 1 else [f"exit status {result.returncode}"]
    problems += [] if words in result.stderr else [f"no '{words}' in: {result.stderr}"]
    problems += [f"{absent} was written"] if absent.exists() else []
    return problems


def template_cases(tap, folder):
    templates, output = folder / "templates", folder / "refused.h"
    shutil.copytree(TEMPLATES, templates)
    header = templates / "typed.h.j2"
    good = header.read_text()
    header.write_text(good + "{{ t.nonsense }}\n")
    result = ferry_gen("header", BUILTIN / "float.json", "-o", output, "--templates", templates)
    tap.case("an undefined name in a template is an error", refused(result, "nonsense", output))
    header.write_text(good + "{% if %}\n")
    result = ferry_gen("header", BUILTIN / "float.json", "-o", output, "--templates", templates)
    tap.case("a mistake in a template names its line", refused(result, f"typed.h.j2:{good.count(chr(10)) + 1}", output))
    header.unlink()
    result = ferry_gen("header", BUILTIN / "float.json", "-o", output, env={"FERRY_TEMPLATES": str(templates)})
    tap.case("FERRY_TEMPLATES names the folder", refused(result, f"{header}: cannot be read", output))


def unwritable_cases(tap, folder):
    """The message names the requested file, not a temporary file."""
    missing, taken = folder / "none" / "x.h", folder / "taken"
    taken.mkdir()
    cases = {"an output in a folder that is not there": (["-o", missing], missing, f"there is no folder {missing.parent}"),
             "an output that is a folder": (["-o", taken], taken, ""),
             "a depfile in a folder that is not there": (["-o", folder / "made.h", "--depfile", missing], missing, "there is no folder")}
    for name, (options, asked, words) in cases.items():
        result = ferry_gen("header", BUILTIN / "float.json", *options)
        problems = refused(result, f"ferry-gen: {asked}: cannot be written: {words}", folder / "made.h")
        problems += [f"a temporary file: {result.stderr}"] if ".ferry-gen-" in result.stderr else []
        problems += [f"left {path}" for path in folder.glob(".ferry-gen-*")]
        tap.case(name, problems)


def hiding_cases(tap, folder):
    """An output whose folder a compiler searches must not be called like a system header; below another folder it may."""
    made, plain = folder / "hiding", folder / "plain.json"
    made.mkdir()
    plain.write_text(json.dumps({**json.loads((TYPES / "large.json").read_text()), "header": "large.h"}))
    for name in ("float.h", "pthread.h", "vector"):
        result = ferry_gen("header", plain, "-o", made / name)
        tap.case(f"an output called {name}", refused(result, f"ferry-gen: {made / name}: would hide <{name}>", made / name))
    tap.case("an output called float.h that is included with its folder", generate("header", [TYPES / "large.json"], f"{made}/float.h"))


def version_cases(tap):
    launcher, version = os.environ.get("FERRY_GEN"), os.environ.get("FERRY_VERSION")
    if launcher:
        result = subprocess.run([launcher, "--version"], capture_output=True, text=True)
        right = result.returncode == 0 and re.fullmatch(rf"ferry-gen {re.escape(version)}, type files of version 1, .*\n", result.stdout)
        tap.case("--version of the built program", [] if right else [result.stdout + result.stderr])
    else:
        tap.skip("--version of the built program", "FERRY_GEN does not name one")
    result = ferry_gen("--version")
    tap.case("--version in the source tree", [] if result.stdout.startswith("ferry-gen (from a source tree), ") else [result.stdout])


def old_output_case(tap, folder):
    output = folder / "old.h"
    output.write_text("old\n")
    (folder / "broken.json").write_text("{}")
    ferry_gen("header", folder / "broken.json", "-o", output)
    tap.case("a refused file leaves the old output alone", [] if output.read_text() == "old\n" else ["it changed"])


def assert_cases(tap, folder):
    """The compiler checks the sizes, alignment and offsets of the description."""
    vec3 = json.loads((TYPES / "vec3.json").read_text())
    changes = {"bytes": lambda t: t.update(bytes=40), "align": lambda t: t.update(align=4),
               "offset": lambda t: t["fields"][2].update(offset=17), "width": lambda t: t["fields"][1].update(count=1)}
    for name, change in changes.items():
        data = json.loads(json.dumps(vec3))
        change(data)
        (folder / "vec3.json").write_text(json.dumps(data))
        problems = generate("header", [folder / "vec3.json"], f"{folder}/mylib/vec3_buffer.h")
        (folder / "vec3.c").write_text('#include "mylib/vec3_buffer.h"\ntypedef int not_empty;\n')
        folders = [folder, HERE / "include", ROOT / "include"]
        for standard, words in (("c99", "ferry_static_assert"), ("c11", "vec3.json: ")):
            errors = compile_problems(c_compilers()[0], [f"-std={standard}"], folders, folder / "vec3.c")
            if not any(words in error for error in errors):
                problems.append(f"{standard}: no '{words}' in {errors}")
        tap.case(f"the compiler refuses a wrong {name}", problems)


WIDE = [{"name": name, "type": c_type} for name, c_type in
        (("a", "char"), ("b", "long"), ("c", "bool"), ("d", "double"), ("e", "size_t"), ("f", "short"))]
# data model: (offsets, bytes, align) of WIDE
LAYOUTS = {"lp64": ([0, 8, 16, 24, 32, 40], 48, 8), "llp64": ([0, 4, 8, 16, 24, 32], 40, 8),
           "ilp32": ([0, 4, 8, 16, 24, 28], 32, 8), "ilp32-i386": ([0, 4, 8, 12, 20, 24], 28, 4)}


def made_header(folder, data, *options):
    """Generates the header of one type. Returns its text and the problems."""
    (folder / "one.json").write_text(json.dumps(data))
    problems = generate("header", [folder / "one.json"], f"{folder}/made/one.h", *options)
    return ("" if problems else (folder / "made" / "one.h").read_text()), problems


def one_struct(fields, **more):
    return {"ferry": 1, "prefix": "mylib", "name": "one", "c_type": "struct one", "header": "made/one.h", "include": ["one_struct.h"],
            "kind": "struct", "fields": fields, **more}


def cuda_text(header):
    """Returns the CUDA declaration in a header."""
    found = re.search(r"/\* CUDA      \*/\n(.*?),\n        /\* OpenCL", header, re.S)
    return "".join(line.strip()[1:-1] for line in found[1].splitlines()).encode().decode("unicode_escape") if found else ""


def layout_cases(tap, folder):
    """If a file has no layout, the generator uses that of the data model, and the compiler checks it."""
    for target, (offsets, size, align) in LAYOUTS.items():
        header, problems = made_header(folder, one_struct(WIDE), "--target", target)
        found = [int(offset) for offset in re.findall(r"offsetof\(struct one, \w\) == (\d+)", header)]
        problems += [] if found == offsets else [f"offsets {found}, not {offsets}"]
        problems += [] if f"{size} bytes, aligned to {align}" in header else [f"not {size} bytes, aligned to {align}"]
        tap.case(f"the layout of {target}", problems)
    header, problems = made_header(folder, one_struct([{"name": "x", "type": "char"}, {"name": "y", "type": "double"}], align=2))
    problems += [] if "offsetof(struct one, y) == 2," in header and "10 bytes, aligned to 2" in header else ["not packed to 2"]
    tap.case("a struct that is aligned to less than its fields is packed", problems)
    (folder / "one_struct.h").write_text("#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <ferry/number.h>\n"
                                         "struct one { char a; long b; bool c; double d; size_t e; short f; };\n")
    (folder / "one.c").write_text('#include "made/one.h"\ntypedef int not_empty;\n')
    for target, right in (("lp64", sys.maxsize > 2**32), ("ilp32", False)):
        problems = made_header(folder, one_struct(WIDE), "--target", target)[1]
        errors = compile_problems(c_compilers()[0], ["-std=c11"], [folder, ROOT / "include"], folder / "one.c")
        tap.case(f"the compiler {'takes' if right else 'refuses'} the layout of {target}", problems + (errors if right else [] if errors else ["it compiles"]))


DECLARED = [
    ("explicit places", one_struct([{"name": "y", "type": "int", "offset": 12}, {"name": "x", "type": "char", "offset": 3}], bytes=24, align=4),
     ["int y", "char x"]),
    ("a packed struct", one_struct([{"name": "x", "type": "char"}, {"name": "y", "type": "double"}], align=1), ["char x", "double y"]),
    ("an over-aligned struct", one_struct([{"name": "x", "type": "float", "count": 3}], align=16), ["float x[3]"]),
    ("names of every width", one_struct([{"name": f"f{i}", "type": c_type} for i, c_type in enumerate(
        ("float", "double", "short", "int", "long", "long long", "size_t", "bool", "_Bool", "ferry_half", "ferry_bfloat16",
         "ferry_complex_double", "enum", "ptrdiff_t", "uint8_t", "int64_t"))]), ["f0", "f15"]),
    ("a union of one", dict(one_struct([{"name": "x", "type": "float"}]), c_type="union one"), ["union one"]),
]


def declaration_cases(tap, folder):
    """The derived CUDA declaration is valid C++ with the same layout, also if it is twice in one source."""
    builtin = declarations("cuda")
    cases = DECLARED + [("nested structs", json.loads((TYPES / "cell.json").read_text()), ["struct mylib_label labels[1][2];"]),
                        ("a packed nested struct", one_struct([{"name": "x", "type": "char"}, {"name": "l", "type": "label"}], align=2),
                         ["#pragma pack(push, 2)", "struct mylib_label l;"])]
    for name in ("label", "vec3"):
        shutil.copy(TYPES / f"{name}.json", folder)
    for name, data, words in cases:
        header, problems = made_header(folder, dict(data, conversions=[]))
        text = cuda_text(header)
        problems += [f"no '{word}' in: {text}" for word in words if word not in text]
        offsets = re.findall(r"offsetof\((\w+ \w+), ([\w.\[\]]+)\) == (\d+)", header)
        checks = "".join(f'static_assert(__builtin_offsetof({one}, {field}) == {offset}, "{field}");\n' for one, field, offset in offsets)
        # The source includes no headers of this machine, because NVRTC has none.
        (folder / "cuda.cc").write_text("typedef __SIZE_TYPE__ size_t;\n" + builtin + "\n" + text + text + checks)
        for compiler in cxx_compilers():
            problems += compile_problems(compiler, ["-std=c++17", "-Wno-invalid-offsetof", "-D__align__(n)=alignas(n)"], [], folder / "cuda.cc")
        problems += [] if len(offsets) > 0 else ["no offsets"]
        tap.case(f"the CUDA declaration of {name}", problems)


def user_conversion_cases(tap, folder):
    """Headers of two types that convert to each other, one of another project, compile in every order."""
    (folder / "both.h").write_text("#ifndef BOTH_H\n#define BOTH_H\n#include <stddef.h>\nstruct p { float x; };\nstruct q { double x; };\n"
                                   "void p_q(struct q *t, const struct p *s, size_t n);\nvoid q_p(struct p *t, const struct q *s, size_t n);\n#endif\n")
    base = {"ferry": 1, "kind": "struct", "include": ["both.h"]}
    files = {"p": dict(base, prefix="mylib", name="p", c_type="struct p", header="p_made.h", fields=[{"name": "x", "type": "float"}],
                       conversions=[{"to": "q", "function": "p_q"}]),
             "q": dict(base, prefix="yourlib", name="q", c_type="struct q", header="q_made.h", fields=[{"name": "x", "type": "double"}],
                       conversions=[{"to": "p.json", "function": "q_p"}])}
    problems = []
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    for name in files:
        problems += generate("header", [folder / f"{name}.json"], f"{folder}/{name}_made.h")
    for order in ("pq", "qp"):
        (folder / "both.c").write_text("".join(f'#include "{name}_made.h"\n' for name in order) + """
ferry_status both(mylib_p_buffer p, yourlib_q_buffer q);
ferry_status both(mylib_p_buffer p, yourlib_q_buffer q)
{
    struct p one = {1};
    struct q two;
    if (mylib_convert_p_to_yourlib_q(&two, &one, 1, FERRY_CONVERT_SATURATE) != FERRY_OK)
        return mylib_p_convert_to_yourlib_q(q, 0, p, 0, 1, FERRY_CONVERT_SATURATE, NULL);
    return yourlib_q_convert_to_mylib_p(p, 0, q, 0, 1, FERRY_CONVERT_SATURATE, NULL);
}
""")
        for compiler in c_compilers():
            problems += compile_problems(compiler, ["-std=c99", *C_WARNINGS], [folder, ROOT / "include"], folder / "both.c")
        for compiler in cxx_compilers():
            problems += compile_problems(compiler, ["-std=c++11", "-x", "c++", *WARNINGS], [folder, ROOT / "include"], folder / "both.c")
    tap.case("two types convert to each other", problems)


# Each entry is (C declaration of a type, name of the type, kinds of numbers that the type can hold). Other tests check
# the sizes of types.
HOLDS = [
    ("typedef float metre;", "metre", "float"),
    ("typedef double far;", "far", "float"),
    ("typedef long whole;", "whole", "int"),
    ("typedef long long wide;", "wide", "int"),
    ("typedef unsigned long long natural;", "natural", "uint"),
    ("typedef uint32_t word;", "word", "uint"),
    ("typedef char letter;", "letter", "int uint bool"),
    ("typedef signed char small;", "small", "int bool"),
    ("typedef unsigned char flag;", "flag", "uint bool"),
    ("typedef int16_t level;", "level", "int"),
    ("typedef uint16_t stored;", "stored", "uint float bfloat"),
    ("typedef bool truth;", "truth", "bool"),
    ("struct parts { float a, b; };", "struct parts", "float bfloat int uint bool complex"),
]
KINDS = ("float", "bfloat", "int", "uint", "bool", "complex")
MIXED = "struct mixed { float x; int32_t n; double v[2]; uint32_t cells[2][2]; uint8_t tag[8]; float *next; };"
MIXED_FIELDS = {"x": "float", "n": "int", "v": "float", "cells": "uint", "tag": "uint bool", "next": "uint float"}


def hold_lines():
    yield "#include <stdbool.h>\n#include <stdint.h>\n#include <ferry/export.h>\n#include <ferry/kind.h>"
    for declaration, c_type, kinds in HOLDS:
        yield declaration
        for kind in KINDS:
            refused = "" if kind in kinds.split() else "!"
            yield f'FERRY_STATIC_ASSERT({refused}FERRY_TYPE_HOLDS({c_type}, FERRY_KIND_{kind.upper()}), "{c_type} as {kind}");'
    yield MIXED
    for field, kinds in MIXED_FIELDS.items():
        for kind in ("float", "int", "uint", "bool"):
            refused = "" if kind in kinds.split() or field == "next" else "!"
            yield f'FERRY_STATIC_ASSERT({refused}FERRY_FIELD_HOLDS(struct mixed, {field}, FERRY_KIND_{kind.upper()}), "{field} as {kind}");'


def compiler_ways():
    ways = [(compiler, [f"-std={standard}", *C_WARNINGS]) for compiler in c_compilers() for standard in ("c99", "c11")]
    return ways + [(compiler, ["-std=c++11", "-x", "c++", *WARNINGS]) for compiler in cxx_compilers()]


def wrong_kind_problems(folder, declaration, description, words):
    """Returns the compilers that accept a description of a wrong kind. In C99 an assertion has no message."""
    (folder / "declared.h").write_text(f"#include <stdint.h>\n{declaration}\n")
    data = {"ferry": 1, "prefix": "kinds", "name": "one", "header": "kinds/one.h", "include": ["declared.h"], **description}
    (folder / "one.json").write_text(json.dumps(data))
    problems = generate("header", [folder / "one.json"], f"{folder}/kinds/one.h")
    (folder / "one.c").write_text('#include "kinds/one.h"\ntypedef int not_empty;\n')
    for compiler, options in compiler_ways():
        errors = compile_problems(compiler, options + ["-fsyntax-only"], [folder, ROOT / "include"], folder / "one.c")
        if not any(("ferry_static_assert" if "-std=c99" in options else words) in error for error in errors):
            problems.append(f"{compiler[0]} {options[0]}: {errors or 'it compiles'}")
    return problems


def kind_cases(tap, folder):
    """The compiler checks the kinds of the description."""
    (folder / "kinds.c").write_text("\n".join(hold_lines()) + "\ntypedef int not_empty;\n")
    for compiler, options in compiler_ways():
        tap.case(f"{compiler[0]} {options[0]} knows which kinds a type holds",
                 compile_problems(compiler, options, [ROOT / "include"], folder / "kinds.c"))
    metre = {"c_type": "metre", "kind": "int", "bits": 32}
    tap.case("the compiler refuses a float that is described as an int",
             wrong_kind_problems(folder, "typedef float metre;", metre, "metre is not of kind int"))
    fields = [{"name": "x", "type": "int32_t", "offset": 0}, {"name": "n", "type": "float", "offset": 4}]
    exchanged = {"c_type": "struct mixed", "kind": "struct", "bytes": 8, "align": 4, "fields": fields}
    tap.case("the compiler refuses a float and an int32_t field that are exchanged",
             wrong_kind_problems(folder, "struct mixed { float x; int32_t n; };", exchanged, "x is not of kind int"))


# Every field that is left out below fits into padding, so that all sizes and offsets stay right.
PADDED = """
struct pair { int a; short b, c; };
typedef struct one { char kind, code; int v[2][2]; struct pair pairs[2]; double x; float y, z; } one;
"""
PAIR_FIELDS = [{"name": "a", "type": "int"}, {"name": "b", "type": "short"}, {"name": "c", "type": "short"}]
ONE_FIELDS = [{"name": "kind", "type": "char"}, {"name": "code", "type": "char"}, {"name": "v", "type": "int", "count": [2, 2]},
              {"name": "pairs", "type": "pair", "count": 2}, {"name": "x", "type": "double"}, {"name": "y", "type": "float"},
              {"name": "z", "type": "float"}]


def forgetful_header(folder, forgotten, **more):
    """Generates the header of `struct one` without a field of it or of its nested struct. Returns the problems."""
    kept = [[field for field in fields if field["name"] != forgotten] for fields in (PAIR_FIELDS, ONE_FIELDS)]
    pair = {**one_struct(kept[0]), "name": "pair", "c_type": "struct pair"}
    (folder / "pair.json").write_text(json.dumps(pair))
    (folder / "one_struct.h").write_text(PADDED)
    return made_header(folder, one_struct(kept[1], **more))[1]


def forgotten_cases(tap, folder):
    """The compiler finds a field that a type file lacks."""
    (folder / "one.c").write_text('#include "made/one.h"\ntypedef int not_empty;\n')
    ways = [(compiler, options) for compiler, options in compiler_ways() if "c++" not in options]
    compiled = [(f"{compiler[0]} {options[0]}", compiler, options) for compiler, options in ways]
    for forgotten in ("code", "z", "c"):
        problems = forgetful_header(folder, forgotten)
        for way, compiler, options in compiled:
            errors = compile_problems(compiler, options, [folder, ROOT / "include"], folder / "one.c")
            problems += [] if any("initializer" in error for error in errors) else [f"{way}: {errors or 'it compiles'}"]
        tap.case(f"the compiler finds that the field {forgotten} is forgotten", problems)
    own = "struct one { char kind, code; int v[2][2]; struct { int a; short b, c; } pairs[2]; double x; float y, z; };"
    for name, forgotten, more in (("every field", None, {}),
                                  ("fewer fields than a CUDA declaration of its own", "z", {"cuda_declaration": own})):
        problems = forgetful_header(folder, forgotten, **more)
        for way, compiler, options in compiled:
            problems += [f"{way}: {error}" for error in
                         compile_problems(compiler, options, [folder, ROOT / "include"], folder / "one.c")]
        tap.case(f"the compiler accepts {name}", problems)


FUNCTION = re.compile(r"^FERRY_INLINE [^\n]*\n(\w+)\(", re.M)


def functions_of(path):
    return FUNCTION.findall(path.read_text())


def symbols_of(folder, compiler, options, text):
    """Compiles `text` and returns the symbols of the object, as a dictionary from names to kinds."""
    (folder / "made.c").write_text(text)
    folders = [folder, HERE / "include", ROOT / "include"]
    problems = compile_problems(compiler, options, folders, folder / "made.c", folder / "made.o")
    listing = subprocess.run(["nm", folder / "made.o"], capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1]: line.split()[-2] for line in listing}, problems


def definition_cases(tap, folder):
    """Each function is defined once and is not a symbol, and an unused header adds nothing to an object."""
    outputs = [("header", [BUILTIN / "float.json"], "ferry/float.h"),
               ("header", [TYPES / "large.json"], "mylib/large_buffer.h"),
               ("convert", sorted(BUILTIN.glob("*.json")), "ferry/bfloat16_convert.h")]
    for command, types, name in outputs:
        problems = generate(command, types, f"{folder}/{name}")
        names = functions_of(folder / name)
        problems += [] if len(names) > 50 else [f"only {len(names)} functions"]
        problems += [f"defined twice: {one}" for one in set(names) if names.count(one) > 1]
        used = ", ".join(f"(void (*)(void)){one}" for one in names)
        uses = f'#include "{name}"\nvoid (*const used[])(void) = {{{used}}};\n'
        for compiler in c_compilers():
            for level in ("-O0", "-O2"):
                symbols, found = symbols_of(folder, compiler, ["-std=c11", level], uses)
                problems += found + [f"{one} is {symbols.get(one)} in an object, not local" for one in names if symbols.get(one) != "t"]
                options = ["-std=c11", level, *C_WARNINGS, "-Wunused-const-variable"]
                symbols, found = symbols_of(folder, compiler, options, f'#include "{name}"\ntypedef int not_empty;\n')
                problems += found + [f"{compiler[0]} {level} leaves {one}" for one in symbols]
        tap.case(f"{name}: all {len(names)} functions are inline, and leave nothing where they are not used", problems)


def matrix_cases(tap, folder):
    """Conversions among all numeric types work, not only the built-in ones, with all headers of a project in one file."""
    types = []
    for name, c_type, kind, bits in NUMERIC:
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"ferry": 1, "prefix": "all", "name": name, "c_type": c_type,
                                    "header": f"all/{name}.h", "kind": kind, "bits": bits}))
        types.append(path)
    problems = []
    for path in types:
        problems += generate("header", [path], f"{folder}/all/{path.stem}.h")
        others = [other for other in types if other != path]
        problems += generate("convert", [path, *others], f"{folder}/all/{path.stem}_convert.h")
    headers = [f"all/{path.stem}{end}.h" for path in types for end in ("_convert", "")]
    (folder / "all.c").write_text("".join(f'#include "{name}"\n' for name in headers) + "typedef int not_empty;\n")
    shims = [one for path in types for one in functions_of(folder / f"all/{path.stem}_convert.h") if one.startswith("all_convert_")]
    problems += [] if len(shims) == len(set(shims)) == len(types) * (len(types) - 1) else [f"{len(shims)} array functions"]
    tap.case("conversions among ten types are generated", problems)
    for compiler in c_compilers():
        tap.case(f"they compile with {compiler[0]}", compile_problems(
            compiler, ["-std=c99", *C_WARNINGS], [folder, ROOT / "include"], folder / "all.c"))
    for compiler in cxx_compilers():
        tap.case(f"they compile with {compiler[0]}", compile_problems(
            compiler, ["-std=c++11", "-x", "c++", *WARNINGS], [folder, ROOT / "include"], folder / "all.c"))


def name_cases(tap, folder):
    """Types of two libraries with the same short name have the prefix of their library, as their functions have."""
    for prefix, expected in (("mylib", '"mylib_particle"'), ("yourlib", '"yourlib_particle"')):
        data = dict(json.loads((TYPES / "vec3.json").read_text()), prefix=prefix, name="particle", conversions=[])
        (folder / "particle.json").write_text(json.dumps(data))
        problems = generate("header", [folder / "particle.json"], f"{folder}/particle.h")
        text = "" if problems else (folder / "particle.h").read_text()
        tap.case(f"the particle of {prefix} is called {expected}", problems or ([] if f"/* name      */ {expected}," in text else ["no such name"]))


def pair_cases(tap, folder):
    output = folder / "pairs.h"
    result = ferry_gen("convert", TYPES / "vec3.json", BUILTIN / "float.json", "-o", output)
    tap.case("a struct has no conversions", refused(result, "vec3.json: kind: ", output))
    result = ferry_gen("convert", BUILTIN / "float.json", folder / "int8.json", "-o", output)
    tap.case("one convert header has one prefix", refused(result, "int8.json: prefix: ", output))
    result = ferry_gen("convert", BUILTIN / "float.json", BUILTIN / "float.json", "-o", output)
    tap.case("one convert header has each type once", refused(result, "float.json: name: ", output))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        tap.case("the built-in headers are generated", builtin_headers(folder))
        same_cases(tap, folder)
        depfile_cases(tap, folder)
        template_cases(tap, folder)
        unwritable_cases(tap, folder)
        hiding_cases(tap, folder)
        version_cases(tap)
        old_output_case(tap, folder)
        definition_cases(tap, folder)
        assert_cases(tap, folder)
        layout_cases(tap, folder)
        declaration_cases(tap, folder)
        user_conversion_cases(tap, folder)
        kind_cases(tap, folder)
        forgotten_cases(tap, folder)
        matrix_cases(tap, folder)
        name_cases(tap, folder)
        pair_cases(tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
