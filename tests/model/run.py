#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Explore the protocol models with Spin, and see that each breaks when one transition does.

usage: run.py MODEL [--large] [--spin SPIN] [--cc COMPILER]

Prints TAP: one case for each configuration, with the states explored, and one for each deliberate break, which must
be found. --large explores what takes minutes instead of seconds: larger configurations, and breaks that are found late.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lint"))
from tap import Tap  # noqa: E402

DEPTH = 1000000
MEGABYTES = 2000

# Models, with their quick and large configurations. A break is a deliberate error in a model; it is listed with the
# configuration that finds it. The breaks in `late` are found only after millions of states. T_REVERSE tries the
# transitions from the last to the first, which finds the break CLEAR sooner.
MODELS = {
    "protocol": {
        "quick": ["OPERATIONS=1"],
        "large": ["OPERATIONS=2 EVICTIONS=0", "OPERATIONS=1 EVICTIONS=2"],
        "breaks": {name: "OPERATIONS=1" for name in (
            "LOCK WAKE CONFLICT WAIT MOVE JOIN_EARLY DELTA COMMIT COMMIT_EARLY SAME_STREAM FORGET "
            "EVICT_HELD EVICT_WRITES EVICT_ONLY EVICT_CLAIM").split()},
    },
    "order": {
        "quick": ["OPERATIONS=1", "OPERATIONS=1 PER_THREAD", "OPERATIONS=1 RETIRE"],
        "large": ["OPERATIONS=2 WHOLE", "OPERATIONS=2 RETIRE WHOLE WRITES"],
        "breaks": {
            "TICK": "WHOLE", "SEEN": "WHOLE", "WAIT": "WHOLE", "READERS": "WHOLE", "NOTE": "WHOLE", "HOST": "WHOLE",
            "JOIN": "WHOLE PER_THREAD",
            "CLOSING": "OPERATIONS=1 RETIRE", "RECYCLE": "OPERATIONS=1 RETIRE WHOLE",
            "LIFE": "OPERATIONS=2 RETIRE WHOLE WRITES",
        },
        "late": {"CLEAR": "THREADS=3 OPERATIONS=1 T_REVERSE", "REPLACE": "THREADS=3 OPERATIONS=1"},
    },
    "graph": {
        "quick": ["LAUNCHES=2", "LAUNCHES=2 LOST"],
        "large": ["LAUNCHES=3 LOST"],
        "breaks": {"PIN": "LAUNCHES=2", "REFERENCE": "LAUNCHES=2", "BRING": "LAUNCHES=2", "NOTE": "LAUNCHES=2", "WAIT": "LAUNCHES=2 BREAK_OWNER",
                   "OWNER": "LAUNCHES=2 LOST"},
    },
    "together": {
        "quick": ["ALL"],
        "large": [],
        "breaks": {name: "ALL" for name in "COMMIT COVER ABANDON DROP ZEROS".split()},
    },
    "scopes": {
        "quick": ["ALL"],
        "large": [],
        "breaks": {name: "ALL" for name in ["RECYCLE"]},
    },
    "lifetime": {
        "quick": ["THREADS=2", "THREADS=1 END"],
        "large": ["THREADS=3", "THREADS=2 END"],
        "breaks": {
            **{name: "THREADS=2" for name in "VIEW DOOMED LAST UNLIST PENDING TAKE EVICT_REFERENCES EVICT_TWICE".split()},
            **{name: "THREADS=1 END" for name in "END_LOOK END_DOOMED".split()},
        },
    },
    "shortages": {
        "quick": ["THREADS=2"],
        "large": ["THREADS=3"],
        "breaks": {name: "THREADS=2" for name in "CALLBACK BEHIND LOOK EAGER EVICT".split()},
    },
    "owners": {
        "quick": ["ALL"],
        "large": [],
        "breaks": {name: "ALL" for name in "TWICE SHARES ORDER TRY UNDO WAIT JOIN GOING RETAIN".split()},
    },
}


class Explorer:
    def __init__(self, model, spin, compiler, folder):
        self.model, self.spin, self.compiler, self.folder = model, spin, compiler, folder

    def run(self, words, optimise="-O1"):
        """The report of pan on the model with these macros."""
        macros = [f"-D{word}" for word in words]
        subprocess.run([self.spin, "-a", *macros, os.path.join(HERE, self.model + ".pml")], cwd=self.folder,
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        order = ["-DT_REVERSE"] if "T_REVERSE" in words else []
        subprocess.run([*self.compiler, optimise, "-w", *order, "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=4096",
                        f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c"], cwd=self.folder, check=True)
        done = subprocess.run(["./pan", f"-m{DEPTH}", "-w22"], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout


def states_of(report):
    found = re.search(r"(\d+) states, stored", report)
    return int(found.group(1)) if found else 0


def error_of(report):
    """What pan found wrong; None when it explored everything and found nothing."""
    found = re.search(r"^pan:\d+: (.*)$", report, re.M)
    if found:
        return found.group(1)
    if "errors: 0" not in report or re.search(r"search not completed|max search depth too small|out of memory", report):
        return "not explored to the end: " + report[-400:].replace("\n", " / ")
    return None


# A model with a deliberate error must end with one of these two messages. Any other failure is an error in the model
# itself.
PROMISES = re.compile(r"assertion violated|invalid end state")


def explore(tap, explorer, configurations):
    for words in configurations:
        report = explorer.run(words.split())
        error = error_of(report)
        tap.case(f"{explorer.model} {words}: {states_of(report)} states", [error] if error else [])


def break_each(tap, explorer, breaks):
    for name, words in breaks.items():
        # Models with three threads are optimized. In the other models, most deliberate errors are found in less time
        # than the optimizer needs.
        error = error_of(explorer.run(words.split() + ["BREAK_" + name], "-O1" if "THREADS=3" in words else "-O0"))
        found = error and PROMISES.search(error)
        tap.case(f"{explorer.model} {words} BREAK_{name} is found", [] if found else [error or "nothing was found"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--spin", default="spin")
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    tap = Tap()
    wanted = MODELS[arguments.model]
    with tempfile.TemporaryDirectory() as folder:
        explorer = Explorer(arguments.model, arguments.spin, arguments.cc.split(), folder)
        if arguments.large:
            explore(tap, explorer, wanted["large"])
            break_each(tap, explorer, wanted.get("late", {}))
        else:
            explore(tap, explorer, wanted["quick"])
            break_each(tap, explorer, wanted["breaks"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
