#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the stages of `./dev gpu`. Those come first whose answers matter most.

usage: stages.py [--fake] [--tests FOLDER] [--benches FOLDER] [--work FOLDER] [--out FOLDER] [--seconds N] [STAGE...]

Stages have a priority: A answers what only a GPU can, B tests the library and its neighbours, C takes long. A STAGE is a name or
a priority. What a stage runs is built when its turn comes, so a build that fails or is slow costs only the stages that need it.

Each stage and each program has a time limit. After each stage $OUT holds summary.txt and gpu.tar.gz, which has all logs and
records; so a run that is cut off loses one stage at most. No stage begins that could not end N seconds after the start, apart
from its build. N is 570, or FERRY_GPU_SECONDS; 0 sets no deadline, as --fake does without that variable.

WORK, build/gpu, holds what earlier calls did: their summary.txt, or their gpu.tar.gz alone. A stage that has ended, well or not,
runs again only if it is named. A stage that the deadline cut, or in which the machine killed a program, is tried again. So
a fresh machine to which build/gpu was carried goes on where the last one stopped.

--fake runs the same stages over fakecuda as the system's libcuda, with a tenth of each limit and --quick benchmarks. A
program that runs late there is skipped, since the machine may be busy.

The last line is "N passed, M failed". Exit status: 0; 1 when something failed; 77 without a GPU.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "bench")]
import run as bench_run  # noqa: E402  (it names the commit)
import summary  # noqa: E402  (it counts the cases of TAP)

Case = collections.namedtuple("Case", "name command limit needs env folder", defaults=(None, {}, ROOT))
Counts = collections.namedtuple("Counts", "passed failed skipped cut", defaults=(0, 0, 0, 0))
# `tests` and `benches` are files to build in these folders, `suites` those whose tests the stage plays, `needs` a program or a thing.
Stage = collections.namedtuple("Stage", "name limit cases workers tests benches suites needs", defaults=(1, (), (), (), None))
SECONDS = 570 # a machine that is lent for ten minutes a command has time to hand over the results
BUILD_LIMIT = 600 # without a deadline
INFO = ("nvidia-smi", "nvidia-smi -q", "nvidia-smi topo -m", "uname -a", "lscpu", "numactl -H", "free -g", "nvcc --version",
        "cat /sys/fs/cgroup/cpu.max", "cat /proc/driver/nvidia/version", "sh -c 'ulimit -a'")
# Ends of the names of those test programs of buffers that take longest. These programs are started last.
LONG = ("_convert", "_create", "_evict", "_fault", "_history", "_pinning")
PARTS = ("256K", "512K", "1M", "2M")

# Tests keep what they freed, so that page faults do not lengthen a session on a device.
ALLOCATOR_OF_TESTS = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}


