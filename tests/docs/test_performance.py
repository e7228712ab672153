#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/performance.md and its pictures are those that docs/performance.py writes from the committed records.

usage: test_performance.py SOURCE-ROOT
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402


def run(root, *arguments):
    return subprocess.run([sys.executable, root / "docs" / "performance.py", *arguments], capture_output=True, text=True, check=False)


def check_pictures(root):
    """Pictures are XML, show numbers, and stay within their own size."""
    for path in sorted((root / "docs" / "pictures").glob("performance-*.svg")):
        svg = xml.etree.ElementTree.parse(path).getroot()
        width = float(svg.get("width"))
        ends = [float(rect.get("x", 0)) + float(rect.get("width")) for rect in svg.iter("{http://www.w3.org/2000/svg}rect")]
        if "nan" in path.read_text(encoding="utf-8") or max(ends) > width:
            yield f"{path.name}: no number, or wider than {width:g}"


def check_changed(root, folder):
    """A record that changes makes the page out of date, and an older one that changes does not."""
    results, docs = folder / "results", folder / "docs"
    shutil.copytree(root / "bench" / "results", results)
    shutil.copytree(root / "docs", docs, ignore=shutil.ignore_patterns("*.py"))
    where = ("--results", str(results), "--docs", str(docs), "--check")
    newest = max(results.glob("*-transfer.json"))
    older = newest.with_name("2000-01-01" + newest.name[10:])
    shutil.copy(newest, older)
    for path, differs in ((older, False), (newest, True)):
        records = json.loads(path.read_text(encoding="utf-8"))
        for record in records[1:]:
            record["value"] *= 0.9
        path.write_text(json.dumps(records), encoding="utf-8")
        done = run(root, *where)
        if (done.returncode == 1) != differs:
            yield f"{path.name}: exit status {done.returncode} {done.stdout} {done.stderr}"
    (docs / "pictures" / "performance-gone-access.svg").write_text("<svg/>", encoding="utf-8")
    if "performance-gone-access.svg belongs to no record" not in run(root, *where).stdout:
        yield "a picture without records is not reported"


def check_lines(root, folder):
    """The committed records are as bench/run.py writes them: one in each line, behind the environment with its commit."""
    sys.path.insert(0, str(root / "bench"))
    sys.dont_write_bytecode = True
    import run as bench_run
    for path in sorted((root / "bench" / "results").glob("*.json")):
        records = json.loads(path.read_text(encoding="utf-8"))
        bench_run.write_records(folder / "written.json", records)
        if (folder / "written.json").read_bytes() != path.read_bytes() or len(path.read_text(encoding="utf-8").splitlines()) != len(records) + 2:
            yield f"{path.name}: not one record in each line"
        if records[0]["bench"] != "environment" or not re.fullmatch("[0-9a-f]{8}", records[0].get("commit", "")):
            yield f"{path.name}: its first line names no commit"
    found = bench_run.commit()
    if found is not None and not re.fullmatch(r"[0-9a-f]{8,}\+?", found):
        yield f"the commit is {found}"


def main():
    root = pathlib.Path(sys.argv[1])
    tap = Tap()
    done = run(root, "--check")
    tap.case("the page shows the newest records", [] if done.returncode == 0 else [*done.stdout.splitlines(), *done.stderr.splitlines()])
    shown = re.findall(r"\]\((pictures/[^)]+)\)", (root / "docs" / "performance.md").read_text(encoding="utf-8"))
    tap.case("the page shows pictures", [] if len(shown) >= 4 else [str(shown)])
    tap.case("pictures", list(check_pictures(root)))
    with tempfile.TemporaryDirectory() as folder:
        tap.case("records are lines", list(check_lines(root, pathlib.Path(folder))))
        tap.case("changes of records", list(check_changed(root, pathlib.Path(folder))))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
