#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual page and the completions of a program have every command and every option of its --help.

usage: test_manual.py NAME PROGRAM MANUAL-PAGE BASH-COMPLETION ZSH-COMPLETION
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

# Completes a command line as bash does. The arguments are the words of the line. The output is the list of offered
# completions.
BASH = r"""
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
"_${1//-/_}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def help_of(program, *command):
    done = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def commands_of(text):
    """Lines that begin with the name of a command; argparse indents them by four, ferry by two."""
    part = re.split(r"\n[cC]ommands[^\n]*:\n|\n +COMMAND\n", text)[1]
    return re.findall(r"^ {2,4}([a-z][\w-]*)(?: {2,}\S|$)", part.split("\n\n")[0], re.M)


def options_of(text):
    """Options at the beginning of the lines that describe them."""
    lines = re.findall(r"^  (-\S[^\n]*?)(?:  |$)", text, re.M)
    return [re.match(r"--?[\w-]+", part)[0] for line in lines for part in line.split(", ")]


def sections(page):
    """The plain text of the page's part about each command; "" is what precedes them."""
    text = re.sub(r"\\f[BIR]|\\&", "", page.replace("\\-", "-").replace("\\e", "\\"))
    first, *others = re.split(r"^\.SS \S+ (\S+)$", text, flags=re.M)
    return {"": first, **dict(zip(others[::2], others[1::2]))}


def named_options(text):
    lines = re.findall(r"^\.TP\n(-.*)$", text, re.M)
    return [part.split()[0] for line in lines for part in line.split(", ")]


def complete(path, *words):
    done = subprocess.run(["bash", "-c", BASH, "bash", path, *words], capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def check_tools(tap, page, zsh):
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", page], capture_output=True, text=True, check=False)
        tap.case("groff takes the page", done.stderr.splitlines())
    else:
        tap.skip("groff takes the page", "no groff")
    if shutil.which("zsh"):
        done = subprocess.run(["zsh", "-n", zsh], capture_output=True, text=True, check=False)
        tap.case("zsh takes the completion", done.stderr.splitlines())
    else:
        tap.skip("zsh takes the completion", "no zsh")


def main():
    name = sys.argv[1]
    program, page, bash, zsh = (str(pathlib.Path(path).resolve()) for path in sys.argv[2:])
    tap = Tap()
    commands = commands_of(help_of(program))
    helps = {command: options_of(help_of(program, *([command] if command else []))) for command in ["", *commands]}
    described = sections(pathlib.Path(page).read_text(encoding="utf-8"))
    zsh_text = pathlib.Path(zsh).read_text(encoding="utf-8")
    tap.case("commands of the page", [] if list(described) == ["", *commands] and len(commands) >= 4 else [f"{list(described)} is not {commands}"])
    tap.case("commands of bash", [] if set(commands) <= set(complete(bash, name, "")) else [str(complete(bash, name, ""))])
    for command, options in helps.items():
        shown = command or "the program itself"
        wanted = sorted(options) if program.endswith("ferry-gen") or command else sorted({"-h", "--help", "--version"})
        there = sorted(named_options(described.get(command, "")))
        tap.case(f"options of {shown} in the page", [] if wanted and there == wanted else [f"{there} is not {wanted}"])
        if not command:
            continue
        offered = sorted(complete(bash, name, command, "-"))
        tap.case(f"options of {command} in bash", [] if offered == wanted else [f"{offered} is not {wanted}"])
        part = zsh_text.split(f"    {command})\n")[1].split(";;")[0]
        tap.case(f"options of {command} in zsh", [option for option in wanted if not re.search(rf"[{{, ]{option}[}},'\[]", part)])
    tap.case("bash completes files", [] if "test_manual.py" in complete(bash, name, commands[0], "test_m") else ["no file"])
    if name == "ferry":
        tap.case("bash completes devices", [] if complete(bash, name, "info", "-d", "e") == ["emulated"] else [str(complete(bash, name, "info", "-d", "e"))])
        tap.case("bash completes no number", [] if complete(bash, name, "trace", "-n", "") == [] else ["something"])
    check_tools(tap, page, zsh)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
