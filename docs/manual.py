#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes manual pages and shell completions from the help texts of the programs.

usage: manual.py man|bash|zsh ferry|ferry-gen VERSION OUTPUT SOURCE...

For ferry the SOURCEs are its files: the help of a command is `usage_text` in C or `USAGE` in Python, and the list of commands is in
main.c. For ferry-gen the SOURCE is ferry_gen.py. The output depends on nothing else.
"""

import ast
import dataclasses
import pathlib
import re
import sys

# Words that complete an argument which its help names so; other arguments are completed as files.
WORDS = {"DEVICE": ["host", "emulated", "cuda", "hip", "opencl"], "DEVICES": ["host", "emulated", "cuda", "hip", "opencl"]}
NO_COMPLETION = {"BYTES", "N", "PREFIX", "NAME", "ARG"}
PURPOSES = {"ferry": "inspect devices, measure transfers, read allocation logs and traces",
            "ferry-gen": "write typed headers and Fortran modules from JSON"}
# What the help of the programs leaves to the documents.
ENVIRONMENT = {
    "ferry": {"FERRY_DEVICE": "the devices that are used where -d is not given",
              "FERRY_CUDA_LIBRARY": "the CUDA driver to load instead of libcuda.so.1",
              "FERRY_OPENCL_LIBRARY": "the OpenCL library to load instead of libOpenCL.so.1",
              "FERRY_HIP_LIBRARY": "the library of HIP to load instead of libamdhip64.so",
              "FERRY_CACHE_DIR": "the folder of compiled kernels; empty: none is kept",
              "FERRY_TRACE": "any program that uses Ferry writes a trace into this file",
              "FERRY_ALLOCATION_LOG": "any program that uses Ferry writes its allocations into this file"},
    "ferry-gen": {"FERRY_TEMPLATES": "the folder of the templates", "CC": "the compiler that ferry-gen new asks"}}


@dataclasses.dataclass
class Option:
    names: list       # such as ["-d", "--device"]
    argument: str     # "" when it takes none
    help: str
    choices: list = dataclasses.field(default_factory=list)

    def words(self):
        return self.choices or WORDS.get(self.argument, [])


@dataclasses.dataclass
class Command:
    name: str         # "" for the program itself
    purpose: str
    usage: str
    paragraphs: list
    options: list
    ending: list      # paragraphs after the options


# -- ferry: its sources --------------------------------------------------------------------------------

def c_text(source, variable):
    """The value of a string constant: adjacent literals."""
    found = re.search(rf"{variable}\[\] =\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+);", source)
    return found and "".join(ast.literal_eval(literal) for literal in re.findall(r"\"(?:[^\"\\]|\\.)*\"", found[1]))


def python_text(source, variable):
    found = re.search(rf'^{variable} = """\\\n(.*?)"""', source, re.M | re.S)
    return found and found[1]


def read_options(text):
    """Lines such as "  -d, --device DEVICES  help", and indented lines that continue the help."""
    options = []
    for line in text.splitlines():
        found = re.match(r"  (-\w), (--[\w-]+)(?: (\S+))?\s{2,}(\S.*)", line)
        if found:
            options.append(Option([found[1], found[2]], found[3] or "", found[4]))
            if options[-1].help == "this text":
                options[-1].help = "print the options of the command"
        elif options and re.match(r"\s{10,}\S", line):
            options[-1].help += " " + line.strip()
    return options


def read_command(name, purpose, text):
    usage, *blocks = text.rstrip("\n").split("\n\n")
    place = next(index for index, block in enumerate(blocks) if re.match(r"  -", block))
    return Command(name, purpose, usage.removeprefix("usage: "), [" ".join(block.split("\n")) for block in blocks[:place]],
                   read_options(blocks[place]), [" ".join(block.split("\n")) for block in blocks[place + 1:]])


def read_ferry(sources):
    texts = {pathlib.Path(path).name: pathlib.Path(path).read_text(encoding="utf-8") for path in sources}
    helps = {}
    for name, text in texts.items():
        usage = python_text(text, "USAGE") if name.endswith(".py") else c_text(text, "usage_text")
        if usage:
            helps[re.match(r"usage: ferry (\w+)", usage)[1]] = usage
    listed = re.findall(r"\{\"(\w+)\", command_\w+,\s+\"((?:[^\"\\]|\\.)*)\"\}", texts["main.c"])
    assert listed and {name for name, _ in listed} == set(helps), f"main.c lists {listed}, there is help for {sorted(helps)}"
    own = [Option(["-h", "--help"], "", "list the commands"), Option(["--version"], "", "print the version")]
    return [Command("", "", "ferry COMMAND [OPTION...]\n       ferry --version", [], own, []),
            *(read_command(name, purpose, helps[name]) for name, purpose in listed)]


# -- ferry-gen: its parser ---------------------------------------------------------------------------------

def parser_options(parser):
    import argparse
    options, arguments = [], []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        text = (action.help or "").replace("%(default)s", str(action.default))
        if action.option_strings:
            argument = "" if action.nargs == 0 else action.metavar or action.dest.upper()
            options.append(Option(list(action.option_strings), argument, text, list(action.choices or [])))
        else:
            arguments.append(action.metavar + (" ..." if action.nargs == "+" else ""))
    return options, arguments


def read_generator(source):
    import argparse
    sys.path.insert(0, str(pathlib.Path(source).parent))
    sys.dont_write_bytecode = True
    import ferry_gen
    parser = ferry_gen.make_parser(None)
    options, _ = parser_options(parser)
    commands = [Command("", "", "ferry-gen [OPTION...] COMMAND [OPTION...] FILE...", [], options, [])]
    action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for choice in action._choices_actions:
        options, arguments = parser_options(action.choices[choice.dest])
        needed = "".join(f"{option.names[0]} {option.argument} " for option in options if option.names == ["-o"] and "default" not in option.help)
        commands.append(Command(choice.dest, choice.help, f"ferry-gen {choice.dest} [OPTION...] {needed}{' '.join(arguments)}", [], options, []))
    return commands


# -- manual pages --------------------------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def option_lines(option):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
    argument = option.argument if not option.choices or option.argument.isupper() else "|".join(option.choices)
    yield ".TP"
    yield names + (f" \\fI{roff(argument)}\\fR" if argument else "")
    yield roff(option.help[:1].upper() + option.help[1:].rstrip(".") + ("." if option.help else ""))
    if option.choices:
        yield roff("One of " + ", ".join(option.choices) + ".")


def write_man(program, version, commands):
    own, *others = commands
    yield '.\\" SPDX-License-Identifier: MIT'
    yield f'.TH {roff(program.upper())} 1 "" "Ferry {version}" "User Commands"'
    yield ".SH NAME"
    yield roff(f"{program} - {PURPOSES[program]}")
    yield ".SH SYNOPSIS"
    yield ".nf"
    for line in own.usage.split("\n"):
        yield roff(line.strip())
    yield ".fi"
    yield ".SH OPTIONS"
    for option in own.options:
        yield from option_lines(option)
    yield ".SH COMMANDS"
    for command in others:
        yield f".SS {program} {command.name}"
        yield roff(command.purpose[:1].upper() + command.purpose[1:] + ".")
        yield ".PP"
        yield ".nf"
        yield roff(command.usage)
        yield ".fi"
        for paragraph in command.paragraphs:
            yield ".PP"
            yield roff(paragraph)
        for option in command.options:
            yield from option_lines(option)
        for paragraph in command.ending:
            yield ".PP"
            yield roff(paragraph)
    yield ".SH ENVIRONMENT"
    for name, text in ENVIRONMENT[program].items():
        yield ".TP"
        yield f"\\fB{name}\\fR"
        yield roff(text[:1].upper() + text[1:] + ".")
    yield ".SH SEE ALSO"
    yield ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in PURPOSES if name != program)


def markdown(program, commands):
    """The same as a part of a Markdown page."""
    yield f"## `{program}`"
    yield ""
    yield PURPOSES[program].capitalize() + "."
    for command in commands:
        yield ""
        if command.name:
            yield f"### `{program} {command.name}`"
            yield ""
            yield command.purpose[:1].upper() + command.purpose[1:] + "."
            yield ""
        yield from ("```text", *(line.strip() for line in command.usage.split("\n")), "```")
        for paragraph in command.paragraphs:
            yield from ("", paragraph.replace("<", "\\<"))
        yield from ("", "| option | meaning |", "|---|---|")
        for option in command.options:
            names = ", ".join(option.names) + (f" {option.argument}" if option.argument else "")
            yield f"| `{names}` | {option.help.replace('|', ' or ')} |"
        for paragraph in command.ending:
            yield from ("", paragraph.replace("<", "\\<"))


# -- completion ------------------------------------------------------------------------------------------

def write_bash(program, _, commands):
    own, *others = commands
    function = "_" + program.replace("-", "_")
    first = [command.name for command in others] + [name for option in own.options for name in option.names]
    yield "# SPDX-License-Identifier: MIT"
    yield f"# Completion of {program} for bash."
    yield f"{function}() {{"
    yield '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options'
    yield "  COMPREPLY=()"
    yield "  if [ \"$COMP_CWORD\" -eq 1 ]; then"
    yield f"    COMPREPLY=($(compgen -W '{' '.join(first)}' -- \"$word\"))"
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]} $before" in'
    for command in others:
        for option in command.options:
            if option.argument:
                patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
                reply = f"-W '{' '.join(option.words())}'" if option.words() else "-f"
                reply = "" if option.argument in NO_COMPLETION else f" COMPREPLY=($(compgen {reply} -- \"$word\"));"
                yield f"    {patterns}){reply} return ;;"
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for command in others:
        yield f"    {command.name}) options='{' '.join(name for option in command.options for name in option.names)}' ;;"
    yield "    *) return ;;"
    yield "  esac"
    yield '  case "$word" in'
    yield "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;"
    yield "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;"
    yield "  esac"
    yield "}"
    yield f"complete -o filenames -F {function} {program}"


def zsh_text(text):
    return text.replace("'", "'\\''").replace("[", "(").replace("]", ")").replace(":", "\\:")


def zsh_options(options):
    for option in options:
        names = "{" + ",".join(option.names) + "}" if len(option.names) > 1 else option.names[0]
        action = f"({' '.join(option.words())})" if option.words() else " " if option.argument in NO_COMPLETION else "_files"
        yield f"{names}'[{zsh_text(option.help)}]" + (f":{zsh_text(option.argument)}:{action}'" if option.argument else "'")


def write_zsh(program, _, commands):
    own, *others = commands
    function = "_" + program.replace("-", "_")
    yield f"#compdef {program}"
    yield "# SPDX-License-Identifier: MIT"
    yield f"{function}() {{"
    yield "  local -a commands"
    yield "  commands=("
    for command in others:
        yield f"    '{command.name}:{zsh_text(command.purpose)}'"
    yield "  )"
    yield "  if (( CURRENT == 2 )); then"
    yield "    _describe command commands"
    yield f"    _arguments {' '.join(zsh_options(own.options))}"
    yield "    return"
    yield "  fi"
    yield "  shift words"
    yield "  (( CURRENT-- ))"
    yield '  case "$words[1]" in'
    for command in others:
        yield f"    {command.name})"
        yield "      _arguments \\"
        for line in zsh_options(command.options):
            yield f"        {line} \\"
        yield "        '*:file:_files' ;;"
    yield "  esac"
    yield "}"
    yield f"{function} \"$@\""


def main():
    what, program, version, output, *sources = sys.argv[1:]
    commands = read_ferry(sources) if program == "ferry" else read_generator(sources[0])
    lines = {"man": write_man, "bash": write_bash, "zsh": write_zsh}[what](program, version, commands)
    pathlib.Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
