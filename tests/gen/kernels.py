#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generated host functions have the same bits as NumPy or stay within the documented error, and are vectorized. Messages name the
file, the key and what was expected. kernels.schema.json must accept the good files, and refuse every bad one whose fault a schema
can express; without the jsonschema package this half is skipped."""

import contextlib
import ctypes
import io
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

from harness import (C_WARNINGS, DROP, GEN, HERE, ROOT, TYPES, WARNINGS, Tap, builtin_headers, c_compilers, changed, compile_problems, cxx_compilers,
                     ferry_gen, generate)

import ferry_gen as generator

try:
    import jsonschema
except ImportError:
    jsonschema = None
try:
    import numpy
except ImportError:
    numpy = None

SEVERAL = HERE / "kernels" / "several.json"
DATA = json.loads(SEVERAL.read_text())
MAP, DOT, BLUR, STEP = (next(i for i, one in enumerate(DATA["kernels"]) if one["name"] == name) for name in ("linear_sum", "dot", "blur", "step"))
SOFT = 1  # index of the function that calls a second function
BEYOND_SCHEMA = "beyond schema"  # a fault that a schema cannot express

# Invalid kernel files. Each entry is (name of the test, path of the key to change, new value, key that the error
# message names, words in the message[, BEYOND_SCHEMA]).
CHANGES = [
    ("unknown key", ["kernel"], [], "kernel", "unknown key; did you mean 'kernels'?"),
    ("no prefix", ["prefix"], DROP, "prefix", "missing"),
    ("another format version", ["ferry"], 2, "ferry", "version 1"),
    ("prefix of the library", ["prefix"], "ferry", "prefix", "belongs to the library", BEYOND_SCHEMA),
    ("no kernels", ["kernels"], [], "kernels", "is empty"),
    ("kernels that are no objects", ["kernels"], ["x"], "kernels[0]", "expected an object"),
    ("a type file that is not there", ["types", 0], "absent.json", "types[0]", "which is not there", BEYOND_SCHEMA),
    ("a type that is no file", ["types", 0], "vec3", "types[0]", "expected the path of a type file"),
    ("unknown key of a kernel", ["kernels", MAP, "eech"], "x", f"kernels[{MAP}].eech", "did you mean 'each'?"),
    ("kernel without parameters", ["kernels", MAP, "parameters"], DROP, f"kernels[{MAP}].parameters", "missing"),
    ("kernel name with capitals", ["kernels", MAP, "name"], "Sum", f"kernels[{MAP}].name", "lower-case"),
    ("kernel called as the file's kernels", ["kernels", MAP, "name"], "several", f"kernels[{MAP}].name", "of the file's kernels, 'several'", BEYOND_SCHEMA),
    ("kernel called as another one's host function", ["kernels", MAP + 1, "name"], "linear_sum_run", f"kernels[{MAP + 1}].name", "'linear_sum'", BEYOND_SCHEMA),
    ("kernel listed twice", ["kernels", MAP + 1, "name"], "linear_sum", f"kernels[{MAP + 1}].name", "is a name of the kernel 'linear_sum'", BEYOND_SCHEMA),
    ("kernel called as a reduction's second one", ["kernels", DOT + 1, "name"], "dot_into", f"kernels[{DOT + 1}].name", "'dot'", BEYOND_SCHEMA),
    ("parameter of one word", ["kernels", MAP, "parameters", 0], "a", f"kernels[{MAP}].parameters[0]", "expected 'TYPE NAME'"),
    ("parameter that is a number", ["kernels", MAP, "parameters", 0], 1, f"kernels[{MAP}].parameters[0]", "expected 'TYPE NAME'"),
    ("parameter of an unknown type", ["kernels", MAP, "parameters", 0], "duoble a", f"kernels[{MAP}].parameters[0]", "did you mean 'double'?", BEYOND_SCHEMA),
    ("access that is nearly a known one", ["kernels", MAP, "parameters", 1], "raed double x", f"kernels[{MAP}].parameters[1]", "did you mean 'read'?", BEYOND_SCHEMA),
    ("parameter listed twice", ["kernels", MAP, "parameters", 1], "read double a", f"kernels[{MAP}].parameters[1]", "twice", BEYOND_SCHEMA),
    ("parameter with the name of the index", ["kernels", MAP, "parameters", 0], "double i", f"kernels[{MAP}].parameters[0]", "called 'i'", BEYOND_SCHEMA),
    ("parameter with a name of the launch", ["kernels", MAP, "parameters", 0], "double stream", f"kernels[{MAP}].parameters[0]", "called 'stream'"),
    ("parameter with a name of the library", ["kernels", MAP, "parameters", 0], "double ferry_a", f"kernels[{MAP}].parameters[0]", "begins with '_' or 'ferry'"),
    ("parameter called as a type", ["kernels", MAP, "parameters", 0], "double size_t", f"kernels[{MAP}].parameters[0]", "a type", BEYOND_SCHEMA),
    ("parameter called as a macro", ["kernels", MAP, "parameters", 0], "double NULL", f"kernels[{MAP}].parameters[0]", "a macro", BEYOND_SCHEMA),
    ("parameter called as a word of CUDA", ["kernels", MAP, "parameters", 0], "double threadIdx", f"kernels[{MAP}].parameters[0]", "reserved word", BEYOND_SCHEMA),
    ("parameter called as the guard of a header", ["kernels", MAP, "parameters", 0], "double MYLIB_SEVERAL_H", f"kernels[{MAP}].parameters[0]", "generated functions",
     BEYOND_SCHEMA),
    ("kernel called as a reserved word", ["kernels", MAP, "name"], "double", f"kernels[{MAP}].name", "reserved word", BEYOND_SCHEMA),
    ("kernel called as a member of the struct", ["kernels", MAP, "name"], "context", f"kernels[{MAP}].name", "generated code", BEYOND_SCHEMA),
    ("map that returns before it writes", ["kernels", MAP, "each"], "if (x[i] < a) return; z[i] = b * y[i];", f"kernels[{MAP}].each",
     "does not write 'z[i]' before 'return'", BEYOND_SCHEMA),
    ("map that returns a value", ["kernels", MAP, "each"], "z[i] = a * b * y[i]; return x[i];", f"kernels[{MAP}].each", "expected 'return;'", BEYOND_SCHEMA),
    ("stencil that returns", ["kernels", BLUR, "each"], "next[i] = weight * now(0, 0); return;", f"kernels[{BLUR}].each", "holds 'return'", BEYOND_SCHEMA),
    ("map with results that returns", ["kernels", STEP, "each"], ["const double size = r[i];", "return;"], f"kernels[{STEP}].each", "holds 'return'",
     BEYOND_SCHEMA),
    ("map that breaks", ["kernels", MAP, "each"], "z[i] = a * b * y[i]; if (x[i] < 0) break;", f"kernels[{MAP}].each", "holds 'break'", BEYOND_SCHEMA),
    ("map that continues", ["kernels", MAP, "each"], "z[i] = a * b * y[i]; switch (1) { default: continue; }", f"kernels[{MAP}].each", "holds 'continue'",
     BEYOND_SCHEMA),
    ("map that jumps", ["kernels", MAP, "each"], "end: z[i] = a * b * y[i] * x[i]; goto end;", f"kernels[{MAP}].each", "holds 'goto'", BEYOND_SCHEMA),
    ("map that writes another element", ["kernels", MAP, "each"], "z[i + 1] = a * x[i] + b * y[i];", f"kernels[{MAP}].each", "uses 'z[i + 1]'; expected 'z[i]'",
     BEYOND_SCHEMA),
    ("map that writes by an index of the data", ["kernels", MAP, "each"], "z[(int)x[i]] += 1; z[i] = a + b + y[i];", f"kernels[{MAP}].each",
     "expected 'z[i]' alone", BEYOND_SCHEMA),
    ("map that writes through a pointer", ["kernels", MAP, "each"], "double *p = z; p[i] = a * x[i] + b * y[i];", f"kernels[{MAP}].each",
     "uses 'z' without '[i]'", BEYOND_SCHEMA),
    ("map that takes the address of what it writes", ["kernels", MAP, "each"], "z[i] = a * b * y[i] * x[i]; double *p = &z[i]; p[1] = 0;",
     f"kernels[{MAP}].each", "takes the address of 'z[i]'", BEYOND_SCHEMA),
    ("map that reads a neighbour of what it updates", ["kernels", MAP], {"name": "k", "parameters": ["update float x"], "each": "x[i] = x[i - 1];"},
     f"kernels[{MAP}].each", "uses 'x[i - 1]'", BEYOND_SCHEMA),
    ("map that reads a neighbour of what it reads", ["kernels", MAP, "each"], "z[i] = a * x[i + 1] + b * y[i];", f"kernels[{MAP}].each",
     "uses 'x[i + 1]'; expected 'x[i]' alone, or 'read whole double x'", BEYOND_SCHEMA),
    ("map that passes on an array", ["kernels", MAP, "each"], "z[i] = a * *x + b * y[i];", f"kernels[{MAP}].each", "uses 'x' without '[i]'", BEYOND_SCHEMA),
    ("the length of an array that is not whole", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] + count(x);", f"kernels[{MAP}].each",
     "holds 'count(x)'; expected 'count(NAME)' of an array that is 'whole'", BEYOND_SCHEMA),
    ("the length of a value", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] + count(a);", f"kernels[{MAP}].each", "holds 'count(a)'", BEYOND_SCHEMA),
    ("the length of two arrays", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] + count(x, y);", f"kernels[{MAP}].each", "holds 'count(x, y)'",
     BEYOND_SCHEMA),
    ("only whole arrays, and no count", ["kernels", MAP], {"name": "k", "parameters": ["update whole float x"], "each": "x[i] = 1.0f;"},
     f"kernels[{MAP}].parameters", "has no array that gives the count", BEYOND_SCHEMA),
    ("a count that is a number", ["kernels", MAP, "count"], 3, f"kernels[{MAP}].count", "true or false"),
    ("a stencil with a count", ["kernels", BLUR, "count"], True, f"kernels[{BLUR}].count", "stands beside 'dimensions'"),
    ("a stencil without dimensions", ["kernels", BLUR, "dimensions"], DROP, f"kernels[{BLUR}].stencil", "stands without 'dimensions'"),
    ("dimensions of other names", ["kernels", BLUR, "dimensions"], ["y", "x"], f"kernels[{BLUR}].dimensions",
     'is ["y", "x"]; expected ["rows", "columns"] or ["planes", "rows", "columns"]'),
    ("dimensions that are a number", ["kernels", BLUR, "dimensions"], 2, f"kernels[{BLUR}].dimensions", 'expected ["rows", "columns"]'),
    ("edges of another kind", ["kernels", BLUR, "edges"], "mirror", f"kernels[{BLUR}].edges", "expected one of nearest, none, wrap"),
    ("edges without a stencil", ["kernels", MAP, "edges"], "none", f"kernels[{MAP}].edges", "stands without 'stencil'"),
    ("a step too many", ["kernels", BLUR, "each"], "next[i] = weight * now(0, 0, 1);", f"kernels[{BLUR}].each", "holds 'now(0, 0, 1)'; expected 2 whole numbers",
     BEYOND_SCHEMA),
    ("n of a plane", ["kernels", BLUR, "each"], "next[i] = weight * now(0, 0) + n;", f"kernels[{BLUR}].each", "uses 'n'", BEYOND_SCHEMA),
    ("a plane of rows and columns", ["kernels", BLUR, "each"], "next[i] = weight * now(0, 0) + plane;", f"kernels[{BLUR}].each", "uses 'plane'", BEYOND_SCHEMA),
    ("a parameter called as a size", ["kernels", BLUR, "parameters", 1], "float columns", f"kernels[{BLUR}].parameters[1]", "called 'columns'", BEYOND_SCHEMA),
    ("a parameter called box", ["kernels", BLUR, "parameters", 1], "float box", f"kernels[{BLUR}].parameters[1]", "called 'box'", BEYOND_SCHEMA),
    ("another element of a plane", ["kernels", BLUR, "each"], "next[i + columns] = weight * now(0, 0);", f"kernels[{BLUR}].each", "uses 'next[i + columns]'", BEYOND_SCHEMA),
    ("a parameter called as the count", ["kernels", MAP], {"name": "k", "count": True, "parameters": ["update float x", "float count"], "each": "x[i] = count;"},
     f"kernels[{MAP}].parameters[1]", "called 'count'", BEYOND_SCHEMA),
    ("a value in a buffer that is updated", ["kernels", MAP, "parameters", 0], "update one double a", f"kernels[{MAP}].parameters[0]",
     "expected 'read one double a'"),
    ("a word that is nearly whole", ["kernels", MAP, "parameters", 1], "read hwole double x", f"kernels[{MAP}].parameters[1]", "did you mean 'whole'?",
     BEYOND_SCHEMA),
    ("a value in a buffer that is indexed", ["kernels", MAP], {"name": "k", "parameters": ["update float x", "read one float a"], "each": "a = 1.0f; x[i] = a;"},
     f"kernels[{MAP}].each", "changes 'a'", BEYOND_SCHEMA),
    ("a whole array that is read and written to", ["kernels", MAP], {"name": "k", "parameters": ["update float x", "read whole float t"], "each": "t[0] = x[i];"},
     f"kernels[{MAP}].each", "'t' is a 'read' array", BEYOND_SCHEMA),
    ("a whole array that is overwritten and read before", ["kernels", MAP],
     {"name": "k", "parameters": ["read int at", "overwrite whole float t"], "each": "t[at[i]] += 1.0f;"}, f"kernels[{MAP}].each", "reads 't' before", BEYOND_SCHEMA),
    ("a whole array that is overwritten nowhere", ["kernels", MAP], {"name": "k", "parameters": ["update float x", "overwrite whole float t"], "each": "x[i] = 1;"},
     f"kernels[{MAP}].each", "does not write 't[i]' anywhere", BEYOND_SCHEMA),
    ("a pointer to a whole array that is written", ["kernels", MAP],
     {"name": "k", "parameters": ["read float x", "update whole float t"], "each": "float *p = t; p[0] = x[i];"}, f"kernels[{MAP}].each",
     "uses 't' without an index", BEYOND_SCHEMA),
    ("a pointer into a whole array that is written", ["kernels", MAP],
     {"name": "k", "parameters": ["read float x", "update whole float t"], "each": "float *p = &t[2]; p[0] = x[i];"}, f"kernels[{MAP}].each",
     "takes the address of 't[2]'", BEYOND_SCHEMA),
    ("a stencil that calls a whole array", ["kernels", BLUR, "parameters", 0], "read whole float now", f"kernels[{BLUR}].each", "calls 'now', a parameter",
     BEYOND_SCHEMA),
    ("no result", ["kernels", STEP, "results"], [], f"kernels[{STEP}].results", "is empty"),
    ("results that are a name", ["kernels", STEP, "results"], "rr", f"kernels[{STEP}].results", "a list of results"),
    ("a result that is text", ["kernels", STEP, "results", 0], "rr", f"kernels[{STEP}].results[0]", "one of the results"),
    ("a result without a value", ["kernels", STEP, "results", 0, "value"], DROP, f"kernels[{STEP}].results[0].value", "missing"),
    ("a result that combines nothing", ["kernels", STEP, "results", 0, "sum"], DROP, f"kernels[{STEP}].results[0].sum", "expected one of sum, min and max"),
    ("a result that combines twice", ["kernels", STEP, "results", 0, "max"], "double", f"kernels[{STEP}].results[0].max", "is beside 'sum'"),
    ("a result of an unknown key", ["kernels", STEP, "results", 0, "vlaue"], "1", f"kernels[{STEP}].results[0].vlaue", "did you mean 'value'?"),
    ("a result called as a parameter", ["kernels", STEP, "results", 0, "name"], "r", f"kernels[{STEP}].results[0].name", "a name of a parameter", BEYOND_SCHEMA),
    ("a result called as another one", ["kernels", STEP, "results", 1, "name"], "rr", f"kernels[{STEP}].results[1].name", "of another result", BEYOND_SCHEMA),
    ("a result called as generated code", ["kernels", STEP, "results", 0, "name"], "rr_", f"kernels[{STEP}].results[0].name", "called 'rr_'"),
    ("a result that is a struct", ["kernels", STEP, "results", 0, "sum"], "vec3", f"kernels[{STEP}].results[0].sum", "added and compared", BEYOND_SCHEMA),
    ("a result of two expressions", ["kernels", STEP, "results", 0, "value"], "r[i]; x[i] = 1", f"kernels[{STEP}].results[0].value", "is not C at '; x[i]",
     BEYOND_SCHEMA),
    ("a result of two halves", ["kernels", STEP, "results", 0, "value"], "r[i]) * (r[i]", f"kernels[{STEP}].results[0].value", "is not C at ') *", BEYOND_SCHEMA),
    ("a result of another element", ["kernels", STEP, "results", 1, "value"], "r[i + 1]", f"kernels[{STEP}].results[1].value", "uses 'r[i + 1]'", BEYOND_SCHEMA),
    ("a result that names nothing", ["kernels", STEP, "results", 1, "value"], "siez", f"kernels[{STEP}].each", "did you mean 'size'?", BEYOND_SCHEMA),
    ("a result beside a sum", ["kernels", STEP, "sum"], "double", f"kernels[{STEP}].results", "stands beside 'sum'"),
    *((f"an atomic operation {name}", ["kernels", MAP], {"name": "k", "parameters": ["read int x", f"{kind} t"], "each": each}, f"kernels[{MAP}].each", words,
       BEYOND_SCHEMA) for name, kind, each, words in (
          ("on an array that is not whole", "update int", "atomic_add(t[i], 1);", "holds 'atomic_add(t[i], 1)'; expected 'atomic_add(NAME[k], v)'"),
          ("on an array that is overwritten", "overwrite whole int", "atomic_add(t[x[i]], 1);", "that is 'update whole'"),
          ("on an array", "update whole int", "atomic_max(t, 1);", "expected 'atomic_max(NAME[k], v)'"),
          ("of three arguments", "update whole int", "atomic_min(t[x[i]], 1, 2);", "expected 'atomic_min(NAME[k], v)'"),
          ("on narrow numbers", "update whole uint16", "atomic_add(t[x[i]], 1);", "'t' is of 'uint16_t'; expected int, uint32"),
          ("as a value", "update whole int", "const int old = atomic_add(t[x[i]], 1);", "as a value"),
          ("in a condition", "update whole int", "x[i] && atomic_add(t[x[i]], 1);", "as a value"),
          ("of another element of an array", "update whole int", "atomic_add(t[x[i + 1]], 1);", "uses 'x[i + 1]'"))),
    ("the size of what a function of arrays returns", ["kernels", MAP], {"name": "k", "parameters": ["read whole real t", "update int x"],
      "each": "x[i] = (int)sizeof(bracket(t, 1));"}, f"kernels[{MAP}].each", "expected the type that 'bracket' returns", BEYOND_SCHEMA),
    ("a function called as an atomic operation", ["functions", 0, "name"], "atomic_add", "functions[0].name", "of the generated code", BEYOND_SCHEMA),
    ("a function called count", ["functions", 0, "name"], "count", "functions[0].name", "of the generated code", BEYOND_SCHEMA),
    ("map that writes what it reads", ["kernels", MAP, "each"], "z[i] = a + b + y[i]; x[i] = 1;", f"kernels[{MAP}].each", "'x' is a 'read' array", BEYOND_SCHEMA),
    ("map that moves its index", ["kernels", MAP, "each"], "i++; z[i] = a * x[i] + b * y[i];", f"kernels[{MAP}].each", "changes 'i'", BEYOND_SCHEMA),
    ("map that declares another index", ["kernels", MAP, "each"], "for (int i = 0; i < 2; i++) z[i] = a * x[i] + b * y[i];", f"kernels[{MAP}].each",
     "declares 'i'", BEYOND_SCHEMA),
    ("map that reads an overwritten array", ["kernels", MAP, "each"], "z[i] += a * x[i] + b * y[i];", f"kernels[{MAP}].each", "reads 'z[i]' before", BEYOND_SCHEMA),
    ("map that writes on a condition", ["kernels", MAP, "each"], "if (x[i] > a) z[i] = b * y[i];", f"kernels[{MAP}].each", "does not write 'z[i]' on every path",
     BEYOND_SCHEMA),
    ("map that writes in one case", ["kernels", MAP, "each"], "x[i] > a && (z[i] = b * y[i]);", f"kernels[{MAP}].each", "on every path", BEYOND_SCHEMA),
    ("map that does not write", ["kernels", MAP, "each"], "double w = a * x[i] + b * y[i];", f"kernels[{MAP}].each", "does not write 'z[i]' anywhere", BEYOND_SCHEMA),
    ("macro of a header", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] + LIMIT;", f"kernels[{MAP}].each", "uses 'LIMIT', which", BEYOND_SCHEMA),
    ("misspelt name", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] + M_IP;", f"kernels[{MAP}].each", "'-DM_IP=...'", BEYOND_SCHEMA),
    ("the index of CUDA", ["kernels", MAP, "each"], "int j = blockIdx.x * blockDim.x + threadIdx.x; z[j] = x[j];", f"kernels[{MAP}].each",
     "holds 'blockIdx', a word of devices alone; expected 'i', the number of the element", BEYOND_SCHEMA),
    ("shared memory", ["kernels", MAP, "each"], "__shared__ double s[4]; z[i] = x[i];", f"kernels[{MAP}].each", "see 'ferry-gen embed'", BEYOND_SCHEMA),
    ("an atomic operation of CUDA", ["kernels", MAP, "each"], "atomicAdd(&z[i], 1.0);", f"kernels[{MAP}].each", "expected 'atomic_add(NAME[k], v)'",
     BEYOND_SCHEMA),
    ("a function of CUDA", ["kernels", MAP, "each"], "z[i] = max(x[i], y[i]);", f"kernels[{MAP}].each", "expected 'fmax' or 'fmaxf', or '?:'",
     BEYOND_SCHEMA),
    ("a pointer of CUDA as a parameter", ["kernels", MAP, "parameters", 1], "const double *x", f"kernels[{MAP}].parameters[1]",
     "expected an array without '*', such as 'read TYPE x'", BEYOND_SCHEMA),
    ("function of a header", ["kernels", MAP, "each"], "z[i] = clamped(a * x[i] + b * y[i]);", f"kernels[{MAP}].each", "calls 'clamped', which", BEYOND_SCHEMA),
    ("type of a header", ["kernels", MAP, "each"], "scalar w = x[i]; z[i] = a * w + b * y[i];", f"kernels[{MAP}].each", "names the type 'scalar'", BEYOND_SCHEMA),
    ("enumeration of a header", ["kernels", MAP, "each"], "enum phase w = x[i]; z[i] = a * w + b * y[i];", f"kernels[{MAP}].each", "names the type 'phase'",
     BEYOND_SCHEMA),
    ("macro of a header in a function", ["functions", 0, "body"], "return x * LIMIT;", "functions[0].body", "uses 'LIMIT'", BEYOND_SCHEMA),
    ("function without a return", ["functions", 0, "body"], "x = x * x;", "functions[0].body", "holds no 'return'", BEYOND_SCHEMA),
    ("function that ends, and begins another", ["functions", 0, "body"], "return x; } double f(double x) { return x;", "functions[0].body", "is not C at '}",
     BEYOND_SCHEMA),
    ("expression of two halves", ["kernels", DOT, "each"], "x[i]) * (y[i]", f"kernels[{DOT}].each", "is not C at ') * (y[i]'", BEYOND_SCHEMA),
    ("map with a trigraph", ["kernels", MAP, "each"], "z[i] = a * x[i] + b * y[i] \u003f\u003f! 1;".encode().decode("unicode_escape"), f"kernels[{MAP}].each",
     "which C reads as another character", BEYOND_SCHEMA),
    ("map with a digraph", ["kernels", MAP, "each"], "z<:i:> = a * x[i] + b * y[i];", f"kernels[{MAP}].each", "another spelling", BEYOND_SCHEMA),
    ("map with a word that C++ has not", ["kernels", MAP, "each"], "register double w = x[i]; z[i] = a * w + b * y[i];", f"kernels[{MAP}].each",
     "holds 'register'", BEYOND_SCHEMA),
    ("comment with a trigraph", ["kernels", MAP, "comment"], "x??/", f"kernels[{MAP}].comment", "'??/'"),
    ("constant that is a list", ["constants"], {"LIMIT": [1]}, "constants.LIMIT", "a constant expression"),
    ("constant of an unknown name", ["constants"], {"LIMIT": "2 * MOST"}, "constants.LIMIT", "uses 'MOST'", BEYOND_SCHEMA),
    ("constant with the name of a macro", ["constants"], {"M_PI": 3}, "constants.M_PI", "a macro", BEYOND_SCHEMA),
    ("constant that is a call", ["constants"], {"LIMIT": "sqrt(2)"}, "constants.LIMIT", "uses 'sqrt'", BEYOND_SCHEMA),
    ("parameter called as a constant", ["constants"], {"a": 3}, f"kernels[{MAP}].parameters[0]", "one of 'functions' or 'constants'", BEYOND_SCHEMA),
    ("stencil that calls what it writes", ["kernels", BLUR, "each"], "next[i] = weight * next(0, 1) + now(0, 0);", f"kernels[{BLUR}].each",
     "calls 'next', which the stencil writes", BEYOND_SCHEMA),
    ("stencil that moves its row", ["kernels", BLUR, "each"], "next[i] = weight * now(0, 0); row += 1;", f"kernels[{BLUR}].each", "changes 'row'", BEYOND_SCHEMA),
    ("parameter whose name ends with _", ["kernels", MAP, "parameters", 0], "double a_", f"kernels[{MAP}].parameters[0]", "called 'a_'"),
    ("parameter that is a reserved word", ["kernels", MAP, "parameters", 0], "double new", f"kernels[{MAP}].parameters[0]", "reserved word", BEYOND_SCHEMA),
    ("map that writes nothing", ["kernels", MAP, "parameters", 4], "read double z", f"kernels[{MAP}].parameters", "no array to be written"),
    ("map without a semicolon", ["kernels", MAP, "each"], "z[i] = x[i]", f"kernels[{MAP}].each", "does not end with ';'"),
    ("map with a bracket too many", ["kernels", MAP, "each"], "z[i] = (x[i];", f"kernels[{MAP}].each", "is not C at ';'; expected ')'", BEYOND_SCHEMA),
    ("map with a comment", ["kernels", MAP, "each"], "z[i] = x[i]; // x", f"kernels[{MAP}].each", "a comment"),
    ("map that is no text", ["kernels", MAP, "each"], 1, f"kernels[{MAP}].each", "is no text"),
    ("a function that is not exact", ["kernels", MAP, "each"], "z[i] = tgamma(x[i]);", f"kernels[{MAP}].each", "calls tgamma()", BEYOND_SCHEMA),
    ("two reductions", ["kernels", DOT, "max"], "double", f"kernels[{DOT}].max", "stands beside 'sum'"),
    ("reduction that writes", ["kernels", DOT, "parameters", 0], "update double x", f"kernels[{DOT}].parameters", "to be written"),
    ("reduction of statements", ["kernels", DOT, "each"], "r += x[i];", f"kernels[{DOT}].each", "one expression"),
    ("reduction to a struct", ["kernels", DOT, "sum"], "vec3", f"kernels[{DOT}].sum", "added and compared", BEYOND_SCHEMA),
    ("reduction to an unknown type", ["kernels", DOT, "sum"], "decimal", f"kernels[{DOT}].sum", "is of type 'decimal'", BEYOND_SCHEMA),
    ("kernel without arrays", ["kernels", DOT, "parameters"], ["double x"], f"kernels[{DOT}].parameters", "has no array"),
    ("stencil without a radius", ["kernels", BLUR, "stencil"], 0, f"kernels[{BLUR}].stencil", "from 1 to 16"),
    ("stencil past its radius", ["kernels", BLUR, "stencil"], 1, f"kernels[{BLUR}].each", "holds 'now(-2, 0)'", BEYOND_SCHEMA),
    ("stencil with a computed step", ["kernels", BLUR, "each"], "next[i] = now(0, i);", f"kernels[{BLUR}].each", "2 whole numbers", BEYOND_SCHEMA),
    ("stencil that reads by index", ["kernels", BLUR, "each"], "next[i] = now[i];", f"kernels[{BLUR}].each", "holds 'now['", BEYOND_SCHEMA),
    ("option that is none", ["kernels", MAP, "options"], ["lineinfo"], f"kernels[{MAP}].options[0]", "such as '-lineinfo'"),
    ("option of HIP that is none", ["kernels", MAP, "options"], {"hip": ["w"]}, f"kernels[{MAP}].options.hip[0]", "such as '-lineinfo'"),
    ("options of an unknown language", ["kernels", MAP, "options"], {"openlc": ["-w"]}, f"kernels[{MAP}].options.openlc", "did you mean 'opencl'?"),
    ("options that are a name", ["kernels", MAP, "options"], "-w", f"kernels[{MAP}].options", "a list of options for CUDA, or an object"),
    ("options of OpenCL that are a name", ["kernels", MAP, "options"], {"opencl": "-w"}, f"kernels[{MAP}].options.opencl", "a list of options"),
    ("parameter called as a macro of OpenCL", ["kernels", MAP, "parameters", 0], "double CLK_GLOBAL", f"kernels[{MAP}].parameters[0]", "reserved word", BEYOND_SCHEMA),
    ("parameter called as a vector of OpenCL", ["kernels", MAP, "parameters", 0], "double uint4", f"kernels[{MAP}].parameters[0]", "reserved word", BEYOND_SCHEMA),
    ("fast that is text", ["kernels", MAP, "fast"], "yes", f"kernels[{MAP}].fast", "true or false"),
    ("functions that are a name", ["functions"], "square", "functions", "a list of functions"),
    ("unknown key of a function", ["functions", SOFT, "retruns"], "double", f"functions[{SOFT}].retruns", "did you mean 'returns'?"),
    ("function without a body", ["functions", SOFT, "body"], DROP, f"functions[{SOFT}].body", "missing"),
    ("function that is only declared", ["functions", SOFT, "body"], "", f"functions[{SOFT}].body", "is no text"),
    ("function without a semicolon", ["functions", SOFT, "body"], "return x", f"functions[{SOFT}].body", "does not end with ';'"),
    ("function with a preprocessor line", ["functions", SOFT, "body"], ["#if 1", "return x;"], f"functions[{SOFT}].body", "holds '#'"),
    ("function with a name of C", ["functions", SOFT, "name"], "sqrtf", f"functions[{SOFT}].name", "a function of C", BEYOND_SCHEMA),
    ("function with a reserved word as its name", ["functions", SOFT, "name"], "double", f"functions[{SOFT}].name", "reserved word", BEYOND_SCHEMA),
    ("function whose name ends with _", ["functions", SOFT, "name"], "soft_", f"functions[{SOFT}].name", "single '_'"),
    ("function listed twice", ["functions", SOFT, "name"], "square", f"functions[{SOFT}].name", "listed twice", BEYOND_SCHEMA),
    ("function of an array that is not whole", ["functions", SOFT, "parameters", 0], "read double x", f"functions[{SOFT}].parameters[0]",
     "expected 'read whole double x' or 'update whole double x' for an array"),
    ("function of an array that is overwritten", ["functions", SOFT, "parameters", 0], "overwrite whole double x", f"functions[{SOFT}].parameters[0]",
     "expected 'read whole double x'"),
    ("function of a value in a buffer", ["functions", SOFT, "parameters", 0], "read one double x", f"functions[{SOFT}].parameters[0]", "for a value"),
    *((f"a call with {name}", ["kernels", MAP], {"name": "k", "parameters": [*arrays.split(", ")], "each": each}, f"kernels[{MAP}].each", words, BEYOND_SCHEMA)
      for name, arrays, each, words in (
          ("an array that is not whole", "read double x, overwrite double z", "z[i] = bracket(x, 1.0);",
           "holds 'bracket(x, 1.0)' with 'x' for the array 'keys'; expected the name of an array that is 'read whole double'"),
          ("an array of another type", "read whole float x, overwrite double z", "z[i] = bracket(x, 1.0);", "that is 'read whole double'"),
          ("the address of an element", "read whole double x, overwrite double z", "z[i] = bracket(&x[1], 1.0);", "with '&x[1]' for the array 'keys'"),
          ("a variable", "read whole double x, overwrite double z", "const double y[2] = {x[0], 1}; z[i] = bracket(y, 1.0);", "with 'y' for the array"),
          ("an argument too few", "read whole double x, overwrite double z", "z[i] = bracket(x);", "expected 2 arguments"),
          ("an array that is read for one that is updated", "read whole double x, read whole int t, overwrite double z", "z[i] = marked(x, 1.0, t);",
           "that is 'update whole int32_t'"),
          ("an array before it is written", "overwrite whole double x, overwrite double z", "z[i] = bracket(x, 1.0);", "reads 'x' before"))),
    ("function that writes an array that it reads", ["functions", SOFT], {"name": "f", "returns": "int", "parameters": ["read whole int t"], "body": "return t[0]++;"},
     f"functions[{SOFT}].body", "'t' is a 'read' array", BEYOND_SCHEMA),
    ("function of the length of a value", ["functions", SOFT, "body"], "return x + count(y);", f"functions[{SOFT}].body", "holds 'count(y)'", BEYOND_SCHEMA),
    ("a function of C that is not exact enough", ["kernels", MAP, "each"], "z[i] = a * erf(x[i]) + b * y[i];", f"kernels[{MAP}].each",
     """calls erf(), which is not within 2 ulp on every device; expected other functions, or '"inexact": true'""", BEYOND_SCHEMA),
    ("a function that is inexact", ["kernels", MAP, "each"], "z[i] = a * bell(x[i]) + b * y[i];", f"kernels[{MAP}].each",
     "calls 'bell', a function that is \"inexact\"", BEYOND_SCHEMA),
    ("a function that is too inexact", ["kernels", MAP], {"name": "k", "inexact": True, "parameters": ["update float x"], "each": "x[i] = lgammaf(x[i]);"},
     f"kernels[{MAP}].each", "calls lgammaf()", BEYOND_SCHEMA),
    ("inexact that is text", ["kernels", MAP, "inexact"], "yes", f"kernels[{MAP}].inexact", "true or false"),
    ("typedefs that are a list", ["typedefs"], ["real"], "typedefs", "an object of names and types"),
    ("a typedef of an unknown type", ["typedefs", "real"], "quadruple", "typedefs.real", "is of type 'quadruple'", BEYOND_SCHEMA),
    ("a typedef of a number", ["typedefs", "real"], 8, "typedefs.real", "expected the name of a type"),
    ("a typedef called as a type", ["typedefs", "vec3"], "double", "typedefs.vec3", "a type", BEYOND_SCHEMA),
    ("a typedef called as a function", ["typedefs", "sqrt"], "double", "typedefs.sqrt", "a meaning in every text", BEYOND_SCHEMA),
    ("a parameter called as a typedef", ["kernels", MAP, "parameters", 0], "double real", f"kernels[{MAP}].parameters[0]", "a type", BEYOND_SCHEMA),
    ("a variable called as an enumerator", ["kernels", MAP, "each"], "double MYLIB_RED = a; z[i] = MYLIB_RED * x[i] + b * y[i];", f"kernels[{MAP}].each",
     "declares 'MYLIB_RED'", BEYOND_SCHEMA),
    ("a constant called as an enumerator", ["constants", "MYLIB_RED"], 2, "constants.MYLIB_RED", "is called 'MYLIB_RED'", BEYOND_SCHEMA),
    ("function of an unknown type", ["functions", SOFT, "parameters", 0], "vec4 x", f"functions[{SOFT}].parameters[0]", "'vec4'", BEYOND_SCHEMA),
    ("function that returns an unknown type", ["functions", SOFT, "returns"], "vec4", f"functions[{SOFT}].returns", "'vec4'", BEYOND_SCHEMA),
    ("function that calls itself", ["functions", SOFT, "body"], "return soft_length(x, y, least);", f"functions[{SOFT}].body",
     "not listed above", BEYOND_SCHEMA),
    ("function that calls a later one", ["functions", 0, "body"], "return soft_length(x, x, x);", "functions[0].body", "not listed above", BEYOND_SCHEMA),
    ("function that calls one that is not exact", ["functions", SOFT, "body"], "return erf(x);", f"functions[{SOFT}].body", "calls erf()", BEYOND_SCHEMA),
    ("function of a struct that the kernel has not", ["kernels", MAP, "each"], "z[i] = moved(x[i], a);", f"kernels[{MAP}].parameters",
     "has no 'vec3', a struct of the function 'moved'", BEYOND_SCHEMA),
    ("parameter called as a function", ["kernels", MAP, "parameters", 0], "double square", f"kernels[{MAP}].parameters[0]", "one of 'functions'",
     BEYOND_SCHEMA),
    ("comment that ends the comment", ["kernels", MAP, "comment"], "*/", f"kernels[{MAP}].comment", "one line"),
]


PLANE = {"dimensions": ["rows", "columns"]}
SOLID = {"dimensions": ["planes", "rows", "columns"]}
# Correct texts that the rules must not refuse: (parameters, each, other keys of the kernel).
CORRECT = [
    ("read float x, overwrite float z", "if (x[i] > 0) { z[i] = x[i]; } else z[i] = -x[i];", {}),
    ("read float x, overwrite float z", "if (x[i] > 0) z[i] = 1; else if (x[i] < 0) z[i] = -1; else z[i] = 0;", {}),
    ("read float x, overwrite float z", "float s = 0; for (int k = 0; k < 4; k++) { if (k == 2) continue; s += x[i] * k; } z[i] = s; z[i] += 1.0f;", {}),
    ("read float x, overwrite float z", "switch ((int)x[i]) { case 0: z[i] = 1; break; default: z[i] = 2; }", {}),
    ("read float x, overwrite float z", "const float t[3] = {1, 2, 3}; int k = x[i] > 0 ? 1 : 2; while (k < 2) { k++; if (k) break; } z[i] = t[k];", {}),
    ("read float x, overwrite float z", "static const double t[] = {1.0, 2.0}; enum { HALF = 2 }; z[i] = (float)(t[1] / HALF);", {}),
    ("read whole float x, overwrite float z", "z[i] = x[i + 1 < n ? i + 1 : i] - x[i ? i - 1 : i];", {}),
    ("read int at, read whole float x, overwrite float z", "z[i] = x[at[i]];", {}),
    ("read int at, overwrite whole float z", "if (at[i] < (int)count(z)) { z[at[i]] = 1.0f; z[at[i]] += 2.0f; }", {}),
    ("update whole vec3 p, read one int k", "p[k].x += 1.0f; p[count(p) - 1].v[1]++;", {"count": True}),
    ("update float x", "x[i] += 1; const float y = x[i];", {"results": [{"name": "sum", "sum": "float", "value": "y * n"}]}),
    ("read int x, update whole int t", "for (int k = 0; k < x[i]; k++) atomic_add(t[k + count(t) / 2], x[i]); if (x[i]) { atomic_max(t[0], 1); }", {}),
    ("read float x, overwrite float z, update float y", "if (x[i] < 0) { z[i] = 0; return; } z[i] = x[i]; if (x[i] > 9) return; y[i] = z[i];", {}),
    ("update float count, update whole float t", "t[i] = t[2 * i] + count[i];", {}),
    ("read whole float whole, read float one, overwrite float z", "z[i] = whole[count(whole) - 1] + one[i];", {}),
    ("read whole float x, overwrite float z", "const float *const near_by = x + i; z[i] = *near_by + near_by[0];", {}),
    ("update vec3 p, vec3 by", "p[i].v[1] = by.v[0]; p[i].x++; struct mylib_vec3 q = p[i]; q.x = 2.0f; p[i] = q;", {}),
    ("overwrite vec3 p", "p[i].x = 1.0f; p[i].v[0] = p[i].v[1] = 2.0f;", {}),
    ("overwrite float z, double n", "unsigned long long h = i * 2654435761ull; z[i] = (float)(h >> 40) + (float)n; do { h /= 2; } while (h > 1u);", {}),
    ("overwrite float z", "int e; float m = frexpf(3.5f, &e); z[i] = ldexpf(m, e + (int)sizeof(float)) + 'a' - 0x1p-3f + 1.e-2f + .5F;", {}),
    ("overwrite double z", "z[i] = M_PI + DBL_MAX + FLT_MAX + INFINITY + INT_MAX + (double)UINT64_MAX + (NAN > 0 ? 1 : 2);", {}),
    ("update float x", "x[i] = x[i] > LIMIT ? LIMIT : x[i];", {"options": ["-DLIMIT=100.0f"]}),
    ("read whole vec3 p, overwrite float z", "vec3 q = p[i]; byte k = 3; uint32 h = k; z[i] = q.x + (float)h + MYLIB_GREEN;", {}),
    ("update float x", "x[i] = erff(x[i]) + cbrtf(x[i]);", {"inexact": True}),
    ("read double x", "isnan(x[i]) ? 0 : fabs(x[i])", {"sum": "double"}),
    ("read whole double x", "isnan(x[i]) ? 0 : fabs(x[i + 1 < n ? i + 1 : 0])", {"sum": "double", "count": True}),
    ("read float old, overwrite float next", "next[i] = row && column + 1 < columns ? old(-1, +1) : old(0, 0);", {"stencil": 1, **PLANE}),
    ("read float old, update float sum", "sum[i] += old(0, -1) + (float)(rows + i);", {"stencil": 1, **PLANE, "edges": "none"}),
    ("read float old, update float first", "first[i] += old(0, -1, 2) + (float)(planes * plane);", {"stencil": 2, **SOLID, "edges": "wrap"}),
    ("update float count, read float n", "if (row > column) { return; } count[(i)] = (float)i + n[i] * rows;", PLANE),
    ("read float x", "x[i] * (float)plane", {"sum": "float", **SOLID}),
    ("update float x", "x[i] += 1;", {"results": [{"name": "sum", "sum": "float", "value": "x[i] * column"}], **PLANE}),
    ("update whole float x", "x[row * columns + column] += 1;", PLANE),
]


def typedef_cases(tap, folder):
    """--typedef chooses another type for a name of the file, in every text."""
    data = {"ferry": 1, "prefix": "t", "header": "t.h", "typedefs": {"real": "double", "index": "int64_t"},
            "kernels": [{"name": "k", "sum": "real", "parameters": ["read real x", "index shift"], "each": "(real)shift + (x[i] > sizeof(real) ? (real)1 : x[i])"}]}
    (folder / "t.json").write_text(json.dumps(data))
    for arguments, words in (((), ["double *out", "(double)shift", "__global const double *x", "long shift", "long long shift", "ferry_double_buffer x"]),
                             (("--typedef", "real=float", "--typedef=index=int"),
                              ["float *out", "(float)shift", "__global const float *x", "int shift", "ferry_float_buffer x", "--typedef real=float --typedef index=int"])):
        result = ferry_gen("kernels", folder / "t.json", "-o", folder / "t.h", *arguments)
        text = (folder / "t.h").read_text() if result.returncode == 0 else ""
        tap.case(f"typedefs {' '.join(arguments)}", [result.stderr] if not text else [f"no {word}" for word in words if word not in text] + (
            ["a typedef is left"] if re.search(r"\breal\b(?!=)", text) else []))
    for argument, status, words in (("rael=float", 1, "has no 'rael', which '--typedef rael=float' names; did you mean 'real'?"),
                                    ("real=quadruple", 1, "typedefs.real: is of type 'quadruple'"), ("real", 2, "is not NAME=TYPE")):
        for command in (("check",), ("kernels", "-o", folder / "t.h")):
            result = ferry_gen(*command, folder / "t.json", "--typedef", argument)
            tap.case(f"{command[0]} --typedef {argument}", [] if result.returncode == status and words in result.stderr else [result.stderr])


def enumerator_cases(tap, folder):
    """Enumerators of a type file are checked, and those of several files agree."""
    base = {"ferry": 1, "prefix": "e", "header": "e.h", "include": ["e_types.h"], "kind": "struct", "fields": [{"name": "x", "type": "int"}]}
    kernels = {"ferry": 1, "prefix": "e", "header": "k.h", "types": ["one.json", "other.json"], "kernels": [
        {"name": "k", "parameters": ["update int x"], "each": "x[i] = GAS;"}]}
    (folder / "k.json").write_text(json.dumps(kernels))
    for name, one, other, words in (
            ("one value", {"GAS": 3}, {"GAS": 3}, ""), ("two values", {"GAS": 3}, {"GAS": 4}, "types: other.json has the enumerator 'GAS' with another value"),
            ("a reserved word", {"int": 3}, {}, "enumerators.int: 'int' is a reserved word"), ("a fraction", {"GAS": 0.5}, {}, "enumerators.GAS: is 0.5"),
            ("a great value", {"GAS": 2**31}, {}, "a whole number from"), ("a list", ["GAS"], {}, "enumerators: is [\"GAS\"]; expected an object"),
            ("none", {}, {}, "uses 'GAS'")):
        for file, found in (("one", one), ("other", other)):
            (folder / f"{file}.json").write_text(json.dumps({**base, "name": file, "c_type": f"struct {file}", "enumerators": found}))
        status, message = checked(folder / "k.json")
        tap.case(f"enumerators: {name}", [] if (words in message and status == 1 if words else status == 0) else [message])
    (folder / "one.json").write_text(json.dumps({**base, "name": "one", "c_type": "struct one", "enumerators": {"GAS": 3}}))
    (folder / "other.json").write_text(json.dumps({**base, "name": "other", "c_type": "struct other"}))
    (folder / "e_types.h").write_text("#ifndef E_TYPES_H\n#define E_TYPES_H\nenum phase { SOLID = 2, GAS };\nstruct one {\n    int x;\n};\nstruct other {\n"
                                      "    int x;\n};\n#endif\n")
    problems = builtin_headers(folder) + generate("header", [folder / "one.json"], f"{folder}/e.h") + generate("kernels", [folder / "k.json"], f"{folder}/k.h")
    (folder / "e.c").write_text('#include "k.h"\ntypedef int not_empty;\n')
    for compiler in c_compilers():
        problems += compile_problems(compiler, ["-std=c11"], [folder, ROOT / "include"], folder / "e.c")
    (folder / "e_types.h").write_text((folder / "e_types.h").read_text().replace("SOLID = 2", "SOLID = 3"))
    for compiler in c_compilers():
        found = compile_problems(compiler, ["-std=c11"], [folder, ROOT / "include"], folder / "e.c")
        problems += [] if any("GAS is not 3" in line for line in found) else [f"{compiler[0]}: another value is not refused: {found}"]
    tap.case("the compiler checks enumerators", problems)


def correct_cases(tap, folder):
    for at, (parameters, each, keys) in enumerate(CORRECT):
        kernel = {"name": "k", "parameters": parameters.split(", "), "each": each, **keys}
        (folder / "correct.json").write_text(json.dumps({"ferry": 1, "prefix": "c", "header": "correct.h", "types": [str(TYPES / "vec3.json")],
                                                         "kernels": [kernel]}))
        status, message = checked(folder / "correct.json")
        tap.case(f"correct text {at} is accepted", [] if status == 0 else [each, message])


def checked(path):
    """Returns the status and the message of `ferry-gen check` for a file."""
    with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(io.StringIO()):
        status = generator.main(["check", str(path)])
    return status, errors.getvalue()


def bad_cases(tap, folder):
    validator = None
    if jsonschema is not None:
        schema = json.loads((GEN / "kernels.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        validator = jsonschema.Draft7Validator(schema)
    for name, path, value, key, words, *beyond in CHANGES:
        data = changed(dict(DATA, types=[str(TYPES / "vec3.json"), str(TYPES / "large.json")]), path, value)
        (folder / "bad.json").write_text(json.dumps(data))
        result = ferry_gen("kernels", "bad.json", "-o", "bad.h", "--depfile", "bad.d", folder=folder)
        problems = [] if result.returncode == 1 and len(result.stderr.splitlines()) == 1 else [f"{result.returncode}: {result.stderr}"]
        problems += [f"no '{word}' in: {result.stderr}" for word in (f"bad.json: {key}: ", words) if word not in result.stderr]
        problems += [f"{end} was written" for end in ("h", "d") if (folder / f"bad.{end}").exists()]
        status, message = checked(folder / "bad.json")
        problems += [] if status == 1 and message.endswith(result.stderr) else [f"check: {status}: {message}"]
        if validator and not beyond and validator.is_valid(data):
            problems.append("kernels.schema.json accepts it")
        tap.case(name, problems)


def good_cases(tap, folder):
    """The schema and the generator accept every file of kernels in the tree and in its documents."""
    found = {path: path for path in subtree(".json") if is_kernels(path.read_text())}
    for document in subtree(".md"):
        for number, text in enumerate(re.findall(r"^```json\n(.*?)^```$", document.read_text(), re.M | re.S)):
            if is_kernels(text):
                found[f"{document}, block {number}"] = folder / f"{document.stem}{number}.json"
                (folder / f"{document.stem}{number}.json").write_text(text)
            elif '"fields"' in text and "name" in json.loads(text):
                # The type is written to a file, because kernels in the same document may use the type.
                (folder / f"{json.loads(text)['name']}.json").write_text(text)
    validator = jsonschema and jsonschema.Draft7Validator(json.loads((GEN / "kernels.schema.json").read_text()))
    tap.case("there are files of kernels", [] if len(found) >= 6 else [f"{list(found)}"])
    for name, path in found.items():
        status, message = checked(path)
        errors = [error.message for error in validator.iter_errors(json.loads(path.read_text()))] if validator else []
        tap.case(f"{str(name).removeprefix(f'{ROOT}/')} is right", errors + ([] if status == 0 else [message]))
    if validator is None:
        tap.skip("kernels.schema.json agrees", "no jsonschema package")


def subtree(end):
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", "subprojects") and not path.name.startswith(".")]
    yield from sorted(path for pattern in (ROOT.glob(f"*{end}"), *(folder.rglob(f"*{end}") for folder in folders)) for path in pattern)


def is_kernels(text):
    data = json.loads(text) if '"kernels"' in text else None
    return isinstance(data, dict) and "kernels" in data and "ferry" in data


def made(folder):
    """Generates all headers of the kernels. Returns the problems."""
    problems = builtin_headers(folder) + generate("kernels", [SEVERAL], f"{folder}/mylib/several_kernels.h", "--depfile", f"{folder}/several.d")
    for name in ("vec3", "large"):
        problems += generate("header", [TYPES / f"{name}.json"], f"{folder}/mylib/{name}_buffer.h")
    return problems


def depfile_case(tap, folder):
    text = (folder / "several.d").read_text()
    wanted = [SEVERAL, TYPES / "vec3.json", TYPES / "large.json", ROOT / "templates" / "kernels.h.j2", ROOT / "gen" / "ferry_kernels.py", ROOT / "gen" / "ferry_check.py"]
    paths = {os.path.realpath(path) for path in text.replace("\\\n", " ").split()}
    tap.case("the depfile names what was read", [f"no {path}" for path in wanted if str(path) not in paths])


def compile_cases(tap, folder, folders):
    (folder / "alone.c").write_text('#include "mylib/several_kernels.h"\n#include "mylib/several_kernels.h"\ntypedef int not_empty;\n')
    for compiler in c_compilers():
        for options in (["-std=c99"], ["-std=c11", "-O2", "-Wredundant-decls", "-Wnested-externs"]):
            tap.case(f"compiles with {compiler[0]} {' '.join(options)}",
                     compile_problems(compiler, [*options, *C_WARNINGS], folders, folder / "alone.c"))
    for compiler in cxx_compilers():
        tap.case(f"compiles with {compiler[0]}", compile_problems(
            compiler, ["-std=c++11", "-x", "c++", *WARNINGS], folders, folder / "alone.c"))


# -- what the host functions compute --

RUNS = [one["name"] for one in DATA["kernels"] if one["name"] != "shift"]


def shared(folder, folders, compiler, options, name):
    """Builds a library that exports a function for each host function."""
    text = '#include "mylib/several_kernels.h"\n'
    text += "".join(f"void run_{one}(void **values);\nvoid run_{one}(void **values)\n{{\n    mylib_{one}_run(values);\n}}\n" for one in RUNS)
    (folder / "runs.c").write_text(text)
    command = [*compiler, *options, "-shared", "-fPIC", *(f"-I{one}" for one in folders), str(folder / "runs.c"), "-o", str(folder / name), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return ctypes.CDLL(str(folder / name), os.RTLD_LAZY)


def call(library, name, *arguments):
    """Calls a host function. The arguments are NumPy arrays and scalars, in the order of the entry's parameters."""
    kept = []
    for argument in arguments:
        if isinstance(argument, numpy.ndarray):
            kept.append(ctypes.c_void_p(argument.ctypes.data))
        else:
            kept.append(argument if isinstance(argument, ctypes._SimpleCData) else ctypes.c_size_t(argument))
    values = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(one) for one in kept))
    getattr(library, f"run_{name}")(values)


