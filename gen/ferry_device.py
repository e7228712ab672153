# SPDX-License-Identifier: MIT
"""Compiles texts of devices without a device: with NVRTC, with hiprtc, and with clang for OpenCL C.

As a program, it is the child in which NVRTC or hiprtc runs: a compiler that meets what it does not know may end its process.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
NO_COMPILER = 77  # exit status where no text could be compiled, which Meson and CTest take for a skipped test
SECONDS = 300  # a text that takes longer is refused
LINES = 20  # of what a compiler says of one text
TITLES = {"cuda": "CUDA C++", "hip": "HIP C++", "opencl": "OpenCL C"}


def language_of(target):
    """The language that has a target of this form, or None."""
    forms = {"cuda": r"(sm|compute)_\d+[a-z]?", "hip": r"gfx\w+(:\w+[+-])*", "opencl": r"CL\d\.\d"}
    return next((language for language, form in forms.items() if re.fullmatch(form, target)), None)


# -- texts --------------------------------------------------------------------------------------------------------------------


class Text:
    """What a device compiles: as the library puts it together in src/kernel/compile.c."""

    def __init__(self, name, language, text, elements=(), options=(), exact=False, small_size=False):
        self.name = name
        self.language = language
        self.options = list(options)
        self.exact = exact
        named = (re.match(r"(?:--gpu-architecture|-arch|--offload-arch|-cl-std)=(.+)", option) for option in self.options)
        self.target = next((match[1] for match in named if match), None)  # that its options name, in place of any other
        is_opencl = language == "opencl"
        self.text = "#define FERRY_SIZE_32\n" if is_opencl and small_size else ""
        self.text += declarations(language)
        self.text += "#pragma OPENCL FP_CONTRACT OFF\n" if is_opencl and exact else ""
        self.text += "".join(f"{one}\n" for one in dict.fromkeys(element.opencl_text if is_opencl else element.cuda_text for element in elements) if one)
        self.text += "#line 1\n" + text


def declarations(language):
    """What precedes every text of a language."""
    with open(os.path.join(HERE, "declarations." + ("cl" if language == "opencl" else "cu")), encoding="utf-8") as file:
        return file.read()


def kernel_texts(kernel):
    """Yields the Texts of a kernel, and of that which combines the partial results of a reduction."""
    elements = [parameter.element for parameter in kernel.parameters]
    small_size = kernel.owner.target.scalars["size_t"][1] == 32
    parts = [(kernel.sym, elements, kernel.exact, kernel.options, kernel.cuda_text, kernel.opencl_text)]
    if kernel.result:
        parts.append((kernel.sym + "_into", [], False, {}, kernel.into_text, kernel.into_opencl_text))
    for name, declared, exact, options, cuda, opencl in parts:
        for language, text in (("cuda", cuda), ("hip", cuda), ("opencl", opencl)):
            if text:
                yield Text(name, language, text, declared, options.get(language, ()), exact, small_size)


def type_texts(element):
    """Yields the Texts of a struct's declarations, with its size, which a declaration that was given must have too."""
    for language, declared in (("cuda", element.cuda_text), ("hip", element.cuda_text), ("opencl", element.opencl_text)):
        if declared:
            name, check = (element.opencl_type, "_Static_assert") if language == "opencl" else (element.c_type, "static_assert")
            yield Text(element.sym, language, f'{check}(sizeof({name}) == {element.bytes}, "{element.c_type} has {element.bytes} bytes in C");\n', [element])


def texts_of(described):
    """The Texts of a file of kernels or of types."""
    kernels = getattr(described, "kernels", None)
    return list(type_texts(described)) if kernels is None else [text for kernel in kernels for text in kernel_texts(kernel)]


# -- libraries that compile, in a child of the process ------------------------------------------------------------------------


def nvrtc_names():
    """Where NVRTC may be, in the order of the library (src/device/cuda/nvrtc.c) and of its Python package."""
    wheels = [os.path.join(path, "nvidia", folder) for path in sys.path if path for folder in ("cu13/lib", "cuda_nvrtc/lib")]
    folders = os.environ["FERRY_NVRTC_FOLDERS"].split(":") if "FERRY_NVRTC_FOLDERS" in os.environ else wheels
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"):
        yield from (path for path in (os.path.join(folder, name) for folder in folders) if os.path.isabs(path) and os.path.exists(path))
        yield name


def hiprtc_names():
    """The same of hiprtc, which is in the library of HIP itself in old releases."""
    return [f"lib{name}.so.{major}" for major in (7, 6, 5) for name in ("hiprtc", "amdhip64")]


