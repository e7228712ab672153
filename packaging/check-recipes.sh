#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the recipes for Conan, Spack and vcpkg on the release tarball of the committed sources.
# Conan comes from PyPI and runs its recipe and test_package, without a remote. Spack and vcpkg are in no registry of packages:
# their recipes run over stand-ins of the functions that they call. A program then uses what the port of vcpkg installs.
# Needs cmake, ninja, meson, a Python with venv, and network for `pip install conan` unless conan is in PATH.
# usage: check-recipes.sh OUTPUT-FOLDER [PYTHON-WITH-VENV]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
python=${2:-python3}
jinja=${FERRY_GENERATOR_PYTHON:-}
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")
tarball=$out/ferry-$version.tar.xz

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$out/$(basename "$0" .sh).log

# The generator's Python, as Meson looks for it.
for candidate in python3 /usr/bin/python3; do
    [ -n "$jinja" ] || jinja=$("$candidate" -c 'import jinja2, sys; print(sys.executable)' 2>/dev/null) || jinja=
done
[ -n "$jinja" ] || die "no Python has jinja2"

run sh "$root/packaging/make-dist.sh" "$out"

with_spack() {
    run python3 "$root/packaging/checks/spack_recipe.py" "$out/recipes/spack/ferry/package.py" "$root/meson_options.txt" "$tarball"
    ok "Spack: the recipe runs over stand-ins, and names the tarball and options of Meson"
}

# The test_package of Conan, whose CMake finds Ferry as every program does.
uses_package() { # PACKAGE FOLDER
    run cmake -S "$root/packaging/conan/test_package" -B "$2" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_BUILD_TYPE=Release
    run cmake --build "$2"
    FERRY_DEVICE=host run "$2/program"
}

with_vcpkg() {
    for linkage in dynamic static; do
        rm -rf "$out/vcpkg-$linkage"
        run cmake -DPORT_FOLDER="$out/recipes/vcpkg/ferry" -DTARBALL="$tarball" -DWORK="$out/vcpkg-$linkage" -DPYTHON="$jinja" \
            -DLINKAGE="$linkage" -P "$root/packaging/checks/vcpkg_port.cmake"
        uses_package "$out/vcpkg-$linkage/package" "$out/vcpkg-$linkage/program"
        ok "vcpkg, $linkage: the port runs over stand-ins, and a program uses what it installs"
    done
}

with_conan() {
    conan=$(command -v conan) || {
        [ -x "$out/venv/bin/conan" ] || { run "$python" -m venv "$out/venv"; run "$out/venv/bin/pip" install --quiet 'conan>=2,<3'; }
        conan=$out/venv/bin/conan
    }
    # An own folder of Conan, with no remote.
    export CONAN_HOME="$out/conan"
    rm -rf "$CONAN_HOME" "$out/source"
    run "$conan" profile detect
    run "$conan" remote remove '*'
    mkdir "$out/source"
    tar -C "$out/source" -xf "$tarball"
    for shared in True False; do
        run env FERRY_DEVICE=host "$conan" create "$out/source/ferry-$version/packaging/conan" --build 'ferry/*' -o "ferry/*:shared=$shared"
        grep -q '^ferry .*: 100 of 100 structs are right' "$log" || die "test_package did not run"
        ok "Conan, shared=$shared: the package and its test_package build and run"
    done
    rm -rf "$out/source"
}

with_spack
with_vcpkg
with_conan
printf '%d passed, 0 failed\n' "$passed"