def ulps(found, exact):
    """Returns the greatest error, in units in the last place of the exact value."""
    step = numpy.spacing(numpy.abs(exact.astype(found.dtype)))
    return float(numpy.max(numpy.abs(found.astype(exact.dtype) - exact) / step))


def tree_of_16(values):
    """Adds in the documented order, in Python."""
    sums = [values.dtype.type(0)] * 16
    for i, value in enumerate(values):
        at = i % 16
        sums[at] = sums[at] + value
    half = 8
    while half:
        for k in range(half):
            sums[k] = sums[k] + sums[k + half]
        half //= 2
    return sums[0]


def blurred(now, weight, first, count):
    rows, columns = now.shape
    def near(row_step, column_step):
        at = numpy.clip(numpy.arange(first, first + count) + row_step, 0, rows - 1)
        return now[at][:, numpy.clip(numpy.arange(columns) + column_step, 0, columns - 1)]
    return weight * near(0, 0) + (near(-2, 0) + near(2, 0)) + (near(0, -2) + near(0, 2)) + near(-1, 1)


def value_cases(tap, library, how):
    random = numpy.random.default_rng(7)
    same = lambda one, other: [] if one.tobytes() == other.tobytes() else [f"{one[:4]} is not {other[:4]}"]
    problems = []
    for n in (0, 1, 15, 16, 17, 1000, 100003):
        x, y = random.standard_normal(n) * 10.0 ** random.integers(-30, 30, n), random.standard_normal(n)
        z = numpy.empty(n)
        call(library, "linear_sum", ctypes.c_double(1 / 3), x, ctypes.c_double(-0.7), y, z, n)
        problems += same(z, 1 / 3 * x + -0.7 * y)
        z = x.copy()
        call(library, "linear_sum", ctypes.c_double(1 / 3), z, ctypes.c_double(-0.7), z, z, n)
        problems += same(z, 1 / 3 * x + -0.7 * x)
        f, g = x.astype("f4"), y.astype("f4")
        h = numpy.empty(n, "f4")
        with numpy.errstate(all="ignore"):
            call(library, "roots", f, g, h, n)
            problems += same(h, numpy.sqrt(f * f + g * g) / (f - numpy.float32(2) * g))
        k = random.integers(-1000, 1000, n, dtype="i4")
        scaled = k.copy()
        call(library, "scale", scaled, ctypes.c_int(3), n)
        problems += same(scaled, k * 3)
    tap.case(f"{how}: maps give NumPy's bits", problems)

    x = random.uniform(0.01, 30, 20000).astype("f4")
    y, z = numpy.empty_like(x), numpy.empty(x.size)
    call(library, "functions", x, y, z, x.size)
    wide = x.astype(numpy.longdouble)
    first, second = ulps(y, wide ** numpy.longdouble(1.5) + numpy.exp(-wide)), ulps(z, numpy.sqrt(wide) + numpy.sin(wide) * numpy.maximum(wide, 1))
    # Each function may be wrong by 2 units in the last place, and the addition rounds once more. The second result
    # cancels near its roots, so the test checks the median of its absolute error instead.
    tap.case(f"{how}: functions are exact enough", [] if first <= 3 and numpy.median(numpy.abs(z - numpy.asarray(
        numpy.sqrt(wide) + numpy.sin(wide) * numpy.maximum(wide, 1), "f8"))) < 1e-14 else [f"{first} and {second} units"])

    problems = []
    for n in (0, 1, 15, 16, 17, 255, 20001):
        x, y = random.standard_normal(n) * 10.0 ** random.integers(-8, 8, n), random.standard_normal(n)
        partial = numpy.full(1, 9.0)
        call(library, "dot", x, y, partial, n)
        problems += same(partial, numpy.array([tree_of_16(x * y)]))
        bound = n * 2.0 ** -53 * math.fsum(abs(x * y)) if n else 0
        problems += [] if abs(partial[0] - math.fsum(x * y)) <= bound else [f"{n}: past the bound"]
        f = x.astype("f4")
        total = numpy.empty(1, "f4")
        call(library, "total", f, total, n)
        problems += same(total, numpy.array([tree_of_16(f)], "f4"))
    tap.case(f"{how}: sums are those of the fixed tree, and within the bound", problems)

    k = random.integers(-30000, 30000, 1001, dtype="i2")
    least, above = numpy.empty(1, "i2"), numpy.empty(1, "u8")
    call(library, "least", k, least, k.size)
    call(library, "count_above", k.astype("f4"), ctypes.c_float(12), above, k.size)
    problems = [] if least[0] == k.min() and above[0] == (k > 12).sum() else [f"{least} {above}"]
    call(library, "least", k, least, 0)
    problems += [] if least[0] == 32767 else [f"of nothing: {least}"]
    point = numpy.dtype({"names": ["x"], "formats": ["f4"], "offsets": [0], "itemsize": 32})
    for values, expected in (([1, -5, 3], 25), ([1, math.nan, 7], math.nan), ([], -math.inf)):
        points, longest = numpy.zeros(len(values), point), numpy.empty(1, "f4")
        points["x"] = values
        call(library, "longest", points, longest, len(values))
        problems += [] if numpy.array_equal(longest, [expected], equal_nan=True) else [f"{values}: {longest}"]
    tap.case(f"{how}: least, greatest and counted", problems)

    problems = []
    for rows, columns, first, count in ((1, 1, 0, 1), (2, 3, 0, 2), (5, 4, 1, 3), (7, 5, 0, 7), (40, 33, 30, 10), (64, 100, 1, 62)):
        now = random.standard_normal((rows, columns)).astype("f4")
        begin, end = max(first - 2, 0), min(first + count + 2, rows)
        next_ = numpy.zeros((count, columns), "f4")
        call(library, "blur", numpy.ascontiguousarray(now[begin:end]), ctypes.c_float(0.3), next_, rows, columns, first, count, 0, columns)
        problems += same(next_.ravel(), blurred(now, numpy.float32(0.3), first, count).ravel())
    tap.case(f"{how}: a stencil gives NumPy's bits, at every edge", problems)


