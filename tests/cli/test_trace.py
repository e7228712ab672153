#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a traced program writes, and what `ferry trace` makes of it.

usage: test_trace.py COMMAND TRACED SCHEMA
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "cli" / "report"))
import ferry_svg  # noqa: E402
import ferry_trace  # noqa: E402
import ferry_trace_report  # noqa: E402

BYTES = 4096 * 4   # size of each small buffer of the program
ROUNDS = 10
SVG = "{http://www.w3.org/2000/svg}"
STREAM_TRACKS = 1_000_000_000


def expect(*conditions):
    """Problems of a case: the descriptions of the conditions that do not hold."""
    return [text for holds, text in conditions if not holds]


class Programs:
    """The command and the traced program, in a folder of their own."""

    def __init__(self, command, traced, folder):
        self.command, self.traced, self.folder = os.path.abspath(command), os.path.abspath(traced), pathlib.Path(folder)

    def run(self, how, path=None, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FERRY_")}
        for name in ("FERRY_DEBUG",):
            if name in os.environ:
                environment[name] = os.environ[name]
        words = [self.traced, how] + ([str(path)] if path else [])
        return subprocess.run(words, env={**environment, **variables}, cwd=self.folder, capture_output=True, text=True, check=False)

    def trace(self, *arguments, text=None):
        return subprocess.run([self.command, "trace", *map(str, arguments)], cwd=self.folder, input=text, capture_output=True, text=True,
                              check=False)

    def summary(self, *arguments):
        done = self.trace("--json", "--top", 1000, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


# -- the file ---------------------------------------------------------------------------------------


def check_nesting(events):
    """On each track, events that last lie in each other or apart."""
    problems = []
    for track in {e["tid"] for e in events if e["ph"] == "X"}:
        spans = sorted(((e["ts"], -e["dur"], e["name"]) for e in events if e["ph"] == "X" and e["tid"] == track))
        ends = []
        for begin, minus, name in spans:
            while ends and ends[-1] <= begin + 1e-6:
                ends.pop()
            end = begin - minus
            if ends and end > ends[-1] + 2e-3:
                problems.append(f"track {track}: {name} at {begin} ends at {end}, after what it began in, {ends[-1]}")
            ends.append(end)
    return problems


def check_times(events):
    """The entries of a thread are in the order of their ends."""
    last, problems = {}, []
    for event in events:
        if event["ph"] == "M" or event["tid"] >= STREAM_TRACKS:
            continue
        end = event["ts"] + event.get("dur", 0)
        if end < last.get(event["tid"], 0) - 2e-3:
            problems.append(f"track {event['tid']}: {event['name']} ends at {end}, after an entry of {last[event['tid']]}")
        last[event["tid"]] = end
    return problems


def check_scopes(events):
    """Each scope that closes was opened, and once."""
    is_open, problems = set(), []
    for event in events:
        if event["ph"] == "b":
            if event["id"] in is_open:
                problems.append(f"scope {event['id']} opens twice")
            is_open.add(event["id"])
        elif event["ph"] == "e":
            if event["id"] not in is_open:
                problems.append(f"scope {event['id']} closes, but was not open")
            is_open.discard(event["id"])
    return problems + [f"scope {name} was never closed" for name in is_open]


def check_tracks(events):
    """Each track has its name before its first event."""
    named, problems = set(), []
    for event in events:
        if event["ph"] == "M" and event["name"] == "thread_name":
            named.add(event["tid"])
        elif event["ph"] != "M" and event["tid"] not in named:
            problems.append(f"track {event['tid']} has no name at its first event")
            named.add(event["tid"])
    return problems


def check_counters(events):
    """The counter of a pool is what it grew by less what it shrank by."""
    sums, problems = {}, []
    for event in events:
        if event["cat"] != "pool":
            continue
        if event["ph"] == "X":
            key = f"{event['args']['memory']} memory of {event['args']['place']}"
            sums[key] = sums.get(key, 0) + {"grow": 1, "shrink": -1}.get(event["name"], 0) * event["args"]["bytes"]
        elif event["args"]["bytes"] != sums.get(event["name"]):
            problems.append(f"{event['name']}: {event['args']['bytes']}, expected {sums.get(event['name'])}")
    return problems + [f"{name} ends with {left} bytes" for name, left in sums.items() if left]


def check_file(tap, name, path, schema):
    events = json.loads(path.read_text())
    tap.case(f"{name}: nesting", check_nesting(events))
    tap.case(f"{name}: times of each track", check_times(events))
    tap.case(f"{name}: scopes", check_scopes(events))
    tap.case(f"{name}: names of tracks", check_tracks(events))
    tap.case(f"{name}: counters", check_counters(events))
    try:
        import jsonschema
    except ImportError:
        tap.skip(f"{name}: schema", "the Python package jsonschema is not installed")
        return events
    if not hasattr(jsonschema, "Draft202012Validator"):
        tap.skip(f"{name}: schema", "the Python package jsonschema is too old")
        return events
    errors = jsonschema.Draft202012Validator(schema).iter_errors(events)
    tap.case(f"{name}: schema", [f"event {list(e.path)}: {e.message}" for e in errors][:5])
    return events


def check_perfetto(tap, path):
    processor = shutil.which("trace_processor") or shutil.which("trace_processor_shell")
    if not processor:
        tap.skip("Perfetto reads the trace", "trace_processor is not installed")
        return
    query = path.with_suffix(".sql")
    query.write_text("select count(*) from slice where category = 'transfer';\n")
    done = subprocess.run([processor, "-q", str(query), str(path)], capture_output=True, text=True, check=False)
    expected = sum(e["cat"] == "transfer" for e in json.loads(path.read_text()))
    tap.case("Perfetto reads the trace", expect((done.returncode == 0, done.stderr), (str(expected) in done.stdout.split(), done.stdout)))


def check_known_events(tap, events):
    def of(category, **members):
        return [e for e in events if e["cat"] == category and all(e["args"].get(k) == v for k, v in members.items())]

    pong = of("transfer", buffer="pong")
    tap.case("the transfers of a buffer", expect(
        ([e["name"] for e in pong] == ["upload", "download"] * ROUNDS, str([e["name"] for e in pong])),
        (all(e["args"]["bytes"] == BYTES and e["args"]["offset"] == 0 for e in pong), "bytes and offset"),
        ({(e["name"], e["args"]["reason"], e["args"]["from"], e["args"]["to"]) for e in pong} ==
         {("upload", "update_device", "host", "emulated:0"), ("download", "update_host", "emulated:0", "host")}, "reason, from and to"),
        (len({e["args"]["id"] for e in pong}) == 1, "one id")))
    launches = [e for e in events if e["cat"] == "launch"]
    tap.case("launches", expect(([e["name"] for e in launches] == ["add_one"] * 2, str(launches)),
                                (all(e["args"]["place"] == "emulated:0" for e in launches), "place")))
    queued = [e for e in events if e["cat"] == "queue"]
    tap.case("tracks of streams", expect(
        (sum(e["name"] == "add_one" for e in queued) == 2, "launches on a stream's track"),
        (all(e["tid"] >= STREAM_TRACKS for e in queued), "stream tracks"),
        (sum(e["name"] == "upload" for e in queued) >= ROUNDS, "uploads on a stream's track")))
    evicted = [e for e in events if e["cat"] == "evict"]
    tap.case("evictions", expect((("first" in {e["args"].get("buffer") for e in evicted}), str(evicted))))
    waits = {e["name"] for e in events if e["cat"] == "wait"}
    tap.case("waits", expect(("wait for an event" in waits or "wait for a stream" in waits, str(waits))))
    names = {e["args"].get("buffer") for e in events}
    tap.case("a name that needs escapes", expect(('quote " back \\ tab   byte ? end' in names, str(names))))
    pieces = of("piece")
    tap.case("pieces of one transfer", expect(
        (sorted((e["args"]["offset"], e["args"]["bytes"]) for e in pieces) == [(0, 400), (4000, 800)], str(pieces)),
        (all(e["args"]["from"] == "caller" for e in pieces), "from the caller's memory")))
    copies = [e for e in of("transfer", buffer="of a thread") if e["args"]["reason"] == "copy_from"]
    copiers = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    tap.case("threads", expect((len(copies) == 15, f"{len(copies)} copies"), (len({e["tid"] for e in copies}) == 3, "tracks"),
                               ({e["tid"] for e in copies} <= copiers, "names of tracks")))
    reads = of("scope", buffer="used", access="read")
    tap.case("scopes that are hits", expect((len(reads) == 2, str(reads))))


TEXT_MOST = 96  # maximum number of bytes of a text


def written(name):
    """What the trace makes of a name, of bytes."""
    name, text = name[:TEXT_MOST], ""
    while name:
        for length in range(1, 5):
            try:
                text, name = text + name[:length].decode("utf-8"), name[length:]
                break
            except UnicodeDecodeError:
                continue
        else:
            text, name = text + "?", name[1:]
    return "".join(" " if character < " " or character == "\x7f" else character for character in text)


def check_names(tap, programs):
    """Names of every length, with every byte at every place of a word of eight."""
    names = [b"x" * length for length in (*range(1, 20), 95, 96, 97, 200)]
    names += [b"abcdefgh"[:at] + bytes([byte]) + b"abcdefghij"[:after] for byte in range(1, 256) if byte not in b"\n~" for at in range(9) for after in (0, 3, 10)]
    names += [b"x" * (96 - at) + "\u20ac".encode() + b"y" * 100 for at in range(5)]
    names += [b"x" * at + "gr\u00f6\u00dfe \u20ac \U0001f600 \" \\".encode() + b"~end" for at in range(9)]
    names += [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xff" * 200, b'"' * 200, b"\x01" * 200]
    path = programs.folder / "names.json"
    done = subprocess.run([programs.traced, "names", str(path)], input=b"".join(name + b"\n" for name in names), capture_output=True, check=False)
    events = json.loads(path.read_text("utf-8"))
    for category, phase in (("buffer", "i"), ("scope", "b"), ("scope", "e")):
        found = [e["args"].get("buffer") for e in events if e["cat"] == category and e["ph"] == phase]
        expected = [written(name.replace(b"~", b"\n")) for name in names]
        tap.case(f"names of buffers, in {category} {phase}", expect(
            (done.returncode == 0, str(done.stderr)), (len(found) == len(names), f"{len(found)} of {len(names)}"),
            *((seen == text, f"{name}: {seen!r}, expected {text!r}") for name, seen, text in zip(names, found, expected)))[:5])
    numbers = [e["args"]["id"] for e in events if e["cat"] == "buffer"]
    tap.case("numbers of buffers", expect((numbers == list(range(1, len(names) + 1)), str(numbers[:20]))))


# -- the summary ------------------------------------------------------------------------------------


def buffer_of(summary, name):
    found = [b for b in summary["buffers"] if b["name"] == name]
    assert len(found) == 1, (name, found)
    return found[0]


def plain(moved):
    """Counts and bytes by direction, without times."""
    return {direction: {"count": figures["count"], "bytes": figures["bytes"]} for direction, figures in moved.items()}


def check_known_summary(tap, programs, path):
    summary = programs.summary(path)
    moved = plain(buffer_of(summary, "pong")["moved"])
    both = {"upload": {"count": ROUNDS, "bytes": ROUNDS * BYTES}, "download": {"count": ROUNDS, "bytes": ROUNDS * BYTES}}
    tap.case("bytes by buffer", expect((moved == both, str(moved)), (buffer_of(summary, "pong")["bytes"] == BYTES, "size")))
    reasons = {r["reason"]: plain(r["moved"]) for r in summary["reasons"]}
    # Each of the buffers needless, half, used, left, held and filled is updated on the device exactly once.
    tap.case("bytes by reason", expect(
        (reasons["update_device"] == {"upload": {"count": ROUNDS + 6, "bytes": (ROUNDS + 6) * BYTES}}, str(reasons)),
        (reasons["update_host"] == {"download": both["download"]}, str(reasons)),
        (reasons["launch"] == {"upload": {"count": 1, "bytes": BYTES}}, str(reasons))))
    total = sum(r["upload"]["bytes"] for r in reasons.values() if "upload" in r)
    tap.case("the reasons add up", expect((total == summary["moved"]["upload"]["bytes"], f"{total}")))
    needless = [(f["buffer"], f["reason"], f["count"], f["bytes"]) for f in summary["overwritten_unread"]]
    tap.case("fetches that were overwritten unread", expect((
        needless == [("needless", "update_device", 1, BYTES), ("filled", "update_device", 1, BYTES)], str(needless))))
    updates = {(f["buffer"], f["reason"]): (f["count"], f["bytes"]) for f in summary["fetched_for_update"]}
    tap.case("fetches for updates", expect(
        (updates.get(("pong", "update_device")) == (ROUNDS, ROUNDS * BYTES), str(updates)),
        (updates.get(("pong", "update_host")) == (ROUNDS, ROUNDS * BYTES), str(updates)), (("hit", "read_device") not in updates, "a read")))
    rounds = summary["round_trips"]
    tap.case("round trips", expect(
        ([(r["buffer"], r["offset"], r["bytes"], r["round_trips"]) for r in rounds] == [("pong", 0, BYTES, ROUNDS)], str(rounds))))
    tap.case("a larger threshold of round trips", expect(
        (len(programs.summary(path, "--round-trips", 10)["round_trips"]) == 1, "10"),
        (programs.summary(path, "--round-trips", 11)["round_trips"] == [], "11")))
    tap.case("evictions and launches", expect((summary["evictions"] >= 1, "evictions"), (summary["launches"] == 2, "launches"),
                                              (summary["complete"] is True, "complete")))
    longest = summary["longest"]
    tap.case("the longest transfers", expect(
        (len(longest) > 10, f"{len(longest)}"), ([e["ns"] for e in longest] == sorted((e["ns"] for e in longest), reverse=True), "order"),
        (longest[0]["trace"] == str(path), longest[0]["trace"])))
    held = [f for f in summary["overwritten_unread"] if f["buffer"] == "held"]
    tap.case("no verdict on held copies", expect((not held, str(held))))


def check_text(tap, programs, path):
    picture = programs.folder / "timeline.svg"
    done = programs.trace("--svg", picture, path)
    words = ("By buffer", '"pong"', "GB/s", "FERRY_OVERWRITE", '"needless"')
    tap.case("the summary as text", expect(
        (done.returncode == 0, done.stderr), *((w in done.stdout, f"no {w}") for w in words),
        (re.search(r'round trips +bytes +at byte\n +#1 "pong" +10 +16.00 KiB +0\n', done.stdout), "round trips"),
        (not re.search(" $", done.stdout, re.M), "spaces at the end of a line")))
    root = xml.etree.ElementTree.parse(picture).getroot()
    texts = [t.text for t in root.iter(f"{SVG}text")]
    tap.case("the timeline", expect(
        (root.tag == f"{SVG}svg", root.tag), (len(list(root.iter(f"{SVG}rect"))) > 20, "few marks"),
        (any("stream" in (t or "") for t in texts), "no row of a stream"), (any("traced" in (t or "") for t in texts), "no row of a thread")))


def check_foreign_texts(tap, programs):
    """A trace by another program: its texts have control characters and bytes that are not UTF-8."""
    path = programs.folder / "foreign.json"
    evil = b"\\u001b[31m\\u0007\x7f\x9b\xc2\x9b\xff\xed\xa0\x80\xf5\xe2\x82 \xe2\x82\xac"
    move = (b'{"ph":"X","cat":"transfer","name":"upload","pid":1,"tid":1,"ts":%d,"dur":5,"args":{"buffer":"b' + evil + b'","id":1,"reason":"r' + evil +
            b'","offset":0,"bytes":64,"from":"f' + evil + b'","to":"t' + evil + b'","move":1}},\n')
    use = (b'{"ph":"b","cat":"scope","name":"update_device","pid":1,"tid":1,"ts":1,"id":"1.1","args":{"buffer":"b' + evil +
           b'","id":1,"offset":0,"bytes":64,"access":"update","place":"t' + evil + b'"}},\n')
    path.write_bytes(b"[\n" + move % 1 + use + move % 9 +
                     b'{"ph":"X","cat":"wait","name":"w' + evil + b'","pid":1,"tid":1,"ts":2,"dur":5,"args":{}}\n]\n')
    for option in ([], ["--json"]):
        done = subprocess.run([programs.command, "trace", *option, str(path)], capture_output=True, check=False)
        try:
            text = done.stdout.decode("utf-8")
        except UnicodeDecodeError as error:
            text, done.returncode = str(error), 99
        controls = {c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7f <= ord(c) < (0xa0 if not option else 0x80)}
        found = all(word in text for word in ("b", "r", "f", "t", "w")) and text.count("\u20ac") >= 5
        problems = expect((done.returncode == 0, text), (not controls, f"control characters {controls!r}"), (found, text))
        if option and not problems:
            json.loads(text)
        tap.case("texts of a foreign trace " + ("as JSON" if option else "as text"), problems)


def lists_of(summary):
    return {name: rows for name, rows in summary.items() if type(rows) is list}


def check_lists(tap, programs, known):
    """Temporaries are one row, and --top holds for every list."""
    path = programs.folder / "temporaries.json"
    done = programs.run("temporaries", path)
    rows = [(b["name"], b["bytes"], b["count"], plain(b["moved"])["upload"]["count"]) for b in programs.summary(path)["buffers"]]
    tap.case("temporaries are summed", expect((done.returncode == 0, done.stderr), (
        sorted(rows) == [("", 4, 200, 200), ("", 8, 1, 1), ("scratch", 4, 50, 50)], str(rows))))
    text = programs.trace(path).stdout
    tap.case("temporaries as text", expect(("200 buffers without a name of 4 B" in text and '50 buffers "scratch" of 4 B' in text, text)))
    whole = programs.summary(known)
    for top in (0, 2):
        lists, left_out = lists_of(programs.summary("--top", top, known)), programs.summary("--top", top, known)["left_out"]
        tap.case(f"--top {top} holds for every list", expect(
            (set(left_out) == set(lists) and len(lists) == 8, str(left_out)),
            *((len(rows) == min(top, len(whole[name])) and len(rows) + left_out[name] == len(whole[name]), name) for name, rows in lists.items())))
    text = programs.trace("--top", 2, known).stdout
    parts = [part.splitlines() for part in text.split("\n\n")[2:]]
    tap.case("--top as text", expect((len(parts) >= 5, text), *(
        (sum(bool(re.match(r"  (?!and \d)\S", line)) for line in part) <= 2, "\n".join(part)) for part in parts)))


def check_rates(tap, programs):
    """Bytes through time, of transfers whose time the trace has. That of a fill is the time of queueing it."""
    path = programs.folder / "rates.json"
    whole = '{"ph":"X","cat":"transfer","name":"%s","pid":1,"tid":1,"ts":1,"dur":%d,"args":{"id":%d,"buffer":"b","reason":"copy","bytes":%d,"from":"host","to":"cuda:0"}}'
    piece = '{"ph":"i","cat":"piece","name":"piece","pid":1,"tid":1,"ts":1,"s":"t","args":{"id":1,"buffer":"b","bytes":1000,"offset":0,"from":"host","to":"cuda:0"}}'
    path.write_text("[\n" + ",\n".join([whole % ("upload", 100, 1, 1000000), whole % ("upload", 300, 1, 1000000), whole % ("fill", 10, 1, 50), piece]) + "]\n")
    summary = programs.summary(path)
    moved = buffer_of(summary, "b")["moved"]
    tap.case("GB/s", expect(
        (moved["upload"] == {"count": 3, "bytes": 2001000, "ns": 400000, "gb_per_s": 5.0}, str(moved)),
        (moved["fill"]["gb_per_s"] is None, str(moved)), (summary["moved"]["upload"]["gb_per_s"] == 5.0, str(summary["moved"]))))
    text = programs.trace(path).stdout
    tap.case("GB/s as text", expect((re.search(r"^  #1 \"b\" +upload +3 +1.91 MiB +5.000\n +fill +1 +50 B +-$", text, re.M), text)))


def check_ranks(tap, programs, known):
    """Traces of several processes are one report."""
    other = programs.folder / "known.json.rank1"
    programs.run("known", other)
    one, both = programs.summary(known), programs.summary(known, other)
    pong = buffer_of(both, "pong")
    tap.case("two ranks", expect(
        (sorted(part["path"] for part in both["traces"]) == sorted(map(str, (known, other))), str(both["traces"])),
        (both["events"] == sum(part["events"] for part in both["traces"]), "events"), (both["launches"] == 2 * one["launches"], "launches"),
        (plain(both["moved"]) == {name: {key: 2 * value for key, value in figures.items()} for name, figures in plain(one["moved"]).items()}, "moved"),
        (pong["count"] == 2 and pong["moved"]["upload"]["bytes"] == 2 * ROUNDS * BYTES, str(pong)),
        ([(r["buffer"], r["round_trips"]) for r in both["round_trips"]] == [("pong", ROUNDS)] * 2, str(both["round_trips"])),
        (sum(b["count"] for b in both["buffers"]) == 2 * sum(b["count"] for b in one["buffers"]), "buffers")))
    picture = programs.folder / "ranks.svg"
    done = programs.trace("--svg", picture, known, other)
    texts = [t.text or "" for t in xml.etree.ElementTree.parse(picture).getroot().iter(f"{SVG}text")]
    tap.case("two ranks as text and as a picture", expect(
        ("events of 2 traces" in done.stdout and '2 buffers "pong"' in done.stdout, done.stdout), (f"\n  {other} " in done.stdout, "no row of the rank"),
        (any(text.startswith("known.json.rank1: ") for text in texts) and any(text.startswith("known.json: ") for text in texts), str(texts))))
    cut = programs.folder / "cut.json"
    cut.write_text(known.read_text()[:-500])
    both = programs.summary(known, cut)
    tap.case("one of two traces is cut", expect((not both["complete"] and sorted(part["complete"] for part in both["traces"]) == [False, True], str(both["traces"])),
                                                ("1 of them end early" in programs.trace(known, cut).stdout, "text")))


def mutate(draw, data, others):
    """Bytes of a trace that no program wrote."""
    data = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        how = draw.randrange(5)
        if how == 0:
            data[at:at + 1] = bytes([draw.randrange(256)])
        elif how == 1:
            del data[at:at + draw.randint(1, 40)]
        elif how == 2:
            data[at:at] = draw.choice([b"{", b"}", b"[", b"]", b'"', b",", b"\\u12", b"-", b"1e999", b"NaN", b"9" * 30, b"null", b"[" * 3000, b"\xff"])
        elif how == 3:
            other = draw.choice(others)
            begin = draw.randrange(len(other) + 1)
            data[at:at] = other[begin:begin + draw.randint(1, 300)]
        else:
            del data[at:]
    return bytes(data)


def check_lines(tap):
    """Each event has its line, however the file is laid out."""
    one = '{"ph":"i","cat":"use","name":"n","tid":1,"ts":1,"args":{"id":1}}'
    for name, text in (("as Ferry writes it", f"[\n{one},\n{one},\n{one}\n]\n"), ("spread", f"[{one}\n\n,\n{one.replace(',', ',' + chr(10))},{one}]")):
        found = [event.line for event in ferry_trace.Reader(text.encode())]
        wanted = [2, 3, 4] if "Ferry" in name else [1, 4, 9]
        tap.case(f"lines of events, {name}", expect((found == wanted, str(found))))


def check_mutations(tap, seconds=2):
    """Whatever a file holds, it is a report or a problem with its line."""
    corpus = [path.read_bytes() for path in sorted(pathlib.Path(__file__).with_name("traces").iterdir())]
    draw, problems, reports, ends = random.Random(42), [], 0, time.monotonic() + seconds
    for count in range(3000):
        data = corpus[count] if count < len(corpus) else mutate(draw, draw.choice(corpus), corpus)
        if time.monotonic() > ends or problems:
            break
        summary = ferry_trace.Summary()
        try:
            summary.add("trace", data, keeps_marks=True)
        except ferry_trace.Problem as problem:
            if not 1 <= problem.line <= data.count(b"\n") + 1 or len(str(problem)) < 5:
                problems.append(f"line {problem.line}: {problem}: {data[:200]}")
            continue
        report = ferry_trace_report.Report(summary, 5, 1)
        text = "\n".join(ferry_trace_report.text_lines(report)) + json.dumps(ferry_trace_report.json_of(report), allow_nan=False)
        text.encode("utf-8")
        xml.etree.ElementTree.fromstring(ferry_svg.timeline(summary.parts).encode("utf-8"))
        reports += 1
    tap.case("traces that no program wrote", problems + expect((reports > 20, f"{reports} of {count} were traces")))


# -- odd ends ---------------------------------------------------------------------------------------


def check_ends(tap, programs):
    path = programs.folder / "crashed.json"
    done = programs.run("abort", path)
    text = path.read_text()
    whole = text[:text.rindex(",\n")] + "]"
    events = json.loads(whole)
    summary = programs.summary(path)
    tap.case("a program that aborts", expect(
        (done.returncode == -signal.SIGABRT, f"{done.returncode}"), (len(events) > 1000, f"{len(events)} events"),
        (summary["complete"] is False, "not known to be cut"), (summary["events"] == len(events), f"{summary['events']} of {len(events)}"),
        (text.endswith(",\n"), "ends inside a line")))
    problems = []
    for cut in [*range(1, 700), *range(len(text) - 300, len(text), 29)]:
        part = ferry_trace.Summary()
        try:
            part.add("cut.json", text[:cut].encode())
        except ferry_trace.Problem as problem:
            problems.append(f"cut at {cut}: line {problem.line}: {problem}")
        problems += expect((part.parts[0].is_cut or problems, f"cut at {cut}: not known to be cut"))
    tap.case("traces that are cut anywhere", problems[:3])
    path = programs.folder / "exited.json"
    done = programs.run("exit", path)
    summary = programs.summary(path)
    tap.case("a program that exits without destroying its context", expect(
        (done.returncode == 0, done.stderr), (summary["moved"]["download"]["count"] == ROUNDS, str(summary["moved"])), (summary["complete"] is False, "complete")))
    path = programs.folder / "forked.json"
    done = programs.run("fork", path)
    events = json.loads(path.read_text())
    tap.case("children write nothing", expect(
        (done.returncode == 0, done.stderr), (len({e["pid"] for e in events}) == 1, "several processes"),
        (sum(e["cat"] == "transfer" for e in events) == 2 * ROUNDS, "transfers")))


def check_files(tap, programs):
    path = programs.folder / "run.json"
    done = programs.run("contexts", FERRY_TRACE=str(path))
    first, second = programs.summary(path), programs.summary(f"{path}.2")
    tap.case("the environment numbers contexts", expect(
        (done.returncode == 0, done.stderr), (first["launches"] == 0, "first"), (second["launches"] == 2, "second")))
    path = programs.folder / "option.json"
    programs.run("known", path, FERRY_TRACE="/dev/null/absent/other")
    tap.case("the option is stronger than the environment", expect((path.exists(), "no file")))
    for how, arguments, variables in (("option", ["/dev/null/absent/a"], {}), ("environment", [], {"FERRY_TRACE": "/dev/null/absent/a"})):
        done = programs.run("refused", *arguments, **variables)
        lines = done.stdout.splitlines()
        tap.case(f"a file that cannot be made, by {how}", expect(
            (lines[0] == "FERRY_ERROR_IO", done.stdout), ("/dev/null/absent/a" in lines[1], done.stdout), (lines[2] == "none", "a context")))
    done = programs.run("refused", FERRY_TRACE="")
    tap.case("an empty name is none", expect((done.stdout.startswith("FERRY_OK"), done.stdout)))
    if pathlib.Path("/dev/full").exists():
        done = programs.run("refused", "/dev/full")
        tap.case("a full disk from the beginning", expect((done.stdout.startswith("FERRY_ERROR_IO"), done.stdout)))
    done = programs.run("callback", programs.folder / "callback.json")
    tap.case("a hit in a watching callback", expect((done.returncode == 0, done.stderr)))


def check_limit(tap, programs):
    """The file may not grow beyond a limit, as on a full disk."""
    path = programs.folder / "full.json"
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    done = subprocess.run([programs.traced, "full", str(path)], capture_output=True, text=True, check=False, preexec_fn=limit)
    lines = [line for line in done.stderr.splitlines() if "trace" in line]
    summary = programs.summary(path)
    tap.case("a disk that fills", expect(
        (done.returncode == 0, done.stderr), (len(lines) == 1 and "log 1:" in lines[0] and str(path) in lines[0], done.stderr),
        (summary["complete"] is False, "complete"), (path.stat().st_size == 100000, f"{path.stat().st_size}")))


def check_pipes(tap, programs):
    """The trace goes to a pipe, whose reader goes."""
    for how in ("pipe", "pipe-exit"):
        path = programs.folder / f"{how}.fifo"
        os.mkfifo(path)
        program = subprocess.Popen([programs.traced, how, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with open(path, "rb", buffering=0) as reader:
            made = program.stdout.readline()
            reader.read(1)
        out, errors = program.communicate("go\n", timeout=60)
        lines = [line for line in errors.splitlines() if "trace" in line]
        tap.case(f"a pipe whose reader goes: {how}", expect(
            (made == "made\n", made), (program.returncode == 0, f"{program.returncode}"), (out == ("clean\n" if how == "pipe" else ""), out),
            (len(lines) == 1 and "log 1:" in lines[0] and str(path) in lines[0], errors)))


def check_snapshot(tap, programs, trace):
    """A snapshot of memory: its sums, its picture, and what is none."""
    path, picture = programs.folder / "snapshot.json", programs.folder / "snapshot.svg"
    done = programs.run("snapshot", FERRY_SNAPSHOT=str(path))
    tap.case("a program that runs out of memory", expect((done.returncode == 0, done.stderr), (str(path) in done.stderr, done.stderr)))
    text = path.read_text()
    found = json.loads(text)
    blocks = [block for place in found["places"] for pool in place["pools"] for slab in pool["slabs"] for block in slab["blocks"]]
    done = programs.trace("--json", path)
    summary = json.loads(done.stdout)
    sums = {state: sum(pool[state] for pool in summary["pools"]) for state in ("live", "idle", "pending")}
    wanted = {state: sum(block["bytes"] for block in blocks if block["state"] == state) for state in sums}
    device = [owner for owner in summary["owners"] if owner["kind"] == "device"]
    tap.case("a snapshot as JSON", expect(
        (sums == wanted and sums["live"] > 0 and sums["idle"] > 0, f"{sums} {wanted}"),
        ([(owner["owner"], owner["requested"]) for owner in device] == [("left & right", BYTES)], str(device)),
        (all(pool["live"] + pool["idle"] + pool["pending"] == pool["slab_bytes"] for pool in summary["pools"]), str(summary["pools"]))))
    done = programs.trace("--svg", picture, "--top", 1, path)
    root = xml.etree.ElementTree.parse(picture).getroot()
    shown = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
    slabs = sum(pool["slabs"] for pool in summary["pools"])
    tap.case("a snapshot as text and as a picture", expect(
        ("device memory" in done.stdout and '"left & right" in' in done.stdout, done.stdout),
        ("and 1 more" in done.stdout, done.stdout), (any("emulated" in text and "device memory" in text for text in shown), str(shown)),
        (len(list(root.iter(f"{SVG}rect"))) >= 4 + slabs, "few blocks")))
    many = {"ferry": 1, "version": "x", "trace": "t", "places": [{"place": 0, "name": "host", "pools": [{"kind": "pageable", "limit": 0, "slabs": [
        {"address": "0x1", "bytes": 100, "blocks": [{"offset": 0, "bytes": 100, "state": "live", "requested": 1, "owner": "\x1b<x>", "site": "s"}]}
    ] * 600}]}]}
    done = programs.trace("--svg", picture, "-", text=json.dumps(many))
    tap.case("many slabs and odd names", expect((done.returncode == 0, done.stderr), ("\x1b" not in done.stdout and "?<x>" in done.stdout, done.stdout),
                                               ("100 more slabs are not drawn" in picture.read_text(), "no end")))
    gap = text.replace('"offset":0,', '"offset":1,', 1)
    for what, wrong, word in (("cut", text[:len(text) // 2], "no whole snapshot"), ("a later format", text.replace('"ferry":1', '"ferry":2'), "format 2"),
                              ("without places", '{"ferry":1,"version":"x","trace":null}', "places"), ("a gap", gap, "offset 1")):
        done = programs.trace("-", text=wrong)
        tap.case(f"a snapshot that is none: {what}", expect((done.returncode == 1, f"exit status {done.returncode}"), (word in done.stderr, done.stderr),
                                                           ("Traceback" not in done.stderr, done.stderr)))
    done = programs.trace(trace, path)
    tap.case("a snapshot beside a trace", expect((done.returncode == 1 and "name it alone" in done.stderr, done.stderr)))


def check_words(tap, programs, path):
    done = programs.trace("--help")
    tap.case("--help", expect((all(w in done.stdout for w in ("--json", "--svg", "--top", "--round-trips", "FERRY_TRACE")), done.stdout),
                              (done.returncode == 0, "exit status")))
    for arguments in ([], ["--top", path], ["--top", "x", path], ["--top", "-1", path], ["--round-trips", "0", path], ["--nothing", path]):
        done = programs.trace(*arguments)
        tap.case("wrong use: " + (" ".join(getattr(w, "name", w) for w in arguments) or "no trace"), expect(
            (done.returncode == 2, f"exit status {done.returncode}"), (done.stdout == "", "something on standard output"),
            ("usage:" in done.stderr, "no usage")))
    wrong = {"": "empty", "{": "expected a trace", "[1]": "expected an event", '[{"ph":"X"}{': "',' or ']'", '[{"name":"x"}]': "phase",
             '[{"ph":"Q"}]': "phase", '[{"ph":"i","ts":"1"}]': "number", '[{"ph":"i","ts":99999999999999999999}]': "2^50",
             '[{"ph":"i","args":{"bytes":"1"}}]': "number", '[{"ph":"i","name":"\\q"}]': "escape", "[]x": "end of the file",
             '[{"ph":"i","ts":-1}]': "number"}
    for text, word in wrong.items():
        done = programs.trace("-", text=text)
        tap.case(f"no trace: {text[:30]}", expect((done.returncode == 1, f"exit status {done.returncode}"), (word in done.stderr, done.stderr)))
    done = programs.trace("/dev/null/absent/trace.json")
    tap.case("a file that is not there", expect((done.returncode == 1, "exit status"), ("/dev/null/absent/trace.json" in done.stderr, done.stderr)))
    done = programs.trace("--output", "/dev/null/absent/out", path)
    tap.case("an output that cannot be written", expect((done.returncode == 1, "exit status"), ("/dev/null/absent/out" in done.stderr, done.stderr)))
    done = programs.trace("--json", "-", text="[]")
    tap.case("an empty trace", expect((done.returncode == 0, done.stderr), (json.loads(done.stdout)["events"] == 0, done.stdout)))


def main():
    command, traced, schema = sys.argv[1:]
    schema = json.loads(pathlib.Path(schema).read_text())
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(command, traced, folder)
        path = programs.folder / "known.json"
        done = programs.run("known", path)
        tap.case("the program runs", expect((done.returncode == 0, done.stderr), (done.stderr == "", done.stderr)))
        events = check_file(tap, "known", path, schema)
        check_known_events(tap, events)
        check_perfetto(tap, path)
        check_names(tap, programs)
        check_known_summary(tap, programs, path)
        check_text(tap, programs, path)
        check_lists(tap, programs, path)
        check_rates(tap, programs)
        check_ranks(tap, programs, path)
        check_lines(tap)
        check_mutations(tap)
        check_foreign_texts(tap, programs)
        check_ends(tap, programs)
        check_files(tap, programs)
        check_limit(tap, programs)
        check_pipes(tap, programs)
        check_snapshot(tap, programs, path)
        check_words(tap, programs, path)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
