#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""<ferry/ferry.hpp> alone, and what must not compile, with each C++ compiler and standard.

usage: mistyped.py INCLUDE-FOLDER... -- COMPILER...

Each statement that must not compile has a twin that does. Without a COMPILER, all usual ones are tried.
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
sys.dont_write_bytecode = True

from tap import Tap  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wnon-virtual-dtor",
            "-Woverloaded-virtual", "-Werror"]
STANDARDS = ["c++17", "c++20", "c++2b"]
FRAME = """#include <ferry/ferry.hpp>
#include <ferry/float.h>
#include <ferry/int.h>
#include <array>
#include <vector>
using ferry::in; using ferry::inout; using ferry::out; using ferry::span;
void function(ferry::context &context, ferry::buffer<float> &f, const ferry::buffer<float> &constant, ferry::buffer<int32_t> &n,
              const ferry::kernel<in<float>, out<float>, float> &kernel, std::vector<float> &fs, std::vector<int32_t> &ns,
              ferry::buffer<const float> &lent);
void function(ferry::context &context, ferry::buffer<float> &f, const ferry::buffer<float> &constant, ferry::buffer<int32_t> &n,
              const ferry::kernel<in<float>, out<float>, float> &kernel, std::vector<float> &fs, std::vector<int32_t> &ns,
              ferry::buffer<const float> &lent)
{
    (void)lent, (void)context, (void)f, (void)constant, (void)n, (void)kernel, (void)fs, (void)ns;
    %s
}
"""
# Pairs of similar statements: the first compiles, the second must not. The third entry is a part of the error message
# if Ferry's header writes the message.
PAIRS = [
    ("auto v = f.update_host(); v[0] = 1.0f;", "auto v = f.read_host(); v[0] = 1.0f;", ""),
    ("auto v = f.update_host(); for (float &x : v) x = 1.0f;", "auto v = f.read_host(); for (float &x : v) x = 1.0f;", ""),
    ("auto v = f.update_host(); *v.data() = 1.0f;", "auto v = f.read_host(); *v.data() = 1.0f;", ""),
    ("auto v = f.read_host();", "auto v = f.read_host(); auto w = v;", ""),
    ("auto v = f.read_host();", "auto v = f.read_host(); auto w = std::move(v);", ""),
    ("auto v = constant.read_host();", "auto v = constant.update_host();", ""),
    ("auto v = constant.read_device();", "auto v = constant.overwrite_device();", ""),
    ("constant.copy_to(fs);", "constant.copy_from(fs);", ""),
    ("auto v = f.read_device(); (void)v.get();", "auto v = f.read_device(); (void)v[0];", ""),
    ("auto v = f.read_host(); span<const float> s = v; (void)s;", "auto v = f.read_device(); span<const float> s = v; (void)s;", ""),
    ("auto g = f.share();", "auto g = f;", ""),
    ("ferry::buffer<float> g; g = std::move(f);", "ferry::buffer<float> g; g = f;", ""),
    ("f.copy_from(fs);", "f.copy_from(ns);", ""),
    ("f.copy_to(fs);", "n.copy_to(fs);", ""),
    ("f.copy(0, constant);", "f.copy(0, n);", ""),
    ("(void)f.region(0, constant, 0, 1);", "(void)f.region(0, n, 0, 1);", ""),
    ("kernel(nullptr, ferry::grid(1), f, f, 1.0f);", "kernel(nullptr, ferry::grid(1), n, f, 1.0f);", ""),
    ("kernel(nullptr, ferry::grid(1), constant, f, 1.0f);", "kernel(nullptr, ferry::grid(1), constant, constant, 1.0f);", ""),
    ("kernel(nullptr, ferry::grid(1), constant.range(1), f.range(1), 1.0f);",
     "kernel(nullptr, ferry::grid(1), f.range(1), constant.range(1), 1.0f);", ""),
    ("kernel(nullptr, ferry::grid(1), f, f, 1.0f);", "kernel(nullptr, ferry::grid(1), f, f);", ""),
    ("kernel(nullptr, ferry::grid(1), f, f, 1.0f);", "kernel(nullptr, ferry::grid(1), f, f, f);", ""),
    ("ferry::kernel<in<float>> k(context, \"k\", nullptr, [](span<const float>) {});",
     "ferry::kernel<in<float>> k(context, \"k\", nullptr, [](span<float>) {});", "what the kernel's signature says"),
    ("ferry::kernel<in<float>> k(context, \"k\", nullptr, [](span<const float>) {});",
     "int i = 0; ferry::kernel<in<float>> k(context, \"k\", nullptr, [&i](span<const float>) { i++; });", "passed by std::ref"),
    ("ferry::buffer<float> g(context, 1);", "ferry::buffer<double> g(context, 1);", "include the header that ferry-gen wrote"),
    ("ferry::buffer<float> g(context, 1);", "ferry::buffer<const float> g(context, 1);", ""),
    ("ferry::buffer<float> g(context, 1); auto v = g.read_host();", "auto v = ferry::buffer<float>(context, 1).read_host();", ""),
    ("auto l = f.lease_update(); l.span()[0] = 1.0f;", "auto l = f.lease_read(); l.span()[0] = 1.0f;", ""),
    ("auto l = constant.lease_read();", "auto l = constant.lease_update();", ""),
    # Nothing can be written through a read-only buffer, not even if the object is not const.
    ("auto v = lent.read_host();", "auto v = lent.update_host();", ""),
    ("auto v = lent.read_host(); (void)v[0];", "auto v = lent.overwrite_host();", ""),
    ("auto v = lent.read_device();", "auto v = lent.update_device();", ""),
    ("auto v = lent.read_device(); (void)v.get();", "auto v = lent.overwrite_device();", ""),
    ("auto l = lent.lease_read();", "auto l = lent.lease_update();", ""),
    ("auto l = lent.lease_read(); (void)l.get();", "auto l = lent.lease_overwrite();", ""),
    ("auto v = lent.as_buffer().read_host();", "auto v = lent.as_buffer().update_host();", ""),
    ("auto v = lent.view(0).read_only(1).share();", "auto v = lent.view(0).update_host();", ""),
    ("auto v = lent.reinterpret<int32_t>();", "ferry::buffer<int32_t> v = lent.reinterpret<int32_t>();", ""),
    ("ferry::buffer<const float> g = f.read_only();", "ferry::buffer<float> g = f.read_only();", ""),
    ("ferry::buffer<const float> g; g = f.read_only();", "f = lent.share();", ""),
    ("const ferry::buffer<float> &g = lent.as_buffer(); (void)g;", "const ferry::buffer<float> &g = lent; (void)g;", ""),
    ("const ferry::buffer<float> &g = lent.as_buffer(); (void)g;", "ferry::buffer<float> &g = lent.as_buffer(); (void)g;", ""),
    ("f.copy(0, lent);", "lent.copy(0, f);", ""),
    ("n.convert(0, lent, FERRY_CONVERT_SATURATE);", "lent.convert(0, n, FERRY_CONVERT_SATURATE);", ""),
    ("(void)f.region(0, lent, 0, 1);", "(void)lent.region(0, f, 0, 1);", ""),
    ("(void)lent.region_to(0, fs);", "(void)lent.region_from(0, fs);", ""),
    ("lent.copy_to(fs);", "lent.copy_from(fs);", ""),
    ("auto e = lent.copy_to_async(fs);", "auto e = lent.copy_from_async(fs);", ""),
    ("lent.convert_to(span<int32_t>(ns), FERRY_CONVERT_SATURATE);", "lent.convert_from(span<const int32_t>(ns), FERRY_CONVERT_SATURATE);", ""),
    ("lent.store(\"f\");", "lent.load(\"f\");", ""),
    ("auto e = lent.store_async(\"f\");", "auto e = lent.load_async(\"f\");", ""),
    ("lent.sync_to(1);", "lent.fill(1.0f);", ""),
    ("lent.prefetch(1);", "lent.mark_dirty(1);", ""),
    ("lent.invalidate(1);", "lent.discard();", ""),
    ("lent.evict(1);", "lent.resize(1);", ""),
    ("lent.reserve(1);", "lent.unwrap();", ""),
    ("lent.wait_idle(1);", "lent.abandon();", ""),
    ("const float *p = lent.hold(1); (void)p;", "float *p = lent.hold(1); (void)p;", ""),
    ("lent.release(1);", "lent.release();", ""),
    ("auto s = ferry::buffer<const float>::import_shared(context, lent.export_shared()); s.release_shared();",
     "ferry::buffer<float> s = ferry::buffer<const float>::import_shared(context, lent.export_shared());", ""),
    ("kernel(nullptr, ferry::grid(1), lent, f, 1.0f);", "kernel(nullptr, ferry::grid(1), f, lent, 1.0f);", ""),
    ("kernel(nullptr, ferry::grid(1), lent.range(1), f.range(1), 1.0f);", "kernel(nullptr, ferry::grid(1), f.range(1), lent.range(1), 1.0f);", ""),
    # Memory that is used after the call is no temporary's. What owns nothing may be one.
    ("auto w = ferry::buffer<float>::wrap_host(context, fs);", "auto w = ferry::buffer<float>::wrap_host(context, std::vector<float>(9));", ""),
    ("auto w = ferry::buffer<float>::wrap_host(context, span<float>(fs));",
     "auto w = ferry::buffer<float>::wrap_host(context, std::array<float, 2>());", ""),
    ("span<float> s = fs; (void)s;", "span<float> s = std::vector<float>(9); (void)s;", ""),
    ("auto v = f.update_host(); span<float> s = v; (void)s;", "span<float> s = f.update_host(); (void)s;", ""),
    ("auto e = f.copy_from_async(fs);", "auto e = f.copy_from_async(std::vector<float>(9));", ""),
    ("auto e = f.copy_from_async(span<const float>(fs));", "auto e = f.copy_from_async(f.read_host());", ""),
    ("auto e = f.copy_from_async({fs.data(), 1});", "const auto made = [] { return std::vector<float>(9); }; auto e = f.copy_from_async(made());", ""),
    ("auto e = f.copy_to_async(fs);", "auto e = f.copy_to_async(std::vector<float>(9));", ""),
    ("auto e = f.copy_to_async(span<float>(fs));", "auto e = f.copy_to_async(f.update_host());", ""),
    ("f.copy_to(fs);", "f.copy_to(std::vector<float>(9));", ""),
    ("(void)f.region_from(0, fs);", "(void)f.region_from(0, std::vector<float>(9));", ""),
    ("(void)f.region_to(0, span<float>(fs));", "(void)f.region_to(0, std::vector<float>(9));", ""),
    ("f.copy_from(std::vector<float>(9));", "f.convert_to(std::vector<int32_t>(9), FERRY_CONVERT_SATURATE);", ""),
    ("f.copy_from(f.read_host());", "f.copy_to(f.update_host());", ""),
]