class Stages:
    def __init__(self, options):
        self.fake, self.tests, self.benches = options.fake, options.tests, options.benches
        self.work = options.work or os.path.join(ROOT, "build", "gpu-fake" if self.fake else "gpu")
        self.out = options.out or self.work
        seconds = options.seconds if options.seconds is not None else 0 if self.fake else SECONDS
        self.deadline = seconds and time.monotonic() + options.began + seconds - time.time()
        self.commit = os.environ.get("FERRY_GPU_COMMIT") or bench_run.commit() or "unknown"
        if self.fake:
            shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work, exist_ok=True)
        os.makedirs(self.out, exist_ok=True)
        self.env = self.environment()
        self.summary = os.path.join(self.work, "summary.txt")
        self.resume()

    def resume(self):
        """Unpacks the results of an earlier call where only their archive is left."""
        for archive in (os.path.join(folder, "gpu.tar.gz") for folder in (self.work, self.out)):
            if not os.path.exists(self.summary) and os.path.exists(archive):
                shutil.unpack_archive(archive, self.work)

    def environment(self):
        env = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "FERRY_DEVICE": "cuda", "FERRY_CACHE_DIR": ""}
        env.pop("FERRY_CUDA_LIBRARY", None)
        if self.fake:
            folder = os.path.join(self.work, "driver")
            os.makedirs(folder)
            os.symlink(os.path.join(self.tests, "tests/support/libfakecuda.so"), os.path.join(folder, "libcuda.so.1"))
            env["LD_LIBRARY_PATH"] = folder + ":" + env.get("LD_LIBRARY_PATH", "")
            env["FERRY_NVRTC_LIBRARY"] = "/nowhere" # the real NVRTC would call driver functions that fakecuda lacks
        return env

    # -- what there is to run --

    def test(self, path):
        return os.path.join(self.tests, path)

    def record(self, name, program, limit):
        """A program that writes records. Over fakecuda it runs in its quick mode, because its numbers mean nothing there."""
        return Case(name, [program, *(["--quick"] if self.fake else []), "--json", os.path.join(self.work, name + ".json")], limit)

    def bench(self, name, limit):
        return self.record(name, os.path.join(self.benches, "bench", "bench_" + name), limit)

    def info(self):
        commands = [Case(f"info {text.split()[0]}", ["sh", "-c", text + " || :"], 10, needs=text.split()[0]) for text in INFO]
        return [Case("ferry info", [self.test("cli/ferry"), "info", "-d", "cuda"], 20), *commands]

    def probe(self):
        """The probe. Its answers are compared with those of public sources; the answers of fakecuda also with those of an H100."""
        answers, folder = os.path.join(self.work, "probe.json"), os.path.join(ROOT, "tests/gpu")
        known = [os.path.join(folder, "facts", name) for name in ("fakecuda.json", "h100-580.159.04.json")] if self.fake else []
        return [Case("probe", [self.test("tests/gpu/gpu_probe"), "--json", answers], 50),
                Case("facts", [sys.executable, os.path.join(folder, "check_facts.py"), answers, *known], 10)]

    def parts(self):
        """The transfers with staged parts of several sizes, where the library has a key for them."""
        ferry = subprocess.run([self.test("cli/ferry"), "info", "-d", "cuda"], env={**self.env, "FERRY_TUNING": f"staging.part={PARTS[0]}"},
                               capture_output=True, text=True, check=False)
        needs = "the tuning key staging.part" if "is unknown" in ferry.stderr else None
        program = os.path.join(self.benches, "bench/bench_transfer")
        return [self.record(f"parts-{part}", program, 60)._replace(needs=needs, env={"FERRY_TUNING": f"staging.part={part}"}) for part in PARTS]

    def contract(self):
        cases = [Case("device suite", [self.test("tests/device/device_suite"), "cuda"], 80),
                 Case("driver", [self.test("tests/gpu/test_gpu_driver")], 40), Case("shared", [self.test("tests/gpu/test_gpu_shared")], 20),
                 Case("convert", [self.test("tests/gpu/test_gpu_convert")], 40),
                 Case("scatter", [self.test("tests/gpu/gpu_scatter")], 20)]
        if not self.fake: # fakecuda has no host functions for the kernels of examples
            cases.append(Case("vector_add", [self.test("examples/vector_add")], 20))
        return cases

    def build_tests(self, suites):
        """The tests of the build in these suites."""
        with open(self.test("meson-info/intro-tests.json"), encoding="utf-8") as file:
            return [test for test in json.load(file) if {name.split(":")[-1] for name in test["suite"]} & suites]

    def build_case(self, test, limit, needs=None, env=None):
        """A test of the build. Its command may name programs relative to the folder where Meson runs it."""
        return Case(test["name"], on_this_machine(test["cmd"]), limit, needs, env or {}, test.get("workdir") or self.tests)

    def clients(self):
        """The documents' programs that use CUDA's libraries, with the commands of their tests in the build."""
        names = [f"programs of docs/{name}.md" for name in ("with-cuda-libraries", "with-nccl")]
        return [self.build_case(test, 90) for test in self.build_tests({"clients"}) if test["name"] in names]

    def bindings(self):
        """Tests of the bindings, kernels, clients and examples that the build plays over fakecuda or an emulated device, over this driver."""
        cases = []
        for test in self.build_tests({"cpp", "fortran", "gen", "clients", "examples", "python"}):
            env, python, example = dict(test["env"]), "python" in test["suite"][0], "examples" in test["suite"][0]
            if env.get("FERRY_DEBUG") == "1" or env.get("FAKECUDA_MODE") == "lazy" or "bench" in test["name"]:
                continue
            if not (python or env.get("FERRY_DEVICE") == ("emulated" if example else "cuda")):
                continue
            # fakecuda has no host functions for kernels from source, and a test of the package alone names the driver.
            if self.fake and not test["name"].startswith("buffers in"):
                continue
            for name in ("FAKECUDA_MODE", "FERRY_CUDA_LIBRARY", "FERRY_NVRTC_LIBRARY", "FERRY_DEVICE"):
                env.pop(name, None)
            env["LD_LIBRARY_PATH"] = env.get("LD_LIBRARY_PATH", "") + ":" + self.env.get("LD_LIBRARY_PATH", "")
            if python:
                env["FERRY_CUDA_LIBRARY"] = "libcuda.so.1"
                env["PYTHONPATH"] = env.get("PYTHONPATH", "") + ":" + self.env.get("PYTHONPATH", "")
            needed = next((word for word in test["cmd"] if os.path.basename(word) == "mpiexec"), None)
            case = self.build_case(test, 100, needed, env)
            # The package's tests take longer than all others, so their files run side by side.
            files = glob.glob(os.path.join(ROOT, "tests/python/test_*.py")) if os.path.basename(case.command[-1]) == "run.py" else []
            cases += [case._replace(name=f"{case.name}: {os.path.basename(path)}", command=[*case.command, path]) for path in files] or [case]
        return cases

    def consumers(self, *names):
        """Tests beside other libraries. Each library in another process, because a fault of one must not hide the others."""
        env = {"PYTHONPATH": self.test("python") + ":" + self.env.get("PYTHONPATH", "")}
        run = [sys.executable, os.path.join(ROOT, "tests/python/run.py"), os.path.join(ROOT, "tests/gpu/test_consumers.py"), "-k"]
        return [Case(f"{name} on a GPU", [*run, name], 100, env=env) for name in names]

    def halo(self):
        """The halo exchange of MPI: the example over this driver, and its calls, which fakecuda counts, beside a program by hand."""
        ranks = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        example = Case("halo on a GPU", ["mpiexec", "-n", "4", self.test("examples/halo")], 40, env=ranks)
        return [*([] if self.fake else [example]), self.bench("client_halo", 60)]

    def program(self, name, limit):
        """A program of tests/gpu that writes records."""
        return [self.record(name, os.path.join(self.benches, "tests/gpu/gpu_" + name.replace("-", "_")), limit)]

    def recording(self):
        """Records programs and replays their logs over fakecuda, with the cost of each call. Results of a real driver may differ."""
        fake = self.test("tests/support/libfakecuda.so")
        cases = []
        for name, *command in (["driver", self.test("tests/gpu/test_gpu_driver")], ["contract", self.test("tests/device/device_suite"), "cuda"]):
            log = os.path.join(self.work, f"record-{name}.log")
            replay = [sys.executable, os.path.join(ROOT, "tests/gpu/replay.py"), log, fake, "--costs", os.path.join(self.work, f"record-{name}.cost")]
            env = {"FERRY_CUDA_LIBRARY": self.test("tests/gpu/librecordcuda.so"), "FERRY_RECORD_FILE": log}
            cases += [Case(f"record {name}", command, 120, env={**env, "FERRY_RECORD_LIBRARY": fake if self.fake else "libcuda.so.1"}),
                      Case(f"replay {name}", replay + ([] if self.fake else ["--report"]), 120)]
        return cases[:2] if self.fake else cases

    def buffer(self):
        programs = [path for path in glob.glob(self.test("tests/buffer/test_buffer_*")) if os.path.isfile(path) and os.access(path, os.X_OK)]
        programs.sort(key=lambda path: (path.endswith(LONG), path))
        return [Case(os.path.basename(path), [path], 120) for path in programs]

    def histories(self):
        """Random calls of the library, as tests/histories draws them."""
        env = {"FERRY_CUDA_LIBRARY": "libcuda.so.1"}
        command = [self.test("tests/histories/histories"), "--device", "cuda", "--operations", "2000" if self.fake else "200000"]
        return [Case("histories", command, 300, env=env)]

    def sanitizer(self):
        """Programs under compute-sanitizer, in a build whose pools report their blocks to the tool."""
        folder, tool = os.path.join(ROOT, "build/check/sanitizer"), "compute-sanitizer"
        programs = ("tests/gpu/gpu_scatter", "tests/gpu/test_gpu_convert", "tests/buffer/test_buffer_hazards")
        build = (f"[ -f {folder}/build.ninja ] || meson setup {folder} -Ddebug_checks=true -Dbench=disabled -Dcli=disabled -Dexamples=disabled; "
                 f"meson compile -C {folder} {' '.join(os.path.basename(program) for program in programs)}")
        runs = [Case(f"{check} {os.path.basename(program)}", [tool, "--tool", check, "--error-exitcode", "1", os.path.join(folder, program)], 60, tool)
                for check in ("memcheck", "initcheck", "racecheck") for program in programs[:3 if check == "memcheck" else 2]]
        return [Case("sanitizer build", ["sh", "-ec", build], 150, tool), *runs]

    def ncu(self):
        tool = ["ncu", "--set", "basic", "--clock-control", "none", "--launch-count", "40"]
        return [Case("ncu scatter", [*tool, self.test("tests/gpu/gpu_scatter")], 60, "ncu"),
                Case("ncu convert", [*tool, self.test("tests/gpu/test_gpu_convert")], 60, "ncu")]

    def peers(self):
        return [Case("peers", [sys.executable, os.path.join(ROOT, "tests/gpu/peers.py"), os.path.join(self.work, "peers.json")], 60)]

    def bench_stage(self, name, limit):
        return Stage(name, limit, lambda: [self.bench(name, limit)], benches=["bench/bench_" + name])

    def program_stage(self, name, limit):
        return Stage(name, limit, lambda: self.program(name, limit), benches=["tests/gpu/gpu_" + name.replace("-", "_")])

    def stages(self):
        """The stages by priority, in the order in which they run."""
        bindings = ("cpp", "fortran", "gen", "clients", "examples", "python")
        bench, program = self.bench_stage, self.program_stage
        needs = "a GPU" if self.fake else None # fakecuda lacks driver functions that others call, and kernels that NVRTC compiles
        device_tests, kernels = ["tests/gpu/test_gpu_driver", "tests/device/device_suite"], ["tests/gpu/test_gpu_convert", "tests/gpu/gpu_scatter"]
        first = [Stage("info", 30, self.info, tests=["cli/ferry"]), Stage("probe", 60, self.probe, tests=["tests/gpu/gpu_probe"]),
                 program("first-context", 30), program("small", 30), program("calls", 30),
                 Stage("parts", 160, self.parts, benches=["bench/bench_transfer"]), bench("transfer", 90), bench("batch", 60)]
        second = [Stage("graphs", 60, lambda: self.consumers("graph"), suites=["python"], needs=needs),
                  Stage("consumers", 120, lambda: self.consumers("cupy", "torch and not graph", "jax", "numba", "expressions"), 5,
                        suites=["python"], needs=needs),
                  Stage("contract", 140, self.contract, tests=[*device_tests, "tests/gpu/test_gpu_shared", *kernels, "examples/vector_add"]),
                  Stage("buffer", 180, self.buffer, 4, suites=["buffer"]), Stage("bindings", 120, self.bindings, 8, suites=bindings),
                  Stage("clients", 120, self.clients, suites=["clients"], needs=needs), bench("overlap", 60)._replace(needs=needs), bench("convert", 90),
                  bench("file", 180), bench("access", 60), bench("pool", 60), bench("roundtrip", 60),
                  Stage("halo", 90, self.halo, tests=["examples/halo"], benches=["bench/bench_client_halo"], needs="mpicc")]
        third = [program("batch-stress", 60), Stage("sanitizer", 180, self.sanitizer), program("pressure", 90),
                 Stage("record", 200, self.recording, tests=[*device_tests, "tests/gpu/librecordcuda.so", "tests/support/libfakecuda.so"]),
                 program("staging", 90),
                 Stage("peers", 60, self.peers), Stage("ncu", 120, self.ncu, tests=kernels),
                 Stage("histories", 300, self.histories, tests=["tests/histories/histories"])]
        return {"A": first, "B": second, "C": third}

    # -- running it --

    def run_case(self, case, end):
        """Runs a case and returns (counts, output). The time limit is the case's, or what is left until `end` if that is less."""
        limit, rest, cuts = case.limit, end - time.monotonic(), self.deadline and end >= self.deadline
        if case.needs and not shutil.which(case.needs):
            return Counts(skipped=1), f"# skipped: {case.needs} is not here\n"
        if rest <= 0:
            return (Counts(cut=1), "# not run: the deadline is over\n") if cuts else (Counts(skipped=1), "# not run: the stage's time is over\n")
        try:
            # Programs that write records have the user's allocator, whose page faults belong to what they measure.
            allocator = {} if "--json" in case.command else ALLOCATOR_OF_TESTS
            process = subprocess.Popen(case.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**self.env, **allocator, **case.env}, cwd=case.folder,
                                       start_new_session=True, errors="replace", text=True)
        except OSError as error:
            return Counts(failed=1), f"# {error}\n"
        try:
            output, _ = process.communicate(timeout=min(limit, rest))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + f"\n# killed after {min(limit, rest):.0f} s\n"
            counts = Counts(*summary.count({"result": "OK", "stdout": output})) if summary.PLAN.search(output) else Counts()
            late = "cut" if cuts and rest < limit else "skipped" if self.fake else "failed"
            return counts._replace(**{late: getattr(counts, late) + 1}), output
        if process.returncode == -signal.SIGKILL:
            return Counts(cut=1), output + "\n# killed by the machine\n"
        result = {0: "OK", 77: "SKIP"}.get(process.returncode, "FAIL")
        return Counts(*summary.count({"result": result, "returncode": process.returncode, "stdout": output})), output

    def scaled(self, limit):
        return limit / 10 if self.fake else limit

    def until(self, limit):
        """The moment `limit` seconds from now, or the deadline if that is earlier."""
        return min(time.monotonic() + limit, self.deadline or float("inf"))

    def builds(self, stage):
        """The commands that build what a stage runs. Those of a stage whose need is not met are skipped."""
        tests = list(stage.tests)
        if stage.suites:
            played = [sys.executable, os.path.join(ROOT, "tests/played.py"), self.tests, "--suite", *stage.suites]
            tests += subprocess.run(played, capture_output=True, text=True, check=True).stdout.split()
        return [Case(f"build in {os.path.relpath(folder, ROOT)}", [os.path.join(ROOT, "dev"), "gpu-build", os.path.relpath(folder, ROOT), *files], BUILD_LIMIT, stage.needs)
                for folder, files in ((self.tests, tests), (self.benches, stage.benches)) if files]

    def build(self, stage):
        """Returns (case, counts, output) of the first build that did not succeed, or nothing."""
        for case in self.builds(stage):
            counts, output = self.run_case(case, self.until(BUILD_LIMIT))
            if not counts.passed:
                return [(case, counts, output)]
        return []

    def play(self, stage):
        """Yields (case, counts, output) for each case of a stage."""
        end, workers = self.until(self.scaled(stage.limit)), min(stage.workers, os.cpu_count() or 1)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            cases = [case._replace(limit=self.scaled(case.limit)) for case in stage.cases()]
            for case, run in [(case, pool.submit(self.run_case, case, end)) for case in cases]:
                yield case, *run.result()

    def run_stage(self, stage):
        began, name, total = time.monotonic(), stage.name, Counts()
        self.note(f"{name:<14} cut         0.0 s  begun and never ended, at {self.commit}")
        with open(os.path.join(self.work, name + ".log"), "w", encoding="utf-8") as log:
            log.write(f"# {name} at {self.commit}\n")
            for case, counts, output in self.build(stage) or self.play(stage):
                log.write(f"==== {case.name}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped\n{output}\n")
                log.flush()
                total = Counts(*map(sum, zip(total, counts)))
                if counts.failed:
                    print(f"    {name}: {case.name} FAILED\n" + "".join(f"    | {line}\n" for line in output.splitlines()[-20:]), end="")
        status = "cut" if total.cut else "failed" if total.failed else "ok" if total.passed else "skipped"
        line = (f"{name:<14} {status:<8} {time.monotonic() - began:6.1f} s  {total.passed} passed, {total.failed} failed, "
                f"{total.skipped} skipped, {total.cut} cut, at {self.commit}")
        self.note(line)
        print(line, flush=True)
        self.pack()
        return total

    def note(self, line):
        """Replaces the stage's earlier line in the summary."""
        kept = [old for old in self.lines() if old.split()[0] != line.split()[0]]
        with open(self.summary, "w", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text in [*kept, line]))

    def pack(self):
        """Copies all results to $OUT."""
        mend(self.work)
        name_commit(self.work, self.commit)
        with tarfile.open(os.path.join(self.out, "gpu.tar.gz.new"), "w:gz") as archive:
            for path in sorted(glob.glob(os.path.join(self.work, "*.*"))):
                if not path.endswith((".gz", ".new")):
                    archive.add(path, os.path.basename(path))
        os.replace(os.path.join(self.out, "gpu.tar.gz.new"), os.path.join(self.out, "gpu.tar.gz"))
        if self.out != self.work:
            shutil.copy(self.summary, os.path.join(self.out, "summary.txt"))

    def lines(self):
        if not os.path.exists(self.summary):
            return []
        with open(self.summary, encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file if line.strip()]

    def wanted(self, names):
        """The stages with these names or priorities, or else all that did not end in an earlier call."""
        known = [(priority, stage) for priority, stages in self.stages().items() for stage in stages]
        unknown = set(names) - {priority for priority, _ in known} - {stage.name for _, stage in known}
        if unknown:
            sys.exit(f"stages.py: no stage {', '.join(sorted(unknown))}; there are: {', '.join(stage.name for _, stage in known)}")
        if names:
            return [stage for priority, stage in known if priority in names or stage.name in names]
        ended = {line.split()[0] for line in self.lines() if line.split()[1] != "cut"}
        return [stage for _, stage in known if stage.name not in ended]

    def run(self, names):
        total = Counts()
        for stage in self.wanted(names):
            if self.deadline and time.monotonic() + self.scaled(stage.limit) > self.deadline:
                print(f"{stage.name:<14} not begun: call again to go on")
                continue
            total = Counts(*map(sum, zip(total, self.run_stage(stage))))
        print(f"{total.passed} passed, {total.failed} failed")
        return 1 if total.failed else 0


