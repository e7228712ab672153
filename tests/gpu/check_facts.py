#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a driver's answers to tests/gpu/probe.c with those that public sources give.

usage: check_facts.py ANSWERS [DIFFERENCES]

facts/expected.json lists question, value, source and the drivers that the source speaks of. A value is a number, a list of
numbers, "success" or "error". DIFFERENCES lists questions that this driver answers otherwise, each with the reason; it must
have those and no more. With it the driver may also be stricter: it may refuse what others do. Prints TAP.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lint"))
from tap import Tap  # noqa: E402


def read_json(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def agrees(value, wanted):
    if wanted in ("success", "error"):
        return (value == 0) == (wanted == "success")
    return value in (wanted if isinstance(wanted, list) else [wanted])


def problems_of(fact, answers, differences):
    """Returns the problem of one answer. An answer is absent if the entry point is missing or the question was not reached."""
    question, wanted = fact["question"], fact["value"]
    if question not in answers:
        return ["not answered"]
    value = answers[question]
    fine = agrees(value, wanted) or (differences is not None and wanted == "success" and value > 0)
    if fine and question in (differences or {}):
        return [f"answered {value} as the source says: the listed difference is none"]
    if not fine and question not in (differences or {}):
        return [f"answered {value}, not {wanted}: {fact['says']}", f"source: {fact['source']}; drivers: {fact['drivers']}"]
    return []


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        answers = {entry["probe"]: entry["value"] for entry in map(json.loads, file)}
    differences = read_json(sys.argv[2]) if len(sys.argv) > 2 else None
    facts, tap = read_json(HERE / "facts" / "expected.json"), Tap()
    for fact in facts:
        tap.case(fact["question"], problems_of(fact, answers, differences))
    unknown = set(differences or {}) - {fact["question"] for fact in facts}
    tap.case("differences are of questions that have facts", sorted(unknown))
    tap.case("every fact has a source", [fact["question"] for fact in facts if not fact.get("source") or not fact.get("says")])
    tap.case("at least 150 questions were asked", [] if sum(1 for name in answers if not name.startswith("attribute-")) >= 150 else [str(len(answers))])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
