#!/bin/sh
# SPDX-License-Identifier: MIT
# `pip install` of this tree into a new virtual environment: Python imports the package, and a program in C builds with what the
# wheel carries, by pkg-config and by CMake. Needs PyPI for the build backend.
# usage: wheel.sh [PYTHON]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$stage/log

skip() { echo "skipped: $*"; echo "0 passed, 0 failed"; exit 0; }

"${1:-python3}" -m venv "$stage/venv" >"$log" 2>&1 || skip "virtual environments (Debian: python3-venv)"
"$stage/venv/bin/pip" download --quiet --no-deps --dest "$stage" meson-python >"$log" 2>&1 ||
    skip "PyPI cannot be reached, or has no meson-python"
run "$stage/venv/bin/pip" install "${root}[gen]"
ok "pip installs the tree"
run "$stage/venv/bin/python" "$root/tests/python/smoke.py" host emulated:2
ok "the smoke test passes"
run "$stage/venv/bin/python" -c '
import ferry
context = ferry.Context("emulated:1")
twice = ferry.elementwise("read T x, overwrite T y", "y[i] = 2 * x[i];", context=context)
assert twice(ferry.array(b"12", context=context)).tolist() == [98, 100]
'
ok "a kernel from an expression runs"

ferry="$stage/venv/bin/python -m ferry"
PKG_CONFIG_PATH=$($ferry --pkg-config-dir)
export PKG_CONFIG_PATH FERRY_DEVICE=host
run "$stage/venv/bin/ferry-gen" kernels "$root/examples/vector_add.json" -o "$stage/vector_add_kernels.h"
for flags in "$($ferry --cflags) $($ferry --libs)" "$(pkg-config --cflags --libs ferry)"; do
    # shellcheck disable=SC2086 # a list of flags
    run cc -std=c99 -D_GNU_SOURCE -I"$stage" "$root/examples/vector_add.c" -o "$stage/vector_add" $flags
    run "$stage/vector_add"
done
ok "a program in C builds with its flags"

if command -v cmake >/dev/null; then
    cat >"$stage/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.20)
project(program C)
find_package(ferry REQUIRED)
add_executable(program "$root/examples/vector_add.c")
ferry_generate(TARGET program KERNELS "$root/examples/vector_add.json")
END
    export PATH="$stage/venv/bin:$PATH" # ferry-gen needs a Python that has Jinja2
    run cmake -S "$stage" -B "$stage/made" -DCMAKE_PREFIX_PATH="$($ferry --cmake-dir)" -DCMAKE_C_FLAGS=-D_GNU_SOURCE
    run cmake --build "$stage/made"
    run "$stage/made/program"
    ok "a program in C builds with its CMake package"
else
    echo "skipped: CMake, which is not installed"
fi
echo "$passed passed, 0 failed"
