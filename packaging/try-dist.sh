#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the release tarball and its wrap with make-dist.sh. Then builds, tests and installs what the tarball holds, and has a
# project take Ferry through the wrap.
# The tests run without git, because a tarball is no repository. They are the quick suites; `meson dist` without --no-tests
# runs all of them, in several times as long.
# usage: try-dist.sh OUTPUT-FOLDER [SUITE...]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
shift
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$root/meson.build")
name=ferry-$version
tarball=$out/$name.tar.xz

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$out/$(basename "$0" .sh).log

run sh "$root/packaging/make-dist.sh" "$out"
run sh "$root/tests/consumer/wrapped.sh" "$tarball" "$out/ferry.wrap"

# A program of this name that notes its calls and fails.
rm -rf "$out/source" "$out/build" "$out/stage" "$out/bin" "$out/git-calls"
mkdir -p "$out/bin" "$out/source"
printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>"%s/git-calls"\nexit 127\n' "$out" >"$out/bin/git"
chmod +x "$out/bin/git"
PATH=$out/bin:$PATH
tar -C "$out/source" -xf "$tarball"

run meson setup "$out/build" "$out/source/$name" -Dwerror=true -Dbench=disabled -Dmpi=disabled -Dfortran=disabled \
    ${FERRY_GENERATOR_PYTHON:+-Dgenerator_python="$FERRY_GENERATOR_PYTHON"}
[ $# -gt 0 ] || set -- unit gen headers lint cli examples docs python
for suite in "$@"; do
    shift
    set -- "$@" --suite "ferry:$suite"
done
run meson compile -C "$out/build"
# Emulated memory is filled where it is taken: see keeping_memory in tests/stages.sh.
FERRY_CACHE_DIR='' MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 \
    run meson test -C "$out/build" --no-rebuild --timeout-multiplier 4 --no-suite more --no-suite browser "$@"
tests=$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$log")
[ "${tests:-0}" -gt 0 ] || die "no test ran"
[ ! -e "$out/git-calls" ] || die "a test calls git: $(sort -u "$out/git-calls")"

DESTDIR=$out/stage run meson install -C "$out/build" --no-rebuild --skip-subprojects
[ -n "$(find "$out/stage" -name ferry.pc)" ] || die "ferry.pc is not installed"
rm -rf "$out/source" "$out/build" "$out/stage"
echo "dist: $name.tar.xz builds, passes $tests tests, installs, and is taken through ferry.wrap"
