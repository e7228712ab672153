#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a driver's answers to tests/gpu/probe.c with those that public sources give, and with those of another driver.

usage: check_facts.py ANSWERS [DIFFERENCES RECORD]

facts/expected.json lists question, value, source and the drivers that the source speaks of. A value is a number, a list of
numbers, "success" or "error". RECORD has the answers of another driver. DIFFERENCES lists the questions that this driver
answers otherwise than the facts or the record, each with the reason. A question may end in "*". The list must have these
questions and no more, but a question whose reason begins with "at times" need not be answered otherwise. Prints TAP.
"""

import fnmatch
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


def read_answers(path):
    """The answers by question. An answer is absent if the entry point is missing or the question was not reached."""
    with open(path, encoding="utf-8") as file:
        return {entry["probe"]: entry["value"] for entry in map(json.loads, file)}


class Differences:
    """The differences that are listed, and those that were found."""

    def __init__(self, reasons):
        self.reasons, self.found = reasons, set()

    def are_listed(self, question):
        patterns = {pattern for pattern in self.reasons if fnmatch.fnmatchcase(question, pattern)}
        self.found |= patterns
        return bool(patterns)

    def unfounded(self):
        return [f"{pattern}: the answer is not another one" for pattern, reason in self.reasons.items()
                if pattern not in self.found and not reason.startswith("at times")]


def problems_of(fact, answers, differences):
    """Returns the problem of one answer."""
    question, wanted = fact["question"], fact["value"]
    if question not in answers:
        return ["not answered"]
    value = answers[question]
    if agrees(value, wanted) or differences.are_listed(question):
        return []
    return [f"answered {value}, not {wanted}: {fact['says']}", f"source: {fact['source']}; drivers: {fact['drivers']}"]


def problems_of_record(answers, record, differences):
    """Returns the answers that are others than those of the record and are not listed."""
    return [f"{question}: answered {answers.get(question)}, not {record.get(question)}" for question in dict.fromkeys([*record, *answers])
            if answers.get(question) != record.get(question) and not differences.are_listed(question)]


def main():
    answers, listed = read_answers(sys.argv[1]), len(sys.argv) > 2
    differences = Differences(read_json(sys.argv[2]) if listed else {})
    facts, tap = read_json(HERE / "facts" / "expected.json"), Tap()
    for fact in facts:
        tap.case(fact["question"], problems_of(fact, answers, differences))
    if listed:
        tap.case(f"other questions of {pathlib.Path(sys.argv[3]).stem}", problems_of_record(answers, read_answers(sys.argv[3]), differences))
    tap.case("every listed difference is one", differences.unfounded())
    tap.case("every fact has a source", [fact["question"] for fact in facts if not fact.get("source") or not fact.get("says")])
    tap.case("at least 150 questions were asked", [] if sum(1 for name in answers if not name.startswith("attribute-")) >= 150 else [str(len(answers))])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
