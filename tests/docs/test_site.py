#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The site builds without warnings, has every exported function, and no link or picture of it is missing.

usage: test_site.py EXPORTS WEBSITE.PY [ARGUMENT...]     run by a Python that has Sphinx
"""

import html.parser
import pathlib
import posixpath
import subprocess
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree

from sphinx.util.inventory import InventoryFile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.names, self.viewport = [], set(), False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names.add(attributes.get("id") or attributes.get("name"))
        self.viewport |= attributes.get("name") == "viewport"
        link = attributes.get("href") or attributes.get("src")
        if link and not urllib.parse.urlparse(link).scheme:
            self.links.append(link)


def broken(site):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    for path, page in pages.items():
        for link in page.links:
            file, _, name = link.partition("#")
            target = (path.parent / urllib.parse.unquote(file.partition("?")[0])).resolve() if file else path
            if not target.exists():
                yield f"{path.name}: {link} is missing"
            elif name and target in pages and urllib.parse.unquote(name) not in pages[target].names:
                yield f"{path.name}: {link} has no such place"


def undocumented_members(folder):
    """Public members of C++ classes without a comment; a comment of one overload serves all."""
    for path in sorted([*folder.glob("classferry_1_1*.xml"), *folder.glob("structferry_1_1*.xml")]):
        compound = xml.etree.ElementTree.parse(path).getroot().find("compounddef")
        known = {}
        for member in compound.iter("memberdef"):
            if member.get("prot") == "public" and member.get("kind") != "friend":
                text = "".join("".join(member.find(part).itertext()) for part in ("briefdescription", "detaileddescription"))
                known[member.findtext("name")] = known.get(member.findtext("name"), False) or bool(text.strip())
        yield from (f"{compound.findtext('compoundname')}::{name}" for name, documented in known.items() if not documented)


def main():
    exports, program, *arguments = sys.argv[1:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder).resolve() / "site"
        done = subprocess.run([sys.executable, program, *arguments, "--output", site, "--strict"], capture_output=True, text=True, check=False)
        tap.case("Sphinx has no warning", [] if done.returncode == 0 else [f"exit status {done.returncode}", *done.stderr.splitlines()])
        if done.returncode:
            return tap.end()
        with (site / "objects.inv").open("rb") as file:
            known = InventoryFile.load(file, "", posixpath.join)
        functions = {name for kind in known if kind == "c:function" for name in known[kind]}
        exported = [line.split("@")[0].strip() for line in pathlib.Path(exports).read_text(encoding="utf-8").splitlines() if line.strip()]
        tap.case("every exported function has an entry", [name for name in exported if name not in functions])
        tap.case("types, macros, C++ and commands have entries", [kind for kind in ("c:struct", "c:macro", "cpp:class") if not known.get(kind)])
        tap.case("every member of C++ has a comment", list(undocumented_members(site.with_name("site.src") / "doxygen" / "xml")))
        fortran = (site / "reference" / "fortran.html").read_text(encoding="utf-8")
        tap.case("procedures of Fortran are listed", [name for name in ("ferry_check", "ferry_scope%close", "ferry_lease%close", "ferry_context%create") if name not in fortran])
        tap.case("links and pictures", list(broken(site)))
        tap.case("search knows the functions", [] if "ferry_context_create" in (site / "searchindex.js").read_text(encoding="utf-8") else ["it does not"])
        tap.case("pages fit a phone", [path.name for path in site.glob("*.html") if not Page(path).viewport])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
