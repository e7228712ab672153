#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""For a bad type file, ferry-gen prints `file: key: what was wrong and what was expected`, and writes nothing.

Each bad file is a good one with one change. schema.json must accept the good ones, and refuse every bad one whose fault a
schema can express; without the jsonschema package this half is skipped.
"""

import json
import os
import pathlib
import sys
import tempfile

from harness import BUILTIN, DROP, GEN, TYPES, Tap, changed, ferry_gen

try:
    import jsonschema
except ImportError:
    jsonschema = None

FLOAT = dict(json.loads((BUILTIN / "float.json").read_text()), prefix="mylib", header="mylib/float.h")
VEC3 = json.loads((TYPES / "vec3.json").read_text())
PAIR = {"ferry": 1, "prefix": "mylib", "name": "pair", "c_type": "struct pair", "header": "pair.h", "kind": "struct",
        "fields": [{"name": "a", "type": "float"}, {"name": "b", "type": "double"}]}
CELL = dict(PAIR, name="cell", fields=[{"name": "x", "type": "int"}, {"name": "y", "type": "int"}, {"name": "pairs", "type": "pair"}])
COMMANDS = ("header", "fortran", "convert", "convert-pairs", "check")
BEYOND_SCHEMA = "beyond schema"  # a fault that a schema cannot express

# Invalid type files. Each entry is (name of the test, valid type file, path of the key to change, new value, key that
# the error message names, words in the message[, BEYOND_SCHEMA]).
CHANGES = [
    ("unknown key", FLOAT, ["colour"], "red", "colour", "unknown key"),
    ("unknown key that is nearly a known one", FLOAT, ["aligned"], 4, "aligned", "unknown key; did you mean 'align'? expected one of"),
    ("unknown key in another case", FLOAT, ["Kind"], "float", "Kind", "did you mean 'kind'?"),
    ("unknown key of a field that is nearly a known one", VEC3, ["fields", 0, "ofset"], 4, "fields[0].ofset", "did you mean 'offset'?"),
    ("unknown key of a field", VEC3, ["fields", 0, "size"], 4, "fields[0].size", "unknown key"),
    ("unknown key of a conversion", VEC3, ["conversions", 0, "how"], "x", "conversions[0].how", "unknown key"),
    ("no format version", FLOAT, ["ferry"], DROP, "ferry", "missing"),
    ("another format version", FLOAT, ["ferry"], 2, "ferry", "version 1"),
    ("format version true", FLOAT, ["ferry"], True, "ferry", "expected 1", BEYOND_SCHEMA),
    ("no prefix", FLOAT, ["prefix"], DROP, "prefix", "missing"),
    ("prefix with capitals", FLOAT, ["prefix"], "MyLib", "prefix", "lower-case"),
    ("prefix with a trailing underscore", FLOAT, ["prefix"], "mylib_", "prefix", "lower-case"),
    ("prefix of the library", FLOAT, ["prefix"], "ferry", "prefix", "belongs to the library", BEYOND_SCHEMA),
    ("prefix that is a reserved word", FLOAT, ["prefix"], "int", "prefix", "reserved word", BEYOND_SCHEMA),
    ("empty prefix", FLOAT, ["prefix"], "", "prefix", "empty"),
    ("name that begins with a digit", FLOAT, ["name"], "3d", "name", "lower-case"),
    ("name with a double underscore", FLOAT, ["name"], "a__b", "name", "lower-case"),
    ("name that is a C++ word", FLOAT, ["name"], "class", "name", "reserved word", BEYOND_SCHEMA),
    ("name that is a number", FLOAT, ["name"], 7, "name", "is 7"),
    ("no c_type", FLOAT, ["c_type"], DROP, "c_type", "missing"),
    ("pointer as c_type", FLOAT, ["c_type"], "float *", "c_type", "pointers"),
    ("const c_type", FLOAT, ["c_type"], "const float", "c_type", "reserved word", BEYOND_SCHEMA),
    ("void c_type", FLOAT, ["c_type"], "void", "c_type", "reserved word", BEYOND_SCHEMA),
    ("code in c_type", FLOAT, ["c_type"], "float; int x", "c_type", "C type name"),
    ("struct without a tag", VEC3, ["c_type"], "struct", "c_type", "without a tag", BEYOND_SCHEMA),
    ("two names as c_type", VEC3, ["c_type"], "mylib vec3", "c_type", "more than one name", BEYOND_SCHEMA),
    ("no header", FLOAT, ["header"], DROP, "header", "missing"),
    ("absolute header", FLOAT, ["header"], "/usr/include/x.h", "header", "relative"),
    ("header outside", FLOAT, ["header"], "../x.h", "header", "relative", BEYOND_SCHEMA),
    ("header with a quote", FLOAT, ["header"], 'x".h', "header", "relative"),
    ("header of C", FLOAT, ["header"], "float.h", "header", "would hide; expected another name, or a path with a folder, such as 'mylib/float.h'",
     BEYOND_SCHEMA),
    ("header of POSIX", FLOAT, ["header"], "pthread.h", "header", "a header of C, C++ or POSIX", BEYOND_SCHEMA),
    ("header of C++", FLOAT, ["header"], "vector", "header", "a header of C, C++ or POSIX", BEYOND_SCHEMA),
    ("include that is no list", VEC3, ["include"], "mylib/structs.h", "include", "a list"),
    ("include with a line end", VEC3, ["include", 0], "a.h\n#error", "include[0]", "relative"),
    ("include twice", VEC3, ["include"], ["a.h", "a.h"], "include[1]", "twice"),
    ("include that is a number", VEC3, ["include"], [1], "include[0]", "is 1"),
    ("export, which versions before 2 had", FLOAT, ["export"], "MYLIB_API", "export", "generated functions are inline"),
    ("no kind", FLOAT, ["kind"], DROP, "kind", "missing"),
    ("kind that is nearly a known one", FLOAT, ["kind"], "flaot", "kind", "did you mean 'float'?"),
    ("unknown kind", FLOAT, ["kind"], "decimal", "kind", "one of float, bfloat"),
    ("kind that is not the C type's", FLOAT, ["kind"], "int", "kind", "of kind 'float'", BEYOND_SCHEMA),
    ("scalar struct", VEC3, ["c_type"], "float", "kind", "of kind 'float'", BEYOND_SCHEMA),
    ("no bits", FLOAT, ["bits"], DROP, "bits", "missing"),
    ("bits as text", FLOAT, ["bits"], "32", "bits", 'is "32"'),
    ("bits that no float has", FLOAT, ["bits"], 24, "bits", "16 or 32 or 64"),
    ("bits of another kind", FLOAT, ["bits"], 8, "bits", "16 or 32 or 64"),
    ("bits that are not the C type's", FLOAT, ["bits"], 64, "bits", "'float' has 32", BEYOND_SCHEMA),
    ("scalar with fields", FLOAT, ["fields"], [], "fields", "structs only"),
    ("scalar with bytes", FLOAT, ["bytes"], 4, "bytes", "structs only"),
    ("scalar with a CUDA declaration", FLOAT, ["cuda_declaration"], "x", "cuda_declaration", "structs only"),
    ("struct with bits", VEC3, ["bits"], 96, "bits", "scalars only"),
    ("struct of no bytes", VEC3, ["bytes"], 0, "bytes", "is 0"),
    ("align that is no power of two", VEC3, ["align"], 12, "align", "power of two"),
    ("align that does not divide the size", VEC3, ["align"], 64, "align", "does not divide", BEYOND_SCHEMA),
    ("struct without fields", VEC3, ["fields"], DROP, "fields", "missing"),
    ("struct with no field", VEC3, ["fields"], [], "fields", "every field"),
    ("field that is text", VEC3, ["fields", 1], "v", "fields[1]", "expected an object"),
    ("field without a name", VEC3, ["fields", 1, "name"], DROP, "fields[1].name", "missing"),
    ("field name with a space", VEC3, ["fields", 1, "name"], "a b", "fields[1].name", "identifier"),
    ("field name with an empty part", VEC3, ["fields", 1, "name"], "a..b", "fields[1].name", "identifier"),
    ("field name that is a reserved word", VEC3, ["fields", 1, "name"], "a.new", "fields[1].name", "reserved word",
     BEYOND_SCHEMA),
    ("field listed twice", VEC3, ["fields", 1, "name"], "x", "fields[1].name", "twice", BEYOND_SCHEMA),
    ("field of an unknown type", VEC3, ["fields", 0, "type"], "long double", "fields[0].type", "one of float, double", BEYOND_SCHEMA),
    ("field of a type that is nearly a known one", VEC3, ["fields", 0, "type"], "int32", "fields[0].type", "did you mean 'int32_t'?",
     BEYOND_SCHEMA),
    ("field whose type file is not there", VEC3, ["fields", 0, "type"], "no/such.json", "fields[0].type", "is 'no/such.json'",
     BEYOND_SCHEMA),
    ("field of the struct itself", VEC3, ["fields", 0, "type"], "bad", "fields[0].type", "the struct that holds this field", BEYOND_SCHEMA),
    ("field of a nested struct without an offset", VEC3, ["fields", 2, "offset"], DROP, "fields[2].offset", "missing; 'label.tag' is inside",
     BEYOND_SCHEMA),
    ("field that is wider than the struct", VEC3, ["fields", 1, "count"], [2, 5], "fields[1].count", "makes 40 bytes", BEYOND_SCHEMA),
    ("field without dimensions", VEC3, ["fields", 1, "count"], [], "fields[1].count", "a list of them"),
    ("field with a dimension of 0", VEC3, ["fields", 1, "count"], [2, 0], "fields[1].count", "holds 0"),
    ("fields without offsets that end past the size", CELL, ["bytes"], 16, "fields[2].offset", "past 'bytes' = 16", BEYOND_SCHEMA),
    ("size that the fields' alignment does not divide", CELL, ["bytes"], 28, "bytes", "is 28; expected a multiple of 8", BEYOND_SCHEMA),
    ("more fields than a struct may have", CELL, ["fields", 2, "count"], 1025, "fields", "expected at most 1024", BEYOND_SCHEMA),
    ("fields too wide for any struct", CELL, ["fields", 0, "count"], 2**29 - 1, "bytes", "by the fields; expected at most", BEYOND_SCHEMA),
    ("field at a negative offset", VEC3, ["fields", 0, "offset"], -4, "fields[0].offset", "from 0"),
    ("field past the end", VEC3, ["fields", 3, "offset"], 28, "fields[3].offset", "past 'bytes'", BEYOND_SCHEMA),
    ("fields that overlap", VEC3, ["fields", 1, "offset"], 2, "fields[1].offset", "overlaps 'x'", BEYOND_SCHEMA),
    ("field with count 0", VEC3, ["fields", 1, "count"], 0, "fields[1].count", "from 1"),
    ("field with count true", VEC3, ["fields", 1, "count"], True, "fields[1].count", "is true"),
    ("field with half a count", VEC3, ["fields", 1, "count"], 1.5, "fields[1].count", "is 1.5"),
    ("scalar with an OpenCL declaration", FLOAT, ["opencl_declaration"], "x", "opencl_declaration", "structs only"),
    ("empty OpenCL declaration", VEC3, ["opencl_declaration"], "", "opencl_declaration", "empty"),
    ("OpenCL declaration too long", VEC3, ["opencl_declaration"], "x" * 5000, "opencl_declaration", "at most"),
    ("empty CUDA declaration", VEC3, ["cuda_declaration"], "", "cuda_declaration", "empty"),
    ("CUDA declaration with a NUL", VEC3, ["cuda_declaration"], "a\0b", "cuda_declaration", "control", BEYOND_SCHEMA),
    ("CUDA declaration too long", VEC3, ["cuda_declaration"], "x" * 5000, "cuda_declaration", "at most"),
    ("conversion from an unknown type", VEC3, ["conversions", 0, "from"], "decimal", "conversions[0].from", "built-in", BEYOND_SCHEMA),
    ("conversion from the type itself", VEC3, ["conversions", 0, "from"], "bad", "conversions[0].from", "the type itself", BEYOND_SCHEMA),
    ("cpp that is text", VEC3, ["cpp"], "yes", "cpp", "true or false"),
    ("conversion from a type that is nearly a known one", VEC3, ["conversions", 0, "from"], "int_16", "conversions[0].from",
     "did you mean 'int16'?", BEYOND_SCHEMA),
    ("conversion to an unknown type", VEC3, ["conversions", 2, "to"], "decimal", "conversions[2].to", "built-in", BEYOND_SCHEMA),
    ("conversion both ways in one", VEC3, ["conversions", 2, "from"], "float", "conversions[2].to", "one of the two"),
    ("conversion no way", VEC3, ["conversions", 0, "from"], DROP, "conversions[0].from", "missing"),
    ("conversion without a function", VEC3, ["conversions", 0, "function"], DROP, "conversions[0].function", "missing"),
    ("conversion by no identifier", VEC3, ["conversions", 0, "function"], "f()", "conversions[0].function", "identifier"),
    ("conversion listed twice", VEC3, ["conversions", 1, "from"], "float", "conversions[1].from", "twice", BEYOND_SCHEMA),
]

# Type files that are invalid only for Fortran: (name of the test, valid type file, path of the key to change, new
# value, key that the error message names, words in the message).
FORTRAN = [
    ("a name that is too long for Fortran", FLOAT, ["name"], "a" * 60, "name", "at most 63"),
    ("a field that begins with an underscore", VEC3, ["fields", 0, "name"], "_x", "fields named '_x'", "begins with a letter"),
    ("a field that differs by case alone", VEC3, ["fields", 0, "name"], "V", "fields named 'v'", "case does not count"),
    ("a field that is not aligned", VEC3, ["fields", 3, "offset"], 20, "fields named 'label.weight'", "aligns it to 8"),
    ("a complex number of two halves", dict(FLOAT, kind="complex", c_type="mylib_pair", bits=64), ["bits"], 32, "bits", "two halves"),
]

# (name, text, words in the message)
TEXTS = [
    ("no JSON", "prefix: mylib", "line 1 column 1: not JSON"),
    ("an empty file", "", "not JSON"),
    ("a list", "[1]", "expected one JSON object"),
    ("a key twice", '{"ferry": 1, "ferry": 1}', "ferry: appears twice"),
    ("NaN", '{"ferry": NaN}', "not JSON"),
    ("a huge number", '{"ferry": ' + "9" * 5000 + "}", "bad.json: "),
    ("deep nesting", "[" * 100000, "nested too deeply"),
    ("text that is not UTF-8", b'{"ferry": "\xff"}', "not UTF-8"),
]


def refusal_problems(folder, content, words, commands=("header",)):
    """Runs commands on a bad file: exit status 1, one line that says why, and no output."""
    path = pathlib.Path(folder) / "bad.json"
    (pathlib.Path(folder) / "pair.json").write_text(json.dumps(PAIR))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in commands:
        options = [] if command == "check" else ["-o", "made.out", "--depfile", "made.d"]
        result = ferry_gen(command, "bad.json", *options, folder=folder)
        if result.returncode != 1:
            yield f"{command}: exit status {result.returncode}, expected 1"
        for word in words:
            if word not in result.stderr:
                yield f"{command}: no '{word}' in: {result.stderr.strip()}"
        if len(result.stderr.splitlines()) != 1:
            yield f"{command}: expected one line of message: {result.stderr}"
        for left in set(os.listdir(folder)) - {"bad.json", "pair.json"}:
            yield f"{command}: left {left} behind"
            os.unlink(os.path.join(folder, left))


def schema_cases(tap):
    if jsonschema is None:
        tap.skip("schema.json agrees", "no jsonschema package")
        return
    schema = json.loads((GEN / "schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    for path in sorted(BUILTIN.glob("*.json")) + sorted(TYPES.glob("*.json")):
        errors = [error.message for error in validator.iter_errors(json.loads(path.read_text()))]
        tap.case(f"schema.json accepts {path.name}", errors)
    for name, base, path, value, *_, last in CHANGES:
        if last is not BEYOND_SCHEMA:
            valid = validator.is_valid(changed(base, path, value))
            tap.case(f"schema.json refuses: {name}", ["is accepted"] if valid else [])


def good_cases(tap):
    for path in sorted(BUILTIN.glob("*.json")) + sorted(TYPES.glob("*.json")):
        result = ferry_gen("check", path)
        tap.case(f"check accepts {path.name}", [] if result.returncode == 0 else [result.stderr])


def main():
    tap = Tap()
    good_cases(tap)
    with tempfile.TemporaryDirectory() as folder:
        for name, base, path, value, key, words, *_ in CHANGES:
            content = json.dumps(changed(base, path, value))
            tap.case(name, list(refusal_problems(folder, content, [f"bad.json: {key}: ", words])))
        for name, base, path, value, key, words in FORTRAN:
            content = json.dumps(changed(base, path, value))
            tap.case(name, list(refusal_problems(folder, content, [f"bad.json: {key}: ", words], ["fortran"])))
        for name, text, words in TEXTS:
            tap.case(name, list(refusal_problems(folder, text, ["bad.json: ", words])))
        tap.case("every command refuses", list(refusal_problems(folder, "{}", ["bad.json: ferry: missing"], COMMANDS)))
        result = ferry_gen("header", "absent.json", "-o", "made.out", folder=folder)
        tap.case("a file that is not there", [] if result.returncode == 1
                 and result.stderr.startswith("absent.json: cannot be read") else [result.stderr])
    schema_cases(tap)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
