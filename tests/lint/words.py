#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Comments, documents and messages use no word of words.txt.

usage: words.py SOURCE-ROOT

Checks comments and prose of FOLDERS and FILES, and all strings in src/. Code is not prose: identifiers, paths, code blocks
and `quoted` names are left out, and so are files that are data of a test.
"""

import fnmatch
import io
import pathlib
import re
import sys
import tokenize

from tap import Tap

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ("bench", "cli", "cmake", "docs", "examples", "fortran", "gen", "include", "mpi", "packaging", "python", "src", "templates",
           "tests")
FILES = (".ci/run", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "dev", "meson.build", "meson_options.txt")
DATA = re.compile(r"^(tests/gen/golden/|tests/gen/types/|tests/fuzz/corpus/|tests/lint/words\.)")
C_FILES = (".c", ".h", ".h.in", ".hpp", ".cpp", ".cu", ".cuh", ".j2", ".pml")
SCRIPTS = (".sh", ".ci/run", "dev", ".build", "meson_options.txt", ".cmake", "CMakeLists.txt")
READ = (*C_FILES, *SCRIPTS, ".py", "ferry-gen.in", ".f90", ".md", ".json")

# Exceptions: each entry is (files, forbidden word that they may use, reason). The word "*" means every word. An entry
# that no file needs is an error.
ALLOWED = [
    ("CONTRIBUTING.md", "sentence", "of grammar"),
]

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|\{#.*?#\}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
COMMENT_EDGE = re.compile(r"^[ \t]*(?:/\*+<?|\*+/|\*(?!\*)|//+|\{#)|\*/|#\}", re.M)
CODE_BLOCK = re.compile(r"^([ \t]*)```.*?^\1```", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`|\b\w*_\w+\b(?:\(\))?|\]\([^)]*\)|[\w./-]+/[\w./-]+|[\w-]+\.(?:md|c|h|py)\b")


def blank(match):
    """Returns as many line ends as the text had, so that line numbers stay right."""
    return " " + "\n" * match.group(0).count("\n")


def keep_only(text, spans):
    """Returns the text with everything outside of the spans blanked."""
    kept, last = [], 0
    for begin, end in spans:
        kept += ["\n" * text.count("\n", last, begin), " ", text[begin:end]]
        last = end
    return "".join(kept)


def c_comments(text):
    spans = [match.span() for match in C_TOKEN.finditer(text) if match.group(0)[0] in "/{"]
    return COMMENT_EDGE.sub(" ", keep_only(text, spans))


def python_comments(text):
    """Returns comments and documentation strings, but no other strings."""
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or token.type == tokenize.STRING and token.string.startswith('"""'):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                lines[number - 1] += " " + line.lstrip("# ")
    return "\n".join(lines)


def script_comments(text):
    return "\n".join(line.partition("#")[2] for line in text.splitlines())


def document(text):
    return CODE_BLOCK.sub(blank, text)


def prose_of(path, text):
    if path.endswith(C_FILES):
        return c_comments(text)
    if path.endswith((".py", "ferry-gen.in")):
        return python_comments(text)
    if path.endswith(SCRIPTS):
        return script_comments(text)
    if path.endswith(".f90"):
        return "\n".join(line.partition("!")[2] for line in text.splitlines())
    return document(text) if path.endswith((".md", ".json")) else ""


def messages_of(text):
    """All strings: messages are put together from several, not all of them at the call that fails."""
    return keep_only(text, [match.span() for match in C_TOKEN.finditer(text) if match.group(0)[0] == '"'])


def read_words():
    lines = (HERE / "words.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pattern_of(words):
    return re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in words) + r")s?\b", re.I)


def is_allowed(path, word, used):
    for entry in ALLOWED:
        if fnmatch.fnmatch(path, entry[0]) and entry[1] in ("*", word):
            used.add(entry)
            return True
    return False


def uses(path, prose, pattern, used):
    prose = CODE.sub(blank, prose)
    for match in pattern.finditer(prose):
        word = " ".join(match.group(1).lower().split())
        if not is_allowed(path, word, used):
            number = prose.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: {' '.join(match.group(0).split())}"


def texts(root):
    paths = [root / name for name in FILES]
    paths += [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    for path in paths:
        name = path.relative_to(root).as_posix()
        if name.endswith(READ) and not DATA.match(name):
            yield name, path.read_text(encoding="utf-8")


def main():
    root = pathlib.Path(sys.argv[1])
    pattern, tap, used = pattern_of(read_words()), Tap(), set()
    prose = [found for path, text in texts(root) for found in uses(path, prose_of(path, text), pattern, used)]
    messages = [found for path in sorted((root / "src").rglob("*.c"))
                for found in uses(path.relative_to(root).as_posix(), messages_of(path.read_text(encoding="utf-8")), pattern, used)]
    example = "/* Nobody waits. */ lane(); /* so\n * many */ a(\"told\");\n"
    found = pattern.findall(c_comments(example)) + pattern.findall(messages_of(example))
    tap.case("the words are found", [] if len(found) == 3 else found)
    tap.case("public comments and documents", prose)
    tap.case("messages", messages)
    tap.case("every allowed use exists", [f"{path}: {word}" for path, word, _ in sorted(set(ALLOWED) - used)])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