# Ranges of the arguments of functions. A function that is not listed has the range -30 to 30.
RANGES = {"exp": (-80, 80), "exp2": (-120, 120), "expm1": (-80, 80), "log": (1e-9, 1e9), "log2": (1e-9, 1e9), "log10": (1e-9, 1e9),
          "log1p": (-0.99, 1e6), "asin": (-1, 1), "acos": (-1, 1), "sinh": (-80, 80), "cosh": (-80, 80), "atanh": (-0.999, 0.999),
          "sqrt": (0, 1e9), "pow": (0.01, 15)}
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atanh": "arctanh", "atan2": "arctan2", "pow": "power", "round": None, "fdim": None,
               "fma": None}


def function_cases(tap, folder, folders, compiler):
    """The error of every supported function, in float and double, is at most 2 units in the last place."""
    from ferry_names import ARITY
    kernels = []
    for name, arity in ARITY.items():
        for end, c_type in (("f", "float"), ("", "double")):
            arguments = ", ".join(f"{letter}[i]" for letter in "xyw"[:arity])
            kernels.append({"name": f"k_{name}{end}", "parameters": [f"read {c_type} {letter}" for letter in "xyw"[:arity]] + [f"overwrite {c_type} z"],
                            "each": f"z[i] = {name}{end}({arguments});"})
    (folder / "functions.json").write_text(json.dumps({"ferry": 1, "prefix": "functions", "header": "functions.h", "kernels": kernels}))
    problems = generate("kernels", [folder / "functions.json"], f"{folder}/functions.h")
    text = '#include "functions.h"\n' + "".join(
        f"void run_{one['name']}(void **values);\nvoid run_{one['name']}(void **values)\n{{\n    functions_{one['name']}_run(values);\n}}\n" for one in kernels)
    (folder / "functions.c").write_text(text)
    command = [*compiler, "-O2", "-shared", "-fPIC", *(f"-I{one}" for one in folders), str(folder / "functions.c"), "-o", str(folder / "functions.so"), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True)
    problems += result.stderr.splitlines()
    random = numpy.random.default_rng(11)
    library = None if problems else ctypes.CDLL(str(folder / "functions.so"), os.RTLD_LAZY)
    for name, arity in ARITY.items() if library else ():
        spelled = NUMPY_NAMES.get(name, name)
        for end, dtype in (("f", "f4"), ("", "f8")):
            given = [random.uniform(*RANGES.get(name, (-30, 30)), 20000).astype(dtype) for _ in range(arity)]
            z = numpy.empty(20000, dtype)
            call(library, f"k_{name}{end}", *given, z, z.size)
            if spelled and hasattr(numpy, spelled):
                error = ulps(z, getattr(numpy, spelled)(*(one.astype(numpy.longdouble) for one in given)))
                problems += [] if error <= 2 else [f"{name}{end}: {error} units"]
            else:
                problems += [] if numpy.isfinite(z).all() else [f"{name}{end}: not finite"]
    tap.case(f"{compiler[0]}: functions are within 2 units in the last place", problems)


