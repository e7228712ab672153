#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README is short, its two commands come first, its figures are those of the newest records, and its two versions of a loop
are those of the tutorial, whose programs are compiled and run. tests/docs/test_tutorial.py runs the commands of README.

usage: test_readme.py SOURCE-ROOT
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

# Each entry has a device, a benchmark, a case, a metric, and the name of a peer or None. Two texts follow: how README prints
# the value, and how README prints the peer's value.
FIGURES = [
    ("emulated", "access", "host/whole/1thread", "open_close", None, "{:.1f} ns** on the host", None),
    ("emulated", "access", "device/whole/1thread", "open_close", None, "{:.1f} ns on a device", None),
    ("emulated", "transfer", "1024MiB/touch-4KiB", "moved", None, "copies {:.0f} bytes", None),
    ("h100", "transfer", "1024MiB/pageable", "upload", "driver, pageable", "H100 at {:.1f} GB/s", "reach {:.1f} and"),
    ("h100", "transfer", "1024MiB/pageable", "download", "driver, pageable", "back at {:.1f};", "and {:.1f}: "),
    ("emulated", "pool", "geomean", "take_give", "mutex-freelist", "takes {:.1f} ns**", "free list take {:.1f} ns"),
    ("emulated", "convert", "L2/first 12", "geomean", None, "{:.2f} times OpenCV", None),
]


def newest(results, device, bench):
    return json.loads(sorted(results.glob(f"*-{device}-{bench}.json"))[-1].read_text(encoding="utf-8"))[1:]


def wrong_figures(text, results):
    for device, bench, case, metric, peer, value_text, peer_text in FIGURES:
        records = [record for record in newest(results, device, bench)
                   if (record["case"], record["metric"]) == (case, metric) and (peer is None or record["peer"] == peer)
                   and (bench != "convert" or "OpenCV" in record["unit"])]
        if len(records) != 1:
            yield f"{bench} {case} {metric}: {len(records)} records"
            continue
        bullet = next(line for line in text.splitlines() if value_text.split("{")[0] in line and f"`./dev bench {bench}`" in line
                      and value_text.split("}")[1] in line)
        for shown, value in ((value_text, records[0]["value"]), (peer_text, records[0].get("peer_value"))):
            if shown and shown.format(value) not in bullet:
                yield f"{bench} {case} {metric}: '{shown.format(value)}' is not in: {bullet}"


def plain(text):
    return " ".join(text.split())


def loops(text):
    """The blocks of C that are no programs."""
    return [block for block in re.findall(r"^```c\n(.*?)^```", text, re.S | re.M) if "main(" not in block]


def main():
    root = pathlib.Path(sys.argv[1])
    text = (root / "README.md").read_text(encoding="utf-8")
    tutorial = (root / "docs" / "tutorial.md").read_text(encoding="utf-8")
    tap = Tap()
    lines = len(text.splitlines())
    tap.case("at most 120 lines", [] if lines <= 120 else [f"{lines} lines"])
    first = re.search(r"^```sh\n(.*?)^```", text, re.S | re.M)[1]
    tap.case("the two commands come first", [] if re.findall(r"^\./dev \w+", first, re.M) == ["./dev demo", "./dev test"] else [first])
    found = loops(text)
    tap.case("there are two versions of the loop", [] if len(found) == 2 else [f"{len(found)} blocks"])
    tap.case("they are in the tutorial", [block for block in found if plain(block) not in plain(tutorial)])
    bytes_moved = re.search(r"(\d+ bytes up, \d+ bytes down)", text)
    tap.case("the tutorial prints the bytes", [] if bytes_moved and f"\n{bytes_moved[1]}\n" in tutorial else ["it does not"])
    tap.case("figures are those of the records", list(wrong_figures(text, root / "bench" / "results")))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
