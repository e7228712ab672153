#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Output is a function of the input alone, the depfile names everything that was read, mistakes in templates and in
sizes are errors, and each prototype has its definition."""

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

NUMERIC = [(f"{kind}{bits}", f"{kind}{bits}_t", kind, bits) for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NUMERIC += [("single", "float", "float", 32), ("twice", "double", "float", 64)]
COMMANDS = ("header", "source", "convert-header", "convert-source", "convert-pairs")


def all_outputs(folder, types, hash_seed):
    """Every command's text, made in another folder and with another hash seed each time."""
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
        expected |= {str(GEN / f"ferry_{module}.py") for module in ("gen", "types", "render")}
        problems = [f"target {target}"] if target != str(output) else []
        problems += [f"not named: {path}" for path in expected - entries]
        problems += [f"named in vain: {path}" for path in entries - expected]
    tap.case(f"depfile of {command} {types[0].name}", problems)


def depfile_cases(tap, folder):
    element = TEMPLATES / "element.c.j2"
    sources = [BUILTIN / "float.json", BUILTIN / "double.json"]
    depfile_case(tap, folder, "header", [BUILTIN / "byte.json"], [TEMPLATES / "typed.h.j2"])
    depfile_case(tap, folder, "source", [BUILTIN / "byte.json"], [TEMPLATES / "typed.c.j2", element])
    depfile_case(tap, folder, "source", [TYPES / "vec3.json"], [TEMPLATES / "typed.c.j2", element, *sources])
    pairs = GEN / "ferry_pairs.py"
    depfile_case(tap, folder, "convert-header", sources, [TEMPLATES / "convert.h.j2", pairs])
    depfile_case(tap, folder, "convert-source", sources, [TEMPLATES / "convert.c.j2", element, pairs])
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
    result = ferry_gen("header", BUILTIN / "float.json", "-o", folder / "none" / "x.h")
    tap.case("an output that cannot be written", refused(result, "cannot be written", folder / "none"))


def old_output_case(tap, folder):
    output = folder / "old.h"
    output.write_text("old\n")
    (folder / "broken.json").write_text("{}")
    ferry_gen("header", folder / "broken.json", "-o", output)
    tap.case("a refused file leaves the old output alone", [] if output.read_text() == "old\n" else ["it changed"])


def assert_cases(tap, folder):
    """Sizes, alignment and offsets of the description are held against the compiler."""
    vec3 = json.loads((TYPES / "vec3.json").read_text())
    changes = {"bytes": lambda t: t.update(bytes=40), "align": lambda t: t.update(align=4),
               "offset": lambda t: t["fields"][2].update(offset=17), "width": lambda t: t["fields"][1].update(count=1)}
    for name, change in changes.items():
        data = json.loads(json.dumps(vec3))
        change(data)
        (folder / "vec3.json").write_text(json.dumps(data))
        problems = generate("header", [folder / "vec3.json"], f"{folder}/mylib/vec3_buffer.h")
        problems += generate("source", [folder / "vec3.json"], f"{folder}/vec3.c")
        folders = [folder, HERE / "include", ROOT / "include"]
        for standard, words in (("c99", "ferry_static_assert"), ("c11", "vec3.json: ")):
            errors = compile_problems(c_compilers()[0], [f"-std={standard}"], folders, folder / "vec3.c")
            if not any(words in error for error in errors):
                problems.append(f"{standard}: no '{words}' in {errors}")
        tap.case(f"the compiler refuses a wrong {name}", problems)


def definition_cases(tap, folder):
    """A prototype without its definition would only show when somebody links it."""
    outputs = [("header", "source", [BUILTIN / "float.json"], "ferry/float.h"),
               ("header", "source", [TYPES / "large.json"], "mylib/large_buffer.h"),
               ("convert-header", "convert-source", sorted(BUILTIN.glob("*.json")), "ferry/convert.h")]
    for header, source, types, name in outputs:
        problems = generate(header, types, f"{folder}/{name}") + generate(source, types, f"{folder}/made.c")
        folders = [folder, HERE / "include", ROOT / "include"]
        problems += compile_problems(c_compilers()[0], ["-std=c11", *C_WARNINGS], folders, folder / "made.c",
                                     folder / "made.o")
        declared = set(re.findall(r"^(\w+)\(", (folder / name).read_text(), re.MULTILINE))
        listing = subprocess.run(["nm", "-g", "--defined-only", folder / "made.o"], capture_output=True, text=True)
        defined = {line.split()[-1] for line in listing.stdout.splitlines()}
        problems += [f"declared only: {symbol}" for symbol in sorted(declared - defined)]
        problems += [f"defined only: {symbol}" for symbol in sorted(defined - declared)]
        tap.case(f"{name}: all {len(declared)} prototypes are defined, and no more", problems)


def matrix_cases(tap, folder):
    """Conversions among every numeric type there is, not only the built-in ones."""
    types = []
    for name, c_type, kind, bits in NUMERIC:
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"ferry": 1, "prefix": "all", "name": name, "c_type": c_type,
                                    "header": f"all/{name}.h", "kind": kind, "bits": bits}))
        types.append(path)
    problems = [problem for path in types for problem in generate("header", [path], f"{folder}/all/{path.stem}.h")]
    problems += generate("convert-header", types, f"{folder}/all/convert.h")
    problems += generate("convert-source", types, f"{folder}/all.c")
    tap.case("conversions among ten types are generated", problems)
    for compiler in c_compilers():
        tap.case(f"they compile with {compiler[0]}", compile_problems(
            compiler, ["-std=c99", *C_WARNINGS], [folder, ROOT / "include"], folder / "all.c"))
    for compiler in cxx_compilers():
        tap.case(f"they compile with {compiler[0]}", compile_problems(
            compiler, ["-std=c++11", "-x", "c++", *WARNINGS], [folder, ROOT / "include"], folder / "all.c"))


def pair_cases(tap, folder):
    output = folder / "pairs.h"
    result = ferry_gen("convert-header", TYPES / "vec3.json", BUILTIN / "float.json", "-o", output)
    tap.case("a struct has no conversions", refused(result, "vec3.json: kind: ", output))
    result = ferry_gen("convert-header", BUILTIN / "float.json", folder / "int8.json", "-o", output)
    tap.case("one convert header has one prefix", refused(result, "int8.json: prefix: ", output))
    result = ferry_gen("convert-header", BUILTIN / "float.json", BUILTIN / "float.json", "-o", output)
    tap.case("one convert header has each type once", refused(result, "float.json: name: ", output))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        tap.case("the built-in headers are generated", builtin_headers(folder))
        same_cases(tap, folder)
        depfile_cases(tap, folder)
        template_cases(tap, folder)
        old_output_case(tap, folder)
        definition_cases(tap, folder)
        assert_cases(tap, folder)
        matrix_cases(tap, folder)
        pair_cases(tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
