#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Locks are checked by the compiler: clang refuses what is wrong, and exemptions are few and have a reason.

usage: locks.py SOURCE-ROOT BUILD-ROOT
"""

import pathlib
import re
import shutil
import subprocess
import sys

from tap import Tap

EXEMPTIONS_MOST = 15
HEADER = "src/base/lock_class.h"

# Declarations that each code snippet needs. A statement replaces `{}` in the snippet.
POOL = '#include "src/pool/slab.h"\nuint64_t f(ferry_pool *pool, ferryi_timeline *lane);\nuint64_t f(ferry_pool *pool, ferryi_timeline *lane) {{ (void)lane; {} }}\n'
STORE = '#include "src/store/store.h"\nsize_t f(ferryi_store *store);\nsize_t f(ferryi_store *store) {{ {} }}\n'

LOCK, UNLOCK = "ferryi_mutex_lock(&pool->mutex);", "ferryi_mutex_unlock(&pool->mutex);"
STORE_LOCK, STORE_UNLOCK = "ferryi_store_lock(store);", "ferryi_store_unlock(store);"

# Each entry has the name of an error in the use of locks, a correct statement that compiles, and an incorrect statement
# that must not compile.
PAIRS = [
    ("a guarded member is read without its mutex", POOL,
     f"{LOCK} uint64_t n = pool->cached_bytes; {UNLOCK} return n;", "return pool->cached_bytes;"),
    ("a guarded member is written without its mutex", POOL,
     f"{LOCK} pool->grown_bytes++; {UNLOCK} return 0;", "pool->grown_bytes++; return 0;"),
    ("a guarded member is read after the mutex was given back", POOL,
     f"{LOCK} uint64_t n = pool->reserved_bytes; {UNLOCK} return n;", f"{LOCK} {UNLOCK} return pool->reserved_bytes;"),
    ("a guarded member is read under a mutex of another class", POOL,
     f"{LOCK} uint64_t n = pool->reserved_bytes; {UNLOCK} return n;",
     "ferryi_mutex_lock(&lane->mutex); uint64_t n = pool->reserved_bytes; ferryi_mutex_unlock(&lane->mutex); return n;"),
    ("a mutex is not given back", POOL, f"{LOCK} {UNLOCK} return 0;", f"{LOCK} return 0;"),
    ("a mutex is taken twice", POOL, f"{LOCK} {UNLOCK} return 0;", f"{LOCK} {LOCK} {UNLOCK} return 0;"),
    ("a function that requires the mutex is called without it", POOL,
     f"{LOCK} size_t n = ferryi_pool_largest_free(pool); {UNLOCK} return n;", "return ferryi_pool_largest_free(pool);"),
    ("a lock that may not have been taken is counted on", POOL,
     f"if (!ferryi_pool_lock_stocked(pool)) return 0; pool->grown_bytes++; {UNLOCK} return 0;",
     "(void)ferryi_pool_lock_stocked(pool); pool->grown_bytes++; return 0;"),
    ("the map is read without the storage's lock", STORE,
     f"{STORE_LOCK} size_t n = store->map.bytes; {STORE_UNLOCK} return n;", "return store->map.bytes;"),
    ("the map is searched without the storage's lock", STORE,
     f"{STORE_LOCK} size_t n = ferryi_valid_map_at(&store->map, 0).end; {STORE_UNLOCK} return n;",
     "return ferryi_valid_map_at(&store->map, 0).end;"),
    ("a replica's address is read without the storage's lock", STORE,
     f"{STORE_LOCK} size_t n = (size_t)(uintptr_t)ferryi_store_copy(store, 0)->pointer; {STORE_UNLOCK} return n;",
     "return (size_t)(uintptr_t)ferryi_store_copy(store, 0)->pointer;"),
    ("the storage's lock is counted on when it was only tried", STORE,
     "if (!ferryi_store_lock_plain(store)) return 0; size_t n = store->claim_count; ferryi_store_unlock_plain(store); return n;",
     "(void)ferryi_store_lock_plain(store); size_t n = store->claim_count; ferryi_store_unlock_plain(store); return n;"),
]


def code_files(root):
    return [path for path in sorted((root / "src").rglob("*.[ch]"))]


def exemptions(root):
    """Every use of the exemption, as (place, has a comment before it)."""
    found = []
    for path in code_files(root):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if "FERRYI_NOT_ANALYSED" not in line or line.startswith("#define"):
                continue
            before = "\n".join(lines[max(0, number - 16):number])
            has_reason = re.search(r"\bnot[\s*]+analysed\b|\banalysis[\s*]+skips\b", before, re.IGNORECASE) is not None
            found.append((f"{path.relative_to(root)}:{number + 1}", has_reason))
    return found


def forbidden(root, pattern, allowed):
    """Lines of src, outside of some files, that match."""
    return [f"{path.relative_to(root)}:{number}: {line.strip()}"
            for path in code_files(root) if str(path.relative_to(root)) not in allowed
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if re.search(pattern, line)]


def compile_snippet(clang, root, build, text):
    command = [clang, "-fsyntax-only", "-std=c11", "-D_GNU_SOURCE", "-Werror=thread-safety", "-x", "c", "-"]
    command += [flag for folder in (root, build) for flag in ("-I", str(folder), "-I", str(folder / "include"))]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return result.returncode == 0, result.stderr


def check_pair(clang, root, build, pair):
    _, frame, right, wrong = pair
    good, message = compile_snippet(clang, root, build, frame.format(right))
    if not good:
        return [f"what is right is refused: {line}" for line in message.splitlines()[:4]]
    good, message = compile_snippet(clang, root, build, frame.format(wrong))
    if good:
        return [f"clang takes it: {wrong}"]
    return [] if "-Wthread-safety" in message else [f"it is refused for another reason: {message.splitlines()[0]}"]


def main():
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tap = Tap()
    uses = exemptions(root)
    tap.case(f"at most {EXEMPTIONS_MOST} exemptions", [place for place, _ in uses] if len(uses) > EXEMPTIONS_MOST else [])
    tap.case("each exemption says why", [place for place, has_reason in uses if not has_reason])
    tap.case("exemptions go by their macro", forbidden(root, r"no_thread_safety_analysis", {HEADER}))
    tap.case("mutexes are taken by class", forbidden(root, r"\bpthread_mutex_(lock|trylock|unlock)\b|\bferryi_mutex\b(?!_)",
                                                     {"src/base/thread.c", "src/base/base.h"}))
    clang = shutil.which("clang")
    for pair in PAIRS:
        if clang:
            tap.case(f"refused: {pair[0]}", check_pair(clang, root, build, pair))
        else:
            tap.skip(f"refused: {pair[0]}", "there is no clang")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