PACKED = re.compile(r"\bv?(mul|add|div|sqrt)p([sd])\b")
FUSED = re.compile(r"\bvfn?m(add|sub)")


def assembly_cases(tap, folder, folders, compiler):
    """The compiler vectorizes the expected loops, without options that a program would have to add."""
    result = subprocess.run([*compiler, "-O2", "-march=haswell", "-S", *(f"-I{one}" for one in folders), str(folder / "runs.c"), "-o", "-"],
                            capture_output=True, text=True)
    wanted = {"linear_sum": {"mulpd", "addpd"}, "dot": {"mulpd", "addpd"}, "total": {"addps"}, "blur": {"mulps", "addps"}, "step": {"mulpd", "addpd"}, "roots": {"sqrtps", "divps"}}
    problems = []
    for name, instructions in wanted.items():
        body = "".join(re.findall(rf"^(?:mylib_|run_){name}(?:_run)?(?:\.\w+)*:[^\n]*\n(.*?)^\s*\.size", result.stdout, re.M | re.S))
        found = {f"{one}p{letter}" for one, letter in PACKED.findall(body)}
        problems += [f"{name}: no {one}" for one in instructions - found]
    problems += [f"fused: {one}" for one in FUSED.findall(result.stdout)]
    tap.case(f"{compiler[0]} -O2 vectorizes host functions, and fuses nothing", problems)


