#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the stages of `./dev gpu` after everything is built, the cheapest first.

usage: stages.py [--fake] [--tests FOLDER] [--benches FOLDER] [--out FOLDER] [--seconds N] [STAGE...]

Each stage and each program has a time limit. After each stage $OUT holds summary.txt and gpu.tar.gz, which has all logs and
records; so a run that is cut off loses one stage at most. Without names the stages run that no earlier call has ended: what
ended is in WORK/summary.txt, or in the summary.txt of $OUT. No stage begins that could not end N seconds after the start.

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
sys.path.insert(0, os.path.join(ROOT, "tests"))
import summary  # noqa: E402  (it counts the cases of TAP)

Case = collections.namedtuple("Case", "name command limit needs env folder", defaults=(None, {}, ROOT))
Counts = collections.namedtuple("Counts", "passed failed skipped", defaults=(0, 0, 0))
INFO = ("nvidia-smi", "nvidia-smi -q", "nvidia-smi topo -m", "uname -a", "lscpu", "numactl -H", "free -g", "nvcc --version",
        "cat /sys/fs/cgroup/cpu.max", "cat /proc/driver/nvidia/version", "sh -c 'ulimit -a'")
# Ends of the names of those test programs of buffers that take longest. These programs are started last.
LONG = ("_convert", "_create", "_evict", "_fault", "_history", "_pinning")
BENCHES = {"transfer": 90, "batch": 60, "roundtrip": 60, "overlap": 60, "access": 60, "pool": 60, "convert": 90, "file": 180}

# Tests keep what they freed, so that page faults do not lengthen a session on a device.
ALLOCATOR_OF_TESTS = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}


