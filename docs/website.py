#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the documents and the reference into one site, with Sphinx, MyST, Breathe and Doxygen.

usage: website.py --check
       website.py --include FOLDER... --version VERSION --output FOLDER [--python FOLDER] [--strict]

--check needs none of these tools: it verifies that every link of the documents leads to a file or a heading. The tree of
sources is staged in OUTPUT.src, and links that leave the documents become copies of files, or text where they lead to folders.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import manual  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[([^\]\[]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
# Title of a part of the site: its documents in order. Documents that no part names come last.
PARTS = {
    "Start": ["docs/install.md", "docs/tutorial.md", "docs/concepts.md", "docs/names.md"],
    "Use": ["docs/kernels.md", "docs/exchange.md", "docs/environment.md", "docs/platforms.md", "docs/tuning.md", "docs/tracing.md",
            "docs/debugging.md", "docs/how-do-i.md", "docs/from-cuda.md", "docs/coming-from.md"],
    "Languages": ["docs/cpp.md", "docs/python.md", "docs/fortran.md"],
    "With other libraries": ["docs/with-*.md"],
    "Reference": ["reference/*.md", "docs/glossary.md"],
    "About": ["docs/architecture.md", "docs/performance.md", "docs/reliability.md", "CHANGELOG.md", "CONTRIBUTING.md"],
}
DOXYFILE = """
INPUT = {inputs}
OUTPUT_DIRECTORY = {output}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
QUIET = YES
FULL_PATH_NAMES = NO
WARN_IF_UNDOCUMENTED = NO
WARN_IF_INCOMPLETE_DOC = NO
WARN_IF_DOC_ERROR = NO
EXTRACT_ALL = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = FERRY_API= FERRY_NODISCARD= FERRY_BEGIN_DECLS= FERRY_END_DECLS= FERRY_INLINE= "FERRY_PRINTF(a,b)=" "FERRY_STATIC_ASSERT(a,b)=" "FERRY_CPP_ELEMENT(a,b)=" FERRYI_CPP_VISIBLE= FERRYI_CPP_COLD= __GNUC__=12
INPUT_FILTER = "sed -E 's/^typedef (struct|enum|union) ([A-Za-z_0-9]+) [{{]/\\1 \\2 {{/; s/^[}}] ferry_[a-z_0-9]+;/}};/'"
EXCLUDE_SYMBOLS = ferryi_* FERRYI_* ferry::detail
"""


# -- documents and their links ---------------------------------------------------------------------------

def documents():
    return [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))


def outside_code(text, change):
    """Applies `change` to the parts of a document that are no code."""
    parts, last = [], 0
    for match in FENCE.finditer(text):
        parts += [change(text[last:match.start()]), match[0]]
        last = match.end()
    return "".join([*parts, change(text[last:])])


def links(path):
    """(target file or None for this document, heading or "") of every link that does not leave the project."""
    found = []

    def note(text):
        found.extend(match[3] for match in LINK.finditer(text) if not re.match(r"[a-z]+:", match[3]))
        return text

    outside_code(path.read_text(encoding="utf-8"), note)
    for link in found:
        file, _, heading = link.partition("#")
        yield link, (path.parent / file).resolve() if file else path, heading


def headings(path):
    """The names by which headings are linked, as GitHub and MyST make them, and explicit anchors."""
    text = path.read_text(encoding="utf-8")
    names = {re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")).strip().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}
    return names | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)) | set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))


def broken_links():
    for path in documents():
        for link, target, heading in links(path):
            if not target.exists():
                yield f"{path.relative_to(ROOT)}: {link} leads to no file"
            elif heading and target.suffix == ".md" and heading not in headings(target):
                yield f"{path.relative_to(ROOT)}: {link} leads to no heading"


# -- the staged tree -------------------------------------------------------------------------------------

def stage_document(path, stage, known):
    def replace(match):
        picture, title, link = match[1], match[2], match[3]
        target = (path.parent / link.partition("#")[0]).resolve()
        if re.match(r"[a-z]+:|#", link) or target in known:
            return match[0].replace("README.md", "index.md")
        if target.is_dir():
            return f"{title} (`{target.relative_to(ROOT)}`)"
        copy = stage / target.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
        return match[0] if picture else f"{{download}}`{title.strip('`')} </{target.relative_to(ROOT)}>`"

    text = outside_code(path.read_text(encoding="utf-8"), lambda part: LINK.sub(replace, part))
    where = stage / ("index.md" if path.name == "README.md" else path.relative_to(ROOT))
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(text, encoding="utf-8")


def write_reference(stage, headers, folders, with_python):
    folder = stage / "reference"
    folder.mkdir()
    for header in headers:
        # Everything of the C++ header is in its namespace.
        directive = ("{doxygennamespace} ferry\n:members:\n:undoc-members:" if header.name == "ferry.hpp" else
                     f"{{doxygenfile}} {header.name}\n:sections: briefdescription detaileddescription typedef enum define func innerclass var public*")
        (folder / f"{header.name.replace('.', '_')}.md").write_text(f"# `<ferry/{header.name}>`\n\n```{directive}\n```\n", encoding="utf-8")
    if with_python:
        (folder / "python.md").write_text("# Python: `ferry`\n\n```{eval-rst}\n.. automodule:: ferry\n   :members:\n   :undoc-members:\n```\n", encoding="utf-8")
    programs = {"ferry": manual.read_ferry(sorted([*(ROOT / "cli").glob("*.c"), *(ROOT / "cli" / "report").glob("*.py")])), "ferry-gen": manual.read_generator(ROOT / "gen" / "ferry_gen.py")}
    commands = "\n".join(line for program, read in programs.items() for line in [*manual.markdown(program, read), ""])
    (folder / "commands.md").write_text("# Commands\n\n" + commands, encoding="utf-8")
    (folder / "fortran.md").write_text("\n".join(fortran_page(folders)), encoding="utf-8")