# The loops over elements that must be vector code: those of maps, and of the cells of a stencil whose neighbours exist.
VECTOR_LOOP = re.compile(r"for \((i = first_|column = first_column_|column = inner_begin_);")
REPORTS = {"gcc": ["-fopt-info-vec-optimized"], "clang": ["-Rpass=loop-vectorize"]}


def report_cases(tap, folder, folders, compiler):
    """The compiler reports at -O2 that it vectorizes these loops. A condition in one of them would prevent it."""
    options = next((options for name, options in REPORTS.items() if name in pathlib.Path(compiler[-1]).name), None)
    if options is None:
        tap.skip(f"{compiler[0]}: report", "no gcc or clang")
        return
    result = subprocess.run([*compiler, "-O2", *options, "-c", *(f"-I{one}" for one in folders), str(folder / "runs.c"), "-o", os.devnull],
                            capture_output=True, text=True)
    vectorized = {int(line) for line in re.findall(r"several_kernels\.h:(\d+):\d+: .*?vectorized", result.stderr)}
    lines = (folder / "mylib" / "several_kernels.h").read_text().splitlines()
    problems = []
    for name in ("linear_sum", "scale", "blur", "heat", "solid", "softened"):
        begin = lines.index(f"mylib_{name}_range_(void **values_, size_t first_, size_t end_)")
        end = lines.index("}", begin)
        # Compilers name the line of the loop, or that of a statement in it.
        loops = [at for at in range(begin, end) if VECTOR_LOOP.search(lines[at]) and "?" not in lines[at]]
        problems += [] if len(loops) == 1 else [f"{name}: {len(loops)} loops"]
        problems += [f"{name}: the loop of line {at + 1} is not vector code" for at in loops if not vectorized & set(range(at + 1, end + 1))]
    tap.case(f"{compiler[0]} -O2 reports that it vectorizes maps and stencils", problems)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        bad_cases(tap, folder)
        correct_cases(tap, folder)
        typedef_cases(tap, folder)
        enumerator_cases(tap, folder)
        good_cases(tap, folder)
        tap.case("the headers are generated", made(folder))
        depfile_case(tap, folder)
        folders = [folder, HERE / "include", ROOT / "include"]
        compile_cases(tap, folder, folders)
        for number, compiler in enumerate(c_compilers()):
            if numpy is None:
                tap.skip(f"{compiler[0]}: values", "no NumPy")
                continue
            for level in (["-O0"], ["-O2", "-march=native"]):
                library = shared(folder, folders, compiler, level, f"runs{number}{level[0]}.so")
                value_cases(tap, library, f"{compiler[0]} {' '.join(level)}")
            function_cases(tap, folder, folders, compiler)
            if platform.machine() == "x86_64":
                assembly_cases(tap, folder, folders, compiler)
                report_cases(tap, folder, folders, compiler)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