class Stages:
    def __init__(self, options):
        self.fake, self.tests, self.benches = options.fake, options.tests, options.benches
        self.work = os.path.join(ROOT, "build", "gpu-fake" if self.fake else "gpu")
        self.out = options.out or self.work
        self.deadline = options.seconds and options.began + options.seconds
        if self.fake:
            shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work, exist_ok=True)
        os.makedirs(self.out, exist_ok=True)
        self.env = self.environment()
        self.summary = os.path.join(self.work, "summary.txt")
        if not self.fake and not os.path.exists(self.summary) and os.path.exists(os.path.join(self.out, "summary.txt")):
            shutil.copy(os.path.join(self.out, "summary.txt"), self.summary)

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

    def record(self, name, program, limit, *arguments):
        """A program that writes records. Over fakecuda it runs in its quick mode, because its numbers mean nothing there."""
        arguments += ("--quick",) if self.fake and "--quick" not in arguments else ()
        return Case(name, [program, *arguments, "--json", os.path.join(self.work, name + ".json")], limit)

    def bench(self, name, limit, *arguments):
        return self.record("quick-" + name if arguments else name, os.path.join(self.benches, "bench", "bench_" + name), limit, *arguments)

    def info(self):
        commands = [Case(f"info {text.split()[0]}", ["sh", "-c", text + " || :"], 10, needs=text.split()[0]) for text in INFO]
        return [Case("ferry info", [self.test("cli/ferry"), "info", "-d", "cuda"], 20), *commands]

    def probe(self):
        """The probe. Its answers are compared with those of public sources; the answers of fakecuda also with those of an H100."""
        answers, folder = os.path.join(self.work, "probe.json"), os.path.join(ROOT, "tests/gpu")
        known = [os.path.join(folder, "facts", name) for name in ("fakecuda.json", "h100-580.159.04.json")] if self.fake else []
        return [Case("probe", [self.test("tests/gpu/gpu_probe"), "--json", answers], 50),
                Case("facts", [sys.executable, os.path.join(folder, "check_facts.py"), answers, *known], 10)]

    def contract(self):
        cases = [Case("device suite", [self.test("tests/device/device_suite"), "cuda"], 80),
                 Case("driver", [self.test("tests/gpu/test_gpu_driver")], 40), Case("convert", [self.test("tests/gpu/test_gpu_convert")], 40),
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
        if self.fake: # these libraries call driver functions that fakecuda lacks
            return []
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
        if not self.fake:
            # Each library in another process, because a fault of one must not hide the others.
            env = {"PYTHONPATH": self.test("python") + ":" + self.env.get("PYTHONPATH", "")}
            run = [sys.executable, os.path.join(ROOT, "tests/python/run.py"), os.path.join(ROOT, "tests/gpu/test_consumers.py"), "-k"]
            cases += [Case(f"{name} on a GPU", [*run, name], 100, env=env) for name in ("cupy", "torch", "jax", "numba", "expressions")]
        return cases

    def calls(self):
        return [self.record("calls", os.path.join(self.benches, "tests/gpu/gpu_calls"), 30)]

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

    def staging(self):
        return [self.record("staging", os.path.join(self.benches, "tests/gpu/gpu_staging"), 60)]

    def limits(self):
        """The benchmarks and their limits. fakecuda has no host functions for kernels from source."""
        return {name: limit for name, limit in BENCHES.items() if name != "overlap" or not self.fake}

    def quick(self):
        return [self.bench(name, 20, "--quick") for name in self.limits()]

    def batch_stress(self):
        return [self.record("batch-stress", os.path.join(self.benches, "tests/gpu/gpu_batch_stress"), 60)]

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

    def stages(self):
        full = [(name, limit, lambda name=name, limit=limit: [self.bench(name, limit)], 1) for name, limit in self.limits().items()]
        return [("info", 30, self.info, 1), ("probe", 60, self.probe, 1), ("contract", 120, self.contract, 1), ("clients", 120, self.clients, 1),
                ("bindings", 120, self.bindings, 8), ("calls", 30, self.calls, 1), ("record", 200, self.recording, 1),
                ("buffer", 180, self.buffer, 4), ("staging", 60, self.staging, 1), ("quick", 60, self.quick, 1), *full,
                ("batch-stress", 60, self.batch_stress, 1), ("sanitizer", 180, self.sanitizer, 1), ("ncu", 120, self.ncu, 1),
                ("peers", 60, self.peers, 1)]

    # -- running it --

    def run_case(self, case, limit):
        """Runs a case and returns (counts, output). The time limit is the case's, or the rest of the stage's time if that is less."""
        if limit <= 0:
            return Counts(skipped=1), "# not run: the stage's time is over\n"
        if case.needs and not shutil.which(case.needs):
            return Counts(skipped=1), f"# skipped: {case.needs} is not here\n"
        limit = min(limit, self.scaled(case.limit))
        try:
            # Programs that write records have the user's allocator, whose page faults belong to what they measure.
            allocator = {} if "--json" in case.command else ALLOCATOR_OF_TESTS
            process = subprocess.Popen(case.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**self.env, **allocator, **case.env}, cwd=case.folder,
                                       start_new_session=True, errors="replace", text=True)
        except OSError as error:
            return Counts(failed=1), f"# {error}\n"
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0] + f"\n# killed after {limit:.0f} s\n"
            counts = Counts(*summary.count({"result": "OK", "stdout": output})) if summary.PLAN.search(output) else Counts()
            late = {"skipped": counts.skipped + 1} if self.fake else {"failed": counts.failed + 1}
            return counts._replace(**late), output
        result = {0: "OK", 77: "SKIP"}.get(process.returncode, "FAIL")
        return Counts(*summary.count({"result": result, "returncode": process.returncode, "stdout": output})), output

    def scaled(self, limit):
        return limit / 10 if self.fake else limit

    def run_stage(self, name, limit, cases, workers):
        began = time.monotonic()
        end = began + self.scaled(limit)
        workers = min(workers, os.cpu_count() or 1)
        total = [0, 0, 0]
        with open(os.path.join(self.work, name + ".log"), "w", encoding="utf-8") as log, \
             concurrent.futures.ThreadPoolExecutor(workers) as pool:
            runs = [(case, pool.submit(lambda case=case: self.run_case(case, end - time.monotonic()))) for case in cases]
            for case, run in runs:
                counts, output = run.result()
                log.write(f"==== {case.name}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped\n{output}\n")
                log.flush()
                total = [sum(pair) for pair in zip(total, counts)]
                if counts.failed:
                    print(f"    {name}: {case.name} FAILED\n" + "".join(f"    | {line}\n" for line in output.splitlines()[-20:]), end="")
        counts = Counts(*total)
        status = "failed" if counts.failed else "ok" if counts.passed else "skipped"
        self.note(f"{name:<14} {status:<8} {time.monotonic() - began:6.1f} s  {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
        return counts

    def note(self, line):
        """Replaces the stage's earlier line in the summary, and then copies all results to $OUT."""
        kept = [old for old in self.lines() if old.split()[0] != line.split()[0]]
        with open(self.summary, "w", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text in [*kept, line]))
        print(line, flush=True)
        mend(self.work)
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

    def run(self, names):
        known = self.stages()
        unknown = set(names) - {stage[0] for stage in known}
        if unknown:
            sys.exit(f"stages.py: no stage {', '.join(sorted(unknown))}; there are: {', '.join(stage[0] for stage in known)}")
        ended = [] if names else [line.split()[0] for line in self.lines()]
        sums = [0, 0, 0]
        for name, limit, cases, workers in known:
            if name in ended or (names and name not in names):
                continue
            if self.deadline and time.time() + self.scaled(limit) > self.deadline:
                print(f"{name:<14} not begun: call again to go on")
                continue
            sums = [sum(pair) for pair in zip(sums, self.run_stage(name, limit, cases(), workers))]
        print(f"{sums[0]} passed, {sums[1]} failed")
        return 1 if sums[1] or not any(sums) else 0


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


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--tests", type=os.path.abspath, default=os.path.join(ROOT, "build"))
    parser.add_argument("--benches", type=os.path.abspath, default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", type=os.path.abspath, default=os.environ.get("OUT") and os.path.abspath(os.environ["OUT"]))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FERRY_GPU_SECONDS", 0)))
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