def fortran_procedures(module):
    """A line for each public procedure of a module: its type and name, arguments and comment."""
    names = {}
    for kind, body in re.findall(r"^    type, public :: (\w+)$(.*?)^    end type", module, re.M | re.S):
        bound = re.findall(r"^        procedure(?:, private)? :: (.*)$", body, re.M)
        for name, target in ((part.split(" => ")[0], part.split(" => ")[-1]) for line in bound for part in line.rstrip(" &").split(", ")):
            generic = re.search(rf"generic :: (\w+) => [^:]*?\b{name}\b", body)
            names[target] = f"{kind}%{generic[1] if generic else name}"
    public = {name for line in re.findall(r"^    public :: (.*)$", module, re.M) for name in line.split(", ")}
    names = {target: name for target, name in names.items() if not target.endswith("assign")}
    found = re.findall(r"((?:^    ! .*\n)+)^    (?:impure elemental )?(?:subroutine|function) (\w+)\(([^)]*)\)", module, re.M)
    for comment, name, arguments in found:
        if name in names or name in public:
            given = arguments.replace("self, ", "").replace("self", "")
            yield f"| `{names.get(name, name)}({given})` | {' '.join(line.strip(' !') for line in comment.splitlines())} |"


def fortran_page(folders):
    module = (ROOT / "fortran" / "ferry.f90").read_text(encoding="utf-8")
    public = re.search(r"^module ferry\n.*?^contains$", module, re.M | re.S)[0]
    yield "# Fortran: the module `ferry`\n\nArguments and statuses are those of the C functions.\n"
    head = ["", "| procedure | what it does |", "|---|---|"]
    yield from ["## Procedures", *head, *dict.fromkeys(fortran_procedures(module)), ""]
    for folder in folders:
        buffers = folder.parent / "fortran" / "ferry_float_buffers.f90"
        if buffers.exists():
            yield from ["## Buffers of `real(c_float)`: the module `ferry_float_buffers`", *head,
                        *dict.fromkeys(fortran_procedures(buffers.read_text(encoding="utf-8"))), ""]
    yield f"## Declarations\n\n```fortran\n{public}\n```\n"


def write_contents(stage):
    """Puts the table of contents below README, which is the first page."""
    left = {path.relative_to(stage).as_posix() for path in stage.rglob("*.md")} - {"index.md"}
    text = (stage / "index.md").read_text(encoding="utf-8")
    for part, patterns in PARTS.items():
        pages = [page for pattern in patterns for page in sorted(left) if pathlib.PurePosixPath(page).match(pattern)]
        left -= set(pages)
        text += toctree(part, pages)
    (stage / "index.md").write_text(text + toctree("More", sorted(left)), encoding="utf-8")


def toctree(part, pages):
    return f"\n```{{toctree}}\n:hidden:\n:caption: {part}\n\n" + "\n".join(page.removesuffix(".md") for page in pages) + "\n```\n" if pages else ""


# -- the site ------------------------------------------------------------------------------------------

def public_headers(folders):
    """The headers of the core and, for the typed ones, those of one element."""
    typed = {path.stem for path in (ROOT / "gen" / "types").glob("*.json")} - {"float"}
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("ferry/*.h*")):
            if path.suffix in (".h", ".hpp") and path.stem.removesuffix("_convert") not in typed:
                found[path.name] = path
    return [found[name] for name in sorted(found)]


def build(options):
    stage, output = options.output.with_name(options.output.name + ".src"), options.output
    shutil.rmtree(stage, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    stage.mkdir(parents=True)
    headers = public_headers(options.include)
    pages = documents()
    for path in pages:
        stage_document(path, stage, set(pages))
    write_reference(stage, headers, options.include, options.python)
    write_contents(stage)
    shutil.copyfile(ROOT / "docs" / "site" / "conf.py", stage / "conf.py")
    (stage / "static").mkdir()
    shutil.copyfile(ROOT / "docs" / "site" / "phone.css", stage / "static" / "phone.css")
    inputs = " ".join(f'"{header}"' for header in headers)
    subprocess.run(["doxygen", "-"], input=DOXYFILE.format(inputs=inputs, output=f'"{stage / "doxygen"}"'), text=True, check=True)
    environment = {**os.environ, "FERRY_SITE_VERSION": options.version, "FERRY_SITE_XML": str(stage / "doxygen" / "xml"),
                   "FERRY_SITE_PYTHON": str(options.python.resolve()) if options.python else "", "FERRY_DEVICE": "host"}
    strict = ["-W", "--keep-going"] if options.strict else []
    return subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", *strict, "-d", str(stage / "doctrees"), str(stage), str(output)],
                          env=environment, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--include", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--version", default="")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    if options.check:
        found = list(broken_links())
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    options.output = options.output.resolve()
    return build(options)


if __name__ == "__main__":
    sys.exit(main())