def on_this_machine(command):
    """The command of a test in the build, with this Python in the place of the one that the build found."""
    return [sys.executable, *command[1:]] if os.path.basename(command[0]).startswith("python") else command


def mend(folder):
    """Completes the JSON files of programs that were killed before they closed their array of records."""
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if not text.startswith("[") or text.rstrip().endswith("]"):
            continue
        lines = text.rstrip().rstrip(",").split("\n")
        while lines and not lines[-1].rstrip(",").endswith("}"):
            lines.pop()
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines).rstrip(",") + "\n]\n" if lines else "[]\n")


def name_commit(folder, commit):
    """Names the commit in each file of records that does not name one yet: in its record of the environment, or in a new one."""
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        records = json.loads(text) if text.startswith("[") else []
        if not records or any("commit" in record for record in records):
            continue
        if records[0].get("bench") != "environment":
            records.insert(0, {"bench": "environment"})
        records[0]["commit"] = commit
        bench_run.write_records(path, records)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--tests", type=os.path.abspath, default=os.path.join(ROOT, "build"))
    parser.add_argument("--benches", type=os.path.abspath, default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", type=os.path.abspath, default=os.environ.get("OUT") and os.path.abspath(os.environ["OUT"]))
    parser.add_argument("--work", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=os.environ.get("FERRY_GPU_SECONDS"))
    parser.add_argument("--began", type=float, default=time.time())
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    stages = Stages(options)
    there = subprocess.run([stages.test("cli/ferry"), "info", "-d", "cuda"], env=stages.env, capture_output=True, text=True, check=False)
    if there.returncode != 0:
        print(there.stdout + there.stderr + "no GPU to test on")
        return 77
    return stages.run(options.names)


if __name__ == "__main__":
    sys.exit(main())