def compile_text(compiler, standard, folders, text, *options):
    command = [*compiler, f"-std={standard}", *WARNINGS, "-Wno-unused", *options, *(f"-I{folder}" for folder in folders), "-x", "c++",
               "-fsyntax-only", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else done.stderr.splitlines() or ["exit status %d" % done.returncode]


def check_right(compiler, standard, folders):
    """All that compiles, in one file."""
    return compile_text(compiler, standard, folders, FRAME % "\n    ".join(f"{{ {right} }}" for right, _, _ in PAIRS))


# An error in a statement, or one in a header for what a statement instantiates.
REFUSED = re.compile(r"<stdin>:(\d+):\d+:(?: error:|   required from here| note: in instantiation of .* requested here)")


def refused_together(compiler, standard, folders):
    """The statements with an error when all that must not compile stands in one file, which takes a fiftieth of the time."""
    first = FRAME[:FRAME.index("%s")].count("\n") + 1
    text = FRAME % "\n    ".join(f"{{ {wrong} }}" for _, wrong, _ in PAIRS)
    lines = compile_text(compiler, standard, folders, text, "-ferror-limit=0" if "clang" in compiler[0] else "-fmax-errors=0")
    seen = {int(found.group(1)) for found in map(REFUSED.match, lines) if found}
    return {wrong for number, (_, wrong, _) in enumerate(PAIRS) if first + number in seen}


def check_wrong(compiler, standard, folders, wrong, part):
    problems = compile_text(compiler, standard, folders, FRAME % wrong)
    if not problems:
        return [f"compiles: {wrong}"]
    return [] if part in "\n".join(problems) else [f"the message lacks '{part}'", *problems[:10]]


def main():
    end = sys.argv.index("--")
    folders, compiler = sys.argv[1:end], sys.argv[end + 1:]
    compilers = [compiler] if compiler else [[name] for name in ("g++", "clang++") if shutil.which(name)]
    tap = Tap()
    if not compilers:
        tap.skip("<ferry/ferry.hpp>", "there is no C++ compiler")
    for compiler in compilers:
        for standard in STANDARDS:
            for header in ("ferry.hpp", "complex.hpp"):
                text = f"#include <ferry/{header}>\n#include <ferry/{header}>\nextern int used;\n"
                tap.case(f"<ferry/{header}> alone with {compiler[0]} as {standard}", compile_text(compiler, standard, folders, text))
        tap.case(f"<ferry/ferry.hpp> refuses C++14 with {compiler[0]}",
                 [] if "needs C++17" in "\n".join(compile_text(compiler, "c++14", folders, "#include <ferry/ferry.hpp>\n")) else ["compiles"])
        for standard in STANDARDS:
            tap.case(f"what compiles, with {compiler[0]} as {standard}", check_right(compiler, standard, folders))
        refused = refused_together(compiler, STANDARDS[0], folders)
        for _, wrong, part in PAIRS:  # alone where the message is checked, and where only an error of another statement was reported
            tap.case(f"refused by {compiler[0]}: {wrong}",
                     [] if wrong in refused and not part else check_wrong(compiler, STANDARDS[0], folders, wrong, part))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
