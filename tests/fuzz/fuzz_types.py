#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""For any type description, the generator writes its output, or prints `file: key: message`, exits with 1 and writes nothing.

usage: fuzz_types.py CORPUS [--seconds S] [--runs N] [--seed N] [--save FOLDER]

Files of the corpus are changed at random, as text and as JSON. An input that breaks the rule is saved and named.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gen"))
import ferry_gen

SENTENCE = re.compile(r"^(ferry-gen: )?[^\n]*?: [^\n]+$")
STRINGS = ["", "a" * 5000, "float", "../../etc/passwd", "x\";\n#error", "\x00", "\ud800", "*/", "{{ t.sym }}", "0x10", "int", "é", "a__b", "struct x"]
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1.5, float("inf"), float("nan"), True]
TOKENS = ["{", "}", "[", "]", ",", ":", "\"", "\\u0000", "null", "1e999", "-", "\n", "\xff", "true"]


def any_value(chance):
    kind = chance.randrange(6)
    if kind == 0:
        return chance.choice(STRINGS)
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind == 2:
        return [any_value(chance) for _ in range(chance.randrange(3))]
    if kind == 3:
        return {chance.choice(STRINGS): any_value(chance) for _ in range(chance.randrange(3))}
    return None if kind == 4 else chance.choice(STRINGS) * chance.randrange(3)


def places(value, found):
    """Yields (container, key) for each value inside of a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            places(value[key], found)
    return found


def change_json(chance, text):
    value = json.loads(text)
    for _ in range(chance.randrange(1, 4)):
        container, key = chance.choice(places(value, []) or [(value, "x")])
        how = chance.randrange(4)
        if how == 0 and key in container if isinstance(container, dict) else how == 0:
            del container[key]
        elif how == 1 and isinstance(container, dict):
            container[chance.choice(STRINGS)] = any_value(chance)
        else:
            container[key] = any_value(chance)
    return json.dumps(value).encode("utf-8", "replace")


def change_text(chance, text):
    data = bytearray(text.encode())
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(4)
        if how == 0:
            data[at:at + chance.randrange(20)] = b""
        elif how == 1:
            data[at:at] = chance.choice(TOKENS).encode("latin-1")
        elif how == 2 and at < len(data):
            data[at] = chance.randrange(256)
        else:
            data[at:at] = data[chance.randrange(len(data) + 1):][:chance.randrange(200)]
    return bytes(data)


def run(command, source, out):
    """Returns the exit status and the output, also if the generator raises an exception."""
    said = io.StringIO()
    arguments = [command, str(source)] + ([] if command == "check" else ["-o", str(out)])
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = ferry_gen.main(arguments, ferry_gen.__file__)
    except SystemExit as end:
        status = end.code or 0
    return status, said.getvalue()


def check(command, source, out):
    """Returns None, or a description of the fault."""
    try:
        status, said = run(command, source, out)
    except BaseException as problem:  # a user must never see a traceback
        return f"raises {type(problem).__name__}: {problem}"
    written = out.exists()
    if status in (0, None):
        return None if written or command == "check" else "success without output"
    if status != 1:
        return f"exit status {status}"
    if written:
        return "output in spite of a failure"
    if source.name not in said or not SENTENCE.match(said.strip()):
        return f"says {said!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--runs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path, default=pathlib.Path("."))
    options = parser.parse_args()
    seeds = [path.read_text(encoding="utf-8") for path in sorted(options.corpus.glob("*.json"))]
    chance = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    runs = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "fuzzed.json", pathlib.Path(folder) / "out"
        while runs < options.runs and time.monotonic() < end:
            text = chance.choice(seeds)
            data = change_text(chance, text) if chance.random() < 0.4 else change_json(chance, text)
            source.write_bytes(data)
            wrong = check(chance.choice(["check", "header"]), source, out)
            refused += not out.exists()
            if wrong:
                path = options.save / f"crash-types-{options.seed}-{runs}.json"
                path.write_bytes(data)
                print(f"{path}: {wrong}")
                return 1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(out)
            runs += 1
    print(f"{runs} type descriptions, of which {runs - refused} gave code")
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
