#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ferry-gen new` writes type files from C declarations, with the compiler's layout; without libclang its message names the missing package."""

import json
import pathlib
import sys
import tempfile

from harness import HERE, ROOT, TYPES, Tap, c_compilers, compile_problems, ferry_gen, generate

try:
    from clang import cindex
    cindex.Index.create()
except Exception:  # the package is missing, or its library cannot be loaded
    cindex = None

STRUCTS = HERE / "include" / "mylib" / "structs.h"
OPTIONS = [f"--cc-arg=-I{ROOT / 'include'}", "--include", "mylib/structs.h"]
DECLARATIONS = """#include <stdint.h>
#include <complex.h>
typedef double metre;
typedef enum { RED, GREEN } colour_t;
typedef metre triple[3];
typedef struct { const metre x; triple rows[2]; colour_t colour; volatile uint16_t level; double _Complex phase; } AllOfThem;
struct far { char text[3]; } __attribute__((aligned(32)));
struct __attribute__((packed)) near { char c; double d; };
struct bits { int a : 3; };
struct pointer { float *x; };
struct wide { long double x; };
struct unnamed { struct { int x; }; };
struct unnamed_member { struct { int x; } inner; };
union both { int i; float f; };
struct empty { };
struct later;
"""
# (declaration, expected keys)
GOOD = [
    (["AllOfThem"], {"prefix": "all", "name": "of_them", "bytes": 80, "align": 8}),
    (["struct", "far"], {"prefix": "my", "name": "far", "bytes": 32, "align": 32}),
    (["struct near"], {"name": "near", "bytes": 9, "align": 1}),
]
FIELDS = [{"name": "x", "type": "double", "offset": 0}, {"name": "rows", "type": "double", "offset": 8, "count": [2, 3]},
          {"name": "colour", "type": "enum", "offset": 56}, {"name": "level", "type": "uint16_t", "offset": 60},
          {"name": "phase", "type": "double _Complex", "offset": 64}]
# (declaration, words of the message)
BAD = [
    ("struct bits", "struct bits.a: is a bit-field"),
    ("struct pointer", "struct pointer.x: is of type 'float *'; expected a scalar of C"),
    ("struct wide", "struct wide.x: is of type 'long double'"),
    ("struct unnamed", "struct unnamed.(anonymous): is of a struct or union without a name"),
    ("struct unnamed_member", "struct unnamed_member.inner: is of a struct or union without a name"),
    ("union both", "overlaps 'i'"),
    ("struct empty", "has no fields"),
    ("struct later", "struct later: is not defined; expected the name of a struct, such as"),
    ("nothing", "nothing: is not defined"),
    ("metre", "metre: is not defined"),
]


def new(folder, source, declaration, output, *options):
    return ferry_gen("new", source, *declaration, "-o", output, *options, folder=folder)


def nearest_cases(tap, folder):
    """A message about a missing struct names those of the header first, then those that it includes, and system headers' last."""
    (folder / "inner.h").write_text("struct inside { int x; };\n")
    (folder / "outer.h").write_text('#include <stdlib.h>\n#include "inner.h"\nstruct own { int x; };\n')
    result = new(folder, "outer.h", ["own"], "none.json")
    words = "expected the name of a struct, such as 'struct own' or 'struct inside' or '"
    tap.case("the header's own structs are named first", [] if words in result.stderr else [result.stderr])


def good_cases(tap, folder):
    (folder / "all.h").write_text(DECLARATIONS)
    for declaration, expected in GOOD:
        result = new(folder, "all.h", declaration, "made.json")
        problems = result.stderr.splitlines()
        data = {} if problems else json.loads((folder / "made.json").read_text())
        problems += [f"{key} is {data.get(key)}, not {value}" for key, value in expected.items() if data.get(key) != value]
        if declaration == ["AllOfThem"] and data.get("fields") != FIELDS:
            problems.append(f"fields {data.get('fields')}")
        problems += [] if data.get("enumerators") == {"RED": 0, "GREEN": 1} else [f"enumerators {data.get('enumerators')}"]
        problems += [] if problems else generate("header", [folder / "made.json"], f"{folder}/{data['header']}")
        if not problems:
            (folder / "made.c").write_text(f'#include "{data["header"]}"\ntypedef int not_empty;\n')
            for compiler in c_compilers():
                problems += compile_problems(compiler, ["-std=gnu11"], [folder, ROOT / "include"], folder / "made.c")
        tap.case(f"{' '.join(declaration)} becomes a type", problems)


def nested_cases(tap, folder):
    """A nested struct refers to the type file that describes it, and the result is equal to the hand-written file."""
    result = new(folder, STRUCTS, ["struct", "mylib_cell"], "cell.json", *OPTIONS)
    words = "structs.h: struct mylib_cell.labels: is of struct mylib_label, which no type file"
    tap.case("a nested struct without a type file", [] if result.returncode == 1 and words in result.stderr else [result.stderr])
    problems = []
    for name in ("label", "cell"):
        result = new(folder, STRUCTS, ["struct", f"mylib_{name}"], f"{name}.json", "--header", f"mylib/{name}_buffer.h", *OPTIONS)
        problems += result.stderr.splitlines()
    texts = []
    for place in (folder, TYPES):
        data = json.loads((place / "cell.json").read_text()) if not problems else {}
        (folder / "cell.json").write_text(json.dumps(dict(data, conversions=[])))
        problems += generate("header", [folder / "cell.json"], f"{folder}/{len(texts)}.h")
        texts.append("" if problems else (folder / f"{len(texts)}.h").read_text().replace("_Bool", "bool"))
    problems += [] if texts[0] == texts[1] else ["the headers differ"]
    tap.case("a struct with structs and arrays of several dimensions", problems)


def bad_cases(tap, folder):
    for declaration, words in BAD:
        result = new(folder, "all.h", [declaration], "refused.json")
        problems = [] if result.returncode == 1 and words in result.stderr else [f"{result.returncode}: {result.stderr}"]
        problems += ["more than one line"] if len(result.stderr.splitlines()) > 1 else []
        problems += ["a file was written"] if (folder / "refused.json").exists() else []
        tap.case(f"{declaration} is refused", problems)
    (folder / "broken.h").write_text("struct broken { no_such_type x; };\n")
    result = new(folder, "broken.h", ["struct broken"], "refused.json")
    tap.case("a header that does not compile", [] if "broken.h:1: unknown type name" in result.stderr else [result.stderr])
    result = new(folder, "absent.h", ["struct broken"], "refused.json")
    tap.case("a header that is not there", [] if result.returncode == 1 and "absent.h: cannot be read" in result.stderr else [result.stderr])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "without").mkdir()
        (folder / "without" / "clang.py").write_text("raise ImportError('none')\n")
        result = ferry_gen("new", "x.h", "struct", "y", folder=folder, env={"PYTHONPATH": str(folder / "without")})
        tap.case("without libclang", [] if result.returncode == 1 and "needs libclang's Python package; install" in result.stderr
                 and len(result.stderr.splitlines()) == 1 else [result.stderr])
        if cindex is None:
            tap.skip("with libclang", "no libclang for this Python")
        else:
            good_cases(tap, folder)
            nearest_cases(tap, folder)
            nested_cases(tap, folder)
            bad_cases(tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
