#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts known defects back, one by one, and prints which test finds each and how fast.

usage: putback.py [--tree FOLDER] [--seconds N] [--seed N] [--list] [--check] [NAME...]

Works in a copy of the tracked files, FOLDER (default build/putback), which is built once and then again with each defect. Each
edit is a text of the source, in which white space does not count, and what replaces it; an edit whose text is not found exactly
once is reported, and counts as not found. --check only looks for the texts and the tests. The random histories play every kind of devices in turn, for N seconds (default 60) at most. Then the named tests run.
"""

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ["emulated", "lazy:2", "host", "host,emulated", "fault:2 lazy", "lazy,host,lazy", "emulated:3", "cuda lazy", "fault", "lazy", "cuda"]
ROUND = 12  # number of histories of a device before the next device
HISTORIES = "tests/histories/histories"
SETUP = ["-Dgenerator_python=/usr/bin/python3", "-Dexamples=disabled", "-Dbench=disabled", "-Dcuda=disabled"]


@dataclasses.dataclass
class Defect:
    name: str
    edits: list  # (file, text, replacement)
    tests: list = dataclasses.field(default_factory=list)  # VARIABLE=value, a program below the build folder, and its arguments


def program_of(test):
    return next(word for word in test.split() if "=" not in word)


DEFECTS = [
    Defect("resize_undersized_copy", [
        ("src/store/store_copy.c", "fresh->pointer && fresh->block->requested >= store->map.bytes", "fresh->pointer")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("resize_changes_length_later", [
        ("src/buffer/resize.c", "    ferryi_valid_map_resize(&store->map, bytes);\n    atomic_store",
         "    ferryi_store_unlock(store);\n    ferryi_store_lock(store);\n    ferryi_valid_map_resize(&store->map, bytes);\n    atomic_store")],
        ["tests/buffer/test_buffer_interleavings", "FERRY_DEVICE=emulated tests/buffer/test_buffer_resize"]),
    Defect("resize_beside_pin_or_view", [
        ("src/buffer/resize.c", "const char *why = status == FERRY_OK ? why_not(store) : NULL;", "const char *why = NULL;")]),
    Defect("view_past_end", [
        ("src/store/store_references.c", "bool fits = end <= store->map.bytes;", "bool fits = end <= SIZE_MAX;")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("wrap_ends_beside_its_eviction", [
        ("src/store/store_references.c", "        ferryi_access_outlast_calls(store);\n", "        ;\n")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("pin_of_shared_memory", [
        ("src/store/store_copy.c", "copy->block && !is_pinned_by_a_sharer(store, place)", "copy->block && store->copies[place].pins == 0"),
        ("src/store/store_copy.c", "FERRYI_REQUIRES(ferryi_store_spin)\nstatic bool\nis_pinned_by_a_sharer",
         "FERRYI_REQUIRES(ferryi_store_spin)\nstatic __attribute__((unused)) bool\nis_pinned_by_a_sharer")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("give_beside_a_compaction", [
        ("src/pool/magazine.c", "bool listed = block->list < FERRYI_POOL_CLASSES;", "bool listed = true;")],
        ["tests/unit/test_pool_compact"]),
    Defect("prefetch_keeps_its_stream", [
        ("src/copy/sync.c", "        status = ferryi_place_timeline(buffer->store, place, call.main.reason, &call.main.timeline);",
         "        call.main.timeline = place && ferryi_timeline_is_numbered(timeline) ? timeline : NULL;")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_async"]),
    Defect("rest_and_resize", [
        ("src/buffer/buffer.h", "    size_t elements = count == FERRY_REST ? all - offset : count;",
         "    size_t again = ferryi_buffer_count(buffer);\n"
         "    size_t elements = count != FERRY_REST ? count : again > offset ? again - offset : 0;")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("rest_is_out_of_range", [
        ("src/buffer/buffer.h", "return status == FERRY_ERROR_OUT_OF_RANGE && count == FERRY_REST &&\n           ferryi_last_error_is_resized();",
         "return false && status == FERRY_ERROR_OUT_OF_RANGE && count == FERRY_REST;")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("status_means_resized", [
        ("src/buffer/buffer.h", "count == FERRY_REST &&\n           ferryi_last_error_is_resized();", "count == FERRY_REST;")],
        ["tests/buffer/test_buffer_waits"]),
    Defect("wait_does_not_ask", [
        ("src/store/claim.c", "if (!access->timeline &&\n        ferryi_pending_calls_are_at", "if (false &&\n        ferryi_pending_calls_are_at")],
        ["tests/buffer/test_buffer_waits"]),
    Defect("scope_wait_does_not_ask", [
        ("src/buffer/scope.c", "return matter ? ferryi_access_check_kernels(&bytes) : FERRY_OK;",
         "return matter && false ? ferryi_access_check_kernels(&bytes) : FERRY_OK;")],
        ["tests/buffer/test_buffer_waits"]),
    Defect("rest_does_not_reach_the_end", [
        ("src/buffer/scope_hit.h", "return to_end ? range.end == store->map.bytes : range.end <= store->map.bytes;",
         "return range.end <= store->map.bytes || to_end;")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("resize_snapshot_state", [
        ("src/buffer/info.c", "size_t end = ferryi_min_size(range.end, store->map.bytes);", "size_t end = range.end;")],
        ["tests/buffer/test_buffer_interleavings"]),
    Defect("resize_snapshot_move", [
        ("src/store/store_map.c", "size_t end = ferryi_min_size(range.end, store->map.bytes);\n    for (size_t at = range.begin; at < end; at = out->end)",
         "size_t end = range.end;\n    for (size_t at = range.begin; at < end; at = out->end)")]),
    Defect("evict_reads_length_early", [
        ("src/buffer/place.c", "{.store = store, .whole = true, .access = FERRYI_ACCESS_DROP,", "{.store = store, .end = store->map.bytes, .access = FERRYI_ACCESS_DROP,")]),
    Defect("kernel_failure_resize", [
        ("src/store/store_loss.c", "end = ferryi_min_size(range.end, store->map.bytes);\n    char *old", "end = range.end;\n    char *old")],
        ["tests/buffer/test_buffer_pending_calls"]),
    Defect("failed_open_commits", [
        ("src/buffer/access.c", "    if (status == FERRY_OK && !is_hit) {\n        status = ferryi_bring_run(&bringing);\n",
         "    ferryi_store_lock(store);\n    ferryi_claim_end_relied(access, true);\n    ferryi_store_unlock(store);\n"
         "    if (status == FERRY_OK && !is_hit) {\n        status = ferryi_bring_run(&bringing);\n")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_together"]),
    Defect("coherent_source", [
        ("src/map/coherence.c", "int holder = lowest_from(places & same, 0);", "int holder = lowest_from(places & same & 0, 0);")],
        ["tests/unit/test_coherence"]),
    Defect("evict_under_write", [
        ("src/store/claim.c", "bool needed = ferryi_claim_writes(claim->access) &&", "bool needed = false && ferryi_claim_writes(claim->access) &&")]),
    Defect("read_only_wrap_written", [
        ("src/buffer/place.c", "if (is_read_only)", "if (false && is_read_only)")]),
    Defect("stale_scope_copy", [
        ("src/store/store.c", "store->next_id = context->last_id;", "store->next_id = 0;")],
        ["tests/buffer/test_buffer_together", "tests/buffer/test_buffer_scopes"]),
    Defect("abandon_never_written", [
        ("src/map/coherence.c", "return places == 0 ? FERRYI_ZEROS | bit : places | bit;", "return places | bit;")],
        ["tests/unit/test_coherence"]),
    Defect("callbacks_wait", [
        ("src/base/blocked.c", "bool has = is_blocked(runner, 0);", "bool has = false && is_blocked(runner, 0);"),
        ("src/base/callback.h", "__builtin_expect(ferryi_callback_only_watches(), 0)",
         "__builtin_expect(false && ferryi_callback_only_watches(), 0)")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_callbacks"]),
    Defect("shortages_wait_for_each_other", [
        ("src/base/blocked.c", "(each->in_callback || is_blocked(each->behind, queue + 1))", "each->in_callback")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_blocked"]),
    Defect("on_release_ends_context", [
        ("src/context.c", "if (last && ferryi_callback_thread.innermost &&", "if (false && last && ferryi_callback_thread.innermost &&")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_callbacks"]),
    Defect("async_waits_for_itself", [
        ("src/buffer/evict.c", "               ? !ferryi_callback_thread.context\n               : claim->thread != ferryi_thread_id() && !waits_longer(claim->thread, own);",
         "               || claim->thread != ferryi_thread_id() || ferryi_callback_thread.context || own;")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_evict"]),
    Defect("queued_launches_stay", [
        ("src/store/pending_calls.c", "while (pending_calls->count > 0 && (!entry_at(pending_calls, 0)->pending",
         "while (false && (!entry_at(pending_calls, 0)->pending")],
        ["tests/unit/test_launch"]),
    Defect("wrap_alignment_waste", [
        ("src/buffer/buffer.c", "lowest_bit ? ferryi_min_size(lowest_bit, FERRYI_POOL_ALIGN) : FERRYI_POOL_ALIGN",
         "lowest_bit ? ferryi_min_size(lowest_bit, MAX_ALIGN) : MAX_ALIGN")]),
    Defect("prefetch_logs_an_error", [
        ("src/copy/sync.c", "call.is_hint = true;", "call.is_hint = false;")],
        ["FERRY_DEVICE=emulated tests/buffer/test_buffer_async"]),
    Defect("complex_truncate_tail", [
        ("src/convert/kernels.c", "    LOOP_PARTS(from, to, nearest) LOOP_PARTS(from, to, toward_zero) SEARCH_PARTS(from, to)\n",
         "    ROUNDED_PLAIN(from, to, working)\n")],
        ["tests/unit/test_convert"]),
]


def run(command, seconds=None, cwd=None):
    """(exit status, seconds, output); None where it ran out of time."""
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
        return done.returncode, time.monotonic() - began, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        return None, time.monotonic() - began, (late.stdout or b"").decode(errors="replace")


def copy_tree(tree):
    """Files that are as they were keep their time, so that the next build is short."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, tree / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def build(tree, targets):
    status, _, output = run(["ninja", "-C", "build", "-j2", *targets], cwd=tree)
    return "" if status == 0 else output[-2000:]


