#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`./dev who-tests` names the tests that run a line, in a small build folder that it makes.

usage: test_who_tests.py COMPILER...
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
from tap import Tap  # noqa: E402

LIBRARY = """int one(int x)
{
    return x + 1;
}

int two(int x)
{
    int y = x + 2;
    return y;
}
"""
TEST = """/* SPDX-License-Identifier: MIT */
/* {head}. More of it
 * follows. */
int one(int x);
int two(int x);
int main(void)
{{
    return {body};
}}
"""
BODIES = {"first": "one(-1)", "second": "one(-1) + two(-2)", "third": "two(-2)"}


def build(folder, compiler):
    (folder / "library.c").write_text(LIBRARY, encoding="utf-8")
    (folder / "meson-info").mkdir()
    targets, tests = [], []
    for name, body in BODIES.items():
        source, program = folder / f"test_{name}.c", folder / name
        source.write_text(TEST.format(head=f"The {name} sentence", body=body), encoding="utf-8")
        subprocess.run([*compiler, "--coverage", "-O0", str(source), str(folder / "library.c"), "-o", str(program)], cwd=folder, check=True)
        targets.append({"filename": [str(program)], "target_sources": [{"sources": [str(source)]}]})
        tests += [{"name": f"{name} on {device}", "suite": ["ferry:unit"], "cmd": [str(program)], "env": {}} for device in ("host", "emulated")]
    # The devices of one program have counters of their own, and another suite is not asked.
    tests.append({"name": "elsewhere", "suite": ["ferry:docs"], "cmd": [str(folder / "third")], "env": {}})
    for name, what in (("targets", targets), ("tests", tests)):
        (folder / f"meson-info/intro-{name}.json").write_text(json.dumps(what), encoding="utf-8")


def ask(folder, line):
    return subprocess.run([sys.executable, str(HERE / "who_tests.py"), str(folder), f"{folder / 'library.c'}:{line}"], capture_output=True,
                          text=True, check=False)


def main():
    tap, compiler = Tap(), [word for word in sys.argv[1:] if word != "ccache"]
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    if "clang" in version or not shutil.which("gcov"):
        tap.skip("who-tests", "no gcc with gcov")
        return tap.end()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(folder, compiler)
        done = ask(folder, 8)
        lines = done.stdout.splitlines()
        tap.case("the tests of a line", [] if done.returncode == 0 and len(lines) == 4 and lines[0].endswith("test_second.c: The second sentence.") and
                 lines[1].split() == ["second", "on", "emulated,", "second", "on", "host"] and "third on host" in lines[3] else [done.stdout, done.stderr])
        (folder / "first").touch()
        (folder / "second").unlink()
        done = ask(folder, 3)
        tap.case("a program that is gone, and one that is new", [] if "test_first.c" in done.stdout and "second" not in done.stdout else [done.stdout])
        done = ask(folder, 5)
        tap.case("a line without code", [] if done.returncode == 1 and "No test runs line 5" in done.stdout else [done.stdout])
        done = subprocess.run([sys.executable, str(HERE / "who_tests.py"), str(folder), "nowhere.c:1"], capture_output=True, text=True, check=False)
        tap.case("a file without tests", [] if done.returncode == 1 and "No test runs anything of nowhere.c" in done.stdout else [done.stdout])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
