#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prove the contracts in src/map/coherence.{h,c} with Frama-C's WP, run-time errors included.

usage: prove.py FOLDER [--bugs] [--timeout SECONDS]

Prints the goals proved and attempted for each function. FOLDER keeps what Frama-C says as it comes (frama-c.log), each goal
with its outcome (goals.txt), and the provers' answers, so that a second run only tries what failed in the first. Exit status 1
when a goal is not proved that NOT_PROVED does not name, after a second try with four times the time; 2 when Frama-C fails.
Provers are given SECONDS each by the clock, by default ten on a machine that is not busy, and more where others compute too.
--bugs proves copies with a deliberate mistake each, of which goals must fail.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Proof goals that no prover proves in every run in reasonable time. docs/reliability.md says which checks cover these
# goals.
NOT_PROVED = {
    "ferryi_coherence_commit_loop_invariant_follow_2_preserved",
    "ferryi_coherence_commit_loop_invariant_merged_2_preserved",
    "ferryi_coherence_commit_loop_invariant_partition_2_preserved",
    "ferryi_coherence_change_ensures_set",
}

# Deliberate errors for the proof. Each entry has the text to replace in coherence.c, the replacement, and the function
# whose proof must then fail.
BUGS = [
    (": places | bit;", ": bit;", "ferryi_coherence_change"),
    ("0 : places & ~bit;", "0 : places;", "ferryi_coherence_change"),
    ("while (place < FERRYI_PLACES_MAX &&", "while (place <= FERRYI_PLACES_MAX &&", "lowest_from"),
    ("return places & FERRYI_LOST ? FERRYI_NOWHERE : ferry", "return ferry", "ferryi_coherence_find"),
    ("    return made + 1;\n}\n\nsize_t\nferryi_coherence_commit", "    return made;\n}\n\nsize_t\nferryi_coherence_commit",
     "append"),
]

FUNCTIONS = ("ferryi_coherence_find", "ferryi_coherence_commit", "ferryi_coherence_change", "ferryi_coherence_source",
             "ferryi_places_written", "lowest_from", "append")
GOAL = re.compile(r"^\[wp\] \[([^\]]*)\] Goal typed_(\S+)(?: : (\w+))?", re.M)


def default_timeout():
    """The provers count by the clock: their share of a busy machine decides how far they come."""
    return round(10 * min(6, max(1, os.getloadavg()[0] / (os.cpu_count() or 1))))


def prove(source_root, folder, timeout, function=None):
    """{goal: proved} of the whole file, or of one function."""
    cache = os.path.join(os.path.abspath(folder), "cache")
    os.makedirs(cache, exist_ok=True)
    command = ["frama-c", "-no-unicode", "-machdep", "gcc_x86_64", f"-cpp-extra-args=-I{source_root}", "-wp", "-wp-rte",
               "-wp-model", "Typed", "-wp-prover", "cvc4,z3", "-wp-timeout", str(timeout), "-wp-par", "2",
               "-wp-cache", "update", "-wp-cache-dir", cache]
    if function:
        command += ["-wp-fct", function]
    log = os.path.join(folder, "frama-c.log")
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(command + [os.path.join(source_root, "src", "map", "coherence.c")], stdout=file,
                              stderr=subprocess.STDOUT, check=False)
    with open(log, encoding="utf-8") as file:
        text = file.read()
    goals = {name: outcome == "Valid" for _, name, outcome in GOAL.findall(text)}
    if done.returncode != 0 or not goals:
        print(text[-4000:])
        sys.exit(2)
    return goals


def keep(folder, goals):
    with open(os.path.join(folder, "goals.txt"), "w", encoding="utf-8") as file:
        for goal, proved in sorted(goals.items()):
            file.write(f"{'proved' if proved else 'named' if goal in NOT_PROVED else 'NOT PROVED'}\t{goal}\n")


def function_of(goal):
    matching = [name for name in FUNCTIONS if goal.startswith(name)]
    return max(matching, key=len) if matching else "lemmas"


def unexpected_of(goals):
    return sorted(goal for goal, proved in goals.items() if not proved and goal not in NOT_PROVED)


def prove_all(folder, timeout):
    goals = prove(ROOT, folder, timeout)
    keep(folder, goals)
    # A proof may fail because the machine is busy, so failed proofs are tried again with more time. The results of
    # successful proofs are in a cache, so they take no time.
    for function in sorted({function_of(goal) for goal in unexpected_of(goals)} - {"lemmas"}):
        again = prove(ROOT, folder, 4 * timeout, function)
        goals.update({goal: proved or goals.get(goal, False) for goal, proved in again.items()})
        keep(folder, goals)
    counts = collections.defaultdict(lambda: [0, 0])
    for goal, proved in goals.items():
        counts[function_of(goal)][0] += proved
        counts[function_of(goal)][1] += 1
    for name, (proved, attempted) in sorted(counts.items()):
        print(f"{name:<28} {proved:4} of {attempted:4} goals proved")
    unexpected = unexpected_of(goals)
    for goal in unexpected:
        print(f"not proved: {goal}")
    for goal in sorted(NOT_PROVED):
        if goals.get(goal, True):
            print(f"{'proved' if goal in goals else 'no goal'}, though named as not proved: {goal}")
    print(f"{'all':<28} {sum(goals.values()):4} of {len(goals):4} goals proved")
    return not unexpected


def prove_bug(folder, number, bug):
    old, new, function = bug
    copy = os.path.join(folder, f"bug{number}")
    shutil.rmtree(copy, ignore_errors=True)
    os.makedirs(os.path.join(copy, "src", "map"))
    shutil.copy(os.path.join(ROOT, "src", "map", "coherence.h"), os.path.join(copy, "src", "map"))
    with open(os.path.join(ROOT, "src", "map", "coherence.c"), encoding="utf-8") as file:
        text = file.read()
    if text.count(old) != 1:
        sys.exit(f"bug {number}: `{old}` is not in coherence.c exactly once")
    with open(os.path.join(copy, "src", "map", "coherence.c"), "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    failed = unexpected_of(prove(copy, folder, 5, function))
    print(f"bug {number} in {function}: " + (f"{len(failed)} goals fail: {', '.join(failed)}" if failed else "NOT FOUND"))
    return bool(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--bugs", action="store_true")
    parser.add_argument("--timeout", type=int, default=default_timeout())
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    if arguments.bugs:
        good = all([prove_bug(arguments.folder, i + 1, bug) for i, bug in enumerate(BUGS)])
    else:
        good = prove_all(arguments.folder, arguments.timeout)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