def play_histories(tree, seconds, seed):
    """How long until a history fails, and which; None when none does."""
    began = time.monotonic()
    first = seed
    while True:
        for device in DEVICES:
            left = seconds - (time.monotonic() - began)
            if left <= 0:
                return None, time.monotonic() - began
            status, _, output = run([tree / "build" / HISTORIES, "--device", device, "--seed-range", f"{first}:{first + ROUND}", "--seconds", "10",
                                     "--shrink", "no", "--print", tree / "found.c"], left + 30)
            if status is None:
                continue  # only the machine is slow: a call that hangs would be ended by the time limit of the histories
            if status != 0:
                found = re.search(r"--seed (\d+)", output)
                reason = re.findall(r"player \d+, step \d+, (\w+):|scenes\w*\.c:(\d+)|signal (\d+)", output)
                word = next((" ".join(filter(None, groups)) for groups in reason), "no answer")
                return f"seed {found.group(1) if found else first} on {device} ({word})", time.monotonic() - began
        first += ROUND


def pattern_of(text):
    """The text however it is broken into lines."""
    return re.compile(r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", text))))


def problem_of(tree, defect):
    """What is wrong with the edits, or nothing."""
    for path, text, _ in defect.edits:
        if not (tree / path).is_file() or len(pattern_of(text).findall((tree / path).read_text(encoding="utf-8"))) != 1:
            return f"{path}: the text of the edit is not there exactly once"
    return ""


def edit(tree, defect):
    """What is wrong with the edits, or nothing; then they are made."""
    problem = problem_of(tree, defect)
    for path, text, replacement in defect.edits if not problem else ():
        source = (tree / path).read_text(encoding="utf-8")
        (tree / path).write_text(pattern_of(text).sub(lambda _, new=replacement: new, source), encoding="utf-8")
    return problem


def source_of(program):
    """A test program of a suite is named after its source, in some suites with the suite before it."""
    folder, name = program.rsplit("/", 1)
    return ROOT / folder / (name.replace(f"test_{folder.rsplit('/', 1)[-1]}_", "test_") + ".c")


def check():
    for defect in DEFECTS:
        problem = problem_of(ROOT, defect)
        if problem:
            yield f"{defect.name}: {problem}"
        for program in map(program_of, defect.tests):
            if not source_of(program).is_file():
                yield f"{defect.name}: there is no test {program}"


def try_defect(tree, defect, options, targets):
    problem = edit(tree, defect) or build(tree, targets)
    if problem:
        return [f"not tried: {problem}"], False
    rows = []
    found, seconds = play_histories(tree, options.seconds, options.seed)
    rows.append(f"histories, {found}, {seconds:.1f} s" if found else f"histories: not in {seconds:.0f} s")
    for test in defect.tests:
        words = [tree / "build" / word if word == program_of(test) else word for word in test.split()]
        status, took, _ = run(["env", *words], 300)
        rows.append(f"{test}: {'not' if status == 0 else 'found'}, {took:.1f} s")
    return rows, any("not" not in row for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/putback")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    chosen = [defect for defect in DEFECTS if not options.names or defect.name in options.names]
    if options.list:
        print("\n".join(defect.name for defect in chosen))
        return 0
    if options.check:
        problems = list(check())
        for problem in problems:
            print(problem)
        return 1 if problems else 0
    tree = options.tree.resolve()
    targets = sorted({HISTORIES, "tests/support/libinterleave.so", "tests/support/libfakecuda.so",
                      *(program_of(test) for defect in chosen for test in defect.tests)})
    copy_tree(tree)
    if not (tree / "build/build.ninja").exists():
        subprocess.run(["meson", "setup", "build", *SETUP], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    problem = build(tree, targets)
    if problem:
        print(problem)
        return 2
    missed = 0
    for defect in chosen:
        rows, found = try_defect(tree, defect, options, targets)
        missed += not found
        print(f"| {defect.name} | {'found' if found else 'MISSED'} | {'; '.join(rows)} |", flush=True)
        copy_tree(tree)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
