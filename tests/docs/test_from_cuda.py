#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each row of docs/from-cuda.md compiles: the statement of Ferry, and that of CUDA where its headers are. The texts of kernels pass ferry-gen check.

usage: test_from_cuda.py DOCUMENT FERRY-GEN TOOLKIT-INCLUDE-FOLDER(or "") INCLUDE-FOLDER... -- COMPILER...
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402

ROW = re.compile(r"^\| `([^`]+)` \| (?:`([^`]+)` )?\| (.*)\|$", re.M)
KERNELS = {"ferry": 1, "prefix": "my", "header": "my_kernels.h", "kernels": [
    {"name": "scale", "parameters": ["float factor", "update float x"], "each": "x[i] *= factor;"}]}
# The kernel of a text, by a word of the text.
TEXTS = {
    "index": {"parameters": ["read whole float x", "read int index", "overwrite float y"]},
    "(1, 0, 0)": {"parameters": ["read float x", "overwrite float y"], "dimensions": ["planes", "rows", "columns"], "stencil": 1},
    "row": {"parameters": ["update float y"], "dimensions": ["planes", "rows", "columns"]},
    "bins": {"parameters": ["update whole int bins", "read int x"], "each": "int k = x[i];"},
    "": {"parameters": ["float a", "read float x", "overwrite float y"]}}
SQUARE = {"name": "square", "returns": "float", "parameters": ["float value"], "body": "return value * value;"}
FRAME = """#include <ferry/float.h>
#include "my_kernels.h"
struct given {
    ferry_context *context; ferry_float_buffer x, y; float *host, *pointer; ferry_pool *pool; ferry_stream *place_stream;
    ferry_block *block; ferry_event *event; ferry_kernel *kernel; const ferry_argument *arguments; my_kernels kernels;
    ferry_scope scope; ferry_memory_info memory; ferry_place_info place; size_t count, bytes, row, columns, rows;
    uint32_t blocks, shared_bytes; bool done; double seconds; ferry_share share;
};
void row(struct given *given);
void row(struct given *given)
{
    struct { float table[4]; } parameters = {{0}};
    (void)given, (void)parameters;
    (void)%s
}
"""
CUDA = """#include <cuda_runtime_api.h>
#include <stddef.h>
struct given {
    float *device, *other, *host; size_t bytes, pitch, width, height, free_bytes, total_bytes; cudaStream_t stream;
    cudaEvent_t recorded; float milliseconds; int number; struct cudaDeviceProp properties; const void *function;
    void **parameters; struct dim3 grid, block; struct cudaResourceDesc resource; struct cudaTextureDesc description;
    cudaTextureObject_t texture; float table[4]; cudaIpcMemHandle_t memory_handle; cudaIpcEventHandle_t event_handle;
};
void row(struct given *given);
void row(struct given *given)
{
    (void)given;
    (void)%s
}
"""
WORD = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)(?!\w|\()")


def with_members(statement, frame):
    """The statement, with each name that the frame's struct has as its member."""
    members = set(re.findall(r"\*?(\w+)(?=[,;\[])", frame[frame.index("struct given {"):frame.index("};")]))
    return WORD.sub(lambda found: "given->" + found.group(1) if found.group(1) in members else found.group(1), statement)


def compile_statement(statement, frame, folder, includes, compiler):
    source = pathlib.Path(folder, "row.c")
    source.write_text(frame % with_members(statement, frame), encoding="utf-8")
    command = [*compiler, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *includes, f"-I{folder}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[:20] if done.returncode else []


def check_text(text, folder, generator):
    """Passes a text of a kernel to ferry-gen check."""
    kernel = dict(next(kernel for word, kernel in TEXTS.items() if word in text))
    kernel = {"name": "text", **kernel, "each": [*filter(None, [kernel.get("each")]), text]}
    path = pathlib.Path(folder, "text.json")
    path.write_text(json.dumps({**KERNELS, "functions": [SQUARE], "kernels": [kernel]}), encoding="utf-8")
    done = subprocess.run([generator, "check", path], capture_output=True, text=True, check=False)
    return done.stderr.splitlines() if done.returncode else []


def main():
    end = sys.argv.index("--")
    document, generator, toolkit, *folders = sys.argv[1:end]
    compiler = sys.argv[end + 1:]
    before, _, rest = pathlib.Path(document).read_text(encoding="utf-8").partition("## Inside a kernel\n")
    inside, after = rest[:rest.index("\n## ")], rest[rest.index("\n## "):]
    rows, texts = ROW.findall(before + after), ROW.findall(inside)
    tap = Tap()
    tap.case("the tables have rows", [] if len(rows) > 30 and len(texts) > 8 else [f"only {len(rows)} and {len(texts)}"])
    with tempfile.TemporaryDirectory() as folder:
        kernels = pathlib.Path(folder, "my.json")
        kernels.write_text(json.dumps(KERNELS), encoding="utf-8")
        subprocess.run([generator, "kernels", kernels, "-o", os.path.join(folder, "my_kernels.h")], check=True)
        for cuda, text, remark in texts:
            tap.case(text or f"nothing for {cuda}", check_text(text, folder, generator) if text else
                     [] if remark.startswith("nothing") else ["the remark does not say so"])
        for cuda, ferry, remark in rows:
            if ferry:
                tap.case(ferry, compile_statement(ferry, FRAME, folder, [f"-I{path}" for path in folders], compiler))
            else:
                tap.case(f"nothing for {cuda}", [] if remark.startswith("nothing") else ["the remark does not say so"])
            if "<<<" in cuda or "..." in cuda:  # C++, or another call in each release
                continue
            if not os.path.exists(os.path.join(toolkit, "cuda_runtime_api.h")):
                tap.skip(cuda, "the headers of the CUDA runtime are not installed")
            else:
                tap.case(cuda, compile_statement(cuda, CUDA, folder, ["-isystem", toolkit], compiler))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