class Child:
    """In the child: one of the two libraries, whose functions differ in their prefix alone."""

    def __init__(self, prefix):
        self.prefix = prefix
        wanted = os.environ.get(f"FERRY_{prefix.upper()}_LIBRARY")
        self.library = None
        for name in [wanted] if wanted else {"nvrtc": nvrtc_names, "hiprtc": hiprtc_names}[prefix]():
            try:
                library = ctypes.CDLL(name)
            except OSError:
                continue
            if hasattr(library, prefix + "CompileProgram"):
                self.library = library
                break

    def call(self, function, *arguments):
        return getattr(self.library, self.prefix + function)(*arguments)

    def facts(self):
        """None if there is no library, else what the parent needs of it."""
        if not self.library:
            return None
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.call("Version", ctypes.byref(major), ctypes.byref(minor))
        targets = []
        if self.prefix == "nvrtc":
            self.call("GetNumSupportedArchs", ctypes.byref(count))
            numbers = (ctypes.c_int * count.value)()
            self.call("GetSupportedArchs", numbers)
            targets = list(numbers)
        return {"version": f"{major.value}.{minor.value}", "targets": targets}

    def problem(self, name, text, options):
        """What the compiler says of a text, "" when it compiles."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        self.call("CreateProgram", ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
        result = self.call("CompileProgram", program, len(options), given)
        self.call("GetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        self.call("GetProgramLog", program, log)
        self.call("DestroyProgram", ctypes.byref(program))
        said = log.value.decode(errors="replace").strip()
        return (said or f"{self.prefix}CompileProgram returns {result}") if result else ""


def serve(prefix):
    """Runs in the child. Answers each text with a line; what the compiler itself prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.alarm(SECONDS)
    child = Child(prefix)
    print(json.dumps(child.facts()), file=answers, flush=True)
    for arguments in json.load(sys.stdin):
        signal.alarm(SECONDS)
        print(json.dumps(child.problem(*arguments)), file=answers, flush=True)


class Runtime:
    """NVRTC or hiprtc."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.is_hip = prefix == "hiprtc"
        self.title = "hiprtc" if self.is_hip else "NVRTC"
        self.language = "hip" if self.is_hip else "cuda"
        answers, _ = self.ask([])
        self.found = answers[0] if answers else None
        variable = f"FERRY_{prefix.upper()}_LIBRARY"
        self.missing = f"{variable} names no library that can be loaded" if os.environ.get(variable) else "not installed"
        if self.found:
            self.title += " " + self.found["version"]

    def ask(self, jobs):
        """(the answers of a child, why there is no further one)."""
        command = [sys.executable, "-B", os.path.realpath(__file__), self.prefix]
        done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True, errors="replace", check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        end = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        return answers, "\n".join([f"{self.prefix} ended its process: {end}", *done.stderr.splitlines()[-LINES:]])

    @property
    def default(self):
        """The oldest target that Ferry has, or that the compiler knows."""
        return "gfx90a" if self.is_hip else f"compute_{75 if 75 in self.found['targets'] else min(self.found['targets'])}"

    def job(self, text, target):
        options = [] if text.target else [f"--offload-arch={target}" if self.is_hip else f"--gpu-architecture={target}"]
        exact = ["-ffp-contract=off" if self.is_hip else "--fmad=false"] if text.exact else []
        return text.name + (".hip" if self.is_hip else ".cu"), text.text, options + text.options + exact

    def problems(self, texts, target):
        """What the compiler says of each text. A child that ends is answer enough to the text that it had, and another one goes on."""
        jobs, found = [self.job(text, target) for text in texts], []
        while len(found) < len(jobs):
            answers, end = self.ask(jobs[len(found):])
            found += answers[1:]
            if len(found) < len(jobs):
                found.append(end)
        return found


class Clang:
    """clang, which reads OpenCL C."""

    language = "opencl"
    default = "CL1.2"  # what a device compiles unless an option says otherwise
    missing = "not installed"

    def __init__(self):
        names = ["clang", *(f"clang-{major}" for major in range(30, 9, -1))]
        self.found = next(filter(None, map(shutil.which, names)), None)
        self.title = "clang"
        if self.found:
            said = subprocess.run([self.found, "--version"], capture_output=True, text=True, check=False).stdout
            self.title = re.sub(r"(?s).*?clang version (\d[\d.]*).*", r"clang \1", said, count=1)[:40]

    def problems(self, texts, target, options=()):
        with tempfile.TemporaryDirectory() as folder:
            return [self.problem(text, target, options, folder) for text in texts]

    def problem(self, text, target, more, folder):
        path = os.path.join(folder, text.name + ".cl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.text)
        command = [self.found, "-x", "cl", f"-cl-std={target}", "-target", "spir64", "-Xclang", "-fdeclare-opencl-builtins", "-Xclang",
                   "-finclude-default-header", "-fsyntax-only", *more, *text.options, path]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        return (done.stderr.strip() or f"clang ended: exit status {done.returncode}") if done.returncode else ""


def compilers():
    """One of each language, found or not."""
    return [Runtime("nvrtc"), Runtime("hiprtc"), Clang()]


# -- ferry-gen check --device -------------------------------------------------------------------------------------------------


def check_devices(described, targets):
    """Compiles the texts of all files for the targets, or for the default one of each language, and prints a line for each.
    Returns (problems, whether a text was compiled)."""
    problems, compiled = [], False
    texts = [(one.path, text) for one in described for text in texts_of(one)]
    for compiler in compilers():
        asked = [target for target in targets if language_of(target) == compiler.language]
        own = [(path, text) for path, text in texts if text.language == compiler.language]
        if targets and not asked:
            continue
        if not compiler.found:
            print(f"{compiler.title}: {compiler.missing}")
            continue
        for target in asked or [compiler.default]:
            compiled = True
            for (path, text), problem in zip(own, compiler.problems([text for _, text in own], target)):
                what = f"{TITLES[text.language]} for {text.target or target} by {compiler.title}"
                if problem:
                    problems.append("\n    ".join([f"{path}: {text.name}: does not compile as {what}:", *problem.splitlines()[:LINES]]))
                else:
                    print(f"{path}: {text.name}: compiles as {what}")
    return problems, compiled


if __name__ == "__main__":
    serve(sys.argv[1])
